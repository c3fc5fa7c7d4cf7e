"""Algorithm 1 with its taint sets carried along as printed, as bits: the oracle of the fast causality pass.

Every time of the model has a set of dynamic instructions that constrain it. ``ConstrainBy`` joins or replaces sets,
``UsedBy`` adds the user (Algorithm 1, lines 1 to 16). A set is a row of bits, one for each of the last R instructions,
with the instruction at which it was last brought up to date; older members fall out when it is read. The paper's queue
holds twice the ROB; R is at least that.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.simulators.gus_timing import NEVER, TICKS


class Sets(NamedTuple):
    """Taint sets: a row of 64-bit words each, and the instruction each row is up to date with."""

    bits: NDArray[np.uint64]
    stamp: NDArray[np.int64]


class Taints(NamedTuple):
    """The taint sets of everything that has a time."""

    register: Sets
    port: Sets
    level: Sets
    rob: Sets
    loads: Sets
    stores: Sets
    misses: Sets
    scalar: Sets  # dispatch, front end, retirement, last store written, last result
    scratch: Sets  # address, execution, one access, all accesses
    history: NDArray[np.int32]  # the static instruction of each of the last R


def taints(s: Any, width: int) -> Taints:
    """Return empty sets for the state ``s``, over the last ``width`` instructions (a power of two)."""
    return Taints(
        sets(len(s.register), width),
        sets(len(s.port), width),
        sets(len(s.level), width),
        sets(len(s.rob), width),
        sets(len(s.loads), width),
        sets(len(s.stores), width),
        sets(len(s.misses), width),
        sets(5, width),
        sets(4, width),
        np.zeros(width, dtype=np.int32),
    )


def sets(rows: int, width: int) -> Sets:
    """Return so many empty sets."""
    return Sets(np.zeros((rows, width // 64), dtype=np.uint64), np.full(rows, -1, dtype=np.int64))


@njit(cache=True)
def _renew(bits: Any, stamp: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Let the members fall out whose places belong to instructions after ``stamp`` up to ``n``."""
    width = len(bits) * 64
    if n - stamp >= width:
        bits[:] = 0
        return
    at = stamp + 1
    while at <= n:
        place = at & 63
        span = min(64 - place, n - at + 1)
        if span == 64:
            bits[(at % width) >> 6] = 0
        else:
            gone = ((np.uint64(1) << np.uint64(span)) - np.uint64(1)) << np.uint64(place)
            bits[(at % width) >> 6] &= ~gone
        at += span


@njit(cache=True)
def _add(to: Any, k: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Put instruction n into set k."""
    width = to.bits.shape[1] * 64
    to.bits[k, (n % width) >> 6] |= np.uint64(1) << np.uint64(n & 63)


@njit(cache=True)
def _set(to: Any, k: Any, source: Any, q: Any, n: Any) -> None:  # pragma: no cover - compiled
    """SetBy: set k becomes a copy of set q, as of instruction n."""
    to.bits[k] = source.bits[q]
    _renew(to.bits[k], source.stamp[q], n)
    to.stamp[k] = n


@njit(cache=True)
def _join(to: Any, k: Any, source: Any, q: Any, n: Any) -> None:  # pragma: no cover - compiled
    """Set k gets the members of set q as well."""
    _renew(to.bits[k], to.stamp[k], n)
    to.stamp[k] = n
    _renew(source.bits[q], source.stamp[q], n)
    source.stamp[q] = n
    to.bits[k] |= source.bits[q]


@njit(cache=True)
def _constrain(t: Any, to: Any, k: Any, v: Any, source: Any, q: Any, n: Any) -> Any:  # pragma: no cover - compiled
    """ConstrainBy, lines 1 to 6."""
    if v > t:
        _set(to, k, source, q, n)
        return v
    if v == t:
        _join(to, k, source, q, n)
    return t


@njit(cache=True)
def _use(t: Any, to: Any, k: Any, n: Any, least: Any) -> Any:  # pragma: no cover - compiled
    """UsedBy, lines 10 to 15, without the time of the use itself."""
    _renew(to.bits[k], to.stamp[k], n)
    to.stamp[k] = n
    if t < least:
        to.bits[k] = 0
        t = least
    _add(to, k, n)
    return t


@njit(cache=True)
def run_exact(  # pragma: no cover - compiled
    w: Any, p: Any, c: Any, s: Any, shadow: Any, writer: Any, x: Any, queue: Any, counted: Any, members: Any
) -> None:
    """Simulate one window; count, for each static instruction, how often it was old and still in dispatch's set."""
    disp, fe, ret, written, end = s.now[0], s.now[1], s.now[2], s.now[3], s.now[4]
    n, slots, loads, stores, misses = s.counts[0], s.counts[1], s.counts[2], s.counts[3], s.counts[4]
    rob, lb, sb, fb = len(s.rob), len(s.loads), len(s.stores), len(s.misses)
    DISP, FE, RET, WRITTEN, END = 0, 1, 2, 3, 4
    ADDRESS, EXECUTE, ONE, ALL = 0, 1, 2, 3
    now, tmp = x.scalar, x.scratch
    width = x.register.bits.shape[1] * 64
    j = 0
    for t in range(len(w.stream)):
        b = w.stream[t]
        late = w.mispredicted[t]
        for i in range(p.block_start[b], p.block_start[b + 1]):
            x.history[n % width] = i
            u = np.int64(p.slots[i])
            m0, m1 = p.operand_start[i], p.operand_start[i + 1]
            is_load, is_store = p.loads[i], p.stores[i]
            _renew(now.bits[DISP], now.stamp[DISP], n)
            now.stamp[DISP] = n
            if late:
                disp = _constrain(disp, now, DISP, end + c.penalty[0], now, END, n)
                late = False
            if u > 0:
                k = (slots + u - 1) % rob
                disp = _constrain(disp, now, DISP, s.rob[k], x.rob, k, n)
            if is_load:
                disp = _constrain(disp, now, DISP, s.loads[loads], x.loads, loads, n)
            if is_store:
                disp = _constrain(disp, now, DISP, s.stores[stores], x.stores, stores, n)
            fe = _constrain(fe, now, FE, disp, now, DISP, n)
            fe = _use(fe, now, FE, n, disp) + c.front_end[0] * u
            disp = fe
            _set(now, DISP, now, FE, n)
            a = disp
            _set(tmp, ADDRESS, now, DISP, n)
            for k in range(p.address_start[i], p.address_start[i + 1]):
                q = p.address_register[k]
                a = _constrain(a, tmp, ADDRESS, s.register[q], x.register, q, n)
            u0 = p.use_start[i]
            u1 = u0 + p.load_uses[i]
            for k in range(u0, u1):
                q = p.use[k]
                a = _constrain(a, tmp, ADDRESS, s.port[q], x.port, q, n)
                s.port[q] = _use(s.port[q], x.port, q, n, disp) + c.use[k, 0]
            vector = 1 if p.vector[i] else 0
            at = disp
            if is_load:
                _set(tmp, EXECUTE, now, DISP, n)
            else:
                at = a
                _set(tmp, EXECUTE, tmp, ADDRESS, n)
            loaded = NEVER
            tmp.bits[ALL] = 0
            tmp.stamp[ALL] = n
            arrived = a
            for m in range(m0, m1):
                g = w.granule[j]
                if g < 0:
                    j += 1
                    continue
                code = w.code[j]
                level = np.int64(code & 3)
                size = np.int64(w.size[j])
                if (code & 64) != 0:
                    for k in range(u0, u1):
                        s.port[p.use[k]] += c.use[k, 0]
                if (code & 64) != 0 and ((code >> 2) & 3) > level:
                    level = np.int64((code >> 2) & 3)
                got = a
                _set(tmp, ONE, tmp, ADDRESS, n)
                for q in range(level + 1):
                    got = _constrain(got, tmp, ONE, s.level[q], x.level, q, n)
                    cost = size * c.byte[0] if q == 0 else c.line[q, 0]
                    s.level[q] = _use(s.level[q], x.level, q, n, disp) + cost
                for q in range(2, np.int64((code >> 4) & 3) + 1):
                    got = _constrain(got, tmp, ONE, s.level[q], x.level, q, n)
                    s.level[q] = _use(s.level[q], x.level, q, n, disp) + c.line[q, 0]
                slot = np.int64(-1)
                if level > 0:
                    got = _constrain(got, tmp, ONE, s.misses[misses], x.misses, misses, n)
                    s.misses[misses] = got + c.load[i, 0] + c.beyond[level, 0]
                    slot = misses
                    misses = misses + 1 if misses + 1 < fb else 0
                if p.read[m]:
                    got += c.load[i, 0] + c.beyond[level + 4 * vector, 0]
                    until = min(g + ((size + 7) >> 3), (g | 511) + 1)
                    way = vector if code < 128 else 2
                    for q in range(g, until):
                        got = _constrain(got, tmp, ONE, shadow[q] + c.forward[way, 0], writer, q, n)
                    loaded = _constrain(loaded, tmp, ALL, got, tmp, ONE, n)
                elif level > 0 and got + c.beyond[level, 0] > arrived:
                    arrived = got + c.beyond[level, 0]
                if slot >= 0:
                    _set(x.misses, slot, tmp, ONE, n)
                    _add(x.misses, slot, n)
                j += 1
            for k in range(p.data_start[i], p.data_start[i + 1]):
                q = p.data_register[k]
                at = _constrain(at, tmp, EXECUTE, s.register[q], x.register, q, n)
            for k in range(u1, p.use_start[i + 1]):
                q = p.use[k]
                at = _constrain(at, tmp, EXECUTE, s.port[q], x.port, q, n)
                s.port[q] = _use(s.port[q], x.port, q, n, disp) + c.use[k, 0]
            end = at + c.latency[i, 0]
            end = _constrain(end, tmp, EXECUTE, loaded + c.value[i, 0], tmp, ALL, n)
            _add(tmp, EXECUTE, n)
            _set(now, END, tmp, EXECUTE, n)
            for k in range(p.write_start[i], p.write_start[i + 1]):
                q = p.write_register[k]
                s.register[q] = end
                _set(x.register, q, now, END, n)
            ret = _use(ret, now, RET, n, NEVER) + c.retire[0] * u
            ret = _constrain(ret, now, RET, end, now, END, n)
            for _k in range(u):
                s.rob[slots] = ret
                _set(x.rob, slots, now, RET, n)
                slots = slots + 1 if slots + 1 < rob else 0
            if is_load:
                s.loads[loads] = ret
                _set(x.loads, loads, now, RET, n)
                loads = loads + 1 if loads + 1 < lb else 0
            if is_store:
                for m in range(m0, m1):
                    g = w.granule[j - (m1 - m)]
                    if g < 0 or not p.write[m]:
                        continue
                    until = min(g + ((np.int64(w.size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, until):
                        if shadow[q] < end:
                            shadow[q] = end
                            _set(writer, q, now, END, n)
                _renew(now.bits[WRITTEN], now.stamp[WRITTEN], n)
                now.stamp[WRITTEN] = n
                written += TICKS
                written = _constrain(written, now, WRITTEN, ret, now, RET, n)
                written = _constrain(written, now, WRITTEN, arrived, now, END, n)
                s.stores[stores] = written
                _set(x.stores, stores, now, WRITTEN, n)
                stores = stores + 1 if stores + 1 < sb else 0
            old = n - queue
            if old >= 0:
                counted[0] += 1
                place = np.uint64(old & 63)
                if (now.bits[DISP, (old % width) >> 6] >> place) & np.uint64(1):
                    members[x.history[old % width]] += 1
            n += 1
    s.now[0], s.now[1], s.now[2], s.now[3], s.now[4] = disp, fe, ret, written, end
    s.counts[0], s.counts[1], s.counts[2], s.counts[3], s.counts[4] = n, slots, loads, stores, misses
