import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.fitters.spire.roofline import fit_roofline
from perfkit_widgets import SpireExplorer
from perfkit_widgets.roofline_figure import RooflineFigure
from tests.widgets.drawn import points_of


@pytest.fixture
def view(model, samples, training):
    return SpireExplorer(model, samples, training, top=3)


def roof(view):
    return view._roofline.views[view.axes].points["roof"]


def test_the_ranking_is_the_models(view, model, samples):
    frame = model.rank(samples).to_frame()
    assert view._bars.y.tolist() == frame["throughput_bound"].tolist()[:3]
    assert view._shown == frame["event"].tolist()[:3]
    assert view.event == frame["event"].iloc[0]
    assert view._bars.selected.tolist() == [0]


def test_choosing_an_event_redraws_its_roofline(view, model):
    for event in view._shown:
        view.event = event
        x, y = roof(view)
        known = np.isfinite(y) & (x < model.rooflines[event].breakpoints[-1, 0])
        assert y[known] == pytest.approx(model.rooflines[event].bound(x[known]))
        assert event in view._title.value
        assert view._roofline.views["log"].across.label == "intensity: instructions per event"


def test_a_bound_below_every_sample_is_in_the_picture():
    """Workloads to the right of all that was learnt from: their bound is lower than anything measured."""
    learnt, x, y = fit_roofline([1.0, 2.0, 4.0], [1.0, 4.0, 0.05]), np.array([20.0, 30.0]), np.array([0.5, 0.6])
    figure = RooflineFigure("IPC")
    figure.draw("log", "instructions", learnt, chosen=(x, y), colour="#0072B2", bound=0.05)
    view = figure.views["log"]
    _, height = view.points["roof"]
    assert height[-1] == pytest.approx(0.05)
    assert view.up.scale.min < 0.05


def test_a_click_on_a_bar_chooses_its_event(view):
    view._bars.selected = [2]
    assert view.event == view._shown[2]
    assert view._list.value == view._shown[2]
    view._bars.selected = None  # a second click takes bqplot's mark off
    assert view.event == view._shown[2]
    assert view._bars.selected.tolist() == [2]


def test_the_list_and_its_arrows_choose_by_keyboard(view):
    view._down.click()
    assert view.event == view._shown[1]
    view._up.click()
    view._up.click()
    assert view.event == view._shown[0]
    view._list.set_state({"index": 2})
    assert view.event == view._shown[2]


def test_an_unknown_event_is_an_error_that_names_the_nearest(view):
    with pytest.raises(SettingError, match="did you mean stalls"):
        view.event = "stals"


def test_linear_axes_show_the_straight_segments_from_the_origin(view):
    view.axes = "linear"
    x, y = roof(view)
    assert (x[0], y[0]) == (0.0, 0.0)
    assert view._roofline._box.children == (view._roofline.views["linear"].figure,)
    assert view._roofline.views["linear"].across.scale.min == 0.0


@pytest.mark.parametrize("axes", ["log", "linear"])
def test_every_sample_lies_on_or_below_the_drawn_line(view, axes):
    view.axes = axes
    for event in view._shown:
        view.event = event
        x, y = roof(view)
        end = np.flatnonzero(~np.isfinite(y))[0] if (~np.isfinite(y)).any() else len(y)
        px, py = view._roofline.views[axes].points["training"]
        inside = px <= x[:end].max()
        assert inside.any()
        assert (py[inside] <= np.interp(px[inside], x[:end], y[:end]) * (1 + 1e-3)).all()


def test_intervals_without_the_event_stand_at_infinity(view):
    view.event = "clears"
    drawn = view._roofline.views["log"]
    assert "∞" in drawn.across.tick_labels.values()
    px, _ = drawn.points["chosen"]
    assert (px == px.max()).sum() == 60


def test_a_window_ranks_that_part_anew(view, model, samples):
    view.window = (0.0, 20.0)
    part = samples.select(runs=["run-0"], between=(1.0, 20.0))
    expected = model.rank(part).to_frame()
    pd.testing.assert_frame_equal(view.ranking.to_frame(), expected)
    assert len(view._roofline.views["log"].points["chosen"][0]) == 20
    assert len(view._roofline.views["log"].points["outside"][0]) == 60
    assert "outside the window" in view._roofline._note.value


def test_a_window_without_usable_samples_says_of_what_the_ranking_is(samples):
    """The bars below the message were of another window, and nothing said so."""
    table = samples.table.copy()
    late = (table["run"] == "run-1").to_numpy()
    table.loc[late, "count"] = np.nan
    view = SpireExplorer(pk.Spire().fit(samples), pk.Samples.from_frame(table, missing="keep", runs=samples.runs))
    view.window = (60.0, 80.0)
    assert "Nothing to rank" in view._head.value
    assert "still of the whole run" in view._head.value


def test_a_window_without_intervals_keeps_the_last_ranking(view):
    before = view.ranking
    view.window = (0.1, 0.2)
    assert view.ranking is before
    assert "Nothing to rank" in view._head.value


def test_the_hint_says_in_words_what_to_do(view):
    view.event = "stalls"
    assert "Reduce it" in view._hint.value
    row = view.table().set_index("event").loc["stalls"]
    assert f"{row['left_fraction']:.0%} of the time" in view._hint.value


def test_a_beneficial_event_is_to_be_raised():
    # Hits up to one an instruction: right of the peak, fewer hits come with lower throughput.
    work, hits = np.full(6, 100.0), np.array([100.0, 80, 60, 50, 40, 30])
    time = np.array([50.0, 60, 80, 100, 130, 180])
    data = pd.DataFrame({"event": "hits", "time": time, "work": work, "count": hits})
    trained = pk.Samples.from_frame(data)
    view = SpireExplorer(pk.Spire().fit(trained), pk.Samples.from_frame(data.iloc[2:]))
    assert "Raise it" in view._hint.value


def test_areas_colour_the_bars(model, samples):
    areas = pk.Areas.load().extended({"stalls": "memory", "hits": "front-end"})
    view = SpireExplorer(model, samples, areas=areas)
    table = view.table().set_index("event")
    assert table.loc["stalls", "area"] == "memory"
    assert dict(zip(view._shown, view._bars.colors, strict=True))["stalls"] == "#009E73"
    assert "memory" in view._legend.value


def test_generated_data_is_labelled_in_the_view(training, make_samples):
    generated = make_samples(kind="generated")
    view = SpireExplorer(pk.Spire().fit(training), generated)
    assert "GENERATED" in view._head.value
    assert "trained on measured" in view._head.value


def test_a_large_cloud_is_thinned_but_keeps_hull_and_front():
    rng = np.random.default_rng(3)
    n = 30_000
    intensity = 10 ** rng.uniform(0, 5, n)
    throughput = np.minimum(3, intensity**0.4) * rng.uniform(0.01, 1, n)
    work = np.full(n, 1e6)
    frame = pd.DataFrame({"event": "x", "time": work / throughput, "work": work, "count": work / intensity})
    train = pk.Samples.from_frame(frame)
    model = pk.Spire().fit(train)
    view = SpireExplorer(model, pk.Samples.from_frame(frame.iloc[:50]), train)
    px, py = view._roofline.views["log"].points["training"]
    assert 10_000 <= len(px) < 12_000
    corners = model.rooflines["x"].breakpoints[1:]
    drawn = set(zip(px.round(6), py.round(6), strict=True))
    on_samples = [c for c in corners if np.isclose(throughput, c[1]).any() and np.isclose(intensity, c[0]).any()]
    assert len(on_samples) >= 3
    for x, y in on_samples:
        assert any(np.isclose(x, a) and np.isclose(y, b) for a, b in drawn)
    assert "of 30,000 training samples drawn" in view._roofline._note.value


def test_the_view_travels_with_a_static_picture_and_a_table(view):
    assert view.png().startswith(b"\x89PNG")
    assert list(view.table().columns[:3]) == ["event", "area", "throughput_bound"]


def test_a_ranking_function_is_all_it_needs(model, samples):
    calls = []

    class Watched:
        rooflines = model.rooflines
        kind = model.kind

        def rank(self, part):
            calls.append(part.n_intervals)
            return model.rank(part)

    view = SpireExplorer(Watched(), samples)
    view.event = view._shown[1]
    view.axes = "linear"
    view.window = (1.0, 10.0)
    assert calls == [80, 9]  # the interval that ends at 1 lies before the window


def test_a_workload_faster_than_its_bound_asks_for_more_training(training):
    slow = pk.Samples.from_frame(
        training.to_frame().query("event in ['stalls', 'hits']").assign(work=lambda t: t["work"] / 3)
    )
    view = SpireExplorer(pk.Spire().fit(slow), training.select(events=["stalls", "hits"]))
    assert view.timeline.throughput.mean() > view.ranking.throughput_bound
    assert "Train on more workloads" in view._head.value


def test_clouds_are_drawn_in_fractions_of_the_axes(view):
    for axes in ("log", "linear"):
        view.axes = axes
        drawn = view._roofline.views[axes]
        across, up = drawn.across.scale, drawn.up.scale
        x, y = drawn.points["training"]
        ux, uy = points_of(drawn.training)
        assert (drawn.training.scales["x"].min, drawn.training.scales["x"].max) == (0, 1)
        if axes == "log":
            assert ux == pytest.approx(np.log(x / across.min) / np.log(across.max / across.min))
            assert uy == pytest.approx(np.log(y / up.min) / np.log(up.max / up.min))
        else:
            assert ux == pytest.approx((x - across.min) / (across.max - across.min))
            assert uy == pytest.approx((y - up.min) / (up.max - up.min))
        assert ((ux >= 0) & (ux <= 1) & (uy >= 0) & (uy <= 1)).all()
        line = drawn.roof.y[np.isfinite(drawn.roof.y)]
        assert ((line >= 0) & (line <= 1)).all()
        assert len(drawn.roof.x) == len(drawn.points["roof"][0])


def test_names_of_events_are_whole_beside_their_bars(model, samples):
    """They were cut in the middle at every width of a page, although the bars had room to spare."""
    shipped = SpireExplorer(pk.Spire().fit(pk.datasets.load("spire/train")), pk.datasets.load("spire/memory"), top=25)
    assert [str(name).partition(". ")[2] for name in shipped._bars.x] == shipped._shown
    assert shipped._bars_figure.fig_margin["left"] <= 302  # the bars keep their room on a narrow page
    short = SpireExplorer(model, samples)
    assert short._bars_figure.fig_margin["left"] == 216


def test_a_name_wider_than_any_room_is_cut_and_told_whole(samples):
    names = {event: f"{event}.and_a_name_that_goes_on_and_on_beyond_what_fits" for event in samples.events}
    table = samples.table.assign(event=samples.table["event"].map(lambda event: names.get(event, event)))
    long = pk.Samples(table, samples.runs, samples.time_event, samples.work_event)
    view = SpireExplorer(pk.Spire().fit(long), long)
    assert all("…" in str(name) for name in view._bars.x)
    assert view._bars_figure.fig_margin["left"] == 302
