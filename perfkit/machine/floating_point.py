"""Floating-point operations of a trace, and the most that a core can do in a cycle.

The Gus paper's Table 2 gives per cent of peak performance and does not say how operations are counted. Here they are
counted from the executed instructions: one for each lane of an addition, subtraction, multiplication, division, square
root, minimum or maximum, and two for each lane of a fused multiply-add.
"""

import re

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace, expect_trace

_ARITHMETIC = re.compile(
    r"v?(?P<what>fn?m(?:add|sub|addsub|subadd)(?:132|213|231)|addsub|add|sub|mul|div|sqrt|min|max)(?P<type>[sp][sd])$"
)
_LANES = {"zmm": 64, "ymm": 32, "xmm": 16}
_FMA = {
    128: "VEX_VFMADD231{}_XMM_XMM_XMMM128",
    256: "VEX_VFMADD231{}_YMM_YMM_YMMM256",
    512: "EVEX_VFMADD231{}_ZMM_K1Z_ZMM_ZMMM512B{}_ER",
}


def flops_each(code: StaticCode) -> NDArray[np.int64]:
    """Return the floating-point operations of one execution of each static instruction, shape (n,).

    Lanes that a mask of AVX-512 switches off are counted: which they are is not recorded.

    Raises
    ------
    DataError
        The code is not x86-64.
    """
    if code.isa != "x86-64":
        raise DataError(f"floating-point operations are counted in x86-64 code only; this trace is of {code.isa}")
    return np.array([_operations(text) for text in code.text], dtype=np.int64)


def flops(trace: Trace) -> int:
    """Return the executed floating-point operations of a trace.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.flops(pk.datasets.load("traces/fig1a"))  # 1000 iterations of two FMAs on eight floats
    32000
    """
    expect_trace(trace, "flops")
    return int(flops_each(trace.code) @ trace.instruction_counts())


def peak_flops(core: Microarchitecture, *, bits: int = 256, double: bool = True) -> float:
    """Return the floating-point operations per cycle of a core that does nothing but fused multiply-adds.

    Parameters
    ----------
    core : Microarchitecture
        The machine; its instruction table tells how many of them start in a cycle.
    bits : {128, 256, 512}
        Width of the vectors.
    double : bool
        Of doubles (8 bytes), or of floats.

    Raises
    ------
    SettingError
        Another width, or the core's table does not know a fused multiply-add of this width.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.peak_flops(pk.Microarchitecture.load("skylake_x"))  # two units, four doubles, two operations
    16.0
    """
    if bits not in _FMA:
        raise SettingError(f"vectors of {bits} bits; known are {', '.join(map(str, _FMA))}")
    form = InstructionTables.load(core).form(_FMA[bits].format("PD" if double else "PS", 64 if double else 32))
    if form.source == "class default":
        raise SettingError(f"the instruction table of {core.name} has no fused multiply-add of {bits} bits")
    return 2 * bits / (64 if double else 32) / form.inverse_throughput(core)


def _operations(text: str) -> int:
    mnemonic, _, operands = text.partition(" ")
    found = _ARITHMETIC.match(mnemonic)
    if found is None:
        return 0
    kind = found["type"]
    width = next((b for name, b in _LANES.items() if name in operands), 16)
    lanes = 1 if kind[0] == "s" else width // (8 if kind[1] == "d" else 4)
    return lanes * (2 if found["what"].startswith("f") else 1)
