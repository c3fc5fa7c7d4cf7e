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
from numba import njit, types
from numba.extending import intrinsic

from perfkit.errors import SettingError
from perfkit.simulators.compiled import compiled, inlined
from perfkit.simulators.memory.cache import victim

Ints = npt.NDArray[np.int64]
Lines = npt.NDArray[np.int32]  # indices of lines

LEVELS = 4  # L1, L2, L3, memory
MOST_SETS = PAGE = 64  # lines that share one entry of the page table, and so differ in the last bits of their index
# Places in `LruStack.scalars`; the markers and the table's own small cache follow.
_LINES, _PAGES, _FIRST, _MARKER, _CAPACITY, _TURN, _CACHE = 0, 1, 2, 3, 6, 9, 16
_CACHED = 1024
_TOLD, _TOLD_BITS = _CACHE + 2 * _CACHED, 3  # of each cache, the lines that its last 8 marked ones told to fetch
# Columns of `LruStack.lines`: the line used just after this one, the one used just before it, and the first cache
# that holds it, from 1 on (0: it was never used), and the one that was used `AHEAD` accesses later (only what is
# fetched ahead depends on it). Together, so that moving a line touches few lines of this machine's own cache.
_NEWER, _OLDER, _PLACE, _LATER, _COLUMNS = 0, 1, 2, 3, 2
_UNTOUCHED = 0
_DIGIT_BITS = 11  # of a key, in one pass of sorting
_DIGIT = (1 << _DIGIT_BITS) - 1
# How many accesses ahead a line's place is fetched from memory, and later its neighbours' in the list; from how many
# places on they are not in this machine's caches anyway. Between accesses stand their blocks: where these have four
# accesses each, 24 further on from the first is a block again, and a quarter of all lines is never fetched ahead. 60
# and 30 are multiples of most periods.
AHEAD, _NEAR, _MANY = 60, 30, 1 << 15
INDEX_BITS = 32  # of a place in `where`; the level that the access hits may stand above them
INDEX = (1 << INDEX_BITS) - 1
_RESERVED = 1 << 26  # elements of `lines`: 16 M lines
# The list is a ring through line 0, which is no line: newer than the newest and older than the oldest.
_END = 0
UNLIMITED = np.int64(2**62)
# An index of unsigned type saves numba the test for a negative one.
_U = np.uint64


def _rarely(_context: Any, _condition: Any) -> Any:
    from llvmlite import ir

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bit = ir.IntType(1)
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], ir.FunctionType(bit, [bit, bit]))
        return builder.call(expect, [arguments[0], bit(0)])

    return types.boolean(types.boolean), generate


# rarely(condition) is the condition, and tells the compiler that it is hardly ever true: the other way gets the
# registers. Worth 15 % of the engine's time.
rarely: Any = intrinsic(_rarely)


def _prefetch(_context: Any, array: Any, _index: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils
    from numba.np import arrayobj

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arrayobj.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        fetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [place, word(1), word(3), word(1)])
        return cgutils.get_null_value(context.get_value_type(types.none))

    return types.none(array, types.uint64), generate


# prefetch(array, index) lets this machine fetch an element, to be written soon; it may lie beyond the array's end.
prefetch: Any = intrinsic(_prefetch)


class LruStack(NamedTuple):
    """The lines in order of use. `index_of` tells a line's index in `lines` (flattened, 4 columns per line)."""

    scalars: Ints
    page_key: Ints
    page_slot: npt.NDArray[np.int32]
    lines: npt.NDArray[np.int32]

    @property
    def used(self) -> Ints:
        """When each line was used last (0: never), at every second place where the list will be: only until `fill`."""
        return self.lines.view(np.int64)

    @property
    def room(self) -> int:
        """How many lines it has room for."""
        return len(self.lines) >> _COLUMNS


def new_stack(capacities: tuple[float, float, float], pages: int = 64) -> LruStack:
    """Return an empty stack for caches of these capacities, in lines; 0 is no cache, infinity an endless one."""
    scalars = np.zeros(_TOLD + (LEVELS - 1 << _TOLD_BITS), dtype=np.int64)
    scalars[_PAGES] = 1
    scalars[_MARKER : _MARKER + 3] = -1
    scalars[_CACHE:_TOLD:2] = -1
    largest = np.int64(0)
    for k, lines in enumerate(capacities):
        if not lines >= 0:
            raise SettingError(f"a cache holds a number of lines of at least 0, not {lines!r}")
        largest = max(largest, UNLIMITED if np.isinf(lines) else np.int64(lines))
        # A cache smaller than the one before it never is the first that is large enough.
        scalars[_CAPACITY + k] = largest
    scalars[_FIRST] = int((scalars[_CAPACITY : _CAPACITY + 3] == 0).sum())
    return LruStack(scalars, *_no_pages(pages), np.zeros(pages * PAGE << _COLUMNS, dtype=np.int32))


def grown(stack: LruStack) -> LruStack:
    """Return the same stack with room for twice as many pages.

    Many lines lie in the beginning of a large array, of which only what is used takes memory: nothing is copied.
    """
    size = 2 * len(stack.lines)
    whole = stack.lines if stack.lines.base is None else stack.lines.base
    if len(whole) < size:
        whole = np.zeros(size if size < _MANY << _COLUMNS else max(size, _RESERVED), dtype=np.int32)
        whole[: len(stack.lines)] = stack.lines
    keys, slots = _no_pages(2 * stack.room // PAGE)
    _rehash(stack.page_key, stack.page_slot, keys, slots)
    return LruStack(stack.scalars, keys, slots, whole[:size])


def _no_pages(pages: int) -> tuple[Ints, Lines]:
    """Return an empty table of pages, twice as large as their number."""
    return np.full(2 * pages, -1, dtype=np.int64), np.zeros(2 * pages, dtype=np.int32)


@njit(cache=True)
def _sorted(keys: Any, values: Any, counts: Any) -> Any:
    """Return values in order of their keys, at least 0: some bits of a key in each pass, the lowest first.

    Keys move with their values, so that both are read in order, and the digits are so small that all places written
    to by turns stay in this machine's own cache.
    """
    other_keys, other = np.empty_like(keys), np.empty_like(values)
    shift, largest = 0, np.int64(0)
    for i in range(keys.shape[0]):
        largest = max(largest, keys[i])
    while shift < 63 and largest >> shift > 0:
        counts[:] = 0
        for i in range(keys.shape[0]):
            counts[keys[i] >> shift & _DIGIT] += 1
        total = 0
        for k in range(counts.shape[0]):
            total += counts[k]
            counts[k] = total - counts[k]
        for i in range(keys.shape[0]):
            place = counts[keys[i] >> shift & _DIGIT]
            counts[keys[i] >> shift & _DIGIT] += 1
            other_keys[place] = keys[i]
            other[place] = values[i]
        keys, other_keys = other_keys, keys
        values, other = other, values
        shift += _DIGIT_BITS
    return values


@njit(cache=True)
def _used(used: Any, keys: Any, lines: Any) -> None:
    count = 0
    for i in range(used.shape[0]):
        if used[i] > 0:
            keys[count] = used[i]
            lines[count] = i
            count += 1


def by_use(used: Ints) -> Lines:
    """Return the lines that were used, the one used last first, given when each was used last (0: never)."""
    count = np.count_nonzero(used)
    keys, lines = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32)
    _used(used, keys, lines)
    latest: Lines = _sorted(keys, lines, np.zeros(_DIGIT + 1, dtype=np.int64))[::-1]
    return latest


@njit(cache=True)
def _link(order: Any, lines: Any, capacities: Any) -> None:
    """Link lines into the ring, the one used last first, and tell each its first cache: all of a line at once."""
    newer: Any = _END
    place = 1
    last = order.shape[0] - 1
    flat = lines.reshape(-1)
    for k in range(order.shape[0]):
        prefetch(flat, _U(np.int64(order[min(k + AHEAD, last)]) << _COLUMNS))
        while place < LEVELS and capacities[place - 1] <= k:
            place += 1
        index: Any = order[k]
        lines[newer, _OLDER] = index
        lines[index, _NEWER] = newer
        lines[index, _PLACE] = place
        lines[index, _LATER] = order[max(k - AHEAD, 0)]
        newer = index
    lines[newer, _OLDER] = _END
    lines[_END, _NEWER] = newer


def fill(stack: LruStack, order: Lines) -> None:
    """Leave in an empty stack what use leaves there, given the lines by their last use (`by_use`).

    That is all that many accesses leave behind in a cache with LRU replacement.
    """
    scalars = stack.scalars
    capacities = scalars[_CAPACITY : _CAPACITY + LEVELS - 1]
    _link(order, stack.lines.reshape(-1, 1 << _COLUMNS), capacities)
    scalars[_LINES] = len(order)
    for k, capacity in enumerate(capacities.tolist()):
        scalars[_MARKER + k] = order[capacity - 1] if 0 < capacity <= len(order) else -1


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
def _looked_up(page: Any, cached: Any, stack: Any) -> Any:
    """Return the index of a page's first line, -64 when there is no room for another page."""
    at = _hash(page, stack.page_key.shape[0])
    while stack.page_key[at] != page and stack.page_key[at] != -1:
        at = (at + 1) & (stack.page_key.shape[0] - 1)
    if stack.page_key[at] == -1:
        if stack.scalars[_PAGES] * PAGE >= stack.lines.shape[0] >> _COLUMNS:
            return np.int64(-64)
        stack.page_key[at] = page
        stack.page_slot[at] = stack.scalars[_PAGES]
        stack.scalars[_PAGES] += 1
    slot = np.int64(stack.page_slot[at])
    stack.scalars[_U(cached)] = page
    stack.scalars[_U(cached + 1)] = slot
    return slot << 6


@inlined
def index_of(line: Any, stack: Any) -> Any:
    """Return a line's index; a new page gets the next free 64 of them. -1: there is no room (then call `grown`)."""
    page = line >> 6
    cached = _CACHE + 2 * (page & (_CACHED - 1))
    if rarely(stack.scalars[_U(cached)] != page):
        return _looked_up(page, cached, stack) + (line & 63)
    return (stack.scalars[_U(cached + 1)] << 6) + (line & 63)


@compiled("memory.cache", nogil=True, error_model="python")
def locate(records: Any, start: Any, length: Any, sizes: Any, line_shift: Any, stack: Any, where: Any) -> Any:
    """Tell the index of each accessed line, beside its address: `where` is as the records from `start` on.

    Return where it ended: at `length`, with `where` full, or at the first record for which there is no room (`grown`).
    """
    at, end = start, min(length, start + where.shape[0] - AHEAD)
    room = True
    while room and at < length:
        last = at + 1 + sizes[_U(records[_U(at)])]
        if last > end:
            break
        where[_U(at - start)] = 0
        for i in range(at + 1, last):
            if rarely(stack.lines.shape[0] >> _COLUMNS > _MANY):
                asked = _U(_hash(records[_U(min(i + _NEAR, length - 1))] >> line_shift >> 6, stack.page_key.shape[0]))
                prefetch(stack.page_key, asked)
                prefetch(stack.page_slot, asked)
            index = np.int64(-1)
            if records[_U(i)] >= 0:
                index = index_of(records[_U(i)] >> line_shift, stack)
                if index < 0:
                    room = False
                    break
            where[_U(i - start)] = index
        at = last if room else at
    # Behind the end nothing may be left, of this record or an earlier call: it is fetched ahead, too.
    for i in range(at - start, at - start + AHEAD):
        where[_U(i)] = 0
    return at


@inlined
def fetch_ahead(where: Any, at: Any, stack: Any) -> Any:
    """Fetch from memory what the accesses after this one will look at; return the index of the line furthest ahead."""
    far = where[_U(at + AHEAD)]
    if rarely(stack.lines.shape[0] >> _COLUMNS > _MANY):
        prefetch(stack.lines, _U(far << _COLUMNS))
        near = _U(max(where[_U(at + _NEAR)], np.int64(0)) << _COLUMNS)
        prefetch(stack.lines, _U(np.int64(stack.lines[near + _U(_NEWER)]) << _COLUMNS))
        prefetch(stack.lines, _U(np.int64(stack.lines[near + _U(_OLDER)]) << _COLUMNS))
        stack.lines[_U(where[_U(at)] << _COLUMNS) + _U(_LATER)] = far
    return far


@inlined
def touch(index: Any, stack: Any) -> Any:
    """Use the line of this index: return the level it hits (0 to 3) and make it the most recent."""
    s, lines = stack.scalars, stack.lines
    x, first = _U(index << _COLUMNS), s[_FIRST]
    head = np.int64(lines[_U(_END + _OLDER)])
    found = np.int64(lines[x + _U(_PLACE)]) - 1
    if rarely(index == head):
        return found
    if not rarely(found < 0):
        newer, older = np.int64(lines[x + _U(_NEWER)]), np.int64(lines[x + _U(_OLDER)])
        for k in range(LEVELS - 1):
            if rarely(s[_U(_MARKER + k)] == index):
                s[_U(_MARKER + k)] = newer
        lines[_U(newer << _COLUMNS) + _U(_OLDER)] = older
        lines[_U(older << _COLUMNS) + _U(_NEWER)] = newer
    lines[_U(head << _COLUMNS) + _U(_NEWER)] = index
    lines[x + _U(_NEWER)] = _END
    lines[x + _U(_OLDER)] = head
    lines[_U(_END + _OLDER)] = index
    if not rarely(found != first):
        return found
    lines[x + _U(_PLACE)] = first + 1
    level = min(found, np.int64(LEVELS - 1)) if found >= 0 else np.int64(LEVELS - 1)
    # Out of each cache that did not hold it goes that cache's last line.
    for k in range(first, level):
        marked = s[_U(_MARKER + k)]
        if marked >= 0:
            m = _U(marked << _COLUMNS)
            lines[m + _U(_PLACE)] = k + 2
            s[_U(_MARKER + k)] = lines[m + _U(_NEWER)]
            # The next ones one by one would each be waited for: what is told is some way on.
            later = np.int64(lines[m + _U(_LATER)])
            prefetch(lines, _U(later << _COLUMNS))
            if rarely(lines.shape[0] >> _COLUMNS > _MANY):
                # Where a line was used again since, none told of the one after it: ask what has arrived by now.
                turn = s[_U(_TURN + k)]
                told = _U(_TOLD + (k << _TOLD_BITS) + (turn & ((1 << _TOLD_BITS) - 1)))
                prefetch(lines, _U(np.int64(lines[_U(s[told] << _COLUMNS) + _U(_NEWER)]) << _COLUMNS))
                s[told], s[_U(_TURN + k)] = later, turn + 1
    if found < 0:
        s[_LINES] += 1
        for k in range(first, LEVELS - 1):
            if s[_LINES] == s[_U(_CAPACITY + k)]:
                s[_U(_MARKER + k)] = lines[_U(_END + _NEWER)]
    return level


@inlined
def untouched(index: Any, stack: Any) -> Any:
    """Whether the line of this index was never used."""
    return stack.lines[_U((index << _COLUMNS) + _PLACE)] == _UNTOUCHED


@inlined
def touch_set(index: Any, write: Any, sets: Any, trees: Any, number: Any, ways: Any) -> Any:
    """Use a line in its set: return whether it comes, and which written line leaves for it (-1: none).

    A set's ways are ``2 * index + written``; which of them a line replaces is told by a tree of bits (pseudo-LRU), as
    in `perfkit.simulators.memory.cache`.
    """
    first, bits = number * ways, trees[_U(number)]
    way = np.int64(-1)
    for k in range(ways):
        if sets[_U(first + k)] >> 1 == index:
            way = np.int64(k)
            break
    comes, left, written = way < 0, np.int64(-1), np.int64(write)
    if comes:
        way = np.int64(victim(bits, ways))
        last = sets[_U(first + way)]
        if last >= 0 and last & 1:
            left = last >> 1
    else:
        written |= sets[_U(first + way)] & 1
    sets[_U(first + way)] = 2 * index + written
    low, high, at = np.int64(0), np.int64(ways), np.int64(1)
    while high - low > 1:  # point away from it
        middle = (low + high + 1) >> 1
        if way < middle:
            bits |= np.int64(1) << at
            high, at = middle, 2 * at
        else:
            bits &= ~(np.int64(1) << at)
            low, at = middle, 2 * at + 1
    trees[_U(number)] = bits
    return comes, left


@compiled("memory.cache", nogil=True, error_model="python")
def _use_all(lines: Any, sets: Any, trees: Any, ways: Any) -> None:
    for i in range(lines.shape[0]):
        touch_set(lines[i], False, sets, trees, lines[i] & (trees.shape[0] - 1), ways)


def fill_sets(order: Lines, sets: Ints, trees: Ints) -> None:
    """Leave in the sets what use leaves there, none written, given the lines by their last use (`by_use`)."""
    _use_all(order[: 4 * len(sets)][::-1], sets, trees, len(sets) // len(trees))


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
