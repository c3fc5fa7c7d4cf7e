"""PAPI's high-level interface: the JSON it writes for each process (``papi_hl_output/rank_0.json``).

Each execution of a region is an interval, the region's name (and the thread's number, where there are several) its
place. A region holds what the regions inside it count. ``cycles`` there is time on the constant-rate counter of the
processor, not a counted event, and so called ``elapsed-cycles`` here; ``real_time_nsec`` is the interval's length.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.document import parse, values
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "papi"
TITLE = "PAPI high-level JSON"

ELAPSED = "elapsed-cycles"
_NOT_EVENTS = ("name", "id", "parent_id", "parent_region_id", "region_count", "real_time_nsec")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return head.lstrip().startswith("{") and '"threads"' in head and '"regions"' in head


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    whole = parse(content, "of PAPI's high-level interface")
    rows: list[dict[str, Any]] = []
    nested = left_out = 0
    try:
        threads = dict(_numbered(whole["threads"]))
        for thread, body in threads.items():
            for i, (name, region) in enumerate(_regions(body)):
                nested += str(region.get("parent_region_id", region.get("parent_id", "-1"))) != "-1"
                place = str(name) if len(threads) == 1 else f"{name}, thread {thread}"
                found = list(_counts(i, place, region, report))
                rows.extend(found)
                left_out += values(region) - len(found) - len(set(region) & set(_NOT_EVENTS))
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{report.file}: JSON that is not of PAPI's high-level interface ({type(error).__name__}: {error})"
        ) from error
    if not rows:
        raise FormatError(f"{report.file}: no region with counts in it")
    if lacking := _lacking(rows):
        report.note(f"missing counts: {', '.join(lacking)}")
    if nested:
        report.note(f"{counted(nested, 'regions')} inside others, whose counts hold theirs too")
    report.document(values(whole), len(rows), max(left_out, 0))
    report.note(f"cycles of PAPI's own clock are called {ELAPSED}")
    about = {k: whole[k] for k in ("papi_version", "cpu_info", "max_cpu_rate_mhz", "cpu in mhz") if k in whole}
    runs = pd.DataFrame({"parameters": [json.dumps(about)]}, index=[run])
    return Dump(pd.DataFrame(rows).assign(run=run), runs)


def _lacking(rows: list[dict[str, Any]]) -> list[str]:
    """Say which events not all regions of the file have, and how many lack them."""
    regions = {(r["place"], r["interval"]) for r in rows}
    having: dict[str, set[tuple[str, int]]] = {}
    for row in rows:
        having.setdefault(row["event"], set()).add((row["place"], row["interval"]))
    return [f"{e} {len(regions) - len(of):,} of {len(regions):,}" for e, of in having.items() if len(of) < len(regions)]


def _numbered(items: Any) -> Iterator[tuple[str, Any]]:
    """Give the entries of an object by key, and those of a list (PAPI before version 7) by their ``id``."""
    if isinstance(items, dict):
        yield from items.items()
        return
    for i, item in enumerate(items):
        yield str(item.get("id", i)), item


def _regions(thread: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the regions of a thread with their names; before version 7 the name was the key."""
    regions = thread["regions"]
    for entry in regions.values() if isinstance(regions, dict) else regions:
        if "name" in entry:
            yield entry["name"], entry
        else:
            yield from entry.items()


def _counts(i: int, place: str, region: dict[str, Any], report: Report) -> Iterator[dict[str, Any]]:
    seconds = _number(region.get("real_time_nsec"), "real_time_nsec", report) / 1e9
    for event, value in region.items():
        if event in _NOT_EVENTS:
            continue
        if isinstance(value, dict) and "total" in value:
            value = value["total"]
        if isinstance(value, list | dict):
            report.note(f"{event} in {place} holds readings of one moment, not counts; left out")
            continue
        count = _number(value, event, report)
        name = ELAPSED if event == "cycles" else event
        yield {"place": place, "interval": i, "seconds": seconds, "event": name, "count": count}


def _number(value: Any, name: str, report: Report) -> float:
    if value in (None, "", "nan"):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        report.problem(0, f"{name}: {value}", "expected a number")
        return float(np.nan)
