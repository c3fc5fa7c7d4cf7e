"""As much of an ELF file as a tracer needs: its machine, its kind, its function symbols, its writable code."""

import bisect
import difflib
import hashlib
import re
import struct
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from perfkit.collectors.tracer.demangle import by_ending, demangled, forms, matching, parted
from perfkit.errors import DataError, FormatError

MOVED = re.compile(r"\.cold(\.\d+)?$")
"""How the symbol of a part ends that the compiler moved away from its function."""
# How compilers mark a variant of a function that stands in its place: gcc's symbols, and c++filt's words for them.
_CLONE = re.compile(r"(?<=.)(?:\.(?:isra|constprop)\.\d+)+$|(?: \[clone \.(?:isra|constprop)\.\d+\])+$")
# Functions that the compiler and its libraries bring along.
_NOT_OWN = re.compile(r"_|(?:\S+ )?(?:std|__gnu_cxx)::|(?:de)?register_tm_clones$|frame_dummy$")
# What compilers call the bodies of a function's parallel loops, and its tasks.
BODIES = ("._omp_fn.", ".omp_outlined", ".omp_task_entry")
_MACHINES = {62: "x86-64", 183: "aarch64", 243: "riscv64"}
_MACHINE_NAMES = {3: "32-bit x86", 8: "MIPS", 20: "PowerPC", 21: "64-bit PowerPC", 22: "S/390", 40: "32-bit ARM"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_DYNSYM = 1, 2, 4, 11
_SHT_ARRAYS = (14, 15, 16)  # of functions that run before main, behind it, and before those
_SHF_ALLOC = 2
_STT_OBJECT, _STT_FUNC, _STT_FILE, _STT_GNU_IFUNC = 1, 2, 4, 10
_STB_LOCAL, _STB_GLOBAL, _STB_GNU_UNIQUE, _SYMBOL_SIZE = 0, 1, 10, 24
_DT_NULL, _DT_FLAGS_1, _DF_1_PIE = 0, 0x6FFFFFFB, 0x08000000
_DT_NEEDED, _DT_RPATH, _DT_RUNPATH = 1, 15, 29
_DT_INIT_ARRAY, _DT_INIT_ARRAYSZ = 25, 27
_R_COPY, _R_POINTER, _R_RELATIVE = 5, 6, 8  # of x86-64: R_X86_64_COPY; R_X86_64_GLOB_DAT; R_X86_64_RELATIVE


def is_loop(name: str) -> bool:
    """Whether a symbol is that of a parallel loop's body, or of a task."""
    return any(mark in name for mark in BODIES)


def opens_loops(entry: str, bodies: Iterable[str]) -> bool:
    """Whether a function starts these as the bodies of its parallel loops."""
    return not is_loop(entry) and any(map(is_loop, bodies))


def elf_as_it_is(path: str | Path) -> "ElfFile":
    """Open a file, or return what was read of it already if it was not changed since.

    Raises
    ------
    FormatError
        As `ElfFile` does.
    """
    try:
        about = Path(path).stat()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    return _read(str(path), about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=16)
def _read(path: str, _changed: int, _size: int) -> "ElfFile":
    return ElfFile(path)


@dataclass(frozen=True)
class Symbol:
    """A function: where it starts (before relocation) and how long it is, in bytes."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Segment:
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int


class ElfFile:
    """A 64-bit little-endian ELF program or library.

    Parameters
    ----------
    path : path
        The file.
    name : str, optional
        What messages call it: the source that it was compiled from.

    Raises
    ------
    FormatError
        When the file is no such program, with what it seems to be.
    """

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.path = Path(path)
        self.name = name or str(path)
        try:
            self.data = self.path.read_bytes()
        except OSError as error:
            raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
        if self.data[:4] != b"\x7fELF":
            script = " (a script? trace the program it starts)" if self.data[:2] == b"#!" else ""
            raise FormatError(f"{path}: not an ELF program or library{script}")
        if len(self.data) < 64 or self.data[4:6] != b"\x02\x01":
            raise FormatError(f"{path}: only 64-bit little-endian programs can be traced")
        (self.kind, machine, _, self.entry, program, section, _, _, p_size, p_count, s_size, s_count, names) = (
            struct.unpack_from("<HHIQQQIHHHHHH", self.data, 16)
        )
        if machine not in _MACHINES:
            raise FormatError(
                f"{path}: made for {_MACHINE_NAMES.get(machine, f'machine {machine}')}; "
                f"these can be traced: {', '.join(_MACHINES.values())}"
            )
        self.isa = _MACHINES[machine]
        try:
            self.segments = [self._segment(program + k * p_size) for k in range(p_count)]
            self._sections = [
                struct.unpack_from("<IIQQQQIIQQ", self.data, section + k * s_size) for k in range(s_count)
            ]
        except struct.error as error:
            raise FormatError(f"{path}: truncated ELF file ({error})") from error
        self._names = names

    def _segment(self, at: int) -> Segment:
        kind, flags, offset, address, _, file_size, size = struct.unpack_from("<IIQQQQQ", self.data, at)
        return Segment(kind, flags, offset, address, file_size, size)

    @property
    def sha256(self) -> str:
        """The file's SHA-256."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def code_sha256(self) -> str:
        """The digest of what runs: code, constants and relocations, whatever stands beside them; "" without sections.

        Two builds of one source in two folders have the same: neither debug information nor the build's number counts.
        """
        found = hashlib.sha256()
        held = False
        for (name, offset, size), section in zip(self._named_sections(), self._sections, strict=False):
            if section[1] in (_SHT_PROGBITS, _SHT_RELA) and section[2] & _SHF_ALLOC and name != ".interp":
                found.update(f"{name} {section[3]} {size} ".encode() + self.data[offset : offset + size])
                held = True
        return found.hexdigest() if held else ""

    @property
    def compiler(self) -> str:
        """The compilers that made it, as they say themselves; "" where that was left out."""
        for name, offset, size in self._named_sections():
            if name == ".comment":
                words = self.data[offset : offset + size].split(b"\0")
                return "; ".join(sorted({word.decode(errors="replace") for word in words if word}))
        return ""

    @property
    def is_dynamic(self) -> bool:
        """Whether it names a dynamic linker (a program) or can be loaded by one (a library)."""
        return any(s.kind == _PT_INTERP for s in self.segments) or self.is_loadable

    @property
    def is_relocatable(self) -> bool:
        """Whether it can be loaded at any address (ET_DYN)."""
        return self.kind == 3

    @property
    def is_program(self) -> bool:
        """Whether it can be started."""
        return any(s.kind == _PT_INTERP for s in self.segments) or self.kind == 2 or self._flag_1() is not None

    @property
    def is_loadable(self) -> bool:
        """Whether a program can load it: a library, also one that can be started, as libc can."""
        return self.kind == 3 and self._flag_1() is None

    @cached_property
    def functions(self) -> dict[str, Symbol]:
        """Function symbols by name, from the full symbol table where there is one, else from the dynamic one.

        Static functions of several files may have one name: each is called ``FILE:NAME`` then (`demangle.parted`).
        """
        by_name: dict[str, dict[int, tuple[Symbol, str | None]]] = {}
        try:
            for section in self._sections:
                if section[1] in (_SHT_DYNSYM, _SHT_SYMTAB):
                    for symbol, file in self._symbols(section):
                        by_name.setdefault(symbol.name, {})[symbol.address] = symbol, file
        except (struct.error, IndexError, ValueError) as error:
            raise FormatError(f"{self.path}: damaged symbol table ({error})") from error
        found = {each.name: each for rows in by_name.values() for each in _told_apart(list(rows.values()))}
        if self.is_stripped and (apart := self.debug_file) is not None:
            found = ElfFile(apart).functions | found
        return found

    @cached_property
    def debug_file(self) -> Path | None:
        """The file that holds a stripped program's symbols and lines: by its build's number, else by its name."""
        sections = {name: self.data[offset : offset + size] for name, offset, size in self._named_sections()}
        note, link = sections.get(".note.gnu.build-id", b""), sections.get(".gnu_debuglink", b"")
        root, found = Path("/usr/lib/debug"), []
        if len(note) > 16:
            number = note[16:].hex()
            found.append(root / ".build-id" / number[:2] / f"{number[2:]}.debug")
        if b"\0" in link:
            name, folder = link[: link.index(b"\0")].decode(errors="replace"), self.path.resolve().parent
            apart = (folder / name, folder / ".debug" / name, root / str(folder).lstrip("/") / name)
            # The checksum at the section's end says whether it is this program's.
            (checksum,) = struct.unpack("<I", link[-4:])
            found += [path for path in apart if path.is_file() and zlib.crc32(path.read_bytes()) == checksum]
        return next((path for path in found if path.is_file()), None)

    @cached_property
    def copied(self) -> tuple[Symbol, ...]:
        """Variables of libraries that the program holds a copy of, which is to take their place, under all their names.

        Programs refer to such variables (`optarg`, `std::cout`, the type of a standard exception) by fixed places of
        their own, and the dynamic linker copies what they begin with (R_X86_64_COPY).
        """
        places = {place for _, place, info, _ in self._relocations() if info & 0xFFFFFFFF == _R_COPY}
        return tuple(symbol for symbol in self._dynamic_variables() if symbol.address in places) if places else ()

    def exported(self, names: Collection[str]) -> dict[str, Symbol]:
        """Return the variables of these names that it exports."""
        if not any(name.encode() + b"\0" in self.data for name in names):
            return {}
        return {symbol.name: symbol for symbol in self._dynamic_variables() if symbol.name in names and symbol.address}

    @cached_property
    def exported_functions(self) -> frozenset[str]:
        """Names of the functions that other files may call, those of older versions as well."""
        dynamic = [section for section in self._sections if section[1] == _SHT_DYNSYM]
        return frozenset(
            symbol.name
            for section in dynamic
            for kind in (_STT_FUNC, _STT_GNU_IFUNC)
            for symbol, _ in self._symbols(section, kind)
        )

    def _dynamic_variables(self) -> Iterator[Symbol]:
        dynamic = (section for section in self._sections if section[1] == _SHT_DYNSYM)
        return (symbol for section in dynamic for symbol, _ in self._symbols(section, _STT_OBJECT))

    def pointers_to(self, names: Collection[str]) -> list[tuple[int, str, int]]:
        """Return the pointers (their addresses before relocation) to variables of these names, with what is added.

        Those of the global offset table: pointers that are variables themselves may point elsewhere by now.
        """
        if not any(name.encode() + b"\0" in self.data for name in names):
            return []
        return [
            (place, self.imports[place], addend)
            for _, place, info, addend in self._relocations()
            if info & 0xFFFFFFFF == _R_POINTER and self.imports.get(place) in names
        ]

    @cached_property
    def run_paths(self) -> tuple[str, ...]:
        """Folders where the program says that its libraries lie, those beside itself made absolute."""
        values: dict[int, int] = {}
        for tag, value in self._dynamic:
            values.setdefault(tag, value)
        place = values.get(_DT_RUNPATH, values.get(_DT_RPATH))
        text = None if place is None else self._dynamic_name(place)
        if text is None:
            return ()
        here = str(self.path.resolve().parent)
        return tuple(part.replace("$ORIGIN", here).replace("${ORIGIN}", here) for part in text.split(":") if part)

    def _named_sections(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, offset and size of every section."""
        if not 0 < self._names < len(self._sections):
            return
        strings = self._sections[self._names][4]
        for section in self._sections:
            start = strings + section[0]
            name = self.data[start : self.data.find(0, start)].decode(errors="replace")
            yield name, section[4], section[5]

    @cached_property
    def imports(self) -> dict[int, str]:
        """Names of other libraries' symbols, by the address (before relocation) of the pointer to them."""
        found = {}
        for section, place, info, _ in self._relocations():
            if info >> 32:
                names = self._sections[section[6]]
                strings = self._sections[names[6]][4]
                (name,) = struct.unpack_from("<I", self.data, names[4] + 24 * (info >> 32))
                found[place] = self.data[strings + name : self.data.index(0, strings + name)].decode()
        return found

    @cached_property
    def in_tables(self) -> tuple[Symbol, ...]:
        """Functions that pointers in the file's data lead to: those of tables, and virtual ones.

        Those that run before `main` and behind it have tables of their own, which no code of the program reads.
        """
        own = [(each[3], each[3] + each[5]) for each in self._sections if each[1] in _SHT_ARRAYS]
        targets = {
            addend
            for _, place, info, addend in self._relocations()
            if info & 0xFFFFFFFF == _R_RELATIVE and not any(begin <= place < end for begin, end in own)
        }
        return tuple(symbol for address, symbol in zip(*self._sorted, strict=True) if address in targets)

    @cached_property
    def relocated(self) -> frozenset[int]:
        """Addresses (before relocation) of all pointers that the dynamic linker sets."""
        return frozenset(place for _, place, _, _ in self._relocations())

    def _relocations(self) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
        """Yield section, place, info and addend of every relocation that has one."""
        for section in self._sections:
            if section[1] == _SHT_RELA and section[9] == 24:
                for row in struct.iter_unpack("<QQq", self.data[section[4] : section[4] + section[5]]):
                    yield section, *row

    @property
    def is_stripped(self) -> bool:
        """Whether the full symbol table is gone."""
        return not any(section[1] == _SHT_SYMTAB for section in self._sections)

    @cached_property
    def demangled(self) -> dict[str, str]:
        """The mangled names among the functions' symbols, and those with a file's, as their source writes them."""
        return demangled(self.functions)

    def function(self, name: str) -> Symbol:
        """Find a function by its symbol or, of C++ and Rust, by its name in the source (docs/tracing.md).

        Raises
        ------
        DataError
            When there is none of that name; the message has the nearest names, or says that the file is stripped.
            When several have it, with how to name each.
        """
        if name in self.functions:
            return self.functions[name]
        found = matching(name, self.demangled) or matching(name, self._clones)
        found = found or by_ending(name, self.called) or by_ending(name, self.called, libraries=True)
        meant = {self.functions[symbol].address: symbol for symbol in found}
        if len(meant) == 1:
            return self.functions[next(iter(meant.values()))]
        if meant:
            told = [self.demangled.get(symbol, symbol) for symbol in meant.values()]
            several = ", ".join(sorted(told if len(set(told)) == len(told) else meant.values()))
            raise DataError(f"{self.name}: several functions are called {name!r}; name one of them: {several}")
        if self.is_stripped:
            raise DataError(
                f"{self.name}: no function {name!r}, and the symbol table was stripped; "
                "build it without -s and do not run strip on it"
            )
        mangled = not self.demangled and any(symbol.startswith("_Z") for symbol in self.functions)
        raise DataError(
            f"{self.name}: no function {name!r} ({self._nearest(name)}). If it should be there, the compiler inlined "
            "or renamed it: mark it __attribute__((noipa))"
            + ("; names of C++ are read with c++filt (install the package binutils)" if mangled else "")
        )

    def loops(self, name: str) -> list[str]:
        """Return the bodies of parallel loops that a name alone stands for, by address; none where it is a function's.

        The function may have been inlined into another, which leaves its loops: gcc names them by the function.
        """
        mark = next((mark for mark in BODIES if mark in name), "")
        if mark and name in self.functions:
            return [name]
        if name in self.functions or matching(name, self.demangled) or matching(name, self._clones):
            return []
        found = {}
        for symbol, each in self.functions.items():
            parent = re.split(r"\._omp_fn\.|\.omp_outlined|\.omp_task_entry", symbol)[0]
            if parent != symbol and name in forms(demangled([parent]).get(parent, re.sub(r"(\.\w+)+$", "", parent))):
                found[each.address] = symbol
        return [found[address] for address in sorted(found)]

    def with_loops(self) -> list[str]:
        """Return the functions whose parallel loops the compiler made functions of their own, by address."""
        found: dict[str, int] = {}
        for symbol, each in self.functions.items():
            parent = re.split(r"\._omp_fn\.|\.omp_outlined|\.omp_task_entry", symbol)[0]
            if parent != symbol:
                parent = re.sub(r"(\.\w+)+$", "", parent)
                name = forms(demangled([parent]).get(parent, parent))[0]
                found[name] = min(found.get(name, each.address), each.address)
        return sorted(found, key=found.__getitem__)

    @cached_property
    def _clones(self) -> dict[str, str]:
        """Symbols of variants that the compiler put in a function's place -> that function's name."""
        names = {symbol: self.demangled.get(symbol, symbol) for symbol in self.functions}
        found = {symbol: _CLONE.sub("", text) for symbol, text in names.items()}
        return {symbol: text for symbol, text in found.items() if text != names[symbol]}

    @cached_property
    def called(self) -> dict[str, str]:
        """What functions are called in their source, by symbol; a variant where nothing else is left of a function."""
        whole = {symbol: text for symbol, text in self.demangled.items() if " [clone " not in text}
        there = set(whole.values())
        return whole | {symbol: text for symbol, text in self._clones.items() if text not in there}

    def _nearest(self, name: str) -> str:
        """Say which functions have names like one, as their source writes them."""
        # What a person may write -> what is said of it.
        known = {form: text for text in self.demangled.values() for form in forms(text)}
        known |= {symbol: symbol for symbol in self.functions if symbol not in self.demangled}
        if not _NOT_OWN.match(name):
            known = {form: text for form, text in known.items() if not _NOT_OWN.match(text)}
        near = difflib.get_close_matches(name, known, 5, 0.5)
        near += [other for other in sorted(known) if name in other and other not in near]
        told = list(dict.fromkeys(known[one] for one in near))[:5]
        if told:
            return f"nearest: {', '.join(told)}"
        # Nothing like it: those that are the least unlike; of very many, of the first.
        some = list(dict.fromkeys(known[one] for one in difflib.get_close_matches(name, list(known)[:2000], 5, 0.0)))
        more = len(set(known.values())) - len(some)
        return f"it has {', '.join(some) or 'no functions of its own'}{f' and {more:,} more' if more else ''}"

    def symbol(self, name: str) -> str:
        """Return the symbol of a function, which may lie in another file: then the name is the symbol."""
        known = name in self.functions or matching(name, self.demangled) or matching(name, self._clones)
        return self.function(name).name if known else name

    def holds(self, address: int) -> Symbol | None:
        """Return the function that an address (before relocation) lies in."""
        k = bisect.bisect_right(self._sorted[0], address) - 1
        found = self._sorted[1][k] if k >= 0 else None
        return found if found and address < found.address + found.size else None

    def function_at(self, address: int) -> Symbol | None:
        """Return the function that an address (before relocation) lies in; of the part that gcc moved away, the whole.

        Nothing calls ``f.cold`` by itself: it is code of ``f`` that lies elsewhere. (gcc 8 and clang number it.)
        """
        found = self.holds(address)
        return found and self.functions.get(MOVED.sub("", found.name), found)

    def code(self, address: int, size: int) -> bytes:
        """Return bytes of the file by their address (before relocation); fewer where it holds no more."""
        for each in self.segments:
            if each.kind == _PT_LOAD and each.address <= address < each.address + each.file_size:
                at = address - each.address + each.offset
                return self.data[at : min(at + size, each.offset + each.file_size)]
        return b""

    @cached_property
    def _sorted(self) -> tuple[list[int], list[Symbol]]:
        """Functions by address; of several at one address the one that says its size."""
        found = sorted(self.functions.values(), key=lambda s: (s.address, s.size))
        return [s.address for s in found], found

    def is_writable(self, address: int) -> bool:
        """Whether the code at an address (before relocation) lies in memory that the program may write."""
        return any(
            s.kind == _PT_LOAD and s.flags & 2 and s.address <= address < s.address + s.file_size for s in self.segments
        )

    def without_pie_flag(self, *, constructs: bool = True) -> bytes:
        """Return the file's bytes, changed so that a dynamic linker agrees to load a program as a library.

        Without `constructs` its constructors are left to whoever loads it.
        """
        data = bytearray(self.data)
        at = self._flag_1()
        if at is not None:
            (flags,) = struct.unpack_from("<Q", data, at)
            struct.pack_into("<Q", data, at, flags & ~_DF_1_PIE)
        at = None if constructs else self._dynamic_at(_DT_INIT_ARRAYSZ)
        if at is not None:
            struct.pack_into("<Q", data, at, 0)
        return bytes(data)

    @cached_property
    def constructors(self) -> range:
        """Where the pointers to its constructors lie, by address (before relocation)."""
        values = dict(self._dynamic)
        start = values.get(_DT_INIT_ARRAY, 0)
        return range(start, start + values.get(_DT_INIT_ARRAYSZ, 0), 8)

    def without_unique(self) -> bytes:
        """Return the file's bytes, changed so that its variables are its own.

        Inline variables of C++, static members of templates and static variables of inline functions are symbols that
        the dynamic linker makes one of in all files of a process (STB_GNU_UNIQUE), also in those that are loaded apart.
        """
        data = bytearray(self.data)
        for section in self._sections:
            if section[1] == _SHT_DYNSYM:
                for at in range(section[4], section[4] + section[5], _SYMBOL_SIZE):
                    if data[at + 4] >> 4 == _STB_GNU_UNIQUE:
                        data[at + 4] = _STB_GLOBAL << 4 | data[at + 4] & 0xF
        return bytes(data)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The libraries that it asks for, by their names."""
        names = (self._dynamic_name(value) for tag, value in self._dynamic if tag == _DT_NEEDED)
        return tuple(name for name in names if name is not None)

    @cached_property
    def _dynamic(self) -> tuple[tuple[int, int], ...]:
        """What the dynamic linker is told: tags and values."""
        return tuple(
            struct.unpack_from("<QQ", self.data, at)
            for segment in self.segments
            if segment.kind == _PT_DYNAMIC
            for at in range(segment.offset, segment.offset + segment.file_size, 16)
        )

    def _dynamic_name(self, place: int) -> str | None:
        """Return a name that the dynamic linker is told by its place; None where there are no such names."""
        names = next((section[6] for section in self._sections if section[1] == _SHT_DYNSYM), None)
        if names is None:
            return None
        start = self._sections[names][4] + place
        return self.data[start : self.data.index(0, start)].decode(errors="surrogateescape")

    def _flag_1(self) -> int | None:
        """Return the file offset of DT_FLAGS_1's value where it says 'position-independent program'."""
        at = self._dynamic_at(_DT_FLAGS_1)
        return at if at is not None and struct.unpack_from("<Q", self.data, at)[0] & _DF_1_PIE else None

    def _dynamic_at(self, wanted: int) -> int | None:
        """Return the file offset of the value that the dynamic linker is told under a tag."""
        for segment in self.segments:
            if segment.kind == _PT_DYNAMIC:
                for at in range(segment.offset, segment.offset + segment.file_size, 16):
                    tag, _ = struct.unpack_from("<QQ", self.data, at)
                    if tag == _DT_NULL:
                        break
                    if tag == wanted:
                        return at + 8
        return None

    @cached_property
    def variables(self) -> list[Symbol]:
        """Static variables that have a size, by address: of the full symbol table, and the dynamic one."""
        found = {}
        for section in self._sections:
            if section[1] in (_SHT_DYNSYM, _SHT_SYMTAB):
                found.update({(s.address, s.name): s for s, _ in self._symbols(section, _STT_OBJECT) if s.size})
        return [found[key] for key in sorted(found)]

    def _symbols(self, section: tuple[int, ...], kind: int = _STT_FUNC) -> Iterator[tuple[Symbol, str | None]]:
        """Yield a table's symbols of one kind, each with the source file that a local one is of, else None."""
        _, _, _, _, offset, size, link, _, _, entry = section
        strings = self._sections[link][4]
        file = ""
        for at in range(offset, offset + size, entry):
            name, info, _, index, value, length = struct.unpack_from("<IBBHQQ", self.data, at)
            if info & 15 == _STT_FILE or (info & 15 == kind and index != 0 and value):
                start = strings + name
                text = self.data[start : self.data.index(0, start)].decode()
                if info & 15 == _STT_FILE:  # the local symbols behind it are of that file
                    file = text
                else:
                    yield Symbol(text, value, length), file if info >> 4 == _STB_LOCAL else None


def _told_apart(rows: list[tuple[Symbol, str | None]]) -> list[Symbol]:
    """Return functions of one name with names of their own: that of the last global one stays as it is.

    A static one gets its file's name in front, or its address where that does not tell it apart; so does an older
    version of a library's function.
    """
    if len(rows) == 1:
        return [rows[0][0]]
    plain = next((symbol for symbol, file in reversed(rows) if file is None), None)
    files = Counter(file for _, file in rows)
    found = [] if plain is None else [plain]
    for symbol, file in rows:
        if symbol is not plain:
            name = f"{file}:{symbol.name}"
            is_told = bool(file) and files[file] == 1 and parted(name)[0] == file
            found.append(replace(symbol, name=name if is_told else f"{symbol.address:#x}:{symbol.name}"))
    return found
