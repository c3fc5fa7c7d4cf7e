"""Begin a recording in the middle of a call: the original code runs until then, at full speed (x86-64).

When so much processor time has passed, the first byte of each basic block becomes a breakpoint. Whichever is met first
ends the wait: all get their bytes back, and the thread goes on in the recording copy, which has the same registers and
the same stack. What the function itself returns to is not recorded.
"""

import os
import struct
import time
from collections.abc import Iterable, Sequence
from mmap import mmap
from pathlib import Path

from perfkit.collectors.tracer.emit import ACTIVE, BLOCK_POINTER, CALLS, LATE

_BREAKPOINT = b"\xcc"  # int3: one byte, so that no thread can meet half of it
_ENTRY_FIRST = 0.3  # seconds of processor time after which blocks of called functions are waited for, too
_VIRTUAL = 1  # of a process's clocks, whose numbers Linux makes of its own: user time
LOOK = 0.002  # seconds between looks at that
_LEFT = 0.3  # seconds of processor time without a recorded block: the function has returned


class Late:
    """Where the recording of a running process begins.

    Parameters
    ----------
    pid : int
        The process.
    context : mmap
        The page that it shares with this one.
    starts : sequence of (address, copy, own)
        Of each basic block: where it begins, where its copy does, and whether it is of the function that was asked for.
    after : float
        Seconds of user time, from now on.
    """

    def __init__(self, pid: int, context: mmap, starts: Sequence[tuple[int, int, bool]], after: float) -> None:
        self._pid, self._context = pid, context
        self._copies = {start: copy for start, copy, _ in starts}
        self._own = {start for start, _, own in starts if own}
        self._before: dict[int, bytes] = {}
        self._due = self._seconds() + after
        self._pointer, self._moved = 0, 0.0
        self.begun = False

    @property
    def waits(self) -> bool:
        """Whether breakpoints are set."""
        return bool(self._before)

    def look(self) -> bool:
        """Set breakpoints when it is time; return whether what was recorded is over."""
        now = self._seconds()
        if self.begun:
            pointer = struct.unpack_from("<Q", self._context, BLOCK_POINTER)[0]
            if pointer != self._pointer:
                self._pointer, self._moved = pointer, now
            return now > self._moved + _LEFT
        if now >= self._due + _ENTRY_FIRST:
            self._set(self._copies)
        elif now >= self._due:
            self._set(self._own)
        return False

    def trapped(self, address: int) -> bool:
        """Let a process that has met the breakpoint at an address go on in the copy; False if it is none of ours."""
        if address not in self._before:
            return False
        self.end()
        self.begun, self._moved = True, self._seconds()
        for offset, value in ((CALLS, 1), (ACTIVE, 1), (LATE, self._copies[address])):
            struct.pack_into("<Q", self._context, offset, value)
        return True

    def end(self) -> None:
        """Take the breakpoints back."""
        with Path(f"/proc/{self._pid}/mem").open("r+b", buffering=0) as memory:
            for address, byte in self._before.items():
                os.pwrite(memory.fileno(), byte, address)
        self._before.clear()

    def _set(self, addresses: Iterable[int]) -> None:
        with Path(f"/proc/{self._pid}/mem").open("r+b", buffering=0) as memory:
            for address in sorted(set(addresses) - self._before.keys()):
                self._before[address] = os.pread(memory.fileno(), 1, address)
                os.pwrite(memory.fileno(), _BREAKPOINT, address)

    def _seconds(self) -> float:
        """Return the user time of the process; 0 where it has ended."""
        try:
            return time.clock_gettime(~self._pid << 3 | _VIRTUAL)
        except OSError:
            return 0.0
