"""Static pictures of SPIRE: one event's roofline with samples on it, and the picture of a whole exploration."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.plots.samples import throughput_label
from perfkit.plots.style import ACCENT, AREA_COLOURS, CLOUD, ROOF, abbreviate, area_colour, mark_kind, short
from perfkit.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NONE = (np.empty(0), np.empty(0), np.empty(0, dtype="int64"))


def event_points(samples: Samples | None, event: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return intensity and throughput of an event's samples, and their rows in the table.

    Samples that were not measured, and those with neither work nor events, have no place in a picture. The intensity
    of a sample without any of the event is infinity.
    """
    if samples is None or event not in samples.table["event"].cat.categories:
        return _NONE
    column = samples.table["event"]
    rows = np.flatnonzero(column.cat.codes.to_numpy() == column.cat.categories.get_loc(event))
    time, work, count = (samples.table[c].to_numpy()[rows] for c in ("time", "work", "count"))
    usable = (time > 0) & np.isfinite(work) & np.isfinite(count) & ((work > 0) | (count > 0))
    time, work, count = time[usable], work[usable], count[usable]
    with np.errstate(divide="ignore"):
        return work / count, work / time, rows[usable]


def draw_roofline(
    ax: "Axes",
    roofline: Any,
    *,
    training: Samples | None = None,
    samples: Samples | None = None,
    colour: str = ACCENT,
    log: bool = True,
    bound: float | None = None,
) -> None:
    """Draw a roofline, the training's samples in grey and a workload's in colour; infinity stands at the right edge.

    Parameters
    ----------
    ax : Axes
    roofline : Roofline
    training, samples : Samples, optional
        What it was fitted to, and what is analysed.
    colour : str
        Of the analysed samples.
    log : bool
        Logarithmic axes; they bend the straight segments.
    bound : float, optional
        The workload's bound, as a dashed line.
    """
    clouds = [event_points(training, roofline.event)[:2], event_points(samples, roofline.event)[:2]]
    x = np.concatenate([c[0] for c in clouds] + [np.asarray(roofline.breakpoints)[1:, 0]])
    infinite = bool(np.isposinf(x).any())
    finite = x[np.isfinite(x) & (x > 0)]
    low, high = float(finite.min()), float(finite.max())
    edge = high * (high / low) ** 0.12 if log else high * 1.12
    styles = ({"s": 6, "color": CLOUD, "label": "training"}, {"s": 16, "color": colour, "ec": ROOF, "label": "workload"})
    for points, style in zip(clouds, styles, strict=True):
        if len(points[0]):
            at = np.where(np.isposinf(points[0]), edge, points[0])
            ax.scatter(at, points[1], lw=0.4, zorder=2, **style)
    at, height = roofline.curve(low / 1.5 if log else high * 1e-6, high * (1.5 if log else 1.04))
    ax.plot(at, height, color=ROOF, lw=2, zorder=3, label="roofline")
    corners = np.asarray(roofline.breakpoints)
    ax.plot(corners[1:, 0], corners[1:, 1], "o", mfc="white", mec=ROOF, ms=5, zorder=4)
    if np.isfinite(roofline.peak_intensity):
        ax.axvline(roofline.peak_intensity, color=ROOF, lw=0.8, ls="--")
    if bound is not None:
        ax.axhline(bound, color=ACCENT, lw=1.2, ls="--", label=f"bound {short(bound)}")
    if log:
        ax.set(xscale="log", yscale="log")
    else:
        ax.set(xlim=(0, edge * 1.03), ylim=(0, None))
    if infinite:
        ax.plot([edge], [roofline.at_infinity], marker="_", color=ROOF, ms=14, mew=2, zorder=3)
        ax.annotate("∞", (edge, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=11)
    ax.grid(color="#e4e4e4", lw=0.6)


def plot_ranking(ax: "Axes", ranking: Any, *, areas: Callable[[str], str | None], top: int, chosen: str = "") -> None:
    """Draw the lowest bounds as bars coloured by area, with their bootstrap spread and the measured throughput."""
    table = ranking.to_frame(details=True)
    table = table[table["status"] == "ok"].head(top)
    at = np.arange(len(table))
    names = [str(e) for e in table["event"]]
    colours = [area_colour(areas(e)) for e in names]
    edges = [ROOF if e == chosen else "none" for e in names]
    ax.barh(at, table["throughput_bound"], color=colours, edgecolor=edges, lw=1.5)
    ax.hlines(at, table["low"], table["high"], color=ROOF, lw=1.5)
    ax.axvline(ranking.throughput, color=ROOF, ls=":", lw=1.5)
    ax.annotate(
        f"measured {short(ranking.throughput)}", (ranking.throughput, -0.6), xytext=(3, 0), textcoords="offset points",
        fontsize=8, va="bottom",
    )  # fmt: skip
    ax.set_yticks(at, [abbreviate(e, 36) for e in names], fontsize=8)
    ax.invert_yaxis()
    present = [a for a in AREA_COLOURS if AREA_COLOURS[a] in colours]
    for area in present:
        ax.barh([0], [0], color=AREA_COLOURS[area], label=area)
    ax.legend(fontsize=8, loc="lower right")


def plot_exploration(
    model: Any,
    samples: Samples,
    ranking: Any,
    event: str,
    *,
    training: Samples | None = None,
    areas: Callable[[str], str | None] = lambda _: None,
    top: int = 12,
    log: bool = True,
) -> "Figure":
    """Draw a ranking beside the roofline of one of its events: the static picture of `SpireExplorer`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    label = throughput_label(samples)
    plot_ranking(left, ranking, areas=areas, top=top, chosen=event)
    left.set_xlabel(f"bound of {label}")
    left.set_title("Lowest bounds first", fontsize=10, loc="left")
    table = ranking.to_frame().set_index("event")
    bound = float(table.loc[event, "throughput_bound"]) if event in table.index else None
    draw_roofline(
        right,
        model.rooflines[event],
        training=training,
        samples=samples,
        colour=area_colour(areas(event)),
        log=log,
        bound=bound if bound is not None and np.isfinite(bound) else None,
    )
    right.set_xlabel(f"intensity: {samples.work_event} per {event}")
    right.set_ylabel(label)
    right.set_title(abbreviate(event, 60), fontsize=10, loc="left")
    right.legend(fontsize=8, loc="lower right")
    mark_kind(left, samples.kind)
    return figure
