"""Recording every thread of a region: OpenMP and pthreads, known answers, and programs that make it hard."""

import functools
import json
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, PerfkitWarning, SettingError
from perfkit.trace.sharing import SERIAL
from tests.collectors.tracer import oracle

TRIANGLE = """
    #include <stdlib.h>
    double a[400][400], x[400], y[400];
    __attribute__((noipa)) void solve(long n) {
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) {
            double s = 0;
            for (long j = 0; j < i; j++) s += a[i][j] * x[j];
            y[i] = s;
        }
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) x[i] = y[i] * 0.5;
    }
    int main(void) { for (int k = 0; k < 3; k++) solve(200); return y[3] != 0; }
"""
COUNTERS = """
    #include <omp.h>
    struct { long v; char pad[PAD]; } counter[64] __attribute__((aligned(64)));
    __attribute__((noipa)) void solve(void) {
        #pragma omp parallel
        {
            int t = omp_get_thread_num();
            for (long i = 0; i < 1000; i++) (*(volatile long *)&counter[t].v)++;
            #ifdef ATOMIC
            for (long i = 0; i < 1000; i++)
                #pragma omp atomic
                counter[63].v++;
            #endif
        }
    }
    int main(void) { solve(); return 0; }
"""
WORKERS = """
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    #include <sys/wait.h>
    long sums[128];
    __attribute__((noipa)) void work(long k) { for (long i = 0; i < 100 * (k + 1); i++) sums[k] += i; }
    BODY
    static void *run(void *p) { body((long)p); return 0; }
    int main(void) {
        pthread_t t[128];
        for (long k = 0; k < THREADS; k++) pthread_create(&t[k], 0, run, (void *)k);
        for (long k = 0; k < THREADS; k++) pthread_join(t[k], 0);
        return 0;
    }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compile a program: compiled(source, *flags) -> path."""
    folder = tmp_path_factory.mktemp("threads")

    def compile_program(source, *flags, compiler="gcc"):
        path = folder / f"program{len(list(folder.iterdir()))}"
        text = path.with_suffix(".cpp" if compiler == "g++" else ".c")
        text.write_text(textwrap.dedent(source))
        subprocess.run([compiler, "-O2", "-g", "-pthread", *flags, "-o", str(path), str(text)], check=True)
        return path

    return compile_program


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")


def workers(compiled, body, threads=4):
    return compiled(WORKERS.replace("BODY", body), f"-DTHREADS={threads}")


FORTRAN = """
program p
  real(8) :: a(200, 200), x(200), y(200)
  a = 1; x = 2
  call solve(a, x, y, 200)
  if (y(3) < 0) stop 1
contains
  subroutine solve(a, x, y, n)
    integer :: n, i, j
    real(8) :: a(n, n), x(n), y(n)
    !$omp parallel do private(j) schedule(static)
    do i = 1, n
      y(i) = 0
      do j = 1, i
        y(i) = y(i) + a(j, i) * x(j)
      end do
    end do
    !$omp end parallel do
  end subroutine
end program
"""
PLAIN = "static void body(long k) { work(k); }"


def test_a_triangular_loop_is_as_unbalanced_as_it_must_be(compiled):
    traces = Tracer().run_threads(compiled(TRIANGLE, "-fopenmp"), "solve")
    assert traces.bodies == ("solve._omp_fn.0", "solve._omp_fn.1")
    assert traces.complete
    assert traces.phased
    # Thread k of 4 goes through 50 rows of 50 k + 25 elements on average: 1 : 3 : 5 : 7.
    rows = [sum(range(50 * k, 50 * k + 50)) for k in range(4)]
    loads = [t.access_count for t in traces.values()]
    assert np.diff(loads[1:]).tolist() == [2 * (rows[k + 1] - rows[k]) for k in (1, 2)]
    assert traces.instructions.argmax() == 3
    for k in traces:
        phases = traces.phases(k)
        assert len(set(phases.tolist()) - {SERIAL}) == 2, "two parallel loops"
        assert (SERIAL in phases) == (k == 0), "one thread runs the function itself"


@pytest.mark.parametrize("program", [TRIANGLE, COUNTERS, WORKERS], ids=["triangle", "counters", "pthreads"])
def test_threads_are_recorded_as_single_stepped(compiled, tmp_path, program):
    """Every instruction and every address of four threads, one by one, as ptrace sees them."""
    if program is WORKERS:
        path, function = workers(compiled, PLAIN), "work"
    else:
        once = program.replace("for (int k = 0; k < 3; k++) solve(200)", "solve(40)").replace("i < 1000", "i < 100")
        path, function = compiled(once, "-fopenmp", "-DPAD=0", "-DATOMIC"), "solve"
    traces = Tracer().run_threads(path, function)
    elf = ElfFile(path)
    truth = oracle.step_threads(path, [function, *traces.bodies], tmp_path)
    assert len(truth) == len(traces) == 4
    for wanted, trace in zip(truth, traces.values(), strict=True):
        first = next(trace.instructions())[0]
        found = oracle.told(trace, elf, trace.code.function[first])
        assert found.pcs == wanted.pcs
        assert len(trace.addresses) == len(wanted.accesses)
        assert found.accesses == wanted.accesses
    assert sum(len(each.pcs) for each in truth) > 1000


@pytest.mark.parametrize(("flags", "sharing"), [(["-DPAD=0"], "false"), (["-DPAD=56"], None)])
def test_neighbouring_counters_share_a_line_falsely_and_padded_ones_do_not(compiled, flags, sharing):
    lines = Tracer().run_threads(compiled(COUNTERS, "-fopenmp", *flags), "solve").shared_lines()
    table = lines.to_frame()
    if sharing is None:
        assert table.empty
        return
    row = table[table["variable"] == "counter"].iloc[0]
    assert (row["sharing"], row["threads"], row["writers"]) == ("false", "0, 1, 2, 3", "0, 1, 2, 3")
    assert (row["reads"], row["writes"]) == (4000, 4000)
    assert row["places"].endswith(":8"), "the line of the increment"


def test_false_sharing_costs_simulated_cycles_and_padding_ends_it(compiled):
    shared, padded = (
        pk.run_threads(pk.Gus("zen4"), Tracer().run_threads(compiled(COUNTERS, "-fopenmp", f"-DPAD={pad}"), "solve"))
        for pad in (0, 56)
    )
    assert shared.transfers.min() > 3
    assert padded.transfers.sum() <= 4, "at most one each, at the beginning"
    assert shared.cycles > 1.1 * padded.cycles
    assert shared.slowdown > 1.1
    assert padded.slowdown < 1.05


def test_a_line_that_comes_and_goes_never_makes_a_thread_faster(tmp_path):
    """A chain through memory that is far behind what is dispatched: what is lost is counted from the chain's end."""
    source = """
        #include <omp.h>
        void rows(double *sums, const double *a, long n) {
            #pragma omp parallel num_threads(4)
            {
                volatile double *mine = sums + omp_get_thread_num();
                #pragma omp for schedule(static)
                for (long i = 0; i < n; i++) *mine += a[i];
            }
        }
    """
    path = tmp_path / "rows.c"
    path.write_text(source)
    result = pk.run_threads(pk.Gus("skylake_x"), pk.trace_threads(path, arguments=[np.zeros(8), np.ones(2000), 2000]))
    assert (result.thread_cycles > 1.2 * result.alone).all()


def test_memory_is_divided_and_a_thread_that_asks_for_less_gets_what_it_asks_for(compiled):
    """Three threads stream; one computes. Twice the bandwidth is worth nothing once all have enough."""
    source = """
        #include <omp.h>
        double a[4][1 << 15];
        __attribute__((noipa)) void solve(void) {
            #pragma omp parallel
            {
                int t = omp_get_thread_num();
                double s = 0;
                if (t) for (long i = 0; i < 1 << 15; i += 8) a[t][i] += 1;
                else for (long i = 0; i < 20000; i++) __asm__ volatile("" : "+x"(s));
            }
        }
        int main(void) { solve(); return 0; }
    """
    traces = Tracer().run_threads(compiled(source, "-fopenmp"), "solve")
    gus = pk.Gus("zen4")
    little, much, more = (pk.run_threads(gus, traces, memory_bandwidth=b) for b in (4.0, 64.0, 128.0))
    assert much.cycles == more.cycles
    streaming = [k for k in traces if traces[k].access_count > 8000]
    (computing,) = set(traces) - set(streaming)
    bandwidth = little.to_frame()["bandwidth"]
    assert bandwidth[streaming].to_numpy() == pytest.approx([4 / 3] * 3, rel=0.01)
    assert little.thread_cycles[computing] == pytest.approx(much.thread_cycles[computing], rel=0.02)
    assert (little.thread_cycles[streaming] > 1.5 * much.thread_cycles[streaming]).all()
    assert little.memory_bytes.sum() / little.cycles <= 4.0 * 1.01


def test_a_loop_named_itself_is_no_stretch_in_which_one_thread_runs_alone(compiled):
    """Four threads with 1 : 3 : 5 : 7 of the work, by the loop's own symbol: the slowest takes 7/4 of the mean."""
    program = compiled(TRIANGLE, "-fopenmp")
    body = Tracer().run_threads(program, "solve").bodies[0]
    traces = Tracer().run_threads(program, body)
    assert all(SERIAL not in traces.phases(k) for k in traces)
    wanted = traces.instructions.max() / traces.instructions.mean()
    assert pk.run_threads(pk.Gus("zen4", warm=True), traces).imbalance == pytest.approx(wanted, rel=0.15)
    assert wanted > 1.5


def test_a_function_without_loops_names_those_that_hold_them(compiled):
    """`main` calls solve, whose loop runs in all threads: who asks for main is told whom to ask for."""
    alone = Tracer().run_threads(compiled(TRIANGLE, "-fopenmp"), "main")
    assert len(alone) == 1
    assert (
        "main holds no parallel loop; solve, which it calls, does: record solve instead (-f solve)" in alone.summary()
    )
    assert "holds no parallel loop" not in Tracer().run_threads(compiled(TRIANGLE, "-fopenmp"), "solve").summary()


def test_the_command_simulates_a_file_of_threads(compiled, tmp_path):
    path = Tracer().run_threads(compiled(TRIANGLE, "-fopenmp"), "solve").save(tmp_path / "all.threads")
    words = [sys.executable, "-m", "perfkit", "gus", str(path), "--core", "zen4", "--sensitivity"]
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
    found = json.loads(run([*words, "--json"]).stdout)
    assert found["imbalance"] > 1.3
    assert found["critical"] == 3
    assert [row["thread"] for row in found["threads"]] == [0, 1, 2, 3]
    slowest = pk.run_threads(pk.Gus("zen4"), pk.ThreadTraces.load(path))
    assert [row["bottleneck"] for row in found["threads"]] == [name or "no single one" for name in slowest.bottlenecks]
    told = run([*words, "-o", str(tmp_path / "saved.gus")]).stdout
    assert "imbalance" in told
    assert "bottleneck" in told
    assert "sensitivity of thread 3, without the lines that others take (simulated)" in told
    assert pk.ThreadsResult.load(tmp_path / "saved.gus").cycles == found["cycles"]


def test_an_atomic_counter_is_shared_truly(compiled):
    program = compiled(COUNTERS, "-fopenmp", "-DPAD=56", "-DATOMIC")
    table = Tracer().run_threads(program, "solve").shared_lines().to_frame()
    assert table["sharing"].tolist() == ["true"]
    assert table["writes"].tolist() == [4000]


def test_threads_of_a_program_are_recorded_by_the_function_they_run(compiled):
    traces = Tracer().run_threads(workers(compiled, PLAIN), "work")
    assert len(traces) == 4
    assert sorted(t.access_count for t in traces.values()) == sorted(2 + 100 * (k + 1) for k in range(4)) or all(
        t.complete for t in [traces]
    )
    ordered = sorted(traces.instructions.tolist())
    assert np.diff(ordered).tolist() == [ordered[1] - ordered[0]] * 3, "each runs a hundred rounds more than another"
    assert not traces.phased
    assert "not known" in traces.shared_lines().summary()


def test_recording_one_thread_says_what_other_threads_did(compiled):
    with pytest.warns(PerfkitWarning, match="other threads called it 3 times"):
        trace = Tracer().run(workers(compiled, PLAIN), "work")
    assert trace.provenance.extra["calls_in_other_threads"] == "3"


def test_a_region_entered_again_and_again_is_recorded_as_often_as_wanted(compiled):
    body = "static void body(long k) { for (int i = 0; i < 10; i++) work(k); }"
    program = workers(compiled, body)
    traces = Tracer(skip=2, repeat=3).run_threads(program, "work")
    assert [len(calls) for calls in traces.calls] == [3] * 4


@pytest.mark.parametrize("early", ["pthread_exit(0)", "pthread_cancel(pthread_self()), pthread_testcancel()"])
def test_a_thread_that_ends_inside_is_recorded_up_to_there(compiled, early):
    body = f"__attribute__((noipa)) static void body(long k) {{ work(k); if (k == 1) {early}; work(k); }}"
    traces = Tracer().run_threads(workers(compiled, body), "body")
    assert [t.provenance.complete for t in traces.values()].count(False) == 1
    assert "ended inside" in traces.summary()


def test_a_process_started_inside_is_refused_and_one_outside_is_left_alone(compiled):
    inside = "__attribute__((noipa)) static void body(long k) { work(k); if (k == 1 && !fork()) _exit(0); wait(0); }"
    for record in (Tracer().run, Tracer().run_threads):
        with pytest.raises(DataError, match="starts a process"):
            record(workers(compiled, inside.replace("k == 1", "1")), "body")
    outside = "static void body(long k) { if (!fork()) { work(k); _exit(0); } wait(0); work(k); }"
    traces = Tracer().run_threads(workers(compiled, outside), "work")
    assert [len(calls) for calls in traces.calls] == [1] * 4


def test_more_threads_than_there_is_room_for_are_refused_with_the_number(compiled):
    assert len(Tracer().run_threads(workers(compiled, PLAIN, 64), "work")) == 64
    with pytest.raises(DataError, match="more than 64 threads"):
        Tracer().run_threads(workers(compiled, PLAIN, 65), "work")


def test_threads_that_never_come_are_not_there(compiled):
    traces = Tracer().run_threads(workers(compiled, "static void body(long k) { if (k > 1) work(k); }"), "work")
    assert len(traces) == 2
    with pytest.raises(DataError, match="never called work"):
        Tracer().run_threads(workers(compiled, "static void body(long k) { if (k > 9) work(k); }"), "work")


def test_an_exception_through_the_region_is_named_as_what_went_wrong(compiled):
    source = """
        #include <thread>
        __attribute__((noinline)) void work(int k) { if (k == 2) throw k; asm volatile(""); }
        int main() {
            std::thread t([] { for (int k = 0; k < 4; k++) try { work(k); } catch (...) { } });
            t.join();
        }
    """
    program = compiled(source, compiler="g++")
    for record in (Tracer(repeat=4).run, Tracer(repeat=4).run_threads):
        with pytest.raises(DataError, match="work throws or catches an exception"):
            record(program, "work")


def test_what_only_one_thread_can_have_is_refused(compiled):
    program = workers(compiled, PLAIN)
    with pytest.raises(SettingError, match="markers"):
        Tracer(begin="a", end="b").run_threads(program, "work")
    with pytest.raises(SettingError, match="pinned"):
        Tracer(pinned="x86-64-v3").run_threads(program, "work")
    with pytest.raises(SettingError, match="QEMU records one thread"):
        Tracer(backend="qemu").run_threads(program, "work")


@pytest.mark.parametrize("flags", [[], ["-ftls-model=global-dynamic"]])
def test_a_program_has_its_thread_local_variables_in_every_thread(compiled, flags):
    """What they begin with, what is zero, and what each thread adds: else the program would end with another status."""
    source = """
        #include <pthread.h>
        static __thread long zero[3000];
        __thread long seven = 7;
        static long sums[4];
        __attribute__((noipa)) long work(long k) {
            for (long i = 0; i < 3000; i++) ((volatile long *)zero)[i] += k;
            long s = seven++;
            for (long i = 0; i < 3000; i++) s += zero[i];
            return s;
        }
        static void *run(void *p) { sums[(long)p] = work((long)p) + work(1); return 0; }
        int main(void) {
            pthread_t t[4];
            for (long k = 0; k < 4; k++) pthread_create(&t[k], 0, run, (void *)k);
            for (long k = 0; k < 4; k++) pthread_join(t[k], 0);
            for (long k = 0; k < 4; k++) if (sums[k] != 7 + 3000 * k + 8 + 3000 * (k + 1)) return 1;
            return work(5) == 7 + 15000 && seven == 8 ? 42 : 2;
        }
    """
    program = compiled(source, *flags)
    traces = Tracer(repeat=2).run_threads(program, "work")
    assert traces[0].provenance.extra["exit_status"] == "42"
    assert len(traces) == 5
    assert traces.shared_lines().to_frame().empty, "each has its own"
    with pytest.warns(PerfkitWarning, match="other threads"):
        trace = Tracer(backend="cloner").run(program, "work")
    assert trace.provenance.extra["exit_status"] == "42"


def test_thread_local_variables_that_begin_with_addresses_are_refused_with_the_reason(compiled):
    source = """
        static long there;
        __thread long *where = &there;
        __attribute__((noipa)) long work(long k) { return *where += k; }
        int main(void) { return work(3) != 3; }
    """
    with pytest.raises(DataError, match="thread-local variables that begin with addresses"):
        Tracer(backend="cloner").run(compiled(source), "work")


def test_a_python_script_that_calls_a_library(compiled, tmp_path):
    library = compiled(TRIANGLE.partition("int main")[0], "-fopenmp", "-shared", "-fPIC")
    script = tmp_path / "script.py"
    lines = "import ctypes, sys", f"lib = ctypes.CDLL({str(library)!r})", "lib.solve(200)", "sys.exit(int(sys.argv[1]))"
    script.write_text("\n".join(lines))
    traces = pk.trace_threads(script, "solve", [7], library=str(library))
    assert len(traces) == 4
    assert traces[0].provenance.extra["exit_status"] == "7"
    assert traces[0].provenance.workload == "script.py"
    assert traces.instructions.max() / traces.instructions.mean() == pytest.approx(1.75, rel=0.02)
    with pytest.raises(SettingError, match="name the library"):
        pk.trace_threads(script, "solve")
    one = Tracer(library=str(library)).run(script, "solve")
    assert one.instruction_count < traces[0].instruction_count


@pytest.mark.parametrize("compiler", ["gfortran", "clang"])
def test_other_compilers_name_loops_in_other_ways(compiled, tmp_path, compiler):
    """gfortran inlines a contained procedure and keeps its loop's name; clang's loops have names of no function."""
    program = tmp_path / "program"
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    if compiler == "clang":
        source = tmp_path / "program.c"
        source.write_text(textwrap.dedent(TRIANGLE).replace("noipa", "noinline"))
    else:
        source = tmp_path / "program.f90"
        source.write_text(FORTRAN)
    words = [compiler, "-O2", "-g", "-fopenmp", str(source), "-o", str(program)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no runtime of OpenMP here")
    traces = Tracer().run_threads(program, "solve")
    assert len(traces) == 4
    assert traces.phased
    assert traces.instructions.max() / traces.instructions.mean() == pytest.approx(1.75, abs=0.04)


def test_a_kernel_in_c_is_compiled_with_openmp(tmp_path):
    source = tmp_path / "scale.c"
    source.write_text(
        "void scale(double *x, long n) {\n#pragma omp parallel for\nfor (long i = 0; i < n; i++) x[i] *= 2;}"
    )
    traces = pk.trace_threads(source, arguments=[np.ones(1000), 1000])
    assert len(traces) == 4
    assert traces[0].kind == "measured"
    result = pk.run_threads(pk.Gus("zen4"), traces)
    assert result.kind == "simulated"
    assert result.cycles >= result.thread_cycles.max()
