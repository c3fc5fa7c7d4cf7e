"""The options that several commands share: one thing has one spelling, one meaning and one way to write lists."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from perfkit.errors import SettingError

PICTURES = (".png", ".svg", ".pdf")


def ends_in(*suffixes: str) -> Callable[[Path | None], Path | None]:
    """Return a check that a file to write has one of these endings and lies in a folder that exists."""

    def check(path: Path | None) -> Path | None:
        if path is None:
            return None
        if suffixes and path.suffix not in suffixes:
            raise typer.BadParameter(f"expected a name that ends in {' or '.join(suffixes)}; found {str(path)!r}")
        if path.is_dir():
            raise typer.BadParameter(f"expected the name of a file; {str(path)!r} is a folder")
        if not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
        return path

    return check


def output(text: str, *suffixes: str) -> Any:
    """Return the option ``--output``: the file that a command writes its result to."""
    return typer.Option("--output", "-o", metavar="FILE", help=text, callback=ends_in(*suffixes))


def picture(text: str) -> Any:
    """Return the option ``--picture``: the file that a command draws its result into."""
    return typer.Option("--picture", metavar="FILE", help=f"{text} (.png, .svg or .pdf).", callback=ends_in(*PICTURES))


def cluster(what: str) -> Any:
    """Return the option ``--cluster``: where tasks run."""
    return typer.Option(
        None,
        "--cluster",
        metavar="WHERE",
        help=f"{what} on dask's workers: tcp://HOST:PORT, slurm, slurm:JOBS or local:WORKERS (docs/cluster.md).",
    )


def finite(value: float | None) -> float | None:
    """Check that a number is one: Python's float() also reads nan and inf."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number; found {value}")
    return value


def plain(text: str | list[str] | None) -> str | list[str] | None:
    """Check that words are text: a command line may hold any bytes, which Python reads as lone surrogates."""
    for word in [text] if isinstance(text, str) else text or []:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise typer.BadParameter(f"expected text in UTF-8; found {word!r}")
    return text


def words(text: str | None) -> list[str]:
    """Return the items of a list written with commas; commas within ``/.../`` belong to perf's event names.

    Examples
    --------
    >>> words("cycles, cpu/event=0x3c,umask=0x0/")
    ['cycles', 'cpu/event=0x3c,umask=0x0/']
    """
    found, inside = [""], False
    for letter in text or "":
        inside ^= letter == "/"
        if letter == "," and not inside:
            found.append("")
        else:
            found[-1] += letter
    if inside:  # an odd number of slashes: they enclose nothing
        found = (text or "").split(",")
    return [word.strip() for word in found if word.strip()]


def numbers(text: str, option: str) -> list[float]:
    """Return the numbers of a list written with commas.

    Raises
    ------
    SettingError
        An item is no finite number, or there is none.
    """
    try:
        found = [float(word) for word in words(text)]
    except ValueError:
        found = []
    if not found or not all(map(math.isfinite, found)):
        raise SettingError(f"{option} takes numbers separated by commas; found {text!r}")
    return found


Parameters = Annotated[
    list[str],
    typer.Option("--parameter", "-p", metavar="NAME VALUE", help="Set a parameter of the notebook; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Top = Annotated[int, typer.Option("--top", min=1, help="Rows of each table to print.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Of everything that is drawn at random.")]
TimeEvent = Annotated[
    str, typer.Option("--time-event", metavar="EVENT", help="The event that counts time (default: cycles).")
]
WorkEvent = Annotated[
    str, typer.Option("--work-event", metavar="EVENT", help="The event that counts work (default: instructions).")
]
Function = Annotated[str, typer.Option("--function", "-f", metavar="NAME", help="The function to record.")]
Build = Annotated[
    str, typer.Option("--build", help="For C files: scalar, avx2 or avx512 (default: -O3 -march=native).")
]
Flags = Annotated[
    str, typer.Option("--flags", callback=plain, help="For C files: compiler flags instead of a build's.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Stop recording after so many instructions.")]
