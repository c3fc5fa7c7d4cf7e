"""Programs in C whose hot function and bottleneck are known by construction, compiled once."""

import functools
import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

pytestmark_reason = "needs an x86-64 processor and gcc"
needed = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="needs an x86-64 processor and gcc"
)

CHAIN = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) double solve(const double *a, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s += a[i];
    return s;
}
__attribute__((noipa)) void other(double *a, long n) {
    for (long i = 0; i < n; i++) a[i] = i;
}
int main(int count, char **words) {
    long calls = count > 1 ? atol(words[1]) : 30000;
    static double a[2000];
    double s = 0;
    for (long k = 0; k < calls; k++) {
        if (k % 1000 == 0) other(a, 2000);
        s += solve(a, 2000);
    }
    printf("%g\\n", s);
    return 0;
}
"""


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory(prefix="perfkit test ")  # with a space in its name


def compiled(name: str, source: str, *flags: str, compiler: str = "gcc", suffix: str = ".c") -> Path:
    """Compile a program, or return the one that was, of the same source and flags."""
    kind = hashlib.sha256("\0".join((compiler, *flags, source)).encode()).hexdigest()[:8]
    folder = Path(_folder().name) / kind
    path = folder / name
    if not path.exists():
        folder.mkdir(exist_ok=True)
        (folder / f"{name}{suffix}").write_text(source)
        subprocess.run(
            [compiler, "-O2", "-g", *flags, "-o", str(path), f"{name}{suffix}"], check=True, cwd=folder, timeout=120
        )
    return path
