import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from perfkit.collectors.host.machine_state import prepared, read_state
from perfkit.errors import SettingError
from perfkit.study.study import MachineSettings

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: A Xeon
stepping\t: 7
flags\t\t: fpu fma hypervisor avx512f

processor\t: 1
"""


@pytest.fixture
def machine(tmp_path):
    """A machine's /sys and /proc in a folder: two governors, Intel's turbo switch, one cache."""
    for cpu in (0, 1):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
        (folder / "scaling_available_governors").write_text("performance powersave\n")
    turbo = tmp_path / "sys/devices/system/cpu/intel_pstate"
    turbo.mkdir()
    (turbo / "no_turbo").write_text("0\n")
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache/index0"
    cache.mkdir(parents=True)
    for name, text in (("level", "1"), ("type", "Data"), ("size", "32K")):
        (cache / name).write_text(text + "\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(CPUINFO)
    return tmp_path


def governors(machine):
    return [
        path.read_text().strip()
        for path in sorted(machine.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"))
    ]


def turbo(machine):
    return (machine / "sys/devices/system/cpu/intel_pstate/no_turbo").read_text().strip()


WANTED = MachineSettings(governor="performance", turbo=False)


def test_state_is_read(machine):
    state = read_state(machine / "sys", machine / "proc")
    assert (state.vendor, state.family, state.model, state.stepping) == ("GenuineIntel", 6, 85, 7)
    assert state.governors == {"cpu0": "powersave", "cpu1": "powersave"}
    assert state.turbo is True
    assert state.hypervisor
    assert state.caches == {"L1d": 32768}
    assert set(state.cpus) == os.sched_getaffinity(0)


def test_an_empty_machine_has_nothing_invented(tmp_path):
    state = read_state(tmp_path, tmp_path)
    assert (state.family, state.model, state.turbo, state.smt) == (-1, -1, None, None)
    assert state.governors == {}
    assert state.caches == {}


def test_a_processor_without_counters_is_not_told_as_a_missing_file(tmp_path, monkeypatch):
    """What perf_event_open answers in most virtual machines is ENOENT, "No such file or directory"."""
    for error, told in ((errno.ENOENT, "the processor shows none"), (errno.EACCES, "Permission denied")):
        library = SimpleNamespace(syscall=lambda *_: -1)
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, library=library, **__: library)
        monkeypatch.setattr(ctypes, "get_errno", lambda error=error: error)
        assert read_state(tmp_path / "sys", tmp_path / "proc").counters.startswith(told)


def test_set_and_restored(machine):
    with prepared(WANTED, machine / "sys", machine / "proc") as state:
        assert governors(machine) == ["performance"] * 2
        assert turbo(machine) == "1"
        assert state.turbo is False
        assert len(state.set) == 3
        assert state.refused == {}
    assert governors(machine) == ["powersave"] * 2
    assert turbo(machine) == "0"


def test_restored_after_an_error_and_ctrl_c(machine):
    for error in (ValueError, KeyboardInterrupt):
        state = prepared(WANTED, machine / "sys", machine / "proc")
        state.__enter__()
        assert governors(machine) == ["performance"] * 2
        assert not state.__exit__(error, error(), None)
        assert governors(machine) == ["powersave"] * 2
        assert turbo(machine) == "0"


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.measures
def test_restored_when_killed(machine, sent):
    """Not even kill -9 leaves the machine changed: a process of its own holds the old values."""
    script = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what runs in the background, as CI may
from pathlib import Path
from perfkit.collectors.host.machine_state import prepared
from perfkit.study.study import MachineSettings
root = Path(sys.argv[1])
with prepared(MachineSettings(governor="performance", turbo=False), root / "sys", root / "proc"):
    print("set", flush=True)
    time.sleep(60)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(machine)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout.readline() == b"set\n"
    assert governors(machine) == ["performance"] * 2
    child.send_signal(sent)
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 10
    while (governors(machine) != ["powersave"] * 2 or turbo(machine) != "0") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert governors(machine) == ["powersave"] * 2
    assert turbo(machine) == "0"


def test_what_is_not_there_is_said_not_set(tmp_path):
    with prepared(WANTED, tmp_path, tmp_path) as state:
        assert set(state.refused) == {"governor", "turbo"}
        assert state.set == {}


def test_an_unknown_governor_is_an_error_that_lists_them(machine):
    settings = MachineSettings(governor="perfomance")
    with pytest.raises(SettingError, match="performance, powersave"), prepared(settings, machine / "sys"):
        pass
