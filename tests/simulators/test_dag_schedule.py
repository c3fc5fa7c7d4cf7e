"""Schedules solved by hand, one rule at a time."""

import math

import numpy as np
import pytest

import perfkit as pk
from perfkit.dag.graph import Dag
from perfkit.errors import DataError, FormatError, SettingError, UnavailableError
from perfkit.simulators.dag.core import DagCore, parameter_names
from perfkit.simulators.dag.measures import Schedule
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.simulators.dag.sweep import sweep

INF = math.inf


def schedule(op, deps, level=None, address=None, width=1, bytes=8, switches=None, **core):  # noqa: A002
    """Schedule on a core without limits but those given."""
    switches = {"load_ports": 0, "store_ports": 0, "agus": 0, "warm": False, **(switches or {})}
    if level is not None:
        level = [level if o in "LS" else None for o in op] if isinstance(level, str) else level
    dag = Dag.from_nodes(op, deps, address, level, width, bytes)
    return DagScheduler(DagCore(**core), **switches).run(dag)


FREE = [[]] * 8


def test_a_core_without_limits_issues_when_operands_are_ready():
    found = schedule("LMA", [[], [0], [1]], "L1", latency_L1=4, latency_M=5, latency_A=3)
    assert found.issue.tolist() == [0, 4, 9]
    assert (found.cycles, found.performance) == (12, 2 / 12)


def test_fetch_width():
    assert schedule("AAAAA", FREE[:5], fetch=2, latency_A=1).issue.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("throughput", "issue"),
    [
        (1, [0, 1, 2, 3]),
        (2, [0, 0, 1, 1]),
        (1 / 22, [0, 22, 44, 66]),
        (1.5, [0, 0, 1, 1]),
        (2 / 9, [0, 4, 9, 13]),
        (0, [0] * 4),
    ],
)
def test_throughput(throughput, issue):
    assert schedule("DDDD", FREE[:4], throughput_D=throughput, latency_D=1).issue.tolist() == issue


def test_the_oldest_node_is_not_delayed_by_younger_ones():
    # Node 1 wants the divider in cycle 3; node 2 could have it from 0 but would keep it until 4.
    found = schedule("ADD", [[], [0], []], latency_A=3, latency_D=1, throughput_D=1 / 4)
    assert found.issue.tolist() == [0, 3, 7]


def test_reservation_station_holds_arithmetic_until_it_issues():
    found = schedule("AAAAA", [[], [0], [1], [2], [3]], fetch=4, rs=2, latency_A=3)
    assert found.issue.tolist() == [0, 3, 6, 9, 12]
    # The fourth node is fetched when the second issues (3), the fifth when the third does (6).
    assert np.flatnonzero(found.stall_mask).tolist() == [1, 2, 4, 5]
    assert found.stalls == {"RS": 4, "ROB": 0, "LB": 0, "SB": 0, "LFB": 0}


def test_reorder_buffer_frees_in_order():
    # The second node is over at 1 but leaves only with the first, at 10.
    found = schedule("LAA", FREE[:3], "mem", fetch=4, rob=2, latency_mem=10, latency_A=1)
    assert found.issue.tolist() == [0, 0, 10]
    assert found.stalls["ROB"] == 9


def test_a_full_rs_is_seen_before_a_full_rob():
    found = schedule("AAA", [[], [0], []], fetch=4, rob=2, rs=1, latency_A=5)
    assert found.issue.tolist() == [0, 5, 5]
    assert (found.stalls["RS"], found.stalls["ROB"]) == (4, 0)


@pytest.mark.parametrize(("op", "buffer"), [("L", "lb"), ("S", "sb")])
def test_load_and_store_buffers_hold_to_completion(op, buffer):
    found = schedule(op * 3, FREE[:3], "L1", fetch=4, latency_L1=4, **{buffer: 1})
    assert found.issue.tolist() == [0, 4, 8]
    assert found.stalls[buffer.upper()] == 8


def test_memory_nodes_wait_for_their_buffer_in_the_rs():
    found = schedule("LLA", FREE[:3], "L1", fetch=4, lb=1, rs=1, latency_L1=4, latency_A=1)
    assert found.issue.tolist() == [0, 4, 4]
    assert (found.stalls["LB"], found.stalls["RS"]) == (4, 3)


def test_line_fill_buffers_hold_misses_only():
    found = schedule("LLL", FREE[:3], ["mem", "mem", "L1"], fetch=4, lfb=1, latency_mem=10, latency_L1=1)
    assert found.issue.tolist() == [0, 10, 10]  # the hit waits for the load before it (x86 order)
    assert found.stalls["LFB"] == 10
    free = schedule("LLL", FREE[:3], ["mem", "mem", "L1"], switches={"x86_order": False}, lfb=1, latency_mem=10)
    assert free.issue.tolist() == [0, 10, 0]


@pytest.mark.parametrize(("ordered", "issue"), [(True, [0, 5, 5, 5, 5]), (False, [0, 5, 0, 0, 0])])
def test_x86_order(ordered, issue):
    # A load that waits for an addition holds up the next load and store, not beyond its issue cycle.
    found = schedule("ALLSL", [[], [0], [], [], []], "L1", switches={"x86_order": ordered}, latency_A=5, latency_L1=4)
    assert found.issue.tolist() == issue


def test_loads_pass_stores():
    found = schedule("ASLS", [[], [0], [], []], "L1", latency_A=5, latency_L1=4)
    assert found.issue.tolist() == [0, 5, 0, 5]


@pytest.mark.parametrize(("blocking", "issue"), [(True, [0, 100, 100]), (False, [0, 0, 0])])
def test_inflight_blocking(blocking, issue):
    core = {"latency_mem": 100, "latency_L1": 4, "size_L1": 1024, "line": 64}
    found = schedule("LLL", FREE[:3], address=[0, 8, 56], switches={"inflight_blocking": blocking}, **core)
    assert found.type.tolist() == [6, 3, 3]
    assert found.issue.tolist() == issue


@pytest.mark.parametrize(("kept", "issue"), [(True, [0, 5, 5, 0]), (False, [0, 5, 0, 0])])
def test_a_load_waits_for_the_store_to_its_word(kept, issue):
    switches = {"memory_dependences": kept, "inflight_blocking": False, "x86_order": False}
    found = schedule("ASLL", [[], [0], [], []], address=[None, 0, 0, 8], switches=switches, latency_A=5, line=64)
    assert found.issue.tolist() == issue


def test_a_vector_store_is_a_dependence_of_each_of_its_words():
    switches = {"inflight_blocking": False, "x86_order": False}
    found = schedule(
        "ASLL",
        [[], [0], [], []],
        address=[None, 0, 24, 32],
        width=[1, 4, 1, 1],
        switches=switches,
        latency_A=5,
        line=64,
    )
    assert found.issue.tolist() == [0, 5, 5, 0]


def test_ports_and_address_units():
    def issue(**ports):
        return schedule("LLSL", FREE[:4], "L1", switches=ports, latency_L1=1).issue.tolist()

    assert issue() == [0, 0, 0, 0]
    assert issue(load_ports=2) == [0, 0, 0, 1]
    assert issue(load_ports=2, agus=2) == [0, 0, 1, 1]
    assert issue(load_ports=1, agus=2) == [0, 1, 1, 2]


def test_bandwidth_below_l1_by_access_or_by_line():
    core = {"throughput_L2": 4, "latency_L2": 12, "line": 64}
    assert schedule("LLL", FREE[:3], "L2", **core).issue.tolist() == [0, 0, 0]
    assert schedule("LLL", FREE[:3], "L2", switches={"below_l1": "line"}, **core).issue.tolist() == [0, 2, 4]


def test_vectors_take_bandwidth_and_count_work_by_their_width():
    found = schedule(
        "LLA", [[], [], [0, 1]], "mem", width=4, throughput_mem=1, latency_mem=10, latency_A=3, throughput_A=1
    )
    assert found.issue.tolist() == [0, 4, 14]
    assert (found.work, found.traffic, found.n_nodes("mem"), found.elements("mem")) == (4, 64, 2, 8)
    assert (found.peak("A"), found.peak("mem")) == (4, 1)
    assert found.utilisation("A", "issue") == 1


@pytest.mark.parametrize(("ports", "peak"), [(0, 16), (2, 8), (4, 16)])
def test_the_peak_of_vectors_is_that_of_the_ports_that_they_share(ports, peak):
    """Two additions and two multiplications of four elements a cycle, as far as there are ports."""
    found = schedule("AM", FREE[:2], width=4, throughput_A=2, throughput_M=2, fp_ports=ports)
    assert found._peak_of_computation() == peak


def test_latency_zero_ends_in_its_issue_cycle():
    found = schedule("AAA", [[], [0], [1]])
    assert (found.issue.tolist(), found.done.tolist(), found.cycles) == ([0, 0, 0], [0, 0, 0], 1)
    assert (found.time("A", "issue"), found.time("A", "span"), found.time("A", "latency")) == (1, 1, 0)


def test_levels_follow_from_reuse_and_a_warm_cache():
    addresses = [64 * k for k in (0, 1, 2, 3, 0)]
    core = {"size_L1": 128, "size_L2": 256, "size_L3": 512, "line": 64}
    cold = schedule("LLLLL", FREE[:5], address=addresses, **core)
    assert cold.type.tolist() == [6, 6, 6, 6, 4]
    warm = schedule("LLLLL", FREE[:5], address=addresses, switches={"warm": True}, **core)
    assert warm.type.tolist() == [3, 4, 4, 4, 4]


@pytest.mark.parametrize(("rounding", "hits"), [("none", 3), ("up", 4), ("down", 2)])
def test_l3_rounding(rounding, hits):
    core = {"size_L3": 192, "line": 64}
    distances = [2, 3, 4]
    found = 0
    for distance in distances:
        lines = [*range(distance), 0]
        run = schedule(
            "L" * len(lines),
            [[]] * len(lines),
            address=[64 * k for k in lines],
            switches={"l3_rounding": rounding},
            **core,
        )
        found += run.type[-1] == 5
    assert found == hits - 1


def test_many_dependences_and_large_windows_and_footprints():
    n = 3000
    found = schedule("A" * n + "M", [[]] * n + [list(range(n))], latency_A=2, throughput_A=1)
    assert found.issue[-1] == n + 1
    chain = schedule("A" * n, [[i - 1] if i else [] for i in range(n)], latency_A=10)
    assert chain.cycles == 10 * n  # an unlimited window: the rings grow
    lines = schedule("L" * 20000, [[]] * 20000, address=[64 * i for i in range(20000)], line=64, size_L1=64)
    assert lines.n_nodes("mem") == 20000


def test_given_levels_need_no_line_size_and_addresses_do():
    with pytest.raises(SettingError, match="line size"):
        schedule("L", [[]], address=[0])
    assert schedule("L", [[]], "L2").type.tolist() == [4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"op": "AX", "deps": [[], []]}, "unknown operation 'X'"),
        ({"op": "AA", "deps": [[1], []]}, "node 0 depends on 1"),
        ({"op": "A", "deps": [[0]]}, "itself"),
        ({"op": "A", "deps": [[-1]]}, "negative"),
        ({"op": "L", "deps": [[]]}, "neither an address nor a level"),
        ({"op": "A", "deps": [[]], "level": ["L1"]}, "only L and S"),
        ({"op": "L", "deps": [[]], "level": ["L4"]}, "unknown level"),
        ({"op": "L", "deps": [[]], "address": [-8]}, "negative address"),
        ({"op": "AA", "deps": [[]]}, "1 entries for 2 nodes"),
        ({"op": "A", "deps": [[]], "width": 0}, "width"),
    ],
)
def test_bad_nodes_are_named(arguments, message):
    with pytest.raises(DataError, match=message):
        Dag.from_nodes(**arguments)


@pytest.mark.parametrize(
    "wrong",
    [{"rs": -1}, {"rs": 1.5}, {"latency_A": INF}, {"throughput_A": -1}, {"fetch": math.nan}, {"throughput_A": 1e9}],
)
def test_bad_parameters_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong)).split("_")[0]):
        DagCore(**wrong)


def test_bad_switches_are_refused():
    for wrong in ({"below_l1": "page"}, {"l3_rounding": "maybe"}, {"load_ports": -1}):
        with pytest.raises(SettingError):
            DagScheduler(DagCore(), **wrong)
    with pytest.raises(SettingError, match="unknown parameter"):
        DagCore().replace(rob_size=4)
    with pytest.raises(SettingError, match="DagCore or a Microarchitecture"):
        DagScheduler("zen4")


def test_an_empty_dag_says_so():
    with pytest.raises(DataError, match="no nodes"):
        DagScheduler(DagCore()).run(Dag.from_nodes([], []))


_STEP = [[], [], [0], [1, 2], [3], [], [5], [6], [7], [8]]  # dependences within ten nodes
_PLACES = [64, 4096, None, None, 64, 8, None, None, None, 80_000]  # bytes from one ten to the next
MIXED = Dag.from_nodes(
    "LLMASLMDAS" * 20,
    [[i + d for d in deps] for i in range(0, 200, 10) for deps in _STEP],
    address=[place and place * i for i in range(20) for place in _PLACES],
)


def test_a_latency_with_a_fraction_is_refused_with_its_reason():
    with pytest.raises(SettingError, match=r"latency_A is a whole number of cycles, not 2.5: .* give 2 or 3") as told:
        DagCore.sandy_bridge_erm().replace(latency_A=2.5)
    assert "ever end" not in str(told.value)


@pytest.mark.parametrize("core", ["zen4", "sandy_bridge_erm"])
def test_no_unit_is_used_more_than_all_the_time(core):
    """A line of memory keeps it for 8 cycles of a Zen 4 and begins in one: 800 % of its throughput, said the table."""
    for source in pk.open_dags("reduction,kmeans", sizes=[20_000]).values():
        schedule = DagScheduler(DagCore.load(core), warm=False, record=False).run(source)
        table = schedule.to_frame()
        assert table[[name for name in table.columns if name.startswith("U_")]].max().max() <= 1
        roofs = schedule.roofline().to_frame()
        assert roofs["utilisation"].max() <= 1
        told = roofs.loc[roofs["label"] == "memory issue", "formula"].iloc[0]
        assert core != "zen4" or "= 1 at most (each keeps its unit for longer than it issues)" in told, told


@pytest.mark.parametrize("name", [n for n in parameter_names() if n != "line"])
def test_every_parameter_may_be_zero_or_infinite(name):
    core = DagCore.sandy_bridge_erm()
    before = DagScheduler(core).run(MIXED).cycles
    for value in (0, INF):
        if name.startswith("latency") and value == INF:
            with pytest.raises(SettingError, match="nothing would ever end"):
                core.replace(**{name: value})
            continue
        after = DagScheduler(core.replace(**{name: value})).run(MIXED)
        assert len(after.issue) == len(MIXED) == 200
        if not name.startswith("size"):  # without a cache its accesses go further; all else only limits
            assert after.cycles <= before
    everything = {n: 0 if n.startswith("latency") else INF for n in parameter_names() if n not in ("line", name)}
    free = DagScheduler(core.replace(**everything)).run(MIXED)
    assert len(free.issue) == 200


def test_table_i():
    core = DagCore.sandy_bridge_erm()
    assert [core.throughput(k) for k in ("A", "M", "mem", "L3", "L2", "L1")] == [1, 1, 1, 4, 4, 2]
    assert [core.latency(k) for k in ("A", "M", "mem", "L1", "L2", "L3")] == [3, 5, 100, 4, 12, 30]
    assert (core.fetch, core.rob, core.rs, core.sb, core.lb, core.lfb) == (4, 168, 54, 36, 64, 10)
    assert (core.size_L1, core.size_L2, core.size_L3, core.line) == (32 * 1024, 256 * 1024, 20 * 1024**2, 64)
    assert core.to_frame()["source"].str.len().min() > 0


def test_nodes_of_a_dag_and_files(tmp_path):
    dag = Dag.from_nodes("LSA", [[], [0], [0, 1]], [0, 8, None], [None, "L2", None], [2, 1, 1])
    nodes = dag.nodes()
    assert nodes["deps"].tolist() == [(), (0,), (0, 1)]
    assert nodes["level"].isna().tolist() == [True, False, True]
    assert nodes["level"][1] == "L2"
    assert dag.counts == {"A": 1, "M": 0, "D": 0, "L": 1, "S": 1}
    with pytest.raises(SettingError, match="limit"):
        dag.nodes(limit=2)
    again = Dag.load(dag.save(tmp_path / "dag.npz"))
    run = DagScheduler(DagCore.sandy_bridge_erm()).run(again)
    loaded = Schedule.load(run.save(tmp_path / "run.npz"))
    assert loaded.to_frame().equals(run.to_frame())
    assert loaded.core == run.core
    assert loaded.node_table().equals(run.node_table())
    (tmp_path / "bad.npz").write_text("no")
    for kind in (Dag, Schedule):
        with pytest.raises(FormatError, match=r"bad\.npz"):
            kind.load(tmp_path / "bad.npz")


def test_what_was_not_recorded_is_unavailable():
    dag = Dag.from_nodes("A", [[]])
    run = DagScheduler(DagCore(), record=False).run(dag)
    with pytest.raises(UnavailableError, match="record=True"):
        run.node_table()


def test_sweep_over_a_parameter_and_a_switch():
    dag = Dag.from_nodes("A" * 50, [[i - 1] if i else [] for i in range(50)])
    table = sweep(dag, DagCore.sandy_bridge_erm(), "latency_A", [1, 3], threads=2)
    assert table["cycles"].tolist() == [50, 150]
    assert "computation latency" in table["verdict"][1]
    loads = Dag.from_nodes("LLLL", FREE[:4], level=["L1"] * 4)
    table = pk.sweep(loads, DagCore(), "load_ports", [1, 2, 0], agus=0)
    assert table["cycles"].tolist() == [4, 2, 1]
    with pytest.raises(SettingError, match="unknown parameter"):
        sweep(dag, DagCore(), "speed", [1])


def test_cores_of_the_kit():
    core = DagCore.load("skylake_x")
    assert (core.latency_A, core.latency_M, core.rob, core.rs) == (4, 4, 224, 97)
    # The core file's 14 cycles are those of integer loads; vector registers (scalar doubles too) get theirs later.
    assert (core.latency_L2, core.integer_loads_earlier, core.latency_L1) == (16, 2, 7)
    # Additions and multiplications share two ports; loads have two, and an address unit more is for stores.
    assert (core.throughput_A, core.throughput_M, core.fp_ports) == (2, 2, 2)
    assert (core.load_ports, core.store_ports, core.agus) == (2, 1, 3)
    assert DagScheduler(pk.Microarchitecture.load("skylake_x")).core == core
    erm = DagCore.sandy_bridge_erm()
    assert (erm.load_ports, erm.store_ports, erm.agus) == (2, 1, 2)
    with pytest.raises(UnavailableError, match="cortex_a72"):
        DagCore.load("cortex_a72")


def test_vector_loads_that_come_before_those_of_integers_are_told():
    slow = pk.Microarchitecture.load("zen4").replaced("L1_latency", 8, "one cycle more than vector loads")
    core = DagCore.from_microarchitecture(slow)
    assert (core.latency_L1, core.integer_loads_earlier) == (8, 0)
    assert "1 cycles less for vector registers not modelled" in core.sources["integer_loads_earlier"]
