"""Pictures of basic blocks: the cycles of many, looped beside unrolled."""

from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.plots.style import SERIES, axes_or_new, mark_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_blocks(result: Any, ax: Any = None) -> "Axes":
    """Draw how many of the blocks take so many cycles at most, looped and unrolled.

    Parameters
    ----------
    result : BlockCycles or BlockPredictions
        The blocks.
    ax : matplotlib axes, optional
        Where to draw.
    """
    axes = axes_or_new(ax, 7, 3.6)
    table = result.to_frame()
    for k, mode in enumerate(("looped", "unrolled")):
        cycles = np.sort(table[mode].dropna().to_numpy())
        label = f"{mode} ({len(cycles):,} of {len(table):,} blocks)"
        axes.step(
            cycles, np.arange(1, len(cycles) + 1) / max(len(cycles), 1), where="post", color=SERIES[k], label=label
        )
    axes.set(xscale="log", xlabel="cycles of a block", ylabel="share of the blocks", ylim=(0, 1.02))
    axes.set_title("Basic blocks in their steady state")
    mark_kind(axes, result.kind)
    axes.legend(fontsize=8, frameon=False)
    return axes
