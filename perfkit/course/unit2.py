"""Unit 2, counters and SPIRE: what happens most often is not what costs most."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from perfkit import datasets
from perfkit.collectors.synthetic import COSTLY, Generated, generate
from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit, part_seed
from perfkit.fitters.spire.model import Spire, SpireModel

if TYPE_CHECKING:
    from perfkit.samples.table import Samples

AREAS = ("front-end", "bad speculation", "memory")
_AREA = {event.name: event.area for event in COSTLY}
# One event of each area whose occurrences a student counts.
_COUNTED = {
    "front-end": "frontend_retired.l1i_miss",
    "bad speculation": "br_misp_retired.all_branches",
    "memory": "longest_lat_cache.miss",
}

# How many times its usual rate an area has that costs far more than the others ...
_STRONG = {"front-end": (14.0, 18.0), "bad speculation": (6.0, 9.0), "memory": (5.0, 8.0)}
# ... beside an event that happens far more often and costs half a cycle.
FREQUENT = "exe_activity.1_ports_util"


@dataclass(frozen=True)
class Counted:
    """What a student of unit 2 gets.

    Attributes
    ----------
    samples : Samples
        Generated samples of the student's program: cycles, instructions and events, interval by interval.
    model : SpireModel
        SPIRE, trained on the shipped training samples of the same (generated) machine.
    event : str
        The event of exercise 2.
    """

    samples: Samples
    model: SpireModel
    event: str


def most_frequent(samples: Samples) -> str:
    """Return the event, of those that cost something, that happened most often."""
    table = samples.table[samples.table["event"].isin(_AREA)]
    return str(table.groupby("event")["count"].sum().idxmax())


@cache
def _model() -> SpireModel:
    return Spire().fit(datasets.load("spire/train"))


def _program(rng: np.random.Generator) -> tuple[Generated, str]:
    """Return a program in which one area costs most, and an event of another one happens most often; and that area."""
    area = str(rng.choice(AREAS))
    factors = {name: float(rng.uniform(0.1, 0.4)) for name in (*AREAS, "core")}
    factors[area] = float(rng.uniform(*_STRONG[area]))
    factors["slow decode"] = 0.0
    factors[FREQUENT] = float(rng.uniform(3.0, 4.0))
    return generate({"my program": factors}, intervals=40, seed=part_seed(rng)), area


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    made, area = _program(rng)
    event = _COUNTED[area]
    samples = made.samples
    mine = samples.table[samples.table["event"] == event]
    count, work, time = (float(mine[column].sum()) for column in ("count", "work", "time"))
    stack = made.stacks.loc["my program"]
    why = "That event happens most often. Does one occurrence cost much?"
    answers = {
        "throughput": Solution(
            work / time, (Mistake(time / work, "Those are cycles per instruction; asked are instructions per cycle."),)
        ),
        "intensity": Solution(
            work / count,
            (
                Mistake(count / work, "That is events per instruction. Intensity is work per event."),
                Mistake(
                    1000 * count / work, "Those are events per thousand instructions. Intensity is work per event."
                ),
            ),
        ),
        "area": Solution(area, (Mistake(_AREA[most_frequent(samples)], why),)),
        "gain": Solution(
            float(stack["cpi"] / (stack["cpi"] - stack[area])),
            (
                Mistake(
                    float(stack[area] / stack["cpi"]), "That is the share of the cycles. How much faster without them?"
                ),
                Mistake(
                    float(1 + stack[area] / stack["cpi"]),
                    "If half of the cycles go, the program is not 1.5 times as fast.",
                ),
            ),
        ),
    }
    return Drawn(Counted(samples, _model(), event), answers)


UNIT = Unit(
    "unit2",
    "Counters and SPIRE",
    "unit2_counters_and_spire.ipynb",
    "The event with the highest count is the one that makes the program slow.",
    (
        Exercise(
            "throughput",
            2,
            "instructions per cycle of the whole run, a number",
            "All instructions of the run over all its cycles.",
            tolerance=0.002,
        ),
        Exercise(
            "intensity",
            2,
            "instructions per occurrence of the event, over the whole run, a number",
            "All instructions of the run over all occurrences of the event.",
            tolerance=0.005,
        ),
        Exercise(
            "area",
            3,
            "the area that costs most cycles: front-end, bad speculation, memory or core",
            "Let SPIRE rank the events, and look at several of the lowest bounds together.",
        ),
        Exercise(
            "gain",
            3,
            "how many times as fast the program would be without that area's cycles, a number",
            "Estimate the area's cycles: each event's count times the cost in the table, over all cycles.",
            tolerance=0.03,
        ),
    ),
    _draw,
)
