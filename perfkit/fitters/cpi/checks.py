"""What the reader of a CPI stack should know about its data and its penalties, in words."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from perfkit.errors import listed
from perfkit.fitters.cpi.counts import CpiCounts
from perfkit.fitters.cpi.solvers import Form
from perfkit.fitters.cpi.validation import CpiBracket, CpiR2, spread_of
from perfkit.samples.events import core_unit, normalise

# The most cycles that one count can cost, by what it counts. Generous: beyond these no machine of today explains it.
_LIMITS: tuple[tuple[str, float, str], ...] = (
    (r"walk_(pending|active|duration)|stall|_cycles?(\.|$|:)|cycles_|outstanding", 1.0, "it counts cycles"),
    (r"^(mem-(stores|loads)|branch(es|-instructions|-loads)|br_inst|uops|mem_inst|inst_)", 10.0, "it counts work done"),
    (r"branch-(load-)?misses|br_misp|bp_l1|mispred", 100.0, "a misprediction refills one pipeline"),
    (r"tlb.*(miss|load-misses|store-misses|walk_completed)", 4000.0, "a page walk is at most four memory accesses"),
    (r"icache|l1|l2|llc|l3|cache|offcore|ocr\.|longest_lat", 1000.0, "a memory access takes some 200 ns at most"),
)
# Names for one and the same thing, and events that contain others.
_ALIASES: tuple[frozenset[str], ...] = (
    frozenset({"branch-misses", "branch-load-misses", "br_misp_retired.all_branches"}),
    frozenset({"cache-misses", "longest_lat_cache.miss"}),
    frozenset({"branches", "branch-instructions", "branch-loads", "br_inst_retired.all_branches"}),
    frozenset({"l1-dcache-load-misses", "l1d.replacement"}),
    frozenset({"page-faults", "faults"}),
)
_PARTS: tuple[tuple[str, str], ...] = (
    ("l2_rqsts.demand_data_rd_miss", "l2_rqsts.all_demand_miss"),
    ("l2_rqsts.code_rd_miss", "l2_rqsts.miss"),
    ("llc-load-misses", "cache-misses"),
    ("llc-store-misses", "cache-misses"),
)
# Two counts that differ by less than this in nine of ten intervals are one counter, where it counts often enough.
_TWIN, _SEEN = 0.01, 100.0
_FEWEST_ALIKE = 3  # intervals: of one, any two events are multiples of each other
_NOTHING = 0.1  # of R2
_WIDE = 0.10
_UNKNOWN = 0.10  # of the CPI: a part whose interval is longer
_MISPREDICTION = 30.0
_FEW = 20


def check_counts(counts: CpiCounts) -> list[str]:
    """Return what is suspicious about the data, before any fit."""
    return [
        *_mixed_runs(counts.runs),
        *_order(counts),
        *_lengths(counts),
        *_outliers(counts),
        *_aliases(counts),
        *_multiplexing(counts),
    ]


def unusable_events(counts: CpiCounts) -> dict[str, str]:
    """Return the events that no regression can use, each with the reason in words.

    Those are events that never happened, that happened at one rate throughout (the base does that already), and those
    that are a multiple of an earlier one in every interval.
    """
    out: dict[str, str] = {}
    per_cycle = counts.counts / counts.cycles[:, None]
    per_instruction = counts.counts / counts.instructions[:, None]
    length = np.sqrt((per_cycle**2).sum(axis=0))
    unit = per_cycle / np.where(length > 0, length, 1.0)
    alike = np.tril(unit.T @ unit, -1) > 1 - 1e-13
    for j, event in enumerate(counts.events):
        if length[j] == 0:
            out[event] = f"{event} is zero in all {len(counts)} intervals; it is left out."
        elif len(counts) > 1 and (_constant(per_cycle[:, j]) or _constant(per_instruction[:, j])):
            out[event] = f"{event} comes at one constant rate, which cannot be told from the base; it is left out."
        elif len(counts) >= _FEWEST_ALIKE and alike[j].any():
            twin = counts.events[int(np.argmax(alike[j]))]
            out[event] = f"{event} is a fixed multiple of {twin} in every interval; it is left out."
        elif (same := _same_counter(counts, j)) is not None:
            out[event] = (
                f"{event} counts as many as {same} within {_TWIN:.0%}, nearly always, and cannot be told from it; "
                "it is left out."
            )
    return out


def _same_counter(counts: CpiCounts, j: int) -> str | None:
    """Return the earlier event that counts the same as event ``j`` in nearly every interval.

    Two columns of one counter share its penalty between them as the noise will have it; so do two events whose counts
    hardly vary.
    """
    column = counts.counts[:, j]
    if len(column) < _FEW or column.mean() < _SEEN:
        return None
    below = int(0.9 * (len(column) - 1)) + 1  # so many must be near each other, for their 90 % quantile to be so
    for i in range(j):
        apart = np.abs(column - counts.counts[:, i]) / np.maximum((column + counts.counts[:, i]) / 2, 1.0)
        if np.count_nonzero(apart < _TWIN) >= below and np.quantile(apart, 0.9) < _TWIN:
            return counts.events[i]
    return None


def same_counters(counts: CpiCounts) -> list[tuple[str, str]]:
    """Return the pairs of events that count the same thing by their names."""
    return same_names(counts.events)


def same_names(events: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of events whose names stand for the same count."""
    return list(_same_names(tuple(events)))


@lru_cache(maxsize=64)  # a fleet's thousands of stacks have the same events
def _same_names(events: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    names = [normalise(e) for e in events]
    pairs: list[tuple[str, str]] = []
    for group in _ALIASES:
        here = [e for e, name in zip(events, names, strict=True) if name in group]
        for unit in dict.fromkeys(map(core_unit, here)):
            pairs += pairwise([e for e in here if core_unit(e) == unit])
    return tuple(pairs)


@lru_cache(maxsize=4096)
def _limit(event: str) -> tuple[float, str]:
    """Return the most cycles that one of an event can cost, and why."""
    name = normalise(event)
    return next(((most, reason) for pattern, most, reason in _LIMITS if re.search(pattern, name)), (math.inf, ""))


def check_fit(
    events: Sequence[str],
    penalties: np.ndarray,
    vif: np.ndarray,
    base: float,
    bracket: CpiBracket,
    r2: CpiR2,
    placebo_r2: float,
    form: str,
    sorted_rows: bool,
) -> list[str]:
    """Return what is suspicious about a fit."""
    told = []
    if not np.isfinite(base):
        told.append("IPC without misses comes out at zero or below: this form gives no base.")
    elif base < 0:
        told.append(f"the base CPI is negative ({base:.3f}), which no machine has.")
    elif base == 0:
        told.append("the base CPI is zero: the events take all cycles, which no machine does.")
    told += impossible_penalties(events, penalties)
    told += unlikely_penalties(events, penalties)
    singular = [e for e, v in zip(events, vif, strict=True) if np.isinf(v)]
    if singular:
        told.append(
            f"{', '.join(singular)} are linear combinations of each other: their penalties cannot be told apart."
        )
    if not np.isfinite(bracket.width) or bracket.width > _WIDE:
        told.append(
            f"the base is not identified: {bracket.ipc:.3f} by the IPC form, {bracket.cpi:.3f} by the CPI form, "
            f"{bracket.width:.1%} of the CPI apart."
        )
    if placebo_r2 > 0.5 * r2.in_sample:
        source = "most of this R2 comes from the division, not from the events."
        if r2.in_sample < _NOTHING:
            source = "these events explain next to nothing."
        told.append(
            f"shuffled counts reach an R2 of {placebo_r2:z.2f} where the real ones reach {r2.in_sample:z.2f} ({form} "
            f"form): {source}"
        )
    if r2.random - r2.blocked > 0.2 and not sorted_rows:
        told.append(
            f"R2 falls from {r2.random:z.2f} on random splits to {r2.blocked:z.2f} on splits by time: other phases are "
            "explained less well than random splits make believe."
        )
    return told


def forms_apart(parts: Sequence[str], form: Form) -> list[str]:
    """Return a sentence on parts that the other form of the model puts outside of this form's intervals."""
    if not parts:
        return []
    told = f"the two forms disagree by more than resampling tells: of {listed(parts)}. "
    if form == "ipc":
        told += (
            "Noise in the cycles is in this form's regressors, too: it raises the base and flattens penalties, and "
            "resampling does not show it. Read the CPI form (form='cpi', in a shell --form cpi) where it is supported."
        )
    else:
        told += (
            "This form is the right one where the cycles are noisy, the IPC form where the instructions are; a cause "
            "that was not counted makes both wrong."
        )
    return [told]


def undetermined(events: Sequence[str], draws: np.ndarray, level: float) -> list[str]:
    """Return a sentence for each pair of events of which only the sum is known, by the bootstrap's components."""
    return [
        f"{events[i]} and {events[j]} rise and fall together: of the cycles only their sum is known, "
        f"{low:.0%} to {high:.0%} of the CPI, not how it divides between them."
        for i, j, low, high in inseparable(draws, level)
    ]


def inseparable(draws: np.ndarray, level: float) -> list[tuple[int, int, float, float]]:
    """Return the pairs of events of which only the sum is known, with the interval of that sum over the CPI.

    ``draws`` has one row per resample and one column per event, over the CPI. Where two events rise and fall together,
    what one resample gives to one of them it takes from the other: the interval of their sum is much the shorter one.
    """
    length = spread_of(draws, level)
    found = []
    for i, j in combinations(np.flatnonzero(length > _UNKNOWN).tolist(), 2):
        low, high = np.nanquantile(draws[:, [i, j]].sum(axis=1), [(1 - level) / 2, (1 + level) / 2])
        if high - low < min(length[i], length[j]) / 3:
            found.append((i, j, float(low), float(high)))
    return found


def unlikely_penalties(events: Sequence[str], penalties: np.ndarray) -> list[str]:
    """Return a sentence for each penalty that is possible, but more than cores of today show."""
    return [
        f"{event} at {penalty:.3g} cycles each is more than a misprediction costs on cores of today (11 to 25 cycles "
        "to refill the pipeline): the event stands for something else too, such as loads that branches wait for."
        for event, penalty in zip(events, penalties, strict=True)
        if penalty > _MISPREDICTION and re.search(_LIMITS[2][0], normalise(event)) and penalty <= _LIMITS[2][1]
    ]


def impossible_penalties(events: Sequence[str], penalties: np.ndarray) -> list[str]:
    """Return a sentence for each penalty that no machine can have."""
    told = []
    for event, penalty in zip(events, penalties, strict=True):
        if penalty < 0:
            told.append(f"{event} would save {-penalty:.3g} cycles each: a negative penalty is no cost.")
            continue
        most, reason = _limit(event)
        if penalty > most:
            told.append(f"{event} cannot cost {penalty:.4g} cycles each ({reason}: at most {most:g}).")
    return told


def _constant(values: np.ndarray) -> bool:
    return float(np.ptp(values)) <= 1e-9 * float(np.abs(values).max())


def _mixed_runs(runs: pd.DataFrame) -> list[str]:
    told = []
    for column, plural in (("workload", "workloads"), ("host", "hosts"), ("kind", "kinds of data")):
        values = [str(v) for v in dict.fromkeys(runs[column]) if str(v)]
        if len(values) > 1:
            shown = ", ".join(values[:4]) + (" ..." if len(values) > 4 else "")
            told.append(
                f"{len(values)} {plural} are mixed in one fit ({shown}): penalties differ between them. Fit each for "
                "itself with fit_each, and compare."
            )
    return told


def is_sorted(counts: CpiCounts) -> bool:
    """Whether the rows of any run are in order of CPI rather than of time."""
    return bool(_sorted_runs(counts))


def _sorted_runs(counts: CpiCounts) -> list[str]:
    out = []
    cpi = counts.cycles / counts.instructions
    segments = counts.segments()
    for segment in np.unique(segments):
        here = segments == segment
        rises = np.diff(cpi[here])
        if len(rises) + 1 >= _FEW and max((rises >= 0).mean(), (rises <= 0).mean()) > 0.95:
            out.append(str(counts.rows["run"].to_numpy()[np.argmax(here)]))
    return out


def _order(counts: CpiCounts) -> list[str]:
    return [
        f"the rows of {run} are sorted by CPI, not in order of time: blocked cross-validation and block bootstrap "
        "mean nothing for them."
        for run in _sorted_runs(counts)
    ]


def _lengths(counts: CpiCounts) -> list[str]:
    told = []
    segments = counts.segments()
    at, seconds = (counts.rows[c].to_numpy(dtype="float64") for c in ("at", "seconds"))
    for segment in np.unique(segments):
        here = segments == segment
        run = counts.rows["run"].to_numpy()[np.argmax(here)]
        if (np.diff(at[here]) < 0).any():
            told.append(f"time runs backwards within {run}: several runs seem to follow each other in one.")
        length = seconds[here][np.isfinite(seconds[here])]
        if len(length) >= 4:
            typical = float(np.median(length))
            odd = int(((length > 3 * typical) | (length < typical / 3)).sum())
            if odd > 0.02 * len(length) and odd > 2:
                told.append(f"{odd} of {len(length)} intervals of {run} are over 3 times longer or shorter than most.")
    return told


def _outliers(counts: CpiCounts) -> list[str]:
    cpi = counts.cycles / counts.instructions
    far = cpi > 10 * counts.cpi
    if not far.any():
        return []
    told = (
        f"{far.sum()} of {len(cpi)} intervals have over 10 times the CPI of the whole (up to {cpi.max():.4g}): a mean "
        "of ratios would be wrong, and a fit may follow them."
    )
    return [told]


def _aliases(counts: CpiCounts) -> list[str]:
    told = []
    names = [normalise(e) for e in counts.events]
    totals = counts.counts.sum(axis=0)
    for group in _ALIASES:
        here = [i for i, name in enumerate(names) if name in group and totals[i] > 0]
        for i, j in pairwise(here):
            a, b = counts.counts[:, i], counts.counts[:, j]
            apart = float(np.median(np.abs(a - b) / np.maximum((a + b) / 2, 1.0)))
            off = abs(totals[i] - totals[j]) / max(totals[i], totals[j])
            if apart > 0.05 or off > 0.05:
                told.append(
                    f"{counts.events[i]} and {counts.events[j]} count the same thing but differ by {apart:.0%} in the "
                    f"median interval and {off:.0%} in total: that is the error of these counts."
                )
            else:
                told.append(
                    f"{counts.events[i]} and {counts.events[j]} count the same thing: their penalty is shared between "
                    "them as the noise will have it. Leave one out."
                )
    for part, whole in _PARTS:
        pairs = [(i, j) for i, a in enumerate(names) for j, b in enumerate(names) if a == part and b == whole]
        for i, j in pairs:
            more = float((counts.counts[:, i] > 1.02 * counts.counts[:, j]).mean())
            if more > 0.05:
                told.append(
                    f"{counts.events[i]} exceeds {counts.events[j]}, which contains it, in {more:.0%} of intervals: "
                    "that is the error of these counts."
                )
    return told


def _multiplexing(counts: CpiCounts) -> list[str]:
    if not counts.running < 0.95:
        return []
    told = (
        f"events were counted {counts.running:.0%} of the time and scaled up (too many for the counters): counts are "
        "estimates, and small penalties drown in their noise."
    )
    return [told]
