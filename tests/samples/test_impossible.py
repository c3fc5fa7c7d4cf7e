"""Intervals in which no core can have counted so: named, left out, and never part of a supported answer."""

import re

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import PerfkitWarning
from perfkit.samples.impossible import impossible_intervals, without_impossible


def table(n=30, **columns):
    """Samples of ``n`` intervals of 0.2 s: 500 million cycles, 700 million instructions, and what is given."""
    counts = {"cycles": [500e6] * n, "instructions": [700e6] * n} | {
        e.replace("__", "."): list(values) if hasattr(values, "__len__") else [values] * n
        for e, values in columns.items()
    }
    rows = [
        {
            "run": "a", "interval": i, "at": 0.2 * (i + 1), "seconds": 0.2, "event": event, "count": values[i],
            "time": counts["cycles"][i], "work": counts["instructions"][i],
        }
        for i in range(n)
        for event, values in counts.items()
    ]  # fmt: skip
    return pk.Samples.from_frame(pd.DataFrame(rows), kind="measured", time_event="cycles", work_event="instructions")


def but(value, at, other, n=30):
    return [other if i == at else value for i in range(n)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"instructions": but(700e6, 11, 23e9)}, "46 instructions per cycle"),
        ({"cycles": but(500e6, 11, 5e6)}, "140 instructions per cycle"),
        ({"stalled-cycles-backend": but(90e6, 11, 9e9)}, "stalled-cycles-backend counts 9e+09 cycles of 5e+08"),
        ({"ex_ret_ops": but(900e6, 11, 19e9)}, "ex_ret_ops are 38 per cycle"),
        ({"branches": but(70e6, 11, 3e9)}, "branches are 3e+09 of 7e+08 instructions"),
        ({"LLC-load-misses": but(2e3, 11, 8e8)}, "LLC-load-misses are 8e+08 of 7e+08 instructions"),
        ({"task-clock": but(200, 11, 20)}, "25 GHz by task-clock"),
        ({"task-clock": but(200e6, 11, 20e6)}, "25 GHz by task-clock"),
    ],
)
def test_an_interval_that_cannot_be_is_named(columns, told):
    samples = table(**columns)
    (found,) = impossible_intervals(samples)
    assert found.told() == f"interval 11 (until 2.4 s): {told}"
    rest = without_impossible(samples, [found])
    assert sorted(rest.table["interval"].unique()) == [i for i in range(30) if i != 11]
    explored = pk.explore(samples)
    assert "interval 11 (until 2.4 s)" in explored.headline
    assert explored.headline.startswith("IPC 1.4 (1 of 30 intervals cannot be and is left out")
    assert f"with them {samples.throughput():.3g}, without 1.4 instructions per cycle" in explored.headline
    assert "supported" not in set(explored.methods["trust"])


@pytest.mark.parametrize(
    "columns",
    [
        {"instructions": but(700e6, 11, 5e9)},
        {"stalled-cycles-backend": 500e6},
        {"task-clock": but(200, 11, 100)},
        {"L1-dcache-loads": 2e9},  # gathers
        {"cache-misses": 800e6},  # in every interval: a copy of whole pages by one instruction
        {"branches:u": but(70e6, 11, 3e9)},  # of other modes than time and work
    ],
)
def test_what_can_be_stays(columns):
    assert impossible_intervals(table(**columns)) == []


def test_where_most_intervals_cannot_be_nothing_is_concluded():
    found = pk.explore(table(branches=2.1e9))
    assert found.headline.startswith("IPC 1.4: the counts cannot be in 30 of 30 intervals: branches are 2.1e+09 of ")
    assert "supported" not in set(found.methods["trust"])


def test_counts_of_no_core_are_not_judged():
    samples = table(instructions=50e9).with_axes("seconds", "instructions")
    assert impossible_intervals(samples) == []


def test_spire_learns_and_ranks_without_what_cannot_be():
    misses = [1e5 * (1 + i % 7) for i in range(30)]
    sound = table(cache_misses=misses, instructions=[6e8 + 1e7 * (i % 5) for i in range(30)])
    work = [5e10 if i == 4 else 6e8 + 1e7 * (i % 5) for i in range(30)]
    damaged = table(cache_misses=misses, instructions=work)
    model = pk.Spire().fit(sound)
    with pytest.warns(
        PerfkitWarning, match=re.escape("1 interval left out of the training: no core ends more than 16")
    ):
        learnt = pk.Spire().fit(damaged)
    peaks = [max(roofline.peak for roofline in each.rooflines.values()) for each in (model, learnt)]
    assert peaks[1] == pytest.approx(peaks[0])
    with pytest.warns(
        PerfkitWarning, match=r"left out of the ranking.*\(a, interval 4 \(until 1 s\): 100 instructions"
    ):
        ranking = model.rank(damaged, bootstrap=0)
    assert ranking.throughput < 2
