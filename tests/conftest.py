"""What holds for every test: a spoilt measurement is tried again, and said so; no test leaves pictures open."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tries import MARKS, pytest_runtest_makereport, pytest_runtest_protocol

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See that each file names its tests' marks: `./kit test` finds the files of a mark by that."""
    texts: dict[Path, str] = {}
    for item in items:
        for mark in (*MARKS, "words"):
            if item.get_closest_marker(mark) and f"mark.{mark}" not in texts.setdefault(
                item.path, item.path.read_text()
            ):
                raise pytest.UsageError(
                    f"{item.nodeid} has the mark {mark}, which its file does not name (mark.{mark})"
                )


def pytest_collection_finish() -> None:
    gc.freeze()  # 14,000 tests, which each collection of garbage went through: 3 % of the time of what follows


@pytest.fixture(autouse=True)
def _pictures_closed() -> Iterator[None]:
    # pyplot warns from the 21st open picture on, which may be another test's than those that left them.
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
