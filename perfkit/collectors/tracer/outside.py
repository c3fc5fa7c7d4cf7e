"""What the region called and the trace does not hold: where it lies, what it is called, how often it was called."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.errors import DataError, FormatError, how_often

# Mappings with a path that are memory all the same: how just-in-time compilers map code twice, writable and executable.
_MEMORY = re.compile(r"^(/memfd:|/dev/zero|/dev/shm/|/SYSV|/anon_hugepage)")
_KERNEL = ("[vdso]", "[vsyscall]")


@dataclass(frozen=True)
class Place:
    """Where code lies that was called.

    Parameters
    ----------
    name : str
        The function, as far as the file's symbols tell; for code of no file, its address.
    path : str
        The file in whose text it lies; empty for code that was generated at run time.
    offset : int
        Address in that file, before relocation.
    generated : str
        How we know that no file holds this code as it ran; empty where one does.
    """

    name: str
    path: str = ""
    offset: int = 0
    generated: str = ""


@dataclass(frozen=True)
class Maps:
    """The memory of a process.

    Parameters
    ----------
    text : str
        ``/proc/PID/maps``.
    final : bool
        Whether it was read after the region ran: before, what is not mapped may still come.
    """

    text: str
    final: bool = False

    @cached_property
    def _rows(self) -> list[tuple[int, int, str, str]]:
        """Start, end, permissions and path of every mapping."""
        rows = []
        for line in self.text.splitlines():
            words = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            rows.append((start, end, words[1], words[5] if len(words) > 5 else ""))
        return rows

    def files(self) -> dict[str, tuple[int, int]]:
        """Return where each file's mappings begin and end, with the memory behind them that holds its zeros."""
        found: dict[str, tuple[int, int]] = {}
        last = ""
        for start, end, permissions, path in self._rows:
            own = path.startswith("/") and not _MEMORY.match(path)
            if own or (last and not path and permissions.startswith("rw") and found[last][1] == start):
                name = path or last
                found[name] = found.get(name, (start, end))[0], end
            last = path if own else ""
        return found

    def heap(self) -> int:
        """Return where the heap begins, with malloc's own records; 0 where there is none."""
        return next((start for start, _, _, path in self._rows if path == "[heap]"), 0)

    def around(self, address: int) -> tuple[int, int]:
        """Return where the mapping that holds an address begins and ends; nothing of it where there is none."""
        return next(((start, end) for start, end, _, _ in self._rows if start <= address < end), (address, address))

    def kernel(self) -> list[tuple[int, int]]:
        """Return where the kernel's own pages lie in the process."""
        return [(start, end) for start, end, _, path in self._rows if path in ("[vvar]", *_KERNEL)]

    def place(self, address: int) -> Place:
        """Say what lies at an address."""
        row = next((row for row in self._rows if row[0] <= address < row[1]), None)
        if row is None:
            why = "in memory that is no longer mapped" if self.final else ""
            return Place(f"{address:#x}", generated=why)
        start, _, permissions, path = row
        if path in _KERNEL:
            return Place(f"{path}+{address - start:#x}", path)
        if not path.startswith("/") or _MEMORY.match(path):
            return Place(f"{address:#x}", generated=f"in {path or 'anonymous memory'}, {permissions}")
        return self._in_file(address, path)

    def _in_file(self, address: int, path: str) -> Place:
        load = min(row[0] for row in self._rows if row[3] == path)
        offset = address - load
        name = f"{Path(path).name}+{offset:#x}"
        if path.endswith(" (deleted)"):
            return Place(name, path, offset)
        try:
            elf = elf_as_it_is(path)
        except FormatError:
            return Place(name, generated=f"in {path}, which is no program or library")
        symbol = elf.holds(offset)
        name = symbol.name if symbol else name
        if elf.is_writable(offset):
            return Place(name, generated=f"in text of {path} that the program may write")
        return Place(name, path, offset)


def called(counts: Mapping[int, int], names: Mapping[int, str], maps: Maps) -> dict[str, int]:
    """Name the code that was called and not recorded, with the number of calls.

    Parameters
    ----------
    counts : mapping
        Calls by address.
    names : mapping
        Names by address, where they are known; the others are looked up in `maps`.
    """
    found: Counter[str] = Counter()
    for address, count in counts.items():
        place = maps.place(address)
        name = f"{place.name} (generated at run time)" if place.generated else names.get(address, place.name)
        found[name] += count
    return dict(sorted(found.items()))


def refuse_generated(function: str, counts: Mapping[int, int], maps: Maps) -> None:
    """Refuse a trace that was to hold all called functions and lacks code that was generated at run time.

    Raises
    ------
    DataError
        With what was called and where it lies.
    """
    for address, count in counts.items():
        place = maps.place(address)
        if place.generated:
            raise DataError(
                f"{function} called {place.name} {how_often(count)}, which is {place.generated}: with callees=True "
                "every called function must lie in the text of a program or library, where nothing writes; "
                "self-modifying or generated code is not traced. Trace with callees=False, which names and counts "
                "such calls as not followed, or compile that code into a library"
            )
