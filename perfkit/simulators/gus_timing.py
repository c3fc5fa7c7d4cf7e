"""Algorithm 1 of the Gus paper, for one configuration, with an exact account of where every cycle went.

All times are whole ticks (`TICKS` a cycle: divisible by 1..12, so that widths, port counts and the usual weights give
exact ticks and ties stay ties). The pass keeps, for every resource, register and 8-byte word of memory, the earliest
time at which it is available, and moves through the instructions in order.

What is added to the printed algorithm, with its reason:

- a load's latency delays its memory operand, not its register operands (micro-fused forms);
- a value forwarded from a store arrives after the store-forward latency;
- retirement has a width and is in order; loads and stores hold their buffer entries until they retire and are
  written, an L1 miss holds a line-fill buffer until its line arrives;
- latency and bandwidth of each memory level are separate; an access that crosses a line uses two lines;
- a mispredicted branch delays the next dispatch (the paper predicts perfectly).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.microarchitecture import Microarchitecture
from perfkit.simulators.program import REGISTERS, Program

TICKS = 55440
NEVER = -(1 << 60)  # before every time of a run
LEVELS = ("L1", "L2", "L3", "memory")

# Where a retired instruction's share of the time went. Port groups follow, in the program's order.
CAUSES = (
    "retire",
    "front_end",
    "rob",
    "load_buffer",
    "store_buffer",
    "misprediction_penalty",
    "instruction_latency",
    "store_forward_latency",
    "L1_latency",
    "L2_latency",
    "L3_latency",
    "memory_latency",
    "L1_bandwidth",
    "L2_bandwidth",
    "L3_bandwidth",
    "memory_bandwidth",
    "line_fill_buffers",
)
RETIRE, FRONT_END, ROB, LOAD_BUFFER, STORE_BUFFER, MISPREDICTION, LATENCY, FORWARD = range(8)
LEVEL_LATENCY, LEVEL_BANDWIDTH, FILL_BUFFERS, PORTS = 8, 12, 16, 17


class Static(NamedTuple):
    """The program, as the compiled passes read it."""

    block_start: NDArray[np.int32]
    operand_start: NDArray[np.int32]
    read: NDArray[np.bool_]
    write: NDArray[np.bool_]
    slots: NDArray[np.int32]
    use_start: NDArray[np.int32]
    load_uses: NDArray[np.int32]
    use: NDArray[np.uint16]  # unsigned: indexing needs no check for a negative one
    address_start: NDArray[np.int32]
    address_register: NDArray[np.uint16]
    data_start: NDArray[np.int32]
    data_register: NDArray[np.uint16]
    write_start: NDArray[np.int32]
    write_register: NDArray[np.uint16]
    vector: NDArray[np.bool_]
    early: NDArray[np.int64]
    kind: NDArray[np.int8]
    loads: NDArray[np.bool_]  # whether any operand is read
    stores: NDArray[np.bool_]  # whether any operand is written


class Costs(NamedTuple):
    """The core's capacities in ticks and entries, for K configurations (the last axis of every array)."""

    front_end: NDArray[np.int64]  # (K,) a slot
    retire: NDArray[np.int64]  # (K,) a slot
    rob: NDArray[np.int64]  # (K,) slots
    load_buffer: NDArray[np.int64]  # (K,)
    store_buffer: NDArray[np.int64]  # (K,)
    fill_buffers: NDArray[np.int64]  # (K,)
    use: NDArray[np.int64]  # (uses, K)
    latency: NDArray[np.int64]  # (instructions, K) from data registers
    value: NDArray[np.int64]  # (instructions, K) from a loaded value
    load: NDArray[np.int64]  # (instructions, K) from address registers to the value in L1
    beyond: NDArray[np.int64]  # (8, K) what each level takes longer than the table's L1: integer, then vector loads
    byte: NDArray[np.int64]  # (K,) a byte of L1
    line: NDArray[np.int64]  # (4, K): a line from L2, L3, memory (index 0 unused)
    forward: NDArray[np.int64]  # (3, K): integer, vector, blocked
    penalty: NDArray[np.int64]  # (K,)
    commit: NDArray[np.int64]  # (K,)
    taken: NDArray[np.int64]  # (K,)


class State(NamedTuple):
    """What the pass carries from one window to the next."""

    now: NDArray[np.int64]  # dispatch, front end, retirement, last store written, end of last instruction
    counts: NDArray[np.int64]  # instructions, then the next place in each ring: rob, loads, stores, misses
    register: NDArray[np.int64]
    quick: NDArray[np.int64]
    port: NDArray[np.int64]
    level: NDArray[np.int64]
    rob: NDArray[np.int64]
    loads: NDArray[np.int64]
    stores: NDArray[np.int64]
    misses: NDArray[np.int64]
    wait: NDArray[np.int32]
    clock: NDArray[np.int64]
    nsq: NDArray[np.int64]


def static(program: Program) -> Static:
    """Return the arrays of a program that every pass reads."""
    code = program.code
    return Static(
        code.block_start,
        code.operand_start,
        code.read,
        code.write,
        program.slots,
        program.use_start,
        program.load_uses,
        program.use.astype(np.uint16),
        program.address_start,
        program.address_register.astype(np.uint16),
        program.data_start,
        program.data_register.astype(np.uint16),
        program.write_start,
        program.write_register.astype(np.uint16),
        program.vector,
        np.rint(program.early * TICKS).astype(np.int64),
        program.kind,
        _any(code.read, code.operand_start),
        _any(code.write, code.operand_start),
    )


def _any(flags: NDArray[np.bool_], start: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return, for each instruction, whether any of its operands has the flag."""
    total = np.concatenate(([0], np.cumsum(flags)))
    return total[start[1:]] > total[start[:-1]]


def costs(program: Program, cores: tuple[Microarchitecture, ...]) -> Costs:
    """Return what the program costs on each of K variants of its core.

    Raises
    ------
    SettingError
        A buffer would have less than one entry.
    """
    each = [_costs_of(program, core) for core in cores]
    return Costs(*(np.ascontiguousarray(np.stack(column, axis=-1)) for column in zip(*each, strict=True)))


def _costs_of(program: Program, core: Microarchitecture) -> tuple[Any, ...]:
    def ticks(cycles: Any) -> Any:
        return np.rint(np.asarray(cycles, dtype=np.float64) * TICKS).astype(np.int64)

    def entries(name: str) -> Any:
        found = core.resources.get(name)
        n = int(found.value) if found is not None else 1 << 20
        if n < 1:
            raise SettingError(f"{name}: a buffer needs at least one entry; {n} would let nothing through")
        return np.int64(n)

    def value(name: str, default: float) -> float:
        found = core.resources.get(name)
        return found.value if found is not None else default

    each = np.array([core.resource(g).inverse_throughput for g in program.groups])
    line = core.caches[0].line
    first = value("L1_latency", 0.0)
    levels = [first, *(value(f"{name}_latency", first) for name in LEVELS[1:])]
    factor = value("instruction_latency", 1.0)
    # A table's load latency is that of the core's L1, as it was before any weight.
    base = program.core
    names = ("L1_latency", "L1_vector_latency" if "L1_vector_latency" in core.resources else "L1_latency")
    saved = np.array([base.resource(name).value - core.resource(name).value for name in names])
    beyond = [x - base.resource("L1_latency").value for x in levels[1:]]
    bandwidth = [value(f"{name}_bandwidth", np.inf) for name in LEVELS]
    forward = value("store_forward_latency", first)
    blocked = value("blocked_store_forward_latency", value("vector_store_forward_latency", forward))
    return (
        ticks(core.resource("front_end").inverse_throughput),
        ticks(core.resource("retire").inverse_throughput),
        entries("rob"),
        entries("load_buffer"),
        entries("store_buffer"),
        entries("line_fill_buffers"),
        ticks(program.amount * each[program.use] if len(program.use) else np.zeros(0)),
        ticks(program.latency * factor),
        ticks(program.value_latency * factor),
        ticks(program.load_latency),
        ticks([-saved[0], *beyond, -saved[1], *beyond]),
        ticks(1.0 / bandwidth[0]),
        ticks([0.0, *(line / b for b in bandwidth[1:])]),
        ticks([forward, value("vector_store_forward_latency", forward), blocked]),
        ticks(value("misprediction_penalty", 0.0)),
        ticks(1.0 / value("store_commit", 1.0)),
        ticks(1.0 / value("taken_branches", np.inf)),
    )


def state(program: Program, cost: Costs) -> State:
    """Return the state before the first instruction, for one configuration."""
    return State(
        np.zeros(12, dtype=np.int64),
        np.zeros(6, dtype=np.int64),
        np.zeros(REGISTERS, dtype=np.int64),
        np.zeros(REGISTERS, dtype=np.int64),
        np.zeros(max(1, len(program.groups)), dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros(int(cost.rob[0]), dtype=np.int64),
        np.zeros(int(cost.load_buffer[0]), dtype=np.int64),
        np.zeros(int(cost.store_buffer[0]), dtype=np.int64),
        np.zeros(int(cost.fill_buffers[0]), dtype=np.int64),
        np.zeros((4, 4096), dtype=np.int32),
        np.array([[0, 0, size] for size in _schedulers(program.core)], dtype=np.int64),
        np.zeros(_queue(program.core), dtype=np.int64),
    )


import os
def _schedulers(core: Any) -> list[int]:
    return [int(x) for x in os.environ.get("SCHED", "88,56,76,38").split(",")]


def _queue(core: Any) -> int:
    return int(os.environ.get("NSQ", "96"))


RING = 4096


@njit(cache=True)
def _enter(wait: Any, clock: Any, q: Any, t: Any) -> Any:
    cycle = np.int64((t + 0.5) * (1.0 / TICKS))
    now, held, size = clock[q, 0], clock[q, 1], clock[q, 2]
    if cycle > now:
        if cycle - now > RING:
            now = cycle - RING
        while now < cycle:
            held -= wait[q, now & (RING - 1)]
            wait[q, now & (RING - 1)] = 0
            now += 1
        if held < 0:
            held = 0
    while held >= size:
        held -= wait[q, now & (RING - 1)]
        wait[q, now & (RING - 1)] = 0
        now += 1
        if now * TICKS > t:
            t = now * TICKS
    clock[q, 0], clock[q, 1] = now, held
    return t


@njit(cache=True)
def _wait(wait: Any, clock: Any, q: Any, t: Any) -> None:
    cycle = np.int64((t + 0.5) * (1.0 / TICKS))
    now = clock[q, 0]
    if cycle >= now:
        if cycle > now + RING - 1:
            cycle = now + RING - 1
        wait[q, cycle & (RING - 1)] += 1
        clock[q, 1] += 1


@njit(cache=True)
def run(w: Any, p: Any, c: Any, s: Any, shadow: Any, spent: Any) -> None:  # pragma: no cover - compiled
    """Simulate one window; add each instruction's share of the time to ``spent`` (instructions, causes)."""
    c_byte = c.byte
    c_forward = c.forward
    c_front_end = c.front_end
    c_latency = c.latency
    c_beyond = c.beyond
    c_load = c.load
    c_value = c.value
    c_line = c.line
    c_penalty = c.penalty
    c_retire = c.retire
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
    s_quick = s.quick
    p_early = p.early
    commit, taken = c.commit[0], c.taken[0]
    jump = s_now[5]
    s_wait, s_clock, s_nsq, p_kind = s.wait, s.clock, s.nsq, p.kind
    nsq = s_now[7]
    s_rob = s.rob
    s_stores = s.stores
    w_code = w.code
    w_granule = w.granule
    w_mispredicted = w.mispredicted
    w_size = w.size
    w_stream = w.stream
    disp, fe, ret, written, end = s_now[0], s_now[1], s_now[2], s_now[3], s_now[4]
    n, slots, loads, stores, misses = s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4]
    fe_cost, ret_cost, penalty, byte = c_front_end[0], c_retire[0], c_penalty[0], c_byte[0]
    rob, lb, sb, fb = len(s_rob), len(s_loads), len(s_stores), len(s_misses)
    j = 0
    previous = np.int64(-5)
    for t in range(len(w_stream)):
        b = w_stream[t]
        why = FRONT_END
        if b != previous + 1:  # FIXME fall through
            jump = max(jump + taken, disp)
            if jump > fe:
                fe = jump
        previous = b
        if w_mispredicted[t] and end + penalty > disp:
            disp = end + penalty
            why = MISPREDICTION
        for i in range(p_block_start[b], p_block_start[b + 1]):
            u = np.int64(p_slots[i])
            m0, m1 = p_operand_start[i], p_operand_start[i + 1]
            is_load, is_store = p_loads[i], p_stores[i]
            # Dispatch: an entry in every buffer, then the front end.
            if u > 0:
                k = slots + u - 1
                free = s_rob[k if k < rob else k - rob]
                if free > disp:
                    disp = free
                    why = ROB
            if is_load:
                free = s_loads[loads]
                if free > disp:
                    disp = free
                    why = LOAD_BUFFER
            if is_store:
                free = s_stores[stores]
                if free > disp:
                    disp = free
                    why = STORE_BUFFER
            kind = p_kind[i]
            if kind == 1:
                got = _enter(s_wait, s_clock, 0, disp)
                if got > disp:
                    disp = got
                    why = ROB
            if m1 > m0:
                got = _enter(s_wait, s_clock, 1, disp)
                if got > disp:
                    disp = got
                    why = ROB
            if kind >= 2:
                free = s_nsq[nsq]
                if free > disp:
                    disp = free
                    why = ROB
            if fe > disp:
                why = FRONT_END
                fe += fe_cost * u
            else:
                fe = disp + fe_cost * u
            disp = fe
            enter = disp
            if kind >= 2:
                enter = _enter(s_wait, s_clock, kind, max(disp, s_now[6]))
                s_now[6] = enter
                s_nsq[nsq] = enter
                nsq = nsq + 1 if nsq + 1 < len(s_nsq) else 0
            # The load stage: address registers, load ports, memory.
            a = disp
            cause = why
            for k in range(p_address_start[i], p_address_start[i + 1]):
                v = s_register[p_address_register[k]]
                if v > a:
                    a = v
                    cause = LATENCY
            u0 = p_use_start[i]
            u1 = u0 + p_load_uses[i]
            for k in range(u0, u1):
                r = p_use[k]
                v = s_port[r]
                if v > a:
                    a = v
                    cause = PORTS + r
                s_port[r] = (v if v > disp else disp) + c_use[k, 0]
            vector = 1 if p_vector[i] else 0
            # What does not load waits for its address registers as for its data; a load's value comes by itself.
            if m1 > m0:
                _wait(s_wait, s_clock, 1, a)
            x = disp if is_load else a
            if enter > x:
                x = enter
            loaded = NEVER
            by_memory = by_address = cause
            if is_load:
                cause = why
            arrived = a
            for m in range(m0, m1):
                g = w_granule[j]
                if g < 0:
                    j += 1
                    continue
                code = np.int64(w_code[j])
                level = code & 3
                split = (code & 64) != 0
                size = np.int64(w_size[j])
                v = s_level[0]
                got = a
                # An L1 hit that waits for nothing of its own leaves the time with what held it up before.
                which = by_address if level == 0 and by_address != LATENCY else LEVEL_LATENCY + level
                if v > got:
                    got = v
                    which = LEVEL_BANDWIDTH
                s_level[0] = (v if v > disp else disp) + size * byte
                if split:  # a second access: the load's ports once more
                    for k in range(u0, u1):
                        s_port[p_use[k]] += c_use[k, 0]
                if split and ((code >> 2) & 3) > level:
                    level = (code >> 2) & 3
                    which = LEVEL_LATENCY + level
                for q in range(1, level + 1):
                    v = s_level[q]
                    if v > got:
                        got = v
                        which = LEVEL_BANDWIDTH + q
                    s_level[q] = (v if v > disp else disp) + c_line[q, 0]
                fetched = (code >> 4) & 3
                # A prefetch costs no latency, but the access that asks for it waits until there is bandwidth for it.
                for q in range(2, fetched + 1):
                    v = s_level[q]
                    if v > got:
                        got = v
                        which = LEVEL_BANDWIDTH + q
                    s_level[q] = (v if v > disp else disp) + c_line[q, 0]
                if level > 0:
                    v = s_misses[misses]
                    if v > got:
                        got = v
                        which = FILL_BUFFERS
                    s_misses[misses] = got + c_load[i, 0] + c_beyond[level, 0]
                    misses = misses + 1 if misses + 1 < fb else 0
                if p_read[m]:
                    got += c_load[i, 0] + c_beyond[level + 4 * vector, 0]
                    last = min(g + ((size + 7) >> 3), (g | 511) + 1)  # the part in the same page
                    way = vector if code < 128 else 2
                    for q in range(g, last):
                        v = shadow[q] + c_forward[vector, 0]
                        if v > got:
                            got = v
                            which = FORWARD
                    if code >= 128:  # bytes of several stores: it waits until the newest of them is written
                        q = stores - 1 - (code >> 8)
                        v = s_stores[q if q >= 0 else q + sb] + c_forward[2, 0]
                        if v > got:
                            got = v
                            which = FORWARD
                    if got > loaded:
                        loaded = got
                        by_memory = which
                elif level > 0 and got + c_beyond[level, 0] > arrived:
                    arrived = got + c_beyond[level, 0]
                j += 1
            # The execution stage: data registers, ports.
            early = p_early[i]
            for k in range(p_data_start[i], p_data_start[i + 1]):
                v = s_quick[p_data_register[k]] if early > 0 else s_register[p_data_register[k]]
                if v > x:
                    x = v
                    cause = LATENCY
            twice = 1
            if is_store and not is_load and m1 > m0 and (w_code[j - 1] & 64) != 0:
                twice = 2
            for k in range(u1, p_use_start[i + 1]):
                r = p_use[k]
                v = s_port[r]
                if v > x:
                    x = v
                    cause = PORTS + r
                s_port[r] = (v if v > disp else disp) + c_use[k, 0] * twice
            if kind == 1:
                _wait(s_wait, s_clock, 0, x)
            elif kind >= 2:
                issue = x if x > loaded else loaded
                _wait(s_wait, s_clock, kind, issue)
            end = x + c_latency[i, 0]
            if loaded + c_value[i, 0] > end:
                end = loaded + c_value[i, 0]
                cause = by_memory
            for k in range(p_write_start[i], p_write_start[i + 1]):
                s_register[p_write_register[k]] = end
                s_quick[p_write_register[k]] = end - early
            # Retirement, in order.
            before = ret
            ret += ret_cost * u
            if end > ret:
                ret = end
            else:
                cause = RETIRE
            spent[i, cause] += ret - before
            for _k in range(u):
                s_rob[slots] = ret
                slots = slots + 1 if slots + 1 < rob else 0
            if is_load:
                s_loads[loads] = ret
                loads = loads + 1 if loads + 1 < lb else 0
            if is_store:
                for m in range(m0, m1):
                    g = w_granule[j - (m1 - m)]
                    if g < 0 or not p_write[m]:
                        continue
                    last = min(g + ((np.int64(w_size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, last):
                        if shadow[q] < end:
                            shadow[q] = end
                line = w_granule[j - (m1 - m0)] >> 3
                step = commit if line == s_now[9] or line == s_now[10] else TICKS
                if line != s_now[9]:
                    s_now[10] = s_now[9]
                    s_now[9] = line
                if written + step > ret:
                    written += step
                else:
                    written = ret
                if arrived > written:
                    written = arrived
                s_stores[stores] = written
                stores = stores + 1 if stores + 1 < sb else 0
            n += 1
    s_now[0], s_now[1], s_now[2], s_now[3], s_now[4] = disp, fe, ret, written, end
    s_now[5] = jump
    s_now[7] = nsq
    s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4] = n, slots, loads, stores, misses
