"""Intervals whose counts cannot be: one damaged count may decide a run whose sums are possible.

What no core can do and what contradicts itself is looked for in each interval, as in the whole run
(`perfkit.fitters.bottlenecks.doubts`). Such intervals are left out where the others are nearly all of the run; else the
run is doubted.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.fitters.bottlenecks.doubts import (
    DAMAGED,
    LEFT_OUT,
    contradicting_counts,
    impossible_beyond,
    impossible_shares,
    share_counted,
)
from perfkit.samples.impossible import Kept, leave_out
from perfkit.samples.table import Samples, complete_runs

_KEYS = ["run", "place", "interval"]
_LATER = "share: full."


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
    cannot = keys.loc[[str(code) for code in told], _KEYS].itertuples(index=False, name=None)
    kept = leave_out(samples, dict(zip(cannot, told.values(), strict=True)))
    return replace(
        kept,
        left_out={run: f"{LEFT_OUT}: {words}" for run, words in kept.left_out.items()},
        damaged={run: f"{DAMAGED} {words}" for run, words in kept.damaged.items()},
    )


def _each_a_run(samples: Samples) -> tuple[Samples, pd.DataFrame]:
    """Return samples in which each interval is a run, and these runs with what they are of, and their part of it."""
    table = samples.table
    codes = table.groupby(_KEYS, observed=True, sort=False).ngroup().astype(str)
    keys = table.assign(code=codes).drop_duplicates("code").set_index("code")[[*_KEYS, "time"]]
    keys = keys.astype({"run": "str", "place": "str"})
    keys["part"] = keys["time"] / keys.groupby("run")["time"].transform("sum").where(lambda whole: whole > 0)
    apart = table.assign(run=codes.astype("category"))
    return replace(samples, table=apart, runs=complete_runs(apart, None, samples.kind)), keys
