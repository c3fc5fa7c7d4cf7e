"""Where every access of a trace finds its data: cache level, lines moved between levels, and the store it reads from.

Gus (section 3.1) asks a cache simulator at which level each line is; its timing never feeds back into the caches, so
this is a pass over the trace of its own, done once and used by every configuration of a sensitivity analysis. All
levels allocate on reads and writes and write dirty lines back; replacement is LRU or pseudo-LRU (one bit a way: the
victim is the first way not touched since all were); a next-line prefetcher brings the line after (before) a missing one
into L2 when the line before (after) it is in L2 too (the paper: "a next-line prefetch heuristic").

One code of 16 bits an access:

=====  ==========================================================================================
bits   meaning
=====  ==========================================================================================
0-1    level that serves the slowest of its lines: 0 L1, 1 L2, 2 L3, 3 memory
2-4    lines moved over L2's link to L1 (fills and write-backs), at most 7
5-7    lines moved over L3's link to L2
8-10   lines moved over memory's link to the last cache
11     the access crosses a line
15     no access (`perfkit.trace.NO_ACCESS`)
=====  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.microarchitecture import Microarchitecture
from perfkit.trace import NO_ACCESS, Trace, TraceChunk

LEVELS = ("L1", "L2", "L3", "memory")
LINK_SHIFT = (2, 5, 8)
SPLIT = 1 << 11
ABSENT = 1 << 15
PAGE, GRANULE = 4096, 8  # bytes: stores are remembered by granule, in tables of a page
STORES = 1024  # a load looks this many stores back for the one that wrote its data (more than any store buffer)


@dataclass
class CacheState:
    """Caches and remembered stores between two chunks of a trace; made by `CacheState.of(core)`.

    `classify` changes it: it is the state of one run, not a value.
    """

    geometry: NDArray[np.int64]
    tags: NDArray[np.int64]
    marks: NDArray[np.int64]
    counters: NDArray[np.int64]
    page_keys: NDArray[np.int64]
    page_slots: NDArray[np.int64]
    stored: NDArray[np.int32]
    prefetch: bool
    line_shift: int
    totals: NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, np.int64))

    @classmethod
    def of(cls, core: Microarchitecture) -> CacheState:
        """Return empty caches of a core."""
        # A row a level: sets, ways, offset of its ways in `tags`, 1 for pseudo-LRU.
        geometry = np.zeros((3, 4), np.int64)
        offset = 0
        for row, level in zip(geometry, core.caches, strict=False):
            row[:] = level.sets, level.ways, offset, level.policy == "plru"
            offset += level.sets * level.ways
        return cls(
            geometry,
            np.full(offset, -1, np.int64),
            np.zeros(offset, np.int64),
            np.zeros(2, np.int64),  # clock of the LRU marks, stores so far
            np.full(1024, -1, np.int64),
            np.zeros(1024, np.int64),
            np.zeros(0, np.int32),
            bool(core.feature("next_line_prefetch", False)),
            core.cache("L1").line.bit_length() - 1,
        )

    def classify(self, trace: Trace, chunk: TraceChunk) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """Go through a chunk; return each access's code, and how many stores back its data was stored (0: not lately).

        The distance counts store operands: 1 is the store just before.
        """
        code = trace.code
        pages = -1
        while pages < 0:  # -1: the table is too small
            pages = _add_pages(
                chunk.stream,
                code.block_operand_start,
                code.write,
                code.size,
                chunk.addresses,
                chunk.sizes,
                self.page_keys,
                self.page_slots,
            )
            if pages < 0:
                self.page_keys, self.page_slots = _grown(self.page_keys, self.page_slots)
        if pages * PAGE // GRANULE > self.stored.size:
            room = np.zeros(max(2 * self.stored.size, pages * PAGE // GRANULE), np.int32)
            room[: self.stored.size] = self.stored
            self.stored = room
        codes, distances = _classify(
            chunk.stream,
            code.block_operand_start,
            code.size,
            code.read,
            code.write,
            chunk.addresses,
            chunk.sizes,
            self.geometry,
            self.tags,
            self.marks,
            self.counters,
            self.page_keys,
            self.page_slots,
            self.stored,
            self.prefetch,
            self.line_shift,
            self.totals,
        )
        return codes, distances

    def forget_stores(self) -> None:
        """Keep the caches' content, forget which store wrote what: the start of a new run on warm caches."""
        self.stored[:] = 0
        self.counters[1] = 0
        self.totals[:] = 0


@njit(cache=True, error_model="numpy")
def _find(tags: Any, first: int, ways: int, line: int) -> int:
    for way in range(first, first + ways):
        if tags[way] == line:
            return way
    return -1


@njit(cache=True, error_model="numpy")
def _set(line: Any, sets: Any) -> Any:
    """Return the set of a line; a division only where the number of sets is not a power of two."""
    return line & (sets - 1) if sets & (sets - 1) == 0 else line % sets


@njit(cache=True, error_model="numpy")
def _touch(marks: Any, first: int, ways: int, way: int, plru: int, clock: int) -> None:
    """Note a use. LRU: a mark a way, when it was used last. Pseudo-LRU: the set's first mark holds a bit a way."""
    if plru == 0:
        marks[way] = clock
        return
    bit = np.int64(1) << (way - first)
    used = marks[first] | bit
    marks[first] = bit if used == (np.int64(1) << ways) - 1 else used


@njit(cache=True, error_model="numpy")
def _victim(tags: Any, marks: Any, first: int, ways: int, plru: int) -> int:
    """Return the way to replace: an empty one, else the least recently used, or the first without a bit."""
    best = first
    for way in range(first, first + ways):
        if tags[way] == -1:
            return way
        if plru == 0 and marks[way] < marks[best]:
            best = way
    if plru:
        while (marks[first] >> (best - first)) & 1:
            best += 1
    return best


@njit(cache=True, error_model="numpy")
def _fill(level: int, line: int, dirty: int, geometry: Any, tags: Any, marks: Any, counters: Any, moved: Any) -> None:
    """Put a line into a level; what it displaces, if dirty, moves to the next level over that level's link."""
    while level < 3 and geometry[level, 0] > 0:
        sets, ways = geometry[level, 0], geometry[level, 1]
        plru = geometry[level, 3]
        first = geometry[level, 2] + _set(line, sets) * ways
        way = _find(tags, first, ways, line * 2)
        if way < 0:
            way = _find(tags, first, ways, line * 2 + 1)
        if way >= 0:
            tags[way] |= dirty
            counters[0] += 1
            _touch(marks, first, ways, way, plru, counters[0])
            return
        way = _victim(tags, marks, first, ways, plru)
        old = tags[way]
        tags[way] = line * 2 + dirty
        counters[0] += 1
        _touch(marks, first, ways, way, plru, counters[0])
        if old == -1 or (old & 1) == 0:
            return
        last = level == 2 or geometry[level + 1, 0] == 0
        moved[2 if last else level] += 1
        if last:
            return
        level, line, dirty = level + 1, old >> 1, 1


@njit(cache=True, error_model="numpy")
def _lookup(level: int, line: int, dirty: int, geometry: Any, tags: Any, marks: Any, counters: Any) -> bool:
    """Say whether a level holds a line, and touch it."""
    sets, ways, plru = geometry[level, 0], geometry[level, 1], geometry[level, 3]
    if sets == 0:
        return False
    first = geometry[level, 2] + _set(line, sets) * ways
    for way in range(first, first + ways):
        if tags[way] >> 1 == line and tags[way] >= 0:
            tags[way] |= dirty
            counters[0] += 1
            _touch(marks, first, ways, way, plru, counters[0])
            return True
    return False


@njit(cache=True, error_model="numpy")
def _holds(level: int, line: int, geometry: Any, tags: Any) -> bool:
    sets, ways = geometry[level, 0], geometry[level, 1]
    if sets == 0:
        return False
    first = geometry[level, 2] + _set(line, sets) * ways
    held = False
    for way in range(first, first + ways):
        held |= tags[way] >> 1 == line and tags[way] >= 0
    return held


@njit(cache=True, error_model="numpy")
def _access(
    line: int,
    write: int,
    prefetch: bool,
    page_shift: int,
    geometry: Any,
    tags: Any,
    marks: Any,
    counters: Any,
    moved: Any,
) -> int:
    """Read or write a line that L1 lacks: return the level that had it; count the lines moved over each link."""
    level = 3
    for below in range(1, 3):
        if _lookup(below, line, 0, geometry, tags, marks, counters):
            level = below
            break
    levels = 3
    while levels > 1 and geometry[levels - 1, 0] == 0:
        levels -= 1
    for link in range(min(level, levels)):
        # The link of the last cache is memory's, whichever level that is.
        moved[2 if link == levels - 1 else link] += 1
    for above in range(min(level, levels) - 1, -1, -1):
        _fill(above, line, write if above == 0 else 0, geometry, tags, marks, counters, moved)
    if prefetch and geometry[1, 0] > 0:
        for step in (1, -1):
            wanted = line + step
            if wanted >> page_shift == line >> page_shift and _holds(1, line - step, geometry, tags):
                if not _holds(1, wanted, geometry, tags):
                    in_l3 = _lookup(2, wanted, 0, geometry, tags, marks, counters)
                    if geometry[2, 0] > 0:
                        moved[1] += 1
                        if not in_l3:
                            moved[2] += 1
                            _fill(2, wanted, 0, geometry, tags, marks, counters, moved)
                    else:
                        moved[2] += 1
                    _fill(1, wanted, 0, geometry, tags, marks, counters, moved)
                break
    return level


@njit(cache=True, error_model="numpy")
def _slot(page: Any, keys: Any) -> int:
    """Return where a page is, or would be, in the hash table."""
    mask = keys.size - 1
    at = ((page * np.int64(-7046029254386353131)) >> 20) & mask
    while keys[at] != page and keys[at] != -1:
        at = (at + 1) & mask
    return at


@njit(cache=True, error_model="numpy")
def _grown(keys: Any, slots: Any) -> Any:
    """Return the hash table with twice the room."""
    new_keys = np.full(2 * keys.size, -1, np.int64)
    new_slots = np.zeros(2 * keys.size, np.int64)
    for index in range(keys.size):
        if keys[index] != -1:
            at = _slot(keys[index], new_keys)
            new_keys[at], new_slots[at] = keys[index], slots[index]
    return new_keys, new_slots


@njit(cache=True, error_model="numpy")
def _add_pages(
    stream: Any, starts: Any, write: Any, size: Any, addresses: Any, dynamic: Any, keys: Any, slots: Any
) -> int:
    """Give every page that a chunk stores to a slot; return how many there are, -1 when the table is too small."""
    pages = 0
    for key in keys:
        pages += key != -1
    at = sized = 0
    known: Any = np.int64(-1)
    for block in stream:
        for operand in range(starts[block], starts[block + 1]):
            bytes_ = np.int64(size[operand])
            if bytes_ == 0:
                bytes_ = np.int64(dynamic[sized])
                sized += 1
            if write[operand] and addresses[at] != NO_ACCESS and bytes_ > 0:
                first = np.int64(addresses[at]) >> 12
                last = (np.int64(addresses[at]) + bytes_ - 1) >> 12
                for page in range(first, last + 1):
                    if page != known:
                        known = page
                        where = _slot(page, keys)
                        if keys[where] == -1:
                            if 2 * pages >= keys.size:
                                return -1
                            keys[where], slots[where] = page, pages
                            pages += 1
            at += 1
    return pages


@njit(cache=True, error_model="numpy")
def _classify(
    stream: Any,
    starts: Any,
    size: Any,
    read: Any,
    write: Any,
    addresses: Any,
    dynamic: Any,
    geometry: Any,
    tags: Any,
    marks: Any,
    counters: Any,
    keys: Any,
    slots: Any,
    stored: Any,
    prefetch: bool,
    line_shift: int,
    totals: Any,
) -> Any:
    codes = np.zeros(addresses.size, np.uint16)
    distances = np.zeros(addresses.size, np.uint16)
    moved = np.zeros(3, np.int64)
    page_bits = 9  # granules of a page: PAGE / GRANULE = 512
    per_page = 1 << page_bits
    page_shift = 12 - line_shift  # from a line to its page of 4096 bytes
    at = sized = 0
    stores = counters[1]
    near_sets, near_ways, near_plru = geometry[0, 0], geometry[0, 1], geometry[0, 3]
    last_page, last_slot, last_line, last_write = np.int64(-1), np.int64(0), np.int64(-1), 0
    for block in stream:
        for operand in range(starts[block], starts[block + 1]):
            address = addresses[at]
            bytes_ = np.int64(size[operand])
            if bytes_ == 0:
                bytes_ = np.int64(dynamic[sized])
                sized += 1
            writes = 1 if write[operand] else 0
            if address == NO_ACCESS or bytes_ == 0:
                codes[at] = ABSENT
                at += 1
                stores += writes
                continue
            first_byte = np.int64(address)
            last_byte = first_byte + bytes_ - 1
            first, last = first_byte >> line_shift, last_byte >> line_shift
            if first == last and first == last_line and writes <= last_write:
                totals[0] += 1  # the line of the access before, already touched
            else:
                level = 0
                lines0: Any = np.int64(0)
                lines1: Any = np.int64(0)
                lines2: Any = np.int64(0)
                for line in range(first, last + 1):
                    # The nearest level by hand: nearly every access ends here.
                    way = near_first = _set(line, near_sets) * near_ways
                    while way < near_first + near_ways and tags[way] >> 1 != line:
                        way += 1
                    if way < near_first + near_ways:
                        tags[way] |= writes
                        counters[0] += 1
                        _touch(marks, near_first, near_ways, way, near_plru, counters[0])
                        totals[0] += 1
                        continue
                    moved[0], moved[1], moved[2] = 0, 0, 0
                    found = _access(line, writes, prefetch, page_shift, geometry, tags, marks, counters, moved)
                    totals[found] += 1
                    level = max(level, found)
                    lines0, lines1, lines2 = lines0 + moved[0], lines1 + moved[1], lines2 + moved[2]
                totals[4] += lines0
                totals[5] += lines1
                totals[6] += lines2
                code = level + (min(lines0, 7) << 2) + (min(lines1, 7) << 5) + (min(lines2, 7) << 8)
                if first != last:
                    code |= SPLIT
                codes[at] = code
                last_line, last_write = last, writes
            # Which store wrote these bytes last, and this one, if it is one.
            newest = 0
            if writes:
                stores += 1
            granule = first_byte >> 3
            while granule <= last_byte >> 3:
                page = granule >> page_bits
                if page != last_page:
                    where = _slot(page, keys)
                    if keys[where] == -1:
                        granule = (page + 1) << page_bits  # nothing was ever stored there
                        continue
                    last_page, last_slot = page, slots[where]
                cell = (last_slot << page_bits) + (granule & (per_page - 1))
                if read[operand] and stored[cell] > newest:
                    newest = stored[cell]
                if writes:
                    stored[cell] = np.int32(stores & 0x7FFFFFFF)
                granule += 1
            if newest > 0:
                back = stores - writes - newest + 1
                if 0 < back < STORES:
                    distances[at] = back
            at += 1
    counters[1] = stores
    return codes, distances
