"""Every method of `perfkit.fitters` on shipped data: its answers are those kept in ``answers.json``.

What is right about them, the other tests say; this one says that a change of the code changed one (`tests.recorded`).
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.cpi import checks, validation
from perfkit.fitters.cpi.counts import CpiCounts
from perfkit.fitters.topdown import TopDown
from tests.recorded import differences, held, kept
from tests.results.examples import EXAMPLES

FILE = Path(__file__).with_name("answers.json")
CASES: dict[str, Callable[[], Any]] = {}


def case(name: str, *asked: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a case, given these arguments."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        CASES[name] = partial(make, *asked)
        return make

    return register


@cache
def planted(workloads: int = 1) -> pk.Samples:
    samples = pk.datasets.load("cpi/workloads")
    return samples.select(runs=list(samples.runs.index[:workloads]))


@cache
def simulated(core: str) -> pk.Samples:
    samples = pk.datasets.load(f"pmu/{core}")
    return samples.select(runs=list(samples.runs.index[::40]))


# ------------------------------------------------------------------ CPI stacks


def cpi(**settings: Any) -> Any:
    fit = pk.CpiStack(**{"resamples": 30, "placebos": 4, **settings}).fit(planted())
    said = {name: getattr(fit, name) for name in ("misplaced", "residual", "placebo_r2", "aside", "intervals")}
    return [fit, fit.correlation, said, fit.report()]


for _method in ("nnls", "ols", "huber", "lasso"):
    for _form in ("ipc", "cpi"):
        CASES[f"cpi {_method} {_form}"] = partial(cpi, method=_method, form=_form)
for _weights in ("cycles", "instructions", "none"):
    CASES[f"cpi weights {_weights}"] = partial(cpi, weights=_weights)
CASES["cpi in fours"] = partial(cpi, aggregate=4, block=7, level=0.8, folds=3)
CASES["cpi alpha"] = partial(cpi, method="lasso", alpha=0.01)


@case("cpi compared")
def compared() -> Any:
    found = pk.CpiStack(resamples=20, placebos=2).fit_each(planted(4))
    return [found, found.verdicts, {k: held(f.to_frame()) for k, f in found.items()}]


@case("cpi as in the paper", 0, 0.0)
@case("cpi as in the paper, trimmed", 5, 0.1)
def paper(trim: int, correlation: float) -> Any:
    return pk.paper_cpi_stack(planted(), trim=trim, min_correlation=correlation)


@case("cpi counts looked at")
def looked_at() -> Any:
    counts = CpiCounts.from_samples(planted(3))
    return [checks.check_counts(counts), checks.unusable_events(counts), checks.same_counters(counts)]


@case("intervals of draws")
def intervals() -> Any:
    rng = np.random.default_rng(3)
    draws, system = rng.gamma(3.0, 2.0, (400, 5)), rng.normal(1, 1, (60, 4))
    system = np.column_stack([np.ones(60), system, system[:, 0] + 0.1 * system[:, 1] + 0.01 * rng.random(60)])
    return {
        "outside": validation.outside(draws, draws.mean(axis=0) + np.array([9, 0, -5, 12, 0.2]), 0.9),
        "spread": validation.spread_of(draws, 0.9),
        "interval": validation.interval_of(draws, np.array([0.0, 1, -1, np.nan, 20]), 0.9, 1.0, 25.0),
        "inflation": validation.variance_inflation(system.T @ system),
        "f": validation.f_test(0.83, 120, 5),
        "few": validation.for_few(draws, 12, 0.9, 3),
        "inseparable": checks.inseparable(np.column_stack([draws, 20 - draws[:, 0]]), 0.9),
        "undetermined": checks.undetermined(list("abcde"), draws - 4, 0.9),
    }


# ------------------------------------------------------------------ SPIRE


@case("spire", 0.0, False)
@case("spire honest", 0.0, True)
@case("spire running", 0.02, False)
def spire(running: float, honest: bool) -> Any:
    train = pk.datasets.load("spire/train")
    model = pk.Spire(min_running=running, honest=honest).fit(train.select(runs=list(train.runs.index[:12])))
    ranking = model.rank(pk.datasets.load("spire/memory"), bootstrap=20)
    return [model, ranking, ranking.candidates, ranking.caveats, ranking.throughput_bound]


@case("spire of simulated runs", "zen4")
def spire_simulated(core: str) -> Any:
    samples = simulated(core)
    model = pk.Spire().fit(samples.select(runs=list(samples.runs.index[1:])))
    return [model, model.rank(samples.select(runs=[samples.runs.index[0]]))]


# ------------------------------------------------------------------ bottlenecks


@case("bottlenecks skylake_x", "skylake_x")
@case("bottlenecks zen4", "zen4")
def bottlenecks(core: str) -> Any:
    model, samples = pk.Bottlenecks.load(core), simulated(core)
    out = {}
    for run in samples.runs.index:
        found = model.explain(samples.select(runs=[run]))
        out[str(run)] = [found, found.answer, found.why, model.stacks(samples.select(runs=[run]))]
    return out


@case(
    "topdown of Intel",
    {
        "uops_issued.any": 2600,
        "uops_retired.retire_slots": 2400,
        "idq_uops_not_delivered.core": 800,
        "int_misc.recovery_cycles": 10,
    },
)
@case(
    "topdown of metrics",
    {
        "slots": 4000,
        "topdown-retiring": 1500,
        "topdown-bad-spec": 200,
        "topdown-fe-bound": 700,
        "topdown-be-bound": 1600,
        "topdown-mem-bound": 900,
    },
)
def topdown(counts: dict[str, float]) -> Any:
    rows = [{"interval": k, "event": e, "count": n * (1 + 0.1 * k)} for k in range(4)
            for e, n in {"cycles": 1000, "instructions": 2000, **counts}.items()]  # fmt: skip
    return TopDown().fit(pk.Samples.from_counts(pd.DataFrame(rows)))


# ------------------------------------------------------------------ studies


@cache
def gathers() -> pd.DataFrame:
    table = pk.datasets.load("studies/gather").to_frame().iloc[::5]
    return table.dropna(axis="columns", how="all").reset_index(drop=True)


@case("categories silverman", {})
@case("categories isj", {"bandwidth": "isj"})
@case("categories log", {"log": True, "bandwidth": "scott"})
@case("categories of a width", {"bandwidth": 3.0, "prominence": 0.01})
@case("categories cv", {"bandwidth": "cv", "folds": 3})
def categories(settings: dict[str, Any]) -> Any:
    try:
        return pk.KdeCategories("tsc", **settings).fit(gathers())
    except pk.errors.SettingError as refused:
        return str(refused)


@case("tree")
@case("tree of few", 2, 10)
def tree(depth: int = 4, least: int = 1) -> Any:
    found = pk.KdeCategories("tsc").fit(gathers())
    return pk.DecisionTree(["WIDTH", "ELEMENTS", "OFFSET", "IDX1"], depth, least).fit(gathers(), found)


@case("forest")
def forest() -> Any:
    return pk.RandomForest(["WIDTH", "ELEMENTS", "OFFSET", "IDX1"], trees=8, max_depth=5).fit(gathers(), "tsc")


@case("classifier knn", "knn")
@case("classifier svm", "svm")
def classifier(method: Any) -> Any:
    found = pk.KdeCategories("tsc").fit(gathers())
    return pk.Classifier(["WIDTH", "ELEMENTS", "OFFSET", "IDX1"], method).fit(gathers(), found)


for _cls, _make in EXAMPLES.items():
    if _cls.__module__.startswith(("perfkit.fitters", "perfkit.exploration", "perfkit.samples")):
        CASES[f"example {_cls.__name__}"] = _make


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_what_it_was(name):
    assert differences(kept(FILE)[name], held(CASES[name]())) == []


def test_no_answer_is_kept_of_a_case_that_is_gone():
    assert list(kept(FILE)) == list(CASES)
