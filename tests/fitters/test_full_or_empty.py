"""Parts of a core that are full, or left empty, by what a processor counts: the front end, one port, the divider."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.bottlenecks.doubts import ahead, beyond_shares, unmodelled_shares, without_judged
from perfkit.fitters.bottlenecks.model import rates_of
from perfkit.fitters.bottlenecks.names import countable, matched, names_for
from perfkit.machine.core import Microarchitecture

SLOTS = {
    "skylake_x": "idq_uops_not_delivered.core",
    "golden_cove": "idq_bubbles.core",
    "zen4": "de_no_dispatch_per_slot.no_ops_from_frontend",
}
# Counts per cycle of a program that waits for little, and has all of a kind counted.
QUIET = {
    "skylake_x": {
        "uops_retired.retire_slots": 0.8, "br_inst_retired.all_branches": 0.1, "br_inst_retired.near_taken": 0.05,
        "arith.divider_active": 0.0, "cycle_activity.stalls_total": 0.1, "exe_activity.1_ports_util": 0.4,
        "exe_activity.2_ports_util": 0.3, "cycle_activity.stalls_l1d_miss": 0.0, "cycle_activity.stalls_l2_miss": 0.0,
        "cycle_activity.stalls_l3_miss": 0.0, "mem_inst_retired.all_loads": 0.2, "mem_inst_retired.all_stores": 0.1,
    },
    "golden_cove": {"uops_retired.slots": 0.8, "cycle_activity.stalls_total": 0.1, "arith.div_active": 0.0},
    "zen4": {"ex_ret_ops": 0.8, "ex_div_busy": 0.0, "ls_dispatch.ld_dispatch": 0.2},
}  # fmt: skip


def dump(rates: dict[str, float], runs: tuple[str, ...] = ("mine",)) -> pk.Samples:
    """Counts per cycle in each of three intervals, by a processor's names."""
    rows = [
        {"run": run, "interval": k, "event": event, "time": 1e6, "work": 8e5, "count": 1e6 * rate}
        for run in runs
        for k in range(3)
        for event, rate in rates.items()
    ]
    return pk.Samples.from_frame(pd.DataFrame(rows), kind="measured", time_event="cycles", work_event="instructions")


def told(core: str, rates: dict[str, float], by: dict[str, float]) -> pd.DataFrame:
    """What is not modelled of rates by the simulator's names, ``by``."""
    known = pd.DataFrame([by], index=pd.Index(["mine"], name="run"))
    return unmodelled_shares(beyond_shares(dump(rates), Microarchitecture.load(core), known))


@pytest.mark.parametrize(
    ("core", "event", "rates", "by", "share", "left"),
    [
        # Two of four places empty in every cycle, 0.01 misses of 16 cycles each, and a fifth of the width in use.
        ("skylake_x", SLOTS["skylake_x"], 2.0, {"branch-misses": 0.01, "uops": 0.8}, 0.34, 0.46),
        ("skylake_x", "topdown-fetch-bubbles", 2.0, {"branch-misses": 0.0, "uops": 0.8}, 0.5, 0.3),
        # Cycles without any uop: of these, no width is asked for.
        ("skylake_x", "idq_uops_not_delivered.cycles_0_uops_deliv.core", 0.5, {"branch-misses": 0.0}, 0.5, 0.5),
        # Six places; a restart takes 17 cycles.
        ("golden_cove", "topdown-fe-bound", 3.0, {"branch-misses": 0.02, "uops": 0.6}, 0.16, 0.74),
        # Six places, restarts of 13 cycles; a fifth of the cycles ends with a taken branch, of which half is in use.
        ("zen4", SLOTS["zen4"], 3.0, {"branch-misses": 0.01, "uops": 3.0, "branches.taken": 0.2}, 0.27, 0.23),
    ],
)  # fmt: skip
def test_what_the_front_end_left_empty_by_hand(core, event, rates, by, share, left):
    found = told(core, {event: rates}, by)
    assert found["share"].tolist() == [pytest.approx(share)]
    assert found["left"].tolist() == [pytest.approx(left)]
    assert found["event"].tolist() == [event]


def test_cycles_that_the_processor_counts_as_restarts_are_subtracted_where_they_are_more():
    by = {"branch-misses": 0.01, "uops": 0.8}  # 0.16 of the cycles by the core's file
    slots = {SLOTS["skylake_x"]: 2.0}
    more, less = (told("skylake_x", slots | {"int_misc.clear_resteer_cycles": c}, by) for c in (0.3, 0.05))
    assert more["share"].tolist() == [pytest.approx(0.2)]
    assert less["share"].tolist() == [pytest.approx(0.34)]


def test_where_no_mispredictions_were_counted_the_words_say_so():
    found = told("skylake_x", {SLOTS["skylake_x"]: 2.0}, {"uops": 0.8})
    assert found["share"].tolist() == [pytest.approx(0.5)]
    assert "mispredicted branches were not counted" in found["what"].iloc[0]
    assert "not counted" not in told("skylake_x", {SLOTS["skylake_x"]: 2.0}, {"branch-misses": 0.0})["what"].iloc[0]


@pytest.mark.parametrize(
    ("share", "left", "speedup", "is_ahead"),
    [
        (0.6, 0.2, 0.5, True),  # half of 0.6 gives 0.357, and all else half of 0.2 at most: 0.105
        (0.2, 0.7, 0.5, False),  # 0.105 against 0.405 as learnt, and 0.431 at most
        (0.4, 0.4, 0.5, True),  # as much
        (0.4, 1.0, 0.2, True),  # 0.223 against 0.182 as learnt
        (0.4, 1.0, 0.3, False),  # and against 0.262
        (0.0, 1.0, 0.1, False),
    ],
)
def test_what_is_not_modelled_is_ahead_where_all_else_can_give_less(share, left, speedup, is_ahead):
    assert ahead(pd.DataFrame({"share": [share], "left": [left]}), speedup) is is_ahead


@pytest.mark.parametrize(
    ("core", "event", "rate", "share"),
    [
        ("skylake_x", "dtlb_load_misses.walk_active", 0.7, 0.7),
        ("skylake_x", "dtlb_load_misses.walk_pending", 1.6, 0.4),  # four at once: at least a quarter of the cycles
        ("ice_lake", "dtlb_store_misses.walk_active", 0.3, 0.3),
        ("sandy_bridge", "dtlb_load_misses.walk_duration", 0.5, 0.5),
        ("sandy_bridge", "dtlb_load_misses.demand_ld_walk_duration", 0.5, 0.5),
        ("skylake_x", "partial_rat_stalls.scoreboard", 0.6, 0.6),
        ("golden_cove", "resource_stalls.scoreboard", 0.6, 0.6),
        ("golden_cove", "cpu_clk_unhalted.pause", 0.5, 0.5),
        ("golden_cove", "topdown-bad-spec", 3.0, 0.5),  # of six places
        ("skylake_x", "mem_load_l3_hit_retired.xsnp_hitm", 0.01, 0.35),  # 70 cycles each, two at once
        ("skylake_x", "rob_misc_events.pause_inst", 0.006, 0.6),  # 100 cycles each
        ("ice_lake", "misc_retired.pause_inst", 0.006, 0.6),
        ("skylake_x", "mem_inst_retired.lock_loads", 0.04, 0.64),  # 16 cycles each
        ("skylake_x", "page-faults", 0.0004, 0.4),  # a thousand cycles each
        ("skylake_x", "ld_blocks_partial.address_alias", 0.12, 0.6),  # 5 cycles each
        ("golden_cove", "ld_blocks.address_alias", 0.12, 0.6),
        ("skylake_x", "core_power.throttle", 0.3, 0.3),
        ("zen4", "de_op_queue_empty", 0.5, 0.5),
        ("zen3", "de_dis_uop_queue_empty_di0", 0.5, 0.5),
        ("zen4", "de_no_dispatch_per_slot.smt_contention", 3.0, 0.5),
        ("zen4", "resyncs_or_nc_redirects", 0.02, 0.26),  # 13 cycles each
        ("zen4", "ls_dmnd_fills_from_sys.dram_io_far", 0.004, None),
        ("zen4", "ls_dmnd_fills_from_sys.far_cache", 0.004, None),
        ("zen3", "ls_dmnd_fills_from_sys.ext_cache_remote", 0.004, None),
    ],
)  # fmt: skip
def test_time_that_no_class_stands_for_by_hand(core, event, rate, share):
    machine = Microarchitecture.load(core)
    share = rate * machine.value("memory_latency") / 4 if share is None else share
    found = told(core, {event: rate}, {"branch-misses": 0.0})
    assert found["share"].tolist() == [pytest.approx(share)]
    assert found["left"].tolist() == [pytest.approx(1 - share)]


def test_page_walks_are_no_other_class():
    """A program that walks pages in 70 % of the cycles was "instruction latency", and its stack supported."""
    walks = QUIET["skylake_x"] | {
        "cycle_activity.stalls_total": 0.75, "exe_activity.1_ports_util": 0.15, "exe_activity.2_ports_util": 0.05,
        "dtlb_load_misses.walk_active": 0.7, "dtlb_load_misses.walk_completed": 0.03, "branch-misses": 0.0,
    }  # fmt: skip
    for core in ("skylake_x", "golden_cove"):
        model = pk.Bottlenecks.load(core)
        found = model.explain(dump(walks))
        assert found.answer("mine") == "cannot tell"
        assert "page walks" in found.summary()
        assert model.stacks(dump(walks)).runs["verdict"].tolist() == ["unsupported"]
        none = walks | {"dtlb_load_misses.walk_active": 0.0}
        assert model.explain(dump(none)).unmodelled.empty


def test_page_faults_take_no_time_of_the_users():
    rates = {"page-faults": 0.0004}
    by = pd.DataFrame([{"branch-misses": 0.0}], index=pd.Index(["mine"], name="run"))
    core = Microarchitecture.load("skylake_x")
    assert len(beyond_shares(dump(rates), core, by)) == 1
    assert beyond_shares(replace(dump(rates), time_event="cycles:u"), core, by).empty


def test_loads_that_wait_for_stores_4_kib_away_are_no_latency_of_instructions():
    """0.12 such loads per cycle, of five cycles each, were "instruction latency, 66 %"."""
    alias = QUIET["skylake_x"] | {
        "cycle_activity.stalls_total": 0.55, "exe_activity.1_ports_util": 0.2, "exe_activity.2_ports_util": 0.1,
        "branch-misses": 0.0, "ld_blocks_partial.address_alias": 0.12,
    }  # fmt: skip
    found = pk.Bottlenecks.load("skylake_x").explain(dump(alias))
    assert found.answer("mine") == "cannot tell"
    assert "some 4 KiB away, at least 60% of the cycles" in found.summary()


def found_beyond(share: float, left: float, of: str) -> pd.DataFrame:
    columns = {"run": ["mine"], "what": ["it"], "event": ["x"], "of": [of]}
    return pd.DataFrame(columns | {"share": [share], "left": [left], "counted": [share]})


@pytest.mark.parametrize(
    ("share", "of", "first", "classes", "kept"),
    [
        (0.6, "address translation", "L2", ["L2"], True),  # the core has no such class
        (0.2, "address translation", "L2", ["L2"], True),
        (0.6, "address translation", "dividers", ["dividers", "address translation"], True),  # 0.357 against 0.223
        (0.2, "address translation", "dividers", ["dividers", "address translation"], False),  # 0.105 against 0.405
        (0.6, "address translation", "L2", ["L2", "address translation"], False),  # walks pass beside misses
        (0.6, "mispredicted branches", "L2", ["L2", "mispredicted branches"], True),  # what is thrown away does not
        (0.6, "address translation", "address translation", ["L2", "address translation"], False),
        (0.6, "", "L2", ["L2"], True),
    ],
)
def test_what_a_class_stands_for_is_told_only_where_it_is_ahead(share, of, first, classes, kept):
    found = without_judged(found_beyond(share, 1 - share, of), {"mine": (first, 0.5)}, classes)
    assert len(found) == kept
    assert not kept or found["what"].tolist() == [
        "it, more than in runs that the model knows" if of in classes else "it"
    ]


@pytest.mark.parametrize("core", SLOTS)
def test_a_front_end_that_loses_most_places_is_no_other_class(core):
    """Instruction latency was named with 87 %, and its stack supported, where 60 % of the places had been lost."""
    width = Microarchitecture.load(core).value("front_end")
    rates = QUIET[core] | {SLOTS[core]: 0.7 * width, "branch-misses": 0.0}
    model = pk.Bottlenecks.load(core)
    found = model.explain(dump(rates))
    assert found.answer("mine") == "cannot tell"
    assert f"the front end did not deliver, at least 70% of the places for uops ({SLOTS[core]})" in found.summary()
    likely = found.of("mine").query("probability > 0.1")
    assert not likely["status"].eq("told").any()
    assert "measure next" not in found.why("mine")
    assert found.command("mine") == ""
    assert model.stacks(dump(rates)).runs["verdict"].tolist() == ["unsupported"]
    without = model.explain(dump({event: rate for event, rate in rates.items() if event != SLOTS[core]}))
    assert without.unmodelled.empty


@pytest.mark.parametrize("core", SLOTS)
def test_more_empty_places_than_there_are_end_in_no_answer(core):
    width = Microarchitecture.load(core).value("front_end")
    found = pk.Bottlenecks.load(core).explain(dump(QUIET[core] | {SLOTS[core]: 1.5 * width, "branch-misses": 0.0}))
    assert found.doubts["doubt"].tolist() == [f"150% of the places for uops ({SLOTS[core]})"]
    just = pk.Bottlenecks.load(core).explain(dump(QUIET[core] | {SLOTS[core]: 1.2 * width, "branch-misses": 0.0}))
    assert just.doubts.empty


def simulated(core: str, share: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulated runs that mispredictions hold back, by real names: with the places that restarts leave empty.

    ``share`` more of the places are empty, for each of which a cycle is added in which nothing is done.
    """
    machine, frame = Microarchitecture.load(core), pk.datasets.load("bottlenecks/runs")
    credit = frame[[c for c in frame if c.startswith("credit:")]].fillna(0.0)
    mine = (frame["core"] == core) & (credit["credit:mispredicted branches"] >= credit.max(axis=1))
    part = frame[mine & (credit.max(axis=1) >= 0.1)]
    rates = {c.removeprefix("rate:"): part[c].to_numpy() * (1 - share) for c in part if c.startswith("rate:")}
    rates["exec.0"] = rates["exec.0"] + share
    rates["retired.0"] = rates["retired.0"] + share
    lost = np.minimum(rates["branch-misses"] * machine.value("misprediction_penalty"), 1.0) + share
    real = {
        names_for(event, machine.vendor, core)[0]: values
        for event, values in rates.items()
        if event in countable(machine.vendor, core) and not event.startswith("uops.")
    }
    real[SLOTS[core]] = lost * machine.value("front_end")
    rows = [
        pd.DataFrame({"run": part["run"].astype(str), "interval": 0, "event": event, "time": 1e9,
                      "work": rates["instructions"] * 1e9, "count": values * 1e9})
        for event, values in real.items()
    ]  # fmt: skip
    return part, pd.concat(rows)


@pytest.mark.parametrize("core", SLOTS)
def test_restarts_after_mispredictions_are_not_the_front_ends(core):
    """Of simulated runs that mispredictions hold back, none changes its answer by the places that restarts leave."""
    part, rows = simulated(core, 0.0)
    assert len(part) > 40
    model = pk.Bottlenecks.load(core)
    kinds = {"kind": "measured", "time_event": "cycles", "work_event": "instructions"}
    found = model.explain(pk.Samples.from_frame(rows, **kinds), intervals=False)
    without = model.explain(pk.Samples.from_frame(rows[rows["event"] != SLOTS[core]], **kinds), intervals=False)
    pd.testing.assert_frame_equal(found.runs, without.runs)
    assert found.unmodelled.empty
    _, delayed = simulated(core, 0.6)
    late = model.explain(pk.Samples.from_frame(delayed, **kinds), intervals=False)
    assert {late.answer(str(run)) for run in part["run"]} == {"cannot tell"}
    assert set(late.unmodelled.index) == set(part["run"].astype(str))


@pytest.mark.parametrize(("busy", "named"), [(0.97, True), (0.02, False)])
def test_the_divider_of_a_zen5_is_the_divider_where_it_is_busy(busy, named):
    """Its core file has no divider apart from the ports: ex_div_busy was not used, and "L1 latency, 81 %" named."""
    rates = {"ex_ret_ops": 0.8, "ex_ret_brn": 0.04, "ex_ret_brn_misp": 0.0, "ls_dispatch.ld_dispatch": 0.03,
             "ls_dispatch.store_dispatch": 0.01, "ls_any_fills_from_sys.all": 0.0, "ex_div_busy": busy,
             "fp_ret_sse_avx_ops.div_flops": 0.0}  # fmt: skip
    model = pk.Bottlenecks.load("zen5")
    found = model.explain(dump(rates))
    rows = found.of("mine").set_index("resource")
    assert (rows.index[0] == "dividers") is named
    assert rows.loc["dividers", "status"] == "told"
    assert ("97% of its busiest ports used" in rows.loc["dividers", "evidence"]) is named
    # 0.03 loads of 4 cycles each: no chain of them is longer than 0.12 of the cycles.
    assert rows.loc["L1 latency", "probability"] == 0.0
    del rates["ex_div_busy"]
    assert "dividers" not in model.explain(dump(rates)).runs["resource"].tolist()


PORTS = {"skylake_x": "uops_dispatched_port.port_{}", "golden_cove": "uops_dispatched.port_{}"}


@pytest.mark.parametrize(
    ("core", "busy", "own"),
    [
        ("skylake_x", {"0": 0.3, "1": 0.25, "5": 0.98, "6": 0.2}, {"p5": 0.98, "p0": 0.1}),  # one is full: all its own
        ("skylake_x", {"0": 0.3, "1": 0.25, "5": 0.94, "6": 0.2}, {"p5": 0.74, "p0": 0.1}),  # not full
        ("skylake_x", {"0": 0.3, "1": 0.25, "5": 0.98, "6": 0.9}, {"p5": 0.73, "p0": 0.05}),  # another is as busy
        ("skylake_x", {"0": 0.97, "1": 0.25, "5": 0.98, "6": 0.2}, {"p0": 0.97, "p5": 0.98, "p1": 0.05}),  # alike
        ("skylake_x", {"0": 0.97, "1": 0.98, "5": 0.25, "6": 0.2}, {"p0": 0.77, "p1": 0.78, "p5": 0.05}),  # of two
        ("skylake_x", {"0": 0.97, "5": 0.98}, {"p0": 0.97, "p5": 0.98}),
        ("skylake_x", {"0": 0.3, "1": 0.25, "5": 0.98}, {"p5": 0.73}),  # the fourth was not counted, and may be
        # Ports 5 and 11 have one event: 0.6 of both leaves neither as busy as port 1, and 1.4 may.
        ("golden_cove", {"0": 0.3, "1": 0.98, "5_11": 0.6, "6": 0.2}, {"p1": 0.98, "p0": 0.1}),
        ("golden_cove", {"0": 0.3, "1": 0.98, "5_11": 1.4, "6": 0.2}, {"p1": 0.78, "p0": 0.1}),
    ],
)  # fmt: skip
def test_a_port_that_alone_is_full_has_no_uops_that_others_could_take(core, busy, own):
    """What the least busy port had was subtracted of it, so that a full port was never full."""
    samples = dump({PORTS[core].format(port): rate for port, rate in busy.items()})
    names = matched(samples.events, simulated=False, vendor="Intel", core=core)
    rates = rates_of(samples, names, ["run"])
    assert {port: rates.loc["mine", f"uops.{port}"] for port in own} == pytest.approx(own)


@pytest.mark.parametrize(
    ("core", "busy", "named"),
    [
        ("skylake_x", {"0": 0.3, "1": 0.25, "5": 0.98, "6": 0.2}, "vector units"),
        ("skylake_x", {"0": 0.97, "1": 0.25, "5": 0.98, "6": 0.2}, "vector units"),
        ("skylake_x", {"0": 0.3, "1": 0.98, "5": 0.25, "6": 0.2}, "integer units"),
        ("golden_cove", {"0": 0.3, "1": 0.98, "5_11": 0.6, "6": 0.2}, "integer units"),
    ],
)
def test_one_full_port_is_named_as_its_class(core, busy, named):
    rates = QUIET[core] | {PORTS[core].format(port): rate for port, rate in busy.items()}
    found = pk.Bottlenecks.load(core).explain(dump(rates | {"cycle_activity.stalls_total": 0.01}))
    assert found.answer("mine") in (
        named,
        "cannot tell" if core == "golden_cove" else named,
    )  # its QUIET has few events
    assert found.of("mine")["resource"][0] == named
    assert "98% of its busiest ports used" in found.of("mine")["evidence"][0]
