"""Unit 5, rooflines: the classical roofline, and what the extended one sees of a computation's dependences."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit
from perfkit.dag.graph import Dag
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.extended_roofline import NAMES
from perfkit.simulators.dag.relax import relax
from perfkit.simulators.dag.schedule import DagScheduler


class Step(NamedTuple):
    """An operation of a loop's body.

    Attributes
    ----------
    op : str
        L(oad), S(tore), A(dd), M(ultiply) or D(ivide).
    needs : tuple of int
        The operations of the same iteration whose results it needs.
    level : str
        Where a load or store finds its data.
    carried : bool
        Whether it needs its own result of the iteration before.
    """

    op: str
    needs: tuple[int, ...] = ()
    level: str | None = None
    carried: bool = False


_LOADED = Step("L", level="L1")
BODIES: dict[str, tuple[Step, ...]] = {
    "sum": (_LOADED, Step("A", (0,), carried=True)),
    "dot product": (_LOADED, _LOADED, Step("M", (0, 1)), Step("A", (2,), carried=True)),
    "polynomial": (
        _LOADED,
        *(Step("M" if k % 2 else "A", (k - 1, 0)) for k in range(1, 7)),
        Step("S", (6,), "L1"),
    ),
    "normalise": (_LOADED, Step("D", (0,)), Step("A", (1,)), Step("S", (2,), "L1")),
    "list in L2": (Step("L", level="L2", carried=True), Step("A", (0,))),
    "list in memory": (Step("L", level="mem", carried=True), Step("A", (0,))),
    "triad in memory": (
        Step("L", level="mem"),
        Step("L", level="mem"),
        Step("M", (0,)),
        Step("A", (1, 2)),
        Step("S", (3,), "mem"),
    ),
    "gather from memory": (Step("L", level="mem"), Step("A", (0,))),
}
# Loops, and how the paper's core (Table I) is changed for them, so that one resource would help far more than others:
# parameter -> the values that are drawn from.
CASES: tuple[tuple[str, dict[str, tuple[float, ...]]], ...] = (
    ("sum", {"latency_A": (3, 4, 5, 6)}),
    ("dot product", {"latency_A": (4, 5, 6)}),
    ("polynomial", {"fetch": (8,), "latency_M": (4, 5)}),
    ("polynomial", {"rs": (8, 10, 12)}),
    ("polynomial", {"rob": (24, 32, 40)}),
    ("polynomial", {"fetch": (2,), "latency_M": (4, 5)}),
    ("normalise", {"latency_D": (20, 22)}),
    ("list in L2", {"latency_L2": (12, 14, 16)}),
    ("list in memory", {"latency_mem": (100, 140)}),
    ("triad in memory", {"lfb": (400,), "throughput_mem": (0.25, 0.5)}),
)
_DEEP = {"rs": 400, "rob": 800, "lb": 400, "sb": 400}  # buffers that never fill


@dataclass(frozen=True)
class Roofed:
    """What a student of unit 5 gets. All cycles are simulated.

    Attributes
    ----------
    flops, reads, writes, bytes : int
        Of exercise 1: operations of an iteration, elements read and written, and the bytes of an element.
    peak, bandwidth : float
        Of exercise 2: floating-point operations per cycle, and bytes per cycle from memory.
    core : DagCore
        Of exercise 3.
    dag : Dag
        The loop of exercise 3, as a graph.
    gathering : DagCore
        Of exercise 4, all of whose buffers but the line fill buffers (``lfb``) are deep.
    gather : Dag
        The loop of exercise 4: loads from memory that do not wait for each other.
    """

    flops: int
    reads: int
    writes: int
    bytes: int
    peak: float
    bandwidth: float
    core: DagCore
    dag: Dag
    gathering: DagCore
    gather: Dag


@cache
def loop(name: str, times: int = 240) -> Dag:
    """Return a loop of `BODIES` as a graph of its executed operations."""
    body = BODIES[name]
    size = len(body)
    ops, needs, levels = [], [], []
    for start in range(0, size * times, size):
        for k, step in enumerate(body):
            before = [start + k - size] if step.carried and start else []
            ops.append(step.op)
            needs.append([*(start + n for n in step.needs), *before])
            levels.append(step.level)
    return Dag.from_nodes(ops, needs, level=levels, name=name)


def gathering_core(latency: int, apart: int, lfb: float = 10) -> DagCore:
    """Return the paper's core with deep buffers, and a memory that gives a double every ``apart`` cycles."""
    return DagCore.sandy_bridge_erm().replace(latency_mem=latency, throughput_mem=1 / apart, lfb=lfb, **_DEEP)


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    flops, reads, writes = int(rng.integers(1, 12)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    size = int(rng.choice([4, 8]))
    traffic = size * (reads + writes)
    peak = float(rng.choice([2, 4, 8, 16]))
    beside = float(rng.choice([rng.uniform(0.2, 0.7), rng.uniform(1.5, 4.0)], p=[0.6, 0.4]))  # the other roof over peak
    bandwidth = round(beside * peak * traffic / flops, 1)
    attainable = min(peak, bandwidth * flops / traffic)
    case = int(rng.integers(len(CASES)))
    changes = {name: float(rng.choice(values)) for name, values in CASES[case][1].items()}
    apart, lines = int(rng.choice([4, 5, 8])), int(rng.integers(12, 41))
    answers = {
        "intensity": Solution(
            flops / traffic,
            tuple(
                Mistake(wrong, why)
                for wrong, why in (
                    (traffic / flops, "Those are bytes per operation. Intensity is operations per byte."),
                    (flops / (size * reads), "What is written goes through the same channel."),
                    (flops / (reads + writes), "Those are operations per element. How many bytes is one?"),
                )
                if abs(wrong * traffic / flops - 1) > 0.03
            ),
        ),
        "attainable": Solution(
            attainable,
            (
                Mistake(
                    max(peak, bandwidth * flops / traffic), "Both roofs hold. Which of them is lower at this intensity?"
                ),
            ),
        ),
        "bottleneck": _bottleneck(CASES[case][0], tuple(changes.items())),
        "buffers": Solution(
            lines,
            (
                Mistake(lines * apart, "So many if a line came every cycle. How often does one come?"),
                Mistake(10, "That is the core as it is. Does a larger number help?"),
            ),
        ),
    }
    core = DagCore.sandy_bridge_erm().replace(**_deep_for(changes))
    gathering = gathering_core(lines * apart, apart)
    data = Roofed(
        flops,
        reads,
        writes,
        size,
        peak,
        bandwidth,
        core,
        loop(CASES[case][0]),
        gathering,
        loop("gather from memory", 600),
    )
    return Drawn(data, answers)


def _deep_for(changes: dict[str, float]) -> dict[str, float]:
    """Return the changes, and deep buffers where the line fill buffers are to be no limit."""
    return changes | _DEEP if "lfb" in changes else changes


@cache
def _bottleneck(name: str, changes: tuple[tuple[str, float], ...]) -> Solution:
    """Return the resource that gains most, and what the classical roofline would say instead."""
    scheduler = DagScheduler(DagCore.sandy_bridge_erm().replace(**_deep_for(dict(changes))))
    schedule = scheduler.run(loop(name))
    found = relax(loop(name), scheduler, schedule).bottleneck
    lowest = next(roof for roof in schedule.roofline().roofs if roof.kind == "throughput")
    classical = {"comp": "floating-point units", "D": "divider"}.get(lowest.of[0])
    classical = classical or f"bandwidth of {NAMES[lowest.of[0]]}"
    wrong = [(classical, "That is the lowest classical roof. Is the performance near it?")]
    if classical == found:
        wrong = [("latency of L1", "A roof that hits the point is a candidate. Make it better, and see.")]
    return Solution(found, tuple(Mistake(*one) for one in wrong))


UNIT = Unit(
    "unit5",
    "Rooflines",
    "unit5_rooflines.ipynb",
    "A program is bound either by memory bandwidth or by computation: the roofline says by which.",
    (
        Exercise(
            "intensity",
            2,
            "floating-point operations per byte of the loop, a number",
            "The operations of an iteration over all bytes that it reads and writes.",
        ),
        Exercise(
            "attainable",
            2,
            "operations per cycle that the classical roofline allows the loop, a number",
            "The lower of two roofs: the peak, and the bandwidth times the intensity.",
        ),
        Exercise(
            "bottleneck",
            3,
            "the resource that gains most if it is twice as good, as pk.relax names it",
            "Ask pk.relax(dag, pk.DagScheduler(core)); the names are those of its table.",
        ),
        Exercise(
            "buffers",
            3,
            "the fewest line fill buffers with which more of them no longer help, a whole number",
            "Little's law: what is under way at once is the latency times how much begins per cycle.",
            tolerance=0.05,
        ),
    ),
    _draw,
)
