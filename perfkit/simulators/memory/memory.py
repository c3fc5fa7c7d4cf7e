"""What a trace's streams mean for memory and branches: a pass before the timing, in windows, with bounded state.

For every recorded access: the level that serves it and the number of the 8-byte granule it starts at (the shadow memory
of Gus, Algorithm 1, at word granularity). For every executed block: whether the branch into it was taken, and whether
it was mispredicted.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import compiled, inlined
from perfkit.simulators.memory.cache import MEMORY, CacheCounts, Caches, caches, touch
from perfkit.simulators.program.program import Program
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace

PAGE_GRANULES = 512  # granules of 8 bytes in a page of 4 KiB
_COUNTERS = 1 << 14  # of each table of the branch predictor
_HISTORY = 60  # branches that index the last of the tagged tables, where the core file does not say
_SHARES = (0.1, 0.24, 0.5, 1.0)  # of these, what indexes each table

# The bits of an access's code.
LEVEL = 0b11
SECOND_SHIFT = 2  # the level of the second line of an access that crosses a line
PREFETCH_SHIFT = 4
SPLIT = 0b100_0000
BLOCKED = 0b1000_0000  # a load of bytes from several recent stores: it cannot be forwarded
DISTANCE_SHIFT = 8  # of such a load: how many stores came after the newest of these
# The bits of what led into a block.
MISPREDICTED, TAKEN = 1, 2

RECENT = 127  # stores that may still be in a store buffer
_U: Any = np.uint64  # an index of unsigned type saves numba the test for a negative one


class Window(NamedTuple):
    """One window of a trace, ready for timing: blocks, what led into them, each access's granule, code and size."""

    stream: NDArray[np.uint32]
    control: NDArray[np.uint8]
    granule: NDArray[np.int64]
    code: NDArray[np.uint16]
    size: NDArray[np.uint32]


class Pages(NamedTuple):
    """An open-addressing table from page numbers to slots, and what is kept of each slot's granules and lines.

    ``last`` holds, for each static operand, the page and slot it touched last; ``number`` the number of pages.
    """

    key: NDArray[np.int64]
    slot: NDArray[np.int64]
    number: NDArray[np.int64]
    last: NDArray[np.int64]  # (operands, 2)
    where: NDArray[np.int16]  # (lines, levels) the way that holds a line in each level of cache, or -1
    writer: NDArray[np.int64]  # (granules,) the number of the last store
    stored: NDArray[np.int64]  # (slots,) the number of the last store to the page


class Predictor(NamedTuple):
    """A bimodal table and tagged tables of growing history (TAGE); ``meta``: last block, branches, misses, history."""

    bimodal: NDArray[np.int8]
    counter: NDArray[np.int8]
    tag: NDArray[np.int16]
    useful: NDArray[np.int8]
    lengths: NDArray[np.int64]
    meta: NDArray[np.int64]


@dataclass
class MemoryPass:
    """The state of the pass over one trace; make a new one for every run."""

    trace: Trace
    program: Program
    caches: Caches
    pages: Pages
    predictor: Predictor
    fall_through: NDArray[np.int64]  # the block that follows each block, or -1
    conditional: NDArray[np.bool_]  # whether a block ends in a conditional branch
    operand: NDArray[np.int64]
    served: NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, dtype=np.int64))
    stores: NDArray[np.int64] = field(default_factory=lambda: np.full(1, RECENT, dtype=np.int64))

    @classmethod
    def of(cls, trace: Trace, program: Program, core: Microarchitecture) -> "MemoryPass":
        """Begin a pass with empty caches and a predictor that expects branches not to be taken."""
        feature = core.features.get("next_line_prefetch")
        code = trace.code
        last = code.block_start[1:] - 1
        begin_of = {int(pc): k for k, pc in enumerate(code.pc[code.block_start[:-1]].tolist())}
        after = (code.pc[last] + code.length[last]).tolist()
        follows = np.array([begin_of.get(int(pc), -1) for pc in after], dtype=np.int64)
        state = caches(core.caches, bool(feature and feature.value))
        history = core.features.get("branch_history")
        return cls(
            trace,
            program,
            state,
            _pages(_FIRST_PAGES, len(code.size), 4096 >> state.line_bits),
            _predictor(int(history.value) if history else _HISTORY),
            follows,
            program.branch[last],
            code.size.astype(np.int64) << 2 | code.write.astype(np.int64) << 1 | code.read,
        )

    @property
    def page_count(self) -> int:
        """Pages touched so far."""
        return int(self.pages.number[0])

    def counts(self) -> CacheCounts:
        """Return what each level has served so far."""
        return CacheCounts(self.served[:4].copy(), self.served[4:].copy())

    @property
    def branches(self) -> tuple[int, int]:
        """Conditional branches so far, and how many of them were mispredicted."""
        return int(self.predictor.meta[1]), int(self.predictor.meta[2])

    def begin_counting(self) -> None:
        """Forget what was counted so far, and keep the state of caches and predictor."""
        self.served[:] = 0
        self.predictor.meta[:3] = (-1, 0, 0)

    def window(self, chunk: TraceChunk) -> Window:
        """Return the window for the trace's next chunk; windows must be taken in order."""
        granule = np.empty(len(chunk.addresses), dtype=np.int64)
        kind = np.empty(len(chunk.addresses), dtype=np.uint16)
        size = np.empty(len(chunk.addresses), dtype=np.uint32)
        control = np.zeros(len(chunk.stream), dtype=np.uint8)
        at = np.zeros(3, dtype=np.int64)  # next block, next access, next dynamic size
        first = self.trace.code.block_operand_start
        while True:
            _pass(
                chunk.stream,
                chunk.addresses,
                chunk.sizes,
                first,
                self.operand,
                self.fall_through,
                self.conditional,
                self.caches,
                self.pages,
                self.predictor,
                self.served,
                self.stores,
                at,
                granule,
                kind,
                size,
                control,
            )
            if at[0] == len(chunk.stream):
                return Window(chunk.stream, control, granule, kind, size)
            self.pages = _grown(self.pages)


_FIRST_PAGES = 1 << 8
_PAGES_OF_ACCESS = 4  # two lines may lie in two pages, and so may the lines prefetched after them


def _pages(size: int, operands: int, lines: int) -> Pages:
    room = size // 2 + 1
    return Pages(
        np.full(size, -1, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.full((operands, 2), -1, dtype=np.int64),
        np.full((room * lines, MEMORY), -1, dtype=np.int16),
        np.zeros(room * PAGE_GRANULES, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
    )


def _predictor(history: int) -> Predictor:
    tables = len(_SHARES)
    return Predictor(
        np.full(_COUNTERS, 1, dtype=np.int8),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.full((tables, _COUNTERS), -1, dtype=np.int16),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.array([max(1, min(60, int(history * share))) for share in _SHARES], dtype=np.int64),
        np.array([-1, 0, 0, 0], dtype=np.int64),
    )


def _grown(pages: Pages) -> Pages:
    """Return a table with four times the room."""
    bigger = _pages(4 * len(pages.key), len(pages.last), len(pages.where) // len(pages.stored))
    _place(pages.key, pages.slot, bigger.key, bigger.slot)
    for name in ("number", "last", "where", "writer", "stored"):
        old = getattr(pages, name)
        getattr(bigger, name)[: len(old)] = old
    return bigger


@compiled()
def _place(old_key: Any, old_slot: Any, key: Any, slot: Any) -> None:  # pragma: no cover - compiled
    mask = len(key) - 1
    for k in range(len(old_key)):
        if old_key[k] >= 0:
            h = (old_key[k] * 0x9E3779B1) & mask
            while key[_U(h)] >= 0:
                h = (h + 1) & mask
            key[_U(h)] = old_key[k]
            slot[_U(h)] = old_slot[k]


@inlined
def _slot(key: Any, slot: Any, count: Any, page: Any) -> Any:  # pragma: no cover - compiled
    """Return the slot of a page, giving it one if it has none."""
    mask = len(key) - 1
    h = (page * 0x9E3779B1) & mask
    while key[_U(h)] != page:
        if key[_U(h)] < 0:
            key[_U(h)] = page
            slot[_U(h)] = count[0]
            count[0] += 1
            break
        h = (h + 1) & mask
    return slot[_U(h)]


@inlined
def _fold(history: Any, length: Any, block: Any, table: Any) -> Any:  # pragma: no cover - compiled
    """Return a hash of a block and the last ``length`` outcomes."""
    h = history & ((np.int64(1) << length) - 1)
    h = (h ^ (h >> 23) ^ (np.int64(block) * 0x9E3779B1) ^ (table * 0x85EBCA6B)) & 0x7FFFFFFFFFFF
    h = (h ^ (h >> 15)) * 0x2C1B3C6D
    return (h ^ (h >> 19)) & 0x7FFFFFFFFFFF


@inlined
def _predict(  # pragma: no cover - compiled
    bimodal: Any, counter: Any, tag: Any, useful: Any, lengths: Any, history: Any, block: Any, taken: Any
) -> Any:
    """Predict a block's branch as TAGE does, learn from the outcome and return whether the prediction was wrong.

    Seznec and Michaud, "A case for (partially) TAgged GEometric history length branch prediction", 2006; simplified.
    """
    b = _U(np.int64(block) & (_COUNTERS - 1))
    predicted = bimodal[b] >= 2
    provider = -1
    for k in range(len(lengths) - 1, -1, -1):
        h = _fold(history, lengths[_U(k)], block, k)
        if tag[_U(k), _U(h & (_COUNTERS - 1))] == (h >> 20) & 0x7FFF:
            provider = k
            predicted = counter[_U(k), _U(h & (_COUNTERS - 1))] >= 0
            break
    wrong = predicted != taken
    if provider >= 0:
        p, i = _U(provider), _U(_fold(history, lengths[_U(provider)], block, provider) & (_COUNTERS - 1))
        counter[p, i] = min(3, counter[p, i] + 1) if taken else max(-4, counter[p, i] - 1)
        useful[p, i] = max(0, useful[p, i] - 1) if wrong else min(3, useful[p, i] + 1)
    else:
        bimodal[b] = min(3, bimodal[b] + 1) if taken else max(0, bimodal[b] - 1)
    if wrong:
        for k in range(provider + 1, len(lengths)):
            h = _fold(history, lengths[_U(k)], block, k)
            i = h & (_COUNTERS - 1)
            if useful[k, i] == 0:
                tag[k, i] = (h >> 20) & 0x7FFF
                counter[k, i] = 0 if taken else -1
                break
            useful[k, i] -= 1
    return wrong


@compiled("cache")
def _pass(  # pragma: no cover - compiled
    stream: Any,
    addresses: Any,
    sizes: Any,
    first: Any,
    operand: Any,
    fall_through: Any,
    conditional: Any,
    cache: Any,
    pages: Any,
    predictor: Any,
    served: Any,
    stores: Any,
    at: Any,
    granule: Any,
    kind: Any,
    size: Any,
    control: Any,
) -> None:
    g, bits, prefetch = cache.geometry, cache.line_bits, cache.prefetch
    tags, used, tree, point, clock = cache.tags, cache.used, cache.tree, cache.point, cache.clock
    bimodal, counter, tag, useful = predictor.bimodal, predictor.counter, predictor.tag, predictor.useful
    levels = len(g)
    first_sets, first_mask, first_ways, plru = g[0, 0], g[0, 1], _U(g[0, 2]), g[0, 4] == 0
    key, slots, count, last_page = pages.key, pages.slot, pages.number, pages.last
    where, writer, stored = pages.where, pages.writer, pages.stored
    lines = np.int64(4096) >> bits  # in a page
    past, lengths = predictor.meta, predictor.lengths
    before: Any = past[0]
    branches, misses, history = past[1], past[2], past[3]
    last_line = np.int64(-2)
    at_once, written = np.int64(0), stores[0]
    j, d = at[1], at[2]
    room = len(key) // 2
    t = at[0]
    while t < len(stream):
        b = np.int64(stream[_U(t)])
        m0, m1 = np.int64(first[_U(b)]), np.int64(first[_U(b + 1)])
        if count[0] + _PAGES_OF_ACCESS * (m1 - m0) > room:
            break
        if before >= 0:
            follows = fall_through[_U(before)]
            taken = b != follows
            if taken:
                control[_U(t)] = TAKEN
            if conditional[_U(before)]:
                missed = _predict(bimodal, counter, tag, useful, lengths, history, before, taken)
                if missed:
                    control[_U(t)] |= MISPREDICTED
                branches += 1
                misses += missed
                history = (history << 1) | taken
        before = b
        for m in range(m0, m1):
            about = operand[_U(m)]
            width = about >> 2
            if width == 0:
                width = np.int64(sizes[_U(d)])
                d += 1
            size[_U(j)] = width
            address = np.int64(addresses[_U(j)])
            if address == -1 or width == 0:
                granule[_U(j)] = -1
                kind[_U(j)] = 0
                j += 1
                continue
            page = address >> 12
            slot = last_page[_U(m), 1]
            if last_page[_U(m), 0] != page:
                slot = _slot(key, slots, count, page)
                last_page[_U(m), 0] = page
                last_page[_U(m), 1] = slot
            begin = slot * PAGE_GRANULES + ((address & 4095) >> 3)
            granule[_U(j)] = begin
            line = address >> bits
            beyond = (address + width - 1) >> bits
            code = np.int64(0)
            if beyond == line and line == last_line:
                at_once += 1  # in L1, and nothing changes
            else:
                last_line = beyond
                place = slot * lines + ((address & 4095) >> bits)
                way = np.int64(where[_U(place), 0])
                if way >= 0 and beyond == line and plru:
                    at_once += 1
                    index = line & first_mask if first_mask >= 0 else line % first_sets
                    node = tree[_U(index)]
                    tree[_U(index)] = (node & point[first_ways, _U(way), 0]) | point[first_ways, _U(way), 1]
                else:
                    fetched: Any = np.int64(0)
                    for part in range(1 if beyond == line else 2):
                        if part == 1:
                            line = beyond
                            place = _slot(key, slots, count, line // lines) * lines + line % lines
                        found: Any = np.int64(MEMORY)
                        for k in range(levels):
                            if touch(g, k, tags, used, tree, point, clock, where, line, place):
                                found = g[_U(k), 3]
                                break
                        served[_U(found)] += 1
                        code |= found << SECOND_SHIFT | SPLIT if part == 1 else found
                        if found == 0 or not prefetch or levels < 2:
                            continue
                        line += 1
                        place += 1
                        if line % lines == 0:
                            place = _slot(key, slots, count, line // lines) * lines
                        found = np.int64(MEMORY)
                        for k in range(1, levels):
                            if touch(g, k, tags, used, tree, point, clock, where, line, place):
                                found = g[_U(k), 3] if g[_U(k), 3] > 1 else 0
                                break
                        fetched = max(fetched, found)
                    if fetched:
                        served[_U(4 + fetched)] += 1
                    code |= fetched << PREFETCH_SHIFT
            until = min(begin + ((width + 7) >> 3), (begin | (PAGE_GRANULES - 1)) + 1)
            if about & 1 and until > begin + 1 and stored[_U(slot)] > written - RECENT:
                newest = writer[_U(begin)]
                same = True
                for q in range(begin + 1, until):
                    same &= writer[_U(q)] == writer[_U(begin)]
                    newest = max(newest, writer[_U(q)])
                if not same and newest > written - RECENT:
                    code |= BLOCKED | (written - newest) << DISTANCE_SHIFT
            if about & 2:
                written += 1
                stored[_U(slot)] = written
                for q in range(begin, until):
                    writer[_U(q)] = written
            kind[_U(j)] = code
            j += 1
        t += 1
    served[0] += at_once
    stores[0] = written
    past[0], past[1], past[2], past[3] = before, branches, misses, history
    at[0], at[1], at[2] = t, j, d
