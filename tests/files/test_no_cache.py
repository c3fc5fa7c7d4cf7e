"""perfkit where nothing can be kept: installed by somebody else, without a home, or with one that is read-only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.base.files import give_compiled_code_a_place

ROOT = Path(__file__).resolve().parents[2]
# Root may write everywhere: that the package's folder cannot be written to is what os.access and numba are made to say.
_PROGRAM = """
import os, sys
access = os.access
os.access = lambda path, mode, **how: not (str(path).startswith(sys.argv[1]) and mode == os.W_OK) and access(path, mode)
import perfkit
from numba.core import caching
in_tree = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator
in_tree.from_function = classmethod(lambda *_: None)
from perfkit.fitters.machine_code import as_machine_code
from perfkit.fitters.spire.hull import turn
as_machine_code(turn)(0.0, 0.0, 1.0, 1.0, 2.0, 2.0)  # compiles, and keeps it
place = os.environ.get("NUMBA_CACHE_DIR", "")
print(place, os.path.isdir(place))
"""


def run(**environ):
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    said = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(ROOT / "perfkit")],
        capture_output=True,
        text=True,
        env=kept | environ,
        cwd=ROOT,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-1500:]
    return said.stdout.split()


@pytest.mark.parametrize("environ", [{"HOME": "/proc/none"}, {"XDG_CACHE_HOME": "/dev/null/cache", "HOME": "/tmp"}])
def test_compiled_code_gets_a_folder_that_goes_with_the_process(environ):
    place, there = run(**environ)
    assert there == "True"
    assert "perfkit-compiled-" in place
    assert not Path(place).exists()


def test_a_cache_that_can_be_written_is_used(tmp_path):
    assert run(HOME=str(tmp_path)) == ["False"]


def test_a_place_named_by_the_user_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
    assert give_compiled_code_a_place() == ""
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "own")
