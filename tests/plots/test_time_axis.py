import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import perfkit as pk
from perfkit.plots.samples import plot_over_time, plot_throughput
from perfkit.plots.time_axis import TimeAxis


def samples(with_times: bool = True, places: bool = False) -> pk.Samples:
    """Two runs of two intervals; in run b one count of misses is missing."""
    rows = []
    for run, misses in (("a", (10, 20)), ("b", (30, np.nan))):
        for i in range(2):
            for place in ("CPU0", "CPU1") if places else ("",):
                for event, count in (("cycles", 100), ("instructions", 50 * (i + 1)), ("misses", misses[i])):
                    rows.append((run, place, i, 2.0 * (i + 1), 2.0, event, count))
    frame = pd.DataFrame(rows, columns=["run", "place", "interval", "at", "seconds", "event", "count"])
    return pk.Samples.from_counts(frame if with_times else frame.drop(columns=["at", "seconds"]))


def test_runs_are_laid_end_to_end():
    t = TimeAxis.of(samples())
    assert t.position.tolist() == [2, 4, 6, 8]
    assert t.unit == "seconds"
    assert t.starts == [("a", 0.0), ("b", 4.0)]


def test_without_times_intervals_are_numbered():
    t = TimeAxis.of(samples(with_times=False))
    assert t.position.tolist() == [0, 1, 2, 3]
    assert t.unit == "intervals"


@pytest.mark.parametrize("places", [False, True])
def test_throughput_and_rates_are_totals_over_totals(places):
    t = TimeAxis.of(samples(places=places))
    assert t.throughput.tolist() == [0.5, 1.0, 0.5, 1.0]
    assert t.rates("misses").tolist() == pytest.approx([0.2, 0.2, 0.6, np.nan], nan_ok=True)
    assert t.rates("misses", "time").tolist() == pytest.approx([0.1, 0.2, 0.3, np.nan], nan_ok=True)


def test_a_missing_count_stays_missing():
    assert TimeAxis.of(samples()).counts("misses").tolist() == pytest.approx([10, 20, 30, np.nan], nan_ok=True)


def test_a_window_selects_intervals_of_every_event():
    part = TimeAxis.of(samples()).select(2, 6)
    assert part.n_intervals == 2
    assert len(part) == 6
    assert part.runs.index.tolist() == ["a", "b"]


def test_the_interval_that_ends_where_a_window_begins_lies_outside():
    timed, numbered = TimeAxis.of(samples()), TimeAxis.of(samples(with_times=False))
    assert timed.position.tolist() == [2, 4, 6, 8]
    assert timed.selection(0, 8).sum() == 4
    for low in (2, 2.0000000000000004, 1.9999999999999998, 3):
        assert timed.selection(low, 8).sum() == 3
    assert timed.selection(2, 5.999999999999999).sum() == 2
    assert numbered.selection(1, 2).sum() == 2


def test_samples_with_time_and_work_of_their_own_share_intervals():
    frame = pd.DataFrame({"event": ["x", "y"], "time": [10, 30], "work": [10, 10], "count": [1, 2]})
    t = TimeAxis.of(pk.Samples.from_frame(frame))
    assert t.throughput.tolist() == [0.5]
    assert t.rates("y").tolist() == [0.2]


def test_a_value_without_a_neighbour_is_as_long_as_its_interval():
    """The line of one interval, or of an event that is counted in every other, was a row of dots of a pixel."""
    t = TimeAxis.of(samples())
    x, y = t.line(np.array([1.0, np.nan, 3.0, np.nan]))
    assert x.tolist() == [0, 2, 4, 4, 4, 6, 8]  # a second run begins at 4
    assert y.tolist() == pytest.approx([1, 1, np.nan, np.nan, 3, 3, np.nan], nan_ok=True)
    x, y = TimeAxis.of(samples(with_times=False)).line(np.array([1.0, 2.0, np.nan, 3.0]))
    assert x.tolist() == [0, 1, 1.5, 2, 2.5, 3.5]
    assert y[-2:].tolist() == [3, 3]


def test_no_line_leads_from_one_run_to_the_next():
    """It would say that something was measured between them; the rule stands where the second run begins."""
    t = TimeAxis.of(samples())
    x, y = t.line(np.array([1.0, 2.0, 3.0, 4.0]))
    assert x.tolist() == [2, 4, 4, 6, 8]
    assert y.tolist() == pytest.approx([1, 2, np.nan, 3, 4], nan_ok=True)
    numbered = TimeAxis.of(samples(with_times=False))
    assert numbered.starts == [("a", -0.5), ("b", 1.5)]
    assert np.isnan(numbered.line(np.array([1.0, 2.0, 3.0, 4.0]))[1]).tolist() == [False, False, True, False, False]
    one = TimeAxis.of(samples().select(mask=samples().table["run"].eq("a")))
    assert np.isfinite(one.line(np.array([1.0, 2.0]))[1]).all()


def test_a_line_is_broken_where_nothing_was_measured():
    """Intervals of a second that end after 1, 2, 5, 6 and 9 s: nothing is known of 2 to 4 s and of 6 to 8 s."""
    frame = pd.DataFrame({"interval": range(5), "at": [1.0, 2.0, 5.0, 6.0, 9.0], "seconds": 1.0, "count": 1.0})
    frame = pd.concat([frame.assign(event=event) for event in ("cycles", "instructions")])
    x, y = TimeAxis.of(pk.Samples.from_counts(frame)).line(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert x.tolist() == [1, 2, 4, 5, 6, 8, 8, 9]
    assert y.tolist() == pytest.approx([1, 2, np.nan, 3, 4, np.nan, 5, 5], nan_ok=True)
    longer = frame.assign(seconds=[1.0, 1.0, 3.0, 1.0, 3.0] * 2)  # a late reading is a long interval, not a gap
    assert np.isfinite(TimeAxis.of(pk.Samples.from_counts(longer)).line(np.arange(5.0))[1]).all()


@pytest.mark.parametrize("intervals", [1, 2, 5, 60])
def test_intervals_have_whole_numbers(intervals):
    """The axis of a single interval ran from -0.4 to 0.4."""
    table = {"event": ["a"] * intervals, "interval": range(intervals), "time": 2.0, "work": 1.0, "count": 3.0}
    samples = pk.Samples.from_frame(pd.DataFrame(table))
    drawn = (plot_over_time(samples, ["a"]).axes[-1], plot_throughput(samples, Figure().subplots()))
    for axes in drawn:
        assert axes.get_xlabel() == "interval (number)"
        assert all(float(tick).is_integer() for tick in axes.get_xticks())
        assert len(axes.get_xticks()) >= 1
