"""Families of port groups: every group whose load may bound a mixture of forms."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ports = frozenset[int]
T = TypeVar("T")
_MOST_ATOMS = 6  # up to which every union of atoms is a group: 63 groups


def atoms_of(groups: Iterable[Ports]) -> list[Ports]:
    """Return the largest sets of ports that no group tells apart, in the order of their first port."""
    given = list(dict.fromkeys(groups))
    found: dict[tuple[bool, ...], set[int]] = {}
    for port in sorted(frozenset().union(*given)):
        found.setdefault(tuple(port in group for group in given), set()).add(port)
    return [frozenset(ports) for ports in found.values()]


def components(groups: Iterable[Ports]) -> list[list[Ports]]:
    """Return the groups, those that share ports (also by way of others) together."""
    found: list[list[Ports]] = []
    for group in dict.fromkeys(groups):
        touching = [part for part in found if any(group & other for other in part)]
        found = [part for part in found if part not in touching]
        found.append([*(other for part in touching for other in part), group])
    return found


def family(groups: Iterable[Ports]) -> list[Ports]:
    """Return all groups that may bound a mixture: unions of atoms, within each set of groups that share ports.

    With more than six atoms in such a set, their unions are too many: then it is the closure of the groups under
    union of those that overlap, and the atoms.
    """
    found: list[Ports] = []
    for part in components(groups):
        atoms = atoms_of(part)
        unions: set[Ports] = set(atoms)
        if len(atoms) <= _MOST_ATOMS:
            for atom in atoms:
                unions |= {one | atom for one in unions}
        else:
            unions |= closure(part)
        found += sorted(unions, key=lambda group: (len(group), sorted(group)))
    return found


def closure(groups: Iterable[frozenset[T]]) -> set[frozenset[T]]:
    """Return the groups and the unions of those that overlap, over and over."""
    found = set(groups)
    new = set(found)
    while new:
        new = {a | b for a in new for b in found if a & b} - found
        found |= new
    return found


def loads(groups: Iterable[Ports], uses: Iterable[tuple[Ports, float]]) -> NDArray[np.float64]:
    """Return the cycles that each group is busy with operations that may run on the ports given with them."""
    operations = list(uses)
    return np.array([sum(count for ports, count in operations if ports <= group) / len(group) for group in groups])
