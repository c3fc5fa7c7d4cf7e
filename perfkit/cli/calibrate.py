"""``perfkit calibrate``: measure this host's latencies and throughputs, and say what differs from a core's tables."""

from pathlib import Path

import typer


def calibrate(
    core: str = typer.Option("", help="The core to compare with; default: the one this host is."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write what differs as an overlay (TOML)."),
    form: list[str] = typer.Option([], help="Measure only these instruction forms (repeat the option)."),
    memory: bool = typer.Option(True, help="Measure caches and memory too."),
    repetitions: int = typer.Option(25, help="Samples per figure; the tenth percentile counts."),
    json: bool = typer.Option(False, "--json", help="Print everything that was measured as JSON."),
    every: bool = typer.Option(False, "--all", help="Print every figure, not only those that differ."),
) -> None:
    """Measure this host with the time stamp counter (no hardware counters needed)."""
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
    if json:
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
