"""How the simulators' inner loops are compiled by numba.

They allocate nothing, so the counting of references to arrays, which costs more than the work done, is switched off
(the option's underscore is why `njit` loses its type here).

Compiling takes half a minute, so a wheel brings machine code (`SHIPPED`, written by ``scripts/ship_compiled.py``) that
any processor of the level x86-64-v3 runs. It is used only where these sources, numba and Python are the very ones that
it was made with; elsewhere numba compiles, and keeps it.
"""

import fcntl
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

import numba
from numba.extending import overload

SHIPPED = Path(__file__).with_name("_compiled")
LEVEL = "x86-64-v3"
_NEEDED = {"+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+popcnt", "+xsave"}  # what it has
_njit: Any = numba.njit
inlined = _njit(forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
helper = _njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def implements(
    function: Callable[..., Any], fits: Callable[..., bool], *, inline: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: what a function, never run as Python, does for arguments whose numba types fit.

    Inlining pays in speed; where that does not matter, without it compiling takes half the time.
    """

    def register(chosen: Callable[..., Any]) -> Callable[..., Any]:
        def of(*types: Any) -> Callable[..., Any] | None:
            return chosen if fits(*types) else None

        options: Any = {"forceinline": inline, "_nrt": False, "no_cfunc_wrapper": True}
        overload(function, jit_options=options, strict=False)(of)
        return chosen

    return register


def compiled(*built_from: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: compile a function, and keep what was compiled on disk.

    Parameters
    ----------
    *built_from : str
        The modules beside the function's own (``"timing"``), or in a folder beside its folder (``"gus.timing"``), whose
        functions and constants become part of it: numba's cache would not see that they have changed. Of another
        package than the simulators': by its path in perfkit (``"perfkit/dag/program"``).
    **options
        Of numba, beside its own (``nogil=True``).

    Raises
    ------
    FileNotFoundError
        There is no such module: machine code of its older version would be run without a word.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        found = _njit(**{"cache": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True} | options)(
            function
        )
        own = Path(function.__code__.co_filename)
        files = [_source(own, name) for name in built_from]
        states = [file.stat() for file in files]
        index = _index(found)
        if index is not None:
            index._source_stamp = (index._source_stamp, *((s.st_mtime, s.st_size) for s in states))
            try:
                index._load_index()
            except (AttributeError, ImportError):  # of a version whose types are gone: numba would raise, not compile
                Path(index._index_path).unlink(missing_ok=True)
            index.shipped = partial(_shipped, Path(index._index_path).stem, (own, *files))
            index.save = partial(_save_alone, index, index.save)
            index.load = partial(_load, index.load, index.shipped)
        return found

    return decorate


def _save_alone(index: Any, save: Callable[[Any, Any], None], key: Any, data: Any) -> None:
    """Keep what was compiled, while no other process does: two would give their machine code one file's name.

    numba writes its list before the code that the list names: the code of an older source, which has that name, goes
    first, or who reads in between, or comes after an end in between, would run it.
    """
    path = Path(index._index_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not index._load_index():
            for old in path.parent.glob(f"{escape(path.stem)}.*.nbc"):
                old.unlink(missing_ok=True)
        save(key, data)


def _source(own: Path, name: str) -> Path:
    """Return the file that one of `built_from` names."""
    if "/" in name:
        return Path(__file__).parents[2] / f"{name}.py"
    return (own.parent.parent if "." in name else own.parent).joinpath(*name.split(".")).with_suffix(".py")


def _index(function: Any) -> Any:
    """Return the file in which numba notes what it keeps of a function; None where it keeps nothing."""
    return getattr(getattr(function, "_cache", None), "_cache_file", None)


def _shipped(name: str, files: tuple[Path, ...]) -> Any:
    """Return the same file of the code that is shipped, valid for these sources only."""
    from llvmlite import __version__
    from numba.core.caching import IndexDataCacheFile

    stamp = hashlib.sha256(b"".join([__version__.encode(), *(file.read_bytes() for file in files)])).hexdigest()
    return IndexDataCacheFile(str(SHIPPED), name, stamp)


def _any_processor(key: Any) -> Any:
    """Return numba's key of a specialisation, for the level in place of the processor."""
    signature, (system, _, _), code = key
    return signature, (system, LEVEL), code


def _load(load: Callable[[Any], Any], shipped: Callable[[], Any], key: Any) -> Any:
    """Return what numba kept, else what is shipped, if this processor (as numba names its features) can run it."""
    found = load(key)
    if found is None and SHIPPED.is_dir() and set(key[1][2].split(",")) >= _NEEDED:
        try:
            found = shipped().load(_any_processor(key))
        except (AttributeError, ImportError):  # made from other sources, some of whose types are gone
            return None
    return found


def ship(function: Any) -> int:
    """Write what numba has kept of a function to `SHIPPED`; return how many specialisations that is.

    To be called where numba compiles for the level (``NUMBA_CPU_NAME``), with a folder of its own to keep it in.
    """
    index = _index(function)
    kept = index._load_index()
    for key in kept:
        if key[1][1:] != (LEVEL, ""):
            raise ValueError(f"{function.__name__} was compiled for {key[1][1:]}, expected {LEVEL} alone")
        index.shipped().save(_any_processor(key), index.load(key))
    return len(kept)


def kept(function: Any) -> int | None:
    """Return how many specialisations of a function are there for this processor; None where numba keeps none."""
    index = _index(function)
    if index is None:
        return None
    processor = function.targetctx.codegen().magic_tuple()
    keys = {_any_processor(key) for key in index._load_index() if processor in key}
    if SHIPPED.is_dir() and set(processor[2].split(",")) >= _NEEDED:
        with suppress(AttributeError, ImportError):
            keys |= set(index.shipped()._load_index())
    return len(keys)
