"""Programs that spend their time in libraries, and in throwing: the user's line is named, and no answer is lost."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors import Tracer
from perfkit.collectors.profile import perf
from perfkit.collectors.profile.hot import HotFunction, is_openmp, profile
from perfkit.collectors.profile.sampled import CodePlace, Sampled, Target, mapped_code
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.timed import CallTimes, time_calls
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.calls import Calls
from perfkit.diagnosis.diagnosis import Measured
from perfkit.diagnosis.huge_pages import TRANSLATION, may_help, told, tried
from perfkit.diagnosis.why import _clocked, _Inquiry
from perfkit.errors import DataError
from perfkit.machine.core import Microarchitecture
from perfkit.trace.code import NO_ACCESS, Provenance, StaticCode
from perfkit.trace.standing import foreign, places, standing
from perfkit.trace.trace import Trace
from tests.diagnosis.programs import compiled, needed

pytestmark = needed

STRLEN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noipa)) long flipped(char *text) {
    long changed = 0;
    for (size_t i = 0; i < strlen(text); i++) {
        text[i] = (char)(text[i] ^ 1);
        changed += text[i];
    }
    return changed;
}
__attribute__((noipa)) long once(char **lines, int n) {
    long all = 0;
    for (int i = 0; i < n; i++)
        all += strlen(lines[i]);
    return all;
}
int main(void) {
    char *text = malloc(8001), *lines[2] = {text, text + 7};
    memset(text, 'a', 8000);
    text[8000] = 0;
    long sum = once(lines, 2);
    for (int r = 0; r < 150; r++) sum += flipped(text);
    printf("%ld\n", sum);
    return 0;
}
"""
THROWS = r"""
#include <cstdio>
#include <stdexcept>
#include <vector>
__attribute__((noipa)) double check(double x) {
    if (x < 0) throw std::runtime_error("negative");
    return x * 2;
}
__attribute__((noipa)) double work(const std::vector<double>& v) {
    double sum = 0;
    for (double x : v) {
        try { sum += check(x) / (x + 3.0); }
        catch (const std::runtime_error&) { sum -= 1; }
    }
    return sum;
}
int main() {
    std::vector<double> v(2000);
    for (size_t i = 0; i < v.size(); i++) v[i] = i % 10 == 9 ? -1.0 : 1.0 * i;
    double s = 0;
    for (int r = 0; r < 200; r++) s += work(v);
    std::printf("%f\n", s);
}
"""
OPTIONS = r"""
#include <iostream>
#include <cstdlib>
#include <unistd.h>
__attribute__((noipa)) double chain(int n, double d) {
    double s = 1e300;
    for (int i = 0; i < n; i++) s = s / d;
    return s;
}
int main(int argc, char **argv) {
    int c, n = 0;
    while ((c = getopt(argc, argv, "n:")) != -1) if (c == 'n') n = std::atoi(optarg);
    double t = 0;
    for (int r = 0; r < n; r++) t += chain(300, std::atof(argv[optind]));
    std::cout << t << std::endl;
    return optind == 3 ? 0 : 7;
}
"""


def throwing() -> Path:
    return compiled("throws", THROWS, compiler="g++", suffix=".cpp")


def options() -> Path:
    return compiled("options", OPTIONS, compiler="g++", suffix=".cpp")


@pytest.mark.parametrize("flags", [(), ("-fno-plt",)])
def test_the_users_line_is_named_for_what_a_library_does_in_a_call_of_it(flags):
    program = compiled(f"strlen{len(flags)}", STRLEN, *flags)
    answer = pk.why(program, "flipped")
    line = next(n for n, text in enumerate(STRLEN.splitlines(), 1) if "i < strlen" in text)
    assert answer.line["line"] == line
    assert answer.line["function"] == "flipped"
    assert f"strlen{len(flags)}.c:{line}" in answer.headline()
    assert "strlen" in answer.line["library"]
    assert answer.line["causality"] > 0.9
    assert answer.lines["causality"].sum() == pytest.approx(1, abs=1e-6)


def test_a_program_that_is_all_in_a_library_is_explained_by_the_function_that_spends_it_there():
    answer = pk.why(compiled("strlen0", STRLEN))
    assert answer.function == "flipped"  # main and once call strlen, too


@pytest.mark.parametrize("symbol", ["_Z5checkd", "_Z4workRKSt6vectorIdSaIdEE"])
def test_calls_that_exceptions_leave_or_that_catch_them_are_timed_to_the_end_of_the_run(symbol):
    assert symbol in ElfFile(throwing()).functions
    found = time_calls(throwing(), symbol)
    assert found.ended == ""
    assert found.calls == (400_000 if "check" in symbol else 200)
    if "check" in symbol:  # every tenth call is left, and no time is that of several calls
        thrown, plain = found.cycles[9::10][:-1], np.delete(found.cycles, np.s_[9::10])
        assert np.median(thrown) > 10 * np.median(plain)


THROWN = r"^\d+% of the run is throwing and catching exceptions .*thrown in check"


def test_a_refusal_to_record_calls_that_throw_says_first_that_throwing_has_the_time():
    with pytest.raises(DataError, match=THROWN + "(?s:.)*work throws or catches an exception"):
        pk.why(throwing(), "_Z4workRKSt6vectorIdSaIdEE")


def test_throwing_comes_first_whichever_of_the_few_samples_of_the_programs_own_functions_leads():
    # work is refused, as its calls throw; check is explained, up to the call that throws; and both have few samples
    told: list[str] = []
    try:
        said = pk.why(throwing(), say=told.append).first
    except DataError as refused:
        said = str(refused)
    assert re.match(THROWN, said)
    # It is said as soon as it is known: before any call is timed or recorded, which takes long where calls throw.
    early = next(k for k, each in enumerate(told) if re.match(THROWN, each))
    assert not any("timing" in each or "recording" in each for each in told[:early])


def test_calls_before_an_exception_are_explained():
    answer = pk.why(throwing(), "_Z5checkd")
    assert answer.function == "check"
    assert answer.result.trace.provenance.complete
    assert "throwing and catching" in answer.first
    thrown = int(answer.first.partition("%")[0])
    assert any("what would gain there changes nothing of them" in each for each in answer.doubts) == (thrown >= 50)


def test_samples_in_the_part_that_the_compiler_moved_away_are_the_functions(monkeypatch):
    """Under load a sample or two in the code that throws, and none in the rest, made that "the function"."""
    program = throwing().resolve()
    elf = ElfFile(program)
    moved, whole = (elf.functions[name] for name in ("_Z5checkd.cold", "_Z5checkd"))
    assert elf.holds(moved.address).name == moved.name
    assert elf.function_at(moved.address).name == whole.name
    places = {(CodePlace(str(program), moved.address + 1), 7, 7): 3, (CodePlace(str(program), whole.address), 7, 7): 1}
    monkeypatch.setattr(perf, "sample", lambda *_: Sampled("by hand", places, 2.0))
    found = profile(Target(program, ()))
    assert [(each.symbol, each.samples) for each in found.functions] == [("_Z5checkd", 4)]
    assert pk.why(program, "_Z5checkd").symbol == "_Z5checkd"


def test_a_program_reads_its_options_and_prints_as_it_does_by_itself():
    program = options()
    assert {"optarg", "optind", "_ZSt4cout"} <= {symbol.name for symbol in ElfFile(program).copied}
    symbol = "_Z5chainid"
    found = time_calls(program, symbol, ["-n", "500", "1.5"])
    assert (found.calls, found.ended) == (500, "")


def test_a_program_without_copies_of_variables_says_so():
    assert ElfFile(compiled("strlen0", STRLEN)).copied == ()


def _made(function: list[str], text: list[str], stream: list[int], system: str = "") -> Trace:
    """A trace of blocks of one instruction each: block k is at line k + 1 of a.c, or of no line in a library."""
    n = len(text)
    own = [name in ("user", "back") for name in function]
    code = StaticCode(
        "x86-64", pc=[0x1000 + 8 * k for k in range(n)], encoding=(b"\x90" * 4,) * n, text=text, function=function,
        block_start=range(n + 1), operand_start=[0] * (n + 1), read=[], write=[], size=[],
        file=["a.c" if mine else "" for mine in own], line=[k + 1 if mine else 0 for k, mine in enumerate(own)],
    )  # fmt: skip
    provenance = Provenance(function="user", extra={"system": system} if system else {})
    return Trace.from_parts(code, stream, [], provenance=provenance)


def test_code_of_a_library_stands_at_the_call_that_leads_to_it_and_goes_on_there_after_calls_back():
    # user: call sort, call other, ret; back: jmp compare; sort: call back, ret; compare: ret; other: ret
    names = ["user", "user", "user", "back", "sort", "sort", "compare", "other"]
    texts = ["call 1020h", "call 1038h", "ret", "jmp 1030h", "call 1018h", "ret", "ret", "ret"]
    trace = _made(names, texts, [0, 4, 3, 6, 5, 1, 7, 2])
    assert foreign(trace).tolist() == [False] * 4 + [True] * 4
    assert standing(trace) == [0, 1, 2, 3, 0, 0, 3, 1]
    assert places(trace)[4:] == ["a.c:1", "a.c:1", "a.c:4", "a.c:2"]


def test_what_ran_before_any_call_of_the_users_stands_by_itself():
    trace = _made(["user", "user", "sort"], ["call 1010h", "ret", "ret"], [2, 1])
    assert standing(trace) == [0, 1, 2]


def test_a_library_that_was_asked_about_is_nobody_elses():
    trace = _made(["user", "user", "helper"], ["call 1010h", "ret", "ret"], [0, 2, 1], "[[4096, 8192]]")
    assert not foreign(trace).any()  # all of it lies in the file of what was asked about


def test_the_system_is_told_by_its_folders():
    assert HotFunction("strlen", "strlen", "/usr/lib/x86_64-linux-gnu/libc.so.6", 1, 0.1, 1, 1).is_system


PAGES = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) long touch(const char *base, const int *order, int n) {
    long s = 0;
    for (int i = 0; i < n; i++) s += *(const long *)(base + (long)order[i] * 4096 + (order[i] % 61) * 64);
    return s;
}
int main(void) {
    int n = 6000;
    char *base = aligned_alloc(4096, (size_t)n * 4096);
    int *order = malloc(n * sizeof *order);
    for (long i = 0; i < (long)n * 4096; i += 64) base[i] = i;
    for (int i = 0; i < n; i++) order[i] = i;
    unsigned x = 1;
    for (int i = n - 1; i > 0; i--) {
        x = x * 1664525u + 1013904223u;
        int j = (x >> 8) % i, t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    long s = 0;
    for (int r = 0; r < 2000; r++) s += touch(base, order, n);
    printf("%ld\n", s);
    return 0;
}
"""


def test_huge_pages_are_tried_where_address_translation_is_the_bottleneck(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.why.tried", lambda *_: 1.25)
    answer = pk.why(compiled("pages", PAGES), core="zen5")
    assert answer.bottleneck in TRANSLATION
    assert "1.25 times as fast (measured)" in answer.headline()
    assert answer.what_ifs[0].most == 0  # the measured figure stands in the place of the simulated one
    assert answer.but(tried="").what_ifs[0].most > answer.what_ifs[0].factor


def test_huge_pages_are_timed_by_turns_with_none_and_the_least_counts(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.huge_pages._can", lambda: True)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1")
    cycles = iter([900.0, 500.0, 800.0, 400.0, 850.0, 700.0, 990.0, 600.0])
    asked = []

    def once(environment):
        asked.append(environment["GLIBC_TUNABLES"])
        return CallTimes(np.array([9e9, next(cycles), 9e9]), 3, 0, (1.0,), 0.0, False, "", 0.1)

    assert tried(once, 1, 2) == 2
    assert asked == ["glibc.malloc.arena_max=1", "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1"] * 4
    assert tried(lambda _: CallTimes(np.zeros(1), 1, 0, (1.0,), 0.0, False, "", 0.1), 1, 2) == 0
    assert told(0, always=True) == ""


def test_huge_pages_that_bring_little_are_timed_twice_and_told_only_where_translation_is_the_bottleneck(monkeypatch):
    monkeypatch.setattr("perfkit.diagnosis.huge_pages._can", lambda: True)
    taken = [1050.0, 1000.0] * 4
    runs = iter(taken)
    found = tried(lambda _: CallTimes(np.array([next(runs)]), 1, 0, (1.0,), 0.0, False, "", 0.1), 0, 1)
    assert found == 1.05
    assert len(list(runs)) == len(taken) - 4
    assert told(found, always=False) == ""
    assert "1.05 times as fast (measured)" in told(found, always=True)
    assert "1.20 times as fast (measured)" in told(1.2, always=False)


@pytest.mark.parametrize(
    ("bottleneck", "apart", "pages", "may"),
    [
        ("memory_latency", None, 500, True), ("memory_latency", None, 50, False), ("fp_divider", -0.5, 500, True),
        ("fp_divider", -0.1, 500, False), ("fp_divider", 0.9, 500, False), ("page_walk_latency", None, 1, True),
    ],
)  # fmt: skip
def test_huge_pages_are_tried_where_many_pages_are_touched_and_the_model_may_lack_their_walks(
    bottleneck, apart, pages, may
):
    """A Zen 4 has 72 entries in its first TLB."""
    addresses = np.append(np.arange(pages, dtype=np.uint64) << np.uint64(12), NO_ACCESS)
    settings = SimpleNamespace(core=Microarchitecture.load("zen4"))
    result = SimpleNamespace(trace=SimpleNamespace(addresses=addresses), settings=settings)
    assert may_help(SimpleNamespace(bottleneck=bottleneck, apart=apart, result=result)) == may


def test_a_run_whose_clock_was_read_beside_a_far_slower_core_is_left_out():
    """Nine million ticks are 6 million cycles at 1.5 ticks, and would be 2 million at 4.5 that something disturbed."""
    runs = [CallTimes(np.array([9_000_000]), 1, 0, rate, 0.0, False, "", 0.1) for rate in ((1.5,), (4.5, 4.5), (1.6,))]
    assert [run.ticks_per_cycle for run in _clocked(runs)] == [(1.5,), (1.6,)]
    assert _clocked([]) == []


LONG = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) double solve(const double *c, int n, double x, int rounds) {
    double s = 0;
    for (int r = 0; r < rounds; r++) {
        double v = 0;
        for (int i = 0; i < n; i++) v = v * x + c[i];
        s += v;
    }
    return s;
}
int main(int count, char **words) {
    static double c[1000];
    for (int i = 0; i < 1000; i++) c[i] = 1.0 / (i + 1);
    printf("%f\n", solve(c, 1000, 0.5, count > 1 ? atoi(words[1]) : 12000));
    return 0;
}
"""


def test_a_call_is_counted_to_its_end_beyond_what_is_kept():
    program = compiled("long", LONG)
    kept = Tracer(limit=100_000, early=True, count_to=10_000_000)
    found = kept.run(program, "solve", ["1000"]).provenance
    whole = Tracer(limit=10_000_000).run(program, "solve", ["1000"])
    assert int(found.extra["counted"]) == whole.instruction_count > 5_000_000
    assert sum(n for _, n in json.loads(found.extra["counted_by_block"])) == whole.instruction_count
    assert not found.complete
    assert found.stopped == "limit of 100000 instructions"
    assert np.array_equal(kept.run(program, "solve", ["1000"]).stream, whole.head(100_000).stream)
    assert "counted" not in kept.run(program, "solve", ["3000"]).provenance.extra  # longer than is counted
    assert (
        "counted" not in Tracer(limit=10_000_000, count_to=20_000_000).run(program, "solve", ["100"]).provenance.extra
    )


def test_a_call_of_sixty_million_instructions_is_measured():
    answer = pk.why(compiled("long", LONG), core="zen5")
    assert answer.measured is not None
    assert answer.measured.part == pytest.approx(answer.result.instructions / 60e6, rel=0.02)


def test_of_a_far_longer_call_the_first_answer_comes_before_its_instructions_are_counted(monkeypatch):
    """Its beginning was recorded, then ten times as much, and counted for up to three times 6 s, before a word came."""
    monkeypatch.setattr("perfkit.diagnosis.why._COUNTABLE", float("inf"))  # however busy this machine is
    said: list[str] = []
    answer = pk.why(compiled("long", LONG), "solve", ["90000"], core="zen5", say=said.append)
    stages = [
        next((k for k, each in enumerate(said) if words in each), -1)
        for words in ("recording it from", "What would help comes next", "counting the instructions of the call")
    ]
    if stages[0] >= 0:  # there were samples enough to say when
        assert stages == sorted(stages), said
        assert not any("one call is more than" in each for each in said)
        assert "measured cycles come later" in said[stages[1]]
    if answer.measured is not None:  # counted to its end in the time that there is for that
        assert answer.measured.part == pytest.approx(answer.result.instructions / 450e6, rel=0.02)


def test_outcomes_that_a_processor_learns_by_heart_are_no_mispredictions_where_the_measured_time_says_so():
    trace = pk.datasets.load("traces/branchy")
    core = Microarchitecture.load("zen5")
    states = [pk.Gus(core, warm=warm).run(trace) for warm in ("none", "caches")]
    without = pk.Gus(core, warm="predicted").run(trace)
    assert without.branches[1] == 0 < states[1].branches[1]
    assert without.cycles == states[1].settings.cycles(trace, (core,), mispredicted=False)[0]
    asked = _Inquiry(Target(Path("/bin/true")), "", "zen5", 1.0, 1000, lambda _: None, Ahead("zen5", print))

    def taken(cycles: float, skip: int = 5) -> float:
        asked.unseen = []
        measured = Measured(cycles, cycles, 3, 1, cycles)
        return asked._learnt(states, core, Calls(skip, 1), trace, measured)[1].cycles

    assert taken(without.cycles) == without.cycles
    assert "learnt by heart" in asked.unseen[0]
    assert taken(states[1].cycles) == states[1].cycles  # the mispredictions are in the measured time
    assert taken(without.cycles / 2) == states[1].cycles  # they do not explain it
    assert taken(without.cycles, skip=0) == states[1].cycles  # nothing came before
    assert asked.unseen == []


KEPT = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa, used)) double target(double x) { return x * 2 + 1; }
int main(void) {
    long turns = 0;
    __asm__ volatile(
        "mov $500, %%r11d\n"
        "sub $128, %%rsp\n"
        "1: call target\n"
        "inc %0\n"
        "cmp $2000, %0\n"
        "jae 2f\n"
        "dec %%r11d\n"
        "jnz 1b\n"
        "2: add $128, %%rsp\n"
        : "+b"(turns) : : "r11", "xmm0", "xmm1", "xmm2", "memory", "cc");
    printf("%ld\n", turns);
    return turns != 500;
}
"""


def test_a_value_that_a_caller_keeps_across_timed_calls_stays():
    """gcc keeps values in registers that the function does not change (-fipa-ra): loops ran on and on."""
    found = time_calls(compiled("kept", KEPT), "target")
    assert (found.calls, found.ended) == (500, "")


@pytest.mark.parametrize(
    ("taken", "chosen"),
    [
        ({"main": 100.0, "flipped": 90.0, "once": 1.0}, "flipped"),
        ({"main": 300.0, "flipped": 90.0, "once": 1.0}, "flipped"),  # its run was disturbed
        ({"main": 100.0, "flipped": 3.0, "once": 1.0}, "main"),
    ],
)
def test_of_several_that_call_the_hot_library_function_the_one_is_taken_that_spends_the_run_there(
    monkeypatch, taken, chosen
):
    program = compiled("strlen0", STRLEN)
    libc = HotFunction("strlen", "strlen", "/lib/x86_64-linux-gnu/libc.so.6", 90, 0.9, 1, 1)
    asked = _Inquiry(Target(program), "", "zen5", 1.0, 1000, lambda _: None, Ahead("zen5", print))
    asked.spent = {}
    times = {name: CallTimes(np.array([t]), 1, 0, (1.0,), 0.0, False, "", 0.1) for name, t in taken.items()}
    monkeypatch.setattr(asked, "_callers", lambda _: ("strlen", ["main", "flipped", "once"]))
    monkeypatch.setattr(asked, "_timed", lambda hot: ([times[hot.symbol]], ""))
    found = asked._calling(libc, None)
    assert found is not None
    assert found.symbol == chosen
    mine = HotFunction(chosen, chosen, str(program.resolve()), 9, 0.1, 1, 1)
    assert asked._calling(libc, mine) is None  # it is explained already, with its samples


CONSTRUCTED = r"""
#include <iostream>
struct Init { Init() { std::ios::sync_with_stdio(false); std::cout.precision(3); std::cout << 3.14159 << "\n"; } } init;
volatile long s;
extern "C" __attribute__((noinline)) long f(long n) { for (long i = 0; i < n; i++) s += i; return s; }
int main() {
    for (int i = 0; i < 50; i++) f(1000);
    std::cout << 2.71828 << std::endl;
    return std::cout.precision() == 3 && std::cout.good() ? 0 : 1;
}
"""
LIBRARY = r"""
#include <stdlib.h>
static int first; int *current = &first; int big[4] = {1, 2, 3, 4}; int counter = 7;
void lib_set(int v) { counter = v; }
int lib_get(void) { return counter; }
int lib_current(void) { return *current; }
__attribute__((constructor)) static void c(void) { current = malloc(64); *current = 42; }
"""
OF_LIBRARY = r"""
extern int counter, big[4], *current;
void lib_set(int); int lib_get(void); int lib_current(void);
volatile long s;
__attribute__((noinline)) long f(long n) { for (long i = 0; i < n; i++) s += i * big[i & 3]; return s; }
__attribute__((constructor)) static void c(void) { lib_set(9); }
int main(void) {
    for (int i = 0; i < 100; i++) f(1000);
    return lib_current() == 42 && *current == 42 && counter == 9 && lib_get() == 9 && big[3] == 4 ? 0 : 3;
}
"""
STACKS = r"""
#include <stdlib.h>
#include <ucontext.h>
ucontext_t m, a; volatile long s;
__attribute__((noinline)) long f(int yield) {
    for (int i = 0; i < 2000; i++) s += i;
    if (yield) swapcontext(&a, &m);
    return s;
}
void co(void) { for (int k = 0; k < 50; k++) f(1); }
int main(void) {
    char *st = malloc(1 << 16);
    getcontext(&a); a.uc_stack.ss_sp = st; a.uc_stack.ss_size = 1 << 16; a.uc_link = &m; makecontext(&a, co, 0);
    for (int k = 0; k < 50; k++) { swapcontext(&m, &a); f(0); }
    return 0;
}
"""
JUMPS = r"""
#include <setjmp.h>
jmp_buf b; volatile int s;
__attribute__((noinline)) int f(int i) { s += i; if (1) longjmp(b, 1); return s; }
int main(void) { for (volatile int i = 0; i < 1200000; i++) if (!setjmp(b)) f(i); return 0; }
"""
DEEPER = r"""
#include <stdexcept>
volatile long s;
extern "C" __attribute__((noinline)) long f(int bad, int n) {
    for (int k = 0; k < n; k++) s += k;
    if (bad) throw std::runtime_error("x");
    return s;
}
__attribute__((noinline)) long deep(int d) {
    volatile char pad[256]; pad[0] = d;
    return d ? deep(d - 1) + pad[0] : f(0, 2000) + pad[0];
}
int main() { try { f(1, 2000); } catch (...) {} for (int i = 0; i < 300; i++) deep(3); return 0; }
"""


def test_streams_that_a_constructor_writes_to_are_the_programs():
    found = time_calls(compiled("constructed", CONSTRUCTED, "-fPIE", "-pie", compiler="g++", suffix=".cpp"), "f")
    assert (found.ended, found.calls) == ("", 50)


def test_variables_of_a_library_have_the_values_of_a_real_run():
    library = compiled("libvariables.so", LIBRARY, "-fPIC", "-shared")
    program = compiled(
        "of library", OF_LIBRARY, "-fPIE", "-pie", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"
    )
    found = time_calls(program, "f")
    assert (found.ended, found.calls) == ("", 100)


def test_calls_on_two_stacks_are_timed_one_at_a_time():
    found = time_calls(compiled("stacks", STACKS), "f")
    assert found.ended == ""
    assert found.calls >= 50


def test_calls_that_are_left_do_not_fill_more_than_there_is():
    found = time_calls(compiled("jumps", JUMPS), "f")
    assert (found.ended, found.calls) == ("", 1_200_000)
    assert len(found.ticks) < 1_200_000


def test_calls_from_deeper_than_the_one_that_an_exception_left_are_timed():
    found = time_calls(compiled("deeper", DEEPER, compiler="g++", suffix=".cpp"), "f")
    assert found.ended == ""
    assert len(found.ticks) >= 300


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("libgomp.so.1", True), ("libiomp5.so", True), ("libomp.so", True), ("libgomp-a34b3233.so.1.0.0", True),
     ("libompl.so", False), ("libompute.so.2", False)],
)  # fmt: skip
def test_libraries_of_openmp_by_name(name, is_one):
    assert is_openmp(name) == is_one


def test_exceptions_pass_a_function_that_begins_with_an_indirect_call():
    source = r"""
    #include <stdexcept>
    volatile long s;
    __attribute__((noipa)) void thrower(int i) { s += i; if (i % 3 == 0) throw std::runtime_error("x"); }
    extern "C" __attribute__((noipa)) long f(int i) { thrower(i); for (int k = 0; k < 2000; k++) s += k; return s; }
    int main() { for (int i = 0; i < 100; i++) { try { f(i); } catch (std::exception &) {} } return 0; }
    """
    flags = ("-fno-plt", "-fcf-protection=none", "-fPIC", "-fsemantic-interposition", "-rdynamic")
    found = time_calls(compiled("without plt", source, *flags, compiler="g++", suffix=".cpp"), "f")
    assert (found.ended, found.calls) == ("", 100)


RARE = r"""
#include <stdio.h>
#include <stdlib.h>
static int ring[1 << 22], small[1024];
__attribute__((noipa)) int walk(const int *p, long n) {
    int i = 0;
    for (long k = 0; k < n; k++) i = p[i];
    return i;
}
__attribute__((noipa)) double work(const int *p, long n) {
    double x = 1;
    if (n > 100000) {
        int i = 0;
        for (long k = 0; k < n; k++) i = p[i];
        return i;
    }
    for (long k = 0; k < n; k++) x = 3.0 / (x + 1.5);
    return x;
}
static void round_trip(int *p, int n, long step) { for (int i = 0; i < n; i++) p[i] = (int)((i + step) % n); }
int main(void) {
    round_trip(ring, 1 << 22, 1234567);
    round_trip(small, 1024, 17);
    double s = 0;
    for (int r = 0; r < 200; r++) {
        s += walk(small, 2000) + work(small, 2000);
        if (r % 50 == 49) s += walk(ring, 800000) + work(ring, 800000);
    }
    printf("%g\n", s);
    return 0;
}
"""


@pytest.mark.measures  # beside other workers the recorded calls take longer, and that is said first
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("walk", r"calls like those that were recorded have about \d+\.\d% of this function's time"),
        ("work", r"\d+% of this function's samples lie in code that was not recorded"),
    ],
)
def test_the_first_words_say_that_a_few_long_calls_have_the_time_that_is_not_explained(function, said):
    answer = pk.why(compiled("rare", RARE), function)
    assert re.search(said, answer.doubt), answer.headline()


LONG_CALLS = r"""
#include <stdio.h>
static double y[4096];
__attribute__((noipa)) void fill(double *y, long n) {
    for (long i = 0; i < n; i++) {
        double s = 0;
        for (long j = 0; j < i; j++) s += 1.0 / (i + j + 1);
        y[i] = s;
    }
}
int main(void) { for (int r = 0; r < 30; r++) fill(y, 4096); printf("%g\\n", y[77]); }
"""


def test_a_part_of_a_call_stands_for_the_whole_call():
    """All calls are alike, and a twentieth of one is recorded: that was told as calls which have 4 % of the time."""
    answer = pk.why(compiled("long_calls", LONG_CALLS), "fill")
    assert answer.measured.part < 0.2
    assert "calls like those" not in answer.doubt


SLEEPS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noipa)) double work(double x, long n) {
    for (long i = 0; i < n; i++) x = x * 0.999 + 1;
    return x;
}
int main(int argc, char **argv) {
    double t = 0;
    for (int r = 0; r < 25; r++) {
        t += work(r, 2000000);
        usleep(atoi(argv[1]));
    }
    printf("%g\n", t);
}
"""


@pytest.mark.parametrize(("sleep", "idle"), [("60000", True), ("0", False)])
def test_a_run_that_sleeps_is_not_told_that_faster_chains_make_it_twice_as_fast(sleep, idle):
    """Waiting for a processor is not sleeping: a busy machine does not make it so."""
    program = compiled("sleeps", SLEEPS)
    assert (time_calls(program, "work", [sleep]).idle > 0.5) == idle
    answer = pk.why(program, arguments=[sleep])
    # Watched beside others it may be ready to run for so long that the watch does not tell; the timed run does then.
    watched, timed = (
        r"[\d.]+ s sleeps does nothing: most of that sleeping",
        r"time the run does nothing: it sleeps, or waits",
    )
    assert bool(re.match(rf"For \d+% of its ({watched}|{timed})", answer.first)) == idle


PIPED = r"""
#include <stdio.h>
#include <string.h>
static char line[1 << 16];
int main(void) {
    FILE *from = popen("for i in 1 2 3 4 5; do seq 1 200 | tr '\\n' ' '; echo; sleep 0.2; done", "r");
    unsigned long s = 0;
    while (fgets(line, sizeof line, from)) s += strlen(line);
    printf("%lu\\n", s);
    return pclose(from) != 0;
}
"""


def test_a_program_that_waits_for_a_pipe_is_told_so():
    """It was refused with the few samples that there are of its start, or explained by them."""
    try:
        told = pk.why(compiled("piped", PIPED)).first
    except DataError as error:
        told = str(error)
    assert re.search(r"For (9\d|100)% of its (time|[\d.]+ s) .* does nothing: ", told)
    assert "That is the answer" in told
    assert not re.search("-f FUNCTION", told)


FAMILY = r"""
#include <stdio.h>
static char text[256];
__attribute__((noipa)) long fmt(int n) {
    long s = 0;
    for (int i = 0; i < n; i++) s += snprintf(text, sizeof text, "%d %g %s", i, i * 0.37, "hello");
    return s;
}
int main(int few, char **words) {
    long s = 0;
    for (int k = 0; k < 100; k++) s += fmt(few > 1 ? 2000 : 0);
    for (int i = few > 1 ? 199999 : 0; i < 200000; i++) s += printf("%g ", i * 0.37);
    return s == 0;
}
"""


@pytest.mark.parametrize(("words", "symbol"), [(("few",), "fmt"), ((), "main")])
def test_a_relative_of_the_function_that_main_calls_may_be_what_takes_the_time(words, symbol):
    """The C library's own function behind printf is behind snprintf, too: main was said to call it."""
    asked = _Inquiry(
        Target(compiled("family", FAMILY), words), "", "zen4", 2.0, 1000, lambda _: None, Ahead("zen4", print)
    )
    asked.spent, asked.crowded = {}, False
    path = next(each.path for each in mapped_code(Path("/proc/self/maps").read_text()) if "/libc.so" in each.path)
    hottest = HotFunction("__GI___printf_fp_l", "__GI___printf_fp_l", path, 9, 0.9, 1, 1)
    assert asked._callers(hottest) == ("printf or snprintf", ["main", "fmt"])
    assert asked._calling(hottest, None).symbol == symbol


MOSTLY = """
#include <cstdio>
#include <stdexcept>
__attribute__((noinline)) int work(int i) {
    int s = i;
    for (int k = 0; k < ROUNDS; k++) s = s * 7 + (s >> 3);
    return s;
}
__attribute__((noinline)) int parse(int i) {
    if (i % 2 == 0) throw std::runtime_error("bad");
    return i;
}
int main() {
    int t = 0;
    for (int r = 0; r < 600000; r++) {
        t += work(r);
        try { t += parse(r); } catch (const std::exception &) { t--; }
    }
    printf("%d\\n", t);
}
"""


@pytest.mark.parametrize(("rounds", "most"), [(150, True), (2000, False)])
def test_gains_beside_mostly_throwing_are_called_what_they_are(rounds, most):
    program = compiled(f"mostly{rounds}", MOSTLY, f"-DROUNDS={rounds}", compiler="g++", suffix=".cpp")
    answer = pk.why(program, "work")
    said = "what would gain there changes nothing of them" in answer.doubt
    assert said == most
    assert ("throwing and catching" in answer.first) or not most
