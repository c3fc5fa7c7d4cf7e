"""RooflineView: the extended roofline of a schedule, with sliders that change the core."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import traitlets

from perfkit.errors import SettingError
from perfkit.plots.extended_roofline import (
    COLOURS,
    GREY,
    colour,
    intensities,
    plot_extended_roofline,
    type_name,
    unit_of,
)
from perfkit.plots.style import ROOF
from perfkit_widgets import figures
from perfkit_widgets.base import Explorer, heading, keys, kind_html, own_axes
from perfkit_widgets.roof_labels import RoofLabels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from perfkit.simulators.dag.extended_roofline import Roof
    from perfkit.simulators.dag.measures import ExtendedRoofline

# Classical bounds and the point in the colour of text: black on a light page, white on a dark one.
_INK = f"var(--jp-ui-font-color0, {ROOF})"
KINDS = ("throughput", "issue", "latency", "stall", "overlap")
_STYLES = {
    "throughput": "solid",
    "issue": "dashed",
    "latency": "dash_dotted",
    "stall": "dotted",
    "overlap": "solid",
}


class RooflineView(Explorer):
    """All named roofs of a schedule with the performance point; hover over a roof for its equation.

    Choose a roof in the list or by a click on it: the others fade, and views that are linked to this one follow
    (`perfkit_widgets.link_selection`). Classical bounds are solid, in the colour of text; issue, latency and stall
    bounds dashed in the colour of their node type; overlaps grey. The buttons show and hide each kind. With
    `reschedule` there is a slider for each of the core's parameters named in `sliders`; moving one schedules the DAG
    anew.

    Parameters
    ----------
    roofline : ExtendedRoofline
        What is drawn first.
    reschedule : callable, optional
        Called with the sliders' values as keywords; returns the roofline of the changed core. The view itself works
        nothing out.
    sliders : mapping of str to sequence of numbers, optional
        For each parameter the values it may take, in order.

    Attributes
    ----------
    roofline : ExtendedRoofline
        What is drawn.
    kinds : tuple of str
        The kinds of roofs that are shown.
    values : dict
        The sliders' values.
    roof : str
        The label of the chosen roof ("": none).

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> scheduler = pk.DagScheduler(pk.DagCore.load("erm"))
    >>> view = pw.RooflineView(scheduler.run(dag).roofline())
    """

    roof = traitlets.Unicode()
    roofline = traitlets.Any()
    kinds = traitlets.Tuple(default_value=KINDS)
    values = traitlets.Dict()

    def __init__(
        self,
        roofline: "ExtendedRoofline",
        reschedule: "Callable[..., ExtendedRoofline] | None" = None,
        sliders: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        super().__init__()
        self._reschedule = reschedule
        unit = roofline.schedule.unit
        scales = {"x": figures.bq.LogScale(), "y": figures.bq.LogScale()}
        self._scales = scales
        self._marks: dict[str, Any] = {}
        self._point = figures.bq.Scatter(
            x=[1.0],
            y=[1.0],
            scales=scales,
            colors=[_INK],
            default_size=90,
            tooltip=figures.bq.Tooltip(
                fields=["x", "y"], labels=[f"{unit}/byte", f"{unit}/cycle"], formats=[".3~g", ".3~g"]
            ),
        )
        self._across = figures.axis(scales["x"], "bottom", f"operational intensity [{unit}/byte, all levels]")
        self._up = figures.axis(scales["y"], "left", f"performance [{unit}/cycle]", label_offset="48px")
        margin = {"left": 70, "right": 20, "top": 8, "bottom": 48}
        self._labels = RoofLabels(scales, self._clicked)
        self._figure = figures.figure([self._point], [self._across, self._up], height=400, margin=margin)
        self._figure.add_class("pk-roofs")
        self._title, self._verdict, self._legend = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._buttons = {kind: widgets.ToggleButton(value=True, description=kind) for kind in KINDS}
        for button in self._buttons.values():
            button.layout.width = "auto"
            button.observe(self._on_button, "value")
        self._choose = widgets.Dropdown(
            options=[("(all)", "")], description="Roof", layout={"width": "360px"}, style={"description_width": "40px"}
        )
        self._sliders = self._make_sliders(sliders or {}, roofline.schedule.core)
        self.children = [
            self._title,
            widgets.HBox([*self._buttons.values(), self._choose], layout={"flex_flow": "row wrap"}),
            self._figure,
            self._legend,
            *([widgets.HBox(list(self._sliders.values()), layout={"flex_flow": "row wrap"})] if self._sliders else []),
            self._verdict,
        ]
        self.values = {name: slider.value for name, slider in self._sliders.items()}
        self.observe(self._on_values, "values")
        self.observe(lambda _: self._draw(), "roofline")
        self.observe(self._on_kinds, "kinds")
        self.roofline = roofline
        traitlets.link((self, "roof"), (self._choose, "value"))
        self.observe(lambda _: self._shade(), "roof")

    @traitlets.validate("roof")
    def _one_of_them(self, proposal: Any) -> str:
        label = str(proposal["value"])
        known = [roof.label for roof in self.roofline.roofs] if self.roofline is not None else []
        if label and label not in known:
            raise SettingError(f"no roof {label!r} in this plot; there are: {', '.join(known)}")
        return label

    @property
    def chosen(self) -> "Roof | None":
        """The chosen roof, None where none is chosen."""
        return next((roof for roof in self.roofline.roofs if roof.label == self.roof), None)

    def table(self) -> "pd.DataFrame":
        """Return every roof with its bound and distance."""
        return self.roofline.to_frame()

    def picture(self) -> "Figure":
        """Return the plot as a static picture."""
        return plot_extended_roofline(self.roofline, ax=own_axes(9, 5)).figure

    def _make_sliders(self, sliders: Mapping[str, Sequence[float]], core: Any) -> dict[str, Any]:
        made = {}
        for name, allowed in sliders.items():
            now = getattr(core, name)
            made[name] = widgets.SelectionSlider(
                options=[(f"{value:g}", value) for value in sorted({*allowed, now})],
                value=now,
                description=f"{name} ({unit_of(name)})" if unit_of(name) else name,
                style={"description_width": "210px"},
                layout={"width": "420px"},
            )
            made[name].observe(self._on_slider, "value")
        return made

    def _on_slider(self, _: Any) -> None:
        self.values = {name: slider.value for name, slider in self._sliders.items()}

    def _on_values(self, change: Any) -> None:
        for name, value in change["new"].items():
            if name in self._sliders and self._sliders[name].value != value:
                self._sliders[name].value = value
        if self._reschedule is not None:
            self.roofline = self._reschedule(**change["new"])

    def _on_button(self, _: Any) -> None:
        self.kinds = tuple(kind for kind, button in self._buttons.items() if button.value)

    def _on_kinds(self, change: Any) -> None:
        for kind, button in self._buttons.items():
            button.value = kind in change["new"]
        for roof in self.roofline.roofs:
            self._marks[roof.label].visible = roof.kind in self.kinds
        self._scale()

    def _draw(self) -> None:
        roofline = self.roofline
        x = intensities(roofline, points=61)
        hits = {roof.label for roof in roofline.hits}
        shown = set()
        for roof in roofline.roofs:
            mark = self._mark(roof)
            shown.add(roof.label)
            hit = roof.label in hits
            with mark.hold_sync():
                mark.x, mark.y = x, roof.at(x)
                mark.stroke_width = 2.6 if hit or roof.kind == "throughput" else 1.3
                mark.labels = [_hover(roof, roofline.schedule.unit)]
                mark.visible = roof.kind in self.kinds
        for label, mark in self._marks.items():
            if label not in shown:
                mark.visible = False
        # Below the others: an overlap bends from one roof of its two to the other, and would cover both.
        under = {roof.label for roof in roofline.roofs if roof.kind == "overlap"}
        roofs = [self._marks[label] for label in sorted(self._marks, key=lambda label: label not in under)]
        marks = [*roofs, *self._labels.marks, self._point]
        if len(marks) != len(self._figure.marks):
            self._figure.marks = marks
        point = roofline.intensity if math.isfinite(roofline.intensity) else float(x[-1])
        with self._point.hold_sync():
            self._point.x, self._point.y = np.array([point]), np.array([roofline.performance])
        if self.roof not in shown:
            self.roof = ""
        kept = self.roof
        with self._choose.hold_trait_notifications():
            self._choose.options = [("(all)", ""), *((_named(roof), roof.label) for roof in roofline.roofs)]
            self._choose.value = kept
        self._scale()
        self._shade()
        self._texts()

    def _scale(self) -> None:
        """Give the axes their ranges, and the roofs that are shown their names."""
        roofline = self.roofline
        x = intensities(roofline, points=61)
        low, high = roofline.performance / 5, 3 * max(roof.bound for roof in roofline.roofs)
        shown = [(roof, _shade_of(roof)) for roof in roofline.roofs if roof.kind in self.kinds]
        figures.set_range(self._across, float(x[0]), self._labels.draw(shown, x, low, high), last=float(x[-1]))
        figures.set_range(self._up, low, high)
        self._explain()

    def _shade(self) -> None:
        for roof in self.roofline.roofs:
            self._marks[roof.label].opacities = [0.15 if self.roof and roof.label != self.roof else 1.0]

    def _mark(self, roof: Any) -> Any:
        if roof.label not in self._marks:
            mark = figures.line(self._scales, _shade_of(roof), 1.3, _STYLES[roof.kind])
            mark.interactions = {"hover": "tooltip"}
            mark.on_element_click(lambda *_, label=roof.label: self._clicked(label))
            mark.tooltip = figures.bq.Tooltip(fields=["name"], labels=[""], show_labels=False)
            self._marks[roof.label] = mark
        return self._marks[roof.label]

    def _clicked(self, label: str) -> None:
        self.roof = "" if label == self.roof else label  # a second click takes the choice back

    def _texts(self) -> None:
        schedule = self.roofline.schedule
        head, *lines = self.roofline.verdict.split("\n")
        self._title.value = heading(f"Extended roofline: {schedule.name} on {schedule.core.name}", html.escape(head))
        items = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
        self._verdict.value = f"<div>{items}</div>{kind_html('simulated')}"

    def _explain(self) -> None:
        """Name the colours that are drawn, and no others."""
        drawn = {_shade_of(roof) for roof in self.roofline.roofs if roof.kind in self.kinds}
        names = {"comp": "computation", "mem": "memory"}
        known = {_INK: "classical bounds", GREY: "overlaps"}
        known |= {shade: names.get(kind, type_name(kind)) for kind, shade in COLOURS.items()}
        styles = "issue dashed, latency dash-dotted, stalls dotted; thick where a roof hits the point"
        entries = {name: (shade, "line") for shade, name in known.items() if shade in drawn}
        self._legend.value = f"{keys(entries)}<span class='pk-muted'>{styles}</span>"


def _named(roof: Any) -> str:
    return f"{roof.label} ({roof.distance:.2f})"


def _shade_of(roof: Any) -> str:
    return _INK if roof.kind == "throughput" else colour(roof)


def _hover(roof: Any, unit: str) -> str:
    return f"{roof.label}: {roof.bound:.3g} {unit}/cycle, {roof.distance:.2f} x the performance. {roof.formula}"
