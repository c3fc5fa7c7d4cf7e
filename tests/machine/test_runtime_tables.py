"""The run-time layer: llvm-mca's rows by hand, against the bundled tables, and what happens without llvm-mca."""

import os
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from iced_x86 import Decoder, Formatter, FormatterSyntax

from perfkit.errors import PerfkitWarning, UnavailableError
from perfkit.machine import llvm_mca
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.machine.llvm_mca import Model, find_llvm_mca, look_up, parse_table, uses_of
from perfkit.machine.runtime_tables import runtime_layer
from perfkit.simulators.gus.gus import Gus
from perfkit.trace.x86 import form_name
from tests.encoded import trace_of

TOOL = find_llvm_mca()
needs_llvm_mca = pytest.mark.skipif(TOOL is None, reason="no llvm-mca of LLVM 21 or later here (Debian: llvm-22)")
FMA = "c4e275b8c2"  # vfmadd231ps ymm0, ymm1, ymm2
CODES = {
    "skylake_x": [FMA, "c4e275b800", "4801d8", "480faf03", "488b03", "488903", "480103", "62f174c958c2", "c5fc57c0"],
    # Of the Zen cores (measured: 3, 4 and 5), the tables have units and figures that LLVM does not.
    "alder_lake_p": [FMA, "c4e275b800", "4801d8", "488b03", "488903", "c5fe7f07", "0fb6c1", "c5f558c2"],
    "sandy_bridge": ["c5f558c2", "c5f55800", "4801d8", "488b03", "488903", "f20f5ec1", "480fafc3"],
}

# Three rows as llvm-mca 22.1.8 prints them for -mcpu=skylake-avx512, and the resources they name.
PRINTED = """
Resources:
[0]   - SKXDivider:1
[1]   - SKXPort0:1
[2]   - SKXPort1:1
[3]   - SKXPort2:1
[4]   - SKXPort3:1
[5]   - SKXPort01:2 SKXPort0, SKXPort1
[6]   - SKXPort23:2 SKXPort2, SKXPort3
[7]   - SKXPortAny:4 SKXPort0, SKXPort1, SKXPort2, SKXPort3

[1]    [2]    [3]    [4]    [5]    [6]    [7]    [8]                                        [9]
 1      5     0.50    *                    5    SKXPort23,SKXPortAny  MOV64rm  movq	(%rax), %rbx
 1      1     0.17                         1    NOOPL  nopl	16777216(%rax)
 1      7     0.50    *                    7    SKXPort23,SKXPortAny  VMOVUPSYrm  vmovups	(%rax), %ymm1
 1      1     0.17                         1    NOOPL  nopl	16777217(%rax)
 2      11    0.50    *                    4    SKXPort01,SKXPort23,SKXPortAny[2] VFMADD231 vfma	(%rax), %ymm1, %ymm0
 1      1     0.17                         1    NOOPL  nopl	16777218(%rax)
 1      1     0.17                         1    NOOPL  nopl	16777219(%rax)
"""


def without_table(name: str) -> Microarchitecture:
    """A core as a user may write it: LLVM knows it, perfkit has no table of it."""
    return replace(Microarchitecture.load(name), name="mine", table="mine")


def test_a_printed_table_by_hand():
    resources, rows = {}, {}
    parse_table(PRINTED, ["load", "wide", "fma", "skipped"], resources, rows)
    assert list(rows) == ["load", "wide", "fma"], "llvm-mca left the fourth out"
    assert resources["SKXPort23"] == (2, ["SKXPort2", "SKXPort3"])
    model = Model(resources, {"MOV_R64_RM64/m": rows["load"], "VEX_VMOVUPS_YMM_YMMM256/m": rows["wide"]})
    assert model.prefix == "SKX"
    # 11 cycles in all, 7 of them a 256-bit load: 4 after it. Two unfused uops, one slot.
    found = model.figures("VEX_VFMADD231PS_YMM_YMM_YMMM256/m", rows["fma"], 4)
    assert (found.fused, found.unfused, found.latency, found.memory_latency) == (1, 2, 4, 4)
    groups = {"p01": frozenset({"p0", "p1"}), "p23": frozenset({"p2", "p3"}), "p0": frozenset({"p0"})}
    assert uses_of(found.uses, groups) == {"p01": 1, "p23": 1}


@needs_llvm_mca
@pytest.mark.parametrize("name", sorted(CODES))
def test_what_is_looked_up_is_what_the_bundled_table_says(name):
    core = Microarchitecture.load(name)
    bundled = InstructionTables.load(core)
    title = next(layer.title for layer in bundled.layers if layer.name == "llvm")
    if TOOL.version not in title:
        pytest.skip(f"the bundled table is not of the installed LLVM {TOOL.version}: {title}")
    texts, gas = {}, Formatter(FormatterSyntax.GAS)
    for code in CODES[name]:
        instruction = next(iter(Decoder(64, bytes.fromhex(code))))
        texts[form_name(instruction)] = gas.format(instruction)
    layer, _ = runtime_layer(texts, core, bundled._base)
    assert set(layer.rows) == set(texts)
    for form, row in layer.rows.items():
        assert row == bundled._base(form) or bundled._base(form) is None, form  # None: the table has a simpler form
    assert sum(bundled._base(form) is not None for form in texts) >= len(texts) - 1


@needs_llvm_mca
def test_a_core_without_a_table_is_served_by_one_run_for_all_forms(monkeypatch):
    runs = []
    whole = subprocess.run
    monkeypatch.setattr(llvm_mca.subprocess, "run", lambda command, **o: runs.append(command) or whole(command, **o))
    llvm_mca.remembered.cache_clear()
    core, trace = without_table("skylake_x"), trace_of(FMA, "c4e275b800", "4801d8", "488903")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = core.coverage(trace)
        again = core.coverage(trace)
    assert found.shares["llvm-mca"] == 1
    assert again.shares["llvm-mca"] == 1
    assert len(runs) == 1, "the second time comes from memory"
    assert isinstance(runs[0], list)
    assert f"LLVM {TOOL.version}" in found.to_frame()["source"][0]
    form = InstructionTables.load(core).extended(trace.code).form("VEX_VFMADD231PS_YMM_YMM_YMMM256/m")
    assert (form.latency, form.address_latency, form.memory_latency, form.source) == (4, 5 + 2, 4, "llvm-mca")
    assert (form.fused_uops, form.unfused_uops) == (1, 2)
    assert Gus(core).run(trace).cycles > 0


@needs_llvm_mca
def test_stronger_layers_change_what_was_looked_up():
    core, trace = without_table("skylake_x"), trace_of(FMA)
    tables = InstructionTables.load(core, overrides={"VEX_VFMADD*": {"latency": 9}}).extended(trace.code)
    form = tables.form("VEX_VFMADD231PS_YMM_YMM_YMMM256")
    assert (form.latency, form.source, form.inverse_throughput(core)) == (9, "user", 0.5)


@needs_llvm_mca
@pytest.mark.parametrize("code", ["f00fc70f", "f3a4", "8fe878a2c120"])  # lock cmpxchg8b, rep movsb, AMD's XOP
def test_what_llvm_only_seems_to_know_stays_a_guess(code):
    with pytest.warns(PerfkitWarning, match="llvm-mca has no figures of locked or repeated instructions, or of ext"):
        found = Microarchitecture.load("skylake_x").coverage(trace_of(code))
    assert found.shares["class default"] == 1


def test_looking_up_can_be_turned_off():
    core, trace = without_table("skylake_x"), trace_of(FMA)
    tables = InstructionTables.load(core, look_up=False)
    with pytest.warns(PerfkitWarning, match="looking them up with llvm-mca is turned off"):
        assert tables.coverage(trace).shares["class default"] == 1
    with pytest.warns(PerfkitWarning, match="turned off"):
        Gus(core, tables=tables).run(trace)


def fake(folder: Path, version: str, body: str) -> str:
    path = folder / "llvm-mca"
    shell = shutil.which("sh")
    path.write_text(f'#!{shell}\nif [ "$1" = --version ]; then echo "LLVM version {version}"; exit; fi\n{body}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("version", "kind"), [("", "none"), ("19.1.7", "too old")])
def test_without_llvm_mca_the_warning_says_what_to_install(tmp_path, monkeypatch, version, kind):
    if version:
        fake(tmp_path, version, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_llvm_mca() is None, kind
    with pytest.warns(PerfkitWarning, match=r"no llvm-mca of LLVM 21 or later is installed .*llvm-22"):
        assert without_table("skylake_x").coverage(trace_of(FMA)).shares["class default"] == 1


def test_a_slow_or_broken_llvm_mca_does_no_harm(tmp_path, monkeypatch):
    tool = fake(tmp_path, "22.0.0", f"exec {shutil.which('sleep')} 5")
    with pytest.raises(UnavailableError, match=r"did not answer about 1 instructions in 0\.2 s"):
        look_up({"a": "nop"}, "skylake-avx512", tool, seconds=0.2)
    with pytest.raises(UnavailableError, match="cannot be run"):
        look_up({"a": "nop"}, "skylake-avx512", str(tmp_path / "absent"))
    other = tmp_path / "broken"
    other.mkdir()
    fake(other, "22.0.0", "exit 1")
    monkeypatch.setenv("PATH", str(other) + os.pathsep + str(tmp_path))
    with pytest.warns(PerfkitWarning, match=r"LLVM 22.0.0's llvm-mca .* does not know them"):
        assert without_table("skylake_x").coverage(trace_of(FMA)).shares["class default"] == 1


@needs_llvm_mca
def test_a_core_that_llvm_does_not_know_is_said():
    core = replace(without_table("skylake_x"), llvm_cpu="nonsense")
    with pytest.warns(PerfkitWarning, match="knows no -mcpu=nonsense"):
        assert core.coverage(trace_of(FMA)).shares["class default"] == 1
