"""Roofline: evaluation, checks, tables."""

import re
from fractions import Fraction

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.fitters.spire.hull import turn, upper_hull
from perfkit.fitters.spire.roofline import _given, corners_of, fit_points, fit_roofline


@pytest.fixture
def roofline():
    """Rises to (2, 4), is level to 4, falls to (8, 1), and reaches 2 without the event."""
    return pk.Roofline(np.array([[0, 0], [1, 3], [2, 4], [4, 4], [8, 1]]), 3.0, 2.0, "hits")


def test_bound_at_hand_computed_points(roofline):
    at = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 1e300, np.inf, np.nan]
    expected = [0, 1.5, 3, 3.5, 4, 4, 4, 2.5, 1, 1, 2, np.nan]
    np.testing.assert_array_equal(roofline.bound(at), expected)


def test_bound_keeps_the_shape(roofline):
    assert roofline.bound(np.ones((2, 3))).shape == (2, 3)
    assert roofline.bound(1) == 3
    assert roofline.bound([]).shape == (0,)


def test_left_of_the_peak(roofline):
    assert roofline.is_left([0, 3, 3.1, np.inf]).tolist() == [True, True, False, False]
    level, never_right = (pk.Roofline(roofline.breakpoints, np.inf, height) for height in (4.0, 5.0))
    assert level.is_left([1, np.inf]).tolist() == [True, False]
    assert never_right.is_left([1, np.inf]).tolist() == [True, True]
    assert (roofline.peak, never_right.peak) == (4.0, 5.0)


def test_the_table_says_the_parts(roofline):
    frame = roofline.to_frame()
    assert frame["part"].tolist() == ["left", "left", "peak", "peak", "right", "infinity"]
    assert frame["intensity"].tolist() == [0, 1, 2, 4, 8, np.inf]
    assert frame["throughput"].tolist() == [0, 3, 4, 4, 1, 2]


def test_a_curve_passes_its_corners(roofline):
    at, bound = roofline.curve(0.5, 16, 10)
    assert {1.0, 2.0, 4.0, 8.0} <= set(at)
    assert at.min() == 0.5
    assert at.max() == 16
    np.testing.assert_array_equal(bound, roofline.bound(at))
    for low, high in ((0, 1), (2, 1), (1, np.inf)):
        with pytest.raises(SettingError):
            roofline.curve(low, high)


def test_the_classic_roofline():
    classic = pk.Roofline.from_ceilings(peak=8.0, slope=2.0)
    assert classic.bound([0, 1, 4, 100, np.inf]).tolist() == [0, 2, 8, 8, 8]
    assert classic.peak_intensity == 4.0
    with pytest.raises(SettingError):
        pk.Roofline.from_ceilings(peak=8.0, slope=0.0)


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([[0, 0]], "shape"),
        ([0, 1], "shape"),
        ([[0, 0], [1, np.nan]], "finite"),
        ([[0, 0], [1, -1]], "at least 0"),
        ([[0, 0], [2, 1], [2, 2]], "strictly rising"),
        ([[1, 1], [2, 2]], r"\(0, 0\) first"),
    ],
)
def test_impossible_breakpoints_are_refused(points, why):
    with pytest.raises(DataError, match=why):
        pk.Roofline(np.array(points, dtype=float), 1.0, 1.0)


def test_a_negative_intensity_is_refused(roofline):
    with pytest.raises(DataError, match="-1"):
        roofline.bound([1, -1])


def test_breakpoints_cannot_be_changed(roofline):
    with pytest.raises(ValueError, match="read-only"):
        roofline.breakpoints[0, 0] = 1


@pytest.mark.parametrize("shape", [(1, 2), (3, 3), (4,), (2, 2, 2)])
def test_breakpoints_of_another_shape_are_refused(shape):
    with pytest.raises(DataError, match="expected an array of shape"):
        pk.Roofline(np.linspace(0, 1, int(np.prod(shape))).reshape(shape), 1.0, 1.0)


def test_corners_of_throughputs_and_intensities_below_one():
    # The first lies above the line from (0, 0) to the second, at 0.25 there.
    for k in (1.0, 0.25):
        assert corners_of(np.array([k, 2 * k]), np.array([0.4, 0.5])).tolist() == [[k, 0.4], [2 * k, 0.5]]


def test_the_bound_at_infinity_is_what_was_reached_there():
    corners = np.array([[2.0, 2.0]])
    assert fit_points(corners, 0.5)[2] == 0.5
    assert fit_points(corners, 0.0)[2] == 0.0
    assert fit_points(corners, -1.0)[2] == 2.0  # nobody was there: level from the peak on


def test_a_sample_without_work_right_of_all_is_a_corner_behind_the_peak():
    corners, start = _given(np.array([1.0, 2.0, 5.0]), np.array([1.5, 2.0, 0.0]))
    assert (corners.tolist(), start) == ([[1, 1.5], [2, 2], [5, 0]], -1.0)


def test_the_hull_of_the_peak_alone():
    assert upper_hull(np.array([1.0]), np.array([2.0]), 1.0, 2.0, True).tolist() == [[0, 0], [1, 2]]


def hull_in_fractions(x, y):
    """Corners of the upper hull from (0, 0) on, by whole-number arithmetic; points on a line are no corners."""
    points = [(Fraction(0), Fraction(0)), *((Fraction(a), Fraction(b)) for a, b in zip(x, y, strict=True))]
    hull = []
    for cx, cy in points:
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (by - ay) * (cx - bx) > (cy - by) * (bx - ax):
                break
            hull.pop()
        hull.append((cx, cy))
    return [[float(a), float(b)] for a, b in hull]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [4, 30])
def test_the_exact_hull_of_points_nearly_on_a_line_is_that_of_fractions(seed, n):
    """Rounded products misjudge such points: those of `turn` are the sign of the exact sum."""
    rng = np.random.default_rng([seed, n])
    x = np.sort(rng.uniform(1.0, 2.0, n))
    y = np.nextafter(x * rng.uniform(0.1, 3.0) * (1.0 - 1e-16 * x), rng.choice([0.0, 9.0], n))
    y[-1] = y.max()
    assert upper_hull(x[:-1], y[:-1], x[-1], y[-1], True).tolist() == hull_in_fractions(x, y)


def test_the_side_of_a_line_is_that_of_fractions():
    rng = np.random.default_rng(3)
    found = set()
    for _ in range(500):
        ax, bx, cx = np.sort(rng.uniform(0.1, 9.0, 3)).tolist()
        ay, slope = rng.uniform(0.1, 9.0), rng.uniform(0.01, 9.0)
        by, cy = np.nextafter(ay + slope * (bx - ax), rng.choice([0, 99])), ay + slope * (cx - ax)
        a, b, c = ((Fraction(x), Fraction(float(y))) for x, y in ((ax, ay), (bx, by), (cx, cy)))
        exact = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        found.add(said := turn(ax, float(ay), bx, float(by), cx, float(cy)))
        assert said == (exact > 0) - (exact < 0)
    assert {-1, 1} <= found


@pytest.mark.parametrize(
    ("intensity", "throughput", "rows"),
    [
        ([1, 2, 3], [0.5, -0.1, 2], [1]),
        ([1, np.nan, -0.5, 0], [0, 0.5, 0.25, 0.125], [1, 2]),
        ([np.inf, 2, 3, 4], [1, np.inf, np.nan, 0.5], [1, 2]),
    ],
)
def test_the_rows_of_what_is_no_sample_are_told(intensity, throughput, rows):
    with pytest.raises(DataError, match=re.escape(f"not so in rows {rows}")):
        fit_roofline(intensity, throughput)
