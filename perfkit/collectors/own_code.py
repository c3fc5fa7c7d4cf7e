"""One way in for one's own code: DAGs of C, C++ and Python functions, programs, traces and the paper's kernels."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perfkit.collectors.open_traces import BLOCK, kernel_arguments, names_in, open_traces, shell_words, source_kind
from perfkit.dag.doubts import SUBNORMAL
from perfkit.errors import MissingFileError, PerfkitError, PerfkitWarning, SettingError, UnavailableError, expect
from perfkit.trace.block import BasicBlock

if TYPE_CHECKING:
    from perfkit.collectors.dag.kernel_trace import KernelTrace
    from perfkit.collectors.dag.x86_dag import TraceSource
    from perfkit.dag.program import NodeSource
    from perfkit.machine.core import Microarchitecture
    from perfkit.trace.trace import Trace

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".ll")
_OTHER_SOURCES = (".f", ".for", ".f90", ".f95", ".f03", ".f08", ".rs", ".go", ".zig", ".s", ".asm", ".pyx")
# Arithmetic on SSE and AVX registers, which sets the flags of MXCSR.
_FLOATING = re.compile(r"v?(add|sub|mul|div|sqrt|fn?m(add|sub)\d*|cvt\w*)[sp][sd]\b")
_N = re.compile(r"\bN\b|(?<=[\[x])N|N(?=[x\]])")  # the size, in arguments


def open_dags(
    what: str | Path | BasicBlock,
    *,
    function: str = "",
    arguments: str | Sequence[str] = "",
    sizes: Sequence[int] = (),
    builds: Sequence[str] = (),
    whole: bool = True,
    core: Microarchitecture | None = None,
    limit: int = 10_000_000,
    refused: dict[str, PerfkitError] | None = None,
) -> dict[str, NodeSource]:
    """Return the DAGs that a notebook's parameter or a command's argument names, by a short name each.

    Parameters
    ----------
    what
        Kernels of the paper (``mmm_triple``), LLVM IR (``kernel.ll``), and all that `perfkit.open_traces` knows: C and
        C++ files, Python functions, programs, ``corpus:NAME``, basic blocks, trace files and shipped traces. Several
        with commas between. C, C++ and Python functions are compiled by LLVM here, and can be timed.
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
    refused
        Put here why one of several cannot be opened, by its name, and open the others; None: raise that. Where none can
        be opened, the first one's reason is raised.

    Functions of one name in several files are called "f of FILE".

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
    if isinstance(what, BasicBlock):
        what = f"{BLOCK}{what.hex}"
    expect(isinstance(what, str | Path), what, "open_dags", "a name", "give a kernel's, a trace's or C code's")
    opened: list[_Opened] = []
    functions = [name.strip() for name in function.split(",") if name.strip()]
    words = shell_words(arguments)
    named = names_in(what)
    _check_used({_kind(each) for each in named}, str(what), functions, words, sizes)
    for each, size, build in itertools.product(named, sizes or (0,), builds or ("",)):
        called = [_N.sub(str(size), word) for word in words] if size else words
        try:
            made = _opened(each, functions, called, size, build, whole, core, limit)
        except PerfkitError as error:
            if refused is None:
                raise
            refused[" ".join([each, *([f"({size})"] if size else []), *([build] if build else [])])] = error
            continue
        opened += [_Opened(name, each, size, dag) for name, dag in made.items()]
    if refused and not opened:
        raise next(iter(refused.values()))
    found = _by_name(opened)
    if not found:
        raise SettingError(
            "name a source, a Python function, a program, a trace or a kernel of the paper; found nothing"
        )
    return found


class _Opened(NamedTuple):
    """A DAG: its name, the file or whatever it is from, the size that was asked for (0: none)."""

    name: str
    path: str
    size: int
    dag: Any


def _by_name(opened: Sequence[_Opened]) -> dict[str, NodeSource]:
    """Return what was opened by name; where a name comes from several files, all of these are told apart by file."""
    found: dict[str, NodeSource] = {}
    for name, path, size, dag in opened:
        alike = list(dict.fromkeys(other.path for other in opened if other.name == name))
        if len(alike) > 1:
            short = Path(path).name
            name = f"{name} of {short if [Path(other).name for other in alike].count(short) == 1 else path}"
        # A DAG's own size is that of its first array, not the command's.
        found[name] = replace(dag, name=name) if (len(alike) > 1 or size) and dag.name != name else dag
    return found


def _kind(what: str) -> str:
    """Return what a name stands for: as for `open_traces`, or a kernel of the paper."""
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
    return source_kind(what)


def _check_used(kinds: set[str], what: str, functions: list[str], words: list[str], sizes: Sequence[int]) -> None:
    """Refuse what none of the names would use, and a file that is not there."""
    for name in names_in(what):
        named = Path(name).suffix in _SOURCES or (kinds == {"trace"} and "/" in name and not name.startswith("traces/"))
        if named and not Path(name).exists():
            raise MissingFileError(f"{name}: no such file")
    if not sizes and kinds <= {"source", "function"} and any(_N.search(word) for word in words):
        raise SettingError(
            f"N stands for a size in the arguments, and no size is given: expected --sizes 1000,100000 (sizes=[...]); "
            f"found {' '.join(words)!r}"
        )
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
        return {f"{what.rpartition(':')[2]}{suffix}": _from_python(what, arguments, whole, core, limit)}
    if kind == "program":
        recorded: dict[str, NodeSource] = {}
        for function in functions or [""]:
            for name, trace in open_traces(what, function=function, arguments=arguments, limit=limit).items():
                recorded[f"{name}{suffix}"] = nodes = _of(trace, whole, core)
                nodes.facts.update(_subnormal(Path(what), trace, arguments))
        return recorded
    try:
        traces = open_traces(what, limit=limit)
    except MissingFileError:
        raise
    except SettingError as error:
        raise SettingError(f"{error} (or a kernel of the paper: {', '.join(KERNELS)})") from error
    return {name: _of(trace, whole, core) for name, trace in traces.items()}


def _from_c(
    path: str, function: str, arguments: list[str], build: str, whole: bool, core: Microarchitecture | None, limit: int
) -> NodeSource:
    from perfkit.collectors.dag.clang_kernel import FLAGS, trace_c

    flags = tuple(build.split()) or FLAGS

    def make() -> KernelTrace:
        traced = trace_c(Path(path), function, *kernel_arguments(arguments), flags=flags, whole=whole, core=core)
        return replace(traced, name=f"{traced.name} {build}") if build else traced

    return _compiled(make, whole, core, limit)


def _from_python(
    what: str, arguments: list[str], whole: bool, core: Microarchitecture | None, limit: int
) -> NodeSource:
    from perfkit.collectors.dag.python_function import named_function

    given = kernel_arguments(arguments)
    return _compiled(lambda: named_function(what, given, whole, core), whole, core, limit)


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


def _subnormal(program: Path, trace: Trace, arguments: Sequence[str]) -> dict[str, str]:
    """Return that a program's function met subnormal numbers, as the processor's flags say after a run that is timed.

    Only of code that may: it takes a run of the program, of a second at most.
    """
    from perfkit.collectors.tracer.cloner import Refusal
    from perfkit.collectors.tracer.timed import time_calls

    if not any(_FLOATING.match(text) for text in trace.code.text):
        return {}
    with suppress(PerfkitError, Refusal):  # what cannot be timed is not known
        return {SUBNORMAL: str(int(time_calls(program, trace.provenance.function, arguments, seconds=1.0).subnormal))}
    return {}


def _of(trace: Trace, whole: bool, core: Microarchitecture | None) -> TraceSource:
    from perfkit.collectors.dag.x86_dag import trace_source

    return trace_source(trace, whole=whole, core=core if whole else None)
