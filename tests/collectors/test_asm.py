import json
import re

import pytest
from typer.testing import CliRunner

from perfkit.cli.main import app
from perfkit.collectors.host.toolchain import (
    Disassembled,
    hottest_loop,
    missing_instructions,
    operand_kinds,
    same_mnemonic,
)
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.asm import chosen, loop_source
from perfkit.errors import SettingError
from perfkit.study.study import Study

FILLED = {
    "instructions": ["vaddp{T} %{R}1, %{R}2, %{R}3", "vmulp{T} %{R}4, %{R}5, %{R}6"],
    "select": "subsets", "permutations": True, "unroll": 3,
}  # fmt: skip


def study(**assembly):
    return Study(dimensions={"T": ["s", "d"], "R": ["xmm", "ymm"]}, assembly={**FILLED, **assembly})


def test_dimensions_subsets_and_permutations_are_filled_in():
    space = list(study().configurations())
    assert len(space) == 4 * 4
    last = space[-1]
    assert chosen(study().assembly, last) == ["vmulpd %ymm4, %ymm5, %ymm6", "vaddpd %ymm1, %ymm2, %ymm3"]
    text = loop_source(study().assembly, last, "pk_run")
    assert (text.count("vmulpd %ymm4, %ymm5, %ymm6"), text.count("vaddpd %ymm1, %ymm2, %ymm3")) == (3, 3)


def test_the_loop_counter_is_a_register_that_the_instructions_leave_alone():
    one = Study(assembly={"instructions": ["add %r15d, %eax", "mov %r14, %rcx"], "unroll": 2})
    text = loop_source(one.assembly, next(one.configurations()), "pk_run_x")
    assert "dec %r13" in text
    wide = [f"add %{register}, %rax" for register in ("r15", "r14", "r13", "r12")]
    everything = [*wide, "add %bl, %al", "add %ebp, %eax"]
    full = Study(assembly={"instructions": everything})
    with pytest.raises(SettingError, match="leave one for the loop counter"):
        loop_source(full.assembly, next(full.configurations()), "pk_run_x")


def test_operands_and_mnemonics():
    assert operand_kinds("(%rax,%ymm2,4),%ymm3,$0x4,%k1,%rax") == ["MEM", "YMM", "IMM", "K", "GPR"]
    assert operand_kinds("%zmm1{%k2}{z}") == ["ZMM"]
    assert same_mnemonic("add", "addq")
    assert same_mnemonic("addq", "add")
    assert not same_mnemonic("add", "adc")


def test_loops_are_found_by_their_backward_jump():
    plain = [Disassembled(at, name, "") for at, name in ((0, "xor"), (2, "add"), (4, "dec"), (8, "ret"))]
    lines = [*plain[:3], Disassembled(6, "jne", "2 <f+0x2>"), plain[3]]
    assert [line.mnemonic for line in hottest_loop([lines])] == ["add", "dec", "jne"]
    assert [line.mnemonic for line in hottest_loop([lines[:1] + lines[-1:]])] == ["xor"]
    outer = [Disassembled(0, "mov", ""), *lines[:4], Disassembled(8, "inc", ""), Disassembled(9, "jl", "0 <f>")]
    outer[1] = Disassembled(1, "xor", "")
    assert [line.mnemonic for line in hottest_loop([outer])] == ["add", "dec", "jne"]
    twice = [
        *lines[:3],
        Disassembled(5, "je", "2 <f+0x2>"),
        Disassembled(6, "inc", ""),
        Disassembled(7, "jne", "2 <f>"),
    ]
    assert len(hottest_loop([twice])) == 5  # two jumps back to one place are one loop
    assert missing_instructions(lines, {"add": 1}) == ""
    assert missing_instructions(lines, {"add": 2}) == "add: 1 found, 2 expected"


@pytest.mark.measures
def test_both_syntaxes_and_clang_measure_the_same():
    policy = {"metric": "cycles", "attempts": 50}
    att = Study(assembly={"instructions": ["imul %rcx, %rax"]}, compilers=["gcc", "clang"], policy=policy)
    intel = Study(assembly={"instructions": ["imul rax, rcx"], "syntax": "intel"}, compilers=["gcc"], policy=policy)
    table = Microbenchmark().collect(att).table
    assert table["message"].tolist() == ["", ""]
    other = Microbenchmark().collect(intel).table
    assert table["cycles"].tolist() == pytest.approx([other["cycles"].iloc[0]] * 2, rel=0.02)


@pytest.mark.measures
def test_loads_can_be_chained_through_memory():
    chase = Study(assembly={"instructions": ["mov (%rsi), %rsi"], "unroll": 32}, policy={"metric": "cycles"})
    row = Microbenchmark().collect(chase).table.iloc[0]
    assert row["status"] == "ok"
    assert 3 <= row["cycles"] / 32 <= 6  # the L1 load-to-use latency of every x86-64 core since 2008


@pytest.mark.measures
def test_crashing_and_unknown_instructions_fail_with_the_reason():
    bad = Study(assembly={"instructions": ["mov (%rdx), %rdx"]})  # rdx is 0
    assert "SIGSEGV" in Microbenchmark().collect(bad).table["message"].iloc[0]
    privileged = Microbenchmark().collect(Study(assembly={"instructions": ["hlt"]})).table["message"].iloc[0]
    assert "an instruction that the operating system alone may run (hlt, in" in privileged
    unknown = Study(assembly={"instructions": ["bogus %rax"]})
    assert "no such instruction" in Microbenchmark().collect(unknown).table["message"].iloc[0]


@pytest.mark.measures
def test_instructions_that_the_disassembler_names_otherwise_are_timed():
    """A stranger's: "cmovz: 0 found, 64 expected", for objdump prints cmove, shl, cltq, movabs, vcmpeqps and pause."""
    names = ["cmovz %rax, %rcx", "setnae %al", "sal %eax", "cdqe", "movsx %al, %ecx", "movq $0x1234567812345678, %rax",
             "pclmulqdq $0, %xmm1, %xmm0"]  # fmt: skip
    study = Study(assembly={"instructions": [*names, "rep", "nop", "jz 1f", "1:"], "unroll": 4}, policy={"attempts": 1})
    row = Microbenchmark().collect(study).table.iloc[0]
    assert (row["status"], "lacks" in row["message"]) == ("ok", False), row.to_dict()
    intel = {"instructions": ["cmovz rax, rcx", "movsx ecx, al"], "syntax": "intel", "unroll": 4}
    row = Microbenchmark().collect(Study(assembly=intel, policy={"attempts": 1})).table.iloc[0]
    assert row["status"] == "ok", row.to_dict()


@pytest.mark.parametrize(
    ("lines", "ones"),
    [
        (["movsd %xmm1, %xmm0"], 0x3FF0_0000_0000_0000),
        (["vaddps %ymm1, %ymm0, %ymm0", "pinsrd $1, %eax, %xmm2"], 0x3F80_0000_3F80_0000),
        (["vmulph %xmm1, %xmm0, %xmm0"], 0x3C00_3C00_3C00_3C00),
        (["addps %xmm1, %xmm0", "addpd %xmm3, %xmm2"], 0x3FF0_0000_0000_0000),
        (["vgatherdps %ymm2, (%rsi,%ymm1,4), %ymm0"], None),  # ones are no indices
    ],
)
def test_vector_registers_hold_ones_of_the_instructions_type(lines, ones):
    one = Study(assembly={"instructions": lines})
    text = loop_source(one.assembly, next(one.configurations()), "pk_run")
    if ones is None:
        assert "push %rax\\n" not in text.split("pop %r15")[1]
        assert "vzeroall" in text
    else:
        assert f"mov ${ones:#x}, %rax" in text


@pytest.mark.measures
@pytest.mark.parametrize("line", ["movsd %xmm1, %xmm0", "movss %xmm1, %xmm0", "roundsd $0, %xmm1, %xmm0"])
def test_what_keeps_a_part_of_a_register_waits_for_it(line):
    """A stranger's: 0.250 cycles, of a register that the core knew to be zero, where 1.000 is right."""
    study = Study(assembly={"instructions": [line], "unroll": 64}, policy={"metric": "cycles"})
    assert Microbenchmark().collect(study).table.iloc[0]["cycles"] / 64 > 0.95  # no core takes less for a chain


@pytest.mark.measures
def test_the_command():
    done = CliRunner().invoke(app, ["asm", "--json", "--repetitions", "3", "add %rcx, %rax"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert row["cycles"] == pytest.approx(1, rel=0.05)
    text = CliRunner().invoke(app, ["asm", "add %rcx, %rax", "imul %rcx, %rbx", "--subsets"]).stdout
    assert len(re.findall(r"^[01](?:,1)? ", text, re.MULTILINE)) == 3


@pytest.mark.measures
def test_forms_whose_time_depends_on_their_operands_say_so():
    """A root of zero takes 9 cycles on a Golden Cove, one of 1.5 takes 12; the registers are 1.0 by default."""
    told = CliRunner().invoke(app, ["asm", "sqrtsd %xmm1, %xmm0", "--repetitions", "3"])
    assert "may depend on its operands" in told.stderr
    other = CliRunner().invoke(app, ["asm", "addsd %xmm1, %xmm0", "--repetitions", "3"])
    assert "operands" not in other.stderr


@pytest.mark.measures
def test_a_list_may_have_labels_of_its_own():
    """The loop's own label was `1` as well: the jump back went to the list's last one, and 64 jumps took a cycle."""
    study = Study(assembly={"instructions": ["jmp 1f", "1:"], "unroll": 16}, policy={"attempts": 3})
    row = Microbenchmark().collect(study).table.iloc[0]
    assert row["status"] == "ok"
    assert row["cycles"] > 0.4  # per jump; no core takes more than two in a cycle


@pytest.mark.measures
@pytest.mark.parametrize(
    "line", ["nop", "addss %xmm1, %xmm0", "vaddpd %ymm1, %ymm0, %ymm0", "vgatherdps %ymm2, (%rdi,%ymm1,4), %ymm0"]
)
def test_integer_registers_hold_what_is_promised_whatever_fills_the_vectors(line):
    """A stranger's: rax held the bits of 1.0, so that a division took 15.0 cycles where that of 1 takes 9.0."""
    asked = ["cmp $1, %rax", "jne 2f", "cmp $1, %rcx", "jne 2f", "test %rdx, %rdx", "jz 3f", "2: ud2", "3: nop"]
    study = Study(assembly={"instructions": [*asked, line], "unroll": 2}, policy={"attempts": 1, "repetitions": 3})
    row = Microbenchmark().collect(study).table.iloc[0]
    assert row["status"] == "ok", row["message"]
