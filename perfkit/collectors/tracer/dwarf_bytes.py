"""What is read from the bytes of debug information (DWARF), of which pyelftools makes an object for each row and step.

Of a large program these are millions, where a row is four numbers.
"""

from typing import Any, Literal

Row = tuple[int, bool, int, int]
"""An address, whether a sequence ends there (then its line is none), a file's number and a line."""

_END_SEQUENCE, _SET_ADDRESS, _DEFINE_FILE = 1, 2, 3  # DW_LNE_*
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4  # DW_LNS_*
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_IMPLICIT_CONST = 0x21  # DW_FORM_*: the value stands in the abbreviation
_LARGEST = 255  # opcode: its advance is that of `_CONST_ADD_PC`


def line_rows(program: Any) -> list[Row]:
    """Return the rows of a line program (pyelftools' `LineProgram`, of which only the header is used), in its order.

    Files that the program itself defines are added to the header's.

    Raises
    ------
    IndexError
        The program is truncated.
    """
    header = program.header
    base, span, least = header["opcode_base"], header["line_range"], header["line_base"]
    unit, operands = header["minimum_instruction_length"], header["standard_opcode_lengths"]
    start = program.program_start_offset
    program.stream.seek(start)
    data = program.stream.read(program.program_end_offset - start)
    order: Literal["little", "big"] = "little" if program.structs.little_endian else "big"
    # Of each special opcode: by how much it moves the address and the line.
    steps = [((k - base) // span * unit, least + (k - base) % span) for k in range(base, _LARGEST + 1)]
    constant = (_LARGEST - base) // span * unit
    rows: list[Row] = []
    address, file, line, at, end = 0, 1, 1, 0, len(data)
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= base:
            forward, down = steps[opcode - base]
            address += forward
            line += down
            rows.append((address, False, file, line))
        elif opcode == _COPY:
            rows.append((address, False, file, line))
        elif opcode == _ADVANCE_PC:
            value, at = _number(data, at)
            address += value * unit
        elif opcode == _ADVANCE_LINE:
            value, after = _number(data, at)
            bits = 7 * (after - at)
            line += value - (1 << bits) if value >> (bits - 1) else value
            at = after
        elif opcode == _SET_FILE:
            file, at = _number(data, at)
        elif opcode == _CONST_ADD_PC:
            address += constant
        elif opcode == _FIXED_ADVANCE_PC:
            address += int.from_bytes(data[at : at + 2], order)
            at += 2
        elif opcode:
            for _ in range(operands[opcode - 1]):
                _, at = _number(data, at)
        else:
            length, at = _number(data, at)
            kind = data[at]
            if kind == _END_SEQUENCE:
                rows.append((address, True, file, line))
                address, file, line = 0, 1, 1
            elif kind == _SET_ADDRESS:
                address = int.from_bytes(data[at + 1 : at + length], order)
            elif kind == _DEFINE_FILE:
                program.stream.seek(start + at + 1)
                header["file_entry"].append(program.structs.Dwarf_lineprog_file_entry.parse_stream(program.stream))
            at += length
    return rows


def tags_of(dwarf: Any, unit: Any) -> set[int]:
    """Return the tags (DW_TAG_*) of the entries that a unit may have: those that its abbreviations tell of.

    Raises
    ------
    IndexError
        The abbreviations are truncated.
    """
    # Not read: of thousands of units, each would copy all that lies behind its own.
    data, at = dwarf.debug_abbrev_sec.stream.getbuffer(), unit["debug_abbrev_offset"]
    found: set[int] = set()
    while True:
        code, at = _number(data, at)
        if not code:
            return found
        tag, at = _number(data, at)
        found.add(tag)
        at += 1  # whether there are children
        form = 1
        while form:  # a pair of zeros ends the list
            _, at = _number(data, at)
            form, at = _number(data, at)
            if form == _IMPLICIT_CONST:
                _, at = _number(data, at)


def _number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned number (LEB128) and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
