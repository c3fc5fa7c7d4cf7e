"""Running an instrumented kernel: its executed blocks and addresses go to a consumer, buffer by buffer."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import hashlib
import mmap
import os
import re
import select
import signal
import struct
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from perfkit.collectors.dag.fences import Beyond, Fences
from perfkit.collectors.dag.ir_module import readable
from perfkit.collectors.dag.llvm_ir import ENTRY_SYMBOLS, REPEAT, Instrumented
from perfkit.collectors.dag.subnormal import met_subnormals
from perfkit.dag.doubts import SUBNORMAL, UNSEEN_CALLS
from perfkit.dag.graph import Dag
from perfkit.dag.program import BlockProgram, Consumer
from perfkit.errors import DataError, PerfkitWarning, SettingError, UnavailableError

NOT_IN_IR = "is not in the DAG"
"""What a warning says of the work within functions whose IR is not at hand; their machine code is."""
_BUFFER = 1 << 16  # records of 8 bytes: half a megabyte stays in the second-level cache
_PAGE = 4096
_APART = 17 * 64  # bytes from the place of one array in its page to that of the next
ROOM = 4096  # numbers of eight bytes that numba's convention may return: an array is seven and more of them
_RETURNED, _LEFT, _FAILED = 83, 84, 85  # exit statuses: a kernel returned, left its arrays, was not called
_PATIENCE = 5  # seconds of a kernel's first run, behind which it is said that it goes on
_TOLD = struct.Struct("=qq?")  # what a child process says of an access outside of an array
_FAULTS: dict[int, str] = {
    signal.SIGFPE: "SIGFPE, a division of integers by zero or one whose result does not fit",
    signal.SIGSEGV: "SIGSEGV, an access outside of its arrays or recursion that does not end",
    signal.SIGBUS: "SIGBUS, an access outside of its arrays",
    signal.SIGILL: "SIGILL, an instruction that this machine does not have, or code that is never to be reached",
    signal.SIGABRT: "SIGABRT, by abort() or a failed assertion",
}
_MADE_CALLS = re.compile(r"\b(?:i128|fp128|half|bfloat)\b")
_LIBRARIES = ("libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
# Numba numbers its functions in the order of their compilation, within their names and one message's length.
_NUMBERED = re.compile(r"B\d+v\d+|^.*missing Environment.*$", re.MULTILINE)
_CTYPES: dict[str, Any] = {
    "ptr": ctypes.c_void_p,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i16": ctypes.c_int16,
    "i8": ctypes.c_int8,
    "i1": ctypes.c_bool,
    "void": None,
}


@dataclass(frozen=True, eq=False)
class KernelTrace:
    """A kernel that is traced each time its nodes are asked for: nothing but one buffer is held in memory.

    Make one with `trace_numba` or `trace_c`. The scheduler takes it as it takes a `Dag`; `dag` makes one of it.

    Parameters
    ----------
    name
        The kernel's name and sizes.
    code
        The instrumented IR.
    native
        The native arguments, in the order of the IR's parameters.
    arrays
        Copies of the array arguments, which the kernel works on, with their original contents.
    returns
        The IR type the kernel returns; for numba's convention a status is expected in it.
    status
        Whether the returned integer is a status, 0 for success.
    facts
        Compiler and flags, as text.
    """

    name: str
    code: Instrumented
    native: tuple[Any, ...]
    arrays: tuple[tuple[npt.NDArray[Any], npt.NDArray[Any]], ...]
    returns: str = "void"
    status: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    _loaded: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.facts.setdefault(UNSEEN_CALLS, str(int(self.code.calls)))
        if self.code.ignored:
            warnings.warn(
                f"{self.name}: the work within {', '.join(self.code.ignored)} {NOT_IN_IR} (external functions "
                "are not traced): its time and accesses are missing, and results count as ready when arguments are",
                PerfkitWarning,
                stacklevel=3,
            )

    @property
    def program(self) -> BlockProgram:
        """The static tables of the kernel's blocks."""
        return self.code.program

    @property
    def callers(self) -> Mapping[int, int]:
        """The numbers of the blocks that call functions whose work is not seen, and how many calls each has."""
        return self.code.callers

    def replay(self, consume: Consumer) -> None:
        """Run the kernel on its original arguments and hand each full buffer to ``consume(records, length)``.

        Raises
        ------
        DataError
            If the kernel ends the process: the first run of a kernel is one in a process of its own.
        """
        machine, function = self._compiled("traced", self.code.text)
        cursor, end, flush = (
            ctypes.c_void_p.from_address(machine.get_global_value_address(name)) for name in ENTRY_SYMBOLS
        )
        room = _BUFFER + int(self.program.block_addresses.max(initial=0)) + 1
        buffer = np.empty(room, dtype=np.int64)
        start = buffer.ctypes.data
        failed: list[BaseException] = []

        def hand_over() -> None:
            # An exception cannot pass through the kernel: keep it, let the kernel end, raise it then.
            length = ((cursor.value or start) - start) // 8
            cursor.value = start
            if not failed:
                try:
                    consume(buffer, length)
                except BaseException as error:  # noqa: BLE001 - also KeyboardInterrupt
                    failed.append(error)

        callback = ctypes.CFUNCTYPE(None)(hand_over)
        flush.value = ctypes.cast(callback, ctypes.c_void_p).value
        cursor.value, end.value = start, start + 8 * room
        self._run(function, lambda: failed.append(SystemExit()))
        hand_over()
        if failed:
            raise failed[0]

    def digest(self) -> str:
        """Return a digest of what is traced: the code and the arguments (arrays by content, not by where they lie)."""
        found = hashlib.sha256(_NUMBERED.sub("", self.code.plain).encode())
        arrays: list[npt.NDArray[Any]] = [*self.program, *(original for _, original in self.arrays)]
        for array in arrays:
            found.update(f"{array.dtype.str}{array.shape}{array.strides}".encode())
            found.update(array.tobytes("A"))
        places = {work.ctypes.data for work, _ in self.arrays}
        found.update(repr(overlaps([work for work, _ in self.arrays])).encode())
        # The first two values of numba's convention are places as well.
        values = self.native[2 if self.status else 0 :]
        found.update(repr([value for value in values if value not in places]).encode())
        return found.hexdigest()

    def dag(self) -> Dag:
        """Trace the kernel once and keep the trace in memory as a `Dag`."""
        chunks: list[npt.NDArray[np.int64]] = []
        self.replay(lambda records, length: chunks.append(records[:length].copy()))
        stream = np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.int64)
        return Dag(self.program, stream, self.name, "traced", dict(self.facts))

    def run(self) -> list[npt.NDArray[Any]]:
        """Run the kernel without recording and return its arrays as it left them."""
        _, function = self._compiled("plain", self.code.plain)
        self._run(function)
        return [work.copy() for work, _ in self.arrays]

    def seconds(self, calls: int = 1, warm: bool = True) -> float:
        """Return the processor time of one call of the kernel without recording, in seconds.

        Parameters
        ----------
        calls
            Calls timed as one; the arrays are not restored in between.
        warm
            Call once before, so that caches are filled as in the warm model.
        """
        engine, function = self._compiled("plain", self.code.plain)
        types = [_CTYPES[kind] for kind in self.code.parameters]
        repeat = ctypes.CFUNCTYPE(None, *types, ctypes.c_int64)(engine.get_function_address(REPEAT))
        self._try(function)
        self._restore()
        if warm:
            function(*self.native)
        # Time on the processor, not on the clock: another process may have it in between.
        begin = time.thread_time()
        repeat(*self.native, calls)
        return (time.thread_time() - begin) / calls

    def _restore(self) -> None:
        """Let the arrays hold their original contents: those that the kernel may have written to."""
        if "written" not in self._loaded:
            _, module = _prepared(self.code.plain)
            read = [_only_read(argument) for argument in module.get_function(self.code.entry).arguments]
            written = {value for value, only in zip(self.native, read, strict=True) if not only}
            self._loaded["written"] = [pair for pair in self.arrays if pair[0].ctypes.data in written]
        for work, original in self._loaded["written"]:
            np.copyto(work, original)

    def _try(self, function: Any, before: Callable[[], None] = lambda: None) -> None:
        """Run a kernel that has not run yet in a process of its own: a fault would end this one without a word.

        Its arrays lie between fences there: a store a few bytes beyond one would not be a fault, but ruin what this
        process has behind it.
        """
        if "tried" in self._loaded:
            return
        self._restore()
        told = mmap.mmap(-1, mmap.PAGESIZE)  # shared with the child
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child runs the kernel alone
            child = os.fork()
        if child == 0:
            self._first_run(function, before, told)
        status = 0
        try:
            if not _ends_within(child, _PATIENCE):
                said = (
                    f"{self.name} has not returned after {_PATIENCE} s of its first run, and goes on: Ctrl-C stops it"
                )
                warnings.warn(said, PerfkitWarning, stacklevel=4)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        if status == _LEFT:
            raise DataError(f"{self.name}: {self._left(Beyond(*_TOLD.unpack_from(told)))}")
        if status == _FAILED:
            raise UnavailableError(
                f"{self.name}: its first run is one in a process of its own, which has no room for its arrays: make "
                "them smaller, or free memory"
            )
        if status != _RETURNED:
            how = f"exit status {status}" if status >= 0 else _FAULTS.get(-status, f"signal {-status}")
            raise DataError(f"{self.name} ends the process that calls it with these arguments: {how}")
        self._loaded["tried"] = True

    def _first_run(self, function: Any, before: Callable[[], None], told: mmap.mmap) -> NoReturn:
        """Run the kernel in this process, a child, and end it with what came of it."""

        def leave(found: Beyond) -> None:
            _TOLD.pack_into(told, 0, *found)
            os._exit(_LEFT)

        status = _FAILED
        try:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            fences = Fences(_spans([work for work, _ in self.arrays]), _aligned(self.code.plain))
            _kept = fences.watch(leave)
            places = {work.ctypes.data: fences.place(work.ctypes.data) for work, _ in self.arrays}
            before()
            function(*(places.get(value, value) if isinstance(value, int) else value for value in self.native))
            if found := fences.changed():
                leave(found)
            status = _RETURNED
        finally:
            os._exit(status)

    def _left(self, found: Beyond) -> str:
        """Say which array the kernel left, and by how much."""
        spans = _spans([work for work, _ in self.arrays])
        begin, end = spans[found.span]
        array = next(work for work, _ in self.arrays if begin <= work.ctypes.data <= end)
        return (
            f"expected loads and stores within its arrays, found {'a store' if found.stored else 'one'} at byte "
            f"{found.offset:,} of an array of {end - begin:,} bytes ({array.dtype}): give it an array as long as the "
            "code goes, of the type that it has there, or smaller sizes"
        )

    def _run(self, function: Any, before: Callable[[], None] = lambda: None) -> None:
        self._try(function, before)
        self._restore()
        code, met = met_subnormals(lambda: function(*self.native))
        if met:
            self.facts[SUBNORMAL] = "1"
        if self.status and code:
            raise DataError(f"{self.name} raised an exception while it was traced (numba status {code})")

    def _compiled(self, which: str, text: str) -> tuple[Any, Any]:
        if which not in self._loaded:
            machine = jit(text, (self.code.entry, REPEAT))
            types = [_CTYPES[kind] for kind in self.code.parameters]
            address = machine.get_function_address(self.code.entry)
            self._loaded[which] = (machine, ctypes.CFUNCTYPE(_CTYPES[self.returns], *types)(address))
        machine, function = self._loaded[which]
        return machine, function


def _ends_within(child: int, seconds: int) -> bool:
    """Wait so long for a child process to end; return whether it did, or that it may where the kernel cannot tell."""
    try:
        watched = os.pidfd_open(child)
    except OSError:  # Linux before 5.3, and sandboxes
        return True
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
    finally:
        os.close(watched)


def _aligned(ir: str) -> int:
    """Return to how many bytes, 64 at most, an array may have to be aligned for what its code was promised."""
    found = re.findall(r"\balign (\d+)|\"align\"\(ptr [^,()]+, i64 (\d+)", ir)
    return min(64, max((int(a or b) for a, b in found), default=8))


def _only_read(argument: Any) -> bool:
    """Whether LLVM found that a function writes nothing through an argument."""
    words = {word.decode() if isinstance(word, bytes) else word for word in argument.attributes}
    return bool(words & {"readonly", "readnone"})


def jit(text: str, keep: Sequence[str] = ()) -> Any:
    """Compile a module for this machine; loops stay as scalar as they came. Keep these functions, or all."""
    import llvmlite.binding as llvm

    machine, module = _lowered(text, keep)
    _check_resolved(llvm, module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def library_object(text: str, keep: Sequence[str]) -> bytes:
    """Compile a module as `jit` does, to an object file that can become a shared library."""
    machine, module = _lowered(text, keep, reloc="pic", codemodel="small")
    return bytes(machine.emit_object(module))


def _lowered(text: str, keep: Sequence[str], **model: str) -> tuple[Any, Any]:
    """Return a machine of a code model, and the module as it is compiled for it."""
    import llvmlite.binding as llvm

    machine, module = _prepared(text, **model)
    for function in module.functions if keep else ():
        if not function.is_declaration and function.name not in keep:
            function.linkage = "internal"  # goes, with what it calls, where nothing calls it
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, builder)
    return machine, module


def _check_resolved(llvm: Any, module: Any) -> None:
    """Refuse a module that calls what nothing defines: its call would end the process."""
    wanted = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    missing = [name for name in wanted if not llvm.address_of_symbol(name)]
    # What divides numbers of 128 bits is in libgcc, and is no call yet.
    for library in _LIBRARIES if missing or _MADE_CALLS.search(str(module)) else ():
        with contextlib.suppress(RuntimeError):  # not on this system
            llvm.load_library_permanently(library)
        missing = [name for name in missing if not llvm.address_of_symbol(name)]
    if missing:
        raise DataError(
            f"the kernel calls {', '.join(missing[:5])}, which neither its source nor libc, libm or libstdc++ defines: "
            "put the function's source into the same file, or record the whole program with `perfkit trace`"
        )


def optimised(ir: str, vectorize: bool, level: int = 3) -> str:
    """Optimise a module as clang does at a level (0 to 3), with or without vectorisation, and return its text.

    Raises
    ------
    UnavailableError
        A function needs instructions that this machine does not have.
    """
    import llvmlite.binding as llvm

    machine, module = _prepared(readable(ir))
    asked = {
        name for text in re.findall(r'"target-features"="([^"]*)"', ir) for name in re.findall(r"\+([\w.-]+)", text)
    }
    host = llvm.get_host_cpu_features()
    if missing := sorted(name for name in asked if host.get(name) is False):
        raise UnavailableError(
            f"this machine lacks {', '.join(missing)}, and kernels are traced as they run: leave it out"
        )
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = vectorize and level > 1
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module)


def _prepared(text: str, **model: str) -> tuple[Any, Any]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the clock of kernel_timing is inline assembly
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, cpu=llvm.get_host_cpu_name(), **model)
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        version = ".".join(map(str, llvm.llvm_version_info))
        raise DataError(f"LLVM {version} of llvmlite cannot read the IR: {str(error).strip()}") from error
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return machine, module


def working_copies(arguments: Sequence[Any]) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]] | None]:
    """Return of each array a copy for the kernel to work on, and one that keeps the contents; of others None.

    Where copies begin in their pages makes equal traces: which elements share a line does not depend on where memory
    was free. Each begins some lines behind the one before it: where a store's address and a load's agree in their last
    12 bits, a Zen 4 takes some loads again (a stencil of five points 4.8 to 6.9 cycles per element for 3.7). Arrays
    that share memory share it as copies, too.
    """
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    for array in arrays:
        if array.dtype.hasobject:
            raise SettingError("arrays of Python objects cannot be traced")
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise SettingError("array arguments must be contiguous; pass numpy.ascontiguousarray(...) of it")
    rooms: list[tuple[int, int, npt.NDArray[np.uint8]]] = []  # of memory that arrays share: begin, end, its copy
    for number, (begin, end) in enumerate(_spans(arrays)):
        place = number * _APART % _PAGE
        room = np.zeros(place + end - begin + _PAGE, dtype=np.uint8)
        rooms.append((begin, end, room[-room.ctypes.data % _PAGE + place :]))
    return [_placed(a, rooms) if isinstance(a, np.ndarray) else None for a in arguments]


def _spans(arrays: Sequence[npt.NDArray[Any]]) -> list[tuple[int, int]]:
    """Return where arrays lie, overlapping ones as one, in the order of the arrays."""
    lie = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays]
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(lie):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return list(dict.fromkeys(next(s for s in spans if s[0] <= begin and end <= s[1]) for begin, end in lie))


def _placed(
    array: npt.NDArray[Any], rooms: Sequence[tuple[int, int, npt.NDArray[np.uint8]]]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    at = array.ctypes.data
    begin, room = next((b, room) for b, end, room in rooms if b <= at and at + array.nbytes <= end)
    order = "C" if array.flags.c_contiguous else "F"
    work = room[at - begin : at - begin + array.nbytes].view(array.dtype).reshape(array.shape, order=order)  # type: ignore[call-overload]
    np.copyto(work, array)
    return work, array.copy(order="K")


def overlaps(arrays: Sequence[npt.NDArray[Any]]) -> list[tuple[int, int, int]]:
    """Return which arrays share memory, and how far the second lies behind the first."""
    return [
        (i, k, b.ctypes.data - a.ctypes.data)
        for k, b in enumerate(arrays)
        for i, a in enumerate(arrays[:k])
        if np.may_share_memory(a, b)
    ]


def returnable(kind: str) -> bool:
    """Whether a kernel that returns this type of LLVM IR can be called."""
    return kind in _CTYPES


def sizes(arguments: Sequence[Any]) -> str:
    """Return the shapes of the array arguments as text, for names."""
    shapes = ["x".join(map(str, a.shape)) for a in arguments if isinstance(a, np.ndarray)]
    return ", ".join(dict.fromkeys(shapes))
