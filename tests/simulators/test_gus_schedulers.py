"""Schedulers against counting by hand, and what a Zen 5 was measured to do against the model of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.causality import causality
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.schedulers import admit, hold
from perfkit.simulators.gus.timing import CYCLES, TICKS, Schedulers
from tests.simulators.assembled import loop, needs_assembler

pytestmark = needs_assembler


@njit(_nrt=False)
def _go(s, come, stay, out):
    for k in range(len(come)):
        out[k] = admit(s, 1, max(come[k], out[k - 1] if k else 0))
        hold(s, 1, out[k] + stay[k])


def _by_counting(come, stay, size):
    """Wait until fewer than ``size`` of those before begin in this cycle or later."""
    begins, out = [], []
    for arrived, waits in zip(come, stay, strict=True):
        t = max(arrived, out[-1] if out else 0)
        while sum(b // TICKS >= t // TICKS for b in begins) >= size:
            t = (t // TICKS + 1) * TICKS
        out.append(t)
        begins.append(t + waits)
    return out


times = st.integers(0, 40 * TICKS) | st.integers(0, 40).map(lambda cycles: cycles * TICKS)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(times, times), max_size=60), st.integers(1, 9))
def test_an_entry_is_free_when_counting_says_so(operations, size):
    come = np.sort(np.array([c for c, _ in operations], dtype=np.int64))
    stay = np.array([s for _, s in operations], dtype=np.int64)
    state = Schedulers(
        np.zeros(2 * CYCLES, dtype=np.int16),
        np.zeros(2, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.array([1, size], dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    out = np.zeros(len(come), dtype=np.int64)
    _go(state, come, stay, out)
    assert out.tolist() == _by_counting(come.tolist(), stay.tolist(), size)


def per_iteration(body, n=2000, core="zen5", address=None):
    gus = Gus(Microarchitecture.load(core))
    place = address or (lambda k, m: 4096 + 64 * m)
    return (gus.run(loop(body, 2 * n, place)).cycles - gus.run(loop(body, n, place)).cycles) / n


# Measured on the host that the core file names as zen5-host: cycles per iteration.
MEASURED = [
    ("vaddsd xmm0,xmm0,xmm1", 2.0),
    ("vaddsd xmm0,xmm0,xmm1\nvmulsd xmm0,xmm0,xmm1", 5.95),
    ("vaddsd xmm0,xmm0,xmm1\nvfmadd213sd xmm0,xmm1,xmm2", 6.97),
    ("vaddsd xmm0,xmm0,xmm1\nvdivsd xmm0,xmm0,xmm1", 15.97),
    ("vmaxsd xmm0,xmm0,xmm1\nvaddsd xmm0,xmm0,xmm1", 5.01),
    ("mov rax,rcx\nadd rax,rdx\nmov rbx,rcx\nadd rbx,rdx\nmov r8,rcx\nadd r8,rdx\n" * 4, 12 * 0.168),
    ("add qword ptr [rdi],1", 1.02),
]


@pytest.mark.parametrize(("body", "measured"), MEASURED)
def test_zen_5_does_what_it_was_measured_to_do(body, measured):
    assert per_iteration(body) == pytest.approx(measured, rel=0.03)


def test_a_load_of_two_stores_waits_until_they_are_written():
    """14.0 cycles each was measured, 9.0 for a load of one; a load of four pairs' stores waits but once (17.0)."""
    pair = "vmovsd [rdi],xmm0\nvmovsd [rdi+8],xmm0\nvmovupd xmm{},[rdi]"
    place = [4096, 4104, 4096]
    assert per_iteration(pair.format(1), address=lambda k, m: place[m]) == pytest.approx(14, rel=0.03)
    one = "vmovsd [rdi],xmm0\nvmovsd xmm0,[rdi]"
    assert per_iteration(one, address=lambda k, m: 4096) == pytest.approx(9, rel=0.03)
    stores = "\n".join(f"vmovsd [rdi+{8 * k}],xmm0" for k in range(8))
    loads = "\n".join(f"vmovupd xmm{k + 1},[rdi+{16 * k}]" for k in range(4))
    places = [*range(4096, 4160, 8), *range(4096, 4160, 16)]
    found = per_iteration(f"{stores}\n{loads}", address=lambda k, m: places[m])
    assert found == pytest.approx(17, rel=0.05)


def test_stores_are_written_line_by_line():
    """Two a cycle to a line, one a cycle to a line each: 0.50 and 1.04 cycles were measured."""
    stores = "\n".join(f"mov [rdi+{k}],rax" for k in range(8))
    assert per_iteration(stores, address=lambda k, m: 4096 + 8 * m) == pytest.approx(8 * 0.5, rel=0.1)
    assert per_iteration(stores, address=lambda k, m: 4096 + 64 * m) == pytest.approx(8 * 1.04, rel=0.1)


def test_a_chain_overtakes_the_one_before_by_no_more_than_the_scheduler_holds():
    """400 dependent additions, again and again: 666 cycles were measured; a scheduler without limit overlaps them."""
    body = "vxorps xmm0,xmm0,xmm0\n" + "vaddsd xmm0,xmm0,xmm1\n" * 400
    held = per_iteration(body, 20)
    assert held == pytest.approx(666, rel=0.03)
    core = Microarchitecture.load("zen5").scaled("vector_scheduler", 100).scaled("vector_queue", 100)
    free = (Gus(core).run(loop(body, 40)).cycles - Gus(core).run(loop(body, 20)).cycles) / 20
    assert free < 0.7 * held


def test_a_taken_branch_costs_what_the_core_says():
    base = Microarchitecture.load("zen5")
    body = "mov rax,rcx\nmov rbx,rcx"
    n = 4000
    fast, slow = (Gus(c).run(loop(body, n)).cycles / n for c in (base, base.scaled("taken_branches", 0.25)))
    assert fast == pytest.approx(1, rel=0.02)
    assert slow == pytest.approx(4, rel=0.02)


def test_who_frees_a_place_before_a_scheduler_is_the_cause_and_nobody_beside():
    """A scheduler of one entry and a queue of six before it, by hand.

    The load waits for ten multiplications and holds the entry; six additions fill the queue. The seventh is dispatched
    when the first of them leaves it, which is when the load begins; what follows in the next turn is dispatched behind
    it. The six wait, and nobody waits for them.
    """
    core = Microarchitecture.load("zen5").replaced("vector_queue", 6, "by hand")
    gus = Gus(core.replaced("vector_scheduler", 1, "by hand"))
    body = "xor eax,eax\n" + "imul rax,rax\n" * 10 + "vaddsd xmm0,xmm4,[rax]\n" + "vaddsd xmm1,xmm2,xmm3\n" * 7
    counts = causality(gus, loop(body, 400)).counts
    assert counts[12:18].tolist() == [0] * 6
    others = np.delete(counts, range(12, 18))
    assert others.min() > 300
    assert np.ptp(others) <= 1


def test_what_leaves_a_queue_in_order_waits_for_what_the_one_before_waits_for():
    """Ten dependent divisions of 13 cycles per turn bound it; behind them the queue is full of what waits for them."""
    body = "vdivsd xmm0,xmm0,xmm1\n" * 10 + "vaddsd xmm3,xmm0,xmm5\n" * 100 + "nop\n" * 20
    gus = Gus(Microarchitecture.load("zen5"))
    for exact in (True, False):
        found = causality(gus, loop(body, 60), exact=exact)
        assert found.cycles / 60 == pytest.approx(130, rel=0.02)
        assert np.ptp(found.counts[:10]) <= 1
        assert found.shares[:10].sum() > 0.9  # one more frees the place that the next turn is dispatched with


@pytest.mark.parametrize(
    ("body", "registers", "cycles"),
    [
        ("vaddsd xmm0,xmm1,xmm2", 1, 3 + 1 / 6),  # dispatched when the one before retires, and there for three cycles
        ("vaddsd xmm0,xmm1,xmm2", 2, (3 + 1 / 6) / 2),
        ("vaddsd xmm0,xmm1,xmm2", 100, 1 / 2),  # its two units
        ("vmovups ymm0,[rdi]", 1, 7 + 1 / 6),
        ("vxorps xmm0,xmm0,xmm0", 1, 1 / 6),  # zeros, moves that are renamed, integers and stores take none
        ("vmovaps xmm0,xmm1", 1, 1 / 6),
        ("lea rax,[rbx+1]", 1, 1 / 4),
        ("vmovups [rdi],ymm0", 1, 1),
    ],
)
def test_results_hold_a_vector_register_until_they_retire(body, registers, cycles):
    core = Microarchitecture.load("zen4").replaced("vector_registers", registers, "by hand")
    once, twice = (Gus(core, warm=True).run(loop(f"{body}\n" * 12, n, lambda _k, _m: 4096)).cycles for n in (100, 200))
    assert (twice - once) / 1200 == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize("size", [4, 5, 7])
def test_loads_of_vectors_are_held_up_by_registers_as_by_a_load_buffer(size):
    """One of as many entries: both are held from dispatch to retirement. The same time, and the same to blame."""
    zen4 = Microarchitecture.load("zen4")
    body = "xor eax,eax\n" + "imul rax,rbx\n" * 5 + "vmovups xmm2,[rdi]\n" * 3 + "mov rcx,rbx\n" * 8
    for exact in (True, False):
        few, held, free = (
            causality(Gus(core), loop(body, 300), exact=exact)
            for core in (zen4.replaced("vector_registers", size, ""), zen4.replaced("load_buffer", size, ""), zen4)
        )
        assert (few.counts == held.counts).all()
        assert few.cycles == held.cycles > 1.1 * free.cycles
