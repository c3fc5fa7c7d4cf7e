"""A record on each line, as ``key=value``: logfmt (``ts=... cycles=3000``), and InfluxDB's line protocol."""

import re

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.grid import Grid
from perfkit.readers.intel_pmu import readings
from perfkit.readers.open import Opened
from perfkit.readers.records import columns_of, without_frames
from perfkit.readers.report import Dump, Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

NAME = "key-values"
TITLE = "key=value on each line: logfmt, InfluxDB's line protocol"

_KEY = r"[A-Za-z_][\w.:/\-]*"
_PAIR = re.compile(rf'({_KEY})=("(?:[^"\\]|\\.)*"|[^\s,"]*)')
_LOGFMT = re.compile(rf"(?:{_PAIR.pattern}(?:\s+|$))+")
_TAGS, _FIELDS = (rf"{_KEY}=[^\s,=]+", rf'{_KEY}=(?:"[^"]*"|[^\s,="]+)')
_INFLUX = re.compile(
    rf"(?P<name>[^\s,=#]+)(?P<tags>(?:,{_TAGS})*) (?P<fields>{_FIELDS}(?:,{_FIELDS})*)(?: (?P<stamp>\d{{10,19}}))?"
)
_UNITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # since 1970, by their digits
_LOOKED_AT = 50


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: mostly such lines, time and work among their names."""
    lines = [
        x.strip() for x in (head.rpartition("\n")[0] or head).lstrip("\ufeff").splitlines()[:_LOOKED_AT] if x.strip()
    ]
    records = [_record(x) for x in lines]
    if 4 * sum(map(bool, records)) < 3 * len(lines):
        return False
    words = {normalise(w) for r in records if r for k, v in r.items() for w in ((v,) if k == "event" else (k,))}
    return bool(words & set(TIME_EVENTS)) and bool(words & set(WORK_EVENTS))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    records, lines = [], []
    texts = content.lines()
    for number, line in enumerate(texts, 1):
        if not line.strip("\ufeff \t"):
            continue
        record = _record(line.strip("\ufeff \t\r"))
        if record is None:
            cut = number == len(texts) and not content.ends_with_newline
            report.problem(number, line, "the file ends in the middle of a line" if cut else _why(line))
            continue
        records.append(record)
        lines.append(number)
    series = {r.pop("", "") for r in records}
    if len(series) > 1:
        raise FormatError(
            f"{report.file}: expected the records of one measurement; found {', '.join(sorted(series)[:5])}, and "
            "nothing says which belong to one interval. Split the file"
        )
    records, lines = without_frames(*readings(records, lines, report), report)
    names, columns = columns_of(records)
    return plain_table.to_dump(Grid(names, columns, kept_lines=lines), report, run)


def _why(line: str) -> str:
    """Say what is wrong with a line that is no record."""
    keys = [k for k, _ in _PAIR.findall(line)]
    twice = next((k for i, k in enumerate(keys) if k in keys[:i]), None)
    if twice is not None and _LOGFMT.fullmatch(line.strip("\ufeff \t\r")) is not None:
        return f"the key {twice} stands twice in one record"
    odd = next((w for w in line.split() if _PAIR.fullmatch(w) is None), None)
    return "expected key=value, with blanks or (InfluxDB) commas between" + (f"; {odd[:40]!r} is none" if odd else "")


def _record(line: str) -> dict[str, str] | None:
    """Return what a line says, by key; None for a line of another kind."""
    influx = _INFLUX.fullmatch(line)
    if influx is not None:
        tags, fields = (_PAIR.findall(influx[part]) for part in ("tags", "fields"))
        record = dict(tags) | {k: re.sub(r"^(-?\d+)[iu]$", r"\1", v) for k, v in fields}
        stamp = influx["stamp"] or ""
        clock = {f"timestamp_{_UNITS[len(stamp)]}": stamp} if len(stamp) in _UNITS else {}
        return {"": influx["name"]} | clock | record
    if _LOGFMT.fullmatch(line) is None:
        return None
    pairs = _PAIR.findall(line)
    record = {k: v.strip('"') for k, v in pairs}
    return record if len(pairs) == len(record) > 1 else None
