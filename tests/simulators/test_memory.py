"""The pass over memory and branches against one written down plainly: every access searches every way."""

from dataclasses import replace

import numpy as np
import pytest

from perfkit import datasets
from perfkit.machine.core import CacheLevel, Microarchitecture
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.passes import windows
from perfkit.simulators.memory.memory import BLOCKED, LEVEL, PREFETCH_SHIFT, SECOND_SHIFT, SPLIT
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

SKYLAKE = Microarchitecture.load("skylake_x")


class Level:
    """A set-associative level that searches its ways."""

    def __init__(self, level: CacheLevel) -> None:
        self.level, self.code = level, int(level.name[1]) - 1
        self.lines = [[None] * level.ways for _ in range(level.sets)]
        self.order = [[] for _ in range(level.sets)]  # LRU: ways, the oldest first
        self.bits = [{} for _ in range(level.sets)]  # PLRU: node of the tree -> whether the upper half is older

    def touch(self, line: int) -> bool:
        s = line % self.level.sets
        hit = line in self.lines[s]
        way = self.lines[s].index(line) if hit else self.victim(s)
        self.lines[s][way] = line
        if self.level.policy == "lru":
            self.order[s] = [w for w in self.order[s] if w != way] + [way]
            return hit
        low, high, node = 0, self.level.ways, 1
        while high - low > 1:
            middle = (low + high + 1) // 2
            self.bits[s][node] = way < middle
            low, high, node = (low, middle, 2 * node) if way < middle else (middle, high, 2 * node + 1)
        return hit

    def victim(self, s: int) -> int:
        if self.level.policy == "lru":
            return next((w for w in range(self.level.ways) if w not in self.order[s]), (self.order[s] or [0])[0])
        low, high, node = 0, self.level.ways, 1
        while high - low > 1:
            middle = (low + high + 1) // 2
            up = self.bits[s].get(node, False)
            low, high, node = (middle, high, 2 * node + 1) if up else (low, middle, 2 * node)
        return low


def plainly(levels: tuple[CacheLevel, ...], prefetch: bool, accesses: list[tuple[int, int]]) -> list[int]:
    """The code of each access (address, size), without the bit of blocked loads."""
    caches = [Level(level) for level in levels]

    def one(line: int) -> tuple[int, int]:
        served = next((c.code for c in caches if c.touch(line)), 3)
        if served == 0 or not prefetch or len(caches) < 2:
            return served, 0
        fetched = next((c.code for c in caches[1:] if c.touch(line + 1)), 3)
        return served, fetched if fetched > 1 else 0

    found = []
    for address, size in accesses:
        first, last = address // 64, (address + size - 1) // 64
        level, fetched = one(first)
        code = level
        if last != first:
            second, more = one(last)
            code |= SPLIT | second << SECOND_SHIFT
            fetched = max(fetched, more)
        found.append(code | fetched << PREFETCH_SHIFT)
    return found


def accesses(addresses, sizes, writes=None) -> Trace:
    """A trace of one instruction per access: a load, or a store where ``writes`` says so; all sizes dynamic."""
    writes = np.zeros(len(addresses), dtype=bool) if writes is None else writes
    code = StaticCode(
        "x86-64",
        pc=[0x1000, 0x1003],
        encoding=[bytes.fromhex("488b07"), bytes.fromhex("488907")],
        text=["mov rax,[rdi]", "mov [rdi],rax"],
        function=["f", "f"],
        block_start=[0, 1, 2],
        operand_start=[0, 1, 2],
        read=[True, False],
        write=[False, True],
        size=[0, 0],
    )
    return Trace.from_parts(code, stream=np.asarray(writes, dtype=int), addresses=addresses, sizes=sizes)


def codes(core: Microarchitecture, trace: Trace) -> np.ndarray:
    gus = Gus(core)
    memory = gus.memory(trace, gus.program(trace))
    return np.concatenate([w.code for w in windows(trace, memory)])


def small(policy: str, ways: tuple[int, ...] = (2, 3, 4), sets: tuple[int, ...] = (4, 8, 24)) -> Microarchitecture:
    """A core with caches so small that random accesses miss in all of them."""
    names = ("L1", "L2", "L3")
    levels = tuple(
        replace(level, name=n, size=64 * w * s, ways=w, policy=policy)
        for level, n, w, s in zip(SKYLAKE.caches, names, ways, sets, strict=False)
    )
    return replace(SKYLAKE, caches=levels)


@pytest.mark.parametrize("policy", ["plru", "lru"])
@pytest.mark.parametrize("ways", [(2, 3, 4), (1, 8, 11), (8,), (4, 4)])
@pytest.mark.parametrize("spread", [64 * 60, 64 * 400])
def test_levels_are_those_of_caches_that_search(policy, ways, spread):
    rng = np.random.default_rng(len(ways) + spread)
    core = small(policy, ways)
    addresses = 4096 * 7 + rng.integers(0, spread, 4000)
    sizes = rng.choice([1, 8, 32, 64, 200], 4000)
    found = codes(core, accesses(addresses, sizes)) & (BLOCKED - 1)
    assert found.tolist() == plainly(core.caches, True, list(zip(addresses.tolist(), sizes.tolist(), strict=True)))
    assert {0, 3} <= set((found & LEVEL).tolist())
    if spread > 64 * 60:
        assert len(set((found & LEVEL).tolist())) == len(ways) + 1  # every level served something


def test_a_walk_over_many_pages_grows_the_tables():
    """More pages than there is room for at first, twice over: the second walk finds what the first left in L3."""
    addresses = np.tile(np.arange(5000) * 4096 + 8, 2)
    sizes = np.full(10_000, 8)
    found = codes(SKYLAKE, accesses(addresses, sizes))
    assert found.tolist() == plainly(SKYLAKE.caches, True, list(zip(addresses.tolist(), sizes.tolist(), strict=True)))


def test_bytes_of_two_recent_stores_block_a_load():
    """A 16-byte load over two fresh 8-byte stores is blocked; one over the bytes of one is not, nor one much later."""
    one, two, far = 4096, 4104, 1 << 20
    between = [far + 64 * k for k in range(260)]
    addresses = [one, two, one, one, *between, one]
    sizes = [8, 8, 16, 8, *[8] * 260, 16]
    writes = np.array([1, 1, 0, 0, *[1] * 260, 0], dtype=bool)
    blocked = (codes(SKYLAKE, accesses(addresses, sizes, writes)) & BLOCKED) != 0
    assert np.flatnonzero(blocked).tolist() == [2]
    assert (codes(SKYLAKE, accesses([one, one], [16, 16], np.array([True, False]))) & BLOCKED == 0).all()


def jumps(stream, decoded):
    """A program of blocks of one instruction each, (bytes at pc), executed in this order."""
    code = StaticCode(
        "x86-64",
        pc=[pc for pc, _ in decoded],
        encoding=[bytes.fromhex(data) for _, data in decoded],
        text=[""] * len(decoded),
        function=["f"] * len(decoded),
        block_start=list(range(len(decoded) + 1)),
        operand_start=[0] * (len(decoded) + 1),
        read=[],
        write=[],
        size=[],
    )
    return Trace.from_parts(code, stream=stream)


def control(stream, decoded, core="zen4", warm="none"):
    """What led into each executed block of such a program."""
    trace = jumps(stream, decoded)
    gus = Gus(Microarchitecture.load(core), warm=warm)
    memory = gus.memory(trace, gus.program(trace))
    found = np.concatenate([w.control for w in windows(trace, memory)])
    return (found & 1).astype(bool), memory.branches


def test_a_target_that_never_changes_is_predicted_and_a_random_one_is_not():
    """JMP RAX to two blocks that jump back: one target is learnt at once, a pattern soon, a coin's throws never."""
    blocks = [(0x1000, "ffe0"), (0x1002, "ebfc"), (0x1004, "ebfa")]  # jmp rax; jmp 0x1000; jmp 0x1000
    rng = np.random.default_rng(3)
    rounds = 4000

    def missed(targets):
        stream = np.stack([np.zeros(rounds, dtype=int), targets], axis=1).ravel()
        return control(stream, blocks)[0].sum() / rounds

    assert missed(np.ones(rounds, dtype=int)) < 0.001
    assert missed(1 + np.arange(rounds) % 2) < 0.02
    assert 0.4 < missed(rng.integers(1, 3, rounds)) < 0.6


@pytest.mark.parametrize("core", ["zen4", "golden_cove"])
def test_the_branch_has_the_time_of_its_mispredictions_and_not_what_comes_behind_it(core):
    """JMP RAX to one of two blocks by a coin's throws: the front end begins anew, in groups of uops or not."""
    blocks = [(0x1000, "ffe0"), (0x1040, "ebbe"), (0x1080, "e97bffffff")]  # each jumps back
    throws = 1 + np.random.default_rng(4).integers(0, 2, 4000)
    stream = np.stack([np.zeros(4000, dtype=int), throws], axis=1).ravel()
    result = Gus(core, warm="none").run(jumps(stream, blocks))
    assert result.causality().held[0] > 0.9
    stack = result.cpi_stack()  # half of the rounds are predicted: two taken branches, which are the front end's
    assert stack["misprediction_penalty"] > 0.8 * stack.sum()


def repeated(sites, targets, length, core, rounds):
    """The share of jumps from so many places, in an order that repeats, that is mispredicted once it is learnt."""
    blocks = [(0x1000 + 64 * k, "ffe0") for k in range(sites)]
    blocks += [(0x9000 + 64 * k, "eb00") for k in range(targets)]  # each jumps back, here as if to anywhere
    drawn = sites + np.random.default_rng(length + sites).integers(0, targets, length)
    stream = np.stack([np.arange(length) % sites, drawn], axis=1).ravel()
    missed, _ = control(np.tile(stream, rounds), blocks, core)
    return missed[-2 * length :].sum() / length


@pytest.mark.parametrize(
    ("sites", "length", "least", "most"),
    [
        (1, 48, 0.0, 0.02), (1, 192, 0.4, 0.7), (1, 3000, 0.6, 0.7),
        (4, 128, 0.0, 0.05), (4, 1024, 0.5, 0.7),
        (16, 512, 0.0, 0.1), (16, 4096, 0.5, 0.7),
    ],
)  # fmt: skip
def test_a_random_order_that_repeats_is_learnt_as_far_as_the_target_predictor_remembers(sites, length, least, most):
    """Three targets, as timed on a Zen 4: 64 jumps from one place are predicted, and 3,000 no better than thrown dice.

    [python -m tests.benchmarks.targets]
    """
    assert least <= repeated(sites, 3, length, "zen4", 40) <= most


def test_a_core_whose_file_says_nothing_of_it_remembers_some_thousand_targets():
    assert repeated(1, 3, 512, "skylake_x", 40) < 0.02
    assert repeated(1, 3, 16_000, "skylake_x", 4) > 0.5


def test_returns_are_predicted_as_deep_as_the_return_stack():
    """Calls nested to a depth, then as many returns; each call has another place to return to."""
    deep = 40
    call, ret = "e800000000", "c3"
    blocks = []
    for k in range(deep):
        blocks += [(0x1000 + 16 * k, call), (0x1005 + 16 * k, ret)]

    def missed(depth):
        down = [2 * k for k in range(depth)]
        back = [2 * k + 1 for k in reversed(range(depth))]
        return int(control([*down, *back], blocks)[0].sum())

    size = int(Microarchitecture.load("zen4").feature("return_stack"))
    assert missed(size - 1) == 0
    assert missed(size + 4) > 0


@pytest.mark.parametrize("sites", [[0] * 90, [0, 1] * 45, [0, 1, 2] * 30, [1, *[0] * 89], [*[0] * 60, 1, *[0] * 30]])
def test_an_empty_return_stack_gives_its_oldest_entry_again_where_the_core_file_says_so(sites):
    """Nested calls from a few places, as they were timed on a Zen 5; every miss took 30 cycles there."""
    call, ret = "e800000000", "c3"
    blocks = [(0x1000 + 16 * k + 5 * part, (call, ret)[part]) for k in range(3) for part in range(2)]
    stream = [*(2 * k for k in [*sites, 0]), 1, *(2 * k + 1 for k in reversed(sites))]  # the last calls what follows it
    below = len(sites) - int(Microarchitecture.load("zen5").feature("return_stack"))
    expected = sum(each != sites[below] for each in sites[:below])
    missed, (branches, _) = control(stream, blocks, core="zen5")
    assert branches == len(sites)
    assert missed.sum() == expected


def test_calls_after_an_empty_return_stack_are_returned_from_rightly():
    call, ret = "e800000000", "c3"
    blocks = [(0x1000 + 16 * k + 5 * part, (call, ret)[part]) for k in range(3) for part in range(2)]
    deep = [0] * 60
    first = [*(2 * k for k in [*deep, 0]), 1, *(1 for _ in deep[20:])]
    again = [2, 2, 4, 5, 3, 3, *(1 for _ in deep[:20])]
    assert control([*first, *again], blocks, core="zen5")[0].sum() == 20  # the last entry that was taken is now another


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("line", [32, 64])
def test_a_stream_takes_its_lines_from_memory_at_its_bandwidth(levels, line):
    """2,000 new lines at a byte per cycle: so many cycles as they have bytes."""
    caches = tuple(
        replace(level, size=line * 8 * 4 ** (k + 1), ways=8, line=line)
        for k, level in enumerate(SKYLAKE.caches[:levels])
    )
    core = replace(SKYLAKE, caches=caches).replaced("memory_bandwidth", 1.0, "by hand")
    lines = 2000
    found = Gus(core).run(accesses(0x10_0000 + line * np.arange(lines), np.full(lines, 8))).cycles
    assert line * lines <= found <= line * lines + 2000


def test_what_perfect_parts_make_of_a_stream_and_of_branches():
    at = np.arange(500)
    trace = accesses(0x10_0000 + 4096 * at + 64 * (at % 64), np.full(500, 8))  # lines of which none is fetched ahead
    one = Gus(
        SKYLAKE.replaced("line_fill_buffers", 1.0, "by hand")
    )  # one line at a time: 225 cycles each, less what overlaps
    found = one.perfect(trace)
    assert list(found) == ["branch prediction", "caches", "window"]
    assert 220 * 500 <= one.run(trace).cycles <= 226 * 500
    assert found["branch prediction"] == one.run(trace).cycles
    assert 250 <= found["caches"] <= 260  # two loads per cycle
    assert 6400 <= found["window"] <= 26 * 500  # 64 bytes of each at 5 per cycle, and page walks
    branchy = datasets.load("traces/branchy")
    gus = Gus(SKYLAKE)
    perfect = gus.perfect(branchy)
    assert [perfect["branch prediction"]] == gus.cycles(branchy, [SKYLAKE], mispredicted=False)
    assert perfect["branch prediction"] < perfect["caches"] / 2 < gus.run(branchy).cycles / 2
