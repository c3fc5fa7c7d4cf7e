"""Calibration: what every x86-64 host agrees on, bad input, and the overlay that comes out."""

import itertools
import platform
import time

import numpy as np
import pytest

from perfkit.collectors.host import calibrate as module
from perfkit.collectors.host.bench import Bench
from perfkit.collectors.host.calibrate import Calibration, calibrate, common_forms
from perfkit.collectors.host.code import assemble, flags, independent
from perfkit.collectors.host.resources import MeasuredFigures, _step, memory_resources
from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.collectors.whole_core.figures import Course, Timing
from perfkit.errors import FormatError, PerfkitWarning, SettingError, UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.machine.overlays import calibrated_core, measured_bandwidths

needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="perfkit calibrate measures x86-64 hosts only")
FMA = "VEX_VFMADD231PS_YMM_YMM_YMMM256"


@needs_x86
@pytest.mark.filterwarnings(
    "ignore:.*of the samples were rejected:perfkit.errors.PerfkitWarning"
)  # a busy host may say so
@pytest.mark.filterwarnings("ignore:left out, because conditions:perfkit.errors.PerfkitWarning")
@pytest.mark.measures
def test_an_addition_takes_a_cycle_and_a_multiplication_three_on_this_host():
    found = calibrate(["ADD_R64_RM64", "IMUL_R64_RM64"], repetitions=11, memory=False)
    assert found.latencies["ADD_R64_RM64"] == pytest.approx(1, rel=0.04)
    assert found.latencies["IMUL_R64_RM64"] == pytest.approx(3, rel=0.04)
    assert 0.05 < found.throughputs["ADD_R64_RM64"] < 0.8
    assert 1e-10 < found.cycle_seconds < 2e-9  # 0.5 to 10 GHz
    assert 0 <= found.rejected < 1
    sizes = found.resources
    assert 2 < sizes["front_end"] < 20
    assert "retire" not in sizes or sizes["retire"] >= 0.9 * sizes["front_end"]
    assert 2.5 < sizes["store_forward_latency"] < 12
    assert sizes["store_forward_renamed"] <= 1.3 * sizes["store_forward_latency"]
    assert sizes["blocked_store_forward_latency"] > sizes["store_forward_latency"]
    assert 6 < sizes["misprediction_penalty"] < 50
    for name in ("misprediction_penalty", "store_forward_latency", "blocked_store_forward_latency", "front_end"):
        least, most = found.spreads[name]
        assert least <= sizes[name] <= most
    frame = found.compare(Microarchitecture.load("skylake_x")).set_index("name")
    assert frame.loc["misprediction_penalty", ["least", "most"]].tolist() == list(
        found.spreads["misprediction_penalty"]
    )
    assert f"front_end {sizes['front_end']:.4g} ({found.spreads['front_end'][0]:.4g} to " in found.summary()


@needs_x86
@pytest.mark.measures
def test_each_level_is_slower_than_the_one_before_it_on_this_host():
    found, spreads, _ = memory_resources(Bench(7))
    for level in ("L1", "L2", "memory"):
        least, most = spreads[f"{level}_bandwidth"]
        assert least <= found[f"{level}_bandwidth"] <= most
    # On a busy host there may be no figure of L3.
    measured = [level for level in ("L1", "L2", "L3", "memory") if f"{level}_latency" in found]
    latencies = [found[f"{level}_latency"] for level in measured]
    assert {"L1", "L2", "memory"} <= set(measured)
    assert latencies == sorted(latencies)
    assert 3.5 < latencies[0] < 7
    assert latencies[-1] > 3 * latencies[1]
    assert found["L1_bandwidth"] > found["memory_bandwidth"] > 0
    assert "rob" not in found or 100 < found["rob"] < 1024


@pytest.mark.parametrize("entries", [128, 168, 224, 512])
def test_the_reorder_buffer_is_where_the_time_of_a_pass_doubles(entries):
    noise = np.random.default_rng(entries)

    def time(count: int) -> float:
        return (300 if count + 2 <= entries else 600) * (1 + 0.05 * noise.random())

    assert _step(time) == entries
    assert _step(lambda count: 300.0 + count / 8) is None, "nothing doubles: nothing is claimed"


@needs_x86
def test_a_clock_that_never_holds_is_an_error(monkeypatch):
    bench = Bench(5)
    wild = itertools.cycle([10_000, 20_000])
    monkeypatch.setattr(bench, "_chain", lambda clock: next(wild))
    with pytest.raises(UnavailableError, match="200 of 200 samples were rejected"):
        bench.cycles([])


@needs_x86
def test_a_busy_host_is_told(monkeypatch):
    figures = {"cycle_seconds": 3e-10, "latencies": {}, "throughputs": {}, "resources": {}, "rejected": 0.4}
    monkeypatch.setattr(module, "_in_child", lambda work, progress: figures)
    with pytest.warns(PerfkitWarning, match="40% of the samples were rejected"):
        calibrate(["ADD_R64_RM64"], memory=False)
    figures["rejected"] = 0.0
    with pytest.warns(PerfkitWarning, match="L3 could not be measured"):
        calibrate(["ADD_R64_RM64"])


@needs_x86
@pytest.mark.measures
@pytest.mark.words
def test_a_form_that_crashes_is_named():
    # An instruction of AMD's XOP extension, which no processor of today has: it ends the process that runs it.
    with pytest.raises(UnavailableError, match=r"measuring XOP_VPCMOV_XMM_XMM_XMMM128_XMM ended .*leave this form out"):
        calibrate(["XOP_VPCMOV_XMM_XMM_XMMM128_XMM"], repetitions=3, memory=False)


@needs_x86
def test_bad_settings():
    with pytest.raises(SettingError, match="at least 3"):
        calibrate(["ADD_R64_RM64"], repetitions=1)


@needs_x86
def test_the_forms_that_are_measured_by_default_are_known(monkeypatch):
    """Some have the kind of their memory operand behind the name, which iced-x86 does not know: all was refused."""
    asked = []

    def stop(work, _progress):
        asked.extend(work.forms)
        raise UnavailableError("not measured here")

    monkeypatch.setattr(module, "_in_child", stop)
    with pytest.raises(UnavailableError, match="not measured here"):
        calibrate()
    assert {"LEA_R64_M/m2", "MOV_R64_RM64/m"} < set(asked)
    with pytest.raises(SettingError, match="no instruction form 'ADD_R64'"):
        calibrate(["ADD_R64"])


def test_other_machines_are_refused(monkeypatch):
    monkeypatch.setattr(module.platform, "machine", lambda: "aarch64")
    with pytest.raises(UnavailableError, match="x86-64 Linux hosts only"):
        calibrate(["ADD_R64_RM64"])


def test_what_a_form_says_of_others(tmp_path):
    """Moves are loads with a memory operand; forms that stand in for one another keep their own figures."""
    core = Microarchitecture.load("zen4")
    found = made_up(
        latencies={"MOV_R64_RM64": 0.19, "LEA_R64_M/m": 0.19, "LEA_R64_M/m2": 1.0, "ADDSD_XMM_XMMM64": 1.99},
        throughputs={"DIVSD_XMM_XMMM64": 3.98},
    )
    path = found.save_overlay(tmp_path / "host.toml", core)
    tables, plain = InstructionTables.load(core, calibration=path), InstructionTables.load(core)
    assert tables.form("MOV_R64_RM64/m") == plain.form("MOV_R64_RM64/m")
    assert tables.form("MOV_R64_RM64").latency == 0, "renamed: no latency, whatever a chain of them shows"
    assert tables.form("LEA_R64_M/m").latency == 0
    assert tables.form("LEA_R64_M/m2").latency == 1
    assert (tables.form("ADDSD_XMM_XMMM64").latency, tables.form("ADDSD_XMM_XMMM64/m").memory_latency) == (2, 2)
    assert tables.form("DIVSD_XMM_XMMM64").inverse_throughput(core) == 4


def test_only_forms_the_host_has_are_measured():
    old = common_forms(["sse2", "cmov"])
    new = common_forms(["sse2", "cmov", "avx", "avx2", "fma", "avx512f"])
    assert "ADD_R64_RM64" in old
    assert not any("YMM" in form for form in old)
    assert FMA in new
    assert {"ADDSD_XMM_XMMM64", "PADDD_XMM_XMMM128"} <= set(old), "SSE's forms, with a first operand that is the result"
    assert any("ZMM" in form for form in new)


def made_up(**changes) -> Calibration:
    figures = {
        "host": {"processor": "none", "hypervisor": "no", "kernel": "-", "date": "2000-01-01"},
        "cycle_seconds": 0.5e-9,
        "latencies": {FMA: 5.02, "ADD_R64_RM64": 1.01, "MOV_R64_RM64/m": 4.0},
        "throughputs": {FMA: 1.0, "ADD_R64_RM64": 0.25},
        "resources": {"L2_latency": 16.0, "front_end": 4.0, "rob": 222.0, "retire": 4.0, "front_end_nops": 4.0},
    }
    return Calibration(**{**figures, **changes})


def test_comparison_says_what_differs_in_cycles_and_seconds():
    frame = made_up().compare(Microarchitecture.load("skylake_x")).set_index(["name", "what"])
    assert frame.loc[(FMA, "latency"), "differs"]
    assert frame.loc[(FMA, "latency"), "seconds"] == pytest.approx(2.51e-9)
    assert not frame.loc[("ADD_R64_RM64", "latency"), "differs"]
    assert frame.loc[("MOV_R64_RM64/m", "latency"), "table"] == 5
    assert frame.loc[("L2_latency", "cycles"), "differs"]
    assert not frame.loc[("front_end", "uops/cycle"), "differs"]
    assert np.isnan(frame.loc[("front_end_nops", "uops/cycle"), "table"])
    assert not frame.loc[("front_end_nops", "uops/cycle"), "differs"]


def test_overlay_changes_what_differs_and_nothing_else(tmp_path):
    core = Microarchitecture.load("skylake_x")
    path = made_up().save_overlay(tmp_path / "host.toml", core)
    tables = InstructionTables.load(core, calibration=path)
    fma = tables.form(FMA)
    assert (fma.latency, fma.inverse_throughput(core), fma.source) == (5, 1, "calibration")
    loaded = tables.form(f"{FMA}/m")
    assert (loaded.latency, loaded.memory_latency) == (5, 5), "the same operation after a load"
    assert tables.form("MOV_R64_RM64/m").address_latency == 4
    assert tables.form("ADD_R64_RM64").source == "llvm"
    host = calibrated_core(core, path)
    assert host.value("L2_latency") == 16
    assert host.value("rob") == 224, "an estimate does not replace the documented size that it agrees with"
    assert "2000-01-01" in host.sources[host.resource("L2_latency").source]
    other = made_up(resources={"rob": 512.0}).save_overlay(tmp_path / "other.toml", core)
    assert calibrated_core(core, other).value("rob") == 512
    assert "perfkit calibrate on none" in host.sources[host.resource("L2_latency").source]


@needs_x86
@pytest.mark.filterwarnings("ignore:.*of the samples were rejected:perfkit.errors.PerfkitWarning")
@pytest.mark.measures
def test_what_conditions_do_not_allow_is_left_out_and_said(monkeypatch):
    form = Bench.form

    def hindered(bench, name):
        if name == "IMUL_R64_RM64":
            raise UnavailableError("200 of 200 samples ran beside a busy thread")
        return form(bench, name)

    monkeypatch.setattr(Bench, "form", hindered)
    monkeypatch.setattr(module, "core_resources", lambda bench: ({}, {}, {"misprediction_penalty": "busy"}))
    with pytest.warns(
        PerfkitWarning, match=r"left out, .*: .*IMUL_R64_RM64( and|.*,) misprediction_penalty .200 of 200 samples"
    ):
        found = calibrate(["ADD_R64_RM64", "IMUL_R64_RM64"], repetitions=11, memory=False)
    assert set(found.latencies) == {"ADD_R64_RM64"}
    assert set(found.left_out) == {"IMUL_R64_RM64", "misprediction_penalty"}
    assert "200 of 200" in found.to_json()


@needs_x86
def test_a_window_beside_a_busy_thread_is_no_figure(monkeypatch):
    """The chains agree, and the shortest loop takes two cycles per turn: nothing is quoted."""
    bench = Bench(5, patience=0.1)
    chain = bench.link * 4096
    busy = [chain, 4096, 2 * 2048]
    monkeypatch.setattr(bench, "_before", lambda: busy)
    monkeypatch.setattr(bench, "_after", lambda: busy)
    with pytest.raises(UnavailableError, match=r"(\d+) of \1 samples ran beside a busy thread of the same core"):
        bench.window(lambda passes, address: 3 * 4096 + bench.overhead, 1)
    assert bench.busy == bench.taken
    quiet = [chain, 2048, 2048]
    turns = itertools.cycle([busy, quiet, quiet])
    monkeypatch.setattr(bench, "_before", lambda: next(turns))
    monkeypatch.setattr(bench, "_after", lambda: quiet)
    assert bench.window(lambda passes, address: 3 * 4096 + bench.overhead, 1) == pytest.approx(3 * 4096)


@needs_x86
def test_two_windows_whose_difference_is_no_time_are_no_figure(monkeypatch):
    """A core that throttles itself: the shorter window was the slower one, and the loop seemed to take no time."""
    bench = Bench(5)
    add = independent("ADD_R64_RM64")[0]
    windows = itertools.cycle([16.0, 3000.0, 9000.0])  # of 16 passes; of three times as many as the next; of these
    monkeypatch.setattr(bench, "window", lambda *_, **__: next(windows))
    with pytest.raises(UnavailableError, match="more than 16 instructions per cycle"):
        bench.cycles([add] * 48, 48)
    windows = iter([16.0, 3000.0, 9000.0, 24 * 16.0, 24 * 3 * 333, 24 * 333])
    monkeypatch.setattr(bench, "window", lambda *_, **__: next(windows))
    assert bench.cycles([add] * 48, 48) == pytest.approx(0.5, rel=0.01), "the next two windows are right"


def test_a_kept_figure_that_cannot_be_is_measured_again(tmp_path, monkeypatch):
    """Zeros in a checkpoint of a host with 512-bit vectors ended `calibrate --full` in a linear program."""
    wrong, right, never = (Timing(((form, 2),)) for form in ("A", "B", "C"))
    measured = []

    def child(_self, todo):
        measured.extend(todo)
        yield from ((number, 1.5, "") for number in range(len(todo)))

    monkeypatch.setattr(Course, "_child", child)
    with Checkpoint(tmp_path / "kept", {}) as kept:
        for figure, value in ((wrong, 0.0), (right, 0.5), (never, None)):
            kept.add(figure.key, value)
        found = Course(kept, time.monotonic() + 60).measured([wrong, right, never])
    assert measured == [wrong]
    assert found == {wrong: 1.5, right: 0.5}


def test_one_value_in_three_is_too_few_and_the_reason_is_kept():
    figures = MeasuredFigures()
    answers = iter([4.0, UnavailableError("busy"), UnavailableError("busy")])

    def sometimes() -> float:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    for _ in range(3):
        figures.attempt("front_end", sometimes)
        figures.attempt("several", lambda: {"a": 1.0, "b": 2.0})
    assert figures.medians(least=2) == {"a": 1.0, "b": 2.0}
    assert figures.left_out == {"front_end": "busy"}


def test_spreads_of_bandwidths_are_kept(tmp_path):
    core = Microarchitecture.load("zen4")
    found = made_up(resources={"L2_bandwidth": 30.0, "L1_bandwidth": 60.0}, spreads={"L2_bandwidth": (24.5, 31.0)})
    path = found.save_overlay(tmp_path / "host.toml", core)
    assert measured_bandwidths(path, core) == {"L1": (60.0, 60.0, 60.0), "L2": (30.0, 24.5, 31.0)}
    assert calibrated_core(core, path).value("L2_bandwidth") == 30
    path.write_text(path.read_text().replace("24.5, 31", "30.5, 31"))
    with pytest.raises(FormatError, match=r"around the figure in \[resources\]"):
        measured_bandwidths(path, core)
    without = made_up(resources={"rob": 512.0}).save_overlay(tmp_path / "other.toml", core)
    with pytest.raises(FormatError, match="no bandwidths"):
        measured_bandwidths(without, core)


def test_no_register_that_is_measured_holds_a_constant_known_at_renaming():
    """Golden Cove keeps moved constants at renaming; a shift by such a count takes 3 cycles in a chain, else 1."""
    ix = pytest.importorskip("iced_x86")
    code = decoded(assemble([]))
    first = next(k for k, one in enumerate(code) if one.mnemonic == ix.Mnemonic.RDTSC)
    last = {one.op0_register: one.mnemonic for one in code[:first] if one.op_count}
    for name in ("RCX", "RBP", "RBX", "R8", "R14"):  # counts, sources and destinations
        assert last[getattr(ix.Register, name)] == ix.Mnemonic.IMUL, name


def decoded(data):
    ix = pytest.importorskip("iced_x86")
    return list(ix.Decoder(64, data, ip=0x200000))


@needs_x86
@pytest.mark.measures
@pytest.mark.skipif("bmi2" not in flags(), reason="needs SHLX")
def test_a_shift_by_a_count_takes_a_cycle_on_this_host():
    bench = Bench(9)
    assert bench.form("VEX_SHLX_R64_RM64_R64")[0] == pytest.approx(1, rel=0.05)
