"""MARTA's importances of dimensions against sensitivity: the same question, asked one at a time and all at once.

A study varies dimensions together and lets a random forest say which of them decide (MARTA, section II-B). Here the
dimensions are the resources of the core, each as it is or better by a weight, drawn at random for every configuration;
what is measured is the simulated time. Sensitivity (Gus, section 3.2) varies one resource at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from perfkit.errors import SettingError, expect
from perfkit.fitters.studies.random_forest import Importance, RandomForest
from perfkit.scoring.ranks import rank_score
from perfkit.scoring.scores import Measure, Scores, mean, scores, zero
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.pmu.truth import Truth, expect_truth

if TYPE_CHECKING:
    from perfkit.trace.trace import Trace

TARGET = "cycles"


def resource_study(gus: Gus, trace: Trace, weight: float, configurations: int, seed: int) -> pd.DataFrame:
    """Return a table of configurations: one column per resource (1 or the weight) and the simulated cycles."""
    if configurations < 2:
        raise SettingError(f"a study has at least two configurations; found {configurations}")
    names = list(gus.core.resources)
    better = np.random.default_rng(seed).random((configurations, len(names))) < 0.5
    cores = []
    for row in better:
        core = gus.core
        for name, chosen in zip(names, row, strict=True):
            core = core.scaled(name, weight) if chosen else core
        cores.append(core)
    return pd.DataFrame(np.where(better, weight, 1.0), columns=names).assign(**{TARGET: gus.cycles(trace, cores)})


def resource_importance(study: pd.DataFrame, *, trees: int = 100, seed: int = 0) -> Importance:
    """Return the forest's importance of each resource for the cycles of such a study."""
    features = [c for c in study.columns if c != TARGET]
    return RandomForest(features, trees=trees, folds=2, shuffles=1, seed=seed).fit(study, TARGET)


def importance_scores(importances: Mapping[str, Mapping[str, float]], truth: Truth) -> Scores:
    """Score importances by whether the most important resource is the most sensitive one.

    Parameters
    ----------
    importances : mapping of run to mapping of resource to importance
        Such as ``resource_importance(study).mdi``.
    truth : Truth
        Of the same runs.

    Returns
    -------
    Scores
        The table has one row per run: bottleneck, most_important, first (rank of the first bottleneck), placement, tau.
    """
    how = "give a mapping from the names of the truth's runs"
    expect(isinstance(importances, Mapping), importances, "importance_scores", "importances by run", how)
    expect_truth(truth, "importance_scores")
    left_out: dict[str, list[str]] = {"no resource gives a speedup": []}
    rows = {}
    for run, importance in importances.items():
        bottlenecks = truth.bottlenecks(run)
        if not bottlenecks:
            left_out["no resource gives a speedup"].append(run)
            continue
        known = [name for name in importance if name in truth.speedup.columns]  # others do nothing in the simulator
        order = sorted(known, key=lambda name: -importance[name])
        score = rank_score(order, bottlenecks, truth.speedup.loc[run].to_dict())
        rows[run] = {
            "bottleneck": ", ".join(bottlenecks),
            "most_important": order[0],
            "first": score.first,
            "right": score.hit(1),
            "placement": score.placement,
            "tau": score.tau,
            "chance": score.chance(1),
        }
    named = [name for run in rows for name in truth.bottlenecks(run)]
    best = max(dict.fromkeys(named), key=named.count) if named else ""
    rows = {run: {**row, "constant": best in truth.bottlenecks(run)} for run, row in rows.items()}
    method = "MARTA's importance of resources"
    return scores(method, rows, truth.workload, lambda table: [(m, table) for m in _MEASURES], left_out)


_MEASURES = (
    Measure("most important is a bottleneck", mean("right"), mean("chance"), "random order"),
    Measure(
        "most important is a bottleneck, against one resource",
        mean("right"),
        mean("constant"),
        "one resource for all, in hindsight",
    ),
    Measure("tau", mean("tau"), zero, "random order"),
)
