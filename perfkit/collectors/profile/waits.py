"""What a run waits for while it does nothing, and what it asks the kernel and libraries for while it works."""

import os
import signal
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.profile.watched import watched
from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.collectors.tracer.lines import places_of
from perfkit.errors import listed

WAITS = "it sleeps, or waits for input, output, the network, a lock that another thread holds, or another process"
"""What a run may do where it is not known what it waits for."""
IDLE = 0.3
"""Share of a run without work that is said."""
NEARLY = 0.9
"""Share of a run without work from which that is the answer: little is left to be explained."""
IN_KERNEL = 0.2
"""Share of a run's processor time, from which the kernel's work is told."""
_LOOK = 0.01  # seconds between two looks
_LEAST = 0.1  # seconds: a shorter run is mostly starting
_MOST = 0.5  # of the looks at a run that waits: what it was seen waiting for in fewer is not all
# System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl) by what is waited for in them.
_FOR = {
    "another process": (58, 61, 247),  # vfork, wait4, waitid
    "a lock that another thread holds, or another thread": (202,),  # futex
    "input or the network": (7, 23, 232, 270, 271, 281, 441),  # poll, select, epoll_wait and their relatives
    "the network": (42, 43, 44, 45, 46, 47, 288, 299),  # connect, accept, sendto, recvfrom, sendmsg, recvmsg
    "the disk": (74, 75, 162),  # fsync, fdatasync, sync
    "a signal": (34, 128, 130),  # pause, rt_sigtimedwait, rt_sigsuspend
}
_SLEEPS = (35, 230)  # nanosleep, clock_nanosleep
_STACK = 1 << 16  # bytes of a stack that are looked at
_STOPPING = 0.02  # seconds for a process to stop
_PLACES, _SHARE = 3, 0.05  # lines that are told, and what they have at least
_LITTLE = 16_384  # bytes: what moves less in a system call is mostly the call
_LOOKS = 20  # that shares are told from
_READS, _WRITES = (0, 17, 19, 295), (1, 18, 20, 296)  # read, pread64, readv, preadv; write and its relatives


@dataclass
class Waits:
    """Of one run: how long it was watched, how long it worked, and what its first thread was seen waiting for.

    Attributes
    ----------
    seconds : float
        How long it ran, or was let run.
    worked : float
        Seconds in which it ran, or was ready to and other programs had the processors; all threads' processor time
        where that is more.
    seen : Counter
        Looks at which it did not run, by what it waited for ("": not known).
    kernel : float
        Share of its processor time in which the kernel worked for it, from 0 to 1.
    read, written : (calls, bytes)
        What it read and wrote, files, pipes and terminals together; zeros where that is not known.
    asked : Counter
        Looks at which its first thread ran, by the program's own address that it was at, or that what it called returns
        to, as objdump prints it.
    """

    seconds: float = 0.0
    worked: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    kernel: float = 0.0
    read: tuple[int, int] = (0, 0)
    written: tuple[int, int] = (0, 0)
    asked: Counter[int] = field(default_factory=Counter)

    @property
    def idle(self) -> float:
        """Share of the run in which it did nothing, from 0 to 1; 0 of runs of less than a tenth of a second."""
        return max(0.0, 1 - self.worked / self.seconds) if self.seconds >= _LEAST else 0.0

    def told(self, name: str) -> str:
        """Say that a program waits, and what for as far as that is known; "" where it hardly does."""
        if self.idle < IDLE:
            return ""
        most, looks = self.seen.most_common(1)[0] if self.seen else ("", 0)
        what = f"most of that {most}" if most and looks >= _MOST * self.seen.total() else WAITS
        answer = ". That is the answer: what it waits for decides, and hardly its own code" * (self.idle >= NEARLY)
        return f"For {self.idle:.0%} of its {self.seconds:.1f} s {name} does nothing: {what}{answer}"

    def asked_told(self, program: Path) -> str:
        """Say how much the kernel works for a program, and which lines of it most of the run is asked for by.

        "" where the kernel does little and too few looks tell the lines.
        """
        said = []
        if self.kernel >= IN_KERNEL:
            said.append(
                f"{self.kernel:.0%} of {program.name}'s processor time is the kernel's work for it, which is not "
                "simulated"
            )
            moved = [
                f"{what} {size / 1e6:,.0f} MB in {calls:,} calls of {size / calls:,.0f} bytes"
                for what, (calls, size) in (("reads", self.read), ("writes", self.written))
                if calls >= _LOOKS and size >= 1e6
            ]
            if moved:
                few = ": larger buffers mean fewer calls" if self._moves_little else ""
                said.append(f"It {listed(moved)}{few}")
        total = self.asked.total()
        if total >= _LOOKS:
            known = places_of(program, [each - 1 for each in self.asked])
            by_place: Counter[str] = Counter()
            for at, looks in self.asked.items():
                file, line = known.get(at - 1, ("", 0))
                by_place[f"{Path(file).name}:{line}{_text(file, line)}" if line else f"{at - 1:#x}"] += looks
            most = [
                f"{looks / total:.0%} at {place}"
                for place, looks in by_place.most_common(_PLACES)
                if looks >= _SHARE * total
            ]
            said.append(f"The run, with all that is called from there, by {total} looks: {listed(most)}")
        return ". ".join(said)

    @property
    def _moves_little(self) -> bool:
        """Whether the calls that read, or those that write, move little each, so that most of one is its own cost."""
        return any(calls >= _LOOKS and size < _LITTLE * calls for calls, size in (self.read, self.written))


def _text(file: str, line: int) -> str:
    """Return a source line in brackets; "" where the file does not lie where the debug information says."""
    try:
        return f" ({Path(file).read_text(errors='replace').splitlines()[line - 1].strip()[:60]})"
    except (OSError, IndexError):
        return ""


def waits_of(target: Target, seconds: float) -> Waits:
    """Run a program again, for this many seconds at most, and see what it waits for, and what it asks for.

    Nothing is known (an idle share of 0) where ``/proc`` does not say it.
    """
    found = Waits()
    began = time.monotonic()
    stopped = 0.0  # seconds, of our making

    def look(pid: int) -> None:
        nonlocal stopped
        time.sleep(_LOOK)
        here = Path(f"/proc/{pid}")
        try:
            ran, ready, _ = map(int, (here / "schedstat").read_text().split())
            state, *numbers = (here / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return
        if state == "Z":
            return
        found.seconds = time.monotonic() - began - stopped
        user, kernel = int(numbers[10]), int(numbers[11])
        found.kernel = kernel / max(user + kernel, 1)
        found.read, found.written = _moved(here)
        if state == "R" and not target.script:
            begins = time.monotonic()
            if at := _asked_from(pid, target.program.resolve()):
                found.asked[at] += 1
            stopped += time.monotonic() - begins
        of_all = (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")
        found.worked = max((ran + ready) / 1e9, of_all)
        if state in "SD":
            found.seen[_waits_for(here)] += 1

    watched(target.words, seconds, target.stdin, while_running=look)
    return found


def _moved(process: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the calls and bytes that a process has read and written; zeros where that is not known."""
    try:
        rows = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
        return (int(rows["syscr"]), int(rows["rchar"])), (int(rows["syscw"]), int(rows["wchar"]))
    except (OSError, ValueError, KeyError):
        return (0, 0), (0, 0)


def _asked_from(pid: int, program: Path) -> int:
    """Return the program's own address that a running process's first thread is at, or will return to; 0 if unknown.

    The process is stopped for the look. What lies on its stack nearest to the top, in the program's code and behind a
    call, is where the library's function that it is in was called. As objdump prints it, plus one where it is at it.
    """
    here = Path(f"/proc/{pid}")
    try:
        os.kill(pid, signal.SIGSTOP)
        try:
            end = time.monotonic() + _STOPPING
            while (here / "stat").read_text().rpartition(")")[2].split()[0] != "T":
                if time.monotonic() > end:
                    return 0
            words = (here / "syscall").read_text().split()
            pointer, at = (int(word, 16) for word in words[-2:])
            rows = [row.split(maxsplit=5) for row in (here / "maps").read_text().splitlines()]
            mine = [row for row in rows if len(row) > 5 and row[5] == str(program)]
            code = [tuple(int(each, 16) for each in row[0].split("-")) for row in mine if "x" in row[1]]
            load = int(mine[0][0].split("-")[0], 16) if elf_as_it_is(program).is_relocatable else 0
            if any(start <= at < stop for start, stop in code):
                return at - load + 1
            with (here / "mem").open("rb", buffering=0) as memory:
                stack = os.pread(memory.fileno(), _STACK, pointer)
                for (word,) in struct.iter_unpack("<Q", stack[: len(stack) // 8 * 8]):
                    inside = any(start + 8 <= word < stop for start, stop in code)
                    if inside and _is_behind_call(os.pread(memory.fileno(), 7, word - 7)):
                        return word - load
        finally:
            os.kill(pid, signal.SIGCONT)
    except (OSError, ValueError, IndexError):  # it has ended, or may not be looked at
        return 0
    return 0


def _is_behind_call(before: bytes) -> bool:
    """Whether what lies before an address may be a call (Intel SDM 2: CALL, E8 cd and FF /2)."""
    return before[-5] == 0xE8 or any(
        before[-size] == 0xFF and before[-size + 1] >> 3 & 7 == 2 for size in (2, 3, 4, 6, 7)
    )


def _waits_for(process: Path) -> str:
    """Return what the first thread of a process waits for; "" where that is not known."""
    try:
        number, first, *_ = (process / "syscall").read_text().split()
        call = int(number)
        if call in _READS + _WRITES:
            file = (process / "fd" / str(int(first, 16))).readlink()
            kind = str(file).partition(":")[0]
            on = {"pipe": "a pipe (another process)", "socket": "a socket (the network, or another process)"}
            what = on.get(kind, str(file))
            return f"waiting for input from {what}" if call in _READS else f"waiting for {what} to take its output"
    except (OSError, ValueError):  # it runs again, has ended, or may not be looked at
        return ""
    if call in _SLEEPS:
        return "sleeping"
    return next((f"waiting for {what}" for what, calls in _FOR.items() if call in calls), "")
