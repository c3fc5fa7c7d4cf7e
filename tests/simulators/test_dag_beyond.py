"""Schedules solved by hand of what the paper's machine does not have: ports of vectors, splits, renaming, branches."""

import math
from dataclasses import replace

import numpy as np
import pytest

import perfkit as pk
from perfkit.dag.program import (
    ADD,
    FORWARDED_LOAD,
    HOLD,
    INTEGER,
    JOIN,
    LINES_READ,
    LOAD,
    READ,
    REDIRECT,
    SQUARE_ROOT,
    BlockProgram,
)
from perfkit.errors import SettingError
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.simulators.gus.mispredicted import moving

FREE = {"load_ports": 0, "store_ports": 0, "agus": 0}


def run(op, deps=None, *, integer="", level="L1", address=None, width=1, **core):
    """Schedule nodes; those whose place in `integer` is "i" are of integer registers (of "v": of vector registers)."""
    deps = [[]] * len(op) if deps is None else deps
    levels = [level if o in "LS" and address is None else None for o in op]
    dag = pk.Dag.from_nodes(op, deps, address, levels, width)
    marks = np.array([int(k < len(integer) and integer[k] in "iv") for k in range(len(op))], dtype=np.int64)
    dag = pk.Dag(dag.program._replace(delay=marks), dag.stream)
    return DagScheduler(DagCore(**core), warm=address is not None, record=True).run(dag)


@pytest.mark.parametrize(
    ("integer", "issue"), [("", [0, 0, 1, 1, 2]), ("iiiii", [0, 0, 0, 1, 1]), ("..i..", [0, 0, 0, 1, 1])]
)
def test_loads_of_vectors_have_ports_of_their_own(integer, issue):
    assert run("LLLLL", integer=integer, load_ports=3, vector_load_ports=2).issue.tolist() == issue


@pytest.mark.parametrize(
    ("integer", "issue"), [("", [0, 1, 2, 3]), ("iiii", [0, 0, 1, 1]), ("i.ii", [0, 1, 2, 2]), (".iii", [0, 1, 1, 2])]
)
def test_a_store_of_a_vector_takes_both_ports(integer, issue):
    assert run("SSSS", integer=integer, store_ports=2, vector_store_ports=1).issue.tolist() == issue


def test_more_ports_than_can_be_counted_are_refused():
    with pytest.raises(SettingError, match="at most 8"):
        DagCore(vector_load_ports=9)
    assert DagCore(vector_load_ports=float("inf")).vector_load_ports == float("inf")


def test_the_vector_scheduler_holds_what_waits():
    # The second waits for the first and holds the only entry until 5; the third gets it then. Integers have another.
    chain = [[], [0], [], []]
    assert run("AAAI", chain, latency_A=5, vector_rs=1).issue.tolist() == [0, 5, 5, 0]
    assert run("AAAI", chain, latency_A=5, vector_rs=2).issue.tolist() == [0, 5, 0, 0]
    # Integer work of vector registers needs one, too.
    assert run("AAII", chain, integer="..v.", latency_A=5, vector_rs=1).issue.tolist() == [0, 5, 5, 0]
    assert run("AAAI", chain, latency_A=5, rs=1, vector_rs=1).issue.tolist() == [0, 5, 5, 0]


def test_who_writes_a_vector_register_keeps_one_until_it_retires():
    # Two registers: the third addition is fetched when the first retires, at 5; the fourth at 10, with the second.
    chain = [[], [0], [], [], []]
    assert run("AAAAI", chain, latency_A=5, vector_registers=2).issue.tolist() == [0, 5, 5, 10, 10]
    assert run("AAAAI", chain, latency_A=5, vector_registers=3).issue.tolist() == [0, 5, 0, 5, 5]
    assert run("AAAAI", chain, latency_A=5, vector_registers=4).issue.tolist() == [0, 5, 0, 0, 0]
    # Loads of vectors write one, too; loads of integers, stores and integer work do not, that of vectors does.
    four = [[], [0], [], []]
    for middle, second, issue in (("L", ".", [0, 5, 5, 10]), ("L", "i", [0, 5, 0, 5]), ("S", ".", [0, 5, 0, 5])):
        found = run(f"AA{middle}A", four, integer=f"..{second}", latency_A=5, latency_L1=0, vector_registers=2, **FREE)
        assert found.issue.tolist() == issue
    for kind, issue in ((".", [0, 5, 0, 5]), ("v", [0, 5, 5, 10])):
        assert run("AAIA", four, integer=f"..{kind}", latency_A=5, vector_registers=2).issue.tolist() == issue
    # Whoever waits for one counts as waiting for the ROB.
    assert run("AAA", [[], [0], []], latency_A=5, vector_registers=2).stalls["ROB"] == 4


def test_an_instruction_of_several_nodes_keeps_one_register():
    load, add = (LOAD, -1, -1, 0, 0, 0, 0), (ADD, 0, -1, -1, 0, -1, 0)

    def issue(between, registers):
        table = np.array(2 * [load, *between, add], dtype=np.int64)
        program = BlockProgram.of_operations(table, [(len(table), 2, 0, 0)], np.array([[1, 8]]), 1)
        core = DagCore(latency_A=5, vector_registers=registers)
        return DagScheduler(core, record=True).run(pk.Dag(program, np.array([0, -1, -1]))).issue.tolist()

    assert issue([], 2) == [0, 0, 0, 5]  # the second load waits for the first, which retires at once
    assert issue([(JOIN, -1, -1, -1, 0, -1, 0)], 1) == [0, 0, 5, 5]
    assert issue([(JOIN, -1, -1, -1, 0, -1, 0)], 2) == [0, 0, 0, 0]


def test_a_full_queue_before_it_holds_up_fetch():
    # The third is in the queue until 5: the fourth is not fetched before, and no integer after it.
    chain = [[], [0], [], [], []]
    found = run("AAAAI", chain, latency_A=5, vector_rs=1, vector_queue=1)
    assert found.issue.tolist() == [0, 5, 5, 5, 5]
    assert found.stalls["RS"] > 0
    assert run("AAAAI", chain, latency_A=5, vector_rs=1, vector_queue=2).issue.tolist() == [0, 5, 5, 5, 0]


def test_an_access_across_the_end_of_a_line_takes_its_units_again():
    places = {"address": [48, 128], "width": 4, "size_L1": 4096, "line": 64, "latency_L1": 4}
    assert run("LL", **places, throughput_L1=1).issue.tolist() == [0, 1]
    split = run("LL", **places, throughput_L1=1, line_splits=1)
    assert (split.issue.tolist(), split.done.tolist()) == ([0, 2], [5, 6])
    assert run("LL", **places, throughput_L1=1, line_splits=2).issue.tolist() == [0, 3]
    # Within its line it takes them once.
    assert run("LL", **{**places, "address": [32, 128]}, throughput_L1=1, line_splits=1).issue.tolist() == [0, 1]


def test_a_split_access_waits_for_the_farther_line():
    # Of the two lines the first is in L1, the second in L2: lines 1 and 2 were used since.
    places = {"address": [64, 128, 0, 56], "width": 2, "size_L1": 128, "size_L2": 4096, "line": 64}
    found = run("LLLL", **places, latency_L1=4, latency_L2=12, line_splits=1)
    assert (found.done - found.issue).tolist()[2:] == [12, 12]
    assert (run("LLLL", **places, latency_L1=4, latency_L2=12).done - 0).tolist()[3] == 4


def test_a_split_access_counts_where_its_farther_line_is():
    """Two lines fit into L1: each access finds its line gone, and the last one the second of its lines."""
    places = {"address": [64, 128, 0, 56], "width": 2, "size_L1": 128, "size_L2": 4096, "line": 64}
    found = run("LLLL", **places, latency_L1=4, latency_L2=12, line_splits=1)
    assert (found.n_nodes("L1"), found.n_nodes("L2")) == (0, 4)
    assert len(set(found.type.tolist())) == 1
    assert run("LLLL", **places, latency_L1=4, latency_L2=12).n_nodes("L1") == 1  # where lines' ends do not matter


def test_who_joins_a_line_on_its_way_has_it_when_it_is_there():
    """An integer load that brings a line has its value 3 cycles before a vector would; another one not 6 before."""
    core = {"size_L1": 128, "size_L2": 4096, "line": 64, "latency_L1": 4, "latency_L2": 17, "inflight_merging": 1}
    places = [64, 128, 0, 8, 16]  # the first two push line 0 out of L1: there is none of it at first
    found = run("LLLLL", integer="..ii.", address=places, **core, integer_loads_earlier=3)
    assert (found.done - found.issue).tolist()[2:] == [14, 14, 17]
    assert found.type is not None


@pytest.mark.parametrize(
    ("op", "width", "peak"),
    [("A" * 40, 4, 8), ("AM" * 20, 4, 8), ("F" * 40, 1, 3), ("AF" * 20, 1, 3), ("AFF" * 20, 4, 12)],
)
def test_the_peak_is_what_the_units_can_do(op, width, peak):
    """One adder, one multiplier; a fused multiply-add takes the multiplier: at best an addition and two operations."""
    dag = pk.Dag.from_nodes(op, [[]] * len(op), width=width)
    found = DagScheduler(DagCore(throughput_A=1, throughput_M=1, throughput_F=1)).run(dag)
    assert found.peak("comp") == peak
    reached = pk.Dag.from_nodes(op[:1] + "AF" * 50, [[]] * 101, width=width)
    most = DagScheduler(DagCore(throughput_A=1, throughput_M=1, throughput_F=1)).run(reached)
    assert most.utilisation("comp") == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("renaming", "width", "done"), [(0, 1, 8), (1, 1, 2)])
def test_a_renamed_load_has_its_value_with_the_store(renaming, width, done):
    found = run(
        "ISL", [[], [0], []], integer=".ii", address=[None, 8, 8], width=width, size_L1=4096, line=64,
        latency_I=2, latency_L1=4, latency_forward=6, memory_renaming=renaming,
    )  # fmt: skip
    assert found.done.tolist()[2] == done


def test_what_follows_a_mispredicted_branch_is_fetched_after_it():
    dag = pk.Dag.from_nodes("IBAA", [[], [0], [], []])
    program = dag.program
    at = 2
    added = {"op": REDIRECT, "left": 1, "right": -1, "into": -1, "shape": 0, "level": -1, "call": -1, "delay": 0}
    tables = {name: np.insert(getattr(program, name), at, value) for name, value in added.items()}
    marked = pk.Dag(program._replace(**tables, block_ops=program.block_ops + np.array([0, 1])), dag.stream)
    core = DagCore(latency_I=3, latency_A=1, misprediction_penalty=10)
    found = DagScheduler(core, record=True).run(marked)
    # The branch is done in 6; fetch goes on ten cycles later.
    assert (found.issue.tolist(), found.cycles) == ([0, 3, 16, 16], 17)
    assert DagScheduler(core).run(dag).cycles == 6
    # Without a penalty it is not modelled: fetch does not wait for the branch either.
    assert DagScheduler(core.replace(misprediction_penalty=0)).run(marked).cycles == 6
    assert marked.nodes()["op"].tolist() == list("IBAA")
    relaxed = pk.relax(marked, DagScheduler(core))
    assert relaxed.to_frame()["resource"][0] == "mispredicted branches"
    assert relaxed.to_frame()["cycles"][0] == 12


def test_branches_of_a_trace_are_predicted_as_by_gus(tmp_path):
    core = pk.Microarchitecture.load("zen4")
    trace = pk.datasets.load("traces/branchy")
    source = pk.open_dags("branchy", core=core)["branchy"]
    nodes = pk.predict_branches(source, core)
    dag = nodes.in_memory()
    missed = pk.Gus(core, warm=True).run(trace).branches[1]
    redirects = int(np.repeat(dag._runs, np.diff(dag.program.block_ops))[dag.program.op == REDIRECT].sum())
    assert redirects == missed > 0
    scheduler = DagScheduler(core, record=False)
    runs = [scheduler.run(each).cycles for each in (nodes, dag, pk.Dag.load(dag.save(tmp_path / "branchy.npz")))]
    assert len(set(runs)) == 1
    free = DagScheduler(DagCore.load("zen4").replace(misprediction_penalty=0), record=False).run(source).cycles
    assert free < runs[0] <= free + missed * (13 + 40)
    with pytest.raises(SettingError, match="whole=True"):
        pk.predict_branches(pk.open_dags("branchy", whole=False, core=core)["branchy"], core)


def test_indirect_jumps_are_counted_where_they_go_elsewhere_and_that_is_known(tmp_path):
    """Of two jumps, by hand: one goes 2, 3, 2, 2 (a change is known, one is mispredicted), the other 5, 5, 4."""
    indirect = np.array([True, True, False, False, False, False])
    stream = np.array([0, 2, 1, 5, 0, 3, 1, 5, 0, 2, 1, 4, 0, 2])
    wrong = np.zeros(len(stream), dtype=bool)
    assert moving(stream, wrong, indirect) == 3
    wrong[5] = True  # the jump to 3
    assert moving(stream, wrong, indirect) == 2
    source = tmp_path / "turns.c"
    cases = "".join(f'case {k}: a = a * {2 * k + 3} + {k}; __asm__ volatile("nop"); break; ' for k in range(8))
    source.write_text(
        "long turns(long step, long n) { long a = 1; for (long i = 0; i < n; i++) switch (i * step & 7) { "
        f"{cases} }} return a; }}\n"
    )
    core = pk.Microarchitecture.load("zen4")
    told = []
    for step in (1, 8):
        (nodes,) = pk.open_dags(str(source), function="turns", arguments=f"{step} 800".split(), core=core).values()
        told.append(DagScheduler(core, record=False).run(pk.predict_branches(nodes, core)).doubts)
    assert any("go elsewhere than the time before 7" in said for said in told[0])  # 799 less what is learnt first
    assert not any("elsewhere" in said for said in told[1])


def test_cores_have_the_ports_of_their_tables():
    found = {name: DagCore.load(name) for name in ("zen5", "zen4", "ice_lake", "skylake_x", "sandy_bridge_erm")}
    ports = {
        name: (c.load_ports, c.vector_load_ports, c.store_ports, c.vector_store_ports) for name, c in found.items()
    }
    assert ports == {
        "zen5": (4, 2, 2, 0), "zen4": (3, 2, 2, 1), "ice_lake": (2, 0, 2, 0), "skylake_x": (2, 0, 1, 0),
        "sandy_bridge_erm": (2, 0, 1, 0),
    }  # fmt: skip
    # Loads and stores of Ice Lake share no port: four accesses per cycle.
    assert [found[n].throughput_L1 for n in ("ice_lake", "skylake_x", "sandy_bridge_erm")] == [4, 3, 2]
    assert (found["zen5"].rs, found["zen5"].vector_rs, found["zen5"].vector_queue) == (88, 72, 96)
    assert found["sandy_bridge_erm"].misprediction_penalty == found["sandy_bridge_erm"].line_splits == 0


PAGE = 4096


def one_set(op, deps=None, *, lines, **core):
    """Schedule accesses to lines a page apart, which share a set of two ways, from a cold L1 with all in L2."""
    address = [PAGE * k for k in lines]
    free = {"line": 64, "size_L1": 8192, "size_L2": math.inf, "ways_L1": 2, "latency_L1": 2, "latency_L2": 6, **FREE}
    dag = pk.Dag.from_nodes(op, [[]] * len(op) if deps is None else deps, address)
    return DagScheduler(DagCore(**free | core), warm=True, record=True).run(dag)


def test_lines_of_one_set_drive_each_other_out():
    """Three lines in two ways: each comes anew, though L1 has room for 128."""
    assert one_set("LLLLLL", lines=[0, 1, 2, 0, 1, 2]).n_nodes("L2") == 6
    assert one_set("LLLLLL", lines=[0, 1, 2, 0, 1, 2], ways_L1=0).n_nodes("L2") == 0
    assert one_set("LLLLLL", lines=[0, 1, 0, 1, 0, 1]).n_nodes("L2") == 0


def test_lines_come_into_a_set_one_by_one():
    run = one_set("LLLL", lines=[0, 1, 2, 3], set_fill=5)
    assert run.issue.tolist() == [0, 5, 10, 15]
    assert run.done.tolist() == [6, 11, 16, 21]
    apart = one_set("LLLL", lines=[0, 1 + 1 / 64, 2 + 2 / 64, 3 + 3 / 64], set_fill=5, ways_L1=1)
    assert apart.issue.tolist() == [0, 0, 0, 0]


def test_a_line_that_a_store_of_the_window_wrote_comes_again():
    """Each line is loaded and stored; the third and later ones drive out a line that was written two lines before."""
    lines = [k // 2 for k in range(10)]
    near = one_set("LS" * 5, lines=lines, set_fill=5, set_fill_written=30, rob=64)
    assert near.issue[::2].tolist() == [0, 5, 10, 40, 70]
    far = one_set("LS" * 5, lines=lines, set_fill=5, set_fill_written=30, rob=2)
    assert np.diff(far.issue[::2]).max() < 30


def test_lines_that_stores_alone_bring_take_twice_as_long():
    run = one_set("SSSSS", lines=range(5), set_fill=5, set_fill_written=30)
    assert run.issue.tolist() == [0] * 5, "their values are there at once"
    assert run.done.tolist() == [6, 11, 16, 26, 36]


def test_lines_that_stores_of_the_window_alone_bring_wait_for_each_other():
    """Stores are written in order: a line that stores drove out before it was written comes again, whatever its set."""
    fills = {"set_fill": 5, "set_fill_written": 30, "set_fill_stored": 20, "store_refill": 7}
    assert one_set("SSSSS", lines=range(5), **fills).done.tolist() == [6, 11, 16, 36, 56]
    two_sets = [k // 2 + k % 2 / 64 for k in range(10)]
    filled = one_set("S" * 10, lines=two_sets, **fills | {"store_refill": 15})
    assert np.diff(filled.done[5:]).tolist() == [15, 15, 15, 15], "and not 20 for two"
    before = one_set("SSSSS", lines=range(5), rob=1, **fills)
    assert np.diff(before.done).max() < 20, "written before it left"


def stores_to(lines, **core):
    """Schedule stores to lines that L1 holds, two ports."""
    address = [64 * line + 8 * (k % 8) for k, line in enumerate(lines)]
    dag = pk.Dag.from_nodes("S" * len(address), [[]] * len(address), address)
    free = FREE | {"line": 64, "size_L1": 1 << 20, "latency_L1": 1, "store_ports": 2, "sb": 4, "fetch": 4}
    return DagScheduler(DagCore(**free | core), warm=True, record=True).run(dag).cycles


@pytest.mark.parametrize(
    ("lines", "store_lines", "cycles"),
    [
        (list(range(40)), 1, 40),  # each opens its line
        ([0] * 40, 1, 20),  # one line: two per cycle
        ([k // 2 for k in range(40)], 1, 20),  # pairs
        ([k % 2 for k in range(40)], 1, 40),  # by turns
        ([k % 2 for k in range(40)], 8, 20),  # two of eight open lines
        ([k % 8 for k in range(40)], 8, 20),
        ([k % 16 for k in range(48)], 8, 48),
        (list(range(40)), 0, 20),  # no rule
    ],
)
def test_a_line_is_opened_for_stores_in_a_cycle(lines, store_lines, cycles):
    assert abs(stores_to(lines, store_lines=store_lines) - cycles) <= 4


def turns(op, deps, times, **core):
    """Schedule a loop of one block."""
    body = pk.Dag.from_nodes(op, deps)
    stream = np.zeros(times, dtype=np.int64)
    dag = pk.Dag(body.program, stream, "loop", "traced", {})
    return DagScheduler(DagCore(**FREE | {"fetch": 8} | core), warm=False).run(dag).cycles


@pytest.mark.parametrize(
    ("nodes", "loop_turns", "per_turn"), [(2, 1, 1), (2, 2, 0.5), (2, 0, 0.25), (7, 1, 1), (9, 1, 1.125), (20, 1, 2.5)]
)
def test_a_jump_back_ends_what_is_fetched_in_a_cycle(nodes, loop_turns, per_turn):
    cycles = turns("A" * nodes, [[]] * nodes, 80, loop_turns=loop_turns)
    assert abs(cycles - 80 * per_turn) <= 2


@pytest.mark.parametrize(
    ("groups", "lines", "code_reads", "per_turn"),
    [(1, 1, 1, 1), (2, 1, 1, 2), (1, 3, 1, 3), (3, 2, 2, 1.5), (5, 5, 0, 0.25), (0, 0, 1, 0.25)],
)
def test_a_block_is_fetched_after_its_groups_and_lines_of_code(groups, lines, code_reads, per_turn):
    """Two nodes of eight slots a cycle: a quarter of a cycle per turn, unless reading its code takes longer."""
    body = pk.Dag.from_nodes("AA", [[], []]).program
    added = {"op": READ, "left": -1, "right": -1, "into": -1, "shape": 0, "level": -1, "call": -1}
    added["delay"] = groups + LINES_READ * lines
    tables = {name: np.insert(getattr(body, name), 0, value) for name, value in added.items()}
    program = body._replace(**tables, block_ops=body.block_ops + np.array([0, 1]))
    dag = pk.Dag(program, np.zeros(80, dtype=np.int64), "loop", "traced", {})
    scheduler = DagScheduler(DagCore(**FREE | {"fetch": 8, "code_reads": code_reads}), warm=False)
    found = scheduler.run(dag).cycles
    # Eight cycles of reading may lie before the fetch of the first turn.
    assert abs(found - 80 * per_turn) <= 9
    assert dag.nodes()["op"].tolist() == ["A"] * 160
    relaxed = pk.relax(dag, scheduler).to_frame()
    gains = dict(zip(relaxed["resource"], relaxed["gain"], strict=True))
    assert ("fetch of groups and lines of code" in gains) == (code_reads > 0)
    if per_turn >= 1:
        assert gains["fetch of groups and lines of code"] > 0.6


def test_crowded_sets_are_a_doubt_and_a_candidate():
    """Columns of 4 KiB rows: on cores whose sets were measured, and on others, which have no figure."""
    said = {}
    for name in ("zen5", "ice_lake"):
        core = DagCore.load(name)
        for step in (PAGE, PAGE + 64):
            address = [step * (k % 40) for k in range(400)]
            run = DagScheduler(core).run(pk.Dag.from_nodes("L" * 400, [[]] * 400, address))
            said[name, step] = " ".join(run.doubts)
    assert "wait for others that come into their set of L1" in said["zen5", PAGE]
    assert "not known of this core" in said["ice_lake", PAGE]
    assert said["zen5", PAGE + 64] == said["ice_lake", PAGE + 64] == ""
    dag = pk.Dag.from_nodes("L" * 400, [[]] * 400, [PAGE * (k % 40) for k in range(400)])
    assert pk.relax(dag, DagScheduler(DagCore.load("zen5"))).bottleneck == "sets of L1"


def test_a_square_root_keeps_the_divider_longer_in_cycles_that_are_free():
    # Divisions take 5 cycles of the divider, roots 8; each division waits for its root.
    dag = pk.Dag.from_nodes("DDDDD", [[], [0], [], [2], []])
    dag = replace(dag, program=dag.program._replace(delay=np.array([SQUARE_ROOT, 0] * 2 + [SQUARE_ROOT])))
    core = DagCore.sandy_bridge_erm().replace(throughput_D=0.2, latency_D=10)
    # The second root begins at 8, stands aside for the division at 10 to 14, and ends with 20.
    assert DagScheduler(core).run(dag).issue.tolist() == [0, 10, 8, 21, 26]


def divided(*links, busy=5, latency=8):
    """Schedule divisions of integers; each link names the division whose result it needs (-1: none)."""
    rows = []
    for k, link in enumerate(links):
        rows += [(HOLD, -1, -1, -1, 0, -1, busy), (INTEGER, link, -1, k, 0, -1, 0)]
    table = np.array(rows, dtype=np.int64)
    program = BlockProgram.of_operations(table, [(len(table), 0, 0, 0)], np.array([[1, 8]]), len(links))
    core = DagCore(latency_I=latency)
    return DagScheduler(core).run(pk.Dag(program, np.zeros(1, dtype=np.int64))).issue.tolist()


def test_independent_chains_of_integer_divisions_take_turns():
    assert divided(-1, -1, -1) == [0, 5, 10]  # one after the other
    assert divided(-1, 0, 1) == [0, 8, 16]  # a chain waits for results, not for the divider
    assert divided(-1, 0, 1, busy=12) == [0, 12, 24]  # nor for results where the divider takes longer
    # Two chains, the first whole before the second: this one begins in 5, goes on in the cycles from 13 on that the
    # first left, and its second link waits for these. Then one that needs nothing.
    assert divided(-1, 0, -1, 2, -1) == [0, 8, 5, 15, 20]
    # Two chains that fit between each other do not wait at all.
    assert divided(-1, 0, 1, -1, 3, 4, busy=4) == [0, 8, 16, 4, 12, 20]
    # Fifty chains of four: the divider is hardly ever free.
    chains = [k - 1 if k % 4 else -1 for k in range(200)]
    assert max(divided(*chains)) == pytest.approx(199 * 5, abs=16)


def test_a_load_of_several_stores_waits_until_they_are_written():
    core = {"line": 64, "size_L1": 4096, "latency_L1": 4, "latency_blocked": 10}

    def loaded(address, width, **changes):
        """Return when a load of 16 bytes is done that comes after stores."""
        marks = "S" * (len(address) - 1) + "L"
        return int(run(marks, address=address, width=width, **core | changes).done[-1])

    # Both stores are done, and so written, in 4; the load has its value 10 later, or as any other load at 4.
    assert loaded([0, 8, 0], [1, 1, 2]) == 14
    assert loaded([0, 8, 0], [1, 1, 2], latency_blocked=0) == 4
    assert loaded([0, 8, 8], [1, 1, 1]) == 4  # one store wrote all of it
    assert loaded([0, 0], [2, 2]) == 4
    assert loaded([0, 0], [1, 2]) == 14  # the rest comes from the cache
    # Long after the store is written nothing waits.
    late = pk.Dag.from_nodes("SAL", [[], [], [1]], [0, None, 0], None, [1, 1, 2])
    assert DagScheduler(DagCore(latency_A=50, **core), record=True).run(late).done.tolist() == [4, 50, 54]


def test_only_renamed_loads_have_a_stores_value_at_once():
    core = DagCore(line=64, size_L1=4096, latency_L1=4, latency_forward=7, memory_renaming=1, store_ports=1)

    def done(mark):
        # A store before it takes the port: the store that is loaded issues in 1, after the load could.
        busy = pk.Dag.from_nodes("SSL", [[], [], []], [64, 0, 0])
        marks = np.array([1, 1, mark], dtype=np.int64)
        marked = pk.Dag(busy.program._replace(delay=marks), busy.stream)
        return int(DagScheduler(core, x86_order=False, record=True).run(marked).done[-1])

    assert done(1) == 1
    assert done(FORWARDED_LOAD) == 1 + 7


def test_streams_that_begin_alike_are_no_doubt():
    """Three arrays that are as far apart as sets repeat: each line waits for two others of its set, once."""
    address = [(k % 3) * (1 << 20) + 8 * (k // 3) for k in range(6000)]
    dag = pk.Dag.from_nodes("LLS" * 2000, [[]] * 6000, address)
    for name in ("zen5", "ice_lake"):
        assert DagScheduler(DagCore.load(name), warm=True).run(dag).doubts == ()
