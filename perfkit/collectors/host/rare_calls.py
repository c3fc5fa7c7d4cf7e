"""What rare calls that take much longer add to the mean of a kernel, which the median of its samples leaves out.

An interrupt does the same to a sample: it adds some ten thousand cycles, every few milliseconds. Interrupts meet both
of two kernels that are sampled in turns in proportion to their time, and so change the ratio of the means by nothing on
average; a kernel's own rare calls change it. To see these a few hundred samples are too few, so the calls before each
sample, which bring back caches and branch predictors, are timed as well: the second half of them, each beside those at
the same place of the other rounds.
"""

import numpy as np
from numpy.typing import NDArray

_LONGER = 0.03  # than the middle one, relative, from which a call is one of the rare ones that take much longer
_QUARTILES = 4.0  # or so many times as much longer as a quarter of all takes


def added_by_rare(before: NDArray[np.float64], samples: NDArray[np.float64], counts: NDArray[np.bool_]) -> float:
    """Return what rare calls add to a kernel's mean in one process, relative to its median.

    Parameters
    ----------
    before : (rounds, k) float64
        Cycles of what was called before each sample, in order; 0 where there was nothing, less where the processor was
        another program's meanwhile, or the kernel waited: such a round does not count here.
    samples : (rounds,) float64
        Cycles of the samples.
    counts : (rounds,) bool
        Rounds in which the core was quiet (or steady).

    Returns
    -------
    float
        Mean over all calls of what the long ones take more than the middle one.

    Examples
    --------
    One of a hundred takes twice as long:

    >>> cycles = np.where(np.arange(100) % 100 == 7, 2000.0, 1000.0)
    >>> added_by_rare(np.zeros((100, 0)), cycles, np.full(100, True))
    0.01
    """
    # What lies before a sample lies between it and the one of the round before.
    between = counts & np.concatenate([[False], counts[:-1]])
    most = int((before > 0).sum(axis=1).max(initial=0))
    whole = between & ((before > 0).sum(axis=1) == most) & bool(most) if (before != 0).any() else counts
    if not whole.any():
        return 0.0
    parts = [samples[whole, None], before[whole, most // 2 : most]]
    more = np.concatenate([(part / np.median(part, axis=0) - 1).ravel() for part in parts if part.size])
    least = max(_LONGER, _QUARTILES * float(np.quantile(more, 0.75)))
    return float(more[more > least].sum() / more.size)


def share_waited(before: NDArray[np.float64]) -> float:
    """Return the share of the rounds (see `added_by_rare`) in which the processor was not the kernel's all the time."""
    return float((before < 0).any(axis=1).mean())
