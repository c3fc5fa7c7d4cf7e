"""Rows of a table that sum up its other rows (Total, mean, geomean): no intervals of their own."""

import itertools
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.grid import Grid, as_float, as_text, is_number, numbers
from perfkit.readers.report import Report
from perfkit.readers.scales import is_ratio
from perfkit.samples.clocks import is_name_of_clock
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

# Names that nothing else has, and names that a function or a run may have too.
_CERTAIN = re.compile(
    r"\W*(?:(?:grand|sub)[ _-]?total|totals?|overall|gmean|geo[ _-]?mean|"
    r"(?:(?:arithmetic|harmonic|geometric|weighted|trimmed|overall|total)[ _-]?)?(?:average|avg|mean|median)|"
    r"\d\d(?:\.\d+)?(?:th|st|nd|rd)?[ _-]?(?:percentile|pctl?|%(?:ile)?)|percentile[ _-]?\d\d|"
    r"std(?:[ _.-]?dev(?:iation)?)?|stdev|std[ _.-]?err(?:or)?|"
    # As spreadsheets in German, French, Italian, Spanish, Portuguese, Polish, Russian, Chinese and Japanese say.
    r"gesamt(?:summe)?|insgesamt|mittel(?:wert)?|mw|std?abw|standardabweichung|[ée]cart[ -]type|desviaci[oó]n|"
    r"durchschnitt|somme|moyenne|total[ei]|totale[ _-]generale|m[eé]dia|promedio|soma|razem|[sś]rednia|"
    r"итого|всего|среднее|合计|总计|平均值?|合計)\W*|\s*[Øø⌀µμσ]\s*",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    r"\s*\*\s*|\W*(?:sum|summe|somma|suma|alle|tous|all(?:[ _-](?:cpus|cores|threads))?|"
    r"min(?:imum)?|max(?:imum)?|var(?:iance)?|cv|p\d\d|count|n|\d\d?(?:\.\d+)?%|q[1-4]|iqr|sem|mad|range)\W*",
    re.IGNORECASE,
)
_SPREAD = re.compile(r"std(?:[ _.-]?dev(?:iation)?)?|stdev|var(?:iance)?|sem|min(?:imum)?|\d\d?%", re.IGNORECASE)
# Levels by name, their numbers written as 0 (-0 is the number -1, which some tools give to the sum of all).
_PACKAGE = re.compile(
    r"\W*(?:skt|sockets?|s|packages?|pkg|nodes?|numa(?:[ _-]?nodes?)?|n|dies?|d)[ _-]?0\W*", re.IGNORECASE
)
_WHOLE = re.compile(
    r"\s*(?:\*|-0)\s*|\W*(?:systems?|machines?|hosts?|servers?|whole|sum|totals?|overall|"
    r"all(?:[ _-](?:cpus|cores|threads))?)[ _-]?0?\W*",
    re.IGNORECASE,
)
_LONG = 500
_FEWEST, _MOST, _MOST_OF_LEVELS, _MOST_WORDS = 3, 10_000, 1_000_000, 1000
_NEAR, _EXACT, _NEARLY = 1e-9, 1e-12, 0.01  # means, sums of whole numbers, what was measured twice
_LARGE = 1e4  # means of counts that are right to the last digit by no accident


def is_called_summary(word: str) -> bool:
    """Whether a row or a column is a total or a mean by its name, in one of many languages."""
    return _CERTAIN.fullmatch(word) is not None


def without_summaries(grid: Grid, report: Report) -> Grid:
    """Return a table without the rows that its text calls a total or a mean, or that are the sum of all others.

    Nobody sums up a table of more rows than people look through; larger ones are taken as they are.
    """
    if not 2 <= grid.n_rows <= _MOST:
        return grid
    texts = [t for c in grid.columns if not is_number(c) and any(t := as_text(c))]
    labels = next(iter(texts), [None] * grid.n_rows)
    read_out = _read_out(grid, report)
    called = [i for i, label in enumerate(labels) if label is not None and _CERTAIN.fullmatch(label)]
    _refuse_statistics(labels, report)
    if called:  # functions may be called max, but hardly where another row is a mean
        called += [i for i, label in enumerate(labels) if label is not None and _BESIDE.fullmatch(label)]
    drop = set(called if len(called) < grid.n_rows else [])
    named = [i for i, label in enumerate(labels) if label is not None and _BESIDE.fullmatch(label) and i not in drop]
    drop |= {i for i in named if _is_sum_of_others(read_out, i, sorted(set(range(grid.n_rows)) - drop))}
    drop |= _sums_of_groups(read_out, texts)
    drop |= _sums(read_out, sorted(set(range(grid.n_rows)) - drop))
    if not drop and _third_is_sum(read_out):
        report.note(
            f"caution: line {grid.lines[2]} holds the exact sum of the two before it in every column, and is read as "
            "an interval; if it is a total, call it Total or take it out"
        )
    return _left_out(grid, drop, labels, report)


def _read_out(grid: Grid, report: Report) -> Grid:
    """Return a table whose columns of text that hold nothing but numbers (``1.234.567``) are numbers.

    Of long tables those of time and work tell, where both are counted.
    """
    axes = [i for i, name in enumerate(grid.names) if normalise(name) in (*TIME_EVENTS, *WORK_EVENTS)]
    which = axes if len(axes) > 1 and grid.n_rows > _LONG else [*range(len(grid.names))]
    written = {i: as_text(grid.columns[i]) for i in which if not is_number(grid.columns[i])}
    try:
        values = numbers(grid, which, Report(report.file, collect=True))
    except FormatError:
        return grid  # is said when the columns are read
    plain = {i for i in written if i in values and not any(np.isnan(values[i]) != [c is None for c in written[i]])}
    return replace(grid, columns=tuple(values[i] if i in plain else c for i, c in enumerate(grid.columns)), matrix=None)


def _refuse_statistics(labels: Sequence[str | None], report: Report) -> None:
    """Refuse a table whose every row is a statistic by its name, as pandas' ``describe()`` writes them."""
    words = [label.strip() for label in labels if label]
    spread = any(_SPREAD.fullmatch(w) for w in words) and any(_CERTAIN.fullmatch(w) for w in words)
    if len(words) == len(labels) and spread and all(_CERTAIN.fullmatch(w) or _BESIDE.fullmatch(w) for w in words):
        raise FormatError(
            f"{report.file}: its rows are statistics ({', '.join(words[:4])}{', ...' if len(words) > 4 else ''}) of "
            "counts, and no counts of intervals or runs. Give the table that they were made of"
        )


def refuse_trees(grid: Grid, report: Report) -> None:
    """Refuse a table whose rows are set in below those that hold their counts, too: a call tree, inclusive.

    Each row of time or work holds at least what those right below it do together; exclusive counts hardly do.
    """
    axes = [i for i, n in enumerate(grid.names) if normalise(n) in (*TIME_EVENTS[:-1], *WORK_EVENTS)]
    if not axes or not 2 <= grid.n_rows <= _MOST:
        return
    for name, column in zip(grid.names, grid.columns, strict=True):
        if isinstance(column, np.ndarray) or is_number(column):
            continue
        cells = [str(c or "") for c in column.to_pylist()]
        depth = [len(c) - len(c.lstrip()) for c in cells]
        if not any(depth) or depth[0] or not all(c.strip() for c in cells):
            continue
        parents: list[int] = []
        below: dict[int, list[int]] = {}
        for row, d in enumerate(depth):
            parents = [p for p in parents if depth[p] < d]
            if parents:
                below.setdefault(parents[-1], []).append(row)
            parents.append(row)
        values = numbers(grid, axes, Report(report.file, collect=True)).values()
        held = [v[p] + _NEAR * v[p] >= v[rows].sum() for v in values for p, rows in below.items()]
        if held and all(held):
            raise FormatError(
                f"{report.file}: the rows are a tree by the blanks before the words of column {name}, and what a row "
                "holds is held by the one above it, too: all is counted several times. Export exclusive (self) counts, "
                "or keep the rows of which none is part of another, without blanks"
            )


def _sums_of_groups(grid: Grid, texts: list[list[str | None]]) -> set[int]:
    """Return the rows without a word, in a column of words, that are the sums of the rows above them (subtotals).

    Each sums up the rows since the one before it, or all that are no sums.
    """
    columns = [as_float(c) for n, c in zip(grid.names, grid.columns, strict=True) if is_number(c) and not _orders(n)]
    columns = [v for v in columns if np.isfinite(v).all() and v.any()]
    if len(columns) < 2 or grid.parts or sum(bool(v.max() > _LARGE / 10) for v in columns) < 2:
        return set()
    for words in texts:
        without = [i for i, word in enumerate(words) if not word]
        ends = [0, *(i + 1 for i in without)]
        if not without or not all(
            any(_are_sum(columns, i, of) for of in (range(start, i), [r for r in range(i) if words[r]]))
            for start, i in zip(ends, without, strict=False)
        ):
            continue
        if any(i - start > 1 for start, i in zip(ends, without, strict=False)):
            return set(without)
    return set()


def _are_sum(columns: list[np.ndarray], row: int, of: Sequence[int]) -> bool:
    """Whether a row is the sum of some others in every column."""
    return len(of) > 0 and all(abs(v[[*of]].sum() - v[row]) <= _NEAR * v[row] for v in columns)


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
    Of two that hold the same of every event that both count the one with more rows is kept, and a word goes that holds
    as much as all others. Two events at least tell, with counts that are the same by no accident. Events that only the
    level above counts stay.
    """
    if not _FEWEST <= grid.n_rows <= _MOST_OF_LEVELS or not is_number(grid.columns[count]):
        return grid, None
    events = np.array([name or "" for name in as_text(grid.columns[event])], dtype=object)
    counts = pd.DataFrame({"event": events, "count": as_float(grid.columns[count])})

    def held_by(levels: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
        by = counts.groupby([levels, "event"], sort=False)["count"]
        return by.sum(min_count=1).unstack("event"), by.size().unstack("event")

    def rows_of(levels: np.ndarray, above: dict[str, list[Hashable]]) -> np.ndarray:
        return np.any(
            [(levels == level) & np.isin(events, np.array(names, dtype=object)) for level, names in above.items()],
            axis=0,
        )

    return _without_sums(grid, columns, held_by, rows_of, report)


def without_levels_of_columns(grid: Grid, columns: list[int], report: Report) -> tuple[Grid, int | None]:
    """Return a wide table without the rows of levels that hold as much as those of another, as `without_levels` does.

    Where cycles and instructions are counted these tell, else every column that may count.
    """
    if not _FEWEST <= grid.n_rows <= _MOST_OF_LEVELS or not columns:
        return grid, None
    counting = [i for i, n in enumerate(grid.names) if i not in columns and not _orders(n) and not is_ratio(n)]
    axes = [i for i in counting if normalise(grid.names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    aside = Report(report.file, collect=True)  # what it has to say of these columns is said when they are read
    values = numbers(grid, axes if len(axes) > 1 else counting, aside)
    columns = [i for i in columns if _comes_again(as_text(grid.columns[i]), grid.parts)]
    if len(values) < 2 or not columns:
        return grid, None
    counts = pd.DataFrame(values)

    def held_by(levels: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
        by = counts.groupby(levels, sort=False)
        return by.sum(min_count=1), by.count()

    def rows_of(levels: np.ndarray, above: dict[str, list[Hashable]]) -> np.ndarray:
        drop = np.isin(levels, list(above))
        others = numbers(grid, [i for i in counting if i not in counts], aside).items()
        if only := [grid.names[i] for i, v in others if np.isnan(v[~drop]).all() and np.nansum(v[drop]) > 0]:
            report.note(f"counted by rows alone that sum up the others, left out with them: {', '.join(only)}")
        return drop

    return _without_sums(grid, columns, held_by, rows_of, report)


def _without_sums(
    grid: Grid,
    columns: list[int],
    held_by: Callable[[np.ndarray], tuple[pd.DataFrame, pd.DataFrame]],
    rows_of: Callable[[np.ndarray, dict[str, list[Hashable]]], np.ndarray],
    report: Report,
) -> tuple[Grid, int | None]:
    """Leave out the levels above others that one of the columns tells; see `without_levels`.

    ``held_by`` returns what each level holds of each event and in how many rows, ``rows_of`` the rows that hold the
    counts of some levels and events.
    """
    near = ""
    for i in columns:
        words = np.array([word or "" for word in as_text(grid.columns[i])], dtype=object)
        codes, known = pd.factorize(words)
        if not 1 < len(known) <= _MOST_WORDS:
            continue
        shapes = np.array([re.sub(r"\d+", "0", word) for word in known], dtype=object)[codes]
        for levels in (shapes, words):
            held, rows = held_by(levels)
            above = (_levels_above(held, rows) if levels is shapes else {}) or _all_others(held)
            if above:
                drop = set(np.flatnonzero(rows_of(levels, above)).tolist())
                left = len(set(words) - set(words[sorted(drop)]))
                return _left_out(grid, drop, words.tolist(), report), i if left > 1 else None
            near = near or (_nearly_above(held) if levels is shapes else "")
    if near:
        report.note(f"caution: {near}; if they sum them up, leave them out: else all is counted twice")
    return grid, None


def places_above(counts: pd.DataFrame) -> list[str]:
    """Return the places of a table of counts (place, event, count) that hold as much as others, as `without_levels`."""
    places = counts["place"].to_numpy(dtype=object)
    shapes = np.array([re.sub(r"\d+", "0", place) for place in places], dtype=object)
    for levels in (shapes, places):
        by = counts.groupby([levels, counts["event"].to_numpy(dtype=object)], sort=False)["count"]
        held, rows = by.sum(min_count=1).unstack(), by.size().unstack()
        above = (_levels_above(held, rows) if levels is shapes else {}) or _all_others(held)
        if above:
            return [str(place) for place in dict.fromkeys(places[np.isin(levels, list(above))])]
    return []


def named_sums(values: dict[str, np.ndarray]) -> list[str]:
    """Return the columns (of a row per event) that hold as much as others and are called so (``socket0``)."""
    counts = [(name, event, value) for name, column in values.items() for event, value in enumerate(column)]
    above = places_above(pd.DataFrame(counts, columns=["place", "event", "count"])) if len(values) >= _FEWEST else []
    return [name for name in above if _rank(re.sub(r"\d+", "0", name))]


def _levels_above(held: pd.DataFrame, rows: pd.DataFrame) -> dict[str, list[Hashable]]:
    """Return the levels (rows) that hold of every event (columns) what one with more rows does, with the events."""
    out = {}
    for level in held.index:
        for below in held.index:
            both = held.columns[held.loc[level].notna() & held.loc[below].notna()]
            fewer = (rows.loc[level, both] < rows.loc[below, both]).all() or (
                _rank(level) > _rank(below) and (rows.loc[level, both] == rows.loc[below, both]).all()
            )
            if fewer and _same(held.loc[level, both], held.loc[below, both], _EXACT):
                out[level] = list(both)
    return out


def _all_others(held: pd.DataFrame) -> dict[str, list[Hashable]]:
    """Return the level that holds of every event what all others do together, with the events."""
    if len(held) < _FEWEST or held.isna().any(axis=None):
        return {}
    return {v: list(held.columns) for v in held.index if _same(2 * held.loc[v], held.sum(), _EXACT)}


def _same(one: pd.Series, two: pd.Series, within: float) -> bool:
    """Whether two levels hold as much of every event, by no accident: of two events at least they hold thousands."""
    return bool((two > _LARGE / 10).sum() >= 2 and ((one - two).abs() <= within * two.abs()).all())


def _nearly_above(held: pd.DataFrame) -> str:
    """Say which level of a name that sums up others holds nearly as much as one of those; "" where none does."""
    for level in held.index:
        for below in held.index:
            both = held.columns[held.loc[level].notna() & held.loc[below].notna()]
            if _rank(level) > _rank(below) and _same(held.loc[level, both], held.loc[below, both], _NEARLY):
                return f"rows called {level} hold what those called {below or 'nothing'} do within {_NEARLY:.0%}"
    return ""


def _comes_again(words: list[str | None], parts: Sequence[int]) -> bool:
    """Whether a word stands in several rows of one of the files put one after another, or is a level by its name.

    A row for each word is an interval of each, or a run, of which `without_summaries` knows the sums.
    """
    if len(different := {*filter(None, words)}) > _MOST_WORDS:
        return False  # no levels
    if any(_rank(re.sub(r"\d+", "0", word)) for word in different):
        return True
    within = [words[a:b] for a, b in itertools.pairwise([0, *parts, len(words)])]
    return any(len(set(some)) < len(some) for some in within)


def _rank(level: str) -> int:
    """Return how much a level holds by its name: 0 for cores and all others, 1 for sockets, 2 for the whole machine."""
    return 2 if _WHOLE.fullmatch(level) else 1 if _PACKAGE.fullmatch(level) else 0


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
