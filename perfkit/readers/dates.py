"""Columns of dates and times of day as seconds.

Dates in ISO 8601 (``2026-01-05T10:00:00``, with a blank for T, a fraction, a zone or Z); as spreadsheets write them in
Germany (``27.11.2026 10:00:00``), the United States (``11/27/2026 10:00:00 AM``) and Britain (``27/11/2026 10:00``);
times of day (``10:00:00``, ``10:00:00 PM``) in columns that are called so.
"""

import re
from datetime import date

import numpy as np
import pandas as pd

from perfkit.readers.grid import Column, Grid, as_text, is_number
from perfkit.readers.report import Report
from perfkit.samples.clocks import is_name_of_clock

_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?", re.IGNORECASE
)


_WRITTEN = re.compile(
    r"(?:(?P<a>\d{1,4})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{1,4}),?[ T])?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d+)?)(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_DAY_ALONE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")
# Which of the three numbers are year, month and day, by what is between them.
_ORDERS = {".": ("cba",), "/": ("cba", "cab", "abc"), "-": ("cba", "cab", "abc")}
_EPOCH = date(1970, 1, 1).toordinal()
_OF_LENGTHS = re.compile(
    r"second|elapsed|dur|run|wall|real|took|cpu|user|sys|exec|total|lat|period|dauer|lauf", re.IGNORECASE
)
_HALF_A_DAY, _DAY = 43_200.0, 86_400.0
_FAR = 3.0  # times the longest step: a time of day, and no length of time


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
    cells = {i: c for i, c in every.items() if c and c[0] and _WRITTEN.fullmatch(c[0])}
    cells, day = _with_days(every, cells)
    cells = {i: c for i, c in cells.items() if not (c[0] and _DATE.fullmatch(c[0])) or day is not None}
    columns = {i: [each and _WRITTEN.fullmatch(each) for each in c] for i, c in cells.items()}
    columns = {i: c for i, c in columns.items() if all(c)}
    dated = {i: [m for m in c if m] for i, c in columns.items() if all(m and m["sep"] for m in c)}
    clocks = {i: [m for m in c if m] for i, c in columns.items() if all(m and not m["sep"] for m in c)}
    found = _dates(dated)
    if day is not None and found:
        found[day] = next(iter(found.values()))
    for i, clock in clocks.items():
        times = _times_of_day(clock)
        if times is not None and _tells_time(grid.names[i]):
            found[i] = times
    if found:
        report.note(f"dates or times of day as spreadsheets write them: {', '.join(grid.names[i] for i in found)}")
    return found


def _with_days(
    every: dict[int, list[str | None]], written: dict[int, list[str | None]]
) -> tuple[dict[int, list[str | None]], int | None]:
    """Return the columns written as times, the one of times of day with the days of another put before it.

    The second value is that column of days; None where there is none, or where several might be meant.
    """
    days = [i for i, c in every.items() if c and all(cell and _DAY_ALONE.fullmatch(cell) for cell in c)]
    clocks = [i for i, c in written.items() if all(cell and ":" in cell[:3] for cell in c)]
    if len(days) != 1 or len(clocks) != 1 or len(written) > 1:
        return written, None
    joined: list[str | None] = [f"{d} {t}" for d, t in zip(every[days[0]], written[clocks[0]], strict=True)]
    return {clocks[0]: joined}, days[0]


def _tells_time(name: str) -> bool:
    """Whether a column may hold times of day by its name, and not how long something took."""
    return (is_name_of_clock(name) or name.strip().lower() == "clock") and _OF_LENGTHS.search(name) is None


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


def _times_of_day(cells: list[re.Match[str]]) -> np.ndarray | None:
    """Return times of day in seconds, beyond midnight those of the next day; None where they may be lengths of time.

    Lengths of runs in their order look like times; those of a day begin far above their steps.
    """
    read = [_of_day(cell) for cell in cells]
    if len(read) < 2 or any(v is None for v in read):
        return None
    times = np.array(read, dtype="float64")
    known = np.unique(times)
    gaps = np.diff(known)
    if len(gaps) and gaps.max() > _HALF_A_DAY:
        times = np.where(times <= known[np.argmax(gaps)], times + _DAY, times)
        gaps = np.diff(np.unique(times))
    steps = np.diff(times)
    even = len(gaps) > 0 and gaps.max() <= _FAR * np.median(gaps)  # as monitors read out, and runs hardly ever take
    sure = even and times.min() > _FAR * gaps.max() and np.abs(steps).max() < _HALF_A_DAY / 2
    return times if sure else None
