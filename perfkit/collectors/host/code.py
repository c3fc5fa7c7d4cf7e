"""Assemble the code that perfkit calibrate times: loops of instructions between two readings of the time stamp."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

LABELS = 0x300000  # instruction pointers from here on are labels: branches in a loop's body may go to them
_START = 0x100000


def iced() -> Any:
    """Return the module iced_x86."""
    import iced_x86

    return iced_x86


@cache
def cpuinfo() -> dict[str, str]:
    """Return /proc/cpuinfo's first processor; nothing where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = [line.partition(":") for line in text.split("\n\n")[0].splitlines()]
    return {key.strip(): value.strip() for key, _, value in lines}


def flags() -> frozenset[str]:
    """Return the host's /proc/cpuinfo flags."""
    return frozenset(cpuinfo().get("flags", "").split())


def processor() -> str:
    """Return the host's name."""
    return cpuinfo().get("model name", platform.processor())


def stamp_code() -> bytes:
    """Return ticks(): the time stamp counter."""
    # lfence; rdtsc; lfence; shl rdx, 32; or rax, rdx; ret
    return bytes.fromhex("0faee8 0f31 0faee8 48c1e220 4809d0 c3".replace(" ", ""))


def assemble(body: Sequence[Any], before: Sequence[Any] = ()) -> bytes:
    """Return ticks(passes in rdi, memory in rsi): a loop of `body`, timed between two serialised time stamps.

    rdi counts, r15 holds the first time stamp; rax is rsi, rdx is 0, the other integer registers 1, vector registers 0
    to 14 what lies at [rsi + 64]. `before` runs once, before the loop, and may change them.
    """
    ix = iced()
    r, code, make = ix.Register, ix.Code, ix.Instruction
    saved = (r.RBX, r.RBP, r.R12, r.R13, r.R14, r.R15)
    out = [make.create_reg(code.PUSH_R64, register) for register in saved]
    ones = (r.RCX, r.RBX, r.RBP, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14)
    out += [make.create_reg_i32(code.MOV_RM64_IMM32, register, 1) for register in ones]
    # From Golden Cove on a moved constant is kept at renaming, and a shift by it takes two cycles more.
    out += [make.create_reg_reg(code.IMUL_R64_RM64, register, register) for register in ones]
    numbers = ix.MemoryOperand(r.RSI, displ=64, displ_size=1)
    for k in range(15 if "avx" in flags() else 0):
        wide, narrow = code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512, code.VEX_VMOVUPS_YMM_YMMM256
        load = (wide, r.ZMM0 + k) if "avx512f" in flags() else (narrow, r.YMM0 + k)
        out.append(make.create_reg_mem(*load, numbers))
    out += [make.create(code.LFENCE), make.create(code.RDTSC), make.create(code.LFENCE)]
    out += [make.create_reg_u32(code.SHL_RM64_IMM8, r.RDX, 32), make.create_reg_reg(code.OR_R64_RM64, r.RAX, r.RDX)]
    out.append(make.create_reg_reg(code.MOV_R64_RM64, r.R15, r.RAX))
    out.append(make.create_reg_i32(code.MOV_RM64_IMM32, r.RDX, 0))
    out.append(make.create_reg_reg(code.MOV_R64_RM64, r.RAX, r.RSI))
    out += [instruction.copy() for instruction in before]
    # A loop that crosses a line of the cache is slower than its instructions.
    length = sum(ix.Encoder(64).encode(instruction, 0) for instruction in out)
    out += [make.create(code.NOPD) for _ in range(-length % 64)]
    start = len(out)
    out += [instruction.copy() for instruction in body]
    if start == len(out):
        out.append(make.create(code.NOPD))
    out.append(make.create_reg(code.DEC_RM64, r.RDI))
    out.append(make.create_branch(code.JNE_REL32_64, _START))
    out += [make.create(code.RDTSCP), make.create(code.LFENCE)]
    out += [make.create_reg_u32(code.SHL_RM64_IMM8, r.RDX, 32), make.create_reg_reg(code.OR_R64_RM64, r.RAX, r.RDX)]
    out.append(make.create_reg_reg(code.SUB_R64_RM64, r.RAX, r.R15))
    if "avx" in flags():
        out.append(make.create(code.VEX_VZEROUPPER))
    out += [make.create_reg(code.POP_R64, register) for register in reversed(saved)]
    out.append(make.create(code.RETNQ))
    for instruction in out:
        instruction.ip = instruction.ip if instruction.ip >= LABELS else 0
    out[start].ip = _START
    encoder = ix.BlockEncoder(64)
    encoder.add_many(out)
    return bytes(encoder.encode(0x200000))


# Registers a measured instruction may use: rdi counts, rsi points to memory, r15 holds the time, rsp is the stack.
_POOLS = {
    "R8": ("AL", "DL", "BL", "R8L", "R9L", "R10L", "R11L", "R12L", "R13L", "R14L"),
    "R32": ("EAX", "EDX", "EBX", "R8D", "R9D", "R10D", "R11D", "R12D", "R13D", "R14D"),
    "R64": ("RAX", "RDX", "RBX", "R8", "R9", "R10", "R11", "R12", "R13", "R14"),
    "XMM": tuple(f"XMM{k}" for k in range(13)),
    "YMM": tuple(f"YMM{k}" for k in range(13)),
    "ZMM": tuple(f"ZMM{k}" for k in range(13)),
}
# Two constant sources: the same register twice would be a zero idiom.
_SOURCES = {"R8": ("CL", "BPL"), "R32": ("ECX", "EBP"), "R64": ("RCX", "RBP")}
_SOURCES |= {stem: (f"{stem}13", f"{stem}14") for stem in ("XMM", "YMM", "ZMM")}


# Kinds of constants -> iced-x86's kind of an operand.
_IMMEDIATES = {"IMM8": "IMMEDIATE8", "IMM8_CONST_1": "IMMEDIATE8", "IMM8SEX64": "IMMEDIATE8TO64"}
_IMMEDIATES |= {"IMM8SEX32": "IMMEDIATE8TO32", "IMM32": "IMMEDIATE32", "IMM32SEX64": "IMMEDIATE32TO64"}
_IMMEDIATES |= {"IMM64": "IMMEDIATE64"}


def one_of(form: str, destination: int, chained: bool) -> Any | None:
    """Return one instruction of a form: its destination from the pool; sources constant, or the destination too."""
    ix = iced()
    name, *suffixes = form.split("/")
    instruction = ix.Instruction()
    instruction.code = getattr(ix.Code, name)
    kinds = {value: key for key, value in vars(ix.OpCodeOperandKind).items() if isinstance(value, int)}
    linked = False
    classes: list[str] = []
    for index, kind in enumerate(kinds[kind] for kind in ix.OpCodeInfo(instruction.code).op_kinds()):
        stem = kind.split("_")[0]
        if kind == "MEM" and not suffixes:
            return None
        if kind == "MEM" or ("_OR_MEM" in kind and suffixes and suffixes[0].startswith("m")):
            instruction.set_op_kind(index, ix.OpKind.MEMORY)
            chain_here = chained and classes[:1] == ["R64"]
            own = getattr(ix.Register, _POOLS["R64"][destination])
            instruction.memory_base = own if chain_here else ix.Register.RSI
            linked |= chain_here
            if suffixes[0] in ("m2", "m3"):
                instruction.memory_index = ix.Register.RCX
            if suffixes[0] == "m3":
                instruction.memory_displacement, instruction.memory_displ_size = 8, 1
        elif stem in _POOLS:
            first = index == 0
            # FMA's second operand stays constant, so that only its accumulator is chained.
            same = first or (chained and stem == classes[0] and not linked and not _reads_destination(instruction))
            linked |= same and not first
            instruction.set_op_kind(index, ix.OpKind.REGISTER)
            register = _POOLS[stem][destination] if same else _SOURCES[stem][index % 2]
            instruction.set_op_register(index, getattr(ix.Register, register))
            classes.append(stem)
        elif kind in _IMMEDIATES:
            instruction.set_op_kind(index, getattr(ix.OpKind, _IMMEDIATES[kind]))
            instruction.set_immediate_i32(index, 1)
        else:
            return None
    if chained and not linked and not _reads_destination(instruction):
        return None
    return instruction


def _reads_destination(instruction: Any) -> bool:
    ix = iced()
    access = ix.InstructionInfoFactory().info(instruction).op0_access
    return access in (ix.OpAccess.READ_WRITE, ix.OpAccess.READ_COND_WRITE)


def chained(form: str) -> list[Any]:
    """Return an instruction whose result is its own next operand; nothing where the form writes no such register."""
    ix = iced()
    instruction = one_of(form, 0, True)
    if instruction is None or form.startswith(("CMP_", "TEST_")):
        return []
    access = ix.InstructionInfoFactory().info(instruction).op0_access
    return [instruction] if access not in (ix.OpAccess.READ, ix.OpAccess.NONE) else []


def independent(form: str) -> list[Any]:
    """Return as many instructions with different destinations as there are registers."""
    found = []
    for destination in range(10):
        instruction = one_of(form, destination, False)
        if instruction is None:
            return []
        found.append(instruction)
    return found
