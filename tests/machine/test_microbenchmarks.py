"""Loops of a few instructions, measured on seven machines, against the model of their cores."""

import csv
from pathlib import Path

import pytest
from iced_x86 import Decoder, InstructionInfoFactory, Mnemonic, Register, RegisterInfo

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus
from tests.simulators.assembled import assemble, loop, needs_assembler

pytestmark = needs_assembler

HERE = Path(__file__).parent
PAGE = 0x12345000
WITHIN = 0.1
# What the model does not know: divisions of simple values are faster, a conversion waits less for the
# register it merges with than for its operand, flags that a shift by zero would leave, VZEROALL's microcode; how large
# the constants may grow that are added while renaming, a cycle more for an addition to memory that is not renamed, and
# that gathers are faster than on the core before, whose correction (4 cycles) holds for it too.
# On Raptor Cove: a forwarded value takes less where more than a cycle lies between load and store, MOVZX of its own
# register takes a cycle, and three loads per cycle are of different banks (bits 3 to 5 of the address).
# On Zen 3: a loop of one turn per cycle that loads and stores takes a tenth to a half longer, also where each does not
# depend on the last (ld_st), from run to run; integer loads across lines use their ports once more, vectors twice
# (`line_split_penalty` is the vectors'); MULX, TZCNT and DIVSS lie 10 to 17 % off the figures of the forms.
# On Zen 5: shifts, LEAs of three parts, XOR and others of which several run per cycle lie up to 40 % above what their
# units allow, as not every one finds its unit at once; a dozen NOPs take three cycles beside a loop's branch; a dozen
# lines that are stored to in turn take two stores per cycle; gathers wait for the register that they merge with; bytes
# and words are renamed where an addition to memory reads and writes them; a division of 0 takes three cycles less than
# one with a quotient of 32 bits.
OFF: dict[str, set[str]] = {
    "zen3": {
        *("wide_narrow", "fwd_idx", "fwd_alias_reg", "fwd_32", "fwd_step", "add_mem32", "other_half", "byte_other"),
        *("rmw", "rmw_move", "load_op_store", "store_load_same", "ld_st"),
        *("split_load", "split_page_load", "mulx4", "tzcnt4", "divss4", "cvtsi2sd"),
    },
    "zen4": {"divsd4", "cvtsi2sd"},
    "golden_cove": {"shl_cl", "vzeroall"},
    "raptor_cove": {
        *("add_imm_1023", "other_half", "movsd_fwd", "cmp_sete_movzx", "vzeroall", "gather_4", "cvtsi2sd"),
        "loads_one_bank",
    },
    "zen5": {
        *("gatherdps_y", "gather_8", "scalef_chain", "nops6", "gatherqpd_y", "nops16"),
        *("shl_cl4", "shl4", "rol4", "split_chain", "lea_bid4", "lea_bisd4"),
        *("tzcnt4", "gatherdpd_y", "gather_4", "xor8", "gather_dpd", "shlx6"),
        *("cmov4", "two_stores_one_load", "div32_lat", "div32_", "divmul8", "mulx4"),
        *("div64_lat", "idiv64_", "div64", "split_store", "split_store4"),
        *("split_stores", "cvtsi2sd", "rmw_word"),
    },
    "redwood_cove": {"shl_cl", "vzeroall", "add_imm_1023", "add_mem_index", "gather_dpd"},
}


def measured(core: str) -> dict[str, tuple[str, float]]:
    lines = (HERE / f"{core}_loops.csv").read_text().splitlines()
    return {row["name"]: (row["asm"], float(row["cycles"])) for row in csv.DictReader(lines[1:])}


def addresses(body: str) -> list[int]:
    """Where a loop's operands lie: its registers hold addresses 192 bytes apart in one page, vectors nothing."""
    found = []
    factory = InstructionInfoFactory()
    stack = 0  # what PUSH and POP have moved the stack pointer by
    for instruction in Decoder(64, assemble(body), ip=0x1000):
        if instruction.mnemonic == Mnemonic.LEA:
            continue
        for memory in factory.info(instruction).used_memory():
            place = memory.displacement
            for register, scale in ((memory.base, 1), (memory.index, memory.scale)):
                if register != Register.NONE and not register >= Register.XMM0:
                    place += scale * (PAGE + 0x100 + 192 * RegisterInfo(register).number)
            if instruction.mnemonic == Mnemonic.POP:
                found.append(place + stack)
                stack += 8
                continue
            stack -= 8 * (instruction.mnemonic == Mnemonic.PUSH)
            found.append((place + stack + 8 * (instruction.mnemonic == Mnemonic.PUSH)) & 0x7FFFFFFFFFFF)
    return found


def cycles(gus: Gus, body: str, turns: int = 600) -> float:
    whole = body.replace(";", "\n") + "\ndec r15\njnz ."
    places = addresses(whole)
    if "and rax,-4096" in body:  # then RAX is the page
        places = [place - (0x100 if place - PAGE > 0x100 else 0) for place in places]
    once, twice = (gus.run(loop(whole, k, lambda _, m: places[m])).cycles for k in (turns, 2 * turns))
    return (twice - once) / turns


@pytest.mark.parametrize("core", sorted(OFF))
def test_the_model_takes_as_long_as_the_machine(core):
    gus = Gus(Microarchitecture.load(core), warm="all")
    off = {}
    for name, (body, truth) in measured(core).items():
        if "call" in body:
            continue
        found = cycles(gus, body)
        if abs(found / truth - 1) > WITHIN:
            off[name] = (round(found, 2), truth, body)
    assert set(off) == OFF[core], off
