"""The window of cycles by resources: a hand-computed loop, and what must hold of every one."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.timeline import Timeline
from perfkit.simulators.gus.trace_events import trace_events, window_told
from tests.simulators.assembled import loop, needs_assembler

pytestmark = needs_assembler


@pytest.fixture(scope="module")
def skylake():
    return Gus(pk.Microarchitecture.load("skylake_x"))


@pytest.fixture(scope="module")
def ladder():
    """Version 5 of the correlation, in L1 from the start: spills, reloads, shared ports."""
    return Gus(pk.Microarchitecture.load("skylake_x"), warm=True).run(pk.datasets.load("traces/correlation-v5-small"))


def test_a_chain_of_multiplications_by_hand(skylake):
    # One uop each on port 1, three cycles of latency, four slots per cycle at the front end and at retirement.
    found = pk.timeline(skylake.run(loop("imul rax, rax", 40)), 10, 20)
    n = np.arange(10, 30)
    p1 = found.uses[found.uses["resource"] == "p1"]
    assert p1["n"].tolist() == n.tolist()
    # The first dispatch is at 1/4; from then on each waits for the one before.
    assert p1["start"].tolist() == pytest.approx((0.25 + 3 * n).tolist())
    assert (p1["end"] - p1["start"]).tolist() == pytest.approx([1.0] * 20)
    front = found.uses[found.uses["resource"] == "front_end"]
    assert front["end"].tolist() == pytest.approx(((n + 1) / 4).tolist())
    retire = found.uses[found.uses["resource"] == "retire"]
    assert retire["end"].tolist() == pytest.approx((0.25 + 3 * (n + 1)).tolist())
    assert found.producers["producer"].tolist() == (n - 1).tolist()
    assert set(found.producers["through"]) == {"register"}
    # Used one cycle in three.
    busy = found.resources.set_index("resource")["busy"]
    assert busy["p1"] == pytest.approx(1 / 3)
    assert busy["front_end"] == pytest.approx(0.25 / 3)
    assert found.overlapping == 0


def test_what_waits_for_a_port_says_which(skylake):
    """Multiplications that need nothing of each other: one a cycle on port 1, so each waits for the one before."""
    found = pk.timeline(skylake.run(loop("imul rax, rbx, 3", 40)), 10, 20).schedule
    assert found["start"].diff().dropna().tolist() == pytest.approx([1.0] * 19)
    assert found["parent"].tolist() == (found["n"] - 1).tolist()
    assert set(found["through"]) == {"p1"}
    first = pk.timeline(skylake.run(loop("imul rax, rbx, 3", 40)), 0, 3).schedule
    assert list(zip(first["parent"], first["through"], strict=True)) == [(-1, ""), (0, "p1"), (1, "p1")]
    chain = pk.timeline(skylake.run(loop("imul rax, rax", 40)), 10, 20).schedule
    assert chain["parent"].tolist() == (chain["n"] - 1).tolist()
    assert set(chain["through"]) == {""}  # for its result


def test_of_two_that_come_together_the_second_waits_for_the_first_alone(skylake):
    """The port was idle before: what used it in the iteration before is long done."""
    rest = "\n".join(["nop"] * 46)
    found = pk.timeline(skylake.run(loop(f"imul rax, rdi\nimul rbx, rdi\n{rest}", 8)), 96, 192).schedule
    pairs = found[found["text"].str.startswith("imul")]
    assert pairs["through"].tolist() == ["", "p1"] * 4
    assert (pairs["start"].diff().iloc[1::2] == 1.0).all()


def test_producers_by_address_memory_and_register(skylake):
    body = "mov [rdi], rax\nmov rbx, [rdi]\nmov rcx, [rbx]\nadd rax, rcx"
    found = pk.timeline(skylake.run(loop(body, 4, lambda k, m: 4096 if m < 2 else 8192)), 4, 4).producers
    by = {(n, p): how for n, p, how in found[["n", "producer", "through"]].itertuples(index=False)}
    assert by[5, 4] == "memory"  # the reload of what was just stored
    assert by[6, 5] == "address"  # which is a pointer
    assert by[7, 6] == "register"
    assert by[4, 3] == by[7, 3] == "register"  # the sum of the iteration before, stored and added to
    assert len(by) == 5


def test_over_the_whole_run_the_uses_are_the_occupancy(ladder):
    result = Gus(ladder.settings.core, warm=True).run(ladder.trace.head(12_000))
    found = pk.timeline(result, 0, result.instructions)
    occupancy = result.occupancy()
    mine = found.resources.set_index("resource")["busy"]
    assert set(occupancy.index) <= set(mine.index)
    assert mine[occupancy.index].to_numpy() == pytest.approx(occupancy.to_numpy(), rel=1e-9)


@pytest.mark.parametrize(("version", "core"), [("v6", "skylake_x"), ("v5", "redwood_cove")])
def test_no_window_takes_more_than_the_capacity(version, core):
    """By the cycles of retirement alone, windows of these took 103 % and 109 % of port group p01."""
    trace = pk.datasets.load(f"traces/correlation-{version}-small").head(9000)
    result = Gus(pk.Microarchitecture.load(core), warm=True).run(trace)
    for count in (100, 1000):
        for first in range(0, result.instructions - count, 1499):
            busy = pk.timeline(result, first, count).resources.set_index("resource")["busy"]
            assert busy.max() <= 1 + 1e-9, f"{count} from {first}: {busy.idxmax()} takes {busy.max():.1%}"
    steady = pk.timeline(result, 2998, 1000).resources.set_index("resource")["busy"]["p01"]
    assert steady == pytest.approx(result.occupancy()["p01"], abs=0.1)


def test_a_window_is_the_same_part_of_a_larger_one(ladder):
    small, large = pk.timeline(ladder, 20_000, 100), pk.timeline(ladder, 19_500, 1200)
    keys = ["resource", "n"]
    inside = large.uses[large.uses["n"].between(20_000, 20_099)]
    left, right = (u.sort_values([*keys, "start"]).reset_index(drop=True) for u in (small.uses, inside))
    assert left[keys].equals(right[keys])
    assert left["start"].to_numpy() == pytest.approx(right["start"].to_numpy())
    assert small.complete == (0.0, 0.0)  # fewer than are in flight
    begin, end = large.complete
    assert 0 < begin < end
    # In the complete cycles, every resource's use of that time is in the window: also by the neighbours.
    assert begin >= float(ladder.schedule(19_499, 1).table["retire"].iloc[0])
    assert end <= float(ladder.schedule(20_700, 1).table["dispatch"].iloc[0])


def test_nothing_is_used_before_it_is_dispatched_or_after_it_ended(ladder):
    found = pk.timeline(ladder, 20_000, 800)
    times = found.schedule.set_index("n").loc[found.uses["n"]].reset_index()
    ports = (found.uses["resource"] != "front_end") & (found.uses["resource"] != "retire")
    assert (found.uses["start"] >= times["dispatch"] - 1e-6)[ports].all()
    assert (found.uses["start"] <= times["end"] + 1e-6)[ports].all()
    assert (found.uses["lane"] < found.uses["resource"].map(found.resources.set_index("resource")["units"])).all()
    # Front end and retirement are in order: a use begins where the one before has ended.
    for name in ("front_end", "retire"):
        one = found.uses[found.uses["resource"] == name].sort_values("n")
        assert (one["start"].to_numpy()[1:] >= one["end"].to_numpy()[:-1] - 1e-6).all()
    # What the schedule says an instruction last waited for is among its producers, or used one of its resources.
    produced = set(found.producers[["n", "producer"]].itertuples(index=False, name=None))
    resources = found.uses.groupby("n")["resource"].agg(set)
    waits = found.schedule[found.schedule["parent"] >= 20_000]
    assert len(waits) > 300
    for n, parent in waits[["n", "parent"]].itertuples(index=False):
        assert (n, parent) in produced or resources[n] & resources[parent] - {"front_end", "retire"}


def test_the_middle_is_an_instruction_that_waited(ladder):
    found = pk.timeline(ladder, 19_500, 1200)
    row = found.schedule.set_index("n").loc[found.middle()]
    assert row["parent"] >= 0
    assert found.complete[0] < row["start"] < found.complete[1]


def test_a_window_outside_of_the_trace_is_refused(skylake):
    result = skylake.run(loop("imul rax, rax", 40))
    with pytest.raises(DataError, match="none at 40"):
        pk.timeline(result, 40, 10)
    with pytest.raises(SettingError, match="first >= 0"):
        pk.timeline(result, -1, 10)
    assert len(pk.timeline(result, 30, 100).schedule) == 10


def test_waiting_for_a_forwarded_store_is_no_execution():
    """An FMA with a memory operand from a store that is under way executes for its latency of 4 cycles, no longer."""
    trace = pk.datasets.load("traces/correlation-v5")
    table = pk.Gus(pk.Microarchitecture.load("skylake_x")).run(trace).schedule(2000, 400).table
    reloads = table[table["text"].str.startswith("vfmadd213pd") & table["text"].str.contains("[rsp", regex=False)]
    assert len(reloads)
    assert (reloads["end"] - reloads["start"]).max() > 20
    np.testing.assert_allclose(reloads["end"] - reloads["operate"], 4.0)
    assert (table["operate"] >= table["start"]).all()
    assert (table["operate"] <= table["end"]).all()


def test_trace_events_of_a_timeline_by_hand():
    """Uses that begin as another one ends go on in its thread; one that overlaps it has the next one that is free."""
    columns = ["n", "text", "dispatch", "start", "end", "retire"]
    rows = [(10, "a", 0, 2, 3, 4), (11, "b", 1, 3, 4, 5), (12, "c", 4, 3.5, 5, 6), (13, "d", 4, 4, 4, 6)]
    uses = [("p", 0, 12, 3.5, 5), ("p", 0, 10, 2, 3), ("p", 0, 11, 3, 4), ("p", 0, 13, 4, 6), ("p", 0, 14, 4.5, 4.0)]
    uses += [("q", 1, 10, 0, 1), ("q", 1, 11, 0.5, 2), ("q", 0, 12, 1, 2)]
    parts = pd.DataFrame({"resource": ["p", "q"], "kind": ["ports"] * 2, "units": [1, 2], "busy": [0.5, 0.5]})
    frame = pd.DataFrame(uses, columns=["resource", "lane", "n", "start", "end"])
    made = Timeline(pd.DataFrame(rows, columns=columns), parts, frame, pd.DataFrame(), 0.0, (0.0, 0.0), "by hand")
    found = trace_events(made)
    events = found["traceEvents"]
    told = [(e["pid"], e["tid"], e["name"], e["args"]["n"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert told == [
        (0, 0, "a", 10, 0.0, 4.0),
        (0, 1, "b", 11, 1.0, 4.0),
        (0, 0, "c", 12, 4.0, 2.0),
        (0, 2, "d", 13, 4.0, 2.0),
        (2, 1, "a", 10, 0.0, 1.0),
        (2, 2, "b", 11, 0.5, 1.5),  # the second unit's use is not over: behind both units
        (2, 0, "c", 12, 1.0, 1.0),
        (1, 0, "a", 10, 2.0, 1.0),
        (1, 0, "b", 11, 3.0, 1.0),
        (1, 1, "c", 12, 3.5, 1.5),
        (1, 0, "d", 13, 4.0, 2.0),
        (1, 2, "14", 14, 4.5, 0.0),  # no instruction of the window, and of no time
    ]
    assert [(e["args"]["start"], e["args"]["end"]) for e in events if e["pid"] == 0 and e["ph"] == "X"] == [
        (2.0, 3.0), (3.0, 4.0), (3.5, 5.0), (4.0, 4.0),
    ]  # fmt: skip
    named = [(e["name"], e["pid"], e["tid"], e["args"]) for e in events if e["ph"] == "M"]
    assert named == [
        ("process_name", 0, 0, {"name": "instructions"}),
        ("process_sort_index", 0, 0, {"sort_index": 0}),
        ("process_name", 1, 0, {"name": "p"}),
        ("process_sort_index", 1, 0, {"sort_index": 1}),
        ("process_name", 2, 0, {"name": "q"}),
        ("process_sort_index", 2, 0, {"sort_index": 2}),
        ("thread_name", 2, 2, {"name": "late 1"}),
        ("thread_name", 1, 1, {"name": "late 1"}),
        ("thread_name", 1, 2, {"name": "late 2"}),
    ]
    assert found["otherData"]["window"] == "instructions 10 to 13, cycles 0 to 6"
    of = SimpleNamespace(cycles=24.0, instructions=1000)
    assert window_told(made, of) == "instructions 10 to 13 of 1,000, cycles 0 to 6 of 24: 25.0% of them"


@pytest.mark.parametrize(
    ("complete", "text", "found"),
    [
        ((0.0, 10.0), "", 12),  # of those that wait for another one, the nearest to cycle 5
        ((0.0, 14.0), "", 13),
        ((0.0, 10.0), "mul", 11),
        ((0.0, 10.0), "div", 10),  # none waits: any of the window
        ((0.0, 0.0), "", 13),  # nothing is complete: from the first start to the last end of those that wait
        ((0.0, 10.0), ".", 10),  # a text, which nothing holds, and no pattern
    ],
)
def test_the_middle_of_a_window(complete, text, found):
    rows = [(10, "div", -1, 5.5, 6), (11, "mul", 10, 2, 5), (12, "add", 11, 4, 5), (13, "sub", 10, 8, 16)]
    schedule = pd.DataFrame(rows, columns=["n", "text", "parent", "start", "end"])
    empty = pd.DataFrame()
    made = Timeline(schedule, empty, empty, empty, 0.0, complete, "by hand")
    assert made.middle(text) == found
