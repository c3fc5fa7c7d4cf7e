"""Algorithm 1 with its taint sets carried along as printed, as bits: the oracle of the fast causality pass.

Every time of the model has a set of dynamic instructions that constrain it. ``ConstrainBy`` joins or replaces sets,
``UsedBy`` adds the user (Algorithm 1, lines 1 to 16). A set is a row of bits, one for each of the last R instructions,
with the instruction at which it was last brought up to date; older members fall out when it is read. The paper's queue
holds twice the ROB; R is at least that.
"""
# ruff: noqa: ARG001 - every hook is called with all that any of them needs

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.compiled import helper
from perfkit.simulators.gus import hooks as to
from perfkit.simulators.gus.causal import tables
from perfkit.simulators.gus.hooks import implements


class Sets(NamedTuple):
    """Taint sets: a row of 64-bit words each, and the instruction each row is up to date with."""

    bits: NDArray[np.uint64]
    stamp: NDArray[np.int64]


class Taints(NamedTuple):
    """The taint sets of everything that has a time: points of the instruction at hand, then the tables' entries."""

    sets: Sets
    line: Sets
    first: NDArray[np.int64]  # where each table begins in `sets`
    history: NDArray[np.int32]  # the static instruction of each of the last R
    counted: NDArray[np.int64]  # instructions old enough to count
    taints: NDArray[np.int64]  # (instructions,) the counts
    queue: int


def taints(s: Any, width: int, queue: int, counts: NDArray[np.int64]) -> Taints:
    """Return empty sets for the state ``s`` over the last ``width`` instructions; ``queue`` back is old."""
    entries, first = tables(s)
    return Taints(
        sets(to.POINTS + entries, width),
        sets(0, width),
        first + to.POINTS,
        np.zeros(width, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        counts,
        queue,
    )


def sets(rows: int, width: int) -> Sets:
    """Return so many empty sets."""
    return Sets(np.zeros((rows, width // 64), dtype=np.uint64), np.full(rows, -1, dtype=np.int64))


# Rows are changed word by word: an assignment to a slice would need numba's counting of references.
@helper
def _empty(sets: Any, k: Any) -> None:  # pragma: no cover - compiled
    """Take all members out of set k."""
    for word in range(sets.bits.shape[1]):
        sets.bits[k, word] = 0


@helper
def _renew(sets: Any, k: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Let the members of set k fall out whose places belong to instructions after its stamp, up to ``n``."""
    width = sets.bits.shape[1] * 64
    at = sets.stamp[k] + 1
    sets.stamp[k] = n
    if n + 1 - at >= width:
        _empty(sets, k)
        return
    while at <= n:
        place = at & 63
        span = min(64 - place, n - at + 1)
        if span == 64:
            sets.bits[k, (at % width) >> 6] = 0
        else:
            gone = ((np.uint64(1) << np.uint64(span)) - np.uint64(1)) << np.uint64(place)
            sets.bits[k, (at % width) >> 6] &= ~gone
        at += span


@helper
def _add(sets: Any, k: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Put instruction n into set k."""
    width = sets.bits.shape[1] * 64
    sets.bits[k, (n % width) >> 6] |= np.uint64(1) << np.uint64(n & 63)


@helper
def _set(sets: Any, k: Any, source: Any, q: Any, n: Any) -> None:  # pragma: no cover - compiled
    """SetBy: set k becomes a copy of set q, as of instruction n."""
    for word in range(sets.bits.shape[1]):
        sets.bits[k, word] = source.bits[q, word]
    sets.stamp[k] = source.stamp[q]
    _renew(sets, k, n)


@helper
def _both(sets: Any, k: Any, source: Any, q: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Set k gets the members of set q as well."""
    _renew(sets, k, n)
    _renew(source, q, n)
    for word in range(sets.bits.shape[1]):
        sets.bits[k, word] |= source.bits[q, word]


@helper
def _later(t: Any, sets: Any, k: Any, v: Any, source: Any, q: Any, n: Any) -> Any:  # pragma: no cover - compiled
    """ConstrainBy, lines 1 to 6."""
    if v > t:
        _set(sets, k, source, q, n)
        return v
    if v == t:
        _both(sets, k, source, q, n)
    return t


@helper
def _used(t: Any, sets: Any, k: Any, n: Any, least: Any) -> Any:  # pragma: no cover - compiled
    """UsedBy, lines 10 to 15, without the time of the use itself."""
    _renew(sets, k, n)
    if t < least:
        _empty(sets, k)
        t = least
    _add(sets, k, n)
    return t


@implements(to.begin, Taints, inline=False)
def _begin(taint: Any, n: Any, i: Any) -> Any:  # pragma: no cover - compiled
    taint.history[n % len(taint.history)] = i
    _renew(taint.sets, to.DISPATCH, n)
    return 0


@implements(to.constrain, Taints, inline=False)
def _constrain(  # pragma: no cover - compiled
    taint: Any, point: Any, count: Any, t: Any, v: Any, kind: Any, k: Any, n: Any
) -> Any:
    if kind == to.BY_LINE:
        _later(t, taint.sets, point, v, taint.line, k, n)
    elif kind == to.BY_RESULT:
        _later(t, taint.sets, point, v, taint.sets, to.RESULT, n)
    else:
        _later(t, taint.sets, point, v, taint.sets, taint.first[kind] + k, n)
    return 0


@implements(to.use, Taints, inline=False)
def _use(taint: Any, kind: Any, k: Any, uses: Any, v: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _used(v, taint.sets, taint.first[kind] + k, n, disp)
    return 0


@implements(to.put, Taints, inline=False)
def _put(taint: Any, kind: Any, k: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _set(taint.sets, taint.first[kind] + k, taint.sets, point, n)


@implements(to.start, Taints, inline=False)
def _start(taint: Any, point: Any, source: Any, count: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _set(taint.sets, point, taint.sets, source, n)
    return 0


@implements(to.clear, Taints, inline=False)
def _clear(taint: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _empty(taint.sets, point)
    taint.sets.stamp[point] = n
    return 0


@implements(to.join, Taints, inline=False)
def _join(taint: Any, count: Any, t: Any, v: Any, others: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _later(t, taint.sets, to.MEMORY, v, taint.sets, to.ACCESS, n)
    return 0


@implements(to.front, Taints, inline=False)
def _front(taint: Any, count: Any, fe: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    fe = _later(fe, taint.sets, to.FRONT, disp, taint.sets, to.DISPATCH, n)
    _used(fe, taint.sets, to.FRONT, n, disp)
    _set(taint.sets, to.DISPATCH, taint.sets, to.FRONT, n)


@implements(to.result, Taints, inline=False)
def _result(  # pragma: no cover - compiled
    taint: Any, data: Any, memory: Any, x: Any, loaded: Any, uses: Any, n: Any
) -> Any:
    _later(x, taint.sets, to.DATA, loaded, taint.sets, to.MEMORY, n)
    _add(taint.sets, to.DATA, n)
    _set(taint.sets, to.RESULT, taint.sets, to.DATA, n)


@implements(to.retire, Taints, inline=False)
def _retire(taint: Any, ret: Any, end: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _used(ret, taint.sets, to.RETIRED, n, ret)
    _later(ret, taint.sets, to.RETIRED, end, taint.sets, to.RESULT, n)


@implements(to.write, Taints, inline=False)
def _write(taint: Any, written: Any, ret: Any, arrived: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _renew(taint.sets, to.WRITTEN, n)
    written = _later(written, taint.sets, to.WRITTEN, ret, taint.sets, to.RETIRED, n)
    _later(written, taint.sets, to.WRITTEN, arrived, taint.sets, to.RESULT, n)


@implements(to.miss, Taints, inline=False)
def _miss(taint: Any, kind: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    entry = taint.first[kind] + k
    _set(taint.sets, entry, taint.sets, to.ACCESS, n)
    _add(taint.sets, entry, n)


@implements(to.fetch, Taints, inline=False)
def _fetch(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _set(taint.line, k, taint.sets, to.ACCESS, n)
    _add(taint.line, k, n)


@implements(to.issue, Taints, inline=False)
def _issue(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _set(taint.sets, taint.first[to.BY_ISSUE] + k, taint.sets, to.DATA, n)
    _both(taint.sets, taint.first[to.BY_ISSUE] + k, taint.sets, to.MEMORY, n)
    _add(taint.sets, taint.first[to.BY_ISSUE] + k, n)


@implements(to.inherit, Taints, inline=False)
def _inherit(taint: Any, kind: Any, k: Any, other: Any, q: Any, n: Any) -> Any:  # pragma: no cover - compiled
    _set(taint.sets, taint.first[kind] + k, taint.sets, taint.first[other] + q, n)


@implements(to.finish, Taints, inline=False)
def _finish(  # pragma: no cover - compiled
    taint: Any, n: Any, i: Any, disp: Any, begun: Any, end: Any, ret: Any
) -> Any:
    old = n - taint.queue
    if old >= 0:
        taint.counted[0] += 1
        width = len(taint.history)
        if (taint.sets.bits[to.DISPATCH, (old % width) >> 6] >> np.uint64(old & 63)) & np.uint64(1):
            taint.taints[taint.history[old % width]] += 1
