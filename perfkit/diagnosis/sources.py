"""What is asked about where it is no program yet: a source file to compile, or a function to call with arguments."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.collectors.kernels import compile_kernel, library_kernel
from perfkit.collectors.open_traces import kernel_arguments
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.lines import known_signature
from perfkit.errors import DataError, FormatError, SettingError, UnavailableError

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

# Suffix -> the compiler, and what it is told unless flags are given.
_NATIVE = "-O3 -march=native"
LANGUAGES = {
    ".c": ("gcc", _NATIVE),
    ".cc": ("g++", _NATIVE),
    ".cpp": ("g++", _NATIVE),
    ".cxx": ("g++", _NATIVE),
    ".f90": ("gfortran", _NATIVE),
    ".f": ("gfortran", _NATIVE),
    ".rs": ("rustc", "-C opt-level=3 -C target-cpu=native"),
}
_CALLED = (".c", ".cc", ".cpp", ".cxx")  # languages whose functions can be called without a program
_NO_MAIN = ("undefined reference to `main'", "undefined symbol: main", "E0601")
_WHOLE, _LENGTH = 1000, 1 << 20  # a whole number, and an array's elements: n times n of them are there


@contextmanager
def built(path: Path, flags: str, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield the program that a source file is compiled to; the file itself where it is none, or has no main function.

    Raises
    ------
    DataError
        The source does not compile, with the compiler's words.
    SettingError
        There are flags, and nothing to compile.
    UnavailableError
        There is no compiler for it.
    """
    if path.suffix not in LANGUAGES or not path.is_file():
        if flags:
            raise SettingError(f"flags are for source files ({', '.join(LANGUAGES)}); {path.name} is built already")
        yield path
        return
    compiler, usual = LANGUAGES[path.suffix]
    if shutil.which(compiler) is None:
        raise UnavailableError(f"no compiler {compiler!r} for {path.name} on this machine; install it, or build it")
    with tempfile.TemporaryDirectory(prefix="perfkit-built-") as folder:
        program = Path(folder) / path.stem
        say(f"compiling {path.name} ({' '.join([compiler, *(flags or usual).split()])})")
        words = [compiler, "-g", *(flags or usual).split(), str(path), "-o", str(program)]
        done = subprocess.run(
            words if compiler == "rustc" else [*words, "-lm"], capture_output=True, text=True, errors="replace",
            check=False, cwd=folder,
            env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
        if not done.returncode:
            yield program
            return
        if not any(mark in done.stderr for mark in _NO_MAIN):
            raise DataError(f"{compiler} refuses {path.name} (status {done.returncode}):\n{done.stderr.strip()[:4000]}")
    if path.suffix not in _CALLED:
        raise SettingError(
            f"{path.name} has no main program to run: build it as a library that exports the function, and ask about "
            "LIBRARY.so:FUNCTION, or about a program that calls it"
        )
    yield path


def is_called(path: Path) -> bool:
    """Whether a file is no program: a source without a main function, or a library, of which a function is called."""
    if path.suffix in _CALLED:
        return path.is_file()
    try:
        return path.is_file() and not ElfFile(path).is_program and ".so" in path.name
    except FormatError:
        return False


def called_kernel(
    path: Path, made: Path, function: str, words: Sequence[str], flags: str
) -> "tuple[Kernel, list[Any], tuple[str, ...]]":
    """Return a function of a source or a library as a kernel, its arguments, and what is to be said of these.

    Raises
    ------
    SettingError
        The function is to be named, or no arguments can be made for it.
    """
    if path.suffix in _CALLED:
        kernel = compile_kernel(made, function or None, flags=flags or _NATIVE, compiler=LANGUAGES[path.suffix][0])
    elif function:
        kernel = library_kernel(path, function)
    else:
        raise SettingError(f"say which function of {path.name}: -f FUNCTION")
    return kernel, *arguments_of(kernel, ", ".join(words), "behind --")


def arguments_of(kernel: "Kernel", text: str, where: str) -> tuple[list[Any], tuple[str, ...]]:
    """Return a kernel's arguments, made for its parameters where the text has none, and what is to be said of these.

    Parameters
    ----------
    kernel : Kernel
        What is called.
    text : str
        As `kernel_arguments` reads them.
    where : str
        Where a person gives them, for messages.

    Raises
    ------
    SettingError
        None can be made.
    """
    if text.strip():
        return kernel_arguments(text), ()
    made_up = generated(kernel.path, kernel.function)
    if not made_up:
        return [], ()
    note = (
        f"what {kernel.function} does with other arguments than those made for it here: {', '.join(made_up)} (give "
        f"your own {where})" + (_HOLD if any("[" in each for each in made_up) else "")
    )
    return kernel_arguments(", ".join(made_up)), (note,)


# `kernel_arguments` fills arrays so.
_HOLD = (
    "; arrays hold 0, 1, 2, ..., or 1 to 2 in turns of 64: branches that depend on them are predicted, on other data "
    "they may not be"
)


def generated(path: Path, function: str) -> list[str]:
    """Return arguments for the types of a function's parameters, as `kernel_arguments` reads them.

    Whole numbers are 1000, others 1.0; a pointer gets 2**20 elements, which is more than 1000 times 1000.

    Raises
    ------
    SettingError
        A parameter is of a type that none can be made for, or the library does not say.
    """
    known = known_signature(path, function)
    if known is None:
        raise SettingError(
            f"the parameters of {function} are not known (no debug information): give arguments behind --, such as "
            "f8[1000] 2.0 1000"
        )
    found = []
    for name, kind in known.parameters:
        if kind[:1] in ("*", "&") and kind[1:]:
            found.append(f"{kind[1:]}[{_LENGTH}]")
        elif kind[:1] in ("i", "u"):
            found.append(str(_WHOLE))
        elif kind == "f8":
            found.append("1.0")
        else:
            raise SettingError(
                f"no argument can be made for {name!r} of {function}: it is no number, and no pointer to numbers. Ask "
                "about a program that calls it, or give arguments behind --"
            )
    return found
