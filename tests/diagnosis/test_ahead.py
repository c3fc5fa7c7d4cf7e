"""What is compiled before it is needed: the very same specialisations that an answer calls."""

import subprocess
import sys

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.diagnosis.ahead import SHARED_OUT, Ahead, missing, parts
from perfkit.diagnosis.opinions import scheduled_part
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import compiled, kept
from perfkit.simulators.dag.engine import run
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import go_through


def test_the_parts_are_what_an_answer_calls():
    core = Microarchitecture.load("zen4")
    made = parts(core)
    assert sorted(made) == sorted(name for each in SHARED_OUT for name in each)
    for part in made.values():
        part()
    assert missing() == ()
    functions = (simulate, go_through, run)
    before = [set(each.signatures) for each in functions]
    result = pk.Gus(core).run(pk.datasets.load("traces/fig1a"))
    result.sensitivity((2.0,))
    result.causality()
    scheduled_part(result.trace.head(1000), core)
    assert [set(each.signatures) for each in functions] == before


def test_a_process_names_each_part_when_it_is_there():
    words = [sys.executable, "-m", "perfkit.diagnosis.ahead", "zen4", "memory", "time"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() == ["memory", "time"]


def test_a_process_that_gives_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.ahead.missing", lambda: (("time",),))
    said = []
    with Ahead("no such core", said.append) as ahead:
        with ahead.resting():
            pass
        ahead.wait("memory", "time")
    assert said == ["compiling the simulators, once on this machine"]


def test_specialisations_kept_for_this_processor_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled()
    def twice(x):
        return x + x

    assert kept(twice) == 0
    twice(1)
    twice(np.float32(1))
    assert kept(twice) == 2
    assert kept(numba.njit(lambda x: x)) is None


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_found_out_stays_on_the_screen(capsys, monkeypatch, terminal):
    from perfkit.cli.progress import stages

    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with stages() as say:
        say("looking")
        say("f takes 7 cycles.")
        say("asking")
    told = capsys.readouterr().err
    assert "f takes 7 cycles.\n" in told
