"""What the attempts at recording a region found is not found again by the next recording of it."""

import subprocess
import sys

import numpy as np
import pytest

from perfkit.collectors.tracer import cloner
from perfkit.collectors.tracer.elf import ElfFile
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


def test_what_is_named_beforehand_is_followed_at_once_and_what_is_never_called_changes_nothing(attempts):
    program = compiled("pointers", POINTERS)
    functions = ElfFile(program).functions
    first = Tracer(callees=True).run(program, "solve")
    once = len(attempts)
    cloner._known_of.cache_clear()
    named = [(str(program.resolve()), functions[name].address) for name in ("plus", "times", "main")]
    again = Tracer(callees=True, pointed=named).run(program, "solve")
    assert once > 1
    assert attempts[once:] == [3]
    for trace in (first, again):
        assert {"plus", "times"} <= set(trace.code.function)
    assert again.instruction_count == first.instruction_count
    assert np.array_equal(again.addresses, first.addresses)
    assert again.object_addresses()[again.code.block_start[again.stream]].tolist() == (
        first.object_addresses()[first.code.block_start[first.stream]].tolist()
    )


def test_addresses_do_not_depend_on_how_long_a_path_is(tmp_path):
    addresses = []
    for length in (1, 37, 98, 190):
        program = tmp_path / ("p" * length)
        program.write_bytes(compiled("pointers", POINTERS).read_bytes())
        program.chmod(0o755)
        trace = Tracer(callees=True).run(program, "solve")
        addresses.append(trace.addresses.tolist())
    assert all(each == addresses[0] for each in addresses)


PRINTS = """
#include <stdio.h>
__attribute__((noipa)) int show(char *text, int i) {
    return snprintf(text, 100, "%5d %g %s %x\\n", i, i * .37, "ab", i);
}
int main(void) { char text[100]; long n = 0; for (int i = 0; i < 300; i++) n += show(text, i); printf("%ld\\n", n); }
"""


LINES = """
#include <stdio.h>
__attribute__((noipa)) void lines(FILE *f, long n) { for (long i = 0; i < n; i++) fprintf(f, "%ld %g\\n", i, i * .37); }
int main(void) { FILE *f = fopen("/dev/null", "w"); for (int k = 0; k < 3; k++) lines(f, 2000); fclose(f); }
"""


def test_what_libc_calls_once_per_buffer_is_recorded_at_the_first_attempt(attempts):
    """A full buffer is written through libc's table of a file's functions, one of which calls the next."""
    trace = Tracer(callees=True, skip=1).run(compiled("lines", LINES), "lines")
    assert len(attempts) == 1
    ran = {trace.code.function[trace.code.block_start[block]] for block in set(trace.stream.tolist())}
    assert any("overflow" in name for name in ran), ran
    assert any("do_write" in name or "file_write" in name for name in ran), ran
    assert "_IO" not in trace.provenance.extra.get("not_followed_calls", "")


def test_printf_runs_in_a_recording_as_in_the_program(attempts):
    """NumPy's libraries register conversions: in a process that has loaded them printf takes another way."""
    trace = Tracer(callees=True, skip=10, repeat=5).run(compiled("prints", PRINTS), "show")
    names = set(trace.code.function)
    assert any("vfprintf" in name for name in names), names
    assert not any("positional" in name or "quadmath" in name for name in names), names
    assert set(attempts) <= {0, 1, 2}
    assert len(attempts) <= 3  # its tables of distances to a label are read, not met one entry after the other


@pytest.mark.parametrize("module", ["child", "timed_child", "threads_child", "pinned_child", "modules", "copied"])
def test_the_process_that_runs_the_program_loads_no_numpy(module):
    code = f"import sys, perfkit.collectors.tracer.{module}; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


MANY = """
#include <stdio.h>
{functions}
typedef long (*step)(long);
static const step steps[] = {{{names}}};
__attribute__((noipa)) long solve(long n) {{
    long s = 1;
    for (long i = 0; i < n; i++) s = steps[i % {n}](s);
    return s;
}}
int main(void) {{ printf("%ld\\n", solve({n})); }}
"""


@pytest.mark.parametrize("n", [100, 300])
def test_functions_of_a_table_are_not_found_by_the_hundred(attempts, n):
    """The list of targets has room for 128: a table of 3,000 functions took 25 attempts, of seconds each."""
    functions = "\n".join(f"__attribute__((noipa)) static long f{k}(long x) {{ return x + {k}; }}" for k in range(n))
    source = MANY.format(functions=functions, names=", ".join(f"f{k}" for k in range(n)), n=n)
    trace = Tracer(callees=True).run(compiled(f"many{n}", source), "solve")
    assert len(attempts) == 2
    assert n <= attempts[1] <= n + 8  # what starts and ends a program stands in tables, too
    assert {f"f{k}" for k in range(n)} <= set(trace.code.function)
