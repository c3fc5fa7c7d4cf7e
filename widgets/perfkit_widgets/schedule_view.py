"""ScheduleView: a schedule by cycle and node type, with the stalls of its buffers."""

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import traitlets

from perfkit.errors import UnavailableError, counted
from perfkit.plots.extended_roofline import STALL_COLOURS, TYPE_COLOURS, binned_counts, plot_schedule, type_name
from perfkit.plots.style import short
from perfkit_widgets import figures
from perfkit_widgets.base import Explorer, heading, keys, kind_html, own_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from perfkit.simulators.dag.measures import Schedule

_ZOOMS = (50, 200, 1000, 5000)
_WIDE = {"description_width": "90px"}
_MARGIN = {"left": 166, "right": 20, "top": 8, "bottom": 46}


class ScheduleView(Explorer):
    """How many nodes of each type issue (full colour) and execute (pale) in each cycle; stalls shade the cycles.

    The buttons go half a picture back and forth, and to the next cycle with a stall; the list says how many cycles are
    shown, up to all of them. Where those are more than the picture is wide, each step is a mean over several.

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
    marked : tuple of str
        The node types that stand out, the others fade; () for none. `perfkit_widgets.link_selection` sets it to those
        of the roof that is chosen in a `RooflineView`.

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> view = pw.ScheduleView(pk.DagScheduler(pk.DagCore.load("erm"), record=True).run(dag))
    """

    schedule = traitlets.Any()
    first = traitlets.Int(0)
    width = traitlets.Int(200, min=1)
    marked: Any = traitlets.Tuple()

    def __init__(self, schedule: "Schedule", width: int = 200) -> None:
        super().__init__(width=width)
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale()}
        self._across = figures.axis(scales["x"], "bottom", "time (cycle)")
        self._up = figures.axis(scales["y"], "left", "nodes at once (count)", label_offset="138px")
        self._bodies = {
            name: (_area(scales, shade, 0.4), _area(scales, shade, 1.0)) for name, shade in TYPE_COLOURS.items()
        }
        self._stalls = {name: _area(scales, shade, 0.4) for name, shade in STALL_COLOURS.items()}
        marks = [*self._stalls.values(), *(mark for pair in self._bodies.values() for mark in pair)]
        self._figure = figures.figure(marks, [self._across, self._up], height=300, margin=_MARGIN)
        self._title, self._legend = widgets.HTML(), widgets.HTML()
        self._quiet = False
        # The slider moves in steps of its own; the first cycle that is shown stands beside it.
        self._slider = widgets.IntSlider(
            description="first cycle", readout=False, layout={"flex": "1 1 240px"}, style=_WIDE
        )
        self._first_shown = widgets.HTML(layout={"min_width": "52px", "margin": "0 8px"})
        self._zoom = widgets.Dropdown(description="cycles shown", layout={"width": "190px"}, style=_WIDE)
        self._buttons = [
            _button("◀", "Half a picture earlier", lambda: self._go(self.first - self.width // 2)),
            _button("▶", "Half a picture later", lambda: self._go(self.first + max(1, self.width // 2))),
            _button("next stall", "To the next cycle in which a buffer stalls", self.next_stall),
        ]
        self._bar = widgets.HBox(
            [self._slider, self._first_shown, self._zoom, *self._buttons],
            layout={"flex_flow": "row wrap", "width": "100%", "align_items": "center"},
        )
        self.children = [self._title, self._figure, self._legend, self._bar]
        self._slider.observe(self._on_slider, "value")
        self._zoom.observe(self._on_zoom, "value")
        self.observe(lambda _: self._draw(), ["first", "width", "schedule"])
        self.observe(lambda _: self._shade(), "marked")
        self.schedule = schedule

    @traitlets.validate("schedule")
    def _recorded(self, proposal: Any) -> Any:
        if proposal["value"].stall_mask is None:
            name = proposal["value"].name
            raise UnavailableError(f"the run of {name} recorded no nodes; run DagScheduler(..., record=True)")
        return proposal["value"]

    def next_stall(self) -> None:
        """Go to the next stretch of cycles with a stall after the first cycle shown; after the last, to the first."""
        stalled = self.schedule.stall_mask != 0
        begins = np.flatnonzero(stalled & ~np.concatenate([[False], stalled[:-1]]))
        if len(begins):
            later = begins[begins > self.first]
            self._go(int(later[0] if len(later) and later[0] <= self._slider.max else begins[0]))

    def table(self) -> "pd.DataFrame":
        """Return the nodes that execute in the cycles shown."""
        nodes = self.schedule.node_table()
        inside = (nodes["issue"] < self._last) & (nodes["done"] > self.first)
        return nodes[inside]

    def picture(self) -> "Figure":
        """Return the cycles shown as a static picture."""
        most = 2000  # beyond that a static picture has no room for a cycle
        last = min(self._last, self.first + most)
        return plot_schedule(self.schedule, self.first, last, ax=own_axes(9, 3.2)).figure

    @property
    def _last(self) -> int:
        return min(int(self.schedule.cycles), self.first + self.width)

    def _go(self, first: int) -> None:
        self.first = min(max(first, 0), max(int(self.schedule.cycles) - self.width, 0))

    def _on_slider(self, change: Any) -> None:
        if not self._quiet:
            self.first = change["new"]

    def _on_zoom(self, change: Any) -> None:
        if not self._quiet and change["new"] is not None and change["new"] != self.width:
            self.width = change["new"]
            self._go(self.first)

    def _draw(self) -> None:
        cycles = int(self.schedule.cycles)
        if self.first >= cycles:
            self.first = 0
            return
        first, last = self.first, self._last
        edges, executing, issuing, stalled = binned_counts(self.schedule, first, last)
        present = [name for k, name in enumerate(self.schedule.types) if executing[k].any()]
        tallest = {name: k for k, name in enumerate(self.schedule.types) if name in present}
        order = {name: len(present) - 1 - k for k, name in enumerate(present)}
        for k, (name, (light, dark)) in enumerate(self._bodies.items()):
            row = order.get(name)
            if row is None:
                light.visible = dark.visible = False
                continue
            scale = 0.8 / max(1, executing[k].max())
            _fill(light, edges, executing[k] * scale, row - 0.4)
            _fill(dark, edges, issuing[k] * scale, row - 0.4)
        self._show_stalls(edges, stalled, len(present))
        self._across.scale.min, self._across.scale.max = float(first), float(last)
        figures.set_range(self._across, first, last)
        rows = np.array(sorted(order.values()), dtype="float64")
        names = {str(row): type_name(name) for name, row in order.items()}
        figures.set_ticks(self._up, -0.5, len(present) - 0.5, rows, names)
        self._controls(cycles)
        step = int(edges[1] - edges[0])
        most = ", ".join(_several(executing[k].max(), type_name(name)) for name, k in tallest.items())
        means = f", means over {step} cycles" if step > 1 else ""
        note = (
            f"cycles {first:,} to {last:,} of {cycles:,}{means}; full colour where nodes issue, pale where they "
            f"execute; at most at once: {most}"
        )
        self._title.value = heading(f"Schedule of {self.schedule.name} on {self.schedule.core.name}", note)
        self._shade()

    def _controls(self, cycles: int) -> None:
        widths = sorted({n for n in (*_ZOOMS, self.width) if n < cycles})
        self._quiet = True  # a list with other options chooses its first one
        self._zoom.options = [*((f"{n:,}", n) for n in widths), (f"all {cycles:,}", max(cycles, self.width))]
        self._zoom.value = self.width if self.width < cycles else max(cycles, self.width)
        with self._slider.hold_trait_notifications():
            self._slider.max = max(cycles - self.width, 0)
            # One press of an arrow key moves by a tenth of the picture, not by one cycle of many thousands.
            step = self._slider.step = max(1, min(self.width, cycles) // 10)
            # On the slider's own grid: a browser answers with the nearest value of it to any other.
            self._slider.value = min(round(self.first / step) * step, self._slider.max)
        self._quiet = False
        self._first_shown.value = f"{self.first:,}"
        for control in (self._slider, self._first_shown, *self._buttons):
            control.layout.display = "none" if cycles <= self.width else ""

    def _shade(self) -> None:
        for name, (light, dark) in self._bodies.items():
            faded = bool(self.marked) and name not in self.marked
            light.fill_opacities, dark.fill_opacities = ([0.08], [0.2]) if faded else ([0.4], [1.0])

    def _show_stalls(self, edges: np.ndarray, stalled: np.ndarray, rows: int) -> None:
        entries = {}
        lengths = np.diff(edges)
        for k, (name, mark) in enumerate(self._stalls.items()):
            mark.visible = bool(stalled[k].any())
            if mark.visible:
                _fill(mark, edges, stalled[k] * rows, -0.5)
                entries[f"{name} stall ({int(np.rint(stalled[k] @ lengths)):,} cycles)"] = (STALL_COLOURS[name], "bar")
        self._legend.value = keys(entries) + kind_html("simulated")


def _several(most: float, things: str) -> str:
    """Return how many at once: a mean over several cycles need not be whole, and L1 is no plural."""
    whole = most == int(most) and things.endswith("s")
    return counted(int(most), things) if whole else f"{short(most)} {things}"


def _button(text: str, tooltip: str, act: Any) -> Any:
    made = widgets.Button(description=text, tooltip=tooltip, layout={"width": "auto"})
    made.on_click(lambda _: act())
    return made


def _area(scales: dict[str, Any], colour: str, opacity: float) -> Any:
    return figures.line(scales, colour, 0, fill="inside", fill_colors=[colour], fill_opacities=[opacity])


def _fill(mark: Any, edges: np.ndarray, heights: np.ndarray, base: float) -> None:
    """Draw a step function from the height `base` as a closed area."""
    x = np.repeat(edges.astype("float64"), 2)
    y = np.concatenate([[base], np.repeat(base + heights, 2), [base]])
    figures.set_xy(mark, x, y)
