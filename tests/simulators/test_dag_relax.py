"""Scheduling again with each candidate twice as good, and Gus's answer beside it."""

from dataclasses import replace

import pytest

import perfkit as pk
from perfkit.dag.doubts import NOR_GUS
from perfkit.scoring.dag_gus import second_opinion
from perfkit.simulators.dag.relax import _add, _halved_loads
from perfkit.simulators.groups import group


def test_a_chain_gains_by_its_latency_only():
    dag = pk.Dag.from_nodes("A" * 100, [[i - 1] if i else [] for i in range(100)])
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.sandy_bridge_erm().replace(latency_A=4)))
    table = found.to_frame()
    assert (found.bottleneck, table["cycles"][0], table["gain"][0]) == ("latency of additions", 200, 1.0)
    assert table["gain"][1] == 0
    assert "latency of additions 100%" in found.summary()


def test_half_of_an_odd_latency_is_told_as_what_it_is():
    """Cycles are whole: of three two are left, which is no twice as good."""
    dag = pk.Dag.from_nodes("A" * 100, [[i - 1] if i else [] for i in range(100)])
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.sandy_bridge_erm().replace(latency_A=3)))
    assert found.to_frame()["better"][0] == 1.5
    assert "latency of additions 50% (in whole cycles: 1.5 times as good)" in found.summary()


@pytest.mark.parametrize(
    ("kind", "length", "cycles"),
    [("I", 10, 5), ("A", 10, 5), ("I", 11, 6), ("M", 1000, 500)],
)
def test_half_of_one_cycle_is_half_and_not_none(kind, length, cycles):
    """A chain of ten operations of a cycle takes five where they are twice as good; it was said to take one."""
    dag = pk.Dag.from_nodes(kind * length, [[i - 1] if i else [] for i in range(length)])
    table = pk.relax(dag, pk.DagScheduler(pk.DagCore(**{f"latency_{kind}": 1}))).to_frame()
    assert (table["cycles"][0], table["change"][0], table["better"][0]) == (cycles, f"latency_{kind}=0.5", 2.0)
    assert table["gain"].max() == length / cycles - 1


def test_half_a_cycle_of_a_part_of_a_chain():
    """Five cycles of a load and four of integer work: 9 a link, 7 with either halved (of 5 cycles 3 are left)."""
    links = 200
    deps = [[i - 1] if i else [] for i in range(5 * links)]
    dag = pk.Dag.from_nodes("LIIII" * links, deps, level=["L1", None, None, None, None] * links)
    table = pk.relax(dag, pk.DagScheduler(pk.DagCore(latency_L1=5, latency_I=1))).to_frame().set_index("resource")
    assert table.loc["latency of integer work", "cycles"] == 7 * links
    assert table.loc["latency of L1", "cycles"] == 7 * links


@pytest.mark.parametrize(
    ("core", "others", "cycles"),
    [
        ({"fetch": 4}, 1, 50),  # two nodes a turn: half a cycle to fetch, half a cycle of the chain
        ({"fetch": 4}, 2, 75),  # three nodes: fetch takes three quarters
        ({"throughput_I": 1}, 0, 100),  # one unit begins one a cycle, however soon it ends
    ],
)
def test_half_a_cycle_beside_other_limits(core, others, cycles):
    """A chain of 100 operations of a cycle, each beside others that wait for nothing."""
    step = 1 + others
    dag = pk.Dag.from_nodes("I" * 100 * step, [[i - step] if i and i % step == 0 else [] for i in range(100 * step)])
    table = pk.relax(dag, pk.DagScheduler(pk.DagCore(latency_I=1, **core))).to_frame().set_index("resource")
    assert table.loc["latency of integer work", "cycles"] == cycles


@pytest.mark.parametrize("penalty", [1, 14])
def test_no_latency_gains_more_than_twice(penalty):
    core = pk.DagCore.load("zen4").replace(misprediction_penalty=penalty, latency_L1=1, integer_loads_earlier=1)
    for source in pk.open_dags("pointer-chase,store-bound", core=pk.Microarchitecture.load("zen4")).values():
        table = pk.relax(source.in_memory(), pk.DagScheduler(core, record=False)).to_frame()
        latencies = table[table["change"].str.contains("latency")]
        assert len(latencies)
        assert latencies["gain"].max() <= 1


def test_the_change_of_a_square_root_says_that_it_is_more_than_a_parameter():
    """13 cycles a division, 21 a square root of it: 7 and 11, which ``latency_D=7`` alone does not say."""
    machine = pk.Microarchitecture.load("zen4")
    turns = 1000
    found = {}
    for name, block in {"root": "sqrtsd xmm0, xmm0", "quotient": "divsd xmm0, xmm1"}.items():
        (source,) = pk.open_dags(f"block:{block}", core=machine).values()
        scheduler = pk.DagScheduler(machine, record=False)
        table = pk.relax(source, scheduler).to_frame().set_index("resource")
        alone = replace(scheduler, core=scheduler.core.replace(latency_D=7)).run(source).cycles
        claimed = table.loc["latency of divisions", "cycles"]
        found[name] = round(claimed / turns), round(alone / turns), table.loc["latency of divisions", "change"]
    assert found["root"] == (11, 15, "latency_D=7, instructions' own latencies halved")
    assert found["quotient"] == (7, 7, "latency_D=7")


def test_fetch_has_no_roof_and_is_told_so():
    dag = pk.Dag.from_nodes("A" * 100, [[]] * 100)
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.sandy_bridge_erm().replace(fetch=1, throughput_A=4)))
    assert found.bottleneck == "fetch"
    assert "No roof stands for fetch" in found.summary()


def test_divisions_gain_by_the_divider():
    dag = pk.Dag.from_nodes("D" * 100, [[]] * 100)
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.load("alder_lake_p")))
    assert found.bottleneck == "divider"
    assert found.to_frame()["gain"][0] == pytest.approx(1, abs=0.1)
    # One of four cycles, evenly: begun in 0, 4, 8, ...
    run = pk.DagScheduler(pk.DagCore.load("alder_lake_p"), record=True).run(dag)
    assert run.issue.tolist() == list(range(0, 400, 4))
    assert "division throughput" in {roof.label for roof in run.roofline().hits}


def test_a_result_of_nothing_and_its_file(tmp_path):
    dag = pk.Dag.from_nodes("A", [[]])
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore(latency_A=1)))
    again = pk.Relaxation.load(found.save(tmp_path / "relaxed.parquet"))
    assert again.to_frame().equals(found.to_frame())
    assert found.plot().patches


@pytest.mark.parametrize(
    "name",
    [
        "fig1a",
        "divider",
        "l2-bound",
        "load-bound",
        "store-bound",
        "latency-multiply",
        "pointer-chase",
        "throughput-add",
    ],
)
@pytest.mark.parametrize("core", ["skylake_x", "zen4"])
def test_both_models_name_the_same_bottleneck(name, core):
    """A few of the traces of tests/benchmarks/dag_agreement.py."""
    machine = pk.Microarchitecture.load(core)
    source = pk.open_dags(name, core=machine)[name]
    relaxed = pk.relax(pk.predict_branches(source, machine).in_memory(), pk.DagScheduler(machine, record=False))
    found = second_opinion(source.trace, machine, relaxed)
    assert found["agree"], found["sentence"]
    assert abs(relaxed.cycles / found["cycles"] - 1) < 0.3


@pytest.mark.parametrize(("times", "near"), [(1.0, True), (1.15, True), (1.44, False), (0.6, False)])
def test_models_of_other_cycles_do_not_just_agree(times, near):
    """A program was told "Gus agrees" at +44 % of its cycles."""
    machine = pk.Microarchitecture.load("zen4")
    source = pk.open_dags("pointer-chase", core=machine)["pointer-chase"]
    relaxed = pk.relax(source.in_memory(), pk.DagScheduler(machine, record=False))
    cycles = pk.Gus(machine, warm=True).run(source.trace).cycles
    found = second_opinion(source.trace, machine, replace(relaxed, cycles=round(times * cycles)))
    assert (found["agree"], found["near"]) == (True, near)
    assert ("do not rely on the cycles" in found["sentence"]) == (not near)
    assert ("not on how long it takes" in found["sentence"]) == (not near)


@pytest.mark.parametrize(
    ("name", "times", "doubts", "believe"),
    [
        ("latency-multiply", 0.5, (), "gus"),  # a chain, which Gus has instruction by instruction
        ("latency-multiply", 0.5, ("its jumps move",), "gus"),
        ("latency-multiply", 0.5, (f"its jumps move; {NOR_GUS}",), "neither"),
        ("latency-multiply", 2.0, (), "neither"),  # what waits longer here may be right: memset in L2 was
        ("l2-bound", 0.5, (), "neither"),  # Gus has the levels of memory no finer
        ("latency-multiply", 1.0, (), "both"),
    ],
)
def test_gus_is_believed_only_where_it_has_what_decides_finer(name, times, doubts, believe):
    """Without a measurement: "believe Gus" was said of page walks and of stores to L2, where Gus is as far off."""
    machine = pk.Microarchitecture.load("zen4")
    source = pk.open_dags(name, core=machine)[name]
    relaxed = pk.relax(source.in_memory(), pk.DagScheduler(machine, record=False))
    cycles = pk.Gus(machine, warm=True).run(source.trace).cycles
    found = second_opinion(source.trace, machine, replace(relaxed, cycles=round(times * cycles)), doubts=doubts)
    assert found["believe"] == believe, found["sentence"]
    assert ("believe Gus" in found["sentence"]) == (believe == "gus")
    assert ("believe neither in the cycles" in found["sentence"]) == (believe == "neither")
    assert (f"Gus takes {cycles:,.0f} cycles for the same machine code" in found["doubt"]) == (times != 1)
    assert ("believe" in found["doubt"]) == (times != 1)


@pytest.fixture(scope="module")
def chased():
    """Return a trace, its relaxation and Gus's cycles."""
    machine = pk.Microarchitecture.load("zen4")
    source = pk.open_dags("pointer-chase", core=machine)["pointer-chase"]
    relaxed = pk.relax(source.in_memory(), pk.DagScheduler(machine, record=False))
    return machine, source.trace, relaxed, pk.Gus(machine, warm=True).run(source.trace).cycles


@pytest.mark.parametrize(
    ("times", "measured", "told"),
    [
        (2.0, 2.0, "16,007 measured: believe what stands here, which is nearer to what was measured."),
        (2.0, 1.0, "do not rely on the cycles, the roofs and the gains here; believe Gus, which is nearer"),
        (2.0, 10.0, "neither is near what was measured; do not rely on the cycles, the roofs and the gains here, nor"),
        (1.0, 1.0, "8,003 here, 8,003 in Gus (-0%), 8,003 measured."),
        (1.2, 1.0952, "what was measured does not tell whom to believe."),
    ],
)
def test_who_is_nearer_to_what_was_measured_is_believed(chased, times, measured, told):
    """Gus, 515 cycles, was to be believed where this model's 1,013 had been measured as 1,015."""
    machine, trace, relaxed, cycles = chased
    relaxed = replace(relaxed, cycles=round(times * cycles))
    if times == 1.2:  # as near as each other, of two answers
        relaxed = replace(relaxed, relaxed=(relaxed.cycles,) * len(relaxed.relaxed))
    found = second_opinion(trace, machine, relaxed, measured=measured * cycles)
    sentence = found["sentence"]
    assert told in sentence, sentence
    assert found["doubt"] == ""  # the measured time says more
    assert "believe Gus" not in sentence or measured < times


def test_gains_below_a_percent_on_both_sides_are_one_answer(chased, monkeypatch):
    """Gus "disagreed" with load and store units at 0 %, and was to be believed."""
    machine, trace, relaxed, _ = chased
    nothing = replace(relaxed, relaxed=(relaxed.cycles - relaxed.cycles // 330,) * len(relaxed.relaxed))  # 0.3 %
    assert not second_opinion(trace, machine, nothing)["agree"]  # Gus: 99 %
    monkeypatch.setattr("perfkit.scoring.dag_gus._NOTHING", 1.1)
    found = second_opinion(trace, machine, nothing)
    assert (found["agree"], found["gus"], found["roofline"]) == (True, "", "no single resource")
    assert found["sentence"].startswith("Gus agrees: no single resource (99% at twice the capacity)")


def test_a_better_resource_is_twice_as_good_for_integers_too():
    core = pk.DagCore.load("zen4")
    changed = _halved_loads(core, "L1")
    assert (core.latency_L1, core.integer_loads_earlier) == (7, 3)
    better = core.replace(**changed)
    assert (better.latency_L1, better.latency_L1 - better.integer_loads_earlier) == (4, 2)
    assert _halved_loads(pk.DagCore(latency_L2=12), "L2") == {"latency_L2": 6}


def test_loads_of_several_stores_gain_by_store_forwarding():
    # Two stores of four bytes, then a load of eight: it has its value ten cycles after the stores' four.
    dag = pk.Dag.from_nodes("SSL", [[], [], []], [0, 8, 0], None, [1, 1, 2])
    core = pk.DagCore(line=64, size_L1=4096, latency_L1=4, latency_blocked=10)
    found = pk.relax(dag, pk.DagScheduler(core)).to_frame().set_index("resource")
    assert (found.loc["store forwarding", "cycles"], found.loc["latency of L1", "cycles"]) == (9, 12)


def test_all_latencies_at_once_are_told_only_where_they_tell_more():
    alternating = pk.Dag.from_nodes("AM" * 50, [[i - 1] if i else [] for i in range(100)])
    scheduler = pk.DagScheduler(pk.DagCore(latency_A=4, latency_M=4))
    assert pk.relax(alternating, scheduler).bottleneck == "latency of all operations"
    chain = pk.Dag.from_nodes("A" * 100 + "M", [[i - 1] if i else [] for i in range(101)])
    assert pk.relax(chain, scheduler).bottleneck == "latency of additions"
    assert "latency of all operations" not in set(pk.relax(chain, scheduler).to_frame()["resource"])


@pytest.mark.parametrize(
    ("ours", "gus"),
    [
        ("latency of additions", "instruction_latency"), ("bandwidth of L2", "L2_bandwidth"), ("reorder buffer", "rob"),
        ("fetch", "front_end"), ("mispredicted branches", "misprediction_penalty"),
        ("latency of memory", "memory_latency"), ("divider", "FPDivider"),
    ],
)  # fmt: skip
def test_words_of_both_models(ours, gus):
    assert group(ours) == group(gus) != "other"


_DIVISIONS = """define i64 @f(i64 %n, i64 %d) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = phi i64 [ 123456789, %entry ], [ %y, %loop ]
  %y = udiv i64 {of}, %d
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %out
out:
  ret i64 %y
}}
"""


@pytest.mark.parametrize(("of", "cycles", "halved"), [("%i", 7, 4), ("%x", 14, 7)])
def test_integer_divisions_gain_by_the_divider(tmp_path, of, cycles, halved):
    """Independent ones wait for the divider (7 cycles each), a chain waits for its results (14).

    By a number that the compiler does not know, which would multiply instead.
    """
    path = tmp_path / "divisions.ll"
    path.write_text(_DIVISIONS.format(of=of))
    source = pk.trace_c(path, "f", 1000, 3, whole=True)
    found = pk.relax(source, pk.DagScheduler(pk.DagCore.load("zen4"), record=False))
    assert found.cycles == pytest.approx(1000 * cycles, rel=0.02)
    assert found.bottleneck == "integer divider"
    assert found.to_frame()["cycles"][0] == pytest.approx(1000 * halved, rel=0.02)
    assert found.to_frame()["gain"][1] < 0.2
    assert group("integer divider") == group("integer_divider") == "divider"


def test_what_is_not_modelled_is_no_candidate_and_the_rest_is_twice_as_good():
    found = {}
    _add(found, "nothing", {"a": 0.0, "b": float("inf")})
    _add(found, "more", {"a": 2.0, "b": float("inf")})
    _add(found, "sooner", {"latency_A": 4.0}, halved=True)
    assert found == {"more": {"a": 4.0}, "sooner": {"latency_A": 2.0}}
