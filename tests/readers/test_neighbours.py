"""Dialects that stand close to one another: each is read for what it is, and its neighbours as they always were."""

import gzip
import io
import json
import re
import tarfile

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import FormatError
from perfkit.samples.clocks import is_fixed_rate


def totals(samples):
    return samples.table.groupby("event", observed=True)["count"].sum().to_dict()


def shares(samples):
    return samples.table.groupby("event", observed=True)["running"].mean().to_dict()


# ------------------------------------------------------------------ how long an event was counted


@pytest.mark.parametrize(
    ("enabled", "running", "share"),
    [
        ((40, 40), (20, 40), 0.5),  # times, in whatever unit
        ((2.5, 2.5), (0.5, 2.5), 0.2),
        ((0.01, 0.01), (0.005, 0.01), 0.5),
        ((2000, 2000), (500, 2000), 0.25),
        ((1_000_000_000, 1_000_000_000), (250_000_000, 1_000_000_000), 0.25),
        ((2000, 40), (20, 40), 0.01),
        ((100, 100), (50, 100), 0.5),  # the same either way
        ((1, 1), (0.5, 1), 0.5),
        ((1, 1), (50, 100), 0.5),  # per cent beside a flag, a time in s, a time in ns
        ((10, 10), (50, 100), 0.5),
        (("true", "true"), (50, 100), 0.5),
        ((1_000_000_000, 1_000_000_000), (50, 100), 0.5),
        ((1_000_000_000, 1_000_000_000), (0.5, 1), 0.5),  # fractions beside a time in ns
        ((1000, 1000), (50, 100), np.nan),  # per cent, or ms of a second
        ((0, 40), (0, 40), np.nan),  # never enabled
    ],
)
def test_a_column_running_beside_enabled(read, enabled, running, share):
    rows = f"cycles,3000,{enabled[0]},{running[0]}\ninstructions,6000,{enabled[1]},{running[1]}\n"
    found = read("event,count,enabled,running\n" + rows)
    assert totals(found) == {"cycles": 3000, "instructions": 6000}
    assert shares(found)["cycles"] == pytest.approx(share, nan_ok=True)


@pytest.mark.parametrize(("running", "share"), [((0.5, 1), 0.5), ((50, 100), 0.5), ((500, 1000), np.nan)])
def test_a_column_running_alone(read, running, share):
    found = read(f"event,count,running\ncycles,3000,{running[0]}\ninstructions,6000,{running[1]}\n")
    assert shares(found)["cycles"] == pytest.approx(share, nan_ok=True)


# ------------------------------------------------------------------ two rows of headers


@pytest.mark.parametrize(
    "head",
    [
        "time_s,core0,core0,core1,core1\ntime_s,cycles,instructions,cycles,instructions",
        "time_s,core0,,core1,\ntime_s,cycles,instructions,cycles,instructions",
        "# of two cores\ntime_s,core0,core0,core1,core1\ntime_s,cycles,instructions,cycles,instructions",
        "time_s,core0,core0,core1,core1\n,cycles,instructions,cycles,instructions",
        ",core0,,core1,\ntime_s,cycles,instructions,cycles,instructions",
    ],
)
@pytest.mark.parametrize("sign", ",;\t")
def test_two_rows_of_headers(read, head, sign):
    rows = "\n1,1000,2000,1100,2100\n2,1001,2001,1101,2101\n3,1003,2003,1102,2102\n"
    found = read((head + rows).replace(",", sign))
    assert totals(found) == {"cycles": 6307, "instructions": 12307}
    assert set(found.table["place"]) == {"core0", "core1"}
    assert found.intervals()["seconds"].tolist() == [1.0] * 6


@pytest.mark.parametrize(
    "head",
    [
        "time_s,cycles,cycles\ntime_s,cycles,instructions",  # the first counts, too: a file of a header, and another
        "time_s,cycles,instructions\ntime_s,loads,stores",
        "time_s,loads,stores\ntime_s,cycles,instructions",  # no group of columns: a file of a header, and another
    ],
)
def test_headers_of_other_columns_are_refused(read, head):
    with pytest.raises(FormatError, match="second header"):
        read(head + "\n1,1000,2000\n2,1001,2001\n")


def test_a_second_header_further_down_is_refused(read):
    with pytest.raises(FormatError, match="line 4: a second header"):
        read("time_s,a,a\n1,1000,2000\n2,1001,2001\ntime_s,cycles,instructions\n1,1000,2000\n")


# ------------------------------------------------------------------ where the bits of a counter end


def test_a_limit_in_every_row_is_left_out_and_no_event(read):
    found = read("cycles,instructions,limit\n1000,2000,4294967295\n1200,2100,4294967295\n")
    assert totals(found) == {"cycles": 2200, "instructions": 4100}
    assert any("left out: limit" in n for n in found.notes)
    long = "".join(f"cycles,{c}\ninstructions,{2 * c}\nlimit,4294967295\n" for c in (1000, 1200))
    assert totals(read("event,count\n" + long)) == {"cycles": 2200, "instructions": 4400}


@pytest.mark.parametrize(
    "rows",
    [
        "4294967295,2000,5\n4294967295,2100,6",  # of time: there is no answer without it
        "1000,4294967295,5\n1100,4294967295,6",
        "1000,2000,5\n1100,2100,4294967295",  # one that stopped
        "1000,2000,4294967295",  # nothing shows that it is constant
    ],
)
def test_a_counter_that_stopped_is_refused(read, rows):
    with pytest.raises(FormatError, match="a counter of 32 bits ends"):
        read(f"cycles,instructions,cache-misses\n{rows}\n")


# ------------------------------------------------------------------ records around those with counts

ROWS = [{"ts": 1.5, "cycles": 1000, "instructions": 2000}, {"ts": 2.5, "cycles": 1100, "instructions": 2100}]
HEADERS = [
    {"host": "a", "started": "2026-01-01"},
    {"version": 2, "pid": 4711, "rate": 1000},
    {"meta": {"version": 2, "pid": 4711}},
    {"tool": "x", "args": ["./a", "b"], "env": {"OMP": 1}},
    {"type": "header", "ts": 0, "version": 1},
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("footer", [[], [{"summary": True, "total_cycles": 2100, "rows": 2}]])
@pytest.mark.parametrize("as_list", [False, True])
def test_records_of_another_shape_around_those_with_counts(read, header, footer, as_list):
    records = [header, *ROWS, *footer]
    found = read(json.dumps(records) if as_list else "\n".join(map(json.dumps, records)) + "\n")
    assert totals(found) == {"cycles": 2100, "instructions": 4100}
    assert found.intervals()["seconds"].tolist() == [1.5, 1.0]
    assert found.accounting.iloc[0][["total", "counts", "left_out"]].tolist() == [
        len(records), 2, 1 + len(footer),
    ]  # fmt: skip
    assert any("around those with counts" in n for n in found.notes)


def test_a_number_of_hundreds_of_digits_is_no_count(read):
    with pytest.raises(FormatError, match="expected a finite count"):
        read(json.dumps(ROWS[0]).replace("1000", "9" * 400) + "\n" + json.dumps(ROWS[1]) + "\n")


def test_lines_of_a_log_around_those_with_counts(read):
    rows = [" ".join(f"{k}={v}" for k, v in r.items()) for r in ROWS]
    text = "\n".join(['level=info msg="start" version=2 pid=4711', *rows, 'level=info msg="done" rows=2'])
    found = read(text + "\n")
    assert totals(found) == {"cycles": 2100, "instructions": 4100}
    assert found.n_intervals == 2


def test_a_scale_in_the_header_is_told(read):
    found = read("\n".join(map(json.dumps, [{"host": "a", "scale": 1000}, *ROWS])) + "\n")
    assert any("caution" in n and "scale: 1000" in n for n in found.notes)


@pytest.mark.parametrize(
    ("records", "intervals"),
    [
        # Records of other events, in turn with those of time and work, or only at the beginning.
        ([{"ts": t, **c} for t in (1.5, 2.5) for c in ({"cycles": 9, "instructions": 8}, {"cache-misses": 7})], 4),
        ([{"ts": 1.5, "cache-misses": 7, "tlb-misses": 3}, *ROWS], 3),
        ([{"ts": 0.5, "cycles": None, "instructions": None}, *ROWS], 3),  # an interval that was not counted
        ([{"ts": 0.5, "cycles": 900}, *ROWS], 3),
    ],
)
def test_records_without_some_counts_are_intervals(read, records, intervals):
    found = read("\n".join(map(json.dumps, records)) + "\n")
    expected = {}
    for name, count in ((k, v) for r in records for k, v in r.items() if k != "ts" and v is not None):
        expected[name] = expected.get(name, 0) + count
    assert totals(found) == expected
    assert found.n_intervals == intervals


# ------------------------------------------------------------------ Telegraf's readings

DAY = "2026-01-01"
STAMP = 1_621_254_096
EVENTS = {"CPU_CLK_UNHALTED.THREAD": (10, 1.0), "INST_RETIRED.ANY": (15, 1.0), "BR_MISP_RETIRED.ALL_BRANCHES": (2, 0.5)}


def reading(second, cpu, event, enabled, running, raw):
    fields = f"raw={raw}i,scaled={raw * enabled // max(running, 1)}i,enabled={enabled}i,running={running}i"
    return f"pmu_metric,cpu={cpu},event={event},host=xyz {fields} {(STAMP + second) * 10**9}"


def test_readings_that_run_on_are_counts_between_them(read):
    """Each second adds ten thousand times what is planted; what half of the time was not counted is scaled up."""
    began = 123_456_789_000
    lines = [
        reading(n, cpu, e, began + n * 10**9, int(share * (began + n * 10**9)), int((7 + n * 1000 * c) * share))
        for n in range(4)
        for cpu in (0, 1)
        for e, (c, share) in EVENTS.items()
    ]
    found = read("\n".join(lines) + "\n")
    assert totals(found) == pytest.approx({e: 2 * 3 * 1000 * c for e, (c, _) in EVENTS.items()}, abs=6)
    assert shares(found) == pytest.approx({e: share for e, (_, share) in EVENTS.items()})
    assert set(found.table["place"]) == {"cpu0", "cpu1"}
    assert found.intervals()["seconds"].tolist() == [1.0] * 6
    assert found.accounting.iloc[0]["left_out"] == 6


def test_an_agent_that_was_started_anew_begins_at_zero(read):
    times = [10 * 10**9, 11 * 10**9, 500_000, 10**9 + 500_000]
    lines = [
        reading(n, 0, e, t, t, raw)
        for n, (t, raw) in enumerate(zip(times, (10**6, 10**6 + 1000, 60, 960), strict=True))
        for e in EVENTS
    ]
    assert totals(read("\n".join(lines) + "\n")) == dict.fromkeys(EVENTS, 1000 + 60 + 900)


def test_one_reading_and_readings_that_begin_anew_are_counts_as_they_stand(read):
    one = [reading(0, 0, e, 2 * 10**9, 10**9, 1000) for e in EVENTS]
    found = read("\n".join(one) + "\n")
    assert totals(found) == dict.fromkeys(EVENTS, 2000)
    assert found.intervals()["seconds"].isna().all()  # of 51 years since 1970, none
    each = [reading(n, 0, e, 10**9 + 7 * n, 10**9 + 7 * n, 1000 + n) for n in range(3) for e in EVENTS]
    assert totals(read("\n".join(each) + "\n")) == dict.fromkeys(EVENTS, 3003)


def test_an_event_that_never_ran_was_not_counted(read):
    lines = [reading(0, 0, e, 10**9, 10**9 * (e != "BR_MISP_RETIRED.ALL_BRANCHES"), 1000) for e in EVENTS]
    assert read("\n".join(lines) + "\n").describe().loc["BR_MISP_RETIRED.ALL_BRANCHES", "missing"] == 1


def test_units_of_the_uncore_are_places(read):
    lines = [
        *(reading(n, 0, e, (n + 1) * 10**9, (n + 1) * 10**9, n * 100) for n in range(3) for e in EVENTS),
        *(
            f"pmu_metric,event=UNC_CBO,host=xyz,socket=0,unit=uncore_cbox_{u},unit_type=cbox enabled={n}000000000i,"
            f"running={n}000000000i,raw={50 * n + u}i,scaled={50 * n + u}i {(STAMP + n) * 10**9}"
            for n in range(1, 4)
            for u in (0, 1)
        ),
    ]
    found = read("\n".join(lines) + "\n")
    assert totals(found)["UNC_CBO"] == 200
    assert set(found.table["place"]) == {"cpu0", "socket0 uncore_cbox_0", "socket0 uncore_cbox_1"}


def test_fields_that_are_no_numbers_are_refused(read):
    lines = [reading(0, 0, e, 10**9, 10**9, 1000) for e in EVENTS]
    with pytest.raises(FormatError, match="expected numbers in enabled, running and raw"):
        read("\n".join(lines).replace("enabled=1000000000i", "enabled=on", 1) + "\n")


# ------------------------------------------------------------------ one time for all rows


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,cycles,instructions\n1700000000,1000,2000\n",
        "timestamp_ms,host,cycles,instructions\n1700000000000,a,600,1200\n1700000000000,b,400,800\n",
        "timestamp,event,count\n1700000000,cycles,1000\n1700000000,instructions,2000\n",
    ],
)
def test_the_time_of_all_rows_is_no_length_of_decades(read, text):
    found = read(text)
    assert totals(found) == {"cycles": 1000, "instructions": 2000}
    assert found.intervals()["seconds"].isna().all()


def test_lengths_stay_lengths(read):
    assert read("time_ms,cycles,instructions\n1500,1000,2000\n").intervals()["seconds"].tolist() == [1.5]


# ------------------------------------------------------------------ times of a row's beginning and end


@pytest.mark.parametrize(
    ("head", "rows", "seconds"),
    [
        ("start_s,end_s", [(0.0, 1.0), (1.5, 2.5), (2.5, 3.0)], [1.0, 1.0, 0.5]),
        ("end_s,start_s", [(1.0, 0.0), (2.5, 1.5), (3.0, 2.5)], [1.0, 1.0, 0.5]),
        ("start,end", [(0.0, 1.0), (1.5, 2.5), (2.5, 3.0)], [1.0, 1.0, 0.5]),
        ("start_time_s,end_time_s", [(0.0, 1.0), (1.5, 2.5), (2.5, 3.0)], [1.0, 1.0, 0.5]),
        ("begin_ns,end_ns", [(0, 10**9), (15 * 10**8, 25 * 10**8), (25 * 10**8, 3 * 10**9)], [1.0, 1.0, 0.5]),
        ("ts_begin_ms,ts_end_ms", [(0, 1000), (1500, 2500), (2500, 3000)], [1.0, 1.0, 0.5]),
        ("start_s,duration_s", [(0.0, 1.0), (1.5, 1.0), (2.5, 0.5)], [1.0, 1.0, 0.5]),
        ("start,end", [(f"{DAY}T10:00:0{a}", f"{DAY}T10:00:0{b}") for a, b in ((0, 1), (2, 4))], [1.0, 2.0]),
        ("start,run", [(f"{DAY}T10:00:0{a}", "a") for a in (0, 2, 4)], [np.nan] * 3),
        ("start,duration_ms", [(f"{DAY}T10:00:0{a}", 1000 - a) for a in (0, 2, 4)], [1.0, 0.998, 0.996]),
        ("start_s,end_s", [(0.5, 1.5)], [1.0]),
        ("start_s,run", [(0.5, "a"), (1.5, "a"), (3.5, "a")], [np.nan] * 3),  # how long the last took is not known
        ("start_s,run", [(0.5, "a")], [np.nan]),
        # One beginning of all rows is the program's; where some share one, nobody knows.
        ("start_s,time_s", [(0.5, 1.5), (0.5, 2.0), (0.5, 4.0)], [1.5, 0.5, 2.0]),
        ("start_s,end_s", [(0.5, 1.5), (0.5, 2.0), (2.0, 4.0)], [np.nan] * 3),
        ("start_s,time_s", [(100.5, 1.5), (200.5, 2.0), (300.5, 4.0)], [1.5, 0.5, 2.0]),
        ("end_s,run", [(3.5, "a"), (3.5, "a"), (3.5, "a")], [np.nan] * 3),
        ("end_time,run", [(1700000000, "a")], [np.nan]),
        ("start,time", [(f"{DAY}T10:00:00", f"{DAY}T10:00:0{b}") for b in (1, 3, 4)], [np.nan, 2.0, 1.0]),
        ("start,line", [(4096, 1), (8192, 2), (1024, 3)], [np.nan] * 3),  # addresses, whatever they start
        ("tsc_start,tsc_end", [(10**6, 2 * 10**6), (2 * 10**6, 3 * 10**6), (3 * 10**6, 41 * 10**5)], [np.nan] * 3),
        ("end_s,run", [(1.0, "a"), (2.5, "a"), (3.0, "a")], [1.0, 1.5, 0.5]),
        ("end_s,run", [(3.0, "a"), (1.0, "a"), (2.5, "a")], [np.nan] * 3),  # in no order
    ],
)  # fmt: skip
@pytest.mark.parametrize("long", [False, True])
def test_times_of_a_beginning_and_an_end_are_no_events(read, head, rows, seconds, long):
    counts = {"cycles": [1000, 1100, 500], "instructions": [2000, 2100, 900], "cache-misses": [9, 4, 7]}
    if long and "line" not in head:  # addresses in no order tell no interval of a long table
        lines = [f"{a},{b},{e},{c[n]}" for n, (a, b) in enumerate(rows) for e, c in counts.items()]
        found = read("\n".join([f"{head},event,count", *lines]) + "\n")
    else:
        lines = [",".join(map(str, (a, b, *(c[n] for c in counts.values())))) for n, (a, b) in enumerate(rows)]
        found = read("\n".join([f"{head},{','.join(counts)}", *lines]) + "\n")
    assert totals(found) == {e: sum(c[: len(rows)]) for e, c in counts.items()}
    np.testing.assert_allclose(found.intervals()["seconds"], seconds)


def test_running_totals_with_the_time_of_each_reading_s_beginning(read):
    rows = [f"{k}.5,{1000 * k + 7 * k % 13},{1500 * k + 5 * k % 11}" for k in range(40)]
    found = read("\n".join(["start_s,cycles,instructions", *rows]) + "\n")
    assert totals(found)["cycles"] == 39_000 + 7 * 39 % 13
    assert found.intervals()["seconds"].tolist() == [1.0] * 39


def test_ends_of_a_processor_are_no_clocks(read):
    found = read("frontend,backend,cycles,instructions\n10,20,100,200\n12,22,120,200\n")
    assert totals(found) == {"frontend": 22, "backend": 42, "cycles": 220, "instructions": 400}


# ------------------------------------------------------------------ comments below the header


@pytest.mark.parametrize("comment", ["# done", "  # total cycles 3100, done", "#", "# one\n\n# two, three"])
def test_comments_below_the_rows(read, comment):
    found = read(f"time_s,cycles,instructions\n1,1000,2000\n2,1100,2100\n{comment}\n")
    assert totals(found) == {"cycles": 2100, "instructions": 4100}
    assert found.intervals()["seconds"].tolist() == [1.0, 1.0]
    assert found.accounting.iloc[0]["left_out"] == 1 + comment.count("two")


@pytest.mark.parametrize("at", [1, 2])
def test_a_comment_among_the_rows_may_part_runs_and_is_refused(read, at):
    lines = ["time_s,cycles,instructions", "1,1000,2000", "2,1100,2100"]
    with pytest.raises(FormatError, match="expected 3 fields"):
        read("\n".join([*lines[:at], "# another", *lines[at:]]) + "\n")


def test_a_scale_in_a_comment_below_the_rows_is_told(read):
    found = read("cycles,instructions\n1000,2000\n1100,2100\n# all counts in thousands\n")
    assert any("caution" in n for n in found.notes)


@pytest.mark.parametrize("row", ["#3,1200,2200", "#,1200,2200"])
def test_a_row_behind_a_sharp_is_no_comment_and_no_row(read, row):
    with pytest.raises(FormatError, match="expected a number"):
        read(f"time_s,cycles,instructions\n1,1000,2000\n{row}\n2,1100,2100\n")


def test_rows_that_are_numbered_behind_a_sharp_are_rows(read):
    assert totals(read("no,cycles,instructions\n#1,1000,2000\n#2,1100,2100\n")) == {
        "cycles": 2100, "instructions": 4100,
    }  # fmt: skip
    with pytest.raises(FormatError, match="expected 3 fields"):
        read("no,cycles,instructions\n#1,1000,2000\n#2,1100\n")


# ------------------------------------------------------------------ turned tables


@pytest.mark.parametrize(
    ("rows", "seconds", "events"),
    [
        (["time (s),1.5,1.6"], [1.5, 1.6], []),
        (["seconds,1.5,1.6", "task-clock (msec),1500,1600"], [1.5, 1.6], ["task-clock (msec)"]),
        (["user_time,1.4,1.5", "elapsed_ms,1500,1600"], [1.5, 1.6], ["user_time"]),
        (["time,15,16"], [np.nan, np.nan], []),  # of unknown unit
        (["cache-misses,5,6"], [np.nan, np.nan], ["cache-misses"]),
    ],
)
def test_rows_of_a_turned_table_that_tell_the_time(read, rows, seconds, events):
    found = read("\n".join(["event,run1,run2", "cycles,1000,1100", "instructions,2000,2100", *rows]) + "\n")
    assert list(found.table["event"].unique()) == ["cycles", "instructions", *events]
    assert totals(found)["cycles"] == 2100
    np.testing.assert_allclose(found.intervals()["seconds"], seconds)


# ------------------------------------------------------------------ names that say more than an event's


@pytest.mark.parametrize(
    ("name", "event", "factor"),
    [
        ("Mcycles", "cycles", 1e6),
        ("Gcycles", "cycles", 1e9),
        ("cycles_M", "cycles", 1e6),
        ("cycles_mio", "cycles", 1e6),
        ("cycles millions", "cycles", 1e6),
        ("cycles x1e6", "cycles", 1e6),
        ("cycles (M)", "cycles", 1e6),
        ("mcycles", "mcycles", 1),  # of a RISC-V processor: in machine mode
        ("cycles_k", "cycles_k", 1),  # of the kernel
        ("Mcycles_wasted", "Mcycles_wasted", 1),
    ],
)
def test_a_scale_in_the_name_of_cycles(read, name, event, factor):
    found = read(f"time_s,{name},instructions\n1,1000,2000\n2,1100,2150\n3,1050,2075\n")
    assert totals(found)[event] == 3150 * factor


@pytest.mark.parametrize("label", ["*", "all", "all CPUs", "Total"])
def test_a_row_of_all_is_left_out_where_it_is_their_sum(read, label):
    rows = "0,1000,2000\n1,1100,2150\n"
    assert totals(read(f"thread,cycles,instructions\n{rows}{label},2100,4150\n"))["cycles"] == 2100
    if label != "Total":  # by its name alone
        assert totals(read(f"thread,cycles,instructions\n{rows}{label},2100,4151\n"))["cycles"] == 4200


def test_rows_of_a_long_table_that_only_text_tells_apart_are_told(read):
    rows = ["socket,S0,cycles,2100", "core,C0,cycles,1000", "core,C1,cycles,1100"]
    rows += ["socket,S0,instructions,4150", "core,C0,instructions,2000", "core,C1,instructions,2150"]
    found = read("\n".join(["level,name,event,count", *rows]) + "\n")
    assert totals(found) == {"cycles": 2100, "instructions": 4150}  # the socket holds what its cores do
    assert any("2 rows with sums of the others, left out (socket)" in n for n in found.notes)
    assert any("caution: no column tells the interval" in n and "name told" in n for n in found.notes)
    rows[0] = "socket,S0,cycles,2101"  # it may be anything, then
    found = read("\n".join(["level,name,event,count", *rows]) + "\n")
    assert any("caution: no column tells the interval" in n and "level, name" in n for n in found.notes)
    for text in (
        "kind,event,count\nhw,cycles,1\nhw,instructions,2\nhw,cycles,3\nhw,instructions,4\n",
        "unit_of,event,count\na,cycles,1\nb,instructions,2\na,cycles,3\nb,instructions,4\n",
        "interval,level,event,count\n0,a,cycles,1\n0,a,instructions,2\n1,b,cycles,3\n1,b,instructions,4\n",
    ):
        assert not any("caution: no column" in n for n in read(text).notes)


def by_level(column, *words, more=0):
    """Return a long table of two intervals: each word with (cycles, instructions, misses) as many thousands."""
    rows = [
        f"{t},{word},{event},{size * 1000 * n + t + more * (word == words[-1][0])}"
        for t in (1, 2)
        for word, size in words
        for n, event in enumerate(("cycles", "instructions", "misses"), 1)
    ]
    return "\n".join([f"time,{column},event,count", *rows]) + "\n"


@pytest.mark.parametrize("column", ["level", "scope", "cpu"])
def test_levels_of_a_long_table_that_sum_up_others_are_no_events_and_no_places(read, column):
    # Threads of 1000 and 2000 cycles and, in each interval, what both did: as a core of its own name, or as all.
    for above in ("core0", "whole", "package-0"):
        text = by_level(column, ("thread0", 1), ("thread1", 2))
        sums = [
            f"{t},{above},{event},{3000 * n + 2 * t}"
            for t in (1, 2)
            for n, event in enumerate(("cycles", "instructions", "misses"), 1)
        ]
        found = read(text + "\n".join(sums) + "\n")
        assert totals(found) == {"cycles": 6006, "instructions": 12006, "misses": 18006}
        assert set(found.table["place"]) == {"thread0", "thread1"}
        assert any(f"6 rows with sums of the others, left out ({above})" in n for n in found.notes)


def test_rows_of_an_interval_that_only_a_column_of_text_tells_apart_are_refused(read):
    with pytest.raises(FormatError, match="several rows of an event, told apart under scope alone"):
        read(by_level("scope", ("user", 3), ("kernel", 1)))
    with pytest.raises(FormatError, match="told apart under scope alone"):
        read(by_level("scope", ("user", 3), ("kernel", 1), ("both", 4), more=7))  # no sum: nobody can tell
    found = read(by_level("place", ("user", 3), ("kernel", 1)))
    assert set(found.table["place"]) == {"user", "kernel"}
    assert set(totals(found)) == {"cycles", "instructions", "misses"}


def test_rows_without_a_core_that_hold_what_all_cores_do_are_no_place(read):
    rows = [f"{t},{core},{e},{k * n}" for t in (1, 2) for core, k in (("0", 1000), ("1", 1500), ("", 2500))
            for n, e in enumerate(("cycles", "instructions"), 1)]  # fmt: skip
    found = read("\n".join(["time,core,event,count", *rows]) + "\n")
    assert totals(found) == {"cycles": 5000, "instructions": 10000}
    assert set(found.table["place"]) == {"0", "1"}


@pytest.mark.parametrize(
    "name", ["avg cycles", "avg_cycles", "mean(cycles)", "cycles avg", "cycles_mean", "max cycles", "Average cycles"]
)
def test_a_mean_or_an_extreme_beside_its_event_is_none(read, name):
    table = f"time_s,{name},cycles,instructions\n1,510,1000,2000\n2,520,1100,2150\n3,490,1050,2075\n"
    assert totals(read(table)) == {"cycles": 3150, "instructions": 6225}


def test_an_event_that_is_called_a_mean_of_none_stays(read):
    table = "time_s,cycles,instructions,max_pending\n1,1000,2000,5\n2,1100,2150,7\n3,1050,2075,6\n"
    assert totals(read(table))["max_pending"] == 18


@pytest.mark.parametrize("rows", [2, 3])
def test_a_column_that_always_shows_a_counters_end_is_a_limit(read, rows):
    lines = [f"{1000 + 50 * k},{2000 + 75 * k},4294967295" for k in range(rows)]
    found = read("\n".join(["cycles,instructions,limit", *lines]) + "\n")
    assert set(totals(found)) == {"cycles", "instructions"}
    assert any("left out: limit" in n for n in found.notes)


@pytest.mark.parametrize("name", ["iteration", "iter", "addr", "load_address", "ptr"])
def test_what_numbers_or_places_a_row_is_no_event(read, name):
    found = read(f"{name},cycles,instructions\n7,1000,2000\n9,1100,2150\n8,1050,2075\n")
    assert set(totals(found)) == {"cycles", "instructions"}


@pytest.mark.parametrize(
    ("name", "times", "seconds"),
    [
        ("time_s", (3, 2, 1), None),
        ("time_s", (3, 2, 0.5), [3, 2, 0.5]),
        ("time_s", (2, 2, 2), [2, 2, 2]),
        ("duration_s", (3, 2, 1), [3, 2, 1]),
    ],
)
def test_times_that_fall_evenly_are_no_lengths(read, name, times, seconds):
    rows = [f"{t},{c},{2 * c}" for t, c in zip(times, (1000, 1100, 1050), strict=True)]
    found = read("\n".join([f"{name},cycles,instructions", *rows]) + "\n").intervals()["seconds"]
    assert found.isna().all() if seconds is None else found.tolist() == seconds


# ------------------------------------------------------------------ numbers that contradict the others


NSIGHT = """"ID","Kernel Name","sm__cycles_elapsed.max","smsp__inst_executed.sum"
"","","cycle","inst"
"0","a","1,234,567","2,345,678"
"1","b","2,234,567","{}"
"""


@pytest.mark.parametrize("wrong", ["1234.567,5", "12,5"])
def test_a_number_that_fits_no_other_is_none(read, wrong):
    """It was read as another number (125 of 12,5), or ended in an error of Python."""
    text = NSIGHT.format(wrong)
    with pytest.raises(FormatError):
        read(text)
    found = read(text, errors="collect")
    assert len(found.problems) == 1
    assert totals(found)["smsp__inst_executed.sum"] == 2345678


def test_one_of_simpleperf_either(read):
    text = "Performance counter statistics:\n\n  1,234,567  cpu-cycles  # 1.9 GHz  (100%)\n"
    text += "  2,234,567  instructions  # 1.2 insn per cycle  (100%)\n  12,5  cache-misses  # 1 /sec  (100%)\n"
    text += "\nTotal test time: 1.000000 seconds.\n"
    with pytest.raises(FormatError):
        read(text)
    found = read(text, errors="collect")
    assert totals(found)["instructions"] == 2234567
    assert totals(found)["cache-misses"] == 0  # missing
    assert found.describe().loc["cache-misses", "missing"] == 1


# ------------------------------------------------------------------ what somebody divided, compared or summed up


RATIOS = [
    "branch-misses/inst", "br_miss_per_ki", "branch-misses / 1000 instructions", "MPKI_br", "branch-misses/kinst",
    "branch-misses/instructions", "branch-misses (per 1k inst)", "branch-misses/cycle", "branch-misses % of branches",
    "branch-misses pro Instruktion", "misses per branch", "cycles/op",
]  # fmt: skip
COUNTS = [
    "cpu/cycles",
    "cpu_core/branches",
    "offcore/loads",
    "perf/branch",
    "br_inst_retired.all_branches",
    "proc_loads",
]


@pytest.mark.parametrize("name", RATIOS)
def test_ratios_in_many_spellings_are_no_events(read, name):
    """Nine of sixteen were read as counts, and fitted: "1.45e+11 cycles each"."""
    rows = "\n1000100,2000300,120,2\n1100200,2100100,130,3\n1050100,2040700,110,4\n"
    assert set(totals(read(f"cycles,instructions,l1-misses,{name}{rows}"))) == {"cycles", "instructions", "l1-misses"}


@pytest.mark.parametrize("name", COUNTS)
def test_names_of_counts_that_look_like_ratios(read, name):
    rows = "\n1000100,2000300,120,2\n1100200,2100100,130,3\n1050100,2040700,110,4\n"
    assert totals(read(f"cycles,instructions,l1-misses,{name}{rows}"))[name] == 9


def test_fractions_beside_whole_counts_are_no_counts(read):
    """A column without a telling name: shares (.4), or per cent (40.5)."""
    found = read(
        "cycles,instructions,mem,front,misses\n1000,900,0.41,10.5,7\n1100,901,0.42,11.25,8\n1050,902,0.4,9.5,9\n"
    )
    assert set(totals(found)) == {"cycles", "instructions", "misses"}
    assert any("mem (fractions beside whole counts" in n for n in found.notes)
    kept = read("cycles,instructions,energy_j,MiB read\n1000,900,0.41,10.5\n1100,901,0.42,11.25\n1050,902,0.4,9.5\n")
    assert {"energy_j", "MiB read"} <= set(totals(kept))
    asked = read("cycles,instructions,mem\n1000,900,0.41\n1100,901,0.42\n1050,902,0.4\n", time_event="mem")
    assert asked.time_event == "mem"


@pytest.mark.parametrize(
    "name", ["cycles_q25", "cycles_ci_low", "cycles_ci95_upper", "cycles_hi", "cycles_old", "cycles_delta",
             "cycles_base", "predicted_cycles", "cycles_expected", "sim cycles"],
)  # fmt: skip
def test_bounds_and_others_words_of_a_column_are_no_events(read, name):
    found = read(f"kernel,cycles,{name},instructions,misses\na,3000,2900,6000,50\nb,1000,900,1500,60\n")
    assert set(totals(found)) == {"cycles", "instructions", "misses"}
    alone = read(
        f"kernel,cycles,{name.replace('cycles', 'stalls')},instructions,misses\na,3,2,6000,50\nb,1,9,1500,60\n"
    )
    assert len(totals(alone)) == 4


def test_predicted_branches_are_counted(read):
    assert (
        totals(read("cycles,instructions,branches,branches_predicted\n9,8,7,6\n8,9,6,5\n"))["branches_predicted"] == 11
    )


def test_per_cent_of_a_baseline_is_refused(read):
    with pytest.raises(FormatError, match="all columns are 100 in one row"):
        read("variant,cycles,instructions,misses\nbase,100,100,100\nO3,71,80,95\nvec,42,35,97\n")
    long = "".join(
        f"{v},{e},{c}\n"
        for v, k in (("a", 1), ("b", 2))
        for e, c in (("cycles", 100 // k), ("instructions", 100 // k), ("misses", 100 // k))
    )
    with pytest.raises(FormatError, match="all columns are 100 in one row"):
        read("run,event,count\n" + long)
    assert totals(read("cycles,instructions,misses\n100,100,99\n71,80,95\n"))["misses"] == 194


def test_the_same_time_in_every_row_is_told(read):
    told = read("cycles,instructions,misses\n1000,1500,5\n1000,1200,8\n1000,1700,1\n").notes
    assert any("caution: cycles is 1000 in every row" in n for n in told)
    assert not any("in every row" in n for n in read("cycles,instructions\n1000,15\n1000,12\n1001,17\n").notes)


@pytest.mark.parametrize(
    ("column", "words"),
    [("stat", ("x", "y")), ("which", ("mean", "std")), ("kind", ("raw", "scaled")), ("agg", ("1st", "2nd"))],
)
def test_statistics_of_one_count_are_refused_in_long_tables(read, column, words):
    """Their sum was read as the count, with a caution that spoke of intervals."""
    rows = "".join(f"{e},{w},{c}\n" for e, c in (("cycles", 3000), ("instructions", 6000)) for w in words)
    with pytest.raises(FormatError, match=f"column {column} tells several numbers of one event apart"):
        read(f"event,{column},value\n{rows}")


def test_what_pandas_melts_is_a_long_table(read):
    found = read("run,variable,value\na,cycles,3000\nb,cycles,3100\na,instructions,6000\nb,instructions,6100\n")
    assert totals(found) == {"cycles": 6100, "instructions": 12100}


@pytest.mark.parametrize(("sign", "between"), [(".", ","), (",", ";")])
def test_a_clock_tells_the_decimal_sign_where_large_counts_have_no_groups(read, sign, between):
    """Refused: 4.999 could mean 4999."""
    rows = [["benchmark", "seconds", "cycles", "instructions"], ["mcf", f"4{sign}999", "4927060670", "9240890838"]]
    rows.append(["gcc", f"5{sign}001", "4947241456", "9591497889"])
    found = read("".join(between.join(row) + "\n" for row in rows))
    assert found.intervals()["seconds"].tolist() == [4.999, 5.001]
    with pytest.raises(FormatError, match="can mean"):  # nothing says that this file does not group
        read(f"benchmark;seconds;cycles;instructions\na;4{sign}999;4927;9240\nb;5{sign}001;4947;9591\n")


def test_toplev_without_intervals(read):
    text = "CPUs,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle\n" + "".join(
        f"C0,{node},{share},% Slots,,,0.0,100.0,,\n"
        for node, share in (
            ("Frontend_Bound", 21.2),
            ("Bad_Speculation", 5.1),
            ("Backend_Bound", 50.3),
            ("Retiring", 23.4),
        )
    )
    axes = {"time_event": "Retiring [slots x s]", "work_event": "Retiring [slots x s]"}
    found = read(text, **axes)
    assert totals(found)["Backend_Bound [slots x s]"] == pytest.approx(0.503)
    assert any("without -I no length is known" in n for n in found.notes)
    assert pk.explore(found).headline.startswith(
        "23% of the issue slots retire work; most of the others are lost to the back end (50%)"
    )


# ------------------------------------------------------------------ whose time a column tells


def test_days_of_a_spreadsheet_are_no_seconds(read):
    """40 s were read as .00045 s, without a word."""
    days = [46349 + second / 86400 for second in range(1, 13)]
    rows = "".join(f"{d:.9f};{1000 + i * 7 % 5};{2000 + i % 3}\n" for i, d in enumerate(days))
    found = read("Zeit;cycles;instructions\n" + rows)
    assert found.intervals()["seconds"].iloc[1:].tolist() == pytest.approx([1.0] * 11, abs=1e-3)
    uptime = "".join(f"{46349 + 0.25 * i:.2f};{1000 + i * 7 % 5};{2000 + i % 3}\n" for i in range(12))
    seconds = read("time;cycles;instructions\n" + uptime).intervals()["seconds"]
    assert seconds.iloc[1:].tolist() == pytest.approx([0.25] * 11)


@pytest.mark.parametrize("name", ["seconds", "elapsed_s", "wall time [s]"])
def test_run_times_of_a_sweep_that_rise_are_lengths(read, name):
    """They were taken for time stamps: half of the true lengths, or the first one for all."""
    times = [0.04 * 2**i for i in range(10)] if name != "seconds" else [0.04 * i for i in range(1, 11)]
    rows = "".join(f"{i},{t:.6f},{int(3e9 * t * (1 + i % 3 / 50))},{int(4e9 * t)}\n" for i, t in enumerate(times, 1))
    found = read(f"size,{name},cycles,instructions\n{rows}")
    assert found.intervals()["seconds"].tolist() == pytest.approx(times, abs=1e-6)
    even = "".join(f"{i % 3},{i * 0.5},{1500000000 + i**5},{2000000000 + 7 * i**6}\n" for i in range(1, 11))
    stamps = read(f"size,{name},cycles,instructions\n{even}")  # cycles go with the steps
    assert stamps.intervals()["seconds"].tolist() == pytest.approx([0.5] * 10)


def test_an_event_that_rises_in_even_steps_is_no_clock(read):
    rows = "".join(f"{1000 * i},{i * 99720 + i % 7},{35000 * i + 12},{5000 * i + 7}\n" for i in range(1, 25))
    assert totals(read(f"size,cycles,instructions,branches\n{rows}"))["branches"] == 5000 * 300 + 7 * 24
    named = totals(read(f"size,cycles,instructions,offset\n{rows}"))
    assert "offset" not in named


@pytest.mark.parametrize("name", ["pcnt_running", "running (%)", "pct-running", "running_pct"])
def test_the_share_counted_under_other_names(read, name):
    found = read(f"interval,event,count,{name}\n0,cycles,1000,100\n0,instructions,2000,50\n")
    assert shares(found) == {"cycles": 1.0, "instructions": 0.5}


def test_a_size_in_other_languages_is_no_event(read):
    assert set(totals(read("Größe;cycles;instructions\n8;100;200\n16;200;410\n"))) == {"cycles", "instructions"}


# ------------------------------------------------------------------ dates, names of versions, and numbers with points

COUNTED = {"cycles": 3300, "instructions": 6600}


@pytest.mark.parametrize(
    "words",
    [
        ("27.11.2026", "28.11.2026", "29.11.2026"),
        ("01.02.2026", "02.02.2026", "03.02.2026"),
        ("7.1.26", "8.1.26", "9.1.26"),
        ("2026-11-27", "2026-11-28", "2026-11-29"),
        ("27/11/2026", "28/11/2026", "29/11/2026"),
        ("5.15.0", "6.1.112", "6.12.3"),  # of a kernel
        ("10.0.0.1", "10.0.0.2", "10.0.0.13"),  # of a host
    ],
)
@pytest.mark.parametrize("name", ["date", "Datum", "when", "build"])
@pytest.mark.parametrize("sign", ",;\t")
def test_a_date_without_a_time_is_text(read, words, name, sign):
    rows = "".join(f"{word},{1000 + 100 * i},{2000 + 200 * i}\n" for i, word in enumerate(words))
    found = read(f"{name},cycles,instructions\n{rows}".replace(",", sign))
    assert totals(found) == COUNTED
    assert len(found.intervals()) == 3
    assert any("left out" in note and name in note for note in found.notes)


def test_a_date_without_a_time_is_text_in_a_row_of_each_event(read):
    days = ["27.11.2026", "28.11.2026", "29.11.2026"]
    rows = "".join(f"{d},cycles,{1000 + 100 * i}\n{d},instructions,{2000 + 200 * i}\n" for i, d in enumerate(days))
    assert totals(read(f"date,event,count\n{rows}")) == COUNTED


@pytest.mark.parametrize("cell", ["1.234.567", "12.345.678"])
def test_numbers_grouped_with_points_are_no_dates(read, cell):
    found = read(f"loads,cycles,instructions\n{cell},1.000.000,2.000.000\n{cell},1.100.000,2.000.000\n")
    assert totals(found)["loads"] == 2 * int(cell.replace(".", ""))


@pytest.mark.parametrize("name", ["cycles", "L1-dcache-load-misses"])
def test_a_column_of_an_event_with_too_many_points_is_refused(read, name):
    with pytest.raises(FormatError, match="digit grouping"):
        read(f"instructions,cpu-cycles,{name}\n1000,1000,27.11.2026\n2000,1000,28.11.2026\n")


# ------------------------------------------------------------------ millions, in words


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("1,5 Mio", "2,5 Mrd"),
        ("1,5 Mio.", "2,5 Mrd."),
        ("1,5\u00a0Mio.", "2,5\u00a0Mrd."),
        ("1,5Mio", "2,5Mrd"),
        ("1500 Tsd.", "2500 Mio"),
        ("1.5 million", "2.5 billion"),
        ("1,5 mln", "2500 mln"),
        ("1.5M", "2.5G"),
    ],
)
def test_numbers_with_a_word_for_millions(read, small, large):
    found = read(f"run;cycles;instructions\na;{small};{large}\nb;{small};{large}\n")
    assert totals(found) == {"cycles": 3e6, "instructions": 5e9}
    assert any("multiplied out" in note for note in found.notes)


@pytest.mark.parametrize("word", ["Billionen", "Milliarden?", "lakh", "MB", "ms", "Stück"])
def test_a_number_with_another_word_is_refused_with_what_to_do(read, word):
    with pytest.raises(FormatError, match="no word or unit behind it"):
        read(f"run;cycles;instructions\na;1,5 {word};2000\nb;1,6 {word};2100\n")


# ------------------------------------------------------------------ powers of ten in a header


@pytest.mark.parametrize(
    "scale",
    ["(×10⁶)", "(x10^6)", "(10⁶)", "[10^6]", "×10⁶", "x 10⁶", "(* 10^6)", "(·10⁶)", "/ 10⁶", "(1e6)", "(in Mio.)"],
)
def test_a_power_of_ten_in_a_header(read, scale):
    found = read(f"run,cycles {scale},instructions {scale},loads {scale}\na,1.5,2.5,0.5\nb,1.5,2.5,0.5\n")
    assert totals(found) == {"cycles": 3e6, "instructions": 5e6, "loads": 1e6}


@pytest.mark.parametrize(
    ("scale", "factor"), [("×10³", 1e3), ("10⁹", 1e9), ("×10⁵", 1e5), ("10^12", 1e12), ("×10²", 1e2), ("×10¹", 10)]
)
def test_other_powers_of_ten_in_a_header(read, scale, factor):
    found = read(f"run,cycles ({scale}),instructions ({scale})\na,2,4\nb,2,4\n")
    assert totals(found) == {"cycles": 4 * factor, "instructions": 8 * factor}


@pytest.mark.parametrize("name", ["loads (10)", "loads (L2)", "loads (x)", "loads⁶", "loads_10", "loads 10", "r10⁶"])
def test_what_is_no_power_of_ten_scales_nothing(read, name):
    found = read(f"run,cycles,instructions,{name}\na,1000,2000,5\nb,1100,2000,6\n")
    assert totals(found)[name] == 11


# ------------------------------------------------------------------ ratios that perf prints, and tables with ratios

METRICS = [
    "insn per cycle,branch-misses of all branches,\n1.52,2.31,\n",
    "CPUs utilized,cs/sec cs/sec,migrations/sec migrations/sec,faults/sec faults/sec,\n1.00,3.21,1.52,2.31,\n",
    "GHz,insn per cycle,stalled cycles per insn,\n3.1,1.52,0.2,\n",
    "%  tma_backend_bound,%  tma_frontend_bound,%  tma_bad_speculation,%  tma_retiring,\n42.1,20.2,7.7,30.0,\n",
]


@pytest.mark.parametrize("table", METRICS)
@pytest.mark.parametrize("began", ["", "# started on Fri Nov 27 10:00:00 2026\n\n"])
@pytest.mark.parametrize(
    ("first", "cell"),
    [
        ("", ""),
        ("time,", "     1.000111111,"),
        ("CPU,", "CPU0,"),
        ("core,cpus,", "S0-D0-C0,2,"),
        ("time,CPU,", "1.0001,CPU0,"),
    ],
)
@pytest.mark.parametrize("sign", ",;\t")
def test_perfs_table_of_metrics_is_refused_with_what_to_do(read, table, began, first, cell, sign):
    head, row, _ = table.split("\n")
    with pytest.raises(FormatError, match=r"ratios and no counts.*Measure again without --metric-only"):
        read(f"{began}{first}{head}\n{cell}{row}\n".replace(",", sign))


@pytest.mark.parametrize("end", ["", ","])
@pytest.mark.parametrize("ratio", ["insn per cycle", "branch-misses of all branches", "GHz", "tma_retiring"])
def test_ratios_beside_counts_do_not_hide_them(read, ratio, end):
    found = read(f"cycles,instructions,{ratio}{end}\n1000,2000,2.0{end}\n1100,2100,1.9{end}\n")
    assert {k: v for k, v in totals(found).items() if k in COUNTED} == {"cycles": 2100, "instructions": 4100}


# ------------------------------------------------------------------ powers of ten below one, and of times

BESIDE = ((1_200_000, 2_400_000), (1_300_000, 2_500_000), (1_320_000, 2_510_000))


def beside(name, cells=(1500, 1600, 1550)):
    """Return a table of whole counts with one more column."""
    rows = "".join(f"{k};{c};{i};{x}\n" for k, ((c, i), x) in enumerate(zip(BESIDE, cells, strict=True)))
    return f"run;cycles;instructions;{name}\n{rows}"


@pytest.mark.parametrize(
    "name",
    [
        "miss rate (×10⁻³)",
        "miss rate (‰)",
        "L1 misses [1e-3]",
        "misses (10^-2)",
        "misses × 10^-2",
        "misses (×10**-3)",
        "misses (ppm)",
        "misses per mille",
        "stalls (percent of slots)",
        "stalls_percent_of_slots",
        "IPC (10^-2)",
        "time (×10⁻³)",
        "misses (x 1e-3)",
    ],
)
def test_a_column_scaled_by_less_than_one_counts_nothing(read, name):
    samples = read(beside(name))
    assert set(totals(samples)) == {"cycles", "instructions"}
    assert any(name in note for note in samples.notes), "it is told"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("time (×10⁻³ s)", 1e-3),
        ("time [10^-3 s]", 1e-3),
        ("elapsed [1e-6 s]", 1e-6),
        ("elapsed (10⁻⁹ s)", 1e-9),
        ("runtime (x10^-3 sec)", 1e-3),
        ("duration (10^3 s)", 1e3),
        ("time (10^-3 ms)", 1e-6),
        ("time 10^-3 s", 1e-3),
        ("time (ms)", 1e-3),
        ("latency (s)", 1.0),
    ],
)
def test_a_time_in_powers_of_ten_is_a_time(read, name, unit):
    samples = read(beside(name))
    assert set(totals(samples)) == {"cycles", "instructions"}
    assert samples.intervals()["seconds"].tolist() == pytest.approx([1500 * unit, 1600 * unit, 1550 * unit])


@pytest.mark.parametrize(
    "name",
    [
        "tol_1e-3",
        "eps=1e-3",
        "run-10",
        "port 10",
        "energy (mJ)",
        "energy (10^-3 J)",
        "level_10",
        "branch-10^3",
        "stall_10",
        "uops 10",
        "lat-1e-6",
        "rate_matched",
        "misses (1)",
        "latency 10-20 ns",
        "permille_events",
        "ppm_events",
        "walks [ns]",
        "walks [10^-9 s]",
        "L1D.10",
    ],
)
def test_what_only_looks_like_a_power_below_one_is_counted(read, name):
    assert totals(read(beside(name)))[name] == 4650


@pytest.mark.parametrize("unit", ["percent of slots", "10^-3", "×10⁻³", "‰", "% of loads"])
def test_rows_of_a_long_table_in_shares_are_no_counts(read, unit):
    rows = f"event,value,units\ncycles,1200334,cycles\ninstructions,2200334,instructions\nFrontend Bound,12,{unit}\n"
    assert totals(read(rows)) == {"cycles": 1200334, "instructions": 2200334}


@pytest.mark.parametrize(
    ("unit", "factor"), [("10^3", 1e3), ("×10⁶", 1e6), ("uops", 1), ("slots", 1), ("events of 1", 1)]
)
def test_rows_of_a_long_table_in_other_units_are_counts(read, unit, factor):
    rows = f"event,value,units\ncycles,1200334,cycles\ninstructions,2200334,instructions\nmisses,12,{unit}\n"
    assert totals(read(rows))["misses"] == 12 * factor


# ------------------------------------------------------------------ shares that add up to a whole

CLOCKED = "time,cycles,instructions,slots,"


def clocked(names, rows):
    body = "".join(
        f"{k + 1}.5,{1_000_100 + 300 * k},{1_800_200 + 210 * k * k},{6_000_000 + 100 * k},{','.join(map(str, cells))}\n"
        for k, cells in enumerate(rows)
    )
    return f"{CLOCKED}{','.join(names)}\n{body}"


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (("retiring", "bad-spec", "fe-bound", "be-bound"), ((30, 10, 20, 40), (31, 9, 21, 39), (28, 12, 20, 40))),
        (
            ("retiring", "bad-spec", "fe-bound", "be-bound"),
            ((30.1, 9.9, 20, 40), (31, 9.5, 20, 39.5), (28, 12, 20, 40)),
        ),
        (("Retiring", "Bad Speculation", "Frontend Bound", "Backend Bound"), ((0.3, 0.1, 0.2, 0.4),) * 2),
        (("Retiring", "Bad Speculation", "Frontend Bound", "Backend Bound"), ((30, 10, 20, 40),)),
        (("us", "sy", "id"), ((50, 10, 40), (60, 5, 35), (61, 4, 35), (20, 10, 70))),
        (("L1", "L2", "L3", "DRAM"), ((90, 5, 3, 1.9), (80, 10, 5, 5), (85, 10, 3, 2.1))),
    ],
)
def test_columns_that_add_up_to_a_whole_in_every_row_are_shares(read, names, rows):
    samples = read(clocked(names, rows))
    assert set(totals(samples)) == {"cycles", "instructions", "slots"}
    assert all(any(name in note for note in samples.notes) for name in names)


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (("retiring", "bad-spec", "fe-bound"), ((30, 10, 20), (31, 9, 21), (28, 12, 20))),  # no whole
        (("l1", "l2", "l3"), ((50, 10, 40), (60, 5, 36), (61, 4, 30))),
        (("l1", "l2"), ((50, 50), (60, 40), (61, 39))),  # two that do by turns
        (("l1", "l2", "l3"), ((50, 10, 40),)),  # once, by accident
        (("retiring", "bad-spec", "fe-bound", "be-bound"), ((3000, 1000, 2000, 4000), (3100, 900, 2100, 3900))),
    ],
)
def test_columns_that_do_not_are_counted(read, names, rows):
    found = totals(read(clocked(names, rows)))
    assert {name: found[name] for name in names} == {n: sum(r[i] for r in rows) for i, n in enumerate(names)}


@pytest.mark.parametrize(
    "name",
    [
        "AI [flop/byte]",
        "B/F",
        "flops/byte",
        "Arithmetic Intensity",
        "misses per 10^3 instr",
        "miss/ref",
        "EDP",
        "loads/10³ instructions",
    ],
)
def test_quotients_of_work_and_bytes_are_no_events(read, name):
    assert set(totals(read(beside(name)))) == {"cycles", "instructions"}


@pytest.mark.parametrize("name", ["intensity_events", "b/f/loads", "offcore/bytes", "AI", "per_instr_queue"])
def test_what_only_looks_like_such_a_quotient_is_counted(read, name):
    assert totals(read(beside(name)))[name] == 4650


# ------------------------------------------------------------------ fields of perf between colons


def test_events_with_colons_between_colons(read):
    text = (
        "3::syscalls:sys_enter_read:1397967:100.00::\n1419380::cycles:u:1397967:50.00:1.015:GHz\n"
        "2419380::instructions:u:1397967:100.00:1.70:insn per cycle\n77::cache-misses:1397967:100.00::\n"
        "5::sched:sched_switch:uk:1397967:100.00::\n"
    )
    samples = read(text)
    counts = {"syscalls:sys_enter_read": 3, "cycles:u": 1419380, "instructions:u": 2419380, "cache-misses": 77}
    assert totals(samples) == {**counts, "sched:sched_switch:uk": 5}
    assert samples.n_intervals == 1
    assert shares(samples)["cycles:u"] == 0.5


def test_control_groups_between_other_signs(read):
    text = "1419380;;cycles:u;web;1397967;50.00;;\n2419380;;instructions:u;web;1397967;100.00;;\n"
    assert read(text).table["place"].unique().tolist() == ["web"]


# ------------------------------------------------------------------ numbers of counters behind names


def test_numbers_of_counters_in_parentheses_are_no_part_of_names(read):
    names = "CPU_CYCLES(0),INSTRUCTIONS(1),L1I_DIR_WRITES(2),L1D_PENALTY_CYCLES(5)"
    found = totals(
        read(f"{names}\n5203311022,2301120334,10233412,803311220\n5203313022,2301120334,10233413,803311221\n")
    )
    assert found == {
        "CPU_CYCLES": 10406624044, "INSTRUCTIONS": 4602240668, "L1I_DIR_WRITES": 20466825,
        "L1D_PENALTY_CYCLES": 1606622441,
    }  # fmt: skip


@pytest.mark.parametrize("names", ["cycles,instructions,port(0),port(1),port(2)", "cycles,instructions,l1(2),l2(2),l3"])
def test_numbers_in_parentheses_that_tell_columns_apart_stay(read, names):
    found = totals(read(f"{names}\n1000,2000,7,8,90\n1100,2000,7,9,99\n"))
    assert set(found) == set(names.split(","))


# ------------------------------------------------------------------ ticks of the time stamp counter


@pytest.mark.parametrize("name", ["tsc_delta", "delta_tsc", "tsc_diff", "rdtsc", "tsc_cycles", "TSC ticks"])
def test_ticks_of_the_time_stamp_counter_pass_whatever_is_done(name):
    assert is_fixed_rate(name)


@pytest.mark.parametrize("name", ["tsc_deadline_misses", "rdtsc_retired", "tsx_delta", "ctsc"])
def test_other_words_with_its_letters_do_not(name):
    assert not is_fixed_rate(name)


# ------------------------------------------------------------------ keys and values


@pytest.mark.parametrize(
    "lines",
    [
        ("cycles=100 instructions=200", "cycles=110 instructions=210"),
        (
            "event=cycles count=100",
            "event=instructions count=200",
            "event=cycles count=110",
            "event=instructions count=210",
        ),
        ("i=1 cycles=100 instructions=200", "i=2 cycles=110 instructions=210"),
    ],
)
def test_records_of_two_pairs_and_more_are_read(read, lines):
    samples = read("\n".join(lines) + "\n")
    assert totals(samples) == {"cycles": 210, "instructions": 410}
    assert samples.n_intervals == 2


def test_lines_of_one_pair_are_counts_of_one_interval_each_time_they_come_again(read):
    samples = read("cycles=100\ninstructions=200\ncycles=110\ninstructions=210\n")
    assert totals(samples) == {"cycles": 210, "instructions": 410}
    assert samples.n_intervals == 2


# ------------------------------------------------------------------ columns that number the rows


def numbered(name, numbers, first=True):
    rows = [(1_000_100 + 997 * k * k, 2_000_300 + 1_203 * k, 5 + (7 * k) % 5) for k in range(len(numbers))]
    cells = [(n, *row) if first else (*row, n) for n, row in zip(numbers, rows, strict=True)]
    head = (name, "cycles", "instructions", "misses") if first else ("cycles", "instructions", "misses", name)
    return "\n".join(",".join(map(str, row)) for row in (head, *cells)) + "\n"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("i", range(3)),
        ("k", range(4)),
        ("idx", range(1, 3)),
        ("id", range(5)),
        ("step", range(1, 6)),
        ("seq", range(4)),
        ("nr", range(1, 5)),
        ("shot", range(4)),
        ("x", range(1, 5)),
        ("index", range(3)),
        ("id", (7, 8, 9)),
        ("Sample", (1, 2, 3)),
    ],
)
def test_a_column_that_numbers_the_rows_is_no_event(read, name, numbers, first):
    samples = read(numbered(name, list(numbers), first))
    assert set(totals(samples)) == {"cycles", "instructions", "misses"}
    assert samples.n_intervals == len(numbers)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("x", (1, 2)),
        ("x", (1, 2, 3)),
        ("x", (2, 3, 4, 5)),
        ("x", (1, 2, 4, 5)),
        ("l2-misses", (1, 2, 3, 4)),
        ("i", (4, 2, 9)),
    ],
)
def test_a_column_that_does_not_is_counted(read, name, numbers):
    assert totals(read(numbered(name, numbers)))[name] == sum(numbers)


@pytest.mark.parametrize("name", ["roi_begin_cycles", "end_tsc", "start cycles", "stop_ticks"])
def test_when_a_row_begins_or_ends_is_no_event(read, name):
    assert set(totals(read(beside(name, (1_000_000, 3_000_000, 5_000_000))))) == {"cycles", "instructions"}


@pytest.mark.parametrize("name", ["frontend_cycles", "backend cycles", "l2_restart_cycles", "stall_end"])
def test_cycles_of_other_ends_are_counted(read, name):
    assert totals(read(beside(name)))[name] == 4650


@pytest.mark.parametrize(
    ("said", "warned"),
    [("cycles in 10^6, instructions in 10^6", True), ("in 1e3", True), ("in 10⁶", True), ("in 10 rows", False)],
)
def test_a_comment_that_says_a_scale_is_told(read, said, warned):
    samples = read(f"# {said}\nrun,cycles,instructions\na,1203,2203\nb,1213,2213\n")
    assert any("words around the counts say" in note for note in samples.notes) == warned


@pytest.mark.parametrize("spread", [" ± 1", " (3.1 %)"])
@pytest.mark.parametrize("dressed", [(2,), (0, 1), (0, 1, 2)])
def test_spreads_behind_numbers_are_no_scales(read, spread, dressed):
    """Of some columns or of all: what stands before them is read, and only spreads are told of."""
    rows = [(1000, 2000, 12), (1100, 2150, 13)]
    body = "".join(
        ";".join([name, *(f"{x}{spread if i in dressed else ''}" for i, x in enumerate(row))]) + "\n"
        for name, row in zip("ab", rows, strict=True)
    )
    samples = read(f"run;cycles;instructions;misses\n{body}")
    assert totals(samples) == {"cycles": 2100, "instructions": 4150, "misses": 25}
    assert any("their spread or share behind them" in note for note in samples.notes)
    assert not any("K, M, G or T" in note for note in samples.notes)


# ------------------------------------------------------------------ totals by their names, and shares by theirs


@pytest.mark.parametrize(
    "stamps",
    [(1767261600, 1767261615, 1767261630), ("2026-03-01T10:00:00Z", "2026-03-01T10:00:15Z", "2026-03-01T10:00:30Z")],
)
def test_few_rows_of_totals_by_name_are_totals(read, stamps):
    rows = zip(stamps, (100_000_000, 101_000_000, 103_000_000), (200_000_000, 202_000_000, 205_000_000), strict=True)
    body = "\n".join(f"{t},{c},{i}" for t, c, i in rows)
    samples = read(f"time,node_perf_cpucycles_total,node_perf_instructions_total\n{body}\n")
    assert totals(samples) == {"cycles": 3_000_000, "instructions": 5_000_000}


def test_few_rows_that_rise_under_other_names_are_counts(read):
    samples = read(
        "time,cycles,instructions\n0.5,100000000,200000000\n1.0,101000000,202000000\n1.5,103000000,205000000\n"
    )
    assert totals(samples) == {"cycles": 304_000_000, "instructions": 607_000_000}


@pytest.mark.parametrize("name", ["pct_stalled", "percent stalled", "Percentage.of.slots"])
def test_a_column_that_begins_with_per_cent_is_a_share(read, name):
    assert set(totals(read(beside(name, (12, 13, 14))))) == {"cycles", "instructions"}


# ------------------------------------------------------------------ inclusive counts, and totals beside their steps


@pytest.mark.parametrize(
    ("inclusive", "kept"),
    [
        ("cycles (inc)", False),  # as Hatchet writes them beside the exclusive ones
        ("cycles (incl)", False),
        ("cycles_inclusive", False),
        ("misses (inc)", True),  # beside no exclusive ones
        ("cycles_incoming", True),
    ],
)
def test_inclusive_counts_beside_exclusive_ones_are_no_event(read, inclusive, kept):
    samples = read(
        f"name,cycles,instructions,{inclusive}\nmain,1000,500,10000\nsolve,6000,13000,9000\ndot,3000,7000,3000\n"
    )
    assert (inclusive in totals(samples)) == kept
    assert totals(samples)["cycles"] == 10_000


def test_inclusive_time_beside_time_is_no_event(read):
    header = "name,cycles,instructions,time,time (inc)"
    samples = read(f"{header}\nmain,1000,500,0.1,1.0\nsolve,6000,13000,0.6,0.9\ndot,3000,7000,0.3,0.3\n")
    assert set(totals(samples)) == {"cycles", "instructions"}
    assert samples.intervals()["seconds"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("prefixes", "kept"), [(("Excl_", "Incl_"), False), (("Mine_", "Incl_"), True)])
def test_taus_inclusive_counts_are_no_events_beside_its_exclusive_ones(read, prefixes, kept):
    own, inside = prefixes
    names = f"Name,{own}CYC,{inside}CYC,{own}INS,{inside}INS,{own}L2,{inside}L2"
    text = (
        f"{names}\nmain,1000,10000,500,20500,7,90\nsolve,6000,9000,13000,20000,60,83\ndot,3000,3000,7000,7000,23,23\n"
    )
    samples = read(text, time_event=f"{own}CYC", work_event=f"{own}INS")
    assert (f"{inside}L2" in totals(samples)) == kept
    assert totals(samples)[f"{own}L2"] == 90


@pytest.mark.parametrize("name", ["nid", "node_id", "node id"])
def test_the_number_of_a_node_of_a_call_tree_is_no_event(read, name):
    samples = read(f"{name},cycles,instructions\n3,1000,500\n1,6000,13000\n7,3000,7000\n")
    assert set(totals(samples)) == {"cycles", "instructions"}


TOTALS_AND_STEPS = (
    "ts_ns,cycles,{0},instructions,{1}\n"
    "1000000000,1000000,1000000,2000000,2000000\n"
    "2000000000,4000000,3000000,3500000,1500000\n"
    "3000000000,6000000,2000000,5500000,2000000\n"
)


@pytest.mark.parametrize("names", [("cycles_delta", "instructions_delta"), ("cycles (diff)", "instructions (diff)")])
def test_totals_beside_their_own_steps_are_asked_about(read, names):
    """They were read as counts, and what would have been right was left out as a word of another run."""
    text = TOTALS_AND_STEPS.format(*names)
    with pytest.raises(FormatError, match=f"{re.escape(names[0])} holds the steps of cycles.*cumulative=True"):
        read(text)
    assert totals(read(text, cumulative=True)) == {"cycles": 5_000_000, "instructions": 3_500_000}
    assert totals(read(text, cumulative=False)) == {"cycles": 11_000_000, "instructions": 11_000_000}


@pytest.mark.parametrize(
    "text",
    [
        "run,cycles,cycles_delta,instructions\na,1000000,0,2000000\nb,1500000,500000,2100000\nc,1200000,200000,2200000\n",
        "ts_s,cycles,cycles_delta,instructions\n1,1000000,0,2000000\n2,1500000,500000,2100000\n3,1700000,700000,2000000\n",
    ],
)
def test_differences_to_another_run_are_left_out_as_they_were(read, text):
    samples = read(text)
    assert set(totals(samples)) == {"cycles", "instructions"}
    assert any("cycles_delta" in note for note in samples.notes)


# ------------------------------------------------------------------ columns derived from the one beside them


@pytest.mark.parametrize(
    "name",
    [
        *("cycles_cum", "cumulative_cycles", "cycles (cumsum)", "prev_cycles", "cycles_ma3", "cycles rolling"),
        *("norm_cycles", "cycles_norm", "cycles normalized", "cycles_children", "cycles_lag1"),
    ],
)
def test_a_column_derived_from_the_one_beside_it_is_no_event(read, name):
    text = f"t_s,cycles,{name},instructions\n1,1000,1000,2000\n2,3000,4000,1500\n3,2000,6000,2000\n4,1000,7000,2500\n"
    samples = read(text)
    assert set(totals(samples)) == {"cycles", "instructions"}
    assert totals(samples)["cycles"] == 7000


@pytest.mark.parametrize("name", ["loads_cum", "prev_loads", "cycles_marked", "cumulonimbus_cycles", "cycles_lagging"])
def test_a_column_that_only_sounds_derived_is_counted(read, name):
    text = f"t_s,cycles,{name},instructions\n1,1000,100,2000\n2,3000,40,1500\n3,2000,60,2000\n4,1000,70,2500\n"
    assert totals(read(text))[name] == 270


@pytest.mark.parametrize("names", ["enabled_ns,running_ns", "time_enabled (ns),time_running (ns)", "enabled,running"])
def test_times_of_counting_beside_a_row_per_event_are_no_runs(read, names):
    rows = "cycles,1000000,1000000,500000\ninstructions,2000000,1000000,1000000\ncache-misses,1000,1000000,250000\n"
    samples = read(f"event,scaled,{names}\n{rows}")
    assert totals(samples) == {"cycles": 1_000_000, "instructions": 2_000_000, "cache-misses": 1000}
    assert shares(samples) == {"cycles": 0.5, "instructions": 1.0, "cache-misses": 0.25}


def test_raw_and_scaled_counts_beside_times_of_counting_are_refused(read):
    rows = "cycles,500000,1000000,1000000,500000\ninstructions,2000000,2000000,1000000,1000000\n"
    with pytest.raises(FormatError, match="raw, scaled tell several numbers of one event"):
        read(f"event,raw,scaled,enabled_ns,running_ns\n{rows}")


@pytest.mark.parametrize("names", ["enabled_ns,running_ns", "enabled,running"])
def test_times_of_counting_in_a_long_table(read, names):
    rows = "cycles,1000000,1000000,500000\ninstructions,2000000,1000000,1000000\ncache-misses,1000,1000000,250000\n"
    samples = read(f"event,count,{names}\n{rows}")
    assert totals(samples) == {"cycles": 1_000_000, "instructions": 2_000_000, "cache-misses": 1000}
    assert shares(samples) == {"cycles": 0.5, "instructions": 1.0, "cache-misses": 0.25}


# ------------------------------------------------------------------ rows of a wide table that sum up others


OF_LEVELS = ("cycles", "instructions", "cache-misses")
OF_CORES = [(1_000_000, 1_500_000, 5_000), (1_001_137, 1_500_977, 5_032), (1_002_548, 1_502_108, 5_126), (1, 0, 0)]


def of_levels(*rows, column="cpu", times=(1, 2, 3)):
    """Return a wide table: in each interval a row of each label and the numbers of the cores that it sums up."""
    lines = [f"time_s,{column},{','.join(OF_LEVELS)}"]
    for t in times:
        for label, cores in rows:
            lines.append(
                f"{t}.0,{label},{','.join(str(sum(OF_CORES[c][e] + t * (c + e) for c in cores)) for e in range(3))}"
            )
    return "\n".join(lines) + "\n"


def of_cores(times=3):
    """Return what `of_levels` counts of all cores, each once."""
    return {
        e: sum(OF_CORES[c][i] + t * (c + i) for c in range(4) for t in range(1, times + 1))
        for i, e in enumerate(OF_LEVELS)
    }


EACH_CORE = [(f"core{c}", [c]) for c in range(4)]
EACH_SOCKET = [("socket0", [0, 1]), ("socket1", [2, 3])]


@pytest.mark.parametrize(
    "rows",
    [
        [*EACH_CORE, *EACH_SOCKET],
        [*EACH_SOCKET, *EACH_CORE],
        [*EACH_CORE, *EACH_SOCKET, ("machine", [0, 1, 2, 3])],
        [("system", [0, 1, 2, 3]), *EACH_SOCKET, *EACH_CORE],
        [*EACH_CORE, ("all", [0, 1, 2, 3])],
        [*EACH_CORE, ("*", [0, 1, 2, 3])],
        [*((f"S{c[1][0] // 2}-C{c[1][0]}", c[1]) for c in EACH_CORE), ("S0", [0, 1]), ("S1", [2, 3])],
        [*((f"C{c[1][0]}", c[1]) for c in EACH_CORE), ("S0", [0, 1]), ("S1", [2, 3])],
    ],
)
@pytest.mark.parametrize("column", ["cpu", "place", "scope"])
def test_rows_of_a_wide_table_that_sum_up_others_are_no_places(read, rows, column):
    found = read(of_levels(*rows, column=column))
    assert totals(found) == of_cores()
    assert found.table["place"].nunique() == 4
    assert found.n_intervals == 12
    of_others = len(rows) - 4
    assert any(f"{3 * of_others} rows with sums of the others, left out" in n for n in found.notes)
    assert found.accounting["left_out"].sum() == 3 * of_others


def test_the_sum_of_all_cores_has_a_number_below_zero(read):
    found = read(of_levels(*((c[0][4:], c[1]) for c in EACH_CORE), ("-1", [0, 1, 2, 3])))
    assert totals(found) == of_cores()
    assert set(found.table["place"]) == {"0", "1", "2", "3"}


def test_one_interval_of_cores_and_sockets_is_read_once(read):
    assert totals(read(of_levels(*EACH_CORE, *EACH_SOCKET, times=(1,)))) == of_cores(1)


@pytest.mark.parametrize("word", ["", "all", "-1", "total", "sum"])
def test_rows_of_sockets_among_those_of_their_cores_are_no_places(read, word):
    lines = ["time_s,socket,core,cycles,instructions"]
    for t in (1, 2, 3):
        for s in (0, 1):
            counts = [(10_000 * t + 117 * c + s, 17_000 * t + 31 * c + s) for c in (0, 1)]
            lines += [f"{t}.0,{s},{c},{counts[c][0]},{counts[c][1]}" for c in (0, 1)]
            lines.append(f"{t}.0,{s},{word},{sum(c[0] for c in counts)},{sum(c[1] for c in counts)}")
    found = read("\n".join(lines) + "\n")
    assert totals(found) == {"cycles": 4 * 60_000 + 6 * 117 + 6, "instructions": 4 * 102_000 + 6 * 31 + 6}
    assert found.table["place"].nunique() == 4


def test_rates_and_steady_columns_beside_the_counts_do_not_hide_sums(read):
    lines = of_levels(*EACH_CORE, *EACH_SOCKET).splitlines()
    told = [lines[0] + ",IPC,MHz,threads", *(f"{x},1.5,2400,2" for x in lines[1:])]
    found = read("\n".join(told) + "\n")
    assert {e: totals(found)[e] for e in OF_LEVELS} == of_cores()


def test_places_that_only_look_like_levels_stay(read):
    # Two sockets whose counts are no sums of the cores': all that ran on other cores, too.
    text = of_levels(*EACH_CORE, ("socket0", [0, 1, 1]), ("socket1", [2, 3]))
    assert read(text).table["place"].nunique() == 6
    # Each core twice as busy as the one before: no row is a sum of all others.
    found = read(of_levels(("core0", [0]), ("core1", [0, 0]), ("core2", [0, 0, 0, 0])))
    assert found.table["place"].nunique() == 3
    # Programs, of which one did as often as the others together what they do, but took its own time.
    rows = [f"{t},{p},{c},{i}" for t in (1, 2) for p, c, i in (("a", 1500, 4000), ("b", 1700, 5000), ("c", 3100, 9000))]
    assert read("\n".join(["time_s,program,cycles,instructions", *rows]) + "\n").table["run"].nunique() == 3


def test_rows_of_levels_that_nearly_sum_up_others_are_told(read):
    # Each level measured for itself: hardly the same to the last digit.
    lines = of_levels(*EACH_CORE, *EACH_SOCKET).splitlines()
    near = [re.sub(r"(socket\d),(\d+)", lambda m: f"{m[1]},{int(m[2]) + 31}", x) for x in lines]
    found = read("\n".join(near) + "\n")
    assert any("caution" in n and "socket" in n and "twice" in n for n in found.notes)


def test_events_that_only_sockets_count_are_told_where_their_rows_go(read):
    lines = of_levels(*EACH_CORE, *EACH_SOCKET).splitlines()
    told = [lines[0] + ",unc_m_cas_count", *(f"{x},{'' if ',core' in x else 70_000}" for x in lines[1:])]
    found = read("\n".join(told) + "\n")
    assert {e: totals(found)[e] for e in OF_LEVELS} == of_cores()
    assert any("unc_m_cas_count" in n and "left out" in n for n in found.notes)


def test_events_that_only_sockets_count_stay_in_long_tables(read):
    rows = ["time_s,unit,event,count"]
    for t in (1, 2):
        for u, k in (("core0", 1), ("core1", 2), ("socket0", 3)):
            rows += [f"{t},{u},cycles,{k * 10_000 + t * k}", f"{t},{u},instructions,{k * 13_000 + t * k}"]
        rows.append(f"{t},socket0,unc_m_cas_count,70000")
    found = read("\n".join(rows) + "\n")
    assert totals(found) == {"cycles": 60_009, "instructions": 78_009, "unc_m_cas_count": 140_000}


# ------------------------------------------------------------------ what is no text yet, and what launches are called


def as_tar(text):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        about = tarfile.TarInfo("a.csv")
        about.size = len(text.encode())
        archive.addfile(about, io.BytesIO(text.encode()))
    return made.getvalue()


@pytest.mark.parametrize(
    ("wrapped", "said"),
    [
        (lambda text: text.encode("utf-16-le"), "iconv -f UTF-16LE"),
        (lambda text: text.encode("utf-16-be"), "iconv -f UTF-16BE"),
        (lambda text: text.encode("cp037"), "iconv -f IBM037"),
        (as_tar, "Unpack it"),
        (lambda text: gzip.compress(as_tar(text)), "Unpack it"),
        (lambda text: gzip.compress(gzip.compress(text.encode())), "Decompress it once"),
    ],
)
def test_text_in_another_form_is_refused_with_what_to_do(tmp_path, wrapped, said):
    path = tmp_path / "dump"
    path.write_bytes(wrapped("cycles,instructions\n3100,6100\n3200,6000\n"))
    with pytest.raises(FormatError, match=said):
        pk.read_samples(path)


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "shift-jis"])
def test_words_of_other_alphabets_are_no_text_of_mainframes(tmp_path, encoding):
    word = "größe ü" if encoding == "latin-1" else "时间" if encoding == "gbk" else "時間"
    path = tmp_path / "dump"
    path.write_bytes(f"{word},cycles,instructions\na,3100,6100\nb,3200,6000\n".encode(encoding))
    assert totals(pk.read_samples(path)) == {"cycles": 6300, "instructions": 12100}


def test_the_settings_of_a_launch_are_no_events_beside_each_other_alone(read):
    head = "Index,KernelName,grd,wgr,lds,scr,arch_vgpr,sgpr,SQ_WAVES,cycles,instructions"
    found = read(f"{head}\n0,k1,1024,256,0,0,8,16,16384,3100,6100\n1,k2,2048,128,512,0,12,32,8192,3200,6000\n")
    assert totals(found) == {"SQ_WAVES": 24576, "cycles": 6300, "instructions": 12100}
    found = read("lds,cycles,instructions\n900,3100,6100\n901,3200,6000\n")  # loads, by a short name
    assert totals(found)["lds"] == 1801


@pytest.mark.parametrize(
    ("inclusive", "exclusive"),
    [
        ("PAPI_TOT_CYC:Sum (I)", "PAPI_TOT_CYC:Sum (E)"),
        ("PAPI_TOT_CYC Inclusive", "PAPI_TOT_CYC Exclusive"),
        ("misses (I)", "misses (E)"),
        ("Inclusive_misses", "Exclusive_misses"),
    ],
)
def test_inclusive_columns_of_profilers_are_no_events_beside_exclusive_ones(read, inclusive, exclusive):
    found = read(f"name,cycles,instructions,{inclusive},{exclusive}\nmain,3100,6100,900,100\nf,3200,6000,800,800\n")
    assert totals(found) == {"cycles": 6300, "instructions": 12100, exclusive: 900}
    alone = read(f"name,cycles,instructions,{inclusive}\nmain,3100,6100,900\nf,3200,6000,800\n")
    assert inclusive in totals(alone)


# ------------------------------------------------------------------ what else stands beside counts and is none


@pytest.mark.parametrize("name", [
    "avg_latency_cycles", "mean latency", "p99_us", "lat_p50", "p95 latency (us)", "read_bw_mbs", "write_bw_gbs",
    "peak_rss", "heap_mb", "queue_len", "queue depth", "in_flight", "checksum", "crc32", "score", "percentile", "hour",
    "minute", "elapsed_ns_total", "total_elapsed_s", "acc_cache_misses", "accumulated cache-misses",
    "cache-misses (acc)", "misses/1k",
])  # fmt: skip
def test_readings_means_and_marks_are_no_events(read, name):
    rows = [
        (10_412_117, 15_300_991, 41_377, 917),
        (9_731_229, 14_100_003, 39_020, 1834),
        (10_950_007, 16_000_841, 44_001, 2990),
    ]
    found = read(f"cycles,instructions,cache-misses,{name}\n" + "\n".join(",".join(map(str, r)) for r in rows) + "\n")
    assert set(totals(found)) == {"cycles", "instructions", "cache-misses"}
    assert any(name in note for note in found.notes)


@pytest.mark.parametrize(
    "name", ["latency_misses", "scores_retired", "queue_full_stalls", "accesses", "hours_k", "heap_allocs"]
)
def test_counts_that_only_sound_like_readings_are_events(read, name):
    text = f"cycles,instructions,{name}\n10412117,15300991,917\n9731229,14100003,834\n10950007,16000841,990\n"
    assert totals(read(text))[name] == 917 + 834 + 990


OF_A_RUN = {"cycles": 1_000_000, "instructions": 2_000_000, "branch-misses": 1_000}


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("mean,ci_low,ci_high,n", "{0},{1},{2},10"),
        ("mean,lower,upper", "{0},{1},{2}"),
        ("mean,95% CI low,95% CI high", "{0},{1},{2}"),
        ("mean,lo,hi", "{0},{1},{2}"),
        ("q1,median,q3,iqr", "{1},{0},{2},20"),
        ("min,p25,median,p75,max,range", "{1},{1},{0},{2},{2},99"),
        ("median,mad", "{0},17"),
        ("total,share", "{0},0.5"),
    ],
)
def test_quartiles_and_bounds_of_a_row_per_event_are_no_runs(read, head, row):
    lines = [f"{e},{row.format(c, int(0.99 * c), int(1.01 * c))}" for e, c in OF_A_RUN.items()]
    found = read("\n".join([f"event,{head}", *lines]) + "\n")
    assert totals(found) == OF_A_RUN
    assert found.table["run"].nunique() == 1


def test_runs_that_are_called_low_and_high_stay_runs(read):
    lines = [f"{e},{c},{2 * c + 1}" for e, c in OF_A_RUN.items()]
    found = read("\n".join(["event,low,high", *lines]) + "\n")
    assert set(found.table["run"]) == {"low", "high"}


def test_columns_of_a_row_per_event_that_sum_up_others_are_no_runs(read):
    cores = [
        [1_000_117, 1_100_211, 1_200_003, 1_300_009],
        [2_000_117, 2_100_211, 2_200_003, 2_300_009],
        [1117, 1211, 1003, 1009],
    ]
    lines = [
        f"{e},{c[0]},{c[1]},{c[0] + c[1]},{c[2]},{c[3]},{c[2] + c[3]},{sum(c)}"
        for e, c in zip(OF_A_RUN, cores, strict=True)
    ]
    found = read("\n".join(["event,core0,core1,socket0,core2,core3,socket1,machine", *lines]) + "\n")
    assert set(found.table["run"]) == {"core0", "core1", "core2", "core3"}
    assert any("socket0" in n and "left out" in n for n in found.notes)


@pytest.mark.parametrize("above", ["socket0", "total", "all", "machine", "sum"])
@pytest.mark.parametrize("name", ["{}:{}", "{} {}"])
def test_columns_of_a_place_that_sums_up_others_are_no_place(read, above, name):
    heads = [name.format(p, e) for p in ("core0", "core1", above) for e in ("cycles", "instructions", "misses")]
    rows = []
    for t in (1, 2, 3, 4):
        one, two = (
            (1_000_000 + 17 * t * t, 1_500_000 - 19 * t, 300 + t),
            (1_100_000 + 7 * t, 1_400_000 + 9 * t, 400 - t),
        )
        rows.append([*one, *two, *(a + b for a, b in zip(one, two, strict=True))])
    found = read("\n".join([",".join(heads), *(",".join(map(str, r)) for r in rows)]) + "\n")
    assert set(found.table["place"]) == {"core0", "core1"}
    assert totals(found) == {
        e: sum(r[i] + r[3 + i] for r in rows) for i, e in enumerate(("cycles", "instructions", "misses"))
    }
    assert any(above in n and "left out" in n for n in found.notes)


def test_a_column_of_scaled_counts_beside_the_raw_ones_of_a_long_table_is_refused(read):
    rows = "cycles,1000000,2000000,1000000,2000000\ninstructions,3000000,2000000,2000000,3000000\n"
    with pytest.raises(FormatError, match="scaled"):
        read("event,count,time_enabled_ns,time_running_ns,scaled\n" + rows)
    assert totals(read("event,count,time_enabled_ns,time_running_ns,socket\n" + rows))["cycles"] == 1000000


def test_rows_of_a_long_table_that_tell_the_time_are_no_events(read):
    found = read("metric,value,unit\ncycles,1.5,G\ninstructions,2.5,G\nllc-misses,3.4,M\nruntime,0.5,s\n")
    assert set(totals(found)) == {"cycles", "instructions", "llc-misses"}
    assert any("runtime" in n for n in found.notes)
    found = read("event,count\ncycles,1500000\ninstructions,2500000\nduration_time,500000\ntask-clock,500\n")
    assert {"duration_time", "task-clock"} <= set(totals(found))  # perf's own
