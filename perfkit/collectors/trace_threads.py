"""Record every thread of a region in one call: of a program, or of a kernel in C."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfkit.base.files import a_path
from perfkit.collectors.kernels import SOURCES, Kernel, compile_kernel
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import SettingError
from perfkit.trace.threads import ThreadTraces


def trace_threads(
    what: str | Path | Kernel, function: str = "", arguments: Sequence[Any] = (), **settings: Any
) -> ThreadTraces:
    """Record every thread that runs a function, or the parallel loops in it.

    Parameters
    ----------
    what : path or Kernel
        A program; a Python script, with ``library``, the library that it loads; a C file, which is compiled with
        ``-fopenmp``; or a compiled kernel.
    function : str
        The function of a program, or the one of a C file to be called where there are several.
    arguments : sequence
        A program's words, or a kernel's numbers and arrays.
    **settings
        Of `perfkit.collectors.Tracer`: limit (of each thread), skip, repeat, callees, timeout, library.

    Raises
    ------
    SettingError, DataError, UnavailableError
        As `perfkit.collectors.Tracer.run_threads` does.

    Examples
    --------
    >>> traces = pk.trace_threads("./a.out", "solve", ["200"])  # doctest: +SKIP
    >>> pk.run_threads(pk.Gus("zen4"), traces).to_frame()           # doctest: +SKIP
    """
    tracer = Tracer(**settings)
    if isinstance(what, Kernel):
        return tracer.run_kernel_threads(what, *arguments)
    if a_path(what, "trace_threads").suffix in SOURCES:
        kernel = compile_kernel(Path(what), function or None, flags="-O2 -fopenmp")
        return tracer.run_kernel_threads(kernel, *arguments)
    if not function:
        raise SettingError("say which function of the program to record")
    return tracer.run_threads(what, function, [str(word) for word in arguments])
