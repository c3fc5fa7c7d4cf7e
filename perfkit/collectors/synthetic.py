"""Generated samples of a small processor model whose ceilings, costs and bottlenecks are known.

No machine was measured: the model exists to test inference methods against a truth, and to teach them. Each
instruction of the model costs at least ``BASE`` cycles; every event adds a fixed number of cycles, and costs never
overlap, so that cycles per instruction are a sum (a CPI stack) whose parts are known exactly:

    CPI = BASE + sum over events x of cost_x * M_x / W.

With W/T the IPC and I_x = W/M_x, no sample of an event of cost c can rise above P(I) = 1 / (BASE + c / I): rising and
concave, as SPIRE's left part. Micro-ops from the decoded-op cache are the model's beneficial event: an instruction
whose micro-ops come from the slow decoder instead costs more, so P(I) = 1 / (BASE + slow * (1 - UOPS / (UOPS * I)))
falls with I and is concave-up, as SPIRE's right part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from perfkit.errors import SettingError
from perfkit.samples.table import Samples

WIDTH = 4.0  # slots per cycle
UOPS = 1.0  # micro-ops per instruction
BASE = UOPS / WIDTH  # cycles that an instruction costs when nothing goes wrong
SLOW_DECODE = 0.4  # further cycles of an instruction whose micro-ops come from the slow decoder
MOST_SLOW = 0.95  # no program runs from the slow decoder alone
TIME, WORK = "cpu_clk_unhalted.thread", "inst_retired.any"
FAST_DECODE = "idq.dsb_uops"
UNDELIVERED = "idq_uops_not_delivered.core"


@dataclass(frozen=True)
class Event:
    """An event that costs cycles.

    Attributes
    ----------
    name : str
        Named after an Intel event of like meaning, so that notebooks can be reused on real dumps.
    area : str
        front-end, bad speculation, memory or core.
    cost : float
        Cycles each occurrence adds.
    usual : float
        Occurrences per thousand instructions in an ordinary workload.
    slots : str
        What becomes of the added cycles' slots: not delivered, recovery, or stalled (in the back end).
    """

    name: str
    area: str
    cost: float
    usual: float
    slots: str = "stalled"


COSTLY = (
    Event("frontend_retired.dsb_miss", "front-end", 3.0, 3.0, "not delivered"),
    Event("frontend_retired.l1i_miss", "front-end", 14.0, 0.6, "not delivered"),
    Event("frontend_retired.itlb_miss", "front-end", 25.0, 0.05, "not delivered"),
    Event("idq.ms_switches", "front-end", 2.0, 1.0, "not delivered"),
    Event("br_misp_retired.all_branches", "bad speculation", 16.0, 4.0, "recovery"),
    Event("machine_clears.memory_ordering", "bad speculation", 40.0, 0.02, "recovery"),
    Event("mem_load_retired.l1_miss", "memory", 4.0, 12.0),
    Event("mem_load_retired.l2_miss", "memory", 18.0, 2.5),
    Event("longest_lat_cache.miss", "memory", 90.0, 0.3),
    Event("dtlb_load_misses.miss_causes_a_walk", "memory", 12.0, 0.5),
    Event("mem_inst_retired.lock_loads", "memory", 18.0, 0.1),
    Event("arith.divider_active", "core", 1.0, 20.0),
    Event("exe_activity.1_ports_util", "core", 0.5, 60.0),
    Event("uops_issued.vector_width_mismatch", "core", 5.0, 0.1),
    Event("partial_rat_stalls.scoreboard", "core", 1.0, 12.0),
)
# Events that count the cycles of several causes: they are correlated with those, as real stall counters are.
_SUMS = MappingProxyType(
    {
        "cycle_activity.stalls_l1d_miss": ("mem_load_retired.l1_miss", "mem_load_retired.l2_miss"),
        "cycle_activity.cycles_mem_any": tuple(e.name for e in COSTLY if e.area == "memory"),
        "resource_stalls.any": tuple(e.name for e in COSTLY if e.slots == "stalled"),
        "int_misc.recovery_cycles": tuple(e.name for e in COSTLY if e.slots == "recovery"),
    }
)
# Instruction mix: neither harmful nor beneficial.
_NEUTRAL = MappingProxyType({"br_inst_retired.all_branches": 160.0, "mem_inst_retired.all_loads": 270.0})


@dataclass(frozen=True, eq=False)
class Generated:
    """Generated samples together with the truth about them.

    Attributes
    ----------
    samples : Samples
        Of kind "generated".
    events : DataFrame
        One row per event: area, cost (cycles per occurrence; NaN where the event only reports), sign (harmful,
        beneficial or neutral).
    stacks : DataFrame
        One row per run: cycles per instruction of each area, ``base`` and their sum ``cpi``, by exact accounting.
    """

    samples: Samples
    events: pd.DataFrame
    stacks: pd.DataFrame

    def ceiling(self, event: str, intensity: np.ndarray) -> np.ndarray:
        """Return the highest IPC that the model can reach at an intensity of an event: no sample is above it.

        Raises
        ------
        SettingError
            The event has no ceiling of its own.
        """
        return ceiling(event, intensity)

    @property
    def bottleneck(self) -> pd.Series:
        """The area that costs each run most."""
        return self.stacks[[*_AREAS]].idxmax(axis=1)


_AREAS = ("front-end", "bad speculation", "memory", "core")


def ceiling(event: str, intensity: "np.ndarray | Sequence[float]") -> np.ndarray:
    """Return the model's highest IPC at an intensity (instructions per event) of a costly event or the decoded ops."""
    at = np.asarray(intensity, dtype="float64")
    cost = {e.name: e.cost for e in COSTLY}
    with np.errstate(divide="ignore"):
        if event in cost:
            return 1.0 / (BASE + cost[event] / at)
        if event in _SUMS:
            return 1.0 / (BASE + 1.0 / at)
        if event == UNDELIVERED:
            return 1.0 / (BASE + 1.0 / (WIDTH * at))
        if event == FAST_DECODE:
            share = np.minimum(1.0, 1.0 / (at * UOPS))
            return 1.0 / (BASE + SLOW_DECODE * (1.0 - share))
    raise SettingError(
        f"{event!r} has no ceiling in the model; these have: {', '.join([*cost, *_SUMS, UNDELIVERED, FAST_DECODE])}"
    )


def generate(
    workloads: Mapping[str, Mapping[str, float]] | None = None,
    *,
    intervals: int = 60,
    seed: int = 0,
    noise: float = 0.0,
    seconds: float = 2.0,
) -> Generated:
    """Generate samples of workloads on the model.

    Parameters
    ----------
    workloads : mapping of run to (mapping of event or area to factor), optional
        How many times its usual rate each event has in each run (an area's name sets all its events;
        ``"slow decode"`` the share of micro-ops from the slow decoder). By default `training_workloads`.
    intervals : int
        Intervals per run.
    seed : int
        Of all random draws.
    noise : float
        Relative error of each reported count, as multiplexing causes it; time and work stay exact. 0 keeps every
        sample on or below its ceiling.
    seconds : float
        Length of an interval; the model runs at 2 GHz.

    Returns
    -------
    Generated
        Samples of kind "generated" and the truth.

    Examples
    --------
    >>> from perfkit.collectors import synthetic
    >>> g = synthetic.generate({"a": {"memory": 10.0}}, intervals=5, seed=1)
    >>> g.samples.kind, g.bottleneck["a"]
    ('generated', 'memory')
    """
    workloads = training_workloads(seed) if workloads is None else workloads
    if intervals < 1 or noise < 0 or seconds <= 0:
        raise SettingError(
            f"expected intervals >= 1, noise >= 0, seconds > 0; found {intervals=}, {noise=}, {seconds=}"
        )
    tables, stacks = [], {}
    for number, (run, factors) in enumerate(workloads.items()):
        rng = np.random.default_rng([seed, number])
        table, stacks[run] = _run(factors, intervals, seconds, noise, rng)
        tables.append(table.assign(run=run))
    counts = pd.concat(tables, ignore_index=True)
    runs = pd.DataFrame(
        {
            "workload": list(workloads),
            "host": "none: generated by a model, not measured",
            "command": "",
            "source": f"perfkit.collectors.synthetic, seed {seed}",
            "kind": "generated",
        },
        index=pd.Index(list(workloads), name="run"),
    )
    samples = Samples.from_counts(counts, time_event=TIME, work_event=WORK, runs=runs, kind="generated")
    return Generated(samples, truth(), pd.DataFrame.from_dict(stacks, orient="index").rename_axis("run"))


def truth() -> pd.DataFrame:
    """Return what is known of each event of the model: area, cost in cycles, sign."""
    rows = [(e.name, e.area, e.cost, "harmful") for e in COSTLY]
    area = {e.name: e.area for e in COSTLY}
    for name, parts in _SUMS.items():
        areas = {area[p] for p in parts}
        rows.append((name, areas.pop() if len(areas) == 1 else "", 1.0, "harmful"))
    rows.append((UNDELIVERED, "front-end", 1.0 / WIDTH, "harmful"))
    rows.append((FAST_DECODE, "front-end", np.nan, "beneficial"))
    rows += [(name, "", 0.0, "neutral") for name in (*_NEUTRAL, "uops_issued.any", "uops_retired.retire_slots")]
    return pd.DataFrame(rows, columns=["event", "area", "cost", "sign"]).set_index("event")


def training_workloads(seed: int = 0, n: int = 23) -> dict[str, dict[str, float]]:
    """Return ``n`` workloads that between them exercise every event and leave each nearly idle somewhere.

    Causes come together as they do in programs: much code means misses of the decoded-op cache, of the instruction
    cache and of its TLB; much data means misses at every level.
    """
    rng = np.random.default_rng([seed, 7919])
    out = {}
    for i in range(n):
        factors = {area: float(np.exp(rng.normal(-2.5, 1.0))) for area in _AREAS}
        factors[_AREAS[i % len(_AREAS)]] *= float(np.exp(rng.normal(3.0, 0.8)))
        chosen = COSTLY[i % len(COSTLY)]
        factors[chosen.name] = float(np.exp(rng.normal(3.0, 0.5)))
        factors["slow decode"] = float(rng.beta(0.6, 2.0))
        out[f"train-{i + 1:02d}"] = factors
    return out


ANALYSED: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "front_end": {
            "front-end": 5.0,
            "bad speculation": 0.5,
            "memory": 0.1,
            "core": 0.2,
            "slow decode": 0.9,
        },
        "bad_speculation": {"front-end": 0.3, "bad speculation": 6.0, "memory": 0.2, "core": 0.8, "slow decode": 0.2},
        "memory": {
            "front-end": 0.05,
            "bad speculation": 0.1,
            "memory": 3.0,
            "core": 0.8,
            "longest_lat_cache.miss": 25.0,
            "uops_issued.vector_width_mismatch": 20.0,
            "slow decode": 0.05,
        },
        "core": {
            "front-end": 0.2,
            "bad speculation": 0.2,
            "memory": 0.3,
            "core": 5.0,
            "mem_inst_retired.lock_loads": 15.0,
            "slow decode": 0.05,
        },
    }
)


# ------------------------------------------------------------------ helpers


def _run(
    factors: Mapping[str, float], intervals: int, seconds: float, noise: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return one run's counts, and its CPI by area."""
    _check(factors)
    rates = {e.name: _rate(e, factors, intervals, rng) for e in COSTLY}
    slow = np.clip(factors.get("slow decode", 0.1) * np.exp(_wander(intervals, 0.2, rng)), 0.0, MOST_SLOW)
    added = {e.name: e.cost * rates[e.name] for e in COSTLY}
    cpi = BASE + SLOW_DECODE * slow + np.sum(list(added.values()), axis=0)
    cycles = np.full(intervals, seconds * 2e9) * (1.0 + 0.01 * rng.standard_normal(intervals))
    work = np.floor(cycles / cpi)
    cycles = np.ceil(work * cpi)

    counts = {TIME: cycles, WORK: work}
    counts |= {name: _reported(rate * work, noise, rng) for name, rate in rates.items()}
    for name, parts in _SUMS.items():
        counts[name] = _reported(np.sum([added[p] for p in parts], axis=0) * work, noise, rng)
    counts[FAST_DECODE] = np.minimum(_reported(UOPS * (1.0 - slow) * work, noise, rng) + 1.0, UOPS * work)
    for name, usual in _NEUTRAL.items():
        counts[name] = _reported(usual / 1e3 * np.exp(_wander(intervals, 0.05, rng)) * work, noise, rng)
    counts |= _slots(added, slow, work)

    wide = pd.DataFrame(counts).assign(interval=np.arange(intervals), seconds=seconds)
    wide["at"] = wide["seconds"].cumsum()
    long = wide.melt(id_vars=["interval", "at", "seconds"], var_name="event", value_name="count")
    stack = {"base": BASE * work.sum()}
    for area in _AREAS:
        stack[area] = sum((added[e.name] * work).sum() for e in COSTLY if e.area == area)
    stack["front-end"] += (SLOW_DECODE * slow * work).sum()
    stack["cpi"] = sum(stack.values())
    return long, {part: float(cycles_of / work.sum()) for part, cycles_of in stack.items()}


def _slots(added: Mapping[str, np.ndarray], slow: np.ndarray, work: np.ndarray) -> dict[str, np.ndarray]:
    """Return the events from which top-down analysis computes its first level (see `perfkit.fitters.topdown`)."""
    of = {e.name: e.slots for e in COSTLY}
    undelivered = sum(a for name, a in added.items() if of[name] == "not delivered") + SLOW_DECODE * slow
    return {
        UNDELIVERED: np.floor(WIDTH * undelivered * work),
        "uops_issued.any": UOPS * work,
        "uops_retired.retire_slots": UOPS * work,
    }


def _rate(event: Event, factors: Mapping[str, float], intervals: int, rng: np.random.Generator) -> np.ndarray:
    """Return occurrences per instruction in each interval: usual rate, the workload's factor, and slow phases."""
    factor = factors.get(event.name, factors.get(event.area, 1.0))
    return event.usual / 1e3 * factor * np.exp(_wander(intervals, 0.35, rng))


def _wander(n: int, size: float, rng: np.random.Generator) -> np.ndarray:
    """Return a mean-reverting random walk (phases of a program) of standard deviation ``size``."""
    keep = 0.8
    steps = rng.standard_normal(n) * size
    out = np.empty(n)
    out[0] = steps[0]
    for i in range(1, n):
        out[i] = keep * out[i - 1] + np.sqrt(1.0 - keep**2) * steps[i]
    return out


def _reported(count: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Return whole counts with relative noise, rounded down, which keeps samples below their ceilings."""
    if noise == 0.0:
        return np.floor(count)
    return np.floor(count * np.exp(noise * rng.standard_normal(len(count))))


def _check(factors: Mapping[str, float]) -> None:
    known = {*_AREAS, *(e.name for e in COSTLY), "slow decode"}
    unknown = [f for f in factors if f not in known]
    if unknown or any(f < 0 for f in factors.values()) or factors.get("slow decode", 0.0) > 1.0:
        raise SettingError(
            f"factors of a workload are at least 0 (slow decode at most 1), for: {', '.join(sorted(known))}; "
            f"found {dict(factors)}"
        )
