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
    use: NDArray[np.int32]
    address_start: NDArray[np.int32]
    address_register: NDArray[np.int32]
    data_start: NDArray[np.int32]
    data_register: NDArray[np.int32]
    write_start: NDArray[np.int32]
    write_register: NDArray[np.int32]
    vector: NDArray[np.bool_]


class Costs(NamedTuple):
    """The core's capacities in ticks and entries, for K configurations (the last axis of every array)."""

    front_end: NDArray[np.int64]  # (K,) a slot
    retire: NDArray[np.int64]  # (K,) a slot
    rob: NDArray[np.int64]  # (K,) slots
    load_buffer: NDArray[np.int64]  # (K,)
    store_buffer: NDArray[np.int64]  # (K,)
    fill_buffers: NDArray[np.int64]  # (K,)
    use: NDArray[np.int64]  # (uses, K)
    latency: NDArray[np.int64]  # (instructions, K)
    level_latency: NDArray[np.int64]  # (8, K): of L1 to memory, for integer loads, then for vector loads
    byte: NDArray[np.int64]  # (K,) a byte of L1
    line: NDArray[np.int64]  # (4, K): a line from L2, L3, memory (index 0 unused)
    forward: NDArray[np.int64]  # (2, K): integer, vector
    penalty: NDArray[np.int64]  # (K,)


class State(NamedTuple):
    """What the pass carries from one window to the next."""

    now: NDArray[np.int64]  # dispatch, front end, retirement, last store written, end of last instruction
    count: NDArray[np.int64]  # instructions, slots, loads, stores, misses, fallen behind
    register: NDArray[np.int64]
    port: NDArray[np.int64]
    level: NDArray[np.int64]
    rob: NDArray[np.int64]
    loads: NDArray[np.int64]
    stores: NDArray[np.int64]
    misses: NDArray[np.int64]


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
        program.use,
        program.address_start,
        program.address_register,
        program.data_start,
        program.data_register,
        program.write_start,
        program.write_register,
        program.vector,
    )


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
    # A vector load takes as much longer at every level as it does in L1.
    extra = value("L1_vector_latency", first) - first
    bandwidth = [value(f"{name}_bandwidth", np.inf) for name in LEVELS]
    forward = value("store_forward_latency", first)
    return (
        ticks(core.resource("front_end").inverse_throughput),
        ticks(core.resource("retire").inverse_throughput),
        entries("rob"),
        entries("load_buffer"),
        entries("store_buffer"),
        entries("line_fill_buffers"),
        ticks(program.amount * each[program.use] if len(program.use) else np.zeros(0)),
        ticks(program.latency * value("instruction_latency", 1.0)),
        ticks([*levels, *(x + extra for x in levels)]),
        ticks(1.0 / bandwidth[0]),
        ticks([0.0, *(line / b for b in bandwidth[1:])]),
        ticks([forward, value("vector_store_forward_latency", forward)]),
        ticks(value("misprediction_penalty", 0.0)),
    )


def state(program: Program, cost: Costs) -> State:
    """Return the state before the first instruction, for one configuration."""
    return State(
        np.zeros(5, dtype=np.int64),
        np.zeros(6, dtype=np.int64),
        np.zeros(REGISTERS, dtype=np.int64),
        np.zeros(max(1, len(program.groups)), dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros(int(cost.rob[0]), dtype=np.int64),
        np.zeros(int(cost.load_buffer[0]), dtype=np.int64),
        np.zeros(int(cost.store_buffer[0]), dtype=np.int64),
        np.zeros(int(cost.fill_buffers[0]), dtype=np.int64),
    )


@njit(cache=True)
def run(w: Any, p: Any, c: Any, s: Any, shadow: Any, spent: Any) -> None:  # pragma: no cover - compiled
    """Simulate one window; add each instruction's share of the time to ``spent`` (instructions, causes)."""
    disp, fe, ret, written, end = s.now[0], s.now[1], s.now[2], s.now[3], s.now[4]
    n, slots, loads, stores, misses = s.count[0], s.count[1], s.count[2], s.count[3], s.count[4]
    fe_cost, ret_cost, penalty, byte = c.front_end[0], c.retire[0], c.penalty[0], c.byte[0]
    rob, lb, sb, fb = len(s.rob), len(s.loads), len(s.stores), len(s.misses)
    j = 0
    for t in range(len(w.stream)):
        b = w.stream[t]
        why = FRONT_END
        if w.mispredicted[t] and end + penalty > disp:
            disp = end + penalty
            why = MISPREDICTION
        for i in range(p.block_start[b], p.block_start[b + 1]):
            u = p.slots[i]
            m0, m1 = p.operand_start[i], p.operand_start[i + 1]
            is_load = False
            is_store = False
            for m in range(m0, m1):
                is_load |= p.read[m]
                is_store |= p.write[m]
            # Dispatch: an entry in every buffer, then the front end.
            if u > 0:
                free = s.rob[(slots + u - 1) % rob]
                if free > disp:
                    disp = free
                    why = ROB
            if is_load:
                free = s.loads[loads % lb]
                if free > disp:
                    disp = free
                    why = LOAD_BUFFER
            if is_store:
                free = s.stores[stores % sb]
                if free > disp:
                    disp = free
                    why = STORE_BUFFER
            if fe > disp:
                why = FRONT_END
                fe += fe_cost * u
            else:
                fe = disp + fe_cost * u
            disp = fe
            # The load stage: address registers, load ports, memory.
            a = disp
            cause = why
            for k in range(p.address_start[i], p.address_start[i + 1]):
                v = s.register[p.address_register[k]]
                if v > a:
                    a = v
                    cause = LATENCY
            u0 = p.use_start[i]
            u1 = u0 + p.load_uses[i]
            for k in range(u0, u1):
                r = p.use[k]
                v = s.port[r]
                if v > a:
                    a = v
                    cause = PORTS + r
                s.port[r] = (v if v > disp else disp) + c.use[k, 0]
            x = a
            vector = 1 if p.vector[i] else 0
            arrived = a
            for m in range(m0, m1):
                g = w.granule[j]
                if g < 0:
                    j += 1
                    continue
                code = w.code[j]
                level = code & 3
                split = (code & 64) != 0
                size = np.int64(w.size[j])
                v = s.level[0]
                got = a
                # An L1 hit that waits for nothing of its own leaves the time with what held it up before.
                which = cause if level == 0 and cause != LATENCY else LEVEL_LATENCY + level
                if v > got:
                    got = v
                    which = LEVEL_BANDWIDTH
                s.level[0] = (v if v > disp else disp) + size * byte
                if split and ((code >> 2) & 3) > level:
                    level = (code >> 2) & 3
                    which = LEVEL_LATENCY + level
                for q in range(1, level + 1):
                    v = s.level[q]
                    if v > got:
                        got = v
                        which = LEVEL_BANDWIDTH + q
                    s.level[q] = (v if v > disp else disp) + c.line[q, 0]
                fetched = (code >> 4) & 3
                for q in range(2, fetched + 1):
                    v = s.level[q]
                    s.level[q] = (v if v > disp else disp) + c.line[q, 0]
                if level > 0:
                    v = s.misses[misses % fb]
                    if v > got:
                        got = v
                        which = FILL_BUFFERS
                    s.misses[misses % fb] = got + c.level_latency[level, 0]
                    misses += 1
                if p.read[m]:
                    got += c.level_latency[level + 4 * vector, 0]
                    last = min(g + ((size + 7) >> 3), (g | 511) + 1)  # the part in the same page
                    for q in range(g, last):
                        v = shadow[q] + c.forward[vector, 0]
                        if v > got:
                            got = v
                            which = FORWARD
                    if got > x:
                        x = got
                        cause = which
                elif got + c.level_latency[level, 0] > arrived:
                    arrived = got + c.level_latency[level, 0]
                j += 1
            # The execution stage: data registers, ports.
            for k in range(p.data_start[i], p.data_start[i + 1]):
                v = s.register[p.data_register[k]]
                if v > x:
                    x = v
                    cause = LATENCY
            for k in range(u1, p.use_start[i + 1]):
                r = p.use[k]
                v = s.port[r]
                if v > x:
                    x = v
                    cause = PORTS + r
                s.port[r] = (v if v > disp else disp) + c.use[k, 0]
            end = x + c.latency[i, 0]
            for k in range(p.write_start[i], p.write_start[i + 1]):
                s.register[p.write_register[k]] = end
            # Retirement, in order.
            before = ret
            ret += ret_cost * u
            if end > ret:
                ret = end
            else:
                cause = RETIRE
            spent[i, cause] += ret - before
            for k in range(u):
                s.rob[slots % rob] = ret
                slots += 1
            if is_load:
                s.loads[loads % lb] = ret
                loads += 1
            if is_store:
                for m in range(m0, m1):
                    g = w.granule[j - (m1 - m)]
                    if g < 0 or not p.write[m]:
                        continue
                    last = min(g + ((np.int64(w.size[j - (m1 - m)]) + 7) >> 3), (g | 511) + 1)
                    for q in range(g, last):
                        if shadow[q] < end:
                            shadow[q] = end
                if written + TICKS > ret:
                    written += TICKS
                else:
                    written = ret
                if arrived > written:
                    written = arrived
                s.stores[stores % sb] = written
                stores += 1
            n += 1
    s.now[0], s.now[1], s.now[2], s.now[3], s.now[4] = disp, fe, ret, written, end
    s.count[0], s.count[1], s.count[2], s.count[3], s.count[4] = n, slots, loads, stores, misses
