"""A trace as it would be without something: instructions, landing pads, lines that share a set of the cache."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.code import NO_ACCESS, StaticCode, expand
from perfkit.trace.trace import Trace

_PAD, _NOP = bytes.fromhex("f30f1efa"), bytes.fromhex("0f1f4000")  # endbr64, and a NOP of its length
_PAGE = np.uint64(4096)
_LINE = np.uint64(64)
_SETS = np.uint64(6)  # bits of the address that choose a line within its page


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


def trace_spread(trace: Trace) -> Trace:
    """Return a trace whose lines lie in all sets of the L1 cache, also those that are a large power of two apart.

    What each page holds is turned within it, by a number of lines that differs from page to page. So would rows that
    are longer by a line lie; pages and neighbours stay what they were, but for a page's first line and its last.

    Parameters
    ----------
    trace : Trace
        In memory.
    """
    page = trace.addresses // _PAGE
    turned = page ^ (page >> _SETS) ^ (page >> (_SETS + _SETS))
    moved = page * _PAGE + (trace.addresses + turned * _LINE) % _PAGE
    return replace(trace, addresses=np.where(trace.addresses == np.uint64(NO_ACCESS), trace.addresses, moved))


def trace_without_pads(trace: Trace) -> Trace:
    """Return a trace in which every ``endbr64`` (-fcf-protection, the default of Ubuntu's compilers) is a NOP.

    That is what it is to a processor: it takes a slot and nothing else (Zen 5: 8 per cycle, measured). LLVM's tables,
    which tell the figures that nobody measured, take it for 100 cycles and, on AMD's cores, 100 operations. Its text
    stays what it is.
    """
    encoding = tuple(_NOP if each == _PAD else each for each in trace.code.encoding)
    return trace if encoding == trace.code.encoding else replace(trace, code=replace(trace.code, encoding=encoding))
