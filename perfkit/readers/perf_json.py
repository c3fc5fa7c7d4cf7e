"""``perf stat -j``: one JSON object a line and count, with and without ``-I``, ``-r``, ``-A``, ``--per-*``."""

import json
import re
from typing import Any

from perfkit.errors import FormatError
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.open import Opened
from perfkit.readers.perf import NOT_COUNTED, NOT_SUPPORTED, PerfOutput, PerfRows, PrintedCount, samples_of_rows
from perfkit.readers.report import Dump, Report

NAME = "perf-json"
TITLE = "perf stat -j, JSON lines"

_PLACES = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread", "cgroup")
# perf prints what C's %f prints: not-a-number in C's spelling, and a decimal comma under some locales.
_BARE_NAN = re.compile(r":\s*-?(nan|inf)(?=\s*[,}])")
_COMMA_AT_END = re.compile(r",\s*}$")  # of versions 6.7 to 6.12, where a metric has no unit
_TORN = re.compile(r"(:\s*-?\d+),(\d+)(?=\s*[,}])")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return '"counter-value"' in head and '"event"' in head


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    found = PerfRows()
    timed = fresh = False
    lines = content.lines()
    whole = content.ends_with_newline
    for number, line in enumerate(lines, 1):
        written = bool(line.strip())
        line = line.strip().strip("[],") if line.strip()[:1] in "[]," else line.strip().rstrip(",]")
        if not line:
            if written:
                report.describes(number)  # a bracket or a comma of a list around the lines
            continue
        if line.startswith("#"):
            if (said := re.match(r"# started on (.+)$", line)) is not None:
                found.blocks.append(PerfOutput(started=said[1].strip()))
                fresh = True
                report.describes(number)
            else:
                report.left_out(number, "of comments, not read")
            continue
        entry = _parse(line)
        if entry is None:
            cut = number == len(lines) and not whole
            report.problem(number, line, "the file ends in the middle of a line" if cut else "expected a JSON object")
            continue
        if "counter-value" not in entry:
            report.left_out(number, "with derived metrics only, not read")
            continue
        if timed and "interval" not in entry:
            report.left_out(number, "of totals (--summary), not read again")
            continue
        row = _row(number, max(len(found.blocks) - 1, 0), entry)
        if isinstance(row, str):
            report.problem(number, line, row)
            continue
        timed = timed or "interval" in entry
        if not fresh and not found.blocks:
            found.blocks.append(PerfOutput())
        found.rows.append(row)
    if not found.rows:
        raise FormatError(f"{report.file}: output of perf stat -j without a single count")
    return samples_of_rows(found, report, run)


def _parse(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(_BARE_NAN.sub(": null", line))
    except (ValueError, RecursionError):
        try:
            entry = json.loads(_COMMA_AT_END.sub("}", _TORN.sub(r"\1.\2", _BARE_NAN.sub(": null", line))))
        except (ValueError, RecursionError):
            return None
    return entry if isinstance(entry, dict) else None


def _row(number: int, block: int, entry: dict[str, Any]) -> PrintedCount | str:
    """Return a line's count, or what is wrong with it."""
    value, event = str(entry["counter-value"]).strip(), entry.get("event")
    if not isinstance(event, str) or not event:
        return "expected the name of an event under 'event'"
    if value not in (NOT_COUNTED, NOT_SUPPORTED) and not NUMBER_PATTERN.fullmatch(value):
        return "expected a number under 'counter-value'"
    where = [_place(key, str(entry[key])) for key in _PLACES if entry.get(key) not in (None, "")]
    try:
        return PrintedCount(
            number,
            block,
            float(entry["interval"]) if "interval" in entry else float("nan"),
            " ".join(where),
            value.removesuffix(".000000") if not entry.get("unit") else value,
            str(entry.get("unit") or ""),
            event,
            float("nan") if entry.get("pcnt-running") is None else round(float(entry["pcnt-running"]) / 100.0, 6),
            float("nan") if entry.get("variance") is None else float(entry["variance"]),
        )
    except (TypeError, ValueError):
        return "expected numbers under 'interval', 'pcnt-running' and 'variance'"


def _place(key: str, value: str) -> str:
    return f"CPU{value}" if key == "cpu" and value.isdecimal() else value
