"""Gus prepared for one trace gives what Gus gives; a slider's ranking is the whole one."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.simulators.gus.gus import Gus


@pytest.fixture(scope="module", params=["correlation-v5-small", "l2-bound", "branchy"])
def pair(request):
    gus = Gus(pk.Microarchitecture.load("skylake_x"), warm=True)
    trace = pk.datasets.load(f"traces/{request.param}").head(60_000)
    return gus, trace, pk.prepare(gus, trace)


def test_a_prepared_run_is_the_run(pair):
    gus, trace, prepared = pair
    for _ in range(2):  # it can be gone through again
        plain, again = gus.run(trace), prepared.run(trace)
        assert again.ticks == plain.ticks
        assert np.array_equal(again.spent, plain.spent)
        assert again.branches == plain.branches
        assert np.array_equal(again.served.served, plain.served.served)
    assert np.array_equal(prepared.run(trace).causality().counts, gus.run(trace).causality().counts)


def test_prepared_sensitivity_and_what_if_are_those_of_the_trace(pair):
    gus, trace, prepared = pair
    names = ["instruction_latency", "L1_latency", "L2_bandwidth", "front_end", "rob"]
    assert np.array_equal(
        prepared.sensitivity((1.5, 2.0), names).speedup, pk.sensitivity(gus, trace, (1.5, 2.0), names).speedup
    )
    changed = {"L1_latency": 2.0, "rob": 0.5}
    assert prepared.what_if(changed).cycles == pk.what_if(gus, trace, changed).cycles


def test_another_trace_is_not_the_prepared_one(pair):
    gus, trace, prepared = pair
    other = trace.head(5_000)
    assert prepared.run(other).ticks == gus.run(other).ticks


def test_the_ranker_leaves_out_only_what_gives_nothing(pair):
    _, _, prepared = pair
    rank = prepared.ranker(most=3.0)
    for weight in (1.1, 2.0, 3.0):
        whole = prepared.sensitivity((weight,)).to_frame().set_index("resource").iloc[:, 0]
        found = rank(weight).set_index("resource").iloc[:, 0]
        assert set(found.index) == set(whole.index)
        assert found[whole.index].to_numpy() == pytest.approx(whole.to_numpy(), abs=1e-12)
        assert found.is_monotonic_decreasing
    with pytest.raises(SettingError, match="from 1 to 3"):
        rank(4.0)


def test_a_core_what_if_has_the_caches_and_tables_of_the_core_as_it_is(pair):
    gus, trace, _ = pair
    # One capacity changed is the same question as a sensitivity to it.
    for name in ("L1_latency", "L2_latency", "instruction_latency"):
        alone = pk.sensitivity(gus, trace, (2.0,), [name])
        changed = pk.what_if(gus, trace, {name: 2.0}, resources=["rob"])
        assert alone.cycles / changed.cycles - 1 == pytest.approx(float(alone.speedup[0, 0]), abs=1e-12)


def test_a_prepared_gus_is_itself_and_no_other(pair):
    gus, trace, prepared = pair
    again = pk.prepare(gus, trace)
    assert len({prepared, again, prepared}) == 2
    assert prepared != again
