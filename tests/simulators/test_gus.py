"""Gus: loops whose cycles anyone can count, exact accounting, invariants, and an oracle in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.errors import DataError, FormatError, SettingError
from perfkit.instruction_tables import InstructionTables
from perfkit.microarchitecture import Microarchitecture
from perfkit.simulators.causality_exact import run_exact
from perfkit.simulators.gus import Gus, GusResult
from perfkit.simulators.sensitivity import simulate_cores, swept
from perfkit.trace import StaticCode, Trace
from tests.simulators.handmade import CODE, loop

X86 = [name for name in Microarchitecture.names() if Microarchitecture.load(name).isa == "x86-64"]
WITH_FMA = [name for name in X86 if name != "sandy_bridge"]
TIMES = 2000


def cycles_per_iteration(names, core, times=TIMES, **options) -> float:
    return Gus(Microarchitecture.load(core), warm=True).run(loop(names, times, **options)).cycles / times


@pytest.mark.parametrize("core", WITH_FMA)
def test_a_chain_of_fmas_takes_their_latency(core):
    assert cycles_per_iteration(["fma ymm0"], core) == pytest.approx(4, rel=1e-3)
    # Two chains side by side cost no more than one.
    assert cycles_per_iteration(["fma ymm0", "fma ymm1"], core) == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("core", X86)
def test_chains_of_integer_operations(core):
    assert cycles_per_iteration(["add"], core) == pytest.approx(1, rel=1e-3)
    assert cycles_per_iteration(["imul"], core) == pytest.approx(3, rel=1e-3)
    assert cycles_per_iteration(["add", "imul"], core) == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("core", X86)
def test_independent_additions_run_as_wide_as_ports_and_front_end_allow(core):
    machine = Microarchitecture.load(core)
    form = InstructionTables.load(machine).form("VEX_VADDPS_YMM_YMM_YMMM256")
    expected = max(form.inverse_throughput(machine), 1 / machine.value("front_end"))
    assert cycles_per_iteration(["free addps"], core) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("core", X86)
def test_nops_run_as_wide_as_the_narrower_of_front_end_and_retirement(core):
    machine = Microarchitecture.load(core)
    width = min(machine.value("front_end"), machine.value("retire"))
    assert cycles_per_iteration(["nop"] * 12, core) == pytest.approx(12 / width, rel=0.01)


@pytest.mark.parametrize("core", X86)
def test_a_pointer_chase_takes_the_load_latency(core):
    machine = Microarchitecture.load(core)
    assert cycles_per_iteration(["chase"], core) == pytest.approx(machine.value("L1_latency"), rel=0.01)


@pytest.mark.parametrize("core", X86)
def test_a_chain_through_memory_takes_store_forwarding(core):
    # load, add, store to the same place: the data comes from the store of the iteration before.
    machine = Microarchitecture.load(core)
    expected = machine.value("store_forward_latency") + 1
    assert cycles_per_iteration(["load", "add", "store"], core) == pytest.approx(expected, rel=0.02)


def test_zero_idioms_break_chains():
    assert cycles_per_iteration(["zero", "add"], "skylake_x") == pytest.approx(0.5, rel=0.01)  # two slots of four
    assert cycles_per_iteration(["add"], "skylake_x") == pytest.approx(1, rel=0.01)


def test_moves_between_registers_are_eliminated_where_the_core_does_it():
    # Two moves that feed each other: no latency where they are eliminated, two cycles where they are not.
    assert cycles_per_iteration(["move", "move back"], "skylake_x") == pytest.approx(0.5, rel=0.01)
    assert cycles_per_iteration(["move", "move back"], "sandy_bridge") == pytest.approx(2, rel=0.01)


def test_macro_fused_pairs_are_one_uop():
    machine = Microarchitecture.load("skylake_x")
    trace = loop(["cmp", "jne"], TIMES)
    result = Gus(machine).run(trace)
    assert result.uops == TIMES
    # A load and an immediate together would not fuse; nor does anything where the core file says "none".
    text = machine.to_toml().replace('macro_fusion = { value = "alu"', 'macro_fusion = { value = "none"')
    unfused = Gus(Microarchitecture.from_toml(text), InstructionTables.load(machine)).run(trace)
    assert unfused.uops == 2 * TIMES


def test_indexed_vector_loads_come_apart_on_intel_and_not_on_amd():
    trace = loop(["addps indexed"], 100)
    intel = Gus(Microarchitecture.load("skylake_x")).run(trace)
    amd = Gus(Microarchitecture.load("zen4")).run(trace)
    assert (intel.uops, amd.uops) == (200, 100)
    assert Gus(Microarchitecture.load("skylake_x")).run(loop(["addps load"], 100)).uops == 100


@pytest.mark.parametrize("core", WITH_FMA)
@pytest.mark.parametrize("names", [["load ymm2", "fma 3", "fma 2"], ["fma 3", "fma 2"]])
def test_figure_1_of_the_paper_takes_8_cycles(core, names):
    # Both versions: the chain of two FMAs on ymm0, whether the load is in the loop or not.
    assert cycles_per_iteration(names, core) == pytest.approx(8, rel=2e-3)


def test_streaming_reads_are_limited_by_each_levels_bandwidth():
    core = Microarchitecture.load("skylake_x")
    line = 64
    for level, size in (("L2", 512 << 10), ("L3", 8 << 20), ("memory", 64 << 20)):
        times = min(2 * size // line, 200_000)
        trace = loop(["load ymm"], times, address=lambda i, _, size=size: (1 << 30) + (i * line) % size)
        gus = Gus(core, warm=level != "memory")
        per_line = gus.run(trace).cycles / times
        floor = line / core.value(f"{level}_bandwidth")
        assert per_line >= 0.98 * floor, level
        assert per_line <= 4 * floor + 1, level


def test_misses_in_flight_are_limited_by_the_fill_buffers():
    # Random lines of memory, independent: latency / line fill buffers a line, where bandwidth allows more.
    core = Microarchitecture.load("skylake_x").scaled("memory_bandwidth", 50).scaled("L3_bandwidth", 50)
    generator = np.random.default_rng(1)
    lines = generator.permutation(1 << 20)[:4000].tolist()
    trace = loop(["load"], 4000, address=lambda i, _: (1 << 32) + 64 * 2 * lines[i])
    found = Gus(core).run(trace).cycles / 4000
    expected = core.value("memory_latency") / core.value("line_fill_buffers")
    assert found == pytest.approx(expected, rel=0.05)


def random_trace(seed: int, instructions: int, times: int) -> Trace:
    generator = np.random.default_rng(seed)
    names = generator.choice([name for name in CODE if name != "jne"], instructions).tolist()
    spread = int(generator.choice([64, 4096, 1 << 18, 1 << 24]))
    offsets = generator.integers(0, spread, 997)
    aligned = generator.random() < 0.5
    return loop(
        names,
        times,
        address=lambda i, o: (1 << 30) + int(offsets[(i * 31 + o * 7) % 997]) * (32 if aligned else 1),
    )


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), core=st.sampled_from(["skylake_x", "zen4"]))
def test_the_plain_python_oracle_agrees_to_the_tick(seed, core):
    trace = random_trace(seed, 9, 60)
    gus = Gus(Microarchitecture.load(core))
    result = Gus(gus.core, schedule=trace.instruction_count).run(trace)
    exact = run_exact(gus, trace)
    assert exact.ticks == result.ticks
    assert exact.retired == result.schedule[:, 4].tolist()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), core=st.sampled_from(["skylake_x", "alder_lake_p", "zen3"]))
def test_accounting_is_exact_and_lanes_agree(seed, core):
    trace = random_trace(seed, 12, 80)
    gus = Gus(Microarchitecture.load(core))
    result = gus.run(trace)
    assert int(result.spent.sum()) == result.ticks
    assert (result.spent >= 0).all()
    assert result.cpi_stack().sum() == pytest.approx(result.cycles / result.instructions)
    assert simulate_cores(gus, trace, [gus.core])[0] == result.cycles


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), weight=st.sampled_from([1.1, 1.5, 2.0, 4.0]))
def test_no_better_resource_makes_the_model_slower(seed, weight):
    trace = random_trace(seed, 10, 80)
    gus = Gus(Microarchitecture.load("zen4"))
    names = swept(gus, trace)
    cycles = simulate_cores(gus, trace, [gus.core, *(gus.core.scaled(name, weight) for name in names)])
    worse = {name: c - cycles[0] for name, c in zip(names, cycles[1:], strict=True) if c > cycles[0]}
    assert not worse


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 59))
def test_more_instructions_never_cost_less(seed, cut):
    trace = random_trace(seed, 8, 60)
    gus = Gus(Microarchitecture.load("skylake_x"))
    assert gus.run(trace.head(8 * cut)).ticks <= gus.run(trace).ticks


def test_chunks_do_not_change_the_result(monkeypatch):
    trace = random_trace(3, 10, 200)
    gus = Gus(Microarchitecture.load("skylake_x"))
    whole = gus.run(trace)
    monkeypatch.setattr("perfkit.simulators.gus.CHUNK", 7)
    pieces = gus.run(trace)
    assert pieces.ticks == whole.ticks
    assert (pieces.spent == whole.spent).all()
    assert pieces.accesses == whole.accesses


def test_the_result_says_where_time_and_resources_went(tmp_path):
    trace = loop(["load ymm2", "fma 3", "fma 2"], 500)
    gus = Gus(Microarchitecture.load("skylake_x"), warm=True, schedule=30, schedule_first=300)
    result = gus.run(trace)
    frame = result.to_frame()
    assert frame["executions"].tolist() == [500, 500, 500]
    assert frame["text"].str.contains("vfmadd231ps").sum() == 2
    assert "%ymm" in frame["att"][1]
    assert frame["cause"].tolist()[1:] == ["instruction_latency", "instruction_latency"]
    assert frame.loc[1:, "p01"].sum() == pytest.approx(1)
    occupancy = result.resources()["occupancy"]
    assert occupancy["p01"] == pytest.approx(1 / 8, rel=0.01)  # two FMAs in eight cycles on two ports
    assert occupancy["p23"] == pytest.approx(1 / 16, rel=0.01)
    window = result.schedule_frame()
    assert len(window) == 30
    assert (window["dispatch"] <= window["start"]).all()
    assert (window["start"] < window["end"]).all()
    assert (window["end"] <= window["retire"]).all()
    path = result.save(tmp_path / "run.npz")
    again = GusResult.load(path, gus, trace)
    assert again.ticks == result.ticks
    assert again.cpi_stack().equals(result.cpi_stack())
    assert result.to_dict()["kind"] == "simulated"
    assert len(result.with_schedule(0, 5).schedule) == 5


def test_bad_input_is_refused(tmp_path):
    gus = Gus(Microarchitecture.load("skylake_x"))
    with pytest.raises(DataError, match="no executed instruction"):
        gus.run(loop(["add"], 0))
    with pytest.raises(DataError, match="trace is of x86-64 code, cortex_a72 runs aarch64"):
        Gus(Microarchitecture.load("cortex_a72")).run(loop(["add"], 1))
    with pytest.raises(SettingError, match="0 or more"):
        Gus(gus.core, schedule=-1).run(loop(["add"], 1))
    broken = StaticCode("x86-64", [0], [b"\x06"], ["?"], ["f"], [0, 1], [0, 0], [], [], [])
    with pytest.raises(DataError, match="the bytes 06 at 0x0 are not one x86-64 instruction"):
        gus.run(Trace.from_parts(broken, [0]))
    junk = tmp_path / "junk.npz"
    junk.write_bytes(b"not an npz")
    with pytest.raises(FormatError, match="not a saved Gus result"):
        GusResult.load(junk, gus, loop(["add"], 1))
