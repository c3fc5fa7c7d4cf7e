"""Gus: simulate a trace on a core by constraint propagation (Dutilleul et al., 2024, section 3.1, Algorithm 1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, FormatError, SettingError
from perfkit.instruction_tables import InstructionTables
from perfkit.microarchitecture import TICKS_PER_CYCLE, Microarchitecture
from perfkit.simulators.cache import LEVELS, CacheState
from perfkit.simulators.machine import Lanes
from perfkit.simulators.program import Program
from perfkit.trace import StaticCode, Trace

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.simulators.causality import Causality

CHUNK = 1 << 18  # executed blocks simulated at a time: bounds the memory beside the trace


@dataclass(frozen=True)
class Gus:
    """The simulator's settings: the core, its instruction tables, and how a run begins.

    Parameters
    ----------
    core
        The machine.
    tables
        What instructions cost; None: the tables that ship for the core.
    warm
        Whether the caches hold what one earlier pass over the trace left in them (a kernel timed repeatedly).
    schedule
        How many instructions' times to keep for drawing, from `schedule_first` on.

    Examples
    --------
    >>> gus = Gus(Microarchitecture.load("skylake_x"))
    >>> result = gus.run(trace)                                         # doctest: +SKIP
    >>> result.cycles, result.ipc                                       # doctest: +SKIP
    """

    core: Microarchitecture
    tables: InstructionTables | None = None
    warm: bool = False
    schedule: int = 0
    schedule_first: int = 0

    def run(self, trace: Trace) -> GusResult:
        """Simulate a trace.

        Raises
        ------
        DataError
            The trace is empty, or of another instruction set than the core.
        """
        from perfkit.simulators.gus_engine import CAUSES, COUNT, RETIRED, new_state, simulate

        check(trace, self.core)
        if self.schedule < 0 or self.schedule_first < 0:
            raise SettingError("schedule and schedule_first are numbers of instructions, 0 or more")
        tables = self.instruction_tables()
        tables.coverage(trace)  # warns of instructions that no table knows
        code = trace.code
        program = Program.of(code, self.core, tables)
        lanes = Lanes.of(program, code, [self.core])
        caches = self.caches(trace)
        state = new_state(len(lanes.ports))
        spent = np.zeros((code.instruction_count, len(CAUSES)), np.int64)
        used = np.zeros(len(lanes.ports) + 4, np.int64)
        schedule = np.full((self.schedule, 5), -1, np.int64)
        arguments = engine_arguments(code, program, lanes)
        commit = commit_ticks(tables)
        loop: Any = simulate
        for chunk in trace.chunks(CHUNK):
            codes, distances = caches.classify(trace, chunk)
            loop(chunk.stream, codes, distances, *arguments, commit, state, spent, used, schedule, self.schedule_first)
        filled = min(max(int(state[0][COUNT]) - self.schedule_first, 0), self.schedule)
        return GusResult(
            gus=self,
            trace=trace,
            ticks=int(state[0][RETIRED]),
            executions=trace.instruction_counts(),
            program=program,
            spent=spent,
            links=dict(zip(_LINKS, used[len(lanes.ports) :].tolist(), strict=True)),
            accesses=dict(zip(LEVELS, caches.totals[:4].tolist(), strict=True)),
            schedule=schedule[:filled],
        )

    def instruction_tables(self) -> InstructionTables:
        """Return the instruction tables in use."""
        return self.tables if self.tables is not None else InstructionTables.load(self.core)

    def caches(self, trace: Trace) -> CacheState:
        """Return the caches a run begins with: empty, or warmed by one pass over the trace."""
        caches = CacheState.of(self.core)
        if self.warm:
            for chunk in trace.chunks(CHUNK):
                caches.classify(trace, chunk)
            caches.forget_stores()
        return caches


_LINKS = ("L1_bandwidth", "L2_bandwidth", "L3_bandwidth", "memory_bandwidth")


def check(trace: Trace, core: Microarchitecture) -> None:
    """Refuse a trace that cannot run on a core."""
    if trace.isa != core.isa:
        raise DataError(f"the trace is of {trace.isa} code, {core.name} runs {core.isa}")
    if not len(trace.stream):
        raise DataError("the trace has no executed instruction")


def commit_ticks(tables: InstructionTables) -> int:
    """Return ticks between two stores that leave the store buffer: the core's store throughput."""
    return round(tables.form("MOV_RM64_R64/m").inverse_throughput(tables.core) * TICKS_PER_CYCLE)


def engine_arguments(code: StaticCode, program: Program, lanes: Lanes) -> Any:
    """Return what the loops of one configuration read of the program and the machine, in their order."""
    return (
        code.block_start,
        code.operand_start,
        code.read,
        code.write,
        program.uops,
        program.vector,
        program.address_reads,
        program.data_reads,
        program.writes,
        _one(lanes.access_uses),
        _one(lanes.compute_uses),
        lanes.latency[:, 0].copy(),
        lanes.memory_latency[:, 0].copy(),
        lanes.address_latency[:, 0].copy(),
        lanes.l1[:, 0].copy(),
        lanes.forward[:, 0].copy(),
        lanes.farther[:, 0].copy(),
        lanes.links[:, 0].copy(),
        np.concatenate(
            [
                lanes.front_end,
                lanes.retire,
                lanes.rob,
                lanes.load_buffer,
                lanes.store_buffer,
                lanes.line_fill_buffers,
            ]
        ),
    )


def _one(uses: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return uses[0], uses[1], uses[2][:, 0].copy()


@dataclass(frozen=True)
class GusResult:
    """A simulated run. Everything here is simulated, nothing measured.

    Parameters
    ----------
    gus, trace
        What was run, on what.
    ticks
        Simulated time, in ticks of 1 / `TICKS_PER_CYCLE` cycles.
    executions : (n,) int64
        How often each static instruction ran.
    program
        What each static instruction costs.
    spent : (n, causes) int64
        Ticks of retirement that each instruction held up, by cause.
    links
        Ticks of use of each level's bandwidth.
    accesses
        Lines accessed, by the level that had them.
    schedule : (instructions, 5) int64
        Instruction, and the ticks of its dispatch, start, end and retirement, for the window asked for.
    """

    gus: Gus
    trace: Trace = field(repr=False)
    ticks: int
    executions: NDArray[np.int64] = field(repr=False)
    program: Program = field(repr=False)
    spent: NDArray[np.int64] = field(repr=False)
    links: Mapping[str, int]
    accesses: Mapping[str, int]
    schedule: NDArray[np.int64] = field(repr=False)

    @property
    def cycles(self) -> float:
        """Simulated cycles of the whole trace."""
        return self.ticks / TICKS_PER_CYCLE

    @property
    def instructions(self) -> int:
        """Executed instructions."""
        return int(self.executions.sum())

    @property
    def ipc(self) -> float:
        """Instructions per cycle."""
        return self.instructions / self.cycles

    @property
    def uops(self) -> int:
        """Slots taken at rename."""
        return int(self.executions @ self.program.uops)

    def cpi_stack(self) -> pd.Series:
        """Return cycles per instruction by cause: they add up to the CPI exactly.

        Time is charged to the instruction that retirement waits for, along its own life: before its dispatch (front
        end or the buffer that was full), waiting for a port or a bandwidth, its load's latency by level, its
        computation's latency; ``base`` are the slots it takes anyway.
        """
        import pandas as pd

        from perfkit.simulators.gus_engine import CAUSES

        per = self.spent.sum(axis=0) / TICKS_PER_CYCLE / self.instructions
        return pd.Series(per, index=list(CAUSES), name="cycles per instruction (simulated)")

    def resources(self) -> pd.DataFrame:
        """Return each resource's use: cycles it was busy, share of the run (occupancy)."""
        import pandas as pd

        core = self.gus.core
        uses = self.executions @ self.program.port_uses()
        busy = {name: count / core.value(name) for name, count in zip(self.program.ports, uses, strict=True)}
        busy["front_end"] = self.uops / core.value("front_end")
        busy["retire"] = self.uops / core.value("retire")
        busy |= {name: ticks / TICKS_PER_CYCLE for name, ticks in self.links.items() if name in core.resources}
        frame = pd.DataFrame({"busy_cycles": busy})
        frame["occupancy"] = frame["busy_cycles"] / self.cycles
        return frame.rename_axis("resource").sort_values("occupancy", ascending=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row a static instruction, in program order.

        Columns: pc, text (Intel syntax), att (AT&T), function, executions, uops, latency and address_latency (cycles),
        layer of the tables, stall (share of the run that retirement waited for it), cause (of most of that), and a
        column per port group with its share of that group's busy cycles.
        """
        import pandas as pd

        from perfkit.decode import att_text
        from perfkit.simulators.gus_engine import CAUSES

        code = self.trace.code
        waited = self.spent[:, 1:].sum(axis=1)
        cause = np.array(CAUSES[1:])[self.spent[:, 1:].argmax(axis=1)]
        frame = pd.DataFrame(
            {
                "pc": code.pc,
                "text": list(code.text),
                "att": att_text(code),
                "function": list(code.function),
                "executions": self.executions,
                "uops": self.program.uops,
                "latency": self.program.latency,
                "address_latency": self.program.address_latency,
                "layer": [form.source for form in self.program.forms],
                "stall": waited / self.ticks,
                "cause": np.where(waited > 0, cause, ""),
            }
        )
        uses = self.executions[:, None] * self.program.port_uses()
        total = uses.sum(axis=0)
        shares = np.divide(uses, total, out=np.zeros_like(uses), where=total > 0)
        for column in np.flatnonzero(total):
            frame[self.program.ports[column]] = shares[:, column]
        return frame

    def schedule_frame(self) -> pd.DataFrame:
        """Return the window of the schedule: instruction, text, and cycles of dispatch, start, end, retirement."""
        import pandas as pd

        from perfkit.simulators.gus_engine import SCHEDULE

        frame = pd.DataFrame(self.schedule, columns=list(SCHEDULE))
        frame[list(SCHEDULE[1:])] = frame[list(SCHEDULE[1:])] / TICKS_PER_CYCLE
        frame.insert(1, "text", [self.trace.code.text[index] for index in frame["instruction"]])
        return frame

    def causality(self) -> Causality:
        """Return each instruction's share of the causes of the run's length (section 3.1, the tainting)."""
        from perfkit.simulators.causality import causality

        return causality(self.gus, self.trace)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {
            "kind": "simulated",
            "core": self.gus.core.name,
            "cycles": self.cycles,
            "instructions": self.instructions,
            "ipc": self.ipc,
            "uops": self.uops,
            "cpi_stack": {name: float(value) for name, value in self.cpi_stack().items()},
            "occupancy": {str(name): float(value) for name, value in self.resources()["occupancy"].items()},
            "accesses": dict(self.accesses),
        }

    def save(self, path: str | Path) -> Path:
        """Write the result (arrays and summary, not the trace) as npz; `load` reads it beside the same trace."""
        path = Path(path)
        np.savez_compressed(
            path,
            summary=json.dumps({**self.to_dict(), "links": dict(self.links), "settings": self.gus.core.to_toml()}),
            ticks=self.ticks,
            spent=self.spent,
            schedule=self.schedule,
        )
        return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")

    @classmethod
    def load(cls, path: str | Path, gus: Gus, trace: Trace) -> GusResult:
        """Read what `save` wrote, for the same simulator and trace.

        Raises
        ------
        FormatError
            The file is not a Gus result, or belongs to another trace.
        """
        try:
            with np.load(path, allow_pickle=False) as data:
                summary = json.loads(str(data["summary"]))
                ticks, spent, schedule = int(data["ticks"]), data["spent"], data["schedule"]
        except (OSError, ValueError, KeyError) as error:
            raise FormatError(f"{path}: not a saved Gus result: {error}") from error
        if summary["core"] != gus.core.name or spent.shape[0] != trace.code.instruction_count:
            raise FormatError(
                f"{path}: a result of {summary['core']} with {spent.shape[0]} instructions; "
                f"{gus.core.name} with {trace.code.instruction_count} was asked for"
            )
        program = Program.of(trace.code, gus.core, gus.instruction_tables())
        return cls(
            gus=gus,
            trace=trace,
            ticks=ticks,
            executions=trace.instruction_counts(),
            program=program,
            spent=spent,
            links=summary["links"],
            accesses=summary["accesses"],
            schedule=schedule,
        )

    def with_schedule(self, first: int, instructions: int) -> GusResult:
        """Run again, keeping the schedule of a window of instructions."""
        return replace(self.gus, schedule=instructions, schedule_first=first).run(self.trace)

    def __repr__(self) -> str:
        return f"<GusResult on {self.gus.core.name}: {self.cycles:,.0f} simulated cycles, IPC {self.ipc:.2f}>"
