"""Columns of dates and of times of day as seconds.

Dates are those of ISO 8601 (``2026-01-05T10:00:00``, with a blank for T, a fraction, a zone or Z), and as spreadsheets
write them (``5.1.2026 10:00:00``, ``1/5/2026 10:00:00 AM``) where the column tells the day from the month, and as
Kibana does (``Jan 5, 2026 @ 10:00:00.000``). Times with a unit in each cell (``500ms``, ``1m30s``) become seconds.
"""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from perfkit.readers.grid import Grid, as_text, is_number
from perfkit.readers.report import Report
from perfkit.samples.clocks import is_name_of_clock, unit_of_clock

_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?", re.IGNORECASE
)
_HALF = r"(?: ?(?P<half>[ap])\.?m\.?)?"
_LOCAL = re.compile(
    rf"(?P<first>\d\d?)(?P<sign>[./])(?P<second>\d\d?)(?P=sign)(?P<year>\d{{4}}),? "
    rf"(?P<hour>\d\d?):(?P<rest>\d\d(?::\d\d(?:[.,]\d+)?)?){_HALF}",
    re.IGNORECASE,
)
_TIME = re.compile(
    rf"(?P<hour>\d\d?):(?P<minute>[0-5]\d):(?P<second>[0-5]\d(?:[.,]\d+)?){_HALF}",
    re.IGNORECASE,
)
_MONTHS_BY_NAME = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED_MONTH = re.compile(
    rf"(?P<month>{'|'.join(_MONTHS_BY_NAME)})[a-z]* (?P<day>\d\d?), (?P<year>\d{{4}}) "
    r"(?:@ )?(?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)",
    re.IGNORECASE,
)
_PIECES = re.compile(
    r"(?:(?P<h>\d+) ?h)? ?(?:(?P<min>\d+) ?m(?:in)?(?![a-z]))? ?(?:(?P<value>\d+(?:[.,]\d+)?) ?(?P<unit>[a-zµμ]+))?"
)
_IN_SECONDS = {"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "ms": 1000, "msec": 1000, "us": 10**6,
               "usec": 10**6, "µs": 10**6, "μs": 10**6, "ns": 10**9, "nsec": 10**9}  # fmt: skip
_OF_DAY = re.compile(
    r"(?:local|utc)?[ _-]?(?:(?:wall[ _-]?)?clock(?:[ _-]?time)?|time[ _-]?of[ _-]?day|time[ _-]?stamp|when|uhrzeit|"
    r"zeitpunkt|zeitstempel|horodatage|heure|hora|hh:mm:ss)",
    re.IGNORECASE,
)
_DAY_ALONE = re.compile(r"\d{4}([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2\d\d(?:\d\d)?")
_MONTHS = 12
_DAY = 86_400.0  # in s
_MOST_STEPS = 10.0  # of the usual length, by which a clock goes on over midnight; else it begins anew


def with_seconds(grid: Grid, report: Report) -> Grid:
    """Return a table whose times with a unit in each cell (``500ms``) are numbers of seconds, and are called so."""
    found: dict[int, np.ndarray] = {}
    for i, name in enumerate(grid.names):
        own = unit_of_clock(name) if name.lower() != "seconds" else ""
        if own or is_number(grid.columns[i]) or not is_name_of_clock(name):
            continue
        seconds = [_seconds(c) if c else np.nan for c in as_text(grid.columns[i])]
        if None not in seconds and not np.isnan(np.array(seconds, dtype=float)).all():
            found[i] = np.array(seconds, dtype=float)
    if not found:
        return grid
    report.note(f"times with a unit in each cell, taken as seconds: {', '.join(grid.names[i] for i in found)}")
    names = tuple(f"{n} (s)" if i in found and n.lower() != "seconds" else n for i, n in enumerate(grid.names))
    columns = tuple(found.get(i, column) for i, column in enumerate(grid.columns))
    return replace(grid, names=names, columns=columns, matrix=None)


def _seconds(cell: str) -> float | None:
    """Return a time with its unit in s; None for anything else."""
    match = _PIECES.fullmatch(cell.strip().lower())
    if match is None or not any(match.groups()) or (match["unit"] and match["unit"] not in _IN_SECONDS):
        return None
    last = float(match["value"].replace(",", ".")) / _IN_SECONDS[match["unit"]] if match["value"] else 0.0
    return 3600.0 * int(match["h"] or 0) + 60.0 * int(match["min"] or 0) + last


def date_columns(grid: Grid, which: list[int], report: Report) -> dict[int, np.ndarray]:
    """Return the columns that hold dates, in s since 1970 (UTC unless they name a zone); a word is a problem.

    A column of times of day that only go on (over midnight, too) is in s since the midnight before its first row. Its
    name or its cells (``PM``) say what it holds: how long a run took is written alike.
    """
    found: dict[int, np.ndarray] = {}
    for i in which:
        if is_number(grid.columns[i]):
            continue
        cells = _with_iso_dates(as_text(grid.columns[i]))
        known = [c for c in cells if c is not None]
        if sum(_DATE.fullmatch(c) is not None for c in known) * 2 <= len(known):
            of_day = None if _has_days(grid) else _times_of_day(cells, grid.names[i])
            found |= {} if of_day is None else {i: of_day}
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


def _with_iso_dates(cells: list[str | None]) -> list[str | None]:
    """Return cells whose dates in the manner of a country are those of ISO 8601, where day and month can be told apart.

    With points the day comes first. With slashes a number above 12 tells it, or dates that are all the same day.
    """
    cells = [c if c is None or (m := _NAMED_MONTH.fullmatch(c)) is None else _iso(m) for c in cells]
    local = {row: m for row, c in enumerate(cells) if c is not None and (m := _LOCAL.fullmatch(c))}
    day_first = any(m["sign"] == "." or int(m["first"]) > _MONTHS for m in local.values())
    day_second = any(m["sign"] == "/" and int(m["second"]) > _MONTHS for m in local.values())
    days = {(m["first"], m["second"], m["year"]) for m in local.values()}
    if not local or (day_first and day_second) or not (day_first or day_second or len(days) == 1):
        return cells
    out = list(cells)
    for row, m in local.items():
        day, month = (m["first"], m["second"]) if day_first else (m["second"], m["first"])
        hour = _hour(m["hour"], m["half"])
        if hour is not None:
            out[row] = f"{m['year']}-{int(month):02d}-{int(day):02d} {hour:02d}:{m['rest']}"
    return out


def _iso(named: re.Match[str]) -> str:
    month = _MONTHS_BY_NAME.index(named["month"].lower()) + 1
    return f"{named['year']}-{month:02d}-{int(named['day']):02d} {named['time']}"


def _has_days(grid: Grid) -> bool:
    """Whether a column holds days without a time, beside which a time of day alone is no clock."""
    firsts = (as_text(c.drop_null()[:1]) for c in grid.columns if not isinstance(c, np.ndarray) and not is_number(c))
    return any(_DAY_ALONE.fullmatch(cell) for (cell,) in filter(None, firsts) if cell)


def _times_of_day(cells: list[str | None], name: str) -> np.ndarray | None:
    """Return a column of times of day in s; None where a cell is none, or they do not go on from row to row."""
    said = _OF_DAY.fullmatch(name.strip()) is not None
    seconds, days = [], 0
    for cell in cells:
        match = _TIME.fullmatch(cell or "")
        hour = _hour(match["hour"], match["half"]) if match else None
        if match is None or hour is None or not (said or match["half"]):
            return None
        seconds.append(3600.0 * hour + 60.0 * int(match["minute"]) + float(match["second"].replace(",", ".")))
    rising = [b - a for a, b in pairwise(seconds) if b > a]
    if not rising or all(s % 60.0 == 0 for s in seconds):  # pyarrow gives "10:01" so, which may be minutes and seconds
        return None
    usual, out = float(np.median(rising)), []
    for before, now in pairwise([seconds[0], *seconds]):
        if now < before:
            if now + _DAY - before > _MOST_STEPS * usual:
                return None
            days += 1
        out.append(now + days * _DAY)
    return np.array(out)


def _hour(text: str, half: str | None) -> int | None:
    """Return the hour of a day, of 24 or (``half``: a or p) of twice 12; None for none."""
    hour = int(text)
    if half is None:
        return hour if hour < 24 else None
    return hour % 12 + 12 * (half.lower() == "p") if 1 <= hour <= 12 else None
