"""Which argument registers a function's machine code reads: what it takes, where no debug information tells."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from perfkit.collectors.tracer.elf import ElfFile

if TYPE_CHECKING:
    from iced_x86 import Instruction

INTEGERS = ("RDI", "RSI", "RDX", "RCX", "R8", "R9")
FLOATS = tuple(f"ZMM{k}" for k in range(8))
# They leave the rest of the register as it was, or take it from another, which nobody means to read.
_MERGES = ("cvt", "sqrt", "rcp", "rsqrt", "round", "mov", "gather", "pgather")
_ONES = ("pcmpeq", "pternlog")  # of whatever lies in any register

# What tells 32 bits from 64. Copies and logic on bits are written either way, whatever lies in the register.
_SINGLE = re.compile(r"v?(cvtt?[sp]s2.*|movd|\w*ss|(add|sub|mul|div|min|max|sqrt|unpckl|shuf)ps)")
_DOUBLE = re.compile(r"v?(cvtt?[sp]d2.*|movq|movddup|\w*sd|(add|sub|mul|div|min|max|sqrt|unpckl|shuf)pd)")


@dataclass(frozen=True)
class RegistersRead:
    """What a function reads of its argument registers before it writes them.

    Parameters
    ----------
    integers, floats : int
        Up to which register of each kind: with ``f(a, b)`` that reads only b, two.
    singles, doubles : frozenset of int
        The floating-point registers, from 0, that instructions of 32 and of 64 bits read; copies tell neither.
    """

    integers: int
    floats: int
    singles: frozenset[int]
    doubles: frozenset[int]


def registers_read(elf: ElfFile, name: str) -> RegistersRead:
    """Return which argument registers a function reads before it writes them.

    On some way through its code from the beginning, as far as no call and no jump out of it: behind one, the registers
    are not the caller's. So it reads these, and may take more.
    """
    from iced_x86 import Decoder, FlowControl

    symbol = elf.function(name)
    code = {i.ip: i for i in Decoder(64, elf.code(symbol.address, symbol.size), ip=symbol.address)}
    read: set[str] = set()
    widths: dict[str, set[str]] = {"single": set(), "double": set()}
    todo: list[tuple[int, frozenset[str]]] = [(symbol.address, frozenset())]
    seen: dict[int, frozenset[str]] = {}
    while todo:
        at, written = todo.pop()
        i = code.get(at)
        known = seen.get(at)
        if i is None or (known is not None and known <= written):
            continue
        seen[at] = written if known is None else known & written
        reads, writes = _used(i)
        read |= reads - written
        widths.get(_width(i), set()).update(reads - written)
        written |= writes
        if i.flow_control in (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH):
            todo.append((i.near_branch_target, written))
        if i.flow_control in (FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH):
            todo.append((i.next_ip, written))
    singles, doubles = (
        frozenset(k for k, register in enumerate(FLOATS) if register in widths[width]) for width in ("single", "double")
    )
    return RegistersRead(_up_to(INTEGERS, read), _up_to(FLOATS, read), singles, doubles)


def _up_to(names: tuple[str, ...], read: set[str]) -> int:
    return max((k + 1 for k, name in enumerate(names) if name in read), default=0)


def _width(i: "Instruction") -> str:
    """Return "single" or "double" of an instruction that tells how wide the numbers it reads are, else ""."""
    name = _names()[i.mnemonic]
    return "single" if _SINGLE.fullmatch(name) else "double" if _DOUBLE.fullmatch(name) else ""


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    from iced_x86 import Mnemonic

    return {getattr(Mnemonic, name): name.lower() for name in dir(Mnemonic) if not name.startswith("_")}


@lru_cache(maxsize=1)
def _arguments() -> dict[int, str]:
    from iced_x86 import Register

    return {getattr(Register, name): name for name in (*INTEGERS, *FLOATS)}


@lru_cache(maxsize=2)
def _named(begins: tuple[str, ...]) -> frozenset[int]:
    """Return the mnemonics that begin so, also in VEX's form, which has a v before them."""
    return frozenset(mnemonic for mnemonic, name in _names().items() if name.removeprefix("v").startswith(begins))


def _used(i: "Instruction") -> tuple[set[str], set[str]]:
    """Return the full registers that an instruction reads, and those that it writes."""
    from iced_x86 import InstructionInfoFactory, OpAccess, OpKind, RegisterInfo

    taken = [int(i.op_register(k)) for k in range(i.op_count) if i.op_kind(k) == OpKind.REGISTER]
    own: set[int] = set()
    if i.mnemonic in _named(_MERGES):
        own = set(taken[:-1]) - set(taken[-1:]) if i.op_kind(i.op_count - 1) == OpKind.REGISTER else set(taken)
    elif i.mnemonic in _named(_ONES):
        own = set(taken) if len(set(taken[-2:])) == 1 else set()
    reads, writes = set(), set()
    for used in InstructionInfoFactory().info(i).used_registers():
        name = _arguments().get(int(RegisterInfo(used.register).full_register))
        if name is None:
            continue
        if used.access not in (OpAccess.READ, OpAccess.COND_READ):
            writes.add(name)
        idle = name in FLOATS and (used.register in own or not i.op_count)  # vzeroupper has no operand
        if used.access != OpAccess.WRITE and not idle:
            reads.add(name)
    return reads, writes
