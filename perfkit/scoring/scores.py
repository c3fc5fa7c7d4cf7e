"""What a scoring returns, whatever the method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Kind, Tabled, draw
from perfkit.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWS = 200  # bootstrap draws of workloads
_LEVEL = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Tabled):
    """How well a method found what is known of simulated runs.

    Attributes
    ----------
    method : str
        What was scored.
    table : DataFrame
        One row per run (index) that could be scored.
    measures : DataFrame
        One row per measure (index): ``score``, ``low`` and ``high`` (95 % of bootstrap draws of whole workloads: their
        runs are no independent witnesses), ``baseline`` (what it would be without the method), ``against`` (what that
        baseline is), ``runs`` and ``workloads`` (over how many).
    left_out : mapping of str to tuple of str
        Reason -> runs that could not be scored.
    """

    _rows: ClassVar[str] = "table"

    method: str
    table: pd.DataFrame
    measures: pd.DataFrame
    left_out: Mapping[str, tuple[str, ...]]

    @property
    def kind(self) -> Kind:
        """``"simulated"``: the truth is that of a simulator."""
        return "simulated"

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of runs."""
        return self.table.copy()

    def summary(self) -> str:
        """Say how often the method was right, with the intervals and what would be without it."""
        left_out = "".join(f"; left out, {reason}: {len(runs)}" for reason, runs in self.left_out.items())
        lines = [f"{self.method} on {len(self.table)} simulated runs{left_out}"]
        lines += [
            f"{name}: {row.score:.3f} ({row.low:.3f} to {row.high:.3f}), {row.against}: {row.baseline:.3f}"
            for name, row in self.measures.head(6).iterrows()
        ]
        return "\n".join([*lines, *([f"and {len(self.measures) - 6} more measures"] if len(self.measures) > 6 else [])])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the measures as bars with their intervals and baselines; return the axes."""
        label = "score (share, or what the measure counts)"
        shown = self.measures[["score", "low", "high", "baseline"]]
        return draw("scoring:plot_measures", shown, ax=ax, xlabel=label)


@dataclass(frozen=True)
class Measure:
    """One figure of a table of runs.

    Parameters
    ----------
    name : str
        What it is called.
    score, baseline : function of the table
        The figure, and what it would be without the method.
    against : str
        What the baseline is.
    """

    name: str
    score: Callable[[pd.DataFrame], float]
    baseline: Callable[[pd.DataFrame], float]
    against: str


def mean(column: str) -> Callable[[pd.DataFrame], float]:
    """Return the function that gives a column's mean."""
    return lambda table: float(table[column].mean())


def zero(_table: pd.DataFrame) -> float:
    """Return 0: the baseline of measures that are 0 for what knows nothing."""
    return 0.0


def scores(
    method: str,
    rows: Mapping[str, Mapping[str, object]],
    workload: pd.Series,
    measures: Callable[[pd.DataFrame], list[tuple[Measure, pd.DataFrame]]],
    left_out: Mapping[str, list[str]],
    seed: int = 0,
) -> Scores:
    """Put the rows of runs and the figures over them together.

    Parameters
    ----------
    method : str
        What was scored.
    rows : mapping of run to row
        The runs that could be scored.
    workload : Series
        What each run is a run of.
    measures : function
        Of the table of runs: each measure with the part of the table that it is taken over.
    left_out : mapping of str to list of str
        Reason -> runs.
    seed : int
        Of the bootstrap.

    Raises
    ------
    DataError
        No run could be scored.
    """
    noted = {reason: tuple(runs) for reason, runs in left_out.items() if runs}
    if not rows:
        raise DataError(f"no run can be scored for {method}: " + "; ".join(f"{r}: {len(n)}" for r, n in noted.items()))
    table = pd.DataFrame.from_dict(dict(rows), orient="index").rename_axis("run")
    table.insert(0, "workload", workload.reindex(table.index))
    lines = {}
    for measure, part in measures(table):
        low, high = _spread(measure, part, seed)
        lines[measure.name] = {
            "score": measure.score(part),
            "low": low,
            "high": high,
            "baseline": measure.baseline(part),
            "against": measure.against,
            "runs": len(part),
            "workloads": part["workload"].nunique(),
        }
    measured = pd.DataFrame.from_dict(lines, orient="index").rename_axis("measure")
    return Scores(method, table, measured, noted)


def _spread(measure: Measure, part: pd.DataFrame, seed: int) -> tuple[float, float]:
    """Return the ends of the bootstrap interval of a measure, drawing whole workloads."""
    places = [np.flatnonzero(part["workload"] == name) for name in dict.fromkeys(part["workload"])]
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(DRAWS):
        drawn = rng.integers(0, len(places), len(places))
        found.append(measure.score(part.iloc[np.concatenate([places[k] for k in drawn])]))
    ends = np.nanquantile(found, [0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2]) if np.isfinite(found).any() else (np.nan, np.nan)
    return float(ends[0]), float(ends[1])
