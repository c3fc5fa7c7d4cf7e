"""The AArch64 decoder: cases by hand, and every register set against execution under QEMU."""

import shutil
import subprocess
from pathlib import Path

import pytest

from perfkit.errors import DataError, UnavailableError
from perfkit.trace import aarch64 as decode_aarch64
from perfkit.trace.aarch64 import (
    FLAGS,
    SP,
    VECTORS,
    class_of,
    decode,
    decode_one,
    is_vector,
    memory_access,
    reference_form,
    simpler_forms,
)
from perfkit.trace.code import StaticCode
from tests.aarch64.assembled import COMPILER, assemble, needs_assembler

HERE = Path(__file__).parent
V = VECTORS
# machine code, form, read for addresses, read as data, written, updated base
CASES = [
    ("2000028b", "ADD_X_X_X", (), (1, 2), (0,), -1),
    ("200c028b", "ADD_X_X_X/shifted", (), (1, 2), (0,), -1),
    ("20c8228b", "ADD_X_X_W/extended", (), (1, 2), (0,), -1),
    ("3f0002eb", "SUBS_X_X_X", (), (1, 2), (FLAGS,), -1),  # cmp x1, x2
    ("2000829a", "CSEL_X_X_X", (), (1, 2, FLAGS), (0,), -1),
    ("e0079f1a", "CSINC_W_W_W", (), (FLAGS,), (0,), -1),  # cset w0, ne
    ("200c029b", "MADD_X_X_X_X", (), (1, 2, 3), (0,), -1),
    ("2000029b", "MADD_X_X_X_X/accumulate", (), (0, 1, 2), (0,), -1),
    ("207c029b", "MADD_X_X_X_X", (), (1, 2), (0,), -1),  # mul x0, x1, x2
    ("20f07dd3", "UBFM_X_X_I_I", (), (1,), (0,), -1),  # lsl x0, x1, #3
    ("e00301aa", "ORR_X_X_X", (), (1,), (0,), -1),  # mov x0, x1
    ("e0030091", "ADD_X_X_I", (), (SP,), (0,), -1),  # mov x0, sp
    ("a000a0f2", "MOVK_X_I", (), (0,), (0,), -1),
    ("00000090", "ADRP_X_I", (), (), (0,), -1),
    ("200040f9", "LDR_X_M", (1,), (), (0,), -1),
    ("208440f8", "LDR_X_M/post", (1,), (), (0, 1), 1),
    ("208c40f8", "LDR_X_M/pre", (1,), (), (0, 1), 1),
    ("207862f8", "LDR_X_M/index/scaled", (1, 2), (), (0,), -1),
    ("20d862f8", "LDR_X_M/extended/index/scaled", (1, 2), (), (0,), -1),
    ("210040f9", "LDR_X_M", (1,), (), (1,), -1),  # a pointer chase
    ("4004c1a8", "LDP_X_X_M/post", (2,), (), (0, 1, 2), 2),
    ("4004c1ac", "LDP_Q_Q_M/post", (2,), (), (2, V, V + 1), 2),
    ("fd7bbfa9", "STP_X_X_M/pre", (SP,), (29, 30), (SP,), SP),
    ("208400f8", "STR_X_M/post", (1,), (0,), (1,), 1),
    ("210000f9", "STR_X_M", (1,), (1,), (), -1),  # str x1, [x1]
    ("200c421f", "FMADD_D_D_D_D", (), (V + 1, V + 2, V + 3), (V,), -1),
    ("2000421f", "FMADD_D_D_D_D/accumulate", (), (V, V + 1, V + 2), (V,), -1),
    ("0004421f", "FMADD_D_D_D_D", (), (V, V + 1, V + 2), (V,), -1),  # d0 = d0 * d2 + d1: Horner
    ("0000421f", "FMADD_D_D_D_D", (), (V, V + 2), (V,), -1),  # d0 = d0 * d2 + d0: needed early too
    ("20cc624e", "FMLA_V2D_V2D_V2D", (), (V, V + 1, V + 2), (V,), -1),
    ("2018c24f", "FMLA_V2D_V2D_ED", (), (V, V + 1, V + 2), (V,), -1),
    ("2020611e", "FCMP_D_D", (), (V + 1, V + 1), (FLAGS,), -1),
    ("0820601e", "FCMP_D_I", (), (V,), (FLAGS,), -1),  # fcmp d0, #0.0
    ("201ca14e", "ORR_V16B_V16B_V16B", (), (V + 1,), (V,), -1),  # mov v0.16b, v1.16b
    ("201c184e", "INS_ED_X", (), (1, V), (V,), -1),
    ("207cdf4c", "LD1_V2D_M/post", (1,), (), (1, V), 1),
    ("207cc24c", "LD1_V2D_M/post", (1,), (2,), (1, V), 1),
    ("2084404d", "LD1_ED_M", (1,), (V,), (V,), -1),
    ("2004df4c", "LD4_V8H_V8H_V8H_V8H_M/post", (1,), (), (1, V, V + 1, V + 2, V + 3), 1),
    ("20a09f4c", "ST1_V16B_V16B_M/post", (1,), (V, V + 1), (1,), 1),
    ("00000054", "BCOND_I", (), (FLAGS,), (), -1),
    ("000000b4", "CBZ_X_I", (), (0,), (), -1),
    ("00001837", "TBNZ_W_I_I", (), (0,), (), -1),
    ("1f2003d5", "HINT_I", (), (), (), -1),
    ("3f2303d5", "HINT_I", (), (30, SP), (30,), -1),  # paciasp
    ("c0035fd6", "RET_X", (), (30,), (), -1),
]


@pytest.mark.parametrize(("code", "form", "address", "data", "written", "updated"), CASES)
def test_cases_by_hand(code, form, address, data, written, updated):
    i = decode_one(bytes.fromhex(code), 0x1000)
    assert i.form == form
    assert i.address == address
    assert i.data == tuple(sorted(set(data)))
    assert i.written == tuple(sorted(written))
    assert i.updated == updated


def test_branches_are_told_from_conditional_ones():
    found = [
        decode_one(bytes.fromhex(c)) for c in ("00000054", "00001837", "02000014", "c0035fd6", "20003fd6", "1f2003d5")
    ]
    assert [i.conditional for i in found] == [True, True, False, False, False, False]
    assert [i.branch for i in found] == [True, True, True, True, True, False]


@pytest.mark.parametrize(
    ("code", "size", "address"),
    [
        ("200040f9", 8, 1000),  # ldr x0, [x1]
        ("2008c03d", 16, 1032),  # ldr q0, [x1, #32]
        ("208c5ff8", 8, 992),  # ldr x0, [x1, #-8]!
        ("208440f8", 8, 1000),  # ldr x0, [x1], #8
        ("20c86278", 2, 1000 - 4),  # ldrh w0, [x1, w2, sxtw]
        ("207862f8", 8, (1000 + 8 * 0xFFFFFFFFFFFFFFFC) % 2**64),  # ldr x0, [x1, x2, lsl #3]
        ("205862f8", 8, 1000 + 8 * 0xFFFFFFFC),  # ldr x0, [x1, w2, uxtw #3]
        ("20e862f8", 8, 1000 - 4),  # ldr x0, [x1, x2, sxtx]
        ("20004039", 1, 1000),  # ldrb
        ("200080b9", 4, 1000),  # ldrsw
        ("20084069", 8, 1000),  # ldpsw x0, x2, [x1]
        ("20087fad", 32, 1000 - 32),  # ldp q0, q2, [x1, #-32]
        ("2084404d", 8, 1000),  # ld1 {v0.d}[1], [x1]
        ("20cc404d", 8, 1000),  # ld1r {v0.2d}, [x1]
        ("2008df4c", 64, 1000),  # ld4 of four vectors
    ],
)
def test_addresses_and_sizes(code, size, address):
    (operand,) = decode_one(bytes.fromhex(code)).memory
    registers = [0] * 32
    registers[1], registers[2] = 1000, 0xFFFFFFFFFFFFFFFC
    assert (operand.size, operand.address(registers)) == (size, address)


@pytest.mark.parametrize("index", [0x1_FFFF_FFFC, 0xFFFF_FFFE_0000_0008, 0xFFFF_FFFF_8000_0000])
def test_an_index_is_extended_from_its_own_bits(index):
    """The halves of the register say different things: of w2 only the lower one counts."""
    low = index & 0xFFFF_FFFF
    signed = low - (low >> 31 << 32)
    offsets = {
        "204862f8": low,  # ldr x0, [x1, w2, uxtw]
        "205862f8": 8 * low,  # ldr x0, [x1, w2, uxtw #3]
        "20c862f8": signed,  # ldr x0, [x1, w2, sxtw]
        "20d862f8": 8 * signed,  # ldr x0, [x1, w2, sxtw #3]
        "206862f8": index,  # ldr x0, [x1, x2]
        "20f862f8": 8 * index,  # ldr x0, [x1, x2, sxtx #3]
    }
    registers = [0] * 32
    registers[1], registers[2] = 1000, index
    found = {code: decode_one(bytes.fromhex(code)).memory[0].address(registers) for code in offsets}
    assert found == {code: (1000 + offset) % 2**64 for code, offset in offsets.items()}


@pytest.mark.parametrize(
    ("code", "merges"),
    [("20cc224e", True), ("200080f2", True), ("20d4224e", False), ("200080d2", False)],  # fmla, movk; fadd, movz
)
def test_what_is_read_and_written_merges(code, merges):
    assert decode_one(bytes.fromhex(code)).merges is merges


def test_a_literal_beyond_four_gigabytes():
    i = decode_one(bytes.fromhex("e0ffff58"), 0x55_0000_0010)  # ldr x0, <pc - 4>
    assert i.form == "LDR_X_M/literal"
    assert i.memory[0].address([0] * 32) == 0x55_0000_000C


def test_prefetches_access_nothing():
    i = decode_one(bytes.fromhex("200080f9"))
    assert i.form == "PRFM_SYS_M"
    assert i.memory == ()
    assert memory_access(i.form) == (False, False)


def test_what_is_no_armv8_is_refused():
    with pytest.raises(DataError, match="ffffffff at 0x40 are not one AArch64"):
        decode_one(b"\xff" * 4, 0x40)
    with pytest.raises(DataError, match="not one AArch64"):
        decode_one(bytes.fromhex("1f2003d5") * 2)
    with pytest.raises(UnavailableError, match="not SVE or SME"):
        decode_one(bytes.fromhex("00000004"))
    other = StaticCode("riscv64", [0], [b"\x01\x00"], ["nop"], ["f"], [0, 1], [0, 0], [], [], [])
    with pytest.raises(UnavailableError, match="the trace is riscv64"):
        decode(other)


def test_an_older_capstone_is_refused(monkeypatch):
    import capstone

    monkeypatch.setattr(capstone, "cs_version", lambda: (5, 0, 9))
    decode_aarch64._capstone.cache_clear()
    try:
        with pytest.raises(UnavailableError, match=r"needs capstone 6 .* found 5.0: pip install 'perfkit\[arm\]'"):
            decode_one(bytes.fromhex("1f2003d5"))
    finally:
        monkeypatch.undo()
        decode_aarch64._capstone.cache_clear()


def test_what_names_of_forms_tell():
    assert simpler_forms("FMADD_D_D_D_D/accumulate") == ["FMADD_D_D_D_D"]
    assert simpler_forms("LDR_X_M/extended/index/scaled") == ["LDR_X_M/extended/index", "LDR_X_M/index"]
    assert simpler_forms("ADD_X_X_W/extended") == []
    assert memory_access("LDP_Q_Q_M/post") == (True, False)
    assert memory_access("STXR_W_X_M") == (False, True)
    assert memory_access("LDADDAL_X_X_M") == (True, True)
    assert memory_access("ADD_X_X_X") == (False, False)
    assert is_vector("LDR_D_M")
    assert is_vector("INS_ED_X")
    assert not is_vector("LDP_X_X_M")
    classes = {"B_I": "branch", "HINT_I": "nop", "UDIV_X_X_X": "divide", "FSQRT_D_D": "divide", "ADD_X_X_I": "integer",
               "SMULH_X_X_X": "multiply", "MOVZ_X_I": "move", "LDR_X_M": "move", "FADD_D_D_D": "vector float",
               "ADD_V4S_V4S_V4S": "vector integer", "DUP_V2D_X": "move"}  # fmt: skip
    assert {name: class_of(name) for name in classes} == classes
    assert reference_form("LDNP_Q_Q_M") == "LDR_Q_M"
    assert reference_form("FABD_D_D_D") == "FADD_V2D_V2D_V2D"
    assert reference_form("SMULH_X_X_X") == "MADD_X_X_X_X"
    assert reference_form("STTR_X_M") == "STR_X_M"


# One of each kind that compiled code holds; the registers are x0 to x3 and v0 to v4.
EXECUTED = """
add x0, x1, x2; add w0, w1, w2; add x0, x1, x2, lsl #3; add x0, x1, w2, sxtw #2; add x0, x1, #4; adds x0, x1, x2
subs w0, w1, #1; cmp x1, x2; cmn x1, x2; tst x1, x2; cmp w1, #7; ccmp x1, x2, #5, eq; ccmn w1, #3, #2, lt
csel x0, x1, x2, eq; cset w0, ne; csetm x0, hi; cinc x0, x1, lt; csneg x0, x1, x2, ge; madd x0, x1, x2, x3
mul x0, x1, x2; msub x0, x1, x2, x3; smaddl x0, w1, w2, x3; umull x0, w1, w2; smulh x0, x1, x2; udiv x0, x1, x2
lsl x0, x1, #3; lsl x0, x1, x2; asr w0, w1, #4; ubfx x0, x1, #3, #4; sxtw x0, w1; bfi x0, x1, #3, #4
bfxil x0, x1, #3, #9; extr x0, x1, x2, #3; ror x0, x1, #5; mov x0, x1; mov x0, #5; mvn x0, x1; movk x0, #5, lsl #16
adr x0, .; adc x0, x1, x2; sbcs x0, x1, x2; ngc x0, x1; rbit x0, x1; clz x0, x1; rev x0, x1; neg x0, x1, lsl #2
and x0, x1, #0xff; bic x0, x1, x2; orn w0, w1, w2; eon x0, x1, x2, ror #9; ands x0, x1, #0xf0
ldr x0, [x1]; ldr x0, [x1, #8]; ldr x0, [x1], #8; ldr x0, [x1, #8]!; ldr x0, [x1, x2]; ldr x0, [x1, x2, lsl #3]
ldr x0, [x1, w2, sxtw #3]; ldr w0, [x1, w2, uxtw]; ldr w0, [x1]; ldrb w0, [x1]; ldrsb x0, [x1]; ldrsh w0, [x1, #6]
ldrsw x0, [x1], #4; ldr x1, [x1]; ldp x0, x1, [x2]; ldp x0, x1, [x2], #16; ldp x0, x1, [x2, #16]!
ldpsw x0, x1, [x2]; ldp q0, q1, [x2], #32; ldp s0, s1, [x2]; str x0, [x1], #8; str x0, [x1, #8]!; str x1, [x1]
str x0, [x1, x2, lsl #3]; strb w0, [x1], #1; strh w0, [x1, #2]; stp x0, x1, [x2], #16; stp d0, d1, [x2, #16]!
str q0, [x1, x2]; ldr d0, [x1, x2, lsl #3]; ldr q0, [x1], #16; ldr b0, [x1]; ldr h0, [x1]; ldur x0, [x1, #-8]
stur d0, [x1, #-8]; ldnp q0, q1, [x1]; stnp x0, x2, [x1]; ldxr x0, [x1]; ldar x0, [x1]; stlr x0, [x1]
fadd d0, d1, d2; fadd s0, s1, s2; fnmul d0, d1, d2; fmadd d0, d1, d2, d3; fmadd d0, d1, d2, d0; fnmsub s0, s1, s2, s3
fdiv d0, d1, d2; fsqrt d0, d1; fmaxnm d0, d1, d2; fabs d0, d1; fcmp d0, d1; fcmpe s0, s1; fccmp d0, d1, #5, eq
fcsel d0, d1, d2, eq; fcvtzs x0, d0; fcvtzu w0, s0; scvtf d0, x0; ucvtf s0, w1; fcvt s0, d1; fmov d0, x0; fmov x0, d0
fmov d0, #1.0; fmov d0, d1; frintm d0, d1; fabd d0, d1, d2; fmulx d0, d1, v2.d[1]
fadd v0.2d, v1.2d, v2.2d; fmul v0.4s, v1.4s, v2.s[1]; fmla v0.2d, v1.2d, v2.2d; fmla v0.2d, v1.2d, v2.d[1]
fmla d0, d1, v2.d[1]; fmls v0.4s, v1.4s, v2.4s; fdiv v0.2d, v1.2d, v2.2d; fneg v0.2d, v1.2d; fsqrt v0.4s, v1.4s
mla v0.4s, v1.4s, v2.4s; mls v0.8h, v1.8h, v2.h[1]; add v0.4s, v1.4s, v2.4s; mul v0.4s, v1.4s, v2.4s
smlal v0.2d, v1.2s, v2.2s; smlal2 v0.2d, v1.4s, v2.4s; umull2 v0.2d, v1.4s, v2.4s; saba v0.4s, v1.4s, v2.4s
uadalp v0.2d, v1.4s; saddw v0.2d, v1.2d, v2.2s; ins v0.d[1], x1; ins v0.d[1], v1.d[0]; umov x0, v1.d[1]
smov x0, v1.s[1]; dup v0.2d, x1; dup v0.2d, v1.d[0]; dup d0, v1.d[1]; xtn v0.2s, v1.2d; xtn2 v0.4s, v1.2d
bsl v0.16b, v1.16b, v2.16b; bit v0.16b, v1.16b, v2.16b; bif v0.16b, v1.16b, v2.16b; eor v0.16b, v1.16b, v2.16b
mov v0.16b, v1.16b; movi v0.2d, #0; movi v0.4s, #1; orr v0.4s, #1; bic v0.8h, #2; mvni v0.4s, #1
tbl v0.16b, {v1.16b}, v2.16b; tbl v0.16b, {v1.16b, v2.16b}, v3.16b; tbx v0.16b, {v1.16b}, v2.16b
ld1 {v0.2d}, [x1]; ld1 {v0.2d}, [x1], #16; ld1 {v0.2d, v1.2d}, [x1], #32; ld1 {v0.2d}, [x1], x2
ld1 {v0.d}[1], [x1]; ld1 {v0.s}[2], [x1], #4; ld1r {v0.2d}, [x1]; ld2 {v0.2d, v1.2d}, [x1]
ld2 {v0.d, v1.d}[0], [x1]; ld3 {v0.4s, v1.4s, v2.4s}, [x1]; ld4 {v0.4s, v1.4s, v2.4s, v3.4s}, [x1], #64
st1 {v0.2d}, [x1]; st1 {v0.2d, v1.2d}, [x1], #32; st1 {v0.d}[1], [x1]; st2 {v0.2d, v1.2d}, [x1], x2
addp d0, v1.2d; faddp v0.2d, v1.2d, v2.2d; faddp d0, v1.2d; addv s0, v1.4s; fmaxnmv s0, v1.4s; shl v0.2d, v1.2d, #3
ushl v0.4s, v1.4s, v2.4s; usra v0.2d, v1.2d, #3; sli v0.2d, v1.2d, #3; sri v0.2d, v1.2d, #7; sshll v0.2d, v1.2s, #0
zip1 v0.2d, v1.2d, v2.2d; trn2 v0.4s, v1.4s, v2.4s; ext v0.16b, v1.16b, v2.16b, #8; aese v0.16b, v1.16b
cmhi v0.4s, v1.4s, v2.4s; cmgt v0.4s, v1.4s, #0; fcmgt v0.2d, v1.2d, v2.2d; fcmge v0.2d, v1.2d, #0.0
fcvtn v0.2s, v1.2d; fcvtn2 v0.4s, v1.2d; fcvtl v0.2d, v1.2s; scvtf v0.2d, v1.2d; cnt v0.16b, v1.16b
rev64 v0.4s, v1.4s; frecpe v0.4s, v1.4s; frsqrts v0.2d, v1.2d, v2.2d; sqadd v0.4s, v1.4s, v2.4s
nop; mrs x0, nzcv; msr nzcv, x0; crc32x w0, w1, x2; dmb ish
"""


def program(texts):
    """Assembly: a function for each instruction, and the tables that registers.c reads."""
    lines = [".arch armv8-a+crypto+crc", ".text"]
    vectors = [f"ldr q{n}, [x1, #{16 * n}]" for n in range(32)]
    for k, text in enumerate(texts):
        lines += [f"f{k}:", "sub sp, sp, #176", "stp x29, x30, [sp]"]
        lines += [f"stp d{n}, d{n + 1}, [sp, #{16 + 8 * (n - 8)}]" for n in range(8, 16, 2)]
        lines += ["mov x18, x1", "ldr x1, [x0, #248]", "msr nzcv, x1", "add x1, x0, #256", *vectors]
        lines += [f"ldr x{n}, [x0, #{8 * n}]" for n in (1, 2, 3, 4, 5, 6, 7, 0)]
        lines += [text]
        lines += [f"str x{n}, [x18, #{8 * n}]" for n in range(8)]
        lines += ["mrs x0, nzcv", "str x0, [x18, #248]", "add x1, x18, #256"]
        lines += [f"str q{n}, [x1, #{16 * n}]" for n in range(32)]
        lines += [f"ldp d{n}, d{n + 1}, [sp, #{16 + 8 * (n - 8)}]" for n in range(8, 16, 2)]
        lines += ["ldp x29, x30, [sp]", "add sp, sp, #176", "ret"]
    decoded = [decode_one(data) for data in assemble("\n".join(texts))]
    lines += [".data", ".balign 8", ".globl table, count, bases", "table:", *(f".quad f{k}" for k in range(len(texts)))]
    lines += ["count:", f".quad {len(texts)}", "bases:"]
    for i in decoded:
        base, index = (i.memory[0].base, i.memory[0].index) if i.memory else (-1, -1)
        # What is added to a base after the access has to stay small as well.
        extra = [n for n in i.data if n < 31 and i.updated >= 0 and not i.mnemonic.startswith("ST")]
        lines.append(f".byte {base & 255}, {(index if index >= 0 else extra[0] if extra else -1) & 255}")
    return decoded, "\n".join(lines) + "\n"


@needs_assembler
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian package qemu-user)")
def test_register_sets_against_execution(tmp_path):
    texts = [text.strip() for text in EXECUTED.replace("\n", ";").split(";") if text.strip()]
    decoded, source = program(texts)
    assert len(decoded) == len(texts) > 200
    (tmp_path / "code.s").write_text(source)
    flags = ["-O1", "-static", "-ffixed-x18", "-o", tmp_path / "p"]
    subprocess.run([COMPILER, *flags, HERE / "registers.c", tmp_path / "code.s"], check=True)
    told = subprocess.run(["qemu-aarch64", "-cpu", "max", tmp_path / "p"], capture_output=True, text=True, check=True)
    wrong = []
    for line, text, i in zip(told.stdout.splitlines(), texts, decoded, strict=True):
        words = line.split()[1:]
        reads = {int(w[1:]) for w in words if w[0] == "r"}
        writes = {int(w[1:]) for w in words if w[0] == "w"}
        if ({*i.address, *i.data} - {SP}, set(i.written)) != (reads, writes):
            wrong.append(f"{text}: reads {sorted(reads)}, writes {sorted(writes)}, decoded {i}")
    assert wrong == [], "\n".join(wrong)
