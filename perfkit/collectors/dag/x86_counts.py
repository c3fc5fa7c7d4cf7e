"""What a trace alone tells of where its jumps, stores and code go, counted for `perfkit.dag.doubts`.

Jumps that are taken, lines that stores past the caches fill or leave in part, and lines of code that L1 does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from perfkit.dag.doubts import CODE, FILLED, PARTIAL, TAKEN
from perfkit.trace.code import NO_ACCESS, expand
from perfkit.trace.code_lines import LINE, CodeLines, block_bytes
from perfkit.trace.trace import Trace

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
    begins, ends = block_bytes(code)
    stores = np.repeat(np.array(past_caches, dtype=np.bool_), np.diff(code.operand_start)) & code.write
    collected = np.zeros((_OPEN, 3), dtype=np.int64)  # line, which of its bytes, when it was written to; none yet
    collected[:, 0] = -1
    lines = CodeLines(code, trace.block_counts())
    taken = filled = partial = 0
    for chunk in trace.chunks():
        taken += int(np.count_nonzero(begins[chunk.stream[1:]] != ends[chunk.stream[:-1]]))
        lines.see(chunk.stream)
        if stores.any():
            operands = expand(chunk.stream, code.block_operand_start)
            there = stores[operands] & (chunk.addresses != np.uint64(NO_ACCESS))
            where, size = chunk.addresses[there].astype(np.int64), code.size[operands[there]].astype(np.int64)
            more = _collect(where, size, collected)
            filled, partial = filled + more[0], partial + more[1]
    partial += int((collected[:, 0] >= 0).sum())
    return {TAKEN: str(taken), FILLED: str(filled), PARTIAL: str(partial), CODE: str(lines.missed)}


@njit(cache=True)
def _collect(addresses: Any, sizes: Any, collected: Any) -> Any:
    """Collect stores in a few open lines; return how many were written full, and how many in part."""
    filled = partial = 0
    now = collected[:, 2].max()
    for k in range(len(addresses)):
        now += 1
        line, at = addresses[k] // LINE, addresses[k] % LINE
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
        for byte in range(at, min(at + sizes[k], LINE)):
            collected[found, 1] |= np.int64(1) << byte
        collected[found, 2] = now
        if collected[found, 1] == -1:  # all bytes
            filled += 1
            collected[found, 0], collected[found, 2] = -1, 0
    return filled, partial
