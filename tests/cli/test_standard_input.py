"""What a program's input is when perfkit's own is a pipe: all of it, or a refusal with a word, and no endless wait."""

import os
import sys

import pytest

from perfkit.cli import standard_input
from perfkit.errors import UnavailableError


@pytest.fixture
def pipe(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb") as other:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield other


def test_all_of_a_pipe_is_kept(pipe):
    pipe.write(b"one\ntwo\n")
    pipe.close()
    with standard_input.kept() as path:
        assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("begun", [b"", b"half a line"])
def test_a_pipe_that_stays_open_is_told_and_refused(pipe, begun, monkeypatch):
    """It was waited for without a word, and for ever."""
    monkeypatch.setattr(standard_input, "_QUIET", 0.01)
    monkeypatch.setattr(standard_input, "PATIENCE", 0.1)
    pipe.write(begun)
    pipe.flush()
    said: list[str] = []
    with pytest.raises(UnavailableError, match=r"stays open.*< /dev/null"), standard_input.kept(said.append):
        pass
    assert len(said) == 1
    assert said[0].startswith("waiting for the end of standard input")
