"""Which branches the time of mispredictions belongs to, and which are predicted at no cost though they move.

The recurrence adds that time to the instruction that had to wait: the first one of the block that was not expected. A
person wants the branch before it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.dag.doubts import MOVES
from perfkit.simulators.gus.gus import Gus, GusResult
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.gus.timing import MISPREDICTION
from perfkit.simulators.memory.memory import MISPREDICTED
from perfkit.simulators.program.program import INDIRECT, Program
from perfkit.trace.trace import Trace


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


def moving_branches(gus: Gus, trace: Trace) -> int:
    """Return how many indirect jumps and calls go elsewhere than the time before and are predicted to (simulated).

    The simulated predictor takes no time for that. Measured on a Zen 4, one takes 1.5 to 5.6 cycles more than a jump
    that goes to one place where its targets follow a short pattern, and 16 to 23 where a random pattern of 256 comes
    again and again.
    """
    program = gus.program(trace)
    indirect = indirect_blocks(program)
    if not indirect.any():
        return 0
    memory = gus.memory(trace, program)
    chunks = ((chunk.stream, memory.window(chunk).control) for chunk in trace.chunks())
    return sum(moving(blocks, (control & MISPREDICTED) != 0, indirect) for blocks, control in chunks)


def said_of_moving(found: int) -> str:
    """Return the sentence about so many `moving_branches`."""
    return MOVES.format(found=found)


def indirect_blocks(program: Program) -> NDArray[np.bool_]:
    """Return which blocks end with an indirect jump or call."""
    return (program.ending[program.code.block_start[1:] - 1] & INDIRECT) != 0


def moving(blocks: NDArray[Any], wrong: NDArray[np.bool_], indirect: NDArray[np.bool_]) -> int:
    """Return how many indirect branches go elsewhere than the time before and are not mispredicted."""
    at = np.flatnonzero(indirect[blocks[:-1]])
    at = at[np.argsort(blocks[at], kind="stable")]  # those of one branch in their order
    source, target, known = blocks[at], blocks[at + 1], ~wrong[at + 1]
    return int(np.count_nonzero((source[1:] == source[:-1]) & (target[1:] != target[:-1]) & known[1:]))
