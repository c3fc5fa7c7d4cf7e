"""Functions of one name: static ones of several files are told apart, and the others are named in the answer."""

import shutil
import subprocess

import pytest

import perfkit as pk
from perfkit.collectors.profile.hot import shown
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import DataError
from tests.diagnosis.programs import needed

pytestmark = needed

HELPER = """
static __attribute__((noipa)) long helper(const long *p, long n) {
    long s = 1;
    for (long i = 0; i < n; i++) s = s * p[i] %s;
    return s;
}
long call_%s(const long *p, long n) { return helper(p, n); }
"""
MAIN = """
long call_a(const long *, long), call_b(const long *, long);
int main(void) {
    static long p[20000];
    long s = 0;
    for (int k = 0; k < 3000; k++) s += call_a(p, 20000) + call_b(p, 20000);
    return (int)s;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one name")
    (folder / "a.c").write_text(HELPER % ("+ 7", "a"))
    (folder / "b.c").write_text(HELPER % ("* p[i] * 7", "b"))
    (folder / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-O2", "-g", "a.c", "b.c", "main.c", "-o", "twice"], cwd=folder, check=True, timeout=120)
    return folder / "twice"


def test_every_static_function_has_a_name_of_its_own(program):
    elf = ElfFile(program)
    assert {"a.c:helper", "b.c:helper", "call_a", "main"} <= elf.functions.keys()
    assert "helper" not in elf.functions
    for name in ("a.c:helper", "b.c:helper"):
        assert elf.holds(elf.functions[name].address + 1).name == name
        assert elf.function(name).name == name
    with pytest.raises(DataError, match=r"several functions are called 'helper'.*: a\.c:helper, b\.c:helper"):
        elf.function("helper")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_those_of_one_file_name_are_told_apart_by_their_addresses(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.cpp").write_text(HELPER % ("+ 1", folder))
    (tmp_path / "m.cpp").write_text(
        "long call_one(const long *, long); int main() { long p = 1; return call_one(&p, 1); }"
    )
    subprocess.run(["g++", "-O1", "one/x.cpp", "two/x.cpp", "m.cpp", "-o", "t"], cwd=tmp_path, check=True, timeout=120)
    elf = ElfFile(tmp_path / "t")
    mine = {name for name in elf.functions if "helper" in name}
    assert mine == {f"{elf.functions[name].address:#x}:_ZL6helperPKll" for name in mine}
    assert len(mine) == 2
    names = shown({(str(elf.path), name) for name in mine}, {str(elf.path): elf}).values()
    assert sorted(names) == sorted(f"{elf.functions[name].address:#x}:helper" for name in mine)


def test_the_hottest_of_one_name_is_explained_and_the_other_named(program):
    found = pk.why(program, "helper", seconds=1)
    assert found.function == "b.c:helper"
    assert {each.name for each in found.candidates if each.share > 0.1} == {"a.c:helper", "b.c:helper"}
    assert found.lines.iloc[0]["place"] == "b.c:4"
    assert any("others called helper" in each and "a.c:helper (" in each for each in found.unseen)
    assert any("most of that in a.c:helper" in each for each in found.unseen)


def test_what_a_function_jumps_to_counts_as_recorded(program):
    found = pk.why(program, "call_a", seconds=1)
    assert found.lines.iloc[0]["place"] == "a.c:4"
    (outside,) = [each for each in found.unseen if "outside of what was recorded" in each]
    share = next(each.share for each in found.candidates if each.name == "a.c:helper")
    assert 0.9 - share < float(outside.partition("%")[0]) / 100 < 1.02 - share
