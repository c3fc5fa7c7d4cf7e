"""`why` of what is no program yet: sources, libraries, Python scripts, and functions that numba compiles."""

import ctypes
import functools
import math
import shutil
import subprocess

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.jitted import jitted_kernel
from perfkit.collectors.tracer.bounds import Placed, missed_by
from perfkit.diagnosis.sources import built, generated, is_called
from perfkit.errors import DataError, SettingError
from tests.diagnosis.programs import CHAIN, needed

pytestmark = needed

FILTER = """
void filter(double *y, const double *x, long n, double a) {
    for (long i = 1; i < n; i++)
        y[i] = a * y[i - 1] + x[i];
}
"""
SCRIPT = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.filter.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_double]
x, y = ((ctypes.c_double * 4000)(*range(4000)) for _ in range(2))
for _ in range(int(sys.argv[2])):
    library.filter(y, x, 4000, 0.5)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a space in its name."""
    where = tmp_path / "my code"
    where.mkdir()
    return where


@numba.njit
def chained(x):
    """A chain of a multiplication and an addition for each element."""
    s = 0.0
    for value in x:
        s = s * 0.999 + value
    return s


@pytest.mark.measures
def test_a_source_with_a_main_function_is_compiled_and_run(folder):
    path = folder / "chain.c"
    path.write_text(CHAIN)
    found = pk.why(path, arguments=["20000"], flags="-O2", seconds=1)
    assert (found.program, found.function) == ("chain.c", "solve")
    assert found.bottleneck == "instruction_latency"
    assert found.line["source_line"] == "s += a[i];"


@pytest.mark.measures
def test_a_function_without_a_program_is_called_with_arguments_made_for_it(folder):
    path = folder / "filter.c"
    path.write_text(FILTER)
    found = pk.why(path, flags="-O2")
    assert found.result.instructions > 3 * 999
    assert found.bottleneck == "instruction_latency"
    assert "f8[1048576], f8[1048576], 1000, 1.0" in found.unseen[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long f(float *x, unsigned char *y, int n) { return x[n] + *y; }", ["f4[1048576]", "u1[1048576]", "1000"]),
        ("double f(double x, unsigned n) { return x * n; }", ["1.0", "1000"]),
        ("long f(void) { return 1; }", []),
    ],
)  # fmt: skip
def test_arguments_are_made_by_the_types_of_parameters(folder, text, expected):
    kernel = pk.collectors.compile_kernel(text)
    assert generated(kernel.path, kernel.function) == expected


@pytest.mark.parametrize(
    "text", ["struct s { long n; }; long f(struct s *p) { return p->n; }", "long f(long (*g)(long)) { return g(1); }"]
)
def test_no_arguments_are_made_for_what_is_no_number(text):
    kernel = pk.collectors.compile_kernel(text)
    with pytest.raises(SettingError, match="no argument can be made"):
        generated(kernel.path, kernel.function)


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs rustc")
def test_rust_is_compiled_and_what_has_no_main_is_refused(folder):
    path = folder / "two.rs"
    path.write_text('fn main() { println!("{}", 7); }')
    with built(path, "", lambda _: None) as program:
        assert subprocess.run([program], capture_output=True, check=True).stdout == b"7\n"
    assert not program.exists()
    path.write_text("pub fn f() -> u32 { 7 }")
    with pytest.raises(SettingError, match="has no main program"), built(path, "", lambda _: None):
        pass


def test_what_does_not_compile_says_the_compilers_words(folder):
    path = folder / "wrong.c"
    path.write_text("int main(void) { return nothing; }")
    with pytest.raises(DataError, match=r"gcc refuses wrong\.c .(?s:.)*'nothing' undeclared"):
        pk.why(path)
    with pytest.raises(SettingError, match="flags are for source files"):
        pk.why("/bin/true", flags="-O1")
    assert not is_called(folder / "wrong.rs")


@pytest.mark.measures
def test_a_script_is_explained_by_the_library_that_it_loads(folder):
    (folder / "filter.c").write_text(FILTER)
    words = ["gcc", "-O2", "-g", "-shared", "-fPIC", "filter.c", "-o", "libfilter.so"]
    subprocess.run(words, cwd=folder, check=True)
    script = folder / "run.py"
    script.write_text(SCRIPT)
    found = pk.why(script, arguments=[str(folder / "libfilter.so"), "8000"], seconds=1)
    assert (found.program, found.function) == ("run.py", "filter")
    assert found.measured is not None
    assert found.bottleneck == "instruction_latency"
    assert found.line["source_line"] == "y[i] = a * y[i - 1] + x[i];"


def test_a_script_that_stays_in_the_interpreter_is_refused(folder):
    script = folder / "alone.py"
    script.write_text("s = 0\nfor i in range(10**7): s += i * i\n")
    with pytest.raises(DataError, match="What is interpreted has no machine code"):
        pk.why(script, seconds=1)


@pytest.mark.measures
def test_a_function_of_numba():
    x = np.arange(4000.0)
    found = pk.why(chained, arguments=[x])
    assert found.program == "chained"
    assert found.bottleneck == "instruction_latency"
    assert found.measured is not None
    assert found.result.cycles > 4000 * 4  # of the chain, no core takes less than four cycles for each element


def test_what_numba_cannot_hand_over_is_refused():
    assert jitted_kernel(chained, np.ones(3))[0].function == "chained"
    assert jitted_kernel(numba.njit(lambda x: x[0] + 1), np.ones(3))[0].function == "perfkit_call"
    made = numba.njit(lambda n: np.ones(n))
    with pytest.raises(DataError, match="calls numba's runtime"):
        jitted_kernel(made, 10)
    with pytest.raises(SettingError, match="compiled with parallel=True"):
        jitted_kernel(numba.njit(lambda x: x + 1, parallel=True), np.ones(3))
    with pytest.raises(SettingError, match="is interpreted"):
        pk.why(lambda x: x, arguments=[1])


@pytest.mark.parametrize("of", ["ctypes", "builtin"])
def test_what_is_no_function_of_python_is_not_called_interpreted(of):
    """A function of a library, called through ctypes, is machine code: "compile it with numba" helped nobody."""
    function = {"ctypes": ctypes.CDLL(None).strlen, "builtin": math.sin}[of]
    with pytest.raises(SettingError, match=r"perfkit why LIBRARY.so -f (strlen|sin) --") as said:
        pk.why(function, arguments=(1.0,))
    assert "interpreted" not in str(said.value)
    with pytest.raises(SettingError, match="is interpreted"):
        pk.why(functools.partial(math.sin, 1.0))


def test_a_crash_beside_an_array_names_the_array(tmp_path):
    source = tmp_path / "sum.c"
    source.write_text(
        "double sum(const double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }"
    )
    said = r"[\d,]+ bytes behind the end of argument 1 \(an array of 8,000 bytes\): give a larger array"
    with pytest.raises(DataError, match=said):
        pk.why(source, "sum", arguments=["f8[1000]", "200000"])


def test_the_array_whose_edge_is_nearest_is_the_one_that_was_missed():
    arrays = [Placed(1, 10_000_000, 8000, 64, 64), Placed(2, 10_100_000, 400, 64, 64)]
    assert missed_by(10_009_000, arrays).startswith("1,000 bytes behind the end of argument 1")
    assert missed_by(10_099_000, arrays).startswith("1,000 bytes before the begin of argument 2")
    assert missed_by(9_999_900, arrays).startswith("100 bytes before the begin of argument 1")
    assert [missed_by(at, arrays) for at in (0, 10_004_000, 10_100_100, 50_000_000)] == [""] * 4
