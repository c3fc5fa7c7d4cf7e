"""One way in for one's own code: DAGs of C, C++ and Python functions, programs, traces and the paper's kernels."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.errors import MissingFileError, PerfkitError, PerfkitWarning, SettingError, UnavailableError, expect

if TYPE_CHECKING:
    from perfkit.collectors.dag.kernel_trace import KernelTrace
    from perfkit.dag.program import NodeSource
    from perfkit.machine.core import Microarchitecture
    from perfkit.trace.trace import Trace

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".ll")
_OTHER_SOURCES = (".f", ".for", ".f90", ".f95", ".f03", ".f08", ".rs", ".go", ".zig", ".s", ".asm", ".pyx")
_N = re.compile(r"\bN\b|(?<=[\[x])N|N(?=[x\]])")  # the size, in arguments
_PYTHON = re.compile(r"^([\w./-]+):(\w+)$")


def open_dags(
    what: str | Path,
    *,
    function: str = "",
    arguments: str | Sequence[str] = "",
    sizes: Sequence[int] = (),
    builds: Sequence[str] = (),
    whole: bool = True,
    core: Microarchitecture | None = None,
    limit: int = 10_000_000,
) -> dict[str, NodeSource]:
    """Return the DAGs that a notebook's parameter or a command's argument names, by a short name each.

    Parameters
    ----------
    what
        Several with commas between: C, C++ or LLVM IR files (``kernel.c``); Python functions that numba compiles
        (``module:function`` or ``file.py:function``); programs, run and recorded (``./program``); kernels of the paper
        (``mmm_triple``); and all that `perfkit.open_traces` knows: trace files and shipped traces. A Path is one file.
    function
        Of a source or a program the function; several with commas between. "" for a source that has only one.
    arguments
        What the function is called with, as in `perfkit.open_traces`: ``"f8[1000], 2.0, 1000"``; of a program its
        command line, as a shell splits it; or a word for each. ``N`` stands for each of `sizes`:
        ``"f8[NxN], f8[N], N"``.
    sizes
        Sizes to try, one DAG each.
    builds
        Of C and C++ sources options of clang, one DAG for each: ``["-O1", "-O3 -mavx2"]``. Without them scalar code at
        -O3, as in the paper.
    whole
        Trace integer work, addresses and branches, too; off: floating-point operations and accesses, as in the paper.
    core
        Take latencies of what is no node type of its own (divisions of integers, conversions) from this core's table.
    limit
        Record at most this many instructions (of the function and what it calls); of C, C++ and Python functions that
        execute more, and where `whole` is off, the nodes are those of LLVM's IR, not of the machine code.

    Raises
    ------
    FileNotFoundError
        There is no such file: of a Path, or of a name with a folder or an ending.
    SettingError
        Nothing has this name, or a source needs a function.

    Examples
    --------
    >>> list(open_dags("reduction", sizes=[8]))
    ['reduction(8)']
    """
    expect(isinstance(what, str | Path), what, "open_dags", "a name", "give a kernel's, a trace's or C code's")
    found: dict[str, NodeSource] = {}
    functions = [name.strip() for name in function.split(",") if name.strip()]
    words = _words(arguments) if isinstance(arguments, str) else list(arguments)
    named = [str(what)] if isinstance(what, Path) else [part.strip() for part in what.split(",") if part.strip()]
    _check_used({_kind(each) for each in named}, str(what), functions, words, sizes)
    for each in named:
        for size in sizes or (0,):
            called = [_N.sub(str(size), word) for word in words] if size else words
            for build in builds or ("",):
                opened = _opened(each, functions, called, size, build, whole, core, limit)
                # Programs of one function are builds of it: none may hide another.
                found |= {f"{n} of {Path(each).name}" if n in found else n: dag for n, dag in opened.items()}
    if not found:
        raise SettingError(
            "name a source, a Python function, a program, a trace or a kernel of the paper; found nothing"
        )
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingError(f"arguments are written as for a shell; found {text!r} ({error})") from error


def _kind(what: str) -> str:
    """Return what a name stands for."""
    from perfkit.collectors.dag.paper_kernels import KERNELS

    if what in KERNELS:
        return "kernel"
    if Path(what).suffix in _SOURCES:
        return "source"
    if Path(what).suffix.lower() in _OTHER_SOURCES and Path(what).is_file():
        raise SettingError(
            f"only C, C++, LLVM IR and Python are compiled here; build {what}, and name its program and the function: "
            "perfkit dag run ./program -f FUNCTION"
        )
    if _PYTHON.match(what):
        return "function"
    return "program" if _is_program(what) else "trace"


def _check_used(kinds: set[str], what: str, functions: list[str], words: list[str], sizes: Sequence[int]) -> None:
    """Refuse what none of the names would use."""
    if functions and kinds.isdisjoint({"source", "program"}):
        raise SettingError(f"a function ({functions[0]}) is of a source or a program; {what} is neither: leave it out")
    if words and kinds.isdisjoint({"source", "function", "program"}):
        raise SettingError(f"arguments ({' '.join(words)}) are for functions and programs; {what} is neither")
    if sizes and "kernel" not in kinds and not any(_N.search(word) for word in words):
        raise SettingError(f"sizes stand for N in the arguments, which have none: f8[N], N; found {' '.join(words)!r}")


def _opened(
    what: str,
    functions: list[str],
    arguments: list[str],
    size: int,
    build: str,
    whole: bool,
    core: Microarchitecture | None,
    limit: int,
) -> dict[str, NodeSource]:
    from perfkit.collectors.dag.paper_kernels import KERNELS

    suffix = f"({size})" if size else ""
    kind = _kind(what)
    if kind == "kernel" and not build:
        source = KERNELS[what].trace(size or None, whole=whole, core=core)
        return {source.name: source}
    if kind == "source":
        built = f" {build}" if build else ""
        traced = [_from_c(what, name, arguments, build, whole, core, limit) for name in functions or [""]]
        return {f"{each.name.partition('(')[0]}{suffix}{built}": each for each in traced}
    if build:
        raise SettingError(f"{what} is no C or C++ source, which builds ({build}) are made of: name the built programs")
    if kind == "function":
        module, _, name = what.rpartition(":")
        return {f"{name}{suffix}": _from_python(module, name, arguments, whole, core, limit)}
    if kind == "program":
        return {f"{n}{suffix}": _of(_recorded(what, n, arguments, limit), whole, core) for n in _named(what, functions)}
    from perfkit.collectors.open_traces import open_traces

    try:
        traces = open_traces(what, limit=limit)
    except MissingFileError:
        raise
    except SettingError as error:
        raise SettingError(f"{error} (or a kernel of the paper: {', '.join(KERNELS)})") from error
    return {name: _of(trace, whole, core) for name, trace in traces.items()}


def _named(what: str, functions: list[str]) -> list[str]:
    if not functions:
        raise SettingError(
            f"say which function of {what} to trace: --function NAME, or -p function=NAME in a report (in Python and "
            'in a notebook: function="NAME")'
        )
    return functions


def _from_c(
    path: str, function: str, arguments: list[str], build: str, whole: bool, core: Microarchitecture | None, limit: int
) -> NodeSource:
    from perfkit.collectors.dag.clang_kernel import FLAGS, trace_c
    from perfkit.collectors.open_traces import kernel_arguments

    flags = tuple(build.split()) or FLAGS

    def make() -> KernelTrace:
        traced = trace_c(Path(path), function, *kernel_arguments(arguments), flags=flags, whole=whole, core=core)
        return replace(traced, name=f"{traced.name} {build}") if build else traced

    return _compiled(make, whole, core, limit)


def _from_python(
    module: str, function: str, arguments: list[str], whole: bool, core: Microarchitecture | None, limit: int
) -> NodeSource:
    from numba.core.errors import NumbaError

    from perfkit.collectors.dag.numba_kernel import trace_numba
    from perfkit.collectors.open_traces import kernel_arguments

    loaded = _module(module)
    if not callable(getattr(loaded, function, None)):
        raise SettingError(f"{module} has no function {function!r}")
    called, given = getattr(loaded, function), kernel_arguments(arguments)
    try:
        return _compiled(lambda: trace_numba(called, *given, whole=whole, core=core), whole, core, limit)
    except PerfkitError:
        raise
    except (NumbaError, TypeError, ValueError, OverflowError) as error:  # what numba makes of wrong arguments
        said, words = " ".join(str(error).split())[:200], ", ".join(arguments) or "no arguments"
        raise SettingError(f"{module}:{function} cannot be compiled for {words}: {said}") from error


def _compiled(make: Callable[[], KernelTrace], whole: bool, core: Microarchitecture | None, limit: int) -> NodeSource:
    """Return the nodes of a kernel's machine code where the whole kernel is wanted, and where it can be recorded."""
    from perfkit.collectors.dag.kernel_trace import NOT_IN_IR
    from perfkit.collectors.dag.machine_code import machine_nodes

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kernel = make()
    nodes, why = None, ""
    if whole:
        try:
            nodes = machine_nodes(kernel, core, limit)
        except UnavailableError as error:
            why = str(error)
    for each in said:
        if nodes is None or NOT_IN_IR not in str(each.message):
            warnings.warn(each.message, each.category, stacklevel=2)
    if nodes is not None:
        return nodes
    if why:
        warnings.warn(
            f"{kernel.name} is scheduled by its LLVM IR, not by its machine code ({why}): jumps that LLVM makes of "
            "choices, and chains that it shortens, are not in it",
            PerfkitWarning,
            stacklevel=2,
        )
    return kernel


def _module(name: str) -> Any:
    """Import a module by its name, or a file of one."""
    path = Path(name if name.endswith(".py") else f"{name}.py")
    if not path.is_file():
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise SettingError(f"there is no Python module or file {name!r}: {error}") from error
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SettingError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _is_program(what: str) -> bool:
    path = Path(what)
    if not path.is_file() or not os.access(path, os.X_OK):
        return bool(os.sep not in what and not path.exists() and shutil.which(what))
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _recorded(program: str, function: str, arguments: list[str], limit: int) -> Trace:
    from perfkit.collectors.tracer.tracer import Tracer

    path = program if os.sep in program or not Path(program).exists() else str(Path(program).resolve())
    return Tracer(limit=limit, callees=True).run(path, function, arguments)


def _of(trace: Trace, whole: bool, core: Microarchitecture | None) -> NodeSource:
    from perfkit.collectors.dag.x86_dag import trace_source

    return trace_source(trace, whole=whole, core=core if whole else None)
