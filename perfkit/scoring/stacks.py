"""CPI stacks by regression against the exact stack of the same simulated runs."""

import warnings
from collections.abc import Callable, Mapping

import pandas as pd

from perfkit.errors import DataError, PerfkitWarning
from perfkit.fitters.cpi.stack import CpiStack
from perfkit.samples.table import Samples
from perfkit.scoring.evidence import COMPONENTS
from perfkit.scoring.scores import Measure, Scores, mean, scores, zero
from perfkit.scoring.spire import check_runs
from perfkit.simulators.pmu.truth import Truth

BASE = "base"
Components = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


def stack_scores(
    samples: Samples,
    truth: Truth,
    *,
    stack: CpiStack | None = None,
    components: Components = COMPONENTS,
) -> Scores:
    """Score the stack that a regression gives each run.

    Parameters
    ----------
    samples, truth
        Of the simulated PMU, on one core.
    stack : CpiStack, optional
        Settings; their events are replaced by those of the components. Default: the IPC form, 50 resamples.
    components : mapping
        Component -> causes of the exact account, and events of the regression (`perfkit.scoring.evidence`).

    Returns
    -------
    Scores
        The table has one row per run: cpi, verdict, r2 (of phases kept out), placebo_r2, distance (half the sum of the
        components' absolute errors over the CPI: 0 is the exact stack, 1 has everything in the wrong place),
        base_only (the distance of the stack that puts everything into the base), nearer (than that), and ``true:`` and
        ``fitted:`` cycles per instruction of each component. Runs that no regression can be made of are left out.
    """
    check_runs(samples, truth)
    settings = stack or CpiStack(resamples=50)
    events = tuple(e for _, of in components.values() for e in of if e in samples.events)
    left_out: dict[str, list[str]] = {}
    rows = {}
    for run in map(str, samples.runs.index):
        part = samples.select(runs=[run], events=events)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PerfkitWarning)  # each is in the fit's verdict, which is scored
                fit = settings.fit(part)
        except DataError as error:
            left_out.setdefault(_reason(error), []).append(run)
            continue
        rows[run] = _row(fit, exact_components(truth, run, components), components)
    return scores("CPI stack by regression", rows, truth.workload, lambda table: _measures(table, components), left_out)


def exact_components(truth: Truth, run: str, components: Components = COMPONENTS) -> dict[str, float]:
    """Return the exact cycles per instruction of each component of a run, the base first; they sum to its CPI."""
    exact = truth.stack.loc[run]
    found = {name: float(exact.reindex(list(causes)).sum()) for name, (causes, _) in components.items()}
    return {BASE: float(exact.sum()) - sum(found.values()), **found}


def stack_distance(fitted: Mapping[str, float], exact: Mapping[str, float]) -> float:
    """Return half the sum of absolute differences over the exact total: the share of cycles in the wrong place.

    Examples
    --------
    >>> stack_distance({"base": 1.0, "memory": 0.0}, {"base": 0.5, "memory": 0.5})
    0.5
    """
    names = {*fitted, *exact}
    wrong = sum(abs(fitted.get(name, 0.0) - exact.get(name, 0.0)) for name in names)
    return 0.5 * wrong / sum(exact.values())


# ------------------------------------------------------------------ helpers


def _row(fit: object, exact: dict[str, float], components: Components) -> dict[str, object]:
    parts: pd.Series = fit.components  # type: ignore[attr-defined]
    fitted = {name: float(parts.reindex(list(of)).sum()) for name, (_, of) in components.items()}
    fitted = {BASE: float(parts[BASE]) + float(fit.residual), **fitted}  # type: ignore[attr-defined]
    distance, base_only = stack_distance(fitted, exact), stack_distance({BASE: sum(exact.values())}, exact)
    return {
        "cpi": sum(exact.values()),
        "verdict": fit.verdict.level,  # type: ignore[attr-defined]
        "r2": fit.r2.blocked,  # type: ignore[attr-defined]
        "placebo_r2": fit.placebo_r2,  # type: ignore[attr-defined]
        "distance": distance,
        "base_only": base_only,
        "nearer": distance < base_only,
        **{f"true:{name}": value for name, value in exact.items()},
        **{f"fitted:{name}": value for name, value in fitted.items()},
    }


def _measures(table: pd.DataFrame, components: Components) -> list[tuple[Measure, pd.DataFrame]]:
    against = "everything is base"
    found = [
        (Measure(f"distance, {name}", of("distance"), of("base_only"), against), table)
        for name, of in (("mean", mean), ("p90", _p90), ("median", _median))
    ]
    for level in ("supported", "uncertain", "unsupported"):
        part = table[table["verdict"] == level]
        if len(part):
            measure = Measure(f"distance, verdict {level}, mean", mean("distance"), mean("base_only"), against)
            found.append((measure, part))
    found.append((Measure("nearer than everything in the base", mean("nearer"), zero, against), table))
    of_parts = [
        Measure(f"variance explained, {name}", _explained(name), zero, "the mean of all runs")
        for name in (BASE, *components)
        if (table[f"true:{name}"] / table["cpi"]).std(ddof=0) > 1e-6  # nothing to explain otherwise
    ]
    return [*found, *((measure, table) for measure in of_parts)]


def _median(column: str) -> Callable[[pd.DataFrame], float]:
    return lambda table: float(table[column].median())


def _p90(column: str) -> Callable[[pd.DataFrame], float]:
    return lambda table: float(table[column].quantile(0.9))


def _explained(name: str) -> Callable[[pd.DataFrame], float]:
    """Return the function that gives 1 - SSE / SST of a component's shares; NaN in draws where all have one share."""

    def explained(table: pd.DataFrame) -> float:
        true, fitted = table[f"true:{name}"] / table["cpi"], table[f"fitted:{name}"] / table["cpi"]
        total = float(((true - true.mean()) ** 2).sum())
        return 1.0 - float(((true - fitted) ** 2).sum()) / total if total > 1e-12 else float("nan")

    return explained


def _reason(error: DataError) -> str:
    text = str(error)
    if "no event is left" in text:
        return "no event varies: nothing to tell from the base"
    if "interval" in text:
        return "too few intervals for the unknowns"
    return text.partition(".")[0]
