"""A kernel calls its own functions, whatever the recording process has under their names."""

import numpy as np
import pytest

from perfkit.collectors.kernels import compile_kernel
from perfkit.errors import SettingError
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


def test_a_long_double_is_refused_where_it_is_a_value_and_not_where_it_is_pointed_to():
    """It is passed on the stack, where a kernel of 1,000 turns found nothing and ended at once."""
    source = "long work(T x) { return 1; }"
    with pytest.raises(SettingError, match="long double"):
        compile_kernel(source.replace("T", "long double"), "work").trace(1.5)
    assert compile_kernel(source.replace("T", "const long double *"), "work").trace(np.zeros(8)).instruction_count
    assert compile_kernel(source.replace("T", "double"), "work").trace(1.5).instruction_count
