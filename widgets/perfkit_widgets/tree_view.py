"""TreeView: a fitted decision tree, drawn; a node that is clicked selects the rows that reach it."""

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import SettingError, counted
from perfkit.plots.studies import node_colours, node_text, tree_layout, tree_size
from perfkit.plots.style import ink_on
from perfkit_widgets.base import Downloads, Explorer, heading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.studies.decision_tree import Tree

_STATIC = Path(__file__).parent / "static"


class TreeCanvas(anywidget.AnyWidget):
    """The drawing: nodes with their places, texts and colours, and the one that is chosen."""

    _esm = _STATIC / "tree_view.js"
    _css = _STATIC / "tree_view.css"
    nodes: Any = traitlets.List().tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True)
    label = traitlets.Unicode("Decision tree").tag(sync=True)


class TreeView(Explorer):
    """A decision tree that can be clicked.

    The lighter a node, the more mixed the rows in it; the thicker an edge, the more rows take it. A click, or the arrow
    keys, choose a node: below stands the way to it, and `rows` are the table's rows that pass through it. Of a tree
    larger than its frame the way to the chosen node is drawn, with what branches off and two levels below it; "+6" in a
    node are six that are folded away below it.

    Parameters
    ----------
    tree : Tree
        What `DecisionTree.fit` returned.
    table : DataFrame, optional
        The rows to select from.

    Attributes
    ----------
    node : int
        The chosen node; 0 is the root.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> tree = pk.DecisionTree(["WIDTH", "INSTRUCTIONS"], max_depth=2).fit(runs, "tsc")
    >>> view = pw.TreeView(tree, runs.table)
    """

    node = traitlets.Int(0)

    def __init__(self, tree: "Tree", table: "pd.DataFrame | None" = None) -> None:
        super().__init__()
        self.tree, self.source = tree, table
        self._canvas = TreeCanvas()
        self._canvas.layout.width = "100%"
        self._head, self._path = widgets.HTML(), widgets.HTML(layout={"width": "100%"})
        self._downloads = Downloads(self, "tree-rows")
        traitlets.link((self, "node"), (self._canvas, "selected"))
        self.observe(lambda _: self._describe(), "node")
        self.children = [self._frame, self._head, self._canvas, self._path, self._downloads]
        self.show(tree, table)

    @traitlets.validate("node")
    def _known(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < len(self.tree.nodes):
            raise SettingError(f"no node {proposal['value']}: the tree has {len(self.tree.nodes)}")
        return int(proposal["value"])

    def show(self, tree: Any, table: "pd.DataFrame | None") -> None:
        """Show another tree, with the rows of `table`, if there is one; the root is chosen."""
        self.tree, self.source = tree, table
        self.node = 0
        self._canvas.label = f"Decision tree of {tree.target}, {counted(len(tree.nodes), 'nodes')}; arrow keys move"
        self._canvas.nodes = _nodes(tree)
        self._head.value = heading(f"Decision tree of {tree.target}", html.escape(tree.verdict))
        self._describe()

    @property
    def selected_rows(self) -> np.ndarray:
        """Which of the table's rows pass through the chosen node."""
        if self.source is None:
            return np.zeros(0, dtype=bool)
        return np.asarray(self.tree.rows_of(self.node, self.source))

    @property
    def rows(self) -> "pd.DataFrame":
        """The table's rows that pass through the chosen node."""
        if self.source is None:
            return pd.DataFrame()
        return self.source[self.selected_rows]

    def table(self) -> "pd.DataFrame":
        """Return the chosen rows; without a table, the tree's nodes."""
        return self.tree.to_frame().reset_index() if self.source is None else self.rows.reset_index()

    def picture(self) -> "Figure":
        """Return the tree as a static picture."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=tree_size(self.tree), layout="constrained")
        self.tree.plot(figure.subplots())
        return figure

    def _describe(self) -> None:
        node = self.tree.nodes[self.node]
        way = " and ".join(self.tree.path(self.node)) or "all rows"
        parts = [f"<b>{html.escape(way)}</b>: {counted(node.samples, 'rows')} of the fit"]
        if self.tree.is_regression:
            parts.append(f"mean {node.value[0]:.4g}")
        else:
            shares = sorted(zip(node.value, self.tree.classes, strict=True), reverse=True)
            total = max(sum(node.value), 1)
            parts.append(", ".join(f"{html.escape(name)} {count / total:.0%}" for count, name in shares[:4] if count))
        self._path.value = f'<div class="pk-hint">{"; ".join(parts)}</div>'
        self._downloads.refresh()


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """Return what the drawing needs of each node."""
    places, colours = tree_layout(tree), node_colours(tree)
    out = []
    for index, node in enumerate(tree.nodes):
        parent = tree.nodes[node.parent] if node.parent >= 0 else None
        out.append(
            {
                "x": places[index][0],
                "y": places[index][1],
                "lines": node_text(tree, index).split("\n"),
                "colour": colours[index],
                "dark": ink_on(colours[index]) == "white",
                "parent": node.parent,
                "left": node.left,
                "share": node.samples / max(tree.nodes[0].samples, 1),
                "side": "" if parent is None else ("yes" if parent.left == index else "no"),
                "title": f"{' and '.join(tree.path(index)) or 'all rows'} ({counted(node.samples, 'rows')})",
            }
        )
    return out
