"""Static pictures of studies: distributions with their categories, trees, importance, confusion, lines by dimension."""

import math
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import SettingError, counted
from perfkit.plots.style import SERIES, abbreviate, as_written, darkened, ink_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.studies.analysis import AnalysisResult
    from perfkit.fitters.studies.categories import Categories
    from perfkit.fitters.studies.classifier import Classification
    from perfkit.fitters.studies.decision_tree import Tree
    from perfkit.fitters.studies.random_forest import Importance

_LETTERS = 13  # an inch, of a title in 9 points
_LONGEST = 40  # letters, of a line in a tree's node
_LEAST_WIDE = 5.0  # inches, of a tree: one that does not split has a title, too
# Categories from fast to slow: dark to light, told apart without colour vision (viridis).
_MAP = "viridis"
# What a study measures by these names, or derives in the shipped studies.
_UNITS = {
    "tsc": "ticks of the time stamp counter",
    "cycles": "core cycles",
    "ns": "nanoseconds",
    "GBPS": "GB/s",
    "FMAS_PER_CYCLE": "FMAs per cycle",
    "STRIDE": "blocks of 64 bytes",
    "LINES": "cache lines",
    "PAIRS": "pairs of cache lines",
    "ELEMENTS": "elements",
    "INSTRUCTIONS": "independent instructions",
    "WIDTH": "bits",
    "threads": "number",
}


def category_colours(count: int) -> list[str]:
    """Return one colour per category."""
    import matplotlib as mpl

    return [mpl.colors.to_hex(mpl.colormaps[_MAP](x)) for x in np.linspace(0.05, 0.9, max(count, 1))]


def distribution_bars(
    values: NDArray[np.float64], log: bool, bins: int = 60
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many values fall in each of `bins` steps, alike on the axis (logarithmic if `log`); and the edges."""
    low, high = float(values.min()), float(values.max())
    if log and low > 0:
        edges = np.geomspace(low, max(high, low * 1.001), bins + 1)
    else:
        edges = np.linspace(low, max(high, low + 1e-9 + abs(low) * 1e-3), bins + 1)
    return np.histogram(values, edges)[0], edges


def median_lines(frame: pd.DataFrame, x: str, y: str, by: Sequence[str] = ()) -> list[tuple[str, pd.Series]]:
    """Return the median of `y` over `x` for each combination of the `by` columns: its label, and a series over `x`."""
    return [(label, group.groupby(x)[y].median()) for label, group in _groups(frame, by)]


def coinciding(lines: list[tuple[str, pd.Series]]) -> list[tuple[list[str], pd.Series]]:
    """Put lines together that differ nowhere by more than 1 % of the largest value: their labels, the first line.

    Drawn one over the other, only the last of them would be seen.
    """
    out: list[tuple[list[str], pd.Series]] = []
    for label, line in lines:
        for labels, first in out:
            if first.index.equals(line.index) and (first - line).abs().max() <= 0.01 * first.abs().max():
                labels.append(label)
                break
        else:
            out.append(([label], line))
    return out


def with_unit(name: str) -> str:
    """Return a column's name with its unit, which is known of what perfkit measures and of the shipped studies."""
    return f"{name} ({_UNITS.get(name, 'as in the table')})"


def _legend_beside(ax: Any, own: bool, **settings: Any) -> None:
    """Draw a legend to the right of the axes; a figure of its own becomes as high as the legend takes."""
    legend = ax.legend(fontsize=8, loc="upper left", frameon=False, **settings)
    lines = sum(1 + text.get_text().count("\n") for text in legend.get_texts())
    if own:
        ax.figure.set_figheight(max(ax.figure.get_figheight(), 1 + 0.2 * lines))


def plot_distribution(categories: "Categories", table: Any = None, ax: Any = None) -> Any:
    """Draw the target's density (its histogram where a table is given) with boundaries and centroids."""
    import matplotlib.pyplot as plt

    from perfkit.fitters.studies.categories import as_frame

    own = ax is None
    if own:
        _, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
    if categories.log:
        ax.set_xscale("log")
    if table is not None:
        values = as_frame(table)[categories.target].dropna().to_numpy(dtype=float)
        counts, edges = distribution_bars(values, categories.log, 80)
        ax.stairs(counts, edges, fill=True, color="#c8ccd0", label=counted(len(values), "configurations"))
    if categories.grid:
        other = ax.twinx() if table is not None else ax
        other.plot(categories.grid, categories.density, color="#3b4cc0", lw=1.5)
        other.set_ylim(0)
        other.set_ylabel(f"density (share per unit of {'ln ' * categories.log}{categories.target})")
    for k, boundary in enumerate(categories.boundaries):
        ax.axvline(boundary, color="black", lw=1, label=None if k else "boundaries")
    colours = category_colours(len(categories))
    for colour, label, centre, count in zip(
        colours, categories.labels, categories.centroids, categories.counts, strict=True
    ):
        ax.axvline(
            centre,
            color=darkened(colour),
            ls="--",
            lw=1.5,
            label=f"{label}: peak {centre:.4g}, {counted(count, 'rows')}",
        )
    ax.set_xlabel(with_unit(categories.target))
    if table is not None:
        ax.set_ylabel("configurations (count)")
    beside = (1.15, 1) if table is not None and categories.grid else (1.01, 1)
    _legend_beside(ax, own, bbox_to_anchor=beside)
    ax.set_title(f"{categories.target}: {counted(len(categories), 'categories')} ({categories.method})", fontsize=10)
    return ax


def tree_layout(tree: "Tree") -> list[tuple[float, float]]:
    """Return each node's place: x in leaves from the left, y in levels from the top."""
    places = [(0.0, 0.0)] * len(tree.nodes)
    leaves = 0

    def place(index: int) -> float:
        nonlocal leaves
        node = tree.nodes[index]
        if node.is_leaf:
            x = float(leaves)
            leaves += 1
        else:
            x = (place(node.left) + place(node.right)) / 2
        places[index] = (x, float(node.depth))
        return x

    place(0)
    return places


def plot_tree(tree: "Tree", ax: Any = None) -> Any:
    """Draw a tree from left to right; the lighter a node, the more mixed its rows (as the paper's Fig. 5)."""
    import matplotlib.pyplot as plt

    places = tree_layout(tree)
    leaves = sum(node.is_leaf for node in tree.nodes)
    if ax is None:
        _, ax = plt.subplots(figsize=tree_size(tree), layout="constrained")
    colours = node_colours(tree)
    for index, node in enumerate(tree.nodes):
        leaf, level = places[index]
        for child, word in ((node.left, "yes"), (node.right, "no")):
            if child >= 0:
                below, _ = places[child]
                ax.plot([level, level + 1], [leaf, below], color="#777777", lw=1, zorder=1)
                ax.text(level + 0.5, (leaf + below) / 2, word, fontsize=9, ha="center", color="#333333", zorder=2)
        ax.text(
            level, leaf, node_text(tree, index), ha="center", va="center", fontsize=9, zorder=3,
            color=ink_on(colours[index]),
            bbox={"boxstyle": "round,pad=0.35", "fc": colours[index], "ec": "#333333", "lw": 0.7},
        )  # fmt: skip
    ax.set_xlim(-0.5, tree.depth + 0.5)
    ax.set_ylim(leaves - 0.4, -0.6)
    ax.axis("off")
    ax.set_title(_broken(_tree_title(tree), ax.figure), fontsize=9)
    return ax


def _tree_title(tree: "Tree") -> str:
    return f"{tree.target}: {tree.verdict}"


def _broken(title: str, figure: Any) -> str:
    """Return a title of 9 points in lines that are no wider than its figure.

    matplotlib breaks lines by itself (``wrap=True``), but makes no room for more than one.
    """
    return fill(title, int(figure.get_figwidth() * _LETTERS))


def tree_size(tree: "Tree") -> tuple[float, float]:
    """Return a figure's width and height in inches that give every node of a tree room for its text."""
    leaves = sum(node.is_leaf for node in tree.nodes)
    longest = max(len(line) for index in range(len(tree.nodes)) for line in node_text(tree, index).split("\n"))
    wide = max(_LEAST_WIDE, (tree.depth + 1) * (1.1 + 0.095 * longest))
    return wide, 0.6 + 0.16 * math.ceil(len(_tree_title(tree)) / (wide * _LETTERS)) + 0.72 * leaves


def node_text(tree: "Tree", index: int) -> str:
    """Return what is written in a node; all are drawn as wide as the widest, so long names lose their middle."""
    node = tree.nodes[index]
    what = f"{node.value[0]:.4g}" if tree.is_regression else tree.classes[int(tree.said_by(node))]
    split = "" if node.is_leaf else f"{abbreviate(tree.condition(index, right=False), _LONGEST)}?\n"
    return f"{split}{abbreviate(what, _LONGEST)}\n{counted(node.samples, 'rows')}"


def node_colours(tree: "Tree") -> list[str]:
    """Return each node's fill: its category's colour (or its mean's), faded towards white with impurity."""
    import matplotlib as mpl

    out = []
    if tree.is_regression:
        values = [node.value[0] for node in tree.nodes]
        low, span = min(values), (max(values) - min(values)) or 1
        return [mpl.colors.to_hex(mpl.colormaps[_MAP](0.05 + 0.85 * (value - low) / span)) for value in values]
    palette = category_colours(len(tree.classes))
    for node in tree.nodes:
        pure = max(node.value) / max(sum(node.value), 1)
        floor = 1 / len(node.value)
        strength = 0.15 + 0.85 * (pure - floor) / (1 - floor) if len(node.value) > 1 else 1.0
        base = np.array(mpl.colors.to_rgb(palette[int(tree.said_by(node))]))
        red, green, blue = 1 - strength * (1 - base)
        out.append(mpl.colors.to_hex((red, green, blue)))
    return out


def plot_importance(importance: "Importance", ax: Any = None) -> Any:
    """Draw both importances of each feature; whiskers are the permutation's spread."""
    import matplotlib.pyplot as plt

    frame = importance.to_frame().iloc[::-1]
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 1.4 + 0.5 * len(frame)), layout="constrained")
    places = np.arange(len(frame))
    ax.barh(places + 0.19, frame["mdi"], 0.36, color="#3b4cc0", label="mean decrease in impurity")
    ax.barh(
        places - 0.19, frame["permutation"], 0.36, xerr=frame["permutation_spread"], color="#e8a33d",
        label="fall of the held-out score when shuffled",
    )  # fmt: skip
    ax.set_yticks(places, frame.index)
    held_out = f"held-out score {importance.score:.3f} +- {importance.spread:.3f}"
    ax.set_xlabel(f"importance for {importance.target} to a random forest\n(share; {held_out})")
    if importance.caveat:
        ax.set_title(_broken(importance.caveat, ax.figure), fontsize=9)
    if not frame[["mdi", "permutation", "permutation_spread"]].to_numpy().any():
        # Of a target that does not vary, say: a scale around no bars at all means nothing.
        ax.set_xlim(0, 1)
        ax.text(0.5, 0.5, "no feature tells anything about it", ha="center", va="center", transform=ax.transAxes)
    else:
        ax.set_ylim(-1.5, len(frame) - 0.5)  # a place for the legend of its own, below the last feature's bars
        ax.legend(fontsize=8, frameon=False, loc="lower right")
    return ax


def plot_confusion(tree: "Tree | Classification", ax: Any = None) -> Any:
    """Draw the confusion matrix of held-out rows."""
    import matplotlib.pyplot as plt

    if not tree.classes:
        raise SettingError("a regression has no confusion matrix: fit the tree to categories")
    across, up = "predicted category (in each cell: rows)", f"true category of {tree.target}"
    if ax is None:
        # Cells for their numbers, and at least as much as the axes' names take.
        wide = max(1.6 + 0.85 * len(tree.classes), 1 + 0.08 * len(across))
        high = max(1.2 + 0.6 * len(tree.classes), 0.8 + 0.08 * len(up))
        _, ax = plt.subplots(figsize=(wide, high), layout="constrained")
    counts = np.array(tree.confusion)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = ax.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, at), count in np.ndenumerate(counts):
        ax.text(at, row, str(count), ha="center", va="center", color=ink_on(image.to_rgba(share[row, at])))
    ticks = range(len(tree.classes))
    ax.set_xticks(ticks, tree.classes, rotation=30, ha="right", fontsize=8)
    ax.set_yticks(ticks, tree.classes, fontsize=8)
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    return ax


def plot_lines(
    table: Any, x: str, y: str, by: Sequence[str] = (), log_x: bool = False, log_y: bool = False, ax: Any = None
) -> Any:
    """Draw the median of `y` over `x`, one line per combination of the `by` columns (the paper's Figs. 7, 10, 11).

    Lines that lie on each other (`coinciding`) are drawn once, under all their names.
    """
    import matplotlib.pyplot as plt

    from perfkit.fitters.studies.categories import as_frame, column

    frame = as_frame(table)
    for name in (x, y, *by):
        column(frame, name)
    own = ax is None
    if own:
        _, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for (labels, line), style in zip(coinciding(median_lines(frame, x, y, by)), _styles(), strict=False):
        ax.plot(line.index, line.to_numpy(), label="\n= ".join(labels), **style)
    if log_x:
        ax.set_xscale("log", base=2)
    if log_y:
        ax.set_yscale("log")
    elif ax.get_ylim()[0] >= 0:
        ax.set_ylim(0, 1.05 * ax.dataLim.y1 or 1)  # the axis' own margin is a share of what the lines differ by
    ax.set_xlabel(with_unit(x))
    ax.set_ylabel(with_unit(y))
    if by:
        _legend_beside(ax, own, title=", ".join(by), bbox_to_anchor=(1, 1))
    ax.grid(visible=True, alpha=0.25)
    return ax


def plot_scatter(
    table: Any, x: str, y: str, by: Sequence[str] = (), log_x: bool = False, log_y: bool = False, ax: Any = None
) -> Any:
    """Draw every row as a point of `y` over `x`, one colour and sign per combination of the `by` columns."""
    import matplotlib.pyplot as plt

    from perfkit.fitters.studies.categories import as_frame, column

    frame = as_frame(table)
    for name in (x, y, *by):
        column(frame, name)
    own = ax is None
    if own:
        _, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for (label, group), style in zip(_groups(frame, by), _styles(), strict=False):
        ax.plot(group[x], group[y], label=label, alpha=0.6, **{**style, "ls": "none"})
    if log_x:
        ax.set_xscale("log", base=2)
    if log_y:
        ax.set_yscale("log")
    ax.set_xlabel(with_unit(x))
    ax.set_ylabel(with_unit(y))
    if by:
        _legend_beside(ax, own, title=", ".join(by), bbox_to_anchor=(1, 1))
    ax.grid(visible=True, alpha=0.25)
    return ax


def _groups(frame: pd.DataFrame, by: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    if not by:
        return [("", frame)]
    return [
        (", ".join(str(value) for value in (key if isinstance(key, tuple) else (key,))), group)
        for key, group in frame.groupby(list(by), sort=True, observed=True)
    ]


def _styles() -> list[dict[str, Any]]:
    lines = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "X"))
    return [
        {"color": colour, "ls": dash, "marker": marker, "ms": 4}
        for dash, marker in lines
        for colour in SERIES
    ]  # fmt: skip


def plot_study_exploration(
    categories: "Categories", tree: "Tree", importance: "Importance | None", table: Any, x: str, by: Sequence[str] = ()
) -> Any:
    """Draw what `StudyExplorer` shows as one static figure: distribution, tree, importance, lines."""
    from matplotlib.figure import Figure

    wide, high = tree_size(tree)
    figure = Figure(figsize=(max(11, wide), 6.4 + high), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(3.2, high, 3.2))
    plot_distribution(categories, table, figure.add_subplot(grid[0, :]))
    plot_tree(tree, figure.add_subplot(grid[1, :]))
    if importance is not None:
        plot_importance(importance, figure.add_subplot(grid[2, 0]))
    plot_lines(table, x, categories.target, by, ax=figure.add_subplot(grid[2, 1]))
    return figure


def pictures(result: "AnalysisResult") -> dict[str, Any]:
    """Draw everything that an analysis found: name -> axes."""
    out: dict[str, Any] = {}
    if result.categories is not None:
        out["distribution"] = plot_distribution(result.categories, result.table)
    if result.tree is not None:
        out["tree"] = plot_tree(result.tree)
        out["confusion"] = plot_confusion(result.tree)
    if result.regression is not None:
        out["regression"] = plot_tree(result.regression)
    if result.importance is not None:
        out["importance"] = plot_importance(result.importance)
    for number, one in enumerate(result.settings.lines, 1):
        out[f"lines-{number}"] = plot_lines(result.table, **one.model_dump())
    for number, one in enumerate(result.settings.scatter, 1):
        out[f"scatter-{number}"] = plot_scatter(result.table, **one.model_dump())
    for number, told in enumerate(result.classifications, 1):
        out[f"classifier-{number}"] = plot_confusion(told)
    for ax in out.values():
        as_written(ax.figure)
    return out


def each_picture(result: "AnalysisResult") -> Iterator[tuple[str, "Figure"]]:
    """Yield the name and the figure of each of an analysis's `pictures`; closed when the next is asked for."""
    import matplotlib.pyplot as plt

    for name, ax in pictures(result).items():
        yield name, ax.figure
        plt.close(ax.figure)


def mark_levels(ax: Any, levels: pd.Series, unit: str = "") -> None:
    """Draw horizontal lines across a plot, and their names and heights to the right of it, none over another."""
    from matplotlib.transforms import blended_transform_factory

    low, high = ax.get_ylim()
    apart = 0.05 * (high - low)
    beside = blended_transform_factory(ax.transAxes, ax.transData)
    at = -np.inf
    for name, level in levels.sort_values().items():
        at = max(float(level), at + apart)
        ax.axhline(level, color="#777777", ls=":", lw=1)
        ax.annotate(
            f"{name}: {level:.3g}{unit}", (1, level), (1.04, at), xycoords=beside, textcoords=beside, fontsize=8,
            va="center", color="#333333", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.6, "relpos": (0, 0.5)},
        )  # fmt: skip
