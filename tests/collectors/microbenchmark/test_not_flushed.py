"""A cold region whose data no flush reaches: its first execution finds them warm, which its row must say."""

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.compile import batches_of, compile_batch
from perfkit.study.study import Study

SUM = "PK_REGION { double s = 0; for (int i = 0; i < N; i++) s += WHAT[i]; PK_KEEP_VECTOR(s); }\n"
OWN = "static double table[1000];\nPK_SETUP { for (int i = 0; i < 1000; i++) table[i] = i; }\n"
HEAP = "#include <stdlib.h>\nstatic double *heap;\nPK_SETUP { heap = calloc(N, 8); }\n"
RANGE = "PK_FLUSH { pk_flush_range(table, sizeof table); }\n"
BYTES = "table (8,000 bytes), "


def note(tmp_path, kernel, compiler="gcc", cache="cold", flags="-O2", **more):
    """Return what the only row of a study is told when it is compiled."""
    study = Study(kernel, {"N": [1000]}, cache=cache, compilers=[compiler], flags=[flags], **more)
    todo = [(one, "row") for one in study.configurations()]
    (built,) = (found for batch in batches_of(study, todo, 1) for found in compile_batch(batch, tmp_path))
    assert not built.failed, built.message
    return built.message


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O3 -mavx2 -ffast-math"])
def test_a_static_array_is_told_and_one_that_is_flushed_is_not(tmp_path, compiler, flags):
    """A stranger's: a cold study of a static array gave the hot figure, settled, without a word."""
    kernel = "#define WHAT table\n" + OWN + SUM
    told = note(tmp_path / "1", kernel, compiler, flags=flags)
    assert told == (
        f"not cold: the kernel uses {BYTES}which is not flushed, as `memory` alone is: "
        "PK_FLUSH { pk_flush_range(address, bytes); }"
    )
    assert note(tmp_path / "2", kernel, compiler, cache="hot", flags=flags) == ""
    assert note(tmp_path / "3", kernel + RANGE, compiler, flags=flags) == ""


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("#define WHAT ((double *)pk->memory)\n" + SUM, ""),
        ("#define WHAT ((double *)pk->memory)\n" + OWN + SUM, ""),  # the array is PK_SETUP's alone
        ("static long turn;\n#define WHAT (turn++, (double *)pk->memory)\n" + SUM, ""),
        ("#define WHAT table\n" + OWN + SUM + "PK_FLUSH { pk_flush_range(pk->memory, 64); }\n",
         f"{BYTES}which PK_FLUSH does not flush"),
        ("#define WHAT heap\n" + HEAP + SUM, "what it allocates (calloc), which is not flushed"),
        ("#define WHAT heap\n" + HEAP + SUM + "PK_FLUSH { pk_flush_range(heap, 8 * N); }\n", ""),
        ("static const double fixed[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};\n"
         "#define WHAT(i) fixed[i * step % 9]\n" + SUM.replace("WHAT[i]", "WHAT(i)"), "fixed (72 bytes), "),
        ("static volatile float a[99], b[99], c[99], d[99], e[99];\n#define WHAT(i) a[i] + b[i] + c[i] + d[i] + e[i]\n"
         + SUM.replace("WHAT[i]", "WHAT(i % 99)"), "2 more of its own, which is not flushed"),
    ],
)  # fmt: skip
def test_what_is_not_flushed_is_named(tmp_path, compiler, kernel, told):
    if compiler == "g++":
        kernel = kernel.replace("heap = calloc", "heap = (double *)calloc")
    found = note(tmp_path, kernel, compiler, language="c++" if compiler == "g++" else "c")
    assert told in found
    assert bool(found) == bool(told)


def test_new_allocates_too(tmp_path):
    kernel = "static double *heap;\nPK_SETUP { heap = new double[N]; }\n" + SUM.replace("WHAT", "heap")
    assert "what it allocates (new)" in note(tmp_path, kernel, "g++", language="c++")


@pytest.mark.measures
@pytest.mark.words
def test_a_rows_message_says_it_and_is_right():
    """Flushed as the row says, the same kernel takes longer: its 125 lines come from memory."""
    kernel = "#define WHAT table\n" + OWN + SUM
    policy = {"repetitions": 3, "attempts": 2}
    warm, cold = (
        Microbenchmark(jobs=1).collect(Study(text, {"N": [1000]}, cache="cold", policy=policy)).table.iloc[0]
        for text in (kernel, kernel + RANGE)
    )
    assert "not cold: the kernel uses table" in warm["message"]
    assert "not cold" not in cold["message"]
    assert cold["cycles"] > 1.2 * warm["cycles"]


ELSEWHERE = """#define _GNU_SOURCE
#include <unistd.h>
typedef struct { long next; char room[4152]; } node; // each on a page of its own
static _Thread_local node own[65];
static node *list;
PK_SETUP {
    list = WHERE == 0 ? (node *)pk->memory : WHERE == 1 ? own : (node *)sbrk(65 * sizeof *list);
    for (int i = 0; i < 64; i++) list[i].next = (i * 27 + 11) % 64;
}
PK_REGION {
    node here[2];
    long at = 0;
    here[0].next = 0;
    PK_KEEP(here[0].next);
    for (int k = 0; k < 64; k++) at = (WHERE == 3 ? here : list)[at].next;
    PK_KEEP(at);
}
"""


@pytest.mark.measures
@pytest.mark.words
def test_a_row_that_no_flush_slows_says_so():
    """A stranger's list in thread-local memory, from `sbrk` or `shmat`: 684 cycles for 17,000, without a word."""
    policy = {"repetitions": 3, "attempts": 2}
    study = Study(ELSEWHERE, {"WHERE": [0, 1, 2, 3]}, cache="cold", memory="1 MiB", policy=policy)
    table = Microbenchmark(jobs=1).collect(study).table.set_index("WHERE")
    told = table["message"].str.contains("not cold: executions take no longer than behind a flush of other memory")
    assert told.to_dict() == {0: False, 1: True, 2: True, 3: True}, table[["cycles", "message"]].to_string()
    assert table["cycles"][0] > 5 * table["cycles"][1]
