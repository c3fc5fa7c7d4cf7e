"""Which source line each traced instruction comes from: the line tables (DWARF) of the binaries that were traced.

A line table names the line whose code an instruction is. Where that code was inlined from a function that the compiler
marks as artificial (the intrinsics of ``immintrin.h``), or from a library that came with the compiler (``std::swap``,
``operator[]``), people want their own line that used it: so does this module, by the tree of inlined calls.
"""

import bisect
import hashlib
import json
import math
import os
import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.collectors.tracer.demangle import demangled, forms
from perfkit.collectors.tracer.dwarf_bytes import line_rows, tags_of
from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.errors import FormatError
from perfkit.trace.system import is_system
from perfkit.trace.trace import Trace

Place = tuple[str, int]
"""A file's name and a line's number, from 1; ``("", 0)`` where they are unknown."""
UNKNOWN: Place = ("", 0)
_MOST_TEXT = 1 << 20  # characters of one source file kept with a trace
_INLINED = 0x1D  # DW_TAG_inlined_subroutine
_KEPT = 8  # files whose debug information is kept
_TOO_LONG = "is too long to be kept"


@dataclass(frozen=True)
class Loaded:
    """A file as it lay in the traced process: its range of addresses, and what was added to its own addresses."""

    path: str
    start: int
    end: int
    load_address: int


def annotate(trace: Trace, loaded: Sequence[Loaded], folders: Sequence[Path]) -> Trace:
    """Return the trace with each instruction's file and line, and with the texts of the files found in ``folders``.

    Parameters
    ----------
    trace : Trace
        As recorded.
    loaded : sequence of Loaded
        The files that its code came from.
    folders : sequence of Path
        Where relative file names are looked up, the first first; absolute ones are where they say. Without any folder
        no text is kept.

    Returns
    -------
    Trace
        Unchanged but for a note in its provenance where the binaries hold no lines.
    """
    places = [UNKNOWN] * trace.code.instruction_count
    compiled = Compiled()
    try:
        within: dict[str, list[str]] = {}
        for each in loaded:
            mine = {k: pc - each.load_address for k, pc in enumerate(trace.code.pc.tolist()) if _in(pc, each)}
            inlined: dict[int, str] = {}
            found = places_of(Path(each.path), mine.values(), inlined, compiled) if mine else {}
            for k, address in mine.items():
                places[k] = found.get(address, UNKNOWN)
                if address in inlined:
                    names = within.setdefault("{}:{}".format(*places[k]), [])
                    names += [inlined[address]] * (inlined[address] not in names)
            compiled.note(Path(each.path), found.values())
        note = "" if any(line for _, line in places) else "the binary holds no line table; compile it with -g"
    except _DAMAGED as error:  # a recording is worth keeping without its lines
        places = [UNKNOWN] * trace.code.instruction_count
        note = f"the line table cannot be read ({type(error).__name__}: {error})"
    if note:
        extra = {**trace.provenance.extra, "no_lines": note}
        return replace(trace, provenance=replace(trace.provenance, extra=extra))
    code = replace(trace.code, file=tuple(f for f, _ in places), line=np.array([n for _, n in places], dtype=np.int32))
    left_out: dict[str, str] = {}
    texts = dict(_texts({f for f, _ in places if f}, folders, compiled, left_out))
    more = {"inlined": within, "no_text": left_out}
    extra = {**trace.provenance.extra, **{name: json.dumps(value) for name, value in more.items() if value}}
    return replace(trace, code=code, provenance=replace(trace.provenance, sources=texts, extra=extra))


class Compiled:
    """What binaries say of the source files that they were compiled from."""

    def __init__(self) -> None:
        self.checksums: dict[str, set[bytes]] = {}  # file -> MD5 of the text, where the compiler wrote that
        self._last: dict[str, int] = {}  # file -> the last line that code comes from
        self._times: dict[str, tuple[float, float]] = {}  # file -> when its binaries were written, and put in place

    def note(self, binary: Path, places: Iterable[Place]) -> None:
        """Note which lines a binary names."""
        about = binary.stat() if binary.is_file() else None
        for name, line in places:
            self._last[name] = max(self._last.get(name, 0), line)
            if about is not None:
                written, there = self._times.get(name, (0.0, 0.0))
                self._times[name] = max(written, about.st_mtime), max(there, about.st_ctime)

    def why_not(self, name: str, about: os.stat_result, data: bytes) -> str:
        """Say why a file is not the text that was compiled; "" where nothing speaks against it.

        The compiler's checksum decides; gcc writes none. An archive or a copy may bring an older time of modification:
        that of the change of the file's entry is the system's own.
        """
        sums = self.checksums.get(name, set())
        if sums:
            same = {hashlib.md5(data, usedforsecurity=False).digest()} == sums
            return "" if same else "is not the text that was compiled (by its MD5)"
        written, there = self._times.get(name, (math.inf, math.inf))
        if about.st_mtime > written:
            return "was changed after the program was built"
        if about.st_ctime > there:
            return "was put there, or replaced, after the program was (its time of modification is older)"
        lines, last = len(data.splitlines()), self._last.get(name, 0)
        return f"has {lines:,} lines, and the program was compiled from {last:,} or more" if lines < last else ""


def inlined_from(trace: Trace, file: str, line: int) -> tuple[str, ...]:
    """Return the functions of libraries whose code was inlined into a line, as a recording notes them."""
    found = json.loads(trace.provenance.extra.get("inlined", "{}"))
    return tuple(found.get(f"{file}:{line}", ()))


def places_of(
    path: Path,
    addresses: Iterable[int],
    inlined: dict[int, str] | None = None,
    compiled: "Compiled | None" = None,
) -> dict[int, Place]:
    """Return the places of addresses (before relocation) by a binary's line tables; unknown ones are left out.

    Into `inlined` goes, for code of a library that was inlined into a line of the user's, the library's function; into
    `compiled` the checksums of the source files, where the compiler wrote them.
    """
    found: dict[int, Place] = {}
    held = _tables(_lines_apart(path) or path)
    if held is None:
        return found
    wanted = sorted({a for a in addresses if not any(low <= a < high for low, high in held.stubs)})
    for unit in _units(held.dwarf, wanted):
        left = [a for a in wanted if a not in found]
        if not left:
            break
        one = held.units.setdefault(unit.cu_offset, _Unit(held.dwarf, unit, of_library=is_system(str(path))))
        new = one.places(left, {} if inlined is None else inlined)
        found |= new
        if new and compiled is not None:
            for name, md5 in one.checksums().items():
                compiled.checksums.setdefault(name, set()).add(md5)
    return found


@dataclass(frozen=True)
class _Tables:
    """What was read of a file's debug information."""

    dwarf: Any
    units: dict[int, "_Unit"]  # by their offsets
    stubs: list[tuple[int, int]]  # code between functions and libraries, of which no unit tells


def _tables(path: Path) -> _Tables | None:
    """Return a file's debug information, kept while the file is as it was; None where it has none.

    An answer asks for lines several times, and libc has thousands of units.
    """
    about = path.stat()
    return _read_tables(path, about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size)


@lru_cache(maxsize=_KEPT)
def _read_tables(path: Path, *_state: int) -> _Tables | None:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        elf = ELFFile(file)
        if not elf.has_dwarf_info():
            return None
        stubs = [part for part in elf.iter_sections() if part.name.startswith(".plt")]
        return _Tables(elf.get_dwarf_info(), {}, [(at := part["sh_addr"], at + part["sh_size"]) for part in stubs])


def _lines_apart(path: Path) -> Path | None:
    """Return the file that holds a stripped program's lines, if there is one."""
    try:
        elf = elf_as_it_is(path)
    except FormatError:
        return None
    return elf.debug_file if elf.is_stripped else None


@dataclass(frozen=True)
class Signature:
    """What a function takes and returns.

    Parameters
    ----------
    parameters : tuple of (str, str)
        Name and kind of each parameter. A kind is a numpy type (``f8``, ``i4``, ``u1``), one behind a star for a
        pointer (``*f8``), behind an ampersand for a reference; `BY_VALUE` and words for what no register for numbers
        and pointers holds; or one of these signs alone, or "", for anything else.
    returns : str
        The words for what it returns where its caller gives it the place for that, else "".
    """

    parameters: tuple[tuple[str, str], ...]
    returns: str


def known_signature(path: Path, function: str) -> Signature | None:
    """Return what a function takes and returns, None where the binary does not say or takes any number of arguments."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return None
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            units = elf.get_dwarf_info().iter_CUs() if elf.has_dwarf_info() else ()
            tops = (unit.get_top_DIE() for unit in units)
            for top, die in ((each, child) for each in tops for child in each.iter_children()):
                if die.tag != "DW_TAG_subprogram" or function not in (
                    _text(die.attributes.get("DW_AT_name")), _text(die.attributes.get("DW_AT_linkage_name")),
                ):  # fmt: skip
                    continue
                children = [child for child in die.iter_children() if child.tag is not None]
                if "DW_AT_prototyped" not in die.attributes and _language(top) in _LANGUAGES_C:
                    return None  # f() of old C
                if any(child.tag == "DW_TAG_unspecified_parameters" for child in children):
                    return None
                formal = [child for child in children if child.tag == "DW_TAG_formal_parameter"]
                kinds = tuple((_text(child.attributes.get("DW_AT_name")), _kind(child)) for child in formal)
                return Signature(kinds, _in_memory(die))
    except _DAMAGED:
        return None
    return None


BY_VALUE = "!"
"""What kinds of `Signature` begin with that lie where nothing is put: on the stack, or in more than one register."""
_AGGREGATES = {
    "DW_TAG_structure_type": "a structure", "DW_TAG_class_type": "a class", "DW_TAG_union_type": "a union",
}  # fmt: skip
_REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_IN_REGISTERS = 16  # bytes of a structure that is returned in registers
_BY_REFERENCE = 4  # DW_CC_pass_by_reference: of a class with a destructor, or a copy constructor of its own
_LANGUAGES_C = (0x01, 0x02, 0x0C, 0x1D, 0x2C)  # DW_LANG_C89, _C, _C99, _C11, _C17
_COMPLEX = 3  # DW_ATE_complex_float
_ENCODINGS = {2: "u", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u"}  # DW_ATE_*: boolean, float, signed, char, unsigned
_BEHIND = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_typedef")


def _language(top: Any) -> int:
    value = top.attributes.get("DW_AT_language")
    return int(value.value) if value is not None else 0


def _kind(die: Any) -> str:
    """Return the kind of what has a type, as `Signature` says."""
    sign = ""
    for one in _types(die):
        if one.tag == "DW_TAG_array_type" and "DW_AT_GNU_vector" in one.attributes and not sign:
            return f"{BY_VALUE}a vector"
        if one.tag in ("DW_TAG_pointer_type", "DW_TAG_array_type") and not sign:
            sign = "*"
        elif one.tag in _REFERENCES and not sign:
            sign = "&"
        elif one.tag == "DW_TAG_base_type":
            return _number(sign, one)
        elif one.tag in _AGGREGATES and not sign:
            return f"{BY_VALUE}{_AGGREGATES[one.tag]}"
        elif one.tag not in _BEHIND:
            break
    return "&" if sign == "&" else ""


def _number(sign: str, die: Any) -> str:
    size, encoding = die.attributes["DW_AT_byte_size"].value, die.attributes["DW_AT_encoding"].value
    kind = _ENCODINGS.get(encoding, "")
    if kind and size in (1, 2, 4, 8):
        return f"{sign}{kind}{size}"
    if sign:
        return "&" if sign == "&" else ""
    if encoding == _COMPLEX:
        return f"{BY_VALUE}a complex number"
    if size > 8:
        return f"{BY_VALUE}{'a long double' if kind == 'f' else 'an integer of 128 bits'}"
    return ""


def _in_memory(die: Any) -> str:
    """Return the words for what a function returns in memory whose address it is given, or ""."""
    for one in _types(die):
        if one.tag in _AGGREGATES:
            size, how = (one.attributes.get(f"DW_AT_{name}") for name in ("byte_size", "calling_convention"))
            elsewhere = size is not None and size.value > _IN_REGISTERS
            elsewhere |= how is not None and how.value == _BY_REFERENCE  # clang's
            elsewhere |= any(_is_destructor(child) for child in one.iter_children())
            return _AGGREGATES[one.tag] if elsewhere else ""
        if one.tag not in _BEHIND:
            break
    return ""


def _is_destructor(die: Any) -> bool:
    """Whether a member is a destructor that somebody wrote."""
    return "DW_AT_artificial" not in die.attributes and _text(die.attributes.get("DW_AT_name")).startswith("~")


def _types(die: Any) -> Iterator[Any]:
    """Yield the type of what has one, and what that is made of."""
    while "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
        yield die


class _Unit:
    """One compilation unit: its line table, and its tree of inlined calls."""

    def __init__(self, dwarf: Any, unit: Any, *, of_library: bool) -> None:
        self._dwarf, self._unit = dwarf, unit
        self._program = dwarf.line_program_for_CU(unit)
        self._folder = _text(unit.get_top_DIE().attributes.get("DW_AT_comp_dir"))
        name = _text(unit.get_top_DIE().attributes.get("DW_AT_name"))
        self._of_library = of_library or is_system(posixpath.join(self._folder, name))

    def places(self, addresses: Sequence[int], inlined: dict[int, str]) -> dict[int, Place]:
        """Return the places of those addresses that are this unit's; note what was inlined from libraries."""
        if self._program is None:
            return {}
        starts, rows = self._table
        found: dict[int, Place] = {}
        for address in addresses:
            k = bisect.bisect_right(starts, address) - 1
            if k >= 0 and rows[k] is not None:
                found[address] = rows[k]
        # A library's unit holds no line of the user's, and Rust's are large.
        return found if self._of_library else found | self._callers(found, inlined)

    @cached_property
    def _table(self) -> tuple[list[int], list[Any]]:
        """Return addresses in order and the place of each, up to the next one (None: no code of this unit)."""
        # At one address the end of a sequence comes before the start of the next; of several lines the last counts.
        rows = sorted(line_rows(self._program), key=lambda row: (row[0], not row[1]))
        files = {number: self._file(number) for number in {row[2] for row in rows}}
        lines: list[Any] = []
        for _, ends, number, line in rows:
            place = None if ends else (files[number], line)
            # Line 0 is code that belongs to no line: it goes with the line before.
            lines.append(lines[-1] if lines and lines[-1] and place and not place[1] else place)
        return [row[0] for row in rows], [place if place and place[1] else None for place in lines]

    def _file(self, number: int) -> str:
        header = self._program.header
        five = header["version"] >= 5
        names, folders = header["file_entry"], header["include_directory"]
        k = number if five else number - 1
        if not 0 <= k < len(names):
            return ""
        name = _decode(names[k].name)
        at = names[k].dir_index if five else names[k].dir_index - 1
        folder = _decode(folders[at]) if 0 <= at < len(folders) else ""
        return posixpath.normpath(posixpath.join(self._folder, folder, name))

    def checksums(self) -> dict[str, bytes]:
        """Return the MD5 of the unit's source files, of those that have one (DWARF 5, by clang)."""
        rows = self._program.header.get("file_names", ()) if self._program.header["version"] >= 5 else ()
        sums = ((k, row.get("DW_LNCT_MD5")) for k, row in enumerate(rows))
        return {self._file(k): bytes(md5) for k, md5 in sums if md5}

    def _callers(self, known: Mapping[int, Place], names: dict[int, str]) -> dict[int, Place]:
        """Return the calling line of those addresses whose code was inlined from an artificial or library function."""
        found: dict[int, Place] = {}
        if known and _INLINED in tags_of(self._dwarf, self._unit):  # else thousands of functions are read for nothing
            self._system = {a for a, (file, _) in known.items() if is_system(file)}
            addresses = sorted(known)
            for function in _functions(self._unit.get_top_DIE()):
                self._inlined(function, addresses, found, names)
        return found

    def _inlined(self, die: Any, addresses: Sequence[int], found: dict[int, Place], names: dict[int, str]) -> None:
        """Note the calls among a function's inlined ones; a call within an artificial function is not the user's.

        The addresses are in order: a unit may have thousands of functions, and each has few of them.
        """
        if "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes:
            addresses = [
                address
                for low, high in sorted(set(_ranges(self._dwarf, die)))
                for address in addresses[bisect.bisect_left(addresses, low) : bisect.bisect_left(addresses, high)]
            ]
            if not addresses:
                return
            if die.tag == "DW_TAG_inlined_subroutine":
                origin = die.get_DIE_from_attribute("DW_AT_abstract_origin")
                if "DW_AT_artificial" in origin.attributes:
                    values = [die.attributes[name].value for name in ("DW_AT_call_file", "DW_AT_call_line")]
                    found.update(dict.fromkeys(addresses, (self._file(values[0]), int(values[1]))))
                    return
                self._call_of_library(die, origin, [a for a in addresses if a in self._system], found, names)
        elif die.tag not in ("DW_TAG_lexical_block", "DW_TAG_subprogram"):
            return
        for child in die.iter_children():
            self._inlined(child, addresses, found, names)

    def _call_of_library(
        self, die: Any, origin: Any, addresses: Sequence[int], found: dict[int, Place], names: dict[int, str]
    ) -> None:
        """Note the user's line that code of a library was inlined into: the innermost one, with what it called."""
        if not addresses or "DW_AT_call_file" not in die.attributes or "DW_AT_call_line" not in die.attributes:
            return
        file = self._file(die.attributes["DW_AT_call_file"].value)
        if file and not is_system(file):
            found.update(dict.fromkeys(addresses, (file, int(die.attributes["DW_AT_call_line"].value))))
            names.update(dict.fromkeys(addresses, _name(origin)))


def _functions(die: Any) -> Iterator[Any]:
    """Yield the functions in a unit, in the order of the file: pyelftools inserts each entry into a list of those read.

    From the end on, each of some 100,000 moved all others.
    """
    for child in die.iter_children():
        if child.tag == "DW_TAG_subprogram":
            yield child
        elif child.tag == "DW_TAG_namespace":  # where Rust keeps its functions
            yield from _functions(child)


def _name(die: Any) -> str:
    """Return a function's name as the source writes it, with its namespaces."""
    while True:
        for key in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
            if key in die.attributes:
                return _source_name(_text(die.attributes[key]))
        declared = next((k for k in ("DW_AT_specification", "DW_AT_abstract_origin") if k in die.attributes), None)
        if declared is None:
            return _text(die.attributes.get("DW_AT_name"))
        die = die.get_DIE_from_attribute(declared)


@lru_cache(maxsize=4096)
def _source_name(symbol: str) -> str:
    return forms(demangled([symbol]).get(symbol, symbol))[-1]


def _units(dwarf: Any, addresses: Sequence[int]) -> Iterator[Any]:
    """Yield the units that hold any of the addresses: by the index of ranges, else by looking at those not in it.

    Not every compiler writes an index. Libraries have thousands of units: those that an index lists are not read.
    """
    index = dwarf.get_aranges()
    offsets = {index.cu_offset_at_addr(a) for a in addresses} if index is not None else {None}
    for offset in sorted(o for o in offsets if o is not None):
        yield dwarf.get_CU_at(offset)
    if None not in offsets:
        return
    listed = {entry.info_offset for entry in index.entries} if index is not None else set()
    for unit in dwarf.iter_CUs():
        if unit.cu_offset in listed:
            continue
        ranges = _ranges(dwarf, unit.get_top_DIE())
        if any(low <= a < high for low, high in ranges for a in addresses):
            yield unit


def _ranges(dwarf: Any, die: Any) -> list[tuple[int, int]]:
    """Return the ranges of addresses of a function, an inlined call or a unit."""
    attributes = die.attributes
    if "DW_AT_ranges" in attributes:
        top = die.cu.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        out = []
        for entry in dwarf.range_lists().get_range_list_at_offset(attributes["DW_AT_ranges"].value, die.cu):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            else:
                shift = 0 if entry.is_absolute else base
                out.append((entry.begin_offset + shift, entry.end_offset + shift))
        return out
    if "DW_AT_low_pc" not in attributes or "DW_AT_high_pc" not in attributes:
        return []
    low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
    return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]


def _texts(
    names: Iterable[str], folders: Sequence[Path], compiled: Compiled, left_out: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each of the user's own files, not of the system's headers.

    A kernel's names are relative. A program's are absolute: its compiler wrote its folder of work into the binary. Such
    a file is left out where it is not the text that was compiled: its lines are others now. Why goes into `left_out`.
    """
    for name in sorted(names):
        if name.startswith("..") or is_system(name):
            continue
        is_absolute = posixpath.isabs(name)
        for path in (folder / name for folder in folders):  # an absolute name stays as it is
            try:
                about = path.stat()
                if not path.is_file():
                    continue
                data = path.read_bytes() if about.st_size <= 4 * _MOST_TEXT else b""
            except (OSError, ValueError):
                continue
            if about.st_size > 4 * _MOST_TEXT:
                left_out[name] = _TOO_LONG
                break
            if is_absolute and (why_not := compiled.why_not(name, about, data)):
                left_out[name] = why_not
            elif len(text := data.decode(errors="replace").replace("\r\n", "\n")) <= _MOST_TEXT:
                yield name, text
            else:
                left_out[name] = _TOO_LONG
            break
        else:
            if is_absolute and folders:
                left_out[name] = "is not there"


def _in(pc: int, each: Loaded) -> bool:
    return each.start <= pc < each.end


def _text(attribute: Any) -> str:
    return _decode(attribute.value) if attribute is not None else ""


def _decode(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _damaged() -> tuple[type[Exception], ...]:
    """Name what pyelftools raises for damaged or unknown debug information."""
    plain = (LookupError, ValueError, TypeError, AttributeError, AssertionError, NotImplementedError, OSError)
    try:
        from elftools.common.exceptions import DWARFError, ELFError
    except ImportError:
        return (*plain, struct.error)
    return (*plain, struct.error, DWARFError, ELFError)


_DAMAGED = _damaged()
