"""Pieces of bqplot figures that the views share: axes with readable ticks, clouds of points, frames."""

import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from perfkit.plots.style import ROOF, short, width_of

with warnings.catch_warnings():
    # bqscales still calls a traitlets function by its old signature.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="bqscales.*")
    import bqplot as bq

TEXT = {"font-size": "12px"}
# The ends of an axis are marks of six pixels, which would strike through the first and the last number.
_APART = {"bottom": "translate(0px, 5px)", "left": "translate(-5px, 0px)"}
# Lines in the colour of text: dark on a light page, light on a dark one.
INK = f"var(--jp-ui-font-color0, {ROOF})"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Points are drawn as one path of single points with round ends: thousands of them cost one element of the page, where
# a scatter mark costs one for each.
CLOUD_CLASS = "pk-cloud"
_MANY = 1000  # ticks: more than any axis has, so that bqplot leaves none out
RANKED_CLASS = "pk-ranked"  # of figures whose bars are chosen by their rows, and by keys (static/frame.js)
NAMES = 216  # pixels left of horizontal bars, for their names
_WIDEST = 260  # pixels of a name, so that the bars keep the more of a narrow page


def label_of(value: float) -> str:
    """Return a tick's text: plain up to 10,000, then a power of ten."""
    if value == 0:
        return "0"
    exponent = int(np.floor(np.log10(abs(value)) + 1e-9))
    if -3 <= exponent <= 4:
        return short(value)
    mantissa = value / 10.0**exponent
    power = f"10{str(exponent).translate(_SUPERSCRIPT)}"
    return power if abs(mantissa - 1) < 1e-9 else f"{mantissa:.3g}·{power}"


def log_ticks(low: float, high: float, at_most: int = 8) -> np.ndarray:
    """Return tick positions for a logarithmic axis: powers of ten where there are three, 1, 2, 5 steps over less."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    decades = np.array([float(f"1e{k}") for k in range(first, last + 1)])
    inside = decades[(decades >= low * 0.999) & (decades <= high * 1.001)]
    if last - first <= 2 or len(inside) <= 2:
        steps = np.sort(np.concatenate([decades, 2 * decades, 5 * decades]))
        steps = steps[(steps >= low * 0.999) & (steps <= high * 1.001)]
        return steps if len(steps) > 2 else linear_ticks(low, high, 5)  # one number alone is no scale
    every = -(-len(decades) // at_most)
    return inside[::every]


def linear_ticks(low: float, high: float, about: int = 6) -> np.ndarray:
    """Return round tick positions over a linear axis."""
    span = high - low
    if span <= 0:
        return np.array([low])
    step = 10.0 ** np.floor(np.log10(span / about))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= about)
    return np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step


def axis(scale: Any, side: str, label: str = "", **kwargs: Any) -> bq.Axis:
    """Return an axis in the style of all views."""
    offset = "44px" if side == "left" else "34px"
    return bq.Axis(
        scale=scale,
        side=side,
        label=label,
        label_offset=kwargs.pop("label_offset", offset),
        grid_color="#e4e4e4",
        tick_style={**TEXT, "transform": _APART.get(side, "none")},
        **kwargs,
    )


def room_for(names: Iterable[str], least: float) -> float:
    """Return the pixels that names left of a picture get: as many as the longest needs, within bounds."""
    return min(max([least, *map(width_of, names)]), _WIDEST)


def set_range(
    ax: bq.Axis,
    low: float,
    high: float,
    extra: dict[float, str] | None = None,
    *,
    last: float | None = None,
    whole: bool = False,
) -> None:
    """Set an axis to a range, with ticks to match; ``extra`` adds ticks with texts of their own.

    Beyond ``last`` there are no ticks: only names stand there. ``whole``: there are no parts of a number.
    """
    extra = extra or {}
    log = isinstance(ax.scale, bq.LogScale)
    ticks = log_ticks(low, last or high) if log else linear_ticks(low, last or high)
    ticks = ticks[ticks == np.round(ticks)] if whole else ticks
    ticks = np.array([t for t in ticks if not any(_near(t, e, low, high, log) for e in extra)])
    labels = {_js(t): label_of(t) for t in ticks} | {_js(t): text for t, text in extra.items()}
    set_ticks(ax, float(low), float(high), np.sort(np.array([*ticks, *extra], dtype="float64")), labels)


def set_ticks(ax: bq.Axis, low: float, high: float, values: np.ndarray, labels: dict[str, str]) -> None:
    """Set an axis to a range with these ticks and their texts.

    bqplot writes the texts of new tick values a frame later, but those that it knew when the values came: where values
    and texts come in one message, the order within it (of a set of names, another in every process) decided whether
    old texts stayed. So the texts go first; another number of ticks, which allows all of them either way, makes bqplot
    write them again though the values are as before, in place of what still waits for its frame.
    """
    ax.tick_labels = labels
    with ax.hold_sync():
        ax.tick_values, ax.num_ticks = values, _MANY if ax.num_ticks != _MANY else _MANY + 1
    with ax.scale.hold_sync():
        ax.scale.min, ax.scale.max = low, high


def cloud(scales: dict[str, Any], colour: str, size: float, opacity: float = 1.0) -> bq.Lines:
    """Return a mark for many points; fill it with `set_points`, and give its figure the class ``CLOUD_CLASS``."""
    return line(scales, colour, size, opacities=[opacity])


def set_points(mark: bq.Lines, x: np.ndarray, y: np.ndarray) -> None:
    """Give a cloud its points."""
    across, up = np.full(2 * len(x), np.nan), np.full(2 * len(x), np.nan)
    across[::2], up[::2] = x, y
    set_xy(mark, across, up)


def ranking(label: str, tooltip: Any = None) -> tuple[bq.Bars, bq.Axis, bq.Axis]:
    """Return horizontal bars to click, the largest on top, with the axis of their names and that of their lengths."""
    scales = {"x": bq.OrdinalScale(), "y": bq.LinearScale(min=0)}  # from the bottom: `set_bars` tells the order
    bars = bq.Bars(
        x=["-"],
        y=[0.0],
        scales=scales,
        orientation="horizontal",
        color_mode="no_group",
        padding=0.25,
        interactions={"click": "select"} if tooltip is None else {"click": "select", "hover": "tooltip"},
        unselected_style={},
        selected_style={"stroke": INK, "stroke-width": "2px"},
        tooltip=tooltip,
    )
    # The label ends where the axis does: it may be longer, and there is room below the names.
    return bars, axis(scales["x"], "left", grid_lines="none"), axis(scales["y"], "bottom", label, label_location="end")


def set_bars(
    bars: bq.Bars,
    names: Sequence[str],
    values: np.ndarray,
    colours: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> None:
    """Give horizontal bars names and lengths, from the top; `whole`: those that were cut, for saved pages.

    bqplot compares the names of an axis as sets: bars whose names are as before and stand in another order would stay
    where they were. So the order is told; a scale that is reversed, too, would turn it over in pages without a server.
    """
    bars.scales["x"].domain = list(names)[::-1]
    with bars.hold_sync():
        bars.x, bars.y, bars.labels = list(names), values, list(whole or names)
        if colours:
            bars.colors = list(colours)


def set_xy(mark: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Give a line new coordinates in one message; NaN breaks it, and without any number it is hidden.

    The line's last point must be a number: bqplot places the line's label there.
    """
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    with mark.hold_sync():
        mark.visible = bool(len(known))
        if len(known):
            end = known[-1] + 1
            # bqplot breaks a line only where y is no number.
            mark.x, mark.y = x[:end], np.where(np.isfinite(x[:end]), y[:end], np.nan)


def line(scales: dict[str, Any], colour: str, width: float = 2, style: str = "solid", **kwargs: Any) -> bq.Lines:
    """Return a line that is hidden until `set_xy` gives it its points."""
    start = np.array([1.0])
    return bq.Lines(
        x=start,
        y=start,
        visible=False,
        scales=scales,
        colors=[colour],
        stroke_width=width,
        line_style=style,
        interactions={},
        **kwargs,
    )


def figure(
    marks: Sequence[Any], axes: Sequence[Any], *, height: int, margin: dict[str, int], **kwargs: Any
) -> bq.Figure:
    """Return a figure as wide as its place."""
    fig = bq.Figure(
        marks=list(marks),
        axes=list(axes),
        fig_margin=margin,
        padding_x=0,
        padding_y=0,
        animation_duration=0,
        background_style={"fill": "transparent"},
        legend_style={"stroke-width": 0},
        min_aspect_ratio=0.01,
        max_aspect_ratio=100,
        display_toolbar=False,  # it covers what is drawn; every view saves its own picture
        **kwargs,
    )
    fig.layout.width, fig.layout.height, fig.layout.min_width = "100%", f"{height}px", "0px"
    fig.add_class(CLOUD_CLASS)
    return fig


def _near(a: float, b: float, low: float, high: float, log: bool) -> bool:
    """Return whether two ticks stand too close for both their texts."""
    if log:
        return bool(abs(np.log10(a / b)) < 0.06 * np.log10(high / low))
    return bool(abs(a - b) < 0.06 * (high - low))


def _js(value: float) -> str:
    """Return a number as JavaScript writes it, which is how the axis looks its labels up."""
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        text = format(Decimal(repr(float(value))), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = repr(float(value)).split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
