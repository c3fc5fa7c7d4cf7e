"""`SimulatedPmu`: interval samples of named events from the kit's own simulator, with the truth beside them.

A machine without counters (most cloud VMs, Binder) cannot feed SPIRE or a CPI stack. The simulator can: it runs real
traced kernels and reads its counters every so often, as ``perf stat -I`` does. What no real machine gives comes with
it: the exact CPI stack, by accounting, and the true bottleneck, by sensitivity. So the methods that infer can be
scored (`perfkit.scoring`). All of it is simulated, and says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import DataError, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.samples.table import Samples
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.pmu.events import EventTable, Reading, describe
from perfkit.simulators.pmu.stepping import Stepping
from perfkit.simulators.pmu.truth import Truth, truth_of
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace

FIXED = ("cycles", "instructions")  # counters of their own, as on real PMUs: never multiplexed, never noisy
_STEPS = 32  # simulation steps per interval, at a steady CPI: how finely its end is found


@dataclass(frozen=True)
class SimulatedPmu:
    """A performance monitoring unit of a simulated core.

    Parameters
    ----------
    core : Microarchitecture or str
        The machine, or the name of a bundled one.
    interval : int, optional
        Length of an interval in ``unit``. By default the length that cuts each run into ``intervals``.
    unit : "cycles" or "instructions"
        What the length of an interval counts. ``perf stat -I`` samples by time, so cycles are the default.
    intervals : int
        How many intervals a run is cut into where ``interval`` is not given (the last may be shorter).
    warm : bool or str
        What each trace goes through before it is counted, as `perfkit.Gus` takes it.
    tables : InstructionTables, optional
        What instructions cost; the core's bundled table by default.
    counters : int, optional
        Count only so many events at a time besides cycles and instructions, in turns, and scale up: multiplexing.
        By default every event is counted all the time.
    rotations : int
        How often the counters go round all events in an interval, where ``counters`` is given.
    noise : float
        Relative standard deviation of a random error of every count but cycles and instructions; 0 is exact.
    seed : int
        Of the noise and of which events share their turn.

    Examples
    --------
    >>> import perfkit as pk
    >>> trace = pk.datasets.load("traces/store-forward")
    >>> samples = pk.SimulatedPmu("skylake_x", intervals=10).collect(trace)
    >>> samples.kind, samples.n_intervals
    ('simulated', 10)
    """

    core: Microarchitecture | str
    interval: int | None = None
    unit: Literal["cycles", "instructions"] = "cycles"
    intervals: int = 40
    warm: bool | str = False
    tables: InstructionTables | None = None
    counters: int | None = None
    rotations: int = 4
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.core, str):
            object.__setattr__(self, "core", Microarchitecture.load(self.core))
        if self.unit not in ("cycles", "instructions"):
            raise SettingError(f"an interval's unit is cycles or instructions; found {self.unit!r}")
        for name in ("interval", "counters"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise SettingError(f"{name} is a number of at least 1; found {value!r}")
        for name in ("intervals", "rotations"):
            if not getattr(self, name) >= 1:
                raise SettingError(f"{name} is a number of at least 1; found {getattr(self, name)!r}")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise SettingError(f"noise is a relative standard deviation of at least 0; found {self.noise!r}")

    @property
    def gus(self) -> Gus:
        """The simulator that the counters sit in."""
        assert isinstance(self.core, Microarchitecture)
        return Gus(self.core, self.tables, self.warm)

    def events(self) -> pd.DataFrame:
        """Return what can be counted on this core: one row per event (index), its unit and its meaning."""
        rows = describe(tuple(self.gus.core.ports))
        return pd.DataFrame.from_dict(rows, orient="index", columns=["unit", "meaning"]).rename_axis("event")

    def collect(self, what: Any) -> Samples:
        """Run traces on the simulated core and return their samples.

        Parameters
        ----------
        what : Trace, kernel, sequence of them, or mapping of name to them
            What runs; a kernel is anything whose ``trace()`` returns a trace. The names of a mapping become those of
            the runs; otherwise a trace's own name does.

        Returns
        -------
        Samples
            Kind ``simulated``; time in cycles, work in instructions, one run per trace. ``seconds`` are cycles at the
            core's nominal clock. The table of runs holds core, settings and the trace's provenance.

        Raises
        ------
        DataError
            There is no trace, or one holds no executed instruction.
        """
        return Samples.concat(self._samples(name, trace) for name, trace in named_traces(what))

    def truth(self, what: Any, *, weight: float = 2.0) -> Truth:
        """Return what is known of the same traces: exact CPI stacks, and sensitivities to every resource.

        Parameters
        ----------
        what
            As for `collect`; runs get the same names.
        weight : float
            The factor on each resource's capacity whose speedup is the sensitivity.
        """
        return truth_of(self.gus, named_traces(what), weight)

    # ---------------------------------------------------------------- one run

    def run_counts(self, trace: Trace) -> tuple[dict[str, float], dict[str, float]]:
        """Return a whole run's exact counts by event, and those that ``counters`` and ``noise`` would give."""
        table, readings, turn, slices = self._readings(trace, self._interval(trace))
        counts, _ = self._multiplexed(table, readings, turn, slices)
        seen = np.nanmean(self._noisy(table, counts), axis=0) * len(counts)
        exact = readings.sum(axis=0)
        return dict(zip(table.names, exact.tolist(), strict=True)), dict(zip(table.names, seen.tolist(), strict=True))

    def _readings(
        self, trace: Trace, interval: float
    ) -> tuple[EventTable, NDArray[np.float64], NDArray[np.int64], int]:
        """Return the events, the counts of each stretch, the number of each, and stretches per interval."""
        stepping = Stepping(self.gus, trace)
        table = EventTable.of(stepping)
        slices = self._slices(len(table.names))
        stretches = list(_read(stepping, table, interval / slices, self.unit))
        turn = np.array([number for number, _ in stretches])
        return table, table.with_cycles(np.array([counts for _, counts in stretches]), stepping), turn, slices

    def _samples(self, name: str, trace: Trace) -> Samples:
        interval = self._interval(trace)
        table, readings, turn, slices = self._readings(trace, interval)
        counts, running = self._multiplexed(table, readings, turn, slices)
        counts = self._noisy(table, counts)
        samples = _as_samples(name, table.names, counts, running, self._runs(name, trace, interval))
        return replace(samples, notes=self._notes(name, samples))

    def _notes(self, name: str, samples: Samples) -> tuple[str, ...]:
        """Tell of intervals so short that the time of an event falls into another interval than its count."""
        typical, latency = float(samples.intervals()["time"].median()), self.gus.core.value("memory_latency")
        if typical >= latency:
            return ()
        told = (
            f"{name}: intervals of {typical:.0f} cycles are shorter than an access to memory ({latency:.0f}): "
            "overlapping misses retire in a burst, and some intervals show many of them at full throughput. Take fewer."
        )
        return (told,)

    def _interval(self, trace: Trace) -> float:
        if self.interval is not None:
            return float(self.interval)
        whole = self.gus.run(trace)
        total = whole.cycles if self.unit == "cycles" else whole.instructions
        return max(1.0, total / self.intervals)

    def _slices(self, events: int) -> int:
        """Return how many turns an interval has: one without multiplexing."""
        groups = self._groups(events)
        return 1 if groups == 1 else groups * self.rotations

    def _groups(self, events: int) -> int:
        """Return how many groups of events take turns."""
        programmable = events - len(FIXED)
        return 1 if self.counters is None else -(-programmable // self.counters)

    def _multiplexed(
        self, table: EventTable, readings: NDArray[np.float64], turn: NDArray[np.int64], slices: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return counts and running shares, (intervals, events): exact sums, or what turns let the counters see."""
        interval = np.unique(turn // slices, return_inverse=True)[1]
        n, k = int(interval.max()) + 1, len(table.names)
        exact = np.zeros((n, k))
        np.add.at(exact, interval, readings)
        groups = self._groups(k)
        if groups == 1:
            return exact, np.ones((n, k))
        programmable = [e for e in range(k) if table.names[e] not in FIXED]
        order = np.random.default_rng([self.seed, 1]).permutation(programmable)
        counts, running = exact.copy(), np.ones((n, k))
        cycles = readings[:, table.names.index("cycles")]
        for g in range(groups):
            mine = order[g::groups]
            on = turn % groups == g
            seen, time = np.zeros((n, len(mine))), np.zeros(n)
            np.add.at(seen, interval[on], readings[np.ix_(on, mine)])
            np.add.at(time, interval[on], cycles[on])
            share = time / np.bincount(interval, cycles, minlength=n)
            with np.errstate(divide="ignore", invalid="ignore"):
                counts[:, mine] = np.where(share[:, None] > 0, seen / share[:, None], np.nan)
            running[:, mine] = share[:, None]
        return counts, running

    def _noisy(self, table: EventTable, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.noise:
            return counts
        error = np.random.default_rng([self.seed, 2]).normal(1.0, self.noise, counts.shape)
        error[:, [table.names.index(e) for e in FIXED]] = 1.0
        return np.asarray(counts * np.clip(error, 0.0, None))

    def _runs(self, name: str, trace: Trace, interval: float) -> pd.DataFrame:
        core = self.gus.core
        p = trace.provenance
        settings = {
            "core": core.name,
            "weights": dict(core.weights),
            "interval": interval,
            "unit": self.unit,
            "warm": self.warm,
            "counters": self.counters,
            "rotations": self.rotations,
            "noise": self.noise,
            "seed": self.seed,
            "hertz": 1e9 * float(core.frequency.value),
        }
        origin = {
            "workload": p.workload,
            "function": p.function,
            "backend": p.backend,
            "compiler": p.compiler,
            "flags": p.flags,
            "instructions": trace.instruction_count,
            "complete": p.complete,
        }
        row = {
            "workload": p.workload or name,
            "host": f"simulated {core.name}",
            "command": p.command or f"{p.workload}:{p.function}".strip(":"),
            "parameters": json.dumps({"pmu": settings, "trace": origin}),
            "source": "perfkit SimulatedPmu",
            "kind": "simulated",
        }
        return pd.DataFrame(row, index=pd.Index([name], name="run"))


# ------------------------------------------------------------------ what is run


def named_traces(what: Any) -> Iterator[tuple[str, Trace]]:
    """Yield name and trace of everything that `SimulatedPmu.collect` takes; kernels are traced one at a time."""
    if isinstance(what, Mapping):
        pairs = [(str(name), one) for name, one in what.items()]
    else:
        several = what if isinstance(what, Sequence) and not isinstance(what, str) else [what]
        pairs = [("", one) for one in several]
    if not pairs:
        raise DataError("no trace to run: give a trace, a kernel, a sequence or a mapping of them")
    taken: set[str] = set()
    for name, one in pairs:
        trace = one if isinstance(one, Trace) else one.trace() if hasattr(one, "trace") else None
        if not isinstance(trace, Trace):
            raise DataError(
                f"expected traces, or kernels that can be traced; found {type(one).__name__}"
                + (f" under the name {name!r}" if name else "")
                + ". Load one with pk.Trace.load or trace one with pk.collectors.corpus_kernel(name).trace()."
            )
        if not len(trace.stream):
            raise DataError(f"the trace {name or trace!r} holds no executed instruction; there is nothing to count")
        p = trace.provenance
        yield _free(name or p.workload or p.function or "run", taken), trace


def _free(name: str, taken: set[str]) -> str:
    """Return a name not yet taken, numbered where need be, and take it."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    taken.add(free)
    return free


# ------------------------------------------------------------------ helpers


def _read(stepping: Stepping, table: EventTable, length: float, unit: str) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield number and counts of consecutive stretches of a run, each about ``length`` long in ``unit``.

    A stretch ends with the step in which its last cycle (or instruction) falls; a step is a 32nd of the stretch at the
    CPI of the step before. The ends aimed at are multiples of ``length``, so that errors do not add up; a stall that
    lasts longer than a stretch leaves its number out.
    """
    number, cpi = 0, 1.0
    while not stepping.done:
        goal = (number + 1) * length
        before = Reading.of(stepping)
        chunks: list[TraceChunk] = []
        while _position(stepping, unit) < goal:
            if stepping.done:
                break
            left = goal - _position(stepping, unit)
            step = left if unit == "instructions" else min(left, length / _STEPS) / cpi
            most = length if unit == "instructions" else length / 8
            cycles, instructions = stepping.cycles, stepping.instructions
            chunks.append(stepping.step(max(1, int(min(step, most)))))
            cpi = max(0.05, (stepping.cycles - cycles) / (stepping.instructions - instructions))
        stepping.cycle_counts.end_stretch(stepping.ticks)
        yield number, table.counts(stepping, chunks, before)
        number = max(number + 1, int(_position(stepping, unit) / length))


def _position(stepping: Stepping, unit: str) -> float:
    return stepping.cycles if unit == "cycles" else float(stepping.instructions)


def _as_samples(
    name: str,
    events: Sequence[str],
    counts: NDArray[np.float64],
    running: NDArray[np.float64],
    runs: pd.DataFrame,
) -> Samples:
    n, k = counts.shape
    cycles, work = counts[:, events.index("cycles")], counts[:, events.index("instructions")]
    hertz = json.loads(runs["parameters"].iloc[0])["pmu"]["hertz"]
    seconds = cycles / hertz
    long = [e for e in range(k) if events[e] not in FIXED]
    m = len(long)
    table = pd.DataFrame(
        {
            "run": name,
            "place": "",
            "interval": np.repeat(np.arange(n), m),
            "at": np.repeat(np.cumsum(seconds), m),
            "seconds": np.repeat(seconds, m),
            "event": np.tile([events[e] for e in long], n),
            "time": np.repeat(cycles, m),
            "work": np.repeat(work, m),
            "count": counts[:, long].ravel(),
            "running": running[:, long].ravel(),
        }
    )
    return Samples.from_frame(table, runs=runs, kind="simulated", missing="keep")
