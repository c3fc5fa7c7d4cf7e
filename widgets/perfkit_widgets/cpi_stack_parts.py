"""Parts of the CpiStackExplorer: stacked bars, the list of events, gauges and verdict."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np
import traitlets

from perfkit.plots.style import ACCENT, SERIES, distinct, fitted, short
from perfkit_widgets import figures
from perfkit_widgets.base import keys

_BOX, _NAME = 24, 246  # pixels, of a box to tick and of the name beside it
_ACROSS = 280  # pixels, of the axis below the bars on the narrowest page
_UPRIGHT = 110  # pixels, of a name that stands upright
_UP = {"transform": "rotate(-90deg) translate(-12px, -13px)", "text-anchor": "end"}
_LEAST_APART = 14  # pixels, from one upright name to the next
_MUCH = 10  # a variance inflation above it: the event can hardly be told from others
_VERDICTS = {"supported": "#007A5A", "uncertain": "#B36B00", "unsupported": "#B3261E"}


class StackBars(widgets.VBox):
    """One stacked bar per workload: the base at the bottom, events, and what is unattributed on top."""

    def __init__(self, names: Sequence[str], events: Sequence[str], palette: Mapping[str, str]) -> None:
        self._names, self._parts = list(names), ["base", *events, "residual"]
        scales = {"x": figures.bq.OrdinalScale(), "y": figures.bq.LinearScale()}
        self._told = widgets.HTML()
        self.bars = figures.bq.Bars(
            x=self._names,
            y=np.zeros((len(self._parts), len(names))),
            scales=scales,
            type="stacked",
            labels=["base", *events, "unattributed"],
            colors=[palette[p] for p in self._parts],
            stroke=figures.INK,
            padding=0.35,
            interactions={"click": "select", "hover": "tooltip"},
            tooltip=self._told,
            # A lone bar is always the chosen one; a broad edge hides thin parts.
            selected_style={"stroke-width": "1.5px" if len(self._names) > 1 else "0.5px"},
            unselected_style={"stroke-width": "0.5px"},
        )
        self.bars.on_hover(lambda _, target: self._tell(target.get("data", {})))
        self._up = figures.axis(scales["y"], "left", "CPI (cycles per instruction)")
        across, below = _names_of_bars(scales["x"], self._names)
        margin = {"left": 60, "right": 10, "top": 12, "bottom": below}
        fig = figures.figure([self.bars], [across, self._up], height=296 + below, margin=margin)
        legend = keys({"base": (palette["base"], "bar"), "unattributed (white)": (figures.INK, "circle")})
        super().__init__([widgets.HTML(f"<b>Stacks</b> {legend}"), fig], layout={"width": "100%"})

    def on_click(self, call: Callable[[str], None]) -> None:
        """Call with the workload's name when a bar is clicked."""
        self._call = call
        self.bars.observe(self._clicked, "selected")

    def _clicked(self, change: Any) -> None:
        selected = change["new"]
        if selected is None or not len(selected):
            self.bars.selected = np.array([self._chosen])  # a second click takes bqplot's mark off
        elif (chosen := int(selected[-1])) != self._chosen:
            self._call(self._names[chosen])

    def _tell(self, data: Mapping[str, Any]) -> None:
        """Write of which workload, and which part of it, the bar under the pointer is."""
        if "subIndex" in data:
            name, part = self._names[int(data["index"])], self._parts[int(data["subIndex"])]
            words = f"{html.escape(part)}: {float(data['y']):.4f} cycles per instruction"
            self._told.value = f"<b>{html.escape(name)}</b><br>{words}"

    def draw(self, fits: Mapping[str, Any], chosen: str) -> None:
        """Show the components of each fit; an event that a fit does not have takes no room."""
        self._chosen = self._names.index(chosen)
        self.bars.selected = np.array([self._chosen])
        heights = np.zeros((len(self._parts), len(self._names)))
        for j, name in enumerate(self._names):
            fit = fits[name]
            values = {**fit.components.to_dict(), "residual": fit.residual if abs(fit.residual) > 1e-9 else 0.0}
            heights[:, j] = [np.nan_to_num(values.get(p, 0.0)) for p in self._parts]
        self.bars.y = heights
        top = np.maximum(heights, 0).sum(axis=0).max()
        bottom = np.minimum(heights, 0).sum(axis=0).min()
        figures.set_range(self._up, 1.05 * float(bottom), 1.05 * float(top) or 1.0)


def _names_of_bars(scale: Any, names: Sequence[str]) -> tuple[Any, int]:
    """Return the axis of names below bars, and the room that it takes in pixels: long or many names stand upright."""
    wide = _ACROSS / len(names)
    lying = all(fitted(name, wide) == name for name in names)
    every = max(1, -(-_LEAST_APART // max(1, int(wide))))
    upright = distinct(names, _UPRIGHT)
    shown = [name if lying else upright[k] if k % every == 0 else " " for k, name in enumerate(names)]
    axis = figures.bq.Axis(
        scale=scale,
        tick_labels=dict(zip(names, shown, strict=True)),
        tick_style=figures.TEXT if lying else {**figures.TEXT, **_UP},
        grid_lines="none",
    )
    return axis, 34 if lying else 20 + _UPRIGHT


class EventList(widgets.VBox):
    """A box to tick for each event, with its colour, penalty, component, interval and VIF in the fit.

    Attributes
    ----------
    chosen : tuple of str
        The events that are ticked, in the list's order.
    """

    chosen = traitlets.Tuple()

    def __init__(self, events: Sequence[str], palette: Mapping[str, str]) -> None:
        self._events = tuple(events)
        labels = dict(zip(events, distinct(events, _NAME - 8), strict=True))
        self.boxes = {e: self._box(e, labels[e]) for e in events}
        self._texts = {e: widgets.HTML(layout={"flex": "1 1 auto"}) for e in events}
        self._palette = palette
        self._quiet = False
        every = widgets.Button(description="All", tooltip="Tick all events", layout={"width": "60px"})
        used = widgets.Button(
            description="Only those with a share", tooltip="Untick events without a share", layout={"width": "auto"}
        )
        every.on_click(lambda _: setattr(self, "chosen", self._events))
        used.on_click(lambda _: self.keep_used())
        self._used: tuple[str, ...] = ()
        head = widgets.HTML("<b>Events</b> <span class='pk-muted'>tick to use; cycles each, CPI, interval, VIF</span>")
        rows = [
            widgets.HBox(
                [self.boxes[e], *_beside(labels[e]), self._texts[e]],
                layout={"align_items": "center", "overflow": "visible"},
            )
            for e in events
        ]
        super().__init__(
            [
                widgets.HBox([head, every, used], layout={"align_items": "center", "flex_flow": "row wrap"}),
                widgets.VBox(rows, layout={"max_height": "300px", "overflow": "auto", "display": "block"}),
            ],
            layout={"width": "100%"},
        )
        self.observe(lambda _: self._tick(), "chosen")

    def keep_used(self) -> None:
        """Untick the events that the fit gives nothing."""
        if self._used:
            self.chosen = self._used

    def draw(self, fit: Any) -> None:
        """Show what the fit says of each event."""
        low, high = (end.to_dict() for end in fit.intervals_of(fit.component_draws))
        components, penalties, inflation = fit.components.to_dict(), fit.penalties.to_dict(), fit.vif.to_dict()
        self._used = tuple(e for e in self._events if abs(components.get(e, 0.0)) > 1e-9)
        for event, text in self._texts.items():
            colour = self._palette[event]
            swatch = f'<i style="display:inline-block;width:11px;height:11px;background:{colour};margin:0 6px"></i>'
            if event not in penalties:
                reason = "not in the model" if event not in self.chosen else "cannot be used here (see below)"
                text.value = f'{swatch}<span class="pk-muted">{reason}</span>'
                continue
            component, vif = components[event], inflation[event]
            ends = "" if math.isnan(low[event]) else f" [{low[event]:z.3f}, {high[event]:z.3f}]"
            inflated = f'<span class="{"pk-note" if vif > _MUCH else "pk-muted"}">VIF {short(vif)}</span>'
            text.value = f"{swatch}{short(penalties[event])} cycles → <b>{component:z.4f}</b>{ends} {inflated}"

    def _box(self, event: str, label: str) -> widgets.Checkbox:
        width = _BOX if _beside(label) else _BOX + _NAME
        box = widgets.Checkbox(
            value=False,
            indent=False,
            description="" if _beside(label) else label,
            tooltip=event,
            layout={"width": f"{width}px", "flex": f"0 0 {width}px"},
        )
        box.observe(lambda _: self._ticked(), "value")
        return box

    def _ticked(self) -> None:
        if not self._quiet:
            self.chosen = tuple(e for e, box in self.boxes.items() if box.value)

    def _tick(self) -> None:
        self._quiet = True
        for event, box in self.boxes.items():
            box.value = event in self.chosen
        self._quiet = False


def _beside(label: str) -> list[widgets.HTML]:
    """Return what shows an event's label where its box cannot: JupyterLab reads what is between dollars as a formula.

    Such a name is not a part of the box that can be clicked.
    """
    name = widgets.HTML(html.escape(label), layout={"flex": f"0 0 {_NAME}px"})
    return [name] if "$" in label else []


def gauges_html(fit: Any) -> str:
    """Return the placebo beside the R2, and the bracket of bases on the CPI, as HTML bars."""
    form = fit.settings.form.upper()
    rows = [
        _gauge("R² in sample", fit.r2.in_sample, SERIES[0]),
        _gauge("random split", fit.r2.random, SERIES[0]),
        _gauge("split by time", fit.r2.blocked, SERIES[0]),
        _gauge("placebo", fit.placebo_r2, ACCENT),
    ]
    bracket = fit.bracket
    low, high = (
        100 * min(max(b / fit.cpi, 0.0), 1.0) if math.isfinite(b) else 0.0 for b in (bracket.low, bracket.high)
    )
    band = (
        '<div style="position:relative;height:16px;border:1px solid #888;margin:3px 0" role="img" '
        f'aria-label="base between {bracket.low:.3f} and {bracket.high:.3f} of CPI {fit.cpi:.3f}">'
        f'<div style="position:absolute;left:{low:.1f}%;width:{max(high - low, 0.6):.1f}%;height:100%;'
        'background:#6b6f76"></div></div>'
    )
    return (
        f"<b>Gauges</b> <span class='pk-muted'>{form} form; the placebo is what shuffled counts reach</span>"
        f'<table class="pk-table">{"".join(rows)}</table>'
        f"<div><b>Bracket</b> of the base on the CPI: {bracket.ipc:.3f} (IPC form), {bracket.cpi:.3f} (CPI form), "
        f"{bracket.width:.1%} of the CPI apart{band}</div>"
    )


def verdict(fit: Any) -> str:
    """Return the verdict and the warnings as HTML."""
    colour = _VERDICTS[fit.verdict.level]
    warnings = "".join(f"<li>{html.escape(w)}</li>" for w in fit.warnings)
    below = f"<ul style='margin:2px 0'>{warnings}</ul>" if warnings else ""
    text = html.escape(str(fit.verdict))
    return f'<div class="pk-hint" style="border-left:4px solid {colour}"><b>{text}</b>{below}</div>'


def _gauge(name: str, value: float, colour: str) -> str:
    share = 100 * min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
    bar = f'<span class="pk-share" style="width:130px"><b style="width:{share:.0f}%;background:{colour}"></b></span>'
    return f"<tr><td>{name}</td><td>{bar}</td><td>{'–' if math.isnan(value) else f'{value:z.2f}'}</td></tr>"
