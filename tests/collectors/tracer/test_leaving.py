"""What leaves the recorded code in another way than by returning is called that."""

import shutil

import pytest

from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError
from tests.diagnosis.programs import compiled, needed

pytestmark = needed

JUMPS = """
#include <setjmp.h>
static jmp_buf back;
__attribute__((noipa)) void jumps(long n) {
    double x = 1;
    for (long i = 0; i < n; i++) x = x * 1.5;
    if (x > 0) longjmp(back, 1);
}
int main(void) {
    for (volatile int k = 0; k < 300; k++) if (!setjmp(back)) jumps(2000);
}
"""
THROWS = """
#include <stdexcept>
__attribute__((noipa)) double throws(double x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x / (i + 1.0);
    if (s > 5) throw std::runtime_error("large");
    return s;
}
int main() {
    int count = 0;
    for (int k = 0; k < 300; k++) { try { throws(k & 7, 1000); } catch (const std::exception &) { count++; } }
    return count == 0;
}
"""
HANDLES = """
#include <signal.h>
#include <stdlib.h>
static void end(int number) { exit(number != SIGSEGV); }
__attribute__((noipa)) int work(volatile int *p) { return p[0] + p[1] * 3 + p[2]; }
int main(void) {
    struct sigaction own = {.sa_handler = end};
    sigaction(SIGSEGV, &own, 0);
    return work(0);
}
"""
WAY_OUT = (
    r" in a call that was to be recorded.*\(the program itself may do so rightly\)\. Name a function that it calls"
)


def test_longjmp_is_no_generated_code():
    with pytest.raises(DataError, match=r"^jumps calls longjmp" + WAY_OUT):
        Tracer(callees=True, skip=3, repeat=20, early=True).run(compiled("jumps", JUMPS), "jumps")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("callees", [True, False])
def test_an_exception_is_no_crash(callees):
    program = compiled("throws", THROWS, compiler="g++", suffix=".cpp")
    with pytest.raises(DataError, match=r"^throws throws or catches an exception" + WAY_OUT):
        Tracer(callees=callees, skip=1, repeat=20, early=True).run(program, "throws")


def test_of_a_program_that_handles_its_crash_it_is_said_that_the_handler_is_not_called():
    with pytest.raises(
        DataError, match=r"crashed with SIGSEGV.*a handler that the program sets for that is not called"
    ):
        Tracer(early=True).run(compiled("handles", HANDLES), "work")
