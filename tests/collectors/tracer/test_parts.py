"""Parts of the tracer that whole programs hardly reach: each alone."""

import ctypes
import os
import struct
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from iced_x86 import (
    Code,
    Decoder,
    Encoder,
    EncodingKind,
    InstructionInfoFactory,
    MemorySizeInfo,
    OpAccess,
    Register,
    RflagsBits,
)

from perfkit.collectors.tracer import child as child_module
from perfkit.collectors.tracer import clone, timed_child
from perfkit.collectors.tracer.accesses import accesses
from perfkit.collectors.tracer.clone import Region
from perfkit.collectors.tracer.cloner import Area, Child
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.emit import Emitter
from perfkit.collectors.tracer.modules import Modules
from perfkit.collectors.tracer.own_memory import _headers, _patched
from perfkit.collectors.tracer.qemu import _read_code
from perfkit.collectors.tracer.recording import whole_blocks
from perfkit.collectors.tracer.tracer import _variables


def test_a_jump_table_is_read_as_far_as_it_names_instructions():
    code = {0x1000, 0x1010, 0x1020}
    absolute = struct.pack("<4Q", *sorted(code), 0x7777)
    relative = struct.pack("<4i", *(c - 0x2000 for c in sorted(code)), 12)
    for table, width, base in ((absolute, 8, 0), (relative, 4, 0x2000)):
        region = SimpleNamespace(read=lambda at, n, table=table: table[at - 0x2000 : at - 0x2000 + n])
        assert Region._table(region, 0x2000, width, code, base) == code


def test_room_for_blocks_is_made_until_the_limit_and_not_beyond():
    child = SimpleNamespace(job=SimpleNamespace(limit=100, count_to=0), lengths=np.array([1]))
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


# vmovdqu8 zmm, vmovdqu8 ymm and vmovups zmm under the mask k1, and vmaskmovps ymm: 64, 32, 16 and 8 lanes.
@pytest.mark.parametrize("code", ["62f17f497f07", "62f17f297f07", "62f17c491107", "c4e26d2e07"])
def test_whether_a_mask_is_empty_is_asked_of_the_mask(code):
    (access,) = accesses(next(iter(Decoder(64, bytes.fromhex(code)))))
    emitter = Emitter(0x10000)
    emitter.before(access, -8)
    asked = next(i for i, each in enumerate(emitter.out) if each.code == Code.JE_REL32_64)
    factory = InstructionInfoFactory()
    written = {OpAccess.WRITE, OpAccess.READ_WRITE}

    def makes_rax(instruction):
        used = factory.info(instruction).used_registers()
        return any(u.register in (Register.RAX, Register.EAX) and u.access in written for u in used)

    set_at = max(i for i in range(asked) if emitter.out[i].rflags_modified & RflagsBits.ZF)
    used = {u.register for u in factory.info(emitter.out[set_at]).used_registers()}
    assert used & {Register.RAX, Register.EAX}  # the flag tells of the mask's bits, ...
    assert not any(makes_rax(each) for each in emitter.out[set_at + 1 : asked])  # ... as they are when it is asked


def test_a_process_that_has_run_its_region_says_so_before_it_waits(monkeypatch):
    told, events = [], []
    session = SimpleNamespace(describe=lambda: {"blocks": []}, run=lambda: events.append("run"), code_changed=bool)
    monkeypatch.setattr(child_module, "start_session", lambda *_: session)
    monkeypatch.setattr(child_module, "say", lambda channel, what, *_: events.append(what) or told.append(channel))
    monkeypatch.setattr(child_module.os, "read", lambda *_: events.append("waits"))
    monkeypatch.setattr(child_module.os, "_exit", lambda status: events.append(status))
    child_module.main(child_module.handed({"channel": 7, "answers": 8})[1], object, "module")
    assert events == [b"I", "waits", "run", b"D", "waits", 0]
    assert set(told) == {7}


def test_a_buffer_that_cannot_be_mapped_is_said_to_be_so(monkeypatch):
    """mmap returns -1, which ctypes gives as the largest number of 64 bits."""
    monkeypatch.setattr(clone, "Region", lambda *_: SimpleNamespace(instructions=lambda _: []))
    session = SimpleNamespace(
        entry=lambda: SimpleNamespace(name="f", size=64, start=0x1000),
        read=None,
        libc=SimpleNamespace(mmap=lambda *_: 0xFFFF_FFFF_FFFF_FFFF),
        spec={"room": 4096, "ticks": -1, "context": -1},
        _near=lambda *_: pytest.fail("went on without the buffer"),
    )
    with pytest.raises(OSError, match="cannot map the buffer of times"):
        timed_child.TimedSession.build(session)


def _executable(*headers: tuple[int, int, int]) -> bytes:
    """Return the head of an ELF file: program headers (kind, address, bytes in memory) right behind it."""
    head = bytearray(64)
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, len(headers))
    rows = [struct.pack("<IIQQQQQQ", kind, 4, 0, at, at, size, size, 4096) for kind, at, size in headers]
    return bytes(head) + b"".join(rows)


def test_an_executable_gets_thread_local_memory_behind_all_it_maps():
    load, tls, note = 1, 7, 4
    data = _executable((load, 0, 0x1000), (load, 0x3000, 0x1801), (note, 0, 8), (note, 0, 8))
    image = b"first values"
    made = _patched(data, image, size=40, align=16)
    # Mapped up to 0x4801, in pages up to 0x5000; sixteen pages further begins the new memory: 0x15000. The file's
    # 64 + 4 x 56 bytes end in its first page, and the image lies in the second.
    assert [header[:4] for header in _headers(made)[2:]] == [(load, 4, 0x1000, 0x15000), (tls, 4, 0x1000, 0x15000)]
    assert _headers(made)[3][5:] == (len(image), 40, 16)
    assert made[0x1000:].rstrip(b"\0") == image
    assert _headers(made)[:2] == _headers(data)[:2]


@pytest.mark.parametrize(("first", "bits"), [("XMM", 128), ("YMM", 256), ("ZMM", 512)])
@pytest.mark.parametrize("number", [0, 7, 15, 16, 31])
def test_a_vector_is_kept_whole_in_the_context_page(first, bits, number):
    """All its bytes, and by an instruction that its number fits in: those from 16 on are of AVX-512."""
    emitter = Emitter(0x10000)
    emitter._spill_vector(getattr(Register, f"{first}{number}"), 64)
    (store,) = emitter.out
    encoder = Encoder(64)
    encoder.encode(store, 0x1000)
    (read,) = Decoder(64, encoder.take_buffer())
    assert MemorySizeInfo(read.memory_size).size * 8 == bits
    assert read.op_register(1) == getattr(Register, f"{first}{number}")
    wide = number > 15 or bits == 512
    assert (read.encoding == EncodingKind.EVEX) is wide


@pytest.mark.parametrize(
    ("limit", "counted"),
    [(2, (0, 0, 0, 0)), (3, (1, 3, 1, 0)), (13, (3, 13, 5, 2)), (15, (3, 13, 5, 2)), (99, (5, 21, 8, 3))],
)
def test_the_whole_blocks_that_a_limit_leaves(limit, counted):
    """Two blocks, of three instructions and one access and of five, two accesses and a size that varies."""
    stream = np.array([0, 1, 1, 0, 1], dtype=np.uint32)
    assert whole_blocks(stream, np.array([3, 5]), np.array([1, 2]), np.array([0, 1]), limit) == counted


DATA = """
__attribute__((aligned(256))) char whole[320] = {1};
__asm__(".globl middle\\n.set middle, whole + 80\\n.type middle, @object\\n.size middle, 60\\n");
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """Return a library with a variable of five lines, and one within it of bytes 80 to 139: of two lines."""
    folder = tmp_path_factory.mktemp("variables")
    (folder / "data.c").write_text(DATA)
    subprocess.run(["gcc", "-shared", "-o", folder / "data.so", folder / "data.c"], check=True)
    return folder / "data.so"


@pytest.mark.parametrize(
    ("at", "names"),
    [
        (-1, []),
        (0, ["whole"]),
        (63, ["whole"]),
        (64, ["whole", "middle"]),
        (128, ["whole", "middle"]),
        (191, ["whole", "middle"]),  # beside it, in its last line
        (192, ["whole"]),
        (319, ["whole"]),
        (320, []),
    ],
)
def test_the_variables_of_the_lines_that_were_touched(variables, at, names):
    base = 0x7F00_0000_0000
    places = {symbol.name: symbol.address + base for symbol in ElfFile(variables).variables}
    touched = np.array([places["whole"] + at], dtype=np.uint64)
    recording = SimpleNamespace(addresses=touched, loaded=[SimpleNamespace(path=variables, load_address=base)])
    sizes = {"whole": 320, "middle": 60}
    assert [v for v in _variables(recording) if v[2] in sizes] == [(places[name], sizes[name], name) for name in names]


FUNCTIONS = """
static int one(int x) { return x + 1; }
static long two(long x, long y) { return x * y + x / (y | 1) - 77; }
static int three(int x) { return x ? 3 : one(x); }
void *const table[] = {(void *)one, (void *)two, (void *)three};
"""


def test_a_function_without_a_symbol_is_found_by_its_unwind_entry(tmp_path):
    (tmp_path / "f.c").write_text(FUNCTIONS)
    library, bare = tmp_path / "f.so", tmp_path / "bare.so"
    flags = ["-O1", "-fno-inline", "-falign-functions=64", "-fasynchronous-unwind-tables"]
    subprocess.run(["gcc", "-shared", *flags, "-o", library, tmp_path / "f.c"], check=True)
    subprocess.run(["strip", "-o", bare, library], check=True)
    known = [ElfFile(library).functions[name] for name in ("one", "two", "three")]
    ends = {f.address + f.size for f in known}
    held = ctypes.CDLL(str(bare))
    modules = Modules(ctypes.string_at)
    (module,) = modules.at(str(bare))
    base = module.load_address
    for f in known:
        for at in (f.address, f.address + 1, f.address + f.size - 1):
            found = modules.function(base + at)
            assert (found.name, found.start, found.size) == (f"bare.so+{f.address:#x}", base + f.address, f.size)
    assert [modules.function(base + end) for end in ends] == [None] * 3  # what fills up to the next one
    assert modules.function(module.end) is None
    del held
