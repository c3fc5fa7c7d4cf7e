"""Small rules of the readers, each shown by a dump of a few lines and by what follows from it by hand."""

import bz2
import json
import lzma
import zlib

import numpy as np
import pyarrow as pa
import pytest

import perfkit as pk
from perfkit.errors import FormatError
from perfkit.readers import grid, key_values, nsight, perf_text, scales, summary_rows, toplev
from perfkit.readers.grid import Grid
from perfkit.readers.numbers import Token, _well_grouped, settle
from perfkit.readers.open import _count_lines, _inflate
from perfkit.readers.plain_table import _holds_numbers
from perfkit.readers.report import Report
from perfkit.samples.clocks import between, clock_of
from perfkit.samples.events import modes
from tests.loose import mutable_dataclasses


@pytest.fixture
def write(tmp_path):
    """Write a dump and give its path."""

    def written(text, name="a.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def totals(samples):
    return samples.table.groupby("event", observed=True)["count"].sum().to_dict()


# ------------------------------------------------------------------ perf


@pytest.mark.parametrize("event", ['""', "5", "null"])
def test_a_line_of_json_without_an_event_is_told(write, event):
    lines = [
        f'{{"counter-value" : "{n}", "event" : {e}}}' for n, e in ((30, '"cycles"'), (60, '"instructions"'), (7, event))
    ]
    with pytest.raises(FormatError, match="line 3: expected the name of an event under 'event'"):
        pk.read_samples(write("\n".join(lines) + "\n"))


def test_a_count_whose_event_has_a_note_in_brackets_is_whole(write):
    text = (
        " Performance counter stats for 'x':\n\n      1.234      cycles [core]\n      2.345      instructions [core]\n"
    )
    assert totals(pk.read_samples(write(text), time_event="cycles [core]", work_event="instructions [core]")) == {
        "cycles [core]": 1234, "instructions [core]": 2345,
    }  # fmt: skip


def test_what_makes_no_sense_before_the_first_interval_is_told_and_the_rest_read(write):
    path = write("garbage\n     1.000000000      1,000      cycles\n     1.000000000      2,000      instructions\n")
    with pytest.raises(FormatError, match="line 1: expected"):
        pk.read_samples(path)
    assert totals(pk.read_samples(path, errors="collect")) == {"cycles": 1000, "instructions": 2000}


# ------------------------------------------------------------------ simpleperf, google-benchmark


_SIMPLEPERF = "Performance counter statistics:\n\n#       count  event_name\n  {}  cpu-cycles\n  {}  instructions\n"


def test_outputs_of_simpleperf_are_intervals_one_after_another(write):
    samples = pk.read_samples(write(_SIMPLEPERF.format(3000, 6000) + _SIMPLEPERF.format(1000, 1500)))
    assert samples.intervals()["interval"].tolist() == [0, 1]


def test_a_line_among_the_counts_of_simpleperf_is_told_with_its_number(write):
    with pytest.raises(FormatError, match="line 6: expected a count and an event"):
        pk.read_samples(write(_SIMPLEPERF.format(3000, 6000) + "what is this\n"))


def test_a_benchmark_of_an_unnamed_host(write):
    one = {"name": "b", "iterations": 10, "real_time": 1.0, "time_unit": "ns", "CYCLES": 30.0, "INSTRUCTIONS": 60.0}
    samples = pk.read_samples(write(json.dumps({"context": {"num_cpus": 2}, "benchmarks": [one]}), "b.json"))
    assert totals(samples) == {"CYCLES": 300, "INSTRUCTIONS": 600}


# ------------------------------------------------------------------ tables


def test_a_run_of_two_counts_that_comes_again_is_told(write):
    paths = [write("cycles,instructions\n1000,2000\n", name) for name in ("a.csv", "b.csv")]
    assert any("run b is identical to run a" in note for note in pk.read_samples(paths).notes)


def test_a_third_row_is_a_sum_only_where_two_large_columns_say_so():
    def columns(*each):
        return Grid(("cycles", "instructions", "misses"), tuple(np.array(x) for x in each))

    rows = ([1e6, 2e6, 3e6], [1e6, 5e6, 6e6], [1.0, 2, 3])
    assert summary_rows._third_is_sum(columns(*rows))
    assert not summary_rows._third_is_sum(columns(rows[0], [1.0, 5, 6], rows[2]))


def test_the_names_of_left_out_parameters_are_told(write):
    rows = "".join(f"{rank},{1000 + rank},{2000 + rank}\n" for rank in (3, 1, 2))
    notes = pk.read_samples(write(f"rank,cycles,instructions\n{rows}")).notes
    assert any("columns that name a parameter of their row and count nothing, left out: rank" in n for n in notes)


def test_a_row_that_ends_where_its_clock_begins_has_no_known_length(write):
    samples = pk.read_samples(write("time,cycles,instructions\n0,10,20\n1,11,21\n2.5,12,22\n"))
    np.testing.assert_array_equal(samples.intervals()["seconds"], [np.nan, 1, 1.5])


def test_a_column_holds_numbers_where_most_of_its_cells_do():
    def column(*cells):
        return Grid(("a",), (pa.chunked_array([cells]),))

    assert _holds_numbers(column("1", "2", "x"), 0)
    assert not _holds_numbers(column("1", "x"), 0)


def test_a_clock_may_begin_with_the_same_time_twice():
    assert clock_of("time", np.array([0.0, 0, 1, 2])).stamps
    assert not clock_of("time", np.array([0.0, 2, 1, 2])).stamps


def test_of_statistics_alone_the_total_is_the_run(write):
    samples = pk.read_samples(write("event,max,total\ncycles,600,1000\ninstructions,900,1700\n"))
    assert totals(samples) == {"cycles": 1000, "instructions": 1700}


@pytest.mark.parametrize(
    ("digits", "well"),
    [("1,234", True), ("12,34,567", True), ("1,234,567", True), ("1,23,456,789", False), ("1,2345,678", False)],
)
def test_which_groups_of_digits_a_locale_makes(digits, well):
    assert _well_grouped(digits) is well


@pytest.mark.parametrize("large", [0, 10**9])
def test_the_lines_of_rows(monkeypatch, large):
    monkeypatch.setattr(grid, "_LARGE", large)
    found = grid.read_grid(b"# a comment\ncycles,instructions\n1,2\n3,4\n", Report("a.csv"))
    assert list(found.lines) == [3, 4]


def test_an_event_that_was_given_to_the_tool_twice(write):
    each = "{0},cycles,10\n{0},cycles,11\n{0},instructions,20\n{0},misses,3\n"
    samples = pk.read_samples(write("time,event,count\n" + each.format(1) + each.format(2)))
    assert (samples.n_intervals, totals(samples)["instructions"]) == (2, 40)
    once = "time,event,count\n" + each.format(1) + "2,cycles,10\n2,instructions,20\n2,misses,3\n"
    with pytest.raises(FormatError, match="cycles has several counts at time 1, and no column tells them apart"):
        pk.read_samples(write(once))


@pytest.mark.parametrize(("first", "length"), [(100.0, np.nan), (5.0, 5.0), (1.0, 1.0)])
def test_the_first_row_of_a_clock_that_ran_before_has_no_known_length(write, first, length):
    rows = "".join(f"{first + i},{1000 + i},{2000 + i}\n" for i in range(4))
    samples = pk.read_samples(write(f"time_s,cycles,instructions\n{rows}"))
    np.testing.assert_array_equal(samples.intervals()["seconds"], [length, 1, 1, 1])
    assert any("the clock ran before the first row" in note for note in samples.notes) == np.isnan(length)


@pytest.mark.parametrize(
    ("event", "told"),
    [("cycles", "ku"), ("cycles:u", "u"), ("cycles:k", "k"), ("cycles:uk", "ku"), ("cycles:pp", "ku"),
     ("cpu/cycles/u", "u"), ("cpu_core/cycles:k/", "k")],
)  # fmt: skip
def test_which_modes_an_event_counts(event, told):
    assert modes(event) == told


# ------------------------------------------------------------------ long tables with lengths, runs that sum up others


@pytest.mark.parametrize(
    ("column", "values", "lengths"),
    [
        ("duration_ms", (250, 500), [0.25, 0.5]),
        ("duration_s", (2.5, 0.5), [2.5, 0.5]),
        ("runtime_us", (1000, 900), [1e-3, 9e-4]),
        ("duration", (250, 500), [np.nan, np.nan]),  # of no unit
    ],
)
def test_the_lengths_of_the_rows_of_a_long_table(write, column, values, lengths):
    rows = "".join(
        f"{e},{n + k},{v}\n" for k, v in enumerate(values) for e, n in (("cycles", 1000), ("instructions", 900))
    )
    s = pk.read_samples(write(f"event,count,{column}\n{rows}"))
    np.testing.assert_allclose(s.intervals()["seconds"], lengths)
    assert totals(s) == {"cycles": 2001, "instructions": 1801}


def test_a_column_of_seconds_comes_before_another_length(write):
    rows = "".join(f"{k},{e},{n + k},3,{k + 2}\n" for k in (0, 1) for e, n in (("cycles", 1000), ("instructions", 900)))
    s = pk.read_samples(write(f"interval,event,count,duration_s,seconds\n{rows}"))
    assert s.intervals()["seconds"].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("off", "runs"), [(0, ["a", "b"]), (0.5, ["a", "b", "c"]), (1, ["a", "b", "c"]), (-1, ["a", "b", "c"])]
)
def test_a_run_that_is_the_sum_of_all_others_but_for_one_is_a_run(write, off, runs):
    rows = "".join(
        f"{e},{a},{b},{a + b + off:g}\n"
        for e, a, b in (("cycles", 3000, 2000), ("instructions", 900, 700), ("misses", 30, 40))
    )
    s = pk.read_samples(write(f"event,a,b,c\n{rows}"))
    assert list(dict.fromkeys(s.table["run"])) == runs


@pytest.mark.parametrize("n", [2, 3, 7])
def test_rows_that_share_a_beginning_or_end_before_it_have_no_lengths(n):
    shared, ends = np.full(n, 3.0), 4.0 + np.arange(n)
    assert between(shared, ends) is None, "a program's start"
    assert between(ends, ends - 0.5) is None
    assert between(ends - 0.5, ends).tolist() == [0.5] * n
    assert between(shared, shared + 1).tolist() == [1.0] * n, "rows of one interval"


def test_one_row_has_its_length():
    assert between(np.array([3.0]), np.array([4.5])).tolist() == [1.5]
    assert np.isnan(between(np.array([3.0]), np.array([2.5])))


def test_what_readers_and_samples_return_cannot_be_changed():
    gathering = ("Opened", "PerfOutput", "PerfRows", "Report")  # while a file is read
    assert mutable_dataclasses("perfkit.readers", known=gathering) == []
    assert mutable_dataclasses("perfkit.samples") == []


def test_a_table_of_one_column_of_numbers_beside_its_row_numbers_is_none(tmp_path):
    for text in ("name cycles\n0 a 500\n1 b 600\n2 c 700\n", "cycles\n500\n600\n700\n"):
        path = tmp_path / "dump.txt"
        path.write_text(text)
        with pytest.raises(FormatError, match="not a dump that perfkit recognises"):
            pk.read_samples(path)


@pytest.mark.parametrize(("third", "told"), [(1_001, True), (1_000, False), (999, False)])
def test_a_third_row_tells_a_sum_where_it_holds_thousands_in_two_columns(third, told):
    """Of small counts, the third row is the sum of two by chance."""
    columns = [np.array([1.0, third - 1, third]), np.array([2.0, third - 2, third])]
    assert summary_rows._third_is_sum(Grid(("a", "b"), tuple(columns), kept_lines=[2, 3, 4])) == told


@pytest.mark.parametrize(("rows", "lengths"), [(9, True), (10, False)])
def test_lengths_that_rise_are_lengths_in_fewer_than_ten_intervals(tmp_path, rows, lengths):
    """A column ``seconds`` that rises from row to row, unevenly, is stamps where that cannot be an accident."""
    seconds = np.cumsum(np.arange(1, rows + 1) ** 1.5) / 10
    lines = [
        f"{s:.4f},{e},{k * 1000 + n}"
        for n, s in enumerate(seconds, 1)
        for e, k in (("cycles", n), ("instructions", 21 - n))
    ]
    path = tmp_path / "dump.csv"
    path.write_text("\n".join(["seconds,event,count", *lines]) + "\n")
    found = pk.read_samples(path).intervals()["seconds"].to_numpy()
    assert found == pytest.approx(
        np.round(seconds, 4) if lengths else np.diff(np.round(seconds, 4), prepend=0.0), abs=1e-9
    )


# ------------------------------------------------------------------ what mutations of the rules showed


@pytest.mark.parametrize(("rows", "told"), [(1, False), (2, True), (3, True)])
def test_from_two_rows_on_a_last_line_without_an_end_is_told(write, rows, told):
    text = "cycles,instructions\n" + "\n".join(["3000,6000"] * rows)
    notes = pk.read_samples(write(text)).notes
    assert any("the last line has no end" in n for n in notes) is told


def test_a_part_of_the_machine_whose_event_was_not_counted(write):
    lines = ["S0,1,3000,,cycles,9,100.00,,", "S0,1,6000,,instructions,9,100.00,,",
             "S0,1,<not counted>,,branches,0,0.00,,"]  # fmt: skip
    table = pk.read_samples(write("\n".join(lines) + "\n")).table
    assert table["place"].unique().tolist() == ["S0"]
    assert np.isnan(table.loc[table["event"] == "branches", "count"]).all()


@pytest.mark.parametrize(
    ("units", "factor"),
    [(("ns", "nsecond"), 1.0), (("us", "usecond"), 1e3), (("ms", "msecond"), 1e6), (("s", "second"), 1e9),
     (("byte", ""), 1.0), (("Kbyte", "Kinst"), 1e3), (("Mbyte",), 1e6), (("Gbyte",), 1e9), (("Tbyte",), 1e12)],
)  # fmt: skip
def test_the_units_of_nsight(units, factor):
    assert [nsight._factor(u) for u in units] == [factor] * len(units)


def test_a_data_set_of_other_axes_than_a_files(write):
    path = write("cycles,instructions,ticks\n3000,6000,5\n3001,6001,7\n", "a.csv")
    assert pk.open_samples(path, time_event="ticks").time_event == "ticks"


def test_a_column_that_rises_in_few_rows_of_each_of_two_runs_is_nothing_to_tell(write):
    """Five steps of one run and five of another: of ten of one run it would be told."""
    rows = [f"{run},{i},{3000 + (i * 7) % 5},{6000 + (i * 3) % 4},{10 * i}" for run in "ab" for i in range(1, 7)]
    one = [f"a,{i},{3000 + (i * 7) % 5},{6000 + (i * 3) % 4},{10 * i}" for i in range(1, 12)]
    told = [
        any(
            "only ever rises" in n
            for n in pk.read_samples(write("\n".join(["run,at,cycles,instructions,faults", *x]) + "\n")).notes
        )
        for x in (rows, one)
    ]
    assert told == [False, True]


def _left_by_subtotals(*rows):
    """Return the rows of words and counts that subtotals leave; a row without a word may be one."""
    columns = [np.array(c, dtype=float) for c in zip(*(r[1:] for r in rows), strict=True)]
    words = [r[0] or None for r in rows]
    names = ("group", "cycles", "instructions")
    return summary_rows._sums_of_groups(Grid(names, (pa.chunked_array([words]), *columns)), [words])


def test_subtotals_of_two_rows_each():
    a, b, c, d = (3000, 6100), (4001, 7003), (5002, 9100), (6003, 8801)
    both = lambda x, y: (x[0] + y[0], x[1] + y[1])  # noqa: E731
    assert _left_by_subtotals(("a", *a), ("b", *b), ("", *both(a, b)), ("c", *c), ("d", *d), ("", *both(c, d))) == {
        2,
        5,
    }
    assert _left_by_subtotals(("a", *a), ("", *a), ("b", *b), ("", *b)) == set()  # nothing is summed
    small = [("a", 3, 6), ("b", 4, 7), ("", 7, 13)]
    assert _left_by_subtotals(*small) == set()  # by accident


def test_of_two_lengths_that_of_seconds_is_the_rows(write):
    samples = pk.read_samples(write("seconds,duration_ms,cycles,instructions\n0.5,7,3000,6000\n0.2,9,3001,5000\n"))
    assert samples.intervals()["seconds"].tolist() == [0.5, 0.2]
    assert any("duration_ms (a clock)" in n for n in samples.notes)


def test_lines_of_cachegrind_that_make_no_sense_add_nothing(write):
    text = "events: Ir I1mr ILmr\nfl=a.c\nfn=main\n1 10 1 1\n2 20 x 0\n3 30 1 1 1\n4 40 0 1\nsummary: 50 1 2\n"
    samples = pk.read_samples(write(text, "cachegrind.out"), errors="collect")
    assert totals(samples)["Ir"] == 50
    assert samples.problems["line"].tolist() == [5, 6]


def test_a_line_of_one_sign_is_no_thread():
    assert not perf_text._by_thread([" x", "      3000      cycles", "  #  1.0 GHz"])
    assert perf_text._by_thread([" x", "   app-17      3000      cycles"])


def test_the_number_of_an_interval_is_no_time(write):
    table = pk.read_samples(write("cycles,interval,instructions\n3000,0,6000\n3001,1,5999\n")).table
    assert table["interval"].tolist() == [0, 1, 0, 1]
    assert table[["at", "seconds"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("values", "even"),
    [
        ([9, 1, 2, 3, 9], True),
        ([9, 5, 10, 15, 0], True),
        ([9, 1, 2, 4, 9], False),
        ([9, 3, 2, 1, 9], False),
        ([9, 2, 2, 2, 9], False),
        ([1, 2, 3, 4], False),  # one step
    ],
)
def test_which_columns_number_the_rows_between_the_first_and_the_last(values, even):
    assert summary_rows._even(np.array(values, dtype=float)) is even


@pytest.mark.parametrize(("value", "mean"), [(20.0, True), (20.5, True), (20.6, False), (19.5, True), (19.4, False)])
def test_a_mean_may_be_rounded(value, mean):
    assert summary_rows._is_mean(np.array([10.0, value, 30.0]), 1) is mean


@pytest.mark.parametrize(("second", "numbers"), [(0, True), (4, True), (7, False)])
def test_a_column_that_numbers_the_rows_of_each_run(write, second, numbers):
    """In both runs from one beginning, or on and on; a run that begins elsewhere has counts that rise by one."""
    rows = [
        f"{run},{start + i},{3000 + i * i},{6000 - i * i}" for run, start in (("a", 0), ("b", second)) for i in range(4)
    ]
    samples = pk.read_samples(write("\n".join(["run,x,cycles,instructions", *rows]) + "\n"))
    assert any("number the rows, left out: x" in n for n in samples.notes) is numbers
    assert ("x" in set(samples.table["event"])) is not numbers


@pytest.mark.parametrize("sign", ["~", "|", "^", "\t", ";"])
def test_the_delimiters_that_users_of_vtune_choose(write, sign):
    event = "Hardware Event Count:"
    rows = [("Function", f"{event}CPU_CLK_UNHALTED.THREAD", f"{event}INST_RETIRED.ANY"), ("main", "3000", "6000")]
    samples = pk.read_samples(write("\n".join(map(sign.join, [*rows, ("solve", "5000", "2500")])) + "\n"))
    assert totals(samples) == {"CPU_CLK_UNHALTED.THREAD": 8000, "INST_RETIRED.ANY": 8500}
    assert samples.intervals()["place"].tolist() == ["main", "solve"]


@pytest.mark.parametrize(
    ("others", "grouping", "decimal"),
    [
        (["1.5"], ",", "."),  # the decimal sign is known, so that the other one groups
        (["12.345.678"], ".", ","),  # what groups is known, so that the other one is decimal
    ],
)
def test_a_sign_before_three_digits_is_what_the_other_numbers_leave(others, grouping, decimal):
    style = settle([Token("1,234", 1), *(Token(text, 2) for text in others)], Report("f"))
    assert (style.grouping, style.decimal) == (grouping, decimal)


def test_each_output_of_perf_has_the_seconds_that_it_tells(read):
    text = (
        "\n Performance counter stats for './a':\n\n     {}      cycles\n     {}      instructions\n\n"
        "       {} seconds time elapsed\n\n"
    )
    samples = read(text.format(3000, 6000, "1.500000000") + text.format(4000, 9000, "0.250000000"))
    assert samples.intervals()[["time", "work", "seconds"]].values.tolist() == [[3000, 6000, 1.5], [4000, 9000, 0.25]]


@pytest.mark.parametrize("name", ["seconds", "elapsed", "Duration"])
def test_times_with_a_unit_in_each_cell(read, name):
    samples = read(f"{name},cycles,instructions\n500ms,3000,6000\n1m 30s,100,300\n1.5s,4000,8000\n")
    assert samples.intervals()["seconds"].tolist() == [0.5, 90.0, 1.5]


@pytest.mark.parametrize(("sign", "left"), [("", 3), (".", 3), ("'", 3), ("", 4)])
def test_a_row_of_sums_is_left_out_however_its_numbers_are_written(read, sign, left):
    """The last row holds the sums of the three others, or one of them and one more."""
    rows = [(1234567, 2000001), (2345678, 3000002), (7000001, 5000001), (10580246, 10000004 + (left - 3))]
    text = "\n".join(";".join(f"{n:,}".replace(",", sign) for n in row) for row in rows)
    samples = read(f"cycles;instructions\n{text}\n")
    assert samples.intervals()["time"].tolist() == [row[0] for row in rows[:left]]


def test_what_stands_behind_a_table_between_rules_is_no_row(read):
    rule = "======  ============  ======"
    rows = ["cycles  instructions  misses", rule, "  3000          6000      12", "  4000          9000       7"]
    samples = read("\n".join([rule, *rows, rule, "", "Two     runs of them  here", ""]))
    assert samples.intervals()[["time", "work"]].values.tolist() == [[3000, 6000], [4000, 9000]]
    assert any("of text around the table" in note for note in samples.notes)


@pytest.mark.parametrize(("others", "known"), [(0, True), (1, True), (2, False)])
def test_three_in_four_lines_are_pairs_of_names_and_values(others, known):
    record, text = "cycles=3000 instructions=6000 misses=12", "the program says nothing of use"
    assert key_values.recognise("\n".join([record] * (4 - others) + [text] * others) + "\n") is known


@pytest.mark.parametrize(
    ("cycles", "steps", "asked"),
    [
        ((3000, 4000, 5500, 9000), (3000, 1000, 1500, 3500), True),
        ((3000, 4000, 5500, 9000), (3000, 1000, 1500, 3501), False),  # it rises, by other steps
        ((3000, 4000, 4000, 9000), (3000, 1000, 0, 5000), False),  # its steps, but a counter goes on
    ],
)
def test_a_column_beside_its_own_steps_may_be_a_total(read, cycles, steps, asked):
    rows = [f"{i}.5,{c},{d},{7000 - i * i}" for i, (c, d) in enumerate(zip(cycles, steps, strict=True))]
    text = "\n".join(["time,cycles,cycles_delta,instructions", *rows]) + "\n"
    if asked:
        with pytest.raises(FormatError, match="cycles_delta holds the steps of cycles from row to row"):
            read(text)
    else:
        assert read(text).intervals()["time"].tolist() == list(cycles)


@pytest.mark.parametrize(
    ("data", "lines", "blank"),
    [
        (b"a", 1, False),
        (b"a\n", 1, False),
        (b"a\nb", 2, False),
        (b"a\n\nb\n", 3, True),
        (b"a\n b\n", 2, True),
        (b"a\n\r\n", 2, True),
        (b"\na\n", 2, True),
        (b" a\n", 1, True),
    ],
)
def test_lines_are_counted_and_one_that_may_be_blank_is_seen(data, lines, blank):
    assert _count_lines(data) == (lines, blank)


@pytest.mark.parametrize(
    ("share", "running"),
    [("0.5", 0.005), ("1", 0.01), ("100.0", 1.0), ("100.1", None), ("0", None), ("", None), ("-1", None)],
)
def test_the_share_of_time_in_which_toplev_counted(share, running):
    lines = ["Timestamp,CPUs,Area,Value,Unit,Multiplex", f"1.5,C0,Frontend_Bound,10.0,% Slots,{share}"]
    (row,) = toplev._rows(lines, Report("f"))
    assert row["running"] == running or (running is None and np.isnan(row["running"]))
    assert (row["at"], row["place"], row["value"], row["unit"]) == (1.5, "C0", 10.0, "% Slots")


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("k", 1e3), ("K", 1e3), ("M", 1e6), ("m", 1), ("b", 1), ("B", 1e9), ("g", 1), ("MIO", 1e6), ("Thousands", 1e3),
        ("ms", 1), ("Joules", 1), ("10^6", 1e6), ("×10⁶", 1e6), ("10⁻³", 1), ("10^12", 1e12),
    ],
)  # fmt: skip
def test_what_a_word_scales_counts_by(unit, factor):
    assert scales.factor_of(unit) == factor


def test_files_put_one_after_another_below_a_row_of_units_are_runs(read):
    header = "cycles,instructions,misses"
    samples = read(f"{header}\ncount,count,count\n3000,6000,1\n4000,9000,2\n{header}\n5000,100,3\n6000,200,4\n")
    assert samples.intervals().groupby("run", sort=False)["time"].apply(list).tolist() == [[3000, 4000], [5000, 6000]]


@pytest.mark.parametrize("kind", [zlib, bz2, lzma])
def test_no_more_is_inflated_than_memory_can_hold(kind):
    new = {zlib: zlib.decompressobj, bz2: bz2.BZ2Decompressor, lzma: lzma.LZMADecompressor}[kind]
    assert _inflate(new(), kind.compress(b"x" * 10), 10, "a.gz") == b"x" * 10
    for more in (11, 10_000):
        with pytest.raises(FormatError, match=r"a\.gz: compressed data of more than"):
            _inflate(new(), kind.compress(b"x" * more), 10, "a.gz")
