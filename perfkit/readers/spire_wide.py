"""The wide CSV of SPIRE's authors: three columns per event, namely time, work and the event's count.

The header names time and work in its first two columns and an event in every third: ``T,W,event-1,T,W,event-2,...``;
the names of time and work are repeated or left empty. Every event was sampled for itself, so each has its own time and
work, and as many rows as there were samples of it; the cells below are empty.

Source: the samples and the demo on the page of "SPIRE: Inferring Hardware Bottlenecks from Performance Counter Data"
(DATE 2025).
"""

import re

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.grid import Grid, as_float, counts, find_header, is_number, numbers, read_grid
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise
from perfkit.samples.table import COLUMNS

NAME = "spire-wide"
TITLE = "three columns per event (SPIRE)"

_ROLE = re.compile(r"^(?P<event>.+?)[ ._:/-]+\(?(?P<role>time|work|count|metric)\)?$", re.IGNORECASE)
_ROLES = {"time": 0, "work": 1, "count": 2, "metric": 2}


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    header = find_header(head)
    return header is not None and _layout(header.names) is not None


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all samples of a file."""
    return to_dump(read_grid(content.hand_over(), report, _time_work_count), report, run)


def to_dump(grid: Grid, report: Report, run: str) -> Dump:
    """Make a dump of a table of cells."""
    layout = _layout(grid.names)
    if layout is None:
        raise FormatError(
            f"{report.file}: expected three columns per event, as T,W,event-1,T,W,event-2; found {len(grid.names)} "
            f"columns: {', '.join(grid.names[:6])}, ..."
        )
    time_name, work_name, groups = layout
    events = [event for event, _ in groups]
    twice = sorted({e for e in events if events.count(e) > 1}) if len(set(events)) < len(events) else []
    if twice:
        raise FormatError(f"{report.file}: the header names an event twice: {', '.join(twice)}. Rename one of them.")
    flat = _stack(grid, [three for _, three in groups], report)
    n = grid.n_rows
    event = np.repeat(np.arange(len(groups), dtype="int16" if len(groups) < 2**15 else "int32"), n)
    interval = np.tile(np.arange(n, dtype="int64"), len(groups))
    flat, event, interval = _drop_padding(flat, event, interval, report)
    unknown = np.full(len(event), np.nan)
    columns = {
        "run": pd.Categorical.from_codes(np.zeros(len(event), dtype="int8"), categories=[run]),
        "place": pd.Categorical.from_codes(np.zeros(len(event), dtype="int8"), categories=[""]),
        "interval": interval,
        "at": unknown,
        "seconds": unknown,
        "event": pd.Categorical.from_codes(event, categories=events),
        "time": flat[0],
        "work": flat[1],
        "count": flat[2],
        "running": unknown,
    }
    return Dump(pd.DataFrame({c: columns[c] for c in COLUMNS}, copy=False), axes=(time_name, work_name))


def _stack(grid: Grid, groups: list[tuple[int, int, int]], report: Report) -> np.ndarray:
    """Return time, work and count of all events, one event after another; shape (3, events x rows)."""
    matrix = grid.matrix
    if matrix is not None and np.fmin.reduce(matrix, None) >= 0 and np.fmax.reduce(matrix, None) < np.inf:
        return matrix.reshape(3, -1)  # arranged so already
    out = np.empty((3, len(groups), grid.n_rows))
    # Columns of plain numbers, which nearly all are, go straight to their place.
    unclear = [i for three in groups for i in three if not is_number(grid.columns[i])]
    values = numbers(grid, unclear, report)
    text = [i for i in unclear if i not in values]
    if text:
        raise FormatError(f"{report.file}: column {text[0] + 1} ({grid.names[text[0]]}) holds text, not numbers")
    for e, three in enumerate(groups):
        for role, i in enumerate(three):
            out[role, e] = values[i] if i in values else counts(grid, i, as_float(grid.columns[i]), report)
    return out.reshape(3, -1)


def _time_work_count(names: tuple[str, ...]) -> list[int]:
    """Order the columns by what they hold: all times, all works, all counts."""
    layout = _layout(names)
    return list(range(len(names))) if layout is None else [three[role] for role in range(3) for _, three in layout[2]]


def _drop_padding(
    flat: np.ndarray, event: np.ndarray, interval: np.ndarray, report: Report
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave out the empty cells below an event's last sample; a sample that lacks some of its three stays."""
    missing = np.isnan(flat)
    if not missing.any():
        return flat, event, interval
    empty = missing.all(axis=0)
    partly = int(missing.any(axis=0).sum() - empty.sum())
    if partly:
        report.note(f"{counted(partly, 'samples')} without time, work or count; kept as missing")
    if empty.any():
        report.note(f"{counted(int(empty.sum()), 'empty places')} where an event has fewer samples than others")
        flat, event, interval = flat[:, ~empty], event[~empty], interval[~empty]
    return flat, event, interval


def _layout(names: tuple[str, ...]) -> tuple[str, str, list[tuple[str, tuple[int, int, int]]]] | None:
    """Return the names of time and work and, for each event, its columns of time, work and count."""
    if len(names) < 6 or len(names) % 3:
        return None
    return _by_position(names) or _by_suffix(names)


def _by_position(names: tuple[str, ...]) -> tuple[str, str, list[tuple[str, tuple[int, int, int]]]] | None:
    time, work = names[0], names[1]
    repeats = all(n in ("", time) for n in names[3::3]) and all(n in ("", work) for n in names[4::3])
    if not time or not work or time == work or not all(names[2::3]) or not repeats:
        return None
    swapped = normalise(time) in WORK_EVENTS and normalise(work) in TIME_EVENTS
    first, second = (1, 0) if swapped else (0, 1)
    groups = [(names[i + 2], (i + first, i + second, i + 2)) for i in range(0, len(names), 3)]
    return names[first], names[second], groups


def _by_suffix(names: tuple[str, ...]) -> tuple[str, str, list[tuple[str, tuple[int, int, int]]]] | None:
    """Take ``event.time, event.work, event.count`` in any order; time and work are then cycles and instructions."""
    groups: dict[str, dict[int, int]] = {}
    for i, name in enumerate(names):
        match = _ROLE.match(name)
        if match is None or _ROLES[match["role"].lower()] in groups.setdefault(match["event"], {}):
            return None
        groups[match["event"]][_ROLES[match["role"].lower()]] = i
    if any(len(g) != 3 for g in groups.values()):
        return None
    return "cycles", "instructions", [(e, (g[0], g[1], g[2])) for e, g in groups.items()]
