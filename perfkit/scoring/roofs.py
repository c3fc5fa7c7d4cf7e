"""The extended roofline's roofs against the sensitivity of the same simulated traces."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from perfkit.errors import DataError
from perfkit.microarchitecture import Microarchitecture
from perfkit.scoring.evidence import Evidence
from perfkit.scoring.scores import Scores, noted, summarise
from perfkit.simulators.truth import Truth


def roof_scores(rooflines: Mapping[str, Any], truth: Truth, *, evidence: Evidence | None = None) -> Scores:
    """Score the roofs by whether the nearest one (or any that hits the point) speaks of the true bottleneck.

    Roofs of an overlap name no single resource and are not counted. Two models of different grain meet here: the
    extended roofline sees floating-point operations and their accesses only, Gus every instruction.

    Parameters
    ----------
    rooflines : mapping of run to ExtendedRoofline (or to its ``to_frame()``)
        As of ``pk.DagScheduler(core).run(pk.trace_dag(trace)).roofline()``.
    truth : Truth
        Of the same runs.
    evidence : Evidence, optional
        Which resources each roof speaks of.

    Returns
    -------
    Scores
        The table has a row a run: bottleneck, nearest (label) and its distance, right (whether it speaks of the
        bottleneck), hits (how many roofs hit the point), hit (whether a right one is among them), roofs and speaking
        (how many roofs there are, and how many of them would be right).
    """
    evidence = evidence or Evidence.of(Microarchitecture.load(truth.core))
    left_out: dict[str, list[str]] = {"no resource gives a speedup": [], "no roof speaks of the bottleneck": []}
    rows = {}
    for run, roofline in rooflines.items():
        bottlenecks = truth.bottlenecks(run)
        if not bottlenecks:
            left_out["no resource gives a speedup"].append(run)
            continue
        row = _row(roofline if isinstance(roofline, pd.DataFrame) else roofline.to_frame(), bottlenecks, evidence)
        if not row["speaking"]:
            left_out["no roof speaks of the bottleneck"].append(run)
            continue
        rows[run] = row
    if not rows:
        raise DataError("no run has a bottleneck that any roof speaks of; nothing can be scored")
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")
    n = len(table)
    measures = {
        "nearest roof right": (
            float(table["right"].mean()), float((table["speaking"] / table["roofs"]).mean()), "a roof at random", n
        ),
        "a right roof hits": (float(table["hit"].mean()), float(table["chance"].mean()), "as many at random", n),
    }  # fmt: skip
    return Scores("extended roofline", table, summarise(measures), noted(left_out))


def _row(frame: pd.DataFrame, bottlenecks: tuple[str, ...], evidence: Evidence) -> dict[str, Any]:
    from perfkit.scoring.ranks import rank_score

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
        "roofs": score.n,
        "speaking": score.right,
    }
