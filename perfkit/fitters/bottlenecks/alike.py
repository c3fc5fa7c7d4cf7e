"""What events that were not counted may have been: as in simulated runs that look alike in those that were.

A forest cannot be asked about a feature that is not known. Each row of which some are missing is completed some dozens
of times (hot-deck imputation, D. B. Rubin 1987): what is missing is taken from the simulated runs that are nearest by
what is known. Where the forest says the same of all completed rows, what was not counted does not matter; where it does
not, the events by which they differ are those to count. Runs of rare kinds are hardly among the nearest, so each class
whose events were not counted is looked for by itself, too: it is a rival where runs that it holds back lie about as
near as those of the likeliest class.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perfkit import datasets
from perfkit.fitters.bottlenecks.features import NAMES, Known, features_of, matrix
from perfkit.machine.classes import CLASSES
from perfkit.machine.core import Microarchitecture

_RUNS = "bottlenecks/runs"
_LEAST = 200  # runs that have all that is missing; with fewer, all runs are asked
_NEAR, _LEAST_NEAR = 5, 0.02  # weights fall with the distance, by that of the sixth nearest run; and at least this
_AT_ONCE = 256  # rows: bounds the memory
_FEW = 3  # runs of a class: the third nearest says how near it is
_SLACK = 0.01  # for each feature that is known
_RIVAL = 1.5  # times as far as the likeliest class: farther away, a class is no rival


@dataclass(frozen=True, eq=False)
class Pool:
    """Simulated runs: their features, (runs, features), and the class that holds each back, (runs,)."""

    x: NDArray[np.float32]
    of: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Completed:
    """Some rows, each completed in several ways.

    Attributes
    ----------
    rows : (n,) int
        Which rows of those asked for.
    x : (n, ways, features) float32
        Their features; -1 stays only where the core has no such resource.
    weight : (n, ways) float
        How much each way counts; the sum of each row is 1.
    missing : (features,) bool
        What was not known of these rows.
    away : mapping of class to (n,) float
        How far the nearest runs are that this class holds back; empty where nothing is missing.
    slack : float
        Runs nearer than this are not told apart.
    """

    rows: NDArray[np.int64]
    x: NDArray[np.float32]
    weight: NDArray[np.float64]
    missing: NDArray[np.bool_]
    away: dict[str, NDArray[np.float64]]
    slack: float = 0.0

    @classmethod
    def of(cls, x: NDArray[np.float32]) -> "Completed":
        """Return rows of features of which everything is known: each in one way."""
        return cls(np.arange(len(x)), x[:, None], np.ones((len(x), 1)), np.zeros(x.shape[1], dtype=np.bool_), {})

    def rivals(self, likeliest: NDArray[np.str_], never: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Return where each class of which a telling feature is missing may hold a row back instead of the likeliest.

        Parameters
        ----------
        likeliest : (n,) str
            The class that is the likeliest by the ways.
        never : (features,) bool
            Features that no event of the processor tells: their lack makes no rival, as nothing could end it.
        """
        found = {}
        every = np.array(
            [self.away.get(str(name), np.full(len(self.rows), np.inf))[k] for k, name in enumerate(likeliest)]
        )
        for name, away in self.away.items():
            if (self.missing & ~never)[[NAMES.index(feature) for feature in features_of(name)]].any():
                found[name] = (away <= _RIVAL * (every + self.slack)) & (likeliest != name)
        return found


@cache
def pool() -> Pool:
    """Return the simulated runs that ship."""
    frame = datasets.load(_RUNS)
    parts, of = [], []
    credit = frame[[f"credit:{name}" for name in CLASSES]].fillna(0.0).to_numpy(dtype=float)
    first = np.array(list(CLASSES))[credit.argmax(axis=1)]
    for core, part in frame.groupby("core"):
        chosen = [c for c in part.columns if c.startswith("rate:") and not c.startswith("rate:stall.")]
        rates = {c.partition(":")[2]: part[c].to_numpy(dtype=float) for c in chosen}
        parts.append(matrix(rates, Microarchitecture.load(str(core))))
        of.append(first[part.index])
    return Pool(np.concatenate(parts), np.concatenate(of))


def completed(known: Known, ways: int, runs: Pool | None = None) -> Iterator[Completed]:
    """Yield all rows, completed; those of which the same is known come together.

    Parameters
    ----------
    known : Known
        What is known of the rows.
    ways : int
        In how many ways each incomplete row is completed; complete ones have one.
    runs : Pool, optional
        Where values are taken from; by default the shipped runs.
    """
    open_ = np.isnan(known.values) & ~known.never
    patterns, which = np.unique(open_, axis=0, return_inverse=True)
    for number, missing in enumerate(patterns):
        mine = np.flatnonzero(which.ravel() == number)
        for rows in np.array_split(mine, -(-len(mine) // _AT_ONCE)):
            yield _complete(known, rows, missing, ways, runs)


def _complete(
    known: Known, rows: NDArray[np.int64], missing: NDArray[np.bool_], ways: int, runs: Pool | None
) -> Completed:
    x = as_numbers(known.values[rows])
    if not missing.any():
        return Completed(rows, x[:, None], np.ones((len(rows), 1)), missing, {})
    every = pool() if runs is None else runs
    fit = (every.x[:, missing] >= 0).all(axis=1)
    source, of = (every.x[fit], every.of[fit]) if fit.sum() >= _LEAST else (every.x, every.of)
    given = ~missing & ~known.never
    there = _roots(source[:, given])
    distance = np.stack([np.abs(one - there).sum(axis=1) for one in _roots(x[:, given])])
    near = np.argsort(distance, axis=1, kind="stable")[:, :ways]
    away = np.take_along_axis(distance, near, axis=1)
    weight = np.exp(-0.5 * (away / (away[:, [min(_NEAR, away.shape[1] - 1)]] + _LEAST_NEAR)) ** 2)
    full = np.repeat(x[:, None], near.shape[1], axis=1)
    full[:, :, missing] = source[near][:, :, missing]
    full = np.maximum(full, as_numbers(known.least[rows])[:, None])
    names, count = np.unique(of, return_counts=True)
    each = {
        str(name): np.partition(distance[:, of == name], _FEW - 1, axis=1)[:, _FEW - 1] for name in names[count >= _FEW]
    }
    return Completed(rows, full, weight / weight.sum(axis=1, keepdims=True), missing, each, _SLACK * given.sum())


def deciding(part: Completed, first: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much each missing feature, if it were known, would leave open less, (rows, features).

    Parameters
    ----------
    part : Completed
        Rows in all ways.
    first : (rows, ways, classes) float
        The weight of each way, at the class that is the likeliest in it.

    Returns
    -------
    array
        By how much the chance that two ways name different classes falls (Gini's impurity) where the ways are parted at
        the best value of the feature; 0 for what is known.
    """
    found = np.zeros((len(part.rows), part.x.shape[2]))
    total = first.sum(axis=1)
    before = 1.0 - np.square(total).sum(axis=1)
    for k in np.flatnonzero(part.missing):
        value = part.x[:, :, k]
        order = np.argsort(value, axis=1, kind="stable")
        low = np.cumsum(np.take_along_axis(first, order[:, :, None], axis=1), axis=1)[:, :-1]
        if not low.shape[1]:
            continue
        high = np.maximum(total[:, None] - low, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = sum(w - np.square(part_).sum(axis=2) / w for part_ in (low, high) for w in [part_.sum(axis=2)])
        apart = np.diff(np.take_along_axis(value, order, axis=1), axis=1) > 0
        gain = np.where(apart & np.isfinite(left), before[:, None] - left, 0.0)
        found[:, k] = np.maximum(gain.max(axis=1), 0.0)
    return np.where(found < 1e-9, 0.0, found)


def as_numbers(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return features as the forest takes them: -1 for what is not known, and nothing beyond 8."""
    return np.clip(np.nan_to_num(values, nan=-1.0, posinf=8.0), -1.0, 8.0).astype(np.float32)


def _roots(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scale on which distances are taken: a tenth and two tenths are farther apart than nine and ten."""
    return np.sqrt(np.clip(x, 0.0, 2.0))
