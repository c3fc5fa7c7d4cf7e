"""What a dump is, and how good: the first things to know of counts that somebody else took."""

import json
from collections.abc import Sequence
from contextlib import suppress

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
    seconds_run,
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
_WIDE = 5.0  # per cent: spreads of repeated runs from here on are told
_NOISE = 1.1  # what estimates of counters that took turns may be off by
_SHARED = 0.95  # of the time: an event counted for less was scaled up
_BUSY, _SLOWEST = 0.8, 4e8  # of the time; cycles per second, below any clock of a core that runs
_LOW = 1.5e9  # cycles per second: no server or desktop runs at this for long unless it is held there
_IDLE = 1e7  # cycles per second; cores run at a thousand million and more


def facts(samples: Samples) -> dict[str, str]:
    """Return what the dump is, in words: files, machine, events, intervals, runs and kind."""
    files = [s for s in dict.fromkeys(samples.runs["source"]) if s]
    events = samples.events
    shown = listed(events, _SHOWN)
    seconds = passed(samples)
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
    out |= _clock_facts(samples)
    shares = samples.work_event.endswith(" x s]")  # of slots, as toplev prints them: no work
    if not shares and (ends := _throughputs(samples)) and ends[1] >= 1.2 * ends[0]:
        unit = per_unit(samples.work_event, samples.time_event)
        out["phases"] = f"{ends[0]:.3g} to {ends[1]:.3g} {unit} in 90 % of the intervals"
    if of_places:
        out["places"] = _names(places)
    commands = [c for c in dict.fromkeys(samples.runs["command"]) if c]
    return out | ({"command": _names(commands)} if commands else {})


def _clock_facts(samples: Samples) -> dict[str, str]:
    """Return the clock, and the share of the cycles in the kernel, where the counts tell them."""
    if samples.kind != "measured":
        return {}
    rate, known = clock(samples)
    name, value = ("clock", f"{rate / 1e9:.3g} GHz") if known else ("cycles", f"{rate:.3g} per second that passed")
    out = {name: value} if rate > 0 else {}
    share = in_kernel(samples)
    return out | ({"kernel": f"{share:.0%} of the cycles"} if np.isfinite(share) else {})


def quality(samples: Samples) -> list[str]:
    """Return what its reader should know of the counts, the gravest first."""
    told = [
        *_idle_places(samples),
        *[
            f"over {repeats} runs, {told}: a mean of runs that differ so much stands for none"
            for repeats, told in [spread_of_repeats(samples)]
            if told
        ],
        *[n.partition(": caution: ")[2] for n in samples.notes if ": caution: " in n],
        *_modes(samples),
        *[each for each in (impossible(samples), idle(samples) or waits(samples), _low_clock(samples)) if each],
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
    rate = _per_second(samples)
    if not rate < _IDLE:
        return ""
    return (
        f"hardly anything ran: {rate:.3g} cycles per second, under 1 % of a core's clock. The counts are of an idle "
        "machine or of a program that waits, and shares of its cycles explain nothing of its time"
    )


def waits(samples: Samples) -> str:
    """Say for which share of the time a program ran, where it waited for much of it; "" otherwise.

    By ``task-clock``; without it by cycles per second, which no processor that runs has so few of.
    """
    if samples.kind != "measured":
        return ""
    ran, seconds = seconds_run(samples), passed(samples)
    share = float(ran.sum() / seconds[0]) if seconds and ran.notna().all() and seconds[0] > 0 else np.nan
    rate = _per_second(samples)
    if share < _BUSY:
        told = f"it ran for {share:.2g} of the time" if share < 0.01 else f"it ran for {share:.0%} of the time"
    elif np.isnan(share) and rate < _SLOWEST and len(samples.table["place"].unique()) == 1:
        told = f"it ran for {rate / _SLOWEST:.0%} of the time at most ({rate:.3g} cycles per second)"
    else:
        return ""
    switches = [e for e in samples.events if normalise(e) in ("context-switches", "cs")]
    often = ""
    if switches and seconds:
        total = samples.table.loc[samples.table["event"] == switches[0], "count"].sum()
        often = f", with {total / seconds[0]:,.0f} context switches per second"
    return f"{told}{often}, and waited for the rest, of which cycles tell nothing (perf trace -s, perf sched timehist)"


def _per_second(samples: Samples) -> float:
    """Return the measured cycles per second of all places; NaN where nobody knows."""
    each = _each(samples)
    cycles = normalise(samples.time_event) in set(TIME_EVENTS) - {"seconds"}
    if samples.kind != "measured" or each is None or not cycles:
        return np.nan
    timed = each[(each["seconds"] > 0) & each["time"].notna()]
    return float(timed["time"].sum() / timed["seconds"].sum()) if len(timed) else np.nan


def clock(samples: Samples) -> tuple[float, bool]:
    """Return the processor's clock in cycles per second, and whether it is known; NaN where nothing tells it.

    It is cycles per second of ``task-clock``; without it, cycles per second that passed are the least it can be.
    """
    if normalise(samples.time_event) not in set(TIME_EVENTS) - {"seconds"} or "__" in samples.time_event:
        return np.nan, False
    ran = seconds_run(samples)
    time = samples.table.drop_duplicates(ran.index.names).set_index(ran.index.names)["time"]
    known = ran.notna() & time.notna() & (ran > 0)
    if known.any() and modes(samples.time_event) == "ku":
        return float(time[known].sum() / ran[known].sum()), True
    return _per_second(samples), False


def in_kernel(samples: Samples) -> float:
    """Return the share of the cycles that was spent in the kernel, where both modes were counted; else NaN."""
    cycles = {modes(e): e for e in samples.table["event"].cat.categories if normalise(str(e)) in TIME_EVENTS}
    total = samples.table.groupby(samples.table["event"].astype(str), observed=True)["count"].sum()
    kernel, user = (float(total.get(cycles.get(mode, ""), np.nan)) for mode in "ku")
    both = float(total.get(cycles.get("ku", ""), np.nan))
    if np.isnan(kernel) and both > 0:
        kernel = both - user
    whole = kernel + user if np.isfinite(kernel + user) else both
    return kernel / whole if whole > 0 and 0 <= kernel <= whole else np.nan


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


def spread_of_repeats(samples: Samples) -> tuple[int, str]:
    """Return of how many runs perf's means are (``-r``), and the spreads that are worth telling, in words."""
    for text in samples.runs["parameters"]:
        said = {}
        with suppress(ValueError):
            said = json.loads(text)
        if not isinstance(said, dict):
            continue
        percent = {e: v for e, v in said.get("variance_percent", {}).items() if isinstance(v, float) and v >= _WIDE}
        if percent:
            wide = sorted(percent, key=lambda e: -percent[e])
            return int(said.get("repeats", 2)), listed([f"{e} ± {percent[e]:.3g} %" for e in wide], 4)
    return 1, ""


def _idle_places(samples: Samples) -> list[str]:
    """Say which places hardly ran, beside others that did: sums and means over all of them hide it."""
    each = _each(samples)
    if each is None or samples.kind != "measured" or normalise(samples.time_event) not in set(TIME_EVENTS[:-1]):
        return []
    sums = each[each["time"].notna()].groupby("place", observed=True)[["time", "seconds"]].sum()
    rate = sums["time"] / sums["seconds"].where(sums["seconds"] > 0)
    still = [str(place) for place in rate.index[rate < _IDLE]]
    if not still or len(still) == len(rate):
        return []
    busy = [str(place) for place in rate.index if str(place) not in still]
    return [f"{len(still)} of {len(rate)} places hardly ran ({_names(still)}); what follows is of {_names(busy)}"]


def _low_clock(samples: Samples) -> str:
    """Say that the clock was low, of which cycles tell nothing: the same cycles took longer."""
    rate, known = clock(samples)
    if samples.kind != "measured" or not known or not _SLOWEST <= rate < _LOW:
        return ""
    return (
        f"the clock was {rate / 1e9:.3g} GHz, which is low: cycles tell nothing of the time that this costs (cpupower "
        "frequency-info; a limit of power or heat, or a laptop's battery)"
    )


def _modes(samples: Samples) -> list[str]:
    return mode_cautions(samples.time_event, samples.work_event, samples.events)


def _other_cores(samples: Samples) -> list[str]:
    others = [e for e in samples.events if other_core(e, samples.work_event)]
    told = f"{_names(others)} were counted on other cores than {samples.time_event}, and are not ranked or fitted"
    return [told] if others else []


def _aliases(samples: Samples) -> list[str]:
    pairs = [(a, b) for a, b in same_names(samples.events) if modes(a) == modes(b)]
    return [f"{a} and {b} count the same thing under two names: use one of them" for a, b in pairs]


def _multiplexing(samples: Samples) -> list[str]:
    there = samples.table[samples.table["count"].notna()]  # what is missing was not scaled up
    running = there.groupby("event", observed=True)["running"].mean()
    low = running[(running < _SHARED) & (running > 0)]  # what was never counted is told so
    if not len(low):
        return []
    told = (
        f"{len(low)} of {len(running)} events were counted only part of the time (on average {_share(low.mean())}, "
        f"least {low.idxmin()} with {_share(low.min())}) and scaled up: their counts are estimates"
    )
    return [told]


def _share(share: float) -> str:
    """Return a share of the time in per cent, also one far below 1 %."""
    return f"{share:.0%}" if share >= 0.01 else f"{100 * share:.2g}%"


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


def passed(samples: Samples) -> tuple[float, float] | None:
    """Return the seconds that passed in all, and in the median interval; None where nothing tells them."""
    each = _each(samples)
    if each is None or not each["seconds"].notna().any():
        return None
    # Places are counted side by side: the time that passed is that of the longest.
    passed = each.groupby(["run", "place"], observed=True)["seconds"].sum().groupby("run", observed=True).max()
    return float(passed.sum()), float(each["seconds"].median())


def _names(names: Sequence[str], most: int = 4) -> str:
    return listed(names, most)
