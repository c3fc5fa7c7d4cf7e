"""RooflineFigure: one roofline, the training's cloud behind it and a workload's samples on it."""

from typing import Any

import ipywidgets as widgets
import numpy as np

from perfkit.plots.spire_views import on_bound
from perfkit.plots.style import CLOUD, OUTSIDE, abbreviate, short
from perfkit_widgets import figures
from perfkit_widgets.base import keys
from perfkit_widgets.thinning import LIMIT, thin

Points = tuple[np.ndarray, np.ndarray]
_NONE = (np.empty(0), np.empty(0))
_OUTLINED = 500  # beyond so many, points have no dark rim


class RooflineFigure(widgets.VBox):
    """The picture of one roofline on logarithmic or linear axes.

    Samples without any of the event (I = infinity) stand at the right edge, at the tick "∞". On logarithmic axes
    samples with zero throughput or intensity stand on the edge.

    Parameters
    ----------
    throughput : str
        The words for W/T.
    limit : int
        How many points of a cloud are drawn; beyond it the cloud is thinned, but the points on the roofline and on the
        front stay.
    """

    def __init__(self, throughput: str, limit: int = LIMIT) -> None:
        super().__init__(layout={"width": "100%"})
        self._throughput, self.limit = throughput, limit
        self._note = widgets.HTML()
        self.views = {axes: _View(axes) for axes in ("log", "linear")}
        self._box = widgets.Box(layout={"width": "100%"})
        self.children = [self._box, self._note]

    def draw(
        self,
        axes: str,
        work: str,
        roofline: Any,
        *,
        training: Points = _NONE,
        outside: Points = _NONE,
        chosen: Points = _NONE,
        colour: str,
        bound: float,
    ) -> None:
        """Draw a roofline and its samples, each as (intensity, throughput)."""
        view = self.views[axes]
        frame = _Frame.of(axes, roofline, (training, outside, chosen), bound)
        # First what the eye follows, then the axes and the clouds.
        view.points["roof"] = _outline(roofline, frame)
        figures.set_xy(view.roof, *frame.unit(*view.points["roof"]))
        figures.set_range(view.across, frame.left, frame.right, {frame.infinity: "∞"} if frame.infinity else None)
        figures.set_range(view.up, frame.bottom, frame.top)
        view.across.label = f"intensity: {abbreviate(work, 24)} per event"  # which, the heading says
        view.up.label = self._throughput
        drawn = {}
        for name, points in (("chosen", chosen), ("outside", outside), ("training", training)):
            drawn[name] = self._draw_cloud(view, name, points, roofline, frame)
        few = drawn["chosen"] <= _OUTLINED
        figures.set_points(view.halo, *(frame.unit(*view.points["chosen"]) if few else _NONE))
        view.chosen.colors = [colour]
        corners = np.asarray(roofline.breakpoints)
        corners = corners[(corners[:, 0] >= frame.low) & (corners[:, 0] <= frame.high)]
        with view.corners.hold_sync():
            view.corners.x, view.corners.y = corners[:, 0], np.maximum(corners[:, 1], frame.bottom)
        peak = min(roofline.peak_intensity, frame.right)
        figures.set_xy(view.peak, *frame.unit(np.array([peak, peak]), np.array([frame.bottom, frame.top])))
        figures.set_xy(view.bound, *frame.unit(np.array([frame.left, frame.right]), np.array([bound, bound])))
        self._box.children = [view.figure]
        self._note.value = _legend(colour, bound, training, outside, drawn["training"], frame)

    def _draw_cloud(self, view: "_View", name: str, points: Points, roofline: Any, frame: "_Frame") -> int:
        """Draw one cloud, thinned where it is large; return how many points are drawn."""
        x, y = frame.place(*points)
        unit = frame.unit(x, y)
        picked = thin(*unit, keep=on_bound(roofline, *points), limit=self.limit)
        view.points[name] = (x[picked], y[picked])
        figures.set_points(getattr(view, name), unit[0][picked], unit[1][picked])
        return len(picked)


class _View:
    """The marks of one kind of axes.

    Clouds and lines are drawn in fractions of the axes, on scales that never change: bqplot draws a mark anew whenever
    one of its scales does, and for thousands of points that is most of the time of a redraw. ``points`` holds what is
    drawn in the units of the axes, with infinity at its tick.
    """

    def __init__(self, axes: str) -> None:
        scale = figures.bq.LogScale if axes == "log" else figures.bq.LinearScale
        scales = {"x": scale(), "y": scale()}
        unit = {"x": figures.bq.LinearScale(min=0, max=1), "y": figures.bq.LinearScale(min=0, max=1)}
        self.points: dict[str, Points] = dict.fromkeys(("training", "outside", "chosen", "roof"), _NONE)
        self.training = figures.cloud(unit, CLOUD, 4, 0.9)
        self.outside = figures.cloud(unit, OUTSIDE, 5)
        self.halo = figures.cloud(unit, figures.INK, 7.5)
        self.chosen = figures.cloud(unit, CLOUD, 5.5)
        self.roof = figures.line(unit, figures.INK, 2.5)
        self.peak = figures.line(unit, figures.INK, 1, "dashed")
        self.bound = figures.line(unit, "#B34700", 1.5, "dashed")
        self.corners = figures.bq.Scatter(
            x=[1.0],
            y=[1.0],
            scales=scales,
            marker="circle",
            default_size=36,
            colors=["white"],
            stroke=figures.INK,
            stroke_width=1.5,
            tooltip=figures.bq.Tooltip(fields=["x", "y"], labels=["intensity", "bound"], formats=[".4~g", ".4~g"]),
        )
        self.across = figures.axis(scales["x"], "bottom")
        self.up = figures.axis(scales["y"], "left", label_offset="48px")
        marks = [
            self.training,
            self.outside,
            self.halo,
            self.chosen,
            self.peak,
            self.bound,
            self.roof,
            self.corners,
        ]
        margin = {"left": 70, "right": 24, "top": 6, "bottom": 46}
        self.figure = figures.figure(marks, [self.across, self.up], height=330, margin=margin)


class _Frame:
    """The range of a picture: of finite points, with a place for infinity beyond them."""

    def __init__(self, axes: str, low: float, high: float, bottom: float, top: float, infinite: bool) -> None:
        self.axes, self.low, self.high = axes, low, high
        self.bottom, self.top = bottom, top
        span = (high / low) ** 0.12 if axes == "log" else 0.1 * (high - low)
        self.infinity = (high * span if axes == "log" else high + span) if infinite else 0.0
        # On either side of the tick at infinity, the bound there is a short line.
        self.step = span**0.4 if axes == "log" else 1 + 0.4 * span / high
        last = self.infinity or high
        self.left = low if axes == "log" else 0.0
        self.right = last * span**0.4 if axes == "log" else last + 0.4 * span

    @classmethod
    def of(cls, axes: str, roofline: Any, clouds: tuple[Points, ...], bound: float) -> "_Frame":
        corners = np.asarray(roofline.breakpoints)[1:]
        x = np.concatenate([c[0] for c in clouds] + [corners[:, 0]])
        y = np.concatenate([c[1] for c in clouds] + [corners[:, 1], [roofline.peak, bound]])
        infinite = bool(np.isposinf(x).any())
        x, y = x[np.isfinite(x) & (x > 0)], y[np.isfinite(y) & (y > 0)]
        low, high, top = float(x.min()), float(x.max()), float(y.max())
        if axes == "log":
            low, high = low / 1.5, high * 1.5
            return cls(axes, low, high, float(y.min()) / 1.5, top * 1.4, infinite)
        return cls(axes, high * 1e-6, high * 1.02, 0.0, top * 1.08, infinite)

    def place(self, x: np.ndarray, y: np.ndarray) -> Points:
        """Return where points are drawn: infinity at its tick, what a logarithm cannot show on the edge."""
        x = np.where(np.isposinf(x), self.infinity or self.right, x)
        if self.axes == "log":
            x, y = np.maximum(x, self.left), np.maximum(y, self.bottom)
        return x, y

    def unit(self, x: np.ndarray, y: np.ndarray) -> Points:
        """Return points as fractions of the axes."""
        if self.axes == "log":
            across, up = np.log(self.right / self.left), np.log(self.top / self.bottom)
            return np.log(x / self.left) / across, np.log(y / self.bottom) / up
        return (x - self.left) / (self.right - self.left), (y - self.bottom) / (self.top - self.bottom)


def _outline(roofline: Any, frame: _Frame) -> Points:
    """Return the line of the bound, with a piece of its own at infinity."""
    at, height = roofline.curve(frame.low, frame.high)
    if frame.axes == "linear":
        at, height = np.append(0.0, at), np.append(0.0, height)
    if frame.infinity:
        at = np.concatenate([at, [np.nan, frame.infinity / frame.step, frame.right]])
        height = np.concatenate([height, [np.nan, roofline.at_infinity, roofline.at_infinity]])
    else:
        at, height = np.append(at, frame.right), np.append(height, roofline.bound(frame.right))
    return at, np.maximum(height, frame.bottom)


def _legend(colour: str, bound: float, training: Points, outside: Points, drawn: int, frame: _Frame) -> str:
    entries = {"this workload": (colour, "dot")}
    if len(outside[0]):
        entries["outside the window"] = (OUTSIDE, "dot")
    if len(training[0]):
        entries["training"] = (CLOUD, "dot")
    entries |= {
        "roofline": (figures.INK, "line"),
        "corner": (figures.INK, "circle"),
        "peak": (figures.INK, "dash"),
        f"bound {short(bound)}": ("#B34700", "dash"),
    }
    text = ""
    if drawn and drawn < len(training[0]):
        text = f" {drawn:,} of {len(training[0]):,} training samples drawn; all that carry the roofline are."
    if frame.infinity:
        text += " ∞: intervals without any of the event."
    return f"{keys(entries)}<span class='pk-muted'>{text}</span>"
