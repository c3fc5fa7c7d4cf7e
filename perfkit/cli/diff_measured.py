"""What the two sides of ``perfkit diff`` take on this machine, beside what was simulated of them."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfkit.cli.diff_side import DiffSide
from perfkit.errors import PerfkitError, PerfkitWarning, UnavailableError

if TYPE_CHECKING:
    from perfkit.simulators.gus.gus import GusResult

_PROCESSES, _SAMPLES, _PATIENCE, _TIMEOUT = 2, 20, 1.0, 30.0
_RUNS, _SECONDS = 2, 3.0  # of a program, taking turns, and how long each is watched
_ONLY_CALL = "the only call, which found in the caches what came before it"


@dataclass(frozen=True)
class MeasuredSides:
    """Cycles per call of both sides, or why there are none.

    Attributes
    ----------
    cycles : (float, float)
        Core cycles per call; not a number where nothing was measured.
    how : str
        What was measured, or why nothing was; "" where nobody would expect it (traces, another core).
    """

    cycles: tuple[float, float] = (float("nan"), float("nan"))
    how: str = ""


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
    if not all(side.runs_here for side in sides) or not _is_host(results):
        return MeasuredSides()
    if any(side.warm is False for side in sides):
        return MeasuredSides(how="calls with empty caches (--cold) are not measured")
    found = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # the recordings have told it
            if all(side.form == "program" for side in sides):
                say("timing the calls of both")
                return _of_programs(sides, results)
            for name, side, result in zip("AB", sides, results, strict=True):
                say(f"{name}: measuring {side.what}")
                found.append(_of_program(side, result) if side.form == "program" else _of_kernel(side, result))
    except PerfkitError as error:
        return MeasuredSides(how=f"nothing could be measured: {error}")
    return MeasuredSides((found[0], found[1]), "calls of each")


def _is_host(results: "Sequence[GusResult]") -> bool:
    from perfkit.machine.core import Microarchitecture

    try:
        host = Microarchitecture.load("host").name
    except PerfkitError:
        return False
    return all(result.settings.core.name == host for result in results)


def _of_kernel(side: DiffSide, result: "GusResult") -> float:
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
    return found.cycles


def _of_programs(sides: Sequence[DiffSide], results: "Sequence[GusResult]") -> MeasuredSides:
    """Time the calls of two programs in turns; the less disturbed run of each counts."""
    runs = [[_calls_of(*each) for each in zip(sides, results, strict=True)] for _ in range(_RUNS)]
    a, b = (min(float(np.median(cycles)) for cycles in of) for of in zip(*runs, strict=True))
    fewest = min(len(cycles) for of in runs for cycles in of)
    how = "calls within the programs, the middle one" if fewest > 1 else f"within the programs, {_ONLY_CALL}"
    return MeasuredSides((a, b), how)


def _of_program(side: DiffSide, result: "GusResult") -> float:
    """Return the middle of the times of all calls of a program's function; the first is one of them."""
    return float(np.median(_calls_of(side, result)))


def _calls_of(side: DiffSide, result: "GusResult") -> NDArray[np.float64]:
    """Return the cycles of each call of a program's function."""
    from perfkit.collectors.tracer.timed import time_calls
    from perfkit.diagnosis.calls import BRIEF

    function = side.inside or side.function or result.trace.provenance.function
    times = time_calls(side.path.absolute(), function, side.words, stdin=side.stdin, seconds=_SECONDS)
    if times.others:
        raise UnavailableError(f"{function} runs in several threads, and the calls of one alone can be timed")
    if not len(times.ticks):
        raise UnavailableError(f"no call of {function} returned within {_SECONDS:g} s")
    middle = float(np.median(times.cycles))
    if middle < BRIEF:
        raise UnavailableError(f"the calls of {function} are too short to be timed ({middle:,.0f} cycles)")
    return times.cycles
