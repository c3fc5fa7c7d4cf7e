"""Unit 4, simulation and what-if: which resource would help, what binds next, and which instruction is responsible."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from perfkit import datasets
from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit
from perfkit.simulators.gus.causality import Causality
from perfkit.simulators.gus.gus import Gus, GusResult

# Core and shipped trace, where one resource helps most by far and another one binds next; by what then binds.
NEXT = (
    (
        ("ice_lake", "cholesky-scalar"),
        ("ice_lake", "correlation-v1-small"),
        ("golden_cove", "correlation-v0-small"),
        ("golden_cove", "load-bound"),
        ("golden_cove", "store-forward"),
        ("zen3", "gemm-scalar"),
    ),  # the front end
    (("golden_cove", "floyd-warshall-avx2"), ("golden_cove", "gemm-scalar")),  # retirement
    (("skylake_x", "throughput-add"),),  # latencies of instructions
    (("ice_lake", "jacobi-2d-avx2"), ("golden_cove", "jacobi-2d-avx2")),  # arithmetic
    (("ice_lake", "gemm-scalar"), ("ice_lake", "branchy")),  # ports of integer work
    (("skylake_x", "jacobi-2d-avx2"), ("ice_lake", "floyd-warshall-avx2")),  # ports of loads
    (("zen4", "correlation-v0"), ("zen4", "correlation-v1")),  # the bandwidth of L2
)
# Width of a Skylake-X's front end and retirement, and trace, where both together help far more than each alone.
TOGETHER = (
    (3, "floyd-warshall-avx2"),
    (3, "gemm-scalar"),
    (3, "masked-update-avx512"),
    (3, "correlation-v3-small"),
    (3, "correlation-v4-small"),
    (3, "correlation-v6-small"),
    (3, "jacobi-1d-avx2"),
    (4, "floyd-warshall-avx2"),
    (4, "gemm-scalar"),
    (4, "correlation-v3-small"),
)
# Core and trace, where the instruction that causes most is not the one that is executed most.
RESPONSIBLE = (
    ("skylake_x", "latency-multiply"),
    ("skylake_x", "gather-avx2"),
    ("skylake_x", "triad"),
    ("skylake_x", "correlation-v0-small"),
    ("skylake_x", "correlation-v5-small"),
    ("ice_lake", "triad"),
    ("ice_lake", "correlation-v1-small"),
    ("golden_cove", "correlation-v5-small"),
    ("ice_lake", "correlation-v0-small"),
    ("zen3", "correlation-v0-small"),
    ("zen3", "correlation-v1-small"),
    ("zen4", "correlation-v0-small"),
)
PAIR = ("front_end", "retire")


@dataclass(frozen=True)
class Simulated:
    """What a student of unit 4 gets: three kernels, each simulated on a core. Every cycle is simulated.

    Attributes
    ----------
    run : GusResult
        Of exercises 1 and 2.
    narrow : GusResult
        Of exercise 3, on a core whose front end and retirement are equally wide.
    slow : GusResult
        Of exercise 4.
    """

    run: GusResult
    narrow: GusResult
    slow: GusResult


def by_mnemonic(causes: Causality) -> "dict[str, float]":
    """Return the share of the causes of each mnemonic (such as ``vaddpd``), the largest first."""
    table = causes.to_frame()
    shares = table["share"].groupby(table["text"].str.split().str[0]).sum().sort_values(ascending=False)
    return {str(name): float(share) for name, share in shares.items()}


@cache
def simulated(core: str, trace: str, width: int = 0) -> GusResult:
    """Return the run of a shipped trace on a core with warm caches; ``width``: another front end and retirement."""
    machine = Gus(core).core
    for resource in PAIR if width else ():
        machine = machine.replaced(resource, width, "an exercise of the course")
    return Gus(machine, warm=True).run(datasets.load(f"traces/{trace}"))


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    alike = NEXT[rng.integers(len(NEXT))]
    first = alike[rng.integers(len(alike))]
    width, together = TOGETHER[rng.integers(len(TOGETHER))]
    slow = RESPONSIBLE[rng.integers(len(RESPONSIBLE))]
    answers = _next(*first) | {"both": _both(width, together), "responsible": _responsible(*slow)}
    return Drawn(Simulated(simulated(*first), simulated("skylake_x", together, width), simulated(*slow)), answers)


@cache
def _next(core: str, trace: str) -> dict[str, Solution]:
    """Return what the bottleneck, twice as good, gives, and what binds then."""
    run = simulated(core, trace)
    table = run.sensitivity((2.0,)).to_frame()
    (bottleneck, second), gain = table["resource"].iloc[:2], float(table["x2"].iloc[0])
    then = run.what_if({bottleneck: 2.0}).bottleneck
    wrong = [(bottleneck, "That one was doubled already. What binds when it no longer does?")]
    if second != then:
        wrong.append((second, "Second in the ranking of the core as it was. Rank again, on the changed core."))
    return {
        "faster": Solution(
            1.0 + gain,
            (
                Mistake(gain, "The table says what is gained: 0 is no gain. Asked is how many times as fast."),
                *([Mistake(2.0, "Twice as good a resource is not twice as fast a program.")] if gain < 0.95 else []),
            ),
        ),
        "binds next": Solution(then, tuple(Mistake(name, why) for name, why in wrong)),
    }


@cache
def _both(width: int, trace: str) -> Solution:
    run = simulated("skylake_x", trace, width)
    alone = run.sensitivity((2.0,), PAIR).speedup[:, 0]
    both = float(run.sensitivity((2.0,), PAIR, pairs=True).speedup[0, 0])
    return Solution(
        1.0 + both,
        (
            Mistake(float(np.prod(1.0 + alone)), "Each alone was waited for by the other. Double both in one run."),
            Mistake(both, "Asked is how many times as fast, and not what is gained."),
        ),
    )


@cache
def _responsible(core: str, trace: str) -> Solution:
    causes = simulated(core, trace).causality()
    table = causes.to_frame()
    often = table["executions"].groupby(table["text"].str.split().str[0]).sum().idxmax()
    why = "It is executed most often. Does anything wait for it?"
    return Solution(next(iter(by_mnemonic(causes))), (Mistake(str(often), why),))


UNIT = Unit(
    "unit4",
    "Simulation and what-if",
    "unit4_what_if.ipynb",
    "What does not help alone does not help; and what is executed most often is responsible.",
    (
        Exercise(
            "faster",
            2,
            "how many times as fast the run is with its bottleneck twice as good, a number",
            "The first row of the sensitivity's table: 1 plus the speedup.",
            tolerance=0.01,
        ),
        Exercise(
            "binds next",
            3,
            "the name of the resource that binds when the bottleneck is twice as good",
            "Ask what_if for the changed core, and look at the first row of its table.",
        ),
        Exercise(
            "both",
            3,
            "how many times as fast with front end and retirement twice as wide, a number",
            "sensitivity(..., pairs=True) doubles both in one run.",
            tolerance=0.01,
        ),
        Exercise(
            "responsible",
            2,
            "the mnemonic of the instruction with the largest share of the causes, such as vaddpd",
            "Ask the run for its causality, and sum the shares by mnemonic.",
        ),
    ),
    _draw,
)
