"""Bars whose names are cut: each stays a bar of its own, and its name tells it from the others."""

import pandas as pd
import pytest

import perfkit as pk
from perfkit.plots import style

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
