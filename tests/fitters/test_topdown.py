"""Level 1 of top-down analysis: hand-computed fractions for each family of events."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, PerfkitWarning, SettingError
from perfkit.fitters.topdown import CYCLES, FRACTIONS, SCHEMES, TopDown, _names

INTEL = {
    "cpu_clk_unhalted.thread": 1000,
    "uops_issued.any": 1400,
    "uops_retired.retire_slots": 1000,
    "idq_uops_not_delivered.core": 800,
    "int_misc.recovery_cycles": 50,
}


def counted(*intervals, run="a"):
    """Samples of plain counts, one mapping of event to count per interval."""
    rows = [(run, i, e, c) for i, events in enumerate(intervals) for e, c in {"instructions": 1, **events}.items()]
    return pk.Samples.from_counts(pd.DataFrame(rows, columns=["run", "interval", "event", "count"]), kind="generated")


def named(*values):
    return dict(zip(FRACTIONS, values, strict=True))


def fractions(samples, **how):
    return TopDown(**how).fit(samples).to_frame().set_index("run").loc["a"].to_dict()


def test_the_four_formulas_by_hand():
    # 4000 slots: 1000 retired, 800 not delivered, 1400 - 1000 + 4 * 50 lost to speculation.
    expected = {"retiring": 0.25, "front_end": 0.2, "bad_speculation": 0.15, "back_end": 0.4}
    assert fractions(counted(INTEL)) == pytest.approx(expected)
    decorated = {f"cpu/{e}/u" if i % 2 else f"{e.upper()}:u": c for i, (e, c) in enumerate(INTEL.items())}
    assert fractions(counted(decorated)) == pytest.approx(expected)


def test_the_width_can_be_given():
    # 5000 slots, recovery in cycles of 5 slots.
    expected = {"retiring": 0.2, "front_end": 0.16, "bad_speculation": 0.13, "back_end": 0.51}
    assert fractions(counted(INTEL), width=5) == pytest.approx(expected)


def test_events_that_count_slots_themselves():
    events = {"topdown-retiring": 10, "topdown-fe-bound": 20, "topdown-bad-spec": 30, "topdown-be-bound": 40}
    assert fractions(counted({"cycles": 20, **events})) == pytest.approx(named(0.1, 0.2, 0.3, 0.4))
    linux = {
        "topdown-total-slots": 4000,
        "topdown-slots-issued": 1400,
        "topdown-slots-retired": 1000,
        "topdown-fetch-bubbles": 800,
        "topdown-recovery-bubbles": 200,
    }
    assert fractions(counted({"cycles": 1000, **linux})) == pytest.approx(named(0.25, 0.2, 0.15, 0.4))


def test_amd_zen_4():
    events = {
        "ls_not_halted_cyc": 100,
        "ex_ret_ops": 150,
        "de_src_op_disp.all": 210,
        "de_no_dispatch_per_slot.no_ops_from_frontend": 90,
    }
    assert fractions(counted(events)) == pytest.approx(named(0.25, 0.15, 0.1, 0.5))


def test_arm_needs_its_width():
    events = {"cpu_cycles": 100, "stall_slot_frontend": 80, "stall_slot_backend": 320, "op_retired": 9, "op_spec": 10}
    with pytest.raises(SettingError, match="width"):
        TopDown().fit(counted(events))
    # 800 slots, half of them stalled; nine tenths of the other half retire.
    expected = named(0.45, 0.1, 0.05, 0.4)
    assert fractions(counted(events), width=8) == pytest.approx(expected)


def test_a_run_is_a_ratio_of_totals_and_intervals_stay():
    twice = {e: 3 * c for e, c in INTEL.items()} | {"uops_retired.retire_slots": 0, "uops_issued.any": 0}
    result = TopDown().fit(counted(INTEL, twice))
    assert result.runs.loc["a", "retiring"] == pytest.approx(1000 / 16000)
    assert result.intervals["retiring"].tolist() == pytest.approx([0.25, 0.0])
    assert result.main["a"] == "back_end"
    assert result.runs.sum(axis=1).tolist() == pytest.approx([1.0])


def test_events_counted_in_different_intervals_are_put_together_by_their_rates():
    first = {k: INTEL[k] for k in ("cpu_clk_unhalted.thread", "uops_issued.any", "uops_retired.retire_slots")}
    other = ("cpu_clk_unhalted.thread", "idq_uops_not_delivered.core", "int_misc.recovery_cycles")
    second = {k: 2 * INTEL[k] for k in other}
    result = TopDown().fit(counted(first, second))
    assert result.runs.loc["a"].tolist() == pytest.approx([0.25, 0.2, 0.15, 0.4])
    assert result.intervals.isna().any(axis=1).all()


def test_missing_events_are_named_for_each_family():
    with pytest.raises(DataError, match=r"Intel before Ice Lake lacks idq_uops_not_delivered\.core; .*AMD Zen 4 lacks"):
        TopDown().fit(counted({k: v for k, v in INTEL.items() if k != "idq_uops_not_delivered.core"}))


def test_a_scheme_can_be_chosen():
    both = INTEL | dict.fromkeys(("topdown-retiring", "topdown-fe-bound", "topdown-bad-spec", "topdown-be-bound"), 1250)
    assert TopDown().fit(counted(both)).scheme == SCHEMES[0].name
    assert fractions(counted(both), scheme="Intel before Ice Lake")["front_end"] == pytest.approx(0.2)
    for wrong in ({"scheme": "Itanium"}, {"width": 0}, {"width": np.nan}):
        with pytest.raises(SettingError):
            TopDown(**wrong)


def test_impossible_fractions_are_told():
    with pytest.warns(PerfkitWarning, match="outside 0 to 1"):
        found = TopDown(width=1).fit(counted(INTEL))
    assert "unsupported: fractions outside 0 to 1" in found.summary()
    assert "-" not in found.summary().splitlines()[0].partition(":")[2]  # a "back end -213%" is nothing to print


def test_a_run_without_cycles_is_refused():
    """It was a bare ValueError of pandas: "Encountered all NA values"."""
    samples = counted(INTEL)
    empty = pk.Samples.from_frame(
        samples.table.assign(time=0.0), kind=samples.kind, time_event=samples.time_event, work_event=samples.work_event
    )
    with pytest.raises(DataError, match="no run has issue slots"):
        TopDown().fit(empty)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_fractions_can_be_stored(tmp_path, ending):
    result = TopDown().fit(counted(INTEL))
    path = result.save(tmp_path / f"fractions.{ending}")
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[ending]
    assert read(path)["front_end"].tolist() == pytest.approx([0.2])
    with pytest.raises(SettingError):
        result.save(tmp_path / "a.pickle")


def test_the_module_is_reached_without_an_import_of_its_own():
    code = "import perfkit as pk; assert pk.fitters.topdown.TopDown is pk.TopDown; pk.fitters.bottomup"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "No perfkit.fitters attribute bottomup" in done.stderr


@pytest.mark.parametrize("work", ["instructions", "Retiring [slots x s]"])
def test_toplevs_shares_are_the_first_level(work):
    shares = {"Frontend_Bound": 0.1, "Bad_Speculation": 0.05, "Backend_Bound": 0.6, "Retiring": 0.25}
    rows = [
        {"run": "a", "place": "", "interval": i, "event": e, "count": c, "time": 2.0, "work": w}
        for i in range(3)
        for e, c, w in [
            (f"{n} [slots x s]", 2 * s, 2 * shares["Retiring"] if work.startswith("Ret") else 9.0)
            for n, s in shares.items()
            if f"{n} [slots x s]" != work
        ]
    ]
    samples = pk.Samples.from_frame(pd.DataFrame(rows), time_event="seconds", work_event=work)
    found = TopDown().fit(samples)
    assert found.scheme == "toplev's first level"
    assert found.runs.loc["a"].tolist() == pytest.approx([0.25, 0.1, 0.05, 0.6])
    assert found.main["a"] == "back_end"


def test_cycles_are_those_of_the_time_axis_where_several_events_count_them(tmp_path):
    (tmp_path / "a.csv").write_text("cycles,cpu_clk_unhalted.thread,instructions\n3000,2900,6000\n4000,3900,6100\n")
    for asked in ("cycles", "cpu_clk_unhalted.thread"):
        samples = pk.read_samples(tmp_path / "a.csv", time_event=asked)
        assert _names(samples)[CYCLES] == asked
    (tmp_path / "b.csv").write_text("cycles,seconds,instructions\n3000,1.5,6000\n4000,2.25,6100\n")
    assert _names(pk.read_samples(tmp_path / "b.csv", time_event="seconds"))[CYCLES] == "cycles"


METRICS = ("topdown-retiring", "topdown-fe-bound", "topdown-bad-spec", "topdown-be-bound")


def metrics(*parts, cycles=1000, slots=6000, instructions=1):
    return {**dict(zip(METRICS, parts, strict=True)), "cycles": cycles, "slots": slots, "instructions": instructions}


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        (metrics(3000, 2000, 3000, 2500), "all of the slots, and are 175% of them"),
        (metrics(900, 600, 600, 1200), "all of the slots, and are 55% of them"),
        (metrics(300, 300, 300, 600, slots=1500), "1.5 were counted"),
        (metrics(500, 1000, 500, 4000, instructions=3000), "6 instructions for each slot that retired"),
    ],
)
def test_slots_that_cannot_be_are_doubted_with_the_figure(interval, told):
    """Parts of 183 % of the slots were scaled to a whole, and supported."""
    with pytest.warns(PerfkitWarning, match=told):
        found = TopDown().fit(counted(interval))
    assert "unsupported: " in found.summary()
    assert told in found.doubts["doubt"][0]


def test_one_interval_whose_slots_cannot_be_is_left_out():
    whole = metrics(1500, 1000, 500, 3000)
    found = TopDown().fit(counted(*[whole] * 14, metrics(1500, 1000, 20000, 3000), *[whole] * 3))
    assert found.runs.loc["a"].tolist() == pytest.approx([0.25, 1 / 6, 1 / 12, 0.5])
    assert "left out: interval 14 of 18: " in found.summary()
    early = INTEL | {"uops_retired.retire_slots": 90000}
    found = TopDown().fit(counted(*[INTEL] * 11, early))
    assert found.runs.loc["a"].tolist() == pytest.approx([0.25, 0.2, 0.15, 0.4])
    assert "interval 11 of 12" in found.remarks["remark"][0]


def test_several_such_intervals_are_a_doubt():
    whole, damaged = metrics(1500, 1000, 500, 3000), metrics(1500, 1000, 20000, 3000)
    with pytest.warns(PerfkitWarning, match="is not supported"):
        found = TopDown().fit(counted(whole, damaged, whole, damaged, whole, whole))
    assert "of them" in found.doubts["doubt"][0]


AMD = {
    "cycles": 1000,
    "ex_ret_ops": 1800,
    "de_src_op_disp.all": 2000,
    "de_no_dispatch_per_slot.no_ops_from_frontend": 2400,
}


def test_amds_slots_are_those_of_the_processor():
    """Zen 5 has 8 slots per cycle: read as 6, its front end held back what waits for its back end."""
    by_counts = AMD | {"de_no_dispatch_per_slot.backend_stalls": 3600}
    assert fractions(counted(by_counts)) == pytest.approx(named(0.225, 0.3, 0.025, 0.45))
    four = AMD | {"de_no_dispatch_per_slot.backend_stalls": 1600}
    assert fractions(counted(four)) == pytest.approx(named(0.3, 0.4, 1 / 30, 4 / 15))
    samples = counted(AMD)
    for name, front_end in (("AMD EPYC 9655 96-Core Processor", 0.3), ("AMD EPYC 9354 32-Core Processor", 0.4)):
        host = pk.Samples(samples.table, samples.runs.assign(host=name), samples.time_event, samples.work_event)
        assert fractions(host)["front_end"] == pytest.approx(front_end)


def test_where_nothing_tells_amds_width_both_are_told():
    with pytest.warns(PerfkitWarning, match="front end 40% or 30%"):
        found = TopDown().fit(counted(AMD))
    assert "give TopDown(width=)" in found.doubts["doubt"][0]
    waits = AMD | {"de_no_dispatch_per_slot.no_ops_from_frontend": 300}
    found = TopDown().fit(counted(waits))
    assert found.main["a"] == "back_end"
    assert "back end 62% or 71%" in found.remarks["remark"][0]


def test_slots_of_the_other_thread_are_taken_out():
    """AMD's smt_contention was back end; of Intel's two threads, each has half of the core's cycles."""
    shared = AMD | {
        "de_no_dispatch_per_slot.backend_stalls": 600,
        "de_no_dispatch_per_slot.no_ops_from_frontend": 400,
        "de_no_dispatch_per_slot.smt_contention": 3000,
    }
    assert fractions(counted(shared)) == pytest.approx(named(0.6, 2 / 15, 1 / 15, 0.2))
    both = INTEL | {"cpu_clk_unhalted.thread_any": 1100, "int_misc.recovery_cycles_any": 110}
    # 2200 slots: 1000 retired, 800 not delivered, 1400 - 1000 + 4 * 55 lost to speculation.
    both = both | {"uops_issued.any": 1150, "idq_uops_not_delivered.core": 440}
    assert fractions(counted(both)) == pytest.approx(named(1000 / 2200, 0.2, 370 / 2200, 390 / 2200))
