"""What only some cores do, as measured on Zen 3 and 4: uops come line by line of the code, stores go by 32 bytes.

The cycles are those of loops on a Zen 3 server processor (family 25, model 1, 2026-11-23), measured as
data/make/measure_loops.py does; the loops begin on a line of 64 bytes, as the assembled ones here do. Those of
Zen 4 are from a server processor (family 25, model 17, 2026-11-24), and begin where they say.
"""

from dataclasses import replace

import numpy as np
import pytest

from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.errors import FormatError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.dag.branches import predict_branches
from perfkit.simulators.dag.core import DagCore
from perfkit.simulators.dag.schedule import DagScheduler
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.timing import _new_line, code_reads
from perfkit.trace.trace import Trace
from tests.machine.test_microbenchmarks import cycles
from tests.simulators.assembled import assemble, loop, needs_assembler, same_place

pytestmark = needs_assembler

REGISTERS = ["rax", "rcx", "rdx", "rsi", "r9", "r10", "r11", "r12", "r13", "rbp"]
LONG_NOP = "nop word ptr [rax+rax*1+512]"  # nine bytes
ZEN3 = Gus(Microarchitecture.load("zen3"), warm="all")
ZEN4 = Gus(Microarchitecture.load("zen4"), warm="all")
MOVE_EVEX = [f"{{evex}} vmovaps xmm{k},xmm14" for k in range(13)]  # six bytes
MOVE_VEX = [f"vmovaps xmm{k},xmm7" for k in range(8)]  # four bytes
CONSTANTS = [f"mov {name},0x12345678" for name in REGISTERS]  # of 32 bits
LARGE = [f"movabs {name},0x123456789abcdef" for name in REGISTERS]


def moves(count):
    return ";".join(f"mov {REGISTERS[k % 10]},r8" for k in range(count))


@pytest.mark.parametrize(
    ("body", "measured"),
    [
        (moves(5), 1.0),  # six uops with the branch
        (moves(6), 1.16),
        (moves(8), 2.0),  # nine uops: two groups
        (moves(11), 2.0),
        (moves(12), 2.16),
        (moves(16), 3.0),
        (moves(24), 4.25),
        (";".join([LONG_NOP] * 5), 1.0),
        (";".join([LONG_NOP] * 6), 1.17),  # 60 bytes and the branch's five: still one line
        (";".join([LONG_NOP] * 7), 2.0),  # eight uops in two lines
        (";".join([LONG_NOP] * 8), 2.0),
    ],
)
def test_uops_come_in_groups_of_one_line_of_code(body, measured):
    assert cycles(ZEN3, body) == pytest.approx(measured, rel=0.03)


def test_without_the_figure_only_the_number_of_uops_counts():
    core = Microarchitecture.load("zen3")
    resources = {name: one for name, one in core.resources.items() if name != "op_cache"}
    assert cycles(Gus(replace(core, resources=resources), warm="all"), moves(8)) == pytest.approx(9 / 6, rel=0.01)


def test_an_instruction_belongs_to_the_line_in_which_it_ends():
    # 6 + 9 x 6 = 60 bytes, then one of nine bytes from 60 to 69, then a short one.
    trace = loop("\n".join(["mov eax,1", "nop", *[LONG_NOP] * 6, LONG_NOP, "nop"]), 1)
    lengths = trace.code.length.astype(int)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    assert starts[8] == 60
    assert np.flatnonzero(_new_line(trace.code)).tolist() == [0, 8]


def test_a_fused_branch_begins_no_group_of_its_own():
    """Eight uops, then compare and branch that fuse, the branch in the next line: two groups, not three."""
    body = moves(8) + ";" + ";".join([]) + "mov r14,[rax+0x11223344];" * 4
    assert len(assemble(body.replace(";", "\n"))) < 64
    assert cycles(ZEN3, body.rstrip(";")) < 3.0


LINES = [  # moves, where the loop begins, measured cycles per turn
    (1, 0, 1.0),
    (1, 56, 1.0),  # the branch's last byte is the line's
    (1, 57, 1.99),
    (1, 63, 2.0),  # the move lies in two lines, the branch in the second
    (6, 40, 1.16),
    (6, 44, 2.0),
    (8, 0, 1.5),  # nine uops with the branch: one group
    (8, 36, 2.0),
    (9, 0, 2.0),
    (11, 60, 2.0),  # two lines; two uops in one, ten in the other are still two groups
    (12, 0, 2.16),
    (15, 60, 2.66),
    (17, 0, 3.0),
    (18, 0, 3.16),
]


def at_offset(body, offset):
    """Return the cycles of a turn of a loop that begins so many bytes behind a line's begin, on Zen 4."""
    whole = body.replace(";", "\n") + "\ndec r15\njnz ."
    once, twice = (ZEN4.run(loop(whole, k, same_place, 0x1000 + offset)).cycles for k in (200, 600))
    return (twice - once) / 400


@pytest.mark.parametrize(("count", "offset", "measured"), LINES)
def test_zen4_reads_lines_of_code_apart_from_groups_of_nine(count, offset, measured):
    assert at_offset(moves(count), offset) == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(("count", "offset", "measured"), LINES)
def test_the_extended_roofline_reads_them_as_well(count, offset, measured):
    whole = moves(count).replace(";", "\n") + "\ndec r15\njnz ."
    core = ZEN4.core
    without = DagScheduler(DagCore.load("zen4").replace(code_reads=0, loop_turns=0), record=False)

    def per_turn(scheduler):
        traces = (loop(whole, turns, same_place, 0x1000 + offset) for turns in (200, 600))
        nodes = [predict_branches(trace_source(trace, whole=True, core=core), core) for trace in traces]
        once, twice = (scheduler.run(each).cycles for each in nodes)
        return (twice - once) / 400

    assert per_turn(DagScheduler(core, record=False)) == pytest.approx(measured, rel=0.02)
    # Without groups and lines, six slots a cycle and a chain of decrements are left.
    assert per_turn(without) == pytest.approx(max(1, (count + 1) / 6), rel=0.02)


def test_a_block_behind_another_goes_on_in_its_group():
    """Six moves, a branch that is not taken, and two moves with the jump back: ten uops in two groups, not three."""
    trace = loop("\n".join([*moves(6).split(";"), "test r8,r8", "jz .", *moves(2).split(";"), "dec r15", "jnz ."]), 1)
    code = trace.code
    begins = np.array([0, 8, len(code.text)])
    halves = replace(code, block_start=begins)
    program = Gus(ZEN4.core).program(Trace.from_parts(halves, stream=[0, 1], addresses=[]))
    # Blocks, entered from before or by a jump: groups, lines. Seven uops and three, all in one line.
    assert code_reads(program).tolist() == [[[1, 1], [1, 1]], [[1, 0], [1, 1]]]
    assert not code_reads(Gus(Microarchitecture.load("skylake_x")).program(trace)).any()


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        ([*MOVE_EVEX[:1], *MOVE_VEX[1:8]], 1.5),
        ([*MOVE_EVEX[:2], *MOVE_VEX[2:8]], 2.0),
        ([*MOVE_EVEX[:4], *MOVE_VEX[4:7]], 1.33),
        ([*MOVE_EVEX[:5], *MOVE_VEX[5:7]], 2.0),
        (MOVE_EVEX[:6], 1.17),
        (MOVE_EVEX[:7], 2.0),
        (MOVE_EVEX, 2.33),
        ([*CONSTANTS[:3], *moves(8).split(";")[3:]], 1.5),
        ([*CONSTANTS[:4], *moves(8).split(";")[4:]], 2.0),
        ([*CONSTANTS[:4], *moves(7).split(";")[4:]], 1.33),
        ([*CONSTANTS[:5], *moves(7).split(";")[5:]], 2.0),
        ([*LARGE[:1], *moves(8).split(";")[1:]], 1.5),
        ([*LARGE[:2], *moves(8).split(";")[2:]], 2.0),
        ([*MOVE_EVEX[:3], *CONSTANTS[:4]], 1.33),  # either has room of its own
    ],
)
def test_zen4_has_room_for_some_long_constants_and_prefixes_only(words, measured):
    assert at_offset(";".join(words), 0) == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(
    ("name", "stores", "measured"),
    [
        ("256 bits across 32 bytes, each in a line of its own", [("ymm8", 8 + 64 * (k % 12)) for k in range(24)], 2.0),
        ("128 bits across 32 bytes", [("xmm8", 24 + 64 * (k % 12)) for k in range(24)], 2.0),
        ("128 bits within 32 bytes", [("xmm8", 8 + 64 * (k % 12)) for k in range(24)], 1.0),
        ("64 bits across 32 bytes", [("rcx", 28 + 64 * (k % 12)) for k in range(24)], 2.0),
        ("a stream of them: the parts go together", [("ymm8", 8 + 32 * k) for k in range(24)], 1.04),
        ("a stream of 128 bits", [("xmm8", 8 + 16 * k) for k in range(24)], 1.0),
        ("pieces of a line in turns", [("rcx", o + 64 * (k % 6)) for k in range(6) for o in (0, 32, 8, 40)], 1.0),
        ("pieces of a line in pairs", [("rcx", o + 64 * (k % 6)) for k in range(6) for o in (0, 8, 32, 40)], 0.5),
        ("three and one", [("rcx", o + 64 * (k % 6)) for k in range(6) for o in (0, 8, 16, 32)], 0.5),
    ],
)
def test_stores_are_written_by_pieces_of_32_bytes(name, stores, measured):
    words = [f"vmovupd [rax+{at}],{what}" if "mm" in what else f"mov [rax+{at}],{what}" for what, at in stores]
    assert cycles(ZEN3, ";".join(words)) / len(words) == pytest.approx(measured, rel=0.06), name


def test_all_four_forms_of_the_recurrence_agree():
    """Cycles of one run, of the lanes with nothing scaled, and of both causalities."""
    body = "\n".join([moves(8).replace(";", "\n"), "dec r15", "jnz ."])
    result = ZEN3.run(loop(body, 400, same_place))
    assert (result.sensitivity(weights=(1.0,)).to_frame()["x1"] == 0).all()
    doubled = result.sensitivity(weights=(2.0,), resources=["op_cache"]).to_frame()["x2"].max()
    assert doubled == pytest.approx(1 / 3, abs=0.01)  # nine uops in 1.5 cycles instead of two
    stores = loop(body.replace("mov rcx,r8", "vmovupd [rax+24],xmm8"), 400, lambda _, m: 4096 + 24)
    result = ZEN3.run(stores)
    assert result.cycles == pytest.approx(800, rel=0.02)  # two cycles for each store across 32 bytes, too
    exact, fast = (result.causality(exact=e).to_frame().set_index("pc")["share"] for e in (True, False))
    assert (exact - fast).abs().max() < 0.06


def test_a_group_cannot_be_of_any_size():
    text = (
        Microarchitecture.load("zen3")
        .to_toml()
        .replace("store_boundary = { value = 32", "store_boundary = { value = 16")
    )
    with pytest.raises(FormatError, match="one of 32, 64 expected, found 16"):
        Microarchitecture.from_toml(text)
