"""`why_kernel`: why a compiled kernel is slow, called with arguments of one's own."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfkit.collectors.host.compare import compare
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.collectors.kernels import expect_kernel
from perfkit.collectors.tracer.bounds import BeyondWarning
from perfkit.diagnosis.calls import share_of_counted
from perfkit.diagnosis.diagnosis import Diagnosis, Measured
from perfkit.diagnosis.opinions import opinions
from perfkit.errors import PerfkitError, PerfkitWarning
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

_PROCESSES, _SAMPLES = 2, 40
_ROUNDS, _IN = 12, 9  # of calls one by one, and the processes they are timed in
OVERLAPPING = 0.05  # share of a call that fits into the reorder buffer: calls in a row would overlap so much
_COUNT_TO = 300_000_000  # instructions of a call of which a part is recorded: so much is counted
_IN_ALL = 100_000_000  # instructions of all timed calls of a process, about, where a call has millions
_FEWEST = 10
_CALLS = 2  # the first meets cold caches, and is not the one that is recorded


def why_kernel(
    kernel: "Kernel", *arguments: Any, core: str = "host", limit: int = 3_000_000, patience: float = 1.0
) -> Diagnosis:
    """Say why a kernel is slow: what holds one call of it back, on which line, and what would help.

    Parameters
    ----------
    kernel : Kernel
        From `perfkit.collectors.compile_kernel`, `corpus_kernel` or `library_kernel`.
    *arguments
        As for `Kernel.trace`. The recorded call is the second: the first has brought the data into the caches.
    core : str
        A core's name, a core file, or ``host``.
    limit : int
        Record this many instructions at most.
    patience : float
        Seconds to wait for a quiet core to measure on.

    Examples
    --------
    >>> import perfkit as pk
    >>> kernel = pk.collectors.compile_kernel("long f(long n) { return n * n; }")  # doctest: +SKIP
    >>> print(pk.why_kernel(kernel, 7))  # doctest: +SKIP
    """
    expect_kernel(kernel, "why_kernel")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PerfkitWarning)  # said in the answer
        trace = kernel.trace(*arguments, skip=_CALLS - 1, limit=limit, callees=True, count_to=_COUNT_TO)
    for each in caught:
        if not issubclass(each.category, PerfkitWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    beyond = tuple(
        f"an array is too small: {each.message}" for each in caught if issubclass(each.category, BeyondWarning)
    )
    host = Microarchitecture.load(core)
    result = Gus(host, warm="all").run(trace)
    origin, unseen = trace.provenance, ["how long it takes with other data, or in a program"]
    part = 1.0 if origin.complete else share_of_counted(trace, trace)
    measured, why_not = None, f"only a part of the call is recorded ({origin.stopped})"
    if origin.complete and host.resource("rob").value > OVERLAPPING * trace.instruction_count:
        measured, why_not = _measured_alone(kernel, arguments, patience)
        unseen.append("calls in a row, which overlap where one is so short: each was timed after the last had ended")
    elif part is not None:
        measured, why_not = _measured(kernel, arguments, patience, trace.instruction_count / part)
    if measured is not None and part is not None and part < 1:
        measured = replace(measured, cycles=part * measured.cycles, high=part * measured.high, part=part)
    if not origin.complete:
        unseen.append(f"the rest of the call: recording ended at the {origin.stopped}")
    if left := origin.extra.get("not_followed_calls"):
        unseen.append(f"calls that were not followed: {left}")
    found = Diagnosis(
        program=kernel.name, function=kernel.function, symbol=kernel.function, file=kernel.file.name,
        chosen="the kernel", candidates=(), profiled="", share=None, result=result, measured=measured,
        not_measured=why_not, opinions=(), unseen=tuple(unseen),
        sources={name: tuple(text.splitlines()) for name, text in origin.sources.items()}, doubts=beyond,
    )  # fmt: skip
    return found.but(opinions=opinions(found, None))


def _measured_alone(kernel: "Kernel", arguments: tuple[Any, ...], patience: float) -> tuple[Measured | None, str]:
    """Return the cycles of a call that begins when the one before has ended, as the simulated one does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)
            found = compare(
                kernel, kernel, *arguments, apart=True, processes=_IN, rounds=_ROUNDS, least=0.0, patience=2 * patience
            )
    except PerfkitError as error:
        return None, str(error)
    if not found.quiet:
        return None, "the core was never quiet: other programs are running"
    return Measured(min(found.cycles), max(found.cycles), 2, 1), ""


def _measured(
    kernel: "Kernel", arguments: tuple[Any, ...], patience: float, instructions: float
) -> tuple[Measured | None, str]:
    """Return the cycles of a call of so many instructions on a quiet core, or why there are none."""
    samples = max(_FEWEST, min(_SAMPLES, int(_IN_ALL / instructions)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)
            cycles = true_cycles(kernel, *arguments, processes=_PROCESSES, repetitions=samples, patience=patience)
    except PerfkitError as error:
        return None, str(error)
    if not cycles.quiet:
        return None, "the core was never quiet: other programs are running"
    return Measured(cycles.cycles, max(cycles.cycles, cycles.interval[1]), _PROCESSES, 1), ""
