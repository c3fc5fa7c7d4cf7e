"""BottleneckExplorer without a browser: the brush asks the model again, and what is drawn is what it said."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.plots.style import short
from perfkit_widgets import BottleneckExplorer


@pytest.fixture(scope="module")
def samples():
    traces = {name: pk.datasets.load(f"traces/{name}") for name in ("divider", "branchy")}
    return pk.SimulatedPmu("zen4", intervals=8).collect(traces)


@pytest.fixture
def view(samples):
    return BottleneckExplorer(pk.Bottlenecks.load("zen4"), samples, run="divider")


def test_it_shows_what_the_model_says_of_the_whole_run(view, samples):
    said = pk.Bottlenecks.load("zen4").explain(samples.select(runs=["divider"]))
    rows = said.of("divider")
    assert view.resource == rows["resource"].iloc[0] == "dividers"
    assert view._bars.bars.y[0] == pytest.approx(100 * rows["probability"].iloc[0])
    assert "dividers" in view._said.value
    assert "SIMULATED" in view._about.value
    assert rows["evidence"].iloc[0].split("; ")[0].split(" (")[0] in view._evidence.value


def test_a_brush_asks_the_model_for_that_part_only(view, samples):
    before = view.explanation
    low, high = view._bar.whole
    view.window = (low, low + (high - low) / 3)
    assert view.explanation is not before
    assert view.explanation.intervals["interval"].nunique() < before.intervals["interval"].nunique()
    assert len(view.table()) == len(before.of("divider"))


def test_a_click_shows_that_class_over_time(view):
    other = view.table()["resource"].iloc[1]
    view._bars.chosen = other
    assert view.resource == other
    drawn = np.asarray(view._over_time.y)
    rows = view._whole_run.intervals.query("run == 'divider' and resource == @other")
    assert drawn == pytest.approx(100 * rows.sort_values(["place", "interval"])["probability"].to_numpy())
    assert other in view._strip_title.value
    for row in view.table().query("status == 'told'").itertuples():  # a probability of 0.3 % has no bar to be read from
        view._bars.chosen = row.resource
        assert f">{row.probability:.1%}; " in view._strip_title.value


def test_an_unknown_run_is_refused(samples):
    with pytest.raises(SettingError, match="no run named 'x'"):
        BottleneckExplorer(pk.Bottlenecks.load("zen4"), samples, run="x")


def test_each_cpu_has_a_line_of_its_own():
    """Samples that were counted per CPU raised an error: their probabilities are as many as CPUs and intervals."""
    one = pk.SimulatedPmu("zen4", intervals=4).collect({"a": pk.datasets.load("traces/divider")})
    table = one.table.astype({"run": "str", "place": "str", "event": "str"})
    both = pd.concat([table.assign(place=cpu) for cpu in ("cpu0", "cpu1")], ignore_index=True)
    samples = pk.Samples.from_frame(both, runs=one.runs)
    view = BottleneckExplorer(pk.Bottlenecks.load("zen4"), samples)
    alone = BottleneckExplorer(pk.Bottlenecks.load("zen4"), one)
    known = np.isfinite(view._over_time.y)
    assert view._over_time.x[known].tolist() == 2 * alone._over_time.x.tolist()
    assert view._over_time.y[known] == pytest.approx(2 * alone._over_time.y.tolist())
    assert not known[len(alone._over_time.x)]  # a gap between the two
    assert "each of 2 places" in view._strip_title.value


def test_a_window_without_intervals_says_what_still_stands_below_it(view):
    first, second = view.timeline.position[:2]
    view.window = (first + 0.1 * (second - first), first + 0.2 * (second - first))
    assert "No interval ends in this window" in view._said.value
    assert f"Below still stands 0 to {short(view.timeline.position[-1], 4)}" in view._said.value
