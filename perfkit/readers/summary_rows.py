"""Rows of a table that sum up its other rows (Total, mean, geomean): no intervals of their own."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from perfkit.readers.grid import Grid, as_float, as_text, is_number
from perfkit.readers.report import Report
from perfkit.samples.clocks import is_name_of_clock

# Names that nothing else has, and names that a function or a run may have too.
_CERTAIN = re.compile(
    r"\W*(?:(?:grand|sub)[ _-]?total|totals?|overall|gmean|geo[ _-]?mean|"
    r"(?:(?:arithmetic|harmonic|geometric|weighted|trimmed|overall|total)[ _-]?)?(?:average|avg|mean|median)|"
    r"\d\d(?:\.\d+)?(?:th|st|nd|rd)?[ _-]?(?:percentile|pctl?|%(?:ile)?)|percentile[ _-]?\d\d|"
    r"std(?:[ _.-]?dev(?:iation)?)?|stdev|std[ _.-]?err(?:or)?|"
    # As spreadsheets in German, French, Italian, Spanish, Portuguese, Polish, Russian, Chinese and Japanese say.
    r"gesamt(?:summe)?|insgesamt|mittel(?:wert)?|mw|stabw|standardabweichung|[ée]cart[ -]type|desviaci[oó]n|"
    r"durchschnitt|somme|moyenne|total[ei]|totale[ _-]generale|m[eé]dia|promedio|soma|razem|[sś]rednia|"
    r"итого|всего|среднее|合计|总计|平均值?|合計)\W*|\s*[Øø⌀µμσ]\s*",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    r"\s*\*\s*|\W*(?:sum|summe|somma|suma|alle|tous|all(?:[ _-](?:cpus|cores|threads))?|"
    r"min(?:imum)?|max(?:imum)?|var(?:iance)?|cv|p\d\d|count|n)\W*",
    re.IGNORECASE,
)
_FEWEST, _MOST = 3, 10_000
_NEAR = 1e-9
_LARGE = 1e4  # means of counts that are right to the last digit by no accident


def without_summaries(grid: Grid, report: Report) -> Grid:
    """Return a table without the rows that its text calls a total or a mean, or that are the sum of all others.

    Nobody sums up a table of more rows than people look through; larger ones are taken as they are.
    """
    if not 2 <= grid.n_rows <= _MOST:
        return grid
    texts = (as_text(c) for c in grid.columns if not is_number(c))
    labels = next((t for t in texts if any(c is not None for c in t)), [None] * grid.n_rows)
    called = [i for i, label in enumerate(labels) if label is not None and _CERTAIN.fullmatch(label)]
    if called:  # functions may be called max, but hardly where another row is a mean
        called += [i for i, label in enumerate(labels) if label is not None and _BESIDE.fullmatch(label)]
    drop = set(called if len(called) < grid.n_rows else [])
    named = [i for i, label in enumerate(labels) if label is not None and _BESIDE.fullmatch(label) and i not in drop]
    drop |= {i for i in named if _is_sum_of_others(grid, i, sorted(set(range(grid.n_rows)) - drop))}
    drop |= _sums(grid, sorted(set(range(grid.n_rows)) - drop))
    if not drop and _third_is_sum(grid):
        report.note(
            f"caution: line {grid.lines[2]} holds the exact sum of the two before it in every column, and is read as "
            "an interval; if it is a total, call it Total or take it out"
        )
    return _left_out(grid, drop, labels, report)


def without_called_summaries(grid: Grid, columns: list[int], report: Report) -> Grid:
    """Return a table without the rows of which one of the columns says that they are a total or a mean."""
    for i in columns:
        labels = as_text(grid.columns[i])
        drop = {row for row, label in enumerate(labels) if label is not None and _CERTAIN.fullmatch(label)}
        grid = _left_out(grid, drop if len(drop) < grid.n_rows else set(), labels, report)
    return grid


def without_named_summaries(grid: Grid, columns: list[int], event: int, count: int, report: Report) -> Grid:
    """Return a long table without the rows whose run or place (``columns``) is called a total or a mean.

    Rows called ``all`` or ``sum`` go where they hold as much of every event as all others together.
    """
    for i in columns:
        labels = [] if is_number(grid.columns[i]) else as_text(grid.columns[i])
        drop = {row for row, label in enumerate(labels) if label is not None and _CERTAIN.fullmatch(label)}
        drop |= _sums_by_name(grid, labels, event, count)
        grid = _left_out(grid, drop if len(drop) < grid.n_rows else set(), labels, report)
    return grid


def _sums_by_name(grid: Grid, labels: Sequence[str | None], event: int, count: int) -> set[int]:
    named = {row for row, label in enumerate(labels) if label is not None and _BESIDE.fullmatch(label)}
    if (
        not named
        or len({labels[r] for r in range(grid.n_rows) if r not in named}) < 2
        or not is_number(grid.columns[count])
    ):
        return set()
    counts, totals = as_float(grid.columns[count]), dict[str | None, float]()
    for row, name in enumerate(as_text(grid.columns[event])):
        totals[name] = totals.get(name, 0.0) + (-counts[row] if row in named else counts[row])
    near = _NEAR * float(np.nansum(counts))
    return named if all(abs(t) <= near for t in totals.values()) else set()


def without_levels(grid: Grid, columns: list[int], event: int, count: int, report: Report) -> tuple[Grid, int | None]:
    """Return a long table without the rows of levels that hold as much as those of another (sockets beside cores).

    The second value is the column that tells levels and places apart, if it does: what is left adds up to the whole.

    Levels are the words of one of the columns, without their numbers, or rows without a word beside those with one.
    Of two that hold the same of every event the one with more rows is kept, and a word goes that holds as much as all
    others. Two events at least tell, with counts that are the same by no accident.
    """
    if not _FEWEST <= grid.n_rows <= _MOST or not is_number(grid.columns[count]):
        return grid, None
    counts = pd.DataFrame({"event": as_text(grid.columns[event]), "count": as_float(grid.columns[count])})
    for i in columns:
        words = pd.Series([word or "" for word in as_text(grid.columns[i])])
        for levels in (words.str.replace(r"\d+", "0", regex=True), words):
            by = counts.groupby([levels.to_numpy(), "event"])["count"]
            held, rows = by.sum().unstack("event"), by.size().unstack("event")
            if (held.max() > _LARGE / 10).sum() < 2 or held.isna().any(axis=None):
                continue
            sums = _levels_above(held, rows)
            if sums:
                drop = set(np.flatnonzero(levels.isin(sums)).tolist())
                return _left_out(grid, drop, words.tolist(), report), i if words.nunique() > len(sums) + 1 else None
    return grid, None


def _levels_above(held: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """Return the levels (rows) whose counts of every event (columns) are those of one with more rows, or of all."""

    def same(one: pd.Series, two: pd.Series) -> bool:
        return bool(((one - two).abs() <= _NEAR * two.abs()).all())

    found = [
        level
        for level in held.index
        if any(same(held.loc[level], held.loc[o]) and (rows.loc[level] < rows.loc[o]).all() for o in held.index)
    ]
    if found or len(held) < _FEWEST:
        return found
    return [level for level in held.index if same(2 * held.loc[level], held.sum())]


def _left_out(grid: Grid, drop: set[int], labels: Sequence[str | None], report: Report) -> Grid:
    if not drop:
        return grid
    keep = np.ones(grid.n_rows, dtype=bool)
    keep[sorted(drop)] = False
    lines = np.asarray(grid.lines)
    named = ", ".join(dict.fromkeys(str(labels[i] or f"line {lines[i]}") for i in sorted(drop)))
    report.left_out(lines[~keep].tolist(), f"with sums of the others, left out ({named[:80]})", "rows")
    return grid.only(keep)


def _sums(grid: Grid, rows: list[int]) -> set[int]:
    """Return the first or last of some rows where it is the sum or the mean of the others in every column of counts."""
    if len(rows) <= _FEWEST or grid.parts:
        return set()
    found = [
        as_float(c)[rows] for n, c in zip(grid.names, grid.columns, strict=True) if is_number(c) and not _orders(n)
    ]
    columns = [v for v in found if np.isfinite(v).all() and np.count_nonzero(v) > _FEWEST and not _even(v)]
    if len(columns) < 2:
        return set()
    for row in (-1, 0):
        if all(abs(v[row] - (v.sum() - v[row])) <= _NEAR * abs(v[row]) for v in columns):
            return {rows[row]}
        if sum(np.ptp(v) > 0 and v.mean() > _LARGE for v in columns) >= 2 and all(_is_mean(v, row) for v in columns):
            return {rows[row]}
    return set()


def _third_is_sum(grid: Grid) -> bool:
    """Whether the last of three rows is the sum of the others in two columns of large counts at least, and in all."""
    if grid.n_rows != _FEWEST or grid.parts or not _is_sum_of_others(grid, 2, [0, 1, 2]):
        return False
    return sum(as_float(c)[2] > _LARGE / 10 for n, c in zip(grid.names, grid.columns, strict=True) if is_number(c)) > 1


def _is_sum_of_others(grid: Grid, row: int, rows: list[int]) -> bool:
    """Whether a row is the sum of at least two others in every column of counts, of which there are at least two."""
    columns = [
        as_float(c)[rows] for n, c in zip(grid.names, grid.columns, strict=True) if is_number(c) and not _orders(n)
    ]
    at = rows.index(row)
    if len(rows) < _FEWEST or len(columns) < 2 or any(not v[at] > 0 for v in columns):
        return False
    return all(bool(abs(np.nansum(v) - 2 * v[at]) <= _NEAR * v[at]) for v in columns)


def _is_mean(values: np.ndarray, row: int) -> bool:
    """Whether a value is the mean of the others, rounded or not."""
    mean = (values.sum() - values[row]) / (len(values) - 1)
    return bool(abs(values[row] - mean) <= max(0.5, _NEAR * mean))


def _even(values: np.ndarray) -> bool:
    """Whether values number the rows, whatever the first and the last of them hold."""
    steps = np.diff(values[1:-1])
    return len(steps) > 1 and bool(steps[0] > 0 and (steps == steps[0]).all())


def _orders(name: str) -> bool:
    return is_name_of_clock(name) or name.lower() in ("interval", "sample", "index", "at", "row", "cpu", "core", "pid")
