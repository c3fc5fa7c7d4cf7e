"""Why nothing can be named: counts that no such core can have, and time that goes where the model does not look.

Counts of more than a capacity, or more misses than there is anything to miss, are not of one scale, not of one program,
or not of this core, and nothing that follows from them holds. What is not modelled (machine clears, fetching and
decoding) is nobody's share: where it may give as much as the class that would be named, none is.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import listed
from perfkit.fitters.bottlenecks.features import OF_MISSES, PORTS, SUMS, features
from perfkit.fitters.bottlenecks.names import beyond, event_map
from perfkit.machine.core import Microarchitecture
from perfkit.samples.events import mode_cautions, modes, normalise, other_core
from perfkit.samples.table import Samples

# A share of what cannot be exceeded: by so much counters may be apart, and by so much where they ran in turns; more,
# the fewer looks a count is scaled up from (of simulated runs counted 0.1 of the time, none is beyond 8).
_APART, _IN_TURNS, _SCALED = 1.25, 2.0, 0.8
_TRANSLATION = "address translation"
# What passes beside what such classes wait for, as in simulated runs: stores wait for lines, too.
_BESIDE = {_TRANSLATION: (*OF_MISSES, "store buffer"), "store buffer": (*OF_MISSES, "store ports")}
_LEAST = 0.05  # of the cycles: what takes less and is not modelled changes no answer
CONTRADICT, NO_TIME = "counts contradict each other", "no"
LEFT_OUT, DAMAGED = "left out", "counts that cannot be in"  # intervals whose counts cannot be
FASTER = "how full it is cannot be told, nor what holds it back"
TOO_FEW = "too few turns (a hundredth of the time, or ten milliseconds, at most): taken as not counted"
# Of the time, and cycles of counting (ten milliseconds at 3 GHz; perf turns every one to four): what was counted less
# was hardly looked at.
_FEW_TURNS, _FEW_CYCLES = 0.01, 3e7
_OF_ALL = ("cycles", "instructions")  # of an interval
MATTERS = 0.005  # of a run's cycles, or of a count's total: what an interval has too much, from which answers change
_TOO_FEW, _SEVERAL = 0.0005, 3  # per cycle: so few are no contradiction; events that may not all be 0
_SHARED = 0.95  # of the time: counters that ran less were scaled up
_CYCLES = (
    *(f"exec.{n}" for n in ("0", "1", "2", "3+", "0.pending.l1", "0.pending.l2", "0.pending.l3")),
    *(f"retired.{n}" for n in ("0", "1", "2", "3+")), "pending.l1", "pending.l2", "pending.l3", "pending.l3.4+",
    "full.rob", "full.load_buffer", "full.store_buffer", "full.scheduler",
)  # fmt: skip
# Feature -> what it is a share of, and how often that share may be had: instructions that are fused take one place of
# the width for two (1.8 in simulated runs), a misprediction may cost half of what the core's file says, and memory
# differs from one machine to the next, in bandwidth and in the clock of the core beside it: by three at most.
_MEMORY = "memory bandwidth: lines.memory"
_MOST: dict[str, tuple[str, float]] = {
    "pipeline width: uops": ("the width of the front end (uops)", 1.0),
    "instructions of the width": ("the width of the front end (instructions)", 2.4),
    "mispredicted branches: branch-misses": ("the cycles would restart (branch-misses)", 2.4),
    "misses a branch": ("the branches would be mispredicted", 1.0),
    _MEMORY: ("the memory bandwidth, more than any machine's: of another core, or a wrong count (lines.memory)", 3.0),
    "load ports: l1.accesses": ("two L1 accesses per cycle", 2.0),
    "store ports: mem-stores": ("a store per cycle", 2.0),
    "lines from L3": ("the bandwidth of L3 (lines)", 1.6),
    "lines from L2": ("the bandwidth of L2 (lines)", 1.6),
    **{f"{name}: ports": (f"the cycles of the busiest {name}", 1.0) for name in PORTS},
    **{f"share: {event}": (f"the cycles ({event})", 1.0) for event in _CYCLES},
}


def impossible_shares(
    shares: Mapping[str, NDArray[np.float64]],
    running: NDArray[np.float64],
    looks: NDArray[np.float64] | float = 1.0,
    weight: NDArray[np.float64] | float = np.inf,
) -> list[tuple[str, ...]]:
    """Return, for each row, what no core can do, in words.

    Parameters
    ----------
    shares : mapping of feature to (rows,) float
        Shares of capacity (`perfkit.fitters.bottlenecks.features.features`).
    running : (rows,) float
        The share of the time in which events were counted: estimates may be more than there is.
    looks : (rows,) float
        In how many intervals the event was counted that was counted in the fewest.
    weight : (rows,) float
        Of the cycles that are judged together, a row's part: too little to change an answer is not told.
    """
    found: list[list[str]] = [[] for _ in running]
    margin = margins(running, looks)
    for feature, (words, often) in _MOST.items():
        # How fast a machine's memory is does not change from turn to turn.
        most = np.maximum(often * _APART, margin) if feature == _MEMORY else often * margin
        for row in np.flatnonzero((shares[feature] - most > 0) & ((shares[feature] - most) * weight >= MATTERS)):
            found[row].append(f"{shares[feature][row]:.0%} of {words}")
    return [tuple(each) for each in found]


def at_least(rates: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return rates in which a sum of which some parts were counted is what these come to: it is no less."""
    found = dict(rates)
    for whole, parts in SUMS.items():
        counted = [rates[part] for part in parts if part in rates]
        if counted:
            least = np.where(np.isnan(counted).all(axis=0), np.nan, np.nansum(counted, axis=0))
            found[whole] = np.fmax(rates.get(whole, np.full(len(least), np.nan)), least)
    return found


def beyond_file(
    shares: Mapping[str, NDArray[np.float64]], running: NDArray[np.float64], looks: NDArray[np.float64] | float
) -> NDArray[np.bool_]:
    """Return where more lines come from memory than the core's file says that it gives, (rows,).

    Parameters as of `impossible_shares`.
    """
    return np.asarray(shares[_MEMORY] > margins(running, looks))


def margins(running: NDArray[np.float64], looks: NDArray[np.float64] | float = 1.0) -> NDArray[np.float64]:
    """Return how often a capacity may be counted that is full, by the share of the time, and the looks, in turns.

    All of an event may fall into its one turn; of several turns, the mean is off by the root of their number less.
    """
    alone = np.maximum(_SCALED / np.maximum(running, 1e-9), 1.0)
    scaled = np.maximum(_IN_TURNS, 1.0 + (alone - 1.0) / np.sqrt(np.maximum(looks, 1.0)))
    return np.where(in_turns(running), scaled, _APART)


def contradicting_counts(samples: Samples, part_of: pd.Series | None = None) -> dict[str, list[str]]:
    """Return, for each run, which counts contradict each other, in words: by the counters' meaning alone.

    Of two events, the intervals are taken in which both were counted. Where runs are parts of others (``part_of``: of
    which, by run), what is too little to change the whole is not told.
    """
    table = samples.table[samples.table["count"].notna() & (samples.table["time"] > 0)]
    table = table.assign(run=table["run"].astype(str))
    at_hand = {
        normalise(each): each
        for each in samples.events
        if not other_core(each, samples.time_event) and modes(each) == modes(samples.time_event)
    }
    rules = [
        (rule["above"], below, rule.get("most", 1.0), rule.get("least", _TOO_FEW))
        for rule in event_map()["at_most"]
        for below in rule["below"]
        if all(each in (*at_hand, *_OF_ALL) for each in (*rule["above"], *below))
    ]
    named = {each for above, below, *_ in rules for each in (*above, *below)} - set(_OF_ALL)
    keys = ["run", "place", "interval"]
    mine = table[table["event"].isin([at_hand[each] for each in named])]
    wide = mine.pivot_table(index=keys, columns="event", values="count", aggfunc="sum", observed=True)
    first = table.drop_duplicates(keys).set_index(keys)[["time", "work"]]
    rates = wide.rename(columns=lambda each: normalise(str(each))).join(first)
    rates = rates.rename(columns=dict(zip(("time", "work"), _OF_ALL, strict=True)))
    runs = pd.Index(table["run"].unique())
    running = np.nan_to_num(table.groupby("run")["running"].min().reindex(runs).to_numpy(dtype=float), nan=1.0)
    often = pd.Series(margins(running, looks(samples, runs)), index=runs)
    found: dict[str, list[str]] = {}
    for above, below, most, least in rules:
        if not all(each in rates for each in (*above, *below)):
            continue
        sums = rates[[*dict.fromkeys((*above, *below, "cycles"))]].dropna().groupby(level="run").sum()
        upper, lower = sums[above].sum(axis=1), sums[below].sum(axis=1)
        too_many = upper - most * often.reindex(sums.index) * lower
        told = (upper > least * sums["cycles"]) & (too_many > 0)
        if part_of is not None:
            whole = upper.groupby(part_of.reindex(upper.index)).transform("sum")
            told &= too_many >= MATTERS * whole
        for run in sums.index[told]:
            words = _too_many(" + ".join(above), " + ".join(below), float(upper[run]), float(lower[run]), most)
            found.setdefault(str(run), []).append(words)
    counts = table.groupby(["run", table["event"].astype(str)])["count"].sum().groupby(level="run")
    for run in runs[((counts.size() >= _SEVERAL) & (counts.max() == 0)).reindex(runs)]:
        found.setdefault(str(run), []).append("all events are 0")
    return {run: [f"{CONTRADICT}: {each}" for each in told] for run, told in found.items()}


def as_said(told: str, core: str) -> str:
    """Return why a run's counts cannot be believed, as part of a sentence."""
    if ": not an event of " in told or ": an event of " in told:
        return f"it was counted on another processor: {told}"
    return told if told.startswith((CONTRADICT, NO_TIME + " ", DAMAGED)) else f"no {core} can count so: {told}"


def _too_many(above: str, below: str, upper: float, lower: float, most: float) -> str:
    if lower <= 0:
        return f"{below} is 0, {above} is not"
    return f"{above} is {upper / lower:.3g} times {below}, which can be {most:g} times at most"


def unmodelled_shares(found: pd.DataFrame) -> pd.DataFrame:
    """Return how much of the cycles of each run goes where the model does not look, as far as it was counted.

    Parameters
    ----------
    found : DataFrame
        What `beyond_shares` returned.

    Returns
    -------
    DataFrame
        One row per run (index) and thing that is not modelled: what, event (by which it takes most), share (of the
        cycles, between 0 and 1: such cycles may pass beside others, and a restart takes longer than is counted here),
        left (of the cycles, what anything else can take at most).
    """
    found = found.assign(share=found["share"].clip(0.0, 1.0)).sort_values("share", ascending=False, kind="stable")
    found = found[found["share"] >= _LEAST].drop_duplicates(["run", "what"])
    return found.drop(columns=["of", "counted"]).set_index("run")


def without_judged(
    found: pd.DataFrame, first: Mapping[str, tuple[str, float]], classes: Collection[str]
) -> pd.DataFrame:
    """Return what `beyond_shares` found without what the classes of a core stand for.

    What belongs to the likeliest class is judged; what belongs to another one, too, but where it may give as much as
    any (`ahead`): then simulated runs with such counts are none that the program is like. Page walks pass beside what
    waits for misses, as those of simulated runs do.

    Parameters
    ----------
    found : DataFrame
        What `beyond_shares` returned.
    first : mapping of run to (class, speedup)
        The likeliest class of each run, and the largest speedup of any.
    classes : collection of str
        Those of the core.
    """
    keep, what = [], []
    for run, thing, of, share, left in zip(*(found[c] for c in ("run", "what", "of", "share", "left")), strict=True):
        name, speedup = first[str(run)]
        known = of in classes
        judged = of == name or name in _BESIDE.get(of, ())
        keep.append(not known or (not judged and _is_ahead(share, left, speedup)))
        what.append(f"{thing}, more than in runs that the model knows" if known else thing)
    return found.assign(what=what)[np.array(keep, dtype=np.bool_)]


def impossible_beyond(found: pd.DataFrame, samples: Samples, weight: pd.Series | None = None) -> list[tuple[str, str]]:
    """Return of which runs more cycles, or more empty places of the front end, were counted than there are: run, told.

    ``found`` is what `beyond_shares` returned of the samples; ``weight`` is as of `impossible_shares`, by run.
    """
    index = pd.Index(found["run"])
    more = found["counted"].to_numpy(dtype=float) - margins(share_counted(samples, index), looks(samples, index))
    part = np.inf if weight is None else weight.reindex(index.astype(str)).to_numpy(dtype=float)
    over = found[(more > 0) & (np.where(more > 0, more, 0.0) * part >= MATTERS if weight is not None else True)]
    return [
        (str(row.run), f"{row.counted:.0%} of the {places_or_cycles(row.event)} ({row.event})")
        for row in over.itertuples()
    ]


def places_or_cycles(event: str) -> str:
    """Return what an event that counts what is not modelled has a share of, in words."""
    entry = event_map()["beyond"].get(normalise(event), {})
    return "places for uops" if entry.get("empty") == "slots" or entry.get("slots") else "cycles"


def beyond_shares(samples: Samples, core: Microarchitecture, rates: pd.DataFrame) -> pd.DataFrame:
    """Return run, what, event, of (the class that it belongs to, if any), share, left and counted.

    counted is the share before anything is subtracted; NaN where more than all may be counted: of single events, and of
    other modes than time's.

    Parameters
    ----------
    samples : Samples
        Whose events of ``[beyond]`` (events.toml) are looked for.
    core : Microarchitecture
        Its width, and what a restart takes.
    rates : DataFrame
        Counts per cycle of each run, by the simulator's names (`perfkit.fitters.bottlenecks.model.rates_of`).
    """
    rows = []
    known = _of_width(rates, core)
    blind, (restarts, taken, used) = np.isnan(known[0]), (np.nan_to_num(each) for each in known)
    for event in samples.events:
        if normalise(event) in event_map()["restarts"]["names"]:
            restarts = np.fmax(restarts, _per_cycle(samples, event).reindex(rates.index.astype(str)))
    for event, entry in beyond(samples.events, samples.time_event):
        empty, each, part = entry.get("empty", ""), entry.get("each", ""), float(entry.get("part", 1.0))
        slots = empty == "slots" or entry.get("slots", False)
        takes = core.value(each) if each and isinstance(each, str) else float(each or 1.0)
        by = part * takes / (core.value("front_end") if slots else 1.0)
        counted = (_per_cycle(samples, event) * by).reindex(rates.index.astype(str))
        share, left, what = counted, 1.0 - counted, np.full(len(counted), entry["what"], dtype=object)
        if empty:
            share = (counted - restarts - taken).clip(lower=0.0)
            left = 1.0 - share - used
            what[blind] += ", or restarts: mispredicted branches were not counted"
        one = pd.DataFrame({"what": what, "event": event, "of": entry.get("of", ""), "share": share})
        whole = not each and part == 1.0 and modes(event) == modes(samples.time_event)
        rows.append(one.assign(left=left.clip(0.0, 1.0), counted=counted if whole else np.nan))
    columns = ["run", "what", "event", "of", "share", "left", "counted"]
    return pd.concat(rows).rename_axis("run").reset_index() if rows else pd.DataFrame(columns=columns)


def _per_cycle(samples: Samples, event: str) -> pd.Series:
    """Return an event's count per cycle of each run."""
    part = samples.table[(samples.table["event"] == event) & samples.table["count"].notna()]
    sums = part.groupby(part["run"].astype(str), observed=True)[["count", "time"]].sum()
    return sums["count"] / sums["time"].where(sums["time"] > 0)


def _of_width(rates: pd.DataFrame, core: Microarchitecture) -> list[NDArray[np.float64]]:
    """Return shares of the places for uops: left empty by restarts, behind taken branches, and used; NaN if unknown.

    A restart leaves them empty for as long as the core's file says, and where a core takes so many branches per cycle,
    one more has to wait for the next cycle.
    """
    arrays = {str(event): rates[event].to_numpy(dtype=float) for event in rates.columns}
    found = features(arrays, core)
    used = np.minimum(found["pipeline width: uops"], 1.0)
    behind = np.minimum(found["taken branches: branches.taken"], 1.0) * (1.0 - np.nan_to_num(used))
    return [found["mispredicted branches: branch-misses"], behind, used]


def ahead(unmodelled: pd.DataFrame, speedup: float) -> bool:
    """Return whether what is not modelled may give as much as any class of a run.

    A class gives what was learnt, and what the cycles give at most that the other leaves.
    """
    pairs = zip(unmodelled["share"], unmodelled["left"], strict=True)
    return any(_is_ahead(share, left, speedup) for share, left in pairs)


def _is_ahead(share: float, left: float, speedup: float) -> bool:
    return not min(float(np.log1p(speedup)), could_give(left)) > could_give(min(max(share, 0.0), 1.0))


def could_give(share: float) -> float:
    """Return the credit of what takes a share of the cycles: the logarithm of the speedup, were it to take half."""
    return float(-np.log(1.0 - share / 2))


def share_counted(samples: Samples, index: pd.Index) -> NDArray[np.float64]:
    """Return the least share of the time in which an event of each run was counted, as far as it is known; else 1."""
    table = samples.table[samples.table["count"].notna()]
    share = table.groupby(table["run"].astype(str), observed=True)["running"].min()
    return np.nan_to_num(share.reindex(index.astype(str)).to_numpy(dtype=float), nan=1.0)


def looks(samples: Samples, index: pd.Index) -> NDArray[np.float64]:
    """Return, of each run, in how many intervals the event was counted that was counted in the fewest."""
    table = samples.table[samples.table["count"].notna()]
    each = table.groupby([table["run"].astype(str), table["event"].astype(str)]).size()
    fewest = each.groupby(level="run").min()
    return fewest.reindex(index.astype(str)).fillna(1.0).to_numpy(dtype=float)


def counted_enough(samples: Samples) -> tuple[Samples, dict[str, list[str]]]:
    """Return samples without the counts of events that had too few turns in a run, and which these are, by run.

    perf turns counters every few milliseconds: a hundredth of the time is no more than one look at a tenth of a second,
    and ten milliseconds are a few looks at most, at whatever the program did then.
    """
    table = samples.table
    if not in_turns(table["running"].to_numpy(dtype=float)).any():
        return samples, {}
    by = [table["run"], table["event"]]
    mean = table.groupby(["run", "event"], observed=True)["running"].transform("mean")
    looked = (table["running"] * table["time"]).groupby(by, observed=True).transform("sum")
    short = looked <= (0.0 if samples.kind == "simulated" else _FEW_CYCLES)  # simulated runs are short, and even
    few = in_turns(mean.to_numpy(dtype=float)) & ((mean <= _FEW_TURNS) | short)
    few &= table["count"].notna()
    told = table[few].groupby(table.loc[few, "run"].astype(str), observed=True)["event"].unique()
    kept = replace(samples, table=table.assign(count=table["count"].where(~few)))
    return kept, {str(run): [str(event) for event in events] for run, events in told.items()}


def mixed_modes(samples: Samples, used: Iterable[str]) -> dict[str, str]:
    """Return of which runs events were counted in another mode (user, kernel) than time was, in words.

    ``used`` are the events that an answer would follow from.
    """
    apart = [event for event in used if modes(event) != modes(samples.time_event)]
    table = samples.table[(samples.table["time"] > 0) & samples.table["count"].notna()]
    if modes(samples.work_event) == modes(samples.time_event):
        table = table[table["event"].isin(apart)]
    counted = table.groupby(table["run"].astype(str), observed=True)["event"].unique()
    return {
        str(run): " ".join(
            mode_cautions(samples.time_event, samples.work_event, [e for e in apart if e in set(events)])
        )
        for run, events in counted.items()
    }


def without_time(samples: Samples) -> list[tuple[str, str]]:
    """Return which runs have no cycles, and why, in words: run, told."""
    time = samples.table.groupby(samples.table["run"].astype(str), observed=True)["time"].sum()
    mine = normalise(samples.time_event)
    others = [event for event in samples.events if event != samples.time_event and normalise(event) == mine]
    found = []
    for run in time.index[~(time > 0)]:
        of = samples.table[samples.table["run"].astype(str) == run]
        has = [event for event in others if of.loc[of["event"] == event, "count"].sum() > 0]
        instead = f", but {listed(has)}: read the runs of one mode together, not of two" if has else ""
        found.append((str(run), f"{NO_TIME} {samples.time_event} were counted{instead}"))
    return found


def in_turns(running: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where counters ran in turns, so that counts are scaled up."""
    return running < _SHARED
