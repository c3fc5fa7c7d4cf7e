"""What formats of one record a line share: records before and behind those with counts, and columns of them all."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from perfkit.errors import counted
from perfkit.readers.grid import Column
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.report import Report
from perfkit.readers.running_totals import is_axis
from perfkit.readers.scales import caution_of_scale

_EVENT = re.compile(r"miss|branch|cache|load|store|tlb|stall|uops|retired|fault|switch", re.IGNORECASE)
_SHOWN = 200


def is_plain_number(value: Any) -> bool:
    """Whether a value of a record is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_frames(
    records: list[dict[str, Any]], lines: Sequence[int] | None, report: Report
) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the records that hold counts, and their lines: all but headers and footers of another shape.

    Those are noted. ``lines`` is None for records of a list, which are numbered.

    A header or footer stands before the first or behind the last record that counts time and work (or that names an
    event), and either holds no number or says something that no other record does, and nothing that may be an event.
    """
    every = range(len(records))
    frames = _frames(records)
    if frames:
        said = ", ".join(f"{k} ({str(v)[:20]})" for i in sorted(frames) for k, v in records[i].items())[:_SHOWN]
        if lines is None:
            report.note(f"{counted(len(frames), 'records')} around those with counts, not read: {said}")
        else:
            report.left_out([lines[i] for i in frames], f"around those with counts, not read: {said}", "records")
        if told := caution_of_scale(f"{k}: {v}" for i in frames for k, v in records[i].items()):
            report.note(told)
    kept = [i for i in every if i not in frames]
    if lines is None:
        report.document(len(records), len(kept), len(frames), unit="row")
        return [records[i] for i in kept], [i + 1 for i in kept]
    report.counts([lines[i] for i in kept])
    return [records[i] for i in kept], [lines[i] for i in kept]


def _frames(records: Sequence[dict[str, Any]]) -> set[int]:
    every = range(len(records))
    names = {k for r in records for k in r}
    axes, event = {k for k in names if is_axis(k)}, {k for k in names if k.lower() == "event"}
    main = [i for i in every if len(axes & records[i].keys()) > 1 or event & records[i].keys()]
    if not main:
        return set()
    often = Counter(k for r in records for k in r)
    outer = [*range(main[0]), *(range(main[-1] + 1, len(records)) if len(main) > 1 else ())]
    return {i for i in outer if not (axes & records[i].keys()) and _is_frame(records[i], often)}


def _is_frame(record: dict[str, Any], often: Counter[str]) -> bool:
    numbers = [
        k for k, v in record.items() if is_plain_number(v) or (isinstance(v, str) and NUMBER_PATTERN.fullmatch(v))
    ]
    if any(_EVENT.search(k) for k in numbers):
        return False
    return not numbers or any(often[k] == 1 for k in record)


def columns_of(records: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], tuple[Column, ...]]:
    """Return the names and columns of a table with a row for each record: of numbers, or of text."""
    names = tuple(dict.fromkeys(k for r in records for k in r))
    return names, tuple(_column([r.get(n) for r in records]) for n in names)


def _column(values: list[Any]) -> Column:
    if all(v is None or is_plain_number(v) for v in values):
        return np.array([np.nan if v is None else _float(v) for v in values])
    return pa.chunked_array([pa.array([None if v is None else str(v) for v in values], pa.string())])


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # digits without end; that no count is infinite, is checked with the others
        return np.inf if value > 0 else -np.inf
