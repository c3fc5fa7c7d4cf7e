"""Front end (c) of the extended roofline: the DAG of a trace that the kit's tracer recorded.

Floating-point and vector instructions become nodes; values live in the vector registers. Address arithmetic and other
integer work are left out, as in the paper, and so are spills: a value stored to the stack and loaded from there again
(by the stack or frame pointer and a constant) is passed on, not accessed. With ``whole=True`` nothing is left out: see
`perfkit.collectors.dag.x86_whole`.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from perfkit.collectors.dag.x86_counts import counts_of_trace
from perfkit.collectors.dag.x86_operations import BRANCH_RESULT, STEP, X86Block, accessed, arithmetic, shape_of
from perfkit.dag.graph import Dag
from perfkit.dag.program import (
    FORWARD,
    FUSED,
    LOAD,
    OTHER,
    STORE,
    BlockProgram,
    Consumer,
    Ints,
)
from perfkit.errors import DataError, PerfkitWarning
from perfkit.trace.code import NO_ACCESS, StaticCode
from perfkit.trace.trace import StreamedTrace, Trace, TraceChunk, expect_trace
from perfkit.trace.x86 import decode

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

_CLEARED = re.compile(r"^V?(XORP[SD]|PXOR[DQ]?)$")
_REGISTERS = 32
_STACK = ("RSP", "RBP", "ESP", "EBP")


@overload
def trace_dag(  # type: ignore[overload-overlap]  # a streamed trace is a trace, too
    trace: StreamedTrace, count_all: bool = ..., whole: bool = ..., core: Microarchitecture | None = ...
) -> TraceSource: ...


@overload
def trace_dag(trace: Trace, count_all: bool = ..., whole: bool = ..., core: Microarchitecture | None = ...) -> Dag: ...


def trace_dag(
    trace: Trace, count_all: bool = False, whole: bool = False, core: Microarchitecture | None = None
) -> Dag | TraceSource:
    """Return the computation DAG of an x86-64 trace.

    Parameters
    ----------
    trace
        A trace of the kit's tracer or one of its files (`perfkit.Trace`). One that stays in its file
        (`perfkit.trace.trace.StreamedTrace`) gives a source of nodes that is read anew each time it is scheduled.
    count_all
        Keep the instructions that are no nodes: they take their place in fetch and in the reorder buffer, one cycle
        each, and nothing else. Off in the paper, which ignores them.
    whole
        Make nodes of integer instructions, addresses, branches, and integer loads and stores, too, and of vector
        instructions that are no arithmetic. Off in the paper.
    core
        With `whole`: take the latency of each instruction from this core's table.

    Raises
    ------
    UnavailableError
        If the trace is not of x86-64.
    DataError
        If a floating-point operand has no address (masked accesses, gathers with lanes off) and `whole` is off: there
        is no such node.

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> dag.kind
    'traced'
    """
    return trace_source(trace, count_all, whole, core).in_memory()


def trace_source(
    trace: Trace, count_all: bool = False, whole: bool = False, core: Microarchitecture | None = None
) -> TraceSource:
    """Return the source of a trace's nodes, which keeps the trace; see `trace_dag`."""
    expect_trace(trace, "trace_dag")
    if whole:
        from perfkit.collectors.dag.x86_whole import WholeReader

        reader: Any = WholeReader(trace.code, core)
    else:
        reader = _Reader(trace.code, count_all)
    blocks = [reader.block(k) for k in range(trace.code.block_count)]
    name = trace.provenance.function or trace.provenance.workload or "trace"
    branch = reader.slot(BRANCH_RESULT) if whole else -1
    if lacks := trace.provenance.lacks_callees:
        warnings.warn(lacks, PerfkitWarning, stacklevel=3)
    further = [step for block in blocks for step in block.repeats]
    program = _program(trace.code, [*blocks, *further], reader.slots)
    facts = {"front end": "x86 trace", "backend": trace.provenance.backend, "whole": str(whole)}
    if whole:
        facts |= reader.counts(trace.block_counts()) | counts_of_trace(trace, reader.past_caches)
    return TraceSource(trace, program, blocks, whole, name, facts, branch)


@dataclass(frozen=True, eq=False)
class TraceSource:
    """The nodes of a trace, made piece by piece each time they are asked for.

    Parameters
    ----------
    trace, program, blocks
        The trace; the static tables; which of each block's operands are nodes.
    masked
        Whether operands that did not access memory are nodes all the same: such an access takes its turn at the load
        or store unit and touches nothing new.
    name, facts
        What was traced, and how.
    branch_slot
        The slot that holds the last branch's result; -1 where branches are no nodes.
    """

    trace: Trace
    program: BlockProgram
    blocks: list[X86Block]
    masked: bool
    name: str
    facts: dict[str, str]
    branch_slot: int = -1

    def replay(self, consume: Consumer) -> None:
        """Hand the executed blocks to `consume`, piece by piece."""
        for chunk in self.trace.chunks():
            stream = _stream(self.trace.code, chunk, self.blocks, self.masked)
            consume(stream, len(stream))

    def in_memory(self) -> Dag | TraceSource:
        """Return the nodes in memory, unless the trace stays in its file."""
        return self if isinstance(self.trace, StreamedTrace) else self.dag()

    def dag(self) -> Dag:
        """Keep all nodes in memory."""
        pieces: list[Ints] = []
        self.replay(lambda records, length: pieces.append(records[:length]))
        stream = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
        return Dag(self.program, stream, self.name, "traced", dict(self.facts))


class _Reader:
    """Reads instructions into operations on slots: 32 vector registers, then temporaries and spilled values."""

    def __init__(self, code: StaticCode, count_all: bool) -> None:
        import iced_x86

        self.iced, self.code, self.count_all = iced_x86, code, count_all
        self.instructions = decode(code)
        self.names = {v: k for k, v in vars(iced_x86.Mnemonic).items() if isinstance(v, int)}
        self.registers = {v: k for k, v in vars(iced_x86.Register).items() if isinstance(v, int)}
        self.factory = iced_x86.InstructionInfoFactory()
        self.spilled: dict[tuple[str, int], int] = {}
        self.slots = _REGISTERS

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def block(self, number: int) -> X86Block:
        block = X86Block()
        first, end = (int(self.code.block_start[number + k]) for k in (0, 1))
        begin = int(self.code.operand_start[first])
        for i in range(first, end):
            before = len(block.ops)
            self.instruction(i, begin, block)
            if all(op[0] == FORWARD for op in block.ops[before:]):
                if self.count_all:
                    block.add(OTHER, -1, -1, -1)
            else:
                block.covered += 1
        return block

    def instruction(self, i: int, begin: int, block: X86Block) -> None:
        instruction = self.instructions[i]
        name = self.names[instruction.mnemonic]
        info = self.factory.info(instruction)
        kinds = [instruction.op_kind(k) for k in range(instruction.op_count)]
        vectors = [
            self.vector(instruction.op_register(k)) if kind == self.iced.OpKind.REGISTER else None
            for k, kind in enumerate(kinds)
        ]
        if all(v is None for v in vectors):
            return
        operands = range(int(self.code.operand_start[i]), int(self.code.operand_start[i + 1]))
        access = self.iced.OpAccess
        reads = [info.op_access(k) in (access.READ, access.READ_WRITE, access.COND_READ) for k in range(len(kinds))]
        writes = [info.op_access(k) in (access.WRITE, access.READ_WRITE, access.COND_WRITE) for k in range(len(kinds))]
        shape = shape_of(self, name, instruction, operands)
        spill = self.spill_slot(instruction)
        loaded = [self.load(o, begin, shape, spill, block) for o in operands if self.code.read[o]]
        sources = [v for v, read in zip(vectors, reads, strict=True) if v is not None and read]
        into = next((v for v, write in zip(vectors, writes, strict=True) if v is not None and write), -1)
        result = self.compute(name, vectors, [*sources, *loaded], into, shape, block)
        for o in operands:
            if self.code.write[o]:
                value = result if into >= 0 else (sources[0] if sources else -1)
                self.store(o, begin, value, shape, spill, block)

    def compute(
        self,
        name: str,
        vectors: list[int | None],
        sources: list[int],
        into: int,
        shape: tuple[int, int],
        block: X86Block,
    ) -> int:
        """Add the operation of an instruction; return the slot of its result."""
        left, right, *more = [*sources, -1, -1]
        code = arithmetic(name)
        if code == FUSED:
            between = self.new_slot()
            block.add(FORWARD, left, right, between)
            block.add(FUSED, between, more[0], into, shape)
        elif code >= 0:
            block.add(code, left, right, into, shape)
        elif into >= 0:
            registers = [v for v in vectors if v is not None]
            if _CLEARED.match(name) and len(set(registers[-2:])) == 1:
                left = right = -1
            block.add(FORWARD, left, right, into)
        return into

    def load(self, operand: int, begin: int, shape: tuple[int, int], spill: int, block: X86Block) -> int:
        if spill >= 0:
            return spill
        slot = self.new_slot()
        block.add(LOAD, -1, -1, slot, accessed(self.code, operand, shape))
        block.operands.append(operand - begin)
        return slot

    def store(self, operand: int, begin: int, value: int, shape: tuple[int, int], spill: int, block: X86Block) -> None:
        if spill >= 0:
            block.add(FORWARD, value, -1, spill)
            return
        block.add(STORE, value, -1, -1, accessed(self.code, operand, shape))
        block.operands.append(operand - begin)

    def vector(self, register: int) -> int | None:
        found = re.fullmatch(r"[XYZ]MM(\d+)", self.registers[register])
        return int(found[1]) if found else None

    def spill_slot(self, instruction: Any) -> int:
        """Return the slot of a place on the stack, -1 for any other operand."""
        base = self.registers.get(instruction.memory_base, "")
        if base not in _STACK or instruction.memory_index != self.iced.Register.NONE:
            return -1
        place = base, int(instruction.memory_displacement)
        if place not in self.spilled:
            self.spilled[place] = self.new_slot()
        return self.spilled[place]


def _program(code: StaticCode, blocks: list[X86Block], slots: int) -> BlockProgram:
    shapes = sorted({op[4] for block in blocks for op in block.ops}) or [(1, 8)]
    ops = [(*op[:4], shapes.index(op[4]), -1, op[5]) for block in blocks for op in block.ops]
    fetched = np.diff(code.block_start).tolist()
    fetched += [0] * (len(blocks) - len(fetched))
    return BlockProgram.of_operations(
        np.array(ops, dtype=np.int64).reshape(-1, 7),
        [(len(b.ops), len(b.operands), n, b.covered) for b, n in zip(blocks, fetched, strict=True)],
        np.array(shapes, dtype=np.int64),
        slots,
    )


# Where accesses are that touched nothing, loads and stores: pages that no program has.
_NOWHERE = np.array([4096, 8192], dtype=np.uint64)


def _stream(code: StaticCode, chunk: TraceChunk, blocks: list[X86Block], masked: bool) -> Ints:
    """Return the executed blocks, each followed by the addresses of its nodes."""
    operands = np.diff(code.block_operand_start).astype(np.int64)
    used = np.array([len(block.operands) for block in blocks], dtype=np.int64)
    executed = chunk.stream.astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(operands[executed])))[:-1]
    steps = _further_steps(code, chunk, blocks, starts)
    lengths = 1 + used[executed]
    for run, records in steps.items():
        lengths[run] += len(records)
    places = np.concatenate(([0], np.cumsum(lengths)))
    stream = np.empty(int(places[-1]), dtype=np.int64)
    stream[places[:-1]] = executed
    for run, records in steps.items():
        stream[places[run + 1] - len(records) : places[run + 1]] = records
    size_at = _sizes_before(code, chunk)
    order = np.argsort(executed, kind="stable")
    bounds = np.searchsorted(executed[order], np.arange(len(blocks) + 1))
    for k, block in enumerate(blocks):
        runs = order[bounds[k] : bounds[k + 1]]
        if not len(runs):
            continue
        first = int(code.block_operand_start[k])
        accesses = [op for op in block.ops if op[0] in (LOAD, STORE)]
        for slot, operand in enumerate(block.operands):
            found = chunk.addresses[starts[runs] + operand]
            absent = found == np.uint64(NO_ACCESS)
            if code.dynamic[first + operand] and not block.repeats:
                # A masked access begins with its first element that is not masked; a node has one size.
                before = int(code.dynamic[first : first + operand].sum())
                elements, size = accesses[slot][4]
                found = found - np.uint64(elements * size) + chunk.sizes[size_at[runs] + before].astype(np.uint64)
            if absent.any():
                if not masked:
                    raise DataError(
                        f"block {k} has masked floating-point accesses; the extended roofline has no such node. "
                        "Trace the whole kernel (whole=True; perfkit dag run: without --paper-nodes)"
                    )
                found[absent] = _NOWHERE[int(code.write[first + operand])]
            stream[places[runs] + 1 + slot] = found.astype(np.int64)
    return stream


def _further_steps(code: StaticCode, chunk: TraceChunk, blocks: list[X86Block], starts: Ints) -> dict[int, Ints]:
    """Return, of each executed block with repeated string instructions, the records of their steps after the first."""
    if not any(block.repeats for block in blocks):
        return {}
    size_at = _sizes_before(code, chunk)
    number = len(blocks)
    found: dict[int, Ints] = {}
    for k, block in enumerate(blocks):
        for step in block.repeats:
            first = int(code.block_operand_start[k])
            before = int(code.dynamic[first : first + step.operands[0]].sum())
            for run in np.flatnonzero(chunk.stream == k).tolist():
                more = -(-int(chunk.sizes[size_at[run] + before]) // STEP) - 1
                if more > 0:
                    records = np.empty((more, 1 + len(step.operands)), dtype=np.int64)
                    records[:, 0] = number
                    begins = chunk.addresses[starts[run] + np.array(step.operands)].astype(np.int64)
                    records[:, 1:] = begins + STEP * np.arange(1, more + 1)[:, None]
                    found[run] = np.concatenate([found.get(run, np.empty(0, dtype=np.int64)), records.ravel()])
            number += 1
    return found


def _sizes_before(code: StaticCode, chunk: TraceChunk) -> Ints:
    """Return how many sizes are recorded before each executed block."""
    found: Ints = np.concatenate(([0], np.cumsum(np.diff(code.block_dynamic_start)[chunk.stream], dtype=np.int64)))
    return found
