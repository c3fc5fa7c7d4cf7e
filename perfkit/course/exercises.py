"""`exercises`: the exercises of one unit for one student, on data that no other student has."""

import hashlib
import html
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Literal

from perfkit.course.answers import Drawn, Exercise, Unit
from perfkit.course.units import unit_named
from perfkit.errors import SettingError

State = Literal["right", "wrong", "open"]
MIME = "application/vnd.perfkit.check+json"
_SIGNS = {"right": "✔", "wrong": "✘", "open": "○"}
_COLOURS = {"right": "#1a7f37", "wrong": "#c4320a", "open": "#6e7781"}


def seed_of(student: str, unit: str) -> int:
    """Return the number that a student's data of a unit are drawn with.

    Two ways of writing one name (capital letters, spaces, composed or decomposed accents) give the same number.

    Examples
    --------
    >>> seed_of("Zoë  Müller ", "unit1") == seed_of("zoë müller", "unit1")
    True
    """
    name = " ".join(unicodedata.normalize("NFC", student).casefold().split())
    digest = hashlib.sha256(f"{unit}\n{unicodedata.normalize('NFC', name)}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big")


@dataclass(frozen=True)
class Checked:
    """What the check of one answer says.

    Attributes
    ----------
    unit, exercise, student : str
        What was checked, and whose.
    state : str
        ``right``, ``wrong``, or ``open``: nothing was answered yet (the answer is None).
    points, of : float
        Points given, and points of the exercise.
    text : str
        One or two sentences for the student.
    answer : float, str or None
        What was answered, where it was of the right type.

    Examples
    --------
    >>> import perfkit as pk
    >>> print(pk.course.exercises("unit1").check("bottleneck", "the clock"))
    ✘ bottleneck: 0 of 3 points. ...
    """

    unit: str
    exercise: str
    student: str
    state: State
    points: float
    of: float
    text: str
    answer: Any = None

    def __str__(self) -> str:
        """Return what a student reads."""
        return f"{_SIGNS[self.state]} {self.exercise}: {self.points:g} of {self.of:g} points. {self.text}"

    def line(self) -> str:
        """Return what a student reads, as HTML with the state's colour."""
        style = f"border-left: 4px solid {_COLOURS[self.state]}; padding: 4px 10px"
        return f'<div style="{style}">{html.escape(str(self))}</div>'

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Give a notebook a line to read, and graders the points: nbgrader takes a cell's number as its points."""
        return {
            "text/plain": f"{float(self.points)}",
            "text/html": self.line(),
            MIME: {name: getattr(self, name) for name in ("unit", "exercise", "student", "answer")},
        }


@dataclass(frozen=True)
class Exercises:
    """The exercises of a unit for one student.

    Attributes
    ----------
    unit : Unit
        What they belong to.
    student : str
        Whose data these are; ``""`` is a student, too: the one of the lecture.
    data : object
        What the exercises are about, drawn with the student's number; the notebook says what its attributes are.

    Examples
    --------
    >>> import perfkit as pk
    >>> mine = pk.course.exercises("unit2", "Ada Lovelace")
    >>> mine.check("area", "memory").of
    3
    """

    unit: Unit
    student: str
    _drawn: Drawn = field(repr=False)

    @property
    def data(self) -> Any:
        """The student's own data."""
        return self._drawn.data

    def check(self, exercise: str, answer: Any) -> Checked:
        """Compare an answer with the truth that the student's number gave.

        Parameters
        ----------
        exercise : str
            Its name, as the notebook gives it.
        answer : float, str or None
            None leaves the exercise open.

        Raises
        ------
        SettingError
            The unit has no such exercise.
        """
        asked = self.unit.exercise(exercise)
        truth = self._drawn.answers[exercise]
        if answer is None:
            return self._checked(asked, "open", f"Asked: {asked.asks}.")
        answer = answer.item() if hasattr(answer, "item") and getattr(answer, "size", 0) == 1 else answer
        fault = asked.fault(truth.value, answer)
        if fault:
            # Kept as text: who grades it must see that something was answered.
            said = answer if isinstance(answer, str) else repr(answer)[:200]
            return self._checked(asked, "wrong", f"{fault[0].upper()}{fault[1:]}. Asked: {asked.asks}.", said)
        plain = answer.strip() if isinstance(answer, str) else float(answer)
        if asked.right(truth.value, plain):
            return self._checked(asked, "right", "Right.", plain)
        known = [m.why for m in truth.mistakes if asked.right(m.value, plain)]
        return self._checked(asked, "wrong", known[0] if known else asked.hint, plain)

    def _checked(self, asked: Exercise, state: State, text: str, answer: Any = None) -> Checked:
        points = asked.points if state == "right" else 0.0
        return Checked(self.unit.name, asked.name, self.student, state, points, asked.points, text, answer)


def exercises(unit: str, student: str = "") -> Exercises:
    """Return the exercises of a unit for one student.

    Parameters
    ----------
    unit : str
        Such as ``unit1``; ``perfkit course list`` says what there is.
    student : str
        A name. The same name always gets the same data; another name gets other data.

    Raises
    ------
    SettingError
        There is no such unit, or the name is no text.

    Examples
    --------
    >>> import perfkit as pk
    >>> mine = pk.course.exercises("unit1", "Ada Lovelace")
    >>> mine.check("one chain", None).state
    'open'
    """
    if not isinstance(student, str):
        raise SettingError(f"student is a name (text); found {student!r}")
    found = unit_named(unit)
    return Exercises(found, student, found.draw(seed_of(student, found.name)))
