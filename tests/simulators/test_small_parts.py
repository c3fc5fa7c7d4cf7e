"""Parts of the simulators that whole runs hardly show, each alone and by hand."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.measures import Schedule
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.simulators.gus import exact, mispredicted, timing
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.threads import _Lines
from perfkit.simulators.gus.timing import Static, without_lines
from perfkit.simulators.memory import memory
from perfkit.simulators.memory.branches import _COUNTERS, _fold, predict, predictor
from perfkit.simulators.program.x86 import _stack_waits
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace
from tests.loose import mutable_dataclasses


def test_without_lines_of_code_an_instruction_keeps_all_else():
    # Slots from bit 0, flags from bit 12 (a load: 1; a new line of code: 0x40; across its end: 0x80), operands from
    # bit 20, writes from bit 56.
    head = np.array([3 | 0xC1 << 12 | 2 << 20 | 1 << 56, 0xFFF | 0x3F << 12 | 0x1FF << 20])
    found = without_lines(Static(*[np.zeros(0)] * 6, head, *[np.zeros(0)] * 5))
    assert found.head.tolist() == [3 | 0x01 << 12 | 2 << 20 | 1 << 56, 0xFFF | 0x3F << 12 | 0x1FF << 20]


def test_a_thread_waits_for_a_line_that_another_has_written_since():
    """The first thread writes a line in the turns 0, 1 and 2, the second reads it in 1, 2, 3 and 4."""
    lines = object.__new__(_Lines)
    lines.line = [np.full(3, 7), np.full(4, 7)]
    lines.write = [np.ones(3, dtype=bool), np.zeros(4, dtype=bool)]
    lines.position = [np.array([10, 11, 12]), np.array([20, 21, 22, 23])]
    turn = 2 * pk.simulators.gus.timing.TICKS * 5.0
    lines._times = lambda _: [np.array([0, 1, 2]) * turn, np.array([1, 2, 3, 4]) * turn]
    first, second = lines.transfers([None, None], 5.0)
    assert first.tolist() == []  # nobody else writes
    assert second.tolist() == [20, 21]  # in the turns 3 and 4 it has the line still


def test_a_resources_use_is_shared_by_how_often_each_instruction_was_executed():
    """An addition is executed once, the two of a loop thirty times each: 1, 30 and 30 of 61."""
    add = bytes.fromhex("4801d8")  # add rax, rbx
    code = StaticCode(
        "x86-64", pc=[0x1000, 0x1003, 0x1006], encoding=[add] * 3, text=["add rax, rbx"] * 3, function=["f"] * 3,
        block_start=[0, 1, 3], operand_start=[0, 0, 0, 0], read=[], write=[], size=[],
    )  # fmt: skip
    result = Gus(pk.Microarchitecture.load("skylake_x")).run(Trace.from_parts(code, stream=[0, *[1] * 30]))
    frame = result.to_frame()
    ports = [c for c in frame.columns if c.startswith("p0") and frame[c].notna().all() and frame[c].sum() > 0]
    assert ports
    for port in ports:
        assert frame[port].to_numpy() == pytest.approx([1 / 61, 30 / 61, 30 / 61])


@pytest.mark.parametrize(("op", "ports"), [("L", "load_ports"), ("S", "store_ports"), ("A", "fp_ports")])
def test_nine_ports_take_nine_nodes_a_cycle(op, ports):
    """More lanes than a row of the engine's table can count."""
    free = {"load_ports": 0, "store_ports": 0, "agus": 0, ports: 9}
    dag = pk.Dag.from_nodes(op * 20, [[]] * 20, None, ["L1" if op in "LS" else None] * 20)
    assert DagScheduler(DagCore(**free), record=True).run(dag).issue.tolist() == [0] * 9 + [1] * 9 + [2] * 2


def test_what_was_fetched_ahead_executes_as_long_as_it_takes():
    """A chain of loads over four lines of memory: from the third on the prefetcher has them in L2 (12 cycles)."""
    core = DagCore(
        latency_L1=4, latency_L2=12, latency_L3=30, latency_mem=100, prefetch_streams=2, line=64,
        size_L1=64, size_L2=128, size_L3=192,
    )  # fmt: skip
    dag = pk.Dag.from_nodes("LLLL", [[], [0], [1], [2]], [0, 64, 128, 192], None, 8)
    found = DagScheduler(core, warm=False, record=True).run(dag)
    by_hand = Schedule.from_table(["mem"] * 4, [0, 100, 200, 212], [100, 200, 212, 224], {}, core)
    assert (found.issue.tolist(), found.done.tolist()) == (by_hand.issue.tolist(), by_hand.done.tolist())
    executing = {}
    for schedule in (found, by_hand):
        cycles = {}
        for state, count in zip(schedule.states.tolist(), schedule.counts.tolist(), strict=True):
            cycles[state & 127] = cycles.get(state & 127, 0) + count
        executing[schedule is found] = cycles
    assert executing[True] == executing[False] == {1 << 6: 224}


def test_threads_that_share_no_line_wait_for_none():
    lines = object.__new__(_Lines)
    lines.line = []
    assert [len(waits) for waits in lines.transfers([None, None, None], 100.0)] == [0, 0, 0]


@numba.njit
def _folded(history, length, block, table):
    return _fold(history, length, block, table)


@numba.njit
def _predicted(p, block, taken):
    return predict(p, block, taken)


def test_a_counter_that_was_wrong_is_less_useful_and_one_that_was_right_is_more():
    p = predictor(pk.Microarchitecture.load("golden_cove"), 1)
    h = int(_folded(0, int(p.lengths[1]), 0, 1))
    place = 1, h & (_COUNTERS - 1)
    p.tag[place], p.counter[place], p.useful[place] = (h >> 20) & 0x7FFF, 3, 2
    told = []
    for taken in (1, 0, 0, 1):
        p.meta[3], p.tag[2:] = 0, -1  # the same history again, and no entry for a longer one
        wrong = bool(_predicted(p, 0, taken))
        told.append((wrong, int(p.counter[place]), int(p.useful[place])))
    assert told == [(False, 3, 3), (True, 2, 2), (True, 1, 1), (False, 2, 2)]


# ------------------------------------------------------------------ taint sets (Algorithm 1) as bits


@pytest.fixture
def bits(monkeypatch):
    """Return the module of the sets with its functions as Python runs them."""
    for name in ("_empty", "_renew", "_add", "_set", "_both"):
        monkeypatch.setattr(exact, name, getattr(exact, name).py_func)
    return exact


def members(sets, k, width):
    """Return the instructions of a set, from its bits and the instruction it is up to date with."""
    last = int(sets.stamp[k])
    return {m for m in range(max(0, last - width + 1), last + 1) if int(sets.bits[k, m % width >> 6]) >> (m & 63) & 1}


@pytest.mark.parametrize("width", [64, 128, 192])
@pytest.mark.parametrize("longest", [3, 70, 400])
def test_sets_of_the_last_instructions(bits, width, longest):
    """Random steps, beside sets of Python that forget what is ``width`` instructions old."""
    draw, found, wanted, stamp = (
        np.random.default_rng(width + longest),
        bits.sets(4, width),
        [set() for _ in range(4)],
        [-1] * 4,
    )
    n = 0
    for _ in range(600):
        n += int(draw.integers(1, longest))
        k, q = (int(x) for x in draw.choice(4, 2, replace=False))
        step = int(draw.integers(3))
        if step == 0:
            bits._renew(found, k, n)
            bits._add(found, k, n)
            wanted[k] |= {n}
        elif step == 1:
            bits._set(found, k, found, q, n)
            wanted[k] = set(wanted[q])
        else:
            bits._both(found, k, found, q, n)
            wanted[k] |= wanted[q]
            stamp[q] = n
        stamp[k] = n
        wanted = [{m for m in each if m > n - width} for each in wanted]
        assert found.stamp.tolist() == stamp
        for i in (k, q) if step == 2 else (k,):
            assert members(found, i, width) == wanted[i]


def test_what_simulators_return_cannot_be_changed():
    assert mutable_dataclasses("perfkit.simulators", known=("MemoryPass", "Replay")) == []  # while they run


def test_the_time_of_mispredictions_belongs_to_the_branches_before(monkeypatch):
    """Four blocks; the third was not expected twice behind the first and once behind the second, the last once."""
    miss, taken = memory.MISPREDICTED, memory.TAKEN
    pieces = [([0, 2, 1, 2], [miss, miss | taken, taken, miss]), ([3, 0, 2], [miss, 0, miss | taken])]
    windows = [SimpleNamespace(stream=np.array(stream), control=np.array(control)) for stream, control in pieces]
    monkeypatch.setattr(mispredicted, "windows", lambda trace, memory: windows)
    spent = np.zeros((7, timing.MISPREDICTION + 2), dtype=np.int64)
    spent[:, timing.MISPREDICTION] = [5, 0, 0, 9, 3, 0, 7]
    spent[:, timing.MISPREDICTION + 1] = 100
    code = SimpleNamespace(block_start=np.array([0, 2, 3, 6, 7]), block_count=4)
    settings = SimpleNamespace(memory=lambda trace, program: None)
    result = SimpleNamespace(trace=SimpleNamespace(code=code), settings=settings, program=None, spent=spent)
    # The first block's is nobody's, and stays; of the 12 of the third two thirds are the first one's branch's.
    assert mispredicted.branch_ticks(result).tolist() == [5, 8, 4, 0, 0, 7, 0]


STACK = {
    "push": "50", "pop": "58", "ret": "c3", "jmp": "ebfe", "mov rsp": "4889ec", "add rsp": "4883c408",
    "sub rsp": "4883ec08", "and rsp": "4883e4f0", "add rax": "4883c008", "sub rax": "4829d8",
    "add [rsp]": "4883042408", "xor rsp": "4883f400",
}  # fmt: skip


@pytest.mark.parametrize(
    ("blocks", "waits"),
    [
        (["push, add rsp"], [1]),
        (["add rsp, push, ret"], []),  # no loop: what comes after it is not before it
        (["add rsp, push, jmp"], [0]),
        (["add rsp, add rax, jmp"], []),
        (["push, add rax, sub rax, sub rsp"], [3]),
        (["pop, and rsp, add rsp"], [1]),  # once, until the next one
        (["pop, and rsp, push, add rsp"], [1, 3]),
        (["push, add [rsp], sub rsp"], [2]),
        (["push, mov rsp, xor rsp, add rsp"], [3]),
        (["push, ret", "add rsp, ret"], []),  # of another block
        (["ret", "push, ret", "pop, sub rsp, ret"], [4]),
    ],
)
def test_operations_on_the_stack_pointer_wait_for_pushes(blocks, waits):
    iced = pytest.importorskip("iced_x86")
    words = [block.split(", ") for block in blocks]
    decoded = [next(iter(iced.Decoder(64, bytes.fromhex(STACK[word])))) for block in words for word in block]
    code = SimpleNamespace(block_start=np.cumsum([0, *map(len, words)]))
    for sync, found in ((1, set(waits)), (0, set())):
        core = SimpleNamespace(feature=lambda name, default, sync=sync: {"stack_sync": sync}.get(name, default))
        assert _stack_waits(code, decoded, core) == found
