"""Causality: which instructions constrain the execution time (Gus, section 3.1 and Algorithm 1, tainting).

An instruction that was dispatched long ago (twice the ROB) and is still in the taint set of `dispatch` delayed what is
dispatched now: each time that happens counts for its static instruction. Shares are of all such counts and sum to one.

That is the paper's definition. It counts a chain's instructions alike, whatever their latency. `Causality.held` says
how much of the time each of them takes: the constraints are the same, followed back with the time between them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfkit.base.results import Kind, Tabled, draw
from perfkit.errors import DataError, SettingError, expect, expect_number, of_extra
from perfkit.simulators.gus import causal as fast
from perfkit.simulators.gus import exact as oracle
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.passes import Progress, windows
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import MemoryPass
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.gus import Gus


@dataclass(frozen=True, eq=False, repr=False)
class Causality(Tabled):
    """Which static instructions delay the program.

    Attributes
    ----------
    table : DataFrame
        One row per static instruction, in the order of the code: pc, function, text, executions, count: how often
        an execution of it was found to constrain a dispatch much later, and held: its share of the time that lies
        between the constraints that were followed back (NaN of the exact method).
    core : str
        Name of the core.
    cycles : float
        Simulated cycles, the same as `GusResult.cycles`.
    method : str
        ``"exact"`` (taint sets as printed) or ``"fast"`` (tight constraints followed back every 2 ROB instructions).
    """

    _rows: ClassVar[str] = "table"

    table: "pd.DataFrame"
    core: str
    cycles: float
    method: str

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each static instruction constrained a dispatch, shape (instructions,)."""
        return self.table["count"].to_numpy(dtype=np.int64)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each instruction's share of all counts; they sum to one (all zero when nothing was old enough to count)."""
        total = self.counts.sum()
        return self.counts / total if total else np.zeros(len(self.counts))

    @property
    def held(self) -> NDArray[np.float64]:
        """Each instruction's share of the time for which the dispatch was held up; they sum to one.

        An instruction has what passes between what it waits for and its own result, use or retirement: of a chain, its
        latency. Where the trace is too short for that, and of the exact method, the `shares`.
        """
        found = self.table["held"].to_numpy(dtype=np.float64)
        return found if found.sum() > 0 else self.shares

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per static instruction, the one first that holds up the dispatch longest.

        Columns: pc, function, text, executions, count, share (of the counts), held (share of the time; simulated).
        """
        table = self.table.assign(held=self.held, share=self.shares)
        return table.sort_values(["held", "share"], ascending=False, kind="stable")

    def summary(self) -> str:
        """Say which instructions are responsible for the time."""
        table = self.to_frame()
        table = table[(table["share"] > 0) | (table["held"] > 0)]
        run = f"{self.cycles:,.0f} cycles on {self.core} (simulated; {self.method} method)"
        if table.empty:
            return f"no instruction constrains a dispatch two reorder buffers later; {run}"
        lines = [f"{len(table)} of {len(self.table)} instructions are responsible for {run}"]
        top = table.head(4)
        lines += [f"{held:.0%}  {pc:#x}  {text}" for held, pc, text in top[["held", "pc", "text"]].to_numpy()]
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None, top: int = 12) -> "Axes":
        """Draw the instructions' shares as bars; return the axes."""
        return draw("gus:plot_causality", self, top=top, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class InstructionSchedule(Tabled):
    """When some executed instructions went through the core: one row each, times in cycles (simulated).

    Attributes
    ----------
    table : DataFrame
        Columns: n (number of the executed instruction), instruction (its static index), text, dispatch, start,
        operate (when the operation itself begins: what lies between is waiting for memory, or for a store whose value
        is forwarded), end, retire, parent (the executed instruction that was last to be waited for, or -1).
    core : str
        Name of the core.
    """

    _rows: ClassVar[str] = "table"

    table: "pd.DataFrame"
    core: str

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    def operating(self, latency: NDArray[np.float64]) -> "InstructionSchedule":
        """Return the schedule with a column ``operate``, given each static instruction's latency in cycles."""
        how = "give the latencies of the program's instructions"
        expect(getattr(latency, "ndim", 0) == 1, latency, "InstructionSchedule.operating", "an array of cycles", how)
        end, start = self.table["end"].to_numpy(), self.table["start"].to_numpy()
        operate = np.maximum(start, end - latency[self.table["instruction"]])
        table = self.table.drop(columns="operate", errors="ignore")
        table.insert(table.columns.get_loc("end"), "operate", operate)
        return replace(self, table=table)

    def to_frame(self) -> "pd.DataFrame":
        """Return a copy of the table."""
        return self.table.copy()

    def summary(self) -> str:
        """Say how long the instructions took together, and which of them waited longest."""
        table = self.table
        waits = table["start"] - table["dispatch"]
        worst = waits.to_numpy().argmax()
        cycles = table["retire"].iloc[-1] - table["dispatch"].iloc[0]
        return "\n".join(
            [
                (
                    f"instructions {table['n'].iloc[0]:,} to {table['n'].iloc[-1]:,} took {cycles:,.2f} cycles "
                    f"from dispatch to retirement on {self.core} (simulated)"
                ),
                (
                    f"number {table['n'].iloc[worst]:,} waited longest to start, {waits.iloc[worst]:,.2f} cycles: "
                    f"{table['text'].iloc[worst]}"
                ),
            ]
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw each instruction's waiting, execution and time to retirement; return the axes."""
        return draw("gus:plot_instruction_schedule", self, ax=ax)


def causality(
    gus: "Gus",
    trace: Trace,
    *,
    exact: bool = False,
    shorter: NDArray[np.bool_] | None = None,
    progress: Progress | None = None,
) -> Causality:
    """Return which instructions constrain the execution time of ``trace`` on ``gus.core``.

    Where ``shorter`` says so, static instructions take half of their latency: what constrains it then.
    """
    pd = of_extra("pandas")

    counts = np.zeros(trace.code.instruction_count, dtype=np.int64)
    held = np.zeros(trace.code.instruction_count)
    rob = int(gus.core.resource("rob").value)
    if exact:
        ticks = _exact(gus, trace, counts, rob, progress)
    else:
        ticks = _fast(gus, trace, counts, held, fast.seen(-1, 0), progress, shorter=shorter)
    code = trace.code
    table = pd.DataFrame(
        {
            "pc": code.pc,
            "function": list(code.function),
            "text": list(code.text),
            "executions": trace.instruction_counts(),
            "count": counts,
            "held": np.full(len(held), np.nan) if exact else held / max(held.sum(), 1.0),
        }
    )
    return Causality(table, gus.core.name, ticks / timing.TICKS, "exact" if exact else "fast")


def schedule(gus: "Gus", trace: Trace, first: int, count: int) -> InstructionSchedule:
    """Return the times of ``count`` executed instructions from number ``first`` (from 0)."""
    pd = of_extra("pandas")

    for name, value in (("first", first), ("count", count)):
        expect_number(value, "a schedule", name, "number executed instructions from 0", whole=True)
    if first < 0 or count < 1:
        raise SettingError(f"a schedule needs first >= 0 and count >= 1; found {first} and {count}")
    if first >= trace.instruction_count:
        raise DataError(f"the trace ends after {trace.instruction_count:,} instructions; there is none at {first:,}")
    part = trace.head(first + count + 4096)
    view = fast.seen(first, count)
    # Caches and predictor are as warm as the whole trace makes them, whatever part of it is looked at.
    memory = gus.memory(trace, gus.program(trace))
    none = np.zeros(part.code.instruction_count, dtype=np.int64)
    _fast(gus, part, none, none.astype(np.float64), view, None, memory)
    found = np.flatnonzero(view.instruction >= 0)
    text = trace.code.text
    return InstructionSchedule(
        pd.DataFrame(
            {
                "n": first + found,
                "instruction": view.instruction[found],
                "text": [text[k] for k in view.instruction[found]],
                **{name: getattr(view, name)[found] / timing.TICKS for name in ("dispatch", "start", "end", "retire")},
                "parent": view.parent[found],
            }
        ),
        gus.core.name,
    )


def _fast(
    gus: "Gus",
    trace: Trace,
    counts: NDArray[np.int64],
    held: NDArray[np.float64],
    view: fast.Seen,
    progress: Progress | None,
    memory: MemoryPass | None = None,
    shorter: NDArray[np.bool_] | None = None,
) -> int:
    def begin(now: timing.State) -> fast.Ring:
        return fast.ring(now, 2 * int(gus.core.resource("rob").value), counts, held, view)

    def grow(ring: fast.Ring, lines: int) -> fast.Ring:
        return ring._replace(line=_longer(ring.line, lines))

    return _tainted(gus, trace, begin, grow, progress, memory, shorter)


def _exact(gus: "Gus", trace: Trace, counts: NDArray[np.int64], rob: int, progress: Progress | None) -> int:
    def begin(now: timing.State) -> oracle.Taints:
        return oracle.taints(now, _power(2 * rob + 1), 2 * rob, counts)

    def grow(taints: oracle.Taints, lines: int) -> oracle.Taints:
        return taints._replace(line=oracle.Sets(*(_longer(a, lines) for a in taints.line)))

    return _tainted(gus, trace, begin, grow, progress)


def _tainted(
    gus: "Gus",
    trace: Trace,
    begin: Any,
    grow: Any,
    progress: Progress | None,
    memory: MemoryPass | None = None,
    shorter: NDArray[np.bool_] | None = None,
) -> int:
    """Simulate with ``begin(state)`` as taint, which ``grow`` gives room for so many lines of memory."""
    program = gus.program(trace)
    memory = gus.memory(trace, program) if memory is None else memory
    arrays, cost, now, lines = timing.begin(program, (gus.core,))
    if shorter is not None:
        some = {name: getattr(cost, name) for name in ("latency", "value", "load")}
        cost = cost._replace(**{k: np.where(shorter & (each > 0), each // 2, each) for k, each in some.items()})
    taint = begin(now)
    for window in windows(trace, memory, progress):
        lines = timing.room(lines, memory.page_count)
        if len(lines.arrival) > len(taint.line if isinstance(taint, fast.Ring) else taint.line.stamp):
            taint = grow(taint, len(lines.arrival))
        simulate(window, arrays, cost, now, lines, None, taint)
    return int(now.now[2])


def _longer(old: NDArray[Any], length: int) -> NDArray[Any]:
    """Return a longer array; what is new is written before it is read."""
    new = np.zeros((length, *old.shape[1:]), dtype=old.dtype)
    new[: len(old)] = old
    return new


def _power(n: int) -> int:
    """Return the power of two at or above n, and at least 64."""
    return max(64, 1 << (n - 1).bit_length())
