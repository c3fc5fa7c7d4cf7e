"""likwid-perfctr: tables of raw counts (``-O`` or boxes), marker regions, and the timeline mode (``-t``).

A measured group (and marker region) is one interval, one place per hardware thread. Derived metrics and statistics over
threads are not read. In timeline mode a line is an interval; likwid then prints raw counts only for custom event sets,
and metrics (which are no counts) for performance groups.
"""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.open import Opened
from perfkit.readers.perf import settle_duplicates
from perfkit.readers.report import Dump, Report

NAME = "likwid"
TITLE = "likwid-perfctr, tables and timelines"

_CSV_TABLE = re.compile(
    r"^TABLE,(?:Region (?P<region>[^,]*),)?Group (?P<group>\d+) (?P<what>(?i:Raw STAT|Raw|Metric STAT|Metric))"
    r",[^,]*,\d+[,\s]*$"
)
_TITLE = re.compile(r"TABLE,(?:Region [^,]*,)?Group \d+ (?:Raw|Metric)")
_BOX_TITLE = re.compile(r"^(?:Region (?P<region>.*), )?Group (?P<group>\d+): ")
_HEADER = re.compile(r"^# ?GID[|, ](?P<what>EventCount|MetricsCount)[|, ]CpuCount[|, ]Total runtime \[s\]")
_THREADS = re.compile(r"^# ?HWThreads(?:: |[, ])(?P<threads>\d+(?:[|, ]\d+)*)")
_CPU_NAME = re.compile(r"^CPU name(?::[,\t ]+|,)(?P<name>[^,]*)")
_FIGURE = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_RULE = re.compile(r"^(?:\+[-+]+\+?|-+)$")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    lines = head.split("\n")
    return any(_CSV_TABLE.match(x) or _HEADER.match(x) for x in lines) or (
        any(_BOX_TITLE.match(x) for x in lines) and any(re.match(r"^\|\s*Event\s*\|\s*Counter\s*\|", x) for x in lines)
    )


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all raw counts of a file."""
    lines = content.lines()
    timeline = any(_HEADER.match(x) for x in lines)
    counts = _timeline(lines, report) if timeline else _tables(lines, report)
    if counts.empty:
        raise FormatError(f"{report.file}: output of likwid-perfctr without a table of raw counts")
    cpu = next((m["name"].strip() for x in lines if (m := _CPU_NAME.match(x))), "")
    counts["run"] = run
    runs = pd.DataFrame({"parameters": [f'{{"cpu": "{cpu}"}}' if cpu else "{}"]}, index=[run])
    return Dump(settle_duplicates(counts, report), runs)


# ------------------------------------------------------------------ tables


def _tables(lines: list[str], report: Report) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    title = ("", "1")
    interval: dict[tuple[str, str], int] = {}
    seconds: dict[tuple[str, str, str], float] = {}
    columns: list[str] | None = None
    derived = "of derived metrics and statistics over threads, not read"
    other = "around the tables (what likwid and the program print), not read"
    for number, line in enumerate(lines, 1):
        if _TITLE.search(line) is not None and _CSV_TABLE.match(line) is None:
            report.problem(number, line, "expected the title of a table and no more, as of two lines in one")
            title, columns = ("", "0"), None
            continue
        if (match := _CSV_TABLE.match(line) or _BOX_TITLE.match(line)) is not None:
            title, columns = (match["region"] or "", match["group"]), None
            wanted = match.groupdict().get("what", "Raw") == "Raw"
            columns = None if wanted else []
            report.describes(number)
            continue
        cells = _cells(line)
        if cells is None:
            rule = _RULE.match(line.strip()) or _CPU_NAME.match(line) or line.startswith("STRUCT")
            report.describes(number) if rule else report.left_out(number, other) if line.strip() else None
            continue
        if columns == []:
            heading = cells[0] in ("Metric", "Event")
            report.describes(number) if heading else report.left_out(number, derived, "rows")
            continue
        if cells[0] in ("Event", "Region Info", "Metric"):
            names = [c for c in cells[1:] if c]
            if any(_FIGURE.fullmatch(n) for n in names):
                report.problem(number, line, "expected a heading of names; found numbers in it, as of two lines in one")
                continue
            raw = cells[0] == "Event" and not any(n in ("Sum", "Min", "Max", "Avg") for n in names)
            columns = names if raw else ([] if cells[0] != "Region Info" else ["", *names])
            report.describes(number)
            continue
        if columns is None:
            report.left_out(number, other)
            continue
        key = interval.setdefault(title, len(interval)) if title not in interval else interval[title]
        if cells[0] in ("RDTSC Runtime [s]", "Runtime (RDTSC) [s]"):
            if any(cells[len(columns) + 1 :]):
                report.problem(number, line, f"expected a time for each of {len(columns) - 1} hardware threads")
                continue
            for thread, cell in zip(columns[1:], cells[1 if cells[0].startswith("RDTSC") else 2 :], strict=False):
                seconds[(*title, thread)] = _number(cell, number, line, report)
            report.describes(number)
            continue
        if cells[0] == "call count":
            report.left_out(number, "of call counts of regions, not read")
            continue
        values = cells[2 : len(columns) + 1]
        if len(values) < len(columns) - 1 or "" in values or any(cells[len(columns) + 1 :]):
            report.problem(number, line, f"expected a count for each of {len(columns) - 1} hardware threads")
            continue
        report.counts(number)
        for thread, cell in zip(columns[1:], values, strict=True):
            place = f"{title[0]} {_thread(thread)}".strip()
            count = _number(cell, number, line, report)
            rows.append({"place": place, "interval": key, "event": cells[0], "count": count, "_key": (*title, thread)})
    counts = pd.DataFrame(rows)
    if len(counts):
        counts["seconds"] = [seconds.get(k, np.nan) for k in counts.pop("_key")]
    return counts


def _cells(line: str) -> list[str] | None:
    """Return the cells of a row of a table, in either dress; None for other lines."""
    if _RULE.match(line.strip()):
        return None
    if line.startswith("|"):
        return [c.strip() for c in line.strip().strip("|").split("|")]
    if "," in line and not line.startswith(("STRUCT", "CPU ", "TABLE")):
        return [c.strip() for c in line.split(",")]
    return None


def _number(cell: str, number: int, line: str, report: Report) -> float:
    if cell in ("nan", "-nan", "-", ""):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        report.problem(number, line, f"expected a number, found {cell!r}")
        return float("nan")


def _thread(name: str) -> str:
    """Return a place for ``HWThread 3`` (``Core 3`` in older versions)."""
    match = re.match(r"^(?:HWThread|Core|CPU)\s+(\d+)$", name)
    return f"CPU{match[1]}" if match else name


# ------------------------------------------------------------------ timeline


def _timeline(lines: list[str], report: Report) -> pd.DataFrame:
    """Read lines of group, number of events, number of threads, runtime, and the counts, thread by thread."""
    events: list[list[str]] = []
    threads: list[str] = []
    rows: list[dict[str, object]] = []
    before, interval = 0.0, 0
    for number, line in enumerate(lines, 1):
        if (match := _THREADS.match(line)) is not None:
            threads = re.split(r"[|, ]", match["threads"])
            report.describes(number)
        elif (match := _HEADER.match(line)) is not None:
            if match["what"] == "MetricsCount":
                raise FormatError(
                    f"{report.file}, line {number}: a timeline of a performance group holds metrics, not counts. "
                    "Measure again with the group's events themselves: likwid-perfctr -g EVENT:COUNTER,... -t 1s"
                )
            events.append([c.strip() for c in re.split(r"[|,]", line)][4:])
            if odd := [e for e in events[-1] if " " in e]:
                report.problem(number, line, f"expected names of events; {odd[0]!r} is none")
                continue
            report.describes(number)
        elif re.match(r"^\d+[ ,|]\d+[ ,|]\d+[ ,|]", line):
            for group in _timeline_rows(line, number, events, threads, report):
                at = _number(group[0], number, line, report)
                if np.isnan(at):
                    report.problem(number, line, f"expected the runtime in seconds, found {group[0]!r}")
                    continue
                report.counts(number)
                for place, event, count in group[1]:
                    rows.append(
                        {
                            "place": place,
                            "interval": interval,
                            "at": at,
                            "seconds": at - before if at >= before else at,
                            "event": event,
                            "count": count,
                        }
                    )
                before, interval = at, interval + 1
        elif line.startswith(("#", "-", "CPU ")):
            report.describes(number)
        elif line.strip():
            report.problem(number, line, "expected group, events, threads, runtime and counts")
    return pd.DataFrame(rows)


def _timeline_rows(
    line: str, number: int, events: list[list[str]], threads: list[str], report: Report
) -> Iterator[tuple[str, list[tuple[str, str, float]]]]:
    cells = [c for c in re.split(r"[ ,|]+", line.strip()) if c]
    group, n_events, n_threads = int(cells[0]), int(cells[1]), int(cells[2])
    values = cells[4:]
    if not 1 <= group <= len(events) or n_events != len(events[group - 1]) or len(values) != n_events * n_threads:
        expected = n_events * n_threads
        report.problem(number, line, f"expected {expected} counts of {n_events} events, found {len(values)}")
        return
    places = [f"CPU{t}" for t in threads] if len(threads) == n_threads else [f"CPU{t}" for t in range(n_threads)]
    names = events[group - 1]
    found = [
        (places[i % n_threads], names[i // n_threads], _number(v, number, line, report)) for i, v in enumerate(values)
    ]
    yield cells[3], found
