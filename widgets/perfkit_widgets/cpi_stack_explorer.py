"""CpiStackExplorer: play with a CPI stack and watch whether the data support it."""

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import DataError, SettingError, counted
from perfkit.plots.cpi_stack import colours, line_over_time, named_fits, time_axis
from perfkit.plots.style import ACCENT, CLOUD, SERIES, distinct, short, visible_range
from perfkit_widgets import figures
from perfkit_widgets.base import Downloads, Explorer, heading, keys, kind_html
from perfkit_widgets.cpi_stack_parts import EventList, StackBars, gauges_html, verdict
from perfkit_widgets.thinning import thin, thin_line
from perfkit_widgets.window import BorderSlider

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.cpi.stack import CpiComparison, CpiFit

_FORMS = [("IPC form: divided by cycles", "ipc"), ("CPI form: divided by instructions", "cpi")]
_METHODS = ["nnls", "ols", "lasso", "huber"]
_FAINT = "#8A94A0"
_NOTHING = 0.01  # of the CPI
_SUMS = [("each interval", 1), ("sums of 5", 5), ("sums of 20", 20), ("sums of 50", 50)]
_NAMES = 186  # pixels of the names of components, at least


class CpiStackExplorer(Explorer):
    """Toggle events, switch form and method, select a phase: the stack is fitted anew, with its evidence beside it.

    Left, the stacks of all workloads (click a bar to choose one). Right, the events of the chosen workload with their
    penalties. Below, CPI and its prediction over time: drag across it to fit a phase of the run only (or use the
    slider by keyboard), with residuals, the intervals of the components, and the gauges of placebo and bracket.

    Parameters
    ----------
    fits : CpiFit, CpiComparison or mapping of names to CpiFit
        The stacks to begin with. The view calls their ``refit``; it works nothing out itself.
    placebos, resamples : int
        How many shuffles and bootstrap resamples each refit makes: fewer than a fit's own, to answer at once.

    Attributes
    ----------
    workload : str
        The chosen stack.
    events : tuple of str
        The events of the model.
    form, method, sums : str, str, int
        As in `perfkit.CpiStack` (``sums`` is its ``aggregate``).
    window : (float, float)
        The part of the chosen workload's time that is fitted.
    fit : CpiFit
        The chosen workload's stack as it is now.
    message : str
        Why the last change gave no stack ("" where it did).

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    >>> view = pw.CpiStackExplorer({"mine": pk.CpiStack().fit(samples)}, placebos=0, resamples=10)
    """

    workload = traitlets.Unicode()
    events = traitlets.Tuple()
    form = traitlets.Enum(["ipc", "cpi"], default_value="ipc")
    method = traitlets.Enum(_METHODS, default_value="nnls")
    sums = traitlets.Int(1, min=1)
    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())
    fit = traitlets.Any()
    message = traitlets.Unicode()

    def __init__(
        self, fits: "CpiFit | CpiComparison | Mapping[str, CpiFit]", *, placebos: int = 7, resamples: int = 100
    ) -> None:
        super().__init__()
        self._first: Mapping[str, Any] = named_fits(fits)
        self._quick = {"placebos": placebos, "resamples": resamples}
        self._fits = dict(self._first)
        self.workload = next(iter(self._first))
        self.fit = self._first[self.workload]
        settings = self.fit.settings
        self.form, self.method, self.sums = settings.form, settings.method, settings.aggregate
        self._all = tuple(dict.fromkeys(e for f in self._first.values() for e in f.source.events))
        self.events = tuple(e for e in self._all if any(e in f.events for f in self._first.values()))
        self._palette = colours(self._all)
        self._build()
        self._take_time()
        traitlets.link((self, "workload"), (self._choose_workload, "value"))
        traitlets.link((self, "form"), (self._choose_form, "value"))
        traitlets.link((self, "method"), (self._choose_method, "value"))
        traitlets.link((self, "sums"), (self._choose_sums, "value"))
        traitlets.link((self, "events"), (self._list, "chosen"))
        self._quiet = False
        self.observe(lambda _: self._refit_all(), ["events", "form", "method", "sums"])
        self.observe(lambda _: self._choose(), "workload")
        self.observe(lambda _: self._refit_window(), "window")
        self._draw()

    @traitlets.validate("workload")
    def _known_workload(self, proposal: Any) -> str:
        if proposal["value"] not in self._first:
            raise SettingError(f"no stack named {proposal['value']!r}; there are {', '.join(self._first)}")
        return str(proposal["value"])

    @traitlets.validate("window")
    def _ordered(self, proposal: Any) -> tuple[float, float]:
        low, high = sorted(proposal["value"])
        return (max(low, self._whole[0]), min(high, self._whole[1]))

    # ------------------------------------------------------------- results

    def table(self) -> pd.DataFrame:
        """Return the chosen stack as it is now: one row per part."""
        return self.fit.to_frame().reset_index()

    def picture(self) -> "Figure":
        """Return the stacks and the chosen one's evidence as a static picture."""
        from perfkit.plots.cpi_stack import plot_overview

        return plot_overview(self._fits, self.workload)

    # ------------------------------------------------------------- fitting (by the fits themselves)

    def _refit_all(self) -> None:
        """Fit every workload with the chosen events and settings; those that are not looked at, without intervals."""
        found = {}
        for name, first in self._first.items():
            rows = self._rows() if name == self.workload else None
            fit = self._refit(first, rows, draws=name == self.workload)
            if fit is None:
                return  # the message says why; what is drawn stays
            found[name] = fit
        self._fits = found
        self.fit = found[self.workload]
        self._draw()

    def _refit_window(self) -> None:
        if self._quiet:
            return
        fit = self._refit(self._first[self.workload], self._rows(), draws=True)
        if fit is None:
            return
        self._fits = {**self._fits, self.workload: fit}
        self.fit = fit
        self._draw()

    def _choose(self) -> None:
        self._take_time()
        self._refit_all()

    def _refit(self, first: Any, rows: np.ndarray | None, *, draws: bool) -> Any:
        quick = self._quick if draws else {"placebos": 1, "resamples": 0}
        wanted = [e for e in first.source.events if e in self.events]
        bounds = first.settings.bounds if self.method != "ols" else None
        alpha = first.settings.alpha if self.method == "lasso" else None
        try:
            fit = first.refit(
                events=wanted,
                rows=rows,
                form=self.form,
                method=self.method,
                aggregate=self.sums,
                bounds=bounds,
                alpha=alpha,
                **quick,
            )
        except (DataError, SettingError) as error:
            self.message = str(error)
            self._note.value = f'<div class="pk-note">No stack: {html.escape(self.message)}</div>'
            return None
        self.message = ""
        return fit

    def _rows(self) -> np.ndarray | None:
        """Return which intervals of the chosen workload lie in the window; None for all."""
        if self.window == self._whole:
            return None
        return np.asarray((self._time >= self.window[0]) & (self._time <= self.window[1]))

    # ------------------------------------------------------------- building

    def _build(self) -> None:
        names = list(self._first)
        self._head, self._note, self._gauges, self._verdict = (widgets.HTML() for _ in range(4))
        auto = {"width": "auto"}
        self._choose_workload = widgets.Dropdown(options=names, description="Workload", layout=auto)
        self._choose_form = widgets.Dropdown(options=_FORMS, description="Form", layout=auto)
        self._choose_method = widgets.Dropdown(options=_METHODS, description="Method", layout=auto)
        sums = _SUMS if self.sums in [n for _, n in _SUMS] else [*_SUMS, (f"sums of {self.sums}", self.sums)]
        self._choose_sums = widgets.Dropdown(options=sums, description="Intervals", layout=auto)
        self._list = EventList(self._all, self._palette)
        self._bars = StackBars(names, self._all, self._palette)
        self._bars.on_click(lambda name: setattr(self, "workload", name))
        self._build_time()
        self._build_residuals()
        self._build_intervals()
        self._downloads = Downloads(self, "cpi-stack")
        row = {"flex_flow": "row wrap", "width": "100%"}
        left = widgets.VBox([self._bars], layout={"flex": "2 1 300px", "min_width": "0px"})
        right = widgets.VBox([self._list], layout={"flex": "3 1 480px", "min_width": "0px"})
        evidence = [self._residual_box, self._interval_box, widgets.VBox([self._gauges], layout={"flex": "1 1 300px"})]
        self.children = [
            self._frame,
            self._head,
            widgets.HBox(
                [self._choose_workload, self._choose_form, self._choose_method, self._choose_sums], layout=row
            ),
            self._note,
            widgets.HBox([left, right], layout=row),
            self._time_box,
            widgets.HBox(evidence, layout=row),
            self._verdict,
            self._downloads,
        ]

    def _build_time(self) -> None:
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale()}
        self._whole_run = figures.line(scales, _FAINT, 1)
        self._measured = figures.line(scales, CLOUD, 3)
        self._predicted = figures.line(scales, ACCENT, 1.2)
        self._time_x, self._time_y = (
            figures.axis(scales["x"], "bottom"),
            figures.axis(scales["y"], "left", "cycles per instruction"),
        )
        self.brush = figures.bq.interacts.BrushIntervalSelector(
            scale=scales["x"], marks=[self._whole_run], color=SERIES[0]
        )
        fig = figures.figure(
            [self._whole_run, self._measured, self._predicted],
            [self._time_x, self._time_y],
            height=190,
            margin={"left": 64, "right": 14, "top": 8, "bottom": 42},
            interaction=self.brush,
        )
        self._slider = BorderSlider("Phase", "The part of the run to fit")
        whole = widgets.Button(description="Whole run", tooltip="Fit all intervals", layout={"width": "100px"})
        whole.on_click(lambda _: setattr(self, "window", self._whole))
        self._slider.observe(self._slid, "window")
        self.brush.observe(self._brushed, ["brushing", "selected"])
        self._time_title, self._phase = widgets.HTML(), widgets.HTML(layout={"margin": "0 4px 0 14px"})
        self._time_box = widgets.VBox(
            [
                self._time_title,
                fig,
                widgets.HBox([self._slider, self._phase, whole], layout={"width": "100%", "align_items": "center"}),
            ],
            layout={"width": "100%"},
        )

    def _build_residuals(self) -> None:
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale()}
        self._residuals = figures.cloud(scales, SERIES[0], 4, 0.9)
        self._zero = figures.line(scales, figures.INK, 1)
        self._residual_x = figures.axis(
            scales["x"], "bottom", "predicted (cycles per instruction)", label_location="end"
        )
        self._residual_y = figures.axis(scales["y"], "left", "CPI (cycles per instruction)", label_offset="50px")
        fig = figures.figure(
            [self._zero, self._residuals],
            [self._residual_x, self._residual_y],
            height=260,
            margin={"left": 64, "right": 14, "top": 8, "bottom": 46},
        )
        title = widgets.HTML("<b>Residuals</b> <span class='pk-muted'>CPI less predicted CPI</span>")
        self._residual_box = widgets.VBox([title, fig], layout={"flex": "2 1 300px", "min_width": "0px"})

    def _build_intervals(self) -> None:
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale(reverse=True)}
        self._spans = figures.line(scales, "#4A8FCC", 6)
        self._here = figures.cloud(scales, SERIES[0], 9)
        self._other = figures.cloud(scales, ACCENT, 6)
        self._span_x = figures.axis(scales["x"], "bottom", "CPI (cycles per instruction)", label_location="end")
        self._span_y = figures.axis(scales["y"], "left", grid_lines="none")
        self._room = figures.room_for(self.events, _NAMES)
        fig = figures.figure(
            [self._spans, self._here, self._other],
            [self._span_x, self._span_y],
            height=260,
            margin={"left": round(self._room) + 14, "right": 14, "top": 8, "bottom": 46},
        )
        self._span_title = widgets.HTML()
        self._interval_box = widgets.VBox([self._span_title, fig], layout={"flex": "3 1 420px", "min_width": "0px"})

    # ------------------------------------------------------------- window

    def _take_time(self) -> None:
        """Lay out the chosen workload's time, and select all of it."""
        self._time, self._time_label = time_axis(self._first[self.workload].source.rows)
        self._time_column = "row" if self._time_label.startswith("interval") else "at"
        low, high = float(self._time[0]), float(self._time[-1])
        self._whole = (low, high if high > low else low + 1.0)
        self._quiet = True
        self._slider.lay(self._whole, self._time)
        self.window = self._whole
        self._quiet = False
        self._time_x.label = self._time_label
        figures.set_range(self._time_x, *self._whole)

    def _slid(self, change: Any) -> None:
        if not getattr(self, "_quiet", True):
            self.window = change["new"]

    def _brushed(self, _: Any) -> None:
        # While the brush moves, nothing is fitted: only where it is let go counts.
        if self._quiet or self.brush.brushing or self.brush.selected is None or len(self.brush.selected) != 2:
            return
        low, high = (float(v) for v in self.brush.selected)
        self.window = self._whole if high <= low else (low, high)

    # ------------------------------------------------------------- drawing

    def _draw(self) -> None:
        fit = self.fit
        self._note.value = ""
        residual = fit.residual if abs(fit.residual) > 1e-9 else 0.0
        about = (
            f"CPI {fit.cpi:.4f} over {counted(len(fit.data), 'intervals')}; base {fit.base:.3f}; "
            f"unattributed {residual:+z.4f} CPI; predictions of intervals are {fit.misplaced:.3f} CPI off on average"
        )
        self._head.value = heading(f"CPI stack of {self.workload}", about) + kind_html(fit.kind)
        self._bars.draw(self._fits, self.workload)
        self._list.draw(fit)
        self._gauges.value = gauges_html(fit)
        self._verdict.value = verdict(fit)
        self._draw_time(fit)
        self._draw_intervals(fit)
        self._downloads.refresh()

    def _draw_time(self, fit: Any) -> None:
        table = fit.intervals()
        x = table[self._time_column].to_numpy(dtype="float64")
        cpi, predicted = table["cpi"].to_numpy(), table["predicted"].to_numpy()
        run = self._first[self.workload].source
        everywhere = run.cycles / run.instructions
        low, high = visible_range(np.concatenate([everywhere, predicted]), 0.08)
        figures.set_range(self._time_y, max(0.0, low), high)
        figures.set_xy(self._whole_run, *thin_line(*line_over_time(run.rows, self._time, everywhere)))
        for mark, values in ((self._measured, cpi), (self._predicted, predicted)):
            figures.set_xy(mark, *thin_line(*line_over_time(table, x, values)))
        legend = keys({f"{fit.kind} CPI": (CLOUD, "line"), "predicted by the stack": (ACCENT, "line")})
        note = "over time; drag across it to fit that phase only"
        self._time_title.value = f"<b>CPI and its prediction</b> <span class='pk-muted'>{note}</span> {legend}"
        whole = self.window == self._whole
        unit = "s" if self._time_label.startswith("time") else "(intervals)"
        self._phase.value = "all of it" if whole else f"{short(self.window[0], 4)} – {short(self.window[1], 4)} {unit}"
        self._quiet = True
        self._slider.window = self.window
        # The brush lies where the window is, however that was chosen.
        marked = None if whole else np.array(self.window)
        if not (marked is None and self.brush.selected is None):
            self.brush.selected = marked
        self._quiet = False
        residual = cpi - predicted
        drawn = thin(predicted, residual, limit=3000)
        figures.set_points(self._residuals, predicted[drawn], residual[drawn])
        ends = visible_range(predicted, 0.08)
        figures.set_xy(self._zero, np.array(ends), np.zeros(2))
        figures.set_range(self._residual_x, *ends)
        # Residuals of a perfect fit are what rounding leaves: nothing to see.
        least = _NOTHING * fit.cpi
        low, high = visible_range(residual, 0.1)
        figures.set_range(self._residual_y, min(low, -least), max(high, least))

    def _draw_intervals(self, fit: Any) -> None:
        order = fit.components.drop("base").sort_values(ascending=False, kind="stable").index[:8]
        parts = ["base", *order]
        low, high = (end[parts].to_numpy() for end in fit.intervals_of(fit.component_draws))
        y = np.arange(len(parts), dtype="float64")
        here, other = fit.components[parts].to_numpy(), fit.other[parts].to_numpy()
        gap = np.full(len(parts), np.nan)
        figures.set_xy(self._spans, np.column_stack([low, high, gap]).ravel(), np.column_stack([y, y, gap]).ravel())
        figures.set_points(self._here, here, y)
        figures.set_points(self._other, other, y)
        every = np.concatenate([low, high, here, other])
        every = every[np.isfinite(every)]
        figures.set_range(self._span_x, min(0.0, float(every.min())), float(every.max()) * 1.05 or 1.0)
        names = {str(i): name for i, name in enumerate(distinct(parts, self._room))}
        figures.set_ticks(self._span_y, -0.6, len(parts) - 0.4, y, names)
        forms = {"ipc": "IPC form", "cpi": "CPI form"}
        this, other_form = forms[self.form], forms["cpi" if self.form == "ipc" else "ipc"]
        legend = keys({f"this fit ({this})": (SERIES[0], "dot"), other_form: (ACCENT, "dot")})
        level = f"{fit.settings.level:.0%} intervals"
        self._span_title.value = f"<b>Components</b> <span class='pk-muted'>with {level}</span> {legend}"
