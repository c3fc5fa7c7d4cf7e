"""``perfkit diff``: two simulated runs side by side, for a pull request."""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.diff import GusDiff
    from perfkit.simulators.gus.gus import GusResult

SOURCES = (".c", ".cc", ".cpp", ".cxx")


def diff(
    a: str = typer.Argument(
        ..., metavar="A", help="A trace file, a saved result (perfkit gus -o), a C or C++ file, or corpus:NAME."
    ),
    b: str = typer.Argument("", metavar="[B]", help="The same for the other side (default: A, built otherwise)."),
    function: options.Function = "",
    function_b: str = typer.Option("", "--function-b", metavar="NAME", help="Record this function of B instead."),
    core: str = typer.Option(
        "host", "--core", metavar="CORE", help="A core's name, a core file (*.toml), or host: this machine's core."
    ),
    flags: options.Flags = "",
    flags_b: str = typer.Option("", "--flags-b", callback=options.plain, help="Compiler flags of B (default: as A)."),
    arguments: str = typer.Option(
        "",
        "--arguments",
        metavar="A,B,...",
        help="For C and C++ files: the call's arguments, separated by commas: 'f8[1000], 2.0, 1000'.",
    ),
    limit: options.Limit = 10_000_000,
    at_most: float | None = typer.Option(
        None,
        "--at-most",
        metavar="PERCENT",
        callback=options.finite,
        help="End with status 1 where B takes more cycles than A by more than this.",
    ),
    top: options.Top = 10,
    output: Annotated[
        Path | None, options.output("Write a report (.md) or the result (.parquet, .json, .csv).", ".md", ".parquet")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what changed between two simulated runs: cycles, causes, bottleneck and lines.

    Example: perfkit diff kernel.c -f sum --arguments 'f8[1000], 1000' --flags "-O1" --flags-b "-O3 -march=native"

    Example: perfkit diff before.trace after.trace --core zen4 -o change.md
    """
    from perfkit.errors import SettingError
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.diff import diff as compare

    if not b and not (flags_b or function_b):
        raise SettingError("the two sides are the same: name B, or build A otherwise (--flags-b, --function-b)")
    machine = Microarchitecture.load(core)
    other = b or a
    first = _side(a, machine, function, flags, arguments, limit)
    second = _side(other, machine, function_b or function, flags_b or flags, arguments, limit)
    names = (_name(a, first, flags), _name(other, second, flags_b or flags))
    found = compare(first, second, names=names)
    if output is not None:
        _write(found, output, top)
    if as_json:
        print_json(_content(found))
    else:
        typer.echo(found.summary())
        typer.echo("\n" + _lines(found, top))
    if output is not None:
        typer.echo(f"wrote {output}", err=True)
    slower = found.cycles[1] / found.cycles[0] - 1
    if at_most is not None and slower > at_most / 100:
        typer.echo(f"perfkit: B takes {slower:+.2%} cycles (simulated), and {at_most:+g} % is allowed", err=True)
        raise typer.Exit(1)


def _side(
    what: str, machine: "Microarchitecture", function: str, flags: str, arguments: str, limit: int
) -> "GusResult":
    from perfkit.cli.traces import named_trace
    from perfkit.collectors.kernels import compile_kernel
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.errors import FormatError
    from perfkit.simulators.gus.gus import Gus, GusResult

    if Path(what).suffix in SOURCES:
        build: dict[str, Any] = {"flags": flags} if flags else {}
        kernel = compile_kernel(Path(what), function or None, **build)
        return Gus(machine).run(kernel.trace(*kernel_arguments(arguments), limit=limit))
    if Path(what).is_file():
        with suppress(FormatError):
            return GusResult.load(what)  # with the core it was simulated on
    return Gus(machine).run(named_trace(what, limit))


def _name(what: str, result: "GusResult", flags: str) -> str:
    function = result.trace.provenance.function
    return Path(what).name + (f":{function}" if function else "") + (f" ({flags})" if flags else "")


def _write(found: "GusDiff", output: Path, top: int) -> None:
    from perfkit.files import replaced

    if output.suffix != ".md":
        found.save(output)
        return
    with replaced(output) as temporary:
        temporary.write_text(found.markdown(top), encoding="utf-8")


def _content(found: "GusDiff") -> dict[str, Any]:
    """Return everything as plain values."""
    sides = {
        side: {
            "name": found.names[k],
            "core": found.cores[k],
            "cycles": found.cycles[k],
            "instructions": found.instructions[k],
            "bottleneck": found.bottlenecks[k],
        }
        for k, side in enumerate("ab")
    }
    tables = {"causes": found.causes, "resources": found.resources, "lines": found.to_frame()}
    return (
        {"kind": found.kind, "speedup": found.speedup, "notes": list(found.notes)}
        | sides
        | {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
    )


def _lines(found: "GusDiff", top: int) -> str:
    """Return the lines that changed most, one per row."""
    rows = [f"{'A':>12} {'B':>12} {'change':>12}  line (simulated cycles)"]
    for row in found.to_frame().head(top).itertuples():
        place = row.place_b or f"{row.place_a} (gone)"
        rows.append(
            f"{row.cycles_a:>12,.0f} {row.cycles_b:>12,.0f} {row.change:>+12,.0f}  {place}  {row.text}".rstrip()
        )
    return "\n".join(rows)
