"""``perfkit samples`` and ``perfkit convert``: look at counter dumps, and convert them."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from perfkit.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.samples.table import Samples

_FILES = typer.Argument(..., metavar="FILE...", help="Counter dumps of any known format, plain or compressed.")
_TIME = typer.Option(None, "--time-event", help="The event that measures time (default: cycles).")
_WORK = typer.Option(None, "--work-event", help="The event that measures work (default: instructions).")
_COLLECT = typer.Option(False, "--collect", help="Show the lines that cannot be used instead of stopping at the first.")


def samples(
    files: list[Path] = _FILES,
    time_event: str = _TIME,
    work_event: str = _WORK,
    collect: bool = _COLLECT,
) -> None:
    """Print what dumps hold: runs, events with their rates, what is missing, and what was left out."""
    read = _read(files, time_event, work_event, collect)
    typer.echo(repr(read))
    intervals = read.table.drop_duplicates(["run", "place", "interval"])
    per_run = intervals.groupby("run", observed=True).agg(intervals=("interval", "size"), seconds=("seconds", _total))
    typer.echo("\n" + read.runs[["workload", "kind", "source"]].join(per_run).to_string(max_colwidth=60))
    summary = read.describe().drop(columns="count")
    formats = {"running": "{:.1%}".format, "rate": "{:.6g}".format}
    typer.echo("\n" + summary.to_string(formatters=formats, na_rep="-"))
    typer.echo(f"\n{read.work_event} / {read.time_event} = {read.throughput():.4g} (total over total)")
    for note in read.notes:
        typer.echo(f"note: {note}")
    if len(read.problems):
        typer.echo(f"\n{len(read.problems)} line(s) that could not be used:")
        typer.echo(read.problems.to_string(index=False, max_colwidth=80))


def convert(
    files: list[Path] = typer.Argument(..., metavar="FILE... OUT", help="Counter dumps, and last the file to write."),
    time_event: str = _TIME,
    work_event: str = _WORK,
    collect: bool = _COLLECT,
) -> None:
    """Convert dumps into one file: OUT.parquet (all that is known), or OUT.csv (a wide table of counts)."""
    *sources, out = files
    if not sources:
        raise SettingError("convert needs at least one dump and, last, the file to write")
    if out.suffix not in (".parquet", ".csv"):
        raise SettingError(f"convert writes .parquet or .csv; found {out.name!r}")
    if out.resolve() in {s.resolve() for s in sources}:
        raise SettingError(f"{out.name} is both read and written; name another file to write")
    read = _read(sources, time_event, work_event, collect)
    if out.suffix == ".parquet":
        read.to_parquet(out)
    else:
        read.to_wide().reset_index().to_csv(out, index=False)
    typer.echo(f"{out.name}: {read!r}")
    for note in read.notes:
        typer.echo(f"note: {note}")
    if len(read.problems):
        typer.echo(f"{len(read.problems)} line(s) could not be used; `perfkit samples --collect` shows them")


def _total(seconds: "pd.Series") -> float:
    """Return the sum; NaN, not zero, where no length is known."""
    return float(seconds.sum(min_count=1))


def _read(files: list[Path], time_event: str | None, work_event: str | None, collect: bool) -> "Samples":
    from perfkit.readers import read_samples

    missing = [str(f) for f in files if not f.exists()]
    if missing:
        raise SettingError(f"no such file: {', '.join(missing)}")
    return read_samples(files, time_event=time_event, work_event=work_event, errors="collect" if collect else "raise")
