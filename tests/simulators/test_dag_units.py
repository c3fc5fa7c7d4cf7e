"""Which units integer work takes: conversions and work on vector registers those of floating-point numbers."""

from dataclasses import replace

import numpy as np
import pytest

import perfkit as pk
from perfkit import Dag, DagCore, DagScheduler
from perfkit.collectors.dag.ir_costs import IrCosts
from perfkit.collectors.dag.vector_units import vector_units
from perfkit.dag.program import ADDER, INTEGER, MULTIPLIER, PIPE, STORE, VECTOR
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.simulators.dag.measures import Schedule

CORE = DagCore(latency_I=1, latency_A=1, latency_M=1, throughput_I=8, throughput_A=2, throughput_M=1, fp_ports=4)


def of(ops, units):
    """Return a DAG of independent nodes; `units` says what the integer work among them takes, in order."""
    dag = Dag.from_nodes(ops, [[] for _ in ops])
    delay = dag.program.delay.copy()
    delay[dag.program.op == INTEGER] = units
    return replace(dag, program=dag.program._replace(delay=delay))


@pytest.mark.parametrize(
    ("ops", "units", "cycles"),
    [
        ("I" * 16, [0] * 16, 2),
        ("I" * 16, [VECTOR] * 16, 2),
        ("I" * 16, [PIPE] * 16, 4),
        ("I" * 16, [ADDER] * 16, 8),
        ("I" * 16, [MULTIPLIER] * 16, 16),
        ("I" * 8 + "A" * 8, [ADDER] * 8, 8),  # both wait for the two units of additions
        ("A" * 8 + "I" * 8, [PIPE] * 8, 4),  # additions take two of four, other work the rest
        ("I" * 12, [ADDER, PIPE, MULTIPLIER] * 4, 4),
        ("I" * 24, [0, 0, PIPE] * 8, 2),  # and beside them integer units do theirs
    ],
)
def test_integer_work_takes_its_units(ops, units, cycles):
    assert DagScheduler(CORE).run(of(ops, units)).cycles == cycles


def test_a_core_without_such_units_does_all_integer_work_on_its_integer_units():
    core = DagCore(latency_I=1, throughput_I=2)
    for unit in (0, VECTOR, PIPE, ADDER, MULTIPLIER):
        assert DagScheduler(core).run(of("I" * 8, [unit] * 8)).cycles == 4


def test_integer_work_on_other_units_is_counted_and_kept(tmp_path):
    schedule = DagScheduler(CORE).run(of("I" * 24, [0, 0, PIPE] * 8))
    assert (schedule.n_nodes("I"), schedule.on_pipes) == (24, 8)
    assert schedule.utilisation("I", "issue") <= 1
    assert schedule.peak("I") == 12  # eight on integer units and four on the others, in the cycles that either needs
    assert set(schedule.node_table()["type"]) == {"I"}
    assert Schedule.load(schedule.save(tmp_path / "s")).on_pipes == 8
    (resource, *_) = pk.relax(of("I" * 64, [ADDER] * 64), DagScheduler(CORE)).to_frame()["resource"]
    assert resource == "floating-point units"


@pytest.mark.parametrize(
    ("core", "form", "units"),
    [
        ("zen5", "CVTTSD2SI_R64_XMMM64", [ADDER]),
        ("zen5", "CVTSI2SD_XMM_RM64", [ADDER]),
        ("zen5", "PMULLD_XMM_XMMM128", [MULTIPLIER]),
        ("zen5", "PADDD_XMM_XMMM128", [PIPE]),
        ("zen5", "MOVQ_RM64_XMM", [VECTOR]),
        ("zen3", "CVTSI2SD_XMM_RM64", [ADDER, ADDER]),
        ("golden_cove", "CVTSI2SD_XMM_RM64", [ADDER, MULTIPLIER]),  # p5 and p01
        ("golden_cove", "CVTTSD2SI_R64_XMMM64", [MULTIPLIER, MULTIPLIER]),  # p0 and p01
        ("skylake_x", "CVTTSD2SI_R64_XMMM64", [ADDER, ADDER]),  # p01 twice, where additions and multiplications are
        ("skylake_x", "PADDD_XMM_XMMM128", [VECTOR]),  # p015: no group of theirs
    ],
)
def test_units_of_instructions_are_those_of_the_table(core, form, units):
    assert vector_units(InstructionTables.load(pk.Microarchitecture.load(core)), form) == units


FRACTION = """void f(const double *restrict x, double *restrict y, long n) {
  for (long i = 0; i < n; i++) y[i] = x[i] - (double)(long)x[i];
}
"""


def test_a_fraction_takes_the_adders_of_a_zen5_three_times(tmp_path):
    """CVTTSD2SI, CVTSI2SD and SUBSD together 1.50 cycles, `pk.Block`; the loop 1.6 to 1.8 (1.05 were simulated)."""
    path = tmp_path / "f.c"
    path.write_text(FRACTION)
    core = pk.Microarchitecture.load("zen5")
    for source in (
        *pk.open_dags(path, function="f", arguments="f8[1000], f8[1000], 1000", core=core).values(),
        pk.trace_c(path, "f", np.linspace(0, 99, 1000), np.zeros(1000), 1000, whole=True, core=core),
    ):
        cycles = DagScheduler(core, record=False).run(source).cycles / 1000
        assert cycles == pytest.approx(1.52, abs=0.04), source


def test_stores_of_integers_take_a_unit_and_wait_in_the_scheduler():
    core = DagCore(latency_I=1, throughput_I=2, store_ports=2, throughput_L1=8, latency_L1=1, store_data=1)
    dag = Dag.from_nodes("IISS" * 8, [[]] * 32, level=[None, None, "L1", "L1"] * 8)
    delay = np.where(dag.program.op == STORE, 1, dag.program.delay)
    whole = replace(dag, program=dag.program._replace(delay=delay))
    assert DagScheduler(core).run(whole).cycles == 16
    assert DagScheduler(core.replace(store_data=0)).run(whole).cycles == 8
    assert DagScheduler(core).run(dag).cycles == 8  # of vector registers
    # Eight stores wait for one result: they fill a reservation station of four entries, and fetch waits.
    waiting = Dag.from_nodes("L" + "S" * 8 + "I", [[]] + [[0]] * 8 + [[]], level=["mem"] + ["L1"] * 8 + [None])
    delay = np.where(waiting.program.op == STORE, 1, waiting.program.delay)
    waiting = replace(waiting, program=waiting.program._replace(delay=delay))
    slow = core.replace(rs=4, latency_mem=50)
    assert DagScheduler(slow).run(waiting).issue[-1] >= 50
    assert DagScheduler(slow.replace(store_data=0)).run(waiting).issue[-1] == 0


def test_a_line_takes_as_much_bandwidth_whatever_is_read_of_it():
    core = DagCore(throughput_L2=4, line=64, whole_lines=1, size_L1=0, size_L2=1 << 20)
    for size in (8, 4, 1):
        dag = Dag.from_nodes("L" * 40, [[]] * 40, address=[64 * k for k in range(40)], bytes=size)
        schedule = DagScheduler(core).run(dag)
        assert schedule.n_nodes("L2") == 40
        assert schedule.cycles == pytest.approx(80, abs=2)
        assert schedule.elements("L2") / schedule.peak("L2") == 80


def test_divisions_of_bytes_are_shorter_on_a_zen5():
    """Measured: 3.98 cycles from one to the next, 5.98 of 32 bits; the table has six for both."""
    costs = IrCosts.of(pk.Microarchitecture.load("zen5"))
    assert [costs.division("udiv", f"i{bits}").busy for bits in (8, 16, 32, 64)] == [4, 4, 6, 7]
