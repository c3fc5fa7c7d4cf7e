"""Kernels are scheduled by the machine code that LLVM makes of them."""

import ctypes
import shutil
import warnings

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.kernel_trace import KernelTrace, working_copies
from perfkit.collectors.dag.machine_code import MachineNodes, machine_nodes, recorded_kernel
from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.errors import DataError, PerfkitWarning, UnavailableError
from perfkit.simulators.dag.schedule import DagScheduler
from tests.simulators.assembled import loop

pytestmark = pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")

SOURCE = """#include <stdint.h>
long positive(const int *a, long n) {
  long s = 0;
  for (long i = 0; i < n; i++) { s += a[i]; s = s > 0 ? s : 0; }
  return s;
}
uint64_t carry(const uint64_t *a, const uint64_t *b, uint64_t *c, long n) {
  uint64_t k = 0;
  for (long i = 0; i < n; i++) { uint64_t t = a[i] + k; k = t < k; t += b[i]; k += t < b[i]; c[i] = t; }
  return k;
}
unsigned table(unsigned x, const unsigned *t, long n) {
  unsigned s = 0;
  for (long i = 0; i < n; i++) { x = x * 1664525u + 1013904223u; s += t[x >> 22]; }
  return s;
}
double sum(const double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }
unsigned hash(const unsigned char *a, long n) {
  unsigned h = 1;
  for (long i = 0; i < n; i++) h = (h ^ a[i]) * 16777619u;
  return h;
}
int divide(int a, int b) { return a / b; }
void copy(const long *a, long *b, long n) { __builtin_memcpy(b, a, 8 * n); }
void quotients(const float *a, float *b, long n) { for (long i = 0; i < n; i++) b[i] = b[i] / a[i]; }
void both(double *a, double *b, long n) { for (long i = 0; i < n; i++) b[i] += a[i]; }
"""
N = 2000
SIGNED = np.random.default_rng(1).integers(-500, 500, N).astype(np.int32)
WORDS = np.random.default_rng(2).integers(0, 2**62, N).astype(np.uint64)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.c"
    path.write_text(SOURCE)
    return path


def cycles(path, function, *arguments):
    core = pk.Microarchitecture.load("zen5")
    scheduler = pk.DagScheduler(pk.DagCore.load("zen5"), record=False)
    kernel = pk.trace_c(path, function, *arguments, whole=True, core=core)
    recorded = pk.predict_branches(machine_nodes(kernel, core, 10**6), core).dag()
    return scheduler.run(recorded).cycles / N, scheduler.run(kernel).cycles / N


@pytest.mark.parametrize(
    ("function", "arguments", "measured"),
    [
        ("positive", (SIGNED, N), 1.01),  # a jump, no conditional move (4.0)
        ("carry", (WORDS, WORDS[::-1].copy(), np.zeros(N, dtype=np.uint64), N), 3.44),  # additions with a carry (5.0)
        ("table", (12345, np.zeros(1024, dtype=np.uint32), N), 1.44),  # four turns by four products of the first (4.0)
    ],
)
def test_code_that_llvm_makes_shorter_is_scheduled_as_it_is(source, function, arguments, measured):
    """Cycles per element, measured on a Zen 5; in brackets those of LLVM's IR."""
    recorded, of_ir = cycles(source, function, *arguments)
    assert recorded == pytest.approx(measured, rel=0.15)
    assert of_ir > 1.25 * recorded


@pytest.mark.parametrize(("function", "arguments"), [("sum", (np.ones(N), N)), ("hash", (SIGNED.view(np.uint8), N))])
def test_chains_that_llvm_leaves_take_what_they_took(source, function, arguments):
    recorded, of_ir = cycles(source, function, *arguments)
    assert recorded == pytest.approx(of_ir, rel=0.03)


def test_own_code_is_its_machine_code_and_can_be_timed(source):
    (found,) = pk.open_dags(str(source), function="sum", arguments="f8[100], 100").values()
    assert isinstance(found, MachineNodes)
    assert found.name == "sum(100)"
    assert found.facts["front end"] == "clang"
    assert found.seconds() > 0
    (paper,) = pk.open_dags(str(source), function="sum", arguments="f8[100], 100", whole=False).values()
    assert isinstance(paper, KernelTrace)


def test_python_is_its_machine_code(tmp_path):
    (tmp_path / "own.py").write_text("def scale(x, a):\n    for i in range(x.size):\n        x[i] *= a\n")
    (found,) = pk.open_dags(f"{tmp_path}/own.py:scale", arguments="f8[100], 2.0").values()
    assert isinstance(found, MachineNodes)
    assert found.dag().counts["M"] == 100


def test_what_cannot_be_recorded_is_scheduled_by_its_ir_and_says_so(source):
    with pytest.warns(PerfkitWarning, match="scheduled by its LLVM IR, not by its machine code.*limit of 100"):
        (found,) = pk.open_dags(str(source), function="sum", arguments="f8[1000], 1000", limit=100).values()
    assert isinstance(found, KernelTrace)
    shared = np.ones(100)
    kernel = pk.trace_c(source, "both", shared, shared[50:], 50, whole=True)
    with pytest.raises(UnavailableError, match="share memory"):
        machine_nodes(kernel, None, 10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pk.open_dags(str(source), function="sum", arguments="f8[1000], 1000")


def test_a_kernel_that_ends_its_process_is_refused(source):
    with pytest.raises(DataError, match="SIGFPE"):
        pk.open_dags(str(source), function="divide", arguments="1, 0")


def test_a_maximum_comes_before_an_addition_would():
    """A chain of MAXSD takes 2.0 cycles per link on a Zen 4 (measured 2026-11-29), of ADDSD 3.0; on Intel's both 4."""
    for core, cycles in (("zen4", {"addsd": 3, "maxsd": 2}), ("skylake_x", {"addsd": 4, "maxsd": 4})):
        machine = pk.Microarchitecture.load(core)
        for name, latency in cycles.items():
            trace = loop(f"{name} xmm0,xmm1\ndec r15\njnz .", 300)
            found = DagScheduler(machine, record=False).run(trace_source(trace, whole=True, core=machine)).cycles
            assert abs(found - 300 * latency) <= 8


def test_what_libc_does_is_what_runs_when_timed(source):
    """An unversioned link calls the memcpy of 2007, of 16 bytes at a time; the process has another one."""
    kernel = pk.trace_c(source, "copy", WORDS.astype(np.int64), np.zeros(N, dtype=np.int64), N)
    code = recorded_kernel(kernel, 10**6).code
    libc = ctypes.CDLL("libc.so.6")
    begin = ctypes.string_at(ctypes.cast(libc.memcpy, ctypes.c_void_p).value, 16)
    assert any(b"".join(code.encoding[k : k + 12]).startswith(begin[:9]) for k in code.block_start[:-1].tolist())


def test_a_dag_of_divisions_of_floats_can_be_kept(source, tmp_path):
    """They keep the divider for less than divisions of doubles."""
    machine = pk.Microarchitecture.load("zen4")
    kernel = pk.trace_c(
        source, "quotients", np.ones(N, np.float32), np.ones(N, np.float32), N, whole=True, core=machine
    )
    dag = machine_nodes(kernel, machine, 10**6).dag()
    again = pk.Dag.load(dag.save(tmp_path / "quotients.npz"))
    scheduler = DagScheduler(machine, record=False)
    assert scheduler.run(again).cycles == scheduler.run(dag).cycles


def test_arrays_begin_at_other_places_of_their_pages():
    x = np.ones(600)
    copies = [pair[0].ctypes.data % 4096 for pair in working_copies([x, x.copy(), 3, x.copy()]) if pair]
    assert copies == [0, 1088, 2176]
    shared = [pair[0].ctypes.data % 4096 for pair in working_copies([x[8:], x.copy(), x[:9]]) if pair]
    assert shared == [64, 1088, 0]
