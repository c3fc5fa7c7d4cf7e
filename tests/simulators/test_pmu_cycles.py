"""Events of whole cycles, occupancies and full buffers: hand-computed loops, and sums that must agree."""

import time

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.machine.classes import CLASSES, class_of, classes_of
from perfkit.simulators.gus import timing
from perfkit.simulators.pmu.credit import Variants
from perfkit.simulators.pmu.cycles import CycleCounts
from perfkit.simulators.pmu.recorder import recorder
from tests.simulators.assembled import loop, needs_assembler

CORES = ("skylake_x", "golden_cove", "zen4", "zen5")


def totals(core, trace, **settings) -> pd.Series:
    samples = pk.SimulatedPmu(core, intervals=6, **settings).collect(trace)
    table = samples.table
    counts = table.groupby("event", observed=True)["count"].sum()
    counts["cycles"] = samples.intervals()["time"].sum()
    return counts


@pytest.mark.parametrize("name", ["triad", "divider", "branchy", "store-forward"])
def test_every_cycle_is_counted_once(name):
    trace = pk.datasets.load(f"traces/{name}")
    found = totals("skylake_x", trace)
    for what in ("exec", "retired"):
        cycles = sum(found[f"{what}.{k}"] for k in ("0", "1", "2", "3+"))
        assert cycles == pytest.approx(found["cycles"], abs=1.0)
    assert found["exec.0.pending.l1"] <= min(found["exec.0"], found["pending.l1"])
    assert found["pending.l3.4+"] <= found["pending.l3"] <= found["pending.l2"] <= found["pending.l1"]
    assert found["occupancy.misses"] >= found["pending.l1"] - 1


@needs_assembler
def test_a_chain_of_multiplications_begins_one_every_three_cycles():
    found = totals("skylake_x", loop("imul rax, rbx", 3000))
    assert found["exec.1"] == pytest.approx(3000, rel=0.01)
    assert found["exec.0"] == pytest.approx(6000, rel=0.01)
    assert found["retired.1"] == pytest.approx(3000, rel=0.01)
    # All behind the first 224 wait three cycles for an entry, but for the quarter that the front end takes.
    assert found["full.rob"] == pytest.approx((3000 - 224) * 2.75, rel=0.02)
    assert found["occupancy.rob"] / found["cycles"] == pytest.approx(224, rel=0.1)


@needs_assembler
def test_four_independent_additions_fill_every_cycle():
    found = totals("skylake_x", loop("lea rax,[r8+1]\nmov rbx,[r9]\nnop\nnop", 1000), warm=True)
    assert found["retired.3+"] == pytest.approx(1000, rel=0.05)
    assert found["full.rob"] == 0


def test_a_miss_is_pending_from_its_beginning_to_its_end():
    record = recorder(0, 2)
    record.times[:] = np.array([[0, 1], [2, 3], [12, 4], [12, 13], [0, 0]]) * timing.TICKS
    counts = CycleCounts(np.array([1], dtype=np.int32))
    counts.add(record, np.array([2, 0]))
    counts.end_stretch(8 * timing.TICKS)
    counts.add(recorder_at(2, 20), np.array([0]))
    counts.end_stretch(20 * timing.TICKS)
    first, second = (pd.Series(row, index=list(pk_events())) for row in counts.totals())
    assert first["pending.l1"] == first["pending.l2"] == 6  # cycles 2 to 7 of the first eight
    assert second["pending.l1"] == 4  # 8 to 11
    assert first["pending.l3"] == 0
    assert first["exec.1"] == 2
    assert first["exec.0.pending.l1"] == 4
    assert second["retired.1"] == 3


def recorder_at(first: int, cycle: int):
    record = recorder(first, 1)
    record.times[:] = cycle * timing.TICKS
    return record


def pk_events():
    from perfkit.simulators.pmu.cycles import EVENTS

    return EVENTS


@pytest.mark.parametrize("name", CORES)
def test_every_resource_of_a_core_has_a_class(name):
    core = pk.Microarchitecture.load(name)
    classes = classes_of(core)
    assert set(classes) <= set(CLASSES)
    assert len(classes) >= 17
    listed = [resource for names in classes.values() for resource in names]
    assert len(listed) == len(set(listed)) >= len(core.resources) - 2


def test_what_is_no_resource_has_no_class():
    assert class_of("phlogiston") == "other"


def test_credit_is_shared_between_classes_that_bind_together():
    """Two classes that give nothing alone and everything together get half each; a third gets nothing."""
    variants = Variants(pk.Microarchitecture.load("skylake_x"), orders=8, seed=1)
    names = list(variants.classes)
    a, b = names.index("load ports"), names.index("pipeline width")
    found = variants.shared(np.array([50.0 if {a, b} <= one else 100.0 for one in variants.sets]))
    assert found.credit["load ports"] == pytest.approx(np.log(2) / 2)
    assert found.credit["pipeline width"] == pytest.approx(np.log(2) / 2)
    assert found.credit.sum() == pytest.approx(np.log(2))
    assert found.alone.abs().max() == 0


@pytest.mark.parametrize(("name", "of"), [("divider", "dividers"), ("branchy", "mispredicted branches")])
def test_credit_goes_to_what_a_kernel_was_written_for(name, of):
    core = pk.Microarchitecture.load("skylake_x")
    found = Variants(core).credit(pk.Gus(core), pk.datasets.load(f"traces/{name}"))
    assert found.credit.idxmax() == of
    every = pk.Gus(core).cycles(pk.datasets.load(f"traces/{name}"), [core, Variants(core).cores[-1]])
    assert found.credit.sum() > 0
    assert found.credit.sum() <= np.log(every[0] / every[1]) + 1.0


def test_many_short_steps_beside_a_long_miss_take_time_by_cycle_not_by_step():
    """The whole window was moved in every step: a pointer chase took time by the square of its length."""
    counts, begun = CycleCounts(np.ones(1, dtype=np.int32)), time.process_time()
    for step in range(600):
        record = recorder(step, 1)
        record.times[:] = np.array([[2 * step], [2 * step], [(1 << 18) + step], [(1 << 18) + step], [0]]) * timing.TICKS
        counts.add(record, np.array([3]))
    counts.end_stretch((1 << 19) * timing.TICKS)
    assert counts.totals()[0].sum() > 0
    assert time.process_time() - begun < 3.0  # it took some 15 s
