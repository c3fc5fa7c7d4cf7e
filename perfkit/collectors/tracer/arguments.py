"""A compiled kernel's arguments, against what its debug information says that it takes."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.collectors.tracer.lines import LONG_DOUBLE, parameter_kinds
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
    taken = parameter_kinds(kernel.path, kernel.function)
    if taken is None:
        _check_registers(kernel, values)
        return values
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
        return ["array", value]
    if isinstance(value, np.float32):
        return ["float", float(value)]
    if isinstance(value, float | np.floating):
        return ["double", float(value)]
    if isinstance(value, int | np.integer):
        return ["int", int(value)]
    raise SettingError(f"a kernel's argument is a number or a numpy array, not {type(value).__name__}")


def _fitted(what: str, kind: str, value: Any) -> list[Any]:
    """Return what describes a value for a parameter of a kind of `parameter_kinds`."""
    told = describe_argument(value)
    if not kind:
        return told
    if kind == LONG_DOUBLE:
        raise SettingError(f"{what} is a long double, which cannot be passed to a kernel: take a double and convert it")
    array = isinstance(value, np.ndarray)
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
