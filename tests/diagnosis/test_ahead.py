"""What is compiled before it is needed: the very same specialisations that an answer calls."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.diagnosis import compiling
from perfkit.diagnosis.ahead import ALL, Ahead, never_compiled
from perfkit.diagnosis.compiling import SHARED_OUT, missing, parts
from perfkit.diagnosis.opinions import scheduled_part
from perfkit.errors import PerfkitWarning, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import _NEEDED, compiled, kept
from perfkit.simulators.dag.engine import run
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import go_through


def test_the_parts_are_what_an_answer_calls():
    core = Microarchitecture.load("zen4")
    made = parts(core)
    assert sorted(made) == sorted(name for each in SHARED_OUT for name in each) == sorted(ALL)
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


def test_where_nothing_was_compiled_it_begins_at_once(tmp_path, monkeypatch):
    """On entering; a second `start` or entering begins nothing again, and leaving ends all of it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with Ahead("zen4", print) as ahead:
        began = ahead._process
        assert began is not None
        ahead.start()
        with ahead:  # as `why` does with one that its command has begun
            assert ahead._process is began
        assert ahead._process is None
        assert began.returncode == -signal.SIGKILL
    (tmp_path / "gus").mkdir()
    (tmp_path / "gus" / "recurrence.simulate-1.py311.nbi").touch()
    assert not never_compiled()
    with Ahead("zen4", print) as ahead:
        assert ahead._process is None


TWO_PARTS = """
from perfkit.diagnosis import compiling
compiling.SHARED_OUT = (("memory",), ("time",))
compiling.compile_missing("zen4")
"""


def test_each_part_is_compiled_once_and_named_when_it_is_there(tmp_path):
    own = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-c", TWO_PARTS]
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["memory", "time"]
    made = [file.name.partition("-")[0] for file in tmp_path.rglob("*.nbc")]
    assert sorted(made) == ["memory.go_through", "recurrence.simulate"]


def test_a_process_that_gives_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.compiling.missing", lambda: (("time",),))
    said = []
    with Ahead("no such core", said.append) as ahead:
        ahead.start()
        with ahead.resting():
            pass
        ahead.wait("memory", "time")
    assert said == ["compiling the simulators, once on this machine"]


def test_a_part_that_cannot_be_compiled_is_named_so_that_nobody_waits(capfd):
    def fails():
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        compiling._compile({"memory": fails}, ["memory", "lanes"])
    assert capfd.readouterr().out.split() == ["memory"]


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


ROOT = Path(__file__).parents[2]
SHIPPED = """
import sys
from pathlib import Path
from perfkit.simulators import compiled as c
c.SHIPPED = Path("shipped")

@c.compiled("other")
def twice(x):
    return x + x

if __name__ == "__main__":
    print(c.kept(twice), twice(3), sum(twice.stats.cache_hits.values()))
    if sys.argv[1:] == ["ship"]:
        c.SHIPPED.mkdir()
        print(c.ship(twice))
"""


def test_shipped_code_is_run_where_it_fits_and_compiled_elsewhere(tmp_path):
    """With other sources, or on a processor that lacks an instruction, numba compiles as if nothing were shipped."""
    (tmp_path / "toy.py").write_text(SHIPPED)
    (tmp_path / "other.py").write_text("A = 1")

    def run(*words, **settings):
        own = {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=tmp_path), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "toy.py", *words]
        environment = os.environ | own | settings
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.stderr or done.stdout.split()

    assert "expected x86-64-v3 alone" in run("ship", NUMBA_CPU_NAME="x86-64-v2", NUMBA_CPU_FEATURES="")
    (tmp_path / "shipped").rmdir()
    assert run("ship", NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="") == ["0", "6", "0", "1"]
    able = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ",".join(sorted(_NEEDED))}
    assert run(**able) == ["1", "6", "1"]
    assert run(NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="+avx") == ["0", "6", "0"]
    (tmp_path / "other.py").write_text("A = 2")
    assert run(**able) == ["0", "6", "0"]


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_found_out_stays_on_the_screen(capsys, monkeypatch, terminal):
    from perfkit.diagnosis.progress import stages

    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with stages() as say:
        say("looking")
        say("f takes 7 cycles.")
        say("asking")
    told = capsys.readouterr().err
    assert "f takes 7 cycles.\n" in told


def test_warnings_begin_lines_of_their_own(capsys):
    """A note stood behind the dots of "measuring in 30 processes"."""
    from perfkit.diagnosis.progress import stages

    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: sys.stderr.write(f"note: {message}\n")
        with stages() as say:
            say("looking")
            warnings.warn("odd", PerfkitWarning, stacklevel=1)
            say("found")
    assert warnings.showwarning is before
    assert capsys.readouterr().err.endswith("perfkit: looking \nnote: odd\nperfkit: found \n")


def test_what_is_refused_at_once_is_told_without_a_stage(capsys, monkeypatch):
    from perfkit.diagnosis import progress

    monkeypatch.setattr(progress, "_EVERY", 0.05)
    with pytest.raises(SettingError), progress.stages("starting"):
        raise SettingError("no")
    assert capsys.readouterr().err == ""
    with progress.stages("starting") as say:
        time.sleep(0.2)
        say("looking")
    assert re.fullmatch(r"perfkit: starting \.*\nperfkit: looking \n", capsys.readouterr().err)
