"""How good a ranking is when it is known which of its items are right."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.errors import SettingError, expect


@dataclass(frozen=True)
class RankScore:
    """A ranking of n items against the m of them that are right.

    Attributes
    ----------
    n, right : int
        Items ranked, and how many of them are right.
    first : int
        Rank of the first right item, from 1; 0 where no ranked item is right.
    placement : float
        1 where a right item comes first, 0 where the right ones come last: (n - m + 1 - first) / (n - m). NaN where
        all items or none are right.
    tau : float
        Kendall's tau-b between the ranking and the items' gains: 1 in the order of falling gains, -1 reversed, 0 where
        they have nothing to do with each other. NaN without gains, or where all gains are alike.
    """

    n: int
    right: int
    first: int
    placement: float
    tau: float

    def hit(self, k: int) -> bool:
        """Whether a right item is among the first ``k``."""
        return 0 < self.first <= k

    def chance(self, k: int) -> float:
        """Return the probability of `hit` for a ranking in random order."""
        return chance_of_hit(self.n, self.right, k)

    @property
    def chance_placement(self) -> float:
        """The mean placement of rankings in random order (the first right item is at (n + 1) / (m + 1))."""
        if not 0 < self.right < self.n:
            return float("nan")
        first = (self.n + 1) / (self.right + 1)
        return (self.n - self.right + 1 - first) / (self.n - self.right)


def chance_of_hit(n: int, right: int, k: int) -> float:
    """Return the probability that k of n items, drawn at random, hold one of the right ones: 1 - C(n-m, k) / C(n, k).

    Examples
    --------
    >>> chance_of_hit(4, 1, 2)
    0.5
    """
    k = min(k, n)
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


def rank_score(ranked: Sequence[str], right: Collection[str], gains: Mapping[str, float] | None = None) -> RankScore:
    """Score a ranking, best item first.

    Parameters
    ----------
    ranked : sequence of str
        The items in the order that the method gives them.
    right : collection of str
        The items that are right; those that were not ranked do not count.
    gains : mapping, optional
        What each ranked item is worth, for tau.

    Raises
    ------
    SettingError
        Nothing was ranked, or an item twice.

    Examples
    --------
    >>> rank_score(["a", "b", "c"], {"b"}).first
    2
    >>> rank_score(["a", "b", "c"], {"b"}).placement
    0.5
    """
    for given in (ranked, right):
        expect(isinstance(given, Collection), given, "rank_score", "a ranking, and what is right of it", "list items")
    n = len(ranked)
    if n == 0 or len(set(ranked)) != n:
        raise SettingError(f"a ranking has at least one item and each once; found {n} of {len(set(ranked))} different")
    places = [k for k, item in enumerate(ranked, 1) if item in right]
    m = len(places)
    first = places[0] if places else 0
    placement = (n - m + 1 - first) / (n - m) if 0 < m < n else float("nan")
    return RankScore(n, m, first, placement, _tau([gains[item] for item in ranked]) if gains else float("nan"))


def _tau(gains: Sequence[float]) -> float:
    """Kendall's tau-b between the places 1..n and the gains, falling; NaN where all gains are alike."""
    g = np.asarray(gains, dtype=float)
    later = np.triu(np.ones((len(g), len(g)), dtype=bool), 1)
    order = np.sign(g[:, None] - g[None, :])[later]
    apart = int((order != 0).sum())
    if not apart:
        return float("nan")
    return float(order.sum() / math.sqrt(apart * len(order)))
