"""Accesses that miss a kernel's arrays: behind their end, or before their begin."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import PerfkitWarning
from perfkit.trace.trace import Trace

_REACH = 1 << 20  # bytes beside an array that are looked at; 10 times its size where that is more
_GAP = 64  # bytes: what is further from the last miss may be other data


@dataclass(frozen=True)
class Placed:
    """The addresses of the copy of an array that a kernel was called with.

    Parameters
    ----------
    number : int
        Which argument it was, from 1.
    start, size : int
        The array: its address and its bytes.
    before, behind : int
        Bytes beside it that belong to nothing else: whoever accesses these misses the array.
    """

    number: int
    start: int
    size: int
    before: int
    behind: int


class BeyondWarning(PerfkitWarning):
    """A region accessed memory beside its arrays."""


def misses(trace: Trace, arrays: Sequence[Placed]) -> list[str]:
    """Say which arrays a region reached beyond, and how far.

    Only what goes on from an array's edge is told: a walk that jumps over the bytes beside it is not, nor is one access
    that begins in the array and ends behind it, as those of C's string functions may.

    Parameters
    ----------
    trace : Trace
        What ran.
    arrays : sequence of Placed
        Where its arguments lay.

    Returns
    -------
    list of str
        A half sentence for each edge that was crossed; none where nothing was missed.
    """
    found = []
    sizes = None
    for array in arrays:
        for where, near in _beside(array, arrays):
            first, last = near
            beside = (trace.addresses >= np.uint64(first)) & (trace.addresses < np.uint64(last))
            if not beside.any():
                continue
            sizes = trace.access_sizes() if sizes is None else sizes
            if where == "behind the end":  # and what ends there, but begins in the array
                beside |= (trace.addresses < np.uint64(first)) & (trace.addresses + sizes > np.uint64(first))
            beside &= sizes > 0  # masks may let no element through
            begins, widths = trace.addresses[beside].astype(np.int64), sizes[beside].astype(np.int64)
            if where == "behind the end":
                far = _reached(begins - first, begins - first + widths, array.behind)
            else:
                far = _reached(np.maximum(last - begins - widths, 0), last - begins, array.before)
            if far:
                found.append(_told(far, where, array))
    return found


def missed_by(address: int, arrays: Sequence[Placed]) -> str:
    """Say which array an access that faulted probably ran out of; "" where none is near.

    Of several it is the one whose edge is nearest, with no other array between.
    """
    near = [
        (abs(address - (first if where == "behind the end" else last)), where, array)
        for array in arrays
        for where, (first, last) in _beside(array, arrays)
        if first <= address < last
    ]
    if not near:
        return ""
    return _told(*min(near, key=lambda row: row[0]))


def _told(far: int, where: str, array: Placed) -> str:
    return f"{far:,} bytes {where} of argument {array.number} (an array of {array.size:,} bytes)"


def _beside(array: Placed, arrays: Sequence[Placed]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the memory on both sides of an array up to the next one: the words for it, its begin and its end."""
    reach, end = max(_REACH, 10 * array.size), array.start + array.size
    others = [other for other in arrays if other is not array]
    behind = [other.start for other in others if other.start >= end]
    before = [other.start + other.size for other in others if other.start + other.size <= array.start]
    yield "behind the end", (end, min([end + reach, *behind]))
    yield "before the begin", (max([array.start - reach, 0, *before]), array.start)


def _reached(near: NDArray[np.int64], far: NDArray[np.int64], own: int) -> int:
    """Return how far from an edge accesses go without a gap; 0 where none is in the bytes that belong to nothing else.

    `near` and `far` are the distances of each access's two ends from the edge, negative within the array.
    """
    if not len(near) or near.min() >= own:
        return 0
    order = np.argsort(near)
    near, far = near[order], np.maximum.accumulate(far[order])
    gaps = np.flatnonzero(near[1:] - far[:-1] > _GAP)
    run = slice(0, int(gaps[0]) + 1 if len(gaps) else len(near))
    return int(far[run][-1]) if near[run][-1] >= 0 else 0
