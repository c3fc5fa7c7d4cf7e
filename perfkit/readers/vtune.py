"""VTune ``-report hw-events -format csv``: one row per function (or module, thread, ...), one column per event.

Each row is an interval and its first column, with the module where there is one, the place. VTune estimates counts from
samples: small ones are coarse, and a zero means "no sample". Metric columns (rates, times) are not read.
"""

import re

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.grid import as_text, find_header, numbers, read_grid
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "vtune"
TITLE = "VTune hw-events report (CSV)"

_EVENT = re.compile(
    r"^(?:Hardware )?Event Count:(?P<event>.+?)(?:\s*\((?P<unit>[KMB])\))?(?::(?P<kind>Self|Total))?$", re.IGNORECASE
)
_UNITS = {None: 1.0, "K": 1e3, "M": 1e6, "B": 1e9}
_DELIMITERS = "^~"  # beside those that any table may have


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return "Event Count:" in head and any("Event Count:" in x for x in head.splitlines()[:20])


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    data = content.hand_over()
    start = data.rfind(b"\n", 0, data.find(b"Event Count:")) + 1
    before = data.count(b"\n", 0, start)
    if before:
        above = [i for i, x in enumerate(data[:start].split(b"\n")[:before], 1) if x.strip()]
        if above:
            report.left_out(above, "before the table, not read")
    data = _with_commas(b"\n" * before + data[start:], report)
    grid = read_grid(data, report)
    events = {i: m for i, n in enumerate(grid.names) if (m := _EVENT.match(n)) is not None}
    own = {i: m for i, m in events.items() if (m["kind"] or "Self").lower() == "self"}
    if len(own) < len(events):
        report.note(f"{counted(len(events) - len(own), 'columns')} of totals with all callees, not read")
    if not own:
        raise FormatError(f"{report.file}: no column is called Hardware Event Count:EVENT, as VTune names its counts")
    values = numbers(grid, list(own), report)
    text = [grid.names[i] for i in own if i not in values]
    if text:
        raise FormatError(f"{report.file}: expected numbers in the column {text[0]}; it holds text")
    others = [n for i, n in enumerate(grid.names) if i not in events and i != 0 and n != "Module"]
    if others:
        report.note(f"columns that are no event counts, not read: {', '.join(others)}")
    place = _places(grid.names, [as_text(c) if i not in events else [] for i, c in enumerate(grid.columns)])
    n = grid.n_rows
    parts = [
        pd.DataFrame(
            {
                "place": place,
                "interval": np.arange(n),
                "event": own[i]["event"].strip(),
                "count": values[i] * _UNITS[(own[i]["unit"] or "").upper() or None],
            }
        )
        for i in own
    ]
    return Dump(pd.concat(parts, ignore_index=True).assign(run=run))


def _with_commas(data: bytes, report: Report) -> bytes:
    """Return the text with tabs for the delimiters that only VTune's users choose (``-csv-delimiter=^``)."""
    header = find_header(data[: 1 << 16].decode("utf-8", errors="replace"))
    if header is not None and header.text.count(header.delimiter) >= 1:
        return data
    for other in _DELIMITERS:
        if header is not None and other in header.text:
            report.note(f"fields are separated by {other!r}")
            return data.replace(other.encode(), b"\t")
    return data


def _places(names: tuple[str, ...], cells: list[list[str | None]]) -> list[str]:
    """Name the rows by their first column, and the module where that makes them differ."""
    first = [c or "" for c in cells[0]]
    if len(set(first)) < len(first) and "Module" in names:
        module = cells[names.index("Module")]
        first = [f"{f} [{m}]" if m else f for f, m in zip(first, module, strict=True)]
    return first
