"""What a file's symbols and code tell of measuring it: that it can start threads, goes by time, or has no work left."""

from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.collectors.tracer.elf import elf_as_it_is

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

# What begins the symbols that start threads, and its name: of POSIX (Rust, too), C, C++, and OpenMP of two compilers.
_STARTING = {
    "pthread_create": "pthread_create", "thrd_create": "thrd_create", "_ZNSt6thread15_M_start_thread": "std::thread",
    "GOMP_parallel": "OpenMP", "__kmpc_fork_call": "OpenMP",
}  # fmt: skip
# What reads a clock or sets a timer: of POSIX, C, C++ (std::chrono) and OpenMP.
_CLOCKS = ("clock_gettime", "gettimeofday", "time", "clock", "omp_get_wtime")
_TIMERS = ("setitimer", "timer_settime", "timerfd_settime", "alarm", "ualarm")
_BY_TIME = {name: name for name in (*_CLOCKS, *_TIMERS)} | dict.fromkeys(
    ("_ZNSt6chrono3_V212steady_clock3nowEv", "_ZNSt6chrono3_V212system_clock3nowEv"), "std::chrono"
)
_RDTSC, _RDTSCP = b"\x0f\x31", b"\x0f\x01\xf9"
_NO_WORK = 12  # bytes of code that begins with endbr64, sets a register and returns
_NO_TIME = 20.0  # cycles; calling an empty function takes 8 on a Zen 5


def starts_threads(path: Path) -> str:
    """Return by what a program's or library's own code can start threads; "" where it cannot."""
    imported = tuple(elf_as_it_is(path).imports.values())
    return next((told for start, told in _STARTING.items() for name in imported if name.startswith(start)), "")


def goes_by_time(kernel: "Kernel", name: str) -> str:
    """Say that a kernel's code reads a clock or sets a timer; "" where it does not."""
    elf = elf_as_it_is(kernel.path)
    imported = set(elf.imports.values())
    how = next((told for each, told in _BY_TIME.items() if each in imported), "")
    function = elf.function(kernel.function)
    code = elf.code(function.address, function.size)
    how = how or "rdtsc" * (_RDTSC in code or _RDTSCP in code)
    return how and (
        f"{name} may go by time (its code has {how}): what it does each so many microseconds is not in the figure as "
        "it is where calls follow each other, since clocks are read and others are called between those that are "
        "timed; nor is what handlers of a timer's signals do"
    )


def no_work(kernel: "Kernel", name: str, cycles: float) -> str:
    """Say that a kernel which takes so many cycles per call, and its code, are those of nothing; "" of others."""
    if cycles >= _NO_TIME or elf_as_it_is(kernel.path).function(kernel.function).size > _NO_WORK:
        return ""
    return (
        f"{name} has no more than {_NO_WORK} bytes of code and takes {cycles:.1f} cycles, about what calling nothing "
        "takes: if it should do work, the compiler removed it (return the result, or take as an argument what it "
        "works on)"
    )
