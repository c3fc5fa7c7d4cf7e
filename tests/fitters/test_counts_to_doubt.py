"""Counts that `perfkit.Bottlenecks` may not answer from: no time, two modes, few turns, more than memory gives."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError
from perfkit.fitters.bottlenecks.doubts import at_least, beyond_file, counted_enough, impossible_shares, looks, margins
from perfkit.fitters.bottlenecks.features import features
from perfkit.fitters.bottlenecks.names import matched
from perfkit.fitters.bottlenecks.recognise import core_of
from perfkit.machine.core import Microarchitecture

# Counts per cycle of loads from memory, one after the other: 0.96 of the cycles wait.
CHASE = {
    "uops_retired.retire_slots": 0.02, "br_inst_retired.all_branches": 0.005, "br_misp_retired.all_branches": 0.0,
    "br_inst_retired.near_taken": 0.005, "arith.divider_active": 0.0, "cycle_activity.stalls_total": 0.975,
    "cycle_activity.stalls_l1d_miss": 0.97, "cycle_activity.stalls_l2_miss": 0.968, "l1d_pend_miss.fb_full": 0.0,
    "cycle_activity.stalls_l3_miss": 0.96, "cycle_activity.cycles_l1d_miss": 0.985, "resource_stalls.sb": 0.0,
    "cycle_activity.cycles_l2_miss": 0.98, "cycle_activity.cycles_l3_miss": 0.97, "l1d.replacement": 0.0045,
    "mem_inst_retired.all_loads": 0.005, "mem_inst_retired.all_stores": 1e-5, "longest_lat_cache.miss": 0.0044,
    "mem_load_retired.l1_miss": 0.0045, "mem_load_retired.l2_hit": 5e-5, "mem_load_retired.l2_miss": 0.0044,
    "mem_load_retired.l3_hit": 1e-4, "mem_load_retired.l3_miss": 0.0043, "l1d_pend_miss.pending": 0.98,
    "exe_activity.1_ports_util": 0.02, "exe_activity.2_ports_util": 0.002, "ld_blocks.store_forward": 0.0,
}  # fmt: skip


def dump(path, run, rates, *, modes=("", ""), cycles=10**8, n=6, running=None):
    """Write counts per cycle as perf stat -I -x, does: modes of the axes and of the others."""
    axes, other = modes
    every = {f"cycles{axes}": 1.0, f"instructions{axes}": 0.02} | {e + other: rate for e, rate in rates.items()}
    lines = ["# started on Mon Nov 30 01:00:00 2026", ""]
    for k in range(n):
        for event, rate in every.items():
            share = (running or {}).get(event, 1.0)
            ran, of = int(1e8 * share), 100 * share
            lines.append(f"{(k + 1) / 10:.9f},{int(cycles * rate)},,{event},{ran},{of:.2f},,")
    (path / f"{run}.csv").write_text("\n".join(lines) + "\n")
    return path / f"{run}.csv"


@pytest.fixture
def model():
    return pk.Bottlenecks.load("skylake_x")


def test_a_dump_in_one_mode_is_answered(model, tmp_path):
    for modes in (("", ""), (":u", ":u")):
        samples = pk.read_samples(dump(tmp_path, "chase", CHASE, modes=modes))
        assert model.explain(samples).answer("chase") == "memory latency"
        assert model.stacks(samples).runs["verdict"].tolist() == ["supported"]


@pytest.mark.parametrize("modes", [(":u", ""), ("", ":u"), (":u", ":k")])
def test_events_in_another_mode_than_time_leave_the_answer_open(model, tmp_path, modes):
    """What the kernel does was counted over the user's cycles: "memory latency, 98 %"."""
    samples = pk.read_samples(dump(tmp_path, "chase", CHASE, modes=modes))
    found = model.explain(samples)
    assert found.answer("chase") == "cannot tell"
    assert "rates mix modes" in found.summary()
    assert found.of("chase")["status"][0] == "uncertain"
    stack = model.stacks(samples)
    assert stack.runs["verdict"].tolist() == ["uncertain"]
    assert "rates mix modes" in stack.summary()


def test_runs_in_two_modes_are_told_where_time_was_counted_in_the_other(model, tmp_path):
    paths = [dump(tmp_path, "user", CHASE, modes=(":u", ":u")), dump(tmp_path, "both", CHASE)]
    samples = pk.read_samples(paths)
    found = model.explain(samples)
    assert found.answer("user") == "memory latency"
    assert found.answer("both") == "cannot tell"
    told = "no cycles:u were counted, but cycles: read the runs of one mode together, not of two"
    assert found.doubts.to_dict("records") == [{"run": "both", "doubt": told}]
    with pytest.raises(DataError, match="needs cycles for each run; of both, no cycles:u were counted, but cycles"):
        model.stacks(samples)


def test_no_cycles_are_told_as_such(model, tmp_path):
    """The error named instructions, which had been counted, and the answer "inf% of the width"."""
    samples = pk.read_samples(dump(tmp_path, "none", dict.fromkeys(CHASE, 1000000000.0), cycles=0))
    found = model.explain(samples)
    assert found.summary().endswith("none: cannot tell (no cycles were counted)")
    assert "inf" not in found.why("none")
    with pytest.raises(DataError, match="of none, no cycles were counted"):
        model.stacks(samples)


# Six intervals of 1e8 cycles: of 0.05 of the time, ten milliseconds at 3 GHz are left, which is 3e7 cycles.
@pytest.mark.parametrize(
    ("running", "cycles", "left_out"),
    [(0.0008, 10**9, True), (0.01, 10**9, True), (0.02, 10**9, False), (0.05, 10**8, True), (0.06, 10**8, False)],
)
def test_what_was_counted_in_few_turns_is_not_counted(model, tmp_path, running, cycles, left_out):
    """Of 1.1 % of six tenths of a second, "memory latency, 97 %" was named: two looks at the program."""
    event = "mem_load_retired.l3_miss"
    samples = pk.read_samples(dump(tmp_path, "chase", CHASE, running={event: running}, cycles=cycles))
    found = model.explain(samples)
    evidence = found.of("chase").set_index("resource").loc["memory latency", "evidence"]
    assert (event in evidence) is not left_out
    told = f"{event}: counted in too few turns (a hundredth of the time, or ten milliseconds, at most)"
    assert (told in found.why("chase")) is left_out
    kept, few = counted_enough(samples)
    assert few == ({"chase": [event]} if left_out else {})
    assert kept.table.loc[kept.table["event"] == event, "count"].isna().all() == left_out
    every = pk.read_samples(dump(tmp_path, "chase", CHASE, running=dict.fromkeys(CHASE, running), cycles=cycles))
    assert (model.explain(every).answer("chase") == "cannot tell") is left_out


def test_a_short_dump_without_turns_is_counted(model, tmp_path):
    samples = pk.read_samples(dump(tmp_path, "chase", CHASE, cycles=10**5))
    assert counted_enough(samples) == (samples, {})
    assert model.explain(samples).answer("chase") == "memory latency"


def test_the_margin_of_counters_in_turns_falls_with_their_looks():
    # 0.8 / 0.1 = 8 of one look: 7 too many at most. Of four, half of these; of many, twice as a whole is left.
    assert margins(np.array([0.1] * 4), np.array([1, 4, 49, 10_000])).tolist() == pytest.approx([8.0, 4.5, 2.0, 2.0])
    assert margins(np.array([1.0]), np.array([1.0])).tolist() == [1.25]
    assert margins(np.array([0.9]), np.array([1.0])).tolist() == [2.0]


def test_looks_are_of_the_event_that_was_counted_in_the_fewest_intervals():
    rows = [("a", 0, "x"), ("a", 1, "x"), ("a", 2, "x"), ("a", 0, "y"), ("a", 2, "y"), ("b", 0, "x")]
    table = pd.DataFrame(rows, columns=["run", "interval", "event"]).assign(time=1e6, work=1e6, count=5.0)
    kinds = {"kind": "measured", "time_event": "cycles", "work_event": "instructions"}
    samples = pk.Samples.from_frame(table, **kinds)
    assert looks(samples, pd.Index(["a", "b", "other"])).tolist() == [2.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("core", "lines", "running", "doubted"),
    [
        ("skylake_x", 0.40, 1.0, True),  # 0.4 lines of 64 bytes: 5.12 times five bytes per cycle
        ("skylake_x", 0.30, 1.0, True),  # 3.84 times
        (
            "skylake_x",
            0.28,
            1.0,
            False,
        ),  # 3.58: some machine may have three times what the file says, and counts 5/4 of it
        ("zen4", 0.40, 1.0, False),  # 3.2 times eight
        ("skylake_x", 0.40, 0.1, True),  # of a hundred looks in turns, twice as much again cannot be
        ("skylake_x", 0.28, 0.1, False),
    ],
)
def test_more_lines_than_any_machines_memory_gives_are_impossible(core, lines, running, doubted):
    shares = features({"lines.memory": np.array([lines])}, Microarchitecture.load(core))
    (told,) = impossible_shares(shares, np.array([running]), 100.0)
    assert bool(told) is doubted
    assert not told or "a wrong count" in told[0]


@pytest.mark.parametrize(("lines", "running", "more"), [(0.09, 1.0, False), (0.11, 1.0, True), (0.11, 0.5, False)])
def test_more_lines_than_the_file_says_leave_open_how_full_memory_is(lines, running, more):
    """0.09 lines of 64 bytes are 1.15 times the five bytes per cycle of the file, 0.11 are 1.41 times."""
    shares = features({"lines.memory": np.array([lines])}, Microarchitecture.load("skylake_x"))
    assert beyond_file(shares, np.array([running]), 1.0).tolist() == [more]


@pytest.mark.parametrize(
    ("core", "event", "rate"),
    [
        ("skylake_x", "mem_inst_retired.all_loads", 5.1), ("skylake_x", "mem_inst_retired.all_stores", 2.6),
        ("skylake_x", "dtlb_load_misses.walk_active", 1.3), ("sandy_bridge", "dtlb_load_misses.walk_duration", 1.3),
        ("skylake_x", "icache_16b.ifdata_stall", 1.3),
    ],
)  # fmt: skip
def test_other_counts_beyond_what_a_core_can_do_are_doubted(core, event, rate, tmp_path):
    rows = [{"run": "mine", "interval": k, "event": event, "time": 1e6, "work": 2e6} for k in range(3)]
    kinds = {"kind": "measured", "time_event": "cycles", "work_event": "instructions"}
    model = pk.Bottlenecks.load(core)
    for factor in (1.0, 0.9):
        samples = pk.Samples.from_frame(pd.DataFrame(rows).assign(count=1e6 * rate * factor), **kinds)
        told = model.explain(samples).doubts["doubt"].tolist()
        assert bool([one for one in told if "instructions" not in one]) is (factor == 1.0), told


@pytest.mark.parametrize("unit", ["cpu_core", "cpu_atom"])
def test_a_hybrid_processor_is_taken_for_no_other(unit):
    """Its events are a Skylake's, too: it was taken for one."""
    rows = [("cpu_core/longest_lat_cache.miss/", 0.001), (f"{unit}/br_misp_retired.all_branches/", 0.01)]
    table = pd.DataFrame(rows, columns=["event", "count"]).assign(run="mine", interval=0, time=1e6, work=1e6)
    kinds = {"kind": "measured", "work_event": "cpu_core/instructions/"}
    core, others = core_of(pk.Samples.from_frame(table, time_event="cpu_core/cycles/", **kinds), "")
    assert {core, *others} == {"alder_lake_p", "raptor_cove", "redwood_cove"}


@pytest.mark.parametrize(
    ("event", "simulated"),
    [
        ("mem_load_uops_retired.l1_miss", "l1.misses"), ("mem_load_uops_retired.l2_hit", "l2.hits"),
        ("mem_load_uops_retired.l2_miss", "l2.misses"), ("mem_load_uops_retired.llc_hit", "l3.hits"),
        ("mem_load_uops_retired.llc_miss", "l3.misses"),
    ],
)  # fmt: skip
def test_loads_of_an_ivy_bridge_are_known_by_its_own_names(event, simulated):
    assert [one.simulated for one in matched([event], simulated=False, vendor="Intel", core="sandy_bridge")] == [
        simulated
    ]
    assert not matched([event], simulated=False, vendor="Intel", core="skylake_x")


def both_modes(path, first, second):
    """Write one dump of the user's and the kernel's counts, in that order or the other."""
    rows = [line for mode in (first, second) for line in mode.read_text().splitlines()[2:]]
    (path / "all.csv").write_text("\n\n" + "\n".join(sorted(rows, key=lambda line: float(line.split(",")[0]))) + "\n")
    return pk.read_samples(path / "all.csv")


IDLE = CHASE | {"cycle_activity.stalls_total": 0.2, "cycle_activity.stalls_l1d_miss": 0.0, "arith.divider_active": 0.99,
                "cycle_activity.stalls_l2_miss": 0.0, "cycle_activity.stalls_l3_miss": 0.0}  # fmt: skip


@pytest.mark.parametrize("order", [(":u", ":k"), (":k", ":u")])
def test_of_an_event_in_two_modes_that_of_time_is_used(model, tmp_path, order):
    """The kernel's counts were set against the user's: "instructions is 60 times uops_retired.retire_slots"."""
    rates = {":u": CHASE | {"uops_retired.retire_slots": 1.2}, ":k": IDLE}
    files = [dump(tmp_path, mode[1:], rates[mode], modes=(mode, mode)) for mode in order]
    samples = both_modes(tmp_path, *files)
    found = model.explain(samples)
    mine = samples.time_event.removeprefix("cycles")
    assert mine in order
    assert {event.rpartition(":")[2] for event in found.events["real"]} == {mine[1:]}
    assert found.doubts.empty
    assert found.answer("all") == {":u": "memory latency", ":k": "dividers"}[mine]
    other = next(mode for mode in order if mode != mine)
    why = found.unused.set_index("event")["why"]
    assert why[f"mem_load_retired.l3_miss{other}"] == f"counted in another mode than cycles{mine}"


def test_what_the_kernel_is_delayed_by_is_not_the_users(model, tmp_path):
    """0.05 clears of 16 cycles each take 0.8 of the cycles: the user's, where the user's are counted."""
    path = dump(tmp_path, "chase", CHASE, modes=(":u", ":u"))
    lines = path.read_text().splitlines()[2:]
    for mode, told in ((":k", []), (":u", [0.8]), ("", [0.8])):
        clears = f",{5 * 10**6},,machine_clears.count{mode},100000000,100.00,,"
        rows = sorted([*lines, *(f"{k / 10:.9f}{clears}" for k in range(1, 7))], key=lambda row: float(row[:11]))
        path.write_text("\n\n" + "\n".join(rows) + "\n")
        assert model.explain(pk.read_samples(path)).unmodelled["share"].tolist() == pytest.approx(told), mode


def test_work_in_another_mode_than_time_leaves_the_answer_open(model, tmp_path):
    """Instructions of the user over all cycles: nothing was said where all else was counted as time was."""
    path = dump(tmp_path, "chase", CHASE)
    path.write_text(path.read_text().replace(",instructions,", ",instructions:u,"))
    found = model.explain(pk.read_samples(path))
    assert found.answer("chase") == "cannot tell"
    assert "rates mix modes" in found.summary()


@pytest.mark.parametrize(
    ("core", "event", "lines", "doubted"),
    [
        ("skylake_x", "mem_load_retired.l3_miss", 0.40, True),  # 5.12 times five bytes per cycle, of loads alone
        ("skylake_x", "mem_load_retired.l3_miss", 0.28, False),
        ("zen4", "ls_dmnd_fills_from_sys.dram_io_near", 0.48, True),  # 3.84 times eight
        ("zen4", "ls_dmnd_fills_from_sys.dram_io_near", 0.45, False),
    ],
)
def test_a_part_of_the_lines_is_no_more_than_memory_gives(core, event, lines, doubted):
    """Where only what the program asked for was counted, any number of lines was accepted."""
    rows = [{"run": "mine", "interval": k, "event": event, "time": 1e6, "work": 8e5} for k in range(3)]
    kinds = {"kind": "measured", "time_event": "cycles", "work_event": "instructions"}
    found = pk.Bottlenecks.load(core).explain(
        pk.Samples.from_frame(pd.DataFrame(rows).assign(count=1e6 * lines), **kinds)
    )
    assert any("of the memory bandwidth" in one for one in found.doubts["doubt"]) is doubted


def test_parts_of_a_sum_are_its_least():
    found = at_least({"l3.misses": np.array([0.1, np.nan, 0.2]), "lines.memory": np.array([0.3, np.nan, np.nan])})
    np.testing.assert_array_equal(found["lines.memory"], [0.3, np.nan, 0.2])
    assert "lines.l3" not in found
