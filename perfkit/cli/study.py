"""``perfkit study``: run a study file, count it, go on with it, and export what it measured."""

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perfkit.errors import DataError, PerfkitWarning, SettingError

if TYPE_CHECKING:
    from perfkit.collectors.microbenchmark import Plan
    from perfkit.study.runs import StudyRuns

app = typer.Typer(help="Microbenchmark studies: a kernel, its dimensions, and every configuration measured.")


@app.command("run")
def run(
    file: Path = typer.Argument(..., metavar="FILE", help="Study file (YAML)."),
    folder: Path | None = typer.Option(
        None, "--folder", help="Where results are kept (default: perfkit-out/NAME). A stopped study goes on from there."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only check, count and estimate the time."),
    yes: bool = typer.Option(False, "--yes", help="Also measure spaces of over 100,000 configurations."),
    output: Path | None = typer.Option(None, "--output", help="Also write the table here (.parquet or .csv)."),
    repetitions: int | None = typer.Option(None, "--repetitions", min=3, help="Runs an experiment (the paper's X)."),
    jobs: int | None = typer.Option(None, "--jobs", min=1, help="Parallel compilations (default: one a CPU)."),
    batch: int = typer.Option(128, "--batch", min=1, help="Variants in an object file."),
) -> None:
    """Measure every configuration of a study that its folder does not hold yet.

    Stop it at any time (Ctrl-C, or even kill -9): the same command goes on where it was.
    """
    from perfkit.collectors.microbenchmark import Microbenchmark
    from perfkit.study.study import CALM, Study

    study = Study.from_yaml(file)
    place = folder or Path("perfkit-out") / study.name
    settings: dict[str, Any] = {"folder": place, "repetitions": repetitions, "batch": batch}
    if jobs is not None:
        settings["jobs"] = jobs
    if yes:
        settings["limit"] = 10**12
    if dry_run:
        _show_plan(study.name, Microbenchmark(**settings).plan(study), place, CALM)
        return
    with notes_to_stderr(), _progress() as progress:
        runs = Microbenchmark(**settings, progress=progress).collect(study)
    show_summary(runs)
    typer.echo(f"kept in {place}")
    if output is not None:
        write_table(runs, output)
    if not len(runs.ok):
        raise DataError(f"nothing was measured: all {len(runs.table)} configurations failed, for the reasons above")


@app.command("show")
def show(
    folder: Path = typer.Argument(..., help="A study's folder, running or not."),
    output: Path | None = typer.Option(None, "--output", help="Write the table here (.parquet or .csv)."),
) -> None:
    """Say what a study's folder holds, and export it."""
    from perfkit.study.runs import StudyRuns

    with notes_to_stderr():
        runs = StudyRuns.from_folder(folder)
    show_summary(runs)
    if output is not None:
        write_table(runs, output)


def _show_plan(name: str, plan: "Plan", place: Path, calm: int) -> None:
    typer.echo(f"{name}: {plan.configurations} configurations, {plan.done} of them already in {place}")
    typer.echo(f"to do: {plan.objects} object files to compile, about {duration(plan.seconds)} in all (estimate)")
    for fault in plan.faults:
        typer.echo(f"note: {fault}")
    if plan.configurations > calm:
        typer.echo(f"over {calm} configurations: add --yes to measure them")


def show_summary(runs: "StudyRuns") -> None:
    """Print what was measured, and the first failures."""
    count = runs.summary()
    typer.echo(
        f"{count['configurations']} configurations: {count['settled']} settled, "
        f"{count['unsettled']} measured but never settled, {count['failed']} failed"
    )
    if count["failed"]:
        for _, row in runs.failures().head(5).iterrows():
            values = ", ".join(f"{name}={row[name]}" for name in runs.dimensions)
            typer.echo(f"  failed: {values} ({row['compiler']} {row['flags']}): {str(row['message'])[:300]}")


def write_table(runs: "StudyRuns", output: Path) -> None:
    """Write the table as parquet (with every repetition) or CSV."""
    if output.suffix == ".csv":
        runs.table.reset_index().to_csv(output, index=False)
    elif output.suffix == ".parquet":
        runs.to_parquet(output)
    else:
        raise SettingError(f"the output's name ends in .parquet or .csv, not {output.suffix!r}")
    typer.echo(f"wrote {output}")


def duration(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def notes_to_stderr() -> Iterator[None]:
    """Show perfkit's warnings as plain lines on the error output; SIGTERM ends like Ctrl-C, so state is restored."""

    def as_line(message: Any, *_: Any, **__: Any) -> None:
        typer.echo(f"note: {message}", err=True)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    with warnings.catch_warnings():
        warnings.simplefilter("always", PerfkitWarning)
        warnings.showwarning = as_line
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress() -> Iterator[Any]:
    """Yield a progress callback that draws a bar with the time left."""
    from tqdm import tqdm

    bar = tqdm(unit="", dynamic_ncols=True, smoothing=0.1, leave=False)

    def update(done: int, total: int, what: str) -> None:
        if bar.total != total:
            bar.reset(total)
            bar.initial = done  # what an earlier run did says nothing about this one's speed
        bar.set_description_str(what, refresh=False)
        bar.n = done
        bar.refresh()

    try:
        yield update
    finally:
        bar.close()
