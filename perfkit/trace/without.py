"""A trace without some of its instructions: what would have run if a line were not there."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.code import StaticCode, expand
from perfkit.trace.trace import Trace


def trace_without(trace: Trace, removed: NDArray[np.bool_]) -> Trace:
    """Return a trace in which some static instructions never ran; everything else ran as it did.

    What read their results reads the ones of before, a branch around what is gone goes one way, and the others lie
    where they lay.

    Parameters
    ----------
    trace : Trace
        In memory.
    removed : (n,) bool
        Which static instructions; at least one that ran must be left.
    """
    code, keep = trace.code, ~removed
    per_instruction = np.diff(code.operand_start)
    operands = np.repeat(keep, per_instruction)
    which = expand(trace.stream, code.block_operand_start)
    stays = operands[which]
    left = np.add.reduceat(keep.astype(np.int32), code.block_start[:-1])
    number = (np.cumsum(left > 0) - 1).astype(np.uint32)
    starts = np.concatenate(([0], np.cumsum(left[left > 0])))
    kept = np.flatnonzero(keep).tolist()
    return replace(
        trace,
        code=StaticCode(
            code.isa,
            code.pc[keep],
            tuple(code.encoding[k] for k in kept),
            tuple(code.text[k] for k in kept),
            tuple(code.function[k] for k in kept),
            starts.astype(np.int32),
            np.concatenate(([0], np.cumsum(per_instruction[keep]))).astype(np.int32),
            code.read[operands],
            code.write[operands],
            code.size[operands],
            tuple(code.file[k] for k in kept),
            code.line[keep],
        ),
        stream=number[trace.stream[left[trace.stream] > 0]],
        addresses=trace.addresses[stays],
        sizes=trace.sizes[stays[code.dynamic[which]]],
    )
