"""DiffView: two simulated runs side by side: what changed by cause, by line, by resource, and a line's instructions."""

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit_widgets.base import Downloads, Explorer, heading, kind_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.simulators.gus.diff import GusDiff

_VIEWS = {
    "cause": "{unit} by cause: fewer in B to the left, more to the right.",
    "line": "{unit} by source line: fewer in B to the left, more to the right.",
    "resource": "What twice a resource's capacity would bring to either run (1 % and more).",
}
_LEAST = 0.01


class DiffView(Explorer):
    """The change of the cycles as bars, and the instructions of a chosen source line, A's beside B's.

    Parameters
    ----------
    found : GusDiff
        Two simulated runs (`perfkit.diff`). The view works nothing out itself.
    top : int
        How many bars to show.

    Attributes
    ----------
    by : "cause", "line" or "resource"
        What the bars are.
    line : int
        The chosen source line, a row of ``found.table``.

    Examples
    --------
    >>> runs = [pk.Gus("zen4").run(pk.datasets.load(f"traces/correlation-{v}-small").head(4000)) for v in ("v1", "v2")]
    >>> view = pw.DiffView(pk.diff(*runs, names=("v1", "v2")))
    """

    by: Any = traitlets.Enum(list(_VIEWS), default_value="cause")
    line = traitlets.Int(-1)

    def __init__(self, found: "GusDiff", *, top: int = 10) -> None:
        super().__init__()
        self.found, self._top = found, top
        self._changes = {"cause": found.by_cause(), "line": found.to_frame()}
        self._listing = found.aligned()
        self._head, self._bars, self._code = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._choose = widgets.ToggleButtons(
            options=[("causes", "cause"), ("lines", "line"), ("resources", "resource")],
            tooltips=[self._told(view) for view in _VIEWS],
            style={"button_width": "84px"},
        )
        largest = found.table["cycles_b"].sub(found.table["cycles_a"]).abs().sort_values(ascending=False, kind="stable")
        self._lines = widgets.Dropdown(
            options=[(self._named(k), int(k)) for k in largest.index] or [("no line has a cost", -1)],
            description="Line",
            layout={"width": "100%"},
        )
        self._downloads = Downloads(self, "diff")
        self.children = [self._head, self._choose, self._bars, self._lines, self._code, self._downloads]
        first, *rest = found.summary().splitlines()
        told = "".join(f"<div>{html.escape(line)}</div>" for line in rest if line.startswith(("the ", "careful:")))
        sides = html.escape(f"A: {found.names[0]}; B: {found.names[1]}.")
        self._head.value = heading(first) + kind_html("simulated") + f'<div class="pk-muted">{sides}</div>{told}'
        self.line = self._lines.value
        traitlets.link((self, "by"), (self._choose, "value"))
        traitlets.link((self, "line"), (self._lines, "value"))
        self.observe(lambda _: self._draw(), "by")
        self.observe(lambda _: self._show(), "line")
        self._draw()
        self._show()

    @traitlets.validate("line")
    def _one_of_them(self, proposal: Any) -> int:
        row, most = int(proposal["value"]), len(self.found.table)
        if not 0 <= row < most and (most or row != -1):
            raise SettingError(f"there is no line {row}: the comparison has {most}, from 0")
        return row

    def table(self) -> pd.DataFrame:
        """Return what the bars show as a table."""
        return self.found.resources if self.by == "resource" else self._changes[self.by]

    def picture(self) -> "Figure":
        """Return the bars as a static picture."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 1.6 + 0.3 * min(self._top, max(len(self.table()), 1))), layout="constrained")
        self.found.plot(ax=figure.subplots(), top=self._top, by=self.by)
        return figure

    def _told(self, view: str) -> str:
        """Say what a view shows."""
        return _VIEWS[view].format(unit=self.found.unit.capitalize())

    def _named(self, row: int) -> str:
        line = self.found.table.iloc[row]
        a, b = line["place_a"] or "not in A", line["place_b"] or "not in B"
        return f"{a if a == b else f'{a} / {b}'} {line['text']}".strip()

    def _draw(self) -> None:
        rows = self._gains() if self.by == "resource" else self._moved()
        most = max((abs(value) for _, value, _ in rows), default=1.0) or 1.0
        parts = [_bar(name, value / most, told, both=self.by != "resource") for name, value, told in rows]
        body = f'<div class="pk-bars">{"".join(parts)}</div>' if parts else "<div>nothing changed</div>"
        self._bars.value = f'<div class="pk-muted">{self._told(self.by)}</div>{body}'
        self._downloads.refresh()

    def _moved(self) -> list[tuple[str, float, str]]:
        """Return the bars of causes or lines: name, change, and both sides in words."""
        shown = self._changes[self.by].head(self._top)
        names = shown["cause"] if self.by == "cause" else self.found.places(shown)
        return [
            (str(name), float(row.change), f"{row.cycles_a:,.0f} to {row.cycles_b:,.0f} ({row.change:+z,.0f})")
            for name, row in zip(names, shown.itertuples(), strict=True)
            if abs(row.change) >= 0.5
        ]

    def _gains(self) -> list[tuple[str, float, str]]:
        """Return the bars of resources, two each: what twice the capacity brings to A and to B."""
        table = self.found.resources
        best = table[["speedup_a", "speedup_b"]].max(axis=1).sort_values(ascending=False, kind="stable")
        rows = [table.loc[k] for k in best.index[: self._top] if best[k] >= _LEAST]
        return [
            (
                f"{row['resource']}: {side}",
                float(row[f"speedup_{side.lower()}"]),
                f"{row[f'speedup_{side.lower()}']:+z.1%}",
            )
            for row in rows
            for side in "AB"
            if row[f"speedup_{side.lower()}"] == row[f"speedup_{side.lower()}"]  # a core may lack the resource
        ]

    def _show(self) -> None:
        """Write the instructions of the chosen line, A's beside B's."""
        if self.line < 0:
            self._code.value = ""
            return
        line, rows = self.found.table.iloc[self.line], self._listing[self._listing["line"] == self.line]
        change = line["cycles_b"] - line["cycles_a"]
        sides = self._side_of("A", "B", rows) + self._side_of("B", "A", rows)
        self._code.value = (
            f'<div class="pk-hint">{html.escape(self._named(self.line))}<br>{line["cycles_a"]:,.0f} to '
            f'{line["cycles_b"]:,.0f} {self.found.unit} ({change:+z,.0f})</div><div class="pk-two">{sides}</div>'
        )

    def _side_of(self, name: str, other: str, rows: pd.DataFrame) -> str:
        """Return a side of the chosen line; where it lacks the line, the costliest of those that it alone has."""
        table, mine, theirs = self.found.table, f"place_{name.lower()}", f"place_{other.lower()}"
        own = table[(table[theirs] == "") & (table[mine] != "")]
        if table[mine].iloc[self.line] or own.empty:
            return _side(name, rows)
        line = int(own[f"cycles_{name.lower()}"].idxmax())
        told = f"not in {name}, which has {own.loc[line, mine]} that {other} lacks:"
        shown = _side(name, self._listing[self._listing["line"] == line])
        return f'<div><div class="pk-muted">{html.escape(told)}</div>{shown}</div>'


def _bar(name: str, part: float, told: str, *, both: bool) -> str:
    """Return a bar as HTML: from the middle where it may go both ways, else from the left; `part` is -1 to 1."""
    width = 50 * abs(part) if both else 100 * abs(part)
    left = (50 - width if part < 0 else 50) if both else 0
    kind = ("more" if part > 0 else "less") if both else name[-1].lower()
    return (
        f'<span class="pk-name">{html.escape(name)}</span><span class="pk-figures">{told}</span>'
        f'<span class="pk-track{" pk-middle" if both else ""}">'
        f'<i class="pk-{kind}" style="left:{left:.2f}%;width:{width:.2f}%"></i></span>'
    )


def _side(name: str, rows: pd.DataFrame) -> str:
    side = name.lower()
    cells = "".join(
        f"<tr><td>{html.escape(row[f'address_{side}'])}</td><td>{html.escape(row[f'instruction_{side}'])}</td>"
        f"<td>{row[f'cycles_{side}']:,.0f}</td></tr>"
        for _, row in rows.iterrows()
        if row[f"instruction_{side}"]
    )
    return (
        f'<table class="pk-code"><tr><th>{name}</th><th></th><th>cycles</th></tr>'
        f"{cells or '<tr><td>nothing</td><td></td><td></td></tr>'}</table>"
    )
