"""perfkit trace: programs, C files and the corpus, from the command line."""

import json
import subprocess
from pathlib import Path

import pytest

from perfkit.trace.threads import ThreadTraces
from perfkit.trace.trace import Trace


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(
        "#include <stdlib.h>\n__attribute__((noipa)) long work(long n) { volatile long s = 0;"
        "for (long i = 0; i < n; i++) s += i; return s; }\n"
        "int main(int c, char **v) { return work(atoi(v[1])) & 127; }\n"
    )
    subprocess.run(["gcc", "-O1", "-o", folder / "p", folder / "p.c"], check=True)
    return folder / "p"


def test_a_program(perfkit, program, tmp_path):
    told = perfkit("trace", program, "--function", "work", "-o", "w.trace", "--", 30)
    assert " instructions, " in told
    assert Path("w.trace").is_file()
    assert "backend: cloner (x86-64 code that can be copied)" in told
    trace = Trace.load(tmp_path / "w.trace")
    assert trace.block_counts().max() in (30, 31)
    assert trace.provenance.command == "p 30"
    told = perfkit("trace", program, "-f", "work", "--limit", "50", "--", 30)
    assert "incomplete: limit of 50 instructions" in told
    assert (tmp_path / "work.trace").exists()


def test_modules_of_the_users_own_are_not_taken_for_pythons(perfkit, program, tmp_path):
    """A student's folder holds random.py and queue.py: what the tracer starts does not import them."""
    for name in ("typing", "random", "queue", "enum", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the user's own')\n")
    assert " instructions, " in perfkit("trace", program, "--function", "work", "-o", "w.trace", "--", 30)


def test_a_kernel_with_arguments(perfkit, tmp_path):
    (tmp_path / "k.c").write_text(
        "double f(const double *x, long n) { double s = 0; while (n--) s += *x++; return s; }"
    )
    perfkit("trace", "k.c", "--build", "scalar", "-o", "k.trace", "--", "f8[40]", 40)
    trace = Trace.load(tmp_path / "k.trace")
    assert trace.provenance.command == "f(float64[40], 40)"
    assert trace.block_counts().max() >= 39
    told = perfkit("gus", "--source", "k.c", "--arguments", "f8[40], 40", "--json")
    assert ':f"' in told


def test_kernels(perfkit, tmp_path):
    told = perfkit("trace", "corpus:gemm", "--build", "avx2", "-D", "N=8", "-o", "g.trace")
    assert " instructions, " in told
    assert Path("g.trace").is_file()
    (tmp_path / "k.c").write_text("static int x[9]; void k(void) { for (int i = 0; i < 9; i++) x[i] = i; }\n")
    perfkit("trace", "k.c", "--flags", "-O1")
    assert Trace.load(tmp_path / "k.trace").provenance.flags == "-O1"


def test_every_thread_of_a_program(perfkit, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "sums.c").write_text(
        "#include <omp.h>\n__attribute__((aligned(64))) long sums[3];\n"
        "__attribute__((noipa)) void solve(long n) {\n#pragma omp parallel\n"
        "    for (long i = 0; i < n; i++) ((volatile long *)sums)[omp_get_thread_num()] += i;\n}\n"
        "int main(void) { solve(50); return 0; }\n"
    )
    subprocess.run(["gcc", "-O2", "-g", "-fopenmp", "-o", "sums", "sums.c"], cwd=tmp_path, check=True)
    told = perfkit("trace", "./sums", "-f", "solve", "--threads")
    assert "sums:solve: 3 threads" in told
    assert "parallel loops: solve._omp_fn.0 (sums.c:" in told
    assert "sums at 0x" in told
    assert "false sharing by threads 0, 1, 2, 150 writes" in told
    answer = json.loads(perfkit("trace", "./sums", "-f", "solve", "--threads", "--json"))
    assert [row["thread"] for row in answer["threads"]] == [0, 1, 2]
    assert answer["shared_lines"][0]["variable"] == "sums"
    assert len(ThreadTraces.load(tmp_path / "solve.threads")) == 3
    assert "--threads records them" in perfkit("trace", "./sums", "-f", "solve")


def test_mistakes_are_one_line(perfkit, program):
    for words, message in [
        ((program,), "say which function"),
        ((program, "-f", "wokr"), "nearest: work"),
        (("corpus:gem",), "no kernel 'gem' in the corpus"),
        (("corpus:gemm", "--", "5"), "takes 0 arguments"),
    ]:
        told = perfkit("trace", *words, status=2)
        assert told.startswith("perfkit: ")
        assert message in told
        assert told.count("\n") == 1
