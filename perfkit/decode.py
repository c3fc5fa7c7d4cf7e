"""From a decoded x86-64 instruction to the name of its form: the key of the instruction tables.

A form is iced-x86's encoding (its ``Code``, such as ``VEX_VFMADD231PS_YMM_YMM_YMMM256``) and what the operands add to
it, as suffixes in this order:

========  =====================================================================================================
``/m``    the operand that may be register or memory is memory
``/m2``   LEA only: two of base, index and displacement; ``/m3`` all three
``/same`` every register operand that is read is the same register (zero idioms and the like are such forms)
``/b``    the memory operand is broadcast
``/k``    merge-masked; ``/z`` zero-masked
``/lock`` locked; ``/rep`` repeated
========  =====================================================================================================
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from perfkit.errors import UnavailableError

if TYPE_CHECKING:
    from iced_x86 import Instruction


@cache
def code_names() -> dict[int, str]:
    """Return iced-x86's name of every encoding, by number."""
    return {value: name for name, value in vars(_iced().Code).items() if isinstance(value, int)}


@cache
def _iced() -> Any:
    try:
        import iced_x86
    except ImportError as error:
        raise UnavailableError("decoding x86-64 needs iced-x86: pip install 'perfkit[trace]'") from error
    return iced_x86


@cache
def _constants() -> tuple[int, int, int, int]:
    iced = _iced()
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
            parts += instruction.memory_displacement != 0 and instruction.memory_base != none
            name += f"/m{parts}" if parts > 1 else "/m"
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


def simpler_forms(name: str) -> list[str]:
    """Return the forms that may stand in for `name` when a table lacks it, nearest first.

    Dropping ``/same`` (no idiom is known), ``/z`` and ``/k`` (masking costs nothing known) and ``/b`` (a broadcast
    load is a load) keeps the operation; ``/m2`` and ``/m3`` fall back to the plain address. ``/m``, ``/lock`` and
    ``/rep`` are never dropped: they change what is done.
    """
    code, *suffixes = name.split("/")
    found = []
    for drop in ("same", "z", "k", "b"):
        if drop in suffixes:
            suffixes = [suffix for suffix in suffixes if suffix != drop]
            found.append("/".join([code, *suffixes]))
    for old in ("m3", "m2"):
        if old in suffixes:
            suffixes = ["m2" if (s == "m3" and old == "m3") else ("m" if s == old else s) for s in suffixes]
            found.append("/".join([code, *suffixes]))
    return found
