"""Taints by tight parents: which quantity's tick came from which, kept for the last instructions, judged now and then.

A taint is what can be reached from a quantity along constraints that hold with equality ("tight"). So the loop, beside
the ticks, writes down the tight parents of every quantity of the last instructions in a ring; every W / 2 instructions
(W being the length of the paper's taint queue) it marks what the dispatch reaches and judges the W / 2 instructions
that are 3/4 to 5/4 W old. The paper judges each when it is exactly W old (`causality_exact`): the two differ only where
W / 4 more or less of a window changes an instruction's membership.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from perfkit.simulators.cache import ABSENT, SPLIT
from perfkit.simulators.machine import QUEUE_RING, ROB_RING
from perfkit.simulators.program import REGISTERS

# The quantities of one instruction, numbers of bits of its mark; resources follow.
ENTER, FRONT, DISPATCH, ISSUE, BEGIN, DATA, END, DONE, RETIRE, COMMIT, RESOURCE = range(11)
EDGES = 96  # tight parents kept for one instruction
_OWN = (
    (1 << FRONT) | (1 << END) | (1 << DONE) | (1 << RETIRE) | (1 << COMMIT)
)  # quantities that the instruction itself taints

NOW, FRONT_TICK, RETIRED, COMMITTED = range(4)
UOPS, LOADS, STORES, MISSES, COUNT, COMMITS, WINDOW, JUDGED = range(8)


def new_state(ports: int, window: int) -> tuple[Any, ...]:
    """Return the empty machine: ticks and, beside each, the instruction it came from."""
    ring = 1 << (2 * window + 1).bit_length()
    return (
        np.zeros(4, np.int64),
        np.array([0, 0, 0, 0, 0, 0, window, 0]),
        np.zeros(REGISTERS, np.int64),
        np.full(REGISTERS, -1, np.int64),
        np.zeros(ports + 4, np.int64),
        np.full(ports + 4, -1, np.int64),
        np.zeros(ROB_RING, np.int64),
        np.full(ROB_RING, -1, np.int64),
        np.zeros((4, QUEUE_RING), np.int64),
        np.full((4, QUEUE_RING), -1, np.int64),
        np.zeros((ring, EDGES), np.int64),  # (child's quantity, parent's, parent instruction) packed
        np.zeros(ring, np.int32),  # edges of each
        np.zeros(ring, np.int32),  # static instruction of each
        np.zeros(ring, np.int64),  # marks
    )


@njit(cache=True, error_model="numpy")
def _edge(edges: Any, place: int, size: int, child: int, parent: int, instruction: int) -> int:
    """Note a tight parent; return how many there are now. Parents before the trace are left out."""
    if instruction < 0 or size >= EDGES:
        return size
    edges[place, size] = (instruction << 16) | (parent << 8) | child
    return size + 1


@njit(cache=True, error_model="numpy")
def judge(
    edges: Any, sizes: Any, statics: Any, marks: Any, newest: int, root: int, oldest: int, until: int, counts: Any
) -> None:
    """Mark what quantity `root` of the newest instruction reaches; count the marked ones from `oldest` to `until`."""
    ring = sizes.size
    for n in range(oldest, newest + 1):
        marks[n & (ring - 1)] = 0
    marks[newest & (ring - 1)] = np.int64(1) << root
    own = np.int64(_OWN)
    for n in range(newest, oldest - 1, -1):
        place = n & (ring - 1)
        if marks[place] == 0:
            continue
        for k in range(sizes[place] - 1, -1, -1):
            packed = edges[place, k]
            child = packed & 255
            if child < 63 and (marks[place] >> child) & 1:
                parent = packed >> 16
                if parent >= oldest:
                    marks[parent & (ring - 1)] |= np.int64(1) << ((packed >> 8) & 255)
        if n <= until and (marks[place] & own or marks[place] >> RESOURCE):
            counts[statics[place]] += 1


@njit(cache=True, error_model="numpy")
def simulate_causes(
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
    sizes_of: Any,
    commit: int,
    state: Any,
    counts: Any,
) -> None:
    """Run a chunk of a trace; add to `counts` (n,) how often each static instruction was in a cause."""
    ticks, totals, registers, writer, resources, user, rob, rob_by, queues, queue_by, edges, sizes, statics, marks = (
        state
    )
    front_tick, retire_tick, rob_size, load_size, store_size, fill_size = sizes_of
    a_start, a_register = address_registers
    d_start, d_register = data_registers
    w_start, w_register = written
    m_start, m_port, m_ticks = access_uses
    c_start, c_port, c_ticks = compute_uses
    ports = resources.size - 4
    ring = sizes.size
    every = max(totals[WINDOW] // 2, 1)
    window, judged = totals[WINDOW], totals[JUDGED]
    now, front, retired, committed = ticks[NOW], ticks[FRONT_TICK], ticks[RETIRED], ticks[COMMITTED]
    uop, load, store, miss = totals[UOPS], totals[LOADS], totals[STORES], totals[MISSES]
    n, commits = totals[COUNT], totals[COMMITS]
    at = 0
    for block in stream:
        for i in range(block_start[block], block_start[block + 1]):
            first, last = operand_start[i], operand_start[i + 1]
            e = n & (ring - 1)
            statics[e] = i
            size = 0
            taken = uops[i]
            uop += taken
            loading = storing = 0
            for m in range(first, last):
                if not codes[at + m - first] & ABSENT:
                    loading += reads[m]
                    storing += writes[m]
            # Into the window: the dispatch before this one, or the entries that had to become free.
            entered = now
            mark = size
            size = _edge(edges, e, size, ENTER, DISPATCH, n - 1)
            if taken > 0:
                place = (uop - 1 - rob_size) & (ROB_RING - 1)
                if rob[place] > entered:
                    entered, size = rob[place], mark
                if rob[place] == entered:
                    size = _edge(edges, e, size, ENTER, RETIRE, rob_by[place])
            if loading > 0:
                place = (load + loading - 1 - load_size) & (QUEUE_RING - 1)
                if queues[0, place] > entered:
                    entered, size = queues[0, place], mark
                if queues[0, place] == entered:
                    size = _edge(edges, e, size, ENTER, RETIRE, queue_by[0, place])
            if storing > 0:
                place = (commits + storing - 1 - store_size) & (QUEUE_RING - 1)
                if queues[1, place] > entered:
                    entered, size = queues[1, place], mark
                if queues[1, place] == entered:
                    size = _edge(edges, e, size, ENTER, COMMIT, queue_by[1, place])
            if entered >= front:
                size = _edge(edges, e, size, FRONT, ENTER, n)
            if front >= entered:
                size = _edge(edges, e, size, FRONT, FRONT, n - 1)
            front = max(front, entered) + taken * front_tick
            now = max(entered, front)
            size = _edge(edges, e, size, DISPATCH, FRONT, n)
            if entered == front:
                size = _edge(edges, e, size, DISPATCH, ENTER, n)
            ready = now
            has_data = False
            data = np.int64(0)
            seen = 0
            issue = now
            reached, reached_begin = now, False
            if last > first:
                mark = size
                size = _edge(edges, e, size, ISSUE, DISPATCH, n)
                for k in range(a_start[i], a_start[i + 1]):
                    r = a_register[k]
                    if registers[r] > issue:
                        issue, size = registers[r], mark
                    if registers[r] == issue:
                        size = _edge(edges, e, size, ISSUE, END, writer[r])
                for k in range(m_start[i], m_start[i + 1]):
                    r = m_port[k]
                    if resources[r] > issue:
                        issue, size = resources[r], mark
                    if resources[r] == issue:
                        size = _edge(edges, e, size, ISSUE, RESOURCE + r, user[r])
                for k in range(m_start[i], m_start[i + 1]):
                    r = m_port[k]
                    if resources[r] >= now:
                        size = _edge(edges, e, size, RESOURCE + r, RESOURCE + r, user[r])
                    resources[r] = max(resources[r], now) + m_ticks[k]
                    user[r] = n
                mark = size
                reached = issue
                for m in range(first, last):
                    code = np.int64(codes[at])
                    back = np.int64(distances[at])
                    at += 1
                    if code & ABSENT:
                        seen += writes[m]
                        continue
                    if code & SPLIT:
                        for k in range(m_start[i], m_start[i + 1]):
                            resources[m_port[k]] += m_ticks[k]
                    begin = issue
                    inner = size
                    size = _edge(edges, e, size, BEGIN, ISSUE, n)
                    for link in range(-1, 3):
                        lines = 1 if link < 0 else (code >> (2 + 3 * link)) & 7
                        if lines == 0 or (link < 0 and not reads[m]):
                            continue
                        r = ports + 1 + link
                        if resources[r] > begin:
                            begin, size = resources[r], inner
                        if resources[r] == begin:
                            size = _edge(edges, e, size, BEGIN, RESOURCE + r, user[r])
                    level = code & 3
                    if level > 0:
                        place = (miss - fill_size) & (QUEUE_RING - 1)
                        if queues[2, place] > begin:
                            begin, size = queues[2, place], inner
                        if queues[2, place] == begin:
                            size = _edge(edges, e, size, BEGIN, BEGIN, queue_by[2, place])
                    there = begin + address_latency[i] + farther[level]
                    if level > 0:
                        queues[2, miss & (QUEUE_RING - 1)] = there
                        queue_by[2, miss & (QUEUE_RING - 1)] = n
                        miss += 1
                    arrived = there
                    if reads[m]:
                        passed = np.int64(-1)
                        if back > 0:
                            place = (store + seen - back) & (QUEUE_RING - 1)
                            passed = queues[3, place] + forward[1 if vector[i] else 0]
                        arrived = max(there, passed)
                        if not has_data or arrived > data:
                            # Later than the operands before: forget what theirs came from.
                            for k in range(mark, size):
                                if edges[e, k] & 255 == DATA:
                                    edges[e, k] |= 255  # no quantity has this number
                            data, has_data = arrived, True
                        if arrived == data:
                            if there == arrived:
                                size = _edge(edges, e, size, DATA, BEGIN, n)
                            if passed == arrived:
                                size = _edge(edges, e, size, DATA, DONE, queue_by[3, place])
                    if writes[m]:
                        seen += 1
                        moment = there if level > 0 else begin
                        if moment >= reached:
                            reached_begin = True
                        reached = max(reached, moment)
                for link in range(-1, 3):
                    r = ports + 1 + link
                    lines = np.int64(0)
                    for m in range(first, last):
                        code = np.int64(codes[at - (last - m)])
                        if not code & ABSENT:
                            lines += reads[m] * l1[m] if link < 0 else ((code >> (2 + 3 * link)) & 7) * links[link]
                    if lines > 0:
                        if resources[r] >= now:
                            size = _edge(edges, e, size, RESOURCE + r, RESOURCE + r, user[r])
                        resources[r] = max(resources[r], now) + lines
                        user[r] = n
            # The computation.
            mark = size
            size = _edge(edges, e, size, END, DISPATCH, n)
            for k in range(d_start[i], d_start[i + 1]):
                r = d_register[k]
                if registers[r] > ready:
                    ready, size = registers[r], mark
                if registers[r] == ready:
                    size = _edge(edges, e, size, END, END, writer[r])
            for k in range(c_start[i], c_start[i + 1]):
                r = c_port[k]
                if resources[r] > ready:
                    ready, size = resources[r], mark
                if resources[r] == ready:
                    size = _edge(edges, e, size, END, RESOURCE + r, user[r])
            end = ready + latency[i]
            if has_data:
                if data + memory_latency[i] > end:
                    end, size = data + memory_latency[i], mark
                if data + memory_latency[i] == end:
                    size = _edge(edges, e, size, END, DATA, n)
            for k in range(c_start[i], c_start[i + 1]):
                r = c_port[k]
                if resources[r] >= now:
                    size = _edge(edges, e, size, RESOURCE + r, RESOURCE + r, user[r])
                resources[r] = max(resources[r], now) + c_ticks[k]
                user[r] = n
            for k in range(w_start[i], w_start[i + 1]):
                registers[w_register[k]] = end
                writer[w_register[k]] = n
            done = max(end, issue) if storing > 0 else end
            if end == done:
                size = _edge(edges, e, size, DONE, END, n)
            if storing > 0 and issue == done:
                size = _edge(edges, e, size, DONE, ISSUE, n)
            for k in range(seen):
                queues[3, (store + k) & (QUEUE_RING - 1)] = done
                queue_by[3, (store + k) & (QUEUE_RING - 1)] = n
            store += seen
            free = retired + taken * retire_tick
            if free >= done:
                size = _edge(edges, e, size, RETIRE, RETIRE, n - 1)
            if done >= free:
                size = _edge(edges, e, size, RETIRE, DONE, n)
            retired = max(free, done)
            for k in range(taken):
                rob[(uop - 1 - k) & (ROB_RING - 1)] = retired
                rob_by[(uop - 1 - k) & (ROB_RING - 1)] = n
            for k in range(loading):
                queues[0, (load + k) & (QUEUE_RING - 1)] = retired
                queue_by[0, (load + k) & (QUEUE_RING - 1)] = n
            load += loading
            for k in range(storing):
                free = committed + commit
                latest = max(free, max(retired, reached))
                if free == latest and k == 0 and commits > 0:
                    size = _edge(edges, e, size, COMMIT, COMMIT, queue_by[1, (commits - 1) & (QUEUE_RING - 1)])
                if retired == latest:
                    size = _edge(edges, e, size, COMMIT, RETIRE, n)
                if reached == latest:
                    size = _edge(edges, e, size, COMMIT, BEGIN if reached_begin else ISSUE, n)
                committed = latest
                queues[1, commits & (QUEUE_RING - 1)] = committed
                queue_by[1, commits & (QUEUE_RING - 1)] = n
                commits += 1
            sizes[e] = size
            n += 1
            if n % every == 0 and n >= window:
                until = n - window + every // 2
                judge(edges, sizes, statics, marks, n - 1, DISPATCH, judged, until - 1, counts)
                judged = until
    ticks[NOW], ticks[FRONT_TICK], ticks[RETIRED], ticks[COMMITTED] = now, front, retired, committed
    totals[UOPS], totals[LOADS], totals[STORES], totals[MISSES] = uop, load, store, miss
    totals[COUNT], totals[COMMITS], totals[JUDGED] = n, commits, judged
