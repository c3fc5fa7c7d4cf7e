"""The way from a trace's static code to a `Program`, for every instruction set that can be simulated."""

from perfkit.errors import SettingError, UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.program import aarch64, x86
from perfkit.simulators.program.program import Forms, Program
from perfkit.trace.code import StaticCode


def lower(code: StaticCode, core: Microarchitecture, forms: Forms) -> Program:
    """Return the program that `code` is on `core`, with each form's figures taken from `forms`.

    Raises
    ------
    SettingError
        The core is of another instruction set.
    UnavailableError
        The code is RISC-V's, or the decoder is not installed.
    """
    if code.isa not in ("x86-64", "aarch64"):
        raise UnavailableError(
            f"Gus simulates x86-64 and AArch64 traces; this one is {code.isa}. What is missing: a decoder that tells "
            "which registers its instructions read and write, and a core with an instruction table. Recording works, "
            "and so does what needs only the executed instructions and their addresses"
        )
    if code.isa != core.isa:
        raise SettingError(f"the trace is {code.isa}, {core.title} is {core.isa}: choose a core of the trace's kind")
    return (aarch64 if code.isa == "aarch64" else x86).lower(code, core, forms)
