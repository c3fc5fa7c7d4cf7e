"""One word for where traces come from: shipped ones by name or pattern, trace files, or sources to run and record."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.base.files import is_folder
from perfkit.collectors.dag.python_function import NAMED
from perfkit.collectors.kernels import SOURCES
from perfkit.errors import MissingFileError, SettingError, UnavailableError, closest, expect
from perfkit.trace.block import BasicBlock
from perfkit.trace.trace import Trace

BLOCK, _CORPUS = "block:", "corpus:"


def open_traces(
    source: str | Path | BasicBlock,
    *,
    function: str = "",
    build: str = "",
    flags: str = "",
    defines: str | Mapping[str, Any] = "",
    arguments: str | Sequence[str] = "",
    limit: int = 10_000_000,
) -> dict[str, Trace]:
    """Return the traces that a notebook's parameter or a command's argument names, by a short name each.

    Parameters
    ----------
    source : str, Path or Block
        Names of shipped traces (``fig1a``), patterns of them (``correlation-v?-small``) and trace files; and what is
        run and recorded: C and C++ sources (``kernel.c``), kernels of the corpus (``corpus:gemm``), Python functions
        that numba compiles (``module:function``, ``file.py:function``) and programs (``./program``); several with
        commas between. A Path is one file. ``block:`` and machine code in hexadecimal digits or assembly text is a
        loop around that basic block, as a `Block` is, and nothing else stands beside it.
    function : str
        Of a C source ("" where it has only one) or a program: the function.
    build : str
        Of a C source: ``scalar``, ``avx2`` or ``avx512`` ("": ``-O3 -march=native``).
    flags : str
        Of a C source: options of the compiler instead of a build's.
    defines : str or mapping
        Of a C source: macros, ``"N=64,M=48"``.
    arguments : str or sequence of str
        What a function is called with, commas between: whole numbers, numbers with a point (double), and arrays by type
        and shape, ``f8[1000]``, ``f4[64x64]``, ``i4[100]``. Arrays of floating-point numbers hold values from 1 to 2,
        others count up from 0: enough where the values do not change what runs. Of a program its command line, as a
        shell splits it. Or a word for each.
    limit : int
        Of what is recorded: at most this many instructions.

    Raises
    ------
    FileNotFoundError
        There is no such file: of a Path, or of a name with a folder or an ending.
    SettingError
        Nothing has this name (the message names the nearest traces), or an option is of another kind of source.

    Examples
    --------
    >>> import perfkit as pk
    >>> list(pk.open_traces("fig1?"))
    ['fig1a', 'fig1b']
    >>> pk.open_traces("block:4883c008")["block"].kind
    'generated'
    """
    how = (
        "give the path of a trace or of C code, a shipped trace or kernel by name, or several names separated by commas"
    )
    if isinstance(source, BasicBlock):
        source = f"{BLOCK}{source.hex}"
    expect(isinstance(source, str | Path), source, "open_traces", "a name", how)
    options = {"function": function, "build": build, "flags": flags, "defines": defines, "arguments": arguments}
    named = names_in(source)
    kinds = {name: source_kind(name) for name in named}
    unused = _unused(set(kinds.values()), options)
    recorded = set(kinds.values()) <= {"trace", "file"}  # opened first: a file may be no trace at all
    if unused and not recorded:
        raise SettingError(f"{unused} says nothing of {source}: leave it out")
    found: dict[str, Trace] = {}
    for name, kind in kinds.items():
        if kind == "trace":
            found |= _shipped(name, isinstance(source, Path))
        else:
            opened, trace = _RECORDERS[kind](name, options, limit)
            # Programs of one function stand beside each other.
            found[f"{opened} of {Path(name).name}" if opened in found else opened] = trace
    if unused:
        raise SettingError(f"{unused}: {source} is recorded already: leave it out")
    if not found:
        raise SettingError(
            "name a shipped trace, a trace file, or what is recorded: a source, a program; found nothing"
        )
    return found


def names_in(source: str | Path) -> list[str]:
    """Return the names that a text lists with commas; a block's instructions have commas of their own."""
    if isinstance(source, Path) or source.startswith(BLOCK):
        return [str(source)]
    return [part.strip() for part in source.split(",") if part.strip()]


def source_kind(name: str) -> str:
    """Return what a name stands for: source, corpus, block, program, function, file or trace (a shipped one)."""
    if name.startswith(BLOCK):
        return "block"
    if name.startswith(_CORPUS):
        return "corpus"
    if name.endswith(SOURCES):
        return "source"
    if _is_program(name):
        return "program"
    if Path(name).is_file():
        return "file"
    return "function" if NAMED.match(name) else "trace"


# Which options say something of what kind. A build may be a notebook's default: of what is recorded it says nothing.
_USED = {
    "function": {"source", "program"},
    "arguments": {"source", "program", "function"},
    "defines": {"source", "corpus"},
    "flags": {"source", "corpus"},
}


def _unused(kinds: set[str], options: Mapping[str, Any]) -> str:
    """Return an option that was given and says something of none of the kinds; "" where there is none."""
    return next((name for name, users in _USED.items() if options[name] and users.isdisjoint(kinds)), "")


def _shipped(name: str, is_path: bool) -> dict[str, Trace]:
    from perfkit import datasets

    shipped = [d.name.partition("/")[2] for d in datasets.catalogue() if d.format == "trace"]
    short = name.removeprefix("traces/")
    names = [each for each in shipped if fnmatchcase(each, short)]
    if not names and (is_path or Path(name).suffix or "/" in short):
        raise MissingFileError(f"{name}: no such file{is_folder(name)}, and no shipped trace of this name")
    if not names:
        near = closest(short, shipped) or shipped[:3]
        raise SettingError(f"no trace, trace file, C or C++ source {short!r}; did you mean {', '.join(near)}?")
    return {each: datasets.load(f"traces/{each}") for each in sorted(names)}


def _from_file(name: str, _: Mapping[str, Any], __: int) -> tuple[str, Trace]:
    return Path(name).stem, Trace.load(name)


def _from_source(name: str, options: Mapping[str, Any], limit: int) -> tuple[str, Trace]:
    from perfkit.collectors.kernels import compile_kernel

    built = {key: options[key] for key in ("build", "flags") if options[key]}
    kernel = compile_kernel(Path(name), options["function"] or None, defines=_macros(options["defines"]), **built)
    return Path(name).stem, kernel.trace(*kernel_arguments(options["arguments"]), limit=limit, callees=True)


def _from_corpus(name: str, options: Mapping[str, Any], limit: int) -> tuple[str, Trace]:
    from perfkit.collectors.kernels import corpus_kernel

    built = {key: options[key] for key in ("build", "flags") if options[key]}
    kernel = corpus_kernel(name.removeprefix(_CORPUS), defines=_macros(options["defines"]), **built)
    return kernel.name, kernel.trace(limit=limit)


def _from_block(name: str, _: Mapping[str, Any], __: int) -> tuple[str, Trace]:
    from perfkit.collectors.blocks.block import Block

    return "block", Block(name.removeprefix(BLOCK).strip()).trace()


def _from_function(name: str, options: Mapping[str, Any], limit: int) -> tuple[str, Trace]:
    """Record the machine code that numba makes of a Python function."""
    from perfkit.collectors.dag.machine_code import recorded_kernel
    from perfkit.collectors.dag.python_function import named_function

    kernel = named_function(name, kernel_arguments(options["arguments"]))
    try:
        return name.rpartition(":")[2], recorded_kernel(kernel, limit)
    except UnavailableError as error:
        raise UnavailableError(f"{name} cannot be recorded: {error}") from error


def _from_program(name: str, options: Mapping[str, Any], limit: int) -> tuple[str, Trace]:
    from perfkit.collectors.tracer.tracer import Tracer

    if not options["function"]:
        raise SettingError(
            f"say which function of {name} to trace: --function NAME, or -p function=NAME in a report (in Python and "
            'in a notebook: function="NAME")'
        )
    path = name if os.sep in name or not Path(name).exists() else str(Path(name).resolve())
    words = shell_words(options["arguments"])
    return options["function"], Tracer(limit=limit, callees=True).run(path, options["function"], words)


_RECORDERS = {
    "file": _from_file,
    "source": _from_source,
    "corpus": _from_corpus,
    "block": _from_block,
    "function": _from_function,
    "program": _from_program,
}


def _is_program(what: str) -> bool:
    path = Path(what)
    if not path.is_file() or not os.access(path, os.X_OK):
        return bool(os.sep not in what and not path.exists() and shutil.which(what))
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def shell_words(text: str | Sequence[str]) -> list[str]:
    """Return the words of arguments that are written as for a shell, or are words already."""
    if not isinstance(text, str):
        return list(text)
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingError(f"arguments are written as for a shell; found {text!r} ({error})") from error


def kernel_arguments(given: str | Sequence[str]) -> list[Any]:
    """Return the arguments that a text, or one text each, names, as `open_traces` says.

    Examples
    --------
    >>> from perfkit.collectors.open_traces import kernel_arguments
    >>> kernel_arguments("i4[3], 2.5, 7")
    [array([0, 1, 2], dtype=int32), 2.5, 7]
    """
    text = given if isinstance(given, str) else ",".join(given)
    return [_value(word.strip()) for word in text.split(",") if word.strip()]


def _value(word: str) -> Any:
    array = re.fullmatch(r"([fiu][1248]|c8|c16)\[(\d+(?:x\d+)*)\]", word)
    try:
        if array is None:
            return int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word)
        kind, shape = np.dtype(array[1]), tuple(int(n) for n in array[2].split("x"))
    except (ValueError, TypeError) as error:
        if word.startswith("--"):
            raise SettingError(f"options go before --, behind which all are arguments; found {word[:60]!r}") from error
        raise SettingError(
            f"an argument is a number or an array such as f8[1000] or i4[64x64], in words; found {word[:60]!r}"
        ) from error
    count = np.arange(int(np.prod(shape)))
    return (1 + count % 64 / 64 if kind.kind in "fc" else count).astype(kind).reshape(shape)


def _macros(defines: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(defines, str):
        return defines
    pairs = [part.partition("=") for part in defines.replace(" ", "").split(",") if part]
    if any(not name for name, _, _ in pairs):
        raise SettingError(f"macros are written NAME=VALUE with commas between; found {defines!r}")
    return {name: value or "1" for name, _, value in pairs}
