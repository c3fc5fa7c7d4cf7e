"""Algorithm 1 with tainting, fast: remember each step's tight constraints in a ring and sweep back over it.

A taint set (the paper, Algorithm 1) holds the instructions that constrain a time. To know whether an old instruction is
in the set of `dispatch`, sets need not be carried along: it is, if a chain of tight constraints leads from the dispatch
of now back to it. So the pass only records, for each of the last 2 W instructions, which constraints were tight, and
every W instructions (W = twice the ROB) it follows them back. `gus_exact` carries the sets themselves: the oracle.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.simulators.gus_timing import NEVER, TICKS

# The points in time of one instruction that later ones may be constrained by; resource k it uses is USED + k.
D0, FE, D1, END, RET, WRITTEN, USED = range(7)
MAX_USES = 25  # resources one instruction may use that are followed: port groups and lines moved
NODES = 32  # a power of two of at least USED + MAX_USES
PARENTS = 14  # tight constraints kept of one result


class Ring(NamedTuple):
    """The tight constraints of the last 2 W instructions; a constraint is named instruction * NODES + point."""

    instruction: NDArray[np.int32]
    d0: NDArray[np.int64]  # (2 W, 5) tight constraints of the dispatch before the front end
    d0_n: NDArray[np.int64]
    fe: NDArray[np.int64]  # bits: 1 the front end before, 2 the dispatch
    end: NDArray[np.int64]  # (2 W, PARENTS)
    end_n: NDArray[np.int64]
    used: NDArray[np.int64]  # (2 W, MAX_USES) the use before, or -1 where the resource was idle
    used_n: NDArray[np.int64]
    ret: NDArray[np.int64]  # bits: 1 the retirement before, 2 the end
    written: NDArray[np.int64]  # bits: 1 the store before, 2 the retirement, 4 the end
    before: NDArray[np.int64]  # (2 W,) the store before
    mark: NDArray[np.bool_]  # (2 W, NODES)


class Last(NamedTuple):
    """Who set each time that is still of use (a constraint, or -1)."""

    register: NDArray[np.int64]
    port: NDArray[np.int64]
    level: NDArray[np.int64]
    rob: NDArray[np.int64]
    loads: NDArray[np.int64]
    stores: NDArray[np.int64]
    misses: NDArray[np.int64]
    scalar: NDArray[np.int64]  # last store, next sweep


class Seen(NamedTuple):
    """What is recorded of a window of executed instructions, for drawing."""

    first: int
    instruction: NDArray[np.int32]
    dispatch: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    retire: NDArray[np.int64]
    parent: NDArray[np.int64]  # the instruction whose result or use was the last to be waited for, or -1


def ring(width: int) -> Ring:
    """Return an empty ring for sweeps every ``width`` instructions (a power of two)."""
    n = 2 * width

    def zeros(*shape: int) -> NDArray[np.int64]:
        return np.zeros(shape, dtype=np.int64)

    return Ring(
        np.zeros(n, dtype=np.int32),
        zeros(n, 5),
        zeros(n),
        zeros(n),
        zeros(n, PARENTS),
        zeros(n),
        zeros(n, MAX_USES),
        zeros(n),
        zeros(n),
        zeros(n),
        zeros(n),
        np.zeros((n, NODES), dtype=np.bool_),
    )


def last(s: Any, width: int) -> Last:
    """Return the table of who set what, before the first instruction."""

    def nobody(times: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.full(len(times), -1, dtype=np.int64)

    return Last(
        nobody(s.register),
        nobody(s.port),
        nobody(s.level),
        nobody(s.rob),
        nobody(s.loads),
        nobody(s.stores),
        nobody(s.misses),
        np.array([-1, 2 * width], dtype=np.int64),
    )


def seen(first: int, count: int) -> Seen:
    """Return an empty record of ``count`` executed instructions from ``first``."""
    none, nobody = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Seen(first, nobody.astype(np.int32), none, none.copy(), none.copy(), none.copy(), nobody)


@njit(cache=True)
def _sweep(r: Any, now: Any, width: Any, taints: Any) -> None:  # pragma: no cover - compiled
    """Follow the tight constraints back from the dispatch of instruction ``now`` and count the older half's members."""
    mask = len(r.fe) - 1
    low = now - mask
    r.mark[:] = False
    r.mark[now & mask, D1] = True
    for i in range(now, low - 1, -1):
        e = i & mask
        mark = r.mark[e]
        member = False
        if mark[WRITTEN]:
            bits = r.written[e]
            if bits & 1 and r.before[e] >= low:
                r.mark[r.before[e] & mask, WRITTEN] = True
            if bits & 2:
                mark[RET] = True
            if bits & 4:
                mark[END] = True
        if mark[RET]:
            if r.ret[e] & 1:
                member = True
                if i > low:
                    r.mark[(i - 1) & mask, RET] = True
            if r.ret[e] & 2:
                mark[END] = True
        if mark[END]:
            member = True
            for k in range(r.end_n[e]):
                p = r.end[e, k]
                j = p // NODES
                if j >= low:
                    r.mark[j & mask, p & (NODES - 1)] = True
        for k in range(r.used_n[e] - 1, -1, -1):
            if mark[USED + k]:
                member = True
                p = r.used[e, k]
                if p >= 0 and p // NODES >= low:
                    r.mark[(p // NODES) & mask, p & (NODES - 1)] = True
        if mark[D1]:
            mark[FE] = True
        if mark[FE]:
            member = True
            if r.fe[e] & 1 and i > low:
                r.mark[(i - 1) & mask, FE] = True
            if r.fe[e] & 2:
                mark[D0] = True
        if mark[D0]:
            for k in range(r.d0_n[e]):
                p = r.d0[e, k]
                j = p // NODES
                if j >= low:
                    r.mark[j & mask, p & (NODES - 1)] = True
        if member and i <= now - width:
            taints[r.instruction[e]] += 1


@njit(cache=True, inline="always")
def _wait(t: Any, v: Any, parents: Any, n: Any, who: Any) -> Any:  # pragma: no cover - compiled
    """ConstrainBy: return the later time and how many tight constraints it has."""
    if v > t:
        if who >= 0:
            parents[0] = who
            return v, 1
        return v, 0
    if v == t and who >= 0 and n < len(parents):
        parents[n] = who
        return t, n + 1
    return t, n


@njit(cache=True)
def run_causal(  # pragma: no cover - compiled
    w: Any, p: Any, c: Any, s: Any, shadow: Any, writer: Any, r: Any, who: Any, taints: Any, view: Any
) -> None:
    """Simulate one window, count the taints by static instruction, and record what ``view`` asks for.

    The rules, and their order, are those of `gus_timing.run`.
    """
    disp, fe, ret, written, end = s.now[0], s.now[1], s.now[2], s.now[3], s.now[4]
    n, slots, loads, stores, misses = s.counts[0], s.counts[1], s.counts[2], s.counts[3], s.counts[4]
    fe_cost, ret_cost, penalty, byte = c.front_end[0], c.retire[0], c.penalty[0], c.byte[0]
    s_rob, s_loads, s_stores, s_misses = s.rob, s.loads, s.stores, s.misses
    s_register, s_port, s_level = s.register, s.port, s.level
    by_register, by_port, by_level = who.register, who.port, who.level
    by_rob, by_loads, by_stores, by_misses = who.rob, who.loads, who.stores, who.misses
    c_use, c_latency, c_value, c_load, c_beyond = c.use, c.latency, c.value, c.load, c.beyond
    c_line, c_forward = c.line, c.forward
    p_read, p_write, p_use = p.read, p.write, p.use
    w_granule, w_code, w_size = w.granule, w.code, w.size
    rob, lb, sb, fb = len(s_rob), len(s_loads), len(s_stores), len(s_misses)
    mask = len(r.fe) - 1
    width = (mask + 1) // 2
    store_before, sweep_at = who.scalar[0], who.scalar[1]
    view_last = view.first + len(view.instruction)
    memory = np.zeros(PARENTS, dtype=np.int64)
    data = np.zeros(PARENTS, dtype=np.int64)
    address = np.zeros(PARENTS, dtype=np.int64)
    one = np.zeros(PARENTS, dtype=np.int64)
    j = 0
    for t in range(len(w.stream)):
        b = w.stream[t]
        late = w.mispredicted[t]
        for i in range(p.block_start[b], p.block_start[b + 1]):
            e = n & mask
            r.instruction[e] = i
            u = np.int64(p.slots[i])
            m0, m1 = p.operand_start[i], p.operand_start[i + 1]
            is_load, is_store = p.loads[i], p.stores[i]
            d0 = r.d0[e]
            nd = 0
            if n > 0:
                d0[0] = (n - 1) * NODES + D1
                nd = 1
            if late:
                disp, nd = _wait(disp, end + penalty, d0, nd, (n - 1) * NODES + END)
                late = False
            if u > 0:
                k = slots + u - 1
                if k >= rob:
                    k -= rob
                disp, nd = _wait(disp, s_rob[k], d0, nd, by_rob[k])
            if is_load:
                disp, nd = _wait(disp, s_loads[loads], d0, nd, by_loads[loads])
            if is_store:
                disp, nd = _wait(disp, s_stores[stores], d0, nd, by_stores[stores])
            r.d0_n[e] = nd
            if fe > disp:
                r.fe[e] = 1
            elif fe == disp:
                r.fe[e] = 3 if n > 0 else 2
            else:
                r.fe[e] = 2
                fe = disp
            fe += fe_cost * u
            disp = fe
            here = n * NODES
            na = 1
            address[0] = here + D1
            a = disp
            for k in range(p.address_start[i], p.address_start[i + 1]):
                q = p.address_register[k]
                a, na = _wait(a, s_register[q], address, na, by_register[q])
            u0 = p.use_start[i]
            u1 = u0 + p.load_uses[i]
            uses = 0
            for k in range(u0, u1):
                q = p_use[k]
                v = s_port[q]
                a, na = _wait(a, v, address, na, by_port[q])
                if uses < MAX_USES:
                    r.used[e, uses] = by_port[q] if v >= disp else -1
                    by_port[q] = here + USED + uses
                    uses += 1
                s_port[q] = (v if v > disp else disp) + c_use[k, 0]
            vector = 1 if p.vector[i] else 0
            nx = 0
            x = disp
            if is_load:
                data[0] = here + D1
                nx = 1
            else:
                x = a
                for k in range(na):
                    data[k] = address[k]
                nx = na
            loaded = NEVER
            nm = 0
            arrived = a
            for m in range(m0, m1):
                g = w_granule[j]
                if g < 0:
                    j += 1
                    continue
                code = w_code[j]
                level = np.int64(code & 3)
                size = np.int64(w_size[j])
                if (code & 64) != 0:
                    for k in range(u0, u1):
                        s_port[p_use[k]] += c_use[k, 0]
                if (code & 64) != 0 and ((code >> 2) & 3) > level:
                    level = np.int64((code >> 2) & 3)
                got = a
                no = na
                for k in range(na):
                    one[k] = address[k]
                for q in range(level + 1):
                    v = s_level[q]
                    got, no = _wait(got, v, one, no, by_level[q])
                    if uses < MAX_USES:
                        r.used[e, uses] = by_level[q] if v >= disp else -1
                        by_level[q] = here + USED + uses
                        uses += 1
                    s_level[q] = (v if v > disp else disp) + (size * byte if q == 0 else c_line[q, 0])
                for q in range(2, np.int64((code >> 4) & 3) + 1):
                    v = s_level[q]
                    got, no = _wait(got, v, one, no, by_level[q])
                    if uses < MAX_USES:
                        r.used[e, uses] = by_level[q] if v >= disp else -1
                        by_level[q] = here + USED + uses
                        uses += 1
                    s_level[q] = (v if v > disp else disp) + c_line[q, 0]
                if level > 0:
                    got, no = _wait(got, s_misses[misses], one, no, by_misses[misses])
                    s_misses[misses] = got + c_load[i, 0] + c_beyond[level, 0]
                    by_misses[misses] = here + END
                    misses = misses + 1 if misses + 1 < fb else 0
                if p_read[m]:
                    got += c_load[i, 0] + c_beyond[level + 4 * vector, 0]
                    until = min(g + ((size + 7) >> 3), (g | 511) + 1)
                    way = vector if code < 128 else 2
                    for q in range(g, until):
                        got, no = _wait(got, shadow[q] + c_forward[way, 0], one, no, writer[q])
                    if got > loaded:
                        loaded = got
                        nm = 0
                    if got == loaded:
                        for k in range(no):
                            if nm < PARENTS:
                                memory[nm] = one[k]
                                nm += 1
                elif level > 0 and got + c_beyond[level, 0] > arrived:
                    arrived = got + c_beyond[level, 0]
                j += 1
            for k in range(p.data_start[i], p.data_start[i + 1]):
                q = p.data_register[k]
                x, nx = _wait(x, s_register[q], data, nx, by_register[q])
            for k in range(u1, p.use_start[i + 1]):
                q = p_use[k]
                v = s_port[q]
                x, nx = _wait(x, v, data, nx, by_port[q])
                if uses < MAX_USES:
                    r.used[e, uses] = by_port[q] if v >= disp else -1
                    by_port[q] = here + USED + uses
                    uses += 1
                s_port[q] = (v if v > disp else disp) + c_use[k, 0]
            r.used_n[e] = uses
            end = x + c_latency[i, 0]
            from_memory = loaded + c_value[i, 0]
            ne = 0
            if end >= from_memory:
                for k in range(nx):
                    r.end[e, k] = data[k]
                ne = nx
            if from_memory >= end:
                for k in range(nm):
                    if ne < PARENTS:
                        r.end[e, ne] = memory[k]
                        ne += 1
                end = from_memory
            r.end_n[e] = ne
            for k in range(p.write_start[i], p.write_start[i + 1]):
                q = p.write_register[k]
                s_register[q] = end
                by_register[q] = here + END
            ret += ret_cost * u
            bits = 1
            if end > ret:
                ret = end
                bits = 2
            elif end == ret:
                bits = 3
            r.ret[e] = bits
            for _k in range(u):
                s_rob[slots] = ret
                by_rob[slots] = here + RET
                slots = slots + 1 if slots + 1 < rob else 0
            if is_load:
                s_loads[loads] = ret
                by_loads[loads] = here + RET
                loads = loads + 1 if loads + 1 < lb else 0
            if is_store:
                for m in range(m0, m1):
                    g = w_granule[j - (m1 - m)]
                    if g < 0 or not p_write[m]:
                        continue
                    until = min(g + ((np.int64(w_size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, until):
                        if shadow[q] < end:
                            shadow[q] = end
                            writer[q] = here + END
                written += TICKS
                bits = 1
                if ret > written:
                    written = ret
                    bits = 2
                elif ret == written:
                    bits = 3
                if arrived > written:
                    written = arrived
                    bits = 4
                elif arrived == written:
                    bits |= 4
                r.written[e] = bits
                r.before[e] = store_before
                store_before = n
                s_stores[stores] = written
                by_stores[stores] = here + WRITTEN
                stores = stores + 1 if stores + 1 < sb else 0
            if view.first <= n < view_last:
                k = n - view.first
                view.instruction[k] = i
                view.dispatch[k] = disp
                view.start[k] = x if loaded == NEVER or x > a else a
                view.end[k] = end
                view.retire[k] = ret
                for q in range(ne):
                    if r.end[e, q] // NODES != n:
                        view.parent[k] = r.end[e, q] // NODES
            n += 1
            if n == sweep_at:
                _sweep(r, n - 1, width, taints)
                sweep_at += width
    s.now[0], s.now[1], s.now[2], s.now[3], s.now[4] = disp, fe, ret, written, end
    s.counts[0], s.counts[1], s.counts[2], s.counts[3], s.counts[4] = n, slots, loads, stores, misses
    who.scalar[0], who.scalar[1] = store_before, sweep_at
