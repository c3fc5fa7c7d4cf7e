"""What the attempts at recording a region found is not found again by the next recording of it."""

import numpy as np
import pytest

from perfkit.collectors.tracer import cloner
from perfkit.collectors.tracer.tracer import Tracer
from tests.diagnosis.programs import compiled, needed

pytestmark = needed

POINTERS = """
#include <stdio.h>
__attribute__((noipa)) long plus(long x) { return x + 3; }
__attribute__((noipa)) long times(long x) { return x * 3; }
long (*volatile steps[2])(long) = {plus, times};
__attribute__((noipa)) long solve(long n) {
    long s = 1;
    for (long i = 0; i < n; i++) s = steps[i % 2](s);
    return s;
}
int main(void) { long s = 0; for (int k = 0; k < 50; k++) s += solve(200); printf("%ld\\n", s); }
"""


@pytest.fixture
def attempts(monkeypatch):
    """Return a list that each attempt adds to what it knows beforehand."""
    found = []
    begin = cloner.Child.__init__

    def counted(self, job, leaders, pointed, scratch):
        found.append(len(pointed))
        begin(self, job, leaders, pointed, scratch)

    monkeypatch.setattr(cloner.Child, "__init__", counted)
    cloner._known_of.cache_clear()
    return found


@pytest.mark.parametrize("pinned", ["", "x86-64-v2"])
def test_a_second_recording_begins_with_what_the_first_one_found_unless_it_is_pinned(attempts, pinned):
    program = compiled("pointers", POINTERS)
    tracer = Tracer(callees=True, pinned=pinned)
    first = tracer.run(program, "solve")
    assert attempts[0] == 0
    assert attempts[-1] == 2
    once = len(attempts)
    again = tracer.run(program, "solve")
    assert attempts[once:] == (attempts[:once] if pinned else [2])
    assert np.array_equal(first.stream, again.stream)
    assert np.array_equal(first.addresses, again.addresses)
    assert first.code.encoding == again.code.encoding


def test_another_file_at_the_same_place_is_another_region(attempts, tmp_path):
    program = tmp_path / "program"
    for _ in range(2):
        program.write_bytes(compiled("pointers", POINTERS).read_bytes())
        program.chmod(0o755)
        Tracer(callees=True).run(program, "solve")
    assert attempts.count(0) == 2
