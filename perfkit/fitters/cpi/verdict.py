"""Whether data support a CPI stack, in a word and with the reasons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfkit.errors import counted, listed
from perfkit.fitters.cpi.validation import CpiBracket

FEWEST = (
    20  # intervals of a supported stack: two for each block of the least bootstrap (perfkit.fitters.cpi.validation)
)


@dataclass(frozen=True)
class CpiVerdict:
    """Whether the data support a CPI stack: ``"supported"``, ``"uncertain"`` or ``"unsupported"``, with the reasons."""

    level: Literal["supported", "uncertain", "unsupported"]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        opening = {
            "supported": "The data support this stack",
            "uncertain": "Take this stack with care",
            "unsupported": "The data do not support a stack",
        }
        return f"{opening[self.level]}: {'; '.join(self.reasons)}."


def verdict_of(
    outside: float,
    split: str,
    placebo_r2: float,
    bracket: CpiBracket,
    spreads: Mapping[str, float],
    in_order: bool,
    wrong: tuple[int, int, int],
    intervals: int = FEWEST,
    apart: Sequence[str] = (),
) -> CpiVerdict:
    """Judge by what the events explain beyond the placebo, by how well the base is known, and by the penalties.

    ``outside`` is the R2 on what was kept out, and ``split`` what that was: phases, intervals or machines. ``spreads``
    are the lengths of the bootstrap intervals of the base and of each event, over the CPI. ``apart`` are the parts of a
    stack in the IPC form that the CPI form puts outside of their intervals: those intervals are not to be believed.

    The thresholds are a judgement: half (a fifth) of what the placebo leaves must be explained in phases kept out, the
    two bases must agree to a tenth (a quarter) of the CPI, and the base's interval must be shorter than a fifth (half)
    of it, for a stack to be supported (to be uncertain). A supported stack has no event whose interval is longer than
    that fifth: of events that rise and fall together a regression knows the sum, not the parts. Nor has it fewer than
    `FEWEST` intervals: what is kept out of so few, and what is drawn from them, agrees by chance.
    """
    base_spread = spreads["base"]
    impossible, unlikely, twice = wrong
    beyond = (outside - placebo_r2) / (1.0 - placebo_r2) if placebo_r2 < 1 else float("nan")
    reasons = [
        f"on {split} kept out the events reach an R2 of {outside:z.2f}, shuffled ones {placebo_r2:z.2f} in sample"
        if math.isfinite(outside)
        else f"there are too few intervals to keep {split} out, so nothing tells whether it holds there",
        f"the two forms put the base at {bracket.ipc:.3f} and {bracket.cpi:.3f}, {bracket.width:.1%} of the CPI apart",
    ]
    if base_spread > 0.2:
        reasons.append(f"the bootstrap interval of the base is {base_spread:.0%} of the CPI long")
    wide = {name: spread for name, spread in spreads.items() if name != "base" and spread > 0.2}
    if apart:
        reasons.append(f"the CPI form puts {listed(apart)} outside of what resampling alone gives")
    if wide:
        lengths = ", of ".join(f"{name} {spread:.0%}" for name, spread in wide.items())
        reasons.append(f"the bootstrap interval is longer than a fifth of the CPI: of {lengths} of it")
    if intervals < FEWEST:
        reasons.append(f"{intervals} intervals are few: a stack is supported by {FEWEST} or more")
    if in_order:
        reasons.append("the rows are sorted, so no split by time tells whether it holds in other phases")
    if impossible:
        reasons.append(f"{impossible} of the penalties cannot be what they claim")
    if unlikely:
        reasons.append(f"{unlikely} of the penalties are more than cores of today show")
    if twice:
        reasons.append(f"the same thing is counted under two names by {counted(twice, 'pairs')} of events")
    sound = intervals >= FEWEST and not (wide or apart or in_order or impossible or unlikely or twice)
    if beyond >= 0.5 and bracket.width <= 0.10 and base_spread <= 0.2 and sound:
        return CpiVerdict("supported", tuple(reasons))
    if beyond >= 0.2 and bracket.width <= 0.25 and base_spread <= 0.5:
        return CpiVerdict("uncertain", tuple(reasons))
    return CpiVerdict("unsupported", tuple(reasons))
