"""What changed between two simulations: sums are exact, lines are found again, doubts are said."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import perfkit as pk
from perfkit.collectors.kernels import compile_kernel
from perfkit.collectors.open_traces import kernel_arguments
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import SettingError
from perfkit.simulators.gus.diff import Line, Side, _aligned, _lines, diff_sides, place_of


@pytest.fixture(scope="module")
def results():
    return [pk.Gus("zen4").run(pk.datasets.load(f"traces/correlation-{v}-small")) for v in ("v0", "v6")]


def test_every_cycle_has_its_cause_and_its_line(results):
    found = pk.diff(*results)
    for side, result in zip("ab", results, strict=True):
        assert found.causes[f"cycles_{side}"].sum() == pytest.approx(result.cycles)
        assert found.table[f"cycles_{side}"].sum() == pytest.approx(result.cycles, abs=0.5 * len(result.trace.code.pc))
    assert found.speedup == pytest.approx(results[0].cycles / results[1].cycles)


def test_the_bottlenecks_are_those_of_the_sensitivities(results):
    found = pk.diff(*results)
    assert found.bottlenecks == tuple(r.sensitivity((2.0,)).bottleneck for r in results)
    before, now = found.bottlenecks
    said = f"the bottleneck stays: {now}" if now == before else f"was {before} and is now {now}"
    assert said in found.summary()


def test_a_run_beside_itself_has_not_changed(results):
    found = pk.diff(results[0], results[0])
    assert (found.to_frame()["change"] == 0).all()
    assert "the bottleneck stays" in found.summary()
    assert not found.notes


def test_lines_are_found_again_below_new_ones_and_when_they_changed():
    before = [Line("k.c:3", "for (i = 0; i < n; i++)", 10.0, 30, "m"), Line("k.c:4", "s += x[i];", 90.0, 20, "m")]
    after = [
        Line("k.c:3", "prefetch(y);", 5.0, 1, "m"),
        Line("k.c:4", "for (i = 0; i < n; i++)", 12.0, 30, "other operations"),
        Line("k.c:5", "s += x[i] * y;", 95.0, 40, "m"),
    ]
    found = sorted((*row[:2], *row[3:]) for row in _aligned(before, after))
    assert found == [
        ("", "k.c:3", 0.0, 5.0, 0, 1, "text"),
        ("k.c:3", "k.c:4", 10.0, 12.0, 30, 30, "operations"),
        ("k.c:4", "k.c:5", 90.0, 95.0, 20, 40, "text"),
    ]


def test_a_line_that_holds_all_of_the_older_one_is_that_line():
    """`s += x[i];` in a block with a new statement: +2 cycles there, and no 90 that are gone and 92 that came."""
    before = [Line("k.c:3", "for (;;)", 10.0, 30, "m"), Line("k.c:4", "  s += x[i];", 90.0, 20, "m")]
    after = [
        Line("k.c:3", "for (;;)", 10.0, 30, "m"),
        Line("k.c:4", "{ s += x[i]; if (i % 50 == 0) s /= 1.01; count += 1; }", 92.0, 24, "m"),
    ]
    found = {(*row[:2], *row[3:5]) for row in _aligned(before, after)}
    assert ("k.c:4", "k.c:4", 90.0, 92.0) in found


@pytest.mark.parametrize(
    ("name", "found"), [("k.c", [("k.c:3", "k.c:3", "same")]), ("k.py", [("k.py:3", "k.py:3", "text")])]
)
def test_a_comment_at_the_end_of_a_line_is_no_change(name, found):
    """In Python // divides, and what follows it counts."""
    before = [Line(f"{name}:3", "s += x // y", 90.0, 20, "m")]
    after = [Line(f"{name}:3", "s += x // z and more", 80.0, 20, "m")]
    assert [(row[0], row[1], row[7]) for row in _aligned(before, after)] == found


def test_what_looks_like_a_comment_within_quotes_is_a_change():
    before = [Line("k.c:3", 'puts("http://one");', 9.0, 2, "m")]
    after = [Line("k.c:3", 'puts("http://two"); // said', 9.0, 2, "m")]
    assert [row[7] for row in _aligned(before, after)] == ["text"]


def test_what_makes_two_runs_hard_to_compare_is_said(results):
    trace = results[0].trace
    cut = pk.Gus("zen5").run(trace.head(1000))
    warm = pk.Gus("zen4", warm=True).run(trace)
    assert "A ran on zen4 and B on zen5" in pk.diff(results[0], cut).notes
    assert any("cut after 995 instructions" in note for note in pk.diff(results[0], cut).notes)
    assert "careful: what was warm before the run differs: none for A, all for B" in pk.diff(results[0], warm).summary()


def test_a_trace_is_no_result(results):
    with pytest.raises(SettingError, match="found a Trace"):
        pk.diff(results[0], results[0].trace)


def test_jumps_in_the_listing_go_to_addresses_of_the_listing():
    """A jump's target was the address at which the program happened to lie while it was traced."""
    runs = [pk.Gus("zen4").run(pk.datasets.load(f"traces/correlation-{v}-small").head(4000)) for v in ("v1", "v2")]
    shown = pk.diff(*runs, names=("v1", "v2")).aligned()
    for side in "ab":
        jumps = shown[shown[f"instruction_{side}"].str.match(r"j\w+ ")]
        targets = jumps[f"instruction_{side}"].str.extract(r"(0x[0-9a-f]+)$")[0]
        assert len(jumps)
        assert targets.isin(shown[f"address_{side}"]).any(), "a loop's branch goes back to an instruction of it"


SUM = """double sum(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i];
    return s;
}
"""
PLANTED = SUM.replace("s += x[i];", "{ s += x[i];\n if ((i & 31) == 0)\n s += 1.0; }")


def test_what_a_new_line_takes_is_told_by_a_run_without_it(tmp_path):
    """32 additions of 3 cycles in a chain; both ways round, per call too, and the loader keeps it."""
    runs = []
    for name, text, repeat in (("a", SUM, 1), ("b", PLANTED, 1), ("twice", PLANTED, 2)):
        (tmp_path / f"{name}.c").write_text(text)
        kernel = compile_kernel(tmp_path / f"{name}.c", flags="-O2 -march=x86-64-v3")
        trace = Tracer(repeat=repeat).run_kernel(kernel, *kernel_arguments("f8[1000], 1000"))
        runs.append(pk.Gus("zen4", warm=True).run(trace))
    for found in (pk.diff(*runs[:2]), pk.diff(runs[0], runs[2]), pk.diff(runs[1], runs[0])):
        line = found.changed_line()
        assert "s += 1.0;" in line["text"]
        cycles = found.added.set_index("place")["cycles"]
        # 96, and what becomes of mispredicted branches: of one of two calls in a row they are others.
        assert cycles[line["place_a"] or line["place_b"]] == pytest.approx(96, rel=0.2)
        assert cycles.min() < cycles.max() / 5  # the comparison, whose branch is mispredicted once at most
        assert "instruction_latency" in found.told_change()
        assert found.explains(line)
        # Where no line by itself makes the change (the code lies elsewhere now), one that was written is named.
        little = replace(found, added=found.added.assign(cycles=1.0))
        assert little.changed_line()["code"] == "text"
        assert not little.explains(little.changed_line())
    found.save(tmp_path / "d.parquet")
    assert pk.GusDiff.load(tmp_path / "d.parquet").summary() == found.summary()


REACHED = """
double f(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < 1000; i++) {
        s += x[i];
        if (i < n) s = s / 3;
    }
    return s;
}
double g(const double *x, long n) {
    double s = 1;
    for (long i = 0; i < 1000; i++)
        s += x[i] * x[i] + n;
    return s;
}
"""


def test_one_source_built_otherwise_has_no_line_that_is_gone(tmp_path):
    (tmp_path / "a.c").write_text(PLANTED)
    runs = []
    for flags in ("-O0", "-O3 -march=x86-64-v3 -ffast-math"):
        kernel = compile_kernel(tmp_path / "a.c", flags=flags)
        runs.append(pk.Gus("zen4").run(kernel.trace(*kernel_arguments("f8[1000], 1000"))))
    told = pk.diff(*runs).summary()
    assert "gone" not in told
    assert "the code that is compiled otherwise: a.c:" in told


def test_one_program_with_another_input_is_not_said_to_be_compiled_otherwise(tmp_path):
    """Lines that only one input reaches have code in both; those of two functions of one file were written twice."""
    (tmp_path / "a.c").write_text(REACHED)
    runs = {}
    for function, n in (("f", 0), ("f", 900), ("g", 0)):
        kernel = compile_kernel(tmp_path / "a.c", function, flags="-O1")
        runs[function, n] = pk.Gus("zen4").run(kernel.trace(*kernel_arguments(f"f8[1000], {n}")))
    for other in (("f", 900), ("g", 0)):
        found = pk.diff(runs["f", 0], runs[other])
        assert "the code that is compiled otherwise" not in found.summary()
    assert set(pk.diff(runs["f", 0], runs["f", 900]).to_frame()["code"]) == {"same"}
    only_a = {code: place_of(SimpleNamespace(place_a="a.c:6", place_b="", code=code)) for code in ("same", "text")}
    assert only_a == {"same": "a.c:6 (not executed in B)", "text": "a.c:6 (gone)"}


def _codes(found):
    """Return what became of each line that both sides have, by its text."""
    return {row.text.strip(): row.code for row in found.table.itertuples() if row.place_a and row.place_b}


def test_a_line_that_is_executed_more_often_is_not_said_to_be_compiled_otherwise(tmp_path):
    """The loop's header was written anew, its body was not; other flags make something else of the body, too."""
    runs = []
    for count, flags in ((1000, "-O1"), (2000, "-O1"), (1000, "-O3 -march=x86-64-v3 -ffast-math")):
        (tmp_path / "a.c").write_text(REACHED.replace("i < 1000", f"i < {count}"))
        kernel = compile_kernel(tmp_path / "a.c", "g", flags=flags)
        runs.append(pk.Gus("zen4").run(kernel.trace(*kernel_arguments("f8[2000], 0"))))
    body = [_codes(pk.diff(runs[0], other)) for other in runs[1:]]
    line = "s += x[i] * x[i] + n;"
    assert [codes[line] for codes in body] == ["same", "operations"]
    # A line of a baseline that says how often its instructions were executed is not judged.
    a, b = (Side.of(run) for run in runs[::2])
    older = replace(a, lines=tuple(each._replace(mix=each.mix.removeprefix("=")) for each in a.lines))
    found = diff_sides(older, b)
    assert _codes(found)[line] == "unknown"
    assert not any(word in found.summary() for word in ("compiled otherwise", "the same code"))


def test_one_program_is_as_fast_as_itself_however_many_calls_were_recorded(tmp_path):
    """Short calls in a row overlap: per call, twenty of them take a third of what one alone takes."""
    (tmp_path / "a.c").write_text(SUM)
    kernel = compile_kernel(tmp_path / "a.c", flags="-O2 -march=x86-64-v3")
    runs = [
        pk.Gus("zen4", warm=True).run(Tracer(repeat=n).run_kernel(kernel, *kernel_arguments("f8[40], 40")))
        for n in (1, 20)
    ]
    assert runs[1].cycles / 20 < 0.7 * runs[0].cycles
    found = pk.diff(*runs)
    assert found.speedup == pytest.approx(1.0, rel=0.02)
    assert found.calls == (1, 20)
    assert found.instructions[0] == found.instructions[1]


def test_of_so_many_calls_a_line_takes_the_share_of_one(results):
    everything, of_seven = ({line.place: line for line in _lines(results[0], calls)[0]} for calls in (0, 7))
    for place, one in of_seven.items():
        whole = everything[place]
        assert (7 * one.cycles, 7 * one.instructions) == pytest.approx((whole.cycles, whole.instructions))
