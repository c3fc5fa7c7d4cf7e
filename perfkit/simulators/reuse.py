"""LRU reuse distance: how many distinct lines were touched since a line's last use, and which cache that makes it hit.

The extended roofline models every cache as fully associative with LRU replacement (ISPASS 2014, section III-B): an
access hits the first level that holds as many lines as its reuse distance. Immediate reuse has distance 1.

`LruStack` does not count distances. It keeps the lines as a list in order of use with one marker per cache: the last
line that this cache holds. Moving a line to the front pushes each marked line it passes out of its cache, so that
an access costs a few steps however many lines there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from perfkit.errors import SettingError

Ints = npt.NDArray[np.int64]

LEVELS = 4  # L1, L2, L3, memory
_PAGE = 64  # lines that share one entry of the page table
_UNTOUCHED = 255
# Places in `LruStack.scalars`; the markers and the table's own small cache follow.
_HEAD, _TAIL, _LINES, PAGES, _FIRST, _MARKER, _CAPACITY, _CACHE = 0, 1, 2, 3, 4, 5, 8, 16
_CACHED = 64
UNLIMITED = np.int64(2**62)
# An index of unsigned type saves numba the test for a negative one.
_U = np.uint64

# Numba counts references to every array it hands to a function, even to an inlined one; with atomic increments that
# costs 50 times the work done here. These functions allocate nothing, so the counting is switched off. (The option's
# underscore is why `njit` loses its type here.)
_njit: Any = njit
inlined = _njit(forceinline=True, _nrt=False)
compiled = _njit(cache=True, nogil=True, _nrt=False)


class LruStack(NamedTuple):
    """The lines in order of use. `lines_of` tells a line's index in `place`, `before` and `after`."""

    scalars: Ints
    page_key: Ints
    page_slot: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    place: npt.NDArray[np.uint8]

    @property
    def pages(self) -> int:
        """How many pages of 64 lines it has room for."""
        return len(self.place) // _PAGE


def new_stack(capacities: tuple[float, float, float], pages: int = 64) -> LruStack:
    """Return an empty stack for caches of these capacities, in lines; 0 is no cache, infinity an endless one."""
    scalars = np.zeros(_CACHE + 2 * _CACHED, dtype=np.int64)
    scalars[[_HEAD, _TAIL]] = -1
    scalars[_MARKER : _MARKER + 3] = -1
    scalars[_CACHE::2] = -1
    largest = np.int64(0)
    for k, lines in enumerate(capacities):
        if not lines >= 0:
            raise SettingError(f"a cache holds a number of lines of at least 0, not {lines!r}")
        largest = max(largest, UNLIMITED if np.isinf(lines) else np.int64(lines))
        # A cache smaller than the one before it never is the first that is large enough.
        scalars[_CAPACITY + k] = largest
    scalars[_FIRST] = int((scalars[_CAPACITY : _CAPACITY + 3] == 0).sum())
    return LruStack(
        scalars,
        np.full(2 * pages, -1, dtype=np.int64),
        np.zeros(2 * pages, dtype=np.int32),
        np.zeros(pages * _PAGE, dtype=np.int32),
        np.zeros(pages * _PAGE, dtype=np.int32),
        np.full(pages * _PAGE, _UNTOUCHED, dtype=np.uint8),
    )


def grown(stack: LruStack) -> LruStack:
    """Return the same stack with room for twice as many pages."""
    larger = new_stack((0, 0, 0), 2 * stack.pages)
    larger.scalars[:] = stack.scalars
    for name in ("before", "after", "place"):
        getattr(larger, name)[: len(stack.place)] = getattr(stack, name)
    _rehash(stack.page_key, stack.page_slot, larger.page_key, larger.page_slot)
    return larger


@njit(cache=True)
def _rehash(keys: Any, slots: Any, new_keys: Any, new_slots: Any) -> None:
    for i in range(keys.shape[0]):
        if keys[i] != -1:
            at = _hash(keys[i], new_keys.shape[0])
            while new_keys[at] != -1:
                at = (at + 1) & (new_keys.shape[0] - 1)
            new_keys[at] = keys[i]
            new_slots[at] = slots[i]


@inlined
def _hash(page: Any, size: Any) -> Any:
    mixed = page * np.int64(-7046029254386353131)
    return (mixed ^ (mixed >> np.int64(32))) & (size - 1)


@inlined
def full(stack: Any) -> Any:
    """Whether touching one more line may need another page (then call `grown`)."""
    return stack.scalars[PAGES] * _PAGE >= stack.place.shape[0]


@inlined
def index_of(line: Any, stack: Any) -> Any:
    """Return a line's index in the stack's arrays; a new page gets the next free 64 indices."""
    page = line >> 6
    cached = _CACHE + 2 * (page & (_CACHED - 1))
    if stack.scalars[_U(cached)] == page:
        return (stack.scalars[_U(cached + 1)] << 6) + (line & 63)
    at = _hash(page, stack.page_key.shape[0])
    while stack.page_key[at] != page and stack.page_key[at] != -1:
        at = (at + 1) & (stack.page_key.shape[0] - 1)
    if stack.page_key[at] == -1:
        stack.page_key[at] = page
        stack.page_slot[at] = stack.scalars[PAGES]
        stack.scalars[PAGES] += 1
    slot = np.int64(stack.page_slot[at])
    stack.scalars[_U(cached)] = page
    stack.scalars[_U(cached + 1)] = slot
    return (slot << 6) + (line & 63)


@inlined
def touch(index: Any, stack: Any) -> Any:
    """Use the line of this index: return the level it hits (0 to 3) and make it the most recent."""
    s, before, after, place = stack.scalars, stack.before, stack.after, stack.place
    x = _U(index)
    head = s[_HEAD]
    if index == head:
        return np.int64(place[x])
    found = place[x]
    level = min(np.int64(found), np.int64(LEVELS - 1))
    for k in range(s[_FIRST], level):
        marked = s[_U(_MARKER + k)]
        if marked >= 0:
            place[_U(marked)] = k + 1
            s[_U(_MARKER + k)] = index if marked == head else np.int64(before[_U(marked)])
    if found == _UNTOUCHED:
        s[_LINES] += 1
        if head < 0:
            s[_TAIL] = index
    else:
        for k in range(level, 3):
            if s[_U(_MARKER + k)] == index:
                s[_U(_MARKER + k)] = before[x]
        newer = before[x]
        after[_U(newer)] = after[x]
        if index == s[_TAIL]:
            s[_TAIL] = newer
        else:
            before[_U(after[x])] = newer
    if head >= 0:
        before[_U(head)] = index
        after[x] = head
    s[_HEAD] = index
    place[x] = s[_FIRST]
    if found == _UNTOUCHED:
        for k in range(s[_FIRST], 3):
            if s[_LINES] == s[_U(_CAPACITY + k)]:
                s[_U(_MARKER + k)] = s[_TAIL]
    return level


@compiled
def _touch_all(lines: Any, start: Any, levels: Any, stack: Any) -> int:
    for i in range(start, lines.shape[0]):
        if full(stack):
            return i
        levels[i] = touch(index_of(lines[i], stack), stack)
    return int(lines.shape[0])


def line_shift(line_bytes: float) -> int:
    """Return log2 of a line's size.

    Raises
    ------
    SettingError
        If the size is missing, or no power of two.
    """
    if line_bytes == 0 or not np.isfinite(line_bytes):
        raise SettingError(
            "the DAG gives addresses, and finding the level they hit takes a line size; the core has "
            f"line={line_bytes!r}: set one (64), or give each access its level"
        )
    size = int(line_bytes)
    if size != line_bytes or size < 1 or size & (size - 1):
        raise SettingError(f"a line is a power of two of bytes, not {line_bytes!r}")
    return size.bit_length() - 1


def reuse_levels(
    addresses: npt.ArrayLike, capacities: tuple[float, float, float], line: int = 64, warm: bool = False
) -> npt.NDArray[np.uint8]:
    """Return the level (0: L1, 1: L2, 2: L3, 3: memory) that each access of a sequence hits.

    Parameters
    ----------
    addresses
        Byte addresses in order of access.
    capacities
        Bytes of L1, L2 and L3; 0 is no such cache, infinity an endless one.
    line
        Bytes of a line.
    warm
        Run the sequence once before, to fill the caches.

    Examples
    --------
    >>> reuse_levels([0, 8, 64, 0], (64, 128, 256)).tolist()
    [3, 0, 3, 1]
    """
    shift = line_shift(line)
    lines = np.asarray(addresses, dtype=np.int64) >> shift
    l1, l2, l3 = (float(np.floor(size / line)) for size in capacities)
    stack = new_stack((l1, l2, l3))
    levels = np.zeros(len(lines), dtype=np.uint8)
    for _ in range(2 if warm else 1):
        done = _touch_all(lines, 0, levels, stack)
        while done < len(lines):
            stack = grown(stack)
            done = _touch_all(lines, done, levels, stack)
    return levels
