"""``perfkit dag``: the extended roofline on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

app = typer.Typer(help="Extended roofline: schedule a kernel's DAG on a modelled core and name its bottlenecks.")


@app.command("kernel")
def kernel_command(
    name: Annotated[str, typer.Argument(help="A kernel: reduction, mvm, mmm_triple, mmm_sixfold, fft, ...")],
    size: Annotated[int | None, typer.Option(help="Rows, points, ...; the default runs within a second.")] = None,
    core: Annotated[str, typer.Option(help="A core of the kit; sandy_bridge_erm is the paper's.")] = "sandy_bridge_erm",
    cold: Annotated[bool, typer.Option(help="Begin with empty caches.")] = False,
    change: Annotated[list[str] | None, typer.Option("--set", help="Change a parameter: --set rs=20")] = None,
    count_all: Annotated[bool, typer.Option("--all", help="Count all instructions against fetch and ROB.")] = False,
    picture: Annotated[str | None, typer.Option(help="Write the plot to this file (png, svg, pdf).")] = None,
) -> None:
    """Schedule one of the paper's kernels and print the verdict and all roofs."""
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.schedule import DagScheduler

    model = _model(core, change)
    schedule = DagScheduler(model, warm=not cold, record=False).run(kernel(name).trace(size, count_all=count_all))
    roofline = schedule.roofline()
    typer.echo(roofline.verdict)
    columns = ["kind", "of", "buffer", "bound", "distance", "utilisation"]
    typer.echo("\n" + roofline.to_frame()[columns].to_string(index=False, float_format=lambda v: f"{v:.3g}"))
    if picture:
        roofline.plot().figure.savefig(picture, bbox_inches="tight")
        typer.echo(f"\nplot written to {picture}")


@app.command("sweep")
def sweep_command(
    name: Annotated[str, typer.Argument(help="A kernel: reduction, mvm, mmm_triple, mmm_sixfold, fft, ...")],
    parameter: Annotated[str, typer.Argument(help="A parameter of the core or a switch: rs, latency_A, agus, ...")],
    values: Annotated[list[float], typer.Argument(help="Its values; 0 and inf take the feature out.")],
    size: Annotated[int | None, typer.Option(help="Rows, points, ...; the default runs within a second.")] = None,
    core: Annotated[str, typer.Option(help="A core of the kit.")] = "sandy_bridge_erm",
    cold: Annotated[bool, typer.Option(help="Begin with empty caches.")] = False,
    change: Annotated[list[str] | None, typer.Option("--set", help="Change another parameter: --set rob=64")] = None,
    folder: Annotated[
        str | None, typer.Option(help="Keep finished values here; run again to go on where it stopped.")
    ] = None,
) -> None:
    """Schedule a kernel for several values of one parameter, with progress; Ctrl-C loses nothing with --folder."""
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.sweep import sweep

    model = _model(core, change)
    with _bar(f"{name} {parameter}") as progress:
        source = kernel(name).trace(size)
        table = sweep(source, model, parameter, values, folder=folder, progress=progress, warm=not cold)
    typer.echo(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))


def _model(core: str, change: list[str] | None) -> Any:
    """Return a core with the changes of --set."""
    from perfkit.errors import SettingError
    from perfkit.simulators.dag.core import DagCore

    model = DagCore.load(core)
    for item in change or []:
        parameter, sign, value = item.partition("=")
        try:
            model = model.replace(**{parameter: float(value)})
        except ValueError as error:
            reason = "" if sign else " (PARAMETER=NUMBER expected)"
            raise SettingError(f"--set {item}: {error}{reason}") from error
    return model


@contextmanager
def _bar(what: str) -> Iterator[Any]:
    """Yield a progress callback that draws a bar on the error output."""
    from tqdm import tqdm

    with tqdm(desc=what, unit="", leave=False, dynamic_ncols=True) as bar:

        def update(done: int, total: int) -> None:
            if bar.total != total:
                bar.reset(total)
                bar.initial = done  # what an earlier run did says nothing about this one's speed
            bar.n = done
            bar.refresh()

        yield update


@app.command("paper")
def paper_command() -> None:
    """Check the paper's statements about its kernels, at its sizes (about a minute)."""
    from perfkit.scoring.dag_paper import paper_statements

    table = paper_statements(lambda name: typer.echo(f"scheduling {name}", err=True))
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
    core: Annotated[str, typer.Option(help="The core of this machine, as the kit knows it.")] = "skylake_x",
    repetitions: Annotated[int, typer.Option(help="Measured runs of each kernel.")] = 20,
    small: Annotated[bool, typer.Option("--small", help="Only the two smallest sizes of each kernel.")] = False,
) -> None:
    """Compare simulated with measured performance of the same scalar code on this machine (the paper's Fig. 6).

    "all" is the core with every instruction counted against its fetch width (not in the paper).
    """
    import numpy as np

    from perfkit.collectors.dag.kernel_timing import measure_kernel
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler

    here, paper = DagCore.load(core), DagCore.sandy_bridge_erm()
    typer.echo(f"flops/cycle, warm caches: simulated on Table I, on {core}, on {core} with all instructions; measured")
    typer.echo(
        f"{'kernel':23s} {'Table I':>8s} {core:>10s} {'all':>6s} {'measured':>9s} {'error':>7s} {'all':>6s} rejected"
    )
    errors = []
    for name, sizes in _SIZES.items():
        for size in sizes[: 2 if small else None]:
            source, everything = kernel(name).trace(size), kernel(name).trace(size, count_all=True)
            pairs = (paper, source), (here, source), (here, everything)
            runs = [DagScheduler(model, record=False).run(nodes) for model, nodes in pairs]
            timed = measure_kernel(source, repetitions)
            measured = runs[0].work / timed.cycles
            errors.append([run.performance / measured - 1 for run in runs[1:]])
            figures = (
                f"{runs[0].performance:8.3f} {runs[1].performance:10.3f} {runs[2].performance:6.3f} {measured:9.3f}"
            )
            typer.echo(f"{source.name:23s} {figures} {errors[-1][0]:+7.0%} {errors[-1][1]:+6.0%} {timed.rejected:8d}")
    for label, k in (("the paper's model", 0), ("all instructions", 1)):
        column = np.abs([pair[k] for pair in errors])
        typer.echo(f"{label}: mean absolute error {np.mean(column):.0%}, median {np.median(column):.0%}")
