"""Source lines of traced instructions: from the line tables of gcc and clang, and kept with the trace."""

import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.kernels import BUILDS, compile_kernel, corpus_kernel
from perfkit.collectors.tracer.lines import _LANGUAGES_C, Loaded, _language, annotate, places_of
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.simulators.gus.gus import Gus

pytest.importorskip("elftools", reason="pyelftools is not installed: pip install -r locks/dev.lock")

COMPILERS = [
    "gcc",
    pytest.param(
        "clang", marks=pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed (apt clang)")
    ),
]
# Every statement has a line of its own, and an instruction that only it can have made.
SOURCE = """\
double f(const double *a, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s = s * 3.0 +
            a[i];
    return __builtin_sqrt(s);
}
"""
INTRINSICS = """\
#include <immintrin.h>
void f(double *a) {
    __m256d x = _mm256_loadu_pd(a);
    x = _mm256_add_pd(x, x);
    x = _mm256_div_pd(x, _mm256_loadu_pd(a + 4));
    _mm256_storeu_pd(a, x);
}
"""


def line_of(trace, mnemonic: str) -> set[int]:
    frame = trace.to_frame()
    return set(frame["line"][frame["text"].str.startswith(mnemonic)].tolist())


def sections(path: Path) -> dict[str, bytes]:
    """What of a library is loaded: code and data."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        wanted = [ELFFile(file).get_section_by_name(name) for name in (".text", ".rodata", ".data", ".eh_frame")]
        return {section.name: section.data() for section in wanted if section is not None}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_instruction_has_the_line_it_was_made_of(compiler):
    trace = compile_kernel(SOURCE, "f", flags="-O1 -fno-math-errno", compiler=compiler).trace(np.ones(8), 8)
    assert line_of(trace, "mulsd") == {4}
    assert line_of(trace, "addsd") == {4}
    assert line_of(trace, "sqrtsd") == {6}
    assert set(trace.code.file) == {"kernel.c"}
    where = trace.places()
    multiply = trace.to_frame()["text"].str.startswith("mulsd").to_numpy().argmax()
    assert where["source_line"][multiply] == "s = s * 3.0 +"
    assert trace.provenance.sources == {"kernel.c": SOURCE}
    assert "no_lines" not in trace.provenance.extra


@pytest.mark.parametrize("compiler", COMPILERS)
def test_intrinsics_are_the_line_that_uses_them(compiler):
    trace = compile_kernel(INTRINSICS, "f", flags="-O2 -march=haswell", compiler=compiler).trace(np.ones(8))
    assert line_of(trace, "vaddpd") == {4}
    assert line_of(trace, "vdivpd") == {5}
    assert set(trace.code.file) == {"kernel.c"}


@pytest.mark.parametrize("name", ["correlation-v5", "cholesky"])
@pytest.mark.parametrize("build", [*BUILDS, "clang"])
def test_line_tables_change_no_instruction(name, build):
    clang = build == "clang"  # which does not know all of the builds' flags
    if clang and shutil.which("clang") is None:
        pytest.skip("clang is not installed (apt clang)")
    flags = ["-O3", "-march=haswell"] if clang else BUILDS[build]
    compiler = "clang" if clang else "gcc"
    pair = [corpus_kernel(name, flags=[*flags, *more], compiler=compiler) for more in ([], ["-g0"])]
    codes = [sections(k.path) for k in pair]
    assert len(codes[0][".text"]) > 200
    assert codes[0] == codes[1]
    assert len(pair[0].path.read_bytes()) > len(pair[1].path.read_bytes())  # and the one does have them


def test_the_same_source_gives_the_same_library_wherever_it_lies():
    pair = [compile_kernel(SOURCE, "f", flags="-O2") for _ in range(2)]
    assert pair[0].path.parent != pair[1].path.parent
    assert len({hashlib.sha256(k.path.read_bytes()).hexdigest() for k in pair}) == 1


def test_a_header_of_the_corpus_is_kept_and_named():
    trace = corpus_kernel("correlation-v5", "avx2", defines={"M": 48, "N": 48}).trace(limit=20_000)
    assert set(trace.code.file) == {"correlation-v5.c", "correlation.h"}  # mirror() is inlined from the header
    assert set(trace.provenance.sources) == {"correlation-v5.c", "correlation.h"}
    fma = [t for t, s in zip(trace.code.text, trace.places()["source_line"], strict=True) if "a0 * b0 + q0" in s]
    assert fma
    assert all("fmadd" in t or "mov" in t or "broadcast" in t for t in fma)


def test_lines_travel_with_the_file_and_old_files_still_open(tmp_path):
    trace = compile_kernel(SOURCE, "f", flags="-O1 -fno-math-errno").trace(np.ones(8), 8)
    back = pk.Trace.load(trace.save(tmp_path / "new.trace"))
    assert back.code.file == trace.code.file
    assert back.code.line.tolist() == trace.code.line.tolist()
    assert back.provenance.sources == {"kernel.c": SOURCE}
    assert back.head(20).places()["source_line"] == trace.places()["source_line"]
    # A trace without lines is written as before: no such columns.
    bare = replace(trace, code=replace(trace.code, file=(), line=np.zeros(0, dtype=np.int32)))
    again = pk.Trace.load(bare.save(tmp_path / "bare.trace"))
    assert set(again.code.file) == {""}
    assert not again.code.line.any()
    old = pk.Trace.load(Path(__file__).parent / "fixtures" / "without-lines.trace")  # written before there were lines
    assert old.to_frame()["line"].isna().all()
    assert old.places()["source_line"] == [""] * old.code.instruction_count
    assert old.instruction_count == 5010


def test_shipped_traces_have_lines():
    spilled = pk.datasets.load("traces/correlation-v5-small")
    frame = spilled.to_frame().assign(source=spilled.places()["source_line"])
    stores = frame[frame["text"].str.startswith("vmovapd [rsp")]
    assert len(stores) > 0
    assert set(stores["file"]) == {"correlation-v5.c"}
    assert stores["source"].str.contains(" \\+ [q-t][0-3];").any()  # a sum that did not fit the registers


def test_gus_says_the_lines(monkeypatch):
    trace = compile_kernel(SOURCE, "f", flags="-O1 -fno-math-errno").trace(np.ones(8), 8)
    frame = Gus(pk.Microarchitecture.load("skylake_x")).run(trace).to_frame()
    row = frame[frame["text"].str.startswith("sqrtsd")].iloc[0]
    assert (row["file"], row["line"], row["source_line"]) == ("kernel.c", 6, "return __builtin_sqrt(s);")


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
@pytest.mark.parametrize("compiler", ["gcc", "aarch64-linux-gnu-gcc", "riscv64-linux-gnu-gcc"])
def test_an_emulated_kernel_has_the_lines_of_its_source(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = "double x[64], s;\nvoid f(void) {\n    for (int i = 0; i < 64; i++)\n        s += x[i];\n}\n"
    trace = compile_kernel(source, "f", flags="-O1", compiler=compiler).trace(backend="qemu")
    assert trace.provenance.backend == "qemu"
    frame = trace.to_frame()
    assert set(frame["line"][frame["text"].str.contains("addsd|fadd")]) == {4}
    assert trace.provenance.sources == {"kernel.c": source}


def test_a_program_has_lines_where_it_was_built_with_them(tmp_path):
    text = tmp_path / "main.c"
    text.write_text(SOURCE.replace("double f", "__attribute__((noipa)) double f") + "int main(void) { double a[4] = "
                    "{1, 2, 3, 4}; return (int)f(a, 4); }\n")  # fmt: skip
    for flag, expected in (("-g", {4}), ("-g0", {None})):
        path = tmp_path / f"program{flag}"
        subprocess.run(["gcc", "-O1", "-fno-math-errno", flag, "-o", path, text], check=True)
        trace = Tracer().run(path, "f")
        lines = trace.to_frame()["line"][trace.to_frame()["text"].str.startswith("mulsd")]
        assert {None if np.isnan(v) else int(v) for v in lines.astype("float64")} == expected
        assert ("no_lines" in trace.provenance.extra) == (flag == "-g0")
    assert "compile it with -g" in trace.provenance.extra["no_lines"]


def test_callees_of_another_unit_have_their_own_file(tmp_path):
    (tmp_path / "one.c").write_text(
        "double g(double);\n__attribute__((noipa)) double f(double x) { return g(x) + 1; }\n"
        "int main(void) { return (int)f(2); }\n"
    )
    (tmp_path / "two.c").write_text("\n\n\n__attribute__((noipa)) double g(double x) { return x / 3; }\n")
    path = tmp_path / "program"
    subprocess.run(["gcc", "-O1", "-g", "-o", path, tmp_path / "one.c", tmp_path / "two.c"], check=True)
    trace = Tracer(callees=True).run(path, "f")
    frame = trace.to_frame()
    divide = frame[frame["text"].str.startswith("divsd")].iloc[0]
    assert (Path(divide["file"]).name, divide["line"]) == ("two.c", 4)
    assert {Path(f).name for f in frame["file"][frame["function"] == "f"]} == {"one.c"}
    assert {Path(f).name for f in trace.provenance.sources} == {"one.c", "two.c"}


@pytest.mark.parametrize("version", [4, 5])
def test_a_header_in_a_folder_has_its_whole_name(tmp_path, version):
    """Tables of DWARF 4 count folders from one, the compiler's own being 0; those of DWARF 5 count from it."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one/a.h").write_text("static inline double g(double x) { return x / 3; }\n")
    (tmp_path / "two/b.h").write_text("\nstatic inline double h(double x) { return x * x; }\n")
    text = tmp_path / "main.c"
    text.write_text(
        '#include "one/a.h"\n#include "two/b.h"\n'
        "__attribute__((noipa)) double f(double x) { return g(x) + h(x); }\nint main(void) { return (int)f(2); }\n"
    )
    path = tmp_path / "program"
    subprocess.run(["gcc", "-O1", f"-gdwarf-{version}", "-o", path, text], check=True, cwd=tmp_path)
    frame = Tracer().run(path, "f").to_frame()
    found = {
        row.text.partition(" ")[0]: (str(Path(row.file).relative_to(tmp_path)), int(row.line))
        for row in frame.itertuples()
        if row.text.startswith(("mulsd", "divsd"))
    }
    assert found == {"divsd": ("one/a.h", 1), "mulsd": ("two/b.h", 2)}


def test_a_programs_own_sources_are_kept_as_long_as_they_are_those_it_was_built_from(tmp_path):
    text = tmp_path / "a file.c"
    text.write_text("#include <math.h>\n" + SOURCE.replace("double f", "__attribute__((noipa)) double f")
                    + "int main(void) { double a[4] = {1, 2, 3, 4}; return (int)f(a, 4); }\n")  # fmt: skip
    path = tmp_path / "program"
    subprocess.run(["gcc", "-O1", "-fno-math-errno", "-g", "-o", path, text], check=True)
    trace = Tracer().run(path, "f")
    assert trace.provenance.sources == {str(text): text.read_text()}  # and none of the system's
    assert any(line.startswith("for") for line in trace.places()["source_line"])
    later = path.stat().st_mtime + 10
    os.utime(text, (later, later))
    assert Tracer().run(path, "f").provenance.sources == {}


@pytest.mark.parametrize(("length", "kept"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_the_text_of_a_source_is_kept_up_to_a_million_characters(tmp_path, length, kept):
    text = "int f(int x) { return 2 * x; }\n"
    (tmp_path / "f.c").write_text(text + "// " + (length - len(text) - 4) * "x" + "\n")
    origin = compile_kernel(tmp_path / "f.c").trace(1).provenance
    assert ([len(text) for text in origin.sources.values()] == [length]) == kept
    assert ("is too long to be kept" in origin.extra.get("no_text", "")) != kept


PART = """inline __attribute__((always_inline)) double part(double x) {
    return x * 1.5 + 1;
}
"""
USES = """#include "part.h"
__attribute__((noinline)) double f(double x) { return part(x); }
int main(int n, char **words) { return (int)f(n + !words); }
"""
OTHER = PART.replace("x * 1.5 + 1", "unrelated")


@pytest.fixture(params=["gcc", "clang"])
def replaced(request, tmp_path):
    """Return a program and a source of it that is not the text it was compiled from, though it is older."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} on this machine")
    (tmp_path / "part.h").write_text(PART)
    (tmp_path / "uses.c").write_text(USES)
    words = [request.param, "-O1", "-gdwarf-5", "-o", tmp_path / "program", tmp_path / "uses.c"]
    subprocess.run(words, check=True, timeout=60)
    return tmp_path / "program", tmp_path / "part.h", request.param


def _older(path, text):
    path.write_text(text)
    os.utime(path, (1e9, 1e9))


def test_a_source_replaced_by_an_older_one_is_left_out_with_the_reason(replaced):
    program, header, compiler = replaced
    assert Tracer().run(program, "f").provenance.sources[str(header)] == PART
    _older(header, OTHER)
    origin = Tracer().run(program, "f").provenance
    assert str(header) not in origin.sources
    assert str(header.parent / "uses.c") in origin.sources
    (reason,) = json.loads(origin.extra["no_text"]).values()
    assert ("MD5" in reason) == (compiler == "clang")
    assert compiler == "clang" or "replaced" in reason
    header.unlink()
    assert json.loads(Tracer().run(program, "f").provenance.extra["no_text"]) == {str(header): "is not there"}


def test_where_the_compiler_wrote_a_checksum_the_same_text_is_kept_whatever_its_date(replaced):
    program, header, compiler = replaced
    os.utime(header, (2e9, 2e9))
    assert (str(header) in Tracer().run(program, "f").provenance.sources) == (compiler == "clang")


def test_a_source_with_fewer_lines_than_were_compiled_is_left_out(replaced):
    program, header, compiler = replaced
    header.write_text(PART.splitlines()[0])
    os.utime(header, (1e9, 1e9))
    os.utime(program)  # put in place later than the source, as both are by a copy
    (reason,) = json.loads(Tracer().run(program, "f").provenance.extra["no_text"]).values()
    assert ("has 1 lines, and the program was compiled from 2" if compiler == "gcc" else "MD5") in reason


def test_a_damaged_line_table_costs_the_lines_only():
    kernel = compile_kernel(SOURCE, "f", flags="-O1 -fno-math-errno")
    trace = kernel.trace(np.ones(8), 8)
    data = kernel.path.read_bytes()
    at = data.index(b".debug_line\0")  # the section's name; the section itself lies before it
    rng = np.random.default_rng(0)
    outcomes = Counter()
    bare = replace(trace, code=replace(trace.code, file=(), line=np.zeros(0, dtype=np.int32)))
    load = int(trace.code.pc.min()) & ~0xFFF
    loaded = Loaded(str(kernel.path), load, load + 4096, load - 0x1000)
    for _ in range(30):
        broken = bytearray(data)
        for k in rng.integers(at - 1200, at, 40):
            broken[k] = rng.integers(256)
        kernel.path.write_bytes(broken)
        found = annotate(bare, [loaded], kernel.folders)
        assert found.stream.tolist() == trace.stream.tolist()
        outcomes["no_lines" in found.provenance.extra] += 1
    assert outcomes[True] > 0


def test_an_address_outside_of_the_table_has_no_line():
    kernel = compile_kernel(SOURCE, "f", flags="-O1 -fno-math-errno")
    assert places_of(kernel.path, [0x10, 0x7FFFFFFF]) == {}


def test_a_unit_that_names_no_language_is_not_taken_for_c():
    assert _language(SimpleNamespace(attributes={})) not in _LANGUAGES_C
