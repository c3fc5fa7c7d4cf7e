"""Figures of the simulators that were worked out another way: by counting cycle for cycle, or by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import perfkit as pk
from perfkit.simulators.dag.core import BUFFERS, TYPES, DagCore
from perfkit.simulators.dag.measures import FLOPS, Schedule
from perfkit.simulators.gus.threads import SERIAL, _by_phase, _fair, _Lines, _pieces, _sharing
from tests.simulators.assembled import loop, needs_assembler

# ------------------------------------------------------------------ what a schedule tells, cycle for cycle


def drawn(seed, types):
    """Return random nodes (type, first and last cycle) and stalls of the buffers."""
    rng = np.random.default_rng(seed)
    nodes = [(types[rng.integers(len(types))], int(b), int(b + rng.integers(0, 5))) for b in rng.integers(0, 30, 12)]
    stalls = {b: sorted(set(rng.integers(0, 34, rng.integers(0, 6)).tolist())) for b in BUFFERS}
    return nodes, stalls


def cycles_of(nodes, stalls, kind):
    """Return the sets of cycles in which a type executes, in which it issues, and in which any buffer stalls."""
    mine = FLOPS if kind == "comp" else (kind,)
    executes = {c for t, b, e in nodes if t in mine for c in range(b, max(e, b + 1))}
    return executes, {b for t, b, _ in nodes if t in mine}, {c for when in stalls.values() for c in when}


@pytest.mark.parametrize("types", [TYPES[:7], TYPES, ("A",), ("L1", "mem")], ids=["paper", "all", "A", "levels"])
@pytest.mark.parametrize("seed", range(6))
def test_every_measure_of_a_schedule_is_a_count_of_its_cycles(seed, types):
    nodes, stalls = drawn(seed, types)
    found = Schedule.from_table(*zip(*nodes, strict=True), stalls, DagCore())
    assert found.stalls == {b: len(when) for b, when in stalls.items()}
    sets = {kind: cycles_of(nodes, stalls, kind) for kind in ("comp", *TYPES)}
    for kind, (executes, issues, waits) in sets.items():
        assert found.n_nodes(kind) == sum(t in (FLOPS if kind == "comp" else (kind,)) for t, _, _ in nodes)
        by_hand = {
            "issue": issues, "span": executes, "latency": executes - issues, "stall": waits, "total": executes | waits,
            **{b: issues | set(when) for b, when in stalls.items()},
        }  # fmt: skip
        assert {name: found.time(kind, name) for name in by_hand} == {n: len(c) for n, c in by_hand.items()}, kind
    for x, (of_x, _, waits) in sets.items():
        for y, (of_y, _, _) in sets.items():
            both = len((of_x & of_y) | waits)
            assert found.overlap_cycles(x, y) == both, (x, y)
            least = min(len(of_x | waits), len(of_y | waits))
            expected = both / least if found.n_nodes(x) and found.n_nodes(y) and least else math.nan
            assert found.overlap(x, y) == pytest.approx(expected, nan_ok=True)


# ------------------------------------------------------------------ threads beside each other


def run(*ends):
    return SimpleNamespace(ends=np.array(ends, dtype=np.int64))


def test_an_access_is_made_where_its_block_lies_in_its_piece():
    """Two pieces of 10 and 20 blocks, of 100 and 400 ticks; the other thread takes 50 ticks longer in the first."""
    pieces = np.array([[0, 0, 10], [1, 10, 30]])
    lines = object.__new__(_Lines)
    lines.pieces = [pieces, pieces]
    lines.block = [np.array([0, 5, 9, 10, 20, 29]), np.array([0, 10])]
    first, second = lines._times([run(100, 500), run(150, 350)])
    assert first == pytest.approx([0, 50, 90, 150, 350, 530])  # both begin the second phase at 150
    assert second == pytest.approx([0, 150])


def test_a_thread_that_runs_alone_lets_the_others_begin_their_next_phase_later():
    own, other = np.array([[0, 0, 4], [SERIAL, 4, 6], [1, 6, 8]]), np.array([[0, 0, 4], [1, 4, 8]])
    keys, ticks = _by_phase([run(10, 40, 45), run(20, 27)], [own, other])
    assert keys == [(0, 0), (0, 1), (1, 0)]
    assert ticks.tolist() == [[10, 20], [30, 0], [5, 7]]
    lines = object.__new__(_Lines)
    lines.pieces, lines.block = [own, other], [np.array([0, 4, 6, 7]), np.array([0, 4, 6])]
    first, second = lines._times([run(10, 40, 45), run(20, 27)])
    assert first == pytest.approx([0, 20, 50, 52.5])
    assert second == pytest.approx([0, 50, 53.5])


def test_a_threads_blocks_are_cut_where_phases_end():
    assert _pieces(np.array([0, 0, 1, 1, 1, SERIAL, 2])).tolist() == [[0, 0, 2], [1, 2, 5], [SERIAL, 5, 6], [2, 6, 7]]


@pytest.mark.parametrize(
    ("wanted", "total", "one", "parts"),
    [
        ([1, 1], 4, 3, [3, 3]),  # enough for all: each as fast as it can alone
        ([3, 3], 4, 3, [2, 2]),
        ([1, 5, 5], 7, 4, [4, 3, 3]),  # what the first leaves is shared by the others
        ([5, 1, 5], 7, 4, [3, 4, 3]),
        ([1, 2, 9], 7, 9, [9, 9, 4]),
        ([9, 9, 9, 9], 8, 3, [2, 2, 2, 2]),
        ([4], 3, 3, [3]),
    ],
)
def test_bandwidth_is_shared_equally_but_for_those_who_want_less(wanted, total, one, parts):
    assert _fair(np.array(wanted, dtype=float), float(total), float(one)).tolist() == parts


@pytest.mark.parametrize("name", ["skylake_x", "zen4", "golden_cove", "cortex_a72"])
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8, 100])
def test_threads_share_the_last_level_and_nothing_else(name, threads):
    core = pk.Microarchitecture.load(name)
    shared = _sharing(core, threads)
    if threads == 1 or len(core.caches) < 3:  # a last level below two others is that of all cores
        assert shared.caches == core.caches
        return
    assert shared.caches[:-1] == core.caches[:-1]
    last, part = core.caches[-1], shared.caches[-1]
    assert part.line == last.line
    assert last.size / threads / 2 < part.size <= last.size
    if threads <= last.ways:
        assert part.size == last.ways // threads * last.sets * last.line


def test_a_landing_pad_is_a_nop():
    """LLVM's tables take `endbr64` for 100 cycles and 100 operations, and Ubuntu's compilers begin each function so."""
    trace = pk.datasets.load("traces/branchy")
    pad, nop = bytes.fromhex("f30f1efa"), bytes.fromhex("0f1f4000")
    code = trace.code
    four = [k for k, each in enumerate(code.encoding) if len(each) == 4 and code.text[k].startswith(("add", "lea"))]
    assert four
    for core in ("zen5", "zen4", "skylake_x", "golden_cove"):
        pads, nops = (
            pk.Gus(core).run(replace(trace, code=replace(code, encoding=tuple(
                new if k in four else each for k, each in enumerate(code.encoding)
            ))))
            for new in (pad, nop)
        )  # fmt: skip
        assert pads.cycles == pytest.approx(nops.cycles, rel=0.001)
        assert pads.to_frame()["slots"].iloc[four].le(1).all()


@needs_assembler
@pytest.mark.parametrize("name", ["movsq", "movsb", "stosd", "lodsb", "scasb", "cmpsw"])
@pytest.mark.parametrize(("nops", "measured"), [(0, 3.0), (12, 4.0), (20, 5.0)])
def test_a_string_instruction_that_is_not_repeated_does_not_take_a_hundred_cycles(name, nops, measured):
    """LLVM's word for any microcode. On a Zen 5: 3.0 cycles, 4.0 with 12 NOPs and 5.0 with 20 (perfkit asm)."""
    trace = loop("\n".join([name] + ["nop"] * nops), 2000)
    assert pk.Gus("zen5", warm="caches").run(trace).cycles / 2000 == pytest.approx(measured, rel=0.2)
    for core in ("zen4", "zen3"):  # as many cycles of the front end; nobody measured them there
        assert pk.Gus(core, warm="caches").run(trace).cycles / 2000 < 10


@needs_assembler
def test_string_instructions_that_miss_the_caches_do_so_beside_each_other():
    """The pointers move on without the data: else each would wait for the one before, a memory latency long."""
    core = pk.Microarchitecture.load("zen5")
    trace = loop("lodsq", 400, lambda k, _: (1 << 30) + 8192 * k)
    assert pk.Gus(core).run(trace).cycles / 400 < core.resource("memory_latency").value / 4
