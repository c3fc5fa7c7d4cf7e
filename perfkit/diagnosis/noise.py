"""Add noise to the innermost loop of a kernel, and measure how much of each kind it absorbs.

Delval, de Oliveira Castro, Jalby, Renault: "Noise injection for performance bottleneck analysis", do it in a compiler;
here the machine code is copied with the noise in it, so that any function of a library will do. No hardware counters
are needed.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.base.files import a_path
from perfkit.base.results import Settings
from perfkit.collectors.host.code import flags
from perfkit.collectors.host.code import processor as processor_name
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.diagnosis.noise_result import NoiseResult
from perfkit.errors import DataError, PerfkitWarning, SettingError, expect, of_extra
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.collectors.kernels import Kernel
    from perfkit.collectors.noise.copies import NoiseVariant
    from perfkit.collectors.noise.function import FunctionCode, Loop
    from perfkit.collectors.noise.measure import Turns
    from perfkit.collectors.noise.place import NoisePlace
    from perfkit.trace.trace import Trace

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Added instructions per iteration of a loop of up to 24; more, in proportion, to longer loops."""
_USUAL = 16  # instructions of a loop that gets these counts
_FEWEST = 3  # quiet turns of a process that give a figure
_ENOUGH = 3  # processes that make a quiet point
_SIMULATED = 1_000_000  # instructions that the model sees, if the loop turns often enough in them
_RECORDED = 5_000_000  # instructions
_TURNS = 300  # iterations that are often enough


_WHOLE = 0.9  # of a call's instructions: the rest hardly counts
_LEAST_SHARE = 0.05  # of a function's instructions: loops with less cannot hold it back much


@dataclass(frozen=True)
class _Recorded:
    """A function, recorded, and how to measure it with noise at a loop's header."""

    name: str
    path: Path
    symbol: str
    trace: "Trace"
    measured: "Callable[..., Turns]"


@dataclass(frozen=True)
class Noise(Settings):
    """Settings of a measurement with noise.

    Parameters
    ----------
    kinds : sequence of str, optional
        Which kinds of noise (`perfkit.collectors.noise.kinds.KINDS`); the usual ones by default.
    at : str or int
        Which loop: ``"innermost"``, the smallest loop around what executes most; an address of an instruction in it, as
        objdump prints it; or a source line, ``"kernel.c:12"``.
    core : str, Microarchitecture or None
        The model to put beside the machine; None: none. ``"host"`` is this host's core or the nearest.
    counts : sequence of int, optional
        Instructions to add per iteration; by default 1 to 32, in proportion more for loops of many instructions.
    processes, rounds : int
        Processes to measure in, each with everything at other addresses, and the quiet turns that are wanted in each.
    seconds : float
        To wait for a quiet core, in all.
    least : float
        Slowdown that counts as one.
    seed : int
        Of the order of the turns.

    Examples
    --------
    >>> import numpy as np, perfkit as pk
    >>> kernel = pk.collectors.compile_kernel("dot.c")  # doctest: +SKIP
    >>> result = pk.Noise(kinds=["nop", "latency"]).run(kernel, np.ones(999), np.ones(999), 999)  # doctest: +SKIP
    >>> result.bottleneck  # doctest: +SKIP
    'latency'
    """

    kinds: Sequence[str] | None = None
    at: str | int = "innermost"
    core: str | Microarchitecture | None = None
    counts: Sequence[int] | None = None
    processes: int = 5
    rounds: int = 8
    seconds: float = 30.0
    least: float = 0.03
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        lists = (("kinds", "names of kinds"), ("counts", "whole numbers from 1, rising"))
        for name, what in lists:
            given = getattr(self, name)
            expect(given is None or isinstance(given, Sequence), given, "Noise", f"{what} ({name})", "list them")
        fits = isinstance(self.at, str | Integral)
        expect(fits, self.at, "Noise", "a place (at)", 'name one: "innermost", an address or a line, "kernel.c:12"')
        if not self.seconds >= 0:
            raise SettingError(f"seconds must be at least 0; found {self.seconds}")
        if isinstance(self.kinds, str):
            raise SettingError(f"kinds is a list of kinds of noise; found {self.kinds!r}")
        if self.counts is not None and (list(self.counts) != sorted({*self.counts}) or min(self.counts, default=0) < 1):
            raise SettingError(f"counts are whole numbers from 1, rising; found {self.counts!r}")
        for name, least in (("processes", _ENOUGH), ("rounds", _FEWEST)):
            if getattr(self, name) < least:
                raise SettingError(f"{name} must be {least} or more, found {getattr(self, name)}")
        if not 0 < self.least < 1:
            raise SettingError(f"least must lie between 0 and 1, found {self.least}")

    def run(self, kernel: "Kernel", *arguments: Any) -> NoiseResult:
        """Measure a kernel with noise in one of its loops.

        Parameters
        ----------
        kernel : Kernel
            From `perfkit.collectors.compile_kernel`, `corpus_kernel` or `library_kernel`.
        *arguments
            As for `Kernel.trace`.

        Raises
        ------
        SettingError
            There is no such kind, core or place.
        DataError
            No noise can be added, with the reason; or the kernel crashes, or its results cannot be checked.
        UnavailableError
            This machine is too busy, or not x86-64.
        """
        core = self._model()
        return self._profile(_recorded(kernel, arguments), self.at, core)

    def each_loop(self, kernel: "Kernel", *arguments: Any) -> tuple[NoiseResult, ...]:
        """Measure a kernel with noise in each of its innermost loops, one after the other.

        Each result is about one loop, in relation to the time of the whole call: a loop that takes a tenth of it slows
        the call by a tenth of what it is slowed by itself.

        Parameters
        ----------
        kernel, *arguments
            As of `run`; `at` plays no part.

        Returns
        -------
        tuple of NoiseResult
            Of the loops that execute a twentieth of the function's instructions or more, by falling share.

        Warns
        -----
        PerfkitWarning
            No noise can be added to one of the loops, with the reason.

        Raises
        ------
        SettingError, DataError, UnavailableError
            As `run` does; DataError where no loop can be measured.
        """
        core = self._model()
        return self._each(_recorded(kernel, arguments), core)

    def run_program(
        self,
        program: str | Path,
        function: str,
        arguments: Sequence[str] = (),
        *,
        stdin: str | Path | None = None,
        call: int = 1,
    ) -> NoiseResult:
        """Measure a function of a program, or of a library that it loads, with noise in one of its loops.

        The program runs twice up to that call, once to record it and once to measure, and ends there. Copies of the
        function run in processes forked from it, on its memory; they cannot reach files, devices or other processes.

        Parameters
        ----------
        program : str or Path
            A program (x86-64, Linux).
        function : str
            The function, as its source or its symbol names it, or ``lib.so:function``.
        arguments : sequence of str
            The program's words.
        stdin : path, optional
            What the program reads from its standard input; nothing by default.
        call : int
            Which call of the function; 1 is the first.

        Raises
        ------
        SettingError, UnavailableError
            As `run` does.
        DataError
            No noise can be added, with the reason; or the function is not called so often, or calling it again and
            again would do harm: it reads or writes files, say, or waits for other threads.

        Examples
        --------
        >>> pk.Noise(kinds=["nop", "latency"]).run_program("./solver", "smooth", ["48"])  # doctest: +SKIP
        """
        core = self._model()
        return self._profile(_recorded_program(program, function, arguments, stdin, call), self.at, core)

    def each_loop_of_program(
        self,
        program: str | Path,
        function: str,
        arguments: Sequence[str] = (),
        *,
        stdin: str | Path | None = None,
        call: int = 1,
    ) -> tuple[NoiseResult, ...]:
        """Measure a function of a program with noise in each of its innermost loops: `run_program` and `each_loop`.

        `arguments`, `stdin` and `call` are those of `run_program`.
        """
        core = self._model()
        return self._each(_recorded_program(program, function, arguments, stdin, call), core)

    def _each(self, recorded: _Recorded, core: Gus | None) -> tuple[NoiseResult, ...]:
        from perfkit.collectors.noise.function import read_function

        function = read_function(ElfFile(recorded.path), recorded.symbol)
        executed = _executed(recorded.trace)
        work = {loop.header: sum(executed.get(i.ip, 0) for i in function.body(loop)) for loop in function.innermost}
        whole = sum(executed.get(i.ip, 0) for i in function.instructions)
        worth = sorted((at for at in work if work[at] >= max(1, _LEAST_SHARE * whole)), key=lambda at: -work[at])
        results, reasons = [], []
        for at in worth:
            try:
                results.append(self._profile(recorded, at, core))
            except DataError as reason:
                reasons.append(f"the loop at {at:#x} ({work[at] / whole:.0%} of the instructions): {reason}")
        if not results:
            raise DataError(f"no loop of {recorded.name} can be measured: {'; '.join(reasons) or 'none ran'}")
        for told in reasons:
            warnings.warn(f"not measured: {told}", PerfkitWarning, stacklevel=3)
        return tuple(results)

    def without(self, kernel: "Kernel", *arguments: Any) -> "pd.DataFrame":
        """Measure a kernel without the vector loads of a loop, and without its vector arithmetic (DECAN).

        **The copies compute something else**: this says what the loop would take without them, not how to write it.
        Only instructions go whose results can reach neither an address nor a branch.

        Parameters
        ----------
        kernel, *arguments
            As of `run`.

        Returns
        -------
        DataFrame
            One row per way: ``removed``, ``instructions`` (of the loop, gone or replaced by a plain load),
            ``time`` (relative to the plain copy: the median of the processes' medians), ``low`` and ``high`` (the least
            and the largest of the processes), ``quiet`` (on a quiet core; else it is not to be trusted) and ``why_not``
            (where nothing can be removed, the reason; the figures are missing then).

        Raises
        ------
        SettingError, DataError, UnavailableError
            As `run` does.
        """
        pd = of_extra("pandas")

        from perfkit.collectors.kernels import expect_kernel
        from perfkit.collectors.noise.copies import NoiseVariant
        from perfkit.collectors.noise.kinds import NoRoom
        from perfkit.collectors.noise.measure import check_machine, measure
        from perfkit.collectors.noise.place import noise_place
        from perfkit.collectors.noise.removal import REMOVALS, removed

        expect_kernel(kernel, "Noise.without")
        check_machine(kernel.isa)
        trace = kernel.trace(*arguments, limit=_RECORDED)
        function, loop, _ = _loop(kernel.path, kernel.function, trace, self.at)
        place, gone, why = noise_place(function, loop), {}, {}
        for way in REMOVALS:
            try:
                gone[way] = len(removed(function, loop, place, way))
            except NoRoom as reason:
                why[way] = str(reason)
        variants = [NoiseVariant("", 0), *(NoiseVariant(way, 0) for way in gone)]
        rows = [{"removed": way, "why_not": reason} for way, reason in why.items()]
        if gone:
            found = measure(
                kernel, arguments, loop.header, variants, processes=self.processes, rounds=self.rounds,
                seconds=self.seconds, seed=self.seed,
            )  # fmt: skip
            for k, variant in enumerate(variants[1:], 1):
                point = _point(found, k, self.processes)
                about = {"removed": variant.kind, "instructions": gone[variant.kind], "time": point.pop("slowdown")}
                rows.append(about | point | {"why_not": ""})
        columns = ["removed", "instructions", "time", "low", "high", "turns", "quiet", "why_not"]
        return pd.DataFrame(rows, columns=columns)

    def _model(self) -> Gus | None:
        """Return the model; refuse what there is not before anything is run."""
        from perfkit.collectors.noise.kinds import kinds

        kinds(self.kinds)
        return None if self.core is None else Gus(self.core, warm="all")

    def _profile(self, recorded: _Recorded, at: str | int, core: Gus | None) -> NoiseResult:
        """Choose the variants, measure and simulate them."""
        from perfkit.collectors.noise.copies import NoiseVariant
        from perfkit.collectors.noise.instructions import kinds_like
        from perfkit.collectors.noise.kinds import KINDS, NO_HUGE, kinds, refused
        from perfkit.collectors.noise.place import noise_place, register_name

        wanted = kinds(self.kinds)
        trace = recorded.trace
        function, loop, executed = _loop(recorded.path, recorded.symbol, trace, at)
        turns, place = executed[loop.header], noise_place(function, loop)
        own = sum(executed.get(i.ip, 0) for i in function.body(loop)) / turns
        left_out = {each.name: why for each in wanted if (why := refused(each, place, flags()))}
        counts = self.counts or [max(1, round(own / _USUAL)) * count for count in COUNTS]
        variants = [NoiseVariant("", 0)]
        for kind in wanted:
            if kind.name not in left_out:
                few = (
                    sorted({min(n, kind.most) for n in (self.counts or COUNTS)}) if kind.most <= max(COUNTS) else counts
                )
                variants += [NoiseVariant(kind.name, n) for n in few]
        found = recorded.measured(
            loop.header, variants, processes=self.processes, rounds=self.rounds, seconds=self.seconds, seed=self.seed
        )
        left_out |= {v.kind: "it would change the kernel's results" for v in found.changed}
        left_out |= {v.kind: NO_HUGE for v in found.lacking}
        kept = [v for v in variants[1:] if v.kind not in left_out]
        if not kept:
            raise DataError(f"no noise can be added to {recorded.symbol}: {left_out}")
        known = [v for v in kept if KINDS[v.kind].modelled]
        simulated, simulated_cycles = _simulated(core, trace, loop.header, place, known) if core else ({}, np.nan)
        through = {"latency": f" through {register_name(place.carried)}"} if place.carried else {}
        curves = _curves(found, [k.name for k in wanted if k.name not in left_out], simulated, self.processes, through)
        curves["own"] = curves["kind"].isin(set().union(*map(kinds_like, function.body(loop))))
        calm = found.cycles[found.quiet] if found.quiet.any() else found.cycles[np.isfinite(found.cycles)]
        return NoiseResult(
            name=recorded.name,
            place=_described(function, trace, loop.header),
            curves=curves,
            instructions=own,
            cycles=float(np.median(calm)) / turns if trace.provenance.complete and len(calm) else np.nan,
            original=_beside_copy(found),
            least=self.least,
            host=processor_name(),
            core=core.core.name if core else "",
            simulated_cycles=simulated_cycles,
            refused=left_out,
            notes=_share(own * turns, trace),
        )


def _recorded(kernel: "Kernel", arguments: tuple[Any, ...]) -> _Recorded:
    from perfkit.collectors.kernels import expect_kernel
    from perfkit.collectors.noise.measure import check_machine, measure

    expect_kernel(kernel, "Noise")
    check_machine(kernel.isa)
    trace = kernel.trace(*arguments, limit=_RECORDED)
    return _Recorded(kernel.name, kernel.path, kernel.function, trace, partial(measure, kernel, arguments))


def _recorded_program(
    program: str | Path, function: str, arguments: Sequence[str], stdin: str | Path | None, call: int
) -> _Recorded:
    from perfkit.collectors.noise.measure import check_machine
    from perfkit.collectors.noise.program import measure_program
    from perfkit.collectors.profile.hot import check_program
    from perfkit.collectors.profile.sampled import Target
    from perfkit.collectors.tracer.tracer import Tracer
    from perfkit.diagnosis.named import named

    if isinstance(call, bool) or call < 1:
        raise SettingError(f"call is a whole number, 1 or more; found {call!r}")
    target = Target(
        a_path(program, "Noise.run_program").absolute(), tuple(map(str, arguments)), Path(stdin) if stdin else None
    )
    check_program(target)
    check_machine(ElfFile(target.program).isa)
    meant, _ = named(function, target, None)
    own = Path(meant.path).resolve() == target.program.resolve()
    library = "" if own else meant.path
    tracer = Tracer(
        limit=_RECORDED, skip=call - 1, early=True, library=library, stdin=target.stdin, backend="cloner"
    )  # fmt: skip
    trace = tracer.run(target.program, meant.symbol, target.arguments)
    measured = partial(
        measure_program, target.program, meant.symbol, target.arguments, library=library, stdin=target.stdin,
        call=call,
    )  # fmt: skip
    name = f"{meant.name} of {target.program.name}" + (f" (call {call})" if call > 1 else "")
    return _Recorded(name, Path(library or target.program), meant.symbol, trace, measured)


def _loop(path: Path, symbol: str, trace: "Trace", at: str | int) -> "tuple[FunctionCode, Loop, dict[int, int]]":
    """Return a function, the loop that is meant, and how often each of its instructions ran."""
    from perfkit.collectors.noise.function import read_function

    function = read_function(ElfFile(path), symbol)
    executed = _executed(trace)
    loop = function.loop_at(_address(at, function, trace, executed))
    if not executed.get(loop.header, 0):
        raise DataError(f"the loop of {symbol} at {loop.header:#x} did not run with these arguments")
    return function, loop, executed


def _share(executed: float, trace: "Trace") -> tuple[str, ...]:
    """Say so where a loop is only a part of what is timed: the call."""
    share = executed / max(1, trace.instruction_count)
    if share >= _WHOLE:
        return ()
    told = (
        f"this loop executes {share:.0%} of the call's instructions; cycles, slowdowns and slack are those of the "
        "whole call, so that what other code takes counts as slack of every kind"
    )
    return (told,)


def _executed(trace: "Trace") -> dict[int, int]:
    """Return how often each instruction ran, by its address in the file."""
    return dict(zip(trace.object_addresses().tolist(), trace.instruction_counts().tolist(), strict=True))


def _address(at: str | int, function: "FunctionCode", trace: "Trace", executed: dict[int, int]) -> int:
    """Return the address of an instruction in the loop that is meant."""
    if isinstance(at, int):
        return at
    if at == "innermost":
        return function.hottest(executed)
    name, _, line = at.rpartition(":")
    places = zip(trace.object_addresses().tolist(), trace.code.file, trace.code.line.tolist(), strict=True)
    inside = {i.ip for i in function.instructions}
    found = [
        pc for pc, file, number in places if pc in inside and str(number) == line and (not name or file.endswith(name))
    ]
    if not found:
        raise SettingError(f"no instruction of {function.name} that ran comes from {at!r}: expected 'innermost', an "
                           "address, or FILE:LINE, and code built with -g")  # fmt: skip
    return max(found, key=lambda pc: executed[pc])


def _described(function: "FunctionCode", trace: "Trace", header: int) -> str:
    k = int(np.flatnonzero(trace.object_addresses() == np.uint64(header))[0])
    file, line = trace.code.file[k], int(trace.code.line[k])
    return f"the loop of {function.name} at {header:#x}" + (f" ({file}:{line})" if line else "")


def _simulated(
    gus: Gus, trace: "Trace", header: int, place: "NoisePlace", variants: "Sequence[NoiseVariant]"
) -> "tuple[dict[NoiseVariant, float], float]":
    """Return the model's slowdown of each variant, and the cycles of an iteration with nothing added."""
    from perfkit.collectors.noise.copies import noise
    from perfkit.collectors.noise.traced import BUFFERS, with_noise

    at = int(trace.code.pc[np.flatnonzero(trace.object_addresses() == np.uint64(header))[0]])
    index = int(np.flatnonzero(trace.code.pc == np.uint64(at))[0])
    some = trace.head(_SIMULATED)
    if some.instruction_counts()[index] < _TURNS:
        some = trace
    plain = gus.run(some).cycles
    slower = {v: gus.run(with_noise(some, at, noise(v, place, BUFFERS))).cycles / plain for v in variants}
    return slower, plain / float(some.instruction_counts()[index])


def _curves(
    found: "Turns", kinds: Sequence[str], simulated: "dict[NoiseVariant, float]", processes: int, more: dict[str, str]
) -> "pd.DataFrame":
    """Return one row per kind and number of instructions, beginning with none."""
    pd = of_extra("pandas")

    from perfkit.collectors.noise.kinds import KINDS

    rows = []
    for kind in kinds:
        for k, variant in enumerate(found.variants):
            if variant.kind in ("", kind):
                point = _point(found, k, processes)
                plain = not variant.count and KINDS[kind].modelled
                model = 1.0 if plain else simulated.get(variant, np.nan)
                head = {"kind": kind, "resource": KINDS[kind].resource + more.get(kind, ""), "added": variant.count}
                rows.append(head | point | {"simulated": model if simulated else np.nan})
    return pd.DataFrame(rows)


def _beside_copy(found: "Turns") -> float:
    """Return the original's time over that of the plain copy where both stood between two runs of the plain copy.

    What runs after a plain copy finds the core in another state than what runs after a variant: a chain of
    additions in a call of 300 iterations takes 2.35 cycles per link there on a Zen 5, and 2.8 else. Some calls know
    two such times and nothing between them, where a median of turns leaps; so the means are compared, the tenth at
    either end taken for the value where it begins.
    """
    means = []
    for which in (-1, 0):
        mine = np.isfinite(found.ratio) & (found.which == which)
        calm = mine & found.quiet
        values = found.ratio[calm if calm.sum() >= _FEWEST else mine]
        means.append(float(np.clip(values, *np.quantile(values, [0.1, 0.9])).mean()) if len(values) else np.nan)
    return means[0] / means[1]


def _point(found: "Turns", variant: int, processes: int) -> dict[str, Any]:
    """Return the slowdown of a variant with its interval: from the quiet turns, or, if too few were quiet, from all."""
    for quiet, counts in ((True, found.quiet), (False, np.isfinite(found.ratio))):
        mine = counts & (found.which == variant)
        each = [found.ratio[mine & (found.process == p)] for p in range(processes)]
        medians = [float(np.median(values)) for values in each if len(values) >= (_FEWEST if quiet else 1)]
        if len(medians) >= (_ENOUGH if quiet else 1):
            return {
                "slowdown": float(np.median(medians)), "low": min(medians), "high": max(medians),
                "turns": int(sum(map(len, each))), "quiet": quiet,
            }  # fmt: skip
    return {"slowdown": np.nan, "low": np.nan, "high": np.nan, "turns": 0, "quiet": False}
