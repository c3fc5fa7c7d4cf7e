"""One word for where traces come from: shipped ones by name or pattern, trace files, or sources to run and record."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.base.files import is_folder
from perfkit.errors import MissingFileError, SettingError, closest, expect
from perfkit.trace.trace import Trace


def open_traces(
    source: str | Path,
    *,
    function: str = "",
    build: str = "",
    defines: str | Mapping[str, Any] = "",
    arguments: str = "",
    limit: int = 10_000_000,
) -> dict[str, Trace]:
    """Return the traces that a notebook's parameter or a command's argument names, by a short name each.

    Parameters
    ----------
    source : str or Path
        Names of shipped traces (``fig1a``), patterns of them (``correlation-v?-small``), trace files, or C and C++
        sources (``kernel.c``), which are compiled, run and recorded; several with commas between. A Path is one file.
    function : str
        Of a C source: the function ("" where it has only one).
    build : str
        Of a C source: ``scalar``, ``avx2`` or ``avx512`` ("": ``-O3 -march=native``).
    defines : str or mapping
        Of a C source: macros, ``"N=64,M=48"``.
    arguments : str
        Of a C source: what its function is called with, commas between: whole numbers, numbers with a point (double),
        and arrays by type and shape, ``f8[1000]``, ``f4[64x64]``, ``i4[100]``. Arrays of floating-point numbers hold
        values from 1 to 2, others count up from 0: enough where the values do not change what runs.
    limit : int
        Of a C source: record at most this many instructions.

    Raises
    ------
    FileNotFoundError
        There is no such file: of a Path, or of a name with a folder or an ending.
    SettingError
        Nothing has this name; the message names the nearest traces.

    Examples
    --------
    >>> import perfkit as pk
    >>> list(pk.open_traces("fig1?"))
    ['fig1a', 'fig1b']
    """
    from perfkit import datasets
    from perfkit.collectors.kernels import SOURCES

    how = (
        "give the path of a trace or of C code, a shipped trace or kernel by name, or several names separated by commas"
    )
    expect(isinstance(source, str | Path), source, "open_traces", "a name", how)
    shipped = [d.name.partition("/")[2] for d in datasets.catalogue() if d.format == "trace"]
    found: dict[str, Trace] = {}
    named = [str(source)] if isinstance(source, Path) else [part.strip() for part in source.split(",") if part.strip()]
    for each in (name.removeprefix("traces/") for name in named):
        if each.endswith(SOURCES):
            found[Path(each).stem] = _record(
                each, function, build, _macros(defines), kernel_arguments(arguments), limit
            )
        elif Path(each).is_file():
            found[Path(each).stem] = Trace.load(each)
        else:
            names = [name for name in shipped if fnmatchcase(name, each)]
            if not names and (isinstance(source, Path) or Path(each).suffix or "/" in each):
                raise MissingFileError(f"{each}: no such file{is_folder(each)}, and no shipped trace of this name")
            if not names:
                near = closest(each, shipped) or shipped[:3]
                raise SettingError(f"no trace, trace file, C or C++ source {each!r}; did you mean {', '.join(near)}?")
            found |= {name: datasets.load(f"traces/{name}") for name in sorted(names)}
    # A build may be a notebook's default, and changes nothing of what is recorded; the others say what to record.
    of_sources = {"function": function, "defines": defines, "arguments": arguments}
    unused = [name for name, value in of_sources.items() if value]
    if unused and not any(name.endswith(SOURCES) for name in named):
        raise SettingError(f"{unused[0]} is of C and C++ sources; {source} is recorded already: leave it out")
    if not found:
        raise SettingError("name a shipped trace, a trace file, or a C or C++ source; found nothing")
    return found


def _record(
    source: str, function: str, build: str, defines: Mapping[str, Any], arguments: Sequence[Any], limit: int
) -> Trace:
    from perfkit.collectors.kernels import compile_kernel

    kernel = compile_kernel(Path(source), function or None, build=build or None, defines=defines)
    return kernel.trace(*arguments, limit=limit, callees=True)


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
