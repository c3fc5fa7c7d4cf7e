"""Reports on one's own data: the answer, a picture, and no number that is not of the data given."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit import datasets
from perfkit.cli.main import app
from perfkit.cli.pages.answer import of_cpi, page
from perfkit.cli.pages.reports import REPORTS
from perfkit.errors import SettingError


def _dump(path, seed, cost=20.0, intervals=60):
    """Write a dump in which each miss costs `cost` cycles and each instruction half a cycle."""
    rng = np.random.default_rng(seed)
    instructions = rng.integers(1_000_000, 2_000_000, intervals)
    misses = rng.integers(1_000, 60_000, intervals)
    branch = rng.integers(100, 5_000, intervals)
    cycles = (0.5 * instructions + cost * misses + 15 * branch).astype(int)
    lines = []
    for k in range(intervals):
        values = {
            "cycles": cycles[k],
            "instructions": instructions[k],
            "L1-dcache-load-misses": misses[k],
            "branch-misses": branch[k],
        }
        lines += [f"{(k + 1) / 10:.9f},{value},,{event},100000000,100.00,," for event, value in values.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def dumps(tmp_path):
    for k in range(3):
        _dump(tmp_path / f"train {k}.csv", k, cost=10.0 + 5 * k)
    return _dump(tmp_path / "mine <b>.csv", 9)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.c"
    path.write_text("double f(double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }\n")
    return path


@pytest.fixture
def no_shipped_data(monkeypatch):
    """Fail where a data set that ships is opened."""

    def refuse(name, *_, **__):
        raise AssertionError(f"a report on one's own data opened the shipped {name}")

    monkeypatch.setattr(datasets, "load", refuse)
    monkeypatch.setattr(pk, "datasets", datasets)


def test_a_ranking_of_ones_own_dumps(perfkit, dumps, no_shipped_data):
    perfkit("report", "spire", "-p", "training", "train*.csv", "-p", "analysed", dumps.name, "-o", "out.html")
    text = dumps.with_name("out.html").read_text()
    assert "bounds this workload most" in text
    assert "data:image/png" in text
    assert "measured data" in text


def test_a_cpi_stack_finds_the_planted_cost(perfkit, dumps, no_shipped_data):
    told = perfkit("report", "cpi", "-p", "source", dumps.name, "-o", "out.html", "--json")
    assert json.loads(told)["notebook"] == "cpi"
    text = dumps.with_name("out.html").read_text().replace("<wbr>", "")  # where a long name may be broken
    assert "the largest other part is L1-dcache-load-misses" in text
    cost = float(re.search(r"<b>([\d.]+)</b><span>cycles per count of L1-dcache-load-misses", text)[1])
    assert cost == pytest.approx(20, rel=0.05)


def test_several_dumps_get_a_joint_first_look(perfkit, dumps):
    perfkit("report", "dump", "-p", "dump", "train*.csv", "-o", "out.html")
    assert "3 runs: CPI from" in dumps.with_name("out.html").read_text()


@pytest.mark.parametrize(("method", "named"), [("gus", "kernel"), ("roofline", "what")])
def test_a_source_is_compiled_and_reported_on(perfkit, source, no_shipped_data, method, named):
    arguments = ["-p", "arguments", "f8[500], 500", "-p", "function", "f", "-p", "core", "zen4"]
    perfkit("report", method, "-p", named, source.name, *arguments, "-o", "out.html")
    text = source.with_name("out.html").read_text()
    assert "zen4 (simulated)" in text
    assert "latency" in re.search("<h1>(.*?)</h1>", text)[1]  # one chain of additions


def test_a_table_is_mined(perfkit, tmp_path, no_shipped_data):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"stride": rng.choice([1, 8, 64], 200), "other": rng.integers(0, 3, 200)})
    table["cycles"] = 5.0 * table["stride"] + rng.normal(0, 1, 200)
    table.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "a.yaml").write_text(
        "input: t.csv\ncategories: {target: cycles}\n"
        "tree: {features: [stride, other]}\nforest: {features: [stride, other]}\n"
    )
    perfkit("report", "study", "-p", "analysis", "a.yaml", "-o", "out.html")
    assert "stride explains most of the differences" in (tmp_path / "out.html").read_text()
    table["cycles"] = 100 + rng.normal(0, 1, 200)
    table.to_csv(tmp_path / "t.csv", index=False)
    perfkit("report", "study", "-p", "analysis", "a.yaml", "-o", "out.html")
    assert "None of the features is shown to explain the differences" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize("name", list(REPORTS))
def test_data_must_be_named(name, tmp_path):
    with pytest.raises(SettingError, match=f"report {name} needs -p {REPORTS[name].needs[0]} FILE"):
        REPORTS[name].page(name, {})


def test_a_report_is_a_page_and_a_lesson_a_notebook(perfkit, dumps):
    told = perfkit("report", "cpi", "-p", "source", dumps.name, "-o", "out.ipynb", status=2)
    assert "writes one page (.html)" in told
    assert "50" in told or "00_tour" in told


def test_events_whose_names_are_html_stay_text(dumps):
    text = dumps.read_text().replace("branch-misses", "<img src=x onerror=alert(1)>")
    dumps.write_text(text)
    written = page(of_cpi(pk.CpiStack(resamples=20, placebos=5).fit(pk.read_samples(dumps))))
    assert "<img src=x" not in written
    assert "&lt;img src=x" in written


def test_a_grid_of_a_method_is_refused_with_the_notebook_to_name(tmp_path):
    (tmp_path / "grid.csv").write_text("a\n1\n")
    words = ["report", "spire", "--grid", str(tmp_path / "grid.csv"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, SettingError)
    assert "'spire' names a method" in str(done.exception)
    assert "perfkit report 10_spire_walkthrough --grid" in str(done.exception)
