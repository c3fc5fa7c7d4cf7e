"""The shipped runs that `perfkit.Bottlenecks` learnt from: balanced, labelled, and of today's simulator."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.machine.classes import CLASSES

MAKE = Path(__file__).parents[2] / "data" / "make"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, MAKE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return pk.datasets.load("bottlenecks/runs")


def test_the_data_are_of_todays_simulator():
    """Where this fails, the model changed: python data/make/pmu_runs.py, then league.py learn and table."""
    made = script("pmu_answers")
    shipped, today = json.loads(made.PATH.read_text()), made.answers()
    assert set(shipped) == set(today)
    stale = [name for name in shipped if shipped[name] != pytest.approx(today[name], rel=1e-8)]
    assert stale == [], "data/bottlenecks are of an older simulator: run data/make/pmu_runs.py and league.py"


def test_runs_are_many_and_spread_over_classes_and_cores(runs):
    generated = runs[runs["origin"] == "generated"]
    assert generated["workload"].nunique() >= 500
    assert runs["core"].nunique() >= 4
    credit = generated[[f"credit:{name}" for name in CLASSES]].fillna(0.0)
    first = credit.idxmax(axis=1).str.removeprefix("credit:")
    shares = first.value_counts(normalize=True)
    assert shares["instruction latency"] <= 0.2
    assert shares.max() <= 0.2
    assert len(shares) >= 18
    assert (generated.groupby("core")["workload"].nunique() == generated["workload"].nunique()).all()


def test_every_figure_is_what_it_says(runs):
    assert runs.attrs["kind"] == "simulated"
    cycles = runs[[f"rate:exec.{k}" for k in ("0", "1", "2", "3+")]].sum(axis=1)
    assert np.allclose(cycles, 1.0, atol=0.02)
    assert (runs["cycles"] > 0).all()
    assert not runs[["rate:instructions", "rate:uops", "rate:exec.0"]].isna().any().any()


def test_the_model_was_learnt_from_these_runs():
    shipped = pk.datasets.find("bottlenecks/runs")
    forest = pk.datasets.load("bottlenecks/model")
    assert str(forest.digest) == shipped.sha256[:16]


def test_the_league_is_of_these_runs_and_has_no_empty_figure(runs):
    league = pk.datasets.load("bottlenecks/league").set_index("method")
    figures = league[["first", "first low", "first high", "three", "tau", "runs"]]
    assert not figures.isna().any().any()
    assert (league["first low"] <= league["first"]).all()
    assert (league["first"] <= league["first high"]).all()
    others = [m for m in league.index if not m.startswith("Bottlenecks")]
    assert {"rules", "unusual rates", "SPIRE", "SPIRE, honest", "top-down tree", "one order for all"} <= set(others)
    assert league.loc["Bottlenecks", "first low"] > league.loc[others, "first high"].max()
    turned = [m for m in others if m.endswith(", 8 counters, 5 % noise")]
    assert {m.partition(",")[0] for m in turned} == {m.partition(",")[0] for m in others}
    ours = league[league.index.str.startswith("Bottlenecks")]
    assert not ours[["calibration error", "calibration error by chance"]].isna().any().any()


def test_probabilities_are_within_a_twentieth_for_kernels_and_for_kinds_that_were_held_out():
    league = pk.datasets.load("bottlenecks/league").set_index("method")
    for held in ("Bottlenecks", "Bottlenecks, core held out too", "Bottlenecks, kinds of loops held out"):
        for ending in ("", ", 8 counters, 5 % noise"):
            assert league.loc[held + ending, "calibration error"] <= 0.05, held + ending


@pytest.fixture
def league(monkeypatch):
    monkeypatch.syspath_prepend(str(MAKE))
    return script("league")


def test_the_calibration_error_and_what_of_it_is_chance_are_those_worked_out_by_hand(league):
    """Ten bins of ten answers of 0.8, seven all right, three all wrong; the mean deviation of Binomial(10, 0.8)."""
    said = np.zeros((100, len(CLASSES)))
    said[:, 0] = 0.8
    frame = pd.DataFrame({f"credit:{name}": np.full(100, 0.0) for name in CLASSES})
    first, second = frame.columns[:2]
    frame.loc[:69, first], frame.loc[70:, second] = 1.0, 1.0
    found = league.miscalibrated(frame, said)
    assert found["calibration error"] == pytest.approx(0.7 * 0.2 + 0.3 * 0.8)
    assert found["calibration error by chance"] == pytest.approx(0.0966, abs=0.003)


def test_no_kind_of_loop_that_is_tested_was_trained_on(league, runs):
    tested = np.zeros(len(runs), dtype=int)
    for train, test in league.held_out_kinds(runs):
        tested += test
        assert not (train & test).any()
        loops = test & (runs["origin"] == "generated").to_numpy()
        assert not set(runs["piece"][loops]) & set(runs["piece"][train]) - {""}
        assert not set(runs["workload"][test & ~loops]) & set(runs["workload"][train])
    assert (tested == 1).all()


def test_no_origin_that_is_tested_was_trained_on(league, runs):
    tested = np.zeros(len(runs), dtype=int)
    for train, test in league.held_out_origins(runs):
        tested += test
        assert not (train & test).any()
        origins = set(runs["origin"][test])
        assert len(origins) == 1
        if origins == {"generated"}:
            assert not set(runs["piece"][test]) & set(runs["piece"][train])
        else:
            assert not origins & set(runs["origin"][train])
    assert (tested == 1).all()


def test_the_model_has_a_curve_for_the_names_of_each_vendor_that_rises():
    """Where this fails: python data/make/league.py learn."""
    forest = pk.datasets.load("bottlenecks/model")
    assert forest.real.shape[2] > 2
    assert (np.diff(forest.real, axis=2) >= 0).all()


def test_rates_by_real_names_are_those_that_the_events_of_a_processor_give(league, runs):
    """A Skylake counts all uops of a port: two on port 0 alone and six that ports 0, 1, 5 and 6 take, two each."""
    core = pk.Microarchitecture.load("skylake_x")
    part = runs[runs["core"] == "skylake_x"].iloc[:1].copy()
    ports = {"p0": 0.2, "p01": 0.2, "p05": 0.2, "p06": 0.2, "p015": 0.2, "p016": 0.2, "p056": 0.2, "p0156": 0.8}
    none = {c: 0.0 for c in part.columns if c.startswith("rate:uops.")}
    part = part.assign(**none | {f"rate:uops.{name}": rate for name, rate in ports.items()})
    found = league.real_rates(part, core, league.divided_by(part)).iloc[0]
    assert found["uops.p0"] == pytest.approx(0.0)  # six of eight uops make all four ports equally busy
    assert found["uops.p0156"] == pytest.approx(0.8)
    assert found["branch-misses"] == pytest.approx(float(part["rate:branch-misses"].iloc[0]))


def test_in_turns_every_rate_is_the_one_that_counters_in_turns_give(league):
    frame = pd.DataFrame({"rate:uops": [2.0], "turn:uops": [2.2], "cycles": [9.0]})
    assert league.in_turns(frame)[["rate:uops", "cycles"]].to_numpy().tolist() == [[2.2, 9.0]]


def test_the_page_shows_the_shipped_league(monkeypatch):
    """Where this fails: python data/make/league.py docs prints the table of docs/bottlenecks.md."""
    monkeypatch.syspath_prepend(str(MAKE))
    league = pk.datasets.load("bottlenecks/league").set_index("method")
    page = (MAKE.parents[1] / "docs" / "bottlenecks.md").read_text(encoding="utf-8")
    assert script("league").markdown(league) in page
