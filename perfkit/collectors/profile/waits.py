"""What a run waits for, while it does nothing: the system call that its first thread was seen in, and on what."""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.profile.watched import watched

WAITS = "it sleeps, or waits for input, output, the network, a lock that another thread holds, or another process"
"""What a run may do where it is not known what it waits for."""
IDLE = 0.3
"""Share of a run without work that is said."""
NEARLY = 0.9
"""Share of a run without work from which that is the answer: little is left to be explained."""
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
    """

    seconds: float = 0.0
    worked: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)

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


def waits_of(target: Target, seconds: float) -> Waits:
    """Run a program again, for this many seconds at most, and see what it waits for.

    Nothing is known (an idle share of 0) where ``/proc`` does not say it.
    """
    found = Waits()
    began = time.monotonic()

    def look(pid: int) -> None:
        time.sleep(_LOOK)
        here = Path(f"/proc/{pid}")
        try:
            ran, ready, _ = map(int, (here / "schedstat").read_text().split())
            state, *numbers = (here / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return
        if state == "Z":
            return
        found.seconds = time.monotonic() - began
        of_all = (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")
        found.worked = max((ran + ready) / 1e9, of_all)
        if state in "SD":
            found.seen[_waits_for(here)] += 1

    watched(target.words, seconds, target.stdin, while_running=look)
    return found


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
