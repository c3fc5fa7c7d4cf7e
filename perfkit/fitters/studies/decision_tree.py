"""Decision trees over a study's dimensions: of a target's categories, or of the target itself (MARTA, section II-B).

The fitted tree is plain arrays: it predicts, prints, is drawn and saved without scikit-learn. Its score is
cross-validated, with rows of one configuration always on one side of the split, and stands beside the share of the
commonest category.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.base.results import UNKNOWN, Plain, Settings, draw, kind_of, labelled
from perfkit.errors import DataError, SettingError, counted, expect
from perfkit.fitters.studies.categories import Categories, as_frame, column
from perfkit.fitters.studies.folds import ONE_CATEGORY, ToldCategories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDED = 1e-13  # of a variance beside the square of the mean
_NOISE = ": what it splits by may be noise"


@dataclass(frozen=True)
class Node:
    """One node of a tree.

    Parameters
    ----------
    feature : str
        The column that it splits on; "" for a leaf.
    equals : str
        The text that the column is compared with; "" where the split is by `threshold`.
    threshold : float
        Rows with a value at or below it (for text: rows that differ from `equals`) go left.
    left, right : int
        The children's indices, -1 for a leaf.
    parent, depth, samples : int
        The parent's index (-1 for the root), the distance from the root, training rows that reach it.
    impurity : float
        Gini impurity, or the target's variance for a regression.
    value : tuple of float
        Training rows of each category, or the target's mean.
    """

    feature: str
    equals: str
    threshold: float
    left: int
    right: int
    parent: int
    depth: int
    samples: int
    impurity: float
    value: tuple[float, ...]

    @property
    def is_leaf(self) -> bool:
        """Whether it has no children."""
        return self.left < 0


@dataclass(frozen=True, repr=False)
class Tree(Plain, ToldCategories):
    """A fitted tree and how well it does on rows that it was not fitted to.

    Parameters
    ----------
    target : str
        The column that is predicted.
    features : tuple of str
        The columns that it may split on.
    nodes : tuple of Node
        The root first.
    classes : tuple of str
        The categories' labels; empty for a regression.
    scores : tuple of float
        Each fold's accuracy (share of rows in the right category), or R^2 for a regression.
    baseline : float
        The share of the commonest category among all rows; 0 for a regression (the mean's R^2).
    confusion : tuple of tuple of int
        Held-out rows: true category (row) by predicted category (column). Empty for a regression.
    importance : dict
        Mean decrease in impurity of each feature; sums to 1 (all 0 for a tree that never splits).
    rows, left_out : int
        Rows used, and rows left out for a missing value.
    error : float
        Median relative error of held-out rows of a regression; NaN for a classification.
    kind : str
        What the data is: measured, simulated, generated or published; unknown for a plain table that does not say.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> tree = pk.DecisionTree(["WIDTH", "INSTRUCTIONS"], max_depth=2).fit(runs, "tsc")
    >>> max(tree.importance, key=tree.importance.get)
    'WIDTH'
    """

    target: str
    features: tuple[str, ...]
    nodes: tuple[Node, ...]
    classes: tuple[str, ...]
    scores: tuple[float, ...]
    baseline: float
    confusion: tuple[tuple[int, ...], ...]
    importance: dict[str, float]
    rows: int
    left_out: int
    error: float = math.nan
    kind: str = UNKNOWN

    @property
    def is_regression(self) -> bool:
        """Whether it predicts the target itself."""
        return not self.classes

    @property
    def is_constant(self) -> bool:
        """Whether it is a regression of a target that does not vary, but by what rounding leaves."""
        root = self.nodes[0]
        return self.is_regression and root.is_leaf and root.impurity <= _ROUNDED * root.value[0] ** 2

    @property
    def depth(self) -> int:
        """The longest way from the root."""
        return max(node.depth for node in self.nodes)

    @property
    def _size(self) -> str:
        return f"{counted(self.rows, 'rows')}, {counted(len(self.nodes), 'nodes')}"

    @property
    def verdict(self) -> str:
        """The score with its spread, beside what predicting the commonest category scores, in one line."""
        if self.only_one_category:
            return f"{ONE_CATEGORY} ({counted(self.rows, 'rows')})"
        if self.is_constant:
            return f"{self.target} is {self.nodes[0].value[0]:.4g} in all of {counted(self.rows, 'rows')}"
        if self.is_regression:
            return (
                f"R^2 {self.score:.3f} +- {self.spread:.3f}, median error {self.error:.1%} on held-out rows "
                f"({self._size}){self._against_guessing(_NOISE)}"
            )
        return (
            f"accuracy {self.score:.3f} +- {self.spread:.3f} on held-out rows, against {self.baseline:.3f} for always "
            f"guessing the commonest of {counted(len(self.classes), 'categories')} ({self._size})"
            f"{self._against_guessing(_NOISE)}"
        )

    def summary(self) -> str:
        """Say how well the tree predicts, and by which features."""
        if self.only_one_category or self.is_constant:
            return self.verdict + labelled(self.kind)
        ranked = sorted(self.importance.items(), key=lambda one: -one[1])
        features = (
            ", ".join(f"{name} {share:.2f}" for name, share in ranked if share > 0) or "no feature: it never splits"
        )
        decided = f"{self.target} is decided by {features}{self._told_badly()}"
        return "\n".join([self.verdict + labelled(self.kind), decided])

    def apply(self, table: Any) -> NDArray[np.int64]:
        """Return the leaf that each row of a table reaches; -1 where a needed value is missing."""
        frame = as_frame(table)
        values = {name: column(frame, name) for name in {node.feature for node in self.nodes if node.feature}}
        place = np.zeros(len(frame), dtype=np.int64)
        # Children come after their parents, so one pass in order takes every row to its leaf.
        for index, node in enumerate(self.nodes):
            here = place == index
            if node.is_leaf or not here.any():
                continue
            data = values[node.feature]
            right = (data.astype(str) == node.equals) if node.equals else (data.astype(float) > node.threshold)
            place[here & right.to_numpy(dtype=bool)] = node.right
            place[here & ~right.to_numpy(dtype=bool)] = node.left
            place[here & data.isna().to_numpy()] = -1
        return place

    def said_by(self, node: Node) -> float:
        """Return what one of the tree's nodes predicts: the commonest category's number, or the mean."""
        expect(isinstance(node, Node), node, "Tree.said_by", "a node of the tree", "take one of its nodes")
        # Whether a single value is a mean or the rows of an only category, the node does not know.
        return node.value[0] if self.is_regression else float(np.argmax(node.value))

    def predict(self, table: Any) -> NDArray[np.float64]:
        """Return each row's category number, or its target for a regression; NaN where a needed value is missing."""
        predictions = np.array([*(self.said_by(node) for node in self.nodes), math.nan])
        return predictions[self.apply(table)]

    def _check_node(self, node: int) -> None:
        if not hasattr(node, "__index__") or not 0 <= node < len(self.nodes):
            raise SettingError(f"no node {node!r}: the tree has {len(self.nodes)}, numbered from 0")

    def path(self, node: int) -> tuple[str, ...]:
        """Return the conditions from the root to a node, in words."""
        self._check_node(node)
        words: list[str] = []
        while node > 0:
            parent = self.nodes[node].parent
            words.append(self.condition(parent, right=self.nodes[parent].right == node))
            node = parent
        return tuple(reversed(words))

    def condition(self, node: int, right: bool) -> str:
        """Say what a node's split asks of the rows that go `right`, or left."""
        self._check_node(node)
        one = self.nodes[node]
        if one.equals:
            return f"{one.feature} {'is' if right else 'is not'} {one.equals}"
        return f"{one.feature} {'>' if right else '<='} {one.threshold:g}"

    def rows_of(self, node: int, table: Any) -> NDArray[np.bool_]:
        """Return which rows of a table pass through a node.

        Raises
        ------
        SettingError
            The tree has no such node.
        """
        self._check_node(node)
        below = {node}
        for index, one in enumerate(self.nodes):
            if one.parent in below:
                below.add(index)
        return np.isin(self.apply(table), list(below))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per node."""
        frame = pd.DataFrame([node.__dict__ for node in self.nodes])
        frame["prediction"] = [
            node.value[0] if self.is_regression else self.classes[int(self.said_by(node))] for node in self.nodes
        ]
        return frame.rename_axis("node")

    def confusion_frame(self) -> pd.DataFrame:
        """Return the confusion matrix of held-out rows: true category by predicted category."""
        names = pd.Index(self.classes)
        return pd.DataFrame(
            [list(row) for row in self.confusion], index=names.rename("true"), columns=names.rename("predicted")
        )

    def to_text(self) -> str:
        """Return the tree as indented text."""
        lines = []

        def walk(index: int) -> None:
            node = self.nodes[index]
            what = f"{node.value[0]:.4g}" if self.is_regression else self.classes[int(self.said_by(node))]
            if node.is_leaf:
                rows = counted(node.samples, "rows")
                lines.append(f"{'  ' * node.depth}-> {what}  ({rows}, impurity {node.impurity:.3g})")
                return
            for child, right in ((node.left, False), (node.right, True)):
                lines.append(f"{'  ' * node.depth}{self.condition(index, right)}:")
                walk(child)

        walk(0)
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the tree (`perfkit.plots.studies.plot_tree`)."""
        return draw("studies:plot_tree", self, ax=ax)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        return cls(**{**values, "nodes": tuple(Node(**node) for node in values["nodes"])})


def check_columns(learner: Any) -> None:
    """Refuse features and a group that are no names of columns."""
    own, how = type(learner).__name__, "name columns; their table goes to .fit(table, target)"
    expect(isinstance(learner.features, Sequence), learner.features, own, "names of columns (features)", how)
    if isinstance(learner.features, str) or not learner.features:
        raise SettingError("features is a list of at least one column's name")
    fits = learner.group is None or isinstance(learner.group, Sequence)
    expect(fits, learner.group, own, "a column's name, or several (group)", "name what makes a configuration")


@dataclass(frozen=True)
class DecisionTree(Settings):
    """A decision tree over a table's columns.

    Parameters
    ----------
    features : sequence of str
        The columns to split on; text columns are split by equality.
    max_depth : int
        Of the tree.
    min_samples : int
        Least rows in a leaf.
    folds : int
        Of the cross-validation: 5 keeps the paper's 80/20 split.
    seed : int
        Of the split and of ties in the tree.
    group : str or sequence of str, optional
        Rows equal in these columns stay on one side of every split. Name what makes a configuration when a table holds
        its repetitions as rows; in the table of `StudyRuns` each configuration is one row.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"N": range(40), "t": [1.0] * 20 + [9.0] * 20})
    >>> DecisionTree(["N"], max_depth=1).fit(table, "t").nodes[0].threshold
    19.5
    """

    features: Sequence[str]
    max_depth: int = 4
    min_samples: int = 1
    folds: int = 5
    seed: int = 0
    group: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_columns(self)
        if len(set(self.features)) < len(self.features):
            raise SettingError(f"a feature is listed twice: {list(self.features)}")
        if self.max_depth < 1 or self.min_samples < 1 or self.folds < 2:
            raise SettingError("max_depth and min_samples are at least 1, folds at least 2")

    def fit(self, table: Any, target: Categories | str) -> Tree:
        """Fit to a table's rows and a target's categories, or (given a column's name) the target itself.

        Raises
        ------
        DataError
            If a column is missing, or there are fewer groups of rows than folds.
        """
        data = learning_data(table, self.features, target, self.group)
        fitted = self._fitted(data.encoded, data)
        scores, confusion, errors = [], np.zeros((len(data.classes),) * 2, dtype=int), []
        for held in folds_of(data.groups, self.folds, self.seed):
            model = self._fitted(data.encoded[~held], data, ~held)
            guess, truth = model.predict(data.encoded[held]), data.target[held]
            if data.classes:
                np.add.at(confusion, (truth.astype(int), guess.astype(int)), 1)
                scores.append(float((guess == truth).mean()))
            else:
                scores.append(_r_squared(truth, guess))
                errors.append(np.abs(guess - truth) / np.maximum(np.abs(truth), 1e-300))
        return Tree(
            target=data.name, features=tuple(self.features), nodes=_nodes(fitted, data), classes=data.classes,
            scores=tuple(scores), baseline=data.baseline, confusion=tuple(tuple(map(int, row)) for row in confusion),
            importance=data.summed(fitted.feature_importances_), rows=len(data.target), left_out=data.left_out,
            error=float(np.median(np.concatenate(errors))) if errors else math.nan, kind=kind_of(table),
        )  # fmt: skip

    def _fitted(self, encoded: NDArray[np.float64], data: "LearningData", rows: Any = slice(None)) -> Any:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        kind = DecisionTreeClassifier if data.classes else DecisionTreeRegressor
        model = kind(max_depth=self.max_depth, min_samples_leaf=self.min_samples, random_state=self.seed)
        return model.fit(encoded, data.target[rows])


# -- what trees and forests share --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningData:
    """Rows ready to learn from: numbers for the features, the target, and which rows belong together."""

    name: str
    frame: pd.DataFrame
    features: tuple[str, ...]
    encoded: NDArray[np.float64]
    columns: tuple[tuple[str, str], ...]
    target: NDArray[np.float64]
    classes: tuple[str, ...]
    groups: NDArray[np.int64]
    left_out: int

    @property
    def baseline(self) -> float:
        """The commonest category's share; 0 for a regression."""
        if not self.classes:
            return 0.0
        return float(np.bincount(self.target.astype(int)).max() / len(self.target))

    def summed(self, importance: NDArray[np.float64]) -> dict[str, float]:
        """Add up the importance of the columns that one text feature became."""
        out = dict.fromkeys(self.features, 0.0)
        for (name, _), value in zip(self.columns, importance, strict=True):
            out[name] += float(value)
        return out

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Turn rows into numbers: text columns become one column per value."""
        return _encode(frame, self.columns)


def learning_data(
    table: Any, features: Sequence[str], target: Categories | str, group: str | Sequence[str] | None
) -> LearningData:
    """Take features, target and groups out of a table; rows with a missing value are left out and counted."""
    frame = as_frame(table)
    name = target.target if isinstance(target, Categories) else target
    if name in features:
        raise SettingError(f"{name!r} is the target and a feature: the tree would only repeat it")
    grouping = [group] if isinstance(group, str) else list(group or [])
    for one in (*features, name, *grouping):
        column(frame, one)
    whole = frame[[*features, name]].notna().all(axis=1).to_numpy()
    kept = frame[whole]
    if not len(kept):
        raise DataError("no row has all features and the target")
    if isinstance(target, Categories):
        values, classes = target.assign(kept[name].to_numpy(dtype=float)), target.labels
    elif pd.api.types.is_numeric_dtype(kept[name]):
        values, classes = kept[name].to_numpy(dtype=float), ()
    else:
        raise DataError(f"the target {name!r} holds {kept[name].dtype}, expected numbers or fitted categories")
    columns = _columns(kept, features)
    groups = kept.groupby(grouping, dropna=False, sort=False).ngroup().to_numpy() if grouping else np.arange(len(kept))
    return LearningData(
        name, kept, tuple(features), _encode(kept, columns), columns, values.astype(float), classes, groups,
        int((~whole).sum()),
    )  # fmt: skip


def folds_of(groups: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return the held-out rows of each fold; a group's rows are held out together."""
    count = int(groups.max()) + 1
    if count < folds:
        raise DataError(f"{folds} folds need at least as many configurations, there are {count}")
    part = np.random.default_rng(seed).permutation(count) % folds
    return [part[groups] == fold for fold in range(folds)]


def _columns(frame: pd.DataFrame, features: Sequence[str]) -> tuple[tuple[str, str], ...]:
    out: list[tuple[str, str]] = []
    for name in features:
        if pd.api.types.is_numeric_dtype(frame[name]) or pd.api.types.is_bool_dtype(frame[name]):
            out.append((name, ""))
        else:
            values = sorted(frame[name].astype(str).unique())
            out += [(name, value) for value in (values[1:] if len(values) == 2 else values)]
    return tuple(out)


def _encode(frame: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    parts = [
        (frame[name].astype(str) == value).to_numpy(dtype=float) if value else frame[name].to_numpy(dtype=float)
        for name, value in columns
    ]
    return np.column_stack(parts)


def _nodes(model: Any, data: LearningData) -> tuple[Node, ...]:
    tree = model.tree_
    parent = np.full(tree.node_count, -1)
    depth = np.zeros(tree.node_count, dtype=int)
    out = []
    for index in range(tree.node_count):
        left, right = int(tree.children_left[index]), int(tree.children_right[index])
        for child in (left, right):
            if child >= 0:
                parent[child], depth[child] = index, depth[index] + 1
        feature, equals = data.columns[tree.feature[index]] if left >= 0 else ("", "")
        samples = int(tree.n_node_samples[index])
        value = tree.value[index].ravel()
        if data.classes:  # scikit-learn gives shares of the classes that it saw
            counts = np.zeros(len(data.classes))
            counts[model.classes_.astype(int)] = np.round(value / value.sum() * samples)
            value = counts
        out.append(
            Node(
                feature,
                equals,
                float(tree.threshold[index]) if left >= 0 else math.nan,
                left,
                right,
                int(parent[index]),
                int(depth[index]),
                samples,
                float(tree.impurity[index]),
                tuple(map(float, value)),
            )
        )
    return tuple(out)


def _r_squared(truth: NDArray[np.float64], guess: NDArray[np.float64]) -> float:
    total = float(((truth - truth.mean()) ** 2).sum())
    rest = float(((truth - guess) ** 2).sum())
    if total == 0:
        return 1.0 if rest == 0 else 0.0
    return 1 - rest / total
