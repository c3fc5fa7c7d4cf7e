"""``perfkit gus``: a calibration, the user's own figures and uops.info's; what is not in the figures."""

import json

import pytest

import perfkit as pk
from perfkit.collectors.kernels import compile_kernel
from perfkit.errors import PerfkitWarning
from perfkit.machine.overlays import write_overlay

TRACE = "fig1a"


def simulated(perfkit, *words):
    return json.loads(perfkit("gus", TRACE, "--core", "skylake_x", "--json", *words))


def test_a_calibration_changes_the_core_and_its_instructions(perfkit, tmp_path):
    plain = simulated(perfkit)
    assert set(plain["layers"]) == {"llvm"}
    assert plain["calibrated"] == []
    path = tmp_path / "host.toml"
    write_overlay(path, "skylake_x", "a test's host", {"VEX_*": {"latency": 40}}, resources={"L2_latency": 20})
    slow = simulated(perfkit, "--calibration", path)
    assert slow["calibrated"] == ["L2_latency"]
    assert slow["layers"]["calibration"] > 0
    assert sum(slow["layers"].values()) == pytest.approx(1)
    assert slow["cycles"] > 2 * plain["cycles"]
    told = perfkit("gus", TRACE, "--calibration", path)
    assert "calibration: a test's host" in told
    assert "of the core: L2_latency" in told
    assert "llvm: skylake_x: LLVM" in told


def test_overrides_have_the_last_word(perfkit, tmp_path):
    host, mine = tmp_path / "host.toml", tmp_path / "mine.toml"
    write_overlay(host, "skylake_x", "a test's host", {"VEX_*": {"latency": 40}})
    mine.write_text('title = "mine"\n[forms."VEX_*"]\nlatency = 4\n')
    plain, both = simulated(perfkit), simulated(perfkit, "--calibration", host, "--overrides", mine)
    assert both["cycles"] <= 1.05 * plain["cycles"]
    assert set(both["layers"]) == {"user", "llvm"}
    assert simulated(perfkit, "--no-look-up")["cycles"] == plain["cycles"]


def test_another_cores_calibration_is_refused(perfkit, tmp_path):
    path = tmp_path / "host.toml"
    write_overlay(path, "zen4", "another host", {})
    told = perfkit("gus", TRACE, "--core", "skylake_x", "--calibration", path, status=2)
    assert "made for the core zen4, not for skylake_x" in told
    assert "perfkit calibrate --core skylake_x" in told
    assert simulated(perfkit, "--core", "zen4", "--calibration", path)["core"] == "zen4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('title = "mine"', 'core = "NAME" is missing'),
        ("", "expected a calibration (TOML); the file is empty"),
        ('core = "skylake_x"\n[resources]\nL9_latency = 3\n', "skylake_x has no such resource"),
        ('core = "skylake_x"\n[resources]\nL2_latency = -3\n', "a number above 0 expected, found -3"),
        ('core = "skylake_x"\nresources = 3\n', "name = number expected"),
    ],
)
def test_a_bad_calibration_is_refused(perfkit, tmp_path, text, message):
    path = tmp_path / "host.toml"
    path.write_text(text)
    assert message in perfkit("gus", TRACE, "--calibration", path, status=2)


def test_overrides_hold_forms_only(perfkit, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[resources]\nL2_latency = 3\n")
    assert "belongs to a calibration" in perfkit("gus", TRACE, "--overrides", path, status=2)


def test_uops_info_is_read_from_the_users_copy(perfkit, tmp_path):
    path = tmp_path / "instructions.xml"
    path.write_text(
        '<root><extension name="FMA"><instruction asm="VFMADD231PS" string="x">'
        '<operand type="reg" width="256">YMM0,YMM1</operand><operand type="reg" width="256">YMM0,YMM1</operand>'
        '<operand type="reg" width="256">YMM0,YMM1</operand>'
        '<architecture name="SKX"><measurement uops="1" ports="1*p01" TP="0.5"><latency cycles="4"/></measurement>'
        "</architecture></instruction></extension></root>"
    )
    assert simulated(perfkit, "--uops-info", path)["cycles"] > 0
    assert "no such file" in perfkit("gus", TRACE, "--uops-info", "absent.xml", status=2)


def test_what_a_better_resource_brings_is_printed_as_a_gain_and_kept_as_a_number(perfkit):
    kept = simulated(perfkit, "--sensitivity", "--weights", "2")
    told = perfkit("gus", TRACE, "--core", "skylake_x", "--sensitivity", "--weights", "2")
    assert "speedup" not in told
    table = told.partition("\nsensitivity (simulated)\n")[2].partition("\n\n")[0].splitlines()
    assert table[0].split() == ["resource", "gain", "x2"]
    first = kept["sensitivity"][0]
    assert table[1].split() == [first["resource"], f"{first['x2']:+.1%}"]
    perfect = told.partition("\nif it were perfect (simulated)\n")[2].partition("\n\n")[0].splitlines()
    assert perfect[0].split() == ["scenario", "gain"]
    for line, one in zip(perfect[1:], kept["if_it_were_perfect"], strict=True):
        assert line.split() == [*one["scenario"].split(), f"{one['speedup']:+z.1%}"]
    assert "%" not in told.partition("\noccupancy (simulated)\n")[2].partition("\n\n")[0]


HELPED = """
#include <math.h>
__attribute__((noipa)) static long helper(long n) { long s = 0; for (long i = 0; i < n; i++) s ^= i * s + 1; return s; }
long f(long n) { long s = 0; for (long i = 0; i < 10; i++) s += helper(n); return s; }
"""


def test_functions_that_a_source_calls_are_simulated_with_it_and_a_trace_without_them_says_so(perfkit, tmp_path):
    path, trace = tmp_path / "k.c", tmp_path / "k.trace"
    path.write_text(HELPED)
    whole = json.loads(perfkit("gus", "--source", path, "-f", "f", "--core", "zen4", "--json", "--", "1000"))
    assert whole["instructions"] > 10 * 1000
    assert whole["missing"] == []
    perfkit("trace", path, "-f", "f", "-o", trace, "--", "1000")
    told = perfkit("gus", trace, "--core", "zen4")
    assert "not in these figures: functions that it called (name: calls): helper: 10" in told
    perfkit("trace", path, "-f", "f", "--callees", "--limit", "3000", "-o", trace, "--", "1000")
    assert "not in these figures: the rest of the run: recording ended at the limit of 3000" in perfkit("gus", trace)


def test_simulating_a_trace_without_what_it_called_warns(tmp_path):
    path = tmp_path / "k.c"
    path.write_text(HELPED)
    kernel = compile_kernel(path, "f")
    with pytest.warns(PerfkitWarning, match=r"f: the trace lacks functions that it called .*helper: 10; their time is"):
        pk.Gus("zen4").run(kernel.trace(1000))
    pk.Gus("zen4").run(kernel.trace(1000, callees=True))
