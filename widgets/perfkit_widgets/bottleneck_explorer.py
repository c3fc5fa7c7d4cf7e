"""BottleneckExplorer: what holds a run back, over time, with the evidence of each class of resources."""

import html
from typing import TYPE_CHECKING

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit.plots.samples import position_label, stretch_label, throughput_label
from perfkit.plots.style import SERIES
from perfkit.plots.time_axis import TimeAxis
from perfkit.samples.table import Samples, expect_samples
from perfkit_widgets import figures
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html
from perfkit_widgets.ranked_bars import RankedBars
from perfkit_widgets.window import TimeWindow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.bottlenecks.model import Bottlenecks


class BottleneckExplorer(Explorer):
    """Brush a part of a run: which class of resources held it back there, how likely, and by which evidence.

    Above, the throughput over time: drag across it (or use the slider by keyboard). Left, the classes by probability in
    that part; click one, and its probability over time and its evidence stand to the right. Below, what cannot be told
    and what to measure next.

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> pw.BottleneckExplorer(pk.Bottlenecks.load("zen4"), samples).resource
    'dividers'

    Parameters
    ----------
    model : Bottlenecks
        Its ``explain`` is asked anew for each part; the view works nothing out itself.
    samples : Samples
        Of one or more runs.
    run : str, optional
        Which to show; the first by default.

    Attributes
    ----------
    window : (float, float)
        The selected part of the time axis.
    resource : str
        The chosen class.
    explanation : Explanation
        Of the selected part.
    """

    window = traitlets.Tuple(traitlets.Float(), traitlets.Float())
    resource = traitlets.Unicode()
    explanation = traitlets.Any()

    def __init__(self, model: "Bottlenecks", samples: Samples, run: str | None = None) -> None:
        super().__init__()
        expect_samples(samples, "BottleneckExplorer")
        known = [str(name) for name in samples.runs.index]
        if run is not None and run not in known:
            raise SettingError(f"no run named {run!r}; there are {', '.join(known[:5])}")
        self.model, self.run = model, run or known[0]
        self.samples = samples.select(runs=[self.run])
        self.timeline = TimeAxis.of(self.samples)
        self._where = ""
        self._whole_run = model.explain(self.samples)
        self._bar = TimeWindow(self.timeline, throughput_label(self.samples))
        self._build()
        self.window = self._bar.window
        traitlets.link((self, "window"), (self._bar, "window"))
        traitlets.link((self, "resource"), (self._bars, "chosen"))
        self.observe(lambda _: self._explain(), "window")
        self.observe(lambda _: self._draw_chosen(), "resource")
        self._explain()

    # ------------------------------------------------------------- results

    def table(self) -> pd.DataFrame:
        """Return the classes of the selected part: speedup, probability, status and evidence."""
        return pd.DataFrame(self.explanation.of(self.run))

    def picture(self) -> "Figure":
        """Return the probabilities of the selected part as a static picture."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2.6), layout="constrained")
        self.explanation.plot(figure.subplots())
        return figure

    # ------------------------------------------------------------- building and drawing

    def _build(self) -> None:
        about = heading(f"What holds {self.run} back", "learnt on simulated runs; probabilities are calibrated there")
        self._about = widgets.HTML(about + kind_html(self.samples.kind))
        self._said, self._evidence, self._unknown = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._bars = RankedBars("probability (%)", 9)
        scales = {"x": figures.bq.LinearScale(), "y": figures.bq.LinearScale(min=0, max=100)}
        self._over_time = figures.line(scales, SERIES[1], 2)
        across, up = (
            figures.axis(scales["x"], "bottom", position_label(self.timeline)),
            figures.axis(scales["y"], "left", "probability (%)"),
        )
        strip = figures.figure(
            [self._over_time], [across, up], height=198, margin={"left": 64, "right": 14, "top": 8, "bottom": 46}
        )
        figures.set_range(across, *self._bar.whole, whole=self.timeline.unit == "intervals")
        figures.set_range(up, 0.0, 100.0)
        self._strip_title = widgets.HTML()
        self._downloads = Downloads(self, "bottlenecks")
        left = widgets.VBox([self._bars], layout={"flex": "1 1 420px", "min_width": "0px"})
        right = widgets.VBox(
            [self._strip_title, strip, self._evidence], layout={"flex": "1 1 420px", "min_width": "0px"}
        )
        row = {"flex_flow": "row wrap", "width": "100%"}
        self.children = [
            self._frame,
            self._about,
            self._bar,
            self._said,
            widgets.HBox([left, right], layout=row),
            self._unknown,
            self._downloads,
        ]

    def _explain(self) -> None:
        part = self.timeline.select(*self.window)
        if not len(part):
            self._said.value = heading(
                "No interval ends in this window", f"Widen it. Below still stands {self._where}."
            )
            return
        self.explanation = self.model.explain(part)
        rows = self.explanation.of(self.run)
        told = rows[rows["status"] == "told"]
        self._where = stretch_label(self.timeline, *self.window)
        self._said.value = heading(f"{self._where}: {self.explanation.answer(self.run)}")
        self._bars.draw(told[["resource", "probability"]], most=100.0)
        if self.resource not in set(told["resource"]):
            self.resource = str(told["resource"].iloc[0]) if len(told) else ""
        silent = rows.loc[rows["status"] == "cannot tell", "resource"]
        open_ = rows.loc[rows["status"] == "uncertain", "resource"]
        nxt = self.explanation.next_events.query("names != ''").head(3)
        lines = [f"cannot tell: {', '.join(silent)}"] if len(silent) else []
        lines += [f"uncertain, it depends on events that were not counted: {', '.join(open_)}"] if len(open_) else []
        lines += [f"measure next: {row.names} ({row.resource})" for row in nxt.itertuples()]
        self._unknown.value = f'<div class="pk-hint">{"<br>".join(map(html.escape, lines))}</div>' if lines else ""
        self._draw_chosen()
        self._downloads.refresh()

    def _lines(self) -> list[np.ndarray]:
        """Return the points of the chosen class's probability over time, for each place (CPU), then a gap."""
        rows = self._whole_run.intervals
        rows = rows[(rows["run"] == self.run) & (rows["resource"] == self.resource)]
        lines = []
        for place in rows["place"].unique():
            known = (
                rows[rows["place"] == place]
                .set_index("interval")["probability"]
                .reindex(self.timeline.interval)
                .to_numpy(dtype=float)
            )
            across, up = self.timeline.line(100.0 * known)
            lines.append(np.array([[*across, across[-1]], [*up, np.nan]]))
        return lines

    def _draw_chosen(self) -> None:
        if self.explanation is None:
            return
        lines = self._lines()
        each = "over time" if len(lines) < 2 else f"over time, a line for each of {len(lines)} places"
        across, up = (np.concatenate([[], *(line[axis] for line in lines)]) for axis in (0, 1))
        figures.set_xy(self._over_time, across, up)
        rows = self.explanation.of(self.run).set_index("resource")
        # A small probability has hardly a bar: it stands here, too.
        told = rows["status"].get(self.resource) == "told"
        likely = f"{rows.loc[self.resource, 'probability']:.1%}; " if told else ""
        name = html.escape(self.resource)
        self._strip_title.value = f"<b>{name}</b> <span class='pk-muted'>{likely}{each}</span>"
        words = rows.loc[self.resource, "evidence"] if self.resource in rows.index else ""
        shown = "".join(f"<li>{html.escape(part)}</li>" for part in str(words).split("; ") if part)
        self._evidence.value = f"<ul>{shown}</ul>" if shown else "<div class='pk-muted'>no share stands out</div>"
