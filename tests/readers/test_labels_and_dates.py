"""Dates as the time of rows, and columns that name a parameter of the run."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import FormatError

ROWS = [
    ("2026-01-05T10:00:00", "a", 64, 1000, 2000, 3),
    ("2026-01-05T10:00:01", "a", 64, 1100, 2030, 5),
    ("2026-01-05T10:00:03.5", "a", 64, 1200, 2010, 4),
    ("2026-01-05T11:00:00", "b", 128, 1000, 2005, 3),
    ("2026-01-05T11:00:02", "b", 128, 900, 2006, 9),
]


def table(tmp_path, rows=ROWS, header="time,run,size,cycles,instructions,misses"):
    path = tmp_path / "dates.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize(("separator", "zone"), [("T", ""), (" ", ""), ("T", "Z"), (" ", "+02:00")])
def test_dates_are_the_ends_of_rows(tmp_path, separator, zone):
    s = pk.read_samples(table(tmp_path, [(r[0].replace("T", separator) + zone, *r[1:]) for r in ROWS]))
    each = s.intervals()
    assert each["at"].tolist() == [0, 1, 3.5, 3600, 3602]
    # How long the first row of a run was, no date tells.
    np.testing.assert_array_equal(each["seconds"], [np.nan, 1, 2.5, np.nan, 2])
    assert s.events == ["misses"]


def test_a_word_among_dates_is_a_problem(tmp_path):
    rows = [*ROWS[:4], ("soon", *ROWS[4][1:])]
    with pytest.raises(FormatError, match="line 6: expected a date in column time"):
        pk.read_samples(table(tmp_path, rows))


def test_the_dates_of_a_long_table(tmp_path):
    rows = [(r[0], e, n) for r in ROWS[:3] for e, n in (("cycles", r[3]), ("instructions", r[4]))]
    s = pk.read_samples(table(tmp_path, rows, "time,event,count"))
    assert s.intervals()["at"].tolist() == [0, 1, 3.5]
    assert s.intervals()["work"].tolist() == [2000, 2030, 2010]


def test_a_parameter_of_the_runs_is_no_event(tmp_path):
    s = pk.read_samples(table(tmp_path))
    assert s.events == ["misses"]
    assert any("size (64, 128)" in n and "labels and no counters" in n for n in s.notes)


def test_few_equal_counts_and_zeros_stay_events(tmp_path):
    rows = [(*r[1:2], 1, 0, *r[3:]) for r in ROWS[:3]]
    s = pk.read_samples(table(tmp_path, rows, "run,context-switches,faults,cycles,instructions,misses"))
    assert s.events == ["context-switches", "faults", "misses"]


def test_rows_that_are_there_twice_are_said_to_be(tmp_path):
    rows = [r[3:] for r in ROWS]
    s = pk.read_samples(table(tmp_path, rows + rows, "cycles,instructions,misses"))
    assert any("rows 6 to 10 are identical" in n for n in s.notes)
    assert not pk.read_samples(table(tmp_path, rows, "cycles,instructions,misses")).notes
