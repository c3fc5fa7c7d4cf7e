"""A timeline as trace events (JSON), which Perfetto and chrome://tracing open.

The format counts in microseconds: here one of them is one simulated cycle, as its metadata say.
"""

import itertools
from pathlib import Path
from typing import Any

from perfkit.base.files import json_text, replaced
from perfkit.errors import expect
from perfkit.simulators.gus.gus import GusResult
from perfkit.simulators.gus.timeline import Timeline


def trace_events(timeline: Timeline, of: GusResult | None = None) -> dict[str, Any]:
    """Return a timeline's uses of resources as trace events: one process per resource, one thread per unit of it.

    Instructions have a process of their own, from dispatch to retirement. One microsecond is one cycle (simulated).
    A use that overlaps another one of its unit, of operands that arrive late, has a further thread: those of one thread
    may not overlap in this format.

    Parameters
    ----------
    timeline : Timeline
        What is exported.
    of : GusResult, optional
        The simulation that it is a window of: how large a part, the metadata say then.
    """
    events: list[dict[str, Any]] = []
    text = dict(zip(timeline.schedule["n"], timeline.schedule["text"], strict=True))
    names = ["instructions", *timeline.resources["resource"]]
    for pid, name in enumerate(names):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": str(name)}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
    free: list[float] = []  # by row: when its last instruction retired
    for row in timeline.schedule.itertuples():
        lane = next((k for k, end in enumerate(free) if end <= row.dispatch), len(free))
        free[lane:] = [float(row.retire), *free[lane + 1 :]]
        times = {"start": float(row.start), "end": float(row.end)}
        events.append(
            _event(0, lane, str(row.text), row.n, row.dispatch, row.retire) | {"args": {"n": int(row.n), **times}}
        )
    numbers = {name: pid for pid, name in enumerate(names)}
    units = dict(zip(timeline.resources["resource"], timeline.resources["units"].tolist(), strict=True))
    taken: dict[tuple[int, int], float] = {}  # by thread: when its last use ended
    for row in timeline.uses.sort_values(["start", "n"], kind="stable").itertuples():
        pid, first = numbers[row.resource], int(units[row.resource])
        lanes = itertools.chain([int(row.lane)], itertools.count(first))
        lane = next(k for k in lanes if taken.get((pid, k), 0.0) <= row.start)
        if lane >= first and (pid, lane) not in taken:
            late = {"name": f"late {lane - first + 1}"}
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": lane, "args": late})
        taken[pid, lane] = float(row.end)
        events.append(_event(pid, lane, str(text.get(row.n, row.n)), row.n, row.start, row.end))
    about = {"core": timeline.core, "kind": timeline.kind, "unit": "one microsecond is one simulated cycle"}
    about["window"] = window_told(timeline, of)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def window_told(timeline: Timeline, of: GusResult | None = None) -> str:
    """Say which executed instructions and cycles a timeline holds, and of how many."""
    n = timeline.schedule["n"]
    begin, end = float(timeline.schedule["dispatch"].min()), float(timeline.schedule["retire"].max())
    if of is None:
        return f"instructions {n.iloc[0]:,} to {n.iloc[-1]:,}, cycles {begin:,.0f} to {end:,.0f}"
    share = (end - begin) / max(of.cycles, 1.0)
    return (
        f"instructions {n.iloc[0]:,} to {n.iloc[-1]:,} of {of.instructions:,}, cycles {begin:,.0f} to {end:,.0f} of "
        f"{of.cycles:,.0f}: {min(share, 1.0):.1%} of them"
    )


def save_trace_events(timeline: Timeline, path: str | Path, of: GusResult | None = None) -> Path:
    """Write a timeline as trace events to `path`; open the file at ui.perfetto.dev or in chrome://tracing.

    `of` is the simulation that the timeline is a window of, if that is to be said.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> pk.save_trace_events(pk.timeline(result, 0, 40), "fig1a.json").name
    'fig1a.json'
    """
    expect(
        isinstance(timeline, Timeline), timeline, "save_trace_events", "a Timeline", "ask a GusResult for .timeline()"
    )
    with replaced(path) as temporary:
        temporary.write_text(json_text(trace_events(timeline, of), exact=False) + "\n", encoding="utf-8")
    return Path(path)


def _event(pid: int, tid: int, name: str, n: int, start: float, end: float) -> dict[str, Any]:
    """Return one use; of no length where a use takes no time."""
    return {
        "ph": "X", "name": name, "cat": "simulated", "pid": pid, "tid": tid, "ts": float(start),
        "dur": max(0.0, float(end) - float(start)), "args": {"n": int(n)},
    }  # fmt: skip
