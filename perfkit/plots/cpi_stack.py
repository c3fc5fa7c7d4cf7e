"""Static pictures of CPI stacks: bars, predicted against measured CPI, residuals, penalties, gauges, correlations."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.errors import DataError
from perfkit.plots.style import ACCENT, SERIES, THIN, cut_apart, ink_on
from perfkit.plots.time_axis import begins_of, line_between

if TYPE_CHECKING:
    from perfkit.fitters.cpi.paper import PaperCpiFit
    from perfkit.fitters.cpi.stack import CpiFit

_CPI = "CPI (cycles per instruction)"
_LETTERS = 34  # of a name, beside or below what is drawn
BASE_COLOUR = "#8e9399"
RESIDUAL_COLOUR = "#ffffff"
OTHERS_COLOUR = "#d9d9d9"
# Twenty colours that neighbours can be told apart by (after matplotlib's tab20; the strong ones come
# first and are seen on light and on dark pages).
EVENT_COLOURS = (
    "#1f77b4", "#e5720d", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#d570b6", "#96971b", "#14a1b0", "#5866a0",
    "#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#dbdb8d", "#9edae5", "#a5b1d8",
)  # fmt: skip


def colours(events: Sequence[str]) -> dict[str, str]:
    """Return a colour for the base, the residual and each event."""
    out = {"base": BASE_COLOUR, "residual": RESIDUAL_COLOUR}
    return out | {e: EVENT_COLOURS[i % len(EVENT_COLOURS)] for i, e in enumerate(events)}


def plot_stacks(fits: "Mapping[str, CpiFit]", ax: Any = None, at_most: int = 12) -> Any:
    """Draw one stacked bar a fit: base at the bottom, events above it, what is unattributed hatched on top.

    The whisker is the interval of the base. Beyond ``at_most`` events the smallest are drawn as "others", and
    so are those that are too thin to see in any bar (`THIN`): a legend would name what nobody sees.
    Negative components (of least squares without bounds) are drawn below zero.
    """
    import matplotlib.pyplot as plt

    table = _stacked_parts(fits, at_most)
    if ax is None:
        beside = 0.07 * min(_LETTERS, max(len(str(part)) for part in table.index))  # the legend
        _, ax = plt.subplots(figsize=(1.9 + beside + 1.3 * len(fits), 5), layout="constrained")
    # By the order of counting, so that an event has one colour in all pictures; what is summed up is grey.
    palette = colours(list(dict.fromkeys(e for f in fits.values() for e in f.source.events)))
    top, bottom = np.zeros(len(fits)), np.zeros(len(fits))
    places = np.arange(len(fits))
    for part, row in table.iterrows():
        heights = row.to_numpy(dtype="float64")
        start = np.where(heights >= 0, top, bottom)
        hatch = "///" if part == "residual" else None
        label = "unattributed" if part == "residual" else str(part)
        ax.bar(
            places,
            heights,
            0.6,
            start,
            color=palette.get(str(part), OTHERS_COLOUR),
            edgecolor="#444444",
            lw=0.4,
            hatch=hatch,
            label=label,
        )
        top, bottom = top + np.maximum(heights, 0), bottom + np.minimum(heights, 0)
    for place, fit in zip(places, fits.values(), strict=True):
        low, high = (end["base"] for end in fit.intervals_of(fit.component_draws))
        if np.isfinite(low):
            ax.plot([place, place], [low, high], color="black", lw=1.5)
            top[place] = max(top[place], high)  # of a base that takes nearly all
        ax.annotate(f"{fit.cpi:.3f}", (place, max(top[place], fit.cpi)), ha="center", va="bottom", fontsize=9)
    ax.set_xticks(
        places, [_label(name, fit) for name, fit in zip(cut_apart(list(fits), 40), fits.values(), strict=True)]
    )
    ax.set_xlim(-0.6, len(fits) - 0.4)
    ax.set_ylim(1.08 * float(bottom.min()), 1.08 * float(top.max()))
    ax.set_ylabel(_CPI)
    _name_parts(ax)
    return ax


def _name_parts(ax: Any) -> None:
    """Name the parts of stacked bars beside them, as they lie; long names are cut so that no two look alike."""
    handles, labels = ax.get_legend_handles_labels()
    shown = cut_apart(labels, _LETTERS)
    ax.legend(handles[::-1], shown[::-1], loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, frameon=False)


def plot_prediction(fit: "CpiFit", ax: Any = None) -> Any:
    """Draw measured and predicted CPI of each interval over time (over the interval's number where time is unknown)."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(9, 3), layout="constrained")
    table = fit.intervals()
    x, label = time_axis(table)
    ax.plot(x, table["cpi"], ".", ms=3, color="#5f6368", label=fit.kind)
    predicted = table["predicted"].to_numpy()
    ax.plot(*line_over_time(table, x, predicted), "-", lw=0.9, color=ACCENT, label="by the stack")
    ax.set_xlabel(label)
    ax.set_ylabel(_CPI)
    ax.set_title(
        f"{fit.name}: R² {fit.r2.in_sample:z.2f} in sample, {fit.r2.blocked:z.2f} in phases kept out", fontsize=9
    )
    ax.legend(fontsize=8, frameon=False)
    return ax


def plot_residuals(fit: "CpiFit", ax: Any = None) -> Any:
    """Draw residual against predicted CPI (the paper's Figs. 3 to 6): a bend or a fan shows what it misses."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
    table = fit.intervals()
    ax.plot(table["predicted"], table["residual"], ".", ms=3, alpha=0.5, color=SERIES[0])
    ax.axhline(0, color="#444444", lw=0.8)
    ax.set_xlabel(f"predicted {_CPI}")
    ax.set_ylabel(f"{fit.kind} less predicted CPI\n(cycles per instruction)")
    return ax


def plot_penalties(fit: "CpiFit", ax: Any = None) -> Any:
    """Draw each event's component with its interval, and the same by the other form as a cross."""
    import matplotlib.pyplot as plt

    parts = fit.components.sort_values(kind="stable").index
    if ax is None:
        _, ax = plt.subplots(figsize=(6.5, 0.8 + 0.27 * len(parts)), layout="constrained")
    low, high = fit.intervals_of(fit.component_draws)
    y = np.arange(len(parts))
    ax.hlines(y, low[parts], high[parts], color=SERIES[0], lw=3, alpha=0.4)
    ax.plot(fit.components[parts], y, "o", color=SERIES[0], ms=5, label=f"{fit.settings.form.upper()} form")
    other = "CPI" if fit.settings.form == "ipc" else "IPC"
    ax.plot(fit.other[parts], y, "x", color=ACCENT, ms=6, label=f"{other} form")
    ax.set_yticks(y, cut_apart([str(part) for part in parts], _LETTERS), fontsize=8)
    ax.set_xlabel(f"{_CPI}, {fit.kind}\nbars: {fit.settings.level:.0%} intervals")
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    return ax


def plot_gauges(fit: "CpiFit", ax: Any = None) -> Any:
    """Draw the placebo beside the R2, and the bracket of bases on the CPI, into two axes ``ax``; return both."""
    import matplotlib.pyplot as plt

    axes = ax
    if axes is None:
        _, axes = plt.subplots(2, 1, figsize=(6.5, 2.6), layout="constrained")
    names = ["in sample", "random split", "split by time", "placebo"]
    values = [fit.r2.in_sample, fit.r2.random, fit.r2.blocked, fit.placebo_r2]
    shown = np.clip(np.nan_to_num(values), 0, 1)
    axes[0].barh(names[::-1], shown[::-1], color=["#d62728", "#1f77b4", "#6fa8dc", "#b6cfe8"])
    for y, value in enumerate(values[::-1]):
        axes[0].annotate(f" {value:z.2f}", (shown[::-1][y], y), va="center", fontsize=8)
    axes[0].set_xlim(0, 1.12)
    axes[0].set_xlabel(f"R²: share of the variance explained ({fit.settings.form.upper()} form, {fit.kind})")
    bracket = fit.bracket
    axes[1].barh([0], [fit.cpi], color="#eeeeee", edgecolor="#444444", lw=0.5)
    axes[1].barh([0], [bracket.high - bracket.low], left=bracket.low, color="#9aa0a6")
    axes[1].plot([bracket.ipc, bracket.cpi], [0, 0], "k|", ms=18)
    axes[1].set_yticks([0], ["base"])
    axes[1].set_xlabel(
        f"cycles per instruction; base {bracket.ipc:.3f} (IPC form), {bracket.cpi:.3f} (CPI form), "
        f"{bracket.width:.1%} apart"
    )
    return axes


def plot_correlation(correlation: pd.DataFrame, ax: Any = None) -> Any:
    """Draw a matrix of correlations (the paper's Fig. 1) as shades with the figures in it."""
    import matplotlib.pyplot as plt

    n, values = len(correlation), correlation.to_numpy()
    if ax is None:
        _, ax = plt.subplots(figsize=(2.5 + 0.42 * n, 2.0 + 0.42 * n), layout="constrained")
    image = ax.imshow(correlation, vmin=-1, vmax=1, cmap="RdBu_r")
    names = cut_apart([str(event) for event in correlation.columns], _LETTERS)
    ax.set_xticks(range(n), names, rotation=90, fontsize=8)
    ax.set_yticks(range(n), names, fontsize=8)
    for i in range(n):
        for j in range(n):
            value = values[i, j]
            if np.isfinite(value):
                ink = ink_on(image.to_rgba(value))
                ax.text(j, i, f"{value:z.1f}", ha="center", va="center", fontsize=8, color=ink)
    ax.figure.colorbar(image, ax=ax, shrink=0.6, label="correlation (from -1 to 1)")
    return ax


def plot_paper_stack(fit: "PaperCpiFit", ax: Any = None) -> Any:
    """Draw the stack of the paper's procedure as one bar (its Fig. 2)."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(4.1, 5), layout="constrained")
    palette = colours(list(fit.correlation.columns[1:]))
    top = 0.0
    for part, height in fit.stack.items():
        ax.bar([0], [height], 0.6, [top], color=palette[str(part)], edgecolor="#444444", lw=0.4, label=str(part))
        top += float(height)
    ax.set_xticks([0], [f"paper's procedure\n({fit.kind}, R² {fit.r2:z.3f} on test rows)"])
    ax.set_xlim(-0.6, 0.6)
    ax.set_ylabel("CPI (cycles per instruction, mean of the intervals)")
    _name_parts(ax)
    return ax


def plot_overview(fits: "Mapping[str, CpiFit]", chosen: str | None = None) -> Any:
    """Draw the stacks, and of one its prediction over time, its components, gauges and residuals; return the figure."""
    from matplotlib.figure import Figure

    fit = fits[chosen or next(iter(fits))]
    figure = Figure(figsize=(13, 8), layout="constrained")  # not pyplot's: a view must not show it a second time
    grid = figure.add_gridspec(3, 2, width_ratios=(1, 1.5), height_ratios=(1.2, 1.6, 1.2))
    plot_stacks(fits, figure.add_subplot(grid[:2, 0]))
    plot_prediction(fit, figure.add_subplot(grid[0, 1]))
    plot_penalties(fit, figure.add_subplot(grid[1, 1]))
    inner = grid[2, 1].subgridspec(2, 1)
    plot_gauges(fit, [figure.add_subplot(inner[i]) for i in range(2)])
    plot_residuals(fit, figure.add_subplot(grid[2, 0]))
    return figure


def time_axis(table: pd.DataFrame) -> tuple[np.ndarray, str]:
    """Return where to draw each interval, and what that is: seconds where one run's times are known, else a number."""
    at = table["at"].to_numpy(dtype="float64")
    if np.isfinite(at).all() and (np.diff(at) > 0).all():
        return at, "time (s since the start)"
    return table["row"].to_numpy(dtype="float64"), "interval (number)"


def begins(table: pd.DataFrame, ends: np.ndarray) -> np.ndarray:
    """Return where intervals begin that `time_axis` draws at ``ends``: where the one before ended, or after a gap."""
    timed = np.array_equal(ends, table["at"].to_numpy(dtype="float64"))
    lengths = table["seconds"].to_numpy(dtype="float64") if timed else np.full(len(ends), np.nan)
    return begins_of(ends, lengths, 0.0 if timed else float(ends[:1].sum()) - 1.0)


def line_over_time(table: pd.DataFrame, ends: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a line through the values of the intervals, broken at gaps and between runs and places."""
    of = table[["run", "place"]].astype(str)
    return line_between(begins(table, ends), ends, values, of.ne(of.shift()).any(axis=1).to_numpy())


def _stacked_parts(fits: "Mapping[str, CpiFit]", at_most: int) -> pd.DataFrame:
    """Return one row per part (base, largest events, others, residual) that can be seen, and one column per fit."""
    table = pd.DataFrame({name: fit.components for name, fit in fits.items()}).fillna(0.0)
    table.loc["residual"] = [fit.residual for fit in fits.values()]
    least = THIN * float(table.clip(lower=0).sum().max())
    events = table.drop(index=["base", "residual"]).abs().max(axis=1).sort_values(ascending=False, kind="stable")
    shown = events.index[: min(at_most, int((events >= least).sum()))]
    out = table.loc[["base", *shown]]
    others = table.loc[events.index[len(shown) :]]
    if (others.abs().max() > 0).any():
        used = others.index[others.abs().max(axis=1) > 0]
        thin = "" if (others.sum().abs() >= least).any() else " (too thin to see)"
        out.loc[(used[0] if len(used) == 1 else f"{len(used)} others") + thin] = others.sum()
    if (table.loc["residual"].abs() >= least).any():
        out.loc["residual"] = table.loc["residual"]
    return out


def _label(name: str, fit: "CpiFit") -> str:
    # A bar has room for so many letters below it.
    name = "\n".join(textwrap.wrap(name, 14))
    return name if fit.kind == "measured" else f"{name}\n({fit.kind})"


def named_fits(fits: Any) -> "dict[str, CpiFit]":
    """Return fits by name, of one fit, a comparison or a mapping."""
    if hasattr(fits, "refit"):
        return {fits.name: fits}
    if not (isinstance(fits, Mapping) or hasattr(fits, "fits")):
        raise DataError(
            f"expected a CPI stack of samples in memory, or several by name; found {type(fits).__name__}. "
            "Of a fleet: CpiStack().fit(fleet.sample(20_000)), or fleet.where(...).to_samples()"
        )
    named = {str(name): fits[name] for name in fits}
    if not named:
        raise DataError("nothing to explore: expected at least one fit")
    return named
