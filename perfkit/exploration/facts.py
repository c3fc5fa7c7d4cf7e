"""What a dump is, and how good: the first things to know of counts that somebody else took."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from perfkit.errors import counted, listed
from perfkit.fitters.cpi.checks import same_names
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import (
    TIME_EVENTS,
    WORK_EVENTS,
    counter_unit,
    mode_cautions,
    modes,
    normalise,
    other_core,
    per_unit,
)
from perfkit.samples.impossible import (
    MOST_IPC,
    counts_instructions_per_cycle,
    impossible_intervals,
    without_impossible,
)
from perfkit.samples.processors import generic_misses, processor_of
from perfkit.samples.table import Samples

FEW = 20  # intervals; what is fitted to fewer may be chance
_SHOWN = 8
# Misses, and what they are misses of by their names. Not iTLB-load-misses: Intel's iTLB-loads are hits of the second
# level, of which there may be fewer.
_MISSES_OF = (
    ("cache-misses", ("cache-references",)),
    ("branch-misses", ("branches", "branch-instructions")),
    ("branch-load-misses", ("branch-loads",)),
    ("br_misp_retired.all_branches", ("br_inst_retired.all_branches",)),
    ("ex_ret_brn_misp", ("ex_ret_brn",)),
    ("l1-dcache-load-misses", ("l1-dcache-loads",)),
    ("l1d_cache_refill", ("l1d_cache",)),
    ("llc-load-misses", ("llc-loads",)),
    ("longest_lat_cache.miss", ("longest_lat_cache.reference",)),
    ("dtlb-load-misses", ("dtlb-loads",)),
)
_NOISE = 1.1  # what estimates of counters that took turns may be off by
_SHARED = 0.95  # of the time: an event counted for less was scaled up
_IDLE = 1e7  # cycles per second; cores run at a thousand million and more


def facts(samples: Samples) -> dict[str, str]:
    """Return what the dump is, in words: files, machine, events, intervals, runs and kind."""
    files = [s for s in dict.fromkeys(samples.runs["source"]) if s]
    events = samples.events
    shown = listed(events, _SHOWN)
    seconds = _seconds(samples)
    length = f", {seconds[0]:.4g} s in all, {seconds[1]:.3g} s the median interval" if seconds else ""
    of_axes = {modes(e) for e in (samples.time_event, samples.work_event) if e != "seconds"}
    mode = {"u": " (user mode only)", "k": " (kernel mode only)"}.get("/".join(sorted(of_axes)), "")
    places = [str(p) for p in samples.table["place"].unique() if p]
    of_places = f" of {len(places)} places" if len(places) > 1 else ""
    out = {
        "files": ", ".join(files) or "no file",
        "data": samples.kind,
        "processor": processor_of(samples)[1],
        "runs": _names(list(samples.runs.index)),
        "intervals": f"{samples.n_intervals:,}{of_places}{length}",
        "events": f"{len(events)}: {shown}" if events else "none besides time and work",
        "time and work": f"{samples.time_event} and {samples.work_event}{mode}",
    }
    shares = samples.work_event.endswith(" x s]")  # of slots, as toplev prints them: no work
    if not shares and (ends := _throughputs(samples)) and ends[1] >= 1.2 * ends[0]:
        unit = per_unit(samples.work_event, samples.time_event)
        out["phases"] = f"{ends[0]:.3g} to {ends[1]:.3g} {unit} in 90 % of the intervals"
    if of_places:
        out["places"] = _names(places)
    commands = [c for c in dict.fromkeys(samples.runs["command"]) if c]
    return out | ({"command": _names(commands)} if commands else {})


def quality(samples: Samples) -> list[str]:
    """Return what its reader should know of the counts, the gravest first."""
    told = [
        *[n.partition(": caution: ")[2] for n in samples.notes if ": caution: " in n],
        *_modes(samples),
        *[each for each in (idle(samples), impossible(samples)) if each],
        *dict.fromkeys(contradictions(samples).values()),
        *generic_misses(samples, samples.events),
        *_other_cores(samples),
        *_aliases(samples),
        *_multiplexing(samples),
        *_missing(samples),
        *_few(samples),
        *_phases(samples),
    ]
    clocks = [e for e in samples.events if is_fixed_rate(e)]
    if clocks:
        what = "time, slots or work" if {normalise(e) for e in clocks} & set(WORK_EVENTS) else "time or slots"
        told.append(f"{_names(clocks)} count {what}: read, and never ranked or fitted")
    if len(samples.problems):
        told.append(f"{counted(len(samples.problems), 'lines')} could not be used; samples.problems lists them")
    return told


def idle(samples: Samples) -> str:
    """Return a warning where hardly anything ran while the counters did; "" otherwise, or where nobody knows."""
    each = _each(samples)
    if (
        samples.kind != "measured"
        or each is None
        or normalise(samples.time_event) not in set(TIME_EVENTS) - {"seconds"}
    ):
        return ""
    timed = each[(each["seconds"] > 0) & each["time"].notna()]
    rate = timed["time"].sum() / timed["seconds"].sum() if len(timed) else np.nan
    if not rate < _IDLE:
        return ""
    return (
        f"hardly anything ran: {rate:.3g} cycles per second, under 1 % of a core's clock. The counts are of an idle "
        "machine or of a program that waits, and shares of its cycles explain nothing of its time"
    )


def impossible(samples: Samples) -> str:
    """Return a warning where the counts cannot be: of all intervals, or of so many that nothing is left; else ""."""
    if counts_instructions_per_cycle(samples) and MOST_IPC < samples.throughput() < np.inf:
        return (
            f"no core ends more than {MOST_IPC:g} instructions per cycle. {samples.time_event} and "
            f"{samples.work_event} are not of one scale, or not of one program: nothing that follows from them holds"
        )
    found = impossible_intervals(samples)
    if not found or 2 * len(found) < samples.n_intervals:
        return ""
    many = "" if samples.n_intervals == 1 else f" in {len(found)} of {samples.n_intervals} intervals"
    return f"the counts cannot be{many}: {found[0].why}. Nothing that follows from them holds"


def sound(samples: Samples) -> tuple[Samples, str]:
    """Return the samples without intervals that cannot be, and a warning that names these; "" of none."""
    found = impossible_intervals(samples)
    rest = without_impossible(samples, found)
    if rest is samples:
        return samples, ""
    left = (
        f"{len(found)} of {samples.n_intervals} intervals cannot be and {'is' if len(found) == 1 else 'are'} left out"
    )
    return rest, f"{left}: {listed([each.told() for each in found], 3)}; {_with_and_without(samples, rest)}"


def _with_and_without(samples: Samples, rest: Samples) -> str:
    """Say what their intervals change in the throughput."""
    per = per_unit(samples.work_event, samples.time_event)
    if not np.isfinite(rest.throughput()):
        return f"nothing of {per} is left"
    return f"with them {samples.throughput():.3g}, without {rest.throughput():.3g} {per}"


def incomplete(samples: Samples) -> str:
    """Return how little of the time the counters of time and work ran, in words; "" where they ran throughout."""
    axes = [e for e in (samples.time_event, samples.work_event) if e != "seconds"]
    of_axes = samples.table[samples.table["event"].isin(axes)]
    if not len(of_axes):
        return ""
    there = of_axes.groupby(["run", "place", "interval"], observed=True)[["time", "work"]].first().notna().all(axis=1)
    told = [] if there.all() else [f"in the {there.sum():,} of {len(there):,} intervals in which both were counted"]
    running = of_axes[of_axes["count"].notna()].groupby("event", observed=True)["running"].mean().min()
    if running < _SHARED:
        told.append(f"estimated: the counters ran {running:.0%} of the time")
    return ", ".join(told)


def contradictions(samples: Samples) -> dict[str, str]:
    """Return the events that cannot belong together, each with a warning: more misses than there were accesses."""
    there = {(normalise(e), (modes(e), counter_unit(e))): e for e in samples.events}
    found: dict[str, str] = {}
    for misses, totals in _MISSES_OF:
        for (name, how), one in there.items():
            of = next((there[t, how] for t in totals if (t, how) in there), None)
            if name == misses and of is not None and (told := _more_than_all(samples, one, of)):
                found |= {one: told, of: told}
    return found


def _more_than_all(samples: Samples, misses: str, of: str) -> str:
    """Return a warning where there were more misses than accesses where both were counted; else nothing."""
    both = samples.table[samples.table["event"].isin([misses, of])]
    counts = both.pivot_table(index=["run", "place", "interval"], columns="event", values="count", observed=True)
    counts = counts.reindex(columns=[misses, of]).dropna()
    sums, shared = counts.sum(), both["running"].mean() < _SHARED
    if not 0 <= sums[of] * (_NOISE if shared else 1.0) < sums[misses]:
        return ""
    why = "they were counted in turns, and estimates differ" if shared else "the processor counts other things as these"
    return (
        f"{misses} are {sums[misses]:.4g} and {of}, of which they should be a part, {sums[of]:.4g}: they do not belong "
        f"together ({why}). Nothing is concluded from either"
    )


def _modes(samples: Samples) -> list[str]:
    return mode_cautions(samples.time_event, samples.work_event, samples.events)


def _other_cores(samples: Samples) -> list[str]:
    others = [e for e in samples.events if other_core(e, samples.work_event)]
    told = f"{_names(others)} were counted on other cores than {samples.time_event}, and are not ranked or fitted"
    return [told] if others else []


def _aliases(samples: Samples) -> list[str]:
    pairs = same_names(samples.events)
    return [f"{a} and {b} count the same thing under two names: use one of them" for a, b in pairs]


def _multiplexing(samples: Samples) -> list[str]:
    running = samples.table.groupby("event", observed=True)["running"].mean()
    low = running[(running < _SHARED) & (running > 0)]  # what was never counted is told so
    if not len(low):
        return []
    told = (
        f"{len(low)} of {len(running)} events were counted only part of the time (on average {low.mean():.0%}, least "
        f"{low.idxmin()} with {low.min():.0%}) and scaled up: their counts are estimates"
    )
    return [told]


def _missing(samples: Samples) -> list[str]:
    summary = samples.describe()
    never = [str(e) for e in summary.index[summary["missing"] == summary["samples"]]]
    some = summary[(summary["missing"] > 0) & (summary["missing"] < summary["samples"])]
    zero = [str(e) for e in summary.index[(summary["zero"] == summary["samples"]) & (summary["samples"] > 1)]]
    out = [f"never counted: {_names(never)}"] if never else []
    if len(some):
        worst = (some["missing"] / some["samples"]).idxmax()
        share = some.loc[worst, "missing"] / some.loc[worst, "samples"]
        out.append(f"gaps in {counted(len(some), 'events')} (most {worst}, missing in {share:.0%} of its intervals)")
    return [*out, *([f"zero throughout: {_names(zero)}"] if zero else [])]


def _few(samples: Samples) -> list[str]:
    n = samples.n_intervals
    return [f"{counted(n, 'intervals')} only: what is fitted to so few may be chance"] if n < FEW else []


def _phases(samples: Samples) -> list[str]:
    ends = _throughputs(samples)
    named = {normalise(samples.time_event), normalise(samples.work_event)} <= {*TIME_EVENTS, *WORK_EVENTS}
    if not ends or ends[1] >= 1.2 * ends[0] or not named:
        return []  # of two events that stand in for time and work, nobody knows what an even ratio says
    return ["one phase: the throughput hardly changes over the run, so little can be told from its changes"]


def _throughputs(samples: Samples) -> tuple[float, float] | None:
    """Return between which 90 % of the intervals' throughputs lie; None of few intervals, or where nothing was done."""
    each = _each(samples)
    if each is None or len(each) < FEW:
        return None
    rate = (each["work"] / each["time"].where(each["time"] > 0)).dropna()
    if not len(rate) or rate.mean() <= 0:
        return None
    low, high = np.quantile(rate, [0.05, 0.95])
    return float(low), float(high)


def _each(samples: Samples) -> pd.DataFrame | None:
    from perfkit.errors import DataError

    try:
        return samples.intervals()
    except DataError:  # every event was sampled for itself
        return None


def _seconds(samples: Samples) -> tuple[float, float] | None:
    each = _each(samples)
    if each is None or not each["seconds"].notna().any():
        return None
    return float(each["seconds"].sum()), float(each["seconds"].median())


def _names(names: Sequence[str], most: int = 4) -> str:
    return listed(names, most)
