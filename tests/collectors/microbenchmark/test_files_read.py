"""What rows were made of: a file that changes, or a new one that would have been taken, is refused; others are not."""

import os
import re
import time

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark import compile as compiling
from perfkit.collectors.microbenchmark import files_read as files_reading
from perfkit.collectors.microbenchmark.compile import batches_of, compile_batch
from perfkit.collectors.microbenchmark.files_read import search_of
from perfkit.collectors.microbenchmark.origin import check_files
from perfkit.errors import SettingError
from perfkit.study.study import Study

QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}
WHICH = """
#ifndef DEEP
#define DEEP none
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
static const char which[] __attribute__((used)) = "DEEP is " TEXT(DEEP);
PK_REGION { long n = N; PK_KEEP(n); }
"""


def written(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_h", ".h").replace("_inc", ".inc").replace("_c", ".c")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def compiled(folder, kernel="k.c", **more):
    """Compile a kernel anew; return which header's DEEP it took, and the states of all files."""
    study = Study(kernel, {"N": [1]}, folder=str(folder), **more)
    place = folder / "objects" / str(len([*folder.glob("objects/*")]))
    (batch,) = batches_of(study, [(one, "key") for one in study.configurations()], 1)
    (built,) = compile_batch(batch, place)
    assert not built.failed, built.message
    assert all(path.startswith("/") for path in built.files | built.own)
    found = re.search(rb"DEEP is (\w+)", (place / built.object).read_bytes())
    return (found[1].decode() if found else ""), built.files | built.own


KERNEL = '#include "deep.h"\n#include <limits.h>\n#include <immintrin.h>\n' + WHICH
BEFORE = ["deep.h", "a/deep.h", "a/limits.h", "a/features.h"]  # <limits.h> asks for the last
AFTER = ["errno.h", "b/deep.h", "a/other.h", "late/deep.h", "late/limits.h", "features.h", "deep.c", "out.csv"]


@pytest.mark.parametrize("compiler", ["gcc -O1", "clang -O1", "g++ -O1"])
def test_a_new_file_that_comes_before_one_that_was_read_is_refused_and_no_other(tmp_path, compiler):
    """N=3 was of another header than N=1 and 2, in one table, settled."""
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n", b__x_h="\n", late__x_h="\n")
    settings = {"include": ["a", "inc", "b"], "compilers": [compiler], "flags": ["-idirafter late"]}
    settings["language"] = "c++" if "++" in compiler else "c"
    which, files = compiled(tmp_path, **settings)
    assert which == "100"
    text = "#undef DEEP\n#define DEEP 200\n#include_next <limits.h>\n"
    for name in BEFORE + AFTER:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        if name in AFTER:
            check_files(tmp_path, files)
        else:
            with pytest.raises(SettingError, match=rf"{name} was not there when rows of .* were measured"):
                check_files(tmp_path, files)
        (tmp_path / name).unlink()
    for name in AFTER:
        (tmp_path / name).write_text(text)
    assert compiled(tmp_path, **settings)[0] == which  # not any of them is taken


@pytest.mark.parametrize("flag", ["-isystem inc", "-idirafter inc", "-Iinc", "-iquote inc"])
@pytest.mark.parametrize("compiler", ["gcc -O1", "clang -O1"])
def test_headers_of_any_folder_that_change_are_refused(tmp_path, flag, compiler):
    deeper = '#include "deeper.h"\n'
    written(tmp_path, k_c=KERNEL, inc__deep_h=deeper, inc__deeper_h="#define DEEP 100\n")
    settings = {"flags": [flag], "compilers": [compiler]}
    which, files = compiled(tmp_path, **settings)
    assert which == "100"
    written(tmp_path, deeper_h="#define DEEP 200\n")  # inc/deep.h asks for the one beside itself
    check_files(tmp_path, files)
    assert compiled(tmp_path, **settings)[0] == "100"
    written(tmp_path, inc__deeper_h="#define DEEP 300\n")
    with pytest.raises(SettingError, match=r"inc/deeper.h has changed since rows"):
        check_files(tmp_path, files)
    (tmp_path / "inc" / "deeper.h").unlink()
    which, files = compiled(tmp_path, **settings)
    assert which == "200"
    written(tmp_path, inc__deeper_h="#define DEEP 300\n")
    with pytest.raises(SettingError, match=r"inc/deeper.h was not there"):
        check_files(tmp_path, files)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_files_that_the_assembler_includes_are_files_that_were_read(tmp_path, compiler):
    kernel = 'PK_REGION { __asm__ volatile(".include \\"part.inc\\"" : : : "rax"); }\n'
    more = 'imul %rax, %rax\n.pushsection .rodata\n.incbin "data.inc"\n.popsection\n'
    written(tmp_path, k_c=kernel, part_inc='.include "more.inc"\n', more_inc=more, data_inc="1234", other_inc="\n")
    files = compiled(tmp_path, compilers=[compiler], flags=["-O1"])[1]
    written(tmp_path, other_inc="nop\n")
    check_files(tmp_path, files)
    for name in ("part", "more", "data"):
        path = tmp_path / f"{name}.inc"
        before = path.read_text()
        path.write_text(before + "\n")
        with pytest.raises(SettingError, match=rf"{name}.inc has changed since rows"):
            check_files(tmp_path, files)
        path.write_text(before)
    check_files(tmp_path, files)


@pytest.mark.parametrize("place", ["", "sub/"])
def test_a_header_beside_the_kernel_is_not_the_systems(tmp_path, place):
    """An errno.h beside the kernel was taken for <errno.h>; in quotes, or in a folder that is named, it is taken.

    Not so <limits.h>, of which gcc takes two, the second by the rule of names in quotes.
    """
    (tmp_path / "sub").mkdir()
    for name in ("limits.h", "mine.h", "errno.h"):
        (tmp_path / place / name).write_text(f"#define DEEP {name[:4]}\n")
    taken = {"<errno.h>": "none", '"errno.h"': "errn", '"limits.h"': "limi", "<mine.h>": "", '"mine.h"': "mine"}
    for asked, own in taken.items():
        (tmp_path / place / "k.c").write_text(f"#include {asked}\n{WHICH}")
        for compiler in ("gcc", "clang"):
            settings = {"compilers": [compiler], "flags": ["-O1"]}
            if own:
                assert compiled(tmp_path, f"{place}k.c", **settings)[0] == own
            else:
                with pytest.raises(AssertionError, match=r"mine\.h.*quotes"):
                    compiled(tmp_path, f"{place}k.c", **settings)
            named = compiled(tmp_path, f"{place}k.c", include=[place or "."], **settings)[0]
            assert named == asked[1:5]
    (tmp_path / place / "k.c").write_text(f"#include <limits.h>\n{WHICH}")
    assert compiled(tmp_path, f"{place}k.c", compilers=["clang"])[0] == "none"
    with pytest.raises(AssertionError, match=r"limits\.h would be taken for the system's <limits\.h>"):
        compiled(tmp_path, f"{place}k.c", compilers=["gcc"])


def test_a_library_that_comes_before_the_one_that_was_linked_is_refused(tmp_path):
    written(tmp_path, k_c=WHICH, lib__x_h="")
    files = compiled(tmp_path, libraries=["m"], flags=["-O1 -Llib"])[1]
    (tmp_path / "lib" / "libz.so").write_text("")
    check_files(tmp_path, files)
    (tmp_path / "lib" / "libm.so").write_text("")
    with pytest.raises(SettingError, match=r"libm.so was not there"):
        check_files(tmp_path, files)


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_what_a_precompiled_header_was_made_of_is_noted_and_never_old(tmp_path, compiler):
    """Of six variants, gcc compiles the leading headers once: it did not say of what, and took it when they changed."""
    kernel = "#include <mine.h>\n" + WHICH
    written(
        tmp_path,
        k_c=kernel,
        inc__mine_h=guarded("#include <deeper.h>"),
        inc__deeper_h=guarded("#define DEEP 100"),
        b__x_h="\n",
    )
    language = "c++" if "++" in compiler else "c"
    settings = {"folder": str(tmp_path), "include": ["b", "inc"], "compilers": [compiler], "flags": ["-O1"]}

    def made(count):
        study = Study("k.c", {"N": list(range(count))}, language=language, **settings)
        (batch,) = batches_of(study, [(one, f"key{at}") for at, one in enumerate(study.configurations())], 99)
        built = compile_batch(batch, tmp_path / "obj")
        assert {one.message for one in built} == {""}
        whiches = {re.search(rb"DEEP is (\w+)", (tmp_path / one.object).read_bytes())[1] for one in built}
        assert len(list(tmp_path.glob("obj/*/*.gch"))) == (compiler != "clang")
        (which,) = whiches
        return which.decode(), [one.files for one in built]

    which, noted = made(6)
    assert which == "100"
    for files in noted:
        assert {name for name, state in named(tmp_path, files).items() if state} == {"inc/mine.h", "inc/deeper.h"}
        assert not files[str(tmp_path / "b" / "deeper.h")]
    headers = list(tmp_path.glob("obj/*/*.gch"))
    before = [path.stat().st_ino for path in headers]
    assert made(8)[0] == "100"
    assert [path.stat().st_ino for path in headers] == before
    written(tmp_path, inc__deeper_h=guarded("#define DEEP 200"))
    with pytest.raises(SettingError, match=r"inc/deeper.h has changed"):
        check_files(tmp_path, noted[5])
    assert made(8)[0] == "200"
    written(tmp_path, b__deeper_h=guarded("#define DEEP 300"))  # comes before
    assert made(8)[0] == "300"
    (tmp_path / "b" / "deeper.h").unlink()
    assert made(8)[0] == "200"


def guarded(text):
    """Return a header's text that counts once: the kernel includes it again, after what was compiled beforehand."""
    guard = re.sub(r"\W|\d", "_", text)
    return f"#ifndef {guard}\n#define {guard}\n{text}\n#endif\n"


def named(folder, files):
    return {os.path.relpath(path, folder): state for path, state in files.items()}


def test_the_precompiled_header_of_a_study_that_was_stopped_is_not_taken_by_few_variants(tmp_path):
    written(tmp_path, k_c="#include <mine.h>\n" + WHICH, inc__mine_h=guarded("#define DEEP 100"))
    study = Study("k.c", {"N": list(range(7))}, folder=str(tmp_path), include=["inc"])
    todo = [(one, f"key{at}") for at, one in enumerate(study.configurations())]
    for some, deep in ((todo[:6], "100"), (todo[6:], "200")):
        written(tmp_path, inc__mine_h=guarded(f"#define DEEP {deep}"))
        (batch,) = batches_of(study, some, 9)
        for built in compile_batch(batch, tmp_path / "obj"):
            assert f"DEEP is {deep}".encode() in (tmp_path / built.object).read_bytes()


@pytest.mark.parametrize("place", ["", "inc"])
@pytest.mark.parametrize("include", [["."], ["inc"], []])
def test_a_limits_h_is_told_only_where_gcc_would_take_it_unasked(tmp_path, include, place):
    written(tmp_path, k_c="#include <limits.h>\n" + WHICH, inc__x_h="\n")
    settings = {"include": include, "compilers": ["gcc"]}
    assert compiled(tmp_path, **settings)[0] == "none"
    (tmp_path / place / "limits.h").write_text("#define DEEP limi\n")
    if place:
        assert compiled(tmp_path, **settings)[0] == ("limi" if include == ["inc"] else "none")
    elif include == ["."]:
        assert compiled(tmp_path, **settings)[0] == "limi"
    else:
        with pytest.raises(AssertionError, match=r"limits\.h would be taken for the system's <limits\.h>"):
            compiled(tmp_path, **settings)


def test_words_for_assembler_and_linker_are_no_folders_of_the_compilers(tmp_path, monkeypatch):
    monkeypatch.setenv("CPATH", "relative")
    words = ["-Xassembler", "-I", "-Xassembler", "/a", "-Xlinker", "-I", "-I", "/b", "-I", "c", "-iquote", "/q"]
    plain = search_of(("gcc", "-I", "/b", "-iquote", "/q"), cpp=False)
    assert search_of(("gcc", *words), cpp=False) == plain
    assert plain.quoted == ("/q",)
    assert plain.angled[0] == "/b"


def test_a_compiler_that_speaks_german_is_understood(tmp_path, monkeypatch):
    """gcc translates the line before its folders: none was known, and all of the system's headers were the user's."""
    script = tmp_path / "gcc"
    script.write_text('#!/bin/bash\n[ "$LC_ALL" = C ] && exec gcc "$@"\nexec gcc "$@" 2> >(sed s/search/Suche/ >&2)\n')
    script.chmod(0o755)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert search_of((str(script),), cpp=False).own


@pytest.mark.parametrize("flags", ["-MMD -MF other.d", "-MD", "-MM -MT x", "-Wp,-MMD,other.d", "-MQ x -MP -MMD"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_flags_that_write_rules_for_make_change_nothing(tmp_path, compiler, flags):
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n")
    settings = {"include": ["inc"], "compilers": [compiler]}
    assert compiled(tmp_path, flags=[f"-O1 {flags} -march=native"], **settings) == compiled(
        tmp_path, flags=["-O1 -march=native"], **settings
    )


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_header_that_a_condition_asked_for_in_vain_is_refused_when_it_appears(tmp_path, compiler):
    kernel = """#if __has_include("fast.h") || \\
    __has_include(<faster.h>)
#define DEEP 200
#elif defined(__has_include) && __has_include("there.h")
#define DEEP 300
#endif
// __has_include("comment.h")
"""
    written(tmp_path, k_c=kernel + WHICH, inc__x_h="\n", there_h="\n")
    settings = {"include": ["inc"], "compilers": [compiler]}
    which, files = compiled(tmp_path, **settings)
    assert which == "300"
    (tmp_path / "there.h").unlink()
    with pytest.raises(SettingError, match=r"there.h has changed \(it is gone\)"):
        check_files(tmp_path, files)
    (tmp_path / "there.h").write_text("\n")
    names = ["fast.h", "inc/fast.h", "inc/faster.h", "faster.h", "comment.h", "inc/there.h"]
    for name in names:
        (tmp_path / name).write_text("\n")
        if name in names[:3]:
            with pytest.raises(SettingError, match=rf"{name} was not there"):
                check_files(tmp_path, files)
        else:
            check_files(tmp_path, files)
            assert compiled(tmp_path, **settings)[0] == which
        (tmp_path / name).unlink()


def test_what_gnus_assembler_includes_is_found_for_clang_as_well(tmp_path):
    kernel = 'PK_REGION { __asm__ volatile(".include \\"part.inc\\"" : : : "rax"); }\n'
    written(tmp_path, k_c=kernel, part_inc="imul %rax, %rax\n")
    for flag in ("-fno-integrated-as", "-fno-integrated-as -fintegrated-as"):
        files = compiled(tmp_path, compilers=["clang"], flags=[flag])[1]
        assert files[str(tmp_path / "part.inc")]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_noting_files_takes_little_where_there_are_many_variants(tmp_path, compiler, monkeypatch):
    """Names of all variants' files were listed for each, and 149 headers looked for in every folder."""
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n")
    study = Study("k.c", {"N": [1, 2]}, folder=str(tmp_path), include=["inc"], compilers=[compiler])
    (batch,) = batches_of(study, [(one, f"key{one.values['N']}") for one in study.configurations()], 9)
    first = compile_batch(batch, tmp_path / "obj")
    (place,) = tmp_path.glob("obj/*")
    for number in range(3000):
        (place / f"other{number}.d").touch()
    monkeypatch.setattr(files_reading, "hash_of", None)
    begun = time.process_time()
    for _ in range(20):
        assert not compiling._note_files(batch, batch.variants[0], place, {})
        assert not compiling._compile(batch, batch.variants[1], place)
    assert (time.process_time() - begun) / 20 < 0.01  # 0.004 on a busy Zen 5; listing alone took 0.02
    assert compile_batch(batch, tmp_path / "obj") == first


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_folder_of_optimisation_records_is_listed_once_for_many_variants(tmp_path, monkeypatch, compiler):
    kernel = "PK_REGION { float *a = (float *)pk->memory; for (int i = 0; i < N; i++) a[i] *= 2; PK_KEEP_MEMORY(); }"
    study = Study(kernel, {"N": [64, 128, 256]}, compilers=[f"{compiler} -O3"], static=["vectorization"])
    (batch,) = batches_of(study, [(one, f"key{at}") for at, one in enumerate(study.configurations())], 9)
    listed, plain = [], os.scandir

    def scandir(path="."):
        listed.append(str(path))
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path=".": (listed.append(str(path)), listdir(path))[1])
    built = compile_batch(batch, tmp_path / "obj")
    assert [one.static["vectorized_loops"] for one in built] == [1, 1, 1]
    assert listed.count(str(tmp_path / "obj" / batch.place)) <= 1


@pytest.mark.measures
@pytest.mark.words
def test_a_study_goes_on_with_the_same_files_alone(tmp_path, monkeypatch):
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n", b__deep_h="#define DEEP 200\n")
    monkeypatch.setenv("CPATH", str(tmp_path / "inc"))

    def run(values):
        study = Study("k.c", {"N": values}, folder=str(tmp_path), policy=QUICK, steps=1)
        return Microbenchmark(folder=tmp_path / "out").collect(study).table

    assert len(run([1])) == 1
    assert len(run([1, 2])) == 2
    monkeypatch.setenv("CPATH", str(tmp_path / "b"))
    with pytest.raises(SettingError, match="was measured where CPATH was"):
        run([1, 2, 3])
    monkeypatch.setenv("CPATH", str(tmp_path / "inc"))
    written(tmp_path, deep_h="#define DEEP 200\n")
    with pytest.raises(SettingError, match=r"deep.h was not there"):
        run([1, 2, 3])
