"""The parts of an answer, each on its own: choosing calls, pages, trace events, magics, names, files apart."""

import ast
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import perfkit as pk
from perfkit.cli.magics import CellError
from perfkit.cli.pages.diagnosis import _without_blanks, save_notebook, save_page
from perfkit.collectors import Tracer
from perfkit.collectors.profile.callgrind import _costs
from perfkit.collectors.profile.hot import SYSTEM, HotFunction, Profile, _check_worked, check_program, profile
from perfkit.collectors.profile.sampled import Sampled, Target
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.timed import CallTimes, time_calls
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.calls import Calls, choose_calls, from_address, middle, share_of, undisturbed, windows_of
from perfkit.diagnosis.diagnosis import Measured, Together
from perfkit.diagnosis.named import named
from perfkit.diagnosis.opinions import opinions
from perfkit.diagnosis.why import _Inquiry, _nearest
from perfkit.diagnosis.window import hot_timeline, hot_window
from perfkit.diagnosis.words import held_back, remedy
from perfkit.errors import DataError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.groups import group
from perfkit.simulators.gus.trace_events import trace_events
from perfkit.trace.standing import places
from perfkit.trace.trace import Trace
from tests.diagnosis.programs import CHAIN, compiled, needed
from tests.results.examples import EXAMPLES
from tests.simulators.assembled import loop


def test_whole_calls_within_the_limit_as_like_the_mean_as_can_be():
    cycles = np.array([9000.0, *[1000.0] * 50, *[3000.0] * 50])
    found = choose_calls(cycles, limit=30_000, most=1e9)
    assert found.count * 1000 <= 10_000  # three instructions a cycle are allowed for
    assert found.skip >= 1  # the first call meets cold caches
    here = cycles[found.skip : found.skip + found.count]
    assert abs(here.mean() - cycles.mean()) <= abs(np.array([1000.0, 3000.0]) - cycles.mean()).min() + 100
    assert found.share == pytest.approx(here.sum() / cycles.sum())


def test_of_calls_of_two_kinds_those_with_most_time_are_taken_and_the_others_are_told():
    """Some take six times as long as the others: no call is near the mean, and these have more of the time."""
    cycles = np.full(400, 1000.0)
    cycles[310:] = 6000.0
    found = choose_calls(cycles, limit=18_000, most=1e9)
    assert cycles[found.skip : found.skip + found.count].tolist() == [6000.0] * found.count
    assert found.alike == pytest.approx(54 / 85)
    assert not found.is_like_the_mean
    usual = choose_calls(np.full(400, 1000.0), limit=18_000, most=1e9)
    assert usual.is_like_the_mean
    assert usual.alike == 1
    trace = pk.datasets.load("traces/correlation-v5-small").head(100)
    result = pk.Gus("zen4").run(trace)

    def doubts(cycles, calls):
        timed = CallTimes(cycles.astype(np.int64), len(cycles), 0, (1.0,), 0.0, False, "", 1.0)
        return list(inquiry()._doubts(None, result, None, [timed], calls, None))

    assert any(each.startswith("its calls are of several kinds: those recorded") for each in doubts(cycles, found))
    assert not any("several kinds" in each for each in doubts(np.full(400, 1000.0), usual))


def test_calls_that_others_interrupted_are_no_other_kind():
    """Half of the time was other programs': one call in ten holds it, and all are of one kind."""
    cycles = np.full(300, 1e6)
    cycles[::10] += 10e6
    own = undisturbed(cycles, 0.5)
    assert own.sum() == pytest.approx(0.5 * cycles.sum())
    assert own.min() == own.max() == pytest.approx(1e6)
    assert choose_calls(own, limit=3_000_000, most=1e9).is_like_the_mean
    assert undisturbed(cycles, 0.0) is cycles
    assert undisturbed(np.array([5.0]), 0.5).tolist() == [5.0]


def test_an_interrupted_call_does_not_shrink_the_recording():
    cycles = np.full(100_000, 300.0)
    cycles[[5, 70]] = 3e7  # another program had the processor: no more instructions than the others
    assert choose_calls(cycles, limit=3_000_000, most=1e9).count > 1000


def test_a_single_call_is_taken_whole_or_not():
    assert choose_calls(np.array([1e9]), limit=1000, most=1e9).count == 1


def test_later_parts_of_a_trace_begin_where_an_address_runs():
    trace = pk.datasets.load("traces/correlation-v5-small").head(20_000)
    late = int(trace.code.pc[trace.code.block_start[trace.stream[len(trace.stream) // 2]]])
    part = from_address(trace, late, 500)
    assert int(part.code.pc[part.code.block_start[part.stream[0]]]) == late
    assert 0 < part.instruction_count <= 500
    skipped = int(np.flatnonzero(trace.code.block_start[trace.stream] == part.code.block_start[part.stream[0]])[0])
    slots = np.diff(trace.code.operand_start[trace.code.block_start])
    before = int(slots[trace.stream[:skipped]].sum())
    assert np.array_equal(part.addresses, trace.addresses[before : before + len(part.addresses)])
    assert from_address(trace, 1, 500) is None


def test_a_trace_is_cut_into_parts_of_one_size_of_whole_blocks():
    trace = pk.datasets.load("traces/correlation-v5-small").head(20_000)
    parts = [trace.part(*each, "cut") for each in windows_of(trace, 3_000)]
    assert [each.instruction_count > 2_900 for each in parts] == [True] * 6
    whole = trace.part(0, windows_of(trace, 3_000)[-1][1], "cut")
    assert np.array_equal(np.concatenate([each.addresses for each in parts]), whole.addresses)
    assert [each.provenance.complete for each in parts] == [False] * 6
    assert windows_of(trace, 10**6) == [(0, len(trace.stream))]


def test_what_ran_before_a_part_is_in_the_caches():
    """Half of a walk over new data: with the other half before it its cycles are those that it has in the whole."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(100_000)
    before, part = (trace.part(*each, "cut") for each in windows_of(trace, trace.instruction_count // 2 + 1))
    gus = pk.Gus("zen4")
    within = gus.run(trace).cycles - gus.run(before).cycles
    assert gus.cycles_after(before, part) == pytest.approx(within, rel=0.01)
    assert abs(gus.run(part).cycles / within - 1) > 0.05, "cold it takes another time, or this shows nothing"


@pytest.mark.parametrize("core", ["zen4", "golden_cove", "cortex_a72"])
def test_every_resource_of_a_core_has_words(core):
    for name in pk.Microarchitecture.load(core).resources:
        assert held_back(name)
        assert remedy(name)
        assert "{" not in held_back(name)
        assert "\\" not in held_back(name)


def test_a_page_holds_the_answer_and_fetches_nothing(tmp_path):
    found = EXAMPLES[pk.Diagnosis]()
    text = save_page(found, tmp_path / "why.html").read_text()
    assert found.function in text
    assert f"{found.result.cycles:,.0f}" in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("data:image/png") == 4  # sensitivity, timeline, account, roofs


def test_a_page_has_no_column_that_says_nothing(tmp_path):
    """Of a binary without its source the page had an empty column, by the name that the code has for it."""
    found = EXAMPLES[pk.Diagnosis]()
    text = save_page(found, tmp_path / "why.html").read_text()
    assert not found.lines["source_line"].any()
    assert "source_line" not in text
    assert "<th>source</th>" not in text
    there = pd.DataFrame({"place": ["a.c:1", "a.c:2"], "source": ["", "x = 1;"], "blank": ["", ""], "none": [0, 0]})
    assert list(_without_blanks(there)) == ["place", "source", "none"]


def test_the_timeline_shows_the_bottlenecks_line_at_work():
    found = EXAMPLES[pk.Diagnosis]()
    window = hot_window(found, 600)
    rows = found.result.timeline(window.first, window.length).schedule.set_index("n")
    chosen = int(rows.loc[window.chosen, "instruction"])
    assert places(found.result.trace)[chosen] == found.line["place"]
    before = found.result.schedule(0, window.chosen).table["instruction"]
    assert (before == chosen).sum() >= 3  # not the first turn of the loop, which meets empty buffers
    assert window.first + window.length <= found.result.instructions


def test_a_notebook_opens_the_answer_beside_it(tmp_path, monkeypatch):
    found = EXAMPLES[pk.Diagnosis]()
    book = json.loads(save_notebook(found, tmp_path / "why it is.ipynb").read_text())
    cells = {cell["cell_type"] for cell in book["cells"]}
    assert cells == {"markdown", "code"}
    name = json.loads(book["cells"][1]["source"].partition("=")[2].partition("#")[0])
    assert pk.Diagnosis.load(tmp_path / name).headline() == found.headline()
    monkeypatch.chdir(tmp_path)
    shown: dict = {}
    views = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            *before, last = ast.parse(cell["source"]).body
            exec(compile(ast.Module(before, []), "cell", "exec"), shown)
            if isinstance(last, ast.Expr):
                views.append(eval(compile(ast.Expression(last.value), "cell", "eval"), shown))
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), shown)
    assert [type(each).__name__ for each in views] == ["NoneType", "ListingView", "SensitivityView", "TimelineView"]


def test_trace_events_are_the_timeline(tmp_path):
    timeline = EXAMPLES[pk.Diagnosis]().result.timeline(0, 300)
    found = json.loads(pk.save_trace_events(timeline, tmp_path / "events.json").read_text())
    uses = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert len(uses) == len(timeline.uses) + len(timeline.schedule)
    assert all(event["dur"] >= 0 for event in uses)
    assert found["otherData"]["kind"] == "simulated"
    lanes = {}
    for event in sorted(uses, key=lambda e: e["ts"]):  # in one row nothing overlaps
        row = event["pid"], event["tid"]
        assert event["ts"] >= lanes.get(row, 0.0) - 1e-9
        lanes[row] = event["ts"] + event["dur"]


def test_uses_of_a_unit_that_overlap_stand_in_rows_of_their_own():
    timeline = EXAMPLES[pk.Diagnosis]().result.timeline(0, 300)
    doubled = pd.concat([timeline.uses, timeline.uses.assign(start=timeline.uses["start"] + 0.25)])
    found = trace_events(dataclasses.replace(timeline, uses=doubled))["traceEvents"]
    uses = [event for event in found if event["ph"] == "X"]
    assert len(uses) == len(doubled) + len(timeline.schedule)
    lanes = {}
    for event in sorted(uses, key=lambda e: e["ts"]):
        row = event["pid"], event["tid"]
        assert event["ts"] >= lanes.get(row, 0.0) - 1e-9
        lanes[row] = event["ts"] + event["dur"]
    assert any(event["ph"] == "M" and event["args"].get("name") == "late 1" for event in found)


def test_a_timeline_that_is_written_says_which_part_of_the_run_it_is(tmp_path):
    answer = EXAMPLES[pk.Diagnosis]()
    part = hot_timeline(answer, 100)
    path = pk.save_trace_events(part, tmp_path / "events.json", answer.result)
    first, last = part.schedule["n"].iloc[[0, -1]]
    begin, end = part.schedule["dispatch"].min(), part.schedule["retire"].max()
    told = json.loads(path.read_text())["otherData"]["window"]
    assert told.startswith(
        f"instructions {first:,} to {last:,} of {answer.result.instructions:,}, cycles {begin:,.0f} "
    )
    assert told.endswith(f"of {answer.result.cycles:,.0f}: {(end - begin) / answer.result.cycles:.1%} of them")
    there = set(answer.result.trace.object_addresses().tolist())
    jumps = [text for text in part.schedule["text"] if text.startswith("j")]
    assert jumps
    assert all(int(text.split()[-1].rstrip("h"), 16) in there for text in jumps), "as the listing has them"


class Shell:
    def __init__(self):
        self.magics = {}

    def register_magic_function(self, function, kind, name):
        self.magics[name] = (kind, function)


def test_the_extension_adds_three_cell_magics():
    shell = Shell()
    pk.load_ipython_extension(shell)
    assert {name: kind for name, (kind, _) in shell.magics.items()} == dict.fromkeys(("why", "gus", "compare"), "cell")
    with pytest.raises(CellError, match="%%gus: expected options with a value each"):
        shell.magics["gus"][1]("--nonsense 3", "void f(void) {}")
    with pytest.raises(CellError, match="%%compare: it takes two versions"):
        shell.magics["compare"][1]("", "void f(void) {}")


@needed
def test_a_cell_is_simulated():
    shell = Shell()
    pk.load_ipython_extension(shell)
    found = shell.magics["gus"][1]('--core zen4 --arguments "f8[64], 64"', SUM)
    assert found.settings.core.name == "zen4"
    assert found.trace.provenance.function == "f"


@needed
def test_arguments_that_a_cell_does_not_give_are_made_and_said(capsys):
    shell = Shell()
    pk.load_ipython_extension(shell)
    found = shell.magics["gus"][1]("--core zen4", SUM)
    assert found.trace.access_count == 1001  # of x, and of the stack by ret
    for magic, text in (("gus", SUM), ("why", SUM), ("compare", f"{SUM}\n// ---\n{SUM}")):
        capsys.readouterr()
        for _ in range(2):  # each time, not as Python's warnings
            shell.magics[magic][1]("--core=zen4", text)
        told = capsys.readouterr().out
        assert len(re.findall(r"those made for it here: f8\[1048576\], 1000 .*--arguments", told)) == 2
        assert ("empty caches" in told) == (magic == "gus")


@needed
@pytest.mark.parametrize("magic", ["why", "gus", "compare"])
def test_a_cell_that_reads_behind_its_array_says_so(magic, capsys):
    shell = Shell()
    pk.load_ipython_extension(shell)
    text = f"{SUM}\n// ---\n{SUM}" if magic == "compare" else SUM
    found = shell.magics[magic][1]('--arguments "f8[10], 1000"', text)
    behind = "f accesses memory 7,920 bytes behind the end of argument 1"
    assert behind in (found.headline() if magic == "why" else capsys.readouterr().out)


@needed
def test_a_mistake_in_a_cell_is_one_line_and_no_way_through_the_package():
    shell = InteractiveShell()
    pk.load_ipython_extension(shell)
    for line, text, said in (
        ("--core zen9", SUM, "no core named 'zen9'"),
        ("", SUM.replace("s += a[i]", "s += b"), "the cell:1:"),
        ("", SUM + SUM.replace("double f", "double g"), "name the function: the source has 2"),
        ('--arguments "f8[10', SUM, "No closing quotation"),
        ('--arguments "f8[10]"', SUM, "takes 2 arguments"),
    ):
        with capture_output() as shown:
            done = shell.run_cell(f"%%why {line}\n{text}\n")
        assert isinstance(done.error_in_exec, CellError)
        told = shown.stdout + shown.stderr
        assert said in told
        assert "Traceback" not in told
        assert ".py" not in told


SUM = "double f(const double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }"


@needed
def test_a_function_that_was_inlined_is_said_by_its_name():
    source = """
namespace app { double sum(const double *x, int n) { double s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; } }
int main(int c, char **) { volatile double x[3] = {1, 2, 3}; return x[c] > 9; }
"""
    program = compiled("inlined", source, compiler="g++", suffix=".cpp")
    with pytest.raises(DataError, match=r"inlined never called app::sum.*; .* put its code into its caller"):
        time_calls(program, "_ZN3app3sumEPKdi", [], seconds=10)


@needed
def test_calls_are_counted_one_by_one():
    found = time_calls(compiled("chain", CHAIN), "solve", ["37"], seconds=10)
    assert (found.calls, len(found.ticks), found.others, found.ended) == (37, 37, 0, "")
    assert (found.ticks > 0).all()


ONE_CALL = """
#include <stdio.h>
__attribute__((noipa)) long chain(long x) {
    for (int k = 0; k < 1000; k++) x = x * x;
    return x;
}
int main(void) { printf("%ld\\n", chain(3)); }
"""


@needed
def test_the_first_call_holds_no_work_of_the_kernel_for_the_clock_itself():
    """3,000 to 4,000 cycles; the page that its time is written to must be there before."""
    program = compiled("one_call", ONE_CALL)
    least = min(float(time_calls(program, "chain", []).cycles[0]) for _ in range(5))
    assert 2500 < least < 15_000, least


IN_A_THREAD = """
#include <pthread.h>
__attribute__((noipa)) long work(long x) { for (int k = 0; k < 50; k++) x = x * x; return x; }
static void *loop(void *n) { long s = 0; for (long k = 0; k < (long)n; k++) s += work(k); return (void *)s; }
int main(int c, char **v) {
    pthread_t one, two;
    pthread_create(&one, 0, loop, (void *)300);
    if (c > 1) pthread_create(&two, 0, loop, (void *)300);
    pthread_join(one, 0);
    if (c > 1) pthread_join(two, 0);
    return 0;
}
"""


@needed
@pytest.mark.parametrize(("words", "others"), [([], 0), (["two"], 300)])
def test_the_calls_of_the_first_thread_that_comes_are_timed(words, others):
    """It need not be the program's first; those of another beside it are counted."""
    found = time_calls(compiled("in_a_thread", IN_A_THREAD, "-pthread"), "work", words, seconds=10)
    assert (len(found.ticks), found.others) == (300, others)
    assert np.median(found.cycles) > 100


@needed
def test_the_program_itself_is_not_changed_by_timing():
    """Its arguments, its result and its status are those of an ordinary run."""
    path = compiled("chain", CHAIN)
    before = path.read_bytes()
    time_calls(path, "other", ["5"], seconds=10)
    assert path.read_bytes() == before


@needed
@pytest.mark.skipif(shutil.which("objcopy") is None, reason="needs binutils' objcopy and strip")
def test_a_stripped_program_finds_its_debug_file_and_no_other(tmp_path):
    path = tmp_path / "apart"
    shutil.copy(compiled("chain", CHAIN), path)
    whole = set(ElfFile(path).functions)
    for words in (
        ["objcopy", "--only-keep-debug", path, tmp_path / "apart.debug"],
        ["strip", path],
        ["objcopy", f"--add-gnu-debuglink={tmp_path / 'apart.debug'}", path],
    ):
        subprocess.run(words, check=True)
    assert ElfFile(path).functions["solve"] == ElfFile(compiled("chain", CHAIN)).functions["solve"]
    assert whole <= set(ElfFile(path).functions)
    (tmp_path / "apart.debug").write_bytes(b"another build")
    assert "solve" not in ElfFile(path).functions


@needed
@pytest.mark.skipif(shutil.which("strip") is None, reason="needs binutils' strip")
def test_a_function_of_a_stripped_program_is_not_said_to_be_inlined(tmp_path):
    path = tmp_path / "bare"
    shutil.copy(compiled("chain", CHAIN), path)
    with pytest.raises(DataError, match="the compiler inlined it into its caller") as whole:
        named("nowhere_at_all", Target(path), None)
    assert "stripped" not in str(whole.value)
    subprocess.run(["strip", path], check=True)
    with pytest.raises(
        DataError, match="bare was stripped, and has no names of such functions: build it without -s"
    ) as bare:
        named("solve", Target(path), None)
    assert "inlined" not in str(bare.value)
    # Of a script's interpreter nobody means a function.
    with pytest.raises(DataError, match="the compiler inlined it into its caller"):
        named("solve", Target(path, script=tmp_path / "a.py"), None)


@needed
def test_clones_are_found_by_their_parents_name(tmp_path):
    source = '__attribute__((noipa)) void f_part_0(void) __asm__("f.constprop.0");\nvoid f_part_0(void) {}\n'
    path = compiled("clones", source + "int main(void) { f_part_0(); return 0; }\n")
    found, why = named("f", Target(path), None)
    assert (found.symbol, why) == ("f.constprop.0", "as asked; it was not seen running")
    with pytest.raises(DataError, match="no function 'g'"):
        named("g", Target(path), None)


def test_what_cannot_be_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no program"):
        check_program(Target(tmp_path / "missing"))
    dump, empty, plain = tmp_path / "app.txt", tmp_path / "empty", tmp_path / "plain"
    dump.write_text("1.0,500,,cycles,100,100.00,,\n")
    with pytest.raises(DataError, match=r"^app.txt is no program .*perfkit explore"):
        check_program(Target(dump))
    empty.touch()
    with pytest.raises(DataError, match=r"^empty is empty, no program"):
        check_program(Target(empty))
    plain.write_bytes(b"\x7fELF")
    with pytest.raises(DataError, match="plain is not executable"):
        check_program(Target(plain))
    plain.chmod(0o755)
    check_program(Target(plain))


@needed
def test_a_script_is_refused_with_the_programs_that_it_names(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n'{shutil.which('true')}' && ./missing\n")
    script.chmod(0o755)
    with pytest.raises(DataError, match=r"run.sh is not an ELF program; trace the program it starts: /\S*true"):
        check_program(Target(script))


@needed
def test_a_run_that_fails_at_once_is_not_explained():
    path = compiled("usage", '#include <stdio.h>\nint main(void) { puts("usage: a number"); return 3; }\n')
    with pytest.raises(DataError, match=r"usage exited with status 3 after .* before doing work.*usage: a number"):
        profile(Target(path), 2)


@needed
def test_a_misspelt_name_is_answered_with_the_programs_own_functions_first():
    path = compiled("chain", CHAIN)
    link = path.with_name("linked chain")
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    maps = Path("/proc/self/maps").read_text().split()
    libc = next((word for word in maps if "/libc" in word and word.startswith(SYSTEM)), None)
    if libc is None:
        pytest.skip("no libc of the system is loaded here")
    ran = (HotFunction("memcpy", "memcpy", libc, 9, 0.9, 1, 1), HotFunction("solve", "solve", str(path), 1, 0.1, 1, 1))
    found = dataclasses.replace(
        EXAMPLES[Profile](), table=pd.DataFrame(ran).rename(columns={"name": "function", "path": "file"})
    )
    wanted = rf"no function 'slove' in chain, {Path(libc).name}; nearest: solve[;.].*What ran most: solve, memcpy\. "
    with pytest.raises(DataError, match=wanted):
        named("slove", Target(link), found)


def test_one_odd_call_does_not_move_the_middle():
    assert middle(np.array([9e9, 100.0, 110.0, 90.0])) == pytest.approx(105.0)
    assert middle(np.array([7.0])) == 7.0
    assert middle(np.array([1e9, *[100.0] * 40, 0.0])) == 100.0


def inquiry(limit=1000):
    return _Inquiry(Target("/nowhere"), "", "zen4", 1.0, limit, lambda _: None, Ahead("zen4", print))


def from_the_middle(trace, monkeypatch):
    """Return an inquiry, and the part that it takes of a call whose recording from the middle on is this trace."""
    asked = inquiry()
    asked.unseen = []
    monkeypatch.setattr(asked, "_tracer", lambda *_: trace)
    monkeypatch.setattr("perfkit.diagnosis.why.few", lambda _: False)
    monkeypatch.setattr("perfkit.diagnosis.why._half_done", lambda *_: 0.1)
    monkeypatch.setattr("perfkit.diagnosis.why._seen", lambda *_: 1.0)
    return asked, asked._steady(object(), object())


@pytest.mark.parametrize(("length", "taken"), [(40, False), (900, True)])
def test_a_part_that_ends_at_once_is_an_inner_call_of_a_recursion(monkeypatch, length, taken):
    """It explains 113 instructions of 180 million cycles, and nothing says that these are not alike."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(length)
    _, found = from_the_middle(trace, monkeypatch)
    assert (found is not None) == taken


def test_a_call_that_ends_soon_behind_its_middle_may_be_recorded_whole(monkeypatch):
    trace = pk.datasets.load("traces/correlation-v5-small").head(400)
    asked, _ = from_the_middle(trace, monkeypatch)
    assert asked._from_the_middle(object(), object()) is not None
    assert asked._from_the_middle(object(), object(), 0.5) is None


def test_a_part_that_begins_with_the_recording_is_recorded_and_told_once(monkeypatch):
    """Nothing was simulated before it, which was taken for a part that was yet to be looked for."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(900)
    asked, part = from_the_middle(trace, monkeypatch)
    assert asked.before is None
    core = pk.Microarchitecture.load("zen4")
    assert asked._where_the_time_goes(object(), object(), part, core) is part
    assert len(asked.unseen) == 1


def test_a_middle_that_is_not_taken_leaves_nothing_behind(monkeypatch):
    asked, whole = inquiry(), pk.datasets.load("traces/correlation-v5-small").head(4000)
    asked.longer = dataclasses.replace(
        whole, provenance=dataclasses.replace(whole.provenance, complete=True, stopped="")
    )
    monkeypatch.setattr("perfkit.diagnosis.why.share_of", lambda *_: None)
    assert asked._steady(None, object()) is None
    assert asked.before is None
    assert not asked.placed


def test_the_end_of_a_call_is_not_compared_with_the_whole_of_it(monkeypatch):
    """A recording from the middle of a call ends with it, and has room: seven times too slow, said the comparison."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(900)
    trace = dataclasses.replace(trace, provenance=dataclasses.replace(trace.provenance, complete=True, stopped=""))
    asked, found = from_the_middle(trace, monkeypatch)
    assert found.instruction_count == trace.instruction_count
    timed = [CallTimes(np.full(9, 1e6), 9, 0, (1.0,), 0.0, False, "", 1.0)]
    measured, why_not = asked._measured(timed, Calls(0, 1), found, "", pk.Microarchitecture.load("zen4"))
    assert (measured, why_not[:23]) == (None, "only a part of one call")


def test_the_beginning_of_a_call_does_not_find_its_own_data_in_the_caches():
    """A stream of 64 MB, of which the first 3 MB are recorded: 5 times too quick, and the wrong level of the caches."""
    whole = loop("mov rax, [rdi]", 1_000_000, lambda k, _: (1 << 24) + 64 * k)
    whole = dataclasses.replace(
        whole, provenance=dataclasses.replace(whole.provenance, complete=False, stopped="limit")
    )
    core, asked = pk.Microarchitecture.load("zen4"), inquiry()
    asked.longer, part = whole, whole.head(2 * 3000)
    cold, warm = (pk.Gus(core, warm=each).run(part) for each in ("none", "caches"))
    assert warm.cycles < cold.cycles / 2
    assert asked._after_what_ran(core, Calls(0, 1), part) == 0
    expected = asked._after_what_ran(core, Calls(2, 1), part)
    assert expected == pytest.approx(cold.cycles, rel=0.1)
    assert _nearest((cold, warm), Calls(2, 1), None, expected)[0] is cold


def test_empty_caches_are_not_taken_because_they_come_nearer_by_chance():
    """20 % below the measured time with the data of the calls before, 11 % above with empty caches: nothing missed."""
    trace = shuffled_lines(4000)
    cold, warm = (pk.Gus("zen4", warm=each).run(trace) for each in ("none", "caches"))
    assert cold.cycles > 2 * warm.cycles

    def taken(cycles, skip):
        return _nearest((cold, warm), Calls(skip, 1), Measured(cycles, cycles, 2, 1, cycles), 0.0)[0] is warm

    assert [taken(factor * warm.cycles, 3) for factor in (0.9, 1.2, 1.3)] == [True] * 3
    near = (cold.cycles * warm.cycles) ** 0.5
    assert [taken(1.3 * near, 3), taken(cold.cycles, 3), taken(cold.cycles, 0), taken(warm.cycles, 0)] == [
        False, False, False, True,
    ]  # fmt: skip
    others = Measured(cold.cycles, cold.cycles, 2, 1, cold.cycles, waited=0.76)
    assert _nearest((cold, warm), Calls(3, 1), others)[0] is warm, "mostly other programs' time says nothing"
    long = Measured(4.2 * warm.cycles, 9 * warm.cycles, 2, 1, waited=0.76, taken_off=True)
    assert _nearest((cold, warm), Calls(3, 1), long)[0] is cold, "but they do not make anything four times as slow"


def test_the_caches_are_not_decided_by_other_programs_share_of_the_run():
    """Beside others with half of a processor one answer was of empty caches (49 % of the time), the next of full."""
    trace = shuffled_lines(4000)
    cold, warm = (pk.Gus("zen4", warm=each).run(trace) for each in ("none", "caches"))

    def taken(skip, **further):
        measured = Measured(cold.cycles, cold.cycles, further.pop("runs", 2), 1, cold.cycles, **further)
        return _nearest((cold, warm), Calls(skip, 1), measured)

    told = [taken(3, waited=each) for each in (0.45, 0.49, 0.51, 0.55)]
    assert [each[0] is warm for each in told] == [True] * 4
    for each, share in zip(told, ("45%", "49%", "51%", "55%"), strict=True):
        assert each[2].startswith("calls came before; the measured time does not decide it")
        assert share in each[2]
    assert taken(0, waited=0.5)[0] is cold
    assert taken(3, waited=0.05)[0] is cold, "a twentieth cannot have made the difference"
    assert taken(3, waited=0.5, runs=4)[::2] == (cold, "nearer to the measured time"), "four runs took the same"
    assert taken(3, waited=0.5, alike=0.95)[0] is cold, "the calls ran between two interruptions"


def test_the_least_of_several_runs_holds_no_time_of_other_programs_where_calls_are_short():
    """Interrupted calls are others in each run: it was "uncertain", with a least run that none had disturbed."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(100)
    trace = dataclasses.replace(trace, provenance=dataclasses.replace(trace.provenance, complete=True))

    def measured(runs, ticks=50_000):
        clock = {"ticks_per_second": 1e9, "waited": 0.5, "shared": 0.5}
        timed = []
        for k in range(runs):
            each = np.full(4, ticks)
            each[2 + k % 2] += 4 * ticks * (k > 0)  # one call of each run but the first, by turns
            timed.append(CallTimes(each, 4, 0, (1.0,), 0.0, False, "", 1.0, **clock))
        return inquiry()._measured(timed, Calls(2, 2), trace, "", pk.Microarchitecture.load("zen4"))[0]

    found = measured(4)
    assert (found.cycles, found.alike) == (100_000.0, 1.0)
    assert found.was_alone
    assert not measured(3).was_alone, "too few runs"
    assert not measured(4, ticks=5_000_000).was_alone, "of calls of 5 ms each run has others' time"
    answer = dataclasses.replace(EXAMPLES[pk.Diagnosis](), measured=found)
    cycles = answer.result.cycles
    quiet = dataclasses.replace(found, cycles=2 * cycles, typical=3 * cycles, high=9 * cycles)
    assert not dataclasses.replace(answer, measured=quiet).uncertain
    assert dataclasses.replace(answer, measured=dataclasses.replace(quiet, alike=0.0)).uncertain


def shuffled_lines(count):
    """A loop that loads so many lines of memory in a random order."""
    order = np.random.default_rng(1).permutation(count)
    return loop("mov rax, [rdi]", count, lambda k, _: (1 << 24) + 64 * int(order[k]))


def short(cycles, trace, **further):
    """Return what is measured of a recorded call that took so many cycles."""
    timed = [CallTimes(np.full(9, cycles), 9, 0, (1.0,), 0.0, False, "", 1.0, **further)]
    return inquiry()._measured(timed, Calls(1, 2), trace, "", pk.Microarchitecture.load("zen4"))


def test_calls_no_longer_than_what_timing_costs_are_not_measured():
    trace = pk.datasets.load("traces/correlation-v5-small").head(100)
    trace = dataclasses.replace(trace, provenance=dataclasses.replace(trace.provenance, complete=True))
    measured, why_not = short(60, trace)
    assert measured is None
    assert "too short to time" in why_not
    measured, why_not = short(300, trace)
    assert (measured.cycles, why_not) == (600.0, "")


def test_the_time_of_other_programs_is_taken_off_long_calls_alone():
    trace = pk.datasets.load("traces/correlation-v5-small").head(100)
    trace = dataclasses.replace(trace, provenance=dataclasses.replace(trace.provenance, complete=True))
    clock = {"ticks_per_second": 1e9, "waited": 0.75, "shared": 0.75}
    long, _ = short(20_000_000, trace, **clock)  # 20 ms
    assert (long.cycles, long.high, long.taken_off, long.waited) == (10_000_000.0, 10_000_000.0, True, 0.75)
    brief, _ = short(1_000_000, trace, **clock)
    assert (brief.cycles, brief.taken_off, brief.waited) == (2_000_000.0, False, 0.75)
    of_a_thread, _ = short(20_000_000, trace, **clock | {"shared": 0.0})
    assert (of_a_thread.cycles, of_a_thread.taken_off) == (40_000_000.0, False)


def test_the_caches_are_as_full_as_the_measured_time_says():
    trace = pk.datasets.load("traces/correlation-v5-small").head(5000)
    core = pk.Microarchitecture.load("zen4")
    states = [pk.Gus(core, warm=state).run(trace) for state in ("none", "caches")]
    cycles = {result.settings.warm: result.cycles for result in states}
    assert cycles["none"] > 1.3 * cycles["caches"]
    for state, took in cycles.items():
        asked = inquiry()
        asked.unseen = []
        found = asked._simulated(states, Calls(3, 1), Measured(took, took, 1, 1))
        assert found.settings.warm == state
        why = {"none": "nearer to the measured time", "caches": "calls came before, and it is near the measured time"}
        assert why[state] in asked.unseen[0]


def test_an_answer_far_from_the_measured_time_says_so_first():
    found = EXAMPLES[pk.Diagnosis]()
    cycles = 10 * found.result.cycles
    far = dataclasses.replace(found, measured=Measured(cycles, cycles, 1, 1))
    assert far.headline().startswith("The model is 90% below the measured time: do not rely on this. ")
    assert "what if (simulated; the model is 90% below" in " ".join(far.report().split())
    assert far.headline().endswith(found._cause())
    alone = dataclasses.replace(found, measured=None, not_measured="too long")
    assert alone.headline().startswith("Nothing was measured")
    few = dataclasses.replace(found, candidates=(dataclasses.replace(found.candidates[0], samples=2, share=1.0),))
    assert few.to_dict()["doubt"].startswith("hardly any samples")


def test_what_ifs_are_factors_in_values_as_on_the_screen():
    found = EXAMPLES[pk.Diagnosis]()
    for each, told in zip(found.what_ifs, found.to_dict()["what_ifs"], strict=True):
        assert told["factor"] == each.factor > 1
        assert f"{each.factor:.2f}x" in found.report()
    best = max(found.ranked.speedup[:, -1])
    assert found.what_ifs[0].factor == pytest.approx(1 + best)


def test_runs_that_disagree_make_the_verdict_uncertain():
    """The model is near the quickest run and far from the median, or the other way round: neither is said firmly."""
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles
    for quick, typical in ((cycles, 2 * cycles), (cycles / 2, cycles)):
        torn = dataclasses.replace(found, measured=Measured(quick, 3 * cycles, 5, 1, typical))
        assert torn.headline().startswith("Uncertain: the same calls took")
        assert "something else runs on this machine" in torn.doubt
        assert "do not rely on this" not in torn.report()
        assert "BEWARE" not in torn.report()
        assert opinions(torn, None)[-1].says.startswith("none firmly")
    agreed = dataclasses.replace(found, measured=Measured(cycles, 3 * cycles, 5, 1, 1.1 * cycles))
    assert not agreed.doubt
    assert not opinions(agreed, None)[-1].says.startswith("none firmly")


def test_a_program_that_waits_for_a_processor_makes_the_verdict_uncertain():
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles
    busy = dataclasses.replace(found, measured=Measured(4 * cycles, 4 * cycles, 2, 1, 4 * cycles, waited=0.75))
    assert busy.headline().startswith("Uncertain: other programs had the processors for 75% of the time")
    assert "BEWARE" not in busy.report()
    whole = Measured(4 * cycles, 4 * cycles, 2, 9, 4 * cycles, waited=0.75, alike=0.99)
    assert not dataclasses.replace(found, measured=whole).uncertain, "none of nine calls was interrupted"
    again = Measured(4 * cycles, 5 * cycles, 6, 1, 4.1 * cycles, waited=0.75)
    assert not dataclasses.replace(found, measured=again).uncertain, "six runs took the same"
    torn = dataclasses.replace(again, typical=4.5 * cycles)
    assert "other programs had the processors" in dataclasses.replace(found, measured=torn).uncertain
    alone = dataclasses.replace(found, measured=Measured(4 * cycles, 4 * cycles, 2, 1, 4 * cycles, waited=0.01))
    assert alone.headline().startswith("The model is 75% below the measured time: do not rely on this")
    far = dataclasses.replace(found, measured=Measured(9 * cycles, 9 * cycles, 2, 1, 9 * cycles, waited=0.5))
    assert far.headline().startswith("The model is 89% below"), "it would be -78 % on a quiet machine"
    near = dataclasses.replace(found, measured=Measured(cycles, cycles, 2, 1, cycles, waited=0.75))
    assert not near.doubt
    off = dataclasses.replace(busy, measured=dataclasses.replace(busy.measured, taken_off=True))
    assert off.headline().startswith(
        "Uncertain: other programs had the processors for 75% of the time. It is taken off"
    )
    assert "; 75% of the time, in which other programs had the processors, is taken" in " ".join(off.report().split())
    little = dataclasses.replace(off, measured=dataclasses.replace(off.measured, waited=0.2))
    assert little.headline().startswith("The model is 75% below"), "they do not take three quarters of the caches"


def test_calls_so_short_that_they_overlap_in_the_program_do_not_blame_the_model():
    """Eight million chains of 64 multiplications: 305 cycles each as they are timed, 107 in a row."""
    found = EXAMPLES[pk.Diagnosis]()
    cycles, rob = found.result.cycles, found.result.settings.core.resources["rob"].value
    calls = int(2 * found.result.instructions / rob) + 2
    short = dataclasses.replace(found, measured=Measured(4 * cycles, 4 * cycles, 2, calls, 4 * cycles, waited=0.75))
    assert short.overlap == pytest.approx(rob * calls / found.result.instructions / 4)
    assert short.headline().startswith(
        f"Uncertain: calls of {4 * cycles / calls:,.0f} cycles are so short that they may"
    )
    right = dataclasses.replace(found, measured=Measured(cycles, cycles, 2, calls, cycles))
    assert right.headline().startswith("Uncertain: calls of"), "also where the model is as slow: both are one by one"
    assert f"saves up to {short.overlap:.0%} of the measured cycles" in short.overlap_told
    one = dataclasses.replace(found, measured=Measured(4 * cycles, 4 * cycles, 2, 1, 4 * cycles))
    assert (one.overlap, one.overlap_told) == (0, "")
    assert one.headline().startswith("The model is 75% below")


def test_every_line_with_much_of_the_time_is_in_the_listing():
    """Of two lines of a chain the one that is further from the responsible line took half of the time, unseen."""
    source = """void count(const double *a, long n, double *w) {
    double s = 1;
    for (long i = 0; i < n; i++) {
        s = a[i] / s;






        s = s / 1.7;
    }
    *w = s;
}
"""
    kernel = pk.collectors.compile_kernel(source)
    found = pk.why_kernel(kernel, np.linspace(1, 2, 3000), 3000, np.zeros(2))
    heavy = found.lines[(found.lines["time"] >= 0.1) | (found.lines["causality"] >= 0.1)]
    listing = found.report().partition("what if")[0]
    assert len(heavy) >= 2
    assert abs(heavy["line"] - found.line["line"]).max() > 2
    for number in heavy["line"]:
        assert re.search(rf"% +{number}  ", listing), (number, listing)
    assert re.search(r"^ +\.\.\.$", listing, re.MULTILINE)


TWO_STEPS = """
__attribute__((noipa)) static int step(int x) { return 3 * x; }
int main(int c, char **v) { return step(c); }
"""


TOUCHES = """
#include <stdlib.h>
#include <stdio.h>
#include <sys/prctl.h>
__attribute__((noipa)) double fill(double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += x[i] = i;
    return s;
}
int main(int n, char **words) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  /* huge pages come by themselves on some systems */
    long k = atol(words[1]);
    printf("%g\\n", fill(malloc(8 * k), k));
}
"""


def test_a_call_that_is_so_short_that_calls_overlap_is_timed_alone():
    """100 multiplications, each of which waits for the one before: 3 to 5 cycles each; in a row calls take less."""
    source = "double f(const double *a, long n) { double s = 1; for (long i = 0; i < n; i++) s *= a[i]; return s; }"
    found = pk.why_kernel(pk.collectors.compile_kernel(source, flags="-O2"), np.ones(100), 100)
    assert any("each was timed after the last had ended" in each for each in found.unseen)
    if found.measured is None:
        assert "the core was never quiet" in found.not_measured
    else:
        assert 250 < found.measured.cycles < 900, found.measured


@pytest.mark.parametrize(("times", "told"), [(2.0, "uncertain: by its 150 samples"), (1.1, ""), (0.5, "do not rely")])
def test_a_run_that_its_samples_say_was_slow_may_have_been_disturbed(times, told):
    found = EXAMPLES[pk.Diagnosis]()
    cycles = times * found.result.cycles
    doubt = dataclasses.replace(found, measured=Measured(cycles, 1.2 * cycles, 0, 0, samples=150)).doubt
    assert (told in doubt) if told else doubt == ""


def test_of_two_sampled_runs_the_quicker_counts_where_the_first_was_far_slower(monkeypatch):
    asked = inquiry()
    asked.spent = {}
    runs = {"first": 3000.0, "second": 1100.0}
    monkeypatch.setattr(asked, "_by_samples", lambda run, *_: Measured(runs[run], runs[run], 0, 0, samples=150))
    monkeypatch.setattr(asked, "_profile", lambda: "second")
    trace = pk.datasets.load("traces/fig1a")
    assert asked._sampled_quietly("first", trace, 1000.0).cycles == 1100.0
    assert asked._sampled_quietly("first", trace, 2900.0).cycles == 3000.0


@pytest.mark.parametrize(("timed", "length", "may"), [(False, 60, False), (True, 60, True), (True, 5000, False)])
def test_short_calls_that_were_timed_are_explained_where_they_are_made(timed, length, may):
    """Without times nothing tells who made them."""
    trace = pk.datasets.load("traces/correlation-v5-small").head(length)
    runs = [CallTimes(np.full(9, 300.0), 9, 0, (1.0,), 0.0, False, "", 1.0)] if timed else []
    asked = inquiry()
    asked.crowded = False
    assert asked._may_overlap(runs, trace, Calls(1, 2), pk.Microarchitecture.load("zen4")) == may


def test_instructions_inlined_from_a_header_are_those_of_the_function_that_holds_them():
    """Callgrind names the header behind "fi="; the function stays the one of its own file."""
    program = compiled("two_steps", TWO_STEPS)
    functions = ElfFile(program).functions
    text = f"ob={program}\nfl=/src/two_steps.c\nfn=step\n5 11\nfi=/src/h.h\n1 500\nfe=/src/two_steps.c\n6 1\n"
    (place,) = _costs(text, {})
    assert _costs(text, {})[place] == 512
    assert place.address == functions["step"].address


def test_page_faults_are_counted_and_told_where_they_explain_the_measured_time():
    program = compiled("touches", TOUCHES)
    many, few = (time_calls(program, "fill", [str(512 * pages)]).faults for pages in (2000, 1))
    assert 1990 < many - few < 2100
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles
    told = [
        dataclasses.replace(found, measured=Measured(c, c, 2, 1, c, faults=k)).doubt
        for c, k in ((4 * cycles, cycles / 1000), (4 * cycles, 1), (cycles / 2, 1))
    ]
    assert ["page faults" in each for each in told] == [True, False, False]


WHERE_TOUCHED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#define PAGES 3000
static char memory[PAGES][4096] __attribute__((aligned(4096)));
__attribute__((noipa)) long sum(char (*m)[4096], int from, int to) {
    long s = 0;
    for (int i = from; i < to; i++) m[i][0] = 1, s += i;
    return s;
}
int main(int argc, char **argv) {
    int where = atoi(argv[1]);
    long s = 0;
    madvise(memory, sizeof memory, MADV_NOHUGEPAGE);  /* which come by themselves on some systems */
    if (where == 0)  /* before all calls */
        for (int i = 0; i < PAGES; i++) memory[i][0] = 1;
    for (int r = 0; r < 30; r++) {
        if (where == 2) s += sum(memory, 100 * r, 100 * r + 100);  /* each call its own part */
        else s += sum(memory, 0, PAGES);  /* else in the first one */
        if (where == 3) madvise(memory, sizeof memory, MADV_DONTNEED);  /* in each call again */
    }
    printf("%ld\n", s);
}
"""


@pytest.mark.parametrize(
    ("where", "first", "later"), [(0, 0, 0), (1, 3000, 0), (2, 100, 100), (3, 3000, 3000)], ids=str
)
def test_page_faults_fall_to_the_calls_that_touch_the_memory(where, first, later):
    """Those of a program's beginning were told of its sixtieth call: "touch the memory before", where it had been."""
    found = time_calls(compiled("where_touched", WHERE_TOUCHED), "sum", [str(where)])
    assert found.calls == 30
    assert found.faults_in(0, 1) == pytest.approx(first, abs=30)
    assert found.faults_in(8, 1) == pytest.approx(later, abs=30)
    assert found.faults_in(0, 30) == pytest.approx(first + 29 * later, abs=60)


def test_page_faults_of_a_single_call_are_those_behind_its_beginning():
    found = time_calls(compiled("touches", TOUCHES), "fill", [str(512 * 2000)])
    assert found.faults_in(0, found.calls) <= found.faults - found.faults_begun[0] + 1e-6
    assert found.faults_in(0, found.calls) > 1900


def test_a_remedy_that_takes_the_resource_out_of_the_way_has_a_figure_of_its_own():
    """Columns whose lines share a set: half of that wait, and none of it, are told beside each other."""
    found = EXAMPLES[pk.Diagnosis]()
    for each in found.what_ifs:
        assert each.most >= each.factor - 1e-9
        assert (f"{each.most:.2f}x {each.how}" in " ".join(found.report().split())) == (each.most > each.factor + 0.05)
    assert found.bottleneck == "memory_latency"
    assert found.what_ifs[0].how == "at the latency of L1"
    core = found.result.settings.core
    near = core.scaled("memory_latency", core.value("memory_latency") / core.value("L1_latency"))
    cycles = dataclasses.replace(found.result.settings, core=near).run(found.result.trace).cycles
    assert found.what_ifs[0].most == pytest.approx(found.result.cycles / cycles)
    kernel = pk.collectors.compile_kernel(
        "double f(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }",
        flags="-O2",
    )
    chain = pk.Gus(core, warm="caches").run(kernel.trace(np.ones(1000), 1000))
    answer = dataclasses.replace(found, result=chain, sources={})
    assert answer.bottleneck == "instruction_latency"
    free = dataclasses.replace(chain.settings, core=core.scaled("instruction_latency", 1000.0)).run(chain.trace)
    assert answer.what_ifs[0].most == pytest.approx(chain.cycles / free.cycles)
    assert f"; up to {answer.what_ifs[0].most:.2f}x if it were no limit at all, by the same instructions" in (
        answer.what_ifs[0].gain
    )


def test_what_a_nearer_cache_would_bring_is_bounded_by_the_nearest():
    """Links of 14 cycles through L2, and one for the index, take 4 and one in L1; 7.5 times as fast was promised."""
    source = "long f(const long *p, long n) { long i = 0; for (long k = 0; k < n; k++) i = p[i]; return i; }"
    trace = pk.collectors.compile_kernel(source, flags="-O2").trace(in_a_ring(2048), 20_000)
    result = pk.Gus("zen4", warm="caches").run(trace)
    answer = dataclasses.replace(EXAMPLES[pk.Diagnosis](), result=result, sources={}, measured=None)
    best = answer.what_ifs[0]
    assert answer.bottleneck == "L2_latency"
    assert best.factor == pytest.approx((14 + 1) / (7 + 1), rel=0.01)
    assert best.most == pytest.approx((14 + 1) / (4 + 1), rel=0.02)


def in_a_ring(lines):
    """Return links that lead through so many lines of memory in a random order, and back to the first."""
    order = np.concatenate(([0], 1 + np.random.default_rng(1).permutation(lines - 1)))
    ring = np.zeros(8 * lines, dtype=np.int64)
    ring[8 * order] = 8 * np.roll(order, -1)
    return ring


def test_the_kernels_work_is_told_where_it_explains_the_measured_time():
    """64 MiB touched in every call, and reads of one byte: the model was blamed for what it does not simulate."""
    program = compiled("touches", TOUCHES)
    assert time_calls(program, "fill", [str(512 * 100_000)]).kernel > 0.3
    assert time_calls(compiled("chain", CHAIN), "solve", ["20000"]).kernel < 0.2
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles

    def told(kernel, faults=0.0, **further):
        measured = Measured(4 * cycles, 4 * cycles, 2, 1, 4 * cycles, kernel=kernel, faults=faults, **further)
        return dataclasses.replace(found, measured=measured).doubt

    assert "75% of the run's processor time is the kernel's work for it (system calls, or page" in told(0.75)
    assert "(about 1,000,000 page faults in 1 measured call, memory touched for the first time)" in told(0.75, 1e6)
    assert "kernel" not in told(0.1)
    assert "kernel" in told(0.75, waited=0.5, taken_off=True), "and not: other programs shared the caches"


def test_subnormal_numbers_are_told_where_more_was_measured_than_is_simulated():
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles

    def told(factor, **further):
        measured = Measured(factor * cycles, factor * cycles, 2, 1, factor * cycles, **further)
        return "subnormal" in dataclasses.replace(found, measured=measured).doubt

    assert any("pd" in text or "sd" in text for text in found.result.trace.code.text)
    assert [told(4, subnormal=True), told(4), told(1, subnormal=True), told(0.5, subnormal=True)] == [
        True,
        *[False] * 3,
    ]


@needed
def test_a_sampler_that_fails_is_not_taken_for_the_program_failing():
    failed = Sampled("perf, software clock", {}, 0.1, "ended with status 255")
    assert _check_worked(Target(compiled("chain", CHAIN), ("5",)), failed, 2.0) is None


def test_a_resource_that_brings_little_is_not_said_to_hold_a_function_back():
    found = EXAMPLES[pk.Diagnosis]()
    assert "is held back at" in found.headline()
    ranked = found.ranked
    little = dataclasses.replace(found)
    little.__dict__["ranked"] = dataclasses.replace(ranked, speedup=ranked.speedup * (0.02 / ranked.speedup.max()))
    little.__dict__["together"] = None  # of the planted figures, not of the recorded ones
    said = little.headline()
    assert said.startswith(f"Nothing dominates {found.function}: the best single resource, made twice as good,")
    assert "would make it 1.02 times as fast" in said


@pytest.mark.parametrize(("second", "told"), [(0.28, True), (0.2, False)])
def test_a_second_change_that_promises_as_much_is_named(second, told):
    found = dataclasses.replace(EXAMPLES[pk.Diagnosis]())
    order = np.argsort(-found.ranked.speedup[:, -1])
    speedup = np.zeros_like(found.ranked.speedup)
    speedup[order[:2], -1] = 0.3, second
    found.__dict__["ranked"] = dataclasses.replace(found.ranked, speedup=speedup)
    found.__dict__["together"] = None
    assert found._cause().endswith("which of the two is the first, the model cannot tell") == told
    said = f"{found.what_ifs[1].change[1:]} would make it {1 + second:.2f} times as fast: which of the two"
    assert (said in found.headline()) == told
    assert any(said in each for each in found.more) == told


def test_a_part_of_a_call_is_never_taken_for_the_whole():
    """A later part of a recording that was whole was compared with the cycles of the whole call."""
    trace = pk.datasets.load("traces/fig1a")
    first = int(trace.object_addresses()[0])
    assert trace.provenance.complete
    assert from_address(trace, first, trace.instruction_count).provenance.complete
    part = from_address(trace, first, trace.instruction_count // 2)
    assert not part.provenance.complete
    assert part.provenance.stopped.startswith("limit")


def test_a_part_is_measured_where_it_runs_what_the_whole_call_runs():
    trace = pk.datasets.load("traces/fig1a")
    part = trace.head(trace.instruction_count // 2)
    assert share_of(part, trace) == part.instruction_count / trace.instruction_count
    beginning = trace.head(int(np.diff(trace.code.block_start)[trace.stream[0]]))  # one block
    assert share_of(beginning, trace) is None


def test_without_samples_the_part_is_taken_that_takes_longest_to_simulate():
    """The beginning was explained, whatever the rest of a long call did."""
    asked, whole = inquiry(500), pk.datasets.load("traces/correlation-v5-small").head(20_000)
    first = whole.head(20)
    cut = dataclasses.replace(first.provenance, complete=False, stopped="limit of 20 instructions")
    beginning = Trace.from_parts(first.code, first.stream, first.addresses, first.sizes, cut)
    core = Microarchitecture.load("zen4")
    assert asked._where_the_time_goes(None, None, beginning, core) is beginning
    asked.unseen, asked.longer = [], whole
    part = asked._where_the_time_goes(None, HotFunction("f", "f", "/f", 1, 1.0, 1, 1), beginning, core)
    slowest = int(pk.Gus("zen4").run(whole).spent.sum(axis=1).argmax())
    assert part.instruction_counts()[slowest] > beginning.instruction_counts()[slowest]
    assert not part.provenance.complete
    assert "takes longest" in asked.unseen[0]


def test_noise_is_set_against_the_other_methods_and_believed_where_it_differs():
    answer = EXAMPLES[pk.Diagnosis]()
    near = dataclasses.replace(answer, measured=Measured(answer.result.cycles, answer.result.cycles, 3, 1))
    result = EXAMPLES[pk.NoiseResult]()

    def asked(word, diagnosis=near):
        class Said:
            bottleneck, slack, place = word, result.slack, result.place

        *_, told, belief = opinions(diagnosis, None, Said())
        return told.agrees, belief.says

    latency = group(near.bottleneck) == "latency of operations"
    assert asked("latency")[0] is latency
    assert asked("restarts")[0] is False
    assert asked("restarts")[1].startswith("the noise")
    assert asked("cannot tell")[0] is None
    assert not asked("cannot tell")[1].startswith("the noise")
    *_, told, belief = opinions(near, None, DataError("its loop has no place for it"))
    assert (told.agrees, told.says) == (None, "cannot say: its loop has no place for it")
    assert belief.says.startswith("the sensitivity")


@pytest.mark.parametrize(("share", "made"), [(0.03, 0.0), (0.3, 0.5)])
def test_a_small_part_of_a_script_does_not_explain_it(share, made):
    """A library's function with 3 % of the time, or with less than what a compiler made while the script ran."""
    rows = [
        ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault", "/opt/libpython3.11.so", 1 - share - made),
        ("code of no file without a symbol", "", "", made),
        ("serve", "serve", "/opt/libother.so", share),
    ]
    table = pd.DataFrame(
        [(a, b, c, int(100 * d), d, 1, 1) for a, b, c, d in rows],
        columns=["function", "symbol", "file", "samples", "share", "threads", "processes"],
    )
    seen = Profile(table, pd.DataFrame(), "run.py", "perf", "samples", 1.0)
    asked = dataclasses.replace(inquiry(), target=Target(Path(sys.executable), (), None, Path("run.py")))
    with pytest.raises(DataError, match=rf"the hottest function of a library has {share:.0%} of it \(-f serve"):
        asked._function(seen)


def test_a_pair_that_holds_a_function_back_is_in_the_picture_and_the_table(tmp_path):
    answer = dataclasses.replace(EXAMPLES[pk.Diagnosis]())
    names = (answer.ranked.resources[0][0], answer.ranked.resources[1][0])
    answer.__dict__["together"] = Together(names, 0.99)
    bars = [text.get_text() for text in answer.plot().get_yticklabels()]
    assert bars[-1] == " + ".join(names)  # the longest, on top
    assert answer.ranked_with_pair.bottleneck == " + ".join(names)
    page = save_page(answer, tmp_path / "page.html").read_text().replace("<wbr>", "")
    assert f">{' + '.join(names)}<" in page


# Which way a branch goes at random hangs on a load that misses L1: half of the penalty leaves most of what it costs.
AT_RANDOM = """
#include <stdlib.h>
__attribute__((noinline)) long at_random(const int *a, const int *next, long n, volatile int *sink) {
  long sum = 0;
  int at = 0;
  for (long i = 0; i < n; i++) {
    if (a[at = next[at]] > 500) { sum += i; *sink = 1; } else { sum ^= i; }
  }
  return sum;
}
int main(void) {
  enum { N = 1 << 14 };
  static int a[N], next[N];
  unsigned long x = 88172645463325252UL;
  for (int i = 0; i < N; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; a[i] = x % 1000; next[i] = (i + 4097) % N; }
  volatile int sink;
  return at_random(a, next, 20000, &sink) == 3;
}
"""


def test_of_mispredicted_branches_half_as_many_are_the_better_core():
    """With half of the penalty a core still waits for each branch, which told L2 for what are mispredictions."""
    trace = Tracer().run(compiled("at_random", AT_RANDOM, "-O1"), "at_random")
    result = pk.Gus(pk.Microarchitecture.load("raptor_cove"), warm="caches").run(trace)
    answer = dataclasses.replace(EXAMPLES[pk.Diagnosis](), result=result, sources={})
    perfect = result.cycles / result.settings.perfect(trace)["branch prediction"]
    penalty = dict(zip((n[0] for n in answer.ranked.resources), answer.ranked.speedup[:, -1], strict=True))
    first = answer.what_ifs[0]
    assert answer.bottleneck == "misprediction_penalty"
    assert first.change == answer.change == "half as many mispredicted branches"
    assert first.most == pytest.approx(perfect)
    assert first.factor == pytest.approx(2 / (1 + 1 / perfect))
    assert first.factor - 1 == answer.gain > 1.2 * penalty["misprediction_penalty"]
    assert "Half as many mispredicted branches would make it" in answer.headline()
    assert opinions(answer, None)[0].says.endswith("with half as many mispredicted branches)")
    table = answer.ranked_with_pair
    assert table.speedup[table.resources.index(("misprediction_penalty",)), -1] == answer.gain


def test_the_page_warns_of_what_is_a_warning_and_says_of_what_cycles_were_measured(tmp_path: Path):
    found = EXAMPLES[pk.Diagnosis]()
    seen = f"{len(found.unseen)}: 59 of 60 calls"
    cycles = found.result.cycles
    part = Measured(cycles, cycles, 1, 1, part=0.443)
    near = dataclasses.replace(found, unseen=(seen,), measured=part)
    text = save_page(near, tmp_path / "near.html").read_text().replace("<wbr>", "")
    assert "Beware" not in text
    assert f"<h2>Not seen</h2><ul><li>{seen}</li></ul>" in text
    assert f"cycles measured, 44.3% of one call&#x27;s {cycles / 0.443:,.0f}, as of its instructions" in text
    far = dataclasses.replace(near, measured=Measured(10 * cycles, 10 * cycles, 1, 1))
    text = save_page(far, tmp_path / "far.html").read_text().replace("<wbr>", "")
    assert "<h2>Beware</h2><ul><li>measured and simulated cycles are far apart" in text
    assert "one call&#x27;s" not in text


def test_the_first_screen_answers_in_sentences_of_which_a_doubt_is_the_first():
    """The headline was one block of seven to nine lines, in which the line and what it costs had to be looked for."""
    found = EXAMPLES[pk.Diagnosis]()
    cycles = found.result.cycles
    verdict, gain, near = found.lead
    assert verdict.startswith(f"{found.function} is held back at {found.line['place']}")
    assert gain.endswith("times as fast.")
    assert near.startswith("The model is 10% above the measured time")
    busy = Measured(4 * cycles, 4 * cycles, 2, 1, 4 * cycles, waited=0.75)
    torn = dataclasses.replace(
        found, measured=busy, later="The run was stopped after 3 s", first="f is called again. Call it once",
        doubts=("90% of this function's samples lie elsewhere",),
    )  # fmt: skip
    assert torn.lead == (
        "90% of this function's samples lie elsewhere.", "f is called again.", verdict, gain,
        "The run was stopped after 3 s.",
    )  # fmt: skip
    assert torn.more[0].startswith("Uncertain: other programs had the processors for 75% of the time in which")
    assert torn.more[1].startswith("The measured cycles hold that")
    assert torn.more[2] == "Call it once."
    said = [*torn.lead, *torn.more]
    for each in filter(None, torn.headline().split(". ")):
        assert any(each.lower().rstrip(".") in one.lower() for one in said), each
    screen = torn.report().split("\n\n")
    assert [line for line in screen[0].splitlines() if not line.startswith("  ")] == [
        next(line for line in screen[0].splitlines() if each.startswith(line)) for each in torn.lead
    ]
    assert max(map(len, torn.report().splitlines())) <= 80
    alone = dataclasses.replace(found, measured=None, not_measured="too long")
    assert alone.lead[2] == "Nothing was measured: this is the model's word alone."
