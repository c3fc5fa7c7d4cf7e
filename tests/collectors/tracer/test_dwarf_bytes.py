"""Debug information that is read from its bytes: line programs by hand, and all of pyelftools' of compiled ones."""

import io
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from perfkit.collectors.tracer.dwarf_bytes import line_rows, tags_of

pytest.importorskip("elftools", reason="pyelftools is not installed: pip install -r locks/dev.lock")
from elftools.dwarf.enums import ENUM_DW_TAG
from elftools.elf.elffile import ELFFile

# Special opcodes from 13 on: opcode 13 + 14 * advance + (down + 5), as gcc writes them.
HEADER = {
    "opcode_base": 13, "line_range": 14, "line_base": -5, "minimum_instruction_length": 1,
    "standard_opcode_lengths": [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1], "file_entry": [],
}  # fmt: skip
START = b"\x00\x09\x02" + (0x1000).to_bytes(8, "little")  # DW_LNE_set_address
END = b"\x00\x01\x01"  # DW_LNE_end_sequence


def rows(program: bytes, **header):
    data = b"before" + program + b"behind"
    return line_rows(
        SimpleNamespace(
            header=HEADER | header, stream=io.BytesIO(data), structs=SimpleNamespace(little_endian=True),
            program_start_offset=6, program_end_offset=6 + len(program),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "address", "file", "line"),
    [
        (b"\x01", 0x1000, 1, 1),  # DW_LNS_copy
        (bytes([13 + 14 * 3 + 5 + 2]), 0x1003, 1, 3),  # three bytes on, two lines down
        (bytes([13 + 14 * 2 + 5 - 5]), 0x1002, 1, -4),  # two bytes on, five lines up
        (b"\x02\x90\x01\x01", 0x1090, 1, 1),  # DW_LNS_advance_pc by 16 + 128
        (b"\x03\x7f\x01", 0x1000, 1, 0),  # DW_LNS_advance_line by -1
        (b"\x03\xc8\x01\x01", 0x1000, 1, 201),  # by 72 + 128
        (b"\x03\xb8\x7e\x01", 0x1000, 1, -199),  # by 56 + 126 * 128 - 2 ** 14 = -200
        (b"\x04\x85\x01\x01", 0x1000, 133, 1),  # DW_LNS_set_file
        (b"\x05\x81\x01\x06\x07\x0a\x0b\x01", 0x1000, 1, 1),  # column, is_stmt, basic_block, prologue, epilogue
        (b"\x08\x01", 0x1011, 1, 1),  # DW_LNS_const_add_pc: (255 - 13) // 14
        (b"\x09\x34\x12\x01", 0x2234, 1, 1),  # DW_LNS_fixed_advance_pc
        (b"\x0c\x81\x01\x01", 0x1000, 1, 1),  # DW_LNS_set_isa
        (b"\x00\x02\x04\x07\x01", 0x1000, 1, 1),  # DW_LNE_set_discriminator
        (b"\x00\x05\x80abcd\x01", 0x1000, 1, 1),  # one that a vendor made up
    ],
)
def test_each_step_moves_a_row_as_the_standard_says(steps, address, file, line):
    assert rows(START + steps + END) == [(address, False, file, line), (address, True, file, line)]


def test_a_sequence_begins_anew_behind_an_end():
    assert rows(START + b"\x03\x05\x04\x02\x01" + END + b"\x01") == [
        (0x1000, False, 2, 6), (0x1000, True, 2, 6), (0, False, 1, 1),
    ]  # fmt: skip


def test_what_an_opcode_of_a_later_version_is_followed_by_is_passed():
    lengths = [*HEADER["standard_opcode_lengths"], 2]
    found = rows(b"\x0d\x81\x01\x07\x01", opcode_base=14, standard_opcode_lengths=lengths)
    assert found == [(0, False, 1, 1)]


@pytest.mark.parametrize("program", [b"\x02", b"\x02\x80", b"\x00\x05", b"\x00"])
def test_a_truncated_program_is_an_error(program):
    with pytest.raises(IndexError):
        rows(program)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("version", [4, 5])
def test_rows_and_tags_are_those_of_another_reader(tmp_path, compiler, version):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    text = "#include <stdio.h>\n" + "".join(
        f"static int g{k}(int x) {{\n  return x * {k};\n}}\nint f{k}(int x) {{\n  if (x)\n    puts(\"a\");\n\n  "
        f"return g{k}(x) + {k};\n}}\n" + "\n" * (40 * k)
        for k in range(8)
    )  # fmt: skip
    (tmp_path / "a.c").write_text(text + "int main(void) { return f1(1); }\n")
    program = tmp_path / "a"
    flags = [f"-gdwarf-{version}", "-O2", "-ffunction-sections"]
    subprocess.run([compiler, *flags, tmp_path / "a.c", "-o", program], check=True)
    with program.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        units = [unit for unit in dwarf.iter_CUs() if dwarf.line_program_for_CU(unit) is not None]
        found = 0
        for unit in units:
            table = dwarf.line_program_for_CU(unit)
            mine = line_rows(table)
            states = [entry.state for entry in table.get_entries() if entry.state is not None]
            assert mine == [(each.address, bool(each.end_sequence), each.file, each.line) for each in states]
            found += len(mine)
            assert {die.tag for die in unit.iter_DIEs() if die.tag} <= {
                name for name, tag in ENUM_DW_TAG.items() if tag in tags_of(dwarf, unit)
            }
        assert found > 50
        tags = set().union(*(tags_of(dwarf, unit) for unit in units))
        assert ENUM_DW_TAG["DW_TAG_inlined_subroutine"] in tags
        assert ENUM_DW_TAG["DW_TAG_namespace"] not in tags
