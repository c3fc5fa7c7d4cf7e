"""What one form of an instruction costs on a core."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

_Register = TypeVar("_Register")
_STRING = re.compile(r"(?:MOVS|STOS|LODS|SCAS|CMPS)[BWDQ]_\w+")  # without rep: its forms have that behind a slash
_ANY_MICROCODE = 100.0  # cycles: what LLVM's tables say of microcode that they have no figures of
_STRING_CYCLES = 2.5  # of the front end
# Updates of memory whose chains took a Zen 4 8 to 9 cycles per link (`perfkit asm`), where ADD, NOT, SHL and RCL by 1
# take one: their loads are forwarded.
_FORWARDED = re.compile(r"(?:XADD|CMPXCHG|BT[SRC]|SH[LR]D|RC[LR])_(?!\w+_1(?:/|$))")


@dataclass(frozen=True)
class InstructionForm:
    """What one form of an instruction costs on a core.

    Parameters
    ----------
    name
        The key of the form: iced-x86's name of the encoding and what the operands add to it, such as
        ``VEX_Vfmadd231ps_ymm_ymm_ymmm256/m`` (see `perfkit.trace.x86.form_name`).
    fused_uops
        Slots taken at rename, in the ROB and at retirement (macro-operations on AMD).
    unfused_uops
        Operations sent to ports.
    latency
        Cycles from the last register operand to the result.
    operand_latency
        Operand -> cycles from it to the result, of those from which it takes other than `latency`: the places of
        registers ("0", "1", ...), the "base" and the "index" of an address that is only computed (LEA), "flags".
    address_latency
        Cycles from the address registers to the loaded data, in L1 (NaN where the form loads nothing). Data that a
        store still holds takes the core's store-forward latency instead; further levels add theirs.
    memory_latency
        Cycles from the loaded data to the result (NaN where the form loads nothing).
    uses
        Uops on each port group, groups inclusive of their subsets: the paper's conjunctive resources. The group's
        share of inverse throughput is uses / units.
    loads, stores
        Whether the form reads and writes memory.
    source
        The layer the figures come from ("user", "calibration", "uops.info", "llvm", "class default").
    """

    name: str
    fused_uops: float
    unfused_uops: float
    latency: float
    uses: Mapping[str, float]
    address_latency: float = math.nan
    memory_latency: float = math.nan
    loads: bool = False
    stores: bool = False
    source: str = ""
    operand_latency: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def cycles_from(self, operands: Mapping[str, _Register]) -> dict[_Register, float]:
        """Return the cycles from registers to the result, given which one each operand is (see `operand_latency`).

        A register in two places takes the longer of both.
        """
        found: dict[_Register, float] = {}
        for operand, register in operands.items():
            cycles = self.operand_latency.get(operand, self.latency)
            found[register] = max(cycles, found.get(register, cycles))
        return found

    def inverse_throughput(self, core: Microarchitecture) -> float:
        """Cycles per instruction when nothing but the ports limits it (LLVM's reciprocal throughput)."""
        return max((uses * core.resource(name).inverse_throughput for name, uses in self.uses.items()), default=0.0)

    @property
    def is_guessed(self) -> bool:
        """Whether a table has LLVM's figure for any microcode of it, whatever it takes."""
        return self.latency >= _ANY_MICROCODE

    @property
    def is_guessed_string(self) -> bool:
        """Whether it is a string instruction without ``rep`` of which there is but a guess."""
        return self.is_guessed and bool(_STRING.fullmatch(self.name))

    @property
    def is_forwarded_update(self) -> bool:
        """Whether it updates memory, and gets what a store before it wrote as forwarded, where others have it renamed.

        So on a Zen 4, whose memory renaming is "learned by moves".
        """
        return bool(_FORWARDED.match(self.name))


def string_form(form: InstructionForm, core: Microarchitecture) -> InstructionForm:
    """Return a string instruction's figures as measured on a Zen 5.

    One in a row with itself takes 3.0 cycles, all five alike, with 12 NOPs 4.0 and with 20 of them 5.0 (`perfkit asm`),
    where eight are dispatched per cycle: nothing else is dispatched for 2.5 cycles. 3.0 on a Zen 4, too.
    """
    moved = 1.0 if form.loads else math.nan
    slots = _STRING_CYCLES * core.resource("retire").value
    return replace(form, fused_uops=slots, unfused_uops=2, latency=1.0, memory_latency=moved, uses={})
