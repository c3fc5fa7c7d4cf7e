"""Bad and suspicious input of CPI stacks: refused with the numbers, or told in words; never dropped silently."""

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, PerfkitWarning, SettingError
from perfkit.fitters.cpi.checks import _same_counter, check_fit, impossible_penalties, inseparable
from perfkit.fitters.cpi.estimator import _limits
from perfkit.fitters.cpi.validation import CpiBracket, CpiR2

QUICK = pk.CpiStack(resamples=0, placebos=2)


def samples_of(columns, run="w", workload=None, **extra):
    """Samples of equally long columns by event; ``extra`` are columns of the long table by interval."""
    wide = pd.DataFrame(columns).astype(float)
    wide["interval"] = np.arange(len(wide))
    for name, values in extra.items():
        wide[name] = values
    long = wide.melt(id_vars=["interval", *extra], var_name="event", value_name="count").assign(run=run)
    runs = pd.DataFrame({"workload": workload or run}, index=pd.Index([run], name="run"))
    return pk.Samples.from_counts(long, time_event="cycles", work_event="instructions", runs=runs)


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    n = 120
    instructions = rng.integers(5_000, 20_000, n).astype(float)
    branch, cache = rng.integers(20, 200, n).astype(float), rng.integers(1, 40, n).astype(float)
    cycles = 0.4 * instructions + 15 * branch + 100 * cache
    return {"cycles": cycles, "instructions": instructions, "branch-misses": branch, "cache-misses": cache}


def told(fit, part):
    return [w for w in fit.warnings if part in w]


# ------------------------------------------------------------------ refused


def test_fewer_intervals_than_unknowns_are_refused_with_the_numbers(columns):
    few = samples_of({k: v[:3] for k, v in columns.items()})
    with pytest.raises(DataError, match=r"3 intervals cannot tell 3 unknowns \(a base and 2 penalties\) apart.*4"):
        QUICK.fit(few)


def test_one_interval_is_refused(columns):
    with pytest.raises(DataError, match="1 interval cannot tell"):
        QUICK.fit(samples_of({k: v[:1] for k, v in columns.items()}))


def test_cycles_of_zero_throughout_are_refused(columns):
    columns["cycles"] = np.zeros(120)
    with pytest.raises(DataError, match="cycles is zero or missing in all 120 intervals"):
        QUICK.fit(samples_of(columns))


def test_a_run_of_missing_values_is_refused(columns):
    columns["cycles"] = np.full(120, np.nan)
    with pytest.raises(DataError, match="cycles is zero or missing in all 120"):
        QUICK.fit(samples_of(columns))


def test_samples_timed_in_seconds_are_refused(columns):
    with pytest.raises(SettingError, match=r"needs cycles as time.*with_axes"):
        QUICK.fit(samples_of(columns, seconds=0.1).with_axes("seconds", "instructions"))


def test_unknown_events_are_refused_with_what_they_may_be(columns):
    with pytest.raises(SettingError, match="unknown event 'branch-mises'; did you mean branch-misses"):
        pk.CpiStack(events=("branch-mises",)).fit(samples_of(columns))
    with pytest.raises(SettingError, match="more than once"):
        pk.CpiStack(events=("branch-misses", "branch-misses")).fit(samples_of(columns))
    with pytest.raises(SettingError, match="bounds name 'nothing'"):
        pk.CpiStack(bounds={"nothing": (0, 1)}).fit(samples_of(columns))


def test_only_clocks_and_no_events_is_refused(columns):
    only = {"cycles": columns["cycles"], "instructions": columns["instructions"], "ref-cycles": columns["cycles"]}
    with pytest.raises(DataError, match="no event but clocks was counted"):
        QUICK.fit(samples_of(only))


def test_only_events_that_never_happen_are_refused(columns):
    columns["branch-misses"] = columns["cache-misses"] = np.zeros(120)
    with pytest.raises(DataError, match=r"no event is left.*branch-misses is zero in all 120"):
        QUICK.fit(samples_of(columns))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"method": "ridge"}, "method is one of"),
        ({"weights": "seconds"}, "weights is one of"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"aggregate": 0}, "aggregate must be at least 1"),
        ({"level": 1.0}, "level must be between"),
        ({"alpha": 0.1}, "alpha is the lasso's price"),
        ({"bounds": {"x": (3, 2)}}, "bounds of 'x' must be"),
        ({"bounds": {"x": (-1, 2)}}, "bounds of 'x' must be"),
    ],
)
def test_settings_outside_their_range_are_refused(settings, match):
    with pytest.raises(SettingError, match=match):
        pk.CpiStack(**settings)


# ------------------------------------------------------------------ left out, and told


def test_intervals_with_missing_counts_are_left_out_and_counted(columns):
    columns["cache-misses"][[3, 50]] = np.nan
    columns["cycles"][7] = np.nan
    columns["instructions"][9] = 0
    with pytest.warns(PerfkitWarning, match="3 of 120 intervals are left out: a count is missing"):
        fit = QUICK.fit(samples_of(columns))
    assert told(fit, "1 of 120 intervals are left out: no cycles or no instructions")
    assert len(fit.data) == 116
    assert fit.penalties.to_dict() == pytest.approx({"branch-misses": 15, "cache-misses": 100})


def test_events_that_are_mostly_missing_are_left_out_and_their_intervals_stay(columns):
    columns["rare"] = np.where(np.arange(120) < 90, np.nan, 1.0)
    columns["never"] = np.full(120, np.nan)
    with pytest.warns(PerfkitWarning, match="never counted, and left out: never"):
        fit = QUICK.fit(samples_of(columns))
    assert told(fit, "missing in over 10% of 120 intervals, and left out: rare")
    assert len(fit.data) == 120


def test_constant_duplicated_and_zero_events_are_left_out_with_the_reason(columns):
    columns["copy"] = columns["branch-misses"]
    columns["double"] = 2 * columns["branch-misses"]
    columns["steady"] = columns["instructions"] / 10
    columns["ticks"] = columns["cycles"] / 4
    columns["none"] = np.zeros(120)
    fit = QUICK.fit(samples_of(columns))
    assert fit.events == ("branch-misses", "cache-misses")
    assert told(fit, "copy is a fixed multiple of branch-misses")
    assert told(fit, "double is a fixed multiple of branch-misses")
    assert told(fit, "steady comes at one constant rate")
    assert told(fit, "ticks comes at one constant rate")
    assert told(fit, "none is zero in all 120 intervals")
    assert fit.penalties.to_dict() == pytest.approx({"branch-misses": 15, "cache-misses": 100})


def test_clocks_are_left_out_unless_named(columns):
    columns["ref-cycles"] = columns["cycles"] * 0.9 + np.arange(120)
    fit = QUICK.fit(samples_of(columns))
    assert told(fit, "left out because they count time or work: ref-cycles")
    named = pk.CpiStack(events=("ref-cycles", "branch-misses"), resamples=0).fit(samples_of(columns))
    assert named.events == ("ref-cycles", "branch-misses")


def test_events_named_twice_by_the_dump_are_an_error_that_says_which(columns):
    s = samples_of(columns)
    again = s.table[s.table["event"] == "cache-misses"]
    table = pd.concat([s.table.astype({"event": str}), again.astype({"event": str})])
    doubled = pk.Samples.from_frame(table.drop(columns=["place", "at", "seconds", "running"]))
    with pytest.raises(DataError, match="event 'cache-misses' is there twice"):
        QUICK.fit(doubled)


# ------------------------------------------------------------------ suspicious, and told


def test_collinear_events_are_told_and_still_solved(columns):
    columns["both"] = columns["branch-misses"] + columns["cache-misses"]
    fit = QUICK.fit(samples_of(columns))
    assert told(fit, "are linear combinations of each other")
    assert np.isinf(fit.vif).all()
    assert fit.r2.in_sample == pytest.approx(1.0)
    assert fit.base == pytest.approx(0.4)


def test_rows_sorted_by_cpi_are_told_and_no_stack_is_carried(columns):
    order = np.argsort(columns["cycles"] / columns["instructions"])
    fit = QUICK.fit(samples_of({k: v[order] for k, v in columns.items()}))
    assert told(fit, "sorted by CPI, not in order of time")
    assert fit.verdict.level == "uncertain"
    assert QUICK.fit(samples_of(columns)).verdict.level == "supported"


def test_mixed_workloads_are_told(columns):
    both = pk.Samples.concat([samples_of(columns, "a", "wrf"), samples_of(columns, "b", "gcc")])
    assert told(QUICK.fit(both), "2 workloads are mixed in one fit (wrf, gcc)")


def test_mixed_measured_and_generated_data_are_told(columns):
    generated, _ = pk.synthetic_cpi(penalties={"branch-misses": 10, "cache-misses": 50}, intervals=50)
    both = pk.Samples.concat([samples_of(columns), generated])
    fit = QUICK.fit(both)
    assert told(fit, "2 kinds of data are mixed in one fit (measured, generated)")
    assert "mixed" in fit.kind


def test_aliases_that_disagree_are_told(columns):
    columns["branch-load-misses"] = columns["branch-misses"] * np.linspace(0.7, 1.3, 120)
    assert told(QUICK.fit(samples_of(columns)), "count the same thing but differ by 1")
    columns["branch-load-misses"] = columns["branch-misses"] + np.arange(120) % 2
    assert not told(QUICK.fit(samples_of(columns)), "count the same thing but differ")


def test_one_counter_under_two_names_is_told_and_takes_the_verdict_down(columns):
    alone = QUICK.fit(samples_of(columns))
    columns["branch-load-misses"] = columns["branch-misses"] + np.arange(120) % 2
    both = QUICK.fit(samples_of(columns))
    assert told(both, "branch-misses and branch-load-misses count the same thing: their penalty is shared")
    assert not any("two names" in r for r in alone.verdict.reasons)
    assert both.verdict.level != "supported"
    assert any("the same thing is counted under two names by 1 pair of events" in r for r in both.verdict.reasons)


def test_counts_that_agree_in_every_interval_are_one_counter(columns):
    columns["branch-misses"] = columns["branch-misses"] + 1000
    columns["some-other-name"] = columns["branch-misses"] + np.arange(120) % 2
    fit = QUICK.fit(samples_of(columns))
    assert "some-other-name" not in fit.events
    assert told(fit, "some-other-name counts as many as branch-misses within 1%")


@pytest.mark.parametrize(("penalty", "verdict"), [(15.0, "supported"), (36.0, "uncertain")])
def test_a_verdict_never_supports_a_misprediction_that_no_core_has(penalty, verdict):
    samples, _ = pk.synthetic_cpi(penalties={"branch-misses": penalty, "cache-misses": 180}, intervals=400)
    fit = pk.CpiStack(resamples=50, placebos=10).fit(samples)
    assert fit.verdict.level == verdict
    assert bool(told(fit, "is more than a misprediction costs on cores of today")) == (penalty > 30)


def test_a_part_that_exceeds_its_whole_is_told(columns):
    columns["LLC-load-misses"] = columns["cache-misses"] * 1.5 + np.arange(120) % 3
    assert told(QUICK.fit(samples_of(columns)), "LLC-load-misses exceeds cache-misses, which contains it, in 100%")


def test_times_that_run_backwards_and_odd_lengths_are_told(columns):
    at = np.concatenate([np.arange(60), np.arange(60)]).astype(float)
    seconds = np.where(np.arange(120) % 10 == 0, 12.0, 1.0)
    fit = QUICK.fit(samples_of(columns, at=at, seconds=seconds))
    assert told(fit, "time runs backwards within w")
    assert told(fit, "12 of 120 intervals of w are over 3 times longer or shorter")


def test_intervals_of_absurd_cpi_are_told(columns):
    columns["instructions"][5] = 1
    assert told(QUICK.fit(samples_of(columns)), "1 of 120 intervals have over 10 times the CPI")


def test_multiplexing_is_told(columns):
    assert told(QUICK.fit(samples_of(columns, running=0.4)), "events were counted 40% of the time")
    assert not told(QUICK.fit(samples_of(columns, running=1.0)), "scaled up")


def test_an_unidentified_base_is_told():
    samples, _ = pk.artefact_cpi(seed=3)
    fit = QUICK.fit(samples)
    assert told(fit, "the base is not identified")
    assert fit.verdict.level == "unsupported"
    assert str(fit.verdict).startswith("The data do not support a stack")


@pytest.mark.parametrize(
    ("event", "penalty", "impossible"),
    [
        ("itlb_misses.walk_pending:u", 188.0, True),  # the paper's Table III
        ("iTLB-load-misses", 11157.7, True),
        ("branch-load-misses", 216.3, True),
        ("ocr.hwpf_l2_rfo.l3_miss", 95.2, False),
        ("branch-misses", 18.0, False),
        ("mem-stores:u", 0.48, False),
        ("cpu_core/dtlb_load_misses.walk_completed/", 116.0, False),
        ("cycle_activity.stalls_l2_miss", 1.2, True),
        ("branch-misses", -3.0, True),
        ("something.unheard_of", 1e6, False),
    ],
)
def test_penalties_that_no_machine_has(event, penalty, impossible):
    assert bool(impossible_penalties([event], np.array([penalty]))) == impossible


@pytest.mark.parametrize(("base", "misses", "counted"), [(4.0, 0.02, False), (0.25, 0.007, True)])
def test_a_penalty_counts_for_the_verdict_where_it_makes_a_hundredth_of_the_cpi(columns, base, misses, counted):
    """Of a CPI of 4, .02 are half of a hundredth; of one of .25, .007 are three hundredths."""
    branch = np.random.default_rng(2).random(120) * 2 * misses / 60 * columns["instructions"]
    columns = {"instructions": columns["instructions"], "branch-misses": branch}
    columns["cycles"] = base * columns["instructions"] + 60 * branch
    fit = QUICK.fit(samples_of(columns))
    assert fit.penalties["branch-misses"] == pytest.approx(60, rel=1e-3)
    said = "1 of the penalties are more than cores of today show"
    assert (said in fit.verdict.reasons) == counted


def test_negative_penalties_of_least_squares_are_told(columns):
    columns["good"] = np.rint(columns["instructions"] * 0.3 - 2 * columns["branch-misses"])
    columns["cycles"] = columns["cycles"] - 0.5 * columns["good"] + 5000
    fit = QUICK.fit(samples_of(columns)).refit(method="ols", form="cpi")
    assert told(fit, "would save")


def test_good_data_gives_no_warning(columns):
    columns["cycles"] = columns["cycles"] * np.random.default_rng(1).normal(1, 0.01, 120)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = pk.CpiStack().fit(samples_of(columns))
    assert fit.warnings == ()


def test_two_names_of_one_counter_that_differ_are_told_with_both_differences(columns):
    columns["branch-load-misses"] = np.round(columns["branch-misses"] * 0.9 + np.tile([0, 1], 60))
    mean = columns["branch-misses"].sum()
    off = 1 - columns["branch-load-misses"].sum() / mean
    [said] = told(QUICK.fit(samples_of(columns)), "count the same thing but differ")
    assert f"and {off:.0%} in total" in said
    assert off == pytest.approx(0.095, abs=0.01)


@pytest.mark.parametrize(("near", "same"), [(19, "x"), (18, None)])
def test_columns_are_one_counter_where_nine_of_ten_intervals_agree(near, same):
    # 21 intervals: the 90 % quantile of their differences is the 19th.
    x = np.full(21, 1000.0)
    counts = SimpleNamespace(
        counts=np.column_stack([x, np.where(np.arange(21) < near, 1001.0, 2000.0)]), events=("x", "y")
    )
    assert _same_counter(counts, 1) == same


@pytest.mark.parametrize(("blocked", "falls"), [(0.60, True), (0.66, False)])
def test_a_fall_of_r2_between_splits_is_told(blocked, falls):
    bracket = CpiBracket(0.5, 0.5, 1.0)
    said = check_fit(("a",), np.ones(1), np.ones(1), 0.5, bracket, CpiR2(0.9, 0.85, blocked), 0.1, "cpi", False)
    assert [w[:36] for w in said] == ["R2 falls from 0.85 on random splits "] * falls


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, []),
        ({"base": np.inf}, ["IPC without misses comes out at zero or below"]),
        ({"base": -0.25}, ["the base CPI is negative (-0.250)"]),
        ({"base": 0.0}, ["the base CPI is zero"]),
        ({"vif": np.array([np.inf, 3.0])}, ["x are linear combinations"]),
        ({"bracket": CpiBracket(0.5, 0.59, 1.0)}, []),
        ({"bracket": CpiBracket(0.5, 0.61, 1.0)}, ["the base is not identified: 0.500"]),
        ({"bracket": CpiBracket(0.5, np.inf, 1.0)}, ["the base is not identified: 0.500"]),
        ({"placebo_r2": 0.44}, []),
        ({"placebo_r2": 0.46}, ["shuffled counts reach an R2 of 0.46"]),
        ({"r2": CpiR2(0.9, 0.85, 0.6), "sorted_rows": True}, []),
    ],
)
def test_each_remark_on_a_fit(changed, told):
    """Each where one figure is changed of a fit that gives none: 0.9 explained, 0.6 by time, 10 % of the CPI apart."""
    sound = {
        "events": ("x", "y"), "penalties": np.ones(2), "vif": np.ones(2), "base": 0.5, "placebo_r2": 0.1, "form": "cpi",
        "bracket": CpiBracket(0.5, 0.5, 1.0), "r2": CpiR2(0.9, 0.85, 0.84), "sorted_rows": False,
    }  # fmt: skip
    said = check_fit(**(sound | changed))
    assert [s[: len(t)] for s, t in zip(said, told, strict=True)] == told


@pytest.mark.parametrize(
    ("form", "bounds", "K", "c"),
    [
        ("ipc", {"base": (0.5, np.inf)}, [[1, 0], [-1, 0], [0, 1]], [0, -2, 0]),  # x0 is 1 / base
        ("ipc", {"base": (0.0, 4.0)}, [[1, 0], [0, 1]], [0.25, 0]),
        ("ipc", {"x": (5.0, 30.0)}, [[1, 0], [-5, 1], [30, -1]], [0, 0, 0]),
        ("cpi", {"base": (0.5, 4.0)}, [[1, 0], [-1, 0], [0, 1]], [0.5, -4, 0]),
        ("cpi", {"x": (5.0, 30.0)}, [[1, 0], [0, 1], [0, -1]], [0, 5, -30]),
    ],
)
def test_bounds_are_lines_of_each_form(form, bounds, K, c):
    found = _limits(form, ("x",), bounds)
    assert found[0].tolist() == K
    assert found[1].tolist() == c


@pytest.mark.parametrize(("real", "told"), [(0.004, "explain next to nothing"), (0.5, "comes from the division")])
def test_what_shuffled_counts_reach_too_is_told_for_what_it_is(real, told):
    """Of an R2 of 0.00 "most" came from the division."""
    said = check_fit(
        ("a",), np.ones(1), np.ones(1), 0.5, CpiBracket(0.5, 0.5, 1.0), CpiR2(real, real, real), real, "ipc", False
    )
    assert len(said) == 1
    assert told in said[0]


def test_the_interval_of_a_sum_that_alone_is_known_is_that_of_its_draws():
    draws = np.random.default_rng(4)
    first, total = draws.uniform(0.1, 0.5, 4000), draws.normal(0.6, 0.02, 4000)
    ((i, j, low, high),) = inseparable(np.column_stack([first, total - first]), 0.95)
    assert (i, j) == (0, 1)
    assert (low, high) == pytest.approx((0.6 - 1.96 * 0.02, 0.6 + 1.96 * 0.02), abs=0.003)


def test_a_message_of_many_events_tells_some_of_what_was_left_out():
    """Fifty sentences followed the reason, and said of independent events of steady counts that they were one."""
    rng = np.random.default_rng(1)
    steady = {f"steady.{k}": rng.poisson(1e5, 30) for k in range(60)}
    others = {f"event.{k}": rng.integers(10, 9_000, 30) for k in range(40)}
    work = {"cycles": rng.integers(400_000, 900_000, 30), "instructions": np.full(30, 1_000_000)}
    frame = pd.DataFrame(work | steady | others)
    table = frame.melt(var_name="event", value_name="count", ignore_index=False).reset_index(names="interval")
    samples = pk.Samples.from_counts(table.assign(run="a"))
    with pytest.raises(DataError, match="And 53 more like these") as caught:
        pk.CpiStack(resamples=0).fit(samples)
    assert "steady.1 counts as many as steady.0 within 1%" in str(caught.value)
    assert "under another name" not in str(caught.value)
    assert len(str(caught.value)) < 1_200


# ------------------------------------------------------------------ what a generic name counts


@pytest.mark.parametrize(
    ("cpu", "level"),
    [
        ("AMD EPYC 9654 96-Core Processor", "L2 on AMD's"),
        ("AMD Ryzen 9 5950X", "L2 on AMD's"),
        ("ARM Neoverse-N1", "L1D on Arm's"),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", ""),
        ("", ""),
    ],
)
def test_a_fit_says_where_cache_misses_are_not_those_of_the_last_level(columns, cpu, level):
    """Their penalty is that of another level: on AMD some 40 cycles, where a miss of the last level costs 200."""
    samples = samples_of(columns)
    samples = replace(samples, runs=samples.runs.assign(parameters=json.dumps({"cpu": cpu})))
    found = told(QUICK.fit(samples), "cache-misses counts misses of")
    assert bool(found) is bool(level)
    assert all(level in each and each.endswith(".") for each in found)


def test_where_cache_misses_are_not_in_the_stack_nothing_is_said_of_them(columns):
    samples = samples_of(columns)
    samples = replace(samples, runs=samples.runs.assign(parameters=json.dumps({"cpu": "AMD EPYC 9654"})))
    assert told(QUICK.fit(samples.select(events=["branch-misses"])), "cache-misses counts") == []
