"""Every exercise, for 100 students: the solution in the notebook passes, known wrong answers do not."""

import functools
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

import perfkit as pk
from perfkit.course.exercises import MIME, Exercises, seed_of
from perfkit.course.units import UNITS, unit_named
from perfkit.course.versions import notebook_of, read_notebook, student_version
from perfkit.errors import SettingError

STUDENTS = [f"student {n}" for n in range(100)]
NAMES = [unit.name for unit in UNITS]


@functools.cache
def drawn(unit: str, student: str) -> Exercises:
    """A student's exercises; the solutions draw theirs themselves."""
    return pk.course.exercises(unit, student)


@functools.cache
def solutions(unit: str) -> Any:
    """The code of a unit's set-up and solution cells, compiled, in order; views and pictures left out."""
    cells = read_notebook(notebook_of(unit_named(unit)))["cells"]
    ours = [c for c in cells if "setup" in c["metadata"].get("tags", []) or c["metadata"].get("nbgrader")]
    text = "\n".join(c["source"] for c in ours)
    python = re.sub(r"^%.*$", "", text, flags=re.M)
    checked = re.sub(r"^mine\.check\((.*)\)$", r"found.append(mine.check(\1))", python, flags=re.M)
    return compile(checked, unit, "exec")


def ignored(*_: Any) -> None:
    """Stand in for what shows things."""


def solved(unit: str, student: str) -> list[Any]:
    """What the checks say when the solution cells have run for one student."""
    found: list[Any] = []
    given = {"student": student, "predictions": [], "found": found, "print": ignored, "display": ignored}
    exec(solutions(unit), given)
    return found


@pytest.mark.parametrize("unit", NAMES)
def test_solutions_pass_and_wrong_answers_fail_for_100_students(unit: str):
    for student in STUDENTS:
        mine = drawn(unit, student)
        found = solved(unit, student)
        assert [c.exercise for c in found] == [e.name for e in mine.unit.exercises]
        assert {c.state for c in found} == {"right"}, (student, [str(c) for c in found])
        for exercise, answer in mine._drawn.answers.items():
            planted = [m.value for m in answer.mistakes] + wrong(answer.value)
            for value in planted:
                checked = mine.check(exercise, value)
                assert (checked.state, checked.points) == ("wrong", 0), (student, exercise, answer.value, value)


def wrong(truth: Any) -> list[Any]:
    """Answers that are never right: another name; the sign, the size or the type is wrong."""
    if isinstance(truth, str):
        return ["", f"{truth}x", f"not {truth}", 7, [truth], b"x"]
    return [-truth - 1, 2 * truth + 1, truth / 2 - 1, float("nan"), float("inf"), f"{truth}", [truth], True, {}]


@pytest.mark.parametrize("unit", NAMES)
def test_every_exercise_has_a_wrong_answer_that_is_explained(unit: str):
    seen = [drawn(unit, student)._drawn.answers for student in STUDENTS[:20]]
    for exercise in unit_named(unit).exercises:
        assert any(answers[exercise.name].mistakes for answers in seen), exercise.name


@pytest.mark.parametrize("unit", NAMES)
def test_data_differ_between_students_and_answers_with_them(unit: str):
    answers = [tuple(a.value for a in drawn(unit, student)._drawn.answers.values()) for student in STUDENTS]
    assert len(set(answers)) >= 20
    for k in range(len(answers[0])):  # no answer is everybody's
        assert max([a[k] for a in answers].count(v) for v in {a[k] for a in answers}) <= 70, k


def test_one_name_is_one_student_however_it_is_written():
    assert seed_of("Zoë  Müller ", "unit1") == seed_of("ZOE\u0308 M\u00fcller", "unit1")
    assert seed_of("Zoë Müller", "unit1") != seed_of("Zoe Muller", "unit1")
    assert seed_of("a", "unit1") != seed_of("a", "unit2")


def test_an_open_exercise_gives_no_points_and_says_what_is_asked():
    checked = pk.course.exercises("unit1").check("one chain", None)
    assert (checked.state, checked.points, checked.of) == ("open", 0, 2)
    assert "cycles per addition" in str(checked)


def test_a_check_shows_a_line_the_points_and_the_answer():
    mine = pk.course.exercises("unit1", "x")
    bundle = mine.check("one chain", mine.data.latency)._repr_mimebundle_()
    assert float(bundle["text/plain"]) == 2.0  # nbgrader takes it as the points
    assert "2 of 2 points" in bundle["text/html"]
    assert json.loads(json.dumps(bundle[MIME]))["answer"] == mine.data.latency
    assert "<b>" not in mine.check("bottleneck", "<b>x")._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("unit", NAMES)
def test_a_unit_is_checked_at_once(unit: str):
    truth = {name: answer.value for name, answer in drawn(unit, "Zoë")._drawn.answers.items()}
    assert pk.course.check(unit, truth, student="Zoë").points == unit_named(unit).points
    open_ = pk.course.check(unit)
    assert (open_.points, {each.state for each in open_.exercises}) == (0, {"open"})
    first, *others = truth
    one = pk.course.check(unit, {first: truth[first]}, student="Zoë")
    assert [each.state for each in one.exercises] == ["right", *["open"] * len(others)]
    assert pk.course.check(unit, dict.fromkeys(truth, "<b>"), student="Zoë").points == 0
    assert list(one.to_frame()["exercise"]) == list(truth)


@pytest.mark.parametrize("unit", NAMES)
def test_in_a_notebook_the_answers_are_its_variables(unit: str, monkeypatch: pytest.MonkeyPatch):
    import IPython

    answers = drawn(unit, "Zoë")._drawn.answers
    given = {name.replace(" ", "_"): answer.value for name, answer in answers.items()}
    shell = SimpleNamespace(user_ns={**given, "student": "Zoë"})
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    checked = pk.course.check(unit)
    assert (checked.student, checked.points) == ("Zoë", unit_named(unit).points)
    assert pk.course.check(unit, student="Bo").points < checked.points
    asked = [c["source"] for c in read_notebook(notebook_of(unit_named(unit)))["cells"] if c["cell_type"] == "code"]
    assert [s.split("  #")[0] for s in asked if "pk.course.check(" in s] == [f'pk.course.check("{unit}")']
    for name, answer in zip(answers, given, strict=True):  # the variables in the notebook are those that are looked for
        assert f'mine.check("{name}", {answer})' in asked


def test_a_checked_unit_is_shown_as_text_and_html():
    checked = pk.course.check("unit1", {"bottleneck": "<b>"}, student="<i>")
    assert str(checked).splitlines()[0] == "unit1, <i>: 0 of 10 points"
    assert "<b>" not in checked._repr_html_()
    assert "<i>" not in checked._repr_html_()
    assert checked._repr_html_().count("border-left") == 4
    assert "no name" in str(pk.course.check("unit1"))


def test_unknown_units_exercises_and_names_are_refused():
    with pytest.raises(SettingError, match="did you mean 'one chain'"):
        pk.course.check("unit1", {"one chains": 1})
    with pytest.raises(SettingError, match="unit9"):
        pk.course.exercises("unit9")
    with pytest.raises(SettingError, match="one chain"):
        pk.course.exercises("unit1").check("two chains", 1)
    with pytest.raises(SettingError, match="text"):
        pk.course.exercises("unit1", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", NAMES)
def test_students_versions_hold_no_solution(unit: str):
    notebook = read_notebook(notebook_of(unit_named(unit)))
    made = student_version(notebook, "Zoë O'Brien")
    text = json.dumps(made, ensure_ascii=False)
    assert "SOLUTION" not in text
    assert 'student: str = \\"Zoë O\'Brien\\"' in text
    for before, cell in zip(notebook["cells"], made["cells"], strict=True):
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            assert cell["source"].splitlines()[-1].split("#")[0].rstrip().endswith("= None")
            assert cell["source"] != before["source"]


@pytest.mark.parametrize("unit", NAMES)
def test_notebooks_follow_nbgrader_and_hold_every_exercise(unit: str):
    cells = read_notebook(notebook_of(unit_named(unit)))["cells"]
    graded = [c["metadata"]["nbgrader"] for c in cells if "nbgrader" in c["metadata"]]
    keys = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}
    assert all(keys <= set(g) <= keys | {"points"} and g["schema_version"] == 3 for g in graded)
    assert len({g["grade_id"] for g in graded}) == len(graded)
    points = [(g["grade_id"], g["points"]) for g in graded if g["grade"]]
    assert points == [("check-" + e.name.replace(" ", "-"), e.points) for e in unit_named(unit).exercises]
    assert all("slide_type" in c["metadata"].get("slideshow", {}) for c in cells)
