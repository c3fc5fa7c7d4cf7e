"""The errors and warnings of perfkit, and the words of its messages.

Each says what was expected, what was found and what to do: how many of what, the nearest known name, bounds as written.
"""

import difflib
import math
from collections.abc import Iterable
from importlib import import_module
from numbers import Integral, Real
from typing import Any, ClassVar

# Which extra of perfkit brings a package: the core installation traces and simulates.
EXTRAS = {
    **dict.fromkeys(("joblib", "matplotlib", "pandas", "pyarrow", "scipy"), "analysis"),
    **dict.fromkeys(("sklearn", "KDEpy"), "studies"),
    **dict.fromkeys(("dask", "distributed"), "cluster"),
    "capstone": "arm",
    **dict.fromkeys(
        (
            "IPython",
            "anywidget",
            "bqplot",
            "ipywidgets",
            "jinja2",
            "jupyterlab",
            "nbclient",
            "nbformat",
            "papermill",
            "voila",
        ),
        "lab",
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

    WHY: ClassVar[str] = (
        "where its source calls it, the compiler may have put its code into its caller, which is then the function to "
        "name (or mark it __attribute__((noipa)))"
    )


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


def expect_number(given: object, where: str, name: str, how: str, *, whole: bool = False) -> None:
    """Refuse what is no number; `name` says of what it is.

    Raises
    ------
    WrongTypeError
        It is none, or no whole one where that is meant.

    Examples
    --------
    >>> expect_number("a", "Samples.aggregate", "n", "say how many to sum", whole=True)
    Traceback (most recent call last):
    perfkit.errors.WrongTypeError: Samples.aggregate takes a whole number (n); found str ('a'): say how many to sum
    """
    fits = isinstance(given, Integral if whole else Real)
    expect(fits, given, where, f"a {'whole ' if whole else ''}number ({name})", how)


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


def counted(number: int, plural: str) -> str:
    """Return a number of things, of which there may be one.

    Examples
    --------
    >>> counted(1, "categories"), counted(1, "divisions"), counted(1200, "runs")
    ('1 category', '1 division', '1,200 runs')
    """
    one = f"{plural[:-3]}y" if plural.endswith("ies") else plural[:-2] if plural.endswith("sses") else plural[:-1]
    return f"{number:,} {one if number == 1 else plural}"


def how_often(number: int) -> str:
    """Return how often something was done.

    Examples
    --------
    >>> how_often(1), how_often(2000)
    ('once', '2,000 times')
    """
    return "once" if number == 1 else f"{number:,} times"


def listed(words: Iterable[Any], most: int = 1000, last: str = "and") -> str:
    """Return a list as a sentence has it, cut after the first `most`.

    Examples
    --------
    >>> listed(["a"]), listed("ab"), listed("abc"), listed("abc", last="or"), listed("abcd", 2)
    ('a', 'a and b', 'a, b and c', 'a, b or c', 'a, b and 2 more')
    """
    every = [str(word) for word in words]
    if len(every) > most:
        return f"{', '.join(every[:most])} and {len(every) - most:,} more"
    return f" {last} ".join(part for part in (", ".join(every[:-1]), *every[-1:]) if part)


def p_words(p: float, digits: int = 2) -> str:
    """Return the words for a p-value, which is never zero: below 1e-300 its tail is lost to rounding.

    Examples
    --------
    >>> p_words(0.0123), p_words(3e-9, 1), p_words(0.0)
    ('p 0.012', 'p 3e-09', 'p < 1e-300')
    """
    return "p < 1e-300" if p < 1e-300 else f"p {p:.{digits}g}"


def did_you_mean(name: str, known: Iterable[str], shown: int = 12) -> str:
    """Say which known name is meant, or list what is known.

    Examples
    --------
    >>> did_you_mean("dimension", ["dimensions", "kernel"])
    "did you mean 'dimensions'?"
    """
    known = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    listed = ", ".join(known[:shown]) + (f" and {len(known) - shown} more" if len(known) > shown else "")
    return f"known: {listed or '(none)'}"


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to ``n`` known names that look most like ``name``, for an error message."""
    return difflib.get_close_matches(name, [str(k) for k in known], n=n, cutoff=0.4)


def percent(value: Any) -> float:
    """Return a number of per cent, which may be written with its sign.

    Raises
    ------
    SettingError
        It is no finite number.

    Examples
    --------
    >>> percent("+2 %"), percent("5%"), percent(-3)
    (2.0, 5.0, -3.0)
    """
    try:
        found = float(str(value).strip().removesuffix("%").strip())
    except ValueError:
        raise SettingError(f'a bound is a number of per cent, such as 2 or "+2 %"; found {value!r}') from None
    if not math.isfinite(found):
        raise SettingError(f"a bound is a finite number of per cent; found {value!r}")
    return found
