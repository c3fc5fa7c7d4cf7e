"""A compiled kernel's arguments, against what its debug information says that it takes."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.collectors.tracer.lines import BY_VALUE, known_signature
from perfkit.collectors.tracer.registers_read import registers_read
from perfkit.errors import PerfkitWarning, SettingError, counted

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

_BYTES = {"i1", "u1"}  # a pointer to bytes may point to anything


def described_arguments(kernel: "Kernel", arguments: Sequence[Any]) -> list[list[Any]]:
    """Return a kernel's arguments as its process is told them: kind and value each.

    A whole number is converted for a floating-point parameter, as C does; nothing else is converted.

    Warns
    -----
    PerfkitWarning
        Without debug information: if the machine code reads an argument register in which nothing was passed.

    Raises
    ------
    SettingError
        Another number of arguments than the function takes, a number that its parameter cannot hold, or an array of
        another type; as far as its debug information tells.
    """
    values = [describe_argument(value) for value in arguments]
    known = known_signature(kernel.path, kernel.function)
    if known is None:
        _check_registers(kernel, values)
        return values
    if known.returns:
        raise SettingError(
            f"{kernel.function} returns {known.returns} in memory that its caller gives it, which no kernel is given: "
            "write a function around it that keeps what it returns, and returns a number or nothing"
        )
    taken = known.parameters
    if len(taken) != len(arguments):
        names = ", ".join(name for name, _ in taken)
        raise SettingError(
            f"{kernel.function} takes {counted(len(taken), 'arguments')} ({names or 'none'}), found "
            f"{len(arguments)}; give a number or a numpy array for each (as text: f8[1000], 2.0, 1000)"
        )
    return [
        _fitted(f"{kernel.function}: {name}", kind, value) for (name, kind), value in zip(taken, arguments, strict=True)
    ]


def _check_registers(kernel: "Kernel", values: Sequence[Sequence[Any]]) -> None:
    """Warn of argument registers that a kernel without debug information reads, and that nothing was passed in."""
    if kernel.isa != "x86-64":
        return
    given = [kind for kind, _ in values if kind in ("double", "float")]
    integers = len(values) - len(given)
    read = registers_read(elf_as_it_is(kernel.path), kernel.function)
    told = []
    if read.integers > integers:
        told.append(f"{counted(read.integers, 'whole numbers')} or pointers (found {integers})")
    if read.floats > len(given):
        told.append(
            f"{counted(read.floats, 'floating-point numbers')} (found {len(given)}; 100 is a whole number, 100.0 "
            "is a double)"
        )
    for k, kind in enumerate(given):
        single, double = k in read.singles, k in read.doubles
        if single != double and single != (kind == "float"):
            told.append(
                f"a {'float' if single else 'double'} as floating-point number {k + 1} (found a {kind}; "
                "in Python, numpy.float32(2) is a float)"
            )
    if told:
        warnings.warn(
            f"{kernel.function} of {kernel.path.name} has no debug information, and its code reads registers for "
            f"{' and '.join(told)}: what was not given is whatever lies there. Give all its arguments, or build it "
            "with -g to have them checked",
            PerfkitWarning,
            stacklevel=2,
        )


def describe_argument(value: Any) -> list[Any]:
    """Describe an argument for the child process."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iufcb":
            raise SettingError(f"arrays of {value.dtype} cannot be passed to a kernel")
        if not value.dtype.isnative:
            raise SettingError(
                f"an array of {value.dtype.str}: expected numbers in this machine's order of bytes, found the other, "
                f"in which a kernel would read other numbers; give array.astype('{value.dtype.str[1:]}')"
            )
        return ["array", value]
    if isinstance(value, np.float32):
        return ["float", float(value)]
    if isinstance(value, float | np.floating):
        return ["double", float(value)]
    if isinstance(value, int | np.integer):
        return ["int", int(value)]
    raise SettingError(f"a kernel's argument is a number or a numpy array, not {type(value).__name__}")


def _fitted(what: str, kind: str, value: Any) -> list[Any]:
    """Return what describes a value for a parameter of a kind of `Signature`."""
    told = describe_argument(value)
    if not kind:
        return told
    if kind.startswith(BY_VALUE):
        raise SettingError(
            f"{what} is {kind[1:]} by value, which cannot be passed to a kernel: take a pointer, or numbers and convert"
            " them"
        )
    array = isinstance(value, np.ndarray)
    if kind.startswith("&"):
        of = _words(kind[1:]) if kind[1:] else "something else than a number"
        if not array or (kind[1:] and not _points_to(np.dtype(kind[1:]), value.dtype)):
            found = f"an array of {value.dtype}" if array else value
            raise SettingError(
                f"{what} is a reference to {of}: expected an array of it (as text, of one: {kind[1:] or 'i1'}[1]); "
                f"found {found}"
            )
        return told
    if kind.startswith("*"):
        if array and not _points_to(np.dtype(kind[1:]), value.dtype):
            raise SettingError(f"{what} points to {_words(kind[1:])}; found an array of {value.dtype}")
        if not array and value != 0:
            raise SettingError(f"{what} is a pointer to {_words(kind[1:])}: expected an array, or 0; found {value}")
        return told
    if array:
        raise SettingError(f"{what} is {_words(kind)}: expected a number; found an array of {value.dtype}")
    if kind[0] == "f":
        return ["double" if kind == "f8" else "float", float(value)]
    limits = np.iinfo(kind)
    if told[0] != "int" or not limits.min <= told[1] <= limits.max:
        raise SettingError(
            f"{what} is {_words(kind)}: expected a whole number from {limits.min} to {limits.max}; found {value}"
        )
    return told


def _points_to(type_: np.dtype[Any], found: np.dtype[Any]) -> bool:
    if type_.str[1:] in _BYTES or found.kind in "cb":
        return True
    return type_.itemsize == found.itemsize and (type_.kind == "f") == (found.kind == "f")


def _words(kind: str) -> str:
    size = 8 * int(kind[1:])
    return {"f": f"{size}-bit floating-point", "i": f"a {size}-bit integer", "u": f"an unsigned {size}-bit integer"}[
        kind[0]
    ].replace("64-bit floating-point", "double").replace("32-bit floating-point", "float")  # fmt: skip
