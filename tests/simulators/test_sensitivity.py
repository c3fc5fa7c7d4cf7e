"""Sensitivity: the paper's speedups where they can be said beforehand."""

import pytest

from perfkit.errors import SettingError
from perfkit.microarchitecture import Microarchitecture
from perfkit.simulators.gus import Gus
from perfkit.simulators.sensitivity import sensitivity, simulate_cores
from tests.simulators.handmade import loop

SKYLAKE = Gus(Microarchitecture.load("skylake_x"), warm=True)


def test_a_latency_bound_loop_gains_what_latency_gains():
    # s = f(c) / f(w c) - 1 is w - 1 where nothing but latency counts (Fig. 1 of the paper).
    found = sensitivity(SKYLAKE, loop(["load ymm2", "fma 3", "fma 2"], 2000))
    assert found.bottleneck == "instruction_latency"
    table = found.to_frame()
    for weight in (1.1, 1.5, 2.0):
        assert table.loc["instruction_latency", weight] == pytest.approx(weight - 1, rel=0.01)
    assert table.drop(index=["instruction_latency"]).max().max() < 0.01


def test_a_port_bound_loop_gains_from_the_port_until_the_next_limit():
    found = sensitivity(SKYLAKE, loop(["free addps"], 2000))
    assert found.bottleneck == "p01"
    # Half a cycle on p01; then p015 at a third: no more than a factor of 1.5 is to be had.
    assert found.to_frame().loc["p01", 2.0] == pytest.approx(0.5, rel=0.02)


def test_unused_resources_have_no_sensitivity():
    table = sensitivity(
        SKYLAKE, loop(["imul"], 1000), resources=["p23", "p4", "L2_bandwidth", "memory_latency"]
    ).to_frame()
    assert (table == 0).all().all()


def test_two_equal_limits_show_only_as_a_pair():
    # Front end and retirement are both four wide: either alone gains nothing.
    found = sensitivity(SKYLAKE, loop(["nop"] * 8, 500), resources=["front_end", "retire"], pairs=True)
    assert found.bottleneck == "none"
    pair = found.pairs_frame().iloc[0]
    assert pair["speedup"] == pytest.approx(1, rel=0.01)
    assert pair["beyond"] == pytest.approx(pair["speedup"], rel=0.02)


def test_weights_below_one_slow_down():
    found = sensitivity(SKYLAKE, loop(["fma ymm0"], 500), weights=[0.5], resources=["instruction_latency"])
    assert found.speedups[0] == pytest.approx(-0.5, rel=0.01)


def test_a_wider_window_hides_memory_latency():
    core = Microarchitecture.load("skylake_x")
    trace = loop(["load", *["nop"] * 40], 1000, address=lambda i, _: (1 << 30) + (i * 7919 * 64) % (1 << 27))
    found = sensitivity(Gus(core), trace, resources=["rob", "memory_latency", "p01234"[:3]])
    table = found.to_frame()
    assert table.loc["rob", 2.0] > 0.3
    assert table.loc["memory_latency", 2.0] > 0.3
    assert found.to_dict()["bottleneck"] in ("rob", "memory_latency")


def test_an_optimised_version_stresses_the_parents_bottleneck_no_more():
    # The paper's consistency check (section 4.4): one chain of FMAs split into two.
    parent, child = loop(["fma ymm0"] * 2, 1000), loop(["fma ymm0", "fma ymm1"], 1000)
    before, after = sensitivity(SKYLAKE, parent), sensitivity(SKYLAKE, child)
    assert after.cycles < before.cycles
    limit = before.bottleneck
    assert after.to_frame().loc[limit, 2.0] <= before.to_frame().loc[limit, 2.0] + 1e-9


def test_more_configurations_than_lanes(monkeypatch):
    trace = loop(["load", "add", "store", "imul"], 300)
    cores = [SKYLAKE.core.scaled("instruction_latency", 1 + k / 10) for k in range(9)]
    whole = simulate_cores(SKYLAKE, trace, cores)
    monkeypatch.setattr("perfkit.simulators.sensitivity.LANES", 4)
    assert (simulate_cores(SKYLAKE, trace, cores) == whole).all()
    assert (whole[1:] <= whole[:-1]).all()


def test_bad_settings():
    trace = loop(["add"], 10)
    with pytest.raises(SettingError, match="at least one resource"):
        sensitivity(SKYLAKE, trace, resources=[])
    with pytest.raises(SettingError, match="no resource 'p9'"):
        sensitivity(SKYLAKE, trace, resources=["p9"])
    with pytest.raises(SettingError, match="above 0"):
        sensitivity(SKYLAKE, trace, weights=[0])
    with pytest.raises(SettingError, match="at most 2048 entries"):
        sensitivity(SKYLAKE, trace, weights=[100], resources=["rob"])
