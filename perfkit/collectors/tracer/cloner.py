"""The default backend: run a clone of the function in a child process and read what it recorded (x86-64)."""

import ctypes
import json
import marshal
import mmap
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import module_path
from perfkit.collectors.tracer.bounds import Placed, missed_by
from perfkit.collectors.tracer.child import handed
from perfkit.collectors.tracer.demangle import named_as
from perfkit.collectors.tracer.elf import ElfFile, elf_as_it_is
from perfkit.collectors.tracer.late import LOOK, Late
from perfkit.collectors.tracer.lines import Loaded
from perfkit.collectors.tracer.outside import Maps, called, refuse_generated
from perfkit.collectors.tracer.own_memory import interpreter, own_paths, thread_memory, why_not
from perfkit.collectors.tracer.pinned import pinned_environment, process_environment, renamed
from perfkit.collectors.tracer.recording import Recording, disassembled, whole_blocks
from perfkit.errors import DataError, NeverCalledError, UnavailableError, how_often

_CHILD = "perfkit.collectors.tracer.child"
_BUFFERS = ("blocks", "addresses", "sizes")
# The end of the block buffer is where a clone can be stopped. It grows by what surely stays within the limit, and by
# this many blocks at least, so that the end is reached in few steps.
_GROWTH = 16384
_COUNTED_AT_ONCE = 1 << 22  # blocks, where instructions are counted beyond what is kept
_COUNTING = 6.0  # seconds for that, at most
_WIDTHS = {"blocks": 4, "addresses": 8, "sizes": 4}  # bytes of an entry of each buffer
_PUNCH, _PAGE = 3, 4096  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_CALLS, _ACTIVE, _MISSING, _POINTER, _REGISTERS = 24, 48, 72, 0, 128
_OTHERS, _FORKED = 200, 240
_OUTSIDE, _OUTSIDE_ROOM, _PINNED = 1024, 128, 3584
_MOST_CODE = 1 << 20  # bytes of functions in tables that are copied at once: about ten seconds
# What throws, unwinds and catches in C++ and Rust; what jumps out of functions in C.
_EXCEPTIONS = re.compile(
    r"__cxa_(re)?throw|__cxa_begin_catch|_Unwind_(RaiseException|Resume|ForcedUnwind)|__rust_start_panic"
)
_JUMPS = re.compile(r"_*(libc_)?(sig)?longjmp(_chk|_cancel)?")
_RIP = 16  # index in gregs
_UNBUFFERED = "PYTHONUNBUFFERED"  # Python would have the C library read and write byte by byte, a system call for each
_OWN = ("libc.so", "libc-", "ld-linux", "libpthread")  # libraries whose functions Python and its loader call
MAX_ATTEMPTS = 200
_LOOK = 0.02  # seconds between looks at how far a program is that is to be ended early


_C = TypeVar("_C", bound="Child")
_F = TypeVar("_F")


class LeavingError(DataError):
    """A call that was to be recorded is left by an exception, or by longjmp."""


class Refusal(Exception):  # noqa: N818 - not the user's error: why another backend is needed
    """The cloner passes: the message says why."""


@dataclass(frozen=True)
class Job:
    """What to run and what of it to record.

    Parameters
    ----------
    path : Path
        A program (run with `arguments`) or a shared library (its `function` is called with `arguments`).
    function : str
        The region of interest.
    program : bool
        Whether `path` is a program.
    arguments : sequence
        A program's words, or a kernel's arguments as ``[kind, value]``.
    limit, first_call, last_call, callees, timeout
        As in :class:`perfkit.collectors.Tracer`; calls count from 1.
    setup : str
        A function of the library to call once before, untraced.
    library : str
        Of a program: the library that holds `function`, where it is not the program itself.
    stdin : Path, optional
        What a program reads; nothing by default.
    early : bool
        End the program once the last call is recorded.
    pinned : str
        As in :class:`perfkit.collectors.Tracer`.
    script : Path, optional
        A Python script that is run in place of a program; `path` is the library that it loads and that is traced.
    after, count_to, pointed
        As in :class:`perfkit.collectors.Tracer`.
    loops : tuple of str
        Of threads: more functions to be recorded beside `function`, all of them bodies of parallel loops.
    """

    path: Path
    function: str
    program: bool
    arguments: Sequence[Any]
    limit: int
    first_call: int
    last_call: int
    callees: bool
    timeout: float
    setup: str = ""
    library: str = ""
    stdin: Path | None = None
    early: bool = False
    pinned: str = ""
    loops: tuple[str, ...] = ()
    script: Path | None = None
    after: float = 0.0
    count_to: int = 0
    pointed: tuple[tuple[str, int], ...] = ()


def record(job: Job) -> Recording:
    """Run a job under the cloner.

    Raises
    ------
    Refusal
        When this code must be traced by another backend.
    DataError
        When the code crashes, or the function is not called.
    UnavailableError
        When the system forbids what the cloner needs.
    """
    return attempted(job, Child, _noted)


def _noted(run: "Child") -> tuple[Recording, list[tuple[str, int]]]:
    recording, more = run.recording(), run.not_yet_followed()
    return recording if more else run.noting(recording), more


def attempted(job: Job, kind: "type[_C]", take: Callable[["_C"], tuple[_F, list[tuple[str, int]]]]) -> _F:
    """Run a job until all that it executes is known before: what `take` found in the last attempt.

    Parameters
    ----------
    job : Job
        What to run.
    kind : class
        Of the child process of each attempt.
    take : callable
        Child -> what it recorded, and functions called through pointers that another attempt is to follow.

    Raises
    ------
    Refusal
        There are ever more of them.
    """
    known = _known(job, kind)
    try:
        return _attempted(job, kind, take, known)
    except Refusal:
        if not known.leaders and not known.pointed and not job.pointed:
            raise
        # Of a library that was built anew in the meantime they lie elsewhere.
        known.leaders, known.pointed = (), ()
        return _attempted(replace(job, pointed=()), kind, take, known)


def _attempted(
    job: Job, kind: "type[_C]", take: Callable[["_C"], tuple[_F, list[tuple[str, int]]]], known: "_Known"
) -> _F:
    own = str(job.path.resolve())
    given = (("" if path == own else path, address) for path, address in job.pointed)
    leaders, pointed = list(known.leaders), list(dict.fromkeys((*known.pointed, *given)))
    for _ in range(MAX_ATTEMPTS):
        with (
            tempfile.TemporaryDirectory(prefix="perfkit-trace-") as scratch,
            kind(job, leaders, pointed, Path(scratch)) as run,
        ):
            run.follow()
            if run.missing:
                leaders.append(run.missing)
                continue
            found, more = take(run)
            if not more:
                known.leaders, known.pointed = tuple(leaders), tuple(pointed)
                return found
            pointed += more
    raise Refusal(f"its indirect jumps have more than {MAX_ATTEMPTS} targets that no table names")


@dataclass
class _Known:
    """What the attempts at a region found: where its indirect jumps and calls lead."""

    leaders: tuple[int, ...] = ()
    pointed: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=32)
def _known_of(*_region: object) -> _Known:
    return _Known()


def _known(job: Job, kind: type) -> _Known:
    """Return what is known of a region of a file from earlier recordings of it: each attempt takes seconds.

    Of a pinned recording nothing: it is to be the same one whatever was recorded before it.
    """
    if job.pinned:
        return _Known()
    times = tuple(Path(each).stat().st_mtime_ns for each in (job.path, job.library) if each and Path(each).is_file())
    return _known_of(str(job.path), job.library, times, job.function, job.callees, job.loops, job.script, kind)


def _changed(memory: int, rows: list[list[Any]], patched: set[int]) -> bool:
    """Whether a block in a process's memory is no longer what it was, but where we patched it."""
    start, code = rows[0][0], b"".join(bytes.fromhex(row[1]) for row in rows)
    now = os.pread(memory, len(code), start)
    return now != code and any(
        now[row[0] - start : row[0] - start + len(row[1]) // 2] != bytes.fromhex(row[1])
        for row in rows
        if patched.isdisjoint(range(row[0], row[0] + len(row[1]) // 2))
    )


@dataclass
class Area:
    """What one thread records into: memory files, and how far they are counted and grown.

    ``page`` is where its context lies in the file of contexts.
    """

    handles: dict[str, int]
    page: int = 0
    capacity: int = 0
    counted: int = 0
    executed: int = 0
    block_counts: NDArray[np.int64] | None = None
    kept: int = 0  # blocks that are kept, where what comes behind them is only counted
    counts: NDArray[np.int64] | None = None  # of each block, up to ``counted``, where that is done


class Child:
    """One child process, from its start to the mapped results."""

    module = _CHILD
    pages = 1
    buffers: tuple[str, ...] = _BUFFERS

    def __init__(self, job: Job, leaders: list[int], pointed: list[tuple[str, int]], scratch: Path) -> None:
        self.job, self.pointed, self.scratch = job, pointed, scratch
        self.missing = 0
        self.stopped = ""
        self.finished = False
        self.late: Late | None = None
        self.arrays: tuple[Placed, ...] = ()
        self.context_file = os.memfd_create("perfkit-context", 0)
        os.ftruncate(self.context_file, 4096 * self.pages)
        self.context = mmap.mmap(self.context_file, 4096 * self.pages)
        self.areas = [
            Area({name: os.memfd_create(f"perfkit-{name}", 0) for name in self.buffers}, 4096 * page)
            for page in (range(1, self.pages) if self.pages > 1 else [0])
        ]
        self.area = self.areas[0]
        self.channel, to_parent = os.pipe()
        from_parent, self.answers = os.pipe()
        specified, argument = handed(self._specification(leaders) | {"channel": to_parent, "answers": from_parent})
        self.log = (scratch / "output").open("w+b")
        source = job.stdin.open("rb") if job.stdin is not None else None
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", self.module, argument],
            stdin=source or subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            pass_fds=[to_parent, from_parent, specified, *self._files()],
            env=self._environment(),
            executable=interpreter(ElfFile(job.path), scratch) if job.program and not job.script else sys.executable,
        )
        if source is not None:
            source.close()
        os.close(to_parent)
        os.close(from_parent)
        os.close(specified)
        self.deadline = time.monotonic() + job.timeout

    def _specification(self, leaders: list[int]) -> dict[str, Any]:
        """Return what the child is told of the job."""
        job = self.job
        # An array that the job names by value is handed over as a file.
        arguments = [
            [kind, _saved(self.scratch, k, value)] if kind == "array" else [kind, value]
            for k, (kind, value) in enumerate([] if job.program else job.arguments)
        ]
        return {
            "path": str(job.path.resolve()),
            "program": job.program,
            "function": job.function,
            "arguments": [str(word) for word in job.arguments] if job.program else arguments,
            "calls": job.last_call,
            "limit": max(job.limit, job.count_to),
            "first_call": job.first_call,
            "last_call": job.last_call,
            "callees": job.callees,
            "leaders": leaders,
            "pointed": self.pointed,
            "setup": job.setup,
            "library": job.library,
            "scratch": str(self.scratch),
            "loops": job.loops,
            "script": str(job.script.resolve()) if job.script else "",
            "after": job.after,
            "pinned": pinned_environment(job.pinned) if job.pinned else None,
            "context": self.context_file,
            "buffers": [area.handles for area in self.areas],
            **self.more(),
        }

    def more(self) -> dict[str, Any]:
        """Return what else the child is told."""
        return {}

    def environment(self, run_paths: Sequence[str]) -> dict[str, str]:
        """Return the environment of the child, without what is pinned."""
        return child_environment(run_paths, script=self.job.script is not None)

    def _environment(self) -> dict[str, str]:
        job = self.job
        elf = ElfFile(job.path)
        usual = self.environment(search_paths(elf) if job.program or job.pinned else ())
        return process_environment(job.pinned, usual) if job.pinned else usual

    def _files(self) -> list[int]:
        return [self.context_file, *(handle for area in self.areas for handle in area.handles.values())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for handle in (*self._files(), self.channel, self.answers):
            os.close(handle)
        self.log.close()

    def follow(self) -> None:
        """Answer the child's messages until it is done or has to be stopped."""
        for kind, payload in self._messages():
            if kind == b"R":
                raise Refusal(payload.decode())
            if kind == b"E":
                raise UnavailableError(f"the cloner cannot run here: {payload.decode()}")
            if kind == b"L":
                raise DataError(payload.decode())
            if kind == b"I":
                self._prepare(marshal.loads(payload))  # noqa: S302 - our own child's
            elif kind == b"A":
                self.arrays = tuple(Placed(*each) for each in json.loads(payload))
            elif kind == b"F":
                self._fault(payload)
            elif kind == b"X":
                (status,) = struct.unpack("<i", payload)
                self.notes["exit_status"] = str(status)
            elif kind == b"T":
                seconds, cpu = struct.unpack("<2d", payload)
                self.notes |= {"seconds": f"{seconds:.6f}", "cpu_seconds": f"{cpu:.6f}"}
            elif kind == b"M" and not (self.late and self.late.waits):  # else it is our breakpoints that it saw
                raise DataError(self._changed())
            elif kind == b"D":
                self.finished = True
            if self.stopped or self.missing or self.finished:
                if self.stopped and self._code_changed():
                    raise DataError(self._changed())
                self._kill()
                return
        if not self.finished and not self.stopped:
            self._ended()

    def recording(self) -> Recording:
        """Map the buffers and cut them to whole blocks within the limit."""
        self._kill()
        if self._context(_FORKED):
            raise DataError(forked(self.job.function))
        recording = self.cut()
        others = self._context(_OTHERS)
        if others:
            self.notes["calls_in_other_threads"] = str(others)
        return recording

    def cut(self) -> Recording:
        """Return what the area at hand holds."""
        self.notes |= self._counted()
        count = self.area.kept or self._recorded_blocks()
        raw = self._map("blocks", count, np.uint32)
        raw -= 1  # ids were written plus one, so that what was not written is 0
        blocks, _, accesses, sizes = whole_blocks(raw, self.lengths, self.slots, self.dynamics, self.job.limit)
        if blocks < count and not self.stopped:
            self.stopped = self._limit_reached()
        if not blocks:
            raise (DataError if self._context(_CALLS) else NeverCalledError)(self._nothing())
        self.area.block_counts = np.zeros(len(self.lengths), dtype=np.int64)
        if any(block["leaves"] for block in self.static["blocks"]):
            for first in range(0, blocks, 1 << 20):
                part = raw[first : min(first + (1 << 20), blocks)]
                self.area.block_counts += np.bincount(part, minlength=len(self.lengths))
        found = Recording(
            "x86-64",
            self.static["blocks"],
            raw[:blocks],
            self._map("addresses", accesses, np.uint64),
            self._map("sizes", sizes, np.uint32),
            self.stopped,
            self.notes,
            tuple(Loaded(*each) for each in self.static["loaded"]),
            self.arrays,
        )
        if not self.job.pinned:
            return found
        return renamed(found.executed(), self.maps, struct.unpack_from("<5Q", self.context, _PINNED))

    def not_yet_followed(self) -> list[tuple[str, int]]:
        """List functions that were called through pointers and that another attempt may record: file and offset.

        Raises
        ------
        DataError
            When called functions are wanted and code was called that was generated at run time.
        """
        if not self.job.callees:
            return []
        left = self._left_for()
        if any(self.maps.place(address).generated for address in left) and (how := self._leaving()):
            raise LeavingError(how)
        refuse_generated(self.job.function, left, self.maps)
        found = []
        for address in self._pointed_at():
            place = self.maps.place(address)
            own = place.path in (str(self.job.path.resolve()), str(self.scratch.resolve() / "program.so"))
            key = ("" if own else place.path, place.offset)
            if place.path.startswith("/") and key not in self.pointed:
                found.append(key)
        if found and self._unlisted and not self.job.pinned:
            known = {*found, *self.pointed}
            found += [key for key in self._in_tables({path for path, _ in found}) if key not in known]
        # Another attempt would not come as far in the time that there is.
        return [] if self.stopped.startswith("timeout") else found

    def noting(self, recording: Recording) -> Recording:
        """Add to a recording's notes what was called and is not in it."""
        names = dict(self.static["outside"])
        counts = called(self._left_for(), names, self.maps)
        if unlisted := self._unlisted:
            counts["others"] = unlisted
        everything = sorted({*names.values(), *counts})
        notes = dict(recording.notes)
        if everything:
            notes["not_followed"] = ", ".join(everything)
        if counts:
            notes["not_followed_calls"] = ", ".join(f"{name}: {count}" for name, count in counts.items())
        return replace(recording, notes=notes)

    @property
    def _unlisted(self) -> int:
        """How many calls went to targets outside of the region for which the list of these had no room."""
        return self._context(_OUTSIDE + 16 * _OUTSIDE_ROOM + 8)

    def _in_tables(self, paths: set[str]) -> list[tuple[str, int]]:
        """List the functions that tables in some files name, where more of them are called than are listed.

        Each attempt takes seconds, and would only find the next hundred of thousands.
        """
        found: list[tuple[str, int]] = []
        for path in sorted(paths):
            named = elf_as_it_is(path or self.job.path).in_tables
            if sum(each.size for each in named) <= _MOST_CODE:
                found += [(path, each.address) for each in named]
        return found

    def _left_for(self) -> dict[int, int]:
        """Count the calls that left the region, by address: direct ones and those through pointers."""
        counts = Counter(self._pointed_at())
        for block, executed in enumerate(self.area.block_counts if self.area.block_counts is not None else []):
            target = self.static["blocks"][block]["leaves"]
            if target and executed:
                counts[target] += int(executed)
        return dict(counts)

    def _pointed_at(self) -> dict[int, int]:
        """Return the targets outside of the region that calls and jumps through pointers had, with their counts."""
        first = self.area.page + _OUTSIDE
        rows = struct.iter_unpack("<QQ", self.context[first : first + 16 * _OUTSIDE_ROOM])
        return {target: count for target, count in rows if target}

    def _changed(self) -> str:
        return f"{self.job.function} changed its own code while it ran: self-modifying code is not traced"

    def _code_changed(self) -> bool:
        """Whether a child that is stopped early holds other code than was cloned; it cannot look itself any more."""
        patched = {at for start in self.static["patched"] for at in range(start, start + 5)}  # our own jumps
        try:
            with Path(f"/proc/{self.process.pid}/mem").open("rb", buffering=0) as memory:
                return any(_changed(memory.fileno(), each["instructions"], patched) for each in self.static["blocks"])
        except OSError:  # the system forbids it, or a library was unloaded: nothing is known
            return False

    def _mapped(self) -> str:
        try:
            return Path(f"/proc/{self.process.pid}/maps").read_text()
        except OSError:
            return ""

    def _prepare(self, static: dict[str, Any]) -> None:
        """Size the block buffer, then let the child go."""
        self.static = static
        rows = [block["instructions"] for block in static["blocks"]]
        self.lengths = np.array([len(block) for block in rows], dtype=np.int64)
        self.slots = np.array([sum(len(row[3]) for row in block) for block in rows], dtype=np.int64)
        self.dynamics = np.array(
            [sum(operand[2] == 0 for row in block for operand in row[3]) for block in rows], dtype=np.int64
        )
        self.notes: dict[str, str] = {}
        self.maps = Maps(self._mapped())
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        self.counting_ends = time.monotonic() + _COUNTING
        for area in self.areas:
            self._grow(area)
        if self.job.after:
            self.late = Late(self.process.pid, self.context, static["starts"], self.job.after)
        self._go_on()

    def _grow(self, area: Area) -> bool:
        """Make room for more blocks, unless the limit is reached."""
        if area.capacity:
            self._count(area, area.capacity)
        limit = self.job.limit
        if self.job.count_to and area.executed > limit:
            area.kept = area.kept or area.counted
            self._forget(area)
            limit = self.job.count_to if time.monotonic() < self.counting_ends else 0
        left = limit - area.executed + bool(self.job.count_to)  # to be counted further, a block beyond the limit
        if left <= 0:
            return False
        step = max(left // int(self.lengths.max()), _GROWTH)
        area.capacity += min(step, _COUNTED_AT_ONCE) if self.job.count_to else step
        area.capacity = -(-area.capacity // 1024) * 1024
        os.ftruncate(area.handles["blocks"], 4 * area.capacity)
        return True

    def _count(self, area: Area, end: int) -> None:
        """Count the blocks that are new in the buffer, up to one of them."""
        new = np.empty(end - area.counted, dtype=np.uint32)
        os.preadv(area.handles["blocks"], [new.data], 4 * area.counted)
        counts = np.bincount(new - 1, minlength=len(self.lengths)) if len(new) else np.zeros_like(self.lengths)
        area.executed += int(counts @ self.lengths)
        area.counted = end
        area.counts = counts if area.counts is None else area.counts + counts
        if not area.kept:
            self._behind = {name: int(area.counts @ per) for name, per in self._per_block.items()}

    def _forget(self, area: Area) -> None:
        """Give back the memory of what was recorded behind what is kept, and counted."""
        assert area.counts is not None
        for name, per in self._per_block.items():
            size = _WIDTHS[name]
            first, last = (-(-size * self._behind[name] // _PAGE), size * int(area.counts @ per) // _PAGE)
            if last > first:
                self.libc.fallocate(area.handles[name], _PUNCH, first * _PAGE, (last - first) * _PAGE)

    @property
    def _per_block(self) -> dict[str, NDArray[np.int64]]:
        """What each execution of a block adds to each buffer."""
        return {"blocks": np.ones_like(self.lengths), "addresses": self.slots, "sizes": self.dynamics}

    def _counted(self) -> dict[str, str]:
        """Return how many instructions the calls have, and of which blocks, where they came to an end while counted."""
        area = self.area
        if not area.kept or self.stopped or self._context(_ACTIVE):
            return {}
        self._count(area, self._recorded_blocks())
        assert area.counts is not None
        starts = [block["instructions"][0][0] for block in self.static["blocks"]]
        rows = zip(starts, (area.counts * self.lengths).tolist(), strict=True)
        return {"counted": str(area.executed), "counted_by_block": json.dumps([row for row in rows if row[1]])}

    def _go_on(self) -> None:
        os.write(self.answers, b"g")

    def _fault(self, payload: bytes) -> None:
        number, _, code = struct.unpack_from("<iii", payload, 0)
        (address,) = struct.unpack_from("<Q", payload, 16)
        for area, (start, size) in zip(self.areas, self.static["block_buffers"], strict=True):
            if number == signal.SIGBUS and start <= address < start + size:
                # Of two threads that wait for an answer one may get the other's, and ask again.
                if address < start + 4 * area.capacity or self._grow(area):
                    self._go_on()
                else:
                    self.stopped = self._limit_reached()
                return
            self.missing = self.missing or self._context(_MISSING, area)
        if self.missing:
            return
        if self._forked():
            raise DataError(forked(self.job.function))
        rip = struct.unpack_from("<23Q", payload, _REGISTERS)[_RIP]
        if number == signal.SIGTRAP and self.late and self.late.trapped(rip - 1):
            self._go_on()
            return
        missed = missed_by(address, self.arrays) if code >= 0 else ""
        self._crashed(number, f"at address {address:#x}" if code >= 0 else "", rip, missed)

    def _forked(self) -> bool:
        return bool(self._context(_FORKED))

    def _crashed(self, number: int, where: str, rip: int, missed: str = "") -> None:
        self._kill()
        if self.job.early and not self.late and self._over():  # what was wanted was recorded before
            self.finished = True
            return
        self.area = next((area for area in self.areas if self._context(_ACTIVE, area)), self.areas[0])
        count = self._recorded_blocks()
        if how := self._leaving():
            raise LeavingError(how)
        library = Path(self.job.library).name
        if not count and library.startswith(_OWN):
            raise DataError(
                f"{self.job.function} is called by the process that records, too, as many functions of {library} are: "
                "it cannot be recorded by itself. Record the function of the program that calls it (-f), which holds "
                "its calls"
            )
        if count and self._context(_ACTIVE):
            (block,) = np.frombuffer(os.pread(self.area.handles["blocks"], 4, 4 * (count - 1)), dtype=np.uint32)
            rows = self.static["blocks"][int(block) - 1]
            first = rows["instructions"][0]
            last = (
                f" in {rows['function']}, in the block that begins at {first[0]:#x} "
                f"({disassembled(first[0], bytes.fromhex(first[1]))}), "
                f"after {self._executed(count):,} traced instructions"
            )
        elif hasattr(self, "static"):
            last = f" outside of {self.job.function} (at {rip:#x})"
        else:
            last = " before its main function: in a constructor, its own or a library's"
        name = signal.Signals(number).name
        if number in (signal.SIGSEGV, signal.SIGBUS) and _sets_handlers(self.job.path):
            last += " (a handler that the program sets for that is not called while it is recorded)"
        if missed:
            last += f". That is {missed}: give a larger array, or smaller numbers"
        raise DataError(f"the code crashed with {name} {where}{last}. {self._output()}".replace("  ", " ").strip())

    def _leaving(self) -> str:
        """Say that what was recorded leaves functions by an exception or longjmp; "" where it does not."""
        if not hasattr(self, "static"):
            return ""
        blocks = self.static["blocks"]
        entered = min(self._recorded_blocks() + 1, self.area.capacity)  # the last one may not have come to its end
        ran = [blocks[int(each) - 1] for each in np.unique(self._map("blocks", entered, np.uint32)) if each]
        plain = {each[key].partition("@")[0] for each in ran for key in ("function", "calls")}
        how = ""
        if any(_JUMPS.fullmatch(name) for name in plain):
            how = "calls longjmp"
        elif any(_EXCEPTIONS.match(name) for name in plain):
            how = "throws or catches an exception"
        return how and (
            f"{named_as(self.job.function)} {how} in a call that was to be recorded, and that is not followed out of a "
            "recorded copy (the program itself may do so rightly). Name a function that it calls and that returns "
            "(-f), or give the program an input with which these calls return"
        )

    def _ended(self) -> None:
        """Judge a child that ended without a word."""
        status = self.process.wait()
        if status < 0:
            self._crashed(-status, "", 0)
        if not hasattr(self, "static"):
            raise UnavailableError(f"the cloner's process failed (status {status}). {self._output()}")
        self.notes["exit_status"] = str(status)

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the child's messages until it closes the channel or the time is up."""
        buffer = b""
        while True:
            left = self.deadline - time.monotonic()
            look = LOOK if self.late and not self.late.begun else _LOOK
            polls = bool(self.job.early or self.late) and left > look
            ready = left > 0 and select.select([self.channel], [], [], look if polls else left)[0]
            if not ready and polls:
                if hasattr(self, "static") and self._over():
                    self.finished = True
                    return
                continue
            if not ready:
                self._out_of_time()
                return
            data = os.read(self.channel, 1 << 20)
            if not data:
                return
            buffer += data
            while len(buffer) >= 5:
                (length,) = struct.unpack_from("<I", buffer, 1)
                if len(buffer) < 5 + length:
                    break
                yield buffer[:1], buffer[5 : 5 + length]
                buffer = buffer[5 + length :]

    def _over(self) -> bool:
        """Whether the last call that is wanted has returned."""
        if self.late:
            return self._late_is_over(self.late)
        return self._context(_CALLS) >= self.job.last_call and not self._context(_ACTIVE)

    def _late_is_over(self, late: Late) -> bool:
        try:
            over = late.look()
        except ProcessLookupError:  # it has just ended
            return False
        except OSError as error:
            raise UnavailableError(f"recording cannot begin in the middle of a call here: {error}") from error
        if over:
            self.stopped = "end of the function's code"
        return over

    def _out_of_time(self) -> None:
        self._kill()
        if not hasattr(self, "static"):
            raise DataError(f"loading {self.job.path} took longer than the timeout of {self.job.timeout} s")
        self.stopped = f"timeout of {self.job.timeout:g} s"

    def _kill(self) -> None:
        if self.process.poll() is None:
            text = self._mapped() if hasattr(self, "static") else ""
            self.maps = Maps(text, final=True) if text else getattr(self, "maps", Maps(""))
            self.process.kill()
        self.process.wait()

    def _recorded_blocks(self) -> int:
        """Count the complete blocks: by the pointer after a regular end, else by looking for the last id."""
        if not hasattr(self, "static"):
            return 0
        if not self._context(_ACTIVE):
            start = self.static["block_buffers"][self.areas.index(self.area)][0]
            return (self._context(_POINTER) - int(start)) // 4
        low, high = 0, self.area.capacity
        while low < high:
            middle = (low + high) // 2
            if os.pread(self.area.handles["blocks"], 4, 4 * middle) not in (b"", bytes(4)):
                low = middle + 1
            else:
                high = middle
        # The last block was entered; unless the buffer's end stopped it before, it did not run to its end.
        return low if low == self.area.capacity else max(low - 1, 0)

    def _executed(self, blocks: int) -> int:
        raw = self._map("blocks", blocks, np.uint32)
        return int(np.bincount(raw - 1, minlength=len(self.lengths)) @ self.lengths)

    def _context(self, offset: int, area: Area | None = None) -> int:
        (value,) = struct.unpack_from("<Q", self.context, (area or self.area).page + offset)
        return int(value)

    def _map(self, name: str, count: int, dtype: Any) -> NDArray[Any]:
        """Map the first values of a buffer; the array keeps the memory alive."""
        if not count:
            return np.empty(0, dtype=dtype)
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(mmap.mmap(self.area.handles[name], size), dtype=dtype, count=count)

    def _limit_reached(self) -> str:
        return f"limit of {self.job.limit} instructions"

    def _nothing(self) -> str:
        job, calls = self.job, self._context(_CALLS)
        if not calls and job.after:
            return f"{job.function} did not run after {job.after:.2f} s of {job.path.name}. {self._output()}".strip()
        if not calls:
            never = f"{job.path.name} never called {job.function}; {NeverCalledError.WHY}."
            return f"{never} {self._output()}".strip()
        if calls < job.first_call:
            begin = f"the trace was to begin with call {job.first_call}"
            return f"{job.path.name} called {job.function} {how_often(calls)}; {begin}"
        return f"nothing of {job.function} was recorded within {self.stopped or 'the limit'}"

    def _output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        text = self.log.read()[-500:].decode(errors="replace").strip()
        return f"It printed: {text}" if text else ""


def _sets_handlers(program: Path) -> bool:
    """Whether a program may set handlers of signals."""
    return not {"signal", "sigaction", "__sysv_signal"}.isdisjoint(ElfFile(program).imports.values())


def forked(function: str) -> str:
    """Say that a program forks inside the region."""
    return (
        f"{function} starts a process (fork) while it is recorded: both would write into one trace. Record a function "
        "that does not, or one of the new process's program"
    )


def unloadable(elf: ElfFile) -> str:
    """Say why a program cannot be loaded into the cloner's process; empty if it can."""
    if elf.isa != "x86-64":
        return f"it is {elf.isa} code"
    if not elf.is_relocatable:
        return "the program is not position-independent (linked with -no-pie or -static)"
    if not elf.is_dynamic:
        return "the program is statically linked"
    if "main" not in elf.functions:
        return "the program has no symbol main"
    return why_not(elf)


def search_paths(elf: ElfFile) -> tuple[str, ...]:
    """Return where a program, and the Python that it is loaded into, look for their libraries."""
    return (*elf.run_paths, *(own_paths() if thread_memory(elf) else ()))


def child_environment(run_paths: Sequence[str] = (), *, threads: bool = False, script: bool = False) -> dict[str, str]:
    """Return the environment of a process that runs a program, its libraries bound at the start.

    Parameters
    ----------
    run_paths : sequence of str
        Where the program looks for its libraries: a copy of it lies elsewhere.
    threads : bool
        Whether OpenMP starts as many threads as this process' environment says, and not one.
    script : bool
        Whether the process runs a Python script: only then is Python's buffering the program's own.
    """
    more = {} if threads else {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}
    if run_paths:
        more["LD_LIBRARY_PATH"] = os.pathsep.join([*run_paths, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    found = os.environ | {"PYTHONPATH": module_path(), "LD_BIND_NOW": "1", "PYTHONHASHSEED": "0", **more}
    if not script:
        found.pop(_UNBUFFERED, None)
    return found


def _saved(scratch: Path, number: int, value: Any) -> str:
    path = scratch / f"argument{number}.npy"
    np.save(path, value, allow_pickle=False)
    return str(path)
