"""How fast traces are made and read: an AVX2 matrix product, against QEMU's plugin and against itself untraced.

./kit bench tests/benchmarks/test_bench_trace.py
"""

import resource
import subprocess
import sys
import time

import pytest

from perfkit.collectors.kernels import corpus_kernel
from perfkit.trace.trace import Trace

SIZE = 432  # 60 to 130 million instructions, as the compiler unrolls


@pytest.fixture(scope="module")
def product():
    return corpus_kernel("gemm", "avx2", defines={"N": SIZE})


@pytest.fixture(scope="module")
def recorded(product):
    """A trace, the seconds it took in all, and the seconds of processor time that the traced code ran.

    Processor time: what else a shared machine runs meanwhile is not the tracer's.
    """
    best = None
    for _ in range(3):
        start = time.perf_counter()
        trace = product.trace(limit=300_000_000)
        total = time.perf_counter() - start
        running = float(trace.provenance.extra["cpu_seconds"])
        if best is None or running < best[2]:
            best = trace, total, running
    return best


def test_the_cloner_records_100_million_instructions_a_second(product, recorded):
    trace, total, running = recorded
    count = trace.instruction_count
    seconds = untraced(product)
    wall = float(trace.provenance.extra["seconds"])
    print(f"\n{count:,} instructions, {trace.access_count:,} accesses")
    print(f"cloner: {count / running / 1e6:.0f} M instr/s of processor time, {count / wall / 1e6:.0f} by the clock")
    print(f"with start and set-up: {count / total / 1e6:.0f} M instr/s by the clock")
    print(f"untraced: {count / seconds / 1e6:.0f} M instr/s; traced, it runs {running / seconds:.1f} times as long")
    assert count / running >= 100e6


def test_the_cloner_against_qemu(recorded):
    kernel = corpus_kernel("gemm", "avx2", defines={"N": 192})
    start = time.perf_counter()
    emulated = kernel.trace(backend="qemu", limit=50_000_000)
    qemu = emulated.instruction_count / (time.perf_counter() - start)
    trace, total, _ = recorded
    cloner = trace.instruction_count / total
    print(f"\nwhole calls: cloner {cloner / 1e6:.0f}, qemu {qemu / 1e6:.1f} M instr/s: {cloner / qemu:.0f} times")
    assert cloner > qemu


def test_a_trace_loads_in_a_fraction_of_the_time_it_took(recorded, tmp_path):
    trace, total, _ = recorded
    start = time.perf_counter()
    path = trace.save(tmp_path / "product.trace")
    saving = time.perf_counter() - start
    Trace.load(path)  # compiled and cached from here on
    loading = min(timed_load(path) for _ in range(3))
    print(f"\nrecorded in {total:.2f} s, saved in {saving:.2f} s, loaded in {loading:.2f} s")
    print(f"loading takes {loading / total:.2f} of the time it took to trace, {path.stat().st_size:,} bytes")
    assert loading / total < 0.5


def test_100_million_instructions_open_within_4_gb(recorded, tmp_path):
    trace, _, _ = recorded
    path = trace.save(tmp_path / "product.trace")
    code = (
        "import sys, resource; from perfkit.trace.trace import Trace; t = Trace.load(sys.argv[1]);"
        "print(t.instruction_count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    count, kilobytes = (int(word) for word in done.stdout.split())
    print(f"\n{count:,} instructions opened in {kilobytes / 1e6:.2f} GB")
    assert kilobytes * 1024 * 100e6 / count < 4e9
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0


def timed_load(path) -> float:
    start = time.perf_counter()
    Trace.load(path)
    return time.perf_counter() - start


def untraced(kernel) -> float:
    """Seconds of processor time that the kernel runs by itself; the shortest of three."""
    code = (
        "import ctypes, sys, time\n"
        "k = ctypes.CDLL(sys.argv[1]); k.setup(); f = getattr(k, sys.argv[2]); f.restype = None\n"
        "for _ in range(3):\n    t = time.process_time(); f(); print(time.process_time() - t)"
    )
    words = [sys.executable, "-c", code, kernel.path, kernel.function]
    return min(map(float, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()))
