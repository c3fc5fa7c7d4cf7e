"""Which cache level serves each access: set-associative levels, LRU or tree PLRU, and a next-line prefetch.

Gus (section 3.1.1) uses a cache simulator with PLRU replacement at every level and a next-line prefetch heuristic; this
is one, small enough to run inside the simulator's pass over a trace. Levels are filled inclusively: a line found in
level k is put into every level before it. Writes allocate. A demand miss of L1 prefetches the next line into
L2 (that costs bandwidth, not latency: what asks for it waits for the bandwidth). Write-backs are not modelled.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.microarchitecture import CacheLevel

MEMORY = 3  # the level code of main memory; 0, 1 and 2 are L1, L2 and L3 (a core may lack L2 and L3)


class Caches(NamedTuple):
    """The state of all levels, as arrays that numba's functions change in place.

    ``tags`` holds, set after set, level after level, the lines of each way (most recent first under LRU); ``tree`` the
    PLRU bits of each set, ``point`` how a touched way changes them and ``hint`` the way touched last; ``mask`` turns a
    line into its set where their number is a power of two (else -1).
    """

    levels: int
    line_bits: int
    sets: NDArray[np.int64]
    ways: NDArray[np.int64]
    code: NDArray[np.int64]
    lru: NDArray[np.bool_]
    first_tag: NDArray[np.int64]
    first_set: NDArray[np.int64]
    tags: NDArray[np.int64]
    tree: NDArray[np.int64]
    point: NDArray[np.int64]
    hint: NDArray[np.int64]
    mask: NDArray[np.int64]
    prefetch: bool


def caches(levels: tuple[CacheLevel, ...], prefetch: bool) -> Caches:
    """Return empty caches for the levels of a core.

    Raises
    ------
    SettingError
        Levels of different line sizes, or a level of more than 32 ways under PLRU.
    """
    lines = {level.line for level in levels}
    if len(lines) != 1:
        raise SettingError(f"all cache levels need one line size; found {sorted(lines)}")
    if any(level.policy == "plru" and level.ways > 32 for level in levels):
        raise SettingError("tree PLRU is modelled for up to 32 ways; use lru for more")
    sets = np.array([level.sets for level in levels], dtype=np.int64)
    ways = np.array([level.ways for level in levels], dtype=np.int64)
    return Caches(
        len(levels),
        int(np.log2(lines.pop())),
        sets,
        ways,
        np.array([int(level.name[1]) - 1 for level in levels], dtype=np.int64),
        np.array([level.policy == "lru" for level in levels]),
        np.concatenate(([0], np.cumsum(sets * ways)))[:-1].astype(np.int64),
        np.concatenate(([0], np.cumsum(sets)))[:-1].astype(np.int64),
        np.full(int((sets * ways).sum()), -1, dtype=np.int64),
        np.zeros(int(sets.sum()), dtype=np.int64),
        _pointers(),
        np.zeros(int(sets.sum()), dtype=np.int64),
        np.where(sets & (sets - 1), -1, sets - 1),
        prefetch,
    )


@njit(cache=True, inline="always")
def touch(  # pragma: no cover - compiled
    tags: Any, tree: Any, point: Any, hint: Any, base: Any, node: Any, ways: Any, lru: Any, line: Any
) -> Any:
    """Look a line up in one set, put it there if it is absent, make it the most recent; return whether it was there."""
    if lru:
        if tags[base] == line:
            return True
        found = ways
        for w in range(1, ways):
            if tags[base + w] == line:
                found = w
                break
        hit = found < ways
        if not hit:
            found = ways - 1
        for w in range(found, 0, -1):
            tags[base + w] = tags[base + w - 1]
        tags[base] = line
        return hit
    way = hint[node]
    if tags[base + way] == line:
        return True  # the way touched last already points away
    hit = False
    for w in range(ways):
        if tags[base + w] == line:
            way, hit = w, True
            break
    bits = tree[node]
    if not hit:
        way = _victim(bits, ways)
        tags[base + way] = line
    tree[node] = (bits & point[0, ways, way]) | point[1, ways, way]
    hint[node] = way
    return hit


def _pointers() -> NDArray[np.int64]:
    """Return, for each number of ways and each way, what to keep and what to set so that its path points away."""
    out = np.zeros((2, 33, 32), dtype=np.int64)
    for ways in range(1, 33):
        for way in range(ways):
            low, high, at, clear, put = 0, ways, 1, 0, 0
            while high - low > 1:
                middle = (low + high + 1) >> 1
                if way < middle:
                    put |= 1 << at
                    high, at = middle, 2 * at
                else:
                    clear |= 1 << at
                    low, at = middle, 2 * at + 1
            out[0, ways, way], out[1, ways, way] = ~clear, put
    return out


@njit(cache=True, inline="always")
def _victim(bits: Any, ways: Any) -> Any:  # pragma: no cover - compiled
    """Follow the bits to the way to be replaced; a bit that is set points to the upper half."""
    low, high, at = 0, ways, 1
    while high - low > 1:
        middle = (low + high + 1) >> 1
        if (bits >> at) & 1:
            low, at = middle, 2 * at + 1
        else:
            high, at = middle, 2 * at
    return low


@njit(cache=True)
def access(  # pragma: no cover - compiled
    levels: Any,
    sets: Any,
    mask: Any,
    ways: Any,
    code: Any,
    lru: Any,
    first_tag: Any,
    first_set: Any,
    tags: Any,
    tree: Any,
    point: Any,
    hint: Any,
    prefetch: Any,
    line: Any,
) -> Any:
    """Access a line; return the level that serves it, and 4 times the level its prefetched successor came from."""
    served = MEMORY
    for k in range(levels):
        index = line & mask[k] if mask[k] >= 0 else line % sets[k]
        base = first_tag[k] + index * ways[k]
        if touch(tags, tree, point, hint, base, first_set[k] + index, ways[k], lru[k], line):
            served = code[k]
            break
    if served == 0 or not prefetch or levels < 2:
        return served
    fetched = MEMORY
    for k in range(1, levels):
        index = (line + 1) & mask[k] if mask[k] >= 0 else (line + 1) % sets[k]
        base = first_tag[k] + index * ways[k]
        if touch(tags, tree, point, hint, base, first_set[k] + index, ways[k], lru[k], line + 1):
            fetched = code[k] if code[k] > 1 else 0
            break
    return served + 4 * fetched


@dataclass(frozen=True)
class CacheCounts:
    """Accesses served by each level (L1, L2, L3, memory) and lines prefetched from L3 and from memory."""

    served: NDArray[np.int64]
    prefetched: NDArray[np.int64]
