"""Intervals whose counts cannot be: one damaged count may decide a run whose sums are possible.

What no core can do and what contradicts itself is looked for in each interval, as in the whole run
(`perfkit.fitters.bottlenecks.doubts`). Such intervals are left out where the others are nearly all of the run; else the
run is doubted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import counted
from perfkit.fitters.bottlenecks.doubts import (
    DAMAGED,
    LEFT_OUT,
    contradicting_counts,
    impossible_beyond,
    impossible_shares,
    share_counted,
)
from perfkit.samples.table import Samples, complete_runs

_KEYS = ["run", "place", "interval"]
_LATER = "share: full."
_MOST_LEFT_OUT = 0.1  # of a run's cycles: without more than that, what is left is another program


@dataclass(frozen=True)
class Kept:
    """Samples without the intervals whose counts cannot be.

    Attributes
    ----------
    samples : Samples
        What is left.
    left_out : mapping of run to str
        Which intervals are not there, and why, in words.
    damaged : mapping of run to str
        Of which runs so many intervals are such that none was left out, in words.
    """

    samples: Samples
    left_out: Mapping[str, str]
    damaged: Mapping[str, str]


def intervals_left(
    samples: Samples,
    shares: Callable[[Samples], tuple[pd.Index, Mapping[str, NDArray[np.float64]]]],
    beyond: Callable[[Samples], pd.DataFrame],
) -> Kept:
    """Return samples without intervals whose counts cannot be.

    Parameters
    ----------
    samples : Samples
        Of which each interval is judged as a run of its own.
    shares : function
        Of such samples; returns their runs and their shares of capacity.
    beyond : function
        Of such samples; returns what `perfkit.fitters.bottlenecks.doubts.beyond_shares` does.
    """
    apart, keys = _each_a_run(samples)
    if len(keys) <= keys["run"].nunique():
        return Kept(samples, {}, {})
    index, counted_of = shares(apart)
    # Buffers are counted for as long as accesses wait, which reach into the next interval: only a run's sum is bounded.
    mine = {name: of * np.nan if name.startswith(_LATER) else of for name, of in counted_of.items()}
    weight = keys["part"].reindex(index.astype(str))
    impossibly = impossible_shares(mine, share_counted(apart, index), 1.0, weight.to_numpy(dtype=float))
    found = [(str(one), each[0]) for one, each in zip(index, impossibly, strict=True) if each]
    found += impossible_beyond(beyond(apart), apart, keys["part"])
    found += [(one, told[0]) for one, told in contradicting_counts(apart, keys["run"]).items()]
    told = dict(reversed(found))
    left_out, damaged, drop = {}, {}, set()
    for run, mine in keys[keys.index.isin(list(told))].groupby("run", sort=False):
        words = f"{_which(mine, int((keys['run'] == run).sum()))}: {told[str(mine.index[0])]}"
        if mine["part"].sum() <= _MOST_LEFT_OUT:
            left_out[str(run)] = f"{LEFT_OUT}: {words}"
            drop |= set(mine.index)
        else:
            damaged[str(run)] = f"{DAMAGED} {words}"
    if not drop:
        return Kept(samples, left_out, damaged)
    return Kept(samples.select(mask=~apart.table["run"].isin(drop).to_numpy()), left_out, damaged)


def _each_a_run(samples: Samples) -> tuple[Samples, pd.DataFrame]:
    """Return samples in which each interval is a run, and these runs with what they are of, and their part of it."""
    table = samples.table
    codes = table.groupby(_KEYS, observed=True, sort=False).ngroup().astype(str)
    keys = table.assign(code=codes).drop_duplicates("code").set_index("code")[[*_KEYS, "time"]]
    keys = keys.astype({"run": "str", "place": "str"})
    keys["part"] = keys["time"] / keys.groupby("run")["time"].transform("sum").where(lambda whole: whole > 0)
    apart = table.assign(run=codes.astype("category"))
    return replace(samples, table=apart, runs=complete_runs(apart, None, samples.kind)), keys


def _which(intervals: pd.DataFrame, of: int) -> str:
    """Return which intervals of so many, in words."""
    first = intervals.iloc[0]
    where = f" of {first['place']}" if first["place"] else ""
    one = f"interval {first['interval']}{where}"
    return (
        f"{one} of {of}"
        if len(intervals) == 1
        else f"{one} and {counted(len(intervals) - 1, 'more intervals')} of {of}"
    )
