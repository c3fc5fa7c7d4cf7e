"""What several passes over a figure come to: a middle value with its interval, or no value where they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.collectors.whole_core.figures import Timing

PASSES = 3
SPREAD = 0.04
"""By how much the passes may differ, relatively; and by 0.03 cycles."""


@dataclass(frozen=True)
class Settled:
    """A figure with the least and the most of its passes."""

    value: float
    low: float
    high: float


def passes(counts: Sequence[tuple[str, int]], operand: int | None = None) -> list[Timing]:
    """Return a figure's passes."""
    return [Timing(tuple(counts), operand, turn) for turn in range(PASSES)]


def in_passes(groups: Sequence[Sequence[Timing]]) -> list[Timing]:
    """Return the figures of all groups, the first pass over all of them first."""
    return [group[turn] for turn in range(PASSES) for group in groups]


def settled(figures: Sequence[Timing], found: Mapping[Timing, float]) -> Settled | str:
    """Return what passes come to; a reason where they come to nothing.

    Of three passes the nearest two have to agree: one that was disturbed does not decide.
    """
    values = sorted(found[figure] for figure in figures if figure in found)
    if len(values) < 2:
        return "too few passes could be measured"
    gaps = np.diff(values)
    first = int(gaps.argmin())
    low, high = values[first], values[first + 1]
    if high - low > max(SPREAD * low, 0.03):
        return f"its passes differ: {', '.join(f'{value:.3f}' for value in values)} cycles"
    return Settled((low + high) / 2 if len(values) == 2 else values[1], values[0], values[-1])
