"""``perfkit analyze``: run an analysis file on a table."""

from pathlib import Path

import typer


def analyze(
    file: Path = typer.Argument(..., metavar="FILE", help="Analysis file (YAML)."),
    table: list[Path] = typer.Option(
        [], "--input", help="Analyse this file instead of the named input; may be repeated."
    ),
    output: Path | None = typer.Option(None, "--output", help="Write tables, JSON and pictures into this folder."),
) -> None:
    """Filter, categorise and learn from a table, as an analysis file says (docs/studies.md)."""
    from perfkit.cli.study import notes_to_stderr
    from perfkit.fitters.studies.analysis import Analysis, read_tables

    analysis = Analysis.from_yaml(file)
    with notes_to_stderr():
        frame = read_tables(tuple(str(path) for path in table), Path()) if table else None
        result = analysis.run(frame)
    typer.echo(result.summary())
    if result.tree is not None:
        typer.echo("")
        typer.echo(result.tree.to_text())
    place = output or (file.parent / analysis.output if analysis.output else None)
    if place is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        result.save(place)
        typer.echo(f"\nwrote {place}")
