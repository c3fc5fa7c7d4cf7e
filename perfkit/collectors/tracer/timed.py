"""How long each call of a function takes in an unchanged run of its program, in core cycles (x86-64)."""

import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.tracer.child import handed
from perfkit.collectors.tracer.cloner import Refusal, child_environment, search_paths, unloadable
from perfkit.collectors.tracer.demangle import named_as
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.own_memory import interpreter
from perfkit.collectors.tracer.timed_child import (
    ACTIVE,
    CALLS,
    FAULTS,
    FS_BASE,
    LINKS,
    MET,
    MXCSR,
    OTHERS,
    POINTER,
    RETURN,
    USAGE,
    USAGE_SIZE,
)
from perfkit.errors import DataError, NeverCalledError, UnavailableError

_CHILD = "perfkit.collectors.tracer.timed_child"
_ROOM = 8 << 20  # bytes: a million calls
_LOADING = 20.0  # seconds for the child to start
_COUNTED = 0.1  # seconds of a run from which the kernel's clock, of 10 ms per tick, tells a share
_LASTING = 0.1  # seconds of a run, from which on what it waited says something
_LOOK = 0.01  # seconds between looks at how many calls there were
_ENOUGH = 20_000  # calls that tell whether a function's calls are short
# Flags of MXCSR: an operand was subnormal, a result too small to be normal; such results are flushed to zero.
_SUBNORMAL, _UNDERFLOW, _FLUSHED = 1 << 1, 1 << 4, 1 << 15
_MULTIPLY = (2, 3, 4, 5)  # cycles that a dependent multiplication may take


class _Before(NamedTuple):
    """What the child says when the run begins, in this order (``<q2d2qQd``)."""

    faults: int  # pages
    user: float  # seconds of processor time
    kernel: float
    ran: int  # nanoseconds of its first thread
    waited: int
    thread: int  # as pthread_self() calls it
    moment: float  # of time.monotonic()


@dataclass(frozen=True, eq=False)
class CallTimes:
    """The calls of a function, timed one by one.

    Attributes
    ----------
    ticks : (calls,) int64
        Ticks of the time stamp counter that each timed call took, its callees included.
    calls : int
        Calls that began, the last of which may not have ended, and of which at most a million are timed.
    others : int
        Calls in other threads, which are not timed.
    ticks_per_cycle : tuple of float
        Ticks per core cycle before the run and, where it came to its end, after it.
    overhead : float
        Ticks of two readings of the counter in a row.
    unfinished : bool
        Whether the run was stopped, or ended, within a call.
    ended : str
        How the run ended; "" if it came to its end.
    seconds : float
        How long the run took.
    returned : int
        Where the last timed call returned to, an address in the process; 0 where that is not known.
    maps : str
        The process's memory map, as ``/proc/PID/maps`` shows it, the program by its own path.
    waited : float
        Share of the run in which it was ready to go on and other programs had the processors, from 0 to 1; the ticks
        hold that time, too. 0 where the kernel does not say, and where the calls are of another thread than the first.
    faults : int
        Page faults of the run: mostly memory that was touched for the first time.
    faults_begun : tuple of int
        Those until the first and until the second call began; fewer where there were fewer calls.
    ticks_per_second : float
        Of the time stamp counter; 0 where that is not known.
    kernel : float
        Share of the run's processor time in which the kernel worked for it (system calls, page faults), from 0 to 1; 0
        where the timed calls are not most of the run.
    in_kernel : float
        As `kernel`, whichever part of the run the timed calls are.
    shared : float
        As `waited`, where the timed calls are of the first thread, and it ran, or was ready to, for most of the run:
        the share of long calls, too.
    idle : float
        Share of the run in which its first thread neither ran nor was ready to, from 0 to 1: it slept, or waited for
        input, output or others. 0 where the calls are of another thread, and of runs of less than a tenth of a second.
    subnormal : bool
        Whether SSE or AVX arithmetic first met a number below the normal range, as operand or result, within a timed
        call. False where such numbers are taken for zero, and where the program had met one before: the processor's
        flags stay set.
    brief : bool
        Whether the run was ended early, for its calls are short: how many there are, and what the run waits for, is
        not known.
    """

    ticks: NDArray[np.int64]
    calls: int
    others: int
    ticks_per_cycle: tuple[float, ...]
    overhead: float
    unfinished: bool
    ended: str
    seconds: float
    returned: int = 0
    maps: str = ""
    waited: float = 0.0
    faults: int = 0
    faults_begun: tuple[int, ...] = ()
    ticks_per_second: float = 0.0
    shared: float = 0.0
    kernel: float = 0.0
    idle: float = 0.0
    subnormal: bool = False
    in_kernel: float = 0.0
    brief: bool = False

    @property
    def cycles_per_second(self) -> float:
        """The clock rate at which the run was timed; 0 where it is not known."""
        return self.ticks_per_second / float(np.mean(self.ticks_per_cycle))

    @property
    def cycles(self) -> NDArray[np.float64]:
        """Core cycles of each timed call."""
        return np.maximum(self.ticks - self.overhead, 0) / float(np.mean(self.ticks_per_cycle))

    def faults_in(self, skip: int, count: int) -> float:
        """Return about how many page faults fall to so many calls, and what comes between them, behind skipped ones.

        Those before the first call are none of them, and those of the first call, which often touches memory for the
        first time, are told apart; the others are taken to fall to the later calls evenly.
        """
        calls = max(self.calls, len(self.ticks))
        if not self.faults_begun or not calls:
            return self.faults * count / max(calls, 1)
        first, second = self.faults_begun[0], self.faults_begun[-1] if len(self.faults_begun) > 1 else self.faults
        later = (self.faults - second) / max(calls - 1, 1)
        return max(0.0, (second - first) * (skip == 0) + later * (count - (skip == 0)))


def time_calls(
    program: Path,
    function: str,
    arguments: Sequence[str] = (),
    *,
    library: str = "",
    stdin: Path | None = None,
    seconds: float = 3.0,
    calls: int = 0,
    environment: Mapping[str, str] | None = None,
    least: float = 0.0,
) -> CallTimes:
    """Run a program and time the calls of one of its functions, or of a function of a library that it loads.

    Parameters
    ----------
    program, function, arguments
        What to run, a program or a Python script (``.py``), and the function's symbol.
    library : str
        The library that holds the function, where it is not the program itself.
    stdin : Path, optional
        What the program reads; nothing by default.
    seconds : float
        Stop the run after so long.
    calls : int
        Stop the run after this many calls; 0: let it run to its end.
    environment : mapping of str to str, optional
        Variables that are set for the run.
    least : float
        Stop the run as soon as half of many calls took fewer cycles than this (``brief``).

    Raises
    ------
    Refusal
        The function cannot be timed this way, with why.
    UnavailableError
        The system forbids what is needed.
    DataError
        The function was never called.
    """
    handles = {name: os.memfd_create(f"perfkit-{name}", 0) for name in ("context", "ticks")}
    os.ftruncate(handles["context"], 4096)
    os.ftruncate(handles["ticks"], _ROOM)
    try:
        specification = {
            "function": function, "library": library, "arguments": list(arguments), "room": _ROOM, **handles,
        }  # fmt: skip
        began = time.monotonic()
        enough = partial(_called, handles["context"], calls) if calls else None
        if least:
            enough = partial(_are_short, handles, least)
        made = program_child(_CHILD, program, specification, stdin, [*handles.values()], environment)
        with made as (process, channel, printed):
            kept: dict[bytes, bytes] = {}
            found, ended = messages(channel, process, began + seconds + _LOADING, seconds, enough, kept)
            brief = bool(least) and len(found) == 1 and not ended
            maps = kept[b"M"].decode(errors="surrogateescape") if b"M" in kept else _maps(process.pid)
            maps = maps.replace(str(printed.parent.resolve() / "program.so"), str(program.resolve()))
            text = tail(printed)
            before = _Before(*struct.unpack("<q2d2qQd", kept[b"P"])) if b"P" in kept else None
            lasted = time.monotonic() - before.moment if before else 0.0
            waited, ready = _waited(process.pid, before)
            faults, kernel = _for_it(process.pid, before)
        times = _read(handles, found, ended, time.monotonic() - began, program.name, function, text)
        rate = struct.unpack("<d", kept[b"H"])[0] if b"H" in kept else 0.0
        is_first = before is not None and _owner(handles["context"]) == before.thread
        waited = waited if is_first else 0.0
        idle = max(0.0, 1 - ready / lasted) if is_first and ready and lasted > _LASTING else 0.0
        shared = waited if ready > lasted / 2 else 0.0
        is_most = bool(rate) and times.ticks.sum() / rate > lasted / 2
        in_kernel, kernel = kernel, kernel if is_most else 0.0
        flags, now = (struct.unpack("<I", os.pread(handles["context"], 4, at))[0] for at in (MET, MXCSR))
        begun = _faults_begun(handles["context"], before, times.calls)
        return replace(
            times, maps=maps, waited=waited, faults=faults, faults_begun=begun, ticks_per_second=rate, shared=shared,
            kernel=kernel, in_kernel=in_kernel, idle=idle, brief=brief,
            subnormal=bool(flags & _SUBNORMAL or (flags & _UNDERFLOW and not now & _FLUSHED)),
        )  # fmt: skip
    finally:
        for handle in handles.values():
            os.close(handle)


@contextmanager
def program_child(
    module: str,
    program: Path,
    specification: dict[str, Any],
    stdin: Path | None,
    handles: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple["subprocess.Popen[bytes]", int, Path]]:
    """Start a process that loads a program and does with it what a module says; end it, and what it started.

    Of a Python script (``.py``) it loads the library that the specification names, and runs the script itself.

    Yields the process, the channel that its messages come through, and the file that the program prints to.

    Raises
    ------
    Refusal
        The program cannot be loaded by another process, with why.
    """
    script = program.suffix == ".py"
    elf = ElfFile(specification["library"] if script else program)
    if not script and (why_not := unloadable(elf)):
        raise Refusal(why_not)
    channel, to_parent = os.pipe()
    process = None
    try:
        with TemporaryDirectory(prefix="perfkit-timed-") as scratch:
            printed = Path(scratch) / "output"
            specified, argument = handed({
                "path": str(elf.path.resolve()), "program": True, "scratch": scratch, "channel": to_parent,
                "script": str(program.resolve()) if script else "", **specification,
            })  # fmt: skip
            with (
                os.fdopen(specified),
                printed.open("wb") as output,
                (stdin or Path(os.devnull)).open("rb") as source,
            ):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, argument],
                    stdin=source, stdout=output, stderr=subprocess.STDOUT, pass_fds=[to_parent, specified, *handles],
                    env=child_environment(search_paths(elf), script=script) | dict(environment or {}),
                    start_new_session=True,
                    executable=sys.executable if script else interpreter(elf, Path(scratch)),
                )  # fmt: skip
            os.close(to_parent)
            to_parent = -1
            try:
                yield process, channel, printed
            finally:
                end_group(process)
    finally:
        for handle in (channel, *([to_parent] if to_parent >= 0 else [])):
            os.close(handle)


def tail(printed: Path) -> str:
    """Return the end of what a program printed."""
    return printed.read_bytes()[-500:].decode(errors="replace").strip()


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process and whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def messages(
    channel: int,
    process: "subprocess.Popen[bytes]",
    deadline: float,
    seconds: float,
    enough: Callable[[tuple[int, ...]], bool] | None,
    kept: dict[bytes, bytes] | None = None,
) -> tuple[list[tuple[int, ...]], str]:
    """Return the clock's readings and how the run ended; what else was told goes into `kept`, by its kind."""
    readings: list[tuple[int, ...]] = []
    status, done, buffer = 0, False, b""
    while True:
        left = deadline - time.monotonic()
        ready = left > 0 and select.select([channel], [], [], left if enough is None else min(left, _LOOK))[0]
        if not ready and enough is not None and left > _LOOK:
            if readings and enough(
                readings[0]
            ):  # on a busy machine the calls may be over before the first reading is read
                return readings, ""
            continue
        if not ready:
            return readings, f"stopped after {seconds:g} s"
        data = os.read(channel, 1 << 16)
        if not data:
            break
        buffer += data
        while len(buffer) >= 5 and len(buffer) >= 5 + (length := struct.unpack_from("<I", buffer, 1)[0]):
            kind, payload, buffer = buffer[:1], buffer[5 : 5 + length], buffer[5 + length :]
            if kind == b"R":
                raise Refusal(payload.decode())
            if kind == b"L":
                raise DataError(payload.decode())
            if kind == b"E":
                raise UnavailableError(f"calls cannot be timed here: {payload.decode()}")
            if kind == b"C":
                readings.append(struct.unpack("<3q", payload))
                deadline = min(deadline, time.monotonic() + seconds)
            elif kind == b"X":
                (status,) = struct.unpack("<i", payload)
            elif kept is not None:
                kept[kind] = payload
            done |= kind == b"D"
    if not done:
        code = process.wait()
        if code < 0:
            return readings, f"ended by {signal.Signals(-code).name}"
        return readings, f"ended with status {code}" if code else ""
    return readings, f"ended with status {status}" if status else ""


def _maps(pid: int) -> str:
    """Return a process's memory map; nothing where it has ended in the meantime."""
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return ""


def _waited(pid: int, before: _Before | None) -> tuple[float, float]:
    """Return the share of a run that a process's first thread waited for a processor, and the run in its seconds.

    ``before`` is what it had run and waited when the run began. Zeros where that is not known.
    """
    if before is None:
        return 0.0, 0.0
    try:
        ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    except (OSError, ValueError):
        return 0.0, 0.0
    ran, waited = ran - before.ran, waited - before.waited
    return waited / max(ran + waited, 1), (ran + waited) / 1e9


def _owner(context: int) -> int:
    """Return the thread whose calls were timed, as pthread_self() calls it."""
    (owner,) = struct.unpack("<Q", os.pread(context, 8, FS_BASE))
    return int(owner)


def _for_it(pid: int, before: _Before | None) -> tuple[int, float]:
    """Return a run's page faults, and the share of its processor time in which the kernel worked for it.

    ``before`` is what the process had used of them when the run began. Zeros where that is not known.
    """
    if before is None:
        return 0, 0.0
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        faults, ticks = int(numbers[7]), (int(numbers[11]), int(numbers[12]))
    except (OSError, ValueError, IndexError):
        return 0, 0.0
    spent = [
        max(0.0, each / os.sysconf("SC_CLK_TCK") - was)
        for each, was in zip(ticks, (before.user, before.kernel), strict=True)
    ]
    return max(0, faults - before.faults), spent[1] / sum(spent) if sum(spent) > _COUNTED else 0.0


def _faults_begun(context: int, before: _Before | None, calls: int) -> tuple[int, ...]:
    """Return a run's page faults until its first and its second call began."""
    if before is None:
        return ()
    at = [USAGE + k * USAGE_SIZE + FAULTS for k in range(min(calls, 2))]
    return tuple(max(0, struct.unpack("<q", os.pread(context, 8, one))[0] - before.faults) for one in at)


def _called(context: int, calls: int, _reading: tuple[int, ...] = ()) -> bool:
    """Whether this many calls have returned."""
    begun, active = (struct.unpack("<Q", os.pread(context, 8, at))[0] for at in (CALLS, ACTIVE))
    return bool(begun - bool(active) >= calls)


def _are_short(handles: dict[str, int], least: float, reading: tuple[int, ...]) -> bool:
    """Whether half of many calls took fewer cycles than this, by the clock's reading before the run."""
    if not _called(handles["context"], _ENOUGH):
        return False
    ticks = np.frombuffer(os.pread(handles["ticks"], 8 * _ENOUGH, 0), dtype=np.int64)
    return bool(np.median(ticks) - reading[2] < least * _per_cycle(*reading))


def _read(
    handles: dict[str, int], readings: list[tuple[int, ...]], ended: str, seconds: float, program: str, function: str,
    printed: str,
) -> CallTimes:  # fmt: skip
    with mmap.mmap(handles["context"], 4096) as page:
        active, calls, pointer, others, returned = (
            struct.unpack_from("<Q", page, at)[0] for at in (ACTIVE, CALLS, POINTER, OTHERS, RETURN)
        )
    if not readings:
        raise UnavailableError(f"the process that was to time {function} failed ({ended}). It printed: {printed}")
    if not calls and not others:
        how = f" (the run was {ended})" if ended else ""
        raise NeverCalledError(
            f"{program} never called {named_as(function)}{how}; {NeverCalledError.WHY}. "
            f"{f'It printed: {printed}' if printed else ''}".strip()
        )
    timed = min(calls - bool(active), _ROOM // 8)
    data = np.frombuffer(os.pread(handles["ticks"], 8 * max(timed, 0), 0), dtype=np.int64)
    del pointer
    return CallTimes(
        data, calls, others, tuple(_per_cycle(*one) for one in readings), float(readings[0][2]), bool(active), ended,
        seconds, returned,
    )  # fmt: skip


def _per_cycle(additions: int, multiplications: int, nothing: int) -> float:
    """Return ticks per cycle by a chain of multiplications, whose length in cycles the chain of additions tells.

    A neighbour on the same core slows additions now and then, a chain of multiplications hardly ever.
    """
    ratio = (multiplications - nothing) / max(additions - nothing, 1)
    link = min(_MULTIPLY, key=lambda cycles: abs(cycles - ratio))
    return (multiplications - nothing) / LINKS / link
