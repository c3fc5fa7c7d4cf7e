"""Calls that leave the region: followed where they can be, else refused or named and counted; never just dropped."""

import shutil
import subprocess

import numpy as np
import pytest

from perfkit.collectors.kernels import compile_kernel
from perfkit.collectors.tracer.outside import Maps
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, PerfkitWarning
from tests.collectors.tracer import oracle

# mov eax, edi; add eax, 7; ret
GENERATED = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const unsigned char bytes[] = "\x89\xf8\x83\xc0\x07\xc3";
static long sum;
__attribute__((noipa)) static void *in_memory(int after) {
    void *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(p, bytes, 6);
    if (after != 7) mprotect(p, 4096, after);
    return p;
}
static void *mapped_twice(void) {
    int file = memfd_create("jit", 0);
    ftruncate(file, 4096);
    void *written = mmap(0, 4096, 3, MAP_SHARED, file, 0);
    memcpy(written, bytes, 6);
    return mmap(0, 4096, 5, MAP_SHARED, file, 0);
}
static int (*code)(int);
__attribute__((noipa)) void run(long n) {
    for (long i = 0; n < 0 || i < n; i++) sum += code(i);
}
"""
WAYS = {
    "writable": ("code = in_memory(7); run(n);", "in anonymous memory, rwxp"),
    "sealed": ("code = in_memory(5); run(n);", "in anonymous memory, r-xp"),
    "mapped twice": ("code = mapped_twice(); run(n);", r"in /memfd:jit \(deleted\), r-xs"),
    "unmapped": ("code = in_memory(7); run(n); munmap(code, 4096);", "in memory that is no longer mapped"),
}


@pytest.fixture(scope="module")
def stepper(tmp_path_factory):
    return oracle.build_stepper(tmp_path_factory.mktemp("stepper"))


@pytest.mark.parametrize("way", WAYS)
def test_generated_code_is_refused_where_callees_are_wanted(way):
    body, where = WAYS[way]
    kernel = compile_kernel(GENERATED + f"void f(long n) {{ {body} }}", "f", flags="-O1")
    message = (
        f"f called 0x[0-9a-f]+ 5 times, which is {where}: with callees=True every called function must lie in the text "
        "of a program or library, where nothing writes; .*Trace with callees=False, .*compile that code into a library"
    )
    with pytest.raises(DataError, match=message):
        kernel.trace(5, callees=True)


def test_generated_code_is_refused_when_the_limit_ends_the_trace():
    body, where = WAYS["writable"]
    kernel = compile_kernel(GENERATED + f"void f(long n) {{ {body} }}", "f", flags="-O1")
    with pytest.raises(DataError, match=f"times, which is {where}"):
        kernel.trace(-1, callees=True, limit=2000)


def test_generated_code_is_named_and_counted_where_callees_are_not_wanted():
    source = GENERATED + "void setup(void) { code = in_memory(7); }"
    kernel = compile_kernel(source, "run", flags="-O1")
    # The pointer is set before the trace begins.
    trace = kernel.trace(5)
    assert trace.provenance.complete
    (name,) = trace.provenance.extra["not_followed"].split(", ")
    assert name.startswith("0x")
    assert name.endswith(" (generated at run time)")
    assert trace.provenance.extra["not_followed_calls"] == f"{name}: 5"
    assert set(trace.code.function) == {"run"}


POINTED = """
__attribute__((noipa)) static long twice(long n) { return 2 * n; }
__attribute__((noipa)) static long thrice(long n) { return 3 * n; }
static long (*volatile table[2])(long) = {twice, thrice};
__attribute__((noipa)) static long onward(long n) { return table[n & 1](n); }
static long (*volatile next)(long) = onward;
long sum;
void f(void) { for (long i = 0; i < 9; i++) sum += next(i); }
"""


def test_functions_that_only_pointers_name_are_followed(stepper, tmp_path):
    """Before, what a pointer named was recorded only where a direct call named it, too."""
    kernel = compile_kernel(POINTED, "f", flags="-O1 -fno-optimize-sibling-calls")
    trace = kernel.trace(callees=True)
    assert set(trace.code.function) == {"f", "onward", "twice", "thrice"}
    assert "not_followed" not in trace.provenance.extra
    steps = oracle.step_everything(stepper, kernel, int(trace.addresses[-1]), tmp_path)
    assert (np.concatenate([trace.code.pc[ids] for ids in trace.instructions()]) % 4096).tolist() == steps
    alone = kernel.trace()
    assert set(alone.code.function) == {"f"}
    assert alone.provenance.extra["not_followed"] == "onward"
    assert alone.provenance.extra["not_followed_calls"] == "onward: 9"


def test_tail_calls_through_pointers_are_followed(stepper, tmp_path):
    kernel = compile_kernel(POINTED, "f", flags="-O2")
    trace = kernel.trace(callees=True)
    assert set(trace.code.function) == {"f", "onward", "twice", "thrice"}
    steps = oracle.step_everything(stepper, kernel, int(trace.addresses[-1]), tmp_path)
    assert (np.concatenate([trace.code.pc[ids] for ids in trace.instructions()]) % 4096).tolist() == steps


def test_a_library_calls_back(stepper, tmp_path):
    """A comparison that only qsort calls, in libc."""
    source = """
    #include <stdlib.h>
    static long x[40];
    void setup(void) { for (long i = 0; i < 40; i++) x[i] = i * 29 % 41; }
    static int compare(const void *a, const void *b) { return *(const long *)a < *(const long *)b ? -1 : 1; }
    void f(void) { qsort(x, 40, sizeof *x, compare); }
    """
    kernel = compile_kernel(source, "f", flags="-O1")
    trace = kernel.trace(callees=True)
    assert trace.provenance.backend == "cloner"
    assert "compare" in trace.code.function
    assert "not_followed_calls" not in trace.provenance.extra
    steps = oracle.step_everything(stepper, kernel, int(trace.addresses[-1]), tmp_path)
    assert (np.concatenate([trace.code.pc[ids] for ids in trace.instructions()]) % 4096).tolist() == steps


def test_library_functions_are_named_and_counted_without_callees():
    source = """
    #include <math.h>
    #include <string.h>
    static double x[40], y[40];
    void f(void) {
        for (long i = 0; i < 40; i++) y[i] = exp(x[i]);
        memcpy(x, y, sizeof x);
    }
    """
    for flags, names in [("-O1 -fno-builtin", {"exp", "memcpy"}), ("-O1 -fno-builtin -fno-plt", None)]:
        trace = compile_kernel(source, "f", flags=flags).trace()
        assert set(trace.code.function) == {"f"}
        counts = dict(part.split(": ") for part in trace.provenance.extra["not_followed_calls"].split(", "))
        assert sorted(counts.values()) == ["1", "40"]
        assert trace.provenance.extra["not_followed"].split(", ") == sorted(counts)
        assert names is None or set(counts) == names


def test_recursion_through_a_pointer_is_recorded_like_direct_recursion():
    source = """
    static long (*volatile again)(long);
    long f(long n) {{ {set} return n < 1 ? 0 : 1 + {call}(n - 1); }}
    """
    flags = "-O1 -fno-optimize-sibling-calls"
    direct = compile_kernel(source.format(set="", call="f"), "f", flags=flags).trace(7)
    pointer = compile_kernel(source.format(set="again = f;", call="again"), "f", flags=flags).trace(7)
    for trace in (direct, pointer):
        assert trace.block_counts()[0] == 8
        assert "not_followed" not in trace.provenance.extra


REFUSED = """
static char text[300];
__attribute__((noipa)) static void relic(void) { __asm__ volatile("xlatb" :: "b"(text), "a"(0)); }
static void (*volatile pointer)(void) = relic;
"""


@pytest.mark.parametrize("call", ["relic()", "pointer()"])
def test_a_callee_that_cannot_be_copied_is_warned_of_by_name(call):
    kernel = compile_kernel(REFUSED + f"void f(void) {{ for (int i = 0; i < 6; i++) {call}; }}", "f", flags="-O1")
    with pytest.warns(PerfkitWarning, match=r"trace of f lacks functions .*\(name: calls\): relic: 6$"):
        trace = kernel.trace(callees=True, backend="cloner")
    assert trace.provenance.extra["not_followed"] == "relic"
    assert trace.provenance.extra["not_followed_calls"] == "relic: 6"
    assert set(trace.code.function) == {"f"}


def test_a_callee_that_never_runs_is_no_reason_to_warn():
    kernel = compile_kernel(REFUSED + "void f(long n) { if (n > 5) relic(); }", "f", flags="-O1")
    trace = kernel.trace(1, callees=True)
    assert trace.provenance.extra["not_followed"] == "relic"
    assert "not_followed_calls" not in trace.provenance.extra


@pytest.mark.parametrize("call", ["own(i)", "pointer(i)"])
def test_a_callee_in_writable_memory_is_refused(call):
    source = f"""
    __attribute__((noipa, section(".own,\\"awx\\"#"))) static long own(long n) {{ return n + 1; }}
    static long (*volatile pointer)(long) = own;
    long sum;
    void f(void) {{ for (long i = 0; i < 4; i++) sum += {call}; }}
    """
    kernel = compile_kernel(source, "f", flags="-O1")
    with pytest.raises(DataError, match=r"f called own 4 times, which is in text of .* that the program may write"):
        kernel.trace(callees=True)
    assert kernel.trace().provenance.extra["not_followed_calls"] == "own (generated at run time): 4"


def test_retpolines_are_warned_of():
    """They return to the function that they call, which no copy sees."""
    kernel = compile_kernel(POINTED, "f", flags="-O1 -mindirect-branch=thunk")
    with pytest.warns(PerfkitWarning, match=r"\(name: calls\): kernel.so\+0x[0-9a-f]+: 9$"):
        trace = kernel.trace(callees=True)
    assert set(trace.code.function) == {"f"}
    inlined = compile_kernel(POINTED, "f", flags="-O1 -mindirect-branch=thunk-inline")
    with pytest.raises(DataError, match=r"cannot trace f: f returns at 0x\w+ to an address of its own making"):
        inlined.trace(backend="cloner")


def test_more_targets_than_the_list_holds_are_counted():
    count = 150
    source = "".join(f"__attribute__((noipa)) static long g{k}(long n) {{ return n + {k}; }}\n" for k in range(count))
    source += f"static long (*volatile table[])(long) = {{{', '.join(f'g{k}' for k in range(count))}}};\nlong sum;\n"
    source += f"void f(void) {{ for (int k = 0; k < {count}; k++) sum += table[k](k); }}"
    kernel = compile_kernel(source, "f", flags="-O1")
    counts = kernel.trace().provenance.extra["not_followed_calls"].split(", ")
    assert len(counts) == 129
    assert "others: 22" in counts
    followed = kernel.trace(callees=True)
    assert len(set(followed.code.function)) == count + 1
    assert "not_followed" not in followed.provenance.extra


def test_a_program_that_ends_inside_the_region_still_tells_what_it_called(tmp_path):
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        POINTED.replace("void f(void) {", "#include <stdlib.h>\n__attribute__((noipa)) void f(void) {").replace(
            "next(i); }", "next(i); exit(3); }"
        )
        + "int main(void) { f(); }\n"
    )
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True)
    trace = Tracer().run(program, "f")
    assert trace.provenance.extra["exit_status"] == "3"
    assert "onward: 9" in trace.provenance.extra["not_followed_calls"]


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
def test_qemu_names_and_counts_calls_too():
    source = GENERATED + POINTED.replace("long sum;", "").replace(
        "sum += next(i); }", "{ sum += next(i); sum += twice(i); } code = in_memory(7); run(3); }"
    )
    kernel = compile_kernel(source, "f", flags="-O1")
    cloned, emulated = kernel.trace(), kernel.trace(backend="qemu")
    for trace in (cloned, emulated):
        counts = trace.provenance.extra["not_followed_calls"].split(", ")
        assert {"onward: 9", "twice: 9", "run: 1", "in_memory: 1"} == set(counts)
    assert emulated.instruction_count == cloned.instruction_count


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
def test_qemu_refuses_code_that_changed():
    body = "code = in_memory(7); run(2); ((char *)code)[4] = 9; run(2);"
    kernel = compile_kernel(GENERATED + f"void f(void) {{ {body} }}", "f", flags="-O1")
    message = r"at 0x\w+ was 83c007 and later 83c009: self-modifying or generated code is not traced"
    with pytest.raises(DataError, match=message):
        kernel.trace(backend="qemu", callees=True)


@pytest.mark.parametrize(("flips", "refused"), [(1, True), (0, False)])
def test_code_that_changed_is_refused_when_the_limit_ends_the_trace(flips, refused):
    source = """
    #include <sys/mman.h>
    void f(long flips) {
        mprotect((char *)((unsigned long)&f & ~4095ul), 8192, 7);
        if (flips) ((volatile char *)&f)[40] ^= 1;
        for (volatile long i = 0;; i++);
    }
    """
    kernel = compile_kernel(source, "f", build="scalar")
    if refused:
        with pytest.raises(DataError, match="f changed its own code while it ran: self-modifying code is not traced"):
            kernel.trace(flips, limit=5000)
    else:
        assert kernel.trace(flips, limit=5000).provenance.stopped == "limit of 5000 instructions"


def test_places_in_memory():
    text = (
        "1000-2000 r-xp 00000000 00:00 0\n3000-4000 rwxp 00000000 00:00 0 [heap]\n"
        "5000-6000 r-xp 00000000 00:00 0 [vdso]\n7000-8000 r-xp 00001000 00:01 9 /lib/gone.so (deleted)\n"
        "9000-a000 r-xs 00000000 00:01 9 /dev/zero (deleted)\n"
    )
    maps = Maps(text, final=True)
    assert maps.place(0x1010).generated == "in anonymous memory, r-xp"
    assert maps.place(0x3010).generated == "in [heap], rwxp"
    assert maps.place(0x5010).name == "[vdso]+0x10"
    assert maps.place(0x5010).generated == ""
    assert maps.place(0x7010).name == "gone.so (deleted)+0x10"
    assert maps.place(0x9010).generated == "in /dev/zero (deleted), r-xs"
    assert maps.place(0xF010).generated == "in memory that is no longer mapped"
    # Before the end, a library may still be loaded there.
    assert Maps(text).place(0xF010).generated == ""
