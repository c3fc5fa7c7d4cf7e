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
_HISTORY = 12
_COUNTERS = 1 << 14

# The bits of an access's code.
LEVEL = 0b11
SECOND_SHIFT = 2  # the level of the second line of an access that crosses a line
PREFETCH_SHIFT = 4
SPLIT = 0b100_0000


class Window(NamedTuple):
    """One window of a trace, ready for timing: blocks, mispredictions, and each access's granule, code and size."""

    stream: NDArray[np.uint32]
    mispredicted: NDArray[np.bool_]
    granule: NDArray[np.int64]
    code: NDArray[np.uint8]
    size: NDArray[np.uint32]


class Pages(NamedTuple):
    """An open-addressing table from page numbers to slots; ``meta`` holds the number of pages and the last one."""

    key: NDArray[np.int64]
    slot: NDArray[np.int64]
    meta: NDArray[np.int64]


class Predictor(NamedTuple):
    """A bimodal and a gshare table of 2-bit counters with a chooser; ``meta``: history, last block, count, misses."""

    bimodal: NDArray[np.int8]
    gshare: NDArray[np.int8]
    chooser: NDArray[np.int8]
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

    @classmethod
    def of(cls, trace: Trace, program: Program, core: Microarchitecture) -> "MemoryPass":
        """Begin a pass with empty caches and a predictor that expects branches not to be taken."""
        feature = core.features.get("next_line_prefetch")
        code = trace.code
        last = code.block_start[1:] - 1
        begin_of = {int(pc): k for k, pc in enumerate(code.pc[code.block_start[:-1]].tolist())}
        after = (code.pc[last] + code.length[last]).tolist()
        return cls(
            trace,
            program,
            caches(core.caches, bool(feature and feature.value)),
            _pages(1 << 12),
            _predictor(),
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

    def window(self, chunk: TraceChunk) -> Window:
        """Return the window for the trace's next chunk; windows must be taken in order."""
        code = self.trace.code
        granule = np.empty(len(chunk.addresses), dtype=np.int64)
        kind = np.empty(len(chunk.addresses), dtype=np.uint8)
        size = np.empty(len(chunk.addresses), dtype=np.uint32)
        wrong = np.zeros(len(chunk.stream), dtype=np.bool_)
        at = np.zeros(3, dtype=np.int64)  # next block, next access, next dynamic size
        while True:
            _pass(
                chunk.stream,
                chunk.addresses,
                chunk.sizes,
                code.block_operand_start,
                code.size,
                self.fall_through,
                self.ends_in_branch,
                self.caches,
                self.pages,
                self.predictor,
                self.served,
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


def _predictor() -> Predictor:
    tables = [np.full(_COUNTERS, 1, dtype=np.int8) for _ in range(3)]
    return Predictor(tables[0], tables[1], tables[2], np.array([0, -1, 0, 0], dtype=np.int64))


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
def _predict(  # pragma: no cover - compiled
    bimodal: Any, gshare: Any, chooser: Any, past: Any, block: Any, taken: Any
) -> Any:
    """Predict a block's branch, learn from the outcome and return whether the prediction was wrong."""
    b = (np.int64(block) * 0x9E37) & (_COUNTERS - 1)
    g = (b ^ past[0]) & (_COUNTERS - 1)
    by_bimodal, by_gshare = bimodal[b] >= 2, gshare[g] >= 2
    predicted = by_gshare if chooser[b] >= 2 else by_bimodal
    if by_bimodal != by_gshare:
        chooser[b] = min(3, chooser[b] + 1) if by_gshare == taken else max(0, chooser[b] - 1)
    bimodal[b] = min(3, bimodal[b] + 1) if taken else max(0, bimodal[b] - 1)
    gshare[g] = min(3, gshare[g] + 1) if taken else max(0, gshare[g] - 1)
    past[0] = ((past[0] << 1) | (1 if taken else 0)) & ((1 << _HISTORY) - 1)
    past[2] += 1
    wrong = predicted != taken
    if wrong:
        past[3] += 1
    return wrong


@njit(cache=True)
def _pass(  # pragma: no cover - compiled
    stream: Any,
    addresses: Any,
    sizes: Any,
    first: Any,
    static_size: Any,
    fall_through: Any,
    ends_in_branch: Any,
    cache: Any,
    pages: Any,
    predictor: Any,
    served: Any,
    at: Any,
    granule: Any,
    kind: Any,
    size: Any,
    wrong: Any,
) -> None:
    g, bits, prefetch = cache.geometry, cache.line_bits, cache.prefetch
    tags, tree, point, hint = cache.tags, cache.tree, cache.point, cache.hint
    bimodal, gshare, chooser = predictor.bimodal, predictor.gshare, predictor.chooser
    first_sets, first_mask, first_ways = g[0, 0], g[0, 1], g[0, 2]
    key, meta = pages.key, pages.meta
    past = predictor.meta
    last_line = np.int64(-2)
    j, d = at[1], at[2]
    room = len(key) // 2
    for t in range(at[0], len(stream)):
        b = stream[t]
        if meta[0] + first[b + 1] - first[b] > room:
            at[0], at[1], at[2] = t, j, d
            return
        last = past[1]
        if last >= 0 and ends_in_branch[last]:
            wrong[t] = _predict(bimodal, gshare, chooser, past, last, b != fall_through[last])
        past[1] = b
        for m in range(first[b], first[b + 1]):
            width = static_size[m]
            if width == 0:
                width = sizes[d]
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
            kind[j] = code
            j += 1
    at[0], at[1], at[2] = len(stream), j, d
