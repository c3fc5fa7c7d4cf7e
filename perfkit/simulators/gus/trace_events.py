"""A timeline as trace events (JSON), which Perfetto and chrome://tracing open.

The format counts in microseconds: here one of them is one simulated cycle, as its metadata say.
"""

import json
from pathlib import Path
from typing import Any

from perfkit.files import replaced
from perfkit.simulators.gus.timeline import Timeline


def trace_events(timeline: Timeline) -> dict[str, Any]:
    """Return a timeline's uses of resources as trace events: one process per resource, one thread per unit of it.

    Instructions have a process of their own, from dispatch to retirement. One microsecond is one cycle (simulated).
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
    events.extend(
        _event(numbers[row.resource], int(row.lane), str(text.get(row.n, row.n)), row.n, row.start, row.end)
        for row in timeline.uses.itertuples()
    )
    about = {"core": timeline.core, "kind": timeline.kind, "unit": "one microsecond is one simulated cycle"}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def save_trace_events(timeline: Timeline, path: str | Path) -> Path:
    """Write a timeline as trace events; open the file at ui.perfetto.dev or in chrome://tracing.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> pk.save_trace_events(pk.timeline(result, 0, 40), "fig1a.json").name
    'fig1a.json'
    """
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(trace_events(timeline)) + "\n", encoding="utf-8")
    return Path(path)


def _event(pid: int, tid: int, name: str, n: int, start: float, end: float) -> dict[str, Any]:
    """Return one use; of no length where a use takes no time."""
    return {
        "ph": "X", "name": name, "cat": "simulated", "pid": pid, "tid": tid, "ts": float(start),
        "dur": max(0.0, float(end) - float(start)), "args": {"n": int(n)},
    }  # fmt: skip
