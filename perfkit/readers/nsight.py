"""Nsight Compute ``--csv``: one row per kernel launch and metric (details page), or one row per launch (raw page).

Each launch is an interval and the kernel's name its place. Metrics that count (cycles, instructions, bytes, sectors,
...) become events, in base units: ``Kbyte`` and ``usecond`` are scaled to bytes and nanoseconds row by row, since the
profiler picks the unit of each value by its size. Percentages and rates are no counts and are left out.
"""

import re

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, listed
from perfkit.readers.grid import cells_of
from perfkit.readers.numbers import NUMBER_PATTERN, Token, settle
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report, quoted

NAME = "nsight"
TITLE = "Nsight Compute --csv"

_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES = {"nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}
_COUNTED = (
    "byte", "cycle", "inst", "sector", "request", "warp", "thread", "wavefront", "block", "instruction", "op", "count",
)  # fmt: skip
_DURATION = "gpu__time_duration.sum"


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return '"Kernel Name"' in head and ('"Metric Name"' in head or re.search(r'"\w+__\w+[.\w]*"', head) is not None)


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counting metrics of a file."""
    rows = _long_rows(content, report)
    if not rows:
        raise FormatError(f"{report.file}: output of Nsight Compute without a single metric")
    table = pd.DataFrame(rows, columns=["line", "launch", "place", "event", "unit", "text"])
    factors = {u: _factor(u) for u in table["unit"].unique()}
    table["factor"] = [
        np.nan if _is_ratio(e) else factors[u] for e, u in zip(table["event"], table["unit"], strict=True)
    ]
    others = sorted(set(table.loc[table["factor"].isna(), "event"]))
    if others:
        report.note(f"metrics that are no counts (percentages, rates, settings), left out: {listed(others, 8)}")
    table = table[table["factor"].notna()].reset_index(drop=True)
    if table.empty and not any("__" in name for name in others):
        raise FormatError(
            f"{report.file}: expected metrics by their own names (sm__cycles_elapsed.max); those of the details page "
            f"({listed(others, 4)}) do not tell sums from means. Let Nsight Compute write them: ncu --csv --page raw"
        )
    if table.empty:
        raise FormatError(
            f"{report.file}: expected counts in this output of Nsight Compute; it has only percentages, rates and "
            f"settings: {listed(others, 8)}. Collect counts, too: "
            "ncu --metrics sm__cycles_elapsed.max,smsp__inst_executed.sum"
        )
    table["count"] = _values(table, report) * table["factor"]
    order = {launch: i for i, launch in enumerate(dict.fromkeys(table["launch"]))}
    table["interval"] = table["launch"].map(order)
    again = table.duplicated(["interval", "event"])
    report.left_out(
        table.loc[again, "line"].tolist(), "repeat a metric of the same launch, left out"
    ) if again.any() else 0
    table = table[~again].reset_index(drop=True)
    lasted = table[table["event"] == _DURATION].set_index("interval")["count"] / 1e9
    table["seconds"] = table["interval"].map(lasted)
    return Dump(table[["place", "interval", "seconds", "event", "count"]].assign(run=run))


def _long_rows(content: Opened, report: Report) -> list[tuple[int, str, str, str, str, str]]:
    """Return line, launch, kernel, metric, unit and value as written, for both pages."""
    header: list[str] | None = None
    units: list[str] | None = None
    out = []
    lines = content.lines()
    for number, line in enumerate(lines, 1):
        if not line.startswith('"'):
            if line.strip():
                report.left_out(number, "that the profiler and the program print, not read")
            continue
        cells = cells_of(line)
        if "Kernel Name" in cells:
            lacking = {"Metric Name", "Metric Unit", "Metric Value"} - set(cells) if "Metric Name" in cells else set()
            if lacking:
                raise FormatError(
                    f"{report.file}, line {number}: expected the columns Metric Name, Metric Unit and Metric Value, as "
                    f"ncu --csv writes them; {', '.join(sorted(lacking))} is not there"
                )
            header, units = cells, None
            report.describes(number)
            continue
        if header is None:
            report.left_out(number, "that the profiler and the program print, not read")
            continue
        if len(cells) != len(header):
            cut = number == len(lines) and not content.ends_with_newline
            reason = f"expected {len(header)} fields as in the header, found {len(cells)}"
            report.problem(number, line, f"the file ends in the middle of a row: {reason}" if cut else reason)
            continue
        row = dict(zip(header, cells, strict=True))
        report.counts(number)
        launch = row.get("ID") or str(number)
        if "Metric Name" in row:
            if not row["Metric Name"]:
                report.left_out(number, "without a metric, not read")
            else:
                out.append(
                    (number, launch, row["Kernel Name"], row["Metric Name"], row["Metric Unit"], row["Metric Value"])
                )
        elif units is None and not row.get("ID") and not row["Kernel Name"]:
            units = cells
            report.describes(number)
        else:
            of = units or [""] * len(cells)
            out += [
                (number, launch, row["Kernel Name"], n, u, v)
                for n, u, v in zip(header, of, cells, strict=True)
                if "__" in n
            ]
    return out


def _factor(unit: str) -> float:
    """Return what a unit must be multiplied by for base units; NaN where it does not count anything."""
    if unit in _TIMES:
        return _TIMES[unit]
    match = re.match(r"^(?P<prefix>[KMGT]?)(?P<what>[a-z]+)$", unit)
    if match and any(match["what"] in (c, f"{c}s") for c in _COUNTED):
        return _PREFIX[match["prefix"]]
    return 1.0 if unit == "" else np.nan


def _is_ratio(metric: str) -> bool:
    """Whether a metric is a rate, a share or a setting by its name."""
    return (
        "__" not in metric
        or metric.startswith("launch__")
        or re.search(r"\.(?:pct|ratio|per_\w+|pct_of_\w+|max_rate|peak_\w+)|_rate\b|throughput", metric) is not None
    )


def _values(table: pd.DataFrame, report: Report) -> np.ndarray:
    tokens, good = [], np.zeros(len(table), dtype=bool)
    # What is summed or picked over units, in its base unit, is a whole number: "1,234" cannot be a fraction there.
    whole = table["event"].str.endswith((".sum", ".max", ".min")) & (table["factor"] == 1.0)
    for i, (text, line) in enumerate(zip(table["text"], table["line"], strict=True)):
        if NUMBER_PATTERN.fullmatch(text):
            good[i] = True
            if not text.isdecimal():
                tokens.append(Token(text, line, bool(whole[i])))
        elif text not in ("", "n/a", "nan", "N/A"):
            report.problem(line, text, "expected a number as a metric's value")
    before = len(report.rows)
    style = settle(tokens, report)
    bad = {(line, text) for _, line, text, _ in report.rows[before:]}
    good &= [(line, quoted(text)) not in bad for text, line in zip(table["text"], table["line"], strict=True)]
    if style.grouping or style.decimal != ".":
        report.note(f"numbers: {style.describe()}")
    return np.array([style.parse(t) if g else np.nan for t, g in zip(table["text"], good, strict=True)])
