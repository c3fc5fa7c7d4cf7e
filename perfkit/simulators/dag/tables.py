"""The tables and arrays that `DagScheduler` hands to its engine, made of a core, its switches and a program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.dag.program import CALL, DIVIDE, OTHER, STORE, BlockProgram
from perfkit.errors import SettingError
from perfkit.simulators.dag import layout
from perfkit.simulators.dag.core import MEMORY, TYPES, DagCore, lanes
from perfkit.simulators.dag.reuse import UNLIMITED, LruStack

if TYPE_CHECKING:
    from perfkit.simulators.dag.schedule import DagScheduler

LONGEST_RING = 1 << 25


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


def units(settings: DagScheduler, program: BlockProgram, line: int) -> layout.Units:
    """Return lanes, latencies and the table of units of a core."""
    core = settings.core
    throughputs = [core.throughput(kind) for kind in TYPES]
    for name in ("load_ports", "store_ports", "agus"):
        chosen = getattr(settings, name)
        throughputs.append(getattr(core, name) if chosen is None else chosen)
    pairs = np.array([lanes(value) for value in throughputs], dtype=np.int64)
    pairs[pairs[:, 0] == 0, 0] = UNLIMITED
    need = np.ones((len(TYPES), len(program.shapes)), dtype=np.int64)
    hold = np.repeat(pairs[: len(TYPES), 1:], len(program.shapes), axis=1)
    for k in range(layout.FIRST_LEVEL + 1, len(TYPES)):
        # Beyond L1 bandwidth is per element: a vector takes several lanes, and more cycles when there are too few.
        moved = program.shapes[:, 0]
        if settings.below_l1 == "line":
            moved = np.maximum(1, line // program.shapes[:, 1])
        need[k] = np.minimum(moved, pairs[k, 0])
        hold[k] *= -(-moved // need[k])
    latency = np.array([core.latency(kind) for kind in TYPES], dtype=np.int64)
    limited = pairs[:, 0] < UNLIMITED
    wide = limited & ((pairs[:, 0] > layout.NARROW) | (pairs[:, 1] > 1))
    wide[: len(TYPES)] |= limited[: len(TYPES)] & ((need > 1) | (hold > 1)).any(axis=1)
    return layout.Units(
        lanes=pairs[:, 0].copy(),
        need=_by_shape(need),
        hold=_by_shape(hold),
        table=_unit_table(limited, wide, latency),
        wide=wide.astype(np.uint8),
        latency=latency,
        countdown=layout.countdown(latency),
    )


def _by_shape(values: Any) -> Any:
    """Return a table by type and shape as the engine takes it."""
    padded = np.zeros((values.shape[1], 1 << layout.SHAPE_BITS), dtype=np.int64)
    padded[:, : len(values)] = values.T
    return padded.ravel()


def _unit_table(limited: Any, wide: Any, latency: Any) -> Any:
    rows = np.zeros((len(TYPES), 2, 1 << layout.UNIT_BITS), dtype=np.int64)
    for k in range(len(TYPES)):
        for store in (0, 1):
            asked = [k] if k < layout.FIRST_LEVEL else [k, layout.LOAD_PORT + store, layout.AGU]
            full = sum(layout.FULL << layout.FIELD * c for c in asked if limited[c])
            add = sum(1 << layout.FIELD * c for c in asked if limited[c] and not wide[c])
            rows[k, store, :6] = full, add, latency[k], max(1, latency[k]), 1 << k, wide[asked].any()
    return rows.ravel()


def operations(program: BlockProgram, word_bits: int) -> Any:
    """Return the table of operations as the engine takes it (see its columns)."""
    code = program.op.astype(np.int64)
    arithmetic, store = code <= DIVIDE, code == STORE
    unit = np.where(arithmetic, 2 * code, store) << layout.UNIT_BITS
    count = (program.shape.astype(np.int64) << layout.SHAPE_BITS) + np.where(arithmetic, code, 0)
    words = np.maximum(program.shapes.prod(axis=1) >> word_bits, 1)[program.shape]
    size = np.where(code == CALL, program.call, words)
    into = np.where(program.into < 0, layout.NOBODY, program.into)
    code[code == OTHER] = layout.OTHER
    columns = code, program.left, program.right, into, unit, count, program.level, size
    return np.stack([np.asarray(c, dtype=np.int64) for c in columns], axis=1).ravel()


def _idle(units: layout.Units) -> int:
    """Return the row of a cycle in which nothing is in use: counters that reach `FULL` with the last lane."""
    counted = (c for c in range(layout.COLUMNS) if not units.wide[c] and units.lanes[c] < UNLIMITED)
    return sum((layout.FULL - int(units.lanes[c])) << layout.FIELD * c for c in counted)


def parameters(core: DagCore, settings: DagScheduler, units: layout.Units, line_bits: int, word_bits: int) -> Any:
    """Return the scalar parameters."""
    values = np.zeros(layout.PARAMETERS, dtype=np.int64)
    for place, size in (
        (layout.WIDTH, core.fetch),
        (layout.ROB, core.rob),
        (layout.RS, core.rs),
        (layout.LB, core.lb),
        (layout.SB, core.sb),
        (layout.LFB, core.lfb),
    ):
        values[place] = _limit(size)
    values[layout.X86_ORDER] = settings.x86_order
    values[layout.INFLIGHT] = settings.inflight_blocking
    values[layout.MEMORY_DEPS] = settings.memory_dependences
    values[layout.LINE_SHIFT] = line_bits
    values[layout.WORD_SHIFT] = word_bits
    values[layout.MARGIN] = units.latency.max() + 2 * units.hold.max() + 8
    values[layout.IDLE] = _idle(units)
    return values


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


def new_memory(settings: DagScheduler, stack: LruStack, word_bits: int) -> layout.Memory:
    """Return what is kept of the lines and words of the stack."""
    lines = stack.room
    return layout.Memory(*zeros(2 * lines, lines << word_bits if settings.memory_dependences else 0))


def new_rings(size: int, idle: int) -> layout.Rings:
    """Return empty rings of a size, a power of two."""
    if size > LONGEST_RING:
        raise SettingError(
            f"nodes wait more than {LONGEST_RING // 2} cycles after their fetch: the window is too large for this "
            "DAG. Set a finite rob or rs, or a finite fetch"
        )
    rows = np.zeros((size, 1 << layout.ROW_BITS), dtype=np.int64)
    rows[:, 0] = idle
    columns = size << layout.WIDE_BITS
    return layout.Rings(rows.ravel(), np.zeros(columns, dtype=np.uint16), np.zeros(columns, dtype=np.int32))


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
