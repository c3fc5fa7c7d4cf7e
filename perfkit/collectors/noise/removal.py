"""Variants of a loop without some of its instructions: its vector loads, or its vector arithmetic.

After DECAN (Koliai, Bendifallah, Tribalat, Valensi, Acquaviva, Jalby: "Quantifying performance bottleneck cost through
differential analysis", 2013). Unlike noise, this changes the results: only instructions go whose results can reach
neither an address nor a branch, as far as registers tell.
"""

from typing import Any

from iced_x86 import Code, Instruction, MemoryOperand, MemorySizeInfo, OpKind, Register

from perfkit.collectors.noise.function import FunctionCode, Loop
from perfkit.collectors.noise.instructions import is_vector, mnemonic, reads_memory, stores
from perfkit.collectors.noise.kinds import NoRoom
from perfkit.collectors.noise.liveness import GENERAL, VECTORS, effect
from perfkit.collectors.noise.place import NoisePlace

LOADS, ARITHMETIC = "without vector loads", "without vector arithmetic"
REMOVALS = (LOADS, ARITHMETIC)
_MOVES = ("MOV", "VMOV", "LDDQU", "VLDDQU")
_LOAD = {
    4: (Code.MOVSS_XMM_XMMM32, Code.VEX_VMOVSS_XMM_M32),
    8: (Code.MOVSD_XMM_XMMM64, Code.VEX_VMOVSD_XMM_M64),
    16: (Code.MOVUPS_XMM_XMMM128, Code.VEX_VMOVUPS_XMM_XMMM128),
    32: (None, Code.VEX_VMOVUPS_YMM_YMMM256),
}


def removed(function: FunctionCode, loop: Loop, place: NoisePlace, what: str) -> dict[int, Instruction | None]:
    """Return what takes the place of each instruction that goes: another one, or nothing.

    Raises
    ------
    NoRoom
        There is none to remove, or it might reach an address or a branch, with why.
    """
    _check(function)
    found: dict[int, Instruction | None] = {}
    for i in function.body(loop):
        name = mnemonic(i)
        reads, writes = reads_memory(i), stores(i)
        if not is_vector(i) or writes:
            continue
        moves = name.startswith(_MOVES)
        if what == LOADS and reads:
            found[i.ip] = None if moves else _without_memory(i, place)
        elif what == ARITHMETIC and not moves and not name.startswith("VZERO"):
            found[i.ip] = _only_its_load(i) if reads else None
    if not found:
        raise NoRoom(f"the loop has no {what.removeprefix('without ')}")
    return found


def _check(function: FunctionCode) -> None:
    """Refuse functions in which a vector's contents may become an address, a number or a direction."""
    for i in function.instructions:
        if i.is_call_near or i.is_call_near_indirect:
            raise NoRoom(f"the function calls others ({i}), which might act on what is missing")
        if not is_vector(i) and "2SI" not in mnemonic(i):  # CVTTSD2SI of memory
            continue
        each = effect(i)
        if "2SI" in mnemonic(i):
            raise NoRoom(f"a vector's contents become a number or a direction in it ({i})")
        from_vector = each.reads & {*VECTORS}
        general = [r for r in each.writes if r in GENERAL and r != Register.RSP]
        if from_vector and (general or each.flags_written):
            raise NoRoom(f"a vector's contents become a number or a direction in it ({i})")
        if any(Register.K0 <= i.op_register(k) <= Register.K7 for k in range(i.op_count) if _in_register(i, k)):
            raise NoRoom(f"it uses masks ({i})")
        if i.memory_index != Register.NONE and i.is_vsib:
            raise NoRoom(f"a vector's contents are addresses in it ({i})")


def _in_register(i: Instruction, k: int) -> bool:
    return bool(i.op_kind(k) == OpKind.REGISTER)


def _without_memory(i: Instruction, place: NoisePlace) -> Instruction:
    """Return the same instruction with a register, which nothing in the loop writes, in place of its memory operand."""
    if i.is_broadcast:
        raise NoRoom(f"{i} spreads what it loads")
    source: Any = (place.own_vectors or place.constant_vectors or (0,))[-1]
    if not source:
        raise NoRoom("no vector register is free in the whole function or constant in the loop")
    first = next(i.op_register(k) for k in range(i.op_count) if _in_register(i, k))
    base = next(b for b in (Register.ZMM0, Register.YMM0, Register.XMM0) if first >= b)
    for k in range(i.op_count):
        if i.op_kind(k) == OpKind.MEMORY:
            found = i.copy()
            found.set_op_kind(k, OpKind.REGISTER)
            found.set_op_register(k, base + source - VECTORS[0])
            return found
    raise NoRoom(f"{i} reads memory in a way that cannot be removed alone")


def _only_its_load(i: Instruction) -> Instruction:
    """Return a load of what an instruction reads, to the register that it writes."""
    size = int(MemorySizeInfo(i.memory_size).size)
    codes = _LOAD.get(size)
    name = mnemonic(i)
    code = codes[name.startswith("V")] if codes else None
    if code is None or i.is_broadcast or i.op_kind(0) != OpKind.REGISTER:
        raise NoRoom(f"{i} reads memory in a way that cannot be removed alone")
    target: Any = i.op0_register
    base = next(b for b in (Register.ZMM0, Register.YMM0, Register.XMM0) if target >= b)
    wide = Register.YMM0 if size == 32 else Register.XMM0
    return Instruction.create_reg_mem(code, wide + target - base, _memory(i))


def _memory(i: Instruction) -> MemoryOperand:
    away = int(i.memory_displacement)
    away -= (away >> 63) << 64  # iced-x86 has it without a sign
    return MemoryOperand(
        i.memory_base, i.memory_index, i.memory_index_scale, away, i.memory_displ_size, False, i.segment_prefix
    )  # fmt: skip
