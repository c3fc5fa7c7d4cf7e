"""SpireExplorer: a workload's ranked events, and the roofline behind each."""

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import DataError, SettingError, closest, counted
from perfkit.plots.samples import stretch_label, throughput_label
from perfkit.plots.spire_views import sample_positions
from perfkit.plots.style import AREA_COLOURS, abbreviate, area_colour, breakable, distinct, short
from perfkit.plots.time_axis import TimeAxis
from perfkit.samples.areas import Areas
from perfkit.samples.table import Samples, expect_samples
from perfkit_widgets import figures
from perfkit_widgets.base import Downloads, Explorer, heading, keys, kind_html
from perfkit_widgets.roofline_figure import RooflineFigure
from perfkit_widgets.window import TimeWindow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.spire.model import SpireModel


_NUMBER = 28  # pixels of a rank before its name


class SpireExplorer(Explorer):
    """Choose an event of the ranking and see its roofline, with the training's samples and the workload's on it.

    Left, the events with the lowest bounds, coloured by their top-down area: click a bar, or use the list and the
    arrow buttons above it by keyboard. Right, the chosen event's roofline. Below, the workload over time: a window
    chosen there ranks the events anew for that part of the run.

    Parameters
    ----------
    model : SpireModel
        The trained ensemble. The view reads its ``rooflines`` and calls its ``rank``; it works nothing out itself.
    samples : Samples
        The analysed workload.
    training : Samples, optional
        What the model was trained on, drawn as a grey cloud behind each roofline.
    areas : Areas, optional
        The top-down area each event belongs to; by default the shipped mapping. ``Areas.load().extended({...})``
        adds the events of another processor.
    top : int
        How many events the ranking shows.

    Attributes
    ----------
    event : str
        The chosen event.
    axes : "log" or "linear"
        Of the roofline.
    window : (float, float)
        The part of the workload's time that is ranked.
    ranking : Ranking
        Of that part.

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> view = pw.SpireExplorer(pk.Spire().fit(samples), samples, top=3)
    """

    event = traitlets.Unicode()
    axes = traitlets.Enum(["log", "linear"], default_value="log")
    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())
    top = traitlets.Int(12, min=1)
    ranking = traitlets.Any()

    def __init__(
        self,
        model: "SpireModel",
        samples: Samples,
        training: Samples | None = None,
        *,
        areas: Areas | None = None,
        top: int = 12,
    ) -> None:
        super().__init__()
        for given in (samples, *([] if training is None else [training])):
            expect_samples(given, "SpireExplorer")
        self.model, self.samples, self.training = model, samples, training
        self.areas = areas or Areas.load()
        self.timeline = TimeAxis.of(samples)
        self.top = top
        self.ranking = model.rank(samples)
        self._ranks = self.ranking.to_frame()
        ranked = self._ranked()
        if not len(ranked):
            raise DataError("no event of these samples could be ranked; see model.rank(samples).to_frame()")
        self._throughput = throughput_label(samples)
        self._build(list(ranked["event"]))
        self.event = str(ranked["event"].iloc[0])
        self.window = self._bar.window
        traitlets.link((self, "window"), (self._bar, "window"))
        traitlets.link((self, "event"), (self._list, "value"))
        traitlets.link((self, "axes"), (self._choose_axes, "value"))
        self.observe(lambda _: self._rerank(), "window")
        self.observe(lambda _: self._draw_ranking(), "top")
        self.observe(lambda _: self._draw_event(), ["event", "axes"])
        self._draw_ranking()
        self._draw_event()

    @traitlets.validate("event")
    def _known(self, proposal: Any) -> str:
        event = str(proposal["value"])
        if event not in self.model.rooflines:
            near = closest(event, self.model.rooflines) or list(self.model.rooflines)[:3]
            raise SettingError(f"no roofline of {event!r}; did you mean {', '.join(near)}?")
        return event

    # ------------------------------------------------------------- results

    def table(self) -> pd.DataFrame:
        """Return the ranking of the chosen window, with the area of each event."""
        frame = self._ranks.copy()
        frame.insert(1, "area", [self.areas.of(e) for e in frame["event"]])
        return frame

    def picture(self) -> "Figure":
        """Return the ranking and the chosen roofline as a static picture."""
        from perfkit.plots.spire_views import plot_spire_exploration

        return plot_spire_exploration(
            self.model,
            self.timeline.select(*self.window),
            self.ranking,
            self.event,
            training=self.training,
            areas=self.areas,
            top=self.top,
            scale="log" if self.axes == "log" else "linear",
        )

    # ------------------------------------------------------------- building

    def _build(self, events: list[str]) -> None:
        self._head = widgets.HTML()
        self._list = widgets.Dropdown(
            options=events, description="Event", layout={"flex": "1 1 0", "width": "auto", "min_width": "0"}
        )
        narrow = {"flex": "0 0 38px", "width": "38px", "padding": "0"}  # a shrunk button shows dots for its sign
        self._up = widgets.Button(description="▲", tooltip="The event above (a lower bound)", layout=narrow)
        self._down = widgets.Button(description="▼", tooltip="The event below (a higher bound)", layout=narrow)
        self._up.on_click(lambda _: self._step(-1))
        self._down.on_click(lambda _: self._step(1))
        self._told = widgets.HTML()
        self._bars, self._names, self._bounds = figures.ranking(f"bound of {self._throughput}", self._told)
        along = self._bounds.scale
        self._bars.on_hover(lambda _, target: self._tell(target.get("data", {}).get("index", -1)))
        self._bars.observe(self._clicked, "selected")
        self._measured = figures.line({"x": along, "y": figures.bq.LinearScale(min=0, max=1)}, figures.INK, 2, "dashed")
        self._spreads = figures.line({"x": along, "y": figures.bq.LinearScale(min=0, max=1)}, figures.INK, 1.5)
        self._room = figures.room_for(events, figures.NAMES - 14 - _NUMBER)
        margin = {"left": round(self._room + 14 + _NUMBER), "right": 14, "top": 6, "bottom": 46}
        self._bars_figure = figures.figure(
            [self._bars, self._spreads, self._measured], [self._names, self._bounds], height=300, margin=margin
        )
        self._bars_figure.add_class(figures.RANKED_CLASS)
        self._legend = widgets.HTML()
        self._choose_axes = widgets.ToggleButtons(
            options=["log", "linear"],
            tooltips=["Logarithmic axes bend the straight segments", "Linear axes, as the roofline is fitted"],
            style={"button_width": "64px"},
        )
        self._roofline = RooflineFigure(self._throughput)
        self._title, self._sides, self._hint = widgets.HTML(), widgets.HTML(), widgets.HTML(layout={"width": "100%"})
        self._bar = TimeWindow(self.timeline, self._throughput, height=130)
        self._downloads = Downloads(self, "spire-ranking")
        left = widgets.VBox(
            [
                widgets.HBox([self._list, self._up, self._down], layout={"width": "100%"}),
                self._bars_figure,
                self._legend,
                self._hint,
            ],
            layout={"flex": "1 1 440px", "min_width": "0px"},
        )
        top = widgets.HBox(
            [self._title, self._choose_axes], layout={"justify_content": "space-between", "width": "100%"}
        )
        right = widgets.VBox(
            [top, self._sides, self._roofline],
            layout={"flex": "1 1 440px", "min_width": "0px", "margin": "0 0 0 12px"},
        )
        self.children = [
            self._head,
            widgets.HBox([left, right], layout={"flex_flow": "row wrap", "width": "100%"}),
            self._bar,
            self._downloads,
        ]

    # ------------------------------------------------------------- choosing

    def _tell(self, index: int) -> None:
        """Write the bar under the pointer's event, in full, and its bound."""
        if 0 <= index < len(self._shown):
            row = self._ranked().set_index("event").loc[self._shown[index]]
            self._told.value = (
                f"<b>{html.escape(self._shown[index])}</b><br>bound {short(float(row['throughput_bound']))}"
            )

    def _ranked(self) -> pd.DataFrame:
        return self._ranks[self._ranks["status"] == "ok"]

    def _step(self, by: int) -> None:
        events = list(self._list.options)
        self.event = events[min(max(events.index(self.event) + by, 0), len(events) - 1)]

    def _clicked(self, change: Any) -> None:
        chosen = change["new"]
        if chosen is None or not len(chosen):
            self._mark_bar()  # a second click on a bar takes the mark off; the event stays chosen
            return
        self.event = self._shown[int(chosen[-1])]

    def _rerank(self) -> None:
        part = self.timeline.select(*self.window)
        usable = len(part) > 0
        try:
            ranking = self.model.rank(part) if usable else None
        except SettingError:
            ranking = None
        ranks = None if ranking is None else ranking.to_frame()
        if ranks is None or not (ranks["status"] == "ok").any():
            note = f"Widen it: no event has a usable sample here. The ranking below is still of {self._where}."
            self._head.value = heading("Nothing to rank in this window", html.escape(note))
            return
        self.ranking, self._ranks = ranking, ranks
        events = list(self._ranked()["event"])
        chosen = self.event if self.event in events else events[0]
        with self._list.hold_trait_notifications():
            self._list.options = events
            self._list.value = chosen
        self.event = chosen  # new options make a list choose its first one
        self._draw_ranking()
        self._draw_event()

    # ------------------------------------------------------------- drawing

    def _draw_ranking(self) -> None:
        ranked = self._ranked().head(self.top)
        self._shown = [str(e) for e in ranked["event"]]
        n = len(self._shown)
        areas = [self.areas.of(e) for e in self._shown]
        bounds = ranked["throughput_bound"].to_numpy(dtype="float64")
        measured = self.timeline.select(*self.window).throughput()
        spread = self._spread_of(ranked)
        limit = 1.06 * float(np.nanmax([*bounds, measured, *spread[:, 1], 1e-12]))
        names = distinct(self._shown, self._room)
        labels = [f"{i + 1}. {name}" for i, name in enumerate(names)]
        whole = [f"{i + 1}. {event}" for i, event in enumerate(self._shown)]
        figures.set_bars(self._bars, labels, bounds, [area_colour(a) for a in areas], whole)
        figures.set_range(self._bounds, 0.0, limit)
        figures.set_xy(self._measured, np.array([measured, measured]), np.array([0.0, 1.0]))
        _draw_spreads(self._spreads, spread)
        self._bars_figure.layout.height = f"{56 + 24 * n}px"
        self._mark_bar()
        present = [a for a in AREA_COLOURS if a in areas]
        self._legend.value = keys(
            {a: (area_colour(a), "bar") for a in present}
            | ({"spread (bootstrap)": (figures.INK, "line")} if np.isfinite(spread).any() else {})
            | {f"measured {short(measured)}": (figures.INK, "dash")}
        )
        self._draw_head(measured)
        self._downloads.refresh()

    def _draw_head(self, measured: float) -> None:
        name = ", ".join(str(w) for w in self.samples.runs["workload"].unique()[:3])
        more = ", …" if self.samples.runs["workload"].nunique() > 3 else ""
        whole = self.window == self._bar.whole
        where = "the whole run" if whole else stretch_label(self.timeline, *self.window)
        self._where = where
        trained = getattr(self.model, "kind", "")
        note = (
            f"{html.escape(self._throughput)}: at most <b>{short(self.ranking.throughput_bound)}</b> by the lowest "
            f"bound, measured {short(measured)} (total work over total time); {html.escape(where)}; "
            f"{counted(len(self._ranked()), 'events')} ranked of {len(self._ranks)}."
        )
        labels = kind_html(self.samples.kind)
        if measured > self.ranking.throughput_bound:
            labels += (
                "<div class='pk-note'>Measured above its bound: the training holds nothing as fast at these "
                "intensities. Train on more workloads.</div>"
            )
        if trained not in ("", self.samples.kind):
            labels += f"<span class='pk-muted'>The model was trained on {html.escape(trained)} samples.</span>"
        self._head.value = heading(f"What bounds {abbreviate(name, 60)}{more}", note) + labels

    def _mark_bar(self) -> None:
        self._bars.selected = [self._shown.index(self.event)] if self.event in self._shown else []

    def _draw_event(self) -> None:
        self._mark_bar()
        area = self.areas.of(self.event)
        roofline = self.model.rooflines[self.event]
        inside = self.timeline.selection(*self.window)
        row = self._ranks[self._ranks["event"] == self.event].iloc[0]
        training = sample_positions(self.training, self.event)
        intensity, throughput, rows = sample_positions(self.samples, self.event)
        chosen = inside[self.timeline.row[rows]]
        self._roofline.draw(
            self.axes,
            self.samples.work_event,
            roofline,
            training=training[:2],
            outside=(intensity[~chosen], throughput[~chosen]),
            chosen=(intensity[chosen], throughput[chosen]),
            colour=area_colour(area),
            bound=float(row["throughput_bound"]),
        )
        chip = keys({area: (area_colour(area), "bar")})
        self._title.value = f"<div class='pk-title'>{breakable(self.event)}</div>{chip}"
        self._sides.value = (
            "<div style='display:flex;justify-content:space-between' class='pk-muted'>"
            "<span>◀ left of the peak: fewer are better</span><span>right of it: more are better ▶</span></div>"
        )
        self._hint.value = self._words(row, area)

    def _words(self, row: pd.Series, area: str) -> str:
        work, event = html.escape(_singular(self.samples.work_event)), html.escape(self.event)
        left = float(row["left_fraction"])
        if not np.isfinite(left):
            advice = f"This event could not be ranked here: {html.escape(str(row['status']))}."
        elif left >= 0.5:
            advice = (
                f"<b>Reduce it.</b> {left:.0%} of the time lies left of the peak: fewer {event} per {work} would raise "
                "the bound."
            )
        else:
            advice = (
                f"<b>Raise it.</b> {1 - left:.0%} of the time lies right of the peak: more {event} per {work} would "
                "raise the bound."
            )
        figures = f"Bound {short(float(row['throughput_bound']))} from {counted(int(row['n_samples']), 'samples')}."
        pool = ""
        candidates = list(getattr(self.ranking, "candidates", []))
        if self.event in candidates and len(candidates) > 1:
            pool = f" One of {len(candidates)} candidates whose bounds cannot be told from the lowest."
        return f'<div class="pk-hint" style="--pk-area:{area_colour(area)}">{advice} {figures}{pool}</div>'

    def _spread_of(self, ranked: pd.DataFrame) -> np.ndarray:
        try:
            detailed = self.ranking.to_frame(details=True)
        except TypeError:
            return np.full((len(ranked), 2), np.nan)
        return detailed.set_index("event").loc[ranked["event"], ["low", "high"]].to_numpy(dtype="float64")


def _draw_spreads(mark: Any, spread: np.ndarray) -> None:
    """Draw each bar's bootstrap spread as a horizontal line over its end."""
    n = len(spread)
    height = 1 - (np.arange(n) + 0.5) / n
    x, y = np.full(3 * n, np.nan), np.repeat(height, 3)
    x[0::3], x[1::3] = spread[:, 0], spread[:, 1]
    figures.set_xy(mark, x, y)


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
