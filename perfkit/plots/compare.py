"""Pictures and the page of a comparison of two kernels."""

import html
from io import StringIO
from typing import TYPE_CHECKING, Any

from perfkit.plots.style import ACCENT, CLOUD, DARK_PAGE, ROOF, mark_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.collectors.host.comparison import KernelComparison


def plot_comparison(comparison: "KernelComparison", ax: Any = None) -> "Axes":
    """Draw the effect of each process as a dot, and the effect of all, and that on the mean, with confidence intervals.

    Parameters
    ----------
    comparison : KernelComparison
        What to draw.
    ax : Axes, optional
        Where to draw.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7.5, 2.6), layout="constrained")[1]
    ratios = 100 * (comparison.table["ratio"].to_numpy() - 1)
    low, high = (100 * end for end in comparison.interval)
    effect = 100 * comparison.effect
    # The dots are spread evenly over the height, in the order of the processes.
    height = [0.35 + 0.6 * k / max(len(ratios) - 1, 1) for k in range(len(ratios))]
    ax.plot(ratios, height, "o", color=CLOUD, ms=4, label="each process")
    ax.errorbar(
        [effect], [0.12], xerr=[[effect - low], [high - effect]], fmt="D", color=ACCENT, capsize=4, ms=6,
        label=f"effect, {comparison.confidence:.0%} interval",
    )  # fmt: skip
    if (average := comparison.on_average) is not None:
        mean, *ends = (100 * one for one in average)
        ax.errorbar(
            [mean], [0.24], xerr=[[mean - ends[0]], [ends[1] - mean]], fmt="s", color=ACCENT, mfc="none", capsize=4,
            ms=6, label=f"effect on the mean, {comparison.confidence:.0%} interval",
        )  # fmt: skip
    ax.axvline(0, color=ROOF, lw=1)
    ax.set_ylim(0, 1)
    ax.set_yticks([])
    ax.set_xlabel(f"cycles of {comparison.names[1]} relative to {comparison.names[0]} in %")
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    ax.spines[["top", "right", "left"]].set_visible(False)
    mark_kind(ax, comparison.kind)
    return ax


def page(comparison: "KernelComparison") -> str:
    """Return a comparison as an HTML page that needs nothing else: summary, cycles, builds, picture."""
    from matplotlib.figure import Figure

    figure, drawn = Figure(figsize=(7.5, 2.6), layout="constrained"), StringIO()
    plot_comparison(comparison, figure.subplots())
    figure.savefig(drawn, format="svg")
    picture = drawn.getvalue()[drawn.getvalue().index("<svg") :]
    cells = zip(comparison.names, comparison.cycles, comparison.builds, strict=True)
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td class='figure'>{cycles:,.1f}</td><td>{html.escape(build)}</td></tr>"
        for name, cycles, build in cells
    )
    title = html.escape(f"{comparison.names[1]} compared with {comparison.names[0]}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n<style>'
        "body{font:16px sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
        "td,th{padding:.3em 1em .3em 0;text-align:left}.figure{text-align:right;font-variant-numeric:tabular-nums}"
        f"svg{{max-width:100%;height:auto;background:#fff}}{DARK_PAGE}</style></head>\n"
        f"<body><h1>{title}</h1>\n<p>{'<br>'.join(map(html.escape, comparison.said()))}</p>\n"
        f"<table><tr><th>kernel</th><th class='figure'>cycles per call</th><th>build</th></tr>{rows}</table>\n"
        f"{picture}\n"
        f"<p>{html.escape(comparison.where)}</p></body></html>\n"
    )
