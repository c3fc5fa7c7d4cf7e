"""Assemble the command groups into one program, and turn perfkit's errors into one line and exit code 2."""

import sys

import typer

from perfkit._version import __version__
from perfkit.cli import cpi, dag, report, samples, spire, study
from perfkit.cli.analyze import analyze
from perfkit.cli.asm import asm
from perfkit.cli.calibrate import calibrate
from perfkit.cli.compare import compare
from perfkit.cli.gus import gus
from perfkit.cli.trace import trace
from perfkit.errors import PerfkitError

app = typer.Typer(
    name="perfkit",
    help="Find out why code is slow: counters, microbenchmarks, traces and simulation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perfkit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Find out why code is slow: counters, microbenchmarks, traces and simulation."""


app.command("analyze")(analyze)
app.command("asm")(asm)
app.command("calibrate")(calibrate)
app.command("compare")(compare)
app.command("cpi")(cpi.cpi)
app.command("report", cls=report.ReportCommand)(report.report)
app.command("spire")(spire.spire)
app.command("data")(spire.data)
app.command("samples")(samples.samples)
app.command("convert")(samples.convert)
app.command("trace")(trace)
app.command("gus")(gus)
app.add_typer(study.app, name="study")
app.add_typer(dag.app, name="dag")


def main() -> None:
    """Run the command line (the ``perfkit`` program)."""
    try:
        app()
    except PerfkitError as error:
        typer.echo(f"perfkit: {error}", err=True)
        sys.exit(2)
