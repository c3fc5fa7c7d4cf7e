"""``perfkit asm``: time a list of instructions."""

from typing import Any

import typer


def asm(
    instructions: list[str] = typer.Argument(..., metavar="INSTRUCTION...", help="One instruction an argument."),
    intel: bool = typer.Option(False, "--intel", help="They are written in Intel syntax (default: AT&T)."),
    unroll: int = typer.Option(64, "--unroll", min=1, help="Copies of the list in the loop."),
    init: list[str] = typer.Option([], "--init", help="Instruction to run once before the loop; may be given again."),
    first: bool = typer.Option(False, "--first", help="Also time the first one, the first two, ... of the list."),
    subsets: bool = typer.Option(False, "--subsets", help="Time every subset of the list."),
    permutations: bool = typer.Option(False, "--permutations", help="Time every order of what is timed."),
    repetitions: int = typer.Option(5, "--repetitions", min=3, help="Runs an experiment (the paper's X)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure the cycles that a list of instructions takes, repeated in an unrolled loop.

    Example: perfkit asm "vfmadd213ps %xmm2, %xmm1, %xmm0"

    On entry rdi, rsi, rbx, rbp and r8 to r15 point to memory whose first word points to itself, rax = rcx = 1, rdx =
    0, and the vector registers are zero. One of r15, r14, r13, r12, rbx, rbp that the instructions leave alone counts
    the turns.
    """
    from perfkit.cli.study import notes_to_stderr
    from perfkit.collectors.microbenchmark import Microbenchmark
    from perfkit.errors import DataError
    from perfkit.study.study import Study

    # Text with several lines, or several instructions in one argument, is as good as several arguments.
    lines = [line.strip() for text in instructions for line in text.replace(";", "\n").splitlines() if line.strip()]
    assembly: dict[str, Any] = {
        "instructions": lines, "syntax": "intel" if intel else "att", "unroll": unroll, "init": init,
        "select": "subsets" if subsets else "first" if first else "all", "permutations": permutations,
    }  # fmt: skip
    policy = {"repetitions": repetitions, "metric": "cycles", "attempts": 20}
    study = Study(name="asm", assembly=assembly, policy=policy)
    with notes_to_stderr():
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
    wanted = ["ORDER", "INSTRUCTIONS", "cycles", "per_cycle", "tsc", "ns", "spread", "settled", "status", "message"]
    if as_json:
        typer.echo(table[wanted].to_json(orient="records", indent=1))
        return
    for number, line in enumerate(lines):
        typer.echo(f"{number}: {line}")
    typer.echo("list         instructions  cycles a list  instructions a cycle  TSC ticks  spread")
    for _, row in table.iterrows():
        if row["status"] != "ok":
            typer.echo(f"{row['ORDER']:<12} failed: {row['message']}")
            continue
        note = "" if row["settled"] else "  (never settled)"
        typer.echo(
            f"{row['ORDER']:<12} {row['INSTRUCTIONS']:>12} {row['cycles']:>14.3f} {row['per_cycle']:>21.3f} "
            f"{row['tsc']:>10.3f} {row['spread']:>7.2%}{note}"
        )
