"""The units of the course, in order."""

from perfkit.course import unit1, unit2, unit3, unit4, unit5, unit6
from perfkit.course.answers import Unit
from perfkit.errors import SettingError, did_you_mean

UNITS: tuple[Unit, ...] = (unit1.UNIT, unit2.UNIT, unit3.UNIT, unit4.UNIT, unit5.UNIT, unit6.UNIT)
"""The units, in the order of the course."""


def unit_named(name: str) -> Unit:
    """Return a unit by its name, its number or its notebook's name.

    Raises
    ------
    SettingError
        There is no such unit.
    """
    for unit in UNITS:
        if str(name) in (
            unit.name,
            unit.name.removeprefix("unit"),
            unit.notebook,
            unit.notebook.removesuffix(".ipynb"),
        ):
            return unit
    raise SettingError(f"there is no unit {name!r}; {did_you_mean(str(name), [u.name for u in UNITS])}")
