"""What the front end does with the DAG of a trace: mispredicted branches, and reads of decoded code.

The extended roofline's paper knows no branches. A trace tells where they went, and the predictor that Gus uses
(`perfkit.simulators.memory.branches`) which of them it would have missed; a DAG so marked holds up fetch there, by
`DagCore.misprediction_penalty`. It also tells where its code lies: on cores whose file says how they read decoded code
(`op_cache`), each block is fetched after its groups and lines, which a taken jump ends (`DagCore.code_reads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numba import njit

from perfkit.dag.doubts import MISSED, MISSED_AT_FIRST, MOVING, WALKS
from perfkit.dag.graph import Dag
from perfkit.dag.program import LINES_READ, READ, REDIRECT, BlockProgram, Consumer, Ints
from perfkit.errors import SettingError
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.mispredicted import indirect_blocks, moving
from perfkit.simulators.gus.timing import code_reads
from perfkit.simulators.memory.memory import MISPREDICTED, PAGE_WALK, TAKEN, WALK, WALK_SHIFT

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.trace.trace import Trace

_WALK = 20.0  # cycles of a page walk, where the core file does not say


class TracedNodes(Protocol):
    """The nodes of a trace, one piece of records for each of its chunks."""

    trace: Trace
    program: BlockProgram
    name: str
    facts: dict[str, str]
    branch_slot: int

    def replay(self, consume: Consumer) -> None:
        """Call ``consume(records, length)`` for each chunk of the trace."""


@dataclass(frozen=True, eq=False)
class PredictedNodes:
    """The nodes of a trace with its mispredicted branches: a source for `DagScheduler`, as the one it was made of.

    Parameters
    ----------
    source
        The nodes.
    gus
        Whose branch predictor it is, and whether it has seen the trace before.
    """

    source: TracedNodes
    gus: Gus

    @property
    def name(self) -> str:
        """What was traced."""
        return self.source.name

    @property
    def facts(self) -> dict[str, str]:
        """What was traced and how, and how many branches are missed."""
        return {**self.source.facts, "branches predicted for": self.gus.core.name, **self._missed}

    @cached_property
    def _missed(self) -> dict[str, str]:
        found = _counted(self.gus, self.trace)
        found[MISSED_AT_FIRST] = _counted(_cold(self.gus), self.trace)[MISSED]
        return {name: str(n) for name, n in found.items()}

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.source.trace

    @cached_property
    def program(self) -> BlockProgram:
        """The tables of the source, with each block once for each way in which it is entered.

        From the block before it, by a jump (where the core reads code in groups), by a mispredicted branch.
        """
        reads = np.minimum(self._reads, LINES_READ - 1) @ np.array([1, LINES_READ])
        if not self._grouped:
            return _entered(self.source.program, self.source.branch_slot, [None, None])
        rest = np.zeros(len(self.source.program.block_addresses) - len(reads), dtype=np.int64)
        through, jumped = (np.concatenate([each, rest]) for each in reads.T)
        return _entered(self.source.program, self.source.branch_slot, [through, jumped, jumped])

    @cached_property
    def _reads(self) -> Ints:
        found: Ints = code_reads(self.gus.program(self.trace))
        return found

    @property
    def _grouped(self) -> bool:
        return bool(self._reads.any())

    def replay(self, consume: Consumer) -> None:
        """Hand the executed blocks to `consume`, those behind a mispredicted branch as the second of their kind."""
        trace, addresses = self.trace, self.source.program.block_addresses
        blocks = trace.code.block_count
        memory = self.gus.memory(trace, self.gus.program(trace))
        chunks = iter(trace.chunks())

        def mark(records: Ints, length: int) -> None:
            control = memory.window(next(chunks)).control
            entered = ((control & MISPREDICTED) != 0).astype(np.int64)
            if self._grouped:
                entered = np.where(entered > 0, 2, ((control & TAKEN) != 0).astype(np.int64))
            _mark(records, length, addresses, blocks, entered)
            consume(records, length)

        self.source.replay(mark)

    def in_memory(self) -> Dag | PredictedNodes:
        """Return the nodes in memory, unless the trace stays in its file."""
        from perfkit.trace.trace import StreamedTrace

        return self if isinstance(self.trace, StreamedTrace) else self.dag()

    def dag(self) -> Dag:
        """Keep all nodes in memory."""
        pieces: list[Ints] = []
        self.replay(lambda records, length: pieces.append(records[:length]))
        stream = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
        return Dag(self.program, stream, self.name, "traced", self.facts)


def predict_branches(source: Any, core: Microarchitecture, warm: bool = True) -> PredictedNodes:
    """Return the nodes of a trace with the branches that a core's predictor misses.

    Parameters
    ----------
    source
        The nodes of a whole trace (`perfkit.open_dags` of a program or a trace file).
    core
        Whose branch history and return stack the predictor has.
    warm
        The predictor has seen the trace before, as in a loop over the same data.

    Raises
    ------
    SettingError
        The source is not the whole of a trace: no other source knows where branches went.

    Examples
    --------
    >>> core = pk.Microarchitecture.load("zen4")
    >>> source = pk.open_dags("branchy", core=core)["branchy"]
    >>> nodes = pk.predict_branches(source, core)
    >>> pk.DagScheduler(core).run(nodes).cycles > pk.DagScheduler(core).run(source).cycles
    True
    """
    if getattr(source, "branch_slot", -1) < 0:
        raise SettingError(
            f"{getattr(source, 'name', source)} does not tell where its branches went: give the nodes of a program or "
            "a trace with whole=True, which pk.open_dags returns"
        )
    return PredictedNodes(source, Gus(core, warm=warm))


def _cold(gus: Gus) -> Gus:
    return replace(gus, warm=False)


def _counted(gus: Gus, trace: Trace) -> dict[str, int]:
    """Return how many branches the predictor misses, how many it knows to move, and the cycles of page walks.

    These are the fewest: where all of the core's walkers work all the time.
    """
    program, core = gus.program(trace), gus.core
    memory, indirect, walks = gus.memory(trace, program), indirect_blocks(program), 0
    found = {MISSED: 0, MOVING: 0}
    for chunk in trace.chunks():
        window = memory.window(chunk)
        wrong = (window.control & MISPREDICTED) != 0
        found[MISSED] += int(np.count_nonzero(wrong))
        found[MOVING] += moving(window.stream, wrong, indirect)
        walks += int(np.count_nonzero((window.code >> WALK_SHIFT & WALK) == PAGE_WALK))
    each = core.value("page_walk_latency", _WALK) / max(1, int(core.feature("page_walkers", 1)))
    return found | {WALKS: round(each * walks)}


@njit(cache=True)
def _mark(records: Any, length: Any, addresses: Any, blocks: Any, entered: Any) -> None:
    """Let the records of blocks name the one of their kind that is entered so."""
    at, k = 0, 0
    while at < length:
        block = records[at]
        if block < blocks:  # not a further step of a string instruction
            records[at] += entered[k] * addresses.shape[0]
            k += 1
        at += 1 + addresses[block]


def _entered(program: BlockProgram, branch: int, reads: Sequence[Ints | None]) -> BlockProgram:
    """Return a program without calls and PHIs with each block once per way in which it is entered.

    The last is behind a mispredicted branch. `reads` are what a READ of each block has for delay, or None: no READ.
    """
    ways, blocks = len(reads), len(program.block_addresses)
    begins, operations = program.block_ops[:-1], np.diff(program.block_ops)
    columns: dict[str, list[Any]] = {name: [] for name in _ADDED}
    counts = []
    for way, packed in enumerate(reads):
        added: list[dict[str, Any]] = [{"op": REDIRECT, "left": branch}] if way == ways - 1 else []
        added += [] if packed is None else [{"op": READ, "delay": packed}]
        at = np.repeat(begins, len(added))
        for name, tables in columns.items():
            values = [np.broadcast_to(each.get(name, _ADDED[name]), blocks) for each in added]
            table = getattr(program, name)
            tables.append(np.insert(table, at, np.stack(values, axis=1).ravel()) if added else table)
        counts.append(operations + len(added))
    return program._replace(
        **{name: np.concatenate(tables) for name, tables in columns.items()},
        **{name: np.tile(getattr(program, name), ways) for name in _OF_BLOCKS},
        block_ops=np.concatenate(([0], np.cumsum(np.concatenate(counts)))),
        block_phis=np.zeros(ways * blocks + 1, dtype=np.int64),
        block_origin=np.arange(ways * blocks, dtype=np.int64),
    )


_ADDED = {"op": READ, "left": -1, "right": -1, "into": -1, "shape": 0, "level": -1, "call": -1, "delay": 0}
_OF_BLOCKS = ("block_addresses", "block_instructions", "block_covered")
