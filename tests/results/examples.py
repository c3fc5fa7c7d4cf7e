"""One small example of every result class: class -> the function that makes it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.fitters.topdown import TopDown, TopDownFractions
from perfkit.simulators.gus.causality import Causality, InstructionSchedule
from perfkit.simulators.gus.sensitivity import Sensitivity
from perfkit.simulators.gus.timeline import Timeline

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


@example(pk.SpireModel)
def spire_model() -> pk.SpireModel:
    return pk.Spire().fit(samples())


@example(pk.Ranking)
def ranking() -> pk.Ranking:
    return spire_model().rank(samples().select(runs=["one"]))


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
