"""A kernel or a header that defines or undefines a dimension's macro: the row would not be what it says."""

import pytest

from perfkit.collectors.host import toolchain
from perfkit.collectors.microbenchmark.compile import batches_of, compile_batch
from perfkit.study.study import Study

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
