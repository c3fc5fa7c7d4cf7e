"""LRU levels against an explicit stack."""

import numba
import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.simulators.dag import reuse
from perfkit.simulators.dag.reuse import by_use, grown, line_shift, new_stack, settle_log


@numba.njit
def index_of(line, stack):
    return reuse.index_of(line, stack)


@numba.njit
def touch(index, stack):
    return reuse.touch(index, stack)


@numba.njit
def use(index, stack):
    reuse.use_line(index, stack)


@numba.njit
def touch_all(lines, start, levels, stack):
    for i in range(start, lines.shape[0]):
        index = reuse.index_of(lines[i], stack)
        if index < 0:
            return i
        levels[i] = reuse.touch(index, stack)
    return lines.shape[0]


def reuse_levels(addresses, capacities, line=64, warm=False):
    """The level (0: L1, 1: L2, 2: L3, 3: memory) that each access hits; capacities in bytes."""
    lines = np.asarray(addresses, dtype=np.int64) >> line_shift(line)
    stack = new_stack(tuple(float(np.floor(size / line)) for size in capacities))
    levels = np.zeros(len(lines), dtype=np.uint8)
    for _ in range(2 if warm else 1):
        done = 0
        while (done := touch_all(lines, done, levels, stack)) < len(lines):
            stack = grown(stack)
    return levels


def explicit(lines, capacities, warm):
    stack, levels = [], []
    for _ in range(2 if warm else 1):
        levels = []
        for line in lines:
            level = 3
            if line in stack:
                distance = stack.index(line) + 1
                stack.remove(line)
                level = next((k for k, c in enumerate(capacities) if c >= distance), 3)
            stack.insert(0, line)
            levels.append(level)
    return levels


@pytest.mark.parametrize("seed", range(4))
def test_levels_equal_an_explicit_stack(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        capacities = [float(c) for c in rng.choice([0, 1, 2, 3, 5, 8, 13, np.inf], 3)]
        lines = rng.integers(0, rng.integers(1, 20), rng.integers(1, 60)) * rng.choice([1, 64, 1000])
        warm = bool(rng.integers(2))
        sizes = tuple(64 * c for c in capacities)
        assert reuse_levels(lines * 64, sizes, 64, warm).tolist() == explicit(lines.tolist(), capacities, warm)


def test_immediate_reuse_has_distance_one_and_a_first_touch_is_memory():
    assert reuse_levels([0, 0], (64, 0, 0)).tolist() == [3, 0]
    assert reuse_levels([0, 64, 0], (64, 128, 0)).tolist() == [3, 3, 1]


def test_a_sweep_over_more_lines_than_the_cache_has_never_hits_it():
    addresses = np.tile(np.arange(0, 64 * 1000, 8), 3)
    levels = reuse_levels(addresses, (64 * 999, 64 * 1000, 0))
    first = levels.reshape(3, -1, 8)[:, :, 0]
    assert (first[0] == 3).all()
    assert (first[1:] == 1).all()
    assert (levels.reshape(-1, 8)[:, 1:] == 0).all()


@pytest.mark.parametrize("line", [0, 48, float("inf")])
def test_a_line_is_a_power_of_two(line):
    with pytest.raises(SettingError, match="line"):
        reuse_levels([0], (64, 64, 64), line)


def test_a_settled_stack_is_the_one_that_its_accesses_leave():
    rng = np.random.default_rng(3)
    for _ in range(50):
        capacities = tuple(float(c) for c in rng.choice([0, 1, 2, 5, 8, np.inf], 3))
        before, after = (rng.integers(0, 12, 40).tolist() for _ in "ab")
        stack = new_stack(capacities)
        for line in before:
            use(index_of(line, stack), stack)
        settle_log(stack)
        latest = sorted(set(before), key=before[::-1].index)
        assert by_use(stack).tolist() == [index_of(line, stack) for line in latest]
        levels = [touch(index_of(line, stack), stack) for line in after]
        assert levels == explicit(before + after, capacities, False)[40:]


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_is_full_changes_no_level(seed, monkeypatch):
    """Forty lines in a log of a hundred places are written anew every sixty uses, wherever the marks are then."""
    monkeypatch.setattr(reuse, "_log_length", lambda room: 100 + reuse.AHEAD)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        capacities = [float(c) for c in rng.choice([0, 1, 2, 3, 8, 30, 40, np.inf], 3)]
        lines = rng.integers(0, 40, 2000)
        levels = reuse_levels(lines * 64, tuple(64 * c for c in capacities))
        assert levels.tolist() == explicit(lines.tolist(), capacities, False)


@pytest.mark.parametrize("warm", [False, True])
def test_many_lines_that_come_while_nodes_are_scheduled(warm):
    """Places with levels were left behind the end of what was located: memory far beyond the list was read."""
    n, lines = 400_000, 120_000
    at = np.random.default_rng(5).integers(0, lines, n)
    dag = pk.Dag.from_nodes("L" * n, [[]] * n, address=4096 + 64 * at)
    core = pk.DagCore.sandy_bridge_erm().replace(size_L1=0, size_L2=0, size_L3=np.inf)
    found = pk.DagScheduler(core, warm=warm, record=False).run(dag)
    assert found.n_nodes("mem") == (0 if warm else len(np.unique(at)))


def test_nothing_is_left_behind_the_end_of_what_was_located():
    stack = new_stack((512, 4096, np.inf))
    records = np.arange(0, 4000, dtype=np.int64) << 14  # a page each: 15 have room
    records[0] = 0
    where = np.full(4000 + reuse.AHEAD, 7 << 40, dtype=np.int64)
    end = reuse.locate(records, 0, 4000, np.full(1, 3999), 6, stack, where)
    assert end == 0
    assert not where[: reuse.AHEAD].any()
