"""Reports on one's own data: the answer, a picture, and no number that is not of the data given."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit import datasets
from perfkit.cli.main import app
from perfkit.cli.pages.answer import AnswerPage, of_cpi, of_exploration, of_gus, page
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
    table["cycles"] = 100 + rng.normal(0, 1, 200) + 50 * rng.integers(0, 2, 200)
    table.to_csv(tmp_path / "t.csv", index=False)
    perfkit("report", "study", "-p", "analysis", "a.yaml", "-o", "out.html")
    assert "None of the features is shown to explain the differences" in (tmp_path / "out.html").read_text()


def _study(perfkit, folder, table, settings, *more):
    table.to_csv(folder / "t.csv", index=False)
    (folder / "a.yaml").write_text("input: t.csv\ncategories: {target: cycles}\n" + settings)
    perfkit("report", "study", "-p", "analysis", "a.yaml", *more, "-o", "out.html")
    return re.sub("<wbr>|&#x27;", "", (folder / "out.html").read_text())


def _linear():
    """Return an exact cost without gaps, in which no density finds a valley."""
    grid = [(a, b) for a in range(30) for b in range(10)]
    return pd.DataFrame(grid, columns=["a", "b"]).assign(cycles=lambda t: 100.0 + 3 * t["a"] + 2 * t["b"])


def test_a_study_names_the_table_that_it_is_of(perfkit, tmp_path):
    """The analysis file's own input stood above the numbers of another table."""
    _linear().to_csv(tmp_path / "mine.csv", index=False)
    text = _study(perfkit, tmp_path, _linear(), "regression: {features: [a]}\n", "-p", "table", "mine.csv")
    assert "Study: mine.csv" in text
    assert "t.csv" not in text
    assert "Study: t.csv" in _study(perfkit, tmp_path, _linear(), "regression: {features: [a]}\n")


def test_one_category_is_not_taken_for_features_without_effect(perfkit, tmp_path):
    """It said that guessing does as well, beside a regression with an R^2 of 0.94."""
    learnt = "tree: {features: [a, b]}\nforest: {features: [a, b], trees: 5}\n"
    text = _study(perfkit, tmp_path, _linear(), learnt + "regression: {features: [a, b]}\n")
    told = "Only one category of cycles was found, so that there is nothing to tell apart"
    assert f"{told}; in the regression a explains most of the differences of cycles (" in text
    assert "guessing" not in text
    assert f"{told}; a regression learns the target itself." in _study(perfkit, tmp_path, _linear(), learnt)
    noise = _linear().assign(cycles=np.random.default_rng(1).normal(100, 1, 300))
    text = _study(perfkit, tmp_path, noise, learnt + "regression: {features: [a, b]}\n")
    assert "not shown to be better than guessing" in re.search("<h1>(.*?)</h1>", text)[1]
    constant = _study(perfkit, tmp_path, noise.assign(cycles=7.1), learnt + "regression: {features: [a, b]}\n")
    assert "none of it varies: cycles is 7.1 in all of 300 rows" in constant
    two = noise.assign(cycles=noise["cycles"] + 50 * (noise.index % 2))
    text = _study(perfkit, tmp_path, two, learnt.replace("a, b", "a") + "regression: {features: [a]}\n")
    assert "None of the features is shown to explain the differences: guessing does as well." in text


def test_the_boxes_of_a_large_tree_do_not_lie_on_each_other(perfkit, tmp_path):
    """Each picture was 3.6 inches high, whatever the tree."""
    heights = []
    for depth in (1, 5):
        text = _study(perfkit, tmp_path, _linear(), f"regression: {{features: [a, b], max_depth: {depth}}}\n")
        picture = base64.b64decode(re.search('data:image/png;base64,([^"]+)', text)[1])
        heights.append(int.from_bytes(picture[20:24], "big"))
    assert heights[0] < 600
    assert heights[1] > 32 * 60  # leaves, of two lines each


def test_less_than_half_is_not_most(perfkit, tmp_path):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({name: rng.integers(0, 2, 400) for name in "xyz"})
    table["cycles"] = 100.0 + 50 * table["x"] + 52 * table["y"] + 48 * table["z"] + rng.normal(0, 0.1, 400)
    text = _study(perfkit, tmp_path, table, "forest: {features: [x, y, z], trees: 10}\n")
    assert re.search(
        "explains the largest part of the differences \\(\\d\\d% of the importance; [xyz] \\d\\d%\\)", text
    )


def test_a_study_counts_what_was_not_measured_and_what_never_settled(perfkit, tmp_path):
    table = _linear().assign(status="ok", settled=True)
    table.loc[:99, ["status", "cycles", "settled"]] = ["predicted", np.nan, False]
    table.loc[100:104, ["status", "cycles", "settled"]] = ["failed", np.nan, False]
    table.loc[110:119, "settled"] = False
    text = _study(perfkit, tmp_path, table, "regression: {features: [a, b]}\n")
    assert "<b>195</b><span>rows analysed, of 300 read" in text
    for told in (
        "100 rows left out: predicted, not measured",
        "5 rows left out: failed, not measured",
        "10 of the 195 rows never settled",
    ):
        assert told in text


def test_a_ranking_is_never_supported(perfkit, dumps):
    """With one training run it was; docs/samples.md says why it is not."""
    for training in ("train 0.csv", "train*.csv"):
        perfkit("report", "spire", "-p", "training", training, "-p", "analysed", dumps.name, "-o", "out.html")
        text = dumps.with_name("out.html").read_text()
        assert 'class="trust fair">uncertain' in text
        assert ("trained on a single run" in text) == (training == "train 0.csv")


def test_an_unknown_name_lists_the_methods_too(perfkit):
    told = perfkit("report", "nix", "-o", "out.html", status=2)
    assert "'nix' is no method (spire, cpi, dump, gus, roofline, study) and no notebook; there are: 00_tour" in told


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


def columns(frame):
    """Return the cells of each column of a table as a page writes them: (text, what is kept free behind it)."""
    written = page(AnswerPage("t", "v", "", (), evidence=(("h", frame),))).replace("<wbr>", "")
    cells = re.findall(r'<td(?: class="figure")? data-label="(.*?)"(?: data-fill="(.*?)")?>(.*?)</td>', written)
    plain = [(label, re.sub("<.*?>", "", text), fill) for label, fill, text in cells]
    return {name: [(text, fill) for label, text, fill in plain if label == name] for name in frame.columns}


def test_decimal_points_of_a_column_stand_below_each_other():
    """They were in four digits each, on the left: 0.87 above 0.8666, 1.484e-05 broken at its dash."""
    told = columns(
        pd.DataFrame(
            {
                "bound": [0.8666, 0.87, 0.0, np.nan],
                "penalty": [2474.7, 1.5651, 62.0, 0.0],
                "rate": [0.037657, 0.004717, 1.484e-05, 0.0],
                "ratio": [3.3852, 1.004, 1.0, 0.01],
            }
        )
    )
    assert told["bound"] == [("0.8666", ""), ("0.8700", ""), ("0", ".0000"), ("", "")]
    assert told["penalty"] == [("2474.7", ""), ("1.6", ""), ("62.0", ""), ("0", ".0")]
    assert told["rate"] == [("0.03766", "0"), ("0.00472", "0"), ("0.000015", ""), ("0", ".000000")]
    assert told["ratio"] == [("3.385", ""), ("1.004", ""), ("1.000", ""), ("0.010", "")]
    for cells in told.values():
        assert len({len(text.partition(".")[2]) + len(fill.strip(".")) for text, fill in cells if text}) == 1


def test_what_is_no_decimal_stays_as_it_is():
    table = pd.DataFrame(
        {
            "whole": [1, 20, 300],
            "counts": [1e6, 2e3, np.nan],
            "words": ["-1.50", "ok", None],
            "mixed": [1.5, "none", 2],
            "yes": [True, False, True],
            "tiny": [1e-12, 1.0, 0.5],
            "endless": [float("inf"), 2.5, -1.25],
        }
    )
    told = {name: [text for text, _ in cells] for name, cells in columns(table).items()}
    assert told == {
        "whole": ["1", "20", "300"],
        "counts": ["1000000", "2000", ""],
        "words": ["-1.50", "ok", ""],
        "mixed": ["1.5", "none", "2"],
        "yes": ["True", "False", "True"],
        "tiny": ["1e-12", "1.0", "0.5"],
        "endless": ["inf", "2.50", "-1.25"],
    }


def test_resources_and_instructions_that_bring_nothing_are_counted_in_their_headings():
    """A page had forty rows of resources, 1.114e-06 and zeros below each other."""
    trace = pk.datasets.load("traces/latency-add")
    result = pk.Gus(pk.Microarchitecture.load("zen4")).run(trace)
    ranked = result.sensitivity((1.5, 2.0))
    written = page(of_gus(result, ranked)).replace("<wbr>", "")
    several = ranked.to_frame()
    least = (several.iloc[:, 1:].max(axis=1) < 0.0005).sum()
    assert least > 10
    assert f"What if this resource were better? Speedups ({least} more have less than 0.1 %)" in written
    assert not re.search(r"\d+e-\d+", re.sub('base64,[^"]*', "", written))
    assert "x2 (%)" in written


def test_one_run_without_a_usable_method_has_no_picture_of_one_bar(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("run,cycles,instructions,branch-misses\na,1000,2000,10\n")
    tried = []
    found = pk.explore(path, tried_out=tried)
    assert len(found.compared) == 1
    assert not of_exploration(found, [one for one in tried if one.trust == "unsupported"]).picture
    path.write_text("run,cycles,instructions,branch-misses\na,1000,2000,10\nb,2000,3000,25\n")
    assert of_exploration(pk.explore(path), []).picture  # two are compared
