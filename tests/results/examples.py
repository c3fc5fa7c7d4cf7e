"""One small example of every result class: class -> the function that makes it."""

import atexit
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.collectors.dag.kernel_timing import KernelCycles
from perfkit.collectors.host.calibrate import Calibration
from perfkit.collectors.host.true_cycles import TrueCycles
from perfkit.diagnosis.diagnosis import Measured, Opinion
from perfkit.diagnosis.gate_verdict import GateVerdict
from perfkit.fitters.studies.analysis import AnalysisResult
from perfkit.fitters.topdown import TopDown, TopDownFractions
from perfkit.samples.parts import write_part
from perfkit.scoring.scores import Measure, Scores, mean, zero
from perfkit.scoring.scores import scores as make_scores
from perfkit.simulators.dag.relax import Relaxation, relax
from perfkit.simulators.gus.causality import Causality, InstructionSchedule
from perfkit.simulators.gus.sensitivity import Sensitivity
from perfkit.simulators.gus.timeline import Timeline
from perfkit.simulators.pmu.truth import Truth

HELD = ExitStack()
atexit.register(HELD.close)
EXAMPLES: dict[type, Callable[[], Any]] = {}


def example(cls: type) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register the function that makes an example of a class."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        EXAMPLES[cls] = cache(make)
        return EXAMPLES[cls]

    return register


def counted(counts: dict[str, float], **kind: str) -> pk.Samples:
    """One interval of so many counts."""
    rows = [{"event": e, "count": n} for e, n in {"cycles": 1000, "instructions": 2000, **counts}.items()]
    return pk.Samples.from_counts(pd.DataFrame(rows), **kind)


@example(pk.Samples)
def samples() -> pk.Samples:
    rng = np.random.default_rng(0)
    rows = [
        {"run": run, "interval": i, "event": event, "time": 1000.0, "work": work, "count": rng.integers(1, 50)}
        for run in ("one", "two")
        for i, work in enumerate(rng.uniform(500, 2000, 12))
        for event in ("branch-misses", "l1-misses", "tlb-misses")
    ]
    return pk.Samples.from_frame(pd.DataFrame(rows), kind="generated")


@cache
def folder() -> Path:
    """A folder that lasts as long as the tests."""
    return Path(HELD.enter_context(TemporaryDirectory()))


@example(pk.Fleet)
def fleet() -> pk.Fleet:
    for i in range(8):
        part, _ = pk.synthetic_cpi(intervals=150, base=0.25 + 0.05 * (i % 2), workload=f"m{i // 2}-v{i % 2}", seed=i)
        write_part(part, folder() / f"m{i // 2}-v{i % 2}.parquet")
    return pk.open_samples(folder(), paths="{machine}-{version}.parquet", memory=False)


@example(pk.FleetStacks)
def fleet_stacks() -> pk.FleetStacks:
    return pk.CpiStack(resamples=30).fit_each(fleet(), "version")


@example(pk.FleetRankings)
def fleet_rankings() -> pk.FleetRankings:
    return pk.Spire().fit(fleet()).rank_each(fleet(), "machine", bootstrap=30)


@example(pk.FleetChanges)
def fleet_changes() -> pk.FleetChanges:
    return pk.fleet_changes(fleet(), "version", "v0", "v1")


@example(pk.Exploration)
def exploration() -> pk.Exploration:
    return pk.explore(samples())


@example(pk.CountsDiff)
def counts_diff() -> pk.CountsDiff:
    one, _ = pk.synthetic_cpi(intervals=150, workload="before", seed=1)
    two, _ = pk.synthetic_cpi(intervals=150, workload="after", base=0.3, seed=1)
    return pk.diff_counts(one, two, names=("before", "after"))


@example(pk.SpireModel)
def spire_model() -> pk.SpireModel:
    return pk.Spire().fit(samples())


@example(pk.Ranking)
def ranking() -> pk.Ranking:
    return spire_model().rank(samples().select(runs=["one"]))


@example(pk.Explanation)
def explanation() -> pk.Explanation:
    dump = counted({"branch-misses": 20, "uops_retired.retire_slots": 2400, "l1d.replacement": 3}, kind="generated")
    return pk.Bottlenecks.load("skylake_x").explain(dump)


@example(pk.LearntStacks)
def learnt_stacks() -> pk.LearntStacks:
    return pk.Bottlenecks.load("skylake_x").stacks(
        counted({"branch-misses": 20, "l1d.replacement": 3}, kind="generated")
    )


@example(TopDownFractions)
def topdown() -> TopDownFractions:
    intel = {"uops_issued.any": 2600, "uops_retired.retire_slots": 2400, "idq_uops_not_delivered.core": 800}
    return TopDown().fit(counted({**intel, "int_misc.recovery_cycles": 10}))


@example(pk.CpiComparison)
def comparison() -> pk.CpiComparison:
    one, _ = pk.synthetic_cpi(intervals=120, workload="before", seed=1)
    two, _ = pk.synthetic_cpi(intervals=120, workload="after", base=0.3, seed=1)
    return pk.CpiStack(resamples=20).fit_each(pk.Samples.concat([one, two]))


@example(pk.CpiFit)
def cpi_fit() -> pk.CpiFit:
    return comparison()["before"]


@example(pk.PaperCpiFit)
def paper_cpi_fit() -> pk.PaperCpiFit:
    return pk.paper_cpi_stack(pk.synthetic_cpi(intervals=120, seed=1)[0])


@example(pk.GusResult)
def gus_result() -> pk.GusResult:
    return pk.Gus(pk.Microarchitecture.load("zen4")).run(pk.datasets.load("traces/correlation-v5-small").head(4000))


@example(pk.GusDiff)
def gus_diff() -> pk.GusDiff:
    other = pk.datasets.load("traces/correlation-v6-small").head(4000)
    return pk.diff(gus_result(), pk.Gus("zen4").run(other))


@example(GateVerdict)
def gate_verdict() -> GateVerdict:
    change = gus_diff()
    before, now = change.cycles
    return GateVerdict("solve", False, "program", "slower", now, before, change)


@example(Sensitivity)
def sensitivity() -> Sensitivity:
    return gus_result().sensitivity((1.5, 2.0))


@example(Causality)
def causality() -> Causality:
    return gus_result().causality()


@example(InstructionSchedule)
def instruction_schedule() -> InstructionSchedule:
    return gus_result().schedule(1000, 30)


@example(Timeline)
def timeline() -> Timeline:
    return gus_result().timeline(1000, 600)


@cache
def configurations() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [(n, layout) for n in (1, 2, 4, 8) for layout in ("row", "column") for _ in range(12)]
    table = pd.DataFrame(rows, columns=["N", "layout"])
    table["t"] = 10.0 * table["N"] * (1 + (table["layout"] == "column")) + rng.normal(0, 0.5, len(table))
    table.attrs["kind"] = "generated"
    return table


@example(pk.Categories)
def categories() -> pk.Categories:
    return pk.KdeCategories("t", 1.0, prominence=0.01).fit(configurations())


@example(pk.Tree)
def tree() -> pk.Tree:
    return pk.DecisionTree(["N", "layout"]).fit(configurations(), categories())


@example(pk.Classification)
def classification() -> pk.Classification:
    return pk.Classifier(["N", "layout"]).fit(configurations(), categories())


@example(pk.Importance)
def importance() -> pk.Importance:
    return pk.RandomForest(["N", "layout"], trees=5).fit(configurations(), "t")


@example(AnalysisResult)
def analysis() -> AnalysisResult:
    return pk.Analysis(
        categories={"target": "t", "method": "bins", "bins": (25.0, 60.0)},
        tree={"features": ("N", "layout")},
        lines=({"x": "N", "y": "t", "by": ("layout",)},),
    ).run(configurations())


@example(pk.StudyRuns)
def study_runs() -> pk.StudyRuns:
    return pk.datasets.load("studies/fma")


@example(pk.Trace)
def trace() -> pk.Trace:
    return pk.datasets.load("traces/correlation-v5-small").head(4000)


@example(pk.ThreadTraces)
def thread_traces() -> pk.ThreadTraces:
    """Two threads that walk through the same arrays."""
    return pk.ThreadTraces((trace(), trace().head(2000)), (np.zeros((1, 2), dtype=np.int64),) * 2)


@example(pk.SharedLines)
def shared_lines() -> pk.SharedLines:
    return thread_traces().shared_lines()


@example(pk.ThreadsResult)
def threads_result() -> pk.ThreadsResult:
    return pk.run_threads(pk.Gus("zen4"), thread_traces())


@example(Truth)
def truth() -> Truth:
    return pk.SimulatedPmu(pk.Microarchitecture.load("zen4")).truth({"a run": trace(), "another": trace().head(2000)})


@example(Scores)
def scores() -> Scores:
    rows = {f"run {k}": {"hit": k % 2, "rank": k} for k in range(6)}
    workload = pd.Series({run: f"kernel {k // 2}" for k, run in enumerate(rows)})
    measures = [Measure("right first", mean("hit"), zero, "nothing known"), Measure("rank", mean("rank"), zero, "none")]
    left_out = {"no event counts the bottleneck": ["run 8", "run 9"]}
    return make_scores("SPIRE", rows, workload, lambda table: [(m, table) for m in measures], left_out)


@example(TrueCycles)
def true_cycles() -> TrueCycles:
    taken = np.random.default_rng(0).gamma(2.0, 3.0, 200) + 1000
    return TrueCycles("a kernel", taken, 220, 20, 1, 0.1, 1.2, 3, "no machine: numbers of a test", 4, True)


@example(KernelCycles)
def kernel_cycles() -> KernelCycles:
    return KernelCycles("a kernel", true_cycles().samples, 3)


@example(Calibration)
def calibration() -> Calibration:
    host = MappingProxyType({"processor": "no machine: numbers of a test", "date": "2000-01-01"})
    latencies, throughputs = {"ADD_R64_RM64": 1.0, "IMUL_R64_RM64": 3.0}, {"ADD_R64_RM64": 0.25}
    return Calibration(host, 0.5e-9, latencies, throughputs, {"rob": 222.0}, left_out={"L3": "no sample was kept"})


@example(Relaxation)
def relaxation() -> Relaxation:
    chain = pk.Dag.from_nodes("AAA", [[], [0], [1]])
    return relax(chain, pk.DagScheduler(pk.DagCore.sandy_bridge_erm()))


@example(pk.Schedule)
def dag_schedule() -> pk.Schedule:
    needs = [need for k in range(8) for need in ([], [3 * k], [3 * k + 1, *([3 * k - 1] if k else [])])]
    dag = pk.Dag.from_nodes("LMA" * 8, needs, level=["L1", None, None] * 8)
    return pk.DagScheduler(pk.DagCore.sandy_bridge_erm()).run(dag)


@example(pk.BlockPredictions)
def block_predictions() -> pk.BlockPredictions:
    return pk.Gus("zen4").blocks(["480fafc3", "4801d8", "0f0b"])


@example(pk.BlockCycles)
def block_cycles() -> pk.BlockCycles:
    rows = [("480fafc3", 3.0, 3.0, ""), ("4801d8", 1.0, 0.25, ""), ("0f0b", np.nan, np.nan, "ud2 goes elsewhere")]
    table = pd.DataFrame(rows, columns=["block", "looped", "unrolled", "refused"])
    for mode in ("looped", "unrolled"):
        table[f"{mode}_low"], table[f"{mode}_high"] = table[mode] * 0.99, table[mode] * 1.01
        table[f"{mode}_reason"] = table["refused"]
    return pk.BlockCycles(table.assign(pages=1), "no machine: numbers of a test")


@example(pk.ExtendedRoofline)
def extended_roofline() -> pk.ExtendedRoofline:
    return dag_schedule().roofline(0.1)


@example(pk.KernelComparison)
def kernel_comparison() -> pk.KernelComparison:
    ratios = np.random.default_rng(0).normal(1.02, 0.003, 12)
    table = pd.DataFrame({"process": range(12), "cycles_a": 1000.0, "cycles_b": 1000 * ratios, "ratio": ratios})
    table = table.assign(rounds=20, busy=3, rejected=1)
    return pk.KernelComparison(("old", "new"), ("gcc -O2", "gcc -O3"), table, 0.99, 0.005, True, 4, "no machine")


@example(pk.NoiseResult)
def noise_result() -> pk.NoiseResult:
    added = [0, 1, 2, 4, 8]
    slowdown = {"nop": [1, 1, 1, 1, 1.2], "latency": [1, 1.3, 1.6, 2.2, 3.4], "load": [1, 1, 1, 1.1, 1.5]}
    rows = [
        {
            "kind": kind,
            "resource": f"a resource of {kind}",
            "added": n,
            "slowdown": v,
            "low": v - 0.01,
            "high": v + 0.01,
        }
        for kind, values in slowdown.items()
        for n, v in zip(added, values, strict=True)
    ]
    curves = pd.DataFrame(rows).assign(turns=40, quiet=True, simulated=1.0)
    refused = {"divide": "no vector register is dead there"}
    return pk.NoiseResult("dot", "a loop", curves, 6.0, 3.0, 1.0, 0.03, "no machine", "zen3", refused)


@example(pk.Profile)
def profile() -> pk.Profile:
    rows = [("solve", "solve", "/tmp/app", 90, 0.9, 1, 1), ("exp", "exp", "/usr/lib/libm.so.6", 10, 0.1, 1, 1)]
    columns = ["function", "symbol", "file", "samples", "share", "threads", "processes"]
    addresses = pd.DataFrame({"file": ["/tmp/app"], "address": [4660], "samples": [90]})
    return pk.Profile(pd.DataFrame(rows, columns=columns), addresses, "app", "perf, software clock", "samples", 1.5)


@example(pk.Diagnosis)
def answer() -> pk.Diagnosis:
    result = gus_result()
    return pk.Diagnosis(
        program="app", function="solve", symbol="solve", file="/tmp/app", chosen="the hottest function",
        candidates=profile().functions, profiled="100 samples", share=0.9, result=result,
        measured=Measured(result.cycles / 1.1, result.cycles, 3, 2), not_measured="",
        opinions=(Opinion("sensitivity", "the same"),), unseen=("calls that were not followed: exp: 3",),
    )  # fmt: skip
