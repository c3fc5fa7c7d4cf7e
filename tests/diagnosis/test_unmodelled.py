"""What may explain cycles that are not simulated: code beyond the first cache, figures that nobody measured."""

import dataclasses
import shutil

import numpy as np
import pytest

import perfkit as pk
from perfkit.diagnosis.diagnosis import Measured
from perfkit.diagnosis.unmodelled import _lines_fetched

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

# So many NOPs of 16 bytes from the start of a line on, run so many times.
NOPS = """void f(long n) {
    for (long i = 0; i < n; i++)
        __asm__ volatile(".p2align 6\\n.rept COUNT\\n"
                         ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\\nnop\\n.endr");
}"""
X87 = """double f(const double *a, long n) {
    long double s = 0;
    for (long i = 0; i < n; i++) s = s * 0.5L + a[i];
    return s;
}"""
SSE = X87.replace("long double", "double").replace("0.5L", "0.5")
COPY = """void f(double *to, const double *from, long n) {
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}"""


def why(source: str, *arguments: object) -> pk.Diagnosis:
    return pk.why_kernel(pk.collectors.compile_kernel(source), *arguments, core="zen4")


def report(found: pk.Diagnosis, factor: float) -> str:
    """What is said if so many times the simulated cycles were measured."""
    cycles = factor * found.result.cycles
    timed = dataclasses.replace(found, measured=Measured(cycles, cycles, 2, 1, cycles, alike=0.99))
    return " ".join(timed.report().split())


@pytest.mark.parametrize(("lines", "missed"), [(500, 0), (1000, 20_000)])
def test_lines_of_code_are_counted_as_a_cache_of_512_meets_them(lines, missed):
    """500 lines of NOPs and the few around them stay in it; of 1,000 each is gone before it runs again."""
    found = why(NOPS.replace("COUNT", str(4 * lines)), 20)
    every, counted = _lines_fetched(found.result)
    assert lines <= every <= lines + 4
    assert missed <= counted <= 1.01 * missed


@pytest.mark.parametrize(("lines", "factor", "told"), [(1000, 1.2, True), (500, 1.2, False), (1000, 1.05, False)])
def test_code_larger_than_the_first_cache_is_told_where_more_is_measured(lines, factor, told):
    said = report(why(NOPS.replace("COUNT", str(4 * lines)), 20), factor)
    assert ("The code that it runs fills 63 KiB" in said) == told
    assert ("nothing here explains" in said) == (factor > 1.1 and not told)


def test_code_that_is_fetched_does_not_explain_far_more_than_its_misses_take():
    """20,000 lines take 300,000 cycles at most, and at least half of the difference is to be explained."""
    found = why(NOPS.replace("COUNT", "4000"), 20)
    factor = 1 + 700_000 / found.result.cycles
    assert "KiB" not in report(found, factor)
    assert "KiB" in report(found, 1 + 500_000 / found.result.cycles)


@pytest.mark.parametrize("factor", [0.5, 0.85, 1.2, 1.9])
def test_figures_of_x87_are_said_not_to_be_measured_whichever_way_they_are_off(factor):
    a = np.ones(2000)
    assert "x87's (long double)" in report(why(X87, a, 2000), factor)
    assert "x87" not in report(why(SSE, a, 2000), factor)


def test_figures_of_x87_are_not_spoken_of_where_they_fit():
    assert "x87" not in report(why(X87, np.ones(2000), 2000), 1.0)


@pytest.mark.parametrize("factor", [0.5, 1.2, 1.9])
def test_repeated_string_instructions_are_told_as_what_may_explain_a_difference(factor):
    found = why(COPY, np.ones(20_000), np.ones(20_000), 20_000)
    assert "repeated string instructions" in report(found, factor)


@pytest.mark.parametrize(("code", "told"), [("pause", True), ("mfence", True), ("cpuid", True), ("nop", False)])
def test_instructions_that_wait_are_named_where_they_may_explain_the_difference(code, told):
    source = 'void f(long n) { for (long i = 0; i < n; i++) __asm__ volatile("CODE" ::: "rax", "rbx", "rcx", "rdx"); }'
    found = why(source.replace("CODE", code), 500)
    cycles = found.result.cycles
    far = dataclasses.replace(found, measured=Measured(cycles + 40_000, cycles + 40_000, 2, 1, cycles + 40_000))
    assert (f"It ran {code} 500 times: what these take is not simulated" in far._explanation) == told
    beyond = dataclasses.replace(found, measured=Measured(cycles + 1e9, cycles + 1e9, 2, 1, cycles + 1e9))
    assert "It ran" not in beyond._explanation
