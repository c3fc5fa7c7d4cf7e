"""What the two sides of ``perfkit diff`` take on this machine, beside what was simulated of them."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfkit.cli.diff_side import DiffSide
from perfkit.errors import PerfkitError, PerfkitWarning, UnavailableError
from perfkit.simulators.gus.diff import UNLIKE_CALLS

if TYPE_CHECKING:
    from perfkit.collectors.tracer.timed import CallTimes
    from perfkit.simulators.gus.gus import GusResult

_PROCESSES, _SAMPLES, _PATIENCE, _TIMEOUT = 2, 20, 1.0, 30.0
_RUNS, _FEWEST, _SECONDS = 6, 2, 3.0  # of a program, taking turns, and how long each is watched
_BUDGET = 8.0  # seconds after which no further run begins
_INTERRUPTED, _SLICE = 2.0, 50_000  # times the least of a call in all runs, and cycles beyond it: something else ran
_ALIKE = 0.8  # of the time of all calls, in calls about as long as those simulated
_ONLY_CALL = "the only call, which found in the caches what came before it"


@dataclass(frozen=True)
class MeasuredSides:
    """Cycles per call of both sides, or why there are none.

    Attributes
    ----------
    cycles : (float, float)
        Core cycles per call, all calls counted; not a number where nothing was measured.
    how : str
        What was measured, or why nothing was; "" where nobody would expect it (traces, another core).
    between : (float, float)
        How many times as fast B is at least and at most, as far as the runs of each agree.
    doubts : tuple of str
        Why the simulated calls, or the timed ones, are not what the program does.
    """

    cycles: tuple[float, float] = (float("nan"), float("nan"))
    how: str = ""
    between: tuple[float, float] = (float("nan"), float("nan"))
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Took:
    """Cycles per call of one side: the quickest run's, and between which figures the undisturbed runs lie.

    Attributes
    ----------
    cycles, low, high : float
        Per call, all calls counted.
    each : (calls,) float
        The least of each call in all runs; empty where calls were not timed one by one.
    stopped : bool
        Whether the run was not seen to its end.
    """

    cycles: float
    low: float
    high: float
    each: NDArray[np.float64]
    stopped: bool = False


def measure_sides(
    sides: Sequence[DiffSide], results: "Sequence[GusResult]", say: Callable[[str], None]
) -> MeasuredSides:
    """Measure calls of both sides, where they run here, and what was simulated is this machine's core.

    Parameters
    ----------
    sides : sequence of DiffSide
        Two, with their functions.
    results : sequence of GusResult
        Their simulations.
    say : callable
        Called with what is being done.
    """
    threads = of_threads(sides)
    if not all(side.runs_here for side in sides) or not _is_host(results):
        return MeasuredSides(doubts=threads)
    if any(side.warm is False for side in sides):
        return MeasuredSides(how="calls with empty caches (--cold) are not measured", doubts=threads)
    took = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # the recordings have told it
            if all(side.form == "program" for side in sides):
                say("timing the calls of both")
                took = _of_programs(sides, results)
            else:
                for name, side, result in zip("AB", sides, results, strict=True):
                    say(f"{name}: measuring {side.what}")
                    is_program = side.form == "program"
                    took.append(_of_programs([side], [result])[0] if is_program else _of_kernel(side, result))
    except PerfkitError as error:
        return MeasuredSides(how=f"nothing could be measured: {error}", doubts=threads)
    a, b = took
    unlike = (_unlike(*each) for each in zip("AB", sides, results, took, strict=True))
    return MeasuredSides(
        (a.cycles, b.cycles), _how(a, b), (a.low / b.high, a.high / b.low), (*threads, *filter(None, unlike))
    )


def _how(a: _Took, b: _Took) -> str:
    """Say which calls were measured."""
    calls = [len(each.each) for each in (a, b)]
    if not all(calls):
        return "calls of each"
    if min(calls) == max(calls) == 1:
        return f"within the programs, {_ONLY_CALL}"
    which = "the first" if a.stopped or b.stopped else "all"
    if min(calls) == 1:
        once, other = ("A", "B") if calls[0] == 1 else ("B", "A")
        many = f"{which} {max(calls):,} calls of {other}, their mean in the quickest run"
        return f"within the programs, {_ONLY_CALL}, of {once}, and {many}"
    told = f"{calls[0]:,}" if calls[0] == calls[1] else f"{calls[0]:,} and {calls[1]:,}"
    return f"{which} {told} calls within the programs, their mean in the quickest run"


def of_threads(sides: Sequence[DiffSide]) -> tuple[str, ...]:
    """Say that programs can start threads, of which one alone is simulated and timed.

    Parameters
    ----------
    sides : sequence of DiffSide
        Two.
    """
    from perfkit.collectors.kernel_notes import starts_threads

    how = next(filter(None, (starts_threads(side.path) for side in sides if side.form == "program")), "")
    if not how:
        return ()
    told = (
        f"there may be several threads ({how}), which are not simulated together, and what single calls in one thread "
        "take is not what the program takes: time whole runs, and see perfkit why of each"
    )
    return (told,)


def _unlike(name: str, side: DiffSide, result: "GusResult", took: _Took) -> str:
    """Say that the calls that were simulated are not like the others; "" where they are."""
    from perfkit.diagnosis.calls import alike

    total, last = len(took.each), side.skip + side.repeat
    if total <= last:
        return ""
    share = alike(took.each, side.skip, side.repeat, result.cycles / side.repeat)
    if share >= _ALIKE:
        return ""
    which = f"call {last}" if side.repeat == 1 else f"calls {side.skip + 1} to {last}"
    return (
        f"{name}: what was simulated ({which} of {total:,}) {UNLIKE_CALLS}: calls about as long have {share:.0%} of "
        "the time of all, and what the others run is in no simulated figure (--skip and --repeat choose others)"
    )


def _is_host(results: "Sequence[GusResult]") -> bool:
    from perfkit.machine.core import Microarchitecture

    try:
        host = Microarchitecture.load("host").name
    except PerfkitError:
        return False
    return all(result.settings.core.name == host for result in results)


def _of_kernel(side: DiffSide, result: "GusResult") -> _Took:
    """Return a kernel's cycles per call; begun when the one before has ended where calls in a row would overlap."""
    from perfkit.collectors.host.true_cycles import true_cycles
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.diagnosis.kernel import OVERLAPPING

    values = kernel_arguments(side.words) if side.is_called else ()
    alone = result.settings.core.resource("rob").value > OVERLAPPING * result.trace.instruction_count / side.repeat
    found = true_cycles(
        side.kernel, *values, processes=_PROCESSES, repetitions=_SAMPLES, patience=_PATIENCE, timeout=_TIMEOUT,
        apart=alone,
    )  # fmt: skip
    if not found.quiet:
        raise UnavailableError("the core was never quiet, other programs are running")
    return _Took(found.cycles, *found.interval, np.zeros(0))


def _of_programs(sides: Sequence[DiffSide], results: "Sequence[GusResult]") -> list[_Took]:
    """Time the calls of programs in turns, as often as there is time for."""
    runs: list[list[CallTimes]] = []
    begun = time.monotonic()
    while len(runs) < _FEWEST or (len(runs) < _RUNS and time.monotonic() - begun < _BUDGET):
        runs.append([_calls_of(*each) for each in zip(sides, results, strict=True)])
    mine = list(zip(*runs, strict=True))
    fewest = [min(len(run.ticks) for run in each) for each in mine]
    stopped = [any(run.ended or run.unfinished for run in each) for each in mine]
    if any(stopped):  # the first calls of one are compared with as many of the other
        fewest = [min(fewest)] * len(mine)
    return [
        took(np.array([run.cycles[:count] for run in each]), any(stopped))
        for each, count in zip(mine, fewest, strict=True)
    ]


def took(cycles: NDArray[np.float64], stopped: bool = False) -> _Took:
    """Return what calls took of which each was timed in several runs: the mean of all, without what interrupted them.

    The interval is from the quickest run to the middle one: others only ever add to what a run takes.

    Parameters
    ----------
    cycles : (runs, calls) float
        Of each call.
    stopped : bool
        Whether the runs were not seen to their end.
    """
    least = cycles.min(axis=0)
    interrupted = (cycles > _INTERRUPTED * least) & (cycles > least + _SLICE)
    means = np.sort(np.where(interrupted, least, cycles).mean(axis=1))
    return _Took(float(means[0]), float(means[0]), float(means[len(means) // 2]), least, stopped)


def _calls_of(side: DiffSide, result: "GusResult") -> "CallTimes":
    """Return the times of each call of a program's function."""
    from perfkit.collectors.tracer.timed import time_calls
    from perfkit.diagnosis.calls import BRIEF

    function = side.inside or side.function or result.trace.provenance.function
    times = time_calls(side.path.absolute(), function, side.words, stdin=side.stdin, seconds=_SECONDS)
    if times.others:
        raise UnavailableError(f"{function} runs in several threads, and the calls of one alone can be timed")
    if not len(times.ticks):
        raise UnavailableError(f"no call of {function} returned within {_SECONDS:g} s")
    middle = float(np.median(times.cycles))
    if middle < BRIEF and float(times.cycles.mean()) < BRIEF:
        raise UnavailableError(f"the calls of {function} are too short to be timed ({middle:,.0f} cycles)")
    return times
