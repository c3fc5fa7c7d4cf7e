"""Algorithm 1 for K configurations in lockstep: one pass over the trace, K lanes of maxima and sums.

The recurrence of `perfkit.simulators.gus_timing` is made of max and + only, so the lanes never branch apart and the
compiler turns them into vector instructions. The cache levels and the branch predictions do not depend on the
capacities that are varied, so one pass over memory serves every lane.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.simulators.gus_timing import TICKS, Costs
from perfkit.simulators.program import REGISTERS, Program


class Lanes(NamedTuple):
    """The state of K configurations; the last axis of every array is the lane."""

    now: NDArray[np.int64]  # (5, K)
    count: NDArray[np.int64]
    register: NDArray[np.int64]
    port: NDArray[np.int64]
    level: NDArray[np.int64]
    rob: NDArray[np.int64]
    loads: NDArray[np.int64]
    stores: NDArray[np.int64]
    misses: NDArray[np.int64]


def lanes(program: Program, cost: Costs) -> Lanes:
    """Return the state before the first instruction, for the K configurations of ``cost``."""
    k = len(cost.front_end)

    def ring(entries: NDArray[np.int64]) -> NDArray[np.int64]:
        # A power of two, so that positions are masked and lanes of other sizes fit in.
        return np.zeros((1 << int(np.ceil(np.log2(max(2, int(entries.max()) + 1)))), k), dtype=np.int64)

    def zeros(n: int) -> NDArray[np.int64]:
        return np.zeros((max(1, n), k), dtype=np.int64)

    return Lanes(
        zeros(5),
        np.zeros(6, dtype=np.int64),
        zeros(REGISTERS),
        zeros(len(program.groups)),
        zeros(4),
        ring(cost.rob),
        ring(cost.load_buffer),
        ring(cost.store_buffer),
        ring(cost.fill_buffers),
    )


@njit(cache=True)
def run_lanes(w: Any, p: Any, c: Any, s: Any, shadow: Any) -> None:  # pragma: no cover - compiled
    """Simulate one window in every lane; the rules, and their order, are those of `gus_timing.run`."""
    K = len(c.front_end)
    disp, fe, ret, written, end = s.now[0], s.now[1], s.now[2], s.now[3], s.now[4]
    n, slots, loads, stores, misses = s.count[0], s.count[1], s.count[2], s.count[3], s.count[4]
    rob, lb, sb, fb = len(s.rob) - 1, len(s.loads) - 1, len(s.stores) - 1, len(s.misses) - 1
    a = np.zeros(K, dtype=np.int64)
    x = np.zeros(K, dtype=np.int64)
    got = np.zeros(K, dtype=np.int64)
    arrived = np.zeros(K, dtype=np.int64)
    j = 0
    for t in range(len(w.stream)):
        b = w.stream[t]
        if w.mispredicted[t]:
            for z in range(K):
                disp[z] = max(disp[z], end[z] + c.penalty[z])
        for i in range(p.block_start[b], p.block_start[b + 1]):
            u = np.int64(p.slots[i])
            m0, m1 = p.operand_start[i], p.operand_start[i + 1]
            is_load = False
            is_store = False
            for m in range(m0, m1):
                is_load |= p.read[m]
                is_store |= p.write[m]
            if u > 0:
                for z in range(K):
                    disp[z] = max(disp[z], s.rob[(slots + u - 1 - c.rob[z]) & rob, z])
            if is_load:
                for z in range(K):
                    disp[z] = max(disp[z], s.loads[(loads - c.load_buffer[z]) & lb, z])
            if is_store:
                for z in range(K):
                    disp[z] = max(disp[z], s.stores[(stores - c.store_buffer[z]) & sb, z])
            for z in range(K):
                f = max(fe[z], disp[z]) + c.front_end[z] * u
                fe[z] = f
                disp[z] = f
                a[z] = f
            for k in range(p.address_start[i], p.address_start[i + 1]):
                r = p.address_register[k]
                for z in range(K):
                    a[z] = max(a[z], s.register[r, z])
            u0 = p.use_start[i]
            u1 = u0 + p.load_uses[i]
            for k in range(u0, u1):
                r = p.use[k]
                for z in range(K):
                    v = s.port[r, z]
                    a[z] = max(a[z], v)
                    s.port[r, z] = max(v, disp[z]) + c.use[k, z]
            for z in range(K):
                x[z] = a[z]
                arrived[z] = a[z]
            vector = 1 if p.vector[i] else 0
            for m in range(m0, m1):
                g = w.granule[j]
                if g < 0:
                    j += 1
                    continue
                code = w.code[j]
                level = np.int64(code & 3)
                size = np.int64(w.size[j])
                if (code & 64) != 0 and ((code >> 2) & 3) > level:
                    level = np.int64((code >> 2) & 3)
                for z in range(K):
                    v = s.level[0, z]
                    got[z] = max(a[z], v)
                    s.level[0, z] = max(v, disp[z]) + size * c.byte[z]
                for q in range(1, level + 1):
                    for z in range(K):
                        v = s.level[q, z]
                        got[z] = max(got[z], v)
                        s.level[q, z] = max(v, disp[z]) + c.line[q, z]
                for q in range(2, np.int64((code >> 4) & 3) + 1):
                    for z in range(K):
                        s.level[q, z] = max(s.level[q, z], disp[z]) + c.line[q, z]
                if level > 0:
                    for z in range(K):
                        got[z] = max(got[z], s.misses[(misses - c.fill_buffers[z]) & fb, z])
                        s.misses[misses & fb, z] = got[z] + c.level_latency[level, z]
                    misses += 1
                if p.read[m]:
                    for z in range(K):
                        got[z] += c.level_latency[level + 4 * vector, z]
                    last = min(g + ((size + 7) >> 3), (g | 511) + 1)
                    for q in range(g, last):
                        for z in range(K):
                            got[z] = max(got[z], shadow[q, z] + c.forward[vector, z])
                    for z in range(K):
                        x[z] = max(x[z], got[z])
                else:
                    for z in range(K):
                        arrived[z] = max(arrived[z], got[z] + c.level_latency[level, z])
                j += 1
            for k in range(p.data_start[i], p.data_start[i + 1]):
                r = p.data_register[k]
                for z in range(K):
                    x[z] = max(x[z], s.register[r, z])
            for k in range(u1, p.use_start[i + 1]):
                r = p.use[k]
                for z in range(K):
                    v = s.port[r, z]
                    x[z] = max(x[z], v)
                    s.port[r, z] = max(v, disp[z]) + c.use[k, z]
            for z in range(K):
                end[z] = x[z] + c.latency[i, z]
                ret[z] = max(ret[z] + c.retire[z] * u, end[z])
            for k in range(p.write_start[i], p.write_start[i + 1]):
                r = p.write_register[k]
                for z in range(K):
                    s.register[r, z] = end[z]
            for _k in range(u):
                for z in range(K):
                    s.rob[slots & rob, z] = ret[z]
                slots += 1
            if is_load:
                for z in range(K):
                    s.loads[loads & lb, z] = ret[z]
                loads += 1
            if is_store:
                for m in range(m0, m1):
                    g = w.granule[j - (m1 - m)]
                    if g < 0 or not p.write[m]:
                        continue
                    last = min(g + ((np.int64(w.size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, last):
                        for z in range(K):
                            shadow[q, z] = max(shadow[q, z], end[z])
                for z in range(K):
                    written[z] = max(max(written[z] + TICKS, ret[z]), arrived[z])
                    s.stores[stores & sb, z] = written[z]
                stores += 1
            n += 1
    s.count[0], s.count[1], s.count[2], s.count[3], s.count[4] = n, slots, loads, stores, misses
