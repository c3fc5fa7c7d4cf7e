"""What holds for every test: a measurement or a browser that a busy neighbour spoilt is tried again, and said so."""

from tests.tries import pytest_runtest_makereport, pytest_runtest_protocol

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol"]
