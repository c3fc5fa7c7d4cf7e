"""The map of real events against the published lists of events, and dumps of processors that are not the core's."""

import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.bottlenecks.names import event_map, lacking, maker, matched, names_for, not_listed, published
from perfkit.fitters.bottlenecks.recognise import core_of
from perfkit.machine.classes import CLASSES
from perfkit.samples.events import core_unit, modes, normalise
from tests.fitters.event_names import map_table

INTEL = ("sandy_bridge", "skylake_x", "ice_lake", "golden_cove", "alder_lake_p")
# What an event's encoding must say: of the simulator's event by name, in any processor's list that has it.
CYCLES = {
    "pending.l1": "cmask=", "pending.l2": "cmask=", "pending.l3": "cmask=", "pending.l3.4+": "cmask=",
    "exec.0.pending.l1": "cmask=", "exec.0.pending.l2": "cmask=", "exec.0.pending.l3": "cmask=", "exec.3+": "cmask=3",
}  # fmt: skip


SYNONYMS = (
    ("uops_executed.stall_cycles", "uops_executed.stalls"),
    ("uops_retired.stall_cycles", "uops_retired.stalls"),
    ("arith.divider_active", "arith.div_active"),
    ("arith.fp_divider_active", "arith.fpdiv_active"),
)


def dump(events: dict[str, float], ipc: float = 1.0, time: str = "cycles") -> pk.Samples:
    """A measured dump of one run: counts per cycle."""
    rows = [
        {"run": "r", "interval": i, "event": event, "time": 1e6, "work": ipc * 1e6, "count": rate * 1e6}
        for i in range(3)
        for event, rate in events.items()
    ]
    return pk.Samples.from_frame(
        pd.DataFrame(rows), kind="measured", time_event=time, work_event=time.replace("cycles", "instructions")
    )


# perf's own names of no processor, and those of lists that came after perf 6.1.
LATER = {
    "topdown-fe-bound", "topdown-fetch-bubbles", "idq_bubbles.core", "idq_bubbles.cycles_0_uops_deliv.core",
    "de_no_dispatch_per_slot.no_ops_from_frontend", "de_no_dispatch_per_slot.smt_contention", "de_op_queue_empty",
    "resyncs_or_nc_redirects", "topdown-bad-spec", "ls_dmnd_fills_from_sys.near_cache",
    "ls_dmnd_fills_from_sys.far_cache", "ls_dmnd_fills_from_sys.remote_cache", "ls_dmnd_fills_from_sys.dram_io_far",
    "page-faults", "minor-faults",
}  # fmt: skip


def test_events_of_what_is_not_modelled_are_listed_and_stand_for_nothing_else():
    mapped = set(map_table()["real"])
    for name, one in event_map()["beyond"].items():
        assert (name in published()) is not (name in LATER), name
        assert (name not in mapped) or one["of"] == "address translation", name
        assert one.get("each", 1) in (
            1,
            16,
            100,
            1000,
            "misprediction_penalty",
            "L1_latency",
            "L3_latency",
            "memory_latency",
        )
        assert one.get("of", "L3") in CLASSES


@pytest.mark.parametrize("core", [*INTEL, "zen3"])
def test_every_name_that_is_asked_for_on_a_core_is_in_a_list_of_its_processors(core):
    """Names that no processor of a core has were asked for, and perf refuses them."""
    vendor = "AMD" if core == "zen3" else "Intel"
    mine = set(event_map()["processors"][core])
    asked = {
        name
        for event in map_table()["simulated"].unique()
        for names in names_for(event, vendor, core)
        for name in names.split("+")
        if maker(name)
    }
    assert len(asked) > 20
    assert [name for name in sorted(asked) if not mine & published().get(name, frozenset())] == []


def test_events_of_cycles_are_encoded_as_cycles():
    table = pk.datasets.load("events/published").set_index("event")["encoding"]
    checked = 0
    for row in map_table().itertuples():
        for encoding in table[table.index == row.real] if row.simulated in CYCLES else ():
            assert CYCLES[row.simulated] in encoding, (row.real, encoding)
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("core", INTEL)
def test_events_of_one_meaning_have_one_encoding_where_their_names_are_synonyms(core):
    """Old and new names of an event: what is counted is the same on the processors that have both."""
    table = pk.datasets.load("events/published")
    for old, new in SYNONYMS:
        for processor in event_map()["processors"][core]:
            has = table[table["processors"].str.split("; ").map(lambda all_, p=processor: p in all_)].set_index("event")
            if old in has.index and new in has.index:
                assert has.loc[old, "encoding"] == has.loc[new, "encoding"], (processor, old)


BROADWELL = {"uops_retired.retire_slots": 1.0, "mem_uops_retired.all_loads": 0.3, "mem_load_uops_retired.l3_miss": 0.02,
             "cycle_activity.stalls_total": 0.6, "uops_dispatched_port.port_6": 0.1}  # fmt: skip
NEIGHBOURS = {
    "broadwell": (BROADWELL, ("skylake_x", "golden_cove", "sandy_bridge", "ice_lake")),
    "ice lake": (
        {"uops_retired.slots": 1.0, "uops_dispatched.port_2_3": 0.3, "uops_dispatched.port_5": 0.2},
        ("skylake_x", "golden_cove"),
    ),
    "skylake": (
        {"uops_retired.retire_slots": 1.0, "uops_dispatched_port.port_0": 0.3, "l2_rqsts.pf_miss": 0.01},
        ("golden_cove", "ice_lake"),
    ),
    "zen 2": (
        {"ex_ret_cops": 1.0, "ls_refills_from_sys.ls_mabresp_lcl_l2": 0.01, "ls_dispatch.ld_dispatch": 0.3},
        ("zen3", "zen4", "zen5"),
    ),
    "zen 3": (
        {"ex_ret_ops": 1.0, "ls_dmnd_fills_from_sys.lcl_l2": 0.01, "ls_dispatch.ld_dispatch": 0.3},
        ("zen4", "zen5"),
    ),
    "zen 4": (
        {
            "ex_ret_ops": 1.0,
            "ls_dmnd_fills_from_sys.local_l2": 0.01,
            "de_dis_dispatch_token_stalls1.load_queue_rsrc_stall": 0.3,
        },
        ("zen5",),
    ),
    "alder lake's e-cores": (
        {"mem_uops_retired.all_loads": 0.3, "mem_uops_retired.all_stores": 0.1, "topdown_retiring.all": 1.0},
        ("golden_cove", "alder_lake_p"),
    ),
}


@pytest.mark.parametrize(("of", "core"), [(of, core) for of, (_, cores) in NEIGHBOURS.items() for core in cores])
def test_a_dump_of_a_neighbouring_generation_is_refused_with_the_events_that_show_it(of, core):
    events = NEIGHBOURS[of][0]
    found = pk.Bottlenecks.load(core).explain(dump(events), intervals=False)
    assert found.answer("r") == "cannot tell"
    assert f"not an event of {core}" in found.why("r")
    assert len(found.doubts) >= 1
    told = set(found.events["real"]) | set(found.unused["event"])
    assert set(events) <= told  # used, or named as not used


@pytest.mark.parametrize(
    ("core", "events"),
    [
        (
            "skylake_x",
            {"uops_retired.retire_slots": 1.0, "cycle_activity.stalls_total": 0.3, "idq_uops_not_delivered.core": 0.3},
        ),
        (
            "golden_cove",
            {"uops_retired.slots": 1.0, "uops_retired.stall_cycles": 0.3, "topdown.backend_bound_slots": 0.3},
        ),
        ("zen4", {"ex_ret_ops": 1.0, "ls_dmnd_fills_from_sys.local_l2": 0.01, "ex_no_retire.all": 0.3}),
        ("zen5", {"ex_ret_ops": 1.0, "l2_pf_miss_l2_hit_l3.l2_hwpf": 0.01, "ex_no_retire.all": 0.3}),
        ("zen3", {"ex_ret_ops": 1.0, "ls_dmnd_fills_from_sys.lcl_l2": 0.01, "l2_dtlb_misses": 0.001}),
        ("ice_lake", {"uops_retired.slots": 1.0, "uops_dispatched.port_2_3": 0.3, "mem_load_retired.l3_miss": 0.001}),
    ],
)
def test_a_dump_of_the_cores_own_processors_is_not_refused(core, events):
    found = pk.Bottlenecks.load(core).explain(dump(events), intervals=False)
    assert found.doubts.empty
    assert set(events) <= set(found.events["real"]) | set(found.unused["event"])


def test_one_event_that_a_list_lacks_is_told_and_refuses_nothing():
    """Lists are of one day: an event may have been added since, or renamed."""
    events = {"uops_retired.retire_slots": 1.0, "cycle_activity.stalls_total": 0.3, "lsd.cycles_ok": 0.1}
    assert not_listed(events, "golden_cove") == {"uops_retired.retire_slots"}
    found = pk.Bottlenecks.load("golden_cove").explain(dump(events), intervals=False)
    assert found.doubts.empty
    assert "uops_retired.retire_slots: not an event of golden_cove, but of" in found.why("r")


EARLY = {"uops_retired.slots": 1.0, "cycle_activity.stalls_total": 0.3, "baclears.any": 1e-4, "l2_trans.l2_wb": 0.01}


@pytest.mark.parametrize("core", ["golden_cove", "redwood_cove", "raptor_cove", "alder_lake_p"])
def test_events_that_later_lists_gave_a_core_refuse_nothing_and_are_told(core):
    """The lists are perf 6.1's: two events that a Sapphire Rapids got later made its own dump another's."""
    assert not_listed(EARLY, core) == {"baclears.any", "l2_trans.l2_wb"}
    found = pk.Bottlenecks.load(core).explain(dump(EARLY), intervals=False)
    assert found.doubts.empty
    assert f"not in the list of {core}'s events (perf 6.1), but of" in found.why("r")
    assert found.unused["event"].tolist() == ["baclears.any", "l2_trans.l2_wb"]


def test_unlisted_events_show_another_processor_only_where_one_lists_what_the_dump_has():
    """Events of a Skylake alone, and two that its list lacks: no other processor has both kinds."""
    own = {"l2_rqsts.pf_miss": 0.1, "uops_executed.cycles_ge_3_uops_exec": 0.1, "uops_retired.retire_slots": 1.0}
    kept = {**own, "arith.divider_uops": 0.1, "lsd.cycles_4_uops": 0.1, "arith.fpu_div_active": 0.1}
    assert len(not_listed(kept, "skylake_x")) >= 2
    assert pk.Bottlenecks.load("skylake_x").explain(dump(kept), intervals=False).doubts.empty
    zen4 = {"ex_ret_ops": 1.0, "de_src_op_disp.all": 1.0, "l2_pf_miss_l2_hit_l3.all": 0.01}
    found = pk.Bottlenecks.load("zen3").explain(dump(zen4), intervals=False)
    assert found.answer("r") == "cannot tell"
    assert len(found.doubts) == 1


def test_an_old_cores_divider_is_told_and_asked_for():
    """Sandy and Ivy Bridge count it: runs were told that there is no such event, and the event stood for nothing."""
    model = pk.Bottlenecks.load("sandy_bridge")
    few = {"branch-misses": 0.0001, "uops_retired.retire_slots": 1.0, "cycle_activity.stalls_total": 0.3}
    found = model.explain(dump(few), intervals=False)
    assert "floating-point divisions" not in found.why("r")
    assert names_for("any of dividers", "Intel", "sandy_bridge") == ("arith.fpu_div_active",)
    busy = model.explain(dump({**few, "arith.fpu_div_active": 0.97}, ipc=0.3), intervals=False)
    row = busy.of("r").set_index("resource").loc["dividers"]
    assert busy.of("r")["resource"].iloc[0] == "dividers"
    assert "97% of its busiest ports used" in row["evidence"]
    idle = model.explain(dump({**few, "arith.fpu_div_active": 0.0}), intervals=False)
    assert idle.of("r").set_index("resource").loc["dividers", "probability"] == 0.0
    assert busy.unused.empty
    # AMD's cores, and Arm's, still have none
    for core in ("zen4", "zen5"):
        amd = pk.Bottlenecks.load(core).explain(dump({"branch-misses": 0.0001}), intervals=False)
        assert "floating-point divisions may hold it back" in amd.why("r")
        assert "fp_ret_sse_avx_ops.div_flops" in amd.command("r")
    arm = pk.Bottlenecks.load("cortex_a72").explain(dump({"branch-misses": 0.0001}), intervals=False)
    assert "this processor has no event for" not in arm.why("r")


@pytest.mark.parametrize(
    ("core", "time", "events", "asked"),
    [
        ("golden_cove", "cycles", {"topdown-retiring": 1.2}, "{slots,topdown-retiring},cycles,instructions,"),
        (
            "golden_cove",
            "cycles:u",
            {"topdown-retiring": 1.2, "branches:u": 0.1},
            "{slots:u,topdown-retiring:u},cycles:u,instructions:u,branches:u,",
        ),
        ("golden_cove", "cycles:u", {"branches:u": 0.1}, "cycles:u,instructions:u,branches:u,"),
        ("golden_cove", "cycles", {"branches:u": 0.1}, "cycles,instructions,branches,"),
        (
            "alder_lake_p",
            "cpu_core/cycles/",
            {"cpu_core/branch-misses/": 0.001},
            "cpu_core/cycles/,cpu_core/instructions/,cpu_core/branch-misses/,cpu_core/",
        ),
        (
            "alder_lake_p",
            "cpu_core/cycles/u",
            {"cpu_core/topdown-retiring/u": 1.0},
            "{cpu_core/slots/u,cpu_core/topdown-retiring/u},cpu_core/cycles/u,cpu_core/instructions/u,cpu_core/",
        ),
        ("zen4", "cycles", {"branch-misses": 0.001}, "cycles,instructions,branch-misses,"),
        ("zen4", "cpu/cycles/", {"dTLB-loads": 0.001}, "cycles,instructions,dTLB-loads,"),
    ],
)
def test_the_line_to_type_counts_all_in_the_mode_and_on_the_cores_of_time(core, time, events, asked):
    """What was pasted mixed user mode with both, one kind of core with all, and metrics without the group they need."""
    line = pk.Bottlenecks.load(core).explain(dump(events, time=time), intervals=False).command("r", "./a.out")
    types = line.split("'")[1]
    assert types.startswith(asked)
    each = types.replace("{", "").replace("}", "").split(",")
    assert len({modes(event) for event in each}) == 1
    assert len({core_unit(event) for event in each}) == 1
    assert len({normalise(event) for event in each}) == len(each)


def test_a_part_of_the_idle_cycles_does_not_stand_for_all_of_them():
    """`exe_bound_0_ports` counts where no load waits: taken for all idle cycles, a run that waits was never idle."""
    events = {"exe_activity.exe_bound_0_ports": 0.01, "uops_retired.retire_slots": 1.0}
    found = pk.Bottlenecks.load("skylake_x").explain(dump(events), intervals=False)
    assert "exec.0" not in set(found.events["simulated"])
    assert "no load waits" in found.unused.set_index("event").loc["exe_activity.exe_bound_0_ports", "why"]


def test_events_of_the_other_kind_of_core_are_not_used():
    events = {
        "cpu_core/branch-misses/": 0.001,
        "cpu_atom/branch-misses/": 0.05,
        "cpu_atom/br_misp_retired.all_branches/": 0.05,
    }
    found = pk.Bottlenecks.load("alder_lake_p").explain(dump(events, time="cpu_core/cycles/"), intervals=False)
    assert found.events["real"].tolist() == ["cpu_core/branch-misses/"]
    assert found.unused["event"].tolist() == list(events)[1:]
    small = pk.Bottlenecks.load("alder_lake_p").explain(
        dump({"cpu_atom/branch-misses/": 0.05}, time="cpu_atom/cycles/")
    )
    assert small.answer("r") == "cannot tell"
    assert "smaller kind of core" in small.why("r")


def test_the_choice_of_a_core_names_what_else_fits():
    assert (
        core_of(dump({"br_misp_retired.all_branches": 0.1, "mem_uops_retired.all_loads": 0.3}), "")[0] == "sandy_bridge"
    )
    assert "Broadwell" in core_of(dump({"br_misp_retired.all_branches": 0.1, "mem_uops_retired.all_loads": 0.3}), "")[1]
    assert core_of(dump({"br_misp_retired.all_branches": 0.1}), "sapphire rapids") == ("golden_cove", ())
    core, others = core_of(dump({"uops_retired.slots": 1.0, "uops_dispatched.port_5_11": 0.3}), "")
    assert core == "golden_cove"
    assert "raptor_cove" in others
    assert matched(["mem_uops_retired.all_loads"], simulated=False, vendor="Intel", core="sandy_bridge")


def test_a_plain_perf_stat_says_how_much_of_the_width_is_used_and_what_to_type_next():
    """Lines of perf's default top-down: what retires is known, what the back end waits for is not."""
    events = {"slots": 6.0, "topdown-retiring": 1.2, "topdown-be-bound": 4.4, "branch-misses": 0.0005, "branches": 0.1}
    found = pk.Bottlenecks.load("golden_cove").explain(dump(events, ipc=1.0), intervals=False)
    assert found.answer("r") == "cannot tell"
    row = found.of("r").set_index("resource").loc["pipeline width"]
    assert "20% of the width of the front end used" in row["evidence"]
    assert row["probability"] < 0.05
    assert "memory and execution together" in found.why("r")
    line = found.command("r", "./a.out")
    assert line.startswith("perf stat -I 100 -x, -o dump.csv -e '{slots,topdown-retiring},cycles,instructions,")
    assert line.endswith("' -- ./a.out")
    asked = line.split("'")[1].replace("{slots,topdown-retiring}", "topdown-retiring").split(",")
    assert len(asked) == len(set(asked))
    assert {"topdown-retiring", "branch-misses"} <= set(asked)
    mine = set(event_map()["processors"]["golden_cove"])
    assert all(mine & published()[event] for event in asked if maker(event))
    assert len([event for event in asked if maker(event)]) >= 3


def test_all_slots_that_retire_are_the_full_width():
    events = {"slots": 6.0, "topdown-retiring": 5.9, "branch-misses": 0.0}
    found = pk.Bottlenecks.load("golden_cove").explain(dump(events, ipc=5.8), intervals=False)
    first = found.of("r").iloc[0]
    assert (first["resource"], first["status"]) == ("pipeline width", "told")
    assert first["probability"] > 0.9


def test_what_no_such_core_can_count_gets_no_line_to_type():
    found = pk.Bottlenecks.load("golden_cove").explain(dump({"uops_retired.slots": 60.0}), intervals=False)
    assert found.command("r") == ""


@pytest.mark.parametrize(("loads", "full"), [(0.0, False), (0.05, False), (0.5, True)])
def test_lines_that_stores_take_are_no_sign_that_loads_wait_for_l2(loads, full):
    """Stores to L2 were "L2, 100 %" on a Golden Cove: a line per cycle is what one store per cycle takes."""
    events = {"l1d.replacement": 0.97, "mem_inst_retired.all_stores": 0.98, "mem_inst_retired.all_loads": loads,
              "resource_stalls.sb": 0.8, "cycle_activity.stalls_total": 0.15, "uops_dispatched.port_4_9": 0.98,
              "uops_retired.slots": 3.0, "mem_load_retired.l2_hit": loads, "mem_load_retired.l3_miss": 0.0}  # fmt: skip
    found = pk.Bottlenecks.load("golden_cove").explain(dump(events, ipc=3.0), intervals=False)
    rows = found.of("r").set_index("resource")
    assert (rows.loc["L2", "probability"] > 0.8) == full
    assert "97% of its bandwidth used (lines)" in rows.loc["L2", "evidence"]
    assert full or found.answer("r") in ("cannot tell", "store ports", "store buffer")


@pytest.mark.parametrize(
    ("name", "core", "events", "lack"),
    [
        ("cycle_activity.stalls_total", "sandy_bridge", (), ("Sandy Bridge", "Sandy Bridge-EP")),
        ("cycle_activity.stalls_total", "sandy_bridge", ("mem_load_uops_retired.l2_miss",), ()),  # an Ivy Bridge's
        ("cycle_activity.cycles_l3_miss", "ice_lake", (), ("Ice Lake-SP", "Tiger Lake")),
        ("mem_load_retired.l3_miss+cycle_activity.cycles_l3_miss", "ice_lake", (), ("Ice Lake-SP", "Tiger Lake")),
        ("llc-load-misses", "sandy_bridge", (), ()),
        ("ex_div_busy", "zen5", (), ()),  # of which there is no list
    ],
)
def test_who_lacks_an_event_is_told(name, core, events, lack):
    assert lacking(name, core, events) == lack


def test_a_name_that_a_processor_lacks_is_asked_for_with_its_name():
    """An Ivy Bridge has no cycle_activity.cycles_no_dispatch, a Sandy Bridge no stalls_total: both were asked for."""
    generic = {"branches": 0.2, "branch-misses": 0.0004, "cache-misses": 0.001, "L1-dcache-loads": 0.3,
               "L1-dcache-load-misses": 0.01, "dTLB-load-misses": 0.0001}  # fmt: skip
    why = pk.Bottlenecks.load("sandy_bridge").explain(dump(generic, ipc=1.2)).why("r")
    assert "cycle_activity.stalls_total (not on Sandy Bridge and Sandy Bridge-EP)" in why
    assert "LLC-load-misses, " in why  # perf does not know llc-load-misses


@pytest.mark.parametrize(
    ("named", "core"),
    [
        ("Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz", ""), ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", ""),
        ("Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", ""), ("Broadwell", ""), ("AMD EPYC 7742 64-Core Processor", ""),
        ("AMD Ryzen 9 3900X 12-Core Processor", ""), ("Zen 2", ""),
        ("Intel(R) Xeon(R) CPU E5-2670 v2 @ 2.50GHz", "sandy_bridge"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "sandy_bridge"),
        ("Intel(R) Core(TM) i7-3770 CPU @ 3.40GHz", "sandy_bridge"),
        ("AMD EPYC 7763 64-Core Processor", "zen3"), ("AMD Ryzen 9 5950X 16-Core Processor", "zen3"),
        ("AMD EPYC 9654 96-Core Processor", "zen4"), ("AMD Ryzen 9 9950X 16-Core Processor", "zen5"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "zen4"), ("Intel(R) Xeon(R) Gold 6154 CPU @ 3.00GHz", "skylake_x"),
    ],
)  # fmt: skip
def test_a_named_processor_is_taken_for_no_other(named, core):
    """A Haswell was taken for a Skylake, and a Zen 2 for a Zen 4, where their events are these cores', too."""
    rates = {"branch-misses": 0.001, "ex_ret_brn" if "AMD" in named or "Zen" in named else "uops_issued.any": 0.1}
    assert core_of(dump(rates), named) == (core, ())
