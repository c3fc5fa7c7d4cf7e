"""Figures of the fitters that were worked out another way: by plain loops, by brute force, or by hand."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.base.results import Summarised
from perfkit.fitters.bottlenecks.features import NAMES, RULES, SUMS, features
from perfkit.fitters.cpi.solvers import solve_bounded, solve_lasso, solve_nnls, solve_nnls_many, solve_ols


@pytest.fixture(scope="module")
def core():
    return pk.Microarchitecture.load("skylake_x")


# ------------------------------------------------------------------ features of the learnt model

# By hand: each is the first event for one of the second, but for the two that a comment explains.
QUOTIENTS = {
    "uops per instruction": 3 / 2 / 2,  # in halves: two uops an instruction are 1
    "branches per instruction": 0.5 / 2,
    "misses a branch": 0.05 / 0.5,
    "indirect misses a miss": 0.01 / 0.05,
    "loads per instruction": 0.7 / 2,
    "stores per instruction": 0.3 / 2,
    "forwards a load": 0.07 / 0.7,
    "L1 misses an access": 0.2 / 0.8,
    "L2 misses an L1 miss": 0.1 / 0.2,
    "L3 misses an L2 miss": 0.04 / 0.1,
    "misses at once": 6 / 0.6 / 10,  # in tenths: ten at once are 1
    "taken of branches": 0.25 / 0.5,
    "walks an access": 0.016 / 0.8,
    "L2 pending of L1 pending": 0.3 / 0.6,
    "L3 pending of L1 pending": 0.15 / 0.6,
    "idle of pending L1": 0.12 / 0.6,
    "idle while pending of idle": 0.12 / 0.24,
    "waiting of what is in flight": 30 / 120,
}
RATES = {
    "uops": 3.0, "instructions": 2.0, "branches": 0.5, "branch-misses": 0.05, "branch-misses.indirect": 0.01,
    "mem-loads": 0.7, "mem-stores": 0.3, "store-forwards": 0.07, "l1.accesses": 0.8, "l1.misses": 0.2,
    "l2.misses": 0.1, "l3.misses": 0.04, "occupancy.misses": 6.0, "pending.l1": 0.6, "pending.l2": 0.3,
    "pending.l3": 0.15, "branches.taken": 0.25, "tlb.walks": 0.016, "exec.0.pending.l1": 0.12, "exec.0": 0.24,
    "occupancy.scheduler": 30.0, "occupancy.rob": 120.0, "l3.prefetch-misses": 0.02, "l2.prefetches": 0.3,
}  # fmt: skip


@pytest.mark.parametrize("name", list(QUOTIENTS))
def test_a_quotient_of_two_events_is_what_its_name_says(core, name):
    # A thousand times as often, so that the events take all of the time; and so rarely that they take none of it.
    often, rarely = (features({e: np.array([many * r]) for e, r in RATES.items()}, core)[name] for many in (1e3, 1e-4))
    assert often == pytest.approx([QUOTIENTS[name]])
    assert rarely <= often


def test_a_quotient_of_events_that_take_no_time_does_not_count(core):
    """One cold miss is a miss rate of 1."""
    cold = {
        e: np.array([1e-5 * r if "miss" in e or e in ("l1.accesses", "tlb.walks") else r]) for e, r in RATES.items()
    }
    found = features(cold, core)
    assert found["L2 misses an L1 miss"] < 0.01 * QUOTIENTS["L2 misses an L1 miss"]
    assert found["loads per instruction"] == pytest.approx([QUOTIENTS["loads per instruction"]])


def test_quotients_of_nothing_are_zero_and_of_what_was_not_counted_unknown(core):
    rates = {event: np.array([rate, 0.0]) for event, rate in RATES.items()}
    zero = features(rates, core)
    assert all(zero[name][1] == 0 for name in QUOTIENTS)
    for event in ("instructions", "branches"):
        without = features({e: r for e, r in rates.items() if e != event}, core)
        assert np.isnan(without["branches per instruction"]).all()


def test_lines_and_instructions_are_shares_of_what_the_core_can(core):
    found = features({event: np.array([rate]) for event, rate in RATES.items()}, core)
    assert found["lines from L3"] == pytest.approx([64 * (0.1 + 0.3) / core.value("L3_bandwidth")])
    assert found["lines from L2"] == pytest.approx([64 * 0.2 / core.value("L2_bandwidth")])
    assert found["instructions of the width"] == pytest.approx([2 / core.value("front_end")])
    memory = next(rule.name for rule in RULES if rule.event == "lines.memory")
    assert found[memory] == pytest.approx([64 * (0.04 + 0.02) / core.value("memory_bandwidth")])
    assert set(SUMS) == {"lines.memory", "lines.l3"}
    assert list(found) == list(NAMES)


@pytest.mark.parametrize(
    "counted", [{"branch-misses": 0.03}, {"mem-loads": 0.5, "l1.misses": 0.1}, {"page-faults": 1e-6}]
)
def test_what_to_measure_next_lists_each_class_that_cannot_be_told_once(counted):
    rows = [
        {"run": run, "interval": 0, "event": e, "time": 1e6, "work": 1e6, "count": 1e6 * rate}
        for run in ("one", "two")
        for e, rate in counted.items()
    ]
    samples = pk.Samples.from_frame(pd.DataFrame(rows), time_event="cycles", work_event="instructions")
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    for run in ("one", "two"):
        classes = found.of(run)
        silent = set(classes.loc[classes["status"].isin(["cannot tell", "uncertain"]), "resource"])
        listed = found.next_events[found.next_events["run"] == run]
        assert listed["resource"].is_unique
        assert set(listed["resource"]) <= silent
        assert len(listed) > len(silent) / 2  # the others have no event at all
        assert (listed["event"] != "").all()


# ------------------------------------------------------------------ solvers, against every choice of what is bound


def moments(seed, rows=9, columns=3, same=False):
    rng = np.random.default_rng(seed)
    z = rng.uniform(0, 1, (rows, columns + 1))
    z[:, 0] = 1.0
    z[:, -1] = z[:, :-1] @ rng.normal(0, 1, columns) + rng.normal(0, 0.1, rows)
    if same:
        z[:, 2] = z[:, 1]
    return z.T @ z


def error(m, x):
    v = np.append(x, -1.0)
    return float(v @ m @ v)


def best_of_faces(m, price=None):
    """Return the least error of x >= 0 by least squares over every subset of columns, with a linear price."""
    g, h, k = m[:-1, :-1], m[:-1, -1], len(m) - 1
    price = np.zeros(k) if price is None else price
    found = []
    for bits in itertools.product([False, True], repeat=k):
        x = np.zeros(k)
        some = np.flatnonzero(bits)
        x[some] = np.linalg.solve(g[np.ix_(some, some)], h[some] - price[some]) if len(some) else 0.0
        found += [(error(m, x) + 2 * price @ x, x)] if (x >= 0).all() else []
    return min(found, key=lambda f: f[0])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_non_negative_least_squares_are_the_best_of_all_faces(seed, columns):
    m = moments(seed, columns=columns)
    least, x = best_of_faces(m)
    for start in (None, np.zeros(columns), np.ones(columns), np.arange(columns) % 2):
        assert solve_nnls(m, None if start is None else start.astype(float)) == pytest.approx(x, abs=1e-7)
        if start is not None:
            many = solve_nnls_many(np.stack([m, 2 * m, moments(seed + 50, columns=columns)]), start.astype(float))
            assert many[0] == pytest.approx(x, abs=1e-7)
            assert many[1] == pytest.approx(x, abs=1e-7)
            assert many[2] == pytest.approx(best_of_faces(moments(seed + 50, columns=columns))[1], abs=1e-7)
    assert error(m, solve_ols(m)) <= least + 1e-9


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1, 10.0])
def test_the_lasso_is_the_best_of_all_faces_with_its_price(seed, alpha):
    m = moments(seed)
    n = m[0, 0]
    price = alpha * n * np.sqrt(np.maximum(np.diag(m)[:-1] / n - (m[0, :-1] / n) ** 2, 0))
    assert price[0] == pytest.approx(0, abs=1e-6)  # the base has none
    assert solve_lasso(m, alpha) == pytest.approx(best_of_faces(m, price)[1], abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_least_squares_under_bounds_are_the_best_of_all_faces(seed):
    m = moments(seed)
    rng = np.random.default_rng(100 + seed)
    k, c = rng.normal(0, 1, (3, 3)), rng.normal(-0.5, 0.5, 3)
    g, h = m[:-1, :-1], m[:-1, -1]
    found = []
    for bits in itertools.product([False, True], repeat=3):
        on = np.flatnonzero(bits)
        whole = np.block([[g, -k[on].T], [k[on], np.zeros((len(on), len(on)))]])
        x = np.linalg.solve(whole, np.append(h, c[on]))[:3]
        found += [(error(m, x), x)] if (k @ x >= c - 1e-9).all() else []
    assert solve_bounded(m, k, c) == pytest.approx(min(found, key=lambda f: f[0])[1], abs=1e-5)


# ------------------------------------------------------------------ what is shown


def results():
    """Return every class of the kit that says a summary."""
    found = [getattr(pk, name) for name in dir(pk) if not name.startswith("_")]
    return [each for each in found if isinstance(each, type) and issubclass(each, Summarised)]


@pytest.mark.parametrize("of", results(), ids=lambda c: c.__name__)
def test_a_result_shows_its_summary(of):
    """A dataclass's own ``__repr__`` would print its tables."""
    if dataclasses.is_dataclass(of):
        shown = of.__dataclass_params__
        assert not shown.repr
