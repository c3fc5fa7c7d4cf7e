"""A program's thread-local variables in a process that loads the program as a library.

A program's code finds them at fixed distances below where each thread's own memory begins: what lies there belongs to
the process' own executable, and where that has none, to libc. The executable of our processes is Python: a copy of it
is given thread-local memory of the program's size, alignment and initial values, by which the loader makes room for
every thread.
"""

import shutil
import struct
import sys
from pathlib import Path

from perfkit.collectors.tracer.elf import ElfFile

_PT_LOAD, _PT_NOTE, _PT_TLS, _PT_PROPERTY = 1, 4, 7, 0x6474E553
_PAGE = 4096


def thread_memory(elf: ElfFile) -> tuple[bytes, int, int] | None:
    """Return initial values, size and alignment of a program's thread-local variables; None where it has none."""
    for header in _headers(elf.data):
        kind, _, offset, _, _, filled, size, align = header
        if kind == _PT_TLS and size:
            return elf.data[offset : offset + filled], size, align
    return None


def why_not(elf: ElfFile) -> str:
    """Say why a program's thread-local variables cannot be had in another process; empty if they can."""
    needed = thread_memory(elf)
    if needed is None:
        return ""
    address = next(header[3] for header in _headers(elf.data) if header[0] == _PT_TLS)
    if any(address <= place < address + len(needed[0]) for place in elf.relocated):
        return "the program has thread-local variables that begin with addresses"
    if _patched(Path(sys.executable).resolve().read_bytes(), *needed) is None:
        return "the program has thread-local variables, and this Python has no room for them"
    return ""


def interpreter(elf: ElfFile, folder: Path) -> str:
    """Return the Python to start for a program: this one, or a copy in ``folder`` with room for its variables."""
    needed = thread_memory(elf)
    data = _patched(Path(sys.executable).resolve().read_bytes(), *needed) if needed else None
    if data is None:
        return sys.executable
    path = folder / "python"
    path.write_bytes(data)
    shutil.copymode(Path(sys.executable).resolve(), path)
    return str(path)


def own_paths() -> list[str]:
    """Return where this Python looks for its libraries: a copy of it lies elsewhere."""
    return [*ElfFile(Path(sys.executable).resolve()).run_paths]


def _headers(data: bytes) -> list[tuple[int, ...]]:
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<IIQQQQQQ", data, start + k * size) for k in range(count)]


def _patched(data: bytes, image: bytes, size: int, align: int) -> bytes | None:
    """Return an executable with thread-local memory; None where it has some, or no two notes to put headers in."""
    headers = _headers(data)
    loads = [k for k, header in enumerate(headers) if header[0] == _PT_LOAD]
    free = [k for k, header in enumerate(headers) if header[0] in (_PT_NOTE, _PT_PROPERTY) and k > loads[-1]]
    if len(free) < 2 or any(header[0] == _PT_TLS for header in headers) or align > _PAGE:
        return None
    end = max(headers[k][3] + headers[k][6] for k in loads)
    address = -(-end // _PAGE) * _PAGE + 16 * _PAGE
    offset = -(-len(data) // _PAGE) * _PAGE
    place = max(len(image), 1)
    rows = ((_PT_LOAD, 4, offset, address, address, place, place, _PAGE),
            (_PT_TLS, 4, offset, address, address, len(image), size, align))  # fmt: skip
    made = bytearray(data.ljust(offset, b"\0") + image.ljust(_PAGE, b"\0"))
    (start,) = struct.unpack_from("<Q", data, 32)
    (width,) = struct.unpack_from("<H", data, 54)
    for k, row in zip(free, rows, strict=False):
        struct.pack_into("<IIQQQQQQ", made, start + k * width, *row)
    return bytes(made)
