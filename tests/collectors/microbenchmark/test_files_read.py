"""What rows were made of: a file that changes, or a new one that would have been taken, is refused; others are not."""

import re

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.compile import batches_of, compile_batch
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
    for name in BEFORE + AFTER:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#undef DEEP\n#define DEEP 200\n#include_next <limits.h>\n")
        if name in AFTER:
            check_files(tmp_path, files)
            assert compiled(tmp_path, **settings)[0] == which
        else:
            with pytest.raises(SettingError, match=rf"{name} was not there when rows of .* were measured"):
                check_files(tmp_path, files)
        (tmp_path / name).unlink()


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


@pytest.mark.measures
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
