"""perfkit diff: two builds, traces or results from the command line."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.cli.diff import _judge
from perfkit.cli.diff_function import named
from perfkit.cli.diff_measured import took
from perfkit.cli.diff_side import DiffSide
from perfkit.collectors.kernels import compile_kernel
from perfkit.diagnosis.calls import alike
from perfkit.errors import DataError, PerfkitWarning
from perfkit.simulators.gus.diff import UNLIKE_CALLS, GusDiff
from tests.results.examples import EXAMPLES

SLOW = """double sum(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i];
    return s;
}
"""
FAST = """/* four sums instead of one */
double sum(const double *x, long n) {
    double s = 0, t = 0, u = 0, v = 0;
    for (long i = 0; i < n; i += 4) {
        s += x[i];
        t += x[i + 1];
        u += x[i + 2];
        v += x[i + 3];
    }
    return s + t + u + v;
}
"""
CALL = ("-f", "sum", "--arguments", "f8[2000], 2000", "--core", "zen4", "--flags=-O2 -fno-tree-vectorize -g")


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "slow.c").write_text(SLOW)
    (folder / "fast.c").write_text(FAST)
    return folder / "slow.c", folder / "fast.c"


def test_two_sources(perfkit, sources, tmp_path):
    """A chain of 2,000 additions of 3 cycles on Zen 4; four chains of 500. Two folders: lines are found from both."""
    told = perfkit("diff", *sources, *CALL, "-o", "change.md")
    assert "slow.c:sum" in told
    assert "the bottleneck stays: instruction_latency" in told
    report = (tmp_path / "change.md").read_text()
    assert "| slow.c:4 | fast.c:5 |" in report
    found = json.loads(perfkit("diff", *sources, *CALL, "--json"))
    assert found["a"]["cycles"] == pytest.approx(6000, rel=0.02)
    assert "caches and predictor warm" in told
    cold = json.loads(perfkit("diff", *sources, *CALL, "--cold", "--json"))
    assert cold["a"]["warm"] == "none"
    assert 6000 <= cold["a"]["cycles"] <= 7000  # the lines come from memory
    assert found["speedup"] > 2
    assert found["kind"] == "simulated"
    assert sum(row["cycles_a"] for row in found["causes"]) == pytest.approx(found["a"]["cycles"])


def test_a_saved_result_and_a_trace_are_the_same_run(perfkit, sources, tmp_path):
    perfkit("trace", sources[0], "--flags=-O2", "-o", "a.trace", "--", "f8[100]", 100)
    perfkit("gus", "a.trace", "--core", "zen4", "-o", "a.gus")
    told = perfkit("diff", "a.trace", "a.gus", "--core", "zen4", "-o", "same.parquet")
    assert "1.00 times as fast, with 1.00 times the instructions" in told
    assert "what would help): no change" in told
    assert GusDiff.load(tmp_path / "same.parquet").speedup == 1.0


@pytest.mark.parametrize(("where", "name"), [(".", "slow.c"), ("below", "../slow.c"), ("..", "{}/slow.c")])
def test_lines_are_found_from_any_folder(sources, monkeypatch, where, name):
    """Work goes on in the source's folder, below it, and above it."""
    folder = sources[0].parent
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / where)
    trace = compile_kernel(Path(name.format(folder.name)), "sum", flags="-O2").trace(np.zeros(8), 8)
    assert "s += x[i];" in trace.places()["source_line"]


def test_what_would_be_ignored_is_refused(perfkit, sources):
    slow, _ = sources
    assert "--flags-b is for" in perfkit("diff", slow, "fig1a", "--flags-b", "-O0", status=2)
    assert "--flags is for" in perfkit("diff", "fig1a", "fig1b", "--flags", "-O0", status=2)
    assert "--function is for" in perfkit("diff", "fig1a", "fig1b", "-f", "sum", status=2)
    assert "arguments (3) are for what runs here" in perfkit("diff", "fig1a", "fig1b", "--arguments", "3", status=2)


def test_a_core_that_is_asked_for_is_that_of_saved_results_too(perfkit, tmp_path):
    perfkit("gus", "fig1a", "--core", "zen4", "-o", "a.gus")
    assert "simulated on zen4" in perfkit("diff", "a.gus", "a.gus")
    assert "simulated on skylake_x" in perfkit("diff", "a.gus", "a.gus", "--core", "skylake_x")


def test_a_limit_on_the_cycles_is_an_exit_status(perfkit, sources):
    slow, fast = sources
    perfkit("diff", slow, fast, *CALL, "--at-most", "0")
    told = perfkit("diff", fast, slow, *CALL, "--at-most", "2", status=1)
    assert "2 % is allowed" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["slow.c"], "the two sides are the same"),
        (["program.so", "slow.c"], "say which function of program.so"),
        (["slow.c", "slow.c", "--skip", "1", "-f", "nothing"], "nothing"),
        (["dump.csv", "slow.c"], "dump.csv is a dump of counters and slow.c is a C or C++ file"),
        (
            ["note.txt", "slow.c"],
            "note.txt is no program, library, C or C++ file, trace or saved result, and as a dump",
        ),
        (["dump.csv", "dump.csv", "-f", "sum"], "--function is for programs"),
        (["dump.csv", "dump.csv", "--", "3"], "arguments (3) are for what runs here"),
        (["not there.trace", "slow.c"], "there is no file 'not there.trace'"),
    ],
)
def test_what_cannot_be_compared_is_said(perfkit, sources, tmp_path, words, said):
    sources[0].rename(tmp_path / "slow.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "slow.c", "-o", "program.so"], cwd=tmp_path, check=True)
    (tmp_path / "dump.csv").write_text(DUMP.format(cycles=2000))
    (tmp_path / "note.txt").write_text("no counts in here\n")
    assert said in perfkit("diff", *words, status=2)


DUMP = "cycles,instructions,branch-misses\n{cycles},1000,20\n"
PROGRAM = """#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) double sum(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i];
    return s;
}
int main(int c, char **v) {
    long n = c > 1 ? atol(v[1]) : fgetc(stdin) - '0';
    double *x = calloc(n + 1, 8), t = 0;
    for (long r = 0; r < 200000; r++) t += sum(x, n);
    printf("%g\\n", t);
}
"""


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "app.c").write_text(PROGRAM)
    for name, flags in {"old": ["-O1"], "new": ["-O3", "-ffast-math", "-mavx2"]}.items():
        subprocess.run(["gcc", "-g", *flags, "app.c", "-o", name], cwd=tmp_path, check=True)
        subprocess.run(["gcc", "-g", "-shared", "-fPIC", *flags, "app.c", "-o", f"{name}.so"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        (["./old", "./new", "-f", "sum"], ["2000"]),
        (["old:sum", "new:sum"], ["2000"]),
        (["old.so:sum", "new.so:sum"], ["f8[2000]", "2000"]),
        (["old.so", "new.so", "-f", "sum", "--arguments", "f8[2000], 2000"], []),
    ],
)
def test_programs_and_libraries_are_recorded_here(perfkit, programs, sides, words):
    """2,000 additions of 3 cycles in a chain; in vectors of four a quarter of them."""
    found = json.loads(perfkit("diff", *sides, "--core", "zen4", "--json", *(["--", *words] if words else [])))
    assert found["a"]["cycles"] == pytest.approx(6000, rel=0.02)
    assert found["b"]["cycles"] == pytest.approx(1500, rel=0.05)
    assert found["lines"][0]["place_a"] == "app.c:6"


def test_a_call_further_on_and_one_function_beside_another(perfkit, programs):
    """The program beside itself is no faster; its input may come from a pipe's file."""
    told = perfkit("diff", "old:sum", "./old", "--function-b", "sum", "--skip", "3", "--core", "zen4", "--", "50")
    assert "1.00 times as fast" in told
    whole = json.loads(perfkit("diff", "old:sum", "old:sum", "--repeat", "2", "--core", "zen4", "--json", "--", "50"))
    one = json.loads(perfkit("diff", "old:sum", "old:sum", "--core", "zen4", "--json", "--", "50"))
    assert whole["a"]["instructions"] == 2 * one["a"]["instructions"]


def test_without_a_function_the_hottest_is_taken_and_said(programs, monkeypatch):
    monkeypatch.chdir(programs)
    side = DiffSide("./old", "", "", ("3000",), 0, 1, 10**6, "zen4", True)
    with pytest.warns(PerfkitWarning, match="no function was named; sum is compared"):
        assert named(side, "", no_word).function == "sum"
    with pytest.warns(PerfkitWarning, match="sum is compared, as of the other side"):
        assert named(side, "sum", no_word).function == "sum"
    assert named(replace(side, function="main"), "sum", no_word).function == "main"


def no_word(_: str) -> None:
    """Say nothing of what is being done."""


SHAPES = """
#include <cstdio>
#include <cstdlib>
struct Shape { double a; virtual double area() const = 0; };
struct Circle : Shape { double area() const override { return 3.14 * a * a; } };
struct Square : Shape { double area() const override { return a * a; } };
__attribute__((noinline)) double total(Shape *const *v, int n) {
  double s = 0;
  for (int i = 0; i < n; i++)
    s += v[i]->area();
  return s;
}
int main() {
  static Shape *v[3000];
  for (int i = 0; i < 3000; i++) {
    if (MIXED ? rand() / 7 % 2 : i < 1500) v[i] = new Circle; else v[i] = new Square;
    v[i]->a = i;
  }
  double s = 0;
  for (int r = 0; r < 20000; r++) s += total(v, 3000);
  std::printf("%g\\n", s);
}
"""


def test_of_two_programs_one_function_is_compared_and_not_the_hottest_of_each(tmp_path, perfkit):
    """What is called at random has the samples of one, what calls it those of the other: the caller of both counts."""
    (tmp_path / "shapes.cpp").write_text(SHAPES)
    for name, mixed in {"mixed": 1, "sorted": 0}.items():
        subprocess.run(["g++", "-O2", "-g", f"-DMIXED={mixed}", "shapes.cpp", "-o", name], cwd=tmp_path, check=True)
    found = json.loads(perfkit("diff", "./mixed", "./sorted", "--core", "zen4", "--json"))
    assert [found[side]["name"].partition(":")[2] for side in "ab"] == ["total(Shape* const*, int)"] * 2
    assert found["a"]["instructions"] == pytest.approx(found["b"]["instructions"], rel=0.02)
    assert found["a"]["bottleneck"] == "misprediction_penalty"
    assert found["speedup"] > 1.2  # 1.30 simulated, 1.67 measured on a Zen 4


def test_two_programs_that_share_no_function_are_refused(programs, tmp_path, perfkit):
    """`main` is in both, with some 2 % of their time, and some samples: it is not what they spend their time on."""
    busy = "for (volatile long r = 0; r < n * 4000; r++);\n    for (long r = 0; r < 200000"
    for name, function in {"old": "sum(", "other": "add("}.items():
        text = PROGRAM.replace("sum(", function).replace("for (long r = 0; r < 200000", busy)
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-g", "-O1", f"{name}.c", "-o", name], cwd=tmp_path, check=True)
    told = perfkit("diff", "./old", "./other", "--", "3000", status=2)
    assert "share none of those that took their time: name what is compared, -f sum --function-b add" in told


@pytest.mark.measures
def test_what_runs_here_is_measured_too(perfkit, sources):
    """One chain of 2,000 additions and four of 500: a quarter of the time on any core, and simulated as much."""
    (slow, fast), call = sources, ("-f", "sum", "--arguments", "f8[2000], 2000", CALL[-1])
    found = json.loads(perfkit("diff", slow, fast, *call, "--json"))
    assert found["speedup"] == pytest.approx(4, rel=0.1)
    assert found["measured_speedup"] == pytest.approx(4, rel=0.15)
    assert found["a"]["measured_cycles"] == pytest.approx(found["a"]["cycles"], rel=0.15)
    assert not found["is_far"]
    without = json.loads(perfkit("diff", slow, fast, *call, "--no-measure", "--json"))
    assert without["measured_speedup"] is None
    assert "empty caches (--cold) are not measured" in perfkit("diff", slow, fast, *call, "--cold")


@pytest.mark.measures
def test_a_simulated_change_that_is_not_borne_out_is_told_first(programs, tmp_path, perfkit):
    """The first calls, which are recorded, are alike; the other 199,999 take ten times as long in one of them."""
    text = PROGRAM.replace("t += sum(x, n)", "t += sum(x, r && MORE ? n : n / 10)")
    (tmp_path / "late.c").write_text(text)
    for more in (0, 1):
        command = ["gcc", "-g", "-O1", f"-DMORE={more}", "late.c", "-o", f"late{more}"]
        subprocess.run(command, cwd=tmp_path, check=True)
    told = perfkit("diff", "late0", "late1", "-f", "sum", "-o", "late.parquet", "--html", "late.html", "--", "3000")
    assert told.startswith("Careful: B: what was simulated (call 1 of ")
    assert "Do not rely on this: measured it is 0.1" in told
    assert "or the recorded calls are not like the others" in told
    found = GusDiff.load(tmp_path / "late.parquet")
    assert found.speedup == pytest.approx(1, rel=0.05)
    assert found.measured_speedup == pytest.approx(0.1, rel=0.3)
    assert found.is_far
    assert "as fast (measured on this machine)" in (tmp_path / "late.html").read_text()
    (tmp_path / "once.c").write_text(PROGRAM.replace("r < 200000", "r < 1"))
    subprocess.run(["gcc", "-g", "-O1", "once.c", "-o", "once"], cwd=tmp_path, check=True)
    assert "within the programs, the only call" in perfkit("diff", "once", "late0", "-f", "sum", "--", "3000")
    judged = ("diff", "late0", "late1", "-f", "sum", "--at-most", "2")
    assert "--at-most cannot be judged: B is measured +" in perfkit(*judged, "--", "3000", status=2)
    perfkit(*judged, "--no-measure", "--", "3000")


KINDS = """
#include <stdio.h>
__attribute__((noipa)) double blend(const double *x, long n, int often) {
  double s = 0;
  for (long i = 0; i < n; i++) s += x[i];
  if (often)
    for (long i = 0; i < n; i++) s = s OPERATION (1.5 + x[i]);
  return s;
}
static double x[2000];
int main(void) {
  double s = 0;
  for (int k = 0; k < 3000; k++) s += blend(x, 2000, k % 4 == 3);
  printf("%g\\n", s);
}
"""


@pytest.mark.measures
def test_a_change_in_every_fourth_call_is_measured_and_refused(tmp_path, perfkit):
    """The first call and the middle one run the same in both; a quarter divides where it multiplied."""
    for name, operation in {"times": "*", "over": "/"}.items():
        text = KINDS.replace("OPERATION", operation)
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-g", "-O1", f"{name}.c", "-o", name], cwd=tmp_path, check=True)
    found = json.loads(perfkit("diff", "times", "over", "-f", "blend", "--json"))
    assert found["speedup"] == pytest.approx(1, rel=0.01)
    assert found["measured_speedup"] < 0.8
    assert found["measured_between"][1] < 0.8
    assert any("B: what was simulated (call 1 of 3,000) is not like the others" in each for each in found["doubts"])
    refused = perfkit("diff", "times", "over", "-f", "blend", "--at-most", "2", status=2)
    assert "--at-most cannot be judged: B is measured +" in refused


def test_all_calls_count_without_what_interrupted_them():
    """One in ten takes 5 times as long in every run, and one of each run was interrupted; the third run is slower."""
    runs = np.full((4, 100), 1000.0)
    runs[:, ::10] = 5000.0
    for k in range(4):
        runs[k, 7 + k] += 4e6
    runs[2] *= 1.1
    found = took(runs)
    assert (found.cycles, found.low) == (1400, 1400)
    assert found.high == pytest.approx(1400)
    assert took(runs[1:3]).high == pytest.approx(1540, rel=0.01)
    assert found.each.mean() == 1400


def test_which_calls_stand_for_the_others():
    cold = np.array([9000.0, *[2000.0] * 99])
    assert alike(cold, 0, 1, 1900.0) == 1, "a first call meets empty caches"
    assert alike(cold, 0, 1, 900.0) == 1, "the model's error makes no other code"
    kinds = np.array([9000.0, *[2000.0, 2000.0, 8000.0] * 33])
    assert alike(kinds, 0, 1, 1900.0) < 0.7
    assert alike(np.arange(1.0, 200.0) * 100, 0, 1, 300.0) < 0.1, "each call does more than the one before"
    assert alike(cold, 0, 1, 8000.0) < 0.8, "its code takes so long in filled caches, too"
    assert alike(kinds, 3, 3, 1900.0) == 1


def test_noise_is_no_result_and_a_measured_slowdown_is_refused():
    found = replace(EXAMPLES[GusDiff](), measured=(1000.0, 1100.0), how_measured="calls", measured_between=(0.8, 1.05))
    assert not found.is_told_apart
    assert (
        "0.91 times as fast, NOT told apart: the runs of each differ by as much (0.80 to 1.05 times)" in found.summary()
    )
    same = replace(found, cycles=(1000.0, 1000.0), notes=())
    _judge(same, 2)
    sure = replace(same, measured_between=(0.85, 0.93))
    assert sure.is_told_apart
    with pytest.raises(
        DataError, match=r"B is measured \+10% cycles, and surely more than the \+2 % allowed \(\+8% at"
    ):
        _judge(sure, 2)
    _judge(sure, 8)
    unlike = replace(same, doubts=(f"A: what was simulated (call 1 of 9) {UNLIKE_CALLS}: more",))
    assert unlike.summary().startswith("Careful: A: what was simulated (call 1 of 9) is not like the others: more. ")
    with pytest.raises(DataError, match="cannot be judged: A: what was simulated"):
        _judge(unlike, 2)


def test_programs_that_can_start_threads_say_first_that_these_are_not_beside_each_other(tmp_path, perfkit):
    (tmp_path / "many.c").write_text(
        PROGRAM.replace("int main", "#include <pthread.h>\nvoid *no(void *p) { return p; }\nint main").replace(
            "for (long r", "pthread_t other; if (n < 0) pthread_create(&other, 0, no, 0); for (long r"
        )
    )
    for level in ("-O1", "-O2"):
        subprocess.run(["gcc", "-g", level, "many.c", "-o", f"many{level}", "-pthread"], cwd=tmp_path, check=True)
    told = perfkit("diff", "./many-O1", "./many-O2", "-f", "sum", "--no-measure", "--", "3000")
    assert told.startswith("Careful: there may be several threads (pthread_create), which are not simulated together")


def test_a_page_and_the_aligned_listings(perfkit, programs):
    """Every instruction that ran stands on its own side of its line, with its cycles; the page needs nothing else."""
    perfkit("diff", "old:sum", "new:sum", "--core", "zen4", "--html", "d.html", "-o", "d.parquet", "--", "2000")
    found = GusDiff.load(programs / "d.parquet")
    rows = found.aligned()
    chain = rows[rows["place_a"] == "app.c:6"]
    assert [text.split()[0] for text in chain["instruction_a"] if text] == ["addsd"]
    assert chain["executions_a"].tolist()[0] == 2000
    assert rows["cycles_a"].sum() == pytest.approx(found.cycles[0], abs=0.5 * len(found.listing))
    page = (programs / "d.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert "addsd xmm0" in page
    assert "Lines that gained and lost" in page


def test_two_dumps_of_counters(perfkit, tmp_path):
    """Two and three cycles per instruction, the same misses: by hand."""
    for name, cycles in {"a.csv": 2000, "b.csv": 3000}.items():
        (tmp_path / name).write_text(DUMP.format(cycles=cycles))
    told = perfkit("diff", "a.csv", "b.csv", "--html", "d.html", "-o", "d.md")
    assert "CPI: a.csv 2, b.csv 3: +50.0% cycles per instruction" in told
    assert "simulated" not in told
    found = json.loads(perfkit("diff", "a.csv", "b.csv", "--json"))
    assert found["kind"] == "measured"
    assert [(row["event"], row["rate_a"], row["ratio"]) for row in found["rates"]] == [("branch-misses", 20.0, 1.0)]
    assert found["stack"] == []
    assert "no CPI stacks to compare" in told
    assert "| branch-misses | 20 | 20 | 1 |" in (tmp_path / "d.md").read_text()
    assert "CPI of A" in (tmp_path / "d.html").read_text()
    assert "--core is for simulated runs" in perfkit("diff", "a.csv", "b.csv", "--core", "zen4", status=2)


def test_dumps_whose_time_and_work_have_names_of_their_own(perfkit, sources, tmp_path):
    for name, cycles in {"a.csv": 2000, "b.csv": 3000}.items():
        text = DUMP.format(cycles=cycles).replace("cycles", "zyk").replace("instructions", "bfl")
        (tmp_path / name).write_text(text)
    refused = perfkit("diff", "a.csv", "b.csv", status=2)
    assert "--time-event EVENT" in refused
    assert "time_event=" not in refused
    told = perfkit("diff", "a.csv", "b.csv", "--time-event", "zyk", "--work-event", "bfl")
    assert "a.csv 2, b.csv 3: +50.0% zyk per bfl" in told
    assert "--work-event is for dumps" in perfkit("diff", *sources, *CALL, "--work-event", "bfl", status=2)


def test_a_generated_dump_beside_a_measured_one_says_so(perfkit, tmp_path):
    rows = pd.DataFrame({"event": ["cycles", "instructions"], "count": [3000, 1000]})
    pk.Samples.from_counts(rows, kind="generated").to_parquet(tmp_path / "b.parquet")
    (tmp_path / "a.csv").write_text(DUMP.format(cycles=2000))
    told = perfkit("diff", "a.csv", "b.parquet")
    assert "b.parquet 3 [generated data]" in told
    assert "careful: A holds measured counts and B generated ones" in told
    assert "careful: counted in A only: branch-misses" in told
    assert "careful" not in perfkit("diff", "a.csv", "a.csv")


def test_other_numbers_of_calls_are_compared_per_call(perfkit, programs):
    """A fast build with eight times the calls of the slow one was told to be the slower one."""
    for name, repeat in (("old", 2), ("new", 16)):
        words = ("-f", "sum", "--repeat", repeat, "--skip", "1", "-o", f"{name}.trace", "--", "2000")
        perfkit("trace", f"./{name}", *words)
    perfkit("gus", "new.trace", "--core", "zen4", "--warm", "-o", "new.gus")
    for b in ("new.trace", "new.gus"):
        sides = ("old.trace", b, "--core", "zen4")
        found = json.loads(perfkit("diff", *sides, "--json", "-o", "d.md", "--html", "d.html"))
        assert found["speedup"] == pytest.approx(4.0, rel=0.1)
        assert found["unit"] == "cycles per call"
        assert (found["a"]["calls"], found["b"]["calls"]) == (2, 16)
        assert found["a"]["cycles"] == pytest.approx(6000, rel=0.02)
        assert sum(row["cycles_b"] for row in found["causes"]) == pytest.approx(found["b"]["cycles"])
        assert found["lines"][0]["instructions_a"] < 2100 * 3
    told = perfkit("diff", *sides)
    assert "cycles per call, old.trace:sum" in told
    held = "the recording of A holds 2 calls and that of B 16 calls, of which the first 2 of each are compared"
    assert f"careful: all figures are per call: {held}" in told
    assert "A [cycles per call]" in (programs / "d.md").read_text()
    assert "cycles per call of A" in (programs / "d.html").read_text()


def test_where_what_one_call_takes_is_not_known_nothing_is_compared(perfkit, programs):
    for name, repeat, limit in (("a", 2, 10**6), ("b", 9, 20_000)):
        words = ("-f", "sum", "--repeat", repeat, "--limit", limit, "-o", f"{name}.trace", "--", "2000")
        perfkit("trace", "./old", *words)
    told = perfkit("diff", "a.trace", "b.trace", "--core", "zen4", status=2)
    assert "a.trace:sum holds 2 calls and b.trace:sum holds 3 calls" in told
    assert "b.trace:sum was cut (limit of 20000 instructions)" in told
    perfkit("trace", "./old", "-f", "sum", "--limit", 3000, "-o", "cut.trace", "--", "2000")
    perfkit("trace", "./old", "-f", "sum", "-o", "whole.trace", "--", "2000")
    sides = ("cut.trace", "whole.trace", "--core", "zen4")
    assert "times as fast as far as they were recorded" in perfkit("diff", *sides)
    assert "--at-most cannot be judged: a recording was cut" in perfkit("diff", *sides, "--at-most", "2", status=2)


def test_calls_that_were_never_made_are_said(perfkit, programs):
    words = ("-f", "main", "--repeat", "4", "--core", "zen4", "--limit", "20000000", "--", "5")
    told = perfkit("diff", "./old", "./new", *words)
    assert "careful: 4 calls of A were asked for, and only 1 made" in told


def test_two_files_of_one_name_are_told_apart(perfkit, programs):
    for name in ("v1", "v2"):
        (programs / name).mkdir()
    (programs / "old").rename(programs / "v1" / "s")
    (programs / "new").rename(programs / "v2" / "s")
    told = perfkit("diff", "v1/s", "v2/s", "-f", "sum", "--core", "zen4", "--", "50")
    assert "v2/s:sum takes" in told
    assert "v1/s:sum" in told


def test_a_file_that_is_missing_is_said_before_anything_runs(perfkit, programs):
    (programs / "old").write_bytes((programs / "old").read_bytes())
    told = perfkit("diff", "./old", "nonexist", "-f", "sum", "--", "50", status=2)
    assert "there is no file 'nonexist'" in told
    assert "recording" not in told


POWERS = """
#include <math.h>
#include <stdio.h>
__attribute__((noipa)) double step(double x) {
  double s = 0;
  for (int i = 1; i < 50; i++) s += %s;
  return s;
}
int main(void) { double s = 0; for (int k = 0; k < 100; k++) s += step(k + 1.5); printf("%%g\\n", s); }
"""


def test_a_recording_that_lacks_what_it_called_is_told_everywhere_and_not_judged(tmp_path, perfkit):
    """`pow` has most of the time of the one, and its trace without callees has none of that."""
    for name, term in {"slow": "pow(x, i + 0.5)", "quick": "x / (i * x + 1)"}.items():
        (tmp_path / f"{name}.c").write_text(POWERS % term)
        subprocess.run(["gcc", "-g", "-O1", f"{name}.c", "-o", name, "-lm"], cwd=tmp_path, check=True)
        perfkit("trace", f"./{name}", "-f", "step", "-o", f"{name}.trace")
        perfkit("trace", f"./{name}", "-f", "step", "--callees", "-o", f"{name}-whole.trace")
    told = perfkit("diff", "quick.trace", "slow.trace", "--core", "zen4", "-o", "d.md", "--html", "d.html")
    for text in (told, (tmp_path / "d.md").read_text(), (tmp_path / "d.html").read_text()):
        assert "lacks functions that it called (pow: 49)" in text
    refused = perfkit("diff", "quick.trace", "slow.trace", "--core", "zen4", "--at-most", "2", status=2)
    assert "--at-most cannot be judged" in refused
    whole = json.loads(perfkit("diff", "quick-whole.trace", "slow-whole.trace", "--core", "zen4", "--json"))
    assert whole["speedup"] < 0.7
    assert not any("lack" in note for note in whole["notes"])
    both = perfkit("diff", "slow.trace", "slow.trace", "--core", "zen4", "--at-most", "2")
    assert "both lack functions that they called (pow: 49)" in both
