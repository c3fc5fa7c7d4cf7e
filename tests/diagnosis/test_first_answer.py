"""What an answer does once, and not again: recording, timing, naming, reading lines; and its signs of life."""

import dataclasses
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import perfkit as pk
import perfkit.collectors.profile.hot as hot
import perfkit.diagnosis.why as asking
from perfkit.collectors.profile.perf import METHOD as PERF
from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.profile.waits import Waits
from perfkit.collectors.tracer import lines
from perfkit.diagnosis.calls import Calls, share_of_counted, whole_calls
from perfkit.diagnosis.diagnosis import Measured
from perfkit.diagnosis.ports import keeping
from perfkit.diagnosis.progress import signs
from perfkit.diagnosis.team import _beginning
from perfkit.simulators.gus.threads import _pieces, _run, _Transfers
from perfkit.simulators.memory.memory import MemoryPass
from perfkit.trace.threads import ThreadTraces
from tests.diagnosis.programs import CHAIN, compiled, needed
from tests.diagnosis.test_parts import inquiry
from tests.results.examples import EXAMPLES
from tests.simulators.assembled import loop

WHOLE = "traces/correlation-v5-small"
MIXED = """
#include <stdio.h>
int main(void) {
    char text[32];
    long sum = 0;
    for (int i = 0; i < 12000000; i++) sum += snprintf(text, sizeof text, "%d", i);
    printf("%ld\\n", sum);
}
"""


@pytest.mark.parametrize(("cycles", "recordings"), [(5e6, [(10_000, asking._COUNT_TO)]), (100.0, [(1000, 0)])])
def test_a_call_that_may_be_longer_than_the_limit_is_recorded_once(monkeypatch, cycles, recordings):
    """It was recorded to the limit, thrown away, and recorded again to be counted: seconds each."""
    asked, trace, made = inquiry(), pk.datasets.load(WHOLE).head(4000), []
    monkeypatch.setattr(
        asked, "_tracer", lambda _hot, _calls, limit, _after=0.0, count_to=0: made.append((limit, count_to)) or trace
    )
    run = SimpleNamespace(ticks=np.ones(1), cycles=np.array([cycles]))
    found = asked._first_of(object(), Calls(0, 1), [run])
    assert made == recordings
    if cycles > asked.limit:
        assert asked.longer is trace
        assert 900 < found.instruction_count <= 1000
        assert found.provenance.stopped == "limit of 1000 instructions"
        assert not found.provenance.complete
    else:
        assert found is trace


def test_whole_calls_of_a_recording_that_was_cut_are_taken():
    """Fewer were recorded anew."""
    trace = pk.datasets.load(WHOLE).head(4000)
    code = trace.code
    returns = [k for k, at in enumerate(code.block_start[1:] - 1) if code.text[at].startswith("ret")]
    others = [k for k in range(code.block_count) if k not in returns]
    assert returns
    stream = np.array([others[0], returns[0], others[0], returns[0], others[0]], dtype=np.uint32)
    slots = np.diff(code.block_operand_start)[stream].sum()
    sizes = np.diff(code.block_dynamic_start)[stream].sum()
    cut = dataclasses.replace(
        trace, stream=stream, addresses=np.resize(trace.addresses, slots), sizes=np.resize(trace.sizes, sizes)
    )
    part, count = whole_calls(cut, np.array([0, 2, 4]))
    assert count == 2
    assert part.provenance.complete
    assert part.stream.tolist() == stream[:4].tolist()
    assert whole_calls(cut, np.array([0])) is None
    assert whole_calls(cut, np.array([0, 1])) is None, "no call begins behind what is no return"


def test_the_middle_of_what_was_recorded_stands_for_a_call_that_was_counted(monkeypatch):
    asked = inquiry()
    asked.unseen = []
    whole = pk.datasets.load(WHOLE).head(4000)
    extra = whole.provenance.extra | {"counted": "9000", "counted_by_block": "[]"}
    cut = dataclasses.replace(whole.provenance, complete=False, stopped="limit", extra=extra)
    asked.longer = dataclasses.replace(whole, provenance=cut)
    monkeypatch.setattr(asked, "_from_the_middle", lambda *_: "recorded again")
    monkeypatch.setattr("perfkit.diagnosis.why.share_of_counted", lambda *_: 0.1)
    part = asked._steady(object(), object())
    assert asked.placed
    assert 0 < asked.before.instruction_count < whole.instruction_count - part.instruction_count
    asked.placed, asked.before = False, None
    monkeypatch.setattr("perfkit.diagnosis.why.share_of_counted", lambda *_: None)
    assert asked._steady(object(), object()) == "recorded again"
    assert not asked.placed


def test_counted_blocks_are_compared_without_counting_the_part_for_each(monkeypatch):
    trace = pk.datasets.load(WHOLE).head(4000)
    starts, runs = trace.code.block_start, trace.block_counts() * np.diff(trace.code.block_start)
    rows = [[int(pc), int(n)] for pc, n in zip(trace.code.pc[starts[:-1]], runs, strict=True)]
    extra = trace.provenance.extra | {"counted": str(trace.instruction_count), "counted_by_block": str(rows)}
    counted = dataclasses.replace(trace, provenance=dataclasses.replace(trace.provenance, extra=extra))
    asked = []
    count = type(trace).block_counts
    monkeypatch.setattr(type(trace), "block_counts", lambda self: asked.append(1) or count(self))
    assert share_of_counted(trace, counted) == pytest.approx(1.0)
    assert len(asked) < 5


def test_a_function_is_timed_for_the_first_time_once(monkeypatch):
    asked, ran = inquiry(), []
    asked.crowded = False
    run = SimpleNamespace(others=0, brief=False)
    monkeypatch.setattr(asked, "_once", lambda function, **_: ran.append(function.symbol) or run)
    one, other = (hot.HotFunction(name, name, "/nowhere", 1, 0.1, 1, 1) for name in ("f", "g"))
    assert asked._timed(one)[0] == asked._timed(one)[0] == asked._timed(other)[0] == [run]
    assert ran == ["f", "g"]


@pytest.mark.parametrize(("samples", "times"), [(997, 1), (2, 2)])
def test_main_is_not_timed_where_the_run_shows_that_it_is_too_long(monkeypatch, samples, times):
    """A second of the program's time, to learn that its only call takes as long as the program."""
    asked, ran = inquiry(3_000_000), []
    library, main = (
        hot.HotFunction(name, name, path, 1, 0.5, 1, 1)
        for name, path in (("qsort_r", "/lib/libc.so.6"), ("main", "/srv/ada/program"))
    )
    compare = hot.HotFunction("compare", "compare", "/srv/ada/program", 1, 0.5, 1, 1)
    above = iter([library, main])
    monkeypatch.setattr(asking, "_returned_to", lambda *_: next(above))
    run = SimpleNamespace(ticks=np.ones(1), cycles=np.array([5e9]), brief=False)
    monkeypatch.setattr(asked, "_timed", lambda function, **_: (ran.append(function.symbol) or [run], ""))
    monkeypatch.setattr(asked, "_passed_on", lambda *_: None)
    asked.spent, asked.crowded = {}, False
    found = SimpleNamespace(method=PERF, total=samples, runs=1, functions=())
    chosen, *_ = asked._caller_of(compare, "the hottest", [run], found)
    assert chosen is library
    assert len(ran) == times


def test_of_a_librarys_functions_that_call_each_other_the_last_one_is_timed(monkeypatch):
    """msort_with_tmp of qsort_r was timed for a whole run, to learn that qsort_r calls it."""
    asked, ran, first = inquiry(3_000_000), [], []
    inner, outer, main = (
        hot.HotFunction(name, name, path, 1, 0.5, 1, 1)
        for name, path in (("msort", "/lib/libc.so.6"), ("qsort_r", "/lib/libc.so.6"), ("main", "/srv/ada/program"))
    )
    compare = hot.HotFunction("compare", "compare", "/srv/ada/program", 1, 0.5, 1, 1)
    above = {"compare": inner, "msort": outer, "qsort_r": main}
    monkeypatch.setattr(asking, "_returned_to", lambda run, _: above[run.of])

    def run(function, **_):
        return SimpleNamespace(ticks=np.ones(1), cycles=np.array([5e9]), brief=False, others=0, of=function.symbol)

    monkeypatch.setattr(asked, "_timed", lambda function, **_: (ran.append(function.symbol) or [run(function)], ""))
    monkeypatch.setattr(
        asked, "_once", lambda function, calls, seconds: first.append((function.symbol, calls)) or run(function)
    )
    asked.spent, asked.crowded = {}, False
    found = SimpleNamespace(method=PERF, total=997, runs=1, functions=())
    chosen, *_ = asked._caller_of(compare, "the hottest", [run(compare)], found)
    assert chosen is outer
    assert ran == ["qsort_r"]
    assert first == [("msort", 1), ("qsort_r", 1)]


def test_the_one_call_of_main_is_timed_behind_the_first_answer():
    program = compiled("mixed", MIXED)
    said: list[str] = []
    answer = pk.why(program, core="zen5", say=said.append)
    stages = ["recording main", "What would help comes next", "timing the call of main"]
    at = [next((k for k, each in enumerate(said) if words in each), -1) for words in stages]
    first = any("timing the calls of main" in each for each in said)
    assert first == (at[-1] < 0), said  # once, and not first where samples say when its hottest code runs
    assert first or at == sorted(at), said
    assert answer.function == "main"
    if answer.measured is not None:
        assert answer.measured.part < 0.5


def test_names_of_a_large_library_are_shortened_by_looking_at_those_alike(monkeypatch):
    known = {f"s{k}": f"void app::Table<{k}>::total(int)" for k in range(500)}
    known |= {"one": "app::sum(int)", "two": "app::sum(long)", "three": "int app::alone<int>(int)"}
    library = SimpleNamespace(demangled=known)
    monkeypatch.setattr(hot, "opened", lambda *_: library)
    asked, short = [], hot._short
    monkeypatch.setattr(hot, "_short", lambda name: asked.append(name) or short(name))
    found = hot.shown({("/lib/a.so", name) for name in ("one", "two", "three", "s7", "plain")}, {})
    names = {name: text for (_, name), text in found.items()}
    assert names == {
        "one": "app::sum(int)", "two": "app::sum(long)", "three": "app::alone<int>", "s7": "app::Table<7>::total",
        "plain": "plain",
    }  # fmt: skip
    assert len(asked) < 20


@needed
def test_lines_are_read_once_and_again_where_the_file_is_another(monkeypatch, tmp_path):
    path = tmp_path / "program"
    shutil.copy(compiled("chain", CHAIN), path)
    symbol = pk.collectors.tracer.elf.ElfFile(path).functions["solve"]
    read = []
    table = lines._Unit._table.func
    again = lines.cached_property(lambda self: read.append(1) or table(self))
    again.__set_name__(lines._Unit, "_table")
    monkeypatch.setattr(lines._Unit, "_table", again)
    first = lines.places_of(path, [symbol.address])
    assert lines.places_of(path, [symbol.address + 1])
    assert len(read) == 1
    shutil.copy(compiled("chain", "\n\n" + CHAIN), path)
    os.utime(path, ns=(1, 1))
    later = lines.places_of(path, [symbol.address])
    assert later[symbol.address][1] == first[symbol.address][1] + 2


def test_parts_of_a_window_begin_with_what_comes_late_and_are_all_of_it():
    trace = pk.datasets.load(WHOLE).head(3000)
    gus = pk.Gus("zen4")
    program = gus.program(trace)
    (chunk,) = trace.chunks()
    window = MemoryPass.of(trace, program, gus.core).window(chunk)
    behind = np.concatenate(([0], np.cumsum(np.diff(trace.code.block_operand_start)[trace.stream])))
    late = np.array([5, 6, 700, 701])
    parts = list(_Transfers(late, 100.0, 3).cut(window, behind))
    for k, name in enumerate(window._fields):
        assert np.array_equal(np.concatenate([part[k] for part, _ in parts]), window[k]), name
    firsts = [first for _, first in parts]
    blocks = np.searchsorted(behind, late, side="right") - 1
    assert set(behind[blocks].tolist()) <= set(firsts)
    assert len(parts) == 1 + len(set(blocks.tolist()) - {0})


def _accesses(run):
    return sum(int(each.sum()) for each in vars(run.result.served).values())


def test_a_line_that_comes_late_costs_its_thread_that_time():
    trace = pk.datasets.load(WHOLE).head(3000)
    gus = pk.Gus("zen4", warm="caches")
    pieces = _pieces(np.zeros(len(trace.stream), dtype=np.int64))
    alone = _run(gus, trace, pieces)
    none = _run(gus, trace, pieces, _Transfers(np.zeros(0, dtype=np.int64), 500.0, 2))
    assert none.result.ticks == alone.result.ticks
    late = _run(gus, trace, pieces, _Transfers(np.arange(0, len(trace.addresses), 50), 500.0, 2))
    assert late.result.ticks > 2 * alone.result.ticks
    assert _accesses(late) == _accesses(alone)


def test_threads_that_were_cut_are_simulated_beside_each_other_from_their_beginnings(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.team._BESIDE", 1000)
    trace = pk.datasets.load(WHOLE).head(3000)
    calls = np.array([[0, 0], [len(trace.stream) - 1, 0]])
    found = _beginning(ThreadTraces((trace, trace), (calls, calls)))
    assert all(900 < found[k].instruction_count <= 1000 for k in found)
    assert all(each.tolist() == [[0, 0]] for each in found.calls)


def test_operations_that_keep_ports_are_told_at_their_own_line():
    """The cycles are counted where the next instruction waits for the ports."""
    result = pk.Gus("zen5").run(loop("mfence\nadd rax, rcx\nadd rdx, rcx", 200))
    names = [result.trace.code.text[k] for k in keeping(result, "ALU012345")]
    assert names == ["mfence"]
    plain = pk.Gus("zen5").run(loop("add rax, rcx\nadd rdx, rcx", 200))
    assert not len(keeping(plain, "ALU012345"))
    assert not len(keeping(result, "retire"))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (1.0, "The model takes the measured time"),
        (1.03, "The model is 3% below the measured time"),
        (0.97, "The model is 3% above the measured time"),
        (1.3, "The model is 23% below the measured time: take the factor with care"),
        (1.4, ""),  # the first sentence says it
    ],
)
def test_how_far_the_model_is_is_said_at_every_size(times, said):
    found = EXAMPLES[pk.Diagnosis]()
    cycles = times * found.result.cycles
    asked = dataclasses.replace(found, measured=Measured(cycles, cycles, 1, 1))
    assert asked._near == said
    assert said in asked.headline()


def test_a_run_that_waits_nearly_all_of_its_time_is_watched_for_what(monkeypatch):
    asked = inquiry()
    asked.spent, asked.target = {}, Target(Path("/nowhere"))
    run = [SimpleNamespace(idle=0.97)]
    waits = Waits(seconds=2.0, worked=0.05)
    waits.seen["sleeping"] = 90
    monkeypatch.setattr(asking, "waits_of", lambda *_: waits)
    assert "most of that sleeping. That is the answer" in asked._idle(None, run)
    assert asked._idle(None, run).endswith("What follows is about the rest")
    assert "it sleeps, or waits for input" in asked._idle(None, [SimpleNamespace(idle=0.5)])
    asked.watched = None  # another run; what was seen of one is kept
    monkeypatch.setattr(asking, "waits_of", lambda *_: Waits())
    assert "For 97% of its time the run does nothing" in asked._idle(None, run)


def test_a_script_is_told_what_is_done_and_a_test_is_not(capsys):
    with signs(None) as say:
        say("looking")
    with signs(False) as say:
        say("looking")
    assert capsys.readouterr().err == ""
    with signs(True) as say:
        say("looking")
    assert capsys.readouterr().err.startswith("perfkit: looking")
    with signs(print) as say:
        assert say is print
    code = "from perfkit.diagnosis.progress import signs\nwith signs(None) as say: say('looking')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.startswith("perfkit: looking")


@pytest.mark.parametrize(("say", "told"), [(True, "perfkit: recording"), (None, ""), (False, "")])
@needed
def test_why_says_what_it_does_where_it_is_asked_to(capsys, monkeypatch, say, told):
    monkeypatch.setattr(asking._Inquiry, "answer", lambda self: self.say("recording") or EXAMPLES[pk.Diagnosis]())
    pk.why(compiled("chain", CHAIN), say=say)
    assert capsys.readouterr().err.startswith(told)
    assert told or not capsys.readouterr().err


def test_a_run_that_was_not_sampled_does_not_say_how_long_it_is():
    assert asking._lasts(None) == 0.0
    assert asking._lasts(SimpleNamespace(method="valgrind", total=5, runs=1)) == 0.0
    assert math.isclose(asking._lasts(SimpleNamespace(method=PERF, total=997, runs=2)), 5e8)
