"""Bars whose names are cut: each stays a bar of its own, and its name tells it from the others."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.plots import style
from perfkit.plots.cpi_stack import plot_correlation, plot_penalties, plot_stacks
from perfkit.plots.gus import plot_causality
from tests.browser.inked import Eye

UNITS = ("reads", "writes", "inserts")
LONG = [f"uncore_cha_0.event_{unit}.that_never_ends_because_it_is_very_long" for unit in UNITS]


def samples(runs):
    rows = [
        {"event": event, "time": 1000.0, "work": 2000.0 / rates[0], "count": 100.0 * rate, "run": run}
        for run, rates in runs.items()
        for _ in range(8)
        for event, rate in zip(LONG, rates, strict=True)
    ]
    return pk.Samples.from_frame(pd.DataFrame(rows))


def rows_of(axes):
    """The label of each bar, from the label's place on the axis."""
    labels = {place: text.get_text() for place, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
    return [labels[round(bar.get_y() + bar.get_height() / 2, 6)] for bar in axes.patches]


def test_events_of_two_dumps_that_differ_in_the_middle():
    """Three bars lay over one another, under one name that fitted all."""
    found = pk.diff_counts(samples({"r": (1, 1, 1)}), samples({"r": (2, 3, 0.5)}), names=("before", "after"))
    names = rows_of(found.plot())
    assert len(set(names)) == 3
    for name, event in zip(names, found.to_frame()["event"][::-1], strict=True):
        assert next(unit for unit in UNITS if unit in event) in name


def test_runs_that_differ_in_the_middle():
    runs = [f"benchmark_of_the_whole_program_with_{size}_and_all_of_its_settings" for size in ("small", "large")]
    names = rows_of(pk.explore(samples({run: (k + 1, 1, 1) for k, run in enumerate(runs)})).plot())
    assert len(set(names)) == 2


@pytest.mark.parametrize("name", ["基准测试", "ミス", "🚀 start", "a\tb", "a\nb"])
def test_names_in_any_letters_are_cut(name):
    """A letter that the font lacks ended the picture."""
    names = [f"{name} {end} {'x' * 60}" for end in ("one", "two")]
    assert len(set(style.cut_apart(names, 20))) == 2


@pytest.fixture(scope="module")
def endless():
    """Samples of two runs and seven events, with names of 120 letters."""
    rng = np.random.default_rng(5)
    misses = rng.integers(1_000, 60_000, 80)
    frame = pd.DataFrame({"cycles": 400_000 + 20 * misses, "instructions": rng.integers(900_000, 1_100_000, 80)})
    names = [f"unit_{k}.{'a_name_that_goes_on_and_on_' * 4}until_event_{k}" for k in range(7)]
    for name in names:
        frame[name] = rng.integers(10, 9_000, 80)
    frame[names[3]] = misses
    table = frame.melt(["cycles", "instructions"], var_name="event", value_name="count", ignore_index=False)
    table = table.rename(columns={"cycles": "time", "instructions": "work"}).reset_index(names="interval")
    ends = np.where(table["interval"] < 40, "first", "second")
    table["run"] = [f"{'a_run_that_goes_on_and_on_' * 4}{end}" for end in ends]
    return pk.Samples.from_frame(table)


@pytest.mark.parametrize(
    "kind", ["ranking", "stack", "components", "correlation", "explanation", "learnt", "causality"]
)
def test_names_of_a_hundred_letters_lie_within_the_picture(endless, kind):
    """Names of events ran out of the ranking's picture at the left, those of a stack's parts at the right."""
    if kind == "ranking":
        axes = pk.Spire().fit(endless).rank(endless).plot()
    elif kind in ("stack", "components", "correlation"):
        fit = pk.CpiStack(resamples=5, placebos=1).fit(endless)
        draw = {"stack": plot_stacks, "components": plot_penalties, "correlation": plot_correlation}[kind]
        axes = draw({"x" * 90: fit} if kind == "stack" else fit if kind == "components" else fit.correlation())
    elif kind == "causality":
        found = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a")).causality()
        table = found.to_frame().assign(text="call " + "a_namespace::of_a_template<of, another>::" * 4)
        axes = plot_causality(SimpleNamespace(to_frame=lambda: table))
    else:
        runs = {f"{'a_run_that_goes_on_and_on_' * 4}{k}": pk.datasets.load("traces/fig1a") for k in "ab"}
        counted = pk.SimulatedPmu("zen4", intervals=2).collect(runs)
        model = pk.Bottlenecks.load("zen4")
        axes = (model.explain(counted) if kind == "explanation" else model.stacks(counted)).plot()
        axes.figure.tight_layout()
    with Eye() as eye:
        axes.figure.savefig("/dev/null", format="png")
    assert [fault for fault in eye.faults if fault[0] in ("clipped in picture", "overlap in picture")] == []
    assert axes.get_position().width > 0.2
