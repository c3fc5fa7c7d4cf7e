"""Columns of dates in ISO 8601 (``2026-01-05T10:00:00``, with a blank for T, a fraction, a zone or Z) as seconds."""

import re

import numpy as np
import pandas as pd

from perfkit.readers.grid import Column, Grid, as_text, is_number
from perfkit.readers.report import Report

_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?", re.IGNORECASE
)


def date_columns(grid: Grid, which: list[int], report: Report) -> dict[int, np.ndarray]:
    """Return the columns that hold dates, in seconds since 1970 (UTC unless they name a zone); a word is a problem."""
    found = {}
    for i in which:
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
