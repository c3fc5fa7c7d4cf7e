"""What a trace's streams mean for memory and branches: a pass before the timing, in windows, with bounded state.

For every recorded access: the level that serves it, the number of the 8-byte granule it starts at, which recent store a
load's bytes come from, and whether its page is in the TLBs. For every executed block: whether the branch into it was
taken, and whether it was mispredicted.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import compiled, inlined
from perfkit.simulators.memory.branches import Predictor, call, predict, predict_target, predictor, returns
from perfkit.simulators.memory.cache import MEMORY, NEXT_LINE, STREAMS, CacheCounts, Caches, caches, touch
from perfkit.simulators.memory.forwarding import RECENT, Stores, recent_stores, source
from perfkit.simulators.program.program import CALL, CONDITIONAL, INDIRECT, RETURN, Program
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace

PAGE_GRANULES = 512  # granules of 8 bytes in a page of 4 KiB

# The bits of an access's code.
LEVEL = 0b11
SECOND_SHIFT = 2  # the level of the second line of an access that crosses a line
PREFETCH_SHIFT = 4
SPLIT = 0b100_0000
BLOCKED = 0b1000_0000  # a load of bytes from a recent store and from elsewhere: it cannot be forwarded
FORWARDED = 0x100  # a load of bytes that are all from one recent store
RENAMED = 0x200  # such a load whose value the core knows without loading
WALK_SHIFT = 10  # 1: the page is in the second TLB only, 2: in none
WALK = 0b11
PAGE_WALK = 2
PAGE_SPLIT = 0x1000  # a store across the end of a page
WRITE_BACK_SHIFT = 13  # bits: L1, L2, L3 gave up a line that had been written, for the access or its prefetch
WRITE_BACKS = 0b111 << WRITE_BACK_SHIFT
DISTANCE_SHIFT = 16  # of a load that is blocked or forwarded: how many stores came after the newest of these
RETAGGED = 0x100_0000  # a line that L1 holds as one of another page (`perfkit.simulators.gus.blocks` sets it)
AT_STRIDE = 0x200_0000  # a load whose line was asked for before: it follows the load's stride
# What a perfect memory keeps of a code: which store a load's bytes come from.
FROM_STORES = BLOCKED | FORWARDED | RENAMED | (RECENT << DISTANCE_SHIFT)
# The bits of what led into a block.
MISPREDICTED, TAKEN = 1, 2
# The bits of a static operand: size << OPERAND_SIZE, and these.
_READ, _WRITE, _FIRST_STORE, _MORE_STORES, _VECTOR, _FIRST, OPERAND_SIZE = 1, 2, 4, 8, 16, 32, 6

_U: Any = np.uint64  # an index of unsigned type saves numba the test for a negative one


class Window(NamedTuple):
    """One window of a trace, ready for timing: blocks, what led into them, each access's granule, code and size."""

    stream: NDArray[np.uint32]
    control: NDArray[np.uint8]
    granule: NDArray[np.int64]
    code: NDArray[np.uint32]
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
    written: NDArray[np.uint8]  # (lines,) bit k: level k holds a line that was written there
    writer: NDArray[np.int64]  # (granules,) the number of the last store
    stored: NDArray[np.int64]  # (slots,) the number of the last store to the page
    missed: NDArray[np.int64]  # (slots,) which of the page's lines missed L1 last
    line: NDArray[np.int64]  # (operands,) the line that missed L1 last for each static operand
    stride: NDArray[np.int64]  # (operands, 3) such a line of a load, how far from the one before, and how often so far
    entered: NDArray[np.int64]  # (slots, 2) when the page entered the first and the second TLB


class Layout(NamedTuple):
    """What the pass reads of the static code, and of the core."""

    first: NDArray[np.int32]  # (blocks + 1,) first operand of each block
    operand: NDArray[np.int64]  # (operands,) size and flags
    expression: NDArray[np.int32]  # (operands,) which address expression it has (-1: none that can be compared)
    ending: NDArray[np.int8]  # (blocks,) the kind of a block's last instruction
    fall_through: NDArray[np.int64]  # (blocks,) the block that follows, or -1
    tlb: NDArray[np.int64]  # (2,) entries of both TLBs, 0 where they are not modelled
    renaming: int  # 0 no renaming of memory, 1 where the address is the same expression, 2 everywhere
    renamed: int  # the bytes of a short load that is renamed, too; 0: none
    write_backs: bool  # whether written lines that a level gives up take bandwidth, or the time of a set of L1
    perfect: bool  # every branch is predicted
    pieces: int  # a store across a multiple of so many bytes is written in two parts; 0: only across lines
    strides: int  # after so many lines at one distance, a load's next line is fetched into L1 ahead of it; 0: never
    reach: int  # the largest such distance, in lines


class Progress(NamedTuple):
    """What the pass has counted so far, and where it stands in its chunk; changed in place."""

    served: NDArray[np.int64]  # (8,) accesses by level, prefetches by level
    at: NDArray[np.int64]  # (3,) next block, next access, next dynamic size
    walks: NDArray[np.int64]  # (2,) pages that entered the first and the second TLB


@dataclass
class MemoryPass:
    """The state of the pass over one trace; make a new one for every run."""

    trace: Trace
    program: Program
    caches: Caches
    pages: Pages
    predictor: Predictor
    layout: Layout
    stores: Stores
    served: NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, dtype=np.int64))
    walks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))

    @classmethod
    def of(cls, trace: Trace, program: Program, core: Microarchitecture, *, perfect: bool = False) -> "MemoryPass":
        """Begin a pass with empty caches and a predictor that expects branches not to be taken.

        With ``perfect``, every branch is predicted.
        """
        code = trace.code
        state = caches(core.caches, _prefetch(core))
        return cls(
            trace,
            program,
            state,
            _pages(_FIRST_PAGES, len(code.size), 4096 >> state.line_bits),
            predictor(core, code.block_count),
            _layout(program, core, perfect),
            recent_stores(),
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
        """Branches that were predicted so far (conditional, indirect, returns), and how many were mispredicted."""
        return int(self.predictor.meta[1]), int(self.predictor.meta[2])

    def begin_counting(self) -> None:
        """Forget what was counted so far, and keep the state of caches and predictor."""
        self.served[:] = 0
        self.predictor.meta[:3] = (-1, 0, 0)
        self.predictor.meta[4] = 0  # calls that nothing returned from

    def window(self, chunk: TraceChunk) -> Window:
        """Return the window for the trace's next chunk; windows must be taken in order."""
        granule = np.empty(len(chunk.addresses), dtype=np.int64)
        kind = np.empty(len(chunk.addresses), dtype=np.uint32)
        size = np.empty(len(chunk.addresses), dtype=np.uint32)
        control = np.zeros(len(chunk.stream), dtype=np.uint8)
        window = Window(chunk.stream, control, granule, kind, size)
        progress = Progress(self.served, np.zeros(3, dtype=np.int64), self.walks)
        while True:
            go_through(
                window,
                chunk.addresses,
                chunk.sizes,
                self.layout,
                self.caches,
                self.pages,
                self.predictor,
                self.stores,
                progress,
            )
            if progress.at[0] == len(chunk.stream):
                return window
            self.pages = _grown(self.pages)


def _layout(program: Program, core: Microarchitecture, perfect: bool) -> Layout:
    code = program.code
    last = code.block_start[1:] - 1
    begin_of = {int(pc): k for k, pc in enumerate(code.pc[code.block_start[:-1]].tolist())}
    after = (code.pc[last] + code.length[last]).tolist()
    owner = np.repeat(np.arange(len(program.slots)), np.diff(code.operand_start))
    written = np.cumsum(code.write)
    before = np.concatenate(([0], written))[code.operand_start]
    first = code.write & (written - before[:-1][owner] == 1)
    more = first & (np.diff(before)[owner] > 1)
    begins = np.arange(len(owner)) == code.operand_start[owner]
    vector = program.vector.copy()
    reader = np.repeat(np.arange(len(vector)), np.diff(program.data_start))
    vector[reader[program.is_vector(program.data_register)]] = True
    vector = vector[owner]
    if (
        core.feature("memory_renaming", "none") == "learned by moves"
    ):  # the value of others is forwarded, as a vector's is
        forwarded = np.array([form.is_forwarded_update for form in program.forms], dtype=np.bool_)
        moves = np.array([form.name.startswith(("MOV_", "POP_", "CMOV")) for form in program.forms], dtype=np.bool_)
        vector |= ~(moves[owner] | (before[1:] > before[:-1])[owner] | code.write) | forwarded[owner]
    flags = code.read * _READ + code.write * _WRITE + first * _FIRST_STORE + more * _MORE_STORES
    flags = flags + vector * _VECTOR + begins * _FIRST
    return Layout(
        code.block_operand_start,
        code.size.astype(np.int64) << OPERAND_SIZE | flags,
        program.expression,
        program.ending[last],
        np.array([begin_of.get(int(pc), -1) for pc in after], dtype=np.int64),
        np.array([core.feature("tlb_entries", 0), core.feature("second_tlb_entries", 0)], dtype=np.int64),
        _RENAMING[str(core.feature("memory_renaming", "none"))],
        int(core.feature("memory_renaming", "none") == "by base register, also bytes"),
        bool(core.feature("write_back_lines", 0)) or "L1_set_fill" in core.resources,
        perfect,
        int(core.feature("store_boundary", core.feature("store_pair_bytes", 0))),
        int(core.feature("stride_prefetch", 0)),
        int(core.feature("stride_prefetch_reach", _ANY_DISTANCE)) // core.caches[0].line,
    )


def _prefetch(core: Microarchitecture) -> int:
    """Return what a core prefetches, as in `Caches`."""
    if not core.feature("next_line_prefetch", False):
        return 0
    return STREAMS if core.feature("stream_prefetch", False) else NEXT_LINE


# What `Layout.renaming` is for a core's feature; the program says which expressions are alike "by base register".
_RENAMING = {
    "none": 0,
    "same expression": 1,
    "by base register": 1,
    "by base register, also bytes": 1,
    "learned": 2,
    "learned by moves": 2,
}
_ANY_DISTANCE = 1 << 48
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
        np.zeros(room * lines, dtype=np.uint8),
        np.zeros(room * PAGE_GRANULES, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.full(room, -2, dtype=np.int64),
        np.full(operands, -2, dtype=np.int64),
        np.zeros((operands, 3), dtype=np.int64),
        np.full((room, 2), -(1 << 40), dtype=np.int64),
    )


def _grown(pages: Pages) -> Pages:
    """Return a table with four times the room."""
    bigger = _pages(4 * len(pages.key), len(pages.last), len(pages.where) // len(pages.stored))
    _place(pages.key, pages.slot, bigger.key, bigger.slot)
    for name in ("number", "last", "where", "written", "writer", "stored", "missed", "line", "stride", "entered"):
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
def _branch(  # pragma: no cover - compiled
    before: Any, b: Any, taken: Any, follows: Any, layout: Any, predictor: Any
) -> Any:
    """Predict what follows block ``before``, learn that it was block ``b``; return whether it was mispredicted."""
    ending = layout.ending[_U(before)]
    if ending == 0:
        return False
    missed = False
    if ending == CONDITIONAL:
        missed = predict(predictor, before, taken)
    elif ending == RETURN:
        missed = returns(predictor, b)
    else:
        if ending & INDIRECT:
            missed = predict_target(predictor, before, b)
        if ending & CALL and taken and follows >= 0:  # the callee is in the trace
            call(predictor, follows)
    return missed


@inlined
def _walk(pages: Any, slot: Any, tlb: Any, walks: Any) -> Any:  # pragma: no cover - compiled
    """Look a page up in the TLBs, which replace their oldest entry; return 0, 1 (second TLB only) or 2 (none)."""
    if walks[0] - pages.entered[_U(slot), 0] < tlb[0]:
        return 0
    walks[0] += 1
    pages.entered[_U(slot), 0] = walks[0]
    if walks[1] - pages.entered[_U(slot), 1] < tlb[1]:
        return 1
    walks[1] += 1
    pages.entered[_U(slot), 1] = walks[1]
    return 2


@inlined
def _ahead(pages: Any, operand: Any, slot: Any, line: Any, inside: Any) -> Any:  # pragma: no cover - compiled
    """Return in which direction a stream goes that a missed line belongs to: 1, -1, or 0 if it belongs to none.

    The line before it, or after it, missed last: of this operand, or of the page.
    """
    by_operand = line - pages.line[_U(operand)]
    by_page = inside - pages.missed[_U(slot)]
    pages.line[_U(operand)] = line
    pages.missed[_U(slot)] = inside
    if -1 <= by_operand <= 1 and by_operand != 0:
        return by_operand
    return by_page if -1 <= by_page <= 1 else 0


@inlined
def _strides(pages: Any, operand: Any, line: Any, layout: Any) -> Any:  # pragma: no cover - compiled
    """Return whether a missed line of a load lies where at least so many lines before it said that the next would.

    Distances may differ by a line: those of 96 bytes are one line and two by turns.
    """
    stride, m = pages.stride, _U(operand)
    distance = line - stride[m, 0]
    stride[m, 0] = line
    apart = distance - stride[m, 1]
    stride[m, 1] = distance
    stride[m, 2] = stride[m, 2] + 1 if -1 <= apart <= 1 and 0 < abs(distance) <= layout.reach else 0
    return stride[m, 2] >= layout.strides


@compiled("memory.branches", "memory.cache", "memory.forwarding", "program.program", nogil=True)
def go_through(  # pragma: no cover - compiled
    window: Any,
    addresses: Any,
    sizes: Any,
    layout: Any,
    cache: Any,
    pages: Any,
    predictor: Any,
    recent: Any,
    progress: Any,
) -> None:
    """Go through a chunk until its end, or until there is no room for more pages; `Progress` tells how far."""
    stream, control, granule, kind, size = window.stream, window.control, window.granule, window.code, window.size
    first, operand, expression, fall_through = layout.first, layout.operand, layout.expression, layout.fall_through
    served, at = progress.served, progress.at
    g, bits, prefetch = cache.geometry, cache.line_bits, cache.prefetch
    tree, point = cache.tree, cache.point
    levels = len(g)
    first_sets, first_mask, first_ways, plru = g[0, 0], g[0, 1], _U(g[0, 2]), g[0, 4] == 0
    key, slots, count, last_page = pages.key, pages.slot, pages.number, pages.last
    where, dirty, writer, stored = pages.where, pages.written, pages.writer, pages.stored
    lines = np.int64(4096) >> bits  # in a page
    past = predictor.meta
    before: Any = past[0]
    last_line = np.int64(-2)
    at_once, written = np.int64(0), recent.number[0]
    earlier = written  # the last store of the instructions before the one at hand
    translated = layout.tlb[0] > 0
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
            if _branch(before, b, taken, follows, layout, predictor) and not layout.perfect:
                control[_U(t)] |= MISPREDICTED
        before = b
        for m in range(m0, m1):
            about = operand[_U(m)]
            width = about >> OPERAND_SIZE
            if width == 0:
                width = np.int64(sizes[_U(d)])
                d += 1
            if about & _FIRST:
                earlier = written
            if about & _FIRST_STORE:
                written += 1
                recent.width[_U(written & RECENT)] = 0
            size[_U(j)] = width
            address = np.int64(addresses[_U(j)])
            if address == -1 or width == 0:
                granule[_U(j)] = -1
                kind[_U(j)] = 0
                j += 1
                continue
            page = address >> 12
            slot = last_page[_U(m), 1]
            code = np.int64(0)
            if last_page[_U(m), 0] != page:
                slot = _slot(key, slots, count, page)
                last_page[_U(m), 0] = page
                last_page[_U(m), 1] = slot
                if translated:
                    code = _walk(pages, slot, layout.tlb, progress.walks) << WALK_SHIFT
            begin = slot * PAGE_GRANULES + ((address & 4095) >> 3)
            granule[_U(j)] = begin
            line = address >> bits
            beyond = (address + width - 1) >> bits
            if beyond == line and line == last_line:
                at_once += 1  # in L1, and nothing changes
                if layout.write_backs and about & _WRITE:
                    dirty[_U(slot * lines + ((address & 4095) >> bits))] |= 1
            else:
                last_line = beyond
                place = slot * lines + ((address & 4095) >> bits)
                way = np.int64(where[_U(place), 0])
                if way >= 0 and beyond == line and plru:
                    at_once += 1
                    index = line & first_mask if first_mask >= 0 else line % first_sets
                    node = tree[_U(index)]
                    tree[_U(index)] = (node & point[first_ways, _U(way), 0]) | point[first_ways, _U(way), 1]
                    if layout.write_backs and about & _WRITE:
                        dirty[_U(place)] |= 1
                else:
                    fetched: Any = np.int64(0)
                    cache.gave_up[0] = 0
                    for part in range(1 if beyond == line else 2):
                        if part == 1:
                            if about & _WRITE and beyond // lines != page:
                                code |= PAGE_SPLIT
                            line = beyond
                            place = _slot(key, slots, count, line // lines) * lines + line % lines
                        found: Any = np.int64(MEMORY)
                        for k in range(levels):
                            if touch(k, cache, where, dirty, line, place):
                                found = g[_U(k), 3]
                                break
                        if layout.write_backs and about & _WRITE:
                            dirty[_U(place)] |= 1
                        served[_U(found)] += 1
                        code |= found << SECOND_SHIFT | SPLIT if part == 1 else found
                        one = part == 0 and beyond == line and about & _READ != 0
                        if found and one and layout.strides and _strides(pages, m, line, layout):
                            code |= AT_STRIDE
                        if found == 0 or not prefetch or levels < 2:
                            continue
                        inside = line % lines
                        ahead = 1
                        if prefetch == STREAMS:
                            ahead = _ahead(pages, m, place // lines, line, inside)
                            if ahead == 0 or line + ahead < 0:
                                continue
                        line += ahead
                        place += ahead
                        if not 0 <= inside + ahead < lines:
                            place = _slot(key, slots, count, line // lines) * lines + line % lines
                        found = np.int64(MEMORY)
                        for k in range(1, levels):
                            if touch(k, cache, where, dirty, line, place):
                                found = g[_U(k), 3] if g[_U(k), 3] > 1 else 0
                                break
                        fetched = max(fetched, found)
                    if fetched:
                        served[_U(4 + fetched)] += 1
                    code |= fetched << PREFETCH_SHIFT
                    if layout.write_backs:
                        code |= cache.gave_up[0] << WRITE_BACK_SHIFT
            # A wider store's own cost has its parts.
            if about & _WRITE and width <= layout.pieces < (address & (layout.pieces - 1)) + width:
                code |= SPLIT
            until = min(begin + ((width + 7) >> 3), (begin | (PAGE_GRANULES - 1)) + 1)
            if (address & 7) + width > (until - begin) << 3 and until & (PAGE_GRANULES - 1):
                until += 1  # the last bytes lie in one more granule
            if about & _READ and stored[_U(slot)] > written - RECENT:
                newest, whole = source(recent, writer, written, begin, until, address, width)
                if 0 < newest <= earlier:
                    k = _U(newest & RECENT)
                    code |= (FORWARDED if whole else BLOCKED) | (earlier - newest) << DISTANCE_SHIFT
                    if whole and layout.renaming and (width >= 4 or width == layout.renamed) and not about & _VECTOR:
                        same = expression[_U(m)] >= 0 and expression[_U(m)] == recent.expression[k]
                        if recent.address[k] == address and not recent.vector[k] and (same or layout.renaming == 2):
                            code |= RENAMED
            if about & _WRITE:
                stored[_U(slot)] = written
                k = _U(written & RECENT)
                # Of an instruction with several stores it is not known which bytes lie between them.
                recent.width[k] = -1 if about & _MORE_STORES or not about & _FIRST_STORE else width
                recent.address[k] = address
                recent.expression[k] = expression[_U(m)]
                recent.vector[k] = about & _VECTOR != 0
                recent.before[k, 0] = writer[_U(begin)]
                recent.before[k, 1] = writer[_U(until - 1)]
                for q in range(begin, until):
                    writer[_U(q)] = written
            kind[_U(j)] = code
            j += 1
        t += 1
    served[0] += at_once
    recent.number[0] = written
    past[0] = before
    at[0], at[1], at[2] = t, j, d
