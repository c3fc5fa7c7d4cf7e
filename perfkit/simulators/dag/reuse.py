"""LRU reuse distance: how many distinct lines were touched since a line's last use, and which cache that makes it hit.

The extended roofline models every cache as fully associative with LRU replacement (ISPASS 2014, section III-B): an
access hits the first level that holds as many lines as its reuse distance. Immediate reuse has distance 1.

`LruStack` does not count distances. It keeps a log of what was used, and of each line the place of its last use there:
any other place of the line is stale. A cache holds the lines from one place of the log on, its mark. Whoever comes into
a full cache moves the mark to the next place that is not stale, so that an access costs a few steps however many lines
there are, most of them in order. A full log is written anew without what is stale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

from perfkit.errors import SettingError
from perfkit.simulators.compiled import compiled, helper, inlined
from perfkit.simulators.memory.cache import victim

Ints = npt.NDArray[np.int64]
Lines = npt.NDArray[np.int32]  # indices of lines

LEVELS = 4  # L1, L2, L3, memory
MOST_SETS = 64
_PAGE_BITS = 8  # of lines that share one entry of the page table, and so differ in the last bits of their index
_PAGE = 1 << _PAGE_BITS
# Places in `LruStack.scalars`; the table's own small cache follows.
_LINES, _PAGES, _FIRST, _NOW, _MARK, _CAPACITY, _CACHE = 0, 1, 2, 3, 4, 7, 16
_CACHED = 1024
# Places of the log begin behind 0, which a line has that was never used, and 1, the mark of a cache that is not full.
_UNTOUCHED, _NOT_FULL = 0, 1
# How many accesses ahead a line's last use is fetched from memory, and how many places of the log ahead of a mark;
# from how many lines on they are not in this machine's caches anyway.
AHEAD, _BEFORE_MARK, _MANY = 60, 24, 1 << 15
INDEX_BITS = 32  # of a place in `where`; the level that the access hits may stand above them
INDEX = (1 << INDEX_BITS) - 1
_SHORTEST_LOG = 1 << 16
_RESERVED = 1 << 24  # lines
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
    """What was used in order, `log`, and where there each line was used last. `index_of` tells a line's index."""

    scalars: Ints
    page_key: Ints
    page_slot: Lines
    last: Lines
    log: Lines

    @property
    def room(self) -> int:
        """How many lines it has room for."""
        return len(self.last)


def new_stack(capacities: tuple[float, float, float], pages: int = 16) -> LruStack:
    """Return an empty stack for caches of these capacities, in lines; 0 is no cache, infinity an endless one."""
    scalars = np.zeros(_CACHE + 2 * _CACHED, dtype=np.int64)
    scalars[_PAGES] = 1
    scalars[_NOW] = scalars[_MARK : _MARK + LEVELS - 1] = _NOT_FULL
    scalars[_CACHE::2] = -1
    largest = np.int64(0)
    for k, lines in enumerate(capacities):
        if not lines >= 0:
            raise SettingError(f"a cache holds a number of lines of at least 0, not {lines!r}")
        largest = max(largest, UNLIMITED if np.isinf(lines) else np.int64(lines))
        # A cache smaller than the one before it never is the first that is large enough.
        scalars[_CAPACITY + k] = largest
    scalars[_FIRST] = int((scalars[_CAPACITY : _CAPACITY + 3] == 0).sum())
    room = pages * _PAGE
    last, log = (np.zeros(n, dtype=np.int32) for n in (room, _log_length(room)))
    return LruStack(scalars, *_no_pages(pages), last, log)


def _log_length(room: int) -> int:
    """Return a length of which half is stale when it is full: it is written anew after as many uses as it has lines."""
    return max(2 * room, _SHORTEST_LOG) + AHEAD


def grown(stack: LruStack) -> LruStack:
    """Return the same stack with room for twice as many pages."""
    room = 2 * stack.room
    keys, slots = _no_pages(room // _PAGE)
    _rehash(stack.page_key, stack.page_slot, keys, slots)
    last = _longer(stack.last, room, _RESERVED)
    return LruStack(stack.scalars, keys, slots, last, _longer(stack.log, _log_length(room), _log_length(_RESERVED)))


def _longer(array: Lines, size: int, reserved: int) -> Lines:
    """Return an array with zeros added.

    Many lines lie in the beginning of a large array, of which only what is used takes memory: nothing is copied.
    """
    whole = array if array.base is None else array.base
    if len(whole) < size:
        whole = np.zeros(size if size < 2 * _MANY else max(size, reserved), dtype=np.int32)
        whole[: len(array)] = array
    return whole[:size]


def _no_pages(pages: int) -> tuple[Ints, Lines]:
    """Return an empty table of pages, twice as large as their number."""
    return np.full(2 * pages, -1, dtype=np.int64), np.zeros(2 * pages, dtype=np.int32)


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
    """Return the index of a page's first line, -256 when there is no room for another page."""
    at = _hash(page, stack.page_key.shape[0])
    while stack.page_key[at] != page and stack.page_key[at] != -1:
        at = (at + 1) & (stack.page_key.shape[0] - 1)
    if stack.page_key[at] == -1:
        if stack.scalars[_PAGES] * _PAGE >= stack.last.shape[0]:
            return np.int64(-_PAGE)
        stack.page_key[at] = page
        stack.page_slot[at] = stack.scalars[_PAGES]
        stack.scalars[_PAGES] += 1
    slot = np.int64(stack.page_slot[at])
    stack.scalars[_U(cached)] = page
    stack.scalars[_U(cached + 1)] = slot
    return slot << _PAGE_BITS


@inlined
def index_of(line: Any, stack: Any) -> Any:
    """Return a line's index; a new page gets the next free 256 of them. -1: there is no room (then call `grown`)."""
    page = line >> _PAGE_BITS
    cached = _CACHE + 2 * (page & (_CACHED - 1))
    if rarely(stack.scalars[_U(cached)] != page):
        return _looked_up(page, cached, stack) + (line & (_PAGE - 1))
    return (stack.scalars[_U(cached + 1)] << _PAGE_BITS) + (line & (_PAGE - 1))


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
            if rarely(stack.last.shape[0] > _MANY):
                asked = _U(
                    _hash(records[_U(min(i + AHEAD, length - 1))] >> line_shift >> _PAGE_BITS, stack.page_key.shape[0])
                )
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
    """Fetch from memory what an access after this one will look at; return the index of its line."""
    far = where[_U(at + AHEAD)]
    prefetch(stack.last, _U(far))
    return far


@helper
def _written_anew(stack: Any) -> None:
    s, last, log = stack.scalars, stack.last, stack.log
    kept = np.int64(_NOT_FULL)
    for at in range(_NOT_FULL + 1, s[_NOW] + 1):
        prefetch(last, _U(log[_U(at + _BEFORE_MARK)]))
        index = _U(log[_U(at)])
        if last[index] == at:
            kept += 1
            log[_U(kept)] = log[_U(at)]
            last[index] = kept
    s[_NOW], s[_LINES] = kept, kept - _NOT_FULL
    for k in range(LEVELS - 1):
        lines = s[_U(_CAPACITY + k)]
        s[_U(_MARK + k)] = kept - lines + 1 if 0 < lines <= s[_LINES] else np.int64(_NOT_FULL)


@compiled("memory.cache", nogil=True, error_model="python")
def settle_log(stack: Any) -> None:
    """Write the log anew, without what is stale, and mark where each cache begins."""
    _written_anew(stack)


@inlined
def _make_room(stack: Any) -> None:
    if rarely(stack.scalars[_NOW] + 1 == stack.log.shape[0] - AHEAD):
        _written_anew(stack)


@inlined
def _note(index: Any, stack: Any) -> None:
    now = stack.scalars[_NOW] + 1
    stack.log[_U(now)] = index
    stack.last[_U(index)] = now
    stack.scalars[_NOW] = now


@inlined
def use_line(index: Any, stack: Any) -> None:
    """Use the line of this index without a look at the caches, which `settle_log` finds."""
    if stack.last[_U(index)] != stack.scalars[_NOW]:
        _make_room(stack)
        _note(index, stack)


@inlined
def _valid(at: Any, stack: Any) -> Any:
    """Return the first place of the log from this one on that is not stale."""
    last, log = stack.last, stack.log
    while last[_U(log[_U(at)])] != at:
        prefetch(last, _U(log[_U(at + _BEFORE_MARK)]))
        at += 1
    prefetch(last, _U(log[_U(at + _BEFORE_MARK)]))
    return at


@inlined
def touch(index: Any, stack: Any) -> Any:
    """Use the line of this index: return the level it hits (0 to 3) and make it the most recent."""
    s = stack.scalars
    first, level = s[_FIRST], s[_FIRST]
    if rarely(stack.last[_U(index)] == s[_NOW]):
        return first
    _make_room(stack)
    before = np.int64(stack.last[_U(index)])
    while level < LEVELS - 1 and rarely(before < s[_U(_MARK + level)]):
        level += 1
    _note(index, stack)
    for k in range(first, LEVELS - 1):
        mark = s[_U(_MARK + k)]
        # Out of a full cache that did not hold it goes that cache's oldest line; or its oldest line was this one.
        if rarely((k < level) | (before == mark)) and mark > _NOT_FULL:
            s[_U(_MARK + k)] = _valid(mark + 1, stack)
    if rarely(before == _UNTOUCHED):
        s[_LINES] += 1
        for k in range(first, LEVELS - 1):
            if s[_LINES] == s[_U(_CAPACITY + k)]:
                s[_U(_MARK + k)] = _valid(np.int64(_NOT_FULL + 1), stack)
    return level


@inlined
def untouched(index: Any, stack: Any) -> Any:
    """Whether the line of this index was never used."""
    return stack.last[_U(index)] == _UNTOUCHED


def by_use(stack: LruStack) -> Lines:
    """Return the lines that were used, the one used last first: of a stack that has settled."""
    return stack.log[_NOT_FULL + 1 : stack.scalars[_NOW] + 1][::-1]


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
