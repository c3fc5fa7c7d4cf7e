"""The errors and warnings of perfkit: each says what was expected, what was found and what to do."""

from importlib import import_module
from typing import Any

# Which extra of perfkit brings a package: the core installation traces and simulates.
EXTRAS = {
    **dict.fromkeys(("joblib", "matplotlib", "pandas", "pyarrow", "scipy"), "analysis"),
    **dict.fromkeys(("sklearn", "KDEpy"), "studies"),
    **dict.fromkeys(("dask", "distributed"), "cluster"),
    "capstone": "arm",
    **dict.fromkeys(
        ("IPython", "anywidget", "bqplot", "ipywidgets", "jinja2", "jupyterlab", "nbclient", "papermill"), "lab"
    ),
}


class PerfkitError(Exception):
    """The base of every error that perfkit raises on purpose.

    Examples
    --------
    >>> import perfkit as pk
    >>> try:
    ...     pk.Microarchitecture.load("no such core")
    ... except PerfkitError as error:
    ...     print(type(error).__name__)
    SettingError
    """


class DataError(PerfkitError, ValueError):
    """Values that cannot be what they claim to be: the message names the rows and the rule they break."""


class FormatError(DataError):
    """A file that cannot be read as any known format, or a line that does not fit its format."""


class NeverCalledError(DataError):
    """A function that is there, and that the process which was started did not call."""


class SettingError(PerfkitError, ValueError):
    """A setting outside its range, or an unknown name: the message lists what is allowed."""


class WrongTypeError(DataError, SettingError, TypeError):
    """An argument of another type than the function takes: the message says which it takes, and how to get one."""


class MissingFileError(SettingError, FileNotFoundError):
    """A path that names no file or folder."""


class UnavailableError(PerfkitError, RuntimeError):
    """Something this machine lacks (counters, a program, a compiler): the message says what to do instead."""


class PerfkitWarning(UserWarning):
    """The base of perfkit's warnings: a result was made, and the reader should know this about it."""


def expect(fits: bool, given: object, where: str, what: str, how: str) -> None:
    """Refuse an argument that does not fit; `what` a function takes and `how` to get one are words of the message.

    Raises
    ------
    WrongTypeError
        It does not fit.

    Examples
    --------
    >>> expect(False, 3, "Gus.run", "a Trace", "load one with perfkit.Trace.load")
    Traceback (most recent call last):
    perfkit.errors.WrongTypeError: Gus.run takes a Trace; found int (3): load one with perfkit.Trace.load
    """
    if not fits:
        shown = f" ({given!r:.40})" if isinstance(given, int | float | str) else ""
        raise WrongTypeError(f"{where} takes {what}; found {type(given).__name__}{shown}: {how}")


def uninstalled(error: ModuleNotFoundError) -> UnavailableError | None:
    """Return what to say where a package is missing that an extra brings; None for any other package."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS:
        return None
    return UnavailableError(f"this needs {name}, which is not installed: pip install 'perfkit[{EXTRAS[name]}]'")


def of_extra(name: str) -> Any:
    """Import a package that an extra of perfkit brings (see `EXTRAS`).

    Raises
    ------
    UnavailableError
        It is not installed: the message names the extra.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise uninstalled(error) or error from error
