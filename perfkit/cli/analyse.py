"""``perfkit analyse``: run an analysis file on a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, rows, wrote

if TYPE_CHECKING:
    from perfkit.fitters.studies.analysis import AnalysisResult


def analyse(
    file: Path = typer.Argument(..., metavar="FILE", help="Analysis file (YAML)."),
    table: list[Path] = typer.Option(
        [], "--input", metavar="FILE", help="Analyse this file instead of the analysis file's input; may be repeated."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FOLDER", help="Write tables, JSON and pictures into this folder."
    ),
    as_json: options.Json = False,
) -> None:
    """Filter, categorise and learn from a table, as an analysis file says.

    docs/studies.md describes the file.

    Example: perfkit analyse analysis.yaml --output out
    """
    from perfkit.fitters.studies.analysis import Analysis

    analysis = Analysis.from_yaml(file)
    result = (analysis.of_files(*map(str, table)) if table else analysis).run()
    place = output or (file.parent / analysis.output if analysis.output else None)
    if place is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        result.save(place)
        wrote(place)
    if as_json:
        print_json(_as_json(result))
        return
    typer.echo(result.summary())
    if result.tree is not None:
        typer.echo("\n" + result.tree.to_text())


def _as_json(result: "AnalysisResult") -> dict[str, Any]:
    parts = {name: getattr(result, name) for name in ("categories", "tree", "regression", "importance")}
    found = {name: rows(part.to_frame().reset_index()) for name, part in parts.items() if part is not None}
    counts = {"rows_read": result.rows_read, "rows": len(result.table), "rows_learnt": result.rows_learnt}
    return {**counts, "about_rows": result.about_rows, **found}
