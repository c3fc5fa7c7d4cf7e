"""What cannot be handed to a kernel is refused in words: it was read from where nothing lay, or ended in a crash."""

import numpy as np
import pytest

from perfkit.collectors.kernels import compile_kernel
from perfkit.collectors.tracer.lines import known_signature
from perfkit.errors import SettingError

C = """
#include <complex.h>
typedef struct { long a, b; } pair;
typedef double four __attribute__((vector_size(32)));
struct large { long v[3]; };
union either { long a; double b; };
long pairs(const pair p) { return p.a + p.b; }
long larges(struct large p) { return p.v[2]; }
long eithers(union either p) { return p.a; }
double vectors(four p) { return p[3]; }
double complexes(double complex p) { return creal(p); }
long wides(__int128 p) { return p >> 64; }
struct large returned(long n) { return (struct large){{n, n, n}}; }
pair small(long n) { return (pair){n, n}; }
double total(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
long pointed(const pair *p, four *v, double **rows) { return p->a + rows[0][0] + v[0][0]; }
"""
CPP = """
struct holder { long v; ~holder(); };
holder::~holder() { v = 0; }
long referred(long &n) { return n + 1; }
long held(const holder &n) { return n.v; }
holder made(long n) { return holder{n}; }
long moved(double &&n) { return (long)n; }
"""


def kernel(tmp_path, name, source=C):
    file = tmp_path / ("k.c" if source == C else "k.cpp")
    file.write_text(source)
    return compile_kernel(file, name, compiler="gcc" if source == C else "g++", flags="-O1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pairs", "p is a structure by value"), ("larges", "p is a structure by value"),
        ("eithers", "p is a union by value"), ("vectors", "p is a vector by value"),
        ("complexes", "p is a complex number by value"), ("wides", "p is an integer of 128 bits by value"),
        ("returned", "returns a structure in memory"),
    ],
)  # fmt: skip
def test_what_lies_elsewhere_than_a_number_is_refused(tmp_path, name, told):
    """A stranger's: of two numbers in a structure the second was garbage, and 24 bytes ran into the timeout."""
    with pytest.raises(SettingError, match=told):
        kernel(tmp_path, name).trace(300)


def test_what_is_pointed_to_or_returned_in_registers_is_not(tmp_path):
    assert kernel(tmp_path, "small").trace(300).instruction_count
    assert known_signature(kernel(tmp_path, "pointed").path, "pointed").parameters == (
        ("p", ""),
        ("v", ""),
        ("rows", ""),
    )


def test_a_reference_takes_an_array_of_what_it_refers_to(tmp_path):
    one = kernel(tmp_path, "_Z8referredRl", CPP)
    with pytest.raises(SettingError, match=r"n is a reference to a 64-bit integer: .*i8\[1\].*found 300"):
        one.trace(300)
    with pytest.raises(SettingError, match="found an array of float64"):
        one.trace(np.ones(1))
    assert one.trace(np.array([300])).instruction_count
    with pytest.raises(SettingError, match="n is a reference to something else than a number"):
        kernel(tmp_path, "_Z4heldRK6holder", CPP).trace(300)
    with pytest.raises(SettingError, match="n is a reference to double"):
        kernel(tmp_path, "_Z5movedOd", CPP).trace(2.0)


def test_a_class_with_a_destructor_is_returned_in_memory_whatever_its_size(tmp_path):
    with pytest.raises(SettingError, match="returns a structure in memory"):
        kernel(tmp_path, "_Z4madel", CPP).trace(300)


def test_an_array_in_the_other_order_of_bytes_is_refused(tmp_path):
    """A stranger's: 1000.0 of type >f8 was read as another number."""
    other = np.dtype("f8").newbyteorder()
    with pytest.raises(SettingError, match=r"expected numbers in this machine's order of bytes.*astype\('f8'\)"):
        kernel(tmp_path, "total").trace(np.array([1000.0], other), 1)
    assert kernel(tmp_path, "total").trace(np.array([1000.0]), 1).instruction_count
