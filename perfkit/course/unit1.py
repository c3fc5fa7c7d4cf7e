"""Unit 1, what bounds code: chains of dependences, and why the busiest part of a core need not be in the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from perfkit import datasets
from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit
from perfkit.dag.graph import Dag
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.simulators.gus.gus import Gus

if TYPE_CHECKING:
    from perfkit.trace.trace import Trace

TERMS = 960  # additions of a sum: so many that its start and end hardly count
MOST = 24  # accumulators tried
# Shipped traces of which one resource helps far more than any other, by that resource; mostly, another one is busier.
TRACES = (
    ("fig1a", "latency-multiply", "correlation-v1-small", "cholesky-scalar"),  # latencies of instructions
    ("pointer-chase",),
    ("store-forward",),
    ("load-bound", "jacobi-2d-avx2"),  # load ports
    ("divider",),
)


@dataclass(frozen=True)
class WhatBounds:
    """What a student of unit 1 gets.

    Attributes
    ----------
    latency : int
        Cycles from the start of an addition to its result, on the student's core.
    adders : int
        Additions that may begin in one cycle.
    accumulators : int
        Over how many partial sums the student's loop spreads its additions.
    core : DagCore
        That core, for `perfkit.DagScheduler`.
    gus : Gus
        A Skylake-X with warm caches, for the trace.
    trace : Trace
        Executed instructions of a kernel.
    """

    latency: int
    adders: int
    accumulators: int
    core: DagCore
    gus: Gus
    trace: Trace


def sum_of(accumulators: int, terms: int = TERMS) -> Dag:
    """Return a sum as a graph: each addition needs the one ``accumulators`` before it, its partial sum so far."""
    needs = [[i - accumulators] if i >= accumulators else [] for i in range(terms)]
    return Dag.from_nodes("A" * terms, needs, name=f"a sum over {accumulators} accumulators")


@cache
def core_with(latency: int, adders: int) -> DagCore:
    """Return a core whose additions take so many cycles, and on which so many may begin in one cycle."""
    return DagCore.load("skylake_x").replace(latency_A=latency, throughput_A=adders)


def cycles_per_addition(core: DagCore, accumulators: int) -> float:
    """Return the simulated cycles per addition of a sum over so many accumulators."""
    return DagScheduler(core, record=False).run(sum_of(accumulators)).cycles / TERMS


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    latency, adders = int(rng.integers(3, 8)), 2
    accumulators = int(rng.integers(2, latency + 1))
    core = core_with(latency, adders)
    alike = TRACES[rng.integers(len(TRACES))]
    name = alike[rng.integers(len(alike))]
    answers = {
        "one chain": Solution(
            cycles_per_addition(core, 1),
            (Mistake(1 / adders, "So fast if no addition had to wait. What does each one wait for?"),),
        ),
        "several chains": Solution(
            cycles_per_addition(core, accumulators),
            (
                Mistake(latency, "That is one chain. How many are under way at once here?"),
                Mistake(1 / adders, "The adders would allow that; are there enough independent additions for them?"),
            ),
        ),
        "enough chains": Solution(
            _enough(latency, adders),
            (
                Mistake(latency, "That fills one adder. How many are there?"),
                Mistake(adders, "So many can begin in one cycle. And in the cycles until the first one is done?"),
            ),
        ),
        "bottleneck": _bottleneck(name),
    }
    trace = datasets.load(f"traces/{name}")
    return Drawn(WhatBounds(latency, adders, accumulators, core, _gus(), trace), answers)


@cache
def _enough(latency: int, adders: int) -> int:
    """Return the fewest accumulators that are within 3 % of the fastest tried."""
    cycles = {n: cycles_per_addition(core_with(latency, adders), n) for n in range(1, MOST + 1)}
    return next(n for n, found in cycles.items() if found <= 1.03 * min(cycles.values()))


@cache
def _gus() -> Gus:
    return Gus("skylake_x", warm=True)


@cache
def _bottleneck(name: str) -> Solution:
    run = _gus().run(datasets.load(f"traces/{name}"))
    found, busiest = run.sensitivity((2.0,)).bottleneck, str(run.occupancy().index[0])
    why = "It is busy, but is anything waiting for it? Make it better, and see."
    return Solution(found, () if found == busiest else (Mistake(busiest, why),))


UNIT = Unit(
    "unit1",
    "What bounds code?",
    "unit1_what_bounds_code.ipynb",
    "The part of the processor that is busiest, or the instruction that touches memory, is what makes code slow.",
    (
        Exercise(
            "one chain",
            2,
            "cycles per addition of a sum with one accumulator, a number",
            "Draw two additions that follow each other: when can the second one begin?",
        ),
        Exercise(
            "several chains",
            2,
            "cycles per addition with the accumulators of your loop, a number",
            "In the time of one latency, every chain makes one addition.",
        ),
        Exercise(
            "enough chains",
            3,
            "the fewest accumulators with which more of them no longer help, a whole number",
            "Every adder wants a new addition in each cycle of the latency. A loop over accumulators tells, too.",
            tolerance=0.0,
        ),
        Exercise(
            "bottleneck",
            3,
            "the name of the resource that helps most if it is twice as good",
            "Ask the run for its sensitivity; the names are those of its table.",
        ),
    ),
    _draw,
)
