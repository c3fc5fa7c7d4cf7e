"""What one form of an instruction costs on a core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture


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

    def inverse_throughput(self, core: Microarchitecture) -> float:
        """Cycles per instruction when nothing but the ports limits it (LLVM's reciprocal throughput)."""
        return max((uses * core.resource(name).inverse_throughput for name, uses in self.uses.items()), default=0.0)
