"""Algorithm 1 with tainting, fast: remember each step's tight constraints in a ring and sweep back over it.

A taint set (the paper, Algorithm 1) holds the instructions that constrain a time. To know whether an old instruction is
in the set of `dispatch`, sets need not be carried along: it is, if a chain of tight constraints leads from the dispatch
of now back to it. So the hooks only record, for each of the last 2 W instructions, which constraints were tight, and
every W / `SWEEPS` instructions follow them back and count those that twice the ROB have followed (W is no less).
`gus_exact` carries the sets themselves: the oracle.

Membership says nothing of time: a link of one cycle counts like a division, and an instruction that only retires behind
the slow one counts, too. So the same constraints are followed a second time with the time that lies between each and
the one before it, shared out evenly where several are tight: how long each instruction holds up the dispatch.
"""
# ruff: noqa: ARG001 - every hook is called with all that any of them needs

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.compiled import helper, inlined
from perfkit.simulators.gus import hooks as to
from perfkit.simulators.gus.hooks import implements

# The points in time of one instruction that later ones may be constrained by; resource k it uses is USED + k.
D0, FE, D1, END, RET, WRITTEN, USED = range(7)
MAX_USES = 25  # resources one instruction may use that are followed: port groups and lines moved
NODES = 32  # a power of two of at least USED + MAX_USES
SWEEPS = 16  # more of them ask oftener who constrains the dispatch
PATHS = 2  # so many times in W instructions the time is followed back
PARENTS = 14  # tight constraints kept of one result
HOLDERS = 8  # and of one dispatch
_U: Any = np.uint64


class Seen(NamedTuple):
    """What is recorded of a window of executed instructions, for drawing."""

    first: int
    instruction: NDArray[np.int32]
    dispatch: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    retire: NDArray[np.int64]
    parent: NDArray[np.int64]  # the instruction whose result or use was the last to be waited for, or -1


class Ring(NamedTuple):
    """The tight constraints of the last 2 W instructions; a constraint is named instruction * NODES + point."""

    instruction: NDArray[np.int32]
    d0: NDArray[np.int64]  # (2 W, HOLDERS) tight constraints of the dispatch before the front end
    d0_n: NDArray[np.int8]
    fe: NDArray[np.int8]  # bits: 1 the front end before, 2 the dispatch
    end: NDArray[np.int64]  # (2 W, PARENTS)
    end_n: NDArray[np.int8]
    used: NDArray[np.int64]  # (2 W, MAX_USES) the use before, or -1 where the resource was idle
    used_n: NDArray[np.int8]
    ret: NDArray[np.int8]  # bits: 1 the retirement before, 2 the end
    written: NDArray[np.int8]  # bits: 1 the store before, 2 the retirement, 4 the end
    before: NDArray[np.int64]  # (2 W,) the store before
    mark: NDArray[np.uint32]  # (2 W,) one bit per point
    waits: NDArray[np.int64]  # (points, PARENTS) tight constraints of points of the instruction at hand
    by: NDArray[np.int64]  # who set each entry of each table (a constraint, or -1)
    first: NDArray[np.int64]  # where each table begins in `by`
    line: NDArray[np.int64]  # (lines,) who fetched each line last
    scalar: NDArray[np.int64]  # last store, next sweep, how old an instruction is when it is counted, next path
    taints: NDArray[np.int64]  # (instructions,) the counts
    time: NDArray[np.int64]  # (2 W, 4) ticks of dispatch, end, retirement and writing
    until: NDArray[np.int64]  # (2 W, MAX_USES) ticks at which whoever came next found the resource free
    share: NDArray[np.float64]  # (2 W, NODES) of the dispatch that is followed back, at each point that is marked
    held: NDArray[np.float64]  # (instructions,) ticks by which each held up a dispatch
    record: Seen


def ring(s: Any, queue: int, counts: NDArray[np.int64], held: NDArray[np.float64], view: Seen) -> Ring:
    """Return an empty ring over the times of ``s`` that counts instructions when ``queue`` more have followed."""
    width = 1 << (queue - 1).bit_length()
    n = 2 * width
    by, first = tables(s)

    def zeros(*shape: int) -> NDArray[np.int64]:
        return np.zeros(shape, dtype=np.int64)

    def bits() -> NDArray[np.int8]:
        return np.zeros(n, dtype=np.int8)

    return Ring(
        np.zeros(n, dtype=np.int32),
        zeros(n, HOLDERS),
        bits(),
        bits(),
        zeros(n, PARENTS),
        bits(),
        zeros(n, MAX_USES),
        bits(),
        bits(),
        bits(),
        zeros(n),
        np.zeros(n, dtype=np.uint32),
        zeros(to.POINTS, PARENTS),
        np.full(by, -1, dtype=np.int64),
        first,
        zeros(0),
        np.array([-1, queue + width // SWEEPS, queue, queue + width // PATHS], dtype=np.int64),
        counts,
        zeros(n, 4),
        zeros(n, MAX_USES),
        np.zeros((n, NODES)),
        held,
        view,
    )


def tables(s: Any) -> tuple[int, NDArray[np.int64]]:
    """Return how many entries the tables of a state have together, and where each begins."""
    ring = (s.register, s.port, s.level, s.rob, s.loads, s.stores, s.misses, s.queue, s.held.waiting, s.data, s.vectors)
    lengths = [len(t) for t in ring]
    return sum(lengths), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def seen(first: int, count: int) -> Seen:
    """Return an empty record of ``count`` executed instructions from ``first``."""
    none, nobody = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Seen(first, nobody.astype(np.int32), none, none.copy(), none.copy(), none.copy(), nobody)


@inlined
def _mark(r: Any, low: Any, p: Any) -> None:  # pragma: no cover - compiled
    """Mark a constraint, if it is of an instruction that is still in the ring."""
    if p >= low * NODES:
        r.mark[_U((p // NODES) & (len(r.mark) - 1))] |= np.uint32(1) << np.uint32(p & (NODES - 1))


@helper
def _sweep(r: Any, now: Any) -> None:  # pragma: no cover - compiled
    """Follow the tight constraints back from the dispatch of instruction ``now`` and count the older half's members."""
    mask = len(r.fe) - 1
    low = now - mask
    r.mark[:] = 0
    _mark(r, low, now * NODES + D1)
    old = now - r.scalar[2]
    for i in range(now, old - len(r.fe) // (2 * SWEEPS), -1):
        e = _U(i & mask)
        mark = r.mark[e]
        if mark == 0:
            continue
        member = False
        if mark & (1 << WRITTEN):
            if r.written[e] & 1:
                _mark(r, low, r.before[e] * NODES + WRITTEN)
            if r.written[e] & 2:
                mark |= 1 << RET
            if r.written[e] & 4:
                mark |= 1 << END
        if mark & (1 << RET):
            if r.ret[e] & 1:
                member = True
                _mark(r, low, (i - 1) * NODES + RET)
            if r.ret[e] & 2:
                mark |= 1 << END
        if mark & (1 << END):
            member = True
            for k in range(r.end_n[e]):
                p = r.end[e, k]
                # A result may wait for the uses and the dispatch of its own instruction, which come next.
                if p >= i * NODES:
                    mark |= 1 << (p & (NODES - 1))
                else:
                    _mark(r, low, p)
        if mark >> USED:
            for k in range(r.used_n[e] - 1, -1, -1):
                if mark & (1 << (USED + k)):
                    member = True
                    p = r.used[e, k]
                    if p >= i * NODES:
                        mark |= 1 << (p & (NODES - 1))
                    else:
                        _mark(r, low, p)
        if mark & (1 << D1 | 1 << FE):
            member = True
            if r.fe[e] & 1:
                _mark(r, low, (i - 1) * NODES + FE)
            if r.fe[e] & 2:
                for k in range(r.d0_n[e]):
                    _mark(r, low, r.d0[e, k])
        if member and i <= old:
            r.taints[_U(r.instruction[e])] += 1


@inlined
def _moment(r: Any, p: Any) -> Any:  # pragma: no cover - compiled
    """Return the ticks of a constraint of an instruction that is still in the ring."""
    e = _U((p // NODES) & (len(r.fe) - 1))
    k = p & (NODES - 1)
    if k >= USED:
        return r.until[e, _U(k - USED)]
    if k == END:
        return r.time[e, 1]
    if k == RET:
        return r.time[e, 2]
    if k == WRITTEN:
        return r.time[e, 3]
    return r.time[e, 0]


@helper
def _pass(r: Any, low: Any, lowest: Any, i: Any, t: Any, p: Any, share: Any) -> None:  # pragma: no cover - compiled
    """Charge instruction i, whose point is at t, with the time since the constraint p, and go on there."""
    if p < low * NODES:
        return
    e = _U((p // NODES) & (len(r.fe) - 1))
    k = _U(p & (NODES - 1))
    bit = np.uint32(1) << np.uint32(k)
    if r.mark[e] & bit:
        r.share[e, k] += share
    else:
        r.mark[e] |= bit
        r.share[e, k] = share
    if lowest < i <= lowest + len(r.fe) // (2 * PATHS):
        time = t - _moment(r, p)
        if time > 0:
            r.held[_U(r.instruction[_U(i & (len(r.fe) - 1))])] += share * time


@helper
def _path(r: Any, now: Any) -> None:  # pragma: no cover - compiled
    """Follow the tight constraints back from the dispatch of instruction ``now``, and charge whoever takes the time."""
    mask = len(r.fe) - 1
    low = now - mask
    lowest = now - r.scalar[2] - len(r.fe) // (2 * PATHS)
    r.mark[:] = 0
    r.mark[_U(now & mask)] = np.uint32(1) << np.uint32(D1)
    r.share[_U(now & mask), D1] = 1.0
    for i in range(now, lowest, -1):
        e = _U(i & mask)
        if r.mark[e] == 0:
            continue
        own = i * NODES
        if r.mark[e] & (1 << WRITTEN):
            bits = r.written[e]
            part = r.share[e, WRITTEN] / max(1, (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1))
            if bits & 1:
                _pass(r, low, lowest, i, r.time[e, 3], r.before[e] * NODES + WRITTEN, part)
            if bits & 2:
                _pass(r, low, lowest, i, r.time[e, 3], own + RET, part)
            if bits & 4:
                _pass(r, low, lowest, i, r.time[e, 3], own + END, part)
        if r.mark[e] & (1 << RET):
            bits = r.ret[e]
            part = r.share[e, RET] / max(1, (bits & 1) + (bits >> 1 & 1))
            if bits & 1:
                _pass(r, low, lowest, i, r.time[e, 2], own - NODES + RET, part)
            if bits & 2:
                _pass(r, low, lowest, i, r.time[e, 2], own + END, part)
        if r.mark[e] & (1 << END):
            count = r.end_n[e]
            for k in range(count):
                _pass(r, low, lowest, i, r.time[e, 1], r.end[e, _U(k)], r.share[e, END] / count)
        if r.mark[e] >> USED:
            for k in range(r.used_n[e] - 1, -1, -1):
                if r.mark[e] & (1 << (USED + k)):
                    p = r.used[e, _U(k)]
                    if p < 0:  # it was idle
                        p = own + D1
                    _pass(r, low, lowest, i, r.until[e, _U(k)], p, r.share[e, _U(USED + k)])
        for point in (D1, FE):
            if r.mark[e] & (1 << point):
                count = 0
                if r.fe[e] & 1:
                    count += 1
                if r.fe[e] & 2:
                    count += r.d0_n[e]
                part = r.share[e, point] / max(1, count)
                if r.fe[e] & 1:
                    _pass(r, low, lowest, i, r.time[e, 0], own - NODES + FE, part)
                if r.fe[e] & 2:
                    for k in range(r.d0_n[e]):
                        p = r.d0[e, _U(k)]
                        # A mispredicted branch is charged with its penalty, and not what comes next.
                        who = p // NODES if p & (NODES - 1) == END else i
                        _pass(r, low, lowest, who, r.time[e, 0], p, part)


@inlined
def _free(r: Any, who: Any, v: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Note when a use was over, for whoever comes next."""
    if who >= 0 and who & (NODES - 1) >= USED and n - who // NODES < len(r.fe):
        r.until[_U((who // NODES) & (len(r.fe) - 1)), _U((who & (NODES - 1)) - USED)] = v


@implements(to.begin, Ring)
def _begin(taint: Any, n: Any, i: Any) -> Any:  # pragma: no cover - compiled
    e = _U(n & (len(taint.fe) - 1))
    taint.instruction[e] = i
    taint.d0[e, 0] = (n - 1) * NODES + D1
    return 1 if n > 0 else 0


@implements(to.constrain, Ring)
def _constrain(  # pragma: no cover - compiled
    taint: Any, point: Any, count: Any, t: Any, v: Any, kind: Any, k: Any, n: Any
) -> Any:
    if v < t:
        return count
    if kind == to.BY_RESULT:
        who = (n - 1) * NODES + END
    elif kind == to.BY_LINE:
        who = taint.line[_U(k)]
    else:
        who = taint.by[_U(taint.first[kind] + k)]
        _free(taint, who, v, n)
    if v > t:
        count = 0
    if who >= 0 and count < (HOLDERS if point == to.DISPATCH else PARENTS):
        if point == to.DISPATCH:
            taint.d0[_U(n & (len(taint.fe) - 1)), _U(count)] = who
        else:
            taint.waits[point, _U(count)] = who
        count += 1
    return count


@implements(to.use, Ring)
def _use(taint: Any, kind: Any, k: Any, uses: Any, v: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    if uses >= MAX_USES:
        return uses
    place = _U(taint.first[kind] + k)
    taint.used[_U(n & (len(taint.fe) - 1)), _U(uses)] = taint.by[place] if v >= disp else -1
    _free(taint, taint.by[place], v, n)
    taint.by[place] = n * NODES + USED + uses
    return uses + 1


@implements(to.put, Ring)
def _put(taint: Any, kind: Any, k: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    node = END
    if point == to.RETIRED:
        node = RET
    elif point == to.WRITTEN:
        node = WRITTEN
    elif point == to.DISPATCH:
        node = D1
    taint.by[_U(taint.first[kind] + k)] = n * NODES + node


@implements(to.start, Ring)
def _start(taint: Any, point: Any, source: Any, count: Any, n: Any) -> Any:  # pragma: no cover - compiled
    if source == to.DISPATCH:
        taint.waits[point, 0] = n * NODES + D1
        return 1
    for k in range(count):
        taint.waits[point, _U(k)] = taint.waits[source, _U(k)]
    return count


@implements(to.clear, Ring)
def _clear(taint: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.join, Ring)
def _join(taint: Any, count: Any, t: Any, v: Any, others: Any, n: Any) -> Any:  # pragma: no cover - compiled
    if v > t:
        count = 0
    if v >= t:
        for k in range(min(others, PARENTS - count)):
            taint.waits[to.MEMORY, _U(count)] = taint.waits[to.ACCESS, _U(k)]
            count += 1
    return count


@implements(to.front, Ring)
def _front(taint: Any, count: Any, fe: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    e = _U(n & (len(taint.fe) - 1))
    taint.d0_n[e] = count
    bits = 2
    if fe > disp:
        bits = 1
    elif fe == disp and n > 0:
        bits = 3
    taint.fe[e] = bits


@implements(to.result, Ring)
def _result(  # pragma: no cover - compiled
    taint: Any, data: Any, memory: Any, x: Any, loaded: Any, uses: Any, n: Any
) -> Any:
    e = _U(n & (len(taint.fe) - 1))
    taint.used_n[e] = uses
    count = 0
    if x >= loaded:
        for k in range(data):
            taint.end[e, _U(k)] = taint.waits[to.DATA, _U(k)]
        count = data
    if loaded >= x:
        for k in range(min(memory, PARENTS - count)):
            taint.end[e, _U(count)] = taint.waits[to.MEMORY, _U(k)]
            count += 1
    taint.end_n[e] = count


@implements(to.retire, Ring)
def _retire(taint: Any, ret: Any, end: Any, n: Any) -> Any:  # pragma: no cover - compiled
    taint.ret[_U(n & (len(taint.fe) - 1))] = 2 if end > ret else 3 if end == ret else 1


@implements(to.write, Ring)
def _write(taint: Any, written: Any, ret: Any, arrived: Any, n: Any) -> Any:  # pragma: no cover - compiled
    e = _U(n & (len(taint.fe) - 1))
    latest = max(written, ret, arrived)
    taint.written[e] = (written == latest) * 1 + (ret == latest) * 2 + (arrived == latest) * 4
    taint.time[e, 3] = latest
    taint.before[e] = taint.scalar[0]
    taint.scalar[0] = n


@implements(to.miss, Ring)
def _miss(taint: Any, kind: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    taint.by[_U(taint.first[kind] + k)] = n * NODES + END


@implements(to.fetch, Ring)
def _fetch(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    taint.line[_U(k)] = n * NODES + END


@implements(to.issue, Ring)
def _issue(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    # It begins when its operands are there; what its result waits for is that too.
    taint.by[_U(taint.first[to.BY_ISSUE] + k)] = n * NODES + END


@implements(to.inherit, Ring)
def _inherit(taint: Any, kind: Any, k: Any, other: Any, q: Any, n: Any) -> Any:  # pragma: no cover - compiled
    taint.by[_U(taint.first[kind] + k)] = taint.by[_U(taint.first[other] + q)]


@implements(to.finish, Ring)
def _finish(  # pragma: no cover - compiled
    taint: Any, n: Any, i: Any, disp: Any, begun: Any, end: Any, ret: Any
) -> Any:
    view = taint.record
    k = n - view.first
    if 0 <= k < len(view.instruction):
        view.instruction[k] = i
        view.dispatch[k] = disp
        view.start[k] = begun
        view.end[k] = end
        view.retire[k] = ret
        e = _U(n & (len(taint.fe) - 1))
        for q in range(taint.end_n[e]):
            if taint.end[e, _U(q)] // NODES != n:
                view.parent[k] = taint.end[e, _U(q)] // NODES
    e = _U(n & (len(taint.fe) - 1))
    taint.time[e, 0] = disp
    taint.time[e, 1] = end
    taint.time[e, 2] = ret
    if n + 1 == taint.scalar[3]:
        _path(taint, n)
        taint.scalar[3] += len(taint.fe) // (2 * PATHS)
    if n + 1 == taint.scalar[1]:
        _sweep(taint, n)
        taint.scalar[1] += len(taint.fe) // (2 * SWEEPS)
