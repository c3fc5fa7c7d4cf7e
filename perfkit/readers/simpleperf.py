"""Android's ``simpleperf stat``: text and ``--csv``, with and without ``--interval``.

With ``--interval`` simpleperf prints running totals, unless it was given ``--interval-only-values``: outputs of which
no count ever falls are taken as running totals, and their differences as counts.
"""

import re
from typing import Any

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.numbers import NUMBER, Token, settle
from perfkit.readers.open import Opened
from perfkit.readers.perf import settle_duplicates
from perfkit.readers.report import Dump, Report

NAME = "simpleperf"
TITLE = "simpleperf stat (Android), text and --csv"

_BEGIN = re.compile(r"^Performance counter statistics[,:]\s*$")
_TOTAL = re.compile(r"^Total test time[,:]\s*(?P<seconds>\d+(?:\.\d+)?)(?:,| )\s*seconds")
_HEADER = re.compile(r"^#?\s*(?:(?:cpu|core|tid|pid|thread_name|name)s?,?\s+)*count,?\s*event_name")
_PLACE = re.compile(r"^#?\s*(?:cpu|core),?\s+count\b")
_UNIT = r"(?:\((?P<unit>ms|us|ns|s)\))?"
_CSV = re.compile(
    rf"^(?P<value>\d+(?:\.\d+)?){_UNIT},(?P<event>[A-Za-z][^,\s]*)(?:,[^()]*?)?(?:,?\((?P<pct>\d+(?:\.\d+)?)%\))?,?\s*$"
)
_TEXT = re.compile(
    rf"^\s*(?P<value>{NUMBER}){_UNIT}\s+(?P<event>[A-Za-z][^\s#(]*)\s*(?:#[^(]*)?(?:\((?P<pct>\d+(?:\.\d+)?)%\))?\s*$"
)
_BY_CORE = re.compile(_TEXT.pattern.replace(r"^\s*", r"^\s*(?P<cpu>\d+)\s+", 1))  # --per-core
_SURE = 5  # comparisons of totals that must hold before outputs are taken as running totals


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return any(_BEGIN.match(x.strip("\ufeff\r")) for x in head.split("\n")[:200])


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    rows, ends = _rows(content.lines(), report, content.ends_with_newline)
    if not rows:
        raise FormatError(f"{report.file}: output of simpleperf stat without a single count")
    table = pd.DataFrame(rows)
    whole = (table.pop("unit") == "") & ~table["event"].str.contains("-clock")
    style = settle(map(Token._make, zip(table["text"], table["line"], whole, strict=True)), report)
    bad = {line for _, line, _, _ in report.rows}
    texts = zip(table.pop("text"), table["line"], strict=True)
    table["count"] = [np.nan if line in bad else style.parse(t) for t, line in texts]
    place = table["place"].fillna("") if "place" in table else ""
    table = settle_duplicates(table.assign(run=run, place=place), report)
    report.counts(table.pop("line").to_numpy())
    table["at"] = table["interval"].map(ends)
    if table["interval"].max() > 0:
        table = _differences(table, report)
    lengths = pd.Series(ends, dtype="float64").sort_index()
    table["seconds"] = table["interval"].map(lengths.diff().fillna(lengths))
    return Dump(table.reset_index(drop=True))


def _rows(lines: list[str], report: Report, whole: bool) -> tuple[list[dict[str, Any]], dict[int, float]]:
    rows: list[dict[str, Any]] = []
    ends: dict[int, float] = {}
    output, by_core = -1, False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if _BEGIN.match(line.strip("\ufeff")):
            output += 1
            report.describes(number)
        elif (total := _TOTAL.match(line)) is not None and output >= 0:
            ends[output] = float(total["seconds"])
            report.describes(number)
        elif _HEADER.match(line):
            by_core = _PLACE.match(line) is not None
            report.describes(number)
        elif output >= 0 and by_core and (found := _BY_CORE.match(line)) is not None:
            running = float(found["pct"]) / 100 if found["pct"] else np.nan
            row = {"line": number, "interval": output, "event": found["event"], "running": min(running, 1.0)}
            rows.append({**row, "place": f"CPU{found['cpu']}", "text": found["value"], "unit": found["unit"] or ""})
        elif output >= 0 and not by_core and (found := _CSV.match(line) or _TEXT.match(line)) is not None:
            running = float(found["pct"]) / 100 if found["pct"] else np.nan
            row = {"line": number, "interval": output, "event": found["event"], "running": min(running, 1.0)}
            rows.append({**row, "text": found["value"], "unit": found["unit"] or ""})
        elif output < 0:
            report.left_out(number, "before the counts, not read")
        else:
            cut = number == len(lines) and not whole
            why = "expected a count and an event, as simpleperf stat prints them"
            report.problem(number, line, "the file ends in the middle of a line" if cut else why)
    return rows, ends


def _differences(table: pd.DataFrame, report: Report) -> pd.DataFrame:
    wide = table.pivot(index="interval", columns=["place", "event"], values="count")
    steps = wide.diff().iloc[1:].to_numpy()
    known = steps[np.isfinite(steps)]
    if (known < 0).any():
        return table
    if len(known) < _SURE:
        raise FormatError(
            f"{report.file}: {len(wide)} outputs of simpleperf whose counts never fall: running totals (--interval) or "
            "counts of each interval (--interval-only-values)? Record more intervals, or use --interval-only-values."
        )
    report.note(f"running totals of {len(wide)} outputs (--interval): their differences are the counts")
    before = table.groupby(["place", "event"], sort=False)["count"].shift().fillna(0.0)
    return table.assign(count=table["count"] - before)
