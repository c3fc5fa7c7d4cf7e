"""The extended roofline's roofs against the sensitivity of the same simulated traces."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from perfkit.errors import expect
from perfkit.machine.core import Microarchitecture
from perfkit.scoring.evidence import Evidence
from perfkit.scoring.ranks import rank_score
from perfkit.scoring.scores import Measure, Scores, mean, scores
from perfkit.simulators.pmu.truth import Truth, expect_truth


def roof_scores(rooflines: Mapping[str, Any], truth: Truth, *, evidence: Evidence | None = None) -> Scores:
    """Score the roofs by whether the nearest one (or any that hits the point) corresponds to the true bottleneck.

    Roofs of an overlap name no single resource and are not counted. Two models of different grain meet here: the
    extended roofline sees floating-point operations and their accesses only, Gus every instruction.

    Parameters
    ----------
    rooflines : mapping of run to ExtendedRoofline (or to its ``to_frame()``)
        As of ``pk.DagScheduler(core).run(pk.trace_dag(trace)).roofline()``.
    truth : Truth
        Of the same runs.
    evidence : Evidence, optional
        The resources each roof corresponds to.

    Returns
    -------
    Scores
        The table has one row per run: bottleneck, nearest (label) and its distance, right (whether it corresponds to
        the bottleneck), hits (how many roofs hit the point), hit (whether a right one is among them), their chances,
        roofs (how many there are) and right roofs (those that would be right).
    """
    how = "give a mapping from the names of the truth's runs"
    expect(isinstance(rooflines, Mapping), rooflines, "roof_scores", "rooflines by run", how)
    expect_truth(truth, "roof_scores")
    evidence = evidence or Evidence.of(Microarchitecture.load(truth.core))
    left_out: dict[str, list[str]] = {"no resource gives a speedup": [], "no roof corresponds to the bottleneck": []}
    rows = {}
    for run, roofline in rooflines.items():
        bottlenecks = truth.bottlenecks(run)
        if not bottlenecks:
            left_out["no resource gives a speedup"].append(run)
            continue
        row = _row(roofline if isinstance(roofline, pd.DataFrame) else roofline.to_frame(), bottlenecks, evidence)
        if not row["right roofs"]:
            left_out["no roof corresponds to the bottleneck"].append(run)
            continue
        rows[run] = row
    best = _constant(rows)
    rows = {run: {**row, "constant": best in row["right roofs"]} for run, row in rows.items()}
    return scores("extended roofline", rows, truth.workload, lambda table: [(m, table) for m in _MEASURES], left_out)


_MEASURES = (
    Measure("nearest roof right", mean("right"), mean("chance 1"), "a roof at random"),
    Measure("nearest roof right, against one roof", mean("right"), mean("constant"), "one roof for all, in hindsight"),
    Measure("a right roof hits", mean("hit"), mean("chance"), "as many at random"),
)


def _constant(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the roof that is right most often: the best that naming one roof every time can do."""
    every = [label for row in rows.values() for label in row["right roofs"]]
    return max(dict.fromkeys(every), key=every.count) if every else ""


def _row(frame: pd.DataFrame, bottlenecks: tuple[str, ...], evidence: Evidence) -> dict[str, Any]:
    single = frame[frame["kind"] != "overlap"].reset_index(drop=True)
    speaks = [
        bool(set(evidence.of_roof(roof.kind, tuple(roof.of.split("+")), roof.buffer)) & set(bottlenecks))
        for roof in single.itertuples()
    ]
    names = [str(k) for k in range(len(single))]
    score = rank_score(names, {name for name, right in zip(names, speaks, strict=True) if right})
    hits = int(single["hits"].sum())
    return {
        "bottleneck": ", ".join(bottlenecks),
        "nearest": single["label"].iloc[0],
        "distance": float(single["distance"].iloc[0]),
        "right": score.hit(1),
        "hits": hits,
        "hit": score.hit(hits),
        "chance": score.chance(hits),
        "chance 1": score.chance(1),
        "roofs": score.n,
        "right roofs": tuple(str(x) for x, right in zip(single["label"], speaks, strict=True) if right),
    }
