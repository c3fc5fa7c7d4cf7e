"""Parts of the fitters against references of a few lines, over all that they may be given."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.fitters.cpi import solvers, verdict
from perfkit.fitters.cpi.moments import Moments, _add, merge_moments, packed, unpacked
from perfkit.fitters.cpi.stack import _within
from perfkit.fitters.cpi.validation import CpiBracket, f_test, outside, variance_inflation
from perfkit.fitters.machine_code import as_machine_code
from tests.loose import mutable_dataclasses


def test_what_fitters_return_cannot_be_changed():
    assert mutable_dataclasses("perfkit.fitters") == []


# ------------------------------------------------------------------ the verdict on a stack


SAID = {
    "long base": "bootstrap interval of the base",
    "apart": "outside of what resampling alone gives",
    "wide": "longer than a fifth of the CPI",
    "few": "intervals are few",
    "in order": "rows are sorted",
    "impossible": "cannot be what they claim",
    "unlikely": "more than cores of today show",
    "twice": "counted under two names",
}


@pytest.mark.parametrize("signs", [*itertools.combinations(SAID, 0), *itertools.combinations(SAID, 1),
                                   *itertools.combinations(SAID, 2), tuple(SAID)])  # fmt: skip
@pytest.mark.parametrize(
    ("beyond", "width"), [(0.9, 0.05), (0.5, 0.1), (0.4, 0.05), (0.9, 0.2), (0.1, 0.05), (0.9, 0.3)]
)
def test_a_verdict_tells_each_sign_against_a_stack_and_no_other(signs, beyond, width):
    """Each sign takes "supported" away; what is explained, and how far the bases agree, decide the rest."""
    asked = {
        "spreads": {"base": 0.3 if "long base" in signs else 0.2, "misses": 0.21 if "wide" in signs else 0.2},
        "in_order": "in order" in signs,
        "wrong": tuple(int(name in signs) for name in ("impossible", "unlikely", "twice")),
        "intervals": verdict.FEWEST - ("few" in signs),
        "apart": ("misses",) if "apart" in signs else (),
    }
    bracket = CpiBracket(1.0 - width, 1.0, 1.0)
    found = verdict.verdict_of(beyond, "phases", 0.0, bracket, **asked)
    told = {sign for sign, words in SAID.items() if words in str(found)}
    assert told == set(signs)
    assert bracket.width == pytest.approx(width)
    near = width <= 0.1 + 1e-12
    expected = (
        "unsupported"
        if beyond < 0.2 or width > 0.25
        else "supported"
        if beyond >= 0.5 and near and not signs
        else "uncertain"
    )
    assert found.level == expected


@pytest.mark.parametrize(("placebo", "of", "level"), [
    (0.0, 0.5, "supported"), (0.5, 0.75, "supported"), (0.5, 0.74, "uncertain"), (0.5, 0.61, "uncertain"),
    (0.5, 0.59, "unsupported"), (0.9, 0.951, "supported"), (1.0, 1.0, "unsupported"), (0.0, math.nan, "unsupported"),
])  # fmt: skip
def test_what_is_explained_counts_from_the_placebo(placebo, of, level):
    found = verdict.verdict_of(of, "runs", placebo, CpiBracket(0.5, 0.5, 1.0), {"base": 0.1}, False, (0, 0, 0))
    assert found.level == level
    assert ("too few intervals to keep runs out" in str(found)) == math.isnan(of)


# ------------------------------------------------------------------ statistics


@settings(deadline=None)
@given(st.floats(0.01, 0.999), st.integers(1, 6), st.integers(1, 60))
def test_f_is_what_scipy_says(r2, k, free):
    from scipy import stats

    n = free + k + 1
    F, p, adjusted = f_test(r2, n, k)
    assert pytest.approx(r2 / k / ((1 - r2) / free), rel=1e-12) == F
    assert p == pytest.approx(stats.f.sf(F, k, free), rel=1e-9, abs=1e-300)
    assert 1 - adjusted == pytest.approx((1 - r2) * (n - 1) / free, rel=1e-12)


@pytest.mark.parametrize("r2", [0.0, -0.3, 1e-13])
def test_what_explains_nothing_has_no_f_and_is_sure_to_come_by_chance(r2):
    F, p, adjusted = f_test(r2, 10, 2)
    assert (F, p) == (0.0, 1.0)
    assert adjusted == pytest.approx(1 - (1 - r2) * 9 / 7)


def test_an_f_test_has_its_ends():
    assert f_test(1.0, 10, 2) == (math.inf, 0.0, 1.0)
    assert all(map(math.isnan, (*f_test(0.5, 3, 2), *f_test(0.5, 10, 0), *f_test(math.nan, 10, 2))))
    assert not math.isnan(f_test(0.5, 4, 2)[0])  # one degree of freedom is enough


@settings(deadline=None)
@given(st.integers(2, 4), st.integers(0, 99))
def test_inflation_is_one_over_what_the_other_events_leave(k, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, k)) @ rng.normal(size=(k, k)) + rng.normal(size=k)
    table = np.column_stack([np.ones(30), X, np.zeros(30)])
    found = variance_inflation(table.T @ table)
    for j in range(k):
        others = np.column_stack([np.ones(30), np.delete(X, j, axis=1)])
        rest = X[:, j] - others @ np.linalg.lstsq(others, X[:, j], rcond=None)[0]
        expected = 1.0 / (rest @ rest / ((X[:, j] - X[:, j].mean()) ** 2).sum())
        if expected < 1e6:
            assert found[j] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("other", "is_outside"), [(0.0, True), (0.5, False), (1.0, False), (1.1, True), (math.nan, False)]
)
def test_outside_is_beyond_either_end(other, is_outside):
    draws = np.linspace(0.1, 1.0, 1001)[:, None]
    assert outside(draws, np.array([other]), 1.0).tolist() == [is_outside]
    assert outside(draws[:0], np.array([other]), 1.0).tolist() == [False]


# ------------------------------------------------------------------ solutions


def best_of_faces(G, h):
    """The solution of least value among those of every choice of entries that are zero: 2^m systems."""
    best, at = 0.0, np.zeros(len(h))
    for some in itertools.product([False, True], repeat=len(h)):
        face = np.flatnonzero(some)
        if len(face):
            x = np.zeros(len(h))
            x[face] = np.linalg.solve(G[np.ix_(face, face)], h[face])
            if (x >= -1e-12).all() and (value := x @ G @ x / 2 - h @ x) < best:
                best, at = value, x
    return at


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(0, 999))
def test_many_solutions_without_negative_entries_are_the_best_of_all_faces(m, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(8, m + 6, m))
    G, h = A.transpose(0, 2, 1) @ A, rng.normal(size=(8, m)) * 3
    for passive in (np.zeros(m, dtype=bool), np.ones(m, dtype=bool), rng.random(m) < 0.5):
        found = solvers.nnls_many(G, h, passive)
        for i in range(8):
            expected = best_of_faces(G[i], h[i])
            assert found[i] == pytest.approx(expected, abs=1e-7)
            assert solvers.nnls(G[i], h[i], passive) == pytest.approx(expected, abs=1e-7)


def test_many_sound_problems_end_without_the_search_for_one(monkeypatch):
    """Exchanging entries ends by itself: the search of one problem after another is for the few where it does not."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(200, 20, 6))
    monkeypatch.setattr(solvers, "nnls", lambda *asked: pytest.fail("a problem was left to the search"))
    found = solvers.nnls_many(A.transpose(0, 2, 1) @ A, rng.normal(size=(200, 6)) * 3, np.ones(6, dtype=bool))
    assert (found >= 0).all()
    assert (found > 0).any(axis=1).mean() > 0.8


# ------------------------------------------------------------------ sums over intervals


def sums_of(table, folds):
    m = table.shape[1]
    sums = (
        np.zeros((folds, m, m)),
        np.zeros((folds, m, m)),
        np.zeros((m, m)),
        np.zeros(4),
        np.zeros(3, dtype=np.int64),
    )
    as_machine_code(_add)(np.array(table), *sums)
    return sums


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(0, 999), st.integers(1, 5))
def test_sums_of_intervals_are_those_of_whole_rows(events, seed, folds):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (25, events + 2)).astype(float)
    table[rng.random(25) < 0.2, rng.integers(events + 2)] = np.nan
    a, b, plain, shares, counted = sums_of(table, folds)
    missing = np.isnan(table).any(axis=1)
    idle = ~missing & ((table[:, 0] <= 0) | (table[:, -1] <= 0))
    used = table[~missing & ~idle]
    assert counted.tolist() == [len(used), missing.sum(), idle.sum()]
    assert np.tril(plain) == pytest.approx(np.tril(used.T @ used))
    assert np.tril(a.sum(axis=0)) == pytest.approx(np.tril(used.T @ (used / used[:, :1])))
    assert np.tril(b.sum(axis=0)) == pytest.approx(np.tril(used.T @ (used / used[:, -1:])))
    cycles, work = used[:, 0], used[:, -1]
    assert shares == pytest.approx([(1 / cycles).sum(), (work / cycles).sum(), (1 / work).sum(), (cycles / work).sum()])


def test_the_fold_of_an_interval_depends_on_nothing_but_its_counts():
    rng = np.random.default_rng(1)
    table = rng.integers(1, 10**6, (400, 4)).astype(float)
    one, two = sums_of(table, 4), sums_of(table[::-1], 4)
    assert one[0] == pytest.approx(two[0])
    alone = [sums_of(row[None], 4)[0] for row in table]
    assert sum(alone) == pytest.approx(one[0])
    of_fold = np.array([[part[k, 0, 0] > 0 for k in range(4)] for part in alone])
    assert (of_fold.sum(axis=1) == 1).all()
    assert (np.abs(of_fold.mean(axis=0) - 0.25) < 0.08).all()  # 3.7 standard deviations


def test_sums_are_added_and_packed_without_a_loss():
    rng = np.random.default_rng(2)
    one, two = (
        Moments(*(rng.random(s) for s in ((3, 4, 4), (3, 4, 4), (4, 4), (4,))), *map(int, rng.integers(1, 9, 3)))
        for _ in range(2)
    )
    both = merge_moments(one, two)
    for name in ("by_cycles", "by_work", "plain", "shares", "n", "missing", "idle"):
        assert np.array_equal(getattr(both, name), getattr(one, name) + getattr(two, name))
        assert np.array_equal(getattr(unpacked(packed(one), 3, 4), name), getattr(one, name))


def test_parts_without_bounds_of_their_own_are_bounded_by_zero_alone():
    counts = SimpleNamespace(events=("misses", "faults"))
    stack = np.array([0.35, 0.2, -1e-18])
    asked = SimpleNamespace(bounds={"misses": (0.1, 0.15)})
    assert _within(stack, asked, counts).tolist() == [0.35, 0.15, 0.0]
    assert _within(stack, SimpleNamespace(bounds={"base": (0.4, 9.0)}), counts).tolist() == [0.4, 0.2, 0.0]
    assert _within(stack, SimpleNamespace(bounds={}), counts) is stack
