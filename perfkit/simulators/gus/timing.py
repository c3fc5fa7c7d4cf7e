"""What Algorithm 1 of the Gus paper reads and keeps: the program, the core's capacities and the times, as arrays.

All times are whole ticks (`TICKS` a cycle: divisible by 1..12, so that widths, port counts and the usual weights give
exact ticks and ties stay ties).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.lanes import LANES, zeros
from perfkit.simulators.memory.forwarding import RECENT
from perfkit.simulators.program.program import CONDITIONAL, REGISTERS, Program, pruned
from perfkit.trace.code import StaticCode

TICKS = 55440
_UNLIMITED = 1 << 20  # entries of a buffer: a ring of a million times as many would need 32 GiB
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
    "vector_scheduler",
    "second_tlb_latency",
    "page_walk_latency",
    "L1_set_fill",
    "vector_registers",
)
RETIRE, FRONT_END, ROB, LOAD_BUFFER, STORE_BUFFER, MISPREDICTION, LATENCY, FORWARD = range(8)
LEVEL_LATENCY, LEVEL_BANDWIDTH, FILL_BUFFERS, SCHEDULER, TRANSLATION, SET_FILL, PORTS = 8, 12, 16, 17, 18, 20, 22
REGISTER_FILE = 21
WALKERS = 4  # in `State.level`: the walkers of pages come after the levels
FIRST_SET = 5  # and then the sets of L1
WALKING = 3  # in `Costs.walk`: how long after a page walk the next one begins


# What an instruction has, as counts, and its flags: fields of one number, (first bit, largest value).
SLOTS, FLAGS, OPERANDS, ADDRESSES = (0, 0xFFF), (12, 0x1FF), (21, 0x1FF), (30, 0x1F)
EARLY, DATA, LATE, WRITES = (35, 0x7F), (42, 0x7F), (49, 0x7F), (56, 0x7F)
LOADS, STORES, VECTOR, QUICK = 1, 2, 4, 8
SCHEDULED_SHIFT = 4  # two bits: which scheduler holds it, of `perfkit.simulators.program.program`
SCHEDULED = 0b11
NEW_LINE = 0x40  # it ends in another line of code than the byte before it
CROSSES = 0x80  # it begins in one line of code and ends in another
NAMED = 0x100  # its result takes a vector register
CODE_LINE = 64  # bytes
AHEAD = 8  # groups of uops that may wait for dispatch: an estimate, 64 uops
READ, WRITE, BESIDE = 1, 2, 4  # flags of an operand; the last: a store that takes no bandwidth of the loads


class Static(NamedTuple):
    """The program, as the compiled pass reads it: one number per instruction, and lists that lie in its order."""

    block_start: NDArray[np.int32]  # (blocks + 1,) first instruction
    block_use: NDArray[np.int32]  # (blocks,) first entry of `use`
    block_register: NDArray[np.int32]  # (blocks,) first entry of `register`
    block_operand: NDArray[np.int32]  # (blocks,) first entry of `operand`
    block_place: NDArray[np.int32]  # (blocks,) how many blocks lie at lower addresses
    block_jumps: NDArray[np.bool_]  # (blocks,) whether it ends with a jump, direct or conditional, and not a call
    head: NDArray[np.int64]  # (instructions,) `SLOTS` to `WRITES`
    place: NDArray[np.int32]  # (instructions,) of a group of the micro-op cache, in parts of a uop
    constants: NDArray[np.int32]  # (instructions,) uops and constants of 32 bits
    use: NDArray[np.uint16]  # port groups: those of the load stage first
    register: NDArray[np.uint16]  # registers of the address, of data, written
    operand: NDArray[np.uint8]  # flags of memory operands


class Costs(NamedTuple):
    """The core's capacities in ticks and entries, for K configurations (the last axis), or for one (no such axis)."""

    front_end: NDArray[np.int64]  # (slots + 1, K) what so many slots take
    retire: NDArray[np.int64]  # (slots + 1, K)
    rob: NDArray[np.int64]  # (K,) slots
    load_buffer: NDArray[np.int64]  # (K,)
    store_buffer: NDArray[np.int64]  # (K,)
    fill_buffers: NDArray[np.int64]  # (K,)
    use: NDArray[np.int64]  # (uses, K)
    latency: NDArray[np.int64]  # (instructions, K) from data registers
    value: NDArray[np.int64]  # (instructions, K) from a loaded value
    load: NDArray[np.int64]  # (instructions, K) from address registers to the value in L1, or to where data are awaited
    beyond: NDArray[np.int64]  # (8, K) what each level takes longer than the table's L1: integer, then vector loads
    byte: NDArray[np.int64]  # (1, K) a byte of L1
    line: NDArray[np.int64]  # (4, K): a line from L2, L3, memory (index 0 unused)
    back: NDArray[np.int64]  # (4, K): a written line that the level before gave up, into L2, L3, memory
    split: NDArray[np.int64]  # (1, K): what a load across the end of a line takes longer
    again: NDArray[np.int64]  # (1,) or (K,) how often more it uses the load's ports; all agree
    retag: NDArray[np.int64]  # (1, K) for how long a line that L1 holds as another page's keeps a port group busy
    retag_port: NDArray[np.int64]  # (1,) or (K,) which one, -1 where none; all agree
    forward: NDArray[np.int64]  # (3, K): integer, vector, blocked
    penalty: NDArray[np.int64]  # (1, K)
    taken: NDArray[np.int64]  # (1, K) between two taken branches, or pairs of them
    taken_pairs: NDArray[np.int64]  # (1,) or (K,) whether two of them go together, where the first leads on; all agree
    fetch: NDArray[np.int64]  # (1, K) between two groups of uops from the micro-op cache
    group: NDArray[np.int64]  # (1,) or (K,) `place` of such a group, 0 where the core has none; all agree
    most: NDArray[np.int64]  # (1,) or (K,) `constants` of such a group; all agree
    lined: NDArray[np.int64]  # (1,) or (K,) whether lines of code are read apart from groups; all agree
    commit: NDArray[np.int64]  # (2, K) a store to the line of the one(s) before, another store
    # (1,) or (K,), all agree: 1 where stores are written in pairs of neighbours only, or the bits by which a granule is
    # shifted to the piece whose stores are written together, where these follow one another (`store_boundary`).
    pairs: NDArray[np.int64]
    piece: NDArray[np.int64]  # (1,) or (K,), all agree: the bits by which a granule is shifted to what pairs lie in
    walk: NDArray[np.int64]  # (4, K) nothing, an access of the second TLB, a page walk; between two page walks
    page_split: NDArray[np.int64]  # (1, K) a store across the end of a page
    set_fill: NDArray[np.int64]  # (2, K) between two lines that come into one set of L1; where a written one leaves it
    early: NDArray[np.int64]  # (2, K) what is added to a result for additions: nothing, less than nothing
    vector_scheduler: NDArray[np.int64]  # (2, K) entries: operations, stores
    vector_queue: NDArray[np.int64]  # (K,)
    vector_registers: NDArray[np.int64]  # (K,) for results that have not retired
    # (6,) entries of ROB, load, store, fill buffers, queue and vector registers where all agree, else 0
    same: NDArray[np.int64]


class Schedulers(NamedTuple):
    """How many entries of each scheduler are held, and which of them are given free in which cycle to come."""

    waiting: NDArray[np.int16]  # (schedulers * CYCLES * K,) entries given free in a cycle, in rings, lane by lane
    cycle: NDArray[np.int64]  # (schedulers,) the first cycle whose entries were not given free yet
    entries: NDArray[np.int64]  # (schedulers,) entries held
    size: NDArray[np.int64]  # (schedulers,)
    at: NDArray[np.int64]  # (1,) a time to be passed


# How far ahead an operation's beginning is known, in cycles (a power of two); later ones count as the last.
CYCLES = 2048


class State(NamedTuple):
    """What the pass carries from one window to the next; times have a last axis of K where there are K of them."""

    # dispatch, front end, retirement, last store, end of last, last jump, left the queue last, latest arrival of a
    # line, the beginning of the group of uops, that of the line of code
    now: NDArray[np.int64]
    # instructions; used of each ring: rob, loads, stores, misses, queue; two lines written, whether as a pair; of the
    # group: place, constants; whether a taken branch may go with the last one; where the last block lies and
    # whether it ends with a jump; vector registers used
    counts: NDArray[np.int64]
    register: NDArray[np.int64]  # for every operation, then for additions
    port: NDArray[np.int64]
    level: NDArray[np.int64]  # of each level, of the page walkers, then of each set of L1 where these are modelled
    rob: NDArray[np.int64]  # rings of a power of two, so that buffers of other sizes fit in
    loads: NDArray[np.int64]
    stores: NDArray[np.int64]
    misses: NDArray[np.int64]
    queue: NDArray[np.int64]  # when operations left the queue before the schedulers
    data: NDArray[np.int64]  # when the data of the last stores are there, in the places of `stores`
    value: NDArray[np.int64]  # when the register that they store has its value
    held: Schedulers
    vectors: NDArray[np.int64]  # a ring as those of the buffers


class LineArrivals(NamedTuple):
    """When each line of the pages touched so far arrived in L1 last, from which level, and when it was asked for.

    ``asked`` is kept for causality alone: when the address of the access that brings the line was known, or `NEVER`
    where that access waited for more than its address.
    """

    arrival: NDArray[np.int64]
    origin: NDArray[np.int8]
    asked: NDArray[np.int64]
    shift: int  # a granule's line is ``granule >> shift``
    sets: int  # of L1, where the core's file says how fast each is filled, else 0


def static(program: Program) -> Static:
    """Return the arrays of a program that every pass reads.

    Raises
    ------
    DataError
        An instruction has more slots, operands, registers or uses than its number has room for.
    """
    code = program.code
    first = code.block_start[:-1]
    loads, stores = _any(code.read, code.operand_start), _any(code.write, code.operand_start)
    address, data, write = (np.diff(getattr(program, f"{name}_start")) for name in ("address", "data", "write"))
    uses = np.diff(program.use_start)
    flags = loads * LOADS + stores * STORES + program.vector * VECTOR + (program.early > 0) * QUICK
    if "vector_scheduler" in program.core.resources:
        flags = flags + (program.scheduler.astype(np.int64) << SCHEDULED_SHIFT)
    if "vector_registers" in program.core.resources:
        flags = flags + program.named * NAMED
    if not program.core.feature("op_cache_across_lines", False):
        flags = flags + _new_line(code) * NEW_LINE + _crosses(code) * CROSSES
    early, beside = program.load_uses, bool(program.core.feature("stores_beside_loads", False))
    fields = {
        SLOTS: program.slots,
        FLAGS: flags,
        OPERANDS: np.diff(code.operand_start),
        ADDRESSES: address,
        EARLY: early,
        DATA: data,
        LATE: uses - early,
        WRITES: write,
    }
    head = np.zeros(len(flags), dtype=np.int64)
    for (first_bit, largest), values in fields.items():
        if values.max(initial=0) > largest:
            k = int(values.argmax())
            raise DataError(f"{code.text[k]}: {values[k]} slots, operands, registers or uses; at most {largest} can be")
        head |= values.astype(np.int64) << first_bit
    # Instruction by instruction: its address registers, its data registers, those it writes.
    owner = np.concatenate([np.repeat(np.arange(len(head)), k) for k in (address, data, write)])
    register = np.concatenate([program.address_register, program.data_register, program.write_register])
    register_start = np.concatenate(([0], np.cumsum(address + data + write))).astype(np.int32)
    return Static(
        code.block_start,
        program.use_start[first],
        register_start[first],
        code.operand_start[first],
        np.argsort(np.argsort(code.pc[first], kind="stable")).astype(np.int32),
        program.ending[code.block_start[1:] - 1] & ~np.int8(CONDITIONAL) == 0,
        head,
        (_parts(program.core) * program.slots + program.wide * (_parts(program.core) > 1)).astype(np.int32),
        (program.slots + program.constants).astype(np.int32),
        program.use.astype(np.uint16),
        register[np.argsort(owner, kind="stable")].astype(np.uint16),
        (code.read * READ + code.write * WRITE + (~code.read & beside) * BESIDE).astype(np.uint8),
    )


def code_reads(program: Program) -> NDArray[np.int64]:
    """Return how many groups and lines of decoded code each block begins, shape (blocks, 2, 2).

    First where the block is entered from the one that lies before it, as after that one was entered by a jump; then
    where it is entered by a jump itself. On a core without such groups, all are 0.
    """
    code, (room, most, lined) = program.code, _group(program.core)
    begins = code.block_start.tolist()
    found = np.zeros((len(begins) - 1, 2, 2), dtype=np.int64)
    if not room:
        return found
    parts = _parts(program.core)
    across = bool(program.core.feature("op_cache_across_lines", False))
    line = np.zeros(len(program.slots), dtype=np.bool_) if across else _new_line(code)
    crosses = np.zeros_like(line) if across else _crosses(code)
    place = (parts * program.slots + program.wide * (parts > 1)).tolist()
    taken = (program.slots + program.constants).tolist()

    def grouped(block: int, held: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        groups = 0
        for i in range(begins[block], begins[block + 1]):
            if program.slots[i]:
                held = held[0] + place[i], held[1] + taken[i]
                if held[0] > room or held[1] > most or (line[i] and not lined):
                    groups, held = groups + 1, (place[i], taken[i])
        return groups, held

    full = int(room), int(most)
    ends = {int(code.pc[end - 1]) + int(code.length[end - 1]): k for k, end in enumerate(begins[1:])}
    for block, (first, end) in enumerate(pairwise(begins)):
        before = ends.get(int(code.pc[first]))
        held = full if before is None else grouped(before, full)[1]
        new = int(line[first:end].sum()) if lined else 0
        found[block, 0] = grouped(block, held)[0], new
        found[block, 1] = grouped(block, full)[0], new + int(lined) * int(not line[first] or crosses[first])
    return found


def without_lines(program: Static) -> Static:
    """Return the program with nothing said of where lines of code end."""
    return program._replace(head=program.head & ~np.int64((NEW_LINE | CROSSES) << FLAGS[0]))


def _new_line(code: StaticCode) -> NDArray[np.bool_]:
    """Return, for each instruction, whether it ends in another line of code than the one that lies before it."""
    pc = code.pc.astype(np.uint64)
    return (pc + code.length.astype(np.uint64) - np.uint64(1)) // CODE_LINE != (pc - np.uint64(1)) // CODE_LINE


def _crosses(code: StaticCode) -> NDArray[np.bool_]:
    """Return, for each instruction, whether it begins in one line of code and ends in another."""
    pc = code.pc.astype(np.uint64)
    return (pc + code.length.astype(np.uint64) - np.uint64(1)) // CODE_LINE != pc // CODE_LINE


def _parts(core: Microarchitecture) -> int:
    """Return in how many parts a uop's place in a group of the micro-op cache is counted: EVEX takes one of them."""
    return int(core.feature("op_cache_evex", 1))


def _group(core: Microarchitecture) -> tuple[Any, Any, Any]:
    """Return what a group of the micro-op cache holds, and whether lines of code are read apart from groups."""
    uops = int(core.feature("op_cache_group", 0)) if "op_cache" in core.resources else 0
    room = uops * _parts(core) + (_parts(core) > 1 and uops > 0)
    constants = core.feature("op_cache_constants", None)
    return (
        np.int64(room),
        np.int64(1 << 30 if constants is None else uops + int(constants)),
        np.int64(core.feature("op_cache_lines", False)),
    )


def _any(flags: NDArray[np.bool_], start: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return, for each instruction, whether any of its operands has the flag."""
    total = np.concatenate(([0], np.cumsum(flags)))
    return total[start[1:]] > total[start[:-1]]


def costs(program: Program, cores: tuple[Microarchitecture, ...]) -> Costs:
    """Return what the program costs on its core's K variants: `LANES` of them, or one.

    Raises
    ------
    SettingError
        A buffer would have less than one entry.
    """
    each = [_costs_of(program, core) for core in cores]
    columns = list(zip(*each, strict=True))
    buffers = [*columns[Costs._fields.index("rob") : Costs._fields.index("fill_buffers") + 1]]
    buffers += [columns[Costs._fields.index(name)] for name in ("vector_queue", "vector_registers")]
    same = np.array([entries[0] if len(set(entries)) == 1 else 0 for entries in buffers], dtype=np.int64)
    if len(each) == 1:
        return Costs(*(np.atleast_1d(column[0]) for column in columns), same)  # type: ignore[call-arg]
    lanes = (np.ascontiguousarray(np.stack(column, axis=-1)) for column in columns)
    return Costs(*lanes, same)  # type: ignore[call-arg]


def _costs_of(program: Program, core: Microarchitecture) -> tuple[Any, ...]:
    def ticks(cycles: Any) -> Any:
        return np.rint(np.asarray(cycles, dtype=np.float64) * TICKS).astype(np.int64)

    def entries(name: str) -> Any:
        found = core.resources.get(name)
        n = int(min(found.value, _UNLIMITED)) if found is not None else _UNLIMITED
        if n < 1:
            raise SettingError(f"{name}: a buffer needs at least one entry; {n} would let nothing through")
        return np.int64(n)

    def value(name: str, default: float) -> float:
        found = core.resources.get(name)
        return found.value if found is not None else default

    each = np.array([core.resource(g).inverse_throughput for g in program.groups])
    factor = value("instruction_latency", 1.0)
    base = program.core
    forward = value("store_forward_latency", value("L1_latency", 0.0))
    blocked = value("blocked_store_forward_latency", value("vector_store_forward_latency", forward))
    slots = np.arange(int(program.slots.max(initial=0)) + 1)
    retag = str(core.feature("retag_ports", ""))
    return (
        ticks(core.resource("front_end").inverse_throughput) * slots,
        ticks(core.resource("retire").inverse_throughput) * slots,
        entries("rob"),
        entries("load_buffer"),
        entries("store_buffer"),
        entries("line_fill_buffers"),
        ticks(program.amount * each[program.use] if len(program.use) else np.zeros(0)),
        ticks(program.latency * factor),
        ticks(program.value_latency * factor),
        ticks(np.where([form.loads for form in program.forms], program.load_latency, program.load_latency * factor)),
        *_levels(core, base, value, ticks),
        ticks([value("line_split_latency", 0.0)]),
        np.int64(core.feature("line_split_penalty", 1)),
        ticks([float(core.feature("retag_uses", 0)) * core.resource(retag).inverse_throughput if retag else 0.0]),
        np.int64(program.groups.index(retag) if retag else -1),
        ticks([forward, value("vector_store_forward_latency", forward), blocked]),
        ticks([value("misprediction_penalty", 0.0)]),
        ticks([1.0 / value("taken_branches", np.inf)]),
        np.int64(bool(core.feature("taken_branch_pairs", False))),
        ticks([1.0 / value("op_cache", np.inf)]),
        *_group(core),
        *_commit(core, base, ticks),
        np.int64(int(core.feature("store_pair_bytes", 64)).bit_length() - 4),
        ticks([0.0, value("second_tlb_latency", 0.0), *_walks(core, value("page_walk_latency", 0.0))]),
        ticks([value("page_split_store", 0.0)]),
        ticks([value("L1_set_fill", 0.0), 2 * value("L1_set_fill", 0.0)]),
        ticks([0.0, -program.early.max(initial=0.0) * factor]),
        np.array([entries("vector_scheduler"), entries("vector_store_scheduler")]),
        np.int64(entries("vector_queue") if "vector_queue" in core.resources else 1),
        np.int64(entries("vector_registers") if "vector_registers" in core.resources else 1),
    )


def _levels(core: Microarchitecture, base: Microarchitecture, value: Callable[[str, float], float], ticks: Any) -> Any:
    """Return each level's latency beyond the table's of a load, and its time per access, line and write-back."""
    # A table's load latency is that of the core's L1, as it was before any weight.
    first, line = value("L1_latency", 0.0), core.caches[0].line
    names = ("L1_latency", "L1_vector_latency" if "L1_vector_latency" in core.resources else "L1_latency")
    saved = [base.resource(name).value - core.resource(name).value for name in names]
    beyond = [value(f"{name}_latency", first) - base.resource("L1_latency").value for name in LEVELS[1:]]
    bandwidth = [value(f"{name}_bandwidth", np.inf) for name in LEVELS]
    back = float(core.feature("write_back_lines", 0))
    return (
        ticks([-saved[0], *beyond, -saved[1], *beyond]),
        ticks([1.0 / bandwidth[0]]),
        ticks([0.0, *(line / b for b in bandwidth[1:])]),
        ticks([0.0, *(back * line / b for b in bandwidth[1:])]),
    )


def begin(program: Program, cores: tuple[Microarchitecture, ...]) -> tuple[Static, Costs, State, LineArrivals]:
    """Return what the recurrence needs to simulate a program from its first instruction on a core's K variants."""
    fast = pruned(program, cores)
    cost = costs(fast, cores)
    return static(fast), cost, state(program, cost), _lines(program, cost)


def state(program: Program, cost: Costs) -> State:
    """Return the state before the first instruction, for as many configurations as ``cost`` has."""
    lanes = cost.use.ndim == 2

    def ring(entries: NDArray[np.int64]) -> NDArray[np.int64]:
        return zeros(1 << int(entries.max()).bit_length(), lanes)

    schedulers = Schedulers(
        np.zeros(2 * CYCLES * (LANES if lanes else 1), dtype=np.int16),
        zeros(2, lanes),
        zeros(2, lanes),
        cost.vector_scheduler,
        zeros(1, lanes),
    )
    return State(
        zeros(10, lanes),
        np.array([0, 0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0], dtype=np.int64),
        zeros(2 * REGISTERS, lanes),
        zeros(len(program.groups), lanes),
        zeros(FIRST_SET + _sets(program), lanes),
        ring(cost.rob),
        ring(cost.load_buffer),
        ring(np.maximum(cost.store_buffer, RECENT)),  # loads ask when stores were written that have left the buffer
        ring(cost.fill_buffers),
        ring(cost.vector_queue),
        ring(np.maximum(cost.store_buffer, RECENT)),
        ring(np.maximum(cost.store_buffer, RECENT)),
        schedulers,
        ring(cost.vector_registers),
    )


def _walks(core: Microarchitecture, latency: float) -> tuple[float, float]:
    """Return how long a page walk takes, and how long after one the next begins: several walkers share the work."""
    walkers = int(core.feature("page_walkers", 0))
    return latency, latency / walkers if walkers else 0.0


def _commit(core: Microarchitecture, base: Microarchitecture, ticks: Any) -> tuple[Any, Any]:
    """Return what a store to the same line (or piece) and one to another take, and how the former go together."""
    found = core.resources.get("store_commit")
    if found is None:
        return ticks([1.0, 1.0]), np.int64(0)
    slower = base.resource("store_commit").value / found.value  # than the core as it is, where it has a weight
    boundary = int(core.feature("store_boundary", 0))
    if boundary:
        return ticks([0.0, slower]), np.int64(boundary.bit_length() - 4)
    pairs = bool(core.feature("store_pairing", False))
    same = max(0.0, 2.0 / base.resource("store_commit").value - 1.0) if pairs else 1.0 / base.value("store_commit")
    return ticks([same * slower, slower]), np.int64(pairs)


def _lines(program: Program, cost: Costs) -> LineArrivals:
    """Return memory before the first access."""
    lanes = cost.use.ndim == 2
    shift = int(np.log2(program.core.caches[0].line)) - 3
    size = _PAGE >> shift
    asked = np.full(size, NEVER, dtype=np.int64)
    return LineArrivals(zeros(size, lanes), np.zeros(size, dtype=np.int8), asked, shift, _sets(program))


_PAGE = 512  # granules


def _sets(program: Program) -> int:
    """Return how many sets of L1 take lines one by one; a set is known by its line's place in a page."""
    core = program.core
    if "L1_set_fill" not in core.resources:
        return 0
    sets, lines = core.caches[0].sets, 4096 // core.caches[0].line
    if sets & (sets - 1) or sets > lines:
        raise SettingError(f"L1_set_fill is modelled for a power of two of at most {lines} sets in L1; found {sets}")
    return sets


def room(old: LineArrivals, pages: int) -> LineArrivals:
    """Return memory with room for so many pages, and as many again when it grows."""
    per_page = _PAGE >> old.shift
    if pages * per_page <= len(old.arrival):
        return old
    arrival = zeros(2 * pages * per_page, old.arrival.ndim == 2)
    origin = np.zeros(2 * pages * per_page, dtype=np.int8)
    asked = np.full(2 * pages * per_page, NEVER, dtype=np.int64)
    arrival[: len(old.arrival)] = old.arrival
    origin[: len(old.origin)] = old.origin
    asked[: len(old.asked)] = old.asked
    return LineArrivals(arrival, origin, asked, old.shift, old.sets)
