"""The machine code of a kernel, recorded: the nodes of a C, C++ or Python function are those that the core executes.

LLVM IR does not tell what becomes of it: of a choice a jump, which is predicted, or a move, which waits; of a sum that
each turn of a loop continues another order, and so a shorter chain; of a sum with a carry one instruction. What is
timed beside a schedule is this code, too.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.dag.kernel_trace import ROOM, KernelTrace, library_object, overlaps
from perfkit.collectors.dag.x86_dag import TraceSource, trace_source
from perfkit.dag.doubts import UNSEEN_CALLS
from perfkit.errors import DataError, UnavailableError

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture
    from perfkit.trace.trace import Trace

_LINKERS = ("ld", "gcc", "cc", "clang")
_VERSIONED = ("libc.so.6", "libm.so.6", "libstdc++.so.6")


@dataclass(frozen=True, eq=False)
class MachineNodes(TraceSource):
    """The nodes of a kernel's machine code: a source as that of a program, which can be timed as well.

    Parameters
    ----------
    kernel
        The kernel.
    """

    kernel: KernelTrace = field(kw_only=True)

    def seconds(self, calls: int = 1, warm: bool = True) -> float:
        """Return the processor time of one call without recording: `KernelTrace.seconds`."""
        return self.kernel.seconds(calls, warm)


def machine_nodes(kernel: KernelTrace, core: Microarchitecture | None, limit: int) -> MachineNodes:
    """Record the machine code of a kernel.

    Parameters
    ----------
    kernel
        The kernel.
    core
        Whose table gives the latencies.
    limit
        The most instructions: of a longer run the nodes would be a part.

    Raises
    ------
    UnavailableError
        The code cannot be recorded, or not all of it; the message says why, without the kernel's name.
    DataError
        The kernel ends the process or raises an exception.
    """
    nodes = trace_source(recorded_kernel(kernel, limit), whole=True, core=core)
    told = {name: text for name, text in kernel.facts.items() if name != UNSEEN_CALLS}  # calls are nodes here
    return MachineNodes(**vars(nodes) | {"name": kernel.name, "facts": nodes.facts | told}, kernel=kernel)


def recorded_kernel(kernel: KernelTrace, limit: int) -> Trace:
    """Run a kernel and record its machine code, whole: what `machine_nodes` makes nodes of.

    Parameters, and what it raises, are those of `machine_nodes`.
    """
    from perfkit.collectors.kernels import library_kernel
    from perfkit.collectors.tracer.tracer import Tracer

    arguments = list(_arguments(kernel))
    kernel.run()
    with tempfile.TemporaryDirectory() as folder:
        library = _linked(library_object(kernel.code.plain, (kernel.code.entry,)), Path(folder))
        try:
            compiled = library_kernel(library, kernel.code.entry)
            trace = Tracer(limit=limit, callees=True, backend="cloner").run_kernel(compiled, *arguments)
        except DataError as error:
            raise UnavailableError(_why(str(error))) from error
    if not trace.provenance.complete:
        raise UnavailableError(f"the recording stopped before the function returned ({trace.provenance.stopped})")
    return trace


def _why(said: str) -> str:
    """Return why a kernel's code cannot be recorded: of numba's allocator what calls it, not how it is linked."""
    return "it makes arrays itself, by numba's allocator: take them as arguments" if "NRT_" in said else said


def _linked(made: bytes, folder: Path) -> Path:
    """Make a shared library of an object file."""
    linker = next((program for program in map(shutil.which, _LINKERS) if program), None)
    if linker is None:
        raise UnavailableError("no linker was found: install one (apt-get install binutils)")
    (folder / "kernel.o").write_bytes(made)
    command = [linker, "-shared", "-o", str(folder / "kernel.so"), str(folder / "kernel.o"), *_libraries()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise UnavailableError(f"{Path(linker).name} refuses its code: {done.stderr.strip()[:300]}")
    return folder / "kernel.so"


def _libraries() -> list[str]:
    """Return the C library's files that this process has, for the linker to ask for their present functions.

    Without them a kernel would call the first versions: glibc keeps memcpy of 2007, with 16 bytes at a time.
    """
    try:
        mapped = Path("/proc/self/maps").read_text().split()
    except OSError:
        return []
    return sorted({word for word in mapped if word.startswith("/") and Path(word).name.startswith(_VERSIONED)})


def _arguments(kernel: KernelTrace) -> Iterator[Any]:
    """Yield what the kernel is called with in a process of its own: arrays for addresses."""
    arrays = {work.ctypes.data: original for work, original in kernel.arrays}
    if overlaps([work for work, _ in kernel.arrays]) or len(arrays) < len(kernel.arrays):
        raise UnavailableError("its arrays share memory")
    for place, (value, kind) in enumerate(zip(kernel.native, kernel.code.parameters, strict=True)):
        if kernel.status and place < 2:  # numba's convention: where the result goes, and an exception
            yield np.zeros(ROOM, dtype=np.int64)
        elif kind in ("ptr", "i64") and isinstance(value, int) and value in arrays:
            yield arrays[value].ravel("K")  # as it lies in memory
        elif kind == "ptr" and value:
            raise UnavailableError("one of its arguments is an address")
        else:
            yield np.float32(value) if kind == "float" else 0 if value is None else value
