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

The chains were run on Zen 4, Zen 5, Cascade Lake and Golden Cove (Sapphire Rapids); for other cores the latencies are
those of https://uops.info and https://www.agner.org/optimize/, not tried.
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


CONTENTION = 0.10
"""By how much a busy neighbour on the core's other thread may slow a chain of additions; 3 % were seen."""


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
