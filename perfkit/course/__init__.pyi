"""The course in `notebooks/course`: exercises whose data and answers follow from a student's name."""

from .checking import CheckedUnit as CheckedUnit
from .checking import check as check
from .exercises import Checked as Checked
from .exercises import Exercises as Exercises
from .exercises import exercises as exercises
from .units import UNITS as UNITS
