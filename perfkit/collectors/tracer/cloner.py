"""The default backend: run a clone of the function in a child process and read what it recorded (x86-64)."""

import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.lines import Loaded
from perfkit.collectors.tracer.outside import Maps, called, refuse_generated
from perfkit.collectors.tracer.pinned import pinned_environment, process_environment, renamed
from perfkit.collectors.tracer.recording import Recording, whole_blocks
from perfkit.errors import DataError, UnavailableError

_CHILD = "perfkit.collectors.tracer.child"
_BUFFERS = ("context", "blocks", "addresses", "sizes")
# The end of the block buffer is where a clone can be stopped. It grows by what surely stays within the limit, and by
# this many blocks at least, so that the end is reached in few steps.
_GROWTH = 16384
_CALLS, _ACTIVE, _MISSING, _POINTER, _REGISTERS = 24, 48, 72, 0, 128
_OUTSIDE, _OUTSIDE_ROOM, _PINNED = 1024, 128, 3584
_RIP = 16  # index in gregs
_MAX_ATTEMPTS = 200
_LOOK = 0.02  # seconds between looks at how far a program is that is to be ended early


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
    leaders: list[int] = []
    pointed: list[tuple[str, int]] = []
    for _ in range(_MAX_ATTEMPTS):
        with (
            tempfile.TemporaryDirectory(prefix="perfkit-trace-") as scratch,
            _Run(job, leaders, pointed, Path(scratch)) as run,
        ):
            run.follow()
            if run.missing:
                leaders.append(run.missing)
                continue
            recording = run.recording()
            more = run.not_yet_followed()
            if not more:
                return run.noting(recording)
            pointed += more
    raise Refusal(f"its indirect jumps have more than {_MAX_ATTEMPTS} targets that no table names")


class _Run:
    """One child process, from its start to the mapped results."""

    def __init__(self, job: Job, leaders: list[int], pointed: list[tuple[str, int]], scratch: Path) -> None:
        self.job, self.pointed, self.scratch = job, pointed, scratch
        self.missing = 0
        self.stopped = ""
        self.finished = False
        self.handles = {name: os.memfd_create(f"perfkit-{name}", 0) for name in _BUFFERS}
        os.ftruncate(self.handles["context"], 4096)
        self.context = mmap.mmap(self.handles["context"], 4096)
        self.channel, to_parent = os.pipe()
        from_parent, self.answers = os.pipe()
        # An array that the job names by value is handed over as a file.
        arguments = [
            [kind, _saved(scratch, k, value)] if kind == "array" else [kind, value]
            for k, (kind, value) in enumerate([] if job.program else job.arguments)
        ]
        specification = {
            "path": str(job.path.resolve()),
            "program": job.program,
            "function": job.function,
            "arguments": [str(word) for word in job.arguments] if job.program else arguments,
            "calls": job.last_call,
            "limit": job.limit,
            "first_call": job.first_call,
            "last_call": job.last_call,
            "callees": job.callees,
            "leaders": leaders,
            "pointed": pointed,
            "setup": job.setup,
            "library": job.library,
            "scratch": str(scratch),
            "pinned": pinned_environment(job.pinned) if job.pinned else None,
            "channel": to_parent,
            "answers": from_parent,
            **self.handles,
        }
        self.log = (scratch / "output").open("w+b")
        source = job.stdin.open("rb") if job.stdin is not None else None
        self.process = subprocess.Popen(
            [sys.executable, "-m", _CHILD, json.dumps(specification)],
            stdin=source or subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            pass_fds=[to_parent, from_parent, *self.handles.values()],
            env=self._environment(),
        )
        if source is not None:
            source.close()
        os.close(to_parent)
        os.close(from_parent)
        self.deadline = time.monotonic() + job.timeout

    def _environment(self) -> dict[str, str]:
        job = self.job
        usual = child_environment(ElfFile(job.path).run_paths if job.program or job.pinned else ())
        return process_environment(job.pinned, usual) if job.pinned else usual

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for handle in (*self.handles.values(), self.channel, self.answers):
            os.close(handle)
        self.log.close()

    def follow(self) -> None:
        """Answer the child's messages until it is done or has to be stopped."""
        for kind, payload in self._messages():
            if kind == b"R":
                raise Refusal(payload.decode())
            if kind == b"E":
                raise UnavailableError(f"the cloner cannot run here: {payload.decode()}")
            if kind == b"I":
                self._prepare(json.loads(payload))
            elif kind == b"F":
                self._fault(payload)
            elif kind == b"X":
                (status,) = struct.unpack("<i", payload)
                self.notes["exit_status"] = str(status)
            elif kind == b"T":
                seconds, cpu = struct.unpack("<2d", payload)
                self.notes |= {"seconds": f"{seconds:.6f}", "cpu_seconds": f"{cpu:.6f}"}
            elif kind == b"M":
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
        count = self._recorded_blocks()
        raw = self._map("blocks", count, np.uint32)
        raw -= 1  # ids were written plus one, so that what was not written is 0
        blocks, _, accesses, sizes = whole_blocks(raw, self.lengths, self.slots, self.dynamics, self.job.limit)
        if blocks < count and not self.stopped:
            self.stopped = self._limit_reached()
        if not blocks:
            raise DataError(self._nothing())
        self.block_counts = np.zeros(len(self.lengths), dtype=np.int64)
        if any(block["leaves"] for block in self.static["blocks"]):
            for first in range(0, blocks, 1 << 20):
                part = raw[first : min(first + (1 << 20), blocks)]
                self.block_counts += np.bincount(part, minlength=len(self.lengths))
        found = Recording(
            "x86-64",
            self.static["blocks"],
            raw[:blocks],
            self._map("addresses", accesses, np.uint64),
            self._map("sizes", sizes, np.uint32),
            self.stopped,
            self.notes,
            tuple(Loaded(*each) for each in self.static["loaded"]),
        )
        if not self.job.pinned:
            return found
        return renamed(found, self.maps, struct.unpack_from("<5Q", self.context, _PINNED))

    def not_yet_followed(self) -> list[tuple[str, int]]:
        """List functions that were called through pointers and that another attempt may record: file and offset.

        Raises
        ------
        DataError
            When called functions are wanted and code was called that was generated at run time.
        """
        if not self.job.callees:
            return []
        refuse_generated(self.job.function, self._left_for(), self.maps)
        found = []
        for address in self._pointed_at():
            place = self.maps.place(address)
            own = place.path in (str(self.job.path.resolve()), str(self.scratch.resolve() / "program.so"))
            key = ("" if own else place.path, place.offset)
            if place.path.startswith("/") and key not in self.pointed:
                found.append(key)
        # Another attempt would not come as far in the time that there is.
        return [] if self.stopped.startswith("timeout") else found

    def noting(self, recording: Recording) -> Recording:
        """Add to a recording's notes what was called and is not in it."""
        names = dict(self.static["outside"])
        counts = called(self._left_for(), names, self.maps)
        unlisted = self._context(_OUTSIDE + 16 * _OUTSIDE_ROOM + 8)
        if unlisted:
            counts["others"] = unlisted
        everything = sorted({*names.values(), *counts})
        notes = dict(recording.notes)
        if everything:
            notes["not_followed"] = ", ".join(everything)
        if counts:
            notes["not_followed_calls"] = ", ".join(f"{name}: {count}" for name, count in counts.items())
        return replace(recording, notes=notes)

    def _left_for(self) -> dict[int, int]:
        """Count the calls that left the region, by address: direct ones and those through pointers."""
        counts = Counter(self._pointed_at())
        for block, executed in enumerate(self.block_counts):
            target = self.static["blocks"][block]["leaves"]
            if target and executed:
                counts[target] += int(executed)
        return dict(counts)

    def _pointed_at(self) -> dict[int, int]:
        """Return the targets outside of the region that calls and jumps through pointers had, with their counts."""
        rows = struct.iter_unpack("<QQ", self.context[_OUTSIDE : _OUTSIDE + 16 * _OUTSIDE_ROOM])
        return {target: count for target, count in rows if target}

    def _changed(self) -> str:
        return f"{self.job.function} changed its own code while it ran: self-modifying code is not traced"

    def _code_changed(self) -> bool:
        """Whether a child that is stopped early holds other code than was cloned; it cannot look itself any more."""
        rows = [row for block in self.static["blocks"] for row in block["instructions"]]
        entry = range(self.static["entry"], self.static["entry"] + 16)  # where the jump to the clone lies
        try:
            with Path(f"/proc/{self.process.pid}/mem").open("rb", buffering=0) as memory:
                return any(
                    os.pread(memory.fileno(), len(row[1]) // 2, row[0]) != bytes.fromhex(row[1])
                    for row in rows
                    if row[0] not in entry
                )
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
        self.counted = self.executed = self.capacity = 0
        self._grow()
        self._go_on()

    def _grow(self) -> bool:
        """Make room for more blocks, unless the limit is reached."""
        if self.capacity:
            # The buffer is full: count what is new in it.
            new = np.empty(self.capacity - self.counted, dtype=np.uint32)
            os.preadv(self.handles["blocks"], [new.data], 4 * self.counted)
            self.executed += int(np.bincount(new - 1, minlength=len(self.lengths)) @ self.lengths)
            self.counted = self.capacity
        left = self.job.limit - self.executed
        if left <= 0:
            return False
        self.capacity += max(left // int(self.lengths.max()), _GROWTH)
        self.capacity = -(-self.capacity // 1024) * 1024
        os.ftruncate(self.handles["blocks"], 4 * self.capacity)
        return True

    def _go_on(self) -> None:
        os.write(self.answers, b"g")

    def _fault(self, payload: bytes) -> None:
        number, _, code = struct.unpack_from("<iii", payload, 0)
        (address,) = struct.unpack_from("<Q", payload, 16)
        start, size = self.static["block_buffer"]
        if number == signal.SIGBUS and start <= address < start + size:
            if self._grow():
                self._go_on()
            else:
                self.stopped = self._limit_reached()
            return
        self.missing = self._context(_MISSING)
        if self.missing:
            return
        rip = struct.unpack_from("<23Q", payload, _REGISTERS)[_RIP]
        self._crashed(number, f"at address {address:#x}" if code >= 0 else "", rip)

    def _crashed(self, number: int, where: str, rip: int) -> None:
        self._kill()
        count = self._recorded_blocks()
        last = ""
        if count and self._context(_ACTIVE):
            (block,) = np.frombuffer(os.pread(self.handles["blocks"], 4, 4 * (count - 1)), dtype=np.uint32)
            rows = self.static["blocks"][int(block) - 1]
            first = rows["instructions"][0]
            last = (
                f" in {rows['function']}, in the block that begins at {first[0]:#x} ({first[2]}), "
                f"after {self._executed(count):,} traced instructions"
            )
        else:
            last = f" outside of {self.job.function} (at {rip:#x})"
        name = signal.Signals(number).name
        raise DataError(f"the code crashed with {name} {where}{last}. {self._output()}".replace("  ", " ").strip())

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
            ready = left > 0 and select.select([self.channel], [], [], min(left, _LOOK) if self.job.early else left)[0]
            if not ready and left > _LOOK and self.job.early:
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
        return self._context(_CALLS) >= self.job.last_call and not self._context(_ACTIVE)

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
            return (self._context(_POINTER) - int(self.static["block_buffer"][0])) // 4
        low, high = 0, self.capacity
        while low < high:
            middle = (low + high) // 2
            if os.pread(self.handles["blocks"], 4, 4 * middle) not in (b"", bytes(4)):
                low = middle + 1
            else:
                high = middle
        # The last block was entered; unless the buffer's end stopped it before, it did not run to its end.
        return low if low == self.capacity else max(low - 1, 0)

    def _executed(self, blocks: int) -> int:
        raw = self._map("blocks", blocks, np.uint32)
        return int(np.bincount(raw - 1, minlength=len(self.lengths)) @ self.lengths)

    def _context(self, offset: int) -> int:
        (value,) = struct.unpack_from("<Q", self.context, offset)
        return int(value)

    def _map(self, name: str, count: int, dtype: Any) -> NDArray[Any]:
        """Map the first values of a buffer; the array keeps the memory alive."""
        if not count:
            return np.empty(0, dtype=dtype)
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(mmap.mmap(self.handles[name], size), dtype=dtype, count=count)

    def _limit_reached(self) -> str:
        return f"limit of {self.job.limit} instructions"

    def _nothing(self) -> str:
        job, calls = self.job, self._context(_CALLS)
        if not calls:
            return f"{job.path.name} never called {job.function}. {self._output()}".strip()
        if calls < job.first_call:
            begin = f"the trace was to begin with call {job.first_call}"
            return f"{job.path.name} called {job.function} {calls} times; {begin}"
        return f"nothing of {job.function} was recorded within {self.stopped or 'the limit'}"

    def _output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        text = self.log.read()[-500:].decode(errors="replace").strip()
        return f"It printed: {text}" if text else ""


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
    return ""


def child_environment(run_paths: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of a process that runs a program in one thread, its libraries bound at the start.

    Parameters
    ----------
    run_paths : sequence of str
        Where the program looks for its libraries: a copy of it lies elsewhere.
    """
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    single = {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}
    if run_paths:
        single["LD_LIBRARY_PATH"] = os.pathsep.join([*run_paths, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return os.environ | {"PYTHONPATH": path, "LD_BIND_NOW": "1", "PYTHONHASHSEED": "0", **single}


def _saved(scratch: Path, number: int, value: Any) -> str:
    path = scratch / f"argument{number}.npy"
    np.save(path, value, allow_pickle=False)
    return str(path)
