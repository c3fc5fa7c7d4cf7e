"""WhatIf: sliders for a core's parameters, the cycles of the run on that core, and its next bottleneck."""

import html
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit.plots.style import short
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html
from perfkit_widgets.ranked_bars import RankedBars

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class WhatIf(Explorer):
    """Make some resources of the core better or worse, together, and see the cycles and the next bottleneck.

    Parameters
    ----------
    run : callable
        Factors (resource -> factor on its capacity, those that are not 1) -> a result with ``cycles`` and
        ``to_frame()``, such as `perfkit.what_if` returns. The view calls it and works nothing out itself.
    resources : mapping of str to str
        Resource -> what to write beside its slider, for example its value on the core as it is.
    top : int
        How many resources of the new ranking to show.
    title : str
        What is simulated.

    Attributes
    ----------
    capacities : dict of str to float
        The factors; a resource that is not in it has 1.
    result : object
        What ``run`` returned for them.

    Examples
    --------
    >>> prepared = pk.prepare(pk.Gus("skylake_x"), pk.datasets.load("traces/fig1a").head(400))
    >>> view = pw.WhatIf(lambda factors: prepared.what_if(factors, 2.0), {"rob": "224 entries"})
    """

    capacities = traitlets.Dict(value_trait=traitlets.Float(), key_trait=traitlets.Unicode())
    result = traitlets.Any()

    def __init__(
        self,
        run: Callable[[Mapping[str, float]], Any],
        resources: Mapping[str, str],
        *,
        top: int = 6,
        title: str = "",
    ) -> None:
        super().__init__()
        if not resources:
            raise SettingError("name at least one resource to change")
        self._run, self._top, self._title = run, top, title
        self._known: dict[tuple[tuple[str, float], ...], Any] = {}
        self._first = self.result = self._simulated()
        self.sliders = {name: self._slider(name, text) for name, text in resources.items()}
        self._head, self._words = widgets.HTML(), widgets.HTML(layout={"width": "100%"})
        self._reset = widgets.Button(
            description="Reset to baseline",
            tooltip="Every capacity as the core has it",
            icon="undo",
            layout={"width": "auto", "align_self": "flex-start"},
        )
        self._reset.on_click(lambda _: setattr(self, "capacities", {}))
        self._bars = RankedBars("gain if doubled (%)", top)
        self._downloads = Downloads(self, "what-if")
        rows = [
            widgets.HBox([slider, _aside(resources[name])], layout={"align_items": "center"})
            for name, slider in self.sliders.items()
        ]
        left = widgets.VBox([*rows, self._reset], layout={"flex": "0 1 545px", "min_width": "0px"})
        right = widgets.VBox([self._words, self._bars], layout={"flex": "1 1 480px", "min_width": "0px"})
        both = widgets.HBox([left, right], layout={"flex_flow": "row wrap", "width": "100%"})
        self.children = [self._head, both, self._downloads]
        self.observe(lambda _: self._changed(), "capacities")
        self._show()

    @traitlets.validate("capacities")
    def _known_resources(self, proposal: Any) -> dict[str, float]:
        factors = {str(name): float(factor) for name, factor in proposal["value"].items()}
        unknown = [name for name in factors if name not in self.sliders]
        if unknown:
            raise SettingError(f"no slider for {', '.join(unknown)}; there are: {', '.join(self.sliders)}")
        wrong = {name: factor for name, factor in factors.items() if not 0.25 <= factor <= 4}
        if wrong:
            raise SettingError(f"factors lie from 0.25 to 4; found {wrong}")
        return {name: factor for name, factor in factors.items() if abs(factor - 1) > 1e-9}

    @property
    def speedup(self) -> float:
        """How much faster the run is than on the core as it is: f(c) / f(changed) - 1."""
        return float(self._first.cycles / self.result.cycles - 1)

    def table(self) -> pd.DataFrame:
        """Return the ranking on the changed core."""
        frame: pd.DataFrame = self.result.to_frame()
        return frame

    def picture(self) -> "Figure":
        """Return the ranking on the changed core as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_speedups

        figure = Figure(figsize=(8, 1.7 + 0.3 * self._top), layout="constrained")
        cycles = f"{short(self.result.cycles, 4)} cycles"
        changed = ", ".join(f"{name} x{factor:.3g}" for name, factor in self.capacities.items())
        told = f"{changed}: {cycles}, {self._faster()} the core as it is" if changed else f"the core as it is: {cycles}"
        title = f"{self._title}\n{told} (simulated)".strip()
        plot_speedups(self.table(), title, self._top, figure.subplots())
        return figure

    def _slider(self, name: str, text: str) -> widgets.FloatLogSlider:
        slider = widgets.FloatLogSlider(
            value=1.0,
            base=2,
            min=-2,
            max=2,
            step=0.25,
            description=name,
            continuous_update=False,
            readout_format=".2f",
            tooltip=f"Factor on the capacity of {name} ({text})",
            style={"description_width": "205px"},  # vector_store_forward_latency
            layout={"width": "425px", "flex": "0 1 auto"},
        )
        slider.observe(lambda change: self._moved(name, change["new"]), "value")
        return slider

    def _moved(self, name: str, factor: float) -> None:
        if abs(self.capacities.get(name, 1.0) - factor) > 1e-9:
            self.capacities = {**self.capacities, name: factor}

    def _changed(self) -> None:
        for name, slider in self.sliders.items():
            slider.value = self.capacities.get(name, 1.0)
        self.result = self._simulated()
        self._show()

    def _simulated(self) -> Any:
        key = tuple(sorted(self.capacities.items()))
        if key not in self._known:
            self._known[key] = self._run(dict(self.capacities))
        return self._known[key]

    def _show(self) -> None:
        table = self.table()
        self._bars.draw(table)
        best = table.iloc[0]
        nothing = float(best.iloc[-1]) < 0.005
        after = "No single resource helps by 0.5 % any more" if nothing else f"Next bottleneck: {best['resource']}"
        self._head.value = heading(
            f"What if? {self._title}".strip(), "each slider multiplies a capacity, and divides a latency"
        ) + (kind_html("simulated"))
        self._words.value = (
            f'<div class="pk-hint"><b>{self.result.cycles:,.0f} cycles</b>: {self._faster()} '
            f"the core as it is ({self._first.cycles:,.0f} cycles). {html.escape(after)}.</div>"
        )
        self._downloads.refresh()

    def _faster(self) -> str:
        """Say how fast the changed core is, up to the word before that of the core as it is."""
        times = f"{1 + self.speedup:.3g}"
        return "no faster than" if times == "1" else f"{times} times as fast as"


def _aside(text: str) -> widgets.HTML:
    """Return what stands beside a slider; long words go on in another line."""
    words = f'<div class="pk-muted">{html.escape(text)}</div>'
    return widgets.HTML(words, layout={"flex": "1 1 100px", "min_width": "0px"})
