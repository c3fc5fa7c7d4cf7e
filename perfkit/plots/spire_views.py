"""Static picture of an exploration with SPIRE: a ranking beside one of its rooflines."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfkit.samples.areas import Areas
from perfkit.samples.table import Samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = (np.empty(0), np.empty(0), np.empty(0, dtype="int64"))


def sample_positions(samples: Samples | None, event: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return intensity and throughput of an event's samples, and their rows in the table.

    Samples that were not measured, and those with neither work nor events, have no place in a picture. The intensity
    of a sample without any of the event is infinity.
    """
    if samples is None or event not in samples.table["event"].cat.categories:
        return _NONE
    column = samples.table["event"]
    rows = np.flatnonzero(column.cat.codes.to_numpy() == column.cat.categories.get_loc(event))
    time, work, count = (samples.table[c].to_numpy()[rows] for c in ("time", "work", "count"))
    usable = (time > 0) & np.isfinite(work) & np.isfinite(count) & ((work > 0) | (count > 0))
    time, work, count = time[usable], work[usable], count[usable]
    with np.errstate(divide="ignore"):
        return work / count, work / time, rows[usable]


def on_bound(roofline: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the points that a roofline rests on, by index: those on it, and the Pareto front right of its peak."""
    if not len(x):
        return np.empty(0, dtype="int64")
    bound = np.asarray(roofline.bound(x))
    carrying = y >= bound * (1 - 1e-9)
    order = np.argsort(-x, kind="stable")
    best = np.maximum.accumulate(np.r_[-1.0, y[order][:-1]])
    front = order[y[order] > best]
    return np.union1d(np.flatnonzero(carrying), front[x[front] >= roofline.peak_intensity])


def plot_spire_exploration(
    model: Any,
    samples: Samples,
    ranking: Any,
    event: str,
    *,
    training: Samples | None = None,
    areas: Areas | None = None,
    top: int = 12,
    scale: Literal["log", "linear"] = "log",
) -> "Figure":
    """Draw a ranking beside the roofline of one of its events: the static picture of `SpireExplorer`.

    Parameters
    ----------
    model : SpireModel
    samples : Samples
        The analysed workload.
    ranking : Ranking
        Of these samples.
    event : str
        Whose roofline to draw.
    training : Samples, optional
        Drawn behind the roofline.
    areas : Areas, optional
        The shipped ones by default.
    top : int
        How many events the ranking shows.
    scale : "log" or "linear"
        Of the roofline's axes.
    """
    from matplotlib.figure import Figure

    from perfkit.plots.spire import plot_ranking, plot_roofline

    figure = Figure(figsize=(12, max(4.2, 1.2 + 0.27 * top)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    plot_ranking(ranking, top, areas, left)
    plot_roofline(model, event, training, samples, scale=scale, ax=right)
    return figure
