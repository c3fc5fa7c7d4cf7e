"""Every axis with numbers of every view says what they are, with a unit."""

import doctest
import re
from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit_widgets.base import Explorer
from perfkit_widgets.figures import bq
from tests.plots.test_axes import UNIT

VIEWS = sorted(
    name for name in pw.__all__ if isinstance(getattr(pw, name), type) and issubclass(getattr(pw, name), Explorer)
)
NUMBER = re.compile(r"[-−]?[\d.,]+(?:[kMGT%]|·?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|∞")


def figures(box: Any, title: str = "") -> Iterator[tuple[Any, str]]:
    """Yield each figure in a view, and the text just above it."""
    for child in getattr(box, "children", ()):
        if isinstance(child, bq.Figure):
            yield child, title
        title = re.sub("<[^>]*>", "", child.value) if isinstance(child, widgets.HTML) else ""
        yield from figures(child, title)


def faults(view: Any) -> list[str]:
    """Say which axes show numbers without their unit; a strip's title may name what goes up."""
    found = []
    for figure, title in figures(view):
        for axis in figure.axes:
            texts = list(axis.tick_labels.values()) if axis.tick_labels else []
            if isinstance(axis.scale, bq.OrdinalScale) or not all(NUMBER.fullmatch(str(text)) for text in texts):
                continue
            words = axis.label + (title if axis.side == "left" else "")
            if not UNIT.search(words):
                found.append(f"{axis.side}: {words!r}, {texts[:3]}")
    return found


def study() -> Any:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"N": np.repeat([1, 2, 4, 8], 20), "cycles": rng.normal(10, 1, 80) * np.repeat([1, 2, 4, 8], 20)}
    )
    grow, rank = pk.DecisionTree(["N"]).fit, pk.RandomForest(["N"], trees=3).fit
    return pw.StudyExplorer(table, ["N"], categorise=pk.FixedBins("cycles", (20.0, 40.0)).fit, grow=grow, rank=rank)


@pytest.mark.parametrize("name", VIEWS)
def test_each_axis_of_a_view_has_a_unit(name: str, monkeypatch: pytest.MonkeyPatch):
    made: list[Any] = []
    first = Explorer.__init__
    monkeypatch.setattr(Explorer, "__init__", lambda self, **kw: (made.append(self), first(self, **kw))[1])
    if name == "StudyExplorer":
        study()
    else:
        scope = {"pk": pk, "pw": pw, "np": np, "pd": pd, name: getattr(pw, name)}
        for example in doctest.DocTestParser().get_examples(getattr(pw, name).__doc__):
            exec(compile(example.source, name, "single"), scope)  # the example in the class's own docstring
    assert made
    assert [fault for view in made for fault in faults(view)] == []


def test_an_axis_without_a_unit_is_told():
    view = study()
    view._line_axes[1].label = "cycl"
    assert [fault.partition(":")[0] for fault in faults(view)] == ["left"]
