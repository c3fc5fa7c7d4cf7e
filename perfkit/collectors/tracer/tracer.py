"""The tracer's settings: what to record of which program or kernel, and by which backend."""

import hashlib
import json
import platform
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import existing
from perfkit.base.kept import all_kept
from perfkit.collectors.tracer.arguments import described_arguments
from perfkit.collectors.tracer.bounds import BeyondWarning, misses
from perfkit.collectors.tracer.demangle import demangled, named_as
from perfkit.collectors.tracer.elf import ElfFile, Symbol, is_loop, opens_loops
from perfkit.collectors.tracer.lines import Loaded, annotate
from perfkit.collectors.tracer.recording import Recording
from perfkit.errors import DataError, PerfkitWarning, SettingError, UnavailableError
from perfkit.trace.code import Provenance
from perfkit.trace.system import is_system
from perfkit.trace.threads import BARRIERS, ThreadTraces
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel
    from perfkit.collectors.tracer.cloner import Job
    from perfkit.collectors.tracer.threads import ThreadRecording

BACKENDS = ("auto", "cloner", "qemu")
_ONLY = "only the cloner records threads"


@dataclass(frozen=True)
class Tracer:
    """Record the instructions and addresses of one function of a program, or of a kernel.

    Parameters
    ----------
    limit : int
        Stop after this many instructions (at the end of a basic block). A recorded instruction needs about 4 bytes.
    skip : int
        Calls of the function to let pass before recording. Calls within a call of it belong to that one, and are not
        counted.
    repeat : int
        Calls to record after those.
    callees : bool
        Record the functions that it calls, too; those that cannot be are warned of by name, generated code is refused.
    backend : {"auto", "cloner", "qemu"}
        ``"cloner"`` runs an instrumented copy of the machine code (x86-64); ``"qemu"`` emulates (x86-64 without
        AVX-512 and gathers, AArch64, RISC-V). ``"auto"`` takes the cloner where it can, and the trace says why.
    timeout : float
        Stop after this many seconds.
    begin, end : str
        Markers, where the region is a part of the function: names of functions that it calls where recording is to
        begin and to end. The limit counts what lies outside of them, too.
    library : str
        Of a program: the library that holds the function, where the program loads it.
    stdin : Path, optional
        What a program reads from its standard input; nothing by default.
    early : bool
        End a program once the last call is recorded, instead of letting it run to its end.
    after : float
        Of a program: seconds of user time after which recording begins, in the middle of whichever call runs then, or
        with the next; what ran before runs at full speed. By the cloner only; 0: with call ``skip + 1``.
    pinned : {"", "x86-64-v2", "x86-64-v3", "x86-64-v4"}
        Record the same trace in every run and on every host: what libc and BLAS choose by processor is pinned to this
        instruction set; stack, heap, arguments, environment and random numbers are the same ones; files lie at the same
        addresses. By the cloner only.
    count_to : int
        Go on counting instructions up to this many, for some seconds: those behind the limit are not kept. Where the
        calls end meanwhile, ``provenance.extra["counted"]`` holds how many they have. By the cloner only.
    pointed : sequence of (str, int)
        Code that is most likely reached through pointers, with `callees`: a file, and an address in it. What is named
        here need not be found by recording once and beginning anew; what is never called changes nothing.

    Examples
    --------
    >>> import perfkit as pk
    >>> trace = pk.collectors.Tracer(limit=100_000).run("./a.out", "work", ["48"])  # doctest: +SKIP
    """

    limit: int = 10_000_000
    skip: int = 0
    repeat: int = 1
    callees: bool = False
    backend: str = "auto"
    timeout: float = 120.0
    begin: str = ""
    end: str = ""
    library: str = ""
    stdin: Path | None = None
    early: bool = False
    pinned: str = ""
    after: float = 0.0
    count_to: int = 0
    pointed: Sequence[tuple[str, int]] = ()

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise SettingError(f"unknown backend {self.backend!r}; known: {', '.join(BACKENDS)}")
        for name, least in (("limit", 1), ("skip", 0), ("repeat", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise SettingError(f"{name} must be a whole number, {least} or more; found {value!r}")
        if not 0 <= self.after < np.inf or (self.after and (self.pinned or self.skip or self.backend == "qemu")):
            raise SettingError(
                f"after is a time of at least 0 s, without skip, pinned or backend='qemu'; found {self.after!r}"
            )
        if not self.timeout > 0:
            raise SettingError(f"timeout must be positive, found {self.timeout}")
        if self.pinned:
            from perfkit.collectors.tracer.pinned import check_level

            check_level(self.pinned)
            if self.backend == "qemu":
                raise SettingError("a pinned recording is made by the cloner; leave backend as it is")
        if bool(self.begin) != bool(self.end):
            raise SettingError("give both markers, begin and end, or none")

    def run(self, binary: str | Path, function: str, arguments: Sequence[str] = ()) -> Trace:
        """Run a program, or a Python script, and record the calls of one function of it, or of a library it loads.

        Parameters
        ----------
        binary : str or Path
            The program (x86-64, Linux), or the script.
        function : str
            The function, as its source or its symbol names it.
        arguments : sequence of str
            The program's words.

        Raises
        ------
        MissingFileError
            When there is no such file.
        DataError, FormatError
            When the file is no program that can be traced, has no such function (with the nearest names), never calls
            it, or crashes in it.
        UnavailableError
            When no backend can trace it here, with what to install.
        """
        elf, symbol = self._checked(binary, function)
        arguments, script = [str(word) for word in arguments], _script(binary)
        why_not = "" if script else self._obstacle(elf, None)
        settings = self if not self.begin else replace(self, begin=elf.symbol(self.begin), end=elf.symbol(self.end))
        with all_kept():
            recording, backend, reason = self._record(elf, symbol.name, arguments, why_not, None, script)
            about = _of_program(elf, script or elf.path, function, arguments, backend, reason)
            return settings._finish(recording, about, (elf.path.parent,))

    def run_threads(
        self, binary: str | Path, function: str, arguments: Sequence[str] = (), *, beside: Sequence[str] = ()
    ) -> ThreadTraces:
        """Run a program and record every thread that runs a function, or the parallel loops in it.

        Of a function with parallel loops (OpenMP) the bodies of these loops are recorded, in every thread, while one
        of its wanted calls runs; of another function, such as a thread's own, the wanted calls of each thread. The
        limit is that of one thread. OpenMP starts as many threads as ``OMP_NUM_THREADS`` says. `binary`, `function` and
        `arguments` are those of `run`; `beside` are symbols of the same file that other threads run, whose calls are
        recorded as well.

        Raises
        ------
        DataError, FormatError, UnavailableError
            As `run` does; `DataError` also where more than 64 threads come, or one starts a process in the region.
        SettingError
            With `callees`, of a function that starts parallel loops.
        """
        home = existing(self.library or binary)
        loops = [] if _script(home) else ElfFile(home).loops(function)
        elf, symbol = self._checked(binary, loops[0] if loops else function)
        arguments = [str(word) for word in arguments]
        more = (*loops[1:], *beside)
        recorded = self._threads(elf, symbol.name, arguments, None, more, _script(binary))
        about = _of_program(elf, Path(binary), function, arguments, "cloner", _ONLY)
        found = self._finished(recorded, symbol.name, about, (elf.path.parent,))
        return found if _script(home) else _with_loops_elsewhere(found, ElfFile(home), symbol.name)

    def run_kernel_threads(self, kernel: "Kernel", *arguments: Any) -> ThreadTraces:
        """Call a compiled kernel with arguments and record every thread that runs it, or the parallel loops in it.

        Raises
        ------
        SettingError, DataError, UnavailableError
            As `run_threads` and `run_kernel` do.
        """
        values = described_arguments(kernel, arguments)
        recorded = self._threads(ElfFile(kernel.path), kernel.function, values, kernel)
        about = _about_kernel(kernel, arguments, "cloner", _ONLY)
        return self._finished(recorded, kernel.function, about, kernel.folders)

    def _checked(self, binary: str | Path, function: str) -> tuple[ElfFile, Symbol]:
        """Open a program, or the library that a Python script loads, and find its function."""
        script = _script(binary)
        if script and (not self.library or self.pinned):
            raise SettingError(
                f"{script}: of a Python script, name the library that it loads (library), and pin nothing"
            )
        elf = ElfFile(existing(self.library if script else binary))
        home = ElfFile(existing(self.library)) if self.library else elf
        symbol = home.function(function)
        if not elf.is_program and not script:
            raise DataError(f"{binary} is a library, not a program; load it with compile_kernel or trace a program")
        if home.is_writable(symbol.address):
            raise DataError(
                f"{function} lies in memory that the program may write: self-modifying or generated code is not traced"
            )
        return elf, symbol

    def _threads(
        self,
        elf: ElfFile,
        function: str,
        arguments: list[Any],
        kernel: "Kernel | None",
        loops: tuple[str, ...] = (),
        script: Path | None = None,
    ) -> "tuple[list[ThreadRecording], list[str]]":
        """Record all threads, which only the cloner can."""
        if self.begin or self.after:
            raise SettingError("markers (begin, end) and after are for one thread; record threads without them")
        if self.pinned:
            raise SettingError("a recording of threads cannot be pinned: they meet in another order in every run")
        if self.backend == "qemu":
            raise SettingError("QEMU records one thread; threads need backend='cloner' (or 'auto')")
        import perfkit.collectors.tracer.cloner as cloner
        from perfkit.collectors.tracer.threads import record_threads

        why_not = "" if script else self._obstacle(elf, kernel)
        if not why_not:
            job = self._job(elf, function, arguments, kernel)
            try:
                return record_threads(replace(job, loops=loops, script=script))
            except cloner.Refusal as refusal:
                why_not = str(refusal)
        raise DataError(f"the threads of {function} cannot be recorded: {why_not}")

    def _finished(
        self,
        recorded: "tuple[list[ThreadRecording], list[str]]",
        entry: str,
        provenance: Provenance,
        folders: Sequence[Path] = (),
    ) -> ThreadTraces:
        threads, bodies = recorded
        if self.callees and opens_loops(entry, bodies):
            # The runtime that starts the loops was recorded as a part of the first thread, and with it its loop.
            raise SettingError(
                f"callees: {entry} starts parallel loops, whose runtime would be recorded into its first thread. "
                f"Record a loop with what it calls ({bodies[0]}), or {entry} without callees"
            )
        if is_loop(entry):
            # The function that starts the loops is not recorded: where all threads take part in all of them, their
            # calls tell them apart.
            bodies = [entry, *bodies] if len({len(thread.calls) for thread in threads}) == 1 else []
            threads = [replace(each, calls=_numbered(each.calls, bodies)) for each in threads]
        traces = []
        for thread in threads:
            recording = thread.recording.executed()
            barriers = [k for k, block in enumerate(recording.blocks) if block.get("calls", "") in BARRIERS]
            more = {"entry": entry, "barriers": json.dumps(barriers), "thread": str(thread.number)}
            if thread.unlogged:
                more["calls_without_phase"] = str(thread.unlogged)
            more["variables"] = json.dumps(_variables(recording))
            recording = replace(recording, notes={**recording.notes, **more})
            traces.append(self._finish(recording, provenance, folders))
        loops = tuple(bodies) if any(map(is_loop, [entry, *bodies])) else ()
        return ThreadTraces(tuple(traces), tuple(thread.calls for thread in threads), loops)

    def run_kernel(self, kernel: "Kernel", *arguments: Any) -> Trace:
        """Call a compiled kernel with arguments and record what it does.

        Raises
        ------
        SettingError
            When the function takes another number of arguments, as far as its debug information tells.
        """
        if self.after:
            raise SettingError("after is for programs; a kernel is recorded from its call on")
        values = described_arguments(kernel, arguments)
        elf = ElfFile(kernel.path)
        recording, backend, reason = self._record(elf, kernel.function, values, self._obstacle(elf, kernel), kernel)
        return self._finish(recording, _about_kernel(kernel, arguments, backend, reason), kernel.folders)

    def _obstacle(self, elf: ElfFile, kernel: "Kernel | None") -> str:
        """Say why the cloner cannot record this; empty if it can."""
        from perfkit.collectors.tracer.cloner import unloadable

        why_not = unloadable(elf) if kernel is None else "" if elf.isa == "x86-64" else f"it is {elf.isa} code"
        if platform.machine() != "x86_64" and not why_not:
            why_not = f"this machine is {platform.machine()}"
        return why_not

    def _job(self, elf: ElfFile, function: str, arguments: list[Any], kernel: "Kernel | None") -> "Job":
        from perfkit.collectors.tracer.cloner import Job

        return Job(
            elf.path,
            function,
            kernel is None,
            arguments,
            self.limit,
            self.skip + 1,
            self.skip + self.repeat,
            self.callees,
            self.timeout,
            "setup" if kernel is not None and kernel.has_setup else "",
            self.library,
            self.stdin,
            self.early,
            self.pinned,
            after=self.after,
            count_to=self.count_to,
            pointed=tuple(self.pointed) if self.callees and not self.pinned else (),
        )

    def _record(
        self,
        elf: ElfFile,
        function: str,
        arguments: list[Any],
        why_not: str,
        kernel: "Kernel | None",
        script: Path | None = None,
    ) -> tuple[Recording, str, str]:
        """Choose the backend and run it; also say which and why."""
        if self.backend != "qemu" and not why_not:
            import perfkit.collectors.tracer.cloner as cloner

            job = replace(self._job(elf, function, arguments, kernel), script=script)
            try:
                return cloner.record(job), "cloner", "x86-64 code that can be copied" * (self.backend == "auto")
            except cloner.Refusal as refusal:
                why_not = str(refusal)
        if self.pinned:
            raise DataError(
                f"{function} cannot be recorded alike in every run: {why_not}. Build a position-independent program "
                "that is not linked statically (-fPIE -pie)"
            )
        if self.backend == "cloner" or script:
            raise DataError(f"the cloner cannot trace {function}: {why_not}. Try backend='qemu'")
        return self._emulate(elf, function, arguments, why_not, kernel)

    def _emulate(
        self, elf: ElfFile, function: str, arguments: list[Any], why_not: str, kernel: "Kernel | None"
    ) -> tuple[Recording, str, str]:
        import perfkit.collectors.tracer.qemu as qemu

        if self.after:
            raise UnavailableError(
                f"{function} must be traced by QEMU ({why_not}), which records calls from their beginning on"
            )
        if self.begin:
            raise UnavailableError(
                f"{function} must be traced by QEMU ({why_not or 'as asked'}), which knows no markers; make the part "
                "to be traced a function of its own"
            )
        if kernel is not None and arguments:
            raise UnavailableError(
                f"{function} must be traced by QEMU ({why_not or 'as asked'}), which runs whole programs: a kernel for "
                "it takes no arguments (see the corpus), or is traced as a part of a program"
            )
        path = elf.path if kernel is None else kernel.program()
        words = arguments if kernel is None else []
        try:
            recording = qemu.record(self, path, function, words)
        except UnavailableError as error:
            if not why_not:
                raise
            raise UnavailableError(f"the cloner cannot trace {function}: {why_not}. And {error}") from error
        if not recording.loaded:
            recording = replace(recording, loaded=_by_entry(recording, path, function))
        return recording, "qemu", f"not the cloner: {why_not}" if why_not else "as asked"

    def _finish(self, recording: Recording, provenance: Provenance, folders: Sequence[Path] = ()) -> Trace:
        recording = recording.between(self.begin, self.end) if self.begin else recording
        recording = recording.executed()
        settings: dict[str, Any] = {"skip": self.skip, "repeat": self.repeat, "callees": self.callees}
        settings["limit"] = self.limit
        settings |= {"begin": self.begin, "end": self.end} if self.begin else {}
        settings |= {"pinned": self.pinned} if self.pinned else {}
        settings |= {"after": self.after} if self.after else {}
        extra = {key: str(value) for key, value in settings.items()}
        if recording.loaded:
            extra["loaded"] = json.dumps([[each.start, each.end, each.load_address] for each in recording.loaded])
            system = [[each.start, each.end] for each in recording.loaded if is_system(each.path)]
            extra |= {"system": json.dumps(system)} if system else {}
        if self.pinned:
            extra["libraries"] = json.dumps(_digests(recording, of_system=True))
            extra["own_code"] = json.dumps(_digests(recording, of_system=False))
        left = recording.notes.get("not_followed_calls")
        if self.callees and left:
            warnings.warn(
                f"the trace of {provenance.function} lacks functions that it called and that cannot be recorded "
                f"(name: calls): {left}",
                PerfkitWarning,
                stacklevel=4,
            )
        if recording.stopped.startswith("timeout"):
            warnings.warn(
                f"the trace of {provenance.function} was cut off by its {recording.stopped}: what would have run later "
                "is missing from it, and from every figure made of it; give it more time, or a smaller problem",
                PerfkitWarning,
                stacklevel=4,
            )
        others = recording.notes.get("calls_in_other_threads")
        if others:
            warnings.warn(
                f"the trace of {provenance.function} is that of one thread; other threads called it {others} times, "
                "and these calls are not in it: record every thread with pk.trace_threads (perfkit trace --threads)",
                PerfkitWarning,
                stacklevel=4,
            )
        if (name := named_as(provenance.function)) != provenance.function:
            extra["source_name"] = name
        trace = recording.trace(
            replace(
                provenance,
                kind="recorded",
                host=f"{platform.machine()} {processor_name()}",
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                complete=not recording.stopped,
                stopped=recording.stopped,
                extra={**provenance.extra, **extra, **recording.notes},
            )
        )
        for miss in misses(trace, recording.arrays):
            warnings.warn(
                f"{provenance.function} accesses memory {miss}: what lies there is chance, and so is what follows from "
                "it; give a larger array, or smaller numbers",
                BeyondWarning,
                stacklevel=4,
            )
        return annotate(trace, recording.loaded, folders)


def _digests(recording: Recording, of_system: bool) -> dict[str, str]:
    """Return what tells versions of the files apart whose code is in a recording, by name.

    Of the system's libraries that is the whole file's digest, of others that of their code, where it is known.
    """
    paths = {Path(each.path).name: Path(each.path) for each in recording.loaded if is_system(each.path) == of_system}
    files = {name: ElfFile(path) for name, path in sorted(paths.items()) if path.is_file()}
    found = {name: file.sha256[:12] if of_system else file.code_sha256[:16] for name, file in files.items()}
    return {name: digest for name, digest in found.items() if digest}


def _script(binary: str | Path) -> Path | None:
    """Return the Python script that is given in place of a program, if it is one."""
    path = Path(binary)
    return path if path.suffix == ".py" and path.is_file() else None


def _of_program(
    elf: ElfFile, program: Path, function: str, arguments: Sequence[str], backend: str, reason: str
) -> Provenance:
    name = program.name
    command = shlex.join([name, *arguments])
    return Provenance(name, function, backend=backend, backend_reason=reason, command=command, binary_sha256=elf.sha256)


def _with_loops_elsewhere(found: ThreadTraces, home: ElfFile, function: str) -> ThreadTraces:
    """Note, where only one thread came, which other functions of the file hold parallel loops."""
    others = [name for name in home.with_loops() if name != function]
    if len(found) > 1 or found.bodies or not others:
        return found
    (trace,) = found.traces
    extra = {**trace.provenance.extra, "loops_elsewhere": json.dumps(others)}
    return replace(found, traces=(replace(trace, provenance=replace(trace.provenance, extra=extra)),))


def _numbered(calls: NDArray[np.int64], bodies: list[str]) -> NDArray[np.int64]:
    """Return calls of which each begins a phase, or none does."""
    return np.stack([calls[:, 0], np.arange(len(calls)) if bodies else np.zeros(len(calls), dtype=np.int64)], axis=1)


def _variables(recording: Recording) -> list[tuple[int, int, str]]:
    """Return address, size and name of the static variables that were accessed, of the files that the code is in."""
    touched = np.unique(recording.addresses >> np.uint64(6)) << np.uint64(6)
    found = []
    for each in recording.loaded:
        for symbol in ElfFile(each.path).variables:
            start = symbol.address + each.load_address
            first, last = np.searchsorted(touched, [start & ~63, start + symbol.size])
            if first < last:
                found.append((start, symbol.size, symbol.name))
    names = demangled(name for _, _, name in found)
    return [(start, size, names.get(name, name)) for start, size, name in found]


def _about_kernel(kernel: "Kernel", arguments: Sequence[Any], backend: str, reason: str) -> Provenance:
    return Provenance(
        workload=kernel.name,
        function=kernel.function,
        backend=backend,
        backend_reason=reason,
        command=f"{kernel.function}({', '.join(_show(value) for value in arguments)})",
        compiler=kernel.compiler,
        flags=" ".join(kernel.flags),
        binary_sha256=ElfFile(kernel.path).sha256,
        extra={"source_sha256": hashlib.sha256(kernel.source.encode()).hexdigest()},
    )


def _by_entry(recording: Recording, path: Path, function: str) -> tuple[Loaded, ...]:
    """Say where a program lay, from the address that its function was entered at; nothing where that tells nothing."""
    symbol = ElfFile(path).functions.get(function)
    if symbol is None or not len(recording.stream):
        return ()
    entered = int(recording.blocks[int(recording.stream[0])]["instructions"][0][0])
    base = entered - symbol.address
    end = max(int(row[0]) for block in recording.blocks for row in block["instructions"]) + 1
    return (Loaded(str(path), base, end, base),) if base >= 0 and base % 4096 == 0 else ()


def _show(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)


def processor_name() -> str:
    """Name the processor, as Linux does."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "")
