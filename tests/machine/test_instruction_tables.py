"""Instruction tables: hand-checked rows, the order of the layers, what is refused, what is warned about."""

import re
import warnings

import pytest
from iced_x86 import Decoder

from perfkit.errors import FormatError, PerfkitWarning, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables, uses_for_throughput
from perfkit.machine.overlays import write_overlay
from perfkit.trace.x86 import class_of, form_name, is_vector, memory_access, simpler_forms
from tests.encoded import trace_of

X86 = [name for name in Microarchitecture.names() if Microarchitecture.load(name).isa == "x86-64"]
FMA = "VEX_VFMADD231PS_YMM_YMM_YMMM256"


def one(code: str):
    return next(iter(Decoder(64, bytes.fromhex(code), ip=0x1000)))


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("c4e275b8c2", FMA),
        ("c4e275b800", f"{FMA}/m"),
        ("c5fc57c0", "VEX_VXORPS_YMM_YMM_YMMM256/same"),
        ("31c0", "XOR_RM32_R32/same"),
        ("488d4c9804", "LEA_R64_M/m3/scaled"),
        ("488d0c98", "LEA_R64_M/m2/scaled"),
        ("488d4c1804", "LEA_R64_M/m3"),
        ("488d4804", "LEA_R64_M/m2"),
        ("488d08", "LEA_R64_M/m"),
        ("f0480101", "ADD_RM64_R64/m/lock"),
        ("f3a4", "MOVSB_M8_M8/rep"),
        ("62f1745858 08".replace(" ", ""), "EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER/m/b"),
        ("62f174c958c2", "EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER/z"),
    ],
)
def test_form_names(code, form):
    assert form_name(one(code)) == form


def test_stand_ins_keep_the_operation():
    assert simpler_forms("A/same") == ["A"]
    assert simpler_forms("A/m/b/z") == ["A/m/b", "A/m"]
    assert simpler_forms("LEA_R64_M/m3") == ["LEA_R64_M/m2", "LEA_R64_M/m"]
    assert simpler_forms("A/m/lock") == []


@pytest.mark.parametrize(
    ("form", "access"),
    [
        ("MOV_R64_RM64/m", (True, False)),
        ("MOV_RM64_R64/m", (False, True)),
        ("ADD_RM64_R64/m", (True, True)),
        ("CMP_RM64_R64/m", (True, False)),
        ("LEA_R64_M/m", (False, False)),
        ("PUSH_R64", (False, True)),
        ("POP_R64", (True, False)),
        ("RETNQ", (True, False)),
        ("CALL_REL32_64", (False, True)),
        ("MOVSQ_M64_M64", (True, True)),
        ("PREFETCHT0_M8/m", (False, False)),
        (FMA, (False, False)),
        ("VEX_VGATHERDPS_YMM_VM32Y_YMM/m", (True, False)),
    ],
)
def test_memory_access(form, access):
    assert memory_access(form) == access


def test_vectors_and_immediates_are_told_apart():
    assert is_vector(FMA)
    assert is_vector("PADDB_MM_MMM64")
    assert not is_vector("ADD_RM64_IMM8")


# Figures that anyone can check in uops.info or the vendors' guides: latency, cycles per instruction.
KNOWN = {
    "skylake_x": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 0.25), ("IMUL_R64_RM64", 3, 1), ("MOV_R64_RM64/m", None, 0.5)],
    "zen4": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 0.25), ("IMUL_R64_RM64", 3, 1), ("MOV_R64_RM64/m", None, 1 / 3)],
    "zen5": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 1 / 6), ("IMUL_R64_RM64", 3, 1 / 3), ("MOV_R64_RM64/m", None, 0.25)],
    "zen3": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 0.25), ("IMUL_R64_RM64", 3, 1)],
    "ice_lake": [(FMA, 4, 0.5), ("MOV_RM64_R64/m", None, 0.5)],
    "raptor_cove": [(FMA, 4, 0.5), ("MOV_R64_RM64/m", None, 1 / 3)],
    "golden_cove": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 0.2), ("MOV_R64_RM64/m", None, 1 / 3)],
    "alder_lake_p": [(FMA, 4, 0.5), ("ADD_R64_RM64", 1, 0.2), ("MOV_R64_RM64/m", None, 1 / 3)],
    "sandy_bridge": [("VEX_VADDPD_YMM_YMM_YMMM256", 3, 1), ("VEX_VMULPD_YMM_YMM_YMMM256", 5, 1)],
    "sandy_bridge_erm": [("ADDSD_XMM_XMMM64", 3, 1), ("MULSD_XMM_XMMM64", 5, 1)],
}


@pytest.mark.parametrize("core", KNOWN)
def test_hand_checked_rows(core):
    tables = InstructionTables.load(Microarchitecture.load(core))
    for form, latency, throughput in KNOWN[core]:
        found = tables.form(form)
        assert found.inverse_throughput(tables.core) == pytest.approx(throughput)
        assert latency is None or found.latency == latency
        assert found.source == "llvm"


@pytest.mark.parametrize("core", ["golden_cove", "raptor_cove", "redwood_cove"])
@pytest.mark.parametrize(
    ("form", "cycles"),
    [
        ("EVEX_VDIVPD_ZMM_K1Z_ZMM_ZMMM512B64_ER", 16),
        ("EVEX_VDIVPS_ZMM_K1Z_ZMM_ZMMM512B32_ER", 10),
        ("EVEX_VSQRTPD_ZMM_K1Z_ZMMM512B64_ER", 18),
        ("EVEX_VSQRTPS_ZMM_K1Z_ZMMM512B32_ER", 12),
    ],
)
def test_divisions_of_512_bits_take_the_divider(core, form, cycles):
    """LLVM's model has none: a gate passed a real slowdown of 26 %. Timed on an Emerald Rapids guest."""
    tables = InstructionTables.load(Microarchitecture.load(core))
    cycles = 24 if core != "golden_cove" and cycles == 18 else cycles  # 18 of simple numbers, as golden_cove's were
    for variant in ("", "/m", "/z"):
        found = tables.form(form + variant)
        assert found.uses["fp_divider"] == found.inverse_throughput(tables.core) == cycles


@pytest.mark.parametrize("core", X86)
def test_every_row_names_ports_the_core_has_and_loads_say_so(core):
    tables = InstructionTables.load(Microarchitecture.load(core))
    bundled = next((layer for layer in tables.layers if layer.name == "llvm"), None)
    assert bundled is not None, f"the table {tables.core.table!r} that {core}.toml names is not in cores/tables"
    assert "LLVM" in bundled.title
    assert "Apache-2.0 WITH LLVM-exception" in bundled.title
    assert len(bundled.rows) > 2000
    rows = [row for layer in tables.layers for row in layer.rows.values() if row.uses]
    used = {name for row in rows for name in row.uses}
    assert used == set(tables.core.ports)
    for row in bundled.rows.values():
        # A group takes at least what its subsets take: the conjunctive form (Gus, section 3.1.1).
        for name, count in row.uses.items():
            inside = set(tables.core.ports[name].units)
            for other, less in row.uses.items():
                if set(tables.core.ports[other].units) <= inside:
                    assert less <= count


def test_operand_split_of_a_load_op_form():
    tables = InstructionTables.load(Microarchitecture.load("skylake_x"))
    form = tables.form(f"{FMA}/m")
    # The register operands wait 4 cycles, the memory operand 7 (load) + 4: not one latency of 11 for all.
    assert (form.latency, form.address_latency, form.memory_latency) == (4, 7, 4)
    assert (form.fused_uops, form.unfused_uops) == (1, 2)
    store = tables.form("VEX_VMOVUPS_YMMM256_YMM/m")
    assert (store.latency, store.loads, store.stores, store.fused_uops) == (0, False, True, 1)
    rmw = tables.form("ADD_RM64_R64/m")
    assert (rmw.fused_uops, rmw.unfused_uops) == (2, 4)


def test_the_stronger_layer_speaks(tmp_path):
    core = Microarchitecture.load("skylake_x")
    overlay = tmp_path / "host.toml"
    write_overlay(overlay, "skylake_x", "a test's host", {FMA: {"latency": 5, "inverse_throughput": 1}})
    calibrated = InstructionTables.load(core, calibration=overlay)
    form = calibrated.form(FMA)
    assert (form.latency, form.inverse_throughput(core), form.source) == (5, 1, "calibration")
    both = InstructionTables.load(core, overrides={"VEX_VFMADD*": {"latency": 3}}, calibration=overlay)
    assert (both.form(FMA).latency, both.form(FMA).inverse_throughput(core), both.form(FMA).source) == (3, 1, "user")
    assert both.form("ADD_R64_RM64").source == "llvm"
    assert InstructionTables.load(core).form(FMA).latency == 4, "layers do not leak into one another"


def test_corrections_of_zen4():
    tables = InstructionTables.load(Microarchitecture.load("zen4"))
    gather = tables.form("VEX_VGATHERDPS_YMM_VM32Y_YMM/m")
    assert gather.inverse_throughput(tables.core) == pytest.approx(8)
    assert gather.source == "correction"


def test_uses_for_throughput_cuts_and_raises():
    core = Microarchitecture.load("skylake_x")
    assert dict(uses_for_throughput({"p01": 1.0, "p0": 1.0}, 0.5, core)) == {"p01": 1.0, "p0": 0.5}
    assert dict(uses_for_throughput({"p01": 1.0}, 2.0, core)) == {"p01": 4.0}
    assert dict(uses_for_throughput({}, 2.0, core)) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense = 1", "unknown key 'nonsense'"),
        ('core = "zen4"', "made for the core zen4"),
        (f"[forms.{FMA}]\nlatencies = 4", "unknown key 'latencies'"),
        (f"[forms.{FMA}]\nlatency = -4", "0 or more expected, found -4"),
        (f"[forms.{FMA}]\nuses = {{p99 = 1}}", "no ports 'p99'"),
        (f"[forms.{FMA}]\nlatency = true", "found True"),
        (f"[forms.{FMA}]\nlatency = 4\noperand_latency = 2", "{ OPERAND = cycles, ... } expected, found 2"),
        (f"[forms.{FMA}]\nlatency = 4\noperand_latency = {{ bass = 2 }}", "found 'bass'"),
        (f"[forms.{FMA}]\nlatency = 4\noperand_latency = {{ 1 = -2 }}", "operand_latency 1: a number of 0 or more"),
        (f"[forms.{FMA}]\noperand_latency = {{ 1 = 2 }}", "operand_latency stands beside latency"),
        (f"[forms.{FMA}]\nlatency = 4\noperand_latency = {{ 1 = 2, 2 = 3 }}", "one figure beside the latency 4"),
        ("[forms", "not TOML"),
    ],
)
def test_bad_overlays_are_refused(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(message)):
        InstructionTables.load(Microarchitecture.load("skylake_x"), calibration=path)


def test_latencies_by_operand_belong_to_the_latency_beside_them():
    core = Microarchitecture.load("zen4")
    form = InstructionTables.load(core).form("LEA_R64_M/m3/scaled")
    assert (form.latency, dict(form.operand_latency)) == (1, {"base": 2})
    assert form.cycles_from({"base": "x", "index": "y"}) == {"x": 2, "y": 1}
    assert form.cycles_from({"base": "x", "index": "x"}) == {"x": 2}  # the longer of both
    assert form.cycles_from({"index": "x", "base": "x"}) == {"x": 2}
    other = InstructionTables.load(core, {"LEA_R64_M/m3": {"latency": 5}}).form("LEA_R64_M/m3")
    assert (other.latency, dict(other.operand_latency)) == (5, {})
    assert not InstructionTables.load(core).form("ADD_R64_RM64").operand_latency


def test_missing_files_and_unknown_forms_are_named():
    core = Microarchitecture.load("skylake_x")
    with pytest.raises(SettingError, match="no such file"):
        InstructionTables.load(core, calibration="missing.toml")
    with pytest.raises(SettingError, match="'NOT_A_FORM' is not the name"):
        InstructionTables.load(core).form("NOT_A_FORM")


def test_coverage_counts_executions_and_names_what_no_table_knows():
    core = Microarchitecture.load("skylake_x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = core.coverage(trace_of("c4e275b8c2", "4801d8", executed=3))
    assert known.shares["llvm"] == 1
    assert known.to_frame()["executions"].tolist() == [3, 3]
    # VPCMOV is AMD's XOP: no Intel core has it, so only its class's default can serve.
    with pytest.warns(PerfkitWarning, match=r"XOP_VPCMOV_XMM_XMM_XMMM128_XMM \(50\.0% of the executed"):
        unknown = core.coverage(trace_of("8fe878a2c120", "4801d8", executed=4))
    assert unknown.unknown == {"XOP_VPCMOV_XMM_XMM_XMMM128_XMM": 4}
    assert unknown.shares["class default"] == 0.5


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("JNE_REL8_64", "branch"),
        ("NOPD", "nop"),
        ("IDIV_RM32", "divide"),
        ("VEX_VSQRTPD_YMM_YMMM256", "divide"),
        (FMA, "vector float"),
        ("VEX_VPADDD_YMM_YMM_YMMM256", "vector integer"),
        ("VEX_VMOVUPS_YMM_YMMM256", "move"),
        ("IMUL_R64_RM64", "multiply"),
        ("VEX_KANDW_KR_KR_KR", "mask"),
        ("ADD_R64_RM64", "integer"),
    ],
)
def test_classes(form, kind):
    assert class_of(form) == kind
