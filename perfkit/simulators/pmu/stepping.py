"""A simulation that can be stopped between executed blocks, so that its state can be read on the way.

`Gus.run` answers for a whole trace. A simulated performance monitoring unit has to read counters while the trace runs:
`Stepping` goes on from where it stopped, and what it has counted so far is exactly what `Gus.run` would count.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.forwarding import RECENT
from perfkit.simulators.memory.memory import BLOCKED, DISTANCE_SHIFT, FORWARDED
from perfkit.simulators.program.program import Program
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace


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
        simulate(window, self._static, self._cost, self._state, self._lines, self._spent, None)
        buffer = int(self.gus.core.value("store_buffer", RECENT))
        from_store = window.code & (FORWARDED | BLOCKED) != 0
        self.forwards += int(np.count_nonzero(from_store & (window.code >> DISTANCE_SHIFT < buffer)))
