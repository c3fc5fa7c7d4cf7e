"""A call's arguments against the parameters of the function: nothing wraps, and nothing of another type is passed."""

import numpy as np
import pytest

from perfkit.collectors import compile_kernel
from perfkit.collectors.tracer.arguments import described_arguments
from perfkit.errors import SettingError

SOURCE = """
typedef unsigned char byte;
double f(const double *a, long n, unsigned k, float x, byte *b) { return n ? a[0] + k + x + b[0] : 0; }
"""


@pytest.fixture(scope="module")
def kernel():
    return compile_kernel(SOURCE, "f")


GOOD = (np.ones(4), 4, 1, 2.0, np.zeros(8, dtype=np.int32))


def test_what_fits_is_passed_as_the_parameter_is(kernel):
    assert [kind for kind, _ in described_arguments(kernel, GOOD)] == ["array", "int", "int", "float", "array"]
    assert described_arguments(kernel, (0, *GOOD[1:3], 3, 0))[3:] == [["float", 3.0], ["int", 0]]


def test_a_parameter_takes_the_least_and_the_largest_number_of_its_type(kernel):
    for place, value in ((1, -(2**63)), (1, 2**63 - 1), (2, 0), (2, 2**32 - 1)):
        given = (*GOOD[:place], value, *GOOD[place + 1 :])
        assert described_arguments(kernel, given)[place] == ["int", value]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (0, np.ones(4, dtype=np.float32), "f: a points to double; found an array of float32"),
        (0, np.ones(4, dtype=np.int64), "f: a points to double; found an array of int64"),
        (0, 5, "f: a is a pointer to double: expected an array, or 0; found 5"),
        (1, 2.5, "f: n is a 64-bit integer: expected a whole number .* found 2.5"),
        (1, float("nan"), "n is a 64-bit integer: .* found nan"),
        (1, 2**64 + 1, "n is a 64-bit integer: .* found 18446744073709551617"),
        (1, 2**63, "n is a 64-bit integer: .* found 9223372036854775808"),
        (2, -1, "k is an unsigned 32-bit integer: expected a whole number from 0 to 4294967295; found -1"),
        (3, np.ones(2), "x is float: expected a number; found an array of float64"),
    ],
)
def test_what_does_not_fit_is_refused(kernel, place, value, said):
    with pytest.raises(SettingError, match=said):
        described_arguments(kernel, (*GOOD[:place], value, *GOOD[place + 1 :]))


def test_a_whole_number_for_a_double_is_one():
    kernel = compile_kernel("double g(double x) { return x * x; }", "g")
    assert described_arguments(kernel, (3,)) == [["double", 3.0]]
