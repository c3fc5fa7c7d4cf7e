"""What every cross-validated result says: the mean of its folds' held-out scores, and their spread."""

import math

import numpy as np

ONE_CATEGORY = (
    "only one category was found, so that there is nothing to tell apart; a regression learns the target itself"
)


class CrossValidated:
    """A result with `scores`, one per fold, beside the `baseline` of a guess that looks at nothing."""

    scores: tuple[float, ...]
    baseline: float

    @property
    def score(self) -> float:
        """Mean of the folds' held-out scores."""
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """Standard deviation of the folds' held-out scores; NaN for a single fold."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else math.nan

    @property
    def beats_guessing(self) -> bool:
        """Whether the score lies over the baseline by more than two standard errors of its mean over the folds."""
        return self.score - self.baseline > 2 * self.spread / math.sqrt(len(self.scores))

    @property
    def only_one_category(self) -> bool:
        """Whether all rows are of one category: there is nothing to tell apart, well or badly."""
        return self.baseline == 1

    def _against_guessing(self, what: str = "") -> str:
        return "" if self.beats_guessing else f"; not shown to be better than guessing{what}"


class ToldCategories(CrossValidated):
    """A cross-validated result that tells categories: `confusion` counts held-out rows, true ones by told ones."""

    classes: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]

    @property
    def missed(self) -> tuple[str, ...]:
        """The categories of which fewer than half of the held-out rows were told right, each with its counts.

        A good score hides them where most rows are in other categories.
        """
        rows = (
            (label, row[k], sum(row)) for k, (label, row) in enumerate(zip(self.classes, self.confusion, strict=True))
        )
        return tuple(f"{label} ({right} of {total})" for label, right, total in rows if 2 * right < total)

    def _told_badly(self) -> str:
        return f"\nfewer than half told right: {', '.join(self.missed)}" if self.missed else ""
