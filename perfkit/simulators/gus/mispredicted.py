"""Which branches the time of mispredictions belongs to.

The recurrence adds that time to the instruction that had to wait: the first one of the block that was not expected. A
person wants the branch before it.
"""

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.gus.gus import GusResult
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.gus.timing import MISPREDICTION
from perfkit.simulators.memory.memory import MISPREDICTED


def branch_ticks(result: GusResult) -> NDArray[np.float64]:
    """Return the ticks that mispredictions cost, at the branches that were mispredicted (simulated).

    Where several branches lead to one block, its ticks are shared out by how often each was mispredicted.

    Returns
    -------
    (instructions,) float
        One for each static instruction; the sum is that of the cause in ``result.spent``.
    """
    trace, start = result.trace, result.trace.code.block_start
    blocks = trace.code.block_count
    memory = result.settings.memory(trace, result.program)
    counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    pairs, before = counts, -1
    for window in windows(trace, memory):
        stream = np.concatenate(([before], window.stream)).astype(np.int64)
        missed = np.flatnonzero(window.control & MISPREDICTED)
        missed = missed[stream[missed] >= 0]
        pairs = np.concatenate((pairs, stream[missed] * blocks + stream[missed + 1]))
        before = int(stream[-1])
    pairs, counts = np.unique(pairs, return_counts=True)
    came, to = pairs // blocks, pairs % blocks
    spent = result.spent[:, MISPREDICTION].astype(np.float64)
    waited = np.add.reduceat(spent, start[:-1])
    times = np.bincount(to, counts, blocks)
    known = times > 0
    found = np.where(np.repeat(known, np.diff(start)), 0.0, spent)
    np.add.at(found, start[came + 1] - 1, waited[to] * counts / times[to])
    return found
