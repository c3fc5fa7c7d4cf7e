"""The shipped simulated runs: samples and truth are of the same runs, and say what they are."""

import pytest

import perfkit as pk


@pytest.mark.parametrize("core", ["skylake_x", "zen4"])
def test_shipped_samples_and_truth_are_of_the_same_simulation(core):
    samples, truth = pk.datasets.load(f"pmu/{core}"), pk.datasets.load(f"pmu/{core}-truth")
    assert samples.kind == truth.kind == "simulated"
    assert set(samples.runs["host"]) == {f"simulated {core}"}
    assert truth.core == core
    assert list(samples.runs.index) == truth.runs
    assert samples.runs["workload"].to_dict() == truth.workload.to_dict()
    each = samples.intervals().groupby("run", observed=True)[["time", "work"]].sum()
    cpi = each["time"] / each["work"]
    assert cpi.to_dict() == pytest.approx(truth.cpi.to_dict(), rel=1e-9)


@pytest.mark.parametrize("core", ["skylake_x", "zen4"])
def test_shipped_roofs_and_importances_are_of_those_runs(core):
    truth = pk.datasets.load(f"pmu/{core}-truth")
    roofs, importances = pk.datasets.load(f"pmu/{core}-roofs"), pk.datasets.load(f"pmu/{core}-importances")
    assert set(roofs["run"]) <= set(truth.runs)
    assert set(roofs["caches"]) == {"warm", "cold"}
    assert pk.datasets.load(f"pmu/{core}-truth-warm").runs == truth.runs
    assert set(importances["run"]) == set(truth.runs)
    resources = set(importances.columns) - {"run"}
    assert resources == set(truth.speedup.columns)
    assert importances.drop(columns="run").sum(axis=1).tolist() == pytest.approx([1.0] * len(importances))


def test_variants_hold_the_default_settings_scores():
    variants = pk.datasets.load("pmu/skylake_x-variants")
    assert set(variants["variant"]) >= {"12 intervals", "24 intervals", "200 intervals", "5 % noise"}
    assert set(variants["method"]) == {"SPIRE", "CPI stack by regression"}
