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
ROW_BITS, LEAVES_BITS = 4, 2  # columns of a cycle in the rings, as powers of two
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
    FETCH, LEFT, RS_COUNT, ROB_HEAD, ROB_COUNT, LB_COUNT, SB_COUNT, LFB_COUNT, LB_NOW, SB_NOW, LFB_NOW,
    LAST_LOAD, LAST_STORE, END, LATEST, NODES, PREVIOUS, BASE, TOP, DEPTH, AT_RECORD, AT_OP, AT_ADDRESS, SCALARS,
) = range(24)  # fmt: skip
# Columns of `Rings.leaves`.
_FROM_RS, _FROM_LB, _FROM_SB, _FROM_LFB = range(4)

# Places in the parameter array.
(
    WIDTH, ROB, RS, LB, SB, LFB, X86_ORDER, INFLIGHT, MEMORY_DEPS, LINE_SHIFT, WORD_SHIFT, MARGIN, PARAMETERS,
) = range(13)  # fmt: skip
UNLIMITED = np.int64(2**62)
# An index of unsigned type saves numba the test for a negative one.
_U = np.uint64


class Units(NamedTuple):
    """Lanes of each unit; latency of each node type; lanes taken and cycles kept by type and shape (flattened).

    A throughput of 3/2 a cycle is three lanes that a node keeps for two cycles. Lanes of `UNLIMITED` are not modelled.
    """

    lanes: Ints
    latency: Ints
    need: Ints
    hold: Ints


class Rings(NamedTuple):
    """The cycles from fetch on, in rings.

    Flattened, 16 columns a cycle: lanes in use of each unit, and how many cycles on to look for a free one. Then the
    types that issue, and (4 columns) how many entries of RS, load, store and line fill buffers are given back.
    """

    used: npt.NDArray[np.uint16]
    skip: npt.NDArray[np.int32]
    issues: npt.NDArray[np.uint8]
    leaves: npt.NDArray[np.int32]


class Memory(NamedTuple):
    """Per line: when its outstanding miss returns, and when any of its words was last stored. Per word: the same."""

    lines: Ints
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
def _entry(rings: Any, mask: Any, column: Any, taken: Any, now: Any, size: Any) -> tuple[Any, Any]:
    """Return the first cycle from `now` on with a free entry of a buffer, and how many are taken then."""
    while taken >= size:
        now += 1
        taken -= _left(rings, mask, column, now)
    return now, taken


@inlined
def _hold_entry(rings: Any, mask: Any, column: Any, taken: Any, now: Any, done: Any) -> Any:
    """Take an entry from cycle `now` until `done`; return how many are taken in cycle `now`."""
    if done == now:
        return taken
    rings.leaves[_U(((done & mask) << LEAVES_BITS) + column)] += 1
    return taken + 1


@inlined
def _left(rings: Any, mask: Any, column: Any, cycle: Any) -> Any:
    """Return how many entries of a buffer are given back in a cycle, and forget them."""
    i = _U(((cycle & mask) << LEAVES_BITS) + column)
    count = rings.leaves[i]
    rings.leaves[i] = 0
    return count


@inlined
def _free_cycle(rings: Any, mask: Any, column: Any, lanes: Any, at: Any, limit: Any) -> Any:
    """Return the first cycle from `at` on in which not all lanes are in use. Nothing is in use from `limit` on."""
    while at < limit:
        i = _U(((at & mask) << ROW_BITS) + column)
        if rings.used[i] < lanes:
            break
        ahead = at + rings.skip[i]
        # Shorten the chain of full cycles for those who come after.
        if ahead < limit:
            j = _U(((ahead & mask) << ROW_BITS) + column)
            if rings.used[j] >= lanes:
                rings.skip[i] += rings.skip[j]
        at = ahead
    return at


@inlined
def _fit(rings: Any, mask: Any, column: Any, lanes: Any, need: Any, hold: Any, at: Any, limit: Any) -> Any:
    """Return the first cycle from `at` on from which `need` lanes are free for `hold` cycles."""
    while True:
        at = _free_cycle(rings, mask, column, lanes, at, limit)
        if need == 1 and hold == 1:
            return at
        blocked = False
        for cycle in range(at, min(at + hold, limit)):
            if rings.used[_U(((cycle & mask) << ROW_BITS) + column)] + need > lanes:
                at = cycle + 1
                blocked = True
                break
        if not blocked:
            return at


@inlined
def _take_one(rings: Any, mask: Any, column: Any, lanes: Any, at: Any) -> None:
    i = _U(((at & mask) << ROW_BITS) + column)
    rings.used[i] += 1
    if rings.used[i] >= lanes:
        rings.skip[i] = 1


@inlined
def _take(rings: Any, mask: Any, column: Any, lanes: Any, need: Any, hold: Any, at: Any) -> None:
    if need == 1 and hold == 1:
        _take_one(rings, mask, column, lanes, at)
        return
    for cycle in range(at, at + hold):
        i = _U(((cycle & mask) << ROW_BITS) + column)
        rings.used[i] += need
        if rings.used[i] >= lanes:
            rings.skip[i] = 1


@inlined
def _close(cycle: Any, mask: Any, stall: Any, rings: Any, units: Any, tally: Any, record: Any) -> None:
    """Count a cycle that fetch leaves behind, and make its place in the rings free for a later one."""
    i = cycle & mask
    issued = np.int64(rings.issues[_U(i)])
    executing = issued
    for k in range(N_TYPES):
        # Without branches: which types issue changes from cycle to cycle.
        tally.until[_U(k)] = max(tally.until[_U(k)], (cycle + units.latency[_U(k)]) * (issued >> k & 1))
        executing |= np.int64(tally.until[_U(k)] > cycle) << k
    tally.histogram[_U(executing | (issued << ISSUE_SHIFT) | (stall << STALL_SHIFT))] += 1
    if cycle < record.stalls.shape[0]:
        record.stalls[_U(cycle)] = stall
    rings.issues[_U(i)] = 0
    for column in range(1 << ROW_BITS):
        rings.used[_U((i << ROW_BITS) + column)] = 0


@inlined
def _waits(cycle: Any, lb_now: Any, sb_now: Any, lfb_now: Any) -> Any:
    """Return the stall bits of load, store and line fill buffers in a cycle."""
    return (lb_now > cycle) * _LB | (sb_now > cycle) * _SB | (lfb_now > cycle) * _LFB


@inlined
def _operand(slot: Any, base: Any, frames: Any) -> Any:
    return frames.ready[_U(base + slot)] if slot >= 0 else np.int64(0)


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
        stall = _waits(cycle, saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW])
        _close(cycle, rings.issues.shape[0] - 1, stall, rings, units, tally, record)
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
    rob: Any,
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
    margin = parameters[MARGIN]
    ring_size = rings.issues.shape[0]
    mask = ring_size - 1
    shapes, agus = program.shapes.shape[0], units.lanes[AGU]
    words = np.int64(1) << (line_shift - word_shift)

    fetch, left, rs_count = saved[FETCH], saved[LEFT], saved[RS_COUNT]
    rob_head, rob_count = saved[ROB_HEAD], saved[ROB_COUNT]
    lb_count, sb_count, lfb_count = saved[LB_COUNT], saved[SB_COUNT], saved[LFB_COUNT]
    lb_now, sb_now, lfb_now = saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW]
    last_load, last_store = saved[LAST_LOAD], saved[LAST_STORE]
    end, latest, nodes = saved[END], saved[LATEST], saved[NODES]
    previous, base, top, depth = saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH]
    at, op_at, address_at = saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS]

    node_room = record.issue.shape[0] if record.issue.shape[0] > 0 else UNLIMITED
    cycle_room = record.stalls.shape[0] if record.stalls.shape[0] > 0 else UNLIMITED
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
            op = _U(op_at)
            code = program.op[op]
            left_ready = _operand(program.left[op], base, frames)
            right_ready = _operand(program.right[op], base, frames)
            ready = max(left_ready, right_ready)
            if code >= _FORWARD:
                if code == _FORWARD:
                    frames.ready[_U(base + program.into[op])] = ready
                elif code == _CALL:
                    call = program.call[op]
                    inner = base + program.call_frame[call]
                    if depth + 1 >= frames.base.shape[0] or inner + top > frames.ready.shape[0]:
                        status = GROW_FRAMES
                        break
                    for arg in range(program.call_args[call], program.call_args[call + 1]):
                        frames.ready[inner + program.arg_into[arg]] = _operand(program.arg_from[arg], base, frames)
                    frames.base[depth] = base
                    frames.into[depth] = program.into[op]
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
            horizon = max(latest, fetch + 1) + margin
            if horizon - fetch >= ring_size or horizon >= cycle_room:
                status = GROW_RINGS if horizon < cycle_room else GROW_CYCLES
                break
            if nodes >= node_room or (code > _DIVIDE and full(stack)):
                status = GROW_NODES if nodes >= node_room else GROW_LINES
                break

            # Fetch. A full RS, then a full ROB, holds it up.
            if left == 0 or rs_count >= rs_size or rob_count >= rob_size:
                wanted = fetch
                while rs_count >= rs_size:
                    stall = _waits(fetch, lb_now, sb_now, lfb_now) | (_RS if fetch > wanted else 0)
                    _close(fetch, mask, stall, rings, units, tally, record)
                    fetch += 1
                    rs_count -= _left(rings, mask, _FROM_RS, fetch)
                    if lb_now < fetch:
                        lb_now = fetch
                        lb_count -= _left(rings, mask, _FROM_LB, fetch)
                    if sb_now < fetch:
                        sb_now = fetch
                        sb_count -= _left(rings, mask, _FROM_SB, fetch)
                    if lfb_now < fetch:
                        lfb_now = fetch
                        lfb_count -= _left(rings, mask, _FROM_LFB, fetch)
                while rob_count >= rob_size:
                    while rob_count > 0 and rob[_U(rob_head)] <= fetch:
                        rob_head = rob_head + 1 if rob_head + 1 < rob_size else 0
                        rob_count -= 1
                    if rob_count < rob_size:
                        break
                    stall = _waits(fetch, lb_now, sb_now, lfb_now) | (_ROB if fetch > wanted else 0)
                    _close(fetch, mask, stall, rings, units, tally, record)
                    fetch += 1
                    rs_count -= _left(rings, mask, _FROM_RS, fetch)
                    if lb_now < fetch:
                        lb_now = fetch
                        lb_count -= _left(rings, mask, _FROM_LB, fetch)
                    if sb_now < fetch:
                        sb_now = fetch
                        sb_count -= _left(rings, mask, _FROM_SB, fetch)
                    if lfb_now < fetch:
                        lfb_now = fetch
                        lfb_count -= _left(rings, mask, _FROM_LFB, fetch)
                if fetch > wanted:
                    left = width
                elif left == 0:
                    _close(fetch, mask, _waits(fetch, lb_now, sb_now, lfb_now), rings, units, tally, record)
                    fetch += 1
                    rs_count -= _left(rings, mask, _FROM_RS, fetch)
                    if lb_now < fetch:
                        lb_now = fetch
                        lb_count -= _left(rings, mask, _FROM_LB, fetch)
                    if sb_now < fetch:
                        sb_now = fetch
                        sb_count -= _left(rings, mask, _FROM_SB, fetch)
                    if lfb_now < fetch:
                        lfb_now = fetch
                        lfb_count -= _left(rings, mask, _FROM_LFB, fetch)
                    left = width
            left -= 1

            shape = np.int64(program.shape[op])
            limit = fetch + ring_size
            issue = max(fetch, ready)
            if code <= _DIVIDE:
                kind = np.int64(code)
                form = _U(kind * shapes + shape)
                hold = units.hold[form]
                issue = _fit(rings, mask, kind, units.lanes[_U(kind)], 1, hold, issue, limit)
                _take(rings, mask, kind, units.lanes[_U(kind)], 1, hold, issue)
                if issue > fetch:
                    rings.leaves[_U((issue & mask) << LEAVES_BITS)] += 1
                    rs_count += 1
                done = issue + units.latency[_U(kind)]
            else:
                load = code == _LOAD
                address = records[_U(address_at)]
                address_at += 1
                x = np.int64(-1)
                level = np.int64(program.level[op])
                if address >= 0:
                    x = index_of(address >> line_shift, stack)
                    reused = touch(x, stack)
                    if level < 0:
                        level = reused
                kind = FIRST_LEVEL + level
                # The buffers, in trace order.
                if load:
                    lb_now, lb_count = _entry(rings, mask, _FROM_LB, lb_count, lb_now, lb_size)
                    entry, port = lb_now, LOAD_PORT
                else:
                    sb_now, sb_count = _entry(rings, mask, _FROM_SB, sb_count, sb_now, sb_size)
                    entry, port = sb_now, STORE_PORT
                if entry > fetch:
                    rings.leaves[_U((entry & mask) << LEAVES_BITS)] += 1
                    rs_count += 1
                issue = max(issue, entry)
                if level > 0:
                    lfb_now, lfb_count = _entry(rings, mask, _FROM_LFB, lfb_count, lfb_now, lfb_size)
                    issue = max(issue, lfb_now)
                # The order of memory operations.
                if x86_order:
                    issue = max(issue, last_load)
                    if not load:
                        issue = max(issue, last_store)
                word, word_end = np.int64(0), np.int64(0)
                if x >= 0:
                    if inflight:
                        issue = max(issue, memory.lines[_U(2 * x)])
                    if memory_deps:
                        size = program.shapes[shape, 0] * program.shapes[shape, 1]
                        word = x * words + ((address >> word_shift) & (words - 1))
                        word_end = min(word + max(size >> word_shift, 1), (x + 1) * words)
                        if load and memory.lines[_U(2 * x + 1)] > issue:
                            for w in range(word, word_end):
                                issue = max(issue, memory.stored[_U(w)])
                # Bandwidth: the port, the address unit and the level.
                form = _U(kind * shapes + shape)
                need, hold = units.need[form], units.hold[form]
                while True:
                    first = issue
                    issue = _free_cycle(rings, mask, port, units.lanes[_U(port)], issue, limit)
                    issue = _free_cycle(rings, mask, AGU, agus, issue, limit)
                    issue = _fit(rings, mask, kind, units.lanes[_U(kind)], need, hold, issue, limit)
                    if issue == first:
                        break
                _take_one(rings, mask, port, units.lanes[_U(port)], issue)
                _take_one(rings, mask, AGU, agus, issue)
                _take(rings, mask, kind, units.lanes[_U(kind)], need, hold, issue)
                done = issue + units.latency[_U(kind)]
                if load:
                    last_load = issue
                    lb_count = _hold_entry(rings, mask, _FROM_LB, lb_count, lb_now, done)
                else:
                    last_store = issue
                    sb_count = _hold_entry(rings, mask, _FROM_SB, sb_count, sb_now, done)
                    for w in range(word, word_end):
                        memory.stored[_U(w)] = issue
                        memory.lines[_U(2 * x + 1)] = max(issue, memory.lines[_U(2 * x + 1)])
                if level > 0:
                    lfb_count = _hold_entry(rings, mask, _FROM_LFB, lfb_count, lfb_now, done)
                    if x >= 0:
                        memory.lines[_U(2 * x)] = done
            if rob_size < UNLIMITED:
                tail = rob_head + rob_count
                rob[_U(tail if tail < rob_size else tail - rob_size)] = done
                rob_count += 1
            rings.issues[_U(issue & mask)] |= np.uint8(1 << kind)
            tally.nodes[form] += 1
            end = max(end, done, issue + 1)
            latest = max(latest, end, issue + hold)
            if program.into[op] >= 0:
                frames.ready[_U(base + program.into[op])] = done
            if record.issue.shape[0] > 0:
                record.issue[_U(nodes)] = issue
                record.done[_U(nodes)] = done
                record.type[_U(nodes)] = kind
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
    saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW] = lb_now, sb_now, lfb_now
    saved[LAST_LOAD], saved[LAST_STORE] = last_load, last_store
    saved[END], saved[LATEST], saved[NODES] = end, latest, nodes
    saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH] = previous, base, top, depth
    saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS] = at, op_at, address_at
    return status
