"""RooflineView and ScheduleView, by setting their traits."""

import re

import numpy as np
import pytest

import perfkit as pk
from perfkit.plots.extended_roofline import COLOURS
from perfkit.plots.live.grid import live_roofs
from perfkit.simulators.dag.measures import Schedule
from perfkit_widgets import RooflineView, ScheduleView
from perfkit_widgets.roof_labels import MOST, name_of, spread


@pytest.fixture
def dag():
    n = 60
    return pk.Dag.from_nodes(
        "LMA" * n, [d for i in range(n) for d in ([], [3 * i], [3 * i + 1])], level=["L1", None, None] * n
    )


@pytest.fixture
def view(dag):
    core = pk.DagCore.sandy_bridge_erm()

    def reschedule(**changes):
        return pk.DagScheduler(core.replace(**changes)).run(dag).roofline()

    return RooflineView(reschedule(), reschedule, {"rs": [4, 20, 54], "latency_A": [1, 3, 30]})


def test_axes_are_in_the_unit_of_the_work():
    """Of a kernel without floating-point operations they are operations."""
    whole = pk.Dag.from_nodes("LII", [[], [0], [1]], level=["L1", None, None])
    view = RooflineView(pk.DagScheduler(pk.DagCore.load("zen5")).run(whole).roofline())
    assert view._across.label == "operational intensity [ops/byte, all levels]"
    assert view._up.label == "performance [ops/cycle]"
    assert all("ops/cycle" in mark.labels[0] for mark in view._marks.values())


def test_roofs_and_point_are_the_rooflines(view):
    roofline = view.roofline
    assert {label for label, mark in view._marks.items() if mark.visible} == {roof.label for roof in roofline.roofs}
    roof = roofline.roofs[0]
    mark = view._marks[roof.label]
    assert mark.y == pytest.approx(roof.at(mark.x))
    assert roof.formula in mark.labels[0]
    assert view._point.y.tolist() == [roofline.performance]
    assert view.table()["label"].tolist() == [r.label for r in roofline.roofs]
    assert view.png().startswith(b"\x89PNG")


def test_overlaps_lie_below_the_roofs_that_they_join(view):
    """A grey overlap covered the blue latency that hits the point."""
    kinds = {view._marks[roof.label]: roof.kind for roof in view.roofline.roofs}
    drawn = [kinds[mark] == "overlap" for mark in view._figure.marks if mark in kinds]
    assert sorted(drawn, reverse=True) == drawn
    assert True in drawn
    assert False in drawn


def test_live_roofs_say_the_units_of_their_sliders(dag):
    core = pk.DagCore.sandy_bridge_erm()

    def reschedule(**changes):
        return pk.DagScheduler(core.replace(**changes)).run(dag).roofline()

    sliders = {"rs": (4, 54), "latency_A": (1, 3), "fetch": (4, 8)}
    axes = live_roofs(reschedule(), reschedule, sliders).head["axes"]
    assert [axis["about"] for axis in axes] == ["core: 54 entries", "core: 3 cycles", "core: 4 per cycle"]


def test_sliders_begin_at_the_core(view):
    assert view.values == {"rs": 54, "latency_A": 3}


def test_a_slider_reschedules(view):
    before = view.roofline.performance
    view._sliders["latency_A"].value = 30
    assert view.values["latency_A"] == 30
    assert view.roofline.schedule.core.latency_A == 30
    assert view.roofline.performance < before
    assert view._point.y.tolist() == [view.roofline.performance]
    assert f"{view.roofline.performance:.3g}" in view._title.value


def test_kinds_are_toggled(view):
    view._buttons["latency"].value = False
    assert "latency" not in view.kinds
    shown = {roof.kind for roof in view.roofline.roofs if view._marks[roof.label].visible}
    assert "latency" not in shown
    assert "throughput" in shown
    view.kinds = ("latency",)
    assert [kind for kind, button in view._buttons.items() if button.value] == ["latency"]


def test_the_legend_names_the_colours_that_are_drawn():
    """Divisions are in overlaps, which are grey: no line has their own colour, whatever the roofs are of."""
    n = 60
    dag = pk.Dag.from_nodes(
        "LDA" * n, [d for i in range(n) for d in ([], [3 * i], [3 * i + 1])], level=["L1", None, None] * n
    )
    view = RooflineView(pk.DagScheduler(pk.DagCore.sandy_bridge_erm()).run(dag).roofline())
    assert "D" in {kind for roof in view.roofline.roofs for kind in roof.of}
    for kinds in (view.kinds, ("throughput",), ("latency", "stall")):
        view.kinds = kinds
        shades = {mark.colors[0] for mark in view._marks.values() if mark.visible}
        entries = re.findall(r"border-color:([^;\"]+)\"></i>([^<]+)", view._legend.value)
        assert {shade for shade, _ in entries} == shades
        assert ("divisions" in {name for _, name in entries}) == (COLOURS["D"] in shades)


def test_schedule_view_draws_the_cycles_it_shows(dag):
    run = pk.DagScheduler(pk.DagCore.sandy_bridge_erm().replace(rs=2)).run(dag)
    view = ScheduleView(run, width=20)
    light, dark = view._bodies["A"]
    nodes = run.node_table()
    first = nodes[(nodes["type"] == "A")]["issue"].min()
    assert dark.x[np.flatnonzero(dark.y > dark.y[0])[0]] == first
    assert "RS stall" in view._legend.value
    view.first = 10
    assert light.x[0] == 10
    assert view._slider.value == 10
    assert ((view.table()["done"] > 10) & (view.table()["issue"] < 30)).all()
    assert view.png().startswith(b"\x89PNG")
    view.schedule = Schedule.from_table(["A"], [0], [3], {}, run.core)
    assert view.first == 0
    assert "most at once: 1 addition<" in view._title.value


def test_every_roof_that_fits_has_its_name(view):
    labels = view._labels
    written = [*labels._column.text, *(labels._feet.text if labels._feet.visible else [])]
    assert sorted(written) == sorted(name_of(roof) for roof in view.roofline.roofs[:MOST])
    span = np.log(view._up.scale.max / view._up.scale.min)
    heights = np.sort(np.log(labels._column.y)) / span
    assert (np.diff(heights) > 0.049).all()  # none over another
    view._buttons["latency"].value = False
    assert not any("latency" in text for text in labels._column.text)


def test_names_are_moved_no_more_than_needed():
    assert spread([0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5]) == pytest.approx([0.475, 0.525])
    assert spread([0.52, 0.5]) == pytest.approx([0.535, 0.485])  # their order stays
    many = np.array(spread([0.99] * 6))
    assert many.max() <= 0.98
    assert (np.diff(np.sort(many)) > 0.049).all()
    assert spread([]) == []


def test_a_schedule_is_not_stepped_through_cycle_by_cycle():
    core = pk.DagCore.sandy_bridge_erm().replace(rs=2)
    n = 900
    run = pk.DagScheduler(core).run(pk.Dag.from_nodes("A" * n, [[k - 1] if k else [] for k in range(n)]))
    cycles = int(run.cycles)
    view = ScheduleView(run, width=200)
    assert view._slider.step == 20
    view._buttons[1].click()
    assert view.first == 100
    view._zoom.value = cycles  # all of them, in steps of several cycles
    assert (view.first, view.width) == (0, cycles)
    light, _ = view._bodies["A"]
    assert len(light.x) < 2 * 400 + 4
    assert light.x.max() == cycles
    view.width = 50
    view.first = 0
    stalled = np.flatnonzero(run.stall_mask)
    view.next_stall()
    assert view.first in stalled
    assert view.first != view._slider.value  # which has a grid of its own
    assert not view._slider.readout
    assert view._first_shown.value == f"{view.first:,}"


def test_another_schedule_is_shown_as_wide_as_the_one_before(dag):
    core = pk.DagCore.sandy_bridge_erm()
    view = ScheduleView(pk.DagScheduler(core).run(dag), width=60)
    view.schedule = pk.DagScheduler(core.replace(latency_A=9)).run(dag)
    assert view.width == view._zoom.value == 60  # a list of other widths chooses its first one
    assert "cycles 0 to 60 of" in view._title.value


def test_the_axis_has_no_numbers_where_only_names_stand(view):
    last = max(float(mark.x[-1]) for label, mark in view._marks.items() if mark.visible)
    assert view._across.scale.max > 10 * last  # the names' column
    assert view._across.tick_values.max() <= last * 1.001


def test_one_node_of_a_level_keeps_the_levels_name():
    """It was written as a singular: "1 L"."""
    dag = pk.Dag.from_nodes(
        "LA" * 3, [d for i in range(3) for d in ([2 * i - 1] if i else [], [2 * i])], level=["L1", None] * 3
    )
    view = ScheduleView(pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=True).run(dag))
    assert "at most at once: 1 addition, 1 L1<" in view._title.value
