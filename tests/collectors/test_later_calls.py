"""What calls as they go on say: windows whose answer is known, beside interrupts, neighbours and other programs."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from perfkit.collectors.host.cycle_clock import CHAIN, TURNS, WIDTH
from perfkit.collectors.host.later_calls import Windows, later_calls, rarest
from perfkit.collectors.host.true_cycles import TrueCycles, true_cycles
from perfkit.collectors.kernels import compile_kernel
from perfkit.errors import PerfkitWarning

LINK = 3
IN_BLOCK = 5
LENGTH = 20_000  # cycles of a window of ten calls
CALLS = 10


def windows_of(cycles, turns=None, busy=None, waited=None, gave=None) -> Windows:
    """Return windows that take so many cycles, at one tick a cycle, with as many turns, in blocks of five."""
    cycles = np.asarray(cycles, dtype=np.int64)
    n, k = len(cycles), LENGTH // TURNS
    turns = np.full(n, k * TURNS) if turns is None else np.asarray(turns, dtype=np.int64)
    probe = np.where(np.zeros(n, bool) if busy is None else busy, 2 * TURNS, TURNS)
    each = np.column_stack([cycles, probe, turns, np.full(n, k), probe])
    blocks = -(-n // IN_BLOCK)
    clock = np.tile([LINK * CHAIN, WIDTH // 4, TURNS], (blocks, 1))
    sums = np.add.reduceat(cycles, np.arange(0, n, IN_BLOCK))
    others = [np.zeros(blocks, dtype=np.int64) if one is None else np.asarray(one) for one in (waited, gave)]
    many = np.diff([*range(0, n, IN_BLOCK), n])
    return Windows(np.column_stack([clock, sums, clock, others[0], many, others[1]]).astype(np.int64), each)


def said(*windows: Windows, first: float = LENGTH / CALLS, quoted: float = LENGTH / CALLS):
    """Return what processes of these windows say."""
    return later_calls(windows, [np.full(30, first)] * len(windows), [quoted] * len(windows), LINK, CALLS)


def interrupts(random, n: int, often: float = 0.05) -> np.ndarray:
    """Cycles that interrupts take of each of so many windows."""
    return np.where(random.random(n) < often, random.uniform(2e4, 1.2e5, n), 0).astype(np.int64)


def test_calls_that_are_alike_are_not_told_whatever_else_runs():
    """60 kernels, beside interrupts that take a sixth of the time: no window or turn is the kernel's."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        parts = [
            windows_of(LENGTH + interrupts(random, 800), LENGTH // TURNS * TURNS + interrupts(random, 800))
            for _ in range(5)
        ]
        found = said(*parts)
        assert not found.differs, seed
        assert found.changed == 1
        assert found.mean == pytest.approx(1, abs=0.01)
        assert found.calls == CALLS * 4000


@pytest.mark.parametrize(("one_of", "longer"), [(15, 10_000), (40, 50_000), (150, 200_000), (200, 1_000_000)])
def test_rare_calls_are_told_from_interrupts(one_of, longer):
    random = np.random.default_rng(1)
    parts = []
    for _ in range(5):
        rare = np.where(random.random(800) < 1 / one_of, longer, 0)
        turns = LENGTH // TURNS * TURNS + interrupts(random, 800, 0.02)
        parts.append(windows_of(LENGTH + rare + interrupts(random, 800, 0.02), turns))
    found = said(*parts)
    truth = 1 + longer / one_of / LENGTH
    assert found.differs
    assert found.low <= truth <= found.high, (found, truth)
    assert found.mean == pytest.approx(truth, rel=0.25)


def test_the_mean_is_one_where_the_tenth_that_is_quoted_is_of_short_calls_in_some_processes_only():
    """A stranger's kernel, one call of ten much shorter: 345,000 cycles on average were said of calls of 288,000."""
    parts = [windows_of(np.where(np.arange(800) % 10 == 3, LENGTH // 5, LENGTH)) for _ in range(5)]
    quoted = [LENGTH / CALLS / (5 if short else 1) for short in (True, False, False, True, False)]
    found = later_calls(parts, [np.full(30, LENGTH / CALLS)] * 5, quoted, LINK, CALLS)
    assert found.mean == pytest.approx(0.92, abs=0.002)
    assert 0.9 < found.low < 0.9201
    assert 0.9199 < found.high < 0.94


def test_the_interval_of_the_mean_holds_what_processes_have_in_common():
    """Five processes, in each of which all calls take the same, 4 % more or less than in the others."""
    parts = [windows_of(np.full(800, round(LENGTH * (1 + 0.02 * k)))) for k in range(-2, 3)]
    found = said(*parts)
    assert found.mean == pytest.approx(1, abs=0.001)
    assert found.low < 0.97
    assert found.high > 1.03


def test_samples_that_hold_no_whole_number_of_turns_do_not_hide_the_mean():
    """Every third call takes half as long again, four are timed as one: one or two of the long ones."""
    calls = np.where(np.arange(16_000) % 3 == 0, 2_500, 1_500)
    found = said(windows_of(calls.reshape(-1, CALLS).sum(axis=1)), quoted=1_800)
    assert found.differs
    assert 1_800 * found.mean == pytest.approx(calls.mean(), rel=0.005)


def test_what_runs_beside_a_neighbour_or_another_program_is_not_the_kernels():
    random = np.random.default_rng(2)
    n = 1000
    busy = random.random(n) < 0.3
    beside = windows_of(np.where(busy, 1.9, 1) * LENGTH, busy=busy)
    other = random.random(n // IN_BLOCK) < 0.2
    taken = np.repeat(other, IN_BLOCK) & (np.arange(n) % IN_BLOCK == 2)
    preempted = windows_of(np.where(taken, 8e6, LENGTH), waited=np.where(other, 8e6 - LENGTH, 0))
    for one in (beside, preempted):
        found = said(*[one] * 5)
        assert not found.differs
        assert found.mean == pytest.approx(1, abs=0.001)
        assert 0 < found.calls < 5 * n * CALLS, "these are not called looked at"
    # A long call counts although another program had the processor meanwhile: it does so the more the longer a call is.
    taken &= random.random(n) < 0.5
    long = windows_of(np.where(taken, 14e6, LENGTH), waited=np.where(other, 8e6 - LENGTH, 0))
    assert said(*[long] * 5).mean == pytest.approx(1 + taken.mean() * 6e6 / LENGTH, rel=0.1)


def test_few_windows_say_nothing_of_the_mean():
    """Of 2,000 calls beside a busy thread nine were looked at, and said to take 3 % less."""
    n = 100
    few = windows_of(np.full(n, 0.97 * LENGTH), busy=np.arange(n) % 100 > 2)
    found = said(*[few] * 5)
    assert 0 < found.calls < 30 * CALLS
    assert not found.differs


def test_rare_calls_beside_a_neighbour_are_not_counted_twice():
    """Of windows beside it, those of a long kind counted, and the others did not: 43 % for 30 %."""
    random = np.random.default_rng(4)
    busy, rare = random.random((5, 2000)) < 0.5, random.random((5, 2000)) < 0.15
    cycles = np.where(busy, 1.5, 1.0) * LENGTH * np.where(rare, 2.8, 1.0)
    found = said(*(windows_of(one, busy=beside) for one, beside in zip(cycles, busy, strict=True)))
    assert found.differs
    assert found.low <= 1 + 0.15 * 1.8 <= found.high
    assert found.mean == pytest.approx(1.27, rel=0.03)


@pytest.mark.parametrize("times", [0.1, 0.9, 1.1, 3.0])
def test_later_calls_that_take_longer_or_less_are_told(times):
    cycles = np.where(np.arange(1000) < 500, LENGTH, times * LENGTH)
    assert said(*[windows_of(cycles)] * 5).changed == pytest.approx(times)
    alike = [windows_of(np.full(1000, LENGTH))] * 2
    assert said(*[windows_of(cycles)] * 3, *alike).changed == 1, "processes do not agree"


def test_calls_in_which_the_processor_is_given_up_do_not_count():
    gave = np.arange(200) % 2
    cycles = np.where(np.repeat(gave, IN_BLOCK), 10 * LENGTH, LENGTH)
    found = said(windows_of(cycles, gave=gave))
    assert not found.differs
    assert found.calls == CALLS * 500


def test_how_rare_work_may_be_is_said():
    many, few = rarest(30_000, 0.01), rarest(30, 0.03)
    assert many.endswith("ran: what fewer than one of 1,000 does, or adds less than 1% to the mean, would not show")
    assert few.startswith("30 were looked at while nothing else ran: what some alone do, or adds less than 3%")
    assert rarest(0, 0.01).startswith("none was looked at")


RESULT = TrueCycles("k", np.full(30, 100.0), 30, 0, 4, 0.1, 1.0, 3, "", quiet=True, process=np.repeat([0, 1, 2], 10))


def test_the_summary_says_what_calls_differ_by():
    told = replace(RESULT, looked=6000, average=(116.0, 112.0, 121.0), differs=True, gave=(0, 9000))
    assert told.mean == 116
    assert "100.00 cycles per call in the fastest tenth, 116 on average" in told.summary()
    counted = (
        "Of the first 3,000 calls of each of 3 processes, together 9,000, 6,000 were looked at while nothing else ran"
    )
    assert counted in told.summary()
    others = replace(told, among=8500).summary()
    assert "Of 3,000 calls of each of 3 processes (9,000 from among the first 8,500), 6,000 were looked at" in others
    assert counted in replace(told, among=3000).summary()
    assert "Calls take 116 cycles on average (112 to 121" in told.summary()
    alike = replace(told, differs=False, average=(100.3, 99.9, 100.5))
    assert "on average" not in alike.summary()
    assert alike.settled
    later = replace(alike, changed=0.1)
    assert "100.00 cycles per call at first, 10 later" in later.summary()
    assert "CALLS CHANGE" in later.summary()
    assert not later.settled
    waits = replace(alike, gave=(500, 9000))
    assert "IT WAITS" in waits.summary()
    assert "The kernel gave the processor up 500 times in 9,000 calls (it sleeps" in waits.summary()
    assert not waits.settled


def test_it_is_kept(tmp_path):
    told = replace(RESULT, looked=6000, average=(116.0, 112.0, 121.0), differs=True, gave=(2, 9000), among=8500)
    told = replace(told, changed=1.5)
    back = TrueCycles.load(told.save(tmp_path / "cycles.npz"))
    assert back.summary() == told.summary()
    assert (back.average, back.gave, back.among) == (told.average, told.gave, told.among)


CHAIN_OF = r"""#include <unistd.h>
static unsigned long x = 3, calls;
static void work(long n) { do __asm__ volatile(".rept 10\n\timul %0, %0\n\t.endr" : "+r"(x)); while (--n > 0); }
void f(long n) {{ {} }}
""".replace("static void work(long n) {", "static void work(long n) {{").replace("> 0); }", "> 0); }}")


def measured(body: str, n: int) -> TrueCycles:
    """Measure a chain whose every link takes `link` cycles: `work(n)` are 10 n of them."""
    kernel = compile_kernel(CHAIN_OF.format(body), "f", flags="-O2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        return true_cycles(kernel, n)


@pytest.mark.measures
@pytest.mark.parametrize(
    ("body", "n", "times"),
    [
        ("work(n); if (++calls % 100 == 0) work(40 * n);", 300, 1.4),
        ("work(n); if (++calls % 2 == 0) work(n);", 100, 1.5),
        ("work(n); if (++calls % 3 == 0) work(n / 2);", 150, 1 + 1 / 6),
    ],
)
def test_calls_that_differ_are_told_with_their_mean(body, n, times):
    """Quoted was what the fastest tenth takes, and nothing said that there were others."""
    found = measured(body, n)
    truth = times * found.link * 10 * n
    if abs(found.cycles / truth - 1) < 0.012:  # as many calls as take a whole number of turns: all take the mean
        assert not found.differs
        return
    assert found.differs, found.summary()
    assert found.mean == pytest.approx(truth, rel=0.1), found.summary()
    assert "on average" in found.summary()


RANDOM = """static unsigned long x = 3, s = 88172645463325252UL;
void f(void) {
    s ^= s << 13; s ^= s >> 7; s ^= s << 17;
    for (long n = s % 10000 ? 300 : 300300; n; n--) __asm__ volatile("imul %0, %0" : "+r"(x));
}"""


def drawn(calls: int) -> int:
    """How many of the first calls of RANDOM are long."""
    s, found = 88172645463325252, 0
    for _ in range(calls):
        s ^= s << 13 & (1 << 64) - 1
        s ^= s >> 7
        s ^= s << 17 & (1 << 64) - 1
        found += s % 10_000 == 0
    return found


@pytest.mark.measures
def test_processes_do_not_all_look_at_the_same_calls_of_a_fixed_seed():
    """One call of 10,000 takes 1,001 times as long: 1,189 on average (1,061 to 1,358) for 941, of seven long calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        found = true_cycles(compile_kernel(RANDOM, "f", flags="-O2"))
    truth = found.cycles + found.link * 300_000 * drawn(found.among) / found.among
    assert found.among > 3 * found.gave[1] / 5, found.summary()
    assert found.mean == pytest.approx(truth, rel=0.1), found.summary()


@pytest.mark.measures
def test_a_table_that_the_first_calls_fill_is_told():
    """What the first calls take was quoted, and nothing said that the others take a tenth of it."""
    found = measured("work(calls++ < 3000 ? 10 * n : n);", 10)
    # Beside a busy thread the samples of some processes last longer than the table takes, and the processes differ.
    assert found.changed == pytest.approx(0.1, rel=0.1) or found.differs or not found.settled, found.summary()


@pytest.mark.measures
def test_a_kernel_that_sleeps_is_told():
    found = measured("work(n); if (++calls % 3 == 0) usleep(20);", 300)
    assert found.waits, found.summary()
    assert "gave the processor up" in found.summary()


@pytest.mark.measures
@pytest.mark.parametrize("n", [10, 300, 10_000, 100_000])
def test_calls_that_are_alike_are_said_to_be(n):
    found = measured("work(n);", n)
    assert (found.differs, found.changed, found.waits) == (False, 1.0, False), found.summary()
    assert f"{found.looked:,} were looked at" in found.summary()
