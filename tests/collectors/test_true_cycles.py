"""True cycles against known answers: chains whose length in cycles is known, and the Gus paper's Fig. 1."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.host.cycle_clock import CHAIN, link_cycles, ticks_to_cycles
from perfkit.collectors.host.true_cycles import TrueCycles, true_cycles
from perfkit.collectors.kernels import compile_kernel, corpus_kernel
from perfkit.errors import DataError, SettingError, UnavailableError

COUNT = 4000
HAS_FMA = "fma" in Path("/proc/cpuinfo").read_text().split()


# Chains for known answers take their operand from a register: Golden Cove executes additions of constants, and many
# cores execute moves, while renaming; no core does so with operations on two registers. Memory carries the chain from
# call to call, which would overlap otherwise.
CHAIN_OF = r"""static volatile unsigned long carried = 1;
void f(long n) {{
    unsigned long x = carried, y = 3;
    do __asm__ volatile(".rept 8\n\t{link}\n\t.endr" : "+r"(x) : "r"(y) : "cc", "xmm0", "xmm1"); while (--n);
    carried = x;
}}"""


def cycles_per_link(link: str) -> TrueCycles:
    """Measure a chain of COUNT links."""
    return true_cycles(compile_kernel(CHAIN_OF.format(link=link)), COUNT // 8)


@pytest.mark.skipif(not HAS_FMA, reason="this processor has no FMA")
@pytest.mark.parametrize("name", ["fig1a", "fig1b"])
def test_the_gus_papers_figure_1_takes_8_cycles_an_iteration(name):
    """Two dependent FMAs bound both versions: 4 cycles each, as in the paper, or 5 (Broadwell, Zen, Zen 2)."""
    fma = cycles_per_link("vfmadd231ps %%xmm1, %%xmm1, %%xmm0").per(COUNT)
    latency = round(fma)
    assert 4 <= latency <= 6
    assert fma == pytest.approx(latency, rel=0.03)  # the chains of two calls overlap a little
    measured = true_cycles(corpus_kernel(name, "avx2", defines={"COUNT": COUNT}))
    assert measured.per(COUNT) == pytest.approx(2 * latency, rel=0.01)


def test_a_dependent_addition_takes_a_cycle():
    measured = cycles_per_link("add %1, %0")
    # Never less than one; a neighbour on the core's other thread takes some of the adders (up to 3 % were seen).
    assert 0.995 < measured.per(COUNT) < 1.05
    assert measured.calls > 1  # 4000 cycles are too few for one sample
    assert len(measured.samples) + measured.rejected == measured.repetitions == 400
    assert 0 <= measured.spread < 0.5
    row = measured.to_frame().iloc[0]
    assert row["cycles"] == measured.cycles
    assert row["kept"] == len(measured.samples)


@pytest.mark.parametrize("link", ["xor %1, %0", "and %1, %0", "or %1, %0", "sub %1, %0"])
def test_dependent_operations_of_two_registers_take_a_cycle(link):
    """Four more that take a cycle on any core, so that the clock does not depend on additions alone."""
    assert 0.99 < cycles_per_link(link).per(COUNT) < 1.05


def test_twice_the_work_takes_twice_the_cycles_with_arguments():
    kernel = compile_kernel(
        "double f(double x, const double *y, long n) { for (long i = 0; i < n; i++) x = x * y[0] + 1; return x; }",
        flags="-O2",
    )
    one, two = (true_cycles(kernel, 1.5, np.full(4, 0.5), n, repetitions=200).cycles for n in (5000, 10000))
    assert two / one == pytest.approx(2.0, rel=0.03)
    assert one / 5000 > 3


def test_ticks_become_cycles_and_disturbed_samples_are_rejected():
    """By hand: at 2 ticks a cycle a chain of 3-cycle links takes 24576 ticks, and 1000 ticks are 500 cycles."""
    chain = 2 * 3 * CHAIN
    ticks = np.array(
        [
            [chain, 1000, chain],
            [chain, 1000, chain * 1.01],  # within 2 %: the mean of both chains counts
            [chain, 1000, chain * 1.03],  # the clock changed
            [chain * 1.5, 9000, chain],  # interrupted
            [chain, -5, chain],
        ]
    )
    cycles, rates = ticks_to_cycles(ticks.astype(np.int64), 3, 0.02)
    assert cycles == pytest.approx([500, 500 / 1.005], rel=1e-4)
    assert rates == pytest.approx([2, 2.01], rel=1e-4)


def test_a_links_cycles_are_found_among_disturbed_pairs():
    """Most pairs have slowed additions, as a busy neighbour makes them: the undisturbed ones count."""
    slowed = np.linspace(1.0, 1.04, 100)
    pairs = np.column_stack([4096 * slowed, np.full(100, 3 * 4096)]).astype(np.int64)
    assert link_cycles(pairs) == 3
    interrupted = pairs.copy()
    late = np.random.default_rng(0).integers(1, 30_000, (100, 2))
    interrupted[::2, 1] += late[::2, 1]  # every other multiplication was interrupted, and a few additions
    interrupted[1::6, 0] += late[1::6, 0]
    assert link_cycles(interrupted) == 3
    pairs[:, 1] = 3.5 * 4096
    with pytest.raises(UnavailableError, match="where a whole number was expected"):
        link_cycles(pairs)


@pytest.mark.parametrize(("link", "slowed"), [(3, 1.027), (3, 1.08), (4, 1.027), (5, 1.06), (6, 1.09)])
def test_a_neighbour_that_never_rests_does_not_hide_a_links_cycles(link, slowed):
    """Seen on a Sapphire Rapids guest: all additions slowed, 2.92 of them to a multiplication."""
    noise = np.random.default_rng(1).normal(1, 0.004, (100, 2))
    assert link_cycles((noise * [4096 * slowed, link * 4096]).astype(np.int64)) == link


def test_two_answers_are_none():
    pairs = np.column_stack([np.full(100, 4096), np.repeat([3 * 4096, 4 * 4096], 50)])
    with pytest.raises(UnavailableError, match="where a whole number was expected"):
        link_cycles(pairs)


def test_the_quoted_quantile():
    result = TrueCycles("k", np.arange(101.0) + 100, 120, 19, 1, 0.10, 1.0, 3, "")
    assert result.cycles == 110
    assert result.spread == pytest.approx(150 / 110 - 1)
    assert result.per(10) == 11


def test_results_are_kept(tmp_path):
    result = TrueCycles("k", np.arange(9.0), 10, 1, 2, 0.1, 1.25, 3, "a host")
    back = TrueCycles.load(result.save(tmp_path / "cycles.npz"))
    assert back.samples.tolist() == result.samples.tolist()
    assert back.to_frame().equals(result.to_frame())
    assert back.host == "a host"


def test_mistakes_are_told():
    kernel = corpus_kernel("latency-add", "scalar")
    for settings, message in [
        ({"repetitions": 3}, "10 or more, found 3"),
        ({"calls": 0}, "calls must be 1 or more"),
        ({"quantile": 2}, "quantile must lie"),
        ({"tolerance": 0}, "tolerance must be positive"),
    ]:
        with pytest.raises(SettingError, match=message):
            true_cycles(kernel, **settings)
    with pytest.raises(SettingError, match="found 7 and 0"):
        true_cycles(kernel, *range(7))
    with pytest.raises(DataError, match="failed while it was timed"):
        true_cycles(compile_kernel("void f(void) { __builtin_trap(); }"))
    with pytest.raises(DataError, match="not done after 2 s"):
        true_cycles(compile_kernel('void f(void) { for (;;) __asm__ volatile(""); }'), timeout=2)


def test_a_machine_that_never_stays_quiet_is_refused(monkeypatch):
    chaos = np.tile([CHAIN, 10_000, 2 * CHAIN], (400, 1)).astype(np.int64)
    monkeypatch.setattr("perfkit.collectors.host.true_cycles._run", lambda *_: (3, chaos))
    with pytest.raises(UnavailableError, match="400 of 400 repetitions were rejected"):
        true_cycles(corpus_kernel("latency-add", "scalar"), calls=1)
