"""TimelineView: a window of the schedule over cycles, by resources or by instructions, with dependence arrows."""

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

    from perfkit.simulators.gus.timeline import Timeline

_STATIC = Path(__file__).parent / "static"
_TIMES = ["dispatch", "start", "end", "retire"]
_USES = ["lane", "n", "start", "end"]
_MODES = ["resources", "instructions"]


class Canvas(anywidget.AnyWidget):
    """The canvas that a browser draws; `TimelineView` fills it.

    ``times`` are float64 rows of dispatch, start, end, retire, number of the text, parent, operate, number of what was
    waited for; ``uses`` of number of the resource, lane, instruction, start, end; ``producers`` of instruction and
    producer.
    """

    _esm = _STATIC / "timeline.js"
    _css = _STATIC / "timeline.css"
    times = traitlets.Bytes().tag(sync=True)
    uses = traitlets.Bytes().tag(sync=True)
    producers = traitlets.Bytes().tag(sync=True)
    resources: Any = traitlets.List().tag(sync=True)
    complete: Any = traitlets.List([0.0, 0.0]).tag(sync=True)
    texts: Any = traitlets.List().tag(sync=True)
    waits: Any = traitlets.List().tag(sync=True)
    first = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)
    mode = traitlets.Enum(_MODES, default_value="instructions").tag(sync=True)


class TimelineView(Explorer):
    """Which executed instruction occupied which resource when; choose one to see what its operands waited for.

    Parameters
    ----------
    window : Timeline or DataFrame
        What `perfkit.timeline` returns; or only a schedule (`perfkit.GusResult.schedule(...).table`), consecutive
        executed instructions with n, text, dispatch, start, end and retire in cycles, and parent, the executed
        instruction that it last waited for (-1: none). A schedule has instructions only, no resources.
    title : str
        What was simulated.
    selected : int
        The instruction that is chosen first.
    mode : "resources" or "instructions"
        What the rows are; resources where there are any.

    Attributes
    ----------
    selected : int
        The number ``n`` of the chosen executed instruction (-1: none).
    mode : str
        What the rows are.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> pw.TimelineView(pk.timeline(result, 0, 40)).selected
    -1
    """

    selected = traitlets.Int(-1)
    mode = traitlets.Enum(_MODES, default_value="instructions")

    def __init__(
        self, window: "Timeline | pd.DataFrame", *, title: str = "", selected: int = -1, mode: str | None = None
    ) -> None:
        super().__init__()
        schedule: pd.DataFrame = window if isinstance(window, pd.DataFrame) else window.schedule
        self.timeline = None if isinstance(window, pd.DataFrame) else window
        absent = [name for name in ["n", "text", *_TIMES, "parent"] if name not in schedule]
        if absent:
            raise DataError(f"a schedule has the columns n, text, {', '.join(_TIMES)} and parent; absent: {absent}")
        if not len(schedule) or (np.diff(schedule["n"]) != 1).any():
            raise DataError("a schedule holds consecutive executed instructions, at least one")
        self.schedule = schedule.reset_index(drop=True)
        self._first = int(self.schedule["n"].iloc[0])
        self._title = title
        number, texts = pd.factorize(self.schedule["text"])
        operate = self.schedule["operate" if "operate" in self.schedule else "start"]
        waited, waits = pd.factorize(self.schedule.get("through", pd.Series("", index=self.schedule.index)))
        packed = np.column_stack([self.schedule[_TIMES], number, self.schedule["parent"], operate, waited])
        self.canvas = Canvas(
            times=packed.astype("<f8").tobytes(), texts=[str(t) for t in texts], waits=list(waits), first=self._first
        )
        if self.timeline is not None:
            self._fill(self.timeline)
        self._downloads = Downloads(self, "timeline")
        last = self._first + len(schedule) - 1
        note = (
            f"executed instructions {self._first:,} to {last:,}; once clicked, the wheel moves it, and "
            "zooms with Ctrl or Shift"
        )
        head = heading(f"Timeline {title}".strip(), note) + kind_html("simulated")
        self.children = [widgets.HTML(head), self.canvas, self._downloads]
        self.mode = mode or ("instructions" if self.timeline is None else "resources")
        self.selected = selected
        for name in ("selected", "mode"):
            traitlets.link((self, name), (self.canvas, name))
        self.observe(lambda _: self._downloads.refresh(), "mode")
        self._downloads.refresh()

    @traitlets.validate("selected")
    def _in_the_window(self, proposal: Any) -> int:
        n = int(proposal["value"])
        if n != -1 and not self._first <= n < self._first + len(self.schedule):
            last = self._first + len(self.schedule) - 1
            raise SettingError(f"instruction {n} is not in this window, which goes from {self._first} to {last}")
        return n

    @traitlets.validate("mode")
    def _known_rows(self, proposal: Any) -> str:
        mode = str(proposal["value"])
        if mode == "resources" and self.timeline is None:
            raise SettingError("a schedule holds no resources; show what pk.timeline(result, first, count) returns")
        return mode

    def chain(self) -> pd.DataFrame:
        """Return what the chosen instruction waited for, step by step back to the start of the window."""
        rows, n = [], self.selected
        while n >= self._first:
            rows.append(n - self._first)
            n = int(self.schedule["parent"].iloc[n - self._first])
        return self.schedule.iloc[rows]

    def producers(self) -> pd.DataFrame:
        """Return where the chosen instruction's operands came from (producer, through), as far as the window goes.

        Raises
        ------
        SettingError
            What is shown is a schedule, which holds no producers.
        """
        if self.timeline is None:
            raise SettingError("a schedule holds no producers; show what pk.timeline(result, first, count) returns")
        found: pd.DataFrame = self.timeline.producers
        return found[found["n"] == self.selected]

    def table(self) -> pd.DataFrame:
        """Return what is shown: the uses of the resources, or the schedule of the instructions."""
        if self.mode == "resources" and self.timeline is not None:
            uses: pd.DataFrame = self.timeline.uses
            return uses.assign(text=self.schedule["text"].to_numpy()[uses["n"] - self._first])
        return self.schedule

    def picture(self) -> "Figure":
        """Return a part of the window, around the chosen instruction, as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_instruction_schedule, plot_timeline

        if self.mode == "resources" and self.timeline is not None:
            lanes = int(self.timeline.resources["units"].sum())
            figure = Figure(figsize=(10, 1.4 + 0.14 * lanes + 0.1 * len(self.timeline.resources)), layout="constrained")
            plot_timeline(self.timeline, self.selected, ax=figure.subplots())
            return figure
        most = 40
        end = most if self.selected < 0 else max(most, self.selected - self._first + 1)
        rows = self.schedule.iloc[max(0, end - most) : end]
        figure = Figure(figsize=(9, 1.2 + 0.2 * len(rows)), layout="constrained")
        plot_instruction_schedule(rows, figure.subplots())
        return figure

    def _fill(self, timeline: Any) -> None:
        absent = [name for name in ["resource", *_USES] if name not in timeline.uses]
        if absent:
            raise DataError(f"a timeline's uses have the columns resource, {', '.join(_USES)}; absent: {absent}")
        rows = timeline.resources
        uses = timeline.uses.sort_values("start", kind="stable")  # the drawing looks them up by their start
        number = uses["resource"].map({name: k for k, name in enumerate(rows["resource"])})
        with self.canvas.hold_sync():
            self.canvas.resources = [
                {"name": str(r.resource), "kind": str(r.kind), "units": int(r.units), "busy": float(r.busy)}
                for r in rows.itertuples()
            ]
            self.canvas.uses = np.column_stack([number, uses[_USES]]).astype("<f8").tobytes()
            self.canvas.producers = (
                timeline.producers.sort_values("n", kind="stable")[["n", "producer"]].to_numpy(dtype="<f8").tobytes()
            )
            self.canvas.complete = [float(c) for c in timeline.complete]
