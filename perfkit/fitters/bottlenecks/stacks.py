"""CPI stacks of other programs as a model of this one's: `perfkit.Bottlenecks.stacks`.

A regression (`perfkit.CpiStack`) asks one program's intervals what each event costs, and needs intervals that differ.
Here a forest goes from shares of capacity to the shares of cycles, learnt on simulated runs whose exact stack is known:
one row of counts is enough. How far its trees are apart says how far the stack is off.

What was not counted is not zero: such rows are completed as for `perfkit.Bottlenecks.explain`
(`perfkit.fitters.bottlenecks.alike`), and how far the stacks of these ways are apart counts, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.base.results import Tabled, draw, expect_shown
from perfkit.fitters.bottlenecks.alike import Completed
from perfkit.fitters.bottlenecks.doubts import as_said
from perfkit.fitters.bottlenecks.explanation import rows_of_run
from perfkit.fitters.bottlenecks.features import NAMES, needed, without_loads
from perfkit.fitters.bottlenecks.forest import Forest
from perfkit.machine.core import Microarchitecture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUPPORTED, UNCERTAIN = 0.08, 0.20  # expected shares of the cycles in the wrong place
# The classes of resources (perfkit.machine.classes) whose events tell a component apart.
CLASSES_OF = {
    "misprediction": ("mispredicted branches",),
    "store forwarding": ("store forwarding",),
    "L2": ("L2",),
    "L3": ("L3",),
    "memory": ("memory latency", "memory bandwidth"),
    "full buffers": ("reorder buffer", "load buffer", "store buffer", "line fill buffers"),
}
# The shares of the cycles that a component's own events take, and so much less is a contradiction.
_EVIDENCE = {
    "misprediction": ("mispredicted branches: branch-misses",),
    "memory": ("memory latency: exec.0.pending.l3", "memory latency: l3.misses"),
}
_APART, _LEAST = 0.15, 0.5  # a restart may take half of what the core's file says, and waits pass beside other things
_LINES = 4
_HALVINGS = 30


@dataclass(frozen=True, eq=False, repr=False)
class LearntStacks(Tabled):
    """A CPI stack for each run.

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> found = pk.Bottlenecks.load("zen4").stacks(samples)
    >>> float(found.of("divider").sum() - found.runs["cpi"][0]) < 1e-9
    True

    Attributes
    ----------
    runs : DataFrame
        One row per run: run, cpi, then the cycles per instruction of the base and of each component (their sum is the
        cpi), distance (the share of the cycles that is expected to be in the wrong place, calibrated on held-out
        simulated kernels, and what events of what is not modelled take), missing (the components of which no telling
        event was counted) and verdict (``"supported"`` where nothing is missing and distance is at most 0.08,
        ``"uncertain"`` up to 0.20, ``"unsupported"`` beyond, and where a component is missing or there is a doubt),
        doubt (what no such core can do, or why the counts are of another) and against (to what the counts alone give
        far more of the cycles than the stack does, half of it 0.15 more: such a stack is not supported).
    core, trained_on : str
        The core's name; the digest of the training data.
    kind : str
        Of the samples.
    """

    _rows: ClassVar[str] = "runs"

    runs: pd.DataFrame
    core: str
    trained_on: str
    kind: str

    @property
    def components(self) -> list[str]:
        """The base and the components, in the order of the table."""
        return [str(name) for name in self.runs.columns[2 : self.runs.columns.get_loc("distance")]]

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of `runs`."""
        return self.runs.copy()

    def of(self, run: str) -> pd.Series:
        """Return one run's components, in cycles per instruction.

        Raises
        ------
        SettingError
            There is no such run.
        """
        return rows_of_run(self.runs, run).iloc[0][self.components].astype(float)

    def summary(self) -> str:
        """Say, for the first runs, what their cycles go to, and how far that can be trusted."""
        source = "" if self.kind == "simulated" else f" ({self.kind} data; the model was learnt on simulated runs only)"
        lines = [f"CPI stacks of {len(self.runs)} runs on {self.core}, learnt on other programs{source}"]
        for row in self.runs.head(_LINES).to_dict("records"):
            largest = sorted(self.components, key=lambda name: -row[name])[:3]
            parts = ", ".join(f"{name} {row[name] / row['cpi']:.0%}" for name in largest)
            doubt = f"{row['distance']:.0%} of the cycles are expected in the wrong place"
            doubt += f", and no event tells {row['missing']}" if row["missing"] else ""
            doubt += f"; {row['against']}" if row.get("against") else ""
            doubt = as_said(row["doubt"], self.core) if row.get("doubt") else doubt
            doubt = f"{row['verdict']}: {doubt}"
            lines.append(f"{row['run']}: CPI {row['cpi']:.3f}, {parts}; {doubt}")
        return "\n".join([*lines, *([f"and {len(self.runs) - _LINES} more runs"] if len(self.runs) > _LINES else [])])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw one bar for each run; return the axes."""
        expect_shown(len(self.runs), "no run has a stack")
        return draw("bottlenecks:plot_learnt_stacks", self, ax=ax)


def telling(component: str, core: Microarchitecture) -> tuple[str, ...]:
    """Return the events by any of which a component can be told; none are needed for the base."""
    return tuple(dict.fromkeys(event for name in CLASSES_OF.get(component, ()) for event in needed(name, core)))


def stacks_of(
    forest: Forest,
    parts: Iterable[Completed],
    cpi: NDArray[np.float64],
    runs: list[str],
    missing: list[str] | None = None,
    elsewhere: NDArray[np.float64] | float = 0.0,
) -> pd.DataFrame:
    """Return the table of `LearntStacks`.

    Parameters
    ----------
    forest : Forest
        Its outputs are the roots of the shares of cycles; its levels go from the trees' spread to the distance.
    parts : iterable of Completed
        The features of all runs, each in one way or in several.
    cpi : (runs,) float64
        Cycles per instruction.
    runs : list of str
        Their names.
    missing : list of str, optional
        For each run, the components of which no telling event was counted; by default nothing is missing.
    elsewhere : (runs,) float64
        The share of the cycles that goes to what no component stands for: it is in a wrong place.
    """
    shares, spread = np.zeros((len(runs), len(forest.outputs))), np.zeros(len(runs))
    for part in parts:
        shares[part.rows], spread[part.rows] = shares_in_ways(forest, part)
    distance = np.interp(spread, *forest.levels)
    lacks = np.array(missing or [""] * len(runs), dtype=object)
    distance = np.minimum(distance + elsewhere, 1.0)
    verdict = np.where(distance <= SUPPORTED, "supported", np.where(distance <= UNCERTAIN, "uncertain", "unsupported"))
    verdict = np.where(lacks == "", verdict, "unsupported")
    found = {"run": runs, "cpi": cpi}
    found |= {str(name): shares[:, k] * cpi for k, name in enumerate(forest.outputs)}
    return pd.DataFrame({**found, "distance": distance, "missing": lacks, "verdict": verdict})


def against(table: pd.DataFrame, shares: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """Return, for each stack, to what its counts alone give far more of the cycles than it does, in words; else "".

    Simulated runs have such stacks: restarts and waits may pass beside other things, and full buffers hold back what
    waits for memory. Of other programs it is not told, so that no such stack is supported.

    Parameters
    ----------
    table : DataFrame
        Of `stacks_of`.
    shares : mapping of feature to (rows,) float
        Shares of capacity, in the order of the table.
    """
    told: list[list[str]] = [[] for _ in range(len(table))]
    for part, evidence in _EVIDENCE.items():
        alone = np.minimum(np.fmax.reduce([shares[feature] for feature in evidence]), 1.0)
        given = (table[part] / table["cpi"]).to_numpy(dtype=float)
        for row in np.flatnonzero(_LEAST * alone - given > _APART):
            told[row].append(f"its counts alone give {part} {alone[row]:.0%} of the cycles, the stack {given[row]:.0%}")
    return ["; ".join(each) for each in told]


def shares_in_ways(forest: Forest, part: Completed) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares of cycles (rows, outputs), the mean of all ways, and the mean distance from them (rows,).

    The distance is that of every tree in every way: events that were not counted widen it as far as they matter.
    """
    rows, ways = part.x.shape[:2]
    flat, names = part.x.reshape(rows * ways, -1), list(forest.outputs)
    each = np.array(list(forest.each(flat)))
    if "store forwarding" in names and len(forest.features) == len(NAMES):  # to a load: without loads, there is none
        each[:, without_loads(flat), names.index("store forwarding")] = 0.0
    wholes = _whole(each)
    shares = (_nearest(wholes).reshape(rows, ways, -1) * part.weight[:, :, None]).sum(axis=1)
    away = 0.5 * np.abs(wholes.reshape(len(each), rows, ways, -1) - shares[None, :, None]).sum(axis=3)
    return shares, (away * part.weight).sum(axis=2).mean(axis=0)


def shares_of(forest: Forest, x: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `shares_in_ways` of rows of which everything is known, (rows, features)."""
    return shares_in_ways(forest, Completed.of(x))


def _nearest(wholes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, of all shares with the sum of 1, those nearest to the trees' on average, from (trees, rows, outputs).

    The mean distance from the trees is the least where every share is the same quantile of what the trees say of it:
    the one at which they sum to 1. It lies near the median, so that few trees far off do not count.
    """
    ordered = np.sort(wholes, axis=0)
    rows = np.arange(wholes.shape[1])
    low, high = np.zeros(len(rows)), np.full(len(rows), len(wholes) - 1.0)

    def at(place: NDArray[np.float64]) -> NDArray[np.float64]:
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, len(wholes) - 1)
        part = (place - below)[:, None]
        return np.asarray(ordered[below, rows] * (1.0 - part) + ordered[above, rows] * part)

    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        less = at(middle).sum(axis=1) < 1.0
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    found = at(0.5 * (low + high))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _whole(roots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares from their roots, with the sum of 1."""
    squares = np.square(roots)
    return np.asarray(squares / squares.sum(axis=-1, keepdims=True))
