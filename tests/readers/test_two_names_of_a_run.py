"""Tables in which two columns name a run, columns of how long an event was counted, and thousands in quotes."""

import itertools

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import FormatError, PerfkitError, SettingError

COUNTS = [(1000, 2000, 31), (1100, 2100, 32), (5000, 2000, 311), (5100, 2150, 322)]


def table(head: str, keys: list[str]) -> str:
    rows = [f"{key},{','.join(map(str, counts))}" for key, counts in zip(keys, COUNTS, strict=True)]
    return "\n".join([f"{head},cycles,instructions,cache-misses", *rows]) + "\n"


def cycles(samples: pk.Samples) -> dict[str, float]:
    """Return the sum of cycles of each run."""
    return samples.intervals().groupby("run", observed=True)["time"].sum().to_dict()


# ------------------------------------------------------------------ runs


@pytest.mark.parametrize("name", ["program", "Application", "app", "benchmark", "bench", "workload"])
@pytest.mark.parametrize("words", [("a", "b"), ("1", "2")])
def test_a_program_beside_a_run_is_part_of_its_name(read, name, words):
    """Runs 1 of two programs were one run of both: CPI 1.5, where one has 0.5 and the other 2.5."""
    found = read(table(f"{name},run", [f"{w},{n}" for w in words for n in (1, 2)]))
    a, b = words
    assert cycles(found) == {f"{a}, 1": 1000, f"{a}, 2": 1100, f"{b}, 1": 5000, f"{b}, 2": 5100}
    assert any(f"columns {name} and run name a run together: 4 runs" in n for n in found.notes)


def test_three_columns_and_rows_of_several_intervals(read):
    found = read(table("run,app,workload", ["1,a,x", "1,a,x", "1,b,x", "1,b,y"]))
    assert cycles(found) == {"a, x, 1": 2100, "b, x, 1": 5000, "b, y, 1": 5100}


def test_programs_and_runs_of_a_long_table(read):
    rows = [
        f"{program},{run},{event},{counts[i]}"
        for (program, run), counts in zip(itertools.product("ab", (1, 2)), COUNTS, strict=True)
        for i, event in enumerate(("cycles", "instructions", "cache-misses"))
    ]
    found = read("program,run,event,count\n" + "\n".join(rows) + "\n")
    assert cycles(found) == {"a, 1": 1000, "a, 2": 1100, "b, 1": 5000, "b, 2": 5100}


def test_rows_called_mean_are_no_runs_where_two_columns_name_them(read):
    means = "a,mean,1050,2050,31.5\nb,mean,5050,2075,316.5\n"
    found = read(table("program,run", ["a,1", "a,2", "b,1", "b,2"]) + means)
    assert set(cycles(found)) == {"a, 1", "a, 2", "b, 1", "b, 2"}
    assert any("2 rows with sums of the others, left out (mean)" in n for n in found.notes)


def test_a_merged_cell_of_a_program_repeats_the_one_above(read):
    found = read(table("program,run", ["a,1", ",2", "b,1", ",2"]))
    assert set(cycles(found)) == {"a, 1", "a, 2", "b, 1", "b, 2"}


def test_each_program_has_a_clock_of_its_own(read):
    rows = [
        f"{p},{r},{t},{c}"
        for (p, r), c in zip(itertools.product("ab", (1, 2)), (1, 2, 5, 6), strict=True)
        for t in (1, 2)
    ]
    lines = [f"{row}000,{2000 + i * i}" for i, row in enumerate(rows)]
    found = read("program,run,time_s,cycles,instructions\n" + "\n".join(lines) + "\n")
    assert found.intervals()["seconds"].tolist() == [1.0] * 8
    assert len(cycles(found)) == 4


@pytest.mark.parametrize(
    ("head", "keys", "runs"),
    [
        # A run has one program: its name is enough.
        ("run,program", ["1,a", "2,a", "3,b", "4,b"], {"1": 1000, "2": 1100, "3": 5000, "4": 5100}),
        ("program,run", ["a,base", "a,base", "a,new", "a,new"], {"base": 2100, "new": 10100}),
        ("program", ["a", "a", "b", "b"], {"a": 2100, "b": 10100}),
        ("run", ["x", "x", "y", "y"], {"x": 2100, "y": 10100}),
        # Other columns of words are no names of runs.
        ("run,compiler", ["1,gcc", "2,clang", "1,icx", "2,gcc"], {"1": 6000, "2": 6200}),
        # Numbers that never come again count something, or number the rows.
        ("run,workload", ["1,17", "1,12", "2,19", "2,11"], {"1": 2100, "2": 10100}),
    ],
)
def test_names_of_runs_that_are_enough(read, head, keys, runs):
    found = read(table(head, keys))
    assert cycles(found) == runs
    assert not any("together" in n for n in found.notes)


def test_words_that_change_while_the_clock_goes_on_name_no_runs(read):
    keys = ["1,0.1,firefox", "1,0.2,chrome", "1,0.3,firefox", "1,0.4,chrome"]
    found = read(table("run,time_s,app", keys))
    assert cycles(found) == {"1": 12200}
    assert found.intervals()["seconds"].tolist() == pytest.approx([0.1] * 4)
    assert any("hold text, left out: app" in n for n in found.notes)


@pytest.mark.parametrize(
    "times",
    [("0.1", "0.2", "0.3", "0.4"), [f"2026-01-05T10:00:0{i}" for i in range(4)]],
)
def test_a_clock_that_goes_on_from_one_program_to_the_next_is_refused(read, times):
    keys = [f"1,{t},{p}" for t, p in zip(times, ("a", "a", "b", "b"), strict=True)]
    with pytest.raises(FormatError, match=r"clock \(time\) goes on from one app to the next.*join app and run"):
        read(table("run,time,app", keys))


def test_how_long_each_run_took_is_no_clock(read):
    keys = [f"{p},{r},{t}" for (p, r), t in zip([("a", 1), ("b", 1), ("a", 2), ("b", 2)], (5, 7, 6, 8), strict=True)]
    found = read(table("program,run,time_s", keys))
    assert found.intervals().set_index("run")["seconds"].to_dict() == {"a, 1": 5, "b, 1": 7, "a, 2": 6, "b, 2": 8}


# ------------------------------------------------------------------ how long events were counted

LONG = "event,count,{}\ncycles,1000,{}\ninstructions,2000,{}\ncache-misses,33,{}\n"
TURNED = "name,before,after,{}\ncycles,1000,1010,{}\ninstructions,2000,2020,{}\ncache-misses,33,35,{}\n"


@pytest.mark.parametrize("form", [LONG, TURNED])
@pytest.mark.parametrize(
    ("head", "cells", "share", "said"),
    [
        ("enabled,running", ("90,90", "90,45", "90,9"), 0.1, "column running is a time; its share of enabled is read"),
        ("time_enabled,running", ("900,900", "900,450", "900,90"), 0.1, "its share of time_enabled is read"),
        ("enabled,running", ("900,1.0", "900,0.5", "900,0.1"), 0.1, "column enabled is no whole of running, left out"),
        ("enabled,running", ("90,120", "90,60", "90,12"), None, "column enabled is no whole of running, left out"),
    ],
)
def test_a_column_that_is_read_is_not_said_to_be_left_out(read, form, head, cells, share, said):
    """The notes said that enabled and running are left out, and then that running's share of enabled is read."""
    found = read(form.format(head, *cells))
    misses = found.table.loc[found.table["event"] == "cache-misses", "running"]
    assert misses.isna().all() if share is None else misses.tolist() == pytest.approx([share] * len(misses))
    assert any(said in n for n in found.notes)
    assert not any("no counts, left out" in n or "nothing of counts, left out" in n for n in found.notes)


@pytest.mark.parametrize("form", [LONG, TURNED])
def test_a_column_enabled_alone_is_left_out(read, form):
    found = read(form.format("enabled", 90, 90, 90))
    assert any(n.endswith("left out: enabled") for n in found.notes)


# ------------------------------------------------------------------ thousands in quotes


def test_thousands_in_quotes_of_a_table_between_commas(read):
    """Refused, because 1,234 alone can mean 1.234."""
    found = read('run,cycles,instructions,cache-misses\na,"1,234","5,678",9\nb,"2,345","6,789",12\n')
    assert cycles(found) == {"a": 1234, "b": 2345}
    assert found.table.loc[found.table["event"] == "cache-misses", "count"].tolist() == [9, 12]
    assert any("',' groups digits" in n for n in found.notes)


@given(
    rows=st.lists(st.tuples(*[st.integers(1000, 10**10)] * 2, st.integers(1, 10**7)), min_size=3, max_size=8),
    quiet=st.integers(1, 999),
)
@settings(max_examples=40, deadline=None)
def test_counts_with_grouped_thousands_are_those_without(tmp_path_factory, rows, quiet):
    """Also what other rules make of them: running totals, a row that sums up others, a counter that stopped."""
    path = tmp_path_factory.mktemp("grouped") / "t.csv"
    found = []
    for form in ('"{:,}"', "{}"):
        cells = [[f"r{i}", *map(form.format, row)] for i, row in enumerate([*rows, (4321, 8765, quiet)])]
        path.write_text("run,cycles,instructions,cache-misses\n" + "".join(",".join(row) + "\n" for row in cells))
        try:
            table = pk.read_samples(path).table.astype({"event": str, "run": str, "place": str})
            found.append(table.sort_values(["event", "run", "interval"], ignore_index=True))
        except PerfkitError as refused:
            found.append(type(refused))
    if isinstance(found[1], type):
        assert found[0] is found[1]
    else:
        pd.testing.assert_frame_equal(*found)


@pytest.mark.parametrize(
    "text",
    [
        'cycles,instructions,misses\n"1,234","5,678",9\n"2,345","6,789",12000\n',  # ungrouped thousands
        'cycles,instructions,misses\n"1,234","5,678",9\n2345,"6,789",12\n',
        'cycles,instructions,misses\n"1,234","5,678","1,009"\n"2,345","6,789","1,012"\n',  # no count below 1000
        'cycles (M),instructions (M),misses\n"1,234","5,678",9\n"2,345","6,789",12\n',  # scaled: these have decimals
        "cycles;instructions;misses\n1,234;5,678;9\n2,345;6,789;12\n",  # as decimal commas are parted
        'cycles,instructions,misses\n"1,234",5678,9\n"2,345",6789,12\n',
        'cycles,instructions,misses\n"1,234","5,678",9\n',  # too few to tell
    ],
)
def test_commas_that_may_be_decimal_are_refused(read, text):
    with pytest.raises(FormatError, match="can mean"):
        read(text)


def test_decimal_commas_in_quotes_stay_decimal(read):
    rows = 'a,"0,234","12,34","56,7",9\nb,"0,345","23,45","67,8",12\n'
    with pytest.raises(FormatError, match="fractions below 1000"):
        read("run,time_s,cycles,instructions,misses\n" + rows)
    found = read('run,time_s,cycles,instructions,misses\na,"0,234",1234,5678,9\nb,"0,345",2345,6789,12\n')
    assert found.intervals()["seconds"].tolist() == [0.234, 0.345]


# ------------------------------------------------------------------ tools whose files are refused by name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("__rec=node,id=12,attr=10,data=64,parent=3\n__rec=ctx,ref=14,attr=22=44,data=1000=2000\n", "cali-query -j"),
        (
            (
                '{\n"data": [\n[1000,2000,0]\n],\n"columns": ["papi.PAPI_TOT_CYC","papi.PAPI_TOT_INS","path"],\n'
                '"column_metadata": [{"is_value":true}],\n"nodes": [{"label":"main"}]\n}\n'
            ),
            "cali-query -j",
        ),
        (
            (
                "Path       papi.PAPI_TOT_CYC papi.PAPI_TOT_INS Time (E)\nmain  10000   20000 0.000321\n"
                "  solve  90000  18000 0.001321\n"
            ),
            "cali-query -j",
        ),
        (
            (
                "Line #, CPU, Process, Thread ID, Cycles, Instructions, Count, Weight (in view) (ms), TimeStamp (s)\n"
                "1, 0, app.exe (1234), 55, 1000000, 2000000, 3, 1.234, 0.123456\n"
            ),
            "Windows Performance Analyzer",
        ),
    ],
)
def test_files_of_caliper_and_of_windows_are_refused_with_what_helps(read, text, told):
    with pytest.raises(FormatError, match=told):
        read(text)


def test_records_of_caliper_are_read_by_the_names_that_are_advised(read):
    record = '{{"function":"{}","papi.PAPI_TOT_CYC":{},"papi.PAPI_TOT_INS":{},"papi.PAPI_L2_TCM":{}}}'
    text = "[\n" + ",\n".join([record.format("main", 1000, 2000, 5), record.format("solve", 9000, 2100, 7)]) + "\n]\n"
    found = read(text, time_event="papi.PAPI_TOT_CYC", work_event="papi.PAPI_TOT_INS")
    assert found.intervals()["time"].tolist() == [1000, 9000]


def test_a_weight_of_other_tables_does_not_make_them_windows(read):
    found = read("run,weight,cycles,instructions\na,3,1000,2000\nb,4,1100,2300\n")
    assert cycles(found) == {"a": 1000, "b": 1100}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "New Process,New Thread Id,Count,InstructionRetired Delta Sum,TotalCycles Delta Sum\na,5,3,1000,2000\n",
            r"TotalCycles Delta Sum may be it\. Name one: time_event",
        ),
        (
            '[{"f":"a","papi.PAPI_TOT_CYC":1,"papi.PAPI_TOT_INS":2},{"f":"b","papi.PAPI_TOT_CYC":3}]\n',
            "TOT_CYC may be it",
        ),
        ("run,cycles,work_instructions,misses\na,1000,2000,3\nb,1000,2100,4\n", "work_instructions may be it"),
        ("run,l2_miss,stall_cycles_idle,loads\na,1000,2000,3\nb,1000,2100,4\n", r"loads\. Name one"),
    ],
)
def test_an_error_names_the_events_that_may_measure_time_or_work(read, text, told):
    with pytest.raises(SettingError, match=told):
        read(text)
