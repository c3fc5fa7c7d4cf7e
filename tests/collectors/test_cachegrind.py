"""Cachegrind: its files by hand-counted text, and a real program where valgrind is installed."""

import json
import shutil
import subprocess

import pytest

import perfkit as pk
from perfkit.collectors import Cachegrind
from perfkit.errors import FormatError, SettingError, UnavailableError

# Two functions; f has a line that the compiler took from a header.
OUT = """\
desc: I1 cache:         32768 B, 64 B, 8-way associative
desc: D1 cache:         32768 B, 64 B, 8-way associative
desc: LL cache:         8388608 B, 64 B, 16-way associative
cmd: ./a 1
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=a.c
fn=f
10 1000 1 1 100 10 2 50 4 1 20 3 0 0
11 500
fl=header.h
fn=f
3 100 0 0 10 1
fl=a.c
fn=g
20 2000 0 0 0 0 0 0 0 0 200 40 10 5
summary: 3600 1 1 110 11 2 50 4 1 220 43 10 5
"""


def test_file_by_hand(tmp_path):
    path = tmp_path / "cachegrind.out.1"
    path.write_text(OUT)
    samples = pk.read_samples(path)
    assert samples.kind == "simulated"
    assert (samples.time_event, samples.work_event) == ("estimated-cycles", "Ir")
    each = samples.intervals()
    assert each["place"].tolist() == ["f", "g"]
    assert each["work"].tolist() == [1600, 2000]
    # f: 1600 + 10 (1 + 10 + 4 + 1) + 100 (1 + 2 + 1) + 10 (3 + 0); g: 2000 + 10 (40 + 5)
    assert each["time"].tolist() == [1600 + 160 + 400 + 30, 2000 + 450]
    assert any("is an estimate, not a measurement" in n for n in samples.notes)
    f = samples.table[samples.table["place"] == "f"].set_index("event")["count"]
    assert (f["L1m"], f["LLm"], f["Bm"], f["D1mr"]) == (16, 4, 3, 11)


def test_truncated_file(tmp_path):
    path = tmp_path / "cachegrind.out.1"
    for end in (OUT.index("summary"), OUT.index("fn=g"), OUT.index("20 2000") + 9):
        path.write_text(OUT[:end])
        with pytest.raises(FormatError, match="truncated"):
            pk.read_samples(path)
    path.write_text(OUT.replace("11 500", "11 5x0"))
    with pytest.raises(FormatError, match=r"line 9: .*11 5x0"):
        pk.read_samples(path)


def test_settings_are_checked():
    with pytest.raises(SettingError, match="size,ways,line"):
        Cachegrind(d1="32 KiB")
    with pytest.raises(SettingError, match="at least 0"):
        Cachegrind(l1_penalty=-1)
    with pytest.raises(SettingError, match="command is a list"):
        Cachegrind().run("./a")
    with pytest.raises(UnavailableError, match="not installed"):
        Cachegrind(valgrind="no-such-valgrind").run(["true"])


PROGRAM = """
#include <stdlib.h>
__attribute__((noinline)) double along(double *a, int n) {
    double s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }
__attribute__((noinline)) double across(double *a, int n) {
    double s = 0; for (int j = 0; j < 64; j++) for (int i = j; i < n; i += 64) s += a[i]; return s; }
int main(void) { int n = 1 << 16; double *a = calloc(n, sizeof *a); return along(a, n) + across(a, n) > 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    for tool, package in (("valgrind", "valgrind"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            pytest.skip(f"needs Debian's package {package}")
    folder = tmp_path_factory.mktemp("program")
    (folder / "a.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / "a", folder / "a.c"], check=True)
    return folder / "a"


def test_real_program(program, tmp_path):
    samples = Cachegrind(at_least=10_000).run([str(program)], workload="sums", keep=tmp_path / "raw")
    assert samples.kind == "simulated"
    place = samples.table.set_index(["place", "event"])["count"]
    # 65536 doubles fill 8192 lines of 64 bytes: once each along the array; across it, a line is gone before it is
    # used again (64 rounds over 1024 lines of 64 KiB in a cache of 32 KiB).
    assert place["along", "Dr"] == pytest.approx(65536, abs=10)
    assert place["along", "D1mr"] == pytest.approx(8192, abs=20)
    assert place["across", "D1mr"] == pytest.approx(65536, abs=200)
    assert place["along", "DLmr"] == pytest.approx(8192, abs=20)  # calloc's pages are touched here first
    for f in ("along", "across"):
        cost = 10 * place[f, "L1m"] + 100 * place[f, "LLm"] + 10 * place[f, "Bm"]
        assert samples.intervals().set_index("place").loc[f, "time"] == place[f, "Ir"] + cost
    run = samples.runs.iloc[0]
    about = json.loads(run["parameters"])
    assert run["workload"] == "sums"
    assert "32768 B, 64 B, 8-way" in about["D1 cache"]  # the caches asked for, not the host's
    assert "estimate" in about["estimate"]
    assert any("functions of fewer than 10,000 instructions left out" in n for n in samples.notes)
    again = pk.read_samples(tmp_path / "raw").table
    assert again[again["place"] == "across"]["count"].tolist() == place["across"].tolist()


def test_smaller_cache_and_other_penalties(program):
    small = Cachegrind(at_least=10_000, ll="65536,16,64", ll_penalty=0, branch_penalty=0).run(
        [str(program)], workload="small"
    )
    place = small.table.set_index(["place", "event"])["count"]
    assert place["across", "DLmr"] == pytest.approx(65536, abs=200)
    assert place["across", "estimated-cycles"] == place["across", "Ir"] + 10 * place["across", "L1m"]
    assert list(small.runs.index) == ["small"]
