"""Code of a library that was inlined counts for the user's line that called it."""

import subprocess
from collections import Counter
from pathlib import Path

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.lines import _functions, _name, inlined_from, places_of
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.trace.standing import is_system

BUBBLE = """#include <cstddef>
#include <utility>
#include <vector>
__attribute__((noinline)) void bubble(std::vector<int>& v) {
    for (std::size_t i = 0; i < v.size(); i++)
        for (std::size_t j = 1; j < v.size() - i; j++)
            if (v[j - 1] > v[j])
                std::swap(v[j - 1], v[j]);
}
int main() {
    std::vector<int> v(60);
    for (int i = 0; i < 60; i++) v[i] = i * 37 % 61;
    bubble(v);
    return v[0] > v[1];
}
"""


def test_the_standard_library_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "b.cpp").write_text(BUBBLE)
    subprocess.run(["g++", "-O2", "-g", "b.cpp", "-o", "b"], cwd=tmp_path, check=True)
    trace = Tracer().run(tmp_path / "b", "bubble")
    runs: Counter[tuple[str, int]] = Counter()
    for file, line, count in zip(trace.code.file, trace.code.line.tolist(), trace.instruction_counts(), strict=True):
        runs[Path(file).name, line] += int(count)
    assert {file for file, _ in runs} == {"b.cpp"}
    assert runs["b.cpp", 8] > 500  # the stores of the swap
    swap = next(file for file, line in zip(trace.code.file, trace.code.line, strict=True) if line == 8)
    assert inlined_from(trace, swap, 8) == ("std::swap",)
    assert inlined_from(trace, swap, 3) == ()
    assert is_system("/rustc/0/library/core/src/slice/mod.rs")


def test_the_languages_of_c_are_those_that_dwarf_calls_so():
    from elftools.dwarf import constants

    from perfkit.collectors.tracer import lines

    names = ("DW_LANG_C89", "DW_LANG_C", "DW_LANG_C99", "DW_LANG_C11")
    assert lines._LANGUAGES_C[:4] == tuple(getattr(constants, name) for name in names)


class Counted(int):
    """A number that counts how often it is compared."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Counted.times += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.times += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        Counted.times += 1
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        Counted.times += 1
        return int(self) >= int(other)


def test_each_function_looks_at_its_own_addresses(tmp_path: Path) -> None:
    """Of 3,000 functions each compared the addresses of all: their lines took 100 s."""
    functions = "".join(f"__attribute__((noinline)) int f{k}(int x) {{\n return x * {k + 3};\n}}\n" for k in range(300))
    (tmp_path / "many.c").write_text(functions + "int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-O1", "-g", "many.c", "-o", "many"], cwd=tmp_path, check=True)
    symbols = ElfFile(tmp_path / "many").functions
    Counted.times = 0
    asked = [Counted(symbols[f"f{k}"].address) for k in range(300)]
    found = places_of(tmp_path / "many", asked)
    assert {line for _, line in found.values()} == {3 * k + 2 for k in range(300)}
    assert 0 < Counted.times < 60 * 300  # to be sorted and found, some ten comparisons each time: 300 times 300 before


def test_functions_are_read_in_the_order_of_the_file_and_those_of_namespaces_among_them(tmp_path):
    """Read from the end on, each entry moved all others of a list: 100 s of a C++ unit with 300,000 of them."""
    from elftools.elf.elffile import ELFFile

    source = tmp_path / "a.cpp"
    source.write_text(
        "int a(int x) { return x; }\n"
        "namespace one { int b(int x) { return x; } namespace two { int c(int x) { return x; } } }\n"
        "int d(int x) { return x; }\n"
    )
    subprocess.run(["g++", "-g", "-O1", "-c", source, "-o", tmp_path / "a.o"], check=True)
    with (tmp_path / "a.o").open("rb") as file:
        (unit,) = ELFFile(file).get_dwarf_info().iter_CUs()
        found = [(die.offset, _name(die)) for die in _functions(unit.get_top_DIE())]
    assert found == sorted(found)
    assert {name for _, name in found} == {"a", "one::b", "one::two::c", "d"}
