"""``perfkit explore``: a first look at dumps."""

from pathlib import Path
from typing import Annotated

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, wrote


def explore(
    files: list[str] = typer.Argument(..., metavar="FILE...", help="Counter dumps of any format, or patterns of them."),
    model: Path | None = typer.Option(
        None, "--model", metavar="FILE", help="A model of SPIRE trained on your runs (perfkit spire train)."
    ),
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    output: Annotated[
        Path | None,
        options.output("Write one page (.html), or the table (.csv, .parquet).", ".html", ".csv", ".parquet"),
    ] = None,
    as_json: options.Json = False,
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
        else:
            found.save(output)
    if as_json:
        fields = ("headline", "facts", "quality", "measure_next", "notes", "failed", "kind")
        whole = {name: getattr(found, name) for name in fields}
        print_json({**whole, "methods": found.methods.to_dict("records")})
    else:
        typer.echo(found.report())
    if output is not None:
        wrote(output)
