import sys

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError, UnavailableError
from perfkit.plots.extended_roofline import sweep_table
from perfkit.plots.samples import plot_over_time, throughput_label
from perfkit.plots.spire_steps import plot_left_steps, plot_right_steps, plot_sample
from perfkit.plots.spire_views import plot_spire_exploration, sample_positions
from tests.browser.inked import Eye, of_axes


@pytest.fixture(scope="module")
def workload():
    return pk.datasets.load("spire/memory")


def texts(figure):
    figure.canvas.draw()
    return " ".join(t.get_text() for t in figure.findobj(lambda a: hasattr(a, "get_text")))


def test_over_time_has_a_panel_for_each_event_and_labels_generated_data(workload):
    figure = plot_over_time(workload, workload.events[:2], window=(10, 20))
    assert len(figure.axes) == 3
    assert "GENERATED" in texts(figure)
    with pytest.raises(SettingError, match="did you mean"):
        plot_over_time(workload, ["longest_lat_cache.mis"])


def test_units_are_named(workload):
    assert throughput_label(workload) == "IPC (instructions per cycle)"
    assert throughput_label(workload.with_axes("seconds", "inst_retired.any")) == "inst_retired.any per second"


def test_one_sample_shows_both_ratios():
    text = texts(plot_sample(100, 250, 5))
    assert "P = W/T = 2.5" in text
    assert "I = W/M = 50" in text
    assert "0.05" in text


def test_left_steps_end_at_the_peak():
    figure = plot_left_steps([1, 2, 4, 6], [1, 1.5, 3, 2])
    line = figure.axes[2].lines[-1]
    assert line.get_xdata().tolist() == [0, 1, 4]
    assert line.get_ydata().tolist() == [0, 1, 3]


def test_right_steps_name_the_front_and_both_errors():
    # Fronts that bend the other way: the chain passes above the sample at 3.
    text = texts(plot_right_steps([1, 2, 3, 4], [4, 3, 1.5, 1]))
    assert {"A", "B", "C", "D"} <= set(text.split())
    assert "horizontal line: error 16.2" in text  # (4-1)^2 + (4-1.5)^2 + (4-3)^2 = 16.25


def test_the_legend_of_the_right_steps_lies_over_no_sample():
    """It lay over one."""
    at, height = (
        [1, 2, 2.5, 4, 5, 6, 8, 9, 12, 14, 16, 18, 20, 24, 26, 30, 32, 40],
        [0.6, 1.4, 0.9, 2.2, 1.6, 2.7, 2.0, 3.2, 3.5, 3.1, 3.0, 2.0, 2.2, 1.5, 2.0, 0.8, 1.25, 1.0],
    )
    figure = plot_right_steps(at, height)
    figure.canvas.draw()
    assert [fault for axes in figure.axes for fault in of_axes(axes)] == []
    assert figure.legends, "it stands beside them"


def test_event_points_of_unusable_samples_have_no_place():
    s = pk.Samples.from_frame(
        pd.DataFrame({"event": "x", "time": [1.0, 1, 1, 1], "work": [4.0, 0, 4, 4], "count": [2.0, 0, 0, np.nan]}),
        missing="keep",
    )
    intensity, throughput, rows = sample_positions(s, "x")
    assert intensity.tolist() == [2.0, np.inf]
    assert throughput.tolist() == [4.0, 4.0]
    assert rows.tolist() == [0, 2]


def test_exploration_shows_ranking_and_roofline(workload):
    model = pk.Spire().fit(pk.datasets.load("spire/train"))
    figure = plot_spire_exploration(model, workload, model.rank(workload), "longest_lat_cache.miss", top=4)
    assert len(figure.axes) == 2
    assert "longest_lat_cache.miss" in texts(figure)


def test_a_sweep_is_shown_without_what_is_zero_throughout():
    table = pd.DataFrame({"rs": [8, 16], "performance": [0.5, 1.0], "ROB": [0, 0], "LB": [0, 3], "verdict": ["a", "b"]})
    shown = sweep_table(table).to_html()
    assert "flops/cycle" in shown
    assert "LB" in shown
    assert "ROB" not in shown
    assert "0.500" in shown


def test_a_sweep_says_what_styled_tables_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UnavailableError, match=r"needs jinja2, which is not installed: pip install 'perfkit\[lab\]'"):
        sweep_table(pd.DataFrame({"rs": [8], "performance": [0.5], "verdict": ["a"]}))


def test_the_boundaries_of_categories_are_in_the_legend():
    runs = pk.datasets.load("studies/fma")
    from matplotlib.figure import Figure

    ax = pk.FixedBins("FMAS_PER_CYCLE", (0.9, 1.8)).fit(runs).plot(Figure().subplots(), table=runs)
    lines = {line.get_label(): line.get_linestyle() for line in ax.get_legend().get_lines()}
    assert lines["boundaries"] == "-"


def test_rates_that_stayed_have_their_numbers_on_a_scale_that_means_something(tmp_path):
    a, b = (pd.DataFrame({"t": [1.0, 2], "cycles": [100, 101 + k], "instructions": [70, 71]}) for k in (0, 60))
    for name, frame in (("a", a), ("b", b)):
        frame.assign(**{"branch-misses": [3, 3], "cache-misses": [7, 9]}).to_csv(tmp_path / f"{name}.csv", index=False)
    found = pk.diff_counts(tmp_path / "a.csv", tmp_path / "b.csv")
    # What rounding leaves of the same rate: an axis around it had ticks such as -1.11e-16 + 1.
    found.table["ratio"] = [1.0, 1 - 1.1e-16]
    ax = found.plot()
    with Eye() as eye:
        ax.figure.savefig("/dev/null", format="png")
    assert [text.get_text() for text in ax.texts if text.get_text()[0].isdigit()] == ["1.00", "1.00"]
    low, high = ax.get_xlim()
    assert low < 0.95 < 1.05 < high
    assert eye.faults == []


@pytest.mark.parametrize("ratios", [[0.0, 0.48], [1e6, 1.0], [1.02, 0.97]])
def test_numbers_of_rates_stand_within_the_picture(tmp_path, ratios):
    frame = pd.DataFrame({"t": [1.0, 2], "cycles": [100, 101], "instructions": [70, 71]})
    frame.assign(**{"branch-misses": [3, 3], "cache-misses": [7, 9]}).to_csv(tmp_path / "a.csv", index=False)
    found = pk.diff_counts(tmp_path / "a.csv", tmp_path / "a.csv")
    found.table["ratio"] = ratios
    ax = found.plot()
    with Eye() as eye:
        ax.figure.savefig("/dev/null", format="png")
    assert eye.faults == []
    numbers = [text.get_window_extent() for text in ax.texts if text.get_text()[0].isdigit()]
    assert all(ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1 for box in numbers)
    assert len(numbers) == 2


@pytest.mark.parametrize(("name", "unit"), [("integer", "ops"), ("floating", "flops")])
def test_roofs_are_in_the_unit_of_what_is_counted(name, unit):
    dag = pk.Dag.from_nodes("II" if name == "integer" else "AM", [[], [0]])
    schedule = pk.DagScheduler(pk.DagCore(line=64, size_L1=4096), record=False).run(dag)
    ax = schedule.roofline().plot()
    assert schedule.unit == unit
    assert f"[{unit}/cycle]" in ax.get_ylabel()
    assert f"[{unit}/byte" in ax.get_xlabel()
