import shutil
import warnings

import pytest

import perfkit as pk
from perfkit.collectors.open_traces import kernel_arguments
from perfkit.errors import DataError, FormatError, PerfkitWarning, SettingError


def test_names_and_patterns_of_shipped_traces_keep_their_order():
    assert list(pk.open_traces("triad, fig1?,traces/divider")) == ["triad", "fig1a", "fig1b", "divider"]


def test_a_trace_file(tmp_path):
    path = pk.datasets.load("traces/fig1a").save(tmp_path / "mine.trace")
    assert pk.open_traces(str(path))["mine"].instruction_count == 5010


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to compile a C source with")
def test_a_c_source_is_compiled_run_and_recorded(tmp_path):
    path = tmp_path / "sum.c"
    path.write_text("volatile long x; void sum(void) { for (long i = 0; i < COUNT; i++) x += i; }\n")
    few, many = (
        pk.open_traces(str(path), build="scalar", defines=f"COUNT={n}")["sum"].instruction_count for n in (100, 200)
    )
    assert few >= 300
    assert 1.8 < many / few < 2.1


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to compile a C source with")
def test_a_c_source_gets_its_arguments(tmp_path):
    pytest.importorskip("elftools", reason="pyelftools is not installed: pip install -r locks/dev.lock")
    path = tmp_path / "scale.c"
    path.write_text(
        "void scale(float *y, double a, const short *k, long n) {\n"
        "    if (y[1] != 1 + 1 / 64.0f || k[3] != 3 || a != -2.5) __builtin_trap();\n"
        "    for (long i = 0; i < n; i++) y[i] *= a;\n}\n"
    )
    trace = pk.open_traces(str(path), build="scalar", arguments="f4[6x10], -2.5, i2[60], 60")["scale"]
    assert trace.provenance.command == "scale(float32[6, 10], -2.5, int16[60], 60)"
    assert 60 < trace.access_count < 140
    with pytest.raises(SettingError, match=r"takes 4 arguments \(y, a, k, n\), found 1"):
        pk.open_traces(str(path), build="scalar", arguments="60")
    with pytest.raises(SettingError, match=r"found 'f8\[ten\]'"):
        pk.open_traces(str(path), arguments="f8[ten]")


def test_what_is_nowhere_is_an_error_that_names_the_nearest():
    with pytest.raises(SettingError, match="did you mean fig1"):
        pk.open_traces("fig1c")
    with pytest.raises(SettingError, match="found nothing"):
        pk.open_traces(" , ")
    with pytest.raises(SettingError, match="NAME=VALUE"):
        pk.open_traces("x.c", defines="=3")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine to compile a C++ source with")
@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_a_cxx_source_has_its_library(tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    path = tmp_path / "count.cpp"
    path.write_text(
        '#include <vector>\nextern "C" long count(long n) { std::vector<int> v(n); '
        "for (long i = 0; i < n; i++) v[i] += i; return v[n - 1]; }\n"
    )
    trace = pk.collectors.compile_kernel(str(path), compiler=compiler, flags="-O1").trace(100)
    assert trace.instruction_count > 200
    assert "_Znwm" in trace.provenance.extra["not_followed_calls"]
    if compiler == "gcc":
        with warnings.catch_warnings():  # a part of malloc or free may be code that cannot be recorded
            warnings.filterwarnings("ignore", "the trace of count lacks functions", PerfkitWarning)
            whole = pk.open_traces(str(path), build="scalar", arguments="100")["count"]
        assert whole.instruction_count > trace.instruction_count
        assert "operator new" in " ".join(whole.code.function) or "_Znwm" in whole.code.function


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to compile a C source with")
def test_a_library_that_cannot_be_loaded_says_what_it_lacks():
    kernel = pk.collectors.compile_kernel("long other(long); long f(long n) { return other(n); }")
    with pytest.raises(DataError, match=r"cannot be loaded: it needs other, which no library .*flags: -lNAME"):
        kernel.trace(1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to compile a C source with")
@pytest.mark.parametrize(
    ("arguments", "misses"),
    [
        ("f8[10], 0, 10", []),
        ("f8[10], 0, 400", ["3,120 bytes behind the end of argument 1 (an array of 80 bytes)"]),
        ("f8[10], -30, 10", ["240 bytes before the begin of argument 1 (an array of 80 bytes)"]),
    ],
)
@pytest.mark.parametrize("flags", ["-O1", "-O3 -mavx2 -ffast-math"])
def test_accesses_that_miss_an_array_are_told(arguments, misses, flags):
    source = """double f(double *x, long first, long last) {
        double s = 0;
        for (long i = first; i < last; i++) { __builtin_prefetch(x + i + 8); s += x[i]; }
        return s;
    }"""
    kernel = pk.collectors.compile_kernel(source, flags=flags)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PerfkitWarning)
        kernel.trace(*kernel_arguments(arguments))
    found = [str(each.message) for each in caught if issubclass(each.category, PerfkitWarning)]
    assert len(found) == len(misses), found
    assert all(f"f accesses memory {miss}" in text for miss, text in zip(misses, found, strict=True))


def test_a_c_source_may_be_in_another_encoding(tmp_path):
    """Compilers read a comment in Latin-1; so does what looks for functions in the text."""
    source = tmp_path / "old.c"
    source.write_bytes("/* café */\nlong f(long n) { return n + 1; }\n".encode("latin-1"))
    kernel = pk.collectors.compile_kernel(source, flags="-O1")
    assert kernel.function == "f"
    assert "return n + 1" in kernel.source


def test_what_a_compiler_quotes_may_be_in_another_encoding(tmp_path):
    """The error shows the line that it is about, byte by byte."""
    source = tmp_path / "old.c"
    source.write_bytes("long f(long n) { return n + ; } // café\n".encode("latin-1"))
    with pytest.raises(DataError, match="refuses the kernel"):
        pk.collectors.compile_kernel(source)


def test_a_source_of_another_language_is_not_told_as_recorded(tmp_path):
    source = tmp_path / "stencil.f90"
    source.write_text("subroutine relax(n)\nend subroutine\n")
    for given in ({}, {"arguments": "40"}):
        with pytest.raises(FormatError, match=r"not a perfkit trace .* perfkit trace \./program -f FUNCTION"):
            pk.open_traces(str(source), **given)
    with pytest.raises(SettingError, match="fig1a is recorded already: leave it out"):
        pk.open_traces("fig1a", arguments="40")
