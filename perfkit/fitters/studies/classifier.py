"""Other classifiers of MARTA's kind: nearest neighbours and support vector machines, judged as decision trees are.

They say how far a target can be told from its dimensions, not why: a tree that does as well is the better answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.base.results import UNKNOWN, Plain, Settings, draw, kind_of, labelled
from perfkit.errors import SettingError, counted
from perfkit.fitters.studies.categories import Categories
from perfkit.fitters.studies.decision_tree import check_columns, folds_of, learning_data
from perfkit.fitters.studies.folds import ONE_CATEGORY, ToldCategories

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Classification(Plain, ToldCategories):
    """How well a classifier tells the categories of rows that it was not fitted to.

    Parameters
    ----------
    method : str
        "knn" or "svm".
    target : str
        The column whose categories are told.
    features : tuple of str
        The columns that it sees.
    classes : tuple of str
        The categories' labels.
    scores : tuple of float
        Each fold's accuracy.
    baseline : float
        The share of the commonest category.
    confusion : tuple of tuple of int
        Held-out rows: true category (row) by told category (column).
    rows, left_out : int
        Rows used, and rows left out for a missing value.
    kind : str
        What the data is.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> categories = pk.FixedBins("tsc", 2).fit(runs)
    >>> pk.Classifier(["WIDTH", "INSTRUCTIONS"], "svm").fit(runs, categories).rows
    60
    """

    method: str
    target: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    scores: tuple[float, ...]
    baseline: float
    confusion: tuple[tuple[int, ...], ...]
    rows: int
    left_out: int
    kind: str = UNKNOWN

    @property
    def verdict(self) -> str:
        """The score with its spread beside what guessing the commonest category scores."""
        if self.only_one_category:
            return f"{ONE_CATEGORY} ({counted(self.rows, 'rows')})"
        return (
            f"accuracy {self.score:.3f} +- {self.spread:.3f} on held-out rows, against {self.baseline:.3f} for always "
            f"guessing the commonest of {counted(len(self.classes), 'categories')} ({counted(self.rows, 'rows')})"
            f"{self._against_guessing()}"
        )

    def summary(self) -> str:
        """Say what was told from what, and how well."""
        left = f", {self.left_out} left out for a missing value" if self.left_out else ""
        return (
            f"{self.method}: {self.verdict}{left}\n{self.target} from {', '.join(self.features)}{labelled(self.kind)}"
            f"{self._told_badly()}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the confusion matrix: true categories by told ones."""
        return pd.DataFrame(self.confusion, index=list(self.classes), columns=list(self.classes))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the confusion matrix (`perfkit.plots.studies.plot_confusion`)."""
        return draw("studies:plot_confusion", self, ax=ax)

    def confusion_frame(self) -> pd.DataFrame:
        """Return what `to_frame` does, by the name that trees have for it."""
        return self.to_frame()


@dataclass(frozen=True)
class Classifier(Settings):
    """A classifier of a target's categories by other columns, which are scaled to one spread.

    Parameters
    ----------
    features : sequence of str
        The columns to look at; text columns become one column per value.
    method : {"knn", "svm"}
        k nearest neighbours, or a support vector machine with a radial kernel.
    neighbours : int
        Of "knn".
    penalty : float
        C of "svm".
    folds, seed, group
        As of `DecisionTree`.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> categories = pk.FixedBins("tsc", 2).fit(runs)
    >>> found = pk.Classifier(["WIDTH", "INSTRUCTIONS"]).fit(runs, categories)
    >>> found.method
    'knn'
    """

    features: Sequence[str]
    method: Literal["knn", "svm"] = "knn"
    neighbours: int = 5
    penalty: float = 1.0
    folds: int = 5
    seed: int = 0
    group: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_columns(self)
        if self.method not in {"knn", "svm"}:
            raise SettingError(f"a method is 'knn' or 'svm', not {self.method!r}")
        if self.neighbours < 1 or not self.penalty > 0 or self.folds < 2:
            raise SettingError("neighbours are at least 1, penalty is over 0, folds are at least 2")

    def fit(self, table: Any, target: Categories) -> Classification:
        """Judge by cross-validation how well the features of `table`'s rows tell the categories of `target`."""
        data = learning_data(table, self.features, target, self.group)
        scores, confusion = [], np.zeros((len(data.classes),) * 2, dtype=int)
        for held in folds_of(data.groups, self.folds, self.seed):
            model = self._model(data.target[~held]).fit(data.encoded[~held], data.target[~held])
            guess: NDArray[np.float64] = model.predict(data.encoded[held])
            truth = data.target[held]
            np.add.at(confusion, (truth.astype(int), guess.astype(int)), 1)
            scores.append(float((guess == truth).mean()))
        return Classification(
            method=self.method, target=data.name, features=tuple(self.features), classes=data.classes,
            scores=tuple(scores), baseline=data.baseline, confusion=tuple(tuple(map(int, row)) for row in confusion),
            rows=len(data.target), left_out=data.left_out, kind=kind_of(table),
        )  # fmt: skip

    def _model(self, known: NDArray[np.float64]) -> Any:
        from sklearn.dummy import DummyClassifier
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        if self.method == "knn":
            return make_pipeline(StandardScaler(), KNeighborsClassifier(min(self.neighbours, len(known))))
        if len(np.unique(known)) == 1:  # between which no machine separates
            return DummyClassifier()
        return make_pipeline(StandardScaler(), SVC(C=self.penalty, random_state=self.seed))
