"""The exact right part: hand-solved fronts, brute force, the paper's graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.fitters.spire.right import right_chain
from tests.fitters import spire_oracle as oracle


def solve(front):
    points = np.array(front, dtype=float)
    chain, corner, error = right_chain(points[:, 0].copy(), points[:, 1].copy())
    return chain.tolist(), corner, error


def error_of(front, chain, corner):
    """Squared error at the front's points of the polyline that was returned, not of the one that was meant."""
    x = [corner, *[front[k][0] for k in reversed(chain)]]
    p = [front[-1][1], *[front[k][1] for k in reversed(chain)]]
    at = np.array([q[0] for q in front], dtype=float)
    fitted = np.where(at <= corner, front[-1][1], np.interp(at, x, p))
    assert (fitted >= np.array([q[1] for q in front]) - 1e-9 * front[-1][1]).all()
    return float(((fitted - np.array([q[1] for q in front])) ** 2).sum())


def test_one_point_is_level():
    assert solve([(2, 3)]) == ([0], 2.0, 0.0)


def test_a_convex_front_is_followed_point_by_point():
    front = [(8, 1), (4, 2), (2, 4), (1, 8)]
    chain, corner, error = solve(front)
    assert error == 0.0
    assert error_of(front, chain, corner) == 0.0


def test_a_concave_front_leaves_early_for_the_peaks_height():
    # Level at A, then up with slope 3, which B requires; height 4 is reached at 4 - 4/3, so that C, at 3.5, is
    # overestimated by a half. Level at B instead would overestimate A by 3.
    front = [(4, 0.0), (3, 3.0), (2, 3.5), (1, 4.0)]
    chain, corner, error = solve(front)
    assert (chain, corner, error) == ([0], pytest.approx(4 - 4 / 3), pytest.approx(0.25))


def test_level_is_best_where_the_front_is_nearly_so():
    # Level at B costs 0.01 at A, then exactly up to C. From A, the line must be steep enough for C: it overestimates B
    # by (1.45 - 1.1)^2.
    chain, corner, error = solve([(10, 1.0), (9.5, 1.1), (1, 9.0)])
    assert error < 0.01 + 1e-12
    assert error_of([(10, 1.0), (9.5, 1.1), (1, 9.0)], chain, corner) == pytest.approx(error)


def test_the_papers_example_skips_c():
    # As in Fig. 6: the chord from B to D passes above C only, by the square root of the error.
    front = [(9, 1.0), (7, 2.0), (5, 2.5), (3, 8.0), (1, 12.0)]
    chain, _, error = solve(front)
    assert error == pytest.approx(float(oracle.brute_force(oracle.fractions(front))))
    assert error_of(front, chain, solve(front)[1]) == pytest.approx(error)


def test_points_on_a_line_do_not_hide_each_other():
    x = np.arange(20, 0, -1) * 0.1
    front = [(a, 3.0 - a / 0.7) for a in x]
    chain, corner, error = solve(front)
    assert error < 1e-20
    assert error_of(front, chain, corner) < 1e-20


@st.composite
def fronts(draw, most):
    n = draw(st.integers(1, most))
    x = sorted(draw(st.sets(st.integers(1, 60), min_size=n, max_size=n)), reverse=True)
    p = sorted(draw(st.sets(st.integers(0, 60), min_size=n, max_size=n)))
    return list(zip(x, p, strict=True))


@given(fronts(8))
@settings(max_examples=150, deadline=None)
def test_it_is_the_optimum_of_all_chains(front):
    chain, corner, error = solve(front)
    best = float(oracle.brute_force(oracle.fractions(front)))
    assert error == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert error_of(front, chain, corner) == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(fronts(16))
@settings(max_examples=60, deadline=None)
def test_it_is_the_shortest_path_of_the_papers_graph(front):
    chain, corner, error = solve(front)
    best = float(oracle.graph_optimum(oracle.fractions(front))[0])
    assert error == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert error_of(front, chain, corner) == pytest.approx(best, rel=1e-9, abs=1e-9)
