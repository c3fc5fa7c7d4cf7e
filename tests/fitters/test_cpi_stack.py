"""CPI stacks: hand-computed cases, planted truths, exact sums and what must not matter."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.fitters.cpi.solvers import unexplained

# Hand-computed: base 0.5, 20 cycles per branch miss, 100 a cache miss; cycles = base*I + 20 b + 100 m, without noise.
I = np.array([1000.0, 800, 1200, 500, 900, 700, 1500, 400])  # noqa: E741
B = np.array([10.0, 2, 30, 5, 8, 0, 12, 9])
M = np.array([1.0, 5, 0, 2, 7, 3, 4, 1])
C = 0.5 * I + 20 * B + 100 * M


def counts(cycles=C, instructions=I, run="w", **events):
    events = events or {"branch-misses": B, "cache-misses": M}
    wide = pd.DataFrame({"cycles": cycles, "instructions": instructions, **events})
    wide["interval"] = np.arange(len(wide))
    long = wide.melt(id_vars="interval", var_name="event", value_name="count").assign(run=run)
    return pk.Samples.from_counts(long)


@pytest.mark.parametrize("form", ["ipc", "cpi"])
@pytest.mark.parametrize("method", ["nnls", "ols", "huber", "lasso"])
def test_an_exact_stack_is_found_exactly(form, method):
    fit = pk.CpiStack(form=form, method=method, resamples=0).fit(counts())
    assert fit.base == pytest.approx(0.5, rel=1e-9)
    assert fit.penalties.to_dict() == pytest.approx({"branch-misses": 20, "cache-misses": 100}, rel=1e-9)
    assert fit.r2.in_sample == pytest.approx(1.0, abs=1e-12)
    assert fit.bracket.ipc == pytest.approx(fit.bracket.cpi)


def test_components_are_penalty_times_rate_of_the_totals():
    fit = pk.CpiStack().fit(counts())
    assert fit.cpi == pytest.approx(C.sum() / I.sum())
    assert fit.components["branch-misses"] == pytest.approx(20 * B.sum() / I.sum())
    assert fit.components["cache-misses"] == pytest.approx(100 * M.sum() / I.sum())
    assert fit.misplaced == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("form", ["ipc", "cpi"])
@pytest.mark.parametrize("method", ["nnls", "ols", "huber", "lasso"])
@pytest.mark.parametrize("weights", ["auto", "cycles", "instructions", "none"])
def test_base_components_and_residual_sum_to_the_aggregate_cpi(form, method, weights):
    samples, _ = pk.synthetic_cpi(intervals=200, noise=0.1, seed=2)
    fit = pk.CpiStack(form=form, method=method, weights=weights, resamples=0, placebos=1).fit(samples)
    assert fit.components.sum() + fit.residual == pytest.approx(fit.cpi, rel=1e-12)
    if weights == "auto" and method in ("nnls", "ols"):
        assert fit.residual == pytest.approx(0, abs=1e-9)
    if method == "huber":
        assert abs(fit.residual) > 1e-6  # robust weights leave something unattributed


def test_a_planted_stack_is_recovered_within_its_intervals():
    samples, truth = pk.synthetic_cpi(intervals=1500, seed=5, idle={"page-faults": 0.02})
    fit = pk.CpiStack().fit(samples)
    frame = fit.to_frame()
    assert fit.base == pytest.approx(truth.base, rel=0.02)
    assert fit.penalties["branch-misses"] == pytest.approx(18, rel=0.05)
    assert fit.penalties["LLC-load-misses"] == pytest.approx(180, rel=0.05)
    parts = truth.components.drop("unattributed").index
    assert np.abs(fit.components[parts] - truth.components[parts]).max() < 0.005
    inside = (frame.loc[parts, "low"] <= truth.components[parts]) & (
        truth.components[parts] <= frame.loc[parts, "high"]
    )
    assert inside.mean() >= 0.8  # 95 % each
    assert fit.verdict.level == "supported"
    assert fit.kind == "generated"
    assert "[generated data]" in repr(fit)


def test_the_placebo_is_near_zero_in_the_ipc_form_and_high_in_the_cpi_form():
    samples, _ = pk.synthetic_cpi(intervals=1000, seed=1)
    fit = pk.CpiStack(resamples=0).fit(samples)
    assert fit.placebo_r2 == pytest.approx(0, abs=0.02)
    assert fit.refit(form="cpi").placebo_r2 > 0.6


def test_settings_are_checked():
    with pytest.raises(SettingError, match=r"form is one of ipc, cpi; found 'cip'"):
        pk.CpiStack(form="cip")
    with pytest.raises(SettingError, match="ordinary least squares knows no bounds"):
        pk.CpiStack(method="ols", bounds={"a": (0, 1)})


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from(["ipc", "cpi"]), st.integers(0, 50))
@settings(max_examples=12, deadline=None)
def test_units_of_counts_do_not_matter(a, b, form, seed):
    """A count in other units has its penalty in other units; components stay."""
    samples, _ = pk.synthetic_cpi(intervals=80, seed=seed)
    data = pk.CpiCounts.from_samples(samples)
    factor = np.ones(len(data.events))
    factor[[0, 3]] = 10.0**a, 10.0**b
    other = replace(data, counts=data.counts * factor)
    quick = pk.CpiStack(form=form, resamples=0, placebos=1)
    one, two = quick.fit(data), quick.fit(other)
    assert two.components.to_numpy() == pytest.approx(one.components.to_numpy(), abs=1e-7)
    assert (two.penalties * factor).to_numpy() == pytest.approx(one.penalties.to_numpy(), rel=1e-5, abs=1e-6)


@given(st.integers(0, 1000), st.sampled_from(["ipc", "cpi"]), st.sampled_from(["nnls", "huber", "lasso"]))
@settings(max_examples=10, deadline=None)
def test_stacks_sum_and_are_not_negative_whatever_the_data(seed, form, method):
    rng = np.random.default_rng(seed)
    n, k = 60, 5
    wild = rng.gamma(0.3, 1e5, (n, k)).round()
    data = pk.CpiCounts.from_samples(
        counts(
            cycles=rng.gamma(2, 1e6, n).round() + 1,
            instructions=rng.gamma(2, 1e6, n).round() + 1,
            **{f"e{i}": wild[:, i] for i in range(k)},
        )
    )
    fit = pk.CpiStack(form=form, method=method, resamples=20, placebos=1).fit(data)
    assert fit.components.sum() + fit.residual == pytest.approx(fit.cpi, rel=1e-9)
    assert (fit.penalties >= 0).all()
    assert (fit.component_draws.to_numpy() >= 0).all()


def test_events_can_be_given_in_any_order():
    samples, _ = pk.synthetic_cpi(intervals=150, seed=3)
    fit = pk.CpiStack(resamples=0).fit(samples)
    turned = pk.CpiStack(events=fit.events[::-1], resamples=0).fit(samples)
    assert turned.events == fit.events[::-1]
    assert turned.penalties[list(fit.events)].to_numpy() == pytest.approx(fit.penalties.to_numpy(), rel=1e-6)


def test_a_refit_changes_what_it_is_told_and_nothing_else():
    samples, _ = pk.synthetic_cpi(intervals=300, seed=3)
    fit = pk.CpiStack(resamples=0).fit(samples)
    before = fit.to_frame()
    two = fit.refit(events=["branch-misses", "LLC-load-misses"])
    assert two.events == ("branch-misses", "LLC-load-misses")
    assert two.refit(events=fit.events).penalties.to_dict() == pytest.approx(fit.penalties.to_dict())
    rows = np.arange(300) < 100
    phase = fit.refit(rows=rows)
    assert len(phase.data) == 100
    assert phase.cpi != pytest.approx(fit.cpi, rel=1e-4)
    direct = pk.CpiStack(resamples=0).fit(samples.select(mask=samples.table["interval"] < 100))
    assert phase.penalties.to_dict() == pytest.approx(direct.penalties.to_dict())
    pd.testing.assert_frame_equal(fit.to_frame(), before)


def test_bounds_hold_and_what_they_cut_off_stays_unattributed_or_moves():
    samples, _ = pk.synthetic_cpi(intervals=400, seed=3)
    for form in ("ipc", "cpi"):
        free = pk.CpiStack(form=form, resamples=0).fit(samples)
        inside = pk.CpiStack(form=form, bounds={"branch-misses": (1, 1000)}, resamples=0).fit(samples)
        assert inside.penalties.to_dict() == pytest.approx(free.penalties.to_dict(), rel=1e-4)
        bounds = {"branch-misses": (5, 10), "base": (0.2, 0.3)}
        bound = pk.CpiStack(form=form, bounds=bounds, resamples=20).fit(samples)
        assert bound.penalties["branch-misses"] == pytest.approx(10, rel=1e-6)
        assert bound.base == pytest.approx(0.3, rel=1e-6)
        assert abs(bound.residual) > 1e-4
        assert bound.components.sum() + bound.residual == pytest.approx(bound.cpi)
        assert bound.r2.in_sample < free.r2.in_sample


def test_a_given_price_of_the_lasso_is_used():
    samples, _ = pk.synthetic_cpi(intervals=200, seed=3)
    dear = pk.CpiStack(method="lasso", alpha=10.0, resamples=0).fit(samples)
    assert (dear.penalties == 0).all()
    assert dear.alpha == 10.0
    assert dear.components["base"] == pytest.approx(dear.cpi)


def test_intervals_are_those_of_the_stack():
    fit = pk.CpiStack(resamples=0).fit(counts())
    assert fit.intervals()["predicted"].to_numpy() == pytest.approx(C / I)


def test_correlations_have_cpi_first():
    matrix = pk.CpiStack(resamples=0).fit(counts()).correlation()
    assert matrix.index[0] == "CPI"
    assert matrix.loc["CPI", "branch-misses"] == pytest.approx(np.corrcoef(C / I, B / I)[0, 1])


def test_the_report_always_has_placebo_and_bracket():
    text = pk.CpiStack(resamples=0).fit(counts()).report()
    assert "placebo R2" in text
    assert "bracket 0.500 to 0.500" in text
    assert "-0.0000" not in text


def test_runs_are_kept_apart_in_blocks_but_fitted_together():
    one, two = counts(run="a"), counts(run="b")
    fit = pk.CpiStack(resamples=5).fit(pk.Samples.concat([one, two]))
    assert len(fit.data) == 16
    assert fit.data.segments().tolist() == [0] * 8 + [1] * 8
    assert fit.name == "2 workloads"


def test_what_rounding_leaves_is_no_residual():
    """Tables said 2.2e-16 and -0.0000 of it."""
    for seed in range(6):
        fit = pk.CpiStack(resamples=0, placebos=1).fit(pk.synthetic_cpi(intervals=120, seed=seed)[0])
        assert fit.residual == 0
        assert not np.signbit(fit.residual)
        assert fit.to_frame().loc["residual", "component"] == 0


def test_what_a_fit_leaves_unexplained_stays_however_small():
    assert unexplained(1.0, np.array([0.5, 0.5 - 1e-9])) == pytest.approx(1e-9)
    assert unexplained(1.0, np.array([0.75, 0.5])) == -0.25
    assert unexplained(0.3, np.array([0.1, 0.2])) == 0  # 5.6e-17 in binary
