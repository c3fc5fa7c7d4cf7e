"""perf stat's text: what it says, and the traps of real dumps."""

import math
from pathlib import Path

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import FormatError

INTERVALS = """\
# started on Mon Nov 30 11:12:56 2020

#           time             counts unit events
     0.400164760       57,21,67,998      cycles:u                                                      (40.46%)
     0.400164760     1,10,80,43,629      instructions:u            #    9.99  insn per cycle           (50.46%)
     0.400164760          26,89,998      branch-misses:u                                               (50.86%)
     0.816350253       57,00,00,000      cycles:u                                                      (40.46%)
     0.816350253       57,00,00,000      instructions:u            #    1.00  insn per cycle
     0.816350253             15,000      branch-misses:u                                               (50.86%)
"""


def _dump(folder: Path, text: str, name: str = "dump.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_interval_text_becomes_samples_with_true_lengths_and_indian_digit_groups(tmp_path):
    samples = pk.read_samples(_dump(tmp_path, INTERVALS))
    assert (samples.time_event, samples.work_event) == ("cycles:u", "instructions:u")
    assert samples.events == ["branch-misses:u"]
    table = samples.table[samples.table["event"] == "branch-misses:u"]
    assert table["count"].tolist() == [2689998, 15000]
    assert table["time"].tolist() == [572167998, 570000000]
    assert table["work"].tolist() == [1108043629, 570000000]  # and never 9.99 cycles' worth
    assert table["seconds"].tolist() == pytest.approx([0.400164760, 0.416185493])
    assert table["running"].tolist() == [0.5086, 0.5086]
    work = samples.table[samples.table["event"] == "instructions:u"]
    assert work["running"].tolist() == [0.5046, 1.0]  # perf prints no percentage where it is 100 %


def test_line_that_makes_no_sense_is_an_error_with_file_line_and_text(tmp_path):
    broken = INTERVALS.replace("15,000      branch-misses:u", "15,000")
    with pytest.raises(FormatError, match=r"dump\.txt, line 9: .*0\.816350253"):
        pk.read_samples(_dump(tmp_path, broken))
    samples = pk.read_samples(_dump(tmp_path, broken), errors="collect")
    assert samples.problems[["file", "line"]].values.tolist() == [["dump.txt", 9]]
    assert len(samples) == 5


def test_not_counted_stays_missing(tmp_path):
    text = INTERVALS.replace("         15,000", "  <not counted>").replace("(50.86%)\n", "(0.00%)\n", 2)
    samples = pk.read_samples(_dump(tmp_path, text))
    last = samples.table.iloc[-1]
    assert math.isnan(last["count"])
    assert last["running"] == 0.0
    assert any("<not counted> 1 times" in n and "branch-misses:u (1 of 2)" in n for n in samples.notes)
    pd.testing.assert_series_equal(samples.table["time"].tail(3), samples.table["time"].iloc[3:6])
