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
    picture: Annotated[str | None, typer.Option(help="Write the plot to this file (png, svg, pdf).")] = None,
) -> None:
    """Schedule one of the paper's kernels and print the verdict and all roofs."""
    from perfkit.kernels import kernel
    from perfkit.simulators.dag_schedule import DagScheduler

    model = _model(core, change)
    schedule = DagScheduler(model, warm=not cold, record=False).run(kernel(name).trace(size))
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
    from perfkit.kernels import kernel
    from perfkit.simulators.dag_sweep import sweep

    model = _model(core, change)
    with _bar(f"{name} {parameter}") as progress:
        source = kernel(name).trace(size)
        table = sweep(source, model, parameter, values, folder=folder, progress=progress, warm=not cold)
    typer.echo(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))


def _model(core: str, change: list[str] | None) -> Any:
    """Return a core with the changes of --set."""
    from perfkit.errors import SettingError
    from perfkit.simulators.dag_core import DagCore

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


# Kernels and sizes of the comparison with this machine: within L1, within L2 and L3, as in the paper's Fig. 6.
_SIZES = {
    "mvm": (50, 500),
    "mmm_triple": (30, 100, 200),
    "mmm_sixfold": (30, 100, 200),
    "fft": (256, 4096, 65536),
    "wht_iterative": (1024, 65536),
    "wht_recursive": (1024, 65536),
    "stencil": (12, 22, 60),
    "kmeans": (1000, 10000),
}


@app.command("compare")
def compare_command(
    core: Annotated[str, typer.Option(help="The core of this machine, as the kit knows it.")] = "skylake_x",
    repetitions: Annotated[int, typer.Option(help="Measured runs of each kernel.")] = 20,
) -> None:
    """Compare simulated with measured performance of the same scalar code on this machine (the paper's Fig. 6)."""
    import numpy as np

    from perfkit.collectors.kernel_timing import measure_kernel
    from perfkit.kernels import kernel
    from perfkit.simulators.dag_core import DagCore
    from perfkit.simulators.dag_schedule import DagScheduler

    here, paper = DagCore.load(core), DagCore.sandy_bridge_erm()
    typer.echo(f"flops/cycle, warm caches: simulated on Table I and {core}, measured here; error of {core}")
    typer.echo(f"{'kernel':22s} {'Table I':>8s} {core:>10s} {'measured':>9s} {'error':>7s} {'rejected':>8s}")
    errors = []
    for name, sizes in _SIZES.items():
        for size in sizes:
            source = kernel(name).trace(size)
            runs = [DagScheduler(model, record=False).run(source) for model in (paper, here)]
            timed = measure_kernel(source, repetitions)
            measured = runs[0].work / timed.cycles
            errors.append(runs[1].performance / measured - 1)
            figures = f"{runs[0].performance:8.3f} {runs[1].performance:10.3f} {measured:9.3f} {errors[-1]:+7.0%}"
            typer.echo(f"{source.name:22s} {figures} {timed.rejected:8d}")
    typer.echo(f"mean absolute error {np.mean(np.abs(errors)):.0%}, median {np.median(np.abs(errors)):.0%}")
