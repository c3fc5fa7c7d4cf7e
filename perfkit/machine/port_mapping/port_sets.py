"""Which ports each basis form has: the fewest that give the measured sizes of unions, by integer programming."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from perfkit.errors import DataError
from perfkit.machine.port_mapping.families import Ports

_DEVIATION = 10.0  # what a port too many or too few in a union costs, where a port costs one
_MOST = 12  # forms of a component of which every subset may share ports


def port_sets(sizes: Mapping[str, int], unions: Mapping[frozenset[str], float], front: float) -> dict[str, Ports]:
    """Return form -> its ports, numbered from 0.

    A port is known by the forms that use it. For every set of forms that may share ports, the program has a variable:
    how many ports exactly these forms share. The sizes are kept; the unions are met as closely as can be (least sum of
    deviations), and among equals the fewest ports are taken. Of a union as wide as the front end, only that much is
    known: it has so many ports or more.

    Parameters
    ----------
    sizes
        Form -> number of its ports.
    unions
        Set of two or three forms -> ports that they have together, as measured.
    front
        Instructions that the front end delivers in a cycle.

    Raises
    ------
    DataError
        No ports fit the sizes.
    """
    found: dict[str, Ports] = {}
    start = 0
    for part in _overlapping(sizes, unions, front):
        shared = _solve(part, sizes, unions, front)
        for forms, count in shared:
            ports = frozenset(range(start, start + count))
            start += count
            for form in forms:
                found[form] = found.get(form, frozenset()) | ports
    return found


def _apart(a: str, b: str, sizes: Mapping[str, int], unions: Mapping[frozenset[str], float], front: float) -> bool:
    together = unions.get(frozenset((a, b)))
    total = sizes[a] + sizes[b]
    return together is None or together > min(total, front) - 0.5


def _overlapping(
    sizes: Mapping[str, int], unions: Mapping[frozenset[str], float], front: float
) -> list[tuple[str, ...]]:
    parts: list[set[str]] = []
    for form in sizes:
        touching = [part for part in parts if any(not _apart(form, other, sizes, unions, front) for other in part)]
        parts = [part for part in parts if part not in touching]
        parts.append({form}.union(*touching))
    return [tuple(sorted(part)) for part in parts]


def _subsets(
    part: tuple[str, ...], sizes: Mapping[str, int], unions: Mapping[frozenset[str], float], front: float
) -> list[frozenset[str]]:
    """Return the sets of forms that may share a port: every two of them overlap."""
    found: list[frozenset[str]] = [frozenset((form,)) for form in part]
    new = list(found)
    while new and len(found) < 1 << _MOST:
        new = list(
            {
                one | {form}
                for one in new
                for form in part
                if form not in one and all(not _apart(form, other, sizes, unions, front) for other in one)
            }
        )
        found += new
    return found


def _solve(
    part: tuple[str, ...], sizes: Mapping[str, int], unions: Mapping[frozenset[str], float], front: float
) -> list[tuple[frozenset[str], int]]:
    subsets = _subsets(part, sizes, unions, front)
    measured = [
        (frozenset(some), unions[frozenset(some)])
        for count in (2, 3)
        for some in combinations(part, count)
        if frozenset(some) in unions
    ]
    n, m = len(subsets), len(measured)
    # Variables: ports of each subset; by how much each union is too large, and too small.
    cost = np.concatenate([np.ones(n), np.full(2 * m, _DEVIATION)])
    rows: list[list[float]] = []
    low: list[float] = []
    high: list[float] = []
    for form in part:
        rows.append([*(float(form in subset) for subset in subsets), *[0.0] * (2 * m)])
        low.append(sizes[form])
        high.append(sizes[form])
    for k, (forms, together) in enumerate(measured):
        slack = np.zeros(2 * m)
        slack[k], slack[m + k] = -1.0, 1.0
        rows.append([*(float(bool(forms & subset)) for subset in subsets), *slack])
        bounded = together > front - 0.5
        low.append(front - 0.5 if bounded else together)
        high.append(np.inf if bounded else together)
    integrality = np.concatenate([np.ones(n), np.zeros(2 * m)])
    done = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), low, high),
        integrality=integrality,
        bounds=Bounds(0, np.inf),
        options={"time_limit": 10.0},
    )
    if done.x is None:
        raise DataError(f"no port groups fit the throughputs of {', '.join(part)}: {done.message}")
    counts = np.rint(done.x[:n]).astype(int)
    return [(subset, int(count)) for subset, count in zip(subsets, counts, strict=True) if count]
