"""Pictures of samples as they come from a dump: throughput and rates over time, two events, and what is missing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perfkit.errors import SettingError, closest
from perfkit.plots.style import (
    ACCENT,
    CLOUD,
    LESS,
    MORE,
    SERIES,
    abbreviate,
    axes_or_new,
    cut_apart,
    kind_note,
    mark_kind,
    name_rows,
    short,
)
from perfkit.plots.time_axis import TimeAxis
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, per_unit
from perfkit.samples.table import Samples

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfkit.exploration.counts_diff import CountsDiff
    from perfkit.exploration.exploration import Exploration

PER = {"work": 1000.0, "time": 1000.0, "seconds": 1.0}


def throughput_label(samples: Samples) -> str:
    """Return the words for W/T: IPC where they are instructions and cycles."""
    if normalise(samples.work_event) in WORK_EVENTS and normalise(samples.time_event) in TIME_EVENTS[:-1]:
        return "IPC (instructions per cycle)"
    return per_unit(samples.work_event, samples.time_event)


def rate_label(samples: Samples, per: str) -> str:
    """Return the words for an event's rate: ``"work"`` gives "per 1000 instructions"."""
    if per == "seconds":
        return "per second"
    return f"per 1000 {samples.work_event if per == 'work' else samples.time_event}"


def event_rates(samples: Samples, per: str) -> "pd.Series":
    """Return each event's total count over the total of its base, in the units of `rate_label`.

    The base is the work, the time or the seconds of the samples in which both are known; NaN where it is zero.
    """
    table = samples.table
    known = table[table["count"].notna() & table[per].notna()]
    total = known.groupby("event", observed=True)[["count", per]].sum()
    return PER[per] * total["count"] / total[per].where(total[per] > 0)


def plot_over_time(
    samples: Samples,
    events: Sequence[str] = (),
    *,
    per: str = "work",
    window: tuple[float, float] | None = None,
) -> "Figure":
    """Draw the throughput and the rates of some events over time, one panel each.

    Parameters
    ----------
    samples : Samples
        All runs; they are laid end to end.
    events : sequence of str
        Whose rates to draw.
    per : "work", "time" or "seconds"
        What a rate is over: per 1000 units of work or of time, or per second.
    window : (low, high), optional
        Positions on the time axis to mark.
    """
    from matplotlib.figure import Figure

    timeline = TimeAxis.of(samples)
    check_events(samples, events)
    figure = Figure(figsize=(10, 1.8 + 1.5 * len(events)), layout="constrained")
    axes = figure.subplots(1 + len(events), 1, sharex=True, squeeze=False)[:, 0]
    _strip(axes[0], timeline, timeline.throughput, throughput_label(samples), SERIES[0])
    for i, event in enumerate(events):
        rate = timeline.rates(event, per) * PER[per]
        label = f"{abbreviate(event, 60)}, {rate_label(samples, per)}"
        _strip(axes[i + 1], timeline, rate, label, SERIES[(i + 1) % len(SERIES)])
    if window is not None:
        for ax in axes:
            ax.axvspan(window[0], window[1], color=CLOUD, alpha=0.3, lw=0)
    _name_positions(axes[-1], timeline)
    if kind_note(samples.kind):
        axes[0].set_title(kind_note(samples.kind), fontsize=8, loc="right", color=ACCENT)
    return figure


def plot_throughput(samples: Samples, ax: "Axes | None" = None) -> "Axes":
    """Draw the throughput over time, all runs laid end to end; return the axes."""
    ax = axes_or_new(ax, 10, 2.2)
    timeline = TimeAxis.of(samples)
    _strip(ax, timeline, timeline.throughput, throughput_label(samples), SERIES[0])
    _name_positions(ax, timeline)
    if kind_note(samples.kind):
        ax.set_title(kind_note(samples.kind), fontsize=8, loc="right", color=ACCENT)
    return ax


def _name_positions(ax: "Axes", timeline: TimeAxis) -> None:
    """Name the time axis; intervals have whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.set_xlabel(position_label(timeline))
    if timeline.unit == "intervals":
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def position_label(timeline: TimeAxis) -> str:
    """Return the words for the time axis."""
    joined = ", runs end to end" if len(timeline.starts) > 1 else ""
    short_unit = {"seconds": "s", "milliseconds": "ms", "microseconds": "µs"}.get(timeline.unit)
    return f"time ({short_unit}{joined})" if short_unit else f"interval (number{joined})"


def stretch_label(timeline: TimeAxis, low: float, high: float) -> str:
    """Return the words for a stretch of the time axis."""
    ends = f"{short(low, 4)} to {short(high, 4)}"
    return f"intervals {ends}" if timeline.unit == "intervals" else f"{ends} {timeline.unit}"


def check_events(samples: Samples, events: Sequence[str]) -> None:
    """Raise an error that names the nearest events, where one is not in the samples."""
    known = [str(e) for e in samples.table["event"].cat.categories]
    for event in events:
        if event not in known:
            near = closest(event, known) or known[:3]
            raise SettingError(f"unknown event {event!r}; did you mean {', '.join(near)}? There are {len(known)}.")


def _strip(ax: "Axes", timeline: TimeAxis, values: np.ndarray, label: str, colour: str) -> None:
    for _, start in timeline.starts[1:]:
        ax.axvline(start, color=CLOUD, lw=0.8, ls=":")
    ax.plot(*timeline.line(values), color=colour, lw=1)
    ax.set_title(label, fontsize=9, loc="left")
    ax.set_ylim(bottom=0)
    ax.grid(color="#e4e4e4", lw=0.6)


def plot_compared(exploration: "Exploration", ax: "Axes | None" = None) -> "Axes":
    """Draw time per work of each run of an exploration, the slowest on top; return the axes."""
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")[1] if ax is None else ax
    of_run = exploration.compared["time per work"].dropna().sort_values().tail(20)
    ax.barh(range(len(of_run)), of_run.to_numpy(), color=ACCENT, height=0.6)
    name_rows(ax, [str(name) for name in of_run.index])
    time, _, work = exploration.facts.get("time and work", "").partition(" and ")
    ax.set_xlabel(per_unit(time, work) if work else "time per work")
    mark_kind(ax, exploration.kind)
    return ax


def _ratio(value: float) -> str:
    """Return a ratio of rates in two decimals; in three digits from 100 on, and where two decimals show nothing."""
    return f"{value:.2f}" if 0.01 <= value < 100 else short(value)


def plot_counts_diff(found: "CountsDiff", top: int = 12, ax: "Axes | None" = None) -> "Axes":
    """Draw how many times as large each event's rate is in B, the largest factors on top; return the axes."""
    table = found.to_frame().dropna(subset="ratio").head(top).iloc[::-1]
    ax = axes_or_new(ax, 8, 0.3 * len(table) + 1.4)
    ax.barh(
        range(len(table)),
        table["ratio"] - 1,
        left=1,
        color=[LESS if ratio < 1 else MORE for ratio in table["ratio"]],
        height=0.6,
    )
    name_rows(ax, [str(event) for event in table["event"]])
    # Equal rates have no bar, so each has its number; and a scale that rounding errors do not fill.
    ends = table["ratio"].clip(lower=1)
    for place, (ratio, end) in enumerate(zip(table["ratio"], ends, strict=True)):
        ax.annotate(_ratio(ratio), (end, place), (5, 0), textcoords="offset points", va="center", fontsize="small")
    low, high = min(table["ratio"].min(), 0.9), max(ends.max(), 1.1)
    ax.set_xlim(low - 0.03 * (high - low), high + 0.15 * (high - low))  # the numbers stand right of the bars
    ax.axvline(1, color=CLOUD, lw=0.8)
    ax.set_xlabel(f"rate in B over rate in A (per 1000 {found.events[1]}; 1: the same)")
    ax.set_title(" to ".join(cut_apart(found.names, 34)), fontsize="medium", loc="left")
    mark_kind(ax, found.kind)
    return ax
