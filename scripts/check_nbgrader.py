"""Let nbgrader itself release and grade the course's units, and compare its points with those that are due.

    python scripts/check_nbgrader.py [UNIT ...]        (default: all units)

nbgrader is no dependency of perfkit: it is installed in an environment of its own in a temporary folder, which needs a
package index. Two students hand in each unit. Ada has solved everything. Bo has one answer wrong, one open, and typed
"99" into each check, which nbgrader puts right. Prints each student's points; fails where others are due.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from perfkit.course.answers import Unit
from perfkit.course.units import UNITS, unit_named
from perfkit.course.versions import notebook_of

CONFIG = """c = get_config()
c.CourseDirectory.course_id = "perf"
c.ClearSolutions.code_stub = {"python": ""}
c.ExecutePreprocessor.timeout = 600
"""
POINTS = """import json
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    found = [s for s in book.assignment_submissions("perf")]
    print(json.dumps([[s.student.id, n.name, n.score, n.max_score] for s in found for n in s.notebooks]))
"""


def main(names: list[str]) -> int:
    """Grade the units; return 1 where nbgrader's points are not those that are due."""
    units = [unit_named(name) for name in names] or list(UNITS)
    with tempfile.TemporaryDirectory(prefix="perfkit-nbgrader-") as temporary:
        programs, course = Path(temporary) / "env" / "bin", Path(temporary) / "course"
        _install(programs.parent)
        source = course / "source" / "perf"
        source.mkdir(parents=True)
        (course / "nbgrader_config.py").write_text(CONFIG)
        for unit in units:
            source.joinpath(unit.notebook).write_bytes(notebook_of(unit).read_bytes())
        _run([programs / "nbgrader", "generate_assignment", "perf", "--create"], course)
        due = {}
        for unit in units:
            released = (course / "release" / "perf" / unit.notebook).read_text()
            for student in ("Ada", "Bo"):
                handed_in, points = submission(unit, json.loads(released), student)
                target = course / "submitted" / student.lower() / "perf" / unit.notebook
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(json.dumps(handed_in))
                due[student.lower(), Path(unit.notebook).stem] = points
        _run([programs / "nbgrader", "autograde", "perf", "--create"], course)
        told = json.loads(_run([programs / "python", "-c", POINTS], course))
    found = {(student, name): score for student, name, score, _ in told}
    for student, name, score, largest in sorted(told):
        print(f"{student:4} {name:26} {score:g} of {largest:g} points by nbgrader, {due[student, name]:g} due")
    return int(found != due)


def submission(unit: Unit, released: dict[str, Any], student: str) -> tuple[dict[str, Any], float]:
    """Return a released notebook as a student hands it in, and the points that are due."""
    lecturers = json.loads(notebook_of(unit).read_text())
    solutions = {_id(cell): "".join(cell["source"]) for cell in lecturers["cells"]}
    wrong, left_open = unit.exercises[1], unit.exercises[-1]
    points = unit.points if student == "Ada" else unit.points - wrong.points - left_open.points
    for cell in released["cells"]:
        marks, name = cell["metadata"].get("nbgrader", {}), _id(cell).replace("-", " ")
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = f'student: str = "{student}"\npredictions: list = []'
        if marks.get("solution") and (student == "Ada" or name != left_open.name):
            cell["source"] = solutions[_id(cell)]
            if student == "Bo" and name == wrong.name:
                cell["source"] += f"\n{name.replace(' ', '_')} = -12345.0"
        if marks.get("grade") and student == "Bo":
            cell["source"] = "99"
    return released, points


def _id(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))


def _install(folder: Path) -> None:
    """Make an environment with nbgrader whose notebooks run with this Python, where perfkit is."""
    venv.create(folder, with_pip=True)
    _run([folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "nbgrader"], folder)
    print(_run([folder / "bin" / "nbgrader", "--version"], folder).strip().splitlines()[-1])
    kernel = folder / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
    said = json.loads(kernel.read_text())
    said["argv"][0] = sys.executable
    kernel.write_text(json.dumps(said))


def _run(command: list[Any], folder: Path) -> str:
    # nbgrader starts alembic by its name.
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
