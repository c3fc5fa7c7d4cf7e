"""ScheduleView: a schedule by cycle and node type, with the stalls of its buffers."""

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import traitlets

from perfkit.plots.extended_roofline import STALL_COLOURS, TYPE_COLOURS, cycle_counts, plot_schedule
from perfkit_widgets import figures
from perfkit_widgets.base import Explorer, heading, keys, kind_html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_NAMES = {"mem": "memory"}
_MARGIN = {"left": 70, "right": 20, "top": 8, "bottom": 46}


class ScheduleView(Explorer):
    """How many nodes of each type issue (full colour) and execute (pale) in each cycle; stalls shade the cycles.

    Parameters
    ----------
    schedule : Schedule
        A schedule that recorded its nodes.
    width : int
        Cycles shown at once.

    Attributes
    ----------
    schedule : Schedule
        What is drawn; set it to draw another.
    first, width : int
        The first cycle shown, and how many.
    """

    schedule = traitlets.Any()
    first = traitlets.Int(0)
    width = traitlets.Int(200)

    def __init__(self, schedule: Any, width: int = 200) -> None:
        super().__init__(width=width)
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale()}
        self._across = figures.axis(scales["x"], "bottom", "cycle")
        self._up = figures.axis(scales["y"], "left", "node type")
        self._bodies = {
            name: (_area(scales, shade, 0.4), _area(scales, shade, 1.0)) for name, shade in TYPE_COLOURS.items()
        }
        self._stalls = {name: _area(scales, shade, 0.4) for name, shade in STALL_COLOURS.items()}
        marks = [*self._stalls.values(), *(mark for pair in self._bodies.values() for mark in pair)]
        self._figure = figures.figure(marks, [self._across, self._up], height=300, margin=_MARGIN)
        self._title, self._legend = widgets.HTML(), widgets.HTML()
        self._slider = widgets.IntSlider(
            description="first cycle", layout={"width": "70%"}, style={"description_width": "90px"}
        )
        self.children = [self._title, self._figure, self._legend, self._slider]
        self._slider.observe(self._on_slider, "value")
        self.observe(lambda _: self._draw(), ["first", "width", "schedule"])
        self.schedule = schedule

    def table(self) -> "pd.DataFrame":
        """Return the nodes that execute in the cycles shown."""
        nodes = self.schedule.node_table()
        inside = (nodes["issue"] < self._last) & (nodes["done"] > self.first)
        return nodes[inside]

    def picture(self) -> "Figure":
        """Return the cycles shown as a static picture."""
        return plot_schedule(self.schedule, self.first, self._last).figure

    @property
    def _last(self) -> int:
        return min(int(self.schedule.cycles), self.first + self.width)

    def _on_slider(self, change: Any) -> None:
        self.first = change["new"]

    def _draw(self) -> None:
        cycles = int(self.schedule.cycles)
        if self.first >= cycles:
            self.first = 0
            return
        first, last = self.first, self._last
        executing, issuing = cycle_counts(self.schedule, first, last)
        present = [name for k, name in enumerate(self.schedule.types) if executing[k].any()]
        order = {name: len(present) - 1 - k for k, name in enumerate(present)}
        for k, (name, (light, dark)) in enumerate(self._bodies.items()):
            row = order.get(name)
            if row is None:
                light.visible = dark.visible = False
                continue
            scale = 0.8 / max(1, executing[k].max())
            _fill(light, first, executing[k] * scale, row - 0.4)
            _fill(dark, first, issuing[k] * scale, row - 0.4)
        self._show_stalls(first, last, len(present))
        self._across.scale.min, self._across.scale.max = float(first), float(last)
        figures.set_range(self._across, first, last)
        with self._up.hold_sync():
            self._up.scale.min, self._up.scale.max = -0.5, len(present) - 0.5
            self._up.tick_values = np.array(sorted(order.values()), dtype="float64")
            self._up.tick_labels = {str(row): _NAMES.get(name, name) for name, row in order.items()}
        self._slider.max = max(cycles - self.width, 0)
        self._slider.value = self.first
        self._slider.layout.display = "none" if cycles <= self.width else ""
        note = f"cycles {first:,} to {last:,} of {cycles:,}; full colour where nodes issue, pale where they execute"
        self._title.value = heading(f"Schedule of {self.schedule.name}", note)

    def _show_stalls(self, first: int, last: int, rows: int) -> None:
        mask = self.schedule.stall_mask[first:last]
        entries = {}
        for k, (name, mark) in enumerate(self._stalls.items()):
            flags = (mask >> k & 1).astype("float64")
            mark.visible = bool(flags.any())
            if mark.visible:
                _fill(mark, first, flags * rows, -0.5)
                entries[f"{name} stall ({int(flags.sum())} cycles)"] = (STALL_COLOURS[name], "bar")
        self._legend.value = keys(entries) + kind_html("simulated")


def _area(scales: dict[str, Any], colour: str, opacity: float) -> Any:
    return figures.line(scales, colour, 0, fill="inside", fill_colors=[colour], fill_opacities=[opacity])


def _fill(mark: Any, first: int, heights: np.ndarray, base: float) -> None:
    """Draw a step function from the height `base` as a closed area."""
    edges = np.arange(first, first + len(heights) + 1, dtype="float64")
    x = np.repeat(edges, 2)
    y = np.concatenate([[base], np.repeat(base + heights, 2), [base]])
    figures.set_xy(mark, x, y)
