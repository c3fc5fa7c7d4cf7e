"""The scheduling engine of `DagScheduler`: one pass over the executed blocks, in numba.

Nodes are taken in trace order and each gets its issue cycle at once: the first cycle with its operands, its buffer
entry and room on every unit it needs, given all older nodes. That is oldest-first issue: no node delays an older one.
Cycles are closed (counted in the histogram) as fetch passes them; nothing is kept per cycle or per node unless asked.

The histogram counts cycles by which node types execute, which issue, and which buffers stall: every time, utilisation
and overlap of the extended roofline follows from it.

Helpers are inlined and count no references (see `perfkit.simulators.reuse`); the hot state lives in `run`'s locals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perfkit.simulators.dag_core import BUFFERS, TYPES
from perfkit.simulators.reuse import compiled, full, index_of, inlined, touch

Ints = npt.NDArray[np.int64]

# Node types, as bits of the histogram's masks and columns of `Rings.used`.
N_TYPES = len(TYPES)
FIRST_LEVEL = 3
LOAD_PORT, STORE_PORT, AGU, COLUMNS = 7, 8, 9, 10
ISSUE_SHIFT, STALL_SHIFT, HISTOGRAM = N_TYPES, 2 * N_TYPES, 1 << (2 * N_TYPES + len(BUFFERS))
_RS, _ROB, _LB, _SB, _LFB = 1, 2, 4, 8, 16

# Operation codes (perfkit.dag).
_DIVIDE, _LOAD, _STORE, _FORWARD, _CALL = 2, 3, 4, 5, 6

# Reasons to return before the records are used up: the driver makes room and calls again.
DONE, GROW_RINGS, GROW_LINES, GROW_FRAMES, GROW_NODES, GROW_CYCLES = range(6)

# Places of the saved scalars between two calls.
(
    FETCH, LEFT, RS_COUNT, ROB_HEAD, ROB_COUNT, LB_COUNT, SB_COUNT, LFB_COUNT, LB_UNTIL, SB_UNTIL, LFB_UNTIL,
    LAST_LOAD, LAST_STORE, END, RESERVED, NODES, PREVIOUS, BASE, TOP, DEPTH, AT_RECORD, AT_OP, AT_ADDRESS, SCALARS,
) = range(24)  # fmt: skip

# Places in the parameter array.
(
    WIDTH, ROB, RS, LB, SB, LFB, X86_ORDER, INFLIGHT, MEMORY_DEPS, LINE_SHIFT, WORD_SHIFT, LINE_BYTES_BELOW, MARGIN,
    PARAMETERS,
) = range(14)  # fmt: skip
UNLIMITED = np.int64(2**62)


class Units(NamedTuple):
    """Per column of `Rings.used`: lanes, cycles a node keeps its lane, and per node type its latency.

    A throughput of 3/2 a cycle is three lanes that a node keeps for two cycles. Lanes of `UNLIMITED` are not modelled.
    """

    lanes: Ints
    hold: Ints
    latency: Ints


class Rings(NamedTuple):
    """Cycles from fetch on, in rings: lanes in use, where the next free one is, who issues, who leaves the RS."""

    used: npt.NDArray[np.uint16]
    skip: npt.NDArray[np.int32]
    issues: npt.NDArray[np.uint8]
    leaves: npt.NDArray[np.int32]


class Buffers(NamedTuple):
    """Completion cycles: the ROB as a ring, load, store and line fill buffers as heaps."""

    rob: Ints
    lb: Ints
    sb: Ints
    lfb: Ints


class Memory(NamedTuple):
    """Per line: when its outstanding miss returns. Per word: when it was last stored."""

    returns: Ints
    stored: Ints


class Frames(NamedTuple):
    """Ready cycles of the values of all active functions, and the stack of callers."""

    ready: Ints
    phis: Ints
    base: Ints
    into: Ints


class Tally(NamedTuple):
    """Cycles by state, nodes by type and shape, and until when each type executes."""

    histogram: Ints
    nodes: Ints
    until: Ints


class Record(NamedTuple):
    """Per node its issue, completion and type; per cycle its stalls. Of length 0 when nothing is recorded."""

    issue: Ints
    done: Ints
    type: npt.NDArray[np.uint8]
    stalls: npt.NDArray[np.uint8]


@inlined
def _push(heap: Any, n: Any, value: Any) -> None:
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= value:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = value


@inlined
def _pop(heap: Any, n: Any) -> None:
    """Remove the smallest of `n` values."""
    last = heap[n - 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n - 1:
            break
        if child + 1 < n - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last


@inlined
def _entry(heap: Any, n: Any, size: Any, now: Any) -> tuple[Any, Any]:
    """Return the first cycle from `now` on with a free entry, and how many entries are taken then."""
    if n < size:
        return now, n
    while n > 0 and heap[0] <= now:
        _pop(heap, n)
        n -= 1
    if n < size:
        return now, n
    free = heap[0]
    _pop(heap, n)
    return free, n - 1


@inlined
def _free_cycle(rings: Any, column: Any, lanes: Any, at: Any, limit: Any) -> Any:
    """Return the first cycle from `at` on in which not all lanes are in use. Nothing is in use from `limit` on."""
    mask = rings.used.shape[0] - 1
    while at < limit and rings.used[at & mask, column] >= lanes:
        ahead = at + rings.skip[at & mask, column]
        # Shorten the chain of full cycles for those who come after.
        if ahead < limit and rings.used[ahead & mask, column] >= lanes:
            rings.skip[at & mask, column] += rings.skip[ahead & mask, column]
        at = ahead
    return at


@inlined
def _fit(rings: Any, column: Any, lanes: Any, need: Any, hold: Any, at: Any, limit: Any) -> Any:
    """Return the first cycle from `at` on from which `need` lanes are free for `hold` cycles."""
    mask = rings.used.shape[0] - 1
    while True:
        at = _free_cycle(rings, column, lanes, at, limit)
        if need == 1 and hold == 1:
            return at
        blocked = False
        for cycle in range(at, at + hold):
            if cycle < limit and rings.used[cycle & mask, column] + need > lanes:
                at = cycle + 1
                blocked = True
                break
        if not blocked:
            return at


@inlined
def _take(rings: Any, column: Any, lanes: Any, need: Any, hold: Any, at: Any) -> None:
    mask = rings.used.shape[0] - 1
    for cycle in range(at, at + hold):
        rings.used[cycle & mask, column] += need
        if rings.used[cycle & mask, column] >= lanes:
            rings.skip[cycle & mask, column] = 1


@inlined
def _close(cycle: Any, stall: Any, rings: Any, units: Any, tally: Any, record: Any) -> None:
    """Count a cycle that fetch leaves behind, and make its place in the rings free for a later one."""
    i = cycle & (rings.used.shape[0] - 1)
    issued = np.int64(rings.issues[i])
    executing = issued
    for k in range(N_TYPES):
        if (issued >> k) & 1:
            tally.until[k] = max(tally.until[k], cycle + units.latency[k])
        if tally.until[k] > cycle:
            executing |= 1 << k
    tally.histogram[executing | (issued << ISSUE_SHIFT) | (stall << STALL_SHIFT)] += 1
    if cycle < record.stalls.shape[0]:
        record.stalls[cycle] = stall
    rings.issues[i] = 0
    for column in range(COLUMNS):
        rings.used[i, column] = 0


@inlined
def _waits(cycle: Any, lb_until: Any, sb_until: Any, lfb_until: Any) -> Any:
    """Return the stall bits of load, store and line fill buffers in a cycle."""
    return (lb_until > cycle) * _LB | (sb_until > cycle) * _SB | (lfb_until > cycle) * _LFB


@inlined
def _operand(slot: Any, base: Any, frames: Any) -> Any:
    return frames.ready[base + slot] if slot >= 0 else np.int64(0)


@inlined
def _phis(block: Any, previous: Any, base: Any, program: Any, frames: Any) -> None:
    """Let the PHIs of a block take over, all at once, what they chose by the previous block."""
    first, end = program.block_phis[block], program.block_phis[block + 1]
    for k in range(first, end):
        slot = np.int64(-1)
        for edge in range(program.phi_edges[k], program.phi_edges[k + 1]):
            if program.edge_from[edge] == previous:
                slot = program.edge_slot[edge]
                break
        frames.phis[k - first] = _operand(slot, base, frames)
    for k in range(first, end):
        frames.ready[base + program.phi_into[k]] = frames.phis[k - first]


@compiled
def warm_up(records: Any, start: Any, length: Any, program: Any, stack: Any, line_shift: Any) -> Any:
    """Fill the caches by the accesses of the records alone; return where to go on (after `grown`) or `length`."""
    at = start
    while at < length:
        count = program.block_addresses[records[at]]
        if (stack.scalars[3] + count) * 64 > stack.place.shape[0]:
            return at
        for i in range(at + 1, at + 1 + count):
            if records[i] >= 0:
                touch(index_of(records[i] >> line_shift, stack), stack)
        at += 1 + count
    return at


@compiled
def drain(saved: Any, rings: Any, units: Any, tally: Any, record: Any) -> Any:
    """Close the cycles up to the last completion."""
    if saved[END] > record.stalls.shape[0] > 0:
        return GROW_CYCLES
    while saved[FETCH] < saved[END]:
        cycle = saved[FETCH]
        stall = _waits(cycle, saved[LB_UNTIL], saved[SB_UNTIL], saved[LFB_UNTIL])
        _close(cycle, stall, rings, units, tally, record)
        saved[FETCH] = cycle + 1
    return DONE


@compiled
def run(
    records: Any,
    length: Any,
    program: Any,
    parameters: Any,
    units: Any,
    saved: Any,
    rings: Any,
    buffers: Any,
    memory: Any,
    stack: Any,
    frames: Any,
    tally: Any,
    record: Any,
) -> Any:
    """Schedule the nodes of the records; return DONE, or what has no room left (nothing is lost: call again)."""
    width, rob_size, rs_size = parameters[WIDTH], parameters[ROB], parameters[RS]
    lb_size, sb_size, lfb_size = parameters[LB], parameters[SB], parameters[LFB]
    x86_order, inflight, memory_deps = parameters[X86_ORDER], parameters[INFLIGHT], parameters[MEMORY_DEPS]
    line_shift, word_shift = parameters[LINE_SHIFT], parameters[WORD_SHIFT]
    line_bytes, margin = parameters[LINE_BYTES_BELOW], parameters[MARGIN]
    ring_size = rings.used.shape[0]
    mask = ring_size - 1
    words = np.int64(1) << (line_shift - word_shift)

    fetch, left, rs_count = saved[FETCH], saved[LEFT], saved[RS_COUNT]
    rob_head, rob_count = saved[ROB_HEAD], saved[ROB_COUNT]
    lb_count, sb_count, lfb_count = saved[LB_COUNT], saved[SB_COUNT], saved[LFB_COUNT]
    lb_until, sb_until, lfb_until = saved[LB_UNTIL], saved[SB_UNTIL], saved[LFB_UNTIL]
    last_load, last_store = saved[LAST_LOAD], saved[LAST_STORE]
    end, reserved, nodes = saved[END], saved[RESERVED], saved[NODES]
    previous, base, top, depth = saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH]
    at, op_at, address_at = saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS]

    status = DONE
    while at < length:
        block = records[at]
        if op_at < 0:
            if program.block_phis[block + 1] > program.block_phis[block]:
                _phis(block, previous, base, program, frames)
            op_at = program.block_ops[block]
            address_at = at + 1
        block_end = program.block_ops[block + 1]
        while op_at < block_end:
            code = program.op[op_at]
            left_ready = _operand(program.left[op_at], base, frames)
            right_ready = _operand(program.right[op_at], base, frames)
            ready = max(left_ready, right_ready)
            if code >= _FORWARD:
                if code == _FORWARD:
                    frames.ready[base + program.into[op_at]] = ready
                elif code == _CALL:
                    call = program.call[op_at]
                    inner = base + program.call_frame[call]
                    if depth + 1 >= frames.base.shape[0] or inner + top > frames.ready.shape[0]:
                        status = GROW_FRAMES
                        break
                    for arg in range(program.call_args[call], program.call_args[call + 1]):
                        frames.ready[inner + program.arg_into[arg]] = _operand(program.arg_from[arg], base, frames)
                    frames.base[depth] = base
                    frames.into[depth] = program.into[op_at]
                    depth += 1
                    base = inner
                else:
                    depth -= 1
                    base = frames.base[depth]
                    if frames.into[depth] >= 0:
                        frames.ready[base + frames.into[depth]] = ready
                op_at += 1
                continue

            # Room for whatever this node may do.
            horizon = max(end, reserved, fetch + 1) + margin
            if horizon - fetch >= ring_size:
                status = GROW_RINGS
                break
            if record.issue.shape[0] > 0 and nodes >= record.issue.shape[0]:
                status = GROW_NODES
                break
            if record.stalls.shape[0] > 0 and horizon >= record.stalls.shape[0]:
                status = GROW_CYCLES
                break
            if full(stack):
                status = GROW_LINES
                break

            # Fetch. A full RS, then a full ROB, holds it up.
            if left == 0 or rs_count >= rs_size or rob_count >= rob_size:
                wanted = fetch
                while rs_count >= rs_size:
                    stall = _waits(fetch, lb_until, sb_until, lfb_until) | (_RS if fetch > wanted else 0)
                    _close(fetch, stall, rings, units, tally, record)
                    fetch += 1
                    rs_count -= rings.leaves[fetch & mask]
                    rings.leaves[fetch & mask] = 0
                while rob_count >= rob_size:
                    while rob_count > 0 and buffers.rob[rob_head] <= fetch:
                        rob_head = rob_head + 1 if rob_head + 1 < rob_size else 0
                        rob_count -= 1
                    if rob_count < rob_size:
                        break
                    stall = _waits(fetch, lb_until, sb_until, lfb_until) | (_ROB if fetch > wanted else 0)
                    _close(fetch, stall, rings, units, tally, record)
                    fetch += 1
                    rs_count -= rings.leaves[fetch & mask]
                    rings.leaves[fetch & mask] = 0
                if fetch > wanted:
                    left = width
                elif left == 0:
                    _close(fetch, _waits(fetch, lb_until, sb_until, lfb_until), rings, units, tally, record)
                    fetch += 1
                    rs_count -= rings.leaves[fetch & mask]
                    rings.leaves[fetch & mask] = 0
                    left = width
            left -= 1

            shape = program.shape[op_at]
            limit = fetch + ring_size
            issue = max(fetch, ready)
            if code <= _DIVIDE:
                kind = np.int64(code)
                if units.lanes[kind] < UNLIMITED:
                    issue = _fit(rings, kind, units.lanes[kind], 1, units.hold[kind], issue, limit)
                    _take(rings, kind, units.lanes[kind], 1, units.hold[kind], issue)
                    reserved = max(reserved, issue + units.hold[kind])
                if issue > fetch:
                    rings.leaves[issue & mask] += 1
                    rs_count += 1
                done = issue + units.latency[kind]
            else:
                load = code == _LOAD
                address = records[address_at]
                address_at += 1
                x = np.int64(-1)
                level = np.int64(program.level[op_at])
                if address >= 0:
                    x = index_of(address >> line_shift, stack)
                    reused = touch(x, stack)
                    if level < 0:
                        level = reused
                kind = FIRST_LEVEL + level
                # The buffers, in trace order.
                if load:
                    entry, lb_count = _entry(buffers.lb, lb_count, lb_size, fetch)
                    lb_until = max(lb_until, entry) if entry > fetch else lb_until
                    port = LOAD_PORT
                else:
                    entry, sb_count = _entry(buffers.sb, sb_count, sb_size, fetch)
                    sb_until = max(sb_until, entry) if entry > fetch else sb_until
                    port = STORE_PORT
                if entry > fetch:
                    rings.leaves[entry & mask] += 1
                    rs_count += 1
                issue = max(issue, entry)
                if level > 0:
                    line_entry, lfb_count = _entry(buffers.lfb, lfb_count, lfb_size, fetch)
                    lfb_until = max(lfb_until, line_entry) if line_entry > fetch else lfb_until
                    issue = max(issue, line_entry)
                # The order of memory operations.
                if x86_order:
                    issue = max(issue, last_load)
                    if not load:
                        issue = max(issue, last_store)
                word, word_end = np.int64(0), np.int64(0)
                if x >= 0:
                    if inflight:
                        issue = max(issue, memory.returns[x])
                    if memory_deps:
                        size = program.shapes[shape, 0] * program.shapes[shape, 1]
                        word = x * words + ((address >> word_shift) & (words - 1))
                        word_end = min(word + max(size >> word_shift, 1), (x + 1) * words)
                        if load:
                            for w in range(word, word_end):
                                issue = max(issue, memory.stored[w])
                # Bandwidth: the port, the address unit and the level.
                need, hold = np.int64(1), units.hold[kind]
                if level > 0:
                    elements = program.shapes[shape, 0]
                    if line_bytes > 0:
                        elements = max(np.int64(1), line_bytes // program.shapes[shape, 1])
                    need = min(elements, units.lanes[kind])
                    hold = hold * ((elements + need - 1) // need)
                while True:
                    first = issue
                    if units.lanes[port] < UNLIMITED:
                        issue = _free_cycle(rings, port, units.lanes[port], issue, limit)
                    if units.lanes[AGU] < UNLIMITED:
                        issue = _free_cycle(rings, AGU, units.lanes[AGU], issue, limit)
                    if units.lanes[kind] < UNLIMITED:
                        issue = _fit(rings, kind, units.lanes[kind], need, hold, issue, limit)
                    if issue == first:
                        break
                if units.lanes[port] < UNLIMITED:
                    _take(rings, port, units.lanes[port], 1, 1, issue)
                if units.lanes[AGU] < UNLIMITED:
                    _take(rings, AGU, units.lanes[AGU], 1, 1, issue)
                if units.lanes[kind] < UNLIMITED:
                    _take(rings, kind, units.lanes[kind], need, hold, issue)
                reserved = max(reserved, issue + hold)
                done = issue + units.latency[kind]
                if load:
                    last_load = issue
                    if lb_size < UNLIMITED:
                        _push(buffers.lb, lb_count, done)
                        lb_count += 1
                else:
                    last_store = issue
                    if sb_size < UNLIMITED:
                        _push(buffers.sb, sb_count, done)
                        sb_count += 1
                    for w in range(word, word_end):
                        memory.stored[w] = issue
                if level > 0:
                    if lfb_size < UNLIMITED:
                        _push(buffers.lfb, lfb_count, done)
                        lfb_count += 1
                    if x >= 0:
                        memory.returns[x] = done
            if rob_size < UNLIMITED:
                tail = rob_head + rob_count
                buffers.rob[tail if tail < rob_size else tail - rob_size] = done
                rob_count += 1
            rings.issues[issue & mask] |= np.uint8(1 << kind)
            tally.nodes[kind * program.shapes.shape[0] + shape] += 1
            end = max(end, done, issue + 1)
            if program.into[op_at] >= 0:
                frames.ready[base + program.into[op_at]] = done
            if record.issue.shape[0] > 0:
                record.issue[nodes] = issue
                record.done[nodes] = done
                record.type[nodes] = kind
            nodes += 1
            op_at += 1
        if status != DONE:
            break
        previous = program.block_origin[block]
        at += 1 + program.block_addresses[block]
        op_at = -1

    saved[FETCH], saved[LEFT], saved[RS_COUNT] = fetch, left, rs_count
    saved[ROB_HEAD], saved[ROB_COUNT] = rob_head, rob_count
    saved[LB_COUNT], saved[SB_COUNT], saved[LFB_COUNT] = lb_count, sb_count, lfb_count
    saved[LB_UNTIL], saved[SB_UNTIL], saved[LFB_UNTIL] = lb_until, sb_until, lfb_until
    saved[LAST_LOAD], saved[LAST_STORE] = last_load, last_store
    saved[END], saved[RESERVED], saved[NODES] = end, reserved, nodes
    saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH] = previous, base, top, depth
    saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS] = at, op_at, address_at
    return status
