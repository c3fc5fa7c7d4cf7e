"""What counters say by their meaning: the share of a core's capacity that each rate uses.

Rates are counts per cycle, by the names of the simulated PMU (docs/simulated-pmu.md). Every feature is a share of
something (of cycles, of a width, of a buffer, of a latency), so that what is learnt on one core can be used on another.
A feature whose events were not counted, or whose resource the core file does not have, is NaN.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.classes import CLASSES, class_of
from perfkit.machine.core import Microarchitecture

Rates = Mapping[str, NDArray[np.float64]]
WHOLE = ("dividers",)  # of which real processors count cycles with any of them busy
PORTS = ("dividers", "store ports", "load ports", "integer units", "vector units")
_SHARES = (
    "exec.0", "exec.1", "exec.2", "exec.3+", "retired.0", "retired.1", "retired.2", "retired.3+", "pending.l1",
    "pending.l2", "pending.l3", "pending.l3.4+", "exec.0.pending.l1", "exec.0.pending.l2", "exec.0.pending.l3",
    "full.rob", "full.load_buffer", "full.store_buffer", "full.scheduler", "full.line_fill_buffers",
)  # fmt: skip
_LINE = 64.0
_UNUSED = 0.005  # of its capacity, by every one of its events: a class below does not hold a program back
_OF_NO_EVENT = "instruction latency"
_BUSY, _AS_BUSY = 0.5, 0.9  # of the cycles; of the other port's
_NO_LOADS = 0.0005  # for each instruction: a program that stores has some for its loop's beginning
# Loads under way in L1, in tenths: of all runs that its latency holds back, none has fewer than 0.6; a gather, which a
# processor counts as one load, and waits for longest, keeps 0.2.
_FEW_UNDER_WAY = 0.015
OF_LOADS = ("store forwarding", "L1 latency", "load ports", "load buffer")
# Of a capacity: then all else together makes a program faster by the rest at most, one part in twenty. What uses far
# more than all of it is not of this core.
_FULL, _ABSURD = 0.95, 1.25
_FULL_MEMORY = 0.85  # lines come in bursts: in all runs learnt from that use 0.85 to 0.95, it is the bottleneck (29)
# Their bandwidth differs from machine to machine of one core: full by the file alone is not full.
OF_THE_MACHINE = ("memory bandwidth", "L3")
_IDLE = 0.1  # of the cycles
_LOADS_PER_STORE = 0.1  # below, the lines that L1 takes are those of stores, which wait in their buffer


@dataclass(frozen=True)
class Rule:
    """One feature that a class of resources can be suspected by: a share of capacity, from one rate.

    Attributes
    ----------
    of : str
        The class.
    event : str
        Whose rate.
    resource : str
        Whose value multiplies the rate (a latency) or divides it (a width, a size, a bandwidth); "" for a share.
    factor : float
        Times this.
    words : str
        What it is.
    """

    of: str
    event: str
    resource: str
    factor: float
    words: str

    @property
    def name(self) -> str:
        """The feature's name."""
        return f"{self.of}: {self.event}"

    def share(self, rate: NDArray[np.float64], core: Microarchitecture) -> NDArray[np.float64]:
        """Return the share of the capacity, NaN where the core has no such resource."""
        if not self.resource:
            return rate * self.factor
        if self.resource not in core.resources:
            return np.full_like(rate, np.nan)
        value = core.value(self.resource)
        by = value if self.resource.endswith(("latency", "penalty")) else 1.0 / value
        return rate * self.factor * by


RULES = (
    Rule("pipeline width", "uops", "front_end", 1.0, "of the width of the front end used"),
    Rule("pipeline width", "retired.3+", "", 1.0, "of cycles retired three uops or more"),
    Rule("taken branches", "branches.taken", "taken_branches", 1.0, "of the taken branches per cycle"),
    Rule("mispredicted branches", "branch-misses", "misprediction_penalty", 1.0, "of cycles would restart, one by one"),
    Rule("L1 latency", "mem-loads", "L1_latency", 0.1, "tenths of loads under way in L1"),
    Rule("load ports", "l1.accesses", "", 0.5, "of two L1 accesses per cycle"),
    Rule("store forwarding", "store-forwards", "store_forward_latency", 1.0, "of cycles in forwarding, one by one"),
    Rule(
        "store forwarding",
        "store-forwards.blocked",
        "blocked_store_forward_latency",
        1.0,
        "of cycles in blocked forwarding, one by one",
    ),
    Rule("L2", "l2.hits", "L2_latency", 0.5, "of cycles in hits of L2, two at once"),
    Rule("L2", "exec.0.pending.l1", "", 1.0, "of cycles idle while L1 misses are pending"),
    Rule("L3", "l3.hits", "L3_latency", 0.25, "of cycles in hits of L3, four at once"),
    Rule("L3", "exec.0.pending.l2", "", 1.0, "of cycles idle while L2 misses are pending"),
    Rule("memory latency", "l3.misses", "memory_latency", 0.25, "of cycles in misses of L3, four at once"),
    Rule("memory latency", "exec.0.pending.l3", "", 1.0, "of cycles idle while L3 misses are pending"),
    Rule("memory bandwidth", "lines.memory", "memory_bandwidth", _LINE, "of the memory bandwidth used"),
    Rule("memory bandwidth", "pending.l3.4+", "", 0.5, "of cycles had four L3 misses pending"),
    Rule("address translation", "tlb.walk-cycles", "", 1.0, "of cycles in page walks, one by one"),
    Rule("address translation", "tlb.misses", "second_tlb_latency", 1.0, "of cycles in the second TLB, one by one"),
    Rule("reorder buffer", "full.rob", "", 1.0, "of cycles it was full"),
    Rule("reorder buffer", "occupancy.rob", "rob", 1.0, "of the reorder buffer used"),
    Rule("load buffer", "full.load_buffer", "", 1.0, "of cycles it was full"),
    Rule("load buffer", "occupancy.load_buffer", "load_buffer", 1.0, "of the load buffer used"),
    Rule("store buffer", "full.store_buffer", "", 1.0, "of cycles it was full"),
    Rule("store buffer", "occupancy.store_buffer", "store_buffer", 1.0, "of the store buffer used"),
    Rule("line fill buffers", "full.line_fill_buffers", "", 0.1, "tenths of accesses waiting for one"),
    Rule("line fill buffers", "occupancy.misses", "line_fill_buffers", 1.0, "of the fill buffers used"),
    Rule("schedulers", "full.scheduler", "", 1.0, "of cycles they were full"),
    Rule("store ports", "mem-stores", "", 1.0, "stores per cycle"),
    Rule("instruction latency", "exec.0", "", 0.5, "of cycles nothing began"),
    Rule("instruction latency", "occupancy.scheduler", "rob", 1.0, "of the window waits to begin"),
)
# Class -> the feature that is the share of a capacity in use: it can reach 1, and no more. Other shares are of what
# single events would take one by one, of cycles in which a buffer was full, or of entries; more branches are taken than
# one in so many cycles where they come in pairs.
CAPACITIES = {
    "pipeline width": "pipeline width: uops",
    "L2": "lines from L2",
    "L3": "lines from L3",
    "memory bandwidth": "memory bandwidth: lines.memory",
    **{name: f"{name}: ports" for name in PORTS},
}
# Rates that are sums of counted ones. Some processors count them together, under the sum's name.
SUMS = {
    "lines.memory": ("l3.misses", "l3.prefetch-misses"),
    "lines.l3": ("l2.misses", "l2.prefetches"),
}
_ALWAYS = "always"
# Name -> events above and below, factor, and how the events below can take time: a resource whose value is what one
# takes at most, "" where they are cycles, "always" where every program has many of them.
_RATIOS: dict[str, tuple[str, str, float, str]] = {
    "uops per instruction": ("uops", "instructions", 0.5, _ALWAYS),
    "branches per instruction": ("branches", "instructions", 1.0, _ALWAYS),
    "misses a branch": ("branch-misses", "branches", 1.0, "misprediction_penalty"),
    "indirect misses a miss": ("branch-misses.indirect", "branch-misses", 1.0, "misprediction_penalty"),
    "loads per instruction": ("mem-loads", "instructions", 1.0, _ALWAYS),
    "stores per instruction": ("mem-stores", "instructions", 1.0, _ALWAYS),
    "forwards a load": ("store-forwards", "mem-loads", 1.0, "L2_latency"),
    "L1 misses an access": ("l1.misses", "l1.accesses", 1.0, "memory_latency"),
    "L2 misses an L1 miss": ("l2.misses", "l1.misses", 1.0, "memory_latency"),
    "L3 misses an L2 miss": ("l3.misses", "l2.misses", 1.0, "memory_latency"),
    "misses at once": ("occupancy.misses", "pending.l1", 0.1, ""),
    "waiting of what is in flight": ("occupancy.scheduler", "occupancy.rob", 1.0, _ALWAYS),
    "idle of pending L1": ("exec.0.pending.l1", "pending.l1", 1.0, ""),
    "idle while pending of idle": ("exec.0.pending.l1", "exec.0", 1.0, ""),
    "L2 pending of L1 pending": ("pending.l2", "pending.l1", 1.0, ""),
    "L3 pending of L1 pending": ("pending.l3", "pending.l1", 1.0, ""),
    "taken of branches": ("branches.taken", "branches", 1.0, "misprediction_penalty"),
    "walks an access": ("tlb.walks", "l1.accesses", 1.0, "memory_latency"),
}
_CHAINED = ("misses at once", "share: pending.l1", "share: exec.0.pending.l1")
_ONE, _MOSTLY = (0.09, 0.11), 0.5  # tenths of misses at once; of the cycles, in which nothing begins meanwhile
OF_MISSES = (
    "L2", "L3", "memory latency", "memory bandwidth", "address translation", "reorder buffer", "load buffer",
    "line fill buffers", "schedulers",
)  # fmt: skip
_ACCESSES = ("loads per instruction", "stores per instruction")
_HALF = 0.05  # of the cycles: what events must be able to take for half of their ratio to count


def port_events(core: Microarchitecture) -> dict[str, list[str]]:
    """Return the core's groups of ports by class: their events are ``uops.`` and the name."""
    found: dict[str, list[str]] = {name: [] for name in PORTS}
    for group in core.ports:
        if class_of(group) in found:
            found[class_of(group)].append(group)
    return found


def dividing(core: Microarchitecture, has: Collection[str]) -> str:
    """Return the class that divides floating-point numbers where none of a processor's events tells it; else "".

    AMD's processors count cycles of the integer divider only. Where a core has no divider apart from its vector units,
    divisions keep these.
    """
    groups = port_events(core)
    name = "dividers" if groups["dividers"] else "vector units"
    told = any_of(name) in has or all(f"uops.{group}" in has for group in groups[name])
    return "" if told else name


def any_of(name: str) -> str:
    """Return the event of the cycles in which any of a class's ports is busy, as real processors count dividers."""
    return f"any of {name}"


def features(rates: Rates, core: Microarchitecture) -> dict[str, NDArray[np.float64]]:
    """Return every feature, in a fixed order, one value per row of the rates; NaN where it is not known.

    Parameters
    ----------
    rates : mapping of event to (n,) float
        Counts per cycle; NaN, or absent, where an event was not counted.
    core : Microarchitecture
        Whose widths, latencies and sizes the rates are shares of.
    """
    n = len(next(iter(rates.values()))) if rates else 0

    def rate(event: str) -> NDArray[np.float64]:
        if event in SUMS:
            whole = rates[event] if event in rates else np.full(n, np.nan)
            return np.where(np.isnan(whole), sum((rate(part) for part in SUMS[event]), np.zeros(n)), whole)
        return np.asarray(rates[event], dtype=float) if event in rates else np.full(n, np.nan)

    found = {rule.name: rule.share(rate(rule.event), core) for rule in RULES}
    for name, groups in port_events(core).items():
        whole = rate(any_of(name)) if groups or name in WHOLE else np.full(n, np.nan)
        for which, largest in (("ports", True), ("all ports", False)):
            each = _busiest(rate, core, groups, largest=largest)
            found[f"{name}: {which}"] = np.where(np.isnan(whole), each, whole)
    found |= {f"share: {event}": rate(event) for event in _SHARES}
    found["lines from L3"] = _by(rate("lines.l3") * _LINE, core, "L3_bandwidth")
    found["lines from L2"] = _by(rate("l1.misses") * _LINE, core, "L2_bandwidth")
    found["instructions of the width"] = _by(rate("instructions"), core, "front_end")
    for name, (above, below, factor, taking) in _RATIOS.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            upper, lower = rate(above), rate(below)
            ratio = np.where(lower > 0, upper / lower * factor, np.where(np.isnan(upper + lower), np.nan, 0.0))
        counts = 1.0 if taking == _ALWAYS else _matters(lower * (core.value(taking, 1.0) if taking else 1.0))
        found[name] = ratio * counts
    return found


def _matters(cycles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far a ratio of events that can take so much of the cycles counts: one cold miss is a ratio of 1."""
    square = np.square(np.nan_to_num(cycles))
    return square / (square + _HALF**2)


def rule_scores(found: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Return each class's largest share by its rules alone, NaN where none of them is known."""
    scores = {}
    for name in CLASSES:
        mine = [found[rule.name] for rule in RULES if rule.of == name]
        mine += [found[f"{name}: ports"]] if name in PORTS else []
        stacked = np.stack(mine)
        known = ~np.isnan(stacked)
        scores[name] = np.where(known.any(axis=0), np.where(known, stacked, -np.inf).max(axis=0), np.nan)
    return scores


def needed(name: str, core: Microarchitecture) -> tuple[str, ...]:
    """Return the events by any of which a class can be judged at all, the most telling first."""
    ports = port_events(core).get(name, ())
    by_rule = [event for rule in RULES if rule.of == name for event in (rule.event, *SUMS.get(rule.event, ()))]
    whole = (any_of(name),) if name in WHOLE else ()
    return tuple(dict.fromkeys([*whole, *(f"uops.{group}" for group in ports), *by_rule]))


@dataclass(frozen=True, eq=False)
class Known:
    """What counted events say of each row.

    Attributes
    ----------
    values : (rows, features) float
        The features in the order of `NAMES`, NaN where the events that were counted do not determine one.
    least : (rows, features) float
        What a feature is at least, by those of its events that were counted (of several ports, the busiest); else NaN.
    never : (features,) bool
        Features that this core has not, whatever is counted.
    """

    values: NDArray[np.float64]
    least: NDArray[np.float64]
    never: NDArray[np.bool_]


def known(rates: Rates, core: Microarchitecture, names: Collection[str] | None = None) -> Known:
    """Return what the events that were counted determine, and what they only bound; parameters as of `features`.

    ``names`` are the events that the processor can count, by default all: of a class's groups of ports, those that it
    can tell are taken for all of them where they have all of its ports.
    """
    found = features(rates, core)
    values = np.stack([found[name] for name in NAMES], axis=1)
    least = np.full_like(values, np.nan)
    for name, every_group in port_events(core).items():
        groups = [g for g in every_group if names is None or f"uops.{g}" in names]
        if {u for g in groups for u in core.ports[g].units} < {u for g in every_group for u in core.ports[g].units}:
            groups = every_group
        at, counted = NAMES.index(f"{name}: ports"), _counted(rates, [f"uops.{group}" for group in groups])
        some = ~np.all(counted, axis=0) if groups else np.zeros(len(values), dtype=np.bool_)
        some &= ~_counted(rates, [any_of(name)])[0]
        least[some, at], values[some, at] = values[some, at], np.nan
    for rule in (rule for rule in RULES if rule.event in SUMS):
        parts = [rates[part] for part in SUMS[rule.event] if part in rates]
        at = NAMES.index(rule.name)
        if parts:
            some = np.isnan(values[:, at]) & ~np.all(np.isnan(parts), axis=0)
            least[some, at] = rule.share(np.nansum(parts, axis=0), core)[some]
    every = features({event: np.ones(1) for event in _events(core)}, core)
    return Known(values, least, np.array([np.isnan(every[name][0]) for name in NAMES]))


def _counted(rates: Rates, events: list[str]) -> list[NDArray[np.bool_]]:
    n = len(next(iter(rates.values()))) if rates else 0
    return [np.isfinite(rates[event]) if event in rates else np.zeros(n, dtype=np.bool_) for event in events]


def _events(core: Microarchitecture) -> set[str]:
    """Return all events that a feature can be made of on this core."""
    named = {rule.event for rule in RULES} | {event for parts in SUMS.values() for event in parts} | set(_SHARES)
    return named | {event for above, below, *_ in _RATIOS.values() for event in (above, below)} | {
        f"uops.{group}" for groups in port_events(core).values() for group in groups
    }  # fmt: skip


def features_of(name: str) -> tuple[str, ...]:
    """Return the features by which a class is suspected: shares of its capacity, which are 0 where it is not used."""
    ports = (f"{name}: ports",) if name in PORTS else ()
    forwards = ("forwards a load",) if name == "store forwarding" else ()  # its latency is 0 on cores that rename
    return (*(rule.name for rule in RULES if rule.of == name), *ports, *forwards)


def ruled_out(x: NDArray[np.float32], names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which classes cannot hold a row back most, whatever was learnt, (rows, names).

    Those of which a row uses nothing, by events that were all counted; what only loads wait for, without loads; the
    latency of L1 where it takes hardly any of the cycles, even of one load after the other; where loads that miss
    L1 follow one another without a gap, what no such load waits for; and, where a capacity is full (`CAPACITIES`),
    all classes of which none is: a program that uses 95 % of a port is no more than 5 % faster with anything else.
    What is full is used, whatever its other events say (a prefetcher may leave no hit and no wait in L3); and where
    nothing is left, nothing is ruled out.
    """
    found, full = (np.zeros((len(x), len(names)), dtype=np.bool_) for _ in range(2))
    loads, chained = without_loads(x), _one_miss_after_another(x)
    under_way = x[:, NAMES.index("L1 latency: mem-loads")]
    few = (under_way >= 0) & (under_way < _FEW_UNDER_WAY)
    for k, name in enumerate(names):
        mine = x[:, [NAMES.index(feature) for feature in features_of(name)]]
        found[:, k] = (mine < _UNUSED).all(axis=1) & (mine >= 0).any(axis=1)
        found[:, k] |= loads if name in OF_LOADS else False
        found[:, k] |= chained if name not in OF_MISSES else False
        found[:, k] |= few if name == "L1 latency" else False
        if name in CAPACITIES:
            full[:, k] = _is_full(name, x[:, NAMES.index(CAPACITIES[name])])
            full[:, k] &= ~_never_idle(x[:, NAMES.index("share: exec.0")]) if name in OF_THE_MACHINE else True
            full[:, k] &= ~_of_stores(*(x[:, NAMES.index(each)] for each in _ACCESSES)) if name == "L2" else True
    out = (found | full.any(axis=1, keepdims=True)) & ~full
    return np.asarray(out & ~out.all(axis=1, keepdims=True))


def unused_of(shares: Mapping[str, NDArray[np.float64]], names: Collection[str]) -> NDArray[np.bool_]:
    """Return of which classes a row uses nothing, by each of their events that was counted, (rows, names).

    But for the latency of instructions: where one begins in every cycle, no event counts what waits for it. What is
    full is used, whatever its other events say.
    """
    found, full = [], full_capacities(shares)
    for name in map(str, names):
        mine = np.stack([shares[feature] for feature in features_of(name)])
        some = ~np.isnan(mine).all(axis=0) & (name != _OF_NO_EVENT)
        found.append(some & ~(mine >= _UNUSED).any(axis=0) & ~full.get(name, np.zeros_like(some)))
    return np.stack(found, axis=1)


def either_units(rates: Rates) -> NDArray[np.bool_]:
    """Return where ports 0 and 6 of an Intel core are as busy as one another and no other is, (rows,).

    Shifts, conditional moves and branches take either, vector instructions ports 0, 1 and 5, and a processor's events
    of a port do not say what it executed: integer and vector units have one evidence then.
    """
    n = len(next(iter(rates.values()))) if rates else 0
    p0, p1, p5, p6 = (rates.get(f"uops.p{port}", np.full(n, np.nan)) for port in "0156")
    most, least = np.fmax(p0, p6), np.fmin(p0, p6)
    others = np.fmax(p1, p5)  # one of them at least was counted
    return np.asarray((p0 + p6 > 0) & (most >= _BUSY) & (least >= _AS_BUSY * most) & (others <= most / 2))


def without_loads(x: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the rows that load nothing to speak of, (rows,): nothing is forwarded to a load there."""
    return loads_nothing(x[:, NAMES.index("loads per instruction")])


def loads_nothing(share: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where so few loads per instruction are none to speak of; what was not counted (-1, NaN) is not none."""
    return np.asarray((share >= 0) & (share < _NO_LOADS))


def unhelpful(core: Microarchitecture) -> tuple[str, ...]:
    """Return the classes whose full capacity stands for a limit of the core that no class has.

    Where a core has one port for the data of stores and its file says nothing of `store_commit`, one store for each
    cycle reaches L1, too.
    """
    ports = {unit for group in port_events(core).get("store ports", ()) for unit in core.ports[group].units}
    return ("store ports",) if len(ports) == 1 and "store_commit" not in core.resources else ()


def full_capacities(shares: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.bool_]]:
    """Return, for each class with a capacity, in which rows it is full, as far as its events were counted, (rows,)."""
    full = {name: _is_full(name, shares[feature]) for name, feature in CAPACITIES.items()}
    full["L2"] = full["L2"] & ~_of_stores(*(shares[each] for each in _ACCESSES))
    busy = _never_idle(shares["share: exec.0"])
    return {name: each & ~busy if name in OF_THE_MACHINE else each for name, each in full.items()}


def _of_stores(loads: NDArray[Any], stores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where lines come for stores: one store per cycle takes one line per cycle, and waits for its port as well.

    No run of the kind was learnt from, and whether L2 or the buffer of stores holds it back is not told by lines.
    """
    return np.asarray((loads >= 0) & (stores > 0) & (loads < _LOADS_PER_STORE * stores))


def _never_idle(share: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where hardly a cycle begins nothing: then nothing waits for lines, whatever bandwidth a file gives."""
    return np.asarray((share >= 0) & (share < _IDLE))


def _is_full(name: str, share: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((share >= (_FULL_MEMORY if name == "memory bandwidth" else _FULL)) & (share <= _ABSURD))


def _one_miss_after_another(x: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the rows that wait for one miss of L1 after the other: always one is under way, and never two, (rows,).

    Their time is the sum of the misses'. What else takes time passes beside it, or there would be a gap.
    """
    at_once, under_way, idle = (x[:, NAMES.index(each)] for each in _CHAINED)
    one = (at_once >= _ONE[0]) & (at_once <= _ONE[1])
    return np.asarray(one & (under_way >= _FULL) & (under_way <= _ABSURD) & (idle >= _MOSTLY))


def _busiest(
    rate: Callable[[str], NDArray[np.float64]], core: Microarchitecture, groups: list[str], *, largest: bool
) -> NDArray[np.float64]:
    """Return the use of the busiest group, or of the group with the most ports."""
    if not groups:
        return rate("no such event")
    if not largest:
        groups = [max(groups, key=lambda g: len(core.ports[g].units))]
    used = np.stack([rate(f"uops.{group}") * core.resource(group).inverse_throughput for group in groups])
    known = ~np.isnan(used)
    return np.where(known.any(axis=0), np.where(known, used, -np.inf).max(axis=0), np.nan)


def _by(rate: NDArray[np.float64], core: Microarchitecture, resource: str) -> NDArray[np.float64]:
    return rate / core.value(resource) if resource in core.resources else np.full_like(rate, np.nan)


NAMES: tuple[str, ...] = (
    *(rule.name for rule in RULES),
    *(f"{name}: {which}" for name in PORTS for which in ("ports", "all ports")),
    *(f"share: {event}" for event in _SHARES),
    "lines from L3",
    "lines from L2",
    "instructions of the width",
    *_RATIOS,
)


def matrix(rates: Rates, core: Microarchitecture) -> NDArray[np.float32]:
    """Return the features as the model takes them, (rows, features): -1 stands for what is not known."""
    found = features(rates, core)
    order = np.stack([found[name] for name in NAMES], axis=1) if found else np.zeros((0, len(NAMES)))
    return np.clip(np.nan_to_num(order, nan=-1.0, posinf=8.0), -1.0, 8.0).astype(np.float32)


def telling_all() -> dict[str, tuple[str, ...]]:
    """Return the events of features that are of no class, with these features: they tell several classes apart."""
    found: dict[str, list[str]] = {}
    made_of: dict[str, tuple[str, ...]] = {f"share: {event}": (event,) for event in _SHARES}
    made_of |= {name: (above, below) for name, (above, below, *_) in _RATIOS.items()}
    made_of |= {"lines from L3": SUMS["lines.l3"], "lines from L2": ("l1.misses",)}
    for feature, events in made_of.items():
        for event in events:
            found.setdefault(event, []).append(feature)
    return {event: tuple(features_) for event, features_ in found.items() if event != "instructions"}
