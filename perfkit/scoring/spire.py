"""SPIRE's ranking of events, and the top-down rule, against the sensitivity of simulated runs."""

from collections.abc import Iterable, Sequence

import pandas as pd

from perfkit.errors import DataError, SettingError
from perfkit.fitters.spire.model import Spire
from perfkit.fitters.topdown import TopDown
from perfkit.machine.core import Microarchitecture
from perfkit.samples.table import Samples, expect_samples
from perfkit.scoring.evidence import Evidence, area
from perfkit.scoring.ranks import rank_score
from perfkit.scoring.scores import Measure, Scores, mean, scores, zero
from perfkit.simulators.pmu.truth import Truth

_NONE = "no resource gives a speedup"
_UNSEEN = "no event counts the bottleneck"


def spire_scores(
    samples: Samples,
    truth: Truth,
    *,
    spire: Spire | None = None,
    events: Iterable[str] | None = None,
    evidence: Evidence | None = None,
    top: Sequence[int] = (1, 3, 5),
) -> Scores:
    """Score SPIRE's rankings by how early an event of the true bottleneck comes.

    Every run is ranked by a model trained on the runs of all other workloads (leave one workload out).

    Parameters
    ----------
    samples : Samples
        Of the simulated PMU (`perfkit.SimulatedPmu`), on one core.
    truth : Truth
        Of the same runs.
    spire : Spire, optional
        Settings.
    events : iterable of str, optional
        The events to train on and to rank; all by default.
    evidence : Evidence, optional
        The resources each event belongs to; by default as written down in `perfkit.scoring.evidence`.
    top : sequence of int
        The k for which is counted how often a right event is among the first k.

    Returns
    -------
    Scores
        The table has one row per run: bottleneck, first_event, events ranked, right events, first (rank), placement,
        tau, a column for each k with its chance and what unusual rates find, pool (the candidates SPIRE gives) and
        pool_hit with its chance. Runs whose bottleneck no event counts (chains of latency, above all), or that have
        none, are left out and named.

    Raises
    ------
    DataError
        All runs are of one workload: there is nothing to train on.
    """
    check_runs(samples, truth)
    evidence = evidence or Evidence.of(Microarchitecture.load(truth.core))
    chosen = samples if events is None else samples.select(events=events)
    group = truth.workload.loc[[str(r) for r in samples.runs.index]]
    left_out: dict[str, list[str]] = {_NONE: [], _UNSEEN: []}
    rates, rows = _rates(chosen), {}
    for value in dict.fromkeys(group):
        others = [str(r) for r in group.index[group != value]]
        mine = [str(r) for r in group.index[group == value] if _scorable(str(r), truth, evidence, chosen, left_out)]
        if not mine:
            continue
        if not others:
            raise DataError(f"only one workload ({value}): there is nothing to train on but what is to be ranked")
        model = (spire or Spire()).fit(chosen.select(runs=others))
        for run in mine:
            unusual = _by_rate(rates.loc[others], rates.loc[run])
            rows[run] = _ranked(model.rank(chosen.select(runs=[run])), unusual, truth, run, evidence, top)
    return scores(
        "SPIRE",
        _with_constant(rows, truth, evidence, chosen.events, top),
        truth.workload,
        lambda table: [(m, table) for m in _measures(top)],
        left_out,
    )


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
        Issue slots per cycle; the front end of the truth's core by default.
    """
    check_runs(samples, truth)
    width = width or Microarchitecture.load(truth.core).value("front_end")
    fractions = TopDown(width=width, scheme="Intel before Ice Lake").fit(_as_intel(samples))
    left_out: dict[str, list[str]] = {_NONE: []}
    rows = {}
    for run in map(str, samples.runs.index):
        bottlenecks = truth.bottlenecks(run)
        if not bottlenecks:
            left_out[_NONE].append(run)
            continue
        said, true = str(fractions.main[run]), area(bottlenecks)
        rows[run] = {"said": said, "true": true, "right": said == true, **fractions.runs.loc[run].to_dict()}
    return scores("top-down, level 1", rows, truth.workload, _area_measures, left_out)


def check_runs(samples: Samples, truth: Truth) -> None:
    """Raise SettingError where the samples are not the simulated ones that the truth is about."""
    expect_samples(samples, "a score")
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


def _rates(samples: Samples) -> pd.DataFrame:
    """Return each run's events per time, (runs, events)."""
    of_run = samples.table.groupby(["run", "event"], observed=True)[["count", "time"]].sum(min_count=1)
    return (of_run["count"] / of_run["time"]).unstack()


def _by_rate(training: pd.DataFrame, run: pd.Series) -> list[str]:
    """Return the events by the share of training runs with a lower rate, those alike by how many times higher it is."""
    found = pd.DataFrame({"share": (training < run).mean(), "times": run / training.mean()})
    return [str(event) for event in found.dropna().sort_values(["share", "times"], ascending=False).index]


def _ranked(
    ranking: object, unusual: Sequence[str], truth: Truth, run: str, evidence: Evidence, top: Sequence[int]
) -> dict[str, object]:
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
        **{f"unusual {k}": bool(set([e for e in unusual if e in order][:k]) & right) for k in top},
        "pool": len(pool),
        "pool hit": bool(set(pool) & right),
        "pool chance": score.chance(len(pool)),
    }


def _measures(top: Sequence[int]) -> list[Measure]:
    found = []
    for k in top:
        found.append(Measure(f"right event in the first {k}", mean(f"top {k}"), mean(f"chance {k}"), "random order"))
        found.append(
            Measure(
                f"right event in the first {k}, against one order",
                mean(f"top {k}"),
                mean(f"constant {k}"),
                "one order for all, in hindsight",
            )
        )
        found.append(
            Measure(
                f"right event in the first {k}, against unusual rates",
                mean(f"top {k}"),
                mean(f"unusual {k}"),
                "unusual rates, no roofs",
            )
        )
    return [
        *found,
        Measure("right event in the pool", mean("pool hit"), mean("pool chance"), "random pool of its size"),
        Measure("placement", mean("placement"), mean("chance placement"), "random order"),
        Measure("tau", mean("tau"), zero, "random order"),
    ]


def _with_constant(
    rows: dict[str, dict[str, object]], truth: Truth, evidence: Evidence, events: Sequence[str], top: Sequence[int]
) -> dict[str, dict[str, object]]:
    """Add to each run whether one order for all runs would hit: events by how often they are right, in hindsight."""
    right = {run: evidence.right_events(events, truth.bottlenecks(run)) for run in rows}
    order = sorted(events, key=lambda e: -sum(e in one for one in right.values()))
    constant = {run: {f"constant {k}": bool(set(order[:k]) & right[run]) for k in top} for run in rows}
    return {run: {**row, **constant[run]} for run, row in rows.items()}


def _area_measures(table: pd.DataFrame) -> list[tuple[Measure, pd.DataFrame]]:
    commonest = table["true"].value_counts().index[0]
    found = [
        (
            Measure(
                "area right", mean("right"), lambda t: float((t["true"] == commonest).mean()), f"always {commonest}"
            ),
            table,
        )
    ]
    for name, part in table.groupby("true"):
        said = part.assign(chance=float((table["said"] == name).mean()))
        found.append((Measure(f"area right, of {name}", mean("right"), mean("chance"), "how often it is said"), said))
    return found


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
