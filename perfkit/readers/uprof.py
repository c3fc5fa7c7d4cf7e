"""AMD uProf's ``AMDuProfCLI report`` as CSV: the table of functions, one column per event.

A function is an interval, and its name the place. uProf estimates counts from samples, as VTune does. Reports hold
further tables (processes, modules, threads) of the same samples; they are left out, as are ratios.
"""

import re

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.grid import cells_of
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "uprof"
TITLE = "AMD uProf report (CSV)"

_TITLE = re.compile(r"^\W*AMD ?uProf\b", re.IGNORECASE)
_EVENT = re.compile(r"^(?P<event>[A-Z][A-Z0-9_.]{3,})(?:\s*\((?:Samples|Count)\))?$")
_RATIOS = {"IPC", "CPI"}
_PLACES = ("FUNCTION", "MODULE", "PROCESS", "THREAD")
_NAMES = {*_PLACES, "SOURCE FILE", "MODULE NAME", "PID", "TID", "ADDRESS"}


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    lines = [x.strip("\ufeff\r") for x in head.split("\n")[:400]]
    return any(_TITLE.match(x) for x in lines[:5]) and any(_is_header(_cells(x)) for x in lines)


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read the counts of the functions (or of the first kind of table that is there)."""
    lines = content.lines()
    headers = {i: cells for i, line in enumerate(lines, 1) if _is_header(cells := _cells(line))}
    kinds = {cells[0].upper() for cells in headers.values()}
    kind = next((p for p in _PLACES if p in kinds), "")
    start = next((i for i, cells in headers.items() if cells[0].upper() == kind), 0)
    if not start:
        raise FormatError(f"{report.file}: a report of AMD uProf without a table of events per function")
    header = headers[start]
    events = {i: m["event"] for i, c in enumerate(header) if (m := _EVENT.match(c)) and _is_event(c)}
    ratios = [c for i, c in enumerate(header) if i not in events and c.upper() not in _NAMES]
    if ratios:
        report.note(f"columns that are no event counts, not read: {', '.join(ratios)}")
    report.describes(start)
    rows: list[tuple[str, int, str, float]] = []
    inside = True
    for number, line in enumerate(lines[start:], start + 1):
        cells = _cells(line)
        inside = inside and bool(line.strip()) and len(cells) == len(header) and number not in headers
        if not line.strip():
            continue
        if not inside:
            report.left_out(number, "of other tables of the report, not read")
            continue
        rows += _counts(cells, events, number, line, len(rows), report)
    for number, line in enumerate(lines[: start - 1], 1):
        if line.strip():
            report.left_out(number, "before the table of functions, not read")
    table = pd.DataFrame(rows, columns=["place", "interval", "event", "count"])
    return Dump(table.assign(run=run))


def _cells(line: str) -> list[str]:
    return [c.strip() for c in cells_of(line.strip("\ufeff\r"))]


def _is_event(cell: str) -> bool:
    return _EVENT.match(cell) is not None and cell.upper() not in (_RATIOS | _NAMES) and "%" not in cell


def _is_header(cells: list[str]) -> bool:
    return len(cells) > 1 and cells[0].upper() in _PLACES and any(_is_event(c) for c in cells[1:])


def _counts(
    cells: list[str], events: dict[int, str], number: int, line: str, n: int, report: Report
) -> list[tuple[str, int, str, float]]:
    try:
        values = [float(cells[i].replace(" ", "") or "nan") for i in events]
    except ValueError:
        report.problem(number, line, f"expected numbers under {', '.join(events.values())}")
        return []
    if any(v < 0 or np.isinf(v) for v in values):
        report.problem(number, line, "expected finite counts >= 0")
        return []
    report.counts(number)
    interval = n // max(len(events), 1)
    return [(cells[0], interval, e, v) for e, v in zip(events.values(), values, strict=True)]
