"""What a trace's streams mean for memory and branches: a pass before the timing, in windows, with bounded state.

For every recorded access: the level that serves it and the number of the 8-byte granule it starts at (the shadow memory
of Gus, Algorithm 1, at word granularity). For every executed block: whether the branch into it was mispredicted.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.microarchitecture import Microarchitecture
from perfkit.simulators.cache import CacheCounts, Caches, access, caches
from perfkit.simulators.program import Program
from perfkit.trace import Trace, TraceChunk

PAGE_GRANULES = 512  # granules of 8 bytes in a page of 4 KiB
_COUNTERS = 1 << 14  # of each table of the branch predictor
_TABLES = 4  # tagged tables
_HISTORY = 60  # branches that the last of them tells apart, where the core file does not say

# The bits of an access's code.
LEVEL = 0b11
SECOND_SHIFT = 2  # the level of the second line of an access that crosses a line
PREFETCH_SHIFT = 4
SPLIT = 0b100_0000
BLOCKED = 0b1000_0000  # a load of bytes from several recent stores: it cannot be forwarded

DISTANCE_SHIFT = 8  # of a blocked load: how many stores ago the newest of those was
_RECENT = 104  # stores that may still be in the store buffer


class Window(NamedTuple):
    """One window of a trace, ready for timing: blocks, mispredictions, and each access's granule, code and size."""

    stream: NDArray[np.uint32]
    mispredicted: NDArray[np.bool_]
    granule: NDArray[np.int64]
    code: NDArray[np.uint16]
    size: NDArray[np.uint32]


class Pages(NamedTuple):
    """An open-addressing table from page numbers to slots; ``meta`` holds the number of pages and the last one."""

    key: NDArray[np.int64]
    slot: NDArray[np.int64]
    meta: NDArray[np.int64]


class Predictor(NamedTuple):
    """A bimodal table and tagged tables of growing history (TAGE); ``meta``: last block, branches, misses, history."""

    bimodal: NDArray[np.int8]
    counter: NDArray[np.int8]
    tag: NDArray[np.int16]
    useful: NDArray[np.int8]
    histories: NDArray[np.int64]
    meta: NDArray[np.int64]


@dataclass
class MemoryPass:
    """The state of the pass over one trace; make a new one for every run."""

    trace: Trace
    program: Program
    caches: Caches
    pages: Pages
    predictor: Predictor
    fall_through: NDArray[np.int64]
    ends_in_branch: NDArray[np.bool_]
    served: NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, dtype=np.int64))
    stores: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    writer: NDArray[np.int64] = field(default_factory=lambda: np.full(0, -(1 << 40), dtype=np.int64))

    @classmethod
    def of(cls, trace: Trace, program: Program, core: Microarchitecture) -> "MemoryPass":
        """Begin a pass with empty caches and a predictor that expects branches not to be taken."""
        feature = core.features.get("next_line_prefetch")
        history = core.features.get("branch_history")
        code = trace.code
        last = code.block_start[1:] - 1
        begin_of = {int(pc): k for k, pc in enumerate(code.pc[code.block_start[:-1]].tolist())}
        after = (code.pc[last] + code.length[last]).tolist()
        return cls(
            trace,
            program,
            caches(core.caches, bool(feature and feature.value)),
            _pages(1 << 12),
            _predictor(int(history.value) if history else _HISTORY),
            np.array([begin_of.get(int(pc), -1) for pc in after], dtype=np.int64),
            program.branch[last],
        )

    @property
    def page_count(self) -> int:
        """Pages touched so far."""
        return int(self.pages.meta[0])

    def counts(self) -> CacheCounts:
        """Return what each level has served so far."""
        return CacheCounts(self.served[:4].copy(), self.served[4:].copy())

    def begin_counting(self) -> None:
        """Forget what was counted so far, and keep the state of caches and predictor."""
        self.served[:] = 0
        self.predictor.meta[:3] = (-1, 0, 0)

    def window(self, chunk: TraceChunk) -> Window:
        """Return the window for the trace's next chunk; windows must be taken in order."""
        code = self.trace.code
        granule = np.empty(len(chunk.addresses), dtype=np.int64)
        kind = np.empty(len(chunk.addresses), dtype=np.uint16)
        size = np.empty(len(chunk.addresses), dtype=np.uint32)
        wrong = np.zeros(len(chunk.stream), dtype=np.bool_)
        at = np.zeros(3, dtype=np.int64)  # next block, next access, next dynamic size
        while True:
            room = (len(self.pages.key) // 2 + 1) * PAGE_GRANULES
            if len(self.writer) < room:
                grown = np.full(room, -(1 << 40), dtype=np.int64)
                grown[: len(self.writer)] = self.writer
                self.writer = grown
            _pass(
                chunk.stream,
                chunk.addresses,
                chunk.sizes,
                code.block_operand_start,
                code.size,
                code.read,
                code.write,
                self.fall_through,
                self.ends_in_branch,
                self.caches,
                self.pages,
                self.predictor,
                self.served,
                self.stores,
                self.writer,
                at,
                granule,
                kind,
                size,
                wrong,
            )
            if at[0] == len(chunk.stream):
                return Window(chunk.stream, wrong, granule, kind, size)
            self.pages = _grown(self.pages)


def _pages(size: int) -> Pages:
    return Pages(
        np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64), np.array([0, -1, 0], dtype=np.int64)
    )


def _predictor(history: int) -> Predictor:
    tables = _TABLES
    return Predictor(
        np.full(_COUNTERS, 1, dtype=np.int8),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.full((tables, _COUNTERS), -1, dtype=np.int16),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.array([max(1, history >> (tables - 1 - k)) for k in range(tables)], dtype=np.int64),
        np.array([-1, 0, 0, 0], dtype=np.int64),
    )


def _grown(pages: Pages) -> Pages:
    bigger = _pages(4 * len(pages.key))
    for key, slot in zip(pages.key, pages.slot, strict=True):
        if key >= 0:
            _place(bigger, int(key), int(slot))
    bigger.meta[:] = pages.meta
    return bigger


@njit(cache=True)
def _place(pages: Any, key: Any, slot: Any) -> None:  # pragma: no cover - compiled
    mask = len(pages.key) - 1
    h = (key * 0x9E3779B1) & mask
    while pages.key[h] >= 0:
        h = (h + 1) & mask
    pages.key[h] = key
    pages.slot[h] = slot


@njit(cache=True)
def _slot(pages: Any, key: Any) -> Any:  # pragma: no cover - compiled
    """Return the slot of a page, giving it one if it has none."""
    if pages.meta[1] == key:
        return pages.meta[2]
    mask = len(pages.key) - 1
    h = (key * 0x9E3779B1) & mask
    while pages.key[h] != key:
        if pages.key[h] < 0:
            pages.key[h] = key
            pages.slot[h] = pages.meta[0]
            pages.meta[0] += 1
            break
        h = (h + 1) & mask
    pages.meta[1] = key
    pages.meta[2] = pages.slot[h]
    return pages.meta[2]


@njit(cache=True, inline="always")
def _fold(history: Any, length: Any, block: Any, table: Any) -> Any:  # pragma: no cover - compiled
    """Return a hash of a block and the last ``length`` outcomes."""
    h = history & ((np.int64(1) << length) - 1)
    h = (h ^ (h >> 23) ^ (np.int64(block) * 0x9E3779B1) ^ (table * 0x85EBCA6B)) & 0x7FFFFFFFFFFF
    h = (h ^ (h >> 15)) * 0x2C1B3C6D
    return (h ^ (h >> 19)) & 0x7FFFFFFFFFFF


@njit(cache=True)
def _predict(  # pragma: no cover - compiled
    bimodal: Any, counter: Any, tag: Any, useful: Any, lengths: Any, past: Any, block: Any, taken: Any
) -> Any:
    """Predict a block's branch as TAGE does, learn from the outcome and return whether the prediction was wrong.

    Seznec and Michaud, "A case for (partially) TAgged GEometric history length branch prediction", 2006; simplified.
    """
    history = past[3]
    b = np.int64(block) & (_COUNTERS - 1)
    predicted = bimodal[b] >= 2
    provider = -1
    for k in range(_TABLES - 1, -1, -1):
        h = _fold(history, lengths[k], block, k)
        if tag[k, h & (_COUNTERS - 1)] == (h >> 20) & 0x7FFF:
            provider = k
            predicted = counter[k, h & (_COUNTERS - 1)] >= 0
            break
    if provider >= 0:
        h = _fold(history, lengths[provider], block, provider)
        i = h & (_COUNTERS - 1)
        counter[provider, i] = min(3, counter[provider, i] + 1) if taken else max(-4, counter[provider, i] - 1)
        useful[provider, i] = min(3, useful[provider, i] + 1) if predicted == taken else max(0, useful[provider, i] - 1)
    else:
        bimodal[b] = min(3, bimodal[b] + 1) if taken else max(0, bimodal[b] - 1)
    wrong = predicted != taken
    if wrong:
        past[2] += 1
        for k in range(provider + 1, _TABLES):
            h = _fold(history, lengths[k], block, k)
            i = h & (_COUNTERS - 1)
            if useful[k, i] == 0:
                tag[k, i] = (h >> 20) & 0x7FFF
                counter[k, i] = 0 if taken else -1
                break
            useful[k, i] -= 1
    past[1] += 1
    past[3] = (history << 1) | (1 if taken else 0)
    return wrong


@njit(cache=True)
def _pass(  # pragma: no cover - compiled
    stream: Any,
    addresses: Any,
    sizes: Any,
    first: Any,
    static_size: Any,
    read: Any,
    write: Any,
    fall_through: Any,
    ends_in_branch: Any,
    cache: Any,
    pages: Any,
    predictor: Any,
    served: Any,
    stores: Any,
    writer: Any,
    at: Any,
    granule: Any,
    kind: Any,
    size: Any,
    wrong: Any,
) -> None:
    g, bits, prefetch = cache.geometry, cache.line_bits, cache.prefetch
    tags, tree, point, hint = cache.tags, cache.tree, cache.point, cache.hint
    bimodal, counter, tag, useful = predictor.bimodal, predictor.counter, predictor.tag, predictor.useful
    first_sets, first_mask, first_ways = g[0, 0], g[0, 1], g[0, 2]
    key, meta = pages.key, pages.meta
    past, lengths = predictor.meta, predictor.histories
    last_line = np.int64(-2)
    j, d = at[1], at[2]
    room = len(key) // 2
    for t in range(at[0], len(stream)):
        b = stream[t]
        if meta[0] + first[b + 1] - first[b] > room:
            at[0], at[1], at[2] = t, j, d
            return
        last = past[0]
        if last >= 0 and ends_in_branch[last]:
            wrong[t] = _predict(bimodal, counter, tag, useful, lengths, past, last, b != fall_through[last])
        past[0] = b
        for m in range(first[b], first[b + 1]):
            width = np.int64(static_size[m])
            if width == 0:
                width = np.int64(sizes[d])
                d += 1
            size[j] = width
            if addresses[j] == np.uint64(0xFFFFFFFFFFFFFFFF) or width == 0:
                granule[j] = -1
                kind[j] = 0
                j += 1
                continue
            address = np.int64(addresses[j])
            page = address >> 12
            slot = meta[2] if meta[1] == page else _slot(pages, page)
            granule[j] = slot * PAGE_GRANULES + ((address & 4095) >> 3)
            line = address >> bits
            beyond = (address + np.int64(width) - 1) >> bits
            code = 0
            index = line & first_mask if first_mask >= 0 else line % first_sets
            if beyond == line and (line == last_line or tags[index * first_ways + hint[index]] == line):
                served[0] += 1  # touched last in its set: in L1, and nothing changes
            else:
                found = access(g, prefetch, tags, tree, point, hint, line)
                served[found & 3] += 1
                code = found & 3
                fetched = found >> 2
                if beyond != line:
                    found = access(g, prefetch, tags, tree, point, hint, beyond)
                    served[found & 3] += 1
                    code |= SPLIT | ((found & 3) << SECOND_SHIFT)
                    fetched = max(fetched, found >> 2)
                if fetched:
                    served[4 + fetched] += 1
                code |= fetched << PREFETCH_SHIFT
                last_line = beyond
            begin = granule[j]
            until = min(begin + ((width + 7) >> 3), (begin | (PAGE_GRANULES - 1)) + 1)
            if read[m] and until > begin + 1:
                newest = writer[begin]
                same = True
                for q in range(begin + 1, until):
                    same &= writer[q] == writer[begin]
                    newest = max(newest, writer[q])
                if not same and newest > stores[0] - _RECENT:
                    code |= BLOCKED | ((stores[0] - newest) << DISTANCE_SHIFT)
            if write[m]:
                stores[0] += 1
                for q in range(begin, until):
                    writer[q] = stores[0]
            kind[j] = code
            j += 1
    at[0], at[1], at[2] = len(stream), j, d
