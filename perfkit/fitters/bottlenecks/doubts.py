"""Counts that no such core can have: more than its capacity, or more misses than there is anything to miss.

Then counts are not of one scale, not of one program, or not of this core, and nothing that follows from them holds.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.fitters.bottlenecks.features import PORTS
from perfkit.samples.table import Samples

# A share of what cannot be exceeded: by so much counters may be apart, and by so much where they ran in turns; more,
# the fewer looks a count is scaled up from (of simulated runs counted 0.1 of the time, none is beyond 8).
_APART, _IN_TURNS, _SCALED = 1.25, 2.0, 0.8
_SHARED = 0.95  # of the time: counters that ran less were scaled up
_CYCLES = (
    *(f"exec.{n}" for n in ("0", "1", "2", "3+", "0.pending.l1", "0.pending.l2", "0.pending.l3")),
    *(f"retired.{n}" for n in ("0", "1", "2", "3+")), "pending.l1", "pending.l2", "pending.l3", "pending.l3.4+",
    "full.rob", "full.load_buffer", "full.store_buffer", "full.scheduler",
)  # fmt: skip
# Feature -> what it is a share of, and how often that share may be had: instructions that are fused take one place of
# the width for two (1.8 in simulated runs), and memory differs from one machine to the next.
_MOST: dict[str, tuple[str, float]] = {
    "pipeline width: uops": ("the width of the front end (uops)", 1.0),
    "instructions of the width": ("the width of the front end (instructions)", 2.4),
    "mispredicted branches: branch-misses": ("the cycles would restart (branch-misses)", 1.0),
    "misses a branch": ("the branches would be mispredicted", 1.0),
    "memory bandwidth: lines.memory": ("the memory bandwidth (lines.memory)", 2.4),
    "lines from L3": ("the bandwidth of L3 (lines)", 1.6),
    "lines from L2": ("the bandwidth of L2 (lines)", 1.6),
    **{f"{name}: ports": (f"the cycles of the busiest {name}", 1.0) for name in PORTS},
    **{f"share: {event}": (f"the cycles ({event})", 1.0) for event in _CYCLES},
}


def impossible_shares(shares: Mapping[str, NDArray[np.float64]], running: NDArray[np.float64]) -> list[tuple[str, ...]]:
    """Return, for each row, what no core can do, in words.

    Parameters
    ----------
    shares : mapping of feature to (rows,) float
        Shares of capacity (`perfkit.fitters.bottlenecks.features.features`).
    running : (rows,) float
        The share of the time in which events were counted: estimates may be more than there is.
    """
    found: list[list[str]] = [[] for _ in running]
    scaled = np.maximum(_IN_TURNS, _SCALED / np.maximum(running, 1e-9))
    for feature, (words, often) in _MOST.items():
        most = often * np.where(in_turns(running), scaled, _APART)
        for row in np.flatnonzero(shares[feature] > most):
            found[row].append(f"{shares[feature][row]:.0%} of {words}")
    return [tuple(each) for each in found]


def share_counted(samples: Samples, index: pd.Index) -> NDArray[np.float64]:
    """Return the mean share of the time in which each run's events were counted, as far as it is known; else 1."""
    table = samples.table[samples.table["count"].notna()]
    share = table.groupby(table["run"].astype(str), observed=True)["running"].mean()
    return np.nan_to_num(share.reindex(index.astype(str)).to_numpy(dtype=float), nan=1.0)


def in_turns(running: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where counters ran in turns, so that counts are scaled up."""
    return running < _SHARED
