"""Damaged dumps: no count is lost behind another line's, or made small by a decimal sign, without a word.

Each kind of damage stands beside dumps that look like it and are whole: those must go on being read.
"""

import json
import re
import warnings

import pytest

import perfkit as pk
from perfkit.errors import FormatError

HEADER = "#           time             counts unit events\n"


def counts(path, text):
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = pk.read_samples(path)
    return samples.table.groupby("event", observed=True)["count"].sum().to_dict(), samples


# ------------------------------------------------------------------ two lines in one

I_TEXT = HEADER + "".join(
    f"     {t}.000100000 {1000 * t:>18,}      cycles                           #    2.000 GHz\n"
    f"     {t}.000100000 {2000 * t:>18,}      instructions                     #    2.00  insn per cycle\n"
    f"     {t}.000100000 {10 * t:>18,}      cache-misses                     #    1.00 % of all L1-dcache accesses\n"
    for t in (1, 2, 3)
)
TEXT = """
 Performance counter stats for './a.out' (3 runs):

       1,234,567      cycles                    #    2.000 GHz                         ( +-  0.42% )  (66.66%)
       2,345,678      instructions              #    1.90  insn per cycle              ( +-  0.02% )  (83.33%)
           3,456      branch-misses             #    0.50% of all branches             ( +-  1.42% )
           7,890      cache-misses

       0.0015 +- 0.0001 seconds time elapsed  ( +-  3.00% )
"""
CSV = """1000,,cycles,1000000,100.00,2.0,GHz
2000,,instructions,1000000,100.00,2.00,insn per cycle
30,,misses,1000000,100.00,,
"""
I_CSV = "".join(f"{t}.000100000,{x}" for t in (1, 2) for x in CSV.splitlines(keepends=True))
LIKWID = """TABLE,Group 1 Raw,L2,3,,
Event,Counter,HWThread 0,HWThread 1,,
INSTR_RETIRED_ANY,FIXC0,1000,1200,,
CPU_CLK_UNHALTED_CORE,FIXC1,500,700,,
L2_RQSTS_MISS,PMC1,100,200,,
TABLE,Group 1 Raw STAT,L2,3,,
Event,Counter,Sum,Min,Max,Avg
INSTR_RETIRED_ANY STAT,FIXC0,2200,1000,1200,1100
TABLE,Group 2 Raw,L3,1,,
Event,Counter,HWThread 0,HWThread 1,,
INSTR_RETIRED_ANY,FIXC0,1000,1200,,
CPU_CLK_UNHALTED_CORE,FIXC1,500,700,,
L3_MISS,PMC1,10,20,,
"""
SIMPLEPERF = """Performance counter statistics,
1000000,cpu-cycles:u,1.9,GHz,(100%),
2000000,instructions:u,0.5 cycles per instruction,(100%),
3000,cache-misses:u,0.3% miss rate,(50%),
Total test time,0.100,seconds,
"""
TOPLEV = """Timestamp,CPUs,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck
1.0,C0,Frontend_Bound,10.0,% Slots,"many, words",,0.0,50.0,
1.0,C0,Backend_Bound,30.0,% Slots,,,0.0,50.0,<==
1.0,C0,SLOTS,4000,Slots,,,0.0,100.0,
1.0,C0,CLKS,1000,Clocks,,,0.0,100.0,
1.0,C0,Instructions,1500,Count,,,0.0,100.0,
"""
WHOLE = {
    "perf-text-I": (I_TEXT, {"cycles": 6000, "instructions": 12000, "cache-misses": 60}),
    "perf-text": (TEXT, {"cycles": 1234567, "instructions": 2345678, "branch-misses": 3456, "cache-misses": 7890}),
    "perf-csv": (CSV, {"cycles": 1000, "instructions": 2000, "misses": 30}),
    "perf-csv-I": (I_CSV, {"cycles": 2000, "instructions": 4000, "misses": 60}),
    "likwid": (LIKWID, {"INSTR_RETIRED_ANY": 4400, "CPU_CLK_UNHALTED_CORE": 2400, "L2_RQSTS_MISS": 300, "L3_MISS": 30}),
    "simpleperf": (SIMPLEPERF, {"cpu-cycles:u": 1000000, "instructions:u": 2000000, "cache-misses:u": 3000}),
    "french": (
        HEADER + "     1.000100000      3\u202f642\u202f649      cycles      #    2,00  GHz\n"
        "     1.000100000      1\u202f234      instructions      #    2,00  insn per cycle\n"
        "     1.000100000      12      misses\n",
        {"cycles": 3642649, "instructions": 1234, "misses": 12},
    ),
    "likwid-stat": (LIKWID.replace("Raw STAT", "Raw Stat"), {"INSTR_RETIRED_ANY": 4400, "L3_MISS": 30}),
    "toplev": (TOPLEV, {"Frontend_Bound": 400, "Backend_Bound": 1200, "cycles": 1000, "instructions": 1500}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_dumps_are_read(name, tmp_path):
    text, sums = WHOLE[name]
    assert sums.items() <= counts(tmp_path / "d.txt", text)[0].items()


@pytest.mark.parametrize("name", WHOLE)
def test_no_count_is_lost_where_the_end_of_a_line_is(name, tmp_path):
    text, sums = WHOLE[name]
    lines = text.splitlines(keepends=True)
    refused = 0
    for i, line in enumerate(lines[:-1]):
        if not line.strip() or not lines[i + 1].strip():
            continue
        joined = "".join([*lines[:i], line.rstrip("\n"), *lines[i + 1 :]])
        try:
            found = counts(tmp_path / "d.txt", joined)[0]
        except FormatError:
            refused += 1
        else:
            assert sums.items() <= found.items(), f"line {i + 1}: {line}"
    assert refused >= 2


@pytest.mark.parametrize(
    "note",
    [
        "#    3.2 K/sec                    ( +-  0.50% )  (83.33%)",
        "#   12.34% of all L1-icache accesses  (33.33%)",
        "#    0.50  stalled cycles per insn  [83.33%]",
        "#     31.1 %  tma_backend_bound      (12.1%)",
        "#    nan % of all cache refs",
        "#    2.00  insn per cycle              # some word",
        "#  1.5 M/sec",
        "# 2 of 3 runs",
    ],
)
def test_notes_with_figures_are_notes(note, tmp_path):
    lines = f"      1,000      cycles   {note}\n      2,000      instructions   {note}\n"
    text = f"\n Performance counter stats for 'a':\n\n{lines}"
    assert counts(tmp_path / "d.txt", text)[0] == {"cycles": 1000, "instructions": 2000}
    timed = (
        HEADER
        + f"     1.000100000      1,000      cycles   {note}\n     1.000100000      2,000      instructions   {note}\n"
    )
    assert counts(tmp_path / "d.txt", timed)[0] == {"cycles": 1000, "instructions": 2000}


@pytest.mark.parametrize("line", ["# started on Mon Mar  4 10:11:12 2024", "# iteration   100 done", "# a   12 b"])
def test_comments_with_figures_are_comments(line, tmp_path):
    assert WHOLE["perf-text-I"][1].items() <= counts(tmp_path / "d.txt", f"{line}\n{I_TEXT}")[0].items()


# ------------------------------------------------------------------ a decimal sign in a whole number


@pytest.mark.parametrize("sign", [",", "."])
def test_a_decimal_sign_in_a_count_of_perf_is_told(sign, tmp_path):
    """Ten cycles are no thousand."""
    text = HEADER + "".join(
        f"     {t}.000100000      {v}      {e}\n"
        for t in (1, 2)
        for e, v in (("cycles", f"10{sign}00" if t == 1 else "1000"), ("instructions", "2000"))
    )
    with pytest.raises(FormatError, match="line 2: expected a whole number"):
        counts(tmp_path / "d.txt", text)


@pytest.mark.parametrize(
    ("event", "value", "unit"),
    [
        ("task-clock", "12.34", "msec"),
        ("task-clock (msec)", "12.34", ""),
        ("cpu-clock", "12,34", ""),
        ("power/energy-pkg/", "3.25", "Joules"),
        ("uncore_imc/data_reads/", "1.5", "MiB"),
        ("duration_time", "1000000", "ns"),
    ],
)
def test_counts_with_decimals_of_their_own_are_read(event, value, unit, tmp_path):
    text = (
        f"\n Performance counter stats for 'a':\n\n    1000      cycles\n    2000      instructions\n"
        f"    30     misses\n   {value} {unit} {event}\n"
    )
    found, _ = counts(tmp_path / "d.txt", text)
    assert found[event.removesuffix(" (msec)")] == float(value.replace(",", "."))


def test_averages_written_as_perf_writes_counts_are_read(tmp_path):
    text = "1000.5,,cycles,1000000,100.00,,\n2000.25,,instructions,1000000,100.00,,\n30.75,,misses,1000000,100.00,,\n"
    assert counts(tmp_path / "d.txt", text)[0] == {"cycles": 1000.5, "instructions": 2000.25, "misses": 30.75}


ROWS = [(1000 + 13 * i, 2000 + 17 * i, 10 + 3 * i % 7) for i in range(8)]


@pytest.mark.parametrize("sign", [",", "."])
@pytest.mark.parametrize("row", [0, 3, 7])
def test_one_count_with_decimals_among_whole_ones_is_a_caution(sign, row, tmp_path):
    cells = [list(map(str, r)) for r in ROWS]
    cells[row][0] = f"{cells[row][0][:2]}{sign}{cells[row][0][2:]}"
    text = "cycles;instructions;misses\n" + "".join(";".join(r) + "\n" for r in cells)
    _, samples = counts(tmp_path / "d.csv", text)
    whole = float(cells[row][0].replace(",", ".")) % 1 == 0
    assert whole or any("caution: cycles is" in note for note in samples.notes)


@pytest.mark.parametrize(
    "column",
    [
        ["1", "2", "3", "4", "5", "6", "7", "8"],
        ["1.5", "2.5", "3", "4", "5", "6", "7", "8"],
        ["1.5", "2.5", "3.5", "4.5", "5.5", "6.5", "7.5", "8.5"],
    ],
)
def test_means_and_whole_numbers_are_no_caution(column, tmp_path):
    text = "cycles,instructions,misses\n" + "".join(f"{c},{i},{m}\n" for (c, i, _), m in zip(ROWS, column, strict=True))
    _, samples = counts(tmp_path / "d.csv", text)
    assert not any("decimal" in note for note in samples.notes)


def test_one_energy_with_decimals_is_no_caution(tmp_path):
    text = "cycles,instructions,pkg_energy_j\n" + "".join(f"{c},{i},{m}{'.5' if m == 10 else ''}\n" for c, i, m in ROWS)
    _, samples = counts(tmp_path / "d.csv", text)
    assert not any("decimal sign that" in note for note in samples.notes)


# ------------------------------------------------------------------ tables between blanks, and what a message says

BLANKS = "run  cycles  instructions  misses\n" + "".join(
    f"r{i}   {c}    {n}      {m}\n" for i, (c, n, m) in enumerate(ROWS)
)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("1065    2085", "1065", "line 7: expected 4 fields as in the header, found 3. Found: 'r5   1065      11'"),
        ("1065", "1065    1065", "line 7: expected 4 fields as in the header, found 5"),
        ("\nr5", "r5", "line 6: expected 4 fields as in the header, found 7"),
        ("1065", "10 65", "line 7: expected 4 fields as in the header, found 5"),
    ],
)
def test_a_damaged_row_between_blanks_is_named(old, new, told, tmp_path):
    assert old in BLANKS
    with pytest.raises(FormatError) as refused:
        counts(tmp_path / "d.txt", BLANKS.replace(old, new))
    assert told in str(refused.value)


def test_a_table_between_blanks_that_was_cut_says_so(tmp_path):
    with pytest.raises(FormatError, match="line 9: the file ends in the middle of a row"):
        counts(tmp_path / "d.txt", BLANKS[:-12])


def test_a_header_between_blanks_begins_another_run(tmp_path):
    header, rows = BLANKS.split("\n", 1)
    found, samples = counts(tmp_path / "d.txt", f"{BLANKS}{header}\n{rows.replace('   1065 ', '   1165 ')}")
    assert len(samples.table["run"].unique()) == 16
    assert found["instructions"] == 2 * sum(n for _, n, _ in ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "cycles and instructions were counted\nfor 3 hours on 2 machines\nand this is what we found\n",
        "run cycles instructions\na 1 2 3 4\nb 1\nc 1 2\nd\n",
        "total 12\ndrwxr-xr-x 2 root root 4096 Nov 27 11:19 a\n-rw-r--r-- 1 root root 67 Nov 27 11:19 b\n",
    ],
)
def test_prose_is_no_table(text, tmp_path):
    with pytest.raises(FormatError):
        counts(tmp_path / "d.txt", text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "run=a cycles=10 instructions=20\n" * 3 + "run=b cycles=10 cycles=11 instructions=20\n",
            "the key cycles stands twice",
        ),
        ("run=a cycles=10 instructions=20\n" * 3 + "run=b cycles=1,0 instructions=20\n", "'cycles=1,0' is none"),
        ("| run | cycles | instructions |\n|---|---|---|\n| a | 10 | 20 |\n| b | 11 |\n", "Found: '| b | 11 |'"),
        ("| run | cycles | instructions |\n|---|---|---|\n| a | 10 | 20 |\n| b | 11", "ends in the middle of a row"),
        (SIMPLEPERF[:-20], "the file ends in the middle of a line"),
        (SIMPLEPERF.replace("3000,", "30,00,"), "expected a count and an event, as simpleperf"),
        ('[{"jmhVersion":"1.36","benchmark":"a.B.c"}]', "JMH's table: scores per operation"),
        ('{"core" : "S0-D0-C0", "aggregate-number" : 2, "GHz" : "3.1", "insn per cycle" : "1.20"}\n', "--metric-only"),
        (HEADER + "     1.0001      1,000      cycles\n", "perf"),
        (
            "event,raw,scaled\ncycles,1000,1000\ninstructions,1000,2000\nmisses,10,40\n",
            "raw, scaled tell several numbers",
        ),
    ],
)
def test_what_is_wrong_is_said(text, told, tmp_path):
    with pytest.raises(FormatError) as refused:
        counts(tmp_path / "d.txt", text)
    assert told in str(refused.value)


# ------------------------------------------------------------------ turned tables, appended files


@pytest.mark.parametrize(
    ("columns", "share"),
    [("enabled,running", [1.0, 0.5, 0.25]), ("time_enabled,time_running", [1.0, 0.5, 0.25])],
)
def test_how_long_events_were_counted_is_no_run(columns, share, tmp_path):
    text = (
        f"event,scaled,{columns}\ncycles,1000,100000,100000\ninstructions,2000,100000,50000\nmisses,40,100000,25000\n"
    )
    found, samples = counts(tmp_path / "d.csv", text)
    assert found == {"cycles": 1000, "instructions": 2000, "misses": 40}
    by_event = samples.table.set_index("event")["running"].to_dict()
    assert [by_event[e] for e in ("cycles", "instructions", "misses")] == share


@pytest.mark.parametrize("names", [("before", "after"), ("baseline", "scaled"), ("run1", "run2"), ("gcc", "clang")])
def test_columns_of_turned_tables_are_runs(names, tmp_path):
    text = f"event,{names[0]},{names[1]}\ncycles,1000,1100\ninstructions,2000,2200\nmisses,40,50\n"
    found, samples = counts(tmp_path / "d.csv", text)
    assert found["cycles"] == 2100
    assert len(samples.table["run"].unique()) == 2


def test_a_turned_table_of_exactly_100_is_refused_in_words(tmp_path):
    """A run in which every event is exactly 100 ended in a KeyError."""
    with pytest.raises(FormatError, match="per cent"):
        counts(tmp_path / "d.csv", "event,a,b\ncycles,100,110\ninstructions,100,90\nmisses,100,95\n")


def test_tables_of_google_benchmark_put_one_after_another_are_runs(tmp_path):
    table = (
        "name,iterations,real_time,cpu_time,time_unit,CYCLES,INSTRUCTIONS,MISSES\n"
        '"BM_a/8",1000,10,10,ns,30,60,2\n"BM_a/64",100,100,100,ns,300,600,20\n'
    )
    found, samples = counts(tmp_path / "d.csv", table + table.replace(",30,", ",31,"))
    assert found["CYCLES"] == 30000 + 30000 + 31000 + 30000
    assert list(samples.runs.index) == ["d", "d (2)"]


def test_numbers_of_papis_regions_are_no_events(tmp_path):
    told = {"parent_id": "-1", "real_time_nsec": "4000", "PAPI_TOT_CYC": "9000", "PAPI_TOT_INS": "18000"}
    regions = [{"name": name, "id": str(i)} | told for i, name in enumerate("ab")]
    text = json.dumps({"papi_version": "6.0", "threads": [{"id": "0", "regions": regions}]})
    assert counts(tmp_path / "d.json", text)[0] == {"PAPI_TOT_CYC": 18000, "PAPI_TOT_INS": 36000}


def test_an_event_that_a_region_of_papi_lacks_is_told(tmp_path):
    told = {"real_time_nsec": "4000", "PAPI_TOT_CYC": "9000", "PAPI_TOT_INS": "18000", "PAPI_L2_TCM": "7"}
    regions = [{"name": name} | told for name in "abc"]
    whole = json.dumps({"threads": [{"id": "0", "regions": regions}]})
    assert not any("missing" in n for n in counts(tmp_path / "d.json", whole)[1].notes)
    del regions[1]["PAPI_L2_TCM"]
    damaged = json.dumps({"threads": [{"id": "0", "regions": regions}]})
    assert "d.json: missing counts: PAPI_L2_TCM 1 of 3" in counts(tmp_path / "d.json", damaged)[1].notes


@pytest.mark.parametrize(
    "named", ["{}_scaled", "{}_raw", "{}_unscaled", "{}_corrected", "{} (scaled)", "{}(raw)", "scaled_{}", "Raw {}"]
)
def test_scaled_counts_beside_others_are_refused(named, tmp_path):
    header = f"run,cycles,{named.format('cycles')},instructions,{named.format('instructions')},misses\n"
    text = header + "a,1000,2000,2000,4000,10\nb,1100,2300,2100,4300,12\n"
    said = re.escape(f"cycles and {named.format('cycles')} are two counts of one event")
    with pytest.raises(FormatError, match=said):
        counts(tmp_path / "d.csv", text)


@pytest.mark.parametrize(
    ("columns", "event"),
    [
        ("cycles_scaled,instructions_scaled,misses_scaled", "misses_scaled"),
        ("cycles,instructions,l2_scaled", "l2_scaled"),
        ("cycles,instructions,l2_raw", "l2_raw"),
        ("cycles,instructions,br_corrected", "br_corrected"),
    ],
)
def test_other_columns_called_scaled_are_read(columns, event, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(f"{columns}\n1000,2000,10\n1100,2100,12\n1200,2250,11\n")
    time, work, _ = columns.split(",")
    assert event in pk.read_samples(path, time_event=time, work_event=work).events


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("timed", ["", "1.000100000"])
def test_perfs_fields_in_quotes_are_read(separator, timed, tmp_path):
    """Spreadsheets save them so."""
    rows = [(str(v), "", e, "1000000", s, "", "") for e, v, s in (("cycles", 1000, "100.00"), ("misses", 30, "50.00"))]
    rows.insert(1, ("2000", "", "instructions", "1000000", "100.00", "2.00", "insn per cycle"))
    at = [timed] if timed else []
    plain = "".join(separator.join([*at, *r]) + "\n" for r in rows)
    quoted = "".join(separator.join(f'"{c}"' for c in [*at, *r]) + "\n" for r in rows)
    for text in (plain, quoted):
        found, samples = counts(tmp_path / "d.csv", text)
        assert found == {"cycles": 1000, "instructions": 2000, "misses": 30}
        assert samples.table.set_index("event")["running"]["misses"] == 0.5


def test_a_summary_of_cachegrind_that_is_no_number_is_a_problem(tmp_path):
    text = "# callgrind\nevents: Ir I1mr\nfl=a.c\nfn=f\n1 1000 2\n2 10 0\nsummary: 1010& 2\n".replace(
        "# callgrind\n", ""
    )
    with pytest.raises(FormatError, match="do not add up to the summary"):
        counts(tmp_path / "d.out", f"desc: I1 cache: 32768 B\ncmd: ./a\n{text}")


HEADING = (
    "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message"
)


@pytest.mark.parametrize("errors", ["raise", "collect"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_benchmarks_of_other_counters_are_not_read_under_the_first_heading(errors, ends, tmp_path):
    path = tmp_path / "both.csv"
    row = '"BM_a",1000,5,5,ns,,,,,,100,200'
    first = [f'{HEADING},"CYCLES","INSTRUCTIONS"', row]
    path.write_text(ends.join([*first, f'{HEADING},"CYCLES","BRANCHES"', row, ""]))
    with pytest.raises(FormatError, match="line 3: another heading than in line 1"):
        pk.read_samples(path, errors=errors)
    path.write_text(ends.join([*first, *first, ""]))
    assert pk.read_samples(path, errors=errors).table["run"].nunique() == 2


@pytest.mark.parametrize("ends", ["\n", "\r\n", " \n"])
def test_likwids_tables_have_any_line_ends(ends, tmp_path):
    path = tmp_path / "likwid.csv"
    rows = [
        "STRUCT,Info,3,,", "CPU name:,Intel Xeon,,,", "TABLE,Group 1 Raw,CLOCK,2,,",
        "Event,Counter,HWThread 0,HWThread 1,", "INSTR_RETIRED_ANY,FIXC0,1000,2000,",
        "CPU_CLK_UNHALTED_CORE,FIXC1,500,700,",
    ]  # fmt: skip
    path.write_bytes(ends.join([*rows, ""]).encode())
    assert pk.read_samples(path).table["count"].sum() == 4200


def test_cycles_are_estimated_of_misses_as_kcachegrind_does(tmp_path):
    """Ir + 10 of each first-level miss + 100 of each last-level miss + 10 of each misprediction."""
    path = tmp_path / "cachegrind.out"
    events = "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim"
    path.write_text(
        f"events: {events}\nfl=a.c\nfn=f\n1 1000 1 0 9 2 1 9 4 2 9 5 9 3\nsummary: 1000 1 0 9 2 1 9 4 2 9 5 9 3\n"
    )
    samples = pk.read_samples(path)
    assert samples.intervals()["time"].tolist() == [1000 + 10 * (1 + 2 + 4) + 100 * (0 + 1 + 2) + 10 * (5 + 3)]


@pytest.mark.parametrize("digits", [10, 13, 16, 19])
def test_stamps_of_telegraf_are_s_ms_us_or_ns_by_their_digits(tmp_path, digits):
    path = tmp_path / "t.txt"
    lines = [
        f"intel_pmu_metric,event={event},host=a,cpu=0 count=0i,raw={k * n}i,scaled=0i,enabled={k * 2 * 10**9}i,"
        f"running={k * 10**9}i {(1_760_000_000 + 2 * k) * 10 ** (digits - 10)}"
        for k in range(4) for event, n in (("cycles", 1000), ("instructions", 3000))
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    assert pk.read_samples(path).intervals()["seconds"].dropna().unique().tolist() == [pytest.approx(2.0)]
