"""What the extended roofline's paper states about its kernels, beside what this kit finds, at the paper's sizes.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, section V, on its machine (Table I). Flops per cycle of the kernels
are in the paper only as pictures (Fig. 6), from which they were read; of the triple loop the figures of the first
program that followed the paper's rules stand in for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.dag.paper_kernels import kernel, kmeans
from perfkit.errors import of_extra
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.collectors.dag.kernel_trace import KernelTrace
    from perfkit.simulators.dag.measures import Schedule

_CLUSTERS = 1000
_NEAR = 0.06  # of a published point: the pictures can be read to about two percent
# Flops per cycle, read from the curves of Fig. 6, and (the triple loop) of the first program that followed the paper.
_FIGURES = {
    "mmm_triple": {100: 1.06, 150: 0.88, 200: 0.80, 300: 0.76},
    "mmm_sixfold": {500: 1.018},
    "mvm": {500: 0.697, 1500: 0.676, 2500: 0.627},
    "stencil": {22: 0.3615},
}
_FFT_FIGURES = {2**14: 0.595}
# What the paper says of the same as a statement, in other places.
_REACHED = "section V, after Fig. 9(b): roofs reach the point with the cycles of latencies and stalls, as memory's does"
_INTERSECTION = "section V, after Fig. 9(b): the point is on an intersection in both cases, of computation and memory"
_COMBINATION = "section III-C, of Fig. 10: the combination of L1 and computation latencies"


@dataclass(frozen=True)
class Statement:
    """A statement and what was found.

    Parameters
    ----------
    of
        Kernel, size and caches.
    source
        Where it is stated.
    stated, found
        In words or figures.
    agrees
        Whether the two agree.
    part
        "engine": follows from the scheduler alone; "kernel": depends on how the paper's kernel was written, too.
    elsewhere
        What the paper says of the same elsewhere, where that is another thing and agrees with what was found; else "".
    """

    of: str
    source: str
    stated: str
    found: str
    agrees: bool
    part: str = "engine"
    elsewhere: str = ""


def paper_statements(progress: Callable[[str], None] | None = None) -> pd.DataFrame:
    """Schedule the paper's kernels at its sizes (over a billion nodes, about a minute) and check what it says.

    Parameters
    ----------
    progress
        Called with the name of each kernel before it is scheduled.

    Returns
    -------
    DataFrame with a row per `Statement`.
    """
    pd = of_extra("pandas")

    return pd.DataFrame([vars(s) for s in _statements(progress or (lambda _: None))])


def _statements(progress: Callable[[str], None]) -> Iterator[Statement]:
    def run(source: KernelTrace, core: DagCore | None = None, **switches: Any) -> Schedule:
        progress(source.name)
        return DagScheduler(core or DagCore.sandy_bridge_erm(), record=False, **switches).run(source)

    yield from _reduction(run)
    yield from _figures(run)
    yield from _transforms(run)
    yield from _products(run)
    stencil = run(kernel("stencil").trace(22))
    yield _hits(
        "stencil, 22^3 points, warm", "Fig. 12", stencil, "ROB stalls; memory bandwidth", {"ROB stall", "memory"}
    )
    points = np.random.default_rng(0).random((10_000, 3))
    from perfkit.collectors.dag.numba_kernel import trace_numba

    means = points[:_CLUSTERS].copy()
    arguments = points, means, np.zeros_like(means), np.zeros(_CLUSTERS)
    clusters = run(trace_numba(kmeans, *arguments, name="kmeans(10000, 1000)"))
    of = "k-means, 10^4 points, 1000 means, warm"
    yield _hits(of, "Fig. 13", clusters, "computation latency, L1", {"computation latency", "L1 latency"})


def _reduction(run: Callable[..., Schedule]) -> Iterator[Statement]:
    of = "reduction, 5 x 10^6, cold"
    source = kernel("reduction").trace(5_000_000)
    full, small = run(source, warm=False), run(source, warm=False, core=DagCore.sandy_bridge_erm().replace(rs=20))
    yield _equal(of, "Fig. 9(a)", "flops/byte", 1 / 8, full.intensity, 1e-3)
    yield _equal(of, "Fig. 9(a)", "flops/cycle", 1 / 3, full.performance, 1e-3)
    stated = "computation latency, RS stall, memory bandwidth"
    wanted = {"computation latency", "RS stall"}
    yield _hits(of, "Fig. 9(a)", full, stated, {*wanted, "memory bandwidth"}, elsewhere=(_REACHED, {*wanted, "memory"}))
    drop = 1 - small.performance / full.performance
    yield Statement(f"{of}, RS 20", "Fig. 9(b)", "drops by 40 %", f"drops by {drop:.0%}", 0.35 < drop < 0.45)
    stated, wanted = "RS the only bottleneck", {"RS stall"}
    elsewhere = _INTERSECTION, {"RS stall", "memory latency"}
    yield _hits(f"{of}, RS 20", "Fig. 9(b)", small, stated, wanted, {"computation", "memory"}, elsewhere)


def _figures(run: Callable[..., Schedule]) -> Iterator[Statement]:
    for name, sizes in _FIGURES.items():
        for size, stated in sizes.items():
            found = run(kernel(name).trace(size)).performance
            origin = "first program" if name == "mmm_triple" else "Fig. 6"
            yield _equal(f"{name}, {size}, warm", origin, "flops/cycle", stated, found, _NEAR * stated, "kernel")
    for size, stated in _FFT_FIGURES.items():
        found = run(kernel("fft").trace(size)).performance
        of = f"fft, {size}, warm, hits wait for their line"
        yield _equal(of, "Fig. 6", "flops/cycle", stated, found, _NEAR * stated, "kernel")


def _transforms(run: Callable[..., Schedule]) -> Iterator[Statement]:
    small, large = run(kernel("fft").trace(2**10)), run(kernel("fft").trace(2**20))
    of = "fft, 2^{}, warm"
    stated, wanted = "L1 latency and bandwidth", {"L1 latency", "L1 bandwidth"}
    elsewhere = _COMBINATION, {"L1 latency", "computation latency"}
    yield _hits(of.format(10), "Fig. 10(a)", small, stated, wanted, elsewhere=elsewhere)
    roofs = len(small.roofline().roofs), len(large.roofline().roofs)
    stated = "more roofs than for 2^10"
    yield Statement(of.format(20), "Fig. 10(b)", stated, f"{roofs[1]} against {roofs[0]}", roofs[1] > roofs[0])
    stalls = large.stalls
    most = max(stalls, key=lambda name: stalls[name])
    shares = ", ".join(f"{name} {100 * cycles / large.cycles:.2g}%" for name, cycles in stalls.items())
    yield Statement(of.format(20), "Fig. 10(b)", "all buffers stall", shares, all(stalls.values()))
    yield Statement(of.format(20), "Fig. 10(b)", "the ROB stalls most", f"{most} stalls most", most == "ROB")


def _products(run: Callable[..., Schedule]) -> Iterator[Statement]:
    triple, sixfold = (run(kernel(f"mmm_{kind}").trace(500)) for kind in ("triple", "sixfold"))
    common = {"computation latency", "ROB stall"}
    stated = "ROB stall, computation latency, L1 and L2 latency; not memory"
    yield _hits(
        "mmm_triple, 500, warm", "Fig. 11(a)", triple, stated, {*common, "L1 latency", "L2 latency"}, {"memory"}
    )
    stated = "ROB stall, computation latency, L1 latency; not L2, not memory"
    yield _hits("mmm_sixfold, 500, warm", "Fig. 11(b)", sixfold, stated, {*common, "L1 latency"}, {"L2", "memory"})
    of, rates = "mmm, 500, warm", (sixfold.performance, triple.performance)
    found = "{:.2f} against {:.2f} flops/cycle".format(*rates)
    yield Statement(of, "Fig. 11", "six loops are faster", found, rates[0] > rates[1])


def _equal(
    of: str, source: str, what: str, stated: float, found: float, tolerance: float, part: str = "engine"
) -> Statement:
    agrees = abs(found - stated) <= tolerance
    return Statement(of, source, f"{stated:.3g} {what}", f"{found:.3g} {what}", agrees, part)


def _hits(
    of: str,
    source: str,
    schedule: Schedule,
    stated: str,
    wanted: Iterable[str],
    unwanted: Iterable[str] = (),
    elsewhere: tuple[str, Iterable[str]] = ("", ()),
) -> Statement:
    """Return whether roofs whose labels begin with these words hit the point, and those with others do not.

    `elsewhere` is what the paper says in another place, and the words by which that agrees.
    """
    labels = [roof.label for roof in schedule.roofline().hits if roof.kind != "overlap"]

    def hit(words: str) -> bool:
        return any(label.startswith(words) for label in labels)

    agrees = all(map(hit, wanted)) and not any(map(hit, unwanted))
    words, others = elsewhere
    told = words if not agrees and all(map(hit, others)) else ""
    return Statement(of, source, stated, ", ".join(labels), agrees, elsewhere=told)
