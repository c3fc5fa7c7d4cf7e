"""Blocks as a trace: their code, and turns of a loop around one, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfkit.errors import DataError, expect
from perfkit.trace.block import BasicBlock, decoded
from perfkit.trace.block_addresses import addresses, operands_of
from perfkit.trace.code import Provenance, StaticCode
from perfkit.trace.trace import Trace

TURNS = 1000
_IN_PAGE = np.int64(4095)  # what of an address says where in its page it lies


def block_trace(block: BasicBlock, turns: int = TURNS) -> Trace:
    """Return the trace of a loop around a block, which nobody ran.

    Registers hold what they hold where blocks are measured (`perfkit.trace.block`); each memory operand stays in the
    page in which it begins, so that all of them are in L1, as there.

    Parameters
    ----------
    block
        What each turn executes, before the loop's counter and jump.
    turns
        How often.

    Returns
    -------
    Trace
        Of kind "generated".

    Raises
    ------
    DataError
        It repeats a string instruction, or leaves no register for the counter.

    Examples
    --------
    >>> block_trace(BasicBlock("4883c008"), 10).instruction_count
    30
    """
    expect(isinstance(block, BasicBlock), block, "block_trace", "a block", 'give pk.Block("4883c008")')
    if block.counter is None:
        raise DataError("the block uses every integer register: none is left to count the turns of a loop")
    for one in block.instructions:
        if (one.has_rep_prefix or one.has_repne_prefix) and one.is_string_instruction:
            raise DataError(f"{one}: how often a string instruction is repeated is not known")
    code = static_code([block])
    texts = (*block.text, *(str(one) for one in decoded(b"".join(code.encoding[-2:]))))
    code = replace(code, text=texts, function=("block",) * len(texts))
    place, step = addresses(block)
    moved = place[None, :] + np.arange(turns, dtype=np.int64)[:, None] * step[None, :]
    where = (place[None, :] & ~_IN_PAGE) | (moved & _IN_PAGE)
    told = Provenance(workload="block", function=block.hex[:32], kind="generated", backend_reason="a block, not run")
    return Trace.from_parts(code, np.tile([0, 1], turns), where.ravel().astype(np.uint64), (), told)


def static_code(blocks: Sequence[BasicBlock]) -> StaticCode:
    """Return the program: every block, and the end of its loop."""
    pc: list[int] = []
    encoding: list[bytes] = []
    starts = [0]
    counts, read, write, size = [0], [], [], []
    for k, block in enumerate(blocks):
        at = (k + 1) << 16
        ending = block.ending(len(block.code))
        for part in (block.encodings, ending):
            for one in part:
                pc.append(at)
                at += len(one)
            encoding += part
            starts.append(len(encoding))
        for j, one in enumerate(block.encodings):
            operands = operands_of(one, block.relative.get(j))
            counts.append(len(operands))
            read += [o.read for o in operands]
            write += [o.write for o in operands]
            size += [o.size for o in operands]
        counts += [0, 0]
    nothing = ("",) * len(pc)
    return StaticCode(
        "x86-64", np.array(pc, dtype=np.uint64), tuple(encoding), nothing, nothing, np.array(starts, dtype=np.int32),
        np.cumsum(counts).astype(np.int32), np.array(read, dtype=np.bool_), np.array(write, dtype=np.bool_),
        np.array(size, dtype=np.uint32),
    )  # fmt: skip
