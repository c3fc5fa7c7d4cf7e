"""Whatever is asked of a file that is not there says FileNotFoundError, in perfkit's own words."""

import pytest

import perfkit as pk
from perfkit.collectors import Tracer, compile_kernel
from perfkit.collectors.host.sides import kernel_from
from perfkit.diagnosis.gate import Gate
from perfkit.errors import PerfkitError, SettingError
from perfkit.fitters.studies.analysis import Analysis
from perfkit.study.study import Study

TAKERS = {
    "read_samples": pk.read_samples,
    "open_samples": pk.open_samples,
    "a fleet": lambda path: pk.open_samples(path, memory=False),
    "explore": pk.explore,
    "diff_counts": lambda path: pk.diff_counts(path, path),
    "a core": lambda path: pk.Microarchitecture.load(f"{path}.toml"),
    "a core of DAGs": lambda path: pk.DagCore.load(f"{path}.toml"),
    "a calibration": lambda path: pk.calibrated_core(pk.Microarchitecture.load("zen4"), path),
    "areas": lambda path: pk.Areas.load().extended(path),
    "a study": Study.from_yaml,
    "an analysis": Analysis.from_yaml,
    "the table of an analysis": lambda path: pk.Analysis(input=(str(path),)).run(),
    "a trace": pk.Trace.load,
    "a DAG": pk.Dag.load,
    "why": pk.why,
    "a program to record": lambda path: Tracer().run(path, "f"),
    "a program to add noise to": lambda path: pk.Noise().run_program(path, "f"),
    "a source to compile": lambda path: compile_kernel(f"{path}.c"),
    "a source to trace": lambda path: pk.trace_c(f"{path}.c", "f"),
    "a side to compare": lambda path: kernel_from(str(path)),
    "a gate": lambda path: Gate(str(path)).measure(),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_file_that_is_not_there_is_told_as_such(taker, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        TAKERS[taker](tmp_path / "nowhere")
    assert isinstance(caught.value, PerfkitError)


def test_one_of_two_dumps_that_is_there_and_cannot_be_read_is_not_missing(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(SettingError, match=r"nowhere.*empty\.txt") as caught:
        pk.explore([tmp_path / "nowhere", tmp_path / "empty.txt"])
    assert not isinstance(caught.value, FileNotFoundError)
