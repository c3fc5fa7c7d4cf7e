"""Forms of instructions as other tables spell them, their classes, and vectors of blocks: by hand."""

import pytest

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

from iced_x86 import Code, Encoder, Instruction, Register

from perfkit.trace import aarch64, x86
from perfkit.trace.block import BasicBlock


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("VEX_VADDPS_YMM_YMM_YMMM256/m", "VADDPS ymm ymm m256"),
        ("VEX_VADDPS_YMM_YMM_YMMM256", "VADDPS ymm ymm ymm"),
        ("ADD_RM64_R64/m", "ADD m64 r64"),
        ("ADD_RM64_IMM8", "ADD r64 i"),
        ("ADD_AL_IMM8", "ADD r8 i"),
        ("ADD_AX_IMM16", "ADD r16 i"),
        ("ADD_EAX_IMM32", "ADD r32 i"),
        ("ADD_RAX_IMM32", "ADD r64 i"),
        ("SHL_RM32_CL", "SHL r32 r8"),
        ("IN_AL_DX", "IN r8 r16"),
        ("JMP_REL32_64", "JMP i"),
        ("FADD_ST0_STI", "FADD st0 st"),
        ("XADD_RM32_R32/lock/m", "XADD m32 r32 lock"),
        ("MOVSB_M8_M8/rep", "MOVSB m8 m8 rep"),
        ("STOSQ_M64_RAX", "STOSQ m64 r64"),
        ("VEX_KMOVW_KR_KM16/m", "KMOVW k m16"),
        ("EVEX_VADDPD_ZMM_K1Z_ZMM_ZMMM512B64_ER/m/z", "VADDPD zmm zmm m512 evex z"),
        ("EVEX_VADDPD_ZMM_K1Z_ZMM_ZMMM512B64_ER/b/k/m", "VADDPD zmm zmm m64 evex b k"),
    ],
)
def test_a_form_is_spelt_as_in_other_tables(name, told):
    assert x86.signature(name) == tuple(told.split())


@pytest.mark.parametrize(
    ("names", "of"),
    [
        ("B_I BL_I BR_X BLR_X RET BCOND_I CBZ_X_I CBNZ_X_I TBZ_X_I_I TBNZ_X_I_I", "branch"),
        ("HINT_I PRFM_M DMB_I DSB_I ISB_I CLREX", "nop"),
        ("LDR_X_M MOVZ_X_I ADR_X_I ADRP_X_I FMOV_D_D DUP_V2D_X MOVI_V2D_I UMOV_X_B", "move"),
        ("UDIV_X_X_X SDIV_W_W_W FDIV_D_D_D FSQRT_D_D", "divide"),
        ("MADD_X_X_X_X MSUB_X_X_X_X UMULL_X_W_W SMULH_X_X_X SMADDL_X_W_W_X UMSUBL_X_W_W_X", "multiply"),
        ("ADD_X_X_X SUB_X_X_I UBFM_X_X_I_I CSEL_X_X_X", "integer"),
        ("FADD_D_D_D SCVTF_D_X UCVTF_D_X FMLA_V2D_V2D_V2D", "vector float"),
        ("ADD_V4S_V4S_V4S MUL_V4S_V4S_V4S", "vector integer"),
    ],
)
def test_classes_of_aarch64(names, of):
    assert {name: aarch64.class_of(name) for name in names.split()} == dict.fromkeys(names.split(), of)


R = Register


@pytest.mark.parametrize(
    ("code", "registers", "vectors"),
    [
        (Code.ADD_RM64_R64, (R.RAX, R.RBX), 0),
        (Code.VEX_VADDPS_XMM_XMM_XMMM128, (R.XMM15, R.XMM0, R.XMM15), 0),
        (Code.VEX_VADDPS_YMM_YMM_YMMM256, (R.YMM15, R.YMM0, R.YMM1), 1),
        (Code.VEX_VADDPS_YMM_YMM_YMMM256, (R.YMM0, R.YMM0, R.YMM0), 1),
        (Code.EVEX_VADDPS_XMM_K1Z_XMM_XMMM128B32, (R.XMM0, R.XMM1, R.XMM15), 0),
        (Code.EVEX_VADDPS_XMM_K1Z_XMM_XMMM128B32, (R.XMM0, R.XMM1, R.XMM16), 2),
        (Code.EVEX_VADDPS_XMM_K1Z_XMM_XMMM128B32, (R.XMM31, R.XMM1, R.XMM2), 2),
        (Code.EVEX_VADDPS_YMM_K1Z_YMM_YMMM256B32, (R.YMM0, R.YMM16, R.YMM2), 2),
        (Code.EVEX_VADDPS_YMM_K1Z_YMM_YMMM256B32, (R.YMM0, R.YMM1, R.YMM31), 2),
        (Code.EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER, (R.ZMM0, R.ZMM0, R.ZMM0), 2),
        (Code.EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER, (R.ZMM31, R.ZMM31, R.ZMM31), 2),
        (Code.VEX_KANDW_KR_KR_KR, (R.K0, R.K0, R.K0), 2),
        (Code.VEX_KANDW_KR_KR_KR, (R.K7, R.K7, R.K7), 2),
    ],
)
def test_what_vectors_a_block_uses(code, registers, vectors):
    encoder = Encoder(64)
    plain = Instruction.create_reg_reg(Code.ADD_RM64_R64, R.RAX, R.RBX)
    create = Instruction.create_reg_reg if len(registers) == 2 else Instruction.create_reg_reg_reg
    for one in (plain, create(code, *registers), plain):
        encoder.encode(one, 0x1000)
    assert BasicBlock(encoder.take_buffer()).vectors == vectors


@pytest.mark.parametrize(
    ("code", "vectors"),
    [
        ("c4e2759204d0", 1),  # vgatherdps ymm0, [rax+ymm2*8], ymm1
        ("62f1740958c2", 2),  # vaddps xmm0{k1}, xmm1, xmm2
        ("c5fb1007", 0),  # vmovsd xmm0, [rdi]
        ("660f6f07", 0),  # movdqa xmm0, [rdi]
        ("c5fc1107", 1),  # vmovups [rdi], ymm0
        ("62f17c481107", 2),  # vmovups [rdi], zmm0
    ],
)
def test_memory_and_masks_of_vectors(code, vectors):
    assert BasicBlock(bytes.fromhex(code)).vectors == vectors


@pytest.mark.parametrize(
    ("code", "number", "copies"),
    [
        ("4801d8", 1, 400),  # instructions of three bytes: at least 400 of them
        ("4801d8", 7, 58),
        ("4801d8", 400, 2),  # at least two copies
        ("48b80102030405060708", 30, 14),  # of ten bytes
        ("48b80102030405060708", 400, 2),
        ("66662e0f1f840000020000", 8, 50),
        ("66662e0f1f840000020000", 40, 10),
    ],
)
def test_how_often_a_block_is_repeated(code, number, copies):
    assert BasicBlock(bytes.fromhex(code) * number).copies == copies


@pytest.mark.parametrize(
    ("operand", "address"),
    [
        (aarch64.MemoryOperand(-1, displacement=0x1234), 0x1234),
        (aarch64.MemoryOperand(0, displacement=-8), 0x1000 - 8),
        (aarch64.MemoryOperand(31, displacement=16), 0x7FF0 + 16),  # the stack pointer
        (aarch64.MemoryOperand(0, 1), 0x1000 + 0xFFFF_FFFF_8000_0002 - (1 << 64)),
        (aarch64.MemoryOperand(0, 1, extension=(32, False)), 0x1000 + 0x8000_0002),
        (aarch64.MemoryOperand(0, 1, extension=(32, True)), (0x1000 + 0x8000_0002 - (1 << 32)) % (1 << 64)),
        (aarch64.MemoryOperand(0, 1, shift=3, extension=(2, True)), 0x1000 - 16),
        (aarch64.MemoryOperand(0, 0, shift=3), 0x1000 + 0x8000),  # the register numbered 0 is an index, too
    ],
)
def test_the_address_of_an_operand_of_aarch64(operand, address):
    registers = [0x1000, 0xFFFF_FFFF_8000_0002, *[0] * 29, 0x7FF0]
    assert operand.address(registers) == address % (1 << 64)
