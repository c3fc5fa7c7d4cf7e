"""Scheduling a computation DAG on a modelled core: the first half of the extended roofline.

Source: Caparros Cabezas and Pueschel, "Extending the Roofline Model: Bottleneck Analysis with Microarchitectural
Constraints", ISPASS 2014, section III. What the paper leaves open is settled as documented at `DagScheduler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.dag.doubts import (
    ACCESSED,
    ACCESSES,
    COMPUTED,
    CROWDED,
    CROWDED_UNKNOWN,
    EXTERNAL,
    FETCH,
    FETCHED,
    FLOATS,
    INTEGERS,
    MISSED,
    MULTIPLIED,
    NARROW,
    NOTABLE,
    OFTEN,
    PIPES,
    PRODUCTS,
    SHARED,
    SURPRISES,
    UNMISSED,
    UNSEEN_CALLS,
    VECTORS,
    Successors,
    bound_by,
    doubts,
    full_early,
    nearly_full,
    notes_of_other_runs,
    notes_of_places,
)
from perfkit.dag.graph import Dag, expect_dag
from perfkit.dag.program import BRANCH, CALL, HITS_WAIT, NodeSource
from perfkit.errors import SettingError
from perfkit.simulators.dag import engine, layout, tables
from perfkit.simulators.dag.core import MEMORY, DagCore, parameter_names
from perfkit.simulators.dag.measures import PORTS, Schedule
from perfkit.simulators.dag.repeats import Repeats, new_repeats, run_repeats
from perfkit.simulators.dag.reuse import (
    AHEAD,
    MOST_SETS,
    UNLIMITED,
    by_use,
    fill_sets,
    grown,
    line_shift,
    locate,
    new_stack,
    settle_log,
)

if TYPE_CHECKING:
    from perfkit.simulators.dag.measures import ExtendedRoofline

_RESOLVED = 8  # times the penalty, from which on a schedule without missed branches tells what they take
_RECORDED = 2_000_000  # nodes up to which issue and completion cycles are kept without asking
_LOCATED = 1 << 16  # records whose lines are looked up at a time
_ROUNDING = ("none", "up", "down")
_BELOW_L1 = ("access", "line", None)


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
        is allowed, and loads pass stores. None: as the core says; without it only stores keep their order.
    inflight_blocking
        An access to a line whose miss is outstanding waits for it before it issues. None: as the kernel's published
        figure has it, on for the paper's FFT on a core that does not merge such accesses (the paper's), else off:
        together with `x86_order` it lets no later load pass that wait, so that misses come one after the other, and the
        paper's own reduction (Fig. 9, 1/3 flops per cycle out of memory) is only possible with one of the two.
    inflight_merging
        An access to a line whose miss is outstanding issues, and completes with the line, not before; None: as the core
        says (off on the paper's).
    prefetch_streams
        How many streams of lines a prefetcher follows; 0: none; None: as the core says (none on the paper's). See
        `DagCore`.
    memory_dependences
        A load of a word does not issue before the last store to it (it may forward in the same cycle).
    load_ports, store_ports, agus
        Loads, stores, and both together that may issue in a cycle; 0 or infinity: no such limit; None: the core's.
    l3_rounding
        "none"; "up" or "down": round the number of lines of L3 to a power of two (Table I's 20 MB become 32 or 16).
    below_l1
        What an access that misses L1 takes of the bandwidth beyond: its own elements ("access": Table I's doubles per
        cycle) or the whole "line"; None: as the core says ("access" on the paper's, "line" on all others).
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
    x86_order: bool | None = None
    inflight_blocking: bool | None = None
    inflight_merging: bool | None = None
    prefetch_streams: float | None = None
    memory_dependences: bool = True
    load_ports: float | None = None
    store_ports: float | None = None
    agus: float | None = None
    l3_rounding: str = "none"
    below_l1: str | None = None
    record: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.core, DagCore):
            object.__setattr__(self, "core", _as_core(self.core))
        if self.l3_rounding not in _ROUNDING:
            raise SettingError(f"l3_rounding is one of {', '.join(_ROUNDING)}, not {self.l3_rounding!r}")
        if self.below_l1 not in _BELOW_L1:
            raise SettingError(f"below_l1 is one of {', '.join(map(str, _BELOW_L1))}, not {self.below_l1!r}")
        for name in ("load_ports", "store_ports", "agus", "prefetch_streams"):
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
        expect_dag(dag, "DagScheduler.run")
        work = _Run(replace(self, inflight_blocking=self._blocks(dag)), dag)
        follow = (
            Successors(len(dag.program.block_ops)) if not _predicted(dag) and (dag.program.op == BRANCH).any() else None
        )

        def see(records: Any, length: int) -> None:
            if follow is not None:
                follow.see(records, length, dag.program.block_addresses)
            (work.warm_up if self.warm else work.schedule)(records, length)

        if self.warm:
            dag.replay(see)
        work.begin()
        dag.replay(work.schedule if self.warm else see)
        found = work.finish()
        facts = dict(getattr(dag, "facts", {}))
        if follow is not None:
            facts[SURPRISES] = str(follow.surprises)
            facts.setdefault(UNSEEN_CALLS, str(int((dag.program.op == CALL).any())))
            facts[EXTERNAL] = str(follow.executed(getattr(dag, "callers", {})))
        core = self.core
        facts[CROWDED if core.set_fill else CROWDED_UNKNOWN] = str(int(work.saved[layout.CROWDED]))
        facts[NARROW] = str(work.hits_of_few_sets(found))
        if core.whole_lines and self.below_l1 != "access":  # not the paper's machine
            lines = found.n_nodes("L3")
            cost = lines and found.elements("L3") / lines / found.peak("L3")  # cycles per line
            facts[SHARED] = str(bound_by(lines, found.cycles, cost))
        facts[FETCHED] = str(nearly_full(found.instructions, found.cycles, core.fetch, *FETCH))
        accesses = sum(map(found.n_nodes, MEMORY))
        facts[ACCESSED] = str(nearly_full(accesses, found.cycles, core.agus, *ACCESSES))
        pipes = core.throughput("A") + core.throughput("M")
        pipes = 0 if 0 < core.fp_ports < pipes else pipes
        facts[COMPUTED] = str(nearly_full(sum(map(found.n_nodes, PORTS)), found.cycles, pipes, *FLOATS))
        facts[VECTORS] = str(nearly_full(found.on_pipes, found.cycles, core.fp_ports, *PIPES))
        products = int(facts.get(PRODUCTS, 0))
        full = nearly_full(found.n_nodes("I"), found.cycles, core.throughput("I"), *INTEGERS)
        facts[MULTIPLIED] = str(products if full and products >= OFTEN * found.cycles else 0)
        penalty = core.misprediction_penalty
        if int(facts.get(MISSED, 0)) * penalty * _RESOLVED > NOTABLE * found.cycles:
            spared = replace(self, core=core.replace(misprediction_penalty=0), record=False)
            facts[UNMISSED] = str(spared.run(dag).cycles)
        each = penalty, core.set_fill or tables.SET_FILL_ELSEWHERE
        told = doubts(facts, found.instructions, found.cycles, *each)
        notes = notes_of_other_runs(facts, found.cycles, penalty)
        if _predicted(dag):  # machine code
            notes += notes_of_places(found.instructions, found.cycles, core.fetch)
        return replace(found, doubts=told, remarks=notes)

    def _blocks(self, dag: NodeSource) -> bool:
        """Whether an access waits for its line before it issues."""
        if self.inflight_blocking is not None:
            return self.inflight_blocking
        merges = self.core.inflight_merging if self.inflight_merging is None else self.inflight_merging
        return not merges and getattr(dag, "facts", {}).get(HITS_WAIT) == "1"

    def settings(self) -> dict[str, Any]:
        """Return the switches (without the core), as saved with a schedule."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "core"}


def _predicted(dag: NodeSource) -> bool:
    """Whether a DAG's branches were predicted, or are a trace's, which can be."""
    return MISSED in getattr(dag, "facts", {}) or hasattr(dag, "trace")


def rescheduler(dag: NodeSource, scheduler: DagScheduler) -> Callable[..., ExtendedRoofline]:
    """Return a function of the core's parameters that schedules a DAG anew and returns its roofline (for views).

    `dag` stays as it is; whatever is not given keeps its value in the core of `scheduler`.

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


def changed_by(scheduler: DagScheduler, changes: Sequence[str], told: str = "") -> DagScheduler:
    """Return a scheduler with changes that are written as text: parameters of the core, and switches.

    Parameters
    ----------
    scheduler
        What is changed.
    changes
        A change each: ``["rs=20", "inflight_blocking=1"]``; empty ones are none.
    told
        How errors begin, before the change.

    Raises
    ------
    SettingError
        A change is not written so, comes twice, or there is no such parameter: the message names the known ones.

    Examples
    --------
    >>> changed_by(DagScheduler(DagCore.sandy_bridge_erm()), ["rs=20"]).core.rs
    20.0
    """
    found: Any = scheduler
    switches = scheduler.settings()
    given: set[str] = set()
    for item in (text.strip() for text in changes):
        parameter, sign, text = (part.strip() for part in item.partition("="))
        if not item:
            continue
        if not sign:
            raise SettingError(f"{told}{item}: PARAMETER=NUMBER expected")
        if parameter in given:
            raise SettingError(f"{told}{item}: {parameter} has a value already: give each parameter once")
        given.add(parameter)
        words = parameter in ("l3_rounding", "below_l1")
        try:
            value: Any = text if words else float(text)
        except ValueError as error:
            raise SettingError(f"{told}{item}: PARAMETER=NUMBER expected; {text!r} is no number") from error
        if parameter in switches:
            whole = isinstance(switches[parameter], bool) or parameter in (
                "x86_order",
                "inflight_merging",
                "inflight_blocking",
            )
            found = replace(found, **{parameter: bool(value) if whole else value})
        elif parameter in parameter_names():
            found = replace(found, core=found.core.replace(**{parameter: value}))
        else:
            known = ", ".join(sorted({*parameter_names(), *switches} - {"record"}))
            raise SettingError(f"{told}{item}: unknown parameter {parameter}; known: {known}")
    changed: DagScheduler = found
    return changed


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
        self.units = tables.units(settings, program, 1 << self.line_shift)
        self.parameters = tables.parameters(settings, program, self.units, self.line_shift, self.word_shift)
        self.idle = int(self.parameters[layout.IDLE])
        self.beyond = True if tables.beyond_paper(program, self.parameters) else None
        self.saved = np.zeros(layout.SCALARS, dtype=np.int64)
        self.saved[layout.LEFT] = self.parameters[layout.WIDTH]
        self.saved[layout.PREVIOUS] = self.saved[layout.TURN] = -1
        self.saved[layout.AT_OP] = -1
        self.saved[layout.TOP] = int(program.frame.max())
        self.saved[layout.BASE] = layout.BETWEEN
        self.code = layout.BlockCode(program, tables.operations(program, self.word_shift, self.units))
        self.stack = new_stack(tables.capacities(settings, self.line_shift))
        self.where = np.zeros(_LOCATED + AHEAD, dtype=np.int64)
        self.rings = tables.new_rings(1 << max(9, int(2 * self.parameters[layout.MARGIN]).bit_length()), self.idle)
        rob_size = int(self.parameters[layout.ROB])
        sizes = rob_size, int(self.parameters[layout.VECTOR_QUEUE]), int(self.parameters[layout.REGISTERS])
        self.queues = layout.Queues(
            *tables.zeros(*(1 if size == UNLIMITED else 1 << size.bit_length() for size in sizes))
        )
        phis = int(np.diff(program.block_phis).max(initial=0))
        self.frames = layout.Frames(*tables.zeros(2 * (self.saved[layout.TOP] + layout.BETWEEN) + 16, phis + 1, 16, 16))
        types = int(self.parameters[layout.TYPES_USED])
        self.tally = layout.Tally(
            *tables.zeros(tables.histogram_size(types), len(program.shapes) << layout.SHAPE_BITS, layout.LATEST + 1, 0)
        )
        self.record = tables.new_record(*self._record_sizes(dag))
        self.memory: Any = None  # from `begin` on
        self.repeats: Repeats | None = None

    def _record_sizes(self, dag: NodeSource) -> tuple[int, int]:
        if self.settings.record is False or (self.settings.record is None and not isinstance(dag, Dag)):
            return 0, 0
        n = len(dag) if isinstance(dag, Dag) else 1 << 16
        return (0, 0) if self.settings.record is None and n > _RECORDED else (max(n, 1), 1 << 16)

    def begin(self) -> None:
        """Leave in the caches what the warming run left there, and make room for what is kept of its lines."""
        settle_log(self.stack)
        words = self.line_shift - self.word_shift
        self.memory = tables.new_memory(self.settings, self.program, self.parameters, self.stack, words)
        self.repeats = self._repeats()
        if self.parameters[layout.WAYS]:
            order = by_use(self.stack)
            fill_sets(order, self.memory.sets, self.memory.trees)
            self.columns = np.bincount(order & MOST_SETS - 1, minlength=MOST_SETS)

    def _repeats(self) -> Repeats | None:
        """Return what is known of states that repeat: nothing yet; None where they are not followed."""
        waits = self.parameters[layout.INFLIGHT] != layout.IGNORED
        if self.beyond is not None or len(self.record.issue) or waits or (self.program.op == CALL).any():
            return None
        return new_repeats(self.program, self.code.ops)

    def hits_of_few_sets(self, found: Schedule) -> int:
        """Return how many accesses hit a level below L1 that the lines of the warming run only fit into by its size."""
        if not self.parameters[layout.WAYS]:
            return 0
        early = full_early(self.columns, tables.capacities(self.settings, self.line_shift))
        return sum(
            found.n_nodes(level) for level, few in zip(("L1", "L2", "L3"), early, strict=True) if few and level != "L1"
        )

    def warm_up(self, records: Any, length: int) -> None:
        for start, end in self._located(records, length):
            engine.warm_up(self.where, end - start, self.stack)

    def _located(self, records: Any, length: int) -> Iterator[tuple[int, int]]:
        """Go through the records in parts; `where` tells the lines' indices of each."""
        start = 0
        while start < length:
            sizes = self.program.block_addresses
            end = locate(records, start, length, sizes, self.line_shift, self.stack, self.where)
            if end > start:
                yield start, end
            elif len(self.where) - AHEAD <= sizes[records[start]]:
                self.where = np.zeros(2 * len(self.where), dtype=np.int64)
            else:
                self._grow_lines()
            start = end

    def schedule(self, records: Any, length: int) -> None:
        for start, end in self._located(records, length):
            self._schedule(records[start:end], end - start)

    def _schedule(self, records: Any, length: int) -> None:
        self.saved[layout.AT_RECORD] = 0
        self._run(records, length)

    def _run(self, records: Any, length: int) -> None:
        if self.beyond is None:
            engine.find_levels(self.where, length, self.stack)
        run, last = (engine.run, self.beyond) if self.repeats is None else (run_repeats, self.repeats)
        while True:
            status = run(
                layout.Stream(records, self.where, length),
                self.code,
                self.parameters,
                self.units,
                self.saved,
                self.rings,
                self.queues,
                self.memory,
                self.stack,
                self.frames,
                self.tally,
                self.record,
                last,
            )
            if status == layout.DONE:
                return
            self._grow(status)

    def finish(self) -> Schedule:
        if self.repeats is not None:
            self.saved[layout.AT_RECORD] = -1
            self._run(np.zeros(0, dtype=np.int64), 0)
        parts = self.parameters, self.rings, self.units, self.tally
        while engine.drain(self.saved, *parts, self.record, self.beyond) != layout.DONE:
            self._grow(layout.GROW_CYCLES)
        n, cycles = int(self.saved[layout.NODES]), int(self.saved[layout.END])
        codes = np.flatnonzero(self.tally.histogram)
        record = self.record
        recorded = len(record.issue) > 0
        nodes = record.type[:n] != layout.NO_NODE if recorded else None
        record.type[:n][record.type[:n] == layout.VECTOR_WORK] = layout.INTEGER_TYPE
        counted = self.tally.nodes.reshape(-1, 1 << layout.SHAPE_BITS).T
        on_pipes = counted[layout.VECTOR_WORK]
        by_type = counted[: int(self.parameters[layout.TYPES_USED])].copy()
        if on_pipes.any():
            by_type[layout.INTEGER_TYPE] += on_pipes
        return Schedule(
            name=self.name,
            core=self.settings.core,
            settings=self.settings.settings(),
            states=codes,
            counts=self.tally.histogram[codes],
            nodes=by_type,
            on_pipes=int(on_pipes.sum()),
            shapes=self.program.shapes.copy(),
            issue=record.issue[:n][nodes] if recorded else None,
            done=record.done[:n][nodes] if recorded else None,
            type=record.type[:n][nodes] if recorded else None,
            stall_mask=record.stalls[:cycles].copy() if recorded else None,
            instructions=int(self.saved[layout.INSTRUCTIONS]),
            covered=int(self.saved[layout.COVERED]),
        )

    def _grow(self, status: int) -> None:
        if status == layout.GROW_RINGS:
            self.rings = tables.larger_rings(self.rings, int(self.saved[layout.FETCH]), self.idle)
        elif status == layout.GROW_LINES:
            self._grow_lines()
        elif status == layout.GROW_FRAMES:
            self.frames = layout.Frames(*(tables.longer(array) for array in self.frames))
        elif status == layout.GROW_NODES:
            r = self.record
            self.record = layout.Record(tables.longer(r.issue), tables.longer(r.done), tables.longer(r.type), r.stalls)
        else:
            self.record = self.record._replace(stalls=tables.longer(self.record.stalls))

    def _grow_lines(self) -> None:
        self.stack = grown(self.stack)
        if self.memory is None:
            return
        factor = 2 * self.stack.room // len(self.memory.lines)
        lines, stored = (tables.longer(array, factor * len(array)) for array in self.memory[:2])
        written = tables.longer(self.memory.written, self.stack.room)
        writer = tables.longer(self.memory.writer, factor * len(self.memory.writer))
        self.memory = self.memory._replace(lines=lines, stored=stored, written=written, writer=writer)
