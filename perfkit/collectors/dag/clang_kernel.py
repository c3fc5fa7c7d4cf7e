"""Front end (b) of the extended roofline: C and C++ through clang's IR."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.base.files import check_source, is_folder
from perfkit.collectors.dag.kernel_trace import KernelTrace, optimised, returnable, sizes, working_copies
from perfkit.collectors.dag.llvm_ir import instrument, only_function
from perfkit.errors import DataError, MissingFileError, SettingError, UnavailableError, expect

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

# Scalar code without contraction to fused operations, as the paper's clang made it.
FLAGS = ("-O3", "-fno-vectorize", "-fno-slp-vectorize", "-ffp-contract=off")
_LEVELS = {"0": 0, "": 1, "1": 1, "2": 2, "s": 2, "z": 2, "g": 1}  # of -O: others are 3
_INTEGERS = re.compile(r"^i(1|8|16|32|64)$")


def trace_c(
    source: str | Path,
    function: str,
    *arguments: Any,
    flags: Sequence[str] = FLAGS,
    compiler: str = "clang",
    count_all: bool = False,
    whole: bool = False,
    core: Microarchitecture | None = None,
) -> KernelTrace:
    """Compile a C or C++ function with clang so that running it yields its DAG.

    Parameters
    ----------
    source
        A C or C++ file (C++ by its suffix), a file of LLVM IR (``*.ll``), or C source text.
    function
        The function to trace; of a C++ function its plain name, where only one has it. "" where the source has only
        one that is not static.
    *arguments
        Contiguous arrays for pointers (or bytes, which get a zero at their end), numbers for numbers. The kernel works
        on copies of the arrays.
    flags
        Options for clang. Without -fno-vectorize loops are vectorised, and vector operations become nodes of their
        width; how wide they may be is the target's business (-mavx2).
    compiler
        The clang to use.
    count_all
        Keep the instructions that are no nodes: they take their place in fetch and in the reorder buffer, one cycle
        each, and nothing else. Off in the paper, which ignores them.
    whole
        Make nodes of integer operations, addresses, branches, and integer loads and stores, too. Off in the paper.
    core
        Of a whole kernel: whose latencies (of divisions of integers, square roots, conversions) these are; None: those
        of recent cores.

    Raises
    ------
    UnavailableError
        If there is no such compiler (``apt-get install clang``); numba kernels need none.
    DataError
        If the source does not compile, or defines no such function.
    MissingFileError
        If there is no such file.
    SettingError
        If no function is named and the source has several.

    Examples
    --------
    >>> x = np.zeros(100)
    >>> dag = pk.trace_c("kernel.c", "dot", x, x, 100)  # doctest: +SKIP
    """
    arguments = tuple(_characters(a) if isinstance(a, bytes | bytearray) else a for a in arguments)
    ir = _ir(source, list(flags), compiler)
    function = function or only_function(ir)
    code = instrument(ir, function, count_all, whole, core)
    if len(code.parameters) != len(arguments):
        raise SettingError(f"{function} has {len(code.parameters)} parameters, {len(arguments)} arguments were given")
    if not returnable(code.returns):
        raise SettingError(
            f"{function} returns {code.returns}, which cannot be taken from here: name a function that returns a "
            "number, a pointer or nothing"
        )
    copies = working_copies(arguments)
    native = [
        _native(pair[0].ctypes.data if pair else a, kind, k, function)
        for k, (kind, a, pair) in enumerate(zip(code.parameters, arguments, copies, strict=True))
    ]
    return KernelTrace(
        name=f"{function}({sizes(arguments)})",
        code=code,
        native=tuple(native),
        arrays=tuple(pair for pair in copies if pair),
        returns=code.returns,
        facts={"front end": compiler, "flags": " ".join(flags)},
    )


def _characters(text: bytes | bytearray) -> Any:
    """Return a C string: an array of its bytes and a zero."""
    return np.frombuffer(bytes(text) + b"\0", dtype=np.uint8)


def _native(value: Any, kind: str, position: int, function: str) -> Any:
    if isinstance(value, np.ndarray):
        raise SettingError(f"argument {position} of {function} is a {kind} there; an array was given")
    if kind in ("double", "float") and isinstance(value, int | float | np.number):
        return float(value)
    if (kind == "ptr" or _INTEGERS.match(kind)) and isinstance(value, int | np.integer):
        return int(value)
    raise SettingError(f"argument {position} of {function} is a {kind} there; {type(value).__name__} was given")


def _ir(source: str | Path, flags: list[str], compiler: str) -> str:
    """Return the LLVM IR of a source, with opaque pointers."""
    expect(isinstance(source, str | Path), source, "trace_c", "C code", "give its text, or the path of its file")
    is_file = isinstance(source, Path) or "\n" not in source
    path = Path(source) if is_file else None
    if path is not None and not path.is_file():
        raise MissingFileError(f"{path}: no such file{is_folder(path)} (C source text has more than one line)")
    if path is not None:
        check_source(path)
    if path is not None and path.suffix == ".ll":
        return path.read_text(encoding="utf-8")
    program = shutil.which(compiler)
    if program is None:
        raise UnavailableError(f"{compiler} was not found: install clang (apt-get install clang), or use trace_numba")
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "kernel.c"
            path.write_text(str(source), encoding="utf-8")
        # Clang only parses; the kit's LLVM optimises. (Clang 14 writes the pointers that this LLVM reads, but its own
        # optimiser crashes on them.)
        command = [program, *flags, *_pointer_flags(program), "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
        # Clang runs in a folder of its own: a relative path is one of the caller's folder.
        command += ["-fno-exceptions", "-o", "-", str(path.resolve())]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
        if "@llvm.fmuladd" in done.stdout and "+fma" not in done.stdout:
            # What a target without fused operations compiles to a multiplication and an addition.
            command.insert(-1, "-ffp-contract=off")
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=folder)
    if done.returncode and "exceptions disabled" in done.stderr:
        raise DataError(
            f"{path.name} throws or catches exceptions: a dependency graph does not have their ways out of a function, "
            "and the source is compiled with -fno-exceptions. Return an error instead (std::abort() where it never "
            "comes to that), leave throw and try out where no __cpp_exceptions is defined, or record the compiled "
            f"code, in which they may stay as long as none is thrown: perfkit gus {path.name}\n{done.stderr.strip()}"
        )
    if done.returncode:
        raise DataError(f"{path.name} does not compile with {' '.join(command[:-1])}:\n{done.stderr.strip()}")
    levels = [_LEVELS.get(flag[2:], 3) for flag in flags if flag.startswith("-O")]
    level = levels[-1] if levels else 3
    if level == 0:
        raise SettingError(
            f"{path.name} with {' '.join(flags)}: code is traced from -O1 on; trace a program built at -O0"
        )
    return optimised(done.stdout, "-fno-vectorize" not in flags, level)


def _pointer_flags(program: str) -> list[str]:
    """Return what makes an old clang write pointers without types, which the kit's LLVM reads."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major = re.search(r"version (\d+)", version)
    return ["-mllvm", "-opaque-pointers"] if major and int(major[1]) < 15 else []
