import dataclasses
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.collectors.microbenchmark import passes
from perfkit.collectors.microbenchmark.passes import (
    _added_by_rare,
    _changes,
    _less_apart,
    _longer_on_average,
    _on_average,
    _states,
)
from perfkit.collectors.microbenchmark.policy import Verdict, agreement, best, judge_repetitions, unsettled_by
from perfkit.study.runs import StudyRuns


def test_the_papers_rule_by_hand():
    verdict = judge_repetitions(
        [100, 102, 98, 500, 1], tolerance=0.02
    )  # 1 and 500 drop out; mean of 98, 100, 102 is 100
    assert verdict == Verdict(mean=100, spread=0.02, settled=True)
    assert not judge_repetitions([100, 102, 97, 500, 1], tolerance=0.02).settled


def test_unknown_runs_never_settle_and_are_never_averaged_as_zero():
    verdict = judge_repetitions([100, 100, 100, 100, math.nan], 0.02)
    assert not verdict.settled
    assert verdict.mean == 100
    assert math.isnan(judge_repetitions([math.nan] * 5, 0.02).mean)


def test_a_count_of_nothing_settles():
    assert judge_repetitions([0, 0, 0, 0, 7], 0.02).settled


def test_reports_the_first_settled_else_the_calmest():
    calm, wild, good = Verdict(1, 0.03, False), Verdict(1, 0.3, False), Verdict(1, 0.01, True)
    assert best([wild, calm, good]) == 2
    assert best([wild, calm, Verdict(1, math.nan, False)]) == 1


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=20), st.floats(0.001, 0.5))
def test_outliers_at_both_ends_change_nothing(values, tolerance):
    more = judge_repetitions([*values, max(values) * 10, min(values) / 10], tolerance)
    assert more.mean == pytest.approx(sum(values) / len(values))
    assert min(values) * (1 - 1e-9) <= judge_repetitions(values, tolerance).mean <= max(values) * (1 + 1e-9)


def test_ends_that_the_fence_moved_are_no_second_state():
    """12 cycles with 2 of the fence at either end: no pass took 1.4 times as long as another."""
    row = {"status": "ok", "settled": True, "cycles": 12.0, "cycles_low": 10.0, "cycles_high": 14.0}
    runs = StudyRuns(pd.DataFrame([row]), pd.DataFrame(), (), {"executions": "apart"})
    assert runs.states() == ""
    assert (
        "a quiet pass took over 15% longer than the fastest, up to 1.4 times as long"
        in dataclasses.replace(runs, metadata={}).states()
    )


def test_a_mean_below_the_fast_windows_is_told_as_a_contradiction():
    """ "Its windows take 57.8% less on average than the figure, which is that of the fast windows", said a row."""
    assert _on_average(0.02, 0.03) == _on_average(-0.02, 0.03) == ""
    assert _on_average(0.5, 0.03).startswith("its windows take 50.0% longer on average than the figure")
    less = _on_average(-0.578, 0.03)
    assert less.startswith(
        "the mean of its windows is 57.8% less than the figure, which is about their 10th percentile"
    )
    assert "neither is known" in less


@pytest.mark.parametrize(
    ("message", "differ"),
    [
        (passes._SLOWS.format(0.12, 3360.0), True),
        (passes._VARIES.format(0.28, "longer"), True),
        (passes._RARE.format(0.05), True),
        (passes._STATES.format(2, 5, 0.6), False),
        ("", False),
    ],
)
def test_rows_that_take_longer_on_average_are_not_said_to_be_alike(message, differ):
    """By the words of their messages: "none of N changes it" beside "12 % longer" would be two answers."""
    row = {"status": "ok", "settled": True, "cycles": 3000.0, "tsc": 3000.0, "message": message}
    table = pd.DataFrame([row | {"N": k} for k in range(4)])
    told = StudyRuns(table, pd.DataFrame(), ("N",), {}).same()
    assert ("on average, 4 rows take longer" in told) == differ
    assert ("none of N changes it" in told) == (not differ)


def test_two_states_are_told_once():
    """By the row itself, or else beside the table."""
    row = {"status": "ok", "settled": True, "cycles": 100.0, "cycles_low": 100.0, "cycles_high": 160.0}
    told = passes._STATES.format(2, 5, 0.6)
    assert StudyRuns(pd.DataFrame([row | {"message": told}]), pd.DataFrame(), (), {}).states() == ""
    assert "1.6 times as long" in StudyRuns(pd.DataFrame([row | {"message": ""}]), pd.DataFrame(), (), {}).states()


@pytest.mark.parametrize(
    ("verdicts", "calm", "told"),
    [
        ([(100, 0.001, True)] * 4, [True, True, False, False], "2 of 4 passes were quiet"),
        (
            [(100, 0.001, True), (101, 0.31, False), (100, math.nan, False)],
            [True] * 3,
            "in 2 of 3 quiet passes its rep",
        ),
        ([(100, 0.001, True), (101, 0.31, False), (100, math.nan, False)], [True] * 3, "by up to 31.00%"),
        ([(90, 0.001, True), (100, 0.001, True), (110, 0.01, True)], [True] * 3, "the fastest 3 of 3 are 20.00% apart"),
    ],
)
def test_what_did_not_settle_says_why(verdicts, calm, told):
    verdicts = [Verdict(*one) for one in verdicts]
    assert not agreement(verdicts, calm, 0.02, 3).settled
    assert told in unsettled_by(verdicts, calm, 0.02, 3)


def _seen(n: int, longest: list[float], rest: float = 0.0, squares: float = 0.0, beside: float = 0.0) -> list[float]:
    return [1.0, n, rest, squares, *longest, 1000.0, 1000 * beside, 10 * beside, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("passes", "added"),
    [
        ([_seen(100, [6, 6, 6]), _seen(100, [6, 6, 6]), _seen(100, [6, 0, 0])], 42 / 300),  # seven equal ones are sure
        ([_seen(100, [6, 6, 6]), _seen(100, [6, 6, 6]), _seen(100, [0, 0, 0])], 0),  # six are not
        ([_seen(200, [60, 6, 6], 36, 216)], (36 + 12 + 6 + 6) / 200),  # the longest counts as twice the third
        ([_seen(100, [1, 1, 1], 20, 20, 0.1)], 0.13),  # without what interrupts do to chains
        ([_seen(1000, [0.2, 0.2, 0.2], 9.4, 1.88)], 0),  # within the tolerance of 2 %
        ([], 0),
        ([[1.0, 100, 42, 252, 6, 6, 6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], 0),  # no chain tells what interrupts do
    ],
)
def test_what_rare_executions_add_is_told_from_interrupts_and_chance(passes, added):
    assert _added_by_rare(passes, 0.02) == pytest.approx(added)


@pytest.mark.parametrize(("means", "calm", "told"), [
    ([100, 100, 100, 150, 160], [True] * 5, "2 of 5 quiet passes took longer than the figure, by up to 60.0%"),
    ([100, 100, 100, 150, 160], [True] * 4 + [False], ""),  # one may have been disturbed unseen
    ([100, 100, 100, 102, 102.5], [True] * 5, ""),
    ([100, 150, 160, 170, 180], [True] * 5, ""),  # it never settled, which says so
])  # fmt: skip
def test_a_row_that_settles_on_the_faster_of_two_states_says_so(means, calm, told):
    verdicts = [Verdict(mean, 0.001, settled=True) for mean in means]
    found = _states(agreement(verdicts, calm, 0.02, 3), verdicts, 0.03)
    assert found.startswith(told)
    assert bool(found) == bool(told)


def test_how_much_longer_windows_take_is_told_beside_the_rows_figure():
    """A stranger's row of 575,060 cycles was "+348 %" for +54: that pass had quoted its short executions."""
    passes_own = {"varies": 3.48, "average": 885_000.0}
    assert _longer_on_average(passes_own, 575_060.0) == pytest.approx(0.539, abs=0.001)
    assert _longer_on_average({"varies": 0.0, "average": 900.0}, 800.0) == 0.0  # within the counter's steps
    assert _longer_on_average({"varies": 0.2}, 800.0) == 0.2  # of before averages were kept


def test_the_percentage_is_that_of_the_rows_cycles():
    """A stranger's row of 3,605 cycles was "80 % longer on average" for windows of 5,407: 80 % of another 3,001."""
    windows = {"varies": 0.8, "average": 3_804.0, "average_cycles": 5_407.5}
    assert _longer_on_average(windows, 2_113.8, 3_605.0) == pytest.approx(0.5)
    assert _longer_on_average(windows, 2_113.8) == pytest.approx(0.8, abs=0.001)  # of a row of ticks


@pytest.mark.parametrize(
    ("figure", "later", "told"),
    [
        (3_000.0, 5_400.0, "later executions take 80.0% longer than the figure, 5,400.0 cycles"),
        (3_600.0, 5_400.0, "later executions take 50.0% longer than the figure, 5,400.0 cycles"),
        (6_000.0, 5_400.0, "later executions take 10.0% less than the figure, 5,400.0 cycles"),
        (5_400.0, 5_400.0, ""),
        (3_000.0, 3_030.0, ""),
    ],
)
def test_later_executions_are_told_beside_the_rows_figure(figure, later, told):
    """A pass of 3,000 cycles may be one of a row of 3,600."""
    experiment = {"later": later, "runs": [[2_100.0, 800.0, 3_000.0, None, 20, 20, 20, 1.0]] * 5}
    found = _changes([experiment], figure, 0.03, 0.0)
    assert found.startswith(told)
    assert bool(found) == bool(told)


@pytest.mark.parametrize(
    ("calm", "interval"),
    [
        ([True, True, True, True], (100, 260)),
        ([True, True, False, False], (100, 130)),
        ([True] + [False] * 3, (70, 260)),
    ],
)
def test_a_row_that_never_settles_has_an_interval(calm, interval):
    """One of its passes settled: the interval was empty, beside a figure."""
    runs = [Verdict(100, 0.001, True), Verdict(130, 0.3, False), Verdict(260, 0.4, False), Verdict(70, 0.4, False)]
    if all(calm):
        runs[3] = Verdict(150, 0.4, False)
    said = agreement(runs, calm, 0.02, 3)
    assert (said.settled, said.chosen, said.low, said.high) == (False, (0,), *interval)


@pytest.mark.parametrize(
    ("apart", "cycles", "told"),
    [
        (7_554, 9_446, "took 20.0% less"),
        (9_446, 9_446, ""),
        (9_300, 9_446, ""),
        (12.0, 17.0, ""),
        (math.nan, 9_446, ""),
    ],
)
def test_executions_apart_that_take_less_are_some_of_the_short_ones(apart, cycles, told):
    assert told in _less_apart(apart, cycles, 0.03)
    assert bool(_less_apart(apart, cycles, 0.03)) == bool(told)
