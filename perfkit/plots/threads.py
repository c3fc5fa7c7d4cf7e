"""Static pictures of several threads: how much each does, how long it waits, which lines of memory they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from perfkit.plots.style import axes_or_new, cut_apart, mark_kind
from perfkit.plots.ticks import large_numbers

if TYPE_CHECKING:
    from perfkit.simulators.gus.threads import ThreadsResult
    from perfkit.trace.sharing import SharedLines
    from perfkit.trace.threads import ThreadTraces


def plot_work(traces: ThreadTraces, ax: Axes | None = None) -> Axes:
    """Draw the instructions of each thread as bars, with their mean."""
    ax = _bars(ax, len(traces))
    ax.barh(list(traces), traces.instructions, color="C0")
    ax.axvline(traces.instructions.mean(), color="0.4", linestyle="--", label="mean")
    ax.set_xlabel("number of executed instructions")
    large_numbers(ax)
    ax.set_title("Instructions of each thread")
    mark_kind(ax, traces.kind)
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.2))  # a bar may lie anywhere
    return ax


def plot_imbalance(result: ThreadsResult, ax: Axes | None = None) -> Axes:
    """Draw the cycles in which each thread works, and in which it waits for the others, as bars."""
    ax = _bars(ax, len(result))
    names = list(result)
    ax.barh(names, result.thread_cycles, color="C0", label="works")
    ax.barh(names, result.waits, left=result.thread_cycles, color="0.8", hatch="//", label="waits")
    ax.set_xlabel("cycles")
    large_numbers(ax)
    name = result.results[0].settings.core.name
    ax.set_title(f"Threads on {name} (simulated): imbalance {result.imbalance:.2f}")
    ax.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.2))
    return ax


def plot_shared_lines(lines: SharedLines, top: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the reads and writes of the lines that threads share most, falsely shared ones named as such."""
    table = lines.to_frame().head(top).iloc[::-1]
    ax = axes_or_new(ax, 8, 0.4 * max(len(table), 1) + 1.6)
    rows = np.arange(len(table))
    ax.barh(rows, table["writes"], color="C3", label="writes")
    ax.barh(rows, table["reads"], left=table["writes"], color="C0", label="reads")
    variables = cut_apart([row.variable for row in table.itertuples()], 24)
    named = zip(variables, table.itertuples(), strict=True)
    ax.set_yticks(rows, [f"{name or f'{row.address:#x}'}, {row.sharing}" for name, row in named])
    ax.set_xlabel("accesses by the threads that share the line")
    large_numbers(ax)
    ax.set_title("Lines that several threads use while one writes")
    mark_kind(ax, lines.kind)
    beside = max(0, 3 - len(table)) / 2  # few bars stand in the middle, and are no thicker
    ax.set_ylim(-0.6 - beside, len(table) - 0.4 + beside)
    if len(table):
        ax.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.2))
    else:
        ax.text(0.5, 0.5, "no line is shared", transform=ax.transAxes, ha="center", va="center")
    return ax


def _bars(ax: Axes | None, threads: int) -> Axes:
    ax = axes_or_new(ax, 8, 0.35 * threads + 1.6)
    ax.set_yticks(range(threads), [f"thread {k}" for k in range(threads)])
    ax.invert_yaxis()
    return ax
