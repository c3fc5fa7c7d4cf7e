"""What a curve of slowdown against added instructions says: where it bends, how steeply it rises, what slack there was.

A kernel that takes T cycles in an iteration, and keeps a resource busy for a share a of them, takes
``max(T, a T + n c)`` with n more instructions that keep it busy for c cycles each. So behind the bend the slowdown is a
line, a + n c / T: its value at n = 0 is the share of the time in which the resource was busy before, and where it meets
1 is the number of instructions that were absorbed.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

NONE, SOME, PLENTY, UNTOLD = "none", "some", "plenty", "cannot tell"
"""Words for the slack of a resource."""
NO_SLACK = 0.12
"""Idle share of the time up to which a resource may count as having no slack."""
_STARTS, _EXPOSED = 0.33, 0.7  # shares of their full cost that the first instructions must have at least
_SMALL = 0.25  # slope up to which one instruction is small enough to tell a slack by the start of the curve alone
_CHEAPEST = 0.1  # cycles: no core begins ten instructions per cycle
_WHOLE = 0.02  # share by which an iteration's cycles may differ from a whole number
_ROUNDED = 0.2  # idle share up to which a resource may be idle because an iteration takes whole cycles
_SEVERAL = 0.6  # cycles per instruction up to which a resource has several units
_START = 0.06  # slowdown up to which a curve has its start
MUCH = 0.5
_ALIKE = 0.05  # slacks that differ by less are the same
_MADE = 1.5  # times what the later ones cost: an added cycle of a chain costs a cycle
_SAME = 0.15  # share by which the costs of single instructions may differ that are the same
_POINTS = 4  # behind the bend that the line goes through
FRONT_END = 0.7
"""Share of the time in which dispatch must be busy for it to be what no-operations wait for."""


@dataclass(frozen=True)
class Bend:
    """Where one curve bends.

    Parameters
    ----------
    absorbed : float
        Instructions absorbed for free; the most that were added where the curve never rises.
    slope : float
        Slowdown per instruction behind the bend; NaN where the curve never rises.
    slack : float
        Share of the time in which the resource was idle, 0 to 1; NaN where the curve never rises.
    first : float
        The least number of added instructions with a significant slowdown; NaN where there is none.
    exposed : float
        What the first instructions cost, relative to the later ones: 1 where they hurt at once, 0 where they are free.
    """

    absorbed: float
    slope: float
    slack: float
    first: float
    exposed: float


def bend(
    added: ArrayLike, slowdown: ArrayLike, least: float, low: ArrayLike | None = None, cycles: float = math.nan
) -> Bend:
    """Find where a curve bends.

    One that creeps up by less than an instruction takes on any core has not met its resource's limit: it never rises.

    Parameters
    ----------
    added, slowdown
        The curve; the first point has nothing added.
    least : float
        Slowdown that counts as one, for example 0.03.
    low
        Lower ends of the slowdowns' intervals: a slowdown is significant where these exceed ``1 + least``.
    cycles
        Of an iteration with nothing added; NaN where they are not known.

    Examples
    --------
    A resource that was busy half of the time, with instructions of an eighth of it each:

    >>> bend([0, 2, 4, 8, 16], [1, 1, 1, 1.5, 2.5], 0.03)
    Bend(absorbed=4.0, slope=0.125, slack=0.5, first=8.0, exposed=0.0)
    """
    n, values = np.asarray(added, dtype=float), rising(slowdown)
    significant = np.flatnonzero(rising(slowdown if low is None else low) > 1 + least)
    if not len(significant):
        return Bend(float(n[-1]), np.nan, np.nan, np.nan, 0.0)
    first = int(significant[0])
    behind = np.arange(max(first, len(n) - _POINTS), len(n))
    if len(behind) == 1:  # what lies before the bend is on the line only if it bends there
        behind = np.array([first - 1, first])
    slope, intercept = np.polyfit(n[behind], values[behind], 1)
    if _from_the_start(n, values, slope):
        slope, intercept = (values[2] - values[0]) / n[2], values[0]
    elif intercept > 1 + least:  # busy for more than all of the time: many at once cost less each than the first ones
        early = slice(first, first + _POINTS)
        steeper, lower = np.polyfit(n[early], values[early], 1) if len(n[early]) > 1 else (slope, intercept)
        slope, intercept = (steeper, lower) if steeper > slope else (slope, intercept)
    if slope <= 0 or slope * cycles < _CHEAPEST:
        return Bend(float(n[-1]), np.nan, np.nan, float(n[first]), 0.0)
    # What was added without a slowdown was absorbed, whatever the line says: some curves rise in steps.
    absorbed = float(np.clip(max((1 - intercept) / slope, n[max(first - 1, 0)]), 0, n[-1]))
    slack = float(np.clip(absorbed * slope, 0, 1))
    start = min(max(int(np.searchsorted(n * slope, _START)), 1), len(n) - 1)
    exposed = max(float((values[start] - 1) / (n[start] * slope)), 0.0)
    return Bend(round(absorbed, 6), round(float(slope), 9), round(slack, 6), float(n[first]), round(exposed, 6))


def _from_the_start(n: NDArray[np.float64], values: NDArray[np.float64], slope: float) -> bool:
    """Return whether the first and the second instruction cost the same, and what the last ones do.

    Then there is no slack, whatever leap lies between: Zen 5 writes two stores per cycle to a dozen lines in turn, and
    one per cycle to more of them, so that the store to the thirteenth line costs what many do.
    """
    if len(n) < 2 * _POINTS or slope > _SMALL or not np.array_equal(n[:3], [0, 1, 2]):
        return False
    each = np.diff(values[:3])
    same = abs(each[1] - each[0]) <= _SAME * each.min() and abs(slope - each.mean()) <= _SAME * each.mean()
    return bool(same and (values >= values[0] + (1 - _SAME) * each.mean() * n).all())


def rising(values: ArrayLike) -> NDArray[np.float64]:
    """Return a curve that nowhere falls: no point is above a later one, as a disturbed one would be."""
    return np.minimum.accumulate(np.asarray(values, dtype=float)[::-1])[::-1]


def word(found: Bend, cycles: float = math.nan) -> str:
    """Say in a word how much slack there is; ``cycles`` are those of an iteration, where they are known.

    None, where the resource is idle for at most `NO_SLACK` of the time and the first instructions already cost a third
    of what later ones do; or where these cost nearly all of it and one is small beside an iteration: loops that do
    different things in turn have round curves. None, too, where an iteration takes whole cycles and a resource of
    several units is idle for less than one of them: fifteen instructions on four units take four cycles, and the place
    of the sixteenth is free in a loop that nothing else holds back.
    """
    if not np.isfinite(found.slack):
        return PLENTY
    whole = abs(cycles - round(cycles)) <= _WHOLE * cycles if np.isfinite(cycles) else False
    if whole and found.slack <= _ROUNDED and found.slack * cycles < 1 and found.slope * cycles <= _SEVERAL:
        return NONE
    if found.slack <= NO_SLACK and found.exposed >= _STARTS:
        return NONE
    if found.exposed >= _EXPOSED and (found.slope <= _SMALL or (1 - found.exposed) * found.slope <= NO_SLACK):
        return NONE
    return SOME if found.slack < MUCH else PLENTY


def first_bottleneck(
    slack: Mapping[str, float],
    words: Mapping[str, str],
    dispatched: float,
    slope: Mapping[str, float] | None = None,
    own: Collection[str] = (),
    exposed: Mapping[str, float] | None = None,
) -> str:
    """Say which resource holds the loop back, from the slack of each.

    Parameters
    ----------
    slack, words
        Of each kind of noise.
    dispatched : float
        Share of the time in which dispatch is busy with the loop's own instructions.
    slope
        What an instruction of each kind costs. Of kinds that have as little slack as the least, the cheapest is named:
        where a unit that four ports share has no slack, one that two of them share has none either.
    own
        The kinds that the loop itself has: of those with as little slack, one of these is named first, as kinds may
        have the same ports (Golden Cove's additions and shuffles of vectors).
    exposed
        What the first instructions of each kind cost, relative to the later ones. Where the first added cycle of a
        chain costs much more than a cycle, it made the chain (Golden Cove executes additions of constants before they
        reach a port, until something comes between): a kind of the loop's own without slack is believed instead.

    Returns
    -------
    str
        A kind of noise; ``"front end"``, where no-operations hurt at once and dispatch is busy, ``"restarts"``, where
        they hurt at once and it is not (after mispredicted branches, every instruction on the way counts);
        ``"cannot tell"``; or ``"none of these"``.
    """
    if not words or UNTOLD in words.values():
        return UNTOLD
    # Hardly any loop hides a misprediction: that one more hurts does not say that those it has do.
    tight = [kind for kind, said in words.items() if said == NONE and kind != "random branch"]
    if not tight:
        return "none of these"
    if "nop" in tight and "long nop" in tight:
        tight.remove("long nop")  # the same, and longer
    worst = min(tight, key=lambda kind: slack[kind])
    # Every kind takes a place in dispatch: where that is what is short, none has less slack than no-operations.
    alike = "nop" in tight and slack["nop"] <= slack[worst] + _ALIKE
    if dispatched >= FRONT_END and alike:
        return "front end"
    # Single ones may cost too little to be told from noise, on a core that begins eight per cycle.
    if dispatched < FRONT_END and (
        alike or any(slack[kind] <= NO_SLACK for kind in tight if kind in {"nop", "long nop"})
    ):
        return "restarts"
    # Whatever takes a port now and then delays a chain that waits for nothing else.
    if "latency" in tight:
        filled = [kind for kind in tight if kind in own and kind != "latency" and slack[kind] <= _ALIKE]
        if not filled or (exposed or {}).get("latency", 1.0) <= _MADE:
            return "latency"
        tight, worst = filled, min(filled, key=lambda kind: slack[kind])
    if slope is None:
        return worst
    tied = [kind for kind in tight if slack[kind] <= slack[worst] + _ALIKE]
    return min([kind for kind in tied if kind in own] or tied, key=lambda kind: slope[kind])
