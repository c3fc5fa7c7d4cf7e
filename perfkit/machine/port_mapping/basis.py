"""Choose the basis: forms of one operation whose ports the others are told by, from throughputs and interference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

WHOLE = 0.06
"""By how much the reciprocal of a throughput may differ from a whole number of ports."""
DOUBT = 0.1
"""How far unions of a form with others that share its ports may be from whole numbers, in ports, on average: a form of
several operations is farther."""
SAME = 0.12
"""How far the size of a union may be from a whole number, in ports, relative to that number."""


@dataclass(frozen=True)
class Basis:
    """The forms that were chosen.

    Parameters
    ----------
    sizes
        Form -> the number of its ports.
    members
        Form -> the candidates that use the same ports, itself included.
    """

    sizes: Mapping[str, int]
    members: Mapping[str, tuple[str, ...]]


def ports_of(throughput: float, front: float) -> int | None:
    """Return how many ports a form of one operation has, by its cycles per instruction; None where it is no such.

    A form at the front end's width may have any number: it is no use for the basis.
    """
    if not 0 < throughput <= 1 + WHOLE or 1 / throughput > front * (1 - WHOLE):
        return None
    count = round(1 / throughput)
    return count if abs(1 / throughput - count) <= WHOLE * count else None


def union_size(sizes: tuple[int, ...], cycles: float) -> float:
    """Return how many ports forms have together, by a mixture of as many of each as it has ports.

    Alone, each form's share of the mixture takes one cycle; together they take the sum of the shares over the ports.
    """
    return sum(sizes) / max(cycles, 1.0)


def choose(sizes: Mapping[str, int], unions: Mapping[frozenset[str], float]) -> Basis:
    """Cluster candidates on throughput and pairwise interference, and return one of each cluster.

    Forms whose unions are far from whole numbers are left out first, the farthest first: they are several operations.

    Parameters
    ----------
    sizes
        Candidate -> number of its ports.
    unions
        Pair of candidates -> ports that they have together, as measured (`union_size`).

    Returns
    -------
    Basis
        Of each cluster (as many ports, and together no more) the candidate whose unions are nearest to whole numbers.
    """
    doubt = {name: _doubt(name, sizes, unions) for name in sizes}
    while doubt and max(doubt.values()) > DOUBT:
        worst = max(sorted(doubt), key=lambda name: doubt[name])
        kept = {name: size for name, size in sizes.items() if name in doubt and name != worst}
        doubt = {name: _doubt(name, kept, unions) for name in kept}
    names = sorted(doubt)
    clusters: list[list[str]] = []
    for name in sorted(names, key=lambda one: (doubt[one], one)):
        for cluster in clusters:
            first = cluster[0]
            together = unions.get(frozenset((name, first)))
            if sizes[first] == sizes[name] and together is not None and together <= sizes[name] * (1 + SAME):
                cluster.append(name)
                break
        else:
            clusters.append([name])
    return Basis(
        {cluster[0]: sizes[cluster[0]] for cluster in clusters},
        {cluster[0]: tuple(cluster) for cluster in clusters},
    )


def _doubt(name: str, sizes: Mapping[str, int], unions: Mapping[frozenset[str], float]) -> float:
    """Return how far a form's unions with those that share its ports are from whole numbers, on average."""
    found = []
    for other in sizes:
        together = unions.get(frozenset((name, other)))
        if other != name and together is not None and together < sizes[name] + sizes[other] - 0.1:
            found.append(abs(together - round(together)))
    return float(np.mean(found)) if found else 0.0
