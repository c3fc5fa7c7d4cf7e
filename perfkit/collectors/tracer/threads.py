"""Record every thread of a region: the cloner with buffers for each thread (x86-64)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.tracer import cloner
from perfkit.collectors.tracer.entry import MOST_THREADS
from perfkit.collectors.tracer.recording import Recording
from perfkit.errors import DataError

_CHILD = "perfkit.collectors.tracer.threads_child"
_CALLS_ROOM = 1 << 20  # bytes: 65,536 calls of a thread, each with where it begins and its phase
# Slots of a thread's own page and of the shared one: `perfkit.collectors.tracer.emit` and `.entry`.
_BLOCK_POINTER, _CALLS, _ACTIVE, _CALL_POINTER, _THREAD = 0, 24, 48, 216, 232
_NEXT, _REFUSED, _FORKED = 0, 8, 32


@dataclass(frozen=True)
class ThreadRecording:
    """What one thread recorded.

    Parameters
    ----------
    number : int
        The thread's number in the kernel's account: threads that were started later mostly have larger ones.
    recording : Recording
        What it executed of the region.
    calls : (calls, 2) int64
        Where in the stream each of its calls of the region begins, and the phase of the program then.
    unlogged : int
        Calls beyond those that `calls` has room for.
    """

    number: int
    recording: Recording
    calls: NDArray[np.int64]
    unlogged: int


def record_threads(job: cloner.Job) -> tuple[list[ThreadRecording], list[str]]:
    """Run a job and record every thread that comes to the region, the first first.

    Returns the recordings, and the names of the bodies of parallel loops that were recorded with the function.

    Raises
    ------
    Refusal, DataError, UnavailableError
        As `cloner.record` does; `DataError` for more than 64 threads, too.
    """
    return cloner.attempted(
        job, _ThreadsRun, lambda run: ((run.recordings(), list(run.static["bodies"])), run.of_all_threads())
    )


class _ThreadsRun(cloner.Child):
    """One child process whose threads have an area each."""

    module = _CHILD
    pages = 1 + MOST_THREADS
    buffers = ("blocks", "addresses", "sizes", "calls")

    def more(self) -> dict[str, Any]:
        for area in self.areas:
            os.ftruncate(area.handles["calls"], _CALLS_ROOM)
        return {"calls_size": _CALLS_ROOM}

    def environment(self, run_paths: Sequence[str]) -> dict[str, str]:
        return cloner.child_environment(run_paths, threads=True)

    def recordings(self) -> list[ThreadRecording]:
        """Return what each thread recorded, by its number.

        Raises
        ------
        DataError
            No thread came to the region, or more than there is room for.
        """
        self._kill()
        shared = cloner.Area({})
        refused, came = self._context(_REFUSED, shared), min(self._context(_NEXT, shared), MOST_THREADS)
        if self._forked():
            raise DataError(cloner.forked(self.job.function))
        if refused:
            raise DataError(
                f"{self.job.function} ran in more than {MOST_THREADS} threads (one after another, or at once): no more "
                "are recorded. Let it start fewer (OMP_NUM_THREADS), or record fewer of its calls"
            )
        found = []
        for area in self.areas[:came]:
            self.area = area
            if self._recorded_blocks():
                found.append(self._thread())
        if not found:
            self.area = self.areas[0]
            raise DataError(self._nothing())
        return sorted(found, key=lambda thread: thread.number)

    def of_all_threads(self) -> list[tuple[str, int]]:
        """List functions that threads called through pointers and that another attempt may record."""
        found: list[tuple[str, int]] = []
        for area in self.areas:
            self.area = area
            found += [each for each in self.not_yet_followed() if each not in found]
        return found

    def _thread(self) -> ThreadRecording:
        left = bool(self._context(_ACTIVE))  # without coming back
        recording = self.noting(self.cut())
        if left and not recording.stopped:
            recording = replace(recording, stopped="the thread, or the program, ended inside the region")
        start = int(self.static["call_buffers"][self.areas.index(self.area)])
        made = (self._context(_CALL_POINTER) - start) // 16
        raw = self._map("calls", 2 * min(made, _CALLS_ROOM // 16), np.int64).reshape(-1, 2).copy()
        blocks = int(self.static["block_buffers"][self.areas.index(self.area)][0])
        raw[:, 0] = (raw[:, 0] - blocks) // 4
        calls = raw[raw[:, 0] < len(recording.stream)]
        return ThreadRecording(self._context(_THREAD), recording, calls, max(0, made - len(raw)))

    def _forked(self) -> bool:
        return bool(self._context(_FORKED, cloner.Area({})))

    def _recorded_blocks(self) -> int:
        """Count the complete blocks: the one that a thread was in when it was stopped, or ended, is not."""
        if not hasattr(self, "static"):
            return 0
        start = int(self.static["block_buffers"][self.areas.index(self.area)][0])
        written = (self._context(_BLOCK_POINTER) - start) // 4
        full = self.stopped.startswith("limit") and written == self.area.capacity
        return max(written - 1, 0) if self._context(_ACTIVE) and not full else written
