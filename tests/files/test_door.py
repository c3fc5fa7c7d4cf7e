"""The door to files: hostile and damaged ones are errors that name the file, never another exception or a crash."""

import bz2
import errno
import gzip
import io
import json
import lzma
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perfkit as pk
from perfkit.base import files
from perfkit.errors import FormatError, PerfkitError, SettingError
from perfkit.study.expressions import Expression
from perfkit.study.study import Study

HUGE = b"\x93NUMPY\x01\x00" + (lambda h: len(h).to_bytes(2, "little") + h)(
    b"{'descr': '<i8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
)


def edited(path, **members):
    """Return a ZIP archive with members replaced (by a function of the old bytes); names with ``__`` for a point."""
    with zipfile.ZipFile(path) as archive:
        whole = {i.filename: archive.read(i) for i in archive.infolist()}
    for name, change in members.items():
        name = name.replace("__", ".")
        whole[name] = change(whole[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in whole.items():
            archive.writestr(name, data)
    return out.getvalue()


def header(**changes):
    return lambda old: json.dumps({**json.loads(old), **changes}).encode()


def npy(values):
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


def refused(path, data, load):
    path.write_bytes(data)
    with pytest.raises(PerfkitError) as error:
        load(path)
    assert path.name in str(error.value)


# ------------------------------------------------------------------ DAGs: what compiled code follows


@pytest.fixture
def dag(tmp_path):
    graph = pk.Dag.from_nodes(["L", "L", "A", "M", "S"], [[], [], [0, 1], [2], [3]], address=[0, 8, None, None, 16])
    return graph.save(tmp_path / "good.npz")


def tables(path):
    with np.load(path) as saved:
        return {name: saved[name] for name in saved.files}


@pytest.mark.parametrize("value", [10**6, -(10**6), 2**40, -2])
@pytest.mark.parametrize("place", [0, -1])
def test_an_index_that_points_outside_of_a_dag_is_refused_or_harmless(dag, tmp_path, value, place):
    """One entry of each table changed: refused, or a DAG of the same nodes (what no index depends on)."""
    whole = tables(dag)
    refusals = 0
    for name, table in whole.items():
        if name == "about" or not table.size or table.dtype.kind not in "iu":
            continue
        if not np.iinfo(table.dtype).min <= value <= np.iinfo(table.dtype).max:
            continue
        changed = table.copy()
        changed.flat[place] = value
        np.savez(tmp_path / "bad.npz", **{**whole, name: changed})
        try:
            found = pk.Dag.load(tmp_path / "bad.npz")
        except FormatError:
            refusals += 1
        else:
            assert len(found.nodes()) == 5
    assert refusals >= 3


def test_tables_of_other_types_lengths_and_claims_are_refused(dag, tmp_path):
    whole = tables(dag)
    bad = tmp_path / "bad.npz"
    for name, table in whole.items():
        if not table.size:
            continue
        shorter = table[:-1] if table.ndim else np.array("[]")
        for changed in (np.zeros(3), table[None], shorter):
            out = io.BytesIO()
            np.savez(out, **{**whole, name: changed})
            refused(bad, out.getvalue(), pk.Dag.load)
    refused(bad, edited(dag, stream__npy=lambda _: HUGE), pk.Dag.load)
    refused(bad, edited(dag, about__npy=lambda _: npy(np.array("[" * 100_000))), pk.Dag.load)
    refused(bad, dag.read_bytes()[:-30], pk.Dag.load)
    for broken in (b"{'descr': ,", b"{'descr': (("):  # numpy parses headers as Python
        data = edited(dag, stream__npy=lambda old, b=broken: old[:10] + b.ljust(len(old) - 10))
        refused(bad, data, pk.Dag.load)
    assert len(pk.Dag.load(dag)) == 5


# ------------------------------------------------------------------ traces and results of Gus


@pytest.fixture(scope="module")
def small_trace(tmp_path_factory):
    names = [n for n in pk.datasets.names() if n.startswith("traces/fig1a")]
    path = tmp_path_factory.mktemp("trace") / "small.trace"
    return pk.datasets.load(names[0]).save(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"instructions": float("inf")},
        {"chunks": [{"stream": -1, "addresses": 0, "sizes": 0}]},
        {"chunks": [{"stream": 10, "addresses": 10**12, "sizes": 0}]},
        {"chunks": [{"stream": 10, "addresses": 10**30, "sizes": 0}]},
        {"chunks": [{"stream": 10, "addresses": float("inf"), "sizes": 0}]},
        {"chunks": [5]},
        {"isa": {}},
        {"version": -5},
        {"version": True},
        {"provenance": []},
        {"provenance": {"complete": False, "stopped": {}}},
        {"provenance": {"workload": 7}},
        {"provenance": {"kind": "none"}},
        {"provenance": {"extra": {"source_name": []}}},
        {"provenance": {"extra": []}},
        {"provenance": {"sources": {"a.c": None}}},
    ],
    ids=str,
)
def test_headers_of_traces(small_trace, tmp_path, changes):
    data = edited(small_trace, trace__json=header(**changes))
    refused(tmp_path / "bad.trace", data, pk.Trace.load)


def test_an_archive_that_only_a_later_version_unpacks(small_trace, tmp_path):
    data = bytearray(small_trace.read_bytes())
    data[data.rfind(b"PK\x01\x02") + 6] = 187
    refused(tmp_path / "bad.trace", bytes(data), pk.Trace.load)


def test_damaged_members_of_traces(small_trace, tmp_path):
    bad = tmp_path / "bad.trace"
    refused(bad, edited(small_trace, trace__json=lambda _: b"[" * 100_000), pk.Trace.load)
    whole = bytearray(edited(small_trace))
    at = whole.find(b"trace.json") + len(b"trace.json") + 3
    whole[at : at + 20] = b"\xff" * 20
    refused(bad, bytes(whole), pk.Trace.load)

    refused(
        bad, edited(small_trace, code__json=lambda old: old.replace(b'"bytes": ["', b'"bytes": ["x')), pk.Trace.load
    )


@pytest.fixture(scope="module")
def saved_gus(small_trace, tmp_path_factory):
    result = pk.Gus(pk.Microarchitecture.load("skylake_x")).run(pk.Trace.load(small_trace))
    return result.save(tmp_path_factory.mktemp("gus") / "good.gus")


@pytest.mark.parametrize(
    "changes",
    [
        {"ticks": float("inf")},
        {"weights": {"rob": float("nan")}},
        {"weights": [1]},
        {"branches": [float("inf"), 0]},
        {"branches": [-1, 7]},
        {"branches": 5},
        {"forms": {}},
        {"core": "x=1"},
        {"core": "a = " + "[" * 5000 + "]" * 5000},
        {"warm": "no"},
    ],
    ids=lambda c: str(c)[:30],
)
def test_headers_of_gus_results(saved_gus, tmp_path, changes):
    refused(tmp_path / "bad.gus", edited(saved_gus, result__json=header(**changes)), pk.GusResult.load)


@pytest.mark.parametrize("name", ["spent", "served", "prefetched"])
def test_arrays_of_gus_results(saved_gus, tmp_path, name):
    bad = tmp_path / "bad.gus"
    for data in (HUGE, npy(np.zeros(1, "int64")), npy(np.zeros((2, 2), "int64")), npy(np.zeros(4)), b""):
        refused(bad, edited(saved_gus, **{f"{name}__npy": lambda _, data=data: data}), pk.GusResult.load)

    def below_zero(old):
        values = np.load(io.BytesIO(old)).copy()
        values.flat[0] -= 2**40
        return npy(values)

    refused(bad, edited(saved_gus, **{f"{name}__npy": below_zero}), pk.GusResult.load)


# ------------------------------------------------------------------ bombs


def test_compressed_bombs_stop_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("perfkit.readers.open.affordable", lambda: 10_000_000)
    content = b"1,,cycles,1,100.00,,\n" * 1_000_000
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    for data in (gzip.compress(content), lzma.compress(content), bz2.compress(content), sink.getvalue().to_pybytes()):
        refused(tmp_path / "bomb.csv", data, pk.read_samples)


def test_members_that_claim_more_than_memory_holds(small_trace, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "affordable", lambda: 100)
    with pytest.raises(FormatError, match=r"trace.json claims [\d,]+ bytes, more than memory can hold .100"):
        pk.Trace.load(small_trace)


def test_aliases_of_yaml_that_stand_for_millions(tmp_path):
    laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    laughs += "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))
    for text in (laughs, "x: " + "[" * 5000, "a: &a [*a]\n", "kernel: x\ndimensions: {N: {from: 0, to: .inf}}\n"):
        path = tmp_path / "s.yaml"
        path.write_text(text)
        with pytest.raises(PerfkitError):
            Study.from_yaml(path)


def test_cores_that_are_no_text_or_nested(tmp_path):
    for data in ("name = 'x'".encode("utf-16"), b"\xffname = 1", b"a = " + b"[" * 5000 + b"]" * 5000):
        refused(tmp_path / "core.toml", data, pk.Microarchitecture.load)


@pytest.mark.parametrize(
    "text",
    [
        "'%1000000000d' % 5",
        "len('%1999999999d' % 5) > 0",
        "-" * 1500 + "N",
        "not " * 400 + "N",
        "2**4000 * 2**4000 * 2**4000",
        "(-8)**0.5",
        "1j",
        "b'x'",
        "+".join(["range(10000)"] * 50),
        "'a' * 10**9",
    ],
    ids=lambda t: t[:20],
)
def test_expressions_cannot_eat_time_or_memory(text):
    with pytest.raises(SettingError):
        Expression(text)({"N": 3})


# ------------------------------------------------------------------ samples


def test_descriptions_of_saved_samples(fixtures, tmp_path):
    good = pk.read_samples(fixtures / "long.csv").save(tmp_path / "good.parquet")
    table = pq.read_table(good)
    head = json.loads(table.schema.metadata[b"perfkit"])
    bad = tmp_path / "bad.parquet"

    def write(metadata, of=table):
        pq.write_table(of.replace_schema_metadata({b"perfkit": metadata}), bad)
        for load in (pk.read_samples, pk.Samples.load):
            with pytest.raises(PerfkitError, match=r"bad\.parquet"):
                load(bad)

    for metadata in (b"{", b"[1]", b"[" * 100_000):
        write(metadata)
    for name in ("version", "runs", "time_event", "problems", "notes"):
        write(json.dumps({k: v for k, v in head.items() if k != name}).encode())
        write(json.dumps({**head, name: [{"x": 1}] if name != "notes" else 5}).encode())
    write(json.dumps(head).encode(), table.drop_columns(["count"]))
    write(json.dumps(head).encode(), table.append_column("count", table.column("count")))


# ------------------------------------------------------------------ the pieces


def test_schema_names_the_field():
    for values, what in (({}, "lacks 'n'"), ({"n": True}, "n to be int"), ({"n": float("nan")}, "n to be int")):
        with pytest.raises(FormatError, match=what):
            files.check_fields(values, {"n": int}, "f", "a header")
    files.check_fields({"n": 1, "more": None}, {"n": float}, "f", "a header")


def test_a_file_that_is_not_there_stays_one():
    with pytest.raises(FileNotFoundError), files.reading("x", "a file"):
        raise FileNotFoundError("x")


def test_a_file_that_cannot_be_written_has_the_name_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error, files.replaced(tmp_path / "x.parquet") as temporary:
        raise FileNotFoundError(errno.ENOENT, f"Failed to open local file '{temporary}'")
    assert error.value.filename == str(tmp_path / "x.parquet")
    assert ".part" not in str(error.value)
    with pytest.raises(OSError, match="no device"), files.replaced(tmp_path / "x.parquet"):
        raise OSError(errno.ENODEV, "no device")
    with pytest.raises(OSError, match=r"x\.parquet"), files.replaced(tmp_path / "x.parquet"):
        raise OSError(errno.ENOSPC, "No space left on device")  # as a write says it: without a name
