"""Pictures of how well methods found what is known of simulated runs."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.errors import SettingError
from perfkit.plots.style import CLOUD, ROOF, SERIES, axes_or_new, cut_apart, mark_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.simulators.pmu.truth import Truth


def plot_measures(measures: pd.DataFrame, ax: Any = None, *, xlabel: str = "share of runs") -> "Axes":
    """Draw measures as bars with their intervals, and their baselines as marks.

    Parameters
    ----------
    measures : DataFrame
        One row per bar (index: its label): score, low, high, and any further columns, each a mark of its own, named by
        the column: ``random order``, ``one answer for all``.
    ax : Axes, optional
        Where to draw.
    xlabel : str
        What the bars are shares of.
    """
    lacking = [c for c in ("score", "low", "high") if c not in measures.columns]
    if lacking:
        raise SettingError(f"measures need the columns score, low and high; {', '.join(lacking)} not found")
    axes = axes_or_new(ax, 7.5, 0.9 + 0.42 * len(measures))
    at = np.arange(len(measures))[::-1]
    axes.barh(at, measures["score"], color=SERIES[0], height=0.6, label="the method")
    reach = [(measures["score"] - measures["low"]).clip(lower=0), (measures["high"] - measures["score"]).clip(lower=0)]
    axes.errorbar(measures["score"], at, xerr=reach, fmt="none", ecolor=ROOF, capsize=3, lw=1)
    others = [c for c in measures.columns if c not in ("score", "low", "high")]
    for column, marker, colour in zip(others, "|xo", (ROOF, SERIES[1], SERIES[2]), strict=False):
        axes.plot(measures[column], at, marker, color=colour, ms=11 if marker == "|" else 7, mew=2, label=column)
    axes.set_yticks(at, [textwrap.fill(str(name), 40) for name in measures.index], fontsize=9)  # room for the bars
    axes.set_xlabel(xlabel)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    mark_kind(axes, "simulated")
    return axes


def plot_truth(truth: "Truth", ax: Any = None, *, most: int = 30, causes: int = 8) -> "Axes":
    """Draw the exact CPI stacks of the first ``most`` simulated runs as bars, small causes as "others"."""
    stack = truth.stack.iloc[:most]
    axes = axes_or_new(ax, 7.5, 1.2 + 0.26 * len(stack))
    largest = list(truth.stack.sum().sort_values(ascending=False).index[:causes])
    table = stack[largest].assign(others=stack.drop(columns=largest).sum(axis=1))
    at, left = np.arange(len(table))[::-1], np.zeros(len(table))
    for k, name in enumerate(table.columns):
        colour = CLOUD if name == "others" else SERIES[k % len(SERIES)]
        hatch = "//" if k >= len(SERIES) and name != "others" else None
        axes.barh(at, table[name], left=left, height=0.7, color=colour, hatch=hatch, label=str(name))
        left = left + table[name].to_numpy()
    axes.set_yticks(at, cut_apart([str(run) for run in table.index], 40), fontsize=8)
    axes.set_xlabel(f"cycles per instruction on {truth.core}, by cause")
    if len(truth.stack) > most:
        axes.set_title(f"first {most} of {len(truth.stack)} runs", fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    mark_kind(axes, "simulated")
    return axes
