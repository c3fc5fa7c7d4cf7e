"""Which lines threads share, and how, against sets of bytes; and where the phases begin."""

import json
import random
from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import pytest

from perfkit.errors import SettingError
from perfkit.trace.code import Provenance, StaticCode
from perfkit.trace.sharing import shared_lines
from perfkit.trace.threads import ThreadTraces
from perfkit.trace.trace import Trace

SIZES = [1, 8, 64, 4, 0]  # 0: told by each run
WRITE, READ = [True, False, False, True, True], [False, True, True, True, False]
# A block each: a byte written and eight read, a wide read, four read and written, a string of any length written.
OPERANDS = [(0, 1), (2,), (3,), (4,)]
LINES = [7, 8, 0, 9, 9]  # of the source, of each instruction; 0: unknown
NAMES = ["a.c:7", "a.c:8", "f at 0x1002", "a.c:9", "a.c:9"]


def code():
    return StaticCode(
        isa="x86-64",
        pc=[0x1000, 0x1001, 0x1002, 0x1003, 0x1004],
        encoding=[b"\x90"] * 5,
        text=["nop"] * 5,
        function=["f"] * 5,
        file=["src/a.c"] * 5,
        line=LINES,
        block_start=[0, 2, 3, 4, 5],
        operand_start=[0, 1, 2, 3, 4, 5],
        read=READ,
        write=WRITE,
        size=SIZES,
    )


VARIABLES = [(0x7FF0, 0x20, "across"), (0x8010, 4, "small"), (0x8040, 64, "line")]


def threads(draw, count, *, barriers=()):
    traces, calls = [], []
    for _ in range(count):
        stream = [draw.randrange(4) for _ in range(draw.randrange(1, 30))]
        touched = [operand for block in stream for operand in OPERANDS[block]]
        addresses = [draw.choice([0x7FF0, 0x8000, 0x8040, 1 << 47]) + draw.randrange(0x20) for _ in touched]
        sizes = [draw.choice([0, 1, 2, 70]) for block in stream if block == 3]
        extra = {"variables": json.dumps(VARIABLES), "barriers": json.dumps(barriers)}
        origin = Provenance(function="f", extra=extra)
        traces.append(Trace.from_parts(code(), stream, addresses, sizes=sizes, provenance=origin))
        calls.append(np.array([[0, 0], [len(stream) // 2, draw.randrange(2)]]))
    return ThreadTraces(tuple(traces), tuple(calls))


def touches(traces, line, barriers):
    """Give every line that each access touches: thread, phase, line, operand and its bytes there."""
    for thread, trace in traces.items():
        at, addresses, sizes, passed = 0, trace.addresses.tolist(), trace.access_sizes().tolist(), 0
        for place, block in enumerate(trace.stream.tolist()):
            call = traces.calls[thread][int(place >= traces.calls[thread][1, 0]), 1]
            for operand in OPERANDS[block]:
                if addresses[at] < 1 << 47:
                    found = defaultdict(set)
                    for byte in range(addresses[at], addresses[at] + sizes[at]):
                        found[byte // line].add(byte)
                    for number, touched in found.items():
                        yield thread, (int(call), passed), number, operand, touched
                at += 1
            passed += block in barriers


def expected(traces, line, barriers):
    """Return the rows of the table by the definition: bytes that one writes and another one touches, in one phase."""
    by_place = defaultdict(list)
    for thread, phase, number, operand, touched in touches(traces, line, barriers):
        by_place[phase, number].append((thread, operand, touched))
    rows = {}
    for (_, number), found in by_place.items():
        any_of, written = defaultdict(set), defaultdict(set)
        for thread, operand, touched in found:
            any_of[thread] |= touched
            written[thread] |= touched if WRITE[operand] else set()
        pairs = [(a, b) for a, b in permutations(any_of, 2) if written[a]]
        if not pairs:
            continue
        row = rows.setdefault(number, {"ways": set(), "threads": set(), "writers": set(), "reads": 0, "writes": 0})
        row["ways"] |= {"true" if written[a] & any_of[b] else "false" for a, b in pairs}
        row["threads"] |= set(any_of)
        row["writers"] |= {a for a in written if written[a]}
        row["reads"] += sum(READ[operand] for _, operand, _ in found)
        row["writes"] += sum(WRITE[operand] for _, operand, _ in found)
        row.setdefault("places", Counter()).update(NAMES[operand] for _, operand, _ in found)
        row.setdefault("bytes", set()).update(*(touched for _, _, touched in found))
    return {
        number * line: (
            "both" if len(row["ways"]) == 2 else min(row["ways"]),
            ", ".join(map(str, sorted(row["threads"]))),
            ", ".join(map(str, sorted(row["writers"]))),
            row["reads"],
            row["writes"],
            ", ".join(sorted(row["places"], key=lambda name: (-row["places"][name], name))[:3]),
            ", ".join(name for at, size, name in VARIABLES if row["bytes"] & set(range(at, at + size))),
        )
        for number, row in rows.items()
    }


@pytest.mark.parametrize("barriers", [[], [1]])
@pytest.mark.parametrize("line", [8, 16, 32, 64])
def test_shared_lines_are_those_of_sets_of_bytes(line, barriers):
    draw, seen = random.Random(line), Counter()
    for _ in range(40):
        traces = threads(draw, draw.randrange(2, 5), barriers=barriers)
        table = shared_lines(traces, line)
        frame = table.to_frame()
        columns = ["sharing", "threads", "writers", "reads", "writes", "places", "variable"]
        rows = dict(zip(frame["address"], frame[columns].itertuples(index=False, name=None), strict=True))
        assert rows == expected(traces, line, barriers)
        order = [(-row.writes, -row.reads, row.address) for row in frame.itertuples()]
        assert order == sorted(order)
        assert table.false()["address"].tolist() == [a for a in frame["address"] if rows[a][0] != "true"]
        assert table.phased == bool(barriers)
        seen.update(frame["sharing"])
    assert min(seen[way] for way in ("true", "false", "both")) > 0


@pytest.mark.parametrize("line", [4, 48, 128])
def test_lines_of_other_sizes_are_refused(line):
    with pytest.raises(SettingError, match=rf"8, 16, 32 or 64 bytes; found {line}"):
        shared_lines(threads(random.Random(1), 2), line)


def test_what_is_shared_is_told():
    draw = random.Random(8)
    table = threads(draw, 3).shared_lines()
    kinds = table.to_frame()["sharing"].value_counts()
    text = table.summary().splitlines()
    for way, told in (("false", "falsely"), ("true", "truly"), ("both", "both ways")):
        assert (f"{kinds.get(way, 0)} {told}" in text[0]) == (way in kinds)
    first = table.to_frame().iloc[0]
    assert text[1].startswith(f"{first['variable'] or 'memory'} at {first['address']:#x}: {first['sharing']} sharing")
    assert len(text) == 1 + min(3, len(table.to_frame())) + 1
    assert "not known" in text[-1]
    assert "not known" not in threads(draw, 3, barriers=[1]).shared_lines().summary()
