"""The clock behind every cycle that perfkit measures without counters: a chain of dependent multiplications.

A multiplication of two registers takes the same whole number of cycles in every link of a chain, and no core is known
to shorten it: 3 cycles on Intel's large cores since Nehalem and on all of AMD's Zen, 5 on Intel's small ones. The
number is found once per process by comparing it with a chain of dependent additions of two registers, one cycle each.
(Additions of a constant would not do: Golden Cove executes these while renaming, in 0.2 cycles, as many cores do with
moves.) The chain of multiplications is then the clock: it is timed before and after whatever is measured, and where
the two differ, the clock rate changed or something interrupted, and the sample is rejected.

Additions themselves make a poor clock: they compete for ports with whatever else runs on the core's other thread
(often another guest of the same hypervisor), lose a few percent to it, and both chains lose alike, so that nothing is
rejected. Multiplications do not compete.

A chain does not notice a busy neighbour on the core's other hardware thread at all, though what is measured beside
one may take twice as long. Two **throughput probes** do, before and after every sample:

- *turns*: the shortest loop takes a cycle per turn, which its own addition bounds from below, and one and a half to two
  beside any thread that is awake, because the front end serves both in turns;
- *width*: thousands of independent additions take longer beside a thread that uses the same ports. How many a quiet
  core executes in a cycle depends on the core (4 on Zen 4, 4.7 on Golden Cove), so it is learnt on the spot: the 2nd
  percentile of the samples that the turns call quiet.

The first probe also tells where the clock itself is wrong. Golden Cove changes its rate at the first 256-bit and
512-bit floating-point instructions of what is measured, for some microseconds: both chains of a sample may run at the
one rate, and all between them at the other, a fifth faster. A turn then seems to take less than the cycle that it
needs. Such samples are rejected as not steady; before, they passed for the quiet core, and all others for busy ones.

Quiet samples count, and busy ones are reported. If no sample is quiet, the quiet core's speed is not known, and a
result must say so: see `judge`. (A core whose shortest loop takes two cycles per turn by itself never looks quiet here;
no x86-64 core with two hardware threads of the last ten years is known to be one.)

The chains and probes were run on Zen 4: samples beside a neighbour take 1.46 to 2.1 cycles per turn, quiet ones 0.99 to
1.05. Chains and probes of the same kind were run on Golden Cove (Sapphire Rapids), and the chains on Zen 5 and Cascade
Lake; for other cores the latencies are those of https://uops.info and https://www.agner.org/optimize/, not tried.
`clock.h` beside this file has the same clock for C programs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import UnavailableError

CHAIN = 4096
"""Dependent instructions in a chain."""
WIDTH, TURNS = 8192, 2048
"""Independent additions, and turns of the shortest loop, in a probe."""
QUANTILE = 0.10
"""Of the samples: low, because all disturbances add; not the minimum, which a clock that rises between the chain and
what is measured can pull too low."""
TOLERANCE = 0.02
"""By how much the chains before and after a sample may differ."""
STEP = 0.005
"""By how much the rate of a sample may differ from that of its neighbours for it to be the same."""
_AROUND = 9  # samples
AWAKE = 1.12
"""Cycles per turn of the shortest loop above which the core's other thread is awake."""
RUSHED = 0.97
"""Cycles per turn of the shortest loop below which the clock ran at another rate than what is between its readings."""
CROWDED = 1.08
"""Width, relative to that of the quiet core, above which the other thread uses the same ports."""
CONTENTION = 0.10
"""By how much a busy neighbour on the core's other thread may slow a chain of additions; 3 % were seen."""
SLEPT = 0.5
"""Probability that the thread slept between the two quiet probes of a sample, below which such samples do not count."""
SHARED = 2.0
"""How many times faster a quiet core may be than one whose threads are both at work: the lower end of an error bar."""


def link_cycles(pairs: NDArray[np.int64]) -> int:
    """Find a multiplication's cycles from ticks of chains of additions and of multiplications, shape (n, 2).

    Undisturbed, the ratio is a whole number. A neighbour on the core's other thread slows additions and not
    multiplications, possibly in every pair, which makes the ratio up to `CONTENTION` less; interruptions make it
    anything. So each pair counts for the whole number that it comes close to from below, and the number with the most
    pairs is taken, if it has a tenth of them and twice as many as any other.

    Raises
    ------
    UnavailableError
        There is no such number: the machine is too busy.
    """
    ratios = pairs[:, 1] / np.maximum(pairs[:, 0], 1)
    near = {k: int(np.count_nonzero((ratios >= (1 - CONTENTION) * k) & (ratios <= 1.02 * k))) for k in range(3, 8)}
    link, second = sorted(near, key=lambda k: near[k], reverse=True)[:2]
    if near[link] < max(1, len(pairs) // 10, 2 * near[second]):
        raise UnavailableError(
            f"a dependent multiplication seems to take {np.median(ratios):.3f} times as long as an addition, "
            "where a whole number was expected: this machine is too busy to measure cycles, or its core is of an "
            "unknown kind; try again on a quieter one"
        )
    return link


@dataclass(frozen=True)
class Judged:
    """What the clock says of n samples.

    Parameters
    ----------
    cycles : (n,) float64
        Cycles of each sample; NaN where it is not steady.
    rates : (n,) float64
        Ticks per cycle around each sample; NaN where it is not steady.
    quiet, busy : (n,) bool
        Steady samples during which the core's other hardware thread slept, or was at work. The rest was rejected: the
        clock rate changed, or something interrupted.
    width : float
        Cycles per independent addition on the quiet core; NaN where no sample was quiet.
    slept : float
        The probability that the thread slept in the middle of a sample that both probes call quiet, from how often one
        of a sample's probes is quiet and the other is not: p + (1 - p) phi, with p the share of quiet probes and phi
        the correlation of the two. Near 1 where it sleeps and works for long; near p where it comes and goes.
    """

    cycles: NDArray[np.float64]
    rates: NDArray[np.float64]
    quiet: NDArray[np.bool_]
    busy: NDArray[np.bool_]
    width: float
    slept: float

    @property
    def rejected(self) -> int:
        """The number of samples that are not steady."""
        return int(len(self.quiet) - np.count_nonzero(self.quiet | self.busy))

    def counted(self, least: int = 1) -> tuple[NDArray[np.bool_], bool]:
        """Return which samples count, and whether these are quiet: the quiet ones if there are `least`, else all.

        Nor do the quiet ones count where the thread was as likely as not at work between their two probes: of a kernel
        of 20 microseconds 4 % of the samples were quiet so, and took two thirds more than on a quiet core.
        """
        if np.count_nonzero(self.quiet) >= least and self.slept >= SLEPT:
            return self.quiet, True
        return self.quiet | self.busy, False


def judge(ticks: NDArray[np.int64], link: int, tolerance: float = TOLERANCE, width: float | None = None) -> Judged:
    """Judge samples that were taken between two readings of the clock: which count, and how many cycles they took.

    Call it once with all the samples of a figure, so that the quiet core's width is learnt from all of them.

    Parameters
    ----------
    ticks : (n, 7) int64
        Per sample: ticks of the chain, the width and the turns before; of what is measured; of the chain, the width and
        the turns after (`clock.h` reads them: ``pk_clock_before`` and ``pk_clock_after``).
    link : int
        Cycles of a dependent multiplication: `link_cycles`.
    tolerance : float
        By how much the two chains of a sample may differ.
    width : float, optional
        The quiet core's width where it is known from other samples of the same processor.

    Examples
    --------
    On a core of 4 additions per cycle and one tick per cycle, the second sample ran beside a busy thread:

    >>> quiet = [3 * CHAIN, WIDTH / 4, TURNS, 1000, 3 * CHAIN, WIDTH / 4, TURNS]
    >>> busy = [3 * CHAIN, WIDTH / 2, 2 * TURNS, 1700, 3 * CHAIN, WIDTH / 2, 2 * TURNS]
    >>> judged = judge(np.array([quiet, quiet, busy, quiet]), link=3)
    >>> judged.cycles.tolist(), judged.quiet.tolist()
    ([1000.0, 1000.0, 1700.0, 1000.0], [True, True, False, True])
    """
    values = np.asarray(ticks, dtype=np.float64)
    before, measured, after = values[:, :3], values[:, 3], values[:, 4:]
    first, last = before[:, 0], after[:, 0]
    steady = (first > 0) & (last > 0) & (measured > 0)
    steady &= np.maximum(first, last) <= (1 + tolerance) * np.minimum(first, last)
    rates = np.where(steady, (first + last) / (2 * CHAIN * link), np.nan)
    steady &= np.minimum(before[:, 2], after[:, 2]) >= RUSHED * TURNS * np.nan_to_num(rates)
    rates = np.where(steady, rates, np.nan)
    probes = np.stack([before[:, 1:], after[:, 1:]]) / rates[:, None] / (WIDTH, TURNS)
    asleep = steady & (probes[:, :, 1] <= AWAKE).all(axis=0)
    level = _quiet_level(probes[:, asleep, 0].max(axis=0)) if width is None else width
    each = (probes[:, :, 1] <= AWAKE) & (probes[:, :, 0] <= CROWDED * level)
    quiet = steady & each.all(axis=0)
    rates[steady] = _smoothed(rates[steady])
    cycles = np.where(steady, measured, np.nan) / rates
    return Judged(cycles, rates, quiet, steady & ~quiet, level, slept_between(each[:, steady]))


def _smoothed(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the clock rates of samples in order of time: the median of those around each, where it agrees with it.

    Of a counter that advances in steps (26 ticks in a guest of a Zen 5) each reading is up to a step off, 0.3 % of a
    chain; a low quantile of the cycles would take the samples whose chains happened to seem long.
    """
    if len(rates) < _AROUND:
        return rates
    padded = np.pad(rates, _AROUND // 2, mode="edge")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, _AROUND), axis=1)
    return np.where(np.abs(rates / around - 1) <= STEP, around, rates)


def slept_between(quiet: NDArray[np.bool_]) -> float:
    """Return `Judged.slept` of (2, n) flags: whether the probe before each sample is quiet, and the one after it."""
    share = float(quiet.mean()) if quiet.size else 0.0
    if share in {0.0, 1.0}:
        return share
    both = float(quiet.all(axis=0).mean())
    return share + (1 - share) * max(0.0, (both - share**2) / (share * (1 - share)))


def rough_cycles(ticks: NDArray[np.int64], link: int) -> NDArray[np.float64]:
    """Return the cycles of samples by their chains alone, as for `judge`, also of those that it would reject.

    They say how many calls a sample needs, on a machine where the first samples are all rejected, too.
    """
    values = np.maximum(np.asarray(ticks, dtype=np.float64), 1.0)
    return np.asarray(values[:, 3] * 2 * CHAIN * link / (values[:, 0] + values[:, 4]))


def _quiet_level(widths: NDArray[np.float64]) -> float:
    """Return the width of a quiet core: the 2nd percentile, if three samples and a twentieth of all are close to it."""
    if len(widths) < 3:
        return np.nan
    level = float(np.sort(widths)[len(widths) // 50])
    near = np.count_nonzero(widths <= CROWDED * level)
    return level if near >= max(3, len(widths) / 20) else np.nan


def interval(cycles: NDArray[np.float64], quantile: float, quiet: bool) -> tuple[float, float]:
    """Return an error bar of a quantile of cycles: where it lies with 95 % probability.

    From the order statistics of the samples, which count as independent. If they are not quiet, a quiet core may take
    as little as 1/`SHARED` of the lower end.
    """
    ordered = np.sort(cycles)
    n = len(ordered)
    half = 1.96 * np.sqrt(n * quantile * (1 - quantile))
    low = ordered[int(np.clip(np.floor(n * quantile - half), 0, n - 1))]
    high = ordered[int(np.clip(np.ceil(n * quantile + half), 0, n - 1))]
    return float(low if quiet else low / SHARED), float(high)
