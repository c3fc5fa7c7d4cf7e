"""How the scheduling engine of `DagScheduler` lays out its state: columns, bits and arrays (`dag_engine`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfkit.dag.program import BlockProgram
from perfkit.simulators.dag.core import TYPES

Ints = npt.NDArray[np.int64]

# Node types, as bits of the histogram's masks: the paper's seven, then those that it does not have. A histogram has
# room for the types up to the last that the DAG has, at least the paper's. Columns of a unit: the types, then the ports
# (NO_PORT: none), which several types share.
N_TYPES, PAPER_TYPES = len(TYPES), 7
FIRST_LEVEL, FUSED_TYPE, INTEGER_TYPE = 3, 7, 8
LOAD_PORT, STORE_PORT, AGU, FP_PORT, BRANCH_PORT, VECTOR_LOAD_PORT, COLUMNS = range(9, 16)
NO_PORT = COLUMNS
VECTOR_WORK = COLUMNS  # beside the types: what `Tally.nodes` counts as integer work that took floating-point units
DIVIDER = COLUMNS  # the column of `Rings.wide` that says when the integer divider is taken; rows have no bits for it
OWED_DIVIDER = N_TYPES  # its place in `Units.owed`
STALL_RS, STALL_ROB, STALL_LB, STALL_SB, STALL_LFB = 1, 2, 4, 8, 16

# `Rings.rows` has four words per cycle. BUSY: four bits of each column, a counter that begins at 8 - lanes, so that its
# highest bit says "all lanes are in use"; above them, whether the cycle has anything in `wide` and `skip`.
# LEAVE, LEAVE + 1: how many entries of RS and LB, of SB and LFB are given back (32 bits each). ISSUED: types, and from
# bit LASTING on those that take their type's latency (others came early: a prefetcher fetched their line); from bit
# HIGH on, how many entries of the vector scheduler are given back.
ROW_BITS, WIDE_BITS, SKIP_BITS = 2, 4, 5  # columns of a cycle in the rings, as powers of two
BUSY, LEAVE, ISSUED = 0, 1, 3
FIELD, FULL, NARROW = 4, 8, 8  # bits of a counter, its highest bit, lanes it can count
LASTING = 16
DIRTY = 1 << 60
HIGH, LOW = 32, (1 << 32) - 1
# Columns of an operation (as powers of two, eight words each): code (ADD for all arithmetic, integers and branches);
# slots read and written; where its unit begins (arithmetic: in the table of units; memory: one step on for a store);
# its column of `Tally.nodes` (memory: its shape's first); the level given, or below 0; words accessed, the call, the
# delay, what a division takes longer, or for how long one of integers takes the divider.
OP_BITS, SHAPE_BITS = 3, 4
# The code of an instruction that is no node, below those of nodes; what it is recorded as.
OTHER, NO_NODE = -1, 255
# The level of an integer load that follows from reuse, of one that is not renamed (of others it is -1), and a core
# without a forwarding latency.
INTEGER_LOAD, NOT_RENAMED, AS_L1 = -2, -3, -1
CODE, READS, READS_TOO, INTO, UNIT, COUNT, LEVEL, SIZE = range(8)
# Frames lie two slots apart: what is never ready later than at once, and what nobody reads.
AT_ONCE, NOBODY, BETWEEN = -1, -2, 2
# Columns of a unit, by type and kind (accesses: bit 0 says store, bit 1 vector; integer work: bit 0 says branch, bit 1
# vector, both say one of floating-point units; bit 1 of additions and multiplications says integer work on their
# units; four rows per type): the bits of a row that say "full" to such a node, what it adds to the row, latency, its
# type's bits, whether any of its units is wide, the port that it takes beside its type's unit (NO_PORT: none), its
# column of `Rings.skip`, an entry of the vector scheduler (or 0; of a store: whether its data hold one of the RS).
UNIT_BITS, KIND_BITS = 3, 2
A_STORE, A_BRANCH, A_VECTOR = 1, 1, 2
WHEN_FULL, ADD, TAKES, BIT, WIDE, PORT, SKIP, VECTOR = range(8)
# `Tally.busy`: the cycles left of each type but memory, nine bits each (their last is free), and how to gather one bit
# of each of them by a multiplication; until when memory executes; until when each type does, where nine bits do not do
# or where it came early; last, until when any type beyond the paper's, or one that came early, executes.
MEMORY = PAPER_TYPES - 1
UNTIL, LATEST = 2, 2 + N_TYPES
LEFT_BITS = 8
LEFT_ONES = sum(1 << (LEFT_BITS + 1) * k for k in range(MEMORY))
LEFT_MAX = LEFT_ONES * ((1 << LEFT_BITS) - 1)
GATHERED = LEFT_BITS * (MEMORY - 1)
GATHER = sum(1 << (GATHERED - LEFT_BITS * k) for k in range(MEMORY))
LATEST_STORES = 256  # stores whose writing is remembered: more than any core's store buffer holds
READ_AHEAD = 8  # cycles of reading decoded code that may wait for fetch: an estimate, as Gus has it
PROBES = 2  # cycles looked at one by one before chains of full cycles are followed

# Reasons to return before the records are used up: the driver makes room and calls again.
DONE, GROW_RINGS, GROW_LINES, GROW_FRAMES, GROW_NODES, GROW_CYCLES = range(6)

# Places of the saved scalars between two calls.
(
    FETCH, LEFT, TAKEN_A, TAKEN_B, LB_NOW, SB_NOW, LFB_NOW, RETIRED, LAST_LOAD, LAST_STORE, END, NODES,
    PREVIOUS, BASE, TOP, DEPTH, AT_RECORD, AT_OP, AT_ADDRESS, INSTRUCTIONS, COVERED, SLOTS,
    TAKEN_C, VECTOR_NOW, VECTORS, TURN, TURNS, OPENED, CROWDED, WRITERS, WROTE, GROUP_READ,
    LINE_READ, SCALARS,
) = range(34)  # fmt: skip

# Places in the parameter array.
(
    WIDTH, ROB, RS, LB, SB, LFB, X86_ORDER, INFLIGHT, LINE_SHIFT, WORD_SHIFT, MARGIN, IDLE, TYPES_USED,
    STREAMS, FORWARDS, FORWARDS_FP, EARLIER, PENALTY, SPLITS, RENAMED, VECTOR_RS,
    VECTOR_QUEUE, WAYS, SETS, SET_FILL, SET_WRITTEN, SET_STORED, REFILL, LOOP_TURNS, JOINS, SETS_KNOWN, BLOCKS,
    REGISTERS, CODE_READS, PARAMETERS,
) = range(35)  # fmt: skip
# Values of INFLIGHT: a hit of a line under way issues and completes as any hit; does not issue before the line is
# there; issues, and completes with the line.
IGNORED, BLOCKED, MERGED = range(3)


class Stream(NamedTuple):
    """The executed blocks in order, their addresses, the indices of these lines, and how many words there are."""

    records: npt.NDArray[np.int64]
    where: Ints
    length: int


class BlockCode(NamedTuple):
    """The static tables, and their operations as columns (above)."""

    program: BlockProgram
    ops: Ints


class Units(NamedTuple):
    """Lanes of each unit; lanes taken and work by shape and type; the table of units (columns above).

    A throughput of 3/2 per cycle is two lanes that a node keeps for 4/3 cycles on average: for 1, 1 and 2 cycles in
    turns, so that nodes begin evenly. `work` is in lane-cycles times `parts`; what is `owed` of it is carried on to the
    type's next node (last: to the next integer division). Lanes of `UNLIMITED` are not modelled. Units that a row
    cannot count (many lanes, or nodes that take several or keep them) are `wide`. By set of issuing types: what of
    `Tally.busy` to keep and what to set; below 0 when some latency is too long.
    """

    lanes: Ints
    need: Ints
    work: Ints
    parts: Ints
    owed: Ints
    table: Ints
    wide: npt.NDArray[np.uint8]
    latency: Ints
    countdown: Ints


class Rings(NamedTuple):
    """The cycles from fetch on, in rings: rows of four words (see above), and for contended cycles 16 and 32 columns.

    Those are lanes in use of each wide unit, and how many cycles on a node of a type need not look for a free one.
    """

    rows: Ints
    wide: npt.NDArray[np.uint16]
    skip: npt.NDArray[np.int32]


class Queues(NamedTuple):
    """Of the last nodes, in rings: when each retires from the ROB, and when each entered the vector scheduler.

    Of the last that write a vector register: when each retires, and a register is free.
    """

    rob: Ints
    vector: Ints
    registers: Ints


def countdown(latency: Ints) -> Ints:
    """Return for each set of issuing types what it keeps of the cycles left, and what it sets (`Units.countdown`)."""
    table = np.full((1 << PAPER_TYPES, 2), -1, dtype=np.int64)
    if latency[:MEMORY].max() >> LEFT_BITS:
        return table.ravel()
    ones = (1 << LEFT_BITS + 1) - 1
    for issued in range(1 << PAPER_TYPES):
        types = [k for k in range(MEMORY) if issued >> k & 1]
        table[issued, 0] = ones * LEFT_ONES - sum(ones << (LEFT_BITS + 1) * k for k in types)
        table[issued, 1] = sum(int(latency[k]) << (LEFT_BITS + 1) * k for k in types)
    return table.ravel()


class Memory(NamedTuple):
    """Per line: when its outstanding miss returns, and when any of its words was last stored. Per word: the same.

    Where a core blocks loads of bytes from several stores: per word the number of its last store, and when the last
    stores (their numbers modulo `LATEST_STORES`) are written to L1; at the end, how many there were.

    Of the prefetcher's streams: the line before the next one, its direction (0: not known), in order of use, and last
    where the first one is. Of the sets of L1: their lines as ``2 * index + written``, -1 for none; the trees that tell
    which is replaced; until when each takes in its last line, and after those whether a load brought it; at the end,
    when the next line may come again that only stores bring. Per line the slot of its last store. The lines that
    further stores join, and at the end how many there were.
    """

    lines: Ints
    stored: Ints
    streams: Ints
    sets: Ints
    trees: Ints
    filling: Ints
    written: Ints
    writer: Ints
    commits: Ints
    joined: Ints


class Frames(NamedTuple):
    """Ready cycles of the values of all active functions, and the stack of callers."""

    ready: Ints
    phis: Ints
    base: Ints
    into: Ints


class Tally(NamedTuple):
    """Cycles by state, nodes by type and shape, and until when each type executes (see above).

    Where it has room, a log of what was added to the histogram: how many entries, then a state and its cycles of each.
    """

    histogram: Ints
    nodes: Ints
    busy: Ints
    log: Ints


class Record(NamedTuple):
    """Per node its issue, completion and type; per cycle its stalls. Of length 0 when nothing is recorded."""

    issue: Ints
    done: Ints
    type: npt.NDArray[np.uint8]
    stalls: npt.NDArray[np.uint8]
