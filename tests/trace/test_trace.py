"""The Trace type and its file: a hand-made trace, its arithmetic, and files that are not what they claim."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.trace.code import NO_ACCESS, Provenance, StaticCode, expand, flat
from perfkit.trace.file import TraceFile
from perfkit.trace.trace import Trace


def two_blocks(**changes) -> StaticCode:
    """A loop of three instructions (a load, an addition to memory, a branch) and an exit with a REP store."""
    parts = {
        "isa": "x86-64",
        "pc": [0x1000, 0x1004, 0x1008, 0x100A, 0x100C],
        "encoding": [b"\xc5\xfb\x10\x07", b"\x48\x01\x06\x90", b"\x75\xf6", b"\xf3\xaa", b"\xc3"],
        "text": ["vmovsd xmm0,[rdi]", "add [rsi],rax", "jne short 1000h", "rep stosb", "ret"],
        "function": ["f"] * 5,
        "block_start": [0, 3, 5],
        "operand_start": [0, 1, 2, 2, 3, 4],
        "read": [True, True, False, True],
        "write": [False, True, True, False],
        "size": [8, 8, 0, 8],
    }
    return StaticCode(**(parts | changes))


@pytest.fixture
def small() -> Trace:
    return Trace.from_parts(
        two_blocks(),
        stream=[0, 0, 1],
        addresses=[0x8000, 0x9000, 0x8008, 0x9000, 0xA000, 0x7FF8],
        sizes=[24],
        provenance=Provenance(workload="by hand", function="f"),
    )


def test_the_counts_of_a_hand_made_trace(small):
    assert pk.Trace is Trace
    assert small.instruction_count == 3 + 3 + 2
    assert small.access_count == 6
    assert small.block_counts().tolist() == [2, 1]
    assert small.instruction_counts().tolist() == [2, 2, 2, 1, 1]
    assert np.concatenate(list(small.instructions())).tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert np.concatenate(list(small.operands(blocks=1))).tolist() == [0, 1, 0, 1, 2, 3]
    assert small.access_sizes().tolist() == [8, 8, 8, 8, 24, 8]
    assert "8 instructions" in repr(small)
    assert repr(small).startswith("<Trace: ")


def test_the_static_table(small):
    assert small.code.length.tolist() == [4, 4, 2, 2, 1]
    assert small.code.block.tolist() == [0, 0, 0, 1, 1]
    assert small.code.index.tolist() == [0, 1, 2, 0, 1]
    frame = small.to_frame()
    assert frame["operands"].tolist() == ["r8", "rw8", "", "w?", "r8"]
    assert frame["executed"].tolist() == [2, 2, 2, 1, 1]


def test_chunks_cover_the_trace_once(small):
    chunks = list(small.chunks(blocks=1))
    assert [chunk.first_instruction for chunk in chunks] == [0, 3, 6]
    assert [chunk.first_access for chunk in chunks] == [0, 2, 4]
    assert np.concatenate([chunk.addresses for chunk in chunks]).tolist() == small.addresses.tolist()
    assert [chunk.sizes.tolist() for chunk in chunks] == [[], [], [24]]
    with pytest.raises(SettingError, match="at least one block"):
        next(small.chunks(0))


def test_head_keeps_whole_blocks(small):
    cut = small.head(5)
    assert cut.stream.tolist() == [0]
    assert cut.addresses.tolist() == [0x8000, 0x9000]
    assert cut.sizes.size == 0
    assert not cut.provenance.complete
    assert small.head(8) is small
    assert small.provenance.complete


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"isa": "vax"}, "unknown instruction set 'vax'"),
        ({"text": ["ret"]}, "text has 1 entries, pc has 5"),
        ({"block_start": [0, 3, 4]}, "end with 5"),
        ({"block_start": [0, 3, 3, 5]}, "rise"),
        ({"operand_start": [0, 1, 2, 1, 3, 4]}, "never fall"),
        ({"operand_start": [0, 1, 2, 2, 4]}, r"operand_start has 5 entries, pc \(plus one\) has 6"),
        ({"operand_start": [0, 1, 2, 2, 3, 5]}, "end with 4"),
        ({"operand_start": [1, 1, 2, 2, 3, 4]}, "begin with 0"),
        ({"write": [False, True, True]}, "write has 3 entries, size has 4"),
        ({"file": ["a.c"] * 5}, "line has 0 entries, pc has 5"),
        ({"line": [1] * 5}, "file has 0 entries, pc has 5"),
        ({"file": ["a.c"] * 5, "line": [1, 2, -1, 0, 1]}, "do not fit int32|lines begin with 1"),
        ({"read": [False, True, False, True]}, r"operands \[0\] neither read nor write"),
        ({"pc": [[1]]}, "one dimension"),
        ({"pc": [0.5] * 5}, "expected uint64, found float64"),
        ({"size": [8, 8, 0, -8]}, "do not fit uint32"),
        ({"encoding": [b""] * 5}, "1 to 15 bytes"),
    ],
)
def test_static_tables_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        two_blocks(**changes)


@pytest.mark.parametrize(
    ("stream", "addresses", "sizes", "message"),
    [
        ([2], [], [], "names block 2, the code has only 2"),
        ([0], [1], [], "call for 2 addresses, found 1"),
        ([1], [1, 2], [], "call for 1 sizes, found 0"),
    ],
)
def test_streams_that_do_not_fit_the_code_are_refused(stream, addresses, sizes, message):
    with pytest.raises(DataError, match=message):
        Trace.from_parts(two_blocks(), stream, addresses, sizes)


def test_operands_of_one_kind_are_counted_and_others_listed():
    code = two_blocks(operand_start=[0, 0, 2, 2, 4, 4], read=[True, True, False, True], size=[8, 8, 0, 8])
    assert code.to_frame()["operands"].tolist() == ["", "r8 rw8", "", "w? r8", ""]
    code = two_blocks(operand_start=[0, 3, 3, 3, 4, 4], write=[False] * 4, read=[True] * 4, size=[4, 4, 4, 0])
    assert code.to_frame()["operands"].tolist() == ["3*r4", "", "", "r?", ""]


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ({}, ()),
        ({"extra": {"not_followed_calls": "exp: 7"}}, ("functions that it called (name: calls): exp: 7",)),
        ({"complete": False, "stopped": "limit"}, ("the rest of the run: recording ended at the limit",)),
        (
            {"complete": False, "stopped": "end", "extra": {"not_followed_calls": "f: 1, g: 2"}},
            ("functions that it called (name: calls): f: 1, g: 2", "the rest of the run: recording ended at the end"),
        ),
    ],
)
def test_what_is_not_in_a_trace(parts, missing):
    assert Provenance(**parts).missing == missing


def test_kind_of_provenance():
    with pytest.raises(DataError, match="recorded"):
        Provenance(kind="invented")


@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.integers(0, 3), min_size=4, max_size=4))
@settings(max_examples=30, deadline=None)
def test_expand_is_the_loop_it_stands_for(stream, counts):
    starts = np.cumsum([0, *counts]).astype(np.int32)
    wanted = [i for k in stream for i in range(starts[k], starts[k + 1])]
    assert expand(np.array(stream, dtype=np.uint32), starts).tolist() == wanted


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2)), max_size=12))
@settings(max_examples=20, deadline=None)
def test_a_file_gives_back_every_bit(tmp_path_factory, blocks):
    stream = [block for block, _ in blocks]
    addresses = np.array([a for _, two in blocks for a in two], dtype=np.uint64)
    trace = Trace.from_parts(two_blocks(), stream, addresses, np.arange(sum(stream), dtype=np.uint32))
    path = trace.save(tmp_path_factory.mktemp("trace") / "t.trace")
    back = Trace.load(path)
    assert back.stream.tolist() == stream
    assert back.addresses.tolist() == addresses.tolist()
    assert back.sizes.tolist() == trace.sizes.tolist()
    assert back.code.to_frame().equals(trace.code.to_frame())


def test_a_file_keeps_provenance_and_is_reproducible(small, tmp_path):
    one, two = small.save(tmp_path / "one.trace"), small.save(tmp_path / "two.trace")
    assert one.read_bytes() == two.read_bytes()
    assert Trace.load(one).provenance == small.provenance
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.trace", "two.trace"]


def test_no_access_survives(tmp_path):
    trace = Trace.from_parts(two_blocks(), [1], [NO_ACCESS, 8], [0])
    assert Trace.load(trace.save(tmp_path / "t")).addresses.tolist() == [NO_ACCESS, 8]


def test_a_file_is_read_in_pieces(small, tmp_path, monkeypatch):
    monkeypatch.setattr("perfkit.trace.file.BLOCKS_PER_CHUNK", 2)
    path = small.save(tmp_path / "t.trace")
    with TraceFile(path) as file:
        chunks = list(file.chunks())
    assert [chunk.first_instruction for chunk in chunks] == [0, 6]
    assert [chunk.first_access for chunk in chunks] == [0, len(chunks[0].addresses)] != [0, 0]
    assert [chunk.stream.tolist() for chunk in chunks] == [[0, 0], [1]]
    assert Trace.load(path).addresses.tolist() == small.addresses.tolist()


@pytest.mark.parametrize("few", [0, 1 << 18])
def test_small_and_large_traces_use_one_encoding(tmp_path, monkeypatch, few):
    """Small traces are encoded by sorting, large ones by a compiled loop: either reads what the other wrote."""
    rng = np.random.default_rng(5)
    stream = rng.integers(0, 2, 200)
    addresses = rng.integers(0, 2**63, 400).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    trace = Trace.from_parts(two_blocks(), stream, addresses, rng.integers(0, 99, int(stream.sum())))
    monkeypatch.setattr("perfkit.trace.file._FEW", few)
    path = trace.save(tmp_path / "t.trace")
    monkeypatch.setattr("perfkit.trace.file._FEW", (1 << 18) - few)
    assert Trace.load(path).addresses.tolist() == addresses.tolist()


def rewrite(path, name, change):
    """Write the archive again with one member changed (None leaves it out)."""
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for n, data in members.items():
            if data is not None:
                archive.writestr(n, data)


def header(**changes):
    return lambda data: json.dumps(json.loads(data) | changes).encode()


code = header


def column(name, value):
    """Put a value in the place of a column's first."""

    def change(data):
        tables = json.loads(data)
        tables["instructions"][name][0] = value
        return json.dumps(tables).encode()

    return change


def code_lines(line):
    """Give every instruction the same line of a file."""

    def change(data):
        tables = json.loads(data)
        n = len(tables["instructions"]["pc"])
        tables["instructions"] |= {"file": ["a.c"] * n, "line": [line] * n}
        return json.dumps(tables).encode()

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("trace.json", header(version=3), "format 3, this perfkit reads up to 2; upgrade"),
        ("trace.json", header(version="new"), "written in trace format new"),
        ("trace.json", header(format="other"), "not a perfkit trace"),
        ("trace.json", header(instructions=9), "header says 9 instructions, the streams hold 8"),
        ("trace.json", header(chunks=[]), "header says 8"),
        (
            "trace.json",
            header(chunks=[{"stream": 3, "addresses": 2**40, "sizes": 1}]),
            "wrong number of addresses|hold|more than memory",
        ),
        ("trace.json", lambda _: b"{", "not JSON"),
        ("trace.json", lambda _: None, "it has no trace.json"),
        ("code.json", lambda _: b"{", "not JSON"),
        ("code.json", code(operands={"read": [True]}), "static tables are damaged"),
        ("code.json", code(operands=5), "operands"),
        ("code.json", code(blocks={"instructions": ["x"]}), "static tables are damaged"),
        ("code.json", code(blocks={"instructions": [[1]]}), "static tables are damaged"),
        ("code.json", code(blocks={"instructions": [2**70]}), "static tables are damaged"),
        ("code.json", column("bytes", "zz"), "static tables are damaged"),
        ("code.json", column("bytes", 5), "static tables are damaged"),
        ("code.json", column("text", None), "static tables are damaged"),
        ("code.json", column("pc", -1), "static tables are damaged"),
        ("code.json", column("pc", 0.5), "static tables are damaged"),
        ("code.json", code_lines(-1), "static tables are damaged"),
        ("code.json", column("operands", 2**31), "static tables are damaged"),
        ("addresses/000000.zst", lambda data: data[:-4], "damaged|should hold"),
        ("stream/000000.zst", lambda _: b"hello", "damaged"),
        ("sizes/000000.zst", lambda _: None, "no sizes/000000.zst"),
    ],
)
def test_damaged_files_say_what_is_wrong(small, tmp_path, name, change, message):
    path = small.save(tmp_path / "t.trace")
    rewrite(path, name, change)
    with pytest.raises(FormatError, match=message):
        Trace.load(path)


def test_the_first_version_of_the_format_is_read():
    """Its static tables were in parquet; the trace is the one that is shipped today."""
    old, new = (
        Trace.load(Path(__file__).parent / p) for p in ("fixtures/first-version.trace", "../../data/traces/fig1a.trace")
    )
    assert all(np.array_equal(value, getattr(new.code, name)) for name, value in vars(old.code).items())
    assert old.provenance == new.provenance
    assert np.array_equal(old.stream, new.stream)
    assert np.array_equal(old.addresses, new.addresses)


def test_files_that_are_no_traces(small, tmp_path):
    path = small.save(tmp_path / "t.trace")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match="truncated"):
        Trace.load(path)
    path.write_text("pc,address\n")
    with pytest.raises(FormatError, match="not a perfkit trace"):
        Trace.load(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        Trace.load(tmp_path / "missing.trace")


def test_numbers_that_a_type_cannot_hold_are_refused():
    assert flat([2**64 - 1, 0], np.uint64, "x").tolist() == [2**64 - 1, 0]
    assert flat(np.array([0, 255]), np.uint8, "x").tolist() == [0, 255]
    for values in ([-1, 3], [3, 256], np.array([-1, 3]), np.array([3, 256])):
        with pytest.raises(DataError, match="do not fit uint8"):
            flat(values, np.uint8, "x")


def test_the_header_counts_the_executed_instructions(small, tmp_path):
    path = small.save(tmp_path / "a.trace")
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("trace.json"))["instructions"] == sum(len(part) for part in small.instructions())
