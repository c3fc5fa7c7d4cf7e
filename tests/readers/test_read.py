"""read_samples as a whole: several files, compression, what is recognised, and the real dumps beside the project."""

import bz2
import gzip
import lzma
import re
from collections import Counter

import pyarrow as pa
import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError, MissingFileError, SettingError

FIRST = "     1.000000000   {c}   cycles\n     1.000000000   {w}   instructions\n     1.000000000   3   misses\n"


def compress(kind, data):
    if kind == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[kind](data)


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zst"])
def test_compressed_files_are_opened_as_they_are(tmp_path, fixtures, kind):
    plain = pk.read_samples(fixtures / "indian-digit-groups.txt")
    path = tmp_path / "name-without-suffix"
    path.write_bytes(compress(kind, (fixtures / "indian-digit-groups.txt").read_bytes()))
    assert pk.read_samples(path).table["count"].tolist() == plain.table["count"].tolist()
    named = tmp_path / f"520.omnetpp_r.txt.{kind}"
    named.write_bytes(path.read_bytes())
    samples = pk.read_samples(named)
    assert list(samples.runs.index) == ["520.omnetpp_r"]
    assert samples.runs["source"].tolist() == [named.name]  # and no folder of this machine


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-8-sig", "ascii"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_a_table_in_any_encoding_and_with_any_line_ends(tmp_path, encoding, end, last):
    if end == "\r" and encoding.startswith(("utf-16", "utf-32")):
        pytest.skip("no program is known to write it")
    rows = ["cycles,instructions,misses", "1000,2000,3", "1100,2100,4", "1200,2200,5"]
    text = end.join(rows) + end * last
    mark = "\ufeff" if encoding.endswith(("-le", "-be")) else ""
    path = tmp_path / "a.csv"
    path.write_bytes((mark + text).encode(encoding))
    samples = pk.read_samples(path)
    assert samples.to_wide()[["cycles", "instructions", "misses"]].sum().tolist() == [3300, 6300, 12]
    assert samples.accounting.iloc[0]["total"] == 4


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_truncated_compressed_file(tmp_path, kind):
    lines = "".join(f"     {t}.000000000   {t * 7919 % 1000}   cycles\n     {t}.000000000   {t}   instructions\n"
                    for t in range(1, 60000))  # fmt: skip
    whole = compress(kind, lines.encode())
    path = tmp_path / f"cut.txt.{kind}"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(FormatError, match=rf"cut\.txt\.{kind}: the compressed data is damaged.*early"):
        pk.read_samples(path)
    samples = pk.read_samples(path, errors="collect")
    assert "damaged" in samples.problems["reason"].iloc[0]
    assert 0 < samples.n_intervals < 59999
    path.write_bytes(whole[:20])
    with pytest.raises(FormatError, match="nothing in it can be read"):
        pk.read_samples(path)


def test_several_members_in_one_gzip_file(tmp_path):
    path = tmp_path / "two.txt.gz"
    path.write_bytes(
        gzip.compress(FIRST.format(c=10, w=20).encode()) + gzip.compress(FIRST.format(c=30, w=40).encode())
    )
    # The second member begins at the same time: the same interval twice, with other counts.
    samples = pk.read_samples(path)
    assert samples.table["count"].tolist() == [10, 20, 3, 30, 40]
    assert any("cycles#2" in n for n in samples.notes)


def test_several_paths_give_several_runs(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "a.txt").write_text(FIRST.format(c=10, w=20))
    (tmp_path / "x" / "a.csv").write_text("cycles,instructions,misses\n1,2,3\n")
    samples = pk.read_samples([tmp_path / "a.txt", tmp_path / "x" / "a.csv"], workload=["one", "two"])
    assert samples.runs["workload"].to_dict() == {"a": "one", "a (2)": "two"}
    assert samples.runs["source"].tolist() == ["a.txt", "a.csv"]
    assert samples.intervals()["time"].tolist() == [10, 1]


def test_spire_files_and_dumps_together(tmp_path, fixtures):
    (tmp_path / "a.txt").write_text(FIRST.format(c=10, w=20))
    samples = pk.read_samples([fixtures / "spire.csv", tmp_path / "a.txt"], kind="generated")
    assert set(samples.events) == {"l2", "l3", "br", "misses"}
    assert samples.kind == "generated"


def test_what_cannot_be_read_says_why(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="x: the file is empty"):
        pk.read_samples(path)
    path.write_text("Dear reader,\nthis is a letter.\n")
    with pytest.raises(FormatError, match=r"not a dump that perfkit recognises.*Dear reader"):
        pk.read_samples(path)
    path.write_bytes(b"PERFILE2\x00\x00\x00\x00")
    with pytest.raises(FormatError, match=r"perf\.data"):
        pk.read_samples(path)
    with pytest.raises(DataError, match="found a folder"):
        pk.read_samples(tmp_path)
    with pytest.raises(FileNotFoundError):
        pk.read_samples(tmp_path / "none.txt")
    with pytest.raises(SettingError, match="at least one path"):
        pk.read_samples([])
    with pytest.raises(SettingError, match="did you mean perf-text"):
        pk.read_samples(path, format="perf-txt")
    with pytest.raises(SettingError, match="workload names 2 for 1 files"):
        pk.read_samples(path, workload=["a", "b"])


def test_no_time_event_lists_what_there_is(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("loads,stores\n1,2\n")
    with pytest.raises(SettingError, match=r"no event that measures time was found among: loads, stores"):
        pk.read_samples(path)


# ------------------------------------------------------------------ real dumps, counted independently

LINE = re.compile(r"^\s*(\d+\.\d{9})\s+(<not \w+>|[\d.,]+)\s+(\S+)", re.MULTILINE)
TEXTS = [
    "grouped-520.omnetpp_r", "grouped-557.xz_r", "hybrid-502.gcc_r", "i5-507.cactuBSSN_r", "i5-520.omnetpp_r",
    "i5-531.deepsjeng_r", "paper-526.blender_r",
]  # fmt: skip


@pytest.mark.shared_data
@pytest.mark.parametrize("name", TEXTS)
def test_real_text_dump_is_read_in_full(shared_perf, name):
    text = lzma.decompress((shared_perf / f"{name}.txt.xz").read_bytes()).decode()
    found = LINE.findall(text)
    samples = pk.read_samples(shared_perf / f"{name}.txt.xz")
    assert len(samples) == len(found) == sum(bool(re.match(r"\s*\d", x)) for x in text.splitlines())
    assert samples.n_intervals == len({at for at, _, _ in found})
    assert Counter(samples.table["event"].astype(str)) == Counter(event for _, _, event in found)
    assert samples.table["count"].isna().sum() == text.count("<not ")
    # Every count, by another road: digits only.
    assert samples.table["count"].dropna().tolist() == [
        float(re.sub(r"\D", "", value)) for _, value, _ in found if value[0] != "<"
    ]
    assert samples.intervals()["seconds"].sum() == pytest.approx(float(found[-1][0]))
    assert len(samples.problems) == 0


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "page_faults"), [("paper-521.wrf_r", 1), ("paper-531.deepsjeng_r", 0)])
def test_real_table_is_read_in_full(shared_perf, name, page_faults):
    lines = lzma.decompress((shared_perf / f"{name}.csv.xz").read_bytes()).decode().splitlines()
    samples = pk.read_samples(shared_perf / f"{name}.csv.xz")
    assert samples.n_intervals == len(lines) - 1
    assert len(samples.events) == 20 + page_faults  # two axes, one duplicate, IPC and CPI less
    rows = [x.split(",") for x in lines[1:]]
    for column, event in enumerate(lines[0].split(",")[:12]):
        counts = samples.table.loc[samples.table["event"] == event, "count"]
        assert counts.sum() == sum(float(r[column]) for r in rows)
    assert any("dtlb_load_misses.walk_pending:u is there twice with the same values" in n for n in samples.notes)
    assert any("IPC (= instructions/cycles), CPI (= cycles/instructions)" in n for n in samples.notes)


@pytest.mark.parametrize("given", [None, 3, [None]])
@pytest.mark.parametrize("door", [pk.read_samples, pk.open_samples])
def test_what_is_no_path_is_named(door, given):
    with pytest.raises(SettingError, match=r"takes a path or several; found (NoneType|int)"):
        door(given)


def test_a_file_that_is_not_there_is_an_error_of_perfkit(tmp_path):
    with pytest.raises(MissingFileError, match="no such file"):
        pk.read_samples(tmp_path / "none.txt")


def test_runs_of_one_name_in_several_files_are_numbered(tmp_path):
    folders = [tmp_path / str(k) for k in range(5)]
    for k, folder in enumerate(folders):
        folder.mkdir()
        (folder / "run.csv").write_text(f"cycles,instructions\n{1000 + k},2000\n{1100 + k},2100\n")
    samples = pk.read_samples([folder / "run.csv" for folder in folders])
    assert list(samples.runs.index) == ["run", *(f"run ({number})" for number in (2, 3, 4, 5))]
