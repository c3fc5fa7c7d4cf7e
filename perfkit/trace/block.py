"""Basic blocks of machine code on their own: what they are, what a loop over one looks like, what it may not hold.

Block predictors are compared on blocks of real programs, cut out of these (Chen et al., "BHive: a benchmark suite and
measurement framework for validating x86-64 basic block performance models", 2019). Nothing is known of the values that
such a block works on, so measuring and predicting agree on these: every register points into one page of memory, all
pages that the block touches are that one, and what it holds are pointers into itself (`registers`, `WORD`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.errors import DataError, SettingError, expect

if TYPE_CHECKING:
    from iced_x86 import Instruction

PAGE = 0x1234_5000
"""Where the page lies. Its pointers fit 32 bits, so that it makes no difference whether 4 or 8 bytes are loaded."""
WORD = PAGE + 0x600
"""What every 8 bytes of the page hold before a run."""
CODE = 0x2000_0000_0000
"""Where a measured loop lies."""
LONGEST = 4096
"""Bytes of the longest block."""
UNROLLED = 400
"""Instructions in the loop that stands for the unrolled block, at least."""

_FIRST, _APART = 0x100, 192  # of the registers' places in the page: three lines apart, in no set of L1 together
# RDX lowest: divisions take it as the upper half of the dividend, which must be less than the divisor.
_ORDER = ("RDX", "RAX", "RCX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{k}" for k in range(8, 16)))
GPR = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{k}" for k in range(8, 16)))
"""The integer registers by their number in machine code."""
_COUNTERS = (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 1, 2, 0)  # which one counts the turns: the first that is free
# What changes the state that the measuring process itself needs, or takes another turn in every machine.
_REFUSED = {
    "WRFSBASE", "WRGSBASE", "XRSTOR", "XRSTOR64", "FXRSTOR", "FXRSTOR64", "WRPKRU", "XBEGIN", "XABORT", "XEND",
    "LFS", "LGS", "LSS", "INCSSPD", "INCSSPQ", "RSTORSSP", "SAVEPREVSSP", "UMWAIT", "TPAUSE", "ENCLU", "CPUID",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class BasicBlock:
    """Machine code (x86-64) that is run from its first instruction to its last.

    Parameters
    ----------
    code : bytes or str
        The machine code, or its hexadecimal digits.

    Raises
    ------
    DataError
        It is empty or longer than 4096 bytes, is no machine code, or holds an instruction that goes elsewhere (jumps,
        calls, returns, system calls), is the operating system's alone, or changes what the measuring process needs.

    Examples
    --------
    >>> block = BasicBlock("4883c0084801d8")
    >>> block.text
    ('add rax,8', 'add rax,rbx')
    """

    code: bytes
    if TYPE_CHECKING:

        def __init__(self, code: bytes | str) -> None: ...

    def __post_init__(self) -> None:
        """Take hexadecimal digits for the code, and refuse what cannot be measured."""
        if isinstance(self.code, str):
            object.__setattr__(self, "code", from_hex(self.code))
        how = "give the machine code, or its hexadecimal digits"
        expect(isinstance(self.code, bytes), self.code, "Block", "bytes", how)
        if not self.code:
            raise DataError("a block is at least one byte of machine code; found none")
        if len(self.code) > LONGEST:
            raise DataError(f"a block has at most {LONGEST} bytes; found {len(self.code)}")
        for instruction in self.instructions:
            _check(instruction)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The decoded instructions.

        Raises
        ------
        DataError
            Bytes are no instruction of x86-64, or the last one lacks some.
        """
        found = decoded(self.code)
        at = 0
        for one in found:
            if one.is_invalid:
                raise DataError(f"the bytes {self.code[at : at + 15].hex()} at {at} are no instruction of x86-64")
            at += one.len
        return found

    @cached_property
    def encodings(self) -> tuple[bytes, ...]:
        """The machine code of each instruction."""
        ends = np.cumsum([one.len for one in self.instructions]).tolist()
        return tuple(self.code[first:last] for first, last in zip([0, *ends], ends, strict=False))

    @cached_property
    def text(self) -> tuple[str, ...]:
        """The instructions in Intel syntax."""
        return tuple(str(one) for one in self.instructions)

    @property
    def hex(self) -> str:
        """The machine code as hexadecimal digits."""
        return self.code.hex()

    @cached_property
    def used(self) -> frozenset[int]:
        """The integer registers that the block reads or writes, by their number."""
        from iced_x86 import InstructionInfoFactory

        factory = InstructionInfoFactory()
        found = set()
        for one in self.instructions:
            info = factory.info(one)
            names = [used.register for used in info.used_registers()]
            names += [r for memory in info.used_memory() for r in (memory.base, memory.index)]
            found |= {number for number in map(register_number, names) if number is not None}
        return frozenset(found)

    @property
    def counter(self) -> int | None:
        """The register that counts the turns of a loop over the block; None where it uses all."""
        return next((k for k in _COUNTERS if k not in self.used), None)

    @property
    def vectors(self) -> int:
        """0 where the block uses vectors of 128 bits at most (or none), 1 for 256 bits, 2 for 512 bits or masks."""
        from iced_x86 import OpKind, Register, RegisterInfo

        widest = 0
        for one in self.instructions:
            # Not all that it uses: what it writes with AVX is said to be of 512 bits, whose upper ones become zero.
            named = [one.op_register(k) for k in range(one.op_count) if one.op_kind(k) == OpKind.REGISTER]
            for number in (*named, one.op_mask, one.memory_index):
                if Register.ZMM0 <= number <= Register.ZMM31 or Register.K0 <= number <= Register.K7:
                    return 2
                if Register.XMM16 <= number <= Register.XMM31 or Register.YMM16 <= number <= Register.YMM31:
                    return 2
                if RegisterInfo(number).size == 32:
                    widest = 1
        return widest

    @cached_property
    def registers(self) -> tuple[int, ...]:
        """What the integer registers hold before the first turn.

        Pointers into the page, three lines apart; where an instruction needs an aligned address relative to a register,
        this one is moved so that it has it.
        """
        found = {name: PAGE + _FIRST + _APART * k for k, name in enumerate(_ORDER)}
        moved: set[str] = set()
        for one in self.instructions:
            align = alignment(one)
            number = register_number(one.memory_base) if align else None
            if number is not None and GPR[number] not in moved:
                moved.add(GPR[number])
                found[GPR[number]] += -one.memory_displacement % align
        return tuple(found[name] for name in GPR)

    @cached_property
    def relative(self) -> dict[int, int]:
        """Where operands relative to the instruction pointer lie, by their instruction: in a page below the code.

        They lie as far apart as in the program; the first that has to be aligned, or else the first, begins a line.
        """
        there = {k: one.memory_displacement for k, one in enumerate(self.instructions) if one.is_ip_rel_memory_operand}
        anchor = next((at for k, at in there.items() if alignment(self.instructions[k])), next(iter(there.values()), 0))
        return {k: CODE - 0x10_0000 + (0x800 + at - anchor) % 4096 for k, at in there.items()}

    @property
    def copies(self) -> int:
        """How often the block stands in the loop that is measured for the unrolled block."""
        return max(2, -(-UNROLLED // len(self.instructions)))

    def loop(self, copies: int = 1) -> bytes:
        """Return the machine code of a loop over so many copies of the block.

        Operands relative to the instruction pointer keep their place in every copy, which lies in a page below the
        code.

        Raises
        ------
        DataError
            The block uses every register that could count the turns.
        """
        if self.counter is None:
            raise DataError("the block uses every integer register: none is left to count the turns of a loop")
        body = b"".join(_placed(self, k * len(self.code)) for k in range(copies))
        return body + b"".join(self.ending(len(body)))

    def ending(self, length: int) -> tuple[bytes, bytes]:
        """Return the decrement of the counter (R15 where none is free) and the jump back over a body of that length."""
        counter = 15 if self.counter is None else self.counter
        decrement = bytes([0x49 if counter > 7 else 0x48, 0xFF, 0xC8 | counter & 7])
        near, far = -(length + len(decrement) + 2), -(length + len(decrement) + 6)
        jump = bytes([0x75, near & 0xFF]) if near >= -128 else b"\x0f\x85" + far.to_bytes(4, "little", signed=True)
        return decrement, jump

    def __str__(self) -> str:
        """Return the instructions, one per line."""
        return "\n".join(self.text)

    def __repr__(self) -> str:
        """Return the class and the code, shortened."""
        shown = self.hex if len(self.code) <= 32 else f"{self.hex[:60]}... ({len(self.code)} bytes)"
        return f"{type(self).__name__}({shown!r})"


def listed_blocks(given: Any) -> list[Any]:
    """Return blocks as a list; one text, whose characters would each be a block, is refused.

    Raises
    ------
    SettingError
        It is one block or the name of a file, a table, or nothing that has several parts.
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) and not hasattr(given, "columns"):
        return list(given)
    how = "put one block into a list; of a table, give its column"
    raise SettingError(f"blocks are a list of perfkit.Block or machine code; found {type(given).__name__}: {how}")


def decoded(code: bytes) -> tuple[Instruction, ...]:
    """Decode machine code, whatever it holds."""
    from iced_x86 import Decoder

    return tuple(Decoder(64, code))


def from_hex(text: str) -> bytes:
    """Return the bytes that hexadecimal digits stand for; spaces are ignored.

    Raises
    ------
    DataError
        It is something else.
    """
    expect(isinstance(text, str), text, "a block", "machine code, or its hexadecimal digits", 'give it, as "4801c3"')
    digits = re.sub(r"\s|0x|\\x", "", text)
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})+", digits):
        raise DataError(f"machine code in hexadecimal digits was expected, two per byte; found {text[:60]!r}")
    return bytes.fromhex(digits)


@cache
def register_number(register: Any) -> int | None:
    """Return the number of the integer register that a register is, or is a part of; None for another."""
    from iced_x86 import Register, RegisterInfo

    full = RegisterInfo(register).full_register
    return int(full - Register.RAX) if Register.RAX <= full <= Register.R15 else None


def alignment(instruction: Any) -> int:
    """Return the multiple that the address of an instruction's memory operand has to be of; 0: any."""
    from iced_x86 import EncodingKind, MemorySizeInfo, OpKind

    if all(instruction.op_kind(k) != OpKind.MEMORY for k in range(instruction.op_count)):
        return 0
    name = mnemonics()[instruction.mnemonic]
    size = int(MemorySizeInfo(instruction.memory_size).size)
    aligned = {"MOVAPS", "MOVAPD", "MOVDQA", "MOVNTPS", "MOVNTPD", "MOVNTDQ", "MOVNTDQA", "MOVDQA32", "MOVDQA64"}
    if name.removeprefix("V") in aligned:
        return size
    if instruction.encoding != EncodingKind.LEGACY or size != 16:
        return 16 if name in ("CMPXCHG16B",) else 0
    return 0 if name.startswith(("MOVU", "LDDQU", "MOVDQU", "BND")) else 16


@cache
def mnemonics() -> dict[int, str]:
    """Return iced-x86's name of every mnemonic, by number."""
    from iced_x86 import Mnemonic

    return {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}


def _check(instruction: Any) -> None:
    from iced_x86 import FlowControl

    name = mnemonics()[instruction.mnemonic]
    if instruction.flow_control != FlowControl.NEXT:
        raise DataError(
            f"{instruction} goes elsewhere: a block runs from its first instruction to its last; leave out jumps, "
            "calls, returns, system calls and what raises exceptions"
        )
    if instruction.is_privileged:
        raise DataError(f"{instruction} is for the operating system alone")
    to_segment = instruction.op_count and 1 <= _segment(instruction) <= 6
    if name in _REFUSED or to_segment:
        raise DataError(f"{instruction} changes the state of the process that would measure it, or traps")


def _segment(instruction: Any) -> int:
    """Return 1 to 6 where the first operand is a segment register."""
    from iced_x86 import OpKind, Register

    if instruction.op_kind(0) != OpKind.REGISTER:
        return 0
    return int(instruction.op_register(0) - Register.ES + 1) if instruction.op_register(0) >= Register.ES else 0


def _placed(block: BasicBlock, start: int) -> bytes:
    """Return the block's code as it stands ``start`` bytes after the loop's beginning, its relative operands placed."""
    targets = block.relative
    if not targets:
        return block.code
    from iced_x86 import Decoder

    code = bytearray(block.code)
    decoder = Decoder(64, block.code)
    at = 0
    for k, one in enumerate(decoder):
        if k in targets:
            offset = decoder.get_constant_offsets(one).displacement_offset
            distance = targets[k] - (CODE + start + at + one.len)
            code[at + offset : at + offset + 4] = distance.to_bytes(4, "little", signed=True)
        at += one.len
    return bytes(code)
