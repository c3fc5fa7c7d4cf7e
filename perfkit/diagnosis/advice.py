"""What a program can do without, by what was recorded and sampled: calls that repeat, memory taken and given back.

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
