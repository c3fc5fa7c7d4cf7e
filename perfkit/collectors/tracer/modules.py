"""Which function an address in this process lies in: by symbol tables, linkage stubs and unwind tables."""

import bisect
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from perfkit.collectors.tracer.clone import Function
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.stubs import stub
from perfkit.errors import FormatError

_PT_GNU_EH_FRAME = 0x6474E550
_READABLE_HEADER = (1, 0x1B, 0x03, 0x3B)  # version, pointer encodings: the only ones that linkers write

Read = Callable[[int, int], bytes]


@dataclass
class Module:
    """A loaded file: where it lies and what it says about itself."""

    path: str
    start: int
    end: int
    read: Read
    load_address: int

    @cached_property
    def elf(self) -> ElfFile | None:
        """The file, or None where it cannot be read (the kernel's own page)."""
        try:
            return ElfFile(self.path)
        except FormatError:
            return None

    @cached_property
    def _unwind(self) -> tuple[list[int], list[int]]:
        """Starts of functions and their unwind entries, from the binary search table of .eh_frame_hdr."""
        segment = next((s for s in self.elf.segments if s.kind == _PT_GNU_EH_FRAME), None) if self.elf else None
        if segment is None:
            return [], []
        header = self.load_address + segment.address
        if tuple(self.read(header, 4)) != _READABLE_HEADER:
            return [], []
        (count,) = struct.unpack("<I", self.read(header + 8, 4))
        table = struct.unpack(f"<{2 * count}i", self.read(header + 12, 8 * count))
        return [header + start for start in table[::2]], [header + entry for entry in table[1::2]]

    def function(self, address: int) -> Function | None:
        """Return the function that an address lies in."""
        if self.elf is None:
            return None
        symbol = self.elf.holds(address - self.load_address)
        if symbol is not None and symbol.size:
            return Function(symbol.name, self.load_address + symbol.address, symbol.size)
        return self.stub(address) or self._unwound(address)

    def stub(self, address: int) -> Function | None:
        """Return a procedure linkage stub as a function of its own."""
        held = stub(self.elf, address, self.read, self.load_address) if self.elf is not None else None
        return Function(held.name, held.address, held.size) if held is not None else None

    def _unwound(self, address: int) -> Function | None:
        """Return the function by its unwind entry: for code without symbols."""
        starts, entries = self._unwind
        k = bisect.bisect_right(starts, address) - 1
        if k < 0:
            return None
        _, _, size = self._entry(entries[k])
        if not starts[k] <= address < starts[k] + size:
            return None
        return Function(f"{self.path.rpartition('/')[2]}+{starts[k] - self.load_address:#x}", starts[k], size)

    def _entry(self, at: int) -> tuple[int, int, int]:
        """Return length, offset of the common entry, and size of the code of an unwind entry."""
        return struct.unpack("<II4xI", self.read(at, 16))


class Modules:
    """All files that are loaded into this process.

    Parameters
    ----------
    read : callable
        ``read(address, size)`` gives bytes of memory.
    """

    def __init__(self, read: Read) -> None:
        self.read = read
        self._modules: list[Module] = []
        first: dict[str, int] = {}
        for line in Path("/proc/self/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            if words[2] == "00000000":
                first.setdefault(words[5], start)
            if "x" in words[1] and words[5] in first:
                self._modules.append(Module(words[5], start, end, read, first[words[5]]))

    def function(self, address: int) -> Function | None:
        """Return the function that an address lies in, in whichever file."""
        module = self.module(address)
        return module.function(address) if module else None

    def module(self, address: int) -> Module | None:
        """Return the file whose code an address lies in."""
        return next((m for m in self._modules if m.start <= address < m.end), None)

    def at(self, path: str) -> list[Module]:
        """Return the executable parts of a file."""
        return [m for m in self._modules if m.path == path]
