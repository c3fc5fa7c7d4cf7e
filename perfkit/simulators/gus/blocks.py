"""Basic blocks on their own: the steady state of a loop over one, and of one unrolled, predicted by thousands.

A batch of blocks is one program, decoded once. All accesses lie in one page that is in L1 (`perfkit.trace.block`), so
that the caches play no part. Each block is simulated until as many instructions as fill the core's buffers have passed,
and on until two stretches take equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.results import Kind, Tabled, draw
from perfkit.errors import DataError, SettingError, of_extra
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import (
    FROM_STORES,
    LEVEL,
    PAGE_SPLIT,
    RETAGGED,
    SECOND_SHIFT,
    SPLIT,
    TAKEN,
    WALK,
    WALK_SHIFT,
    MemoryPass,
    Window,
)
from perfkit.simulators.program.lowering import lower
from perfkit.simulators.program.program import Program
from perfkit.trace.block import BasicBlock, listed_blocks
from perfkit.trace.block_addresses import addresses
from perfkit.trace.block_trace import static_code
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.gus import Gus

BATCH = 256
"""Blocks that are decoded as one program."""
MODES = ("looped", "unrolled")
_STRETCH = 600  # uops in a stretch whose time is compared with the one before
_STEPS = 12  # a stretch has a multiple of so many turns: patterns of 2, 3 and 4 turns end with it
_STRETCHES = 6  # at most
_SETTLED = 0.002  # difference of two stretches below which the state is steady
_FULL = 0.97  # share of its capacity from which a resource is said to be what holds the block back
_USER = (1 << 47) - 1  # the addresses that a program can have


@dataclass(frozen=True, eq=False, repr=False)
class BlockPredictions(Tabled):
    """Cycles of basic blocks in their steady state, simulated.

    Parameters
    ----------
    table : pd.DataFrame
        One row per block, in the order asked for: block (hexadecimal machine code), instructions, looped (cycles of a
        turn of a loop over the block: its instructions, a decrement and a jump), looped_bottleneck, unrolled (cycles of
        a copy where the block follows itself without end), unrolled_bottleneck, guessed (instruction forms that no
        table knows), refused (why there is no figure; "" where there is).
    core : str
        The core's name.

    Notes
    -----
    A bottleneck is a resource that the steady state uses to 97 % or more; several are joined by `` + ``. Where none
    is, it is what most of the time was waited for: ``instruction_latency`` is a chain of dependent instructions,
    ``store_forward_latency`` one that goes through memory.

    Examples
    --------
    >>> import perfkit as pk
    >>> found = pk.Gus("zen4").blocks(["480fafc3", "4801d8"])  # imul rax, rbx; add rax, rbx
    >>> found.to_frame()["looped"].round(2).tolist()
    [3.0, 1.0]
    """

    table: pd.DataFrame
    core: str

    _rows = "table"

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    @property
    def looped(self) -> float:
        """Cycles of a turn of the loop, of a single block."""
        return float(self._only("looped"))

    @property
    def unrolled(self) -> float:
        """Cycles of a copy of the unrolled block, of a single block."""
        return float(self._only("unrolled"))

    @property
    def bottleneck(self) -> str:
        """What holds the loop back, of a single block."""
        return str(self._only("looped_bottleneck"))

    def _only(self, column: str) -> Any:
        return only(self.table, column, "looped")

    def to_frame(self) -> pd.DataFrame:
        """Return the table."""
        return self.table.copy()

    def summary(self) -> str:
        """Say what the blocks take and what holds them back."""
        told = self.table[self.table["refused"] == ""]
        if len(self.table) == 1 and len(told) == 1:
            row = told.iloc[0]
            text = (
                f"{row['looped']:.2f} cycles per iteration looped ({row['looped_bottleneck']}), {row['unrolled']:.2f} "
                f"per copy unrolled ({row['unrolled_bottleneck']}) on {self.core} (simulated)"
            )
            return text + (f"; guessed: {row['guessed']}" if row["guessed"] else "")
        causes = told["looped_bottleneck"].value_counts(normalize=True)[:4]
        share = ", ".join(f"{name} {value:.0%}" for name, value in causes.items())
        return "\n".join(
            [
                f"{len(told):,} of {len(self.table):,} blocks predicted on {self.core} (simulated)",
                f"cycles per iteration looped: median {told['looped'].median():.2f}; bottlenecks: {share}",
            ]
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cycles of the blocks, looped beside unrolled; return the axes."""
        return draw("blocks:plot_blocks", self, ax=ax)


def only(table: pd.DataFrame, column: str, told: str) -> Any:
    """Return a figure of the one row of a table.

    Raises
    ------
    SettingError
        There are several rows.
    DataError
        The block was refused.
    """
    if len(table) != 1:
        raise SettingError(f"{len(table)} blocks have no single figure; take them from to_frame()")
    row = table.iloc[0]
    if row["refused"] and not row[told] == row[told]:
        raise DataError(f"{row['block'][:60]}: {row['refused']}")
    return row[column]


def predict_blocks(
    gus: Gus, blocks: Iterable[BasicBlock | str], progress: Callable[[int, int], None] | None = None
) -> BlockPredictions:
    """Predict the steady state of blocks: what `Gus.blocks` does."""
    pd = of_extra("pandas")

    given = listed_blocks(blocks)
    if gus.core.isa != "x86-64":
        raise SettingError(f"blocks are x86-64 machine code, {gus.core.title} is {gus.core.isa}: choose another core")
    rows: list[dict[str, Any]] = []
    for first in range(0, len(given), BATCH):
        part = given[first : first + BATCH]
        taken, refused = {}, {}
        for k, one in enumerate(part):
            try:
                taken[k] = _known(one)
            except DataError as error:
                refused[k] = str(error)
        found = iter(_batch(gus, list(taken.values())) if taken else ())
        for k, one in enumerate(part):
            if k in refused:
                rows.append(_row(str(one), 0) | {"refused": refused[k]})
            else:
                rows.append(next(found))
        if progress is not None:
            progress(len(rows), len(given))
    return BlockPredictions(pd.DataFrame(rows, columns=list(_row("", 0))), gus.core.name)


def _known(block: BasicBlock | str) -> BasicBlock:
    """Return a block that can be predicted.

    Raises
    ------
    DataError
        It is none, or repeats a string instruction.
    """
    found = block if isinstance(block, BasicBlock) else BasicBlock(block)
    for one in found.instructions:
        if (one.has_rep_prefix or one.has_repne_prefix) and one.is_string_instruction:
            raise DataError(f"{one}: how often a string instruction is repeated is not known")
    return found


def _row(block: str, instructions: int) -> dict[str, Any]:
    nothing = {f"{mode}{part}": "" if part else np.nan for mode in MODES for part in ("", "_bottleneck")}
    return {"block": block, "instructions": instructions, **nothing, "guessed": "", "refused": ""}


# --- one batch --------------------------------------------------------------------------------------------------------


def _batch(gus: Gus, blocks: Sequence[BasicBlock]) -> list[dict[str, Any]]:
    """Predict blocks that are decoded as one program: block 2 k of it is a block, 2 k + 1 its loop's end."""
    code = static_code(blocks)
    tables = gus.instruction_tables(Trace.from_parts(code, ()))
    program = lower(code, gus.core, cache(tables.form))
    slots = np.add.reduceat(program.slots, code.block_start[:-1])
    each = np.maximum(slots[::2], 1)
    warm = _rounded(2.5 * gus.core.value("rob") / each)
    stretch = _rounded(_STRETCH / each)
    turns = warm + _STRETCHES * stretch
    window, start, pages = _memory(code, program, gus, blocks, turns)
    arrays, cost, _, lines = timing.begin(program, (gus.core,))
    lines = timing.room(lines, pages)
    simulator = _Simulator(program, arrays, cost, lines)
    use = _Use(program)
    rows = []
    for k, block in enumerate(blocks):
        row = _row(block.hex, len(block.instructions))
        accesses = tuple(part[start[k] : start[k + 1]] for part in (window.granule, window.code, window.size))
        guessed = {
            f.name for f in program.forms[slice(*code.block_start[[2 * k, 2 * k + 1]])] if f.source == "class default"
        }
        row["guessed"] = " ".join(sorted(guessed))
        for mode in MODES:
            if mode == "looped" and block.counter is None:
                row["refused"] = "the block uses every integer register: none is left to count the turns of a loop"
                continue
            cycles, spent = simulator.steady(k, mode == "looped", int(warm[k]), int(stretch[k]), accesses)
            row[mode] = cycles
            row[f"{mode}_bottleneck"] = use.bottleneck(k, mode == "looped", cycles, spent)
        rows.append(row)
    return rows


def _rounded(turns: NDArray[np.float64]) -> NDArray[np.int64]:
    return _STEPS * np.maximum(1, np.ceil(turns / _STEPS)).astype(np.int64)


def _memory(
    code: StaticCode, program: Program, gus: Gus, blocks: Sequence[BasicBlock], turns: NDArray[np.int64]
) -> tuple[Window, NDArray[np.int64], int]:
    """Return the accesses of so many turns of each block, where each block's begin, and the pages that they touch."""
    parts: list[NDArray[np.int64]] = []
    start = [0]
    for k, (block, n) in enumerate(zip(blocks, turns.tolist(), strict=True)):
        place, step = addresses(block)
        where = (place[None, :] + np.arange(n, dtype=np.int64)[:, None] * step[None, :]).astype(np.int64)
        parts.append((where.ravel() & _USER) + (k << 48))  # memory of its own: no block loads what another one stored
        start.append(start[-1] + where.size)
    stream = np.repeat(2 * np.arange(len(blocks), dtype=np.uint32), turns)
    flat = np.concatenate(parts).astype(np.uint64)
    trace = Trace.from_parts(code, stream, flat)
    chunk = next(iter(trace.chunks(len(stream))))
    memory = MemoryPass.of(trace, program, gus.core, perfect=True)
    window = memory.window(chunk)
    return (
        window._replace(code=_in_one_page(window.code, bool(gus.core.feature("linear_tags", False)))),
        np.array(start),
        memory.page_count,
    )


def _in_one_page(code: NDArray[np.uint32], linear: bool) -> NDArray[np.uint32]:
    """Return what the accesses' codes are where every page is the same one, which is in L1.

    By ``linear`` tags (AMD's), a line is not found in L1 where it was last used as another page's, and comes from L2.
    """
    kept = code & np.uint32(FROM_STORES | SPLIT | PAGE_SPLIT)
    if not linear:
        return kept
    walked = (code >> WALK_SHIFT & WALK != 0).astype(np.uint32) << WALK_SHIFT
    second = (code >> SECOND_SHIFT & LEVEL != 0).astype(np.uint32) << SECOND_SHIFT
    first = (code & LEVEL != 0).astype(np.uint32)
    return kept | walked | second | first | first * np.uint32(RETAGGED)


class _Simulator:
    """Runs the blocks of one program, each from an empty core."""

    def __init__(self, program: Program, arrays: Any, cost: Any, lines: Any) -> None:
        self.program, self.cost, self.lines = program, cost, lines
        self.arrays = {True: arrays, False: timing.without_lines(arrays)}  # copies follow one another at any place
        causes = timing.PORTS + len(program.groups)
        self.spent = np.zeros((len(program.slots), causes), dtype=np.int64)

    def steady(
        self, k: int, looped: bool, warm: int, stretch: int, accesses: tuple[NDArray[Any], ...]
    ) -> tuple[float, NDArray[np.int64]]:
        """Return the cycles of a turn of block ``k``, and by what the last stretch was spent."""
        now = timing.state(self.program, self.cost)
        if (accesses[1] & RETAGGED).any():
            self.lines.arrival[:] = 0
        first, last = self.program.code.block_start[[2 * k, 2 * k + 2]]
        mine = self.spent[first:last]
        per = len(accesses[0]) // (warm + _STRETCHES * stretch)
        at, before, taken = 0, 0, 0.0
        for number in range(_STRETCHES + 1):
            turns = stretch if number else warm
            mine[:] = 0
            part = tuple(a[at * per : (at + turns) * per] for a in accesses)
            simulate(_window(k, looped, turns, part), self.arrays[looped], self.cost, now, self.lines, self.spent, None)
            at += turns
            end = int(now.now[2])
            found, before = (end - before) / turns / timing.TICKS, end
            if number > 1 and abs(found - taken) <= _SETTLED * found:
                return found, mine.sum(axis=0)
            taken = found
        return found, mine.sum(axis=0)


def _window(k: int, looped: bool, turns: int, accesses: tuple[NDArray[Any], ...]) -> Window:
    if looped:
        stream = np.tile(np.array([2 * k, 2 * k + 1], dtype=np.uint32), turns)
        control = np.tile(np.array([TAKEN, 0], dtype=np.uint8), turns)
    else:
        stream = np.full(turns, 2 * k, dtype=np.uint32)
        control = np.zeros(turns, dtype=np.uint8)
    return Window(stream, control, *accesses)


class _Use:
    """What a turn of each block needs of each resource, in cycles."""

    def __init__(self, program: Program) -> None:
        core, code = program.core, program.code
        self.names = [*program.groups, "front_end", "retire"]
        n = len(program.slots)
        owner = np.repeat(np.arange(n), np.diff(program.use_start))
        dense = np.zeros((n, len(self.names)))
        each = np.array([core.resource(g).inverse_throughput for g in program.groups])
        np.add.at(dense, (owner, program.use), program.amount * each[program.use])
        dense[:, -2] = program.slots * core.resource("front_end").inverse_throughput
        dense[:, -1] = program.slots * core.resource("retire").inverse_throughput
        self.each = np.add.reduceat(dense, code.block_start[:-1], axis=0)
        self.taken = core.resources["taken_branches"].inverse_throughput if "taken_branches" in core.resources else 0.0
        self.causes = [*timing.CAUSES, *program.groups]

    def bottleneck(self, k: int, looped: bool, cycles: float, spent: NDArray[np.int64]) -> str:
        """Return what holds block ``k`` back where a turn takes so many cycles."""
        need = self.each[2 * k] + (self.each[2 * k + 1] if looped else 0)
        full = [name for name, share in zip(self.names, need / max(cycles, 1e-9), strict=True) if share >= _FULL]
        if looped and self.taken >= _FULL * cycles:
            full.append("taken_branches")
        if full:
            return " + ".join(full)
        return self.causes[int(spent.argmax())]
