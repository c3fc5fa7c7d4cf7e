"""Compiling what an answer needs before it is needed: in processes beside, while the program still runs.

numba compiles the simulators when they are first called on a machine, for half a minute of processor time, and keeps
what it compiled. `Ahead` has that done by two processes as soon as `perfkit why` begins, each part by a call with
(nearly) nothing to do; whoever needs a part waits for it, and finds it in numba's cache. What no process could compile
is compiled where it is called, as without any of this.

    python -m perfkit.diagnosis.ahead CORE PART...

compiles some parts, and prints the name of each when it is there.
"""

import ctypes
import gc
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import kept
from perfkit.simulators.gus import causal, timing
from perfkit.simulators.gus.blocks import static_code
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.lanes import padded
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import MemoryPass, Window
from perfkit.simulators.program.program import Program
from perfkit.trace.block import BasicBlock
from perfkit.trace.trace import Trace

_PR_SET_PDEATHSIG = 1
_CODE = bytes.fromhex("488b034883c001488903")  # mov rax,[rbx]; add rax,1; mov [rbx],rax
SHARED_OUT = (("memory", "lanes", "roofline"), ("time", "causality"))
"""Which process compiles what, in which order: what is needed first comes first."""


def _trace() -> Trace:
    code = static_code([BasicBlock(_CODE)])
    return Trace.from_parts(code, np.zeros(1, dtype=np.uint32), np.full(2, 4096, dtype=np.uint64))


def _memory(trace: Trace, core: Microarchitecture, program: Program) -> None:
    for _ in windows(trace, MemoryPass.of(trace, program, core)):
        pass


def _simulate(cores: Sequence[Microarchitecture], program: Program, spent: Any, taint: bool) -> None:
    """Simulate no instruction at all."""
    arrays, cost, now, lines = timing.begin(program, tuple(cores))
    ring = causal.ring(now, 2, np.zeros(1, dtype=np.int64), causal.seen(-1, 0)) if taint else None
    nothing: list[Any] = [np.empty(0, dtype=kind) for kind in (np.uint32, np.uint8, np.int64, np.uint32, np.uint32)]
    simulate(Window(*nothing), arrays, cost, now, lines, spent, ring)


def _roofline(trace: Trace, core: Microarchitecture) -> None:
    from perfkit.diagnosis.opinions import scheduled_part
    from perfkit.simulators.dag.relax import relax

    dag, scheduler, schedule = scheduled_part(trace, core)
    relax(dag, scheduler, schedule)


def parts(core: Microarchitecture) -> dict[str, Callable[[], None]]:
    """Return what each part's compilation is started by."""
    trace = _trace()
    program = Gus(core).program(trace)
    spent = np.zeros((len(program.slots), timing.PORTS + len(program.groups)), dtype=np.int64)
    return {
        "memory": partial(_memory, trace, core, program),
        "time": partial(_simulate, (core,), program, spent, False),
        "lanes": partial(_simulate, padded((core,)), program, None, False),
        "causality": partial(_simulate, (core,), program, None, True),
        "roofline": partial(_roofline, trace, core),
    }


def missing() -> tuple[tuple[str, ...], ...]:
    """Return what numba has not kept for this processor, as it is shared out; nothing where it cannot keep anything."""
    from perfkit.simulators.dag.engine import run
    from perfkit.simulators.memory.memory import go_through

    enough = {"memory": (go_through, 1), "roofline": (run, 1)} | dict.fromkeys(
        ("time", "lanes", "causality"), (simulate, 3)
    )
    there = {name: kept(function) for name, (function, _) in enough.items()}
    lacking = {name for name, (_, count) in enough.items() if (found := there[name]) is not None and found < count}
    return tuple(mine for each in SHARED_OUT if (mine := tuple(name for name in each if name in lacking)))


@dataclass
class Ahead:
    """The processes that compile; with nothing to do where all is there.

    Examples
    --------
    >>> with Ahead("zen4", say=print) as ahead:  # doctest: +SKIP
    ...     ahead.wait("memory", "time")
    """

    core: str
    say: Callable[[str], None]
    _works_on: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        """Start them."""
        for mine in missing():
            words = [sys.executable, "-m", "perfkit.diagnosis.ahead", self.core, *mine]
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._works_on |= dict.fromkeys(mine, process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End what is left of them: nobody waits for it."""
        for process in set(self._works_on.values()):
            process.kill()
            process.communicate()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let nothing be compiled for a while: something is timed."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def wait(self, *names: str) -> None:
        """Wait until parts are compiled, or their process has given up."""
        for name in names:
            process = self._works_on.get(name)
            if process is None or name in self._done:
                continue
            self.say("compiling the simulators, once on this machine")
            assert process.stdout is not None
            while name not in self._done and (line := process.stdout.readline()):
                self._done.add(line.strip())

    def _signal(self, number: signal.Signals) -> None:
        for process in set(self._works_on.values()):
            process.send_signal(number)


def main(core: str, names: Sequence[str]) -> None:
    """Compile parts, one after the other; print the name of each."""
    # Killed together with the process that waits for it: a stopped one would stay for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.disable()  # a compiler makes millions of objects that refer to one another, and this process ends soon
    made = parts(Microarchitecture.load(core))
    for name in names:
        made[name]()
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
