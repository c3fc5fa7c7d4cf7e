"""Compiling what an answer needs before it is needed: in processes beside, while the program still runs.

numba compiles the simulators when they are first called on a machine, for half a minute of processor time, and keeps
what it compiled. `Ahead` has that done by two processes (`perfkit.diagnosis.compiling`) as soon as `perfkit why`
begins; whoever needs a part waits for it, and finds it in numba's cache. What no process could compile is compiled
where it is called, as without any of this. Nothing is imported here that takes long: they begin before that.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from perfkit.base.files import module_path

_SIMULATORS = Path(__file__).parents[1] / "simulators"
_KEPT = "recurrence.simulate-*.nbi"  # numba's list of what it keeps of the largest part
ALL = ("memory", "time", "lanes", "causality", "roofline")


def never_compiled() -> bool:
    """Whether numba has kept nothing yet, as far as its folders show it: without numba, whose import takes long.

    Only to begin early: what is missing is found out by those who begin.
    """
    own = _SIMULATORS / "gus" / "__pycache__"
    if not os.access(own if own.exists() else own.parent, os.W_OK):  # then it is kept in some folder of the user's
        return False
    folders = (Path(os.environ.get("NUMBA_CACHE_DIR") or own), _SIMULATORS / "_compiled")
    return not any(next(folder.rglob(_KEPT), None) for folder in folders)


@dataclass
class Ahead:
    """The processes that compile; with nothing to do where all is there.

    Entered early, it starts them where nothing was ever compiled; `start` does where anything is missing.

    Examples
    --------
    >>> with Ahead("zen4", say=print) as ahead:  # doctest: +SKIP
    ...     ahead.start()
    ...     ahead.wait("memory", "time")
    """

    core: str
    say: Callable[[str], None]
    _process: subprocess.Popen[str] | None = None
    _done: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        """Start them, if nothing was ever compiled."""
        if self._process is None and never_compiled():
            self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End what is left of them: nobody waits for it."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def start(self) -> None:
        """Start them, unless that was done, or nothing is missing."""
        from perfkit.diagnosis.compiling import missing

        if self._process is None and missing():
            self._start()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let nothing be compiled for a while: something is timed, or waited for."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def wait(self, *names: str) -> None:
        """Wait until parts are compiled, or their process has given up."""
        if self._process is None or self._done.issuperset(names):
            return
        self.say("compiling the simulators, once on this machine")
        assert self._process.stdout is not None
        while not self._done.issuperset(names) and (line := self._process.stdout.readline()):
            self._done.add(line.strip())

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "perfkit.diagnosis.compiling", self.core],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # One thread each: it forks.
            env=os.environ | {"PYTHONPATH": module_path(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            process_group=0,  # it and its fork rest, and end, together
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(self._process.pid, number)
