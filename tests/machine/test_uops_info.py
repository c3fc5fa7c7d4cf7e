"""uops.info's format, on a fixture written here with made-up figures (perfkit ships none of theirs)."""

import re

import pytest

from perfkit.errors import FormatError, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables

XML = """<?xml version="1.0" encoding="UTF-8"?>
<root date="2020-01-01">
  <extension name="FMA">
    <instruction asm="VFMADD231PS" iform="VFMADD231PS_YMMqq_YMMqq_MEMqq" string="VFMADD231PS (YMM, YMM, M256)">
      <operand idx="1" name="REG0" type="reg" r="1" w="1" width="256">YMM0,YMM1</operand>
      <operand idx="2" name="REG1" type="reg" r="1" width="256">YMM0,YMM1</operand>
      <operand idx="3" name="MEM0" type="mem" r="1" width="256" memory-prefix="ymmword ptr"/>
      <architecture name="HSW"><measurement uops="9" ports="9*p01" TP_unrolled="9"/></architecture>
      <architecture name="SKX">
        <measurement uops="2" uops_retire_slots="1" ports="1*p01+1*p23" TP_unrolled="0.50" TP_loop="0.52">
          <latency start_op="1" target_op="1" cycles="5"/>
          <latency start_op="2" target_op="1" cycles="6"/>
          <latency start_op="3" target_op="1" cycles_addr="12" cycles_mem="9"/>
        </measurement>
      </architecture>
      <architecture name="ZEN4"><measurement uops="1" TP_unrolled="0.75" TP_loop="0.80"/></architecture>
    </instruction>
  </extension>
  <extension name="BASE">
    <instruction asm="ADD" iform="ADD_GPRv_GPRv_01" string="ADD_01 (R64, R64)">
      <operand idx="1" name="REG0" type="reg" r="1" w="1" width="64">RAX,RCX</operand>
      <operand idx="2" name="REG1" type="reg" r="1" width="64">RAX,RCX</operand>
      <operand idx="3" name="REG2" type="flags" suppressed="1" w="1"/>
      <architecture name="SKX">
        <measurement uops="1" uops_retire_slots="1" ports="1*p0156" TP_unrolled="0.25">
          <latency start_op="1" target_op="1" min_cycles="1" max_cycles="3"/>
        </measurement>
      </architecture>
    </instruction>
    <instruction asm="VADDPS" evex="1" mask="1" zeroing="1" string="VADDPS_Z (ZMM, K, ZMM, ZMM)">
      <operand idx="1" name="REG0" type="reg" w="1" width="512">ZMM0,ZMM1</operand>
      <operand idx="2" name="REG1" opmask="1" type="reg" r="1" width="64">K1,K2</operand>
      <operand idx="3" name="REG2" type="reg" r="1" width="512">ZMM0,ZMM1</operand>
      <operand idx="4" name="REG3" type="reg" r="1" width="512">ZMM0,ZMM1</operand>
      <architecture name="SKX">
        <measurement uops="1" uops_retire_slots="1" ports="1*p05" TP_unrolled="0.50">
          <latency start_op="3" target_op="1" cycles="7"/>
        </measurement>
      </architecture>
    </instruction>
  </extension>
</root>
"""
FMA = "VEX_VFMADD231PS_YMM_YMM_YMMM256/m"


@pytest.fixture
def xml(tmp_path):
    path = tmp_path / "instructions.xml"
    path.write_text(XML)
    return path


def test_intel_ports_become_uses_of_every_group_that_holds_them(xml):
    tables = InstructionTables.load(Microarchitecture.load("skylake_x"), uops_info=xml)
    form = tables.form(FMA)
    assert form.source == "uops.info"
    assert (form.fused_uops, form.unfused_uops, form.latency) == (1, 2, 6)
    assert form.memory_latency == 12 - 7  # address to result, less the load
    assert form.uses == {"p01": 1, "p015": 1, "p016": 1, "p0156": 1, "p23": 1, "p237": 1}
    add = tables.form("ADD_R64_RM64")
    assert (add.latency, add.source) == (3, "uops.info")
    assert tables.form("ADD_RM64_R64").source == "uops.info", "both encodings of one operation are served"
    assert tables.form("EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER/z").latency == 7
    assert tables.form("EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER/k").source == "llvm"
    assert tables.form("IMUL_R64_RM64").source == "llvm"


def test_amd_has_no_ports_only_throughput(xml):
    core = Microarchitecture.load("zen4")
    form = InstructionTables.load(core, uops_info=xml).form(FMA)
    assert form.inverse_throughput(core) == pytest.approx(0.75)
    assert form.latency == 4, "no latency is given: LLVM's stays"


def test_overrides_beat_it(xml):
    core = Microarchitecture.load("skylake_x")
    tables = InstructionTables.load(core, overrides={FMA: {"latency": 4}}, uops_info=xml)
    assert (tables.form(FMA).latency, tables.form(FMA).memory_latency, tables.form(FMA).source) == (4, 5, "user")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (XML[:900], "cut short"),
        ("<root/>", "no measurement of SKX, CLX or SKL among its 0 instructions"),
        ("not xml", "not uops.info's"),
        (XML.replace("SKX", "NHM"), "among its 3 instructions"),
    ],
)
def test_other_files_are_refused(xml, text, message):
    xml.write_text(text)
    with pytest.raises(FormatError, match=re.escape(message)):
        InstructionTables.load(Microarchitecture.load("skylake_x"), uops_info=xml)


def test_missing_file_and_uncovered_core():
    with pytest.raises(SettingError, match="no such file"):
        InstructionTables.load(Microarchitecture.load("skylake_x"), uops_info="missing.xml")
