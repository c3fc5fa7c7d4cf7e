"""``perfkit convert``: counter dumps into one file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.base.files import replaced
from perfkit.cli import options
from perfkit.cli.output import print_json, wrote
from perfkit.cli.samples import Collect, Cumulative, described, read_dumps
from perfkit.errors import SettingError, counted

if TYPE_CHECKING:
    from perfkit.samples.table import Samples

# What a wide table of counts has no column for.
_NOT_IN_CSV = {
    "at": "time stamps",
    "seconds": "the intervals' seconds",
    "running": "the shares of the time that events were counted",
}


def convert(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE... [OUT]", help="Counter dumps, and last a file to write that is not there yet."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="The file to write, also over one that is there."
    ),
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    collect: Collect = False,
    cumulative: Cumulative = None,
    as_json: options.Json = False,
) -> None:
    """Convert counter dumps into one file.

    OUT.parquet keeps everything; OUT.csv is a wide table of counts.

    Example: perfkit convert 'dumps/*.txt' -o all.parquet
    """
    *sources, out = files if output is None else (*files, output)
    if not sources:
        raise SettingError("convert needs at least one dump and, last, the file to write")
    if out.suffix not in (".parquet", ".csv"):
        raise SettingError(f"convert writes .parquet or .csv; found {out.name!r}")
    if os.path.realpath(out) in set(map(os.path.realpath, sources)):  # Path.resolve fails at links in a circle
        raise SettingError(f"{out.name} is both read and written; name another file to write")
    if output is None and out.exists():  # a dump, of a list whose last was to be read as well
        raise SettingError(f"{out} is there already, and would be overwritten: name another, or write over it with -o")
    options.check_writable(out)
    read = read_dumps(sources, time_event, work_event, collect, cumulative)
    if out.suffix == ".parquet":
        read.save(out)
    else:
        with replaced(out) as temporary:
            read.to_wide().reset_index().to_csv(temporary, index=False)
    wrote(out)
    left_out = _left_out(read) if out.suffix == ".csv" else []
    if as_json:
        print_json({"written": out, "left_out": left_out, **described(read)})
        return
    typer.echo(repr(read))
    if left_out:
        typer.echo(f"note: {out.name} holds counts only: {', '.join(left_out)} are left out; .parquet keeps everything")
    for note in read.notes:
        typer.echo(f"note: {note}")
    if len(read.problems):
        typer.echo(f"{counted(len(read.problems), 'lines')} could not be used; `perfkit samples --collect` shows them")


def _left_out(samples: "Samples") -> list[str]:
    """Return what these samples hold and a CSV file would not."""
    return [said for column, said in _NOT_IN_CSV.items() if samples.table[column].notna().any()]
