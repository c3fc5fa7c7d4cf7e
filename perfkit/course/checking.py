"""`check`: all exercises of a unit at once, as a student calls it at the notebook's end."""

import html
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfkit.course.answers import Unit
from perfkit.course.exercises import Checked, exercises
from perfkit.course.units import unit_named
from perfkit.errors import SettingError, did_you_mean, of_extra

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CheckedUnit:
    """What the check of a unit says: one line per exercise, and the points.

    Attributes
    ----------
    unit, student : str
        What was checked, and whose data the answers belong to.
    exercises : tuple of Checked
        In the notebook's order.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.course.check("unit2", {"area": "memory"}, student="Ada Lovelace").of
    10.0
    """

    unit: str
    student: str
    exercises: tuple[Checked, ...]

    @property
    def points(self) -> float:
        """Points given."""
        return float(sum(each.points for each in self.exercises))

    @property
    def of(self) -> float:
        """Points of all exercises."""
        return float(sum(each.of for each in self.exercises))

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per exercise: exercise, state, points, of, text."""
        pd = of_extra("pandas")

        columns = ["exercise", "state", "points", "of", "text"]
        return pd.DataFrame([[getattr(each, c) for c in columns] for each in self.exercises], columns=columns)

    def _first_line(self) -> str:
        whose = self.student or "no name: the lecture's data"
        return f"{self.unit}, {whose}: {self.points:g} of {self.of:g} points"

    def __str__(self) -> str:
        """Return what a student reads."""
        return "\n".join([self._first_line(), *(f"  {each}" for each in self.exercises)])

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._first_line())}</p>" + "".join(each.line() for each in self.exercises)

    def __repr__(self) -> str:
        """Return the same: a notebook without HTML shows it."""
        return str(self)


def check(unit: str, answers: Mapping[str, Any] | None = None, *, student: str | None = None) -> CheckedUnit:
    """Check all exercises of a unit.

    Parameters
    ----------
    unit : str
        Such as ``unit2``; ``perfkit course list`` says what there is.
    answers : mapping, optional
        Exercise -> answer, the name with spaces or underscores; what is missing, or None, is open. Without it, in a
        notebook, the answers are the notebook's variables: ``one_chain`` for the exercise ``one chain``; elsewhere all
        exercises are open, and what they ask is said.
    student : str, optional
        A name: it draws the data, see `exercises`. By default the notebook's variable ``student``, ``""`` elsewhere.

    Returns
    -------
    CheckedUnit

    Raises
    ------
    SettingError
        There is no such unit or exercise, or the name is no text.

    Examples
    --------
    A student's last cell; the same with everything said, which works outside a notebook, too:

    >>> import perfkit as pk
    >>> pk.course.check("unit2").points
    0.0
    >>> mine = pk.course.exercises("unit2", "Ada Lovelace")
    >>> rows = mine.data.samples.table.query("event == @mine.data.event")
    >>> found = {"throughput": rows["work"].sum() / rows["time"].sum(), "area": "core"}
    >>> [each.state for each in pk.course.check("unit2", found, student="Ada Lovelace").exercises]
    ['right', 'open', 'wrong', 'open']
    """
    asked = unit_named(unit)
    given = _of_the_notebook(asked) if answers is None else {k.replace("_", " "): v for k, v in answers.items()}
    name = _notebook().get("student", "") if student is None else student
    names = [each.name for each in asked.exercises]
    for other in given.keys() - set(names):
        raise SettingError(f"{asked.name} has no exercise {other!r}; {did_you_mean(str(other), names)}")
    mine = exercises(asked.name, name)
    return CheckedUnit(asked.name, name, tuple(mine.check(each, given.get(each)) for each in names))


def _of_the_notebook(unit: Unit) -> dict[str, Any]:
    """Return the running notebook's variables that are named as the unit's exercises."""
    variables = _notebook()
    return {each.name: variables.get(each.name.replace(" ", "_")) for each in unit.exercises}


def _notebook() -> Mapping[str, Any]:
    """Return the variables of the notebook (or IPython) that runs this; none where there is no IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return {} if shell is None else shell.user_ns
