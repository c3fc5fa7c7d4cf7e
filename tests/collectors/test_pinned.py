"""A pinned recording is the same whatever the environment, the folder, the user and the addresses of the process."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.kernels import compile_kernel
from perfkit.collectors.tracer import cloner
from perfkit.collectors.tracer.pinned import LEVELS, pinned_environment
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, SettingError
from perfkit.trace.trace import Trace

pytestmark = pytest.mark.filterwarnings("ignore:the trace of work lacks functions")  # malloc's inner ones
PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
static char *early;
__attribute__((constructor)) static void before(void) { early = malloc(3000); memset(early, 1, 3000); }
__attribute__((noinline)) long work(int n, char **words) {
    char here[100], *small = malloc(200), *large = malloc(1 << 20), random[8];
    long sum = 0;
    getrandom(random, 8, 0);
    memcpy(here, words[0], strlen(words[0]) + 1);
    memset(large, 0, 1 << 20);
    for (int i = 0; i < n; i++) small[i % 200] = large[(i * 4096 + random[i % 8]) % (1 << 20)] + early[i % 3000];
    for (int i = 0; i < 200; i++) sum += small[i] + here[i % 2];
    for (char **e = words; *e; e++) sum += strlen(*e);
    free(large);
    free(small);
    return sum;
}
int main(int n, char **words) { return work(400, words) == 7; }
"""


def build(folder: Path, *flags: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p.c").write_text(PROGRAM)
    done = ["gcc", "-O1", "-g", *flags, "p.c", "-o", "p"]
    subprocess.run(done, cwd=folder, check=True)
    return folder / "p"


def same(a: Trace, b: Trace) -> bool:
    names = ("stream", "addresses", "sizes")
    code = a.code.encoding == b.code.encoding and a.code.text == b.code.text and (a.code.pc == b.code.pc).all()
    return code and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def test_a_recording_is_the_same_in_another_environment_folder_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path / "a")
    tracer = Tracer(pinned="x86-64-v3", callees=True)
    first = tracer.run(program, "work", ["48"])
    assert "unpinned_accesses" not in first.provenance.extra
    assert first.provenance.extra["pinned"] == "x86-64-v3"
    assert "memcpy" not in first.provenance.extra.get("not_followed_calls", "")  # the copy in libc is in the trace
    far = tmp_path / "another" / ("long" * 20)
    far.mkdir(parents=True)
    moved = Path(shutil.copy(program, far / "p"))
    monkeypatch.chdir(far)
    for name, value in {"HOME": str(far), "NAME": "x" * 9000, "LC_ALL": "C.UTF-8", "TMPDIR": str(far)}.items():
        monkeypatch.setenv(name, value)
    assert same(first, tracer.run(moved, "work", ["48"]))


def test_a_recording_is_the_same_at_random_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers often forbid to switch random addresses off."""
    program = build(tmp_path)
    tracer = Tracer(pinned="x86-64-v3", callees=True)
    first = tracer.run(program, "work", ["48"])
    dumps = cloner.json.dumps
    said = lambda values: dumps(values | {"again": True} if "scratch" in values else values)  # noqa: E731
    monkeypatch.setattr(cloner.json, "dumps", said)
    assert same(first, tracer.run(program, "work", ["48"]))


def test_a_kernel_with_arrays_and_many_arguments_is_the_same() -> None:
    text = """
    double f(const double *a, double *b, long n, long c, long d, long e, long g, long h) {
        double s = 0;
        for (long i = 0; i < n; i++) { b[i] = a[i] + c + d + e; s += b[i]; }
        return s + g * h;
    }
    """
    kernel = compile_kernel(text, flags="-O2")
    found = [
        kernel.trace(np.ones(500), np.zeros(500), 500, 1, 2, 3, 4, 5, pinned="x86-64-v3", repeat=2) for _ in range(2)
    ]
    assert same(*found)
    assert found[0].instruction_count > 2000


def test_what_cannot_be_pinned_is_refused(tmp_path: Path) -> None:
    program = build(tmp_path, "-static")
    with pytest.raises(DataError, match="cannot be recorded alike in every run: the program is not position-indep"):
        Tracer(pinned="x86-64-v3").run(program, "work")
    with pytest.raises(SettingError, match="an instruction set to pin is one of x86-64-v2"):
        Tracer(pinned="avx2")
    with pytest.raises(SettingError, match="made by the cloner"):
        Tracer(pinned="x86-64-v3", backend="qemu")


@pytest.mark.parametrize("level", LEVELS)
def test_the_environment_names_nothing_of_the_users(level: str) -> None:
    found = pinned_environment(level)
    assert found["HOME"] == "/"
    assert "-ERMS" in found["GLIBC_TUNABLES"]
    assert ("-AVX512F" in found["GLIBC_TUNABLES"]) == (level != "x86-64-v4")
