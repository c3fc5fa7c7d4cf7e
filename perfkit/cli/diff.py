"""``perfkit diff``: two simulated runs side by side, for a pull request."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, rows

if TYPE_CHECKING:
    from perfkit.simulators.gus.diff import GusDiff
    from perfkit.simulators.gus.gus import GusResult
    from perfkit.trace.trace import Trace

SOURCES = (".c", ".cc", ".cpp", ".cxx")


def diff(
    a: str = typer.Argument(
        ..., metavar="A", help="A trace file, a saved result (perfkit gus -o), a C or C++ file, or corpus:NAME."
    ),
    b: str = typer.Argument("", metavar="[B]", help="The same for the other side (default: A, built otherwise)."),
    function: options.Function = "",
    function_b: str = typer.Option("", "--function-b", metavar="NAME", help="Record this function of B instead."),
    core: str = typer.Option(
        "",
        "--core",
        metavar="CORE",
        help="A core's name, a core file (*.toml), or host, this machine's core (default: host; a saved result's own).",
    ),
    cold: bool = typer.Option(False, "--cold", help="Start with empty caches and an untrained branch predictor."),
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
        Path | None,
        options.output(
            "Write a report (.md) or the result (.parquet, .json, .csv).", ".md", ".parquet", ".json", ".csv"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what changed between two simulated runs: cycles, causes, bottleneck and lines.

    Example: perfkit diff kernel.c -f sum --arguments 'f8[1000], 1000' --flags "-O1" --flags-b "-O3 -march=native"

    Example: perfkit diff before.trace after.trace --core zen4 -o change.md
    """
    from perfkit.simulators.gus.diff import diff as compare

    sides = [
        _Side(a, function, flags, arguments, limit, core, cold),
        _Side(b or a, function_b or function, flags_b or flags, arguments, limit, core, cold),
    ]
    _check(sides, b, {"--flags-b": flags_b, "--function-b": function_b})
    first, second = (side.result() for side in sides)
    found = compare(first, second, names=(sides[0].name(first), sides[1].name(second)))
    if output is not None:
        _write(found, output, top)
    if as_json:
        print_json(_content(found))
    else:
        typer.echo(found.summary())
        typer.echo("\n" + _lines(found, top))
        typer.echo("\nsimulated, and no better than the model: perfkit compare measures both on this machine")
    if output is not None:
        typer.echo(f"wrote {output}", err=True)
    slower = found.cycles[1] / found.cycles[0] - 1
    if at_most is not None and slower > at_most / 100:
        typer.echo(f"perfkit: B takes {slower:+.2%} cycles (simulated), and {at_most:+g} % is allowed", err=True)
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Side:
    """What one side is, and how it is built, recorded and simulated."""

    what: str
    function: str
    flags: str
    arguments: str
    limit: int
    core: str
    cold: bool

    @property
    def is_source(self) -> bool:
        return Path(self.what).suffix in SOURCES

    @property
    def is_built(self) -> bool:
        return self.is_source or self.what.startswith("corpus:")

    def result(self) -> "GusResult":
        """Return its simulation; a saved one as it is, unless a core or cold caches are asked for."""
        from perfkit.cli.traces import named_trace
        from perfkit.collectors.kernels import compile_kernel
        from perfkit.collectors.open_traces import kernel_arguments
        from perfkit.errors import FormatError
        from perfkit.simulators.gus.gus import GusResult

        build: dict[str, Any] = {"flags": self.flags} if self.flags and self.is_built else {}
        if self.is_source:
            kernel = compile_kernel(Path(self.what), self.function or None, **build)
            return self._simulated(kernel.trace(*kernel_arguments(self.arguments), limit=self.limit))
        if Path(self.what).is_file():
            with suppress(FormatError):
                saved = GusResult.load(self.what)
                return self._simulated(saved.trace) if self.core or self.cold else saved
        return self._simulated(named_trace(self.what, self.limit, **build))

    def _simulated(self, trace: "Trace") -> "GusResult":
        from perfkit.machine.core import Microarchitecture
        from perfkit.simulators.gus.gus import Gus

        return Gus(Microarchitecture.load(self.core or "host"), warm=not self.cold).run(trace)

    def name(self, result: "GusResult") -> str:
        """Return what to call it."""
        function = result.trace.provenance.function
        built = f" ({self.flags})" if self.flags and self.is_built else ""
        return Path(self.what).name + (f":{function}" if function else "") + built


def _check(sides: list[_Side], b: str, of_b: dict[str, str]) -> None:
    """Refuse what would be ignored."""
    from perfkit.errors import SettingError

    if not b and not any(of_b.values()):
        raise SettingError("the two sides are the same: name B, or build A otherwise (--flags-b, --function-b)")
    if of_b["--flags-b"] and not sides[1].is_built:
        raise SettingError(f"--flags-b is for C and C++ files and corpus:NAME; {sides[1].what} is built already")
    if of_b["--function-b"] and not sides[1].is_source:
        raise SettingError(f"--function-b is for C and C++ files; {sides[1].what} is of one function already")
    if sides[0].flags and not any(side.is_built for side in sides):
        raise SettingError("--flags is for C and C++ files and corpus:NAME; these two sides are built already")
    for option, given in (("--function", sides[0].function), ("--arguments", sides[0].arguments)):
        if given and not any(side.is_source for side in sides):
            raise SettingError(f"{option} is for C and C++ files; these two sides say themselves what ran")


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
            "warm": found.warm[k],
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
        | {name: rows(table) for name, table in tables.items()}
    )


def _lines(found: "GusDiff", top: int) -> str:
    """Return the lines that changed most, one per row."""
    lines = [f"{'A':>12} {'B':>12} {'change':>12}  line (simulated cycles)"]
    for row in found.to_frame().head(top).itertuples():
        place = row.place_b or f"{row.place_a} (gone)"
        lines.append(
            f"{row.cycles_a:>12,.0f} {row.cycles_b:>12,.0f} {row.change:>+12,.0f}  {place}  {row.text}".rstrip()
        )
    return "\n".join(lines)
