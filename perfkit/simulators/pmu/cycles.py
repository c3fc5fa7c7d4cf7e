"""Events that count cycles: how many uops a cycle began or retired, and which misses were on their way in it.

Instructions begin out of order, so a cycle is complete only when dispatch has passed it; until then it is kept in a
window. Complete cycles go to the stretch of the run that they lie in, by the retirement that ended each stretch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.compiled import compiled
from perfkit.simulators.gus import timing
from perfkit.simulators.pmu.recorder import BEGUN, DISPATCHED, ENDED, RETIRED, Recorder

_MANY = 4  # misses of L3 at once: memory is asked for more than one thing after another
EVENTS: dict[str, tuple[str, str]] = {
    **{f"exec.{k}": ("cycles", f"in which exactly {k} fused uops began to execute") for k in range(3)},
    "exec.3+": ("cycles", "in which three or more fused uops began to execute"),
    **{f"retired.{k}": ("cycles", f"in which exactly {k} fused uops retired") for k in range(3)},
    "retired.3+": ("cycles", "in which three or more fused uops retired"),
    "pending.l1": ("cycles", "in which a load that missed L1 was on its way"),
    "pending.l2": ("cycles", "in which a load that missed L2 was on its way"),
    "pending.l3": ("cycles", "in which a load that missed L3 was on its way"),
    "pending.l3.4+": ("cycles", "in which at least four loads that missed L3 were on their way"),
    "exec.0.pending.l1": ("cycles", "in which no uop began and a load that missed L1 was on its way"),
    "exec.0.pending.l2": ("cycles", "in which no uop began and a load that missed L2 was on its way"),
    "exec.0.pending.l3": ("cycles", "in which no uop began and a load that missed L3 was on its way"),
}


class CycleCounts:
    """Counts of `EVENTS` for every stretch of a run.

    Parameters
    ----------
    slots : (instructions,) int
        Fused uops of each static instruction.
    """

    def __init__(self, slots: NDArray[np.int32]) -> None:
        self._slots = slots.astype(np.int64)
        self._base = 0  # the cycle that column `_start` is of: those before it are counted
        self._start = 0
        self._window = np.zeros((5, 1 << 12), dtype=np.int64)  # begun, retired; changes of pending misses by level
        self._pending = np.zeros(3, dtype=np.int64)
        self._ends: list[int] = []
        self._open = 0  # the first stretch that does not end before `_base`
        self._totals: list[NDArray[np.int64]] = [np.zeros(len(EVENTS), dtype=np.int64)]
        self._last = 0

    def add(self, record: Recorder, level: NDArray[np.int64]) -> None:
        """Add the instructions of a step; ``level`` is the level that served each of its loads (0: L1, or no load)."""
        times = record.times // timing.TICKS
        self._last = max(self._last, int(times[RETIRED, -1]) + 1)
        self._room(int(times[ENDED : RETIRED + 1].max()) + 2)
        _tally(self._window, times, self._slots[record.instruction], level, self._base, self._start)
        self._flush(int(times[DISPATCHED, -1]))

    def end_stretch(self, ticks: int) -> None:
        """End a stretch at this time, the last retirement so far."""
        self._ends.append(ticks // timing.TICKS)
        self._totals.append(np.zeros(len(EVENTS), dtype=np.int64))

    def totals(self) -> NDArray[np.float64]:
        """Complete the run; return the counts, (stretches, events)."""
        self._flush(self._last)
        found = np.array(self._totals, dtype=float)
        found[-2] += found[-1]  # the fraction of a cycle after the last whole one
        return found[:-1]

    def _room(self, until: int) -> None:
        """Make room for the cycles before ``until``; what is counted is moved away only when half of the room is."""
        needed, width = until - self._base, self._window.shape[1]
        if self._start + needed <= width:
            return
        wider = np.zeros((5, max(width, 1 << (2 * needed).bit_length())), dtype=np.int64)
        wider[:, : width - self._start] = self._window[:, self._start :]
        self._window, self._start = wider, 0

    def _flush(self, until: int) -> None:
        """Count the cycles before ``until``, in which nothing more can happen."""
        n = until - self._base
        if n <= 0:
            return
        self._room(until)
        window = self._window[:, self._start : self._start + n]
        begun, retired = window[0], window[1]
        pending = self._pending[:, None] + np.cumsum(window[2:], axis=1)
        idle, some = begun == 0, pending > 0
        seen = np.stack(
            [
                *(begun == k for k in range(3)), begun >= 3,
                *(retired == k for k in range(3)), retired >= 3,
                *some, pending[2] >= _MANY,
                *(some & idle),
            ]
        )  # fmt: skip
        counted = np.concatenate([np.zeros((len(seen), 1), dtype=np.int64), np.cumsum(seen, axis=1)], axis=1)
        before = 0
        for k in range(self._open, len(self._totals)):
            end = self._ends[k] if k < len(self._ends) else until
            edge = min(max(end - self._base, 0), n)
            if edge > before:
                self._totals[k] += counted[:, edge] - counted[:, before]
                before = edge
            self._open = k
            if end - self._base > n:
                break
        self._pending = pending[:, -1].copy()
        self._start += n
        self._base = until


@compiled()
def _tally(  # pragma: no cover - compiled
    window: Any, times: Any, slots: Any, level: Any, base: Any, start: Any
) -> None:
    for k in range(times.shape[1]):
        begun = times[BEGUN, k] - base + start
        window[0, max(begun, start)] += slots[k]
        window[1, times[RETIRED, k] - base + start] += slots[k]
        if level[k] > 0:
            end = times[ENDED, k] - base + start
            for q in range(level[k]):
                window[2 + q, begun] += 1
                window[2 + q, max(end, begun + 1)] -= 1
