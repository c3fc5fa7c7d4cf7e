"""When each instruction is dispatched, begins, ends, retires and is written: what events that count cycles need.

The recurrence tells its hooks everything (`perfkit.simulators.gus.hooks`); a recorder keeps five times of each executed
instruction of one step, and by how much full buffers delayed dispatch. It changes nothing: the cycles stay the same.
"""
# ruff: noqa: ARG001 - numba calls these with all arguments by name, used or not

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.gus import hooks as to
from perfkit.simulators.gus.hooks import implements

# Rows of `Recorder.times`, in ticks.
DISPATCHED, BEGUN, ENDED, RETIRED, WRITTEN = range(5)


class Recorder(NamedTuple):
    """What one step of the simulation leaves behind."""

    first: NDArray[np.int64]  # (1,) the number of the first executed instruction of the step
    instruction: NDArray[np.int32]  # (executed,) which static instruction it is an execution of
    times: NDArray[np.int64]  # (5, executed) in ticks
    full: NDArray[np.int64]  # (BY_RESULT + 1,) ticks by which each kind of constraint delayed dispatch, or accesses


def recorder(first: int, executed: int) -> Recorder:
    """Return an empty record of so many executed instructions."""
    return Recorder(
        np.array([first]),
        np.zeros(executed, dtype=np.int32),
        np.zeros((5, executed), dtype=np.int64),
        np.zeros(to.BY_RESULT + 1, dtype=np.int64),
    )


@implements(to.begin, Recorder)
def _begin(taint: Any, n: Any, i: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.constrain, Recorder)
def _constrain(  # pragma: no cover - compiled
    taint: Any, point: Any, count: Any, t: Any, v: Any, kind: Any, k: Any, n: Any
) -> Any:
    if v > t and (point == to.DISPATCH or (point == to.ACCESS and kind == to.BY_MISSES)):
        taint.full[kind] += v - t
    return 0


@implements(to.use, Recorder)
def _use(taint: Any, kind: Any, k: Any, uses: Any, v: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.put, Recorder)
def _put(taint: Any, kind: Any, k: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.start, Recorder)
def _start(taint: Any, point: Any, source: Any, count: Any, n: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.clear, Recorder)
def _clear(taint: Any, point: Any, n: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.join, Recorder)
def _join(taint: Any, count: Any, t: Any, v: Any, others: Any, n: Any) -> Any:  # pragma: no cover - compiled
    return 0


@implements(to.front, Recorder)
def _front(taint: Any, count: Any, fe: Any, disp: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.result, Recorder)
def _result(  # pragma: no cover - compiled
    taint: Any, data: Any, memory: Any, x: Any, loaded: Any, uses: Any, n: Any
) -> Any:
    pass


@implements(to.retire, Recorder)
def _retire(taint: Any, ret: Any, end: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.write, Recorder)
def _write(taint: Any, written: Any, ret: Any, arrived: Any, n: Any) -> Any:  # pragma: no cover - compiled
    taint.times[4, n - taint.first[0]] = max(written, ret, arrived)


@implements(to.miss, Recorder)
def _miss(taint: Any, kind: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.fetch, Recorder)
def _fetch(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.issue, Recorder)
def _issue(taint: Any, k: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.inherit, Recorder)
def _inherit(taint: Any, kind: Any, k: Any, other: Any, q: Any, n: Any) -> Any:  # pragma: no cover - compiled
    pass


@implements(to.finish, Recorder)
def _finish(  # pragma: no cover - compiled
    taint: Any, n: Any, i: Any, disp: Any, begun: Any, end: Any, ret: Any
) -> Any:
    k = n - taint.first[0]
    taint.instruction[k] = i
    taint.times[0, k] = disp
    taint.times[1, k] = begun
    taint.times[2, k] = end
    taint.times[3, k] = ret
