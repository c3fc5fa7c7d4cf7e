"""Chains as long as each other: shortening the one that is named brings nothing, and the answer says so."""

import numpy as np
import pytest

import perfkit as pk
from tests.diagnosis.programs import needed

pytestmark = needed

TWO = """void f(unsigned long *out, long n, unsigned long k) {
  unsigned long a = 1, b = 1;
  for (long i = 0; i < n; i++) {
    a = a * k + i;
    b = %s;
  }
  out[0] = a;
  out[1] = b;
}
"""


def headline(second: str) -> str:
    """Say what holds two chains back, simulated on a Zen 4: a multiplication and an addition, and another."""
    kernel = pk.collectors.compile_kernel(TWO % second, flags="-O2 -g -fno-tree-slp-vectorize")
    result = pk.Gus("zen4", warm=True).run(
        pk.collectors.Tracer().run_kernel(kernel, np.zeros(2, dtype=np.uint64), 3000, 77)
    )
    sources = {name: tuple((TWO % second).splitlines()) for name in set(result.trace.code.file)}
    return pk.Diagnosis(
        program="two", function="f", symbol="f", file="two.so", chosen="as asked for", candidates=(), profiled="",
        share=None, result=result, measured=None, not_measured="not asked for", opinions=(), unseen=(),
        sources=sources,
    ).headline()  # fmt: skip


@pytest.mark.parametrize("second", ["b * k ^ i", "(b ^ i) * k"])
def test_a_chain_as_long_as_the_named_one_is_told(second):
    told = headline(second)
    assert "alone would bring nothing" in told
    assert "is a chain as long" in told
    assert "a = a * k + i" in told
    assert "b = " in told


def test_of_a_longer_and_a_shorter_chain_the_longer_is_all():
    """Seven cycles against four."""
    told = headline("(b * k ^ i) * k")
    assert "b = (b * k ^ i) * k" in told
    assert "as long" not in told


@pytest.mark.measures
def test_a_call_longer_than_what_is_recorded_is_measured_in_part():
    """A chain of 4 million additions of 3 or 4 cycles, and 3 of their 16 million instructions are recorded."""
    source = "double f(const double *x, long m, long n) { double s = 0; for (long k = 0; k < n; k++)"
    kernel = pk.collectors.compile_kernel(source + " for (long i = 0; i < m; i++) s += x[i]; return s; }", flags="-O2")
    found = pk.why_kernel(kernel, np.ones(4000), 4000, 1000)
    if found.measured is None:
        assert "the core was never quiet" in found.not_measured
    else:
        assert 0.1 < found.measured.part < 0.25
        each = found.measured.cycles / found.measured.part / 4e6
        assert 1.95 < each < 4.3  # two on cores that forward additions early
        assert "of one call's" in found.report()
