"""Which source line each traced instruction comes from: the line tables (DWARF) of the binaries that were traced.

A line table names the line whose code an instruction is. Where that code was inlined from a function that the compiler
marks as artificial (the intrinsics of ``immintrin.h``), people want the line that used it: so does a debugger, and so
does this module, by the tree of inlined calls.
"""

import bisect
import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import FormatError
from perfkit.trace.trace import Trace

Place = tuple[str, int]
"""A file's name and a line's number, from 1; ``("", 0)`` where they are unknown."""
UNKNOWN: Place = ("", 0)
_SYSTEM = ("/usr/", "/lib/", "/opt/", "/nix/", "/snap/", "/proc/", "/dev/", "/sys/", "/etc/")
_MOST_TEXT = 1 << 20  # characters of one source file kept with a trace


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
        Unchanged but for a note in its provenance where the binaries hold no lines, or pyelftools is not installed.
    """
    places = [UNKNOWN] * trace.code.instruction_count
    try:
        for each in loaded:
            mine = {k: pc - each.load_address for k, pc in enumerate(trace.code.pc.tolist()) if _in(pc, each)}
            found = places_of(Path(each.path), mine.values()) if mine else {}
            for k, address in mine.items():
                places[k] = found.get(address, UNKNOWN)
        note = "" if any(line for _, line in places) else "the binary holds no line table; compile it with -g"
    except ImportError:
        note = "pyelftools is not installed (perfkit's extra 'trace')"
    except _DAMAGED as error:  # a recording is worth keeping without its lines
        places = [UNKNOWN] * trace.code.instruction_count
        note = f"the line table cannot be read ({type(error).__name__}: {error})"
    if note:
        extra = {**trace.provenance.extra, "no_lines": note}
        return replace(trace, provenance=replace(trace.provenance, extra=extra))
    code = replace(trace.code, file=tuple(f for f, _ in places), line=np.array([n for _, n in places], dtype=np.int32))
    texts = dict(_texts({f for f, _ in places if f}, folders, _built(loaded)))
    return replace(trace, code=code, provenance=replace(trace.provenance, sources=texts))


def places_of(path: Path, addresses: Iterable[int]) -> dict[int, Place]:
    """Return the places of addresses (before relocation) by a binary's line tables; unknown ones are left out.

    Raises
    ------
    ImportError
        pyelftools is not installed.
    """
    from elftools.elf.elffile import ELFFile

    wanted = sorted(set(addresses))
    found: dict[int, Place] = {}
    with (_lines_apart(path) or path).open("rb") as file:
        elf = ELFFile(file)
        if not elf.has_dwarf_info():
            return found
        dwarf = elf.get_dwarf_info()
        for unit in _units(dwarf, wanted):
            left = [a for a in wanted if a not in found]
            if not left:
                break
            found |= _Unit(dwarf, unit).places(left)
    return found


def _lines_apart(path: Path) -> Path | None:
    """Return the file that holds a stripped program's lines, if there is one."""
    try:
        elf = ElfFile(path)
    except FormatError:
        return None
    return elf.debug_file if elf.is_stripped else None


def function_parameters(path: Path, function: str) -> tuple[str, ...] | None:
    """Return the names of a function's parameters, None where the binary does not say or takes any number of them."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return None
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            units = elf.get_dwarf_info().iter_CUs() if elf.has_dwarf_info() else ()
            for die in (child for unit in units for child in unit.get_top_DIE().iter_children()):
                if die.tag != "DW_TAG_subprogram" or _text(die.attributes.get("DW_AT_name")) != function:
                    continue
                children = [child for child in die.iter_children() if child.tag is not None]
                if "DW_AT_prototyped" not in die.attributes:
                    return None  # f() of old C
                if any(child.tag == "DW_TAG_unspecified_parameters" for child in children):
                    return None
                formal = [child for child in children if child.tag == "DW_TAG_formal_parameter"]
                return tuple(_text(child.attributes.get("DW_AT_name")) for child in formal)
    except _DAMAGED:
        return None
    return None


class _Unit:
    """One compilation unit: its line table, and its tree of inlined calls."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self._dwarf, self._unit = dwarf, unit
        self._program = dwarf.line_program_for_CU(unit)
        self._folder = _text(unit.get_top_DIE().attributes.get("DW_AT_comp_dir"))

    def places(self, addresses: Sequence[int]) -> dict[int, Place]:
        """Return the places of those addresses that are this unit's."""
        if self._program is None:
            return {}
        starts, rows = self._table()
        found: dict[int, Place] = {}
        for address in addresses:
            k = bisect.bisect_right(starts, address) - 1
            if k >= 0 and rows[k] is not None:
                found[address] = rows[k]
        return found | self._artificial(found)

    def _table(self) -> tuple[list[int], list[Any]]:
        """Return addresses in order and the place of each, up to the next one (None: no code of this unit)."""
        rows: list[tuple[int, int, Any]] = []
        for entry in self._program.get_entries():
            state = entry.state
            if state is None:
                continue
            # At one address the end of a sequence comes before the start of the next; of several lines the last counts
            place = None if state.end_sequence else (self._file(state.file), state.line)
            rows.append((state.address, 0 if state.end_sequence else 1 + len(rows), place))
        rows.sort(key=lambda row: row[:2])
        lines: list[Any] = []
        for _, _, place in rows:
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

    def _artificial(self, known: Mapping[int, Place]) -> dict[int, Place]:
        """Return the calling line of those addresses whose code was inlined from an artificial function."""
        found: dict[int, Place] = {}
        if known:
            for child in self._unit.get_top_DIE().iter_children():
                if child.tag == "DW_TAG_subprogram":
                    self._inlined(child, sorted(known), found)
        return found

    def _inlined(self, die: Any, addresses: Sequence[int], found: dict[int, Place]) -> None:
        """Note the calls among a function's inlined ones; a call within an artificial function is not the user's."""
        if "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes:
            ranges = _ranges(self._dwarf, die)
            addresses = [a for a in addresses if any(low <= a < high for low, high in ranges)]
            if not addresses:
                return
            if die.tag == "DW_TAG_inlined_subroutine":
                origin = die.get_DIE_from_attribute("DW_AT_abstract_origin")
                if "DW_AT_artificial" in origin.attributes:
                    values = [die.attributes[name].value for name in ("DW_AT_call_file", "DW_AT_call_line")]
                    found.update(dict.fromkeys(addresses, (self._file(values[0]), int(values[1]))))
                    return
        elif die.tag not in ("DW_TAG_lexical_block", "DW_TAG_subprogram"):
            return
        for child in die.iter_children():
            self._inlined(child, addresses, found)


def _units(dwarf: Any, addresses: Sequence[int]) -> Iterator[Any]:
    """Yield the units that hold any of the addresses: by the index of ranges, else by looking at every unit."""
    index = dwarf.get_aranges()
    offsets = {index.cu_offset_at_addr(a) for a in addresses} if index is not None else {None}
    for offset in sorted(o for o in offsets if o is not None):
        yield dwarf.get_CU_at(offset)
    if None not in offsets:
        return
    for unit in dwarf.iter_CUs():
        if unit.cu_offset in offsets:
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


def _texts(names: Iterable[str], folders: Sequence[Path], built: float) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each of the user's own files, not of the system's headers.

    A kernel's names are relative. A program's are absolute: its compiler wrote its folder of work into the binary. Such
    a file is left out where it was changed after the program was ``built``: its lines are others now.
    """
    for name in sorted(names):
        if name.startswith(("..", *_SYSTEM)):
            continue
        for path in (folder / name for folder in folders):  # an absolute name stays as it is
            try:
                about = path.stat()
                if not path.is_file() or (posixpath.isabs(name) and about.st_mtime > built):
                    continue
                text = path.read_text(encoding="utf-8", errors="replace") if about.st_size <= 4 * _MOST_TEXT else None
            except (OSError, ValueError):
                continue
            if text is not None and len(text) <= _MOST_TEXT:
                yield name, text
            break


def _built(loaded: Sequence[Loaded]) -> float:
    """Return when the youngest of the files was written, in seconds since the epoch."""
    return max((Path(each.path).stat().st_mtime for each in loaded if Path(each.path).is_file()), default=0.0)


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
