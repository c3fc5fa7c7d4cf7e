"""Comparing two kernels: known effects, planted noise, how often it is wrong, reports, and what can be compared."""

import contextlib
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.collectors.host import compare as module
from perfkit.collectors.host.compare import _argument, _calls, _disturbed, by_process, compare
from perfkit.collectors.host.comparison import KernelComparison
from perfkit.collectors.host.cycle_clock import CHAIN, TURNS, WIDTH, judge
from perfkit.collectors.host.measuring import build_timer, enough_calls, in_measuring_process, loaded, pointer
from perfkit.collectors.host.rare_calls import BEFORE, ITSELF, SAMPLE, added_by_rare, share_waited
from perfkit.collectors.host.sides import kernel_from
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.collectors.kernels import compile_kernel, library_kernel
from perfkit.errors import DataError, PerfkitWarning, SettingError, UnavailableError

# A chain through memory: calls do not overlap, and no core shortens additions of two registers.
CHAIN_OF = """static volatile unsigned long carried = 1;
void work(void) {
    unsigned long x = carried, y = 3;
    for (int k = 0; k < LINKS; k++) __asm__ volatile("add %1, %0" : "+r"(x) : "r"(y) : "cc");
    carried = x;
}"""

CHAIN_OF_MILLIONS = """long f(long n) {
  for (long i = 0; i < n; i++) __asm__ volatile(".rept 1000\\n imul %%rax,%%rax\\n.endr" ::: "rax");
  return 0; }"""
LOOP = '__asm__ volatile("1: imul %%eax, %%eax\\n\\tdec %0\\n\\tjnz 1b" : "+r"(n) : : "eax", "cc");'
# A machine that is never quiet is told of, and compared.
quiet = pytest.mark.filterwarnings("ignore::perfkit.errors.PerfkitWarning")
SPIN = "import os\nos.sched_setaffinity(0, {{{}}})\nwhile True: pass"


def chain(links: int, **options):
    return compile_kernel(CHAIN_OF, defines={"LINKS": links}, flags="-O2", **options)


def comparison(ratios, **changes) -> KernelComparison:
    """A comparison of processes with these ratios."""
    table = pd.DataFrame({"process": range(len(ratios)), "cycles_a": 1000.0, "ratio": ratios, "rounds": 20, "busy": 5})
    table = table.assign(cycles_b=1000 * table["ratio"], rejected=1)
    figures = {"names": ("old", "new"), "builds": ("gcc -O2", "gcc -O3"), "confidence": 0.99, "least": 0.005}
    return KernelComparison(**{**figures, "table": table, "quiet": True, "calls": 1, "host": "a host", **changes})


@quiet
@pytest.mark.measures
def test_two_percent_more_links_are_found_and_the_same_library_is_the_same():
    # Long chains: a call, its accesses and the misprediction at the loop's end take some 60 cycles on top.
    slower = compare(chain(8000), chain(8160))
    same = compare(chain(8000), chain(8000))
    assert slower.verdict == "slower"
    assert slower.effect == pytest.approx(0.02, abs=0.004)
    assert same.verdict in ("same", "undecided")
    assert same.effect == pytest.approx(0, abs=0.005)
    assert slower.cycles[0] == pytest.approx(8000, rel=0.02)


FREE_CHAIN = """unsigned long work(void) {
    unsigned long x = 1;
    __asm__ volatile(".rept LINKS\\n\\timul %0, %0\\n\\t.endr" : "+r"(x) : : "cc");
    return x;
}"""


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("name", ["work", "other"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("body", "settings", "told"),
    [
        ("*(volatile long *)8 = 1;", {}, "failed while it was timed"),
        ('for (;;) __asm__ volatile("");', {"timeout": 8.0}, "was not done after 8 s"),
        ("static int n; if (n++ > 20) __builtin_trap();", {}, "failed while it was timed"),
        (
            "void _exit(int); _exit(0);",
            {},
            r"failed while it was timed \(status 1\)\. the kernel ended [^:]*: exit status 0",
        ),
    ],
    ids=["crash", "hang", "later", "exit"],
)
def test_which_side_crashed_or_hung_is_told(body, settings, told, first, name):
    bad, good = compile_kernel(f"void {name}(void) {{ {body} }}", name), chain(10)
    side = "A" if first else "B"
    for seed in (1, 2):  # A and B change places in half of the processes
        with pytest.raises(DataError, match=rf"^{name} \({side}\) {told}"):
            compare(*((bad, good) if first else (good, bad)), processes=10, seed=seed, **settings)


@pytest.mark.measures
def test_a_kernel_that_lowers_the_limits_of_its_process_is_refused_in_a_line():
    """It said "Too many open files" beneath a traceback."""
    lowers = "#include <sys/resource.h>\nvoid f(void) { struct rlimit none = {4, 4}; setrlimit(RLIMIT_NOFILE, &none); }"
    with pytest.raises(DataError, match=r"cannot be written: Too many open files\. A kernel that lowers") as raised:
        compare(compile_kernel(lowers, "f"), chain(10), processes=6)
    assert "Traceback" not in str(raised.value)


@pytest.mark.measures
def test_a_process_that_a_kernel_leaves_behind_is_not_waited_for():
    kernel = """#include <unistd.h>
    void f(void) { static int n; if (!n++ && !fork()) { sleep(100); _exit(0); } }"""
    begun = time.monotonic()
    with pytest.raises(DataError, match="forks and leaves its processes to themselves"):
        compare(compile_kernel(kernel, "f"), chain(10), processes=6)
    assert time.monotonic() - begun < 60


@quiet
@pytest.mark.measures
def test_a_kernel_that_leaves_processes_behind_is_refused_and_one_that_waits_for_them_is_not():
    leaves = (
        "int fork(void); int wait(int *); int f(void) { static int n; if (n++ == 3) { if (!fork()) WAY; } return n; }"
    )
    with pytest.raises(DataError, match="forks and leaves its processes to themselves"):
        compare(*(compile_kernel(leaves.replace("WAY", "{}")),) * 2, processes=6, rounds=10)
    waits = leaves.replace("WAY", '__asm__ volatile("syscall" : : "a"(60), "D"(0)); else wait(0)')
    assert len(compare(*(compile_kernel(waits),) * 2, processes=6, rounds=10).table)


@pytest.mark.measures
def test_of_long_calls_every_process_makes_fewer_rounds(monkeypatch):
    """Only the first did: 30 processes of calls of a tenth of a second were not done after ten minutes."""
    seen = []

    def noted(*given):
        seen.append(in_measuring_process(*given))
        return seen[-1]

    monkeypatch.setattr(module, "in_measuring_process", noted)
    monkeypatch.setattr(module, "_SECONDS", 1e-6)
    kernel = compile_kernel(CHAIN_OF_MILLIONS)
    with contextlib.suppress(UnavailableError):  # on a busy machine ten rounds may be too few
        compare(kernel, kernel, 100, processes=6, patience=0)
    assert np.bincount(seen[0]["process"]).tolist() == [10] * 6


@pytest.mark.measures
def test_what_would_take_longer_than_it_may_is_refused_at_once():
    kernel = compile_kernel(CHAIN_OF_MILLIONS)
    began = time.monotonic()
    told = r"A or of B takes too long: a round .* 30 processes of 30 rounds would take some \d+ s, and may take 9: give"
    with pytest.raises(DataError, match=told):
        compare(kernel, kernel, 3_000, timeout=9)  # some 3 ms and more, six times in each round
    assert time.monotonic() - began < 8.5


@pytest.mark.measures
def test_a_kernel_that_waits_most_of_its_time_is_not_called_a_busy_machine():
    waits = """#include <time.h>
#include <sys/wait.h>
#include <unistd.h>
int f(int n) {
  pid_t child = fork();
  if (!child) { nanosleep(&(struct timespec){0, 3000000}, 0); _exit(0); }
  waitpid(child, 0, 0);
  return n; }"""
    kernel = compile_kernel(waits, function="f", flags="-O1")
    with pytest.raises(UnavailableError, match="gives the processor up in 100% of its rounds"):
        compare(kernel, kernel, 10, processes=6, rounds=10, patience=1)


@pytest.mark.measures
def test_printf_has_no_conversions_but_the_kernels_own():
    # numpy's libraries register a modifier Q, after which each snprintf takes 1.9 times as long.
    plain = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int f(int n) {
  char text[64];
  snprintf(text, sizeof text, "%Qd", n);
  if (strcmp(text, "%Qd")) abort();
  return n; }"""
    own = """#include <printf.h>
#include <stdlib.h>
#include <string.h>
static int write_b(FILE *to, const struct printf_info *i, const void *const *a) { return fprintf(to, "b"); }
static int size_b(const struct printf_info *i, size_t n, int *kinds, int *size) { return 0; }
void setup(void) { if (register_printf_specifier('B', write_b, size_b)) abort(); }
int f(int n) {
  char text[64];
  snprintf(text, sizeof text, "%B");
  if (strcmp(text, "b")) abort();
  return n; }"""
    for source in (plain, own):
        kernel = compile_kernel(source, function="f", flags="-O1 -w")
        with contextlib.suppress(UnavailableError), warnings.catch_warnings():  # a busy machine; a crash is a DataError
            warnings.simplefilter("ignore", PerfkitWarning)
            compare(kernel, kernel, 10, processes=6, rounds=10)


@pytest.mark.measures
@pytest.mark.parametrize(("body", "told"), [("int s = 0; for (int i = 0; i < n; i++) s += i;", True), (LOOP, False)])
def test_a_kernel_of_which_the_compiler_left_nothing_is_told(body, told):
    kernel = compile_kernel(f"void work(int n) {{ {body} }}", flags="-O2")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", PerfkitWarning)
        compare(kernel, kernel, 20, processes=6, rounds=10)
        by_compare = len(said)
        pk.collectors.true_cycles(kernel, 20, repetitions=40, processes=1)
    for part in (said[:by_compare], said[by_compare:]):
        assert any("the compiler removed it" in str(one.message) for one in part) == told


OWN = {
    "inline variable": 'inline long own = {}; extern "C" void f(void) {{ for (long i = 0; i < own; i++) STEP; }}',
    "static member": "template <class T> struct S {{ static long own; }}; template <class T> long S<T>::own = {};\n"
    'extern "C" void f(void) {{ for (long i = 0; i < S<int>::own; i++) STEP; }}',
    "static of inline": "inline long &own() {{ static long n = {}; return n; }}\n"
    'extern "C" void f(void) {{ for (long i = 0, n = own(); i < n; i++) STEP; }}',
    "name of libc": 'extern "C" long index(long n) {{ for (long i = 0; i < n; i++) STEP; return n; }}\n'
    'extern "C" void f(void) {{ index({}); }}',
}


@quiet
@pytest.mark.measures
@pytest.mark.parametrize("kind", OWN)
def test_each_kernel_has_its_own_variables_and_calls_its_own_functions(kind, tmp_path):
    """A process has one of each variable that C++ shares among files, and prefers the C library's functions."""
    step = '__asm__ volatile("imul %%rax, %%rax" : : : "rax")'
    sides = []
    for turns in (2000, 4000):
        path = tmp_path / f"of_{turns}.cpp"
        path.write_text(OWN[kind].format(turns).replace("STEP", step))
        sides.append(compile_kernel(path, "f", flags="-O1"))
    found = compare(*sides, processes=6, rounds=10)
    assert found.effect == pytest.approx(1.0, abs=0.1)


@quiet
@pytest.mark.measures
def test_a_side_that_flushes_subnormal_numbers_does_not_have_the_other_do_so(tmp_path):
    """-ffast-math links what sets the processor's flag when a library is loaded; the kernel tells whether it is set."""
    source = """double f(double x) {
        volatile double y = x;
        long n = y * 0.5 == 0 ? 4000 : 2000;
        for (long i = 0; i < n; i++) __asm__ volatile("imul %%rax, %%rax" : : : "rax");
        return n; }"""
    path = tmp_path / "f.c"
    path.write_text(source)
    plain, fast = (compile_kernel(path, "f", flags=f"-O1 {more}") for more in ("", "-ffast-math"))
    found = [compare(*sides, 1e-310, processes=6, rounds=10).effect for sides in ((plain, fast), (fast, plain))]
    if all(abs(effect) < 0.1 for effect in found):
        pytest.skip("this compiler does not set the flag for libraries (gcc 13 and later do not)")
    assert found == [pytest.approx(1.0, abs=0.1), pytest.approx(-0.5, abs=0.05)]


# Of SSE 2,000 or, where subnormal numbers are flushed to zero, 1,000 links; of x87 as many where it rounds to zero.
OF_MODES = """#include <immintrin.h>
static void set_x87(unsigned short word) { __asm__ volatile("fldcw %0" : : "m"(word)); }
long f(double x) {
    static int called;
    if (!called++) { SETTING; }
    volatile double y = x;
    unsigned short x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    long n = (y * 0.5 == 0 ? 1000 : 2000) + (x87 & 0xc00 ? 2000 : 0);
    for (long i = 0; i < n; i++) __asm__ volatile("imul %%rax, %%rax" : : : "rax");
    return n; }"""


@pytest.mark.filterwarnings("ignore:.*beside a busy thread")
@pytest.mark.measures
@pytest.mark.parametrize(
    ("setting", "links", "told"),
    [
        ("_mm_setcsr(_mm_getcsr() | 0x8040)", 1000, "subnormal results are flushed to zero, subnormal operands"),
        ("set_x87(0xf7f)", 4000, "rounding of x87"),
    ],
    ids=["sse", "x87"],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_what_the_first_call_of_a_kernel_sets_holds_for_all_of_its_own_calls_alone(setting, links, told, swapped):
    """Flush-to-zero of B's first call held for neither: both were told to take the same time."""
    sides = [compile_kernel(OF_MODES.replace("SETTING", what), "f", flags="-O1") for what in ("", setting)]
    kernels = sides[::-1] if swapped else sides
    with pytest.warns(PerfkitWarning, match="computes with floating-point numbers"):
        found = compare(*kernels, 1e-310, processes=10, rounds=10)
    truth = 2000 / links if swapped else links / 2000
    assert found.effect == pytest.approx(truth - 1, rel=0.1)
    assert found.before == pytest.approx((1, 1), abs=0.05)
    assert found.verdict == ("slower" if truth > 1 else "faster")
    (note,) = found.notes
    assert note.startswith(f"f ({'A' if swapped else 'B'}) sets how the processor computes")
    assert told in note


@quiet
@pytest.mark.measures
@pytest.mark.parametrize("swapped", [False, True])
def test_kernels_that_share_something_of_the_process_get_no_verdict(swapped, tmp_path):
    """B sets what A reads as well: both take 4,000 links in one process, where A alone takes 2,000."""
    sides = []
    for name, setting in (
        ("a", ""),
        ("b", '__attribute__((constructor)) static void set(void) { setenv("OF_B", "1", 1); }'),
    ):
        path = tmp_path / f"{name}.c"
        path.write_text(f"""#include <stdlib.h>
            {setting}
            void f(void) {{
                long n = getenv("OF_B") ? 4000 : 2000;
                for (long i = 0; i < n; i++) __asm__ volatile("imul %%rax, %%rax" : : : "rax");
            }}""")
        sides.append(compile_kernel(path, "f", flags="-O1"))
    found = compare(*(sides[::-1] if swapped else sides), processes=10, rounds=10)
    alike = compare(sides[0], sides[0], processes=10, rounds=10)
    assert found.verdict == "undecided"
    assert found.summary().startswith("Do not rely on this")
    assert "a took" in found.summary().splitlines()[0]
    assert found.before[swapped] == pytest.approx(2, rel=0.05)
    assert found.before[not swapped] == pytest.approx(1, rel=0.05)
    assert "Do not rely" not in alike.summary()


def test_a_verdict_of_few_processes_says_what_is_so():
    """Six that agree on a difference far from none are enough; where they vary by as much, that is the reason."""
    assert comparison([0.0005, 0.0006, 0.0005, 0.0007, 0.0006, 0.0005]).verdict == "faster"
    near = comparison([1.03, 1.20, 1.08, 1.11, 1.16, 1.05])
    assert near.interval[0] > 0
    assert near.verdict == "undecided"
    assert "takes longer than old in all 6 processes, which are too few" in near.summary()


def test_different_libraries_of_one_name_are_refused(tmp_path):
    kernels = []
    for turns in (1, 2):
        folder = tmp_path / str(turns)
        folder.mkdir()
        compile_library = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / "libown.so")]
        subprocess.run(compile_library, input=f"int own(void) {{ return {turns}; }}", text=True, check=True)
        flags = f"-O1 -L{folder} -lown -Wl,-rpath,{folder}"
        kernels.append(compile_kernel("int own(void); int f(void) { return own(); }", "f", flags=flags))
    with pytest.raises(SettingError, match="loads only the first library of a name"):
        compare(*kernels)


def test_flags_are_words_as_a_shell_has_them():
    kernel = compile_kernel("long f(void) { return A; }", "f", flags="-O1 '-DA=1 + 1'")
    assert kernel.flags == ("-O1", "-DA=1 + 1")
    with pytest.raises(SettingError, match="balance their quotes"):
        compile_kernel("long f(void) { return 1; }", "f", flags="-O1 '-DA=1 + 1")


def test_a_crash_names_both_builds_of_a_function():
    builds = [
        compile_kernel("long work(void) { return *(volatile long *)8; }", "work", flags=f) for f in ("-O1", "-O2")
    ]
    with pytest.raises(DataError, match=r"work \([AB]\) failed while it was timed"):
        compare(*builds, processes=10)


@quiet
@pytest.mark.measures
def test_calls_that_overlap_are_told_and_can_be_kept_apart():
    """Chains of 64 and 48 multiplications of 3 cycles (5 on small cores); no call depends on another."""
    a, b = (compile_kernel(FREE_CHAIN.replace("LINKS", str(links)), "work") for links in (48, 64))
    row, apart = compare(a, b, processes=10), compare(a, b, processes=10, apart=True)
    link = 3 if apart.cycles[0] < 200 else 5
    assert apart.cycles == pytest.approx((48 * link, 64 * link), rel=0.05)
    assert row.alone == pytest.approx((48 * link, 64 * link), rel=0.08)
    assert row.cycles[1] < 0.8 * 64 * link
    assert "a call alone takes" in row.summary()
    assert row.to_dict()["cycles_apart"] == list(row.alone)
    assert (apart.alone, "overlap" in apart.summary()) == (None, False)


@pytest.mark.parametrize(
    ("cycles", "calls"),
    [
        ((30_018, 15), [1, 1334]),  # was 1334 of both: 40 million cycles, which are never left alone
        ((15, 30_018), [1334, 1]),
        ((2_900, 15), [7, 1334]),
        ((3_000, 4_000), [7, 7]),  # of kernels that are alike, as many of both as the shorter needs
        ((1_000, 4_000), [20, 20]),
        ((100_000, 9_000_000), [1, 1]),
    ],
)
def test_a_far_longer_kernel_is_called_less_often(cycles, calls):
    assert _calls(np.array(cycles, dtype=float)) == calls


@quiet
@pytest.mark.measures
def test_kernels_of_far_different_length_are_both_measured_right():
    """Was 67,411 cycles (35,019 to 103,514 over the processes) for 30,018, and half a minute."""
    long, short = chain(30_000), chain(100)
    found, swapped = compare(long, short, processes=8), compare(short, long, processes=8)
    assert (found.disturbed, found.calls >= 50, found.asked) == (False, True, 8)
    assert (found.cycles[0], swapped.cycles[1]) == pytest.approx((30_000, 30_000), rel=0.02)
    assert found.cycles[1] == pytest.approx(swapped.cycles[0], rel=0.2)
    assert (1 + found.effect) * (1 + swapped.effect) == pytest.approx(1, rel=0.2)


def uneven(a: float, b: float, processes: int = 12, rounds: int = 20):
    """Samples of one call of a, interrupted nearly always and by as much again as it takes, and of b, which is not."""
    random = np.random.default_rng(5)
    cycles = np.array([a, b]) * np.ones((processes * rounds, 2))
    late = random.random(len(cycles)) < 0.9
    cycles[late, 0] *= 1 + random.uniform(0.1, 2, np.count_nonzero(late))
    judged = judge(samples(cycles.reshape(-1), np.zeros(cycles.size, bool)), 3)
    return judged, np.repeat(np.arange(processes), rounds)


def test_of_calls_that_are_always_interrupted_the_interval_holds_the_truth_all_the_same():
    """The median of such samples is far too high in every process, and the processes agree on that."""
    given, one = uneven(40e6, 20_000.0), np.array([1, 1])
    table, quiet = by_process(*given, one)
    usual = comparison([1.0] * 6, table=table, quiet=quiet)
    truth = 20_000 / 40e6 - 1
    assert usual.interval[1] < truth
    assert _disturbed(table, one) == 0
    table, quiet = by_process(*given, one, lowest=0)
    found = comparison([1.0] * 6, table=table, quiet=quiet, disturbed=True, names=("old", "new"))
    assert found.interval[0] <= truth <= found.interval[1]
    assert found.verdict == "faster"
    assert "Something interrupts nearly every call of old, which is long" in found.summary()
    for alike in ((40e6, 40e6), (40e6, 15e6), (20_000.0, 1e6), (20_000.0, 20_000.0)):
        assert _disturbed(by_process(*uneven(*alike[::-1]), one)[0], one) is None, alike


def test_processes_that_do_not_count_are_told():
    assert (
        "4 of 6 processes (the others had too few quiet rounds), 80 rounds" in comparison([1.0] * 4, asked=6).summary()
    )
    assert "(the others had too few steady rounds)" in comparison([1.0] * 4, asked=6, quiet=False).summary()
    for asked in (4, 0):  # 0: a result of before it was kept
        assert "\n4 processes, 80 rounds" in comparison([1.0] * 4, asked=asked).summary()


def test_each_kernel_is_set_up_once_and_nothing_behind_the_two_is_called(tmp_path):
    """A loop over more than two once called what lay behind: a crash of the measuring process in one of three runs."""
    source = """static long sets, calls; void set_up(void) { sets++; } long work(void) { calls++; return sets; }
    long made(void) { return calls; }"""
    counting = compile_kernel(source, "work")
    library = ctypes.CDLL(str(counting.path))
    timer = ctypes.CDLL(str(build_timer(tmp_path)))
    set_up = ctypes.cast(library.set_up, ctypes.c_void_p).value
    work = (ctypes.c_void_p * 2)(*[ctypes.cast(library.work, ctypes.c_void_p).value] * 2)
    none = (ctypes.c_long * 6)(), (ctypes.c_double * 8)()
    integers, floats = ((ctypes.c_void_p * 2)(*[ctypes.addressof(one)] * 2) for one in none)
    order, out = np.zeros(1, np.uint8), np.zeros((1, 2, module._ROW), np.int64)
    labels, turn = np.array([1, 2], np.uint8), np.full(1, 9, np.uint8)
    six = (ctypes.c_void_p * 6)(*[set_up] * 6)
    words = np.zeros(2, np.uint32)
    timer.perfkit_control(pointer(words))
    places = np.full(2, words.ctypes.data)

    def made(start: int) -> int:
        before = library.made()
        timer.perfkit_pairs(
            work,
            integers,
            floats,
            (ctypes.c_long * 2)(1, 1),
            ctypes.c_long(1),
            pointer(order),
            pointer(out),
            ctypes.byref(six),
            ctypes.c_long(0),
            ctypes.c_long(start),
            pointer(labels),
            pointer(turn),
            pointer(places),
        )
        return library.made() - before

    none_before = made(0)
    assert library.work() == 2
    assert made(1_000) == none_before + 2 * 1_000  # before any is timed, of both
    assert turn[0] == 0  # nobody's any more
    assert (out[:, :, :3] > 0).all()  # both were sampled; an empty call may take no tick


def samples(cycles: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Make the ticks of samples of so many cycles, at 2 ticks per cycle; those beside a busy thread look so."""
    width, turns = np.where(busy, 0.5, 0.25) * 2 * WIDTH, np.where(busy, 1.9, 1.0) * 2 * TURNS
    rest = np.full(len(cycles), 6.0 * CHAIN)
    return np.column_stack([rest, width, turns, 2 * cycles, rest, width, turns]).astype(np.int64)


def planted(
    seed: int, effect: float, busy_share: float = 0.3, processes: int = 20, rounds: int = 20
) -> KernelComparison:
    """A comparison of generated samples: noise of 1 % per sample and process, and neighbours that cost up to 90 %."""
    random = np.random.default_rng(seed)
    place = np.exp(0.01 * random.normal(size=(processes, 1, 2)))  # where code and data lie
    cycles = 20_000 * np.exp(0.01 * random.normal(size=(processes, rounds, 2))) * place
    cycles[:, :, 1] *= 1 + effect
    busy = random.random((processes, rounds, 2)) < busy_share
    cycles[busy] *= random.uniform(1.2, 1.9, np.count_nonzero(busy))
    table, quiet = by_process(
        judge(samples(cycles.reshape(-1), busy.reshape(-1)), 3), np.repeat(np.arange(processes), rounds), 1
    )
    return comparison([1.0] * 6, table=table, quiet=quiet)


def test_false_alarms_are_as_rare_as_the_confidence_says_and_the_planted_effect_is_found():
    """100 generated A/A comparisons at 99 %: five alarms or more happen once in 300 such hundreds."""
    alike = [planted(seed, 0.0) for seed in range(100)]
    assert sum(one.verdict in ("slower", "faster") for one in alike) <= 4
    assert all(one.quiet for one in alike)
    assert np.mean([one.busy_share for one in alike]) == pytest.approx(1 - 0.7**2, abs=0.02)
    slowed = [planted(seed, 0.02) for seed in range(100)]
    assert sum(one.verdict == "slower" for one in slowed) >= 95
    held = sum(one.interval[0] <= 0.02 <= one.interval[1] for one in slowed)
    assert held >= 96
    assert [one.verdict for one in (planted(seed, -0.05) for seed in range(20))] == ["faster"] * 20


def test_only_quiet_rounds_count_and_where_there_are_none_it_is_said():
    beside = planted(0, 0.02, busy_share=1.0)
    assert not beside.quiet
    assert beside.busy_share == 1.0
    assert "effect beside a busy thread" in beside.summary()
    mixed = planted(0, 0.02, busy_share=0.3)
    assert mixed.cycles[0] == pytest.approx(20_000, rel=0.01), "a busy round would have raised it"


def test_interval_by_hand():
    """Four ratios, their logarithms -0.01, 0, 0.01, 0.04: mean 0.01, s = 0.0216025, t(0.975, 3) = 3.18245."""
    found = comparison(np.exp([-0.01, 0.0, 0.01, 0.04]), confidence=0.95)
    half = 3.18245 * 0.0216025 / 2
    assert found.effect == pytest.approx(np.exp(0.01) - 1)
    assert found.interval == pytest.approx((np.exp(0.01 - half) - 1, np.exp(0.01 + half) - 1), rel=1e-4)
    assert found.verdict == "undecided"


@pytest.mark.parametrize(
    ("ratios", "verdict", "words"),
    [
        ([1.02, 1.021, 1.019, 1.02], "slower", "new is slower than old by 2.00%"),
        ([2.5, 2.51, 2.49, 2.5], "slower", "new is slower than old by 150.00% (+"),
        (
            [12, 12.1, 11.9, 12],
            "slower",
            "new is slower than old: it takes 12 times as long (12 times to 12 times with",
        ),
        ([223579, 223580, 223578, 223579], "slower", "new is slower than old: it takes 223,579 times as long (223,5"),
        ([0.98, 0.981, 0.979, 0.98], "faster", "new is faster than old: it takes 2.00% fewer cycles"),
        ([1.001, 1.0011, 1.0012, 1.001], "same", "new and old take the same time, within 0.5%"),
        ([0.9, 1.1, 0.95, 1.05], "undecided", "one is not excluded either"),
    ],
)
def test_verdicts(ratios, verdict, words):
    found = comparison(ratios)
    assert found.verdict == verdict
    assert words in found.summary()
    assert found.kind == "measured"
    assert ("varies by" in found.summary()) == (verdict == "undecided")


def test_processes_of_two_kinds_get_a_verdict_only_where_most_agree():
    """A third of the processes says the opposite of the rest; Student's t, made for one mean, is sure all the same."""
    found = comparison([0.7] * 20 + [1.08] * 10)
    assert found.interval[1] < 0
    assert found.verdict == "undecided"
    assert "no verdict: new takes longer than old in some processes" in found.summary()
    assert "new takes longer in 10 of 30" in found.summary()
    assert comparison([0.7] * 26 + [1.08] * 4).verdict == "faster"


def test_the_cycles_never_contradict_the_effect():
    """The median of one kernel may be of the one kind of processes, and that of the other of the other kind."""
    found = comparison([0.95] * 16 + [0.7] * 14)
    table = found.table.assign(cycles_a=[297.0] * 16 + [490.0] * 14)
    found = comparison(table["ratio"], table=table.assign(cycles_b=table["cycles_a"] * table["ratio"]))
    a, b = found.cycles
    assert b / a == pytest.approx(1 + found.effect)
    assert f"old: {a:,.1f} cycles per call (297.0 to 490.0 over the processes)" in found.summary()


def test_arrays_lie_at_the_same_places_of_their_pages_in_both_kernels_and_at_others_in_each_process(tmp_path):
    kernel = chain(8)
    np.save(tmp_path / "a.npy", np.arange(100.0))
    given = [["array", str(tmp_path / "a.npy")]] * 2

    def places(number):
        callee = loaded(str(kernel.path), "work", False, given, [0, number, 1])
        return [address % 4096 for address in list(callee.integers)[:2]]

    found = [places(number) for number in range(5)]
    assert found == [places(number) for number in range(5)]
    assert len({tuple(each) for each in found}) == 5
    assert {place % 64 for each in found for place in each} == {0}


def test_reports(tmp_path):
    found = comparison([1.02, 1.021, 1.019, 1.02, 1.02], names=("a|b", "<new>"))
    told = json.loads(found.to_json())
    assert (told["verdict"], told["processes"], len(told["table"])) == ("slower", 5, 5)
    assert told["effect"] == pytest.approx(0.02, abs=1e-4)
    text = found.write(tmp_path / "r.md").read_text()
    assert "| a\\|b | 1,000.0 | gcc -O2 |" in text
    assert "**+2.00%**" in text
    page = found.write(tmp_path / "r.html").read_text()
    assert "<svg" in page
    assert "&lt;new&gt; is slower" in page
    assert "<new>" not in page
    assert json.loads(found.write(tmp_path / "r.json").read_text()) == told
    back = KernelComparison.load(found.write(tmp_path / "r.parquet"))
    assert back.to_dict() == found.to_dict()
    with pytest.raises(SettingError, match=r"r\.pdf"):
        found.write(tmp_path / "r.pdf")


def test_a_comparison_is_drawn():
    import matplotlib as mpl

    mpl.use("Agg")
    axes = comparison([1.02, 1.021, 1.019, 1.02]).plot()
    assert axes.get_xlabel() == "cycles of new relative to old in %"
    assert len(axes.lines[0].get_xdata()) == 4


@pytest.mark.measures
@pytest.mark.words
def test_kernels_are_found_by_file_commit_and_library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "links.h").write_text("#define LINKS 100\n")
    (tmp_path / "src" / "k.c").write_text('#include "links.h"\n' + CHAIN_OF)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "src" / "links.h").write_text("#define LINKS 200\n")
    old, new = kernel_from("HEAD:src/k.c", options={"flags": "-O1"}), kernel_from("src/k.c", options={"flags": "-O1"})
    assert (old.name, new.name) == ("k.c at HEAD", "k")
    assert new.trace().instruction_count - old.trace().instruction_count == 500  # 100 turns of five
    monkeypatch.chdir(tmp_path / "src")
    assert kernel_from("HEAD:k.c").name == "k.c at HEAD"
    (tmp_path / "k.cpp").write_text('extern "C" long twice(long x) { return 2 * x; }')
    subprocess.run(["g++", "-shared", "-fPIC", "../k.cpp", "-o", "../k.so"], check=True)
    assert kernel_from("../k.cpp").function == kernel_from("../k.so", "twice").function == "twice"
    assert kernel_from("corpus:gemm").name == "gemm"
    for text, message in [
        ("no.c", "no file no.c: expected a C or C.. file, REVISION:FILE"),
        ("HEAD~7:k.c", "git says: .*HEAD~7"),
        ("HEAD:no.c", "commit HEAD has no file src/no.c"),
        ("../k.so:twice", "k.so is a file here: give it alone, and its function by --function twice"),
        ("../k.so", "which function of k.so to time: --function NAME"),
        ("links.h", "neither C .* nor a shared library"),
    ]:
        with pytest.raises(SettingError, match=message):
            kernel_from(text)
    with pytest.raises(SettingError, match="no shared library"):
        library_kernel("no.so", "f")


@pytest.mark.measures
@pytest.mark.words
def test_mistakes_are_told(monkeypatch):
    kernel = chain(10)
    for settings, message in [
        ({"processes": 5}, "processes must be 6 or more, found 5"),
        ({"rounds": 9}, "rounds must be 10 or more"),
        ({"confidence": 1}, "confidence must lie"),
        ({"least": -1}, "least must lie"),
    ]:
        with pytest.raises(SettingError, match=message):
            compare(kernel, kernel, **settings)
    with pytest.raises(DataError, match=r"f \(A\) failed while it was timed.*SIGILL"):
        compare(compile_kernel("void f(void) { __builtin_trap(); }"), kernel)
    ticks = samples(np.full(24, 1000.0), np.zeros(24, bool))
    ticks[:, 0] *= 2  # the clock rate changed in every sample
    rest = [(0, 0), (0, 0), (0, module._ROW - 7)]  # nothing was called before
    rounds = np.pad(ticks.reshape(-1, 2, 7), rest)
    wild = {"pairs": np.tile([1000, 3000], (100, 1)), "ticks": rounds, "calls": np.array([1, 1])}
    wild |= {
        "step": np.array(1),
        "start": np.array(0),
        "fences": ticks[:4],
        "known": np.array(40),
        "control": np.zeros((2, 4), int),
        "alone": rounds[:0],
        "alone_process": np.zeros(0, int),
        "in_row": rounds[:0],
        "in_row_process": np.zeros(0, int),
    }
    for first in ("first_0", "first_1"):
        wild |= {first: rounds[:0], f"{first}_process": np.zeros(0, int)}
    monkeypatch.setattr(module, "in_measuring_process", lambda *_: wild | {"process": np.arange(12)})
    with pytest.raises(UnavailableError, match="only 0 of 30 processes had 5 steady rounds"):
        compare(kernel, kernel)
    busy = np.pad(samples(np.full(480, 1000.0), np.ones(480, bool)).reshape(-1, 2, 7), rest)
    monkeypatch.setattr(
        module, "in_measuring_process", lambda *_: wild | {"ticks": busy, "process": np.repeat(np.arange(12), 20)}
    )
    with pytest.warns(PerfkitWarning, match="100% of the rounds ran beside a busy thread"):
        assert not pk.compare(kernel, kernel).quiet


def test_the_spread_between_processes_is_relative():
    """Ratios around .17 and around 1/.17 vary alike: by their logarithms."""
    ratios = np.array([0.1, 0.2, 0.4])
    deviation = np.expm1(np.log(2))  # of the logarithms of 1/2, 1 and 2 times something: ln 2
    for of in (ratios, 1 / ratios, 30 * ratios):
        assert f"The ratio varies by {deviation:.1%} between processes" in comparison(of).summary()
    assert "between processes" not in comparison(0.1 * np.array([1.0, 1.01, 0.99])).summary()


def test_reports_name_what_was_called_and_files_of_one_name_apart(tmp_path):
    """Two files a.c were a (A) and a (B), with neither the function nor the size in the report."""
    body = "long {}(double *x, long n) {{ return n + (long)*x; }}\n"
    files = [tmp_path / folder / "a.c" for folder in ("x", "y")]
    for file in files:
        file.parent.mkdir()
        file.write_text(body.format("f") + body.format("g"))
    one, other = (compile_kernel(file, "f") for file in files)
    assert module._names(one, other) == ("x/a.c", "y/a.c")
    assert module._names(one, compile_kernel(files[1], "g")) == ("x/a.c:f", "y/a.c:g")
    assert module._names(one, compile_kernel(files[0], "g")) == ("a:f", "a:g")
    assert module._names(one, compile_kernel(files[0], "f", flags="-O1")) == ("a (A)", "a (B)")
    texts = [compile_kernel(body.format("f"), "f", flags=flags) for flags in ("-O1", "-O2")]
    assert module._names(*texts) == ("f (A)", "f (B)")
    assert module._names(one, texts[0]) == ("a", "f")
    call = module._call(one, (np.zeros((10, 20)), 2.5, 7, np.arange(4, dtype=np.int32)))
    assert call == "f(f8[10x20], 2.5, 7, i4[4] ascending)"
    ratios = [1.02, 1.021, 1.019, 1.02, 1.02]
    found = comparison(ratios, called=(call, call))
    kept = "; arrays are filled once, and a call finds what the one before left in them" if "[" in call else ""
    assert f"Called: {call}{kept}." in found.to_markdown()
    assert found.to_dict()["a"]["call"] == call
    assert f"Called: {call} of old, g(3) of new{kept}." in comparison(ratios, called=(call, "g(3)")).to_html()
    assert "Called" not in comparison(ratios).summary()


def test_an_interval_is_no_narrower_than_the_steps_of_the_clock_allow():
    """Of 26 ticks: six processes of median ratio 1.0053 gave an interval of no width, which missed the truth."""
    alike = comparison([1.0053] * 6, grain=0.004)
    assert alike.interval[0] < 1.0050 - 1 < alike.interval[1]
    assert alike.interval[1] - alike.interval[0] < 0.002
    assert np.ptp(comparison([1.0053] * 6).interval) < 1e-12  # a counter of single ticks
    spread = [1.004, 1.005, 1.006, 1.007, 1.003, 1.005]
    assert comparison(spread, grain=0.004).interval == comparison(spread).interval


@pytest.mark.parametrize("effect", [0.0, 0.001, 0.0025, 0.005])
def test_readings_in_steps_give_the_effect_between_them(effect):
    """Both readings begin anywhere in a step; medians are whole steps, and off by up to half of one."""
    random = np.random.default_rng(3)
    step, ticks, rounds = 26, 10_010.0, 30

    def read(length):
        begin = random.uniform(0, step, rounds)
        return (np.floor((begin + length) / step) * step).astype(int)

    held = []
    for _ in range(40):
        samples = [
            [3 * CHAIN, WIDTH // 4, TURNS, value, 3 * CHAIN, WIDTH // 4, TURNS]
            for _ in range(8)
            for pair in zip(read(ticks), read(ticks * (1 + effect)), strict=True)
            for value in pair
        ]
        process = np.repeat(np.arange(8), rounds)
        grain = 2 * step / ticks
        table, quiet = by_process(judge(np.array(samples), 3), process, 1, grain=grain)
        found = comparison(table["ratio"].to_list(), table=table, quiet=quiet, grain=grain)
        held.append(found.interval[0] <= effect <= found.interval[1])
        assert found.effect == pytest.approx(effect, abs=0.0006)
    assert sum(held) >= 38


def test_overlap_that_changes_the_effect_is_told_and_a_report_says_when():
    """1,000 and 1,020 links: 2.0 % alone, 1.5 % where 100 of 3,000 cycles overlap, which was not told."""
    told = comparison([1.0146] * 8, alone=(1035.0, 1055.7), date="2026-11-27T22:00:00Z")
    assert "slower than old by 1.46%, calls in a row, which overlap (" in told.summary().splitlines()[0]
    assert "a call alone takes some 1,035 and 1,056 cycles (+2.0%;" in told.summary()
    assert "Measured on a host, 2026-11-27T22:00:00Z." in told.to_markdown()
    assert "Measured on a host, 2026-11-27T22:00:00Z." in told.to_html()
    assert json.loads(told.to_json())["date"] == "2026-11-27T22:00:00Z"
    for silent in ((1004.0, 1018.0), (1014.0, 1028.0), None):
        assert "overlap" not in comparison([1.0146] * 8, alone=silent).summary()
    assert comparison([1.0] * 8).to_markdown().endswith("Measured on a host.\n")


def test_a_call_alone_is_told_within_each_process():
    """Processes of two states: 8,356 in a row, "a call alone takes some 7,653", of other processes."""
    table = pd.DataFrame({"process": range(4), "cycles_a": [7500.0, 9000.0, 9000.0, 9000.0]})
    table["cycles_b"], table["ratio"] = 100.0, 100 / table["cycles_a"]
    alone = pd.DataFrame({"process": [0, 1], "cycles_a": [7500.0, 9000.0], "cycles_b": [140.0, 140.0]})
    mean = np.exp(np.log(table["cycles_a"]).mean())
    assert module._alone(alone, table, table)[0] == pytest.approx((mean, 140.0))
    # Calls that take longer from some call on: those alone came behind it, and so did those in a row again.
    later = table.assign(cycles_b=140.0)
    assert module._alone(alone, later, table) == (pytest.approx((mean, 100.0)), np.inf)  # of too few processes
    for none in (alone, later.iloc[:0]), (alone.assign(process=9), later), (pd.DataFrame(), later):
        assert module._alone(*none, table) == (None, np.inf)


def test_how_far_the_ratio_of_calls_alone_may_be_off():
    """Of six processes the logarithms are off by 0.01, 0.02 and 0.03 to either side: 0.02 in the middle."""
    table = pd.DataFrame({"process": range(6), "cycles_a": 1000.0, "cycles_b": 1000.0, "ratio": 1.0})
    off = np.array([-0.03, -0.02, -0.01, 0.01, 0.02, 0.03])
    alone = table.assign(cycles_a=1100.0, cycles_b=1100 * np.exp(off))
    (a, b), may_be_off = module._alone(alone, table, table)
    assert (a, b) == (pytest.approx(1100), pytest.approx(1100, rel=1e-3))
    assert may_be_off == pytest.approx(5 * 1.25 * 1.48 * 0.02 / 6**0.5)


@pytest.mark.parametrize(
    ("ratio", "alone", "told"),
    [
        (1.0113, (1011.0, 1012.0), True),  # +1.13 % in a row, where both take the same alone
        (1.0048, (1005.0, 1005.0), False),  # by FENCE
        (4.0519, (1013.0, 4052.0), True),  # +305 %, and +300 % alone
        (4.0519, (1013.0, 4104.6), False),  # the same effect
        (1.5, (1040.0, 1560.0), False),  # both 4 % longer: the effect is the same
        (1.5, (1040.0, 1510.0), True),  # +45 %
    ],
)
def test_overlap_is_told_where_the_effect_on_calls_alone_is_another(ratio, alone, told):
    """Of two chains of 4,200 cycles, one of which depends on its last call: "slower by 1.13 %" without a word."""
    found = comparison([ratio] * 8, alone=alone)
    assert ("calls in a row, which overlap" in found.summary()) == told
    assert "overlap" not in comparison([ratio] * 8, alone=alone, alone_off=0.3).summary()


@quiet
@pytest.mark.measures
@pytest.mark.parametrize(("dependent", "told"), [((0, 1), True), ((1, 1), False)])
def test_calls_that_depend_on_the_one_before_are_compared_with_ones_that_overlap(dependent, told):
    source = """static long s = 3;
    long work(long x) {
        long y = DEPENDENT ? s : x;
        __asm__ volatile(".rept 1400\\n\\timul %0, %0\\n\\t.endr" : "+r"(y) : : "cc");
        if (DEPENDENT) s = y;
        return y;
    }"""
    a, b = (compile_kernel(source, "work", defines={"DEPENDENT": of}, flags="-O2") for of in dependent)
    found = compare(a, b, 3)
    assert ("calls in a row, which overlap" in found.summary()) == told
    assert compare(a, b, 3, processes=10, apart=True).effect == pytest.approx(0, abs=0.003)


def test_functions_are_named_as_in_their_source(tmp_path):
    """`st:_Z1hPdl` for `-f h`."""
    (tmp_path / "k.cpp").write_text("double h(double *x, long n) { return x[n]; }\n")
    kernel = compile_kernel(tmp_path / "k.cpp", function="h")
    assert kernel.function == "_Z1hPdl"
    assert module._call(kernel, ()) == "h()"


def test_trials_go_on_until_their_calls_are_enough():
    """A reading of 7 cycles in steps of 42: one side had 12,548 calls in a sample and the other 484, of one build."""

    def read(calls):  # what lasts less than a step reads as none or one, by chance
        taken = np.array([7.0, 7.0]) * calls
        return np.where(taken < 42, [1.6, 42.0], taken)

    assert module._enough(read) == [2858, 2858]
    assert module._enough(lambda calls: np.array([30_018.0, 15.0]) * calls) == [1, 1334]
    assert module._enough(lambda calls: np.array([5e6, 5e6]) * calls) == [1, 1]
    assert enough_calls(lambda calls: 42.0 if calls == 1 else 7.0) == 2858
    assert enough_calls(lambda calls: 1e6) == 1


@pytest.mark.measures
def test_time_in_which_others_had_the_processor_is_not_the_kernels():
    """15.0 million cycles were 74.4 million beside a program on the same processor."""
    kernel = compile_kernel(CHAIN_OF_MILLIONS, flags="-O2")
    processor, cycles = min(os.sched_getaffinity(0)), None
    with subprocess.Popen([sys.executable, "-c", SPIN.format(processor)]) as other:
        try:
            with contextlib.suppress(UnavailableError):  # where every sample was interrupted
                cycles = compare(kernel, kernel, 5_000, processes=6, processor=processor, patience=60).cycles[0]
        finally:
            other.kill()
    assert cycles is None or cycles == pytest.approx(15e6, rel=0.03)


def test_rare_slow_calls_are_told_beside_the_middle_one():
    """Of means that say another thing than the medians, surely; of means that vary by as much, nothing."""
    ratios = [0.91, 0.912, 0.909, 0.911, 0.91, 0.9105]
    found = comparison(ratios)
    assert "middle round" not in found.summary()  # results of before the means were kept
    means = found.table.assign(mean_a=1000.0, mean_b=[1360.0, 1350.0, 1365.0, 1362.0, 1358.0, 1361.0])
    told = dataclasses.replace(found, table=means)
    assert "measured); by the mean new takes 35.9" in told.summary().splitlines()[0]
    assert ", by the middle round (" in told.summary().splitlines()[0]
    assert "The effect on the mean of all calls is +35.9" in told.summary()
    assert told.to_dict()["effect_on_means"] == pytest.approx(0.359, abs=0.001)
    low, high = told.to_dict()["interval_on_means"]
    assert low < 0.359 < high < 0.38
    noisy = means.assign(mean_b=[1360.0, 910.0, 700.0, 1100.0, 900.0, 2000.0])
    assert "middle round" not in dataclasses.replace(found, table=noisy).summary()


def differing(shares: tuple[float, float], processes: int, seed: int) -> KernelComparison:
    """A comparison of kernels of 1,000 cycles of which these shares of the calls take 2,000."""
    random = np.random.default_rng(seed)
    made = [
        1000.0 * (1 + (random.random((30, 2)) < shares)) * random.normal(1, 0.002, (30, 2)) for _ in range(processes)
    ]
    ticks = samples(np.ravel(made), np.zeros(60 * processes, dtype=bool))
    table, _ = by_process(judge(ticks, 3), np.repeat(np.arange(processes), 30), 1)
    return comparison([1.0] * 6, table=table, names=("old", "new"))


def test_the_mean_is_told_where_calls_of_a_kernel_differ():
    """Nearly half of the calls of one, over half of those of the other: the medians say anything, the means 10 %."""
    held = 0
    for seed in range(100):
        found = differing((0.4, 0.54), 30, seed)
        told = found.summary()
        assert "Calls differ: old takes 1,0" in told or "Calls differ: old takes 99" in told
        low, high = found.to_dict()["interval_on_means"]
        held += low <= 1.54 / 1.4 - 1 <= high
    assert held >= 96
    alike = differing((0.0, 0.0), 30, 0)
    assert alike.to_dict()["effect_on_means"] is None
    assert "Calls differ" not in alike.summary()


def rarely(shares: tuple[float, float], longer: float, seed: int, middle: float = 0.0) -> KernelComparison:
    """A comparison of kernels of 30,000 cycles, of which these shares of the calls take that much longer.

    Interrupts of 50,000 to 150,000 cycles meet one call in 150; 33 calls lie before each sample. `middle`: the effect
    on all other calls.
    """
    random = np.random.default_rng(seed)
    made = (30, 30, 2, 34)  # processes, rounds, kernels, calls
    cycles = 30_000.0 * random.normal(1, 0.001, made) * np.array([1, 1 + middle])[:, None]
    cycles *= 1 + longer * (random.random(made) < np.array(shares)[:, None])
    cycles += random.uniform(5e4, 15e4, made) * (random.random(made) < cycles / 30_000 / 150)
    ticks = samples(cycles[..., -1].ravel(), np.zeros(30 * 30 * 2, dtype=bool))
    before = (2 * np.roll(cycles, 1, axis=-1)).astype(np.int64).reshape(-1, 2, 34)  # the sample's own ticks come first
    table, quiet = by_process(
        judge(ticks, 3), np.repeat(np.arange(30), 30), 1, before=(before, np.zeros((900, 2), int))
    )
    return comparison([1.0] * 6, table=table, quiet=quiet)


@pytest.mark.parametrize(("share", "longer"), [(1 / 20, 0.5), (1 / 60, 2.0), (1 / 12, 0.3), (1 / 40, 1.15)])
def test_the_mean_is_told_where_rare_calls_of_one_kernel_take_longer(share, longer):
    """A stranger's kernels: 1 % faster by the middle round and 1.5 % slower on average, without a word."""
    held = 0
    for seed in range(10):
        found = rarely((0.0, share), longer, seed, middle=-0.01)
        true = 0.99 * (1 + share * longer) - 1
        told = found.summary()
        assert "is faster than old: it takes 1.0" in told or "takes 0.9" in told
        first = told.splitlines()[0]
        low, high = found.to_dict()["interval_on_means"]
        assert "; by the mean new takes " in first or "; by the mean no difference was found (" in first
        assert "% more cycles (" in first or low <= 0
        held += low <= true <= high
    assert held >= 9


@pytest.mark.parametrize(("share", "longer"), [(1 / 3, 6.0), (1 / 30, 6.0), (1 / 40, 2.0)])
def test_of_long_calls_all_rounds_say_what_they_take_on_average(share, longer):
    """Calls of millions of cycles seldom count, and the longer the more seldom: +200 % was "the same", and +5 %."""
    held = 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        cycles = 4e6 * random.normal(1, 0.001, (900, 2))
        long = (random.random((900, 2)) < share) & np.array([False, True])
        own = 2 * cycles * np.where(long, 1 + longer, 1)  # two ticks per cycle
        disturbed = (random.random((900, 2)) < 0.2) | long  # none of the long ones counts
        ticks = samples(cycles.ravel(), disturbed.ravel())
        table, quiet = by_process(
            judge(ticks, 3), np.repeat(np.arange(30), 30), 1,
            before=(own.astype(np.int64)[..., None], disturbed.astype(np.int64)),
        )  # fmt: skip
        found = comparison([1.0] * 6, table=table, quiet=quiet)
        low, high = found.to_dict()["interval_on_means"]
        held += low <= share * longer <= high
        assert "; by the mean new takes " in found.summary().splitlines()[0]
        assert "900 calls were timed: what fewer than one of 64 does would not show" in found.summary()
    assert held >= 8  # of 99 % intervals from 30 processes, as few as one long call each


def test_samples_that_hold_two_or_three_long_calls_are_told_by_the_mean():
    """Of 33 calls in a sample 2.2 take twice as long, and the middle one holds two: 7 of 7 intervals were wrong."""
    random = np.random.default_rng(3)
    held = 2 + (random.random((900, 2)) < 0.2)
    cycles = 20_000 * (1 + np.array([0, 1]) * held / 33) * random.normal(1, 0.001, (900, 2))
    table, _ = by_process(
        judge(samples(cycles.ravel(), np.zeros(1800, dtype=bool)), 3), np.repeat(np.arange(30), 30), 33
    )
    found = comparison([1.0] * 6, table=table)
    assert found.effect == pytest.approx(2 / 33, abs=0.002)
    effect, low, high = found.on_average
    assert low < 2.2 / 33 < high
    assert effect == pytest.approx(2.2 / 33, abs=0.001)
    assert "Calls differ by a little, or every sample holds a few that take longer" in found.summary()


def test_nobody_is_asked_to_decide_between_two_effects_that_do_not_matter():
    """Calls that differ, of two kernels that take the same time by the middle and by the mean."""
    table = comparison([1.0] * 12).table.assign(low_a=900.0, high_a=1100.0, low_b=900.0, high_b=1100.0)
    told = {}
    for more in (1.001, 1.02):
        wobble = np.linspace(0.9999, 1.0001, 12)
        means = table.assign(mean_a=1000.0, mean_b=1000.0 * more * wobble, rare_a=0.0, rare_b=0.0)
        told[more] = comparison([1.0] * 12, table=means.assign(waited_a=0.0, waited_b=0.0)).summary()
        assert "same time" in told[more]
        assert "The effect on the mean of all calls is" in told[more]
    assert "Decide which of them counts" not in told[1.001]
    assert "Decide which of them counts" in told[1.02]


def test_a_mean_that_may_be_the_same_has_no_direction():
    """One of 40 calls takes longer, and all others less, by as much on average: "by the mean 0.5 % more (-1 to +1)"."""
    first = rarely((0.0, 1 / 40), 1.2, 5, middle=-0.029).summary().splitlines()[0]
    assert "is faster than old: it takes 2.9" in first or "takes 2.8" in first
    assert "measured); by the mean no difference was found (-" in first


def test_rare_calls_of_both_kernels_and_interrupts_are_no_effect_on_the_mean():
    alarms = [rarely(shares, 0.5, seed).on_average for shares in ((0.0, 0.0), (0.05, 0.05)) for seed in range(12)]
    assert sum(one is not None for one in alarms) <= 1
    assert "they add 5% to the mean of old and 5% to that of new" in rarely((0.05, 0.05), 0.5, 1).summary()


def test_a_kernel_that_waits_now_and_then_is_told():
    plain = comparison([1.0] * 30)
    told = dataclasses.replace(plain, table=plain.table.assign(waited_a=0.001, waited_b=0.3)).summary()
    assert "\nnew gives the processor up in 30% of its rounds: waiting" in told
    assert ", apart from what calls wait for (" in told.splitlines()[0]
    assert "calls that wait are not in the figures above" in told
    longer = plain.table.assign(mean_a=1000.0, mean_b=1300.0, rare_a=0.0, rare_b=0.3, waited_a=0.0)
    assert dataclasses.replace(plain, table=longer.assign(waited_b=0.0)).on_average is not None
    assert dataclasses.replace(plain, table=longer.assign(waited_b=1.0)).on_average is None  # not a mean without waits
    assert "the processor" not in plain.summary()
    both = dataclasses.replace(plain, table=plain.table.assign(waited_a=0.3, waited_b=1.0)).summary()
    assert "old gives the processor up in 30% of its rounds and new gives the processor up in 100%" in both


@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_of_a_kernel_that_waits_in_most_rounds_the_cycles_are_no_verdict(ratio):
    """The middle round is one of those that wait: "slower by 310 %, apart from what calls wait for" was said of it."""
    plain = comparison([ratio] * 30)
    found = dataclasses.replace(plain, table=plain.table.assign(waited_a=0.0, waited_b=0.9))
    assert found.verdict == "undecided"
    told = found.summary()
    assert told.startswith("no verdict on new and old (")
    assert "new gives the processor up in 90% of its rounds" in told
    assert "the figures above hold what falling asleep and waking up take" in told
    assert "apart from" not in told


def test_notes_are_in_what_is_written():
    found = dataclasses.replace(comparison([1.0] * 8), notes=("a <b> is removed",))
    assert "Note: a <b> is removed" in found.to_markdown()
    assert "Note: a &lt;b&gt; is removed" in found.to_html()
    assert json.loads(found.to_json())["notes"] == ["a <b> is removed"]


def test_calls_beside_other_programs_are_no_rare_calls():
    before, cycles, counts = np.full((30, 8), 1000.0), np.full(30, 1000.0), np.full(30, True)
    before[7, 5] = 1e6
    waited = np.zeros(30, dtype=int)
    assert added_by_rare(before, cycles, waited, counts)[0] == pytest.approx(999 / (30 + 4 * 29))  # half of the calls
    waited[7] = BEFORE
    assert added_by_rare(before, cycles, waited, counts)[:2] == (0, 1000)
    cycles[9] = 5e5
    assert added_by_rare(before, cycles, waited, counts)[0] > 1
    waited[9] = SAMPLE
    assert added_by_rare(before, cycles, waited, counts)[:2] == (0, 1000)
    assert added_by_rare(before, cycles, np.full(30, BEFORE), counts)[0] == pytest.approx(499 / 30)
    assert share_waited(waited) == 0
    assert share_waited(waited | [ITSELF] * 3 + [0] * 27) == pytest.approx(0.1)


@pytest.mark.measures
def test_beside_other_programs_a_kernel_that_takes_five_times_as_long_does_so_by_the_mean_too():
    """Chains of 10,000 and 50,000 multiplications: of the longer one what others have is taken off, so of both."""
    one, five = (compile_kernel(CHAIN_OF_MILLIONS.replace("i < n", f"i < n * {turns}")) for turns in (1, 5))
    processor = str(min(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", processor, sys.executable, "-c", "while True: pass"]) as other:
        try:
            found = compare(one, five, 10, processes=12)
        finally:
            other.kill()
    assert found.effect == pytest.approx(4, rel=0.02)
    a, b = found.table["mean_a"].median(), found.table["mean_b"].median()
    assert b / a == pytest.approx(5, rel=0.1)
    assert b == pytest.approx(150_000, rel=0.1)  # waits beside a sample, in the readings of the clocks, are not its own


@pytest.mark.measures
def test_rare_long_calls_change_the_mean_and_not_the_middle():
    source = """static unsigned calls;
    long f(long n) {
      long turns = EVERY && ++calls % (EVERY + !EVERY) == 0 ? 2 * n : n;
      for (long i = 0; i < turns; i++) __asm__ volatile(".rept 100\\n imul %%rax,%%rax\\n.endr" ::: "rax");
      return 0; }"""
    one, other = (compile_kernel(source, function="f", defines={"EVERY": every}, flags="-O2") for every in (0, 25))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        found = compare(one, other, 100)
    assert abs(found.effect) < 0.005
    low, high = found.to_dict()["interval_on_means"]
    assert low < 0.04 < high
    assert found.to_dict()["effect_on_means"] == pytest.approx(0.04, abs=0.01)


@pytest.mark.measures
@pytest.mark.parametrize("what", ["table", "stack", "memory"])
def test_what_depends_on_addresses_differs_between_processes(what):
    """Forked processes had one stack and two places for libraries: the interval held nothing of the layout."""
    source = """#include <stdlib.h>
    static long table[4]; static void *memory;
    double work(void) {
        volatile char stack[64];
        if (!memory) memory = malloc(48);
        unsigned long table_at = (unsigned long)table >> 13, stack_at = (unsigned long)stack >> 6;
        unsigned long memory_at = (unsigned long)memory >> 5;
        double s = 1.0000001;
        for (long i = WHICH_at % 2 ? MORE : 1000; i; i--) s *= 1.0000001;
        return s; }""".replace("WHICH", what)
    sides = (compile_kernel(source, "work", defines={"MORE": more}) for more in (1000, 1500))
    found = pk.compare(*sides, processes=12)
    assert found.table["ratio"].min() < 1.05
    assert found.table["ratio"].max() > 1.4
    assert found.verdict != "same"


@pytest.mark.measures
def test_processes_do_not_all_time_the_same_calls():
    """Of a kernel that takes twice as long from its 18,000th call on, some processes time the later ones alone."""
    source = """static long n; double work(void) {{
        double s = 1.0000001;
        for (long i = n++ < {} ? 500 : 1000; i; i--) s *= 1.0000001;
        return s; }}"""
    found = pk.compare(*(compile_kernel(source.format(n), "work") for n in (1 << 30, 18_000)), processes=10)
    longer = found.table["ratio"]
    assert longer.min() < 1.1
    assert longer.max() > 1.7
    assert 5_000 < found.start < 50_000
    assert f"0 to {found.start:,} others, as drawn" in found.summary()


@pytest.mark.measures
def test_calls_that_take_turns_are_not_in_step_with_the_samples():
    alternating = """static int calls;
    long f(long n) {
      long turns = calls++ & 1 ? BIG * n : n;
      for (long i = 0; i < turns; i++) __asm__ volatile(".rept 100\\n imul %%rax,%%rax\\n.endr" ::: "rax");
      return 0; }"""
    one, other = (compile_kernel(alternating, function="f", defines={"BIG": big}, flags="-O2") for big in (1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        found = compare(one, other, 100, processes=12).to_dict()
    assert found["interval_on_means"][0] < 1.0 < found["interval_on_means"][1]  # 2 of 30,000 cycles for each of 30,000


@pytest.mark.parametrize(("value", "text"), [
    (np.arange(5), "i8[5] ascending"), (np.array([3.0, 1.0]), "f8[2]"), (np.ones((2, 3)), "f8[2x3]"), (7, "7"),
])  # fmt: skip
def test_sorted_arrays_are_called_so(value, text):
    assert _argument(value) == text


@pytest.mark.measures
def test_threads_are_told_to_share_the_processor():
    source = """#include <pthread.h>
    static void *work(void *n) { return n; }
    void f(void) { pthread_t one; pthread_create(&one, 0, work, 0); pthread_join(one, 0); }"""
    kernel = compile_kernel(source, "f", flags="-O1 -pthread")
    with pytest.warns(PerfkitWarning, match="run on the one processor"):
        compare(kernel, kernel, processes=6, rounds=10)


def test_a_few_cycles_more_beside_the_other_kernel_are_no_sharing():
    """Functions of a few cycles, compared with themselves, shared "something of the process" in 8 of 9 comparisons."""
    assert module._times(7.9, 9.6) == 1
    assert module._times(40.0, 80.0) == 2
    assert module._times(0.0, 50.0) == 50


def test_a_kernel_whose_calls_differ_is_not_told_to_share_something():
    """One call in five takes ten times as long: the few rounds before the other kernel came were of one kind."""
    found = differing((0.2, 0.2), 12, 1)
    assert "Do not rely on this" not in dataclasses.replace(found, before=(1.4, 1.0)).summary()
    assert "Do not rely on this" in dataclasses.replace(differing((0.0, 0.0), 12, 1), before=(1.4, 1.0)).summary()
    assert "Do not rely on this" in dataclasses.replace(found, before=(2.5, 1.0)).summary()


def test_rare_calls_and_states_of_processes_are_told():
    """Calls that add 20 % to the mean in a third of the processes; processes of two kinds; and neither."""
    kinds = np.where(np.arange(30) % 3 == 0, 2000.0, 1000.0)
    plain = comparison([1.0] * 30)
    rare = np.where(np.arange(30) % 3 == 0, 0.6, 0.0)
    means = plain.table.assign(rare_a=rare, rare_b=rare)
    told = dataclasses.replace(plain, table=means).summary()
    assert ", rare calls apart (" in told.splitlines()[0]
    assert "they add 16% to the mean of old and 16% to that of new" in told  # three of the ten are left out
    few = np.where(np.arange(30) < 3, 8.0, 0.005)
    worst = means.assign(rare_a=few, rare_b=few)
    assert "Rare calls" not in dataclasses.replace(plain, table=worst).summary()
    states = dataclasses.replace(plain, table=plain.table.assign(cycles_a=kinds, cycles_b=kinds)).summary()
    assert "Both take up to 2.0 times as long in some processes" in states
    assert "Both take" not in plain.summary()


BY_CLOCK = """unsigned long f(void) {
    static unsigned long last;
    unsigned long now = __builtin_ia32_rdtsc();
    return now - last > 26000 ? last = now : 0;
}"""
BY_TIMER = """#include <signal.h>
#include <sys/time.h>
long f(void) {
    static struct itimerval often = {{0, 50}, {0, 50}};
    static long n;
    if (!n++) signal(SIGALRM, SIG_IGN), setitimer(ITIMER_REAL, &often, 0);
    return n;
}"""


@pytest.mark.measures
@pytest.mark.parametrize(
    ("code", "how"),
    [(BY_CLOCK, "rdtsc"), (BY_TIMER, "setitimer")],
    ids=["clock", "timer"],
)
def test_a_kernel_that_goes_by_time_is_told(code, how):
    """A handler of 18,000 cycles each 50 microseconds: 3,003 settled for 5,545, without a word."""
    with pytest.warns(PerfkitWarning, match=rf"f may go by time \(its code has {how}\)"):
        true_cycles(compile_kernel(code, "f"), processes=2)
    assert not [one for one in caught(lambda: true_cycles(chain(10), processes=2)) if "go by time" in one]


@quiet
@pytest.mark.measures
def test_one_kernel_that_starts_threads_is_told_to_slow_the_others_locks():
    """Eight fputc of each: +0.8 to +1.0 % beside a kernel that had begun a thread, +9.2 % in programs of their own."""
    plain = "int puts(const char *);\nvoid f(void) { static volatile int x; x++; }"
    threads = """#include <pthread.h>
    static void *nothing(void *a) { return a; }
    void f(void) { static pthread_t one; if (!one) pthread_create(&one, 0, nothing, 0), pthread_join(one, 0); }"""
    found = compare(compile_kernel(plain, "f"), compile_kernel(threads, "f"), processes=6)
    assert any("From f (B)'s first thread on the C library's locks" in note for note in found.notes), found.notes
    both = compare(compile_kernel(threads, "f"), compile_kernel(threads, "f"), processes=6)
    assert not any("first thread on" in note for note in both.notes)


def caught(work):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in seen]
