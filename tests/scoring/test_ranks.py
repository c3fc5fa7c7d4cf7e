"""Scores of rankings with known answers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from perfkit.errors import SettingError
from perfkit.scoring import rank_score

ITEMS = ["a", "b", "c", "d"]
GAINS = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}


def test_a_perfect_ranking_scores_one_and_a_reversed_one_lowest():
    best = rank_score(ITEMS, {"a"}, GAINS)
    assert (best.first, best.placement, best.tau, best.hit(1)) == (1, 1.0, 1.0, True)
    worst = rank_score(ITEMS[::-1], {"a"}, GAINS)
    assert (worst.first, worst.placement, worst.tau, worst.hit(3)) == (4, 0.0, -1.0, False)


def test_the_last_places_that_several_right_items_can_have_are_the_lowest_score():
    assert rank_score(ITEMS, {"c", "d"}).placement == 0.0
    assert rank_score(ITEMS, {"b", "d"}).placement == 0.5
    assert rank_score(ITEMS, {"a", "d"}).placement == 1.0


def test_chance_is_the_mean_over_all_orders():
    right = {"b", "d"}
    found = [rank_score(order, right) for order in itertools.permutations(ITEMS)]
    for k in (1, 2, 3, 4):
        assert found[0].chance(k) == pytest.approx(sum(s.hit(k) for s in found) / len(found))
    assert found[0].chance_placement == pytest.approx(sum(s.placement for s in found) / len(found))
    assert found[0].chance(99) == 1.0


def test_no_right_item_is_never_a_hit():
    score = rank_score(ITEMS, {"z"})
    assert (score.first, score.right, score.hit(4), score.chance(4)) == (0, 0, False, 0.0)
    assert score.placement != score.placement  # NaN
    assert rank_score(ITEMS, set(ITEMS)).placement != 1


def test_gains_that_are_all_alike_order_nothing():
    assert str(rank_score(ITEMS, {"a"}, dict.fromkeys(ITEMS, 1.0)).tau) == "nan"


@given(st.lists(st.integers(0, 4), min_size=2, max_size=12))
def test_tau_is_kendalls(gains):
    names = [str(k) for k in range(len(gains))]
    found = rank_score(names, set(), dict(zip(names, map(float, gains), strict=True))).tau
    if len(set(gains)) == 1:
        assert found != found
    else:
        assert found == pytest.approx(kendalltau(range(len(gains), 0, -1), gains).statistic)


@pytest.mark.parametrize("ranked", [[], ["a", "a"]])
def test_a_ranking_names_each_item_once(ranked):
    with pytest.raises(SettingError, match="at least one item and each once"):
        rank_score(ranked, {"a"})
