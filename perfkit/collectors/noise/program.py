"""Measure what noise costs a function of an existing program, or of a library that one loads, at one of its calls."""

import os
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from perfkit.collectors.host.measuring import build_timer
from perfkit.collectors.noise.copies import NoiseVariant
from perfkit.collectors.noise.measure import BUSY, Turns, turns_of
from perfkit.collectors.tracer.cloner import Refusal
from perfkit.collectors.tracer.timed import messages, program_child, tail
from perfkit.errors import DataError, UnavailableError

_CHILD = "perfkit.collectors.noise.program_child"


def measure_program(
    program: Path,
    function: str,
    arguments: Sequence[str],
    address: int,
    variants: Sequence[NoiseVariant],
    *,
    library: str = "",
    stdin: Path | None = None,
    call: int = 1,
    processes: int = 5,
    rounds: int = 8,
    seconds: float = 30.0,
    processor: int | None = None,
    timeout: float = 300.0,
    seed: int = 0,
) -> Turns:
    """Run a program up to a call of a function, and time copies of that call in turns, in processes of their own.

    The program ends there: it has run once, and only as far as that call. The copies cannot reach files, other
    processes or devices, and what a call changes in memory is brought back before each timing.

    Parameters
    ----------
    program, function, arguments
        What to run, and the function's symbol.
    address : int
        The header of the loop that gets the noise, before relocation.
    variants : sequence of NoiseVariant
        The first is the plain copy.
    library : str
        The library that holds the function, where it is not the program itself.
    stdin : Path, optional
        What the program reads; nothing by default.
    call : int
        Which call; 1 is the first.
    processes, rounds, seconds, processor, timeout, seed
        As of :func:`perfkit.collectors.noise.measure.measure`.

    Raises
    ------
    DataError
        The function is not called so often, or calling it again and again would do harm or cannot be checked, with why.
    UnavailableError
        The system forbids what is needed.
    """
    with (
        tempfile.TemporaryDirectory(prefix="perfkit-noise-") as scratch,
        as_file(files("perfkit.collectors.noise") / "program.c") as source,
    ):
        output = Path(scratch) / "turns.npz"
        specification = {
            "name": f"{function} of {program.name}",
            "timer": str(build_timer(Path(scratch), source)),
            "function": function,
            "library": library,
            "arguments": list(arguments),
            "call": call,
            "address": address,
            "variants": [[variant.kind, variant.count] for variant in variants],
            "processor": min(os.sched_getaffinity(0)) if processor is None else processor,
            "output": str(output),
            "processes": processes,
            "rounds": rounds,
            "seconds": seconds,
            "timeout": timeout,
            "seed": seed,
        }
        try:
            with program_child(_CHILD, program, specification, stdin) as (process, channel, printed):
                _, ended = messages(channel, process, time.monotonic() + timeout, timeout, None)
                said = tail(printed)
        except Refusal as why:
            if str(why) == BUSY:
                raise UnavailableError(BUSY) from why
            raise DataError(f"no noise is added to {function}: {why}") from why
        if not output.exists():
            how = f" (the run {ended})" if ended else ""
            raise DataError(
                f"{program.name} did not come to call {call} of {function}, or could not be measured there{how}. "
                f"{f'It printed: {said}' if said else ''}".strip()
            )
        with np.load(output, allow_pickle=False) as data:
            return turns_of({key: data[key] for key in data.files}, variants)
