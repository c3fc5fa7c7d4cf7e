"""A trace without some instructions: their accesses and sizes are gone with them, and nothing else is."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.trace.without import trace_without
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
