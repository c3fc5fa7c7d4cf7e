"""A simulation that can be stopped between executed blocks, so that its state can be read on the way.

`Gus.run` answers for a whole trace. A simulated performance monitoring unit has to read counters while the trace runs:
`Stepping` goes on from where it stopped, and what it has counted so far is exactly what `Gus.run` would count.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError
from perfkit.simulators.gus import hooks, timing
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.forwarding import RECENT
from perfkit.simulators.memory.memory import (
    BLOCKED,
    DISTANCE_SHIFT,
    FORWARDED,
    LEVEL,
    MISPREDICTED,
    SECOND_SHIFT,
    TAKEN,
    Window,
)
from perfkit.simulators.pmu.cycles import CycleCounts
from perfkit.simulators.pmu.recorder import BEGUN, DISPATCHED, ENDED, RETIRED, WRITTEN, Recorder, recorder
from perfkit.simulators.program.program import INDIRECT, RETURN, Program
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace

# Events of every executed instruction's times, accesses and branches: unit, meaning.
RECORDED: dict[str, tuple[str, str]] = {
    "occupancy.rob": ("slot cycles", "entries of the reorder buffer held, summed over cycles"),
    "occupancy.scheduler": ("instruction cycles", "instructions dispatched that have not begun, summed over cycles"),
    "occupancy.load_buffer": ("load cycles", "entries of the load buffer held, summed over cycles"),
    "occupancy.store_buffer": ("store cycles", "entries of the store buffer held, summed over cycles"),
    "occupancy.misses": ("load cycles", "loads on their way beyond L1, summed over cycles"),
    "full.rob": ("cycles", "dispatch was held up by a full reorder buffer"),
    "full.load_buffer": ("cycles", "dispatch was held up by a full load buffer"),
    "full.store_buffer": ("cycles", "dispatch was held up by a full store buffer"),
    "full.scheduler": ("cycles", "dispatch was held up by a full queue before the vector schedulers"),
    "full.line_fill_buffers": ("access cycles", "accesses waited for a line fill buffer, summed over accesses"),
    "branches.taken": ("branches", "branches and jumps that were taken"),
    "branch-misses.indirect": ("branches", "indirect jumps, calls and returns that the model's predictor got wrong"),
    "store-forwards.blocked": ("accesses", "loads of bytes that no single recent store wrote"),
    "tlb.misses": ("accesses", "accesses that the first TLB did not hold (0 on cores whose file has no TLB)"),
    "tlb.walks": ("accesses", "accesses that no TLB held: page walks"),
    "tlb.walk-cycles": ("cycles", "time of these walks, each by itself"),
}


class Stepping:
    """The state of one simulation of one trace; make a new one for every run.

    Parameters
    ----------
    gus : Gus
        Core, tables, and whether caches and predictor are warm.
    trace : Trace
        What ran.

    Attributes
    ----------
    block : int
        Executed blocks simulated so far.
    forwards : int
        Loads so far of a word that one of the last stores, as many as the store buffer holds, has written.

    Raises
    ------
    DataError
        The trace holds no executed instruction.
    """

    def __init__(self, gus: Gus, trace: Trace) -> None:
        if not len(trace.stream):
            raise DataError("the trace holds no executed instruction; there is nothing to simulate")
        self.gus, self.trace, self.block, self.forwards = gus, trace, 0, 0
        program = self.program
        self._memory = gus.memory(trace, program)
        self._static, self._cost, self._state, self._lines = timing.begin(program, (gus.core,))
        causes = timing.PORTS + len(program.groups)
        self._spent = np.zeros((len(program.slots), causes), dtype=np.int64)
        self.cycle_counts = CycleCounts(program.slots)
        self.recorded: dict[str, float] = dict.fromkeys(RECORDED, 0.0)
        self._operands = np.diff(trace.code.operand_start).astype(np.int64)
        owner = np.repeat(np.arange(len(program.slots)), self._operands)
        flags = np.zeros((2, len(program.slots)), dtype=np.bool_)
        flags[0, owner[trace.code.read]] = flags[1, owner[trace.code.write]] = True
        self._loads, self._stores = flags
        self._ending_before = 0
        self._walks = self._memory.walks.copy()

    @cached_property
    def program(self) -> Program:
        """The trace's code as the core sees it."""
        return self.gus.program(self.trace)

    @cached_property
    def instructions_before(self) -> NDArray[np.int64]:
        """Instructions executed before each executed block, and in all, shape (blocks executed + 1,)."""
        return self._before(self.trace.code.block_start)

    @cached_property
    def _accesses_before(self) -> NDArray[np.int64]:
        return self._before(self.trace.code.block_operand_start)

    @cached_property
    def _sizes_before(self) -> NDArray[np.int64]:
        return self._before(self.trace.code.block_dynamic_start)

    def _before(self, starts: NDArray[np.int32]) -> NDArray[np.int64]:
        each = np.diff(starts).astype(np.int64)[self.trace.stream]
        return np.concatenate(([0], np.cumsum(each)))

    @property
    def blocks(self) -> int:
        """Blocks executed in the whole trace."""
        return len(self.trace.stream)

    @property
    def done(self) -> bool:
        """Whether the end of the trace is reached."""
        return self.block == self.blocks

    @property
    def instructions(self) -> int:
        """Instructions executed so far."""
        return int(self.instructions_before[self.block])

    @property
    def ticks(self) -> int:
        """Simulated time so far, `gus_timing.TICKS` a cycle."""
        return int(self._spent.sum())

    @property
    def cycles(self) -> float:
        """Simulated cycles so far: when the last executed instruction retired."""
        return self.ticks / timing.TICKS

    @property
    def spent(self) -> NDArray[np.int64]:
        """Ticks so far by cause, in the order of `causes`; they sum to `ticks`."""
        return np.asarray(self._spent.sum(axis=0))

    @property
    def causes(self) -> tuple[str, ...]:
        """What can hold up retirement: `gus_timing.CAUSES`, then the port groups."""
        return (*timing.CAUSES, *self.program.groups)

    @property
    def served(self) -> NDArray[np.int64]:
        """Lines asked for and served by L1, L2, L3 and memory so far, shape (4,)."""
        return self._memory.counts().served

    @property
    def prefetched(self) -> NDArray[np.int64]:
        """Lines that the prefetcher fetched from each level so far, shape (4,)."""
        return self._memory.counts().prefetched

    @property
    def mispredictions(self) -> int:
        """Branches so far that the predictor got wrong."""
        return self._memory.branches[1]

    def chunk(self, until: int) -> TraceChunk:
        """Return the part of the trace from here to executed block ``until`` (exclusive)."""
        a, b = self.block, until
        accesses, sizes = self._accesses_before, self._sizes_before
        return TraceChunk(
            int(self.instructions_before[a]),
            int(accesses[a]),
            self.trace.stream[a:b],
            self.trace.addresses[accesses[a] : accesses[b]],
            self.trace.sizes[sizes[a] : sizes[b]],
        )

    def step(self, instructions: int) -> TraceChunk:
        """Simulate at least so many more instructions, to the end of the block that holds the last; return them."""
        goal = self.instructions + max(1, instructions)
        until = int(np.searchsorted(self.instructions_before, goal, side="left"))
        chunk = self.chunk(min(until, self.blocks))
        self._simulate(chunk)
        self.block += len(chunk.stream)
        return chunk

    def _simulate(self, chunk: TraceChunk) -> None:
        window = self._memory.window(chunk)
        self._lines = timing.room(self._lines, self._memory.page_count)
        first = self.instructions
        count = int(self.instructions_before[self.block + len(chunk.stream)]) - first
        record = recorder(first, count)
        simulate(window, self._static, self._cost, self._state, self._lines, self._spent, record)
        buffer = int(self.gus.core.value("store_buffer", RECENT))
        from_store = window.code & (FORWARDED | BLOCKED) != 0
        self.forwards += int(np.count_nonzero(from_store & (window.code >> DISTANCE_SHIFT < buffer)))
        level = self._levels(record, window)
        self.cycle_counts.add(record, level)
        for name, count_of in {**self._of_record(record, level), **self._of_window(window)}.items():
            self.recorded[name] += count_of

    def _levels(self, record: Recorder, window: Window) -> NDArray[np.int64]:
        """Return the deepest level that each executed instruction loaded from, 0 where it loads nothing or from L1."""
        level = np.maximum(window.code & LEVEL, (window.code >> SECOND_SHIFT) & LEVEL).astype(np.int64)
        level[window.granule < 0] = 0
        deepest = np.zeros(len(record.instruction), dtype=np.int64)
        if level.any():
            per = self._operands[record.instruction]
            owner = np.repeat(np.arange(len(per)), per)
            np.maximum.at(deepest, owner, level)
            deepest[~self._loads[record.instruction]] = 0
        return deepest

    def _of_record(self, record: Recorder, level: NDArray[np.int64]) -> dict[str, float]:
        """Return the sums over instructions of the time they held something, in cycles, and full buffers."""
        slots = self.program.slots[record.instruction]
        times, loads, stores = record.times, self._loads[record.instruction], self._stores[record.instruction]
        held = times[RETIRED] - times[DISPATCHED]
        ticks = {
            "occupancy.rob": (held * slots).sum(),
            "occupancy.scheduler": (times[BEGUN] - times[DISPATCHED]).sum(),
            "occupancy.load_buffer": held[loads].sum(),
            "occupancy.store_buffer": (times[WRITTEN] - times[DISPATCHED])[stores].sum(),
            "occupancy.misses": (times[ENDED] - times[BEGUN])[level > 0].sum(),
            "full.rob": record.full[hooks.BY_ROB],
            "full.load_buffer": record.full[hooks.BY_LOADS],
            "full.store_buffer": record.full[hooks.BY_STORES],
            "full.scheduler": record.full[hooks.BY_QUEUE],
            "full.line_fill_buffers": record.full[hooks.BY_MISSES],
        }
        return {name: float(count) / timing.TICKS for name, count in ticks.items()}

    def _of_window(self, window: Window) -> dict[str, float]:
        """Return what is counted of branches and accesses of a step."""
        ending = self.program.ending[self.trace.code.block_start[1:] - 1]
        before = np.concatenate(([self._ending_before], ending[window.stream[:-1]]))
        self._ending_before = int(ending[window.stream[-1]])
        missed = window.control & MISPREDICTED != 0
        new = self._memory.walks - self._walks
        self._walks = self._memory.walks.copy()
        return {
            "branches.taken": float(np.count_nonzero(window.control & TAKEN)),
            "branch-misses.indirect": float(np.count_nonzero(missed & (before & (INDIRECT | RETURN) != 0))),
            "store-forwards.blocked": float(np.count_nonzero(window.code & BLOCKED)),
            "tlb.misses": float(new[0]),
            "tlb.walks": float(new[1]),
            "tlb.walk-cycles": float(new[1] * self.gus.core.value("page_walk_latency", 0.0)),
        }
