"""Which resource would help: the DAG scheduled again with each candidate twice as good (one answer out of many roofs).

A roof that hits the performance point is a candidate, not a proof (Caparros Cabezas and Pueschel, section IV-C): here
each is put to the test. What is gained is the speedup with a latency halved, a throughput or a buffer doubled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perfkit.base.results import Kind, Tabled, draw
from perfkit.dag.graph import expect_dag
from perfkit.dag.program import ADD, DIVIDE, FORWARD, FUSED, HOLD, INTEGER, MULTIPLY, READ, REDIRECT, STORE
from perfkit.errors import expect, of_extra
from perfkit.simulators.dag.core import parameter_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.dag.program import BlockProgram, Consumer, NodeSource
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.measures import Schedule
    from perfkit.simulators.dag.schedule import DagScheduler

_LEVELS = {"L1": "L1", "L2": "L2", "L3": "L3", "mem": "memory"}
_BUFFERS = {
    "rs": "reservation station",
    "rob": "reorder buffer",
    "lb": "load buffer",
    "sb": "store buffer",
    "lfb": "line fill buffers",
}
_KINDS = {"A": "additions", "M": "multiplications", "D": "divisions", "F": "fused multiply-adds", "I": "integer work"}
_CODES = {ADD: "A", MULTIPLY: "M", DIVIDE: "D", FUSED: "F", INTEGER: "I"}
_ALL = "latency of all operations"
_DIVIDER = "integer divider"  # what it takes until the result, and until the next division
_TOLD = 0.02  # by how much it must gain more than the best single resource
_FILLS = ("set_fill", "set_fill_written", "set_fill_stored", "store_refill")
_L1_PORTS = ("load_ports", "store_ports", "agus", "vector_load_ports")
_FORWARDS = ("latency_forward", "latency_forward_FP", "latency_blocked")
_TURNS = "jumps back per cycle"
_READS = "fetch of groups and lines of code"
_SETS = "sets of L1"
# What the extended roofline draws no roof for.
_ROOFLESS = ("fetch", _TURNS, _READS, _SETS, "store forwarding", "mispredicted branches")
_WIDTHS = ("fetch", *_L1_PORTS, "fp_ports", "branch_ports", "loop_turns", "code_reads")
_TIMES = ("integer_loads_earlier", "misprediction_penalty", *_FILLS)
_LEAST = 0.005  # a smaller gain names no bottleneck


@dataclass(frozen=True, eq=False, repr=False)
class Relaxation(Tabled):
    """What each resource would gain if it were twice as good.

    Parameters
    ----------
    name, core
        What was scheduled, on what.
    cycles
        Of the core as it is.
    resources
        What was made better, in words.
    changes
        The parameters that were changed for it, as text.
    relaxed
        The cycles then.
    better
        How many times as good each was made: 2, or less where half a latency is no whole number of cycles (of 3
        cycles 2 are left: 1.5 times). Of 1 cycle a half is left, whose cycles are estimated (`relax`).

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> scheduler = pk.DagScheduler(pk.DagCore.load("erm"))
    >>> relaxed = pk.relax(dag, scheduler, scheduler.run(dag))
    >>> relaxed.summary().splitlines()[0]
    'fig1a on sandy_bridge_erm (simulated): twice as good would gain: latency of fused multiply-adds 100%'
    """

    name: str
    core: str
    cycles: int
    resources: tuple[str, ...]
    changes: tuple[str, ...]
    relaxed: tuple[int, ...]
    better: tuple[float, ...] = ()

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    @property
    def bottleneck(self) -> str:
        """The resource that gains most, "" where none gains half a percent."""
        frame = self.to_frame()
        return str(frame["resource"].iloc[0]) if len(frame) and frame["gain"].iloc[0] >= _LEAST else ""

    def to_frame(self) -> pd.DataFrame:
        """Return a row per resource, the largest gain first: resource, gain (a fraction), cycles, change, better."""
        pd = of_extra("pandas")

        gains = [self.cycles / cycles - 1 for cycles in self.relaxed]
        columns = {"resource": self.resources, "gain": gains, "cycles": self.relaxed, "change": self.changes}
        columns["better"] = self.better or [2.0] * len(gains)  # a file from before it was told
        return pd.DataFrame(columns).sort_values("gain", ascending=False, kind="stable").reset_index(drop=True)

    def summary(self) -> str:
        """Say what limits the kernel."""
        frame = self.to_frame()
        shown = frame[frame["gain"] >= _LEAST].head(3)
        if not len(shown):
            return f"{self.name} on {self.core} (simulated): no resource alone, twice as good, gains half a percent"
        gains = ", ".join(f"{row.resource} {row.gain:.0%}{_really(row.better)}" for row in shown.itertuples())
        told = f"{self.name} on {self.core} (simulated): twice as good would gain: {gains}"
        first = str(shown["resource"].iloc[0])
        if first in _ROOFLESS and shown["gain"].iloc[0] >= _TOLD:
            told += (
                f"\nNo roof stands for {first}: what holds the kernel back is told by these gains, not by the roofs."
            )
        return told

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the gains as bars; return the axes."""
        return draw("extended_roofline:plot_relaxation", self, ax=ax)


def relax(
    dag: NodeSource,
    scheduler: DagScheduler,
    schedule: Schedule | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Relaxation:
    """Schedule a DAG again with each resource that it uses twice as good.

    Parameters
    ----------
    dag, scheduler
        What is scheduled, and how.
    schedule
        Its schedule, if there is one already.
    progress
        Called as ``progress(done, total)``.

    Examples
    --------
    >>> from perfkit import Dag, DagCore, DagScheduler
    >>> chain = Dag.from_nodes("AAA", [[], [0], [1]])
    >>> relax(chain, DagScheduler(DagCore.sandy_bridge_erm().replace(latency_A=4))).bottleneck
    'latency of additions'
    """
    expect_dag(dag, "relax")
    how = "make one of a core: perfkit.DagScheduler(perfkit.DagCore.load('skylake_x'))"
    expect(hasattr(scheduler, "record"), scheduler, "relax", "a DagScheduler", how)
    base = replace(scheduler, record=False)
    before = schedule or base.run(dag)
    wanted, own = candidates(before, dag.program), _own_delays(dag.program)
    after: list[int] = []
    texts: list[str] = []
    for done, (words, changes) in enumerate(wanted.items()):
        if progress is not None:
            progress(done, len(wanted))
        after.append(_cycles(dag, own, base, before, words, changes))
        changed = _relaxed_delays(dag.program, own, before.core, words, math.ceil) != dag.program.delay
        texts.append(_told(changes, bool(changed.any())))
    # All latencies at once are told where they gain more than the best of them.
    single = min((cycles for words, cycles in zip(wanted, after, strict=True) if words != _ALL), default=0)
    if _ALL in wanted and single <= after[place := list(wanted).index(_ALL)] * (1 + _TOLD):
        del wanted[_ALL], after[place], texts[place]
    better = tuple(_better(before.core, changes) for changes in wanted.values())
    return Relaxation(before.name, before.core.name, before.cycles, tuple(wanted), tuple(texts), tuple(after), better)


def _cycles(
    dag: NodeSource,
    own: Sequence[tuple[int, str, bool]],
    base: DagScheduler,
    before: Schedule,
    words: str,
    changes: Mapping[str, float],
) -> int:
    """Return the cycles with a resource twice as good.

    Cycles are whole in the engine. Where half a cycle is left of a latency, the DAG is scheduled without it, with a
    whole cycle, and at half the pace, where it is a whole one: all latencies doubled, all widths halved, rounded down.
    It takes no less than without it, and no less than half of what it takes at half the pace, and saves at least half
    of what it saves without it, since a latency counts for more the longer it is.
    """

    def run(core: DagCore, whole: Callable[[float], int], delay: npt.NDArray[np.int64]) -> int:
        changed = {name: value if name.startswith("throughput") else whole(value) for name, value in changes.items()}
        if core == base.core.replace(**changed) and (delay == dag.program.delay).all():
            return before.cycles
        return replace(base, core=core.replace(**changed)).run(_Delayed(dag, delay)).cycles

    down, up = (_relaxed_delays(dag.program, own, base.core, words, whole) for whole in (math.floor, math.ceil))
    least = run(base.core, math.floor, down)
    halves = any(value % 1 for name, value in changes.items() if not name.startswith("throughput"))
    if not halves and (down == up).all():
        return least
    most = run(base.core, math.ceil, up)
    if least >= most:
        return most
    slow = run(_half_pace(base.core), _doubled, _relaxed_delays(dag.program, own, base.core, words, _doubled))
    return max(min((least + most) // 2, max(least, -(-slow // 2))), -(-before.cycles // 2))


def _doubled(cycles: float) -> int:
    return int(2 * cycles)


def _half_pace(core: DagCore) -> DagCore:
    """Return a core in half cycles: its latencies doubled, its widths halved (odd ones rounded down, to 1 at least)."""
    changed: dict[str, float] = {}
    for name in parameter_names():
        value = getattr(core, name)
        if not value or math.isinf(value):
            continue
        if name.startswith("throughput"):
            changed[name] = value / 2
        elif name in _WIDTHS:
            changed[name] = max(1, value // 2)
        elif name.startswith("latency") or name in _TIMES:
            changed[name] = value * 2
    return core.replace(**changed)


def _told(changes: Mapping[str, float], others: bool) -> str:
    """Return what is changed as text."""
    if not changes:
        return "halved"
    told = ", ".join(f"{name}={value:g}" for name, value in changes.items())
    return f"{told}, instructions' own latencies halved" if others else told


def _better(core: DagCore, changes: Mapping[str, float]) -> float:
    """Return how many times as good a core's latencies are with changes: of several, the least."""
    latencies = {name: new for name, new in changes.items() if name.startswith("latency") and new}
    found = [core.latency(name.removeprefix("latency_")) / new for name, new in latencies.items()]
    if penalty := changes.get("misprediction_penalty"):
        found.append(core.misprediction_penalty / penalty)
    return min(found, default=2.0)


def _really(better: float) -> str:
    """Say how many times as good a resource was made, where that is not twice."""
    return "" if better == 2 else f" (in whole cycles: {better:.3g} times as good)"


def candidates(schedule: Schedule, program: BlockProgram | None = None) -> dict[str, dict[str, float]]:
    """Return what may hold a schedule back and the parameters that make it twice as good.

    Parameters
    ----------
    schedule
        The schedule.
    program
        Its DAG's, which tells whether branches are mispredicted and which stores are of vectors.
    """
    core = schedule.core
    mispredictions = program is not None and bool((program.op == REDIRECT).any())
    stores = program is None or bool(((program.op == STORE) & (program.delay == 0)).any())
    found: dict[str, dict[str, float]] = {}
    for kind, words in _KINDS.items():
        if schedule.n_nodes(kind):
            _add(found, f"latency of {words}", {f"latency_{kind}": core.latency(kind)}, halved=True)
    if program is not None and (program.op == HOLD).any():
        found[_DIVIDER] = {}
    if len(found) > 1:  # chains go through all of them
        every = [changes for words, changes in found.items() if words.startswith("latency of")]
        found[_ALL] = {name: value for changes in every for name, value in changes.items()}
    if schedule.n_nodes("D"):
        _add(found, "divider", {"throughput_D": core.throughput("D")})
    pipes = schedule.on_pipes > 0
    if pipes or any(schedule.n_nodes(kind) for kind in "AMF"):
        # A fused multiply-add takes a multiplier, too; integer work on vector registers may take either.
        others = {"A": pipes, "M": pipes or schedule.n_nodes("F") > 0, "F": False}
        taken = [k for k in "AMF" if schedule.n_nodes(k) or others[k]]
        units = {f"throughput_{kind}": core.throughput(kind) for kind in taken}
        _add(found, "floating-point units", {**units, "fp_ports": core.fp_ports})
    if schedule.n_nodes("I"):
        units = {"throughput_I": core.throughput("I"), "branch_ports": core.branch_ports}
        _add(found, "integer units", units)
    for level, words in _LEVELS.items():
        if schedule.n_nodes(level):
            if core.latency(level):
                found[f"latency of {words}"] = _halved_loads(core, level)
            bandwidth = {f"throughput_{level}": core.throughput(level)}
            if level == "L1":
                bandwidth |= {name: getattr(core, name) for name in _L1_PORTS}
            _add(found, f"bandwidth of {words}", bandwidth)
            if level == "L1" and core.vector_store_ports and stores:
                # A store of a vector took both ports: it takes one.
                found[f"bandwidth of {words}"] |= {"vector_store_ports": 0.0, "store_ports": core.store_ports}
    _add(found, "store forwarding", {name: getattr(core, name) or 0 for name in _FORWARDS}, halved=True)
    if mispredictions:
        _add(found, "mispredicted branches", {"misprediction_penalty": core.misprediction_penalty}, halved=True)
    for buffer, words in _BUFFERS.items():
        _add(found, words, {buffer: getattr(core, buffer)})
    _add(found, "vector scheduler", {name: getattr(core, name) for name in ("vector_rs", "vector_queue")})
    _add(found, "vector registers", {"vector_registers": core.vector_registers})
    _add(found, "fetch", {"fetch": core.fetch})
    read = program is not None and bool((program.op == READ).any())
    if read and core.code_reads:  # two jumps per cycle read two groups
        _add(found, _READS, {"code_reads": core.code_reads, "loop_turns": core.loop_turns})
    else:
        _add(found, _TURNS, {"loop_turns": core.loop_turns})
    if core.ways_L1:
        _add(found, _SETS, {name: getattr(core, name) for name in _FILLS}, halved=True)
    written = program is None or bool((program.op == STORE).any())
    if core.store_lines and "bandwidth of L1" in found and written:
        found["bandwidth of L1"] |= {"store_lines": 0.0}
    return found


@dataclass(frozen=True, eq=False)
class _Delayed:
    """A source whose FORWARDs pass their operands on after other delays."""

    source: NodeSource
    delay: npt.NDArray[np.int64]

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def facts(self) -> dict[str, str]:
        return dict(getattr(self.source, "facts", {}))

    @property
    def program(self) -> BlockProgram:
        return self.source.program._replace(delay=self.delay)

    def replay(self, consume: Consumer) -> None:
        self.source.replay(consume)


def _own_delays(program: BlockProgram) -> list[tuple[int, str, bool]]:
    """Return the FORWARDs that delay a result: which, the type of the node that makes it, whether it is a division."""
    divided = set(program.into[program.divisions].tolist())
    delayed = np.flatnonzero((program.op == FORWARD) & (program.delay != 0)).tolist()
    return [(k, _producer(program, k), int(program.left[k]) in divided) for k in delayed]


def _relaxed_delays(
    program: BlockProgram,
    own_delays: Sequence[tuple[int, str, bool]],
    core: DagCore,
    words: str,
    whole_of: Callable[[float], int],
) -> npt.NDArray[np.int64]:
    """Return the delays of a program's operations with a resource twice as good, in the cycles of `whole_of`.

    An instruction that takes longer than its type, or less, has the rest in the FORWARD behind its node (`own_delays`):
    halved is the whole of both. An integer division keeps the divider for a HOLD's delay.
    """
    delay = program.delay.copy()
    for k in np.flatnonzero(program.op == HOLD).tolist():
        delay[k] = whole_of(max(1, -(-int(delay[k]) // 2)) if words == _DIVIDER else int(delay[k]))
    for k, kind, divides in own_delays:
        if kind not in _KINDS:
            delay[k] = whole_of(int(delay[k]))
            continue
        of_type = f"latency of {_KINDS[kind]}"
        own = _DIVIDER if divides else of_type
        latency: float = core.latency(kind)
        whole: float = latency + int(delay[k])
        if words in (own, _ALL):
            whole = _half(whole)
        # What the node itself takes of it is its type's latency, which may be halved for others.
        rest = whole_of(whole) - whole_of(_half(latency) if words in (_ALL, of_type) else latency)
        delay[k] = rest if delay[k] < 0 else max(0, rest)
    return delay


def _producer(program: BlockProgram, k: int) -> str:
    """Return the type of the node whose result a FORWARD passes on, "" where it is of another block."""
    first = int(program.block_ops[np.searchsorted(program.block_ops, k, side="right") - 1])
    for j in range(k - 1, first - 1, -1):
        if program.into[j] == program.left[k]:
            return _CODES.get(int(program.op[j]), "")
    return ""


def _add(found: dict[str, dict[str, float]], words: str, values: Mapping[str, float], halved: bool = False) -> None:
    """Add a candidate unless it is not modelled."""
    modelled = {name: value for name, value in values.items() if value and not math.isinf(value)}
    if modelled:
        found[words] = {name: _half(value) if halved else value * 2 for name, value in modelled.items()}


def _halved_loads(core: DagCore, level: str) -> dict[str, float]:
    """Return what halves the latency of a level: for loads of integers, too, which take a few cycles less."""
    name, latency = f"latency_{level}", core.latency(level)
    earlier = min(int(core.integer_loads_earlier), latency)
    halved = _half(latency)
    if not earlier:
        return {name: halved}
    if level == "L1":
        return {name: halved, "integer_loads_earlier": max(0.0, halved - _half(latency - earlier))}
    return {name: _half(latency - earlier) + earlier}


def _half(latency: float) -> float:
    """Return half a latency, rounded up; of one cycle a half is left."""
    return math.ceil(latency / 2) if latency > 1 else latency / 2
