"""SPIRE of a fleet: the fit of its partitions is the fit of everything, to the last bit."""

from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.fitters.spire import summary as summaries
from perfkit.fitters.spire.fleet import _group, _sum
from perfkit.fitters.spire.hull import turn
from perfkit.samples.fleet import Piece, _chunks
from perfkit.samples.parts import Part, write_part

open_samples = partial(pk.open_samples, memory=None)  # a folder is a fleet, a file is not

# Small whole numbers put many samples on common lines, where rounding decides; the others are what counters give.
NUMBERS = st.one_of(st.integers(0, 12).map(float), st.floats(0.0, 1e12).map(lambda x: float(np.float32(x))))
ROWS = st.tuples(NUMBERS.filter(lambda t: t > 0), NUMBERS, NUMBERS)


def fleet_of(folder, parts, long=()):
    """A fleet of one file per part, of lists of (time, work, {event: count})."""
    for i, rows in enumerate(parts):
        table = [
            {"run": f"r{i}", "interval": k, "event": event, "time": t, "work": w, "count": n}
            for k, (t, w, counts) in enumerate(rows)
            for event, n in counts.items()
        ]
        samples = pk.Samples.from_frame(pd.DataFrame(table), kind="generated", missing="keep")
        if i in long:
            samples.save(folder / f"{i}.parquet")
        else:
            write_part(samples, folder / f"{i}.parquet")
    return open_samples(folder)


def same(one, two):
    assert list(one.rooflines) == list(two.rooflines)
    for event, roofline in one.rooflines.items():
        other = two.rooflines[event]
        assert roofline.breakpoints.tolist() == other.breakpoints.tolist()
        assert (roofline.peak_intensity, roofline.at_infinity) == (other.peak_intensity, other.at_infinity)
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), check_exact=True)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_merged_summaries_are_the_summary_of_everything(rows, cuts):
    time, work, count = np.array(rows).T
    with np.errstate(divide="ignore", invalid="ignore"):
        at, height = np.where(count > 0, work / count, np.inf), work / time
    keep = ~((work == 0) & (count == 0))
    at, height = at[keep], height[keep]
    edges = sorted({0, len(at), *(c for c in cuts if c < len(at))})
    parts = [summaries.summarise(at[a:b], height[a:b], [b - a, 0, 0, 0]) for a, b in pairwise(edges)]
    if not parts:
        return
    merged = parts[0]
    for part in parts[1:]:
        merged = summaries.merge(merged, part)
    whole = summaries.summarise(at, height, [len(at), 0, 0, 0])
    assert merged.corners.tolist() == whole.corners.tolist()
    numbers = ("at_infinity", "counted", "lowest", "highest", "slowest", "fastest", "is_even")
    for name in numbers:
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), abs=0, rel=0, nan_ok=True), name


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(1, 50), min_size=6, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    odd=st.sampled_from([1.0, 1.0004, 1.01]),
)
def test_an_events_rate_is_told_however_its_samples_are_cut(times, cuts, odd):
    """Also into parts without samples: seven per cycle throughout, or the last one by more."""
    time = np.array(times, dtype="float64")
    count = 7 * time * np.where(np.arange(len(time)) < len(time) - 1, 1.0, odd)
    work = time * (1 + np.arange(len(time)) % 3)
    at, height = work / count, work / time
    edges = sorted([0, len(at), *(min(c, len(at)) for c in cuts)])
    merged = summaries.summarise(at[:0], height[:0], [0, 0, 0, 0])
    for a, b in pairwise(edges):
        merged = summaries.merge(merged, summaries.summarise(at[a:b], height[a:b], [b - a, 0, 0, 0]))
    assert merged.is_even == (odd < 1.001)
    if merged.is_even:
        assert (merged.slowest, merged.fastest) == (pytest.approx(7, rel=1e-12), pytest.approx(7 * odd, rel=1e-12))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=400), seed=st.integers(0, 99))
def test_the_sieve_drops_nothing_that_matters(rows, seed):
    """Batch by batch, with a buffer that is pressed many times, as for a file of millions."""
    rng = np.random.default_rng(seed)
    time, work, count = np.array(rows)[rng.integers(len(rows), size=5000)].T
    work = work * rng.integers(1, 50, 5000)
    sieve = summaries._Sieve()
    sieve.buffer = np.empty((64, 2))
    for a in range(0, 5000, 700):
        part = slice(a, a + 700)
        sieve.take(time[part], work[part], work[part] / time[part], count[part], np.empty(0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(count > 0, work / count, np.inf)
    keep = ~((work == 0) & (count == 0))
    whole = summaries.summarise(at[keep], (work / time)[keep], sieve.tally[:4])
    found = sieve.summary()
    assert found.corners.tolist() == whole.corners.tolist()
    assert (found.at_infinity, found.counted[0], found.lowest) == (whole.at_infinity, keep.sum(), whole.lowest)
    assert found.is_even == whole.is_even


@settings(max_examples=300, deadline=None)
@given(
    x=st.tuples(*[st.floats(1e-3, 1e6)] * 3).map(sorted),
    slope=st.floats(1e-6, 10.0),
    nudge=st.sampled_from([0.0, 0.0, 1e-16, -1e-16, 1e-9]),
)
def test_on_which_side_of_a_line_a_point_lies_is_exact(x, slope, nudge):
    if len(set(x)) < 3:
        return
    y = [slope * v * (1 + nudge * (i == 1)) for i, v in enumerate(x)]
    (ax, bx, cx), (ay, by, cy) = ([Fraction(v) for v in values] for values in (x, y))
    true = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    assert turn(x[0], y[0], x[1], y[1], x[2], y[2]) == (true > 0) - (true < 0)


def test_a_fleet_gives_the_model_of_the_same_samples_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    parts = []
    for i in range(5):
        rows = []
        for _ in range(40):
            work = float(rng.integers(0, 1000))
            counts = {"a": float(rng.integers(0, 30)), "b": np.nan if rng.random() < 0.2 else float(rng.integers(9))}
            rows.append((100.0, work, counts | ({"late": 3.0} if i > 2 else {})))
        parts.append(rows)
    fleet = fleet_of(tmp_path, parts, long=(1, 3))
    assert len(fleet.parts) == 5
    assert fleet.kind == "generated"
    model = pk.Spire().fit(fleet)
    same(model, pk.Spire().fit(fleet.to_samples()))
    assert model.training.loc["b", "n_missing"] > 0


def test_a_sample_that_was_counted_too_short_is_left_out_of_a_fleet_as_of_samples_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    table = [
        {"run": "r", "interval": k, "event": event, "time": 100.0, "work": 1.0 + 7 * k % 11,
         "count": float(rng.integers(1, 30)), "running": running}
        for k in range(60) for event, running in (("a", 1.0), ("b", 0.2 + 0.6 * (k % 3 == 0)))
    ]  # fmt: skip
    write_part(pk.Samples.from_frame(pd.DataFrame(table), kind="generated"), tmp_path / "r.parquet")
    fleet = open_samples(tmp_path)
    assert not fleet.parts[0].whole  # it is read in batches
    model = pk.Spire(min_running=0.5).fit(fleet)
    same(model, pk.Spire(min_running=0.5).fit(fleet.to_samples()))
    assert model.training["n_samples"].to_dict() == {"a": 60, "b": 20}


@pytest.mark.parametrize("n", [1, 1024, 1025, 3000, 20_000])
def test_every_sample_of_a_long_batch_is_taken_in(n):
    """They are taken in by blocks of 1,024: the last one is the highest here."""
    sieve, work = summaries._Sieve(), np.arange(1.0, n + 1)
    ones = np.ones(n)
    sieve.take(ones, work, work, ones, np.zeros(0), 0.0)
    assert sieve.summary().counted[0] == n
    assert sieve.summary().corners[:, 1].max() == n


def test_a_model_takes_further_samples_in_as_if_they_had_been_there(tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        (float(rng.integers(50, 99)), float(rng.integers(0, 99)), {"a": float(rng.integers(0, 9))}) for _ in range(90)
    ]
    whole = fleet_of(tmp_path, [rows[:30], rows[30:60], rows[60:]])
    model = pk.Spire().fit(whole)
    first = pk.Spire().fit(whole.where(run="r0"))
    grown = first.update(whole.where(run=["r1", "r2"]))
    same(grown, model)
    assert first.training.loc["a", "n_samples"] < model.training.loc["a", "n_samples"]
    saved = pk.SpireModel.load(first.save(tmp_path / "first.spire"))
    same(saved.update(whole.where(run=["r1", "r2"]).to_samples()), model)
    with pytest.raises(SettingError, match="time = cycles"):
        model.update(pk.datasets.load("cpi/workloads").with_axes("seconds", "instructions"))


def test_a_model_for_each_version_comes_from_one_pass(tmp_path):
    rng = np.random.default_rng(2)
    parts = [
        [(100.0, float(rng.integers(1, 99)), {"a": float(rng.integers(1, 9))}) for _ in range(20)] for _ in range(4)
    ]
    fleet_of(tmp_path, parts)
    labels = pd.DataFrame({"run": ["r0", "r1", "r2", "r3"], "version": ["1", "1", "2", "2"]})
    fleet = open_samples(tmp_path, labels=labels)
    models = pk.Spire().fit_each(fleet, "version")
    assert list(models) == [("1",), ("2",)]
    for (version,), model in models.items():
        same(model, pk.Spire().fit(fleet.where(version=version)))


def test_work_without_time_is_an_error_that_names_the_file(tmp_path):
    fleet = fleet_of(tmp_path, [[(1.0, 1.0, {"a": 1.0})], [(0.0, 5.0, {"a": 1.0})]])
    with pytest.raises(DataError, match=r"1\.parquet: a: work without time"):
        pk.Spire().fit(fleet)


@pytest.mark.parametrize("files", [3, 2_000, 20_000])
@pytest.mark.parametrize("rows", [100, 1 << 18, 50 << 18])
def test_tasks_hold_every_row_once_and_are_no_more_than_can_be_merged(files, rows):
    """Of descriptions alone: up to half a million million samples."""
    groups = (rows,) if rows < 1 << 18 else (1 << 18,) * (rows >> 18)
    part = Part("x", False, groups, ("r",), ("a", "b"), rows, (0, 0), "cycles", "instructions")
    tasks = list(_chunks([Piece(part, groups, {"r": i}) for i in range(files)]))
    assert len(tasks) <= 2 * 10_000
    taken = [(piece.cells["r"], g) for task in tasks for piece in task for g in piece.groups]
    assert taken == [(i, g) for i in range(files) for g in range(len(groups))]


def test_the_sums_of_a_machine_by_hand():
    # The roofline rises to (3, 1.5); one sample at 2, one at the highest intensity of the training, 3.
    sums, none = np.zeros(5), np.empty(0)
    time, work, count = np.array([1.0, 2.0]), np.array([2.0, 3.0]), np.ones(2)
    line = np.array([0.0, 3.0]), np.array([0.0, 1.5])
    _sum(time, work, count, none, 0.0, *line, 3.0, 0.5, 2.0, 3.0, sums)
    assert sums.tolist() == [3, 1 * 1.0 + 2 * 1.5, 3, 0, 2]
    _sum(time, work, count, none, 0.0, *line, 2.5, 0.5, 2.5, 2.9, sums)
    assert sums.tolist() == [6, 8, 4, 3, 4]  # one is left of 2.5; 2 and 3 lie outside of 2.5 to 2.9


@pytest.mark.parametrize(
    ("time", "work", "count", "share"),
    [
        (0.0, 2.0, 1.0, 1.0),  # no time
        (-1.0, 2.0, 1.0, 1.0),
        (1.0, -2.0, 1.0, 1.0),
        (1.0, 2.0, -1.0, 1.0),
        (1.0, 2.0, np.nan, 1.0),  # not counted
        (1.0, 0.0, 0.0, 1.0),  # nothing happened
        (1.0, 2.0, 1.0, 0.4),  # counted in too little of the interval
    ],
)
def test_what_is_no_sample_of_a_machine_adds_nothing(time, work, count, share):
    sums = np.zeros(5)
    line = np.array([0.0, 3.0]), np.array([0.0, 1.5])
    given = (np.array([4.0, x]) for x in (time, work, count))  # beside a sample of four cycles at an intensity of 1
    _sum(*given, np.array([0.5, share]), 0.5, *line, 3.0, 0.5, 0.0, 3.0, sums)
    assert sums.tolist() == [4, 4 * 0.5, 4, 0, 1]


@pytest.mark.parametrize(
    ("work", "count", "bound", "left"),
    [
        (2.0, 0.0, 0.5, 0),  # an event that did not happen: what the line tends to, right of the peak
        (8.0, 2.0, 0.75, 0),  # beyond the last point
        (6.0, 2.0, 0.75, 0),
        (5.0, 2.0, 0.875, 0),  # in the middle of the falling piece
        (4.0, 2.0, 1.0, 4),  # the peak
        (0.0, 2.0, 0.0, 4),  # no work
    ],
)
def test_the_bound_of_a_sample_on_each_piece_of_a_roofline(work, count, bound, left):
    sums, none = np.zeros(5), np.empty(0)
    line = np.array([0.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.75])
    _sum(np.array([4.0]), np.array([work]), np.array([count]), none, 0.0, *line, 2.0, 0.5, 0.0, np.inf, sums)
    assert sums.tolist() == [4, 4 * bound, left, 0, 1]


def test_a_roofline_that_rises_for_ever_has_its_peak_at_infinity():
    sums, none = np.zeros(5), np.empty(0)
    line = np.array([0.0, 2.0]), np.array([0.0, 1.0])
    _sum(np.array([4.0]), np.array([2.0]), np.zeros(1), none, 0.0, *line, np.inf, 3.0, 0.0, np.inf, sums)
    assert sums.tolist() == [4, 12, 4, 0, 1]


def test_the_rows_of_a_group_are_sorted_by_their_bound_and_those_of_two_machines_have_no_interval():
    machines = [
        {"a": np.array([1.0, 4.0, 0.0, 0.0, 2.0]), "b": np.array([2.0, 2.0, 2.0, 1.0, 3.0])},
        {"a": np.array([3.0, 4.0, 3.0, 0.0, 5.0])},
    ]
    b, a = _group(["a", "b"], machines, 50, 0.9, 0)
    assert (*b[:4], *b[6:]) == ("b", 1.0, 1.0, 0.5, True, 3, 1)
    assert (*a[:4], *a[6:]) == ("a", 2.0, 0.75, 0.0, False, 7, 2)  # a bound of eight in four cycles
    assert np.isnan([*b[4:6], *a[4:6]]).all()


def test_the_rows_of_a_group_by_hand():
    # Three machines that are alike: the bound of each draw is the bound, so no other event is a candidate.
    machine = {"a": np.array([1.0, 1.0, 1.0, 0.0, 1.0]), "b": np.array([1.0, 2.0, 0.0, 0.5, 1.0])}
    rows = _group(["b", "never", "a"], [machine] * 3, 50, 0.9, 0)
    assert rows == [("a", 1, 1, 0, 1, 1, True, 3, 3), ("b", 2, 0, 0.5, 2, 2, False, 3, 3)]
