"""Which cache level serves each access: set-associative levels, LRU or tree PLRU, and a next-line prefetch.

Gus (section 3.1.1) uses a cache simulator with PLRU replacement at every level and a next-line prefetch heuristic; this
is one, small enough to run inside the simulator's pass over a trace. Levels are filled inclusively: a line found in
level k is put into every level before it. Writes allocate. A demand miss of L1 prefetches the next line into
L2 (that costs bandwidth, not latency). Write-backs are not modelled.
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
    PLRU bits of each set.
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
        prefetch,
    )


@njit(cache=True)
def touch(c: Any, k: Any, line: Any, fill: bool) -> bool:  # pragma: no cover - compiled
    """Look a line up in level k and make it the most recent; on a miss, put it there if ``fill``."""
    index = line % c.sets[k]
    ways = c.ways[k]
    base = c.first_tag[k] + index * ways
    if c.lru[k]:
        found = ways
        for w in range(ways):
            if c.tags[base + w] == line:
                found = w
                break
        hit = found < ways
        if not hit:
            if not fill:
                return False
            found = ways - 1
        for w in range(found, 0, -1):
            c.tags[base + w] = c.tags[base + w - 1]
        c.tags[base] = line
        return hit
    node = c.first_set[k] + index
    for w in range(ways):
        if c.tags[base + w] == line:
            _point_away(c.tree, node, w, ways)
            return True
    if fill:
        w = _victim(c.tree[node], ways)
        c.tags[base + w] = line
        _point_away(c.tree, node, w, ways)
    return False


@njit(cache=True)
def _point_away(tree: Any, node: Any, way: Any, ways: Any) -> None:  # pragma: no cover - compiled
    """Set the bits on a way's path so that they point to the other side."""
    low, high, at, bits = 0, ways, 1, tree[node]
    while high - low > 1:
        middle = (low + high + 1) >> 1
        if way < middle:
            bits |= 1 << at
            high, at = middle, 2 * at
        else:
            bits &= ~(1 << at)
            low, at = middle, 2 * at + 1
    tree[node] = bits


@njit(cache=True)
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
def access(c: Any, line: Any) -> Any:  # pragma: no cover - compiled
    """Access a line; return the level that serves it and the level its prefetched successor came from (0: none)."""
    for k in range(c.levels):
        if touch(c, k, line, True):
            served = c.code[k]
            break
    else:
        served = MEMORY
    fetched = 0
    if c.prefetch and served >= 1 and c.levels > 1:
        fetched = MEMORY
        for k in range(1, c.levels):
            if touch(c, k, line + 1, True):
                fetched = c.code[k] if c.code[k] > 1 else 0
                break
    return served, fetched


@dataclass(frozen=True)
class CacheCounts:
    """Accesses served by each level (L1, L2, L3, memory) and lines prefetched from L3 and from memory."""

    served: NDArray[np.int64]
    prefetched: NDArray[np.int64]
