import shutil

import pytest

import perfkit as pk
from perfkit.errors import SettingError


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
