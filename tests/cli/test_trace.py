"""perfkit trace: programs, C files and the corpus, from the command line."""

import subprocess
import sys

import pytest

from perfkit.trace import Trace


def perfkit(*words, cwd, status=0):
    code = "import sys; from perfkit.cli import main; sys.argv = sys.argv[1:]; main()"
    command = [sys.executable, "-c", code, "perfkit", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


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


def test_a_program(program, tmp_path):
    told = perfkit("trace", program, "--function", "work", "-o", "w.trace", "--", 30, cwd=tmp_path)
    assert "w.trace: " in told
    assert "backend: cloner (x86-64 code that can be copied)" in told
    trace = Trace.load(tmp_path / "w.trace")
    assert trace.block_counts().max() in (30, 31)
    assert trace.provenance.command == "p 30"
    told = perfkit("trace", program, "-f", "work", "--limit", "50", "--", 30, cwd=tmp_path)
    assert "incomplete: limit of 50 instructions" in told
    assert (tmp_path / "work.trace").exists()


def test_kernels(tmp_path):
    told = perfkit("trace", "corpus:gemm", "--build", "avx2", "-D", "N=8", "-o", "g.trace", cwd=tmp_path)
    assert "g.trace: " in told
    (tmp_path / "k.c").write_text("static int x[9]; void k(void) { for (int i = 0; i < 9; i++) x[i] = i; }\n")
    perfkit("trace", "k.c", "--flags", "-O1", cwd=tmp_path)
    assert Trace.load(tmp_path / "k.trace").provenance.flags == "-O1"


def test_mistakes_are_one_line(program, tmp_path):
    for words, message in [
        ((program,), "say which function"),
        ((program, "-f", "wokr"), "nearest: work"),
        (("corpus:gem",), "no kernel 'gem' in the corpus"),
        (("corpus:gemm", "--", "5"), "without arguments"),
    ]:
        told = perfkit("trace", *words, cwd=tmp_path, status=2)
        assert told.startswith("perfkit: ")
        assert message in told
        assert told.count("\n") == 1
