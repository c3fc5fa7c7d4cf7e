"""What the units take for granted of the data that they draw: kernels are clear cases, generators keep their truth."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from perfkit import DagCore, DagScheduler, relax
from perfkit.course import unit3, unit4, unit5, unit6
from perfkit.fitters.cpi.counts import CpiCounts


@pytest.mark.parametrize(("core", "trace"), [one for alike in unit4.NEXT for one in alike])
def test_what_binds_first_and_next_is_clear(core: str, trace: str):
    run = unit4.simulated(core, trace)
    first = run.sensitivity((2.0,)).to_frame()
    assert first["x2"].iloc[0] > max(0.1, 1.3 * first["x2"].iloc[1])
    then = run.what_if({first["resource"].iloc[0]: 2.0}).to_frame()
    assert then["x2"].iloc[0] > max(0.03, 1.3 * then["x2"].iloc[1])
    assert then["resource"].iloc[0] != first["resource"].iloc[0]


@pytest.mark.parametrize(("core", "trace"), unit4.RESPONSIBLE)
def test_the_responsible_instruction_is_clear_and_not_the_most_frequent(core: str, trace: str):
    causes = unit4.simulated(core, trace).causality()
    largest, second, *_ = [*unit4.by_mnemonic(causes).values(), 0.0]
    assert largest > 1.3 * second
    assert unit4._responsible(core, trace).value not in [m.value for m in unit4._responsible(core, trace).mistakes]


@pytest.mark.parametrize(("width", "trace"), unit4.TOGETHER)
def test_two_resources_help_together_far_more_than_alone(width: int, trace: str):
    both = unit4._both(width, trace)
    assert both.value > 1.05 * both.mistakes[0].value


@pytest.mark.parametrize("case", range(len(unit5.CASES)))
def test_one_resource_gains_far_more_than_any_other(case: int):
    name, changes = unit5.CASES[case]
    for values in product(*changes.values()):
        core = DagCore.sandy_bridge_erm().replace(**unit5._deep_for(dict(zip(changes, values, strict=True))))
        gains = relax(unit5.loop(name), DagScheduler(core)).to_frame()["gain"]
        assert gains[0] > max(0.25, 1.8 * gains[1]), values


@pytest.mark.parametrize(("apart", "lines"), list(product((4, 5, 8), (12, 20, 40))))
def test_littles_law_says_how_many_buffers_are_enough(apart: int, lines: int):
    loads = unit5.loop("gather from memory", 600)
    tried = range(lines - 4, lines + 4)
    cores = {n: unit5.gathering_core(lines * apart, apart, n) for n in (*tried, 400)}
    cycles = {n: DagScheduler(core, record=False).run(loads).cycles for n, core in cores.items()}
    enough = next(n for n in tried if cycles[n] <= 1.02 * cycles[400])
    assert abs(enough - lines) <= 0.05 * lines


def test_a_clock_is_right_on_average_and_wrong_by_less_than_a_tick():
    durations = np.random.default_rng(1).uniform(5.0, 200.0, 20_000)
    error = unit3.read_clock(durations, 40.0, seed=2) - durations
    assert np.abs(error).max() < 40.0
    assert abs(error.mean()) < 4 * 40.0 / np.sqrt(len(durations))


def test_nothing_disturbs_a_generated_run_into_being_faster():
    found = unit3.timings(1000.0, 5000, seed=1, cold=5.0, warm_up=4, interrupted=0.1, beside=np.arange(5000) % 2 == 0)
    assert found.min() >= 1000.0
    assert np.median(found[101::2]) == pytest.approx(1000.0, rel=0.01)


def test_compared_in_turns_a_test_keeps_its_promise_and_one_after_the_other_it_does_not():
    turns = unit3.two_sides(4000, 30, seed=3, in_turns=True)
    assert np.mean(stats.ttest_rel(*turns, axis=1).pvalue < 0.05) == pytest.approx(0.05, abs=4 * 0.0035)
    apart = unit3.two_sides(1000, 30, seed=3)
    assert np.mean(stats.ttest_ind(*apart, axis=1).pvalue < 0.05) > 0.5
    a, b = unit3.two_sides(2000, 30, seed=4, effect=0.02, in_turns=True)
    assert (b / a).mean() == pytest.approx(1.02, abs=0.001)


def test_r2_of_events_kept_out_is_that_of_the_fit():
    from perfkit.fitters.cpi.stack import CpiStack

    samples, order, r2 = unit6._many_events(1)
    fit = CpiStack(method="ols", events=order[:4], resamples=0, placebos=1).fit(samples)
    assert r2.loc[4, "in sample"] == pytest.approx(fit.r2.in_sample, abs=1e-9)
    assert r2.loc[4, "phases kept out"] == pytest.approx(fit.r2.blocked, abs=1e-9)
    assert r2["in sample"].is_monotonic_increasing


def test_an_added_event_is_counted_and_leaves_the_others_alone():
    samples, _ = unit6.synthetic_cpi(intervals=30, seed=1)
    before, added = CpiCounts.from_samples(samples), np.arange(1.0, 31.0)
    after = CpiCounts.from_samples(unit6.with_event(samples, "one more", added))
    assert after.events == (*before.events, "one more")
    assert (after.counts[:, -1] == added).all()
    assert (after.counts[:, :-1] == before.counts).all()
