"""Algorithm 1 for K configurations in lockstep: one pass over the trace, K lanes of maxima and sums.

The recurrence of `perfkit.simulators.gus_timing` is made of max and + only, so the lanes never branch apart and the
compiler turns them into vector instructions. The cache levels and the branch predictions do not depend on the
capacities that are varied, so one pass over memory serves every lane.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.simulators.gus_timing import NEVER, TICKS, Costs
from perfkit.simulators.program import REGISTERS, Program


class Lanes(NamedTuple):
    """The state of K configurations; the last axis of every array is the lane."""

    now: NDArray[np.int64]  # (5, K)
    counts: NDArray[np.int64]
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
    c_byte = c.byte
    c_fill_buffers = c.fill_buffers
    c_forward = c.forward
    c_front_end = c.front_end
    c_latency = c.latency
    c_beyond = c.beyond
    c_load = c.load
    c_value = c.value
    c_line = c.line
    c_load_buffer = c.load_buffer
    c_penalty = c.penalty
    c_retire = c.retire
    c_rob = c.rob
    c_store_buffer = c.store_buffer
    c_use = c.use
    p_address_register = p.address_register
    p_address_start = p.address_start
    p_block_start = p.block_start
    p_data_register = p.data_register
    p_data_start = p.data_start
    p_load_uses = p.load_uses
    p_loads = p.loads
    p_stores = p.stores
    p_operand_start = p.operand_start
    p_read = p.read
    p_slots = p.slots
    p_use = p.use
    p_use_start = p.use_start
    p_vector = p.vector
    p_write = p.write
    p_write_register = p.write_register
    p_write_start = p.write_start
    s_counts = s.counts
    s_level = s.level
    s_loads = s.loads
    s_misses = s.misses
    s_now = s.now
    s_port = s.port
    s_register = s.register
    s_rob = s.rob
    s_stores = s.stores
    w_code = w.code
    w_granule = w.granule
    w_mispredicted = w.mispredicted
    w_size = w.size
    w_stream = w.stream
    K = len(c_front_end)
    disp, fe, ret, written, end = s_now[0], s_now[1], s_now[2], s_now[3], s_now[4]
    n, slots, loads, stores, misses = s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4]
    rob, lb, sb, fb = len(s_rob) - 1, len(s_loads) - 1, len(s_stores) - 1, len(s_misses) - 1
    a = np.zeros(K, dtype=np.int64)
    x = np.zeros(K, dtype=np.int64)
    got = np.zeros(K, dtype=np.int64)
    arrived = np.zeros(K, dtype=np.int64)
    loaded = np.zeros(K, dtype=np.int64)
    j = 0
    for t in range(len(w_stream)):
        b = w_stream[t]
        if w_mispredicted[t]:
            for z in range(K):
                disp[z] = max(disp[z], end[z] + c_penalty[z])
        for i in range(p_block_start[b], p_block_start[b + 1]):
            u = np.int64(p_slots[i])
            m0, m1 = p_operand_start[i], p_operand_start[i + 1]
            is_load, is_store = p_loads[i], p_stores[i]
            if u > 0:
                for z in range(K):
                    disp[z] = max(disp[z], s_rob[(slots + u - 1 - c_rob[z]) & rob, z])
            if is_load:
                for z in range(K):
                    disp[z] = max(disp[z], s_loads[(loads - c_load_buffer[z]) & lb, z])
            if is_store:
                for z in range(K):
                    disp[z] = max(disp[z], s_stores[(stores - c_store_buffer[z]) & sb, z])
            for z in range(K):
                f = max(fe[z], disp[z]) + c_front_end[z] * u
                fe[z] = f
                disp[z] = f
                a[z] = f
            for k in range(p_address_start[i], p_address_start[i + 1]):
                r = p_address_register[k]
                for z in range(K):
                    a[z] = max(a[z], s_register[r, z])
            u0 = p_use_start[i]
            u1 = u0 + p_load_uses[i]
            for k in range(u0, u1):
                r = p_use[k]
                for z in range(K):
                    v = s_port[r, z]
                    a[z] = max(a[z], v)
                    s_port[r, z] = max(v, disp[z]) + c_use[k, z]
            for z in range(K):
                x[z] = disp[z] if is_load else a[z]
                loaded[z] = NEVER
                arrived[z] = a[z]
            vector = 1 if p_vector[i] else 0
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
                        r = p_use[k]
                        for z in range(K):
                            s_port[r, z] += c_use[k, z]
                if (code & 64) != 0 and ((code >> 2) & 3) > level:
                    level = np.int64((code >> 2) & 3)
                for z in range(K):
                    v = s_level[0, z]
                    got[z] = max(a[z], v)
                    s_level[0, z] = max(v, disp[z]) + size * c_byte[z]
                for q in range(1, level + 1):
                    for z in range(K):
                        v = s_level[q, z]
                        got[z] = max(got[z], v)
                        s_level[q, z] = max(v, disp[z]) + c_line[q, z]
                for q in range(2, np.int64((code >> 4) & 3) + 1):
                    for z in range(K):
                        v = s_level[q, z]
                        got[z] = max(got[z], v)
                        s_level[q, z] = max(v, disp[z]) + c_line[q, z]
                if level > 0:
                    for z in range(K):
                        got[z] = max(got[z], s_misses[(misses - c_fill_buffers[z]) & fb, z])
                        s_misses[misses & fb, z] = got[z] + c_load[i, z] + c_beyond[level, z]
                    misses += 1
                if p_read[m]:
                    for z in range(K):
                        got[z] += c_load[i, z] + c_beyond[level + 4 * vector, z]
                    last = min(g + ((size + 7) >> 3), (g | 511) + 1)
                    way = vector if code < 128 else 2
                    for q in range(g, last):
                        for z in range(K):
                            got[z] = max(got[z], shadow[q, z] + c_forward[way, z])
                    for z in range(K):
                        loaded[z] = max(loaded[z], got[z])
                elif level > 0:
                    for z in range(K):
                        arrived[z] = max(arrived[z], got[z] + c_beyond[level, z])
                j += 1
            for k in range(p_data_start[i], p_data_start[i + 1]):
                r = p_data_register[k]
                for z in range(K):
                    x[z] = max(x[z], s_register[r, z])
            for k in range(u1, p_use_start[i + 1]):
                r = p_use[k]
                for z in range(K):
                    v = s_port[r, z]
                    x[z] = max(x[z], v)
                    s_port[r, z] = max(v, disp[z]) + c_use[k, z]
            for z in range(K):
                end[z] = max(x[z] + c_latency[i, z], loaded[z] + c_value[i, z])
                ret[z] = max(ret[z] + c_retire[z] * u, end[z])
            for k in range(p_write_start[i], p_write_start[i + 1]):
                r = p_write_register[k]
                for z in range(K):
                    s_register[r, z] = end[z]
            for _k in range(u):
                for z in range(K):
                    s_rob[slots & rob, z] = ret[z]
                slots += 1
            if is_load:
                for z in range(K):
                    s_loads[loads & lb, z] = ret[z]
                loads += 1
            if is_store:
                for m in range(m0, m1):
                    g = w_granule[j - (m1 - m)]
                    if g < 0 or not p_write[m]:
                        continue
                    last = min(g + ((np.int64(w_size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, last):
                        for z in range(K):
                            shadow[q, z] = max(shadow[q, z], end[z])
                for z in range(K):
                    written[z] = max(max(written[z] + TICKS, ret[z]), arrived[z])
                    s_stores[stores & sb, z] = written[z]
                stores += 1
            n += 1
    s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4] = n, slots, loads, stores, misses
