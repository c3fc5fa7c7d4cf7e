"""StudyExplorer: a study's configurations, the distribution of a figure over them, and what decides it."""

import html
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import PerfkitError, SettingError, counted, did_you_mean
from perfkit.plots.studies import category_colours, coinciding, distribution_bars, median_lines, with_unit
from perfkit.plots.style import ACCENT, CLOUD, SERIES, fitted, short, typical
from perfkit_widgets import figures
from perfkit_widgets.base import Downloads, Explorer, heading, keys
from perfkit_widgets.tree_view import TreeView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.study.runs import StudyRuns

_MOST_LINES = 12
_MOST_PLACES = 200
_MOST_TICKS = 9
_ACROSS = 330  # pixels of the narrowest picture's axis
_LEAST = 64  # pixels of a name: of shorter ones, those of two kernels look alike
_DECADES = 50
_LISTED = 24
_FIELD = 44  # letters of boundaries that a narrow page has room for
_LABEL, _LETTER = 120, 8  # pixels of a field's name and of a letter in it
_MOST_ROWS = 9  # of a list of values that is shown whole: a longer one scrolls, by more than a line


class StudyExplorer(Explorer):
    """Choose a part of a study's space, move the category boundaries, click the tree.

    Left, a control for each dimension. Then the distribution of the target: the handles on its boundaries can be
    dragged, or typed. Below, the decision tree of the categories: a node selects its rows, which the lines then show
    alone. Last, the importance of each feature, and the target over any dimension.

    Parameters
    ----------
    runs : StudyRuns or DataFrame
        The measured table.
    features : sequence of str
        The columns that the tree may split on; each gets a control.
    categorise : callable
        ``categorise(table) -> Categories``, e.g. ``pk.KdeCategories("tsc").fit``.
    grow : callable
        ``grow(table, categories) -> Tree``, e.g. ``pk.DecisionTree(features).fit``.
    rank : callable, optional
        ``rank(table, categories) -> Importance``, e.g. ``pk.RandomForest(features, trees=30).fit``.

    Attributes
    ----------
    chosen : dict
        Dimension -> the values that are in; a dimension that is not named stays as it is.
    boundaries : tuple of float
        Of the categories.
    node : int
        The tree's chosen node.
    x, by : str
        The columns of the lines: across, and one line each ("" for one line).

    Examples
    --------
    >>> features = ["WIDTH", "INSTRUCTIONS"]
    >>> view = pw.StudyExplorer(
    ...     pk.datasets.load("studies/fma"),
    ...     features,
    ...     categorise=pk.KdeCategories("tsc").fit,
    ...     grow=pk.DecisionTree(features, max_depth=2).fit,
    ... )
    >>> view.chosen = {"WIDTH": [256]}
    >>> view.table()["WIDTH"].unique().tolist()
    [256]
    """

    chosen = traitlets.Dict()
    boundaries = traitlets.Tuple()
    node = traitlets.Int(0)
    x = traitlets.Unicode()
    by = traitlets.Unicode()

    def __init__(
        self,
        runs: "StudyRuns | pd.DataFrame",
        features: Sequence[str],
        *,
        categorise: Callable[[Any], Any],
        grow: Callable[[Any, Any], Any],
        rank: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._all: pd.DataFrame = runs if isinstance(runs, pd.DataFrame) else runs.ok
        for name in features:
            if name not in self._all.columns:
                raise SettingError(f"no column {name!r}; {did_you_mean(name, self._all.columns)}")
        self.features = list(features)
        self._categorise, self._grow, self._rank = categorise, grow, rank
        self.frame = self._all
        self.categories = categorise(self.frame)
        self.tree = grow(self.frame, self.categories)
        self.importance = rank(self.frame, self.categories) if rank is not None else None
        self.target = self.categories.target
        self._busy = False
        self._build()
        self.x = self.features[0]
        self.chosen = {name: tuple(control.value) for name, control in self._controls.items()}
        self.boundaries = tuple(self.categories.boundaries)
        traitlets.link((self, "node"), (self._tree, "node"))
        traitlets.link((self, "x"), (self._x, "value"))
        traitlets.link((self, "by"), (self._by, "value"))
        self.observe(lambda _: self._choose_rows(), "chosen")
        self.observe(lambda _: self._move(), "boundaries")
        self.observe(lambda _: self._draw_lines(), ["node", "x", "by"])
        self._draw()

    # ------------------------------------------------------------- results

    def table(self) -> pd.DataFrame:
        """Return the rows that are in and reach the chosen node, with their category."""
        rows = self.selected.reset_index()
        return rows.assign(category=self.categories.assign(rows[self.target]))

    @property
    def selected(self) -> pd.DataFrame:
        """The rows that are in and reach the tree's chosen node."""
        return self.frame[self.tree.rows_of(self.node, self.frame)]

    def picture(self) -> "Figure":
        """Return what is shown as a static picture."""
        from perfkit.plots.studies import plot_study_exploration

        by = [self.by] if self.by else []
        return plot_study_exploration(self.categories, self.tree, self.importance, self.frame, self.x, by)

    # ------------------------------------------------------------- building

    def _build(self) -> None:
        self._head, self._note, self._legend = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._controls = {}
        for name in self.features:
            values = sorted(self._all[name].dropna().unique().tolist())
            if len(values) < 2:
                continue
            control = widgets.SelectMultiple(
                options=[(str(v), v) for v in values], value=tuple(values),
                rows=len(values) if len(values) <= _MOST_ROWS else 6,
                layout={"width": "130px"},
            )  # fmt: skip
            control.observe(self._chose, "value")
            self._controls[name] = control
        boxes = [
            widgets.VBox([widgets.HTML(html.escape(name), layout={"max_width": "130px"}), control])
            for name, control in self._controls.items()
        ]
        every = widgets.Button(description="All rows", tooltip="Take every value of every dimension in again")
        every.on_click(lambda _: self._take_all())
        left = widgets.VBox([*boxes, every], layout={"min_width": "145px"})
        right = widgets.VBox(
            [self._distribution(), self._boundary_row()], layout={"flex": "1 1 340px", "min_width": "0px"}
        )
        self._tree = TreeView(self.tree, self.frame)
        self._tree.children = self._tree.children[:-1]  # one set of links is enough
        self._downloads = Downloads(self, f"study-{self.target}")
        bottom = widgets.HBox(
            [self._bars_of_importance(), self._lines()], layout={"flex_flow": "row wrap", "width": "100%"}
        )
        top = widgets.HBox([left, right], layout={"flex_flow": "row wrap", "width": "100%"})
        self.children = [self._frame, self._head, self._note, top, self._tree, bottom, self._downloads]

    def _distribution(self) -> Any:
        self._log = bool(self.categories.log)
        scale = figures.bq.LogScale() if self._log else figures.bq.LinearScale()
        counts = figures.bq.LinearScale(min=0)
        self._across = figures.axis(scale, "bottom", with_unit(self.target))
        self._up = figures.axis(counts, "left", "configurations (count)")
        self._bars = figures.line(
            {"x": scale, "y": counts}, CLOUD, 1, fill="inside", fill_opacities=[0.7], fill_colors=[CLOUD]
        )
        self._handles = figures.bq.Scatter(
            x=np.array([0.0]), y=np.array([0.0]), scales={"x": scale, "y": counts}, colors=[ACCENT], default_size=110,
            marker="diamond", enable_move=True, restrict_x=True, update_on_move=False,
        )  # fmt: skip
        self._handles.on_drag_end(self._dragged)
        self._walls = figures.line({"x": scale, "y": counts}, ACCENT, 1.5)
        margin = {"left": 62, "right": 12, "top": 8, "bottom": 46}
        return figures.figure(
            [self._bars, self._walls, self._handles], [self._across, self._up], height=250, margin=margin
        )

    def _boundary_row(self) -> Any:
        self._shown: dict[str, float] = {}
        self._typed = widgets.Text(
            description="Boundaries", continuous_update=False, layout={"flex": "1 1 200px"},
            tooltip="Numbers with commas between them; Enter applies them",
        )  # fmt: skip
        self._typed.observe(self._typed_boundaries, "value")
        reset = widgets.Button(description="Find them again", tooltip="Categorise the rows that are in anew")
        reset.on_click(lambda _: self._refit())
        row = widgets.HBox([self._typed, reset], layout={"flex_flow": "row wrap", "width": "100%"})
        return widgets.VBox([self._legend, row])

    def _bars_of_importance(self) -> Any:
        scales = {"x": figures.bq.OrdinalScale(), "y": figures.bq.LinearScale(min=0, max=1)}
        self._ranked = figures.bq.Bars(
            x=["-"], y=[0.0], scales=scales, orientation="horizontal", colors=[SERIES[0]], padding=0.3,
            interactions={"hover": "tooltip"},
            tooltip=figures.bq.Tooltip(fields=["x", "y"], labels=["feature", "share"], formats=["", ".3f"]),
        )  # fmt: skip
        axes = [
            figures.axis(scales["x"], "left", grid_lines="none"),
            figures.axis(scales["y"], "bottom", "mean decrease in impurity (share)", label_location="end"),
        ]
        longest = max(map(len, self.features), default=0)  # in capitals of a wide font
        margin = {"left": min(max(110, 10 * longest + 12), 200), "right": 12, "top": 6, "bottom": 46}
        figure = figures.figure([self._ranked], axes, height=90 + 30 * len(self.features), margin=margin)
        self._rank_note = widgets.HTML()
        shown = [widgets.HTML('<div class="pk-title">What decides, to a random forest</div>'), figure, self._rank_note]
        return widgets.VBox(shown if self._rank is not None else [], layout={"flex": "1 1 330px", "min_width": "0px"})

    def _lines(self) -> Any:
        scale, up = figures.bq.LinearScale(), figures.bq.LinearScale(min=0)
        self._line_axes = (figures.axis(scale, "bottom", ""), figures.axis(up, "left", with_unit(self.target)))
        self._series = [
            figures.line(
                {"x": scale, "y": up}, SERIES[i % len(SERIES)], 2,
                "solid" if i < len(SERIES) else "dashed", marker="circle", marker_size=30,
            )
            for i in range(_MOST_LINES)
        ]  # fmt: skip
        kinds = {name: self._all[name].nunique() for name in self._all.columns if name != self.target}
        varied = [name for name, count in kinds.items() if 1 < count <= _MOST_PLACES]
        numbers = [name for name in varied if pd.api.types.is_numeric_dtype(self._all[name])]
        few = [name for name in varied if kinds[name] <= _MOST_LINES]
        across = list(dict.fromkeys([*self.features, *numbers]))
        self._x = widgets.Dropdown(options=across, description="Across", layout={"width": "220px"})
        self._by = widgets.Dropdown(
            options=[("one line", ""), *((name, name) for name in few)], description="Lines", layout={"width": "220px"}
        )
        self._line_keys = widgets.HTML()
        figure = figures.figure(
            self._series, self._line_axes, height=320, margin={"left": 62, "right": 14, "top": 8, "bottom": 46}
        )
        return widgets.VBox(
            [widgets.HBox([self._x, self._by], layout={"flex_flow": "row wrap"}), figure, self._line_keys],
            layout={"flex": "1.3 1 400px", "min_width": "0px"},
        )

    # ------------------------------------------------------------- choosing

    def _chose(self, _: Any) -> None:
        if not self._busy:
            self.chosen = {name: tuple(control.value) for name, control in self._controls.items()}

    def _take_all(self) -> None:
        self.chosen = {name: tuple(value for _, value in control.options) for name, control in self._controls.items()}

    def _choose_rows(self) -> None:
        self._busy = True
        for name, control in self._controls.items():
            control.value = tuple(self.chosen.get(name, control.value))
        self._busy = False
        keep = np.ones(len(self._all), dtype=bool)
        for name, control in self._controls.items():
            keep &= self._all[name].isin(list(control.value)).to_numpy()
        self._learn(self._all[keep], self.categories.boundaries)

    def _move(self) -> None:
        if tuple(self.boundaries) != tuple(self.categories.boundaries):
            self._learn(self.frame, self.boundaries)

    def _dragged(self, *_: Any) -> None:
        self.boundaries = tuple(sorted(float(x) for x in self._handles.x))

    def _typed_boundaries(self, change: Any) -> None:
        if self._busy:
            return
        try:
            parts = [part.strip() for part in str(change["new"]).split(",") if part.strip()]
            # What is shown in fewer digits, and left as it is, stays what it is.
            wanted = tuple(sorted({float(self._shown.get(part, part)) for part in parts}))
        except ValueError:
            self._say(f"Boundaries are numbers with commas between them, not {change['new']!r}.")
            return
        self._say("")
        self.boundaries = wanted
        self._draw_distribution()  # the field has them in order, also where they are those that are shown

    def _refit(self) -> None:
        try:
            found = self._categorise(self.frame)
        except PerfkitError as error:
            self._say(str(error))
            return
        self._learn(self.frame, found.boundaries, found)

    def _learn(self, frame: pd.DataFrame, boundaries: Sequence[float], found: Any = None) -> None:
        """Hand the rows and boundaries to the given functions; on an error keep what was shown, and say why."""
        try:
            categories = found or self.categories.with_boundaries(boundaries, frame)
            tree = self._grow(frame, categories)
            importance = self._rank(frame, categories) if self._rank is not None else None
        except PerfkitError as error:
            self._say(str(error))
            self.boundaries = tuple(self.categories.boundaries)
            self._draw_distribution()  # a handle that was dragged there goes back
            return
        self.frame, self.categories, self.tree, self.importance = frame, categories, tree, importance
        self._say("")
        self.boundaries = tuple(categories.boundaries)
        self._tree.show(tree, frame)
        self._draw()

    def _say(self, text: str) -> None:
        self._note.value = f'<div class="pk-note" role="alert">{html.escape(text)}</div>' if text else ""

    # ------------------------------------------------------------- drawing

    def _draw(self) -> None:
        rows = (
            f"{len(self.frame):,} of {len(self._all):,} configurations, {counted(len(self.categories), 'categories')}"
        )
        self._head.value = heading(f"What decides {self.target}", f"{rows}; {html.escape(self.tree.verdict)}")
        self._draw_distribution()
        self._draw_importance()
        self._draw_lines()

    def _draw_distribution(self) -> None:
        values = self.frame[self.target].dropna().to_numpy(dtype=float)
        counts, edges = distribution_bars(values, self._log)
        top = float(max(counts.max(initial=1), 1)) * 1.12
        figures.set_range(self._across, float(edges[0]), float(edges[-1]))
        figures.set_range(self._up, 0.0, top)
        figures.set_xy(self._bars, np.repeat(edges, 2), np.r_[0, np.repeat(counts, 2), 0].astype(float))
        at = np.array(self.categories.boundaries, dtype=float)
        figures.set_xy(self._walls, np.repeat(at, 3), np.tile([0.0, top, np.nan], len(at)))
        with self._handles.hold_sync():
            self._handles.visible = bool(len(at))
            if len(at):
                self._handles.x, self._handles.y = at, np.full(len(at), top * 0.9)
        self._busy = True
        texts = [", ".join(f"{value:.{digits}g}" for value in at) for digits in (6, 4, 3)]
        self._typed.value = next((text for text in texts if len(text) <= _FIELD), texts[-1])
        self._shown = dict(zip(self._typed.value.split(", "), at.tolist(), strict=False))
        # As wide as its numbers, beside its name; the button goes below it where there is no room for both.
        self._typed.layout.flex = f"1 1 {_LABEL + _LETTER * len(self._typed.value)}px"
        self._busy = False
        colours = category_colours(len(self.categories))
        named = zip(self.categories.labels, colours, self.categories.counts, strict=True)
        entries = {f"{label}: {count:,}": (colour, "bar") for label, colour, count in named}
        shown = dict(list(entries.items())[:_LISTED])
        more = len(entries) - len(shown)
        self._legend.value = keys(shown) + (f"and {more} more" if more else "")

    def _draw_importance(self) -> None:
        if self.importance is None:
            return
        ranked = self.importance.to_frame()
        figures.set_bars(self._ranked, list(ranked.index), ranked["mdi"].to_numpy())
        # "+ 0.0": a fall that rounds to nothing has no sign.
        falls = ", ".join(f"{html.escape(str(name))} {row['permutation']:z.3f}" for name, row in ranked.iterrows())
        caveat = f"<br>{html.escape(self.importance.caveat)}" if self.importance.caveat else ""
        self._rank_note.value = f'<span class="pk-muted">Held-out score lost when shuffled: {falls}{caveat}</span>'

    def _draw_lines(self) -> None:
        rows = self.selected
        labels: dict[str, tuple[str, str]] = {}
        medians = coinciding(median_lines(rows, self.x, self.target, [self.by] if self.by else []))
        named = [(" = ".join(names), line) for names, line in medians[:_MOST_LINES]]
        lines = [line for _, line in named]
        words = [] if not lines else sorted({str(v) for line in lines for v in line.index if isinstance(v, str)})
        places = sorted({float(v) for line in lines for v in line.index if not isinstance(v, str)})
        # Powers of two, and whatever else spans decades: by the logarithm, with the values themselves as ticks.
        log = not words and len(places) > 2 and places[0] > 0 and places[-1] / places[0] >= _DECADES
        for mark, (name, line) in zip(self._series, named, strict=False):
            x = np.array([words.index(v) if isinstance(v, str) else v for v in line.index], dtype=float)
            x = np.log2(x) if log else x
            figures.set_xy(mark, x, line.to_numpy(dtype=float))
            if name:
                labels[f"{self.by} {name}"] = (mark.colors[0], "line")
        for mark in self._series[len(lines) :]:
            figures.set_xy(mark, np.array([np.nan]), np.array([np.nan]))
        known = [mark for mark in self._series if mark.visible]
        across, up = self._line_axes
        across.label = with_unit(self.x)
        if known:
            xs = np.concatenate([np.asarray(mark.x) for mark in known])
            ys = np.concatenate([np.asarray(mark.y) for mark in known])
            low, high = float(np.nanmin(xs)), float(np.nanmax(xs))
            pad = (high - low) * 0.04 or 0.5
            ticks = {float(i): fitted(w, max(_ACROSS / len(words), _LEAST)) for i, w in enumerate(words)}
            if len(places) == 1:  # between which there is nothing
                ticks = {places[0]: short(places[0])}
            if log:
                ticks = {float(np.log2(v)): short(v) for v in places[:: -(-len(places) // _MOST_TICKS)]}
            figures.set_range(across, low - pad, high + pad, ticks)
            if ticks:
                across.tick_values = np.array(list(ticks))
            figures.set_range(up, 0.0, float(np.nanmax(ys)) * 1.1 or 1.0)
        over_all = short(typical(rows[self.target]))
        note = f'<span class="pk-muted">{counted(len(rows), "rows")}; medians ({over_all} over all rows)</span>'
        self._line_keys.value = keys(labels) + note
        self._downloads.refresh()
