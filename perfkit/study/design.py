"""Sequential designs: which configurations to measure next, and what that says of those that were not measured.

A Gaussian process of the target's logarithm over the dimensions (and columns derived from them alone) predicts every
configuration with an uncertainty. Each round measures the most uncertain ones, and as many drawn at random: only these
give an error estimate that nothing has chosen, from predictions that were made before they were measured.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import DataError, SettingError

_FIRST = 24  # configurations of the first round, all drawn at random
_ROUND = 12  # of each later one
_LEAST_CHECKED = 30  # random configurations that an error estimate needs
_CHECKED = 60  # the latest ones that it looks at
_COVERAGE, _LEAST_INTERVAL = 0.9, 9  # of the intervals; random rows that it takes
_LEAST_BUDGET = _FIRST + 2 * _LEAST_CHECKED  # half of each later round is drawn at random


def expect_budget(budget: int) -> None:
    """Raise SettingError for a budget too small to estimate the error of what is predicted."""
    if budget < _LEAST_BUDGET:
        raise SettingError(
            f"a budget of {budget} measurements: an estimate of the error needs at least {_LEAST_BUDGET}; "
            "raise it, or measure the whole space without one"
        )


@dataclass
class SequentialDesign:
    """Chooses configurations until its own error estimate is met or the budget is used up.

    Parameters
    ----------
    features : DataFrame
        One row per configuration: what is known of it before it is measured.
    budget : int
        The most configurations to measure.
    error : float
        The median relative error of predictions at which it stops.
    seed : int
        Of the random choices.
    """

    features: pd.DataFrame
    budget: int
    error: float = 0.05
    seed: int = 0
    values: dict[int, float] = field(default_factory=dict, init=False)
    """Row -> the measured target; NaN where measuring failed."""
    awaited: dict[int, float] = field(default_factory=dict, init=False)
    """Randomly drawn row -> logarithm of what was predicted before it was measured; set it to go on after a stop."""
    checked: list[float] = field(default_factory=list, init=False)
    """Relative errors of predictions of random configurations, in the order of measurement."""

    def __post_init__(self) -> None:
        expect_budget(self.budget)
        if not 0 < self.error < 1:
            raise SettingError(f"an error lies between 0 and 1, not {self.error}")
        self._random = np.random.default_rng(self.seed)
        self._inputs = _encoded(self.features)
        self._model: Any = None
        self._shift, self._scale = 0.0, 1.0

    @property
    def estimate(self) -> float:
        """The median relative error to expect of what was not measured, from above: the upper 90 % bound of the median.

        NaN as long as too few random configurations were predicted before they were measured.
        """
        latest = self.checked[-_CHECKED:]
        if len(latest) < _LEAST_CHECKED:
            return math.nan
        # The rank whose chance to lie under the median is under 10 % (the binomial distribution, by its normal limit).
        rank = min(math.ceil(len(latest) / 2 + 1.2816 * math.sqrt(len(latest)) / 2), len(latest) - 1)
        return sorted(latest)[rank]

    def propose(self) -> list[int]:
        """Return the rows to measure next; none when the design is done."""
        left = np.setdiff1d(np.arange(len(self.features)), list(self.values))
        room = self.budget - len(self.values)
        if not len(left) or room <= 0 or self.estimate <= self.error:
            return []
        if len(self.values) < _FIRST:  # also where a study that was stopped goes on
            size = min(_FIRST - len(self.values), room, len(left))
            return [int(row) for row in self._random.choice(left, size, replace=False)]
        size = min(_ROUND, room, len(left))
        drawn = self._random.choice(left, max(size // 2, 1), replace=False)
        mean, spread = self._predict(left)
        new = {int(row): float(mean[np.searchsorted(left, row)]) for row in drawn}
        self.awaited |= new
        uncertain = [int(row) for row in left[np.argsort(-spread)] if row not in new]
        return [*new, *uncertain[: size - len(drawn)]]

    def observe(self, rows: Sequence[int], values: Sequence[float]) -> None:
        """Tell what was measured; NaN for a configuration that failed."""
        for row, value in zip(rows, values, strict=True):
            if math.isfinite(value) and value <= 0:
                raise DataError(f"a budget needs a target over 0, row {row} has {value}")
            self.values[row] = value
            if row in self.awaited and math.isfinite(value):
                self.checked.append(abs(math.exp(self.awaited[row]) / value - 1))
        self._model = None

    def predictions(self, own: float = 0.0) -> pd.DataFrame:
        """Return what is expected of every row that was not measured: ``predicted``, ``low`` and ``high`` (90 %).

        The model's own spread is too small where rows differ by more than noise; it is scaled so that 90 % of the rows
        that were drawn at random lie within it, each predicted by a model without it (a conformal interval).

        Parameters
        ----------
        own : float
            Half of the relative interval that a measured row itself has. What all rows of one run have in common (the
            clock's calibration) no row shows as an error of another's prediction, but the next run or the truth may.
        """
        left = np.setdiff1d(np.arange(len(self.features)), list(self.values))
        if not len(left):
            return pd.DataFrame(columns=["predicted", "low", "high"])
        mean, spread = self._predict(left)
        half = np.hypot(self._scaling() * spread, math.log1p(own))
        bounds = {"predicted": mean, "low": mean - half, "high": mean + half}
        return pd.DataFrame({name: np.exp(value) for name, value in bounds.items()}, index=left)

    def _scaling(self) -> float:
        """Return by how much a spread is to be multiplied so that nine of ten rows lie within it."""
        known = [row for row, value in self.values.items() if math.isfinite(value)]
        covariance = self._model.kernel_(self._inputs[known])
        inverse = np.linalg.inv(covariance + self._model.alpha * np.eye(len(known)))
        # Of each row from all the others (Rasmussen and Williams, Gaussian Processes for Machine Learning, 5.12).
        off = np.abs(inverse @ self._model.y_train_) / np.sqrt(np.diag(inverse))
        drawn = np.array([row in self.awaited for row in known])
        judged = np.sort(off[drawn] if np.count_nonzero(drawn) >= _LEAST_INTERVAL else off)
        rank = math.ceil((len(judged) + 1) * _COVERAGE)
        return float(judged[min(rank, len(judged)) - 1])

    def _predict(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._model is None:
            self._fit()
        mean, spread = self._model.predict(self._inputs[rows], return_std=True)
        return mean * self._scale + self._shift, spread * self._scale

    def _fit(self) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        known = [row for row, value in self.values.items() if math.isfinite(value)]
        if len(known) < 5:
            raise DataError(f"only {len(known)} of the first {len(self.values)} configurations were measured")
        targets = np.log([self.values[row] for row in known])
        self._shift, self._scale = float(targets.mean()), float(targets.std()) or 1.0
        width = self._inputs.shape[1]
        kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.ones(width), (5e-2, 1e3), nu=2.5)
        kernel += WhiteKernel(1e-2, (1e-6, 1.0))
        model = GaussianProcessRegressor(kernel, n_restarts_optimizer=0, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: of a feature without effect
            self._model = model.fit(self._inputs[known], (targets - self._shift) / self._scale)


def _encoded(features: pd.DataFrame) -> NDArray[np.float64]:
    """Return features as columns from 0 to 1: numbers by their rank among the values, text as one column per value."""
    columns = []
    for name in features:
        values = features[name]
        distinct = sorted(values.unique(), key=lambda value: (isinstance(value, str), value))
        if len(distinct) < 2:
            continue
        if pd.api.types.is_numeric_dtype(values):
            rank = {value: at / (len(distinct) - 1) for at, value in enumerate(distinct)}
            columns.append(values.map(rank).to_numpy(dtype=float))
        else:
            columns += [(values == value).to_numpy(dtype=float) for value in distinct]
    if not columns:
        raise DataError("all configurations are alike: there is nothing to learn from")
    return np.column_stack(columns)
