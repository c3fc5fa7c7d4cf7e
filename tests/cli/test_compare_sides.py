"""What `perfkit compare` builds B with, and that the options' help says so: compilers tell, nothing is measured."""

import pytest

KERNEL = """long f(long n) { return n; }
#ifdef SECOND
#define STRING_(x) #x
#define STRING(x) STRING_(x)
_Pragma(STRING(GCC error STRING(found X Y __OPTIMIZE__)))
#endif
"""


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["-D", "X=1", "--define-b", "SECOND", "--define-b", "Y=2"], ["1", "2", "1"]),
        (["-D", "X=1", "-D", "Y=1", "--define-b", "SECOND", "--define-b", "X=3"], ["3", "1", "1"]),
        (["--flags", "-O1 -DX=1", "--define-b", "SECOND"], ["1", "Y", "1"]),
        (["--flags", "-O1 -DX=1", "--flags-b", "-DSECOND -DY=2"], ["X", "2", "__OPTIMIZE__"]),
        (["-D", "X=4", "--flags", "-O1 -DY=1", "--flags-b", "-O2 -DSECOND"], ["4", "Y", "1"]),
    ],
)
def test_define_b_adds_and_flags_b_replaces(perfkit, tmp_path, options, found):
    """B, the side of which SECOND is defined, says what X, Y and __OPTIMIZE__ are in it."""
    (tmp_path / "k.c").write_text(KERNEL)
    said = " ".join(perfkit("compare", "k.c", *options, status=2).split())
    assert said.partition("found ")[2].split()[:3] == found


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("compare", "Define a macro of B, beside all of A's; of the same name, in its place; may be repeated."),
        ("compare", "Compiler flags of B, in place of all of A's (default: A's)."),
        ("diff", "Compiler flags of B, in place of all of A's (default: A's)."),
    ],
)
def test_the_help_says_so(perfkit, monkeypatch, command, told):
    monkeypatch.setenv("COLUMNS", "400")
    assert told in " ".join(perfkit(command, "--help").split())
