"""toplev (pmu-tools) ``-x,``: one row per node of the top-down tree, with ``-I`` for every interval.

toplev prints shares, not counts. A share of slots or clocks becomes a count where the same interval and place tell how
many slots or clocks there were (run toplev with ``--nodes +SLOTS,+CLKS,+Instructions``, or ``-v`` to print all nodes);
else it stays in units of a share of the interval's seconds, and its event says so: ``Frontend_Bound [slots x s]``.
"""

import re

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.grid import cells_of
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "toplev"
TITLE = "toplev -x, (CSV)"

_COLUMNS = {"Area", "Value", "Unit"}
_FIGURE = re.compile(r"\d+(?:\.\d+)?")
_SHARE = re.compile(r"^%\s*(?P<of>Slots|Clocks|Core_Clocks|CoreClocks|\w+)", re.IGNORECASE)
# Nodes that count: what they are called in toplev's trees, and the event they count.
_TOTALS = {"slots": "slots", "clks": "cycles", "core_clks": "core_cycles", "instructions": "instructions"}
_BASES = {"slots": "slots", "clocks": "cycles", "core_clocks": "core_cycles", "coreclocks": "core_cycles"}
_COUNT_UNITS = ("count", "clocks", "slots")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return any(set(x.strip().split(",")) >= _COLUMNS for x in head.splitlines()[:20] if not x.startswith("#"))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all nodes of a file as counts."""
    rows = _rows(content.lines(), report)
    if not rows:
        raise FormatError(f"{report.file}: output of toplev without a single node")
    table = pd.DataFrame(rows)
    ends = {at: i for i, at in enumerate(dict.fromkeys(table["at"].dropna()))}
    starts = dict(zip(ends, [0.0, *ends][: len(ends)], strict=True))
    table["interval"] = table["at"].map(ends).fillna(0).astype("int64")
    table["seconds"] = table["at"] - table["at"].map(starts)
    counts = _as_counts(table, report)
    counts["run"] = run
    return Dump(counts)


def _rows(lines: list[str], report: Report) -> list[dict[str, object]]:
    header: list[str] | None = None
    out: list[dict[str, object]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if line.startswith("#"):
            report.describes(number)
            continue
        cells = [c.strip() for c in cells_of(line)]
        if set(cells) >= _COLUMNS:
            if any(_FIGURE.fullmatch(c) for c in cells):
                report.problem(number, line, "expected a heading of names; found numbers in it, as of two lines in one")
                continue
            header = cells
            report.describes(number)
            continue
        if header is None or len(cells) < header.index("Unit") + 1:
            report.problem(number, line, "expected a node with area, value and unit")
            continue
        if any(cells[len(header) :]):
            report.problem(number, line, f"expected {len(header)} fields as in the heading, found {len(cells)}")
            continue
        row = dict(zip(header, cells, strict=False))
        try:
            value = float(row["Value"])
            at = float(row["Timestamp"]) if "Timestamp" in row else np.nan
        except ValueError:
            report.problem(number, line, "expected numbers under Value and Timestamp")
            continue
        unit = row["Unit"].rstrip("< ").strip()
        share = row.get("Multiplex", "")
        running = float(share) / 100 if re.fullmatch(r"\d+(\.\d+)?", share) and 0 < float(share) <= 100 else np.nan
        place = row.get("CPUs", "")
        report.counts(number)
        out.append({"at": at, "place": place, "event": row["Area"], "value": value, "unit": unit, "running": running})
    return out


def _as_counts(table: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Turn shares into counts with the totals of their own interval and place."""
    leaf = table["event"].str.rsplit(".", n=1).str[-1].str.lower()
    total = leaf.map(_TOTALS)
    is_total = total.notna() & table["unit"].str.lower().isin(_COUNT_UNITS)
    totals = {
        (r.interval, r.place, name): r.value
        for r, name in zip(table[is_total].itertuples(), total[is_total], strict=True)
    }
    events, counts, left_out = [], [], set()
    untimed = bool(table["seconds"].isna().all())  # without -I: one interval, of a length that nothing tells
    for row, is_count, name in zip(table.itertuples(), is_total, total, strict=True):
        share = _SHARE.match(str(row.unit))
        base = _BASES.get(share["of"].lower()) if share else None
        of = totals.get((row.interval, row.place, base)) if base else None
        if is_count:
            events.append(str(name))
            counts.append(row.value)
        elif of is not None:
            events.append(str(row.event))
            counts.append(float(str(row.value)) / 100 * of)
        elif base and (row.seconds == row.seconds or untimed):
            events.append(f"{row.event} [{base} x s]")
            counts.append(float(str(row.value)) / 100 * (1.0 if untimed else float(str(row.seconds))))
        elif str(row.unit).lower() in _COUNT_UNITS:
            events.append(str(row.event))
            counts.append(row.value)
        else:
            events.append("")
            counts.append(np.nan)
            left_out.add(f"{row.event} ({row.unit or 'no unit'})")
    if left_out:
        report.note(f"nodes that are no counts, left out: {', '.join(sorted(left_out))}")
    if any(e.endswith(" x s]") for e in events):
        report.note(
            "shares without the interval's slots or clocks are given as share x seconds; "
            "run toplev with --nodes +SLOTS,+CLKS,+Instructions to have counts"
            + ("; without -I no length is known, and the shares are given as of one second" if untimed else "")
        )
    out = table.assign(event=events, count=counts).drop(columns=["value", "unit"])
    return out[out["event"] != ""].reset_index(drop=True)
