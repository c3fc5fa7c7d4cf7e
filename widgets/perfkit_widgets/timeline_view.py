"""TimelineView: a window of the schedule, cycles across and executed instructions down, with dependence arrows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import DataError, SettingError
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STATIC = Path(__file__).parent / "static"
_TIMES = ["dispatch", "start", "end", "retire"]


class Canvas(anywidget.AnyWidget):
    """The canvas that a browser draws; `TimelineView` fills it.

    ``times`` are float64 rows of dispatch, start, end, retire, number of the text, parent.
    """

    _esm = _STATIC / "timeline.js"
    _css = _STATIC / "timeline.css"
    times = traitlets.Bytes().tag(sync=True)
    texts: Any = traitlets.List().tag(sync=True)
    first = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)


class TimelineView(Explorer):
    """Each executed instruction from dispatch to retirement; choose one to see the chain of what it waited for.

    Parameters
    ----------
    schedule : DataFrame
        Consecutive executed instructions (`perfkit.GusResult.schedule(...).table`): n, text, dispatch, start, end and
        retire in cycles, and parent, the executed instruction that it last waited for (-1: none).
    title : str
        What was simulated.
    selected : int
        The instruction that is chosen first.

    Attributes
    ----------
    selected : int
        The number ``n`` of the chosen executed instruction (-1: none).
    """

    selected = traitlets.Int(-1)

    def __init__(self, schedule: pd.DataFrame, *, title: str = "", selected: int = -1) -> None:
        super().__init__()
        absent = [name for name in ["n", "text", *_TIMES, "parent"] if name not in schedule]
        if absent:
            raise DataError(f"a schedule has the columns n, text, {', '.join(_TIMES)} and parent; absent: {absent}")
        if not len(schedule) or (np.diff(schedule["n"]) != 1).any():
            raise DataError("a schedule holds consecutive executed instructions, at least one")
        self.schedule = schedule.reset_index(drop=True)
        self._first = int(self.schedule["n"].iloc[0])
        self._title = title
        number, texts = pd.factorize(self.schedule["text"])
        packed = np.column_stack([self.schedule[_TIMES], number, self.schedule["parent"]]).astype("<f8")
        self.canvas = Canvas(times=packed.tobytes(), texts=[str(t) for t in texts], first=self._first)
        self._downloads = Downloads(self, "schedule")
        last = self._first + len(schedule) - 1
        note = f"executed instructions {self._first:,} to {last:,}; with the focus on the picture, the wheel scrolls it"
        head = heading(f"Schedule {title}".strip(), note) + kind_html("simulated")
        self.children = [widgets.HTML(head), self.canvas, self._downloads]
        self.selected = selected
        traitlets.link((self, "selected"), (self.canvas, "selected"))
        self._downloads.refresh()

    @traitlets.validate("selected")
    def _in_the_window(self, proposal: Any) -> int:
        n = int(proposal["value"])
        if n != -1 and not self._first <= n < self._first + len(self.schedule):
            last = self._first + len(self.schedule) - 1
            raise SettingError(f"instruction {n} is not in this window, which goes from {self._first} to {last}")
        return n

    def chain(self) -> pd.DataFrame:
        """Return what the chosen instruction waited for, step by step back to the start of the window."""
        rows, n = [], self.selected
        while n >= self._first:
            rows.append(n - self._first)
            n = int(self.schedule["parent"].iloc[n - self._first])
        return self.schedule.iloc[rows]

    def table(self) -> pd.DataFrame:
        """Return the window of the schedule."""
        return self.schedule

    def picture(self) -> "Figure":
        """Return forty instructions, up to the chosen one, as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_schedule

        most = 40
        end = most if self.selected < 0 else max(most, self.selected - self._first + 1)
        rows = self.schedule.iloc[max(0, end - most) : end]
        figure = Figure(figsize=(9, 1.2 + 0.2 * len(rows)), layout="constrained")
        plot_schedule(rows, figure.subplots())
        return figure
