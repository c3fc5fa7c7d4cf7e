"""CPI stacks: hand-computed cases, planted truths, exact sums and what must not matter."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError

# Hand-computed: base 0.5, 20 cycles a branch miss, 100 a cache miss; cycles = base*I + 20 b + 100 m, without noise.
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
    assert fit.verdict.level == "carries"
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
