"""``perfkit samples``: what counter dumps hold."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, rows
from perfkit.errors import counted

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.samples.table import Samples

Collect = Annotated[
    bool, typer.Option("--collect", help="Report the lines that cannot be used instead of stopping at the first.")
]


Cumulative = Annotated[
    bool | None,
    typer.Option("--cumulative/--counts", help="Say whether the rows of tables are running totals or counts."),
]


def samples(
    files: list[str] = typer.Argument(
        ..., metavar="FILE...", help="Counter dumps of any known format, patterns, or names of shipped data sets."
    ),
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    collect: Collect = False,
    cumulative: Cumulative = None,
    as_json: options.Json = False,
) -> None:
    """Print what counter dumps hold.

    The runs, the events with their rates, what is missing, what was multiplexed, and what was left out.

    Example: perfkit samples dump.txt --collect
    """
    read = read_dumps(files, time_event, work_event, collect, cumulative)
    # Places (CPUs, hardware threads) of one interval pass it together: the longest is its time on the clock.
    each = read.table.groupby(["run", "place", "interval"], observed=True, sort=False)["seconds"].max().reset_index()
    on_clock = each.groupby(["run", "interval"], observed=True)["seconds"].max().groupby("run", observed=True)
    per_run = (
        each.groupby("run", observed=True).agg(intervals=("interval", "size")).assign(seconds=on_clock.agg(_total))
    )
    runs = read.runs[["workload", "kind", "source"]].join(per_run)
    summary = read.describe()
    if as_json:
        print_json(described(read) | {"runs": rows(runs.reset_index()), "events": rows(summary.reset_index())})
        return
    typer.echo(repr(read))
    typer.echo("\n" + runs.to_string(max_colwidth=60))
    summary = summary.drop(columns="count")
    formats = {"running": "{:.1%}".format, "rate": "{:.6g}".format}
    typer.echo("\n" + summary.to_string(formatters=formats, na_rep="-"))
    typer.echo(f"\n{read.work_event} / {read.time_event} = {read.throughput():.4g} (total over total)")
    for note in read.notes:
        typer.echo(f"note: {note}")
    if len(read.problems):
        typer.echo(f"\n{counted(len(read.problems), 'lines')} that could not be used:")
        typer.echo(read.problems.to_string(index=False, max_colwidth=80))


def _total(seconds: "pd.Series") -> float:
    """Return the sum; NaN, not zero, where no length is known."""
    return float(seconds.sum(min_count=1))


def described(read: "Samples") -> dict[str, Any]:
    """Return what JSON says of dumps as a whole."""
    return {
        "kind": read.kind,
        "samples": len(read),
        "time_event": read.time_event,
        "work_event": read.work_event,
        "throughput": read.throughput(),
        "notes": list(read.notes),
        "problems": rows(read.problems),
    }


def read_dumps(
    files: "list[str] | list[Path]", time_event: str, work_event: str, collect: bool, cumulative: bool | None = None
) -> "Samples":
    """Read counter dumps; ``collect`` keeps the lines that cannot be used as the samples' problems."""
    from perfkit.readers.open_samples import open_samples

    return open_samples(
        files,
        memory=True,
        time_event=time_event,
        work_event=work_event,
        errors="collect" if collect else "raise",
        cumulative=cumulative,
    )
