"""Sampling with Linux's perf and its software clock, which needs no hardware counters."""

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from perfkit.collectors.profile.sampled import CodePlace, Mapped, Sampled, Target, place
from perfkit.collectors.profile.watched import said, watched
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import UnavailableError

METHOD = "perf, software clock"
RATE = 997  # samples per second; no divisor of a timer's 1,000
_MMAP = re.compile(
    r"PERF_RECORD_MMAP2? (-?\d+)/-?\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) [^\]]*\]: (\S+) (.*)$"
)
_SAMPLE = re.compile(r"^\s*(\d+)/(\d+)\s.*?([0-9a-f]+)\s*$")
_FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")
_EXEC = re.compile(r"PERF_RECORD_COMM exec: .*:(\d+)/\d+\s*$")


def sample(target: Target, seconds: float) -> Sampled:
    """Run a program for at most this many seconds and sample where it is.

    Raises
    ------
    UnavailableError
        There is no perf, or the system does not allow it here.
    """
    program = shutil.which("perf")
    if program is None:
        raise UnavailableError("perf is not installed")
    with tempfile.TemporaryDirectory(prefix="perfkit-perf-") as folder:
        data = Path(folder) / "data"
        words = [program, "record", "-q", "-e", "cpu-clock:u", "-F", str(RATE), "-o", str(data), "--", *target.words]
        began = time.monotonic()
        # perf ends the program when it is interrupted itself, and then writes what it has.
        run = watched(words, seconds, target.stdin, first=signal.SIGINT)
        spent = time.monotonic() - began
        if not data.exists() or not data.stat().st_size:
            raise UnavailableError(
                f"perf records nothing here ({run.printed.strip().splitlines()[-1:] or 'no reason'})"
            )
        listing = subprocess.run(
            [program, "script", "-i", str(data), "--show-mmap-events", "--show-task-events", "-F", "pid,tid,ip,event"],
            capture_output=True, text=True, errors="surrogateescape", check=False,
        )  # fmt: skip
    if listing.returncode:
        raise UnavailableError(f"perf cannot read what it recorded ({listing.stderr.strip()[:200]})")
    places, moments = _places(listing.stdout)
    return Sampled(METHOD, places, spent, said(run, seconds), moments=moments)


def _places(text: str) -> tuple[dict[tuple[CodePlace, int, int], int], dict[CodePlace, list[float]]]:
    """Return the samples of a listing by place, process and thread; and each place's moments.

    The clock stands still while a process does not run, or the kernel works for it: its samples are its user time.
    """
    maps: dict[int, list[Mapped]] = {}
    files: dict[str, ElfFile | None] = {}
    counts: dict[tuple[int, int, int], list[float]] = {}
    taken: Counter[int] = Counter()  # samples of each process
    moments: dict[CodePlace, list[float]] = {}
    found: Counter[tuple[CodePlace, int, int]] = Counter()

    def settle() -> None:
        """Name the samples so far, before the memory map changes under them."""
        for (pid, tid, address), when in counts.items():
            where = place(address, maps.get(pid, []), files)
            found[where, pid, tid] += len(when)
            moments.setdefault(where, []).extend(when)
        counts.clear()

    for line in text.splitlines():
        if match := _MMAP.search(line):
            pid, start, length, offset = (int(word, 0) for word in match.groups()[:4])
            if "x" in match[5]:
                settle()
                maps.setdefault(pid, []).append(Mapped(start, start + length, offset, match[6]))
        elif match := _FORK.search(line):
            child, parent = int(match[1]), int(match[2])
            if child != parent:  # else a thread
                maps[child] = list(maps.get(parent, []))
        elif match := _EXEC.search(line):
            settle()
            maps[int(match[1])] = []
        elif "PERF_RECORD" not in line and (match := _SAMPLE.match(line)):
            pid = int(match[1])
            taken[pid] += 1
            counts.setdefault((pid, int(match[2]), int(match[3], 16)), []).append(taken[pid] / RATE)
    settle()
    return dict(found), moments
