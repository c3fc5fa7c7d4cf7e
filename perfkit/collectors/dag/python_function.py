"""Python functions named as text, ``module:function`` or ``file.py:function``, compiled by numba."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.errors import PerfkitError, SettingError

if TYPE_CHECKING:
    from perfkit.collectors.dag.kernel_trace import KernelTrace
    from perfkit.machine.core import Microarchitecture

NAMED = re.compile(r"^([\w./-]+):(\w+)$")
"""What names a function: a module or a file, and its name there."""


def named_function(
    what: str, arguments: Sequence[Any], whole: bool = False, core: Microarchitecture | None = None
) -> KernelTrace:
    """Return the kernel that numba compiles of a named function.

    Parameters
    ----------
    what
        ``module:function`` or ``file.py:function``.
    arguments
        What it is called with.
    whole, core
        As for `trace_numba`.

    Raises
    ------
    SettingError
        There is no such module or function, or numba refuses it with these arguments.
    """
    from numba.core.errors import NumbaError

    from perfkit.collectors.dag.numba_kernel import trace_numba

    module, _, function = what.rpartition(":")
    called = getattr(_module(module), function, None)
    if not callable(called):
        raise SettingError(f"{module} has no function {function!r}")
    try:
        return trace_numba(called, *arguments, whole=whole, core=core)
    except PerfkitError:
        raise
    except (NumbaError, TypeError, ValueError, OverflowError) as error:  # what numba makes of wrong arguments
        words = ", ".join(_said(each) for each in arguments) or "no arguments"
        raise SettingError(f"{what} cannot be compiled for {words}: {' '.join(str(error).split())[:200]}") from error


def _said(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"{value.dtype.kind}{value.dtype.itemsize}[{'x'.join(map(str, shape))}]" if shape else str(value)


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
