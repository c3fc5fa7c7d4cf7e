"""The extended roofline's answer beside Gus's, on the same trace: whether they name the same bottleneck.

The two models differ in what they see. The extended roofline schedules a DAG with one latency per type of node. Gus
simulates each instruction with its own ports and latencies, caches with sets and mispredicted branches, and its cycles
are nearer to measured ones (docs/gus.md): where the two disagree, Gus is to be believed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from perfkit.simulators.groups import group
from perfkit.simulators.gus.gus import Gus

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.dag.relax import Relaxation
    from perfkit.trace.trace import Trace

_TIED = 0.02  # gains that differ by less are one
_FAR = 0.25  # cycles further apart are not of one thing


def _together(gus: Gus, trace: Trace) -> list[tuple[str, float]]:
    """Return what doubling all resources of a group at once gains, of groups with several."""
    core = gus.core
    groups: dict[str, list[str]] = {}
    for resource in core.resources:
        if group(resource) not in ("other", "window"):
            groups.setdefault(group(resource), []).append(resource)
    variants = {}
    for words, resources in groups.items():
        if len(resources) > 1:
            variants[" + ".join(resources) if len(resources) < 4 else words] = _doubled(core, resources)
    cycles = gus.cycles(trace, [core, *variants.values()])
    return [(words, float(cycles[0] / after - 1)) for words, after in zip(variants, cycles[1:], strict=True)]


def _doubled(core: Microarchitecture, resources: list[str]) -> Microarchitecture:
    for resource in resources:
        core = core.scaled(resource, 2.0)
    return core


def second_opinion(trace: Trace, core: Microarchitecture, relaxation: Relaxation, warm: bool = True) -> dict[str, Any]:
    """Return Gus's bottleneck of a trace beside the extended roofline's.

    Two names are one where both are of the same part of the core (`group`), or within two percent of the first. Where
    no resource gains Gus two percent, all of a part are doubled together: ports of nested groups that are full at the
    same time gain nothing one by one.

    Parameters
    ----------
    trace, core
        What ran, on what.
    relaxation
        The extended roofline's answer.
    warm
        Caches and branch predictor have seen the trace before, as in the schedule that was relaxed.

    Returns
    -------
    dict with ``gus`` and ``roofline`` (the resources), ``gain`` (Gus's, at twice the capacity), ``agree``, ``near``
    (whether both take about as long), ``cycles`` (Gus's) and ``sentence``, which says whether they agree and whom to
    believe.
    """
    gus = Gus(core, warm=warm)
    result = gus.run(trace)
    ranked = result.sensitivity((2.0,))
    name, gain = ranked.bottleneck, float(ranked.speedup.max(initial=0.0))
    if gain < _TIED:
        # Ports of nested groups that are full together gain nothing one by one.
        name, gain = max([(name, gain), *_together(gus, trace)], key=lambda found: found[1])
    own = relaxation.to_frame()
    tied = own[(own["gain"] >= own["gain"].max() - _TIED) & (own["gain"] > 0.005)]["resource"].tolist()
    agree = (bool(name) and any(group(resource) == group(name) for resource in tied)) or (not name and not tied)
    shown = relaxation.bottleneck or "no single resource"
    apart = relaxation.cycles / result.cycles - 1
    near = abs(math.log(max(relaxation.cycles, 1) / max(result.cycles, 1.0))) <= math.log(1 + _FAR)
    knows = "Gus, which knows each instruction's ports and latencies, caches with sets and mispredicted branches"
    if agree:
        words = f"Gus agrees: {name or 'no single resource'} ({gain:.0%} at twice the capacity)"
        words += "" if near else ", but not on how long it takes"
    else:
        words = f"Gus disagrees: {name or 'no single resource'} ({gain:.0%}), not {shown}. Believe {knows}"
    sentence = f"{words}; cycles: {relaxation.cycles:,} here, {result.cycles:,.0f} in Gus ({apart:+.0%})"
    sentence += (
        "."
        if near
        else f": do not rely on the cycles, the roofs and the gains here{f'; believe {knows}' if agree else ''}."
    )
    return {
        "gus": name,
        "roofline": shown,
        "gain": gain,
        "agree": agree,
        "near": near,
        "cycles": float(result.cycles),
        "sentence": sentence,
    }
