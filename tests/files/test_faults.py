"""Killed writers, full disks, no home, another locale: the old file or the new one, and the same answers."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

import perfkit as pk
from perfkit.base.files import data_frame
from perfkit.cli.output import draw, write_picture
from perfkit.cli.report import write
from perfkit.collectors.blocks.cycles import read_kept
from perfkit.errors import FormatError
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


def test_arrows_threads_are_given_nothing_of_pythons_that_a_process_could_end_before(monkeypatch, tmp_path):
    given = []
    for module, name in ((pyarrow, "BufferReader"), (pq, "ParquetFile")):
        call = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, call=call, **k: given.append(a[0]) or call(*a, **k))
    pk.read_samples(DUMP)
    pk.Trace.load(EXAMPLES[pk.Trace]().save(tmp_path / "a.trace"))
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1.5, 2.0]})
    frame.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(data_frame(tmp_path / "a.parquet"), frame)
    buffers = [source for source in given if not isinstance(source, Path)]
    assert buffers
    assert len(given) > len(buffers)
    assert all(source.is_mutable for source in buffers)  # Arrow's own; bytes of Python's cannot be written to
    assert not pyarrow.py_buffer(b"1").is_mutable


@dataclass
class Writer:
    """A writer that is not a result's `save`, called like one."""

    save: Callable[[Path], object]


def _notebook(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbconvert")

    write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("x" * 2000)]), path, "title")


def _picture(path: Path) -> None:
    draw(SimpleNamespace(plot=Figure), path)


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("report.ipynb", _notebook),
        ("report.html", _notebook),
        ("picture.png", _picture),
        ("picture.svg", _picture),
        ("roofs.png", lambda path: write_picture(Figure(), path, {})),
        ("blocks.csv", read_kept),
    ],
)
def test_what_commands_write_is_the_old_file_or_the_new_one(name, writes, tmp_path):
    path = tmp_path / name
    # The last line of a list of measured blocks is cut off, as by a kill: it is taken away.
    rows = "90,looped,1,1,1,4,\n" * 40 + "90,loo"
    path.write_text("# cycles of basic blocks measured on here\nblock,mode,value,low,high,pages,reason\n" + rows)
    assert faults.full_disk(Writer(writes), path) == ""
    before = path.read_bytes()
    writes(path)
    assert path.read_bytes() != before


LOADERS = (pk.SpireModel.load, pk.CpiFit.load, pk.Samples.load, pk.GusResult.load, pk.StudyRuns.from_parquet,
           pk.Study.from_yaml, pk.Analysis.from_yaml, pk.Microarchitecture.load, pk.Areas.load().extended)  # fmt: skip


@pytest.mark.parametrize("load", LOADERS)
def test_an_empty_file_is_told_as_one(tmp_path, load):
    path = tmp_path / "empty.toml"
    path.touch()
    with pytest.raises(FormatError, match=r"empty.toml: expected .*; the file is empty$"):
        load(path)


def test_bytes_that_are_no_text_are_told_in_words(tmp_path):
    path = tmp_path / "core.toml"
    path.write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(FormatError, match="its byte 13 is no text in UTF-8"):
        pk.Microarchitecture.load(path)
    with pytest.raises(FileNotFoundError, match=r"no such core file \(it is a folder\)"):
        pk.Microarchitecture.load(Path(tmp_path))
