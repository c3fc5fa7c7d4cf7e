"""How the simulators' inner loops are compiled by numba.

They allocate nothing, so the counting of references to arrays, which costs more than the work done, is switched off
(the option's underscore is why `njit` loses its type here).
"""

import fcntl
from collections.abc import Callable
from functools import partial
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
        The modules beside the function's own (``"timing"``), or in a folder beside its folder (``"gus.timing"``), whose
        functions and constants become part of it: numba's cache would not see that they have changed.

    Raises
    ------
    FileNotFoundError
        There is no such module: machine code of its older version would be run without a word.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        found = _njit(cache=True, error_model="numpy", _nrt=False)(function)
        folder = Path(function.__code__.co_filename).parent
        files = [
            (folder.parent if "." in name else folder).joinpath(*name.split(".")).with_suffix(".py").stat()
            for name in built_from
        ]
        index = getattr(getattr(found, "_cache", None), "_cache_file", None)
        if index is not None:
            index._source_stamp = (index._source_stamp, *((s.st_mtime, s.st_size) for s in files))
            try:
                index._load_index()
            except (AttributeError, ImportError):  # of a version whose types are gone: numba would raise, not compile
                Path(index._index_path).unlink(missing_ok=True)
            index.save = partial(_save_alone, index.save, Path(index._index_path).with_suffix(".lock"))
        return found

    return decorate


def _save_alone(save: Callable[[Any, Any], None], lock: Path, key: Any, data: Any) -> None:
    """Keep what was compiled, while no other process does: two would give their machine code one file's name."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        save(key, data)


def kept(function: Any) -> int | None:
    """Return how many specialisations of a function numba has kept for this processor; None where it keeps none."""
    index = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if index is None:
        return None
    processor = function.targetctx.codegen().magic_tuple()
    return sum(processor in key for key in index._load_index())
