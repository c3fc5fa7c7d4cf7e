"""One word for a source of samples."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import perfkit as pk
from perfkit.errors import FormatError, SettingError


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        lines = [
            f"{i}.000100200,{c},,{e},1000000,100.00,,"
            for i in (1, 2)
            for e, c in (("cycles", 10), ("instructions", 20), ("x", i))
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_data_sets_files_and_patterns(dumps: Path):
    assert pk.open_samples("spire/memory").kind == "generated"
    assert len(pk.open_samples(dumps / "a.csv").runs) == 1
    assert len(pk.open_samples(f"{dumps}/*.csv").runs) == 2
    assert len(pk.open_samples([dumps / "a.csv", dumps / "b.csv"]).runs) == 2


def test_patterns_relative_to_the_working_folder(dumps: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(dumps)
    assert len(pk.open_samples("*.csv").runs) == 2
    assert len(pk.open_samples("**/a.csv").runs) == 1


def test_time_and_work_can_be_chosen(dumps: Path):
    s = pk.open_samples("spire/memory", work_event="br_inst_retired.all_branches")
    assert s.work_event == "br_inst_retired.all_branches"
    assert s.time_event == "cpu_clk_unhalted.thread"
    assert pk.open_samples(dumps / "a.csv", work_event="x").work_event == "x"


def test_data_sets_and_dumps_with_other_units_are_not_mixed(dumps: Path):
    with pytest.raises(SettingError, match="time and work"):
        pk.open_samples(["spire/memory", dumps / "a.csv"])


def test_an_unknown_source_names_what_is_near(dumps: Path):
    """Data sets and files that look like it, and no others."""
    with pytest.raises(SettingError, match=r"neither a data set nor a file.* sets with the nearest names: spire/t"):
        pk.open_samples("spire/trian")
    (dumps / "counts.csv").write_text("")
    with pytest.raises(SettingError, match=r"\(looked in [^)]*\)\. Files there with the nearest names: counts.csv[,.]"):
        pk.open_samples(dumps / "count.csv")
    with pytest.raises(SettingError, match=r"\(looked in [^)]*\)\. `perfkit data` lists the data sets\.$"):
        pk.open_samples("nowhere/*.txt")


def test_no_source_is_an_error():
    with pytest.raises(SettingError, match="found none"):
        pk.open_samples([])


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_dumps_come_through_pipes(dumps: Path, name: str):
    program = "import sys; from perfkit.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "samples", name],
        input=(dumps / "a.csv").read_bytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"6 samples of 1 event in 2 intervals" in done.stdout


def test_a_named_pipe_is_a_source(dumps: Path):
    read, write = os.pipe()
    os.write(write, (dumps / "a.csv").read_bytes())
    os.close(write)
    assert pk.open_samples(f"/dev/fd/{read}").n_intervals == 2
    os.close(read)


def test_a_file_that_may_not_be_read_is_not_called_damaged(dumps: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FormatError, match=r"a\.csv: there is no permission to read it"):
        pk.read_samples(dumps / "a.csv")
