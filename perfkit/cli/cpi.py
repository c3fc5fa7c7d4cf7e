"""``perfkit cpi``: break CPI down into a base and what each event costs, and say whether the data can carry that."""

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perfkit.errors import SettingError

if TYPE_CHECKING:
    from perfkit.fitters.cpi.stack import CpiComparison, CpiFit
    from perfkit.samples.table import Samples


def cpi(
    files: list[str] = typer.Argument(
        ..., metavar="FILE...", help="Counter dumps, patterns, or names of shipped data sets."
    ),
    form: str = typer.Option("ipc", "--form", help="Model: ipc (divided by cycles) or cpi (by instructions)."),
    method: str = typer.Option("nnls", "--method", help="nnls, ols, lasso or huber."),
    events: str | None = typer.Option(None, "--events", help="Events to use, separated by spaces (default: all)."),
    weights: str = typer.Option("auto", "--weights", help="auto, cycles, instructions or none."),
    aggregate: int = typer.Option(1, "--aggregate", help="Sum so many consecutive intervals first."),
    time_event: str | None = typer.Option(None, "--time", help="Event that counts cycles (default: by name)."),
    work_event: str | None = typer.Option(None, "--work", help="Event that counts instructions (default: by name)."),
    between: tuple[float, float] | None = typer.Option(None, "--between", help="Use this range of seconds only."),
    seed: int | None = typer.Option(
        None, "--seed", help="Of folds, shuffles and resamples (default 0; of the paper's split 100)."
    ),
    paper: bool = typer.Option(False, "--paper", help="Use the paper's own procedure instead, and print its trail."),
    trim: int = typer.Option(0, "--trim", help="With --paper: rows to leave out at each end."),
    save: Path | None = typer.Option(None, "--save", help="Write the fit here (parquet; one workload)."),
    plot: Path | None = typer.Option(None, "--plot", help="Draw the stacks into this file (png, svg, pdf)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Fit a CPI stack to each workload; with several, compare them.

    The placebo R2 and both forms' bases are printed with every stack: they show whether the data can carry one.

    Example: perfkit cpi perf.txt --aggregate 5
    """
    from perfkit.fitters.cpi.stack import CpiStack
    from perfkit.readers.open_samples import open_samples

    samples = open_samples(files, time_event=time_event or "", work_event=work_event or "")
    if between is not None:
        samples = samples.select(between=between)
    chosen = tuple(events.split()) if events else None
    if paper:
        _print_paper(samples, chosen, trim, seed=100 if seed is None else seed, as_json=as_json)
        return
    settings = CpiStack(
        form=form,  # type: ignore[arg-type]
        method=method,  # type: ignore[arg-type]
        weights=weights,  # type: ignore[arg-type]
        events=chosen,
        aggregate=aggregate,
        seed=seed or 0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the report
        stacks = settings.fit_each(samples)
    if save is not None:
        if len(stacks) > 1:
            raise SettingError(f"--save takes one workload; these are {', '.join(stacks)}")
        stacks[next(iter(stacks))].save(save)
    if plot is not None:
        stacks.plot().figure.savefig(plot, dpi=150)
    typer.echo(json.dumps(_as_json(stacks), indent=1) if as_json else _as_text(stacks))


# ------------------------------------------------------------------ helpers


def _as_text(stacks: "CpiComparison") -> str:
    reports = [fit.report() for fit in stacks.fits.values()]
    if len(reports) == 1:
        return reports[0]
    rule = "\n\n" + "-" * 60 + "\n\n"
    table = stacks.to_frame().to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
    return rule.join([*reports, f"CPI by part:\n{table}\n\n{stacks.verdicts().round(3).to_string()}"])


def _as_json(stacks: "CpiComparison") -> dict[str, Any]:
    return {name: _fit_as_json(fit) for name, fit in stacks.fits.items()}


def _fit_as_json(fit: "CpiFit") -> dict[str, Any]:
    table = fit.to_frame()
    return {
        "kind": fit.kind,
        "form": fit.settings.form,
        "method": fit.settings.method,
        "intervals": len(fit.data),
        "cpi": fit.cpi,
        "parts": {str(p): {c: _number(v) for c, v in row.items()} for p, row in table.iterrows()},
        "r2": {k: _number(v) for k, v in vars(fit.r2).items()},
        "placebo_r2": _number(fit.placebo_r2),
        "bracket": {
            "ipc": _number(fit.bracket.ipc),
            "cpi": _number(fit.bracket.cpi),
            "width": _number(fit.bracket.width),
        },
        "adjusted_r2": _number(fit.adjusted_r2),
        "rmse": _number(fit.rmse),
        "f": _number(fit.f),
        "p": _number(fit.p),
        "verdict": {"level": fit.verdict.level, "reasons": list(fit.verdict.reasons)},
        "warnings": list(fit.warnings),
    }


def _number(value: float) -> float | None:
    """JSON knows neither NaN nor infinity: what is not a number is null."""
    return float(value) if math.isfinite(value) else None


def _print_paper(samples: "Samples", events: tuple[str, ...] | None, trim: int, *, seed: int, as_json: bool) -> None:
    from perfkit.fitters.cpi.paper import paper_cpi_stack

    fit = paper_cpi_stack(samples, trim=trim, events=events, seed=seed)
    if as_json:
        found = {
            "parts": {str(p): dict(row) for p, row in fit.to_frame().iterrows()},
            "statistics": {k: _number(v) for k, v in fit.statistics().items()},
            "trail": fit.trail.to_dict(orient="records"),
        }
        typer.echo(json.dumps(found, indent=1))
        return
    lines = [
        f"The paper's procedure on {fit.rows} rows ({fit.train_rows} to fit, {fit.test_rows} to test; {fit.kind} data)",
        fit.trail.to_string(index=False, float_format=lambda v: f"{v:.4g}"),
        "",
        fit.to_frame().to_string(float_format=lambda v: f"{v:.6g}"),
        "",
        fit.statistics().to_string(float_format=lambda v: f"{v:.6g}"),
        "",
        "A high R2 may come from the division alone: see the placebo without --paper.",
    ]
    typer.echo("\n".join(lines))
