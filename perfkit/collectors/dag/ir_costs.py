"""What operations of LLVM IR take on one core, or on recent cores where none is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfkit.collectors.dag.vector_units import vector_units
from perfkit.dag.program import DIVISION, SQUARE_ROOT, VECTOR

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.machine.instruction_tables import InstructionTables

_DIVISIONS = {"sdiv": "IDIV_RM", "srem": "IDIV_RM", "udiv": "DIV_RM", "urem": "DIV_RM"}
_CONVERSIONS = {
    "sitofp": "CVTSI2SD_XMM_RM64",
    "fptosi": "CVTTSD2SI_R64_XMMM64",
    "fpext": "CVTSS2SD_XMM_XMMM32",
    "fptrunc": "CVTSD2SS_XMM_XMMM64",
}
_ROUNDING = "ROUNDSD_XMM_XMMM64_IMM8"
_BITWISE, _SHUFFLE = "ANDPD_XMM_XMMM128", "SHUFPD_XMM_XMMM128_IMM8"
_SQUARE_ROOTS = {4: "SQRTSS_XMM_XMMM32", 8: "SQRTSD_XMM_XMMM64"}
_DIVIDES = "DIVSD_XMM_XMMM64"


@dataclass(frozen=True)
class Division:
    """A division of integers: the cycles until its result, and those until the next one may begin."""

    latency: int = 14  # 10 to 18 on Ice Lake and Zen 2 and later; up to 95 before
    busy: int = 7  # 6 to 10 on Ice Lake, Zen 3 and later


# Agner Fog, Instruction tables, Skylake (the least of a range: small quotients). LLVM has 76 and 102 cycles. The core's
# own table still has those, as what is learnt from it (data/bottlenecks) does.
_SKYLAKE = {
    (operation, bits): Division(*(figures if bits == 64 else (26, 6)))
    for operation, figures in {"sdiv": (42, 24), "srem": (42, 24), "udiv": (35, 21), "urem": (35, 21)}.items()
    for bits in (32, 64)
}
# Measured on a Zen 5 guest, 2026-11-28: 3.98 cycles from one to the next whatever the quotient (of 32 bits 5.98, of 64
# bits 7.0, and 9.0 where it has 40 bits and more). The table has 6 for all but 64 bits; latencies are the table's.
_ZEN5 = {
    (operation, bits): Division(latency, 4)
    for operation in ("sdiv", "srem", "udiv", "urem")
    for bits, latency in ((16, 10), (8, 9))
}
_OWN = {"skylake_x": _SKYLAKE, "zen5": _ZEN5}
# Cycles by which a scaled index delays a load, of cores whose files do not tell it (Gus has no such figure for them).
# Measured on a Zen 5 guest, 2026-11-28, blocks of an AND, and a load of [rbx + rcx * 1, 2, 4, 8]: 5.0, 6.0, 6.0 and 6.0
# cycles; a load into a vector register with a scale of 8 takes one more than without, too.
_SCALED_INDEX = {"zen5": 1.0}
# Measured on a Zen 4 guest, 2026-11-29 (pk.measure_blocks): sixteen additions with four stores of a register take 4.3
# cycles, whose addresses have an index 5.2, of a constant 5.3; of vector registers 4.3 with and without an index.
_STORES_BY_UNITS = ("zen4",)
# Operations by which a conditional move is longer whose condition reads two flags (less, greater, above, not above).
# Measured on a Zen 5 guest, 2026-11-28: a chain of CMP, CMOVL and ADD takes 4.0 cycles, of CMP, CMOVB and ADD 3.0; four
# CMOVL of old flags 1.52, four CMOVB 1.05; SETL takes what SETB does.
_TWO_FLAGS = {"zen5": 1}


@dataclass(frozen=True)
class IrCosts:
    """What operations take that are no node type of their own: by default, what is usual.

    Parameters
    ----------
    divisions
        Divisions of integers, by operation and bits; others take what `Division` says.
    conversions
        Cycles in all, by operation; others take `conversion`.
    conversion, rounding
        Cycles of other conversions and of floor and the like, in all.
    square_roots
        By the bytes of an element: cycles until the result beyond a division's, and how much longer the divider is
        busy, in parts of a division's time (`DIVISION`).
    forwarding
        Cycles by which an addition's result is later for what is no addition.
    scaled
        Cycles by which a load with a scaled index is later.
    signed_choice, unsigned_choice
        Operations beyond one of a conditional move on less or greater, and on above or not above, which read two flags.
    vector
        Cycles of integer and bitwise operations in vector registers, in all.
    units
        Which units conversions (by operation), "rounding", "shuffle" and "bitwise" take (`perfkit.dag.program`); others
        take any.
    """

    divisions: Mapping[tuple[str, int], Division] = field(default_factory=dict)
    conversions: Mapping[str, int] = field(default_factory=dict)
    conversion: int = 4  # 4 or 5 on most cores
    rounding: int = 6  # 8 on Intel's cores, 3 to 4 on AMD's
    square_roots: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    forwarding: int = 0
    scaled: int = 0
    signed_choice: int = 0
    unsigned_choice: int = 0
    vector: int = 1  # 2 on Zen 5
    units: Mapping[str, int] = field(default_factory=dict)

    def division(self, operation: str, kind: str) -> Division:
        """Return what a division of a type of LLVM IR takes."""
        return self.divisions.get((operation, int(kind[1:]) if kind[1:].isdigit() else 64), Division())

    def converted(self, operation: str) -> int:
        """Return the cycles of a conversion; an unsigned one of fewer than 64 bits is a signed one of 64."""
        return self.conversions.get(_signed(operation), self.conversion)

    def unit(self, operation: str) -> int:
        """Return which units a conversion, or another operation of `units`, takes."""
        return self.units.get(_signed(operation), VECTOR)

    def square_root(self, size: int) -> tuple[int, int]:
        """Return `square_roots` of elements of a size in bytes."""
        return self.square_roots.get(size, (0, SQUARE_ROOT))

    @classmethod
    def of(cls, core: Microarchitecture | None) -> IrCosts:
        """Return a core's costs; those of no core, or of another instruction set than x86-64, are the usual ones."""
        from perfkit.machine.instruction_tables import InstructionTables

        if core is None or core.isa != "x86-64":
            return cls()
        tables = InstructionTables.load(core)
        divisions = {}
        for operation, form in _DIVISIONS.items():
            wider = Division(*[10**6] * 2)
            for bits in (64, 32, 16, 8):  # a table that has more cycles for fewer bits is wrong there
                latency, busy = _latency(tables, f"{form}{bits}"), _interval(tables, f"{form}{bits}")
                found = _OWN.get(core.name, {}).get((operation, bits)) or Division(latency, max(1, round(busy)))
                if found.latency and busy:
                    wider = Division(min(found.latency, wider.latency), min(found.busy, wider.busy))
                    divisions[operation, bits] = wider
        converted = {operation: _latency(tables, form) for operation, form in _CONVERSIONS.items()}
        forms = {**_CONVERSIONS, "rounding": _ROUNDING, "shuffle": _SHUFFLE, "bitwise": _BITWISE}
        return cls(
            units={operation: vector_units(tables, form)[0] for operation, form in forms.items()},
            divisions=divisions,
            conversions={operation: cycles for operation, cycles in converted.items() if cycles},
            rounding=_latency(tables, _ROUNDING) or cls.rounding,
            square_roots=_square_roots(tables),
            forwarding=round(core.feature("add_forwarding", 0.0)),
            scaled=scaled_index(core),
            vector=_latency(tables, _BITWISE) or cls.vector,
            signed_choice=two_flags(core),
            unsigned_choice=max(two_flags(core), _uops(tables, "CMOVBE_R64_RM64") - 1),
        )


def _signed(operation: str) -> str:
    """Return the conversion that stands for another one."""
    return {"uitofp": "sitofp", "fptoui": "fptosi"}.get(operation, operation)


def stores_by_units(core: Microarchitecture) -> bool:
    """Whether stores of integers to addresses with an index, and of constants, take a unit of integer work."""
    return core.name in _STORES_BY_UNITS


def scaled_index(core: Microarchitecture) -> int:
    """Return the cycles by which a scaled index delays a load on a core."""
    return round(core.feature("scaled_index_latency", _SCALED_INDEX.get(core.name, 0.0)))


def two_flags(core: Microarchitecture) -> int:
    """Return by how many operations a conditional move that reads two flags is longer on a core."""
    return _TWO_FLAGS.get(core.name, 0)


def _uops(tables: InstructionTables, form: str) -> int:
    """Return a form's fused micro-operations, 1 where they are not known."""
    found = tables.form(form).fused_uops
    return 1 if math.isnan(found) else round(found)


def _latency(tables: InstructionTables, form: str) -> int:
    """Return a form's latency in cycles, 0 where it is not known."""
    latency = tables.form(form).latency
    return 0 if math.isnan(latency) else round(latency)


def _interval(tables: InstructionTables, form: str) -> float:
    """Return the cycles from one instruction of a form to the next, 0 where they are not known."""
    interval = tables.form(form).inverse_throughput(tables.core)
    return 0.0 if math.isnan(interval) else interval


def _square_roots(tables: InstructionTables) -> dict[int, tuple[int, int]]:
    divides, usual = _latency(tables, _DIVIDES), _interval(tables, _DIVIDES)
    found = {}
    for size, form in _SQUARE_ROOTS.items():
        latency, interval = _latency(tables, form), _interval(tables, form)
        if divides and usual and latency and interval:
            found[size] = max(0, latency - divides), max(0, round(DIVISION * (interval / usual - 1)))
    return found
