"""What single cells of the notebooks show: each is run outside of Jupyter, with what it needs."""

import ast
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from tests.notebooks.test_notebooks import FOLDER
from tests.notebooks.uploads import dump_of, upload


def run_cells(path: str, chosen: list[str], names: dict[str, Any]) -> list[Any]:
    """Run the code cells of a notebook that hold one of some texts, and return what they show, in order."""
    cells = [c.source for c in nbformat.read(FOLDER / f"{path}.ipynb", as_version=4).cells if c.cell_type == "code"]
    shown: list[Any] = []
    names |= {"display": lambda *what: shown.extend(what)}
    for text in chosen:
        (source,) = (s for s in cells if text in s)
        *first, last = ast.parse("\n".join(line for line in source.splitlines() if not line.startswith("%"))).body
        exec(compile(ast.Module(first, []), path, "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), path, "eval"), names))
        else:
            exec(compile(ast.Module([last], []), path, "exec"), names)
    return shown


@pytest.fixture(autouse=True)
def _no_windows():
    mpl.use("agg")


def test_the_difference_of_curves_bears_its_own_name():
    result = pk.datasets.load("noise/zen4/additions")
    (table,) = run_cells("35_noise", ['set_index("kind")'], {"result": result, "pd": pd, "np": np})
    assert "idle differs by" not in table
    for kind in ("nop", "latency"):
        assert table.loc[kind, "curves differ by"] == f"{np.expm1(result.disagreement(kind)):.0%}"
    summary = result.summary()  # it quotes the worst of them
    assert any(f"({value})" in summary for value in table["curves differ by"])


@pytest.mark.parametrize("core", ["zen5", "skylake_x"])
def test_simulated_cycles_are_set_beside_measured_ones_of_the_same_core(core: str):
    names = {"kernel": "correlation-v[34]-small", "function": "", "build": "", "size": "", "arguments": ""}
    names |= {"core": core, "calibration": "", "weights": [2.0], "vector_bits": 256}
    shown = run_cells(
        "30_gus_optimization", ["gus_plots\n", "figure_1 = ", "peak_flops", "correlation_measured"], names
    )
    measured = pk.datasets.load("gus/correlation_measured").set_index("trace")["cycles"]
    same = pk.Gus("skylake_x", warm=True)
    for name, trace in pk.open_traces(names["kernel"]).items():
        (ratio,) = (c for c in shown[-1] if "measured there" in c)
        assert shown[-1].loc[name, ratio] == round(same.run(trace).cycles / measured[name], 2)


def _only(text: str, *events: str) -> str:
    """The lines of a dump that count these events."""
    return "".join(line for line in text.splitlines(keepends=True) if "," not in line or line.split(",")[3] in events)


@pytest.mark.parametrize(("text", "events"), [(dump_of(2.0), 1), (_only(dump_of(2.0), "cycles", "instructions"), 0)])
def test_cells_below_an_upload_tell_of_it_and_need_not_be_run(text: str, events: int):
    names = {"dump": "spire/memory", "model": ""}
    cells = ["SamplesExplorer", '"top-down"', '"Bottlenecks"', '"CPI stack"', '"SPIRE"', "measure_next"]
    _, explorer, *told = run_cells("01_your_dump", ["look = partial", *cells], names)
    before = told[0].children[0].value
    assert "GENERATED" in explorer.children[0]._about.value
    upload(names["dumps"], ("mine.csv", text))
    about = explorer.children[0]._about.value
    assert "mine" in about
    assert "GENERATED" not in about
    assert len(names["samples"][-1].events) == events
    mine = pk.explore(names["samples"][-1])
    assert told[-1]._shown == "\n\n".join(mine.measure_next)
    methods = ("top-down", "Bottlenecks", "CPI stack", "SPIRE")
    for follower, method in zip(told[:-1], methods, strict=True):
        assert follower._shown == [one.told() for one in names["tried"] if one.method == method][-1]
    assert told[0].children[0].value != before


def test_how_large_arrays_are_is_set_beside_what_stream_asks_for(capsys: pytest.CaptureFixture[str]):
    runs = pk.datasets.load("studies/stream")
    cell, rule = ["array = 64"], "times the largest cache, "
    for blocks, said in ((int(runs.table["BLOCKS_LOG2"].max()), "where STREAM asks for 4"), (24, "as STREAM asks for")):
        table = runs.table.assign(BLOCKS_LOG2=blocks)
        names = {"runs": replace(runs, table=table), "machine": runs.metadata["machine"], "pk": pk}
        run_cells("22_stream", cell, names)
        assert capsys.readouterr().out.partition(rule)[2].startswith(said)


def test_the_league_shows_no_column_that_is_the_same_for_all():
    run_cells("60_methods_check_each_other", ["ours = "], names := {})
    (table,) = run_cells("60_methods_check_each_other", ['"three, not latency"'], names)
    assert all(len(set(values)) > 1 for name, values in table.items() if name != "runs")


def test_the_noise_that_was_measured_is_not_scored_against_itself():
    names: dict[str, Any] = {"pk": pk, "pd": pd, "plt": plt}
    run_cells("60_methods_check_each_other", ["second-truth/zen4-scores"], names)
    shares = names["shares"]
    assert np.isnan(shares.loc["noise, measured", "as measured"])
    assert shares.drop(index="noise, measured").notna().all().all()
    assert shares.loc["noise, measured", "as built"] == 1


def test_what_a_class_is_predicted_to_bring_is_a_gain_in_per_cent():
    samples = pk.SimulatedPmu("zen4", intervals=2).collect({"divider": pk.datasets.load("traces/divider")})
    names = {"runs": {"divider": None}, "found": pk.Bottlenecks.load("zen4").explain(samples)}
    (table,) = run_cells("15_bottlenecks", ["found.why(first)"], names)
    assert "speedup" not in table
    told = names["found"].of("divider")["speedup"].head(5)
    assert table["gain"].tolist() == [f"{value:+.1%}" for value in told]
