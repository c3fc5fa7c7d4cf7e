"""The locks: no name in a shared folder that another user can take first."""

import tempfile

import pytest

from perfkit.collectors.microbenchmark import lock
from perfkit.diagnosis import gate
from perfkit.errors import UnavailableError


def test_the_lock_lies_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    with lock.measuring_lock(), gate._alone(tmp_path / "baselines.json"):
        (made,) = tmp_path.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    for held in (lock.measuring_lock(), gate._alone(tmp_path / "baselines.json")):
        with pytest.raises(UnavailableError, match="only this user can write to"), held:
            pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "measuring.lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), lock.measuring_lock(tmp_path / "measuring.lock"):
        pass
    assert precious.read_text() == "kept"
