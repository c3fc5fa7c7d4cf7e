"""``perfkit blocks``: measure and predict the basic blocks of a list."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.base.files import replaced
from perfkit.cli import options
from perfkit.cli.output import notes_to_stderr, print_json, progress_bar, rows, wrote

if TYPE_CHECKING:
    import pandas as pd


def blocks(
    file: str = typer.Argument(
        ...,
        metavar="FILE",
        callback=options.plain,
        help="A table with a column hex: machine code in hexadecimal digits; .xz and .gz are read, too.",
    ),
    core: options.Core = "host",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Keep what is measured here, and resume from it."),
    ] = None,
    output: Annotated[Path | None, options.output("Write all rows as a table.", ".csv")] = None,
    top: options.Top = 10,
    as_json: options.Json = False,
) -> None:
    """Measure basic blocks on this machine and predict them, looped and unrolled.

    Every block runs in a loop in a child process of its own, all its memory mapped to one page. The core is Gus's.
    With --folder, Ctrl-C loses nothing.

    Example: perfkit blocks blocks.csv --core zen4 --folder measured -o blocks-here.csv
    """
    from perfkit.collectors.blocks.cycles import measure_blocks
    from perfkit.collectors.blocks.lists import read_blocks
    from perfkit.errors import UnavailableError
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus

    codes = read_blocks(file)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with notes_to_stderr():
        predicted = Gus(Microarchitecture.load(core)).blocks(codes)
        try:
            with progress_bar("measured") as update:
                measured = measure_blocks(codes, keep=folder and folder / "cycles.csv", progress=update)
            said = measured.summary()
        except UnavailableError as error:
            measured, said = None, f"not measured: {error}"
    table = _beside(predicted.table, None if measured is None else measured.table)
    if output is not None:
        with replaced(output) as temporary:
            table.to_csv(temporary, index=False)
        wrote(output)
    if as_json:
        print_json({"core": predicted.core, "measured": said, "blocks": rows(table)})
        return
    typer.echo(f"{predicted.summary()}\n{said}")
    told = table[table["error"].notna()]
    if len(told):
        far = told["error"].abs()
        typer.echo(
            f"looped, {len(told):,} blocks: mean error {far.mean():.1%}, median {far.median():.1%}, "
            f"{(far <= 0.05).mean():.0%} within 5 %; the {min(top, len(told))} farthest apart:"
        )
        shown = told.reindex(far.sort_values(ascending=False).index).head(top)
        for row in shown.to_dict("records"):
            typer.echo(
                f"{row['looped_measured']:8.2f} measured {row['looped']:8.2f} predicted  {row['looped_bottleneck']}  "
                f"{row['block'][:60]}"
            )


def _beside(predicted: "pd.DataFrame", measured: "pd.DataFrame | None") -> "pd.DataFrame":
    """Return the predictions with the measured cycles beside them, and their relative error."""
    table = predicted.copy()
    found: Any = measured if measured is not None else {"looped": None, "unrolled": None, "refused": "not measured"}
    for mode in ("looped", "unrolled"):
        table[f"{mode}_measured"] = found[mode]
    table["not_measured"] = found["refused"]
    table["error"] = table["looped"] / table["looped_measured"].astype(float) - 1
    return table
