"""Pictures of `perfkit.fitters.bottlenecks`."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd

from perfkit.plots.cpi_stack import BASE_COLOUR
from perfkit.plots.style import AREA_COLOURS, SERIES, THIN, cut_apart, name_rows

if TYPE_CHECKING:
    from perfkit.fitters.bottlenecks.explanation import Explanation
    from perfkit.fitters.bottlenecks.stacks import LearntStacks

_RUNS = 12
# As in fitted stacks and in areas of events, where there is the same thing; the rest in colours that none of these has.
_PARTS = {
    "base": BASE_COLOUR,
    "misprediction": AREA_COLOURS["bad speculation"],
    "store forwarding": AREA_COLOURS["core"],
    "L2": SERIES[4],
    "L3": SERIES[5],
    "memory": AREA_COLOURS["memory"],
    "full buffers": SERIES[0],
}
_MARKS = "oooooosss"  # colours repeat after six classes


def plot_explanation(found: "Explanation", ax: Any = None) -> Any:
    """Draw each run's probabilities as points on one line, the likeliest classes; return the axes.

    Each class's probability is calibrated by itself, so a run's need not add up to one: they are not stacked.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4))
    wide = found.runs.pivot(index="run", columns="resource", values="probability").fillna(0.0)
    wide = wide.reindex(list(dict.fromkeys(found.runs["run"])))[:_RUNS]
    likeliest = wide.max().sort_values(ascending=False).head(9).index
    for place, name in enumerate(likeliest):
        ax.plot(wide[name], range(len(wide)), _MARKS[place], color=SERIES[place % len(SERIES)], ms=7, label=name)
    name_rows(ax, [str(run) for run in wide.index])
    ax.grid(axis="y", alpha=0.4)
    ax.set_xlim(-0.03, 1.03)
    ax.invert_yaxis()
    more = f", first {_RUNS} of {found.runs['run'].nunique()} runs" if found.runs["run"].nunique() > _RUNS else ""
    ax.set_xlabel("probability of being the first bottleneck")
    ax.set_title(f"bottlenecks on {found.core} ({found.kind} samples{more})", fontsize=10)
    if len(likeliest):
        ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plot_learnt_stacks(found: "LearntStacks", ax: Any = None) -> Any:
    """Draw each run's stack as one bar, named with its verdict; return the axes.

    The legend names the parts that can be seen in one of the bars (`THIN`).
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4))
    shown = found.runs.head(_RUNS)
    runs = cut_apart([str(run) for run in shown["run"]], 30)
    names = [f"{run}\n({verdict})" for run, verdict in zip(runs, shown["verdict"], strict=True)]
    left = pd.Series(0.0, index=shown.index)
    least = THIN * shown[list(found.components)].sum(axis=1).max()
    for part in found.components:
        seen = shown[part].max() >= least
        ax.barh(range(len(names)), shown[part], left=left, color=_PARTS.get(part), label=part if seen else None)
        left += shown[part]
    ax.set_yticks(range(len(names)), names)
    ax.set_xlim(0, 1.05 * left.max())
    ax.invert_yaxis()
    more = f", first {_RUNS} of {len(found.runs)} runs" if len(found.runs) > _RUNS else ""
    ax.set_xlabel("cycles per instruction")
    ax.set_title(f"CPI stacks on {found.core}, learnt on other programs ({found.kind} samples{more})", fontsize=10)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
