"""Traces of encoded instructions, without running them."""

from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace


def trace_of(*codes: str, executed: int = 1) -> Trace:
    """A block of instructions in hexadecimal, without operands in memory, executed so many times."""
    n = len(codes)
    code = StaticCode(
        "x86-64",
        pc=list(range(0x1000, 0x1000 + 16 * n, 16)),
        encoding=[bytes.fromhex(c) for c in codes],
        text=[""] * n,
        function=["f"] * n,
        block_start=[0, n],
        operand_start=[0] * (n + 1),
        read=[],
        write=[],
        size=[],
    )
    return Trace.from_parts(code, stream=[0] * executed)
