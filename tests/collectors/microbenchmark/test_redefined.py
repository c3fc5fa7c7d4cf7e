"""Dimensions are macros: a kernel or header that changes one, and names that others have as well."""

import re

import pytest

from perfkit.collectors.host import toolchain
from perfkit.collectors.microbenchmark.compile import batches_of, compile_batch
from perfkit.collectors.microbenchmark.sources import LOOP, NATIVE
from perfkit.errors import SettingError
from perfkit.study.study import _KEYWORDS, RESERVED, Study, text_without_comments

BODY = "PK_REGION { long n = N; PK_KEEP(n); }\n"
DEFINED = "the dimension N is 100 in this row, and is defined as 500 in {}, line {}"


def message(tmp_path, kernel, header="", flags="-O1", dimensions=None, **settings):
    """Return what is said of the only row of a study."""
    (tmp_path / "own.h").write_text(header)
    (tmp_path / "k.c").write_text(kernel)
    study = Study(tmp_path / "k.c", dimensions or {"N": [100]}, flags=[flags], **settings)
    todo = [(one, "row") for one in study.configurations()]
    (built,) = (found for batch in batches_of(study, todo, 1) for found in compile_batch(batch, tmp_path / "objects"))
    assert built.failed == bool(built.message)
    return built.message


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("kernel", "header", "told"),
    [
        (f"#define N 500\n{BODY}", "", DEFINED.format("k.c", 1)),
        (f'#include "own.h"\n{BODY}', "\n#define N 500 /* default */\n", DEFINED.format("own.h", 2)),
        (f'#include "own.h"\n#define N \\\n  500\n{BODY}', "", DEFINED.format("k.c", 2)),
        (f"#undef N\n#define N 500\n{BODY}", "", DEFINED.format("k.c", 2)),
        (f"#undef N\nenum {{ N = 500 }};\n{BODY}", "", "undefined before it is used in k.c, line 1"),
        (
            '#include "own.h"\n#ifdef N\nPK_REGION { }\n#else\nPK_REGION { PK_KEEP(step); }\n#endif\n', "#undef N\n",
            "undefined before it is used in own.h, line 1",
        ),
    ],
)  # fmt: skip
def test_what_changes_a_dimension_before_it_is_used_fails_the_row(tmp_path, compiler, kernel, header, told):
    """A stranger's: 12 settled rows of N=100 to 400 were all those of N=500."""
    assert told in message(tmp_path, kernel, header, compilers=[compiler])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("kernel", "header"),
    [
        (f"#ifndef N\n#define N 500\n#endif\n{BODY}", ""),
        (f"#if 0\n#define N 500\n#endif\n{BODY}", ""),
        (f"/*\n#define N 500\n*/\n{BODY}", ""),
        (f"#define N   100\n{BODY}", ""),
        (f"#undef N\n#define N 100\n{BODY}", ""),
        (f"{BODY}#undef N /* N is no longer wanted */\n// N\n#undef N\n", ""),
        ('#include "own.h"\nPK_REGION { long n = of_header; PK_KEEP(n); }\n', "enum { of_header = N };\n#undef N\n"),
        (f'#pragma push_macro("N")\n#undef N\n#define N 7\n#pragma pop_macro("N")\n{BODY}', ""),
        (f"#define NN 500\n#undef M\n{BODY}", ""),
    ],
)
def test_what_leaves_it_as_it_was_where_it_is_used_does_not(tmp_path, compiler, kernel, header):
    assert message(tmp_path, kernel, header, compilers=[compiler]) == ""


def test_a_source_beside_the_kernel_is_asked_too(tmp_path):
    (tmp_path / "more.c").write_text("#define N 500\nlong more(void) { return N; }\n")
    told = message(
        tmp_path, "long more(void);\nPK_REGION { long n = more(); PK_KEEP(n); }\n", sources=[str(tmp_path / "more.c")]
    )
    assert DEFINED.format("more.c", 1) in told


def test_a_preprocessor_is_only_asked_where_a_text_changes_a_dimension(tmp_path, monkeypatch):
    asked = []
    run = toolchain.run_tool

    def noted(words, **more):
        asked.append(words)
        return run(words, **more)

    monkeypatch.setattr(toolchain, "run_tool", noted)
    assert message(tmp_path, f"#include <immintrin.h>\n#define OTHER 5\n{BODY}") == ""
    assert not [words for words in asked if "-dD" in words]
    assert message(tmp_path, f"#ifndef N\n#define N 5\n#endif\n{BODY}") == ""
    assert len([words for words in asked if "-dD" in words]) == 1


@pytest.mark.parametrize("flag", ["-E", "-S", "-fsyntax-only", "--version", "-c"])
def test_flags_by_which_no_object_is_made_fail_their_row(tmp_path, flag):
    """A stranger's: `-O2 -S` beside `-O2` ended the whole study with "objdump cannot read"."""
    told = message(tmp_path, BODY, flags=f"-O1 {flag}")
    assert "no shared object is made" in told


# What kernels use of perfkit.h, and of the C library through it; words of the preprocessor, of C and of compilers.
LEFT = {
    "pk", "step", "memory", "memory_size", "stddef", "stdint", "stdio", "stdlib", "string", "h",
    "size_t", "uint64_t", "uintptr_t", "snprintf", "strcmp", "ifndef", "ifdef", "endif", "define", "defined", "include",
    "elif",
}  # fmt: skip
NAMES = [
    "n", "i", "j", "x", "it", "at", "end", "from", "size", "low", "high", "name", "value", "known", "report",
    "reports", "kept", "lost", "begun", "begins", "ticks", "marked", "mixed", "thread", "label", "fixed", "given",
    "used", "unused", "retain", "weak", "visibility", "noinline", "always_inline", "execution_ends", "items", "got",
    "data"
]  # fmt: skip


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_names_that_only_perfkit_has_are_free_for_dimensions(tmp_path, compiler):
    """A stranger's: `n`, `i`, `step` and the like failed in gcc's own words about perfkit.h."""
    language = "c++" if "++" in compiler else "c"
    dimensions = {name: [7] for name in [*NAMES, "step"] if name not in RESERVED}
    kernel = (
        '#include "polybench.h"\nPK_SETUP { PK_REPORT("steps", pk->steps); }\n'
        "PK_FLUSH { pk_flush_range(pk->memory, 64); }\n"
        "PK_REGION { PK_BEGIN; long total = n + i + x + step; PK_KEEP(total); PK_END; }\n"
    )
    assert message(tmp_path, kernel, dimensions=dimensions, compilers=[compiler], language=language) == ""


def test_no_other_name_of_perfkits_headers_is_one_that_a_dimension_may_have():
    text = re.sub(r"#include.*", "", (NATIVE / "perfkit.h").read_text()) + LOOP
    macros = re.findall(r"#define (\w+)\(([\w, .]*)\)", text)
    own = {name for _, parameters in macros for name in re.findall(r"\w+", parameters)}  # replaced before others are
    found = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text_without_comments(text)))
    free = {name for name in found - own - LEFT - RESERVED - _KEYWORDS if not name.lower().startswith(("pk_", "_"))}
    assert free - {"PERFKIT_H", "endif", "asm", "NULL"} == set()


@pytest.mark.parametrize("name", ["pk", "memory", "memory_size"])
def test_names_that_kernels_use_are_refused_for_dimensions(name):
    with pytest.raises(SettingError, match=rf"'{name}' cannot name a dimension: .*pk->memory"):
        Study("PK_REGION { PK_KEEP(step); }", {name: [1]})
    Study("int main(void) {\n    return 0;\n}\n", {name: [1]})


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("int n = 3; PK_KEEP(n);", 100), ("for (int n = 0; n < 3; n++) PK_KEEP_MEMORY();", 100),
        ("struct { int n; } s = {3}; PK_KEEP(s.n);", 100), ("int n = 3; PK_KEEP(n);", -1),
        ("int n = 3; PK_KEEP(n);", "'text'"), ("n = 3;", 100), ("n++;", 1.5),
    ],
)  # fmt: skip
def test_a_kernel_that_has_a_dimensions_name_for_something_else_is_told_in_one_line(tmp_path, line, value, compiler):
    told = message(
        tmp_path, f"PK_REGION {{\n{line}\n}}\n", dimensions={"n": [value]}, compilers=[compiler],
        language="c++" if "++" in compiler else "c",
    )  # fmt: skip
    assert f"the dimension n is a macro ({value} in this row), and k.c, line 2, has n for something else" in told
    assert "rename the dimension, or what the kernel calls n" in told
    assert "\n" not in told


def test_a_header_and_a_source_that_have_the_name_are_told_too(tmp_path):
    kernel = '#include "own.h"\nPK_REGION { long k = n; PK_KEEP(k); }\n'
    assert "and own.h, line 2, has n for" in message(tmp_path, kernel, "\nint f(int n);\n", dimensions={"n": [3]})
    told = message(tmp_path, "#include <strings.h>\nPK_REGION { PK_KEEP(step); }\n", dimensions={"index": [3]})
    assert "and a header of the system has index for something else" in told
    (tmp_path / "more.c").write_text("long more(long n) { return n; }\n")
    told = message(
        tmp_path, "long more(long);\nPK_REGION { long k = more(n); PK_KEEP(k); }\n", dimensions={"n": [3]},
        sources=[str(tmp_path / "more.c")],
    )  # fmt: skip
    assert "and more.c, line 1, has n for something else" in told


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("line", ["int k = nothing[n];", "int k = n", "int k = n + ;", "other(n)"])
def test_other_errors_keep_the_compilers_words(tmp_path, line, compiler):
    told = message(tmp_path, f"PK_REGION {{\n{line}\n}}\n", dimensions={"n": [3]}, compilers=[compiler])
    assert "error: " in told
    assert "for something else" not in told


def test_an_error_in_a_dimensions_value_names_the_dimension(tmp_path):
    """It was one in `56583ec7f3553153.c`, line 1, a file that no user has."""
    kernel = "PK_REGION { TYPE a = N; PK_KEEP(a); }\n"
    told = message(tmp_path, kernel, dimensions={"N": ["100 200"], "TYPE": ["lnog"]}, flags="-O1")
    assert "error: " in told
    assert "the dimension TYPE (lnog in this row): error: unknown type name 'lnog'" in told
    assert "row.c" not in told
