"""Columns of dates and times of day as seconds.

Dates in ISO 8601 (``2026-01-05T10:00:00``, with a blank for T, a fraction, a zone or Z); as spreadsheets write them in
Germany (``27.11.2026 10:00:00``), the United States (``11/27/2026 10:00:00 AM``) and Britain (``27/11/2026 10:00``).
Times of day without a date are not read, nor days in a column of their own: how long a run took is written alike.
"""

import re
from datetime import date

import numpy as np
import pandas as pd

from perfkit.readers.grid import Column, Grid, as_text, is_number
from perfkit.readers.report import Report

_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?", re.IGNORECASE
)


_WRITTEN = re.compile(
    r"(?P<a>\d{1,4})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{1,4}),?[ T]"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d+)?)(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
# Which of the three numbers are year, month and day, by what is between them.
_ORDERS = {".": ("cba",), "/": ("cba", "cab", "abc"), "-": ("cba", "cab", "abc")}
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400.0


def date_columns(grid: Grid, which: list[int], report: Report) -> dict[int, np.ndarray]:
    """Return the columns that hold dates, in seconds since 1970 (UTC unless they name a zone); a word is a problem."""
    found = _written(grid, which, report)
    for i in (i for i in which if i not in found):
        cells = _cells(grid.columns[i])
        known = [c for c in cells if c is not None]
        if sum(_DATE.fullmatch(c) is not None for c in known) * 2 <= len(known):
            continue
        for row, cell in enumerate(cells):
            if cell is not None and not _DATE.fullmatch(cell):
                report.problem(grid.lines[row], cell, f"expected a date in column {grid.names[i]}")
                cells[row] = None
        texts = [c.replace(",", ".").replace(" UTC", "Z") if c else None for c in cells]
        times = pd.to_datetime(pd.Series(texts, dtype=object), format="ISO8601", utc=True, errors="coerce")
        for row in np.flatnonzero(times.isna().to_numpy() & np.array([t is not None for t in texts])).tolist():
            report.problem(grid.lines[row], str(texts[row]), f"no such date, in column {grid.names[i]}")
        # Microseconds reach farther than any four digits of a year; nanoseconds end in 2262.
        found[i] = (times.dt.as_unit("us") - pd.Timestamp(0, tz="UTC").as_unit("us")).dt.total_seconds().to_numpy()
    return found


def _cells(column: Column) -> list[str | None]:
    return [] if is_number(column) else as_text(column)


def _written(grid: Grid, which: list[int], report: Report) -> dict[int, np.ndarray]:
    """Return the columns of dates as spreadsheets write them, and of times of day; others are left for text.

    Day and month are told apart by all columns together. Where both orders are possible, and lengths of time differ
    between them, nothing is taken.
    """
    every = {i: _cells(grid.columns[i]) for i in which}
    cells = {i: c for i, c in every.items() if c and c[0] and _WRITTEN.fullmatch(c[0]) and not _DATE.fullmatch(c[0])}
    columns = {i: [each and _WRITTEN.fullmatch(each) for each in c] for i, c in cells.items()}
    found = _dates({i: [m for m in c if m] for i, c in columns.items() if all(c)})
    if found:
        report.note(f"dates or times of day as spreadsheets write them: {', '.join(grid.names[i] for i in found)}")
    return found


def _dates(columns: dict[int, list[re.Match[str]]]) -> dict[int, np.ndarray]:
    """Return columns of dates in seconds since 1970, in the one order of year, month and day that fits them all."""
    possible: list[dict[int, np.ndarray]] = []
    separators = {m["sep"] for cells in columns.values() for m in cells}
    for order in _ORDERS[separators.pop()] if len(separators) == 1 else ():
        read = {i: _in_order(cells, order) for i, cells in columns.items()}
        if all(v is not None for v in read.values()):
            possible.append({i: v for i, v in read.items() if v is not None})
    steps = [np.diff(np.concatenate(list(each.values()))) for each in possible]
    if not possible or any(not np.array_equal(s, steps[0]) for s in steps):
        return {}
    return possible[0]


def _in_order(cells: list[re.Match[str]], order: str) -> np.ndarray | None:
    """Return dates whose year, month and day are the groups that ``order`` names; None where one is no such date."""
    out = []
    for cell in cells:
        year, month, day = (cell[key] for key in order)
        seconds = _of_day(cell)
        if len(year) != 4 or max(len(month), len(day)) > 2 or seconds is None:
            return None
        try:
            days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
        except ValueError:
            return None
        out.append(days * _DAY + seconds)
    return np.array(out)


def _of_day(cell: re.Match[str]) -> float | None:
    """Return the seconds since midnight; None where there is no such time."""
    hour, minute, second = int(cell["hour"]), int(cell["minute"]), float(cell["second"].replace(",", "."))
    if cell["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if cell["half"] in "Pp" else 0)
    if hour > 23 or minute > 59 or second >= 60:
        return None
    return 3600.0 * hour + 60.0 * minute + second
