"""``perfkit compare``: which of two kernels, builds, compilers or commits is faster, and by how much."""

from pathlib import Path

import typer


def compare(
    a: str = typer.Argument(
        ..., metavar="A", help="A C or C++ file, REVISION:FILE of a git commit, a library (.so), or corpus:NAME."
    ),
    b: str = typer.Argument("", metavar="[B]", help="The same for the other side [default: A, built otherwise]."),
    function: str = typer.Option("", "--function", "-f", help="The function to time, where a file has several."),
    function_b: str = typer.Option("", help="The function of B [default: that of A]."),
    flags: str = typer.Option("", help="Compiler flags of both [default: -O3 -march=native]."),
    flags_b: str = typer.Option("", help="Compiler flags of B [default: those of A]."),
    compiler: str = typer.Option("", help="Compiler of both [default: gcc, g++ for C++]."),
    compiler_b: str = typer.Option("", help="Compiler of B [default: that of A]."),
    define: list[str] = typer.Option(None, "--define", "-D", help="A macro of both, NAME=VALUE."),
    define_b: list[str] = typer.Option(None, help="A macro of B only, NAME=VALUE."),
    argument: list[str] = typer.Option(None, "--argument", help="An argument of both: 1000, 2.0, f8[1000] (an array)."),
    processes: int = typer.Option(30, min=6, help="Processes to measure in; more make the interval narrower."),
    confidence: float = typer.Option(0.99, help="Of the interval."),
    least: float = typer.Option(0.005, help="The smallest relative effect that matters."),
    output: list[Path] = typer.Option(
        None, "--output", "-o", help="Also write a report: .md, .html, .json, .csv or .parquet."
    ),
    json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Compare two kernels by interleaved, shuffled runs: the effect with its confidence interval.

    perfkit compare kernel.c --flags "-O2" --flags-b "-O3"

    perfkit compare HEAD~1:src/kernel.c src/kernel.c --function work
    """
    from perfkit.collectors.host.compare import compare as measure
    from perfkit.collectors.host.comparison import ENDINGS
    from perfkit.collectors.host.sides import kernel_from
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.errors import SettingError

    for path in output or []:
        if path.suffix not in ENDINGS:
            raise SettingError(f"the report's name ends in one of {', '.join(ENDINGS)}; found {path.name!r}")
    common = dict(_macro(each) for each in define or [])
    sides = [
        kernel_from(a, function or None, compiler or None, _options(flags, common)),
        kernel_from(
            b or a,
            function_b or function or None,
            compiler_b or compiler or None,
            _options(flags_b or flags, common | dict(_macro(each) for each in define_b or [])),
        ),
    ]
    arguments = kernel_arguments(", ".join(argument or []))
    found = measure(*sides, *arguments, processes=processes, confidence=confidence, least=least)
    typer.echo(found.to_json() if json else found.summary())
    for path in output or []:
        found.write(path)
        typer.echo(f"wrote {path}", err=True)


def _options(flags: str, defines: dict[str, str]) -> dict[str, object]:
    return {"defines": defines} | ({"flags": flags} if flags else {})


def _macro(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value or "1"
