"""Simulated counts under the names that a processor has for them, as a dump measured there would have them.

For data/make/league.py and tests/benchmarks/unlike.py: what `perfkit.Bottlenecks` sees of a real dump is less than the
simulator counts, and its probabilities for real dumps are learnt of simulated runs seen so.
"""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import perfkit as pk
from perfkit.fitters.bottlenecks.features import SUMS, any_of, port_events
from perfkit.fitters.bottlenecks.names import countable, names_for

_PORT = {"10": "A", "11": "B"}


def busy_ports(counts: pd.DataFrame, core: pk.Microarchitecture) -> pd.DataFrame:
    """Return how many uops each single port executes: those of a group go to its least busy ports."""
    groups = {name: set(group.units) for name, group in core.ports.items() if f"uops.{name}" in counts}
    found = pd.DataFrame(0.0, index=counts.index, columns=sorted(set().union(*groups.values())))
    own: dict[str, pd.Series] = {}
    for name in sorted(groups, key=lambda one: len(groups[one])):  # a group's event counts those of groups within it
        within = [counts[f"uops.{name}"] * 0.0, *(own[other] for other in own if groups[other] < groups[name])]
        own[name] = (counts[f"uops.{name}"] - sum(within)).clip(lower=0.0)
        units = sorted(groups[name])
        loads = np.sort(found[units].to_numpy(), axis=1)
        levels = (own[name].to_numpy()[:, None] + np.cumsum(loads, axis=1)) / np.arange(1, len(units) + 1)
        above = np.column_stack([loads[:, 1:], np.full(len(loads), np.inf)])
        level = np.take_along_axis(levels, (levels <= above).argmax(axis=1)[:, None], axis=1)
        found[units] = np.maximum(found[units].to_numpy(), level)
    return found


def as_real(wide: pd.DataFrame, core: pk.Microarchitecture, divisions: NDArray[np.float64] | float) -> pk.Samples:
    """Return counts under the names that a processor has for them.

    Parameters
    ----------
    wide : DataFrame
        Counts, with cycles and instructions; the index has a level ``run``, a row is an interval.
    core : Microarchitecture
        Whose names.
    divisions : array or float
        Elements divided, of each row: AMD counts them.
    """
    counts = wide.drop(columns=["cycles", "instructions"])
    for event in ("mem-loads", "l1.accesses"):  # no program of a processor loads nothing at all
        counts[event] = counts[event].clip(lower=1.0)
    ports, named = busy_ports(counts, core), {}
    for event in sorted(countable(core.vendor, core.name)):
        for name in names_for(event, core.vendor, core.name)[:1]:
            for real in name.split("+"):
                if (digits := re.search(r"port_([0-9_]+)$", real)) is not None:
                    units = [f"p{_PORT.get(one, one)}" for one in digits[1].split("_")]
                    named[real] = ports[[unit for unit in units if unit in ports]].sum(axis=1)
                elif event == any_of("dividers"):
                    if groups := [f"uops.{group}" for group in port_events(core)["dividers"]]:
                        named[real] = counts[groups].max(axis=1)
                elif all(part in counts for part in SUMS.get(event, (event,))):
                    named.setdefault(real, counts[list(SUMS.get(event, (event,)))].sum(axis=1))
    if core.vendor == "AMD":
        named["fp_ret_sse_avx_ops.div_flops"] = wide["instructions"] * 0.0 + divisions
    rows = [
        pd.DataFrame({"run": wide.index.get_level_values("run"), "interval": range(len(wide)), "event": real,
                      "time": wide["cycles"], "work": wide["instructions"], "count": values})
        for real, values in named.items()
    ]  # fmt: skip
    return pk.Samples.from_frame(pd.concat(rows), kind="measured", time_event="cycles", work_event="instructions")
