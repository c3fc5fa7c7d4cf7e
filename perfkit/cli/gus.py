"""``perfkit gus``: simulate a trace on a core; say what limits it and which instructions are to blame."""

from pathlib import Path

import typer


def gus(
    file: Path = typer.Argument(help="A trace written by perfkit trace."),
    core: str = typer.Option("", help="The core to simulate: a name or a .toml; default: the one this host is."),
    sensitivity: bool = typer.Option(False, "--sensitivity", help="Make every resource better in turn; rank them."),
    causality: bool = typer.Option(False, "--causality", help="Name the instructions the run's length is due to."),
    weight: list[float] = typer.Option([1.1, 1.5, 2.0], help="Weights of the sensitivity analysis (repeat)."),
    pairs: bool = typer.Option(False, "--pairs", help="Weight every pair of resources too."),
    warm: bool = typer.Option(False, "--warm", help="Start on the caches that one earlier pass leaves."),
    calibration: Path | None = typer.Option(None, help="The overlay that perfkit calibrate wrote."),
    uops_info: Path | None = typer.Option(None, help="Your copy of uops.info's instructions.xml."),
    top: int = typer.Option(12, help="Rows to print of each table."),
    as_json: bool = typer.Option(False, "--json", help="Print everything as JSON."),
) -> None:
    """Simulate a trace with Gus. Everything printed is simulated."""
    import json

    from perfkit.errors import SettingError
    from perfkit.instruction_tables import InstructionTables, calibrated_core
    from perfkit.microarchitecture import Microarchitecture
    from perfkit.simulators.causality import causality as find_causes
    from perfkit.simulators.gus import Gus
    from perfkit.simulators.sensitivity import sensitivity as find_sensitivity
    from perfkit.trace import Trace

    if not core:
        from perfkit.collectors.calibrate import host_core

        core = host_core() or ""
    if not core:
        raise SettingError(f"say --core; perfkit has: {', '.join(Microarchitecture.names())}")
    trace = Trace.load(file)
    machine = Microarchitecture.load(core)
    if calibration is not None:
        machine = calibrated_core(machine, calibration)
    simulator = Gus(machine, InstructionTables.load(machine, None, calibration, uops_info), warm=warm)
    result = simulator.run(trace)
    ranked = find_sensitivity(simulator, trace, tuple(weight), pairs=pairs) if sensitivity or pairs else None
    causes = find_causes(simulator, trace) if causality else None
    if as_json:
        found = {"trace": str(file), **result.to_dict()}
        if ranked is not None:
            found["sensitivity"] = ranked.to_dict()
        if causes is not None:
            found["causality"] = causes.to_dict()
        typer.echo(json.dumps(found, indent=1))
        return
    typer.echo(f"{file} on {machine.title}: simulated, not measured")
    typer.echo(f"{result.cycles:,.1f} cycles, {result.instructions:,} instructions, IPC {result.ipc:.3f}")
    stack = result.cpi_stack()
    typer.echo(f"\nCPI {stack.sum():.4f} =")
    for cause, value in stack[stack > 0].sort_values(ascending=False).items():
        typer.echo(f"  {value:8.4f}  {cause}")
    typer.echo("\nOccupancy of the busiest resources")
    for resource, share in result.resources()["occupancy"].head(6).items():
        typer.echo(f"  {share:7.1%}  {resource}")
    if ranked is not None:
        typer.echo(f"\nSensitivity: speedup of the run by weight (bottleneck: {ranked.bottleneck})")
        typer.echo(ranked.to_frame().head(top).to_string(float_format=lambda value: f"{value:.2%}"))
        if pairs:
            typer.echo(ranked.pairs_frame().head(top).to_string(index=False, float_format=lambda value: f"{value:.4f}"))
    if causes is not None:
        typer.echo("\nCausality: share of the causes of the run's length")
        for row in causes.to_frame().head(top).itertuples():
            typer.echo(f"  {row.share:7.1%}  {row.pc:#10x}  {row.text}")
    typer.echo("\nInstructions that retirement waited for most")
    table = result.to_frame().sort_values("stall", ascending=False).head(top)
    for row in table.itertuples():
        typer.echo(f"  {row.stall:7.1%}  {row.cause:22} {row.pc:#10x}  {row.text}")
