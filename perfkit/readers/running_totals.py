"""Tables of running totals: counters that were read out again and again, and never fall unless they begin anew."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.grid import Grid
from perfkit.readers.report import Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

_SURE = 9  # steps that must all go up before it is no accident
_CERTAIN = 20
# What a monitor writes beside its counters: readings of a moment, which fall as often as they rise.
_GAUGE = re.compile(
    r"temp|load|power|watt|volt|current|fan|rss|memory|mem_|used|free|usage|util|running|queue|gauge|percent|pct|%|"
    r"[kmg]hz|freq|ratio|rate|ipc|cpi",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table: ``before`` is the row before each in its own run and place (-1 for a first one)."""

    before: np.ndarray

    @classmethod
    def of(cls, series: np.ndarray) -> "Rows":
        """Take rows in the order of a file, each of the series (run and place) that ``series`` names."""
        codes = pd.factorize(series)[0]
        order = np.argsort(codes, kind="stable")
        before = np.full(len(codes), -1)
        same = np.diff(codes[order]) == 0
        before[order[1:][same]] = order[:-1][same]
        return cls(before)

    @property
    def later(self) -> np.ndarray:
        """The rows that have one before them."""
        return np.flatnonzero(self.before >= 0)

    @property
    def n_series(self) -> int:
        """How many runs and places there are."""
        return int((self.before < 0).sum())

    def steps(self, values: np.ndarray) -> np.ndarray:
        """Return the change of a column to each row that has one before it."""
        later = self.later
        return values[later] - values[self.before[later]]


@dataclass(frozen=True, eq=False)
class Totals:
    """Which columns are running totals, which are readings of a moment, and in which rows all totals begin anew."""

    columns: tuple[int, ...]
    gauges: tuple[int, ...]
    restarts: np.ndarray


def find_totals(
    names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, stamped: bool, sweep: bool, report: Report
) -> Totals | None:
    """Return what of a table is running totals; None for a table of counts.

    Counts over many intervals fall now and then; a counter that is read out never does, unless it begins anew, as all
    counters of a program then do together.

    Raises
    ------
    FormatError
        The table looks like running totals, and nothing in it (time stamps) proves that its rows follow one another.
    """
    later = rows.later
    axes = [i for i in names if normalise(names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    everything_finite = all(np.isfinite(values[i]).all() for i in names)
    asked = report.asked.cumulative
    if asked is False or not names or not everything_finite or not len(later):
        return None if not asked else Totals(tuple(names), (), np.zeros(len(rows.before), dtype=bool))
    falls = {i: rows.steps(values[i]) < 0 for i in names}
    gauges = tuple(i for i in names if falls[i].any() and i not in axes and _is_gauge(names[i], values[i]))
    counters = tuple(i for i in names if i not in gauges)
    restarts = np.zeros(len(rows.before), dtype=bool)
    restarts[later] = np.logical_and.reduce([falls[i] for i in counters]) if counters else False
    only_there = all((falls[i] <= restarts[later]).all() for i in counters)
    if asked:
        return Totals(counters if only_there else tuple(names), gauges if only_there else (), restarts)
    if len(counters) < 2 or not only_there or sweep or len(later) < _SURE * rows.n_series:
        return None
    risen = sum((rows.steps(values[i])[~restarts[later]] > 0).any() for i in counters)
    if risen < 2 or restarts.sum() > len(later) / _SURE or _is_sweep([rows.steps(values[i]) for i in axes]):
        return None
    if not stamped or restarts.any():
        raise FormatError(
            f"{report.file}: no count in any of the {len(rows.before):,} rows ever falls"
            f"{' but where all fall together' if restarts.any() else ''}. Are these running totals, or counts "
            "that happen to rise? Say cumulative=True or cumulative=False "
            "(in a shell: perfkit convert FILE OUT.parquet with --cumulative or --counts; every command reads "
            "OUT.parquet)."
        )
    return Totals(counters, gauges, restarts)


def _is_gauge(name: str, values: np.ndarray) -> bool:
    return _GAUGE.search(name) is not None or bool(np.any(values % 1))


def _is_sweep(steps: list[np.ndarray]) -> bool:
    """Whether time and work rise by more and more, as over the sizes of a problem."""
    return bool(steps) and all((np.diff(s) > 0).mean() > 0.8 and s[-1] > 3 * s[0] for s in steps)


def differences(
    grid: Grid, values: dict[int, np.ndarray], times: dict[str, np.ndarray], found: Totals, rows: Rows, report: Report
) -> tuple[dict[int, np.ndarray], dict[str, np.ndarray], Grid]:
    """Make counts of running totals. What came before a first row is not known: it has no count of its own.

    ``times`` are the columns interval, at and seconds of the rows, as known; so are those that are returned.
    """
    falls = [grid.names[i] for i in found.columns if (rows.steps(values[i])[~found.restarts[rows.later]] < 0).any()]
    if falls:
        raise FormatError(f"{report.file}: running totals cannot fall, but these do: {', '.join(falls[:5])}")
    report.note("rows are running totals: their differences are the counts, and the first row only their beginning")
    if found.gauges:
        report.note(
            f"columns that rise and fall among running totals, readings of a moment and no counts, left out: "
            f"{', '.join(grid.names[i] for i in found.gauges)}"
        )
    if found.restarts.any():
        report.note(f"the totals begin anew at {int(found.restarts.sum())} row(s), which have no count of their own")
    report.dated = False  # the first row is the beginning of the second
    keep = (rows.before >= 0) & ~found.restarts
    before = rows.before[keep]
    out = {k: v[keep] for k, v in times.items()}
    if "at" in times:
        out.setdefault("seconds", times["at"][keep] - times["at"][before])
        out["at"] = times["at"][keep] - np.fmin.reduce(times["at"])
    return {i: values[i][keep] - values[i][before] for i in found.columns}, out, grid.only(keep)


def lone_totals(
    names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, stamped: bool, report: Report
) -> list[int]:
    """Return the columns that only ever rise among others that rise and fall: running totals in a table of counts.

    Where there are too few rows to be certain, a note says what it may be.
    """
    if not stamped or len(rows.later) < _SURE * rows.n_series:
        return []
    axes = [i for i in names if normalise(names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    if not axes or any((rows.steps(values[i]) >= 0).all() for i in axes):
        return []
    rising = [i for i in names if i not in axes and bool((rows.steps(values[i]) > 0).all())]
    certain = [i for i in rising if len(rows.later) >= _CERTAIN * rows.n_series]
    for i in rising:
        if i in certain:
            report.note(f"column {names[i]} only ever rises, a running total and no count of each row; left out")
        else:
            report.note(f"caution: column {names[i]} only ever rises; if it is a running total, leave it out")
    return certain
