import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit_widgets.thinning import thin, thin_line


def test_a_small_cloud_is_drawn_whole():
    assert thin(np.arange(5.0), np.arange(5.0), limit=5).tolist() == [0, 1, 2, 3, 4]


def test_points_that_are_not_finite_are_left_out():
    x = np.array([0.0, np.nan, 2.0, np.inf])
    assert thin(x, np.zeros(4)).tolist() == [0, 2]


def test_lone_points_stay_while_dense_places_give_up_points():
    rng = np.random.default_rng(0)
    x, y = np.r_[rng.normal(0, 0.01, 5000), 10.0, -10.0], np.r_[rng.normal(0, 0.01, 5000), 10.0, 3.0]
    drawn = thin(x, y, limit=100)
    assert {5000, 5001} <= set(drawn.tolist())
    assert len(drawn) == 100


def test_kept_points_are_drawn_beyond_the_limit():
    x = np.zeros(1000)
    keep = np.arange(500, 1000)
    drawn = thin(x, x, keep=keep, limit=10)
    assert set(keep.tolist()) <= set(drawn.tolist())
    assert len(drawn) <= 510


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 400), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_thinning_keeps_the_limit_and_repeats_itself(n: int, limit: int, seed: int):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n)
    drawn = thin(x, y, limit=limit)
    assert len(drawn) == min(n, limit)
    assert (np.diff(drawn) > 0).all()
    assert drawn.tolist() == thin(x, y, limit=limit).tolist()


@pytest.mark.parametrize("n", [20_000, 100_000])
def test_a_large_cloud_is_thinned_to_the_limit(n: int):
    rng = np.random.default_rng(1)
    assert len(thin(rng.normal(size=n), rng.normal(size=n))) == 10_000


def test_a_long_line_keeps_what_can_be_seen():
    """Its ends, its breaks, and the lowest and the highest value of each stretch; a short one stays as it is."""
    rng = np.random.default_rng(4)
    x, y = np.arange(50_000.0), rng.normal(size=50_000)
    y[20_000:20_003] = np.nan
    y[777], y[31_415] = 9.0, -9.0
    across, up = thin_line(x, y, parts=500)
    assert 1000 < len(across) <= 4 * 500 + 3
    assert (across[0], across[-1]) == (0, 49_999)
    assert (np.diff(across) > 0).all()
    assert np.isnan(up).sum() == 3
    assert dict(zip(across, up, strict=True))[777] == 9
    assert dict(zip(across, up, strict=True))[31_415] == -9
    for k in range(500):  # the same band is drawn in every stretch
        here = (x >= 100 * k) & (x < 100 * (k + 1))
        there = (across >= 100 * k) & (across < 100 * (k + 1))
        assert np.nanmin(y[here]) == np.nanmin(up[there])
        assert np.nanmax(y[here]) == np.nanmax(up[there])
    assert thin_line(x[:100], y[:100], parts=500)[0].tolist() == x[:100].tolist()


def test_a_long_line_of_single_intervals_is_still_drawn():
    """An event that is counted in every other interval: two points, a break, two points, ..."""
    x = np.arange(30_000.0)
    y = np.where(x % 3 == 2, np.nan, np.sin(x // 3))
    _, up = thin_line(x, y, parts=500)
    drawn = np.isfinite(up[1:]) & np.isfinite(up[:-1])
    assert drawn.sum() > 2 * 500
    single = np.isfinite(up[1:-1]) & np.isnan(up[2:]) & np.isnan(up[:-2])
    assert not single.any()
