"""The same noise in a recorded trace, so that a model can say what it would cost."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from iced_x86 import BlockEncoder, Instruction, InstructionInfoFactory, MemorySizeInfo, Mnemonic, OpAccess, Register
from numpy.typing import NDArray

from perfkit.collectors.noise.kinds import LINE, Buffers
from perfkit.errors import DataError
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

CODE = 0x2000_0000_0000
"""Near the noise's own memory: no program's is there."""
BUFFERS = Buffers(CODE + 0x10_0000, 0x1000_0000, 0x2000_0000)
_WRITES = {OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE}
_FACTORY = InstructionInfoFactory()


def with_noise(trace: Trace, header: int, added: Sequence[Instruction]) -> Trace:
    """Return a trace in which instructions run before a loop's header, in every iteration.

    Parameters
    ----------
    trace : Trace
        As recorded.
    header : int
        Address of the header's first instruction in the trace.
    added : sequence of Instruction
        Made with `BUFFERS`.

    Raises
    ------
    DataError
        No block of the trace begins there.
    """
    code = trace.code
    first = np.flatnonzero(code.pc[code.block_start[:-1]] == np.uint64(header))
    if not len(first):
        raise DataError(f"no block of the trace begins at {header:#x}")
    if not added:
        return trace
    block, at = int(first[0]), int(code.block_start[int(first[0])])
    accesses = [_accesses(i) for i in added]
    grown = _code(code, block, at, added, [len(each) for each in accesses], [a for each in accesses for a in each])
    runs = np.flatnonzero(trace.stream == block)
    before = np.concatenate([[0], np.cumsum(np.diff(code.block_operand_start)[trace.stream])])[runs]
    values = _addresses(added, len(runs))
    addresses = np.insert(trace.addresses, np.repeat(before, values.shape[1]), values.ravel())
    return Trace.from_parts(grown, trace.stream, addresses, trace.sizes, replace(trace.provenance, kind="generated"))


def _accesses(i: Instruction) -> list[tuple[bool, bool, int]]:
    """Return whether each memory operand is read and written, and its bytes."""
    found = []
    for used in _FACTORY.info(i).used_memory():
        if used.access in (OpAccess.NO_MEM_ACCESS, OpAccess.NONE):
            continue
        writes = used.access in _WRITES
        found.append((used.access != OpAccess.WRITE, writes, int(MemorySizeInfo(used.memory_size).size)))
    return found


def _code(
    code: StaticCode,
    block: int,
    at: int,
    added: Sequence[Instruction],
    operands: Sequence[int],
    accesses: Sequence[tuple[bool, bool, int]],
) -> StaticCode:
    count, slot = len(added), int(code.operand_start[at])
    encodings, pcs = [], []
    pc, moved = CODE, code.pc[at] - np.uint64(CODE)
    for i in added:
        copy = i.copy()
        if copy.is_jcc_short_or_near:
            copy.near_branch64 = pc + 2
        encoder = BlockEncoder(64)
        encoder.add(copy)
        encodings.append(bytes(encoder.encode(pc)))
        pcs.append(pc)
        pc += len(encodings[-1])
    # As in a measured copy, the header keeps its place, and the function's code behind it moves by what was added; what
    # lies behind the function keeps its place in a line.
    size, behind = pc - CODE, code.pc >= code.pc[at]
    own = np.array([name == code.function[at] for name in code.function])
    shift = np.where(behind, np.where(own, size, -(-size // LINE) * LINE), 0).astype(np.uint64)
    starts = slot + np.concatenate([[0], np.cumsum(operands)])[:-1]
    total = sum(operands)
    return StaticCode(
        isa=code.isa,
        pc=np.insert(code.pc + shift, at, np.array(pcs, dtype=np.uint64) + moved),
        encoding=(*code.encoding[:at], *encodings, *code.encoding[at:]),
        text=(*code.text[:at], *(f"{i} (noise)" for i in added), *code.text[at:]),
        function=(*code.function[:at], *[code.function[at]] * count, *code.function[at:]),
        block_start=code.block_start + np.where(np.arange(len(code.block_start)) > block, count, 0).astype(np.int32),
        operand_start=np.concatenate([code.operand_start[:at], starts, code.operand_start[at:] + total]).astype(
            np.int32
        ),
        read=np.insert(code.read, slot, [each[0] for each in accesses]),
        write=np.insert(code.write, slot, [each[1] for each in accesses]),
        size=np.insert(code.size, slot, np.array([each[2] for each in accesses], dtype=np.uint32)),
        file=(*code.file[:at], *[""] * count, *code.file[at:]),
        line=np.insert(code.line, at, np.zeros(count, dtype=np.int32)),
    )


def _addresses(added: Sequence[Instruction], runs: int) -> NDArray[np.uint64]:
    """Return the addresses of the noise's accesses, shape (iterations, accesses)."""
    columns = []
    steps = (i for i in added if i.mnemonic == Mnemonic.LEA and i.memory_base == i.op0_register)
    step = next((int(i.memory_displacement) for i in steps), 0)
    pointer = step * np.arange(1, runs + 1, dtype=np.uint64) % np.uint64(1 << 16)
    # Of loads from L3 the index counts eight times the pointer.
    unit = max((i.memory_index_scale for i in added if i.mnemonic == Mnemonic.LEA), default=1)
    for i in added:
        if not _accesses(i):
            continue
        where = np.full(runs, i.memory_displacement, dtype=np.uint64)
        if i.memory_index != Register.NONE:
            where += np.uint64(i.memory_index_scale * unit) * pointer
        columns.append(where)
    return np.stack(columns, axis=1) if columns else np.zeros((runs, 0), dtype=np.uint64)
