"""SPIRE's speed, beside a plain networkx version measured in the same run; and the promised limits.

Run it: python -m pytest tests/benchmarks/test_bench_spire.py -s
"""

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.spire.right import right_chain
from tests.fitters import spire_oracle as oracle

EVENTS, SAMPLES = 424, 3000  # the paper's: 424 events, about 3000 samples each


@pytest.fixture(scope="module")
def papers_size():
    """Random samples with as many events and samples as the paper's training data."""
    rng = np.random.default_rng(0)
    n = EVENTS * SAMPLES
    cost = np.tile(rng.lognormal(2, 2, EVENTS), SAMPLES)
    per_event = rng.lognormal(3, 2, n)
    throughput = 1 / (0.25 + cost / per_event + rng.exponential(0.5, n))
    cycles = np.full(n, 4e9)
    work = np.floor(throughput * cycles)
    codes = np.tile(np.arange(EVENTS), SAMPLES)
    names = [f"event-{i:03d}" for i in range(EVENTS)]
    frame = pd.DataFrame(
        {
            "event": pd.Categorical.from_codes(codes, names),
            "time": cycles,
            "work": work,
            "count": np.floor(work / per_event),
        }
    )
    return pk.Samples.from_frame(frame, kind="generated")


def convex_front(n):
    at = np.geomspace(1000.0, 1.0, n)
    return at, 1000.0 / at


def once(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_fitting_as_many_samples_as_the_paper(benchmark, papers_size):
    pk.Spire().fit(papers_size)  # compiled, or loaded from numba's cache
    model = benchmark.pedantic(pk.Spire().fit, (papers_size,), rounds=7)
    assert len(model.rooflines) == EVENTS
    best = benchmark.stats.stats.min
    tracemalloc.start()
    pk.Spire().fit(papers_size)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(f"\nfit of {EVENTS} events x {SAMPLES} samples: {best:.3f} s (limit 0.2 s), {peak:.0f} MB beside the samples")
    assert best < 0.2


def test_ranking_a_workload(benchmark, papers_size):
    model = pk.Spire().fit(papers_size)
    table = papers_size.table
    part = papers_size.select(mask=(table["interval"] < 300).to_numpy())
    model.rank(part)
    benchmark.pedantic(model.rank, (part,), {"bootstrap": 0}, rounds=5)
    plain = benchmark.stats.stats.min
    drawn = min(once(lambda: model.rank(part)) for _ in range(3))
    print(
        f"\nrank of {EVENTS} events x 300 samples: {plain * 1e3:.0f} ms, with 200 bootstrap draws {drawn * 1e3:.0f} ms"
    )


def test_a_convex_front_of_400_points(benchmark):
    at, height = convex_front(400)
    right_chain(at, height)
    benchmark.pedantic(right_chain, (at, height), rounds=7)
    best = benchmark.stats.stats.min
    print(f"\nconvex front of 400 points: {best * 1e3:.2f} ms (limit 50 ms)")
    assert best < 0.05


@pytest.mark.parametrize("n", [15, 30, oracle.MOST_FOR_THE_GRAPH])
def test_the_front_beside_the_papers_graph(benchmark, n):
    at, height = convex_front(n)
    front = list(zip(at.tolist(), height.tolist(), strict=True))
    right_chain(at, height)
    benchmark.pedantic(right_chain, (at, height), rounds=20)
    ours = benchmark.stats.stats.min
    theirs = once(lambda: oracle.graph_optimum(front))
    assert right_chain(at, height)[2] == pytest.approx(oracle.graph_optimum(front)[0], abs=1e-9)
    print(f"\nfront of {n} points: {ours * 1e6:.0f} us, networkx {theirs * 1e3:.0f} ms: {theirs / ours:,.0f} times")


def test_the_whole_fit_beside_plain_python(benchmark, papers_size):
    """On one event in 53, so that the plain version ends soon; the ratio is of the same eight events."""
    few = papers_size.select(events=papers_size.events[::53])
    by_event = {
        event: list(zip(t["work"] / t["count"], t["work"] / t["time"], strict=True))
        for event, t in few.table[few.table["count"] > 0].groupby("event", observed=True)
    }
    pk.Spire().fit(few)
    benchmark.pedantic(pk.Spire().fit, (few,), rounds=7)
    ours = benchmark.stats.stats.min
    theirs = once(lambda: [oracle.fit(listed) for listed in by_event.values()])
    print(
        f"\n{len(by_event)} events x {SAMPLES}: {ours * 1e3:.1f} ms, plain {theirs:.2f} s: {theirs / ours:,.0f} times"
    )
