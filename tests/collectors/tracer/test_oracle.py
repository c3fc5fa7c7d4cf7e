"""The cloner against single-stepping: the same instructions, the same addresses, one by one."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.kernels import BUILDS, compile_kernel, corpus_kernel
from perfkit.collectors.tracer.elf import ElfFile
from tests.collectors.tracer import oracle

HERE = Path(__file__).parent
CPU_FLAGS = set(Path("/proc/cpuinfo").read_text().split())
NEEDS = {"scalar": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}
# Sizes that keep the single-stepped runs short.
SMALL = {
    "gemm": {"N": 9},
    "cholesky": {"N": 13},
    "jacobi-2d": {"N": 11, "STEPS": 2},
    "nussinov": {"N": 14},
    "heat-3d": {"N": 7, "STEPS": 1},
    "gather": {"N": 100},
    "masked-update": {"N": 100},
    "string-copy": {"N": 100, "COUNT": 15},
    "pointer-chase": {"N": 50, "COUNT": 60},
    "fig1a": {"COUNT": 50},
    "gramschmidt": {"M": 9, "N": 7},
}
SPECIAL = {
    "strings": "scalar", "flags": "scalar", "jump_table": "scalar", "computed_jump": "scalar", "crowded": "scalar",
    "thread_local_data": "scalar", "stack_traffic": "scalar", "gathers": "avx2", "vector_masks": "avx2",
    "scatters": "avx512", "opmasks": "avx512",
}  # fmt: skip


def need(build: str) -> None:
    missing = NEEDS[build] - CPU_FLAGS
    if missing:
        pytest.skip(f"this processor lacks {', '.join(sorted(missing))}")


@pytest.fixture(scope="module")
def stepper(tmp_path_factory):
    return oracle.build_stepper(tmp_path_factory.mktemp("stepper"))


def compare(stepper, kernel, functions, folder, **settings):
    trace = kernel.trace(backend="cloner", **settings)
    truth = oracle.single_step(stepper, kernel, functions, int(trace.addresses[-1]), folder)
    found = oracle.told(trace, ElfFile(kernel.path), kernel.function)
    assert found.pcs == truth.pcs
    assert len(found.accesses) == len(truth.accesses)
    # Thread-local data lies elsewhere in another process: its place cannot be compared, its order and size can.
    blur = {"thread": ("elsewhere", 0)}
    wanted = [(*blur.get(where, (where, offset)), size) for where, offset, size in truth.accesses]
    assert found.accesses == wanted
    return trace


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", SMALL)
def test_corpus_kernels_trace_as_single_stepped(stepper, name, build, tmp_path):
    need(build)
    kernel = corpus_kernel(name, build, defines=SMALL[name])
    trace = compare(stepper, kernel, [kernel.function], tmp_path)
    assert 40 < trace.instruction_count <= 100_000
    assert trace.provenance.complete


@pytest.mark.parametrize(("function", "build"), SPECIAL.items())
def test_special_instructions_trace_as_single_stepped(stepper, function, build, tmp_path):
    need(build)
    kernel = compile_kernel(HERE / "special.c", function, build=build)
    trace = compare(stepper, kernel, [function], tmp_path)
    if function in ("strings", "vector_masks", "opmasks"):
        assert len(trace.sizes) > 10


def test_callees_are_followed_on_request(stepper, tmp_path):
    kernel = compile_kernel(HERE / "special.c", "calls", build="scalar")
    with_callees = compare(stepper, kernel, ["calls", "callee"], tmp_path, callees=True)
    alone = compare(stepper, kernel, ["calls"], tmp_path)
    assert with_callees.instruction_count > 10 * alone.instruction_count
    assert alone.provenance.extra["not_followed"] == "callee"
    assert "not_followed" not in with_callees.provenance.extra


def test_callees_are_followed_into_libraries(stepper, tmp_path):
    """Through linkage stubs into libm and libc, where no symbol tells their functions' bounds."""
    source = """
    #include <math.h>
    #include <string.h>
    #include "kernel.h"
    static ALIGNED double x[40], y[40];
    EXPORT void setup(void) { FILL(x); }
    KERNEL void f(void) {
        for (long i = 0; i < 40; i++) y[i] = exp(x[i]) + sin(30 * x[i]);
        memcpy(x, y, sizeof x);
    }
    """
    kernel = compile_kernel(source, "f", flags="-O1 -fno-builtin")
    trace = kernel.trace(callees=True)
    assert "not_followed" not in trace.provenance.extra
    steps = oracle.step_everything(stepper, kernel, int(trace.addresses[-1]), tmp_path)
    places = (np.concatenate([trace.code.pc[ids] for ids in trace.instructions()]) % 4096).tolist()
    assert len(places) > 2000
    assert places == steps
    # Only functions that ran are in the table.
    ran = {trace.code.function[i] for i in np.flatnonzero(trace.instruction_counts())}
    assert ran == set(trace.code.function)
