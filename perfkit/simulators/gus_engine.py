"""Algorithm 1 of Gus as a loop over a trace: one configuration with exact accounting.

Every quantity is the paper's ``tavail``: the earliest tick at which something is available; an instruction is
constrained by maxima of them, and a resource that it uses moves on by its inverse throughput from the instruction's
dispatch at the earliest (lines 10-16). What is beyond the listing, each as the project's design page asks: latencies by
operand, store forwarding, retirement in order with a width, load and store buffers, line fill buffers, split lines, and
separate latency and bandwidth of each level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from perfkit.simulators.cache import ABSENT, SPLIT
from perfkit.simulators.machine import QUEUE_RING, ROB_RING
from perfkit.simulators.program import REGISTERS

# What a tick of retirement can be spent on (`GusResult.cpi_stack`), in the order of the accounting's columns.
CAUSES = (
    "base",
    "front_end",
    "rob",
    "load_buffer",
    "store_buffer",
    "ports",
    "instruction_latency",
    "L1_latency",
    "store_forward_latency",
    "L2_latency",
    "L3_latency",
    "memory_latency",
    "L1_bandwidth",
    "L2_bandwidth",
    "L3_bandwidth",
    "memory_bandwidth",
    "line_fill_buffers",
)
_FRONT_END, _ROB, _LOADS, _STORES, _PORTS, _LATENCY, _L1, _FORWARD, _BANDWIDTH, _FILL = 1, 2, 3, 4, 5, 6, 7, 8, 12, 16

# Scalars carried from chunk to chunk, as places in `state`.
NOW, FRONT, RETIRED, UOPS, LOADS, STORES, MISSES, COMMITTED, COUNT = range(9)
SCHEDULE = ("instruction", "dispatch", "start", "end", "retire")


def new_state(ports: int) -> tuple[Any, ...]:
    """Return the machine's empty state: scalars, registers, resources, and the rings of what is in flight."""
    return (
        np.zeros(9, np.int64),
        np.zeros(REGISTERS, np.int64),
        np.zeros(ports + 4, np.int64),
        np.zeros(ROB_RING, np.int64),
        np.zeros((4, QUEUE_RING), np.int64),  # load buffer, store buffer, line fill buffers, stored data
    )


@njit(cache=True)
def simulate(
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
    sizes: Any,
    commit: int,
    state: Any,
    spent: Any,
    used: Any,
    schedule: Any,
    schedule_first: int,
) -> None:
    """Run a chunk of a trace; `spent` (n, causes), `used` (resources) and `schedule` are added to in place."""
    scalars, registers, resources, rob, queues = state
    front_tick, retire_tick, rob_size, load_size, store_size, fill_size = sizes
    a_start, a_register = address_registers
    d_start, d_register = data_registers
    w_start, w_register = written
    m_start, m_port, m_ticks = access_uses
    c_start, c_port, c_ticks = compute_uses
    ports = resources.size - 4
    now, front, retired = scalars[NOW], scalars[FRONT], scalars[RETIRED]
    uop, load, store, miss = scalars[UOPS], scalars[LOADS], scalars[STORES], scalars[MISSES]
    committed, count = scalars[COMMITTED], scalars[COUNT]
    slot = max(front_tick, retire_tick)
    at = 0
    for block in stream:
        for i in range(block_start[block], block_start[block + 1]):
            first, last = operand_start[i], operand_start[i + 1]
            # Dispatch: a free entry in every buffer, then the front end (lines 20-26).
            why = _FRONT_END
            uop += uops[i]
            if uops[i] > 0:
                free = rob[(uop - 1 - rob_size) & (ROB_RING - 1)]
                if free > now:
                    now, why = free, _ROB
            loading = storing = 0
            for m in range(first, last):
                if codes[at + m - first] & ABSENT:
                    continue
                loading += reads[m]
                storing += writes[m]
            if loading > 0:
                free = queues[0, (load + loading - 1 - load_size) & (QUEUE_RING - 1)]
                if free > now:
                    now, why = free, _LOADS
            if storing > 0:
                free = queues[1, (store + storing - 1 - store_size) & (QUEUE_RING - 1)]
                if free > now:
                    now, why = free, _STORES
            front = max(front, now) + uops[i] * front_tick
            if front > now:
                now, why = front, _FRONT_END
            # The access: address registers and the ports of loads and stores.
            issue = now
            for k in range(a_start[i], a_start[i + 1]):
                issue = max(issue, registers[a_register[k]])
            unhindered = issue
            for k in range(m_start[i], m_start[i + 1]):
                port = m_port[k]
                issue = max(issue, resources[port])
                resources[port] = max(resources[port], now) + m_ticks[k]
                used[port] += m_ticks[k]
            data, start, waited = np.int64(-1), issue, _PORTS
            level_cause: Any = _L1
            reached, seen = issue, 0
            for m in range(first, last):
                code = np.int64(codes[at])
                back = np.int64(distances[at])
                at += 1
                if code & ABSENT:
                    seen += writes[m]
                    continue
                begin, wait = issue, _PORTS
                if code & SPLIT:
                    for k in range(m_start[i], m_start[i + 1]):
                        resources[m_port[k]] += m_ticks[k]
                        used[m_port[k]] += m_ticks[k]
                if reads[m]:
                    if resources[ports] > begin:
                        begin, wait = resources[ports], _BANDWIDTH
                    resources[ports] = max(resources[ports], now) + l1[m]
                    used[ports] += l1[m]
                for link in range(3):
                    lines = (code >> (2 + 3 * link)) & 7
                    if lines > 0:
                        place = ports + 1 + link
                        if resources[place] > begin:
                            begin, wait = resources[place], _BANDWIDTH + 1 + link
                        resources[place] = max(resources[place], now) + lines * links[link]
                        used[place] += lines * links[link]
                level = code & 3
                if level > 0:
                    free = queues[2, (miss - fill_size) & (QUEUE_RING - 1)]
                    if free > begin:
                        begin, wait = free, _FILL
                there = begin + address_latency[i] + farther[level]
                if level > 0:
                    queues[2, miss & (QUEUE_RING - 1)] = there
                    miss += 1
                if reads[m]:
                    cause: Any = _L1 if level == 0 else _FORWARD + level
                    if back > 0:
                        passed = queues[3, (store + seen - back) & (QUEUE_RING - 1)] + forward[1 if vector[i] else 0]
                        if passed > there:
                            there, cause = passed, _FORWARD
                    if there > data:
                        data, start, waited, level_cause = there, begin, wait, cause
                if writes[m]:
                    seen += 1
                    reached = max(reached, there if level > 0 else begin)
            # The computation: data registers and the other ports (lines 30-35).
            ready = now
            for k in range(d_start[i], d_start[i + 1]):
                ready = max(ready, registers[d_register[k]])
            operands = ready
            for k in range(c_start[i], c_start[i + 1]):
                port = c_port[k]
                ready = max(ready, resources[port])
                resources[port] = max(resources[port], now) + c_ticks[k]
                used[port] += c_ticks[k]
            end = ready + latency[i]
            by_load = False
            if data >= 0 and data + memory_latency[i] > end:
                end = data + memory_latency[i]
                by_load = True
            done = end
            if storing > 0:
                done = max(end, issue)
            for k in range(seen):
                queues[3, (store + k) & (QUEUE_RING - 1)] = done
            store += seen
            for k in range(w_start[i], w_start[i + 1]):
                registers[w_register[k]] = end
            # Retirement, in order.
            free = retired + uops[i] * retire_tick
            new = max(free, done)
            for k in range(uops[i]):
                rob[(uop - 1 - k) & (ROB_RING - 1)] = new
            for k in range(loading):
                queues[0, (load + k) & (QUEUE_RING - 1)] = new
            load += loading
            for k in range(storing):
                committed = max(committed + commit, new, reached)
                queues[1, (store - storing + k) & (QUEUE_RING - 1)] = committed
            # Accounting: what the ticks since the last retirement were spent on. What came before the dispatch is
            # the front end's or a full buffer's; then what a bandwidth or a port held back, which would have been
            # saved without it; what is left are latencies, the last stage of this instruction's life last.
            base = min(new - retired, uops[i] * slot)
            spent[i, 0] += base
            low = retired + base
            if new > low:
                late = max(min(now, new) - low, 0)
                spent[i, why] += late
                left = new - low - late
                if by_load:
                    part = min(left, start - issue)
                    spent[i, waited] += part
                    left -= part
                    part = min(left, issue - unhindered)
                    spent[i, _PORTS] += part
                    left -= part
                    part = min(left, max(data - max(low, now), 0))
                    spent[i, level_cause] += part
                    left -= part
                else:
                    held = issue - unhindered if done > end else ready - operands
                    part = min(left, held)
                    spent[i, _PORTS] += part
                    left -= part
                spent[i, _LATENCY] += left
            retired = new
            place = count - schedule_first
            if 0 <= place < schedule.shape[0]:
                schedule[place, 0] = i
                schedule[place, 1] = now
                schedule[place, 2] = max(ready, issue if loading + storing > 0 else ready)
                schedule[place, 3] = done
                schedule[place, 4] = new
            count += 1
    scalars[NOW], scalars[FRONT], scalars[RETIRED] = now, front, retired
    scalars[UOPS], scalars[LOADS], scalars[STORES], scalars[MISSES] = uop, load, store, miss
    scalars[COMMITTED], scalars[COUNT] = committed, count
