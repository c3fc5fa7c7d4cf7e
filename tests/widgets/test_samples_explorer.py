import base64
import re

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.plots.style import short
from perfkit_widgets import SamplesExplorer
from tests.widgets.drawn import points_of


@pytest.fixture
def view(samples):
    return SamplesExplorer(samples, "stalls", "hits")


def test_it_says_what_it_shows(view):
    text = view._about.value
    assert "400 samples of 3 events in 80 intervals" in text
    assert "run-0, run-1" in text
    assert "pk-note" not in text


def test_generated_samples_are_labelled(make_samples):
    view = SamplesExplorer(make_samples(kind="generated"))
    assert "GENERATED" in view._about.value


def test_strips_draw_the_rates_of_the_chosen_events(view, samples):
    stalls = samples.table[samples.table["event"] == "stalls"]
    expected = 1000 * (stalls["count"] / stalls["work"]).to_numpy()
    drawn = view._strips[0]["mark"].y
    assert np.flatnonzero(np.isnan(drawn)).tolist() == [40]  # between the two runs
    assert drawn[~np.isnan(drawn)] == pytest.approx(expected)
    view.set_trait("x", "hits")
    hits = samples.table[samples.table["event"] == "hits"]
    drawn = view._strips[0]["mark"].y
    assert drawn[~np.isnan(drawn)] == pytest.approx(1000 * (hits["count"] / hits["work"]).to_numpy())
    assert "A: hits" in view._strips[0]["title"].value


def test_controls_and_traits_follow_each_other(view):
    view._choose_y.set_state({"index": 2})
    assert view.y == "clears"
    view.per = "time"
    assert view._choose_per.value == "time"
    view._choose_axes.set_state({"index": 1})
    assert view.axes == "linear"
    assert view._pair_box.children == (view._scatter["linear"]["fig"],)


def test_an_unknown_event_is_an_error_that_names_the_nearest(view):
    with pytest.raises(SettingError, match="did you mean stalls"):
        view.x = "stall"


def test_a_window_splits_the_points_and_narrows_the_table(view):
    assert len(points_of(view._scatter["log"]["chosen"])[0]) == 80
    view.window = (10.0, 20.0)  # the interval that ends at 10 lies before it
    assert len(points_of(view._scatter["log"]["chosen"])[0]) == 10
    assert len(points_of(view._scatter["log"]["rest"])[0]) == 70
    table = view.table().set_index("event")
    assert table.loc["stalls", "samples"] == 10
    assert "10 intervals" in view._head.value


def test_the_brush_counts_when_it_is_let_go(view):
    view._bar.brush.brushing = True
    view._bar.brush.selected = np.array([5.0, 9.0])
    assert view.window == view._bar.whole
    view._bar.brush.brushing = False
    assert view.window == (5.0, 9.0)
    view._bar._all.click()
    assert view.window == view._bar.whole


def test_the_slider_selects_by_keyboard(view):
    view._bar._slider.set_state({"value": [0, 30]})  # the borders of intervals, of a second each
    assert view.window == (0.0, 30.0)


def test_a_handle_that_is_not_moved_keeps_its_end_of_the_window(view):
    view._bar.brush.selected = np.array([5.3, 9.4])  # a brush stops between the borders of intervals
    low, high = view._bar._slider.value
    view._bar._slider.set_state({"value": [low, high + 1]})
    assert view.window == (5.3, 10.0)


def test_an_empty_window_says_so(view):
    view.window = (0.1, 0.2)
    assert "No interval" in view._head.value
    saved = re.search(r"base64,([^\"]+)", view._downloads._links.value)[1]  # what stands in the table, which is nothing
    assert len(base64.b64decode(saved).decode().splitlines()) == 1


def test_an_event_that_never_happened_has_an_axis_up_to_one(samples):
    """It went up to 10⁻¹²."""
    table = samples.table.copy()
    table.loc[table["event"] == "clears", "count"] = 0
    view = SamplesExplorer(pk.Samples.from_frame(table, runs=samples.runs), "clears", "hits")
    assert view._strips[0]["up"].scale.max == 1


def test_zero_rates_are_counted_where_a_logarithm_hides_them(view):
    view.y = "clears"
    assert "Not on log axes: 60 intervals" in view._pair_note.value
    view.axes = "linear"
    assert "zero rate" not in view._pair_note.value


def test_missing_and_multiplexed_counts_are_shown(make_samples):
    frame = make_samples(n=4, runs=1).to_frame().drop(columns=["time", "work"])
    frame.loc[(frame["event"] == "hits") & (frame["interval"] == 2), "count"] = np.nan
    view = SamplesExplorer(pk.Samples.from_counts(frame), "stalls", "hits")
    row = next(r for r in view._health.value.split("<tr>") if ">hits" in r)
    assert ">1</td>" in row
    assert "50%" in row
    assert "Not drawn: 1 interval without one of the two" in view._pair_note.value


def test_dumps_without_times_are_laid_out_by_interval(make_samples):
    frame = make_samples(n=5, runs=1).to_frame().drop(columns=["time", "work", "at", "seconds"])
    view = SamplesExplorer(pk.Samples.from_counts(frame))
    assert view.timeline.unit == "intervals"
    assert view.window == (0.0, 4.0)
    assert [v for _, v in view._choose_per.options] == ["work", "time"]


@pytest.mark.parametrize(
    ("before", "after", "chosen"),
    [
        ((0, 80), (80, 80), (79, 80)),  # End on the first handle
        ((0, 80), (0, 0), (0, 1)),  # Home on the second
        ((10, 30), (30, 30), (29, 30)),
        ((10, 30), (10, 10), (10, 11)),
        ((29, 30), (30, 30), (29, 30)),  # it is there already
        ((10, 30), (0, 30), (0, 30)),  # keys that go the other way
        ((10, 30), (10, 80), (10, 80)),
        ((10, 30), (11, 30), (11, 30)),
    ],
)
def test_home_and_end_leave_an_interval(view, before, after, chosen):
    """A handle that was sent onto the other one went back to where it came from, as if the key did nothing."""
    slider = view._bar._slider
    slider.set_state({"value": list(before)})
    slider.set_state({"value": list(after)})
    assert slider.value == chosen
    assert view.window == tuple(float(slider._borders[k]) for k in chosen)
    assert view.selected().n_intervals >= 1


def test_a_window_within_an_interval_stays_where_it_is(view):
    view.window = (10.2, 10.4)
    assert view.window == (10.2, 10.4)
    assert view._bar._slider.value == (10, 10)


def test_samples_of_time_and_work_alone_are_shown_over_time():
    frame = pd.DataFrame({"time": [10.0, 20.0, 10.0], "work": [20.0, 10.0, 30.0]})
    rows = [{"interval": k, "event": e, "count": v} for k, r in frame.iterrows()
            for e, v in (("cycles", r["time"]), ("instructions", r["work"]))]  # fmt: skip
    samples = pk.Samples.from_counts(pd.DataFrame(rows))
    assert not samples.events
    view = SamplesExplorer(samples)
    assert "IPC 1.5" in view._head.value
    assert any("Only time and work" in getattr(each, "value", "") for each in view.children)
    view.window = (0.0, 1.0)
    assert "IPC 1" in view._head.value
    assert list(view.table()["event"]) == ["cycles", "instructions"]
    assert len(view.picture().axes) == 1
    with pytest.raises(SettingError):
        view.x = "branches"


def test_an_event_is_chosen_only_where_there_is_one(samples):
    with pytest.raises(SettingError):
        SamplesExplorer(samples, x="nothing.like_it")
    with pytest.raises(SettingError):
        SamplesExplorer(samples).x = ""


def test_inputs_are_not_changed(samples):
    before = samples.to_frame()
    view = SamplesExplorer(samples)
    view.window = (3.0, 9.0)
    view.x, view.per, view.axes = "clears", "time", "linear"
    pd.testing.assert_frame_equal(samples.table, before)


def test_a_static_picture_travels_with_the_view(view):
    bundle = view._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in data
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")


def test_downloads_hold_the_table_and_on_request_the_picture(view):
    link = view._downloads._links.value
    text = base64.b64decode(link.split("base64,")[1].split('"')[0]).decode()
    assert text.splitlines()[0].startswith("event,samples,missing")
    view._downloads._draw.click()
    assert "image/png" in view._downloads._links.value
    view.window = (3.0, 9.0)
    assert "image/png" not in view._downloads._links.value


def test_a_handle_that_would_leave_no_interval_goes_back():
    """The only handle to move of a plain `perf stat` emptied the window, which said that no interval ends in it."""
    events = ["cycles", "instructions", "misses"]
    frame = pd.DataFrame({"at": 0.4, "seconds": 0.4, "interval": 0, "event": events, "count": [8.0, 9.0, 1.0]})
    view = SamplesExplorer(pk.Samples.from_counts(frame))
    whole = view.window
    view._bar._slider.set_state({"value": [1, 1]})
    assert view.window == whole
    assert view._bar._slider.value == (0, 1)
    two = pd.concat([frame, frame.assign(interval=1)]).drop(columns=["at", "seconds"])
    numbered = SamplesExplorer(pk.Samples.from_counts(two))  # without times, a number is an interval
    numbered._bar._slider.set_state({"value": [1, 1]})
    assert numbered.selected().n_intervals == 1
    assert "intervals 1 to 1: 1 interval," in numbered._head.value


@pytest.mark.parametrize("intervals", [1, 3, 60])
def test_strips_number_whole_intervals(intervals):
    """A single interval had an axis of 0.2, 0.4 and so on."""
    table = {"event": ["a"] * intervals, "interval": range(intervals), "time": 2.0, "work": 1.0, "count": 3.0}
    view = SamplesExplorer(pk.Samples.from_frame(pd.DataFrame(table)))
    strips = [view._bar.figure, *(strip["box"].children[1] for strip in view._strips)]
    assert len(strips) == 3
    for axis in (strip.axes[0] for strip in strips):
        assert len(axis.tick_values) >= 1
        assert all(float(tick).is_integer() for tick in axis.tick_values)


def test_medians_are_those_of_the_window(view):
    rate = view._rates[0]
    whole = np.median(rate[np.isfinite(rate)])
    assert f"median {short(float(whole))}<" in view._strips[0]["title"].value
    view.window = (10.0, 20.0)
    inside = rate[view.timeline.selection(10.0, 20.0)]
    assert f"median in the window {short(float(np.median(inside)))}<" in view._strips[0]["title"].value
    view.window = view._bar.whole
    assert f"median {short(float(whole))}<" in view._strips[0]["title"].value


def test_the_table_of_events_has_the_rates_that_were_chosen(view, samples):
    rows = samples.table[samples.table["event"] == "stalls"]
    for per, thousand, label in (
        ("work", 1000, "per 1000 "),
        ("time", 1000, "per 1000 "),
        ("seconds", 1, "per second"),
    ):
        view.per = per
        assert f"<th>{label}" in view._health.value.replace("<wbr>", "")
        rate = thousand * rows["count"].sum() / rows[per].sum()
        assert f"<td>{short(float(rate))}</td>" in view._health.value
        view.window = (10.0, 20.0)
        part = rows[view.timeline.selection(10.0, 20.0)[view.timeline.row[rows.index]]]
        assert f"<td>{short(float(thousand * part['count'].sum() / part[per].sum()))}</td>" in view._health.value
        view.window = view._bar.whole


def test_lists_are_as_wide_as_their_text(view):
    assert {each.layout.width for each in (view._choose_x, view._choose_y, view._choose_per)} == {"auto"}
