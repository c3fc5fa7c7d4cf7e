"""Which dimensions matter: random forests, by mean decrease in impurity and by permutation (MARTA, section II-B)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.base.results import UNKNOWN, Plain, Settings, draw, kind_of, labelled
from perfkit.errors import SettingError
from perfkit.fitters.studies.categories import Categories
from perfkit.fitters.studies.decision_tree import LearningData, check_columns, folds_of, learning_data
from perfkit.fitters.studies.folds import ONE_CATEGORY, CrossValidated

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Importance(Plain, CrossValidated):
    """How much each feature decides.

    Parameters
    ----------
    target : str
        The column that was predicted.
    mdi : dict
        Feature -> mean decrease in impurity over the forest's trees; sums to 1.
    permutation : dict
        Feature -> by how much the held-out score falls when its values are shuffled among rows (mean).
    permutation_spread : dict
        The same's standard deviation over folds and shuffles.
    scores : tuple of float
        Held-out accuracy (or R^2) of each fold.
    baseline : float
        The commonest category's share; 0 for a regression.
    rows, left_out : int
        Rows used, and rows left out for a missing value.
    kind : str
        What the data is: measured, simulated, generated or published; unknown for a plain table that does not say.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> found = pk.RandomForest(["WIDTH", "INSTRUCTIONS"], trees=10).fit(runs, "tsc")
    >>> found.rows
    60
    """

    target: str
    mdi: dict[str, float]
    permutation: dict[str, float]
    permutation_spread: dict[str, float]
    scores: tuple[float, ...]
    baseline: float
    rows: int
    left_out: int
    kind: str = UNKNOWN

    def to_frame(self) -> pd.DataFrame:
        """Return one row per feature, the most important first."""
        frame = pd.DataFrame(
            {"mdi": self.mdi, "permutation": self.permutation, "permutation_spread": self.permutation_spread}
        )
        return frame.rename_axis("feature").sort_values("mdi", ascending=False)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The features whose shuffling lowers the held-out score by no more than two standard errors.

        They have no effect, or others carry what they say. A forest gives a share to them, too: the shares sum to 1.
        """
        bound = 2 / math.sqrt(len(self.scores))
        return tuple(
            name for name, fall in self.permutation.items() if not fall > bound * self.permutation_spread[name]
        )

    @property
    def caveat(self) -> str:
        """What the shares do not say: that the forest may not predict, or which features could as well be shuffled."""
        if self.only_one_category:
            return ONE_CATEGORY
        if not self.beats_guessing:
            return "the forest is not shown to predict better than guessing: its shares may divide up noise"
        if self.without_effect:
            names = ", ".join(self.without_effect)
            return f"shuffling {names} changes nothing: without effect, or others carry the same"
        return ""

    def summary(self) -> str:
        """Say which features decide the target, and how well they predict it."""
        if self.only_one_category:
            return f"importance for {self.target}: {self.caveat}{labelled(self.kind)}"
        table = self.to_frame().head(5)
        ranked = ", ".join(f"{name} {mdi:.3f}" for name, mdi in table["mdi"].items())
        lines = [
            f"importance for {self.target} (share of the decrease in impurity){labelled(self.kind)}: {ranked}",
            (
                f"held-out score {self.score:.3f} +- {self.spread:.3f}, {self.baseline:.3f} for guessing; "
                f"{self.rows} rows, {self.left_out} left out for a missing value"
            ),
            self.caveat,
        ]
        return "\n".join(line for line in lines if line)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw bars (`perfkit.plots.studies.plot_importance`)."""
        return draw("studies:plot_importance", self, ax=ax)


@dataclass(frozen=True)
class RandomForest(Settings):
    """A random forest that measures the features' importance.

    Parameters
    ----------
    features : sequence of str
        The columns to learn from.
    trees : int
        In the forest.
    max_depth : int, optional
        Of each tree; None lets them grow.
    folds, shuffles : int
        Cross-validation folds, and shuffles of each feature in each fold.
    seed : int
        Of everything random.
    group : str or sequence of str, optional
        As of `DecisionTree`.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> found = pk.RandomForest(["WIDTH", "INSTRUCTIONS"], trees=10).fit(runs, "tsc")
    >>> max(found.mdi, key=found.mdi.get)
    'INSTRUCTIONS'
    """

    features: Sequence[str]
    trees: int = 100
    max_depth: int | None = None
    folds: int = 5
    shuffles: int = 3
    seed: int = 0
    group: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_columns(self)
        if self.max_depth is not None and self.max_depth < 1:
            raise SettingError(f"max_depth is at least 1, or None; found {self.max_depth}")
        if self.trees < 1 or self.folds < 2 or self.shuffles < 1:
            raise SettingError("trees and shuffles are at least 1, folds at least 2")

    def fit(self, table: Any, target: Categories | str) -> Importance:
        """Fit to a table's rows and a target's categories, or (given a column's name) the target itself."""
        data = learning_data(table, self.features, target, self.group)
        mdi = data.summed(self._fitted(data, np.ones(len(data.target), dtype=bool)).feature_importances_)
        rng = np.random.default_rng(self.seed)
        scores: list[float] = []
        falls: dict[str, list[float]] = {name: [] for name in self.features}
        for held in folds_of(data.groups, self.folds, self.seed):
            model = self._fitted(data, ~held)
            full = model.score(data.encoded[held], data.target[held])
            scores.append(float(full))
            for name in self.features:
                for _ in range(self.shuffles):
                    shuffled = data.frame.loc[held].copy()
                    shuffled[name] = shuffled[name].to_numpy()[rng.permutation(len(shuffled))]
                    falls[name].append(full - model.score(data.encode(shuffled), data.target[held]))
        return Importance(
            data.name, mdi, {name: float(np.mean(fall)) for name, fall in falls.items()},
            {name: float(np.std(fall)) for name, fall in falls.items()}, tuple(scores), data.baseline,
            len(data.target), data.left_out, kind_of(table),
        )  # fmt: skip

    def _fitted(self, data: LearningData, rows: Any) -> Any:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind = RandomForestClassifier if data.classes else RandomForestRegressor
        model = kind(n_estimators=self.trees, max_depth=self.max_depth, random_state=self.seed, n_jobs=1)
        return model.fit(data.encoded[rows], data.target[rows])
