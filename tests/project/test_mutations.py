"""The program that plants mutations: a list of them is followed while the code changes."""

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
