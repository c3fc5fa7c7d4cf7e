"""How far a CPI stack can be believed: cross-validation, the placebo, the bracket and the block bootstrap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.fitters.cpi.counts import CpiCounts, block_starts
from perfkit.fitters.cpi.estimator import Estimator
from perfkit.fitters.cpi.solvers import Form, System, build_system, r_squared, squared_error, squared_spread, to_stack

# Blocks of the bootstrap: at least ten, and two for each unknown. With as many blocks as unknowns an interval is twenty
# times as long as the draws tell; with three for each, noise that lasts is cut up (docs/cpi-stack.md).
_FEWEST_BLOCKS, _PER_UNKNOWN = 10, 2
_NEAR = 0.005  # of the CPI


@dataclass(frozen=True)
class CpiR2:
    """R2 of a fit: on its own intervals, and on intervals kept out of it in random and in time-ordered fifths.

    All three are about the fit's own target (IPC or CPI). Intervals follow each other, so a random split trains on the
    neighbours of what it tests on; the blocked one does not.
    """

    in_sample: float
    random: float
    blocked: float


@dataclass(frozen=True)
class CpiBracket:
    """The base CPI by both forms of one model. If the data can tell the base, the two agree.

    Attributes
    ----------
    ipc, cpi : float
        Base CPI of the fit divided by cycles and of the one divided by instructions.
    aggregate : float
        Total cycles over total instructions, to compare the width with.
    """

    ipc: float
    cpi: float
    aggregate: float

    @property
    def low(self) -> float:
        """The lower of the two bases."""
        return min(self.ipc, self.cpi)

    @property
    def high(self) -> float:
        """The higher of the two bases."""
        return max(self.ipc, self.cpi)

    @property
    def width(self) -> float:
        """The difference of the two bases as a share of the aggregate CPI."""
        return (self.high - self.low) / self.aggregate


def random_folds(n: int, folds: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the rows of each fold, drawn at random."""
    return [np.sort(f) for f in np.array_split(rng.permutation(n), min(folds, n))]


def blocked_folds(n: int, folds: int) -> list[np.ndarray]:
    """Return the rows of each fold, consecutive in time."""
    return list(np.array_split(np.arange(n), min(folds, n)))


def cross_validate(
    system: System, estimator: Estimator, folds: Sequence[np.ndarray], whole: np.ndarray, start: np.ndarray
) -> float:
    """Return R2 over all rows, each predicted by the fit to the other folds; NaN where too few are left."""
    n = len(system.weights)
    if not folds or n - max(map(len, folds)) <= len(start) or len(folds) < 2:
        return float("nan")
    parts = np.array([system.moments(fold) for fold in folds])
    if estimator.method == "huber":
        solutions = np.array([estimator.fit(system, np.delete(np.arange(n), fold), start)[0] for fold in folds])
    else:
        solutions = estimator.solve_many(whole - parts, start)
    error = sum(squared_error(part, x) for part, x in zip(parts, solutions, strict=True))
    spread = squared_spread(whole)
    return 1.0 - error / spread if spread > 1e-14 * whole[-1, -1] else float("nan")


def placebo(
    counts: CpiCounts, form: Form, weights: np.ndarray, estimator: Estimator, times: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the R2 of fits in which each interval got the event counts of another.

    Cycles and instructions stay where they are; the counts are shuffled before they are divided. What R2 is left comes
    from the division alone: with intervals of fixed time, cycles hardly vary, so CPI and every count per instruction
    are both something over instructions. Huber's method is given least squares' R2 here, which is never lower.
    """
    moments = []
    for _ in range(times):
        shuffled = counts.counts[rng.permutation(len(counts))]
        moments.append(build_system(form, counts.cycles, counts.instructions, shuffled, weights).moments())
    start = np.zeros(counts.counts.shape[1] + 1)
    start[0] = 1.0
    solutions = estimator.solve_many(np.array(moments), start)
    return np.array([r_squared(M, x) for M, x in zip(moments, solutions, strict=True)])


def block_bootstrap(
    system: System,
    estimator: Estimator,
    counts: CpiCounts,
    factor: np.ndarray | None,
    x: np.ndarray,
    *,
    block: int,
    times: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return draws of [base, penalties] and of [base, components], and the size of block used.

    Blocks of consecutive intervals are drawn with replacement, so that what lasts for several intervals stays together;
    no block reaches from one run into the next. Fewer than ten blocks, or than two for each unknown, would say little,
    so blocks shrink where the data is short. Huber's weights stay those of the fit itself.
    """
    n, m = len(counts), system.Z.shape[1]
    size = max(1, min(block, n // max(_FEWEST_BLOCKS, _PER_UNKNOWN * (m - 1))))
    starts = block_starts(counts.segments(), size)
    ends = np.append(starts[1:], n)
    weights = system.weights if factor is None else system.weights * factor
    weighted = system.Z * weights[:, None]
    moments = np.empty((len(starts), m, m))
    for i, (a, b) in enumerate(zip(starts, ends, strict=True)):
        np.matmul(system.Z[a:b].T, weighted[a:b], out=moments[i])
    totals = np.add.reduceat(counts.counts, starts, axis=0)
    work = np.add.reduceat(counts.instructions, starts)
    picks = rng.integers(len(starts), size=(times, len(starts)))
    often = np.zeros((times, len(starts)))
    np.add.at(often, (np.arange(times)[:, None], picks), 1.0)
    resampled = (often @ moments.reshape(len(starts), -1)).reshape(times, m, m)
    solutions = estimator.solve_many(resampled, x)
    penalties = to_stack(system.form, solutions)
    components = penalties.copy()
    components[:, 1:] *= (often @ totals) / (often @ work)[:, None]
    return penalties, components, size


def for_few(draws: np.ndarray, blocks: int, level: float, taken: int = 0) -> np.ndarray:
    """Return draws spread out about their medians by as much as few blocks make an interval of a level too narrow.

    Each draw has fewer different blocks than there are, and as many unknowns: as an interval of Student's t is wider
    than the normal one. ``taken`` are the degrees of freedom that the unknowns take, by default one each; where every
    block determines them all by itself, as a machine's intervals do, it is one.
    """
    from scipy.special import ndtri, stdtrit  # scipy.stats takes a second to import

    if not len(draws):
        return draws
    free = max(1, blocks - (taken or draws.shape[1]))  # none left: as wide as it can be told, where nothing is known
    end = (1.0 + level) / 2.0
    ratio = float(stdtrit(free, end) / ndtri(end)) * math.sqrt(blocks / free)
    middle = np.nanmedian(draws, axis=0)
    return np.asarray(middle + (draws - middle) * ratio)


def interval_of(
    draws: np.ndarray, aside: np.ndarray, level: float, least: "np.ndarray | float", most: "np.ndarray | float"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the interval of each column of draws.

    Parameters
    ----------
    draws : (resamples, parts) float
        Resampled values of each part.
    aside : (parts,) float
        How far another form of the model lies from this one: the interval reaches as much further to that side.
    level : float
        Coverage.
    least, most : float or (parts,) float
        What a part can be at all.
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    apart = np.nan_to_num(aside)
    return np.clip(low + np.minimum(apart, 0.0), least, most), np.clip(high + np.maximum(apart, 0.0), least, most)


def variance_inflation(M: np.ndarray) -> np.ndarray:
    """Return the VIF of each column but the first: 1/(1 - R2) of that column explained by the others.

    Infinite where a column is, to rounding, a combination of others.
    """
    n = M[0, 0]
    mean = M[0, 1:-1] / n
    covariance = M[1:-1, 1:-1] / n - np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    correlation = covariance / np.outer(deviation, deviation)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    vif = (vectors**2 / np.maximum(values, 1e-12)).sum(axis=1)
    return np.where(vif > 1e9, math.inf, vif)


def f_test(r2: float, n: int, k: int) -> tuple[float, float, float]:
    """Return F, its p-value and the adjusted R2 of k events on n intervals; NaN without degrees of freedom.

    An R2 that is zero or below (to rounding) explains nothing: F is 0 and p 1.
    """
    from scipy.special import fdtrc  # scipy.stats has the same, and takes a second to import

    free = n - k - 1
    if free < 1 or k < 1 or not math.isfinite(r2):
        return (float("nan"),) * 3
    adjusted = 1.0 - (1.0 - r2) * (n - 1) / free
    if r2 >= 1.0:
        return math.inf, 0.0, adjusted
    if r2 < 1e-12:
        return 0.0, 1.0, adjusted
    F = (r2 / k) / ((1.0 - r2) / free)
    return F, float(fdtrc(k, free, F)), adjusted


def outside(draws: np.ndarray, other: np.ndarray, level: float) -> np.ndarray:
    """Return which parts another form of the model puts outside of this form's bootstrap intervals.

    Parameters
    ----------
    draws : (resamples, parts) float
        Of this form, over the CPI.
    other : (parts,) float
        What the other form says of the same parts, over the CPI.
    level : float
        Coverage of the intervals; what is less than `_NEAR` of the CPI beyond an end is not outside.
    """
    if not len(draws):
        return np.zeros(len(other), dtype=bool)
    low, high = np.nanquantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(np.isfinite(other) & ((other < low - _NEAR) | (other > high + _NEAR)))


def spread_of(draws: np.ndarray, level: float) -> np.ndarray:
    """Return the length of each column's bootstrap interval (0 without resamples: nothing is known against it)."""
    if not len(draws):
        return np.zeros(draws.shape[1])
    low, high = np.nanquantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(high - low)
