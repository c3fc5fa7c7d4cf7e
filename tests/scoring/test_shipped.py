"""The shipped simulated runs: samples and truth are of the same runs, and say what they are."""

import importlib

import pytest

import perfkit as pk
from perfkit import scoring
from tests.scoring.test_bottlenecks_data import MAKE


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
    one_build = [run for run in truth.runs if run.endswith("avx2")]
    assert set(roofs["run"]) <= set(one_build)
    assert set(roofs["caches"]) == {"warm", "cold"}
    assert pk.datasets.load(f"pmu/{core}-truth-warm").runs == one_build
    assert list(importances["run"]) == one_build
    resources = set(importances.columns) - {"run"}
    assert resources - set(truth.speedup.columns) <= {"scheduler"}  # of a core's file, not simulated
    assert resources >= set(truth.speedup.columns)
    assert importances.drop(columns="run").sum(axis=1).tolist() == pytest.approx([1.0] * len(importances))


def test_the_runs_are_of_the_simulator_that_the_bottlenecks_are_of():
    """Where this fails, the model changed: python data/make/pmu.py, then pmu_scores.py prints the page's table."""
    assert pk.datasets.load("pmu/answers") == pk.datasets.load("bottlenecks/answers")


def test_every_method_can_be_scored_and_the_page_shows_it(monkeypatch):
    """Where this fails: python data/make/pmu_scores.py prints the table of docs/simulated-pmu.md."""
    monkeypatch.syspath_prepend(str(MAKE))
    scores = importlib.import_module("pmu_scores")
    page = (MAKE.parents[1] / "docs" / "simulated-pmu.md").read_text(encoding="utf-8")
    found = [
        scoring.importance_scores(importances, truth) for importances, truth in map(scores.forest_of, scores.CORES)
    ]
    for line in scores.lines(tuple(found)):
        assert line in page
    for core in scores.CORES:
        for caches, roofs in scores.roofs_of(core).items():
            row = roofs.measures.iloc[0]
            assert f"| extended roofline, {caches} | {row.name} |" in page
            assert f"{row['score']:.2f} ({row['low']:.2f} to {row['high']:.2f}, {row['runs']:.0f} runs)" in page


def test_variants_hold_the_default_settings_scores():
    variants = pk.datasets.load("pmu/skylake_x-variants")
    assert set(variants["variant"]) >= {"12 intervals", "24 intervals", "200 intervals", "5 % noise"}
    assert set(variants["method"]) == {"SPIRE", "CPI stack by regression"}
