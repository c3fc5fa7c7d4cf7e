"""Linkage stubs (PLT): named in samples and recordings alike, and shown at the calls that lead to them."""

import dataclasses
import re

import pandas as pd
import pytest

import perfkit as pk
from perfkit.collectors.profile.hot import HotFunction, Profile, own, profile
from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.stubs import callers, stub_at
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.why import _Inquiry
from perfkit.errors import DataError
from perfkit.trace.standing import places
from tests.diagnosis.programs import compiled, needed
from tests.results.examples import EXAMPLES

pytestmark = needed

COPIES = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char from[1 << 20], to[1 << 20];
__attribute__((noipa)) void copies(char *a, const char *b, long n) {
    for (int k = 0; k < 8; k++)
        memcpy(a + k, b + k, n);
}
__attribute__((noipa)) long other(const char *a) { return atol(a); }
int main(int count, char **words) {
    for (int k = 0; k < 4000; k++) copies(to, from, (1 << 20) - 8);
    printf("%d %ld\\n", to[3], other("12"));
}
"""


@pytest.fixture(scope="module")
def program():
    return compiled("copies", COPIES)


@pytest.fixture(scope="module")
def sampled(program):
    found = profile(Target(program), 1.0)
    if "libc" not in found.functions[0].library:
        pytest.skip("no samples in libc's memcpy here")
    return found


def test_a_stub_is_found_in_the_file_and_so_are_its_callers(program):
    elf = ElfFile(program)
    trace = Tracer(callees=True, limit=1000).run(program, "copies")
    recorded = [k for k, name in enumerate(trace.code.function) if name == "memcpy@plt"]
    assert recorded
    addresses = trace.object_addresses()
    for k in recorded:  # also in its middle, where samples fall
        assert stub_at(elf, int(addresses[k])).name == "memcpy@plt"
    assert stub_at(elf, elf.functions["copies"].address) is None
    assert list(callers(elf, "memcpy")) == ["copies"]
    assert list(callers(elf, "printf")) == ["main"]
    assert list(callers(elf, "nothing")) == []


@pytest.mark.filterwarnings("ignore:zen4. no table knows MOVSB")  # how libc copies on some processors
def test_a_stub_stands_at_the_call_that_leads_to_it(program):
    trace = Tracer(callees=True, limit=10_000).run(program, "copies")
    told = {each for each, name in zip(places(trace), trace.code.function, strict=True) if name == "memcpy@plt"}
    assert told == {"copies.c:8"}
    answer = dataclasses.replace(EXAMPLES[pk.Diagnosis](), result=pk.Gus("zen4").run(trace), sources={})
    assert not answer.lines["function"].str.endswith("@plt").any()
    assert answer.lines["time"].sum() == pytest.approx(1)


def test_stubs_are_no_functions_of_the_programs_own():
    stub, mine = (HotFunction(name, name, "/home/p", 9, 0.5, 1, 1) for name in ("memcpy@plt", "mine"))
    assert own([stub, mine]) == mine


def test_where_all_the_time_is_in_a_library_the_caller_is_explained(program, sampled, monkeypatch):
    asked = _Inquiry(Target(program), "", "zen4", 1.0, 1000, lambda _: None, Ahead("zen4", print))
    only = dataclasses.replace(sampled, table=sampled.table[:1])
    hot, reason = asked._function(only)
    assert (hot.symbol, hot.path) == ("copies", str(program.resolve()))
    assert re.fullmatch(r"it calls \S+ of libc.so.6, the hottest function", reason)
    monkeypatch.setattr(_Inquiry, "_calling", lambda *_: None)
    monkeypatch.setattr(_Inquiry, "_asking", lambda *_: None)  # nor do its stacks tell which line asks for the copies
    asked.spent = {}
    with pytest.raises(DataError, match=r"(?s)copies itself was seen running.*Ask about what calls memcpy there: -f c"):
        asked._function(only)


def test_what_the_recording_process_calls_itself_is_refused_with_the_reason(program, sampled):
    hot = sampled.functions[0]
    with pytest.raises(DataError, match=r"is called by the process that records, too.*that calls it \(-f\)"):
        Tracer(callees=True, early=True, library=hot.path).run(program, hot.symbol)


def test_a_function_that_hardly_ran_is_not_offered(tmp_path):
    script = tmp_path / "run.py"
    script.write_text("pass\n")
    asked = _Inquiry(Target(tmp_path, script=script), "", "zen4", 1.0, 1000, lambda _: None, Ahead("zen4", print))
    for share, offered in ((0.001, False), (0.05, True)):
        ran = (
            HotFunction("eval", "eval", "/usr/lib/libpython3.so", 9, 0.9, 1, 1),
            HotFunction("find", "find", "/home/llvm.so", 1, share, 1, 1),
        )
        table = pd.DataFrame(ran).rename(columns={"name": "function", "path": "file"})
        with pytest.raises(DataError, match=f"has {share:.0%} of it") as error:
            asked._function(dataclasses.replace(EXAMPLES[Profile](), table=table))
        assert ("-f find" in str(error.value)) == offered


def test_an_address_that_begins_a_file_lies_in_no_stub():
    """Samples in code of no file are placed at 0; eight bytes before it there is nothing to decode."""
    assert stub_at(ElfFile(compiled("first_bytes", "int main(void) { return 0; }")), 0) is None
