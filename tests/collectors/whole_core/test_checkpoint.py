"""What is kept while a core is measured: it goes on after an interruption, and refuses what is not its own."""

from pathlib import Path

import pytest

from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.errors import FormatError, UnavailableError

HOST = {"processor": "a processor", "family": 25, "model": 17}


def test_figures_are_there_again(tmp_path: Path):
    path = tmp_path / "a folder" / "host.toml.partial"
    path.parent.mkdir()
    with Checkpoint(path, HOST) as kept:
        kept.add("1 ADD #0", 0.25)
        kept.add("1 UD #0", None)
    with Checkpoint(path, HOST) as kept:
        assert kept.known == {"1 ADD #0": 0.25, "1 UD #0": None}
        kept.add("1 ADD #1", 0.26)
    with Checkpoint(path, HOST) as kept:
        assert len(kept.known) == 3


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path):
    path = tmp_path / "partial"
    with Checkpoint(path, HOST) as kept:
        kept.add("one", 1.0)
        kept.add("two", 2.0)
    path.write_bytes(path.read_bytes()[:-4])
    with Checkpoint(path, HOST) as kept:
        assert kept.known == {"one": 1.0}
        kept.add("three", 3.0)
    with Checkpoint(path, HOST) as kept:
        assert kept.known == {"one": 1.0, "three": 3.0}


@pytest.mark.parametrize("line", ["{", '["one"]', '["one", "1.0"]', '["one", -1]', '["one", NaN]', "[1, 1.0]", "7"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str):
    path = tmp_path / "partial"
    with Checkpoint(path, HOST) as kept:
        kept.add("one", 1.0)
    path.write_text(path.read_text() + line + '\n["two", 2.0]\n')
    with pytest.raises(FormatError, match=r"line 3.*damaged; remove it"), Checkpoint(path, HOST):
        pass


def test_another_host_or_file_is_refused(tmp_path: Path):
    path = tmp_path / "partial"
    with Checkpoint(path, {**HOST, "model": 1}) as kept:
        kept.add("one", 1.0)
    with pytest.raises(FormatError, match="another host"), Checkpoint(path, HOST):
        pass
    for other in (b"\x89PNG\xff", b"schema = 1\n"):
        path.write_bytes(other)
        with pytest.raises(FormatError, match="not a checkpoint"), Checkpoint(path, HOST):
            pass
        assert path.read_bytes() == other, "what is not ours stays as it is"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said():
    with pytest.raises(UnavailableError, match="no space left"), Checkpoint(Path("/dev/full"), HOST):
        pass


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "partial"

    class Full:
        """A file of which the disk takes four bytes more."""

        def __init__(self, file):
            self.file = file

        def write(self, data: bytes) -> int:
            return self.file.write(data[:4])

        def close(self) -> None:
            self.file.close()

    with Checkpoint(path, HOST) as kept:
        kept.add("one", 1.0)
        monkeypatch.setattr(kept, "_file", Full(kept._file))
        with pytest.raises(UnavailableError, match="goes on"):
            kept.add("two", 2.0)
    with Checkpoint(path, HOST) as kept:
        assert kept.known == {"one": 1.0}
