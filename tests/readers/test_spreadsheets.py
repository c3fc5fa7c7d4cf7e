"""Tables as people save them from spreadsheets and scripts: sums, statistics, trees, orders and indexes of rows."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import FormatError
from tests.readers.test_traps import counts


@pytest.fixture
def read(tmp_path):
    """Write a table under a name that its run has, and read it."""

    def of(text, **asked):
        (tmp_path / "a.csv").write_text(text)
        return pk.read_samples(tmp_path / "a.csv", **asked)

    return of


def noted(samples, words):
    return any(words in n for n in samples.notes)


# ------------------------------------------------------------------ rows that sum up others

THREE = [(1_234_567, 2_345_678, 3_456), (1_334_567, 2_445_678, 4_456), (1_434_567, 2_545_678, 5_456)]
SUM = (4_003_701, 7_337_034, 13_368)


def german(*cells):
    return ";".join(f"{c:,}".replace(",", ".") if isinstance(c, int) else c for c in cells) + "\n"


def quoted(*cells):
    return ",".join(f'"{c:,}"' if isinstance(c, int) else c for c in cells) + "\n"


@pytest.mark.parametrize("form", [german, quoted])
@pytest.mark.parametrize("word", ["Summe", "", "all", "Alle Läufe"])
def test_a_sum_of_grouped_numbers_is_no_run(read, form, word):
    rows = "".join(form(name, *row) for name, row in zip("abc", THREE, strict=True))
    samples = read(form("app", "cycles", "instructions", "LLC-misses") + rows + form(word, *SUM))
    assert counts(samples, "cycles") == [row[0] for row in THREE]
    assert samples.accounting["left_out"].sum() == 1


@pytest.mark.parametrize("form", [german, quoted])
def test_a_row_of_grouped_numbers_that_is_no_sum_is_a_run(read, form):
    rows = "".join(form(name, *row) for name, row in zip("abc", THREE, strict=True))
    samples = read(form("app", "cycles", "instructions", "LLC-misses") + rows + form("all", *SUM[:2], 13_369))
    assert samples.n_intervals == 4


def test_a_sum_below_times_with_a_decimal_comma_is_no_row(read):
    rows = "".join(german(f"{i / 2:.1f}".replace(".", ","), *row) for i, row in enumerate(THREE, 1))
    samples = read(german("Zeit [s]", "Zyklen", "Befehle", "LLC-misses") + rows + german("Summe", *SUM))
    assert samples.n_intervals == 3
    np.testing.assert_allclose(samples.intervals()["seconds"], 0.5)


def test_subtotals_without_a_name_are_no_runs(read):
    table = "suite,bench,cycles,instructions\nint,gcc,1000,2000\nint,mcf,2000,2100\nint,,3000,4100\n"
    table += "fp,lbm,3000,4000\nfp,nab,4000,4100\nfp,,7000,8100\n"
    assert counts(read(table), "cycles") == [1000, 2000, 3000, 4000]
    assert counts(read(table + ",,10000,12200\n"), "cycles") == [1000, 2000, 3000, 4000]  # and the grand total


def test_rows_without_a_name_that_are_no_sums_are_read(read):
    table = "suite,bench,cycles,instructions\nint,gcc,1000,2000\nint,mcf,2000,2100\nint,,3001,4100\n"
    assert counts(read(table), "cycles") == [1000, 2000, 3001]


@pytest.mark.parametrize("column", ["statistic", "index", ""])
@pytest.mark.parametrize("words", [["mean", "std", "min", "max"], ["count", "mean", "std", "min", "25%", "50%", "max"]])
def test_a_table_of_statistics_is_refused(read, column, words):
    rows = "".join(f"{word},{2000 + 7 * i},{2500 - 3 * i}\n" for i, word in enumerate(words))
    with pytest.raises(FormatError, match=r"its rows are statistics \(\w+, \w+, "):
        read(f"{column},cycles,instructions\n{rows}")


@pytest.mark.parametrize("words", [["max", "min", "sum", "all"], ["mean", "median"], ["mean", "std", "gcc"]])
def test_programs_and_means_of_several_are_no_table_of_statistics(read, words):
    rows = "".join(f"{word},{2000 + 7 * i * i},{2500 - 3 * i}\n" for i, word in enumerate(words))
    assert read(f"app,cycles,instructions\n{rows}").n_intervals >= 1


def test_two_numbers_of_one_event_and_their_share_are_no_runs(read):
    rows = "".join(f"{e},{n},{2 * n},50\n" for e, n in (("cycles", 1000), ("instructions", 3000), ("branches", 17)))
    with pytest.raises(FormatError, match="raw, scaled tell several numbers of one event"):
        read("event,raw,scaled,pct\n" + rows)


# ------------------------------------------------------------------ call trees


TREE = [("main", 1000, 2000), ("  solve", 900, 1800), ("    dot", 800, 1700), ("  init", 90, 180)]


def table(rows, column="function"):
    return f"{column},cycles,instructions\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)


@pytest.mark.parametrize("column", ["function", "Symbol Name"])
def test_an_inclusive_tree_is_refused(read, column):
    with pytest.raises(FormatError, match=f"a tree by the blanks before the words of column {column}"):
        read(table(TREE, column))


def test_exclusive_counts_of_a_tree_are_read(read):
    exclusive = [("main", 10, 20), ("  solve", 90, 180), ("    dot", 800, 1700), ("  init", 90, 180)]
    assert read(table(exclusive)).n_intervals == 4
    assert read(table([(a.strip(), b, c) for a, b, c in TREE])).n_intervals == 4
    assert read(table([(f" {a.strip()}", b, c) for a, b, c in TREE])).n_intervals == 4


# ------------------------------------------------------------------ the order of rows


ROWS = [(1000, 1900), (1900, 2700), (2400, 2300), (1600, 1700), (1300, 1800), (2800, 3700)]
SHUFFLED = [1, 4, 2, 0, 5, 3]


@pytest.mark.parametrize("clock", ["t_s", "when"])
def test_rows_sorted_by_something_else_are_put_in_the_order_of_their_clock(read, clock):
    stamps = [f"{i + 1}" if clock == "t_s" else f"2026-11-23 10:00:0{i}" for i in range(6)]
    rows = "".join(f"{stamps[i]},{ROWS[i][0]},{ROWS[i][1]},{i * 7 % 5}\n" for i in SHUFFLED)
    samples = read(f"{clock},cycles,instructions,misses\n{rows}")
    assert samples.runs.index.tolist() == ["a"]
    assert counts(samples, "cycles") == [row[0] for row in ROWS]
    assert set(samples.intervals()["seconds"].dropna()) == {1.0}
    assert noted(samples, f"rows are not in the order of column {clock}; put in its order")


@pytest.mark.parametrize("days", [[0, 1, 2, 0, 1, 2], [3, 4, 5, 0, 1, 2]])
def test_runs_one_after_another_stay_runs(read, days):
    rows = "".join(f"2026-11-23 10:00:0{d},{a},{b},{a % 7}\n" for d, (a, b) in zip(days, ROWS, strict=True))
    samples = read(f"when,cycles,instructions,misses\n{rows}")
    assert len(samples.runs) == 2
    assert counts(samples, "cycles") == [row[0] for row in ROWS]


def test_lengths_that_happen_to_be_even_once_sorted_stay_lengths(read):
    lengths = [2, 5, 3, 1, 6, 4]
    rows = "".join(f"{s},{1000 * s + s * s},{3000 * s - s},{s % 3}\n" for s in lengths)
    samples = read(f"time_s,cycles,instructions,misses\n{rows}")
    assert samples.intervals()["seconds"].tolist() == lengths


def test_few_rows_with_dates_that_all_rise_are_told(read):
    rows = "".join(f"2026-11-23 10:00:0{i},{1000 * i},{3000 * i + i * i},{7 * i}\n" for i in range(1, 6))
    assert noted(read(f"when,cycles,instructions,misses\n{rows}"), "caution: every count rises in each of the 5 rows")


def test_a_column_of_dates_orders_a_long_table_under_any_name(read):
    form = "{i},2026-11-23T09:00:00Z,2026-11-23T10:00:0{i}Z,{event},{value}\n"
    rows = "".join(
        form.format(i=i, event=e, value=n * (i * 3 % 5 + 1))
        for e, n in (("cycles", 1000), ("instructions", 3000))
        for i in range(5)
    )
    samples = read("table,_start,_time,_field,_value\n" + rows)
    assert samples.n_intervals == 5
    assert set(samples.intervals()["seconds"].dropna()) == {1.0}
    assert noted(samples, "column _time holds the date of each row")


# ------------------------------------------------------------------ indexes, and tables side by side


def test_a_first_column_of_words_without_a_name_names_the_runs(read):
    samples = read(",cycles,instructions\nbfs,1000,2000\nlu,1500,2100\n")
    assert samples.runs.index.tolist() == ["bfs", "lu"]


def test_a_first_column_of_dates_without_a_name_is_the_clock(read):
    rows = "".join(f"2026-11-23 10:00:0{i},{a},{b}\n" for i, (a, b) in enumerate(ROWS))
    samples = read(f",cycles,instructions\n{rows}")
    assert samples.intervals()["seconds"].dropna().tolist() == [1.0] * 5
    assert noted(samples, "column 1 (the date of each row's end)")


@pytest.mark.parametrize("rows", ["0.5,1000,2000\n1.5,1500,2100\n", "a,1000,2000\n7,1500,2100\n"])
def test_other_columns_without_a_name_are_refused(read, rows):
    with pytest.raises(FormatError, match="column 1 has no name"):
        read(",cycles,instructions\n" + rows)


@pytest.mark.parametrize(
    "header",
    ["cycles,instructions,misses,,cycles,instructions,misses", "cycles,instructions,m,,cycles.1,instructions.1,m.1"],
)
def test_two_tables_side_by_side_are_refused(read, header):
    with pytest.raises(FormatError, match="cycles and instructions are there twice"):
        read(f"{header}\n" + "".join(f"{a},{b},7,,{a + 1},{b + 2},8\n" for a, b in ROWS))


def test_one_event_twice_is_numbered_as_before(read):
    samples = read("cycles,instructions,misses,misses\n" + "".join(f"{a},{b},{a % 7},{b % 9}\n" for a, b in ROWS))
    assert samples.events == ["misses", "misses#2"]
    same = read("cycles,instructions,cycles,instructions\n" + "".join(f"{a},{b},{a},{b}\n" for a, b in ROWS))
    assert counts(same, "cycles") == [row[0] for row in ROWS]


def test_blanks_before_quotes_belong_to_no_cell(read):
    samples = read('run, cycles, instructions\na, "1,234,567", "2,345,678"\nb, "1,334,567", "2,445,678"\n')
    assert counts(samples, "cycles") == [1_234_567, 1_334_567]


def test_cells_of_blanks_are_missing(read):
    samples = read("cycles,instructions,misses\n1000,2000,12 k\n1100,2100, \n1200,2200,13 k\n")
    assert samples.n_intervals == 3


# ------------------------------------------------------------------ names, words and scales


@pytest.mark.parametrize(
    "name",
    ["efficiency", "parallel_efficiency", "pct", "cpu_load", "pkg_w", "DRAM W", "ipc_x1000", "cpi (x100)", "phase"],
)
def test_these_columns_count_nothing(read, name):
    rows = "".join(f"{i},{a},{b},{90 - i * 3 % 5},{a % 7}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f"t_s,cycles,instructions,{name},misses\n{rows}").events == ["misses"]


@pytest.mark.parametrize("name", ["mem_load", "load", "ipc_events", "core_w", "dram_writes"])
def test_these_columns_count(read, name):
    rows = "".join(f"{i},{a},{b},{90 - i * 3 % 5},{a % 7}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f"t_s,cycles,instructions,{name},misses\n{rows}").events == [name, "misses"]


def test_an_inclusive_time_is_no_length_of_exclusive_counts(read):
    text = "name,time_{}_us,cycles,instructions\nmain,1000,3000,6000\nsolve,900,2700,5400\n"
    assert read(text.format("incl")).intervals()["seconds"].isna().all()
    assert read(text.format("excl")).intervals()["seconds"].tolist() == [0.001, 0.0009]


def test_scales_as_grafana_writes_them(read):
    samples = read(
        "Time,cycles,instructions\n2026-11-23 10:00:00,1.05 Bil,2.1 Bil\n2026-11-23 10:00:05,850 Mil,1.9 Bil\n"
    )
    assert counts(samples, "cycles") == [1.05e9, 850e6]


def test_what_was_whole_is_whole_again(read):
    samples = read("run,Mcycles,Minstructions\n" + "".join(f"{i},{1050.264 + i},{2000 + i}.125\n" for i in range(6)))
    assert counts(samples, "cycles") == [(1050_264 + 1000 * i) * 1000 for i in range(6)]
    assert not noted(samples, "caution")


# ------------------------------------------------------------------ rows without cells, words of other languages


def test_rows_of_delimiters_alone_are_no_intervals(read):
    samples = read("run;cycles;instructions;;\na;1000;2000;;\n;;;;\nb;1100;2100;;\n;;;;\n")
    assert samples.runs.index.tolist() == ["a", "b"]
    assert noted(samples, "2 rows of empty cells, left out")
    assert samples.accounting["left_out"].sum() == 2


def test_blocks_parted_by_rows_of_delimiters_are_read(read):
    samples = read("program,event,count\nA,cycles,1000\nA,instructions,2000\n,,\nB,cycles,1100\nB,instructions,2100\n")
    assert samples.runs.index.tolist() == ["A", "B"]


def test_a_row_in_which_little_was_counted_stays(read):
    samples = read("t_s,cycles,instructions\n1,1000,2000\n2,,\n3,1100,2100\n")
    assert samples.n_intervals == 3


@pytest.mark.parametrize(
    "words", [("MW", "StdAbw"), ("Mittelwert", "Differenz"), ("moyenne", "écart-type"), ("Alt", "Neu")]
)
def test_means_and_differences_in_other_languages_are_no_runs(read, words):
    rows = ((e, n, 2 * n, n + 7, n // 9 + 1) for e, n in (("cycles", 1000), ("instructions", 3000), ("branches", 170)))
    samples = read(f"event;Lauf 1;Lauf 2;{';'.join(words)}\n" + "".join(f"{';'.join(map(str, r))}\n" for r in rows))
    assert samples.runs.index.tolist() == ["Lauf 1", "Lauf 2", *(words if words[0] == "Alt" else ())]


@pytest.mark.parametrize("name", ["weight", "priority", "nice"])
def test_what_ranks_programs_is_no_event(read, name):
    rows = "".join(f"p{i},{a},{b},{i * 3 % 4},{a % 7}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f"app,cycles,instructions,{name},misses\n{rows}").events == ["misses"]


# ------------------------------------------------------------------ logs from the newest to the oldest


@pytest.mark.parametrize("form", ["2026-11-23 10:00:0{i}.{d}", "17644000{i}{d}"])
def test_dates_from_the_newest_to_the_oldest_are_put_in_order(read, form):
    stamps = [form.format(i=i, d=i * 7 % 10) for i in range(6)]
    rows = "".join(f"{t},{a},{b},{a % 7}\n" for t, (a, b) in zip(stamps[::-1], ROWS[::-1], strict=True))
    samples = read(f"timestamp,cycles,instructions,misses\n{rows}")
    assert counts(samples, "cycles") == [row[0] for row in ROWS]
    assert samples.runs.index.tolist() == ["a"]
    assert (samples.intervals()["seconds"].dropna() > 0).all()


def test_dates_of_two_machines_in_turn_are_put_in_order(read):
    rows = "".join(
        f"2026-11-23 10:00:0{i}.{i * 7 % 10},{cpu},{ROWS[i][0] + cpu},{ROWS[i][1]}\n"
        for i in range(5, -1, -1)
        for cpu in (0, 1)
    )
    samples = read(f"when,cpu,cycles,instructions\n{rows}")
    assert samples.table["place"].nunique() == 2
    first = samples.table[(samples.table["place"] == "0") & (samples.table["event"] == "cycles")]
    assert first.sort_values("interval")["count"].tolist() == [row[0] for row in ROWS]


def test_two_rows_of_one_time_have_no_length_of_none(read):
    rows = "".join(f"{t},{a},{b}\n" for t, (a, b) in zip((1, 2, 2, 3, 4, 5), ROWS, strict=True))
    lengths = read(f"t_s,cycles,instructions\n{rows}").intervals()["seconds"]
    assert lengths.isna().sum() == 1
    assert (lengths.dropna() == 1).all()


# ------------------------------------------------------------------ names and counts alone


@pytest.mark.parametrize("between", [",", ";", "\t", "  ", ", "])
def test_a_name_and_a_count_on_each_line(read, between):
    samples = read(
        "".join(f"{e}{between}{n}\n" for e, n in (("cycles", 1000), ("instructions", 3000), ("LLC-misses", 7)))
    )
    assert (samples.time_event, counts(samples, "LLC-misses")) == ("cycles", [7])


@pytest.mark.parametrize("line", ["cycles,105,119", "cycles,1.5", "cycles 5 runs", "cycles"])
def test_other_lines_are_no_names_and_counts(read, line):
    with pytest.raises(FormatError):
        read(f"{line}\ninstructions,3000\n", format=None)


# ------------------------------------------------------------------ columns of what was measured how often


def test_a_count_that_is_the_same_for_cycles_and_instructions_is_none(read):
    rows = "".join(
        f"{app},{e},{n - 5},{n + 5},10\n" for app in "ab" for e, n in (("cycles", 1000), ("instructions", 3000))
    )
    with pytest.raises(FormatError, match="count is 10 in every row, of cycles and of instructions"):
        read("app,event,min,max,count\n" + rows)
    read("app,event,count\n" + rows.replace(",10\n", "\n").replace(",995,", ",").replace(",2995,", ","))


@pytest.mark.parametrize("name", ["count", "value"])
def test_a_count_without_an_event_is_how_often(read, name):
    rows = "".join(f"k{i},{i * 3 % 4},{a},{b},{a % 7}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f"name,{name},cycles,instructions,misses\n{rows}").events == ["misses"]


@pytest.mark.parametrize("name", ["Anteil", "Fehlerrate", "Trefferquote", "Prozent"])
def test_shares_in_german_are_no_events(read, name):
    rows = "".join(f"{i},{a},{b},{20 + i * 3 % 4},{a % 7}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f"t_s,cycles,instructions,{name},misses\n{rows}").events == ["misses"]


# ------------------------------------------------------------------ indexes of rows that were taken out or sorted


@pytest.mark.parametrize("index", [[0, 2, 5, 7, 11, 12], [3, 0, 2, 1, 4, 5]])
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_with_gaps_or_in_another_order_numbers_the_rows(read, index, name):
    rows = "".join(f"{i},{a},{b},{a % 7}\n" for i, (a, b) in zip(index, ROWS, strict=True))
    samples = read(f"{name},cycles,instructions,misses\n{rows}")
    assert samples.events == ["misses"]
    assert noted(samples, "a column without a name numbers the rows")


def test_two_indexes_are_left_out(read):
    rows = "".join(f"{i},{i},{a},{b}\n" for i, (a, b) in enumerate(ROWS))
    assert read(f",Unnamed: 0,cycles,instructions\n{rows}").n_intervals == 6


def test_further_columns_without_a_name_are_refused(read):
    rows = "".join(f"{a},{b},{a * 3 % 17}\n" for a, b in ROWS)
    with pytest.raises(FormatError, match="column 3 has no name"):
        read(f"cycles,instructions,\n{rows}")


def test_a_series_of_pandas_is_one_interval(read):
    samples = read(",0\ncycles,1000\ninstructions,3000\nLLC-misses,7\n")
    assert counts(samples, "LLC-misses") == [7]
    assert samples.accounting["problems"].sum() == 0


def test_a_table_of_rich_is_read(read):
    text = "┏━━━━━┳━━━━━━━━┳━━━━━━━━━━━━━━┓\n┃ app ┃ cycles ┃ instructions ┃\n┡━━━━━╇━━━━━━━━╇━━━━━━━━━━━━━━┩\n"
    text += "│ a   │   1000 │         2000 │\n│ b   │   1100 │         2100 │\n└─────┴────────┴──────────────┘\n"
    assert counts(read(text), "cycles") == [1000, 1100]


# ------------------------------------------------------------------ lines about a table above it


@pytest.mark.parametrize("above", ["Machine;Xeon Gold 6148\nDate;23.11.2026\n\n", "Run of Monday\n", "a;b\nc\n"])
def test_lines_about_a_table_above_it_are_left_out(read, above):
    samples = read(above + "run;cycles;instructions;LLC\na;1000;2000;7\nb;1100;2100;8\n")
    assert counts(samples, "cycles") == [1000, 1100]
    only = samples.accounting.iloc[0]
    assert only["left_out"] == above.count("\n") - above.count("\n\n")
    assert only["counts"] + only["describes"] + only["left_out"] + only["problems"] == only["total"]


def test_two_tables_one_below_the_other_are_refused(read):
    text = "machine A\ncycles,instructions,misses\n1000,2000,3\n\nmachine B\ncycles,instructions,loads\n1100,2100,4\n"
    with pytest.raises(FormatError, match="a second header with other columns"):
        read(text)
