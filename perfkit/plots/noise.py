"""Pictures of noise: slowdown against added instructions, measured and simulated."""

from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.plots.style import ROOF, SERIES, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfkit.diagnosis.noise_result import NoiseResult

_MARKS = "os^Dv<>P"
SLACK = {"none": "no slack", "some": "some", "plenty": "plenty", "cannot tell": "cannot tell"}
HIGHEST = 4.0
"""Slowdowns above this one are beyond the picture's edge."""


def plot_noise(result: "NoiseResult", kinds: list[str] | None = None, ax: Any = None) -> "Axes":
    """Draw the curves of some kinds of noise.

    Parameters
    ----------
    result : NoiseResult
        What to draw.
    kinds : list of str, optional
        Which curves; all by default.
    ax : Axes, optional
        Where to draw.
    """
    axes = axes_or_new(ax, 8, 4.6)
    shown = list(kinds or result.kinds)
    for k, kind in enumerate(shown):
        curve, colour = result.curve(kind), SERIES[k % len(SERIES)]
        middle, low, high = (curve[name].to_numpy() for name in ("slowdown", "low", "high"))
        axes.errorbar(
            curve["added"], middle, yerr=np.stack([middle - low, high - middle]).clip(0), color=colour, ms=4, lw=1.2,
            marker=_MARKS[k // len(SERIES) % len(_MARKS)], label=kind, capsize=2,
        )  # fmt: skip
        if result.core:
            axes.plot(curve["added"], curve["simulated"], "--", color=colour, lw=1)
    if result.core:
        axes.plot([], [], "--", color=ROOF, lw=1, label=f"SIMULATED ({result.core})")
    axes.axhline(1, color=ROOF, lw=0.8)
    top = np.nanmax(result.curves.loc[result.curves["kind"].isin(shown), ["slowdown", "simulated"]].to_numpy())
    axes.set_ylim(0.9, max(1.2, min(HIGHEST, 1.05 * top)))
    axes.set(
        xlabel="added instructions per iteration",
        ylabel="slowdown (times; solid: measured)" if result.core else "slowdown (times; measured)",
        title=result.name,
    )
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_strips(result: "NoiseResult") -> "Figure":
    """Draw each kind of noise in axes of its own, all on the same scales, with the slack in its title."""
    from matplotlib.figure import Figure

    columns = min(4, len(result.kinds))  # more would be too small to read on a narrow page
    rows = -(-len(result.kinds) // columns)
    figure = Figure(figsize=(2.3 * columns + 0.6, 1.9 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    top = np.nanmax(result.curves[["slowdown", "simulated"]].to_numpy())
    for axes, kind in zip(grid.flat, result.kinds, strict=False):
        curve = result.curve(kind)
        axes.fill_between(curve["added"], curve["low"], curve["high"], color=SERIES[0], alpha=0.25, lw=0)
        axes.plot(curve["added"], curve["slowdown"], "o-", ms=3, lw=1.2, color=SERIES[0], label="measured")
        if result.core:
            label = f"SIMULATED ({result.core})"
            axes.plot(curve["added"], curve["simulated"], "--", lw=1.2, color=SERIES[1], label=label)
        axes.axhline(1, color=ROOF, lw=0.6)
        axes.set_title(f"{kind}: {SLACK[result.slack[kind]]}", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    used = grid.flat[: len(result.kinds)]
    for axes in grid.flat[len(result.kinds) :]:
        axes.set_axis_off()
    for axes in used[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("added per iteration", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("slowdown (times)", fontsize=8)
    grid[0, 0].set_ylim(0.9, max(1.2, min(HIGHEST, 1.05 * top)))
    figure.suptitle(f"{result.name}, {result.host}: slowdown by added instructions of a kind", fontsize=9)
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), fontsize=8, frameon=False, ncols=2, loc="outside lower right"
    )
    return figure
