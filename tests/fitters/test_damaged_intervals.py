"""One damaged count in one interval may decide a run whose sums are possible: it is found, named and left out."""

import pytest

import perfkit as pk
from perfkit.exploration.methods import try_all
from tests.fitters.test_counts_to_doubt import CHASE
from tests.fitters.test_dumps_by_hand import QUIET, ZEN4

# An addition after the other: in two thirds of the cycles nothing begins, and no load is waited for.
CHAIN = QUIET | {
    "cycle_activity.stalls_total": 0.68, "exe_activity.1_ports_util": 0.2, "exe_activity.2_ports_util": 0.1,
    "uops_retired.retire_slots": 0.5, "br_inst_retired.all_branches": 0.06, "br_inst_retired.near_taken": 0.06,
    "mem_inst_retired.all_loads": 0.02, "mem_inst_retired.all_stores": 0.01,
    **{f"uops_dispatched_port.port_{k}": r for k, r in enumerate((0.16, 0.1, 0.01, 0.01, 0.01, 0.1, 0.12, 0.01))},
}  # fmt: skip
DIVIDING = QUIET | {"arith.divider_active": 0.9, "cycle_activity.stalls_total": 0.7, "uops_retired.retire_slots": 0.4}


def counted(tmp_path, *, ipc, phases, damage=None, cycles=1.7e8, n=13):
    """Write ``n`` intervals, each with the rates of its phase; damage: event -> {interval: times}."""
    lines = ["# started on Mon Nov 30 01:00:00 2026", ""]
    for k in range(n):
        rates = phases[k * len(phases) // n]
        for event, rate in ({"cycles": 1.0, "instructions": ipc} | rates).items():
            count = cycles * (1 + 0.01 * (k % 3)) * rate * (damage or {}).get(event, {}).get(k, 1.0)
            lines.append(f"{(k + 1) / 5:.9f},{int(count)},,{event},200000000,100.00,,")
    (tmp_path / "app.csv").write_text("\n".join(lines) + "\n")
    return pk.read_samples(tmp_path / "app.csv")


def said(samples):
    return next(each for each in try_all(samples) if each.method == "Bottlenecks")


@pytest.mark.parametrize(
    ("core", "rates", "ipc", "event", "times"),
    [
        ("skylake_x", CHAIN | {"arith.divider_active": 0.01}, 0.45, "arith.divider_active", 1200),
        ("skylake_x", CHAIN, 0.45, "uops_dispatched_port.port_1", 110),
        ("skylake_x", CHAIN | {"longest_lat_cache.miss": 1e-3}, 0.45, "longest_lat_cache.miss", 1000),
        ("zen4", ZEN4 | {"ex_div_busy": 0.02}, 1.0, "ex_div_busy", 600),
    ],
)
def test_an_interval_whose_count_cannot_be_is_named_and_decides_nothing(core, rates, ipc, event, times, tmp_path):
    """Dividers busy for ten times the cycles in one interval: "dividers, 98 %, supported"."""
    model = pk.Bottlenecks.load(core)
    whole = model.explain(counted(tmp_path, ipc=ipc, phases=[rates]))
    assert not whole.left_out("app")
    samples = counted(tmp_path, ipc=ipc, phases=[rates], damage={event: {4: times}})
    found = model.explain(samples)
    assert found.answer("app") == whole.answer("app")
    assert found.of("app")["probability"][0] == pytest.approx(whole.of("app")["probability"][0], abs=0.02)
    (told,) = found.left_out("app")
    assert told.startswith("left out: interval 4 of 13: ")
    assert told in found.summary()
    assert told in found.why("app")
    stacks = model.stacks(samples).runs
    assert told in stacks["against"][0]
    assert stacks["verdict"][0] != "supported"


def test_lost_cycles_of_an_interval_leave_it_out(tmp_path):
    samples = counted(tmp_path, ipc=0.02, phases=[CHASE], damage={"cycles": {9: 0.002}})
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    assert found.answer("app") == "memory latency"
    assert "interval 9 of 13" in found.left_out("app")[0]
    assert said(samples).trust == "uncertain"
    assert found.left_out("app")[0] in said(samples).why


def test_many_damaged_intervals_are_left_in_and_the_run_is_doubted(tmp_path):
    """Two thirds of the cycles of all dividers, in four of thirteen intervals: their sum is possible."""
    damage = {"arith.divider_active": dict.fromkeys((1, 3, 4, 8), 200.0)}
    samples = counted(tmp_path, ipc=0.45, phases=[CHAIN | {"arith.divider_active": 0.01}], damage=damage)
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    assert found.answer("app") == "cannot tell"
    assert "interval 1 and 3 more intervals of 13" in found.doubts["doubt"][0]
    assert pk.Bottlenecks.load("skylake_x").stacks(samples).runs["verdict"].tolist() == ["unsupported"]


def test_a_count_that_matters_little_is_left_in(tmp_path):
    """A hundredth of an interval's cycles, counted in an interval that has hardly any."""
    damage = {event: {5: 1e-5} for event in ("cycles", "instructions", *CHASE)} | {"arith.divider_active": {5: 0.001}}
    samples = counted(tmp_path, ipc=0.02, phases=[CHASE | {"arith.divider_active": 0.1}], damage=damage)
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    assert not found.left_out("app")
    assert found.answer("app") == "memory latency"


def test_an_answer_that_the_intervals_do_not_give_is_told_with_them(tmp_path):
    """Divisions and loads from memory, one after the other: 'it depends on events that were not counted'."""
    samples = counted(tmp_path, ipc=0.4, phases=[DIVIDING, CHASE | {"instructions": 0.02}])
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    (told,) = found.phases("app")
    assert "dividers" in told
    assert "memory latency" in told
    assert told in found.summary()
    assert "it depends on events that were not counted" not in found.summary()


def test_intervals_agree_where_a_program_has_one_phase(tmp_path):
    found = pk.Bottlenecks.load("skylake_x").explain(counted(tmp_path, ipc=0.02, phases=[CHASE]))
    assert found.answer("app") == "memory latency"
    assert not found.phases("app")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"longest_lat_cache.miss": 1e-6}, "cycle_activity.stalls_l3_miss is 9.62e+05 times longest_lat_cache.miss"),
        (
            {"mem_load_retired.l3_hit": 0.0042},
            "l3_hit + mem_load_retired.l3_miss is 1.93 times mem_load_retired.l2_miss",
        ),
        ({"mem_load_retired.l3_miss": 0.0}, "mem_load_retired.l2_miss is 44"),
    ],
)
def test_waits_for_memory_without_misses_are_a_contradiction(changes, told, tmp_path):
    """All misses of L2 hit L3, and 95 % of the cycles wait for misses of L3: "memory latency, 95 %, supported"."""
    samples = counted(tmp_path, ipc=0.02, phases=[CHASE | changes], n=3)
    found = pk.Bottlenecks.load("skylake_x").explain(samples, intervals=False)
    assert found.answer("app") == "cannot tell"
    assert told in found.doubts["doubt"][0]


def test_stores_that_fill_their_buffer_are_named(tmp_path):
    """In 0.82 of the cycles: "store forwarding or instruction latency"."""
    stores = CHAIN | {
        "cycle_activity.stalls_total": 0.86, "exe_activity.1_ports_util": 0.08, "exe_activity.2_ports_util": 0.04,
        "resource_stalls.sb": 0.9, "exe_activity.bound_on_stores": 0.82, "mem_inst_retired.all_stores": 0.19,
        "uops_retired.retire_slots": 0.4, "uops_dispatched_port.port_4": 0.19,
    }  # fmt: skip
    found = pk.Bottlenecks.load("skylake_x").explain(counted(tmp_path, ipc=0.38, phases=[stores], n=3), intervals=False)
    assert "stores that wait in a full store buffer" in found.summary()
    assert "82%" in found.summary()


def test_golden_coves_own_names_of_stalls_are_known(tmp_path):
    rates = {"memory_activity.stalls_l3_miss": 0.9, "memory_activity.stalls_l2_miss": 0.91}
    samples = counted(tmp_path, ipc=0.02, phases=[rates], n=2)
    used = pk.Bottlenecks.load("golden_cove").explain(samples, intervals=False).events
    assert {"exec.0.pending.l2", "exec.0.pending.l3"} <= set(used["simulated"])


def test_a_dump_of_another_processor_is_not_said_to_count_what_cannot_be(tmp_path):
    """ "no sandy_bridge can count so: ... not an event of sandy_bridge" """
    rates = {"mem_load_uops_retired.l3_hit": 0.001, "mem_load_uops_retired.l3_miss": 0.001}
    samples = counted(tmp_path, ipc=0.5, phases=[rates], n=2)
    said_ = pk.Bottlenecks.load("sandy_bridge").explain(samples, intervals=False).summary()
    assert "it was counted on another processor: " in said_
    assert "can count so" not in said_
