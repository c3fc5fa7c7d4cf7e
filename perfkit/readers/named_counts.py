"""A name and a count on each line (``cycles: 3000``, ``TOT_CYC = 3000``, ``3000 cycles``), as small programs print."""

import re

import numpy as np

from perfkit.readers import plain_table
from perfkit.readers.grid import Grid
from perfkit.readers.numbers import Token, settle
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report
from perfkit.readers.scales import caution_of_scale
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise

NAME = "named-counts"
TITLE = "a name and a count on each line (name: count, name = count, count name)"

# Whole numbers only: means and ratios have fractions, and are no counts.
_LINE = re.compile(
    r"^\s*\"?(?P<event>[A-Za-z][\w.:/\-]*?)\"?(?:\s*[:=]\s*(?P<count>\d+(?:[,'\u2019\u202f\u00a0_]\d{2,3})*)\s*,?|"
    r"(?:\s*[,;\t]\s*|\s+)(?P<plain>\d+)\s*)$"
    r"|^\s*(?P<first>\d+(?:[,'\u2019\u202f\u00a0_]\d{2,3})*)(?:\s*[:=,;\t]\s*|\s+)\"?(?P<named>[A-Za-z][\w.:/\-]*)\"?\s*$"
)
_LOOKED_AT = 200
_OF_PANDAS = re.compile(r'(?:"")?,"?0"?$')  # the header of a series


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: nothing but such lines, time and work among them."""
    lines = [x for x in head.lstrip("\ufeff").splitlines()[:_LOOKED_AT] if x.strip() and not x.startswith("#")]
    lines = lines[bool(lines and _OF_PANDAS.match(lines[0])) :]
    found = [_LINE.match(x) for x in lines]
    known = {normalise(m["event"] or m["named"]) for m in found if m}
    one_order = len({m["first"] is None for m in found if m}) == 1
    return all(found) and one_order and bool(known & set(TIME_EVENTS)) and bool(known & set(WORK_EVENTS))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file; an event that comes again begins the next interval."""
    tokens, events, comments, said = [], [], [], []
    for number, line in enumerate(content.lines(), 1):
        match = _LINE.match(line.lstrip("\ufeff"))
        if match is not None:
            events.append(match["event"] or match["named"])
            text = match["count"] or match["plain"] or match["first"]
            tokens.append(Token(text.replace("_", ""), number, whole=True))
        elif not events and _OF_PANDAS.match(line):
            report.describes(number)
        elif line.startswith("#"):
            comments.append(number)
            said.append(line)
        elif line.strip():
            report.problem(number, line, "expected a name, a colon, an equals sign or a comma, and a whole number")
    if comments:
        report.left_out(comments, "of comments, not read")
    if told := caution_of_scale(said):
        report.note(told)
    style = settle([t for t in tokens if not t.text.isdecimal()], report)
    bad = {line for _, line, _, _ in report.rows}
    values = [np.nan if t.line in bad else style.parse(t.text) for t in tokens]
    report.counts([t.line for t in tokens])
    rows: list[dict[str, float]] = []
    lines: list[int] = []
    for event, value, token in zip(events, values, tokens, strict=True):
        if not rows or event in rows[-1]:
            rows.append({})
            lines.append(token.line)
        rows[-1][event] = value
    names = tuple(dict.fromkeys(events))
    # As a row of a table, so that a clock, a process or a number of threads among them is taken for what it is.
    columns = tuple(np.array([r.get(n, np.nan) for r in rows]) for n in names)
    return plain_table.to_dump(Grid(names, columns, kept_lines=lines), report, run)
