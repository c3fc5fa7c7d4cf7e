"""Unit 3, measuring: what a clock tells, what disturbs, and when a difference is one. All timings are generated."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from perfkit.collectors.microbenchmark.policy import judge_repetitions
from perfkit.course.answers import Drawn, Exercise, Mistake, Solution, Unit, part_seed

Floats = NDArray[np.float64]
LIMIT = 0.01  # of the error that a clock's tick may make, in exercise 1
TOLERANCE = 0.02  # T of the repetition policy (MARTA, section III-B)
ALARMS = 0.05  # share of A/A comparisons that may be called a difference
_COMPARISONS = 200  # of the program with itself
_VERDICTS = ("slower", "faster", "cannot tell")


@dataclass(frozen=True)
class Timed:
    """What a student of unit 3 gets. Every timing is generated; no machine was measured.

    Attributes
    ----------
    tick : float
        Nanoseconds from one value of the student's clock to the next.
    call : float
        Nanoseconds that one call of a function takes, about.
    runs : Series
        Cycles of each call of another function, in order from the start of the program.
    passes : DataFrame
        Cycles of a third one: five runs (columns) in each of ten passes (rows), minutes apart.
    itself : Series
        Differences, relative, that comparing a program with itself showed: 200 A/A comparisons.
    change : float
        The difference that the same procedure showed between the program and its new version (0.01: 1 % slower).
    """

    tick: float
    call: float
    runs: "pd.Series[float]"
    passes: pd.DataFrame
    itself: "pd.Series[float]"
    change: float


def read_clock(durations: ArrayLike, tick: float, seed: int) -> Floats:
    """Return what a clock that moves in ticks says of durations that begin at random moments, in their unit.

    Examples
    --------
    >>> sorted(set(read_clock([25.0] * 100, 20.0, seed=1).tolist()))
    [20.0, 40.0]
    """
    lasting = np.asarray(durations, dtype=np.float64)
    start = np.random.default_rng(seed).uniform(0.0, tick, lasting.shape)
    found: Floats = np.floor((start + lasting) / tick) * tick - np.floor(start / tick) * tick
    return found


def timings(
    cycles: float,
    runs: int,
    seed: int,
    *,
    cold: float = 1.0,
    warm_up: int = 1,
    interrupted: float = 0.0,
    beside: ArrayLike = False,
    slowdown: float = 1.5,
    jitter: float = 0.004,
) -> Floats:
    """Return generated timings of one program. What disturbs a run makes it slower, never faster.

    Parameters
    ----------
    cycles : float
        What the program takes when it is warm and undisturbed: the truth.
    runs : int
        How many timings.
    seed : int
        Of the randomness.
    cold, warm_up : float, int
        How many times as long the first run takes, and within how many runs two thirds of that are gone.
    interrupted : float
        Share of the runs that an interrupt hits: they take 0.5 to 3 times as long again.
    beside : (runs,) bool
        The runs during which another program uses the core; each takes ``slowdown`` times as long.
    jitter : float
        Spread of the rest, relative.

    Examples
    --------
    >>> float(timings(100.0, 5, seed=1, jitter=0.0).max())
    100.0
    """
    rng = np.random.default_rng(seed)
    found = cycles * (1.0 + np.abs(rng.normal(0.0, jitter, runs)))
    found *= 1.0 + (cold - 1.0) * np.exp(-np.arange(runs) / warm_up)
    found *= np.where(np.broadcast_to(beside, runs), slowdown, 1.0)
    hit = rng.random(runs) < interrupted
    made: Floats = found * np.where(hit, 1.0 + rng.uniform(0.5, 3.0, runs), 1.0)
    return made


def two_sides(
    comparisons: int, runs: int, seed: int, *, effect: float = 0.0, drift: float = 0.001, in_turns: bool = False
) -> tuple[Floats, Floats]:
    """Return generated timings of A and of B in many comparisons, on a machine whose speed drifts.

    Parameters
    ----------
    comparisons, runs : int
        How many comparisons, and how many runs of each side in one.
    seed : int
        Of the randomness.
    effect : float
        How much longer B takes than A: the truth; 0 is an A/A comparison.
    drift : float
        How much the machine's speed changes from one run to the next (a random walk, relative).
    in_turns : bool
        Whether A and B run in turns; else all runs of A come first.

    Returns
    -------
    tuple of (comparisons, runs) arrays
        Cycles of A, and of B.

    Examples
    --------
    >>> a, b = two_sides(3, 4, seed=1, effect=0.5, drift=0.0)
    >>> float((b / a).min()) > 1.4
    True
    """
    rng = np.random.default_rng(seed)
    speed = 1.0 + np.cumsum(rng.normal(0.0, drift, (comparisons, 2 * runs)), axis=1)
    level = 1000.0 * speed * (1.0 + rng.normal(0.0, 0.003, speed.shape))
    a, b = (level[:, 0::2], level[:, 1::2]) if in_turns else (level[:, :runs], level[:, runs:])
    return a, b * (1.0 + effect)


def _draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    tick, call = float(rng.integers(30, 121)), float(rng.integers(11, 26))
    calls = int(np.ceil(tick / (LIMIT * call)))
    cycles = float(rng.integers(400, 4000))
    runs = pd.Series(
        timings(
            cycles,
            120,
            part_seed(rng),
            cold=float(rng.uniform(5, 10)),
            warm_up=int(rng.integers(3, 6)),
            interrupted=float(rng.uniform(0.02, 0.05)),
        ),
        name="cycles (generated)",
    )
    passes, undisturbed = _passes(rng)
    settled = [judged.mean for judged in (judge_repetitions(p, TOLERANCE) for p in passes.to_numpy()) if judged.settled]
    itself, change, verdict = _compared(rng)
    answers = {
        "calls": Solution(
            calls,
            (
                Mistake(np.ceil(tick / call), "So many calls take one tick: an error of one tick is then all of it."),
                Mistake(np.ceil(call / (LIMIT * tick)), "A coarser clock needs more calls, and not fewer."),
            ),
        ),
        "warm": Solution(
            cycles,
            (
                Mistake(float(runs.mean()), "The mean has the cold calls and the interrupts in it. Draw the series."),
                Mistake(float(runs.iloc[0]), "That is the first, cold call."),
            ),
        ),
        "undisturbed": Solution(
            undisturbed,
            (
                Mistake(float(np.median(passes)), "The median is of the majority. What if most runs had a neighbour?"),
                Mistake(settled[0], "That pass has settled, but beside a neighbour? Do other passes agree with it?"),
                Mistake(
                    float(passes.to_numpy().min()),
                    "That run stands alone: no other one comes near. A run that moves to a processor with another "
                    "clock reads too little.",
                ),
            ),
        ),
        "verdict": Solution(
            verdict,
            tuple(
                Mistake(other, "How large are the differences between the program and itself, in 95 of 100 cases?")
                for other in _VERDICTS
                if other != verdict
            ),
        ),
    }
    return Drawn(Timed(tick, call, runs, passes, itself, change), answers)


def _passes(rng: np.random.Generator) -> tuple[pd.DataFrame, float]:
    """Return ten passes of five runs, most of them beside a neighbour, and what an undisturbed run takes.

    The first pass is beside the neighbour all the time, and so it settles. In one undisturbed pass a run was read on
    two processors, whose clocks differ, and shows too little.
    """
    cycles, slowdown = float(rng.integers(400, 4000)), float(rng.uniform(1.25, 1.7))
    kinds = ["beside", *rng.permutation(["quiet"] * 3 + ["beside"] * 4 + ["comes"] * 2)]
    beside = {"quiet": np.zeros(5, bool), "beside": np.ones(5, bool), "comes": np.arange(5) >= 2}
    rows = [
        timings(cycles, 5, part_seed(rng), beside=rng.permutation(beside[kind]), slowdown=slowdown, jitter=0.002)
        for kind in kinds
    ]
    rows[kinds.index("quiet")][rng.integers(5)] *= rng.uniform(0.5, 0.8)
    names = pd.Index(range(1, len(rows) + 1), name="pass")
    return pd.DataFrame(rows, index=names, columns=[f"run {k}" for k in range(1, 6)]), cycles


def _compared(rng: np.random.Generator) -> tuple["pd.Series[float]", float, str]:
    """Return differences of a program from itself, that of a new version, and what can be said of the latter."""
    a, b = two_sides(2 * _COMPARISONS, 30, part_seed(rng), drift=float(rng.uniform(0.0005, 0.003)))
    shown = np.median(b, axis=1) / np.median(a, axis=1) - 1.0
    itself, more = shown[:_COMPARISONS], shown[_COMPARISONS:]
    usual = float(np.quantile(np.abs(itself), 1 - ALARMS))
    verdict = str(rng.choice(_VERDICTS))
    if verdict == "cannot tell":  # one more A/A comparison, of a size that many would call a difference
        change = float(more[np.argmin(np.abs(np.abs(more) / usual - 0.6))])
    else:
        effect = float(rng.uniform(2.5, 4.0)) * usual
        change = (effect if verdict == "slower" else -effect) + float(more[np.argmin(np.abs(more))])
    return pd.Series(itself, name="relative difference of A from A (generated)"), change, verdict


UNIT = Unit(
    "unit3",
    "Measuring",
    "unit3_measuring.ipynb",
    "A time that was measured often enough, with little spread, is the time that the program takes.",
    (
        Exercise(
            "calls",
            2,
            "the fewest calls to time as one, a whole number",
            "A reading is wrong by up to one tick. That may be 1 % of what is timed, at most.",
        ),
        Exercise(
            "warm",
            2,
            "cycles of a warm call that nothing disturbs, a number",
            "Draw it; leave out the calls before it is level, and take a figure that few long calls do not move.",
            tolerance=0.015,
        ),
        Exercise(
            "undisturbed",
            3,
            "cycles of a run without a neighbour, a number",
            "Judge every pass by itself (drop its fastest and slowest run); then see which of them agree.",
            tolerance=0.015,
        ),
        Exercise(
            "verdict",
            3,
            "what the comparison says of the new version: slower, faster or cannot tell",
            "Answer slower, faster or cannot tell. The A/A comparisons say what is usual without any difference.",
        ),
    ),
    _draw,
)
