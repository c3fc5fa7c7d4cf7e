"""The scheduling engine of `DagScheduler`: one pass over the executed blocks, in numba.

Nodes are taken in trace order and each gets its issue cycle at once: the first cycle with its operands, its buffer
entry and room on every unit it needs, given all older nodes. That is oldest-first issue: no node delays an older one.
Cycles are closed (counted in the histogram) as fetch passes them; nothing is kept per cycle or per node unless asked.

The histogram counts cycles by which node types execute, which issue, and which buffers stall: every time, utilisation
and overlap of the extended roofline follows from it.

Helpers are inlined and count no references (see `perfkit.simulators.compiled`); the hot state lives in `run`'s locals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from perfkit.dag.program import CALL, DIVIDE, DIVISION, FORWARD, JOIN, LINES_READ, LOAD, READ, REDIRECT
from perfkit.simulators.compiled import compiled, helper, inlined
from perfkit.simulators.dag.layout import (
    A_VECTOR,
    ADD,
    AGU,
    AT_ADDRESS,
    AT_ONCE,
    AT_OP,
    AT_RECORD,
    BASE,
    BETWEEN,
    BIT,
    BLOCKED,
    BLOCKS,
    CODE,
    CODE_READS,
    COUNT,
    COVERED,
    CROWDED,
    DEPTH,
    DIRTY,
    DIVIDER,
    DONE,
    EARLIER,
    END,
    FETCH,
    FIELD,
    FIRST_LEVEL,
    FORWARDS,
    FORWARDS_FP,
    FULL,
    GATHER,
    GATHERED,
    GROUP_READ,
    GROW_CYCLES,
    GROW_FRAMES,
    GROW_LINES,
    GROW_NODES,
    GROW_RINGS,
    HIGH,
    IDLE,
    IGNORED,
    INFLIGHT,
    INSTRUCTIONS,
    INTEGER_LOAD,
    INTEGER_TYPE,
    INTO,
    ISSUED,
    JOINS,
    KIND_BITS,
    LAST_LOAD,
    LAST_STORE,
    LASTING,
    LATEST,
    LATEST_STORES,
    LB,
    LB_NOW,
    LEAVE,
    LEFT,
    LEFT_BITS,
    LEFT_MAX,
    LEFT_ONES,
    LEVEL,
    LFB,
    LFB_NOW,
    LINE_READ,
    LINE_SHIFT,
    LOOP_TURNS,
    LOW,
    MARGIN,
    MEMORY,
    MERGED,
    NO_NODE,
    NODES,
    OP_BITS,
    OPENED,
    OWED_DIVIDER,
    PAPER_TYPES,
    PENALTY,
    PORT,
    PREVIOUS,
    PROBES,
    READ_AHEAD,
    READS,
    READS_TOO,
    REFILL,
    REGISTERS,
    RENAMED,
    RETIRED,
    ROB,
    ROW_BITS,
    RS,
    SB,
    SB_NOW,
    SET_FILL,
    SET_STORED,
    SET_WRITTEN,
    SETS,
    SETS_KNOWN,
    SHAPE_BITS,
    SIZE,
    SKIP,
    SKIP_BITS,
    SLOTS,
    SPLITS,
    STALL_LB,
    STALL_LFB,
    STALL_ROB,
    STALL_RS,
    STALL_SB,
    STREAMS,
    TAKEN_A,
    TAKEN_B,
    TAKEN_C,
    TAKES,
    TOP,
    TURN,
    TURNS,
    TYPES_USED,
    UNIT,
    UNIT_BITS,
    UNTIL,
    VECTOR,
    VECTOR_NOW,
    VECTOR_QUEUE,
    VECTOR_RS,
    VECTORS,
    WAYS,
    WHEN_FULL,
    WIDE,
    WIDE_BITS,
    WIDTH,
    WORD_SHIFT,
    WRITERS,
    WROTE,
    X86_ORDER,
)
from perfkit.simulators.dag.reuse import (
    AHEAD,
    INDEX,
    INDEX_BITS,
    UNLIMITED,
    fetch_ahead,
    index_of,
    prefetch,
    rarely,
    touch,
    touch_set,
    untouched,
    use_line,
)

# An index of unsigned type saves numba the test for a negative one.
_U = np.uint64
_BUILT_FROM = ("layout", "reuse", "core", "memory.cache", "perfkit/dag/program")
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "python"}


@inlined
def _row(cycle: Any, mask: Any) -> Any:
    return _U((cycle & mask) << ROW_BITS)


@inlined
def _entry(rows: Any, mask: Any, word: Any, shift: Any, taken: Any, now: Any, size: Any) -> tuple[Any, Any]:
    """Return the first cycle from `now` on with a free entry of a buffer, and the entries taken then."""
    while rarely((taken >> shift) & LOW >= size):
        now += 1
        i = _row(now, mask) + _U(word)
        left = rows[i] & (np.int64(LOW) << shift)
        rows[i] -= left
        taken -= left
    return now, taken


@inlined
def _hold_entry(rows: Any, mask: Any, word: Any, one: Any, taken: Any, now: Any, done: Any) -> Any:
    """Take an entry from cycle `now` until `done`; return the entries taken in cycle `now`."""
    if rarely(done == now):
        return taken
    rows[_row(done, mask) + _U(word)] += one
    return taken + one


@inlined
def _free_cycle(rings: Any, mask: Any, full: Any, column: Any, at: Any) -> Any:
    """Return the first cycle from `at` on in which none of the units asked for is full."""
    rows = rings.rows
    for _ in range(PROBES):
        if rows[_row(at, mask)] & full == 0:
            return at
        at += 1
    while True:
        i = at & mask
        if rows[_U(i << ROW_BITS)] & full == 0:
            return at
        s = _U((i << SKIP_BITS) + column)
        step: Any = max(np.int64(rings.skip[s]), 1)
        # Shorten the chain of full cycles for those who come after.
        j = (at + step) & mask
        if rows[_U(j << ROW_BITS)] & full:
            step += max(np.int64(rings.skip[_U((j << SKIP_BITS) + column)]), 1)
            rings.skip[s] = step
            rows[_U(i << ROW_BITS)] |= DIRTY
        at += step


@inlined
def _fit(rings: Any, mask: Any, full: Any, column: Any, kind: Any, lanes: Any, need: Any, hold: Any, at: Any) -> Any:
    """Return the first such cycle from which also `need` lanes of a wide unit are free for `hold` cycles."""
    while True:
        at = _free_cycle(rings, mask, full, column, at)
        blocked = False
        for cycle in range(at, at + hold):
            if rings.wide[_U(((cycle & mask) << WIDE_BITS) + kind)] + need > lanes:
                at = cycle + 1
                blocked = True
                break
        if not blocked:
            return at


@inlined
def _take(rings: Any, mask: Any, unit: Any, lanes: Any, need: Any, hold: Any, at: Any) -> None:
    """Take lanes of a wide unit."""
    for cycle in range(at, at + hold):
        i = cycle & mask
        j = _U((i << WIDE_BITS) + unit)
        rings.wide[j] += need
        full = np.int64(rings.wide[j] >= lanes) * FULL
        rings.rows[_U(i << ROW_BITS)] |= DIRTY | (full << (FIELD * unit))


@inlined
def _hold(units: Any, kind: Any, count: Any, work: Any) -> Any:
    """Return for how many cycles work keeps a type's lanes; what is left over is carried on."""
    units.owed[_U(kind)] += work
    one = units.parts[_U(kind)] * units.need[_U(count)]
    cycles = units.owed[_U(kind)] // one
    units.owed[_U(kind)] -= cycles * one
    return cycles


@inlined
def _place(
    rings: Any, mask: Any, units: Any, unit: Any, kind: Any, count: Any, longer: Any, memory: Any, at: Any
) -> Any:
    """Return the first cycle from `at` on with room on all units of a node, and take the wide ones among them."""
    full, column = units.table[unit + _U(WHEN_FULL)], units.table[unit + _U(SKIP)]
    if not rarely(units.table[unit + _U(WIDE)] != 0):
        return _free_cycle(rings, mask, full, column, at)
    if units.wide[_U(kind)]:
        lanes, need, work = units.lanes[_U(kind)], units.need[_U(count)], units.work[_U(count)]
        hold = _hold(units, kind, count, work + work * longer // DIVISION)
        # A square root goes on in the cycles that older nodes left free: it would wait for a gap that is long enough.
        rest = hold - 1 if longer > 0 else np.int64(0)
        at = _fit(rings, mask, full, column, kind, lanes, need, hold - rest, at)
        _take(rings, mask, kind, lanes, need, hold - rest, at)
        if longer > 0:
            for cycle in range(at + 1, at + 2 * hold):
                if rest > 0 and rings.wide[_U(((cycle & mask) << WIDE_BITS) + kind)] + need <= lanes:
                    _take(rings, mask, kind, lanes, need, 1, cycle)
                    rest -= 1
            units.owed[_U(kind)] += rest * units.parts[_U(kind)] * need
    else:
        at = _free_cycle(rings, mask, full, column, at)
    port = units.table[unit + _U(PORT)]
    if units.wide[_U(port)]:
        _take(rings, mask, port, units.lanes[_U(port)], 1, 1, at)
    if memory and units.wide[_U(AGU)]:
        _take(rings, mask, AGU, units.lanes[_U(AGU)], 1, 1, at)
    return at


@helper
def _divided(rings: Any, mask: Any, units: Any, unit: Any, kind: Any, count: Any, busy: Any, at: Any) -> Any:
    """Return the first cycle from `at` on in which an integer division begins, and take the divider for it.

    It goes on in the cycles that older ones left free: one that begins between two others would delay the later one on
    a real core, if only by the cycles that are missing, and chains take turns.
    """
    full, column = units.table[unit + _U(WHEN_FULL)], units.table[unit + _U(SKIP)]
    lanes, need = units.lanes[_U(kind)], units.need[_U(count)]
    while True:
        if units.wide[_U(kind)]:
            at = _fit(rings, mask, full, column, kind, lanes, need, 1, at)
        else:
            at = _free_cycle(rings, mask, full, column, at)
        if rings.wide[_U(((at & mask) << WIDE_BITS) + DIVIDER)] == 0:
            break
        at += 1
    left = busy + units.owed[OWED_DIVIDER]
    for cycle in range(at, at + 2 * busy):
        i = cycle & mask
        if left > 0 and rings.wide[_U((i << WIDE_BITS) + DIVIDER)] == 0:
            rings.wide[_U((i << WIDE_BITS) + DIVIDER)] = 1
            rings.rows[_U(i << ROW_BITS)] |= DIRTY
            left -= 1
    units.owed[OWED_DIVIDER] = left
    return at


@helper
def _second_line(
    rings: Any,
    mask: Any,
    units: Any,
    unit: Any,
    count: Any,
    level: Any,
    x: Any,
    stack: Any,
    sets: Any,
    trees: Any,
    ways: Any,
    write: Any,
    splits: Any,
    at: Any,
) -> Any:
    """Take an access's units again for the line that it crosses into; return when it is there, and from which level."""
    if not untouched(x, stack):
        level = touch(x, stack)
        if ways > 0:
            level = (
                max(level, np.int64(1))
                if touch_set(x, write, sets, trees, x & (trees.shape[0] - 1), ways)[0]
                else np.int64(0)
            )
    kind = FIRST_LEVEL + level
    unit += _U(kind << (UNIT_BITS + KIND_BITS))
    for _ in range(splits):
        at = _place(rings, mask, units, unit, kind, count + kind, 0, True, at)
        row = _row(at, mask)
        rings.rows[row] += units.table[unit + _U(ADD)]
        rings.rows[row + _U(ISSUED)] |= units.table[unit + _U(BIT)]
    return at + units.table[unit + _U(TAKES)], level


@inlined
def _early(kind: Any) -> Any:
    """Return the level whose latency an access takes when its line was fetched ahead: the one above, L2 at most."""
    return min(kind - 1, FIRST_LEVEL + 1)


@inlined
def _active(left: Any) -> Any:
    """Return a one for each type that has cycles left, where they are counted down."""
    return ((left + LEFT_MAX) >> LEFT_BITS) & LEFT_ONES


@inlined
def _gathered(active: Any) -> Any:
    """Return these types as bits side by side."""
    return np.int64((_U(active) * _U(GATHER) >> _U(GATHERED)) & _U((1 << MEMORY) - 1))


@inlined
def _executing(cycle: Any, issued: Any, units: Any, tally: Any, beyond: Any) -> Any:
    """Return which types execute in a cycle, after those that issue in it (from bit `LASTING` on: with latency)."""
    busy, paper = tally.busy, beyond is None
    lasting = issued >> LASTING
    executing = lasting if paper else issued & ((1 << LASTING) - 1)
    early = executing & ~lasting
    if rarely(lasting >> MEMORY & 1 != 0):
        busy[1] = cycle + units.latency[MEMORY]
    if busy[1] > cycle:
        executing |= 1 << MEMORY
    if not paper and rarely(lasting >> PAPER_TYPES != 0):
        for k in range(PAPER_TYPES, units.latency.shape[0]):
            if lasting >> k & 1:
                busy[_U(UNTIL + k)] = cycle + units.latency[_U(k)]
                busy[LATEST] = max(busy[LATEST], busy[_U(UNTIL + k)])
    if not paper and rarely(early != 0):
        for k in range(FIRST_LEVEL + 1, PAPER_TYPES):
            if early >> k & 1:
                busy[_U(UNTIL + k)] = max(busy[_U(UNTIL + k)], cycle + units.latency[_U(_early(k))])
                busy[LATEST] = max(busy[LATEST], busy[_U(UNTIL + k)])
    if not paper and rarely(busy[LATEST] > cycle):
        for k in range(units.latency.shape[0]):
            executing |= np.int64(busy[_U(UNTIL + k)] > cycle) << k
    if not rarely(units.countdown[0] < 0):
        # Cycles left, for six types in one word: restart those that issue; which are not 0; one off those.
        i = _U(2 * (lasting if paper else lasting & ((1 << PAPER_TYPES) - 1)))
        left = (busy[0] & units.countdown[i]) | units.countdown[i + _U(1)]
        active = _active(left)
        busy[0] = left - active
        return executing | _gathered(active)
    for k in range(MEMORY):
        if lasting >> k & 1:
            busy[_U(UNTIL + k)] = max(busy[_U(UNTIL + k)], cycle + units.latency[_U(k)])
        executing |= np.int64(busy[_U(UNTIL + k)] > cycle) << k
    return executing


@inlined
def _count(tally: Any, state: Any, cycles: Any) -> None:
    """Count cycles of a state."""
    tally.histogram[_U(state)] += cycles
    if rarely(tally.log.shape[0] > 0):
        entry = 2 * tally.log[0] + 1
        if entry + 1 < tally.log.shape[0]:
            tally.log[_U(entry)], tally.log[_U(entry + 1)] = state, cycles
        tally.log[0] += 1


@inlined
def _close(
    cycle: Any,
    mask: Any,
    stall: Any,
    idle: Any,
    types: Any,
    rings: Any,
    units: Any,
    tally: Any,
    record: Any,
    beyond: Any,
) -> None:
    """Count a cycle that fetch leaves behind, and make its place in the rings free for a later one."""
    i = _row(cycle, mask)
    issued = rings.rows[i + _U(ISSUED)]
    if beyond is not None:
        issued &= LOW
    executing = _executing(cycle, issued, units, tally, beyond)
    issued &= (1 << LASTING) - 1
    _count(tally, executing | (issued << types) | (stall << 2 * types), 1)
    if rarely(cycle < record.stalls.shape[0]):
        record.stalls[_U(cycle)] = stall
    _clean(cycle, mask, idle, rings)
    rings.rows[i + _U(ISSUED)] = 0


@inlined
def _clean(cycle: Any, mask: Any, idle: Any, rings: Any) -> None:
    """Leave nothing in use in a cycle's place in the rings."""
    i = _row(cycle, mask)
    if rarely(rings.rows[i] & DIRTY != 0):
        for column in range(1 << WIDE_BITS):
            rings.wide[_U(((cycle & mask) << WIDE_BITS) + column)] = 0
        for column in range(1 << SKIP_BITS):
            rings.skip[_U(((cycle & mask) << SKIP_BITS) + column)] = 0
    rings.rows[i] = idle


@inlined
def _pass_quiet(fetch: Any, goal: Any, stall: Any, core: Any, rings: Any, units: Any, tally: Any, record: Any) -> Any:
    """Close the cycles in which nothing issues and no buffer's entry is freed; return the first one that is left.

    All of them are before `goal`, and have the same stalls.
    """
    mask, idle, types, _ = core
    busy, rows = tally.busy, rings.rows
    if busy[LATEST] > fetch or rows[_row(fetch, mask) + _U(ISSUED)] != 0:
        return fetch
    if units.countdown[0] < 0 or record.stalls.shape[0] > 0:
        return fetch
    waited = busy[1] > fetch
    if waited:
        goal = min(goal, busy[1])
    always = (np.int64(waited) << MEMORY) | (stall << 2 * types)
    begin, executing = fetch, np.int64(0)
    while fetch + 1 < goal:
        i = _row(fetch + 1, mask)
        if rows[i + _U(LEAVE)] | rows[i + _U(LEAVE + 1)] | rows[i + _U(ISSUED)] != 0:
            break
        left, now = busy[0], np.int64(0)
        if left != 0:
            active = _active(left)
            busy[0], now = left - active, _gathered(active)
        if now != executing:
            if fetch > begin:
                _count(tally, always | executing, fetch - begin)
            begin, executing = fetch, now
        _clean(fetch, mask, idle, rings)
        fetch += 1
    _count(tally, always | executing, fetch - begin)
    return fetch


@inlined
def _next_cycle(
    fetch: Any, stall: Any, taken: Any, core: Any, rings: Any, units: Any, tally: Any, record: Any, beyond: Any
) -> Any:
    """Close the cycle of fetch and return the next one, and the entries of the buffers that are taken in it."""
    mask, idle, types, has_vectors = core
    taken_a, taken_b, taken_c = taken
    _close(fetch, mask, stall, idle, types, rings, units, tally, record, beyond)
    fetch += 1
    rows, i = rings.rows, _row(fetch, mask)
    taken_a -= rows[i + _U(LEAVE)]
    taken_b -= rows[i + _U(LEAVE + 1)]
    rows[i + _U(LEAVE)] = 0
    rows[i + _U(LEAVE + 1)] = 0
    if has_vectors:
        taken_c -= rows[i + _U(ISSUED)] & ~LOW
        rows[i + _U(ISSUED)] &= LOW
    return fetch, (taken_a, taken_b, taken_c)


@inlined
def _prefetched(line: Any, streams: Any) -> Any:
    """Whether a line that is not in L1 was fetched ahead: the third or later line of a stream. Note it in its stream.

    A stream is two words, the line used last and its direction (0: one line so far); those used last come first, from
    the place on that the last word tells, and around.
    """
    count = (streams.shape[0] - 1) >> 1
    first = streams[_U(2 * count)]
    at, found = first, np.int64(-1)
    for k in range(count):
        apart = line - streams[_U(2 * at)]
        if rarely(_U(apart + 2) <= _U(4)):
            step = streams[_U(2 * at + 1)]
            if apart == 0 or step == 0 or (apart > 0) == (step > 0):
                found = np.int64(k)
                break
        at = at + 1 if at + 1 < count else np.int64(0)
    if not rarely(found >= 0):  # the new one takes the place of that used longest ago
        first = first - 1 if first > 0 else count - 1
        streams[_U(2 * first)], streams[_U(2 * first + 1)], streams[_U(2 * count)] = line, 0, first
        return False
    apart, step = line - streams[_U(2 * at)], streams[_U(2 * at + 1)]
    ahead = step != 0 and apart != 0
    if apart != 0:
        step = np.int64(1) if apart > 0 else np.int64(-1)
    for _ in range(found):
        before = at - 1 if at > 0 else count - 1
        streams[_U(2 * at)], streams[_U(2 * at + 1)] = streams[_U(2 * before)], streams[_U(2 * before + 1)]
        at = before
    streams[_U(2 * at)], streams[_U(2 * at + 1)] = line, step
    return ahead


@inlined
def _joins(line: Any, joined: Any) -> Any:
    """Whether a store joins others in one of the lines opened last; else its line takes the place of the oldest."""
    count = joined.shape[0] - 1
    for k in range(count):
        if joined[_U(k)] == line:
            return True
    joined[_U(joined[_U(count)] % count)] = line
    joined[_U(count)] += 1
    return False


@inlined
def _waits(cycle: Any, lb_now: Any, sb_now: Any, lfb_now: Any) -> Any:
    """Return the stall bits of load, store and line fill buffers in a cycle."""
    return (lb_now > cycle) * STALL_LB | (sb_now > cycle) * STALL_SB | (lfb_now > cycle) * STALL_LFB


@inlined
def _operand(slot: Any, base: Any, frames: Any) -> Any:
    return frames.ready[_U(base + slot)]


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


@inlined
def _written(x: Any, address: Any, size: Any, memory: Any, line_shift: Any, word_shift: Any) -> Any:
    """Return when the newest of a load's stores is written, where it did not write all that is loaded; else 0."""
    newest: Any = memory.commits[LATEST_STORES]
    if memory.commits[_U(newest % LATEST_STORES)] == 0:
        return np.int64(0)
    words = np.int64(1) << (line_shift - word_shift)
    word = x * words + ((address >> word_shift) & (words - 1))
    first = memory.writer[_U(word)]
    last, several = first, False
    for w in range(word + 1, min(word + size, (x + 1) * words)):
        other = memory.writer[_U(w)]
        several |= other != first
        last = max(last, other)
    if not several or last <= newest - LATEST_STORES:
        return np.int64(0)
    return memory.commits[_U(last % LATEST_STORES)]


@compiled(*_BUILT_FROM, **_OPTIONS)
def warm_up(where: Any, length: Any, stack: Any) -> None:
    """Use each accessed line, without a look at the level that it hits."""
    for i in range(length):
        x = where[_U(i)]
        fetch_ahead(where, i, stack)
        if x > 0:
            use_line(x, stack)


@compiled(*_BUILT_FROM, **_OPTIONS)
def find_levels(where: Any, length: Any, stack: Any) -> None:
    """Use each accessed line, and note the level that it hits above its index: what `run` does itself beyond the paper.

    Which level that is does not depend on time. Here this machine waits for many lines at once, in `run` for few.
    """
    for i in range(length):
        x = where[_U(i)]
        if x >= 0:
            fetch_ahead(where, i, stack)  # also where a block stands, which 60 further on is an access
        if x > 0:
            where[_U(i)] = x | touch(x, stack) << INDEX_BITS


@compiled(*_BUILT_FROM, **_OPTIONS)
def drain(saved: Any, parameters: Any, rings: Any, units: Any, tally: Any, record: Any, beyond: Any) -> Any:
    """Close the cycles up to the last completion."""
    if saved[END] > record.stalls.shape[0] > 0:
        return GROW_CYCLES
    while saved[FETCH] < saved[END]:
        cycle = saved[FETCH]
        stall = _waits(cycle, saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW])
        mask = (rings.rows.shape[0] >> ROW_BITS) - 1
        _close(cycle, mask, stall, parameters[IDLE], parameters[TYPES_USED], rings, units, tally, record, beyond)
        saved[FETCH] = cycle + 1
    return DONE


class _Limits(NamedTuple):
    """What does not change during a call of `run`: the core's figures as counts, masks and switches.

    Sizes of buffers in entries; `*_one` is what one entry adds to a count (0 for an unlimited buffer, which is not
    counted). `set_*` are the cycles for which a set of L1 takes in a line. `wide` arrays and tables lie in `Units`.
    """

    paper: Any
    width: Any
    rob_size: Any
    rs_size: Any
    lb_size: Any
    sb_size: Any
    lfb_size: Any
    rs_one: Any
    lb_one: Any
    sb_one: Any
    lfb_one: Any
    rob_mask: Any
    rob_limited: Any
    vector_size: Any
    vector_one: Any
    has_vectors: Any
    queue_size: Any
    queue_mask: Any
    queue_limited: Any
    registers: Any
    has_registers: Any
    register_mask: Any
    mask: Any
    ring_size: Any
    margin: Any
    cycle_room: Any
    x86_order: Any
    inflight: Any
    stores: Any
    ways: Any
    set_mask: Any
    set_fill: Any
    set_written: Any
    set_stored: Any
    refill: Any
    known: Any
    prefetching: Any
    lines_follow: Any
    line_shift: Any
    word_shift: Any
    splits: Any
    earlier: Any
    joins: Any
    blocks: Any


@inlined
def _limits(parameters: Any, rings: Any, queues: Any, memory: Any, record: Any, beyond: Any) -> Any:
    """Return the limits of a call. Without the paper's machine (`beyond`), every rule that it lacks is a constant."""
    paper = beyond is None
    rob_size, rs_size = parameters[ROB], parameters[RS]
    lb_size, sb_size, lfb_size = parameters[LB], parameters[SB], parameters[LFB]
    prefetching = not paper and parameters[STREAMS] > 0
    ring_size = rings.rows.shape[0] >> ROW_BITS
    cycle_room = record.stalls.shape[0] if record.stalls.shape[0] > 0 else UNLIMITED
    ways = np.int64(0) if paper else parameters[WAYS]
    has_vectors = not paper and parameters[VECTOR_RS] < UNLIMITED
    has_registers = not paper and parameters[REGISTERS] < UNLIMITED
    lines_follow = prefetching or (not paper and parameters[INFLIGHT] == MERGED)
    joins = not paper and parameters[JOINS] > 0
    blocks = not paper and memory.writer.shape[0] > 0  # loads of bytes from several stores wait for these
    return _Limits(
        paper=paper,
        width=parameters[WIDTH],
        rob_size=rob_size,
        rs_size=rs_size,
        lb_size=lb_size,
        sb_size=sb_size,
        lfb_size=lfb_size,
        rs_one=np.int64(rs_size < UNLIMITED),
        lb_one=np.int64(lb_size < UNLIMITED) << HIGH,
        sb_one=np.int64(sb_size < UNLIMITED),
        lfb_one=np.int64(lfb_size < UNLIMITED) << HIGH,
        # An unlimited ROB is one that holds nodes which retired at once.
        rob_mask=np.int64(queues.rob.shape[0] - 1),
        rob_limited=-np.int64(rob_size < UNLIMITED),
        # The vector scheduler: entries in order, held until issue; whoever waits for one is in the queue before it.
        vector_size=parameters[VECTOR_RS],
        vector_one=np.int64(1) << HIGH,
        has_vectors=has_vectors,
        queue_size=parameters[VECTOR_QUEUE],
        queue_mask=np.int64(queues.vector.shape[0] - 1),
        queue_limited=-np.int64(parameters[VECTOR_QUEUE] < UNLIMITED),
        registers=parameters[REGISTERS],
        has_registers=has_registers,
        register_mask=np.int64(queues.registers.shape[0] - 1),
        mask=ring_size - 1,
        ring_size=ring_size,
        margin=parameters[MARGIN],
        cycle_room=cycle_room,
        x86_order=parameters[X86_ORDER],
        inflight=parameters[INFLIGHT],
        stores=memory.stored.shape[0] > 0,  # and loads wait for them
        ways=ways,
        set_mask=parameters[SETS] - 1,
        set_fill=parameters[SET_FILL],
        set_written=parameters[SET_WRITTEN],
        set_stored=parameters[SET_STORED],
        refill=parameters[REFILL],
        known=parameters[SETS_KNOWN] > 0,
        prefetching=prefetching,
        lines_follow=lines_follow,
        line_shift=parameters[LINE_SHIFT],
        word_shift=parameters[WORD_SHIFT],
        splits=parameters[SPLITS],
        earlier=parameters[EARLIER],
        joins=joins,
        blocks=blocks,
    )


@inlined
def _room(fetch: Any, limits: Any) -> Any:
    """Return the cycle before which a node must end for the rings and the record to have room for it."""
    return min(fetch + limits.ring_size, limits.cycle_room) - limits.margin


@inlined
def _no_room(room: Any, limits: Any) -> Any:
    """Return what is too small."""
    return GROW_RINGS if room < limits.cycle_room - limits.margin else GROW_CYCLES


@inlined
def _fetched(
    fetch: Any, left: Any, taken: Any, free: Any, queued: Any, ahead: Any, entries: Any, limits: Any, core: Any,
    rings: Any, units: Any, tally: Any, record: Any, beyond: Any,
) -> Any:  # fmt: skip
    """Let fetch wait for a node's slot: a full RS, then a full ROB, holds it up (`free`: when its ROB entry is).

    Return its cycle, the slots left in it, the entries taken in it, and the room from there on.
    """
    lb_now, sb_now, lfb_now = entries
    taken_a, taken_b, taken_c = taken
    wanted = fetch
    while True:
        rs_full = (taken_a & LOW >= limits.rs_size) | (fetch < queued)
        if not rs_full and fetch >= free and (left > 0 or fetch > wanted):
            break
        stall = _waits(fetch, lb_now, sb_now, lfb_now) if rarely(ahead > fetch) else np.int64(0)
        if fetch > wanted:
            stall |= STALL_RS if rs_full else STALL_ROB
            until = free
            if rs_full:
                until = UNLIMITED if taken_a & LOW >= limits.rs_size else queued
            if rarely(ahead > fetch):
                for now in (lb_now, sb_now, lfb_now):
                    until = min(until, now) if now > fetch else until
            fetch = _pass_quiet(fetch, until, stall, core, rings, units, tally, record)
        now_taken = taken_a, taken_b, taken_c
        fetch, now_taken = _next_cycle(fetch, stall, now_taken, core, rings, units, tally, record, beyond)
        taken_a, taken_b, taken_c = now_taken
    return fetch, limits.width, (taken_a, taken_b, taken_c), _room(fetch, limits)


@inlined
def _executed(
    op: Any, ops: Any, unit: Any, count: Any, vector: Any, fetch: Any, issue: Any, taken: Any, vectors: Any,
    limits: Any, rings: Any, queues: Any, units: Any,
) -> Any:  # fmt: skip
    """Issue arithmetic: its vector scheduler entry, its units. Return its issue and completion, and what is taken.

    `vectors` are the cycle of the last entry of the vector scheduler and how many there were.
    """
    rows, table, mask = rings.rows, units.table, limits.mask
    taken_a, taken_b, taken_c = taken
    vector_now, vector_count = vectors
    kind = count & ((1 << SHAPE_BITS) - 1)
    if limits.has_vectors and rarely(vector):
        begin = max(vector_now, fetch)
        vector_now, taken_c = _entry(rows, mask, ISSUED, HIGH, taken_c, begin, limits.vector_size)
        queues.vector[_U(vector_count & limits.queue_mask)] = vector_now & limits.queue_limited
        vector_count += 1
        issue = max(issue, vector_now)
    longer = ops[op + _U(SIZE)]
    if not limits.paper and rarely((kind == INTEGER_TYPE) & (longer > 0)):
        issue = _divided(rings, mask, units, unit, kind, count, longer, issue)
        longer = np.int64(0)
    issue = _place(rings, mask, units, unit, kind, count, longer, False, issue)
    if limits.has_vectors and rarely(vector):
        taken_c = _hold_entry(rows, mask, ISSUED, limits.vector_one, taken_c, vector_now, issue)
    else:
        waits = limits.rs_one if issue > fetch else np.int64(0)
        rows[_row(issue, mask) + _U(LEAVE)] += waits
        taken_a += waits
    return issue, issue + table[unit + _U(TAKES)], (taken_a, taken_b, taken_c), (vector_now, vector_count)


@inlined
def _set_filled(load: Any, x: Any, leaves: Any, fetch: Any, issue: Any, slots: Any, limits: Any, memory: Any) -> Any:
    """Let a line come into its set of L1; return for how long its access waits, and whether many lines crowd there.

    A line asks for its set when it is fetched: an access that waits for operands holds up no other. A store waits after
    it issued: its value is there for loads.
    """
    set_mask, takes = limits.set_mask, limits.set_fill
    begun = max(fetch, memory.filling[_U(x & set_mask)])
    crowded = begun > fetch + 4 * limits.set_fill  # streams that begin alike wait for one or two others
    brought = _U((x & set_mask) + set_mask + 1)
    if leaves >= 0:
        again = slots - memory.written[_U(leaves)] < limits.rob_size
        if not load and memory.filling[brought] == 0:
            takes = limits.set_stored if again else 2 * limits.set_fill
            if again:  # stores are written in order: each waits for its line, in whatever set
                begun = max(begun, memory.filling[2 * set_mask + 2])
                memory.filling[2 * set_mask + 2] = begun + limits.refill
        elif again:
            takes = limits.set_written
    memory.filling[_U(x & set_mask)] = begun + takes
    memory.filling[brought] = np.int64(load)
    return max(begun - issue, np.int64(0)) if limits.known else np.int64(0), crowded


@inlined
def _stored(x: Any, word: Any, word_end: Any, issue: Any, done: Any, retired: Any, limits: Any, memory: Any) -> None:
    """Note when a store's words are there for loads, and when they are written."""
    if limits.blocks:
        store = memory.commits[LATEST_STORES] + 1
        memory.commits[LATEST_STORES] = store
        before = memory.commits[_U((store - 1) % LATEST_STORES)]
        memory.commits[_U(store % LATEST_STORES)] = max(before, retired, done)
        for w in range(word, word_end):
            memory.writer[_U(w)] = store
    for w in range(word, word_end):
        memory.stored[_U(w)] = issue
        memory.lines[_U(2 * x + 1)] = max(issue, memory.lines[_U(2 * x + 1)])


@compiled(*_BUILT_FROM, **_OPTIONS)
def run(
    stream: Any, code: Any, parameters: Any, units: Any, saved: Any, rings: Any, queues: Any, memory: Any, stack: Any,
    frames: Any, tally: Any, record: Any, beyond: Any,
) -> Any:  # fmt: skip
    """Schedule the nodes of the records; return DONE, or what has no room left (nothing is lost: call again).

    A node's stages are `_fetched`, then `_executed`, or for an access its lookup, its buffers, the order of memory
    operations, `_set_filled` and `_stored`; all are inlined. Lookup, buffers and order are written out here: as
    functions of their own they cost 2 to 5 % on zen4 (medians of five rounds of 15 or 21 interleaved runs of
    mmm_triple, beside other programs). Where `beyond` is None, numba compiles an engine that knows the
    paper's machine and nodes only, which is faster.
    """
    program, ops, where = code.program, code.ops, stream.where
    limits = _limits(parameters, rings, queues, memory, record, beyond)
    paper, mask, has_vectors, ways = limits.paper, limits.mask, limits.has_vectors, limits.ways
    rows, table, ready_at = rings.rows, units.table, frames.ready
    types = np.int64(PAPER_TYPES) if paper else parameters[TYPES_USED]
    core = mask, parameters[IDLE], types, has_vectors
    # An access that ends beyond its line takes its units again; without that rule no line ends.
    line_end = np.int64(1) << limits.line_shift if limits.splits else UNLIMITED
    within = (np.int64(1) << limits.line_shift) - 1
    most_turns = np.int64(0) if paper else parameters[LOOP_TURNS]
    reads = np.int64(0) if paper else parameters[CODE_READS]

    vectors = saved[VECTOR_NOW], saved[VECTORS]
    writers, wrote = saved[WRITERS], saved[WROTE]  # of vector registers, and whether the last node is one
    fetch, left = saved[FETCH], saved[LEFT]
    taken = saved[TAKEN_A], saved[TAKEN_B], saved[TAKEN_C]
    entries = saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW]
    ahead = max(entries[0], entries[1], entries[2])
    retired = saved[RETIRED]
    last_load, last_store = saved[LAST_LOAD], saved[LAST_STORE]
    end, nodes = saved[END], saved[NODES]
    previous, base, top, depth = saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH]
    at, op_at, address_at = saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS]
    instructions, covered, slots = saved[INSTRUCTIONS], saved[COVERED], saved[SLOTS]
    turn, turns = saved[TURN], saved[TURNS]  # the cycle in which a loop's last turn was fetched, and turns in it
    group_read, line_read = saved[GROUP_READ], saved[LINE_READ]  # when, in reads of code
    crowded = saved[CROWDED]
    opened = saved[OPENED]  # when the last line was opened for stores

    recorded = record.issue.shape[0] > 0
    node_room = record.issue.shape[0] if recorded else UNLIMITED
    room = _room(fetch, limits)
    status = DONE
    while at < stream.length:
        block = _U(stream.records[_U(at)])
        if op_at < 0:
            if not paper and most_turns > 0 and np.int64(block) == previous:
                if turn == fetch and turns >= most_turns:
                    # The jump back ends what is fetched in a cycle.
                    if fetch + 1 >= room:
                        status = _no_room(room, limits)
                        break
                    stall = _waits(fetch, entries[0], entries[1], entries[2])
                    fetch, taken = _next_cycle(fetch, stall, taken, core, rings, units, tally, record, beyond)
                    left, room = limits.width, _room(fetch, limits)
                turns = turns + 1 if turn == fetch else np.int64(1)
                turn = fetch
            if program.block_phis[block + _U(1)] > program.block_phis[block]:
                _phis(block, previous, base, program, frames)
            op_at = program.block_ops[block] << OP_BITS
            address_at = at + 1
            instructions += program.block_instructions[block]
            covered += program.block_covered[block]
        block_end = program.block_ops[block + _U(1)] << OP_BITS
        while op_at < block_end:
            op = _U(op_at)
            kind_of = ops[op + _U(CODE)]
            ready = max(ready_at[_U(base + ops[op + _U(READS)])], ready_at[_U(base + ops[op + _U(READS_TOO)])])
            if rarely(kind_of >= FORWARD):
                if kind_of == FORWARD:
                    late = np.int64(0) if paper else ops[op + _U(SIZE)]
                    ready_at[_U(base + ops[op + _U(INTO)])] = ready + late
                elif kind_of == CALL:
                    call = ops[op + _U(SIZE)]
                    inner = base + program.call_frame[call] + BETWEEN
                    if depth + 1 >= frames.base.shape[0] or inner + top > ready_at.shape[0]:
                        status = GROW_FRAMES
                        break
                    ready_at[_U(inner + AT_ONCE)] = 0
                    for arg in range(program.call_args[call], program.call_args[call + 1]):
                        ready_at[_U(inner + program.arg_into[arg])] = _operand(program.arg_from[arg], base, frames)
                    frames.base[depth] = base
                    frames.into[depth] = ops[op + _U(INTO)]
                    depth += 1
                    base = inner
                elif not paper and kind_of == JOIN:
                    left += 1
                    slots -= 1
                    writers -= wrote  # of an instruction's nodes, the last one is its result
                elif not paper and kind_of == REDIRECT:
                    # Fetch goes on when the branch is known, and after the penalty.
                    goal = ready + parameters[PENALTY]
                    if goal >= room:
                        status = _no_room(room, limits)
                        break
                    while fetch < goal:
                        stall = _waits(fetch, entries[0], entries[1], entries[2])
                        fetch, taken = _next_cycle(fetch, stall, taken, core, rings, units, tally, record, beyond)
                        left = limits.width
                    room = _room(fetch, limits)
                    group_read = line_read = fetch * reads - 1
                elif not paper and kind_of == READ:
                    groups, lines = ops[op + _U(SIZE)] % LINES_READ, ops[op + _U(SIZE)] // LINES_READ
                    earliest = (fetch - READ_AHEAD) * reads
                    group_at, line_at = max(group_read + 1, earliest), max(line_read + 1, earliest)
                    goal = np.int64(0)
                    if reads > 0:
                        goal = max(group_at * (groups > 0), line_at * (lines > 0)) // reads
                    if goal >= room:
                        status = _no_room(room, limits)
                        break
                    while fetch < goal:
                        stall = _waits(fetch, entries[0], entries[1], entries[2])
                        fetch, taken = _next_cycle(fetch, stall, taken, core, rings, units, tally, record, beyond)
                        left = limits.width
                    room = _room(fetch, limits)
                    group_read += (group_at + groups - 1 - group_read) * (groups > 0)
                    line_read += (line_at + lines - 1 - line_read) * (lines > 0)
                else:
                    depth -= 1
                    base = frames.base[depth]
                    ready_at[_U(base + frames.into[depth])] = ready
                op_at += 1 << OP_BITS
                continue

            # Room for whatever this node may do.
            if rarely(end >= room or nodes >= node_room):
                status = GROW_NODES if nodes >= node_room else _no_room(room, limits)
                break
            address, x, second = np.int64(-1), np.int64(-1), np.int64(-1)
            if kind_of > DIVIDE:
                address = stream.records[_U(address_at)]
                x = where[_U(address_at)]
                ends = (address & within) + (ops[op + _U(SIZE)] << limits.word_shift)
                if not paper and rarely((ends > line_end) & (address >= 0)):
                    second = index_of((address >> limits.line_shift) + 1, stack)
                    if second < 0:
                        status = GROW_LINES
                        break

            slot = nodes if paper else slots
            free = queues.rob[_U((slot - limits.rob_size) & limits.rob_mask)]
            vector = has_vectors and kind_of >= 0 and kind_of <= DIVIDE and table[_U(ops[op + _U(UNIT)] + VECTOR)] != 0
            queued = np.int64(0)
            if has_vectors and rarely(vector):
                queued = queues.vector[_U((vectors[1] - limits.queue_size) & limits.queue_mask)]
            if limits.has_registers:
                wrote = np.int64(kind_of == LOAD and ops[op + _U(UNIT)] >> UNIT_BITS & A_VECTOR != 0)
                if kind_of >= 0 and kind_of <= DIVIDE:
                    wrote = np.int64(table[_U(ops[op + _U(UNIT)] + VECTOR)] != 0)
                if wrote != 0:
                    free = max(free, queues.registers[_U((writers - limits.registers) & limits.register_mask)])
            if (taken[0] & LOW >= limits.rs_size) | (fetch < max(free, queued)) | (left == 0):
                fetch, left, taken, room = _fetched(
                    fetch, left, taken, free, queued, ahead, entries, limits, core, rings, units, tally, record, beyond
                )
            left -= 1
            if rarely(kind_of < 0):
                # No node: it takes its slot of fetch, and its place in the ROB for a cycle.
                retired = max(retired, fetch + 1)
                queues.rob[_U(slot & limits.rob_mask)] = retired & limits.rob_limited
                slots += 1
                end = max(end, fetch + 1)
                if recorded:
                    record.type[_U(nodes)] = NO_NODE
                nodes += 1
                op_at += 1 << OP_BITS
                continue

            issue = max(fetch, ready)
            count = ops[op + _U(COUNT)]
            unit = _U(ops[op + _U(UNIT)])
            if kind_of <= DIVIDE:
                types_begun = table[unit + _U(BIT)]
                issue, done, taken, vectors = _executed(
                    op, ops, unit, count, vector, fetch, issue, taken, vectors, limits, rings, queues, units
                )
                row = _row(issue, mask)
            else:
                load = kind_of == LOAD
                address_at += 1
                level, words = ops[op + _U(LEVEL)], ops[op + _U(SIZE)]
                integer, renamed = level <= INTEGER_LOAD, level == INTEGER_LOAD
                comes, leaves = False, np.int64(-1)
                if not rarely(x < 0):
                    if paper:
                        far, reused = where[_U(address_at - 1 + AHEAD)] & INDEX, x >> INDEX_BITS
                        x &= INDEX
                    else:
                        far, reused = fetch_ahead(where, address_at - 1, stack), touch(x, stack)
                    if rarely((limits.inflight != IGNORED) | limits.stores):
                        prefetch(memory.lines, _U(2 * far))
                        prefetch(memory.stored, _U(far << (limits.line_shift - limits.word_shift)))
                    if level < 0:
                        level = reused
                        if ways > 0:
                            in_set = x & limits.set_mask
                            comes, leaves = touch_set(x, not load, memory.sets, memory.trees, in_set, ways)
                            level = max(level, np.int64(1)) if rarely(comes) else np.int64(0)
                kind = FIRST_LEVEL + level
                shape, row_of_kind = count, unit
                count += kind
                unit += _U(kind << (UNIT_BITS + KIND_BITS))
                types_begun = table[unit + _U(BIT)]
                taken_a, taken_b, taken_c = taken
                lb_now, sb_now, lfb_now = entries
                if load:
                    lb_now, taken_a = _entry(rows, mask, LEAVE, HIGH, taken_a, max(lb_now, fetch), limits.lb_size)
                    entry = lb_now
                else:
                    sb_now, taken_b = _entry(rows, mask, LEAVE + 1, 0, taken_b, max(sb_now, fetch), limits.sb_size)
                    entry = sb_now
                data = not paper and not load and table[unit + _U(VECTOR)] != 0
                if rarely(entry > fetch):
                    if not data:
                        rows[_row(entry, mask) + _U(LEAVE)] += limits.rs_one
                        taken_a += limits.rs_one
                    issue, ahead = max(issue, entry), max(ahead, entry)
                if rarely(level > 0):
                    lfb_now, taken_b = _entry(
                        rows, mask, LEAVE + 1, HIGH, taken_b, max(lfb_now, fetch), limits.lfb_size
                    )
                    issue, ahead = max(issue, lfb_now), max(ahead, lfb_now)
                    if ways > 0 and comes and load and limits.known:
                        issue = max(issue, memory.filling[_U(x & limits.set_mask)])
                taken, entries = (taken_a, taken_b, taken_c), (lb_now, sb_now, lfb_now)
                forwarded, word, word_end = False, np.int64(0), np.int64(0)
                if limits.x86_order:
                    issue = max(issue, last_load)
                    if not load:
                        issue = max(issue, last_store)
                if x >= 0:
                    if rarely(limits.inflight == BLOCKED):
                        issue = max(issue, memory.lines[_U(2 * x)])
                    if rarely(limits.stores & ((not load) | (last_store > issue))):
                        of_line = np.int64(1) << (limits.line_shift - limits.word_shift)
                        word = x * of_line + ((address >> limits.word_shift) & (of_line - 1))
                        word_end = min(word + ops[op + _U(SIZE)], (x + 1) * of_line)
                        if load and memory.lines[_U(2 * x + 1)] > issue:
                            for k in range(word, word_end):
                                if memory.stored[_U(k)] > issue:
                                    issue = memory.stored[_U(k)]
                                    forwarded = True
                issue = _place(rings, mask, units, unit, kind, count, 0, True, issue)
                row = _row(issue, mask)
                done = issue + table[unit + _U(TAKES)]
                if ways > 0 and rarely(comes):
                    waits, crowds = _set_filled(load, x, leaves, fetch, issue, slots, limits, memory)
                    done += waits
                    crowded += crowds
                if limits.joins and not load and address >= 0:
                    if not _joins(address >> limits.line_shift, memory.joined):
                        opened = max(opened + 1, issue + 1)
                    done = max(done, opened)
                if ways > 0 and not load and x >= 0:
                    memory.written[_U(x)] = slots
                if rarely(limits.lines_follow) and x >= 0:
                    if level == 0:
                        done = max(done, memory.lines[_U(2 * x)])
                    elif level > 1 and limits.prefetching and _prefetched(address >> limits.line_shift, memory.streams):
                        done = issue + units.latency[_U(_early(kind))]
                        types_begun &= (1 << LASTING) - 1
                if not paper and rarely(second >= 0):
                    rows[row] += table[unit + _U(ADD)]  # for the second not to find it free
                    there, farther = _second_line(
                        rings, mask, units, row_of_kind, shape, level, second, stack, memory.sets, memory.trees,
                        ways, not load, limits.splits, issue,
                    )  # fmt: skip
                    done = max(done, there)
                    rows[row] -= table[unit + _U(ADD)]
                    if farther > level:  # it counts as an access to the level that the farther one of its lines is in
                        count += farther - level
                arrives = done  # the line, for others
                if not paper and rarely(integer) and load:
                    done -= limits.earlier
                if not paper and rarely(forwarded):
                    forwards = parameters[FORWARDS if integer else FORWARDS_FP]
                    if forwards >= 0:
                        done = issue + forwards
                    if renamed and parameters[RENAMED] and words << limits.word_shift >= 4:
                        done = issue
                if limits.blocks and load and x >= 0:
                    written = _written(x, address, words, memory, limits.line_shift, limits.word_shift)
                    if rarely(written > issue):
                        done = max(done, written + parameters[BLOCKS])
                taken_a, taken_b, taken_c = taken
                if data and issue > fetch:
                    rows[row + _U(LEAVE)] += limits.rs_one
                    taken_a += limits.rs_one
                if load:
                    last_load = issue
                    taken_a = _hold_entry(rows, mask, LEAVE, limits.lb_one, taken_a, entries[0], done)
                else:
                    last_store = max(last_store, issue)
                    taken_b = _hold_entry(rows, mask, LEAVE + 1, limits.sb_one, taken_b, entries[1], done)
                    _stored(x, word, word_end, issue, done, retired, limits, memory)
                if rarely(level > 0):
                    taken_b = _hold_entry(rows, mask, LEAVE + 1, limits.lfb_one, taken_b, entries[2], done)
                    if rarely((limits.inflight != IGNORED) & (x >= 0)):
                        memory.lines[_U(2 * x)] = arrives
                taken = taken_a, taken_b, taken_c
            # Retire, in order.
            rows[row] += table[unit + _U(ADD)]
            rows[row + _U(ISSUED)] |= types_begun
            ready_at[_U(base + ops[op + _U(INTO)])] = done
            retired = max(retired, done)
            queues.rob[_U(slot & limits.rob_mask)] = retired & limits.rob_limited
            if limits.has_registers and wrote != 0:
                queues.registers[_U(writers & limits.register_mask)] = retired
                writers += 1
            slots += 1
            tally.nodes[_U(count)] += 1
            end = max(end, done, issue + 1)
            if rarely(recorded):
                record.issue[_U(nodes)] = issue
                record.done[_U(nodes)] = done
                record.type[_U(nodes)] = count & ((1 << SHAPE_BITS) - 1)
            nodes += 1
            op_at += 1 << OP_BITS
        if status != DONE:
            break
        previous = program.block_origin[block]
        at += 1 + program.block_addresses[block]
        op_at = -1

    saved[FETCH], saved[LEFT], saved[TAKEN_A], saved[TAKEN_B], saved[TAKEN_C] = (
        fetch,
        left,
        taken[0],
        taken[1],
        taken[2],
    )
    saved[LB_NOW], saved[SB_NOW], saved[LFB_NOW] = entries
    saved[RETIRED] = retired
    saved[LAST_LOAD], saved[LAST_STORE] = last_load, last_store
    saved[END], saved[NODES] = end, nodes
    saved[PREVIOUS], saved[BASE], saved[TOP], saved[DEPTH] = previous, base, top, depth
    saved[AT_RECORD], saved[AT_OP], saved[AT_ADDRESS] = at, op_at, address_at
    saved[INSTRUCTIONS], saved[COVERED], saved[SLOTS] = instructions, covered, slots
    saved[VECTOR_NOW], saved[VECTORS] = vectors
    saved[WRITERS], saved[WROTE] = writers, wrote
    saved[TURN], saved[TURNS], saved[OPENED] = turn, turns, opened
    saved[GROUP_READ], saved[LINE_READ] = group_read, line_read
    saved[CROWDED] = crowded
    return status
