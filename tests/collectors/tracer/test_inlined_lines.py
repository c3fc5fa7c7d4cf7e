"""Code of a library that was inlined counts for the user's line that called it."""

import subprocess
from collections import Counter
from pathlib import Path

from perfkit.collectors.tracer.lines import inlined_from
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
