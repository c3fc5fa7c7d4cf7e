"""At which line each instruction of an answer is told: its own, or the user's line that called a library there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.system import STUB, is_system

if TYPE_CHECKING:
    from perfkit.trace.code import StaticCode
    from perfkit.trace.trace import Trace

_UNKNOWN = -1


def places(trace: "Trace") -> list[str]:
    """Return where each static instruction is: ``file:line``, or its address as objdump prints it.

    Code of a linkage stub (PLT) or of a library is where the call that leads to it is.
    """
    code, addresses = trace.code, trace.object_addresses().tolist()
    names = {file: Path(file).name for file in set(code.file)}
    each = ((names[code.file[k]], int(code.line[k]), addresses[k]) for k in standing(trace))
    return [f"{name}:{line}" if line else f"{address:#x}" for name, line, address in each]


def standing(trace: "Trace") -> list[int]:
    """Return the static instruction at whose place each is told: itself; of a library's the call that leads there.

    Nobody who asks wrote what is foreign (`foreign`): they can change the line that calls it. Of code that several
    calls lead to, the one counts from which it runs most often.
    """
    code = trace.code
    others = foreign(trace)
    found = list(range(code.instruction_count))
    block, call = _called_from(trace, others[code.block_start[:-1]])
    if not len(block):
        return found
    pairs, counts = np.unique(np.stack([block, call]), axis=1, return_counts=True)
    by_count = np.argsort(counts, kind="stable")  # the last one of a block that is written is its most frequent
    best = np.full(code.block_count, _UNKNOWN)
    best[pairs[0, by_count]] = pairs[1, by_count]
    return [int(best[b]) if best[b] != _UNKNOWN else k for k, b in zip(found, code.block.tolist(), strict=True)]


def foreign(trace: "Trace") -> NDArray[np.bool_]:
    """Return which static instructions nobody who asks wrote, shape (n,).

    Those of linkage stubs, of the system's libraries, and of functions all of whose lines are a library's, or unknown
    while those of the recorded function are known. Nothing of the file that holds a recorded function of a library.
    """
    code, asked = trace.code, trace.provenance.function
    mine = np.array([name == asked for name in code.function], dtype=bool)
    found = np.array([name.endswith(STUB) for name in code.function], dtype=bool)
    ranges = json.loads(trace.provenance.extra.get("system", "[]"))
    systems = [(code.pc >= start) & (code.pc < end) for start, end in ranges]
    found |= np.logical_or.reduce([each for each in systems if not (each & mine).any()], initial=False)
    is_asked_there = any((each & mine).any() for each in systems)
    if not is_asked_there and any(_is_own(code, k) for k in np.flatnonzero(mine).tolist()):
        own = {name for k, name in enumerate(code.function) if _is_own(code, k)}
        found |= np.array([name not in own for name in code.function], dtype=bool)
    return found & ~mine


def _is_own(code: "StaticCode", k: int) -> bool:
    """Whether an instruction comes from a known line that is no library's."""
    return bool(code.line[k]) and not is_system(code.file[k])


def _called_from(trace: "Trace", others: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the executed blocks of foreign code, and of each the call in the user's code that led there.

    What ran before the user's code called anything is left out: where a recording begins within a library.
    """
    stream = trace.stream
    away = others[stream]
    begins = list(_excursions(trace, away))
    if not begins:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    at, call = (np.array(each, dtype=np.int64) for each in zip(*begins, strict=True))
    positions = np.flatnonzero(away)
    positions = positions[positions >= at[0]]
    calls = call[np.searchsorted(at, positions, side="right") - 1]
    known = calls != _UNKNOWN
    return stream[positions[known]].astype(np.int64), calls[known]


def _excursions(trace: "Trace", away: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield where foreign code begins or goes on after a return, and the call in the user's code that led there.

    A library may call the user's code back (`qsort`), which may call libraries, or jump into them: it goes on, where
    that returns, for the call that it was called by.
    """
    code, stream = trace.code, trace.stream
    last = code.block_start[1:] - 1
    texts = [code.text[k].removeprefix("bnd ").removeprefix("notrack ") for k in last.tolist()]
    returns = np.array([text.startswith(("ret", "rep ret", "repz ret")) for text in texts], dtype=bool)
    calls = np.array([text.startswith("call") for text in texts], dtype=bool)
    behind = code.pc[last] + code.length[last].astype(np.uint64)
    begins = code.pc[code.block_start[:-1]]
    is_followed = behind[stream[:-1]] != begins[stream[1:]]  # else what is called was not recorded
    depth = np.concatenate(([0], np.cumsum((calls[stream[:-1]] & is_followed).astype(np.int64) - returns[stream[:-1]])))
    events = np.flatnonzero(away[1:] & (~away[:-1] | returns[stream[:-1]])) + 1
    before = stream[events - 1]
    enters = ~away[events - 1] & ~returns[before]
    stack: list[tuple[int, int]] = []  # depth of the first foreign block, and the call
    rows = zip(events.tolist(), depth[events].tolist(), enters.tolist(), last[before].tolist(), strict=True)
    for at, deep, has_entered, call in rows:
        while stack and stack[-1][0] > deep - has_entered:  # has returned
            stack.pop()
        if has_entered:
            stack.append((deep, call))
        yield at, stack[-1][1] if stack else _UNKNOWN
