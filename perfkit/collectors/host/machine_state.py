"""The machine's state: recorded with every study, set where that is allowed, and restored however the program ends.

Settings that outlive a process (governor, turbo) are written by this module only after a watcher process holds the old
values. The watcher restores them when the program closes its pipe: at the end, on an error, on Ctrl-C, and on kill -9.
Pinning and the scheduling class belong to the measuring process and end with it.
"""

import contextlib
import errno
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perfkit.errors import SettingError
from perfkit.study.parts import MachineSettings

SYS = Path("/sys")
PROC = Path("/proc")


@dataclass(frozen=True)
class MachineState:
    """What a measurement may depend on beside the program.

    Parameters
    ----------
    host : str
        Node name.
    processor, vendor : str
        Model name and vendor as the kernel gives them.
    family, model, stepping : int
        CPUID's numbers (-1 unknown).
    cpus : tuple of int
        CPUs that this process may use.
    kernel, hypervisor, clocksource, huge_pages : str
        "" where unknown.
    governors : dict
        CPU -> cpufreq governor; empty where the machine has none (most virtual machines).
    turbo : bool or None
        Whether turbo is allowed; None where that cannot be seen.
    smt : bool or None
        Whether simultaneous multithreading is on.
    flags : tuple of str
        The kernel's CPU feature flags.
    caches : dict
        Cache name ("L1d", ...) -> bytes.
    counters : str
        "" if hardware counters answer, else why not.
    set : dict
        What was set for the measurement.
    refused : dict
        What was asked for and could not be set, with the reason.
    """

    host: str
    processor: str
    vendor: str
    family: int
    model: int
    stepping: int
    cpus: tuple[int, ...]
    kernel: str
    hypervisor: str
    clocksource: str
    huge_pages: str
    governors: dict[str, str]
    turbo: bool | None
    smt: bool | None
    flags: tuple[str, ...]
    caches: dict[str, int]
    counters: str
    load: float
    set: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def summary(self) -> str:
        """Return one line for a caption."""
        virtual = f" under {self.hypervisor}" if self.hypervisor else ""
        return f"{self.processor} (family {self.family}, model {self.model}){virtual}, Linux {self.kernel}"


def read_state(sys: Path = SYS, proc: Path = PROC) -> MachineState:
    """Read the machine's state; what cannot be seen is empty, None or -1."""
    info = _cpuinfo(_read(proc / "cpuinfo"))
    return MachineState(
        host=platform.node(),
        processor=info.get("model name", platform.machine()),
        vendor=info.get("vendor_id", ""),
        family=int(info.get("cpu family", -1)),
        model=int(info.get("model", -1)),
        stepping=int(info.get("stepping", -1)) if info.get("stepping", "").isdigit() else -1,
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        kernel=platform.release(),
        hypervisor=_hypervisor(sys, info),
        clocksource=_read(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        huge_pages=_selected(_read(sys / "kernel/mm/transparent_hugepage/enabled")),
        governors={path.parent.parent.name: _read(path) for path in _governors(sys)},
        turbo=_turbo(sys),
        smt={"1": True, "0": False}.get(_read(sys / "devices/system/cpu/smt/active")),
        flags=tuple(info.get("flags", "").split()),
        caches=_caches(sys),
        counters=_counters(),
        load=os.getloadavg()[0],
    )


@contextlib.contextmanager
def prepared(settings: MachineSettings, sys_root: Path = SYS, proc: Path = PROC) -> Iterator[MachineState]:
    """Set the governor and turbo, yield the state as it then is, and restore what was there before.

    What the machine does not have or does not allow is not set and is listed in ``refused``.
    """
    wanted, refused = _wanted(settings, sys_root)
    writable = {}
    for path, value in wanted.items():
        if os.access(path, os.W_OK):
            writable[path] = value
        else:
            refused[path.name] = f"{path} cannot be written: run as root"
    before = {path: _read(path) for path in writable}
    changed = {path: value for path, value in writable.items() if before[path] != value}
    watcher = _watch({path: before[path] for path in changed}) if changed else None
    done: dict[str, Any] = {}
    try:
        for path, value in changed.items():
            try:
                path.write_text(value)
                done[str(path)] = value
            except OSError as error:
                refused[path.name] = f"{path} refused {value!r}: {error.strerror}"
        state = read_state(sys_root, proc)
        yield MachineState(**{**state.__dict__, "set": done, "refused": refused})
    finally:
        if watcher is not None:
            _release(watcher)


def _wanted(settings: MachineSettings, root: Path) -> tuple[dict[Path, str], dict[str, str]]:
    wanted: dict[Path, str] = {}
    refused: dict[str, str] = {}
    if settings.governor is not None:
        paths = _governors(root)
        if not paths:
            refused["governor"] = "this machine has no cpufreq governor"
        for path in paths:
            allowed = _read(path.with_name("scaling_available_governors")).split()
            if allowed and settings.governor not in allowed:
                raise SettingError(f"no governor {settings.governor!r} here; there are: {', '.join(allowed)}")
            wanted[path] = settings.governor
    if settings.turbo is not None:
        intel = root / "devices/system/cpu/intel_pstate/no_turbo"
        generic = root / "devices/system/cpu/cpufreq/boost"
        if intel.exists():
            wanted[intel] = "0" if settings.turbo else "1"
        elif generic.exists():
            wanted[generic] = "1" if settings.turbo else "0"
        else:
            refused["turbo"] = "this machine shows no turbo switch"
    return wanted, refused


# The watcher: a process of its own session, so that neither Ctrl-C nor the end of its parent reaches it.
_WATCHER = """
import json, os, sys
values = json.loads(sys.stdin.readline())
os.write(1, b"k")
sys.stdin.read()
for path, value in values.items():
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError:
        pass
"""


def _watch(before: Mapping[Path, str]) -> "subprocess.Popen[bytes]":
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCHER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    watcher.stdin.write(json.dumps({str(path): value for path, value in before.items()}).encode() + b"\n")
    watcher.stdin.flush()
    watcher.stdout.read(1)  # it holds the old values: now they may be overwritten
    return watcher


def _release(watcher: "subprocess.Popen[bytes]") -> None:
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    watcher.stdin.close()
    watcher.wait(20)
    watcher.stdout.close()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _cpuinfo(text: str) -> dict[str, str]:
    first = text.split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _hypervisor(root: Path, info: Mapping[str, str]) -> str:
    if "hypervisor" not in info.get("flags", "").split():
        return ""
    return _read(root / "class/dmi/id/sys_vendor") or _read(root / "hypervisor/type") or "a hypervisor"


def _selected(text: str) -> str:
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else text


def _governors(root: Path) -> list[Path]:
    return sorted((root / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))


def _turbo(root: Path) -> bool | None:
    no_turbo = _read(root / "devices/system/cpu/intel_pstate/no_turbo")
    if no_turbo:
        return no_turbo == "0"
    boost = _read(root / "devices/system/cpu/cpufreq/boost")
    return boost == "1" if boost else None


def _caches(root: Path) -> dict[str, int]:
    out = {}
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    for index in sorted((root / "devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        kind = {"Data": "d", "Instruction": "i"}.get(_read(index / "type"), "")
        size = _read(index / "size")
        if size and size[:-1].isdigit():
            out[f"L{_read(index / 'level')}{kind}"] = int(size[:-1]) * units.get(size[-1], 1)
    return out


def _counters() -> str:
    """Return why hardware counters do not answer, or ""."""
    import ctypes

    class Attributes(ctypes.Structure):
        _fields_ = (("type", ctypes.c_uint32), ("size", ctypes.c_uint32), ("config", ctypes.c_uint64),
                    ("rest", ctypes.c_uint8 * 112))  # fmt: skip

    attributes = Attributes(type=0, size=ctypes.sizeof(Attributes), config=0)
    attributes.rest[24] = 0b01100001  # disabled, exclude_kernel, exclude_hv
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    if number is None:
        return f"perf_event_open is not known for {platform.machine()}"
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(number, ctypes.byref(attributes), 0, -1, -1, 0)
    if descriptor < 0:
        return _why(ctypes.get_errno())
    os.close(descriptor)
    return ""


def _why(error: int) -> str:
    """Return the words for an errno of perf_event_open; an event that is missing is told as a missing file."""
    return "the processor shows none, as in most virtual machines" if error == errno.ENOENT else os.strerror(error)


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
