"""Programs unlike those learnt from (`tests.benchmarks.unlike`): what a processor's ports would count, what is made."""

import pandas as pd
import pytest

import perfkit as pk
from tests.simulators.assembled import needs_assembler

unlike = pytest.importorskip("tests.benchmarks.unlike")


def ports(core: str, **counts: float) -> dict[str, float]:
    machine = pk.Microarchitecture.load(core)
    every = {f"uops.{name}": 0.0 for name in machine.ports if "nvalid" not in name}
    frame = pd.DataFrame([every | {f"uops.{name}": count for name, count in counts.items()}])
    return {name: round(value) for name, value in unlike.busy_ports(frame, machine).iloc[0].items() if round(value)}


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
    real = unlike.as_real(pk.SimulatedPmu(core, intervals=4).collect({loop.name: loop.trace}), core, 0)
    assert "uops_dispatched_port.port_7" in real.events
    found = pk.Bottlenecks.load(core).explain(real, intervals=False)
    assert found.unused.empty
    assert found.doubts.empty
