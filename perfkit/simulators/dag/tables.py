"""The tables and arrays that `DagScheduler` hands to its engine, made of a core, its switches and a program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.dag.program import (
    ADD,
    ADDER,
    BRANCH,
    CALL,
    DIVIDE,
    DIVISION,
    FORWARD,
    FORWARDED_LOAD,
    FUSED,
    HOLD,
    INTEGER,
    JOIN,
    LOAD,
    MULTIPLIER,
    MULTIPLY,
    OTHER,
    PIPE,
    READ,
    REDIRECT,
    STORE,
    VECTOR,
    WORD,
    BlockProgram,
)
from perfkit.errors import SettingError
from perfkit.simulators.dag import layout
from perfkit.simulators.dag.core import BUFFERS, MEMORY, TYPES, lanes
from perfkit.simulators.dag.reuse import MOST_SETS, UNLIMITED, LruStack

if TYPE_CHECKING:
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler

LONGEST_RING = 1 << 25
_MOST_STREAMS = 1024  # an unlimited number of streams; each miss looks at all of them
SET_FILL_ELSEWHERE = 10  # cycles, as on Zen 3 and 4, where a core's are not known: nothing waits, but it is told
_CONTENDED: Any = ((layout.WIDE_BITS, np.uint16), (layout.SKIP_BITS, np.int32))  # columns of `Rings`, as powers of two
_MOST_WAITING = 1 << 12  # stores in a store buffer that is modelled line by line


def zeros(*sizes: int) -> list[Any]:
    """Return arrays of zeros of these sizes."""
    return [np.zeros(int(size), dtype=np.int64) for size in sizes]


def longer(array: Any, size: int | None = None) -> Any:
    """Return an array with zeros added: as many as there are elements, or up to a size."""
    longer = np.zeros(2 * len(array) if size is None else size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _limit(value: float) -> int:
    """Return a buffer's size or a width as the engine takes it: 0 and infinity are unlimited."""
    return int(UNLIMITED) if value == 0 or math.isinf(value) else int(value)


_NEVER = -(1 << 40)  # cycles after its branch: fetch does not wait for it either


def _finite(value: float) -> int:
    """Return a number of cycles or times as the engine takes it: infinite is not modelled, as 0 is."""
    return 0 if math.isinf(value) else int(value)


def units(settings: DagScheduler, program: BlockProgram, line: int) -> layout.Units:
    """Return lanes, latencies and the table of units of a core."""
    core = settings.core
    throughputs = [core.throughput(kind) for kind in TYPES]
    for name in ("load_ports", "store_ports", "agus", "fp_ports", "branch_ports", "vector_load_ports"):
        chosen = getattr(settings, name, None)
        throughputs.append(getattr(core, name) if chosen is None else chosen)
    counts, cycles = zip(*(lanes(value) for value in throughputs), strict=True)
    limited = np.array(counts) > 0
    count = np.where(limited, counts, UNLIMITED)
    parts = np.array([c.denominator for c in cycles], dtype=np.int64)
    need = np.ones((len(TYPES), len(program.shapes)), dtype=np.int64)
    work = np.repeat([[c.numerator] for c in cycles[: len(TYPES)]], len(program.shapes), axis=1)
    for k in range(layout.FIRST_LEVEL + 1, layout.FIRST_LEVEL + len(MEMORY)):
        # Beyond L1 bandwidth is per element: a vector takes several lanes, and more cycles when there are too few.
        moved = program.shapes[:, 0]
        if moves_lines(settings):
            moved = np.full(len(program.shapes), max(1, line // WORD))
        need[k] = np.minimum(moved, count[k])
        work[k] *= moved
    latency = np.array([core.latency(kind) for kind in TYPES], dtype=np.int64)
    divider = TYPES.index("D")
    work[divider], parts[divider] = work[divider] * DIVISION, parts[divider] * DIVISION
    wide = limited & ((count > layout.NARROW) | (parts > 1) | (np.array([c.numerator for c in cycles]) > 1))
    wide[: len(TYPES)] |= limited[: len(TYPES)] & ((need > 1) | (work > parts[: len(TYPES), None])).any(axis=1)
    return layout.Units(
        lanes=count,
        need=_by_shape(need),
        work=_by_shape(work),
        parts=parts,
        owed=np.zeros(len(TYPES) + 1, dtype=np.int64),
        table=_unit_table(limited, wide, latency, _pairs_of_lanes(core, count, wide), core.store_data == 1),
        wide=np.append(wide, np.zeros(layout.NO_PORT + 1 - len(wide))).astype(np.uint8),
        latency=latency,
        countdown=layout.countdown(latency),
    )


def moves_lines(settings: DagScheduler) -> bool:
    """Whether an access below L1 takes the bandwidth of its whole line."""
    return bool(settings.core.whole_lines) if settings.below_l1 is None else settings.below_l1 == "line"


def longest_hold(units: layout.Units, program: BlockProgram) -> int:
    """Return the most cycles that a node may keep a lane."""
    limited = units.lanes[: len(TYPES)] < UNLIMITED
    work = units.work.reshape(-1, 1 << layout.SHAPE_BITS)[:, : len(TYPES)].max(axis=0)
    longest = int(program.delay[program.op == DIVIDE].max(initial=0))
    work[TYPES.index("D")] += work[TYPES.index("D")] * longest // DIVISION
    kept = int(np.where(limited, -(-work // units.parts[: len(TYPES)]), 1).max()) + 1
    return max(kept, 2 * int(program.delay[program.op == HOLD].max(initial=0)))


def _by_shape(values: Any) -> Any:
    """Return a table by type and shape as the engine takes it."""
    padded = np.zeros((values.shape[1], 1 << layout.SHAPE_BITS), dtype=np.int64)
    padded[:, : len(values)] = values.T
    return padded.ravel()


def _pairs_of_lanes(core: DagCore, count: Any, wide: Any) -> bool:
    """Whether a store from a vector register takes both of two store ports."""
    port = layout.STORE_PORT
    return core.vector_store_ports == 1 and count[port] == 2 and not wide[port]


def _unit_table(limited: Any, wide: Any, latency: Any, pairs: bool, data: bool) -> Any:
    rows = np.zeros((len(TYPES), 1 << layout.KIND_BITS, 1 << layout.UNIT_BITS), dtype=np.int64)
    for k, other in _ROWS:
        asked = _asked(k, other, wide)
        moves = data and _is_memory(k) and other == layout.A_STORE  # from an integer register
        if moves and k == layout.FIRST_LEVEL and not wide[layout.INTEGER_TYPE]:  # beyond L1 a row cannot tell, as below
            asked.append(layout.INTEGER_TYPE)
        full = sum(layout.FULL << layout.FIELD * c for c in asked if limited[c])
        add = sum(1 << layout.FIELD * c for c in asked if limited[c] and not wide[c])
        if other & layout.A_VECTOR and _is_memory(k):
            # A row has no room to tell what is full for vectors beyond L1: those take their lanes as they come.
            strict = k == layout.FIRST_LEVEL
            if other & layout.A_STORE and pairs:
                add += 1 << layout.FIELD * layout.STORE_PORT
                full |= int(strict) << layout.FIELD * layout.STORE_PORT  # its counter is at 6, 7 or 8: not the first
            elif not other & layout.A_STORE and limited[layout.VECTOR_LOAD_PORT]:
                add += 1 << layout.FIELD * layout.VECTOR_LOAD_PORT
                full |= int(strict) * layout.FULL << layout.FIELD * layout.VECTOR_LOAD_PORT
        counts = layout.INTEGER_TYPE if (k, other) in _ON_PIPES else k
        bits = 1 << counts | 1 << counts + layout.LASTING
        port = next((c for c in asked if c >= len(TYPES) and c != layout.AGU), layout.NO_PORT)
        slow = any(wide[c] for c in asked)
        vector = moves or TYPES[k] in "AMDF" or (k == layout.INTEGER_TYPE and bool(other & layout.A_VECTOR))
        held = int(vector) << layout.HIGH
        rows[k, other] = full, add, latency[counts], bits, slow, port, _skip(k, other), held
    return rows.ravel()


def _asked(k: int, other: int, wide: Any) -> list[int]:
    """Return the columns that a node of a type and kind takes a lane of, those of vectors apart."""
    if _is_memory(k):
        return [k, layout.LOAD_PORT + (other & layout.A_STORE), layout.AGU]
    if (k, other) == _ANY_PIPE:
        return [layout.FP_PORT]
    if k == layout.INTEGER_TYPE:
        return [k, layout.BRANCH_PORT] if other & layout.A_BRANCH else [k]
    asked = [k] if TYPES[k] == "D" else [k, layout.FP_PORT]
    multiplier = TYPES.index("M")
    return [*asked, multiplier] if k == layout.FUSED_TYPE and not wide[multiplier] else asked


def _is_memory(k: int) -> bool:
    return layout.FIRST_LEVEL <= k < layout.FIRST_LEVEL + len(MEMORY)


def _skip(k: int, other: int) -> int:
    """Return a row's column of `Rings.skip`: vectors beyond L1 look for the same cycles as other accesses."""
    if (k, other) == _ANY_PIPE:
        return len(_ARITHMETIC) + 2 * len(MEMORY) + 2
    if not _is_memory(k):
        return _ARITHMETIC.index((k, other & layout.A_BRANCH))
    if k == layout.FIRST_LEVEL and other & layout.A_VECTOR:
        return len(_ARITHMETIC) + 2 * len(MEMORY) + (other & layout.A_STORE)
    return len(_ARITHMETIC) + 2 * (k - layout.FIRST_LEVEL) + (other & layout.A_STORE)


# Rows of the table that are not memory's, and look for different cycles. All rows.
_ARITHMETIC = [*((TYPES.index(kind), 0) for kind in "AMDFI"), (layout.INTEGER_TYPE, 1)]
# Rows of integer work on floating-point units: any of them, those of additions, those of multiplications.
_ANY_PIPE = (layout.INTEGER_TYPE, layout.A_VECTOR | layout.A_BRANCH)
_PIPES = {
    PIPE: _ANY_PIPE,
    ADDER: (TYPES.index("A"), layout.A_VECTOR),
    MULTIPLIER: (TYPES.index("M"), layout.A_VECTOR),
}
_ON_PIPES = frozenset(_PIPES.values())
_ROWS = [
    *_ARITHMETIC,
    *_PIPES.values(),
    (layout.INTEGER_TYPE, layout.A_VECTOR),
    *((layout.FIRST_LEVEL + k, other) for k in range(len(MEMORY)) for other in range(4)),
]
# Types and rows of a program's operations that are neither memory's nor without a node.
_KINDS = {ADD: "A", MULTIPLY: "M", DIVIDE: "D", FUSED: "F", INTEGER: "I", BRANCH: "I"}


def operations(program: BlockProgram, word_bits: int, units: layout.Units) -> Any:
    """Return the table of operations as the engine takes it (see its columns)."""
    code = program.op.astype(np.int64)
    kind = np.zeros(len(code), dtype=np.int64)
    takes = _vector_units(program, units)
    arithmetic, store = np.isin(code, list(_KINDS)), code == STORE
    for operation, name in _KINDS.items():
        kind[code == operation] = TYPES.index(name)
    # Accesses say in their delay that they are of integer registers, integer work that it is of vector registers.
    access = store + layout.A_VECTOR * (program.delay == 0)
    row = (kind << layout.KIND_BITS) + (code == BRANCH) + layout.A_VECTOR * (takes > 0)
    for pipe, (of, other) in _PIPES.items():
        row[takes == pipe] = (of << layout.KIND_BITS) + other
        kind[takes == pipe] = layout.VECTOR_WORK
    unit = np.where(arithmetic, row, access) << layout.UNIT_BITS
    count = (program.shape.astype(np.int64) << layout.SHAPE_BITS) + np.where(arithmetic, kind, 0)
    words = np.maximum(program.shapes.prod(axis=1) >> word_bits, 1)[program.shape]
    code[code == HOLD] = FORWARD  # from nowhere to nobody
    size = np.where(code == CALL, program.call, np.where(np.isin(code, (FORWARD, READ)), program.delay, words))
    size[arithmetic] = np.where(program.op == DIVIDE, program.delay, 0)[arithmetic]
    size[program.divisions] = program.delay[program.op == HOLD]
    into = np.where(program.into < 0, layout.NOBODY, program.into)
    code[arithmetic] = ADD
    code[program.op == OTHER] = layout.OTHER
    kind = np.where(program.delay == FORWARDED_LOAD, layout.NOT_RENAMED, layout.INTEGER_LOAD)
    level = np.where((program.op == LOAD) & (program.level < 0) & (program.delay > 0), kind, program.level)
    columns = code, program.left, program.right, into, unit, count, level, size
    return np.stack([np.asarray(c, dtype=np.int64) for c in columns], axis=1).ravel()


def _vector_units(program: BlockProgram, units: layout.Units) -> Any:
    """Return the units of each operation's integer work (`BlockProgram.delay`): `VECTOR` where rows count none."""
    takes = np.where(program.op == INTEGER, program.delay, 0)
    for pipe, (of, _) in _PIPES.items():
        column = layout.FP_PORT if pipe == PIPE else of
        if units.wide[column] or units.lanes[column] >= UNLIMITED:
            takes[takes == pipe] = VECTOR
    return takes


def types_used(program: BlockProgram) -> int:
    """Return the node types up to the last that a program has, at least the paper's."""
    if np.isin(program.op, (INTEGER, BRANCH)).any():
        return layout.INTEGER_TYPE + 1
    return layout.FUSED_TYPE + 1 if (program.op == FUSED).any() else layout.PAPER_TYPES


def histogram_size(types: int) -> int:
    """Return how many states a cycle may be in, for so many node types."""
    return 1 << (2 * types + len(BUFFERS))


def _idle(units: layout.Units) -> int:
    """Return the row of a cycle in which nothing is in use: counters that reach `FULL` with the last lane."""
    counted = (c for c in range(layout.COLUMNS) if not units.wide[c] and units.lanes[c] < UNLIMITED)
    return sum((layout.FULL - int(units.lanes[c])) << layout.FIELD * c for c in counted)


def parameters(
    settings: DagScheduler, program: BlockProgram, units: layout.Units, line_bits: int, word_bits: int
) -> Any:
    """Return the scalar parameters."""
    core = settings.core
    values = np.zeros(layout.PARAMETERS, dtype=np.int64)
    for place, size in (
        (layout.WIDTH, core.fetch),
        (layout.ROB, core.rob),
        (layout.RS, core.rs),
        (layout.LB, core.lb),
        (layout.SB, core.sb),
        (layout.LFB, core.lfb),
        (layout.VECTOR_RS, core.vector_rs),
        (layout.VECTOR_QUEUE, core.vector_queue),
        (layout.REGISTERS, core.vector_registers),
    ):
        values[place] = _limit(size)
    ordered = core.ordered_loads if settings.x86_order is None else settings.x86_order
    values[layout.X86_ORDER] = bool(ordered)
    merging = core.inflight_merging if settings.inflight_merging is None else settings.inflight_merging
    values[layout.INFLIGHT] = layout.MERGED if merging else layout.IGNORED
    if settings.inflight_blocking:
        values[layout.INFLIGHT] = layout.BLOCKED
    values[layout.TYPES_USED] = types_used(program)
    values[layout.STREAMS] = streams(settings)
    if core.ways_L1 and core.size_L1 and not math.isinf(core.size_L1):
        lines = int(core.size_L1) >> line_bits
        wanted = max(1, int(min(lines / core.ways_L1, MOST_SETS)))
        values[layout.SETS] = 1 << wanted.bit_length() - 1
        values[layout.WAYS] = lines // values[layout.SETS]
        values[layout.SETS_KNOWN] = _finite(core.set_fill) > 0
        fill = values[layout.SET_FILL] = _finite(core.set_fill) or SET_FILL_ELSEWHERE
        values[layout.SET_WRITTEN] = _finite(core.set_fill_written) or fill
        values[layout.SET_STORED] = _finite(core.set_fill_stored) or 2 * fill
        values[layout.REFILL] = _finite(core.store_refill)
    values[layout.LOOP_TURNS] = _finite(core.loop_turns)
    values[layout.CODE_READS] = _finite(core.code_reads)
    values[layout.JOINS] = 0 < _finite(core.store_lines) <= _MOST_WAITING and _limit(core.sb) <= _MOST_WAITING
    for place, latency in (
        (layout.FORWARDS, core.latency_forward),
        (layout.FORWARDS_FP, core.latency_forward_FP),
    ):
        values[place] = layout.AS_L1 if latency is None else int(latency)
    values[layout.BLOCKS] = core.latency_blocked
    values[layout.SPLITS] = _finite(core.line_splits)
    values[layout.RENAMED] = _finite(core.memory_renaming)
    values[layout.PENALTY] = _finite(core.misprediction_penalty) or _NEVER
    values[layout.EARLIER] = min(core.integer_loads_earlier, core.latency_L1)
    values[layout.LINE_SHIFT] = line_bits
    values[layout.WORD_SHIFT] = word_bits
    values[layout.MARGIN] = (
        units.latency.max()
        + 2 * longest_hold(units, program)
        + values[[layout.SET_FILL, layout.SET_WRITTEN, layout.SET_STORED, layout.REFILL]].sum()
        + (_limit(core.sb) if values[layout.JOINS] else 0)
        + 8
    )
    values[layout.IDLE] = _idle(units)
    return values


def beyond_paper(program: BlockProgram, values: Any) -> bool:
    """Whether a program has nodes, or a core (its scalar parameters) has features, that the paper's do not have.

    The engine that `perfkit.simulators.dag.engine.run` compiles for ``beyond=None`` knows none of them.
    """
    limits = values[[layout.VECTOR_RS, layout.VECTOR_QUEUE, layout.REGISTERS]] < UNLIMITED
    features = values[[layout.STREAMS, layout.SPLITS, layout.WAYS, layout.BLOCKS, layout.LOOP_TURNS, layout.JOINS]] > 0
    follows = values[layout.INFLIGHT] == layout.MERGED or values[layout.FORWARDS_FP] != layout.AS_L1
    integer_loads = (program.op == LOAD) & (program.delay > 0)
    nodes = types_used(program) > layout.PAPER_TYPES or np.isin(program.op, (JOIN, REDIRECT, READ)).any()
    return bool(nodes or integer_loads.any() or limits.any() or features.any() or follows)


def streams(settings: DagScheduler) -> int:
    """Return how many streams of lines the prefetcher follows at a time."""
    wanted = settings.core.prefetch_streams if settings.prefetch_streams is None else settings.prefetch_streams
    return int(min(wanted, _MOST_STREAMS))


def capacities(settings: DagScheduler, line_bits: int) -> tuple[float, float, float]:
    """Return how many lines each cache holds."""
    line = 1 << line_bits
    l1, l2, l3 = (
        math.inf if math.isinf(s) else s // line for s in (getattr(settings.core, f"size_{k}") for k in MEMORY[:3])
    )
    if settings.l3_rounding != "none" and l3 > 0 and not math.isinf(l3):
        power = math.log2(l3)
        l3 = 2.0 ** (math.ceil(power) if settings.l3_rounding == "up" else math.floor(power))
    return l1, l2, l3


def new_memory(
    settings: DagScheduler, program: BlockProgram, values: Any, stack: LruStack, word_bits: int
) -> layout.Memory:
    """Return what is kept of the lines and words of the stack."""
    lines, follows = stack.room, settings.memory_dependences and bool((program.op == STORE).any())
    followed = np.full(2 * streams(settings) + 1, -9, dtype=np.int64)
    followed[-1] = 0
    blocks = follows and values[layout.BLOCKS] > 0
    kept, stored, trees, filling, written, writer, commits = zeros(
        2 * lines,
        lines << word_bits if follows else 0,
        values[layout.SETS],
        2 * values[layout.SETS] + 1,
        lines,
        lines << word_bits if blocks else 0,
        layout.LATEST_STORES + 1 if blocks else 0,
    )
    sets = np.full(values[layout.SETS] * values[layout.WAYS], -1, dtype=np.int64)
    joins = int(settings.core.store_lines) if values[layout.JOINS] else 0
    joined = np.full(joins + 1, -1, dtype=np.int64)
    joined[-1] = 0
    return layout.Memory(kept, stored, followed, sets, trees, filling, written, writer, commits, joined)


def new_rings(size: int, idle: int) -> layout.Rings:
    """Return empty rings of a size, a power of two."""
    if size > LONGEST_RING:
        raise SettingError(
            f"nodes wait more than {LONGEST_RING // 2} cycles after their fetch: the window is too large for this "
            "DAG. Set a finite rob or rs, or a finite fetch"
        )
    rows = np.zeros((size, 1 << layout.ROW_BITS), dtype=np.int64)
    rows[:, 0] = idle
    wide, skip = (np.zeros(size << bits, dtype=kind) for bits, kind in _CONTENDED)
    return layout.Rings(rows.ravel(), wide, skip)


def larger_rings(rings: layout.Rings, fetch: int, idle: int) -> layout.Rings:
    """Return rings twice as long with the same cycles, of which `fetch` is the first."""
    old = len(rings.rows) >> layout.ROW_BITS
    larger = new_rings(2 * old, idle)
    cycles = np.arange(fetch, fetch + old)
    pairs: list[tuple[Any, Any]] = list(zip(rings, larger, strict=True))
    for before, after in pairs:
        after.reshape(2 * old, -1)[cycles & (2 * old - 1)] = before.reshape(old, -1)[cycles & (old - 1)]
    return larger


def new_record(nodes: int, cycles: int) -> layout.Record:
    """Return room for what is recorded of nodes and cycles."""
    issue, done = zeros(nodes, nodes)
    return layout.Record(issue, done, np.zeros(nodes, dtype=np.uint8), np.zeros(cycles, dtype=np.uint8))
