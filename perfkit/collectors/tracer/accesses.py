"""Which memory accesses an x86-64 instruction makes, in the form in which the cloner records them."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from iced_x86 import (
    Instruction,
    InstructionInfoFactory,
    MemorySizeInfo,
    Mnemonic,
    OpAccess,
    Register,
    RegisterInfo,
    UsedMemory,
)

_INFO = InstructionInfoFactory()
_READS = {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
_WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}

_VECTOR_MASKED = {Mnemonic.VMASKMOVPS: 4, Mnemonic.VMASKMOVPD: 8, Mnemonic.VPMASKMOVD: 4, Mnemonic.VPMASKMOVQ: 8}
_PACKED = {
    getattr(Mnemonic, name)
    for name in [
        "VCOMPRESSPS",
        "VCOMPRESSPD",
        "VPCOMPRESSB",
        "VPCOMPRESSW",
        "VPCOMPRESSD",
        "VPCOMPRESSQ",
        "VEXPANDPS",
        "VEXPANDPD",
        "VPEXPANDB",
        "VPEXPANDW",
        "VPEXPANDD",
        "VPEXPANDQ",
    ]
}
_STRING_SIZE = {
    getattr(Mnemonic, f"{name}{letter}"): size
    for name in ("MOVS", "STOS", "LODS", "CMPS", "SCAS")
    for letter, size in (("B", 1), ("W", 2), ("D", 4), ("Q", 8))
}
# Instructions whose accesses are not described well enough to be recorded truthfully, or that would break a clone.
_REFUSED = {
    getattr(Mnemonic, name)
    for name in [
        "XLATB",
        "ENTER",
        "STD",
        "MASKMOVDQU",
        "MASKMOVQ",
        "VMASKMOVDQU",
        "XBEGIN",
        "XEND",
        "XABORT",
        "INSB",
        "INSW",
        "INSD",
        "OUTSB",
        "OUTSW",
        "OUTSD",
        "XSAVE",
        "XSAVE64",
        "XSAVEC",
        "XSAVEC64",
        "XSAVEOPT",
        "XSAVEOPT64",
        "XRSTOR",
        "XRSTOR64",
        "FSAVE",
        "FNSAVE",
        "FRSTOR",
        "TILELOADD",
        "TILELOADDT1",
        "TILESTORED",
        "LOOP",
        "LOOPE",
        "LOOPNE",
        "JRCXZ",
        "JECXZ",
        "RETF",
        "IRET",
        "SYSENTER",
    ]
    if hasattr(Mnemonic, name)
}
MNEMONICS = {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}


class Refused(Exception):  # noqa: N818 - not an error of the user's: the reason why the cloner passes this code on
    """The cloner cannot copy this code truthfully; the message says why."""


class Kind(Enum):
    """How the addresses of an access come about."""

    PLAIN = "one address, known before the instruction"
    LANES = "gather or scatter: an address for each lane, where the mask allows"
    SPAN = "masked vector: from the first active element to the last"
    PACKED = "compress or expand: as many elements as the mask has ones"
    BROADCAST = "masked broadcast or scalar: one element, if the mask has a one"
    STRING = "REP string: count known only afterwards"


@dataclass(frozen=True)
class Access:
    """One memory access; sizes in bytes, registers as iced-x86 numbers them.

    ``size`` is the static size (0: recorded at run time), ``element`` the size of a lane, an element or a string's
    step, ``lanes`` how many of them there are, ``mask`` the mask register of the conditional kinds.
    """

    kind: Kind
    memory: UsedMemory
    read: bool
    write: bool
    element: int
    lanes: int = 1
    mask: Any = Register.NONE

    @property
    def slots(self) -> int:
        """Addresses recorded for one execution."""
        return self.lanes if self.kind is Kind.LANES else 1

    @property
    def size(self) -> int:
        """Static size in bytes; 0 when it is recorded at run time."""
        return 0 if self.kind in (Kind.SPAN, Kind.PACKED, Kind.STRING) else self.element


def accesses(instruction: Instruction) -> list[Access]:
    """List the memory accesses of an instruction, loads first.

    Raises
    ------
    Refused
        For the few instructions whose accesses cannot be told.
    """
    name = MNEMONICS[instruction.mnemonic]
    if instruction.mnemonic in _REFUSED:
        raise Refused(f"it uses {name.lower()} at {instruction.ip:#x}")
    found = []
    for memory in _INFO.info(instruction).used_memory():
        if memory.access == OpAccess.NO_MEM_ACCESS:
            continue
        found.append(_access(instruction, memory))
    if found and instruction.has_lock_prefix and found[0].kind is not Kind.PLAIN:
        raise Refused(f"it uses a locked {name.lower()} at {instruction.ip:#x}")
    return sorted(found, key=lambda access: not access.read)  # as they happen: first loads, then stores


def _access(instruction: Instruction, memory: UsedMemory) -> Access:
    read, write = memory.access in _READS, memory.access in _WRITES
    if memory.vsib_size:
        return _gather(instruction, memory, write)
    repeated = instruction.has_rep_prefix or instruction.has_repne_prefix
    if repeated and instruction.mnemonic in _STRING_SIZE and instruction.is_string_instruction:
        if RegisterInfo(memory.base).size != 8:
            raise Refused(f"it uses a REP string instruction with 32-bit addresses at {instruction.ip:#x}")
        return Access(Kind.STRING, memory, read, write, _STRING_SIZE[instruction.mnemonic])
    info = MemorySizeInfo(memory.memory_size)
    if info.size == 0:
        raise Refused(
            f"the size of {MNEMONICS[instruction.mnemonic].lower()}'s access at {instruction.ip:#x} is unknown"
        )
    if instruction.mnemonic in _VECTOR_MASKED:
        element = _VECTOR_MASKED[instruction.mnemonic]
        return Access(Kind.SPAN, memory, read, write, element, info.size // element, instruction.op1_register)
    if instruction.op_mask != Register.NONE:
        if instruction.mnemonic in _PACKED:
            kind = Kind.PACKED
        elif info.is_broadcast or info.element_count == 1:
            lanes = 1 if not info.is_broadcast else _elements(instruction, info.element_size)
            return Access(Kind.BROADCAST, memory, read, write, info.element_size, lanes, instruction.op_mask)
        else:
            kind = Kind.SPAN
        return Access(kind, memory, read, write, info.element_size, info.element_count, instruction.op_mask)
    size = info.element_size if info.is_broadcast else info.size
    return Access(Kind.PLAIN, memory, read, write, size)


def _elements(instruction: Instruction, element: int) -> int:
    """How many mask bits a broadcast instruction looks at: the elements of its widest register operand."""
    registers = [instruction.op_register(k) for k in range(instruction.op_count)]
    widest = max((RegisterInfo(r).size for r in registers if r), default=element)
    return max(1, widest // element)


def _gather(instruction: Instruction, memory: UsedMemory, write: bool) -> Access:
    """Describe a gather or scatter: lanes are what both the index vector and the data vector hold."""
    element = MemorySizeInfo(memory.memory_size).element_size
    data = instruction.op1_register if write else instruction.op0_register
    if data == Register.NONE:
        raise Refused(f"it uses a gather or scatter prefetch at {instruction.ip:#x}")
    lanes = min(RegisterInfo(data).size // element, RegisterInfo(memory.index).size // memory.vsib_size)
    mask = instruction.op_mask if instruction.op_mask != Register.NONE else instruction.op2_register
    return Access(Kind.LANES, memory, not write, write, element, lanes, mask)


def is_opmask(register: Any) -> bool:
    """Whether a mask register is one of AVX-512's k registers (else it is a vector register with sign bits)."""
    return bool(Register.K0 <= register <= Register.K7)
