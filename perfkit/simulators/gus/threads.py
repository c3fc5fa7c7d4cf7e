"""Several threads, each on a core of its own: what they wait for, and what they take from each other (simulated).

The model, on top of Gus's for one core:

- L1 and L2 are a thread's own. The last level is divided: each thread has an equal share of its ways.
- Memory's bandwidth is shared: a thread that asks for less than an equal part gets what it asks for, the others divide
  the rest. What each asks for is what it would take at the speed that it has alone.
- A line that another thread has written since one used it has to come from there, however recently it was used: a
  transfer. Accesses are put in order by the simulated time in each thread, all threads beginning each phase together.
  Who has a line keeps it for as long as a transfer takes: within twice that time a thread waits once for each line.
- Threads wait for each other at the end of a phase, where phases are known.

Not modelled: transfers that queue behind each other, different distances between cores, ownership of lines that are
only read and then written by one, locks, and the threads' own waiting loops.
"""

import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import check_fields, existing, json_object, member, read_archive, reading, write_archive
from perfkit.base.results import Kind, Summarised, draw
from perfkit.errors import DataError, FormatError, SettingError, expect, of_extra
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.gus import Gus, GusResult, top_cause
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import (
    BLOCKED,
    DISTANCE_SHIFT,
    FORWARDED,
    LEVEL,
    RENAMED,
    MemoryPass,
    Window,
)
from perfkit.trace.code import TraceChunk
from perfkit.trace.sharing import SERIAL, contended
from perfkit.trace.threads import ThreadTraces
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MAGIC, VERSION = "perfkit-thread-results", 1
_WHAT = "perfkit's results of threads"
_PIECE = 1024  # executed blocks whose times are told apart
_ROUNDS = 8  # of transfers and times that depend on each other
_SETTLED = 0.01
_LEAST = 0.01  # a smaller speedup is no bottleneck


@dataclass(frozen=True, eq=False, repr=False)
class ThreadsResult(Summarised, Mapping[int, GusResult]):
    """A mapping from threads to how each ran on a core of its own, beside the others.

    Attributes
    ----------
    results : tuple of GusResult
        Each thread's account; its core has the share of last-level cache and bandwidth that the thread got.
    calls, bodies
        As in `ThreadTraces`.
    phases : (phases,) int64
        The numbers of the phases; -1 for each stretch in which one thread runs alone.
    phase_cycles : (phases, threads) float
        Cycles that each thread takes in each phase.
    alone : (threads,) float
        Cycles that each would take with the last level and the memory for itself, and no line taken from it.
    transfers : (threads,) int64
        Accesses that waited for a line that another thread had written.
    memory_bandwidth : float
        Bytes per cycle that all threads together can get from memory.

    Examples
    --------
    >>> import numpy as np
    >>> triad = pk.datasets.load("traces/triad")
    >>> once = np.array([[0, 0]])  # one call, in the first phase
    >>> traces = pk.ThreadTraces((triad, triad), (once, once))  # the same addresses twice
    >>> result = pk.run_threads(pk.Gus("zen4"), traces)
    >>> len(result), bool((result.alone <= result.cycles).all())
    (2, True)
    """

    results: tuple[GusResult, ...]
    calls: tuple[NDArray[np.int64], ...]
    bodies: tuple[str, ...]
    phases: NDArray[np.int64]
    phase_cycles: NDArray[np.float64]
    alone: NDArray[np.float64]
    transfers: NDArray[np.int64]
    memory_bandwidth: float

    def __post_init__(self) -> None:
        n = len(self.results)
        if not n or len(self.calls) != n or self.alone.shape != (n,) or self.transfers.shape != (n,):
            raise DataError(f"results, calls, alone and transfers of the same threads expected; found {n} results")
        if self.phase_cycles.shape != (len(self.phases), n):
            raise DataError(f"cycles of {len(self.phases)} phases and {n} threads expected")

    def __getitem__(self, thread: int) -> GusResult:
        if not isinstance(thread, Integral) or thread not in range(len(self.results)):
            raise KeyError(f"no thread {thread}: there are 0 to {len(self.results) - 1}")
        return self.results[thread]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.results)))

    def __len__(self) -> int:
        return len(self.results)

    @property
    def kind(self) -> Kind:
        """``"simulated"``: no figure of this result was measured."""
        return "simulated"

    @cached_property
    def traces(self) -> ThreadTraces:
        """What was simulated."""
        return ThreadTraces(tuple(result.trace for result in self.results), self.calls, self.bodies)

    @property
    def cycles(self) -> float:
        """Cycles until the last thread is done: of each phase, those of its slowest thread (simulated)."""
        return float(self.phase_cycles.max(axis=1).sum())

    @property
    def thread_cycles(self) -> NDArray[np.float64]:
        """Cycles in which each thread works, shape (threads,) (simulated)."""
        return np.asarray(self.phase_cycles.sum(axis=0))

    @property
    def waits(self) -> NDArray[np.float64]:
        """Cycles in which each thread waits for others, shape (threads,) (simulated)."""
        return self.cycles - self.thread_cycles

    @property
    def imbalance(self) -> float:
        """The slowest thread's cycles over the mean, phase by phase, without those in which one runs alone."""
        rows = self.phase_cycles[self.phases != SERIAL]
        return float(rows.max(axis=1).sum() / rows.mean(axis=1).sum()) if rows.sum() else 1.0

    @property
    def critical(self) -> int:
        """The thread that the others wait for in most of the time."""
        slowest = self.phase_cycles.argmax(axis=1)
        return int(np.bincount(slowest, self.phase_cycles.max(axis=1), minlength=len(self)).argmax())

    @cached_property
    def bottlenecks(self) -> tuple[str, ...]:
        """Of each thread the resource that would help it most, made twice as good; ``""`` where none brings 1 %.

        Each thread is asked with its share of last level and bandwidth; the lines that threads take from each other are
        no resource of a core and stay out of it (`transfers` counts them).
        """
        found = []
        for result in self.results:
            ranked = result.sensitivity((2.0,))
            found.append(ranked.bottleneck if float(ranked.speedup[:, -1].max()) >= _LEAST else "")
        return tuple(found)

    @property
    def memory_bytes(self) -> NDArray[np.int64]:
        """Bytes that each thread brings from memory, shape (threads,) (simulated)."""
        return np.array([_memory_bytes(result) for result in self.results])

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per thread (simulated).

        Columns: thread, instructions, cycles, ipc, waits (cycles), critical, alone (cycles without the others),
        transfers, memory_bytes, bandwidth (bytes per cycle that it could get), cause (of most of its cycles).
        """
        pd = of_extra("pandas")

        return pd.DataFrame(
            {
                "thread": list(self),
                "instructions": [result.instructions for result in self.results],
                "cycles": self.thread_cycles,
                "ipc": [result.ipc for result in self.results],
                "waits": self.waits,
                "critical": [k == self.critical for k in self],
                "alone": self.alone,
                "transfers": self.transfers,
                "memory_bytes": self.memory_bytes,
                "bandwidth": [_bandwidth(result.settings.core) for result in self.results],
                "cause": [str(result.cpi_stack().index[0]) for result in self.results],
            }
        )

    def summary(self) -> str:
        """Say how long the threads take, how unevenly, and what they take from each other."""
        origin, core = self.results[0].trace.provenance, self.results[0].settings.core
        name = origin.title
        used = self.memory_bytes.sum() / self.cycles
        longest = self.results[self.critical]
        waiting = self.waits.sum() / (self.cycles * len(self))
        lines = [
            (
                f"{self.cycles:,.0f} cycles for {len(self)} threads of {name}, each on a {core.name} of its own "
                f"(simulated): imbalance {self.imbalance:.2f} (slowest over mean)"
            ),
            (
                f"the others wait for thread {self.critical}, {waiting:.0%} of all threads' cycles; "
                f"{top_cause(longest)}"
                if waiting >= 0.005
                else f"no thread waits for another; of the slowest, {top_cause(longest)}"
            ),
            (
                f"memory: {used:.2f} of {self.memory_bandwidth:g} bytes per cycle that all get together "
                f"({used / self.memory_bandwidth:.0%}); {self.transfers.sum():,} accesses waited for a line that "
                f"another thread had written; beside the others the slowest takes {self.slowdown:.2f} times as long as "
                "alone"
            ),
        ]
        if self.transfers.sum() and self.slowdown >= 1.05:
            lines.append(
                "lines that threads take from each other cost more on machines than here (docs/tracing.md): "
                "shared_lines() of the traces names them"
            )
        if not self.traces.complete:
            lines.append("a trace ends early, so that threads cannot be compared")
        elif not self.traces.phased:
            lines.append("barriers and joins are not known: all is taken for one phase")
        return "\n".join(lines)

    @property
    def slowdown(self) -> float:
        """Cycles of the slowest thread beside the others, over those of the slowest alone (simulated)."""
        return float(self.thread_cycles.max() / self.alone.max())

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw each thread's cycles of work and of waiting as bars; return the axes."""
        return draw("threads:plot_imbalance", self, ax=ax)

    def save(self, path: str | Path) -> Path:
        """Write all to one file, an archive of the threads' results."""
        header = {
            "format": MAGIC, "version": VERSION, "threads": len(self), "bodies": list(self.bodies),
            "memory_bandwidth": self.memory_bandwidth,
        }  # fmt: skip
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"{number:02}.calls": calls for number, calls in enumerate(self.calls)}
        results = {f"{number:02}.gus": result for number, result in enumerate(self.results)}
        return write_archive(path, ("threads.json", header), arrays, results, ".threads")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, _WHAT), zipfile.ZipFile(path) as archive:
            header = json_object(member(archive, "threads.json", path, _WHAT), path, _WHAT)
            if header.get("format") != MAGIC or header.get("version") != VERSION:
                raise FormatError(f"{path}: not {_WHAT}, of version {VERSION} (its header does not say so)")
            check_fields(header, {"threads": int, "bodies": list, "memory_bandwidth": float}, path, _WHAT)
            numbers = range(header["threads"])
            arrays, results = read_archive(
                archive, path, _WHAT,
                dict(_ARRAYS) | {f"{k:02}.calls": (np.int64, 2) for k in numbers},
                {f"{k:02}.gus": GusResult.load for k in numbers},
            )  # fmt: skip
            calls = tuple(arrays.pop(f"{k:02}.calls") for k in numbers)
            bodies = tuple(str(name) for name in header["bodies"])
            bandwidth = float(header["memory_bandwidth"])
            try:
                return cls(tuple(results.values()), calls, bodies, memory_bandwidth=bandwidth, **arrays)
            except DataError as error:
                raise FormatError(f"{path}: its parts do not fit together ({error})") from error


_ARRAYS = {
    "phases": (np.int64, 1),
    "phase_cycles": (np.float64, 2),
    "alone": (np.float64, 1),
    "transfers": (np.int64, 1),
}


@dataclass(frozen=True)
class _Run:
    """One thread simulated: its account, and when each of its pieces ended, in ticks."""

    result: GusResult
    ends: NDArray[np.int64]


def run_threads(
    gus: Gus, traces: ThreadTraces, *, memory_bandwidth: float | None = None, transfer: float | None = None
) -> ThreadsResult:
    """Simulate each thread on a core of its own, with the last level of cache and memory shared.

    Parameters
    ----------
    gus : Gus
        The core of each.
    traces : ThreadTraces
        What the threads ran (`perfkit.trace_threads`).
    memory_bandwidth : float, optional
        Bytes per cycle that all threads together can get from memory; by default what the core file says that one core
        can get, the least that it may be.
    transfer : float, optional
        Cycles that a line takes from core to core; by default twice the latency of the last level of cache (there and
        on to the other core): an estimate.

    Raises
    ------
    SettingError
        A figure is not above 0.

    Examples
    --------
    >>> result = pk.run_threads(pk.Gus("zen4"), traces)  # doctest: +SKIP
    >>> result.imbalance, result.critical                # doctest: +SKIP
    """
    expect(isinstance(gus, Gus), gus, "run_threads", "the settings of Gus", "make them with perfkit.Gus(core)")
    how = "trace a program with perfkit.trace_threads, or load what it saved with perfkit.ThreadTraces.load"
    expect(isinstance(traces, ThreadTraces), traces, "run_threads", "ThreadTraces", how)
    one = _bandwidth(gus.core)
    total = one if memory_bandwidth is None else float(memory_bandwidth)
    last = gus.core.caches[-1].name
    cycles = 2 * gus.core.value(f"{last}_latency") if transfer is None else float(transfer)
    for name, value in (("memory's bandwidth in bytes per cycle", total), ("a transfer's cycles", cycles)):
        if not 0 < value < np.inf:
            raise SettingError(f"{name}: a number above 0 expected; found {value}")
    pieces = [_pieces(traces.phases(k)) for k in traces]
    lines = _Lines(traces, pieces, gus.core.caches[0].line)
    alone = [_run(gus, traces[k], pieces[k]) for k in traces]
    shared = replace(gus, core=_sharing(gus.core, len(traces)))
    charged: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * len(traces)
    runs, share = alone, np.zeros(0)
    for _ in range(_ROUNDS if len(traces) > 1 else 0):
        before, had, runs_before = share, charged, runs
        # At the speed that each has alone: a thread that is given less bandwidth takes less, and wants no less.
        wanted = np.array([_memory_bytes(b.result) / a.result.cycles for a, b in zip(alone, runs, strict=True)])
        share, charged = _fair(wanted, total, one), lines.transfers(runs, cycles)
        if np.array_equal(share, before) and all(map(np.array_equal, charged, had)):
            break
        cores = [
            shared.core.scaled("memory_bandwidth", part / one) if part < one else shared.core for part in share.tolist()
        ]
        late = [_Transfers(each, cycles, int(last[1]) - 1) for each in charged]
        runs = [_run(replace(shared, core=cores[k]), traces[k], pieces[k], late[k]) for k in traces]
        changes = [abs(new.result.ticks / old.result.ticks - 1) for new, old in zip(runs, runs_before, strict=True)]
        if len(before) and max(changes) <= _SETTLED:
            break
    keys, ticks = _by_phase(runs, pieces)
    numbers = np.array([SERIAL if by_itself else phase for phase, by_itself in keys], dtype=np.int64)
    return ThreadsResult(
        tuple(run.result for run in runs),
        traces.calls,
        traces.bodies,
        numbers,
        ticks / timing.TICKS,
        np.array([run.result.cycles for run in alone]),
        np.array([len(each) for each in charged]),
        total,
    )


def _pieces(phases: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut a thread's blocks where phases end and after so many: rows of phase, first block, end."""
    cuts = np.flatnonzero(np.diff(phases)) + 1
    ends = np.unique(np.concatenate([cuts, np.arange(0, len(phases), _PIECE), [0, len(phases)]]))
    return np.stack([phases[ends[:-1]], ends[:-1], ends[1:]], axis=1)


def _run(gus: Gus, trace: Trace, pieces: NDArray[np.int64], transfers: "_Transfers | None" = None) -> _Run:
    """Simulate a thread, some of whose accesses wait for a line of another's."""
    if not trace.blocks_executed:
        raise DataError("a thread's trace holds no executed instruction; there is nothing to simulate")
    program = gus.program(trace)
    memory = gus.memory(trace, program)
    arrays, cost, now, lines = timing.begin(program, (gus.core,))
    spent = np.zeros((len(program.slots), timing.PORTS + len(program.groups)), dtype=np.int64)
    ends = []
    behind = np.concatenate(([0], np.cumsum(np.diff(trace.code.block_operand_start)[trace.stream])))
    for chunk, (_, first, end) in zip(_chunks(trace, pieces), pieces.tolist(), strict=True):
        window = memory.window(chunk)
        lines = timing.room(lines, memory.page_count)
        if transfers is None:
            simulate(window, arrays, cost, now, lines, spent, None)
        else:
            for part, at in transfers.cut(window, behind[first : end + 1]):
                transfers.charge(part, at, memory, now, lines)
                simulate(part, arrays, cost, now, lines, spent, None)
        ends.append(int(now.now[2]))
    result = GusResult(
        settings=gus, trace=trace, program=program, ticks=int(now.now[2]), spent=spent, served=memory.counts(),
        branches=memory.branches,
    )  # fmt: skip
    return _Run(result, np.array(ends))


@dataclass(frozen=True)
class _Transfers:
    """A thread's accesses that wait for a line of another's, and for how many cycles.

    The recurrence knows when a line arrives that is on its way, and is told so where a window begins with the access.
    """

    positions: NDArray[np.int64]
    cycles: float
    level: int

    @cached_property
    def _listed(self) -> list[int]:
        return cast("list[int]", self.positions.tolist())

    def cut(self, window: Window, behind: NDArray[np.int64]) -> Iterator[tuple[Window, int]]:
        """Yield a window's parts, cut at the blocks of these accesses, each with the number of its first access.

        Parameters
        ----------
        window : Window
            Some blocks of the thread.
        behind : (blocks + 1,) int
            How many accesses of the thread come before each of the blocks, and before the one behind them.
        """
        low, high = np.searchsorted(self.positions, behind[[0, -1]])
        at = np.searchsorted(behind, self.positions[low:high], side="right") - 1
        begins = np.unique(np.concatenate([[0, len(window.stream)], at]))
        accesses = behind[begins].tolist()
        stream, control, granule, code, size = window
        base = accesses[0]
        for (first, end), (a, z) in zip(pairwise(begins.tolist()), pairwise(accesses), strict=True):
            held = slice(a - base, z - base)
            yield Window(stream[first:end], control[first:end], granule[held], code[held], size[held]), a

    def charge(
        self, window: Window, first: int, memory: MemoryPass, now: timing.State, lines: timing.LineArrivals
    ) -> None:
        """Let the lines arrive late of those accesses at a window's start that a nearer level would have served.

        One at a time: there is a window for nearly each of them, and calls of numpy's cost more than these few.
        """
        low = bisect_left(self._listed, first)
        for position in self._listed[low : bisect_left(self._listed, first + len(window.code), low)]:
            at = position - first
            code, granule = int(window.code[at]), int(window.granule[at])
            if granule < 0 or (code & LEVEL) >= self.level:
                continue
            memory.served[code & LEVEL] -= 1
            memory.served[self.level] += 1
            # The line leaves with what this thread has stored: the value is not known before it is back.
            window.code[at] = code & ~(LEVEL | RENAMED)
            code, line = int(window.code[at]), granule >> lines.shift
            gone = int(now.now[0])
            if code & (FORWARDED | BLOCKED):
                store = (int(now.counts[3]) - 1 - (code >> DISTANCE_SHIFT)) & (len(now.data) - 1)
                gone = max(gone, int(now.data[store]))
            late = gone + int(self.cycles * timing.TICKS)
            lines.arrival[line] = max(int(lines.arrival[line]), late)
            lines.origin[line], lines.asked[line] = self.level, timing.NEVER
            now.now[7] = max(int(now.now[7]), late)


def _chunks(trace: Trace, pieces: NDArray[np.int64]) -> Iterator[TraceChunk]:
    operands = np.concatenate(([0], np.cumsum(np.diff(trace.code.block_operand_start)[trace.stream])))
    dynamics = np.concatenate(([0], np.cumsum(np.diff(trace.code.block_dynamic_start)[trace.stream])))
    lengths = np.concatenate(([0], np.cumsum(np.diff(trace.code.block_start)[trace.stream])))
    for _, first, end in pieces.tolist():
        yield TraceChunk(
            int(lengths[first]),
            int(operands[first]),
            trace.stream[first:end],
            trace.addresses[operands[first] : operands[end]],
            trace.sizes[dynamics[first] : dynamics[end]],
        )


def _keys(pieces: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return what orders a thread's pieces: a stretch in which it runs alone follows the phase before it."""
    found, last = [], -1
    for phase in pieces[:, 0].tolist():
        found.append((last, 1) if phase == SERIAL else (phase, 0))
        last = last if phase == SERIAL else phase
    return found


def _by_phase(runs: list[_Run], pieces: list[NDArray[np.int64]]) -> tuple[list[tuple[int, int]], NDArray[np.float64]]:
    """Return the phases in their order, and the ticks of each thread in each."""
    order: dict[tuple[int, int], list[float]] = {}
    for thread, (run, cut) in enumerate(zip(runs, pieces, strict=True)):
        for key, ticks in zip(_keys(cut), np.diff(run.ends, prepend=0).tolist(), strict=True):
            order.setdefault(key, [0.0] * len(runs))[thread] += ticks
    keys = sorted(order)
    return keys, np.array([order[key] for key in keys])


class _Lines:
    """The accesses of lines that several threads use and one writes, whenever."""

    def __init__(self, traces: ThreadTraces, pieces: list[NDArray[np.int64]], line: int) -> None:
        self.pieces = pieces
        _, found, self.line = contended(traces, line, by_phase=False)
        self.block, self.position = [each.block for each in found], [each.position for each in found]
        self.write = [each.write for each in found]

    def transfers(self, runs: list[_Run], cycles: float) -> list[NDArray[np.int64]]:
        """Return, for each thread, which of its accesses wait for a line that another thread wrote."""
        if not self.line:
            return [np.zeros(0, dtype=np.int64)] * len(runs)
        turn = 2 * timing.TICKS * cycles
        turns = [(time // turn).astype(np.int64) for time in self._times(runs)]
        thread = np.repeat(np.arange(len(runs)), [len(each) for each in turns])
        line, when, write = np.concatenate(self.line), np.concatenate(turns), np.concatenate(self.write)
        position = np.concatenate(self.position)
        # One row for each line, turn and thread: whether it wrote, and its first access.
        order = np.lexsort((position, thread, when, line))
        line, when, thread = line[order], when[order], thread[order]
        write, position = write[order], position[order]
        new = np.concatenate(([True], np.diff(line) | np.diff(when) | np.diff(thread) != 0))
        rows = np.flatnonzero(new)
        wrote = np.logical_or.reduceat(write, rows)
        line, when, thread, position = line[rows], when[rows], thread[rows], position[rows]
        # How many turns in which others wrote the line there were up to the end of this one.
        all_of_them = _up_to(wrote, [line], [line, when])
        own = np.lexsort((when, thread, line))
        mine = np.empty(len(own), dtype=np.int64)
        mine[own] = _up_to(wrote[own], [line[own], thread[own]], [line[own], thread[own], when[own]])
        others = all_of_them - mine
        seen = np.zeros(len(own), dtype=np.int64)
        same = np.concatenate(([False], (np.diff(line[own]) | np.diff(thread[own])) == 0))
        seen[own] = np.where(same, np.concatenate(([0], others[own][:-1])), 0)
        waits = others > seen
        return [np.unique(position[waits & (thread == k)]) for k in range(len(runs))]

    def _times(self, runs: list[_Run]) -> list[NDArray[np.float64]]:
        """Return when each access is made, all threads beginning each phase together."""
        keys, ticks = _by_phase(runs, self.pieces)
        begin = dict(zip(keys, np.concatenate(([0.0], np.cumsum(ticks.max(axis=1))[:-1])).tolist(), strict=True))
        found = []
        for run, cut, block in zip(runs, self.pieces, self.block, strict=True):
            starts = np.concatenate(([0], run.ends[:-1]))
            first: dict[tuple[int, int], int] = {}
            shift = [
                begin[key] - first.setdefault(key, start)
                for key, start in zip(_keys(cut), starts.tolist(), strict=True)
            ]
            at = np.searchsorted(cut[:, 1], block, side="right") - 1
            part = (block - cut[at, 1]) / (cut[at, 2] - cut[at, 1])
            found.append(starts[at] + np.array(shift)[at] + part * (run.ends - starts)[at])
        return found


def _up_to(wrote: NDArray[np.bool_], begin: list[NDArray[np.int64]], end: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Count marks from the first row of a group to the last of a subgroup: rows that agree in ``begin``, in ``end``."""

    def firsts(columns: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
        changed = np.zeros(len(wrote) - 1, dtype=np.bool_)
        for column in columns:
            changed |= np.diff(column) != 0
        return np.concatenate(([True], changed))

    total = np.cumsum(wrote)
    groups, subgroups = firsts(begin), firsts(end)
    before: NDArray[np.int64] = (total - wrote)[np.flatnonzero(groups)][np.cumsum(groups) - 1]
    last = np.append(np.flatnonzero(subgroups)[1:], len(wrote)) - 1
    return np.asarray(total[last][np.cumsum(subgroups) - 1] - before)


def _sharing(core: Microarchitecture, threads: int) -> Microarchitecture:
    """Return the core with an equal share of the last level of cache."""
    last = core.caches[-1]
    if len(core.caches) < 3 or threads == 1:
        return core
    ways = max(1, last.ways // threads)
    sets = last.sets if threads <= last.ways else max(1, last.sets * last.ways // threads)
    return replace(core, caches=(*core.caches[:-1], replace(last, size=sets * ways * last.line, ways=ways)))


def _fair(wanted: NDArray[np.float64], total: float, one: float) -> NDArray[np.float64]:
    """Return each thread's part of the bandwidth: what it wants if that is less than an equal part of what is left."""
    share = np.full(len(wanted), one)
    if wanted.sum() <= total:
        return share
    left, open_ = total, list(np.argsort(wanted))
    while open_:
        k = open_.pop(0)
        part = min(one, left / (len(open_) + 1))
        if wanted[k] >= part:
            share[[k, *open_]] = part
            break
        left -= wanted[k]
    return share


def _bandwidth(core: Microarchitecture) -> float:
    return core.value("memory_bandwidth")


def _memory_bytes(result: GusResult) -> int:
    served = result.served
    return int(result.settings.core.caches[0].line * (served.served[3] + served.prefetched[3]))
