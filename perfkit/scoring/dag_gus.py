"""The extended roofline's answer beside Gus's, on the same trace: whether they name the same bottleneck.

The two models differ in what they see. The extended roofline schedules a DAG with one latency per type of node. Gus
simulates each instruction with its own ports and latencies, caches with sets and mispredicted branches, and its cycles
are nearer to measured ones (docs/gus.md): where the two disagree, Gus is to be believed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.dag.relax import Relaxation
    from perfkit.trace.trace import Trace

# Groups of resources of which both models speak, by words of either; the first that matches counts.
_GROUPS = (
    ("latency of operations", r"instruction_latency|latency of (?:additions|mult|div|fused|integer)"),
    ("latency of memory", r"memory_latency|latency of memory|L3_latency|latency of L3"),
    ("latency of caches", r"L[12]\w*_latency|forward|latency of L[12]"),
    ("bandwidth of memory", r"memory_bandwidth|bandwidth of memory|L3_bandwidth|bandwidth of L3"),
    ("load and store units", r"L1_bandwidth|bandwidth of L1|AGU|LSU|Load|Store|store_commit|p23|p237|p49|p78|p4\b"),
    ("bandwidth of L2", r"L2_bandwidth|bandwidth of L2"),
    ("window", r"^rob$|scheduler|_queue|buffer|station|line.fill"),
    ("front end", r"front_end|fetch|retire|taken_branches|op_cache"),
    ("divider", r"[Dd]ivider"),
    ("mispredicted branches", r"misprediction"),
    ("integer units", r"ALU|integer units|BRU|p06|p0156|branch"),
    ("floating-point units", r"FP|floating-point units|^p\d+|p01|p5"),
)


def group(resource: str) -> str:
    """Return the group that a resource of either model belongs to.

    Examples
    --------
    >>> group("instruction_latency") == group("latency of additions")
    True
    """
    return next((name for name, words in _GROUPS if re.search(words, resource)), "other")


def second_opinion(trace: Trace, core: Microarchitecture, relaxation: Relaxation) -> dict[str, Any]:
    """Return Gus's bottleneck of a trace beside the extended roofline's.

    Returns
    -------
    dict with ``gus`` and ``roofline`` (the resources), ``gain`` (Gus's, at twice the capacity), ``agree``, ``cycles``
    (Gus's) and ``sentence``, which says whether they agree and whom to believe.
    """
    from perfkit.simulators.gus.gus import Gus

    result = Gus(core, warm=True).run(trace)
    ranked = result.sensitivity((2.0,))
    name = ranked.bottleneck
    gain = float(ranked.speedup.max()) if ranked.speedup.size else 0.0
    own = relaxation.to_frame()
    tied = own[(own["gain"] >= own["gain"].max() - 0.02) & (own["gain"] > 0.005)]["resource"].tolist()
    agree = (bool(name) and any(group(resource) == group(name) for resource in tied)) or (not name and not tied)
    shown = relaxation.bottleneck or "no single resource"
    apart = relaxation.cycles / result.cycles - 1
    if agree:
        words = f"Gus agrees: {name or 'no single resource'} ({gain:.0%} at twice the capacity)"
    else:
        words = (
            f"Gus disagrees: {name or 'no single resource'} ({gain:.0%}), not {shown}. Believe Gus, which knows each "
            "instruction's ports and latencies, caches with sets and mispredicted branches"
        )
    sentence = f"{words}; cycles: {relaxation.cycles:,} here, {result.cycles:,.0f} in Gus ({apart:+.0%})."
    return {
        "gus": name,
        "roofline": shown,
        "gain": gain,
        "agree": agree,
        "cycles": float(result.cycles),
        "sentence": sentence,
    }
