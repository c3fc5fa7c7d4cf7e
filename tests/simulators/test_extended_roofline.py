"""The paper's worked example, Fig. 5(b), and the properties of all roofs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.dag.graph import Dag
from perfkit.errors import DataError, SettingError
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.measures import Schedule
from perfkit.simulators.dag.schedule import DagScheduler

CORE = DagCore.sandy_bridge_erm()


@pytest.fixture(scope="module")
def fig5():
    return Schedule.from_table(
        type=["L1", "L2", "L1", "L1", "L2", "M", "M", "A", "A"],
        issue=[0, 0, 1, 1, 2, 12, 14, 20, 23],
        done=[4, 12, 5, 5, 14, 17, 19, 23, 26],
        stalls={"ROB": range(15, 20)},
        core=CORE,
        name="Fig. 5(b)",
    )


def test_fig5_times(fig5):
    assert (fig5.cycles, fig5.work, fig5.performance) == (26, 4, 4 / 26)
    assert (fig5.n_nodes("L1"), fig5.n_nodes("L2")) == (3, 2)
    issue, latency, total = (
        {k: fig5.time(k, c) for k in ["A", "M", "L1", "L2"]} for c in ("issue", "latency", "total")
    )
    assert issue == {"A": 2, "M": 2, "L1": 2, "L2": 2}
    assert (latency["L1"], latency["L2"]) == (3, 12)
    assert total == {"A": 11, "M": 8, "L1": 10, "L2": 19}
    assert fig5.stalls["ROB"] == 5


def test_fig5_utilisations(fig5):
    used = fig5.utilisation
    assert [used(k, "issue") for k in ("L1", "comp", "L2")] == [3 / 4, 1 / 2, 1 / 4]
    assert [used(k, "span") for k in ("L1", "L2", "comp")] == [3 / 10, 1 / 28, 2 / 13]


def test_fig5_roofs(fig5):
    roofline = fig5.roofline()
    assert roofline.intensity == 4 / 40
    by_label = {roof.label: roof for roof in roofline.roofs}
    assert by_label["peak computation"].bound == 2
    assert by_label["computation issue"].bound == 1
    # "the achievable performance is 15 % of the issue performance bound": 2/13 of pi = 2
    assert by_label["computation latency"].bound == pytest.approx(4 / 13)
    # Equation (15) for computation and L2 hits the point exactly, and alone.
    assert by_label["overlap of computation and L2"].at(0.1) == pytest.approx(2 / 13, rel=1e-12)
    assert [roof.label for roof in roofline.hits] == ["overlap of computation and L2"]
    assert "overlap of computation and L2" in roofline.verdict
    frame = roofline.to_frame()
    assert len(frame) == len(roofline.roofs)
    assert frame["hits"].sum() == 1


def test_equation_15_as_printed(fig5):
    """The curve equals the paper's equation (15), evaluated with its own symbols."""
    roof = next(r for r in fig5.roofline().roofs if r.of == ("comp", "L2"))
    u_comp, u_x, alpha = fig5.utilisation("comp"), fig5.utilisation("L2"), fig5.overlap("comp", "L2")
    pi, beta, q, q_x = fig5.peak("comp"), fig5.peak("L2") * 8, fig5.traffic, fig5.bytes("L2")
    for i in (0.001, 0.1, 0.2, 3.0):
        compute, memory = i * q / (u_comp * pi * q_x), 1 / (u_x * beta)
        expected = (i * q / q_x) / (compute + memory - alpha * min(memory, compute))
        assert roof.at(i) == pytest.approx(expected)


def test_equation_16_corrected(fig5):
    roof = next(r for r in fig5.roofline().roofs if r.of == ("L1", "L2"))
    x, y = "L1", "L2"  # T_L1 = 10 < T_L2 = 19
    ub_x, ub_y = (fig5.utilisation(k) * fig5.peak(k) * 8 for k in (x, y))
    alpha, q = fig5.overlap(x, y), fig5.traffic
    for i in (0.01, 0.1, 2.0):
        expected = ub_x * ub_y * i * q / (ub_y * (1 - alpha) * fig5.bytes(x) + ub_x * fig5.bytes(y))
        assert roof.at(i) == pytest.approx(expected)


def test_a_kernel_without_flops_has_no_roofline_and_says_so():
    run = DagScheduler(CORE).run(Dag.from_nodes("LS", [[], [0]], level=["L1", "L1"]))
    assert run.performance == 0
    with pytest.raises(DataError, match="no floating-point operation"):
        run.roofline()


def test_a_kernel_without_memory_has_an_infinite_intensity():
    roofline = DagScheduler(CORE).run(Dag.from_nodes("AM", [[], [0]])).roofline()
    assert math.isinf(roofline.intensity)
    assert {roof.of for roof in roofline.roofs} == {("comp",)}
    assert np.isfinite([roof.at(math.inf) for roof in roofline.roofs]).all()
    assert roofline.plot().get_lines()


def test_tolerance_is_checked(fig5):
    with pytest.raises(SettingError, match="tolerance"):
        fig5.roofline(-1)
    assert len(fig5.roofline(100).hits) == len(fig5.roofline().roofs)
    far = Schedule.from_table(["A", "L1"], [0, 30], [3, 34], {"RS": [10]}, CORE)
    assert "No roof comes within" in far.roofline(0.0001).verdict


def test_given_cycles_are_checked():
    with pytest.raises(DataError, match="unknown"):
        Schedule.from_table(["X"], [0], [1], {}, CORE)
    with pytest.raises(DataError, match="issue <= done"):
        Schedule.from_table(["A"], [3], [1], {}, CORE)


@st.composite
def dags(draw):
    n = draw(st.integers(1, 40))
    op = draw(st.lists(st.sampled_from("AMDLS"), min_size=n, max_size=n))
    op[0] = "A"
    deps = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=2))) if i else [] for i in range(n)]
    address = [8 * draw(st.integers(0, 40)) if o in "LS" else None for o in op]
    return Dag.from_nodes(op, deps, address)


@settings(max_examples=40, deadline=None)
@given(dag=dags(), rs=st.sampled_from([1, 4, 54]), rob=st.sampled_from([2, 16, 168]))
def test_no_roof_is_below_the_point_and_all_follow_from_their_times(dag, rs, rob):
    run = DagScheduler(CORE.replace(rs=rs, rob=rob), warm=False).run(dag)
    roofline = run.roofline()
    assert max(run.time(k) for k in run.kinds) <= run.cycles <= sum(run.time(k) for k in run.kinds)  # equation (5)
    for roof in roofline.roofs:
        assert roof.distance >= 1 - 1e-12
        assert roof.bound == pytest.approx(roof.distance * run.performance)
        if math.isfinite(run.intensity):
            assert roof.at(run.intensity) == pytest.approx(roof.bound)
    for kind in run.kinds:
        assert 0 < run.utilisation(kind) <= run.utilisation(kind, "span") <= run.utilisation(kind, "issue") <= 1 + 1e-9
    assert (run.overlaps().to_numpy() <= 1).all()


def test_pictures(fig5):
    from perfkit.plots.extended_roofline import cycle_counts, plot_extended_roofline, plot_schedule

    ax = plot_extended_roofline(fig5.roofline(), labels=100)
    assert {text.get_text() for text in ax.get_legend().get_texts()} > {"performance", "peak computation (13.00)"}
    assert "simulated" in ax.get_title()
    # The pattern itself: get_linestyle calls every pattern of one's own "--".
    looks = [(line.get_color(), str(line._unscaled_dash_pattern), line.get_marker()) for line in ax.lines]
    assert len(set(looks)) == len(looks)  # each is told from the others
    few = {text.get_text() for text in plot_extended_roofline(fig5.roofline(), labels=1).get_legend().get_texts()}
    assert few > {"peak computation (13.00)", "L1 bandwidth (17.33)", "L2 bandwidth (52.00)"}
    executing, issuing = cycle_counts(fig5, 0, 26)
    assert executing[3].tolist()[:6] == [1, 3, 3, 3, 2, 0]  # L1
    assert issuing.sum(axis=1).tolist() == [2, 2, 0, 3, 2, 0, 0]
    part, _ = cycle_counts(fig5, 3, 20)
    assert (part == executing[:, 3:20]).all()
    ax = plot_schedule(fig5)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ROB stall"]
    with pytest.raises(SettingError, match="not within"):
        plot_schedule(fig5, 30)


def test_waits_that_add_nothing_are_not_said_to_be_the_reason():
    """Of 1,000 loads, one begun each cycle, the last waits alone: 3 of 1,003 cycles were "not hidden"."""
    core = DagCore(latency_L1=4, throughput_L1=1, latency_A=4)
    loads = Dag.from_nodes("L" * 999 + "A", [[]] * 1000, level=["L1"] * 999 + [None])
    said = DagScheduler(core).run(loads).roofline().verdict
    assert "L1 executes in 100% of the cycles, and issues in nearly all of these: waiting for its results" in said
    assert "not hidden" not in said
    chain = Dag.from_nodes("A" * 100, [[i - 1] if i else [] for i in range(100)])
    said = DagScheduler(core).run(chain).roofline().verdict
    assert "in 75% it only waits for results: its latency is not hidden by independent work" in said


def test_a_buffer_that_is_hardly_ever_full_is_not_said_to_be_the_reason():
    """Ten entries, full from cycle 0 until a load of 30 cycles ends: 29 of 1,021 cycles; of 300: 299 of 1,291."""
    for latency, part in ((30, "adds hardly anything"), (300, "is full in 23% of the cycles; these and")):
        core = DagCore(latency_L3=latency, latency_A=1, throughput_A=1, rob=10)
        dag = Dag.from_nodes("L" + "A" * 1000, [[]] * 1001, level=["L3"] + [None] * 1000)
        schedule = DagScheduler(core).run(dag)
        lines = schedule.roofline().verdict.splitlines()
        (line,) = [each for each in lines if "ROB stall with computation" in each]
        assert part in line, (schedule.cycles, schedule.stalls)
