"""The readers' fixtures, for the tests of files."""

from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "readers" / "fixtures"


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES
