"""Static pictures of Gus's results. Everything drawn here is simulated, and every title says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from perfkit.simulators.causality import Causality, Schedule
    from perfkit.simulators.gus import GusResult
    from perfkit.simulators.sensitivity import Sensitivity


def plot_sensitivity(result: Sensitivity, top: int = 12, axes: Axes | None = None) -> Axes:
    """Draw the speedup of each weighted resource as ranked bars, a colour a weight."""
    table = result.to_frame().head(top).iloc[::-1].set_index("resource")
    axes = _axes(axes, 0.32 * len(table) + 1.2)
    rows = np.arange(len(table))
    height = 0.8 / len(table.columns)
    for k, weight in enumerate(table.columns):
        place = rows + (k - (len(table.columns) - 1) / 2) * height
        axes.barh(place, 100 * table[weight], height, label=str(weight), color=f"C{k}")
    axes.set_yticks(rows, table.index)
    axes.set_xlabel("speedup of the simulated run (%)")
    axes.set_title(f"Sensitivity on {result.core} (simulated)")
    axes.legend(title="capacity", frameon=False)
    return axes


def plot_cpi_stack(result: GusResult, axes: Axes | None = None) -> Axes:
    """Draw cycles per instruction by cause as one stacked bar."""
    stack = result.cpi_stack()
    stack = stack[stack > 0]
    axes = _axes(axes, 1.9)
    left = 0.0
    for k, (cause, value) in enumerate(stack.items()):
        axes.barh([0], [value], left=left, color=f"C{k % 10}", hatch="//" if k >= 10 else None, label=str(cause))
        left += value
    axes.set_yticks([])
    axes.set_xlabel("cycles per instruction")
    axes.set_title(f"CPI stack on {result.settings.core.title} (simulated, by accounting)")
    axes.legend(ncols=4, fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.45))
    return axes


def plot_causality(result: Causality, top: int = 12, axes: Axes | None = None) -> Axes:
    """Draw the share of the instructions in the causes of the run's length."""
    frame = result.to_frame().head(top).iloc[::-1]
    axes = _axes(axes, 0.28 * len(frame) + 1.2)
    axes.barh(np.arange(len(frame)), 100 * frame["share"], color="C3")
    axes.set_yticks(
        np.arange(len(frame)), [f"{pc:#x}  {text}" for pc, text in zip(frame["pc"], frame["text"], strict=True)]
    )
    axes.tick_params(axis="y", labelfontfamily="monospace", labelsize="small")
    axes.set_xlabel("share of the causes (%)")
    axes.set_title("Causality (simulated)")
    return axes


def plot_schedule(result: Schedule, axes: Axes | None = None) -> Axes:
    """Draw each instruction's waiting, execution and time to retirement."""
    frame = result.table
    axes = _axes(axes, 0.2 * len(frame) + 1.2)
    rows = np.arange(len(frame))
    for first, second, label, colour in (
        ("dispatch", "start", "waits", "0.85"),
        ("start", "end", "executes", "C0"),
        ("end", "retire", "waits to retire", "0.93"),
    ):
        axes.barh(rows, frame[second] - frame[first], left=frame[first], color=colour, label=label)
    axes.set_yticks(rows, frame["text"])
    axes.tick_params(axis="y", labelfontfamily="monospace", labelsize="x-small")
    axes.invert_yaxis()
    axes.set_xlabel("cycle")
    axes.set_title("Schedule (simulated)")
    axes.legend(frameon=False)
    return axes


def _axes(axes: Axes | None, height: float) -> Axes:
    if axes is not None:
        return axes
    return plt.subplots(figsize=(8, height), layout="constrained")[1]
