"""``perfkit compare``: which of two kernels, builds, compilers or commits is faster, and by how much."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import notes_to_stderr, wrote
from perfkit.diagnosis.progress import stages

ENDINGS = (".md", ".html", ".json", ".csv", ".parquet")


def compare(
    ctx: typer.Context,
    a: str = typer.Argument(
        ...,
        metavar="A",
        callback=options.plain,
        help="A C or C++ file, REVISION:FILE of a git commit, a library (.so), or corpus:NAME.",
    ),
    b: str = typer.Argument(
        "", metavar="[B]", callback=options.plain, help="The same for the other side (default: A, built otherwise)."
    ),
    words: options.CallWords = [],  # noqa: B006  typer copies it
    arguments: options.Arguments = "",
    function: options.Function = "",
    function_b: options.FunctionB = "",
    flags: options.Flags = "",
    flags_b: options.FlagsB = "",
    compiler: options.Compiler = "",
    compiler_b: str = typer.Option(
        "", "--compiler-b", metavar="NAME", callback=options.plain, help="The compiler of B (default: as A)."
    ),
    define: options.Define = [],  # noqa: B006  typer copies it
    define_b: list[str] = typer.Option(
        [],
        "--define-b",
        metavar="NAME=VALUE",
        callback=options.plain,
        help="Define a macro of B, beside all of A's; of the same name, in its place; may be repeated.",
    ),
    processes: int = typer.Option(
        30, "--processes", min=6, max=1000, help="Measure in this many processes; more make the interval narrower."
    ),
    confidence: float = typer.Option(
        0.99, "--confidence", min=0.5, max=0.9999, callback=options.finite, help="Confidence of the interval."
    ),
    least: float = typer.Option(
        0.005, "--least", min=0.0, max=0.5, callback=options.finite, help="The smallest relative effect that matters."
    ),
    apart: bool = typer.Option(
        False, "--apart", help="Begin each call when the one before has ended: latency; else calls may overlap."
    ),
    patience: float = typer.Option(
        20.0,
        "--patience",
        min=0,
        max=1e6,
        callback=options.finite,
        help="Seconds to wait for a quiet core, in all, beside the measuring itself.",
    ),
    timeout: float = typer.Option(
        600.0,
        "--timeout",
        min=1,
        max=1e6,
        callback=options.finite,
        help="Give up after this many seconds, or at once where measuring would take longer.",
    ),
    output: Annotated[
        Path | None, options.output("Write a report (.md, .html), the result (.json) or the processes.", *ENDINGS)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare two kernels, builds, compilers or commits: the effect with its interval.

    Both run in turns, shuffled, in many processes; only what ran on a quiet core counts.

    Example: perfkit compare kernel.c --flags-b "-O2"

    Example: perfkit compare HEAD~1:src/kernel.c src/kernel.c --function work -- 'f8[1000]' 1000
    """
    from perfkit.collectors.host.compare import compare as measure
    from perfkit.collectors.host.sides import is_library, kernel_from
    from perfkit.collectors.open_traces import kernel_arguments

    are_built = [is_library(Path(side)) for side in (a, b or a)]
    if are_built[1]:
        options.has_no_effect(ctx, "where B is a library", "flags_b", "compiler_b", "define_b")
    if all(are_built):
        options.has_no_effect(ctx, "on libraries, which are built already", "flags", "compiler", "define")
    given = kernel_arguments(options.called_with(words, arguments))
    macros = options.macros(define)
    both = macros | options.macros(define_b)
    sides = [
        (a, function or None, compiler or None, _build(flags, macros)),
        (b or a, function_b or function or None, compiler_b or compiler or None, _build(flags_b or flags, both)),
    ]
    first, other = (kernel_from(*side) for side in sides)
    if sides[0] == sides[1]:
        typer.echo("A and B are the same: whatever differs below is chance (B, --flags-b, ... would differ)", err=True)
    with notes_to_stderr(), stages() as say:
        say(f"measuring in {processes} processes")
        found = measure(
            first, other, *given,
            processes=processes, confidence=confidence, least=least, apart=apart, patience=patience, timeout=timeout,
        )  # fmt: skip
    typer.echo(found.to_json() if as_json else found.summary())
    if output is not None:
        found.write(output)
        wrote(output)


def _build(flags: str, defines: dict[str, str]) -> dict[str, Any]:
    return {"defines": defines} | ({"flags": flags} if flags else {})
