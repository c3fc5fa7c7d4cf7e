"""Front end (a) of the extended roofline: Python kernels that numba compiles. No C compiler is needed."""

from __future__ import annotations

import ctypes
import re
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.dag.kernel_trace import ROOM, KernelTrace, sizes, working_copies
from perfkit.collectors.dag.llvm_ir import instrument
from perfkit.errors import SettingError, expect

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

_COMPILING = threading.Lock()
_POINTER = re.compile(r'(%[\w.$-]+) = load ptr, ptr @"\.numba\.unresolved\$([^"]*)"')
_KEPT_OPTIONS = ("fastmath", "error_model", "boundscheck", "inline")


def trace_numba(
    function: Callable[..., Any],
    *arguments: Any,
    vectorize: bool = False,
    count_all: bool = False,
    whole: bool = False,
    core: Microarchitecture | None = None,
    name: str | None = None,
) -> KernelTrace:
    """Compile a Python function with numba so that running it yields its DAG.

    Parameters
    ----------
    function
        A function that numba can compile in nopython mode, or a numba function. Functions it calls are traced too.
    *arguments
        Contiguous arrays, numbers and tuples of numbers. The kernel works on copies: they are not changed.
    vectorize
        Let LLVM vectorise; vector operations become nodes of their width. The paper's model is scalar.
    count_all
        Keep the instructions that are no nodes: they take their place in fetch and in the reorder buffer, one cycle
        each, and nothing else. Off in the paper, which ignores them.
    whole
        Make nodes of integer operations, addresses, branches, and integer loads and stores, too. Off in the paper.
    core
        Of a whole kernel: whose latencies (of divisions of integers, square roots, conversions) these are; None: those
        of recent cores.
    name
        What to call it; by default the function and the shapes of its arrays.

    Raises
    ------
    SettingError
        If an argument is of a kind that cannot be passed.
    PerfkitWarning
        If the function calls external functions with floating-point values (their work is not seen).

    Examples
    --------
    >>> import numpy as np
    >>> def scale(x, a):
    ...     for i in range(x.size):
    ...         x[i] *= a
    >>> trace_numba(scale, np.ones(4), 2.0).dag().counts
    {'A': 0, 'M': 4, 'D': 0, 'L': 4, 'S': 4}
    """
    import numba

    python = getattr(function, "py_func", function)
    copies = working_copies(arguments)
    actual = [pair[0] if pair else a for pair, a in zip(copies, arguments, strict=True)]
    made: dict[Any, Any] = {}
    with _vectorisation(vectorize):
        fresh = _fresh(function, made)
        fresh.compile(tuple(numba.typeof(a) for a in actual))
    signature = fresh.signatures[0]
    overload = fresh.overloads[signature]
    code = instrument(
        _linked(fresh.inspect_llvm(signature), made), overload.fndesc.mangled_name, count_all, whole, core
    )
    if (size := _returned(overload.signature)) > 8 * ROOM:
        raise SettingError(f"{python.__name__} returns {size:,} bytes; at most {8 * ROOM:,} can be taken")
    result, exception = (ctypes.c_int64 * ROOM)(), ctypes.c_void_p()
    values = [ctypes.addressof(result), ctypes.addressof(exception), *(v for a in actual for v in _flattened(a))]
    if len(values) != len(code.parameters):
        raise SettingError(
            f"{python.__name__}: {len(code.parameters) - 2} native arguments expected, {len(values) - 2} made of those "
            "given; pass contiguous arrays, numbers and tuples of numbers"
        )
    return KernelTrace(
        name=name or f"{python.__name__}({sizes(arguments)})",
        code=code,
        native=tuple(values),
        arrays=tuple(pair for pair in copies if pair),
        returns="i32",
        status=True,
        facts={"front end": f"numba {numba.__version__}", "vectorised": str(vectorize)},
        _loaded={"keep": (result, exception, fresh)},
    )


def _returned(signature: Any) -> int:
    """Return the bytes of what a function with such a signature returns."""
    from numba.core.registry import cpu_target

    context: Any = cpu_target.target_context
    return int(context.get_abi_sizeof(context.get_value_type(signature.return_type)))


@contextmanager
def _vectorisation(wanted: bool) -> Iterator[None]:
    """Have numba compile with or without vectorisation. Numba has only a process-wide setting: it is put back."""
    from numba.core import config as numba_config

    config: Any = numba_config
    with _COMPILING:
        before = config.LOOP_VECTORIZE, config.SLP_VECTORIZE
        config.LOOP_VECTORIZE = config.SLP_VECTORIZE = int(wanted)
        try:
            yield
        finally:
            config.LOOP_VECTORIZE, config.SLP_VECTORIZE = before


def _fresh(function: Any, made: dict[Any, Any]) -> Any:
    """Return a new numba function of the same Python function, and of all numba functions it refers to.

    Those that exist may have been compiled already, with vectorisation.
    """
    import numba
    from numba.core.dispatcher import Dispatcher

    python = getattr(function, "py_func", function)
    how = "define it with def in Python, with or without @numba.njit"
    expect(isinstance(python, types.FunctionType), function, "trace_numba", "a function", how)
    if python in made:
        return made[python]
    names = dict(python.__globals__)
    cells = tuple(types.CellType() for _ in python.__closure__ or ())
    clone = types.FunctionType(python.__code__, names, python.__name__, python.__defaults__, cells or None)
    clone.__kwdefaults__, clone.__module__ = python.__kwdefaults__, python.__module__
    options = {k: v for k, v in getattr(function, "targetoptions", {}).items() if k in _KEPT_OPTIONS}
    made[python] = numba.njit(**options)(clone)
    for name in _referred(python.__code__):
        if isinstance(names.get(name), Dispatcher):
            names[name] = _fresh(names[name], made)
    for cell, old in zip(cells, python.__closure__ or (), strict=True):
        value = old.cell_contents
        cell.cell_contents = _fresh(value, made) if isinstance(value, Dispatcher) else value
    return made[python]


def _referred(code: types.CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(_referred, inner))


def _linked(ir: str, made: dict[Any, Any]) -> str:
    """Resolve the function pointers by which numba lets functions with several signatures call each other."""
    import llvmlite.binding as llvm

    libraries = {
        overload.fndesc.mangled_name: overload.library
        for dispatcher in made.values()
        for overload in dispatcher.overloads.values()
    }
    linked: set[str] = set()
    while missing := {name for _, name in _POINTER.findall(ir) if name in libraries} - linked:
        name = missing.pop()
        linked.add(name)
        if not re.search(rf'^define .*@"?{re.escape(name)}"?\(', ir, re.MULTILINE):
            module = llvm.parse_assembly(ir)
            module.link_in(llvm.parse_assembly(libraries[name].get_llvm_str()))
            ir = str(module)
    functions = re.split(r"^(?=define )", ir, flags=re.MULTILINE)
    return "".join(_direct(text) for text in functions)


def _direct(function: str) -> str:
    """Turn a function's calls through such pointers into direct ones."""
    for value, name in _POINTER.findall(function):
        function = function.replace(f" {value}(", f' @"{name}"(')
    return function


def _flattened(argument: Any) -> list[Any]:
    """Return an argument as numba's native convention passes it."""
    if isinstance(argument, np.ndarray):
        return [None, None, argument.size, argument.itemsize, argument.ctypes.data, *argument.shape, *argument.strides]
    if isinstance(argument, tuple):
        return [value for item in argument for value in _flattened(item)]
    if isinstance(argument, bool | int | float | np.bool_ | np.integer | np.floating):
        return [argument.item() if isinstance(argument, np.generic) else argument]
    raise SettingError(f"a {type(argument).__name__} cannot be passed to a traced kernel; pass arrays, numbers, tuples")
