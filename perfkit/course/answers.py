"""What an exercise asks for, and when an answer is right: close to the truth that the student's number gave."""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfkit.errors import SettingError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that a known misconception leads to.

    Attributes
    ----------
    value : float or str
        The answer.
    why : str
        What to think about again; it does not give the right answer away.
    """

    value: Any
    why: str


@dataclass(frozen=True)
class Solution:
    """The truth of one exercise for one student, and the mistakes that it was made to uncover."""

    value: Any
    mistakes: tuple[Mistake, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """One exercise of a unit.

    Attributes
    ----------
    name : str
        What `Exercises.check` calls it.
    points : float
        For a right answer.
    asks : str
        What is asked, in a few words, with its unit.
    tolerance, absolute : float
        How far a number may lie from the truth: as a share of it, or in the answer's own unit; the larger counts.
    hint : str
        What a wrong answer that no `Mistake` explains is told.
    """

    name: str
    points: float
    asks: str
    hint: str
    tolerance: float = 0.02
    absolute: float = 0.0

    def right(self, truth: Any, given: Any) -> bool:
        """Return whether an answer (of the truth's type, see `fault`) is right."""
        if isinstance(truth, str):
            return str(given).strip().casefold() == truth.casefold()
        return abs(float(given) - truth) <= max(self.tolerance * abs(truth), self.absolute)

    def fault(self, truth: Any, given: Any) -> str:
        """Return what keeps an answer from being one: "" where it is of the right type."""
        if isinstance(truth, str):
            return "" if isinstance(given, str) else f"expected text, such as a name; found {_shown(given)}"
        if isinstance(given, bool) or not isinstance(given, numbers.Real):
            return f"expected a number; found {_shown(given)}"
        return "" if math.isfinite(float(given)) else f"expected a finite number; found {float(given)}"


@dataclass(frozen=True)
class Drawn:
    """What a student's number gave: the data that the student sees, and the answers by exercise."""

    data: Any
    answers: dict[str, Solution]


@dataclass(frozen=True)
class Unit:
    """One unit of the course: 90 minutes.

    Attributes
    ----------
    name : str
        Such as ``unit1``.
    title : str
        What it is about.
    notebook : str
        Its file in ``notebooks/course``.
    misconception : str
        What many believe before it.
    exercises : tuple of Exercise
        In the notebook's order, from easy to hard.
    draw : callable
        A student's number -> data and answers.
    """

    name: str
    title: str
    notebook: str
    misconception: str
    exercises: tuple[Exercise, ...]
    draw: Callable[[int], Drawn]

    @property
    def points(self) -> float:
        """The points of all exercises together."""
        return sum(each.points for each in self.exercises)

    def exercise(self, name: str) -> Exercise:
        """Return an exercise by name.

        Raises
        ------
        SettingError
            There is no such exercise.
        """
        for each in self.exercises:
            if each.name == name:
                return each
        raise SettingError(f"{self.name} has no exercise {name!r}; it has: {', '.join(e.name for e in self.exercises)}")


def part_seed(rng: "np.random.Generator") -> int:
    """Return a seed for one part of a student's data, drawn from the student's own generator."""
    return int(rng.integers(2**31))


def _shown(given: Any) -> str:
    text = repr(given)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(given).__name__})"
