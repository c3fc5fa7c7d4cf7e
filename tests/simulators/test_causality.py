"""Causality: chains carry it, shares add up, and the fast version is the paper's tainting within a stated bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfkit.errors import SettingError
from perfkit.microarchitecture import Microarchitecture
from perfkit.simulators.causality import causality
from perfkit.simulators.causality_exact import run_exact
from perfkit.simulators.gus import Gus
from tests.simulators.handmade import loop
from tests.simulators.test_gus import random_trace

SKYLAKE = Gus(Microarchitecture.load("skylake_x"), warm=True)
BOUND = 0.05  # of the executed instructions that the fast version may judge otherwise than the exact one


@pytest.mark.parametrize("exact", [True, False])
def test_figure_1_both_fmas_carry_the_causality_and_the_load_none(exact):
    found = causality(SKYLAKE, loop(["load ymm2", "fma 3", "fma 2"], 1500), exact=exact)
    load, first, second = found.shares
    assert load < 0.001
    assert first == pytest.approx(0.5, abs=0.01)
    assert second == pytest.approx(0.5, abs=0.01)
    assert found.tainted[1] > 0.99


def test_a_port_bound_loop_blames_what_uses_the_port():
    # Eight additions fill p01 for four cycles; the load on its own ports fits beside them.
    found = causality(SKYLAKE, loop(["free addps"] * 8 + ["load rbx"], 1000))
    assert found.shares[:8].sum() > 0.99


def test_a_chain_through_memory_blames_load_addition_and_store():
    found = causality(SKYLAKE, loop(["load", "add", "store", "add rbx"], 1500))
    assert found.tainted[:3].min() > 0.9
    assert found.tainted[3] < 0.1


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), core=st.sampled_from(["skylake_x", "zen4"]))
def test_the_fast_version_finds_what_taints_find_at_the_same_moments(seed, core):
    trace = random_trace(seed, 9, 150)
    gus = Gus(Microarchitecture.load(core))
    fast = causality(gus, trace, window=250)
    assert fast.counts.tolist() == run_exact(gus, trace, window=250, in_turns=True).counts.tolist()


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), core=st.sampled_from(["skylake_x", "zen4"]))
def test_the_fast_version_is_the_papers_within_the_bound(seed, core):
    trace = random_trace(seed, 9, 250)
    gus = Gus(Microarchitecture.load(core))
    fast, exact = causality(gus, trace), causality(gus, trace, exact=True)
    otherwise = int(np.abs(fast.counts - exact.counts).sum())
    assert otherwise <= BOUND * trace.instruction_count
    assert fast.shares.sum() == pytest.approx(1)
    assert exact.shares.sum() == pytest.approx(1)


def test_runs_shorter_than_the_window_are_judged_by_the_last_retirement():
    fast, exact = (causality(SKYLAKE, loop(["fma ymm0"], 50), exact=exact) for exact in (False, True))
    assert fast.counts.tolist() == exact.counts.tolist() == [50]


def test_the_table_names_instructions_by_share():
    found = Gus(SKYLAKE.core, warm=True).run(loop(["load ymm2", "fma 3", "fma 2"], 600)).causality()
    frame = found.to_frame()
    assert frame["share"].is_monotonic_decreasing
    assert frame["text"].iloc[0].startswith("vfmadd231ps")
    assert sum(row["share"] for row in found.to_dict()["shares"]) == pytest.approx(1)


def test_bad_window():
    with pytest.raises(SettingError, match="above 0"):
        causality(SKYLAKE, loop(["add"], 10), window=0)
