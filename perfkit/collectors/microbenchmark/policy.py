"""The repetition policy (MARTA, section III-B): drop the extremes, average the rest, repeat while a run is too far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What one experiment of X runs says.

    Parameters
    ----------
    mean : float
        Arithmetic mean of the kept X - 2 runs.
    spread : float
        Largest relative deviation of a kept run from that mean.
    settled : bool
        Whether the spread is within the tolerance.
    """

    mean: float
    spread: float
    settled: bool


def judge_repetitions(values: Sequence[float], tolerance: float) -> Verdict:
    """Drop the smallest and the largest of at least three runs, and judge the rest.

    Runs that gave no value (NaN) make the experiment one that has not settled: they are never averaged away.

    Examples
    --------
    >>> judge([100.0, 101.0, 500.0, 99.0, 100.0], 0.02).settled
    True
    >>> judge([100.0, 150.0, 500.0, 99.0, 100.0], 0.02).settled
    False
    """
    known = sorted(value for value in values if math.isfinite(value))
    if len(known) < len(values) or len(known) < 3:
        rest = known[1:-1] if len(known) >= 3 else known
        mean = sum(rest) / len(rest) if rest else math.nan
        return Verdict(mean, math.nan, settled=False)
    kept = known[1:-1]
    mean = sum(kept) / len(kept)
    if mean == 0:  # a count of nothing, e.g. no page faults: all kept runs are equal or the mean were not 0
        return Verdict(0.0, 0.0, settled=all(value == 0 for value in kept))
    spread = max(abs(value - mean) for value in kept) / abs(mean)
    return Verdict(mean, spread, settled=spread <= tolerance)


def best(verdicts: Sequence[Verdict]) -> int:
    """Return the index of the experiment to report: the first that settled, else the one with the least spread."""
    for at, verdict in enumerate(verdicts):
        if verdict.settled:
            return at
    return min(range(len(verdicts)), key=lambda at: (math.isnan(verdicts[at].spread), verdicts[at].spread))
