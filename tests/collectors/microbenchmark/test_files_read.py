"""What rows were made of: a file that changes, or a new one that would have been taken, is refused; others are not."""

import shutil

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.errors import SettingError
from perfkit.study.study import Study

pytestmark = pytest.mark.measures
QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}


def written(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_h", ".h").replace("_inc", ".inc").replace("_c", ".c")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def run(folder, values=(1,), kernel="k.c", **more):
    study = Study(kernel, {"N": list(values)}, folder=str(folder), policy=QUICK, steps=1, **more)
    return Microbenchmark(folder=folder / "out").collect(study).table


KERNEL = (
    '#include "deep.h"\n#include <limits.h>\nPK_REGION { long n = DEEP + N; PK_KEEP(n); PK_REPORT("deep", DEEP); }\n'
)
BEFORE = ["deep.h", "a/deep.h", "a/limits.h"]
AFTER = ["limits.h", "b/deep.h", "a/other.h", "late/deep.h", "deep.c", "out.csv"]


@pytest.mark.parametrize("name", BEFORE + AFTER)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_new_file_that_comes_before_one_that_was_read_is_refused_and_no_other(tmp_path, name, compiler):
    """N=3 was of another header than N=1 and 2, in one table, settled."""
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n", b__x_h="\n", late__x_h="\n")
    settings = {"include": ["a", "inc", "b"], "compilers": [compiler], "flags": ["-O1 -idirafter late"]}
    assert run(tmp_path, **settings)["deep"].tolist() == [100]
    new = tmp_path / name
    new.parent.mkdir(exist_ok=True)
    new.write_text("#define DEEP 200\n#include_next <limits.h>\n" if name.startswith("a/lim") else "#define DEEP 200\n")
    if name in AFTER:
        assert run(tmp_path, (1, 3), **settings)["deep"].tolist() == [100, 100]
        return
    with pytest.raises(SettingError, match=rf"{name} was not there when rows of .* were measured"):
        run(tmp_path, (1, 3), **settings)
    new.unlink()
    assert run(tmp_path, (1, 3), **settings)["deep"].tolist() == [100, 100]


@pytest.mark.parametrize("flag", ["-isystem inc", "-idirafter inc", "-Iinc", "-iquote inc"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_headers_of_any_folder_that_change_are_refused(tmp_path, flag, compiler):
    written(tmp_path, k_c=KERNEL, inc__deep_h='#include "deeper.h"\n', inc__deeper_h="#define DEEP 100\n")
    settings = {"flags": [f"-O1 {flag}"], "compilers": [compiler]}
    assert run(tmp_path, **settings)["deep"].tolist() == [100]
    written(tmp_path, inc__deeper_h="#define DEEP 200\n")
    with pytest.raises(SettingError, match=r"inc/deeper.h has changed since rows"):
        run(tmp_path, (1, 3), **settings)
    written(tmp_path, inc__deeper_h="#define DEEP 100\n", deeper_h="#define DEEP 200\n")
    assert run(tmp_path, **settings)["deep"].tolist() == [100]  # inc/deep.h asks for the one beside itself


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_files_that_the_assembler_includes_are_files_that_were_read(tmp_path, compiler):
    kernel = 'PK_REGION { __asm__ volatile(".include \\"part.inc\\"" : : : "rax"); }\n'
    written(tmp_path, k_c=kernel, part_inc='.include "more.inc"\n', more_inc="imul %rax, %rax\n")
    settings = {"compilers": [compiler], "flags": ["-O1"]}
    assert (run(tmp_path, **settings)["status"] == "ok").all()
    assert len(run(tmp_path, (1, 2), **settings)) == 2
    written(tmp_path, more_inc="imul %rax, %rax\nimul %rax, %rax\n")
    with pytest.raises(SettingError, match=r"more.inc has changed since rows"):
        run(tmp_path, (1, 2, 3), **settings)


def test_a_header_beside_the_kernel_is_not_the_systems(tmp_path):
    """A limits.h beside the kernel was taken for <limits.h>; in quotes, or in a folder that is named, it is taken."""
    text = "#include {}\n#ifndef OWN\n#define OWN 0\n#endif\n"
    text += 'PK_REGION {{ long n = N; PK_KEEP(n); PK_REPORT("own", OWN); }}\n'
    for place in ("", "sub__"):
        written(tmp_path, **{f"{place}limits_h": "#define OWN 1\n", f"{place}mine_h": "#define OWN 2\n"})
        for asked, own in (("<limits.h>", 0), ('"limits.h"', 1), ("<mine.h>", 2), ('"mine.h"', 2)):
            written(tmp_path, **{f"{place}k_c": text.format(asked)})
            kernel = place.replace("__", "/") + "k.c"
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            assert run(tmp_path, kernel=kernel)["own"].tolist() == [own]
            shutil.rmtree(tmp_path / "out")
            assert run(tmp_path, kernel=kernel, include=[str(tmp_path / place.strip("_"))])["own"].tolist() == [
                max(own, 1)
            ]


def test_another_search_path_of_the_environment_is_refused(tmp_path, monkeypatch):
    written(tmp_path, k_c=KERNEL, inc__deep_h="#define DEEP 100\n", b__deep_h="#define DEEP 200\n")
    monkeypatch.setenv("CPATH", str(tmp_path / "inc"))
    assert run(tmp_path)["deep"].tolist() == [100]
    monkeypatch.setenv("CPATH", str(tmp_path / "b"))
    with pytest.raises(SettingError, match="was measured where CPATH was"):
        run(tmp_path, (1, 3))


def test_a_library_that_comes_before_the_one_that_was_linked_is_refused(tmp_path):
    written(tmp_path, k_c="PK_REGION { double x = N; PK_KEEP_VECTOR(x); }\n")
    (tmp_path / "lib").mkdir()
    settings = {"libraries": ["m"], "flags": ["-O1 -Llib"]}
    run(tmp_path, **settings)
    (tmp_path / "lib" / "libz.so").write_text("")
    assert len(run(tmp_path, (1, 2), **settings)) == 2
    (tmp_path / "lib" / "libm.so").write_text("")
    with pytest.raises(SettingError, match=r"libm.so was not there"):
        run(tmp_path, (1, 2, 3), **settings)
