"""``perfkit convert``: counter dumps into one file."""

from pathlib import Path

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json
from perfkit.cli.samples import Collect, Cumulative, described, read_dumps
from perfkit.errors import SettingError
from perfkit.files import replaced


def convert(
    files: list[Path] = typer.Argument(..., metavar="FILE... OUT", help="Counter dumps, and last the file to write."),
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    collect: Collect = False,
    cumulative: Cumulative = None,
    as_json: options.Json = False,
) -> None:
    """Convert counter dumps into one file.

    OUT.parquet keeps everything; OUT.csv is a wide table of counts.
    """
    *sources, out = files
    if not sources:
        raise SettingError("convert needs at least one dump and, last, the file to write")
    if out.suffix not in (".parquet", ".csv"):
        raise SettingError(f"convert writes .parquet or .csv; found {out.name!r}")
    if out.resolve() in {s.resolve() for s in sources}:
        raise SettingError(f"{out.name} is both read and written; name another file to write")
    read = read_dumps(sources, time_event, work_event, collect, cumulative)
    if out.suffix == ".parquet":
        read.save(out)
    else:
        with replaced(out) as temporary:
            read.to_wide().reset_index().to_csv(temporary, index=False)
    if as_json:
        print_json({"written": out, **described(read)})
        return
    typer.echo(f"{out.name}: {read!r}")
    for note in read.notes:
        typer.echo(f"note: {note}")
    if len(read.problems):
        typer.echo(f"{len(read.problems)} line(s) could not be used; `perfkit samples --collect` shows them")
