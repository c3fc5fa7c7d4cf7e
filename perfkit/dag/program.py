"""What the basic blocks of a kernel do: static tables that an executed stream of blocks is replayed against.

Values live in slots of frames, as in a register machine; the nodes of a `perfkit.dag.graph.Dag` follow from these
tables and the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Consumer = Callable[[Ints, int], None]

LEVELS = ("L1", "L2", "L3", "mem")
# Operation codes of a program. FORWARD passes its operands on (select, negation), after a delay if it has one; CALL and
# RETURN move between frames. OTHER is an instruction that is no node: where it is kept, it takes its place in fetch and
# in the reorder buffer.
# JOIN says that the next node is of the same instruction as the one before: they share a slot of fetch and of the ROB.
# REDIRECT says that what follows was mispredicted: it is fetched after the operand (the branch) and a penalty.
# HOLD says that the next INTEGER operation is a division, which takes the integer divider for its delay: the divider is
# not pipelined.
# READ says how many groups and lines of decoded code its block begins.
(
    ADD, MULTIPLY, DIVIDE, LOAD, STORE, FORWARD, CALL, RETURN, OTHER, FUSED, INTEGER, BRANCH, JOIN, REDIRECT, HOLD,
    READ,
) = range(16)  # fmt: skip
# Parts of a division's time in which a DIVIDE's delay counts, and what a square root takes longer where no core's table
# says it: half as long again to twice as long as a division since Skylake and Zen 3.
DIVISION, SQUARE_ROOT = 60, 36
# What an INTEGER operation's delay says of its units: those of integer registers (0); of vector registers, any unit
# where the core's are not known apart; any floating-point unit; those of additions; those of multiplications.
VECTOR, PIPE, ADDER, MULTIPLIER = range(1, 5)
LINES_READ = 1 << 10  # more groups or lines of a block than one less are not told apart
WORD = 8  # bytes: bandwidths beyond L1 are in doubles per cycle, as in the paper
HITS_WAIT = "hits wait for their line"  # the fact "1" of a kernel whose published figure has `inflight_blocking`
FORWARDED_LOAD = 2  # the delay of an integer load that no core renames, which gets a store's value by forwarding
OPS = {"A": ADD, "M": MULTIPLY, "D": DIVIDE, "L": LOAD, "S": STORE, "F": FUSED, "I": INTEGER, "B": BRANCH}


class BlockProgram(NamedTuple):
    """What every basic block does: static tables, indexed by block, by PHI or by operation.

    Values live in slots of the running function's frame; slot -1 means "ready from the start" (constants, integers).

    Parameters
    ----------
    block_ops, block_phis
        Where each block's operations and PHIs begin in the tables below (one entry more than there are blocks).
    block_origin
        The block that PHIs name as predecessor: a block cut at a call keeps its first part's number.
    block_addresses
        How many addresses follow the block's number in the stream.
    phi_into, phi_edges, edge_from, edge_slot
        Slot a PHI writes; where its edges begin; predecessor block and slot of each edge.
    op, left, right, into
        Operation code, the slots read and the slot written (-1: none).
    shape, level
        Index into `shapes`; the memory level of an access, -1 when it follows from the address.
    shapes
        (elements, bytes per element) of the values operated on: (1, 8) is a double, (4, 8) a vector of four.
    call, call_frame, call_args, arg_from, arg_into
        For a CALL its index, else -1; the caller's frame size; where the call's arguments begin; their slots.
    frame
        Slots of each function's frame, the entry function's first.
    delay
        Of a FORWARD the cycles after which it passes its operands on, below 0 for before; of a HOLD those that the
        divider is taken for; of a READ the groups and, `LINES_READ` times as much each, the lines that its block
        begins; of a LOAD or STORE 1 if it accesses an integer (`FORWARDED_LOAD`: a load that is never renamed); of an
        INTEGER operation what it takes: `VECTOR`, `PIPE`, `ADDER`, `MULTIPLIER`, or 0: units of integer registers; of
        a DIVIDE that keeps its unit longer than a division the rest, in `DIVISION`-ths of a division's time (square
        roots); else 0.
    block_instructions, block_covered
        How many instructions a processor would fetch for the block, and how many of them are nodes.
    """

    block_ops: Ints
    block_phis: Ints
    block_origin: Ints
    block_addresses: Ints
    phi_into: Ints
    phi_edges: Ints
    edge_from: Ints
    edge_slot: Ints
    op: npt.NDArray[np.uint8]
    left: Ints
    right: Ints
    into: Ints
    shape: npt.NDArray[np.uint8]
    level: npt.NDArray[np.int8]
    shapes: npt.NDArray[np.int64]
    call: Ints
    call_frame: Ints
    call_args: Ints
    arg_from: Ints
    arg_into: Ints
    frame: Ints
    delay: Ints
    block_instructions: Ints
    block_covered: Ints

    @classmethod
    def of_operations(
        cls,
        table: Ints,
        blocks: Sequence[tuple[int, int, int, int]],
        shapes: Ints,
        slots: int,
    ) -> Self:
        """Return a program of blocks in one function, without calls and PHIs.

        Parameters
        ----------
        table
            One row per operation, block after block: code, left, right, into, shape, level, delay.
        blocks
            Of each block: its operations, the addresses that follow its number in the stream, the instructions that a
            processor would fetch for it, and how many of these are nodes.
        shapes
            As in the class.
        slots
            Slots of the function's frame.
        """
        none, zero = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        counts, addresses, instructions, covered = np.array(blocks, dtype=np.int64).reshape(-1, 4).T.copy()
        return cls(
            block_ops=np.concatenate(([0], np.cumsum(counts))),
            block_phis=np.zeros(len(counts) + 1, dtype=np.int64),
            block_origin=np.arange(len(counts), dtype=np.int64),
            block_addresses=addresses,
            phi_into=none,
            phi_edges=zero,
            edge_from=none,
            edge_slot=none,
            op=table[:, 0].astype(np.uint8),
            left=table[:, 1].copy(),
            right=table[:, 2].copy(),
            into=table[:, 3].copy(),
            shape=table[:, 4].astype(np.uint8),
            level=table[:, 5].astype(np.int8),
            shapes=shapes,
            call=np.full(len(table), -1, dtype=np.int64),
            call_frame=none,
            call_args=zero,
            arg_from=none,
            arg_into=none,
            frame=np.array([slots], dtype=np.int64),
            delay=table[:, 6].copy(),
            block_instructions=instructions,
            block_covered=covered,
        )

    @property
    def divisions(self) -> Ints:
        """The INTEGER operations that are divisions, one for each HOLD, in order."""
        integers = np.flatnonzero(self.op == INTEGER)
        found: Ints = integers[np.searchsorted(integers, np.flatnonzero(self.op == HOLD))]
        return found

    @property
    def needs_reuse(self) -> bool:
        """Whether the level of some access must be found from its address (which takes a line size)."""
        access = (self.op == LOAD) | (self.op == STORE)
        return bool((access & (self.level < 0)).any())


class NodeSource(Protocol):
    """Anything the scheduler can run: a `Dag` in memory, or a kernel that is traced anew each time (streaming)."""

    @property
    def name(self) -> str:
        """What the nodes come from."""

    @property
    def program(self) -> BlockProgram:
        """The static tables."""

    def replay(self, consume: Consumer) -> None:
        """Call ``consume(records, length)`` with the executed blocks, in order."""
