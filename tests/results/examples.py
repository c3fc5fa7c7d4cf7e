"""One small example of every result class: class -> the function that makes it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.fitters.topdown import TopDown, TopDownFractions

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
