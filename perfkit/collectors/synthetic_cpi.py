"""Samples whose CPI stack is known because it was planted: for scoring CPI-stack methods. Generated, not measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from perfkit.errors import SettingError, expect
from perfkit.samples.table import Samples

# Penalties in cycles and rates per thousand instructions of a plausible core; the truth of `synthetic_cpi`.
PENALTIES: dict[str, float] = {
    "branch-misses": 18.0,
    "L1-dcache-load-misses": 6.0,
    "l2_rqsts.demand_data_rd_miss": 30.0,
    "LLC-load-misses": 180.0,
    "dTLB-load-misses": 25.0,
    "iTLB-load-misses": 30.0,
}
RATES: dict[str, float] = {
    "branch-misses": 5.0,
    "L1-dcache-load-misses": 12.0,
    "l2_rqsts.demand_data_rd_miss": 2.5,
    "LLC-load-misses": 0.6,
    "dTLB-load-misses": 0.8,
    "iTLB-load-misses": 0.1,
}


@dataclass(frozen=True)
class PlantedCpi:
    """The truth of generated samples.

    Attributes
    ----------
    base : float
        Cycles per instruction without events.
    penalties : Series
        Cycles each event costs (zero for events that cost nothing).
    components : Series
        CPI of the base, the events and ``unattributed`` (noise in the cycles), from the totals; sums to the CPI.
    cpi : float
        Total cycles over total instructions.
    """

    base: float
    penalties: pd.Series
    components: pd.Series
    cpi: float


def synthetic_cpi(
    base: float = 0.35,
    penalties: Mapping[str, float] | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    intervals: int = 1000,
    cycles: float = 3e8,
    variation: float = 0.6,
    phases: int = 8,
    noise: float = 0.01,
    count_noise: float = 0.0,
    idle: Mapping[str, float] | None = None,
    workload: str = "planted",
    seed: int = 0,
) -> tuple[Samples, PlantedCpi]:
    """Generate interval samples of fixed time, as perf stat -I gives, with a planted CPI stack.

    Each interval has ``cycles`` cycles; it finishes as many instructions as its own event rates allow:
    I = C / (base + sum p_j r_j + noise). Rates follow phases of the program and vary within them.

    Parameters
    ----------
    base : float
        Cycles per instruction without events.
    penalties : mapping, optional
        Event to cycles each; by default those of a plausible core (`PENALTIES`).
    rates : mapping, optional
        Event to mean events per thousand instructions; by default those of `RATES`, or 1.
    intervals, cycles : int, float
        How many intervals, and how long each is (1 % variation).
    variation : float
        Spread of the rates (standard deviation of their logarithm, between phases and, half of it, within).
    phases : int
        How many phases the program has.
    noise : float
        Standard deviation of the cycles that no event explains, as a share of CPI. It makes the unattributed part.
    count_noise : float
        Relative error of each count (multiplexing): the truth stays that of the true counts.
    idle : mapping, optional
        Events that cost nothing: event to rate per thousand instructions. A fit should give them nothing.
    workload : str
        Name of the run.
    seed : int
        Of all randomness.

    Returns
    -------
    tuple of (Samples, PlantedCpi)
        The samples, of kind "generated", and their truth.

    Examples
    --------
    >>> samples, planted = pk.synthetic_cpi(intervals=200, seed=1)
    >>> planted.base
    0.35
    >>> round(pk.CpiStack().fit(samples).base, 2)
    0.36
    """
    penalties = dict(PENALTIES if penalties is None else penalties)
    idle = dict(idle or {})
    _check(base, penalties, idle, intervals, phases)
    names = [*penalties, *idle]
    cost = np.array([*penalties.values(), *np.zeros(len(idle))])
    means = np.array([(rates or RATES).get(e, 1.0) for e in penalties] + list(idle.values())) / 1000.0
    rng = np.random.default_rng(seed)
    level = means * np.exp(rng.normal(0.0, variation, (phases, len(names))))
    phase = np.sort(rng.integers(phases, size=intervals))
    rate = level[phase] * np.exp(rng.normal(0.0, variation / 2, (intervals, len(names))))
    extra = rng.normal(0.0, noise, intervals)
    cpi = (base + rate @ cost) * (1.0 + extra)
    time = np.rint(cycles * (1.0 + rng.normal(0.0, 0.01, intervals)))
    work = np.rint(time / cpi)
    true = np.rint(rate * work[:, None])
    counted = np.rint(true * np.exp(rng.normal(0.0, count_noise, true.shape))) if count_noise else true
    truth = _truth(base, names, cost, time, work, true)
    settings = {"base": base, "penalties": penalties, "idle": idle, "noise": noise, "count_noise": count_noise}
    about = {**settings, "seed": seed}
    return _samples(pd.DataFrame(counted, columns=names), time, work, workload, about), truth


def artefact_cpi(
    *,
    events: int = 4,
    intervals: int = 1000,
    cycles: float = 3e8,
    spread: float = 0.3,
    count_spread: float = 0.1,
    workload: str = "artefact",
    seed: int = 0,
) -> tuple[Samples, float]:
    """Generate samples in which no event has anything to do with the cycles, and yet CPI is explained well.

    Every interval has the same cycles C; its instructions I vary, and its event counts e vary about one mean, all
    independently. But CPI = C/I and e/I share the 1/I. For one event of relative spread v, and 1/I of relative spread
    s, the correlation squared is 1 / (1 + v^2 (1 + 1/s^2)); k events average their noise, so v^2 becomes v^2/k.

    Parameters
    ----------
    events, intervals : int
        How many there are of each.
    cycles : float
        Length of each interval.
    spread, count_spread : float
        Standard deviation of the logarithm of CPI (s, where it is small), and relative spread of the counts (v).
    workload : str
        Name of the run.
    seed : int
        Of all randomness.

    Returns
    -------
    tuple of (Samples, float)
        The samples, of kind "generated", and the R2 that the CPI form reaches in expectation with these spreads.

    Raises
    ------
    SettingError
        `events` or `intervals` is less than 1.

    Examples
    --------
    >>> samples, r2 = artefact_cpi(events=1, spread=0.3, count_spread=0.1)
    >>> round(r2, 3)
    0.896
    """
    expect(isinstance(events, int), events, "artefact_cpi", "a number of events", "say how many events to make up")
    if events < 1 or intervals < 1:
        raise SettingError(f"events and intervals must be at least 1; found {events} and {intervals}")
    rng = np.random.default_rng(seed)
    inverse = np.exp(rng.normal(0.0, spread, intervals))  # CPI, up to a factor
    work = np.rint(cycles / (0.6 * inverse))
    mean = cycles * 1e-3
    counts = np.rint(mean * (1.0 + rng.normal(0.0, count_spread, (intervals, events))).clip(0.05))
    names = [f"event-{i + 1}" for i in range(events)]
    s2 = float(np.expm1(spread**2))
    r2 = 1.0 / (1.0 + count_spread**2 / events * (1.0 + 1.0 / s2))
    about = {"events": events, "spread": spread, "count_spread": count_spread, "seed": seed}
    time = np.full(intervals, float(round(cycles)))
    return _samples(pd.DataFrame(counts, columns=names), time, work, workload, about), r2


def with_event(samples: Samples, event: str, counts: ArrayLike) -> Samples:
    """Return samples of one run with one more event: its count in each interval, in order.

    Examples
    --------
    >>> samples, _ = synthetic_cpi(intervals=20, seed=1)
    >>> with_event(samples, "interrupts", [7.0] * 20).events[-1]
    'interrupts'
    """
    table = samples.table[["run", "interval", "at", "seconds", "event", "count"]].astype({"run": str, "event": str})
    added = table[table["event"] == table["event"].iloc[0]].sort_values("interval")
    added = added.assign(event=event, count=np.asarray(counts, dtype=np.float64))
    return Samples.from_counts(
        pd.concat([table, added], ignore_index=True),
        time_event=samples.time_event,
        work_event=samples.work_event,
        runs=samples.runs,
    )


def _samples(
    counts: pd.DataFrame, time: np.ndarray, work: np.ndarray, workload: str, about: Mapping[str, object]
) -> Samples:
    wide = counts.copy()
    wide.insert(0, "instructions", work)
    wide.insert(0, "cycles", time)
    long = wide.rename_axis("interval").reset_index().melt(id_vars="interval", var_name="event", value_name="count")
    seconds = float(np.mean(time)) / 3e9
    long = long.assign(run=workload, seconds=seconds, at=(long["interval"] + 1) * seconds)
    runs = pd.DataFrame(
        {
            "workload": workload,
            "source": "perfkit.collectors.synthetic_cpi",
            "kind": "generated",
            "parameters": json.dumps(about),
        },
        index=pd.Index([workload], name="run"),
    )
    return Samples.from_counts(long, time_event="cycles", work_event="instructions", runs=runs)


def _truth(
    base: float, names: list[str], cost: np.ndarray, time: np.ndarray, work: np.ndarray, counts: np.ndarray
) -> PlantedCpi:
    instructions = work.sum()
    cpi = float(time.sum() / instructions)
    parts = pd.Series([base, *(cost * counts.sum(axis=0) / instructions)], index=["base", *names], name="component")
    parts["unattributed"] = cpi - parts.sum()
    return PlantedCpi(base, pd.Series(cost, index=names, name="penalty"), parts, cpi)


def _check(base: float, penalties: Mapping[str, float], idle: Mapping[str, float], intervals: int, phases: int) -> None:
    expect(isinstance(base, Real), base, "synthetic_cpi", "a number (base)", "give the cycles per instruction")
    if not base > 0:
        raise SettingError(f"base is cycles per instruction, above 0; found {base}")
    if intervals < 1 or phases < 1:
        raise SettingError(f"intervals and phases must be at least 1; found {intervals} and {phases}")
    wrong = [e for e, p in penalties.items() if not p >= 0]
    if wrong:
        raise SettingError(f"penalties are cycles, at least 0; found {penalties[wrong[0]]} for {wrong[0]}")
    both = sorted(set(penalties) & set(idle))
    if both:
        raise SettingError(f"{', '.join(both)} cannot have a penalty and be idle")
