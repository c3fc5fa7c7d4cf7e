"""Cachegrind's output files: simulated counts of every function, as samples.

A function is an interval, and its name the place; lines that the compiler put into it from other files belong to it.
There is no time in the simulation: ``estimated-cycles`` is Ir + 10 L1m + 100 LLm, plus 10 Bm where branches were
simulated (the estimate that KCachegrind shows). It is an estimate by fixed penalties and no measurement.
"""

import json
import re

import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "cachegrind"
TITLE = "cachegrind's output file"

TIME_EVENT, WORK_EVENT = "estimated-cycles", "Ir"
# What one miss is taken to cost, in cycles.
L1_PENALTY, LL_PENALTY, BRANCH_PENALTY = 10, 100, 10
_SUMS = {
    "L1m": ("I1mr", "D1mr", "D1mw"),
    "LLm": ("ILmr", "DLmr", "DLmw"),
    "Bm": ("Bcm", "Bim"),
}


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    if re.search(r"^positions:|^# callgrind", head, re.MULTILINE):
        return False  # callgrind's, whose lines of calls hold what is called
    return all(re.search(rf"^{start}", head, re.MULTILINE) for start in (r"events: Ir\b", "fn="))


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read the counts of all functions."""
    by_function, about = functions(content.lines(), report)
    frame = with_estimate(by_function)
    report.note(estimate_note(frame))
    return to_dump(frame, run, about)


def functions(lines: list[str], report: Report) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return one row per function (indexed by its name) with one column per event, and what the file says of the run.

    Raises
    ------
    FormatError
        The counts do not add up to the file's own summary, as in a truncated file.
    """
    events: list[str] = []
    about: dict[str, str] = {}
    sums: dict[str, list[int]] = {}
    summary: list[int] | None = None
    function = ""
    for number, line in enumerate(lines, 1):
        if line.strip() and not (line[:1].isdecimal() and events):
            report.describes(number)
        key, colon, rest = line.partition(":")
        if colon and key in ("cmd", "desc", "events", "summary", "totals"):
            if key == "events":
                events = rest.split()
            elif key in ("summary", "totals"):
                words = rest.split()
                summary = [int(v) for v in words] if all(v.isdecimal() for v in words) else None
            elif key == "desc":
                name, _, value = rest.partition(":")
                about[name.strip()] = value.strip()
            else:
                about["cmd"] = rest.strip()
        elif line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdecimal() and events:
            cells = line.split()[1:]
            values = [0 if c == "." else int(c) for c in cells if c.isdecimal() or c == "."]
            if len(values) != len(cells) or len(values) > len(events):
                report.problem(number, line, f"expected a line number and up to {len(events)} counts")
                continue
            report.counts(number)
            total = sums.setdefault(function, [0] * len(events))
            for i, count in enumerate(values):
                total[i] += count
        elif line.strip() and not line.startswith(
            ("fl=", "fi=", "fe=", "version", "creator", "pid", "thread", "part", "#")
        ):
            report.problem(number, line, "expected a line of cachegrind's output")
    if not events or not sums:
        raise FormatError(f"{report.file}: output of cachegrind without counts")
    frame = pd.DataFrame(list(sums.values()), columns=events, dtype="int64")
    if summary is None or [int(v) for v in frame.sum()] != [*summary, *[0] * (len(events) - len(summary))]:
        report.problem(0, f"summary: {summary}", "the counts do not add up to the summary; the file is truncated")
    frame.index = pd.Index(list(sums), name="function")
    return frame, about


def with_estimate(
    frame: pd.DataFrame, l1: float = L1_PENALTY, ll: float = LL_PENALTY, branch: float = BRANCH_PENALTY
) -> pd.DataFrame:
    """Return the counts with the sums L1m, LLm and Bm, and the estimated cycles."""
    out = frame.copy()
    for name, parts in _SUMS.items():
        if set(parts) <= set(out.columns):
            out[name] = out[list(parts)].sum(axis=1)
    costs = {"L1m": l1, "LLm": ll, "Bm": branch}
    out[TIME_EVENT] = out[WORK_EVENT] + sum(out[k] * c for k, c in costs.items() if k in out)
    return out


def estimate_note(
    frame: pd.DataFrame, l1: float = L1_PENALTY, ll: float = LL_PENALTY, branch: float = BRANCH_PENALTY
) -> str:
    """Say what the estimated cycles are made of."""
    costs = [f"{c:g} {k}" for k, c in (("L1m", l1), ("LLm", ll), ("Bm", branch)) if k in frame]
    return (
        f"counts are simulated by cachegrind; {TIME_EVENT} = {' + '.join([WORK_EVENT, *costs])} is an estimate, "
        "not a measurement"
    )


def to_dump(frame: pd.DataFrame, run: str, about: dict[str, str]) -> Dump:
    """Make a dump of one row per function."""
    order = [TIME_EVENT, *[c for c in frame.columns if c != TIME_EVENT]]
    wide = frame[order].reset_index(names="place").rename_axis(columns=None)
    wide["interval"] = range(len(wide))
    counts = wide.melt(id_vars=["place", "interval"], var_name="event", value_name="count").assign(run=run)
    command = about.get("cmd", "")
    runs = pd.DataFrame({"kind": ["simulated"], "command": [command], "parameters": [json.dumps(about)]}, index=[run])
    return Dump(counts, runs, prefer=(TIME_EVENT, WORK_EVENT))
