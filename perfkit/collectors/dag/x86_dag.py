"""Front end (c) of the extended roofline: the DAG of a trace that the kit's tracer recorded.

Floating-point and vector instructions become nodes; values live in the vector registers. Address arithmetic and other
integer work are left out, and so are spills: a value stored to the stack and loaded from there again (by the stack
or frame pointer and a constant) is passed on, not accessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfkit.dag.graph import Dag
from perfkit.dag.program import ADD, DIVIDE, FORWARD, LOAD, MULTIPLY, OTHER, STORE, BlockProgram, Ints
from perfkit.errors import DataError
from perfkit.trace.code import NO_ACCESS, StaticCode
from perfkit.trace.trace import Trace
from perfkit.trace.x86 import decode

_ARITHMETIC = re.compile(
    r"^V?(ADD|SUB|ADDSUB|HADD|HSUB|MIN|MAX|CMP|COMI|UCOMI|MUL|DIV|SQRT|RCP|RSQRT)\w*?(SD|SS|PD|PS)$"
)
_FUSED = re.compile(r"^V?FN?M(?:ADD|SUB)(?:ADD|SUB)?(132|213|231)(SD|SS|PD|PS)$")
_CLEARED = re.compile(r"^V?(XORP[SD]|PXOR[DQ]?)$")
_CODES = {"MUL": MULTIPLY, "DIV": DIVIDE, "SQRT": DIVIDE, "RCP": DIVIDE, "RSQRT": DIVIDE}
_REGISTERS = 32
_STACK = ("RSP", "RBP", "ESP", "EBP")


@dataclass
class _Block:
    """The operations of one basic block, and which of its recorded operands are nodes."""

    # (code, left slot, right slot, into slot, shape)
    ops: list[tuple[int, int, int, int, tuple[int, int]]] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)


def trace_dag(trace: Trace, count_all: bool = False) -> Dag:
    """Return the computation DAG of an x86-64 trace.

    Parameters
    ----------
    trace
        A trace of the kit's tracer or one of its files (`perfkit.Trace`).
    count_all
        Keep the instructions that are no nodes: they take their place in fetch and in the reorder buffer, one cycle
        each, and nothing else. Off in the paper, which ignores them.

    Raises
    ------
    UnavailableError
        If the trace is not of x86-64.
    DataError
        If a floating-point operand has no address (masked accesses, gathers with lanes off): there is no such node.
    """
    reader = _Reader(trace.code, count_all)
    blocks = [reader.block(k) for k in range(trace.code.block_count)]
    program = _program(blocks, reader.slots)
    stream = _stream(trace, blocks)
    name = trace.provenance.function or trace.provenance.workload or "trace"
    return Dag(program, stream, name, "traced", {"front end": "x86 trace", "backend": trace.provenance.backend})


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

    def block(self, number: int) -> _Block:
        block = _Block()
        first, end = (int(self.code.block_start[number + k]) for k in (0, 1))
        begin = int(self.code.operand_start[first])
        for i in range(first, end):
            before = len(block.ops)
            self.instruction(i, begin, block)
            if self.count_all and all(op[0] == FORWARD for op in block.ops[before:]):
                block.ops.append((OTHER, -1, -1, -1, (1, 8)))
        return block

    def instruction(self, i: int, begin: int, block: _Block) -> None:
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
        shape = self.shape(name, instruction, operands)
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
        self, name: str, vectors: list[int | None], sources: list[int], into: int, shape: tuple[int, int], block: _Block
    ) -> int:
        """Add the operation of an instruction; return the slot of its result."""
        left, right = [*sources, -1, -1][:2]
        fused = _FUSED.match(name)
        arithmetic = _ARITHMETIC.match(name)
        if fused:
            first, second, third = [*dict.fromkeys([into]), *[s for s in sources if s != into], into, into][:3]
            pairs = {"231": (second, third, first), "213": (second, first, third), "132": (first, third, second)}
            a, b, c = pairs[fused[1]]
            product = self.new_slot()
            block.ops += [(MULTIPLY, a, b, product, shape), (ADD, product, c, into, shape)]
        elif arithmetic:
            block.ops.append((_CODES.get(arithmetic[1], ADD), left, right, into, shape))
        elif into >= 0:
            registers = [v for v in vectors if v is not None]
            if _CLEARED.match(name) and len(set(registers[-2:])) == 1:
                left = right = -1
            block.ops.append((FORWARD, left, right, into, (1, 8)))
        return into

    def load(self, operand: int, begin: int, shape: tuple[int, int], spill: int, block: _Block) -> int:
        if spill >= 0:
            return spill
        slot = self.new_slot()
        block.ops.append((LOAD, -1, -1, slot, self.accessed(operand, shape)))
        block.operands.append(operand - begin)
        return slot

    def store(self, operand: int, begin: int, value: int, shape: tuple[int, int], spill: int, block: _Block) -> None:
        if spill >= 0:
            block.ops.append((FORWARD, value, -1, spill, (1, 8)))
            return
        block.ops.append((STORE, value, -1, -1, self.accessed(operand, shape)))
        block.operands.append(operand - begin)

    def accessed(self, operand: int, shape: tuple[int, int]) -> tuple[int, int]:
        """Return elements and bytes of an access: what is accessed, in elements of the instruction's kind."""
        size = int(self.code.size[operand]) or shape[0] * shape[1]
        element = min(shape[1], size)
        return max(1, size // element), element

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

    def shape(self, name: str, instruction: Any, operands: range) -> tuple[int, int]:
        """Return elements and bytes per element of what an instruction works on."""
        element = 4 if re.search(r"(SS|PS)$", name) else 8
        if re.search(r"(SS|SD)$", name):
            return 1, element
        sizes = [int(self.code.size[o]) for o in operands]
        for k in range(instruction.op_count):
            if instruction.op_kind(k) == self.iced.OpKind.REGISTER:
                kind = self.registers[instruction.op_register(k)]
                sizes.append({"X": 16, "Y": 32, "Z": 64}.get(kind[0], 0) if re.match(r"[XYZ]MM", kind) else 0)
        return max(1, max(sizes, default=element) // element), element


def _program(blocks: list[_Block], slots: int) -> BlockProgram:
    shapes = sorted({op[4] for block in blocks for op in block.ops}) or [(1, 8)]
    ops = [(*op[:4], shapes.index(op[4])) for block in blocks for op in block.ops]
    table = np.array(ops, dtype=np.int64).reshape(-1, 5)
    none, zero = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return BlockProgram(
        block_ops=np.cumsum([0, *(len(block.ops) for block in blocks)], dtype=np.int64),
        block_phis=np.zeros(len(blocks) + 1, dtype=np.int64),
        block_origin=np.arange(len(blocks), dtype=np.int64),
        block_addresses=np.array([len(block.operands) for block in blocks], dtype=np.int64),
        phi_into=none,
        phi_edges=zero,
        edge_from=none,
        edge_slot=none,
        op=table[:, 0].astype(np.uint8),
        left=table[:, 1].copy(),
        right=table[:, 2].copy(),
        into=table[:, 3].copy(),
        shape=table[:, 4].astype(np.uint8),
        level=np.full(len(table), -1, dtype=np.int8),
        shapes=np.array(shapes, dtype=np.int64),
        call=np.full(len(table), -1, dtype=np.int64),
        call_frame=none,
        call_args=zero,
        arg_from=none,
        arg_into=none,
        frame=np.array([slots], dtype=np.int64),
    )


def _stream(trace: Trace, blocks: list[_Block]) -> Ints:
    """Return the executed blocks, each followed by the addresses of its nodes."""
    operands = np.diff(trace.code.block_operand_start).astype(np.int64)
    used = np.array([len(block.operands) for block in blocks], dtype=np.int64)
    executed = trace.stream.astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(operands[executed])))[:-1]
    places = np.concatenate(([0], np.cumsum(1 + used[executed])))
    stream = np.empty(int(places[-1]), dtype=np.int64)
    stream[places[:-1]] = executed
    for k, block in enumerate(blocks):
        runs = np.flatnonzero(executed == k)
        for slot, operand in enumerate(block.operands):
            found = trace.addresses[starts[runs] + operand]
            if (found == np.uint64(NO_ACCESS)).any():
                raise DataError(f"block {k} has masked floating-point accesses; the extended roofline has no such node")
            stream[places[runs] + 1 + slot] = found.astype(np.int64)
    return stream
