"""The program that plants mutations: a list of them is followed while the code changes."""

import gc
import json
import os
import subprocess
import sys

import pytest

from tests.benchmarks import mutants
from tests.benchmarks.mutants import Mutant

OLD = b"a = 1\nb = x + 1\na = 1\nc = 2\n"


@pytest.mark.parametrize(
    ("new", "applied"),
    [
        (b"# more\n\na = 1\nb = x + 1\na = 1\nc = 2\n", b"# more\n\na = 1\nb = x - 1\na = 1\nc = 2\n"),
        (b"c = 2\nb = x + 1\n", b"c = 2\nb = x - 1\n"),
        (b"a = 1\nb = x + 2\n", None),  # the line is gone
    ],
)
def test_a_mutation_is_followed_to_where_its_line_is_now(tmp_path, monkeypatch, new, applied):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "code.py").write_bytes(new)
    at = OLD.index(b"x + 1")
    found = mutants.followed(Mutant("code.py", 2, at, at + 5, "x - 1"), OLD)
    assert (found.applied(new) if found else None) == applied
    assert not found or new.splitlines()[found.line - 1] == b"b = x + 1"


def test_of_several_equal_lines_it_is_the_one_that_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "code.py").write_bytes(b"# more\n" + OLD)
    at = OLD.rindex(b"1\nc")
    found = mutants.followed(Mutant("code.py", 3, at, at + 1, "2"), OLD)
    assert found.applied(b"# more\n" + OLD) == b"# more\na = 1\nb = x + 1\na = 2\nc = 2\n"


CODE = b"""\
LIMIT = 3
TWICE = 2 * LIMIT


def kept(rows):
    return [row for row in rows if row < TWICE]


class Table:
    size: int = 5

    def inner(self):
        def one():
            return 1
        return one


@njit
def fast(x):
    return x + 1


def calls(x):
    return x - 7


def _generated(builder, x):
    return builder.add(x, 9)
"""


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("row < TWICE", {"perfkit/code.py:kept"}),
        ("3", {"perfkit/code.py:kept", "perfkit/user.py:other"}),  # through another constant, and in another file
        ("5", {"perfkit/code.py:Table.inner", "perfkit/code.py:Table.inner.<locals>.one"}),
        ("1\n        return", {"perfkit/code.py:Table.inner.<locals>.one"}),
        ("x - 7", {"perfkit/code.py:calls"}),
        ("x + 1", None),  # numba compiles it
        ("9", None),
    ],
)
def test_a_mutation_is_tried_on_tests_that_enter_what_executes_it(tmp_path, text, functions):
    folder = tmp_path / "perfkit"
    folder.mkdir()
    (folder / "code.py").write_bytes(CODE)
    (folder / "user.py").write_text("from perfkit.code import LIMIT\n\n\ndef other():\n    return LIMIT\n")
    (folder / "stranger.py").write_text("LIMIT = 5\n\n\ndef nobody():\n    return LIMIT\n")
    start = CODE.index(text.encode())
    mutant = Mutant("perfkit/code.py", 1, start, start + len(text.partition("\n")[0]), "0")
    assert mutants._functions_of(tmp_path, mutant) == functions


def test_the_tests_of_a_mutation_are_the_nearest_and_quickest(tmp_path, monkeypatch):
    (tmp_path / "perfkit").mkdir()
    (tmp_path / "perfkit/code.py").write_bytes(CODE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_code.py").write_text("")
    reached = mutants.Reached(tmp_path, 1.0)
    of = {"perfkit/code.py:calls"}
    rows = {
        "slow": [9.0, True, of],
        "quick": [0.1, True, of],
        "elsewhere": [0.1, True, {"perfkit/code.py:kept"}],
        "fails": [0.1, False, of],
        "too slow": [11.0, True, of],
    }
    text = mutants._text(tmp_path / "tests/test_code.py")
    reached.rows["tests/test_code.py", text] = rows
    start = CODE.index(b"x - 7")
    mutant = Mutant("perfkit/code.py", 1, start, start + 5, "0")
    assert reached.chosen(mutant, ["tests/test_code.py"]) == ["quick", "slow"]
    monkeypatch.setattr(mutants, "_MOST_SECONDS", 0.3)
    assert reached.chosen(mutant, ["tests/test_code.py"]) == ["quick"]
    assert reached.chosen(mutant, ["tests/test_code.py"], every=True) == ["quick", "slow", "elsewhere"]


@pytest.mark.parametrize("file", ["perfkit/part/timed.py", "perfkit/part/timed_child.py"])
def test_what_runs_in_a_child_is_tried_on_the_tests_of_what_starts_it(tmp_path, file):
    (tmp_path / "tests/part").mkdir(parents=True)
    (tmp_path / "tests/part/test_b.py").write_text("from perfkit.part.timed import time_calls\n")
    (tmp_path / "tests/part/test_a.py").write_text("from perfkit.part.other import timed_out\n")
    assert mutants.test_files(tmp_path, file, ["tests/part"]) == ["tests/part/test_b.py", "tests/part/test_a.py"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [(b"x + 1", "x - 1", "code.py: b = x - 1"), (b"c = 2", "pass", "code.py: without c = 2")],
)
def test_two_statements_that_are_left_out_have_two_names(old, new, key):
    at = OLD.index(old)
    assert mutants._key(Mutant("code.py", 2, at, at + len(old), new), OLD) == key


def test_the_time_of_a_process_is_what_it_and_its_children_took():
    assert mutants._spent(os.getpid()) == pytest.approx(sum(os.times()[:4]), abs=0.2)


C = b"""/* of 3 < 4 */
extern int sizes(int);
static long count = 7;
static int told(const char *text, int n) {
    if (n << 1 > 5) count += n - 2;
    puts("n < 5");
    while (n) n--;
    return n;
}
"""


def test_a_file_of_c_has_its_comparisons_arithmetic_constants_and_statements_changed():
    found = [(m.line, C[m.start : m.stop].decode(), m.new) for m in mutants.mutants("a.c", C)]
    assert found == [
        (3, "7", "8"),
        (5, "<<", ">>"),
        (5, "1", "2"),
        (5, ">", ">="),
        (5, "5", "6"),
        (5, "count += n - 2;", ";"),
        (5, "-", "+"),
        (5, "2", "3"),
        (6, 'puts("n < 5");', ";"),
    ]


def test_a_file_of_c_is_tried_on_the_tests_of_what_builds_it(tmp_path):
    folder = tmp_path / "perfkit"
    folder.mkdir()
    (folder / "told.c").write_bytes(C)
    (folder / "builds.py").write_text('def built():\n    return "told.c"\n\n\ndef runs():\n    pass\n')
    (folder / "other.py").write_text("def other():\n    pass\n")
    mutant = next(mutants.mutants("perfkit/told.c", C))
    assert mutants._functions_of(tmp_path, mutant) == {"perfkit/builds.py:built"}
    assert mutants._key(mutant, C) == "perfkit/told.c: static long count = 8;"
    left = next(each for each in mutants.mutants("told.c", C) if each.line == 6)
    assert mutants._key(left, C) == 'told.c: without puts("n < 5");'


# ------------------------------------------------------------------ exchanged code


def imported(folder, text):
    file = folder / "exchanged_code.py"
    file.write_text(text)
    module = type(mutants)(file.stem)
    exec(compile(text, str(file), "exec"), vars(module))
    return str(file), module


PLAIN = """\
LIMIT = 3


def kept(x, limit=LIMIT):
    def one():
        return x + 1

    return one() if x < limit else [x for _ in (1,)]
"""


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [("x < limit", "x <= limit", 4), ("x + 1", "x + 2", [3]), ("for _ in (1,)", "for _ in (1, 2)", [3, 3])],
)
def test_the_code_of_a_function_and_of_those_inside_is_exchanged(tmp_path, old, new, answer):
    file, module = imported(tmp_path, PLAIN)
    codes = mutants.exchangeable(file, PLAIN, PLAIN.replace(old, new))
    assert module.kept(3) == [3]
    module.kept.__code__ = codes[module.kept.__code__]
    assert module.kept(3) == answer
    assert module.kept(2) == (4 if "2" in new and "+" in new else 3)


@pytest.mark.parametrize(("old", "new"), [("LIMIT = 3", "LIMIT = 4"), ("limit=LIMIT", "limit=7")])
def test_what_a_file_executes_when_it_is_imported_is_not_exchanged(tmp_path, old, new):
    file, module = imported(tmp_path, PLAIN)
    assert mutants.exchangeable(file, PLAIN, PLAIN.replace(old, new)) is None
    assert module.kept(3) == [3]


def test_code_that_ran_before_or_that_nobody_holds_is_not_exchanged(tmp_path):
    file, module = imported(tmp_path, PLAIN)
    new = PLAIN.replace("x + 1", "x + 2")
    assert mutants.exchangeable(file, PLAIN, new, {module.kept.__code__}) is None
    del module
    gc.collect()
    assert mutants.exchangeable(file, PLAIN, new) is None


def test_tests_run_in_children_of_a_process_that_has_collected_them(tmp_path):
    (tmp_path / "perfkit").mkdir()
    (tmp_path / "perfkit/__init__.py").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    measures\n    browser\n    shared_data\n")
    code = tmp_path / "perfkit/half.py"
    code.write_text("def half(x):\n    return x // 2\n")
    (tmp_path / "tests/test_half.py").write_text(
        "from perfkit.half import half\n\n\ndef test_even():\n    assert half(4) == 2\n\n\n"
        "def test_zero():\n    assert half(0) == 0\n\n\ndef test_fails():\n    assert half(4) == 3\n\n\n"
        "def test_started():\n    import subprocess\n    import sys\n\n"
        "    subprocess.run([sys.executable, '-c', 'from perfkit.half import half; half(2)'], check=True)\n"
    )
    (tmp_path / "sitecustomize.py").write_text(mutants._NOTES)
    names = [f"tests/test_half.py::test_{name}" for name in ("zero", "fails", "even")]
    at = code.read_text().index("2")
    program = f"""
import json, sys
from pathlib import Path
from tests.benchmarks.mutants import Mutant, Reached, planted
reached = Reached(Path({str(tmp_path)!r}), 60.0)
reached.collect(["tests/test_half.py"])
said = [planted(reached, Mutant("perfkit/half.py", 2, {at}, {at + 1}, new), {names}, 60.0) for new in "32"]
found = reached.tests(["tests/test_half.py"])
reached.warm.close()
sys.stdout.write(json.dumps([[[s["outcome"], s["by"]] for s in said], {{t: [*f] for t, (_, f) in found.items()}}]))
"""
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # perfkit's own plugin is not in this perfkit
    asked = {"cwd": mutants.ROOT, "capture_output": True, "text": True, "check": True}
    ran = subprocess.run([sys.executable, "-c", program], **asked, env=alone)
    said, found = json.loads(ran.stdout.splitlines()[-1])
    assert said == [["noticed", names[2]], ["survived", ""]]  # what fails without the mutation, too, says nothing
    entering = [names[0], names[2], "tests/test_half.py::test_started"]
    assert found == {name: ["perfkit/half.py:half"] for name in entering}
    assert code.read_text() == "def half(x):\n    return x // 2\n"


def test_what_the_tests_enter_is_kept_for_files_as_they_are_now(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "REACHED", tmp_path / "reached.json.gz")
    assert mutants.known() == {}
    (tmp_path / "test_a.py").write_text("a")
    (tmp_path / "test_b.py").write_text("b")
    a, b = ((f"test_{x}.py", mutants._text(tmp_path / f"test_{x}.py")) for x in "ab")
    of_a = {"test_a.py::one[x::y]": [0.5, True, ["z.py:f", "a.py:g"]], "test_a.py::two": [0.1, False, []]}
    of_b = {"test_b.py::three": [0.2, True, ["c.py:h", "a.py:g"]]}
    mutants.keep({a: of_a, b: of_b, ("test_a.py", "older"): of_b, ("gone.py", b[1]): of_b})
    of_b["test_b.py::three"][2].sort()
    assert mutants.known() == {a: of_a, b: of_b}
