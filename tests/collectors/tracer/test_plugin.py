"""QEMU's plugin without QEMU: what it writes of blocks and accesses that are given, by hand."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.tracer.qemu import _build_plugin

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

# The function lies at 0x1000 to 0x10ff of a file whose code begins at 0x400, and that is loaded 0x5000 higher.
WHERE = ["lo=0x1000", "hi=0x1100", "text=0x400"]
CALL, ENTRY, LOOP, CALLEE, BEHIND, NEXT = range(6)
BLOCKS = [
    "T 0 1 7000 e800000000",  # calls the function; the call ends at 0x7005
    "T 1 2 6000 4801d8 6003 480000",
    "T 2 1 60fe eb00",  # the last of the function
    "T 3 3 6100 90 6101 90 6102 c3",  # right behind the function
    "T 4 1 7005 90",
    "T 5 1 7006 90",
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    _build_plugin(folder)
    source = Path(__file__).with_name("fake_qemu.c")
    subprocess.run(["gcc", "-w", "-rdynamic", "-o", folder / "qemu", source, "-ldl"], check=True)
    return folder


@pytest.fixture
def recorded(built, tmp_path):
    def run(lines, *arguments, target="x86_64", readable=2, status=0):
        words = [built / "qemu", built / "plugin.so", target, str(readable), *arguments, f"out={tmp_path}/t."]
        done = subprocess.run(words, input="\n".join(lines), text=True, check=False, timeout=60)
        assert done.returncode == status
        stream = np.fromfile(tmp_path / "t.stream", dtype=[("block", "<u4"), ("zero", "<u4"), ("events", "<u8")])
        memory = np.fromfile(
            tmp_path / "t.memory", dtype=[("address", "<u8"), ("instruction", "<u2"), ("size", "<u2"), ("store", "<u4")]
        )
        assert not stream["zero"].any()
        code = (tmp_path / "t.code").read_text().splitlines()
        return code, list(zip(stream["block"].tolist(), stream["events"].tolist(), strict=True)), memory.tolist()

    return run


def runs(*blocks):
    return [f"X {block}" for block in blocks]


def ends(code):
    """Return what is said at the end: code that was left out, calls, instructions."""
    return [line for line in code if line[0] in "OE"]


def test_the_code_of_the_function_is_written_and_others_only_with_its_callees(recorded):
    own = [
        "B 0 2 20480",
        "I 24576 4801d8 f text",
        "I 24579 480000 ? text",
        "B 1 1 20480",
        "I 24830 eb00 f text",
    ]
    code, _, _ = recorded(BLOCKS, *WHERE)
    assert code == [*own, "E 0 0"]
    code, _, _ = recorded(BLOCKS[1:4], *WHERE, "callees=1")
    callee = ["B 2 3 20480", "I 24832 90 f text", "I 24833 90 ? text", "I 24834 c3 f text"]
    assert code == [*own, *callee, "E 0 0"]


ONE = (CALL, ENTRY, LOOP, BEHIND, NEXT)


@pytest.mark.parametrize(
    ("arguments", "blocks", "stream", "told"),
    [
        ((), [], [], ["E 0 0"]),
        ((), [NEXT, BEHIND], [], ["E 0 0"]),
        ((), ONE, [0, 1], ["E 1 3"]),
        ((), [*ONE, *ONE], [0, 1], ["E 2 3"]),  # it ends where the second call begins
        (("last=2",), [*ONE, *ONE, *ONE], [0, 1] * 2, ["E 3 6"]),
        (("first=2", "last=3"), [*ONE] * 5, [0, 1] * 2, ["E 4 6"]),
        (("first=2", "last=9"), [*ONE] * 3, [0, 1] * 2, ["E 3 6"]),
        ((), [CALL, ENTRY, LOOP, ENTRY, LOOP, BEHIND], [0, 1, 0, 1], ["E 1 6"]),  # a jump to the begin
        ((), [CALL, ENTRY, CALLEE, LOOP, BEHIND, NEXT], [0, 1], ["O 24832 1", "E 1 3"]),
        ((), [CALL, ENTRY, CALLEE, LOOP, NEXT, LOOP, CALLEE, BEHIND], [0, 1, 1], ["O 24832 2", "O 28678 1", "E 1 4"]),
        ((), [CALL, ENTRY, CALLEE, CALLEE, LOOP, BEHIND], [0, 1], ["O 24832 1", "E 1 3"]),  # within what was left
        (("callees=1",), [CALL, ENTRY, CALLEE, LOOP, BEHIND, NEXT], [1, 3, 2], ["E 1 6"]),
        (("callees=1",), [CALL, ENTRY, CALLEE, ENTRY, LOOP, BEHIND], [1, 3, 1, 2], ["E 1 8"]),  # it calls itself
        (("callees=1", "last=2"), [*ONE, *ONE], [1, 2] * 2, ["E 2 6"]),
        (("limit=5",), [CALL, ENTRY, ENTRY, LOOP, LOOP, LOOP], [0, 0, 1, 1], ["E 1 6"]),
        (("limit=6",), [CALL, ENTRY, ENTRY, LOOP, LOOP, LOOP], [0, 0, 1, 1, 1], ["E 1 7"]),
        (("limit=7",), [CALL, ENTRY, ENTRY, LOOP, LOOP, LOOP], [0, 0, 1, 1, 1], ["E 1 7"]),
    ],
)
def test_what_runs_within_the_wanted_calls_is_recorded(recorded, arguments, blocks, stream, told):
    code, found, memory = recorded([*BLOCKS, *runs(*blocks)], *WHERE, *arguments)
    assert ([block for block, _ in found], ends(code)) == (stream, told)
    assert memory == []


def test_code_that_is_left_has_a_place_of_its_own_up_to_a_number(recorded):
    others = [f"T {10 + k} 1 {0x9000 + 16 * k:x} c3" for k in range(130)]
    blocks = [each for k in range(130) for each in (10 + k, LOOP)]
    code, _, _ = recorded([*BLOCKS, *others, *runs(CALL, ENTRY, *blocks, 11, LOOP)], *WHERE)
    found = [tuple(map(int, line.split()[1:])) for line in ends(code)[:-1]]
    assert found == [(0x9000 + 16 * k, 1 + (k == 1)) for k in range(128)] + [(0, 2)]


def accesses(*rows):
    return [f"M {block} {instruction} {shift} {store} {at:x}" for block, instruction, shift, store, at in rows]


def test_pieces_of_one_access_are_one(recorded):
    lines = [*BLOCKS, *accesses((ENTRY, 0, 3, 0, 0x10)), *runs(CALL, ENTRY)]  # the first one is before the call
    lines += accesses((ENTRY, 0, 3, 0, 0x100), (ENTRY, 0, 3, 0, 0x108), (ENTRY, 0, 0, 0, 0x110))  # 17 bytes
    lines += accesses((ENTRY, 0, 0, 0, 0x112))  # a gap
    lines += accesses(
        (ENTRY, 0, 0, 1, 0x113), (ENTRY, 1, 0, 1, 0x114), (ENTRY, 1, 0, 1, 0x113)
    )  # another kind, one back
    lines += runs(LOOP)
    lines += accesses(*((LOOP, 0, 4, 1, 0x200 + 16 * k) for k in range(5)))  # 64 bytes at most
    lines += runs(LOOP) + accesses((LOOP, 0, 2, 0, 0x300)) + runs(BEHIND)
    lines += accesses((LOOP, 0, 2, 0, 0x304))  # still of the call, as far as is known
    code, stream, memory = recorded(lines, *WHERE)
    assert memory == [
        (0x100, 0, 17, 0), (0x112, 0, 1, 0), (0x113, 0, 1, 1), (0x114, 1, 1, 1), (0x113, 1, 1, 1),
        (0x200, 0, 64, 1), (0x240, 0, 16, 1), (0x300, 0, 8, 0),
    ]  # fmt: skip
    assert stream == [(0, 0), (1, 5), (1, 7)]
    assert ends(code) == ["E 1 4"]


# An instruction of four bytes, six before the end of a page, of which QEMU shows too few.
AT_THE_END = [
    "T 0 1 7000 e800000000",
    "T 1 1 6000 90",
    "T 2 1 6ffa 48010203",
    "T 3 1 6ff1 48010203",
    "T 4 1 6ffa 0f010203",
]
WIDE = ["lo=0x1000", "hi=0x2000", "text=0x400"]


@pytest.mark.parametrize(
    ("target", "readable", "last"),
    [
        ("x86_64", 2, "48010203" + "ee" * 11),  # as many as an instruction has at most
        ("x86_64", 1, "48010203eeee"),  # the next page is not there
        ("aarch64", 2, "48010203"),
    ],
)
def test_an_instruction_at_the_end_of_a_page_is_shown_with_what_follows(recorded, target, readable, last):
    code, _, _ = recorded(AT_THE_END, *WIDE, target=target, readable=readable)
    assert [line.split()[2] for line in code if line[0] == "I"] == ["90", last, "48010203", "0f010203"]


@pytest.mark.parametrize(
    ("call", "back", "calls"),
    [
        ("6ffa 48010203", 0x6FFE, True),
        ("6ffa 48010203", 0x6FFE + 11, True),  # the call may be as long
        ("6ffa 48010203", 0x6FFE + 12, False),
        ("6ff1 48010203", 0x6FF5, True),
        ("6ff1 48010203", 0x6FF6, False),
    ],
)
def test_where_a_call_at_the_end_of_a_page_returns_to_is_known_by_its_longest_form(recorded, call, back, calls):
    lines = [f"T 0 1 {call}", "T 1 1 6000 90", f"T 2 1 {back:x} 90", "T 3 1 6010 90", *runs(0, 1, 2, 3)]
    code, stream, _ = recorded(lines, "lo=0x1000", "hi=0x1100", "text=0x400")
    assert ends(code) == ([] if calls else [f"O {back} 1"]) + ["E 1 2"]
    assert [block for block, _ in stream] == [0, 1]


@pytest.mark.parametrize("wrong", [["lo"], ["low=3"], ["out=/no/such/folder/x"]])
def test_other_arguments_are_refused(built, wrong):
    words = [built / "qemu", built / "plugin.so", "x86_64", "2", *wrong]
    assert subprocess.run(words, input="", text=True, check=False).returncode == 8
