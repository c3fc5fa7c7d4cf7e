"""The measuring process: one program that loads and times variants, restarted when a kernel kills it."""

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from perfkit.errors import PerfkitError, UnavailableError
from perfkit.study.parts import Limits

# perf_event_open's type and config of the events that can be asked for by name.
EVENTS = {
    "cycles": (0, 0), "instructions": (0, 1), "cache-references": (0, 2), "cache-misses": (0, 3), "branches": (0, 4),
    "branch-misses": (0, 5), "bus-cycles": (0, 6), "stalled-cycles-frontend": (0, 7), "stalled-cycles-backend": (0, 8),
    "ref-cycles": (0, 9), "cpu-clock": (1, 0), "task-clock": (1, 1), "page-faults": (1, 2), "context-switches": (1, 3),
    "cpu-migrations": (1, 4), "minor-faults": (1, 5), "major-faults": (1, 6),
}  # fmt: skip


_STARTS_WITHIN = 20  # seconds
# How a kernel may end that got no memory: it used what it did not get, or gave up.
_STARVED = ("SIGSEGV", "SIGBUS", "SIGABRT")
_LIBRARY = re.compile(r"^\S+\.so: ")  # what the loader's messages begin with
_PROGRAMS_END = re.compile(r"^error the program crashed: signal (\d+)$")
_SANITIZER = re.compile(rb"lib(?:a|hwa|l|t|ub)san\.so")
# What may have led to a crash, by its signal.
_HINTS = {
    "SIGXFSZ": "it wrote a file larger than the study's `limits` allow",
    "SIGSEGV": "an access outside of its memory, of which `memory` says how much there is",
    "SIGILL": "an instruction that this processor does not have, or a trap where the compiler saw undefined behaviour",
    "SIGTRAP": "a breakpoint: int3, or a trap of the compiler's",
    "SIGFPE": "a division by zero, or a quotient too large for its register: set the operands first",
}
_OF_PROGRAMS = {"SIGSEGV": "an access outside of its memory, or more stack than it has"}
_OF_LISTS = (
    "a list of instructions runs many times in a row, so that a push, a pop or an address that moves on runs out of "
    "it: undo it in the same list; or an instruction that the operating system alone may run (hlt, in, out, rdmsr), or "
    "an operand that is not aligned as its instruction wants it"
)


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started in here for as long as they live; it reaches this one afterwards.

    A terminal interrupts all processes of a program. Workers that it meets in their imports would each print where;
    this process stops them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class KernelError(PerfkitError):
    """A kernel that crashed, hung or spoiled the answers: the message says which."""


@dataclass(frozen=True)
class Run:
    """One run of an experiment: figures per execution of the region, NaN where unknown.

    `kept` of `tried` windows lay between two calibration chains that agree; with none kept, `cycles` is NaN.
    `quiet` of them lay beside no busy neighbour: where there are any, they are the ones that are kept. `level` is what
    a step of the probe took beside them, in cycles.
    """

    tsc: float
    ns: float
    cycles: float
    event: float
    kept: int
    tried: int
    quiet: int
    level: float


@dataclass(frozen=True)
class Grain:
    """The steps in which the time stamp counter advances: ticks, cycles; whether a region's own marks read it."""

    ticks: float
    cycles: float
    marks: bool


@dataclass(frozen=True)
class Bias:
    """What the readings of the clock leave open: cycles per execution.

    The truth may lie up to `below` and `above` beside a figure, and anywhere from 0 where that is at most `nothing`,
    which is NaN where no quiet moment was found to tell what they take.
    """

    below: float
    above: float
    nothing: float


@dataclass(frozen=True)
class Experiment:
    """The answer to one request.

    Parameters
    ----------
    steps : int
        Executions in a window.
    runs : tuple of Run
        The repetitions.
    reports : dict
        What the kernel reported.
    sentinel : float
        Cycles that a multiplication of a known kernel took beside the runs, 1 on a core of one's own; NaN if its chains
        never agreed.
    apart : float, optional
        Cycles of an execution that began when the one before had ended; NaN: unknown; None: so did those of the runs.
    grain : Grain, optional
        The steps of the counter, where the windows are few of these long.
    bias : Bias, optional
        What the readings around what is timed leave open.
    lost : float
        The share of the time that interrupts took, where windows are so long that some meet each.
    varies : float
        By how much longer than the tenth of all quiet windows these took on average, relative, without the longest few,
        which interrupts may have met.
    average, average_cycles : float
        That average, of an execution, in TSC ticks and in cycles. 0: unknown.
    rare : tuple of float
        Whether windows were timed in a row with chains (1) or apart (0); of the windows: their number, what the long
        ones take more than the middle one, relative, as a sum, and the sum of its squares, both without the longest
        three, and these; and the same of chains, which interrupts alone make longer. Empty: unknown.
    gave : (int, int)
        How often the thread gave the processor up by itself, in how many executions; zeros: it did not, or has others
        beside it.
    later : float
        Cycles of an execution in windows in a row that came after all runs, the mean without the longest in thirty.
        0: unknown, as in a cold study and of programs.
    unflushed : float
        Cycles of an execution of a cold region behind a flush of other memory. 0: unknown, as with a PK_FLUSH.
    pairs : (float, float), optional
        How many pairs of marks are in an execution on average, and the relative standard error of that, where not all
        windows have as many.
    """

    steps: int
    runs: tuple[Run, ...]
    reports: dict[str, float]
    sentinel: float = math.nan
    apart: float | None = math.nan
    grain: Grain | None = None
    bias: Bias | None = None
    lost: float = 0.0
    varies: float = 0.0
    rare: tuple[float, ...] = ()
    gave: tuple[int, int] = (0, 0)
    later: float = 0.0
    pairs: tuple[float, float] | None = None
    average: float = 0.0
    average_cycles: float = 0.0
    unflushed: float = 0.0


@dataclass(frozen=True)
class Request:
    """What to measure, as measure.c reads it; `marks` that stand in the object must be reached; `code`: of `Built`.

    `program`: a whole one, with its own main(), which each window starts anew.
    """

    object: str
    variant: str
    repetitions: int
    windows: int
    steps: int | None
    warmup: int
    cold: bool
    memory: int
    huge: bool
    threads: int
    apart: bool = False
    marks: bool = False
    code: int = 0
    program: bool = False
    event: str | None = None

    def line(self, event: tuple[int, int]) -> str:
        """Return the request's line."""
        numbers = (
            self.repetitions,
            self.windows,
            self.steps or 0,
            self.warmup,
            int(self.cold),
            self.memory,
            int(self.huge),
            self.threads,
            int(self.apart),
            int(self.marks),
            self.code,
            int(self.program),
        )
        return " ".join(map(str, (self.object, self.variant, *numbers, *event))) + "\n"


class MeasuringProcess:
    """A running measuring process, pinned to `cpus`; use it as a context manager.

    Parameters
    ----------
    program : Path
        The compiled measure.c.
    folder : Path
        Where it runs: objects are named relative to it.
    cpus : sequence of int
        CPUs to pin to.
    threads : int
        OpenMP threads, one per CPU.
    fifo : bool
        Ask for the FIFO scheduling class.
    limits : Limits, optional
        Of address space and files.
    level : float
        What a step of the probe was seen to take on this core when quiet, in cycles; 0: unknown.
    lists : bool
        Whether what it runs are lists of instructions, which crash in their own ways.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        cpus: Sequence[int],
        threads: int = 1,
        fifo: bool = False,
        limits: Limits | None = None,
        level: float = 0.0,
        lists: bool = False,
    ) -> None:
        self._program, self._folder, self._cpus = program.resolve(), folder, tuple(cpus)
        self._threads, self._fifo = threads, fifo
        self._limits, self.level, self._lists = limits or Limits(), level, lists
        self._last = ""
        self._child: subprocess.Popen[bytes] | None = None
        self._requests = self._answers = -1
        self._buffer = b""
        self.pinned = self.is_fifo = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._child is None:
            self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def measure(self, request: Request, time_limit: float) -> Experiment:
        """Run one experiment.

        Raises
        ------
        KernelError
            If the kernel crashed, took longer than `time_limit` seconds, or spoiled the answers. The process is
            started anew for the next request.
        UnavailableError
            If the machine cannot count the event.
        """
        self.start()
        self._last = request.object
        event = event_numbers(request.event) if request.event else (-1, 0)
        try:
            os.write(self._requests, request.line(event).encode())
            return self._read(request, time_limit)
        except BrokenPipeError:
            raise KernelError(self._obituary()) from None
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        theirs, self._requests = os.pipe()
        self._answers, their_answers = os.pipe()
        places = ",".join(f"{{{cpu}}}" for cpu in self._cpus)
        environment = os.environ | {
            "OMP_NUM_THREADS": str(self._threads), "OMP_PROC_BIND": "true", "OMP_DYNAMIC": "false",
        }  # fmt: skip
        if places:
            environment["OMP_PLACES"] = places
        words = [str(self._program), str(theirs), str(their_answers), ",".join(map(str, self._cpus))]
        try:
            self._child = subprocess.Popen(
                [*words, "fifo" if self._fifo else "other", *self._bounds(), f"{self.level:.6g}"],
                pass_fds=(theirs, their_answers), cwd=self._folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(theirs)
            os.close(their_answers)
        self._buffer = b""
        line = self._line(time.monotonic() + _STARTS_WITHIN)
        if line is None:
            self.close()
            raise KernelError(f"the measuring process did not start within {_STARTS_WITHIN} s")
        ready = line.split()
        if len(ready) != 5 or ready[0] != "ready":
            self.close()
            raise UnavailableError(f"the measuring process did not start: it said {' '.join(ready)!r}")
        self.pinned, self.is_fifo = ready[3] == "1", ready[4] == "1"

    def _bounds(self) -> tuple[str, str]:
        memory = self._limits.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return str(memory), str(self._limits.files)

    def _read(self, request: Request, time_limit: float) -> Experiment:
        deadline = time.monotonic() + time_limit
        steps, reports, sentinel = 0, {}, math.nan
        runs: list[Run] = []
        apart: float | None = math.nan
        grain: Grain | None = None
        bias: Bias | None = None
        lost = varies = average = average_cycles = unflushed = 0.0
        rare: tuple[float, ...] = ()
        gave = (0, 0)
        later = 0.0
        pairs: tuple[float, float] | None = None
        while True:
            line = self._line(deadline)
            if line is None:
                raise KernelError(_too_long(len(runs), request.repetitions, time_limit))
            words = line.split(" ")
            try:
                if words[0] == "begin" and words[1] == request.variant and steps == 0:
                    steps = int(words[2])
                elif words[0] == "run" and steps and len(words) == 9:
                    runs.append(_run(words))
                elif words[0] == "report" and steps and len(words) > 2:
                    reports[" ".join(words[1:-1])] = float(words[-1])
                elif words[0] == "apart" and steps and len(words) == 2:
                    apart = None if words[1] == "same" else float(words[1])
                elif words[0] == "grain" and steps and len(words) == 4:
                    grain = Grain(float(words[1]), float(words[2]), words[3] == "1")
                elif words[0] == "bias" and steps and len(words) == 4:
                    bias = Bias(*map(float, words[1:]))
                elif words[0] == "lost" and steps and len(words) == 2:
                    lost = float(words[1])
                elif words[0] == "varies" and steps and len(words) == 4:
                    varies, average, average_cycles = map(float, words[1:])
                elif words[0] == "gave" and steps and len(words) == 3:
                    gave = (int(words[1]), int(words[2]))
                elif words[0] == "rare" and steps and len(words) == 14:
                    rare = tuple(map(float, words[1:]))
                elif words[0] == "pairs" and steps and len(words) == 3:
                    pairs = (float(words[1]), math.sqrt(float(words[2])))
                elif words[0] == "unflushed" and steps and len(words) == 2:
                    unflushed = float(words[1])
                elif words[0] == "later" and steps and len(words) == 2:
                    later = float(words[1])
                elif words[0] == "sentinel" and steps and len(words) == 3:
                    sentinel, level = float(words[1]), float(words[2])
                    self.level = min(level, self.level) if self.level > 0 else level
                elif words == ["end", request.variant] and len(runs) == request.repetitions:
                    _check(reports)
                    return Experiment(
                        steps,
                        tuple(runs),
                        reports,
                        sentinel,
                        apart,
                        grain,
                        bias,
                        lost,
                        varies,
                        rare,
                        gave,
                        later,
                        pairs,
                        average,
                        average_cycles,
                        unflushed,
                    )
                elif words[0] == "error" and "no counter" in line:
                    raise UnavailableError(f"this machine cannot count {request.event!r}: {line.split(': ')[-1]}")
                elif crash := _PROGRAMS_END.match(line):
                    raise KernelError(self._crash("program", int(crash[1]), _HINTS | _OF_PROGRAMS))
                elif words[0] == "error":
                    raise KernelError(_LIBRARY.sub("the kernel cannot be loaded: ", line[6:]))
                else:
                    raise ValueError
            except (ValueError, IndexError):
                raise KernelError(f"the kernel printed garbage among the measurements: {line[:80]!r}") from None

    def _line(self, deadline: float) -> str | None:
        """Return the next line of the answer; None if there is none until the deadline."""
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise KernelError(self._obituary())
            self._buffer += part
            if len(self._buffer) > 1 << 24:
                raise KernelError("the kernel printed garbage among the measurements: 16 MiB without an end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace")

    def _obituary(self) -> str:
        """Say how the process ended."""
        child = self._child
        status = child.wait(5) if child is not None else 0
        self.close()
        if status < 0:
            return self._crash("kernel", -status, _HINTS)
        sanitizer = _sanitizer(self._folder / self._last)
        return f"the kernel ended the measuring process with exit status {status}" + (
            f": it needs {sanitizer}, which has to be loaded before all else. Leave -fsanitize out of a study's flags; "
            "compile a program with it, and run that, to find faults"
            if sanitizer
            else ""
        )

    def _crash(self, what: str, number: int, hints_of: Mapping[str, str]) -> str:
        """Say by which signal a kernel or program ended, and what may have led to it."""
        name = f"signal {number}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
        hints = [hints_of[name]] if name in hints_of else []
        if name == "SIGSEGV" and self._lists:
            hints.append(_OF_LISTS)
        if name in _STARVED and self._limits.memory:
            hints.append(f"or memory that the study's `limits` did not give it: {self._limits.memory:,} bytes")
        return f"the {what} crashed: {name}" + (f" ({'; '.join(hints)})" if hints else "")

    def close(self) -> None:
        """End the process and everything that it started."""
        child, self._child = self._child, None
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._requests = self._answers = -1
        if child is not None:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.wait(10)


def event_numbers(name: str) -> tuple[int, int]:
    """Return perf_event_open's type and config of an event name, or of a raw code such as ``r01c2``."""
    if name in EVENTS:
        return EVENTS[name]
    if name.startswith("r") and len(name) > 1:
        with contextlib.suppress(ValueError):
            return 4, int(name[1:], 16)
    from perfkit.errors import SettingError, did_you_mean

    raise SettingError(f"unknown event {name!r}; {did_you_mean(name, EVENTS)}; or a raw code such as r01c2")


def _sanitizer(library: Path) -> str:
    """Return the name of the sanitizer's library that a shared library needs; "" where it needs none."""
    try:
        found = _SANITIZER.search(library.read_bytes())
    except OSError:
        return ""
    return found[0].decode() if found else ""


def _too_long(runs: int, repetitions: int, time_limit: float) -> str:
    limit = f"{time_limit:g} s (the study's time_limit)"
    if not runs:
        return f"the kernel hung: no result within {limit}"
    return (
        f"no result within {limit}, although {runs} of {repetitions} repetitions ended: raise `time_limit`, or ask for "
        "fewer `windows` or `repetitions` in `policy`; or the kernel hung in the next"
    )


def _run(words: Sequence[str]) -> Run:
    tsc, ns, cycles, event = (float(word) for word in words[1:5])
    return Run(
        tsc, ns, cycles, event, kept=int(words[5]), tried=int(words[6]), quiet=int(words[7]), level=float(words[8])
    )


def _check(reports: dict[str, float]) -> None:
    """Refuse names that could be no column, and values that say nothing."""
    for name, value in reports.items():
        if not name.isidentifier():
            spaces = ", without spaces" if " " in name else ""
            raise KernelError(
                f"PK_REPORT of {name!r}: a name consists of letters, digits and _, no digit first{spaces}"
            )
        if math.isinf(value):
            raise KernelError(f"PK_REPORT of {name!r}: the value is infinite")
