"""Lines of code that a first cache does not hold, which no simulation here fetches from farther levels."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.trace.code import StaticCode

LINE = 64
HELD = 32 * 1024 // LINE
"""Lines that it holds: that of nearly all x86 cores with a core file; a Redwood Cove's holds twice as many."""


def block_bytes(code: StaticCode) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of each block's first byte, and of the one behind its last."""
    last = code.block_start[1:] - 1
    return code.pc[code.block_start[:-1]].astype(np.int64), code.pc[last].astype(np.int64) + code.length[last]


class CodeLines:
    """How often a line of code had to be brought, with those that were brought last held: in a run after one like it.

    Parameters
    ----------
    code : StaticCode
        What was executed.
    runs : (blocks,) int
        How often each block was executed.

    Attributes
    ----------
    known : int
        The lines that were executed at all.
    missed : int
        How often one was brought, of the blocks that were seen so far; 0 where all fit.
    """

    def __init__(self, code: StaticCode, runs: NDArray[np.int64]) -> None:
        begins, ends = block_bytes(code)
        first, self._count = begins // LINE, (ends - 1) // LINE - begins // LINE + 1
        every = [np.arange(first[k], first[k] + self._count[k]) for k in np.flatnonzero(runs).tolist()]
        lines = np.unique(np.concatenate(every)) if every else np.zeros(0, dtype=np.int64)
        self._first = np.searchsorted(lines, first)
        # When each line was brought, as how many before it: all so long ago that none is held.
        self._brought = np.full(len(lines) + 1, -HELD - 1, dtype=np.int64)
        self.known, self.missed = len(lines), 0

    def see(self, stream: NDArray[Any]) -> None:
        """Go through executed blocks."""
        if self.known > HELD:
            self.missed = int(_bring(stream, self._first, self._count, self._brought, self.missed))


@njit(cache=True)
def _bring(stream: Any, first: Any, count: Any, brought: Any, missed: Any) -> Any:
    """Go through a cache that keeps the lines that were brought last; return how many were brought in all."""
    for block in stream:
        for line in range(first[block], first[block] + count[block]):
            if missed - brought[line] > HELD:
                brought[line] = missed
                missed += 1
    return missed
