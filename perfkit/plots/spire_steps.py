"""Pictures that explain how SPIRE fits a roofline, step by step: the paper's Figures 5 and 6, of any samples."""

from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.fitters.spire.roofline import fit_roofline, pareto_front
from perfkit.plots.style import ACCENT, CLOUD, ROOF, SERIES, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THROUGHPUT, _INTENSITY = "throughput P (work per time)", "intensity I (work per event)"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def plot_sample(time: float, work: float, count: float, event: str = "event") -> "Figure":
    """Draw one sample: from time, work and count to throughput and intensity (SPIRE, section III-A).

    Parameters
    ----------
    time, work, count : float
        T, W and M_x of one interval; the count is above 0.
    event : str
        The name of x.
    """
    from matplotlib.figure import Figure

    P, I = work / time, work / count  # noqa: E741 - the paper's symbols
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.plot([0, I], [P, P], color=CLOUD, lw=1, ls=":")
    ax.plot([I, I], [0, P], color=CLOUD, lw=1, ls=":")
    ax.plot([0, I], [0, P], color=SERIES[1], lw=1.2)
    ax.plot([I], [P], "o", color=SERIES[0], ms=9)
    ax.annotate(f"P = W/T = {short(P)}", (0, P), (6, 5), textcoords="offset points", fontsize=10)
    ax.annotate(f"I = W/M = {short(I)}", (I, 0), (6, 6), textcoords="offset points", fontsize=10)
    slope = f"slope P/I = M/T = {short(count / time)}"
    ax.annotate(slope, (I / 2, P / 2), (8, -12), textcoords="offset points", fontsize=9, color=ACCENT)
    ax.set(xlim=(0, I * 1.6), ylim=(0, P * 1.4), xlabel=f"intensity I (work per {event})", ylabel=_THROUGHPUT)
    ax.set_title(f"time T = {short(time)}, work W = {short(work)}, count M = {short(count)}", fontsize=10, loc="left")
    return figure


def plot_left_steps(intensity: Any, throughput: Any) -> "Figure":
    """Draw the left part in three steps, as the paper's Figure 5: slopes from a point, the steepest, the whole hull."""
    from matplotlib.figure import Figure

    at, height = np.asarray(intensity, dtype="float64"), np.asarray(throughput, dtype="float64")
    hull = _left_corners(at, height)
    figure = Figure(figsize=(11, 3.3), layout="constrained")
    titles = (
        "1. From the origin, a slope to every sample",
        "2. Take the steepest; go on from there",
        "3. Until the sample with the highest throughput",
    )
    for step, ax in enumerate(figure.subplots(1, 3, sharey=True)):
        _cloud(ax, at, height)
        start = hull[min(step, len(hull) - 2)]
        if step < 2:
            ahead = (at > start[0]) & (height > start[1]) & (at <= hull[-1, 0])
            for x, y in zip(at[ahead], height[ahead], strict=True):
                ax.plot([start[0], x], [start[1], y], color=CLOUD, lw=0.8, zorder=1)
            done = hull[: step + 2]
        else:
            done = hull
        ax.plot(done[:, 0], done[:, 1], "-o", color=ROOF, lw=2, mfc="white", zorder=3)
        ax.set_title(titles[step], fontsize=10, loc="left")
        ax.set_xlabel(_INTENSITY)
        ax.set(xlim=(0, at.max() * 1.06), ylim=(0, height.max() * 1.15))
    figure.axes[0].set_ylabel(_THROUGHPUT)
    return figure


def plot_right_steps(intensity: Any, throughput: Any) -> "Figure":
    """Draw the right part, as the paper's Figure 6: the Pareto front, and the chain of chords that follows it best.

    Beside it stands the easiest valid answer, the horizontal line at the peak, with the squared error of each over the
    samples of the front.
    """
    from matplotlib.figure import Figure

    at, height = np.asarray(intensity, dtype="float64"), np.asarray(throughput, dtype="float64")
    roofline = fit_roofline(at, height)
    top = int(np.argmax(height))
    front = pareto_front(at, height, float(at[top]), float(height[top]))
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    on_paper = {"fontsize": 11, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.3}, "zorder": 4}
    for ax in (left, right):
        _cloud(ax, at, height)
        ax.plot(front[:, 0], front[:, 1], "o", color=SERIES[0], ms=7, zorder=3)
        for letter, (x, y) in zip(_LETTERS, front, strict=False):
            # On paper of its own: a line of the fit may cross it.
            ax.annotate(letter, (x, y), (5, 5), textcoords="offset points", fontweight="bold", **on_paper)
        ax.set(xlim=(0, at.max() * 1.2), ylim=(0, height.max() * 1.25), xlabel=_INTENSITY)
    left.step(front[:, 0], front[:, 1], where="pre", color=CLOUD, lw=1)
    left.set_title("The Pareto front: no other sample beats these in both axes", fontsize=10, loc="left")
    x = np.linspace(roofline.breakpoints[-1, 0] * 1e-3, at.max() * 1.2, 400)
    x = np.union1d(x, roofline.breakpoints[:, 0])
    right.plot(x, roofline.bound(x), color=ROOF, lw=2, zorder=2, label=f"best fit: error {_error(front, roofline)}")
    flat = float(((front[:, 1].max() - front[:, 1]) ** 2).sum())
    right.axhline(front[:, 1].max(), color=ACCENT, ls="--", lw=1.2, label=f"horizontal line: error {short(flat)}")
    for px, py in front:
        right.plot([px, px], [py, float(roofline.bound(px))], color=SERIES[0], lw=1.2)
    figure.legend(*right.get_legend_handles_labels(), fontsize=9, loc="outside lower right", ncols=2)
    right.set_title("The best valid chain above them", fontsize=10, loc="left")
    left.set_ylabel(_THROUGHPUT)
    return figure


def _error(front: np.ndarray, roofline: Any) -> str:
    return short(float(((roofline.bound(front[:, 0]) - front[:, 1]) ** 2).sum()))


def _left_corners(at: np.ndarray, height: np.ndarray) -> np.ndarray:
    corners = np.asarray(fit_roofline(at, height).breakpoints)
    peak = int(np.argmax(corners[:, 1]))
    return corners[: peak + 1]


def _cloud(ax: "Axes", at: np.ndarray, height: np.ndarray) -> None:
    ax.plot(at, height, "o", color=CLOUD, ms=5, zorder=2)
    ax.grid(color="#e4e4e4", lw=0.6)
