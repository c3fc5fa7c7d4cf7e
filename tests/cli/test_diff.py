"""perfkit diff: two builds, traces or results from the command line."""

import json

import pytest

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
    """A chain of 2,000 additions of 3 cycles on Zen 4; four chains of 500."""
    told = perfkit("diff", *sources, *CALL, "-o", "change.md")
    assert "slow.c:sum" in told
    assert "the bottleneck was instruction_latency" in told
    report = (tmp_path / "change.md").read_text()
    assert "| slow.c:4 | fast.c:5 |" in report
    found = json.loads(perfkit("diff", *sources, *CALL, "--json"))
    assert 6000 <= found["a"]["cycles"] <= 7000  # and the lines come from memory
    assert found["speedup"] > 2
    assert found["kind"] == "simulated"
    assert sum(row["cycles_a"] for row in found["causes"]) == pytest.approx(found["a"]["cycles"])


def test_a_saved_result_and_a_trace_are_the_same_run(perfkit, sources, tmp_path):
    perfkit("trace", sources[0], "--flags=-O2", "-o", "a.trace", "--", "f8[100]", 100)
    perfkit("gus", "a.trace", "--core", "zen4", "-o", "a.gus")
    told = perfkit("diff", "a.trace", "a.gus", "--core", "zen4", "-o", "same.parquet")
    assert "1.00 times as fast, with 1.00 times the instructions" in told
    assert "by cause: no change" in told
    assert GusDiff.load(tmp_path / "same.parquet").speedup == 1.0


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
