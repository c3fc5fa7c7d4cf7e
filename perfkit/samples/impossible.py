"""Intervals in which no core can have counted so: a digit that was lost, or one too many."""

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.errors import PerfkitWarning, counted
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, modes, normalise, other_core
from perfkit.samples.table import Samples

MOST_IPC = 16  # instructions per cycle: no core ends more
_MOST_CLOCK = 1e10  # cycles per second of a processor's time
_APART = 1.25  # by so much counters of one interval may be apart
_SHARED = 0.95  # of the time: an event counted for less was scaled up
_FAR = 100  # times what the other intervals have
_NANOSECONDS = 2e6  # of task-clock per second: above, it is no number of milliseconds
_KEY = ["run", "place", "interval"]
Interval = tuple[str, str, int]
"""Run, place, interval."""
_MOST_LEFT_OUT = 0.1  # of a run's time: without more than that, what is left is another program
# Events that count cycles themselves, by what they wait for: there can be no more of them than cycles.
CYCLES_OF = frozenset(
    name.replace(".", "_")
    for name in (
        "dtlb_load_misses.walk_active", "dtlb_load_misses.walk_duration", "dtlb_store_misses.walk_active",
        "dtlb_store_misses.walk_duration", "itlb_misses.walk_active", "itlb_misses.walk_duration",
        "arith.divider_active", "arith.div_active", "arith.fpu_div_active", "ex_div_busy", "resource_stalls.sb",
        "cycle_activity.stalls_l1d_miss", "cycle_activity.stalls_l2_miss", "cycle_activity.stalls_l3_miss",
        "cycle_activity.stalls_mem_any", "memory_activity.stalls_l1d_miss", "memory_activity.stalls_l2_miss",
        "memory_activity.stalls_l3_miss", "exe_activity.bound_on_stores", "exe_activity.bound_on_loads",
        "icache_16b.ifdata_stall", "icache_64b.iftag_stall", "icache.ifdata_stall", "icache_data.stalls",
        "icache_tag.stalls", "idq_uops_not_delivered.cycles_0_uops_deliv.core", "int_misc.recovery_cycles",
        "int_misc.clear_resteer_cycles", "ild_stall.lcp", "dsb2mite_switches.penalty_cycles", "l1d_pend_miss.fb_full",
        "stalled-cycles-frontend", "stalled-cycles-backend", "stall_frontend", "stall_backend", "stall_backend_mem",
        "stall_frontend_cache", "stall_frontend_tlb", "stall_backend_cache", "stall_backend_tlb",
    )
)  # fmt: skip
_PORT = re.compile(r"uops_dispatched(?:_port)?\.port_\d$")
# Operations, of which no core begins or ends more per cycle than it does instructions.
_OPERATIONS = ("uops_issued.any", "uops_retired.retire_slots", "uops_retired.slots", "ex_ret_ops", "op_retired")
# At most so many of them per instruction: a gather has several loads, and some processors count loads never retired.
_PER_INSTRUCTION = {
    "branches": 1.0, "branch-instructions": 1.0, "branch-misses": 1.0, "br_inst_retired.all_branches": 1.0,
    "br_retired": 1.0, "ex_ret_brn": 1.0, "ex_ret_brn_misp": 1.0, "br_misp_retired.all_branches": 1.0,
    "br_mis_pred_retired": 1.0, "l1-dcache-loads": 4.0, "l1-dcache-stores": 4.0, "mem-loads": 4.0, "mem-stores": 4.0,
    "mem_inst_retired.all_loads": 1.0, "mem_inst_retired.all_stores": 1.0,
}  # fmt: skip
# Misses that are more than the instructions, and far more than in other intervals.
_MISSES = (
    "cache-misses", "llc-load-misses", "l1-dcache-load-misses", "longest_lat_cache.miss", "mem_load_retired.l1_miss",
    "mem_load_retired.l2_miss", "mem_load_retired.l3_miss", "ls_dmnd_fills_from_sys.dram_io_near",
    "ls_dmnd_fills_from_sys.mem_io_local", "ll_cache_miss_rd", "l1d_cache_refill", "l2d_cache_refill",
)  # fmt: skip


@dataclass(frozen=True)
class Impossible:
    """One interval that cannot be: its place among the samples, and why, in words."""

    run: str
    place: str
    interval: int
    at: float
    why: str

    def told(self) -> str:
        """Say which interval it is, and why it cannot be."""
        where = "".join(f" of {each}" for each in (self.place,) if each)
        at = f" (until {self.at:.4g} s)" if np.isfinite(self.at) else ""
        return f"interval {self.interval}{at}{where}: {self.why}"


def counts_instructions_per_cycle(samples: Samples) -> bool:
    """Whether work per time is instructions per cycle of a processor, by the names of the events."""
    cycles = normalise(samples.time_event) in set(TIME_EVENTS) - {"seconds"}
    return cycles and normalise(samples.work_event) in WORK_EVENTS and "__" not in samples.work_event


def impossible_intervals(samples: Samples) -> list[Impossible]:
    """Return the intervals in which more happened than can, each once, in their order."""
    if not counts_instructions_per_cycle(samples) or not len(samples.table):
        return []
    table = samples.table[samples.table["time"].notna() & samples.table["work"].notna()]
    found: dict[tuple[str, str, int], Impossible] = {}
    for part, why in _too_many(table, samples):
        for row in part.itertuples():
            key = (str(row.run), str(row.place), int(row.interval))
            found.setdefault(key, Impossible(*key, float(row.at), why(row)))
    return sorted(found.values(), key=lambda each: (each.run, each.place, each.interval))


def without_impossible(samples: Samples, found: list[Impossible]) -> Samples:
    """Return the samples without these intervals; all of them where these are half of them or more."""
    if not found or 2 * len(found) >= samples.n_intervals:
        return samples
    return _without(samples, {(each.run, each.place, each.interval) for each in found})


def _without(samples: Samples, out: Collection[Interval]) -> Samples:
    keys = zip(
        *(samples.table[name].astype(kind) for name, kind in zip(_KEY, (str, str, int), strict=True)), strict=True
    )
    return samples.select(mask=np.array([key not in out for key in keys]))


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


def leave_out(samples: Samples, told: Mapping[Interval, str]) -> Kept:
    """Leave intervals out whose counts cannot be, where the others are nearly all of their run's time.

    Parameters
    ----------
    samples : Samples
        Of which the intervals are.
    told : mapping of (run, place, interval) to str
        The intervals, and why their counts cannot be.
    """
    each = samples.table.drop_duplicates(_KEY).astype({"run": "str", "place": "str"}).set_index(_KEY)["time"]
    left_out, damaged, drop = {}, {}, set[Interval]()
    for run, time in each.groupby(level="run", sort=False):
        bad = [key for key in time.index if key in told]
        if not bad:
            continue
        place, words = (f" of {bad[0][1]}" if bad[0][1] else ""), told[bad[0]]
        more = f" and {counted(len(bad) - 1, 'more intervals')}" if len(bad) > 1 else ""
        words = f"interval {bad[0][2]}{place}{more} of {len(time)}: {words}"
        if time[bad].sum() <= _MOST_LEFT_OUT * time.sum():
            left_out[str(run)] = words
            drop |= set(bad)
        else:
            damaged[str(run)] = words
    return Kept(_without(samples, drop) if drop else samples, left_out, damaged)


def warn_of_impossible(samples: Samples, what: str) -> Samples:
    """Return the samples without intervals of more instructions per cycle than any core ends, and warn of them."""
    if not counts_instructions_per_cycle(samples):
        return samples
    table = samples.table
    beyond = (table["work"] > MOST_IPC * table["time"]).to_numpy() & (table["time"] > 0).to_numpy()
    if not beyond.any() or 2 * np.count_nonzero(beyond) >= len(table):
        return samples
    rows = table[beyond].drop_duplicates(_KEY)
    first = rows.iloc[0]
    told = Impossible(str(first["run"]), str(first["place"]), int(first["interval"]), float(first["at"]), _ipc(first))
    warnings.warn(
        f"{counted(len(rows), 'intervals')} left out of {what}: no core ends more than {MOST_IPC} instructions per "
        f"cycle ({told.run}, {told.told()})",
        PerfkitWarning,
        stacklevel=3,
    )
    return samples.select(mask=~beyond)


def seconds_run(samples: Samples) -> pd.Series:
    """Return each interval's seconds of processor time, by ``task-clock``; NaN where it was not counted."""
    each = samples.table.drop_duplicates(_KEY).set_index(_KEY)
    is_clock = [normalise(str(e)).startswith(("task-clock", "cpu-clock")) for e in samples.table["event"]]
    clocks = samples.table[np.array(is_clock, dtype=bool)]
    count = clocks.drop_duplicates(_KEY).set_index(_KEY)["count"].reindex(each.index)
    length = each["seconds"]
    per_second = (count / length.where(length > 0)).median()
    return count * (1e-9 if per_second > _NANOSECONDS else 1e-3)


_Found = tuple[pd.DataFrame, Callable[..., str]]


def _too_many(table: pd.DataFrame, samples: Samples) -> list[_Found]:
    """Return the rows that cannot be, with the words for one of them, the plainest reason first."""
    names = {str(e): normalise(str(e)) for e in table["event"].cat.categories}
    mine = {e for e in names if modes(e) == modes(samples.time_event) and not other_core(e, samples.time_event)}
    event = table["event"].astype(str)
    sure = table["running"].isna() | (table["running"] >= _SHARED)
    often = event.map({e: _PER_INSTRUCTION[n] for e, n in names.items() if e in mine and n in _PER_INSTRUCTION})
    cycles = event.isin(
        [e for e, n in names.items() if e in mine and (n.replace(".", "_") in CYCLES_OF or _PORT.match(n))]
    )
    operations = event.isin([e for e, n in names.items() if e in mine and n in _OPERATIONS])
    out: list[_Found] = [
        (table[(table["work"] > MOST_IPC * table["time"]) & (table["time"] > 0)], _ipc),
        (
            table[sure & cycles & (table["count"] > _APART * table["time"])],
            lambda row: f"{row.event} counts {row.count_:.3g} cycles of {row.time:.3g}",
        ),
        (
            table[sure & operations & (table["count"] > MOST_IPC * table["time"])],
            lambda row: f"{row.event} are {row.count_ / row.time:.3g} per cycle",
        ),
        (
            table[sure & (table["count"] > _APART * often.astype(float) * table["work"])],
            lambda row: f"{row.event} are {row.count_:.3g} of {row.work:.3g} instructions",
        ),
    ]
    out = [(part.assign(count_=part["count"]), why) for part, why in out]
    rate = table["count"] / table["work"].where(table["work"] > 0)
    usual = rate.groupby(event).transform("median")
    misses = event.isin([e for e, n in names.items() if e in mine and n in _MISSES])
    jump = table[sure & misses & (rate > 1) & (rate > _FAR * usual)].assign(count_=lambda part: part["count"])
    out.append((jump, lambda row: f"{row.event} are {row.count_:.3g} of {row.work:.3g} instructions"))
    ran = seconds_run(samples).rename("ran")
    timed = table.drop_duplicates(_KEY).join(ran, on=_KEY)
    fast = timed[timed["time"] > _MOST_CLOCK * timed["ran"]]
    out.append((fast, lambda row: f"{row.time / row.ran / 1e9:.3g} GHz by task-clock"))
    return out


def _ipc(row: "pd.Series") -> str:
    return f"{row.work / row.time:.3g} instructions per cycle" if row.time > 0 else "instructions without cycles"
