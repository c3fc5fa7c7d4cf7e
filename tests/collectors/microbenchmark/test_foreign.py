"""Kernels written for PolyBench and MARTA, measured without touching their C (own work, in their style)."""

import shutil
from pathlib import Path

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.study.study import Study

HERE = Path(__file__).parent / "foreign"
pytestmark = pytest.mark.measures
POLICY = "policy: {repetitions: 3, passes: 1, attempts: 3, windows: 3}\n"


def collected(path, *more_notes):
    table = Microbenchmark(jobs=1).collect(Study.from_yaml(path)).table
    notes = ("work in fewer than", "work in some", "interrupts meet each of so long", *more_notes)  # as they are long
    assert [told for told in table["message"] if told and not told.startswith(notes)] == []
    return table


def test_polybench_kernels_are_a_study(tmp_path):
    """Timed is the kernel alone: atax grows with the square of its size, gemm with the third power."""
    shutil.copytree(HERE, tmp_path / "pb")
    (tmp_path / "s.yaml").write_text(
        "sources: ['pb/{NAME}.c']\nlibraries: [m]\ndimensions: {NAME: [gemm, atax], SIZE: [40, 160]}\n"
        "flags: ['-O1 -DPOLYBENCH_NO_FLUSH_CACHE']\n" + POLICY
    )
    time = collected(tmp_path / "s.yaml").set_index(["NAME", "SIZE"])["cycles"]
    assert 30 < time["gemm", 160] / time["gemm", 40] < 130
    assert 8 < time["atax", 160] / time["atax", 40] < 40


def test_the_originals_timer_marks_the_region_too(tmp_path):
    """A study that brings PolyBench's own header and timer, whose calls of another file are what is timed."""
    shutil.copytree(HERE, tmp_path / "pb")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "polybench.h").write_text(
        "#include_next <polybench.h>\n#undef polybench_timer_start\n#undef polybench_timer_stop\n"
        "#undef polybench_start_instruments\n#undef polybench_stop_instruments\n"
        "void polybench_timer_start(void);\nvoid polybench_timer_stop(void);\n"
        "#define polybench_start_instruments polybench_timer_start();\n"
        "#define polybench_stop_instruments polybench_timer_stop();\n"
    )
    (tmp_path / "own" / "timer.c").write_text("int calls; void polybench_timer_start(void) { calls++; }\n"
                                              "void polybench_timer_stop(void) { calls--; }\n")  # fmt: skip
    (tmp_path / "s.yaml").write_text(
        "sources: [pb/gemm.c, own/timer.c]\ninclude: [own]\nregion: [polybench_timer_start, polybench_timer_stop]\n"
        "dimensions: {SIZE: [40, 160]}\nflags: ['-O1']\n" + POLICY
    )
    time = collected(tmp_path / "s.yaml").set_index("SIZE")["cycles"]
    assert 30 < time[160] / time[40] < 130


def test_martas_gather_as_the_paper_prints_it(tmp_path):
    shutil.copytree(HERE, tmp_path / "marta")
    (tmp_path / "s.yaml").write_text(
        "kernel: marta/gather_kernel.c\nflags: ['-O2 -mavx2']\nexpect: {vgatherdps: 1}\n"
        "dimensions: {IDX0: [0], IDX1: [1, 16], IDX2: [2], IDX3: [3], IDX4: [4], IDX5: [5], IDX6: [6], IDX7: [7],"
        " N: [1024], OFFSET: [0], TSTEPS: [1000, 10000]}\n" + POLICY
    )
    waits_for_flushed_memory_differ = ("its windows take", "rare executions take", "later executions take")
    table = collected(tmp_path / "s.yaml", *waits_for_flushed_memory_differ).groupby("TSTEPS")["cycles"].min()
    assert 4 < table[10_000] / table[1000] < 12  # the first one waits for the flushed line
