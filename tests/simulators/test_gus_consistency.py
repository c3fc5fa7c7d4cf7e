"""Consistency of the sensitivity analysis (Gus, section 4.4), on the optimisations of the shipped traces.

"For a benchmark B and its optimized version V (i.e., V has a smaller execution time), then the bottlenecks of B
discovered by the sensitivity analysis should appear equally or less stressed in V than in B." The bottleneck of B is
the resource with the largest speedup s at weight 2; it is stressed by s (section 3.2). The other reading, the cycles
that doubling it would win, f(c) - f(2 c), is tested as well: a program that got faster everywhere but at its bottleneck
has a larger s without losing more to it.

Pairs that do not hold are named below with their figures and the reason, and have to go on failing: a pair that begins
to hold, or a new one that does not, fails the test.
"""

import functools

import pytest

from perfkit import datasets
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.sensitivity import sensitivity

SIZES = ("", "-small")
PAIRS = [(f"correlation-v{k}{size}", f"correlation-v{k + 1}{size}") for size in SIZES for k in range(6)]
PAIRS += [("gemm-scalar", "gemm-avx2"), ("gemm-avx2", "gemm-avx512")]
CORES = ("skylake_x", "zen4", "zen5")
# Version 5 spills registers: Table 2 prints 52.6 % of peak for it, after 81.2 %. On Zen 5, 4 is no faster than 3;
# on Zen 4 it is not for the small matrices.
SLOWER = {core: ["correlation-v5", "correlation-v5-small"] for core in CORES}
SLOWER["zen5"] = ["correlation-v4", "correlation-v5", "correlation-v4-small", "correlation-v5-small"]
SLOWER["zen4"] = ["correlation-v5", "correlation-v4-small", "correlation-v5-small"]

SAME_CHAIN = (
    "vectorising leaves the chain of the reduction and takes the work beside it away: s grows, its cycles do not"
)
NO_SINGLE = "no single resource holds the parent back, so its largest s is a small fixed cost, whose share grows"
TOGETHER = "the chain and the work beside it hold the parent back together, the chain alone the version"

# (core, parent): bottleneck, its s in parent and version, and why.
GREW = {
    ("skylake_x", "correlation-v0"): ("instruction_latency", 0.692, 0.726, SAME_CHAIN),
    ("zen4", "correlation-v0"): ("instruction_latency", 0.230, 0.351, SAME_CHAIN),
    ("zen4", "correlation-v0-small"): ("instruction_latency", 0.093, 0.786, TOGETHER),
    ("skylake_x", "correlation-v2"): ("misprediction_penalty", 0.003, 0.016, NO_SINGLE),
    ("skylake_x", "correlation-v2-small"): ("front_end", 0.012, 0.051, NO_SINGLE),
    ("zen4", "correlation-v2"): ("L2_bandwidth", 0.003, 0.322, NO_SINGLE),
    ("zen4", "correlation-v2-small"): ("misprediction_penalty", 0.009, 0.018, NO_SINGLE),
    ("zen4", "gemm-avx2"): (
        "Load",
        0.040,
        0.040,
        "as many bytes a cycle with either width; fewer cycles of other work",
    ),
}
# Of these, where the bottleneck costs as many cycles, or fewer: the same adds, or the same mispredicted branches.
COSTS_MORE = {key for key, (*_, why) in GREW.items() if why != SAME_CHAIN} - {("zen4", "correlation-v2-small")}


@functools.cache
def speedups(core: str, trace: str) -> tuple[float, dict[str, float]]:
    """Simulated cycles, and s of each resource at weight 2, with warm caches."""
    gus = Gus(Microarchitecture.load(core), warm=True)
    found = sensitivity(gus, datasets.load(f"traces/{trace}"), (2.0,))
    return found.cycles, {name: float(s) for (name,), (s,) in zip(found.resources, found.speedup, strict=True)}


def optimised(core: str) -> list[tuple[str, str]]:
    """The pairs whose version is faster than its parent."""
    return [(b, v) for b, v in PAIRS if speedups(core, v)[0] < speedups(core, b)[0]]


def bottleneck(core: str, parent: str, version: str) -> tuple[str, float, float, float, float]:
    """The parent's bottleneck, its s in both, and the cycles that doubling it wins in both."""
    (before, old), (after, new) = speedups(core, parent), speedups(core, version)
    name = max(old, key=lambda resource: old[resource])
    return name, old[name], new[name], before * old[name] / (1 + old[name]), after * new[name] / (1 + new[name])


@pytest.mark.parametrize("core", CORES)
def test_every_step_but_the_papers_own_mistake_is_an_optimisation(core):
    assert [v for b, v in PAIRS if (b, v) not in optimised(core)] == SLOWER[core]


@pytest.mark.parametrize("core", CORES)
def test_the_parents_bottleneck_is_not_stressed_more(core):
    found = {(core, b): bottleneck(core, b, v) for b, v in optimised(core)}
    grew = {key: values for key, values in found.items() if values[2] > values[1]}
    assert grew.keys() == {key for key in GREW if key[0] == core}
    for key, (name, old, new, *_) in grew.items():
        assert (name, old, new) == (GREW[key][0], *(pytest.approx(s, abs=0.01) for s in GREW[key][1:3])), key


@pytest.mark.parametrize("core", CORES)
def test_the_parents_bottleneck_does_not_cost_more_cycles(core):
    found = {(core, b): bottleneck(core, b, v) for b, v in optimised(core)}
    assert {key for key, (*_, old, new) in found.items() if new > old} == {k for k in COSTS_MORE if k[0] == core}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("size", SIZES)
def test_what_was_aimed_at_a_large_bottleneck_relieves_it(core, size):
    """Register tiling (v1 to v2) breaks the chain of the reduction, and not spilling (v5 to v6) that of the spills."""
    for step in (1, 5):
        _, old, new, *_ = bottleneck(core, f"correlation-v{step}{size}", f"correlation-v{step + 1}{size}")
        # Zen 5's buffers hold rows of the small matrices enough that their chains overlap.
        assert old > (0.08 if (core, size) == ("zen5", "-small") else 0.15)
        assert new < 0.1 * old
