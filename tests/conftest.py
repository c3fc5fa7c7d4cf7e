"""What holds for every test: a spoilt measurement is tried again, and said so; no test leaves pictures open."""

import sys
from collections.abc import Iterator

import pytest

from tests.tries import pytest_runtest_makereport, pytest_runtest_protocol

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]


@pytest.fixture(autouse=True)
def _pictures_closed() -> Iterator[None]:
    # pyplot warns from the 21st open picture on, which may be another test's than those that left them.
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
