"""Two dumps side by side: time is seconds where they have them, and cycles are called cycles."""

import pytest

import perfkit as pk
from tests.exploration.test_facts import perf


def side(folder, name, *, cycles, milliseconds, seconds, event="branch-misses"):
    lines = [
        f"{milliseconds:,.2f} msec task-clock", f"{cycles:,}      cycles", "5,000,000,000      instructions",
        f"9,000,000      {event}",
    ]  # fmt: skip
    return perf(folder, lines, seconds).rename(folder / name)


def test_the_same_cycles_at_another_clock_take_longer(tmp_path):
    """Two and five seconds were "+0.0 % time per work"."""
    fast = side(tmp_path, "fast.txt", cycles=8_000_000_000, milliseconds=2000, seconds=2.0)
    slow = side(tmp_path, "slow.txt", cycles=8_000_000_000, milliseconds=5000, seconds=5.0)
    found = pk.diff_counts(fast, slow)
    assert found.seconds_per_work == pytest.approx((0.4e-9, 1e-9))
    first, second, *_ = found.summary().splitlines()
    assert first == "seconds per instruction: fast.txt 0.4 ns, slow.txt 1 ns: +150.0% time per work"
    assert second == "CPI: fast.txt 1.6, slow.txt 1.6: +0.0% cycles per instruction"
    assert "the clock differs: 4 GHz in A, 1.6 GHz in B" in found.notes
    assert not any("clock" in note for note in pk.diff_counts(fast, fast).notes)


def test_processors_that_differ_are_told(tmp_path):
    one = side(
        tmp_path, "a.txt", cycles=6_000_000_000, milliseconds=2000, seconds=2.0, event="mem_load_retired.l3_miss"
    )
    other = side(tmp_path, "b.txt", cycles=6_000_000_000, milliseconds=2000, seconds=2.0, event="ex_ret_brn_misp")
    assert any("their cycles are not of one length" in note for note in pk.diff_counts(one, other).notes)
    assert not any("not of one length" in note for note in pk.diff_counts(one, one).notes)
