"""SPIRE's ranking of events, and the top-down rule, against the sensitivity of simulated runs."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from perfkit.errors import DataError, SettingError
from perfkit.fitters.spire import Spire
from perfkit.fitters.topdown import TopDown
from perfkit.microarchitecture import Microarchitecture
from perfkit.samples import Samples
from perfkit.scoring.evidence import Evidence, area
from perfkit.scoring.ranks import rank_score
from perfkit.scoring.scores import Scores, noted, summarise
from perfkit.simulators.truth import Truth

_NONE = "no resource gives a speedup"
_UNSEEN = "no event counts the bottleneck"


def spire_scores(
    samples: Samples,
    truth: Truth,
    *,
    spire: Spire | None = None,
    events: Iterable[str] | None = None,
    evidence: Evidence | None = None,
    by: str = "workload",
    top: Sequence[int] = (1, 3, 5),
) -> Scores:
    """Score SPIRE's rankings by how early an event of the true bottleneck comes.

    Every run is ranked by a model trained on the runs of all other workloads (leave one out).

    Parameters
    ----------
    samples : Samples
        Of the simulated PMU (`perfkit.collectors.SimulatedPmu`), on one core.
    truth : Truth
        Of the same runs.
    spire : Spire, optional
        Settings.
    events : iterable of str, optional
        The events to train on and to rank; all by default.
    evidence : Evidence, optional
        Which resources each event speaks of; by default as written down in `perfkit.scoring.evidence`.
    by : str
        The column of the table of runs that says what is left out together.
    top : sequence of int
        The k for which is counted how often a right event is among the first k.

    Returns
    -------
    Scores
        The table has a row a run: bottleneck, first_event, events ranked, right events, first (rank), placement, tau,
        a column for each k with its chance, pool (the candidates SPIRE gives) and pool_hit with its chance. Runs whose
        bottleneck no event counts (chains of latency, above all), or that have none, are left out and named.
    """
    check_runs(samples, truth)
    evidence = evidence or Evidence.of(Microarchitecture.load(truth.core))
    chosen = samples if events is None else samples.select(events=events)
    group = samples.runs[by]
    left_out: dict[str, list[str]] = {_NONE: [], _UNSEEN: []}
    rows = {}
    for value in dict.fromkeys(group):
        others = [str(r) for r in group.index[group != value]]
        mine = [str(r) for r in group.index[group == value] if _scorable(str(r), truth, evidence, chosen, left_out)]
        if not mine:
            continue
        if not others:
            raise DataError(f"only one {by} ({value}): there is nothing to train on but what is to be ranked")
        model = (spire or Spire()).fit(chosen.select(runs=others))
        for run in mine:
            rows[run] = _ranked(model.rank(chosen.select(runs=[run])), truth, run, evidence, top)
    if not rows:
        raise DataError("no run has a bottleneck that any of these events counts; nothing can be scored")
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")
    return Scores("SPIRE", table, _summary(table, truth, evidence, chosen.events, top), noted(left_out))


def topdown_scores(samples: Samples, truth: Truth, *, width: float | None = None) -> Scores:
    """Score the first level of top-down analysis by whether most slots are lost in the true bottleneck's area.

    The simulated core issues no wrong path and its front end always delivers, so that slots issued are slots retired
    and there are no fetch bubbles; the time to restart after a misprediction is the recovery. Bottlenecks other than
    the front end's width and the misprediction penalty belong to the back end.

    Parameters
    ----------
    samples, truth
        As for `spire_scores`.
    width : float, optional
        Issue slots a cycle; the front end of the truth's core by default.
    """
    check_runs(samples, truth)
    width = width or Microarchitecture.load(truth.core).value("front_end")
    fractions = TopDown(width=width, scheme="Intel before Ice Lake").fit(_as_intel(samples))
    left_out: dict[str, list[str]] = {_NONE: []}
    rows = {}
    for run in truth.runs:
        bottlenecks = truth.bottlenecks(run)
        if not bottlenecks:
            left_out[_NONE].append(run)
            continue
        said, true = str(fractions.main[run]), area(bottlenecks)
        rows[run] = {"said": said, "true": true, "right": said == true, **fractions.runs.loc[run].to_dict()}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")
    commonest = float(table["true"].value_counts(normalize=True).iloc[0])
    measures = {"area right": (float(table["right"].mean()), commonest, "always the commonest area", len(table))}
    for name, of_area in table.groupby("true"):
        share = float((table["said"] == name).mean())
        measures[f"of {name}"] = (float(of_area["right"].mean()), share, "how often it is said", len(of_area))
    return Scores("top-down, level 1", table, summarise(measures), noted(left_out))


def check_runs(samples: Samples, truth: Truth) -> None:
    """Raise SettingError where the samples are not the simulated ones that the truth is about."""
    if samples.kind != "simulated":
        raise SettingError(f"the truth is known of simulated runs only; these samples are {samples.kind}")
    missing = [str(r) for r in samples.runs.index if str(r) not in set(truth.runs)]
    if missing:
        raise SettingError(f"the truth knows nothing of {len(missing)} runs of these samples: {', '.join(missing[:5])}")


# ------------------------------------------------------------------ helpers


def _scorable(
    run: str, truth: Truth, evidence: Evidence, samples: Samples, left_out: dict[str, list[str]]
) -> bool:  # fmt: skip
    bottlenecks = truth.bottlenecks(run)
    if not bottlenecks:
        left_out[_NONE].append(run)
    elif not evidence.right_events(samples.events, bottlenecks):
        left_out[_UNSEEN].append(run)
    else:
        return True
    return False


def _ranked(ranking: object, truth: Truth, run: str, evidence: Evidence, top: Sequence[int]) -> dict[str, object]:
    table = ranking.table  # type: ignore[attr-defined]
    order = [str(e) for e in table.loc[table["status"] == "ok", "event"]]
    bottlenecks = truth.bottlenecks(run)
    right = evidence.right_events(order, bottlenecks)
    score = rank_score(order, right, evidence.gains(order, truth.speedup.loc[run].to_dict()))
    pool = [e for e in ranking.candidates if e in order]  # type: ignore[attr-defined]
    return {
        "bottleneck": ", ".join(bottlenecks),
        "first_event": order[0],
        "events": score.n,
        "right": score.right,
        "first": score.first,
        "placement": score.placement,
        "chance placement": score.chance_placement,
        "tau": score.tau,
        **{f"top {k}": score.hit(k) for k in top},
        **{f"chance {k}": score.chance(k) for k in top},
        "pool": len(pool),
        "pool hit": bool(set(pool) & right),
        "pool chance": score.chance(len(pool)),
    }


def _summary(
    table: pd.DataFrame, truth: Truth, evidence: Evidence, events: Sequence[str], top: Sequence[int]
) -> pd.DataFrame:
    n = len(table)
    constant = _constant(table, truth, evidence, events)
    measures: dict[str, tuple[float, float, str, int]] = {}
    for k in top:
        hits = float(table[f"top {k}"].mean())
        measures[f"right event in the first {k}"] = (hits, float(table[f"chance {k}"].mean()), "random order", n)
        always = np.mean([bool(set(constant[:k]) & right) for right in _right(table, truth, evidence, events)])
        measures[f"the same, first {k}"] = (hits, float(always), "one order for all runs, in hindsight", n)
    pool = float(table["pool hit"].mean())
    measures["right event in the pool"] = (pool, float(table["pool chance"].mean()), "random pool of the same size", n)
    placement = table["placement"].mean(), table["chance placement"].mean()
    measures["placement"] = (float(placement[0]), float(placement[1]), "random order", n)
    measures["tau"] = (float(table["tau"].mean()), 0.0, "random order", n)
    return summarise(measures)


def _right(table: pd.DataFrame, truth: Truth, evidence: Evidence, events: Sequence[str]) -> list[set[str]]:
    return [evidence.right_events(events, truth.bottlenecks(str(run))) for run in table.index]


def _constant(table: pd.DataFrame, truth: Truth, evidence: Evidence, events: Sequence[str]) -> list[str]:
    """Return the events by how often they are right: the best that naming the same ones every time can do."""
    right = _right(table, truth, evidence, events)
    return sorted(events, key=lambda e: -sum(e in one for one in right))


def _as_intel(samples: Samples) -> Samples:
    """Return the samples with the four events of Yasin's first level, named as Intel's, made of the PMU's own."""
    wide = samples.to_wide()
    named = pd.DataFrame(
        {
            "uops_issued.any": wide["uops"],
            "uops_retired.retire_slots": wide["uops"],
            "idq_uops_not_delivered.core": 0.0,
            "int_misc.recovery_cycles": wide["stall.misprediction"],
            samples.time_event: wide[samples.time_event],
            samples.work_event: wide[samples.work_event],
        },
        index=wide.index,
    )
    return Samples.from_wide(
        named, time_event=samples.time_event, work_event=samples.work_event, runs=samples.runs, kind="simulated"
    )
