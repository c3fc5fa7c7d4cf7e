"""A trace without some instructions: their accesses and sizes are gone with them, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

import perfkit as pk
from perfkit.trace.without import trace_without, trace_without_pads


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


PAD = bytes.fromhex("f30f1efa")


def test_landing_pads_are_nops_and_nothing_else_changes():
    """Each costs the slot that it takes; LLVM's 100 operations of a landing pad are told by the trace as it is."""
    trace = pk.datasets.load("traces/branchy")
    assert trace_without_pads(trace) is trace
    code = trace.code
    four = [k for k, each in enumerate(code.encoding) if len(each) == 4 and code.text[k].startswith(("add", "lea"))]
    there = replace(code, encoding=tuple(PAD if k in four else each for k, each in enumerate(code.encoding)))
    left = trace_without_pads(replace(trace, code=there))
    assert four
    assert PAD not in left.code.encoding
    assert all(code.encoding[k] == left.code.encoding[k] for k in range(len(code.encoding)) if k not in four)
    assert [len(each) for each in left.code.encoding] == [len(each) for each in code.encoding]
    assert left.code.text == code.text
    table = pk.Gus("zen5").run(left).to_frame()
    assert table["slots"].iloc[four].eq(1).all()
