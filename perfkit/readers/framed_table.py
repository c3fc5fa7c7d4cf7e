"""Tables drawn with bars and rules, as Markdown has them and databases print them (``| a | b |``, ``a | b``)."""

import re
from itertools import pairwise

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.grid import read_grid
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "framed-table"
TITLE = "tables of counts between bars and rules (Markdown, psql, MySQL)"

_RULE = re.compile(r"^\s*[|+│├╞]?[\s:|+\-=─═┼╪│┤╡]*(?:--|─|══)[\s:|+\-=─═┼╪│┤╡]*$")
_BAR = re.compile(r"(?<!\\)[|│]")
_LOOKED_AT = 200


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: names between bars, and a rule under them."""
    lines = [x for x in head.lstrip("\ufeff").splitlines()[:_LOOKED_AT] if x.strip()]
    return any(_RULE.match(below) and len(_cells(line)) > 1 for line, below in pairwise(lines))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file.

    Raises
    ------
    FormatError
        No table is in it, or one that `perfkit.readers.plain_table` refuses.
    """
    rows, around = [], []
    for number, line in enumerate(content.lines(), 1):
        cells = [] if _RULE.match(line) else _cells(line.lstrip("\ufeff"))
        rows.append("\t".join(cells))
        if not cells and _RULE.match(line):
            report.describes(number)
        elif not cells and line.strip():
            around.append(number)
    if not any(rows):
        raise FormatError(f"{report.file}: expected a table whose columns stand between bars; no line has any")
    if around:
        report.left_out(around, "of text around the table, not read")
    return plain_table.to_dump(read_grid("\n".join(rows).encode() + b"\n", report), report, run)


def _cells(line: str) -> list[str]:
    """Return the cells of a line between bars, without the emphasis that Markdown may put on them."""
    if not _BAR.search(line) or _RULE.match(line):
        return []
    inner = line.strip()
    inner = inner[1:] if inner[0] in "|│" else inner
    inner = inner[:-1] if inner[-1:] in ("|", "│") and not inner.endswith("\\|") else inner
    return [re.sub(r"\s+", " ", c.replace("\\|", "|")).strip(" *`") for c in _BAR.split(inner)]
