"""The loops over all of a large trace's accesses, compiled: see :mod:`perfkit.trace.file`."""

import numpy as np
from numba import njit


@njit(cache=True)
def differences(stream, starts, addresses, found):  # type: ignore[no-untyped-def]
    """Each address minus the last one of the same operand (modulo 2**64)."""
    last = np.zeros(starts[-1], dtype=np.uint64)
    at = 0
    for block in stream:
        for operand in range(starts[block], starts[block + 1]):
            found[at] = addresses[at] - last[operand]
            last[operand] = addresses[at]
            at += 1


@njit(cache=True)
def sum_up(stream, starts, steps, addresses):  # type: ignore[no-untyped-def]
    """Undo :func:`differences`."""
    last = np.zeros(starts[-1], dtype=np.uint64)
    at = 0
    for block in stream:
        for operand in range(starts[block], starts[block + 1]):
            last[operand] += steps[at]
            addresses[at] = last[operand]
            at += 1
