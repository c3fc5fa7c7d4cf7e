"""When which executed instruction occupied which resource: a window of cycles by resources, with its dependences.

Gus (section 3.1, Algorithm 1, ``UsedBy``) reserves capacity: a resource that is used becomes available later by the
inverse throughput, counted from the dispatch of its user on. Here a use is drawn where its user needs it: load ports
and memory levels when the address is known, other ports when the operation starts, front end up to the dispatch,
retirement up to the retirement. Where operands come late, a resource was therefore reserved before it is drawn, and two
uses may overlap; how often that happens is told (`Timeline.overlapping`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfkit.base.results import Kind, Tabled, draw
from perfkit.errors import expect, expect_number, of_extra
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.gus.timing import LEVELS, TICKS
from perfkit.simulators.memory.memory import LEVEL, PREFETCH_SHIFT, SECOND_SHIFT, SPLIT
from perfkit.trace.code import expand
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.gus import GusResult


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Tabled):
    """A window of the schedule (simulated).

    Attributes
    ----------
    schedule : DataFrame
        One row per executed instruction, as `perfkit.simulators.gus.causality.InstructionSchedule`'s table, and
        through: the resource for which it waited for its parent's use of it; "a cache line" where it waited for the
        line that the parent fetches; "" where it waited for the parent's result, or for an entry of a buffer.
    resources : DataFrame
        One row per resource that the window uses, in the order of the pipeline: resource, kind ("front end", "ports",
        "memory", "retirement"), units (lanes), busy (share of its capacity that the window's instructions take, at most
        1: over the cycles in which they retire or, where that is longer, over those in which some resource serves them;
        many that were ready early can retire in a burst, in less time than a port needs for them).
    uses : DataFrame
        One row per use: resource, lane (from 0), n (the executed instruction), start and end (cycles). A use of a group
        of ports occupies one of its units.
    producers : DataFrame
        What each instruction's operands came from: n, producer (an executed instruction), through ("address",
        "register" or "memory"). Producers further back than the reorder buffer reaches had retired; they are left out.
    overlapping : float
        Share of the uses that overlap another one on all units of their resource.
    complete : (float, float)
        The cycles of which nothing is missing: all earlier instructions have retired, no later one was dispatched.
        Empty (from 0 to 0) where the window has fewer instructions than are in flight.
    core : str
        Name of the core.
    """

    _rows: ClassVar[str] = "uses"

    schedule: "pd.DataFrame"
    resources: "pd.DataFrame"
    uses: "pd.DataFrame"
    producers: "pd.DataFrame"
    overlapping: float
    complete: tuple[float, float]
    core: str

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    def to_frame(self) -> "pd.DataFrame":
        """Return a copy of `uses`, one row per use of a resource."""
        return self.uses.copy()

    def summary(self) -> str:
        """Say which resources the window keeps busiest."""
        n, busiest = self.schedule["n"], self.resources.sort_values("busy", ascending=False, kind="stable").head(4)
        shares = ", ".join(f"{r.resource} {r.busy:.0%}" for r in busiest.itertuples())
        begin, end = self.schedule["dispatch"].min(), self.schedule["retire"].max()
        return "\n".join(
            [
                f"busiest of {len(self.resources)} resources: {shares} of their capacity (simulated)",
                (
                    f"instructions {n.iloc[0]:,} to {n.iloc[-1]:,}, cycles {begin:,.0f} to {end:,.0f} on {self.core}; "
                    f"{self.overlapping:.1%} of the uses overlap another one"
                ),
            ]
        )

    def plot(self, ax: "Axes | None" = None, selected: int = -1, cycles: float = 60) -> "Axes":
        """Draw which resource was occupied when: ``cycles`` of the window, around the selected instruction."""
        return draw("gus:plot_timeline", self, selected=selected, cycles=cycles, ax=ax)

    def middle(self, text: str = "") -> int:
        """Return the executed instruction that starts in the middle of `complete` and waited for another one's result.

        Of those whose assembly holds ``text``; of the window's instructions where there are none.
        """
        expect(isinstance(text, str), text, "Timeline.middle", "text", "give a part of an instruction's assembly")
        waited = self.schedule[self.schedule["parent"] >= 0]
        waited = waited[waited["text"].str.contains(text, regex=False)]
        rows = waited if len(waited) else self.schedule
        begin, end = self.complete if self.complete[0] < self.complete[1] else (rows["start"].min(), rows["end"].max())
        return int(rows["n"].iloc[int((rows["start"] - (begin + end) / 2).abs().to_numpy().argmin())])


def timeline(result: "GusResult", first: int = 0, count: int = 1000) -> Timeline:
    """Return which resources ``count`` executed instructions from number ``first`` (from 0) occupied, and when.

    The times are exact for any window; what comes before it is simulated again, so that the cost grows with ``first``.
    Take a few times as many instructions as the reorder buffer holds, to see all that happens at once.
    `GusResult.timeline` is the same.

    Raises
    ------
    SettingError, DataError
        As `GusResult.schedule`.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> pk.timeline(result, 0, 40).summary().splitlines()[1].split(";")[0]
    'instructions 0 to 39, cycles 0 to 322 on skylake_x'
    """
    pd = of_extra("pandas")

    how = "simulate a trace: perfkit.Gus(core).run(trace)"
    expect(hasattr(result, "schedule"), result, "timeline", "a GusResult", how)
    expect_number(count, "timeline", "count", "say how many instructions", whole=True)
    result.schedule(first, 1)  # refuses what is not in the trace, before the work
    table = result.schedule(0, first + count).table
    run = _Run(result, table)
    window = slice(first, len(table))
    producers = pd.DataFrame(list(run.producers(first)), columns=["n", "producer", "through"])
    shown = table.iloc[window].reset_index(drop=True)
    shown["through"] = run.waited_for(shown, producers)
    known = producers[producers["n"] >= first]
    uses = pd.concat([_frame(name, *parts) for name, parts in run.uses(first, producers).items()], ignore_index=True)
    begin = float(table["retire"].iloc[first - 1]) if first else 0.0
    taken, serving = _taken(uses, run.units)
    span, last = max(float(shown["retire"].iloc[-1]) - begin, serving), float(shown["dispatch"].iloc[-1])
    rows = [
        {"resource": name, "kind": run.kind(name), "units": run.units[name], "busy": cycles / span}
        for name, cycles in taken.items()
    ]
    uses, overlapping = _in_lanes(uses, run.units)
    resources = pd.DataFrame(rows).sort_values("resource", key=lambda names: names.map(run.place))
    return Timeline(
        shown,
        resources.reset_index(drop=True),
        uses,
        known.reset_index(drop=True),
        overlapping,
        (begin, last) if begin < last else (0.0, 0.0),
        result.settings.core.name,
    )


class _Run:
    """The instructions from the start of the trace to the end of the window, with what each of them used."""

    def __init__(self, result: "GusResult", table: "pd.DataFrame") -> None:
        self.program, self.core = result.program, result.settings.core
        self.instruction = table["instruction"].to_numpy(dtype=np.int64)
        self.dispatch, self.end, self.retire = (_ticks(table[name]) for name in ("dispatch", "end", "retire"))
        self._accesses(result, len(table))
        first = self.core.caches[0].line
        self.bandwidths = {
            f"{name}_bandwidth": (1 if k == 0 else first) / self.core.resources[f"{name}_bandwidth"].value
            for k, name in enumerate(LEVELS)
            if f"{name}_bandwidth" in self.core.resources
        }
        self.units = {name: max(1, len(self.core.ports[name].units)) for name in self.program.groups}
        self.units |= dict.fromkeys(("front_end", "retire", *self.bandwidths), 1)
        self._line = max(1, first >> 3)  # in granules of 8 bytes
        self._places = ["front_end", *self.program.groups, *self.bandwidths, "retire"]

    def place(self, name: str) -> int:
        """Return where a resource stands in the order of the pipeline."""
        return self._places.index(name)

    def kind(self, name: str) -> str:
        """Say what sort of resource it is."""
        found = {"front_end": "front end", "retire": "retirement"}.get(name)
        return found or ("memory" if name in self.bandwidths else "ports")

    def uses(self, first: int, producers: "pd.DataFrame") -> dict[str, tuple[NDArray[Any], ...]]:
        """Return, for each resource, the window's instructions that use it, start, end, and from when it is reserved.

        All times are in ticks; a reservation lasts as long as the use, divided by the units.
        """
        found: dict[str, tuple[NDArray[Any], ...]] = {}
        slots = self.program.slots[self.instruction].astype(np.int64)
        for name, until in (("front_end", self.dispatch), ("retire", self.retire)):
            n = np.arange(first, len(slots))
            n = n[slots[n] > 0]
            cost = _whole(self.core.resource(name).inverse_throughput) * slots[n]
            found[name] = (n, until[n] - cost, until[n], until[n] - cost)
        ports = {name: self._port(k) for k, name in enumerate(self.program.groups)}
        levels = {name: self._level(k) for k, name in enumerate(LEVELS) if f"{name}_bandwidth" in self.bandwidths}
        address = self._addresses_known(first, producers, ports)
        operates = np.maximum(self.dispatch, self.end - self._latency())
        for name, (n, reserved, cost, early) in ports.items():
            mine = n >= first
            n, cost, reserved = n[mine], cost[mine], reserved[mine]
            start = np.maximum(np.where(early[mine], address[n - first], operates[n]), reserved)
            found[name] = (n, start, start + cost * self.units[name], reserved)
        for name, (n, reserved, cost) in levels.items():
            mine = n >= first
            start = np.maximum(address[n[mine] - first], reserved[mine])
            found[f"{name}_bandwidth"] = (n[mine], start, start + cost[mine], reserved[mine])
        return {name: parts for name, parts in found.items() if len(parts[0])}

    def producers(self, first: int) -> Iterator[tuple[int, int, str]]:
        """Yield the producers of the window's instructions, and of as many before it as the reorder buffer holds."""
        p, code = self.program, self.program.code
        begin = max(0, first - int(self.core.resource("rob").value))
        writer: dict[int, int] = {}
        stored: dict[int, int] = {}
        at = int(np.searchsorted(self.owner, begin))
        for n in range(begin, len(self.instruction)):
            i = self.instruction[n]
            seen: dict[int, str] = {}
            accesses = []
            while at < len(self.owner) and self.owner[at] == n:
                if self.granule[at] >= 0:
                    whole = range(self.granule[at], self.granule[at] + max(1, (int(self.size[at]) + 7) >> 3))
                    accesses.append((self.operand[at], whole))
                at += 1
            for r in p.address_register[p.address_start[i] : p.address_start[i + 1]].tolist():
                if r in writer:
                    seen.setdefault(writer[r], "address")
            for operand, granules in accesses:
                for g in granules if code.read[operand] else ():
                    if g in stored:
                        seen.setdefault(stored[g], "memory")
            for r in p.data_register[p.data_start[i] : p.data_start[i + 1]].tolist():
                if r in writer:
                    seen.setdefault(writer[r], "register")
            yield from ((n, producer, through) for producer, through in seen.items())
            for r in p.write_register[p.write_start[i] : p.write_start[i + 1]].tolist():
                writer[r] = n
            for operand, granules in accesses:
                if code.write[operand]:
                    stored.update(dict.fromkeys(granules, n))

    def waited_for(self, shown: "pd.DataFrame", producers: "pd.DataFrame") -> list[str]:
        """Return what connects each instruction with its parent, where that is no operand."""
        used = [(name, *self._port(k)[:3]) for k, name in enumerate(self.program.groups)]
        levels = [(k, f"{name}_bandwidth") for k, name in enumerate(LEVELS)]
        used += [(name, *self._level(k)) for k, name in levels if name in self.bandwidths]
        results = set(zip(producers["n"], producers["producer"], strict=True))
        pairs = shown[["n", "parent"]].itertuples(index=False)
        return ["" if p < 0 or (n, p) in results else self._shared(n, p, used) for n, p in pairs]

    def _shared(self, n: int, parent: int, used: list[tuple[str, Any, Any, Any]]) -> str:
        """Return the resource that ``n`` got last of those that it got from its parent (several at the same time)."""
        freed: dict[str, int] = {}
        for name, users, reserved, cost in used:
            at = int(np.searchsorted(users, n))
            if 0 < at < len(users) and users[at] == n and users[at - 1] == parent:
                freed[name] = int(reserved[at - 1] + cost[at - 1])
        last = max(freed.values(), default=-1)
        if last >= self.dispatch[n]:
            return " and ".join(name for name, tick in freed.items() if tick == last)
        lines = [set(self.granule[(self.owner == k) & (self.granule >= 0)] // self._line) for k in (n, parent)]
        return "a cache line" if lines[0] & lines[1] else ""

    def _accesses(self, result: "GusResult", count: int) -> None:
        """Note each access: its instruction, operand, granule, code and size, and how many cross a line."""
        trace: Trace = result.trace.head(count + 4096)  # as much as the schedule was made of
        code = trace.code
        per = np.diff(code.operand_start)[self.instruction]
        self.owner = np.repeat(np.arange(count), per)
        total = len(self.owner)
        self.operand = expand(trace.stream, code.block_operand_start)[:total]
        memory = result.settings.memory(result.trace, result.program)
        parts = [(w.granule, w.code, w.size) for w in windows(trace, memory)]
        self.granule, kind, size = (np.concatenate(each)[:total] for each in zip(*parts, strict=True))
        self.size = size.astype(np.int64)
        there = self.granule >= 0
        split = ((kind & SPLIT) != 0) & there
        second = np.where(split, (kind >> SECOND_SHIFT) & LEVEL, 0)
        self.level = np.where(there, np.maximum(kind & LEVEL, second).astype(np.int64), -1)
        self.fetched = np.where(there, (kind >> PREFETCH_SHIFT) & LEVEL, 0).astype(np.int64)
        self.splits = np.bincount(self.owner[split], minlength=count)

    def _port(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return a group's users, when each has it reserved from, at what cost in ticks, and whether to load."""
        p = self.program
        owner = np.repeat(np.arange(len(p.slots)), np.diff(p.use_start))
        mine = np.flatnonzero(p.use == group)
        cost, early = np.zeros(len(p.slots), dtype=np.int64), np.zeros(len(p.slots), dtype=np.bool_)
        inverse = self.core.resource(p.groups[group]).inverse_throughput
        cost[owner[mine]] = np.rint(p.amount[mine] * inverse * TICKS).astype(np.int64)
        early[owner[mine]] = mine - p.use_start[owner[mine]] < p.load_uses[owner[mine]]
        used = np.zeros(len(p.slots), dtype=np.bool_)
        used[owner[mine]] = True
        n = np.flatnonzero(used[self.instruction])
        static = self.instruction[n]
        ticks = cost[static] * np.where(early[static], 1 + self.splits[n], 1)
        return n, _reserved(self.dispatch[n], ticks), ticks, early[static]

    def _level(self, level: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return a memory level's users, when each has its bandwidth reserved from, and at what cost in ticks."""
        if level == 0:
            times = (self.level >= 0) * self.size
        else:
            times = (self.level >= level).astype(np.int64) + ((self.fetched >= level) & (level > 1))
        which = np.flatnonzero(times > 0)
        n = self.owner[which]
        cost = times[which] * _whole(self.bandwidths[f"{LEVELS[level]}_bandwidth"])
        return n, _reserved(self.dispatch[n], cost), cost

    def _latency(self) -> NDArray[np.int64]:
        factor = self.core.resources.get("instruction_latency")
        return _ticks(self.program.latency * (factor.value if factor is not None else 1.0))[self.instruction]

    def _addresses_known(self, first: int, producers: "pd.DataFrame", ports: dict[str, Any]) -> NDArray[np.int64]:
        """Return when each of the window's instructions has its address registers and its load ports, in ticks."""
        known = self.dispatch[first:].copy()
        by_address = producers[(producers["through"] == "address") & (producers["n"] >= first)]
        n, producer = by_address["n"].to_numpy(dtype=int), by_address["producer"].to_numpy(dtype=int)
        np.maximum.at(known, n - first, self.end[producer])
        for users, reserved, _, early in ports.values():
            mine = early & (users >= first)
            np.maximum.at(known, users[mine] - first, reserved[mine])
        return known


def _reserved(dispatch: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return from when each use has its resource: ``max(available, dispatch)``, then the resource is ``cost`` later.

    The recurrence ``a = max(a, d) + c`` is a running maximum of ``d`` minus the costs so far.
    """
    total = np.cumsum(cost)
    until = total + np.maximum.accumulate(dispatch - (total - cost)) if len(cost) else total
    return until - cost


def _taken(uses: "pd.DataFrame", units: dict[str, int]) -> tuple[dict[str, float], float]:
    """Return the cycles of each resource's whole capacity that the uses take, and the longest that one serves them.

    Reservations of a resource follow each other, so that it cannot serve uses in less time than they take.
    """
    cost = (uses["end"] - uses["start"]) / uses["resource"].map(units)
    until = (uses["reserved"] + cost).groupby(uses["resource"], sort=False).max()
    serving = until - uses.groupby("resource", sort=False)["reserved"].min()
    taken = cost.groupby(uses["resource"], sort=False).sum() / TICKS
    return {str(name): float(cycles) for name, cycles in taken.items()}, float(serving.max()) / TICKS


def _in_lanes(uses: "pd.DataFrame", units: dict[str, int]) -> tuple["pd.DataFrame", float]:
    """Give each use a unit of its resource that is idle, else the one that is idle first; count the latter."""
    pd = of_extra("pandas")

    late = 0
    parts = []
    for name, part in uses.groupby("resource", sort=False):
        part = part.sort_values(["start", "n"], kind="stable")
        free = np.full(units[str(name)], -np.inf)
        lanes = []
        for start, end in part[["start", "end"]].to_numpy():
            idle = np.flatnonzero(free <= start)
            lane = int(idle[0]) if len(idle) else int(free.argmin())
            late += not len(idle)
            free[lane] = max(free[lane], end)
            lanes.append(lane)
        parts.append(part.assign(lane=lanes))
    table = pd.concat(parts, ignore_index=True)
    table[["start", "end"]] = table[["start", "end"]] / TICKS
    return table[["resource", "lane", "n", "start", "end"]], late / len(table)


def _frame(
    name: str, n: NDArray[Any], start: NDArray[Any], end: NDArray[Any], reserved: NDArray[Any]
) -> "pd.DataFrame":
    pd = of_extra("pandas")

    return pd.DataFrame({"resource": name, "n": n, "start": start, "end": end, "reserved": reserved})


def _whole(cycles: float) -> int:
    return int(np.rint(cycles * TICKS))


def _ticks(cycles: Any) -> NDArray[np.int64]:
    return np.rint(np.asarray(cycles, dtype=np.float64) * TICKS).astype(np.int64)
