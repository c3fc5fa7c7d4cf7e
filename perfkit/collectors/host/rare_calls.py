"""What rare calls that take much longer add to the mean of a kernel, which the median of its samples leaves out.

An interrupt does the same to a sample: it adds some ten thousand cycles, every few milliseconds. Interrupts meet both
of two kernels that are sampled in turns in proportion to their time, and so change the ratio of the means by nothing on
average; a kernel's own rare calls change it. To see these a few hundred samples are too few, so the calls before each
sample, which bring back caches and branch predictors, are timed as well: the second half of them, each beside those at
the same place of the other rounds.
"""

import numpy as np
from numpy.typing import NDArray

SAMPLE, BEFORE, ITSELF = 1, 2, 4  # of a round, as timer.c has it: what waited for another program, and what gave way
_LONGER = 0.03  # than the middle one, relative, from which a call is one of the rare ones that take much longer
_QUARTILES = 4.0  # or so many times as much longer as a quarter of all takes


def added_by_rare(
    before: NDArray[np.float64], samples: NDArray[np.float64], waited: NDArray[np.int64], counts: NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Return what rare calls add to a kernel's mean in one process, relative to its median, and that mean.

    Parameters
    ----------
    before : (rounds, k) float64
        Cycles of what was called before each sample, in order; 0 where there was nothing.
    samples : (rounds,) float64
        Cycles of the samples.
    waited : (rounds,) int64
        Whether another program had the processor during the sample (`SAMPLE`) or the calls before it (`BEFORE`), which
        do not count here then.
    counts : (rounds,) bool
        Rounds in which the core was quiet (or steady).

    Returns
    -------
    added : float
        Mean over all calls of what the long ones take more than the middle one.
    mean : float
        Cycles of a call on average: of the samples that are none of the long ones, and what these add.
    looked : int
        How many samples, and calls before them, say this.

    Examples
    --------
    One of a hundred takes twice as long:

    >>> cycles = np.where(np.arange(100) % 100 == 7, 2000.0, 1000.0)
    >>> added_by_rare(np.zeros((100, 0)), cycles, np.zeros(100, dtype=int), np.full(100, True))
    (0.01, 1010.0, 100)
    """
    # What lies before a sample lies between it and the one of the round before.
    between = counts & np.concatenate([[False], counts[:-1]]) & (waited & BEFORE == 0)
    made = (before > 0).sum(axis=1)
    most = int(made.max(initial=0))
    parts = [samples[counts & (waited & SAMPLE == 0), None], before[between & (made == most), most // 2 : most]]
    parts = [part for part in parts if part.size]
    if not parts:
        return 0.0, float(samples[counts].mean()), 0
    more = np.concatenate([(part / np.median(part, axis=0) - 1).ravel() for part in parts])
    least = max(_LONGER, _QUARTILES * float(np.quantile(more, 0.75)))
    added = float(more[more > least].sum() / more.size)
    # What lies before samples may still warm up, and these alone are of calls as they go on.
    usual = samples[counts & (samples <= (1 + least) * np.median(samples[counts]))]
    return added, float(usual.mean()) * (1 + added), more.size


def share_waited(waited: NDArray[np.int64]) -> float:
    """Return the share of the rounds in which the kernel itself gave the processor up: it waits for something."""
    return float((waited & ITSELF != 0).mean())
