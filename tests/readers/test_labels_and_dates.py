"""Dates as the time of rows, and columns that name a parameter of the run."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import FormatError

ROWS = [
    ("2026-01-05T10:00:00", "a", 64, 1000, 2000, 3),
    ("2026-01-05T10:00:01", "a", 64, 1100, 2030, 5),
    ("2026-01-05T10:00:03.5", "a", 64, 1200, 2010, 4),
    ("2026-01-05T11:00:00", "b", 128, 1000, 2005, 3),
    ("2026-01-05T11:00:02", "b", 128, 900, 2006, 9),
]


def table(tmp_path, rows=ROWS, header="time,run,size,cycles,instructions,misses"):
    path = tmp_path / "dates.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize(("separator", "zone"), [("T", ""), (" ", ""), ("T", "Z"), (" ", "+02:00")])
def test_dates_are_the_ends_of_rows(tmp_path, separator, zone):
    s = pk.read_samples(table(tmp_path, [(r[0].replace("T", separator) + zone, *r[1:]) for r in ROWS]))
    each = s.intervals()
    assert each["at"].tolist() == [0, 1, 3.5, 3600, 3602]
    # How long the first row of a run was, no date tells.
    np.testing.assert_array_equal(each["seconds"], [np.nan, 1, 2.5, np.nan, 2])
    assert s.events == ["misses"]


def test_a_word_among_dates_is_a_problem(tmp_path):
    rows = [*ROWS[:4], ("soon", *ROWS[4][1:])]
    with pytest.raises(FormatError, match="line 6: expected a date in column time"):
        pk.read_samples(table(tmp_path, rows))


def test_the_dates_of_a_long_table(tmp_path):
    rows = [(r[0], e, n) for r in ROWS[:3] for e, n in (("cycles", r[3]), ("instructions", r[4]))]
    s = pk.read_samples(table(tmp_path, rows, "time,event,count"))
    assert s.intervals()["at"].tolist() == [0, 1, 3.5]
    assert s.intervals()["work"].tolist() == [2000, 2030, 2010]


def test_a_parameter_of_the_runs_is_no_event(tmp_path):
    s = pk.read_samples(table(tmp_path))
    assert s.events == ["misses"]
    assert any("size (64, 128)" in n and "labels and no counters" in n for n in s.notes)


def test_few_equal_counts_and_zeros_stay_events(tmp_path):
    rows = [(*r[1:2], 1, 0, *r[3:]) for r in ROWS[:3]]
    s = pk.read_samples(table(tmp_path, rows, "run,context-switches,faults,cycles,instructions,misses"))
    assert s.events == ["context-switches", "faults", "misses"]


def test_rows_that_are_there_twice_are_said_to_be(tmp_path):
    rows = [r[3:] for r in ROWS]
    s = pk.read_samples(table(tmp_path, rows + rows, "cycles,instructions,misses"))
    assert any("rows 6 to 10 are identical" in n for n in s.notes)
    assert not pk.read_samples(table(tmp_path, rows, "cycles,instructions,misses")).notes


# ------------------------------------------------------------------ times of day, and dates of a country


def clocked(read, times, name="when", sign=","):
    """Read a table with a clock as text beside counts that rise and fall; return the lengths of its rows."""
    counts = [(1_000_100 + 1000 * (7 * i % 5), 2_000_300 + 1000 * (3 * i % 7)) for i in range(len(times))]
    rows = [sign.join(map(str, row)) for row in zip(times, *zip(*counts, strict=True), strict=True)]
    s = read("\n".join([sign.join([name, "cycles", "instructions"]), *rows]) + "\n")
    assert (s.time_event, s.work_event, s.events) == ("cycles", "instructions", [])
    assert s.intervals()["time"].tolist() == [c for c, _ in counts]
    return s.intervals()["seconds"].tolist()


@pytest.mark.parametrize(
    "times",
    [
        ["10:00:00", "10:00:01", "10:00:03"],
        ["9:59:59", "10:00:00", "10:00:02"],
        ["23:59:59", "00:00:00", "00:00:02"],
        ["11:59:59 AM", "12:00:00 PM", "12:00:02 PM"],
        ["11:59:59 p.m.", "12:00:00 a.m.", "12:00:02 a.m."],
        ["12:59:59 pm", "1:00:00 pm", "1:00:02 pm"],
        ["0:00:00.5", "0:00:01.5", "0:00:03.5"],
        ["27.11.2026 10:00:00", "27.11.2026 10:00:01", "27.11.2026 10:00:03"],
        ["5.1.2026 23:59:59", "6.1.2026 00:00:00", "6.1.2026 00:00:02"],
        ["1/31/2026 11:59:59 PM", "2/1/2026 12:00:00 AM", "2/1/2026 12:00:02 AM"],
        ["31/01/2026 23:59:59", "01/02/2026 00:00:00", "01/02/2026 00:00:02"],
        ["5/6/2026 10:00:00", "5/6/2026 10:00:01", "5/6/2026 10:00:03"],  # of whichever month: the same day
    ],
)
def test_times_as_people_write_them_are_the_ends_of_rows(read, times):
    np.testing.assert_allclose(clocked(read, times), [np.nan, 1, 2])


@pytest.mark.parametrize(
    "times",
    [
        ["10:00:03", "10:00:01", "10:00:02"],  # in no order
        ["10:00:03", "10:00:04", "09:00:00"],  # begins anew, or the next day
        ["10:00:01", "10:00:01", "10:00:01"],
        ["10:00:01", "", "10:00:03"],
        ["10:00:01", "10:00:02", "soon"],
        ["24:00:01", "24:00:02", "24:00:03"],
        ["13:00:01 PM", "13:00:02 PM", "13:00:03 PM"],
        ["10:60:01", "10:60:02", "10:60:03"],
        ["31/05/2026 10:00:00", "06/30/2026 10:00:01", "06/30/2026 10:00:03"],
        ["5/6/2026 10:00:00", "6/6/2026 10:00:01", "6/6/2026 10:00:03"],  # the next day, or the next month
        ["10:00", "10:01", "10:03"],  # minutes, or hours
    ],
)
def test_times_that_tell_nothing_are_text(read, times):
    assert np.isnan(clocked(read, times)).all()


@pytest.mark.parametrize("name", ["duration", "elapsed", "time", "runtime", "label"])
def test_lengths_of_runs_are_no_times_of_day(read, name):
    assert np.isnan(clocked(read, ["0:00:01", "0:00:02", "0:00:05"], name=name)).all()


@pytest.mark.parametrize("name", ["clock", "Uhrzeit", "timestamp", "time of day", "local time stamp", "HH:MM:SS"])
def test_names_of_times_of_day(read, name):
    np.testing.assert_allclose(clocked(read, ["0:00:01", "0:00:02", "0:00:05"], name=name), [np.nan, 1, 3])


@pytest.mark.parametrize("day", ["2026-11-27", "11/27/2026", "11/27/26"])
def test_beside_a_day_a_time_of_day_is_no_clock(read, day):
    rows = "".join(f"{day};10:00:0{k};{1000 + k % 2};{2000 - k % 2}\n" for k in range(4))
    s = read("date;clock;cycles;instructions\n" + rows)
    assert s.intervals()["seconds"].isna().all()
    assert s.intervals()["time"].sum() == 4002


def test_times_of_day_with_a_decimal_comma(read):
    np.testing.assert_allclose(clocked(read, ["10:00:00,25", "10:00:01,5", "10:00:03,5"], sign=";"), [np.nan, 1.25, 2])


def test_times_of_day_tell_which_interval_a_row_of_a_long_table_belongs_to(read):
    rows = [("23:59:58", "cycles", 1000), ("23:59:58", "instructions", 2000)]
    rows += [("23:59:59", "instructions", 900), ("00:00:01", "cycles", 1200), ("00:00:01", "instructions", 800)]
    s = read("timestamp,event,count\n" + "".join(f"{t},{e},{n}\n" for t, e, n in rows))
    np.testing.assert_array_equal(s.intervals()["time"], [1000, np.nan, 1200])
    np.testing.assert_array_equal(s.intervals()["work"], [2000, 900, 800])
    np.testing.assert_array_equal(s.intervals()["seconds"], [np.nan, 1, 2])


def test_totals_with_times_of_day_become_differences(read):
    totals = [(1000 * i + 7 * (i % 3), 2000 * i + 5 * (i % 4)) for i in range(1, 14)]
    text = "".join(f"10:00:{i:02d},{c},{n}\n" for i, (c, n) in enumerate(totals))
    s = read("clock_time,cycles,instructions\n" + text)
    assert s.intervals()["time"].sum() == totals[-1][0] - totals[0][0]


@pytest.mark.parametrize("date", ["2026-02-30 10:00:01", "31.02.2026 10:00:01", "2026-01-05 25:00:01"])
def test_a_date_that_there_is_none_of_is_a_problem(read, date):
    sign = "." if "." in date else "-"
    rows = [f"05{sign}02{sign}2026 10:00:0{i}" if sign == "." else f"2026-02-05 10:00:0{i}" for i in (0, 2)]
    text = f"when;cycles;instructions\n{rows[0]};1000;2000\n{date};1100;2100\n{rows[1]};1050;2050\n"
    with pytest.raises(FormatError, match="line 3: no such date, in column when"):
        read(text)
    s = read(text, errors="collect")
    assert s.intervals()["time"].sum() >= 2050
    assert len(s.problems) == 1


# ------------------------------------------------------------------ what is no event by its name


@pytest.mark.parametrize(
    "name",
    [
        *("temps", "tempo", "tijd", "zaman", "mem_used", "memory free", "utime", "stime", "utime_s", "tps", "max_qps"),
        *("iops", "read_iops", "fps", "exit", "exit_code", "return code", "rc", "errno"),
    ],
)
def test_names_of_no_event(read, name):
    s = read(f"cycles,{name},instructions,misses\n1000,4,2000,3\n1100,2,2100,4\n1300,7,2050,9\n")
    assert s.events == ["misses"]
    assert any(name in note for note in s.notes)


@pytest.mark.parametrize(
    "name",
    [
        "exits",
        "mem_loads",
        "L2 used lines",
        "temps_misses",
        "rc_loads",
        "gps_faults",
        "stime_stalls",
        "exit_tlb_misses",
    ],
)
def test_names_close_to_them_are_events(read, name):
    s = read(f"cycles,{name},instructions,misses\n1000,4,2000,3\n1100,2,2100,4\n1300,7,2050,9\n")
    assert s.events == [name, "misses"]
    assert s.table.loc[s.table["event"] == name, "count"].sum() == 13


@pytest.mark.parametrize("cycles", ["CPU Cycles", "Clock Cycles", "Clockticks", "cycles"])
@pytest.mark.parametrize("work", ["Instructions Retired", "retired instructions", "instructions_retired"])
def test_time_and_work_in_plain_words(read, cycles, work):
    s = read(f"{cycles},{work},misses\n1000,2000,3\n1100,2100,4\n")
    assert (s.time_event, s.work_event) == (cycles, work)
    assert s.throughput() == pytest.approx(4100 / 2100)


def test_plain_words_beside_the_names_of_tools_are_the_table_s_own(read):
    s = read("cycles,clock cycles,instructions,instructions retired\n1000,17,2000,19\n1100,13,2100,12\n")
    assert (s.time_event, s.work_event) == ("cycles", "instructions")


def test_a_quotient_that_a_spreadsheet_could_not_work_out_is_missing(read):
    s = read("cycles;instructions;misses;cycles per miss\n1000;2000;3;333,3\n1100;2100;0;#DIV/0!\n1200;2500;4;300,0\n")
    assert s.events == ["misses"]
    assert s.intervals()["time"].tolist() == [1000, 1100, 1200]
    with pytest.raises(FormatError, match="#REF!"):
        read("cycles;instructions;misses\n1000;2000;3\n1100;2100;#REF!\n1200;2500;4\n")


def test_times_as_the_kernel_gives_them_beside_counts(read):
    rows = "cycles,3000,2000,1000\ninstructions,6000,2000,2000\n"
    s = read("event,count,time_enabled,time_running\n" + rows)
    share = s.table.groupby("event", observed=True)["running"].mean()
    assert share.to_dict() == {"cycles": 0.5, "instructions": 1.0}
