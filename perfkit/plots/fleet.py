"""Pictures of fleets: what there is of each machine, and what changed between two versions or days."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter

from perfkit.plots.cpi_stack import colours
from perfkit.plots.style import ACCENT, CLOUD, ROOF, cut_apart, mark_kind, name_rows

if TYPE_CHECKING:
    from perfkit.fitters.cpi.fleet import FleetStacks
    from perfkit.fitters.fleet_changes import FleetChanges
    from perfkit.fitters.spire.fleet import FleetRankings
    from perfkit.samples.fleet import Fleet

_MOST_BARS = 24


def plot_fleet(fleet: "Fleet", ax: Any = None) -> Any:
    """Draw how many runs there are of each machine, most first; return the axes."""
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    counts = fleet.runs.groupby("machine", sort=False).size().sort_values(ascending=False)
    ax.bar(range(len(counts)), counts.to_numpy(), width=1.0)
    ax.set_xlabel(f"machines ({len(counts):,}), most runs first")
    ax.set_ylabel("runs")
    mark_kind(ax, fleet.kind)
    return ax


def plot_fleet_stacks(stacks: "FleetStacks", ax: Any = None) -> Any:
    """Draw the CPI stacks of groups beside each other, those of the highest CPI first; return the axes."""
    shown = stacks.groups.sort_values("cpi", ascending=False)["group"].head(_MOST_BARS)
    wide = stacks.wide()[list(shown)].fillna(0.0)
    # As in the pictures of single stacks: an event has one colour in all of them, and no two have the same.
    palette = colours([str(part) for part in wide.index if part not in ("base", "residual")])
    wide = wide[(wide.abs() > 0.002 * wide.sum().max()).any(axis=1)]
    if ax is None:
        _, ax = plt.subplots(figsize=(min(3.5 + 0.6 * len(shown), 11), 4), layout="constrained")
    up, down = np.zeros(len(shown)), np.zeros(len(shown))
    labels = cut_apart([str(part) for part in wide.index], 34)
    for label, (part, values) in zip(labels, wide.iterrows(), strict=True):
        height = values.to_numpy()
        floor = np.where(height >= 0, up, down)
        style = {"color": palette[str(part)], "edgecolor": "#444444", "linewidth": 0.4}
        ax.bar(range(len(shown)), height, bottom=floor, label=label, **style)
        up, down = up + np.maximum(height, 0.0), down + np.minimum(height, 0.0)
    ax.set_xticks(range(len(shown)), cut_apart([str(g) for g in shown], 22), rotation=30, ha="right")
    ax.set_ylabel("cycles per instruction")
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, reverse=True)  # as they lie
    mark_kind(ax, stacks.kind)
    return ax


def plot_fleet_rankings(rankings: "FleetRankings", ax: Any = None) -> Any:
    """Draw the bound of each event in each group, as a share of the group's lowest; return the axes."""
    table = rankings.table
    groups = list(dict.fromkeys(table["group"]))[:_MOST_BARS]
    wide = table.pivot(index="event", columns="group", values="throughput_bound")[groups]
    shown = (wide / wide.min()).loc[wide.median(axis=1).sort_values().index].head(12)
    if ax is None:
        _, ax = plt.subplots(figsize=(min(4.5 + 0.45 * len(groups), 11), 4.2), layout="constrained")
    image = ax.imshow(shown.to_numpy(), aspect="auto", cmap="magma", vmin=1.0, vmax=2.0)
    ax.set_xticks(range(len(groups)), cut_apart([str(g) for g in groups], 22), rotation=30, ha="right")
    name_rows(ax, [str(e) for e in shown.index])
    ax.figure.colorbar(image, ax=ax, label="bound (times the group's lowest)")
    mark_kind(ax, rankings.kind)
    return ax


def plot_fleet_changes(changes: "FleetChanges", ax: Any = None) -> Any:
    """Draw the largest changes with their intervals, those that count as changes in colour; return the axes."""
    told = changes.table["p"].notna() & np.isfinite(changes.table[["change", "low", "high"]]).all(axis=1)
    table = changes.table[told].sort_values("p", kind="stable").head(12).iloc[::-1]
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 1.4 + 0.3 * len(table)), layout="constrained")
    names = [
        " / ".join([*(str(row[name]) for name in changes.by), row["quantity"]])
        for row in table.to_dict(orient="records")
    ]
    for y, row in enumerate(table.to_dict(orient="records")):
        colour = ACCENT if row["changed"] else CLOUD
        ax.plot([row["low"], row["high"]], [y, y], color=colour, lw=2)
        ax.plot([row["change"]], [y], "o", color=colour)
    ax.axvline(0.0, color=ROOF, lw=0.8)
    name_rows(ax, names, 58)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(f"change from {changes.label} {changes.before} to {changes.after}, as a share of {changes.before}")
    mark_kind(ax, changes.kind)
    return ax
