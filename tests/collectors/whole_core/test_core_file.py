"""The core that comes out: like the shipped ones, with the source of every figure; and the shipped measurement."""

import math
from dataclasses import replace
from types import MappingProxyType

import pytest

import perfkit as pk
from perfkit.collectors.whole_core.core_file import SOURCE, measured_core
from perfkit.collectors.whole_core.groups import own_uses, ports_name, shares
from perfkit.collectors.whole_core.settled import Settled
from perfkit.collectors.whole_core.whole import CoreMeasurement
from perfkit.errors import FormatError
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.machine.port_mapping.basis import Basis
from perfkit.machine.port_mapping.discover import PortMap
from perfkit.machine.port_mapping.mapping import FormUses, PortModel
from perfkit.machine.recognise import Recognised

ADD, MULTIPLY, LOAD = "ADD_R64_RM64", "IMUL_R64_RM64", "MOV_R64_RM64/m"


def measurement(exact: bool) -> CoreMeasurement:
    """Return a made-up measurement of three forms: four ports, a multiplier on one of them, two loads per cycle."""
    model = PortModel({ADD: frozenset({0, 1, 2, 3}), MULTIPLY: frozenset({1}), LOAD: frozenset({4, 5})}, 6.0)
    sizes = {ADD: 4, MULTIPLY: 1, LOAD: 2}
    basis = Basis(sizes, {form: (form,) for form in sizes})
    mapped = {form: FormUses({ports: 1.0}, 1.0, 0.0) for form, ports in model.sets.items()}
    alone = {form: Settled(1 / n, 0.98 / n, 1.02 / n) for form, n in sizes.items()}
    return CoreMeasurement(
        {"processor": "made up", "family": 1, "model": 2},
        Recognised("zen4", exact, "made up", "a test"),
        {**alone, f"{ADD}/m": Settled(0.5, 0.49, 0.51), f"{MULTIPLY}/m": Settled(1.0, 1.0, 1.0)},
        {ADD: {0: Settled(1.0, 0.99, 1.01)}, MULTIPLY: {0: Settled(4.02, 4.0, 4.1)}},
        PortMap(model, basis, mapped),
        {"front_end": 5.95, "L1_latency": 5.01, "memory_latency": 301.7, "rob": 437.0},
        0.5e-9,
    )


def test_what_was_measured_is_in_the_core_with_its_interval():
    core = measured_core(measurement(exact=True), "mine")
    form = core.forms[MULTIPLY]
    assert (form.source, form.row.latency, dict(form.latencies)) == ("measured", 4.0, {"0": (4.0, 4.1)})
    tables = InstructionTables.load(core)
    assert tables.form(MULTIPLY).inverse_throughput(core) == 1
    assert tables.form(MULTIPLY).source == "measured"
    assert tables.form(ADD).inverse_throughput(core) == 0.25
    # A multiplication takes one of the ports of additions: both groups know it.
    assert dict(tables.form(MULTIPLY).uses) == {"P1": 1.0, "P0+P1+P2+P3": 1.0}
    assert tables.form(f"{ADD}/m").inverse_throughput(core) == pytest.approx(0.5), "an addition and a load"
    assert core.value("L1_latency") == 5
    assert core.value("front_end") == 6
    assert core.value("memory_latency") == 301.7
    assert core.frequency.value == 2.0


def test_what_was_not_measured_says_where_it_is_from():
    core = measured_core(measurement(exact=True), "mine")
    assert core.forms["VEX_VADDPD_YMM_YMM_YMMM256"].source == "nearest"
    assert core.resource("scheduler").source == "nearest"
    assert "not measured here" in core.sources["nearest"]
    assert core.value("rob") == 320, "the documented size of a known processor, not an estimate of it"
    titles = {layer.name: layer.title for layer in InstructionTables.load(core).layers}
    assert "not measured here" in titles["llvm"]


def test_on_an_unknown_processor_what_was_not_measured_is_left_out():
    core = measured_core(measurement(exact=False), "mine")
    assert not core.features
    assert "scheduler" not in core.resources
    assert core.value("rob") == 437


@pytest.mark.parametrize(("failed", "doubtful"), [(0, False), (1, True)])
def test_ports_that_leave_many_forms_unexplained_are_doubted(failed, doubtful):
    """One of four forms is more than a twentieth."""
    missing = {f"ports of {k}": "no ports explain its mixtures" for k in range(failed)}
    found = replace(measurement(exact=True), left_out={"latency of x": "unstable", **missing})
    assert bool(found.doubt) is doubtful
    core = measured_core(found, "mine")
    assert ("not to be trusted" in core.title) is doubtful
    assert ("explain the mixtures of 3 of 4 forms only" in core.sources[SOURCE]) is doubtful


def test_it_loads_again_as_it_was_written(tmp_path):
    core = measured_core(measurement(exact=True), "mine")
    path = tmp_path / "a folder" / "mine.toml"
    path.parent.mkdir()
    path.write_text(core.to_toml())
    assert pk.Microarchitecture.load(path) == core


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("1", "expected"),
        ("{ latency = 1, fused_uops = 1, unfused_uops = 1, source = 'guess' }", "'measured' or 'nearest'"),
        ("{ latency = -1, fused_uops = 1, unfused_uops = 1, source = 'measured' }", "0 or more"),
        ("{ fused_uops = 1, unfused_uops = 1, source = 'measured' }", "latency missing"),
        ("{ latency = 1, fused_uops = 1, unfused_uops = 1, uses = { P9 = 1 }, source = 'measured' }", "P9"),
        (
            "{ latency = 1, fused_uops = 1, unfused_uops = 1, source = 'measured', measured_cycles = [2, 1] }",
            "least, most",
        ),
        ("{ latency = 1, fused_uops = 1, unfused_uops = 1, source = 'measured', cycles = 1 }", "unknown key"),
    ],
)
def test_a_damaged_form_is_refused_by_name(entry: str, why: str):
    text = pk.Microarchitecture.load("zen4").to_toml() + f"\n[forms]\nNOPD = {entry}\n"
    with pytest.raises(FormatError, match=r"\[forms\] NOPD") as error:
        pk.Microarchitecture.from_toml(text, "mine.toml")
    assert why in str(error.value)


def test_groups_include_their_subsets_and_come_apart_again():
    one, all_four = frozenset({"P1"}), frozenset({"P0", "P1", "P2", "P3"})
    assert shares({one: 1.0, all_four: 2.0}, [one, all_four]) == {"P1": 1.0, "P0+P1+P2+P3": 3.0}
    assert ports_name(frozenset({"P10", "P2"})) == "P2+P10"
    zen4 = pk.Microarchitecture.load("zen4")
    uses = {"ALU0123": 1.0, "ALU0123+BRU1": 1.0, "ALU12": 1.0}
    assert own_uses(uses, zen4, {}) == {frozenset({"ALU1", "ALU2"}): 1.0}
    assert own_uses(uses, zen4, {frozenset({"ALU1", "ALU2"}): one}) == {one: 1.0}


def test_the_shipped_measurement_of_a_zen_4_knows_what_is_known_of_it():
    """Four integer and four vector ports, additions and multiplications of floats on two pairs (AMD's guide 57647)."""
    core = pk.datasets.load("cores/zen4-host")
    tables, units = InstructionTables.load(core), {}
    for name in (
        "ADD_R64_RM64",
        "VEX_VADDPD_YMM_YMM_YMMM256",
        "VEX_VMULPD_YMM_YMM_YMMM256",
        "VEX_VPAND_YMM_YMM_YMMM256",
    ):
        form = tables.form(name)
        assert form.source == "measured"
        groups = [frozenset(core.resource(group).units) for group in form.uses]
        units[name] = min(groups, key=len)
    add, multiply, logic = (units[name] for name in list(units)[1:])
    assert [len(found) for found in units.values()] == [4, 2, 2, 4]
    assert not add & multiply
    assert add | multiply == logic
    assert not logic & units["ADD_R64_RM64"]
    assert tables.form("VEX_VFMADD231PD_YMM_YMM_YMMM256").latency == 4
    measured = [form for form in core.forms.values() if form.source == "measured"]
    assert len(measured) > 4000
    assert all(low <= high for form in measured for low, high in [form.cycles or (0, 0), *form.latencies.values()])


def test_gus_simulates_with_it_and_is_near_the_known_core():
    blocks = ["480fafc3", "4801d8", "c5fd58c0", "c5f459c2c5fd58c0"]
    here = pk.Gus(pk.datasets.load("cores/zen4-host")).blocks(blocks).table["looped"]
    known = pk.Gus("zen4").blocks(blocks).table["looped"]
    assert all(math.isclose(a, b, rel_tol=0.06) for a, b in zip(here, known, strict=True))


def test_forms_are_read_only():
    core = measured_core(measurement(exact=True))
    assert isinstance(core.forms, MappingProxyType)
