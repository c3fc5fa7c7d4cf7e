"""How the simulators' inner loops are compiled by numba.

They allocate nothing, so the counting of references to arrays, which costs more than the work done, is switched off
(the option's underscore is why `njit` loses its type here).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.extending import overload

_njit: Any = numba.njit
inlined = _njit(forceinline=True, _nrt=False)
helper = _njit(_nrt=False)


def implements(
    function: Callable[..., Any], fits: Callable[..., bool], *, inline: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: what a function, never run as Python, does for arguments whose numba types fit.

    Inlining pays in speed; where that does not matter, without it compiling takes half the time.
    """

    def register(chosen: Callable[..., Any]) -> Callable[..., Any]:
        def of(*types: Any) -> Callable[..., Any] | None:
            return chosen if fits(*types) else None

        options: Any = {"forceinline": inline, "_nrt": False}
        overload(function, jit_options=options, strict=False)(of)
        return chosen

    return register


def compiled(*built_from: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: compile a function, and keep what was compiled on disk.

    Parameters
    ----------
    *built_from : str
        The modules beside the function's own whose functions and constants become part of it: numba's cache would not
        see that they have changed.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        found = _njit(cache=True, error_model="numpy", _nrt=False)(function)
        folder = Path(function.__code__.co_filename).parent
        files = [path.stat() for path in (folder / f"{name}.py" for name in built_from) if path.is_file()]
        index = getattr(getattr(found, "_cache", None), "_cache_file", None)
        if index is not None:
            index._source_stamp = (index._source_stamp, *((s.st_mtime, s.st_size) for s in files))
        return found

    return decorate
