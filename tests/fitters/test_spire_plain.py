"""SPIRE in plain Python and numpy, beside the same functions compiled; few samples need no numba."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.fitters.machine_code import as_machine_code
from perfkit.fitters.spire import hull, ranking, right
from perfkit.fitters.spire.roofline import corners_of, fit_points, survey

_PROGRAM = """
import sys, perfkit as pk
model = pk.Spire().fit(pk.datasets.load("spire/train"))
model.rank(pk.datasets.load("spire/memory"))
print("numba" in sys.modules)
"""


def test_fitting_and_ranking_few_samples_does_not_import_numba():
    said = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False"]


values = st.one_of(st.integers(0, 12).map(float), st.floats(1e-3, 1e3))
pairs = st.lists(st.tuples(st.one_of(values, st.just(np.inf)), values), min_size=1, max_size=90)


def walked(intensity, throughput):
    """The corners by the compiled walk over every sample, and the front one by one."""
    x, y = np.array(intensity), np.array(throughput)
    peak, first, last, *_ = survey(x, y)
    left = np.flatnonzero((x > 0) & (x < first))
    left = left[np.argsort(x[left])]
    at, height = np.array([0.0, *x[left], first]), np.array([0.0, *y[left], peak])
    out = np.empty((2, len(at)))
    size = as_machine_code(hull._walk)(at, height, True, out[0], out[1])
    front, best = [], -1.0
    for a, b in sorted(zip(intensity, throughput, strict=True), key=lambda p: (-p[0], -p[1])):
        if last < a < np.inf and b > max(best, 0.0):
            front.append((a, b))
            best = b
    return np.array([*out[:, 1:size].T.tolist(), *front, *([] if first == last else [(last, peak)])])


@given(pairs)
@settings(max_examples=300, deadline=None)
def test_corners_are_those_of_a_walk_over_all_samples(listed):
    x, y = (np.array(column) for column in zip(*listed, strict=True))
    y[x == 0.0] = 0.0  # no work
    found = corners_of(x, y)
    if survey(x, y)[5] > 0.0:
        np.testing.assert_array_equal(found, walked(x.tolist(), y.tolist()))
    else:
        assert not len(found)


@pytest.mark.parametrize("n", [3, 40, 3000])
def test_points_on_a_line_but_for_rounding(n):
    work, time = np.random.default_rng(n).integers(1, 10**6, (2, n)).astype(float)
    x, y = work / (6 * time), work / time
    np.testing.assert_array_equal(corners_of(x, y), walked(x.tolist(), y.tolist()))


@pytest.mark.parametrize("n", [1, 2, 7, 40, 150])
@pytest.mark.parametrize("convex", [True, False])
def test_the_chain_has_the_bits_of_the_compiled_one(n, convex, monkeypatch):
    rng = np.random.default_rng(n)
    x = np.sort(rng.lognormal(0, 2, n))[::-1].copy()
    y = 1.0 / x if convex else np.sort(rng.lognormal(0, 1, n))
    found = []
    for many in (0, 10**9):
        monkeypatch.setattr(right, "_MANY", many)
        chain, corner, error = right.right_chain(x, y)
        found.append((chain.tolist(), corner, error))
    assert found[0] == found[1]


def test_a_front_of_thousands_is_followed():
    x = np.geomspace(1000.0, 1.0, 2500)
    points, _, _ = fit_points(corners_of(x, 1000.0 / x), -1.0)
    assert len(points) > 2400


def test_spreads_have_the_bits_of_the_compiled_ones(monkeypatch):
    rng = np.random.default_rng(0)
    samples = {f"e{k}": (rng.lognormal(size=n), rng.lognormal(size=n)) for k, n in enumerate((1, 7, 7, 40))}
    plain = ranking._spreads(samples, 30, 0.95, 3)
    monkeypatch.setattr(ranking, "_MANY", 0)
    assert ranking._spreads(samples, 30, 0.95, 3) == plain


def test_a_count_of_minus_nought_is_none():
    """``-0.0`` in a table is no count at all: the sample lies at infinity, as one of 0 does."""
    rows = [(1.0, 2.0, 10.0), (1.0, 3.0, 100.0), (1.0, 1.0, 20.0), (1.0, 1.5, 0.0)]

    def fitted(nought):
        counts = [c or nought for *_, c in rows]
        frame = pd.DataFrame(
            {"interval": range(4), "event": "b", "time": 1.0, "work": [w for _, w, _ in rows], "count": counts}
        )
        return pk.Spire().fit(pk.Samples.from_frame(frame, kind="generated"))

    one, other = (fitted(nought).rooflines["b"] for nought in (0.0, -0.0))
    assert np.array_equal(one.breakpoints, other.breakpoints)
    assert one.at_infinity == other.at_infinity == 1.5
