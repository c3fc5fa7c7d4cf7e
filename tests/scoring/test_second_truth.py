"""The second truth of the league: bottlenecks known by construction and measured by noise, beside what methods say."""

import importlib

import pandas as pd
import pytest

import perfkit as pk
from tests.scoring.test_bottlenecks_data import MAKE


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(MAKE))
    return importlib.import_module("second_truth")


def test_answers_agree_by_the_part_of_the_core_that_they_name(made):
    told = pd.DataFrame(
        {
            "kernel": ["a", "b", "c", "d"],
            "measured by noise": ["latency", "vector add", "none of these", "restarts"],
            "known": ["latency of caches", "", "", "mispredicted branches"],
            "by class": ["L2", "vector units", "L2", "reorder buffer"],
            "by resource": ["L1_latency", "latency of L2", "rob", "misprediction_penalty"],
        }
    )
    found = made.scores(told)
    assert found.loc["by class"].to_dict() == {"known": 1, "of": 2, "measured": 3, "of measured": 3}
    assert found.loc["by resource"].to_dict() == {"known": 2, "of": 2, "measured": 2, "of measured": 3}
    assert found.loc["noise, measured"].to_dict() == {"known": 2, "of": 2, "measured": 3, "of measured": 3}


def test_every_word_has_its_place(made):
    from perfkit.machine.classes import CLASSES

    assert {word for words in made.OF_CLASS.values() for word in words} == set(CLASSES)
    assert set(made.OF_NOISE) | {"bandwidth of memory"} == set(made.OF_CLASS)
    assert set(made.BUILT) == set(made.KERNELS)


def test_the_shipped_scores_are_of_the_shipped_answers(made):
    told = pk.datasets.load("second-truth/zen4").fillna("")
    noise = pk.datasets.load("second-truth/zen4-noise").set_index("kernel")["measured by noise"]
    assert told.attrs["kind"] == "measured"
    assert told.set_index("kernel")["measured by noise"].to_dict() == noise.to_dict()
    assert (told["known"] != "").sum() == len(made.BUILT)
    shipped = pk.datasets.load("second-truth/zen4-scores").set_index("method")
    pd.testing.assert_frame_equal(made.scores(told), shipped, check_dtype=False)
