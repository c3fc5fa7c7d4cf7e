"""A forest of regression trees as plain arrays: learnt with scikit-learn, saved without pickle, applied with NumPy."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import existing, replaced
from perfkit.errors import FormatError, UnavailableError

_FORMAT = "perfkit-forest-1"
_FIELDS = ("roots", "feature", "threshold", "child", "value", "features", "outputs", "levels", "prior", "digest")
VENDORS = ("Intel", "AMD")
"""Whose processors' own events have a calibration of their own, in the order of `Forest.real`."""


def _as_voted() -> NDArray[np.float64]:
    return np.tile([[0.0, 1.0], [0.0, 1.0]], (len(VENDORS), 1, 1))


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees one behind the other.

    Attributes
    ----------
    roots : (trees + 1,) int32
        First node of each tree, and the end.
    feature : (nodes,) int16
        Which feature a node asks for, -1 for a leaf.
    threshold : (nodes,) float32
        At most this goes left: to the next node.
    child : (nodes,) int32
        The node to the right, within its tree; of a leaf, its row of ``value``.
    value : (leaves, outputs) float16
        What each leaf predicts.
    features, outputs : (k,) text
        Their names.
    levels : (2, k) float64
        Calibration: the share of trees that name an output first, and the probability that it is right.
    prior : (outputs,) float64
        How often each output is the largest in training.
    digest : text
        Of the data that it was trained on.
    real : (vendors, 2, k) float64
        As ``levels``, of runs seen by the events that processors of each of `VENDORS` have, all counted; the shares of
        trees themselves where nothing else was learnt.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    child: NDArray[np.int32]
    value: NDArray[np.float16]
    features: NDArray[np.str_]
    outputs: NDArray[np.str_]
    levels: NDArray[np.float64]
    prior: NDArray[np.float64]
    digest: NDArray[np.str_]
    real: NDArray[np.float64] = field(default_factory=_as_voted)

    def leaves(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return which row of ``value`` each tree gives each row, shape (trees, rows)."""
        found = np.empty((len(self.roots) - 1, len(x)), dtype=np.int64)
        rows = np.arange(len(x))
        for t, root in enumerate(self.roots[:-1].astype(np.int64)):
            at = np.full(len(x), root)
            while True:
                asked = self.feature[at]
                inner = asked >= 0
                if not inner.any():
                    break
                left = x[rows, np.maximum(asked, 0)] <= self.threshold[at]
                at = np.where(inner, np.where(left, at + 1, root + self.child[at]), at)
            found[t] = self.child[at]
        return found

    def each(self, x: NDArray[np.float32]) -> Iterator[NDArray[np.float64]]:
        """Yield what each tree predicts, (rows, outputs)."""
        for leaf in self.leaves(x):
            yield self.value[leaf].astype(np.float64)

    def predict(
        self, x: NDArray[np.float32], out: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean prediction, and the share of trees that name each output first, both (rows, outputs).

        No tree names an output that is ``out`` (rows, outputs) first: it names its next one.
        """
        mean, votes = np.zeros((len(x), len(self.outputs))), np.zeros((len(x), len(self.outputs)))
        rows = np.arange(len(x))
        for value in self.each(x):
            mean += value
            votes[rows, (value if out is None else np.where(out, -1.0, value)).argmax(axis=1)] += 1.0
        return mean / (len(self.roots) - 1), votes / (len(self.roots) - 1)

    def probability(self, votes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the calibrated probability of being right for shares of votes."""
        return np.interp(votes, self.levels[0], self.levels[1])

    def real_probability(self, votes: NDArray[np.float64], vendor: str) -> NDArray[np.float64]:
        """Return the same where all events were counted that the vendor's processor has, and others are missing."""
        return np.interp(votes, *self.real[VENDORS.index(vendor)]) if vendor in VENDORS else votes

    def save(self, path: str | Path) -> Path:
        """Write the arrays."""
        with replaced(path, ".npz") as temporary, temporary.open("wb") as file:
            arrays = {name: getattr(self, name) for name in (*_FIELDS, "real")}
            np.savez_compressed(file, format=np.array(_FORMAT), **arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Forest":
        """Read what `save` wrote; FormatError where it is something else."""
        try:
            with np.load(existing(path), allow_pickle=False) as found:
                if str(found["format"]) != _FORMAT:
                    raise FormatError(f"{path}: expected {_FORMAT}, found {found['format']}")
                return cls(**{name: found[name] for name in (*_FIELDS, "real") if name in _FIELDS or name in found})
        except (ValueError, KeyError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise FormatError(
                f"{path}: expected a forest that Forest.save wrote; it cannot be read: {error}"
            ) from error


def learn(
    x: NDArray[np.float32],
    y: NDArray[np.float64],
    *,
    features: tuple[str, ...],
    outputs: tuple[str, ...],
    trees: int = 60,
    leaf: int = 4,
    seed: int = 0,
    workers: int = 2,
) -> Forest:
    """Learn a forest (extremely randomised trees, Geurts et al. 2006), not calibrated yet.

    Raises
    ------
    UnavailableError
        scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import ExtraTreesRegressor
    except ImportError as error:
        raise UnavailableError("learning needs scikit-learn: pip install 'perfkit[studies]'") from error
    model = ExtraTreesRegressor(
        trees, min_samples_leaf=leaf, max_features=0.5, n_jobs=workers, random_state=seed
    ).fit(x, y)  # fmt: skip
    parts = [_flat(tree.tree_) for tree in model.estimators_]
    before = np.cumsum([0, *(len(part[3]) for part in parts)])
    child = [np.where(part[0] < 0, part[2] + before[k], part[2]) for k, part in enumerate(parts)]
    return Forest(
        np.cumsum([0, *(len(part[0]) for part in parts)]).astype(np.int32),
        np.concatenate([part[0] for part in parts]).astype(np.int16),
        np.concatenate([part[1] for part in parts]).astype(np.float32),
        np.concatenate(child).astype(np.int32),
        np.concatenate([part[3] for part in parts]).astype(np.float16),
        np.array(features),
        np.array(outputs),
        np.array([[0.0, 1.0], [0.0, 1.0]]),
        np.bincount(y.argmax(axis=1), minlength=len(outputs)) / len(y),
        np.array(""),
    )


def _flat(tree: Any) -> tuple[NDArray[Any], ...]:
    """Return feature, threshold, right child or leaf, and the leaves' values of a tree whose left child comes next."""
    leaf = tree.children_left < 0
    feature = np.where(leaf, -1, tree.feature)
    number = np.cumsum(leaf) - 1
    return feature, tree.threshold, np.where(leaf, number, tree.children_right), tree.value[leaf, :, 0]
