"""Files that programs are given as arguments: a row belongs to one state of those that it reads, not of others."""

import json

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.inputs import Inputs
from perfkit.errors import PerfkitWarning, SettingError
from perfkit.study.study import Study

PROGRAM = """#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    long n = 0;
    FILE *in = fopen(strchr(argv[1], '/'), "r");
    if (!in || fscanf(in, "%ld", &n) != 1) return 1;
    fclose(in);
    if (argc > 2) {
        FILE *out = fopen(argv[2], "w");
        fprintf(out, "%ld", n);
        fclose(out);
    }
    for (long i = 0; i < n * N; i++) __asm__ volatile("imul %%rax, %%rax" : : : "rax");
    return 0;
}
"""
QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}


def program(folder, values, *arguments, **how):
    study = Study(PROGRAM, {"N": values}, program=True, arguments=arguments, policy=QUICK)
    return Microbenchmark(folder=folder, jobs=1, **how).collect(study).table


def watched(folder):
    """Return the arguments' files among those that rows belong to."""
    return {path for path in json.loads((folder / "metadata.json").read_text())["files"] if path.endswith(".txt")}


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("option", ["", "--input=", "-i"])
def test_a_study_does_not_go_on_with_another_input(tmp_path, option):
    """A stranger's: rows of 20,000 numbers and of 200 stood in one table."""
    read, folder = tmp_path / "in.txt", tmp_path / "out"
    read.write_text("20000")
    assert program(folder, [1], f"{option}{read}")["cycles"].iloc[0] > 50_000
    assert watched(folder) == {str(read)}
    assert len(program(folder, [1, 2], f"{option}{read}")) == 2  # as it was: goes on
    read.write_text("200")
    with pytest.raises(
        SettingError, match=r"input .*in.txt has changed since rows of .*: put it back, or name another"
    ):
        program(folder, [1, 2, 3], f"{option}{read}")
    read.write_text("20000")
    assert len(program(folder, [1, 2, 3], f"{option}{read}")) == 3


@pytest.mark.measures
@pytest.mark.words
def test_rows_that_are_spread_belong_to_their_input_too(tmp_path):
    read, folder = tmp_path / "in.txt", tmp_path / "out"
    read.write_text("20000")
    program(folder, [1], str(read), spread=True)
    assert watched(folder) == {str(read)}
    read.write_text("200")
    with pytest.raises(SettingError, match=r"input .*in.txt has changed since rows of"):
        program(folder, [1, 2], str(read), spread=True)


@pytest.mark.measures
@pytest.mark.words
def test_a_file_that_the_program_writes_may_change(tmp_path):
    read, written, folder = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "out"
    read.write_text("20000")
    with pytest.warns(PerfkitWarning, match=r"out.txt, an argument of the program, changed while it ran"):
        program(folder, [1], str(read), str(written))
    written.write_text("other")
    assert len(program(folder, [1, 2], str(read), str(written))) == 2
    written.unlink()
    assert len(program(folder, [1, 2, 3], str(read), str(written))) == 3
    assert watched(folder) == {str(read)}
    assert json.loads((folder / "metadata.json").read_text())["written"] == [str(written)]


def noted(folder, *arguments):
    """Return what looks at the files of a study, and the metadata that it notes them in."""
    study = Study(PROGRAM, {"N": [1, 2]}, program=True, arguments=arguments)
    todo = [(one, f"N={one.values['N']}") for one in study.configurations()]
    return Inputs(study, todo), {"files": {}, "written": []}


def test_an_input_that_changes_while_it_is_measured_ends_the_study(tmp_path):
    (tmp_path / "1.txt").write_text("1")
    (tmp_path / "2.txt").write_text("2")
    inputs, metadata = noted(tmp_path, f"{tmp_path}/{{N}}.txt")
    assert inputs.note("N=1", metadata)
    assert not inputs.note("N=1", metadata)
    assert metadata["files"].keys() == {f"{tmp_path}/1.txt"}
    (tmp_path / "1.txt").write_text("1")  # written again: the same
    assert not inputs.note("N=1", metadata)
    (tmp_path / "1.txt").write_text("10")
    with pytest.raises(SettingError, match=r"1.txt, an argument of the program, has changed while it was measured"):
        inputs.note("N=1", metadata)
    assert inputs.note("N=2", metadata)


@pytest.mark.parametrize("word", ["1.txt", "data/1.txt", "/dev/null", "{N}", "https://1.txt", "", "/nowhere/1.txt"])
def test_words_that_name_no_file_are_no_inputs(tmp_path, word, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "1.txt").write_text("1")
    inputs, metadata = noted(tmp_path, word, str(tmp_path))
    assert not inputs.note("N=1", metadata)
    assert inputs.read_by("N=1") == {}
    assert metadata == {"files": {}, "written": []}


def test_rows_from_elsewhere_tell_what_they_read(tmp_path):
    read, written = tmp_path / "in.txt", tmp_path / "out.txt"
    read.write_text("1")
    inputs, _ = noted(tmp_path, str(read), str(written))
    written.write_text("1")
    found = inputs.read_by("N=1")
    assert found == {str(read): "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"}  # sha256sum's
