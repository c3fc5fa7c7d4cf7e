"""What the tracer computes of recordings: which arrays are reached beyond, what lies between marks, and page faults."""

import random
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from perfkit.collectors.tracer.bounds import Placed, missed_by, misses
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.recording import Recording
from perfkit.collectors.tracer.timed import CallTimes
from perfkit.errors import DataError

ARRAYS = [Placed(1, 0x10_0000, 800, before=16, behind=16), Placed(2, 0x10_0400, 160, before=32, behind=8)]
FIRST, SECOND = "of argument 1 (an array of 800 bytes)", "of argument 2 (an array of 160 bytes)"
END = 0x10_0000 + 800


@pytest.mark.parametrize(
    ("accesses", "told"),
    [
        ([], []),
        ([(0x10_0000, 8), (END - 8, 8), (0x10_0400, 160)], []),
        ([(END, 8)], [f"8 bytes behind the end {FIRST}"]),
        ([(END - 8, 16)], []),  # one that begins in the array says nothing
        ([(END - 8, 16), (END + 8, 8)], [f"16 bytes behind the end {FIRST}"]),
        ([(END + 8, 8), (END, 8), (END + 2, 2)], [f"16 bytes behind the end {FIRST}"]),  # in any order
        ([(END + 15, 1)], [f"16 bytes behind the end {FIRST}"]),
        ([(END + 16, 8)], []),  # behind the bytes that belong to nothing else
        ([(END + 8, 0)], []),  # of no bytes
        ([(END, 8), (END + 8 + 64, 8)], [f"80 bytes behind the end {FIRST}"]),
        ([(END, 8), (END + 8 + 65, 8)], [f"8 bytes behind the end {FIRST}"]),
        ([(END, 8), (END + 140, 8), (END + 8, 64)], [f"72 bytes behind the end {FIRST}"]),
        ([(0x10_0000 - 8, 8)], [f"8 bytes before the begin {FIRST}"]),
        ([(0x10_0000 - 8, 16)], [f"8 bytes before the begin {FIRST}"]),
        ([(0x10_0000 - 23, 8)], [f"23 bytes before the begin {FIRST}"]),
        ([(0x10_0000 - 24, 8)], []),
        ([(0x10_0000 - (1 << 20), 8)], []),
        ([(0x10_0400 - 8, 8)], [f"8 bytes before the begin {SECOND}"]),  # and not of the other, which is far
        ([(0x10_0400 + 160, 4)], [f"4 bytes behind the end {SECOND}"]),
        ([(END, 4), (0x10_0000 - 4, 4)], [f"4 bytes behind the end {FIRST}", f"4 bytes before the begin {FIRST}"]),
    ],
)
def test_how_far_accesses_go_on_beside_an_array(accesses, told):
    trace = SimpleNamespace(
        addresses=np.array([at for at, _ in accesses], dtype=np.uint64),
        access_sizes=lambda: np.array([size for _, size in accesses], dtype=np.uint32),
    )
    assert misses(trace, ARRAYS) == told


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (END, f"0 bytes behind the end {FIRST}"),
        (END - 1, ""),  # in the array
        (END + 100, f"100 bytes behind the end {FIRST}"),
        (0x10_0400 - 100, f"100 bytes before the begin {SECOND}"),  # the nearer of two edges
        (0x10_0000 - 1, f"1 bytes before the begin {FIRST}"),
        (0x10_0000 - (1 << 20), f"1,048,576 bytes before the begin {FIRST}"),
        (0x10_0000 - (1 << 20) - 1, ""),
        (0x10_0400 + 160 + (1 << 20) - 1, f"1,048,575 bytes behind the end {SECOND}"),
        (0x10_0400 + 160 + (1 << 20), ""),
    ],
)
def test_the_array_that_an_address_is_nearest_to(address, told):
    assert missed_by(address, ARRAYS) == told
    assert missed_by(address, ARRAYS[::-1]) == told


def test_a_large_array_is_missed_by_up_to_ten_times_its_size():
    large = Placed(3, 0x1000_0000, 1 << 20, before=0, behind=8)
    end = large.start + large.size
    assert missed_by(end + (10 << 20) - 1, [large]).startswith("10,485,759 bytes behind the end of argument 3")
    assert missed_by(end + (10 << 20), [large]) == ""


def row(*sizes):
    return [0x1000, "90", "nop", [[True, False, size] for size in sizes]]


BLOCKS = [
    {"function": "f", "instructions": [row(8), row()]},
    {"function": "f", "instructions": [row(0, 4)], "calls": "begin"},
    {"function": "f", "instructions": [row(), row(), row(0)], "calls": "end"},
    {"function": "f", "instructions": [row(1, 2, 0)], "calls": "other"},
]


def recorded(stream):
    """Return a recording, the executed blocks with their addresses and sizes, each address and size another one."""
    at, each = 0, []
    for block in stream:
        operands = [size for one in BLOCKS[block]["instructions"] for _, _, size in one[3]]
        addresses = list(range(at, at + len(operands)))
        each.append((block, addresses, [a + 1 for a, size in zip(addresses, operands, strict=True) if not size]))
        at += len(operands)
    return parts(each), each


def parts(each, **more):
    kinds = np.uint32, np.uint64, np.uint32
    columns = [block for block, _, _ in each], [a for _, x, _ in each for a in x], [s for _, _, x in each for s in x]
    arrays = (np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True))
    return Recording("x86-64", BLOCKS, *arrays, **more)


def same(one, other):
    return [x.tolist() for x in (one.stream, one.addresses, one.sizes)] == [
        x.tolist() for x in (other.stream, other.addresses, other.sizes)
    ]


def test_what_runs_between_two_marks_is_what_a_loop_over_the_blocks_keeps():
    draw, lengths = random.Random(5), [len(block["instructions"]) for block in BLOCKS]
    for _ in range(300):
        stream = [draw.randrange(4) for _ in range(draw.randrange(1, 12))]
        recording, each = recorded(stream)
        inside, kept = False, []
        for one in each:
            if inside:
                kept.append(one)
            called = BLOCKS[one[0]].get("calls", "")
            inside = called == "begin" or (inside and called != "end")
        if kept:
            assert same(recording.between("begin", "end"), parts(kept))
        else:
            never = "never called the marker 'begin'" if 1 not in stream else "nothing ran between"
            with pytest.raises(DataError, match=never):
                recording.between("begin", "end")
        limit = draw.randrange(1, 25)
        ends = np.cumsum([lengths[block] for block in stream])
        cut = recording.within(limit)
        whole = int((ends <= limit).sum())
        assert same(cut, parts(each[:whole]))
        assert cut.stopped == ("" if whole == len(stream) else f"limit of {limit} instructions")


@pytest.mark.parametrize(
    ("begun", "calls", "skip", "count", "faults"),
    [
        ((), 4, 0, 2, 50.0),  # of 100: nothing is known of single calls
        ((), 0, 0, 2, 200.0),
        ((10, 40), 5, 0, 1, 30.0),  # the first call's
        ((10, 40), 5, 0, 3, 60.0),  # and two of four that share the other 60
        ((10, 40), 5, 1, 2, 30.0),
        ((10,), 1, 0, 1, 90.0),  # the only call
        ((10,), 1, 1, 1, 0.0),
        ((10, 5), 5, 0, 1, 0.0),  # never fewer than none
    ],
)
def test_the_page_faults_of_calls(begun, calls, skip, count, faults):
    ticks = np.zeros(min(calls, 1), dtype=np.int64)
    times = CallTimes(ticks, calls, 0, (1.0,), 0.0, False, "", 1.0, faults=100, faults_begun=begun)
    assert times.faults_in(skip, count) == faults


def test_cycles_are_ticks_without_what_timing_takes():
    times = CallTimes(np.array([1005, 3, 10]), 3, 0, (2.0, 3.0), 5.0, False, "", 1.0, ticks_per_second=1e9)
    assert times.cycles.tolist() == [400.0, 0.0, 2.0]
    assert times.cycles_per_second == 4e8


def test_variables_that_a_process_has_once_become_a_files_own(tmp_path):
    source = "inline int once = 7;\nint usual = 8;\nint *of() { return &once; }\n"
    (tmp_path / "v.cc").write_text(source)
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", tmp_path / "v.so", tmp_path / "v.cc"], check=True)
    (tmp_path / "own.so").write_bytes(ElfFile(tmp_path / "v.so").without_unique())
    for name, binding in (("v.so", "UNIQUE"), ("own.so", "GLOBAL")):
        command = ["readelf", "--wide", "--dyn-syms", tmp_path / name]
        rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        found = {line.split()[7]: line.split()[3:6] for line in rows if line.split()[7:8]}
        assert found["once"] == ["OBJECT", binding, "DEFAULT"]
        assert found["usual"] == ["OBJECT", "GLOBAL", "DEFAULT"]
    before, after = ((tmp_path / name).read_bytes() for name in ("v.so", "own.so"))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
