"""Kernels traced through LLVM IR: what they compute, how many nodes they have, and which depend on which."""

import shutil
import subprocess
import warnings

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.kernel_timing import measure_kernel
from perfkit.collectors.dag.llvm_ir import instrument
from perfkit.collectors.dag.paper_kernels import KERNELS, kernel
from perfkit.dag.graph import Dag
from perfkit.dag.program import ADD, DIVIDE, FORWARD, FUSED
from perfkit.errors import DataError, PerfkitWarning, SettingError, UnavailableError
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler

CORE = DagCore.sandy_bridge_erm()
SMALL = {
    "reduction": 50, "mvm": 9, "mvm_register": 9, "mmm_triple": 7, "mmm_sixfold": 23, "mmm_sixfold_register": 23,
    "fft": 32, "wht_iterative": 32, "wht_recursive": 32, "stencil": 6, "stencil_multiplied": 6, "kmeans": 40,
}  # fmt: skip


@pytest.fixture(scope="module")
def traced():
    return {name: kernel(name).trace(size) for name, size in SMALL.items()}


def same_schedule(source, dag):
    """Schedule the nodes as they are traced, and as a hand-made DAG of the same nodes; return both issue lists."""
    nodes = dag.nodes()
    address = [None if np.isnan(a) else int(a) for a in nodes["address"].astype(float)]
    written = Dag.from_nodes(list(nodes["op"]), list(nodes["deps"]), address)
    scheduler = DagScheduler(CORE.replace(rs=6, rob=20), record=True)
    return scheduler.run(source).issue.tolist(), scheduler.run(written).issue.tolist()


@pytest.mark.parametrize("name", SMALL)
def test_kernels_count_their_flops_and_replay_as_their_nodes(traced, name):
    source = traced[name]
    dag = source.dag()
    counts = dag.counts
    if kernel(name).flops:
        assert counts["A"] + counts["M"] + counts["D"] == kernel(name).flops(SMALL[name])
    assert len(dag) == sum(counts.values()) == len(dag.nodes())
    in_memory, by_hand = same_schedule(dag, dag)
    assert in_memory == by_hand


def test_kernels_compute_what_they_should(traced):
    rng = np.random.default_rng(0)
    n = SMALL["mmm_triple"]
    a, b, c = (rng.random((n, n)) for _ in range(3))
    assert np.allclose(traced["mmm_triple"].run()[2], c + a @ b)
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((23, 23)) for _ in range(3))
    assert np.allclose(traced["mmm_sixfold_register"].run()[2], c + a @ b)
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((23, 23)) for _ in range(3))
    assert np.allclose(traced["mmm_sixfold"].run()[2], c + a @ b)
    rng = np.random.default_rng(0)
    a, x, y = rng.random((9, 9)), rng.random(9), rng.random(9)
    assert np.allclose(traced["mvm"].run()[2], y + a @ x)
    data = np.random.default_rng(0).random(64)
    expected = np.fft.ifft(data.view(complex)) * 32  # Numerical Recipes' sign
    assert np.allclose(traced["fft"].run()[0].view(complex), expected)
    x = np.random.default_rng(0).random(32)
    hadamard = np.ones((1, 1))
    for _ in range(5):
        hadamard = np.kron(hadamard, np.array([[1, 1], [1, -1]]))
    for name in ("wht_iterative", "wht_recursive"):
        assert np.allclose(traced[name].run()[0], hadamard @ x)
    assert np.isclose(traced["reduction"].run()[1][0], np.random.default_rng(0).random(50).sum())
    points = np.random.default_rng(0).random((40, 3))
    nearest = ((points[:, None] - points[:10]) ** 2).sum(axis=2).argmin(axis=1)
    means = np.array([points[nearest == c].mean(axis=0) for c in range(10)])
    assert np.allclose(traced["kmeans"].run()[1], means)


def test_streaming_a_kernel_equals_its_dag_in_memory(traced):
    source = traced["fft"]
    scheduler = DagScheduler(CORE, record=True)
    streamed, kept = scheduler.run(source), scheduler.run(source.dag())
    assert streamed.issue.tolist() == kept.issue.tolist()
    assert streamed.to_frame().equals(kept.to_frame())


def test_a_long_stream_passes_many_buffers():
    source = kernel("reduction").trace(300_000)
    run = DagScheduler(CORE, warm=False, record=False).run(source)
    assert (run.work, run.n_nodes("mem")) == (300_000, 37_500 + 1)
    assert run.performance == pytest.approx(1 / 3, rel=1e-3)


def test_inputs_are_not_changed_and_every_replay_begins_anew():
    x = np.arange(8.0)

    def double(v):
        for i in range(v.size):
            v[i] *= 2.0

    source = pk.trace_numba(double, x)
    assert source.run()[0].tolist() == source.run()[0].tolist() == (2 * x).tolist()
    assert x.tolist() == list(range(8))
    assert source.seconds(1000) > 0


def test_calls_and_recursion_pass_values():
    @numba.njit
    def power(x, n):
        if n == 0:
            return 1.0
        return x * power(x, n - 1)

    def apply(v, out):
        out[0] = power(v[0], 5)

    source = pk.trace_numba(apply, np.array([3.0]), np.zeros(1))
    assert source.run()[1][0] == 3.0**5
    nodes = source.dag().nodes()
    multiplies = nodes[nodes["op"] == "M"]
    assert len(multiplies) == 5
    assert nodes["op"].iloc[-1] == "S"
    in_memory, by_hand = same_schedule(source, source.dag())
    assert in_memory == by_hand


C_CODE = """
static double __attribute__((noinline)) square(double x) { return x * x; }
double __attribute__((noinline)) power(double x, int n) { return n ? square(x) + power(x * 0.5, n - 1) : 1.0; }
void kernel(double *a, double *b, long n) {
    for (long i = 0; i < n; i++) a[i] = power(b[i], 3);
    for (long i = 0; i < n; i++) b[i] = 0;
}
float smallest(float *a, long n) {
    float least = a[0];
    for (long i = 1; i < n; i++) least = a[i] < least ? a[i] : least;
    return least;
}
"""
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")


@needs_clang
def test_clang_calls_recursion_and_cleared_arrays():
    source = pk.trace_c(C_CODE, "kernel", np.ones(4), np.full(4, 2.0), 4)
    a, b = source.run()
    assert a.tolist() == [4 + 1 + 0.25 + 1] * 4
    assert b.tolist() == [0] * 4
    dag = source.dag()
    # Per element three squares, three halvings, three additions; the loop that clears b became a memset.
    assert dag.counts == {"A": 12, "M": 24, "D": 0, "L": 4, "S": 8}
    nodes = dag.nodes()
    first_store = nodes.index[nodes["op"] == "S"][0]
    assert nodes.loc[nodes["deps"][first_store][0], "op"] == "A"
    assert nodes[nodes["op"] == "S"]["deps"].tolist()[-1] == ()
    in_memory, by_hand = same_schedule(source, dag)
    assert in_memory == by_hand


@needs_clang
def test_clang_floats_and_compares():
    source = pk.trace_c(C_CODE, "smallest", np.array([3, 1, 2], dtype=np.float32), 3)
    dag = source.dag()
    assert dag.counts["A"] == 2
    assert dag.nodes()["bytes"].unique().tolist() == [4]


@needs_clang
def test_clang_vectors_are_nodes_of_their_width():
    code = "void add(double *restrict a, double *restrict b, long n) {\n for (long i = 0; i < n; i++) a[i] += b[i]; }"
    flags = ("-O3", "-mavx2")
    dag = pk.trace_c(code, "add", np.ones(64), np.ones(64), 64, flags=flags).dag()
    assert dag.counts == {"A": 16, "M": 0, "D": 0, "L": 32, "S": 16}
    run = DagScheduler(CORE).run(dag)
    assert (run.work, run.traffic, run.peak("A")) == (64, 3 * 64 * 8, 4)


@needs_clang
def test_clang_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match=r"defines no function 'none'; it defines: .*kernel"):
        pk.trace_c(C_CODE, "none")
    with pytest.raises(SettingError, match="3 parameters, 1 arguments"):
        pk.trace_c(C_CODE, "kernel", np.ones(4))
    with pytest.raises(SettingError, match="argument 2 of kernel is a i64"):
        pk.trace_c(C_CODE, "kernel", np.ones(4), np.ones(4), 4.5)
    with pytest.raises(DataError, match="does not compile"):
        pk.trace_c("int broken(\n", "broken")
    with pytest.raises(FileNotFoundError, match="no such file"):
        pk.trace_c(tmp_path / "none.c", "kernel")
    with pytest.raises(UnavailableError, match="install clang"):
        pk.trace_c(C_CODE, "kernel", compiler="no-such-clang")
    source = tmp_path / "sum.ll"
    source.write_text("define double @f(ptr %p) {\n  %x = load double, ptr %p\n  ret double %x\n}\n")
    assert pk.trace_c(source, "f", np.ones(1)).dag().counts["L"] == 1


def test_external_work_is_named():
    def shrink(v):
        for i in range(v.size):
            v[i] = np.exp(v[i])

    with pytest.warns(PerfkitWarning, match="exp"):
        source = pk.trace_numba(shrink, np.ones(3))
    assert source.dag().counts == {"A": 0, "M": 0, "D": 0, "L": 3, "S": 3}


def test_square_roots_minima_and_fused_operations():
    ir = """
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.minnum.f64(double, double)
define double @f(double %x, double %y) {
  %a = call double @llvm.fma.f64(double %x, double %y, double 1.0)
  %b = call double @llvm.sqrt.f64(double %a)
  %c = call double @llvm.minnum.f64(double %b, double %y)
  %d = fneg double %c
  ret double %d
}
"""
    code = instrument(ir, "f")
    assert code.returns == "double"
    # A fused multiply-add is one node; so are the root and the minimum.
    assert code.program.op.tolist() == [FUSED, DIVIDE, ADD, FORWARD]


def test_what_cannot_be_traced_says_so():
    with pytest.raises(DataError, match="defines no function"):
        instrument("", "f")
    for bad, message in ((np.ones((4, 4))[:, ::2], "contiguous"), (np.array([None]), "objects")):
        with pytest.raises(SettingError, match=message):
            pk.trace_numba(len, bad)
    with pytest.raises(SettingError, match="unknown kernel"):
        kernel("sort")
    with pytest.raises(SettingError, match="power of two"):
        kernel("fft").trace(100)

    def fails(v):
        if v.size > 0:
            raise ValueError("no")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numba.NumbaWarning)
        source = pk.trace_numba(fails, np.ones(1))
    with pytest.raises(DataError, match="raised an exception"):
        source.dag()


def test_an_error_of_the_consumer_ends_the_replay(traced):
    def refuse(records, length):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        traced["mvm"].replay(refuse)


def test_saved_traces_schedule_alike(traced, tmp_path):
    dag = traced["wht_recursive"].dag()
    again = Dag.load(dag.save(tmp_path / "wht.npz"))
    assert again.name == dag.name == "wht_recursive(32)"
    assert DagScheduler(CORE).run(again).issue.tolist() == DagScheduler(CORE).run(dag).issue.tolist()


def test_measured_cycles_of_a_chain_of_additions():
    source = kernel("reduction").trace(4000)
    measured = measure_kernel(source, repetitions=20, tolerance=0.2)
    # A dependent addition takes 2 (Zen 5) to 6 cycles on x86-64 cores; the clock is good to some percent.
    assert 1.8 < measured.cycles / 4000 < 6.5


def test_every_kernel_has_a_size_that_runs():
    assert set(SMALL) == set(KERNELS)


@needs_clang
def test_a_relative_path_is_one_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "own folder").mkdir()
    (tmp_path / "own folder" / "own.c").write_text(C_CODE)
    monkeypatch.chdir(tmp_path)
    assert pk.trace_c("own folder/own.c", "smallest", np.ones(3, dtype=np.float32), 3).dag().counts["A"] == 2


@needs_clang
def test_timing_keeps_a_call_whose_result_nobody_uses():
    code = "double dot(const double*a,const double*b,long n){\ndouble s=0;for(long i=0;i<n;i++)s+=a[i]*b[i];return s;}"
    kernel = pk.trace_c(code, "dot", np.ones(20_000), np.ones(20_000), 20_000)
    # A chain of additions: no x86-64 core takes fewer than 2 cycles per link, and none runs at 10 GHz.
    assert kernel.seconds(3) > 20_000 * 2 / 10e9


OTHERS = r"""
#include <string.h>
long find(const char *t, const char *p, long n, long m) {
    for (long i = 0; i + m <= n; i++) { long j = 0; while (j < m && t[i + j] == p[j]) j++; if (j == m) return i; }
    return -1;
}
long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
long chase(long *next, long n) { long i = 0; for (long k = 0; k < n; k++) i = next[i]; return i; }
void move(double *a, long n) { memmove(a + 1, a, n * 8); }
double fused(double *a, double *b, long n) {
    double s = 0; for (long i = 0; i < n; i++) s = __builtin_fma(a[i], b[i], s); return s;
}
"""


VIRTUAL = """
struct Shape { virtual double area() const = 0; };
struct Square : Shape { double a; Square(double x) : a(x) {} double area() const override { return a * a; } };
double areas(const double *a, long n) {
    double s = 0; for (long i = 0; i < n; i++) { Square q(a[i]); s += q.area(); } return s;
}
"""


@needs_clang
def test_virtual_functions_that_are_known_are_traced(tmp_path):
    path = tmp_path / "shapes.cpp"
    path.write_text(VIRTUAL)
    counts = pk.trace_c(path, "areas", np.ones(50), 50).dag().counts
    assert (counts["A"], counts["M"]) == (50, 50)


@pytest.mark.parametrize("compiler", ["clang-14", "clang-16", "clang-19"])
def test_integer_code_of_several_compilers(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")

    def run(function, *arguments):
        source = pk.trace_c(OTHERS, function, *arguments, compiler=compiler, whole=True)
        return DagScheduler(DagCore.load("zen4"), record=False).run(source)

    found = run("find", b"abcabdabcabcabz" * 50, b"abcabz", 750, 6)
    assert found.work_unit == "integer operations"
    assert found.coverage > 0.9
    assert "ops/cycle" in found.roofline().verdict
    # A pointer chase takes the latency of an integer load of L1 a link: 4 cycles.
    chased = run("chase", (np.arange(1, 1001) % 1000).astype(np.int64), 1000)
    assert 3990 < chased.cycles < 4200
    assert run("fib", 12).n_nodes("I") > 400
    chain = run("fused", np.ones(500), np.ones(500), 500)
    assert (chain.n_nodes("F"), chain.n_nodes("A"), chain.work) == (500, 0, 1000)
    assert 4 * 500 <= chain.cycles < 4 * 500 + 100


@needs_clang
def test_a_move_that_overlaps_keeps_its_meaning():
    source = pk.trace_c(OTHERS, "move", np.arange(9.0), 8)
    assert source.run()[0].tolist() == [0, *range(8)]
    counts = source.dag().counts
    assert (counts["L"], counts["S"]) == (8, 8)


@needs_clang
def test_cpp_by_its_plain_name_and_missing_symbols(tmp_path):
    path = tmp_path / "total.cpp"
    path.write_text(
        "#include <vector>\ndouble total(const double *x, long n) { std::vector<double> v(x, x + n);"
        "double s = 0; for (double y : v) s += y; return s; }\n"
        'extern "C" double nowhere(double); double lost(double x) { return nowhere(x); }\n'
    )
    assert pk.trace_c(path, "total", np.ones(100), 100).dag().counts["A"] == 100
    with pytest.warns(PerfkitWarning, match="nowhere"):
        source = pk.trace_c(path, "lost", 1.0)
    with pytest.raises(DataError, match="nowhere, which neither"):
        source.dag()


def test_blas_is_named():
    with pytest.warns(PerfkitWarning, match="BLAS"):
        pk.trace_numba(lambda x, y: x @ y, np.ones(10), np.ones(10))


def test_ir_that_cannot_be_read_says_which_llvm():
    with pytest.raises(DataError, match=r"LLVM \d+\.\d+.* cannot read"):
        instrument("define nonsense", "f")


@needs_clang
def test_builds_are_dags_of_their_own(tmp_path):
    path = tmp_path / "own.c"
    path.write_text(
        "double dot(double *a, double *b, long n) {\n"
        "  double s = 0; for (long i = 0; i < n; i++) s += a[i] * b[i]; return s; }\n"
    )
    arguments = {"function": "dot", "arguments": "f8[N], f8[N], N", "sizes": [64], "whole": False}
    builds = ["-O1", "-O2", "-O2 -ffast-math"]
    found = pk.open_dags(str(path), builds=builds, **arguments)
    assert list(found) == [f"dot(64) {build}" for build in builds]
    slow, plain, fast = (dag.dag().counts for dag in found.values())
    assert slow["L"] == plain["L"] == 128
    with pytest.raises(SettingError, match="from -O1 on"):
        pk.open_dags(str(path), builds=["-O0"], **arguments)
    assert (plain["A"], plain["M"], plain.get("F", 0)) == (64, 64, 0), (
        "no fused operations without a target that has them"
    )
    assert fast["M"] < plain["M"], "vectors"
    with pytest.raises(SettingError, match="no C or C\\+\\+ source"):
        pk.open_dags("mvm", builds=["-O2"])


@needs_clang
def test_the_only_function_of_a_source_need_not_be_named(tmp_path):
    path = tmp_path / "own.cpp"
    helper = "static double twice(double x) { return 2 * x; }\ntemplate <class T> T same(T x) { return x; }\n"
    only = "double scale(double *a, long n) { for (long i = 0; i < n; i++) a[i] = twice(same(a[i])); return a[0]; }\n"
    path.write_text(helper + only)
    assert list(pk.open_dags(str(path), arguments="f8[8], 8")) == ["scale"]
    path.write_text(helper + only + only.replace("scale", "other"))
    with pytest.raises(SettingError, match=r"2 that qualify \(other and scale\)"):
        pk.open_dags(str(path), arguments="f8[8], 8")


def test_a_program_needs_a_function_and_says_how_each_interface_names_it(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    with pytest.raises(SettingError, match="--function NAME, or -p function=NAME in a report"):
        pk.open_dags(str(path))


@needs_clang
def test_a_program_does_not_hide_another_of_the_same_function(tmp_path, monkeypatch):
    (tmp_path / "p.c").write_text(
        "__attribute__((noinline)) double f(double x) { return x * x; } int main(void) { return f(2) != 4; }"
    )
    for level in ("O0", "O1"):
        subprocess.run(["clang", f"-{level}", "-o", str(tmp_path / f"p {level}"), str(tmp_path / "p.c")], check=True)
    monkeypatch.chdir(tmp_path)
    assert list(pk.open_dags("./p O0,./p O1", function="f")) == ["f of p O0", "f of p O1"]


@pytest.mark.parametrize(
    ("statement", "cycles"),
    [
        ("h = h * 33 + s[i]", 2), ("h = h * 33 ^ s[i]", 3), ("h = h * 5 + s[i]", 2), ("h = h * 31 + s[i]", 3),
        ("h = h * 12 + s[i]", 2), ("h = h * 12 ^ s[i]", 3), ("h = h * 35 + s[i]", 4), ("h = h * 1000003 ^ s[i]", 4),
        ("h = h * 45 + s[i]", 3), ("h = h * 60 + s[i]", 4),
    ],
)  # fmt: skip
def test_multiplications_by_constants_are_shifts_and_additions(statement, cycles):
    """A chain per byte, as measured on a Zen 5 (2.2, 3.0, 2.0, 2.9, 2.0, 3.0, 4.0, 4.0, 3.0, 3.9 cycles)."""
    text = f"""
    unsigned long f(const unsigned char *s, long n) {{
        unsigned long h = 1;
        for (long i = 0; i < n; i++) {statement};
        return h;
    }}"""
    source = pk.trace_c(text, "f", np.ones(1000, np.uint8), 1000, whole=True)
    run = pk.DagScheduler(pk.DagCore.load("zen5"), record=False).run(source)
    assert abs(run.cycles / 1000 - cycles) < 0.05


@needs_clang
@pytest.mark.parametrize("body", ["if (n < 0) throw n;", "try { s = 1; } catch (...) { s = 2; }"])
def test_sources_that_throw_are_refused_with_the_reason_and_the_ways_out(tmp_path, body):
    source = tmp_path / "throws.cpp"
    source.write_text(f"double f(const double *a, long n) {{ double s = 0; {body} return s + a[0]; }}\n")
    with pytest.raises(DataError, match=r"exceptions.*-fno-exceptions.*__cpp_exceptions.*perfkit gus"):
        pk.trace_c(source, "f", np.ones(3), 3)


def test_results_of_numba_beyond_64_numbers_have_room(monkeypatch):
    # Twelve arrays are 672 bytes; the room of 512 that there was made other memory's contents.
    def wide(x):
        return x, x, x, x, x, x, x, x, x, x, x, x

    found = pk.trace_numba(wide, np.ones(9), whole=True)
    assert len(found.dag()) >= 12 * 7  # what an array is described by: at least seven stores each
    monkeypatch.setattr("perfkit.collectors.dag.numba_kernel.ROOM", 64)
    with pytest.raises(SettingError, match="wide returns 672 bytes; at most 512"):
        pk.trace_numba(wide, np.ones(9), whole=True)


def test_arrays_hold_their_contents_again_before_each_run(tmp_path):
    """Only those that may be written to are copied back; one of them may share its memory with one that is read."""
    source = tmp_path / "add.c"
    source.write_text("void f(const double *a, double *b, long n) { for (long i = 0; i < n; i++) b[i] += a[i]; }")
    x, y, z = np.arange(4.0), np.ones(4), np.arange(6.0)
    for a, b, left in (
        (x, y, [[0, 1, 2, 3], [1, 2, 3, 4]]),
        (x, x, [[0, 2, 4, 6], [0, 2, 4, 6]]),
        (z[:4], z[2:], [[0, 1, 2, 4], [2, 4, 6, 9]]),
    ):
        kernel = pk.trace_c(source, "f", a, b, 4)
        for _ in range(3):
            assert [array.tolist() for array in kernel.run()] == left
