"""Samples: making, checking, choosing, reshaping and storing."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError


@pytest.fixture
def counts():
    """Two runs of three intervals with cycles, instructions and misses; one count is missing."""
    rows = []
    for run, scale in (("a", 1.0), ("b", 10.0)):
        for i, (cycles, instructions, misses) in enumerate([(100, 150, 1), (200, 100, 20), (50, 75, np.nan)]):
            for event, count in (("cycles", cycles), ("instructions", instructions), ("misses", misses)):
                rows.append((run, i, float(i + 1), 1.0, event, count * scale))
    return pd.DataFrame(rows, columns=["run", "interval", "at", "seconds", "event", "count"])


def test_time_and_work_come_from_the_counts_of_their_events(counts):
    s = pk.Samples.from_counts(counts)
    misses = s.table[s.table["event"] == "misses"]
    assert misses["time"].tolist() == [100, 200, 50, 1000, 2000, 500]
    assert misses["work"].tolist() == [150, 100, 75, 1500, 1000, 750]
    assert s.events == ["misses"]
    assert (s.time_event, s.work_event, s.n_intervals) == ("cycles", "instructions", 6)


def test_other_axes_can_be_chosen(counts):
    s = pk.Samples.from_counts(counts).with_axes("seconds", "misses")
    assert s.events == ["cycles", "instructions"]
    assert s.throughput() == pytest.approx((1 + 20 + 10 + 200) / 4)


@pytest.mark.parametrize("name", ["cycles:u", "cpu_core/cpu-cycles/", "CPU_CLK_UNHALTED.THREAD", "PAPI_TOT_CYC"])
def test_the_time_event_is_found_under_other_tools_names(counts, name):
    counts["event"] = counts["event"].replace("cycles", name)
    assert pk.Samples.from_counts(counts).time_event == name


def test_of_two_kinds_of_core_the_counted_one_measures_time(counts):
    atom = counts[counts["event"] == "cycles"].assign(event="cpu_atom/cycles/", count=np.nan)
    core = counts.assign(event=counts["event"].replace("cycles", "cpu_core/cycles/"))
    assert pk.Samples.from_counts(pd.concat([atom, core])).time_event == "cpu_core/cycles/"


def test_no_time_event_is_an_error_that_lists_what_is_there(counts):
    with pytest.raises(SettingError, match=r"measures time.*instructions, misses"):
        pk.Samples.from_counts(counts[counts["event"] != "cycles"].drop(columns="seconds"))
    with pytest.raises(SettingError, match=r"unknown event 'cycle'; did you mean cycles"):
        pk.Samples.from_counts(counts, time_event="cycle")


def test_throughput_is_a_ratio_of_totals_not_a_mean_of_ratios(counts):
    one = pk.Samples.from_counts(counts[counts["run"] == "a"])
    assert one.throughput() == pytest.approx(325 / 350)


def test_summary_counts_missing_and_takes_rates_over_known_samples(counts):
    row = pk.Samples.from_counts(counts).describe().loc["misses"]
    assert (row["samples"], row["missing"], row["zero"]) == (6, 2, 0)
    assert row["rate"] == pytest.approx(231 / 2750)


def test_select_keeps_time_and_work_and_names_what_is_unknown(counts):
    s = pk.Samples.from_counts(counts)
    few = s.select(runs=["b"], events=["misses"], between=(1.5, 2.5))
    assert few.runs.index.tolist() == ["b"]
    assert len(few) == 3
    assert few.throughput() == pytest.approx(0.5)
    with pytest.raises(SettingError, match="did you mean misses"):
        s.select(events=["mises"])
    with pytest.raises(SettingError, match="unknown run 'c'"):
        s.select(runs=["c"])


def test_aggregate_sums_consecutive_intervals_and_keeps_missing_missing(counts):
    two = pk.Samples.from_counts(counts).aggregate(2)
    table = two.table.set_index(["run", "interval", "event"])
    assert table.loc[("a", 0, "misses"), "count"] == 21
    assert table.loc[("a", 0, "misses"), "time"] == 300
    assert table.loc[("a", 0, "misses"), "at"] == 2
    assert np.isnan(table.loc[("b", 1, "misses"), "count"])
    assert two.throughput() == pytest.approx(pk.Samples.from_counts(counts).throughput())
    with pytest.raises(SettingError, match="at least 1"):
        two.aggregate(0)


def test_wide_and_back(counts):
    s = pk.Samples.from_counts(counts)
    wide = s.to_wide()
    assert wide.columns.tolist() == ["cycles", "instructions", "misses"]
    back = pk.Samples.from_wide(wide)
    pd.testing.assert_frame_equal(back.to_wide(), wide)
    assert s.to_wide("running").isna().all().all()


def test_wide_needs_one_time_an_interval():
    s = pk.Samples.from_frame(
        pd.DataFrame({"event": ["x", "y"], "time": [1.0, 2.0], "work": [1.0, 1.0], "count": [1.0, 1.0]})
    )
    with pytest.raises(DataError, match="time or work differ"):
        s.to_wide()
    assert s.to_wide("time").to_numpy().tolist() == [[1.0, 2.0]]


def test_wide_refuses_doubled_events_and_columns(counts):
    s = pk.Samples.from_counts(pd.concat([counts, counts[counts["event"] == "misses"]]))
    with pytest.raises(DataError, match="event 'misses' is there twice"):
        s.to_wide()
    with pytest.raises(DataError, match="found twice: x"):
        pk.Samples.from_wide(pd.DataFrame([[1, 2, 3, 3]], columns=["cycles", "instructions", "x", "x"]))


def test_concat_numbers_runs_of_one_name_apart(counts):
    s = pk.Samples.from_counts(counts)
    both = pk.Samples.concat([s, s.select(runs=["a"])])
    assert both.runs.index.tolist() == ["a", "b", "a (2)"]
    assert len(both) == 27
    with pytest.raises(SettingError, match="share their time and work"):
        pk.Samples.concat([s, s.with_axes("seconds", "instructions")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": [-1.0, 1.0]}, r"column time.*-1.0 in row 0"),
        ({"work": [1.0, np.inf]}, r"column work.*inf in row 1"),
        ({"count": [np.nan, 1.0]}, r"column count.*missing in row 0.*missing='keep'"),
        ({"count": ["1", "many"]}, r"column count.*'many' in row 1"),
        ({"running": [0.5, 1.5]}, r"running is a fraction.*row 1"),
        ({"event": ["x", None]}, r"event: every row needs a name; missing in row 1"),
        ({"interval": [0, 0.5]}, r"interval.*whole numbers.*row 1"),
        ({"colour": ["red", "blue"]}, r"does not know the columns colour"),
    ],
)
def test_bad_values_are_errors_that_name_the_rows(change, message):
    good = {"event": ["x", "x"], "time": [1.0, 1.0], "work": [1.0, 1.0], "count": [1.0, 1.0]}
    with pytest.raises(DataError, match=message):
        pk.Samples.from_frame(pd.DataFrame({**good, **change}))


def test_from_frame_names_absent_columns_and_keeps_missing_on_request():
    frame = pd.DataFrame({"event": ["x"], "time": [1.0], "work": [1.0]})
    with pytest.raises(DataError, match="count not found"):
        pk.Samples.from_frame(frame)
    s = pk.Samples.from_frame(frame.assign(count=np.nan), missing="keep")
    assert s.describe().loc["x", "missing"] == 1
    assert s.describe().loc["x", ["count", "rate"]].isna().all()  # never counted, which is not 0 counts


def test_the_input_is_not_changed(counts):
    before = counts.copy()
    pk.Samples.from_counts(counts).select(events=["misses"]).aggregate(2)
    pd.testing.assert_frame_equal(counts, before)


def test_parquet_round_trip(counts, tmp_path):
    runs = pd.DataFrame({"workload": ["gzip", "lbm"], "kind": ["measured", "simulated"]}, index=["a", "b"])
    s = pk.Samples.from_counts(counts, runs=runs, notes=["2 header lines skipped"])
    back = pk.Samples.from_parquet(s.to_parquet(tmp_path / "s.parquet"))
    pd.testing.assert_frame_equal(back.table, s.table)
    pd.testing.assert_frame_equal(back.runs, s.runs)
    assert (back.kind, back.notes, back.time_event) == ("mixed (measured, simulated)", s.notes, "cycles")


def test_files_that_are_not_samples_are_refused(tmp_path):
    text = tmp_path / "x.parquet"
    text.write_text("not parquet")
    with pytest.raises(FormatError, match="cannot be read"):
        pk.Samples.from_parquet(text)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "plain.parquet")
    with pytest.raises(FormatError, match="not one that"):
        pk.Samples.from_parquet(tmp_path / "plain.parquet")
    with pytest.raises(FileNotFoundError):
        pk.Samples.from_parquet(tmp_path / "absent.parquet")


def test_a_truncated_parquet_file_is_refused(counts, tmp_path):
    path = pk.Samples.from_counts(counts).to_parquet(tmp_path / "s.parquet")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match="cannot be read"):
        pk.Samples.from_parquet(path)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_aggregation_conserves_totals(n, size, seed):
    rng = np.random.default_rng(seed)
    wide = pd.DataFrame(rng.integers(0, 1000, (n, 3)), columns=["cycles", "instructions", "x"])
    s = pk.Samples.from_wide(wide)
    coarse = s.aggregate(size)
    assert coarse.n_intervals == -(-n // size)
    pd.testing.assert_series_equal(coarse.describe()["count"], s.describe()["count"], check_index_type=False)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_parquet_file_in_pieces_is_read_whole(counts, tmp_path, size):
    s = pk.Samples.from_counts(counts)
    path = s.to_parquet(tmp_path / "s.parquet")
    pq.write_table(pq.read_table(path), path, row_group_size=size)
    pd.testing.assert_frame_equal(pk.Samples.from_parquet(path).table, s.table)
