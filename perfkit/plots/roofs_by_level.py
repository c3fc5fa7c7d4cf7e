"""Several kernels, sizes or builds in one roofline plot: throughput roofs in black, one intensity per level of memory.

A kernel is a row of points at its performance: for each level of memory that it accesses the operational intensity of
that level alone (flops per byte accessed there), so that each point stands below its own level's bandwidth.
"""

from __future__ import annotations

import io
import math
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.errors import SettingError
from perfkit.plots.inside import keep_inside
from perfkit.plots.roof_labels import RoofLabel, label_roofs, paper_of
from perfkit.plots.style import ROOF, SERIES, axes_or_new, ink_on, plain_ticks
from perfkit.simulators.dag.core import MEMORY
from perfkit.simulators.dag.extended_roofline import NAMES

if TYPE_CHECKING:
    from perfkit.simulators.dag.extended_roofline import Roofs
    from perfkit.simulators.dag.measures import Schedule

_MARKERS = {"L1": "o", "L2": "s", "L3": "^", "mem": "D"}
_ALIKE = 0.06  # relative distance of two roofs that are drawn as one
_MARKER = 6  # points that a kernel's point takes around its middle
_TITLE = 90  # letters of a line of doubted names
_LINE = 11  # points from one label to the next
_LEFT = 0.4  # of the room to the right end that the axes keep beside the kernels' names
_MARGIN = 0.015  # of the figure's width behind the names: letters of other resolutions are not equally wide
_SMALLEST = 4  # points of a letter that can still be read
_LIGHT = "#DDDDDD"  # roofs on a dark background
HOST = "#8a4b08"  # what was measured of the host: not a colour of the kernels
_SVG = "http://www.w3.org/2000/svg"


def plot_levels(
    rooflines: Mapping[str, Roofs] | Sequence[Roofs],
    measured: Mapping[str, tuple[float, float, float]] | None = None,
    ax: Any = None,
    host: Mapping[str, tuple[float, float, float]] | None = None,
) -> Any:
    """Draw the throughput roofs of a core and the performance of kernels below them.

    Parameters
    ----------
    rooflines
        By a name each, or those of the schedules.
    measured
        By the same names flops per cycle: the value, and the ends of its error bar.
    ax
        Where to draw.
    host
        By level the bandwidth that a host was measured to have, in bytes per cycle, and the ends of its error bar
        (`perfkit.machine.overlays.measured_bandwidths`): dashed roofs with a band.

    Returns
    -------
    matplotlib Axes, whose artists with a title (`svg_with`) have it as ``gid``

    Raises
    ------
    SettingError
        There is nothing to draw, or the cores differ.
    """
    named = dict(rooflines) if isinstance(rooflines, Mapping) else {r.schedule.name: r for r in rooflines}
    if not named:
        raise SettingError("there is no roofline to draw")
    if len({r.schedule.core.name for r in named.values()}) > 1:
        raise SettingError("the rooflines are of several cores, whose roofs differ: draw a picture for each")
    measured = measured or {}
    ax = axes_or_new(ax, 9, 5.5)
    schedules = {name: r.schedule for name, r in named.items()}
    points = {name: _intensities(s) for name, s in schedules.items()}
    at = [i for found in points.values() for i in found.values()] or [1.0]
    low, high = min(at) / 4, max(at) * 12
    heights = [s.performance for s in schedules.values()] + [value for m in measured.values() for value in m]
    first = next(iter(schedules.values()))
    peak = max(s.peak("comp" if s.unit == "flops" else "I") for s in schedules.values())
    top = 2.5 * (peak if math.isfinite(peak) else max(heights) * 4)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(min(heights) / 2.5, top))
    ax.set_xlabel(f"operational intensity of each level of memory ({first.unit}/byte)")
    ax.set_ylabel(f"performance ({first.unit}/cycle)")
    doubted = textwrap.fill(", ".join(name for name, s in schedules.items() if s.doubts), _TITLE)
    title = f"{first.core.name} (simulated)" + (", measured beside it" if measured else "")
    ax.set_title(title + (f"\nnot to be relied on (the verdict says why): {doubted}" if doubted else ""))
    plain_ticks(ax)
    ax.grid(True, which="major", alpha=0.25)
    _draw_kernels(ax, schedules, points, measured)
    keep_inside(ax)
    used = [level for level in MEMORY if any(level in found for found in points.values())]
    ink = _ink(ax)
    handles = [ax.plot([], [], _MARKERS[level], color=ink, linestyle="none", label=NAMES[level])[0] for level in used]
    if measured:
        handles.append(ax.plot([], [], "x", color=ink, linestyle="none", label="measured")[0])
    labels = _draw_roofs(ax, _bandwidths(list(schedules.values())))
    if host:
        labels += _draw_host(ax, {level: ends for level, ends in host.items() if level in used})
        handles.append(ax.plot([], [], "--", color=HOST, label="bandwidth, measured")[0])
    if math.isfinite(peak):
        _draw_peak(ax, peak, first.unit)
    _draw_legend(ax, handles)
    ax.figure.draw_without_rendering()
    crowded = label_roofs(ax, labels, _taken(ax))
    if crowded:
        for roof in crowded:
            style = "--" if roof.colour == HOST else "-"
            handles.append(ax.plot([], [], style, color=roof.colour, label=roof.words)[0])
        _draw_legend(ax, handles)
    return ax


def svg_with(figure: Any, titles: Mapping[str, str]) -> str:
    """Return a figure as SVG with titles (by an artist's ``gid``) that appear where the pointer rests."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", bbox_inches="tight")
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ET.fromstring(drawn.getvalue())  # noqa: S314 - what matplotlib has just written
    for element in root.iter():
        if (title := titles.get(element.get("id", ""))) is not None:
            said = ET.Element(f"{{{_SVG}}}title")
            said.text = title
            element.insert(0, said)
    return ET.tostring(root, encoding="unicode")


def level_titles(rooflines: Mapping[str, Roofs], measured: Mapping[str, tuple[float, float, float]]) -> dict[str, str]:
    """Return what the points of `plot_levels` say where the pointer rests, by their ``gid``."""
    found = {}
    for name, roofline in rooflines.items():
        s = roofline.schedule
        nearest = roofline.roofs[0]
        for level, intensity in _intensities(s).items():
            found[_gid(name, level)] = (
                f"{name}: {s.performance:.3g} {s.unit}/cycle, {intensity:.3g} {s.unit}/byte of {NAMES[level]} "
                f"(simulated); nearest roof: {nearest.label} ({nearest.distance:.2f})"
            )
        if name in measured:
            value, least, most = measured[name]
            found[_gid(name, "measured")] = f"{name}: {value:.3g} {s.unit}/cycle measured ({least:.3g} to {most:.3g})"
    return found


def host_gid(level: str) -> str:
    """Return the ``gid`` of a measured roof."""
    return f"host roof: {level}"


def host_titles(host: Mapping[str, tuple[float, float, float]]) -> dict[str, str]:
    """Return what the measured roofs of `plot_levels` say where the pointer rests, by their ``gid``."""
    return {
        host_gid(level): f"{NAMES[level]}: {value:.3g} bytes/cycle measured ({least:.3g} to {most:.3g})"
        for level, (value, least, most) in host.items()
    }


def _gid(name: str, part: str) -> str:
    return f"{name}: {part}"


def _intensities(s: Schedule) -> dict[str, float]:
    """Return the operational intensity of each level that a kernel accesses; all its accesses are of L1."""
    moved = {level: _moved(s, level) for level in MEMORY if s.n_nodes(level)}
    return {level: s.work / (s.traffic if level == "L1" else found) for level, found in moved.items()}


def _moved(s: Schedule, level: str) -> float:
    """Return the bytes that a level hands over: whole lines where the core moves these, of L1 what is accessed."""
    below = s.settings.get("below_l1")
    lines = level != "L1" and (bool(s.core.whole_lines) if below is None else below == "line")
    return s.n_nodes(level) * s.core.line if lines else s.bytes(level)


def _bandwidths(schedules: Sequence[Schedule]) -> dict[str, float]:
    """Return the bytes per cycle of each level (of L1, those of the widest accesses)."""
    found: dict[str, float] = {}
    for s in schedules:
        for level in MEMORY:
            if s.n_nodes(level) and math.isfinite(s.peak(level)):
                bytes_per_cycle = s.peak(level) * _moved(s, level) / s.elements(level)
                found[level] = max(found.get(level, 0.0), bytes_per_cycle)
    return found


def _ink(ax: Any) -> str:
    """Return the colour of roofs: light on a dark background; what shows through none is taken for light."""
    behind = ax.get_facecolor()
    return _LIGHT if behind[3] and ink_on(behind) == "white" else ROOF


def _draw_peak(ax: Any, peak: float, unit: str) -> None:
    """Draw the highest roof, which is level, and its label at the right."""
    ax.axhline(peak, color=_ink(ax), linewidth=1.8)
    kind = "computation" if unit == "flops" else "integer work"
    ax.annotate(
        f"peak {kind}: {peak:.3g} {unit}/cycle", (ax.get_xlim()[1], peak), xytext=(-4, 3), textcoords="offset points",
        ha="right", va="bottom", fontsize=8, color=_ink(ax), bbox=paper_of(ax),
    )  # fmt: skip


def _draw_roofs(ax: Any, bandwidths: Mapping[str, float]) -> list[RoofLabel]:
    """Draw the core's bandwidths; return their labels, one for those that lie on one another."""
    low, high = ax.get_xlim()
    x = np.geomspace(low, high, 3)
    groups: list[list[str]] = []
    for level in sorted(bandwidths, key=lambda name: -bandwidths[name]):
        if groups and bandwidths[level] > bandwidths[groups[-1][0]] * (1 - _ALIKE):
            groups[-1].append(level)
        else:
            groups.append([level])
    found = []
    for levels in groups:
        beta = bandwidths[levels[0]]
        ax.plot(x, beta * x, color=_ink(ax), linewidth=1.4)
        words = f"{', '.join(NAMES[level] for level in levels)}: {beta:.3g} bytes/cycle"
        found.append(RoofLabel(beta, words, _ink(ax)))
    return found


def _draw_host(ax: Any, host: Mapping[str, tuple[float, float, float]]) -> list[RoofLabel]:
    """Draw measured bandwidths as dashed roofs, each with the band and the bar of its spread; return their labels."""
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    x = np.geomspace(low, high, 3)
    for k, (level, (value, least, most)) in enumerate(host.items()):
        ax.plot(x, value * x, color=HOST, linewidth=1.2, linestyle="--", gid=host_gid(level), zorder=3)
        ax.fill_between(x, least * x, most * x, color=HOST, alpha=0.2, linewidth=0)
        # Along the roof, the bars of different levels apart.
        height = bottom * (top / bottom) ** (0.8 - 0.08 * k)
        ax.errorbar(
            [height / value], [height], yerr=[[height * (1 - least / value)], [height * (most / value - 1)]],
            fmt="none", ecolor=HOST, capsize=3, elinewidth=1.5,
        )  # fmt: skip
    return [RoofLabel(value, f"{NAMES[level]} measured: {value:.3g}", HOST) for level, (value, _, _) in host.items()]


def _draw_legend(ax: Any, handles: Sequence[Any]) -> None:
    ax.legend(
        handles=handles, fontsize=8, loc="lower right", title="performance, at the\nintensity of", title_fontsize=8
    )


def _taken(ax: Any) -> list[Any]:
    """Return the boxes, in pixels, of what is drawn inside the axes beside the roofs, once it has its place."""
    from matplotlib.collections import LineCollection
    from matplotlib.transforms import Bbox

    around = _MARKER * ax.figure.dpi / 72
    boxes = [ax.get_legend().get_window_extent(), *(text.get_window_extent() for text in ax.texts)]
    for line in ax.lines:
        if line.get_marker() not in ("None", "", None):
            ends = ax.transData.transform(line.get_xydata())
            boxes += [Bbox([end - around, end + around]) for end in ends]
        elif len(set(line.get_ydata())) == 1:
            boxes.append(line.get_window_extent())
    for bars in ax.collections:
        if isinstance(bars, LineCollection):
            boxes += [Bbox(ax.transData.transform(bar)) for bar in bars.get_segments()]
    inside = (Bbox.intersection(box, ax.bbox) for box in boxes)
    return [box for box in inside if box is not None]


def _draw_kernels(
    ax: Any,
    schedules: Mapping[str, Schedule],
    points: Mapping[str, Mapping[str, float]],
    measured: Mapping[str, tuple[float, float, float]],
) -> None:
    ends = []
    colours = SERIES if len(schedules) <= len(SERIES) else [f"C{k}" for k in range(10)]
    for k, (name, s) in enumerate(schedules.items()):
        colour = colours[k % len(colours)]
        found = points[name] or {"L1": ax.get_xlim()[1] / 2}
        xs = sorted(found.values())
        ax.plot(xs, [s.performance] * len(xs), color=colour, linewidth=1, alpha=0.7)
        for level, x in found.items():
            ax.plot([x], [s.performance], _MARKERS[level], color=colour, markersize=7, gid=_gid(name, level))
        if name in measured:
            value, least, most = measured[name]
            ax.errorbar(
                [xs[0]], [value], yerr=[[max(0.0, value - least)], [max(0.0, most - value)]], fmt="x", color=colour,
                capsize=3, markersize=8, markeredgewidth=2,
            )  # fmt: skip
            ax.plot([xs[0]], [value], "x", color=colour, markersize=8, gid=_gid(name, "measured"))
        ends.append((s.performance, xs[-1], name, colour))
    _draw_names(ax, ends)


def _draw_names(ax: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Write the kernels' names in a column at the right, each beside its performance or above the one below it.

    Where the names would leave the figure, or reach into other axes, these axes become narrower by as much; where too
    little would be left of them, the names become smaller, too.
    """
    bottom, top = ax.get_ylim()
    tall = ax.get_window_extent().height * 72 / ax.figure.dpi
    size = 8 * min(1.0, tall / (_LINE * len(ends)))
    line = min(_LINE / tall, 1 / len(ends))
    heights, free = [], 0.0
    for performance, *_ in sorted(ends):
        heights.append(max(math.log(performance / bottom) / math.log(top / bottom), free))
        free = heights[-1] + line
    below = 1.0
    for k in reversed(range(len(heights))):  # none above the axes, where the title is
        heights[k] = min(heights[k], below)
        below = heights[k] - line
    names = [
        ax.annotate(
            f"{name}: {performance:.3g}", (x, performance), xytext=(1.01, height), textcoords="axes fraction",
            ha="left", va="center", fontsize=size, color=colour, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.5, "relpos": (0, 0.5)},
        )
        for (performance, x, name, colour), height in zip(sorted(ends), heights, strict=True)
    ]  # fmt: skip
    _make_room(ax, names)


def _make_room(ax: Any, names: Sequence[Any]) -> None:
    """Make axes narrower, and names smaller, until the names end before the figure or the axes beside these do."""
    if ax.figure.get_layout_engine() is not None:  # it does so itself
        return
    ax.figure.draw_without_rendering()
    here = ax.get_window_extent()
    # Axes beside these may get their labels later: as much as these have.
    labels = here.x0 - min(here.x0, ax.yaxis.get_tightbbox().x0)
    beside = [other.get_window_extent() for other in ax.figure.axes if other is not ax and other.get_visible()]
    starts = [b.x0 - labels for b in beside if b.x0 >= here.x1 and b.y0 < here.y1 and here.y0 < b.y1]
    end = min([ax.figure.bbox.x1, *starts]) - _MARGIN * ax.figure.bbox.width
    widest = _widest(names)
    most = (1 - _LEFT) * (end - here.x0)
    if widest > most:
        for name in names:
            name.set_fontsize(max(_SMALLEST, name.get_fontsize() * most / widest))
        widest = _widest(names)
    width = min(here.width, (end - here.x0 - widest) / 1.01)
    if 0 < width < here.width:
        place = ax.get_position()
        ax.set_position([place.x0, place.y0, place.width * width / here.width, place.height])
    if ax.xaxis.label.get_window_extent().width > ax.get_window_extent().width:
        ax.set_xlabel(
            ax.get_xlabel().replace("operational intensity of each level of memory", "intensity of each level")
        )


def _widest(names: Sequence[Any]) -> float:
    """Return the width of the widest name in pixels, without the line to its point."""
    from matplotlib.text import Text

    return max(Text.get_window_extent(name).width for name in names)
