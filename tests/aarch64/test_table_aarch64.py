"""The Cortex-A72's instruction table: rows checked by hand against LLVM's model of the Cortex-A57, and every row."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from perfkit.errors import PerfkitWarning
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from tests.aarch64.assembled import assemble, loop, needs_assembler

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables():
    return InstructionTables.load(Microarchitecture.load("cortex_a72"))


# Form: latency, cycles of its busiest unit, unfused uops. The figures are those of AArch64SchedA57.td.
ROWS = {
    "ADD_X_X_X": (1, 0.5, 1),
    "ADD_X_X_X/shifted": (2, 1, 1),
    "MADD_W_W_W_W": (3, 1, 1),
    "MADD_X_X_X_X": (5, 1, 1),
    "UDIV_X_X_X": (35, 35, 1),
    "FMUL_D_D_ED": (5, 0.5, 1),
    "MADD_X_X_X_X/accumulate": (3, 1, 1),
    "USRA_V2D_V2D_I": (1, 1, 1),
    "FDIV_D_D_D": (32, 32, 1),
    "FCVTZS_X_D": (10, 1, 2),
    "BCOND_I": (1, 1, 1),
    "HINT_I": (1, 0, 0),
}
# What the core's corrections say instead: latency, cycles of its busiest unit (as LLVM has it).
CORRECTED = {
    "FADD_D_D_D": (4, 0.5),
    "FSUB_V4S_V4S_V4S": (4, 1),
    "FADDP_D_V2D": (4, 1.5),
    "FMUL_S_S_S": (4, 0.5),
    "FMUL_V2D_V2D_V2D": (4, 1),
    "FMADD_D_D_D_D": (7, 0.5),
    "FMADD_D_D_D_D/accumulate": (3, 0.5),
    "FNMSUB_S_S_S_S/accumulate": (3, 0.5),
    "FMLA_V4S_V4S_V4S": (3, 1),
    "FMLS_V2D_V2D_ED": (3, 1),
}
# Form: from the address, from the value, cycles of its busiest unit.
LOADS = {
    "LDR_X_M": (4, 0, 1),
    "LDR_X_M/index/scaled": (4, 0, 1),
    "LDR_D_M/post": (5, 0, 1),
    "LDP_X_X_M": (4, 0, 1),
    "LDP_Q_Q_M": (5, 1, 2),
    "LD1R_V2D_M": (5, 3, 1),
}


@pytest.mark.parametrize("form", ROWS)
def test_rows_by_hand(tables, form):
    found = tables.form(form)
    assert (found.latency, found.inverse_throughput(tables.core), found.unfused_uops) == ROWS[form]
    assert found.source == "llvm"
    assert (found.loads, found.stores) == (False, False)


@pytest.mark.parametrize("form", CORRECTED)
def test_corrections_by_hand(tables, form):
    found = tables.form(form)
    assert (found.latency, found.inverse_throughput(tables.core)) == CORRECTED[form]
    assert found.source == "correction"


@pytest.mark.parametrize("form", LOADS)
def test_loads_by_hand(tables, form):
    found = tables.form(form)
    assert found.loads
    assert (found.address_latency, found.memory_latency, found.inverse_throughput(tables.core)) == LOADS[form]


def test_every_row(tables):
    bundled = next(layer for layer in tables.layers if layer.name == "llvm")
    assert "the Cortex-A57's model" in bundled.title
    assert "Apache-2.0 WITH LLVM-exception" in bundled.title
    assert len(bundled.rows) > 2000
    assert {name for row in bundled.rows.values() for name in row.uses} == set(tables.core.ports)
    for form, row in bundled.rows.items():
        found = tables.form(form)
        for name, count in row.uses.items():  # a group takes what its subsets take: the conjunctive form
            inside = set(tables.core.ports[name].units)
            assert all(n <= count for g, n in row.uses.items() if set(tables.core.ports[g].units) <= inside)
        if found.loads and not found.stores:
            assert row.uses.get("L", 0) >= 1, form
        if found.stores:
            assert row.uses.get("S", 0) >= 1, form


@needs_assembler
def test_what_no_table_knows_is_warned_about(tables):
    trace = loop("add x0, x0, #1\nbrk #3", 2)
    with pytest.warns(PerfkitWarning, match="cortex_a72: no table knows BRK_I"):
        coverage = tables.coverage(trace)
    assert coverage.shares["class default"] == 0.5
    assert tables.form("BRK_I").uses == tables.form("ADD_X_X_X").uses
    assert tables.form("LDNPX_X_X_M").address_latency == 4


@needs_assembler
@pytest.mark.skipif(
    shutil.which("llvm-mca-22") is None or shutil.which("llvm-mc-22") is None,
    reason="needs llvm-mc-22 and llvm-mca-22 (Debian package llvm-22)",
)
def test_the_script_finds_the_same_rows(tables, monkeypatch):
    """The generator on some instructions: LLVM's throughput is matched, the rows are those that ship."""
    monkeypatch.syspath_prepend(str(ROOT / "data" / "make"))
    place = ROOT / "data" / "make" / "instruction_tables_aarch64.py"
    spec = importlib.util.spec_from_file_location("instruction_tables_aarch64", place)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "instruction_tables_aarch64", script)
    spec.loader.exec_module(script)
    text = "add x0, x1, x2\nldr q0, [x1], #16\nfmadd d0, d1, d2, d3\nst3 {v0.4s, v1.4s, v2.4s}, [x1]\nudiv w0, w1, w2"
    encodings = assemble(text)
    texts = script.disassemble(encodings, "-22")
    assert script.compare_texts(texts) == 0
    answer = script.look_up(texts, script.CPU, "llvm-mca-22", "aarch64")
    assert script.check({texts[data]: row for data, row in answer.rows.items()}, answer.resources) == 0
    samples = {script.decode_one(data).form: [data] for data in encodings}
    out, ambiguous = script.table(samples, answer.rows, answer.resources)
    assert ambiguous == 0
    assert len(out) == 5
    shipped = next(layer for layer in tables.layers if layer.name == "llvm").rows
    for form, _, fused, unfused, latency, _, _, uses in out:
        row = shipped[form]
        assert (row.fused_uops, row.unfused_uops, row.latency) == (fused, unfused, latency)
        assert " ".join(f"{name}:{n:g}" for name, n in sorted(row.uses.items())) == uses
