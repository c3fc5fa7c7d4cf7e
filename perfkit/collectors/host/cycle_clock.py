"""The clock behind every cycle that perfkit measures without counters: a chain of dependent multiplications.

A dependent addition takes one cycle on any core. That finds, once a run, how many cycles a dependent multiplication
takes (a whole number, 3 on most), and a chain of those is the clock: it is timed before and after whatever is measured,
and where the two differ, the clock changed or something interrupted, and the sample is rejected. Additions alone make a
poor clock: they compete for ports with whatever else runs on the core's other thread (often another guest of the same
hypervisor), lose up to 3 % to it, and both chains lose alike, so that no rejection shows it. Multiplications do not.
"""

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import UnavailableError

CHAIN = 4096
"""Dependent instructions in a chain."""
QUANTILE = 0.10
"""Of the samples: low, because all disturbances add; not the minimum, which a clock that rises between the chain and
what is measured can pull too low."""
TOLERANCE = 0.02
"""By how much the chains before and after a sample may differ."""


def link_cycles(pairs: NDArray[np.int64]) -> int:
    """Find a multiplication's cycles from ticks of chains of additions and of multiplications, shape (n, 2).

    Undisturbed, the ratio is a whole number. Disturbances slow additions more, which makes it less, or interrupt one
    of the two: the whole number that most pairs come within 2 % of is taken, where a tenth of them do.

    Raises
    ------
    UnavailableError
        There is no such number: the machine is too busy.
    """
    ratios = pairs[:, 1] / np.maximum(pairs[:, 0], 1)
    near = {k: int(np.count_nonzero(np.abs(ratios - k) <= 0.02 * k)) for k in range(3, 10)}
    link = max(near, key=lambda k: near[k])
    if near[link] < max(1, len(pairs) // 10):
        raise UnavailableError(
            f"a dependent multiplication seems to take {np.median(ratios):.3f} additions, where a whole number was "
            "expected: this machine is too busy to measure cycles, or its core is of an unknown kind"
        )
    return link


def ticks_to_cycles(
    ticks: NDArray[np.int64], link: int, tolerance: float = TOLERANCE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Turn ticks of (chain before, what is measured, chain after), shape (n, 3), into cycles.

    Returns
    -------
    (cycles, rates)
        Cycles of each sample that was not rejected, and the ticks per cycle during it.
    """
    before, measured, after = ticks.T.astype(np.float64)
    good = (before > 0) & (after > 0) & (measured > 0)
    good &= np.maximum(before, after) <= (1 + tolerance) * np.maximum(np.minimum(before, after), 1)
    rates = (before[good] + after[good]) / (2 * CHAIN * link)
    return measured[good] / rates, rates
