"""Tables of running totals: counters that were read out again and again, and never fall unless they begin anew."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.grid import Grid
from perfkit.readers.report import Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, sounds_like_event

_SURE = 9  # steps that must all go up before it is no accident
_CERTAIN = 20
_FEW = 3  # steps, of which fewer go up by chance
_RARE = 0.05  # of the rows
# Where counters of so many bits end, with and without a sign: one that shows exactly this stopped there.
ENDS = {2.0**bits - 1: bits for bits in (31, 32, 40, 47, 48)}
_PART = r"(?:cpu|core|socket|node|die|thread)[ _-]?\d+"
AT_PLACE = re.compile(
    rf"(?P<before>{_PART})[ _]?[:/.|_ ][ _]?(?P<event>[^\W\d].*)$|"
    rf"(?P<of>[^\W\d].*?)[ _]?[:/.|@_ \[(](?P<behind>{_PART})[\])]?$",
    re.IGNORECASE,
)
_WHOLE = r"(?:total|all|sum|machine|system)"
OF_ALL_PLACES = re.compile(
    rf"(?P<before>{_WHOLE})[ _]?[:/.|_ ][ _]?(?P<event>[^\W\d].*)$|"
    rf"(?P<of>[^\W\d].*?)[ _]?[:/.|@_ \[(](?P<behind>{_WHOLE})[\])]?$",
    re.IGNORECASE,
)
_TURN, _HALF = 2.0**32, 2.0**31  # where counters of 32 bits begin anew
# What a monitor writes beside its counters: readings of a moment, which fall as often as they rise.
_GAUGE = re.compile(
    r"temp|load|power|watt|volt|current|fan|rss|memory|mem_|used|free|usage|util|running|queue|gauge|percent|pct|%|"
    r"[kmg]hz|freq|ratio|rate|ipc|cpi",
    re.IGNORECASE,
)
SAY_WHICH = (
    "Say cumulative=True or cumulative=False (in a shell: perfkit convert FILE OUT.parquet with --cumulative or "
    "--counts; every command reads OUT.parquet)."
)


def is_axis(name: str) -> bool:
    """Whether a column counts time or work, of all or at a place that its name tells (``CPU0:cycles``)."""
    at = AT_PLACE.match(name)
    return normalise(name if at is None else at["event"] or at["of"]) in (*TIME_EVENTS, *WORK_EVENTS)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table: ``before`` is the row before each in its own run and place (-1 for a first one)."""

    before: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, series: np.ndarray) -> "Rows":
        """Take rows in the order of a file, each of the series (run and place) that ``series`` names."""
        codes = pd.factorize(series)[0]
        order = np.argsort(codes, kind="stable")
        before = np.full(len(codes), -1)
        same = np.diff(codes[order]) == 0
        before[order[1:][same]] = order[:-1][same]
        return cls(before, codes)

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

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Return a column with the last known value before it, of its own series, where one is missing."""
        if np.isfinite(values).all():
            return values
        return pd.Series(values).groupby(self.codes, sort=False).ffill().to_numpy()


@dataclass(frozen=True, eq=False)
class Totals:
    """Which columns are running totals, which are readings of a moment, and in which rows all totals begin anew.

    ``counts`` are the columns that count each row for itself, among totals.
    """

    columns: tuple[int, ...]
    gauges: tuple[int, ...]
    restarts: np.ndarray
    counts: tuple[int, ...] = ()


def find_totals(
    names: dict[int, str],
    values: dict[int, np.ndarray],
    rows: Rows,
    stamped: bool,
    sweep: bool,
    report: Report,
    named: bool = False,
) -> Totals | None:
    """Return what of a table is running totals; None for a table of counts.

    ``named``: the columns are called totals by a tool that writes nothing else, so that few rows are enough.

    Counts over many intervals fall now and then; a counter that is read out never does, unless it begins anew, as all
    counters of a program then do together.

    Raises
    ------
    FormatError
        The table looks like running totals, and nothing in it (time stamps) proves that its rows follow one another.
    """
    later = rows.later
    axes = [i for i in names if is_axis(names[i])]
    asked = report.asked.cumulative
    values = {i: rows.filled(values[i]) for i in names}
    mostly_known = all(2 * np.isfinite(v).sum() > len(v) for v in values.values())
    if asked is False or not names or not mostly_known or not len(later):
        return None if not asked else Totals(tuple(names), (), np.zeros(len(rows.before), dtype=bool))
    falls = {i: rows.steps(values[i]) < 0 for i in names}
    gauges = tuple(i for i in names if falls[i].any() and i not in axes and _is_gauge(names[i], values[i]))
    counters = tuple(i for i in names if i not in gauges)
    restarts = np.zeros(len(rows.before), dtype=bool)
    restarts[later] = np.logical_and.reduce([falls[i] for i in counters]) if counters else False
    only_there = all((falls[i] <= restarts[later]).all() for i in counters)
    if asked:
        return Totals(counters if only_there else tuple(names), gauges if only_there else (), restarts)
    if len(later) >= _CERTAIN * rows.n_series and stamped:
        _refuse_turns(names, values, rows, axes, report)
        _refuse_wraps(names, values, rows, {i: falls[i] for i in counters}, report)
    if named and stamped and only_there and not restarts.any():
        return Totals(counters, gauges, restarts)
    if len(counters) < 2 or sweep or len(later) < _SURE * rows.n_series:
        return None
    if not only_there:
        return _some_totals(names, values, rows, axes, gauges, stamped, report)
    risen = sum((rows.steps(values[i])[~restarts[later]] > 0).any() for i in counters)
    if risen < 2 or restarts.sum() > len(later) / _SURE or _is_sweep([rows.steps(values[i]) for i in axes]):
        return None
    if not stamped or restarts.any():
        raise FormatError(
            f"{report.file}: no count in any of the {len(rows.before):,} rows ever falls"
            f"{' but where all fall together' if restarts.any() else ''}. Are these running totals, or counts "
            f"that happen to rise? {SAY_WHICH}"
        )
    return Totals(counters, gauges, restarts)


def _some_totals(
    names: dict[int, str],
    values: dict[int, np.ndarray],
    rows: Rows,
    axes: list[int],
    gauges: tuple[int, ...],
    stamped: bool,
    report: Report,
) -> Totals | None:
    """Return the totals of a table in which time and work are such and others count each row for itself."""
    steps = {i: rows.steps(values[i]) for i in names}
    rising = tuple(i for i in names if i not in gauges and not (steps[i] < 0).any())
    risen = all(i in rising and (steps[i] > 0).any() for i in axes) and len(axes) > 1
    if not risen or len(rows.later) < _CERTAIN * rows.n_series or _is_sweep([steps[i] for i in axes]):
        return None
    if not stamped:
        report.note(
            f"caution: {', '.join(names[i] for i in axes)} never fall; if they are running totals, add a column of "
            "time stamps"
        )
        return None
    of_rows = tuple(i for i in names if i not in (*rising, *gauges))
    report.note(f"columns that count each row for itself, among running totals: {', '.join(names[i] for i in of_rows)}")
    return Totals(rising, gauges, np.zeros(len(rows.before), dtype=bool), of_rows)


def _refuse_turns(
    names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, axes: list[int], report: Report
) -> None:
    """Refuse time or work that rises, and falls only by more than half of what 32 bits hold."""
    turned = [names[i] for i in axes if _turns(values[i], rows.steps(values[i]))]
    if turned:
        raise FormatError(
            f"{report.file}: {', '.join(turned)} stay below {_TURN:,.0f}, rise, and fall only by more than half of "
            "that: running totals of 32 bits that began anew. How often they did between two rows cannot be told. Read "
            "them out more often or as 64 bits; if they are counts of each row, say cumulative=False (in a shell: "
            "perfkit convert FILE OUT.parquet --counts)."
        )


def _refuse_wraps(
    names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, falls: dict[int, np.ndarray], report: Report
) -> None:
    """Refuse columns that rise, but for a few rows where one falls by far more than any step: not where all do.

    Read as counts, each row would have the total since the machine started; and how much a counter holds is not known.
    """
    rising = [i for i, fall in falls.items() if fall.mean() <= _RARE]
    together = np.logical_and.reduce([falls[i] for i in rising])
    lone = {i: falls[i] & ~together for i in rising}
    wrapped = [i for i in rising if lone[i].any() and _wraps(rows.steps(values[i]), lone[i])]
    if wrapped and len(rising) > 1:
        raise FormatError(
            f"{report.file}: {', '.join(names[i] for i in wrapped)} rise in all rows but "
            f"{int(falls[wrapped[0]].sum())}, where they fall "
            "by more than ten times any step: running totals that began anew (counters of 32 or 48 bits do), and how "
            "much was counted there cannot be told. Leave out the rows before, or read them out as 64 bits; if they "
            "are counts of each row, say cumulative=False (in a shell: perfkit convert FILE OUT.parquet --counts)."
        )


def _wraps(steps: np.ndarray, lone: np.ndarray) -> bool:
    return bool(-steps[lone].max() > 10 * np.nanmax(steps))


def _turns(values: np.ndarray, steps: np.ndarray) -> bool:
    falls = steps < 0
    if falls.sum() < 3 or np.nanmax(values) >= _TURN:
        return False
    return bool((steps[falls] < -_HALF).all() and (steps[~falls] < _HALF).all())


def _is_gauge(name: str, values: np.ndarray) -> bool:
    return _GAUGE.search(name) is not None or bool(np.any(values % 1))


def _is_sweep(steps: list[np.ndarray]) -> bool:
    """Whether time and work rise by more and more, as over the sizes of a problem."""
    return bool(steps) and all((np.diff(s) > 0).mean() > 0.8 and s[-1] > 3 * s[0] for s in steps)


def counts_between(
    grid: Grid, values: dict[int, np.ndarray], times: dict[str, np.ndarray], found: Totals, rows: Rows, report: Report
) -> tuple[dict[int, np.ndarray], dict[str, np.ndarray], Grid]:
    """Make counts of running totals. What came before a first row is not known: it has no count of its own.

    ``times`` are the columns interval, at and seconds of the rows, as known; so are those that are returned.
    """
    steps = {i: rows.steps(rows.filled(values[i])) for i in found.columns}
    falls = [grid.names[i] for i in found.columns if (steps[i][~found.restarts[rows.later]] < 0).any()]
    if falls:
        turned = [grid.names[i] for i in found.columns if _turns(values[i], steps[i])]
        why = (
            f"; {', '.join(turned)} look like totals of 32 bits that began anew, which cannot be undone"
            if turned
            else ""
        )
        raise FormatError(f"{report.file}: running totals cannot fall, but these do: {', '.join(falls[:5])}{why}")
    stuck = [grid.names[i] for i in found.columns if np.isin(values[i], list(ENDS)).any()]
    if stuck:
        raise FormatError(
            f"{report.file}: running totals that stopped where a counter of 31 to 48 bits ends: {', '.join(stuck)}; "
            "what was counted from there on is not known. Leave out these rows, or the column"
        )
    report.note("rows are running totals: their differences are the counts, and the first row only their beginning")
    if found.gauges:
        report.note(
            f"columns that rise and fall among running totals, readings of a moment and no counts, left out: "
            f"{', '.join(grid.names[i] for i in found.gauges)}"
        )
    if found.restarts.any():
        report.note(f"the totals begin anew at {counted(int(found.restarts.sum()), 'rows')}, without a count there")
    report.dated = False  # the first row is the beginning of the second
    keep = (rows.before >= 0) & ~found.restarts
    before = rows.before[keep]
    out = {k: v[keep] for k, v in times.items()}
    if "at" in times:
        if not np.isfinite(out.get("seconds", np.nan)).any():
            out["seconds"] = times["at"][keep] - times["at"][before]
        out["at"] = times["at"][keep] - np.fmin.reduce(times["at"])
    counts = {i: values[i][keep] - values[i][before] for i in found.columns}
    counts |= {i: values[i][keep] for i in found.counts}
    return {i: counts[i] for i in values if i in counts}, out, grid.only(keep)


def note_few_that_rise(names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, report: Report) -> None:
    """Say that all counts of a table with a clock rise in every row, where its rows are too few to prove anything.

    Two or three rows rise by chance: there it is said where time and work grow by a third of what they were, as totals
    do at their beginning.
    """
    later = rows.later
    if not 0 < len(later) < _SURE * rows.n_series or report.asked.cumulative is not None or len(names) < 2:
        return
    steps = {i: rows.steps(values[i]) for i in names}
    axes = [i for i in names if is_axis(names[i])]
    if len(later) < _FEW:
        counters = [i for i in names if i in axes or sounds_like_event(names[i]) or not _GAUGE.search(names[i])]
        grown = all((steps[i] > 0).all() and (3 * steps[i] >= values[i][rows.before[later]]).all() for i in axes)
        rising = bool(axes) and grown and all((steps[i] >= 0).all() for i in counters)
    else:
        rising = all((s > 0).all() for s in steps.values())
    if rising:
        report.note(
            f"caution: every count rises in each of the {len(rows.before):,} rows, which are read as counts; if they "
            "are running totals, say cumulative=True (in a shell: perfkit convert FILE OUT.parquet --cumulative)"
        )


def lone_totals(
    names: dict[int, str], values: dict[int, np.ndarray], rows: Rows, stamped: bool, report: Report
) -> list[int]:
    """Return the columns that only ever rise among others that rise and fall: running totals in a table of counts.

    Where there are too few rows to be certain, a note says what it may be.
    """
    if not stamped or len(rows.later) < _SURE * rows.n_series:
        return []
    axes = [i for i in names if is_axis(names[i])]
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
