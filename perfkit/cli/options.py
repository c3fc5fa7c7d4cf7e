"""The options that several commands share: one thing has one spelling, one meaning and one way to write lists."""

import math
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from inspect import cleandoc
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, cast, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from perfkit.errors import SettingError, listed

PICTURES = (".png", ".svg", ".pdf")


def types_of(command: Any) -> dict[str, Any]:
    """Return the type of each parameter of a command, without None; typer's own word for it differs by its version."""
    types = get_type_hints(command.callback)
    return {name: get_args(t)[0] if isinstance(t, UnionType) else t for name, t in types.items()}


class Command(TyperCommand):
    """A command whose help shows its arguments as they are written, and each example on a line of its own."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return what follows the command's name in the line of usage."""
        return ["[OPTIONS]", *(str(p.metavar) for p in self.params if p.param_type_name == "argument")]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help; a line that may be copied is not broken."""
        paragraphs = cleandoc(self.help or "").split("\n\n")
        kept = self.help
        self.help = "\n\n".join(f"\b\n{each}" if each.startswith("Example:") else each for each in paragraphs)
        super().format_help_text(ctx, formatter)
        self.help = kept

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options; a number is N."""
        records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        types = types_of(self)
        for p in cast("list[Any]", self.get_params(ctx)):
            if p.metavar is None and p.param_type_name == "option" and types.get(p.name) in (int, float):
                p.metavar = "N"
            if p.param_type_name == "argument":
                records["argument"].append((str(p.metavar), p.help or ""))
            elif record := p.get_help_record(ctx):
                records["option"].append(record)
        for title, found in (("Arguments", records["argument"]), ("Options", records["option"])):
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


class CallingCommand(Command):
    """A command that runs a program or calls a function: all words after ``--`` are what that is called with."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the words after ``--`` into the parameter ``words``, whatever other arguments were given before them."""
        own, called = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
        rest = super().parse_args(ctx, own)
        ctx.params["words"] = [*(ctx.params["words"] or []), *(plain(called) or [])]
        return rest


class DefaultGroup(TyperGroup):
    """Commands, the first of which needs no name: ``perfkit dag kernel.c`` is ``perfkit dag run kernel.c``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the first command's name before arguments that name no command."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "--install-completion"):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def group(text: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return a group of commands with this help."""
    return typer.Typer(cls=cls, help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def has_no_effect(ctx: typer.Context, why: str, *parameters: str) -> None:
    """Refuse options that were given and would be ignored.

    Parameters
    ----------
    ctx
        The command's context.
    why
        When they have no effect: "without --sensitivity".
    parameters
        The names of the command's parameters.

    Raises
    ------
    SettingError
        One of them was given; the message names it.
    """
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name)) if parameter.name in parameters else None
        if source is not None and source.name == "COMMANDLINE":
            spelling = "/".join([parameter.opts[0], *parameter.secondary_opts])
            raise SettingError(f"{spelling} has no effect {why}; leave it out")


def called_with(words: Sequence[str] | None, text: str) -> list[str]:
    """Return what a program or function is called with: the words after ``--``, or those of ``--arguments``.

    Raises
    ------
    SettingError
        Both were given, or the text's quotes do not close.
    """
    if not text:
        return list(words or [])
    if words:
        raise SettingError(
            f"arguments are given after -- ({shlex.join(words)}) or by --arguments ({text}), not by both"
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingError(f"--arguments takes words as a shell does; found {text!r} ({error})") from error


def macros(given: Sequence[str]) -> dict[str, str]:
    """Return macros given as ``NAME=VALUE``, or ``NAME``, whose value is 1."""
    pairs = [each.partition("=") for each in given]
    return {name: value or "1" for name, _, value in pairs}


def ends_in(*suffixes: str) -> Callable[[typer.Context, Path | None], Path | None]:
    """Return a check that a file to write has one of these endings and lies in a folder that exists."""

    def check(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is None:
            return None
        if suffixes and path.suffix not in suffixes:
            named = f"--{path.suffix.removeprefix('.')}"
            # Not --json and the like, which are flags and take no file.
            other = any(named in option.opts and not getattr(option, "is_flag", False) for option in ctx.command.params)
            hint = f"; {named} {path} writes such a file" if other else ""
            raise typer.BadParameter(
                f"expected a name that ends in {listed(suffixes, last='or')}; found {str(path)!r}{hint}"
            )
        if path.is_dir():
            raise typer.BadParameter(f"expected the name of a file; {str(path)!r} is a folder")
        if not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
        if not os.access(path.parent, os.W_OK):  # before the work, not after it
            raise typer.BadParameter(f"there is no permission to write into the folder {str(path.parent)!r}")
        return path

    return check


def check_writable(path: Path) -> None:
    """Check that a file can be written, with the folders that it still lacks: before the work, not after it.

    Raises
    ------
    SettingError
        It is a folder, or lies in a file or where there is no permission to write.
    """
    if path.is_dir():
        raise SettingError(f"expected the name of a file; {str(path)!r} is a folder")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise SettingError(f"{str(path)!r} cannot be written: {above.name} is a file, not a folder")
    if not os.access(above, os.W_OK):
        raise SettingError(f"there is no permission to write into the folder {str(above)!r}")


def output(text: str, *suffixes: str) -> Any:
    """Return the option ``--output``: the file that a command writes its result to."""
    return typer.Option("--output", "-o", metavar="FILE", help=text, callback=ends_in(*suffixes))


def outputs(text: str, *suffixes: str) -> Any:
    """Return the option ``--output`` of a command that writes several kinds of file: it may be repeated."""
    check = ends_in(*suffixes)

    def each(ctx: typer.Context, paths: list[Path] | None) -> list[Path]:
        return [path for path in paths or [] if check(ctx, path)]

    return typer.Option("--output", "-o", metavar="FILE", help=f"{text}; may be repeated.", callback=each)


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


def per_cent(text: str | float) -> float:
    """Return a bound that may be written with a sign and a unit, as files of gates have it."""
    from perfkit.errors import percent

    try:
        return percent(text)
    except SettingError as error:
        raise typer.BadParameter(str(error)) from error


def plain(text: Any) -> Any:
    """Check that words are text: a command line may hold any bytes, which Python reads as lone surrogates."""
    for word in [text] if isinstance(text, str) else text or []:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise typer.BadParameter(f"expected text in UTF-8; found {word!r}")
    return text


def flags(ctx: typer.Context, param: typer.CallbackParam, text: str) -> str:
    """Return compiler flags; an empty text that was given, which means none, as a blank: "" is the default's.

    A blank is no word to whoever splits flags, as all do.
    """
    source = ctx.get_parameter_source(str(param.name))
    given = source is not None and source.name == "COMMANDLINE"
    return str(plain(text)) or (" " if given else "")


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
Core = Annotated[
    str,
    typer.Option("--core", metavar="CORE", help="A core's name, a core file (*.toml), or host: this machine's core."),
]
Warm = Annotated[
    bool | None,
    typer.Option("--warm/--cold", help="Start with caches and branch predictor that have seen the run, or empty ones."),
]
Function = Annotated[
    str,
    typer.Option(
        "--function", "-f", metavar="NAME", callback=plain, help="The function, by the name in its source or symbol."
    ),
]
FunctionB = Annotated[
    str, typer.Option("--function-b", metavar="NAME", callback=plain, help="This function of B instead.")
]
_after_dashes = partial(typer.Argument, metavar="[-- ARGUMENT...]", show_default=False)
Words = Annotated[
    list[str],
    _after_dashes(
        help="What a program or function is called with: a program's words; numbers and arrays: 1000 2.0 'f8[1000]'."
    ),
]
CallWords = Annotated[
    list[str], _after_dashes(help="What the function is called with, numbers and arrays: 1000 2.0 'f8[1000]'.")
]
Arguments = Annotated[
    str, typer.Option("--arguments", metavar="TEXT", callback=plain, help="The arguments as one text, not after --.")
]
Skip = Annotated[int, typer.Option("--skip", min=0, help="Let this many calls of the function pass first.")]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="Record this many calls.")]
Build = Annotated[
    str,
    typer.Option("--build", metavar="NAME", help="Of a source: scalar, avx2 or avx512 (default: -O3 -march=native)."),
]
Flags = Annotated[
    str,
    typer.Option(
        "--flags",
        metavar="TEXT",
        callback=flags,
        help='Of a source: compiler flags (default: -O3 -march=native; "": none).',
    ),
]
FlagsB = Annotated[
    str,
    typer.Option(
        "--flags-b", metavar="TEXT", callback=flags, help="Compiler flags of B, in place of all of A's (default: A's)."
    ),
]
Compiler = Annotated[
    str,
    typer.Option(
        "--compiler", metavar="NAME", callback=plain, help="Of a source: the compiler (default: gcc, or g++ for C++)."
    ),
]
Define = Annotated[
    list[str],
    typer.Option(
        "--define", "-D", metavar="NAME=VALUE", callback=plain, help="Of a source: define a macro; may be repeated."
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Stop recording after this many instructions.")]
AtMost = Annotated[
    float | None,
    typer.Option(
        "--at-most",
        metavar="PERCENT",
        parser=per_cent,
        help="End with status 1 where the cycles rise by more than this: 2, '+2 %'; -5: where they do not fall by 5 %.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="The older spelling of -o FILE.html.", hidden=True, callback=ends_in(".html")
    ),
]
