"""Telegraf's ``intel_pmu``: readings of counters that run on, with the times that each was enabled and running.

Its fields are totals since the agent started (https://github.com/influxdata/telegraf, plugins/inputs/intel_pmu).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from perfkit.errors import FormatError
from perfkit.readers.report import Report

_FIELDS = {"event", "enabled", "running", "raw", "scaled"}
_PLACE = ("cpu", "socket", "unit")
_LEFT_OUT = {*_FIELDS, *_PLACE, "unit_type", "events_tag"}
_NS = 1e-9
_MOVED = 0.5  # of the time between two readings: totals of times move by all of it, lengths of intervals by nothing


@dataclass(frozen=True)
class _Reading:
    at: float  # in s; NaN where the line has no time
    enabled: float
    running: float
    raw: float


_NOTHING = _Reading(np.nan, 0.0, 0.0, 0.0)


def readings(records: list[dict[str, Any]], lines: list[int], report: Report) -> tuple[list[dict[str, Any]], list[int]]:
    """Return records of counts instead of this tool's readings; records of other tools as they are.

    A count is what was added between two readings of one event at one place, for the time that it was enabled; the
    first reading is only their beginning, unless there is no other.

    Raises
    ------
    FormatError
        A field is no number.
    """
    if not records or not all(r.keys() >= _FIELDS for r in records):
        return records, lines
    series: dict[tuple[str, ...], list[int]] = {}
    for i, record in enumerate(records):
        series.setdefault(tuple(f"{k}={v}" for k, v in record.items() if not _is_field(k)), []).append(i)
    read = [_reading(r, report) for r in records]
    of = [sorted(each, key=lambda i: read[i].at) for each in series.values()]
    before = {b: a for each in of for a, b in pairwise(each)}
    if not before or not _are_totals([(read[a], read[b]) for b, a in before.items()]):
        return [_counted(r, now, _NOTHING) for r, now in zip(records, read, strict=True)], lines
    report.note("readings of totals: their differences are the counts, for all of the time that each was enabled")
    report.left_out([lines[i] for i in range(len(records)) if i not in before], "of first readings, only the beginning")
    kept = sorted(before)
    # An agent that was started anew begins at zero.
    since = [_NOTHING if read[i].enabled < read[before[i]].enabled else read[before[i]] for i in kept]
    counted = [_counted(records[i], read[i], was) for i, was in zip(kept, since, strict=True)]
    lengths = [{"seconds": read[i].at - was.at} for i, was in zip(kept, since, strict=True)]
    return [c | s for c, s in zip(counted, lengths, strict=True)], [lines[i] for i in kept]


def _is_field(key: str) -> bool:
    return key in (_FIELDS - {"event"}) or key.startswith("timestamp_")


def _reading(record: dict[str, Any], report: Report) -> _Reading:
    units = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": _NS}
    stamp = next(
        (float(v) * units[k.rpartition("_")[2]] for k, v in record.items() if k.startswith("timestamp_")), np.nan
    )
    try:
        return _Reading(stamp, *(float(record[k]) for k in ("enabled", "running", "raw")))
    except ValueError:
        raise FormatError(f"{report.file}: expected numbers in enabled, running and raw; found {record}") from None


def _are_totals(pairs: list[tuple[_Reading, _Reading]]) -> bool:
    """Whether the times grow from reading to reading as time passes; without stamps, whether they grow."""
    risen = [(a, b) for a, b in pairs if b.enabled > a.enabled]  # not so where the agent was started anew
    moved = [(b.enabled - a.enabled) * _NS / (b.at - a.at) for a, b in risen if b.at > a.at]
    return bool(np.median(moved) > _MOVED) if moved else len(risen) == len(pairs)


def _counted(record: dict[str, Any], now: _Reading, before: _Reading) -> dict[str, Any]:
    """Return the record of one count."""
    enabled, running = now.enabled - before.enabled, now.running - before.running
    place = " ".join(f"{k}{record[k]}" if str(record[k]).isdecimal() else str(record[k]) for k in _PLACE if k in record)
    told = {k: v for k, v in record.items() if k not in _LEFT_OUT} | {"event": record["event"], "place": place}
    known = enabled > 0 and running > 0
    return told | {
        "count": float(round((now.raw - before.raw) * enabled / running)) if known else np.nan,
        "running": running / enabled if enabled > 0 else np.nan,
    }
