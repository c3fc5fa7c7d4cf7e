"""``perfkit calibrate``: measure this host's latencies and throughputs, and say what differs from a core's tables."""

from pathlib import Path
from typing import Annotated

import typer

from perfkit.cli import options
from perfkit.cli.output import wrote


def calibrate(
    ctx: typer.Context,
    core: str = typer.Option("", "--core", metavar="CORE", help="Compare with this core (default: the host's own)."),
    output: Annotated[
        Path | None, options.output("Write what differs as an overlay; with --full a core file.", ".toml")
    ] = None,
    form: list[str] = typer.Option(
        [], "--form", metavar="FORM", help="Measure only this instruction form; may be repeated."
    ),
    memory: bool = typer.Option(True, help="Measure caches and memory, too."),
    repetitions: int = typer.Option(
        25, "--repetitions", min=3, help="Samples per figure; the tenth percentile counts."
    ),
    full: bool = typer.Option(
        False, "--full", help="Measure all forms, their ports and the core, and write a core file: at most 5 minutes."
    ),
    every: bool = typer.Option(False, "--all", help="Print every figure, not only those that differ."),
    as_json: options.Json = False,
) -> None:
    """Measure this host's latencies and throughputs with the time stamp counter.

    No hardware counters are needed. What differs from the core's tables is printed; --output writes it as an overlay
    for perfkit gus --calibration.

    With --full, --output is a core file of this machine, for --core of every command. Each figure is kept beside it as
    soon as it is known: the same command resumes after an interruption.

    Example: perfkit calibrate --core zen4 -o host.toml
    """
    if full:
        if output is None:
            raise typer.BadParameter("--full measures a core file: say where to write it, --output FILE")
        unused = ("core", "form", "memory", "repetitions", "every")
        options.has_no_effect(ctx, "with --full, which measures all forms for a core file", *unused)
        _full(output, as_json)
        return
    if as_json:
        options.has_no_effect(ctx, "with --json, which holds every figure", "every")
    from perfkit.collectors.host.calibrate import calibrate as measure
    from perfkit.collectors.host.calibrate import host_core
    from perfkit.errors import SettingError
    from perfkit.machine.core import Microarchitecture

    name = core or host_core()
    if not name:
        known = ", ".join(Microarchitecture.names())
        raise SettingError(f"this host's processor has no core file; name the nearest core with --core: {known}")
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
        text = text.drop(columns="differs").to_string(index=False, na_rep="", float_format=lambda value: f"{value:.3f}")
        typer.echo(text)
    if output is not None:
        found.save_overlay(output, machine)
        wrote(output, f"InstructionTables.load(core, calibration={str(output)!r})")


def _full(output: Path, as_json: bool) -> None:
    """Measure a core file of this machine."""
    import sys
    from collections import Counter

    from perfkit.base.files import replaced
    from perfkit.cli.output import print_json
    from perfkit.collectors.whole_core.core_file import measured_core
    from perfkit.collectors.whole_core.whole import measure_core

    keep = output.with_name(output.name + ".partial")

    def progress(what: str, done: int, total: int) -> None:
        sys.stderr.write(f"\r{what}: {done:,} of {total:,}   ")
        sys.stderr.flush()

    found = measure_core(keep, progress=progress if sys.stderr.isatty() else None)
    core = measured_core(found, output.stem)
    with replaced(output) as temporary:
        temporary.write_text(core.to_toml(), encoding="utf-8")
    if as_json:
        print_json({"core": str(output), "doubt": found.doubt, "left_out": dict(found.left_out), **found.counts})
    else:
        typer.echo(found.summary())
        for why, count in Counter(found.left_out.values()).most_common(8):
            typer.echo(f"{count:,} {'figure' if count == 1 else 'figures'} left out: {why}")
    if found.left_out:
        typer.echo(f"the same command measures again what was left out; {keep} has the rest", err=True)
    if found.doubt:
        typer.echo(f"warning: {found.doubt}", err=True)
    wrote(output, f"--core {output} in every command")
