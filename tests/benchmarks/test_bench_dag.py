"""How fast DAGs are traced, scheduled and redrawn, beside the same kernel run natively.

./kit bench tests/benchmarks/test_bench_dag.py
"""

import resource
import time

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.paper_kernels import kernel

N = 200
NODES = 4 * N**3 + 2 * N**2


@pytest.fixture(scope="module")
def product():
    source = kernel("mmm_triple").trace(N)
    source.seconds()
    source.replay(lambda records, length: None)
    # Numba's cache is filled by the first run.
    pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False).run(kernel("mmm_triple").trace(4))
    return source


def processor_time(function):
    begin = time.thread_time()
    function()
    return time.thread_time() - begin


def test_tracing_50_million_nodes_a_second(product):
    seconds = min(processor_time(lambda: product.replay(lambda records, length: None)) for _ in range(5))
    native = min(product.seconds(5) for _ in range(3))
    rate = NODES / seconds / 1e6
    print(f"\ntracing: {rate:.0f} M nodes/s, {seconds / native:.1f} x native; wanted at least 50 M nodes/s")
    assert rate > 50


def test_scheduling_10_million_nodes_a_second(product):
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    seconds = native = float("inf")
    # Both by turns, and the best of each: what else runs on the machine only adds.
    for _ in range(5):
        native = min(native, *(product.seconds(20) for _ in range(3)))
        seconds = min(seconds, processor_time(lambda: scheduler.run(product)))
    rate = NODES / seconds / 1e6
    print(
        f"\nscheduling with all overlap data, tracing and a warming run included: {rate:.1f} M nodes/s (wanted 10), "
        f"{seconds / native:.0f} x native {native * 1e3:.2f} ms (wanted at most 150; the paper: 10,000)"
    )
    assert rate > 10
    assert seconds / native <= 150


def test_100_million_nodes_within_4_gb():
    source = kernel("mmm_triple").trace(293)
    run = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False).run(source)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{run.nodes.sum() / 1e6:.0f} M nodes streamed; this process' peak memory {peak:.2f} GB (wanted 4)")
    assert run.nodes.sum() > 100e6
    assert peak < 4


def test_a_slider_redraws_100_thousand_nodes_within_200_ms():
    from perfkit_widgets import RooflineView

    dag = kernel("mmm_triple").trace(29).dag()
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    view = RooflineView(scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler), {"rs": [20, 54]})
    taken = []
    for k in range(9):
        begin = time.thread_time()
        view.values = {"rs": (20, 54)[k % 2]}
        taken.append(time.thread_time() - begin)
    median = 1e3 * float(np.median(taken))
    print(f"\nslider: {len(dag)} nodes scheduled and redrawn in {median:.0f} ms on this side (wanted 200)")
    assert median < 200


def test_the_papers_statements_at_the_papers_sizes():
    from perfkit.scoring.dag_paper import paper_statements

    table = paper_statements()
    with_ours = table.assign(agrees=table["agrees"].map({True: "agrees", False: "DIFFERS"}))
    print("\n" + with_ours.to_string(index=False, max_colwidth=90))
    differs = set(table[~table["agrees"]]["stated"])
    # Known, and explained in docs/extended-roofline.md; nothing else may differ.
    assert differs <= {
        "computation latency, RS stall, memory bandwidth",
        "RS the only bottleneck",
        "0.63 flops/cycle",
        "L1 latency and bandwidth",
        "the ROB stalls most",
        "ROB stall, computation latency, L1 and L2 latency; not memory",
        "ROB stalls; memory bandwidth",
    }
    assert len(table) == 24


GATHERS = """
double gather(const double *x, const long *at, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += x[at[i]];
    return s;
}
"""


@pytest.mark.parametrize("kib", [128, 8 << 10, 128 << 10])
def test_random_gathers_beside_the_same_accesses_in_order(kib):
    """What random accesses cost the scheduler: each looks up its line, in a table as large as the data's lines.

    The baseline is the same kernel over the same array with indices in order, in the same run by turns: what differs is
    the machine's own misses and the search for a line's place in the order of use.
    """
    elements = kib * 1024 // 8
    gathers = 1_000_000
    rng = np.random.default_rng(0)
    data = np.ones(elements)
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    orders = {"random": rng.integers(0, elements, gathers), "in order": np.arange(gathers) % elements}
    sources = {name: pk.trace_c(GATHERS, "gather", data, at, gathers) for name, at in orders.items()}
    taken = dict.fromkeys(sources, float("inf"))
    for _ in range(3):
        for name, source in sources.items():
            taken[name] = min(taken[name], processor_time(lambda source=source: scheduler.run(source)))
    rates = {name: 2 * gathers / seconds / 1e6 for name, seconds in taken.items()}
    ratio = rates["in order"] / rates["random"]
    print(
        f"\n{gathers:,} gathers from {kib:,} KiB: {rates['random']:.1f} M nodes/s (wanted 10), in order "
        f"{rates['in order']:.1f}: {ratio:.1f} times as slow"
    )
    assert rates["random"] > 10
