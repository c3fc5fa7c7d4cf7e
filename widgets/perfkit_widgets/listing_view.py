"""ListingView: annotated assembly, one row per instruction, heat cells for where the time and the resources go."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import DataError, SettingError
from perfkit_widgets.base import Downloads, Explorer, heading, keys, kind_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STATIC = Path(__file__).parent / "static"
# Column of the frame -> label, kind (how its cells are drawn), what it says.
_KNOWN = {
    "pc": ("address", "code", "address"),
    "text": ("instruction", "code", "instruction, Intel syntax"),
    "att": ("instruction", "code", "instruction, AT&T syntax"),
    "line": ("source line", "source", "the source line that it comes from"),
    "time_share": ("time %", "time", "share of the cycles by which retirement waited for it"),
    "causality": ("cause %", "cause", "share of the causes of the run's length"),
    "executions": ("runs", "number", "executions"),
    "latency": ("latency", "number", "cycles from its last register operand to its result"),
    "cause": ("held up by", "text", "what most delayed its retirement"),
}
_NOT_RESOURCES = {"function", "block", "slots", "inverse_throughput", "source", "count", "instruction", "file"}
_HIDDEN = ("file", "source_line")  # shown in the source line's cell


class Listing(anywidget.AnyWidget):
    """The table that a browser draws; `ListingView` fills it."""

    _esm = _STATIC / "listing.js"
    _css = _STATIC / "listing.css"
    columns: Any = traitlets.List().tag(sync=True)
    rows: Any = traitlets.List().tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)
    sort = traitlets.Unicode().tag(sync=True)
    descending = traitlets.Bool(True).tag(sync=True)
    search = traitlets.Unicode().tag(sync=True)
    syntax = traitlets.Enum(["intel", "att"], default_value="intel").tag(sync=True)


class ListingView(Explorer):
    """Click a column header to sort, search, click a row or use the arrow keys; the choice reaches Python.

    Parameters
    ----------
    frame : DataFrame
        One row per static instruction, in the program's order (`perfkit.GusResult.to_frame`): ``pc`` and ``text``;
        ``att``, ``block``, ``file``, ``line``, ``source_line``, ``executions``, ``latency``, ``cause``, ``time_share``
        where known; every further numeric column is the instruction's share of one resource.
    causality : sequence of float, optional
        Each instruction's share of the time for which the dispatch was held up (`perfkit.simulators.Causality.held`).
    title : str
        What was simulated.

    Attributes
    ----------
    selected : int
        The chosen instruction, a row of ``frame`` (-1: none).
    sort : str
        The column to sort by ("": the program's order).
    descending : bool
        Whether the largest comes first.
    search : str
        Only instructions whose address, text or source line holds this.
    syntax : "intel" or "att"
        Of the assembly.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> view = pw.ListingView(result.to_frame())
    """

    selected = traitlets.Int(-1)
    sort = traitlets.Unicode()
    descending = traitlets.Bool(True)
    search = traitlets.Unicode()
    syntax = traitlets.Enum(["intel", "att"], default_value="intel")

    def __init__(self, frame: pd.DataFrame, causality: Sequence[float] | None = None, *, title: str = "") -> None:
        super().__init__()
        absent = [name for name in ("pc", "text") if name not in frame]
        if absent or not len(frame):
            raise DataError(f"a listing needs rows with pc and text; found {len(frame)} rows without {absent}")
        self.frame = frame.reset_index(drop=True)
        if causality is not None:
            shares = np.asarray(causality, dtype="float64")
            if len(shares) != len(frame):
                raise DataError(f"{len(shares)} shares of causality for {len(frame)} instructions")
            self.frame = self.frame.assign(causality=shares)
        self._title = title
        named = {*_KNOWN, *_NOT_RESOURCES}
        numeric = self.frame.select_dtypes("number").columns
        self._resources = [c for c in numeric if c not in named and self.frame[c].notna().any()]
        self.listing = Listing(columns=self._columns(), rows=self._rows())
        self._downloads = Downloads(self, "listing")
        note = "per cent; colours are relative to each kind's largest cell. Arrow keys choose, / searches, Esc clears."
        legend = keys(
            {
                "share of the time": ("#D55E00", "bar"),
                "share of the causes": ("#CC79A7", "bar"),
                "share of a resource's use": ("#0072B2", "bar"),
            }
        )
        head = heading(f"Instructions {title}".strip(), note) + kind_html("simulated") + legend
        self._instead = widgets.HTML(layout={"width": "100%"})
        self.children = [widgets.HTML(head), self._instead, self.listing, self._downloads]
        for name in ("selected", "sort", "descending", "search", "syntax"):
            traitlets.link((self, name), (self.listing, name))
        self.observe(lambda _: self._downloads.refresh(), ["sort", "descending", "search"])
        self.observe(lambda _: setattr(self._instead, "value", ""), ["sort", "descending"])
        self._downloads.refresh()

    @traitlets.validate("selected")
    def _one_of_them(self, proposal: Any) -> int:
        row = int(proposal["value"])
        if not -1 <= row < len(self.frame):
            raise SettingError(f"there is no instruction {row}: the listing has {len(self.frame)}, from 0 (-1: none)")
        return row

    @traitlets.validate("sort")
    def _one_of_its_columns(self, proposal: Any) -> str:
        name = str(proposal["value"])
        if name and name not in self.frame:
            raise SettingError(f"no column {name!r} to sort by; there are: {', '.join(map(str, self.frame.columns))}")
        return name

    @property
    def instruction(self) -> pd.Series | None:
        """The chosen instruction's row of the frame, None where none is chosen."""
        return None if self.selected < 0 else self.frame.iloc[self.selected]

    def sort_by(self, resource: str) -> None:
        """Sort by the instructions' shares of a resource; where there is no such column, by the causes, and say so."""
        column = next((c for c in (resource, "causality", "time_share") if c in self.frame), "")
        self.sort, self.descending = column, True
        if column and column != resource:
            told = f"There is no column of {resource}: sorted by {_KNOWN[column][0]}, the {_KNOWN[column][2]}."
            self._instead.value = f'<div class="pk-muted">{html.escape(told)}</div>'

    def table(self) -> pd.DataFrame:
        """Return the rows that are shown, in their order."""
        text = self.frame["att" if self.syntax == "att" and "att" in self.frame else "text"].astype(str)
        address = self.frame["pc"].map(lambda pc: f"{pc:x}")
        words = address + " " + text
        if "source_line" in self.frame:
            words += " " + self.frame["source_line"].astype(str)
        frame = self.frame[words.str.lower().str.contains(self.search.lower(), regex=False)]
        if self.sort:
            keys = ["file", "line"] if self.sort == "line" and "file" in frame else [self.sort]
            frame = frame.sort_values(keys, ascending=not self.descending, kind="stable")
        return frame

    def picture(self) -> "Figure":
        """Return the part of the listing with most of the time as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import hottest, plot_listing

        rows = self.table()
        shares = [c for c in ("time_share", "causality") if c in rows] + self._resources
        rows = rows.head(40) if self.sort else hottest(rows, 40)
        figure = Figure(figsize=(5 + 0.42 * len(shares), 1.6 + 0.21 * len(rows)), layout="constrained")
        plot_listing(rows, shares, figure.subplots())
        return figure

    def _columns(self) -> list[dict[str, Any]]:
        columns: list[dict[str, Any]] = [
            {"key": key, "label": label, "kind": kind, "title": title}
            for key, (label, kind, title) in _KNOWN.items()
            if key in self.frame and (key != "line" or self.frame["line"].notna().any())
        ]
        columns += [
            {"key": key, "label": "", "kind": "hidden", "title": ""}
            for key in _HIDDEN
            if key in self.frame and any(c["key"] == "line" for c in columns)
        ]
        columns += [
            {"key": str(name), "label": str(name), "kind": "resource", "title": f"share of the use of {name}"}
            for name in self._resources
        ]
        most = {
            kind: max((self._largest(c["key"]) for c in columns if c["kind"] == kind), default=0.0)
            for kind in ("time", "cause", "resource")
        }
        columns = [{**c, "most": most.get(c["kind"]) or 1.0} for c in columns]
        return [*columns, {"key": "block", "label": "", "kind": "number", "title": "basic block"}]

    def _largest(self, column: str) -> float:
        values = self.frame[column].to_numpy(dtype="float64")
        return float(values[np.isfinite(values)].max(initial=0.0))

    def _rows(self) -> list[list[Any]]:
        wanted = [c["key"] for c in self._columns()]
        cells: list[list[Any]] = []
        for key in wanted:
            if key == "pc":
                cells.append([f"{pc:x}" for pc in self.frame["pc"]])
            elif key in self.frame:
                cells.append([_plain(v) for v in self.frame[key]])
            else:
                cells.append([0] * len(self.frame))
        return [list(row) for row in zip(*cells, strict=True)]


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it; a missing number is null."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return None
    number = float(value)
    if not np.isfinite(number):
        return None
    return int(number) if number == int(number) else number
