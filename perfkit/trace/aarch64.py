"""AArch64 machine code, decoded: what an instruction reads, writes and accesses, and the name of its form.

The decoder is capstone 6 (``pip install 'perfkit[arm]'``). Its known errors are corrected here: the update of the base
register that it reports for loads of one lane, which way the exclusive accesses go, and the upper half of a literal's
address. Capstone 5 cannot be used: it takes the first operand of a comparison for written, the destination of ``ubfx``
and ``ld1`` for read, and every store for a load too.

A form is the name of the architecture's instruction (never an alias: ``mov x0, x1`` is ``ORR_X_X_X``), then one letter
or arrangement for each operand:

=====================  ============================================================================================
``X W``                integer registers, stack pointer and zero register included
``B H S D Q``          scalars in vector registers
``V4S V2D V16B ...``   vectors by arrangement; every register of a list is an operand
``EB EH ES ED``        one element (lane) of a vector
``I``                  an immediate, a condition or a branch target
``M``                  memory
``SYS``                a system register or operation
=====================  ============================================================================================

and suffixes in this order:

===============  ==================================================================================================
``/shifted``     the last register is shifted by an amount other than 0
``/extended``    the last register, or the index, is extended
``/index``       the address is base and index register; ``/scaled`` the index is shifted
``/pre``         the base register is updated before the access; ``/post`` after it (by immediate or register)
``/literal``     the address is relative to the instruction
``/accumulate``  a fused multiply-add whose addend is its destination: the addend is needed late
===============  ==================================================================================================

``BCOND_I`` is a conditional branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.errors import DataError, SettingError, UnavailableError

if TYPE_CHECKING:
    from perfkit.trace.code import StaticCode

SP, VECTORS, FLAGS = 31, 32, 64
"""Numbers of the stack pointer, of the first vector register and of the flags; x0 to x30 are 0 to 30."""

_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8}
_EXTENSIONS = {1: (8, False), 2: (16, False), 3: (32, False), 4: (64, False), 5: (8, True), 6: (16, True),
               7: (32, True), 8: (64, True)}  # fmt: skip
_MULTIPLY_ADDS = ("MADD", "MSUB", "SMADDL", "SMSUBL", "UMADDL", "UMSUBL", "FMADD", "FMSUB", "FNMADD", "FNMSUB")
# Atomic instructions of Armv8.1: they read and write their operand.
_ATOMIC = re.compile(r"^(CAS|SWP|LD(ADD|CLR|EOR|SET|[SU](MAX|MIN)))(P|A|L|AL|PA|PL|PAL)?[BH]?$")
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class MemoryOperand:
    """One contiguous access of an instruction: a pair's or a list's registers lie side by side in memory.

    Parameters
    ----------
    base, index : int
        Register numbers; -1 where there is none (a base of -1: the displacement is the address).
    displacement : int
        Bytes added to the base before the access (0 for post-indexed addressing).
    shift : int
        The index is shifted left by so many bits.
    extension : (int, bool)
        How many low bits of the index count, and whether they are signed.
    read, write : bool
        Whether it loads, whether it stores.
    size : int
        Bytes; 0 where the instruction does not say (cache operations).
    """

    base: int
    index: int = -1
    displacement: int = 0
    shift: int = 0
    extension: tuple[int, bool] = (64, False)
    read: bool = False
    write: bool = False
    size: int = 0

    def address(self, registers: Sequence[int]) -> int:
        """Return the address for the values that the registers have before the instruction (0-30 and the SP, 31).

        Examples
        --------
        >>> MemoryOperand(0, 1, shift=3).address([4096, 2])
        4112
        """
        found = self.displacement + (registers[self.base] if self.base >= 0 else 0)
        if self.index >= 0:
            bits, signed = self.extension
            value = registers[self.index] & ((1 << bits) - 1)
            if signed and value >> (bits - 1):
                value -= 1 << bits
            found += value << self.shift
        return found & _MASK


@dataclass(frozen=True)
class DecodedInstruction:
    """A decoded instruction.

    Parameters
    ----------
    pc : int
        Where it lies.
    mnemonic : str
        The architecture's name, upper case: ``SUBS`` for ``cmp``.
    text : str
        Its disassembly, aliases included.
    form : str
        The key into the instruction tables (see the module).
    address, data, written : tuple of int
        Numbers of the registers read for addresses, read as data (the flags included), and written. The zero register
        is none. `written` holds an updated base register too.
    updated : int
        The base register that pre- or post-indexed addressing updates; -1 for none.
    merges : bool
        Whether one operand is both read and written: an accumulator (``fmla``), or a register of which a part stays.
    memory : tuple of MemoryOperand
        What it accesses: nothing or one operand.
    conditional : bool
        A conditional branch.
    branch : bool
        Any instruction that may continue elsewhere (calls and returns included).
    """

    pc: int
    mnemonic: str
    text: str
    form: str
    address: tuple[int, ...]
    data: tuple[int, ...]
    written: tuple[int, ...]
    updated: int
    merges: bool
    memory: tuple[MemoryOperand, ...]
    conditional: bool
    branch: bool


@cache
def _capstone() -> tuple[Any, Any]:
    """Return capstone's module and a disassembler that tells the architecture's own operands."""
    try:
        import capstone
    except ImportError as error:
        raise UnavailableError("decoding AArch64 needs capstone 6: pip install 'perfkit[arm]'") from error
    if capstone.cs_version()[0] < 6:
        found = ".".join(str(part) for part in capstone.cs_version()[:2])
        raise UnavailableError(
            f"decoding AArch64 needs capstone 6 (the register sets of older ones are wrong); found {found}: "
            "pip install 'perfkit[arm]'"
        )
    engine = capstone.Cs(capstone.CS_ARCH_AARCH64, capstone.CS_MODE_LITTLE_ENDIAN)
    engine.option(capstone.CS_OPT_DETAIL, capstone.CS_OPT_ON | capstone.CS_OPT_DETAIL_REAL)
    return capstone, engine


@cache
def _layouts() -> Mapping[int, str]:
    from capstone import aarch64_const

    prefix = "AARCH64LAYOUT_VL_"
    return {value: name.removeprefix(prefix) for name, value in vars(aarch64_const).items() if name.startswith(prefix)}


def decode_one(encoding: bytes, pc: int = 0) -> DecodedInstruction:
    """Decode one instruction.

    Raises
    ------
    DataError
        The bytes are not one AArch64 instruction.
    UnavailableError
        capstone 6 is not installed, or the instruction belongs to an extension that is not decoded (SVE, SME).

    Examples
    --------
    >>> i = decode_one(bytes.fromhex("208440f8"))
    >>> i.text, i.form, i.address, i.written, i.updated
    ('ldr x0, [x1], #8', 'LDR_X_M/post', (1,), (0, 1), 1)
    """
    _, engine = _capstone()
    found = next(engine.disasm(encoding, pc), None)
    if found is None or len(encoding) != 4:
        raise DataError(f"the bytes {encoding.hex()} at {pc:#x} are not one AArch64 instruction")
    return _Reader(found, encoding, pc).instruction()


def decode(code: StaticCode) -> list[DecodedInstruction]:
    """Decode every static instruction of an AArch64 trace."""
    if code.isa != "aarch64":
        raise UnavailableError(f"these are AArch64's rules; the trace is {code.isa}")
    return [decode_one(encoding, pc) for encoding, pc in zip(code.encoding, code.pc.tolist(), strict=True)]


class _Reader:
    """Capstone's operands of one instruction, as perfkit's."""

    def __init__(self, found: Any, encoding: bytes, pc: int) -> None:
        self.capstone, self.engine = _capstone()
        self.found, self.pc = found, pc
        self.word = int.from_bytes(encoding, "little")
        self.text = f"{found.mnemonic} {found.op_str}".strip()
        self.mnemonic = "BCOND" if found.mnemonic.startswith("b.") else str(found.insn_name()).upper()
        self.operands = [o for o in found.operands if o.type != self.capstone.CS_OP_INVALID]
        places = [k for k, o in enumerate(self.operands) if o.type == self.capstone.aarch64.AARCH64_OP_MEM]
        self.place = places[0] if places else -1
        # An operand of type "memory" is also printed without brackets: a literal's address.
        self.literal = self.place >= 0 and "[" not in found.op_str
        self.pre = found.op_str.endswith("]!")
        self.post = self.place >= 0 and "], " in found.op_str.rpartition("[")[2]

    def instruction(self) -> DecodedInstruction:
        read, written = self.found.regs_access()
        reads, writes = self.numbers(read), self.numbers(written)
        memory = self.memory()
        address = {n for m in memory for n in (m.base, m.index) if n >= 0}
        explicit = [o for o in self.operands if o.type == self.capstone.CS_OP_REG]
        data = {n for o in explicit if o.access & 1 for n in self.numbers([o.reg])}
        data |= {n for o in explicit if o.shift.type >= 6 for n in self.numbers([o.shift.value])}  # lsl x0, x1, x2
        own = {n for o in explicit if o.access & 2 for n in self.numbers([o.reg])}
        data |= reads - address
        updated = memory[0].base if memory and (self.pre or self.post) else -1
        if updated < 0:
            writes -= address - own
        groups = {self.found.group_name(g) for g in self.found.groups}
        conditional = self.mnemonic in ("BCOND", "CBZ", "CBNZ", "TBZ", "TBNZ")
        prefetch = self.mnemonic.startswith("PRF")
        return DecodedInstruction(
            self.pc,
            self.mnemonic,
            self.text,
            self.form(),
            tuple(sorted(address)),
            tuple(sorted(data)),
            tuple(sorted(writes | ({updated} if updated >= 0 else set()))),
            updated,
            any(o.access & 3 == 3 for o in explicit),
            () if prefetch else memory,
            conditional,
            conditional or bool(groups & {"jump", "call", "return"}),
        )

    def numbers(self, registers: Sequence[int]) -> set[int]:
        return {n for n in (_number(self.found.reg_name(r), self.text, self.pc) for r in registers) if n >= 0}

    def memory(self) -> tuple[MemoryOperand, ...]:
        if self.place < 0:
            return ()
        operand = self.operands[self.place]
        read, write = _direction(self.mnemonic)
        size = self.size()
        if self.literal:
            offset = (self.word >> 5) & 0x7FFFF  # the 19 bits before the register: capstone keeps 32 of the address
            offset -= (offset >> 18) << 19
            return (MemoryOperand(-1, displacement=self.pc + 4 * offset, read=read, write=write, size=size),)
        base, index = operand.mem.base, operand.mem.index
        return (
            MemoryOperand(
                _number(self.found.reg_name(base), self.text, self.pc) if base else -1,
                _number(self.found.reg_name(index), self.text, self.pc) if index else -1,
                0 if self.post else operand.mem.disp,
                operand.shift.value,
                _EXTENSIONS.get(operand.ext, (64, False)),
                read,
                write,
                size,
            ),
        )

    def size(self) -> int:
        """Return the bytes accessed, all registers of a pair or list together."""
        transferred = [o for o in self.operands[: self.place] if o.type == self.capstone.CS_OP_REG]
        if re.match(r"STL?X[RP]", self.mnemonic):  # the first register is the status
            transferred = transferred[1:]
        elif _ATOMIC.match(self.mnemonic):
            transferred = transferred[: 2 if self.mnemonic.startswith("CASP") else 1]
        if not transferred:
            return 0
        each = 0
        for o in transferred:
            name = self.kind(o)
            if name.startswith("V"):
                lanes, element = re.fullmatch(r"V(\d+)(\w)", name).groups()  # type: ignore[union-attr]
                each = _BYTES[element.lower()] * (1 if re.match(r"LD\dR$", self.mnemonic) else int(lanes))
            else:
                each = _BYTES[name.removeprefix("E")[0].lower()]
        if self.mnemonic.startswith("LD") and self.mnemonic.endswith("SW"):
            each = 4
        elif re.fullmatch(r"(LD|ST|CAS|SWP)\w*[BH]", self.mnemonic):
            each = _BYTES[self.mnemonic[-1].lower()]
        return each * len(transferred)

    def kind(self, operand: Any) -> str:
        """Return a register operand's letter or arrangement."""
        layout = _layouts().get(operand.vas, "") if operand.vas else ""
        if layout:
            return f"E{layout}" if operand.vector_index >= 0 else f"V{layout}"
        name = self.found.reg_name(operand.reg)
        if name in ("sp", "wsp"):
            return "X" if name == "sp" else "W"
        return str(name[0]).upper()

    def form(self) -> str:
        if self.mnemonic == "HINT":  # nop, yield, bti, paciasp, ...
            return "HINT_I"
        parts, suffixes = [self.mnemonic], set()
        kinds: list[str] = []
        for k, o in enumerate(self.operands):
            if k == self.place:
                kinds.append("M")
                suffixes |= self.addressing(o)
            elif o.type == self.capstone.CS_OP_REG:
                kinds.append(self.kind(o))
                if o.shift.type >= 6:
                    kinds.append(kinds[-1])
                elif o.ext:
                    suffixes.add("extended")
                elif o.shift.type and (o.shift.type != 1 or o.shift.value):
                    suffixes.add("shifted")
            elif o.type in (self.capstone.CS_OP_IMM, self.capstone.CS_OP_FP, self.capstone.aarch64.AARCH64_OP_SYSIMM):
                kinds.append("I")  # the last: the 0.0 that vectors are compared with
            else:
                kinds.append("SYS")
            if self.place >= 0 and k == self.place:
                break  # what a post-indexed access adds to its base
        if self.mnemonic in ("FCMP", "FCMPE") and kinds[-1] == "X":  # capstone gives #0.0 as the zero register
            kinds[-1] = "I"
        if self.mnemonic == "ORR" and kinds[0].startswith("V") and "Q" in kinds:  # and mov's source twice, once bare
            kinds = [kinds[0]] * 3
        if self.mnemonic in _MULTIPLY_ADDS and len(kinds) == 4:
            first, last = (self.numbers([self.operands[k].reg]) for k in (0, 3))
            middle = self.numbers([self.operands[k].reg for k in (1, 2)])
            if first and first == last and not first & middle:
                suffixes.add("accumulate")
        order = ("shifted", "extended", "index", "scaled", "pre", "post", "literal", "accumulate")
        return "/".join(["_".join(parts + kinds), *(s for s in order if s in suffixes)])

    def addressing(self, operand: Any) -> set[str]:
        if self.literal:
            return {"literal"}
        found = {name for name, holds in (("pre", self.pre), ("post", self.post)) if holds}
        if operand.mem.index:
            found.add("index")
            if operand.ext:
                found.add("extended")
            if operand.shift.value:
                found.add("scaled")
        return found


@cache
def _registers() -> Mapping[str, int]:
    """Return the number of every register that perfkit follows; -1 for those that carry no dependence."""
    found = {"sp": SP, "wsp": SP, "xzr": -1, "wzr": -1, "nzcv": FLAGS, "fpcr": -1, "fpsr": -1, "fp": 29, "lr": 30}
    found |= {f"{letter}{n}": n for letter in "xw" for n in range(31)}
    found |= {f"{letter}{n}": VECTORS + n for letter in "bhsdqv" for n in range(32)}
    return MappingProxyType(found)


def _number(name: str | None, text: str, pc: int) -> int:
    found = _registers().get(name or "xzr")
    if found is None:
        raise UnavailableError(
            f"{text!r} at {pc:#x} uses {name}: perfkit decodes Armv8-A with its vectors (NEON), not SVE or SME; "
            "build for -march=armv8-a"
        )
    return found


def _direction(mnemonic: str) -> tuple[bool, bool]:
    """Say whether an instruction with a memory operand loads and whether it stores."""
    if _ATOMIC.match(mnemonic):
        return True, True
    return mnemonic.startswith("LD"), mnemonic.startswith("ST")


# --- what a form's name tells ---------------------------------------------------------------------------------------


def form_names(code: StaticCode) -> list[str]:
    """Return the form of every static instruction of an AArch64 trace."""
    return [instruction.form for instruction in decode(code)]


def simpler_forms(name: str) -> list[str]:
    """Return the forms that may stand in for `name` when a table lacks it, nearest first.

    What is dropped, in this order: ``/accumulate`` (the addend is then needed as early as the factors), ``/scaled``,
    an index's ``/extended``. The rest changes what is done.
    """
    code, *suffixes = name.split("/")
    found = []
    for drop in ("accumulate", "scaled", "extended"):
        if drop in suffixes and (drop != "extended" or "index" in suffixes):
            suffixes = [s for s in suffixes if s != drop]
            found.append("/".join([code, *suffixes]))
    return found


@cache
def memory_access(name: str) -> tuple[bool, bool]:
    """Say whether a form loads and whether it stores."""
    mnemonic, *operands = name.split("/")[0].split("_")
    if "M" not in operands:
        return False, False
    return _direction(mnemonic)


@cache
def is_vector(name: str) -> bool:
    """Say whether a form works on vector registers (loads to them take longer)."""
    return any(re.fullmatch(r"[BHSDQ]|[VE]\w+", operand) for operand in name.split("/")[0].split("_")[1:])


@cache
def class_of(name: str) -> str:
    """Return the class of a form: what a table that does not know it assumes it to be."""
    mnemonic = name.split("_")[0].split("/")[0]
    if mnemonic in ("B", "BL", "BR", "BLR", "RET", "BCOND", "CBZ", "CBNZ", "TBZ", "TBNZ"):
        return "branch"
    if mnemonic in ("HINT", "PRFM", "PRFUM", "DMB", "DSB", "ISB", "CLREX"):
        return "nop"
    if any(memory_access(name)):
        return "move"
    if "DIV" in mnemonic or "SQRT" in mnemonic:
        return "divide"
    if not is_vector(name):
        if mnemonic.startswith(("MOV", "ADR")):
            return "move"
        return "multiply" if re.match(r"[SU]?M(ADD|SUB|UL)", mnemonic) else "integer"
    if mnemonic in ("FMOV", "MOVI", "MVNI", "DUP", "INS", "UMOV", "SMOV"):
        return "move"
    return "vector float" if mnemonic.startswith(("F", "SCVTF", "UCVTF")) else "vector integer"


# The default of a class is what a common instruction of that class costs on the same core.
_REFERENCES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {  # class -> on integer registers, on vector registers
        "nop": ("HINT_I", "HINT_I"),
        "branch": ("BCOND_I", "BCOND_I"),
        "move": ("ORR_X_X_X", "ORR_V16B_V16B_V16B"),
        "integer": ("ADD_X_X_X", "ADD_V4S_V4S_V4S"),
        "multiply": ("MADD_X_X_X_X", "MUL_V4S_V4S_V4S"),
        "divide": ("UDIV_X_X_X", "FDIV_D_D_D"),
        "vector integer": ("ADD_V4S_V4S_V4S", "ADD_V4S_V4S_V4S"),
        "vector float": ("FADD_V2D_V2D_V2D", "FADD_V2D_V2D_V2D"),
    }
)


def reference_form(name: str) -> str:
    """Return the form whose cost stands in for one that no table knows."""
    vector = is_vector(name)
    loads, stores = memory_access(name)
    if stores:
        return "STR_Q_M" if vector else "STR_X_M"
    if loads:
        return "LDR_Q_M" if vector else "LDR_X_M"
    kind = class_of(name)
    if kind not in _REFERENCES:
        raise SettingError(f"{name!r} is not the name of an AArch64 form (see perfkit.trace.aarch64)")
    return _REFERENCES[kind][vector]
