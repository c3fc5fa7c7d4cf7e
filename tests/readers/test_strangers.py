"""Dumps of strangers: what must never be read as an event, and what must be read at all."""

import json

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError


def write(tmp_path, text, name="dump.txt", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def totals(samples):
    return {str(k): float(v) for k, v in samples.table.groupby("event", observed=True)["count"].sum().items()}


def noted(samples, *words):
    return any(all(w in n for w in words) for n in samples.notes)


# ------------------------------------------------------------------ clocks are no events


@pytest.mark.parametrize(
    ("name", "values", "at", "seconds"),
    [
        ("time", [1.0001, 2.0002, 3.0003], [1.0001, 2.0002, 3.0003], [1.0001, 1.0001, 1.0001]),
        ("timestamp_ms", [100, 200, 300], [0.1, 0.2, 0.3], [0.1, 0.1, 0.1]),
        ("ns", [5_000_000, 4_000_000, 6_000_000], [np.nan] * 3, [0.005, 0.004, 0.006]),
        ("Duration (us)", [50, 40, 60], [np.nan] * 3, [5e-5, 4e-5, 6e-5]),
        ("elapsed_time", [1.5, 1.25, 1.75], [np.nan] * 3, [1.5, 1.25, 1.75]),
        ("wall_time", [7, 3, 9], [np.nan] * 3, [np.nan] * 3),  # of unknown unit
        ("Zeit (s)", [1.5, 2.5, 3.5], [1.5, 2.5, 3.5], [1.5, 1.0, 1.0]),
        ("Laufzeit [ms]", [50, 40, 60], [np.nan] * 3, [0.05, 0.04, 0.06]),
        ("temps (ms)", [100, 200, 300], [0.1, 0.2, 0.3], [0.1, 0.1, 0.1]),
        ("Время (мс)", [100, 200, 300], [0.1, 0.2, 0.3], [0.1, 0.1, 0.1]),
        ("时间（秒）", [1.5, 2.5, 3.5], [1.5, 2.5, 3.5], [1.5, 1.0, 1.0]),
        ("epoch", [1.7e9, 1.7e9 + 1, 1.7e9 + 2], [0, 1, 2], [np.nan, 1, 1]),
    ],
)
def test_columns_that_tell_the_time_are_no_events(tmp_path, name, values, at, seconds):
    rows = "\n".join(f"{t!r},{1000 * i},{2000 * i},{7 * i + 1}" for i, t in zip((3, 1, 2), values, strict=True))
    s = pk.read_samples(write(tmp_path, f"{name},cycles,instructions,misses\n{rows}\n", "t.csv"))
    assert s.events == ["misses"]
    assert noted(s, "columns that tell the time, no events", name)
    one = s.table[s.table["event"] == "misses"]
    np.testing.assert_allclose(one["at"], at)
    np.testing.assert_allclose(one["seconds"], seconds)


def test_a_column_that_counts_up_evenly_is_no_event(tmp_path):
    rows = "\n".join(f"{5000 + 64 * i},{1000 + i * 7 % 5},{2000 + i % 3},{i * 5 % 7}" for i in range(20))
    s = pk.read_samples(write(tmp_path, f"address,cycles,instructions,misses\n{rows}\n", "t.csv"))
    assert s.events == ["misses"]
    assert noted(s, "address (only ever rises")


def test_a_clock_is_kept_where_it_is_asked_for_as_time(tmp_path):
    path = write(tmp_path, "time,instructions,misses\n3,100,5\n4,90,6\n", "t.csv")
    s = pk.read_samples(path, time_event="time")
    assert s.table["time"].tolist() == [3, 4] * 3


def test_a_column_of_times_never_gets_into_a_stack(tmp_path):
    rng = np.random.default_rng(3)
    misses = rng.integers(100, 10_000, 200)
    cycles = 500_000 + 100 * misses + rng.integers(0, 1000, 200)
    frame = pd.DataFrame({"time": cycles / 3e9, "ns": cycles / 3, "cycles": cycles, "instructions": 10**6})
    frame["misses"] = misses
    frame["instructions"] += rng.integers(0, 1000, 200)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = pk.CpiStack(resamples=0, placebos=2).fit(pk.read_samples(tmp_path / "t.csv"))
    assert fit.events == ("misses",)


# ------------------------------------------------------------------ running totals


def running_totals(tmp_path, stamps):
    rng = np.random.default_rng(5)
    counts = rng.integers(100, 1000, (15, 3)) * [1000, 2000, 3]
    frame = pd.DataFrame(counts.cumsum(axis=0), columns=["cycles", "instructions", "misses"])
    if stamps:
        frame.insert(0, "time", np.arange(1, 16) * 0.5)
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv", counts


def test_running_totals_with_time_stamps_become_their_differences(tmp_path):
    path, counts = running_totals(tmp_path, stamps=True)
    s = pk.read_samples(path)
    assert noted(s, "running totals")
    assert totals(s)["misses"] == counts[1:, 2].sum()
    assert s.n_intervals == 14
    assert s.table["seconds"].unique().tolist() == [0.5]
    assert totals(pk.read_samples(path, cumulative=False))["misses"] > counts[:, 2].sum()


def test_running_totals_without_time_stamps_are_asked_about(tmp_path):
    path, counts = running_totals(tmp_path, stamps=False)
    with pytest.raises(FormatError, match="running totals, or counts that happen to rise"):
        pk.read_samples(path)
    assert totals(pk.read_samples(path, cumulative=True))["misses"] == counts[1:, 2].sum()


@pytest.mark.parametrize(("rows", "taken_as_totals"), [(10, True), (9, False)])
def test_nine_steps_that_all_go_up_are_no_accident(tmp_path, rows, taken_as_totals):
    path, counts = running_totals(tmp_path, stamps=True)
    pd.read_csv(path)[:rows].to_csv(path, index=False)
    assert (totals(pk.read_samples(path))["misses"] == counts[1:rows, 2].sum()) == taken_as_totals


def test_totals_that_begin_anew_are_asked_about_and_lose_one_row(tmp_path):
    path, counts = running_totals(tmp_path, stamps=True)
    frame = pd.read_csv(path)
    events = ["cycles", "instructions", "misses"]
    frame.loc[9:, events] -= frame.loc[8, events]
    frame.to_csv(path, index=False)
    with pytest.raises(FormatError, match="ever falls but where all fall together"):
        pk.read_samples(path)
    s = pk.read_samples(path, cumulative=True)
    assert noted(s, "the totals begin anew at 1 row")
    assert totals(s)["misses"] == np.delete(counts, [0, 9], axis=0)[:, 2].sum()
    assert s.table["seconds"].unique().tolist() == [0.5]


def test_gauges_beside_totals_and_a_lone_total_are_no_counts(tmp_path):
    path, counts = running_totals(tmp_path, stamps=True)
    frame = pd.read_csv(path).assign(temperature=[40 + i * 7 % 5 for i in range(15)])
    frame.to_csv(path, index=False)
    s = pk.read_samples(path)
    assert s.events == ["misses"]
    assert totals(s)["misses"] == counts[1:, 2].sum()
    assert noted(s, "readings of a moment", "temperature")
    rng = np.random.default_rng(2)
    many = pd.DataFrame(
        rng.integers(100, 1000, (30, 3)) * [1000, 2000, 3], columns=["cycles", "instructions", "misses"]
    )
    many.insert(0, "time", np.arange(1, 31) * 0.5)
    many.assign(faults=rng.integers(1, 9, 30).cumsum()).to_csv(path, index=False)
    s = pk.read_samples(path)
    assert s.events == ["misses"]
    assert noted(s, "faults only ever rises, a running total")


def test_decimal_commas_make_a_german_clock(tmp_path):
    text = "Zeit (s);cycles;instructions;misses\n0,1;1000;2000;10\n0,2;1100;2100;12\n0,3;1200;1900;9\n"
    s = pk.read_samples(write(tmp_path, text, "t.csv"))
    assert s.events == ["misses"]
    assert s.table["at"].drop_duplicates().tolist() == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "# all counts in thousands\ncycles,instructions,misses\n1000,2000,10\n1200,1900,9\n", "thousands"),
        (
            "t.json",
            '{"unit": "M", "rows": [{"cycles": 10, "instructions": 21}, {"cycles": 11, "instructions": 19}]}',
            "M",
        ),
        ("t.csv", "# 10 million rows of x, MHz\ncycles,instructions,misses\n1000,2000,10\n1200,1900,9\n", ""),
    ],
)
def test_a_scale_told_beside_the_table_is_a_caution(tmp_path, name, text, said):
    s = pk.read_samples(write(tmp_path, text, name))
    assert noted(s, "caution: words around the counts say", said) == bool(said)


def test_a_third_row_that_is_the_sum_of_two_is_a_caution(tmp_path):
    text = "cycles,instructions,misses\n1000,2000,10\n1100,2100,12\n2100,4100,"
    assert noted(pk.read_samples(write(tmp_path, f"{text}22\n", "t.csv")), "caution: line 4 holds the exact sum")
    assert not noted(pk.read_samples(write(tmp_path, f"{text}23\n", "t.csv")), "exact sum")


def test_a_sum_of_all_rows_is_no_row_and_nearly_one_is(tmp_path):
    rows = [(1000, 2100, 7), (900, 1800, 9), (1200, 2500, 4)]
    text = "cycles,instructions,misses\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    assert totals(pk.read_samples(write(tmp_path, text + "3100,6400,20\n", "t.csv")))["cycles"] == 3100
    assert totals(pk.read_samples(write(tmp_path, text + "3100,6400,21\n", "t.csv")))["cycles"] == 6200
    named = text.replace("cycles,", "function,cycles,", 1)
    named = "\n".join([named.split("\n")[0], *(f"{n},{r}" for n, r in zip("fgh", named.split("\n")[1:4], strict=True))])
    s = pk.read_samples(write(tmp_path, f"{named}\nmax,1200,2500,9\n", "t.csv"))
    assert "max" in set(s.table["place"])  # a function may be called so
    assert "max" not in set(
        pk.read_samples(write(tmp_path, f"{named}\nmean,1,1,1\nmax,1200,2500,9\n", "t.csv")).table["place"]
    )


@pytest.mark.parametrize(
    ("name", "is_event"),
    [("MHz", False), ("L1 hit rate", False), ("missRatio", False), ("loads/s", False), ("misses_std", False),
     ("tid", False), ("stalls", True), ("rate_matched", True), ("percentile_checks", True), ("hz_events", True)],
)  # fmt: skip
def test_names_tell_what_is_no_count(tmp_path, name, is_event):
    rows = "\n".join(f"{1000 + i * 7 % 5},{2000 + i % 3},{i * 5 % 7},{i * 3 % 11}" for i in range(12))
    s = pk.read_samples(write(tmp_path, f"cycles,instructions,misses,{name}\n{rows}\n", "t.csv"))
    assert s.events == ["misses", *([name] if is_event else [])]


def test_a_sweep_over_sizes_is_no_running_total(tmp_path):
    rows = "\n".join(f"{100 * 2**i},{200 * 2**i},{3 * 2**i}" for i in range(15))
    s = pk.read_samples(write(tmp_path, f"cycles,instructions,misses\n{rows}\n", "t.csv"))
    assert totals(s)["misses"] == 3 * (2**15 - 1)


# ------------------------------------------------------------------ tables that were divided


def test_rates_are_refused_and_restored_where_the_table_tells_how(tmp_path):
    rng = np.random.default_rng(1)
    instructions = rng.integers(10**5, 10**7, 30)
    misses, cycles = rng.integers(10, 1000, 30), rng.integers(10**5, 10**7, 30)
    frame = pd.DataFrame({"misses": misses, "cycles": cycles, "instructions": instructions})
    rates = frame.div(instructions, axis=0)
    rates.to_csv(tmp_path / "rates.csv", index=False)
    with pytest.raises(FormatError, match="instructions is 1 in every row, so the columns were divided by it"):
        pk.read_samples(tmp_path / "rates.csv")
    rates.assign(total_instructions=instructions).to_csv(tmp_path / "with.csv", index=False)
    s = pk.read_samples(tmp_path / "with.csv")
    assert noted(s, "multiplied by total_instructions, they are counts again")
    for event, count in frame.sum().items():
        assert totals(s)[event] == pytest.approx(count, rel=1e-9)
    (frame / frame.max()).to_csv(tmp_path / "scaled.csv", index=False)
    with pytest.raises(FormatError, match="fractions below 1000"):
        pk.read_samples(tmp_path / "scaled.csv")


def test_equal_instructions_of_whole_counts_are_no_rates(tmp_path):
    rows = "\n".join(f"{1000 + i * 7 % 5},1000000,{i % 7}" for i in range(9))
    s = pk.read_samples(write(tmp_path, f"cycles,instructions,misses\n{rows}\n", "t.csv"))
    assert s.n_intervals == 9


# ------------------------------------------------------------------ outputs appended to one file


def appended(kind, i, events=("cycles", "instructions", "cache-misses")):
    values = zip((1000 + 7 * i, 500 + 3 * i, i), events, strict=False)
    if kind == "csv":
        return "".join(f"{v},,{e},1000,100.00,,\n" for v, e in values)
    if kind == "json":
        form = '{{"counter-value" : "{}.000000", "unit" : "", "event" : "{}", "pcnt-running" : 100.00}}\n'
        return "".join(form.format(v, e) for v, e in values)
    lines = "".join(f"{v:>16}      {e}\n" for v, e in values)
    return f"\n Performance counter stats for './a':\n\n{lines}\n       0.1 seconds time elapsed\n\n"


@pytest.mark.parametrize("kind", ["csv", "json", "text"])
def test_outputs_appended_to_one_file_are_runs(tmp_path, kind):
    s = pk.read_samples(write(tmp_path, "".join(appended(kind, i) for i in range(4)), "app.txt"))
    assert list(s.runs.index) == ["app", "app (2)", "app (3)", "app (4)"]
    assert s.events == ["cache-misses"]
    assert s.table[s.table["event"] == "cycles"]["count"].tolist() == [1000, 1007, 1014, 1021]


def test_appended_outputs_of_other_events_and_a_cut_one_are_runs(tmp_path):
    text = appended("csv", 0) + appended("csv", 1, ("cycles", "instructions", "branches")) + appended("csv", 2)[:60]
    s = pk.read_samples(write(tmp_path, text), errors="collect")
    assert s.table.groupby("run", observed=True)["event"].apply(list).tolist() == [
        ["cycles", "instructions", "cache-misses"],
        ["cycles", "instructions", "branches"],
        ["cycles", "instructions"],
    ]


def test_an_event_given_twice_is_one_output(tmp_path):
    same = "10,,cycles,1000,100.00,,\n20,,instructions,1000,100.00,,\n10,,cycles,1000,100.00,,\n"
    assert len(pk.read_samples(write(tmp_path, same)).runs) == 1
    shared = "100,,cycles,500,50.00,,\n20,,instructions,500,50.00,,\n104,,cycles,500,50.00,,\n"
    s = pk.read_samples(write(tmp_path, shared))
    assert (len(s.runs), s.events) == (1, ["cycles#2"])


@pytest.mark.measures
def test_many_appended_outputs_take_time_in_proportion(tmp_path):
    """Read 2,000 of them in less than 20 times what 200 take; what is quadratic takes 100 times as long."""
    import time

    def seconds(n):
        path = write(tmp_path, "".join(appended("csv", i) for i in range(n)), f"{n}.csv")
        begin = time.process_time()
        assert len(pk.read_samples(path).runs) == n
        return time.process_time() - begin

    seconds(10)
    few = min(seconds(200) for _ in range(3))
    assert seconds(2000) < 20 * few


# ------------------------------------------------------------------ formats of further tools


def test_google_benchmark_counts_are_per_iteration(tmp_path):
    entry = {"name": "BM_a", "run_name": "BM_a", "run_type": "iteration", "iterations": 10, "real_time": 100.0}
    entry |= {"time_unit": "ns", "CYCLES": 300.0, "INSTRUCTIONS": 600.0, "BRANCH-MISSES": 3.0, "bytes_per_second": 1e9}
    mean = entry | {"run_type": "aggregate", "aggregate_name": "mean"}
    whole = {"context": {"host_name": "box"}, "benchmarks": [entry, entry | {"name": "BM_b"}, mean]}
    s = pk.read_samples(write(tmp_path, json.dumps(whole), "b.json"))
    assert totals(s) == {"CYCLES": 6000, "INSTRUCTIONS": 12000, "BRANCH-MISSES": 60}
    assert s.table["seconds"].unique().tolist() == [pytest.approx(1e-6)]
    assert noted(s, "bytes_per_second")
    assert noted(s, "1 statistics over repetitions")
    assert (s.runs["host"].iloc[0], s.n_intervals) == ("box", 2)
    for e in whole["benchmarks"]:
        del e["CYCLES"], e["INSTRUCTIONS"], e["BRANCH-MISSES"], e["bytes_per_second"]
    with pytest.raises(FormatError, match="times only"):
        pk.read_samples(write(tmp_path, json.dumps(whole), "b.json"))


def test_simpleperf_text_and_running_totals(tmp_path):
    one = "Performance counter statistics:\n\n#       count  event_name    # count / runtime\n"
    outputs = [
        f"{one}  {3000 * i:,}  cpu-cycles    # 3.0 GHz  (100%)\n  {6000 * i:,}  instructions  # 2.0  (100%)\n"
        f"  {30 * i}  branch-misses  # 0.5  (50%)\n\nTotal test time: {i}.500000 seconds.\n"
        for i in (1, 2, 3)
    ]
    s = pk.read_samples(write(tmp_path, "".join(outputs)))
    assert noted(s, "running totals of 3 outputs")
    assert totals(s) == {"cpu-cycles": 9000, "instructions": 18000, "branch-misses": 90}
    assert s.intervals()["seconds"].tolist() == [1.5, 1.0, 1.0]
    with pytest.raises(FormatError, match="running totals"):
        pk.read_samples(write(tmp_path, "".join(outputs[:2])))


def test_uprof_reads_its_table_of_functions(tmp_path):
    text = (
        "AMD uProf Profile Report\nTarget,./a.out\n\nHOT FUNCTIONS\nFUNCTION,CYCLES_NOT_IN_HALT,RETIRED_INST,IPC\n"
        '"main(int, char**)",1000,2000,2.0\nfoo,2000,4000,2.0\n\nHOT MODULES\nMODULE,CYCLES_NOT_IN_HALT,RETIRED_INST\n'
        "a.out,3000,6000\n"
    )
    s = pk.read_samples(write(tmp_path, text, "u.csv"))
    assert totals(s) == {"CYCLES_NOT_IN_HALT": 3000, "RETIRED_INST": 6000}
    assert (s.time_event, s.work_event) == ("CYCLES_NOT_IN_HALT", "RETIRED_INST")
    assert sorted(s.table["place"].unique()) == ["foo", "main(int, char**)"]
    assert noted(s, "3 lines of other tables")


def test_streamline_columns_get_the_names_of_other_tools(tmp_path):
    text = "Index,Cycles:CPU Cycles (Cortex-A76),Instructions:Executed (Cortex-A76),Branch:Mispredicted (Cortex-A76)\n"
    s = pk.read_samples(write(tmp_path, text + "1,1000,2000,10\n2,2000,4000,20\n", "s.csv"))
    assert totals(s) == {"cycles": 3000, "instructions": 6000, "branch-misses": 30}
    assert noted(s, "Branch:Mispredicted (Cortex-A76) as branch-misses")


NO_COUNTS = {
    "pyperf's JSON": '{"benchmarks": [{"metadata": {"name": "b"}, "runs": [{"values": [0.1]}]}], "version": "1.0"}\n',
    "`perf script`": "a.out  4242 [001] 12345.678901:     250000 cycles:u:      401136 main+0x16 (./a.out)\n",
    "`perf report`": "# Samples: 4K of event 'cycles:u'\n#\n# Overhead  Command  Symbol\n#\n    62.05%  a  [.] main\n",
    "AMDuProfPcm's": "AMDuProfPcm, version 4.2.850\n\nCORE METRICS\nUtilization (%),IPC\n99.0,2.00\n",
    "Intel PCM's": "System,,,,Core0 (Socket 0),,\nDate,Time,EXEC,IPC,EXEC,IPC,INST\n1,10:00,0.5,2.0,0.5,2.0,6000\n",
    "VTune's summary": "Hierarchy Level,Metric Name,Metric Value\n0,Elapsed Time,1.001\n0,CPI Rate,0.5\n",
    "Arm topdown-tool's": "run,stage,group,metric,value,units\n1,1,Topdown_L1,Frontend Bound,20.1,percent of slots\n",
    "nanoBench's": "CORE_CYCLES: 3000.00\nINST_RETIRED: 6000.00\n",
    "uarch-bench's": "** Running group basic : Basic **\n   Benchmark    Cycles\n   add    1.00\n",
    "--metric-only": "time,insn per cycle,branch-misses of all branches,\n1.000100000,2.10,1.20,\n",
    "--metric-only -x": "1.000100000,2.10,1.20,,\n2.000200000,2.20,1.10,,\n",
    "xctrace's": '<?xml version="1.0"?>\n<trace-query-result><node/></trace-query-result>\n',
}


@pytest.mark.parametrize("name", NO_COUNTS)
def test_outputs_without_counts_are_refused_by_name(tmp_path, name):
    with pytest.raises(FormatError) as refused:
        pk.read_samples(write(tmp_path, NO_COUNTS[name]))
    assert name in str(refused.value)
    assert "perfkit's methods need counts" in str(refused.value)


# ------------------------------------------------------------------ perf's own dialects


def test_topdown_lines_between_the_counts_are_metrics(tmp_path):
    text = (
        " Performance counter stats for './a.out':\n\n         3,000      cycles\n         6,000      instructions\n"
        "            30      branch-misses\n             TopdownL1 (cpu_core)                 #     31.1 %  tma\n"
        "                                                  #     12.0 %  tma_bad_speculation\n\n"
        "       0.001514 seconds time elapsed\n"
    )
    s = pk.read_samples(write(tmp_path, text))
    assert totals(s) == {"cycles": 3000, "instructions": 6000, "branch-misses": 30}
    assert noted(s, "2 lines with derived metrics only")


def test_threads_without_intervals(tmp_path):
    text = (
        " Performance counter stats for process id '4242':\n\n           worker-4243             1,000      cycles\n"
        "           worker-4243             2,000      instructions     #    2.00  insn per cycle\n"
        "           my prog-4244            2,000      cycles\n"
        "           my prog-4244            4,000      instructions\n"
        "\n       1.000100000 seconds time elapsed\n"
    )
    s = pk.read_samples(write(tmp_path, text))
    assert totals(s) == {"cycles": 3000, "instructions": 6000}
    assert list(s.table["place"].cat.categories) == ["worker-4243", "my prog-4244"]


# ------------------------------------------------------------------ escape sequences


def test_colours_and_titles_of_a_terminal_are_taken_off(tmp_path):
    text = "10,,cycles,1000,100.00,,\n5,,instructions,1000,100.00,,\n7,,\x1b[31mx\x1b[0m\x1b]0;pwn\x07,1000,100.00,,\n"
    s = pk.read_samples(write(tmp_path, text))
    assert s.events == ["x"]
    assert noted(s, "3 escape sequences")
    line = '{{"counter-value": "{}", "event": "{}", "pcnt-running": 100.0}}\n'
    escaped = line.format(1, "cycles") + line.format(2, "instructions") + line.format(3, "a\\u001b[31mb\\u202ec")
    assert pk.read_samples(write(tmp_path, escaped)).events == ["abc"]


def test_errors_name_what_to_do(tmp_path):
    with pytest.raises(DataError, match="binary data"):
        pk.read_samples(write(tmp_path, "10,,cycles,1000,100.00,,\n" * 300 + "7,,x\x00y,1000,100.00,,\n"))


def test_a_word_among_the_counts_of_cachegrind_is_a_problem(tmp_path):
    text = "events: Ir I1mr ILmr\nfl=a.c\nfn=main\n1 10 1 1\n2 x 0 0\nsummary: 10 1 1\n"
    s = pk.read_samples(write(tmp_path, text), errors="collect")
    assert s.problems["line"].tolist() == [5]
    assert totals(s)["Ir"] == 10


def _totals(folder, start, wraps=None, bits=48):
    """Write 200 rows of running totals whose counts are known; the counter of a name wraps once in the middle."""
    rng = np.random.default_rng(4)
    misses = rng.integers(4e5, 1.2e7, 200)
    counts = {"cycles": rng.integers(2e8, 4e8, 200), "instructions": rng.integers(3e8, 6e8, 200), "l2-misses": misses}
    columns = {name: start + np.cumsum(values) for name, values in counts.items()}
    if wraps:
        own = columns[wraps] - columns[wraps][100]
        columns[wraps] = np.where(own < 0, 2**bits + own, own)
    path = folder / "totals.csv"
    pd.DataFrame({"time_s": np.arange(200) / 10, **columns}).to_csv(path, index=False)
    return path, counts


@pytest.mark.parametrize("start", [0, 10**9, 10**12])
def test_totals_of_counters_that_ran_long_before_are_no_clocks(tmp_path, start):
    path, counts = _totals(tmp_path, start)
    samples = pk.read_samples(path)
    table = samples.table[samples.table["event"] == "l2-misses"]
    assert table["count"].tolist() == counts["l2-misses"][1:].tolist()
    assert table["time"].tolist() == counts["cycles"][1:].tolist()


@pytest.mark.parametrize(("name", "bits"), [("cycles", 48), ("instructions", 48), ("l2-misses", 32)])
def test_a_counter_that_wrapped_once_is_no_column_of_counts(tmp_path, name, bits):
    path, _ = _totals(tmp_path, 10**10, name, bits)
    with pytest.raises(FormatError, match=f"{name} rise in all rows but 1, where they fall by more than ten times"):
        pk.read_samples(path)


@pytest.mark.parametrize("name", ["Temperatur", "température", "Temperatur (°C)", "Leistung (W)", "load1"])
def test_readings_of_a_moment_are_no_events_in_other_languages_either(tmp_path, name):
    path = tmp_path / "monitor.csv"
    table = pd.DataFrame({"cycles": [2e6, 3e6, 2.5e6], "instructions": [4e6, 5e6, 3e6], "l2": [10, 40, 20]})
    table.assign(**{name: [60, 61, 59]}).to_csv(path, index=False)
    samples = pk.read_samples(path)
    assert "l2" in samples.events
    assert name not in samples.events
    assert any("readings of a moment" in note and name in note for note in samples.notes)


# ------------------------------------------------------------------ files that were cut, put together or are no text


TURNS = [5 * i % 12 for i in range(12)]
ROWS = "cycles,instructions,cache-misses\n" + "".join(f"{900 + i},{2000 + 3 * i},{610000 + i}\n" for i in TURNS)


def test_a_file_that_ends_inside_its_last_number_says_so(tmp_path):
    whole = pk.read_samples(write(tmp_path, ROWS))
    assert not noted(whole, "the last line has no end")
    open_end = pk.read_samples(write(tmp_path, ROWS.rstrip("\n")))
    assert noted(open_end, "the last line has no end")
    assert not noted(open_end, "caution")
    cut = pk.read_samples(write(tmp_path, ROWS.rstrip("\n")[:-2]))
    assert noted(cut, "caution", "digits of its last number are missing", "far smaller than all before it")


def test_a_cut_cell_among_grouped_digits_says_so(tmp_path):
    text = ROWS.replace(",", ";").replace(";610", ";1,610,")
    cut = pk.read_samples(write(tmp_path, text.rstrip("\n")[:-4]))
    assert noted(cut, "caution", "the last line has no end")


def test_a_header_in_another_order_moves_the_columns_below_it(tmp_path):
    more = "cache-misses,cycles,instructions\n" + "".join(f"{5 + i},{400 + i},{800 + i}\n" for i in (0, 2, 1))
    samples = pk.read_samples(write(tmp_path, ROWS + more))
    first = pk.read_samples(write(tmp_path, ROWS))
    assert totals(samples)["cache-misses"] == totals(first)["cache-misses"] + 18
    assert samples.intervals()["time"].sum() == first.intervals()["time"].sum() + 1203
    assert samples.n_intervals == 15
    assert len(samples.runs) == 2


def test_two_columns_of_one_name_keep_their_order_below_another_header(tmp_path):
    text = "cycles,instructions,x,x\n900,2000,5,7\n910,2100,6,8\nx,x,cycles,instructions\n1,2,900,2000\n3,5,950,2100\n"
    found = totals(pk.read_samples(write(tmp_path, text)))
    assert (found["x"], found["x#2"]) == (5 + 6 + 1 + 3, 7 + 8 + 2 + 5)


@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_a_second_header_of_other_columns_is_refused(tmp_path, errors):
    more = "cycles,instructions,branch-misses\n" + "".join(f"{400 + i},{800 + i},{5 + i}\n" for i in (0, 2, 1))
    with pytest.raises(FormatError, match=r"line 14: a second header with other columns than the first \(cycles"):
        pk.read_samples(write(tmp_path, ROWS + more), errors=errors)


def test_a_comment_right_above_the_numbers_is_their_header(tmp_path):
    assert totals(pk.read_samples(write(tmp_path, f"# made by a script\n# {ROWS}"))) == totals(
        pk.read_samples(write(tmp_path, ROWS))
    )
    with pytest.raises(FormatError):  # a comment of other fields names nothing
        pk.read_samples(write(tmp_path, "# cycles,instructions\n" + ROWS.partition("\n")[2]))


def test_rows_that_end_with_a_delimiter_have_no_further_column(tmp_path):
    assert totals(pk.read_samples(write(tmp_path, ROWS.replace("\n", ",\n")))) == totals(
        pk.read_samples(write(tmp_path, ROWS))
    )
    with pytest.raises(FormatError, match="column 4 has no name"):
        pk.read_samples(write(tmp_path, ROWS.replace("\n", ",1\n").replace("misses,1", "misses,")))


def test_a_constant_wall_time_is_the_length_of_each_row(tmp_path):
    text = ROWS.replace("misses\n", "misses,wall_s\n")
    text = text.partition("\n")[0] + "\n" + text.partition("\n")[2].replace("\n", ",0.25\n")
    assert pk.read_samples(write(tmp_path, text)).intervals()["seconds"].tolist() == [0.25] * 12


def test_sums_over_threads_are_told_from_their_other_statistics(tmp_path):
    names = "PAPI_TOT_CYC:Sum,PAPI_TOT_CYC:Max,PAPI_TOT_INS:Sum,PAPI_TOT_INS:Avg,PAPI_BR_MSP:Sum,PAPI_BR_MSP:Min"
    rows = "".join(
        f"{9000 + 7 * i},{5000 + i * i},{8000 + 3 * i},{4000 + i},{50 + i % 5},{10 + i % 3}\n" for i in TURNS
    )
    samples = pk.read_samples(write(tmp_path, f"{names}\n{rows}"))
    assert (samples.time_event, samples.work_event) == ("PAPI_TOT_CYC:Sum", "PAPI_TOT_INS:Sum")
    assert list(samples.events) == ["PAPI_BR_MSP:Sum"]


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"PERFILE2", "perf stat"),
        (b"PK\x03\x04", "Save the sheet as CSV"),
        (b"\x89HDF\r\n\x1a\n", "read_hdf"),
        (b"ARROW1\0\0", "read_feather"),
        (b"SQLite format 3\0", "sqlite3 -header -csv"),
        (b"\x93NUMPY", "CSV with a header"),
    ],
)
def test_files_of_counts_that_are_no_text_are_called_by_name(tmp_path, begin, said):
    path = tmp_path / "dump.bin"
    path.write_bytes(begin + b"\0" * 100)
    with pytest.raises(FormatError, match=said):
        pk.read_samples(path)


def test_a_column_that_is_the_sum_of_the_others_is_no_event(tmp_path):
    frame = pd.read_csv(write(tmp_path, ROWS))
    added = frame.assign(t_ms=100, total=frame.sum(axis=1), sum=frame["cycles"] + 1)
    samples = pk.read_samples(write(tmp_path, added.to_csv(index=False)))
    assert list(samples.events) == ["cache-misses", "sum"]  # what is not their sum stays
    assert noted(samples, "total (the sum of the others)")


def test_rows_that_a_join_left_twice_are_a_caution(tmp_path):
    counts = [123_456 + 7919 * i for i in TURNS]
    rows = pd.DataFrame({"cycles": counts, "instructions": counts[::-1], "cache-misses": TURNS})
    joined = pd.concat([rows, rows.iloc[3:9]]).sort_values(["cache-misses", "cycles"])
    assert noted(
        pk.read_samples(write(tmp_path, joined.to_csv(index=False))), "caution: 6 of 18 rows are identical to others"
    )
    assert not noted(pk.read_samples(write(tmp_path, rows.to_csv(index=False))), "identical")


# ------------------------------------------------------------------ counters that stopped, and records by key


def _stuck(tmp_path, end, rows=12):
    lines = [f"{i + 1}.0,{1000 + 7 * i % 11},{2000 + i % 3},{end if i in (3, 8) else 10 + i % 4}" for i in range(rows)]
    return write(tmp_path, "time_s,cycles,instructions,misses\n" + "\n".join(lines) + "\n", "t.csv")


@pytest.mark.parametrize("bits", [31, 32, 40, 47, 48])
def test_a_counter_at_its_end_is_no_count(tmp_path, bits):
    path = _stuck(tmp_path, 2**bits - 1)
    with pytest.raises(
        FormatError, match=rf"2\^{bits} - 1 is where a counter of {bits} bits ends.*misses: {2**bits - 1}"
    ):
        pk.read_samples(path)
    found = pk.read_samples(path, errors="collect")
    assert found.problems["text"].tolist() == [f"misses: {2**bits - 1}"] * 2
    assert found.table.loc[found.table["event"] == "misses", "count"].isna().sum() == 2
    assert totals(found)["misses"] == sum(10 + i % 4 for i in range(12) if i not in (3, 8))


@pytest.mark.parametrize("count", [2**32, 2**32 - 2, 2**33 - 1])
def test_counts_beside_such_an_end_are_counts(tmp_path, count):
    assert totals(pk.read_samples(_stuck(tmp_path, count)))["misses"] > 2 * count


def test_running_totals_that_stopped_are_refused(tmp_path):
    rows = [f"{i + 1}.0,{10**9 * (i + 1)},{10**8 * (i + 1)},{min(10**9 * i, 2**32 - 1)}" for i in range(30)]
    path = write(tmp_path, "time_s,cycles,instructions,misses\n" + "\n".join(rows) + "\n", "t.csv")
    with pytest.raises(FormatError, match="stopped where a counter of 31 to 48 bits ends: misses"):
        pk.read_samples(path)


def test_records_of_several_measurements_are_not_put_together(tmp_path):
    lines = "cpu cycles=1000i,instructions=2000i 1760000000\nmem misses=7i 1760000000\n"
    with pytest.raises(FormatError, match="the records of one measurement; found cpu, mem"):
        pk.read_samples(write(tmp_path, lines))


def test_a_line_without_keys_among_records_is_a_problem(tmp_path):
    lines = "cycles=1000 instructions=2000 misses=7\n" * 3
    path = write(tmp_path, lines + "restarted\ncycles=1000 instr")
    with pytest.raises(FormatError, match="line 4: expected key=value"):
        pk.read_samples(path)
    found = pk.read_samples(path, errors="collect")
    assert found.problems["line"].tolist() == [4, 5]
    assert "ends in the middle of a line" in found.problems["reason"].iloc[1]
    assert totals(found)["cycles"] == 3000


def test_the_time_that_a_counter_ran_is_no_percentage(tmp_path):
    rows = [f"{i},{e},{c},2000000000,500000000" for i in range(3) for e, c in (("cycles", 900), ("instructions", 800))]
    head = "interval,event,count,enabled,running"
    found = pk.read_samples(write(tmp_path, "\n".join([head, *rows]) + "\n", "t.csv"))
    assert found.table["running"].tolist() == [0.25] * 6
    alone = [r.replace(",2000000000,", ",") for r in rows]
    head = head.replace("enabled,", "")
    found = pk.read_samples(write(tmp_path, "\n".join([head, *alone]) + "\n", "u.csv"))
    assert found.table["running"].isna().all()
    assert noted(found, "running is a time", "left out")


def test_only_cells_below_a_named_one_repeat_it(tmp_path):
    rows = ",1000,2000,3\na,1100,2100,4\n,1200,2200,5\n"
    found = pk.read_samples(write(tmp_path, "bench,cycles,instructions,misses\n" + rows, "t.csv"))
    assert found.runs.index.tolist() == ["t", "a"]
    assert not noted(found, "repeat")


def test_events_of_which_some_have_no_place_keep_their_names(tmp_path):
    path = write(tmp_path, "cycles,instructions,CPU0:misses\n100,90,5\n110,95,6\n", "t.csv")
    assert "CPU0:misses" in pk.read_samples(path).events


def test_the_time_that_a_counter_ran_stands_beside_rows_of_quotients(tmp_path):
    rows = [
        f"{i},{e},{c},2000000000,500000000"
        for i in range(3)
        for e, c in (("cycles", 900), ("IPC", 0.88), ("instructions", 800))
    ]
    found = pk.read_samples(write(tmp_path, "\n".join(["interval,event,count,enabled,running", *rows]) + "\n", "t.csv"))
    assert found.table["running"].tolist() == [0.25] * 6
    assert totals(found) == {"cycles": 2700, "instructions": 2400}


def test_the_empty_cells_of_a_merged_header_are_below_it(tmp_path):
    rows = [f"{i / 2 + 0.5},{100000 + i},{200000 + i},{110000 + i},{210000 + i}" for i in range(4)]
    for head in (",core0,,core1,", ",core0,core0,core1,core1"):
        text = "\n".join([head, "time_s,cycles,instructions,cycles,instructions", *rows]) + "\n"
        found = pk.read_samples(write(tmp_path, text, "t.csv")).table
        both = found.pivot_table(index="place", columns="event", values="count", aggfunc="sum", observed=True)
        assert both.loc["core0"].to_dict() == {"cycles": 400006, "instructions": 800006}
        assert both.loc["core1"].to_dict() == {"cycles": 440006, "instructions": 840006}


def test_counts_of_no_place_and_sums_of_all_are_not_of_the_place_above_them(tmp_path):
    rows = ["0,0,cycles,100", "0,0,instructions,80", "0,1,cycles,200", "0,1,instructions,90", "0,,llc-misses,55"]
    found = pk.read_samples(write(tmp_path, "\n".join(["interval,cpu,event,count", *rows]) + "\n", "t.csv"))
    where = found.table.set_index("event")["place"].astype(str)
    assert where["llc-misses"] == ""
    assert not noted(found, "repeat")


def test_running_totals_at_places_are_differences(tmp_path):
    """The first processor was busy all the time: its cycles rise in even steps, and are no numbering of the rows."""
    steps = np.random.default_rng(5).integers(1000, 9000, (40, 3)).cumsum(axis=0)
    rows = [f"{i},{3000 * i},{a},{b},{c}" for i, (a, b, c) in enumerate(steps, 1)]
    head = "time_s,CPU0:cycles,CPU0:instructions,CPU1:cycles,CPU1:instructions"
    found = pk.read_samples(write(tmp_path, "\n".join([head, *rows]) + "\n", "t.csv"))
    cycles = 3000 * 39 + steps[-1, 1] - steps[0, 1]
    assert totals(found)["cycles"] == cycles
    assert totals(found)["instructions"] == steps[-1, [0, 2]].sum() - steps[0, [0, 2]].sum()


def test_quotients_and_readings_at_places_are_no_events(tmp_path):
    rows = [f"{i},{900 + i},{800 + 7 * i % 5},0.88,{40 + i % 3}" for i in range(1, 6)]
    head = "time_s,CPU0:cycles,CPU0:instructions,CPU0:IPC,CPU0:temp"
    found = pk.read_samples(write(tmp_path, "\n".join([head, *rows]) + "\n", "t.csv"))
    assert set(totals(found)) == {"cycles", "instructions"}
    assert noted(found, "no counts, left out", "IPC")


def test_axes_that_are_asked_for_at_a_place_keep_their_names(tmp_path):
    path = write(tmp_path, "CPU0:cycles,CPU0:instructions,CPU0:misses\n900,700,5\n950,720,6\n930,705,7\n", "t.csv")
    found = pk.read_samples(path, time_event="CPU0:cycles", work_event="CPU0:instructions")
    assert found.time_event == "CPU0:cycles"
    assert found.events == ["CPU0:misses"]


def test_two_numbers_in_a_cell_are_a_shape_where_no_count_has_its_digits_so(tmp_path):
    rows = "128 128,900,700,5\n256 256,950,720,6\n512 512,990,740,7\n"
    found = pk.read_samples(write(tmp_path, "shape,cycles,instructions,misses\n" + rows, "t.csv"))
    assert "shape" not in totals(found)


@pytest.mark.parametrize("column", ["program", "Application", "app"])
def test_a_column_that_names_programs_parts_them(tmp_path, column):
    """Two programs were intervals of one run, and their counts were judged together."""
    path = tmp_path / "mine.csv"
    path.write_text(f"{column},cycles,instructions,branch-misses\nchase,1000,20,1\nsum,1000,3000,0\n")
    samples = pk.read_samples(path)
    assert sorted(samples.runs.index) == ["chase", "sum"]
    assert samples.notes == ()
