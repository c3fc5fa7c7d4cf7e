"""Algorithm 1 for many configurations at once: what `gus_engine.simulate` computes, a lane a configuration, times only.

The model is maxima and additions of ticks, so that lanes never part: each step is one vector operation over all lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from perfkit.simulators.cache import ABSENT, SPLIT
from perfkit.simulators.machine import QUEUE_RING, ROB_RING
from perfkit.simulators.program import REGISTERS


def new_state(ports: int, lanes: int) -> tuple[Any, ...]:
    """Return the machines' empty state: counts, then by lane times, registers, resources and rings."""
    return (
        np.zeros(4, np.int64),  # uops, loads, stores, misses so far: the same in every lane
        np.zeros((4, lanes), np.int64),  # now, front end, retired, committed
        np.zeros((REGISTERS, lanes), np.int64),
        np.zeros((ports + 4, lanes), np.int64),
        np.zeros((ROB_RING, lanes), np.int64),
        np.zeros((4, QUEUE_RING, lanes), np.int64),
    )


@njit(cache=True, boundscheck=False, error_model="numpy")
def simulate_lanes(
    stream: Any,
    codes: Any,
    distances: Any,
    block_start: Any,
    operand_start: Any,
    reads: Any,
    writes: Any,
    uops: Any,
    vector: Any,
    address_registers: Any,
    data_registers: Any,
    written: Any,
    access_uses: Any,
    compute_uses: Any,
    latency: Any,
    memory_latency: Any,
    address_latency: Any,
    l1: Any,
    forward: Any,
    farther: Any,
    links: Any,
    widths: Any,
    buffers: Any,
    commit: Any,
    state: Any,
) -> None:
    """Run a chunk of a trace in every lane."""
    counts, times, registers, resources, rob, queues = state
    a_start, a_register = address_registers
    d_start, d_register = data_registers
    w_start, w_register = written
    m_start, m_port, m_ticks = access_uses
    c_start, c_port, c_ticks = compute_uses
    lanes = times.shape[1]
    ports = resources.shape[0] - 4
    uop, load, store, miss = counts
    now, front, retired, committed = times[0], times[1], times[2], times[3]
    front_tick, retire_tick = widths[0], widths[1]
    rob_size, load_size, store_size, fill_size = buffers[0], buffers[1], buffers[2], buffers[3]
    issue = np.zeros(lanes, np.int64)
    ready = np.zeros(lanes, np.int64)
    data = np.zeros(lanes, np.int64)
    begin = np.zeros(lanes, np.int64)
    reached = np.zeros(lanes, np.int64)
    at = 0
    for block in stream:
        for i in range(block_start[block], block_start[block + 1]):
            first, last = operand_start[i], operand_start[i + 1]
            taken = uops[i]
            uop += taken
            loading = storing = 0
            for m in range(first, last):
                if not codes[at + m - first] & ABSENT:
                    loading += reads[m]
                    storing += writes[m]
            if taken > 0:
                for z in range(lanes):
                    now[z] = max(now[z], rob[(uop - 1 - rob_size[z]) & (ROB_RING - 1), z])
            if loading > 0:
                for z in range(lanes):
                    now[z] = max(now[z], queues[0, (load + loading - 1 - load_size[z]) & (QUEUE_RING - 1), z])
            if storing > 0:
                for z in range(lanes):
                    now[z] = max(now[z], queues[1, (store + storing - 1 - store_size[z]) & (QUEUE_RING - 1), z])
            for z in range(lanes):
                front[z] = max(front[z], now[z]) + taken * front_tick[z]
                now[z] = max(now[z], front[z])
                ready[z] = now[z]
            seen = 0
            loaded = False
            if last > first:
                for z in range(lanes):
                    issue[z] = now[z]
                for k in range(a_start[i], a_start[i + 1]):
                    r = a_register[k]
                    for z in range(lanes):
                        issue[z] = max(issue[z], registers[r, z])
                for k in range(m_start[i], m_start[i + 1]):
                    r = m_port[k]
                    for z in range(lanes):
                        issue[z] = max(issue[z], resources[r, z])
                        resources[r, z] = max(resources[r, z], now[z]) + m_ticks[k, z]
                for z in range(lanes):
                    reached[z] = issue[z]
                for m in range(first, last):
                    code = np.int64(codes[at])
                    back = np.int64(distances[at])
                    at += 1
                    if code & ABSENT:
                        seen += writes[m]
                        continue
                    for z in range(lanes):
                        begin[z] = issue[z]
                    if code & SPLIT:
                        for k in range(m_start[i], m_start[i + 1]):
                            for z in range(lanes):
                                resources[m_port[k], z] += m_ticks[k, z]
                    if reads[m]:
                        for z in range(lanes):
                            begin[z] = max(begin[z], resources[ports, z])
                            resources[ports, z] = max(resources[ports, z], now[z]) + l1[m, z]
                    if code >> 2:
                        for link in range(3):
                            lines = (code >> (2 + 3 * link)) & 7
                            if lines > 0:
                                r = ports + 1 + link
                                for z in range(lanes):
                                    begin[z] = max(begin[z], resources[r, z])
                                    resources[r, z] = max(resources[r, z], now[z]) + lines * links[link, z]
                    level = code & 3
                    if level > 0:
                        for z in range(lanes):
                            begin[z] = max(begin[z], queues[2, (miss - fill_size[z]) & (QUEUE_RING - 1), z])
                            begin[z] += address_latency[i, z] + farther[level, z]
                            queues[2, miss & (QUEUE_RING - 1), z] = begin[z]
                        miss += 1
                    elif reads[m]:
                        for z in range(lanes):
                            begin[z] += address_latency[i, z]
                    if reads[m]:
                        if back > 0:
                            r = (store + seen - back) & (QUEUE_RING - 1)
                            kind = 1 if vector[i] else 0
                            for z in range(lanes):
                                begin[z] = max(begin[z], queues[3, r, z] + forward[kind, z])
                        if loaded:
                            for z in range(lanes):
                                data[z] = max(data[z], begin[z])
                        else:
                            for z in range(lanes):
                                data[z] = begin[z]
                        loaded = True
                    if writes[m]:
                        seen += 1
                        if level > 0 or not reads[m]:
                            for z in range(lanes):
                                reached[z] = max(reached[z], begin[z])
            for k in range(d_start[i], d_start[i + 1]):
                r = d_register[k]
                for z in range(lanes):
                    ready[z] = max(ready[z], registers[r, z])
            for k in range(c_start[i], c_start[i + 1]):
                r = c_port[k]
                for z in range(lanes):
                    ready[z] = max(ready[z], resources[r, z])
                    resources[r, z] = max(resources[r, z], now[z]) + c_ticks[k, z]
            if loaded:
                for z in range(lanes):
                    ready[z] = max(ready[z] + latency[i, z], data[z] + memory_latency[i, z])
            else:
                for z in range(lanes):
                    ready[z] += latency[i, z]
            for k in range(w_start[i], w_start[i + 1]):
                r = w_register[k]
                for z in range(lanes):
                    registers[r, z] = ready[z]
            if storing > 0:
                for z in range(lanes):
                    ready[z] = max(ready[z], issue[z])
            for k in range(seen):
                for z in range(lanes):
                    queues[3, (store + k) & (QUEUE_RING - 1), z] = ready[z]
            store += seen
            for z in range(lanes):
                retired[z] = max(retired[z] + taken * retire_tick[z], ready[z])
            for k in range(taken):
                for z in range(lanes):
                    rob[(uop - 1 - k) & (ROB_RING - 1), z] = retired[z]
            for k in range(loading):
                for z in range(lanes):
                    queues[0, (load + k) & (QUEUE_RING - 1), z] = retired[z]
            load += loading
            for k in range(storing):
                for z in range(lanes):
                    committed[z] = max(committed[z] + commit[z], max(retired[z], reached[z]))
                    queues[1, (store - storing + k) & (QUEUE_RING - 1), z] = committed[z]
    counts[0], counts[1], counts[2], counts[3] = uop, load, store, miss
