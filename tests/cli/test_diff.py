"""perfkit diff: two builds, traces or results from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.kernels import compile_kernel
from perfkit.simulators.gus.diff import GusDiff

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
    assert "--arguments is for" in perfkit("diff", "fig1a", "fig1b", "--arguments", "3", status=2)


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
        (["/bin/true", "slow.c"], "a program or library, not a trace of one: record it first, perfkit trace /bin/true"),
        (["not there.trace", "slow.c"], "there is no file 'not there.trace'"),
    ],
)
def test_what_cannot_be_compared_is_said(perfkit, sources, tmp_path, words, said):
    sources[0].rename(tmp_path / "slow.c")
    assert said in perfkit("diff", *words, "--core", "zen4", status=2)
