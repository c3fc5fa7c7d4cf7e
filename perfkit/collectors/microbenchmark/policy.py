"""The repetition policy (MARTA, section III-B): drop the extremes, average the rest, repeat while a run is too far.

The paper repeats an experiment at once, and takes the first that settles. Runs that follow each other all meet the same
neighbour on a shared core, so here experiments are made in passes apart in time, and must agree with each other.
"""

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
    >>> judge_repetitions([100.0, 101.0, 500.0, 99.0, 100.0], 0.02).settled
    True
    >>> judge_repetitions([100.0, 150.0, 500.0, 99.0, 100.0], 0.02).settled
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


@dataclass(frozen=True)
class Agreement:
    """What the experiments of several passes say together.

    Parameters
    ----------
    chosen : tuple of int
        The experiments whose mean is reported.
    mean, spread : float
        Of the chosen ones; the spread is the largest relative deviation from their mean (of one experiment, its own).
    low, high : float
        The interval of the experiments' means over all settled passes beside no busy neighbour. Where these are fewer
        than two and the row never settled: over all beside no busy neighbour, or over all.
    among : tuple of int
        The experiments of that interval.
    settled : bool
        Whether the fastest `passes` experiments, each settled and beside no busy neighbour, agree within the tolerance.
    """

    chosen: tuple[int, ...]
    mean: float
    spread: float
    low: float
    high: float
    among: tuple[int, ...]
    settled: bool


def agreement(verdicts: Sequence[Verdict], calm: Sequence[bool], tolerance: float, passes: int) -> Agreement:
    """Judge the experiments of several passes.

    The fastest must agree, and not just any: what disturbs a measurement makes it slower, so a group of equal slow
    experiments beside one faster is a disturbance that lasted.

    Parameters
    ----------
    verdicts : sequence of Verdict
        One an experiment.
    calm : sequence of bool
        Whether each ran beside no busy neighbour.
    tolerance : float
        T.
    passes : int
        Experiments that must agree.

    Examples
    --------
    >>> runs = [Verdict(value, 0.001, True) for value in (100.0, 101.0, 100.5, 190.0)]
    >>> agreement(runs, [True] * 4, 0.02, 3).chosen
    (0, 2, 1)
    """
    good = [at for at, one in enumerate(verdicts) if one.settled and calm[at] and math.isfinite(one.mean)]
    good.sort(key=lambda at: verdicts[at].mean)
    among = tuple(at for at in (good or range(len(verdicts))) if math.isfinite(verdicts[at].mean))
    seen = [verdicts[at].mean for at in among]
    low, high = (min(seen), max(seen)) if seen else (math.nan, math.nan)
    fastest = tuple(good[:passes])
    if len(fastest) == passes:
        values = [verdicts[at].mean for at in fastest]
        mean = sum(values) / passes
        off = max(abs(value - mean) for value in values) / abs(mean) if mean else 0.0
        spread = max([off, *(verdicts[at].spread for at in fastest)]) if passes == 1 else off
        if off <= tolerance:
            return Agreement(fastest, mean, spread, low, high, among, settled=True)
    for more in ([at for at in range(len(verdicts)) if calm[at]], range(len(verdicts))):
        if len(among) < 2:
            among = tuple(at for at in more if math.isfinite(verdicts[at].mean))
            seen = [verdicts[at].mean for at in among]
            low, high = (min(seen), max(seen)) if seen else (math.nan, math.nan)
    at = best(
        [one if calm[at] or not any(calm) else Verdict(one.mean, math.inf, False) for at, one in enumerate(verdicts)]
    )
    spread = max(verdicts[at].spread, (high - low) / low if low else 0.0) if seen else math.nan
    return Agreement((at,), verdicts[at].mean, spread, low, high, among, settled=False)


def unsettled_by(
    verdicts: Sequence[Verdict], calm: Sequence[bool], tolerance: float, passes: int, readings: float = 0.0
) -> str:
    """Say why experiments did not settle, and what would help.

    Parameters
    ----------
    verdicts, calm, tolerance, passes
        As for `agreement`.
    readings : float
        The share of the figure that readings of the clock leave open.

    Examples
    --------
    >>> unsettled_by([Verdict(100.0, 0.001, True)] * 3, [True, False, False], 0.02, 3).partition(", and")[0]
    'it never settled: 1 of 3 passes was quiet (no busy neighbour, a steady clock)'
    """
    still = [one for one, quiet in zip(verdicts, calm, strict=True) if quiet]
    steady = sorted(one.mean for one in still if one.settled)
    if len(still) < passes:
        were = "was" if len(still) == 1 else "were"
        told = (
            f"{len(still)} of {len(verdicts)} passes {were} quiet (no busy neighbour, a steady clock), and {passes} "
            "must be: measure on a quieter machine, or allow more attempts"
        )
    elif len(steady) < passes:
        worst = max((one.spread for one in still if math.isfinite(one.spread)), default=math.nan)
        told = (
            f"in {len(still) - len(steady)} of {len(still)} quiet passes its repetitions differ, by up to {worst:.2%} "
            f"where {tolerance:.1%} is tolerated: its time changes from run to run"
        )
    else:
        middle = sum(steady[:passes]) / passes
        off = (steady[passes - 1] - steady[0]) / middle if middle else math.inf
        apart = f"its quiet passes are steady, but the fastest {passes} of {len(steady)} are {off:.2%} apart: "
        told = apart + (
            "no more than readings of the clock leave open of so few cycles: repeat the work"
            if off <= readings
            else "it has several states, as by where its memory lies (cycles_low, cycles_high)"
        )
    return f"it never settled: {told}"
