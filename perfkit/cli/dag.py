"""``perfkit dag``: the extended roofline on the command line."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import draw, print_json, progress_bar, rows

app = typer.Typer(
    help="Extended roofline: schedule a kernel's DAG on a modelled core and name its bottlenecks.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Name = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A kernel: reduction, mvm, mmm_triple, mmm_sixfold, fft, ...")
]
Size = Annotated[
    int | None, typer.Option("--size", min=1, help="Rows, points, ...; the default takes less than a second.")
]
Core = Annotated[
    str, typer.Option("--core", metavar="CORE", help="A core of the kit; sandy_bridge_erm is the paper's.")
]
Cold = Annotated[bool, typer.Option("--cold", help="Start with empty caches.")]
Change = Annotated[
    list[str], typer.Option("--set", metavar="NAME=NUMBER", help="Change a parameter (rs=20); may be repeated.")
]


@app.command("kernel")
def kernel_command(
    name: Name,
    size: Size = None,
    core: Core = "sandy_bridge_erm",
    cold: Cold = False,
    change: Change = [],  # noqa: B006  typer reads it and copies it
    count_all: Annotated[
        bool, typer.Option("--count-all", help="Count all instructions against fetch and ROB.")
    ] = False,
    picture: Annotated[Path | None, options.picture("Draw the roofline")] = None,
    as_json: options.Json = False,
) -> None:
    """Schedule one of the paper's kernels and print the verdict and all roofs."""
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.schedule import DagScheduler

    model = _model(core, change)
    schedule = DagScheduler(model, warm=not cold, record=False).run(kernel(name).trace(size, count_all=count_all))
    roofline = schedule.roofline()
    if picture is not None:
        draw(roofline, picture)
    if as_json:
        print_json({"core": core, "verdict": roofline.verdict, "roofs": rows(roofline.to_frame())})
        return
    typer.echo(roofline.verdict)
    columns = ["kind", "of", "buffer", "bound", "distance", "utilisation"]
    typer.echo("\n" + roofline.to_frame()[columns].to_string(index=False, float_format=lambda v: f"{v:.3g}"))


@app.command("sweep")
def sweep_command(
    name: Name,
    parameter: Annotated[
        str, typer.Argument(metavar="PARAMETER", help="A parameter of the core or a switch: rs, latency_A, agus, ...")
    ],
    values: Annotated[
        list[float], typer.Argument(metavar="VALUE...", help="Its values; 0 and inf remove the feature.")
    ],
    size: Size = None,
    core: Core = "sandy_bridge_erm",
    cold: Cold = False,
    change: Change = [],  # noqa: B006  typer reads it and copies it
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Keep finished values here, and resume from them."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Schedule a kernel for several values of one parameter.

    With --folder, Ctrl-C loses nothing: the same command resumes where it stopped.
    """
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.sweep import sweep

    model = _model(core, change)
    with progress_bar(f"{name} {parameter}") as progress:
        source = kernel(name).trace(size)
        table = sweep(source, model, parameter, values, folder=folder, progress=progress, warm=not cold)
    if as_json:
        print_json(rows(table))
        return
    typer.echo(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))


def _model(core: str, change: list[str]) -> Any:
    """Return a core with the changes of --set."""
    from perfkit.errors import SettingError
    from perfkit.simulators.dag.core import DagCore

    model = DagCore.load(core)
    for item in change:
        parameter, sign, value = item.partition("=")
        try:
            model = model.replace(**{parameter: float(value)})
        except ValueError as error:
            reason = "" if sign else " (PARAMETER=NUMBER expected)"
            raise SettingError(f"--set {item}: {error}{reason}") from error
    return model


@app.command("paper")
def paper_command(as_json: options.Json = False) -> None:
    """Check the paper's statements about its kernels, at its sizes (about a minute)."""
    from perfkit.scoring.dag_paper import paper_statements

    table = paper_statements(lambda name: typer.echo(f"scheduling {name}", err=True))
    if as_json:
        print_json(rows(table))
        return
    for _, row in table.iterrows():
        typer.echo(f"{row['of']} ({row['source']}): {'agrees' if row['agrees'] else 'DIFFERS'}")
        typer.echo(f"    stated: {row['stated']}\n    found:  {row['found']}")
    typer.echo(f"{table['agrees'].sum()} of {len(table)} statements agree")


# Kernels and sizes of the comparison with this machine: within L1, L2 and L3, up to the paper's own (Fig. 6, 10, 11).
_SIZES = {
    "mvm": (50, 500, 2500),
    "mmm_triple": (30, 100, 200, 500),
    "mmm_sixfold": (30, 100, 200, 500),
    "fft": (1 << 8, 1 << 10, 1 << 16, 1 << 20),
    "wht_iterative": (1 << 10, 1 << 16, 1 << 20),
    "wht_recursive": (1 << 10, 1 << 16, 1 << 20),
    "stencil": (12, 22, 60),
    "kmeans": (1000, 10_000),
}


@app.command("compare")
def compare_command(
    core: Annotated[
        str, typer.Option("--core", metavar="CORE", help="The core of this machine: a name, or host.")
    ] = "host",
    repetitions: Annotated[int, typer.Option("--repetitions", min=3, help="Measured runs of each kernel.")] = 20,
    small: Annotated[bool, typer.Option("--small", help="Only the two smallest sizes of each kernel.")] = False,
    as_json: options.Json = False,
) -> None:
    """Compare simulated with measured performance of the same scalar code on this machine (the paper's Fig. 6).

    "all" is the core with every instruction counted against its fetch width (not in the paper).
    """
    import numpy as np

    from perfkit.machine.core import Microarchitecture

    core = Microarchitecture.load(core).name if core == "host" else core
    heads = ("Table I", core, "all", "measured", "error", "all")
    if not as_json:
        typer.echo(f"flops/cycle, warm caches: simulated on Table I, on {core} without and with all instructions")
        typer.echo(f"{'kernel':23s} " + " ".join(f"{head:>9s}" for head in heads) + " rejected")
    found = []
    for name, sizes in _SIZES.items():
        for size in sizes[: 2 if small else None]:
            found.append(row := _compared(name, size, core, repetitions))
            if not as_json:
                figures = [row[key] for key in ("table_1", "simulated", "all_instructions", "measured")]
                text = " ".join(f"{figure:9.3f}" for figure in figures)
                typer.echo(
                    f"{row['kernel']:23s} {text} {row['error']:+9.0%} {row['error_all']:+9.0%} {row['rejected']:8d}"
                )
    if as_json:
        print_json(found)
        return
    for label, key in (("the paper's model", "error"), ("all instructions", "error_all")):
        column = np.abs([row[key] for row in found])
        typer.echo(f"{label}: mean absolute error {np.mean(column):.0%}, median {np.median(column):.0%}")


def _compared(name: str, size: int, core: str, repetitions: int) -> dict[str, Any]:
    """Return one row of the comparison, in flops per cycle: the simulations and this machine."""
    from perfkit.collectors.dag.kernel_timing import measure_kernel
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler

    here, paper = DagCore.load(core), DagCore.sandy_bridge_erm()
    source, everything = kernel(name).trace(size), kernel(name).trace(size, count_all=True)
    pairs = (paper, source), (here, source), (here, everything)
    runs = [DagScheduler(model, record=False).run(nodes) for model, nodes in pairs]
    timed = measure_kernel(source, repetitions)
    measured = runs[0].work / timed.cycles
    return {
        "kernel": source.name,
        "table_1": runs[0].performance,
        "simulated": runs[1].performance,
        "all_instructions": runs[2].performance,
        "measured": measured,
        "error": runs[1].performance / measured - 1,
        "error_all": runs[2].performance / measured - 1,
        "rejected": timed.rejected,
    }
