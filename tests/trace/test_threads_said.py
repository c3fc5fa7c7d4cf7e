"""What traces of several threads say of themselves, where a stranger took it for something else."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.errors import FormatError


@pytest.fixture(scope="module")
def triad() -> pk.Trace:
    return pk.datasets.load("traces/triad")


def threads(*traces: pk.Trace) -> pk.ThreadTraces:
    return pk.ThreadTraces(traces, tuple(np.array([[0, 0]]) for _ in traces))


def test_one_thread_is_not_called_balanced(triad):
    alone = threads(triad)
    assert "only one thread came to it" in alone.summary()
    assert "times the mean" not in alone.summary()
    assert alone.shared_lines().summary().endswith("no lines are shared where only one thread ran")


def test_a_file_of_several_threads_says_what_reads_it(triad, tmp_path):
    path = threads(triad, triad).save(tmp_path / "two.threads")
    with pytest.raises(FormatError, match=r"several threads; perfkit\.ThreadTraces\.load reads it"):
        pk.Trace.load(path)


def test_even_work_waits_for_nobody_and_uneven_work_does(triad):
    gus = pk.Gus("zen4")
    even = pk.run_threads(gus, threads(triad, triad)).summary()
    assert "no thread waits for another" in even
    assert "cost more on machines than here" in even  # the same lines, written by both
    uneven = pk.run_threads(gus, threads(triad, triad.head(500))).summary()
    assert "the others wait for thread 0" in uneven
