"""Unit 6, CPI stacks and self-deception: what a good fit does not prove. All samples are generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from perfkit.collectors.synthetic_cpi import PENALTIES, RATES, PlantedCpi, synthetic_cpi, with_event
from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit, part_seed
from perfkit.fitters.cpi.counts import CpiCounts
from perfkit.fitters.cpi.estimator import make_estimator
from perfkit.fitters.cpi.solvers import build_system, r_squared
from perfkit.fitters.cpi.stack import CpiStack
from perfkit.fitters.cpi.validation import blocked_folds, cross_validate, random_folds

if TYPE_CHECKING:
    from perfkit.samples.table import Samples

# Rates per thousand instructions with which every event costs a few per cent of the cycles.
_RATES = {name: rate for name, rate in RATES.items() if name != "iTLB-load-misses"} | {"dTLB-load-misses": 2.5}
PROGRAMS = 40  # of exercise 4: drawing one takes several tries
STEADY = 2e-3  # occurrences per cycle of an event that happens at a steady rate in time
# Events that have nothing to do with the cycles of exercise 4.
UNRELATED = (
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "alignment-faults",
    "node-loads",
    "node-stores",
    "emulation-faults",
)


@dataclass(frozen=True)
class Deceiving:
    """What a student of unit 6 gets. All samples are generated; no machine was measured.

    Attributes
    ----------
    samples : Samples
        400 intervals of a program, with five events. One of them costs nothing, and happens at a steady rate in time.
    event : str
        The event of exercise 2.
    few : Samples
        60 intervals of another program, with many events.
    order : tuple of str
        The events of ``few`` in the order in which a colleague added them to a model.
    """

    samples: Samples
    event: str
    few: Samples
    order: tuple[str, ...]


def steady_counts(samples: Samples, seed: int) -> pd.Series[float]:
    """Return counts of an event of a steady rate in time, whatever the program does, with 3 % of noise."""
    cycles = samples.table.loc[samples.table["event"] == "cycles"].sort_values("interval")["count"]
    noise = np.random.default_rng(seed).normal(0.0, 0.03, len(cycles))
    return (STEADY * cycles * (1.0 + noise)).round()


def kept_out(counts: CpiCounts, order: Sequence[str]) -> pd.DataFrame:
    """Return R2 of models with the first one, two, ... events: in sample, and in intervals and phases kept out.

    IPC form, ordinary least squares, so that every event may take part (`CpiR2` says what the three are).
    """
    rows, n = {}, len(counts)
    estimator = make_estimator("ols", "ipc", order, None, None)
    for taken in range(1, len(order) + 1):
        part = counts.select(events=order[:taken])
        system = build_system("ipc", part.cycles, part.instructions, part.counts, part.cycles)
        whole = system.moments()
        x, _ = estimator.fit(system)
        rows[taken] = {
            "in sample": r_squared(whole, x),
            "intervals kept out": cross_validate(
                system, estimator, random_folds(n, 5, np.random.default_rng(0)), whole, x
            ),
            "phases kept out": cross_validate(system, estimator, blocked_folds(n, 5), whole, x),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("events")


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    costless = str(rng.choice(list(_RATES)))
    penalties = {n: PENALTIES[n] * float(rng.uniform(0.7, 1.5)) for n in _RATES if n != costless}
    made, truth = synthetic_cpi(
        float(rng.uniform(0.3, 0.5)),
        penalties,
        rates=_RATES,
        intervals=400,
        noise=0.01,
        seed=part_seed(rng),
        workload="my program",
    )
    samples = with_event(made, costless, steady_counts(made, part_seed(rng)))
    counts = CpiCounts.from_samples(samples)
    shares = truth.components[list(penalties)]
    event = str(shares.nlargest(3).index[rng.integers(3)])
    few, order, r2 = _many_events(int(rng.integers(PROGRAMS)))
    answers = _stack_answers(counts, truth, event, shares, costless) | {"how many": _best_number(order, r2)}
    return Drawn(Deceiving(samples, event, few, order), answers)


def _stack_answers(
    counts: CpiCounts, truth: PlantedCpi, event: str, shares: pd.Series, costless: str
) -> dict[str, Solution]:
    """Return what is asked of one stack, with the mistakes that are foreseen."""
    cpi = CpiStack(form="cpi", resamples=0).fit(counts)
    correlation = cpi.correlation()["CPI"].drop("CPI")
    return {
        "placebo": Solution(
            cpi.placebo_r2,
            (
                Mistake(cpi.r2.in_sample, "That is the R² of the data as they are. And with shuffled counts?"),
                Mistake(cpi.r2.in_sample - cpi.placebo_r2, "Asked is the R² of the placebo itself."),
            ),
        ),
        "penalty": Solution(
            float(truth.penalties[event]),
            (
                Mistake(float(truth.components[event]), "That is its part of the CPI. What does one occurrence cost?"),
                *(
                    Mistake(line, "A line through one event gives it the cycles of all events that come with it.")
                    for line in [_slope(counts, event)]
                    if abs(line / truth.penalties[event] - 1.0) > 0.1  # by chance it may be right
                ),
            ),
        ),
        "costless": Solution(
            costless,
            tuple(
                Mistake(wrong, why)
                for wrong, why in (
                    (str(correlation.idxmin()), "It is hardly correlated with CPI, but that may be for other reasons."),
                    (str(shares.idxmin()), "It costs little, but it does cost something. Compare the two forms."),
                )
                if wrong != costless
            ),
        ),
    }


def _best_number(order: Sequence[str], r2: pd.DataFrame) -> Solution:
    """Return how many events are best, with the mistakes that are foreseen."""
    best, all_of_them = int(r2["phases kept out"].idxmax()), len(order)
    return Solution(
        best,
        (
            Mistake(all_of_them, "The more events, the better the fit to its own intervals, always. And to others?"),
            *(
                Mistake(int(n), "Intervals drawn at random have neighbours of the same phase in the fit.")
                for n in [r2["intervals kept out"].idxmax()]
                if n not in (best, all_of_them)
            ),
        ),
    )


def _slope(counts: CpiCounts, event: str) -> float:
    """Return the slope of CPI over the occurrences of one event per instruction, all others left out."""
    rate = counts.counts[:, counts.events.index(event)] / counts.instructions
    return float(np.polyfit(rate, counts.cycles / counts.instructions, 1)[0])


@cache
def _many_events(program: int) -> tuple[Samples, tuple[str, ...], pd.DataFrame]:
    """Return few intervals with many events, these in a colleague's order, who began with those that matter, and R2.

    Drawn until R2 in phases kept out is best with the events that matter: a few events that do not matter may help by
    chance, and then nobody could tell.
    """
    rng, names = np.random.default_rng(program), list(PENALTIES)
    while True:
        mattering = [str(name) for name in rng.permutation(names)[: rng.integers(2, 6)]]
        order = (*mattering, *(str(name) for name in rng.permutation(UNRELATED)))
        made, _ = synthetic_cpi(
            0.4,
            {name: 90.0 / RATES[name] for name in mattering},
            idle=dict.fromkeys(order[len(mattering) :], 2.0),
            intervals=60,
            phases=10,
            noise=0.05,
            workload="few intervals",
            seed=part_seed(rng),
        )
        r2 = kept_out(CpiCounts.from_samples(made), order)
        if r2["phases kept out"].idxmax() == len(mattering):
            return made, order, r2


UNIT = Unit(
    "unit6",
    "CPI stacks and self-deception",
    "unit6_cpi_stacks.ipynb",
    "A model that explains nearly all of the variation (a high R²) has found the causes.",
    (
        Exercise(
            "placebo",
            2,
            "the R² that shuffled counts reach in the CPI form, a number",
            "Fit the CPI form; its placebo is beside its R².",
            tolerance=0.0,
            absolute=0.006,
        ),
        Exercise(
            "penalty",
            3,
            "cycles that one occurrence of your event costs, a number",
            "Fit all events together, in the form whose placebo is near zero.",
            tolerance=0.1,
        ),
        Exercise(
            "costless",
            2,
            "the name of the event that costs nothing",
            "It happens at a steady rate in time. What does the IPC form say of it, and what the CPI form?",
        ),
        Exercise(
            "how many",
            3,
            "how many of the events, in the colleague's order, should be in the model, a whole number",
            "Fit with one event, with two, with three ..., and compare R² in phases that were kept out of the fit.",
            tolerance=0.0,
        ),
    ),
    _draw,
)
