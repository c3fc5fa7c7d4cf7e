"""``perfkit spire``: rank a workload's events by the throughput they allow; ``perfkit data``: the shipped data sets."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perfkit.errors import PerfkitWarning, SettingError

if TYPE_CHECKING:
    from perfkit.fitters.spire.model import SpireModel
    from perfkit.fitters.spire.ranking import Ranking


def spire(
    more: list[str] | None = typer.Argument(None, metavar="[FILE]...", help="Further files to train on."),
    train: list[str] = typer.Option(
        [], "--train", metavar="FILE...", help="Samples to train on: counter dumps, or names of shipped data sets."
    ),
    analyse: list[str] = typer.Option(
        ..., "--analyse", metavar="FILE", help="Samples of the workload to analyse; may be given again."
    ),
    model: Path | None = typer.Option(None, "--model", help="Use this saved model instead of training."),
    save_model: Path | None = typer.Option(None, "--save-model", help="Write the model here (.json or .parquet)."),
    time_event: str | None = typer.Option(None, "--time", help="Event that measures time (default: cycles)."),
    work_event: str | None = typer.Option(None, "--work", help="Event that measures work (default: instructions)."),
    min_running: float = typer.Option(
        0.0, "--min-running", help="Leave out samples counted for a smaller share of their interval than this."
    ),
    areas: Path | None = typer.Option(None, "--areas", help="TOML file with areas of further events."),
    top: int = typer.Option(10, "--top", min=1, help="How many events to show."),
    seed: int = typer.Option(0, "--seed", help="Of the bootstrap's draws."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with all events."),
) -> None:
    """Rank a workload's events by the throughput bound that SPIRE's rooflines give them, lowest first.

    Example: perfkit spire --train a.txt b.txt c.txt --analyse d.txt --top 10
    """
    from perfkit.readers.open_samples import open_samples
    from perfkit.samples.areas import Areas

    if areas is not None and not areas.is_file():
        raise SettingError(f"no file {str(areas)!r} with areas")
    with _notes_to_stderr():
        trained = _model([*train, *(more or [])], model, time_event, work_event, min_running)
        if save_model is not None:
            trained.save(save_model)
        samples = open_samples(analyse, time_event=time_event or "", work_event=work_event or "")
        ranking = trained.rank(samples, seed=seed)
        of = Areas.load() if areas is None else Areas.load().extended(areas)
        typer.echo(_as_json(trained, ranking, of) if as_json else _as_text(trained, ranking, of, top))


def data(
    name: str | None = typer.Argument(None, help="Say all about this data set, and check its sum."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the shipped data sets."""
    from perfkit import datasets

    if name is not None:
        found = datasets.find(name)
        found.check()
        fields = {k: str(v) for k, v in vars(found).items()}
        lines = [f"{key + ':':10} {value}" for key, value in fields.items()]
        typer.echo(json.dumps(fields, indent=1) if as_json else "\n".join(lines))
        return
    table = datasets.to_frame()
    if as_json:
        typer.echo(table.to_json(orient="records", indent=1))
        return
    width = max((len(n) for n in table["name"]), default=4)
    for row in table.itertuples():
        typer.echo(f"{row.name:{width}}  {row.kind:9}  {row.holds}")


# ------------------------------------------------------------------ helpers


@contextmanager
def _notes_to_stderr() -> Iterator[None]:
    """Print perfkit's warnings as lines on the standard error stream; leave others alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PerfkitWarning)
        before = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PerfkitWarning):
                typer.echo(f"perfkit: note: {message}", err=True)
            else:
                before(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def _model(
    train: list[str], saved: Path | None, time_event: str | None, work_event: str | None, min_running: float
) -> "SpireModel":
    from perfkit.fitters.spire.model import Spire, SpireModel
    from perfkit.readers.open_samples import open_samples

    if (saved is None) == (not train):
        raise SettingError("give either --train FILE... or --model FILE")
    if saved is not None:
        if not saved.is_file():
            raise SettingError(f"no file {str(saved)!r} with a model; save one with --save-model")
        return SpireModel.load(saved)
    return Spire(min_running=min_running).fit(
        open_samples(train, time_event=time_event or "", work_event=work_event or "")
    )


def _as_text(model: "SpireModel", ranking: "Ranking", areas: Any, top: int) -> str:
    table = ranking.to_frame(details=True)
    ranked = table[table["status"] == "ok"]
    unit = f"{ranking.work_event} per {ranking.time_event}"
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


def _as_json(model: "SpireModel", ranking: "Ranking", areas: Any) -> str:
    table = ranking.to_frame(details=True)
    table.insert(1, "area", [areas.of(e) for e in table["event"]])
    head = {
        "training_kind": ranking.training_kind,
        "kind": ranking.kind,
        "time_event": ranking.time_event,
        "work_event": ranking.work_event,
        "rooflines": len(model.rooflines),
        "caveats": list(ranking.caveats),
        "throughput": ranking.throughput if ranking.throughput == ranking.throughput else None,  # NaN
        "throughput_bound": ranking.throughput_bound,
        "events": json.loads(table.to_json(orient="records", double_precision=15)),
    }
    return json.dumps(head, indent=1)
