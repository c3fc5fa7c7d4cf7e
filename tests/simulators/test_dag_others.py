"""Instructions that are no nodes, counted against fetch and the reorder buffer (an option; the paper ignores them)."""

import math
from dataclasses import fields

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.llvm_ir import instrument
from perfkit.collectors.dag.paper_kernels import kernel
from perfkit.dag.program import ADD, LOAD, OTHER
from perfkit.errors import SettingError
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler


def with_others(text, latency, **core):
    """Schedule independent additions ("A") among other instructions (".") on a core without limits but those given."""
    dag = pk.Dag.from_nodes("A" * len(text), [[]] * len(text))
    op = np.array([ADD if c == "A" else OTHER for c in text], dtype=np.uint8)
    dag = pk.Dag(dag.program._replace(op=op), dag.stream)
    assert (len(dag), dag.others) == (text.count("A"), text.count("."))
    return DagScheduler(DagCore(latency_A=latency, **core)).run(dag)


@pytest.mark.parametrize(
    ("text", "core", "issue", "cycles"),
    [
        ("A.A.", {"fetch": 1}, [0, 2], 4),  # the last is fetched in cycle 3
        ("A.A.", {"fetch": 2}, [0, 1], 2),
        ("...A", {"fetch": 2}, [1], 2),
        ("A.A.", {}, [0, 0], 1),
        ("....", {"fetch": 1}, None, None),
    ],
)
def test_others_take_slots_of_fetch(text, core, issue, cycles):
    if issue is None:
        with pytest.raises(pk.PerfkitError, match="has no nodes"):
            with_others(text, 1, **core)
        return
    run = with_others(text, 1, **core)
    assert (run.issue.tolist(), run.cycles, run.work) == (issue, cycles, text.count("A"))
    assert run.done.tolist() == [i + 1 for i in issue]
    assert (run.type == 0).all()


def test_others_take_places_of_the_reorder_buffer_for_a_cycle():
    # One place: the addition leaves it in cycle 5, the other instruction in 6, and so on.
    run = with_others("A.A.", 5, rob=1)
    assert (run.issue.tolist(), run.cycles) == ([0, 6], 12)
    # Two: the other instruction is done in 1, but leaves after the addition before it.
    assert with_others("A.A.", 5, rob=2).issue.tolist() == [0, 5]
    # The reservation station is not theirs.
    assert with_others("A..A", 5, rs=1, throughput_A=1).issue.tolist() == [0, 1]


def test_what_counts_in_llvm_ir():
    ir = """
define void @f(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %s = phi double [ 0.0, %entry ], [ %t, %loop ]
  %at = getelementptr double, ptr %p, i64 %i
  %x = load double, ptr %at
  %t = fadd double %s, %x
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""
    plain, counted = instrument(ir, "f"), instrument(ir, "f", count_all=True)
    assert plain.program.op.tolist() == [LOAD, ADD]
    # The increment and the jump with its comparison; the address and the comparison are part of others.
    assert counted.program.op.tolist() == [LOAD, ADD, OTHER, OTHER]
    assert counted.plain == plain.plain


@pytest.mark.parametrize(("name", "size"), [("mvm", 12), ("fft", 16), ("wht_recursive", 16), ("kmeans", 40)])
def test_nodes_stay_the_same(name, size):
    source = kernel(name).trace(size, count_all=True)
    plain, counted = kernel(name).trace(size).dag(), source.dag()
    assert counted.others > 0 == plain.others
    first, second = (dag.nodes() for dag in (plain, counted))
    assert second["op"].tolist() == first["op"].tolist()
    assert second["deps"].tolist() == first["deps"].tolist()
    # With fetch and window unlimited they change nothing in the schedule of the nodes.
    core = DagCore.sandy_bridge_erm()
    wide = core.replace(fetch=math.inf, rob=0)
    runs = [DagScheduler(wide, record=True).run(dag) for dag in (plain, counted)]
    assert runs[0].issue.tolist() == runs[1].issue.tolist()
    slow = DagScheduler(core).run(counted)
    assert slow.cycles >= DagScheduler(core).run(plain).cycles
    assert DagScheduler(core, record=False).run(source).cycles == slow.cycles


def test_the_machine_of_the_paper_has_nothing_beyond_it():
    core = DagCore.load("erm")
    assert (core.ways_L1, core.misprediction_penalty, core.latency_blocked, core.inflight_merging) == (0, 0, 0, 0)
    assert (core.vector_load_ports, core.vector_store_ports) == (0, 0)
    plain = {f.name: f.default for f in fields(DagCore)}
    assert (plain["vector_load_ports"], plain["vector_store_ports"], plain["ways_L1"]) == (0, 0, 0)


def test_parameters_have_a_largest_value():
    core = DagCore.load("erm")
    assert core.replace(size_L1=2**40).size_L1 == 2**40
    with pytest.raises(SettingError, match="size_L1 is at most 1,099,511,627,776"):
        core.replace(size_L1=2**40 + 1)


def test_a_given_schedule_without_stalls_is_as_long_as_its_nodes():
    core = DagCore.load("erm")
    assert pk.Schedule.from_table(["A"], [0], [1], {"RS": []}, core).cycles == 1
    assert pk.Schedule.from_table(["A"], [0], [1], {"RS": [4]}, core).cycles == 5
