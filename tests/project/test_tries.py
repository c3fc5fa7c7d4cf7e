"""Tests that measure are tried three times; only evidence of a busy machine turns their last failure into a skip."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tries import OTHERS, Neighbours, evidence

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("errors", "share", "found"),
    [
        ([("AssertionError", "assert 1.3 < 1.05")], 0.0, None),
        ([("AssertionError", "assert 1.3 < 1.05")], OTHERS, "others took 25%"),
        ([("TypeError", "a mistake of ours")], 0.9, None),
        ([("AssertionError", "1.3"), ("KeyError", "at the end")], 0.9, None),
        ([("UnavailableError", "this machine is too busy to measure cycles")], 0.0, "refused"),
        ([("PerfkitWarning", "38% ran beside a busy thread"), ("TypeError", "a mistake of ours")], 0.0, None),
    ],
)
def test_what_counts_as_evidence(errors, share, found):
    reason = evidence(errors, share)
    assert reason is None if found is None else found in reason


def test_the_share_of_others_by_hand(tmp_path, monkeypatch):
    """Of 100 seconds on all processors, others use 30, 10 are stolen, and 20 are this process's own."""
    stat = tmp_path / "stat"
    own = iter([(1.0, 0.0, 0.0, 0.0), (11.0, 4.0, 3.0, 3.0)])
    monkeypatch.setattr("os.times", lambda: next(own))
    monkeypatch.setattr("os.sysconf", lambda _: 1)
    stat.write_text("cpu 100 0 0 1000 0 0 0 0 0 0\n")
    neighbours = Neighbours(stat)
    stat.write_text("cpu 140 5 5 1035 5 0 0 10 0 0\n")
    assert neighbours.share() == pytest.approx(0.40)


TESTS = """
import itertools, pytest
from pathlib import Path
import tests.tries

tests.tries.PAUSES = (0.0, 0.0)
count = itertools.count(1)

@pytest.fixture(autouse=True)
def neighbours(request):  # looked at after the test's end, and so not undone
    busy = "beside_neighbours" in request.node.name
    tests.tries.Neighbours.share = lambda self: 0.9 if busy else 0.0
    tests.tries.crowded = lambda: 0.5 if "beside_a_thread" in request.node.name else 0.0

@pytest.mark.measures
def test_third_time():
    assert next(count) == 3

@pytest.mark.measures
def test_wrong():
    assert False, "wrong on a quiet machine"

@pytest.mark.measures
def test_refused():
    raise RuntimeError("this machine is too busy to measure")

@pytest.mark.measures
def test_noise_beside_neighbours():
    assert next(count) < 0

@pytest.mark.measures
def test_noise_beside_a_thread():
    assert next(count) < 0

@pytest.mark.measures
def test_a_fault_beside_neighbours():
    assert "this" == "that"

@pytest.mark.browser
def test_a_page_is_wrong_twice():
    assert "this" == "that"

@pytest.mark.browser
def test_a_page_is_wrong_in_other_words():
    assert next(count) < 0

def test_unmarked():
    raise RuntimeError("too busy, but no measurement")
"""


def test_marked_tests_are_tried_again_and_others_are_not(tmp_path):
    path = tmp_path / "test_made.py"
    path.write_text(TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.tries", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path,
         "-p", "no:cacheprovider", "-rsfE", path],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "5 failed, 1 passed, 3 skipped" in run.stdout, run.stdout + run.stderr
    assert re.search(r"SKIPPED .*too busy in 3 tries .*refused to measure.*: RuntimeError", run.stdout), run.stdout
    assert run.stdout.count("tried again") == 2 * 7 + 1
    assert len(re.findall(r"wrong_twice.*tried again", run.stdout)) == 1
    assert re.search(r"SKIPPED .*50% of samples right after it ran beside a busy hardware thread", run.stdout), (
        run.stdout
    )
    assert "FAILED" in run.stdout
    assert re.search(r"FAILED .*test_a_fault_beside_neighbours", run.stdout)
    assert "wrong on a quiet machine" in run.stdout


@pytest.mark.parametrize(("workers", "ended"), [("0", "1 passed"), ("1", "1 failed")])
def test_what_measures_for_words_is_tried_once_beside_other_workers(tmp_path, workers, ended):
    """Other workers would pass for neighbours, and excuse it; alone it is tried again, as all that measures."""
    path = tmp_path / "test_made.py"
    path.write_text(TESTS.partition("@pytest.mark.measures")[0] + "@pytest.mark.words\n@pytest.mark.measures\n"
                    "def test_second_time():\n    assert next(count) == 2\n")  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.tries", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path,
         "-p", "no:cacheprovider", "-n", workers, path],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended in run.stdout.splitlines()[-1], run.stdout + run.stderr
