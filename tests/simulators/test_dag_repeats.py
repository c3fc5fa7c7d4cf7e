"""Blocks that repeat are looked up, not scheduled anew: whatever is counted is what the engine counts.

The engine alone schedules where issue and completion of each node are kept (`record=True`).
"""

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.paper_kernels import kernel
from perfkit.simulators.dag import repeats
from perfkit.simulators.dag.schedule import _Run

KERNELS = [
    ("mmm_triple", 40), ("mvm", 90), ("mvm_register", 90), ("wht_iterative", 1024), ("stencil", 10),
    ("stencil_multiplied", 16), ("reduction", 9000),
]  # fmt: skip
CORES = [
    {},
    {"rs": 8, "lb": 3, "sb": 2, "lfb": 1},
    {"rob": 20, "fetch": 3, "latency_A": 300},  # too long for the short counters of cycles left
    {"rob": float("inf"), "rs": 12},
    {"throughput_D": 0.3, "throughput_A": 2.5, "size_L1": 1024, "size_L2": 8192},
]
OVERLAPS = """
void before(double *x, double *y, long n) { for (long i = 1; i < n; i++) x[i] = x[i - 1] * .5 + y[i]; }
void behind(double *x, double *y, long n) { for (long i = 0; i + 40 < n; i++) x[i + 40] = x[i] + y[i]; }
void halves(double *x, double *y, long n) {
    float *h = (float *)y;
    for (long i = 0; i + 1 < n; i++) { x[i] = y[i] + 1; h[i] = h[i + 1]; y[i] = x[i] * 3; }
}
void twice(double *x, double *y, long n) {
    for (long i = 0; i < n; i++) { double *p = x + (long)y[i]; *p += 1; x[i] = *p * 2; x[i] = y[i] + *p; }
}
"""


def counted(dag, core, **switches):
    """Return what repeats and what the engine alone make of a DAG."""
    machine = pk.DagCore.sandy_bridge_erm().replace(**core)
    return [pk.DagScheduler(machine, record=record, **switches).run(dag) for record in (False, True)]


def assert_the_same(dag, core, **switches):
    found, expected = counted(dag, core, **switches)
    assert found.issue is None
    assert expected.issue is not None
    for name in ("states", "counts", "nodes", "shapes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert (found.cycles, found.instructions, found.covered) == (
        expected.cycles,
        expected.instructions,
        expected.covered,
    )
    assert (found.doubts, found.remarks) == (expected.doubts, expected.remarks)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("name", "size"), KERNELS)
def test_the_papers_kernels_take_the_cycles_that_the_engine_finds(name, size, core):
    assert_the_same(kernel(name).trace(size), core)


@pytest.mark.parametrize("switches", [{}, {"x86_order": False}, {"memory_dependences": False}, {"warm": False}])
@pytest.mark.parametrize("function", ["before", "behind", "halves", "twice"])
def test_loads_wait_for_the_same_stores(function, switches, tmp_path):
    source = tmp_path / "k.c"
    source.write_text(OVERLAPS)
    rng = np.random.default_rng(5)
    arrays = np.ones(3000), np.floor(rng.random(3000) * 50)
    assert_the_same(pk.trace_c(source, function, *arrays, 3000), CORES[1] if switches else {}, **switches)


def test_random_levels_and_little_room_are_no_matter(monkeypatch, tmp_path):
    source = tmp_path / "k.c"
    source.write_text(
        "double f(const double *x, const long *at, long n) {\n"
        "    double s = 0;\n    for (long i = 0; i < n; i++) s += x[at[i]];\n    return s;\n}\n"
    )
    rng = np.random.default_rng(3)
    dag = pk.trace_c(source, "f", np.ones(8000), rng.integers(0, 8000, 20_000), 20_000)
    small = {"size_L1": 1024, "size_L2": 8192, "size_L3": 32768}
    assert_the_same(dag, small)
    made = repeats.new_repeats

    def few(*given):  # states are forgotten again and again
        known = made(*given)
        return known._replace(words=known.words[:40_000])

    monkeypatch.setattr("perfkit.simulators.dag.schedule.new_repeats", few)
    assert_the_same(dag, small)
    assert_the_same(kernel("stencil").trace(10), {})


def test_what_repeats_is_looked_up(monkeypatch):
    """The engine takes a hundredth of the product's blocks at most, and less of what is longer."""
    kept = []
    monkeypatch.setattr(_Run, "_repeats", lambda work, made=_Run._repeats: kept.append(made(work)) or kept[-1])
    counted(kernel("mmm_triple").trace(60), {})
    steps = kept[0].scalars[repeats.CREDIT] / repeats._STEP
    assert steps > 30_000  # of 3,600 turns of the middle loop, eleven blocks each
    assert kept[1] is None


@pytest.mark.parametrize(
    ("array", "rooms"), [("words", range(200, 40_000, 997)), ("log", range(3, 80)), ("found", range(80, 900, 19))]
)
def test_nothing_is_written_behind_the_room_there_is(monkeypatch, tmp_path, array, rooms):
    source = tmp_path / "k.c"
    source.write_text(
        "double f(double *x, const long *at, long n) {\n    double s = 0;\n"
        "    for (long i = 0; i < n; i++) { s += x[at[i]] * x[at[i] / 2]; x[i] = s; }\n    return s;\n}\n"
    )
    rng = np.random.default_rng(3)
    dag = pk.trace_c(source, "f", np.ones(800), rng.integers(0, 800, 800), 800)
    small = {"size_L1": 1024, "size_L2": 2048, "size_L3": 4096}
    expected, made = counted(dag, small)[0].cycles, repeats.new_repeats
    for room in rooms:
        behind = []

        def few(*given, room=room, behind=behind):
            known = made(*given)
            whole = np.full(room + 500, -7, dtype=np.int64)
            behind.append(whole[room:])
            return known._replace(**{array: whole[:room]})

        monkeypatch.setattr("perfkit.simulators.dag.schedule.new_repeats", few)
        assert counted(dag, small)[0].cycles == expected
        assert (behind[0] == -7).all(), room
