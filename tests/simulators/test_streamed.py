"""A trace that stays in its file gives what the loaded one gives."""

import numpy as np
import pytest

from perfkit import datasets
from perfkit.errors import DataError, FormatError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus, GusResult
from perfkit.simulators.gus.sensitivity import sensitivity
from perfkit.trace.trace import StreamedTrace, Trace

GUS = Gus(Microarchitecture.load("skylake_x"), warm=True)


@pytest.fixture(scope="module")
def loaded():
    return datasets.load("traces/correlation-v1-small")


@pytest.fixture
def streamed(loaded, tmp_path, monkeypatch):
    """The trace in a file of many pieces, none of them of a whole number of windows."""
    monkeypatch.setattr("perfkit.trace.file.BLOCKS_PER_CHUNK", 1000)
    return Trace.open(loaded.save(tmp_path / "v1.trace"))


def test_it_says_the_same_of_itself(loaded, streamed):
    assert isinstance(streamed, StreamedTrace)
    for name in ("instruction_count", "access_count", "blocks_executed", "isa"):
        assert getattr(streamed, name) == getattr(loaded, name)
    assert (streamed.instruction_counts() == loaded.instruction_counts()).all()
    assert repr(streamed) == repr(loaded).replace("<Trace: ", "<StreamedTrace: ", 1)
    for blocks in (300, 1 << 20):
        chunks = list(streamed.chunks(blocks))
        assert max(len(c.stream) for c in chunks) == min(blocks, 1000)
        for name in ("stream", "addresses", "sizes"):
            assert (np.concatenate([getattr(c, name) for c in chunks]) == getattr(loaded, name)).all()
        firsts = [(c.first_instruction, c.first_access) for c in chunks]
        assert firsts == sorted(firsts)
        assert firsts[-1][1] + len(chunks[-1].addresses) == loaded.access_count


@pytest.mark.parametrize("n", [0, 5, 6000, 50_000, 10**9])
def test_its_head_is_that_of_the_loaded_one(loaded, streamed, n):
    one, other = streamed.head(n), loaded.head(n)
    assert (one.stream.tolist(), one.addresses.tolist()) == (other.stream.tolist(), other.addresses.tolist())
    assert one.provenance == other.provenance


def test_gus_finds_the_same(loaded, streamed, tmp_path):
    one, other = GUS.run(streamed), GUS.run(loaded)
    assert one.ticks == other.ticks
    assert one.to_frame().equals(other.to_frame())
    assert one.causality().counts.tolist() == other.causality().counts.tolist()
    assert one.schedule(7000, 50).table.equals(other.schedule(7000, 50).table)
    names = ["rob", "instruction_latency"]
    assert sensitivity(GUS, streamed, (2.0,), names).speedup.tolist() == (
        sensitivity(GUS, loaded, (2.0,), names).speedup.tolist()
    )
    assert GusResult.load(one.save(tmp_path / "one.gus")).ticks == other.ticks


def test_whole_streams_are_refused(streamed):
    for name in ("stream", "addresses", "sizes"):
        with pytest.raises(DataError, match=r"Trace\.load"):
            getattr(streamed, name)


def test_a_damaged_file_is_refused(tmp_path):
    bad = tmp_path / "bad.trace"
    bad.write_bytes(b"PK")
    with pytest.raises(FormatError):
        Trace.open(bad)
