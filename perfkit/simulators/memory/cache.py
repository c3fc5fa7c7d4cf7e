"""Which cache level serves each access: set-associative levels, LRU or tree PLRU, and a next-line prefetch.

Gus (section 3.1.1) uses a cache simulator with PLRU replacement at every level and a next-line prefetch heuristic; this
is one, small enough to run inside the simulator's pass over a trace. Levels are filled inclusively: a line found in
level k is put into every level before it. Writes allocate. A demand miss of L1 prefetches a line into L2 (that costs
bandwidth, not latency: what asks for it waits for the bandwidth): the next line after every miss, as in the paper, or
only where lines that follow each other miss, on cores whose file says so. A written line that a level gives up is
written into the next one.

Lines have two names: their number in memory, which tells their set, and their place among the lines touched so far
(`perfkit.simulators.memory.memory` numbers the pages). By place, each level remembers the way that holds the line:
nothing has to be searched.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.machine.core import CacheLevel
from perfkit.simulators.compiled import inlined

MEMORY = 3  # the level code of main memory; 0, 1 and 2 are L1, L2 and L3 (a core may lack L2 and L3)
ABSENT = -1
NEXT_LINE, STREAMS = 1, 2  # what is prefetched: the next line after every miss, or after misses of adjacent lines

_U: Any = np.uint64  # an index of unsigned type saves numba the test for a negative one


class Caches(NamedTuple):
    """The state of all levels, as arrays that numba's functions change in place.

    ``geometry`` has one row per level: number of sets, what masks a line to its set (-1 where the sets are no power of
    two), ways, level code, 1 for LRU, first tag, first set. ``tags`` holds, set after set, the place of the line in
    each way, ``used`` when that way was last touched (LRU only); ``tree`` the PLRU bits of each set, ``point`` how a
    touched way changes them. ``prefetch`` is NEXT_LINE, STREAMS or 0 for none.
    ``clock`` counts the touches of LRU levels. ``gave_up`` has bit k set where level k gave
    up a written line since it was last reset.
    """

    geometry: NDArray[np.int64]
    line_bits: int
    prefetch: int
    tags: NDArray[np.int64]
    used: NDArray[np.int64]
    tree: NDArray[np.int64]
    point: NDArray[np.int64]
    clock: NDArray[np.int64]
    gave_up: NDArray[np.int64]


SETS, MASK, WAYS, CODE, LRU, FIRST_TAG, FIRST_SET = range(7)


def caches(levels: tuple[CacheLevel, ...], prefetch: int) -> Caches:
    """Return empty caches for the levels of a core; ``prefetch`` as in `Caches`.

    Raises
    ------
    SettingError
        Levels of different line sizes, lines longer than a page, or a level of more than 32 ways under PLRU.
    """
    lines = {level.line for level in levels}
    if len(lines) != 1:
        raise SettingError(f"all cache levels need one line size; found {sorted(lines)}")
    if any(level.policy == "plru" and level.ways > 32 for level in levels):
        raise SettingError("tree PLRU is modelled for up to 32 ways; use lru for more")
    if any(level.ways > 32767 for level in levels):
        raise SettingError("a cache level is modelled with up to 32767 ways; use fewer ways and more sets")
    if len(levels) > MEMORY:
        raise SettingError(f"at most {MEMORY} cache levels are modelled; found {len(levels)}")
    if max(lines) > 4096:
        raise SettingError(f"a cache line is at most a page of 4096 bytes; found {max(lines)}")
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
        np.zeros(tags, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
        _pointers(),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


def _pointers() -> NDArray[np.int64]:
    """Return, for each number of ways and each way, what to keep and what to set so that its path points away."""
    out = np.zeros((33, 32, 2), dtype=np.int64)
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
            out[ways, way] = ~clear, put
    return out


@inlined
def victim(bits: Any, ways: Any) -> Any:  # pragma: no cover - compiled
    """Follow the bits to the way to be replaced; a bit that is set points to the upper half."""
    low, high, at = 0, ways, 1
    while high - low > 1:
        middle = (low + high + 1) >> 1
        if (bits >> at) & 1:
            low, at = middle, 2 * at + 1
        else:
            high, at = middle, 2 * at
    return low


@inlined
def _oldest(used: Any, base: Any, ways: Any) -> Any:  # pragma: no cover - compiled
    """Return the way of a set that was touched longest ago."""
    best = 0
    for w in range(1, ways):
        if used[_U(base + w)] < used[_U(base + best)]:
            best = w
    return best


@inlined
def touch(  # pragma: no cover - compiled
    k: Any, cache: Any, where: Any, written: Any, line: Any, place: Any
) -> Any:
    """Look a line up in level k, put it there if it is absent, make it the most recent; return whether it was there."""
    g, tags, used, tree, point, clock = cache.geometry, cache.tags, cache.used, cache.tree, cache.point, cache.clock
    k = _U(k)
    mask, ways = g[k, MASK], g[k, WAYS]
    index = line & mask if mask >= 0 else line % g[k, SETS]
    base = g[k, FIRST_TAG] + index * ways
    node = _U(g[k, FIRST_SET] + index)
    way = np.int64(where[_U(place), k])
    hit = way >= 0
    lru = g[k, LRU] == 1
    if not hit:
        way = _oldest(used, base, ways) if lru else victim(tree[node], ways)
        old = tags[_U(base + way)]
        if old >= 0:
            where[_U(old), k] = ABSENT
            levels = written[_U(old)]
            if levels >> k & 1:
                written[_U(old)] = levels ^ (1 << k) | (2 << k)
                cache.gave_up[0] |= 1 << k
        tags[_U(base + way)] = place
        where[_U(place), k] = way
    if lru:
        clock[0] += 1
        used[_U(base + way)] = clock[0]
    else:
        tree[node] = (tree[node] & point[_U(ways), _U(way), 0]) | point[_U(ways), _U(way), 1]
    return hit


@dataclass(frozen=True)
class CacheCounts:
    """Accesses served by each level (L1, L2, L3, memory) and lines prefetched from L3 and from memory."""

    served: NDArray[np.int64]
    prefetched: NDArray[np.int64]
