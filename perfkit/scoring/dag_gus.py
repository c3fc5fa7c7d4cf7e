"""The extended roofline's answer beside Gus's, on the same trace: whether they name the same bottleneck.

The two models differ in what they see. The extended roofline schedules a DAG with one latency per type of node. Gus
simulates each instruction with its own ports and latencies, sets of L1 and the front end, and its cycles are nearer to
measured ones (docs/gus.md). Where the two disagree, Gus is to be believed if what it names is of these, takes longer
there, and nothing decides that it does not model, either; who is nearer to what was measured, where that is known; and
else neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfkit.simulators.dag.measures import unknown_to_gus
from perfkit.simulators.groups import group
from perfkit.simulators.gus.gus import Gus

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.dag.measures import Schedule
    from perfkit.simulators.dag.relax import Relaxation
    from perfkit.trace.trace import Trace

_TIED = 0.02  # gains that differ by less are one
_FAR = 0.25  # cycles further apart are not of one thing
_NOTHING = 0.01  # gains below it, of both models, say that no single resource helps
# Parts of a core that Gus has instruction by instruction, and a DAG by type of node.
_FINER = ("integer units", "floating-point units", "divider", "latency of operations", "front end", "sets of L1")
_WARNING = "do not rely on the cycles, the roofs and the gains here"
NOT_ASKED = (
    "nothing has checked these cycles: Gus, which simulates the same machine code instruction by instruction, was not "
    "asked (--no-gus)"
)
NO_TRACE = (
    "nothing has checked these cycles: Gus simulates recorded machine code, and there is none of this; --measure times "
    "what can be called here"
)


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


def checked(schedule: Schedule, trace: Trace, core: Microarchitecture, warm: bool = True) -> Schedule:
    """Return a schedule that doubts its cycles where Gus, asked for the same trace, takes others.

    Gus is asked for its cycles alone, which takes about as long as the schedule; `second_opinion` says whom to believe.
    """
    cycles = float(Gus(core, warm=warm).cycles(trace, [core])[0])
    if _near(schedule.cycles, cycles):
        return schedule
    return doubting(schedule, _contradicts(schedule.cycles, cycles) + "; who is nearer is not known here")


def doubting(schedule: Schedule, doubt: str) -> Schedule:
    """Return a schedule with one more doubt, unless it is empty."""
    return replace(schedule, doubts=(*schedule.doubts, doubt)) if doubt else schedule


def _contradicts(here: int, gus: float) -> str:
    return f"Gus takes {gus:,.0f} cycles for the same machine code, {here:,} are scheduled ({here / gus - 1:+.0%})"


def second_opinion(
    trace: Trace,
    core: Microarchitecture,
    relaxation: Relaxation,
    warm: bool = True,
    measured: float = math.nan,
    doubts: Sequence[str] = (),
) -> dict[str, Any]:
    """Return Gus's bottleneck of a trace beside the extended roofline's.

    Two names are one where both are of the same part of the core (`group`), or within two percent of the first. Where
    no resource gains Gus two percent, all of a part are doubled together: ports of nested groups that are full at the
    same time gain nothing one by one. Where none gains a per cent in either model, they agree on that.

    Parameters
    ----------
    trace, core
        What ran, on what.
    relaxation
        The extended roofline's answer.
    warm
        Caches and branch predictor have seen the trace before, as in the schedule that was relaxed.
    measured
        The cycles that it took on such a core, where they are known: who is nearer to them is believed.
    doubts
        What the schedule says of itself: some of it is true of Gus, too.

    Returns
    -------
    dict with ``gus`` and ``roofline`` (the resources), ``gain`` (Gus's, at twice the capacity), ``agree``, ``near``
    (whether both take about as long), ``cycles`` (Gus's), ``believe`` ("both", "gus", "roofline" or "neither"),
    ``sentence``, which says whether they agree and whom to believe, and ``doubt``: what that makes doubtful of the
    schedule's cycles; "" where they are near Gus's, or were measured.
    """
    gus = Gus(core, warm=warm)
    result = gus.run(trace)
    ranked = result.sensitivity((2.0,))
    name, gain = ranked.bottleneck, float(ranked.speedup.max(initial=0.0))
    if gain < _TIED:
        # Ports of nested groups that are full together gain nothing one by one.
        name, gain = max([(name, gain), *_together(gus, trace)], key=lambda found: found[1])
    own = relaxation.to_frame()
    if max(gain, own["gain"].max() if len(own) else 0.0) < _NOTHING:
        name, tied, shown = "", [], "no single resource"
    else:
        tied = own[(own["gain"] >= own["gain"].max() - _TIED) & (own["gain"] > 0.005)]["resource"].tolist()
        shown = relaxation.bottleneck or "no single resource"
    agree = (bool(name) and any(group(resource) == group(name) for resource in tied)) or (not name and not tied)
    near = _near(relaxation.cycles, result.cycles)
    if agree:
        words = f"Gus agrees: {name or 'no single resource'} ({gain:.0%} at twice the capacity)"
        words += "" if near else ", but not on how long it takes"
    else:
        words = f"Gus disagrees: {name or 'no single resource'} ({gain:.0%}), "
        words += f"not {shown}" if relaxation.bottleneck else "where no single resource gains here"
    here, cycles = relaxation.cycles, float(result.cycles)
    apart = here / cycles - 1
    words += f"; cycles: {here:,} here, {cycles:,.0f} in Gus ({apart:+.0%})"
    finer = group(name) in _FINER and (near or cycles > here) and not unknown_to_gus(doubts)
    doubt = ""
    if math.isnan(measured):
        believe, why = _unmeasured(agree, near, finer)
        whom = f": {'' if near else f'{_WARNING}; '}{why}." if why else "."
        doubt = "" if near else f"{_contradicts(here, cycles)}: {why}"
    else:
        believe, whom = _measured(here, cycles, agree, near, measured)
    return {
        "gus": name,
        "roofline": shown,
        "gain": gain,
        "agree": agree,
        "near": near,
        "cycles": cycles,
        "believe": believe,
        "sentence": words + whom,
        "doubt": doubt,
    }


def _near(cycles: float, others: float) -> bool:
    return abs(math.log(max(cycles, 1) / max(others, 1.0))) <= math.log(1 + _FAR)


def _unmeasured(agree: bool, near: bool, finer: bool) -> tuple[str, str]:
    """Return who is to be believed where nothing was measured, and why: Gus where it has what decides finer."""
    if agree and near:
        return "both", ""
    if finer:
        return "gus", "believe Gus, which has that part of the core instruction by instruction"
    what = "what decides" if near else "the cycles"
    return "neither", (
        f"Gus does not model all that may decide here, either: believe neither in {what}, and measure (--measure; "
        "perfkit why of a program)"
    )


def _measured(here: int, gus: float, agree: bool, near: bool, measured: float) -> tuple[str, str]:
    """Return who is to be believed by what was measured, and the end of the sentence that says so."""
    told = f", {measured:,.0f} measured"
    if agree and near:
        return "both", f"{told}."
    if not _near(here, measured) and not _near(gus, measured):
        return "neither", f"{told}: neither is near what was measured; {_WARNING}, nor on Gus."
    own, others = (abs(math.log(max(cycles, 1) / measured)) for cycles in (here, gus))
    if abs(own - others) <= math.log(1 + _TIED):
        return "neither", f"{told}: what was measured does not tell whom to believe."
    if own < others:
        return "roofline", f"{told}: believe what stands here, which is nearer to what was measured."
    begin = "" if near else f"{_WARNING}; "
    return "gus", f"{told}: {begin}believe Gus, which is nearer to what was measured."
