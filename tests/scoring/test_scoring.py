"""Scores of the methods on cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.scoring import (
    Evidence,
    importance_scores,
    roof_scores,
    spire_scores,
    stack_scores,
    topdown_scores,
)
from perfkit.scoring.evidence import COMPONENTS, RESOURCES_OF_EVENTS
from perfkit.scoring.importances import resource_importance, resource_study
from perfkit.scoring.spire import _by_rate
from perfkit.scoring.stacks import exact_components, stack_distance
from perfkit.simulators.pmu.truth import Truth

# Event that limits a workload -> resource it belongs to; cycles that one count costs.
LIMITS = {"branch-misses": "misprediction_penalty", "l3.misses": "memory_latency", "uops.p5": "p5"}
COST = {"branch-misses": 20.0, "l3.misses": 200.0, "uops.p5": 1.0}
RESOURCES = ("misprediction_penalty", "memory_latency", "p5", "front_end", "instruction_latency")


def limited_samples(seed: int = 0) -> pk.Samples:
    """Three workloads a limiting event: it takes most of the time in their intervals, the others are rare."""
    rng = np.random.default_rng(seed)
    rows = []
    for limit in LIMITS:
        for copy in range(3):
            for interval in range(12):
                work = 1000.0
                share = {e: rng.uniform(0.6, 0.9) if e == limit else rng.uniform(0.0, 0.03) for e in LIMITS}
                counts = {e: 4 * share[e] * work / COST[e] for e in LIMITS}
                time = work / 4 + sum(counts[e] * COST[e] for e in LIMITS)
                rows += [
                    {
                        "run": f"{limit}-{copy}",
                        "interval": interval,
                        "event": e,
                        "time": time,
                        "work": work,
                        "count": counts[e],
                    }
                    for e in LIMITS
                ]
    frame = pd.DataFrame(rows)
    runs = pd.DataFrame({"workload": list(dict.fromkeys(frame["run"]))}, index=list(dict.fromkeys(frame["run"])))
    return pk.Samples.from_frame(frame, runs=runs, kind="simulated")


def truth_for(samples: pk.Samples, resource_of: dict[str, str]) -> Truth:
    """Give each run the resource of its limiting event as its only sensitive one."""
    runs = [str(r) for r in samples.runs.index]
    speedup = pd.DataFrame(0.0, index=runs, columns=list(RESOURCES))
    for run in runs:
        speedup.loc[run, resource_of[run.rpartition("-")[0]]] = 0.5
    stack = pd.DataFrame({"retire": 1.0}, index=runs)
    return Truth("skylake_x", 2.0, stack, speedup, pd.Series(runs, index=runs))


def test_spire_scores_one_where_its_ranking_is_right():
    samples = limited_samples()
    found = spire_scores(samples, truth_for(samples, LIMITS), top=(1, 2))
    assert len(found.table) == 9
    assert found.table["first_event"].tolist() == [r.rpartition("-")[0] for r in found.table.index]
    assert found.measures.loc["right event in the first 1", "score"] == 1.0
    assert found.measures.loc["right event in the first 1", "baseline"] == pytest.approx(1 / 3)
    assert found.measures.loc["right event in the first 1, against one order", "baseline"] == pytest.approx(
        1 / 3
    )  # one event for all workloads
    assert found.measures.loc["placement", "score"] == 1.0
    assert found.measures.loc["right event in the first 2", "high"] == 1.0
    assert found.kind == "simulated"
    assert not found.left_out


def test_unusual_rates_are_told_apart_by_training_runs_alone():
    training = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [1.0, 1.0, 1.0, 1.0], "c": [1.0, 1.0, 1.0, 2.0]})
    assert _by_rate(training, pd.Series({"a": 2.5, "b": 1.5, "c": 9.0})) == ["c", "b", "a"]
    assert _by_rate(training, pd.Series({"a": 9.0, "b": np.nan, "c": 0.5})) == ["a", "c"]


def test_spire_scores_nothing_where_the_truth_is_another():
    samples = limited_samples()
    events = list(LIMITS)
    turned = {e: LIMITS[events[(k + 1) % 3]] for k, e in enumerate(events)}
    found = spire_scores(samples, truth_for(samples, turned), top=(1,))
    assert found.measures.loc["right event in the first 1", "score"] == 0.0
    assert found.measures.loc["tau", "score"] < 0.5


def test_runs_that_no_event_can_explain_are_left_out_and_named():
    samples = limited_samples()
    resource_of = {**LIMITS, "uops.p5": "instruction_latency"}
    truth = truth_for(samples, resource_of)
    truth.speedup.loc["l3.misses-0"] = 0.001
    found = spire_scores(samples, truth, top=(1,))
    assert found.left_out == {
        "no resource gives a speedup": ("l3.misses-0",),
        "no event counts the bottleneck": ("uops.p5-0", "uops.p5-1", "uops.p5-2"),
    }
    assert len(found.table) == 5
    assert "left out, no event counts the bottleneck: 3" in repr(found)


def test_a_workload_is_never_ranked_by_a_model_that_saw_it():
    samples = limited_samples()
    truth = truth_for(samples, LIMITS)
    one = Truth("skylake_x", 2.0, truth.stack, truth.speedup, pd.Series("same", index=truth.stack.index))
    with pytest.raises(DataError, match=r"only one workload \(same\)"):
        spire_scores(samples, one)


def test_samples_that_are_not_simulated_or_unknown_are_refused():
    samples = limited_samples()
    truth = truth_for(samples, LIMITS)
    measured = pk.Samples(samples.table, samples.runs.assign(kind="measured"))
    for score in (spire_scores, stack_scores, topdown_scores):
        with pytest.raises(SettingError, match="these samples are measured"):
            score(measured, truth)
        short = Truth("skylake_x", 2.0, truth.stack.iloc[1:], truth.speedup.iloc[1:], truth.workload.iloc[1:])
        with pytest.raises(SettingError, match=r"knows nothing of 1 runs of these samples: branch-misses-0"):
            score(samples, short)


def test_every_event_of_the_pmu_has_its_evidence():
    for name in ("skylake_x", "zen4"):
        core = pk.Microarchitecture.load(name)
        evidence = Evidence.of(core)
        events = set(pk.SimulatedPmu(core).events().index) - {"cycles", "instructions"}
        assert events == set(evidence.events)
    everywhere = {r for name in ("skylake_x", "zen4") for r in pk.Microarchitecture.load(name).resources}
    assert {r for of in RESOURCES_OF_EVENTS.values() for r in of} <= everywhere
    assert {c for causes, _ in COMPONENTS.values() for c in causes} <= everywhere | {"store_forward_latency"}
    events_of_parts = {e for _, of in COMPONENTS.values() for e in of}
    assert events_of_parts <= set(RESOURCES_OF_EVENTS)


def test_the_distance_of_stacks():
    exact = {"base": 0.6, "memory": 0.4}
    assert stack_distance(exact, exact) == 0.0
    assert stack_distance({"base": 1.0}, exact) == pytest.approx(0.4)
    assert stack_distance({"L2": 1.0}, exact) == pytest.approx(1.0)


def planted(base: float, penalties: dict[str, float], seed: int) -> tuple[pk.Samples, Truth]:
    """A run with a planted stack, as if simulated: the exact account is what was planted."""
    samples, known = pk.synthetic_cpi(base=base, penalties=penalties, intervals=400, seed=seed)
    samples = pk.Samples(samples.table, samples.runs.assign(kind="simulated"))
    (run,) = map(str, samples.runs.index)
    cause = {event: causes[0] for causes, of in COMPONENTS.values() for event in of}
    counts = pk.CpiCounts.from_samples(samples)
    parts = {cause[e]: penalties[e] * rate for e, rate in zip(counts.events, counts.rates, strict=True)}
    stack = pd.DataFrame([{"retire": counts.cpi - sum(parts.values()), **parts}], index=[run])
    speedup = pd.DataFrame([{"front_end": 0.0}], index=[run])
    assert abs(known.base - stack.loc[run, "retire"]) < 0.05
    return samples, Truth("skylake_x", 2.0, stack, speedup, pd.Series({run: run}))


def test_a_planted_stack_is_found_and_scored_so():
    samples, truth = planted(0.5, {"branch-misses": 20.0, "l3.misses": 150.0}, 4)
    found = stack_scores(samples, truth)
    row = found.table.iloc[0]
    assert row["distance"] < 0.02
    assert row["base_only"] > 0.1
    assert row["verdict"] == "supported"
    assert found.measures.loc["nearer than everything in the base", "score"] == 1.0
    true = row[[c for c in found.table.columns if c.startswith("true:")]].sum()
    fitted = row[[c for c in found.table.columns if c.startswith("fitted:")]].sum()
    assert true == pytest.approx(row["cpi"])
    assert fitted == pytest.approx(row["cpi"])


def test_the_parts_of_an_exact_stack_sum_to_the_cpi():
    gus = pk.Gus(pk.Microarchitecture.load("zen4"))
    from perfkit.simulators.pmu.truth import truth_of

    truth = truth_of(gus, [("branchy", pk.datasets.load("traces/branchy"))])
    parts = exact_components(truth, "branchy")
    assert sum(parts.values()) == pytest.approx(truth.cpi["branchy"])
    assert parts["misprediction"] == truth.stack.loc["branchy", "misprediction_penalty"] > 0
    assert min(parts.values()) >= 0


def test_a_run_of_one_rate_cannot_be_fitted_and_is_named():
    rows = [
        {"run": "steady", "interval": k, "event": e, "time": 100.0, "work": 200.0, "count": c}
        for k in range(30)
        for e, c in (("branch-misses", 2.0), ("l3.misses", 1.0))
    ]
    varied, truth = planted(0.5, {"branch-misses": 20.0, "l3.misses": 150.0}, 4)
    samples = pk.Samples.concat([varied, pk.Samples.from_frame(pd.DataFrame(rows), kind="simulated")])
    more = pd.concat([truth.stack, pd.DataFrame([{"retire": 0.5}], index=["steady"])]).fillna(0.0)
    speedup = pd.concat([truth.speedup, pd.DataFrame([{"front_end": 0.0}], index=["steady"])])
    both = Truth("skylake_x", 2.0, more, speedup, pd.Series({r: r for r in more.index}))
    found = stack_scores(samples, both)
    assert found.left_out == {"no event varies: nothing to tell from the base": ("steady",)}
    with pytest.raises(DataError, match="no run can be scored for CPI stack by regression"):
        stack_scores(samples.select(runs=["steady"]), both)


def test_top_down_finds_a_run_that_restarts_most_of_the_time():
    rows = []
    for run, stall, uops in (("mispredicting", 70.0, 60.0), ("waiting", 0.0, 60.0)):
        for k in range(4):
            for event, count in (("uops", uops), ("stall.misprediction", stall)):
                rows.append({"run": run, "interval": k, "event": event, "time": 100.0, "work": 60.0, "count": count})
    samples = pk.Samples.from_frame(pd.DataFrame(rows), kind="simulated")
    runs = ["mispredicting", "waiting"]
    speedup = pd.DataFrame([[0.5, 0.0], [0.0, 0.5]], index=runs, columns=["misprediction_penalty", "memory_latency"])
    truth = Truth("skylake_x", 2.0, pd.DataFrame({"retire": 1.0}, index=runs), speedup, pd.Series(runs, index=runs))
    found = topdown_scores(samples, truth)
    assert found.table["said"].to_dict() == {"mispredicting": "bad_speculation", "waiting": "back_end"}
    assert found.measures.loc["area right", "score"] == 1.0
    assert found.table.loc["mispredicting", "retiring"] == pytest.approx(60 / 400)
    assert found.table.loc["mispredicting", "bad_speculation"] == pytest.approx(0.7)
    turned = Truth("skylake_x", 2.0, truth.stack, speedup[::-1].set_axis(runs), truth.workload)
    assert topdown_scores(samples, turned).measures.loc["area right", "score"] == 0.0


def roof(kind: str, of: str, distance: float, buffer: str = "") -> dict[str, object]:
    label = " ".join(filter(None, (buffer, of, kind)))
    return {"kind": kind, "of": of, "buffer": buffer, "label": label, "distance": distance, "hits": distance <= 1.05}


def roofs_of(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(sorted(rows, key=lambda r: r["distance"]))


def test_roofs_are_right_where_they_speak_of_the_bottleneck():
    overlap = roof("overlap", "comp+L1", 1.0)
    chain = roofs_of(overlap, roof("latency", "comp", 1.01), roof("throughput", "mem", 2.0), roof("issue", "L1", 3.0))
    stream = roofs_of(roof("latency", "comp", 1.01), roof("throughput", "mem", 1.04), roof("stall", "L1", 2.0, "ROB"))
    silent = roofs_of(roof("latency", "L2", 1.01), roof("throughput", "mem", 1.04))
    runs = ["chain", "stream", "silent", "none"]
    speedup = pd.DataFrame(0.0, index=runs, columns=["instruction_latency", "memory_bandwidth", "rob"])
    speedup.loc["chain", "instruction_latency"] = speedup.loc["silent", "instruction_latency"] = 0.5
    speedup.loc["stream", "memory_bandwidth"] = 0.5
    truth = Truth("skylake_x", 2.0, pd.DataFrame({"retire": 1.0}, index=runs), speedup, pd.Series(runs, index=runs))
    found = roof_scores({"chain": chain, "stream": stream, "silent": silent, "none": chain}, truth)
    assert found.table["right"].to_dict() == {"chain": True, "stream": False}
    assert found.table["hit"].to_dict() == {"chain": True, "stream": True}
    assert found.table["chance 1"].tolist() == pytest.approx([1 / 3, 1 / 3])  # the overlap is not counted
    assert found.left_out == {
        "no resource gives a speedup": ("none",),
        "no roof corresponds to the bottleneck": ("silent",),
    }
    assert found.measures.loc["nearest roof right, against one roof", "baseline"] == 0.5


def test_roofs_of_a_real_schedule_are_read():
    core, trace = pk.Microarchitecture.load("skylake_x"), pk.datasets.load("traces/fig1b")
    truth = pk.SimulatedPmu(core).truth({"fig1b": trace})
    found = roof_scores({"fig1b": pk.DagScheduler(core).run(pk.trace_dag(trace)).roofline()}, truth)
    assert found.table.loc["fig1b", "bottleneck"] == "instruction_latency"
    assert found.table.loc["fig1b", "right"]


def test_what_each_roof_speaks_of():
    evidence = Evidence.of(pk.Microarchitecture.load("skylake_x"))
    assert evidence.of_roof("latency", ("comp",), "") == ("instruction_latency",)
    assert evidence.of_roof("throughput", ("D",), "") == evidence.dividers != ()
    assert evidence.of_roof("throughput", ("I",), "") == evidence.integer_ports != ()
    assert "p01" in evidence.of_roof("throughput", ("comp",), "")
    assert evidence.of_roof("stall", ("L1",), "LFB") == ("line_fill_buffers",)
    assert evidence.of_roof("issue", ("mem",), "") == ("memory_bandwidth",)
    assert "p23" in evidence.of_roof("throughput", ("L1",), "")
    assert evidence.of_roof("overlap", ("comp", "L1"), "") == ()


def test_importances_are_right_where_they_follow_the_speedups():
    runs = ["a", "b"]
    speedup = pd.DataFrame([[0.5, 0.1, 0.0]] * 2, index=runs, columns=["p", "q", "r"])
    truth = Truth("skylake_x", 2.0, pd.DataFrame({"retire": 1.0}, index=runs), speedup, pd.Series(runs, index=runs))
    found = importance_scores({"a": {"p": 0.8, "q": 0.2, "r": 0.0}, "b": {"p": 0.0, "q": 0.1, "r": 0.9}}, truth)
    assert found.table["right"].to_dict() == {"a": True, "b": False}
    assert found.table["tau"].to_dict() == pytest.approx({"a": 1.0, "b": -1.0})
    assert found.measures.loc["most important is a bottleneck", "baseline"] == pytest.approx(1 / 3)


def test_a_forest_finds_the_divider_of_a_dividing_loop():
    gus, trace = pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.datasets.load("traces/divider")
    study = resource_study(gus, trace, 2.0, 48, 1)
    assert set(study.drop(columns="cycles").to_numpy().ravel()) == {1.0, 2.0}
    importance = resource_importance(study, trees=30)
    assert max(importance.mdi, key=importance.mdi.get) == "FPDivider"
    with pytest.raises(SettingError, match="at least two configurations"):
        resource_study(gus, trace, 2.0, 1, 1)
