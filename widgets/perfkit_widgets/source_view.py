"""SourceView: the source lines that cause a run's length, ranked; a click chooses one."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.errors import DataError, SettingError
from perfkit.plots.gus import source_lines
from perfkit.plots.style import SHARE_COLOURS
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html
from perfkit_widgets.ranked_bars import RankedBars

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LABELS = {"causality": "share of the causes (%)", "time_share": "share of the time (%)"}


class SourceView(Explorer):
    """Ranked bars: each source line's share of the causes of a run's length, or of its time.

    Parameters
    ----------
    frame : DataFrame
        One row per static instruction with ``file``, ``line`` and ``source_line`` (`perfkit.GusResult.to_frame`).
    causality : sequence of float
        Each instruction's share of the time for which the dispatch was held up (`perfkit.simulators.Causality.held`).
    top : int
        How many lines to show.
    title : str
        What was simulated.

    Attributes
    ----------
    selected : int
        The chosen line, a row of ``lines`` (-1: none).
    share : "causality" or "time_share"
        What the bars are.
    lines : DataFrame
        What `perfkit.plots.gus.source_lines` returns.

    Raises
    ------
    DataError
        No instruction has a source line.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> view = pw.SourceView(result.to_frame(), result.causality().to_frame()["share"])
    """

    selected = traitlets.Int(-1)
    share = traitlets.Enum(["causality", "time_share"], default_value="causality")

    def __init__(self, frame: pd.DataFrame, causality: Sequence[float], *, top: int = 8, title: str = "") -> None:
        super().__init__()
        self.lines = source_lines(frame, causality)
        if not len(self.lines):
            raise DataError("no instruction has a source line: compile with -g, and trace the program again")
        self._frame_of, self._top, self._title = frame.reset_index(drop=True), top, title
        self._choose = widgets.ToggleButtons(
            options=[("causes", "causality"), ("time", "time_share")],
            tooltips=["Share of the causes of the run's length", "Share of the cycles by which retirement waited"],
            style={"button_width": "84px"},
        )
        self._bars = RankedBars(_LABELS[self.share], top)
        self._words = widgets.HTML(layout={"width": "100%"})
        self._downloads = Downloads(self, "source-lines")
        head = heading(f"Source lines {title}".strip(), "a click, or the list of instructions, chooses a line")
        self.children = [
            widgets.HTML(head + kind_html("simulated")),
            self._choose,
            self._bars,
            self._words,
            self._downloads,
        ]
        traitlets.link((self, "share"), (self._choose, "value"))
        self._bars.observe(self._on_bar, "chosen")
        self.observe(lambda _: self._draw(), "share")
        self.observe(lambda _: self._tell(), "selected")
        self._draw()

    @traitlets.validate("selected")
    def _one_of_them(self, proposal: Any) -> int:
        row = int(proposal["value"])
        if not -1 <= row < len(self.lines):
            raise SettingError(f"there is no line {row}: the view has {len(self.lines)}, from 0 (-1: none)")
        return row

    @property
    def instruction(self) -> int:
        """The instruction of the chosen line that causes most, a row of the frame (-1: none)."""
        return -1 if self.selected < 0 else int(self.lines["instruction"].iloc[self.selected])

    def show(self, instruction: int) -> None:
        """Choose the line of an instruction; none where it has none."""
        if not 0 <= instruction < len(self._frame_of):
            self.selected = -1
            return
        where = self._frame_of.loc[instruction, ["file", "line"]]
        same = (self.lines["file"] == where["file"]) & (self.lines["line"] == where["line"])
        self.selected = int(same.to_numpy().argmax()) if same.any() else -1

    def table(self) -> pd.DataFrame:
        """Return the lines, the one with most of the shown share first."""
        return self.lines.sort_values(self.share, ascending=False, kind="stable")

    def picture(self) -> "Figure":
        """Return the bars as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_source_lines

        figure = Figure(figsize=(9, 1.4 + 0.3 * min(self._top, len(self.lines))), layout="constrained")
        plot_source_lines(
            self.table(), self.share, f"Source lines {self._title} (simulated)", self._top, figure.subplots()
        )
        return figure

    def _draw(self) -> None:
        shown = self.table().head(self._top)
        self._rows = {self._name(row): int(place) for place, row in shown.iterrows()}
        self._bars.draw(
            pd.DataFrame({"resource": list(self._rows), "share": shown[self.share].to_numpy()}),
            _LABELS[self.share],
            SHARE_COLOURS[self.share],
        )
        self._tell()
        self._downloads.refresh()

    def _name(self, row: pd.Series) -> str:
        text = str(row["source_line"]).strip()
        # Without the line's text, the file's name says more than a number alone.
        return f"{int(row['line'])}: {text}" if text else f"{Path(str(row['file'])).name}:{int(row['line'])}"

    def _on_bar(self, change: Any) -> None:
        if change["new"] in self._rows:
            self.selected = self._rows[change["new"]]

    def _tell(self) -> None:
        names = {place: name for name, place in self._rows.items()}
        self._bars.chosen = names.get(self.selected, "")
        if self.selected < 0:
            self._words.value = ""
            return
        row = self.lines.iloc[self.selected]
        text, place = str(row["source_line"]).strip(), html.escape(f"{row['file']}:{int(row['line'])}")
        named = f"<code>{html.escape(text)}</code> ({place})" if text else place
        self._words.value = (
            f'<div class="pk-hint">{named}: {row["causality"]:.1%} of the causes, '
            f"{row['time_share']:.1%} of the time.</div>"
        )
