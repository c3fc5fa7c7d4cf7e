"""Notebooks of the course as files: the student's version, and a submission laid over the lecturer's.

The cells follow nbgrader's conventions: a solution stands between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` in a
cell whose metadata say ``solution``; a cell that checks says ``grade`` and how many points it gives.
"""

import ast
import copy
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfkit.base.files import existing, json_object, shipped_folder, whole_text
from perfkit.course.answers import Unit
from perfkit.errors import FormatError

_SOLUTION = re.compile(r"^[ \t]*###[ \t]*BEGIN SOLUTION\b.*?^[ \t]*###[ \t]*END SOLUTION[^\n]*\n?", re.M | re.S)
_PARAMETER = re.compile(r"^student\b[^=\n]*=\s*(.*?)\s*(#[^\n]*)?$", re.M)


def notebook_of(unit: Unit) -> Path:
    """Return the path of a unit's notebook: that of the installed package, or of the checkout."""
    return existing(shipped_folder("notebooks") / "course" / unit.notebook)


def read_notebook(path: str | Path) -> dict[str, Any]:
    """Return a notebook's content.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        It is no notebook of format 4.
    """
    what = "a Jupyter notebook of format 4"
    notebook = json_object(whole_text(path, what), path, what)
    cells = notebook.get("cells")
    if notebook.get("nbformat") != 4 or not isinstance(cells, list) or not all(map(_is_cell, cells)):
        raise FormatError(f"{path}: expected {what}; save it with a current Jupyter")
    for cell in cells:
        cell["source"] = "".join(cell["source"])
    return notebook


def student_version(notebook: dict[str, Any], student: str = "") -> dict[str, Any]:
    """Return a unit's notebook without its solutions, for one student or (``""``) for whoever writes a name into it."""
    made = copy.deepcopy(notebook)
    for cell in made["cells"]:
        if _graded(cell).get("solution"):
            cell["source"] = _without_solution(cell["source"], _graded(cell).get("grade_id", ""))
        if "BEGIN SOLUTION" in cell["source"]:
            raise FormatError(
                f"cell {cell.get('id')}: a solution in a cell that is not marked as one, or without its end"
            )
    if student:
        cell = _parameters(made)
        line = f"student: str = {json.dumps(student, ensure_ascii=False)}"
        cell["source"] = _PARAMETER.sub(lambda m: f"{line}  {m[2] or ''}".rstrip(), cell["source"], count=1)
    return made


def student_of(notebook: dict[str, Any], path: str | Path = "notebook") -> str:
    """Return the name in a notebook's parameters.

    Raises
    ------
    FormatError
        The notebook has no cell of parameters, or no text in its ``student``.
    """
    name = None
    with suppress(ValueError, SyntaxError):
        for statement in ast.parse(_parameters(notebook, path)["source"]).body:
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
            value = getattr(statement, "value", None)
            if value is not None and any(isinstance(t, ast.Name) and t.id == "student" for t in targets):
                name = ast.literal_eval(value)
    if not isinstance(name, str):
        raise FormatError(f'{path}: expected a line such as student: str = "Ada Lovelace" in its first code cell')
    return name


def submitted_on(master: dict[str, Any], submission: dict[str, Any], student: str) -> dict[str, Any]:
    """Return the cells of the lecturer's notebook that grading needs, with a submission's answers in them.

    These are the parameters, the set-up, the solution cells and the checks. What a submission changed outside its
    solution cells has no effect; a solution cell that is gone stays open.
    """
    given = {_graded(c).get("grade_id"): c["source"] for c in submission["cells"] if _graded(c).get("solution")}
    laid = student_version(master, student)
    for cell in laid["cells"]:
        name = _graded(cell).get("grade_id")
        if _graded(cell).get("solution") and name in given:
            cell["source"] = given[name]
    laid["cells"] = [cell for cell in laid["cells"] if _graded(cell) or _tags(cell) & {"parameters", "setup"}]
    return laid


def checks_of(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells that check an answer."""
    yield from (cell for cell in notebook["cells"] if _graded(cell).get("grade"))


def _is_cell(cell: Any) -> bool:
    """Return whether this is a cell, its source text or lines of text."""
    source = cell.get("source") if isinstance(cell, dict) else None
    lines = [source] if isinstance(source, str) else source
    return isinstance(lines, list) and all(isinstance(line, str) for line in lines)


def _graded(cell: dict[str, Any]) -> dict[str, Any]:
    found = cell.get("metadata", {}).get("nbgrader", {})
    return found if isinstance(found, dict) else {}


def _tags(cell: dict[str, Any]) -> set[str]:
    found = cell.get("metadata", {}).get("tags", [])
    return {tag for tag in found if isinstance(tag, str)} if isinstance(found, list) else set()


def _without_solution(source: str, name: str) -> str:
    left, solutions = _SOLUTION.subn("", source)
    if not solutions:
        raise FormatError(f"solution {name!r}: expected ### BEGIN SOLUTION and ### END SOLUTION in its cell")
    return left.rstrip("\n")


def _parameters(notebook: dict[str, Any], path: str | Path = "notebook") -> dict[str, Any]:
    for cell in notebook["cells"]:
        if "parameters" in _tags(cell):
            found: dict[str, Any] = cell
            return found
    raise FormatError(f"{path}: expected a cell tagged parameters, as every unit of the course has")
