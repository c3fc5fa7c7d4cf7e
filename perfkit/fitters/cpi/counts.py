"""The counts a CPI stack is fitted to: one row per interval, as arrays, with what was left out and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from perfkit.errors import DataError, SettingError, closest, listed
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, mode_cautions, normalise, other_core
from perfkit.samples.processors import generic_misses
from perfkit.samples.table import Samples, expect_samples

# Events that count elapsed time or finished work once more. As regressors they explain everything and say nothing.
_CLOCKS = frozenset(
    {*TIME_EVENTS, *WORK_EVENTS, "ref-cycles", "bus-cycles", "cpu-clock", "task-clock", "duration_time", "user_time"}
    | {"system_time", "slots", "topdown.slots", "cpu_clk_unhalted.ref_tsc", "cpu_clk_unhalted.ref", "uops_retired.all"}
)
MOST_MISSING = 0.1


@dataclass(frozen=True, eq=False)
class CpiCounts:
    """Cycles, instructions and event counts of n intervals, in the order of time within each run and place.

    Attributes
    ----------
    rows : DataFrame
        Which intervals these are, one row each: run, place, interval, at and seconds (the interval's end and length),
        and row (its number among all intervals of the samples, in order; of sums, that of the last interval).
    cycles, instructions : array of float, shape (n,)
        Totals of each interval; both above zero.
    counts : array of float, shape (n, k)
        Counts of the k events of each interval, none missing.
    events : tuple of str
        The k events.
    kind : str
        What the data is: measured, simulated, generated or published.
    runs : DataFrame
        What is known of each run, as in `Samples`.
    running : float
        The mean share of time in which the events were counted; NaN where not known.
    left_out : tuple of str
        What is not among these rows and columns, and why, in words.
    bad_input : bool
        Whether something was left out because it could not be used (rather than by design).

    Examples
    --------
    >>> import perfkit as pk
    >>> CpiCounts.from_samples(pk.datasets.load("cpi/planted")).kind
    'generated'
    """

    rows: pd.DataFrame
    cycles: np.ndarray
    instructions: np.ndarray
    counts: np.ndarray
    events: tuple[str, ...]
    kind: str
    runs: pd.DataFrame
    running: float = float("nan")
    left_out: tuple[str, ...] = ()
    bad_input: bool = False

    @classmethod
    def from_samples(cls, samples: Samples, events: Iterable[str] | None = None) -> "CpiCounts":
        """Take the counts of `events` (by default all) out of samples whose time is cycles and work is instructions.

        Events that are missing in more than a tenth of the intervals are left out; then intervals in which any count
        is missing, or cycles or instructions are zero. Every such loss is told in ``left_out``.

        Raises
        ------
        SettingError
            The samples' time is not in cycles, or an event is unknown.
        DataError
            No event or no interval is left.
        """
        expect_samples(samples, "CpiCounts.from_samples")
        if samples.time_event == "seconds":
            raise SettingError(
                "a CPI stack needs cycles as time; these samples measure time in seconds. If cycles were counted, "
                "use samples.with_axes('cycles', 'instructions'); without them there is no CPI."
            )
        chosen, notes = _choose_events(samples, events)
        cautions = mode_cautions(samples.time_event, samples.work_event, chosen)
        notes += [f"{told}." for told in [*cautions, *generic_misses(samples, chosen)]]
        wide = samples.to_wide()
        cycles = wide[samples.time_event].to_numpy(dtype="float64")
        work = wide[samples.work_event].to_numpy(dtype="float64")
        rows = _rows_of(samples, wide.index)
        counts = wide.reindex(columns=pd.Index(chosen)).to_numpy(dtype="float64")
        share = samples.table.loc[samples.table["event"].isin(chosen), "running"].mean()
        whole = cls(
            rows, cycles, work, counts, tuple(chosen), samples.kind, samples.runs.copy(), float(share), tuple(notes)
        )
        return whole._complete(samples.time_event)

    def __len__(self) -> int:
        return len(self.cycles)

    @property
    def cpi(self) -> float:
        """Total cycles over total instructions: never the mean of the intervals' ratios."""
        return float(self.cycles.sum() / self.instructions.sum())

    @property
    def rates(self) -> np.ndarray:
        """Total counts over total instructions, one per event."""
        return np.asarray(self.counts.sum(axis=0) / self.instructions.sum())

    def segments(self) -> np.ndarray:
        """Return a number for each row: rows of the same run and place have the same one, in order."""
        return self._segments

    @cached_property
    def _segments(self) -> np.ndarray:
        codes = [pd.factorize(self.rows[c])[0].astype(np.int64) for c in ("run", "place")]
        return np.asarray(codes[0] * (codes[1].max(initial=0) + 1) + codes[1])

    def select(self, *, events: Sequence[str] | None = None, rows: np.ndarray | None = None) -> "CpiCounts":
        """Return the counts of the named events, in the rows where the boolean array ``rows`` holds.

        Raises
        ------
        SettingError
            There is no such event, or `rows` has not one boolean per interval.
        """
        out = self
        if events is not None:
            unknown = [e for e in events if e not in self.events]
            if unknown:
                raise SettingError(_unknown_event(unknown[0], self.events))
            place = {e: i for i, e in enumerate(self.events)}
            out = replace(out, events=tuple(events), counts=out.counts[:, [place[e] for e in events]])
        if rows is not None:
            keep = np.asarray(rows, dtype=bool)
            if keep.shape != (len(self),):
                raise SettingError(f"rows must be {len(self)} booleans, one per interval; found shape {keep.shape}")
            rows_kept = out.rows[keep].reset_index(drop=True)
            out = replace(
                out,
                rows=rows_kept,
                runs=out.runs.loc[[r for r in out.runs.index if r in set(rows_kept["run"])]],
                cycles=out.cycles[keep],
                instructions=out.instructions[keep],
                counts=out.counts[keep],
            )
        return out

    def aggregate(self, n: int) -> "CpiCounts":
        """Return the sums over each ``n`` consecutive intervals of a run and place; a shorter last group stays.

        Raises
        ------
        SettingError
            `n` is less than 1.
        """
        if n < 1:
            raise SettingError(f"aggregate must be a number of intervals of at least 1; found {n}")
        if n == 1:
            return self
        starts = block_starts(self.segments(), min(n, max(len(self), 1)))
        last = np.append(starts[1:], len(self)) - 1
        rows = self.rows.iloc[last].reset_index(drop=True)
        seconds = np.add.reduceat(self.rows["seconds"].to_numpy(), starts)
        return replace(
            self,
            rows=rows.assign(interval=np.arange(len(starts)), seconds=seconds),
            cycles=np.add.reduceat(self.cycles, starts),
            instructions=np.add.reduceat(self.instructions, starts),
            counts=np.add.reduceat(self.counts, starts, axis=0),
        )

    def _complete(self, time_event: str) -> "CpiCounts":
        """Leave out what cannot be used, and say so."""
        told = list(self.left_out)
        n = len(self)
        missing = np.isnan(self.counts).mean(axis=0) if n else np.zeros(len(self.events))
        never = [e for e, share in zip(self.events, missing, strict=True) if share == 1]
        rarely = [e for e, share in zip(self.events, missing, strict=True) if MOST_MISSING < share < 1]
        if never:
            told.append(f"never counted, and left out: {', '.join(never)}.")
        if rarely:
            told.append(f"missing in over {MOST_MISSING:.0%} of {n} intervals, and left out: {', '.join(rarely)}.")
        keep = [e for e, share in zip(self.events, missing, strict=True) if share <= MOST_MISSING]
        kept = self.select(events=keep)
        gaps = np.isnan(kept.cycles) | np.isnan(kept.instructions) | np.isnan(kept.counts).any(axis=1)
        idle = ~gaps & ((kept.cycles <= 0) | (kept.instructions <= 0))
        if n and (np.nan_to_num(kept.cycles) == 0).all():
            raise DataError(
                f"{time_event} is zero or missing in all {n} intervals, so there is no CPI to explain. "
                "Was the event supported where this was measured?"
            )
        if gaps.any():
            told.append(f"{gaps.sum()} of {n} intervals are left out: a count is missing in them.")
        if idle.any():
            told.append(f"{idle.sum()} of {n} intervals are left out: no cycles or no instructions were counted.")
        if not (n - gaps.sum() - idle.sum()):
            raise DataError(f"none of {n} intervals has all of cycles, instructions and {len(keep)} events: {told}")
        usable = kept.select(rows=~(gaps | idle))
        bad = len(told) > len(self.left_out)
        return replace(usable, left_out=tuple(told), bad_input=bad)


def block_starts(segments: np.ndarray, size: int) -> np.ndarray:
    """Return where blocks of ``size`` consecutive rows begin; no block reaches over the end of a segment."""
    edges = np.flatnonzero(np.diff(segments)) + 1
    starts = [np.arange(a, b, size) for a, b in zip([0, *edges], [*edges, len(segments)], strict=True)]
    return np.concatenate(starts)


def _choose_events(samples: Samples, events: Iterable[str] | None) -> tuple[list[str], list[str]]:
    known = samples.events
    if events is not None:
        wanted = [events] if isinstance(events, str) else list(events)
        unknown = [e for e in wanted if e not in known]
        if unknown:
            raise SettingError(_unknown_event(unknown[0], known))
        again = sorted({e for e in wanted if wanted.count(e) > 1})
        if again:
            raise SettingError(f"events names {', '.join(again)} more than once")
        return wanted, []
    clocks = clocks_among(known)
    others = [e for e in known if e not in clocks and other_core(e, samples.work_event)]
    chosen = [e for e in known if e not in clocks and e not in others]
    if not chosen:
        raise DataError(f"no event but clocks was counted ({', '.join(known) or 'none'}); a stack needs miss events")
    notes = [f"left out because they count time or work: {', '.join(clocks)} (name them in events= to use them)."]
    apart = [f"left out because they were counted on other cores than {samples.work_event}: {', '.join(others)}."]
    return chosen, [*(notes if clocks else []), *(apart if others else [])]


def clocks_among(events: Sequence[str]) -> list[str]:
    """Return the events that count elapsed time or finished work once more."""
    return [e for e in events if normalise(e) in _CLOCKS or is_fixed_rate(e)]


def _unknown_event(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"unknown event {name!r}: no event but those of time and work was counted"
    near = closest(name, known) or list(known[:3])
    others = f" ({len(known)} events were counted)" if len(known) > len(near) else ""
    return f"unknown event {name!r}; did you mean {listed(near, last='or')}?{others}"


def _rows_of(samples: Samples, index: pd.MultiIndex) -> pd.DataFrame:
    at = samples.intervals().set_index(["run", "place", "interval"])[["at", "seconds"]].reindex(index)
    rows = at.reset_index().assign(row=np.arange(len(at)))
    return rows.assign(run=rows["run"].astype(str), place=rows["place"].astype(str))
