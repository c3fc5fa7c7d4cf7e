"""Records in JSON: an object a line, or a list of objects, each a row of a table of counts, wide or long."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.grid import Column, Grid
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "json-records"
TITLE = "records in JSON, one an interval or a count"


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: a flat object with at least two numbers."""
    text = head.lstrip("\ufeff \t\r\n[")
    if not text.startswith("{"):
        return False
    try:
        first, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    if any(isinstance(v, dict | list) for v in first.values()):
        return False
    numbers = sum(isinstance(v, int | float) for v in first.values())
    return numbers >= 2 or (numbers == 1 and any(k.lower() == "event" for k in first))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    if content.text().lstrip("\ufeff \t\r\n").startswith("["):
        records, lines = _listed(content, report), None
    else:
        records, lines = _by_line(content, report)
    if not records:
        raise FormatError(f"{report.file}: records in JSON without a single one that can be read")
    names = tuple(dict.fromkeys(k for r in records for k in r))
    columns = tuple(_column([r.get(n) for r in records]) for n in names)
    return plain_table.to_dump(Grid(names, columns, first_line=1, kept_lines=lines), report, run)


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
    report.counts(lines)
    return records, lines


def _listed(content: Opened, report: Report) -> list[dict[str, Any]]:
    try:
        whole = json.loads(content.text().lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{report.file}: a list of records in JSON that is truncated or damaged ({error})") from error
    wrong = next((i for i, r in enumerate(whole, 1) if not isinstance(r, dict)), None)
    if wrong is not None:
        raise FormatError(f"{report.file}: expected a list of JSON objects; number {wrong} is none")
    report.document(len(whole), len(whole), 0, unit="row")
    return list(whole)


def _column(values: list[Any]) -> Column:
    if all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values):
        return np.array([np.nan if v is None else float(v) for v in values])
    return pa.chunked_array([pa.array([None if v is None else str(v) for v in values], pa.string())])
