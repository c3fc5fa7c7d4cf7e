"""Tables, old outputs of perf and programs' words among its rows: neighbouring dialects, each with the truth."""

import numpy as np
import pytest

from perfkit.errors import FormatError, PerfkitError

CYCLES = [1411821624, 1850463696, 1213823287, 2187200111, 1711504540, 2174760584]
INSTRUCTIONS = [1933392528, 1181674211, 2801810653, 1556164042, 2401810653, 3281674211]
MISSES = [3912345, 1234567, 2187200, 726256, 1452512, 2178768]
COLUMNS = {"cycles": CYCLES, "instructions": INSTRUCTIONS, "branch-misses": MISSES}
TOTALS = {event: float(sum(counts)) for event, counts in COLUMNS.items()}


def totals(samples):
    return samples.table.groupby("event", observed=True)["count"].sum().to_dict()


def lengths(samples):
    return samples.table.drop_duplicates(["run", "place", "interval"])["seconds"].to_numpy()


def of_times(head, times, separator=";"):
    rows = zip(times, *COLUMNS.values(), strict=True)
    return "\n".join(separator.join(map(str, row)) for row in [(head, *COLUMNS), *rows]) + "\n"


# ------------------------------------------------------------------ times as spreadsheets write them


def seconds_of(pattern):
    return [pattern.format(k + 1) for k in range(6)]


@pytest.mark.parametrize("day", ["date", "build_date", "measured on"])
@pytest.mark.parametrize("clock", ["time", "elapsed", "Dauer", "start", "time limit"])
@pytest.mark.parametrize(
    "times", [seconds_of("10:00:0{}"), ["1:30:00", "1:30:02", "1:29:59", "1:30:00", "1:30:05", "1:30:01"]]
)
def test_times_without_a_date_are_no_lengths_of_intervals(read, day, clock, times):
    """How long each run took, how long it might take, and when it was: all are written alike."""
    days = ["2026-11-27"] * 3 + ["2026-11-28"] * 3
    rows = zip(days, times, *COLUMNS.values(), strict=True)
    found = read("\n".join(";".join(map(str, row)) for row in [(day, clock, *COLUMNS), *rows]) + "\n")
    assert totals(found) == TOTALS
    assert found.table["seconds"].isna().all()
    assert found.table["run"].nunique() == 1


@pytest.mark.parametrize("name", ["label", "elapsed", "duration", "runtime", "wall time", "cpu time"])
def test_times_of_day_are_taken_from_columns_that_are_called_so(read, name):
    taken = read(of_times(name, seconds_of("10:00:0{}")))
    assert totals(taken) == TOTALS
    assert np.isnan(lengths(taken)).all()


# ------------------------------------------------------------------ footers of large tables

N = 10_500


def large(*footer):
    rng = np.random.default_rng(3)
    counts = rng.integers(10**8, 10**9, (N, 2))
    rows = "".join(f"f{k},{a},{b}\n" for k, (a, b) in enumerate(counts))
    sums, means = counts.sum(axis=0), counts.mean(axis=0)
    last = {
        "Total": f"Total,{sums[0]},{sums[1]}\n",
        "Mean": f"Mean,{means[0]:.2f},{means[1]:.2f}\n",
        "sum": f"f{N},{sums[0]},{sums[1]}\n",
        "max": f"max,{counts[:, 0].max()},{counts[:, 1].max()}\n",
        "larger": f"f{N},{2 * sums[0]},{sums[1]}\n",
    }
    return "name,cycles,instructions\n" + rows + "".join(last[f] for f in footer), sums


@pytest.mark.parametrize("footer", [(), ("max",), ("larger",)])
def test_the_last_rows_of_a_large_table_that_sum_up_nothing_stay(read, footer):
    assert read(large(*footer)[0]).n_intervals == N + len(footer)


def test_a_function_called_total_in_the_middle_of_a_large_table_stays(read):
    head, _, rows = large()[0].partition("\n")
    assert read(f"{head}\n" + rows.replace(f"f{N - 5},", "Total,")).n_intervals == N


# ------------------------------------------------------------------ names and scales


@pytest.mark.parametrize("word", ["Zyklen", "Takte", "ciclos"])
@pytest.mark.parametrize("plain", ["cycles", "cpu-cycles"])
@pytest.mark.parametrize("first", [True, False])
def test_a_word_of_another_language_beside_cycles_is_not_the_time(read, word, plain, first):
    rows = [(16 << k, CYCLES[k]) if first else (CYCLES[k], 16 << k) for k in range(6)]
    names = (word, plain) if first else (plain, word)
    table = "".join(f"{a},{b},{INSTRUCTIONS[k]}\n" for k, (a, b) in enumerate(rows))
    assert read(f"{','.join(names)},instructions\n{table}").time_event == plain


def test_a_word_of_another_language_alone_is_the_time(read):
    assert read(of_times("Zyklen", CYCLES).replace("cycles", "x", 1)).time_event == "Zyklen"


def scaled_table(names, factors, decimals):
    rows = zip(*COLUMNS.values(), strict=True)
    lines = [",".join(f"{c / f:.{d}f}" for c, f, d in zip(row, factors, decimals, strict=True)) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"


@pytest.mark.parametrize("name", ["Misses", "Mispredicted-branches", "Memory-loads", "Gather-loads", "Migrations"])
def test_names_with_a_capital_are_not_scaled_beside_columns_that_are(read, name):
    found = read(scaled_table(("Gcycles", "Ginst", name), (1e9, 1e9, 1), (9, 9, 0)))
    assert totals(found)[name] == sum(MISSES)


def test_cycles_in_millions_of_other_rows_are_no_repetition(read):
    rows = "".join(f",{c / 1e6:.6f},{i}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    rows += "".join(f"{c},,{i}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    found = read(f"cycles,Mcycles,instructions\n{rows}")
    assert totals(found)["cycles"] + totals(found)["cycles#2"] == pytest.approx(2 * sum(CYCLES))


def test_events_with_numbers_behind_a_point_keep_their_names(read):
    rows = "".join(f"{c},{i},{m},{m + 5}\n" for c, i, m in zip(CYCLES, INSTRUCTIONS, MISSES, strict=True))
    assert {"port", "port.1"} <= set(totals(read(f"cycles,instructions,port,port.1\n{rows}")))


# ------------------------------------------------------------------ perf before version 3.18


@pytest.mark.parametrize("text", ["3,cycles,instructions\n5,cycles,instructions\n", "1000,cycles\n30,cache-misses\n"])
def test_what_only_looks_like_fields_of_old_versions_is_refused(read, text):
    with pytest.raises(Exception, match=r"not a dump|no event that measures|without a column"):
        read(text)


# ------------------------------------------------------------------ what the program prints among intervals

WORDS = [
    "iteration 3 done",
    '{"loss": 1.5}',
    "  45% complete",
    "[12:00:01] INFO step 12",
    "loss = 0.5",
    "/tmp/x written",
]
PERHAPS_COUNTS = [
    *("        5,123      cycles", "     1.500000000 sec: checkpoint", "0.123 0.456", "42"),
    *("000110000      1,213,823,287      cyc", "   <not counted>   cyc", "step 3 ...    3.0001    1,213      cycles"),
]


def intervals(line, noise, separator=""):
    rows = []
    for k in range(6):
        for event, counts in COLUMNS.items():
            rows.append(line.format(t=k + 1, v=counts[k], e=event))
            if k == 2 and event == "cycles":
                rows.append(noise)
    return "# started on Sat Nov 21 06:10:05 2026\n\n" + "\n".join(rows) + "\n"


TEXT, FIELDS = "     {t}.000110000 {v:>18,}      {e}", "     {t}.000110000,{v},,{e},1000000000,100.00,,"
JSON = '{{"interval" : {t}.000110000, "counter-value" : "{v}.000000", "event" : "{e}", "pcnt-running" : 100.00}}'


@pytest.mark.parametrize(
    ("line", "noise"),
    [
        *((line, noise) for line in (TEXT, FIELDS) for noise in PERHAPS_COUNTS),
        (TEXT, "    100 requests"),
        (FIELDS, "cles,1000000000,100.00,,"),
        *(
            (JSON, noise)
            for noise in ('e" : "x"', "42", "0.123 0.456", "1,234,567 x", "counting cycles now", '{"interval" : 3')
        ),
    ],
)
def test_what_may_be_a_damaged_line_of_perf_among_intervals_is_refused(read, line, noise):
    with pytest.raises(FormatError, match="expected"):
        read(intervals(line, noise))


def test_a_quote_that_is_not_closed_is_refused_by_its_line(read):
    rows = [f"{k},{100 * k},{200 * k},{k} %" for k in range(1, 9)]
    rows[4] = rows[4].replace("5 %", '"5 %')
    with pytest.raises(FormatError, match="line 6: expected a quote that is closed in the same row"):
        read("time_s,cycles,instructions,hit\n" + "\n".join(rows) + "\n")


def test_a_number_of_an_interval_that_is_too_large_is_refused(read):
    rows = ["a,0,cycles,100,50", "a,92233720368547758080,instructions,200,50", "a,1,cycles,110,50"]
    with pytest.raises(PerfkitError, match="interval"):
        read("run,interval,event,count,running\n" + "\n".join(rows) + "\n")
