"""Which addresses a block's memory operands have from turn to turn, told without running it.

The common integer instructions are interpreted on the values that a measured block begins with
(`perfkit.trace.block`); what others write to an integer register is not known, and leaves it as it was. A few turns are
enough: an address either stays, or moves by the same distance every turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.block import PAGE, WORD, BasicBlock, mnemonics, register_number

_TURNS = 4  # that are interpreted: the first is not yet like the others
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_ONES = 0x3F80_0000_3F80_0000  # what vectors hold: 1.0f everywhere
Step = Callable[[list[int], bytearray], None]


@dataclass(frozen=True)
class Operand:
    """A memory operand of one instruction.

    Parameters
    ----------
    base, index : int or None
        Numbers of the registers; ``scale`` multiplies the index, ``displacement`` is added.
    offset : int
        Bytes that the segment adds, or the lane of a gather.
    read, write : bool
        What is done with it.
    size : int
        Bytes.
    """

    base: int | None
    index: int | None
    scale: int
    displacement: int
    offset: int
    read: bool
    write: bool
    size: int

    def address(self, registers: list[int]) -> int:
        """Return where it lies."""
        at = self.displacement + self.offset
        if self.base is not None:
            at += registers[self.base]
        if self.index is not None:
            at += registers[self.index] * self.scale
        return at & _ALL


def addresses(block: BasicBlock) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of each memory operand, in order, in a turn of the steady state, and by how much it moves.

    Returns
    -------
    (operands,) int64, (operands,) int64
        Bytes; the place in turn t is ``place + t * step``.
    """
    registers, memory = list(block.registers), bytearray(WORD.to_bytes(8, "little") * 512)
    plan = [(operands_of(code, block.relative.get(k)), _step(code)) for k, code in enumerate(block.encodings)]
    if not any(operands for operands, _ in plan):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    turns: list[list[int]] = []
    for _ in range(_TURNS):
        found: list[int] = []
        for operands, step in plan:
            found += [one.address(registers) for one in operands]
            if step is not None:
                step(registers, memory)
        turns.append(found)
    _, one, two, three = (np.array(turn, dtype=np.uint64) for turn in turns)
    moved, again = (two - one).astype(np.int64), (three - two).astype(np.int64)
    return three.astype(np.int64), np.where(moved == again, moved, 0)


def operands_of(encoding: bytes, relative: int | None = None) -> tuple[Operand, ...]:
    """Return the memory operands of an instruction, loads first; ``relative`` says where its relative operand lies."""
    found = _operands(encoding)
    return found if relative is None else tuple(replace(one, base=None, displacement=relative) for one in found)


@lru_cache(maxsize=1 << 16)
def _operands(encoding: bytes) -> tuple[Operand, ...]:
    from iced_x86 import Decoder, InstructionInfoFactory, MemorySizeInfo, OpAccess, Register

    reads = (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
    writes = (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
    instruction = next(iter(Decoder(64, encoding)))
    found = []
    for used in InstructionInfoFactory().info(instruction).used_memory():
        read, write = used.access in reads, used.access in writes
        if not (read or write):
            continue
        about = MemorySizeInfo(used.memory_size)
        size = int(about.element_size if about.is_broadcast else about.size) or 8
        own_segment = used.segment in (Register.FS, Register.GS)
        base, index, scale = register_number(used.base), register_number(used.index), int(used.scale)
        displacement = int(used.displacement) & _ALL
        if not used.vsib_size:
            found.append(Operand(base, index, scale, displacement, PAGE if own_segment else 0, read, write, size))
            continue
        # A gather's or scatter's lanes: all of its indices are 1.0f.
        element, offset = int(about.element_size), (_ONES & 0xFFFF_FFFF) * scale
        lane = Operand(base, None, 1, displacement, offset, read, write, element)
        found += [lane] * _lanes(instruction, used, element, write)
    return tuple(sorted(found, key=lambda one: not one.read))


def _lanes(instruction: Any, used: Any, element: int, write: bool) -> int:
    from iced_x86 import RegisterInfo

    data = instruction.op1_register if write else instruction.op0_register
    return max(1, min(RegisterInfo(data).size // max(element, 1), RegisterInfo(used.index).size // used.vsib_size))


# --- what the common integer instructions do --------------------------------------------------------------------------


def _signed(value: int, size: int) -> int:
    top = 1 << (8 * size - 1)
    return (value & (top - 1)) - (value & top)


_TWO: dict[str, Callable[[int, int, int], int]] = {
    "MOV": lambda _, b, __: b,
    "MOVZX": lambda _, b, __: b,
    "ADD": lambda a, b, _: a + b,
    "ADC": lambda a, b, _: a + b,
    "SUB": lambda a, b, _: a - b,
    "SBB": lambda a, b, _: a - b,
    "AND": lambda a, b, _: a & b,
    "OR": lambda a, b, _: a | b,
    "XOR": lambda a, b, _: a ^ b,
    "IMUL": lambda a, b, _: a * b,
    "SHL": lambda a, b, size: a << (b & (63 if size == 8 else 31)),
    "SAL": lambda a, b, size: a << (b & (63 if size == 8 else 31)),
    "SHR": lambda a, b, size: a >> (b & (63 if size == 8 else 31)),
    "SAR": lambda a, b, size: _signed(a, size) >> (b & (63 if size == 8 else 31)),
}
_ONE: dict[str, Callable[[int], int]] = {
    "INC": lambda a: a + 1,
    "DEC": lambda a: a - 1,
    "NEG": lambda a: -a,
    "NOT": lambda a: ~a,
}
Read = Callable[[list[int], bytearray], int]
Write = Callable[[list[int], bytearray, int], None]


@lru_cache(maxsize=1 << 16)
def _step(encoding: bytes) -> Step | None:
    """Return what an instruction does to registers and memory; None where that is nothing, or not known."""
    from iced_x86 import Decoder

    one = next(iter(Decoder(64, encoding)))
    name = mnemonics()[one.mnemonic]
    if name in ("PUSH", "POP", "LEAVE"):
        return _stack(one, name)
    if one.is_ip_rel_memory_operand or one.has_rep_prefix or one.has_repne_prefix or not one.op_count:
        return _without_operands(name)
    sizes = [_size(one, k) for k in range(one.op_count)]
    if name == "LEA":
        return _lea(one, sizes[0])
    if name == "XCHG":
        (ra, wa), (rb, wb) = (_place(one, k, sizes[k]) for k in range(2))
        return _exchange(ra, wa, rb, wb)
    read, write = _place(one, 0, sizes[0])
    if write is None:
        return None
    if name in _ONE and read is not None:
        change = _ONE[name]
        return lambda r, m: write(r, m, change(read(r, m)))
    if name in ("MOVSX", "MOVSXD") or (name in _TWO and one.op_count == 2) or (name == "IMUL" and one.op_count == 3):
        return _binary(one, name, sizes, read, write)
    if name in ("MOVAPS", "MOVUPS", "MOVDQA", "MOVDQU", "MOVSS", "MOVSD", "MOVQ", "MOVD", "MOVLPS", "MOVHPS") or (
        name.startswith("VMOV")
    ):
        return lambda r, m: write(r, m, int.from_bytes(_ONES.to_bytes(8, "little") * 8, "little"))
    return None


def _binary(one: Any, name: str, sizes: list[int], read: Read | None, write: Write) -> Step | None:
    first, _ = _place(one, one.op_count - 2, sizes[one.op_count - 2])
    second, _ = _place(one, one.op_count - 1, sizes[one.op_count - 1])
    if second is None or (name not in ("MOV", "MOVZX", "MOVSX", "MOVSXD") and (first is None or read is None)):
        return None
    if name in ("MOVSX", "MOVSXD"):
        return lambda r, m: write(r, m, _signed(second(r, m), sizes[1]))
    work, size = _TWO[name], sizes[0]
    if name in ("MOV", "MOVZX"):
        return lambda r, m: write(r, m, second(r, m))
    assert first is not None  # told above
    return lambda r, m: write(r, m, work(first(r, m), second(r, m), size))


def _stack(one: Any, name: str) -> Step | None:
    """Return what PUSH, POP and LEAVE do."""
    if name == "LEAVE":

        def leave(r: list[int], m: bytearray) -> None:
            r[4] = r[5]
            r[5], r[4] = _fetch(m, r[4], 8), r[4] + 8 & _ALL

        return leave
    read, write = _place(one, 0, 8)
    if name == "PUSH":

        def push(r: list[int], m: bytearray) -> None:
            value = read(r, m) if read is not None else 0
            r[4] = r[4] - 8 & _ALL
            _put(m, r[4], 8, value)

        return push

    def pop(r: list[int], m: bytearray) -> None:
        value = _fetch(m, r[4], 8)
        r[4] = r[4] + 8 & _ALL
        if write is not None:
            write(r, m, value)

    return pop


def _without_operands(name: str) -> Step | None:
    """Return what the instructions that widen RAX do."""

    def cdqe(r: list[int], _: bytearray) -> None:
        r[0] = _signed(r[0], 4) & _ALL

    def cdq(r: list[int], _: bytearray) -> None:
        r[2] = 0xFFFF_FFFF * (r[0] >> 31 & 1)

    def cqo(r: list[int], _: bytearray) -> None:
        r[2] = _ALL * (r[0] >> 63)

    return {"CDQE": cdqe, "CDQ": cdq, "CQO": cqo}.get(name)


def _lea(one: Any, size: int) -> Step | None:
    _, write = _place(one, 0, size)
    where = _where(one)
    return None if write is None else lambda r, m: write(r, m, where(r))


def _exchange(ra: Read | None, wa: Write | None, rb: Read | None, wb: Write | None) -> Step | None:
    if ra is None or wa is None or rb is None or wb is None:
        return None

    def exchange(r: list[int], m: bytearray) -> None:
        a, b = ra(r, m), rb(r, m)
        wa(r, m, b)
        wb(r, m, a)

    return exchange


def _fetch(memory: bytearray, address: int, size: int) -> int:
    at = address & 4095
    return int.from_bytes(
        (memory + memory[:64])[at : at + size] if at + size > 4096 else memory[at : at + size], "little"
    )


def _put(memory: bytearray, address: int, size: int, value: int) -> None:
    at, data = address & 4095, (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    memory[at : min(at + size, 4096)] = data[: 4096 - at]
    if at + size > 4096:
        memory[: at + size - 4096] = data[4096 - at :]


def _where(one: Any) -> Callable[[list[int]], int]:
    """Return the function that gives an instruction's address."""
    from iced_x86 import Register

    segment = PAGE if one.memory_segment in (Register.FS, Register.GS) and mnemonics()[one.mnemonic] != "LEA" else 0
    place = Operand(
        register_number(one.memory_base),
        register_number(one.memory_index),
        one.memory_index_scale,
        one.memory_displacement,
        segment,
        True,
        False,
        8,
    )
    return place.address


def _size(one: Any, k: int) -> int:
    """Return the bytes of an operand."""
    from iced_x86 import MemorySizeInfo, OpKind, RegisterInfo

    if one.op_kind(k) == OpKind.REGISTER:
        return int(RegisterInfo(one.op_register(k)).size)
    return int(MemorySizeInfo(one.memory_size).size) if one.op_kind(k) == OpKind.MEMORY else 8


def _place(one: Any, k: int, size: int) -> tuple[Read | None, Write | None]:
    """Return how an operand is read and written: an integer register (or a part), memory, a constant (read only)."""
    from iced_x86 import OpKind, Register

    kind = one.op_kind(k)
    if kind == OpKind.MEMORY:
        where = _where(one)
        return (lambda r, m: _fetch(m, where(r), size)), (lambda r, m, v: _put(m, where(r), size, v))
    if kind != OpKind.REGISTER:
        try:
            value = int(one.immediate(k))
        except ValueError:
            return None, None
        return (lambda _, __: value), None
    register = one.op_register(k)
    n = register_number(register)
    if n is None:
        return ((lambda _, __: _ONES), None) if Register.XMM0 <= register <= Register.ZMM31 else (None, None)
    high = 8 if register in (Register.AH, Register.BH, Register.CH, Register.DH) else 0
    mask = (1 << 8 * size) - 1
    if size >= 4:

        def write(r: list[int], _: bytearray, v: int) -> None:
            r[n] = v & mask

    else:

        def write(r: list[int], _: bytearray, v: int) -> None:
            r[n] = r[n] & ~(mask << high) | (v & mask) << high

    return (lambda r, _: r[n] >> high & mask), write
