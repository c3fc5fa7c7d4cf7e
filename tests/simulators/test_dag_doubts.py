"""When the cycles of a schedule are not to be relied on: it says so itself."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.dag.doubts import CALLS, MISSED, MISSED_AT_FIRST, SPLIT, STRINGS, doubts
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.measures import Schedule
from perfkit.simulators.dag.schedule import DagScheduler


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({CALLS: "100"}, "every 30th instruction is a return"),
        ({STRINGS: "100"}, "100 string instructions"),
        ({SPLIT: "300"}, "10% of the instructions are of 512 bits"),
        ({MISSED: "10", MISSED_AT_FIRST: "40"}, "10 are simulated as missed"),
    ],
)
def test_each_rule_compares_with_the_cycles(facts, words):
    (said,) = doubts(facts, 3000, 1000, 20, 10)
    assert words in said
    few = {name: str(int(count) // 20) for name, count in facts.items()}
    assert doubts(few, 3000, 1000, 20, 10) == ()


def search(data, wanted, found):
    """Look for each of `wanted` by bisection."""
    for k in range(wanted.size):
        low, high = 0, data.size
        while low < high:
            middle = (low + high) // 2
            if data[middle] < wanted[k]:
                low = middle + 1
            else:
                high = middle
        found[k] = low


def total(data, result):
    """Add the elements of an array."""
    for k in range(data.size):
        result[0] += data[k]


def test_branches_that_depend_on_the_data_are_said(tmp_path):
    data = np.arange(512)
    wanted = np.random.default_rng(0).integers(0, 512, 300)
    core = DagCore.load("zen4")
    told = DagScheduler(core, record=False).run(pk.trace_numba(search, data, wanted, wanted.copy(), whole=True))
    assert any("hard to predict" in doubt for doubt in told.doubts)
    assert Schedule.load(told.save(tmp_path / "s.npz")).doubts == told.doubts
    quiet = DagScheduler(core, record=False).run(pk.trace_numba(total, np.ones(2000), np.zeros(1), whole=True))
    assert quiet.doubts == ()


def test_the_picture_says_whose_cycles_are_doubtful():
    from perfkit.plots.roofs_by_level import plot_levels

    wanted = np.random.default_rng(0).integers(0, 64, 100)
    source = pk.trace_numba(search, np.arange(64), wanted, wanted.copy(), whole=True)
    roofline = DagScheduler(DagCore.load("zen4"), record=False).run(source).roofline()
    assert "not to be relied on (the verdict says why): search" in plot_levels({"search": roofline}).get_title()
