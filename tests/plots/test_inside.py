"""In a figure of 5 by 3.5 inches, as notes and papers have it, nothing that names what is drawn is cut."""

import matplotlib.pyplot as plt
import pytest

import perfkit as pk
from perfkit.plots.extended_roofline import plot_relaxation, plot_schedule
from perfkit.plots.roofs_by_level import plot_levels

SCHEDULER = pk.DagScheduler(pk.DagCore.load("zen5"), record=True)


@pytest.fixture(scope="module")
def schedules():
    return {name: SCHEDULER.run(dag.dag()) for name, dag in pk.open_dags("mvm", sizes=[8, 40]).items()}


PICTURES = {
    "levels": lambda found, ax: plot_levels({n: s.roofline() for n, s in found.items()}, ax=ax),
    "roofline": lambda found, ax: found["mvm(40)"].roofline().plot(ax=ax),
    "schedule": lambda found, ax: plot_schedule(found["mvm(8)"], ax=ax),
    "gains": lambda found, ax: plot_relaxation(pk.relax(pk.open_dags("mvm", sizes=[8])["mvm(8)"], SCHEDULER), ax=ax),
}


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("name", PICTURES)
def test_a_small_figure_cuts_no_name(schedules, name, layout):
    figure, ax = plt.subplots(figsize=(5, 3.5), layout=layout)
    PICTURES[name](schedules, ax)
    figure.draw_without_rendering()
    page = figure.bbox
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label]
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        texts += [label for place, label in ticks if low <= place <= high]  # others are not drawn
    texts += ax.get_legend().get_texts() if ax.get_legend() is not None else []
    for text in texts:
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= -1, text
            assert box.y0 >= -1, text
            assert box.x1 <= page.x1 + 1, text
            assert box.y1 <= page.y1 + 1, text
    assert ax.get_window_extent().width > 0.25 * page.width, "enough is left of what is drawn"
    plt.close(figure)


def test_a_figure_with_room_keeps_what_it_has(schedules):
    figure, ax = plt.subplots(figsize=(9, 5))
    before = ax.get_position().bounds
    PICTURES["gains"](schedules, ax)
    assert "\n" not in ax.get_title() + ax.get_xlabel()
    assert ax.get_position().bounds[1:] == pytest.approx(before[1:], abs=0.35)
    plt.close(figure)
