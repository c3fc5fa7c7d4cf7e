"""``perfkit calibrate``: measure this host's latencies and throughputs, and say what differs from a core's tables."""

from pathlib import Path
from typing import Annotated

import typer

from perfkit.cli import options


def calibrate(
    core: str = typer.Option("", "--core", metavar="CORE", help="Compare with this core (default: the host's own)."),
    output: Annotated[Path | None, options.output("Write what differs as an overlay.", ".toml")] = None,
    form: list[str] = typer.Option(
        [], "--form", metavar="FORM", help="Measure only this instruction form; may be repeated."
    ),
    memory: bool = typer.Option(True, help="Measure caches and memory, too."),
    repetitions: int = typer.Option(
        25, "--repetitions", min=3, help="Samples per figure; the tenth percentile counts."
    ),
    every: bool = typer.Option(False, "--all", help="Print every figure, not only those that differ."),
    as_json: options.Json = False,
) -> None:
    """Measure this host's latencies and throughputs with the time stamp counter.

    No hardware counters are needed. What differs from the core's tables is printed; --output writes it as an overlay
    for perfkit gus --calibration.
    """
    from perfkit.collectors.host.calibrate import calibrate as measure
    from perfkit.collectors.host.calibrate import host_core
    from perfkit.errors import SettingError
    from perfkit.machine.core import Microarchitecture

    name = core or host_core()
    if not name:
        known = ", ".join(Microarchitecture.names())
        raise SettingError(f"this host is none of perfkit's cores; say --core with the nearest of {known}")
    machine = Microarchitecture.load(name)
    found = measure(form or None, repetitions=repetitions, memory=memory)
    if as_json:
        typer.echo(found.to_json())
    else:
        frame = found.compare(machine)
        shown = frame if every else frame[frame["differs"]]
        hypervisor = ", under a hypervisor" if found.host["hypervisor"] == "yes" else ""
        typer.echo(f"{found.host['processor']}{hypervisor}: a cycle is {found.cycle_seconds * 1e9:.4f} ns")
        typer.echo(f"{found.rejected:.1%} of the samples were rejected, because the clock changed around them")
        typer.echo(f"{found.busy:.1%} of the samples ran beside a busy thread of the same core and do not count")
        for what, why in found.left_out.items():
            typer.echo(f"left out: {what}: {why}")
        typer.echo(f"{len(frame)} figures measured, {int(frame['differs'].sum())} differ from {machine.title}:")
        text = shown.assign(seconds=[f"{value:.3g}" for value in shown["seconds"]])
        typer.echo(text.drop(columns="differs").to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    if output is not None:
        found.save_overlay(output, machine)
        typer.echo(f"wrote {output}: InstructionTables.load(core, calibration={str(output)!r})", err=True)
