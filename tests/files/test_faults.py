"""Killed writers, full disks, no home, another locale: the old file or the new one, and the same answers."""

import os
import random
import subprocess
import sys
from pathlib import Path

import perfkit as pk
from tests.benchmarks import faults
from tests.results.examples import EXAMPLES

ROOT = Path(__file__).parents[2]
DUMP = ROOT / "tests/readers/dialects/wide-plain.txt"


class InPlace:
    """A result that is written in place, slowly: what the check must find."""

    def save(self, path):
        path = Path(path)
        with path.open("w") as file:
            for i in range(2000):
                file.write(f"{i}\n")
                file.flush()
        return path

    @classmethod
    def load(cls, path):
        if len(Path(path).read_text().split()) != 2000:
            raise OSError("a part of a file")


def test_a_writer_in_place_is_found(tmp_path):
    path = InPlace().save(tmp_path / "x.json")
    assert faults.full_disk(InPlace(), path) == "the old file is gone"
    InPlace().save(path)
    assert "a part of a file" in faults.killed(InPlace(), path, 200, random.Random(1))


def test_killed_writers_and_full_disks_leave_whole_files(tmp_path):
    for cls in (pk.Samples, pk.CpiFit, pk.SpireModel, pk.Trace):
        result = EXAMPLES[cls]()
        path = faults.saved(result, tmp_path / cls.__name__) if (tmp_path / cls.__name__).mkdir() is None else None
        assert path is not None
        assert faults.full_disk(result, path) == ""
        assert faults.killed(result, path, 4, random.Random(2)) == ""
        assert cls.load(path) is not None


READ = """
import sys
import numpy as np, perfkit as pk
from perfkit.readers.compiled import parse_numbers
out = np.empty((2, 1))
parse_numbers(np.frombuffer(b"12,3.5\\n", dtype="uint8"), 44, np.arange(2), out)
print(out.ravel().tolist(), pk.read_samples(sys.argv[1]).throughput())
"""


def read_elsewhere(**environment):
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'widgets'}", "HOME": "/nonexistent", **environment}
    return subprocess.Popen([sys.executable, "-c", READ, str(DUMP)], env=env, stdout=subprocess.PIPE, text=True)


def test_two_processes_fill_an_empty_cache_at_once_without_a_home_and_in_another_locale(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    both = [read_elsewhere(**cache), read_elsewhere(**cache, LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8")]
    told = [p.communicate(timeout=300)[0] for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert told[0] == told[1] == f"[12.0, 3.5] {pk.read_samples(DUMP).throughput()}\n"
    assert any((tmp_path / "cache").rglob("*.nbi"))
