"""google-benchmark's JSON or CSV (``--benchmark_format=json``) with ``--benchmark_perf_counters=CYCLES,...``.

Each repetition of a benchmark is an interval and its name the place. google-benchmark prints counters per iteration;
times the iterations they are counts again. Its statistics over repetitions, and rates, are no counts and left out.
"""

import json
import math
from typing import Any

import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.document import parse, values
from perfkit.readers.grid import cells_of
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "google-benchmark"
TITLE = "google-benchmark JSON and CSV with counters"

_ABOUT = {
    "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "label", "error_occurred", "error_message",
    "aggregate_name", "aggregate_unit", "skipped", "skip_message",
}  # fmt: skip
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_MOST = 1e100
_RATES = ("_per_second", "/s")
_CSV_HEADER = ("name", "iterations", "real_time", "cpu_time", "time_unit")
_AGGREGATES = ("_mean", "_median", "_stddev", "_cv")
_NO_COUNTERS = (
    "google-benchmark's times only, without counters. Run the benchmark with "
    "--benchmark_perf_counters=CYCLES,INSTRUCTIONS,... (built with libpfm)."
)


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    json_like = head.lstrip("\ufeff \t\r\n").startswith("{") and '"benchmarks"' in head
    # Before version 1.5 there was no run_name.
    return (json_like and ('"run_name"' in head or '"time_unit"' in head)) or any(
        _is_csv_header(x) for x in head.split("\n")[:40]
    )


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counters of a file."""
    if not content.text().lstrip("\ufeff \t\r\n").startswith("{"):
        return _read_csv(content.lines(), report, run, content.ends_with_newline)
    whole = parse(content, "google-benchmark's output")
    entries = whole.get("benchmarks")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise FormatError(f"{report.file}: expected a list of benchmarks, as google-benchmark writes it")
    rows: list[dict[str, Any]] = []
    number = left_out = aggregates = failed = 0
    rates: set[str] = set()
    for entry in entries:
        if entry.get("run_type") == "aggregate":
            aggregates += 1
            left_out += values(entry)
            continue
        if entry.get("error_occurred") or entry.get("skipped"):
            failed += 1
            left_out += values(entry)
            continue
        found, others = _counters(entry, report)
        rates |= others
        left_out += len(others)
        rows += [{"interval": number, **r} for r in found]
        number += bool(found)
    if aggregates:
        report.note(f"{aggregates:,} statistics over repetitions, not read")
    if failed:
        report.note(f"{counted(failed, 'failed or skipped benchmarks')}, not read")
    if rates:
        report.note(f"values that are no counts, left out: {', '.join(sorted(rates))}")
    if not rows:
        raise FormatError(f"{report.file}: {_NO_COUNTERS}")
    report.note("counters per iteration, multiplied by the iterations")
    report.document(values(whole), len(rows), left_out)
    about = whole.get("context") if isinstance(whole.get("context"), dict) else {}
    runs = pd.DataFrame({"parameters": [json.dumps(about)]}, index=[run])
    if about and isinstance(about.get("host_name"), str):
        runs["host"] = about["host_name"]
    return Dump(pd.DataFrame(rows).assign(run=run), runs)


def _is_csv_header(line: str) -> bool:
    return tuple(cells_of(line.strip("\ufeff\r"))[:5]) == _CSV_HEADER


def _read_csv(lines: list[str], report: Report, run: str, whole: bool) -> Dump:
    """Read the table of ``--benchmark_format=csv``: a line per repetition, in which counters are per iteration."""
    start = next(i for i, x in enumerate(lines, 1) if _is_csv_header(x))
    header = cells_of(lines[start - 1].strip("\ufeff\r"))
    report.describes(start)
    above = [i for i, x in enumerate(lines[: start - 1], 1) if x.strip()]
    if above:
        report.left_out(above, "before the table, not read")
    rows: list[dict[str, Any]] = []
    rates: set[str] = set()
    part = 1
    for number, line in enumerate(lines[start:], start + 1):
        if not line.strip():
            continue
        cells = cells_of(line.strip("\ufeff\r"))
        if _is_csv_header(line) and cells != header:
            raise FormatError(
                f"{report.file}, line {number}: another heading than in line {start}, as where tables of other "
                "counters are put one after another. Read them from files of their own"
            )
        if len(cells) != len(header):
            why = f"expected {len(header)} fields as in the header, found {len(cells)}"
            cut = number == len(lines) and not whole
            report.problem(number, line, f"the file ends in the middle of a row: {why}" if cut else why)
            continue
        if tuple(cells) == tuple(header):
            part += 1
            report.describes(number)
            continue
        entry = {k: _value(v) for k, v in zip(header, cells, strict=True) if v != ""}
        if str(entry.get("name", "")).endswith(_AGGREGATES):
            report.left_out(number, "of statistics over repetitions, not read")
        elif str(entry.get("error_occurred", "")).lower() == "true":
            report.left_out(number, "of benchmarks that failed, not read")
        else:
            before = len(report.rows)
            found, others = _counters(entry, report, number)
            rates |= others
            called = run if part == 1 else f"{run} ({part})"
            rows += [{"run": called, "interval": number - start - 1, **r} for r in found]
            report.counts(number) if len(report.rows) == before else None
    if rates:
        report.note(f"values that are no counts, left out: {', '.join(sorted(rates))}")
    if not rows:
        raise FormatError(f"{report.file}: {_NO_COUNTERS}")
    report.note("counters per iteration, multiplied by the iterations")
    if part > 1:
        report.note(
            f"the header is repeated at {counted(part - 1, 'places')}: files put one after another, taken as runs"
        )
    return Dump(pd.DataFrame(rows))


def _value(cell: str) -> Any:
    """Return a cell as the number that it is, or as text."""
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if math.isfinite(number) and number % 1 == 0 else number


def _counters(entry: dict[str, Any], report: Report, line: int = 0) -> tuple[list[dict[str, Any]], set[str]]:
    """Return an entry's counts, and the names of its values that are none."""
    name, iterations = str(entry.get("name", "")), entry.get("iterations")
    if not isinstance(iterations, int) or isinstance(iterations, bool) or iterations < 1 or iterations > 2**62:
        report.problem(line, f"{name}: iterations = {iterations!r}"[:150], "expected how often the benchmark iterated")
        return [], set()
    time, unit = entry.get("real_time"), _SECONDS.get(str(entry.get("time_unit", "ns")), math.nan)
    known = isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < _MOST
    seconds = float(time or 0.0) * unit * iterations if known else math.nan
    found, others = [], set()
    for event, value in entry.items():
        if event in _ABOUT:
            continue
        counted = isinstance(value, int | float) and not isinstance(value, bool) and not event.endswith(_RATES)
        if not counted or not 0 <= value < _MOST:
            others.add(event)
            continue
        found.append({"place": name, "seconds": seconds, "event": event, "count": float(value) * iterations})
    return found, others
