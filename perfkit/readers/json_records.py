"""Records in JSON, each a row of a table of counts, wide or long.

They are one object per line, a list of objects, an object of lists (one per column), an object of objects, an object of
one list of records (``{"host": ..., "samples": [...]}``), or names and rows apart, as pandas writes them (``split``).
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.grid import Grid
from perfkit.readers.numbers import NUMBER_PATTERN
from perfkit.readers.open import Opened
from perfkit.readers.records import columns_of, is_plain_number, without_frames
from perfkit.readers.report import Dump, Report
from perfkit.readers.running_totals import is_axis
from perfkit.readers.scales import caution_of_scale
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

NAME = "json-records"
TITLE = "records in JSON, one an interval or a count"


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: a flat object with at least two numbers."""
    text = head.lstrip("\ufeff \t\r\n[")
    if not text.startswith("{"):
        return False
    try:
        first, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _begins_as_one(text)
    listed = head.lstrip("\ufeff \t\r\n").startswith("[")
    if not listed and _turned(first) is not None:
        return True
    return isinstance(first, dict) and (_is_record(first) or _is_header(text[end:].lstrip(" \t\r\n,"), listed))


def _is_header(behind: str, listed: bool) -> bool:
    """Whether a record with time and work, or of an event, follows on one that is no such record."""
    try:
        second = json.loads(behind.partition("\n")[0]) if not listed else json.JSONDecoder().raw_decode(behind)[0]
    except (ValueError, RecursionError):
        return False
    if not isinstance(second, dict) or not _is_record(second):
        return False
    names = _flat(second)
    return sum(map(is_axis, names)) > 1 or any(n.lower() == "event" for n in names)


def _begins_as_one(text: str) -> bool:
    """Whether this is the beginning of a long object of one list of records, or of names and rows."""
    if re.match(r'\{\s*"columns"\s*:\s*\[\s*"', text):
        return '"data"' in text or '"index"' in text
    begin = re.search(r":\s*\[\s*(?=\{)", text)
    try:
        return begin is not None and _is_record(json.JSONDecoder().raw_decode(text, begin.end())[0])
    except (ValueError, RecursionError):
        return False


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    lines: Sequence[int] | None = None
    if content.text().lstrip("\ufeff \t\r\n").startswith("["):
        records = _listed(content, report)
    elif (turned := _one_object(content, report)) is not None:
        records = turned
    else:
        records, lines = _by_line(content, report)
    records = [_flat(r) for r in records]
    if not records:
        raise FormatError(f"{report.file}: records in JSON without a single one that can be read")
    records, lines = without_frames(records, lines, report)
    names, columns = columns_of(records)
    return plain_table.to_dump(Grid(names, columns, first_line=1, kept_lines=lines), report, run)


def _one_object(content: Opened, report: Report) -> list[dict[str, Any]] | None:
    """Return the records of a file that is one JSON object, if it holds them in one of the usual shapes."""
    try:
        whole = json.loads(content.text().lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    if isinstance(whole, dict) and _inside(whole) is not None:
        around = {k: v for k, v in whole.items() if not (isinstance(v, list) and v)}
        if around:
            report.note(
                f"around the records, not read: {', '.join(f'{k} ({str(v)[:20]})' for k, v in around.items())[:200]}"
            )
        if told := caution_of_scale(f"{k}: {v}" for k, v in around.items()):
            report.note(told)
    return _turned(whole)


def _turned(whole: Any) -> list[dict[str, Any]] | None:
    """Return records of a list per column, of a record per run, or of a record per column (what pandas writes)."""
    if not isinstance(whole, dict):
        return None
    if (records := _with_rows_apart(whole) or _inside(whole)) is not None:
        return records
    if len(whole) < 2:
        return None
    names = {normalise(k) for k in whole}
    columns = bool(names & set(TIME_EVENTS) and names & set(WORK_EVENTS))
    inner = list(whole.values())
    if columns and all(isinstance(v, list) for v in inner):
        if len({len(v) for v in inner}) != 1 or any(isinstance(x, dict | list) for v in inner for x in v):
            return None
        return [dict(zip(whole, row, strict=True)) for row in zip(*inner, strict=True)]
    if not all(isinstance(v, dict) and v and not any(isinstance(x, dict | list) for x in v.values()) for v in inner):
        return None
    if columns:
        return [{name: of.get(key) for name, of in whole.items()} for key in dict.fromkeys(k for v in inner for k in v)]
    if any("run" in v for v in inner) or not all(sum(is_plain_number(x) for x in v.values()) > 1 for v in inner):
        return None
    return [{"run": name, **of} for name, of in whole.items()]


def _with_rows_apart(whole: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object of names and rows (pandas's ``split``)."""
    names, rows = whole.get("columns"), whole.get("data")
    if not isinstance(names, list) or not isinstance(rows, list) or not rows or len(names) < 2:
        return None
    if not all(isinstance(n, str) for n in names) or not set(whole) <= {"columns", "data", "index"}:
        return None
    if not all(isinstance(r, list) and len(r) == len(names) for r in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def _inside(whole: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object that holds one list of them, and else only what says where they come from."""
    lists = [v for v in whole.values() if isinstance(v, list) and v and all(isinstance(r, dict) for r in v)]
    rest = [v for v in whole.values() if isinstance(v, list) and v and v not in lists]
    if len(lists) != 1 or rest or not all(_is_record(r) for r in lists[0]):
        return None
    return lists[0]


def _is_record(record: dict[str, Any]) -> bool:
    """Whether an object is flat and has at least two numbers, or a number and the event that it counts."""
    flat = _flat(record)
    if any(isinstance(v, dict | list) for v in flat.values()):
        return False
    n = sum(is_plain_number(v) or (isinstance(v, str) and bool(NUMBER_PATTERN.fullmatch(v))) for v in flat.values())
    return n >= 2 or (n == 1 and any(k.lower() == "event" for k in flat))


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with what one object in it holds (``{"run": "a", "counters": {"cycles": 1, ...}}``)."""
    inside = [k for k, v in record.items() if isinstance(v, dict)]
    if len(inside) != 1 or any(isinstance(v, list) for v in record.values()):
        return record
    inner = record[inside[0]]
    if not inner or set(inner) & set(record) or not all(v is None or is_plain_number(v) for v in inner.values()):
        return record
    around = {k: v for k, v in record.items() if k != inside[0]}
    if isinstance(name := around.get("name"), str) and not {"run", *inner} & around.keys():
        around = {"run": name} | {k: v for k, v in around.items() if k != "name"}
    return around | inner


def _by_line(content: Opened, report: Report) -> tuple[list[dict[str, Any]], Sequence[int]]:
    records, lines = [], []
    texts = content.lines()
    for number, line in enumerate(texts, 1):
        if not line.strip("\ufeff \t"):
            continue
        try:
            record = json.loads(line.strip("\ufeff \t").rstrip(","))
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            cut = number == len(texts) and not content.ends_with_newline
            report.problem(number, line, "the file ends in the middle of a line" if cut else "expected a JSON object")
            continue
        records.append(record)
        lines.append(number)
    return records, lines


def _listed(content: Opened, report: Report) -> list[dict[str, Any]]:
    try:
        whole = json.loads(content.text().lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{report.file}: a list of records in JSON that is truncated or damaged ({error})") from error
    wrong = next((i for i, r in enumerate(whole, 1) if not isinstance(r, dict)), None)
    if wrong is not None:
        raise FormatError(f"{report.file}: expected a list of JSON objects; number {wrong} is none")
    return list(whole)
