"""Compiling the simulators for `perfkit.diagnosis.ahead`: each part by a call with (nearly) nothing to do.

    python -m perfkit.diagnosis.compiling CORE

compiles the parts that numba has not kept, and prints the name of each when it is there.
"""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import compiled, kept
from perfkit.simulators.gus import causal, timing
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.lanes import padded
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.gus.recurrence import simulate
from perfkit.simulators.memory.memory import MemoryPass, Window
from perfkit.simulators.program.program import Program
from perfkit.trace.block import BasicBlock
from perfkit.trace.block_trace import static_code
from perfkit.trace.trace import Trace

_PR_SET_PDEATHSIG = 1
_CODE = bytes.fromhex("488b034883c001488903")  # mov rax,[rbx]; add rax,1; mov [rbx],rax
SHARED_OUT = (("memory", "lanes", "roofline"), ("time", "causality"))
"""Which process compiles what, in which order: what is needed first comes first."""


@compiled(cache=False)
def _anything(x: Any) -> Any:  # pragma: no cover - compiled
    return x


def _trace() -> Trace:
    code = static_code([BasicBlock(_CODE)])
    return Trace.from_parts(code, np.zeros(1, dtype=np.uint32), np.full(2, 4096, dtype=np.uint64))


def _memory(trace: Trace, core: Microarchitecture, program: Program) -> None:
    for _ in windows(trace, MemoryPass.of(trace, program, core)):
        pass


def _simulate(cores: Sequence[Microarchitecture], program: Program, spent: Any, taint: bool) -> None:
    """Simulate no instruction at all."""
    arrays, cost, now, lines = timing.begin(program, tuple(cores))
    ring = causal.ring(now, 2, np.zeros(1, dtype=np.int64), np.zeros(1), causal.seen(-1, 0)) if taint else None
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


def compile_missing(core: str) -> None:
    """Compile what is missing, in one process for each of `missing`; print the name of each part.

    The processes are forks of this one, which has imported all that they need.
    """
    _end_with_parent()
    gc.disable()  # a compiler makes millions of objects that refer to one another, and this process ends soon
    lists = missing()
    lacking = {name for names in lists for name in names}
    for name in (name for names in SHARED_OUT for name in names if name not in lacking):
        _tell(name)  # it is there already
    made = parts(Microarchitecture.load(core)) if lists else {}
    if len(lists) > 1:
        _anything(0)  # with the first function, whichever it is, numba learns what it can compile
    forked, this = [], os.getpid()
    for names in lists[1:]:
        process = os.fork()
        if process == 0:
            try:
                _end_with_parent(this)
                _compile(made, names)
            finally:
                os._exit(0)
        forked.append(process)
    try:
        if lists:
            _compile(made, lists[0])
    finally:  # the others go on, whatever could not be compiled here
        for process in forked:
            os.waitpid(process, 0)


def _compile(made: dict[str, Callable[[], None]], names: Sequence[str]) -> None:
    """Compile parts, one after the other; print the name of each."""
    for name in names:
        try:
            made[name]()
        finally:  # nobody waits for what cannot be compiled
            _tell(name)


def _tell(name: str) -> None:
    """Say that a part is there; whole, beside another process that says so, too."""
    os.write(sys.stdout.fileno(), f"{name}\n".encode())


def _end_with_parent(parent: int = 0) -> None:
    """Have this process killed together with the one that waits for it: a stopped one would stay for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # it has ended before
        os._exit(1)


if __name__ == "__main__":
    compile_missing(sys.argv[1])
