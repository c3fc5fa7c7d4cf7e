import bqplot as bq
import numpy as np
import pytest

from perfkit_widgets import figures


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (3, 30, [5, 10, 20]),
        (1, 1e6, [1, 10, 100, 1e3, 1e4, 1e5, 1e6]),
        (1, 1e12, [1, 100, 1e4, 1e6, 1e8, 1e10, 1e12]),
    ],
)
def test_logarithmic_ticks(low, high, ticks):
    assert figures.log_ticks(low, high).tolist() == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 3.1, [0, 1, 2, 3]), (0.5, 0.5, [0.5])]
)
def test_linear_ticks(low, high, ticks):
    assert figures.linear_ticks(low, high).tolist() == pytest.approx(ticks)


def test_ticks_are_labelled_for_people():
    assert [figures.label_of(v) for v in (0.0, 0.01, 5, 1000, 2e4, 1e6, 2e6, 1e-7)] == [
        "0", "0.01", "5", "1,000", "20k", "10⁶", "2·10⁶", "10⁻⁷",
    ]  # fmt: skip


def test_infinity_gets_a_tick_of_its_own_and_its_neighbours_make_room():
    ax = figures.axis(bq.LogScale(), "bottom")
    figures.set_range(ax, 1, 1.1e4, {9e3: "∞"})
    assert ax.tick_labels["9000"] == "∞"
    assert "10000" not in ax.tick_labels
    assert 9e3 in ax.tick_values


def test_labels_are_found_under_the_number_as_javascript_writes_it():
    ax = figures.axis(bq.LogScale(), "bottom")
    figures.set_range(ax, 1e-5, 1e23)
    assert list(ax.tick_labels) == [
        "0.00001", "0.1", "1000", "10000000", "100000000000", "1000000000000000", "10000000000000000000", "1e+23",
    ]  # fmt: skip
    assert len(ax.tick_values) == 8


def test_a_cloud_is_one_line_broken_between_points():
    mark = figures.cloud({"x": bq.LinearScale(), "y": bq.LinearScale()}, "#000000", 3)
    assert not mark.visible
    figures.set_points(mark, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert mark.visible
    assert mark.x.tolist()[::2] == [1.0, 2.0]
    assert np.isnan(mark.y[1])
    assert np.isfinite(mark.y[-1])
    figures.set_points(mark, np.empty(0), np.empty(0))
    assert not mark.visible


def test_a_line_is_broken_where_either_coordinate_is_missing():
    mark = figures.line({"x": bq.LinearScale(), "y": bq.LinearScale()}, "#000000")
    figures.set_xy(mark, np.array([1.0, np.nan, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, np.nan]))
    assert np.isfinite(mark.y).tolist() == [True, False, True]


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.42), (60, 130), (15, 28), (0.9, 1.1)])
def test_a_short_logarithmic_axis_has_more_than_two_numbers(low: float, high: float):
    ticks = figures.log_ticks(low, high)
    assert len(ticks) > 2
    assert low <= ticks.min() < ticks.max() <= high
