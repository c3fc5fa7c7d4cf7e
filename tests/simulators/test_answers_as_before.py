"""Both simulators on random graphs and shipped traces: their answers are those kept in ``answers.json``.

What is right about them, the other tests say (by hand, and by other simulators); this one says that a change of the
code changed one (`tests.recorded`).
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfkit as pk
from tests.recorded import differences, held, kept
from tests.results.examples import EXAMPLES

FILE = Path(__file__).with_name("answers.json")
CASES: dict[str, Callable[[], Any]] = {}
DAG_CORES = ("sandy_bridge_erm", "skylake_x", "zen3", "zen4", "zen5", "alder_lake_p", "golden_cove")
LEVELS = (None, None, None, "L1", "L2", "L3", "mem")


# ------------------------------------------------------------------ graphs


@cache
def graph(seed: int, nodes: int = 400, given: bool = False) -> pk.Dag:
    """A graph of random operations that need earlier ones, with addresses (or levels, if given) of all memory."""
    rng = np.random.default_rng(seed)
    ops = "".join(rng.choice(list("AAMDLLLSSIBF"[: 12 if seed % 2 else 9]), nodes))
    needs = [
        sorted({int(k) for k in rng.integers(max(0, i - 20), i, rng.integers(0, 3))}) if i else [] for i in range(nodes)
    ]
    memory = np.array([op in "LS" for op in ops])
    where = 8 * rng.integers(0, 1 << (6 + 3 * (seed % 4)), nodes) + 64 * (np.arange(nodes) // 3 * (seed % 3))
    if given:
        level = [str(rng.choice(LEVELS[3:])) if there else None for there in memory]
        return pk.Dag.from_nodes(ops, needs, level=level)
    width = [int(rng.choice([1, 1, 2, 4])) if there else 1 for there in memory]
    return pk.Dag.from_nodes(
        ops, needs, [int(w) if there else None for w, there in zip(where, memory, strict=True)], None, width
    )


def scheduled(core: str, seed: int, given: bool = False, **settings: Any) -> Any:
    machine = pk.DagCore.sandy_bridge_erm() if core == "sandy_bridge_erm" else pk.DagCore.load(core)
    schedule = pk.DagScheduler(machine, **settings).run(graph(seed, given=given))
    return [schedule, schedule.node_table, schedule.stalls, schedule.roofline(0.1)]


for _k, _core in enumerate(DAG_CORES):
    for _seed in range(4):
        CASES[f"graph {_seed} on {_core}"] = partial(scheduled, _core, 4 * _k + _seed)
    CASES[f"levels given on {_core}"] = partial(scheduled, _core, _k, True)
for _name, _settings in {
    "cold": {"warm": False},
    "in order": {"x86_order": True},
    "in no order": {"x86_order": False},
    "blocking": {"inflight_blocking": True},
    "merging": {"inflight_merging": True},
    "prefetching": {"prefetch_streams": 4},
    "few ports": {"load_ports": 1, "store_ports": 1, "agus": 2},
    "no memory dependences": {"memory_dependences": False},
}.items():
    for _seed in (2, 3):
        CASES[f"graph {_seed} {_name}"] = partial(scheduled, "zen4", _seed, **_settings)
        CASES[f"graph {_seed} {_name}, paper's core"] = partial(scheduled, "sandy_bridge_erm", _seed, **_settings)


@cache
def branchy() -> Any:
    core = pk.Microarchitecture.load("zen4")
    return pk.predict_branches(pk.open_dags("branchy", core=core)["branchy"], core).in_memory()


def relaxed(core: str, seed: int) -> Any:
    return pk.relax(branchy() if seed < 0 else graph(seed, 120), pk.DagScheduler(pk.DagCore.load(core), record=False))


for _core, _seed in (("zen4", 0), ("skylake_x", 1), ("zen5", 3), ("zen4", -1)):
    CASES[f"relaxed {_seed} on {_core}"] = partial(relaxed, _core, _seed)


def paper(name: str, size: int) -> Any:
    dag = next(iter(pk.open_dags(name, sizes=[size]).values()))
    return pk.DagScheduler(pk.DagCore.sandy_bridge_erm()).run(dag.in_memory() if hasattr(dag, "in_memory") else dag)


for _name, _size in (("reduction", 64), ("mmm_triple", 6), ("fft", 32)):
    CASES[f"paper's {_name}"] = partial(paper, _name, _size)
CASES["swept"] = lambda: pk.sweep(graph(5, 100), pk.DagCore.load("zen4"), "rob", [4, 16, 64, 256])


# ------------------------------------------------------------------ traces


@cache
def gus(core: str, trace: str, warm: str = "none", number: int = 3000) -> pk.GusResult:
    return pk.Gus(pk.Microarchitecture.load(core), warm=warm).run(pk.datasets.load(f"traces/{trace}").head(number))


def simulated(core: str, trace: str, warm: str = "none") -> Any:
    result = gus(core, trace, warm)
    whole = [result, result.cpi_stack, result.occupancy, result.forms]
    return [*whole, result.sensitivity((2.0,)), result.causality(), result.schedule(500, 12), result.timeline(200, 300)]


for _core, *_traces in (
    ("zen4", "branchy", "divider", "gather-avx2", "pointer-chase", "store-forward"),
    ("skylake_x", "masked-update-avx512", "l2-bound", "correlation-v0-small", "latency-multiply"),
    ("zen5", "store-bound", "load-bound", "gemm-avx512"),
    ("golden_cove", "branchy", "triad", "cholesky-scalar"),
    ("alder_lake_p", "correlation-v3-small", "floyd-warshall-avx2"),
    ("zen3", "jacobi-2d-avx2", "throughput-add"),
):
    for _trace in _traces:
        CASES[f"{_trace} on {_core}"] = partial(simulated, _core, _trace)
CASES["l2-bound, warm"] = partial(simulated, "zen4", "l2-bound", "caches")


def compared(a: str, b: str) -> Any:
    return pk.diff(gus("zen4", a), gus("zen4", b))


CASES["one to three"] = partial(compared, "correlation-v1-small", "correlation-v3-small")
CASES["five to six"] = partial(compared, "correlation-v5-small", "correlation-v6-small")


def threads(number: int, core: str) -> Any:
    whole = pk.datasets.load("traces/triad")
    traces = tuple(whole.head(1500 + 100 * k) for k in range(number))
    return pk.run_threads(pk.Gus(core), pk.ThreadTraces(traces, (np.zeros((1, 2), dtype=np.int64),) * number))


for _number, _core in ((2, "zen4"), (3, "skylake_x"), (24, "zen4")):
    CASES[f"{_number} threads on {_core}"] = partial(threads, _number, _core)


def blocks(core: str) -> Any:
    return pk.Gus(core).blocks(
        ["480fafc3", "4801d8", "0f0b", "488b0748890648ffc0", "c5f458c1c5f459d1", "48f7f1", "8b0603470489471c"]
    )


for _core in ("zen4", "skylake_x", "golden_cove"):
    CASES[f"blocks on {_core}"] = partial(blocks, _core)


def counted(core: str, **settings: Any) -> Any:
    pmu = pk.SimulatedPmu(core, intervals=4, **settings)
    return pmu.collect({name: pk.datasets.load(f"traces/{name}").head(4000) for name in ("branchy", "triad")})


CASES["counters of zen4"] = partial(counted, "zen4")
CASES["counters in turns"] = partial(counted, "skylake_x", counters=4, noise=0.01, seed=3)
for _cls, _make in EXAMPLES.items():
    if _cls.__module__.startswith(("perfkit.simulators", "perfkit.dag")):
        CASES[f"example {_cls.__name__}"] = _make


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_what_it_was(name):
    assert differences(kept(FILE)[name], held(CASES[name]())) == []


def test_no_answer_is_kept_of_a_case_that_is_gone():
    assert list(kept(FILE)) == list(CASES)
