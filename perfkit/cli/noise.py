"""``perfkit noise``: add instructions to a kernel's innermost loop and measure what it absorbs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import draw, notes_to_stderr, print_json, rows, wrote

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.diagnosis.noise_result import NoiseResult


def noise(
    ctx: typer.Context,
    source: str = typer.Argument(
        ...,
        metavar="SOURCE",
        callback=options.plain,
        help="A program; a C or C++ file, REVISION:FILE of a git commit, a library (.so), or corpus:NAME.",
    ),
    words: options.Words = [],  # noqa: B006  typer copies it
    arguments: options.Arguments = "",
    function: options.Function = "",
    skip: options.Skip = 0,
    flags: options.Flags = "",
    compiler: options.Compiler = "",
    kinds: str = typer.Option(
        "",
        "--kinds",
        metavar="A,B,...",
        callback=options.plain,
        help="Kinds of noise, separated by commas: nop, load, latency (default: all).",
    ),
    at: str = typer.Option(
        "innermost",
        "--at",
        metavar="WHERE",
        callback=options.plain,
        help="The loop: FILE:LINE, 0x and an address, or each: every innermost loop, one after the other.",
    ),
    core: str = typer.Option(
        "",
        "--core",
        metavar="CORE",
        help="Simulate the same on a core: its name, a core file (*.toml), or host (default: measure only).",
    ),
    remove: bool = typer.Option(
        False,
        "--remove",
        help="Not of a program: no noise; time the loop without its vector loads, and without its vector arithmetic. "
        "The copies compute something else.",
    ),
    output: Annotated[Path | None, options.output("Write the result.", ".parquet", ".csv", ".json")] = None,
    picture: Annotated[Path | None, options.picture("Draw the curves")] = None,
    as_json: options.Json = False,
) -> None:
    """Add noise to a kernel's innermost loop and measure how much of each kind it absorbs.

    What hurts at once is the bottleneck; what is absorbed is slack. All variants run in turns, each beside the plain
    kernel; only what ran on a quiet core counts.

    A function of a program is measured at one of its calls, in processes forked from the program, which ends there.

    Example: perfkit noise ./program -f solve -- 48

    Example: perfkit noise dot.c --core host -- 'f8[1000]' 'f8[1000]' 1000

    Example: perfkit noise ./program -f solve --at each -- 48

    Example: perfkit noise libsolve.so --function solve --kinds nop,load,latency -- 1000
    """
    from perfkit.cli.standard_input import kept
    from perfkit.collectors.host.sides import is_library, is_program, kernel_from
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.diagnosis.noise import Noise
    from perfkit.errors import SettingError

    each = at == "each"
    settings = Noise(kinds=options.words(kinds) or None, at="innermost" if each else _place(at), core=core or None)
    build = {"flags": flags} if flags else {}
    program, called = is_program(source), options.called_with(words, arguments)
    if is_library(Path(source)):
        options.has_no_effect(ctx, "on a library, which is built already", "flags", "compiler")
    if remove and (kinds or core or output or picture):
        raise SettingError("--remove adds no noise: leave out --kinds, --core, --output and --picture")
    if each and (remove or output or picture):
        raise SettingError("--at each measures several loops: for --remove, --output and --picture name one")
    unfit = [
        name
        for name, given in (
            ("--flags", flags),
            ("--compiler", compiler),
            ("--remove", remove),
        )
        if given
    ]
    if program and (unfit or not function):
        raise SettingError(
            f"{source} is a program: {f'leave out {unfit[0]}' if unfit else 'say which function, -f NAME'}; "
            "its arguments come after --"
        )
    if not program and skip:
        raise SettingError(
            f"--skip has no effect where a function is called here: leave it out; {source} is no program"
        )
    with notes_to_stderr():
        if program:
            with kept() as stdin:
                run = settings.each_loop_of_program if each else settings.run_program
                found = run(source, function, called, stdin=stdin, call=skip + 1)
        elif remove:
            kernel = kernel_from(source, function or None, compiler or None, build)
            _tell_without(kernel.name, settings.without(kernel, *kernel_arguments(called)), as_json=as_json)
            return
        else:
            kernel = kernel_from(source, function or None, compiler or None, build)
            found = (settings.each_loop if each else settings.run)(kernel, *kernel_arguments(called))
    if isinstance(found, tuple):
        _tell_loops(found, as_json=as_json)
        return
    if as_json:
        print_json(_as_dict(found))
    else:
        _tell(found)
    if output is not None:
        found.save(output)
        wrote(output)
    if picture is not None:
        draw(found, picture)


def _as_dict(found: "NoiseResult") -> dict[str, Any]:
    about = {"name": found.name, "place": found.place, "held_back_by": found.bottleneck}
    more = {"simulated": found.simulated_bottleneck, "refused": found.refused}
    return {**about, **more, "kinds": rows(found.to_frame()), "curves": rows(found.curves)}


def _tell(found: "NoiseResult") -> None:
    shown = found.to_frame().drop(columns="resource").round(2)
    typer.echo(f"{found.summary()}\n\n{shown.to_string(index=False)}")


def _tell_loops(results: "tuple[NoiseResult, ...]", *, as_json: bool) -> None:
    if as_json:
        print_json({"loops": [_as_dict(found) for found in results]})
        return
    for k, found in enumerate(results):
        typer.echo(f"{chr(10) if k else ''}Loop {k + 1} of {len(results)}")
        _tell(found)


def _tell_without(name: str, found: "pd.DataFrame", *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "results_changed": True, "removed": rows(found)})
        return
    typer.echo(f"{name}: copies of its loop that compute something else (measured); time is relative to the loop's own")
    for row in found.to_dict("records"):
        if row["why_not"]:
            typer.echo(f"{row['removed']}: not measured: {row['why_not']}")
            continue
        beside = "" if row["quiet"] else "; beside a busy thread: try again later"
        typer.echo(
            f"{row['removed']} ({row['instructions']:.0f} instructions): {row['time']:.2f} of the time "
            f"({row['low']:.2f} to {row['high']:.2f}){beside}"
        )


def _place(text: str) -> str | int:
    try:
        return int(text, 16) if text.startswith("0x") else text
    except ValueError:
        raise typer.BadParameter(f"--at takes FILE:LINE, 0x and an address, or innermost; found {text!r}") from None
