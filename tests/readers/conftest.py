"""Where the readers' tests find their files."""

from pathlib import Path

import pytest

import perfkit as pk

FIXTURES = Path(__file__).parent / "fixtures"
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "perf"


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def shared_perf() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the real perf dumps beside the project (../shared/data/perf) are not here")
    return SHARED


@pytest.fixture
def read(tmp_path):
    """Read a text as a dump."""

    def opened(text, **asked):
        path = tmp_path / "dump.txt"
        path.write_text(text)
        return pk.read_samples(path, **asked)

    return opened
