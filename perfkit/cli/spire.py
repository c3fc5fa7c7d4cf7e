"""``perfkit spire``: rank a workload's events by the throughput they allow."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.base.files import is_folder
from perfkit.cli import options
from perfkit.cli.output import print_json, rows, wrote
from perfkit.errors import MissingFileError, PerfkitWarning, SettingError

if TYPE_CHECKING:
    from perfkit.fitters.spire.model import SpireModel
    from perfkit.fitters.spire.ranking import Ranking


app = options.group(
    "Rank a workload's events by SPIRE's throughput bounds, lowest first.\n\n"
    "The word rank may be left out: perfkit spire --train a.txt b.txt --analyse c.txt",
    options.DefaultGroup,
)
MinRunning = Annotated[
    float,
    typer.Option(
        "--min-running",
        min=0,
        max=1,
        callback=options.finite,
        help="Leave out samples counted for a smaller share of their interval than this.",
    ),
]
_FEW = 100


@app.command("rank", cls=options.Command)
def rank_command(
    ctx: typer.Context,
    more: list[str] | None = typer.Argument(None, metavar="[FILE]...", help="Further files to train on."),
    train: list[str] = typer.Option(
        [], "--train", metavar="FILE...", help="Train on these samples: counter dumps, or names of shipped data sets."
    ),
    analyse: list[str] = typer.Option(
        [], "--analyse", metavar="FILE", help="Samples of the workload to analyse; may be repeated."
    ),
    model: Path | None = typer.Option(
        None, "--model", metavar="FILE", help="Use this saved model instead of training."
    ),
    save_model: Annotated[
        Path | None,
        typer.Option(
            "--save-model",
            metavar="FILE",
            help="Write the model (.spire, .json or .parquet).",
            callback=options.ends_in(".spire", ".json", ".parquet"),
        ),
    ] = None,
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    min_running: MinRunning = 0.0,
    areas: Path | None = typer.Option(None, "--areas", metavar="FILE", help="TOML file with areas of further events."),
    top: options.Top = 10,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Rank a workload's events by a saved model, or by one trained now.

    Example: perfkit spire rank --train a.txt b.txt c.txt --analyse d.txt --top 10

    Example: perfkit spire rank --model mine.spire --analyse d.txt
    """
    from perfkit.readers.open_samples import open_samples
    from perfkit.samples.areas import Areas

    if not analyse:
        raise SettingError("say what to analyse with --analyse FILE, or train: perfkit spire train RUNS -o mine.spire")
    if model is not None:
        options.has_no_effect(ctx, "with --model, which is trained already", "min_running")
    if areas is not None and not areas.is_file():
        raise MissingFileError(f"no file {str(areas)!r} with areas{is_folder(areas)}")
    trained = _model([*train, *(more or [])], model, time_event, work_event, min_running)
    if save_model is not None:
        trained.save(save_model)
        wrote(save_model)
    samples = open_samples(analyse, memory=True, time_event=time_event, work_event=work_event)
    ranking = trained.rank(samples, seed=seed or 0)
    of = Areas.load() if areas is None else Areas.load().extended(areas)
    if as_json:
        print_json(_as_json(trained, ranking, of))
    else:
        typer.echo(_as_text(trained, ranking, of, top))


@app.command("train", cls=options.Command)
def train_command(
    runs: list[str] = typer.Argument(
        ..., metavar="FILE...", help="Counter dumps of your runs, patterns of them, or names of shipped data sets."
    ),
    output: Annotated[Path | None, options.output("The file of the model.", ".spire", ".parquet", ".json")] = None,
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    min_running: MinRunning = 0.0,
    as_json: options.Json = False,
) -> None:
    """Train a model on your runs and write it.

    Example: perfkit spire train 'runs/*.txt' -o mine.spire
    """
    if output is None:
        raise SettingError("say which file to write: perfkit spire train 'runs/*.txt' -o mine.spire")
    trained = _model(runs, None, time_event, work_event, min_running)
    trained.save(output)
    wrote(output)
    most = int(trained.training["n_samples"].max()) if len(trained.training) else 0
    left = trained.training["status"].value_counts().drop("ok", errors="ignore")
    if as_json:
        about = {"written": output, "kind": trained.kind, "rooflines": len(trained.rooflines)}
        print_json({**about, "most_samples_per_event": most, "not_trained": left.to_dict()})
        return
    typer.echo(f"{len(trained.rooflines)} rooflines of {trained.kind} samples, at most {most:,} per event")
    if len(left):
        typer.echo("not trained: " + ", ".join(f"{n} {status}" for status, n in left.items()))
    if most < _FEW:
        typer.echo(f"caution: under {_FEW} samples per event; train on many intervals of several programs")


# ------------------------------------------------------------------ helpers


def _model(train: list[str], saved: Path | None, time_event: str, work_event: str, min_running: float) -> "SpireModel":
    from perfkit.fitters.spire.model import Spire, SpireModel
    from perfkit.readers.open_samples import open_samples

    if (saved is None) == (not train):
        raise SettingError("give either --train FILE... or --model FILE")
    if saved is not None:
        if not saved.is_file():
            raise MissingFileError(
                f"no file {str(saved)!r} with a model{is_folder(saved)}; save one with --save-model, or make one with "
                "perfkit spire train"
            )
        return SpireModel.load(saved)
    samples = open_samples(train, memory=True, time_event=time_event, work_event=work_event)
    if len(samples.runs) == 1:
        warnings.warn(
            f"trained on one run ({samples.runs.index[0]}): its rooflines bound what that program reached, not what "
            "the processor can. Train on runs of several programs",
            PerfkitWarning,
            stacklevel=2,
        )
    return Spire(min_running=min_running).fit(samples)


def _as_text(model: "SpireModel", ranking: "Ranking", areas: Any, top: int) -> str:
    from perfkit.samples.events import per_unit

    table = ranking.to_frame(details=True)
    ranked = table[table["status"] == "ok"]
    unit = per_unit(ranking.work_event, ranking.time_event)
    width = max(len("event"), *(len(e) for e in ranked["event"].head(top)))
    lines = [
        f"{len(model.rooflines)} rooflines of {ranking.training_kind} samples; analysed: {ranking.kind} samples",
        f"measured {ranking.throughput:.4g}, at most {ranking.throughput_bound:.4g} {unit}",
        *[f"caution: {told}" for told in ranking.caveats],
        "",
        f"   {'event':{width}}  {'area':15}  {'bound':>7}  {'spread':>15}  hint",
    ]
    for row in ranked.head(top).itertuples():
        mark = "*" if row.candidate else " "
        spread = f"{row.low:.4g}..{row.high:.4g}"
        lines.append(
            f" {mark} {row.event:{width}}  {areas.of(row.event):15}  {row.throughput_bound:7.4g}  {spread:>15}  "
            f"{_hint(row.left_fraction, row.outside)}"
        )
    lines += ["", "* candidates: within the bootstrap spread of the lowest bound"]
    if len(table) > len(ranked):
        counts = table["status"][table["status"] != "ok"].value_counts()
        lines.append("not ranked: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    return "\n".join(lines)


def _hint(left: float, outside: float) -> str:
    if outside >= 0.5:
        return f"extrapolated: {outside:.0%} of the time at intensities that training did not reach"
    if left >= 0.5:
        return f"{left:.0%} of the time left of the peak: fewer would help"
    return f"{1 - left:.0%} of the time right of the peak: more would help, or training lacks fast samples there"


def _as_json(model: "SpireModel", ranking: "Ranking", areas: Any) -> dict[str, Any]:
    table = ranking.to_frame(details=True)
    table.insert(1, "area", [areas.of(e) for e in table["event"]])
    return {
        "training_kind": ranking.training_kind,
        "kind": ranking.kind,
        "time_event": ranking.time_event,
        "work_event": ranking.work_event,
        "rooflines": len(model.rooflines),
        "caveats": list(ranking.caveats),
        "throughput": ranking.throughput,
        "throughput_bound": ranking.throughput_bound,
        "events": rows(table),
    }
