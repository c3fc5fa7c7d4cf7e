"""TimeWindow: throughput over time with a brush, and a slider that does the same by keyboard."""

import html
from typing import Any

import ipywidgets as widgets
import numpy as np
import traitlets

from perfkit.plots.samples import position_label
from perfkit.plots.style import CLOUD, SERIES, abbreviate, short
from perfkit.plots.time_axis import TimeAxis
from perfkit_widgets import figures
from perfkit_widgets.thinning import thin_line

_LABELLED_RUNS = 8


class BorderSlider(widgets.IntRangeSlider):
    """A slider over the borders of intervals: an arrow key moves a handle to the next one.

    Home and End move it to the last one that leaves an interval.

    A handle that is not moved keeps its end of the window where it is, also between borders (a brush stops anywhere).

    Attributes
    ----------
    window : (float, float)
        The ends of the chosen stretch, in the borders' unit.
    one_border : bool
        Whether something lies from a border to the same border: an interval without times, drawn at its number.
    """

    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())

    def __init__(self, description: str, tooltip: str) -> None:
        super().__init__(
            value=(0, 1),
            min=0,
            max=1,
            readout=False,
            continuous_update=False,
            description=description,
            tooltip=f"{tooltip}: Tab to a handle, then arrow keys",
            layout={"flex": "1 1 auto", "width": "auto"},
        )
        self._borders = np.array([0.0, 1.0])
        self.one_border = False
        self.observe(self._moved, "value")
        self.observe(self._placed, "window")

    def lay(self, whole: tuple[float, float], ends: np.ndarray) -> None:
        """Take the borders of other intervals, which end at ``ends``, and choose all of them."""
        before = len(self._borders) - 1
        self._borders = np.unique([*whole, *ends])
        top = len(self._borders) - 1
        self.max = max(before, top)
        self.window = whole
        self._placed(None)
        self.max = top

    def _places(self) -> tuple[int, ...]:
        return tuple(int(np.abs(self._borders - end).argmin()) for end in self.window)

    def _placed(self, _: Any) -> None:
        self.value = self._places()

    def _moved(self, change: Any) -> None:
        new, places = tuple(change["new"]), self._places()
        if new == places:
            return
        if new[0] == new[1] and not self.one_border:
            # Nothing would be chosen: the handle that came stops before the other one, as the key End sends the first.
            new = (new[0] - 1, new[1]) if new[1] == places[1] else (new[0], new[1] + 1)
        ends = zip(self.window, places, new, strict=True)
        self.window = tuple(end if was == now else float(self._borders[now]) for end, was, now in ends)
        self._placed(None)


class TimeWindow(widgets.VBox):
    """The throughput of every interval, and a window that is chosen by a brush, a slider or the trait.

    Attributes
    ----------
    window : (float, float)
        The chosen part of the time axis; changes when the brush is let go.
    whole : (float, float)
        All of the time axis.
    """

    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())

    def __init__(self, timeline: TimeAxis, label: str, height: int = 150) -> None:
        super().__init__(layout={"width": "100%"})
        self.whole = _whole(timeline)
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale(min=0)}
        values = timeline.throughput
        known = values[np.isfinite(values)]
        top = float(known.max()) * 1.08 if len(known) and known.max() > 0 else 1.0
        mark = figures.line(scales, SERIES[0], 1.5)
        figures.set_xy(mark, *thin_line(*timeline.line(values)))
        borders = figures.line(scales, CLOUD, 1, "dashed")
        _draw_borders(borders, timeline, top)
        across, up = figures.axis(scales["x"], "bottom", position_label(timeline)), figures.axis(scales["y"], "left")
        figures.set_range(across, *self.whole, whole=timeline.unit == "intervals")
        figures.set_range(up, 0, top)
        self.brush = figures.bq.interacts.BrushIntervalSelector(scale=scales["x"], marks=[mark], color="#D55E00")
        margin = {"left": 64, "right": 14, "top": 8, "bottom": 42}
        self.figure = figures.figure(
            [borders, mark], [across, up], height=height, margin=margin, interaction=self.brush
        )
        self._slider = BorderSlider("Window", "Part of the time axis to look at")
        self._slider.one_border = timeline.unit == "intervals"
        self._slider.lay(self.whole, timeline.position)
        self._all = widgets.Button(description="Whole", tooltip="Select all intervals", layout={"width": "80px"})
        self._text = widgets.HTML(layout={"margin": "0 4px 0 14px"})  # the slider's handle sticks out to the right
        runs = _run_names(timeline)
        how = f"over time; drag across the strip to select a window{runs}"
        title = f"<b>{html.escape(label)}</b> <span class='pk-muted'>{how}</span>"
        self.children = [
            widgets.HTML(title),
            self.figure,
            widgets.HBox([self._slider, self._text, self._all], layout={"width": "100%", "align_items": "center"}),
        ]
        self.unit = timeline.unit
        self._marking = False
        self.window = self.whole
        traitlets.link((self._slider, "window"), (self, "window"))
        self._all.on_click(lambda _: setattr(self, "window", self.whole))
        self.brush.observe(self._brushed, ["brushing", "selected"])
        self.observe(lambda _: self._show(), "window")
        self._show()

    @traitlets.validate("window")
    def _ordered(self, proposal: Any) -> tuple[float, float]:
        low, high = sorted(proposal["value"])
        return (max(low, self.whole[0]), min(high, self.whole[1]))

    def _brushed(self, _: Any) -> None:
        # While the brush moves, nothing is worked out: only its last position counts.
        if self.brush.brushing or self._marking:
            return
        selected = self.brush.selected
        if selected is None or len(selected) != 2:
            return
        low, high = (float(v) for v in selected)
        self.window = self.whole if high <= low else (low, high)

    def _show(self) -> None:
        whole = self.window == self.whole
        # The brush lies where the window is, however that was chosen.
        low, high = self.window
        around = 0.5 if low == high else 0.0  # one interval without times: its number alone would be no stretch
        marked = None if whole else np.clip([low - around, high + around], *self.whole)
        if not (marked is None and self.brush.selected is None):
            self._marking = True
            self.brush.selected = marked
            self._marking = False
        self._text.value = (
            "all of it" if whole else f"{short(self.window[0], 4)} – {short(self.window[1], 4)} {self.unit}"
        )


def _whole(timeline: TimeAxis) -> tuple[float, float]:
    if not len(timeline.position):
        return (0.0, 1.0)
    low = float(timeline.position[0]) if timeline.unit == "intervals" else 0.0
    high = float(timeline.position[-1])
    return (low, high if high > low else low + 1.0)


def _draw_borders(mark: Any, timeline: TimeAxis, top: float) -> None:
    """Draw a dashed line where a run begins."""
    starts = np.array([start for _, start in timeline.starts[1:]])
    if len(starts):
        figures.set_xy(mark, np.repeat(starts, 3), np.tile([0.0, top, np.nan], len(starts)))


def _run_names(timeline: TimeAxis) -> str:
    names = [name for name, _ in timeline.starts]
    if len(names) < 2:
        return ""
    if len(names) > _LABELLED_RUNS:
        return f"; {len(names):,} runs, dashed lines between them"
    return "; runs from left: " + html.escape(", ".join(abbreviate(n, 24) for n in names))
