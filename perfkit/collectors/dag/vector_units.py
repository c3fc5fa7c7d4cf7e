"""Which floating-point units integer work takes: conversions, roundings, masks and whatever works on vector registers.

A DAG has units by type of node, a core by instruction. On a Zen 5 conversions take the two pipes of additions, on a
Golden Cove those of multiplications and additions in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfkit.dag.program import ADDER, MULTIPLIER, PIPE, VECTOR

if TYPE_CHECKING:
    from perfkit.machine.instruction_tables import InstructionTables

_ADDS, _MULTIPLIES = "ADDSD_XMM_XMMM64", "VEX_VMULSD_XMM_XMM_XMMM64"


def vector_units(tables: InstructionTables, form: str) -> list[int]:
    """Return the units of each operation that an instruction makes (`BlockProgram.delay`), at least one.

    `VECTOR`, any unit, where none of its ports are among those of additions and multiplications.

    Parameters
    ----------
    tables
        The core's instruction table.
    form
        The instruction's name there.
    """
    uses = tables.form(form).uses
    units = {group: frozenset(tables.core.resource(group).units) for group in uses}

    def within(ports: frozenset[str]) -> int:
        return round(max((uses[group] for group in uses if units[group] and units[group] <= ports), default=0.0))

    adders, multipliers = (_ports(tables, usual) for usual in (_ADDS, _MULTIPLIES))
    added = within(adders)
    multiplied = within(multipliers) - within(multipliers & adders)
    others = within(adders | multipliers) - added - multiplied
    return [ADDER] * added + [MULTIPLIER] * multiplied + [PIPE] * others or [VECTOR]


def _ports(tables: InstructionTables, form: str) -> frozenset[str]:
    """Return the ports of a form's narrowest group."""
    core, uses = tables.core, tables.form(form).uses
    groups = [frozenset(core.resource(group).units) for group in uses]
    return min((ports for ports in groups if ports), key=len, default=frozenset())
