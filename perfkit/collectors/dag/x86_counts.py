"""What a trace alone tells of where its jumps, stores and code go, counted for `perfkit.dag.doubts`.

Jumps that are taken, lines that stores past the caches fill or leave in part, and lines of code that L1 does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from perfkit.dag.doubts import CODE, FILLED, PARTIAL, TAKEN
from perfkit.trace.code import NO_ACCESS, StaticCode
from perfkit.trace.trace import Trace

_LINE = 64
_CODE_LINES = 32 * 1024 // _LINE  # of the first cache of code: that of all x86 cores with a core file
_OPEN = 8  # lines that stores past the caches are collected in: some cores have more


def counts_of_trace(trace: Trace, past_caches: list[bool]) -> dict[str, str]:
    """Return the counts of a trace.

    Parameters
    ----------
    trace
        What was executed.
    past_caches
        Of each static instruction, whether it stores past the caches (MOVNTI and the like).
    """
    code = trace.code
    begins = code.pc[code.block_start[:-1]].astype(np.int64)
    last = code.block_start[1:] - 1
    ends = code.pc[last].astype(np.int64) + code.length[last]
    stores = _stores(code, past_caches)
    collected = np.zeros((_OPEN, 3), dtype=np.int64)  # line, which of its bytes, when it was written to; none yet
    collected[:, 0] = -1
    lines = _Lines(begins, ends, trace.block_counts())
    taken = filled = partial = 0
    for chunk in trace.chunks():
        taken += int(np.count_nonzero(begins[chunk.stream[1:]] != ends[chunk.stream[:-1]]))
        lines.see(chunk.stream)
        if stores.any():
            operand = np.flatnonzero(stores[_operands(code, chunk.stream)])
            found = chunk.addresses[operand]
            size = code.size[_operands(code, chunk.stream)[operand]][found != np.uint64(NO_ACCESS)]
            where = found[found != np.uint64(NO_ACCESS)].astype(np.int64)
            more = _collect(where, size.astype(np.int64), collected)
            filled, partial = filled + more[0], partial + more[1]
    partial += int((collected[:, 0] >= 0).sum())
    return {TAKEN: str(taken), FILLED: str(filled), PARTIAL: str(partial), CODE: str(lines.missed)}


class _Lines:
    """The lines of code that the first cache does not hold, in a run after one like it.

    Parameters
    ----------
    begins, ends
        The addresses of each block's first byte, and of the one behind its last.
    runs
        How often each block was executed.
    """

    def __init__(self, begins: Any, ends: Any, runs: Any) -> None:
        first, self.count = begins // _LINE, (ends - 1) // _LINE - begins // _LINE + 1
        used = np.flatnonzero(runs)
        every = [np.arange(first[k], first[k] + self.count[k]) for k in used.tolist()]
        known = np.unique(np.concatenate(every)) if every else np.zeros(0, dtype=np.int64)
        self.first = np.searchsorted(known, first)
        self.fits = len(known) <= _CODE_LINES
        # When each line was brought, as how many before it; that many at first, all long ago.
        self.brought = np.full(len(known) + 1, -_CODE_LINES - 1, dtype=np.int64)
        self.known, self._missed = len(known), 0

    def see(self, stream: Any) -> None:
        """Go through executed blocks."""
        if not self.fits:
            self._missed = int(_bring(stream, self.first, self.count, self.brought, self._missed))

    @property
    def missed(self) -> int:
        """How often a line had to be brought: of a run that brings each but once all, as of those before it."""
        return self._missed


def _stores(code: StaticCode, past_caches: list[bool]) -> Any:
    """Return of each operand whether it is stored to past the caches."""
    return np.repeat(np.array(past_caches, dtype=np.bool_), np.diff(code.operand_start)) & code.write


def _operands(code: StaticCode, stream: Any) -> Any:
    """Return the static operand of each access of the executed blocks."""
    lengths = np.diff(code.block_operand_start).astype(np.int64)[stream]
    begins = code.block_operand_start[stream].astype(np.int64)
    return np.repeat(begins - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(lengths.sum())


@njit(cache=True)
def _collect(addresses: Any, sizes: Any, collected: Any) -> Any:
    """Collect stores in a few open lines; return how many were written full, and how many in part."""
    filled = partial = 0
    now = collected[:, 2].max()
    for k in range(len(addresses)):
        now += 1
        line, at = addresses[k] // _LINE, addresses[k] % _LINE
        found, oldest = -1, 0
        for place in range(collected.shape[0]):
            if collected[place, 0] == line:
                found = place
            if collected[place, 2] < collected[oldest, 2]:
                oldest = place
        if found < 0:
            found = oldest
            partial += collected[found, 0] >= 0
            collected[found, 0], collected[found, 1] = line, 0
        for byte in range(at, min(at + sizes[k], _LINE)):
            collected[found, 1] |= np.int64(1) << byte
        collected[found, 2] = now
        if collected[found, 1] == -1:  # all bytes
            filled += 1
            collected[found, 0], collected[found, 2] = -1, 0
    return filled, partial


@njit(cache=True)
def _bring(stream: Any, first: Any, count: Any, brought: Any, missed: Any) -> Any:
    """Go through a cache of code that keeps the lines that were brought last; return how many were brought in all."""
    for block in stream:
        for line in range(first[block], first[block] + count[block]):
            if missed - brought[line] > _CODE_LINES:
                brought[line] = missed
                missed += 1
    return missed
