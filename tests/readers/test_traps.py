"""Every trap of real dumps (the design page's list), each with its own small file."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import FormatError, SettingError
from perfkit.readers.numbers import Token, settle
from perfkit.readers.report import Report


def counts(samples, event, run=None):
    t = samples.table
    rows = (t["event"] == event) & ((t["run"] == run) if run else True)
    return t.loc[rows, "count"].tolist()


def column(samples, event, name):
    return samples.table.loc[samples.table["event"] == event, name].tolist()


def noted(samples, *words):
    return any(all(w in n for w in words) for n in samples.notes)


def test_header_repeated_every_few_intervals(fixtures):
    s = pk.read_samples(fixtures / "header-repeated-every-few-intervals.txt")
    assert s.n_intervals == 6
    assert counts(s, "cycles") == [100, 200, 300, 400, 500, 600]
    assert set(column(s, "instructions", "count")) == {200}  # and not what "9.99 insn per cycle" would make of it
    assert '"started": "Sat Nov 21 06:10:05 2026"' in s.runs["parameters"].iloc[0]


def test_no_started_line_and_crlf(fixtures):
    s = pk.read_samples(fixtures / "no-started-line-and-crlf.txt")
    assert counts(s, "cycles:u") + counts(s, "instructions:u") + counts(s, "branch-misses:u") == [1000, 1500, 7]
    assert column(s, "branch-misses:u", "running") == [1.0]  # no percentage means 100 %
    assert s.events == ["branch-misses:u"]  # and no carriage return in the name


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "indian-digit-groups.txt",
            {"cycles:u": 103364928, "instructions:u": 2930388, "dTLB-store-misses": 1005656, "branch-misses:u": 693},
        ),
        (
            "european-digit-groups-and-decimal-commas.txt",
            {"cycles": 3642649330, "instructions": 1234, "task-clock": 1001.52},
        ),
        ("french-narrow-spaces.txt", {"cycles": 3642649330, "instructions": 12345, "task-clock": 1001.52}),
        ("french-narrow-spaces-latin-1.txt", {"cycles": 3642649330, "instructions": 12345}),
    ],
)
def test_digit_grouping(fixtures, file, expected):
    s = pk.read_samples(fixtures / file)
    assert {e: counts(s, e)[0] for e in expected} == expected
    assert noted(s, "groups digits")


def test_european_percentages(fixtures):
    s = pk.read_samples(fixtures / "european-digit-groups-and-decimal-commas.txt")
    assert column(s, "cycles", "running") == [0.5001]


def test_grouping_is_proven_by_one_number_for_the_whole_file(fixtures):
    s = pk.read_samples(fixtures / "groups-proven-by-one-number.csv")
    assert counts(s, "cycles") == [1234, 3456789]
    assert counts(s, "instructions") == [2345, 4567]


def test_number_that_nothing_explains_is_an_error_and_no_guess(fixtures):
    with pytest.raises(FormatError, match=r"line 2: '1,234' can mean 1234 or 1\.234"):
        pk.read_samples(fixtures / "ambiguous-number.csv")


def test_numbers_that_contradict_each_other(fixtures):
    with pytest.raises(FormatError, match=r"line 4: '\.' is the decimal sign here.*'12\.5'"):
        pk.read_samples(fixtures / "contradicting-numbers.txt")
    s = pk.read_samples(fixtures / "contradicting-numbers.txt", errors="collect")
    assert s.problems["line"].tolist() == [4]
    assert counts(s, "cycles") == [1234567]


def test_hybrid_not_counted_is_missing_and_another_core_is_another_event(fixtures):
    s = pk.read_samples(fixtures / "hybrid-not-counted.txt")
    assert (s.time_event, s.work_event) == ("cpu_core/cycles/", "cpu_core/instructions/")
    assert np.isnan(counts(s, "cpu_atom/cycles/")).tolist() == [True, False, True]
    assert column(s, "cpu_atom/cycles/", "running") == [0.0, 0.12, 0.0]
    assert column(s, "cpu_core/l1d.replacement/", "running") == [1.0, 1.0, 1.0]
    assert noted(s, "<not counted> 4 times", "cpu_atom/cycles/ (2 of 3)")


@pytest.mark.parametrize(
    "file", ["not-supported.txt", "not-supported-says-100-per-cent.csv", "not-supported-says-100-per-cent.json"]
)
def test_not_supported_is_missing_whatever_the_file_says_of_its_share(fixtures, file):
    s = pk.read_samples(fixtures / file, time_event="seconds", work_event="task-clock")
    assert np.isnan(counts(s, "cycles")).all()
    assert np.isnan(column(s, "cycles", "running")).all()
    assert noted(s, "<not supported>", "always for cycles")


def test_not_counted_beside_not_supported(fixtures):
    s = pk.read_samples(
        fixtures / "not-supported-says-100-per-cent.csv", time_event="task-clock", work_event="page-faults"
    )
    assert column(s, "LLC-loads", "running") == [0.0, 0.0]
    assert column(s, "page-faults", "running") == [0.45, 0.45]
    assert column(s, "LLC-loads", "time") == [72.69, 72.69]


def test_mode_differs_between_events_of_a_file(fixtures):
    s = pk.read_samples(fixtures / "mode-differs-between-events.txt", time_event="cycles:u")
    assert s.events == ["cycles", "L1-dcache-load-misses"]
    assert counts(s, "cycles") == [3000]


def test_first_interval_long_and_last_partial_keep_their_true_lengths(fixtures):
    s = pk.read_samples(fixtures / "first-interval-long-last-partial.txt")
    assert s.intervals()["seconds"].tolist() == pytest.approx([12.0, 1.0, 1.0, 0.05])
    assert s.intervals()["at"].tolist() == [12.0, 13.0, 14.0, 14.05]
    assert noted(s, "first interval", "12 times")


def test_runs_put_one_after_another_are_told_apart_by_time(fixtures):
    s = pk.read_samples(fixtures / "two-runs-concatenated.txt")
    assert list(s.runs.index) == ["two-runs-concatenated", "two-runs-concatenated (2)"]
    second = s.select(runs=["two-runs-concatenated (2)"]).intervals()
    assert second["interval"].tolist() == [0, 1]
    assert second["seconds"].tolist() == [0.5, 0.5]  # other intervals than the first run's
    assert second["work"].tolist() == [20, 20]
    assert noted(s, "time goes back at line 9", "2 runs")


def test_second_started_line_begins_a_run_though_time_goes_on(fixtures):
    s = pk.read_samples(fixtures / "two-started-lines.txt")
    assert s.table.groupby("run", observed=True)["interval"].nunique().tolist() == [2, 3]
    assert [p[-8:-7] for p in s.runs["parameters"]] == ["5", "5"]
    assert s.runs["parameters"].nunique() == 2


def test_rows_out_of_time_order_are_one_run_numbered_by_time(tmp_path):
    rows = [(4.0, 40), (1.0, 10), (3.0, 30), (2.0, 20), (6.0, 60), (5.0, 50)]
    lines = "".join(f"     {t:.9f}   {n}   cycles\n     {t:.9f}   {n + 1}   instructions\n" for t, n in rows)
    path = tmp_path / "shuffled.txt"
    path.write_text(lines)
    s = pk.read_samples(path)
    assert len(s.runs) == 1
    assert s.intervals().sort_values("interval")["time"].tolist() == [10, 20, 30, 40, 50, 60]
    assert set(s.intervals()["seconds"]) == {1.0}
    assert noted(s, "not in the order of time")


def test_event_given_twice(fixtures):
    s = pk.read_samples(fixtures / "event-given-twice.txt")
    assert s.events == ["same", "other", "other#2"]
    assert counts(s, "same") == [5, 7]
    assert counts(s, "other#2") == [6, 7]
    assert noted(s, "same", "one is kept")
    assert noted(s, "different counts", "other#2")


def test_units_in_a_column_or_in_the_name(fixtures):
    s = pk.read_samples(fixtures / "units-old-and-new.txt")
    assert s.events == ["task-clock", "duration_time", "power/energy-pkg/"]
    assert counts(s, "task-clock") == [1001.523456]
    assert counts(s, "power/energy-pkg/") == [12.5]
    assert '"duration_time": "ns"' in s.runs["parameters"].iloc[0]


def test_derived_lines_and_advice_are_no_counts(fixtures):
    s = pk.read_samples(fixtures / "derived-lines-and-advice.txt")
    assert len(s) == 2
    assert noted(s, "1 line with derived metrics")


def test_metric_only_output_says_what_to_do(fixtures):
    with pytest.raises(FormatError, match="--metric-only"):
        pk.read_samples(fixtures / "metric-only.txt")


def test_program_output_between_the_counts(fixtures):
    with pytest.raises(FormatError, match=r"program-output-between\.txt, line 3: .*Hello from"):
        pk.read_samples(fixtures / "program-output-between.txt")
    s = pk.read_samples(fixtures / "program-output-between.txt", errors="collect")
    assert s.problems[["line", "text"]].values.tolist() == [[3, "Hello from the measured program"]]
    assert len(s) == 2


@pytest.mark.parametrize(
    ("file", "line", "left"),
    [
        ("cut-in-a-name.txt", 5, 3),
        ("cut-in-a-count.txt", 6, 4),
        ("cut-in-a-percentage.csv", 5, 4),
        ("cut.json", 3, 2),
        ("cut-in-a-row.csv", 4, 6),
        ("ragged-row.csv", 3, 6),
        ("word-in-a-number-column.csv", 3, 9),
        ("negative-count.csv", 3, 6),
    ],
)
def test_truncated_and_corrupted_dumps(fixtures, file, line, left):
    with pytest.raises(FormatError, match=rf"{file}, line {line}: "):
        pk.read_samples(fixtures / file)
    s = pk.read_samples(fixtures / file, errors="collect")
    assert s.problems["line"].tolist() == [line]
    assert s.problems["file"].tolist() == [file]
    assert len(s) == left


def test_a_dump_cut_anywhere_gives_no_wrong_count(fixtures, tmp_path):
    """Cut at every byte: what is read is a part of the whole, or an error."""
    text = (fixtures / "hybrid-not-counted.txt").read_bytes()
    whole = pk.read_samples(fixtures / "hybrid-not-counted.txt").table
    known = {(r.interval, r.event): r.count for r in whole.itertuples(index=False)}
    path = tmp_path / "cut.txt"
    for end in range(len(text) * 2 // 3, len(text), 17):
        path.write_bytes(text[:end])
        try:
            part = pk.read_samples(path, errors="collect", time_event="seconds", work_event="seconds").table
        except (FormatError, SettingError):
            continue
        for row in part.itertuples(index=False):
            expected = known[(row.interval, row.event)]
            assert row.count == expected or (np.isnan(row.count) and np.isnan(expected)), (end, row)


def test_decimal_comma_that_tears_fields(fixtures):
    s = pk.read_samples(fixtures / "decimal-comma-tears-fields.csv", time_event="task-clock", work_event="page-faults")
    assert counts(s, "task-clock") == [72.69]
    assert column(s, "page-faults", "running") == [1.0]


def test_decimal_comma_with_another_separator(fixtures):
    s = pk.read_samples(fixtures / "decimal-comma-semicolon.csv", time_event="task-clock", work_event="page-faults")
    assert counts(s, "task-clock") == [72.69]
    assert column(s, "page-faults", "running") == [0.995]


def test_raw_event_that_holds_the_separator(fixtures):
    s = pk.read_samples(fixtures / "raw-event-holds-the-separator.csv")
    assert s.events == ["cpu/event=0x3c,umask=0x00,name=clk/"]
    assert counts(s, s.events[0]) == [1000, 1000]


def test_repeats_put_a_variance_after_the_event(fixtures):
    s = pk.read_samples(fixtures / "repeats-with-variance.csv", time_event="task-clock", work_event="page-faults")
    assert counts(s, "page-faults") == [9353]
    assert '"page-faults": 0.04' in s.runs["parameters"].iloc[0]


def test_summary_behind_intervals_is_not_counted_twice(fixtures):
    s = pk.read_samples(fixtures / "summary-behind-intervals.csv")
    assert counts(s, "cycles") == [1000, 1000]
    assert noted(s, "2 lines of totals")


def test_json_with_c_spelling(fixtures):
    s = pk.read_samples(fixtures / "nan-and-decimal-comma.json")
    assert counts(s, "cycles") == [1000.5]
    assert counts(s, "instructions") == [900]
    assert column(s, "instructions", "running") == [0.995]


def test_duplicated_and_derived_columns_of_a_hand_made_table(fixtures):
    s = pk.read_samples(fixtures / "duplicated-columns-and-derived.csv")
    assert s.events == ["walk:u", "misses", "misses#2"]
    assert noted(
        s, "IPC (= instructions/cycles)", "CPI (= cycles/instructions)", "mpki (= misses / instructions:u x 1000)"
    )
    assert noted(s, "walk:u", "same values")
    assert noted(s, "misses", "different values", "misses#2")


def test_stale_derived_column_is_said_to_be_off(fixtures):
    s = pk.read_samples(fixtures / "stale-derived-column.csv")
    assert s.events == ["misses"]
    assert noted(s, "off by more than 2 % in 1 of 3 rows")


def test_rows_sorted_by_cpi_keep_their_order(fixtures):
    s = pk.read_samples(fixtures / "rows-sorted-by-cpi.csv")
    assert counts(s, "cycles") == [1500, 2000, 1100, 1000]
    assert s.intervals()["seconds"].isna().all()


def test_aggregates_are_ratios_of_sums(fixtures):
    s = pk.read_samples(fixtures / "rows-sorted-by-cpi.csv")
    assert s.throughput() == (900 + 1500 + 1000 + 1270) / (1500 + 2000 + 1100 + 1000)


def test_header_repeated_in_a_table(fixtures):
    s = pk.read_samples(fixtures / "header-repeated.csv")
    assert list(s.runs.index) == ["header-repeated", "header-repeated (2)"]
    assert counts(s, "cycles", "header-repeated (2)") == [120]


def test_missing_cells_stay_missing(fixtures):
    s = pk.read_samples(fixtures / "missing-cells.csv")
    pd.testing.assert_series_equal(
        s.describe()["missing"], pd.Series([0, 1, 1, 2]), check_index=False, check_names=False
    )
    assert np.isnan(column(s, "walks", "work")).tolist() == [False, False, True]
    assert noted(s, "walks 2 of 3")


# ------------------------------------------------------------------ real outputs of perf 6.1 in all modes

PLACES = {"A": ["CPU0", "CPU1"], "core": ["S0-D0-C0", "S0-D0-C1"], "socket": ["S0"], "die": ["S0-D0"], "node": ["N0"]}


@pytest.mark.parametrize("form", ["txt", "csv", "json"])
@pytest.mark.parametrize("mode", ["A", "core", "socket", "die", "node", "I", "Ir", "Isum", "r", "plain"])
def test_modes_of_perf(fixtures, mode, form):
    path = fixtures / f"real-{mode}.{form}"
    s = pk.read_samples(path, time_event="task-clock", work_event="page-faults")
    places = list(s.table["place"].cat.categories)
    assert places == PLACES.get(mode, [""])
    text = path.read_text()
    lines = [x for x in text.splitlines() if "seconds" not in x]
    ends = {w for line in lines for w in line.replace(",", " ").replace(":", " ").split() if _is_time(w)}
    timed = mode in ("A", "core", "node", "I", "Ir", "Isum")
    assert s.n_intervals == (len(ends) if timed else 1) * len(places)
    assert len(s) == 4 * s.n_intervals
    assert np.isnan(column(s, "cycles", "running")).all()
    assert (np.diff(s.intervals()["at"].unique()) > 0).all()


def _is_time(word):
    whole, _, decimals = word.partition(".")
    return whole.isdigit() and decimals.isdigit() and len(decimals) == 9


@pytest.mark.parametrize("separator", ["tab", "semi", "colon", "two", "space"])
def test_any_separator(fixtures, separator):
    path = fixtures / f"real-core-separated-by-{separator}.txt"
    s = pk.read_samples(path, time_event="task-clock", work_event="page-faults")
    assert list(s.table["place"].cat.categories) == PLACES["core"]
    assert len(s) == sum(not x.startswith("#") and bool(x.strip()) for x in path.read_text().splitlines())


# ------------------------------------------------------------------ numbers of any locale


def _grouped(n, style):
    digits = str(n)
    if style == "indian":
        head, tail = digits[:-3], digits[-3:]
        parts = [head[max(0, i - 2) : i] for i in range(len(head), 0, -2)][::-1]
        return ",".join([*parts, tail])
    return f"{n:,}".replace(",", {"english": ",", "european": ".", "french": "\u202f", "swiss": "'"}[style])


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    style=st.sampled_from(["english", "indian", "european", "french", "swiss"]),
)
def test_numbers_of_any_locale_come_back(numbers, style):
    report = Report("f")
    tokens = [Token(_grouped(n, style), i, whole=True) for i, n in enumerate(numbers)]
    found = settle(tokens, report)
    assert [found.parse(t.text) for t in tokens] == numbers


@settings(max_examples=30, deadline=None)
@given(hundredths=st.lists(st.integers(0, 10**9), min_size=1, max_size=5), decimal=st.sampled_from(".,"))
def test_numbers_with_two_decimals_come_back(hundredths, decimal):
    group = "." if decimal == "," else ","
    swap = str.maketrans({",": group, ".": decimal})
    tokens = [Token(f"{n / 100:,.2f}".translate(swap), i) for i, n in enumerate(hundredths)]
    found = settle(tokens, Report("f"))
    assert [found.parse(t.text) for t in tokens] == [n / 100 for n in hundredths]
