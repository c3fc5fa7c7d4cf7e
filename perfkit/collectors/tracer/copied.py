"""Variables of libraries that a program holds a copy of, as `optarg` and `std::cout`: in a program that is a library.

A program refers to such a variable by a place of its own. The dynamic linker copies the variable there, and has every
library use that place. Of a program that is loaded as a library it does neither: it takes the program's own place for
the variable, which stays empty, and the libraries keep theirs. So this does both.
"""

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import FormatError

_RW = 3


class _LinkMap(ctypes.Structure):
    """What the dynamic linker knows of a loaded file: the beginning of glibc's ``struct link_map``."""


_LinkMap._fields_ = [
    ("base", ctypes.c_uint64),
    ("name", ctypes.c_char_p),
    ("dynamic", ctypes.c_void_p),
    ("next", ctypes.POINTER(_LinkMap)),
    ("before", ctypes.POINTER(_LinkMap)),
]


def load_first(program: ElfFile) -> None:
    """Load the libraries that hold what a program copies, so that they are set up when it does."""
    everything = ctypes.CDLL(None)
    if all(hasattr(everything, symbol.name) for symbol in program.copied):
        return
    for name in program.needed:
        with suppress(OSError):  # the program's own loading says what is wrong
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


def bind(program: ElfFile, handle: int, libc: Any) -> None:
    """Have all libraries use a loaded program's copies in place of their own variables.

    Parameters
    ----------
    program : ElfFile
        The program's file.
    handle : int
        What `dlopen` returned for it.
    libc
        The C library, for `mprotect`.
    """
    if not program.copied:
        return
    mine = ctypes.cast(handle, ctypes.POINTER(_LinkMap))
    base = int(mine.contents.base)
    copies = {symbol.name: (base + symbol.address, symbol.size) for symbol in program.copied}
    for each in _others(mine):
        try:
            elf = ElfFile(each.name.decode(errors="surrogateescape"))
        except FormatError:  # the kernel's own page
            continue
        for place, name, addend in elf.pointers_to(copies.keys()):
            at, (copy, size) = int(each.base) + place, copies[name]
            pointer = ctypes.c_uint64.from_address(at)
            was = pointer.value - addend
            if was == copy or not was:
                continue
            if not any(ctypes.string_at(copy, size)):
                ctypes.memmove(copy, was, size)
            if not libc.mprotect(at & ~0xFFF, 4096, _RW):
                pointer.value = copy + addend


def _others(mine: Any) -> Iterator[Any]:
    """Yield the link maps of the libraries that are loaded, without the process's own program."""
    first = mine
    while first.contents.before:
        first = first.contents.before
    while first:
        each = first.contents
        if each.base != mine.contents.base and each.name and Path(each.name.decode(errors="replace")).is_file():
            yield each
        first = each.next
