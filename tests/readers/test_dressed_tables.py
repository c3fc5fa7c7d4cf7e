"""Tables as people dress them: scales and spreads behind numbers, rows of units, bars and rules, names and counts."""

import pytest

import perfkit as pk
from perfkit.errors import FormatError
from tests.readers.test_no_silent_loss import check


@pytest.fixture
def read(tmp_path):
    def of(text, **asked):
        path = tmp_path / "my dump.txt"
        path.write_text(text, encoding="utf-8")
        samples = pk.read_samples(path, **asked)
        check(samples)
        return samples

    return of


def total(samples, event):
    return samples.table.loc[samples.table["event"] == event, "count"].sum()


def told(samples):
    return " ".join(samples.notes)


def test_a_scale_behind_counts_is_multiplied_out_and_said(read):
    samples = read("event,count\ncycles,1140.00M\ninstructions,2.28G\nbranch-misses,1.2K\npage-faults,17\n")
    assert [total(samples, e) for e in ("cycles", "instructions", "branch-misses", "page-faults")] == [
        1.14e9,
        2.28e9,
        1200,
        17,
    ]
    assert "as rounded as they were printed: count" in told(samples)


def test_sizes_with_a_scale_are_no_counts(read):
    samples = read("footprint,cycles,instructions,misses\n16K,1000,2000,10\n32K,1500,2500,20\n1.5M,4000,3000,90\n")
    assert samples.events == ["misses"]
    assert "hold text, left out: footprint" in told(samples)


def test_a_number_with_an_unknown_letter_is_refused(read):
    with pytest.raises(FormatError, match="cycles"):
        read("run,cycles,instructions\na,1.1Q,2.0Q\nb,1.2Q,2.4Q\n")


def test_odd_cells_do_not_turn_cycles_into_text(read):
    with pytest.raises(FormatError, match=r"line 2: expected a number in column cycles. Found: '1 00'"):
        read("instructions,cycles,misses\n100,1 00,3\n200,2 00,4\n300,3000,5\n")


def test_decimal_commas_before_a_scale(read):
    samples = read("run;cycles;instructions\na;1,14G;2,5G\nb;1,5G;3,25G\n")
    assert total(samples, "cycles") == 2.64e9
    assert total(samples, "instructions") == 5.75e9


def test_a_spread_behind_a_count_is_left_out_and_said(read):
    samples = read("event;count\ncycles;3000 ± 5\ninstructions;6000 +- 12\nbranch-misses;30 +/- 2,5%\n")
    assert [total(samples, e) for e in ("cycles", "instructions", "branch-misses")] == [3000, 6000, 30]
    assert "their spread or share behind them" in told(samples)


def test_a_row_of_units_scales_and_tells_the_clock(read):
    samples = read("t,cycles,instructions,power\n[s],M,M,W\n0.5,1.5,3,40\n1.0,2.5,4,41\n")
    assert total(samples, "cycles") == 4e6
    assert samples.events == []
    assert samples.intervals()["seconds"].tolist() == [0.5, 0.5]


def test_a_first_row_of_ones_is_a_row_of_counts(read):
    assert total(read("time,cycles,instructions\n1,1,1\n2,1000,2000\n3,2000,4000\n"), "cycles") == 3001


@pytest.mark.parametrize("first", ["gcc,mcf,lbm", "s,count,7", "s,,"])
def test_a_first_row_that_is_no_row_of_units_is_refused(read, first):
    with pytest.raises(FormatError, match="line 2"):
        read(f"time,cycles,instructions\n{first}\n0.5,1000,2000\n1.0,2000,4000\n")


def test_a_table_in_prose_is_read_and_the_prose_is_left_out(read):
    rows = "\n".join(f"| **{n}** | {c} | {2 * c} |" for n, c in (("a", 1000), ("b", 2500)))
    samples = read(f"# My runs\n\nSee below.\n\n| run | `cycles` | instructions |\n|:--|--:|--:|\n{rows}\n\nDone.\n")
    assert total(samples, "cycles") == 3500
    assert sorted(samples.runs.index) == ["a", "b"]
    assert "3 lines of text around the table" in told(samples)


def test_two_tables_of_different_columns_are_refused(read):
    one = "| run | cycles | instructions |\n|---|---|---|\n| a | 1000 | 2000 |\n"
    other = "| run | misses | hits |\n|---|---|---|\n| a | 10 | 20 |\n"
    with pytest.raises(FormatError, match="misses"):
        read(f"{one}\n{other}")


def test_a_row_of_another_length_is_a_problem(read):
    text = "| run | cycles | instructions |\n|---|---|---|\n| a | 1000 | 2000 |\n| b | 1000 |\n"
    with pytest.raises(FormatError, match=r"line 4.*expected 3 fields"):
        read(text)
    assert len(read(text, errors="collect").problems) == 1


def test_names_and_counts_that_come_again_are_intervals(read):
    samples = read("".join(f"cycles: {c}\ninstructions: {2 * c}\n\n" for c in (1000, 1500, 1250)))
    assert samples.n_intervals == 3
    assert total(samples, "instructions") == 7500


def test_means_of_one_instruction_stay_refused(read):
    with pytest.raises(FormatError, match="nanoBench"):
        read("cycles: 4.00\ninstructions: 1.00\n")


@pytest.mark.parametrize("unit", ["1/s", "/s", "%", "per second", "MHz"])
def test_rates_by_their_unit_are_no_counts(read, unit):
    samples = read(f"event,count,unit\ncycles,3000,\ninstructions,6000,\nloads,5,{unit}\n")
    assert samples.events == []
    assert "rates and quotients, left out: loads" in told(samples)


@pytest.mark.parametrize(("called", "misses", "left"), [("all", 30, 2), ("all", 31, 3), ("main", 30, 3)])
def test_a_place_called_all_is_left_out_where_it_is_the_sum(read, called, misses, left):
    samples = read(f"thread,cycles,misses\n0,1000,10\n1,2000,20\n{called},3000,{misses}\n", work_event="misses")
    assert samples.n_intervals == left


def test_few_rows_that_rise_beside_a_clock_are_cautioned_about(read, tmp_path):
    text = "timestamp,cycles,instructions\n0,100,200\n1,1100,2200\n2,3100,6200\n3,4100,8200\n"
    assert "caution: every count rises in each of the 4 rows" in told(read(text))
    assert any("every count rises" in q for q in pk.explore(tmp_path / "my dump.txt").quality)
    assert "caution" not in told(read(text, cumulative=False))
    assert total(read(text, cumulative=True), "cycles") == 4000
    assert "caution" not in told(read(text.replace("4100,8200", "2100,8300")))


def test_pandas_json_by_column_and_by_index(read):
    counts = {"cycles": {"a": 1000, "b": 2000}, "instructions": {"a": 2000, "b": 5000}}
    import pandas as pd

    by_column = read(pd.DataFrame(counts).to_json())
    by_run = read(pd.DataFrame(counts).to_json(orient="index"))
    for samples in (by_column, by_run):
        assert total(samples, "cycles") == 3000
        assert total(samples, "instructions") == 7000
        assert samples.n_intervals == 2


def test_json_lists_of_unequal_length_are_refused(read):
    with pytest.raises(FormatError):
        read('{"cycles": [1, 2, 3], "instructions": [4, 5]}')


def test_a_quoted_table_of_dispatches_is_no_output_of_perf(read):
    text = '"Id","Grid","Kernel","Counter_Name","Counter_Value","End"\n'
    text += "".join(f'1,{g},"k",8,16,"{n}",{v},1000,2000\n' for g, n, v in ((64, "cycles", 3000),))
    with pytest.raises(FormatError, match="expected 6 fields"):
        read(text)


def test_what_is_no_count_among_named_counts(read):
    samples = read("pid: 4242\ntime_ms: 12\ncycles: 3000\ninstructions: 6000\nthreads: 4\nbranch-misses: 30\n")
    assert samples.events == ["branch-misses"]
    assert samples.throughput() == 2


@pytest.mark.parametrize(("cycles", "left"), [(3000, 2), (3100, 3)])
def test_a_place_called_all_in_a_long_table(read, cycles, left):
    rows = "".join(f"{i},cycles,{i}000\n{i},instructions,{i}500\n" for i in (1, 2))
    samples = read(f"thread,event,count\n{rows}all,cycles,{cycles}\nall,instructions,4000\n")
    assert samples.n_intervals == left


@pytest.mark.parametrize("blank", ["", " ", "   "])
@pytest.mark.parametrize("bar", ["|", "│"])
def test_a_table_between_bars_keeps_every_digit(read, blank, bar):
    """Without blanks before the bar at a line's end, too."""
    rows = [("cycles", "instructions"), ("---", "---"), ("1000", "2007"), ("1003", "2009")]
    lines = [bar + bar.join(f"{blank}{cell}{blank}" for cell in row) + bar for row in rows]
    samples = read("\n".join(lines) + "\n")
    assert [total(samples, e) for e in ("cycles", "instructions")] == [2003, 4016]


def test_a_column_that_stands_twice_with_a_missing_count_is_kept_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cycles,instructions,misses,misses\n1000,2000,7,7\n1500,2000,,\n1200,2100,9,9\n")
    samples = pk.read_samples(path)
    assert set(samples.table["event"]) == {"cycles", "instructions", "misses"}
    assert any("there twice with the same values" in note for note in samples.notes)
