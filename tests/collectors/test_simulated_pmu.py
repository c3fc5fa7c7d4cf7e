"""The simulated PMU: hand-computed counts, sums that equal the whole simulation, and what its samples say they are."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.simulators.gus import timing
from perfkit.simulators.pmu.simulated_pmu import SimulatedPmu
from perfkit.simulators.pmu.stepping import Stepping
from perfkit.trace.trace import Trace
from tests.simulators.assembled import loop, needs_assembler

N = 100
BODY = """
top:
mov rax, [rdi]
mov [rsi], rax
add rcx, 1
cmp rcx, rdx
jne top
"""
SHIPPED = ("branchy", "gemm-avx2", "pointer-chase", "store-forward", "masked-update-avx512")


@pytest.fixture(scope="module")
def core():
    return pk.Microarchitecture.load("skylake_x")


def shipped(name: str) -> Trace:
    return pk.datasets.load(f"traces/{name}")


def totals(samples: pk.Samples) -> pd.Series:
    return samples.table.groupby("event", observed=True)["count"].sum()


def crossing(_iteration: int, operand: int) -> int:
    """The first operand (8 bytes, read) begins 4 bytes before the end of a line; the second lies in one."""
    return 4096 + 60 if operand == 0 else 8192


@needs_assembler
@pytest.mark.parametrize("unit", ["cycles", "instructions"])
def test_counts_are_those_of_the_trace(core, unit):
    samples = SimulatedPmu(core, intervals=7, unit=unit).collect(loop(BODY, N, crossing))
    found = totals(samples)
    assert found["branches"] == N
    assert found["mem-loads"] == N
    assert found["mem-stores"] == N
    assert found["mem-splits"] == N
    assert found["l1.accesses"] == 3 * N  # a split load asks for two lines
    assert found["uops"] == 4 * N  # cmp and jne are one
    assert found["uops.p237"] == 2 * N  # addresses: the load's and the store's
    assert found["uops.p4"] == N  # the store's data
    assert found["store-forwards"] == 0
    assert samples.intervals()["work"].sum() == 5 * N
    assert samples.work_event == "instructions"
    assert samples.time_event == "cycles"


@needs_assembler
def test_forwards_are_loads_of_what_one_of_the_last_stores_wrote(core):
    body = "mov [rdi], rax\nmov rbx, [rsi]"
    buffer = int(core.value("store_buffer"))
    for distance, expected in ((0, N), (10, N - 10), (buffer - 1, N - buffer + 1), (buffer, 0)):
        trace = loop(body, N, lambda k, m, back=distance: 65536 + 64 * (k - (back if m else 0)))
        assert totals(SimulatedPmu(core, intervals=3).collect(trace))["store-forwards"] == expected, distance


@pytest.mark.parametrize("unit", ["cycles", "instructions"])
@pytest.mark.parametrize("name", SHIPPED)
def test_sums_over_intervals_are_the_whole_simulation(core, name, unit):
    trace = shipped(name)
    whole = pk.Gus(core).run(trace)
    samples = SimulatedPmu(core, intervals=15, unit=unit).collect(trace)
    found, intervals = totals(samples), samples.intervals()
    assert intervals["time"].sum() == pytest.approx(whole.cycles, rel=1e-12)
    assert intervals["work"].sum() == whole.instructions
    assert found["branch-misses"] == whole.branches[1]
    served, prefetched = whole.served.served, whole.served.prefetched
    assert found["l1.accesses"] == served.sum()
    assert found["l1.misses"] == served[1:].sum()
    assert [found["l2.hits"], found["l3.hits"], found["l3.misses"]] == served[1:].tolist()
    assert found["l2.misses"] == served[2:].sum()
    assert found["l2.prefetches"] == prefetched.sum()
    assert found["l3.prefetch-misses"] == prefetched[3]
    stack = whole.cpi_stack() * whole.instructions
    for event, cause in (("stall.misprediction", "misprediction_penalty"), ("stall.rob", "rob")):
        assert found[event] == pytest.approx(stack.get(cause, 0.0), abs=1e-9)


@pytest.mark.parametrize("name", ["branchy", "store-forward"])
def test_stepping_by_single_blocks_is_the_simulation(core, name):
    trace = shipped(name).head(3000)
    whole = pk.Gus(core).run(trace)
    stepping = Stepping(pk.Gus(core), trace)
    while not stepping.done:
        stepping.step(1)
    assert np.array_equal(stepping.spent, whole.spent.sum(axis=0))
    assert stepping.ticks == whole.ticks
    assert stepping.cycles == whole.ticks / timing.TICKS
    assert stepping.mispredictions == whole.branches[1]
    assert np.array_equal(stepping.served, whole.served.served)
    assert stepping.instructions == trace.instruction_count


def test_intervals_have_the_length_asked_for(core):
    trace = shipped("gemm-avx2")
    by_work = SimulatedPmu(core, interval=3000, unit="instructions").collect(trace).intervals()
    longest = int(np.diff(trace.code.block_start).max())
    assert by_work["work"].iloc[:-1].between(3000 - longest, 3000 + longest).all()
    by_time = SimulatedPmu(core, interval=1000).collect(trace).intervals()
    assert by_time["time"].iloc[1:-1].median() == pytest.approx(1000, rel=0.05)
    assert (by_time["at"].diff().dropna() > 0).all()
    assert by_time["seconds"].sum() == pytest.approx(by_time["time"].sum() / 2.5e9)  # the core's nominal clock


def test_an_interval_longer_than_the_run_holds_all_of_it(core):
    trace = shipped("divider")
    samples = SimulatedPmu(core, interval=10**9).collect(trace)
    assert samples.n_intervals == 1
    assert samples.intervals()["work"].tolist() == [trace.instruction_count]


def test_a_warm_run_over_little_data_misses_nothing(core):
    cold, warm = (totals(SimulatedPmu(core, intervals=5, warm=w).collect(shipped("store-forward"))) for w in (0, 1))
    assert cold["l1.misses"] > 0
    assert warm["l1.misses"] == 0


@pytest.mark.parametrize("name", ["skylake_x", "zen4"])
def test_all_of_it_says_that_it_is_simulated(name):
    pmu = SimulatedPmu(name, intervals=5)
    samples = pmu.collect({"mine": shipped("divider")})
    assert samples.kind == "simulated"
    assert pmu.truth({"mine": shipped("divider")}).kind == "simulated"
    run = samples.runs.loc["mine"]
    assert run["host"] == f"simulated {name}"
    about = json.loads(run["parameters"])
    assert about["pmu"]["core"] == name
    assert about["trace"]["workload"] == "divider"
    assert about["trace"]["backend"] == "cloner"


def test_every_event_is_described(core):
    pmu = SimulatedPmu(core, intervals=3)
    samples = pmu.collect(shipped("divider"))
    described = pmu.events()
    assert set(samples.events) == set(described.index) - {"cycles", "instructions"}
    assert (described["meaning"].str.len() > 10).all()


def test_runs_are_named_after_the_mapping_or_the_trace(core):
    pmu, trace = SimulatedPmu(core, intervals=2), shipped("divider")
    assert list(pmu.collect({"a": trace, "b": trace}).runs.index) == ["a", "b"]
    assert list(pmu.collect([trace, trace]).runs.index) == ["divider", "divider (2)"]
    assert pmu.truth([trace, trace]).runs == ["divider", "divider (2)"]


class OfAKernel:
    """Whatever can be traced will do."""

    def trace(self) -> Trace:
        return shipped("divider")


def test_a_kernel_is_traced(core):
    assert SimulatedPmu(core, intervals=2).collect(OfAKernel()).intervals()["work"].sum() == 3013


def test_multiplexed_counts_are_estimates_and_say_so(core):
    trace = shipped("gemm-avx2")
    exact = SimulatedPmu(core, intervals=5).collect(trace)
    turns = SimulatedPmu(core, intervals=5, counters=12, rotations=4, seed=3).collect(trace)
    running = turns.table["running"]
    groups = -(-len(exact.events) // 12)
    assert running.mean() == pytest.approx(1 / groups, rel=0.2)
    assert (exact.table["running"] == 1).all()
    assert turns.intervals()["work"].sum() == trace.instruction_count
    assert turns.intervals()["time"].sum() == pytest.approx(exact.intervals()["time"].sum())
    assert totals(turns)["mem-loads"] == pytest.approx(totals(exact)["mem-loads"], rel=0.1)
    assert not np.allclose(totals(turns), totals(exact), rtol=1e-6)
    again = SimulatedPmu(core, intervals=5, counters=12, rotations=4, seed=3).collect(trace)
    pd.testing.assert_frame_equal(turns.table, again.table)


def test_noise_is_of_the_size_asked_for_and_spares_the_axes(core):
    trace = shipped("gemm-avx2")
    exact = SimulatedPmu(core, intervals=40).collect(trace)
    noisy = SimulatedPmu(core, intervals=40, noise=0.05, seed=1).collect(trace)
    counted = exact.table["count"] > 0
    error = noisy.table.loc[counted, "count"] / exact.table.loc[counted, "count"] - 1
    assert error.std() == pytest.approx(0.05, rel=0.15)
    assert abs(error.mean()) < 0.01
    for axis in ("time", "work"):
        assert np.array_equal(noisy.table[axis], exact.table[axis])
    other = SimulatedPmu(core, intervals=40, noise=0.05, seed=2).collect(trace)
    assert not np.allclose(other.table["count"], noisy.table["count"])


def test_a_trace_without_instructions_is_an_error(core):
    trace = shipped("divider")
    empty = replace(trace, stream=trace.stream[:0], addresses=trace.addresses[:0], sizes=trace.sizes[:0])
    with pytest.raises(DataError, match="no executed instruction"):
        SimulatedPmu(core).collect(empty)
    with pytest.raises(DataError, match="no executed instruction"):
        SimulatedPmu(core).truth({"x": empty})
    with pytest.raises(DataError, match="no executed instruction"):
        Stepping(pk.Gus(core), empty)


def test_what_is_no_trace_is_refused(core):
    with pytest.raises(DataError, match="no trace to run"):
        SimulatedPmu(core).collect([])
    with pytest.raises(DataError, match=r"found int under the name 'gemm'.*pk\.Trace\.load"):
        SimulatedPmu(core).collect({"gemm": 3})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"unit": "seconds"}, "unit is cycles or instructions; found 'seconds'"),
        ({"interval": 0}, "interval is a number of at least 1; found 0"),
        ({"intervals": 0}, "intervals"),
        ({"counters": 0}, "counters"),
        ({"rotations": 0}, "rotations"),
        ({"noise": -1.0}, "noise"),
        ({"noise": float("nan")}, "noise"),
    ],
)
def test_settings_out_of_range_are_refused(core, settings, words):
    with pytest.raises(SettingError, match=words):
        SimulatedPmu(core, **settings)


def test_spire_and_cpi_stack_take_the_samples_as_they_are(core):
    pmu = SimulatedPmu(core, intervals=30)
    train = pmu.collect({name: shipped(name) for name in ("branchy", "gemm-avx2", "triad", "store-forward")})
    test = pmu.collect({"jacobi": shipped("jacobi-1d-avx2")})
    ranking = pk.Spire().fit(train).rank(test)
    assert ranking.kind == ranking.training_kind == "simulated"
    assert ranking.throughput == pytest.approx(pk.Gus(core).run(shipped("jacobi-1d-avx2")).ipc)
    fit = pk.CpiStack(events=("branch-misses", "l2.hits", "l3.misses"), resamples=0).fit(train)
    assert fit.kind == "simulated"
    assert fit.components.sum() + fit.residual == pytest.approx(fit.cpi)


def test_intervals_shorter_than_an_access_to_memory_are_told_of(core):
    trace = shipped("divider")
    (told,) = SimulatedPmu(core, interval=50).collect(trace).notes
    assert "divider: intervals of" in told
    assert "shorter than an access to memory (225)" in told
    assert SimulatedPmu(core, interval=2000).collect(trace).notes == ()
