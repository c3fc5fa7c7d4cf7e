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


READ = {
    "German": seconds_of("27.11.2026 10:00:0{}"),
    "German with decimals": seconds_of("27.11.2026 10:00:0{},250"),
    "German over midnight": [
        *("27.11.2026 23:59:58", "27.11.2026 23:59:59", "28.11.2026 00:00:00"),
        *("28.11.2026 00:00:01", "28.11.2026 00:00:02", "28.11.2026 00:00:03"),
    ],
    "of the United States": seconds_of("11/27/2026 10:00:0{}"),
    "with AM": seconds_of("11/27/2026 9:00:0{} AM"),
    "over noon": [
        *("11/27/2026 11:59:58 AM", "11/27/2026 11:59:59 AM", "11/27/2026 12:00:00 PM"),
        *("11/27/2026 12:00:01 PM", "11/27/2026 12:00:02 PM", "11/27/2026 12:00:03 PM"),
    ],
    "over midnight with AM": [
        *("11/27/2026 11:59:58 PM", "11/27/2026 11:59:59 PM", "11/28/2026 12:00:00 AM"),
        *("11/28/2026 12:00:01 AM", "11/28/2026 12:00:02 AM", "11/28/2026 12:00:03 AM"),
    ],
    "British": seconds_of("27/11/2026 10:00:0{}"),
    "of one day, month and day in any order": seconds_of("05/06/2026 10:00:0{}"),
    "ISO with slashes": seconds_of("2026/11/27 10:00:0{}"),
    "Dutch": seconds_of("27-11-2026 10:00:0{}"),
    "time of day": seconds_of("10:00:0{}"),
    "time of day with decimals": seconds_of("10:00:0{}.250"),
    "time of day over midnight": ["23:59:58", "23:59:59", "00:00:00", "00:00:01", "00:00:02", "00:00:03"],
    "time of day over one o'clock": [
        *("12:59:58 PM", "12:59:59 PM", "1:00:00 PM", "1:00:01 PM", "1:00:02 PM", "1:00:03 PM"),
    ],
}


@pytest.mark.parametrize("name", list(READ))
@pytest.mark.parametrize("head", ["time", "timestamp", "Datum"])
def test_times_as_spreadsheets_write_them_tell_the_lengths_of_intervals(read, name, head):
    found = read(of_times(head, READ[name]))
    assert totals(found) == TOTALS
    assert lengths(found)[1:] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["German", "over noon", "time of day over midnight", "ISO with slashes"])
def test_times_of_long_tables_order_their_rows(read, name):
    rows = [(t, e, str(COLUMNS[e][k])) for k, t in enumerate(READ[name]) for e in COLUMNS]
    found = read("\n".join(";".join(row) for row in [("time", "event", "value"), *rows]) + "\n")
    assert totals(found) == TOTALS
    assert lengths(found)[1:] == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["{}.11.2026", "11/{}/2026", "2026-11-{}", "{}/11/2026"])
def test_days_and_times_of_day_in_columns_of_their_own_are_taken_together(read, form):
    """Two days lie between the second row and the third: the times of day alone would tell two seconds."""
    days = [form.format(d) for d in (24, 24, 27, 27, 27, 27)]
    times = ["23:59:58", "23:59:59", "00:00:01", "00:00:02", "00:00:03", "00:00:04"]
    rows = zip(days, times, *COLUMNS.values(), strict=True)
    found = read("\n".join(";".join(map(str, row)) for row in [("date", "time", *COLUMNS), *rows]) + "\n")
    assert totals(found) == TOTALS
    assert lengths(found)[1:] == pytest.approx([1, 2 * 86_400 + 2, 1, 1, 1])


KEPT_AS_TEXT = {
    "lengths of runs": ["00:00:05", "00:01:10", "00:05:23", "00:06:00", "00:07:30", "00:20:00"],
    "lengths from zero": seconds_of("0:00:0{}"),
    "minutes and seconds": seconds_of("00:0{}"),
    "no such day": seconds_of("31.02.2026 10:00:0{}"),
    "no such hour": seconds_of("27.11.2026 25:00:0{}"),
    "no such hour of twelve": seconds_of("11/27/2026 13:00:0{} PM"),
    "day or month": [f"0{k}/0{7 - k}/2026 10:00:00" for k in range(1, 7)],
    "years of two digits": seconds_of("27.11.26 10:00:0{}"),
    "lengths of hours": ["05:23:01", "05:24:10", "05:31:00", "05:33:00", "05:40:00", "05:41:00"],
    "times of day in no order": ["10:00:01", "22:00:05", "03:00:02", "17:00:09", "12:00:00", "08:00:00"],
}


@pytest.mark.parametrize("name", list(KEPT_AS_TEXT))
def test_times_that_can_be_read_in_two_ways_give_no_lengths_and_a_caution(read, name):
    found = read(of_times("time", KEPT_AS_TEXT[name]))
    assert totals(found) == TOTALS
    assert np.isnan(lengths(found)).all()
    assert any("caution: time may tell the time in a form that is not read" in note for note in found.notes)


@pytest.mark.parametrize("name", ["label", "elapsed", "duration", "runtime", "wall time", "cpu time"])
def test_times_of_day_are_taken_from_columns_that_are_called_so(read, name):
    taken = read(of_times(name, READ["time of day"]))
    assert totals(taken) == TOTALS
    assert np.isnan(lengths(taken)).all()


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("form", ["{}.11.2026 10:00:00", "11/{}/2026 10:00:00", "2026-11-{}T10:00:00"])
def test_rows_from_the_last_date_to_the_first_are_put_in_order(read, form, separator):
    found = read(of_times("date", [form.format(26 - k) for k in range(6)], separator))
    assert lengths(found)[1:] == pytest.approx(86_400.0)
    assert found.table.loc[found.table["event"] == "cycles", "count"].tolist() == CYCLES[::-1]


def test_beginnings_and_ends_in_dates_of_spreadsheets_tell_every_length(read):
    rows = "".join(f"11/27/2026 10:00:0{k},11/27/2026 10:00:0{k + 1},{CYCLES[k]},{INSTRUCTIONS[k]}\n" for k in range(6))
    assert lengths(read(f"start,end,cycles,instructions\n{rows}")) == pytest.approx(1.0)


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


@pytest.mark.parametrize("footer", [("Total",), ("Mean",), ("sum",), ("Total", "Mean"), ("Mean", "Total", "max")])
def test_totals_below_a_large_table_are_no_rows(read, footer):
    text, sums = large(*footer)
    assert list(totals(read(text)).values()) == sums.tolist()


@pytest.mark.parametrize("footer", [(), ("max",), ("larger",)])
def test_the_last_rows_of_a_large_table_that_sum_up_nothing_stay(read, footer):
    assert read(large(*footer)[0]).n_intervals == N + len(footer)


def test_a_function_called_total_in_the_middle_of_a_large_table_stays(read):
    head, _, rows = large()[0].partition("\n")
    assert read(f"{head}\n" + rows.replace(f"f{N - 5},", "Total,")).n_intervals == N


def test_an_interval_above_a_total_numbers_its_row_and_is_no_event(read):
    rows = "".join(f"{k},{CYCLES[k]},{INSTRUCTIONS[k]},{MISSES[k]}\n" for k in range(6))
    found = read(f"interval,{','.join(COLUMNS)}\n{rows}total,{','.join(str(int(t)) for t in TOTALS.values())}\n")
    assert totals(found) == TOTALS


VTUNE = "Function\tHardware Event Count:CPU_CLK_UNHALTED.THREAD\tHardware Event Count:INST_RETIRED.ANY\n"


@pytest.mark.parametrize(("name", "factor", "stays"), [("Total", 1, 0), ("", 1, 0), ("total", 2, 1), ("mean", 0.5, 1)])
@pytest.mark.parametrize("first", [True, False])
def test_a_row_of_a_profile_that_sums_up_the_others_is_no_function(read, name, factor, stays, first):
    rows = "".join(f"f{k}\t{CYCLES[k]}\t{INSTRUCTIONS[k]}\n" for k in range(6))
    total = f"{name}\t{int(sum(CYCLES) * factor)}\t{sum(INSTRUCTIONS)}\n"
    found = read(VTUNE + (total + rows if first else rows + total))
    assert found.n_intervals == 6 + stays
    assert totals(found)["INST_RETIRED.ANY"] == (1 + stays) * sum(INSTRUCTIONS)


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


@pytest.mark.parametrize(
    ("names", "factors", "decimals"),
    [
        (("Mcycles", "Minstructions", "Mbranch-misses"), (1e6, 1e6, 1e6), (6, 6, 6)),
        (("Gcycles", "Ginst", "kbranch-misses"), (1e9, 1e9, 1e3), (9, 9, 3)),
        (("Mcycles", "Minstructions", "branch-misses"), (1e6, 1e6, 1), (6, 6, 0)),
        (("kcycles", "kinstructions", "branch-misses"), (1e3, 1e3, 1), (3, 3, 0)),
        (("kcycles", "kinstructions", "kbranch-misses"), (1e3, 1e3, 1e3), (3, 3, 3)),
        (("Kcycles", "Kinstructions", "branch-misses"), (1e3, 1e3, 1), (3, 3, 0)),
    ],
)
def test_scales_in_front_of_names_are_multiplied_out(read, names, factors, decimals):
    assert totals(read(scaled_table(names, factors, decimals))) == pytest.approx(TOTALS)


@pytest.mark.parametrize("name", ["Misses", "Mispredicted-branches", "Memory-loads", "Gather-loads", "Migrations"])
def test_names_with_a_capital_are_not_scaled_beside_columns_that_are(read, name):
    found = read(scaled_table(("Gcycles", "Ginst", name), (1e9, 1e9, 1), (9, 9, 0)))
    assert totals(found)[name] == sum(MISSES)


def test_whole_kcycles_alone_are_refused_with_the_reason(read):
    with pytest.raises(FormatError, match=r"kcycles, kinstructions may be thousands, or what the kernel did"):
        read(scaled_table(("kcycles", "kinstructions", "branch-misses"), (1e3, 1e3, 1), (0, 0, 0)))


@pytest.mark.parametrize("decimals", [0, 1])
def test_kernel_counts_beside_scaled_columns_are_not_scaled_unnoticed(read, decimals):
    rows = "".join(f"{c / 1e6:.6f},{i / 1e6:.6f},{m}\n" for c, i, m in zip(CYCLES, INSTRUCTIONS, MISSES, strict=True))
    with pytest.raises(FormatError, match=r"kbranches may be thousands, or what the kernel did"):
        read(f"Mcycles,Minstructions,kbranches\n{rows}")
    rows = "".join(f"{c},{i},{c / 7:.{decimals}f}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    found = read(f"cycles,instructions,kcycles\n{rows}")
    assert totals(found)["cycles"] == sum(CYCLES)
    assert any("kcycles may be thousands, or what the kernel did" in note for note in found.notes)


@pytest.mark.parametrize(("factor", "stays"), [(1000, False), (9, True)])
def test_kcycles_beside_cycles_are_the_kernels_unless_they_are_the_same_in_thousands(read, factor, stays):
    rows = "".join(f"{c},{c / factor:.0f},{i}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    assert ("kcycles" in totals(read(f"cycles,kcycles,instructions\n{rows}"))) is stays


def test_cycles_in_millions_of_other_rows_are_no_repetition(read):
    rows = "".join(f",{c / 1e6:.6f},{i}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    rows += "".join(f"{c},,{i}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    found = read(f"cycles,Mcycles,instructions\n{rows}")
    assert totals(found)["cycles"] + totals(found)["cycles#2"] == pytest.approx(2 * sum(CYCLES))


def test_columns_that_pandas_numbered_apart_are_no_causes(read):
    rows = "".join(f"{c},{i},{c + 7},{i + 9}\n" for c, i in zip(CYCLES, INSTRUCTIONS, strict=True))
    found = read(f"cycles,instructions,cycles.1,instructions.1\n{rows}")
    assert (found.time_event, found.work_event) == ("cycles", "instructions")
    assert set(totals(found)) == {"cycles", "instructions", "cycles#2", "instructions#2"}


def test_events_with_numbers_behind_a_point_keep_their_names(read):
    rows = "".join(f"{c},{i},{m},{m + 5}\n" for c, i, m in zip(CYCLES, INSTRUCTIONS, MISSES, strict=True))
    assert {"port", "port.1"} <= set(totals(read(f"cycles,instructions,port,port.1\n{rows}")))


@pytest.mark.parametrize("name", ["variant", "version"])
def test_numbers_of_variants_are_no_counts(read, name):
    assert totals(read(of_times(name, [0, 1, 2, 0, 1, 2]))) == TOTALS


# ------------------------------------------------------------------ perf before version 3.18

OLD_TEXT = """
 Performance counter stats for './a.out':

      1,411,821,624 cycles                    #    3.000 GHz                     [83.31%]
      1,933,392,528 instructions              #    1.37  insns per cycle
                                             #    0.47  stalled cycles per insn [82.33%]
          3,912,345 branch-misses             #    1.00% of all branches         [83.34%]

        1.236543210 seconds time elapsed

"""
OLDEST_TEXT = """
 Performance counter stats for './a.out':

     1411821624  cycles                   #   3000.000 M/sec  (scaled from 83.31%)
     1933392528  instructions             #      1.370 IPC     (scaled from 82.33%)
        3912345  branch-misses            #      1.000 %       (scaled from 83.34%)

    1.236543210  seconds time elapsed

"""


@pytest.mark.parametrize("text", [OLD_TEXT, OLDEST_TEXT])
def test_shares_of_time_as_old_versions_of_perf_print_them(read, text):
    table = read(text).table.set_index("event")
    assert table["count"].to_dict() == {"cycles": 1411821624, "instructions": 1933392528, "branch-misses": 3912345}
    assert table["running"].to_dict() == {"cycles": 0.8331, "instructions": 0.8233, "branch-misses": 0.8334}


def test_shares_of_time_behind_the_notes_of_old_intervals(read):
    lines = [
        f"     {k + 1}.000110000 {counts[k]:>18,} {event:25} {note} [{share}%]\n"
        for k in range(6)
        for (event, counts), note, share in zip(
            COLUMNS.items(),
            ("", "#    1.37  insns per cycle", "#    1.00% of all branches"),
            (66.67, 83.33, 83.34),
            strict=True,
        )
    ]
    found = read("#           time             counts events\n" + "".join(lines))
    assert totals(found) == TOTALS
    assert found.table.groupby("event", observed=True)["running"].mean().to_dict() == pytest.approx(
        {"cycles": 0.6667, "instructions": 0.8333, "branch-misses": 0.8334}
    )


@pytest.mark.parametrize(
    "line",
    ["{v},{e}", "{v};{e}", "{v},,{e}", "{v},{e},1000000,66.67", "{v},{e},0.50%", "CPU0,{v},{e}", "1.000110000,{v},{e}"],
)
def test_fields_as_old_versions_of_perf_print_them(read, line):
    counts = {"cycles": 1411821624, "instructions": 1933392528, "branch-misses": 3912345}
    found = read("".join(f"{line.format(v=v, e=e)}\n" for e, v in counts.items()))
    assert totals(found) == counts
    running = found.table["running"].unique()
    assert running == pytest.approx([0.6667 if "66.67" in line else np.nan], nan_ok=True)


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
    [(line, noise) for line in (TEXT, FIELDS, JSON) for noise in WORDS if (line, noise) != (JSON, WORDS[1])],
)
def test_what_the_program_prints_among_intervals_is_left_out(read, line, noise):
    found = read(intervals(line, noise))
    assert totals(found) == TOTALS
    assert any("1 line of the program's own output, not read" in note for note in found.notes)


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
