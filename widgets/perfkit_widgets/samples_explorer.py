"""SamplesExplorer: the first look at a new dump."""

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import counted
from perfkit.plots.samples import (
    PER,
    check_events,
    event_rates,
    position_label,
    rate_label,
    stretch_label,
    throughput_label,
)
from perfkit.plots.style import ACCENT, CLOUD, SERIES, abbreviate, breakable, short, typical
from perfkit.plots.time_axis import TimeAxis
from perfkit.samples.table import Samples, expect_samples
from perfkit_widgets import figures
from perfkit_widgets.base import Downloads, Explorer, heading, keys, kind_html
from perfkit_widgets.thinning import thin, thin_line
from perfkit_widgets.window import TimeWindow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AS_WIDE_AS_ITS_TEXT = {"width": "auto", "max_width": "100%"}


class SamplesExplorer(Explorer):
    """What a person wants to know first of counter samples: rates over time, IPC, multiplexing, and what is missing.

    Three strips show the throughput (IPC) and the rates of two chosen events over time; a scatter sets the two events
    against each other, one interval per point; a table says of every event how much of it was counted. Brushing the
    first strip, or the slider under it (by keyboard: Tab to a handle, then arrow keys), selects a window in time: the
    scatter and the table then tell of that window. Where only time and work were counted there is neither A nor B.

    Parameters
    ----------
    samples : Samples
        As read from a dump.
    x, y : str, optional
        The two events shown first.

    Attributes
    ----------
    x, y : str
        The two events.
    per : "work", "time" or "seconds"
        What a rate is over.
    axes : "log" or "linear"
        Of the scatter.
    window : (float, float)
        The selected part of the time axis.

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> pw.SamplesExplorer(samples).x
    'uops'
    """

    x = traitlets.Unicode()
    y = traitlets.Unicode()
    per = traitlets.Enum(["work", "time", "seconds"], default_value="work")
    axes = traitlets.Enum(["log", "linear"], default_value="log")
    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())

    def __init__(self, samples: Samples, x: str | None = None, y: str | None = None) -> None:
        super().__init__()
        expect_samples(samples, "SamplesExplorer")
        events = samples.events
        self.samples = samples
        self.timeline = TimeAxis.of(samples)
        self._events = events
        self._bar = TimeWindow(self.timeline, throughput_label(samples))
        self._build()
        self.x = x or (events[0] if events else "")
        self.y = y or (events[min(1, len(events) - 1)] if events else "")
        self.window = self._bar.window
        traitlets.link((self, "window"), (self._bar, "window"))
        if events:
            traitlets.link((self, "x"), (self._choose_x, "value"))
            traitlets.link((self, "y"), (self._choose_y, "value"))
        traitlets.link((self, "per"), (self._choose_per, "value"))
        traitlets.link((self, "axes"), (self._choose_axes, "value"))
        self.observe(lambda _: self._draw_pair(), ["x", "y", "per", "axes"])
        self.observe(lambda _: self._draw_window(), ["window", "per"])
        self._draw_pair()
        self._draw_window()

    @traitlets.validate("x", "y")
    def _known(self, proposal: Any) -> str:
        if proposal["value"] or self.samples.events:
            check_events(self.samples, [proposal["value"]])
        return str(proposal["value"])

    # ------------------------------------------------------------- results

    def selected(self) -> Samples:
        """Return the samples of the chosen window."""
        return self.timeline.select(*self.window)

    def table(self) -> pd.DataFrame:
        """Return one row per event of the window: samples, missing, zero, count, rate per work and running share."""
        return self.selected().describe().reset_index()

    def picture(self) -> "Figure":
        """Return the strips over time as a static picture."""
        from perfkit.plots.samples import plot_over_time

        whole = self.window == self._bar.whole
        chosen = [event for event in dict.fromkeys([self.x, self.y]) if event]
        return plot_over_time(self.samples, chosen, per=self.per, window=None if whole else self.window)

    # ------------------------------------------------------------- drawing

    def _build(self) -> None:
        samples = self.samples
        self._choose_x = widgets.Dropdown(options=self._events, description="Event A", layout=_AS_WIDE_AS_ITS_TEXT)
        self._choose_y = widgets.Dropdown(options=self._events, description="Event B", layout=_AS_WIDE_AS_ITS_TEXT)
        per = [(rate_label(samples, p), p) for p in ("work", "time", "seconds") if self._has(p)]
        self._choose_per = widgets.Dropdown(options=per, description="Rates", layout=_AS_WIDE_AS_ITS_TEXT)
        self._choose_axes = widgets.ToggleButtons(
            options=["log", "linear"], tooltips=["Logarithmic axes", "Linear axes"], style={"button_width": "64px"}
        )
        self._strips = [self._strip(colour) for colour in SERIES[1:3]]
        self._scatter = {axes: self._pair(axes) for axes in ("log", "linear")}
        self._pair_note, self._head, self._health = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._pair_box = widgets.Box(layout={"width": "100%"})
        self._downloads = Downloads(self, "samples")
        kinds = html.escape(", ".join(abbreviate(str(r), 40) for r in samples.runs.index[:4]))
        more = f" and {len(samples.runs) - 4} more" if len(samples.runs) > 4 else ""
        about = (
            f"{counted(len(samples), 'samples')} of {counted(len(self._events), 'events')} in "
            f"{counted(samples.n_intervals, 'intervals')}; run{'s' if len(samples.runs) > 1 else ''}: {kinds}{more}. "
            f"Time: {html.escape(samples.time_event)}; work: {html.escape(samples.work_event)}."
        )
        self._about = widgets.HTML(heading("Samples at a glance", about) + kind_html(samples.kind))
        left = widgets.VBox(
            [self._bar, *(s["box"] for s in self._strips)], layout={"flex": "3 1 480px", "min_width": "0px"}
        )
        right = widgets.VBox(
            [
                widgets.HBox(
                    [widgets.HTML(heading("Event A against event B")), self._choose_axes],
                    layout={"align_items": "center", "justify_content": "space-between"},
                ),
                self._pair_box,
                self._pair_note,
            ],
            layout={"flex": "2 1 380px", "min_width": "0px"},
        )
        if not self._events:
            alone = widgets.HTML("<p>Only time and work were counted: no further event to set beside them.</p>")
            self.children = [self._about, alone, self._bar, self._head, self._health, self._downloads]
            return
        self.children = [
            self._about,
            widgets.HBox([self._choose_x, self._choose_y, self._choose_per], layout={"flex_flow": "row wrap"}),
            widgets.HBox([left, right], layout={"flex_flow": "row wrap", "width": "100%"}),
            self._head,
            self._health,
            self._downloads,
        ]

    def _has(self, per: str) -> bool:
        return bool(np.isfinite(self.samples.table[per].to_numpy()).any())

    def _strip(self, colour: str) -> dict[str, Any]:
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale(min=0)}
        mark = figures.line(scales, colour, 1.5)
        across = figures.axis(scales["x"], "bottom", position_label(self.timeline))
        up = figures.axis(scales["y"], "left")
        fig = figures.figure([mark], [across, up], height=138, margin={"left": 64, "right": 14, "top": 8, "bottom": 42})
        figures.set_range(across, *self._bar.whole, whole=self.timeline.unit == "intervals")
        title = widgets.HTML()
        return {"mark": mark, "up": up, "title": title, "box": widgets.VBox([title, fig], layout={"width": "100%"})}

    def _pair(self, axes: str) -> dict[str, Any]:
        scale = figures.bq.LogScale if axes == "log" else figures.bq.LinearScale
        scales = {"x": scale(), "y": scale()}
        rest = figures.cloud(scales, CLOUD, 4)
        chosen = figures.cloud(scales, SERIES[0], 5)
        across, up = figures.axis(scales["x"], "bottom"), figures.axis(scales["y"], "left", label_offset="52px")
        fig = figures.figure(
            [rest, chosen], [across, up], height=330, margin={"left": 76, "right": 20, "top": 8, "bottom": 50}
        )
        return {"fig": fig, "rest": rest, "chosen": chosen, "across": across, "up": up}

    def _draw_pair(self) -> None:
        if not self._events:
            return
        self._rates = [self.timeline.rates(e, self.per) * PER[self.per] for e in (self.x, self.y)]
        for strip, rate in zip(self._strips, self._rates, strict=True):
            known = rate[np.isfinite(rate)]
            figures.set_range(strip["up"], 0, 1.05 * float(known.max(initial=0.0)) or 1.0)
            figures.set_xy(strip["mark"], *thin_line(*self.timeline.line(rate)))
        self._name_strips()
        self._draw_points()

    def _name_strips(self) -> None:
        """Write above each strip what it shows, with the median of the window."""
        unit = html.escape(rate_label(self.samples, self.per))
        whole = self.window == self._bar.whole
        inside = self.timeline.selection(*self.window)
        for strip, event, rate, letter in zip(self._strips, (self.x, self.y), self._rates, "AB", strict=True):
            known = rate[np.isfinite(rate) & inside]
            where = "" if whole else " in the window"
            told = f"median{where} {short(typical(known))}" if len(known) else f"never counted with its base{where}"
            strip["title"].value = f"<b>{letter}: {html.escape(event)}</b> <span class='pk-muted'>{unit}; {told}</span>"

    def _draw_points(self) -> None:
        view = self._scatter[self.axes]
        across, up = self._rates
        known = np.isfinite(across) & np.isfinite(up)
        shown = known & (across > 0) & (up > 0) if self.axes == "log" else known
        inside = self.timeline.selection(*self.window)
        if shown.any():
            for ax, values in ((view["across"], across[shown]), (view["up"], up[shown])):
                figures.set_range(ax, *_range(values, self.axes))
        for mark, part in ((view["rest"], shown & ~inside), (view["chosen"], shown & inside)):
            x, y = across[part], up[part]
            drawn = thin(np.log(x), np.log(y)) if self.axes == "log" else thin(x, y)
            figures.set_points(mark, x[drawn], y[drawn])
        unit = rate_label(self.samples, self.per)
        # The strips name both events; two names and a unit are longer than a narrow picture is wide.
        view["across"].label, view["up"].label = f"A, {unit}", f"B, {unit}"
        self._pair_box.children = [view["fig"]]
        legend = keys({"in the window": (SERIES[0], "dot"), "outside": (CLOUD, "dot")})
        hidden = int((known & ~shown).sum())
        left_out = f"Not on log axes: {counted(hidden, 'intervals')} with a zero rate." if hidden else ""
        absent = int((~known).sum())
        left_out += f" Not drawn: {counted(absent, 'intervals')} without one of the two." if absent else ""
        self._pair_note.value = f"{legend}<span class='pk-muted'>{left_out}</span>"

    def _draw_window(self) -> None:
        if self._events:
            self._name_strips()
            self._draw_points()
        chosen = self.selected()
        whole = self.window == self._bar.whole
        where = "whole data" if whole else stretch_label(self.timeline, *self.window)
        if not len(chosen):
            self._head.value = heading("No interval ends in this window", "Widen it to see the table.")
            self._health.value = ""
            self._downloads.refresh()
            return
        label = throughput_label(self.samples).split(" (")[0]
        note = (
            f"{where}: {counted(chosen.n_intervals, 'intervals')}, {html.escape(label)} {short(chosen.throughput())} "
            "(total work over total time)."
        )
        self._head.value = heading("Events: how much of each was counted", note)
        self._health.value = _health(chosen, self.per)
        self._downloads.refresh()


def _range(values: np.ndarray, axes: str) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if axes == "log":
        return (low / 1.3, high * 1.3)
    pad = 0.04 * (high - low) or 1.0
    return (min(0.0, low), high + pad)


def _health(samples: Samples, per: str) -> str:
    """Return the events' table as HTML, with the running share as a bar and missing samples marked."""
    rows, rates = [], event_rates(samples, per)
    axes = {samples.time_event: " (time)", samples.work_event: " (work)"}
    for name, row in samples.describe().iterrows():
        running, missing = row["running"], int(row["missing"])
        share = (
            "not recorded"
            if np.isnan(running)
            else f'<span class="pk-share"><b style="width:{100 * running:.0f}%"></b></span>{running:.0%}'
        )
        colour = f' style="color:{ACCENT};font-weight:600"' if missing else ""
        rows.append(
            f"<tr><td>{breakable(str(name))}{axes.get(str(name), '')}</td><td>{int(row['samples']):,}</td>"
            f"<td{colour}>{missing:,}</td><td>{int(row['zero']):,}</td><td>{short(float(row['count']), 4)}</td>"
            f"<td>{short(float(rates.get(name, np.nan)))}</td><td>{share}</td></tr>"
        )
    head = (
        "<tr><th>event</th><th>samples</th><th>missing</th><th>zero</th><th>count</th>"
        f"<th>{breakable(rate_label(samples, per))}</th><th>counted (multiplexing)</th></tr>"
    )
    return f'<div class="pk-scroll"><table class="pk-table">{head}{"".join(rows)}</table></div>'
