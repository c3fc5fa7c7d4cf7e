"""Tables drawn with bars and rules, as Markdown has them and databases print them (``| a | b |``, ``a | b``).

Also those of reStructuredText between rules alone, whose gaps are where the columns end.
"""

import re
from itertools import pairwise

from perfkit.errors import FormatError
from perfkit.readers import plain_table
from perfkit.readers.grid import read_grid
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "framed-table"
TITLE = "tables of counts between bars and rules (Markdown, reStructuredText, psql, MySQL)"

_RULE = re.compile(r"^\s*[|+│├╞┡]?[\s:|+\-=─═━┼╪╇│┤╡┩]*(?:--|==|─|══|━)[\s:|+\-=─═━┼╪╇│┤╡┩]*$")
_GAPPED = re.compile(r"^={2,}(?:[ ]+={2,})+\s*$")
# What polars and duckdb print under the names of columns.
_TYPE = re.compile(
    r"-{3}|str|string|text|bool(?:ean)?|cat|date(?:time)?(?:\[.*\])?|timestamp.*|(?:u?(?:big|small|tiny|huge)?)int(?:8|16|32|64|128)?"
    r"|[iuf](?:8|16|32|64|128)|double|float|varchar|decimal.*",
    re.IGNORECASE,
)
_BAR = re.compile(r"(?<!\\)[|│┆┃]")
_LOOKED_AT = 200


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: names between bars, and a rule under them."""
    lines = [x for x in head.lstrip("\ufeff").splitlines()[:_LOOKED_AT] if x.strip()]
    if any(_RULE.match(below) and len(_cells(line)) > 1 for line, below in pairwise(lines)):
        return True
    return any(
        _GAPPED.match(a) and not _RULE.match(b) and _GAPPED.match(c)
        for a, b, c in zip(lines, lines[1:], lines[2:], strict=False)
    )


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file.

    Raises
    ------
    FormatError
        No table is in it, or one that `perfkit.readers.plain_table` refuses.
    """
    rows: list[str] = []
    around: list[int] = []
    gaps: list[slice] = []
    under = False  # the rule below the names has been
    for number, line in enumerate(content.lines(), 1):
        if gaps and _GAPPED.match(line):
            gaps = [] if under else gaps  # the third rule ends the table
            under = True
        elif _GAPPED.match(line):
            under = False
            ends = [m.start() for m in re.finditer("=+", line)][1:]
            gaps = [slice(a, b) for a, b in zip([0, *ends], [*ends, None], strict=True)]
        cells = [] if _RULE.match(line) else _cells(line.lstrip("\ufeff"))
        if gaps and not _GAPPED.match(line) and not any(line[g.start - 1 : g.start].strip() for g in gaps[1:]):
            cells = [line[gap].strip() for gap in gaps]
        types = bool(cells) and len(rows) < _LOOKED_AT and all(_TYPE.fullmatch(c) for c in cells)
        cells = [] if types else cells
        rows.append("\t".join(cells))
        if not cells and (types or _RULE.match(line)):
            report.describes(number)
        elif not cells and line.strip():
            around.append(number)
    if not any(rows):
        raise FormatError(f"{report.file}: expected a table whose columns stand between bars; no line has any")
    if around:
        report.left_out(around, "of text around the table, not read")
    lines = content.lines()
    report.written = lambda number: lines[number - 1]
    whole = content.ends_with_newline or not lines or lines[-1].rstrip()[-1:] in ("|", "│")
    text = "\n".join(rows) + ("\n" if whole else "")
    return plain_table.to_dump(read_grid(text.encode(), report), report, run)


def _cells(line: str) -> list[str]:
    """Return the cells of a line between bars, without the emphasis that Markdown may put on them."""
    if not _BAR.search(line) or _RULE.match(line):
        return []
    inner = line.strip()
    inner = inner[1:] if inner[0] in "|│┆┃" else inner
    inner = inner[:-1] if inner[-1:] in ("|", "│", "┃") and not inner.endswith("\\|") else inner
    return [re.sub(r"\s+", " ", c.replace("\\|", "|")).strip(" *`") for c in _BAR.split(inner)]
