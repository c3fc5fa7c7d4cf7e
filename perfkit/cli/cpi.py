"""``perfkit cpi``: break CPI down into a base and what each event costs, and say whether the data support that."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from perfkit.cli import options
from perfkit.cli.output import draw, print_json, rows, wrote
from perfkit.errors import SettingError, p_words

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.fitters.cpi.stack import CpiComparison, CpiFit
    from perfkit.samples.table import Samples


def cpi(
    ctx: typer.Context,
    files: list[str] = typer.Argument(
        ..., metavar="FILE...", help="Counter dumps, patterns, or names of shipped data sets."
    ),
    form: Annotated[
        Literal["ipc", "cpi"], typer.Option("--form", help="Divide the model by cycles (ipc) or by instructions (cpi).")
    ] = "ipc",
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="Regression: nnls, ols, lasso, huber or an added one.")
    ] = "nnls",
    events: Annotated[
        str, typer.Option("--events", metavar="A,B,...", help="Use these events, separated by commas (default: all).")
    ] = "",
    weights: Annotated[
        Literal["auto", "cycles", "instructions", "none"], typer.Option("--weights", help="Weights of the intervals.")
    ] = "auto",
    aggregate: Annotated[
        int, typer.Option("--aggregate", min=1, help="Sum this many consecutive intervals first.")
    ] = 1,
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    between: Annotated[
        tuple[float, float] | None, typer.Option("--between", metavar="FROM TO", help="Use these seconds only.")
    ] = None,
    seed: options.Seed = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Use the paper's own procedure instead, and print its steps.")
    ] = False,
    trim: Annotated[int, typer.Option("--trim", min=0, help="With --paper: rows to leave out at each end.")] = 0,
    output: Annotated[Path | None, options.output("Write the fit (one workload).", ".parquet")] = None,
    picture: Annotated[Path | None, options.picture("Draw the stacks")] = None,
    as_json: options.Json = False,
) -> None:
    """Fit a CPI stack to each workload; compare several.

    The placebo R2 and the bases of both forms are printed with every stack: they show whether the data support one.
    The seed is 0, and 100 for the paper's split, unless --seed says otherwise.

    Example: perfkit cpi perf.txt --aggregate 5
    """
    from perfkit.fitters.cpi.stack import CpiStack
    from perfkit.readers.open_samples import open_samples

    if paper:
        steps = ("form", "method", "weights", "aggregate", "output", "picture")
        options.has_no_effect(ctx, "with --paper, whose procedure has its own steps", *steps)
    else:
        options.has_no_effect(ctx, "without --paper", "trim")
    samples = open_samples(files, memory=True, time_event=time_event, work_event=work_event)
    if between is not None:
        samples = samples.select(between=between)
    chosen = tuple(options.words(events)) or None
    if paper:
        _print_paper(samples, chosen, trim, seed=100 if seed is None else seed, as_json=as_json)
        return
    settings = CpiStack(
        form=form,
        method=method,
        weights=weights,
        events=chosen,
        aggregate=aggregate,
        seed=seed or 0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the report
        stacks = settings.fit_each(samples)
    if output is not None:
        if len(stacks) > 1:
            raise SettingError(f"--output takes the fit of one workload; these are {', '.join(stacks)}")
        stacks[next(iter(stacks))].save(output)
        wrote(output)
    if picture is not None:
        draw(stacks, picture)
    if as_json:
        print_json({name: _fit_as_json(fit) for name, fit in stacks.fits.items()})
    else:
        typer.echo(_as_text(stacks))


# ------------------------------------------------------------------ helpers


def _as_text(stacks: "CpiComparison") -> str:
    reports = [fit.report() for fit in stacks.fits.values()]
    if len(reports) == 1:
        return reports[0]
    rule = "\n\n" + "-" * 60 + "\n\n"
    table = stacks.to_frame().to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
    return rule.join([*reports, f"CPI by part:\n{table}\n\n{stacks.verdicts().round(3).to_string()}"])


def _fit_as_json(fit: "CpiFit") -> dict[str, Any]:
    table = fit.to_frame()
    return {
        "kind": fit.kind,
        "form": fit.settings.form,
        "method": fit.settings.method,
        "intervals": len(fit.data),
        "cpi": fit.cpi,
        "parts": {part: dict(row) for part, row in table.iterrows()},
        "r2": vars(fit.r2),
        "placebo_r2": fit.placebo_r2,
        "bracket": {"ipc": fit.bracket.ipc, "cpi": fit.bracket.cpi, "width": fit.bracket.width},
        "adjusted_r2": fit.adjusted_r2,
        "rmse": fit.rmse,
        "f": fit.f,
        "p": fit.p,
        "verdict": {"level": fit.verdict.level, "reasons": list(fit.verdict.reasons)},
        "warnings": list(fit.warnings),
    }


def _figures(statistics: "pd.Series") -> "pd.Series":
    """Return figures as text; a p-value that is lost to rounding is not zero."""
    words = statistics.map("{:.6g}".format)
    words["p"] = p_words(statistics["p"], 6).removeprefix("p ")
    return words


def _print_paper(samples: "Samples", events: tuple[str, ...] | None, trim: int, *, seed: int, as_json: bool) -> None:
    from perfkit.fitters.cpi.paper import paper_cpi_stack

    fit = paper_cpi_stack(samples, trim=trim, events=events, seed=seed)
    if as_json:
        parts = {part: dict(row) for part, row in fit.to_frame().iterrows()}
        print_json({"parts": parts, "statistics": dict(fit.statistics()), "trail": rows(fit.trail)})
        return
    lines = [
        f"The paper's procedure on {fit.rows} rows ({fit.train_rows} to fit, {fit.test_rows} to test; {fit.kind} data)",
        fit.trail.to_string(index=False, float_format=lambda v: f"{v:.4g}"),
        "",
        fit.to_frame().to_string(float_format=lambda v: f"{v:.6g}"),
        "",
        _figures(fit.statistics()).to_string(),
        "",
        "A high R2 may come from the division alone: see the placebo without --paper.",
    ]
    typer.echo("\n".join(lines))
