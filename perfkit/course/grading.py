"""Grade a submission: run its answers in the lecturer's notebook, and check what came out here, not there.

A submission's own checks are not believed: only its solution cells are run, and each answer that the checking cell then
shows is compared anew, with data drawn for the submission's student.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.course.answers import Unit
from perfkit.course.exercises import MIME, exercises
from perfkit.course.units import unit_named
from perfkit.course.versions import checks_of, notebook_of, read_notebook, student_of, submitted_on
from perfkit.errors import FormatError, of_extra

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("file", "unit", "student", "exercise", "state", "points", "of", "text")


def grade_submission(
    path: str | Path, run: Callable[[dict[str, Any]], dict[str, Any]], student: str | None = None
) -> "pd.DataFrame":
    """Grade one submitted notebook.

    Parameters
    ----------
    path : path
        The submission.
    run : callable
        Executes a notebook, going on after cells that fail, and returns it with its outputs.
    student : str, optional
        Whose it is; by default the name in its parameters.

    Returns
    -------
    DataFrame
        One row per exercise: file, unit, student, exercise, state (right, wrong or open), points, of, text.

    Raises
    ------
    FileNotFoundError, FormatError
        There is no such file, or it is no unit of the course.
    """
    pd = of_extra("pandas")

    submission = read_notebook(path)
    unit = _unit_of(submission, path)
    name = student_of(submission, path) if student is None else student
    mine = exercises(unit.name, name)
    executed = run(submitted_on(read_notebook(notebook_of(unit)), submission, name))
    found = {shown["exercise"]: shown for cell in checks_of(executed) if (shown := _shown(cell))}
    causes = _causes(executed)
    rows = []
    for asked in unit.exercises:
        shown = found.get(asked.name, {})
        checked = mine.check(asked.name, shown.get("answer"))
        state, text = checked.state, checked.text
        if "fault" in shown:
            state, text = "wrong", f"{causes.get(asked.name, shown['fault'])}, in its cell or before it."
        rows.append((str(path), unit.name, name, asked.name, state, checked.points, checked.of, text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _unit_of(notebook: dict[str, Any], path: str | Path) -> Unit:
    ours = notebook.get("metadata", {}).get("perfkit", {})
    name = ours.get("unit") if isinstance(ours, dict) else None
    if not isinstance(name, str):
        raise FormatError(f"{path}: a notebook, but no unit of the course (metadata perfkit.unit is missing)")
    return unit_named(name)


def _causes(executed: dict[str, Any]) -> dict[str, str]:
    """Return exercise -> the first error of the cells before its check; the check itself only misses a name then."""
    causes: dict[str, str] = {}
    checks = {id(cell) for cell in checks_of(executed)}
    first = ""
    for cell in executed["cells"]:
        if id(cell) in checks:
            if first:
                causes[_exercise(cell)] = first
            first = ""
        else:
            errors = (o for o in cell.get("outputs", []) if o.get("output_type") == "error")
            first = first or next((_fault(error) for error in errors), "")
    return causes


def _exercise(cell: dict[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"]).removeprefix("check-").replace("-", " ")


def _fault(error: dict[str, Any]) -> str:
    return f"{error.get('ename')}: {error.get('evalue')}"[:200]


def _shown(cell: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a checking cell showed: the exercise and its answer, or the exercise and what failed."""
    for output in cell.get("outputs", []):
        checked = output.get("data", {}).get(MIME)
        if isinstance(checked, dict) and isinstance(checked.get("exercise"), str):
            return dict(checked)
        if output.get("output_type") == "error":
            return {"exercise": _exercise(cell), "fault": _fault(output)}
    return None
