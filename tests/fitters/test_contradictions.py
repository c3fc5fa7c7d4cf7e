"""Counts that contradict each other by their meaning, classes of which nothing is used, and what no stack may say."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.bottlenecks.doubts import CONTRADICT, contradicting_counts
from perfkit.fitters.bottlenecks.names import event_map
from perfkit.fitters.bottlenecks.stacks import against
from perfkit.machine.core import Microarchitecture
from tests.fitters.test_real_names import TRACES, as_dump

CORES = ("skylake_x", "golden_cove", "zen4", "zen5")
CORE = "skylake_x"


def _samples(core, runs=("latency-add",)):
    return pk.SimulatedPmu(core, intervals=4).collect({n: pk.datasets.load(f"traces/{n}") for n in runs})


def _without_scale(dump, by, but=("cycles", "instructions")):
    table = dump.table.copy()
    table["count"] = table["count"] * np.where(table["event"].isin(but), 1.0, by)
    return pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")


@pytest.fixture(scope="module")
def model():
    return pk.Bottlenecks.load(CORE)


@pytest.mark.parametrize("by", [0.0, 0.001, 0.01])
def test_events_in_another_unit_than_cycles_name_nothing_and_support_no_stack(model, by):
    """All in thousands: "vector units (90%): 0% of its busiest ports used", and a stack of "base 100%, supported"."""
    dump = _without_scale(as_dump(_samples(CORE), model.core), by)
    found = model.explain(dump, intervals=False)
    assert found.answer("latency-add") == "cannot tell"
    assert found.doubts["doubt"].str.startswith(CONTRADICT).any()
    assert CONTRADICT in found.summary()
    stack = model.stacks(dump)
    assert stack.runs["verdict"].tolist() == ["unsupported"]
    assert CONTRADICT in stack.runs["doubt"][0]
    assert f"unsupported: {CONTRADICT}" in stack.summary()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uops_retired.retire_slots": 0.002}, "times uops_retired.retire_slots, which can be 2 times at most"),
        ({"mem_inst_retired.all_loads": 0.1, "mem_inst_retired.all_stores": 0.0, "mem_load_retired.l3_miss": 0.2},
         "mem_load_retired.l3_miss is 2 times mem_inst_retired.all_loads + mem_inst_retired.all_stores"),
        ({"br_inst_retired.all_branches": 0.1, "br_inst_retired.near_taken": 0.3},
         "br_inst_retired.near_taken is 3 times br_inst_retired.all_branches"),
        ({"cycle_activity.stalls_l3_miss": 0.9, "cycle_activity.stalls_total": 0.1},
         "cycle_activity.stalls_l3_miss is 9 times cycle_activity.stalls_total"),
        ({"cycle_activity.stalls_total": 0.9, "exe_activity.1_ports_util": 0.9, "exe_activity.2_ports_util": 0.9},
         "is 2.7 times cycles"),
        ({"mem_load_retired.l3_miss": 0.01, "mem_load_retired.l2_miss": 0.0},
         "mem_load_retired.l2_miss is 0, mem_load_retired.l3_miss is not"),
        ({"dtlb_load_misses.walk_active": 0.8, "dtlb_load_misses.walk_completed": 0.0},
         "dtlb_load_misses.walk_completed is 0, dtlb_load_misses.walk_active is not"),
    ],
)  # fmt: skip
def test_counts_that_contradict_each_other_end_in_no_answer(model, changes, told):
    dump = as_dump(_samples(CORE), model.core, changes)
    found = model.explain(dump, intervals=False)
    assert found.doubts["doubt"].str.contains(told, regex=False).any(), found.doubts.to_string()
    assert found.answer("latency-add") == "cannot tell"
    assert model.stacks(dump).runs["verdict"].tolist() == ["unsupported"]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("running", [1.0, 0.3])
def test_noise_and_turns_contradict_nothing(core, running):
    """Counts 5 % off, and where counters ran in turns, each event in a third of the intervals, drawn at random."""
    machine = Microarchitecture.load(core)
    table = as_dump(_samples(core, TRACES), machine).table.copy()
    draw = np.random.default_rng(3)
    table["count"] *= np.maximum(draw.normal(1.0, 0.05, len(table)), 0.0)
    if running < 1.0:
        table = table[draw.random(len(table)) < running].assign(running=running)
    noisy = pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")
    assert contradicting_counts(noisy) == {}


def test_the_table_of_contradictions_is_of_events_that_the_map_or_the_lists_know():
    from perfkit.fitters.bottlenecks.names import map_rows, published

    known = {row[1] for row in map_rows()} | set(published()) | {"cycles", "instructions"}
    rules = event_map()["at_most"]
    named = {each for rule in rules for each in (*rule["above"], *(name for below in rule["below"] for name in below))}
    assert named <= known, named - known
    assert all(rule.get("most", 1.0) >= 1.0 for rule in rules)


@pytest.mark.parametrize("core", ["skylake_x", "golden_cove"])
def test_ports_that_integer_and_vector_units_share_tell_neither(core):
    """Shifts on a Skylake were "vector units (93%)": p0 and p6 at 89 % both, and not one vector instruction."""
    machine = Microarchitecture.load(core)
    port = "uops_dispatched_port.port_" if core == "skylake_x" else "uops_dispatched.port_"
    parts = {f"{port}{n}": part for n, part in (("0", 0.9), ("1", 0.0), ("5", 0.0), ("6", 0.9))}
    parts |= {f"cycle_activity.stalls_{part}": 0.0 for part in ("total", "l1d_miss", "l2_miss", "l3_miss")}
    parts |= {"exe_activity.1_ports_util": 0.0, "exe_activity.2_ports_util": 0.8}
    parts["uops_dispatched.port_5_11" if core == "golden_cove" else f"{port}5"] = 0.0
    parts = {name: part for name, part in parts.items() if core == "skylake_x" or name != f"{port}5"}
    explain = pk.Bottlenecks.load(core).explain
    shifts = explain(as_dump(_samples(core), machine, parts), intervals=False)
    first = shifts.of("latency-add").set_index("resource")["probability"]
    if core == "skylake_x":
        assert shifts.answer("latency-add") == "cannot tell"
        assert first["integer units"] == first["vector units"]
        assert "cannot tell between integer units and vector units" in shifts.summary()
    multiplied = explain(as_dump(_samples(core), machine, parts | {f"{port}1": 0.9, f"{port}6": 0.0}), intervals=False)
    assert "cannot tell between" not in multiplied.summary()
    told = multiplied.of("latency-add").set_index("resource")["probability"]
    assert told["integer units"] != told["vector units"]


def test_a_stack_without_the_mispredictions_that_its_counts_give_is_not_supported(model):
    """Random branches: "base 98%, misprediction 2%; supported: 8%", where 46 % of the cycles restart by the counts."""
    dump = as_dump(_samples(CORE), model.core)
    assert model.stacks(dump).runs["verdict"].tolist() == ["supported"]
    assert model.stacks(dump).runs["against"].tolist() == [""]
    changes = {"br_misp_retired.all_branches": 0.02, "br_inst_retired.all_branches": 0.3}
    found = model.stacks(as_dump(_samples(CORE), model.core, changes))
    given = found.of("latency-add")["misprediction"] / found.runs["cpi"][0]
    assert (found.runs["against"][0] != "") == (0.32 / 2 - given > 0.15)
    assert found.runs["verdict"][0] != "supported"


def test_a_stack_is_held_against_what_its_counts_give():
    table = pd.DataFrame({"cpi": [2.0] * 4, "misprediction": [0.04, 0.7, 0.0, 0.0], "memory": [0.0, 0.0, 0.08, 0.0]})
    shares = {
        "mispredicted branches: branch-misses": np.array([0.46, 0.46, 0.0, np.nan]),
        "memory latency: exec.0.pending.l3": np.array([0.0, 0.1, np.nan, np.nan]),
        "memory latency: l3.misses": np.array([np.nan, 0.1, 3.0, np.nan]),
    }
    assert against(table, shares) == [
        "its counts alone give misprediction 46% of the cycles, the stack 2%", "",
        "its counts alone give memory 100% of the cycles, the stack 4%", "",
    ]  # fmt: skip


def test_two_programs_in_one_dump_are_told_beside_the_answer(model):
    """One confident answer named the first: the intervals of the other were told by `why` alone."""
    first, second = (as_dump(_samples(CORE, (run,)), model.core).table for run in ("triad", "divider"))
    second = second.assign(interval=second["interval"] + first["interval"].max() + 1)
    table = pd.concat([each.assign(run="both") for each in (first, second)], ignore_index=True)
    both = pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")
    found = model.explain(both)
    assert len(found.phases("both")) == 1
    if found.answer("both") != "cannot tell":
        assert "its intervals differ" in found.summary()
    assert model.explain(as_dump(_samples(CORE, ("divider",)), model.core)).phases("divider") == []
