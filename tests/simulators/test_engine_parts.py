"""Small parts of the compiled engines as Python runs them, against models of their documentation in sets and lists."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfkit.simulators.dag import engine, reuse
from perfkit.simulators.gus import threads
from perfkit.simulators.gus.timing import TICKS
from perfkit.simulators.memory import memory


@pytest.fixture(autouse=True)
def _as_python(monkeypatch):
    """Hints to the compiler and the processor, which only numba knows, do nothing."""
    monkeypatch.setattr(engine, "rarely", bool)
    monkeypatch.setattr(reuse, "victim", reuse.victim.py_func)


class Streams:
    """The streams of a prefetcher as their documentation tells them: line used last, direction; the latest first."""

    def __init__(self, count):
        self.kept = [(-(10**9), 0)] * count

    def fetched_ahead(self, line):
        for k, (last, way) in enumerate(self.kept):
            apart = line - last
            if abs(apart) <= 2 and (apart == 0 or way == 0 or (apart > 0) == (way > 0)):
                self.kept.insert(0, (line, np.sign(apart) or way))
                del self.kept[k + 1]
                return bool(way and apart)
        self.kept = [(line, 0), *self.kept[:-1]]
        return False


def told(lines, count):
    streams = np.array([*[-(10**9), 0] * count, 0], dtype=np.int64)
    return [bool(engine._prefetched.py_func(np.int64(line), streams)) for line in lines]


@pytest.mark.parametrize(
    ("lines", "ahead"),
    [
        ((10, 11, 12, 13), (0, 0, 1, 1)),  # the third line of a stream, and those after it
        ((13, 12, 11, 10), (0, 0, 1, 1)),
        ((10, 12, 14), (0, 0, 1)),
        ((10, 13, 16), (0, 0, 0)),
        ((10, 11, 10, 9), (0, 0, 0, 0)),  # which turns, is another stream, and then a third: 10 again, 9 beside it
        ((10, 10, 10), (0, 0, 0)),
        ((10, 50, 11, 51, 12, 52), (0, 0, 0, 0, 1, 1)),
        ((10, 50, 90, 11, 51, 91, 12), (0, 0, 0, 0, 0, 0, 0)),  # of three streams in turn, two places keep none
    ],
)
def test_lines_are_fetched_ahead_from_the_third_of_a_stream_on(lines, ahead):
    assert told(lines, 2) == [bool(x) for x in ahead]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [1, 3, 16])
def test_streams_are_those_of_a_list(seed, count):
    rng = np.random.default_rng([seed, count])
    walks = rng.integers(0, 200, 4)
    lines = []
    for step in rng.integers(-3, 4, 200).tolist():
        k = rng.integers(len(walks))
        walks[k] += step
        lines.append(int(walks[k]))
    model = Streams(count)
    assert told(lines, count) == [model.fetched_ahead(line) for line in lines]


@pytest.mark.parametrize("seed", range(4))
def test_stores_join_those_of_the_lines_opened_last(seed):
    rng = np.random.default_rng(seed)
    joined = np.array([-1] * 4 + [0], dtype=np.int64)
    opened = []
    for line in rng.integers(0, 7, 200).tolist():
        assert bool(engine._joins.py_func(np.int64(line), joined)) == (line in opened)
        if line not in opened:
            opened = [*opened[-3:], line]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ways", [2, 4, 8])
def test_a_set_keeps_the_line_used_last_and_loses_one_at_most(seed, ways):
    rng = np.random.default_rng([seed, ways])
    sets, trees = np.full(2 * ways, -1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    held = {}
    for _ in range(300):
        line, write = int(rng.integers(0, 2 * ways)), int(rng.integers(0, 2))
        before = {int(s) >> 1 for s in sets[ways:] if s >= 0}
        comes, left = reuse.touch_set.py_func(np.int64(line), write, sets, trees, 1, ways)
        now = {int(s) >> 1 for s in sets[ways:] if s >= 0}
        gone = before - now
        assert (bool(comes), now | gone, line in now) == (line not in before, before | {line}, True)
        assert len(gone) <= comes
        assert {int(left)} - {-1} == {one for one in gone if held[one]}, "a written line that leaves is told of"
        held[line] = bool(write) or (held.get(line, False) and line in before)
    assert (sets[:ways] == -1).all(), "another set is left alone"


@pytest.mark.parametrize("seed", range(4))
def test_a_line_of_another_thread_arrives_late_and_nothing_arrives_later_than_is_known(seed):
    """The latest arrival is what the recurrence asks first: where it fell, a line on its way would be there at once."""
    rng = np.random.default_rng(seed)
    accesses, lines_of_all, cycles, ring = 12, 6, 50.0, 8
    positions = np.sort(rng.choice(3 * accesses, 10, replace=False)) + 100
    moved = threads._Transfers(positions, cycles, 2)
    arrival, clock, latest = np.zeros(lines_of_all, dtype=np.int64), 0, 0
    now = SimpleNamespace(now=np.zeros(10, dtype=np.int64), counts=np.zeros(14, dtype=np.int64), data=None)
    lines = SimpleNamespace(
        arrival=arrival, origin=np.zeros(lines_of_all, dtype=np.int8), asked=arrival.copy(), shift=1
    )
    for first in (100, 100 + accesses, 100 + 2 * accesses):
        code = rng.integers(0, 4, accesses).astype(np.uint32)
        forwarded = rng.random(accesses) < 0.5
        code |= np.uint32(memory.FORWARDED) * forwarded.astype(np.uint32)
        code |= rng.integers(0, 3, accesses).astype(np.uint32) << np.uint32(memory.DISTANCE_SHIFT)
        granule = rng.integers(-1, 2 * lines_of_all, accesses)
        now.counts[3], now.data = int(rng.integers(5, 99)), rng.integers(0, 99, ring) * TICKS
        now.now[0] = clock = clock + int(rng.integers(-60, 90)) * TICKS  # also back: what is on its way stays
        now.now[8] = -1
        served = np.array([9, 9, 9, 9, 0], dtype=np.int64)
        window, told = SimpleNamespace(code=code.copy(), granule=granule), SimpleNamespace(served=served.copy())
        expected, charged = arrival.copy(), 0
        for at in range(accesses):
            if first + at not in positions or granule[at] < 0 or code[at] & 3 >= 2:
                continue
            charged += 1
            gone = clock
            if forwarded[at]:  # behind the store that it takes its value from
                gone = max(gone, int(now.data[(now.counts[3] - 1 - (int(code[at]) >> memory.DISTANCE_SHIFT)) % ring]))
            one = granule[at] >> 1
            expected[one] = max(expected[one], gone + int(cycles) * TICKS)
            latest = max(latest, gone + int(cycles) * TICKS)
        moved.charge(window, first, told, now, lines)
        assert arrival.tolist() == expected.tolist()
        assert now.now[7] == latest
        assert told.served.sum() == served.sum(), "an access changes its level, and none is lost"
        assert told.served[2] == served[2] + charged
