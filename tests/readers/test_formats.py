"""Formats of other tools: LIKWID, PAPI, toplev, VTune, Nsight Compute, SPIRE's wide CSV, plain tables, parquet."""

import signal

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import FormatError, SettingError


def wide(samples, place=None):
    t = samples.table if place is None else samples.table[samples.table["place"] == place]
    return t.pivot(index="interval", columns="event", values="count")


def noted(samples, *words):
    return any(all(w in n for w in words) for n in samples.notes)


# ------------------------------------------------------------------ SPIRE's wide CSV


def test_spire_wide_gives_each_event_its_own_time_and_work(fixtures):
    s = pk.read_samples(fixtures / "spire.csv")
    assert (s.time_event, s.work_event) == ("cycles", "instructions")
    assert s.table[["event", "interval", "time", "work", "count"]].values.tolist() == [
        ["l2", 0, 100, 200, 3],
        ["l2", 1, 101, 201, 6],
        ["l2", 2, 102, 202, 7],
        ["l3", 0, 110, 210, 4],
        ["l3", 1, 111, 211, 0],
        ["br", 0, 120, 220, 5],
    ]
    assert noted(s, "3 empty places")


def test_spire_wide_with_a_part_missing_keeps_it_missing(fixtures):
    s = pk.read_samples(fixtures / "spire-partly-missing.csv")
    row = s.table[(s.table["event"] == "l2") & (s.table["interval"] == 1)].iloc[0]
    assert (row["time"], row["count"]) == (101, 6)
    assert np.isnan(row["work"])
    assert noted(s, "1 sample without time, work or count")


def test_spire_wide_with_work_before_time_and_with_suffixes(fixtures):
    expected = [["l2", 100, 200, 3], ["l3", 110, 210, 4]]
    for name in ("spire-work-first.csv", "spire-by-suffix.csv"):
        s = pk.read_samples(fixtures / name)
        assert s.table[["event", "time", "work", "count"]].values.tolist() == expected
        assert (s.time_event, s.work_event) == ("cycles", "instructions")


def test_spire_wide_cannot_have_other_axes(fixtures):
    with pytest.raises(SettingError, match="brings its own time, measured by 'cycles'"):
        pk.read_samples(fixtures / "spire.csv", time_event="ref-cycles")


def test_spire_wide_with_an_event_twice(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("T,W,a,T,W,a\n1,2,3,4,5,6\n")
    with pytest.raises(FormatError, match="names an event twice: a"):
        pk.read_samples(path)


def test_large_tables_are_read_by_the_compiled_reader_with_the_same_result(tmp_path, monkeypatch):
    from perfkit.readers import grid

    rng = np.random.default_rng(7)
    values = rng.integers(0, 10**12, (200, 30)).astype(float)
    values[:, 5] = rng.integers(0, 1000, 200) / 8
    frame = pd.DataFrame(values, columns=[n for i in range(10) for n in ("T", "W", f"e{i}")])
    text = frame.to_csv(index=False).replace("T.1", "T")
    lines = text.splitlines()
    lines[0] = ",".join(n for i in range(10) for n in ("T", "W", f"e{i}"))
    cells = lines[7].split(",")
    cells[3:6] = ["", "", ""]
    lines[7] = ",".join(cells)
    lines.insert(20, "")
    path = tmp_path / "large.csv"
    path.write_text("\r\n".join(lines) + "\r\n")
    by_arrow = pk.read_samples(path)
    monkeypatch.setattr(grid, "_LARGE", 0)
    calls = []
    from perfkit.readers import compiled

    real = compiled.parse_numbers
    monkeypatch.setattr(compiled, "parse_numbers", lambda *a: calls.append(real(*a)) or calls[-1])
    compiled_result = pk.read_samples(path)
    assert calls == [200]
    pd.testing.assert_frame_equal(by_arrow.table, compiled_result.table)
    assert len(by_arrow) == 200 * 10 - 1


@pytest.mark.parametrize("cell", ["1e5", "-3", "12x", "1.2.3", "1234567890123456789"])
def test_compiled_reader_gives_up_at_anything_but_plain_numbers(cell):
    from perfkit.readers.compiled import parse_numbers

    text = np.frombuffer(f"1,2\n3,{cell}\n".encode(), dtype="uint8")
    assert parse_numbers(text, ord(","), np.arange(2), np.empty((2, 2))) == -1


def test_compiled_reader_comes_to_an_end():
    """As Python runs it, so that a loop without end can be stopped."""
    from perfkit.readers.compiled import parse_numbers

    def late(*_):
        raise TimeoutError("still in 30 bytes after 5 seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        out = np.empty((2, 4))
        text = np.frombuffer(b"\n10,2.5\r\n\r\n,40\n\n3,\n7.,08\n", dtype="uint8").astype(int)
        assert parse_numbers.py_func(text, ord(","), np.arange(2), out) == 4
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(out, [[10, np.nan, 3, 7], [2.5, 40, np.nan, 8]])


# ------------------------------------------------------------------ plain tables


def test_long_table(fixtures):
    s = pk.read_samples(fixtures / "long.csv")
    assert list(s.runs.index) == ["a"]
    assert wide(s)["cycles"].tolist() == [100, 110]
    assert np.isnan(wide(s)["misses"]).tolist() == [False, True]
    assert s.table["running"].tolist() == [0.5, 0.5, 0.25, 0.5, 0.5, 0.0]


def test_long_table_with_time_and_work(fixtures):
    s = pk.read_samples(fixtures / "long-with-time-and-work.csv", time_event="ticks")
    assert (s.time_event, s.work_event) == ("ticks", "instructions")
    assert s.table["time"].tolist() == [100, 110, 120]


def test_wide_table_with_time_and_run(fixtures):
    s = pk.read_samples(fixtures / "wide-with-time-and-run.tsv")
    assert list(s.runs.index) == ["a", "b"]
    assert s.intervals()["seconds"].tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize("form", ["wide", "long"])
def test_plain_parquet(tmp_path, fixtures, form):
    s = pk.read_samples(fixtures / "wide-with-time-and-run.tsv")
    path = tmp_path / "plain.parquet"
    if form == "wide":
        s.to_wide().reset_index().drop(columns=["place", "interval"]).to_parquet(path)
    else:
        s.table[["run", "interval", "event", "count"]].to_parquet(path)
    again = pk.read_samples(path)
    assert sorted(again.events) == sorted(s.events)
    assert again.throughput() == s.throughput()


def test_own_parquet_comes_back_whole(tmp_path, fixtures):
    s = pk.read_samples(fixtures / "program-output-between.txt", errors="collect")
    path = s.to_parquet(tmp_path / "own.parquet")
    again = pk.read_samples(path)
    pd.testing.assert_frame_equal(again.table, s.table)
    pd.testing.assert_frame_equal(again.runs, s.runs)
    pd.testing.assert_frame_equal(again.problems, s.problems, check_dtype=False)
    assert again.notes == s.notes
    other = pk.read_samples(path, time_event="seconds")
    assert other.time_event == "seconds"
    assert other.table["time"].tolist() == s.table["seconds"].tolist()


def test_truncated_parquet(tmp_path, fixtures):
    path = pk.read_samples(fixtures / "spire.csv").to_parquet(tmp_path / "own.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FormatError, match=r"own\.parquet: parquet data that is truncated or corrupted"):
        pk.read_samples(path)


# ------------------------------------------------------------------ other tools


def test_likwid_tables_and_marker_regions(fixtures):
    s = pk.read_samples(fixtures / "likwid-tables.csv")
    assert (s.time_event, s.work_event) == ("CPU_CLK_UNHALTED_CORE", "INSTR_RETIRED_ANY")
    whole = wide(s, "CPU1").iloc[0]
    assert (whole["INSTR_RETIRED_ANY"], whole["CPU_CLK_UNHALTED_CORE"]) == (5000, 2500)
    assert np.isnan(whole["L1D_REPLACEMENT"])
    region = s.table[s.table["place"] == "triad CPU1"]
    assert region["seconds"].unique().tolist() == [0.26]
    assert region["count"].tolist() == [500, 250, 2]
    assert noted(s, "2 rows of derived metrics and statistics")
    assert "Example CPU" in s.runs["parameters"].iloc[0]


def test_likwid_boxes(fixtures):
    s = pk.read_samples(fixtures / "likwid-boxes.txt")
    assert s.table[["place", "event", "count"]].values.tolist() == [
        ["CPU0", "INSTR_RETIRED_ANY", 4000],
        ["CPU1", "INSTR_RETIRED_ANY", 5000],
        ["CPU0", "CPU_CLK_UNHALTED_CORE", 2000],
        ["CPU1", "CPU_CLK_UNHALTED_CORE", 2500],
    ]


def test_likwid_timeline(fixtures):
    s = pk.read_samples(fixtures / "likwid-timeline.txt")
    assert list(s.table["place"].cat.categories) == ["CPU0", "CPU2"]
    assert wide(s, "CPU2")["CPU_CLK_UNHALTED_CORE"].tolist() == [2500, 2600]
    assert s.intervals().query("place == 'CPU2'")["seconds"].tolist() == pytest.approx([1.0001, 1.0002])
    with pytest.raises(FormatError, match="metrics, not counts"):
        pk.read_samples(fixtures / "likwid-timeline-of-metrics.txt")


def test_papi_6_and_7(fixtures):
    s = pk.read_samples(fixtures / "papi-6.json")
    assert (s.time_event, s.work_event) == ("PAPI_TOT_CYC", "PAPI_TOT_INS")  # and not the elapsed "cycles"
    place = s.table[s.table["place"] == "computation, thread 0"]
    assert place["seconds"].unique().tolist() == [1.0425]
    assert place["count"].tolist() == [2080863768, 2917520595, 2064112930, 4242]
    s = pk.read_samples(fixtures / "papi-7.json", time_event="seconds", work_event="perf::TASK-CLOCK")
    assert s.intervals()["place"].tolist() == ["computation", "inner", "inner"]
    assert noted(s, "2 regions inside others")
    assert "papi_version" in s.runs["parameters"].iloc[0]


def test_truncated_papi(tmp_path, fixtures):
    path = tmp_path / "rank.json"
    path.write_bytes((fixtures / "papi-6.json").read_bytes()[:300])
    with pytest.raises(FormatError, match=r"rank\.json, line \d+: JSON that is truncated"):
        pk.read_samples(path)


def test_toplev_shares_become_counts_with_the_interval_s_totals(fixtures):
    s = pk.read_samples(fixtures / "toplev-with-totals.csv")
    assert wide(s).iloc[0].to_dict() == {
        "Frontend_Bound": 400,
        "Backend_Bound.Memory_Bound": 250,
        "slots": 4000,
        "cycles": 1000,
        "instructions": 1500,
    }
    assert noted(s, "Info.Thread.IPC (Metric)")


def test_toplev_shares_without_totals_say_so(fixtures):
    with pytest.raises(SettingError, match=r"Frontend_Bound \[slots x s\]"):
        pk.read_samples(fixtures / "toplev-without-totals.csv")
    s = pk.read_samples(fixtures / "toplev-without-totals.csv", time_event="seconds", work_event="seconds")
    assert wide(s)["Backend_Bound [slots x s]"].tolist() == [0.2, 0.3]
    assert noted(s, "--nodes +SLOTS")


def test_vtune(fixtures):
    s = pk.read_samples(fixtures / "vtune.csv")
    assert (s.time_event, s.work_event) == ("CPU_CLK_UNHALTED.THREAD", "INST_RETIRED.ANY")
    assert s.intervals()["place"].tolist() == ["main [app]", "memcpy [libc.so.6]", "memcpy [app]"]
    assert wide(s)["MEM_LOAD_RETIRED.L3_MISS"].tolist() == [1200000, 3400000, 0]
    assert noted(s, "CPI Rate")
    s = pk.read_samples(fixtures / "vtune-in-thousands-with-caret.csv")
    assert s.intervals()[["time", "work"]].values.tolist() == [[2.1e6, 6.39e6]]


@pytest.mark.parametrize("page", ["details", "raw"])
def test_nsight(fixtures, page):
    s = pk.read_samples(fixtures / f"nsight-{page}.csv")
    assert (s.time_event, s.work_event) == ("sm__cycles_elapsed.max", "smsp__inst_executed.sum")
    assert wide(s)["dram__bytes.sum"].tolist() == [1536e3, 12.58e6]  # Kbyte, then Mbyte in one of them
    assert s.intervals()[["time", "work"]].values.tolist() == [[2345, 98304], [1234567, 9830400]]
    assert noted(s, "no counts", "sm__throughput")
    if page == "details":
        assert s.intervals()["seconds"].tolist() == pytest.approx([2.5e-6, 1.25e-3])
        assert s.intervals()["place"].tolist() == ["axpy(int, float *)", "gemm"]


def test_a_quoted_line_before_nsights_header_is_accounted_for(tmp_path):
    path = tmp_path / "ncu.csv"
    header = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    rows = [f'"0","k","smsp__{name}.sum","","{n}"' for name, n in (("cycles_elapsed", 100), ("inst_executed", 250))]
    path.write_text("\n".join(['"done", says the program', header, *rows]) + "\n")
    (accounted,) = pk.read_samples(path).accounting.to_dict("records")
    assert accounted["total"] == 4
    assert accounted["left_out"] == 1
