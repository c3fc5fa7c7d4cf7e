"""RankedBars: resources by the speedup they allow; a click or a trait chooses one."""

import html
from typing import Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.plots.style import SERIES, distinct
from perfkit_widgets import figures


class RankedBars(widgets.VBox):
    """Horizontal bars, the largest on top.

    Attributes
    ----------
    chosen : str
        The chosen bar's name ("": none).
    names : list of str
        What is drawn, from the top.
    """

    chosen = traitlets.Unicode()

    def __init__(self, label: str, top: int) -> None:
        super().__init__(layout={"width": "100%"})
        self._top = top
        self.names: list[str] = []
        self._told = widgets.HTML()
        self.bars, names, self._across = figures.ranking(label, self._told)
        self.bars.on_hover(lambda _, target: self._tell(target.get("data", {}).get("index", -1)))
        margin = {"left": figures.NAMES, "right": 24, "top": 6, "bottom": 46}
        self.figure = figures.figure([self.bars], [names, self._across], height=300, margin=margin)
        self.figure.add_class(figures.RANKED_CLASS)
        self.children = [self.figure]
        self.bars.observe(self._clicked, "selected")
        self.observe(lambda _: self._mark(), "chosen")

    def draw(self, table: pd.DataFrame, label: str = "", colour: str = SERIES[0], most: float = 0.0) -> None:
        """Draw the first rows of a ranked table: resource, and its speedup in the last column; perhaps a new label.

        The axis reaches what is drawn, and ``most`` (per cent).
        """
        self._across.label = label or self._across.label
        shown = table.head(self._top)
        self.names = [str(name) for name in shown["resource"]]
        values = 100 * shown.iloc[:, -1].to_numpy(dtype="float64")
        labels = distinct(self.names, figures.NAMES - 14)
        figures.set_bars(self.bars, labels, values, [colour] * len(values), self.names)
        low, high = 1.06 * float(values.min(initial=0.0)), max(1.0, most or 1.06 * float(values.max(initial=0.0)))
        figures.set_range(self._across, low, high)  # a resource that is made better may cost cycles
        self.figure.layout.height = f"{56 + 24 * max(1, len(values))}px"
        self._mark()

    def _clicked(self, change: Any) -> None:
        if change["new"] is not None and len(change["new"]):
            self.chosen = self.names[int(change["new"][-1])]
        else:
            self._mark()  # a second click takes bqplot's mark off; the choice stays

    def _tell(self, index: int) -> None:
        """Write the whole name of the bar under the pointer, and its value."""
        if 0 <= index < len(self.names):
            value = float(self.bars.y[index])
            self._told.value = (
                f"<b>{html.escape(self.names[index])}</b><br>{value:.3g}: {html.escape(self._across.label)}"
            )

    def _mark(self) -> None:
        self.bars.selected = [self.names.index(self.chosen)] if self.chosen in self.names else []
