"""What the integer instructions of a block do to registers and memory, against arithmetic of whole numbers."""

import random

import pytest

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

from iced_x86 import Code, Encoder, Instruction, MemoryOperand, Register

from perfkit.trace.block_addresses import _step

VALUES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 63, (1 << 64) - 1]
A = {8: Register.AL, 16: Register.AX, 32: Register.EAX, 64: Register.RAX}
B = {8: Register.BL, 16: Register.BX, 32: Register.EBX, 64: Register.RBX}


def after(instruction, registers, memory=None):
    """Return the registers after one instruction."""
    encoder = Encoder(64)
    encoder.encode(instruction, 0x1000)
    step = _step(encoder.take_buffer())
    assert step is not None
    found = [*registers] + [0] * (16 - len(registers))
    step(found, bytearray(4096) if memory is None else memory)
    return found


def signed(value, bits):
    value %= 1 << bits
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def written(old, value, bits):
    """Return a register of 64 bits after ``value`` was written to its lowest ``bits``."""
    return value % (1 << bits) if bits >= 32 else (old >> bits << bits) | value % (1 << bits)


def pairs():
    draw = random.Random(3)
    return [(a, b) for a in VALUES for b in VALUES] + [(draw.getrandbits(64), draw.getrandbits(64)) for _ in range(50)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("ADD", lambda a, b: a + b),
        ("SUB", lambda a, b: a - b),
        ("AND", lambda a, b: a & b),
        ("OR", lambda a, b: a | b),
        ("XOR", lambda a, b: a ^ b),
        ("MOV", lambda _, b: b),
    ],
)
def test_two_registers(name, work, bits):
    code = getattr(Code, f"{name}_RM{bits}_R{bits}")
    for a, b in pairs():
        found = after(Instruction.create_reg_reg(code, A[bits], B[bits]), [a, 5, 6, b])
        assert found[:4] == [written(a, work(a, b), bits), 5, 6, b]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("SHL", lambda a, c, _: a << c),
        ("SHR", lambda a, c, bits: a % (1 << bits) >> c),
        ("SAR", lambda a, c, bits: signed(a, bits) >> c),
    ],
)
def test_shifts(name, work, bits):
    code = getattr(Code, f"{name}_RM{bits}_CL")
    for a, _ in pairs():
        for count in (0, 1, 7, 8, 31, 32, 33, 63, 64, 0x105):
            taken = count % 256 % (64 if bits == 64 else 32)
            found = after(Instruction.create_reg_reg(code, A[bits], Register.CL), [a, count])
            assert found[:2] == [written(a, work(a, taken, bits), bits), count]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    ("name", "work"),
    [("INC", lambda a: a + 1), ("DEC", lambda a: a - 1), ("NEG", lambda a: -a), ("NOT", lambda a: -a - 1)],
)
def test_one_register(name, work, bits):
    code = getattr(Code, f"{name}_RM{bits}")
    for a in VALUES:
        assert after(Instruction.create_reg(code, A[bits]), [a, 9])[:2] == [written(a, work(a), bits), 9]


@pytest.mark.parametrize("at", [0x2010, 0x2FFD])  # within a page, and across its end
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("ADD", lambda a, b: a + b),
        ("SUB", lambda a, b: a - b),
        ("XOR", lambda a, b: a ^ b),
        ("MOV", lambda _, b: b),
        ("INC", lambda a, _: a + 1),
        ("DEC", lambda a, _: a - 1),
        ("NEG", lambda a, _: -a),
        ("NOT", lambda a, _: -a - 1),
    ],
)
def test_what_is_done_to_memory(name, work, bits, at):
    one, where = name in ("INC", "DEC", "NEG", "NOT"), MemoryOperand(Register.RSI)
    code = getattr(Code, f"{name}_RM{bits}" if one else f"{name}_RM{bits}_R{bits}")
    instruction = Instruction.create_mem(code, where) if one else Instruction.create_mem_reg(code, where, B[bits])
    size = bits // 8
    for a, b in pairs():
        memory, expected = bytearray(b"\xee" * 4096), bytearray(b"\xee" * 4096)
        for k in range(size):
            memory[(at + k) % 4096] = a >> 8 * k & 0xFF
            expected[(at + k) % 4096] = (work(a, b) % (1 << bits)) >> 8 * k & 0xFF
        assert after(instruction, [1, 2, 3, b, 0, 0, at], memory)[:7] == [1, 2, 3, b, 0, 0, at]
        assert memory == expected


@pytest.mark.parametrize(("name", "bits"), [("MOVSX_R64_RM8", 8), ("MOVSX_R64_RM16", 16), ("MOVSXD_R64_RM32", 32)])
def test_extended_by_their_sign(name, bits):
    for b in VALUES:
        found = after(Instruction.create_reg_reg(getattr(Code, name), A[64], B[bits]), [3, 0, 0, b])
        assert found[0] == signed(b, bits) % (1 << 64)


@pytest.mark.parametrize(("name", "bits"), [("MOVZX_R32_RM8", 8), ("MOVZX_R32_RM16", 16)])
def test_extended_by_zeros(name, bits):
    for b in VALUES:
        found = after(Instruction.create_reg_reg(getattr(Code, name), A[32], B[bits]), [(1 << 64) - 1, 0, 0, b])
        assert found[0] == b % (1 << bits)


def test_products():
    for a, b in pairs():
        two = after(Instruction.create_reg_reg(Code.IMUL_R64_RM64, A[64], B[64]), [a, 0, 0, b])
        three = after(Instruction.create_reg_reg_i32(Code.IMUL_R64_RM64_IMM8, A[64], B[64], -3), [a, 0, 0, b])
        assert (two[0], three[0]) == (signed(a, 64) * signed(b, 64) % (1 << 64), signed(b, 64) * -3 % (1 << 64))


def test_what_widens_the_first_register():
    for a in VALUES:
        assert after(Instruction.create(Code.CDQE), [a])[0] == signed(a, 32) % (1 << 64)
        assert after(Instruction.create(Code.CDQ), [a, 0, 7])[2] == (0xFFFF_FFFF if signed(a, 32) < 0 else 0)
        assert after(Instruction.create(Code.CQO), [a, 0, 7])[2] == ((1 << 64) - 1 if signed(a, 64) < 0 else 0)


def test_the_second_byte_of_a_register_is_a_register_of_its_own():
    found = after(Instruction.create_reg_reg(Code.MOV_RM8_R8, Register.AH, Register.BL), [0x1122_3344, 0, 0, 0x99])
    assert found[0] == 0x1122_9944
    found = after(Instruction.create_reg_reg(Code.MOV_RM8_R8, Register.BL, Register.AH), [0x1122_3344, 0, 0, 0x99])
    assert found[3] == 0x33


@pytest.mark.parametrize("at", [0x2000, 0x2FFC, 0x2FFF])  # within a page, and across its end
def test_the_stack(at):
    memory = bytearray(range(256)) * 16
    pushed = after(Instruction.create_reg(Code.PUSH_R64, A[64]), [0x0102_0304_0506_0708, 0, 0, 0, at + 8], memory)
    assert pushed[4] == at
    assert bytes(memory[(at + k) % 4096] for k in range(8)) == bytes([8, 7, 6, 5, 4, 3, 2, 1])
    assert memory[(at + 8) % 4096] == (at + 8) % 256
    popped = after(Instruction.create_reg(Code.POP_R64, B[64]), [0, 0, 0, 0, at], memory)
    assert (popped[3], popped[4]) == (0x0102_0304_0506_0708, at + 8)
    left = after(Instruction.create(Code.LEAVEQ), [0, 0, 0, 0, 1, at], memory)
    assert (left[5], left[4]) == (0x0102_0304_0506_0708, at + 8)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_memory_takes_as_many_bytes_as_the_operand_has(size):
    bits, memory = 8 * size, bytearray(b"\xee" * 4096)
    where = MemoryOperand(Register.RDI, Register.RSI, 4, 5, 1)
    registers = [0x1122_3344_5566_7788, 0, 0, 0, 0, 0, 10, 0x7000]  # RSI is 10
    code = getattr(Code, f"MOV_RM{bits}_R{bits}")
    after(Instruction.create_mem_reg(code, where, A[bits]), registers, memory)
    data = (0x1122_3344_5566_7788).to_bytes(8, "little")[:size]
    assert bytes(memory[40:60]) == b"\xee" * 5 + data + b"\xee" * (15 - size)
    code = getattr(Code, f"ADD_R{bits}_RM{bits}")
    found = after(Instruction.create_reg_mem(code, B[bits], where), [0, 0, 0, 1, 0, 0, 10, 0x7000], memory)
    assert found[3] == int.from_bytes(data, "little") + 1


def test_an_address_is_computed_without_loading():
    where = MemoryOperand(Register.RDI, Register.RSI, 8, -16, 1)
    found = after(Instruction.create_reg_mem(Code.LEA_R64_M, A[64], where), [0] * 6 + [3, 100])
    assert found[0] == 100 + 24 - 16
    found = after(Instruction.create_reg_mem(Code.LEA_R32_M, A[32], where), [0] * 6 + [3, (1 << 40) + 100])
    assert found[0] == 108


def test_an_exchange():
    found = after(Instruction.create_reg_reg(Code.XCHG_RM32_R32, A[32], B[32]), [(5 << 32) + 1, 0, 0, (7 << 32) + 2])
    assert (found[0], found[3]) == (2, 1)
