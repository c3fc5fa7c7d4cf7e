"""How many calls a recording holds: recursion and loops are no further ones."""

import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

import perfkit as pk
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.trace.calls import _ends_a_call, calls_of, first_calls

CODE = """#include <stdlib.h>
__attribute__((noipa)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noipa)) long spin(long n) { do { n -= 3; } while (n > 0); return n; }
__attribute__((noipa)) long last(long n) { return spin(n + 1); }
int main(int c, char **v) {
    long s = 0;
    for (long i = 0; i < 7; i++) s += fib(6) + spin(20) + last(9);
    return s == 1;
}
"""


@pytest.mark.parametrize("function", ["fib", "spin", "last"])
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-Os -fPIC -rdynamic"])
def test_only_calls_from_outside_count(tmp_path, function, flags):
    (tmp_path / "p.c").write_text(CODE)
    subprocess.run(["gcc", *flags.split(), "p.c", "-o", "p"], cwd=tmp_path, check=True)
    for callees in (True, False):
        trace = Tracer(repeat=4, skip=1, callees=callees).run(tmp_path / "p", function)
        assert calls_of(trace) == 4
        two = first_calls(trace, 2)
        assert calls_of(two) == 2
        assert two.provenance.complete
        assert (
            two.stream.tolist()
            == Tracer(repeat=2, skip=1, callees=callees).run(tmp_path / "p", function).stream.tolist()
        )
        if function != "last":  # whose calls are one block each, which cutting takes away
            assert calls_of(trace.head(trace.instruction_count - 1)) == 4
    few = Tracer(repeat=50).run(tmp_path / "p", function)
    assert calls_of(few) == (14 if function == "spin" else 7)


def test_what_was_not_recorded_by_calls_says_nothing():
    trace = pk.datasets.load("traces/fig1a")
    assert calls_of(trace) == 1
    late = replace(trace.provenance, extra={**trace.provenance.extra, "after": "0.2"})
    for origin in (late, replace(trace.provenance, kind="generated")):
        assert calls_of(replace(trace, provenance=origin)) is None


@pytest.mark.parametrize(
    ("word", "ends"),
    [
        (0x14000010, True),  # b to somewhere else: a tail call
        (0x17FFFFFC, False),  # b back to the function's first instruction
        (0xD65F03C0, True),  # ret
        (0xD61F0200, True),  # br x16
        (0xD63F0200, False),  # blr x16: it comes back
        (0x8B010000, False),  # add x0, x0, x1
    ],
)
def test_which_instructions_of_aarch64_end_a_call(word, ends):
    """What runs next is the function's first instruction, 16 bytes before this one."""
    code = SimpleNamespace(encoding=[word.to_bytes(4, "little")], pc=[0x1010])
    assert _ends_a_call(SimpleNamespace(code=code, isa="aarch64"), 0, 0x1000) == ends
