"""Running a program for a limited time, with what it prints kept out of the way."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

STOPPED = "stopped"  # how `said` begins of a run that was not let to its end
_KEPT = 2000  # bytes of what a program printed last
_GRACE = 5.0  # seconds between asking a program to end and ending it


@dataclass(frozen=True)
class WatchedRun:
    """How a program ended: its status (negative: a signal), whether it was stopped, and the end of what it printed."""

    status: int
    stopped: bool
    printed: str


def watched(
    words: Sequence[str],
    seconds: float,
    stdin: Path | None = None,
    environment: Mapping[str, str] | None = None,
    first: signal.Signals = signal.SIGTERM,
    while_running: Callable[[int], None] | None = None,
) -> WatchedRun:
    """Run a command in a group of its own, and stop the whole group after this many seconds.

    Parameters
    ----------
    words, environment
        The command, and what is added to the environment.
    seconds : float
        How long it may run.
    stdin : Path, optional
        What it reads; nothing by default.
    first : Signals
        What asks the command itself to end before the group is killed.
    while_running : callable, optional
        Called with the process's number, again and again.
    """
    with tempfile.TemporaryFile() as printed:
        handle = stdin.open("rb") if stdin is not None else None
        try:
            process = subprocess.Popen(
                words, stdin=handle or subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip
        finally:
            if handle is not None:
                handle.close()
        stopped = False
        try:
            stopped = not _over(process, seconds, while_running)
            if stopped:
                process.send_signal(first)
                _over(process, _GRACE, None)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind, too
            process.wait()
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - _KEPT))
        return WatchedRun(process.returncode, stopped, printed.read().decode(errors="replace"))


def _over(process: "subprocess.Popen[bytes]", seconds: float, while_running: Callable[[int], None] | None) -> bool:
    """Wait for the end; return whether it came in time."""
    if while_running is None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    end = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() > end:
            return False
        while_running(process.pid)
    return True


def said(run: WatchedRun, seconds: float) -> str:
    """Say how a run ended; "" where it came to its end with status 0."""
    if run.stopped:
        return f"{STOPPED} after {seconds:g} s"
    if run.status < 0:
        return f"ended by {signal.Signals(-run.status).name}"
    if run.status > 128 and run.status - 128 in set(signal.Signals):
        return f"ended by {signal.Signals(run.status - 128).name}"
    return f"ended with status {run.status}" if run.status else ""
