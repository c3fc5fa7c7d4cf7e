"""Static pictures of SPIRE: a roofline with its samples, a ranking, top-down fractions."""

from collections.abc import Iterable
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from perfkit.errors import SettingError
from perfkit.fitters.spire.model import SpireModel
from perfkit.fitters.spire.piecewise import Roofline
from perfkit.fitters.spire.points import arrange
from perfkit.fitters.spire.ranking import Ranking
from perfkit.fitters.spire.roofline import corner_samples
from perfkit.fitters.topdown import FRACTIONS, TopDownFractions
from perfkit.plots.style import abbreviate, axes_or_new, cut_apart, name_rows, plain_ticks
from perfkit.samples.areas import AREAS, COLOURS, OTHER, Areas
from perfkit.samples.events import per_unit
from perfkit.samples.table import Samples

_TRAINING, _ANALYSED, _BOUND = "#808080", "#D55E00", "#0072B2"
_BARS = {"retiring": "#56B4E9", "front_end": COLOURS["front-end"], "bad_speculation": COLOURS["bad speculation"]}


def event_points(samples: Samples, event: str, most: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Return intensity, throughput and time of an event's usable samples, in their order.

    Parameters
    ----------
    samples : Samples
        Training or analysed samples.
    event : str
        One of its events.
    most : int, optional
        Draw at most this many at random, but keep every sample that a roofline could touch (left hull, Pareto front),
        so that a thinned picture still shows what the bound rests on.
    seed : int
        Of the draw.
    """
    points = arrange(samples.select(events=[event]))
    time, intensity, throughput = points.of(points.events.index(event))
    if most is not None and len(time) > most:
        corners = corner_samples(intensity, throughput)
        rest = np.setdiff1d(np.arange(len(time)), corners)
        drawn = np.random.default_rng(seed).choice(rest, max(0, min(len(rest), most - len(corners))), replace=False)
        keep = np.sort(np.concatenate([corners, drawn]))
        time, intensity, throughput = time[keep], intensity[keep], throughput[keep]
    return pd.DataFrame({"intensity": intensity, "throughput": throughput, "time": time})


def plot_roofline(
    model: SpireModel,
    event: str,
    training: Samples | None = None,
    analysed: Samples | None = None,
    *,
    scale: Literal["log", "linear"] = "log",
    most: int = 10_000,
    ax: Any = None,
) -> Any:
    """Draw one event's roofline, as SPIRE's Fig. 7, with the training and the analysed samples; return the axes.

    Samples at infinite intensity (the event did not happen) are drawn at the right edge, in a band of their own.
    ``scale="linear"`` shows the bound's segments straight.
    """
    if scale not in ("log", "linear"):
        raise SettingError(f"scale is log or linear; found {scale!r}")
    roofline = model.rooflines[event]
    ax = axes_or_new(ax, 7, 4.2)
    clouds = []
    for samples, colour, label in ((training, _TRAINING, "training"), (analysed, _ANALYSED, "analysed")):
        if samples is not None and event in samples.events:
            clouds.append((event_points(samples, event, most), colour, f"{label} samples ({samples.kind})"))
    low, high = _range(roofline, [c[0] for c in clouds])
    edge = high * (1.6 if scale == "log" else 1.06)
    for points, colour, label in clouds:
        at = points["intensity"].where(np.isfinite(points["intensity"]), edge)
        ax.scatter(at, points["throughput"], s=7, color=colour, alpha=0.5, linewidths=0, label=label, rasterized=True)
    at, bound = roofline.curve(low, high, 400)
    if scale == "linear":
        at, bound = np.append(0.0, at), np.append(0.0, bound)
    ax.plot(at, bound, color=_BOUND, linewidth=1.8, label="bound")
    corners = roofline.breakpoints[(roofline.breakpoints[:, 0] >= low) & (roofline.breakpoints[:, 0] <= high)]
    ax.plot(corners[:, 0], corners[:, 1], "o", color=_BOUND, markersize=3.5)
    ax.plot([edge], [roofline.at_infinity], marker="_", markersize=14, color=_BOUND, markeredgewidth=2)
    ax.axvline((high * edge) ** 0.5 if scale == "log" else (high + edge) / 2, color="0.85", linewidth=0.8)
    if np.isfinite(roofline.peak_intensity) and low <= roofline.peak_intensity <= high:
        ax.axvline(roofline.peak_intensity, color="0.2", linewidth=1.2, linestyle=":", label="peak")
    # On the axes' own scale: a height of 0 is nowhere on a logarithmic one.
    foot = ax.get_xaxis_transform()
    ax.annotate("∞", (edge, 0), (0, 4), xycoords=foot, textcoords="offset points", ha="center", color="0.3")
    ax.set_xscale(scale)
    if scale == "log":
        ax.set_yscale("log")
        ax.set_xlim(low / 1.1, edge * 1.25)
        _log_floor(ax, clouds, roofline)
    else:
        ax.set_xlim(0, edge * 1.04)
        ax.set_ylim(0, roofline.peak * 1.08)
    ax.set_xlabel(f"operational intensity ({model.work_event} per {abbreviate(event)})")
    # Long names of events would reach over the axis; the other label names the work.
    per = per_unit(model.work_event, model.time_event)
    ax.set_ylabel(f"throughput ({per})" if len(per) < 30 else "throughput (work per time)")
    plain_ticks(ax)
    ax.set_title(_labelled(event, model.kind, analysed.kind if analysed is not None else model.kind))
    # Small, pale dots tell no colours apart.
    # Below the picture: samples may lie anywhere in it.
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
    for handle in ax.legend(fontsize="small", frameon=False, markerscale=3, **below).legend_handles:
        handle.set_alpha(1.0)
    return ax


def plot_ranking(ranking: Ranking, top: int = 10, areas: Areas | None = None, ax: Any = None) -> Any:
    """Draw the lowest bounds as bars coloured by area, with spread and measured throughput; return the axes."""
    if top < 1:
        raise SettingError(f"top is a number of events of at least 1; found {top}")
    ax = axes_or_new(ax, 7, 4.2)
    table = ranking.to_frame(details=True)
    table = table[table["status"] == "ok"].head(top)
    areas = areas or Areas.load()
    area = [areas.of(e) for e in table["event"]]
    place = np.arange(len(table))
    ax.barh(place, table["throughput_bound"], color=[COLOURS[a] for a in area], height=0.7)
    if ranking.bootstrap:
        wide = np.vstack([table["throughput_bound"] - table["low"], table["high"] - table["throughput_bound"]])
        ax.errorbar(
            table["throughput_bound"],
            place,
            xerr=np.maximum(wide, 0),
            fmt="none",
            ecolor="0.2",
            elinewidth=1,
            capsize=2,
        )
    events = cut_apart([str(e) for e in table["event"]], 32)
    names = [f"{e} *" if c else e for e, c in zip(events, table["candidate"], strict=True)]
    ax.set_yticks(place, names, fontsize="small")
    ax.invert_yaxis()
    measured = ax.axvline(ranking.throughput, color="black", linestyle="--", linewidth=1)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[a]) for a in (*AREAS, OTHER) if a in area]
    labels = [a for a in (*AREAS, OTHER) if a in area]
    ax.legend(
        [*handles, measured],
        [*labels, "measured"],
        fontsize="small",
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1, 1),
    )
    ax.set_xlabel(f"mean bound ({per_unit(ranking.work_event, ranking.time_event)});  * = candidate")
    ax.set_title(_labelled("lowest bounds", ranking.training_kind, ranking.kind))
    return ax


def plot_topdown(fractions: TopDownFractions, ax: Any = None) -> Any:
    """Draw the four level-1 fractions of each run as one stacked bar; return the axes."""
    ax = axes_or_new(ax, 7, 4.2)
    names = [str(r) for r in fractions.runs.index]
    left = np.zeros(len(names))
    for part in FRACTIONS:
        values = fractions.runs[part].to_numpy()
        ax.barh(
            range(len(names)),
            values,
            left=left,
            color=_BARS.get(part, "#E69F00"),
            label=part.replace("_", " "),
            height=0.7,
        )
        left = left + np.nan_to_num(values)
    name_rows(ax, names)
    ax.invert_yaxis()
    ax.set_xlabel(f"share of issue slots ({fractions.scheme})")
    ax.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4)
    ax.set_title(_labelled("top-down, level 1", fractions.kind))
    return ax


# ------------------------------------------------------------------ helpers


def _labelled(title: str, *kinds: str) -> str:
    """Return the title, with what the data is where it is not measured."""
    other = sorted({k for k in kinds if k != "measured"})
    return f"{title}  [{', '.join(other)} data]" if other else title


def _range(roofline: Roofline, clouds: Iterable[pd.DataFrame]) -> tuple[float, float]:
    """Return the finite, positive range of intensities to show."""
    known = [roofline.breakpoints[1:, 0], *(c["intensity"].to_numpy() for c in clouds)]
    at = np.concatenate(known)
    at = at[(at > 0) & np.isfinite(at)]
    return float(at.min()) / 1.3, float(at.max()) * 1.3


def _log_floor(ax: Any, clouds: list[tuple[pd.DataFrame, str, str]], roofline: Roofline) -> None:
    heights = np.concatenate([roofline.breakpoints[1:, 1], *(c[0]["throughput"].to_numpy() for c in clouds)])
    ax.set_ylim(heights[heights > 0].min() / 1.5, roofline.peak * 1.5)
