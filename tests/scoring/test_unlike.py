"""Programs unlike those learnt from (`tests.benchmarks.unlike`): what a processor's ports would count, what is made."""

import pandas as pd
import pytest

import perfkit as pk
from tests.simulators.assembled import needs_assembler

unlike = pytest.importorskip("tests.benchmarks.unlike")
from real_names import as_real, busy_ports  # noqa: E402 (data/make, which unlike puts on the path)


def ports(core: str, **counts: float) -> dict[str, float]:
    machine = pk.Microarchitecture.load(core)
    every = {f"uops.{name}": 0.0 for name in machine.ports if "nvalid" not in name}
    frame = pd.DataFrame([every | {f"uops.{name}": count for name, count in counts.items()}])
    return {name: round(value) for name, value in busy_ports(frame, machine).iloc[0].items() if round(value)}


def test_uops_of_a_group_go_to_its_least_busy_ports():
    # A group's event counts those of the groups within it: of 44 uops, 8 can go to port 0 alone.
    assert ports("skylake_x", p0=8, p01=8, p05=8, p06=8, p015=8, p016=8, p056=8, p0156=44) == {
        "p0": 11, "p1": 11, "p5": 11, "p6": 11
    }  # fmt: skip
    # Twenty on port 0 leave nothing for it of the twelve others.
    assert ports("skylake_x", p0=20, p01=20, p05=20, p06=20, p015=20, p016=20, p056=20, p0156=32) == {
        "p0": 20, "p1": 4, "p5": 4, "p6": 4
    }  # fmt: skip
    assert ports("skylake_x", p4=7, p23=12, p237=12) == {"p2": 6, "p3": 6, "p4": 7}


@needs_assembler
def test_programs_are_of_their_number_and_seed():
    one, same, other = unlike.program(3, 5), unlike.program(3, 5), unlike.program(3, 6)
    assert one.name == same.name != other.name
    assert (one.trace.stream == same.trace.stream).all()
    assert one.trace.code.text == same.trace.code.text


@needs_assembler
def test_divisions_are_counted_by_their_elements():
    number = next(n for n in range(200) if unlike.program(n, 5).name.endswith(" normalised"))
    loop = unlike.program(number, 5)
    text = next(text for text in loop.trace.code.text if "div" in text or "sqrt" in text)
    runs = loop.trace.instruction_count / len(loop.trace.code.text)  # one block, and it is all of the program
    assert unlike.divisions_of(loop) == pytest.approx(runs * (4 if "ymm" in text else 1), rel=0.01)


@needs_assembler
def test_real_names_are_of_the_core_and_make_no_doubt():
    core = pk.Microarchitecture.load("skylake_x")
    loop = unlike.program(10, 5)
    real = as_real(pk.SimulatedPmu(core, intervals=4).collect({loop.name: loop.trace}).to_wide(), core, 0.0)
    assert "uops_dispatched_port.port_7" in real.events
    found = pk.Bottlenecks.load(core).explain(real, intervals=False)
    assert found.unused.empty
    assert found.doubts.empty


def test_a_dump_by_real_names_has_at_least_one_load_in_each_interval():
    """A processor's program always loads something; perfkit takes 0 for an event that a virtual machine lacks."""
    core = pk.Microarchitecture.load("zen4")
    every = {f"uops.{name}": 0.0 for name in core.ports if "nvalid" not in name} | {
        "cycles": 100.0,
        "instructions": 90.0,
    }
    loads = pd.DataFrame({"mem-loads": [0.0, 9.0], "l1.accesses": [0.0, 7.0]}, index=pd.Index(["a", "a"], name="run"))
    counts = as_real(loads.assign(**every), core, 0.0).table.groupby("event", observed=True)["count"].agg(list)
    assert counts["l1-dcache-loads"] == [1.0, 7.0]


def test_only_divisions_and_roots_of_floating_point_numbers_are_counted():
    texts = ["vdivsd xmm0,xmm1,xmm2", "divps xmm0,xmm1", "vsqrtpd ymm0,ymm1", "idiv ecx", "div rcx", "vmulsd xmm0,xmm1"]
    assert [bool(unlike._DIVIDES.match(text)) for text in texts] == [True, True, True, False, False, False]


def test_the_table_says_by_probability_how_often_what_is_named_is_right():
    """Twenty runs at 0.7, 14 of them right, and ten that are not named at 0.4, all wrong: off by 0 and by 0.4."""
    rows = [(0.7, True, k < 14) for k in range(20)] + [(0.4, False, False)] * 10
    found = pd.DataFrame(rows, columns=["probability", "named", "right"]).assign(events="all", three=True, truth="L2")
    last = unlike.table(found.iloc[:20]).splitlines()[-1]
    assert "| all | 20 | 1.00, 0.70 | 0.70 | 1.00 | 0.70, 1.00 | nan (0) | 0.70 (20) | nan (0) | nan (0) |" in last
    assert "| 30 | 0.67, 0.70 | 0.47 | 1.00 |" in unlike.table(found)
