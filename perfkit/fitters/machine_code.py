"""Functions that numba compiles where there is much to do.

Importing numba takes half a second and 50 MB: a method that needs it for large inputs only imports it then. Its
functions are plain ones, of lists and arrays alike: IEEE arithmetic has the same bits in Python and in machine code.
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any


@cache
def as_machine_code(function: Callable[..., Any]) -> Any:
    """Return what numba makes of a plain function of arrays and numbers, and of those that it calls; kept on disk."""
    from numba import njit

    assert isinstance(function, FunctionType)
    known = function.__globals__
    called = {name: known[name] for name in function.__code__.co_names if _is_ours(known.get(name))}
    # numba looks callees up among the globals, where they are plain.
    names = known | {name: as_machine_code(callee) for name, callee in called.items()}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return njit(cache=True, nogil=True)(copy)


def _is_ours(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] == __name__.partition(".")[0]
