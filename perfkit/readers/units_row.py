"""A row of units under the header of a table (``s,count,M``), as spreadsheets and instruments write it."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perfkit.readers.grid import Column, Grid, as_text, is_number
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.report import Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

# What says nothing of a column of counts, and what goes behind a column's name: a scale, a length of time, a share.
_PLAIN = re.compile(
    r"^[(\[]?(?:#|1|-|counts?|events?|number|n|cycles?|ins(?:ts?|tructions?)?|no\.?)?[)\]]?$", re.IGNORECASE
)
_UNIT = re.compile(
    r"^[(\[]?\s*(?P<unit>%|[kKMG]|Mio|[x×]?(?:10\^|1e)[369]|thousands?|millions?|billions?|[numµμ]?s(?:ecs?|econds?)?|"
    r"[kMG]?Hz|[mk]?W|[mµ]?J|m?V|°?C|[KMGT]i?B(?:/s)?|B(?:/s)?|bytes?(?:/s)?|1/s|/s)\s*[)\]]?$"
)


def without_units_row(grid: Grid, report: Report) -> Grid:
    """Return a table without the row of units under its header; scales and units stand behind the columns' names.

    A first row is one of units where none of its cells is a number, all are empty or units, at least two are there, and
    the rows below hold numbers.
    """
    if grid.n_rows < 2 or sum(not is_number(c) for c in grid.columns) < 2:
        return grid
    cells = [as_text(c[:1])[0] for c in grid.columns]
    said = [c for c in cells if c]
    if len(said) < 2 or "1" in said or not all(_PLAIN.match(c) or _UNIT.match(c) for c in said):
        return grid
    columns = tuple(_retyped(c[1:]) for c in grid.columns)
    if sum(is_number(c) for c in columns) < len(said):
        return grid
    report.describes(grid.lines[0])
    named = {i: m["unit"] for i, c in enumerate(cells) if c and not _PLAIN.match(c) and (m := _UNIT.match(c))}
    names = tuple(f"{n} ({named[i]})" if i in named else n for i, n in enumerate(grid.names))
    units = ", ".join(names[i] for i in named)
    report.note(f"a row of units under the header{f': {units}' if units else ', which says nothing but counts'}")
    parts = tuple(p - 1 for p in grid.parts)
    return replace(grid, names=names, columns=columns, parts=parts, matrix=None, kept_lines=list(grid.lines)[1:])


def with_second_header(grid: Grid, report: Report) -> Grid:
    """Return a table with one header of two (pandas's MultiIndex): ``0`` over ``cycles`` is ``core0:cycles``.

    The row under the header is a second one where it names time and work, and no cell of it is a number. The first
    cells of both, and of a row under them that holds nothing else, name what is in the rows and columns.
    """
    if grid.n_rows < 2 or len(set(grid.names)) == len(grid.names):
        return grid
    below, third = ([as_text(c[i : i + 1])[0] or "" for c in grid.columns] for i in (0, 1))
    events = {normalise(c) for c in below}
    if (
        any(NUMBER_PATTERN.fullmatch(c) for c in below)
        or not events & set(TIME_EVENTS)
        or not events & set(WORK_EVENTS)
    ):
        return grid
    heads = 1 + (bool(third[0]) and not any(third[1:]))
    index = below[0].lower() in ("", "event", "events", "metric", "counter")  # the first column numbers or names rows
    own = grid.names[0] if not below[0] and heads == 1 else ""  # of the first column, above an empty cell
    level = grid.names[0] if index and not own else ""
    over = list(grid.names)
    first = 1 if normalise(below[0]) in (*TIME_EVENTS, *WORK_EVENTS) else 2  # that may lie under a merged cell
    for i in range(first, len(over)):
        over[i] = over[i] or (over[i - 1] if below[i] else "")
    names = [
        f"{level if t.isdecimal() else ''}{t}:{n}" if t and n and t != n else t or n
        for t, n in zip(over, below, strict=True)
    ]
    if index:
        names[0] = third[0] if heads == 2 else own
    report.describes(list(grid.lines)[:heads])
    report.note(f"two rows of headers, taken together: {', '.join(names[1:4])}, ...")
    columns = tuple(_retyped(c[heads:]) for c in grid.columns)
    return replace(
        grid, names=tuple(names), columns=columns, parts=(), matrix=None, kept_lines=list(grid.lines)[heads:]
    )


def _retyped(column: Column) -> Column:
    """Return a column of text as numbers where all of its cells are plain ones."""
    if isinstance(column, np.ndarray) or is_number(column) or not pa.types.is_string(column.type):
        return column  # a date is none
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        return column
