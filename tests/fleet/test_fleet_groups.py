"""Stacks, rankings and changes of a fleet's groups: those of the same samples in memory, and planted changes found."""

import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.fitters.cpi.counts import CpiCounts
from perfkit.fitters.cpi.moments import moments_of_pieces
from perfkit.fitters.cpi.solvers import build_system
from perfkit.samples.parts import write_part

open_samples = partial(pk.open_samples, memory=None)  # a folder is a fleet, a file is not

PENALTIES = {"branch-misses": 15.0, "cache-misses": 80.0}


def machine(folder, name, version, seed, *, base=0.3, penalties=PENALTIES, spread=0.1, intervals=150, processor=""):
    """One run of a machine: its own base and rates, generated."""
    rng = np.random.default_rng([seed, 7])
    own = 1.0 + spread * rng.standard_normal()
    samples, _ = pk.synthetic_cpi(
        base=base * max(own, 0.5), penalties=penalties, intervals=intervals, noise=0.01, seed=seed, workload=name
    )
    write_part(samples, folder / f"machine={name}" / f"{version}{processor}.parquet")


@pytest.fixture
def fleet(tmp_path):
    for i in range(8):
        for k, version in enumerate(("v1", "v2")):
            (tmp_path / f"machine=m{i}").mkdir(exist_ok=True)
            machine(tmp_path, f"m{i}", version, 10 * i + k)
    return open_samples(tmp_path, paths="{version}.parquet")


def test_a_stack_of_a_fleet_is_the_stack_of_its_intervals(fleet):
    for form in ("ipc", "cpi"):
        settings = pk.CpiStack(form=form, resamples=0, placebos=60)
        merged = settings.fit(fleet)
        with _quiet():
            whole = settings.fit(fleet.to_samples())
        table = merged.table.set_index("part")
        assert table["component"].drop("residual").to_dict() == pytest.approx(whole.components.to_dict(), rel=1e-6)
        assert table["penalty"].dropna().to_dict() == pytest.approx(whole.penalties.to_dict(), rel=1e-6)
        facts = merged.groups.iloc[0]
        assert facts["cpi"] == pytest.approx(whole.cpi, rel=1e-12)
        assert facts["r2"] == pytest.approx(whole.r2.in_sample, abs=1e-6)
        assert facts["r2_random"] == pytest.approx(whole.r2.random, abs=0.01)
        assert facts["placebo_r2"] == pytest.approx(whole.placebo_r2, abs=0.02)
        assert (facts["machines"], facts["intervals"]) == (8, 2400)


@pytest.mark.parametrize(("method", "below"), [("ols", True), ("nnls", False)])
def test_the_interval_of_an_event_that_costs_nothing_ends_at_zero_where_no_part_is_negative(tmp_path, method, below):
    for i in range(8):
        (tmp_path / f"machine=m{i}").mkdir()
        machine(tmp_path, f"m{i}", "v1", 10 * i, penalties={"branch-misses": 15.0, "cache-misses": 0.0})
    merged = pk.CpiStack(method=method, form="cpi", resamples=50, placebos=20).fit(
        open_samples(tmp_path, paths="{version}.parquet")
    )
    parts = merged.table.set_index("part")[["low", "component", "high"]].drop("residual")
    assert np.isfinite(parts).all(axis=None)
    assert (parts["low"] <= parts["component"]).all()
    assert (parts["component"] <= parts["high"]).all()
    assert parts.loc["branch-misses", "low"] > 0
    assert bool(parts.loc["cache-misses", "low"] < 0) is below
    assert below or parts.loc["cache-misses", "low"] == 0


def test_an_event_has_the_colour_that_it_has_in_a_single_stack(fleet):
    settings = pk.CpiStack(resamples=0, placebos=2)
    colours = []
    with _quiet():
        for stack in (settings.fit_each(fleet, ["version"]), settings.fit(fleet.to_samples())):
            bars = {bar.get_label(): bar.patches[0].get_facecolor() for bar in stack.plot().containers}
            colours.append({name: colour for name, colour in bars.items() if name in ("base", *PENALTIES)})
    assert len(set(colours[0].values())) == 3
    assert colours[0] == colours[1]


@contextmanager
def _quiet():
    """Without the warnings of fits in memory: that workloads are mixed, that a model meets its own samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_placebo_is_the_mean_over_shuffles(fleet):
    """The moments of shuffled counts, averaged over many shuffles, are those in closed form."""
    events = ("branch-misses", "cache-misses")
    one = fleet.where(machine="m0", version="v1")
    (moments,) = moments_of_pieces(one.pieces()[1], events, 5).values()
    counts = CpiCounts.from_samples(one.to_samples(), events)
    rng = np.random.default_rng(0)
    for form, weights in (("ipc", counts.cycles), ("cpi", counts.instructions)):
        total = np.zeros((4, 4))
        for _ in range(3000):
            shuffled = counts.counts[rng.permutation(len(counts))]
            total += build_system(form, counts.cycles, counts.instructions, shuffled, weights).moments()
        found = moments.placebo(form)
        np.testing.assert_allclose(found * (moments.n / found[0, 0]), total / 3000, rtol=5e-3)


def test_groups_are_those_of_the_runs_with_their_labels(fleet):
    settings = pk.CpiStack(resamples=50)
    stacks = settings.fit_each(fleet, "version")
    assert list(stacks.groups["group"]) == ["v1", "v2"]
    for version in ("v1", "v2"):
        alone = settings.fit(fleet.where(version=version)).table
        mine = stacks.table[stacks.table["group"] == version]
        np.testing.assert_array_equal(mine["component"], alone["component"])
        np.testing.assert_array_equal(mine["low"], alone["low"])
    assert stacks.difference("v1", "v2")["difference"].abs().max() < 0.2
    model = pk.Spire().fit(fleet)
    rankings = model.rank_each(fleet, "machine")
    assert len(rankings.first()) == 8
    with _quiet():
        one = model.rank(fleet.where(machine="m3").to_samples(), bootstrap=0).to_frame().set_index("event")
    mine = rankings.table[rankings.table["group"] == "m3"].set_index("event")
    for event in mine.index:
        assert mine.loc[event, "throughput_bound"] == pytest.approx(one.loc[event, "throughput_bound"], rel=1e-9)
        assert mine.loc[event, "left_fraction"] == pytest.approx(one.loc[event, "left_fraction"], rel=1e-9)
        assert mine.loc[event, "n_samples"] == one.loc[event, "n_samples"]


@pytest.mark.parametrize("by", [["version"], []], ids=["by version", "one stack"])
def test_stacks_that_grow_are_the_stacks_of_everything(fleet, tmp_path, by):
    """Night by night, also from a file, in several random partitions: as fitted to all nights at once."""
    settings = pk.CpiStack(resamples=40, bounds={"branch-misses": (0.0, 400.0)})
    whole = settings.fit_each(fleet, by)
    names = fleet.runs["file"].tolist()
    for seed in range(4):
        night = np.random.default_rng(seed).integers(3, size=len(names))
        parts = [fleet.where(file=[n for n, k in zip(names, night, strict=True) if k == which]) for which in range(3)]
        grown = settings.fit_each(parts[0], by).update(parts[1])
        grown = pk.FleetStacks.load(grown.save(tmp_path / "first.parquet")).update(parts[2])
        order = ["group", "part"]
        pd.testing.assert_frame_equal(
            grown.table.sort_values(order, ignore_index=True), whole.table.sort_values(order, ignore_index=True),
            rtol=1e-7, atol=1e-9,
        )  # fmt: skip
        pd.testing.assert_frame_equal(
            grown.groups.sort_values("group", ignore_index=True), whole.groups.sort_values("group", ignore_index=True),
            rtol=1e-7,
        )  # fmt: skip
    with pytest.raises(DataError, match=r"takes a Fleet; found Samples.*open_samples"):
        whole.update(fleet.to_samples())
    with pytest.raises(SettingError, match="time and work were cycles, instructions"):
        whole.update(replace(fleet, time_event="seconds"))


def test_an_hour_is_a_group(tmp_path):
    samples, _ = pk.synthetic_cpi(intervals=100, seed=1)
    runs = samples.runs.assign(parameters='{"started": "Mon Nov  2 09:59:10 2026"}')
    write_part(pk.Samples(samples.table.assign(at=samples.table["interval"] * 60.0), runs), tmp_path / "a.parquet")
    stacks = pk.CpiStack(resamples=0).fit_each(open_samples(tmp_path), "hour")
    assert list(stacks.groups["group"]) == ["2026-11-02 10:00", "2026-11-02 11:00"]
    assert list(stacks.groups["intervals"]) == [60, 39]
    assert "2026-11-02 09:00: no stack, 1 usable interval" in "".join(stacks.notes)


def test_events_that_are_missing_are_left_out_and_said(tmp_path):
    for i in range(4):
        samples, _ = pk.synthetic_cpi(intervals=60, seed=i, workload=f"w{i}")
        table = samples.table
        if i == 3:
            table = table[table["event"] != samples.events[0]]
        hole = (table["event"] == samples.events[1]) & (table["interval"] < 2)
        table = table.assign(count=table["count"].where(~hole)).reset_index(drop=True)
        table["event"] = table["event"].cat.remove_unused_categories()
        write_part(pk.Samples(table, samples.runs), tmp_path / f"{i}.parquet")
    stacks = pk.CpiStack(resamples=0).fit(open_samples(tmp_path))
    assert samples.events[0] not in set(stacks.table["part"])
    assert "missing in over 10%" in "".join(stacks.notes)
    assert "8 intervals are left out: a count is missing" in "".join(stacks.notes)
    assert stacks.groups["intervals"].item() == 240 - 8


@pytest.mark.parametrize("same", [True, False], ids=["the same machines", "other machines"])
def test_a_planted_change_is_found_where_it_was_planted(tmp_path, same):
    """More branch misses in v2 on zen4 only, with machines that differ by 10 %."""
    for i in range(20):
        processor = "zen4" if i % 2 else "icx"
        for k, version in enumerate(("v1", "v2")):
            if not same and (i // 2) % 2 != k:
                continue
            worse = {**PENALTIES, "branch-misses": 60.0} if (version, processor) == ("v2", "zen4") else PENALTIES
            (tmp_path / f"machine=m{i}").mkdir(exist_ok=True)
            machine(tmp_path, f"m{i}", version, 10 * i + k, penalties=worse, spread=0.05, processor=f"-{processor}")
    fleet = open_samples(tmp_path, paths="{version}-{processor}.parquet")
    changes = pk.fleet_changes(fleet, "version", "v1", "v2", by="processor")
    assert set(changes.found["processor"]) == {"zen4"}
    assert "cycles per instruction" in set(changes.found["quantity"])
    assert changes.table["paired"].all() == same
    assert "zen4" in changes.summary()


def test_a_change_is_relative_to_before_with_its_interval():
    """By hand: ratios 2, 2, 4 have the mean log 4/3 ln 2 and its error ln 2 / 3; t(2) at 97.5 % is 4.302653."""
    from perfkit.fitters.fleet_changes import _apart, _paired

    a, b = np.array([1.0, 3.0, 5.0]), np.array([2.0, 6.0, 20.0])
    ends = [2 ** (4 / 3 + k * 4.302653 / 3) - 1 for k in (0, -1, 1)]
    p = 1 - 4 / np.sqrt(18)  # t(2) = 4
    assert _paired(a, b, 0.95) == pytest.approx((*ends, p), rel=1e-6)
    # 1, 2, 4 and 4, 8, 16: means of logs 2 ln 2 apart, error ln 2 sqrt(2/3), t(4) at 97.5 % 2.776445.
    ends = [2 ** (2 + k * 2.776445 * np.sqrt(2 / 3)) - 1 for k in (0, -1, 1)]
    assert _apart(np.array([1.0, 2.0, 4.0]), np.array([4.0, 8.0, 16.0]), 0.95)[:3] == pytest.approx(ends, rel=1e-6)


def test_machines_with_none_count_in_the_mean():
    """By hand: the means are 2 and 3, so +50 %; where one side has none at all, no interval is told."""
    from perfkit.fitters.fleet_changes import _apart, _paired

    a, b, none = np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 6.0]), np.zeros(3)
    for test in (_paired, _apart):
        change, low, high, p = test(a, b, 0.95)
        assert change == pytest.approx(0.5)
        assert -1 < low < 0.5 < high
        assert 0 < p < 1
        assert test(none, b, 0.95)[0] == np.inf
        assert test(b, none, 0.95)[0] == -1.0
        assert np.isnan(test(none, b, 0.95)[1:3]).all()
        assert test(none, b, 0.95)[3] == pytest.approx(test(b, none, 0.95)[3])


def test_a_printed_change_is_that_of_the_figures_beside_it(tmp_path):
    """Every machine of a generated fleet takes thrice the branch misses: +200 %, not two thirds of their middle."""
    for i in range(4):
        samples, _ = pk.synthetic_cpi(intervals=40, seed=i, workload=f"w{i}")
        for k, version in enumerate(("v1", "v2")):
            (tmp_path / f"machine=m{i}").mkdir(exist_ok=True)
            more = (samples.table["event"] == "branch-misses") & (k == 1)
            more_of = samples.table.assign(count=samples.table["count"].where(~more, samples.table["count"] * 3))
            write_part(pk.Samples(more_of, samples.runs), tmp_path / f"machine=m{i}" / f"{version}.parquet")
    fleet = open_samples(tmp_path, paths="{version}.parquet")
    changes = pk.fleet_changes(fleet, "version", "v1", "v2")
    row = changes.found.iloc[0]
    assert row["change"] == pytest.approx(row["after"] / row["before"] - 1) == pytest.approx(2.0)
    assert "branch-misses per instruction +200.0% (+200.0% to +200.0%)" in changes.summary()


def test_alarms_in_clean_fleets_are_as_rare_as_the_rate_says():
    """Noise only, 200 fleets of 12 machines and 8 quantities: under the null, any discovery is a false one."""
    from perfkit.fitters.fleet_changes import _apart, _discovered, _paired

    rng = np.random.default_rng(5)
    for test in (_paired, _apart):
        alarms = 0
        for _ in range(200):
            p = [test(*rng.gamma(30.0, 1.0, (2, 12)), 0.95)[3] for _ in range(8)]
            alarms += bool(_discovered(pd.DataFrame({"p": p}), 0.05)["changed"].any())
        assert alarms <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05 * 0.95)


def test_of_the_intervals_of_what_was_found_no_more_miss_than_said(tmp_path):
    """Generated fleets, 10 machines against 10, 40 quantities of which half change by up to 10 %, a spread of 10 %.

    The share of missed ones among the found, averaged over fleets (the false coverage rate), is at most 5 %; that of
    95 % intervals of each by itself is well above. What is found is overstated: the interval tells by how much.
    """
    from perfkit.fitters.fleet_changes import _apart, _discovered, coverage_of_found

    rng = np.random.default_rng(11)
    missed, alone, overstated = [], [], []
    for _ in range(150):
        true = np.where(np.arange(40) < 20, rng.uniform(0.0, 0.1, 40), 0.0)
        logs = rng.normal(0.0, 0.1, (2, 40, 10))
        a, b = np.exp(logs[0]), np.exp(logs[1] + np.log1p(true)[:, None])
        table = _discovered(pd.DataFrame({"p": [_apart(x, y, 0.95)[3] for x, y in zip(a, b, strict=True)]}), 0.05)
        found = np.flatnonzero(table["changed"])
        for level, misses in ((coverage_of_found(0.95, len(found), 40), missed), (0.95, alone)):
            ends = [_apart(a[i], b[i], level) for i in found]
            outside = [not low <= true[i] <= high for i, (_, low, high, _) in zip(found, ends, strict=True)]
            misses.append(np.mean(outside) if outside else 0.0)
        overstated += [_apart(a[i], b[i], 0.95)[0] - true[i] for i in found if true[i] > 0]
    assert np.mean(missed) <= 0.05
    assert np.mean(missed) > 0.005, "not merely wide"
    assert np.mean(alone) > 0.1
    assert np.mean(overstated) > 0.02


def test_a_found_change_has_the_wider_interval(tmp_path):
    for i in range(6):
        for k, version in enumerate(("v1", "v2")):
            (tmp_path / f"machine=m{i}").mkdir(exist_ok=True)
            worse = {**PENALTIES, "branch-misses": 60.0} if k else PENALTIES
            machine(tmp_path, f"m{i}", version, 10 * i + k, penalties=worse, spread=0.02)
    fleet = open_samples(tmp_path, paths="{version}.parquet")
    changes = pk.fleet_changes(fleet, "version", "v1", "v2")
    tested = int(changes.table["p"].notna().sum())
    assert 0 < len(changes.found) < tested
    alone = pk.fleet_changes(fleet, "version", "v1", "v2", rate=1e-12).table.set_index("quantity")
    assert not alone["changed"].any()
    level = 1 - 0.05 * len(changes.found) / tested
    wider = pk.fleet_changes(fleet, "version", "v1", "v2", rate=1e-12, level=level).table.set_index("quantity")
    for row in changes.table.to_dict(orient="records"):
        expected = (wider if row["changed"] else alone).loc[row["quantity"]]
        assert (row["low"], row["high"]) == (expected["low"], expected["high"])
        assert row["low"] > 0 or row["high"] < 0 or not row["changed"], "a change's interval is clear of none"


def test_many_intervals_of_few_machines_are_no_evidence(tmp_path):
    """Two machines a side with thousands of intervals: nothing is reported, and why is said."""
    for i in range(4):
        (tmp_path / f"machine=m{i}").mkdir()
        machine(tmp_path, f"m{i}", f"v{i % 2}", i, intervals=2000)
    fleet = open_samples(tmp_path, paths="{version}.parquet")
    changes = pk.fleet_changes(fleet, "version", "v0", "v1")
    assert not changes.table["changed"].any()
    assert changes.table["p"].isna().all()
    assert "3 are needed" in changes.table["why_not"].iloc[0]


def test_machines_that_nobody_named_are_not_compared(tmp_path):
    for day in ("1", "2"):
        (tmp_path / day).mkdir()
        for i in range(4):
            samples, _ = pk.synthetic_cpi(intervals=30, seed=i)
            write_part(samples, tmp_path / day / f"x{i}.parquet")
    with pytest.raises(SettingError, match="which machine each file is of"):
        pk.fleet_changes(open_samples(tmp_path), "file", "1/x0.parquet", "2/x0.parquet")


@pytest.mark.parametrize("same", [("v0", "v0"), (1, "1")])
def test_a_version_is_not_compared_with_itself(tmp_path, same):
    for i in range(2):
        (tmp_path / f"machine=m{i}").mkdir()
        machine(tmp_path, f"m{i}", f"v{i}", i)
    with pytest.raises(SettingError, match="needs two values of 'version'"):
        pk.fleet_changes(open_samples(tmp_path, paths="{version}.parquet"), "version", *same)


def test_intervals_of_few_machines_hold_the_truth(tmp_path):
    """Of three machines the draws alone are less than half as long as they say."""
    held, lengths = 0, []
    for trial in range(30):
        folder = tmp_path / f"{trial}"
        for i in range(3):
            (folder / f"machine=m{i}").mkdir(parents=True)
            machine(folder, f"m{i}", "v1", 1000 * trial + i, spread=0.05, intervals=60)
        table = pk.CpiStack(form="cpi", placebos=1).fit(open_samples(folder, paths="{version}.parquet")).table
        row = table.set_index("part").loc["base"]
        held += row["low"] <= 0.3 <= row["high"]
        lengths.append(row["high"] - row["low"])
    assert held >= 26
    assert np.median(lengths) < 0.15
