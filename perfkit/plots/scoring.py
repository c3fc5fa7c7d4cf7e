"""Pictures of how well methods found what is known of simulated runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.errors import SettingError
from perfkit.plots.style import CLOUD, ROOF, SERIES, axes_or_new, mark_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfkit.simulators.pmu.truth import Truth

VERDICTS = {"supported": SERIES[0], "uncertain": SERIES[4], "unsupported": CLOUD}


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
    axes.set_yticks(at, list(measures.index))
    axes.set_xlabel(xlabel)
    axes.legend(fontsize=8, loc="best", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    mark_kind(axes, "simulated")
    return axes


def plot_hits(tables: Mapping[str, pd.DataFrame], ax: Any = None, *, most: int = 20) -> "Axes":
    """Draw the share of runs in which a right event is among the first k, for each k.

    Parameters
    ----------
    tables : mapping of label to DataFrame
        Tables of `perfkit.scoring.spire_scores`; beside each stands the mean chance of a random order.
    ax : Axes, optional
        Where to draw.
    most : int
        The largest k.
    """
    from perfkit.scoring.ranks import chance_of_hit

    axes = axes_or_new(ax, 6.5, 3.6)
    ks = np.arange(1, most + 1)
    for (label, table), colour in zip(tables.items(), SERIES, strict=False):
        hits = [float(table["first"].between(1, k).mean()) for k in ks]
        sizes = list(zip(table["events"].astype(int), table["right"].astype(int), strict=True))
        chance = [float(np.mean([chance_of_hit(n, m, int(k)) for n, m in sizes])) for k in ks]
        axes.plot(ks, hits, "o-", color=colour, ms=4, label=label)
        axes.plot(ks, chance, "--", color=colour, lw=1, label=f"{label}: random order")
    axes.set(xlabel="events looked at, from the top of the ranking (number)", ylabel="runs with a right one (share)")
    axes.set(ylim=(0, 1.02), xlim=(0.5, most + 0.5), xticks=ks[:: max(1, most // 10)])
    axes.legend(fontsize=8, frameon=False, loc="lower right")
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
    axes.set_yticks(at, [str(run) for run in table.index], fontsize=8)
    axes.set_xlabel(f"cycles per instruction on {truth.core}, by cause")
    if len(truth.stack) > most:
        axes.set_title(f"first {most} of {len(truth.stack)} runs", fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    mark_kind(axes, "simulated")
    return axes


def plot_components(table: pd.DataFrame, components: tuple[str, ...]) -> "Figure":
    """Draw each component's share of the CPI as the regression has it against the exact one, one point per run.

    Parameters
    ----------
    table : DataFrame
        Of `perfkit.scoring.stack_scores`.
    components : tuple of str
        Which, a panel each.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(components), figsize=(2.6 * len(components), 3.0), layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], components, strict=True):
        for verdict, colour in list(VERDICTS.items())[::-1]:
            part = table[table["verdict"] == verdict]
            x, y = part[f"true:{name}"] / part["cpi"], part[f"fitted:{name}"] / part["cpi"]
            axes.plot(x, y, "o", color=colour, ms=4, alpha=0.8, label=verdict)
        axes.axline((0, 0), slope=1, color=ROOF, lw=0.8)
        axes.set(title=name, xlabel="exact share", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("share by regression")
    handles, labels = panels[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, title="verdict", fontsize=8, frameon=False, loc="outside right upper")
    figure.suptitle("SIMULATED data: counts of a model, not of a processor", fontsize=8, color="#B34700")
    return figure
