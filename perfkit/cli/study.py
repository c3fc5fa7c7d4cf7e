"""``perfkit study``: run a study file, count it, go on with it, and export what it measured."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.base.files import replaced
from perfkit.cli import options
from perfkit.cli.output import print_json, progress_bar, rows, wrote
from perfkit.errors import DataError, PerfkitError

if TYPE_CHECKING:
    from perfkit.collectors.microbenchmark import Plan
    from perfkit.study.runs import StudyRuns

app = options.group(
    "Microbenchmark studies: measure every configuration of a kernel's dimensions.",
)
_FAILURES = 5
_SHOWN = 20  # rows
Table = Annotated[Path | None, options.output("Write the table.", ".parquet", ".csv")]


@app.command("run", cls=options.Command)
def run(
    ctx: typer.Context,
    file: Path = typer.Argument(..., metavar="FILE", help="Study file (YAML)."),
    folder: Path | None = typer.Option(
        None,
        "--folder",
        metavar="FOLDER",
        help="Keep results here, and resume from them (default: perfkit-out/NAME).",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only check, count and estimate the time."),
    yes: bool = typer.Option(False, "--yes", help="Also measure spaces of over 100,000 configurations."),
    output: Table = None,
    repetitions: int | None = typer.Option(
        None, "--repetitions", min=3, help="Runs per experiment (the paper's X; default: the study's)."
    ),
    jobs: int | None = typer.Option(None, "--jobs", min=1, help="Parallel compilations (default: one per processor)."),
    batch: int = typer.Option(32, "--batch", min=1, help="Variants that one task compiles."),
    retry: bool = typer.Option(False, "--retry", help="Measure the configurations again that failed before."),
    cluster: str | None = options.cluster("Measure"),
    budget: int | None = typer.Option(
        None,
        "--budget",
        metavar="N",
        help="Measure at most N configurations (at least 84), chosen by a model, and predict the others.",
    ),
    as_json: options.Json = False,
) -> None:
    """Measure the configurations that the folder does not hold.

    Stop it at any time (Ctrl-C, or even kill -9): the same command resumes where it stopped.

    Example: perfkit study run study.yaml --dry-run
    """
    from perfkit.collectors.microbenchmark import Microbenchmark
    from perfkit.study.study import CALM, Study

    study = Study.from_yaml(file)
    place = folder or Path("perfkit-out") / study.name
    settings: dict[str, Any] = {
        "folder": place,
        "repetitions": repetitions,
        "batch": batch,
        "retry": retry,
        "cluster": cluster,
        "budget": budget,
    }
    if jobs is not None:
        settings["jobs"] = jobs
    if yes:
        settings["limit"] = 10**12
    if dry_run:
        options.has_no_effect(ctx, "with --dry-run, which measures nothing", "output")
        _show_plan(study.name, Microbenchmark(**settings).plan(study), place, CALM, as_json, study.is_program)
        return
    with _kept_when_stopped(place), progress_bar() as progress:
        runs = Microbenchmark(**settings, progress=progress).collect(study)
    if output is not None:
        write_table(runs, output)
    show_summary(runs, place, as_json)
    _any_measured(runs)


@app.command("show", cls=options.Command)
def show(
    place: Path = typer.Argument(
        ..., metavar="FOLDER", help="A study's folder, its table (.parquet), or its study file, running or not."
    ),
    output: Table = None,
    as_json: options.Json = False,
) -> None:
    """Show what a study has measured, and export it.

    Example: perfkit study show perfkit-out/fma -o fma.csv
    """
    from perfkit.study.runs import StudyRuns

    if place.suffix in {".yaml", ".yml"} and place.is_file():
        from perfkit.study.study import Study

        place = Path("perfkit-out") / Study.from_yaml(place).name
    runs = StudyRuns.load(place) if place.is_file() else StudyRuns.from_folder(place)
    if output is not None:
        write_table(runs, output)
    show_summary(runs, place, as_json)
    if len(runs.table):  # of a study that runs, or was stopped, there may be no row yet
        _any_measured(runs)


def _any_measured(runs: "StudyRuns") -> None:
    """Raise DataError if all configurations failed, or have an empty region."""
    from perfkit.study.parts import EMPTY

    if not len(runs.ok):
        raise DataError(f"nothing was measured: all {len(runs.table)} configurations failed, for the reasons above")
    if "message" in runs.ok and runs.ok["message"].fillna("").str.startswith(EMPTY).all():
        raise DataError("nothing was measured: the region is empty")


@contextmanager
def _kept_when_stopped(place: Path) -> Iterator[None]:
    """When a run is interrupted or ended, say what of it is kept."""
    try:
        yield
    except KeyboardInterrupt:
        from perfkit.study.runs import read_experiments, read_records

        rows = begun = 0
        with suppress(OSError, PerfkitError):
            finished = {record["key"] for record in read_records(place)}
            rows = len(finished)
            begun = len(read_experiments(place).keys() - finished)
        also = f", and passes of {begun} more," if begun else ""
        text = f"stopped: {rows} finished rows{also} are kept in {place}, and the same command resumes from there"
        typer.echo(f"perfkit: {text}", err=True)
        raise typer.Exit(130) from None


def _show_plan(name: str, plan: "Plan", place: Path, calm: int, as_json: bool, program: bool) -> None:
    if as_json:
        print_json(
            {
                "name": name,
                "folder": place,
                "configurations": plan.configurations,
                "done": plan.done,
                "objects": plan.objects,
                "estimated_seconds": plan.seconds,
                "estimated_most_seconds": plan.most_seconds,
                "faults": list(plan.faults),
            }
        )
        return
    typer.echo(f"{name}: {plan.configurations} configurations, {plan.done} of them already in {place}")
    also = ", without the programs' own time" if program else ""
    typer.echo(
        f"to do: {plan.objects} variants to compile; about {duration(plan.seconds)} if every row settles at once, "
        f"{duration(plan.most_seconds)} if none does (estimate{also}, for a quiet machine)"
    )
    for fault in plan.faults:
        typer.echo(f"note: {fault}")
    if plan.configurations > calm:
        typer.echo(f"over {calm} configurations: add --yes to measure them")


def show_summary(runs: "StudyRuns", place: Path, as_json: bool) -> None:
    """Print what was measured, and the first failures (JSON: all of them)."""
    count = runs.counts()
    if as_json:
        failures, figures = rows(runs.failures()), rows(runs.figures())
        print_json({"folder": place, **count, "notes": runs.remarks(), "failures": failures, "rows": figures})
        return
    figures = runs.figures()
    if len(figures):
        shown = figures.head(_SHOWN).to_string(
            index=False, na_rep="", float_format=lambda value: f"{value:,.0f}" if value >= 1e3 else f"{value:.4g}"
        )
        typer.echo(shown)
        if len(figures) > _SHOWN:
            typer.echo(f"... and {len(figures) - _SHOWN} more rows (--output writes all)")
    for told in runs.remarks():
        typer.echo(told)
    typer.echo(
        f"{count['configurations']} configurations: {count['settled']} settled, "
        f"{count['unsettled']} measured but never settled, {count['failed']} failed"
        + (f", {count['predicted']} predicted, not measured" if count["predicted"] else "")
    )
    if count["failed"]:
        for _, row in runs.failures().head(_FAILURES).iterrows():
            values = ", ".join(f"{name}={row[name]}" for name in runs.dimensions)
            typer.echo(f"  failed: {values} ({row['compiler']} {row['flags']}): {str(row['message'])[:300]}")
        if count["failed"] > _FAILURES:
            typer.echo(f"  ... and {count['failed'] - _FAILURES} more that failed (--json and --output name all)")
    typer.echo(f"folder: {place}")


def write_table(runs: "StudyRuns", output: Path) -> None:
    """Write the table as parquet (with every repetition) or CSV."""
    if output.suffix == ".csv":
        with replaced(output) as temporary:
            table = runs.table.reset_index()
            kinds = table["status"].where(table["status"] != "ok", runs.kind) if len(table) else runs.kind
            table.assign(kind=kinds).to_csv(temporary, index=False)
    else:
        runs.save(output)
    wrote(output)


def duration(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
