"""``perfkit explore``: a first look at dumps."""

import json
import sys
from pathlib import Path

import typer

from perfkit.errors import SettingError


def explore(
    files: list[str] = typer.Argument(..., metavar="FILE...", help="Counter dumps of any format, or patterns of them."),
    model: Path = typer.Option(None, "--model", help="A model of SPIRE trained on your runs (perfkit spire train)."),
    time_event: str = typer.Option("", "--time-event", help="The event that measures time (default: cycles)."),
    work_event: str = typer.Option("", "--work-event", help="The event that measures work (default: instructions)."),
    output: Path = typer.Option(None, "--output", "-o", help="Write one page (.html), or the table (.csv, .parquet)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Say what dumps are, which methods they allow and why not the others, and what to measure next.

    Example: perfkit explore perf.txt other.csv -o first-look.html
    """
    from perfkit.exploration.exploration import explore as look
    from perfkit.exploration.methods import Tried

    tried: list[Tried] = []
    found = look(files, model=model, time_event=time_event, work_event=work_event, tried_out=tried)
    if output is not None:
        if output.suffix == ".html":
            from perfkit.cli.pages.answer import of_exploration, write_page

            write_page(of_exploration(found, tried), output)
        elif output.suffix in (".csv", ".parquet"):
            found.save(output)
        else:
            raise SettingError(f"a first look is written as .html, .csv or .parquet; found {output.name!r}")
    if as_json:
        fields = ("headline", "facts", "quality", "measure_next", "notes", "failed", "kind")
        whole = {name: getattr(found, name) for name in fields}
        typer.echo(json.dumps({**whole, "methods": found.methods.to_dict("records")}, indent=1))
    else:
        typer.echo(found.report())
    if output is not None:
        typer.echo(f"\n{output}", file=sys.stderr if as_json else None)
