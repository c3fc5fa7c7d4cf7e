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


def test_the_page_shows_the_shipped_league(monkeypatch):
    """Where this fails: python data/make/league.py docs prints the table of docs/bottlenecks.md."""
    monkeypatch.syspath_prepend(str(MAKE))
    league = pk.datasets.load("bottlenecks/league").set_index("method")
    page = (MAKE.parents[1] / "docs" / "bottlenecks.md").read_text(encoding="utf-8")
    assert script("league").markdown(league) in page
