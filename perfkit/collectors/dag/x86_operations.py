"""What x86-64 instructions are in a DAG: operations on slots, their kinds and shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from perfkit.dag.program import ADD, DIVIDE, FUSED, MULTIPLY
from perfkit.trace.code import StaticCode

_ARITHMETIC = re.compile(
    r"^V?(ADD|SUB|ADDSUB|HADD|HSUB|MIN|MAX|CMP|COMI|UCOMI|MUL|DIV|SQRT|RCP|RSQRT)(?:14|28)?\w*?(SD|SS|PD|PS)$"
)
_FUSED = re.compile(r"^V?FN?M(?:ADD|SUB)(?:ADD|SUB)?(132|213|231)(SD|SS|PD|PS)$")
# Approximations (RCP, RSQRT) are looked up beside the multipliers, in a latency of their own: not in the divider.
_CODES = {"MUL": MULTIPLY, "DIV": DIVIDE, "SQRT": DIVIDE, "RCP": MULTIPLY, "RSQRT": MULTIPLY}

STEP = 32  # bytes that a repeated string instruction moves in a step, of which one begins per cycle
BRANCH_RESULT = "branch"  # the slot of the last branch, beside those of registers

# (code, left slot, right slot, into slot, shape, delay)
Row = tuple[int, int, int, int, tuple[int, int], int]


@dataclass
class X86Block:
    """The operations of one basic block, and which of its recorded operands are nodes.

    Of a repeated instruction (REP MOVS, ...) these are its first step's; `repeats` has one further step of each.
    """

    ops: list[Row] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    covered: int = 0
    repeats: list[X86Block] = field(default_factory=list)

    def add(self, code: int, left: int, right: int, into: int, shape: tuple[int, int] = (1, 8), delay: int = 0) -> None:
        """Add an operation."""
        self.ops.append((code, left, right, into, shape, delay))


def arithmetic(name: str) -> int:
    """Return the operation of a floating-point instruction, -1 for any other."""
    if _FUSED.match(name):
        return FUSED
    found = _ARITHMETIC.match(name)
    return _CODES.get(found[1], ADD) if found else -1


def accessed(code: StaticCode, operand: int, shape: tuple[int, int]) -> tuple[int, int]:
    """Return elements and bytes of an access: what is accessed, in elements of the instruction's kind."""
    size = int(code.size[operand]) or shape[0] * shape[1]
    element = min(shape[1], size)
    return max(1, size // element), element


def shape_of(reader: Any, name: str, instruction: Any, operands: range) -> tuple[int, int]:
    """Return elements and bytes per element of what an instruction works on."""
    element = 4 if re.search(r"(SS|PS)$", name) else 8
    if re.search(r"(SS|SD)$", name):
        return 1, element
    sizes = [int(reader.code.size[o]) for o in operands]
    for k in range(instruction.op_count):
        if instruction.op_kind(k) == reader.iced.OpKind.REGISTER:
            kind = reader.registers[instruction.op_register(k)]
            sizes.append({"X": 16, "Y": 32, "Z": 64}.get(kind[0], 0) if re.match(r"[XYZ]MM", kind) else 0)
    return max(1, max(sizes, default=element) // element), element
