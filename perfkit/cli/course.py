"""``perfkit course``: list the units, write students' versions and slides, and grade submissions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from perfkit.base.files import replaced
from perfkit.cli import options
from perfkit.cli.output import print_json, progress_bar, rows, wrote
from perfkit.errors import DataError, PerfkitError, SettingError, UnavailableError, of_extra

app = options.group(
    "A class in a box: list the units, write students' versions and slides, grade submissions.",
)
Units = Annotated[
    list[str] | None, typer.Argument(metavar="[UNIT]...", help="Units, such as unit1 or 1 (default: all).")
]
Student = Annotated[
    str | None,
    typer.Option("--student", metavar="NAME", callback=options.plain, help="Whose: the name draws the data."),
]
Folder = Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Write into this folder.")]


@app.command("list", cls=options.Command)
def list_units(as_json: options.Json = False) -> None:
    """List the units, with their points.

    Also what each is about, and the misconception that it starts from.

    Example: perfkit course list
    """
    from perfkit.course.units import UNITS
    from perfkit.course.versions import notebook_of

    found = [
        {"unit": u.name, "title": u.title, "points": u.points, "notebook": notebook_of(u), "belief": u.misconception}
        for u in UNITS
    ]
    if as_json:
        print_json(found)
        return
    for one in found:
        typer.echo(f"{one['unit']}  {one['title']} ({one['points']:g} points)\n       many believe: {one['belief']}")
        typer.echo(f"       {one['notebook']}")


@app.command("student", cls=options.Command)
def student_command(
    unit: Units = None,
    student: Student = None,
    folder: Folder = Path("course"),
    as_json: options.Json = False,
) -> None:
    """Write the students' versions of units, without solutions.

    They bear a name if one is given.

    A file that is there already is left alone: somebody may have worked in it.

    Example: perfkit course student 3 --student 'Ada Lovelace'
    """
    from perfkit.course.versions import notebook_of, read_notebook, student_version

    chosen = _units(unit)
    folder.mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for one in chosen:
        target = folder / one.notebook
        if target.exists():
            if student is not None:
                _check_owner(target, student)
            kept.append(target)
            continue
        _write(student_version(read_notebook(notebook_of(one)), student or ""), target)
        written.append(target)
    for path in written:
        wrote(path)
    if as_json:
        print_json({"written": written, "kept": kept})
        return
    for path in kept:
        typer.echo(f"kept {path}: it is there already; remove it first, or name another --folder")


def _check_owner(path: Path, student: str) -> None:
    """Refuse to leave a student with another's data."""
    from perfkit.course.versions import read_notebook, student_of

    owner = student_of(read_notebook(path), path)
    if owner != student:
        raise SettingError(f"{path} is there already, for {owner!r} and not {student!r}; name another --folder")


@app.command("slides", cls=options.Command)
def slides_command(
    unit: str = typer.Argument(..., metavar="UNIT", help="A unit, such as unit1 or 1."),
    output: Annotated[Path | None, options.output("Write this page (default: UNIT-slides.html).", ".html")] = None,
    timeout: float = typer.Option(
        120.0, "--timeout", min=1, max=1e6, callback=options.finite, help="Give up on a cell after this many seconds."
    ),
    as_json: options.Json = False,
) -> None:
    """Write a unit's slides as one HTML page.

    The unit's notebook is run; the page needs no network and no Jupyter.

    Arrow keys go on and back, a opens the answer, f fills the screen. Solutions are not in it.

    Example: perfkit course slides 3 -o unit3.html
    """
    from perfkit.cli.notebook_runs import execute
    from perfkit.cli.pages import slides_of
    from perfkit.course.units import unit_named
    from perfkit.course.versions import notebook_of

    chosen = unit_named(unit)
    target = Path(f"{chosen.name}-slides.html") if output is None else output
    executed = execute(notebook_of(chosen), {}, timeout, quiet=as_json)
    page = slides_of(executed, executed.metadata.get("title", chosen.title))
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    wrote(target)
    if as_json:
        print_json({"written": target, "slides": page.count('<section class="slide">')})


@app.command("grade", cls=options.Command)
def grade_command(
    files: list[Path] = typer.Argument(..., metavar="FILE...", help="Submitted notebooks."),
    student: Student = None,
    output: Annotated[Path | None, options.output("Write the table, one row per exercise.", ".csv")] = None,
    timeout: float = typer.Option(
        60.0, "--timeout", min=1, max=1e6, callback=options.finite, help="Give up on a cell after this many seconds."
    ),
    as_json: options.Json = False,
) -> None:
    """Grade submissions: points per exercise. The programs in them run here: grade where they can do no harm.

    Exercises that are open, or whose cells fail, give no points; grading goes on with the next.

    Example: perfkit course grade submitted/unit3.ipynb -o points.csv
    """
    pd = of_extra("pandas")

    from perfkit.course.grading import COLUMNS, grade_submission

    tables, failed = [], {}
    with progress_bar("grading") as progress:
        for number, path in enumerate(files):
            progress(number, len(files), path.name)
            try:
                tables.append(grade_submission(path, lambda n: executed_anyway(n, timeout), student))
            except PerfkitError as error:
                failed[str(path)] = str(error)
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))
    if output is not None:
        with replaced(output) as temporary:
            table.to_csv(temporary, index=False)
        wrote(output)
    if as_json:
        print_json({"exercises": rows(table), "failed": failed})
    else:
        _show_grades(table)
    if failed:
        raise DataError(f"{len(failed)} of {len(files)} files not graded: {'; '.join(failed.values())}")


def _show_grades(table: Any) -> None:
    for (path, unit, student), each in table.groupby(["file", "unit", "student"], sort=False):
        whose = student or "no name: the lecture's data"
        typer.echo(f"{path}: {unit}, {whose}: {each['points'].sum():g} of {each['of'].sum():g} points")
        for _, row in each.iterrows():
            typer.echo(f"  {row['exercise']}: {row['points']:g} of {row['of']:g}, {row['state']}. {row['text']}")
    named = table[table["student"] != ""].drop_duplicates(["file", "unit", "student"])
    for (unit, student), same in named.groupby(["unit", "student"], sort=False):
        if len(same) > 1:
            typer.echo(f"note: {len(same)} files are {unit} of {student}: {', '.join(same['file'])}")


def executed_anyway(notebook: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Return a notebook executed to its end in an empty folder, also where cells fail or take too long."""
    import tempfile

    try:
        import nbformat
        from nbclient import NotebookClient
    except ImportError as error:
        raise UnavailableError(
            "running notebooks needs nbclient, which is not installed: pip install 'perfkit[lab]'"
        ) from error
    node = nbformat.from_dict(notebook)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            node,
            timeout=round(timeout),
            interrupt_on_timeout=True,
            allow_errors=True,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        ).execute()
    return dict(node)


def _units(names: list[str] | None) -> list[Any]:
    from perfkit.course.units import UNITS, unit_named

    return [unit_named(name) for name in names] if names else list(UNITS)


def _write(notebook: dict[str, Any], path: Path) -> None:
    import json

    with replaced(path) as temporary:
        temporary.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
