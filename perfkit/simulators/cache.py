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

    ``geometry`` has a row a level: number of sets, what masks a line to its set (-1 where the sets are no power of
    two), ways, level code, 1 for LRU, first tag, first set. ``tags`` holds, set after set, the lines of each way (most
    recent first under LRU); ``tree`` the PLRU bits of each set, ``point`` how a touched way changes them, ``hint`` the
    way touched last (0 under LRU).
    """

    geometry: NDArray[np.int64]
    line_bits: int
    prefetch: bool
    tags: NDArray[np.int64]
    tree: NDArray[np.int64]
    point: NDArray[np.int64]
    hint: NDArray[np.int64]


SETS, MASK, WAYS, CODE, LRU, FIRST_TAG, FIRST_SET = range(7)


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
    rows, tags, sets = [], 0, 0
    for level in levels:
        mask = -1 if level.sets & (level.sets - 1) else level.sets - 1
        code = int(level.name[1]) - 1
        rows.append((level.sets, mask, level.ways, code, level.policy == "lru", tags, sets))
        tags, sets = tags + level.sets * level.ways, sets + level.sets
    return Caches(
        np.array(rows, dtype=np.int64),
        int(np.log2(lines.pop())),
        prefetch,
        np.full(tags, -1, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
        _pointers(),
        np.zeros(sets, dtype=np.int64),
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


@njit(cache=True, inline="always")
def _touch_level(  # pragma: no cover - compiled
    g: Any, k: Any, tags: Any, tree: Any, point: Any, hint: Any, line: Any
) -> Any:
    """Touch a line in level k; return whether it was there."""
    index = line & g[k, MASK] if g[k, MASK] >= 0 else line % g[k, SETS]
    ways = g[k, WAYS]
    base = g[k, FIRST_TAG] + index * ways
    return touch(tags, tree, point, hint, base, g[k, FIRST_SET] + index, ways, g[k, LRU] == 1, line)


@njit(cache=True)
def access(  # pragma: no cover - compiled
    g: Any, prefetch: Any, tags: Any, tree: Any, point: Any, hint: Any, line: Any
) -> Any:
    """Access a line; return the level that serves it, and 4 times the level its prefetched successor came from."""
    levels = len(g)
    served = MEMORY
    for k in range(levels):
        if _touch_level(g, k, tags, tree, point, hint, line):
            served = g[k, CODE]
            break
    if served == 0 or not prefetch or levels < 2:
        return served
    fetched = MEMORY
    for k in range(1, levels):
        if _touch_level(g, k, tags, tree, point, hint, line + 1):
            fetched = g[k, CODE] if g[k, CODE] > 1 else 0
            break
    return served + 4 * fetched


@dataclass(frozen=True)
class CacheCounts:
    """Accesses served by each level (L1, L2, L3, memory) and lines prefetched from L3 and from memory."""

    served: NDArray[np.int64]
    prefetched: NDArray[np.int64]
