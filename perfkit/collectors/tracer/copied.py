"""Variables of libraries that a program holds a copy of, as `optarg` and `std::cout`: in a program that is a library.

A program refers to such a variable by a place of its own. The dynamic linker copies the variable there, and has every
library use that place. Of a program that is loaded as a library it takes the program's own place for the variable:
nothing is copied, and libraries that the process had before, as the C library, keep theirs. So this does both, and runs
the program's constructors only then. What a library that comes with the program has in such a variable can be copied
only after the library's own constructors ran: where these change it in part, the rest is not what it would be.
"""

import ctypes
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfkit.collectors.tracer.elf import ElfFile, elf_as_it_is
from perfkit.errors import FormatError

_RW = 3
# Libraries that all files of a process find their functions in.
_OF_ALL = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|util|pthread|python[\d.]+\w*))\.so")


class _LinkMap(ctypes.Structure):
    """What the dynamic linker knows of a loaded file: the beginning of glibc's ``struct link_map``."""


_LinkMap._fields_ = [
    ("base", ctypes.c_uint64),
    ("name", ctypes.c_char_p),
    ("dynamic", ctypes.c_void_p),
    ("next", ctypes.POINTER(_LinkMap)),
    ("before", ctypes.POINTER(_LinkMap)),
]


@dataclass(frozen=True)
class Standing:
    """The variables of libraries that were loaded before the program, which it copies: pointers, places and values."""

    pointers: tuple[tuple[int, str, int], ...]  # address of the pointer, the variable's name, what is added
    values: Mapping[str, tuple[int, bytes]]  # name -> the variable's address, and its bytes
    files: frozenset[int]  # where they are loaded


def load_mode(library: ElfFile) -> int:
    """Return how a library is loaded so that it calls its own functions, as in a program that is linked with it.

    The dynamic linker prefers what the process had before, as it would be Python's and the C library's: `index` and
    `step` are names of functions of theirs.
    """
    return ctypes.DEFAULT_MODE | (os.RTLD_DEEPBIND if library.exported_functions & functions_before() else 0)


@lru_cache(maxsize=1)
def functions_before() -> frozenset[str]:
    """Return the names of the functions that a library's calls may lead to: of Python, and of the C library."""
    files = [each.name.decode(errors="surrogateescape") for each in _loaded()]
    files = ["/proc/self/exe", *(name for name in files if _OF_ALL.match(Path(name).name))]
    return frozenset().union(*(elf_as_it_is(name).exported_functions for name in files))


def held_before(program: ElfFile) -> Standing:
    """Return what the libraries of this process have of the variables that a program copies, before it is loaded."""
    sizes = {symbol.name: symbol.size for symbol in program.copied}
    pointers: list[tuple[int, str, int]] = []
    values: dict[str, tuple[int, bytes]] = {}
    files = set()
    for each in _loaded() if sizes else ():
        files.add(int(each.base))
        try:
            elf = ElfFile(each.name.decode(errors="surrogateescape"))
        except FormatError:  # the kernel's own page
            continue
        for place, name, addend in elf.pointers_to(sizes):
            at = int(each.base) + place
            variable = ctypes.c_uint64.from_address(at).value - addend
            if variable > 0:
                pointers.append((at, name, addend))
                values.setdefault(name, (variable, ctypes.string_at(variable, sizes[name])))
    return Standing(tuple(pointers), values, frozenset(files))


def bind(program: ElfFile, handle: int, before: Standing, libc: Any) -> None:
    """Fill a loaded program's copies, and have the libraries that were there before use them.

    What the program's constructors had these change is copied, where they did not change the copy themselves.

    Parameters
    ----------
    program : ElfFile
        The program's file.
    handle : int
        What `dlopen` returned for it.
    before : Standing
        What the libraries had before it was loaded.
    libc
        The C library, for `mprotect`.
    """
    base = _base(handle)
    copies = {symbol.name: (base + symbol.address, symbol.size) for symbol in program.copied}
    for name, (variable, was) in before.values.items():
        copy, size = copies[name]
        now = ctypes.string_at(copy, size)
        if variable != copy and (now == was or not any(now)):
            _copy(copy, variable, size, libc)
    empty = {name for name, place in copies.items() if name not in before.values and not any(ctypes.string_at(*place))}
    for each in _loaded() if empty else ():
        if int(each.base) in before.files or int(each.base) == base:
            continue
        for name, symbol in ElfFile(each.name.decode(errors="surrogateescape")).exported(empty).items():
            copy, size = copies[name]
            _copy(copy, int(each.base) + symbol.address, min(size, symbol.size), libc)
    for at, name, addend in before.pointers:
        copy = copies[name][0]
        pointer = ctypes.c_uint64.from_address(at)
        if pointer.value != copy + addend and _writable(at, 8, libc):
            pointer.value = copy + addend


def construct(program: ElfFile, handle: int) -> None:
    """Run the constructors of a program that was loaded without (`ElfFile.without_pie_flag`), in their order."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    no_words = (ctypes.c_void_p * 1)()
    environment = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ")
    for place in program.constructors:
        at = ctypes.c_uint64.from_address(_base(handle) + place).value
        kind(at)(0, ctypes.addressof(no_words), environment.value)


def _base(handle: int) -> int:
    """Return what was added to the addresses of a loaded file."""
    return int(ctypes.cast(handle, ctypes.POINTER(_LinkMap)).contents.base)


def _copy(to: int, place: int, size: int, libc: Any) -> None:
    if _writable(to, size, libc):
        ctypes.memmove(to, place, size)


def _writable(place: int, size: int, libc: Any) -> bool:
    """Make pages writable; what is constant after relocation is no longer."""
    first = place & ~0xFFF
    return not libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t((place + size + 0xFFF & ~0xFFF) - first), _RW)


def _loaded() -> Iterator[Any]:
    """Yield the link maps of the files that are loaded, without the process's own program."""
    handle = ctypes.CDLL(None)._handle
    each = ctypes.cast(handle, ctypes.POINTER(_LinkMap))
    while bool(each):  # a null pointer is False
        if each.contents.name and Path(each.contents.name.decode(errors="replace")).is_file():
            yield each.contents
        each = each.contents.next
