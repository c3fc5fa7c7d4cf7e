"""What a program can do without, by what was recorded and sampled: calls that repeat, copies, memory taken and freed.

The core's resources say what such code waits for, and not that it need not run at all.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.profile.hot import Profile
from perfkit.simulators.gus.gus import GusResult
from perfkit.trace.code import NO_ACCESS, expand
from perfkit.trace.standing import foreign
from perfkit.trace.system import STUB
from perfkit.trace.trace import Trace

_MUCH = 0.2  # of the time: what has less is not said before the bottleneck
_MANY = 20  # calls from which one line makes them again and again
_MOSTLY = 0.9  # of a line's calls
_AGAIN = 0.5  # frees per allocation from which memory is given back soon
# Functions whose result depends on memory alone, by what is read of it; their arguments are strings.
_LENGTHS, _COMPARISONS = frozenset({"strlen", "wcslen"}), frozenset({"strcmp", "strcasecmp", "wcscmp"})
_END = (
    128  # bytes before the end of what is read: a string's length does not change while these do not, nor what is read
)
_VECTOR = 64  # bytes of an access at most
_TAKES = re.compile(r"_*(libc_)?(malloc|calloc|realloc|memalign|posix_memalign|aligned_alloc)|_Zn[wa].*")
_GIVES = re.compile(r"_*(libc_)?c?free|_Zd[la].*")
_COPIES = re.compile(r"_*(GI_)?_*(w?mem(p?cpy|move))\w*")
_STACK = 1 << 20  # bytes below where a call returns to that its own variables lie in
_LINE = 64  # bytes, within which a write counts as one to what is read
_WITHIN = re.compile(
    r"_int_(malloc|free|realloc|memalign).*|_mid_memalign.*|tcache_.*|unlink_chunk.*|malloc_\w+|sysmalloc.*|"
    r"systrim.*|arena_get.*|checked_request2size|alloc_perturb|mi_(malloc|free)\w*|je_\w+|tc_(malloc|free)\w*"
)


@dataclass(frozen=True)
class _Runs:
    """The stretches of a trace in which foreign functions of some names run, one for each excursion from own code.

    ``begin`` and ``end`` are numbers of executed blocks, ``site`` the static instruction that calls.
    """

    name: list[str]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    site: NDArray[np.int64]


def asked_again(result: GusResult) -> str:
    """Say that a library's function is called again and again with the same strings; "" where none is known to be.

    Known is which addresses each call reads. Calls that read the same ones one after the other are told where nothing
    has written there in between: of a string's length the end of it, where it would have to change.
    """
    trace = result.trace
    runs = _runs(trace, _LENGTHS | _COMPARISONS, direct=True)
    if len(runs.begin) < _MANY:
        return ""
    spent = result.spent.sum(axis=1).astype(np.float64)
    static = np.array([_plain(name, _LENGTHS | _COMPARISONS) for name in trace.code.function])
    accesses = _accesses(trace)
    told = []
    for (name, site), count in Counter(zip(runs.name, runs.site.tolist(), strict=True)).items():
        mine = np.array([each == name for each in runs.name]) & (runs.site == site)
        share = float(spent[static == name].sum() / max(spent.sum(), 1.0)) * count / runs.name.count(name)
        if count >= _MANY and share >= _MUCH and _same(trace, accesses, runs, mine, name) >= _MOSTLY * (count - 1):
            told.append((share, name, site, count))
    if not told:
        return ""
    share, name, site, count = max(told)
    what, when = (
        ("the same string", "if its length does not change there")
        if name in _LENGTHS
        else ("the same strings, which nothing changes in between", "as its result is the same one")
    )
    return (
        f"{name} is called again and again with {what}: {count:,} times at {_place(trace, site)} in what was "
        f"recorded, {share:.0%} of the simulated time. Call it once and keep its result, {when}"
    )


def allocating(found: Profile | None, trace: Trace) -> str:
    """Say that a run takes and gives back memory for much of its time, and where; "" where it hardly does."""
    mine = [] if found is None else [each for each in found.functions if each.is_system and _is_allocation(each.symbol)]
    share = sum(each.share for each in mine)
    if share < _MUCH:
        return ""
    said = f"{share:.0%} of the run is taking and giving back memory (malloc, free and the like)"
    taken = _runs(trace, _TAKES)
    if len(taken.begin) < _MANY:
        return said
    place, count = Counter(_place(trace, k) for k in taken.site.tolist()).most_common(1)[0]
    freed = len(_runs(trace, _GIVES).begin)
    return (
        f"{said}: {place} takes memory {count:,} times in what was recorded, once in "
        f"{trace.instruction_count / count:,.0f} instructions, "
        + (
            f"and memory is given back {freed:,} times: take it once, before the loop, and use it again"
            if freed >= _AGAIN * len(taken.begin)
            else "and little is given back: take memory for many at once"
        )
    )


def copying(found: Profile | None, trace: Trace) -> str:
    """Say that a run copies memory for much of its time, and where; "" where it hardly does."""
    mine = [] if found is None else [each for each in found.functions if each.is_system and _is_copy(each.symbol)]
    share = sum(each.share for each in mine)
    if share < _MUCH:
        return ""
    said = f"{share:.0%} of the run is copying memory (memcpy, memmove)"
    code = trace.code
    copies = _runs(trace, _COPIES)
    if len(copies.begin) < _MANY:
        return said
    accesses = _accesses(trace)
    operand = expand(trace.stream, code.block_operand_start)[accesses.writes]
    # Of repeated string instructions, and masked vectors, the sizes are recorded for each access.
    if not code.size[operand].all():
        sizes = ""
    else:
        total = np.concatenate(([0], np.cumsum(code.size[operand], dtype=np.int64)))
        first, last = (np.searchsorted(accesses.writes, accesses.before[at]) for at in (copies.begin, copies.end))
        sizes = f", {(total[last] - total[first]).mean():,.0f} bytes on average"
    place, count = Counter(_place(trace, k) for k in copies.site.tolist()).most_common(1)[0]
    return (
        f"{said}: {place} copies {count:,} times in what was recorded{sizes}. What is copied as a whole again and "
        "again (a string or an array that grows, a value that is passed on) need not be: append in place, reserve "
        "room first, or hand on a reference"
    )


def reads_alike(trace: Trace, begins: NDArray[np.int64]) -> bool:
    """Whether some calls in a row, which begin with these executed blocks, do the same thing to the same memory.

    They run the same blocks and access the same addresses, in this order, and write to nothing but their own stack.
    """
    if len(begins) < 2 or not trace.provenance.complete:
        return False
    before = _accesses(trace).before
    ends = [*begins[1:].tolist(), len(trace.stream)]
    first: tuple[bytes, bytes] | None = None
    for begin, end in zip(begins.tolist(), ends, strict=True):
        addresses = trace.addresses[before[begin] : before[end]]
        one = trace.stream[begin:end].tobytes(), addresses.tobytes()
        if first is not None and one != first:
            return False
        first = one
    return _reads_only(trace, before, int(begins[0]), int(ends[0]))


def called_alike(trace: Trace, function: str) -> tuple[int, int, str]:
    """Return how many calls of a function follow a like one, how many there are, and where most are made.

    Like ones access the same memory, of which they write nothing but their own stack, and of which nothing was written
    in between. The numbers that they are given in registers are not known.
    """
    code, stream = trace.code, trace.stream
    heads = code.block_start[:-1]
    inside = np.array([code.function[k] == function for k in heads.tolist()])[stream]
    begin = np.flatnonzero(inside[1:] & ~inside[:-1]) + 1
    ended = np.flatnonzero(inside[:-1] & ~inside[1:]) + 1
    n = min(len(begin), len(ended[ended > begin[0]]) if len(begin) else 0)
    if n < _MANY:
        return 0, n, ""
    begin, end = begin[:n], ended[ended > begin[0]][:n]
    accesses = _accesses(trace)
    alike, last = 0, b""
    lines = np.zeros(0, dtype=np.uint64)
    for k, (a, z) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        addresses = trace.addresses[accesses.before[a] : accesses.before[z]]
        now = addresses.tobytes()
        if now == last and len(lines):
            between = accesses.writes[slice(*np.searchsorted(accesses.writes, accesses.before[[end[k - 1], a]]))]
            alike += not np.isin(trace.addresses[between] // np.uint64(_LINE), lines).any()
        elif now != last:
            kept = addresses[addresses != NO_ACCESS]
            is_pure = len(kept) > 1 and _reads_only(trace, accesses.before, a, z)
            top = int(kept[-1]) if len(kept) else 0  # where it returns to: what lies below is its own
            own = (kept <= np.uint64(top)) & (kept > np.uint64(max(top - _STACK, 0)))
            lines = np.unique(kept[~own] // np.uint64(_LINE)) if is_pure else lines[:0]
        last = now
    sites = code.block_start[1:].astype(np.int64)[stream[begin - 1]] - 1
    return alike, n, Counter(_place(trace, k) for k in sites.tolist()).most_common(1)[0][0]


def _reads_only(trace: Trace, before: NDArray[np.int64], begin: int, end: int) -> bool:
    """Whether executed blocks, of one call to its end, write to nothing but their own stack."""
    addresses = trace.addresses[before[begin] : before[end]]
    operand = expand(trace.stream[begin:end], trace.code.block_operand_start)
    written = addresses[trace.code.write[operand] & (addresses != NO_ACCESS)]
    if not len(addresses) or addresses[-1] == NO_ACCESS:
        return False
    top = int(addresses[-1])  # the last access reads where to return to
    return bool(((written < top) & (written > max(top - _STACK, 0))).all())


def _is_copy(symbol: str) -> bool:
    return bool(_COPIES.fullmatch(symbol.partition("@")[0]))


def _is_allocation(symbol: str) -> bool:
    plain = symbol.partition("@")[0]
    return any(names.fullmatch(plain) for names in (_TAKES, _GIVES, _WITHIN))


def _plain(symbol: str, names: "re.Pattern[str] | frozenset[str]") -> str:
    """Return the name that a program calls a library's function by: strlen, for __strlen_evex; "" for others."""
    if isinstance(names, re.Pattern):
        plain = symbol.removesuffix(STUB).partition("@")[0]
        return plain if names.fullmatch(plain) else ""
    return next((part for part in re.split(r"_+|@", symbol) if part in names), "")


def _runs(trace: Trace, names: "re.Pattern[str] | frozenset[str]", *, direct: bool = False) -> _Runs:
    """Return the first stretch of functions of some names in each excursion to foreign code; those called `direct`ly.

    Between own code and such a function may lie others of the library (`std::string`, what Rust allocates by).
    """
    code, stream = trace.code, trace.stream
    heads = code.block_start[:-1]
    away = foreign(trace)[heads]
    called = [_plain(code.function[k], names) if away[b] else "" for b, k in enumerate(heads.tolist())]
    stub = np.array([code.function[k].endswith(STUB) for k in heads.tolist()])
    inside, out = (np.array([bool(each) for each in called]) & ~stub)[stream], away[stream]
    left = np.flatnonzero(out[1:] & ~out[:-1]) + 1
    begin = np.flatnonzero(inside[1:] & ~inside[:-1]) + 1
    excursion = np.searchsorted(left, begin, side="right") - 1
    first = np.concatenate(([True], np.diff(excursion) > 0))[: len(begin)] & (excursion >= 0)
    begin, left = begin[first], left[excursion[first]]
    if direct:
        at_once = (begin == left) | ((begin == left + 1) & stub[stream[left]])
        begin, left = begin[at_once], left[at_once]
    end = np.append(np.flatnonzero(inside[:-1] & ~inside[1:]) + 1, len(stream))
    end = end[np.searchsorted(end, begin, side="right")]
    site = (code.block_start[1:].astype(np.int64) - 1)[stream[left - 1]]
    return _Runs([called[block] for block in stream[begin].tolist()], begin, end, site)


@dataclass(frozen=True)
class _Accesses:
    """All accesses of a trace: how many come before each executed block, and which of them write."""

    before: NDArray[np.int64]
    writes: NDArray[np.int64]  # their numbers


def _accesses(trace: Trace) -> _Accesses:
    code, stream = trace.code, trace.stream
    before = np.concatenate(([0], np.cumsum(np.diff(code.block_operand_start)[stream], dtype=np.int64)))
    operand = expand(stream, code.block_operand_start)
    return _Accesses(before, np.flatnonzero(code.write[operand] & (trace.addresses != NO_ACCESS)))


def _place(trace: Trace, k: int) -> str:
    """Return where a static instruction is, as `perfkit.trace.standing.places` does of the user's own."""
    code = trace.code
    return f"{Path(code.file[k]).name}:{code.line[k]}" if code.line[k] else f"{trace.object_addresses()[k]:#x}"


def _same(trace: Trace, accesses: _Accesses, runs: _Runs, mine: NDArray[np.bool_], name: str) -> int:
    """Return how many of some calls read what the one before them read, which nothing has changed in between."""
    first, last = accesses.before[runs.begin[mine]], accesses.before[runs.end[mine]]
    addresses = trace.addresses
    reads = [addresses[a:z][addresses[a:z] != NO_ACCESS] for a, z in zip(first.tolist(), last.tolist(), strict=True)]
    keys = [each[:-1].tobytes() for each in reads]  # the last one reads where to return to
    common, count = Counter(keys).most_common(1)[0]
    if count < 2 or not common:
        return 0
    held = np.frombuffer(common, dtype=addresses.dtype)
    high = int(held.max()) + _VECTOR
    low = max(int(held.min()), high - _VECTOR - _END) if name in _LENGTHS else int(held.min())
    written = addresses[accesses.writes]
    hits = accesses.writes[(written >= low) & (written < high)]
    is_common = np.array([key == common for key in keys])
    quiet = np.searchsorted(hits, first[1:]) == np.searchsorted(hits, last[:-1])
    return int((is_common[1:] & is_common[:-1] & quiet).sum())
