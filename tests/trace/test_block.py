"""Basic blocks: what is refused, the loops made of them, and where their operands lie."""

import pytest

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

from iced_x86 import Decoder

from perfkit.errors import DataError
from perfkit.trace.block import CODE, GPR, LONGEST, PAGE, WORD, BasicBlock, alignment
from perfkit.trace.block_addresses import addresses, operands_of
from perfkit.trace.x86 import form_name


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", "hexadecimal digits"),
        ("zz", "hexadecimal digits"),
        ("480", "hexadecimal digits"),
        (b"", "at least one byte"),
        ("90" * (LONGEST + 1), f"at most {LONGEST} bytes"),
        ("06", "no instruction of x86-64"),  # push es
        ("4801d848", "48 at 3 are no instruction"),  # cut off
        ("c4e2ff", "are no instruction"),
        ("eb00", "goes elsewhere"),  # jmp
        ("7400", "goes elsewhere"),  # je
        ("e800000000", "goes elsewhere"),  # call
        ("c3", "goes elsewhere"),  # ret
        ("0f05", "goes elsewhere"),  # syscall
        ("cd80", "goes elsewhere"),  # int 0x80
        ("0f0b", "goes elsewhere"),  # ud2
        ("e2fe", "goes elsewhere"),  # loop
        ("f4", "operating system"),  # hlt
        ("0f30", "operating system"),  # wrmsr
        ("0fa2", "changes the state"),  # cpuid
        ("f3480faed0", "changes the state"),  # wrfsbase rax
        ("8ed8", "changes the state"),  # mov ds, eax
    ],
)
def test_what_is_no_block_is_refused_with_the_reason(code, why):
    with pytest.raises(DataError, match=why):
        BasicBlock(code)


@pytest.mark.parametrize("copies", [1, 2, 60])
@pytest.mark.parametrize("code", ["4883c008", "4801d84d89fe", "90", "".join(f"49ff{c:x}" for c in range(0xC0, 0xC8))])
def test_a_loop_is_the_block_a_decrement_and_a_jump_back(code, copies):
    block = BasicBlock(code)
    decoded = list(Decoder(64, block.loop(copies), ip=0x1000))
    body = [str(one) for one in block.instructions] * copies
    assert [str(one) for one in decoded[:-2]] == body
    counter = GPR[block.counter].lower()
    assert str(decoded[-2]) == f"dec {counter}"
    assert counter not in str(body)
    assert str(decoded[-1]).startswith("jne")
    assert decoded[-1].near_branch_target == 0x1000


def test_a_block_of_all_registers_leaves_none_to_count():
    pairs = zip(GPR[::2], GPR[1::2], strict=True)
    number = {name: k for k, name in enumerate(GPR)}
    code = b"".join(
        bytes([0x48 | (number[b] > 7) << 2 | (number[a] > 7), 0x01, 0xC0 | (number[b] & 7) << 3 | number[a] & 7])
        for a, b in pairs
    )
    block = BasicBlock(code)
    assert len(block.used) == 16
    with pytest.raises(DataError, match="every integer register"):
        block.loop()


def test_operands_relative_to_the_pointer_keep_their_place_in_every_copy():
    block = BasicBlock("488b0510000000" + "f20f100d20000000")  # mov rax, [rip + 16]; movsd xmm1, [rip + 32]
    decoded = list(Decoder(64, block.loop(3), ip=CODE))[:-2]
    places = [one.ip_rel_memory_address for one in decoded]
    assert places[:2] == places[2:4] == places[4:6]
    assert places[1] - places[0] == 24  # as in the program: 16 more, 8 bytes later
    assert list(block.relative.values()) == places[:2]


def test_registers_are_moved_where_an_address_must_be_aligned():
    for code in (
        "0f28442408",
        "0f2843 08".replace(" ", ""),
        "c5fc284608",
    ):  # movaps [rsp + 8], [rbx + 8]; ymm [rsi + 8]
        block = BasicBlock(code)
        (operand,) = operands_of(block.encodings[0])
        assert operand.address(list(block.registers)) % operand.size == 0
    plain = BasicBlock("488b442408")
    assert len({register // 64 for register in plain.registers}) == 16, "no two registers point into one line"
    assert all(PAGE <= register < PAGE + 4096 for register in plain.registers)


def moves(text: str) -> tuple[list[int], list[int]]:
    place, step = addresses(BasicBlock(text))
    return place.tolist(), step.tolist()


def test_addresses_that_stay_and_that_move():
    registers = dict(zip(GPR, BasicBlock("90").registers, strict=True))
    assert moves("488b4308") == ([registers["RBX"] + 8], [0])  # mov rax, [rbx + 8]
    assert moves("488b00") == ([WORD], [0])  # mov rax, [rax]: what it holds are pointers
    assert moves("488b034883c340")[1] == [64]  # add rbx, 64
    assert moves("53")[1] == [-8]  # push
    assert moves("535b")[1] == [0, 0]
    assert moves("53" + "4883ec08")[1] == [-16]
    assert moves("488b04cb48ffc1")[1] == [8]  # mov rax, [rbx + rcx * 8]; inc rcx
    assert moves("4889d8488b00")[0] == [registers["RBX"]]  # mov rax, rbx; mov rax, [rax]
    assert moves("488d4308488b00")[0] == [registers["RBX"] + 8]  # lea rax, [rbx + 8]; mov rax, [rax]


def test_what_is_stored_is_loaded_again():
    place, _ = addresses(BasicBlock("48891f" + "488b07" + "8b10"))  # mov [rdi], rbx; mov rax, [rdi]; mov edx, [rax]
    registers = dict(zip(GPR, BasicBlock("90").registers, strict=True))
    assert place.tolist() == [registers["RDI"], registers["RDI"], registers["RBX"]]


def test_loads_come_before_stores_and_gathers_have_lanes():
    (one,) = operands_of(bytes.fromhex("480103"))  # add [rbx], rax
    assert (one.read, one.write, one.size) == (True, True, 8)
    both = operands_of(bytes.fromhex("ff33"))  # push qword ptr [rbx]
    assert [(one.read, one.write) for one in both] == [(True, False), (False, True)]
    assert len(operands_of(bytes.fromhex("c4e26d92048b"))) == 8  # vgatherdps ymm0, [rbx + ymm1 * 4], ymm2


@pytest.mark.parametrize(
    ("code", "multiple"),
    [
        ("0f2807", 16),  # movaps xmm0, [rdi]
        ("c5fc2807", 32),  # vmovaps ymm0, [rdi]
        ("0f5807", 16),  # addps xmm0, [rdi]: legacy code of 16 bytes
        ("c5f85807", 0),  # vaddps xmm0, xmm0, [rdi]
        ("f30f5807", 0),  # addss xmm0, [rdi]
        ("0f1007", 0),  # movups xmm0, [rdi]
        ("488b07", 0),  # mov rax, [rdi]
        ("480fc70f", 16),  # cmpxchg16b [rdi]
        ("0f58c1", 0),  # addps xmm0, xmm1
    ],
)
def test_which_addresses_have_to_be_aligned(code, multiple):
    assert alignment(next(iter(Decoder(64, bytes.fromhex(code))))) == multiple


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("488d044b", "/m2/scaled"),  # lea rax, [rbx+rcx*2]
        ("488d040b", "/m2"),  # lea rax, [rbx+rcx]
        ("488d444b08", "/m3/scaled"),  # lea rax, [rbx+rcx*2+8]
        ("498d440d00", "/m3"),  # lea rax, [r13+rcx+0]: R13 cannot be a base without a displacement
        ("498d4500", "/m"),  # lea rax, [r13+0]
    ],
)
def test_names_of_address_computations_tell_their_parts(code, ending):
    assert form_name(next(iter(Decoder(64, bytes.fromhex(code))))).partition("/")[2] == ending[1:]
