"""The second backend: the same traces as the cloner's where both can, and other instruction sets."""

import shutil
import subprocess

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.kernels import compile_kernel, corpus_kernel
from perfkit.collectors.tracer import qemu
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, UnavailableError

pytestmark = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
CROSS = {"aarch64": "aarch64-linux-gnu-gcc", "riscv64": "riscv64-linux-gnu-gcc"}


def account(trace):
    """Instructions and accesses, relative to the first instruction and to the lowest address in the arrays."""
    ids = np.concatenate(list(trace.instructions()))
    operand = np.concatenate(list(trace.operands()))
    pcs = trace.code.pc[ids].astype(np.int64)
    return (
        (pcs - pcs[0]).tolist(),
        trace.access_sizes().tolist(),
        trace.code.read[operand].tolist(),
        trace.code.write[operand].tolist(),
    )


@pytest.mark.parametrize(
    ("name", "build"),
    [("gemm", "scalar"), ("gemm", "avx2"), ("cholesky", "avx2"), ("nussinov", "scalar"), ("string-copy", "scalar")],
)
def test_both_backends_tell_the_same(name, build):
    kernel = corpus_kernel(name, build)
    cloned, emulated = kernel.trace(backend="cloner"), kernel.trace(backend="qemu")
    assert emulated.provenance.backend == "qemu"
    assert emulated.provenance.backend_reason == "as asked"
    assert emulated.instruction_count == cloned.instruction_count
    assert account(emulated) == account(cloned)
    # Arrays lie elsewhere in the other process, but in the same order: compare the steps from access to access.
    operand = np.concatenate(list(cloned.operands()))
    for one in np.unique(operand[:20000]):
        steps = [np.diff(t.addresses[operand == one].astype(np.int64)) for t in (cloned, emulated)]
        assert steps[0].tolist() == steps[1].tolist()


@pytest.mark.parametrize("isa", CROSS)
def test_other_instruction_sets(isa):
    if shutil.which(CROSS[isa]) is None:
        pytest.skip(f"{CROSS[isa]} is not installed")
    kernel = corpus_kernel("gemm", flags="-O2 -fno-tree-vectorize", compiler=CROSS[isa], defines={"N": 8})
    trace = kernel.trace()
    assert trace.isa == isa
    assert trace.provenance.backend_reason == f"not the cloner: it is {isa} code"
    # C[i][j] *= beta: one load and one store each; then for every k: B and C loaded, C stored; A once for i and k.
    read = trace.code.read[np.concatenate(list(trace.operands()))]
    doubles = trace.access_sizes() == 8
    assert len(trace.sizes) == 0  # each instruction's is always the same, and stands in the code
    assert int((read & doubles).sum()) >= 64 + 512 * 2 + 64
    assert int((~read & doubles).sum()) == 64 + 512
    assert set(trace.code.length) <= {2, 4}
    assert set(trace.code.function) == {"gemm"}
    with pytest.raises(DataError, match=f"cannot trace gemm: it is {isa} code"):
        kernel.trace(backend="cloner")


def test_what_qemu_gets_wrong_is_refused():
    with pytest.raises(UnavailableError, match="QEMU does not emulate a gather truthfully"):
        corpus_kernel("gather", "avx2").trace(backend="qemu")
    with pytest.raises(UnavailableError, match="QEMU does not emulate AVX512"):
        corpus_kernel("gemm", "avx512").trace(backend="qemu")


def test_static_programs_go_to_qemu(tmp_path):
    source = tmp_path / "p.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((noipa)) long work(long n) { volatile long s = 0;"
        "for (long i = 0; i < n; i++) s += i; return s; }\n"
        "int main(int c, char **v) { for (int k = 1; k < 5; k++) work(k * 10); return c; }\n"
    )
    program = tmp_path / "p"
    subprocess.run(["gcc", "-O1", "-static", "-o", program, source], check=True)
    trace = Tracer(skip=1, repeat=2).run(program, "work", ["a", "b"])
    assert trace.provenance.backend == "qemu"
    assert "not position-independent" in trace.provenance.backend_reason
    assert trace.provenance.stopped == ""
    assert trace.block_counts().max() in (50, 51)
    with pytest.raises(DataError, match="cloner cannot trace work: the program is not position"):
        Tracer(backend="cloner").run(program, "work")
    with pytest.raises(DataError, match="called work 4 times; the trace was to begin with call 10"):
        Tracer(skip=9).run(program, "work")
    cut = Tracer(limit=60).run(program, "work")
    assert cut.provenance.stopped == "limit of 60 instructions"
    assert 40 < cut.instruction_count <= 60
    callees = Tracer(callees=True).run(program, "main")
    assert {"main", "work"} <= set(callees.code.function)


def test_a_limit_that_repeated_instructions_use_up_is_told(tmp_path):
    """QEMU counts each turn of a string instruction; the trace holds it once, and is cut all the same."""
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        "static char room[1 << 16];\n__attribute__((noipa)) long work(long n) { volatile long s = 0; char *to = room;"
        'long left = n; __asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(1) : "memory");'
        "for (long i = 0; i < n; i++) s += i; return s; }\n"
        "int main(void) { return work(5000) == 0; }\n"
    )
    subprocess.run(["gcc", "-O1", "-static", "-o", program, source], check=True)
    cut = Tracer(limit=10_000).run(program, "work")
    assert cut.instruction_count < 10_000
    assert cut.provenance.stopped == "limit of 10000 instructions"
    assert not cut.provenance.complete
    whole = Tracer(limit=100_000).run(program, "work")
    assert whole.provenance.complete


def test_programs_that_nothing_can_trace_say_why(tmp_path):
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text("__attribute__((noipa)) int work(int n) { return n * n; }\nint main(void) { return work(0); }\n")
    subprocess.run(["gcc", "-O1", "-static", "-s", "-o", program, source], check=True)
    with pytest.raises(DataError, match=r"no function 'work', and the symbol table was stripped; build it without -s"):
        Tracer().run(program, "work")


@pytest.mark.skipif(
    shutil.which("riscv64-linux-gnu-gcc") is None, reason="no cross compiler riscv64-linux-gnu-gcc here"
)
def test_another_instruction_set_is_recorded_by_qemu_and_not_simulated(tmp_path):
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text("__attribute__((noipa)) int work(int n) { return n * n; }\nint main(void) { return work(0); }\n")
    subprocess.run(["riscv64-linux-gnu-gcc", "-O1", "-static", "-o", program, source], check=True)
    with pytest.raises(DataError, match=r"cloner cannot trace work: it is riscv64 code. Try backend='qemu'"):
        Tracer(backend="cloner").run(program, "work")
    trace = Tracer().run(program, "work")
    assert trace.code.isa == "riscv64"
    with pytest.raises(UnavailableError, match="this one is riscv64"):
        pk.Gus(pk.Microarchitecture.load("skylake_x")).run(trace)


def test_a_kernel_that_the_cloner_refuses_goes_to_qemu():
    source = """
    #include "kernel.h"
    static char table[256];
    OUTPUT(table)
    EXPORT void setup(void) { for (int i = 0; i < 256; i++) table[i] = i ^ 5; }
    KERNEL void translate(void) {
        char *p = table;
        for (long i = 0; i < 20; i++) {
            long place = i;
            __asm__ volatile("xlatb" : "+a"(place) : "b"(p) : "memory");
        }
    }
    """
    trace = compile_kernel(source, build="scalar").trace()
    assert trace.provenance.backend == "qemu"
    assert "it uses xlatb" in trace.provenance.backend_reason
    bytes_read = trace.addresses[trace.access_sizes() == 1].astype(np.int64)
    assert np.diff(bytes_read).tolist() == [1] * 19


def test_crashes_and_delays_under_qemu():
    crash = compile_kernel("void f(void) { *(volatile int *)16 = 1; }", build="scalar")
    with pytest.raises(DataError, match="crashed under QEMU"):
        crash.trace(backend="qemu")
    endless = compile_kernel('void f(void) { for (;;) __asm__ volatile(""); }', build="scalar")
    assert endless.trace(backend="qemu", limit=1000).provenance.stopped == "limit of 1000 instructions"


def test_absent_or_strange_qemu_is_told(monkeypatch, tmp_path):
    kernel = corpus_kernel("gemm", "scalar")
    monkeypatch.setattr(qemu, "_EMULATORS", {"x86-64": "qemu-absent"})
    with pytest.raises(UnavailableError, match=r"needs qemu-absent, which is not installed .Debian's package"):
        kernel.trace(backend="qemu")
    new = tmp_path / "qemu-new"
    new.write_text("#!/bin/sh\necho qemu-x86_64 version 99.0\n")
    new.chmod(0o755)
    monkeypatch.setattr(qemu, "_EMULATORS", {"x86-64": str(new)})
    with pytest.raises(UnavailableError, match=r"written for QEMU 6.0 to 8.1; .* says: qemu-x86_64 version 99.0"):
        kernel.trace(backend="qemu")


@pytest.mark.parametrize(("version", "fits"), [("5.2.0", False), ("6.0.0", True), ("8.1.5", True), ("8.2.0", False)])
def test_the_versions_that_the_plugin_is_written_for(monkeypatch, version, fits):
    told = subprocess.CompletedProcess([], 0, f"qemu-aarch64 version {version} (Debian)\n")
    monkeypatch.setattr(qemu.shutil, "which", lambda name: name)
    monkeypatch.setattr(qemu.subprocess, "run", lambda *_, **__: told)
    if fits:
        assert qemu._emulator("aarch64") == "qemu-aarch64"
    else:
        with pytest.raises(UnavailableError, match=f"written for QEMU 6.0 to 8.1; .* {version}"):
            qemu._emulator("aarch64")


CROSSING = """
int main(void) { extern long cross(long); return cross(3) != 10; }
__asm__(".text\\n.p2align 12\\n.skip 4086, 0xcc\\n"
        ".globl cross\\n.type cross, @function\\n"
        "cross: movq $0x12345678, -0x100(%rsp)\\n"  // 12 bytes, its last ones in the next page
        "mov %rdi, %rax\\n.skip 4085, 0x90\\n"
        "sub $8, %rsp\\n call helper\\n add $8, %rsp\\n lea 2(%rax), %rax\\n ret\\n.size cross, . - cross\\n"
        ".type helper, @function\\nhelper: add $5, %rax\\n ret\\n.size helper, . - helper\\n");
"""


def test_instructions_that_lie_in_two_pages_are_whole(tmp_path):
    """QEMU 7.2 does not show an operand that crosses a page: one instruction was none, and a call never returned."""
    (tmp_path / "p.c").write_text(CROSSING)
    subprocess.run(["gcc", "-O1", "-no-pie", "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    trace = Tracer(backend="qemu", callees=True).run(tmp_path / "p", "cross")
    lengths = dict(zip(trace.code.text, map(len, trace.code.encoding), strict=True))
    assert [n for text, n in lengths.items() if "12345678h" in text] == [12]
    assert [n for text, n in lengths.items() if text.startswith("call ")] == [5]
    assert pk.Gus("zen4").run(trace).instructions == trace.instruction_count
    assert set(trace.code.function) == {"cross", "helper"}
