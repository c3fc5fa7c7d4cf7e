"""SPIRE: fitting, ranking, storing."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError, PerfkitWarning, SettingError


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
    with pytest.warns(PerfkitWarning, match=r"1 not in training \(other\) and 1 only in training \(hits\)"):
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
    with pytest.raises(SettingError, match=r"json or \.parquet"):
        pk.Spire().fit(train).save(tmp_path / "a.pickle")


def test_work_without_time_names_its_row():
    with pytest.raises(DataError, match=r"row\(s\) 1"):
        pk.Spire().fit(samples(a=[(1, 1, 1), (0, 1, 1)]))
