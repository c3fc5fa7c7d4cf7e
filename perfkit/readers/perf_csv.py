"""``perf stat -x SEP``: fields in a row, with any separator, with and without ``-I``, ``-r``, ``-A``, ``--per-*``.

The fields are: end of the interval (with ``-I``), CPU or group of CPUs and their number (with ``-A``, ``--per-*``),
count, unit, event, variance in per cent (with ``-r``), nanoseconds counted, per cent of the time counted, and a derived
metric with its name, which is not read.
"""

import re
from collections import Counter

from perfkit.errors import FormatError
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.open import Opened
from perfkit.readers.perf import (
    COMMA_IN_TIME,
    NOT_COUNTED,
    NOT_SUPPORTED,
    TWO_IN_ONE,
    PerfOutput,
    PerfRows,
    PrintedCount,
    decimal_sign_of,
    running_share,
    samples_of_rows,
    without_counts,
)
from perfkit.readers.report import Dump, Report

NAME = "perf-csv"
TITLE = "perf stat -x, fields with any separator"

# A count, an event and the share of time, with the same separator between: any string without digits and points.
_FIELDS = re.compile(
    r"(?:<not counted>|<not supported>|\d[\d.,]*)(?P<sep>[^\d.]{1,3}?)(?P<unit>[^\d]{0,12}?)(?P=sep)"
    r"(?P<event>[^\s#\x22\d].{0,150}?)(?P=sep)(?:\d+[.,]\d+%(?P=sep))?\d+(?P=sep)\d{1,3}[.,]\d\d(?=(?P=sep)|$)"
)
_MOST_BEHIND = 4  # fields behind an event: time counted, its share, a derived metric and its name
_NEAR_SUM = 0.2  # shared counters are scaled up in each interval, and over all of them
_LETTER = re.compile(r"[^\W\d_]")
_AT = re.compile(r"\d+\.\d{9}$")
_BEGINS_TIMED = re.compile(r"\s*\"?\d+\.\d{9}\D")
_COMMA_AT = re.compile(r"\d+,\d+$")
_CPU = re.compile(r"CPU\d+$")
_PART = re.compile(r"(?:S\d+(?:-[A-Z]+\d+)*|N\d+)$")
_THREAD = re.compile(r".*\D.*-\d+$")
_PERCENT = re.compile(r"\d{1,3}[.,]\d\d$")
_VARIANCE = re.compile(r"(?:\d+[.,]\d+|-?nan)%$")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return _separator(head) is not None


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    lines = content.lines()
    separator = _separator("\n".join(lines[:2000]))
    if separator is None:
        raise FormatError(f"{report.file}: expected fields as perf stat -x prints them; no line has them")
    found = PerfRows()
    state = _State(report)
    whole = content.ends_with_newline
    state.last_timed = max((n for n, x in enumerate(lines, 1) if _BEGINS_TIMED.match(x)), default=0)
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        if line.startswith("#"):
            if (said := re.match(r"# started on (.+)$", line)) is not None:
                found.blocks.append(PerfOutput(started=said[1].strip()))
                state.fresh = False
                report.describes(number)
            else:
                report.left_out(number, "of comments, not read")
            continue
        if not found.rows and re.search(r"\bevent\b", line, re.IGNORECASE) and not re.search(r"\d", line):
            report.describes(number)  # a header that somebody put above
            continue
        wrong = _take(_fields_of(line, separator), number, separator, found, state)
        if wrong:
            cut = number == len(lines) and not whole
            report.problem(number, line, "the file ends in the middle of a line" if cut else wrong)
    if not found.rows:
        raise without_counts(report, "output of perf stat -x")
    return samples_of_rows(found, report, run)


def _fields_of(line: str, separator: str) -> list[str]:
    """Split a line, but not within ``<not counted>`` where the separator is a space."""
    if len(separator) == 3 and separator[0] == separator[-1] == '"':  # every field in quotes, as spreadsheets save them
        line = line.strip().removeprefix('"').removesuffix('"')
    elif line.startswith('"') and line.rstrip().endswith('"'):  # a line in one cell
        line = line.strip()[1:-1]
    if " " not in separator:
        return line.lstrip(" ").split(separator)
    whole = line.lstrip(" ").replace("<not ", "<not\0")
    return [f.replace("<not\0", "<not ") for f in whole.split(separator)]


class _State:
    """What the lines read so far have in common."""

    def __init__(self, report: Report) -> None:
        self.fresh = True
        self.timed: bool | None = None
        self.last_timed = 0  # the last line with an interval's end
        self.report = report


def _separator(head: str) -> str | None:
    """Return the separator that most lines agree on; None where no line looks like this format."""
    votes: Counter[str] = Counter()
    lines = [x for x in head.splitlines()[:300] if x.strip() and not x.startswith("#")]
    for line in lines:
        # An event's name has letters: rows of figures alone are told apart without the search below.
        if _LETTER.search(line, 0, 300) and (match := _FIELDS.search(line[:300])) is not None:
            votes[match["sep"]] += 1
    if not votes:
        return None
    best, count = votes.most_common(1)[0]
    return best if count * 2 >= len(lines) else None


def _take(fields: list[str], number: int, separator: str, found: PerfRows, state: _State) -> str:
    """Use a line's fields; return what is wrong with them, or nothing."""
    at = float("nan")
    if fields[0].strip() == "summary":
        state.report.left_out(number, "of totals (--summary), not read again")
        return ""
    if _AT.match(fields[0]):
        at = float(fields.pop(0))
        if not fields:
            return "expected a count, a unit and an event"
    elif _COMMA_AT.match(fields[0]) and len(fields) > 1 and _begins_counts(fields[1]):
        return COMMA_IN_TIME
    timed = at == at
    if state.timed and not timed and (number < state.last_timed or not _begins_counts(fields[0])):
        return "expected the interval's end in the first field, as in the other lines"
    place, fields = _place(fields, separator)
    if len(fields) > 3 and not fields[0] and not fields[2]:
        state.report.left_out(number, "with derived metrics only, not read")
        return ""
    fields = _join_decimals(fields, 0) if separator == "," else fields
    if len(fields) < 3:
        return "expected a count, a unit and an event"
    value, unit, event, *rest = fields
    if not _is_count(value):
        return "expected a count"
    while event.count("/") % 2 and rest:  # cpu/event=0x3c,umask=0x00/ holds the separator
        event = f"{event}{separator}{rest.pop(0)}"
    while separator == ":" and len(rest) > 1 and rest[0] and not rest[0].isdecimal():  # cycles:u, sched:sched_switch
        event = f"{event}:{rest.pop(0)}"
    if not event or event[0].isdecimal():
        return "expected an event's name behind the count and the unit"
    if rest and rest[0] and not rest[0][0].isdecimal() and not _VARIANCE.match(rest[0]):
        place = f"{place} {rest.pop(0)}".strip()  # a control group
    variance, running, sign = float("nan"), float("nan"), ""
    if separator == "," and len(rest) > 1 and rest[0].isdecimal() and re.match(r"\d+%$", rest[1]):
        rest[:2] = [f"{rest[0]},{rest[1]}"]
    if rest and _VARIANCE.match(rest[0]):
        variance = float(rest.pop(0).rstrip("%").replace(",", "."))
    if separator == ",":
        rest = _join_decimals(rest, 1)
    if len(rest) < 2 or not rest[0].isdecimal() or not _PERCENT.match(rest[1]):
        return "expected the time counted and its share behind the event"
    if len(rest) > _MOST_BEHIND and _FIELDS.search(separator.join(rest[2:])) is not None:
        return TWO_IN_ONE
    running, sign = running_share(rest[1]), decimal_sign_of(rest[1])
    if state.timed and not timed:
        if not _is_total(found, place, event, value):
            return "expected the interval's end in the first field, as in the other lines"
        state.report.left_out(number, "of totals (--summary), not read again")
        return ""
    if state.fresh:
        found.blocks.append(PerfOutput())
        state.fresh = False
    state.timed = timed
    found.decimal_sign = found.decimal_sign or sign
    block = len(found.blocks) - 1
    found.rows.append(PrintedCount(number, block, at, place, value, unit, event, running, variance))
    return ""


def _is_total(found: PerfRows, place: str, event: str, value: str) -> bool:
    """Whether a count without an interval is about the sum of those in intervals (``--no-csv-summary``).

    The last interval has its own count, so that this is none of it that lost its time.
    """
    own = [r for r in found.rows if r.event == event and r.place == place]
    if not own or own[-1].at != found.rows[-1].at:
        return False
    counts = [r.value for r in own]
    if not all(v.isdecimal() for v in (value, *counts)):
        return True  # in other units, or never counted
    return abs(sum(map(int, counts)) - int(value)) <= _NEAR_SUM * int(value)


def _place(fields: list[str], separator: str) -> tuple[str, list[str]]:
    """Split off the CPU, the group of CPUs with their number, or the thread that a line is for."""
    if _CPU.match(fields[0]):
        return fields[0], fields[1:]
    if _PART.match(fields[0]) and len(fields) > 1 and fields[1].strip().isdecimal():
        return fields[0], fields[2:]
    if not _is_count(fields[0]):
        for n in range(1, min(6, len(fields) - 2)):  # a thread's name may hold the separator
            name = separator.join(fields[:n])
            if _THREAD.match(name) and _is_count(fields[n]):
                return name, fields[n:]
    return "", fields


def _begins_counts(field: str) -> bool:
    """Whether a field is a count or a place: behind a count there is its unit, so what is before is a time."""
    return _is_count(field) or _CPU.match(field) is not None or _PART.match(field) is not None


def _is_count(field: str) -> bool:
    return field in (NOT_COUNTED, NOT_SUPPORTED) or NUMBER_PATTERN.fullmatch(field) is not None


def _join_decimals(fields: list[str], i: int) -> list[str]:
    """Join a number that a decimal comma tore in two: the field behind a count or a percentage is never digits only."""
    if len(fields) > i + 1 and fields[i].isdecimal() and re.match(r"\d{2}$", fields[i + 1]):
        return [*fields[:i], f"{fields[i]},{fields[i + 1]}", *fields[i + 2 :]]
    return fields
