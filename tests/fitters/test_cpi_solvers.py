"""The solvers on moments against solvers on rows (SciPy), and their properties."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.optimize import nnls as scipy_nnls

from perfkit.errors import SettingError
from perfkit.fitters.cpi import estimator
from perfkit.fitters.cpi.estimator import Estimator, choose_alpha, make_estimator
from perfkit.fitters.cpi.solvers import (
    System,
    nnls,
    r_squared,
    refine,
    solve_lasso,
    solve_nnls,
    solve_nnls_many,
    solve_ols,
    squared_error,
    squared_spread,
    to_stack,
)


def system_of(seed, n=60, k=6, form="cpi", noise=0.3):
    """A random system whose true coefficients are partly negative, so that NNLS has something to hold at zero."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(n), rng.gamma(2.0, 1.0, (n, k)) * 10.0 ** rng.integers(-6, 3, k)])
    x = rng.normal(0.5, 1.0, k + 1) / np.sqrt((A**2).mean(axis=0))
    y = A @ x + rng.normal(0, noise, n)
    return System(form, np.column_stack([A, y]), rng.uniform(0.5, 1.5, n))


def rows(system):
    root = np.sqrt(system.weights)
    return system.Z[:, :-1] * root[:, None], system.Z[:, -1] * root


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_nnls_on_moments_is_nnls_on_rows(seed, k):
    system = system_of(seed, k=k)
    A, y = rows(system)
    scale = np.sqrt((A**2).sum(axis=0))
    expected = scipy_nnls(A / scale, y)[0]
    found = solve_nnls(system.moments()) * scale
    assert found == pytest.approx(expected, abs=1e-7 * max(1.0, np.abs(expected).max()))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 2**8 - 1))
def test_nnls_from_any_start_ends_at_the_same_point(seed, guess):
    system = system_of(seed, k=7)
    M = system.moments()
    start = np.array([guess >> i & 1 for i in range(8)], dtype=float)
    cold, warm = solve_nnls(M), solve_nnls(M, start)
    assert squared_error(M, warm) == pytest.approx(squared_error(M, cold), rel=1e-9)
    assert (warm >= 0).all()


def test_nnls_meets_the_conditions_of_optimality_for_singular_moments():
    rng = np.random.default_rng(3)
    A = rng.uniform(0, 1, (30, 4))
    A = np.column_stack([A, A[:, 0], A[:, 1] + A[:, 2]])  # rank 4 of 6
    A /= np.sqrt((A**2).sum(axis=0))
    y = rng.uniform(0, 1, 30)
    x = nnls(A.T @ A, A.T @ y)
    gradient = A.T @ (y - A @ x)
    assert (x >= 0).all()
    assert gradient.max() < 1e-8
    assert np.abs(gradient[x > 0]).max() < 1e-8


def test_ordinary_least_squares_is_that_of_the_rows():
    system = system_of(1)
    A, y = rows(system)
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    x = solve_ols(system.moments())
    assert x == pytest.approx(expected, rel=1e-6)
    assert refine(system, x, np.ones(len(x), dtype=bool)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_the_cpi_form_are_those_of_scipy(seed):
    system = system_of(seed, k=3)
    A, y = rows(system)
    free = np.linalg.lstsq(A, y, rcond=None)[0]
    low = np.array([0.0, 0.3, 0.0, 0.0]) * np.abs(free)
    high = np.array([np.inf, 0.6, 0.5, np.inf]) * np.abs(free)
    bounds = {name: (low[i], high[i]) for i, name in enumerate(("base", "a", "b", "c"))}
    found = make_estimator("nnls", "cpi", ("a", "b", "c"), bounds, None).solve(system.moments())
    scale = np.sqrt((A**2).sum(axis=0))
    expected = lsq_linear(A / scale, y, (low * scale, high * scale), tol=1e-14).x
    assert found * scale == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())


def test_bounds_of_the_ipc_form_are_lines_through_the_origin():
    """Within 5 to 8 cycles for one event and a base of 0.3 to 0.4: a fine grid finds no better point."""
    system = system_of(5, k=1, form="ipc", noise=0.1)
    Z = system.Z.copy()
    Z[:, 1] = -np.abs(Z[:, 1])
    Z[:, 2] = 2.2 + 30 * Z[:, 1] / np.abs(Z[:, 1]).mean() * 0.01
    Z[:, 1] *= 0.01 / np.abs(Z[:, 1]).mean()
    system = System("ipc", Z, system.weights)
    M = system.moments()
    found = make_estimator("nnls", "ipc", ("e",), {"e": (5, 8), "base": (0.3, 0.4)}, None).solve(M)
    base, penalty = to_stack("ipc", found)
    assert 0.3 - 1e-9 <= base <= 0.4 + 1e-9
    assert 5 - 1e-6 <= penalty <= 8 + 1e-6
    grid = [(1 / b, p / b) for b in np.linspace(0.3, 0.4, 101) for p in np.linspace(5, 8, 61)]
    best = min(squared_error(M, np.array(g)) for g in grid)
    assert squared_error(M, found) <= best * (1 + 1e-9)


def test_the_lasso_is_nnls_at_no_price_and_only_the_base_at_a_high_one():
    system = system_of(2, k=5)
    M = system.moments()
    assert Estimator("lasso", alpha=0.0).solve(M) == pytest.approx(solve_nnls(M))
    dear = Estimator("lasso", alpha=1e6).solve(M)
    assert (dear[1:] == 0).all()
    assert dear[0] == pytest.approx(max(M[0, -1] / M[0, 0], 0))


def test_the_lasso_leaves_out_what_only_fits_noise():
    rng = np.random.default_rng(4)
    n = 80
    A = np.column_stack([np.ones(n), rng.uniform(0, 1, (n, 10))])
    y = 1 + 3 * A[:, 1] + rng.normal(0, 0.5, n)
    system = System("cpi", np.column_stack([A, y]), np.ones(n))
    folds = np.array_split(np.arange(n), 5)
    chosen = choose_alpha(Estimator("lasso"), system, folds)
    assert chosen.alpha > 0
    assert (chosen.solve(system.moments()) > 0).sum() < (solve_nnls(system.moments()) > 0).sum()


def test_huber_is_moved_less_by_outliers():
    rng = np.random.default_rng(6)
    n = 200
    a = rng.uniform(0, 1, n)
    y = 1 + 2 * a + rng.normal(0, 0.02, n)
    y[:10] += 5
    system = System("cpi", np.column_stack([np.ones(n), a, y]), np.ones(n))
    robust, factor = Estimator("huber").fit(system)
    plain = solve_nnls(system.moments())
    assert abs(robust[0] - 1) < 0.02 < abs(plain[0] - 1)
    assert factor[:10].max() < 0.1 < factor[10:].mean()


def test_moments_add_up_and_give_errors_and_spread():
    system = system_of(7)
    M = system.moments()
    parts = [system.moments(f) for f in np.array_split(np.arange(60), 4)]
    assert sum(parts) == pytest.approx(M)
    x = solve_nnls(M)
    r = system.residuals(x)
    assert squared_error(M, x) == pytest.approx(float((system.weights * r**2).sum()), rel=1e-9)
    mean = np.average(system.target, weights=system.weights)
    assert squared_spread(M) == pytest.approx(float((system.weights * (system.target - mean) ** 2).sum()))
    assert squared_spread(M, 1.0) == pytest.approx(float((system.weights * (system.target - 1.0) ** 2).sum()))
    assert r_squared(M, x) == pytest.approx(1 - squared_error(M, x) / squared_spread(M))


def test_r2_of_a_target_that_does_not_vary_is_not_a_number():
    Z = np.column_stack([np.ones(5), np.arange(5.0), np.full(5, 0.1)])
    M = System("cpi", Z, np.ones(5)).moments()
    assert np.isnan(r_squared(M, np.array([0.1, 0.0])))


def test_of_a_target_that_is_zero_throughout_nothing_is_explained():
    rows = np.array([[1.0, 2.0, 0.0], [1.0, 5.0, 0.0]])
    assert np.isnan(r_squared(rows.T @ rows, np.zeros(2)))


def test_an_ipc_of_zero_or_below_at_no_misses_has_no_base():
    assert np.isnan(to_stack("ipc", np.array([0.0, 1.0]))).all()
    assert to_stack("ipc", np.array([2.0, 20.0])).tolist() == [0.5, 10.0]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_many_problems_at_once_have_the_solutions_of_each(seed, k):
    moments = np.array([system_of(seed + i, k=k).moments() for i in range(7)])
    start = solve_nnls(moments[0])
    found = solve_nnls_many(moments, start)
    for M, x in zip(moments, found, strict=True):
        assert (x >= 0).all()
        assert squared_error(M, x) == pytest.approx(squared_error(M, solve_nnls(M)), rel=1e-8)


def test_singular_problems_at_once_end_at_a_best_point():
    rng = np.random.default_rng(5)
    moments = []
    for _ in range(5):
        A = rng.uniform(0, 1, (30, 4))
        A = np.column_stack([A, A[:, 0], A[:, 1] + A[:, 2], rng.uniform(0, 1, 30)])
        moments.append(A.T @ A)
    found = solve_nnls_many(np.array(moments), np.ones(6))
    for M, x in zip(moments, found, strict=True):
        assert squared_error(M, x) == pytest.approx(squared_error(M, solve_nnls(M)), rel=1e-8)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def solve(M): return None", "3 finite coefficients; found"),
        ("def solve(M): return [1.0, 2.0]", "3 finite coefficients; found"),
        ("def solve(M): return [1.0, float('nan'), 2.0]", "3 finite coefficients; found"),
        ("def solve(M): return 'three'", "3 finite coefficients; found"),
        ("x = 1", "expected a function solve"),
    ],
)
def test_an_added_method_that_gives_no_coefficients_is_named(source, found, tmp_path, monkeypatch):
    (tmp_path / "solver_of_a_stranger.py").write_text(source + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(estimator, "ADDED", {"mine": "solver_of_a_stranger"})
    monkeypatch.delitem(sys.modules, "solver_of_a_stranger", raising=False)
    with pytest.raises(SettingError, match=f"solver_of_a_stranger: .*({found})"):
        estimator.Estimator("mine").solve(np.eye(4))


def test_an_added_method_does_not_replace_one_of_perfkits(monkeypatch):
    monkeypatch.setattr(estimator, "ADDED", {"nnls": "perfkit.fitters.cpi.solver_nnls"})
    with pytest.raises(SettingError, match="one of perfkit's own methods; rename"):
        estimator.Estimator("nnls").solve(np.eye(4))


def test_the_price_of_lasso_goes_with_the_scale_of_the_target():
    rng = np.random.default_rng(3)
    A = np.column_stack([np.ones(80), rng.normal(size=(80, 6))])
    y = A[:, :3] @ [2.0, 1.0, 0.3] + rng.normal(size=80)
    folds = [np.arange(80) % 5 == k for k in range(5)]
    one, million = (
        choose_alpha(make_estimator("lasso", "cpi", list("abcdef"), None, None), System("cpi", Z, np.ones(80)), folds)
        for Z in (np.column_stack([A, y]), np.column_stack([A, 1e6 * y]))
    )
    assert 0 < one.alpha < 1
    assert million.alpha == pytest.approx(1e6 * one.alpha)


def test_a_target_that_nothing_moves_needs_no_price():
    Z = np.array([[1.0, 0, 2], [1, 1, 2], [1, 0, 2], [1, 1, 2]])
    estimator = make_estimator("lasso", "cpi", ["a"], None, None)
    assert choose_alpha(estimator, System("cpi", Z, np.ones(4)), [np.arange(4) < 2]) is estimator


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("rare", [1e-12, 1.0, 1e6])
def test_the_share_explained_is_not_known_where_the_target_never_varies(size, rare):
    """Nor does it hang on how often events happen: rounding alone is no spread to be explained."""
    rng = np.random.default_rng(7)
    events = rng.uniform(0, rare, (50, 2))
    table = np.column_stack([np.ones(50), events, np.full(50, size * 0.7)])
    flat = table.T @ table
    assert np.isnan(r_squared(flat, np.array([size * 0.7, 0.0, 0.0])))
    table[:, -1] = size * (0.7 + events[:, 0] / rare)
    assert r_squared(table.T @ table, np.array([size * 0.7, size / rare, 0.0])) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_where_a_search_with_prices_begins_changes_no_solution(seed):
    rng = np.random.default_rng(seed)
    table = np.column_stack([np.ones(80), rng.uniform(0, 1, (80, 4)), np.zeros(80)])
    table[:, -1] = table[:, :5] @ np.array([0.5, 2.0, 0.0, 0.3, 0.0]) + rng.normal(0, 0.1, 80)
    M = table.T @ table
    for start in (np.zeros(5), np.ones(5), rng.uniform(-1, 1, 5)):
        assert solve_lasso(M, 0.01, start) == pytest.approx(solve_lasso(M, 0.01), abs=1e-9)
