"""What every cross-validated result says: the mean of its folds' held-out scores, and their spread."""

import math

import numpy as np


class CrossValidated:
    """A result with `scores`, one per fold."""

    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """Mean of the folds' held-out scores."""
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """Standard deviation of the folds' held-out scores; NaN for a single fold."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else math.nan
