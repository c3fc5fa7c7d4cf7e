"""SensitivityView: which resource, made better, would make the run faster; a slider says how much better."""

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html
from perfkit_widgets.ranked_bars import RankedBars

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SensitivityView(Explorer):
    """Ranked bars of the speedup that each resource allows, simulated anew for the slider's weight.

    Parameters
    ----------
    rank : callable
        Weight -> ranked table: ``resource`` first, its speedup in the last column (`perfkit.Sensitivity.to_frame`).
        The view calls it and works nothing out itself; it keeps each weight's table.
    weight : float
        The first weight.
    weights : (float, float)
        The slider's ends.
    top : int
        How many resources to show.
    title : str
        What is simulated.

    Attributes
    ----------
    weight : float
        The factor on each capacity.
    resource : str
        The chosen resource.
    ranking : DataFrame
        The table of the weight.

    Examples
    --------
    >>> run = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a").head(400))
    >>> view = pw.SensitivityView(lambda weight: run.sensitivity((weight,)).to_frame())
    """

    weight = traitlets.Float(2.0)
    resource = traitlets.Unicode()
    ranking = traitlets.Any()

    def __init__(
        self,
        rank: Callable[[float], pd.DataFrame],
        *,
        weight: float = 2.0,
        weights: tuple[float, float] = (1.05, 4.0),
        top: int = 12,
        title: str = "",
    ) -> None:
        super().__init__()
        if not 0 < weights[0] < weights[1]:
            raise SettingError(f"weights go from a number above 0 to a larger one; found {weights}")
        self._rank, self._top, self._title, self._range = rank, top, title, weights
        self._known: dict[float, pd.DataFrame] = {}
        self._head, self._words = widgets.HTML(), widgets.HTML(layout={"width": "100%"})
        self._slider = widgets.FloatSlider(
            min=weights[0],
            max=weights[1],
            step=0.05,
            value=weight,
            description="Weight",
            continuous_update=False,
            readout_format=".2f",
            tooltip="How many times its capacity each resource gets, one at a time",
            layout={"width": "420px"},
        )
        self._bars = RankedBars("gain of the simulated run (%)", top)
        self._downloads = Downloads(self, "sensitivity")
        self.children = [self._head, self._slider, self._bars, self._words, self._downloads]
        self.weight = weight
        traitlets.link((self, "weight"), (self._slider, "value"))
        traitlets.link((self, "resource"), (self._bars, "chosen"))
        self.observe(lambda _: self._draw(), "weight")
        self.observe(lambda _: self._tell(), "resource")
        self._draw()

    @traitlets.validate("weight")
    def _inside(self, proposal: Any) -> float:
        low, high = self._range
        return float(min(high, max(low, proposal["value"])))

    @traitlets.validate("resource")
    def _listed(self, proposal: Any) -> str:
        name = str(proposal["value"])
        if self.ranking is not None and name not in set(self.ranking["resource"]):
            raise SettingError(f"no resource {name!r} in this ranking; it has: {', '.join(self.ranking['resource'])}")
        return name

    def table(self) -> pd.DataFrame:
        """Return the ranked table of the weight."""
        return self.ranking

    def picture(self) -> "Figure":
        """Return the bars as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_speedups

        figure = Figure(figsize=(8, 1.4 + 0.3 * min(self._top, len(self.ranking))), layout="constrained")
        plot_speedups(self.ranking, f"Sensitivity {self._title} (simulated)", self._top, figure.subplots())
        return figure

    def _draw(self) -> None:
        key = round(self.weight, 6)
        if key not in self._known:
            self._known[key] = self._rank(self.weight)
        self.ranking = self._known[key]
        if self.resource not in set(self.ranking["resource"]):
            self.resource = str(self.ranking["resource"].iloc[0])
        self._bars.draw(self.ranking)
        note = (
            f"each resource alone, {self.weight:.2f} times its capacity (a latency divided by it): s = f(c)/f(wc) - 1"
        )
        self._head.value = heading(f"Sensitivity {self._title}".strip(), note) + kind_html("simulated")
        self._tell()
        self._downloads.refresh()

    def _tell(self) -> None:
        row = self.ranking[self.ranking["resource"] == self.resource].iloc[0]
        speedup = float(row.iloc[-1])
        rank = self.ranking["resource"].tolist().index(self.resource) + 1
        effect = f"the run {abs(speedup):.1%} {'faster' if speedup > 0 else 'slower'}"
        effect = effect if abs(speedup) >= 0.0005 else "no difference"
        self._words.value = (
            f'<div class="pk-hint"><b>{html.escape(self.resource)}</b> (rank {rank} of {len(self.ranking)}): '
            f"{self.weight:.2f} times as good makes {effect}.</div>"
        )
