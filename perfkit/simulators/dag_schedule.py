"""Scheduling a computation DAG on a modelled core: the first half of the extended roofline.

Source: Caparros Cabezas and Pueschel, "Extending the Roofline Model: Bottleneck Analysis with Microarchitectural
Constraints", ISPASS 2014, section III. What the paper leaves open is settled as documented at `DagScheduler`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.dag import Dag, NodeSource, Program
from perfkit.errors import SettingError
from perfkit.simulators import dag_engine as engine
from perfkit.simulators.dag_core import MEMORY, TYPES, DagCore, lanes, parameter_names
from perfkit.simulators.dag_measures import Schedule
from perfkit.simulators.reuse import LruStack, grown, line_shift, new_stack

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.simulators.extended_roofline import ExtendedRoofline

_RECORDED = 2_000_000  # nodes up to which issue and completion cycles are kept without asking
_LONGEST_RING = 1 << 25
_ROUNDING = ("none", "up", "down")
_BELOW_L1 = ("access", "line")


@dataclass(frozen=True)
class DagScheduler:
    """Greedy out-of-order scheduling of a DAG, cycle by cycle.

    Nodes are fetched in trace order, ``core.fetch`` a cycle; one may issue in its fetch cycle. A full reservation
    station (looked at first) or a full reorder buffer holds up fetch, from cycle f to f'; cycles f+1 to f'-1 are its
    stall. The ROB frees its entries in order when nodes complete. The RS holds arithmetic until it issues, and memory
    nodes while they wait for a load or store buffer entry. Entries of LB, SB and (for misses of L1) LFB are given out
    in trace order and held until completion; the cycles in which a node waits for one are that buffer's stall. A node
    issues in the first cycle with its operands, its entry and bandwidth; no node delays an older one.

    Parameters
    ----------
    core
        The machine: a `DagCore`, or a `perfkit.Microarchitecture`, of which one is made.
    warm
        Run the memory accesses once before, so that caches are filled.
    x86_order
        A load does not issue before the previous load, a store not before the previous load and store; the same cycle
        is allowed, and loads pass stores.
    inflight_blocking
        An access to a line whose miss is outstanding waits for it before it issues. Off by default: together with
        `x86_order` it lets no later load pass that wait, so that misses come one after the other, and the paper's own
        reduction (Fig. 9, 1/3 flops per cycle out of memory) is only possible with one of the two.
    memory_dependences
        A load of a word does not issue before the last store to it (it may forward in the same cycle).
    load_ports, store_ports, agus
        Loads, stores, and both together that may issue in a cycle; 0 or infinity: no such limit; None: the core's.
    l3_rounding
        "none"; "up" or "down": round the number of lines of L3 to a power of two (Table I's 20 MB become 32 or 16).
    below_l1
        What an access that misses L1 takes of the bandwidth beyond: its own elements ("access": Table I's doubles a
        cycle) or the whole "line".
    record
        Keep issue and completion of every node and the stalls of every cycle; None: for up to 2 million nodes.

    Examples
    --------
    >>> from perfkit import Dag
    >>> dag = Dag.from_nodes("LMA", [[], [0], [1]], level=["L1", None, None])
    >>> schedule = DagScheduler(DagCore.sandy_bridge_erm()).run(dag)
    >>> schedule.issue.tolist(), schedule.cycles
    ([0, 4, 9], 12)
    """

    core: DagCore
    warm: bool = True
    x86_order: bool = True
    inflight_blocking: bool = False
    memory_dependences: bool = True
    load_ports: float | None = None
    store_ports: float | None = None
    agus: float | None = None
    l3_rounding: str = "none"
    below_l1: str = "access"
    record: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.core, DagCore):
            object.__setattr__(self, "core", _as_core(self.core))
        if self.l3_rounding not in _ROUNDING:
            raise SettingError(f"l3_rounding is one of {', '.join(_ROUNDING)}, not {self.l3_rounding!r}")
        if self.below_l1 not in _BELOW_L1:
            raise SettingError(f"below_l1 is one of {', '.join(_BELOW_L1)}, not {self.below_l1!r}")
        for name in ("load_ports", "store_ports", "agus"):
            if (value := getattr(self, name)) is not None:
                self.core.replace(**{name: value})

    def run(self, dag: NodeSource) -> Schedule:
        """Schedule a DAG (or a kernel that is traced as it runs) and return the schedule with all measures.

        Raises
        ------
        SettingError
            If levels must be found from addresses and the core has no line size; if an unlimited window needs more
            than the memory allowed for it.
        DataError
            If the DAG has no nodes.
        """
        work = _Run(self, dag)
        if self.warm:
            dag.replay(work.warm_up)
        dag.replay(work.schedule)
        return work.finish()

    def settings(self) -> dict[str, Any]:
        """Return the switches (without the core), as saved with a schedule."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "core"}


def rescheduler(dag: NodeSource, scheduler: DagScheduler) -> Callable[..., ExtendedRoofline]:
    """Return a function of the core's parameters that schedules a DAG anew and returns its roofline (for views).

    Examples
    --------
    >>> from perfkit import Dag
    >>> changed = rescheduler(Dag.from_nodes("AA", [[], [0]]), DagScheduler(DagCore.sandy_bridge_erm()))
    >>> changed(latency_A=5).schedule.cycles
    10
    """

    def schedule(**changes: float) -> ExtendedRoofline:
        return replace(scheduler, core=scheduler.core.replace(**changes)).run(dag).roofline()

    return schedule


def sweep(
    dag: NodeSource, core: Any, parameter: str, values: Sequence[float], threads: int = 1, **switches: Any
) -> pd.DataFrame:
    """Schedule a DAG on a core with one parameter set to each of several values.

    Parameters
    ----------
    parameter
        A parameter of `DagCore` ("rs", "latency_A", "throughput_mem", ...), or a switch of `DagScheduler`
        ("x86_order", "load_ports", ...).
    threads
        How many schedules run at once (of a `Dag` in memory; a kernel that is traced as it runs goes one by one).
    **switches
        Further settings of `DagScheduler`.

    Returns
    -------
    DataFrame with a row per value: the parameter, cycles, performance (flops/cycle), T_issue of computation, a column
    ``stall_<buffer>`` for each buffer, and ``verdict``, the roofs that hit the point.
    """
    base = DagScheduler(core, **{"record": False, **switches})
    names = set(parameter_names()) | set(base.settings())
    if parameter not in names:
        raise SettingError(f"unknown parameter {parameter!r}; known: {', '.join(sorted(names))}")

    def scheduler(value: float) -> DagScheduler:
        if parameter in base.settings():
            return replace(base, **{parameter: value})  # type: ignore[arg-type]
        return replace(base, core=base.core.replace(**{parameter: value}))

    def row(value: float) -> dict[str, Any]:
        schedule = scheduler(value).run(dag)
        verdict = ", ".join(roof.label for roof in schedule.roofline().hits) if schedule.work else ""
        stalls = {f"stall_{name}": cycles for name, cycles in schedule.stalls.items()}
        return {
            parameter: value,
            "cycles": schedule.cycles,
            "performance": schedule.performance,
            **stalls,
            "verdict": verdict,
        }

    import pandas as pd

    if threads > 1 and isinstance(dag, Dag):
        with ThreadPoolExecutor(threads) as pool:
            return pd.DataFrame(list(pool.map(row, values)))
    return pd.DataFrame([row(value) for value in values])


def _as_core(core: Any) -> DagCore:
    if hasattr(core, "resources"):
        return DagCore.from_microarchitecture(core)
    raise SettingError(f"core is a DagCore or a Microarchitecture, not {type(core).__name__}")


class _Run:
    """One scheduling run: the engine's arrays, made larger when the engine asks for it."""

    def __init__(self, settings: DagScheduler, dag: NodeSource) -> None:
        self.settings, self.name, self.program = settings, dag.name, dag.program
        core, program = settings.core, dag.program
        self.line_shift = line_shift(core.line) if core.line or program.needs_reuse else 6
        smallest = int(program.shapes[:, 1].min())
        self.word_shift = min(smallest.bit_length() - 1, self.line_shift)
        self.units = _units(settings, program, 1 << self.line_shift)
        self.parameters = _parameters(core, settings, self.units, self.line_shift, self.word_shift)
        self.saved = np.zeros(engine.SCALARS, dtype=np.int64)
        self.saved[engine.LEFT] = self.parameters[engine.WIDTH]
        self.saved[engine.PREVIOUS] = -1
        self.saved[engine.AT_OP] = -1
        self.saved[engine.TOP] = int(program.frame.max())
        self.stack = new_stack(_capacities(settings, self.line_shift))
        self.memory = _memory(settings, self.stack, self.line_shift - self.word_shift)
        self.rings = _rings(1 << max(10, int(2 * self.parameters[engine.MARGIN]).bit_length()))
        rob_size = int(self.parameters[engine.ROB])
        self.rob = np.zeros(1 if rob_size == engine.UNLIMITED else rob_size, dtype=np.int64)
        phis = int(np.diff(program.block_phis).max(initial=0))
        self.frames = engine.Frames(*_zeros(2 * self.saved[engine.TOP] + 16, phis + 1, 16, 16))
        self.tally = engine.Tally(*_zeros(engine.HISTOGRAM, len(TYPES) * len(program.shapes), len(TYPES)))
        self.record = _record(*self._record_sizes(dag))

    def _record_sizes(self, dag: NodeSource) -> tuple[int, int]:
        if self.settings.record is False or (self.settings.record is None and not isinstance(dag, Dag)):
            return 0, 0
        n = len(dag) if isinstance(dag, Dag) else 1 << 16
        return (0, 0) if self.settings.record is None and n > _RECORDED else (max(n, 1), 1 << 16)

    def warm_up(self, records: Any, length: int) -> None:
        at = 0
        while at < length:
            at = engine.warm_up(records, at, length, self.program, self.stack, self.line_shift)
            if at < length:
                self._grow_lines(records[at])

    def schedule(self, records: Any, length: int) -> None:
        self.saved[engine.AT_RECORD] = 0
        while True:
            status = engine.run(
                records,
                length,
                self.program,
                self.parameters,
                self.units,
                self.saved,
                self.rings,
                self.rob,
                self.memory,
                self.stack,
                self.frames,
                self.tally,
                self.record,
            )
            if status == engine.DONE:
                return
            self._grow(status)

    def finish(self) -> Schedule:
        while engine.drain(self.saved, self.rings, self.units, self.tally, self.record) != engine.DONE:
            self._grow(engine.GROW_CYCLES)
        n, cycles = int(self.saved[engine.NODES]), int(self.saved[engine.END])
        codes = np.flatnonzero(self.tally.histogram)
        record = self.record
        recorded = len(record.issue) > 0
        return Schedule(
            name=self.name,
            core=self.settings.core,
            settings=self.settings.settings(),
            states=codes,
            counts=self.tally.histogram[codes],
            nodes=self.tally.nodes.reshape(len(TYPES), -1).copy(),
            shapes=self.program.shapes.copy(),
            issue=record.issue[:n].copy() if recorded else None,
            done=record.done[:n].copy() if recorded else None,
            type=record.type[:n].copy() if recorded else None,
            stall_mask=record.stalls[:cycles].copy() if recorded else None,
        )

    def _grow(self, status: int) -> None:
        if status == engine.GROW_RINGS:
            self.rings = _larger_rings(self.rings, int(self.saved[engine.FETCH]))
        elif status == engine.GROW_LINES:
            self._grow_lines(0)
        elif status == engine.GROW_FRAMES:
            self.frames = engine.Frames(*(_longer(array) for array in self.frames))
        elif status == engine.GROW_NODES:
            r = self.record
            self.record = engine.Record(_longer(r.issue), _longer(r.done), _longer(r.type), r.stalls)
        else:
            self.record = self.record._replace(stalls=_longer(self.record.stalls))

    def _grow_lines(self, block: int) -> None:
        """Make room for the lines of one block at least."""
        wanted = int(self.program.block_addresses[block])
        while True:
            self.stack = grown(self.stack)
            if (self.stack.scalars[3] + wanted) * 64 <= len(self.stack.place):
                break
        factor = 2 * len(self.stack.place) // len(self.memory.lines)
        self.memory = engine.Memory(*(_longer(array, factor * len(array)) for array in self.memory))


def _zeros(*sizes: int) -> list[Any]:
    return [np.zeros(int(size), dtype=np.int64) for size in sizes]


def _longer(array: Any, size: int | None = None) -> Any:
    longer = np.zeros(2 * len(array) if size is None else size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _limit(value: float) -> int:
    """Return a buffer's size or a width as the engine takes it: 0 and infinity are unlimited."""
    return int(engine.UNLIMITED) if value == 0 or math.isinf(value) else int(value)


def _units(settings: DagScheduler, program: Program, line: int) -> engine.Units:
    core = settings.core
    throughputs = [core.throughput(kind) for kind in TYPES]
    for name in ("load_ports", "store_ports", "agus"):
        chosen = getattr(settings, name)
        throughputs.append(getattr(core, name) if chosen is None else chosen)
    pairs = np.array([lanes(value) for value in throughputs], dtype=np.int64)
    pairs[pairs[:, 0] == 0, 0] = engine.UNLIMITED
    need = np.ones((len(TYPES), len(program.shapes)), dtype=np.int64)
    hold = np.repeat(pairs[: len(TYPES), 1:], len(program.shapes), axis=1)
    for k in range(engine.FIRST_LEVEL + 1, len(TYPES)):
        # Beyond L1 bandwidth is per element: a vector takes several lanes, and more cycles when there are too few.
        moved = program.shapes[:, 0]
        if settings.below_l1 == "line":
            moved = np.maximum(1, line // program.shapes[:, 1])
        need[k] = np.minimum(moved, pairs[k, 0])
        hold[k] *= -(-moved // need[k])
    latency = np.array([core.latency(kind) for kind in TYPES], dtype=np.int64)
    return engine.Units(pairs[:, 0].copy(), latency, need.ravel(), hold.ravel())


def _parameters(core: DagCore, settings: DagScheduler, units: engine.Units, line_bits: int, word_bits: int) -> Any:
    values = np.zeros(engine.PARAMETERS, dtype=np.int64)
    for place, size in (
        (engine.WIDTH, core.fetch),
        (engine.ROB, core.rob),
        (engine.RS, core.rs),
        (engine.LB, core.lb),
        (engine.SB, core.sb),
        (engine.LFB, core.lfb),
    ):
        values[place] = _limit(size)
    values[engine.X86_ORDER] = settings.x86_order
    values[engine.INFLIGHT] = settings.inflight_blocking
    values[engine.MEMORY_DEPS] = settings.memory_dependences
    values[engine.LINE_SHIFT] = line_bits
    values[engine.WORD_SHIFT] = word_bits
    values[engine.MARGIN] = units.latency.max() + units.hold.max() + 4
    return values


def _capacities(settings: DagScheduler, line_bits: int) -> tuple[float, float, float]:
    line = 1 << line_bits
    l1, l2, l3 = (
        math.inf if math.isinf(s) else s // line for s in (getattr(settings.core, f"size_{k}") for k in MEMORY[:3])
    )
    if settings.l3_rounding != "none" and l3 > 0 and not math.isinf(l3):
        power = math.log2(l3)
        l3 = 2.0 ** (math.ceil(power) if settings.l3_rounding == "up" else math.floor(power))
    return l1, l2, l3


def _memory(settings: DagScheduler, stack: LruStack, word_bits: int) -> engine.Memory:
    lines = len(stack.place)
    return engine.Memory(*_zeros(2 * lines, lines << word_bits if settings.memory_dependences else 0))


def _rings(size: int) -> engine.Rings:
    if size > _LONGEST_RING:
        raise SettingError(
            f"nodes wait more than {_LONGEST_RING // 2} cycles after their fetch: the window is too large for this "
            "DAG. Set a finite rob or rs, or a finite fetch"
        )
    return engine.Rings(
        np.zeros(size << engine.ROW_BITS, dtype=np.uint16),
        np.zeros(size << engine.ROW_BITS, dtype=np.int32),
        np.zeros(size, dtype=np.uint8),
        np.zeros(size << engine.LEAVES_BITS, dtype=np.int32),
    )


def _larger_rings(rings: engine.Rings, fetch: int) -> engine.Rings:
    old = len(rings.issues)
    larger = _rings(2 * old)
    cycles = np.arange(fetch, fetch + old)
    pairs: list[tuple[Any, Any]] = list(zip(rings, larger, strict=True))
    for before, after in pairs:
        after.reshape(2 * old, -1)[cycles & (2 * old - 1)] = before.reshape(old, -1)[cycles & (old - 1)]
    return larger


def _record(nodes: int, cycles: int) -> engine.Record:
    issue, done = _zeros(nodes, nodes)
    return engine.Record(issue, done, np.zeros(nodes, dtype=np.uint8), np.zeros(cycles, dtype=np.uint8))
