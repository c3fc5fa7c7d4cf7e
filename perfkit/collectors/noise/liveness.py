"""Which registers and flags are dead at a place: written before they are read again, whatever way the code takes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from iced_x86 import (
    EncodingKind,
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    OpAccess,
    OpCodeInfo,
    Register,
    RegisterInfo,
)

from perfkit.collectors.noise.function import FunctionCode

_FACTORY = InstructionInfoFactory()
_READS = {
    OpAccess.READ,
    OpAccess.COND_READ,
    OpAccess.READ_WRITE,
    OpAccess.READ_COND_WRITE,
    OpAccess.COND_WRITE,  # what it does not write stays
}
_WRITES = {OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE, OpAccess.COND_WRITE}
GENERAL: tuple[Any, ...] = tuple(range(Register.RAX, Register.R15 + 1))
VECTORS: tuple[Any, ...] = tuple(range(Register.ZMM0, Register.ZMM0 + 16))  # those that VEX can name
_ARGUMENTS = {
    Register.RDI, Register.RSI, Register.RDX, Register.RCX, Register.R8, Register.R9, Register.RAX, Register.R10,
    *range(Register.ZMM0, Register.ZMM0 + 8), Register.RSP,
}  # fmt: skip
_RESULTS = {Register.RAX, Register.RDX, Register.ZMM0, Register.ZMM0 + 1, Register.RSP}
_CALLS = (FlowControl.CALL, FlowControl.INDIRECT_CALL)


@dataclass(frozen=True)
class Effect:
    """What an instruction reads, writes at all, and overwrites as a whole: full registers; flags as bits."""

    reads: frozenset[int]
    writes: frozenset[int]
    kills: frozenset[int]
    flags_read: int
    flags_written: int


@cache
def _full(register: Any) -> tuple[int, int]:
    info = RegisterInfo(register)
    return int(info.full_register), int(info.size)


def effect(i: Instruction) -> Effect:
    """Return what an instruction does to registers and flags.

    A write of 32 bits clears a general register's upper half, and VEX clears a vector register's: these overwrite
    the whole; others do not.
    """
    reads, writes, kills = set(), set(), set()
    wide = OpCodeInfo(i.code).encoding in (EncodingKind.VEX, EncodingKind.EVEX)
    for used in _FACTORY.info(i).used_registers():
        full, size = _full(used.register)
        if used.access in _READS:
            reads.add(full)
        if used.access in _WRITES:
            writes.add(full)
        if used.access == OpAccess.WRITE and ((full in GENERAL and size >= 4) or (full in VECTORS and wide)):
            kills.add(full)
    if i.flow_control in _CALLS:
        reads |= _ARGUMENTS
    return Effect(frozenset(reads), frozenset(writes), frozenset(kills - reads), i.rflags_read, i.rflags_modified)


def memory_used(i: Instruction) -> list[Any]:
    """Return what an instruction does to memory, as iced-x86 has it."""
    return list(_FACTORY.info(i).used_memory())


def live_at(function: FunctionCode, block: int) -> tuple[frozenset[int], int]:
    """Return the registers and the flags that are live where a block starts.

    Registers that calls preserve are dead behind the function: a copy is called by code that saves them (`copies`).
    Values may survive a call in any register, as gcc's -fipa-ra has it: a call overwrites none.
    """
    effects = {at: [effect(i) for i in code] for at, code in function.blocks.items()}
    live: dict[int, tuple[frozenset[int], int]] = dict.fromkeys(function.blocks, (frozenset(), 0))
    changed = True
    while changed:
        changed = False
        for at in reversed(list(function.blocks)):
            registers, flags = _behind(function, at)
            for following in function.successors[at]:
                registers = registers | live[following][0]
                flags |= live[following][1]
            for each in reversed(effects[at]):
                registers = (registers - each.kills) | each.reads
                flags = (flags & ~each.flags_written) | each.flags_read
            if (registers, flags) != live[at]:
                live[at], changed = (registers, flags), True
    return live[block]


def _behind(function: FunctionCode, at: int) -> tuple[frozenset[int], int]:
    """Return what is live behind a block's end because the function ends there."""
    last = function.blocks[at][-1]
    if last.flow_control == FlowControl.RETURN:
        return frozenset(_RESULTS), 0
    leaves = last.flow_control == FlowControl.UNCONDITIONAL_BRANCH and not function.successors[at]
    return (frozenset(_ARGUMENTS | _RESULTS), 0) if leaves else (frozenset(), 0)


def touched(instructions: Iterable[Instruction]) -> frozenset[int]:
    """Return the full registers that instructions read or write."""
    found: set[int] = set()
    for i in instructions:
        each = effect(i)
        found |= each.reads | each.writes
    return frozenset(found)


def written(instructions: Iterable[Instruction]) -> frozenset[int]:
    """Return the full registers that instructions write."""
    return frozenset(register for i in instructions for register in effect(i).writes)
