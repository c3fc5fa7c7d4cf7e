"""From the student's version to points: open, right, wrong and failing answers, tampered checks, odd names."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.course import executed_anyway
from perfkit.cli.main import app
from perfkit.course.grading import grade_submission
from perfkit.course.units import UNITS, unit_named
from perfkit.course.versions import notebook_of, read_notebook, student_of, student_version
from perfkit.errors import FormatError

ROOT = Path(__file__).resolve().parents[2]
ANA = "Ana Núñez 李"


@pytest.fixture(autouse=True)
def kernels_find_the_packages(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels import the packages of this checkout, and write nothing into the user's Jupyter folders."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'widgets'}")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, ["course", *map(str, words)])


def answer(path: Path, **answers: str) -> None:
    """Write answers into a student's version, as code, by the cell's grade_id."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "").replace("-", "_")
        if name in answers:
            cell["source"] = "".join(cell["source"]).partition("=")[0] + "= " + answers[name]
    path.write_text(json.dumps(notebook))


def test_a_class_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made = invoke("student", "1", "--student", ANA, "--folder", "Übung 1/ana", "--json")
    assert made.exit_code == 0, made.output
    (name,) = json.loads(made.stdout)["written"]
    path = Path(name)
    assert not path.is_absolute()
    assert student_of(read_notebook(path)) == ANA
    kept = invoke("student", "unit1", "--folder", "Übung 1/ana", "--json")
    assert json.loads(kept.output) == {"written": [], "kept": [name]}  # somebody may have worked in it
    other = invoke("student", "unit1", "--folder", "Übung 1/ana", "--student", "Bo")
    assert "is there already, for 'Ana Núñez 李' and not 'Bo'" in str(other.exception)
    data = pk.course.exercises("unit1", ANA).data
    answer(path, one_chain=f"{data.latency}", several_chains="1 / 0", enough_chains="'2 mal'", bottleneck="'port 77'")
    # A check that was tampered with is the lecturer's again.
    text = path.read_text().replace('mine.check(\\"enough chains\\", enough_chains)', "print('10 points')")
    path.write_text(text)
    graded = invoke("grade", path, "--json", "--output", "grades.csv")
    assert graded.exit_code == 0, graded.output
    rows = {r["exercise"]: r for r in json.loads(graded.stdout)["exercises"]}
    assert {e: (r["state"], r["points"]) for e, r in rows.items()} == {
        "one chain": ("right", 2),
        "several chains": ("wrong", 0),  # the line failed
        "enough chains": ("wrong", 0),  # text where a number was asked
        "bottleneck": ("wrong", 0),
    }
    assert "ZeroDivisionError" in rows["several chains"]["text"]
    assert "found '2 mal'" in rows["enough chains"]["text"]
    assert {r["student"] for r in rows.values()} == {ANA}
    assert (tmp_path / "grades.csv").read_text().count(ANA) == 4


def test_the_lecturers_own_notebook_gets_all_points(tmp_path: Path):
    unit = UNITS[0]
    table = grade_submission(notebook_of(unit), lambda n: executed_anyway(n, 60))
    assert table["points"].sum() == unit.points
    assert set(table["state"]) == {"right"}


def test_answers_of_another_student_give_no_points():
    """What counts is the answer and the name: a copied answer is checked with one's own data."""
    other = next(
        f"student {n}"
        for n in range(100)
        if pk.course.exercises("unit1", f"student {n}").data.latency != pk.course.exercises("unit1", ANA).data.latency
    )
    copied = pk.course.exercises("unit1", other).data.latency
    assert pk.course.exercises("unit1", ANA).check("one chain", copied).state == "wrong"


def test_several_files_are_graded_although_one_is_none(tmp_path: Path):
    fine = tmp_path / "fine.ipynb"
    fine.write_text(json.dumps(student_version(read_notebook(notebook_of(UNITS[0])), ANA)))
    for name, text in (("no json.ipynb", "{"), ("list.ipynb", "[]"), ("empty.ipynb", '{"nbformat": 4, "cells": []}')):
        (tmp_path / name).write_text(text)
    graded = invoke("grade", *sorted(tmp_path.glob("*.ipynb")), tmp_path / "absent.ipynb", "--json")
    assert len(json.loads(graded.stdout)["exercises"]) == len(UNITS[0].exercises)
    assert len(json.loads(graded.stdout)["failed"]) == 4
    assert graded.exit_code != 0


@pytest.mark.parametrize(
    ("line", "found"),
    [("student = 'Bo'", "Bo"), ('student: str = "a # b"  # text', "a # b"), ('student: str = ""', "")],
)
def test_the_name_is_read_from_the_parameters(line: str, found: str):
    notebook = {"cells": [{"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": f"{line}\nx = 1"}]}
    assert student_of(notebook) == found


@pytest.mark.parametrize("line", ["student: str = input()", "student: int = 7", "name = 'Bo'", "student = 'Bo"])
def test_a_name_that_is_no_text_is_an_error(line: str):
    notebook = {"cells": [{"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": line}]}
    with pytest.raises(FormatError, match="student: str ="):
        student_of(notebook)


def test_a_solution_without_its_end_is_not_given_to_students():
    notebook = read_notebook(notebook_of(unit_named("1")))
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("### END SOLUTION", "")
    with pytest.raises(FormatError, match="END SOLUTION"):
        student_version(notebook)


def test_the_list_names_every_unit():
    listed = json.loads(invoke("list", "--json").output)
    assert [u["unit"] for u in listed] == [u.name for u in UNITS]
    assert all(Path(u["notebook"]).is_file() for u in listed)
