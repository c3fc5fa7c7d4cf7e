"""How many calls of its function a recording holds."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError
from perfkit.trace.trace import Trace

_NOT_BY_CALLS = ("after", "begin")  # recorded from within a call on, or between two marks


def calls_of(trace: Trace) -> int | None:
    """Return how many calls a recording holds, the last one perhaps cut; None where that cannot be known.

    A recording begins with its function's first instruction, and so does every further call. What gets there by a call
    is recursion, and what jumps there is a loop: both belong to the call at hand.

    Parameters
    ----------
    trace : Trace
        A recording. Of one that begins elsewhere (``after``, ``begin``), or was not recorded, nothing is known; neither
        is it of one that seems to hold more calls than were asked for.
    """
    starts = call_starts(trace)
    return None if starts is None else len(starts)


def call_starts(trace: Trace) -> NDArray[np.int64] | None:
    """Return which executed block begins each call of a recording; None where that cannot be known (`calls_of`).

    Parameters
    ----------
    trace : Trace
        A recording in memory.
    """
    origin = trace.provenance
    if origin.kind != "recorded" or not trace.blocks_executed or any(name in origin.extra for name in _NOT_BY_CALLS):
        return None
    code = trace.code
    pc, entry, last, ran = 0, np.zeros(0, dtype=bool), np.zeros(0, dtype=np.uint32), 0
    places, before = [], []  # where the first instruction runs again, and the block that ran right before
    for chunk in trace.chunks():
        if not ran:
            pc = int(code.pc[code.block_start[chunk.stream[0]]])
            entry = code.pc[code.block_start[:-1]] == pc
        stream = np.append(last, chunk.stream)
        at = np.flatnonzero(entry[stream[1:]]) + 1
        places.append(at + ran - len(last))
        before.append(stream[at - 1])
        ran, last = ran + len(chunk.stream), chunk.stream[-1:]
    blocks, which = np.unique(np.concatenate(before), return_inverse=True)
    try:
        ends = [_ends_a_call(trace, int(code.block_start[block + 1]) - 1, pc) for block in blocks]
    except DataError:
        return None
    found = np.concatenate(([0], np.concatenate(places)[np.array(ends, dtype=bool)[which]])).astype(np.int64)
    asked = origin.extra.get("repeat", "")
    return None if asked.isdecimal() and len(found) > int(asked) else found


def first_calls(trace: Trace, count: int) -> Trace:
    """Return the first calls of a recording in memory that is known (`calls_of`) to hold more, as one of so many."""
    starts, origin = call_starts(trace), trace.provenance
    if starts is None or count >= len(starts):
        return trace
    part = trace.part(0, int(starts[count]), "")
    return replace(part, provenance=replace(origin, extra={**origin.extra, "repeat": str(count)}))


def _ends_a_call(trace: Trace, instruction: int, entry: int) -> bool:
    """Whether a call of the function is over behind an instruction where the function's first one runs next.

    Raises
    ------
    DataError
        The instruction is not known.
    """
    encoding, pc = trace.code.encoding[instruction], int(trace.code.pc[instruction])
    if trace.isa == "x86-64":
        from iced_x86 import Decoder, FlowControl

        found = Decoder(64, encoding, ip=pc).decode()
        flow = found.flow_control
        if flow in (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH):
            return bool(found.near_branch_target != entry)
        return bool(flow in (FlowControl.RETURN, FlowControl.INDIRECT_BRANCH))
    if trace.isa != "aarch64" or len(encoding) != 4:
        raise DataError(f"of {trace.isa} it is not known which instructions return")
    word = int.from_bytes(encoding, "little")
    if word >> 26 == 0b000101:  # B: away from the function at its end, or back to its beginning
        offset = (word & 0x3FF_FFFF) - ((word & 0x200_0000) << 1)
        return pc + 4 * offset != entry
    return word & 0xFFBF_0000 == 0xD61F_0000  # RET or BR; BLR differs in another bit
