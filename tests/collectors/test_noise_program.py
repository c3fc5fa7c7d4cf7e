"""Noise in a function of a program: what the program's own call met, and that nothing outside of it is touched."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

import perfkit as pk
from perfkit.cli.main import app
from perfkit.errors import DataError, SettingError

HELPER = """
#include "part.h"
double smooth(const double *a, double *b, long n, many given) {
    double s = 0;
    for (long i = 0; i < n; i++) { s += a[i] * given.w[3]; b[i] += s; }
    return s;
}
"""
HEADER = "typedef struct { double w[100]; } many;\ndouble smooth(const double *a, double *b, long n, many given);\n"
PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "part.h"
#define OWN __attribute__((noinline)) long
static long *shared, total, calls;
static FILE *file;
OWN count(long n) { for (long i = 0; i < n; i++) shared[i % 8] += i; return shared[1]; }
OWN tell(long n) { for (long i = 0; i < n; i++) fprintf(file, "x"), fflush(file); return n; }
OWN clock_of(long n) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); long s = t.tv_nsec;
    while (n--) s = s * 5 + 7; return total = s; }
OWN sort(int *v, long n) {
    if (++calls > 1) v[n - 1] = 3;
    for (long i = 1; i < n; i++) {
        int x = v[i]; long j = i;
        while (j > 0 && v[j - 1] > x) { v[j] = v[j - 1]; j--; }
        v[j] = x;
    }
    return v[n / 2];
}
OWN fails(long n) { long s = 0; if (calls > 5) __builtin_trap(); for (long i = 0; i < n; i++) s += i * shared[i & 7];
    calls = 9; return s; }
OWN guarded(long n) { long s = 0; const unsigned char *own = (const unsigned char *)guarded;
    for (long i = 0; i < n; i++) s += own[i % 16] * i;
    return s; }
int main(int argc, char **argv) {
    if (argc > 3 && *(const unsigned char *)guarded == 0xe9) { puts("somebody patched me"); return 3; }
    long n = 300, r = 0;
    double *a = malloc(8 * n), *b = calloc(n, 8), s = 0;
    int handle = open(argv[1], O_RDWR | O_CREAT, 0600), *v = malloc(4 * n);
    if (ftruncate(handle, 64)) return 1;
    shared = mmap(0, 64, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    file = fopen(argv[2], "a");
    many given; memset(&given, 0, sizeof given);
    given.w[3] = 1.5;
    for (long i = 0; i < n; i++) a[i] = i * 0.5, v[i] = (int)(i * 7919 % n);
    for (int k = 0; k < 3; k++) s += smooth(a, b, n, given);
    r += sort(v, n) + count(1000) + clock_of(100) + fails(100) + tell(3);
    r += guarded(1000);
    printf("%g %ld\\n", s, r);
    return 0;
}
"""
FEW = pk.Noise(kinds=["nop", "latency", "store"], counts=[2, 8], processes=3, rounds=3, seconds=3)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("noise program")
    for name, text in (("part.h", HEADER), ("part.c", HELPER), ("main.c", PROGRAM)):
        (folder / name).write_text(text)
    flags = ["gcc", "-O2", "-g", "-fno-tree-vectorize"]
    subprocess.run([*flags, "-shared", "-fPIC", "-o", "libpart.so", "part.c"], cwd=folder, check=True)
    subprocess.run(
        [*flags, "-o", "main", "main.c", "-L.", "-lpart", "-Wl,-rpath,$ORIGIN", "-pie", "-fPIE"], cwd=folder, check=True
    )
    return folder / "main", [str(folder / "shared"), str(folder / "told")]


@pytest.mark.measures
def test_a_function_of_a_library_that_a_program_calls(program):
    """The chain of sums is its bottleneck; its structure of 800 bytes lies on the program's stack."""
    path, words = program
    noise = pk.Noise(kinds=["nop", "store", "latency"], seconds=10)
    found = noise.run_program(path, "libpart.so:smooth", words, call=2)
    assert found.name == "smooth of main (call 2)"
    assert found.bottleneck == "latency", found.summary()
    assert found.original == pytest.approx(1, abs=0.05)
    assert found.instructions < 12
    assert found.cycles > 2  # an addition takes that on every core


@pytest.mark.measures
def test_data_are_brought_back_before_each_timing(program):
    """A second call would find the numbers sorted, and take a hundredth of the time for as many recorded moves."""
    path, words = program
    found = FEW.run_program(path, "sort", words)
    assert found.cycles > 0.4  # per move; two memory accesses and three branches


@pytest.mark.measures
def test_the_program_and_its_files_are_left_alone(program):
    """A file that others see through memory, and one that is written to: neither has more than the calls of one run."""
    path, words = program
    for word in words:
        Path(word).unlink(missing_ok=True)
    FEW.run_program(path, "count", words)
    # The run that is recorded calls it once; where it is measured, nothing that others see changes.
    once = [sum(i for i in range(1000) if i % 8 == k) for k in range(8)]
    held = [int.from_bytes(Path(words[0]).read_bytes()[8 * k : 8 * k + 8], "little") for k in range(8)]
    assert held == once
    with pytest.raises(DataError, match=r"asks the system for (newfstatat|write)"):
        FEW.run_program(path, "tell", words)
    assert Path(words[1]).read_text() in ("", "xxx", "xxxxxx")  # of the two runs that were recorded


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize(
    ("function", "more", "why"),
    [
        ("clock_of", {}, "differ from run to run"),
        ("libpart.so:smooth", {"call": 9}, "called smooth 3 times"),
        ("main", {}, "asks the system|has no loop"),
        ("nowhere", {}, "no function 'nowhere'"),
    ],
)  # fmt: skip
def test_what_is_refused_with_the_reason(program, function, more, why):
    path, words = program
    with pytest.raises(DataError, match=why):
        FEW.run_program(path, function, words, **more)


@pytest.mark.measures
@pytest.mark.words
def test_programs_that_check_their_own_code(program):
    """A copy that sums its own bytes finds others, which is seen; a program that looks for a patch ends."""
    path, words = program
    with pytest.raises(DataError, match="would change the kernel's results"):
        FEW.run_program(path, "guarded", words)
    with pytest.raises(DataError, match="never called guarded"):
        FEW.run_program(path, "guarded", [*words, "check"])


@pytest.mark.measures
def test_a_call_that_would_crash_on_its_own_leavings_is_measured(program):
    path, words = program
    found = FEW.run_program(path, "fails", words)  # what it wrote is brought back, so it does not
    assert not found.refused


@pytest.mark.measures
def test_the_command_line(program, tmp_path):
    path, words = program
    asked = [
        "noise",
        str(path),
        "-f",
        "libpart.so:smooth",
        "--kinds",
        "nop",
        "--json",
        "-o",
        str(tmp_path / "r.parquet"),
    ]
    run = CliRunner().invoke(app, [*asked, "--", *words])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["name"] == "smooth of main"
    assert pk.NoiseResult.load(tmp_path / "r.parquet").kinds == ["nop"]
    for more in (["--arguments", "8"], []):
        refused = CliRunner().invoke(app, ["noise", str(path), *more])
        assert refused.exit_code
        assert "is a program" in refused.output + str(refused.exception)
    with pytest.raises(SettingError, match="call is a whole number"):
        FEW.run_program(path, "sort", words, call=0)
