"""What a function's code reads of its argument registers, beside what its debug information says that it takes."""

import subprocess
import warnings

import numpy as np
import pytest

from perfkit.collectors.kernels import library_kernel
from perfkit.collectors.tracer.arguments import described_arguments
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.lines import known_signature
from perfkit.collectors.tracer.registers_read import registers_read
from perfkit.errors import PerfkitWarning

SOURCE = """
#include <immintrin.h>
long none(void) { return 7; }
long two(long a, long b) { return a > 3 ? b : a; }
long third(long **a, long b, long **c) { return **c + b + (long)*a; }
long second(long a, long b) { return b + 1; }
double scaled(double *x, int n, double by) { double s = 0; for (int i = 0; i < n; i++) s += by * x[i]; return s; }
float mixed(float a, int n, float b) { for (int i = 0; i < n; i++) a = a * b + i; return a; }
double converts(int n) { double s = 0; for (int i = 0; i < n; i++) s += i; return s; }
double gathers(double *x, int *i, int n) { double s = 0; for (int k = 0; k < n; k++) s += x[i[k]]; return s; }
long ones(int *x, int n) { long s = 0; for (int i = 0; i < n; i++) s += x[i] == ~0 ? ~0 : x[i]; return s; }
extern double sqrt(double);
double root(double a, long n) { return n > 9 ? sqrt(a) : 1.0; }
"""
FLAGS = ("-O0", "-O2", "-O3 -march=haswell", "-O3 -march=skylake-avx512 -ffast-math")


def built(tmp_path, flags):
    (tmp_path / "f.c").write_text(SOURCE)
    command = ["gcc", *flags.split(), "-shared", "-fPIC", "-w", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"]
    subprocess.run(command, check=True)
    return tmp_path / "f.so"


@pytest.mark.parametrize("flags", FLAGS)
def test_the_registers_are_those_of_the_parameters(flags, tmp_path):
    library = built(tmp_path, f"{flags} -g")
    elf = ElfFile(library)
    for name in ("none", "two", "second", "third", "scaled", "mixed", "converts", "gathers", "ones", "root"):
        kinds = [kind for _, kind in known_signature(library, name).parameters]
        floats = sum(kind in ("f4", "f8") for kind in kinds)
        read = registers_read(elf, name)
        assert (read.integers, read.floats) == (len(kinds) - floats, floats), name
        widths = [kind for kind in kinds if kind in ("f4", "f8")]
        assert all(widths[k] == "f4" for k in read.singles), name
        assert all(widths[k] == "f8" for k in read.doubles), name


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("scaled", (np.ones(9), 9, 100), "1 floating-point number .found 0; 100 is a whole number"),
        ("two", (4,), "2 whole numbers or pointers .found 1"),
        ("mixed", (), "1 whole number or pointers .found 0. and 2 floating-point numbers .found 0"),
        ("mixed", (2.0, 9, np.float32(2)), "a float as floating-point number 1 .found a double"),
        ("mixed", (np.float32(2), 9, np.float32(2)), None),
        ("root", (np.float32(2), 9), "a double as floating-point number 1 .found a float"),
        ("scaled", (np.ones(9), 9, 100.0), None),
        ("converts", (5,), None),
        ("none", (1, 2.0), None),  # what nothing reads does no harm
    ],
)
def test_an_argument_that_is_missing_is_told_without_debug_information(name, given, told, tmp_path):
    kernel = library_kernel(built(tmp_path, "-O2"), name)
    if told:
        with pytest.warns(PerfkitWarning, match=told):
            described_arguments(kernel, given)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            described_arguments(kernel, given)
