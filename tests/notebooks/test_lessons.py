"""What single cells of the notebooks show: each is run outside of Jupyter, with what it needs."""

import ast
from typing import Any

import matplotlib as mpl
import nbformat
import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from tests.notebooks.test_notebooks import FOLDER


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
