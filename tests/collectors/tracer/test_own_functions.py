"""A kernel calls its own functions, whatever the recording process has under their names."""

import pytest

from perfkit.collectors.kernels import compile_kernel
from tests.diagnosis.programs import needed

pytestmark = needed

OWN = """
__attribute__((noipa)) long NAME(long n) {
    for (long i = 0; i < n; i++) __asm__ volatile("imul %%rax, %%rax" : : : "rax");
    return n;
}
long work(long n) { return NAME(n); }
"""


@pytest.mark.parametrize("pinned", ["", "x86-64-v2"])
@pytest.mark.parametrize("name", ["index", "step", "no_function_of_libc"])
def test_a_function_named_as_one_of_the_c_library_is_the_kernels_own(name, pinned):
    """`index` is libc's, and `step` an old one of its regular expressions: 4 instructions per turn are the kernel's."""
    kernel = compile_kernel(OWN.replace("NAME", name), "work", flags="-O1")
    short, long = (
        kernel.trace(turns, callees=True, **({"pinned": pinned} if pinned else {})).instruction_count
        for turns in (100, 300)
    )
    assert long - short in (3 * 200, 4 * 200)
