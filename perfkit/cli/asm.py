"""``perfkit asm``: time a list of instructions."""

import re
from typing import Any

import typer

from perfkit.cli import options
from perfkit.cli.output import notes_to_stderr, print_json, rows

# Divisions, roots, gathers, scatters and masked accesses: ones, zeros and empty masks are fast on many cores.
_BY_VALUE = re.compile(r"v?p?(i?div|sqrt|rsqrt|gather|scatter|maskmov)", re.IGNORECASE)


def asm(
    ctx: typer.Context,
    instructions: list[str] = typer.Argument(
        ..., metavar="INSTRUCTION...", callback=options.plain, help="One instruction per argument."
    ),
    intel: bool = typer.Option(False, "--intel", help="The instructions are in Intel syntax (default: AT&T)."),
    unroll: int = typer.Option(64, "--unroll", min=1, help="Copies of the list in the loop."),
    init: list[str] = typer.Option(
        [], "--init", metavar="INSTRUCTION", callback=options.plain, help="Run once before the loop; may be repeated."
    ),
    first: bool = typer.Option(False, "--first", help="Also time the first one, the first two, ... of the list."),
    subsets: bool = typer.Option(False, "--subsets", help="Time every subset of the list."),
    permutations: bool = typer.Option(False, "--permutations", help="Time every order of what is timed."),
    core: options.Core = "host",
    repetitions: int = typer.Option(5, "--repetitions", min=3, help="Runs per experiment (the paper's X)."),
    as_json: options.Json = False,
) -> None:
    """Measure the cycles that a list of instructions takes, beside the model's.

    The list is repeated in an unrolled loop. Gus's prediction for the core follows: the cycles of the unrolled list,
    what holds it back, and how far both are apart.

    Example: perfkit asm "vfmadd213ps %xmm2, %xmm1, %xmm0"

    On entry rdi, rsi, rbx, rbp and r8 to r15 point to memory whose first word points to itself, rax = rcx = 1, rdx =
    0, and the vector registers are full of ones (1.0 of the instructions' type; beside gathers and scatters they are
    zero). One of r15, r14, r13, r12, rbx, rbp that the instructions leave alone counts
    the turns.
    """
    from perfkit.collectors.microbenchmark import Microbenchmark
    from perfkit.errors import DataError
    from perfkit.machine.core import Microarchitecture
    from perfkit.study.study import Study

    model = Microarchitecture.load(core)  # one that is none is told before anything is measured
    if subsets:
        options.has_no_effect(ctx, "with --subsets, which include them", "first")
    # Text with several lines, or several instructions in one argument, is as good as several arguments.
    lines = [line.strip() for text in instructions for line in text.replace(";", "\n").splitlines() if line.strip()]
    assembly: dict[str, Any] = {
        "instructions": lines, "syntax": "intel" if intel else "att", "unroll": unroll, "init": init,
        "select": "subsets" if subsets else "first" if first else "all", "permutations": permutations,
    }  # fmt: skip
    policy = {"repetitions": repetitions, "metric": "cycles", "attempts": 20}
    study = Study(name="asm", assembly=assembly, policy=policy)
    table = Microbenchmark().collect(study).table
    failed = table[table["status"] != "ok"]
    if len(failed) == len(table):
        raise DataError(str(failed["message"].iloc[0]))
    table = table.assign(
        cycles=table["cycles"] / unroll, tsc=table["tsc"] / unroll, ns=table["ns"] / unroll,
        per_cycle=table["INSTRUCTIONS"] * unroll / table["cycles"],
    )  # fmt: skip
    if "ORDER" not in table:
        table["ORDER"] = ",".join(map(str, range(len(lines))))
    with notes_to_stderr():
        table = _predicted(table, lines, "intel" if intel else "att", model)
    wanted = ["ORDER", "INSTRUCTIONS", "cycles", "per_cycle", "tsc", "ns", "spread", "settled", "status", "message"]
    wanted += ["core", "predicted", "bottleneck", "error", "not_predicted"]
    if as_json:
        print_json(rows(table[wanted]))
        return
    for number, line in enumerate(lines):
        typer.echo(f"{number}: {line}")
    if by_value := [line for line in lines if not init and _BY_VALUE.match(line)]:
        typer.echo(
            "note: how long this takes may depend on its operands; rax and rcx are 1, rdx is 0, and the vector "
            f"registers are 1.0, or zero beside gathers and scatters (--init sets others): {'; '.join(by_value)}",
            err=True,
        )
    typer.echo("list         instructions  cycles per list  instructions per cycle  TSC ticks  spread")
    for _, row in table.iterrows():
        if row["status"] != "ok":
            typer.echo(f"{row['ORDER']:<12} failed: {row['message']}")
            continue
        note = "" if row["settled"] else "  (never settled)"
        typer.echo(
            f"{row['ORDER']:<12} {row['INSTRUCTIONS']:>12} {row['cycles']:>16.3f} {row['per_cycle']:>23.3f} "
            f"{row['tsc']:>10.3f} {row['spread']:>7.2%}{note}"
        )
        if row["not_predicted"]:
            typer.echo(f"{'':<12} not predicted: {row['not_predicted']}")
        else:
            typer.echo(
                f"{'':<12} {'on ' + row['core']:>12} {row['predicted']:>16.3f}  predicted, {row['error']:+.1%}: "
                f"{row['bottleneck']}"
            )


def _predicted(table: Any, lines: list[str], syntax: str, core: Any) -> Any:
    """Return the table with what Gus predicts for each of its lists, unrolled."""
    from perfkit.collectors.blocks.block import Block
    from perfkit.errors import PerfkitError
    from perfkit.simulators.gus.gus import Gus

    gus = Gus(core)
    found = []
    for order in table["ORDER"]:
        try:
            text = "\n".join(lines[int(k)] for k in str(order).split(","))
            told = gus.block(Block(text, syntax))
            found.append((told.unrolled, told.table["unrolled_bottleneck"].iloc[0], ""))
        except PerfkitError as error:
            found.append((float("nan"), "", str(error)))
    predicted, bottleneck, reason = zip(*found, strict=True)
    table = table.assign(core=gus.core.name, predicted=predicted, bottleneck=bottleneck, not_predicted=reason)
    return table.assign(error=table["predicted"] / table["cycles"] - 1)
