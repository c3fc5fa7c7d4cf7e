"""Recording every thread of a region: OpenMP and pthreads, known answers, and programs that make it hard."""

import subprocess
import textwrap

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, PerfkitWarning, SettingError
from perfkit.trace.sharing import SERIAL

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


def test_what_only_one_thread_can_have_is_refused(compiled):
    program = workers(compiled, PLAIN)
    with pytest.raises(SettingError, match="markers"):
        Tracer(begin="a", end="b").run_threads(program, "work")
    with pytest.raises(SettingError, match="pinned"):
        Tracer(pinned="x86-64-v3").run_threads(program, "work")
    with pytest.raises(SettingError, match="QEMU records one thread"):
        Tracer(backend="qemu").run_threads(program, "work")


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
