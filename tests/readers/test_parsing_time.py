"""What taking a small output of perf apart costs, without the table that is made of it."""

import time

import pytest

from perfkit.readers import perf
from perfkit.readers.open import open_dump
from perfkit.readers.recognise import recognise
from perfkit.readers.report import Lines, Report
from tests.readers.test_dialects import dump

MOST_MS = 2.0


class _RowsError(Exception):
    """Carries the rows out of a reader, before a table is made of them."""


@pytest.mark.measures
@pytest.mark.parametrize("name", ["perf-german-text-r", "perf-a-i-x", "perf-j-per-core-6-x"])
def test_a_small_dump_is_taken_apart_within_two_milliseconds(name, monkeypatch):
    def stop(found, report, run):
        perf._values(found, report)
        raise _RowsError(len(found.rows))

    def take_apart():
        content = open_dump(dump(name))
        Lines(content)
        with pytest.raises(_RowsError) as rows:
            recognise(content).read(content, Report(content.name), "run")
        return rows.value.args[0]

    monkeypatch.setattr(recognise(open_dump(dump(name))), "samples_of_rows", stop)
    times = []
    for _ in range(50):
        begin = time.process_time()
        assert take_apart() >= 3
        times.append(time.process_time() - begin)
    median = sorted(times)[len(times) // 2] * 1e3
    assert median < MOST_MS, f"{median:.2f} ms"
