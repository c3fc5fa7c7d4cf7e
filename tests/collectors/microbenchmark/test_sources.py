"""What a study may be made of: variants that share nothing, headers, libraries, whole programs, C++, quoted flags."""

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from perfkit.collectors.host import toolchain
from perfkit.collectors.host.machine_state import read_state
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark import compile as compiling
from perfkit.collectors.microbenchmark.compile import batches_of, build_harness, compile_batch, shortened
from perfkit.collectors.microbenchmark.origin import metadata_of
from perfkit.collectors.microbenchmark.sources import NATIVE, idle_dimensions, leading_includes
from perfkit.errors import DataError, SettingError
from perfkit.study.study import Study, split_compiler

QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}
NOTES = (
    "a window is shorter than", "interrupts meet each of so long windows", "it never settled",
    "its windows take", "rare executions take", "work in fewer than", "work in some",
    "the region gave the processor up",  # as those do that wait for their threads
    "later executions take",  # page faults do, by tenths, and one pass of few windows is all that is asked for here
)  # fmt: skip


def collected(study, **settings):
    """Return the table of a study of which nothing is reported, unless that its windows are short or long, or vary."""
    table = Microbenchmark(jobs=1, **settings).collect(study).table
    assert [told for told in table["message"] if told and not told.startswith(NOTES)] == []
    return table


def test_only_what_every_variant_begins_with_is_precompiled():
    kernel = "/* one\n */ #include <math.h>\n\n// two\n#include <a/b.h>  // three\n#define N 1\n#include <late.h>\n"
    assert leading_includes(kernel) == ("", "#include <math.h>\n#include <a/b.h>\n")
    assert leading_includes("#define N 3\n#include <sched.h>\n") == ("", "")
    own = "// mine\n# define _GNU_SOURCE\n#define _FILE_OFFSET_BITS 64\n\n#include <sched.h>\n"
    assert leading_includes(own) == ("# define _GNU_SOURCE\n#define _FILE_OFFSET_BITS 64\n", "#include <sched.h>\n")
    assert leading_includes('#include "own.h"\n#include <math.h>\n') == ("", "")


def test_a_dimension_that_nothing_mentions_is_told(tmp_path):
    """SIZE=SMALL_DATASET defines no SMALL_DATASET: without a word, every row would measure the default size."""
    (tmp_path / "own.h").write_text("enum { OTHER = WIDTH };\n")
    dimensions = {
        "SIZE": ["MINI_DATASET", "SMALL_DATASET"], "NAME": ["a", "b"], "WIDTH": [1, 2], "N": [1, 2], "M": "[N + 1, 8]",
        "ONE": [1], "WIDTH2": [1, 2], "STEP": {"from": 1, "to": 4},
    }  # fmt: skip
    kernel = '#include "own.h"\nPK_REGION { PK_KEEP(M); }\n'
    study = Study(kernel, dimensions, sources=["{NAME}.c"], folder=str(tmp_path))
    assert idle_dimensions(study, [str(tmp_path / "own.h")]) == ["SIZE", "WIDTH2", "STEP"]
    lines = Study(dimensions={"R": [1, 2]}, assembly={"instructions": ["addq ${R}, %rax"]})
    assert idle_dimensions(lines, []) == []


@pytest.mark.parametrize("given", [{"include": ["inc"]}, {"flags": ["-O1 -Iinc"]}])
def test_a_header_beside_the_kernel_comes_before_those_of_other_folders(tmp_path, given):
    """As every compiler has it for a name in quotes; in angle brackets the folders that were named come first."""
    (tmp_path / "inc").mkdir()
    (tmp_path / "which.h").write_text("#define WHERE beside_the_kernel\n")
    (tmp_path / "inc" / "which.h").write_text("#define WHERE in_the_folder\n")
    for quoted, told in (('"which.h"', "beside_the_kernel"), ("<which.h>", "in_the_folder")):
        study = Study(f"#include {quoted}\nPK_REGION {{ long n = WHERE; PK_KEEP(n); }}", folder=str(tmp_path), **given)
        todo = [(one, f"k{quoted[0]}") for one in study.configurations()]
        (built,) = (found for batch in batches_of(study, todo, 1) for found in compile_batch(batch, tmp_path / told))
        assert told in built.message


def test_a_compiler_of_other_options_is_refused_with_what_to_do(tmp_path):
    """A study by rustc ended in its "Unrecognized option: 'f'"."""
    compiler = tmp_path / "rustc"
    compiler.write_text("#!/bin/sh\necho rustc 1.80.0\n", encoding="utf-8")
    compiler.chmod(0o755)
    row = Microbenchmark().collect(Study("PK_REGION { PK_KEEP(step); }", compilers=[str(compiler)])).table.iloc[0]
    assert row["status"] == "failed"
    assert "take gcc's options" in row["message"]
    assert "name that in `libraries`" in row["message"]


def test_a_compiler_beside_the_study_file(tmp_path):
    """Its path begins at the file's folder; another script of that name is another compiler, whatever it wraps."""
    wrapper = tmp_path / "own cc"
    wrapper.write_text('#!/bin/sh\nexec gcc -DEXTRA=1 "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "s.yaml").write_text("kernel: k.c\ncompilers: [\"'./own cc' -O1\", gcc]\n")
    (tmp_path / "k.c").write_text("PK_REGION { long n = EXTRA; PK_KEEP(n); }\n")
    study = Study.from_yaml(tmp_path / "s.yaml")
    assert [one.compiler for one in study.configurations()] == [str(wrapper), "gcc"]
    todo = [(one, f"k{number}") for number, one in enumerate(study.configurations())]
    built = [built for batch in batches_of(study, todo, 1) for built in compile_batch(batch, tmp_path)]
    assert ["EXTRA" in one.message for one in built] == [False, True]
    assert Microbenchmark().plan(study).faults == ()
    before = metadata_of(study, read_state())["compilers"]
    wrapper.write_text('#!/bin/sh\nexec gcc -DEXTRA=2 "$@"\n')
    after = metadata_of(study, read_state())["compilers"]
    assert before[str(wrapper)] != after[str(wrapper)]
    assert before["gcc"] == after["gcc"]


@pytest.mark.measures
@pytest.mark.words
def test_a_studys_run_tells_of_it(caplog):
    study = Study("PK_REGION { long n = N; PK_KEEP(n); }", {"N": [1, 2], "SIZE": [1, 2]}, policy=QUICK, steps=1)
    assert len(collected(study)) == 4
    assert re.findall(r"the dimension (\w+)", caplog.text) == ["SIZE"]


@pytest.mark.measures
@pytest.mark.words
def test_no_macro_header_or_name_reaches_another_variant(tmp_path):
    (tmp_path / "size.h").write_text(
        "#ifndef SIZE_H\n#define SIZE_H\n#if SET == 1\n#define ITEMS 1000\n#endif\n#endif\n"
    )
    (tmp_path / "once.h").write_text("#pragma once\nstatic const int items_of_set = SET * 100;\n")
    (tmp_path / "k.c").write_text(
        '#include "size.h"\n#include "once.h"\n#ifndef ITEMS\n#define ITEMS 10\n#endif\n'
        "int shared = SET;\ntypedef struct { int v[SET]; } item;\nint helper(void) { return shared; }\n"
        'PK_REGION { PK_REPORT("items", ITEMS); PK_REPORT("once", items_of_set); PK_REPORT("size", sizeof(item));'
        ' PK_REPORT("helper", helper()); }\n'
    )
    table = collected(Study(tmp_path / "k.c", {"SET": [1, 2, 3, 4]}, policy=QUICK, steps=1))
    assert table["items"].tolist() == [1000, 10, 10, 10]
    assert table["once"].tolist() == [100, 200, 300, 400]
    assert table["size"].tolist() == [4, 8, 12, 16]
    assert table["helper"].tolist() == [1, 2, 3, 4]


@pytest.mark.measures
@pytest.mark.words
def test_a_macro_that_a_system_header_asks_for_counts_although_headers_are_precompiled():
    """NDEBUG empties assert(): a header compiled before it is known would keep the check."""
    kernel = '#include <assert.h>\nPK_REGION { int n = 0; assert(++n); PK_REPORT("checked", n); }'
    study = Study(kernel, {"LEVEL": [1, 2, 3, 4]}, flags=["-O1", "-O1 -DNDEBUG"], policy=QUICK, steps=1)
    assert collected(study).groupby("flags")["checked"].max().to_dict() == {"-O1": 1, "-O1 -DNDEBUG": 0}
    varied = Study(kernel, {"NDEBUG": [1, 2, 3, 4]}, flags=["-O1"], policy=QUICK, steps=1)
    assert collected(varied)["checked"].tolist() == [0, 0, 0, 0]


@pytest.mark.measures
@pytest.mark.words
def test_sources_headers_and_libraries(tmp_path):
    (tmp_path / "in clude").mkdir()
    (tmp_path / "in clude" / "part.h").write_text("double part(double x);\n")
    (tmp_path / "part.c").write_text(
        '#include <math.h>\n#include "part.h"\ndouble part(double x) { return sin(x) + N; }\n'
    )
    (tmp_path / "k.c").write_text(
        '#include "part.h"\nPK_REGION { volatile double x = 0; PK_REPORT("sum", part(x)); }\n'
    )
    (tmp_path / "s.yaml").write_text(
        "kernel: k.c\nsources: ['{WHICH}.c']\ninclude: [in clude]\nlibraries: [m]\n"
        "dimensions: {N: [1, 5], WHICH: [part]}\nsteps: 1\npolicy: {repetitions: 3, attempts: 1, windows: 3}\n"
    )
    assert collected(Study.from_yaml(tmp_path / "s.yaml"))["sum"].tolist() == [1, 5]


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("again", [False, True], ids=["file", "written and read again"])
def test_headers_beside_a_kernel_in_a_subfolder_are_found_from_anywhere(tmp_path, again):
    for name, value in (("k", 7), ("h", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.h").write_text(f"#define {name.upper()} {value}\n")
    (tmp_path / "k" / "walk.c").write_text(
        '#include "k.h"\n#include <h.h>\nPK_REGION { PK_REPORT("sum", K + H + N); }\n'
    )
    text = "kernel: k/walk.c\nflags: ['-O1 -Ih', '-O1 -isystem h']\ndimensions: {N: [1]}\nsteps: 1\n"
    (tmp_path / "s.yaml").write_text(text + "policy: {repetitions: 3, attempts: 1, windows: 3}\n")
    study = Study.from_yaml(tmp_path / "s.yaml")
    if again:
        (tmp_path / "t.yaml").write_text(study.to_yaml())
        study = Study.from_yaml(tmp_path / "t.yaml")
    assert collected(study)["sum"].tolist() == [16, 16]


@pytest.mark.measures
@pytest.mark.words
def test_kernels_of_the_same_text_keep_their_own_headers(tmp_path):
    (tmp_path / "s").mkdir()
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.h").write_text(f"#define X {value}\n")
        (tmp_path / name / "k.c").write_text('#include "x.h"\nPK_REGION { PK_REPORT("x", X); }\n')
    studies = [Study(f"{name}/k.c", {"N": [1]}, folder=str(tmp_path), policy=QUICK, steps=1) for name in "ab"]
    assert [collected(one)["x"].item() for one in studies] == [1, 2]


def test_a_complaint_that_is_repeated_for_every_copy_is_told_once_without_its_temporary_file():
    told = "/tmp/ccX1.s: Assembler messages:\n"
    told += "".join(f"/tmp/ccX1.s:{n}: Error: no such instruction: `foo %xmm0'\n" for n in range(50, 60))
    assert shortened(told) == "Error: no such instruction: `foo %xmm0'"


def test_the_linkers_own_words_are_told_rather_than_its_drivers():
    """Was "collect2: error: ld returned 1 exit status" alone, of a study with -static."""
    why = "/usr/bin/ld: crtbeginT.o: relocation R_X86_64_32 against hidden symbol `__TMC_END__' can not be used\n"
    driver = "collect2: error: ld returned 1 exit status"
    assert shortened(why + driver) == why.strip()
    assert shortened(driver) == driver
    undefined = "/usr/bin/ld: k.c: undefined reference to `f'"
    assert shortened(f"/usr/bin/ld: k.o: in function `g':\n{undefined}\n{driver}") == undefined


def test_words_of_the_flags_that_are_no_options_are_named():
    """`;` and what follows are files to a compiler: the row says which is missing, and nothing runs them."""
    study = Study(
        "PK_REGION { long n = N; PK_KEEP(n); }", {"N": [1]}, flags=["-O2 ; touch 'an owned file'"], policy=QUICK
    )
    row = Microbenchmark(jobs=1).collect(study).table.iloc[0]
    assert row["status"] == "failed"
    assert "cannot find ;" in row["message"]
    assert "collect2" not in row["message"]


@pytest.mark.measures
@pytest.mark.words
def test_flags_with_spaces_and_quotes_are_taken_once(tmp_path):
    kernel = 'PK_REGION { PK_REPORT("length", sizeof TEXT - 1); PK_REPORT("n", N); }'
    flags = [r"""-O1 '-DTEXT="a b  c"'""", r"""-O1 "-DTEXT=\"it's\"" """]
    table = collected(Study(kernel, {"N": [1]}, compilers=["gcc '-DM=1 + 1'"], flags=flags, policy=QUICK, steps=1))
    assert table["length"].tolist() == [6, 4]
    assert split_compiler("gcc '-DM=1 + 1'")[1] == "'-DM=1 + 1'"
    for settings in ({"flags": ["-DX='a"]}, {"compilers": ['gcc "-O2']}, {"preamble": ["echo '"]}):
        with pytest.raises(SettingError, match=r"cannot split .* into words: no closing quotation"):
            Study(kernel, {"N": [1]}, **settings)


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static long turns;
static long work(long n) { long x = 1, y = 3; for (long i = 0; i < n; i++)
    __asm__ volatile(".rept 100\\n\\timul %1, %0\\n\\t.endr" : "+r"(x) : "r"(y) : "cc"); return x; }
int main(int argc, char **argv) {
    if (argc != 3 || turns++) return 3;
    printf("%ld\\n", work(atol(argv[1])));
    BEGIN
    work(atol(argv[2]));
    END
    if (FAIL) exit(4);
    return 0;
}
"""


@pytest.mark.measures
def test_a_whole_program_is_timed_between_its_marks_and_starts_anew_for_each_window(tmp_path):
    marked = '#include "perfkit.h"\n' + PROGRAM.replace("BEGIN", "PK_START;").replace("END", "PK_STOP;")
    study = Study(
        marked, {"N": [100, 200]}, arguments=["1000", "{N}"], flags=["-O1 -DFAIL=0"], policy={"metric": "cycles"}
    )
    table = collected(study)
    # A chain of multiplications: 3 cycles per link (5 on Intel's small cores), and none of the rest, ten times longer.
    assert [round(one / n) for one, n in zip(table["cycles"], (10_000, 20_000), strict=True)] in ([3, 3], [5, 5])
    whole = collected(study.replace(kernel=PROGRAM.replace("BEGIN", "").replace("END", ""), policy=QUICK))
    assert (whole["ns"].to_numpy() > 5 * table["ns"].to_numpy()).all()


TOUCHING = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include "perfkit.h"
static char *fresh(void) {
    char *p = mmap(0, 4096 * 512, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 4096 * 512, MADV_NOHUGEPAGE);
    return p;
}
#define TIMED(at) pk_start(); touch(at); pk_stop();
static void *touch(void *at) {
    for (int i = 0; i < PAGES; i++) ((volatile char *)at)[4096 * i] = 1;
    return 0;
}
static void touch_in_a_thread(char *at) {
    pthread_t other;
    pthread_create(&other, 0, touch, at);
    pthread_join(other, 0);
}
"""


@pytest.mark.measures
@pytest.mark.parametrize("windows", [3, 12])
@pytest.mark.parametrize(
    ("region", "factor"),
    [
        ("int main(void) { char *p = fresh(); pk_start(); touch(p); pk_stop(); return 0; }", 1),
        (
            "int main(void) { char *p = fresh(); TIMED(p) touch(p + (1 << 20)); TIMED(p + (1 << 19)) return 0; }",
            2,
        ),
        ("PK_REGION { char *p = fresh(); touch(p); munmap(p, 4096 * 512); }", 1),
        ("PK_REGION { char *p = fresh(); touch_in_a_thread(p); munmap(p, 4096 * 512); }", 1),
    ],
    ids=["program", "two pairs", "region", "threads"],
)
def test_events_are_counts_per_execution_however_many_windows_there_are(region, factor, windows):
    """Counts of processes and threads that ended stay with an inherited counter: no window may hold those before."""
    policy = {**QUICK, "windows": windows}
    study = Study(
        TOUCHING + region, {"PAGES": [1, 10, 100]}, events=["page-faults"], policy=policy, libraries=["pthread"]
    )
    faults = collected(study)["page_faults"]
    assert (faults - [factor, 10 * factor, 100 * factor]).abs().max() <= 1  # a thread's stack


@pytest.mark.measures
@pytest.mark.words
def test_a_program_that_fails_fails_its_row():
    plain = PROGRAM.replace("BEGIN", "").replace("END", "")
    study = Study(plain, {"FAIL": [0, 1]}, arguments=["1", "1"], policy=QUICK)
    table = Microbenchmark(jobs=1).collect(study).table
    assert table["status"].tolist() == ["ok", "failed"]
    assert table["message"].iloc[1] == "the program returned 4"
    empty = '#include "perfkit.h"\nint main(void) { PK_START; PK_STOP; return N - N; }'
    row = Microbenchmark(jobs=1).collect(Study(empty, {"N": [1]}, policy=QUICK)).table.iloc[0]
    assert row["status"] == "ok" or "takes less than 2 cycles" in row["message"]  # an empty region may take a few


@pytest.mark.measures
def test_short_regions_of_programs_are_measured_within_a_step_of_the_counter_and_told():
    """A counter that advances in steps of 42 cycles: each window is one reading, and their mean is near the truth."""
    program = """
#include "perfkit.h"
#define TEXT(x) #x
#define TIMES(n) ".rept " TEXT(n) "\\n\\timul %0, %0\\n\\t.endr"
int main(void) {
    unsigned long x = 3;
    for (int i = 0; i < 2; i++) {
        if (i) pk_start();
        __asm__ volatile(TIMES(N) : "+r"(x));
        if (i) pk_stop();
    }
    return 0;
}"""
    table = Microbenchmark(jobs=1).collect(Study(program, {"N": [5, 10, 15, 20, 30, 50, 200, 5000]})).table
    assert (table["status"] == "ok").all()
    link = 3 if table["cycles"].max() < 20000 else 5
    off = (table["cycles"] - link * table["N"]).abs()
    # What settled is nearer than a step; of a row that did not, no more is said than that.
    bound = table["cycles_error"].where(~table["settled"].astype(bool), 15 + 0.01 * link * table["N"])
    assert (off <= bound).all(), table[["N", "cycles", "cycles_error", "settled"]]
    known = table.dropna(subset="cycles_low")
    assert (known["cycles_low"] <= link * known["N"]).all()
    assert (link * known["N"] <= known["cycles_high"]).all()
    stepped = table["cycles_error"] > 20  # beside what marks take; no host's counter must have steps
    told = table["message"].str.contains("a window is shorter than 50 steps of this host's time stamp counter")
    assert told.tolist() == (stepped & (table["N"] < 5000)).tolist()


@pytest.mark.measures
def test_functions_of_another_file_mark_the_region(tmp_path):
    (tmp_path / "timer.c").write_text("static int on; void begin_it(void) { on = 1; } void end_it(void) { on = 0; }\n")
    (tmp_path / "main.cpp").write_text(
        'extern "C" { void begin_it(void); void end_it(void); }\n#include <vector>\n'
        "int main() { std::vector<double> v(N, 1.0); double s = 0; begin_it(); for (double x : v) s += x; end_it();"
        " return s == N ? 0 : 1; }\n"
    )
    (tmp_path / "s.yaml").write_text(
        "sources: [main.cpp, timer.c]\nregion: [begin_it, end_it]\ndimensions: {N: [2000, 20000]}\n"
        "policy: {repetitions: 3, attempts: 1, windows: 3}\n"
    )
    table = collected(Study.from_yaml(tmp_path / "s.yaml"))
    assert 5 < table["tsc"].iloc[1] / table["tsc"].iloc[0] < 20
    assert not math.isnan(table["ns"].iloc[0])


def test_a_region_whose_functions_stand_in_the_file_that_calls_them_is_refused(tmp_path):
    """The linker sees no such calls: all of main() would be timed instead."""
    (tmp_path / "main.c").write_text(
        '__attribute__((noinline)) void begin_it(void) { __asm__ volatile(""); }\n'
        '__attribute__((noinline)) void end_it(void) { __asm__ volatile(""); }\n'
        "int main(void) { volatile long s = N; begin_it(); s += N; end_it(); return 0; }\n"
    )
    study = Study(
        sources=["main.c"], folder=str(tmp_path), region=["begin_it", "end_it"], dimensions={"N": [1]}, policy=QUICK
    )
    row = Microbenchmark(jobs=1).collect(study).table.iloc[0]
    assert row["status"] == "failed"
    assert "no call of the functions of `region` was seen" in row["message"]


@pytest.mark.measures
def test_a_region_that_the_compiler_removed_is_noticed_and_one_that_is_empty_is_told():
    removed = "PK_REGION { double s = 0; for (int i = 0; i < 1000; i++) s += i * 1.5; }"
    row = Microbenchmark(jobs=1).collect(Study(removed, {"N": [1]}, policy=QUICK)).table.iloc[0]
    assert row["status"] == "failed"
    assert "the compiler removed all of it" in row["message"]
    some = "PK_REGION { if (N == 2) for (long i = 0; i < 100; i++) PK_KEEP(i); }"
    table = Microbenchmark(jobs=1).collect(Study(some, {"N": [1, 2]}, policy=QUICK)).table
    assert table["status"].tolist() == ["ok", "ok"]
    assert "empty for these dimensions" in table["message"].iloc[0]
    assert not table["settled"].iloc[0]
    assert "empty for" not in table["message"].iloc[1]


@pytest.mark.measures
def test_a_loop_that_the_compiler_worked_out_is_told():
    kernel = """PK_REGION {
        long s = 0, n = N;
        if (KEPT) PK_KEEP(n);
        for (long i = 0; i < n; i++) { s += i; if (KEPT) PK_KEEP(s); }
        PK_KEEP(s);
    }"""
    study = Study(kernel, {"KEPT": [0, 1], "N": [10, 1000]}, flags=["-O3"], policy=QUICK)
    table = Microbenchmark(jobs=1).collect(study).table
    assert table["status"].tolist() == ["ok"] * 4
    worked_out = table["message"].str.contains("worked out the region's loop beforehand: only constants are left")
    assert worked_out.tolist() == [True, True, False, False]
    one_line = "PK_REGION { long x = 5; PK_KEEP(x); }"
    (message,) = Microbenchmark(jobs=1).collect(Study(one_line, policy=QUICK)).table["message"]
    assert "worked out the region's loop" not in message
    assert "hardly more than an empty region does" in message


@pytest.mark.measures
def test_a_figure_as_of_an_empty_region_is_told_in_a_study_of_a_row(tmp_path):
    """exp(1.5), worked out by the compiler, was 1.000 cycles without a word; 16 products are work."""
    kernel = """#include <math.h>
PK_REGION {
    double s = exp(1.5);
    PK_KEEP_VECTOR(s);
    if (LINKS) { long x = step; __asm__ volatile(".rept 16\\n\\timul %0, %0\\n\\t.endr" : "+r"(x)); PK_KEEP(x); }
}"""
    for links in (0, 1):
        study = Study(kernel, {"LINKS": [links]}, libraries=["m"], policy=QUICK, folder=str(tmp_path))
        row = Microbenchmark(jobs=1).collect(study).table.iloc[0]
        assert row["status"] == "ok"
        assert ("hardly more than an empty region does (1 to 2 cycles)" in row["message"]) == (not links), row["cycles"]


@pytest.mark.measures
@pytest.mark.words
def test_a_region_that_leaves_its_memory_fails():
    """Reading 4 MiB of a memory of 16 KiB settled, whatever lay there. A larger memory's pages are given back first."""
    kernel = "PK_REGION { long s = *(volatile long *)(pk->memory + AT); PK_KEEP(s); }"
    for pages, page in (("huge", 2 << 20), ("small", 4096)):
        places = [
            ("16384 * 512", (16384 * 512 - 8, True), (16384 * 512, False)),
            ("4096", (page - 8, True), (page, False)),
        ]
        for memory, *tries in places:
            at = [place for place, _ in tries]
            study = Study(kernel, {"AT": at}, memory=memory, pages=pages, policy=QUICK)
            table = Microbenchmark(jobs=1).collect(study).table.set_index("AT")
            assert [table["status"][place] == "ok" for place in at] == [right for _, right in tries], (pages, memory)
            assert "SIGSEGV (an access outside of its memory, of which `memory` says" in table["message"][at[1]]
    one_process = Study(kernel, {"N": [1 << 23, 4096], "AT": "[0, N - 8, N]"}, memory="N", pages="small", policy=QUICK)
    table = Microbenchmark(jobs=1).collect(one_process).table
    assert ((table["status"] == "ok") == (table["AT"] < table["N"])).all(), table["message"].tolist()


CHAIN = """
static {attribute} unsigned long chain(unsigned long n) {{
    unsigned long h = n;
    for (unsigned long i = 0; i < N; i++) {{ h ^= h >> 13; h *= 0x9E3779B97F4A7C15UL; }}
    return h;
}}
"""
ALONE = "PK_REGION { unsigned long r = chain(7); PK_KEEP(r); }"
WITH_LOADS = """PK_REGION {
    unsigned long *m = (unsigned long *)pk->memory, r = chain(7);
    for (int i = 0; i < 256; i++) r += m[i];
    PK_KEEP(r);
}"""
MARKED = """PK_REGION {
    unsigned long *m = (unsigned long *)pk->memory;
    PK_BEGIN;
    unsigned long r = chain(m[0] + 7);
    for (int i = 0; i < 300; i++) { m[64 + i] += i; PK_KEEP_MEMORY(); }
    PK_END;
    if (m[1] != 0) m[2] = r;
}"""
NOINLINE, CONST = "__attribute__((noinline))", "__attribute__((noinline, const))"


def _calls(functions, marks):
    """Whether the region calls its function in the loop of executions (between its marks), and nowhere else."""
    lines = functions["pk_run"]
    calls = [at for at, line in enumerate(lines) if line.mnemonic.startswith("call")]
    if marks:
        first, last = (at for at, line in enumerate(lines) if line.mnemonic == "rdtsc")
        return len(calls) == 1 and first < calls[0] < last
    back = [re.match("[0-9a-f]+", line.operands) if line.mnemonic.startswith("j") else None for line in lines]
    loops = [(int(to[0], 16), line.address) for to, line in zip(back, lines, strict=True) if to]
    return len(calls) == 1 and any(begin <= lines[calls[0]].address < end for begin, end in loops)


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
@pytest.mark.parametrize(
    ("attribute", "body"),
    [(NOINLINE, ALONE), (CONST, ALONE), (NOINLINE, WITH_LOADS), (CONST, WITH_LOADS), (NOINLINE, MARKED)],
)
def test_what_depends_on_its_arguments_alone_is_called_in_each_execution(attribute, body, compiler, tmp_path):
    """It was called once, before all executions, or behind PK_END: 1.6, 417 and 355 cycles settled for 5,000."""
    flags = ["-O1", "-O2", "-O3", "-Os"]
    language = "c++" if compiler == "g++" else "c"
    kernel = CHAIN.format(attribute=attribute) + body
    study = Study(kernel, {"N": [1000]}, compilers=[compiler], flags=flags, language=language)
    todo = [(one, f"key{at}") for at, one in enumerate(study.configurations())]
    for batch in batches_of(study, todo, 9):
        (built,) = compile_batch(batch, tmp_path)
        assert built.message == "", batch.flags
        (functions,) = toolchain.disassemble_all([Path(built.object)])
        assert _calls(functions, "PK_BEGIN" in body), batch.flags


@pytest.mark.measures
def test_a_chain_in_a_function_takes_its_links_in_each_execution():
    """Of constants, and beside other work: twice the links take twice the cycles, two a link at least."""
    for body, beside in ((ALONE, 0), (WITH_LOADS, 1000), (MARKED, 2000)):
        study = Study(CHAIN.format(attribute=NOINLINE) + body, {"N": [10000, 20000]}, compilers=["gcc", "clang"])
        table = Microbenchmark(jobs=1).collect(study).table
        assert (table["status"] == "ok").all(), table["message"].tolist()
        for _, rows in table.groupby("compiler"):
            short, long = rows.sort_values("N")["cycles"]
            assert short > 2 * 10000, table.to_string()
            assert abs(long / short - 2) < 0.03 + beside / short, table.to_string()


@pytest.mark.measures
@pytest.mark.words
def test_memory_and_files_are_limited():
    kernel = """PK_REGION {
#if WHAT == 1
    char *p = malloc((size_t)1 << 31); p[0] = 1; PK_KEEP(p); free(p);
#elif WHAT == 2
    FILE *f = tmpfile(); char b[4096] = {1}; for (int i = 0; i < 100; i++) fwrite(b, 1, sizeof b, f); fclose(f);
#endif
    PK_KEEP(step);
}"""
    limits = {"memory": "1 GiB", "files": "100 kB"}
    table = (
        Microbenchmark(jobs=1).collect(Study(kernel, {"WHAT": [0, 1, 2]}, limits=limits, policy=QUICK, steps=1)).table
    )
    assert table["status"].tolist() == ["ok", "failed", "failed"]
    assert "SIGSEGV" in table["message"].iloc[1]
    assert "SIGXFSZ (it wrote a file larger than the study's `limits` allow)" in table["message"].iloc[2]


def test_a_plan_counts_a_process_for_every_window_of_a_program(tmp_path):
    """Five runs of 20 windows in three passes: 300 processes take longer than 300 calls of a region."""
    kernel = Study("PK_REGION { PK_KEEP(step); }", {"N": [1]})
    (tmp_path / "p.c").write_text("int main(void) { return N; }")
    program = Study(tmp_path / "p.c", {"N": [0]})
    seconds = [Microbenchmark(jobs=1).plan(one).seconds for one in (kernel, program)]
    assert seconds[1] - seconds[0] > 0.3


def test_the_measuring_process_is_compiled_once_in_a_process(tmp_path, monkeypatch):
    """Each study without a folder compiled it, and each batch of a cluster's: most of what a small one took."""
    calls = []
    run = toolchain.run_tool
    monkeypatch.setattr(compiling, "_HARNESSES", {})
    monkeypatch.setattr(toolchain, "run_tool", lambda words: calls.append(words) or run(words))
    programs = [build_harness(tmp_path / name) for name in ("a", "b", "a")]
    assert len(calls) == 1
    assert programs[0] == programs[2] != programs[1]
    assert programs[0].read_bytes() == programs[1].read_bytes()
    assert all(os.access(program, os.X_OK) for program in programs)
    assert not list(tmp_path.rglob("*.partial"))
    (tmp_path / "c").touch()
    with pytest.raises(DataError, match=r"cannot write to .*c: File exists"):
        build_harness(tmp_path / "c")


def test_what_compilers_of_other_tasks_read_is_not_written_again(tmp_path):
    """A kernel's file was emptied and written anew by each task: one of 700 variants missed its region."""
    study = Study("PK_REGION { long n = N; PK_KEEP(n); }", {"N": [1, 2]})
    space = [(one, one.key("mark")) for one in study.configurations()]
    first, second = batches_of(study, space, 1)
    assert first.place == second.place
    assert not any(one.failed for one in compile_batch(first, tmp_path))
    shared = [tmp_path / first.place / "kernel" / "kernel.c", tmp_path / first.place / "perfkit_prefix.h"]
    for path in shared:
        os.utime(path, (0, 0))
    assert not any(one.failed for one in compile_batch(second, tmp_path))
    assert [path.stat().st_mtime for path in shared] == [0, 0]
    shared[0].write_text("")  # as an interrupted writer left it: put right before it is compiled
    assert not any(one.failed for one in compile_batch(replace(second, variants=first.variants), tmp_path))
    assert shared[0].read_text() == study.source


@pytest.mark.measures
@pytest.mark.words
def test_names_of_cpp_functions_are_told_as_linkers_see_them(tmp_path):
    calls = "namespace ns { void begin(); void end(); } void begin(); void end();"
    (tmp_path / "main.cpp").write_text(
        calls + "int main() { ns::begin(); begin(); for (volatile int i = 0; i < 9999; i++); end(); ns::end(); }"
    )
    (tmp_path / "other.cpp").write_text(calls.replace("();", "() {}"))
    settings = {"sources": ["main.cpp", "other.cpp"], "compilers": ["g++"], "folder": str(tmp_path), "policy": QUICK}
    for names in (["_ZN2ns5beginEv", "_ZN2ns3endEv"], ["_Z5beginv", "_Z3endv"]):
        assert collected(Study(region=names, **settings))["cycles"].item() > 9999
    row = Microbenchmark(jobs=1).collect(Study(region=["begin", "end"], **settings)).table.iloc[0]
    assert "undefined symbol: begin (" in row["message"]
    assert "_Z5beginv in C++" in row["message"]
    with pytest.raises(SettingError, match=r"which nm shows: _ZN2ns5beginEv"):
        Study(region=["ns::begin()", "ns::end()"], **settings)
    with pytest.raises(SettingError, match=r"'a b' is no name of a function as linkers see it$"):
        Study(region=["a b", "end"], **settings)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
@pytest.mark.parametrize(
    "helper", ["", "static inline long timed(pk_context *pk, long x) { PK_BEGIN; PK_END; return x; }"]
)
def test_marks_stay_where_the_linker_takes_away_what_nothing_uses(tmp_path, compiler, helper):
    kernel = f"{helper}\nPK_REGION {{ long x = N; if (N < 0) {{ PK_BEGIN; PK_END; }} PK_KEEP(x); }}"
    for body, marked in ((kernel, True), ("PK_REGION { long x = N; PK_KEEP(x); }", False)):
        flags = ["-O2", "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections"]
        language = "c++" if compiler == "g++" else "c"
        study = Study(body, {"N": [3]}, compilers=[compiler], flags=flags, language=language)
        todo = [(one, f"key{at}") for at, one in enumerate(study.configurations())]
        for batch in batches_of(study, todo, 9):
            (built,) = compile_batch(batch, tmp_path / str(marked))
            assert (built.message, built.marks) == ("", marked), batch.flags


@pytest.mark.parametrize("name", ["perfkit.h", "mine.h"])
def test_a_copy_of_perfkits_header_beside_a_program_names_no_marks(tmp_path, name):
    (tmp_path / name).write_text((NATIVE / "perfkit.h").read_text())
    (tmp_path / "p.c").write_text(f'#include "{name}"\nint main(void) {{ return 0; }}')
    study = Study("p.c", {"N": [1]}, folder=str(tmp_path))
    (batch,) = batches_of(study, [(one, "key") for one in study.configurations()], 9)
    (built,) = compile_batch(batch, tmp_path / "objects")
    assert not built.failed, built.message
    assert built.message.startswith("all of main() was timed") == (name == "mine.h")


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_marks_outside_of_a_region_are_told_what_they_need(tmp_path, compiler):
    """ "error: 'pk' undeclared" alone told nobody what to do."""

    def said(kernel):
        study = Study(kernel, {"N": [1]}, compilers=[compiler])
        (batch,) = batches_of(study, [(one, "key") for one in study.configurations()], 1)
        return compile_batch(batch, tmp_path / str(len(kernel)))[0].message

    helper = "static void helper(HANDED) { PK_BEGIN; PK_END; }\nPK_REGION { helper(GIVEN); PK_KEEP_MEMORY(); }"
    assert "a parameter `pk_context *pk`" in said(helper.replace("HANDED", "void").replace("GIVEN", ""))
    assert not said(helper.replace("HANDED", "pk_context *pk").replace("GIVEN", "pk"))
    program = '#include "perfkit.h"\nint main() { PK_REPORT("a", 1); return 0; }'
    assert "whole programs mark what is timed by pk_start()" in said(program)
    assert "pk_context" not in said("PK_REGION { other = 1; }")
