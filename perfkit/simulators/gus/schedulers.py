"""Schedulers (reservation stations) for Algorithm 1: an operation holds an entry until it begins to execute.

Operations begin out of order, so which entry is given free next is not the oldest one's. For each scheduler a ring
counts the entries that each cycle to come gives free; whoever needs an entry of a full scheduler goes to the first
cycle that gives one free. Exact but for the rounding up to whole cycles, and as monotone in every time as maxima are.
The paper's model has none; without them the operations of the next iterations overtake long chains without limit.
"""

# ruff: noqa: ARG001 - signatures that numba replaces

from typing import Any

import numpy as np

from perfkit.simulators.compiled import helper, implements, inlined
from perfkit.simulators.gus.lanes import LANES, is_lanes, load, store
from perfkit.simulators.gus.timing import CYCLES, TICKS

_CYCLE = 1.0 / TICKS


def _one(_s: Any, _q: Any, t: Any) -> bool:
    """Whether a time is of one configuration."""
    return not is_lanes(t)


def _lanes(_s: Any, _q: Any, t: Any) -> bool:
    return is_lanes(t)


@inlined
def _admitted(waiting: Any, now: Any, count: Any, size: Any, first: Any, step: Any, t: Any) -> Any:  # pragma: no cover
    """Return (time of admission not before t, cycle, entries held); ``first + step * cycle`` is a cycle's place."""
    cycle = np.int64((t + 0.5) * _CYCLE)
    if cycle - now > CYCLES:
        now = cycle - CYCLES
    while now < cycle or count >= size:
        place = first + step * (now & (CYCLES - 1))
        count -= waiting[place]
        waiting[place] = 0
        now += 1
    return max(t, now * TICKS), now, count


@helper
def _admit_all(s: Any, q: Any) -> None:  # pragma: no cover - compiled
    waiting, cycle, count, size, at = s.waiting, s.cycle, s.entries, s.size, s.at
    for lane in range(LANES):
        first = q * CYCLES * LANES + lane
        at[0, lane], cycle[q, lane], count[q, lane] = _admitted(
            waiting, cycle[q, lane], count[q, lane], size[q, lane], first, LANES, at[0, lane]
        )


def admit(s: Any, q: Any, t: Any) -> Any:
    """Return when scheduler q has an entry for an operation that comes at t; times must not go back."""


@implements(admit, _one)
def _admit_one(s: Any, q: Any, t: Any) -> Any:  # pragma: no cover - compiled
    found = _admitted(s.waiting, s.cycle[q], s.entries[q], s.size[q], q * CYCLES, 1, t)
    s.cycle[q], s.entries[q] = found[1], found[2]
    return found[0]


@implements(admit, _lanes)
def _admit_lanes(s: Any, q: Any, t: Any) -> Any:  # pragma: no cover - compiled
    store(s.at, 0, t)
    _admit_all(s, q)
    return load(s.at, 0)


@inlined
def _held(waiting: Any, now: Any, first: Any, step: Any, t: Any) -> Any:  # pragma: no cover - compiled
    """Count an entry that is held until t; return whether it is."""
    cycle = np.int64((t + 0.5) * _CYCLE)
    if cycle < now:
        return 0
    waiting[first + step * (min(cycle, now + CYCLES - 1) & (CYCLES - 1))] += 1
    return 1


@helper
def _hold_all(s: Any, q: Any) -> None:  # pragma: no cover - compiled
    waiting, cycle, count, at = s.waiting, s.cycle, s.entries, s.at
    for lane in range(LANES):
        count[q, lane] += _held(waiting, cycle[q, lane], q * CYCLES * LANES + lane, LANES, at[0, lane])


def hold(s: Any, q: Any, t: Any) -> Any:
    """Let an operation hold its entry of scheduler q until it begins at t."""


@implements(hold, _one)
def _hold_one(s: Any, q: Any, t: Any) -> Any:  # pragma: no cover - compiled
    s.entries[q] += _held(s.waiting, s.cycle[q], q * CYCLES, 1, t)


@implements(hold, _lanes)
def _hold_lanes(s: Any, q: Any, t: Any) -> Any:  # pragma: no cover - compiled
    store(s.at, 0, t)
    _hold_all(s, q)


@inlined
def freed_in(s: Any, q: Any, t: Any) -> Any:  # pragma: no cover - compiled
    """Return the place of the cycle that gives free the entries of operations that begin at t."""
    return q * CYCLES + (np.int64((t + 0.5) * _CYCLE) & (CYCLES - 1))
