"""Tracing programs and kernels: regions, limits, backends, and code that cannot be traced."""

import subprocess
import textwrap
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.kernels import compile_kernel, corpus, corpus_kernel
from perfkit.collectors.tracer.cloner import Child
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, FormatError, NeverCalledError, PerfkitWarning, SettingError, UnavailableError

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) long work(const long *x, long n) {
    long s = 0;
    for (long i = 0; i < n; i++) s = s * 31 + x[i];
    return s;
}
__attribute__((noipa)) void unused(void) { puts("never"); }
int main(int argc, char **argv) {
    long x[64], s = 0;
    for (int i = 0; i < 64; i++) x[i] = i * i;
    int calls = argc > 1 ? atoi(argv[1]) : 3;
    for (int k = 1; k <= calls; k++) s += work(x, 10 * k);
    printf("%ld\\n", s);
    return (unsigned long)s % 101;
}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Compile a program: build(source, *flags) -> path."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(source, *flags):
        path = folder / f"program{len(list(folder.iterdir()))}"
        text = path.with_suffix(".c")
        text.write_text(textwrap.dedent(source))
        subprocess.run(["gcc", "-O2", *flags, "-o", str(path), str(text)], check=True)
        return path

    return compile_program


def test_one_call_of_a_program(build):
    program = build(PROGRAM)
    trace = Tracer().run(program, "work", ["4"])
    assert trace.provenance.backend == "cloner"
    assert trace.provenance.kind == "recorded"
    assert trace.provenance.workload == program.name
    # The first call goes through ten elements: ten loads of 8 bytes, 8 bytes apart, then the return.
    assert trace.access_count == 11
    assert np.diff(trace.addresses[:10].astype(np.int64)).tolist() == [8] * 9
    assert set(trace.code.function) == {"work"}
    native = subprocess.run([program, "4"], capture_output=True, check=False)
    assert trace.provenance.extra["exit_status"] == str(native.returncode)


def test_a_recorded_call_leaves_every_register_that_it_does_not_write(tmp_path):
    """A compiler that sees what is called may keep values in those, too, which other calls may change."""
    kept = ("rbx", "rbp", "r12", "r13", "r14", "r15")
    all_of_them = ("rax", "rcx", "rdx", "rsi", "rdi", *(f"r{n}" for n in range(8, 12)), *kept)
    lines = [
        ".intel_syntax noprefix", ".data", "values: .quad 1, 2, 3", ".text", ".globl work, main",
        ".type work, @function", "work: lea rax, values[rip]", "mov rcx, [rax]", "add [rax + 8], rcx", "ret",
        ".size work, .-work", ".type main, @function", "main:", *(f"push {r}" for r in kept), "push 6", "again:",
        *(f"mov {r}, {1000 + k}" for k, r in enumerate(all_of_them)), "call work",
        *(f"cmp {r}, {1000 + k}\njne changed" for k, r in enumerate(all_of_them) if r not in ("rax", "rcx")),
        "dec qword ptr [rsp]", "jnz again", "xor eax, eax", "jmp end", "changed: mov eax, 3", "end: add rsp, 8",
        *(f"pop {r}" for r in reversed(kept)), "ret", ".size main, .-main", '.section .note.GNU-stack,"",@progbits',
    ]  # fmt: skip
    (tmp_path / "kept.s").write_text("\n".join(lines) + "\n")
    subprocess.run(["gcc", tmp_path / "kept.s", "-o", tmp_path / "kept"], check=True)
    assert subprocess.run([tmp_path / "kept"], check=False).returncode == 0
    trace = Tracer(repeat=4).run(tmp_path / "kept", "work")
    assert trace.provenance.extra["exit_status"] == "0"
    assert trace.access_count == 4 * 3, "a load, a load with its store, the return"


@pytest.mark.parametrize(("skip", "repeat", "loads"), [(0, 1, [10]), (1, 1, [20]), (1, 2, [20, 30]), (3, 9, [40])])
def test_skip_and_repeat_choose_the_calls(build, skip, repeat, loads):
    trace = Tracer(skip=skip, repeat=repeat).run(build(PROGRAM), "work", ["4"])
    assert trace.access_count == sum(loads) + len(loads)


TREE = """
#include <stdio.h>
#include <stdlib.h>
#if __cplusplus
#include <stdexcept>
#endif
__attribute__((noipa)) long tree(long depth) {
#if __cplusplus
    if (depth < 0) throw std::runtime_error("negative");
#endif
    if (depth == 0) return 1;
    long left = tree(depth - 1);
    return left + tree(depth - 1) + 1;
}
int main(int argc, char **argv) {
    long s = 0;
    for (int k = 0; k < 5; k++) s += tree(4 + k);
    printf("%ld\\n", s);
    return 0;
}
"""


@pytest.mark.parametrize(("compiler", "name"), [("gcc", "tree"), ("g++", "_Z4treel")])
@pytest.mark.parametrize("callees", [False, True])
def test_the_inner_calls_of_a_recursion_are_none_of_those_skipped_or_repeated(build, compiler, name, callees):
    cxx = ("-x", "c++", "-Wl,--no-as-needed", "-lstdc++") if compiler == "g++" else ()
    program = build(TREE, "-fno-optimize-sibling-calls", *cxx)

    def calls_of(skip, repeat=1):
        trace = Tracer(skip=skip, repeat=repeat, callees=callees, early=True).run(program, name)
        assert trace.provenance.complete
        starts = trace.code.pc[trace.code.block_start[:-1]] == trace.code.pc.min()
        return int(trace.block_counts()[starts].sum())

    whole = [2 ** (5 + k) - 1 for k in range(5)]  # nodes of a tree of so many levels
    assert [calls_of(skip) for skip in (0, 1, 4)] == [whole[0], whole[1], whole[4]]
    assert calls_of(2, repeat=2) == whole[2] + whole[3]
    with pytest.raises(DataError, match=r"5 times; the trace was to begin with call 6|called .* 5 times"):
        calls_of(5)


TURNS = """
#include <stdio.h>
#include <stdlib.h>
#define PART __attribute__((noipa)) static
long terms(const char **at);
PART long factor(const char **at) {
    if (**at == '(') { ++*at; long x = terms(at); ++*at; return x; }
    return strtol(*at, (char **)at, 10);
}
__attribute__((noipa)) long terms(const char **at) {
    long x = factor(at);
    while (**at == '+') { ++*at; x += factor(at); }
    return x;
}
PART long deeper(const char *text, long pad) {
    volatile long room[64];
    room[pad] = pad;
    long x = terms(&text);
    return x + room[pad];
}
int main(void) {
    const char *texts[] = {"1+(2+(3+4))", "((5))+6", "7", "(8+9)+(1+2)+3"};
    long s = 0;
    for (int k = 0; k < 4; k++) { const char *at = texts[k]; s += k & 1 ? deeper(at, k) : terms(&at); }
    printf("%ld\\n", s);
    return 0;
}
"""


def test_calls_of_a_recursion_by_turns_are_none_of_those_skipped_or_repeated(build):
    program = build(TURNS)

    def calls_of(skip, repeat=1):
        trace = Tracer(skip=skip, repeat=repeat, callees=True, early=True).run(program, "terms")
        names = np.array(trace.code.function)[trace.code.block_start[:-1]]
        pc = trace.code.pc[trace.code.block_start[:-1]]
        return int(trace.block_counts()[pc == pc[names == "terms"].min()].sum())

    assert [calls_of(skip) for skip in range(4)] == [3, 3, 1, 3]
    assert calls_of(0, repeat=4) == 10
    with pytest.raises(DataError, match="4 times"):
        calls_of(4)


FRAMES = """
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
#define PART __attribute__((noipa)) static
static jmp_buf out;
__attribute__((noipa)) long parse(const char *text) {
    long n = 0;
    while (*text) n += *text++ == 'x';
    if (n == 7) longjmp(out, 1);
    if (n == 5) fork();
    return n;
}
PART long from_word(const char *text) { return parse(text) + 1; }
PART long from_line(const char *text) {
    char line[4096];
    snprintf(line, sizeof line, "%s", text);
    return parse(line) + 1;
}
int main(void) {
    int parent = getpid(), status = 1;
    long s = from_word("x") + from_line("xx") + from_word("xxx") + from_line("xxxx") + from_word("xxxxx");
    if (getpid() != parent) _exit(s == 20 ? 0 : 1);
    wait(&status);
    if (!setjmp(out)) s += from_word("xxxxxxx");
    s += from_word("x") + from_line("xx") + from_word("xxx");
    printf("%ld\\n", s);
    return status != 0;
}
"""


def test_calls_of_callers_with_other_frames_and_after_long_jumps_and_forks_are_all_counted(build):
    program = build(FRAMES)

    def length(skip):
        return Tracer(skip=skip, early=True).run(program, "parse").access_count

    one = length(0)  # of one letter; each further one is a load more
    assert [length(skip) - one for skip in (1, 2, 3)] == [1, 2, 3]
    assert [length(skip) - one for skip in (6, 7, 8)] == [0, 1, 2]  # behind a fork and a long jump
    assert Tracer(skip=6).run(program, "parse").provenance.extra["exit_status"] == "0"  # the other process ended well
    with pytest.raises(DataError, match="9 times"):
        length(9)


JUMPS_IN_TURN = """
#include <stdio.h>
long odd(long n);
__attribute__((noipa)) long even(long n) { return n ? odd(n - 1) : 1; }
__attribute__((noipa)) long odd(long n) { return n ? even(n - 1) : 0; }
int main(void) { printf("%ld\\n", even(6) + even(8) + even(2)); return 0; }
"""


def test_functions_that_jump_to_each_other_at_their_ends_are_one_call(build):
    program = build(JUMPS_IN_TURN)

    def calls_of(skip):
        trace = Tracer(skip=skip, callees=True, early=True).run(program, "even")
        names = np.array(trace.code.function)[trace.code.block_start[:-1]]
        pc = trace.code.pc[trace.code.block_start[:-1]]
        return int(trace.block_counts()[pc == pc[names == "even"].min()].sum())

    assert [calls_of(skip) for skip in (0, 1, 2)] == [4, 5, 2]
    with pytest.raises(DataError, match="3 times"):
        calls_of(3)


def test_a_function_with_many_calls_of_itself_is_recorded(build):
    cases = "".join(f"case {k}: return walk(n - 1 - {k}) + {k}; " for k in range(200))
    text = (
        "__attribute__((noipa)) long walk(long n) { if (n <= 0) return 1; switch (n % 200) { " + cases + "} return 0; }"
    )
    program = build(f"#include <stdio.h>\n{text}\nint main(void) {{ return (walk(500) + walk(900)) & 1; }}\n")
    assert Tracer(skip=1, early=True).run(program, "walk").provenance.complete


def test_the_limit_ends_a_trace_at_a_whole_block():
    kernel = corpus_kernel("gemm", "scalar")
    whole = kernel.trace()
    cut = kernel.trace(limit=100_000)
    assert whole.provenance.complete
    assert not cut.provenance.complete
    assert cut.provenance.stopped == "limit of 100000 instructions"
    assert 100_000 - 20 < cut.instruction_count <= 100_000
    assert cut.stream.tolist() == whole.stream[: len(cut.stream)].tolist()
    shift = int(cut.code.pc[0]) - int(whole.code.pc[0])  # both may lie elsewhere
    pairs = zip(cut.addresses.tolist(), whole.addresses.tolist(), strict=False)
    assert {mine - its for mine, its in pairs if its < 0x7FFF_FF00_0000} == {shift}


def test_a_limit_beyond_the_first_buffer():
    """The block buffer grows while the kernel runs; nothing is lost where it grew."""
    kernel = compile_kernel("void f(long n) { for (volatile long i = 0; i < n; i++); }")
    trace = kernel.trace(100_000, limit=3_000_000)
    assert trace.provenance.complete
    counter = trace.code.to_frame().query("operands != ''")["pc"].size
    assert counter >= 3
    assert trace.block_counts().max() in (100_000, 100_001)
    endless = compile_kernel("void f(void) { for (volatile long i = 0;; i++); }").trace(limit=1_000_000)
    assert 999_000 < endless.instruction_count <= 1_000_000


MARKED = """
__attribute__((noipa)) void region_begins(void) { __asm__ volatile(""); }
__attribute__((noipa)) void region_ends(void) { __asm__ volatile(""); }
void f(const long *x, long *y) {
    for (long i = 0; i < 7; i++) y[0] += x[i];
    for (int k = 0; k < 3; k++) {
        region_begins();
        for (long i = 0; i < 4; i++) y[1] += x[i] * y[0];
        region_ends();
        for (long i = 0; i < 5; i++) y[2] ^= x[i];
    }
}
"""


def test_markers_bound_the_region():
    kernel = compile_kernel(MARKED, "f", flags="-O1")
    x, y = np.arange(9), np.zeros(3, dtype=np.int64)
    whole = kernel.trace(x, y)
    part = kernel.trace(x, y, begin="region_begins", end="region_ends")
    assert part.instruction_count < whole.instruction_count / 2
    assert part.provenance.extra["begin"] == "region_begins"
    # x's first four elements are read once in every round; the other loops read them, and more, as well.
    reads = [Counter(trace.addresses.tolist()) for trace in (whole, part)]
    elements = [a for a in reads[1] if all(reads[1][a + 8 * k] == 3 for k in range(4)) and reads[1][a + 32] == 0]
    assert len(elements) == 1
    # The two runs may lie at different addresses (a container may not switch randomisation off).
    assert [7, 7, 7, 7, 4, 1, 1] in [[reads[0][a + 8 * k] for k in range(7)] for a in reads[0]]
    with pytest.raises(
        DataError, match="never called the marker 'absent' directly; it calls: region_begins, region_ends"
    ):
        kernel.trace(x, y, begin="absent", end="region_ends")
    with pytest.raises(SettingError, match="both markers"):
        Tracer(begin="a")


def test_a_timeout_keeps_what_was_recorded():
    kernel = compile_kernel(
        "#include <unistd.h>\nvoid f(void) { for (volatile long i = 0; i < 9; i++) if (i == 5) sleep(60); }", "f"
    )
    with pytest.warns(PerfkitWarning, match="cut off by its timeout of 3 s"):
        trace = kernel.trace(timeout=3)
    assert trace.provenance.stopped == "timeout of 3 s"
    assert 10 < trace.instruction_count < 60


def test_arguments_of_all_kinds():
    source = """
    void axpy(double *y, const double *x, double a, long n, float b, const short *s) {
        for (long i = 0; i < n; i++) y[i] += a * x[i] + b * s[i];
        if (a != 2.5 || b != 1.5f || n != 16 || s[3] != 3 || x[2] != 7) __builtin_trap();
    }
    """
    x = np.full(16, 7.0)
    y = np.zeros(16)
    kernel = compile_kernel(source, build="scalar")
    trace = kernel.trace(y, x, 2.5, 16, np.float32(1.5), np.arange(16, dtype=np.int16))
    assert y.tolist() == [0] * 16  # inputs are copied
    assert trace.addresses[0] % 64 == 0
    assert "float64[16]" in trace.provenance.command
    with pytest.raises(SettingError, match="a number or a numpy array, not str"):
        kernel.trace("x")
    with pytest.raises(SettingError, match="arrays of object"):
        kernel.trace(np.array([None]))


def test_settings_are_checked():
    for settings, message in [
        ({"backend": "gdb"}, "unknown backend 'gdb'; known: auto, cloner, qemu"),
        ({"limit": 0}, "limit must be a whole number, 1 or more; found 0"),
        ({"skip": 1.5}, "skip"),
        ({"repeat": True}, "repeat"),
        ({"timeout": -1}, "timeout must be positive"),
    ]:
        with pytest.raises(SettingError, match=message):
            Tracer(**settings)


def test_a_missing_symbol_names_its_neighbours(build):
    program = build(PROGRAM)
    with pytest.raises(DataError, match=r"no function 'wrok' \(nearest: work") as missing:
        Tracer().run(program, "wrok")
    assert "c++filt" not in str(missing.value)  # it is C, whose names need none
    with pytest.raises(DataError, match="symbol table was stripped"):
        Tracer().run(build(PROGRAM, "-s"), "work")


def test_a_function_that_is_never_called(build):
    with pytest.raises(DataError, match="never called unused"):
        Tracer().run(build(PROGRAM), "unused")
    with pytest.raises(DataError, match="called work 2 times; the trace was to begin with call 6"):
        Tracer(skip=5).run(build(PROGRAM), "work", ["2"])


def test_files_that_are_no_programs(tmp_path, build):
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(FormatError, match=r"not an ELF program or library .a script"):
        Tracer().run(path, "main")
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        Tracer().run(tmp_path / "absent", "main")
    data = bytearray(build(PROGRAM).read_bytes())
    data[18] = 40
    path.write_bytes(data)
    with pytest.raises(FormatError, match="made for 32-bit ARM"):
        Tracer().run(path, "main")
    path.write_bytes(bytes(data[:4]) + b"\x01" + bytes(data[5:]))
    with pytest.raises(FormatError, match="only 64-bit little-endian"):
        Tracer().run(path, "main")
    path.write_bytes(build(PROGRAM).read_bytes()[:1000])
    with pytest.raises(FormatError, match=r"truncated|damaged"):
        Tracer().run(path, "work")
    with pytest.raises(DataError, match="is a library"):
        Tracer().run(build("void f(void) {}", "-shared", "-fPIC"), "f")


@pytest.mark.parametrize(
    ("body", "signal", "where"),
    [
        ("*(volatile int *)n = 1;", "SIGSEGV", "at address 0x10"),
        ("__builtin_trap();", "SIGILL", "in f"),
        ("n = 5 / (n - 16);", "SIGFPE", "in f"),
    ],
)
def test_a_crash_says_where(body, signal, where):
    kernel = compile_kernel(f"void f(volatile long n) {{ for (int i = 0; i < 9; i++) n += 0; {body} }}", build="scalar")
    with pytest.raises(DataError, match=f"crashed with {signal}.*{where}.*traced instructions"):
        kernel.trace(16)


def test_a_load_from_a_place_below_zero_is_recorded():
    """Compilers leave one where a pointer is null (`vector::back` by GCC 12), refused with an OverflowError."""
    asked = "if (n <= 0) return *(volatile int *)-4; "
    kernel = compile_kernel(f"long f(long n) {{ {asked}long s = 0; while (n--) s += n * s + 1; return s; }}")
    assert kernel.trace(16).instruction_count > 3 * 16
    with pytest.raises(DataError, match=r"crashed with SIGSEGV.*at address 0xf+c"):
        kernel.trace(0)


def test_a_crash_elsewhere_is_told_apart(build):
    source = PROGRAM.replace("return (unsigned", "abort(); return (unsigned")
    with pytest.raises(DataError, match="crashed with SIGABRT outside of work"):
        Tracer().run(build(source), "work")


def test_a_program_that_exits_inside_the_region(build):
    source = PROGRAM.replace("return s;", "if (n > 20) exit(7); return s;")
    trace = Tracer(repeat=9).run(build(source), "work")
    assert trace.provenance.extra["exit_status"] == "7"
    # Two whole calls, and the loads of the third; the block that called exit() never ended.
    assert trace.access_count >= 10 + 20 + 2 + 30


def test_writable_code_is_refused(build):
    source = PROGRAM.replace(
        "__attribute__((noipa)) long work", '__attribute__((noipa, section(".own,\\"awx\\"#"))) long work'
    )
    with pytest.raises(DataError, match="self-modifying or generated code"):
        Tracer().run(build(source), "work")


def test_code_that_changes_itself_is_refused():
    source = """
    #include <sys/mman.h>
    __attribute__((noipa)) int f(void) {
        char *here = (char *)((unsigned long)&f & ~4095ul);
        mprotect(here, 8192, 7);
        volatile char *last = (char *)&f + 40;
        *last = *last ^ 1;
        *last = *last ^ 0;
        return here[9];
    }
    """
    with pytest.raises(DataError, match="changed its own code"):
        compile_kernel(source, "f", build="scalar").trace()


def test_code_that_the_cloner_refuses_says_why(monkeypatch):
    kernel = compile_kernel('void f(char *p) { __asm__ volatile("xlatb" :: "b"(p), "a"(0)); }')
    with pytest.raises(DataError, match=r"cloner cannot trace f: it uses xlatb at .*backend='qemu'"):
        kernel.trace(np.zeros(300, dtype=np.int8), backend="cloner")
    with pytest.raises(UnavailableError, match=r"xlatb.*takes no arguments"):
        kernel.trace(np.zeros(300, dtype=np.int8))


def test_kernels_that_do_not_compile():
    with pytest.raises(DataError, match=r"gcc refuses the kernel.*\n.*error: expected"):
        compile_kernel("void f( { }")
    with pytest.raises(UnavailableError, match=r"no compiler 'gcc-1.0'"):
        compile_kernel("void f(void) {}", compiler="gcc-1.0")
    with pytest.raises(SettingError, match=r"2 that qualify \((f, g|g, f)\)"):
        compile_kernel("void f(void) {} void g(void) {}")
    with pytest.raises(SettingError, match="unknown build 'fast'; known: scalar, avx2, avx512"):
        compile_kernel("void f(void) {}", build="fast")
    with pytest.raises(SettingError, match="either a build or flags"):
        compile_kernel("void f(void) {}", build="avx2", flags="-O1")
    with pytest.raises(SettingError, match=r"no source file absent.c"):
        compile_kernel("absent.c")
    with pytest.raises(SettingError, match="no kernel 'gem' in the corpus"):
        corpus_kernel("gem")


def test_a_kernel_in_one_call():
    kernel = pk.collectors.compile_kernel("long f(long n) { return n * n; }", flags="-O2")
    trace = kernel.trace(7)
    assert trace.instruction_count == len(trace.code.text)
    assert any("imul" in text for text in trace.code.text)
    assert trace.provenance.flags == "-O2"
    assert "gcc" in trace.provenance.compiler.lower()


def test_the_corpus_is_complete():
    table = corpus()
    assert len(table) >= 40
    counts = table["group"].value_counts()
    assert counts["polybench"] == 30
    assert counts["gus-correlation"] == 7
    assert counts["bottleneck"] >= 10


def test_notebook_use_leaves_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel("int f(int n) { return n + 1; }").trace(1)


def test_what_is_missing_is_told(monkeypatch):
    kernel = compile_kernel("int f(int n) { return n + 1; }")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(DataError, match="cloner cannot trace f: this machine is aarch64"):
        kernel.trace(1, backend="cloner")


@pytest.mark.parametrize(
    ("calls", "told"),
    [(0, f"p never called f; {NeverCalledError.WHY}."), (1, "p called f once; the trace was to begin with call 3"),
     (2, "p called f 2 times; the trace was to begin with call 3"),
     (3, "nothing of f was recorded within the limit")],
)  # fmt: skip
def test_why_nothing_was_recorded(calls, told):
    job = SimpleNamespace(path=Path("/x/p"), function="f", first_call=3, after=0.0)
    child = SimpleNamespace(job=job, stopped="", _context=lambda _: calls, _output=lambda: "")
    assert Child._nothing(child) == told


def test_of_sections_with_entries_of_24_bytes_only_relocations_are_read(tmp_path):
    library = tmp_path / "a.so"
    (tmp_path / "a.c").write_text("int x; int *f(void) { return &x; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,now", tmp_path / "a.c", "-o", library], check=True)
    elf = ElfFile(library)
    relocations = list(elf._relocations())
    assert {section[1] for section, *_ in relocations} == {4}  # SHT_RELA
    assert not elf.is_program  # DT_FLAGS_1 says "bind now", and nothing of a program
    assert elf.without_pie_flag() == library.read_bytes()


TWO_PHASES = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static long turn(long s, long k) { return s * 31 + k; }
__attribute__((noipa)) long work(long turns) {
    long s = 1;
    volatile double first = 1;
    for (long k = 0; k < turns / 5; k++) first = first / 1.0001;
    for (long k = 0; k < turns * 12; k++) s = turn(s, k);
    return s;
}
int main(int argc, char **argv) {
    signal(SIGTRAP, exit);  // as gfortran's runtime does
    printf("%ld\\n", work(atol(argv[1])));
    return 3;
}
"""


def test_a_recording_may_begin_in_the_middle_of_a_call(build):
    """The second loop has begun, with what it calls; nothing of the first is recorded, and the limit holds."""
    trace = Tracer(after=0.5, limit=100_000, callees=True, timeout=60).run(build(TWO_PHASES), "work", ["50000000"])
    ran = trace.instruction_counts()
    assert not any(count for count, text in zip(ran, trace.code.text, strict=True) if text.startswith("divsd"))
    assert ran[[name == "turn" for name in trace.code.function]].max() > 5_000
    assert 99_000 < trace.instruction_count <= 100_000
    assert not trace.provenance.complete


def test_a_call_that_is_over_before_its_middle_goes_on_unharmed(build):
    """Recorded until the function returns, and the program goes on to its end with the result that it has alone."""
    program = build(TWO_PHASES)
    turns = "5000000"
    plain = subprocess.run([program, turns], capture_output=True, text=True, check=False)
    with pytest.raises(
        DataError, match=r"work did not run after 20.00 s of program.*It printed: " + plain.stdout.strip()
    ):
        Tracer(after=20, timeout=60).run(program, "work", [turns])
    trace = Tracer(after=0.03, limit=10**9, timeout=60).run(program, "work", [turns])
    assert trace.provenance.extra["exit_status"] == "3"
    assert 10**6 < trace.instruction_count < 6 * 10**8


def test_beginning_in_the_middle_excludes_what_counts_calls(build):
    for more in ({"skip": 1}, {"pinned": "x86-64-v3"}, {"backend": "qemu"}):
        with pytest.raises(SettingError, match="without skip, pinned or backend"):
            Tracer(after=0.1, **more)
    with pytest.raises(UnavailableError, match="records calls from their beginning on"):
        Tracer(after=0.1).run(build(TWO_PHASES, "-no-pie"), "work", ["10"])
