"""What the rows of a table say of their order: clocks that begin anew, rows out of order, and whose rows they are."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from perfkit.readers.dates import date_columns
from perfkit.readers.grid import Grid, as_float, as_text, is_number
from perfkit.readers.report import Report
from perfkit.readers.running_totals import Rows
from perfkit.samples.clocks import is_name_of_clock, is_name_of_length, since_1970
from perfkit.samples.events import TIME_EVENTS, normalise

# Whose counts a row holds, where the values come again and again.
GROUPS = (
    "pid", "tid", "tgid", "rank", "process", "comm", "container", "pod", "hostname", "host", "node", "machine",
    "cgroup", "socket", "package", "die", "core", "cpu", "thread",
)  # fmt: skip
_STEPS = 9  # steps that are all even before it is no accident
_RISES, _EVEN = 6, 0.75
_BACK = 3  # times that dates go back, which runs put one after another hardly do so often
_FEW_STEPS, _EXACT = 4, 1e-6  # of fewer rows, whose steps are the same
_AS_LENGTHS = 0.7  # of the logarithm, by which a core's clock varies


def begins_anew(values: np.ndarray, rows: Rows) -> np.ndarray | None:
    """Return in which rows a clock goes back to its beginning; None where the values do so otherwise than a clock.

    A clock rises from row to row of a series (one that stands still is one too), and each time that it falls it falls
    to where it began.
    """
    later, steps = rows.later, rows.steps(values)
    anew = np.zeros(len(values), dtype=bool)
    anew[later[steps < 0]] = True
    if not anew.any():
        return anew
    rises = steps[~(steps < 0)]
    first = rows.before < 0
    parts = int(anew.sum() + first.sum())
    if len(rises) < max(_RISES, 3 * parts) or not (rises > 0).all():
        return None
    pace = np.median(rises)
    if np.mean(np.abs(rises - pace) <= pace / 2) < _EVEN:  # as lengths over growing sizes rise, more and more
        return None
    lowest = np.fmin.reduce(values[first | anew])
    return anew if values[anew].max() <= lowest + 2 * pace else None


def rises(values: np.ndarray, rows: Rows) -> bool:
    """Whether a column holds stamps: it rises in each series, or begins anew as a clock does."""
    known = values[np.isfinite(values)]
    return bool(len(known) > 1 and np.ptp(known) > 0 and begins_anew(rows.filled(values), rows) is not None)


def even(values: np.ndarray) -> bool:
    """Whether distinct values, once in order, are evenly spaced, as the stamps of a clock are and lengths are not."""
    steps = np.diff(np.sort(values))
    return len(steps) >= _STEPS and bool(
        np.isfinite(steps).all() and steps.min() > 0 and steps.max() < 1.5 * steps.min()
    )


def _shuffled(values: np.ndarray, cycles: np.ndarray | None) -> bool:
    """Whether few stamps are in another order than their clock's: exactly even once in order, and no parts that are.

    Nor are they lengths, which cycles go with.
    """
    steps = np.diff(np.sort(values))
    if len(steps) < _FEW_STEPS or not steps.min() > 0 or np.ptp(steps) > _EXACT * steps.max():
        return False
    parts = np.split(values, np.flatnonzero(np.diff(values) < 0) + 1)
    if all(len(p) > 1 and np.ptp(np.diff(p)) <= _EXACT * steps.max() for p in parts):
        return False  # runs put one after another
    if cycles is None or not ((cycles > 0) & (values > 0)).all():
        return True
    return bool(np.ptp(np.log(cycles / values)) > _AS_LENGTHS)


def _mixed_up(values: np.ndarray) -> bool:
    """Whether dates, each of which is there once, are from the last to the first, or go back again and again."""
    back = int(np.count_nonzero(np.diff(values) < 0))
    once = len(np.unique(values)) == len(values) > 2
    return once and (back == len(values) - 1 or (back >= _BACK and back > len(values) / 4))


def in_time_order(grid: Grid, series: np.ndarray, report: Report) -> tuple[Grid, np.ndarray]:
    """Return a table, and the series of its rows, in the order of its clock, where that is evenly spaced but not so."""
    if grid.parts:
        return grid, series
    rows = Rows.of(series)
    aside = Report(report.file, collect=True)
    dates = date_columns(grid, [i for i, c in enumerate(grid.columns) if not is_number(c)], aside)
    cycles = next((i for i, n in enumerate(grid.names) if normalise(n) in TIME_EVENTS[:-1]), None)
    counted = None if cycles is None or not is_number(grid.columns[cycles]) else as_float(grid.columns[cycles])
    for i, (name, column) in enumerate(zip(grid.names, grid.columns, strict=True)):
        stamps = is_name_of_clock(name) and not is_name_of_length(name) and is_number(column)
        if not stamps and i not in dates:
            continue
        values = dates[i] if i in dates else as_float(column)
        if not np.isfinite(values).all() or rises(values, rows):
            continue
        alike = pd.Series(values).groupby(series).indices.values()
        dated = i in dates or since_1970(np.sort(values), 1.0)
        if (
            all(even(values[of]) for of in alike)
            or (dated and all(_mixed_up(values[of]) for of in alike))
            or (len(alike) == 1 and _shuffled(values, None if i in dates else counted))
        ):
            order = np.argsort(values, kind="stable")
            report.note(f"rows are not in the order of column {name}; put in its order")
            return grid.take(order), series[order]
    return grid, series


def with_groups(grid: Grid, keys: dict[str, int], report: Report) -> tuple[Grid, dict[str, int]]:
    """Make places of the processes, machines or containers whose rows a table holds by turns."""
    found = [i for i, n in enumerate(grid.names) if n.lower() in GROUPS and i not in keys.values()]
    found = [i for i in found if _comes_again(_cells(grid, i))]
    kept = [keys["place"]] if "place" in keys else []
    if not found:
        return grid, keys
    together = [tuple(_cells(grid, i)[row] for i in kept) for row in range(grid.n_rows)]
    for i in found:
        cells = _cells(grid, i)
        finer = [(*a, b) for a, b in zip(together, cells, strict=True)]
        if len(set(finer)) > len(set(together)):
            kept, together = [*kept, i], finer
    if not kept:
        return grid, keys
    told = [grid.names[i] for i in found]
    report.note(f"rows of several {', '.join(told)}: each is a place of its own")
    places = pa.chunked_array([[" ".join(x) for x in together]])
    drop = {*found, *kept}
    columns = [c for i, c in enumerate(grid.columns) if i not in drop]
    names = [n for i, n in enumerate(grid.names) if i not in drop]
    moved = {key: i - sum(d < i for d in drop) for key, i in keys.items() if key != "place"}
    new = replace(grid, names=(*names, "place"), columns=(*columns, places), matrix=None)
    return new, moved | {"place": len(names)}


def _cells(grid: Grid, i: int) -> list[str]:
    return [c or "" for c in as_text(grid.columns[i])]


def _comes_again(cells: list[str]) -> bool:
    return 1 < len(set(cells)) <= len(cells) / 2
