"""What a file's symbols tell of measuring it: that it can start threads, or that a function has no work left."""

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
_NO_WORK = 12  # bytes of code that begins with endbr64, sets a register and returns
_NO_TIME = 20.0  # cycles; calling an empty function takes 8 on a Zen 5


def starts_threads(path: Path) -> str:
    """Return by what a program's or library's own code can start threads; "" where it cannot."""
    imported = tuple(elf_as_it_is(path).imports.values())
    return next((told for start, told in _STARTING.items() for name in imported if name.startswith(start)), "")


def no_work(kernel: "Kernel", name: str, cycles: float) -> str:
    """Say that a kernel which takes so many cycles per call, and its code, are those of nothing; "" of others."""
    if cycles >= _NO_TIME or elf_as_it_is(kernel.path).function(kernel.function).size > _NO_WORK:
        return ""
    return (
        f"{name} has no more than {_NO_WORK} bytes of code and takes {cycles:.1f} cycles, about what calling nothing "
        "takes: if it should do work, the compiler removed it (return the result, or take as an argument what it "
        "works on)"
    )
