"""From a decoded x86-64 instruction to the name of its form: the key of the instruction tables.

A form is iced-x86's encoding (its ``Code``, such as ``VEX_VFMADD231PS_YMM_YMM_YMMM256``) and what the operands add to
it, as suffixes in this order:

========  =====================================================================================================
``/m``    the operand that may be register or memory is memory
``/m2``   LEA only: two of base, index and displacement; ``/m3`` all three (also a written displacement of 0)
``/same`` every register operand that is read is the same register (zero idioms and the like are such forms)
``/b``    the memory operand is broadcast
``/k``    merge-masked; ``/z`` zero-masked
``/lock`` locked; ``/rep`` repeated
========  =====================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from perfkit.errors import DataError, SettingError, UnavailableError

if TYPE_CHECKING:
    from iced_x86 import Instruction

    from perfkit.trace.code import StaticCode


@cache
def code_names() -> dict[int, str]:
    """Return iced-x86's name of every encoding, by number."""
    from iced_x86 import Code

    return {value: name for name, value in vars(Code).items() if isinstance(value, int)}


@cache
def _constants() -> tuple[int, int, int, int]:
    import iced_x86 as iced

    kinds = iced.OpKind
    return kinds.REGISTER, kinds.MEMORY, iced.Mnemonic.LEA, iced.Register.NONE


def form_name(instruction: Instruction) -> str:
    """Return the form of a decoded instruction: the key into the instruction tables.

    Examples
    --------
    >>> from iced_x86 import Decoder
    >>> form_name(next(iter(Decoder(64, bytes.fromhex("c5fc57c0")))))
    'VEX_VXORPS_YMM_YMM_YMMM256/same'
    """
    register, memory, lea, none = _constants()
    name = code_names()[instruction.code]
    kinds = [instruction.op_kind(index) for index in range(instruction.op_count)]
    if memory in kinds:
        if instruction.mnemonic == lea:
            parts = (instruction.memory_base != none) + (instruction.memory_index != none)
            added = instruction.memory_displacement != 0 or (parts == 2 and instruction.memory_displ_size > 0)
            parts += added and instruction.memory_base != none
            name += f"/m{parts}" if parts > 1 else "/m"
            if instruction.memory_index != none and instruction.memory_index_scale > 1:
                name += "/scaled"
        else:
            name += "/m"
    else:
        first = 1 if len(kinds) > 2 else 0
        sources = [instruction.op_register(index) for index in range(first, len(kinds)) if kinds[index] == register]
        if len(sources) > 1 and len(set(sources)) == 1:
            name += "/same"
    if instruction.is_broadcast:
        name += "/b"
    if instruction.has_op_mask:
        name += "/z" if instruction.zeroing_masking else "/k"
    if instruction.has_lock_prefix:
        name += "/lock"
    if instruction.has_rep_prefix or instruction.has_repne_prefix:
        name += "/rep"
    return name


def operand_registers(instruction: Instruction) -> Mapping[str, int]:
    """Return the registers that an instruction reads (iced-x86's numbers) by operand: "0", "1", "base", "index"."""
    from iced_x86 import InstructionInfoFactory, OpAccess

    register, _, _, none = _constants()
    info = InstructionInfoFactory().info(instruction)
    read = [
        k
        for k in range(instruction.op_count)
        if instruction.op_kind(k) == register and info.op_access(k) not in (OpAccess.WRITE, OpAccess.NONE)
    ]
    parts = {"base": instruction.memory_base, "index": instruction.memory_index}
    return {str(k): instruction.op_register(k) for k in read} | {k: part for k, part in parts.items() if part != none}


def simpler_forms(name: str) -> list[str]:
    """Return the forms that may stand in for `name` when a table lacks it, nearest first.

    Dropping ``/same`` (no idiom is known), ``/z`` and ``/k`` (masking costs nothing known) and ``/b`` (a broadcast
    load is a load) keeps the operation, and so does dropping an LEA's ``/scaled``; ``/m2`` and ``/m3`` fall back to the
    plain address. ``/m``, ``/lock`` and
    ``/rep`` are never dropped: they change what is done.
    """
    code, *suffixes = name.split("/")
    found = []
    for drop in ("same", "z", "k", "b", "scaled"):
        if drop in suffixes:
            suffixes = [suffix for suffix in suffixes if suffix != drop]
            found.append("/".join([code, *suffixes]))
    for old in ("m3", "m2"):
        if old in suffixes:
            suffixes = ["m2" if (s == "m3" and old == "m3") else ("m" if s == old else s) for s in suffixes]
            found.append("/".join([code, *suffixes]))
    return found


def form_names(code: StaticCode) -> list[str]:
    """Return the form of every static instruction of a trace.

    Raises
    ------
    DataError
        Machine code that does not decode; the message says where.
    """
    return [form_name(instruction) for instruction in decode(code)]


def decode(code: StaticCode) -> list[Instruction]:
    """Decode every static instruction of an x86-64 trace."""
    if code.isa != "x86-64":
        raise UnavailableError(f"perfkit decodes x86-64 traces; this one is {code.isa}")
    import iced_x86 as iced

    found = []
    for pc, data in zip(code.pc.tolist(), code.encoding, strict=True):
        instruction = next(iter(iced.Decoder(64, data, ip=pc)), None)
        if instruction is None or instruction.is_invalid or instruction.len != len(data):
            raise DataError(f"the bytes {data.hex()} at {pc:#x} are not one x86-64 instruction")
        found.append(instruction)
    return found


def constants(code: StaticCode) -> list[int]:
    """Return how many constants of 32 bits each instruction holds, as displacements and immediate values.

    One of 64 bits counts as two, shorter ones, the distances of branches and what NOPs hold as none.
    """
    import iced_x86 as iced

    found = []
    for encoding in code.encoding:
        decoding = iced.Decoder(64, encoding)
        instruction = decoding.decode()
        if instruction.flow_control != iced.FlowControl.NEXT or instruction.mnemonic == iced.Mnemonic.NOP:
            found.append(0)
            continue
        at = decoding.get_constant_offsets(instruction)
        found.append(at.displacement_size // 4 + at.immediate_size // 4)
    return found


@cache
def _blank(name: str) -> Instruction:
    """Return an instruction of this form's encoding, its operands not filled in."""
    import iced_x86 as iced

    code = vars(iced.Code).get(name.split("/")[0])
    if code is None:
        raise SettingError(f"{name!r} is not the name of an instruction form (see perfkit.trace.x86)")
    instruction = iced.Instruction()
    instruction.code = code
    return instruction


_STRING_LOADS = ("MOVS", "LODS", "CMPS", "SCAS", "OUTS")
_STRING_STORES = ("MOVS", "STOS", "INS")


@cache
def memory_access(name: str) -> tuple[bool, bool]:
    """Say whether a form loads and whether it stores (the stack and string operands included)."""
    import iced_x86 as iced

    instruction = _blank(name)
    mnemonic = _mnemonic(name)
    if mnemonic in ("LEA", "NOP") or mnemonic.startswith(("PREFETCH", "CLFLUSH", "CLWB", "RESERVEDNOP")):
        return False, False
    loads = mnemonic in ("POP", "RET", "LEAVE", "POPFQ") or mnemonic[:-1] in _STRING_LOADS
    stores = mnemonic in ("PUSH", "CALL", "PUSHFQ") or mnemonic[:-1] in _STRING_STORES
    if "/m" not in name:
        return loads, stores
    access = iced.OpAccess
    info = iced.InstructionInfoFactory().info(_with_memory(name))
    for index in range(instruction.op_count):
        if _with_memory(name).op_kind(index) == iced.OpKind.MEMORY:
            how = info.op_access(index)
            loads |= how in (access.READ, access.COND_READ, access.READ_WRITE, access.READ_COND_WRITE)
            stores |= how in (access.WRITE, access.COND_WRITE, access.READ_WRITE, access.READ_COND_WRITE)
    return loads, stores


@cache
def code_features(name: str) -> frozenset[int]:
    """Return the extensions that a form needs, as iced-x86's ``CpuidFeature`` numbers."""
    return frozenset(_blank(name).cpuid_features())


@cache
def _with_memory(name: str) -> Instruction:
    """Return the form with a memory operand where its encoding has one, registers elsewhere."""
    import iced_x86 as iced

    instruction = _blank(name).copy()
    kinds = {value: key for key, value in vars(iced.OpCodeOperandKind).items() if isinstance(value, int)}
    for index, kind in enumerate(iced.OpCodeInfo(instruction.code).op_kinds()):
        memory = "MEM" in kinds[kind]
        if index < 4:
            setattr(instruction, f"op{index}_kind", iced.OpKind.MEMORY if memory else iced.OpKind.REGISTER)
        if memory:
            instruction.memory_base = iced.Register.RAX
    return instruction


@cache
def _mnemonic(name: str) -> str:
    import iced_x86 as iced

    names = {value: key for key, value in vars(iced.Mnemonic).items() if isinstance(value, int)}
    return names[_blank(name).mnemonic]


def is_vector(name: str) -> bool:
    """Say whether a form works on vector registers (loads to them take longer)."""
    return re.search(r"(?<!I)MM", re.sub(r"_IMM\w*", "", name)) is not None


@cache
def class_of(name: str) -> str:
    """Return the class of a form: what a table that does not know it assumes it to be."""
    import iced_x86 as iced

    instruction, mnemonic = _blank(name), _mnemonic(name)
    if instruction.flow_control not in (iced.FlowControl.NEXT, iced.FlowControl.EXCEPTION):
        return "branch"
    if mnemonic.startswith(("NOP", "ENDBR", "PREFETCH", "RESERVEDNOP")):
        return "nop"
    vector = is_vector(name)
    plain = mnemonic[1:] if vector and mnemonic.startswith("V") else mnemonic
    if "DIV" in plain or "SQRT" in plain:
        return "divide"
    if vector:
        if plain.startswith(("MOV", "BROADCAST", "LDDQU")):
            return "move"
        return "vector float" if re.search(r"(P|S)(S|D|H)$", plain) and not plain.startswith("P") else "vector integer"
    if mnemonic.startswith("K") and "_KR" in name:
        return "mask"
    if plain.startswith(("MOV", "PUSH", "POP", "LEA")):
        return "move"
    return "multiply" if "MUL" in plain else "integer"


def signature(name: str) -> tuple[str, ...]:
    """Return mnemonic and explicit operands of a form, as other tables spell them.

    ``VEX_VADDPS_YMM_YMM_YMMM256/m`` is ``("VADDPS", "ymm", "ymm", "m256")``: registers by class (``r64``,
    ``xmm``, ``k``), memory by width in bits (``m256``), immediates as ``i``; then ``evex``, ``b`` (broadcast),
    ``k`` (merge-masked), ``z`` (zero-masked), ``lock`` and ``rep`` where they apply.
    """
    import iced_x86 as iced

    instruction, suffixes = _blank(name), name.split("/")[1:]
    info = iced.OpCodeInfo(instruction.code)
    kinds = {value: key for key, value in vars(iced.OpCodeOperandKind).items() if isinstance(value, int)}
    width = 8 * iced.MemorySizeInfo(info.broadcast_memory_size if "b" in suffixes else info.memory_size).size
    found = [_mnemonic(name)]
    for kind in (kinds[kind] for kind in info.op_kinds()):
        stem = kind.split("_")[0]
        if kind.startswith(("IMM", "BR")):
            found.append("i")
        elif kind.startswith(("MEM", "SIBMEM", "ES_", "SEG_R")) or ("_OR_MEM" in kind and "m" in suffixes):
            found.append(f"m{width}")
        elif stem in ("AL", "CL"):
            found.append("r8")
        elif stem in ("AX", "DX", "EAX", "RAX"):
            found.append({"E": "r32", "R": "r64"}.get(stem[0], "r16"))
        else:
            found.append(stem.rstrip("P13").lower() if stem != "STI" else "st")
    if info.encoding == iced.EncodingKind.EVEX:
        found.append("evex")
    return (*found, *(suffix for suffix in ("b", "k", "z", "lock", "rep") if suffix in suffixes))
