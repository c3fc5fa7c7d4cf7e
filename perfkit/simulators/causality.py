"""Which instructions the length of a run is due to (Gus, section 3.1: constraints tainted by instructions)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.simulators.gus import CHUNK, Gus, check, commit_ticks, engine_arguments
from perfkit.simulators.machine import Lanes
from perfkit.simulators.program import Program
from perfkit.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


def causality(gus: Gus, trace: Trace, exact: bool = False, window: int | None = None) -> Causality:
    """Trace the constraints of a run back to the instructions they come from.

    Parameters
    ----------
    gus, trace
        As for `Gus.run`.
    exact
        The paper's tainting to the letter, in plain Python: for short traces.
    window
        Length of the taint queue in instructions; None: twice the reorder buffer, as in the paper.

    Examples
    --------
    >>> causality(Gus(core), trace).to_frame().head()                   # doctest: +SKIP
    """
    check(trace, gus.core)
    if window is not None and window < 1:
        raise SettingError(f"window is a number of instructions above 0, not {window}")
    if exact:
        from perfkit.simulators.causality_exact import run_exact

        return Causality(gus, trace, run_exact(gus, trace, window).counts, True)
    return Causality(gus, trace, _fast(gus, trace, window), False)


def _fast(gus: Gus, trace: Trace, window: int | None) -> NDArray[np.int64]:
    from perfkit.simulators import causality_engine as engine

    tables = gus.instruction_tables()
    program = Program.of(trace.code, gus.core, tables)
    lanes = Lanes.of(program, trace.code, [gus.core])
    width = max(window or 2 * int(lanes.rob[0]), 2)
    state = engine.new_state(len(lanes.ports), width)
    counts = np.zeros(trace.code.instruction_count, np.int64)
    caches = gus.caches(trace)
    arguments = engine_arguments(trace.code, program, lanes)
    loop: Any = engine.simulate_causes
    for chunk in trace.chunks(CHUNK):
        codes, distances = caches.classify(trace, chunk)
        loop(chunk.stream, codes, distances, *arguments, commit_ticks(tables), state, counts)
    edges, sizes, statics, marks = state[-4:]
    # What is left in the window is judged by the last retirement.
    done, judged = int(state[1][engine.COUNT]), int(state[1][engine.JUDGED])
    engine.judge(edges, sizes, statics, marks, done - 1, engine.RETIRE, judged, done - 1, counts)
    return counts


@dataclass(frozen=True)
class Causality:
    """Shares of the instructions in the causes of a simulated run's length.

    Parameters
    ----------
    gus, trace
        What was run.
    counts : (n,) int64
        How often each static instruction was among the causes: the paper's taint[pc].
    exact
        Whether by the paper's tainting to the letter.
    """

    gus: Gus = field(repr=False)
    trace: Trace = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    exact: bool

    @property
    def shares(self) -> NDArray[np.float64]:
        """Shares of all causes; they add up to one."""
        total = int(self.counts.sum())
        return self.counts / total if total else np.zeros(len(self.counts))

    @property
    def tainted(self) -> NDArray[np.float64]:
        """Share of each instruction's executions that was among the causes, NaN where it never ran."""
        executions = self.trace.instruction_counts()
        return np.divide(self.counts, executions, out=np.full(len(executions), np.nan), where=executions > 0)

    def to_frame(self) -> pd.DataFrame:
        """Return one row a static instruction, the largest share first."""
        import pandas as pd

        code = self.trace.code
        frame = pd.DataFrame(
            {
                "pc": code.pc,
                "text": list(code.text),
                "share": self.shares,
                "tainted": self.tainted,
                "executions": self.trace.instruction_counts(),
            }
        )
        return frame.sort_values("share", ascending=False, kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        frame = self.to_frame()
        rows = zip(frame["pc"], frame["text"], frame["share"], strict=True)
        return {
            "kind": "simulated",
            "core": self.gus.core.name,
            "exact": self.exact,
            "shares": [{"pc": int(pc), "text": text, "share": float(share)} for pc, text, share in rows],
        }
