"""Pictures of the extended roofline: the plot with all roofs, and the schedule by cycle and node type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfkit.errors import SettingError, UnavailableError, counted, of_extra
from perfkit.plots.inside import keep_inside
from perfkit.plots.style import axes_or_new, plain_ticks
from perfkit.simulators.dag.core import BUFFERS, TYPES
from perfkit.simulators.dag.extended_roofline import NAMES, Roof
from perfkit.simulators.dag.measures import ExtendedRoofline

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.simulators.dag.measures import Schedule
    from perfkit.simulators.dag.relax import Relaxation

COLOURS = {
    "comp": "#c0392b",
    "D": "#8B5A2B",
    "I": "#5F7285",
    "L1": "#1f77b4",
    "L2": "#2a9d4e",
    "L3": "#8e44ad",
    "mem": "#d35400",
}
TYPE_COLOURS = {"A": "#c0392b", "M": "#C0620F", "D": "#8B5A2B", **{k: COLOURS[k] for k in ("L1", "L2", "L3", "mem")}}
TYPE_COLOURS |= {"F": "#b5179e", "I": COLOURS["I"]}
STALL_COLOURS = {"RS": "#a87900", "ROB": "#9d8189", "LB": "#5f9130", "SB": "#3a9c91", "LFB": "#9a72b8"}
# Dots close to one another: lines of them further apart are as pale as thin ones. Dashes are long beside them.
DASHES: dict[str, Any] = {
    "throughput": "-",
    "issue": (0, (6, 2)),
    "latency": "-.",
    "stall": (0, (2, 1)),
    "overlap": "-",
}
# Classical bounds are all black, and overlaps all grey: each has a mark of its own.
MARKS = "sD^v<>"
_BUFFERS = ("rs", "rob", "lb", "sb", "lfb")
GREY = "#808080"
UNNAMED = {"color": "#5F5F5F", "linestyle": "-", "linewidth": 0.8}  # of roofs that the legend only counts
TYPE_NAMES = {"A": "additions", "M": "multiplications", "D": "divisions", "F": "fused multiply-adds"}


def intensities(roofline: ExtendedRoofline, decades: float = 1.5, points: int = 121) -> npt.NDArray[np.float64]:
    """Return a logarithmic range of operational intensities around the program's own, which is among them.

    Without memory accesses there is no finite intensity; the range is then around 1.
    """
    centre = roofline.intensity if math.isfinite(roofline.intensity) else 1.0
    return centre * 10.0 ** np.linspace(-decades, decades, points | 1)


def type_name(kind: str) -> str:
    """Return what a node type does, for axes: "A" is "additions"."""
    return TYPE_NAMES.get(kind, NAMES.get(kind, kind))


def unit_of(parameter: str) -> str:
    """Return the unit of a core's parameter, "" where it has none.

    Examples
    --------
    >>> unit_of("latency_A"), unit_of("rob"), unit_of("throughput_mem")
    ('cycles', 'entries', 'per cycle')
    """
    kind = parameter.partition("_")[0]
    if kind == "latency":
        return "cycles"
    return "per cycle" if kind in ("fetch", "throughput") else "entries" if parameter in _BUFFERS else ""


def colour(roof: Roof) -> str:
    """Return the colour of a roof: its node type's; overlaps are grey, as in the paper."""
    return GREY if roof.kind == "overlap" else COLOURS[roof.of[0]]


def plot_extended_roofline(roofline: ExtendedRoofline, ax: Any = None, labels: int = 8) -> Any:
    """Draw the generalized roofline plot (the paper's Figs. 8 to 13) on log-log axes.

    Original bounds are solid and black, overlaps grey, each with a mark of its own; issue bounds are dashed, latency
    bounds dash-dotted, stall bounds dotted. What the legend does not name is thin and grey, and counted there.

    Parameters
    ----------
    labels
        How many of the roofs nearest to the point are named in the legend, beside the original bounds.

    Returns
    -------
    matplotlib Axes
    """
    ax = axes_or_new(ax, 9, 5)
    x = intensities(roofline)
    hits = set(roofline.hits)
    alike = [roof for kind in ("throughput", "overlap") for roof in roofline.roofs if roof.kind == kind]
    named = {*roofline.roofs[:labels], *(roof for roof in alike if roof.kind == "throughput")}
    others = [roof for roof in roofline.roofs if roof not in named]  # from the nearest on
    for roof in reversed(roofline.roofs):
        if roof not in named:
            label = f"{counted(len(others), 'more roofs')} ({others[0].distance:.2f} to {others[-1].distance:.2f})"
            label = label if roof is others[-1] else ""
            ax.plot(x, roof.at(x), **UNNAMED, zorder=1, label=label or None)
            continue
        ax.plot(
            x,
            roof.at(x),
            color="black" if roof.kind == "throughput" else colour(roof),
            linestyle=DASHES[roof.kind],
            linewidth=1.8 if roof in hits or roof.kind == "throughput" else 1.0,
            **(_marked(alike.index(roof)) if roof in alike else {}),
            label=f"{roof.label} ({roof.distance:.2f})",
        )
    point = roofline.intensity if math.isfinite(roofline.intensity) else x[-1]
    ax.plot([point], [roofline.performance], "o", color="black", markersize=8, zorder=5, label="performance")
    ax.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
    top = max(roof.bound for roof in roofline.roofs)
    ax.set_ylim(roofline.performance / 5, top * 3)
    unit = roofline.schedule.unit
    ax.set_xlabel(f"operational intensity I = W / Q [{unit}/byte, all levels]")
    ax.set_ylabel(f"performance [{unit}/cycle]")
    ax.set_title(f"{roofline.schedule.name} on {roofline.schedule.core.name} (simulated)")
    plain_ticks(ax)
    ax.grid(True, which="major", alpha=0.25)
    handles, texts = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], texts[::-1], fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    keep_inside(ax)
    return ax


def _marked(place: int) -> dict[str, Any]:
    """Return how matplotlib marks one of several lines alike; lines that lie on one another have marks apart."""
    return {"marker": MARKS[place % len(MARKS)], "markevery": (6 + 5 * place, 24), "mfc": "white", "markersize": 5}


def sweep_table(table: pd.DataFrame) -> Any:
    """Return a table of `perfkit.sweep` as a notebook shows it: without columns of zeros, and with verdicts whole.

    Returns
    -------
    pandas Styler

    Raises
    ------
    UnavailableError
        jinja2 is not installed, which the extra `lab` brings, and without which pandas styles nothing.
    """
    of_extra("jinja2")
    table = table.loc[:, (table != 0).any()].rename(columns={"performance": "flops/cycle"})
    styled = table.style.set_properties(subset=["verdict"], **{"white-space": "normal", "min-width": "16em"})
    return styled.format(precision=3)


def plot_relaxation(relaxation: Relaxation, ax: Any = None, top: int = 12) -> Any:
    """Draw what each resource, twice as good, would gain, the largest first; return the axes."""
    ax = axes_or_new(ax, 7, 3.5)
    table = relaxation.to_frame()[:top][::-1]
    ax.barh(table["resource"], table["gain"] * 100, color=COLOURS["L1"])
    ax.set_xlabel("gain if twice as good (%)")
    ax.set_title(f"{relaxation.name} on {relaxation.core} (simulated)")
    keep_inside(ax)
    return ax


def plot_schedule(schedule: Schedule, first: int = 0, last: int | None = None, ax: Any = None) -> Any:
    """Draw how many nodes of each type execute in each cycle, issue cycles marked, stalls shaded (Fig. 5(b)).

    Parameters
    ----------
    first, last
        The cycles to draw; by default all, at most 400.

    Raises
    ------
    UnavailableError
        If the run recorded no nodes.
    """
    if schedule.stall_mask is None:
        raise UnavailableError(f"the run of {schedule.name} recorded no nodes; run DagScheduler(..., record=True)")
    last = min(schedule.cycles, first + 400) if last is None else last
    if not 0 <= first < last <= schedule.cycles:
        raise SettingError(f"cycles {first} to {last} are not within 0 to {schedule.cycles}")
    ax = axes_or_new(ax, 9, 3.2)
    executing, issuing = cycle_counts(schedule, first, last)
    present = [k for k in range(len(executing)) if executing[k].any()]
    cycles = np.arange(first, last)
    for row, k in enumerate(reversed(present)):
        name = TYPES[k]
        scale = 0.8 / max(1, executing[k].max())
        ax.bar(cycles, executing[k] * scale, 1.0, row - 0.4, align="edge", color=TYPE_COLOURS[name], alpha=0.45)
        ax.bar(cycles, issuing[k] * scale, 1.0, row - 0.4, align="edge", color=TYPE_COLOURS[name])
    shaded = set()
    for k, buffer in enumerate(BUFFERS):
        for begin, end in _stretches(schedule.stall_mask[first:last] >> k & 1):
            label = None if buffer in shaded else f"{buffer} stall"
            shaded.add(buffer)
            ax.axvspan(first + begin, first + end, color=STALL_COLOURS[buffer], alpha=0.35, lw=0, zorder=0, label=label)
    ax.set_yticks(range(len(present)), [f"{type_name(TYPES[k])}, ≤ {executing[k].max()}" for k in reversed(present)])
    ax.set(xlim=(first, last), xlabel="time (cycle)", ylabel="nodes at once (count)")
    ax.set_title(
        f"schedule of {schedule.name} (simulated): dark where nodes issue, light where they execute", fontsize=9
    )
    if shaded:
        ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    keep_inside(ax)
    return ax


def cycle_counts(schedule: Schedule, first: int, last: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return, per node type and cycle from `first` to `last`, how many nodes execute and how many issue."""
    if schedule.issue is None or schedule.done is None or schedule.type is None:
        raise UnavailableError(f"the run of {schedule.name} recorded no nodes; run DagScheduler(..., record=True)")
    length = last - first
    inside = (schedule.issue < last) & (np.maximum(schedule.done, schedule.issue + 1) > first)
    issue, kinds = schedule.issue[inside] - first, schedule.type[inside].astype(np.int64)
    done = np.maximum(schedule.done[inside], schedule.issue[inside] + 1) - first
    types = len(schedule.types)
    steps = np.zeros((types, length + 1), dtype=np.int64)
    np.add.at(steps, (kinds, np.clip(issue, 0, length)), 1)
    np.add.at(steps, (kinds, np.clip(done, 0, length)), -1)
    issuing = np.zeros((types, length), dtype=np.int64)
    seen = issue >= 0
    np.add.at(issuing, (kinds[seen], issue[seen]), 1)
    return steps.cumsum(axis=1)[:, :length], issuing


def binned_counts(
    schedule: Schedule, first: int, last: int, most: int = 400
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return `cycle_counts` and stalls as means over steps of equally many cycles, at most `most` steps.

    Returns
    -------
    edges : ndarray, shape (steps + 1,)
        The cycle at which each step begins, and the last one's end; the last step may be shorter.
    executing, issuing : ndarray, shape (types, steps)
        Nodes per cycle.
    stalled : ndarray, shape (buffers, steps)
        The share of the step's cycles in which each buffer of `BUFFERS` stalls.
    """
    counts, issues = cycle_counts(schedule, first, last)
    assert schedule.stall_mask is not None, "recorded with the nodes"
    mask = schedule.stall_mask[first:last]
    flags = np.array([mask >> k & 1 for k in range(len(BUFFERS))])
    begins = np.arange(0, last - first, -(-(last - first) // most))
    lengths = np.diff(np.append(begins, last - first))
    executing, issuing, stalled = (np.add.reduceat(a, begins, axis=1) / lengths for a in (counts, issues, flags))
    return np.append(begins, last - first) + first, executing, issuing, stalled


def _stretches(flags: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return the (begin, end) of the runs of ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags, [0])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
