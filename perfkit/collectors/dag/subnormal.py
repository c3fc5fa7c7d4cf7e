"""Whether arithmetic met subnormal numbers: the processor's flags tell, of a kernel that runs in this process."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable
from typing import TypeVar

# Flags of MXCSR: an operand was subnormal, a result too small to be normal; such results are flushed to zero.
_MET, _UNDERFLOW, _FLUSHED = 1 << 1, 1 << 4, 1 << 15
_FLAGS = 0x3F
_SIZE, _MXCSR = 32, 28  # of fenv_t on x86-64; where MXCSR is in it
_T = TypeVar("_T")


def met_subnormals(run: Callable[[], _T]) -> tuple[_T, bool]:
    """Run something, and return what it returned and whether SSE or AVX arithmetic met a subnormal number in it.

    Where such numbers are taken for zero, and on processors other than x86-64, none is met.
    """
    if platform.machine() != "x86_64":
        return run(), False
    libm = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(_SIZE)
    libm.fegetenv(before)
    (kept,) = struct.unpack_from("<I", before, _MXCSR)
    cleared = ctypes.create_string_buffer(before.raw, _SIZE)
    struct.pack_into("<I", cleared, _MXCSR, kept & ~_FLAGS)
    libm.fesetenv(cleared)
    found = run()
    after = ctypes.create_string_buffer(_SIZE)
    libm.fegetenv(after)
    (flags,) = struct.unpack_from("<I", after, _MXCSR)
    libm.fesetenv(before)
    return found, bool(flags & _MET or (flags & _UNDERFLOW and not flags & _FLUSHED))
