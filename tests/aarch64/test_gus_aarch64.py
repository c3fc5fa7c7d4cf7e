"""Gus on AArch64: loops computed by hand on the Cortex-A72 (as LLVM models it), and compiled kernels end to end."""

import re
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import perfkit as pk
from perfkit.cli.main import main
from perfkit.collectors.kernels import corpus_kernel
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.simulators.gus.causality import causality
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.sensitivity import sensitivity
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace
from tests.aarch64.assembled import COMPILER, loop, needs_assembler

pytestmark = needs_assembler
N = 2000


@pytest.fixture(scope="module")
def gus():
    return Gus(Microarchitecture.load("cortex_a72"))


# Cycles of an iteration. The core dispatches 3 uops per cycle; it has 2 integer units (I), one for shifts and products
# (M), one for loads (L), one for stores (S), and 2 for vectors (W, X).
LOOPS = {
    "a chain of additions": ("add x0, x0, #1\nadd x0, x0, #1\nadd x0, x0, x1", 3),
    "a chain of shifted additions": ("add x0, x0, x1, lsl #2", 2),
    "a write of 32 bits breaks the chain": ("add x0, x0, #1\nadd x0, x0, #1\nmov w0, w1", 1.5),
    "nothing but width": ("nop\n" * 12, 4),
    "two integer units": ("add x0, x8, x9\nadd x1, x8, x9\nadd x2, x8, x9\nadd x3, x8, x9", 2),
    "a comparison and what it selects": ("cmp x0, x1\ncsel x0, x0, x2, lt", 2),
    "flags that nobody waits for": ("cmp x3, x1\ncset w4, lt", 1),
    "a chain of products": ("mul x0, x0, x1", 5),
    "a chain of sums of products": ("madd x0, x1, x2, x0", 3),
    "a chain of double additions": ("fadd d0, d0, d1", 4),
    "a chain of fused multiply-adds, by the addend": ("fmadd d0, d1, d2, d0", 3),
    "a chain of fused multiply-adds, by a factor": ("fmadd d0, d0, d1, d2", 7),
    "a vector chain, by the addend": ("fmla v0.2d, v1.2d, v2.2d", 3),
    "independent double additions": ("\n".join(f"fadd d{k}, d16, d17" for k in range(12)), 6),
    "vectors of 128 bits take both vector units": ("\n".join(f"fmla v{k}.2d, v16.2d, v17.2d" for k in range(8)), 8),
    "a division occupies its unit": ("fdiv d0, d1, d2", 32),
    "one load per cycle": ("ldr x0, [x8]\nldr x1, [x9, #8]\nldp x2, x3, [x10]", 3),
    "two vectors are two loads": ("ldp q0, q1, [x8]", 2),
    "stores": ("str x0, [x8]\nstr d0, [x9]", 2),
    "a pointer chase": ("ldr x0, [x0]", 4),
    "a pointer chase by index": ("ldr x0, [x8, x0, lsl #3]", 4),
    "a value through memory": ("ldr x0, [x8]\nadd x0, x0, #1\nstr x0, [x8]", 5),
    "the address does not wait for the value": ("ldr d0, [x8], #8\nfadd d1, d1, d0", 4),
    "updated bases are no chain": ("ldr x0, [x8], #8\nldr x1, [x8], #8\nldr x2, [x8, #8]!", 3),
    "a loaded base": ("ldr x8, [x9]\nldr x9, [x8], #8", 8),
    "a lane merges": ("ld1 {v0.s}[1], [x8]", 3),
    "all lanes do not": ("ld1r {v0.4s}, [x8]", 1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_by_hand(gus, name):
    body, expected = LOOPS[name]
    address = (lambda k, m: 4096) if "memory" in name else (lambda k, m: 4096 + 64 * m)
    cycles = gus.run(loop(body, 2 * N, address)).cycles - gus.run(loop(body, N, address)).cycles
    assert cycles / N == pytest.approx(expected, rel=0.002)


# Loops for llvm-mca, whose simulator shares nothing with Gus; not above, for nobody computed them.
MIXES = {
    "integers": """
        ldrsw x5, [x10, x3, lsl #2]
        madd x6, x5, x7, x6
        eor x8, x8, x5
        add x9, x8, x5, lsl #3
        add x3, x3, #1
        cmp x3, x4""",
    "Horner": "fmadd d0, d0, d1, d2\nfmadd d0, d0, d1, d3\nfmul d5, d0, d6",
    "divisions": "fdiv d0, d1, d2\nfadd d3, d3, d0\nudiv x0, x1, x2\nadd x3, x3, x0",
    "shuffles": """
        zip1 v0.4s, v1.4s, v2.4s
        ext v3.16b, v1.16b, v2.16b, #4
        add v4.4s, v4.4s, v0.4s
        umov w0, v3.s[1]""",
    "bytes": "ldrb w0, [x1], #1\neor w2, w0, #32\nstrb w2, [x3], #1\ncmp w0, #97\ncinc x4, x4, eq",
}
# What llvm-mca cannot know or has otherwise: a value through memory, and that a lane's old value is only merged.
OTHERWISE = ("a value through memory", "a lane merges")


@pytest.mark.skipif(shutil.which("llvm-mca-22") is None, reason="needs llvm-mca-22 (Debian package llvm-22)")
@pytest.mark.parametrize("name", [*(name for name in LOOPS if name not in OTHERWISE), *MIXES])
def test_llvm_mca_simulates_the_same(gus, name):
    """With LLVM's figures alone, Gus and llvm-mca agree on loops that stay in L1."""
    body = LOOPS[name][0] if name in LOOPS else MIXES[name]
    tables = InstructionTables.load(gus.core)
    plain = replace(tables, layers=tuple(layer for layer in tables.layers if layer.name == "llvm"))
    mine = Gus(gus.core, tables=plain)
    cycles = (mine.run(loop(body, 2 * N)).cycles - mine.run(loop(body, N)).cycles) / N
    command = ["llvm-mca-22", "-mtriple=aarch64", "-mcpu=cortex-a72", f"-iterations={N}", "-resource-pressure=false"]
    told = subprocess.run(command, input=f"{body}\n", capture_output=True, text=True, check=True).stdout
    assert cycles == pytest.approx(int(re.search(r"Total Cycles:\s+(\d+)", told)[1]) / N, rel=0.01)


def test_the_papers_figure_1_on_another_instruction_set(gus):
    """Two dependent vector multiply-adds an iteration, each after a load: bound by latency, 2 * 3 cycles."""
    body = "ldr q1, [x8]\nfmla v0.2d, v1.2d, v2.2d\nldr q3, [x9]\nfmla v0.2d, v3.2d, v2.2d"
    trace = loop(body, N)
    result = gus.run(trace)
    assert result.cycles / N == pytest.approx(6, rel=0.02)
    found = sensitivity(gus, trace)
    assert found.bottleneck == "instruction_latency"
    assert found.to_frame()["x2"].iloc[0] == pytest.approx(1.0, abs=0.06)
    shares = result.causality().shares
    assert shares[[1, 3]].tolist() == pytest.approx([0.5, 0.5], abs=0.02)


def test_all_passes_agree(gus):
    body = """
    ldr q1, [x8], #16
    fmla v0.2d, v1.2d, v2.2d
    add x1, x1, x2, lsl #1
    str x1, [x9]
    cbnz x1, .
    ldr x3, [x9]
    """
    trace = loop(body, 400, lambda k, m: 4096 + 16 * k if m == 0 else 256)
    result = gus.run(trace)
    assert gus.cycles(trace, [gus.core])[0] == result.cycles
    assert result.spent.sum() == result.ticks
    np.testing.assert_allclose(causality(gus, trace).shares, causality(gus, trace, exact=True).shares, atol=0.02)
    frame = result.to_frame()
    assert frame["att"].tolist() == frame["text"].tolist()
    assert frame["source"].tolist() == ["llvm", "correction", *["llvm"] * 4]
    assert frame["slots"].tolist() == [2, 1, 1, 1, 1, 1]
    schedule = result.schedule(0, 12)
    assert schedule.table["text"].tolist() == list(trace.code.text) * 2


def test_cores_and_traces_of_different_kinds(gus):
    arm = loop("add x0, x0, #1", 3)
    with pytest.raises(SettingError, match="the trace is aarch64, AMD Zen 4 is x86-64: choose a core"):
        Gus(Microarchitecture.load("zen4")).run(arm)
    with pytest.raises(SettingError, match="the trace is aarch64, AMD Zen 4 is x86-64"):
        Microarchitecture.load("zen4").coverage(arm)
    code = StaticCode("x86-64", [0], [bytes.fromhex("90")], ["nop"], ["f"], [0, 1], [0, 0], [], [], [])
    for simulate in (gus.run, gus.core.coverage):
        with pytest.raises(SettingError, match="the trace is x86-64, Arm Cortex-A72 is aarch64: choose a core"):
            simulate(Trace.from_parts(code, stream=[0]))
    code = StaticCode("riscv64", [0], [bytes.fromhex("0505")], ["addi a0,a0,1"], ["f"], [0, 1], [0, 0], [], [], [])
    with pytest.raises(UnavailableError, match=r"this one is riscv64. What is missing: a decoder .* and a core"):
        gus.run(Trace.from_parts(code, stream=[0]))


KERNELS = {
    "gemm": {"N": 16}, "cholesky": {"N": 16}, "nussinov": {"N": 16}, "jacobi-2d": {"N": 16, "STEPS": 2},
    "string-copy": {"N": 100, "COUNT": 10}, "correlation": {"M": 12, "N": 14}, "deriche": {}, "branchy": {},
    "floyd-warshall": {"N": 9}, "gramschmidt": {"M": 12, "N": 10}, "masked-update": {"N": 300},
}  # fmt: skip


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian package qemu-user)")
@pytest.mark.parametrize("name", KERNELS)
def test_the_table_knows_compiled_kernels(gus, name):
    kernel = corpus_kernel(name, compiler=COMPILER, flags="-O3 -ffast-math", defines=KERNELS[name])
    trace = kernel.trace(limit=200_000)
    coverage = gus.core.coverage(trace)  # a class default would warn, which is an error here
    lacks = name == "string-copy"  # libc's memcpy
    assert coverage.shares["llvm"] + coverage.shares["correction"] >= 0.95
    with pytest.warns(PerfkitWarning, match="lacks functions that it called") if lacks else nullcontext():
        result = gus.run(trace)
    assert 0.05 < result.ipc < 3
    assert result.spent.sum() == result.ticks


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian package qemu-user)")
def test_from_c_to_the_command_line(tmp_path, capsys, monkeypatch):
    def perfkit(*words):
        monkeypatch.setattr("sys.argv", ["perfkit", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0

    kernel = pk.collectors.compile_kernel(
        """
        static double x[500], y[500];
        void dot(void) { double s = 0; for (int i = 0; i < 500; i++) s += x[i] * y[i]; x[0] = s; }
        """,
        compiler=COMPILER,
        flags="-O2 -ffp-contract=fast",
    )
    place = kernel.trace().save(tmp_path / "dot.trace")
    assert perfkit("gus", str(place), "--core", "cortex_a72") == 0
    assert "on cortex_a72 (simulated)" in capsys.readouterr().out
    # The sum is a chain of multiply-adds of 3 cycles each.
    warm = Gus(Microarchitecture.load("cortex_a72"), warm=True).run(Trace.load(place))
    assert warm.cycles / 500 == pytest.approx(3, rel=0.05)
    assert perfkit("gus", str(place), "--core", "skylake_x") != 0
    assert "choose a core of the trace's kind" in capsys.readouterr().err
