"""SPIRE: fitting, ranking, storing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import DataError, FormatError, PerfkitWarning, SettingError
from perfkit.fitters.spire.points import _totals
from perfkit.fitters.spire.ranking import _spreads
from perfkit.fitters.spire.roofline import fit_roofline
from tests.fitters import spire_oracle as oracle


def samples(**events):
    """Samples of events given as lists of (time, work, count)."""
    rows = [(event, *values) for event, listed in events.items() for values in listed]
    return pk.Samples.from_frame(pd.DataFrame(rows, columns=["event", "time", "work", "count"]), kind="generated")


@pytest.fixture
def train():
    # misses: I = 2, 10 and infinity; hits: rising use is beneficial.
    return samples(
        misses=[(100, 100, 50), (100, 200, 20), (100, 150, 0)],
        hits=[(100, 200, 200), (100, 100, 50), (100, 80, 20)],
    )


def test_hand_solved_rooflines(train):
    model = pk.Spire().fit(train)
    misses, hits = model.rooflines["misses"], model.rooflines["hits"]
    assert misses.breakpoints.tolist() == [[0, 0], [2, 1], [10, 2]]
    assert misses.bound([0, 1, 2, 6, 10, 1e9, np.inf]).tolist() == [0, 0.5, 1, 1.5, 2, 2, 1.5]
    assert hits.breakpoints.tolist() == [[0, 0], [1, 2], [2, 1], [4, 0.8]]
    assert hits.bound([1.5, 3, 100, np.inf]).tolist() == pytest.approx([1.5, 0.9, 0.8, 0.8])
    assert (misses.peak_intensity, hits.peak_intensity) == (10, 1)


def test_hand_computed_ranking(train):
    analysed = samples(misses=[(100, 50, 50), (300, 600, 100)], hits=[(100, 50, 25), (300, 600, 600)])
    ranking = pk.Spire().fit(train).rank(analysed)
    frame = ranking.to_frame()
    assert list(frame.columns) == ["event", "throughput_bound", "left_fraction", "n_samples", "status"]
    # misses: I = 1 and 6, bounds 0.5 and 1.5, weighted 100 to 300; hits: I = 2 and 1, bounds 1 and 2.
    assert frame["event"].tolist() == ["misses", "hits"]
    assert frame["throughput_bound"].tolist() == [1.25, 1.75]
    assert frame["left_fraction"].tolist() == [1.0, 0.75]
    assert frame["n_samples"].tolist() == [2, 2]
    assert ranking.throughput_bound == 1.25
    assert ranking.throughput == 650 / 400


def test_events_that_are_not_common_are_named(train):
    model = pk.Spire().fit(train)
    with pytest.warns(PerfkitWarning, match=r"1 event not in training \(other\) and 1 event only in training \(hits\)"):
        frame = model.rank(samples(misses=[(100, 50, 50)], other=[(1, 1, 1)])).to_frame()
    assert frame["status"].tolist() == ["ok", "unknown"]
    assert np.isnan(frame["throughput_bound"].iloc[1])
    with pytest.raises(SettingError, match="none of the 1 events"):
        model.rank(samples(other=[(1, 1, 1)]))


def test_what_never_fired_is_untrained_and_not_ranked():
    model = pk.Spire().fit(samples(a=[(1, 1, 1)], never=[(1, 1, 0)], lazy=[(1, 0, 1)]))
    assert list(model.rooflines) == ["a"]
    assert model.training["status"].to_dict() == {"a": "ok", "never": "untrained", "lazy": "untrained"}
    frame = model.rank(samples(never=[(1, 1, 1)], a=[(1, 1, 1)], lazy=[(1, 1, 1)])).to_frame()
    assert frame["status"].tolist() == ["ok", "untrained", "untrained"]
    with pytest.raises(KeyError, match="did you mean a"):
        model.rooflines["aa"]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_stored_model_is_the_same(train, tmp_path, ending):
    model = pk.Spire(min_running=0.25).fit(train)
    again = pk.SpireModel.load(model.save(tmp_path / f"model.{ending}"))
    pd.testing.assert_frame_equal(again.to_frame(), model.to_frame())
    pd.testing.assert_frame_equal(again.rank(train).to_frame(True), model.rank(train).to_frame(True))
    assert (again.settings, again.kind, repr(again)) == (model.settings, "generated", repr(model))


def test_what_is_no_model_is_refused(train, tmp_path):
    for name in ("a.json", "a.parquet"):
        (tmp_path / name).write_text("nonsense")
        with pytest.raises(FormatError, match="cannot be read"):
            pk.SpireModel.load(tmp_path / name)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(FormatError, match="perfkit-spire"):
        pk.SpireModel.load(tmp_path / "b.json")
    with pytest.raises(SettingError, match=r"\.parquet or \.json"):
        pk.Spire().fit(train).save(tmp_path / "a.pickle")


def test_work_without_time_names_its_row():
    with pytest.raises(DataError, match=r"row 1"):
        pk.Spire().fit(samples(a=[(1, 1, 1), (0, 1, 1)]))


def test_events_of_another_kind_of_core_are_not_mixed_in():
    rows = [("cpu_core/misses/", 100, 200, 10), ("cpu_atom/misses/", 100, 200, 1), ("cpu_core/misses/", 100, 100, 20)]
    frame = pd.DataFrame(rows, columns=["event", "time", "work", "count"])
    axes = {"time_event": "cpu_core/cycles/", "work_event": "cpu_core/instructions/"}
    hybrid = pk.Samples.from_frame(frame, **axes)
    model = pk.Spire().fit(hybrid)
    assert list(model.rooflines) == ["cpu_core/misses/"]
    assert model.rank(hybrid).to_frame()["status"].tolist() == ["ok", "other core"]
    atom = {"time_event": "cpu_atom/cycles/", "work_event": "cpu_atom/instructions/"}
    with pytest.raises(SettingError, match="another kind of core"):
        model.rank(pk.Samples.from_frame(frame, **atom))


def test_other_quantities_are_refused_and_other_names_noted(train):
    model = pk.Spire().fit(train)
    with pytest.raises(SettingError, match="work = bytes"):
        model.rank(pk.Samples.from_frame(train.table, work_event="bytes"))
    with pytest.warns(PerfkitWarning, match=r"time is cycles in training and cpu_clk_unhalted\.thread"):
        model.rank(pk.Samples.from_frame(train.table, time_event="cpu_clk_unhalted.thread"))
    model.rank(pk.Samples.from_frame(train.table, time_event="cycles:u"))


def test_every_sample_left_out_is_counted():
    rows = [
        ("a", 100, 100, 10, 1.0),
        ("a", np.nan, 100, 10, 1.0),
        ("a", 100, 100, np.nan, 1.0),
        ("a", 100, 0, 0, 1.0),
        ("a", 0, 0, 5, 1.0),
        ("a", 100, 400, 10, 0.1),
        ("a", 100, 200, 10, np.nan),
    ]
    frame = pd.DataFrame(rows, columns=["event", "time", "work", "count", "running"])
    s = pk.Samples.from_frame(frame, missing="keep")
    model = pk.Spire(min_running=0.2).fit(s)
    counts = model.training.loc["a", ["n_samples", "n_missing", "n_empty", "n_left_out"]]
    assert counts.tolist() == [2, 2, 2, 1]
    assert model.rooflines["a"].peak == 2.0  # not the 4.0 that was counted during a tenth of its interval
    assert pk.Spire().fit(s).rooflines["a"].peak == 4.0
    assert model.rank(s).to_frame(True).loc[0, ["n_samples", "n_missing", "n_empty"]].tolist() == [2, 2, 2]
    with pytest.raises(SettingError, match="min_running"):
        pk.Spire(min_running=2)


def test_how_much_is_extrapolated_is_said(train):
    # Trained misses: I from 2 to infinity; hits from 1 to 4.
    analysed = samples(misses=[(100, 10, 10), (300, 600, 0)], hits=[(100, 50, 50), (300, 600, 1)])
    details = pk.Spire().fit(train).rank(analysed).to_frame(details=True).set_index("event")
    assert details["outside"].to_dict() == {"misses": 0.25, "hits": 0.75}
    assert details["n_training"].to_dict() == {"misses": 3, "hits": 3}


def test_the_papers_figure_5_hull():
    """Steps of Fig. 5: from the origin always the steepest way, until the highest sample is reached."""
    at = np.array([1, 2, 3, 4, 5, 6, 7, 8.0])
    height = np.array([1.0, 3.0, 3.2, 5.0, 4.4, 5.5, 6.0, 2.0])
    roofline = fit_roofline(at, height)
    assert roofline.breakpoints.tolist() == [[0, 0], [2, 3], [4, 5], [7, 6], [8, 2]]
    assert oracle.fit(list(zip(at.tolist(), height.tolist(), strict=True))) == [(0, 0), (2, 3), (4, 5), (7, 6), (8, 2)]


def test_a_plateau_and_a_start_without_the_event():
    # Level from 2 to 6; the right part starts at its rightmost point. M = 0 reached 1.
    roofline = fit_roofline([2, 4, 6, 10, np.inf, np.inf], [3, 3, 3, 2, 1, 0.5])
    assert roofline.breakpoints.tolist() == [[0, 0], [2, 3], [6, 3], [10, 2]]
    assert (roofline.peak_intensity, roofline.at_infinity) == (4, 1)
    assert roofline.bound([10, 1e12, np.inf]).tolist() == [2, 2, 1]


@pytest.mark.parametrize("without", [3.0, 5.0])
def test_a_peak_reached_without_the_event_has_no_right_part(without):
    roofline = fit_roofline([2, 4, 6, np.inf], [3, 3, 2, without])
    assert roofline.breakpoints.tolist() == [[0, 0], [2, 3], [4, 3]]
    assert roofline.peak_intensity == np.inf
    assert roofline.bound([6, np.inf]).tolist() == [3, without]
    # At the peak is left, as in the authors' program; where the peak is level up to infinity, only its finite part.
    assert roofline.is_left([1e30, np.inf]).tolist() == [True, without > 3.0]


def test_the_peak_lies_halfway_to_the_corner_where_the_right_part_begins_to_fall():
    """The chain from (8, 2) over (6, 3.9) goes on at its slope of .95, as the one to the peak would be flatter."""
    roofline = fit_roofline([2, 6, 8, 10], [4, 3.9, 2, 1])
    corner = 6 - 0.1 / 0.95
    assert roofline.breakpoints[1:4].tolist() == [[2, 4], [pytest.approx(corner), 4], [8, 2]]
    assert roofline.peak_intensity == pytest.approx((2 + corner) / 2)
    assert roofline.is_left([3.9, 4.0]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("intensity", "throughput"),
    [([np.nan], [1]), ([-1], [1]), ([1], [np.inf]), ([1], [-1]), ([1, 2], [1]), ([np.inf], [1]), ([0], [0]), ([], [])],
)
def test_samples_that_no_roofline_fits_are_refused(intensity, throughput):
    with pytest.raises(DataError):
        fit_roofline(intensity, throughput)


intensities = st.one_of(st.integers(1, 40).map(float), st.just(float("inf")))
clouds = st.lists(st.tuples(intensities, st.integers(0, 30).map(float)), min_size=1, max_size=40).filter(
    lambda listed: any(p > 0 and x < float("inf") for x, p in listed)
)


@given(clouds)
@settings(max_examples=120, deadline=None)
def test_the_bound_is_on_or_above_every_training_sample(cloud):
    at, height = np.array(cloud).T
    roofline = fit_roofline(at, height)
    assert (roofline.bound(at) >= height - 1e-12 * height.max()).all()
    left = roofline.breakpoints[roofline.breakpoints[:, 0] <= roofline.peak_intensity]
    slopes = np.diff(left[:, 1]) / np.diff(left[:, 0])
    assert (np.diff(slopes) <= 1e-12 * slopes.max()).all()


@given(clouds)
@settings(max_examples=80, deadline=None)
def test_it_fits_as_closely_as_the_plain_version(cloud):
    """Equal errors may belong to different chains, so that errors are compared, not breakpoints."""
    at, height = np.array(cloud).T
    ours, theirs = fit_roofline(at, height), oracle.fit(cloud)
    x, p = np.array(theirs, dtype=float).T
    shown = np.isfinite(at)
    peak, last = height[shown].max(), at[shown][height[shown] == height[shown].max()].max()
    left = shown & (at <= last)
    np.testing.assert_allclose(ours.bound(at[left]), np.interp(at[left], x, p), rtol=1e-12)
    front = oracle_front(cloud, last)
    error = [((f(front[:, 0]) - front[:, 1]) ** 2).sum() for f in (ours.bound, lambda a: np.interp(a, x, p))]
    assert error[0] == pytest.approx(error[1], abs=1e-9 * peak**2)


def oracle_front(cloud, last):
    best, front = max((p for x, p in cloud if x == float("inf")), default=-1.0), [(last, 0.0)]
    for x, p in sorted((q for q in set(cloud) if last <= q[0] < float("inf")), reverse=True):
        if p > best and not any(q > p for at, q in cloud if at == x):
            front.append((x, p))
            best = p
    return np.array(front[1:] or front)


@given(clouds, st.integers(-20, 20), st.integers(-20, 20))
@settings(max_examples=60, deadline=None)
def test_units_of_time_and_work_do_not_matter(cloud, of_time, of_work):
    """Scaling by powers of two is exact, so that the answers must be equal to the last bit."""
    at, height = np.array(cloud).T
    one = fit_roofline(at, height)
    more = fit_roofline(at * 2.0**of_work, height * 2.0 ** (of_work - of_time))
    np.testing.assert_array_equal(more.breakpoints[:, 0], one.breakpoints[:, 0] * 2.0**of_work)
    np.testing.assert_array_equal(more.breakpoints[:, 1], one.breakpoints[:, 1] * 2.0 ** (of_work - of_time))
    assert more.peak_intensity == one.peak_intensity * 2.0**of_work


@given(clouds, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_samples_does_not_matter(cloud, random):
    again = list(cloud)
    random.shuffle(again)
    one, two = (fit_roofline(*np.array(c).T) for c in (cloud, again))
    np.testing.assert_array_equal(one.breakpoints, two.breakpoints)
    assert (one.peak_intensity, one.at_infinity) == (two.peak_intensity, two.at_infinity)


def test_the_order_of_rows_and_other_events_do_not_matter_for_the_ranking():
    train, analysed = pk.datasets.load("spire/train"), pk.datasets.load("spire/core")
    one = pk.Spire().fit(train).rank(analysed, seed=3).to_frame(details=True).set_index("event")
    rng = np.random.default_rng(1)
    mixed = [replace(s, table=s.table.iloc[rng.permutation(len(s.table))]) for s in (train, analysed)]
    two = pk.Spire().fit(mixed[0]).rank(mixed[1], seed=3).to_frame(details=True).set_index("event")
    pd.testing.assert_frame_equal(two.loc[one.index], one, check_exact=False, rtol=1e-12)
    few = list(one.index[:3])
    part = pk.Spire().fit(train.select(events=few)).rank(analysed.select(events=few), seed=3)
    assert part.to_frame(details=True)["low"].tolist() == one["low"].tolist()[:3]


def test_candidates_lie_within_the_spread_of_the_lowest_bound(train):
    # Both events' bounds wander between 0.5 and 1.5 or 1.6: neither can be told to be the lower one.
    analysed = samples(
        misses=[(100, 50, 50), (100, 200, 2000 / 60)] * 20, hits=[(100, 50, 12.5), (100, 50, 31.25), (100, 50, 25)] * 9
    )
    ranking = pk.Spire().fit(train).rank(analysed, seed=1)
    details = ranking.to_frame(details=True)
    assert (details["low"] <= details["throughput_bound"]).all()
    assert (details["throughput_bound"] <= details["high"]).all()
    inside = details["throughput_bound"] <= details["high"].iloc[0]
    assert ranking.candidates == details.loc[inside, "event"].tolist()
    # A spread narrows with the root of the number of samples.
    more = samples(misses=[(100, 50, 50), (100, 200, 2000 / 60)] * 320)
    with pytest.warns(PerfkitWarning, match="hits"):
        wide = pk.Spire().fit(train).rank(more).to_frame(details=True)
    one, four = (d.set_index("event").loc["misses"] for d in (details, wide))
    assert (four["high"] - four["low"]) * 4 == pytest.approx(one["high"] - one["low"], rel=0.25)


def test_without_draws_only_the_lowest_is_a_candidate(train):
    ranking = pk.Spire().fit(train).rank(train, bootstrap=0)
    assert ranking.candidates == [ranking.to_frame()["event"].iloc[0]]
    assert ranking.to_frame(details=True)[["low", "high"]].isna().all(axis=None)
    for wrong in ({"bootstrap": -1}, {"level": 1.0}):
        with pytest.raises(SettingError):
            pk.Spire().fit(train).rank(train, **wrong)


def test_measured_throughput_counts_each_interval_once():
    rows = [("r", i, e, t, w, c) for i, (t, w) in enumerate([(100, 50), (300, 600)]) for e, c in (("a", 1), ("b", 2))]
    frame = pd.DataFrame(
        [*rows, ("r", 2, "a", 100, 0, 7)], columns=["run", "interval", "event", "time", "work", "count"]
    )
    s = pk.Samples.from_frame(frame)
    assert pk.Spire().fit(s).rank(s).throughput == s.throughput() == 650 / 500


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_ranking_can_be_stored(train, tmp_path, ending):
    ranking = pk.Spire().fit(train).rank(train)
    path = ranking.save(tmp_path / f"ranking.{ending}")
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[ending]
    assert read(path)["event"].tolist() == ranking.to_frame()["event"].tolist()
    with pytest.raises(SettingError, match=r"\.csv, \.json"):
        ranking.save(tmp_path / "ranking.pickle")


@pytest.mark.parametrize("part", ["training", "time_event", "rooflines", "settings"])
def test_a_model_with_a_part_missing_is_refused(train, tmp_path, part):
    path = pk.Spire().fit(train).save(tmp_path / "model.json")
    content = json.loads(path.read_text())
    content[part] = [{}] if part in ("training", "rooflines") else content.pop(part) and None
    if content[part] is None:
        del content[part]
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError):
        pk.SpireModel.load(path)


def test_a_newer_model_is_refused(train, tmp_path):
    path = pk.Spire().fit(train).save(tmp_path / "model.json")
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(FormatError, match="version 2"):
        pk.SpireModel.load(path)


def test_samples_without_further_events_are_refused():
    frame = pd.DataFrame({"event": ["cycles"], "time": [1], "work": [1], "count": [1]})
    with pytest.raises(DataError, match="expected events besides cycles"):
        pk.Spire().fit(pk.Samples.from_frame(frame))


# ------------------------------------------------------------------ real dumps


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("train", "analyse"),
    [
        (["i5-507.cactuBSSN_r.txt.xz", "i5-531.deepsjeng_r.txt.xz"], "i5-520.omnetpp_r.txt.xz"),
        (["grouped-557.xz_r.txt.xz"], "grouped-520.omnetpp_r.txt.xz"),
        (["paper-526.blender_r.txt.xz"], "paper-526.blender_r.txt.xz"),
    ],
)
def test_training_on_real_dumps_and_analysing_another(shared_perf, train, analyse):
    training = pk.read_samples([shared_perf / name for name in train])
    model = pk.Spire().fit(training)
    ranking = model.rank(pk.read_samples(shared_perf / analyse))
    frame = ranking.to_frame()
    ranked = frame[frame["status"] == "ok"]
    assert len(ranked) >= 8
    assert ranked["throughput_bound"].is_monotonic_increasing
    assert np.isfinite(ranking.throughput_bound)
    assert (ranking.training_kind, ranking.kind) == ("measured", "measured")
    # Every training sample is on or below its bound, so that no trained workload can be bounded below what it did.
    for event, roofline in model.rooflines.items():
        table = training.table[training.table["event"] == event]
        table = table[(table["time"] > 0) & (table["count"] > 0) & (table["work"] > 0)]
        done = (table["work"] / table["time"]).to_numpy()
        assert (roofline.bound((table["work"] / table["count"]).to_numpy()) >= done * (1 - 1e-12)).all()


@pytest.fixture
def shared_perf():
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf"
    if not folder.is_dir():
        pytest.skip("the real dumps (../shared/data/perf) are not beside this checkout")
    return folder


def _runs(n: int, seed: int) -> pk.Samples:
    rng = np.random.default_rng(seed)
    cycles = rng.integers(1_000_000, 2_000_000, n).astype(float)
    columns = {
        "cycles": cycles,
        "instructions": (cycles * rng.uniform(0.5, 2.0, n)).round(),
        "TOPDOWN.SLOTS": 6 * cycles,
        "odd-name": (3.7 * cycles).round(),
        "misses": rng.integers(10, 1000, n).astype(float),
    }
    return pk.Samples.from_wide(pd.DataFrame(columns))


def test_events_of_a_fixed_rate_are_not_ranked():
    """Slots and clocks pass whatever the program does; an unknown event at one rate a cycle is such a clock too."""
    model = pk.Spire().fit(_runs(50, 1))
    assert list(model.rooflines) == ["misses"]
    status = model.rank(_runs(50, 2)).to_frame().set_index("event")["status"]
    assert status.to_dict() == {"misses": "ok", "TOPDOWN.SLOTS": "fixed rate", "odd-name": "fixed rate"}


def test_a_model_ranked_on_its_own_training_says_that_it_means_nothing():
    model = pk.Spire().fit(_runs(50, 1))
    assert "trained on these very samples" in model.rank(_runs(50, 1)).summary()
    assert model.rank(_runs(50, 2)).caveats == ()
    few = pk.Spire().fit(_runs(2, 1)).rank(_runs(50, 2))
    assert "at most 2 samples per event" in few.summary()


def honest_and_paper(seed: int = 0):
    """Training of three programs; ``late`` comes late in all of them, ``rare`` is unusual in the one ranked."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(40):
        ipc = rng.uniform(0.5, 3.0)
        for event, rate in (("usual", 0.5), ("rare", 0.001 * rng.uniform(0.5, 1.5))):
            rows.append({"run": f"r{run}", "interval": 0, "event": event, "time": 1000.0, "work": 1000 * ipc,
                         "count": 1000 * ipc * rate})  # fmt: skip
    train = pk.Samples.from_frame(pd.DataFrame(rows), kind="generated")
    unusual = [
        {"run": "x", "interval": 0, "event": e, "time": 1000.0, "work": 500.0, "count": c}
        for e, c in (("usual", 250.0), ("rare", 100.0))
    ]
    return train, pk.Samples.from_frame(pd.DataFrame(unusual), kind="generated")


def test_the_honest_mode_ranks_by_what_is_unusual_for_the_training(tmp_path):
    train, analysed = honest_and_paper()
    model = pk.Spire(honest=True).fit(train)
    ranking = model.rank(analysed)
    assert ranking.table["event"].tolist()[0] == "rare"
    assert ranking.table["percentile"].is_monotonic_increasing
    assert "lower in" in ranking.summary()
    back = pk.SpireModel.load(model.save(tmp_path / "honest.spire")).rank(analysed)
    pd.testing.assert_frame_equal(back.table, ranking.table)


def test_the_honest_mode_has_no_bound_to_the_right_of_the_peak():
    train, _ = honest_and_paper()
    paper, honest = pk.Spire().fit(train), pk.Spire(honest=True).fit(train)
    for event, roofline in honest.rooflines.items():
        assert roofline.at_infinity == roofline.peak == pytest.approx(paper.rooflines[event].breakpoints[:, 1].max())
        at = np.geomspace(1e-3, 1e6, 50)
        assert (np.diff(roofline.bound(at)) >= -1e-12).all()
        assert (roofline.bound(at) >= paper.rooflines[event].bound(at) - 1e-12).all()


def test_the_spread_is_that_of_a_plain_bootstrap_whatever_the_number_of_samples():
    rng = np.random.default_rng(7)
    n, draws = {"many": 301, "as many": 301, "few": 40}, 4000
    parts = [
        pd.DataFrame(
            {
                "event": event,
                "time": rng.uniform(50, 150, k),
                "work": rng.uniform(50, 150, k),
                "count": rng.lognormal(2, 1, k).round(),
            }
        )
        for event, k in n.items()
    ]
    samples = pk.Samples.from_frame(pd.concat(parts, ignore_index=True), kind="generated")
    model = pk.Spire().fit(samples)
    rows = model.rank(samples, bootstrap=draws).to_frame(details=True).set_index("event")
    for event, part in samples.table.groupby("event", observed=True):
        time, count = part["time"].to_numpy(), part["count"].to_numpy()
        intensity = np.divide(part["work"], count, out=np.full(len(count), np.inf), where=count > 0)
        bounds = model.rooflines[event].bound(intensity)
        often = rng.multinomial(len(time), np.full(len(time), 1 / len(time)), draws)
        low, high = np.quantile(often @ (time * bounds) / (often @ time), [0.025, 0.975])
        within = 0.1 * (high - low)
        assert rows.loc[event, "low"] == pytest.approx(low, abs=within)
        assert rows.loc[event, "high"] == pytest.approx(high, abs=within)


def test_a_spread_of_everything_reaches_from_the_least_to_the_largest_mean():
    times, bounds = np.ones(6), np.array([0.0, 0, 0, 1, 1, 1])
    assert _spreads({"a": (times, bounds)}, 3000, 1.0, 0)["a"] == (0.0, 1.0)
    low, high = _spreads({"a": (times, bounds)}, 3000, 0.0, 0)["a"]
    assert low == high == 0.5  # the median


def test_totals_leave_out_what_was_not_counted():
    key = np.array([0, 0, 1, 1, 2])
    time, work = np.array([1.0, 1.0, np.nan, 2.0, 4.0]), np.array([3.0, 3.0, 5.0, 6.0, np.nan])
    assert _totals(key, 3, time, work) == (3, 9)


def test_samples_whose_events_have_no_roofline_are_told_why():
    """It said that none was trained, named the same events on both sides, and asked for the same events."""
    counts = {"cycles": 1e9, "instructions": 1e9, "never": 0.0, "steady": 5.0}
    rows = [("r", i, event, count) for i in range(5) for event, count in counts.items()]
    samples = pk.Samples.from_counts(pd.DataFrame(rows, columns=["run", "interval", "event", "count"]))
    with pytest.raises(
        SettingError, match=r"no roofline of any .*: never \(untrained\); steady \(fixed rate\)\. Train"
    ):
        pk.Spire().fit(samples).rank(samples)


@pytest.mark.parametrize(("spread", "ranked"), [(0.0, False), (0.0009, False), (0.0011, True), (0.0014, True)])
def test_a_rate_is_fixed_to_within_a_thousandth(spread, ranked):
    rng = np.random.default_rng(1)
    cycles = rng.integers(1_000_000, 2_000_000, 50) * 1e6
    rate = np.linspace(1.0 - spread, 1.0, 50)
    frame = pd.DataFrame({"cycles": cycles, "instructions": cycles * rng.uniform(0.5, 2.0, 50), "e": cycles * rate})
    model = pk.Spire().fit(pk.Samples.from_wide(frame.assign(misses=rng.integers(10, 1000, 50).astype(float))))
    assert ("e" in model.rooflines) == ranked
