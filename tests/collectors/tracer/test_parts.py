"""Parts of the tracer that whole programs hardly reach: each alone."""

import os
import struct
from types import SimpleNamespace

import numpy as np

from perfkit.collectors.tracer.clone import Region
from perfkit.collectors.tracer.cloner import Area, Child
from perfkit.collectors.tracer.qemu import _read_code


def test_a_jump_table_is_read_as_far_as_it_names_instructions():
    code = {0x1000, 0x1010, 0x1020}
    absolute = struct.pack("<4Q", *sorted(code), 0x7777)
    relative = struct.pack("<4i", *(c - 0x2000 for c in sorted(code)), 12)
    for table, width in ((absolute, 8), (relative, 4)):
        region = SimpleNamespace(read=lambda at, n, table=table: table[at - 0x2000 : at - 0x2000 + n])
        assert Region._table(region, 0x2000, width, code) == code


def test_room_for_blocks_is_made_until_the_limit_and_not_beyond():
    child = SimpleNamespace(job=SimpleNamespace(limit=100), lengths=np.array([1]))
    handle = os.memfd_create("blocks")
    try:
        assert not Child._grow(child, Area({"blocks": handle}, executed=100))
        area = Area({"blocks": handle}, executed=99)
        assert Child._grow(child, area)  # one instruction is left
        assert os.fstat(handle).st_size == 4 * area.capacity >= 4
    finally:
        os.close(handle)


def test_what_was_left_out_has_its_name_wherever_the_program_was_loaded(tmp_path):
    names = {0x1100: "left"}
    elf = SimpleNamespace(isa="riscv64", holds=lambda at: SimpleNamespace(name=names[at]) if at in names else None)
    (tmp_path / "code").write_text(f"B 0 4 {0x555000}\nO {0x555000 + 0x1100} 7\nO 0 2\nO 48 1\nE 1 10\n")
    blocks, calls, executed, bias, left = _read_code(tmp_path / "code", elf)
    assert (len(blocks), calls, executed, bias) == (1, 1, 10, 0x555000)
    assert left == {"left": 7, "others": 2, "0x30": 1}
