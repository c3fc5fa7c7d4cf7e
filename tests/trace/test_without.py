"""A trace without some instructions: their accesses and sizes are gone with them, and nothing else is."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.trace.code import NO_ACCESS, StaticCode
from perfkit.trace.trace import Trace
from perfkit.trace.without import trace_spread, trace_without
from tests.loose import mutable_dataclasses


@pytest.mark.parametrize("name", ["gather-avx2", "branchy", "masked-update-avx512"])
def test_everything_else_stays_as_it_was(name):
    trace = pk.datasets.load(f"traces/{name}")
    code = trace.code
    removed = np.random.default_rng(0).random(len(code.pc)) < 0.4
    removed[int(code.block_start[1]) : int(code.block_start[2])] = True  # a whole block
    left = trace_without(trace, removed)
    executed = np.concatenate(list(trace.instructions()))
    stays = ~removed[executed]
    assert code.pc[executed][stays].tolist() == left.code.pc[np.concatenate(list(left.instructions()))].tolist()
    operands = np.concatenate(list(trace.operands()))
    owner = np.repeat(np.arange(len(code.pc)), np.diff(code.operand_start))
    kept = ~removed[owner[operands]]
    assert trace.addresses[kept].tolist() == left.addresses.tolist()
    assert trace.access_sizes()[kept].tolist() == left.access_sizes().tolist()
    assert left.instruction_count == int(stays.sum()) < trace.instruction_count
    pk.Gus("zen4").run(left)


def test_nothing_removed_is_the_same_run():
    trace = pk.datasets.load("traces/branchy")
    same = trace_without(trace, np.zeros(len(trace.code.pc), dtype=bool))
    assert pk.Gus("zen4").run(same).cycles == pk.Gus("zen4").run(trace).cycles


def test_what_is_traced_cannot_be_changed():
    assert mutable_dataclasses("perfkit.trace") == []


@pytest.mark.parametrize(
    ("address", "moved"),
    [
        (0x0123, 0x0123),  # page 0 stays
        (0x1123, 0x1163),  # page 1 is turned by a line
        (0x3FC8, 0x3088),  # page 3 by three lines: the last one becomes the third
        (0x4_0100, 0x4_0140),  # page 64 by 64 lines, a whole turn, and by 64 / 64
        (0x4_1100, 0x4_1100),  # page 65: 65 and 1 are 64 lines, a whole turn
        (0x100_5100, 0x100_5200),  # page 0x1005: 5 lines, 0 of page / 64, 1 of page / 4096: 4
        (NO_ACCESS, NO_ACCESS),
    ],
)
def test_lines_are_turned_within_their_page_by_the_bits_of_its_number(address, moved):
    code = StaticCode("x86-64", [1], [b"\x90"], ["nop"], ["f"], [0, 1], [0, 1], [True], [False], [8])
    assert trace_spread(Trace.from_parts(code, [0], [address])).addresses.tolist() == [moved]
