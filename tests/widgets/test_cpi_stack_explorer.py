"""CpiStackExplorer without a browser: traits change, fits are asked for, and what is drawn is what they hold."""

import numpy as np
import pandas as pd
import pytest
import traitlets

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.plots.style import short
from perfkit_widgets import CpiStackExplorer
from perfkit_widgets.cpi_stack_parts import EventList, StackBars
from tests.widgets.drawn import points_of


@pytest.fixture(scope="module")
def stacks():
    one, _ = pk.synthetic_cpi(intervals=300, workload="before", seed=1)
    two, _ = pk.synthetic_cpi(intervals=200, workload="after", base=0.30, seed=2)
    return pk.CpiStack(resamples=50, placebos=3).fit_each(pk.Samples.concat([one, two]))


@pytest.fixture
def view(stacks):
    return CpiStackExplorer(stacks, placebos=2, resamples=20)


def heights(view):
    """Height of each part of each bar, by workload and part."""
    bars = view._bars
    return {n: dict(zip(bars._parts, bars.bars.y[:, j], strict=True)) for j, n in enumerate(bars._names)}


def test_it_begins_with_the_stacks_it_was_given(view, stacks):
    shown = heights(view)
    for name in ("before", "after"):
        expected = stacks[name].components.to_dict()
        assert {p: shown[name][p] for p in expected} == pytest.approx(expected)
        assert shown[name]["residual"] == 0
    assert view.workload == "before"
    assert view.fit is stacks["before"]
    assert "GENERATED" in view._head.value
    assert "The data support" in view._verdict.value
    assert all(box.value for box in view._list.boxes.values())


def test_unticking_an_event_refits_every_workload(view, stacks):
    view._list.boxes["LLC-load-misses"].set_state({"value": False})
    assert "LLC-load-misses" not in view.events
    assert "LLC-load-misses" not in view.fit.events
    shown = heights(view)
    for name in ("before", "after"):
        rest = [e for e in stacks[name].events if e != "LLC-load-misses"]
        expected = stacks[name].refit(events=rest, resamples=0, placebos=1).components.to_dict()
        assert {p: shown[name][p] for p in expected} == pytest.approx(expected)
        assert shown[name]["LLC-load-misses"] == 0
    assert "not in the model" in view._list._texts["LLC-load-misses"].value
    view._list.children[0].children[1].click()  # All
    assert view.fit.components.to_dict() == pytest.approx(stacks["before"].components.to_dict())


def test_form_method_and_sums_are_passed_on(view):
    view._choose_form.set_state({"index": 1})
    assert view.fit.settings.form == "cpi"
    assert "CPI form; the placebo" in view._gauges.value
    view._choose_method.set_state({"index": 3})
    assert view.fit.settings.method == "huber"
    view.sums = 20
    assert len(view.fit.data) == 15
    assert view._choose_sums.value == 20
    assert view.message == ""
    with pytest.raises(traitlets.TraitError):
        view.method = "ridge"


def test_a_window_refits_that_phase_of_the_chosen_workload_only(view, stacks):
    other = heights(view)["after"]
    middle = float(view._time[100])
    view.window = (view._whole[0], middle)
    assert len(view.fit.data) == 101
    expected = stacks["before"].refit(rows=np.arange(300) <= 100, resamples=0, placebos=1)
    assert view.fit.components.to_dict() == pytest.approx(expected.components.to_dict())
    assert heights(view)["after"] == other
    assert view._slider.window == view.window
    assert len(view._predicted.x) == 101
    assert len(view._whole_run.x) == 300
    view.events = view.events[1:]  # the window stays
    assert len(view.fit.data) == 101
    view.window = view._whole
    assert len(view.fit.data) == 300


def test_the_brush_counts_when_it_is_let_go_and_the_slider_works_too(view):
    low, high = (float(view._time[i]) for i in (20, 80))
    view.brush.brushing = True
    view.brush.selected = np.array([low, high])
    assert view.window == view._whole
    view.brush.brushing = False
    assert view.window == (low, high)
    assert len(view.fit.data) == 61
    view._slider.set_state({"value": [0, len(view._time) - 1]})
    assert view.window == view._whole
    assert len(view.fit.data) == 300


def test_a_click_on_a_bar_chooses_its_workload(view, stacks):
    assert view._bars.bars.selected.tolist() == [0]
    view._bars.bars.selected = np.array([1])
    assert view.workload == "after"
    assert view._choose_workload.value == "after"
    assert len(view._measured.x) == 200
    assert view.fit.components.to_dict() == pytest.approx(stacks["after"].components.to_dict())
    assert "CPI stack of after" in view._head.value
    view._bars.bars.selected = None  # a second click takes bqplot's mark off
    assert view._bars.bars.selected.tolist() == [1]
    assert view.workload == "after"


def test_what_gives_no_stack_is_told_and_the_last_one_stays(view):
    before = view.fit
    view.window = (float(view._time[0]), float(view._time[3]))
    assert "4 intervals cannot tell 7 unknowns" in view.message
    assert "No stack" in view._note.value
    assert view.fit is before
    view.window = view._whole
    assert view.message == ""
    assert view._note.value == ""
    view.events = ()
    assert "no event is left" in view.message


def test_least_squares_without_bounds_may_go_below_zero(view):
    view.method = "ols"
    assert view.fit.settings.method == "ols"
    low = view._bars._up.scale.min
    assert low <= min(0.0, *(min(h.values()) for h in heights(view).values()))


def test_components_and_residuals_are_the_fits(view):
    table = view.fit.intervals()
    x, y = points_of(view._residuals)
    assert sorted(y) == pytest.approx(sorted(table["residual"]))
    x, _ = points_of(view._here)
    parts = ["base", *view.fit.components.drop("base").sort_values(ascending=False).index]
    assert x == pytest.approx(view.fit.components[parts].to_numpy())
    assert next(iter(view._span_y.tick_labels.values())) == "base"


def test_events_without_a_share_can_be_unticked_at_once():
    samples, _ = pk.synthetic_cpi(intervals=300, idle={"page-faults": 0.01, "swaps": 0.01}, seed=3)
    view = CpiStackExplorer(pk.CpiStack(resamples=0, placebos=2).fit(samples), resamples=0)
    without = [e for e in view.events if view.fit.components[e] == 0]
    assert without
    view._list.keep_used()
    assert set(view.events) == set(view._all) - set(without)
    assert view.fit.base == pytest.approx(view._first["planted"].base)


def test_the_table_and_the_picture_are_of_what_is_shown(view):
    view.workload = "after"
    view.events = view.events[:2]
    table = view.table()
    assert table["part"].tolist() == ["base", *view.fit.events, "residual"]
    assert view.picture().axes[0].get_xticklabels()[1].get_text() == "after\n(generated)"
    assert view.png()[:4] == b"\x89PNG"


def test_runs_without_times_use_interval_numbers(stacks):
    samples, _ = pk.synthetic_cpi(intervals=100, seed=3)
    table = samples.table.drop(columns=["at", "seconds", "running", "place"])
    view = CpiStackExplorer(pk.CpiStack(resamples=0).fit(pk.Samples.from_frame(table)), resamples=0)
    assert view._time_x.label == "interval (number)"
    view.window = (10, 59)
    assert len(view.fit.data) == 50
    view.sums = 5
    assert view._predicted.x.tolist() == [14, 19, 24, 29, 34, 39, 44, 49, 54, 59]


def test_wrong_workloads_are_refused(view):
    with pytest.raises(SettingError, match="no stack named 'x'; there are before, after"):
        view.workload = "x"
    with pytest.raises(DataError, match="nothing to explore"):
        CpiStackExplorer({})


def test_what_rounding_leaves_of_a_perfect_fit_is_not_drawn_large():
    rng = np.random.default_rng(0)
    misses = rng.integers(1, 100_000, 50)
    rows = [
        ("r", i, event, count)
        for i, m in enumerate(misses)
        for event, count in {"cycles": 4e6 + 9 * m, "instructions": 1e7, "a_miss": m}.items()
    ]
    samples = pk.Samples.from_counts(pd.DataFrame(rows, columns=["run", "interval", "event", "count"]))
    view = CpiStackExplorer(pk.CpiStack(placebos=1, resamples=5).fit(samples), placebos=1, resamples=5)
    assert np.abs(points_of(view._residuals)[1]).max() < 1e-9
    assert view._residual_y.scale.max == -view._residual_y.scale.min == pytest.approx(0.01 * view.fit.cpi)


def test_jupyterlab_finds_no_formula_in_an_events_name():
    """It looks for them in the names of boxes: an event named a$b$c showed an error message instead."""
    listed = EventList(["plain", "a$b_$<i>"], {})
    plain, dollars = listed.children[1].children
    assert listed.boxes["plain"].description == "plain"
    assert len(plain.children) == 2
    assert listed.boxes["a$b_$<i>"].description == ""
    assert listed.boxes["a$b_$<i>"].tooltip == "a$b_$<i>"
    assert dollars.children[1].value == "a$b_$&lt;i&gt;"


def test_events_and_workloads_that_differ_in_the_middle_are_told_apart():
    """Twelve boxes had one label."""
    names = [f"uncore_cha_0.{k}.that_never_ends_because_it_is_very_long" for k in ("reads", "writes")]
    assert len({box.description for box in EventList(names, {}).boxes.values()}) == 2
    bars = StackBars(names, [], {"base": "grey", "residual": "white"})
    assert len(set(bars.children[1].axes[0].tick_labels.values())) == 2


@pytest.mark.parametrize(("count", "upright", "blank"), [(2, False, 0), (12, True, 0), (36, True, 18)])
def test_names_of_many_bars_stand_upright_and_as_many_as_there_is_room_for(count, upright, blank):
    names = [f"work-{k}" for k in range(count)]
    bars = StackBars(names, [], {"base": "grey", "residual": "white"})
    across = bars.children[1].axes[0]
    assert ("rotate(-90deg)" in across.tick_style.get("transform", "")) == upright
    assert [*across.tick_labels.values()].count(" ") == blank


def test_lines_over_time_are_broken_where_nothing_was_measured():
    samples, _ = pk.synthetic_cpi(intervals=100, seed=1)
    table = samples.table[~samples.table["interval"].between(40, 59)].reset_index(drop=True)
    kept = pk.Samples.from_frame(table, time_event=samples.time_event, work_event=samples.work_event)
    view = CpiStackExplorer({"gap": pk.CpiStack(placebos=2, resamples=10).fit(kept)}, placebos=2, resamples=10)
    for mark in (view._whole_run, view._measured, view._predicted):
        x, y = (np.asarray(getattr(mark, axis)) for axis in "xy")
        assert len(x) == 81
        assert np.flatnonzero(np.isnan(y)).tolist() == [40]
        assert x[39] < x[40] < x[41]


def test_every_event_of_the_fit_has_its_variance_inflation(view):
    assert "VIF" in view._list.children[0].children[0].value
    for event, inflation in view.fit.vif.items():
        assert inflation < 10
        assert f'<span class="pk-muted">VIF {short(inflation)}</span>' in view._list._texts[event].value
    view.events = view.events[1:]
    assert "VIF" not in view._list._texts[view._all[0]].value


def test_the_head_says_how_far_the_prediction_is_off(view):
    assert f"predictions of intervals are {view.fit.misplaced:.3f} CPI off on average" in view._head.value
    assert "ceilings" not in view._head.value


def test_names_of_components_are_whole():
    fits = pk.CpiStack(resamples=20, placebos=3).fit_each(pk.open_samples("cpi/workloads"))
    view = CpiStackExplorer(fits)
    assert "l2_rqsts.demand_data_rd_miss" in view._span_y.tick_labels.values()
    assert not any("…" in name for name in view._span_y.tick_labels.values())
