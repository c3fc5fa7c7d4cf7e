"""Every axis with numbers says what they are, with a unit: in all results' pictures, other pictures and views."""

import re
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from perfkit.plots import cpi_stack, extended_roofline, gus, samples, scoring, spire_steps, studies
from tests.results.examples import EXAMPLES

# What a number may be: a unit, a share or a count of something.
UNIT = re.compile(
    r"%|per cent|\btimes\b|\bper\b|cycles?\b|ticks\b|\((?:s|ms|µs|ns|GB/s|bits)\b|seconds|\bshare\b|"
    r"\bcount\b|\bnumber\b|\bfrom -1 to 1\b|\bruns\b|"
    r"\bmachines\b|\bexecutions\b|\brepetitions\b|\bprobability\b|\b(?:flops|bytes)/|\bas in the table\b|"
    r"\bcache lines\b|\bindependent instructions\b|\belements\b"
)


def faults(figure: Any) -> Iterator[str]:
    """Say of each axis of a figure that shows numbers without their unit which it is."""
    figure.canvas.draw()
    for axes in figure.axes:
        if not axes.axison:
            continue
        said = [axes.get_title(loc) for loc in ("left", "center", "right")]  # a strip's title names what goes up
        for axis, more in ((axes.xaxis, []), (axes.yaxis, said)):
            ticks = [t.get_text() for t in axis.get_ticklabels() if t.get_visible() and t.get_text()]
            numbers = [t for t in ticks if re.fullmatch(r"[-−]?[\d.,]+[kMG%]?|\$.*\d.*\$", t)]
            words = " ".join([axis.get_label_text(), *more])
            if len(numbers) > len(ticks) / 2 and not UNIT.search(words):
                yield f"{axis.axis_name} {ticks[:3]}: {words!r}"


def figure_of(drawn: Any) -> Any:
    """The figure of what a picture's function returns: axes, several axes, or the figure itself."""
    one = np.ravel(drawn)[0] if isinstance(drawn, (list, tuple, np.ndarray)) else drawn
    return one if isinstance(one, mpl.figure.Figure) else one.figure


PLOTTED = sorted((cls for cls in EXAMPLES if hasattr(cls, "plot")), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", PLOTTED, ids=lambda cls: cls.__name__)
def test_each_axis_of_a_result_has_a_unit(cls: type):
    result: Any = EXAMPLES[cls]()
    arguments = {"SpireModel": {"event": "l1-misses"}}.get(cls.__name__, {})
    assert list(faults(figure_of(result.plot(**arguments)))) == []


def example(name: str) -> Any:
    return next(make() for cls, make in EXAMPLES.items() if cls.__name__ == name)


MORE = {
    "a sample": lambda: spire_steps.plot_sample(100, 250, 5),
    "left steps": lambda: spire_steps.plot_left_steps([1, 2, 4, 6], [1, 1.5, 3, 2]),
    "right steps": lambda: spire_steps.plot_right_steps([1, 2, 3, 4], [4, 3, 1.5, 1]),
    "over time": lambda: samples.plot_over_time(example("Samples"), ["branch-misses"]),
    "throughput": lambda: samples.plot_throughput(example("Samples")),
    "overview": lambda: cpi_stack.plot_overview({"one": example("CpiFit")}),
    "residuals": lambda: cpi_stack.plot_residuals(example("CpiFit")),
    "prediction": lambda: cpi_stack.plot_prediction(example("CpiFit")),
    "penalties": lambda: cpi_stack.plot_penalties(example("CpiFit")),
    "gauges": lambda: cpi_stack.plot_gauges(example("CpiFit")),
    "correlation": lambda: cpi_stack.plot_correlation(example("CpiFit").correlation()),
    "schedule": lambda: extended_roofline.plot_schedule(example("Schedule")),
    "ladder": lambda: gus.plot_ladder(pd.DataFrame({"a": [10.0, 20.0]}, index=["v0", "v1"]), {"a": "simulated"}),
    "measures": lambda: scoring.plot_measures(pd.DataFrame({"score": [0.5], "low": [0.4], "high": [0.6]}, index=["a"])),
    "lines": lambda: studies.plot_lines(pd.DataFrame({"N": [1, 2], "cycles": [3.0, 4.0]}), "N", "cycles"),
    "scatter": lambda: studies.plot_scatter(pd.DataFrame({"N": [1, 2], "cycles": [3.0, 4.0]}), "N", "cycles"),
    "distribution": lambda: studies.plot_distribution(example("Categories")),
}


@pytest.mark.parametrize("name", MORE)
def test_each_axis_of_a_picture_has_a_unit(name: str):
    assert list(faults(figure_of(MORE[name]()))) == []


def test_an_axis_without_a_unit_is_told():
    figure = mpl.figure.Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4])
    axes.set(xlabel="tsc", ylabel="time (ns)")
    assert [fault[0] for fault in faults(figure)] == ["x"]


def test_logarithmic_numbers_are_written_as_numbers():
    from perfkit.plots.style import plain_ticks

    figure = mpl.figure.Figure()
    axes = figure.subplots()
    axes.loglog([0.3, 5], [1, 30_000])
    plain_ticks(axes)
    figure.canvas.draw()
    shown = [{t.get_text() for t in axis.get_ticklabels()} for axis in (axes.xaxis, axes.yaxis)]
    assert {"0.5", "1", "2", "5"} <= shown[0]
    assert {"1", "100", "10k"} <= shown[1]
