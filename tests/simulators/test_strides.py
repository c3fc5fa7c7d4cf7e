"""What follows its load's stride is in L1 when the load asks for it: by hand, and as on a Zen 4 (2026-11-30)."""

import numpy as np
import pytest

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.causality import causality
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.sensitivity import sensitivity
from tests.simulators.assembled import loop

ZEN4 = Microarchitecture.load("zen4")
LEARNT = int(ZEN4.feature("stride_prefetch"))
L1, L2 = ZEN4.value("L1_latency"), ZEN4.value("L2_latency")


def chase(places, core=ZEN4, body="mov rax, [rax]"):
    """Return the result, and cycles per link, of a chain of loads of these places, which L2 or L3 holds."""
    result = Gus(core, warm="caches").run(loop(body, len(places), lambda k, m: (1 << 20) + int(places[k])))
    return result, result.cycles / len(places)


def runs(length, apart, count=1024):
    """Return places in runs of so many, so far apart, that come in no order."""
    first = np.random.default_rng(length).permutation(count // length) * length
    return ((first[:, None] + np.arange(length)).ravel() * apart).tolist()


@pytest.mark.parametrize("apart", [24, 64, 96, 128, 320, -64, -128, 4160])
def test_a_list_in_order_waits_for_no_level(apart):
    """256 KiB of lines and more: 4.1 to 6.6 cycles per link on a Zen 4; 8.6 where each lies in a page of its own."""
    places = np.arange(2500 if abs(apart) > 4096 else 4096) * apart  # pages that the second TLB holds
    result, each = chase(places - places.min())
    assert each == pytest.approx(L1, rel=0.03)
    assert result.served.served[1:].sum() > 0.3 * len(places), "the lines come from beyond L1 all the same"


def test_a_list_in_no_order_waits_for_its_level():
    """14.0 cycles per link on a Zen 4."""
    assert chase(runs(1, 64, 4096))[1] == pytest.approx(L2, rel=0.01)


@pytest.mark.parametrize(("length", "measured"), [(16, 9.0), (32, 7.0)])
def test_the_first_lines_of_a_run_take_their_full_time(length, measured):
    """Two lines give a distance, and each one after them repeats it: before ``LEARNT`` repetitions, nothing is early.

    128 KiB in runs of that length, 128 bytes apart, on a Zen 4. In longer ones the model is too early: 5.2 for 6.1
    at 64 links, 4.0 for 5.2 at 256 and more.
    """
    _, each = chase(runs(length, 128))
    late = LEARNT + 1  # the first distance of a run is that of two runs
    assert each == pytest.approx((late * L2 + (length - late) * L1) / length, rel=0.03)
    assert each == pytest.approx(measured, rel=0.15)


def test_nothing_is_won_by_a_faster_level_where_no_link_waits_for_it():
    trace = loop("mov rax, [rax]", 4096, lambda k, m: (1 << 20) + 64 * k)
    gain = sensitivity(Gus(ZEN4, warm="caches"), trace, (2.0,), ["L1_latency", "L2_latency", "L3_latency"]).speedup
    assert np.ravel(gain) == pytest.approx([1.0, 0.0, 0.0], abs=0.03)  # L1 twice as fast: twice as fast


def test_pages_are_known_ahead_too():
    """8,295 pages: 13.4 to 16 cycles per link in order on a Zen 4 (four walks at a time), 78 to 83 in no order."""
    pages = np.arange(8_295)
    walk, walkers = ZEN4.value("page_walk_latency"), ZEN4.feature("page_walkers")
    result, each = chase(pages * 4160)
    assert each == pytest.approx(walk / walkers, rel=0.02)
    assert result.cpi_stack().index[0] == "page_walk_latency"
    assert chase(np.random.default_rng(3).permutation(pages) * 4160)[1] == pytest.approx(walk + L2, rel=0.02)


def test_lines_from_memory_take_fill_buffers_and_bandwidth():
    """64 MiB and 128 bytes apart: latency over fill buffers, 22 cycles (44 on a Zen 4, whose latency is 525)."""
    places = np.arange(20_000) * 128 * 3
    trace = loop("mov rax, [rax]", len(places), lambda k, m: (1 << 20) + int(places[k]))
    each = Gus(ZEN4).run(trace).cycles / len(places)
    assert each == pytest.approx(ZEN4.value("memory_latency") / ZEN4.value("line_fill_buffers"), rel=0.1)


def test_one_load_knows_nothing_of_another():
    """Two loads take turns on one list: each sees every second node, twice as far apart, and is as early."""
    _, each = chase(np.arange(4096) * 64, body="mov rax, [rax]\nmov rax, [rax]")
    assert each / 2 == pytest.approx(L1, rel=0.03)


def test_cores_whose_file_has_a_reach_stop_there():
    """By Intel's manual, its prefetcher by instruction pointer follows distances up to 2 KB."""
    core = Microarchitecture.load("raptor_cove")
    near, far = (np.arange(2000) * apart for apart in (2048, 2112))
    assert chase(near, core)[1] < 0.5 * chase(far, core)[1]


def test_what_crosses_a_line_teaches_nothing():
    """Each second line of accesses across the end of a line is no access of its own: none of them is early."""
    whole, split = (chase(np.arange(2000) * 128 + begin)[1] for begin in (0, 60))
    assert (whole, split) == pytest.approx((L1, L2), rel=0.03)


@pytest.mark.parametrize("body", ["mov rax, [rax]", "mov rax, [rax]\nadd rbx, [rcx]\nimul rbx, rax"])
@pytest.mark.parametrize("apart", [64, 4160])
def test_all_passes_agree(body, apart):
    """Cycles, and causality by its two ways."""
    gus = Gus(ZEN4, warm="caches")
    trace = loop(body, 1000, lambda k, m: (1 << 20) + (m << 28) + k * apart)
    alone = gus.run(trace)
    assert alone.spent.sum() == alone.ticks
    lanes = gus.cycles(trace, [ZEN4] * 2)
    fast, exact = causality(gus, trace), causality(gus, trace, exact=True)
    assert {alone.cycles, *lanes, fast.cycles, exact.cycles} == {alone.cycles}
