"""Gus: simulate a traced binary on a resource-centric model of a core (section 3 and Algorithm 1 of the paper).

Dutilleul, Pompougnac, Derumigny, Rodríguez, Trophime, Guillon, Rastello: "Performance debugging through
microarchitectural sensitivity and causality analysis". The model only knows resources with a capacity; it goes through
the executed instructions once and keeps, for each resource, register and word of memory, the earliest time at which it
is available.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import a_path, check_fields
from perfkit.base.kept import all_kept
from perfkit.base.results import Kind, Summarised, draw
from perfkit.errors import DataError, PerfkitWarning, SettingError, expect, of_extra
from perfkit.machine.core import Microarchitecture
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.simulators.gus import files, timing
from perfkit.simulators.gus.lanes import LANES, padded
from perfkit.simulators.gus.passes import Progress, windows
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.branches import predictor
from perfkit.simulators.memory.cache import CacheCounts
from perfkit.simulators.memory.memory import FROM_STORES, MISPREDICTED, MemoryPass
from perfkit.simulators.program.lowering import lower
from perfkit.simulators.program.program import Program
from perfkit.trace.trace import Trace, expect_trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.blocks import BlockPredictions
    from perfkit.simulators.gus.causality import Causality, InstructionSchedule
    from perfkit.simulators.gus.sensitivity import Sensitivity
    from perfkit.simulators.gus.timeline import Timeline
    from perfkit.trace.block import BasicBlock

# A loop over the same data is repeated until the branch predictor learns nothing more of it, but not for ever.
WARM_PASSES = 12
SETTLED = 0.005  # mispredicted branches below which it has
ACCOUNT = "an account of the cycles, not of what would help"  # said wherever the parts of a stack are told
WARM = ("none", "caches", "all", "predicted")
_ENDLESS = 64.0  # times the entries of a buffer: more than any program here fills
# Code as a core sees it, by the identities of the two, as long as a result or somebody else holds it: it holds both.
_LOWERED: WeakValueDictionary[tuple[int, int], Program] = WeakValueDictionary()
_LOWERING = Lock()


@dataclass(frozen=True)
class Gus:
    """Settings of a simulation.

    Parameters
    ----------
    core : Microarchitecture or str
        The machine, or its name; by default this host's core, or the nearest (a warning says so).
    tables : InstructionTables, optional
        What instructions cost on it; the bundled table by default.
    warm : str or bool
        What the trace goes through before it is timed. ``"none"`` (False): nothing. ``"caches"``: the caches and
        TLBs, as before a call with new data of the same size; branches are predicted as if met for the first time.
        ``"all"`` (True): the branch predictor as well, as in a loop over the very same data: it has learnt the outcomes
        of random branches by heart. ``"predicted"``: the caches, and no branch is mispredicted, as in a loop over data
        whose outcomes a processor learns that this predictor does not.

    Examples
    --------
    >>> import perfkit as pk
    >>> result = pk.Gus(pk.Microarchitecture.load("skylake_x")).run(trace)  # doctest: +SKIP
    >>> result.ipc, result.cpi_stack()                                      # doctest: +SKIP
    """

    core: Microarchitecture = field(default_factory=lambda: Microarchitecture.load("host"))
    tables: InstructionTables | None = None
    warm: bool | str = "none"

    if TYPE_CHECKING:  # the field is a core; what is given may be its name

        def __init__(
            self,
            core: Microarchitecture | str | Path = ...,
            tables: InstructionTables | None = None,
            warm: bool | str = "none",
        ) -> None: ...

    def __post_init__(self) -> None:
        """Take a core's name for the core, True and False for "all" and "none"."""
        if isinstance(self.core, str | Path):
            object.__setattr__(self, "core", Microarchitecture.load(self.core))
        how = "perfkit.Microarchitecture.names() lists those that ship"
        expect(isinstance(self.core, Microarchitecture), self.core, "Gus", "a core, or its name", how)
        if self.warm not in (True, False, *WARM):
            raise SettingError(f"warm is one of {', '.join(WARM)} (or True, False); found {self.warm!r}")
        if not isinstance(self.warm, str):  # 1 and numpy's True are True, too
            object.__setattr__(self, "warm", "all" if self.warm else "none")

    def program(self, trace: Trace) -> Program:
        """Return the trace's static code as this core sees it."""
        expect_trace(trace, "Gus")
        if self.tables is not None:
            return self._lowered(trace)
        with _LOWERING:  # of two simulations beside each other one waits for the other's
            key = id(trace.code), id(self.core)
            program = _LOWERED.get(key)
            if program is None:
                program = _LOWERED[key] = self._lowered(trace)
            return program

    def _lowered(self, trace: Trace) -> Program:
        with all_kept():
            return lower(trace.code, self.core, cache(self.instruction_tables(trace).form))

    def instruction_tables(self, trace: Trace) -> InstructionTables:
        """Return what instructions cost, forms of the trace that no table knows looked up where that is possible."""
        expect_trace(trace, "Gus.instruction_tables")
        tables = self.tables if self.tables is not None else InstructionTables.load(self.core)
        return tables.extended(trace.code)

    def memory(self, trace: Trace, program: Program) -> MemoryPass:
        """Return the pass of a trace over memory and branches, with caches and predictor cold or warm.

        ``program`` is the trace's code as the core executes it.
        """
        expect_trace(trace, "Gus.memory")
        memory = MemoryPass.of(trace, program, self.core, perfect=self.warm == "predicted")
        if self.warm in ("caches", "predicted"):
            for _ in windows(trace, memory):
                pass
            memory.begin_counting()
            memory.predictor = predictor(self.core, trace.code.block_count)
        elif self.warm == "all":
            missed = -1
            for _ in range(WARM_PASSES):
                for _ in windows(trace, memory):
                    pass
                before, (branches, missed) = missed, memory.branches
                memory.begin_counting()
                if missed <= SETTLED * branches or 0 <= before <= missed:
                    break
        return memory

    def run(self, trace: Trace, *, progress: Progress | None = None) -> "GusResult":
        """Simulate the trace.

        Parameters
        ----------
        trace : Trace
            What ran.
        progress : callable, optional
            Called with the instructions done and their total after every window.

        Raises
        ------
        DataError
            The trace holds no instruction.
        SettingError
            It is no trace.
        """
        expect_trace(trace, "Gus.run")
        if lacks := trace.provenance.lacks_callees:
            warnings.warn(lacks, PerfkitWarning, stacklevel=2)
        program = self.program(trace)
        if any(form.source == "class default" for form in program.forms):
            self.instruction_tables(trace).coverage(trace)  # warns, by name, of forms that no table knows
        memory = self.memory(trace, program)
        ticks, spent = self._timed(trace, program, memory, progress)
        branches, missed = memory.branches
        return GusResult(
            settings=self,
            trace=trace,
            program=program,
            ticks=ticks,
            spent=spent,
            served=memory.counts(),
            branches=(branches, 0 if self.warm == "predicted" else missed),
        )

    def _timed(
        self, trace: Trace, program: Program, memory: MemoryPass, progress: Progress | None = None
    ) -> tuple[int, NDArray[np.int64]]:
        """Return when the last instruction retires, and what held up each static one, in ticks."""
        arrays, cost, now, lines = timing.begin(program, (self.core,))
        spent = np.zeros((len(program.slots), timing.PORTS + len(program.groups)), dtype=np.int64)
        for window in windows(trace, memory, progress):
            lines = timing.room(lines, memory.page_count)
            simulate(window, arrays, cost, now, lines, spent, None)
        return int(now.now[2]), spent

    def cycles_after(self, before: Trace, trace: Trace) -> float:
        """Return the cycles of a trace where another one of the same code, which ran before it, fills the caches.

        In place of ``warm``; the branch predictor learns from it, too. Parts of one recording are such traces
        (`perfkit.Trace.part`): what lies between them is as if it had not run.
        """
        program = self.program(trace)
        memory = MemoryPass.of(trace, program, self.core)
        for _ in windows(before, memory):
            pass
        memory.begin_counting()
        return self._timed(trace, program, memory)[0] / timing.TICKS

    def block(self, block: "BasicBlock | str") -> "BlockPredictions":
        """Predict the steady state of a basic block: `blocks` of one, whose figures it has as ``looped``, ``unrolled``.

        Raises
        ------
        DataError
            The block is refused (`perfkit.trace.block.BasicBlock`).

        Examples
        --------
        >>> import perfkit as pk
        >>> round(pk.Gus("zen4").block("480fafc3").looped, 2)  # imul rax, rbx
        3.0
        """
        from perfkit.simulators.gus.blocks import predict_blocks

        found = predict_blocks(self, [block])
        if reason := found.table["refused"].iloc[0]:
            raise DataError(f"{block}: {reason}")
        return found

    def blocks(self, blocks: "Iterable[BasicBlock | str]", *, progress: Progress | None = None) -> "BlockPredictions":
        """Predict the steady state of many basic blocks, looped and unrolled, and what holds each back.

        Parameters
        ----------
        blocks : iterable of Block or str
            The blocks (`perfkit.Block`), or their machine code as hexadecimal digits.
        progress : callable, optional
            Called with the blocks done and their total.

        Returns
        -------
        BlockPredictions
            One row per block, in their order; blocks that cannot be predicted say why.
        """
        from perfkit.simulators.gus.blocks import predict_blocks

        return predict_blocks(self, blocks, progress)

    def perfect(self, trace: Trace) -> dict[str, float]:
        """Return the cycles of the trace if something were perfect, one at a time (simulated).

        "branch prediction": no branch is mispredicted. "caches": every access hits in L1 and its TLB. "window": reorder
        buffer, schedulers, load and store buffers and fill buffers never fill up. Doubling a capacity says what a
        somewhat better machine would bring; these say what removing the cause from the program would.
        """
        program = self.program(trace)
        memory = self.memory(trace, program)
        wide = self.core
        for name, resource in self.core.resources.items():
            if resource.kind == "buffer":
                wide = wide.scaled(name, _ENDLESS)
        runs = {
            "branch prediction": (self.core, lambda w: w._replace(control=w.control & ~np.uint8(MISPREDICTED))),
            "caches": (self.core, lambda w: w._replace(code=w.code & np.uint32(FROM_STORES))),
            "window": (wide, lambda w: w),
        }
        parts = {name: timing.begin(program, (core,)) for name, (core, _) in runs.items()}
        lines = {name: part[-1] for name, part in parts.items()}
        for window in windows(trace, memory):
            for name, (_, better) in runs.items():
                lines[name] = timing.room(lines[name], memory.page_count)
                simulate(better(window), *parts[name][:-1], lines[name], None, None)
        return {name: int(part[2].now[2]) / timing.TICKS for name, part in parts.items()}

    def cycles(
        self,
        trace: Trace,
        cores: Sequence[Microarchitecture],
        *,
        progress: Progress | None = None,
        mispredicted: bool = True,
    ) -> NDArray[np.float64]:
        """Return the cycles that the trace takes on each of K variants of the core, in one pass, shape (K,).

        The `cores` may differ in resources; caches and instruction table are those of ``self.core``. No branch is
        mispredicted where ``mispredicted`` is False. ``progress`` is called with the passes done and their total.
        """
        program = self.program(trace)
        memory = self.memory(trace, program)
        parts, lines = [], []
        for k in range(0, len(cores), LANES):
            arrays, cost, now, empty = timing.begin(program, padded(cores[k : k + LANES]))
            parts.append((arrays, cost, now))
            lines.append(empty)
        for seen in windows(trace, memory, progress):
            window = seen if mispredicted else seen._replace(control=seen.control & ~np.uint8(MISPREDICTED))
            lines = [timing.room(each, memory.page_count) for each in lines]
            for part, each in zip(parts, lines, strict=True):
                simulate(window, *part, each, None, None)
        return np.concatenate([now.now[2] for _, _, now in parts])[: len(cores)] / timing.TICKS


@dataclass(frozen=True, eq=False, repr=False)
class GusResult(Summarised):
    """What a simulation found.

    Attributes
    ----------
    settings : Gus
        The core and tables it was made with.
    trace, program
        What ran, and how the core sees its instructions.
    ticks : int
        When the last instruction retired, in `gus_timing.TICKS` a cycle.
    spent : (instructions, causes) int64
        Ticks by which each static instruction advanced retirement, by what held it up; their sum is ``ticks``.
    served : CacheCounts
        Accesses served by each level.
    branches : (int, int)
        Conditional branches and how many of them the model's predictor missed.

    Examples
    --------
    >>> import perfkit as pk
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> result.kind, result.cycles > 8000
    ('simulated', True)
    """

    settings: Gus
    trace: Trace
    program: Program
    ticks: int
    spent: NDArray[np.int64] = field(repr=False)
    served: CacheCounts
    branches: tuple[int, int]

    @property
    def kind(self) -> Kind:
        """``"simulated"``: no figure of this result was measured."""
        return "simulated"

    @property
    def cycles(self) -> float:
        """Cycles from the first dispatch to the last retirement (simulated)."""
        return self.ticks / timing.TICKS

    @property
    def instructions(self) -> int:
        """Executed instructions."""
        return self.trace.instruction_count

    @property
    def ipc(self) -> float:
        """Executed instructions per simulated cycle."""
        return self.instructions / self.cycles

    @cached_property
    def executions(self) -> NDArray[np.int64]:
        """How often each static instruction ran."""
        return self.trace.instruction_counts()

    @property
    def cpi(self) -> float:
        """Simulated cycles per executed instruction; `cpi_stack` says what they consist of."""
        return self.cycles / self.instructions

    def cpi_stack(self) -> "pd.Series":
        """Return cycles per instruction by cause: an exact account, its sum is the CPI (simulated).

        Every tick by which retirement advances belongs to the instruction that retires and to what determined the time
        of its result: a port, a latency, a bandwidth, a full buffer, the front end, or the width of retirement. That
        is an account of the cycles, and not of what would help: operations that wait for the result of a division are
        latency here, though it may be the divider that all of them hang on; `sensitivity` tells.
        """
        pd = of_extra("pandas")

        return pd.Series(cpi_by_cause(self), name="CPI (simulated)", dtype=float).rename_axis("cause")

    def occupancy(self) -> "pd.Series":
        """Return each resource's use as a share of its capacity over the whole run, the largest first (simulated)."""
        pd = of_extra("pandas")

        return pd.Series(use_of_resources(self), name="occupancy (simulated)", dtype=float)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per static instruction: where it is, what it costs, and its share of the time (simulated).

        Columns: pc, function, text, att (AT&T syntax), block, executions, slots, latency (cycles), inverse_throughput
        (cycles), source (the layer of the instruction table), file, line and source_line (where the trace knows the
        source: `Trace.places`), time_share (of the cycles, by `spent`), cause (the
        largest) and one share of the total use of each resource it uses.
        """
        pd = of_extra("pandas")

        p, code = self.program, self.trace.code
        runs = self.executions
        cause = [*timing.CAUSES, *p.groups]
        time = self.spent.sum(axis=1)
        frame = pd.DataFrame(
            {
                "pc": code.pc,
                "function": list(code.function),
                "text": list(code.text),
                "att": att_text(code),
                "block": code.block,
                "executions": runs,
                "slots": p.slots,
                "latency": p.latency,
                "inverse_throughput": p.inverse_throughput,
                "source": [f.source for f in p.forms],
                **self.trace.places(),
                "time_share": time / max(1, self.ticks),
                "cause": [cause[k] if t else "" for k, t in zip(self.spent.argmax(axis=1), time, strict=True)],
            }
        )
        owner = np.repeat(np.arange(len(runs)), np.diff(p.use_start))
        for k, g in enumerate(p.groups):
            mine = p.use == k
            use = np.bincount(owner[mine], p.amount[mine] * runs[owner[mine]], minlength=len(runs))
            if use.sum() > 0:
                frame[g] = use / use.sum()
        return frame

    def forms(self) -> dict[str, InstructionForm]:
        """Return the table entries used, by form name."""
        return {f.name: f for f in self.program.forms}

    def summary(self) -> str:
        """Say how long the run takes, where the time goes and which resources are busiest."""
        origin, core = self.trace.provenance, self.settings.core
        name = origin.title or "a trace without a name"
        stack, use = list(cpi_by_cause(self).items())[:4], list(use_of_resources(self).items())[:4]
        branches, missed = self.branches
        return "\n".join(
            [
                (
                    f"{self.cycles:,.0f} cycles for {self.instructions:,} instructions of {name} on {core.name} "
                    f"(simulated): CPI {self.cpi:.3f}, {self.ipc:.2f} instructions per cycle"
                ),
                f"where the time goes ({ACCOUNT}; `sensitivity` says that): "
                + ", ".join(f"{n} {v:.3f} CPI ({v / self.cpi:.0%})" for n, v in stack),
                "busiest resources: " + ", ".join(f"{n} {v:.0%}" for n, v in use),
                f"{missed:,} of {branches:,} conditional branches mispredicted",
            ]
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw cycles per instruction by cause as one stacked bar; return the axes."""
        return draw("gus:plot_cpi_stack", self, ax=ax)

    def sensitivity(
        self, weights: Sequence[float] = (1.1, 1.5, 2.0), resources: Sequence[str] | None = None, **options: Any
    ) -> "Sensitivity":
        """Return how much faster the run would be if each resource were better by each of some weights.

        `weights`, `resources` and the other `options` are those of `perfkit.sensitivity`.
        """
        from perfkit.simulators.gus.sensitivity import sensitivity

        return sensitivity(self.settings, self.trace, weights, resources, **options)

    def what_if(
        self, capacities: Mapping[str, float], weight: float = 2.0, resources: Sequence[str] | None = None
    ) -> "Sensitivity":
        """Return the sensitivity of another core, with some capacities multiplied.

        `capacities` maps resources to factors; `weight` and `resources` are those of the ranking on the changed core
        (`perfkit.what_if`).
        """
        from perfkit.simulators.gus.sensitivity import what_if

        return what_if(self.settings, self.trace, capacities, weight, resources)

    def timeline(self, first: int = 0, count: int = 1000) -> "Timeline":
        """Return which resources ``count`` executed instructions from ``first`` occupied, and when."""
        from perfkit.simulators.gus.timeline import timeline

        return timeline(self, first, count)

    def causality(self, *, exact: bool = False) -> "Causality":
        """Return which instructions constrain the execution time (section 3.1), by tainting."""
        from perfkit.simulators.gus.causality import causality

        return causality(self.settings, self.trace, exact=exact)

    def save(self, path: str | Path) -> Path:
        """Write the result, with core, forms and trace, to a file that `load` opens."""
        return self.save_with(path, {})

    def save_with(self, path: str | Path, more: Mapping[str, Any]) -> Path:
        """Write the result to `path` as `save` does, with `more` values in its header: of an answer that holds it."""
        expect(isinstance(more, Mapping), more, "GusResult.save_with", "a mapping (more)", "give values by name")
        gus, asked = self.settings, dict[str, InstructionForm]()
        tables = gus.instruction_tables(self.trace)
        # All forms that lowering asks for, those of no instruction (the load of a core) included.
        lower(self.trace.code, gus.core, lambda name: asked.setdefault(name, tables.form(name)))
        header = {
            "core": gus.core.to_toml(),
            "weights": dict(gus.core.weights),
            "warm": gus.warm,
            "ticks": self.ticks,
            "ticks_per_cycle": timing.TICKS,
            "branches": list(self.branches),
            "forms": {name: files.form_to_dict(form) for name, form in asked.items()},
            **more,
        }
        arrays = {"spent": self.spent, "served": self.served.served, "prefetched": self.served.prefetched}
        return files.save_result(a_path(path, "GusResult.save"), header, arrays, self.trace)

    @classmethod
    def load(cls, path: str | Path) -> "GusResult":
        """Read a result that `save` wrote: what it says, and what can be asked of it, is the same.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        FormatError
            The file is no saved result, truncated, damaged, or of a later version.
        """
        header, arrays, trace = files.load_result(a_path(path, "GusResult.load"))
        with files.fitting(path):
            return _assembled(header, arrays, trace, path)

    def schedule(self, first: int = 0, count: int = 200) -> "InstructionSchedule":
        """Return when ``count`` executed instructions, from ``first``, were dispatched, started, ended, retired."""
        from perfkit.simulators.gus.causality import schedule

        found = schedule(self.settings, self.trace, first, count)
        factor = self.settings.core.resources.get("instruction_latency")
        latency = self.program.latency * (factor.value if factor is not None else 1.0)
        return found.operating(latency)


def _assembled(
    header: dict[str, Any], arrays: dict[str, NDArray[np.int64]], trace: Trace, path: str | Path
) -> GusResult:
    """Return the result that a file's parts make, if they fit together."""
    fields = {"weights": dict, "core": str, "forms": dict, "ticks": int, "warm": (str, bool), "branches": list}
    check_fields(header, fields, path, "a saved Gus result")
    weighed, branched = header["weights"], {str(i): n for i, n in enumerate(header["branches"])}
    check_fields(weighed, dict.fromkeys(weighed, float), path, "weights")
    check_fields(branched, dict.fromkeys(branched, int), path, "branches")
    if len(branched) != 2 or any(n < 0 for n in branched.values()):
        raise DataError("two counts of branches of at least 0 expected: those predicted, and those mispredicted")
    weights = {str(name): float(weight) for name, weight in header["weights"].items()}
    core = replace(Microarchitecture.from_toml(header["core"], f"{path}: its core"), weights=MappingProxyType(weights))
    forms = {name: files.form(name, values) for name, values in header["forms"].items()}
    gus = Gus(core, tables=files.SavedTables(core, (), saved=forms), warm=header["warm"])
    program = gus.program(trace)
    spent, ticks = arrays["spent"], int(header["ticks"])
    shape = (len(program.slots), timing.PORTS + len(program.groups))
    later = (timing.SET_FILL, timing.REGISTER_FILE)  # causes that a result saved before they were known has none of
    for cause in later[-missing:] if 0 < (missing := shape[1] - spent.shape[1]) <= len(later) else ():
        if timing.CAUSES[cause] not in core.resources:
            spent = np.insert(spent, cause, 0, axis=1)
    if spent.shape != shape:
        raise DataError(f"an account of {shape} instructions and causes expected, found {spent.shape}")
    if header["ticks_per_cycle"] != timing.TICKS:
        raise DataError(f"times in {header['ticks_per_cycle']} ticks per cycle, where {timing.TICKS} are expected")
    levels = len(timing.LEVELS)
    if any(arrays[name].shape != (levels,) for name in ("served", "prefetched")):
        raise DataError(f"counts of {levels} levels of memory expected")
    if any((values < 0).any() for values in arrays.values()):
        raise DataError("counts and times of at least 0 expected")
    if spent.sum() != ticks:
        raise DataError(f"its account sums to {spent.sum()} ticks, its time is {ticks}")
    branches, missed = header["branches"]
    served = CacheCounts(arrays["served"], arrays["prefetched"])
    return GusResult(gus, trace, program, ticks, spent, served, (int(branches), int(missed)))


def top_cause(result: GusResult) -> str:
    """Return the largest part of the CPI stack in words, with what it does not say."""
    cause, cycles = next(iter(cpi_by_cause(result).items()))
    return f"{cause} takes the largest part of its cycles, {cycles / result.cpi:.0%} ({ACCOUNT})"


def cpi_by_cause(result: GusResult) -> dict[str, float]:
    """Return `GusResult.cpi_stack` as a plain mapping, without pandas."""
    names = [*timing.CAUSES, *result.program.groups]
    return _largest_first(names, result.spent.sum(axis=0) / timing.TICKS / result.instructions)


def use_of_resources(result: GusResult) -> dict[str, float]:
    """Return `GusResult.occupancy` as a plain mapping, without pandas."""
    p, core = result.program, result.settings.core
    runs = result.executions
    each = np.zeros(len(p.groups))
    np.add.at(each, p.use, p.amount * np.repeat(runs, np.diff(p.use_start)))
    busy = {g: each[k] * core.resource(g).inverse_throughput for k, g in enumerate(p.groups)}
    slots = float(p.slots @ runs)
    busy["front_end"] = slots * core.resource("front_end").inverse_throughput
    busy["retire"] = slots * core.resource("retire").inverse_throughput
    line = core.caches[0].line
    served, prefetched = result.served.served, result.served.prefetched
    for level, name in enumerate(timing.LEVELS[1:], start=1):
        if f"{name}_bandwidth" in core.resources:
            lines = served[level:].sum() + (prefetched[level:].sum() if level > 1 else 0)
            busy[f"{name}_bandwidth"] = line * lines * core.resource(f"{name}_bandwidth").inverse_throughput
    return _largest_first(list(busy), np.array(list(busy.values())) / result.cycles)


def _largest_first(names: Sequence[str], values: NDArray[np.float64]) -> dict[str, float]:
    """Return what is above zero, by name."""
    order = np.argsort(-values, kind="stable")
    return {names[k]: float(values[k]) for k in order if values[k] > 0}


def att_text(code: Any) -> list[str]:
    """Return the instructions in AT&T syntax; as they are where there is no such syntax (AArch64)."""
    if code.isa != "x86-64":
        return list(code.text)
    from iced_x86 import Formatter, FormatterSyntax

    from perfkit.trace.x86 import decode

    formatter = Formatter(FormatterSyntax.GAS)
    return [formatter.format(i) for i in decode(code)]
