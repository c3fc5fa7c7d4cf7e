"""Calls that are timed one by one in a program that runs as it is: whose calls, and what is left behind."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.timed import time_calls
from perfkit.collectors.tracer.tracer import Tracer

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64" or shutil.which("gcc") is None, reason="needs gcc on x86-64"
)
THREADS = """
    #include <pthread.h>
    long sums[2];
    __attribute__((noipa)) void work(long k) { for (long i = 0; i < 100; i++) sums[k] += i; }
    static void *run(void *p) { for (int i = 0; i < 7; i++) work(1); return p; }
    int main(void) {
        pthread_t t;
        work(0); work(0); work(0);
        pthread_create(&t, 0, run, 0);
        pthread_join(t, 0);
        work(0); work(0);
        return 0;
    }
"""


def open_pipes() -> set[str]:
    """Return the pipes and files in memory that this process holds."""
    held = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return {each for each in held if each.startswith(("pipe:", "/memfd:"))}


def test_calls_of_other_threads_are_counted_and_not_timed_and_nothing_stays_open(tmp_path):
    (tmp_path / "threads.c").write_text(THREADS)
    program = tmp_path / "threads"
    subprocess.run(["gcc", "-O1", "-pthread", tmp_path / "threads.c", "-o", program], check=True)
    before = open_pipes()
    found = time_calls(program, "work", seconds=10)
    assert (found.calls, len(found.ticks), found.others) == (5, 5, 7)
    assert open_pipes() <= before


DECAYS = """
    #include <stdlib.h>
    double x[64];
    __attribute__((noipa)) void scale(double by) { for (int i = 0; i < 64; i++) x[i] *= by; }
    int main(int argc, char **argv) {
        for (int i = 0; i < 64; i++) x[i] = atof(argv[1]);
        for (int k = 0; k < 20; k++) scale(0.5);
        return 0;
    }
"""


@pytest.mark.parametrize(("first", "met"), [("1e-307", True), ("1e-290", False), ("0", False), ("1e-320", True)])
def test_numbers_below_the_normal_range_are_noticed(tmp_path, first, met):
    """The least normal number is 2.2e-308: halving 1e-307 twenty times leaves it."""
    (tmp_path / "decays.c").write_text(DECAYS)
    subprocess.run(["gcc", "-O1", tmp_path / "decays.c", "-o", tmp_path / "decays"], check=True)
    assert time_calls(tmp_path / "decays", "scale", [first], seconds=10).subnormal == met


TOUCHES = """
    #include <stdlib.h>
    __attribute__((noipa)) void touch(volatile char *p, long n) { for (long k = 0; k < n; k++) p[4096 * k] = 1; }
    int main(int argc, char **argv) {
        long pages = atol(argv[1]);
        char *p = aligned_alloc(1 << 21, 8L << 20);
        for (int k = 0; k < 4; k++) touch(p, pages);
        return 0;
    }
"""


@pytest.mark.parametrize("pages", [0, 500])
def test_pages_that_the_first_call_touches_fall_to_it(tmp_path, pages):
    """The kernel may give several pages at a time, but the 2 MiB take one fault, and later calls hardly any."""
    (tmp_path / "touches.c").write_text(TOUCHES)
    subprocess.run(["gcc", "-O1", tmp_path / "touches.c", "-o", tmp_path / "touches"], check=True)
    found = time_calls(tmp_path / "touches", "touch", [str(pages)], seconds=10)
    assert found.calls == 4
    first, second = found.faults_begun
    assert 0 < first <= second <= found.faults
    assert (second - first > 0) == (pages > 0)
    assert found.faults - second <= 50


REGISTERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", *(f"r{n}" for n in range(8, 16)))


@pytest.mark.parametrize("leaves", [False, True])
def test_a_call_leaves_every_register_as_it_was(tmp_path, leaves):
    """A compiler that sees what is called may keep values in those, too, which other calls may change.

    A call may also be left without a return, as by an exception: the next one finds that out.
    """
    ends = ("add rsp, 8", "jmp behind") if leaves else ("ret",)
    kept = ("rbx", "rbp", "r12", "r13", "r14", "r15")
    lines = [
        ".intel_syntax noprefix", ".bss", "deep: .long 0", ".text", ".globl work, main", ".type work, @function",
        "work: inc dword ptr deep[rip]", "cmp dword ptr deep[rip], 1", "jne inner", "call work",
        "inner: dec dword ptr deep[rip]", "cmp dword ptr deep[rip], 0", "je last", "ret", "last:", *ends,
        ".size work, .-work", ".type main, @function", "main:", *(f"push {r}" for r in kept), "push 6",
        "again:", *(f"mov {r}, {1000 + k}" for k, r in enumerate(REGISTERS)), "call work", "behind:",
        *(f"cmp {r}, {1000 + k}\njne changed" for k, r in enumerate(REGISTERS)),
        "dec qword ptr [rsp]", "jnz again", "xor eax, eax", "jmp end", "changed: mov eax, 3", "end: add rsp, 8",
        *(f"pop {r}" for r in reversed(kept)), "ret", ".size main, .-main", '.section .note.GNU-stack,"",@progbits',
    ]  # fmt: skip
    (tmp_path / "kept.s").write_text("\n".join(lines) + "\n")
    subprocess.run(["gcc", tmp_path / "kept.s", "-o", tmp_path / "kept"], check=True)
    assert subprocess.run([tmp_path / "kept"], check=False).returncode == 0
    assert time_calls(tmp_path / "kept", "work", seconds=10).calls == 6, "it stops at the first call that changes one"


RECURSIVE = """
    #include <stdio.h>
    #include <x86intrin.h>
    __attribute__((noipa)) long fib(long n) {
        if (n < 2) return n;
        long a = fib(n - 1);
        asm volatile("" : "+r"(a));
        return a + fib(n - 2);
    }
    int main(void) {
        unsigned long least = -1ul, from;
        for (int k = 0; k < 300; k++) {
            from = __rdtsc();
            if (fib(20) != 6765) return 3;
            if (__rdtsc() - from < least) least = __rdtsc() - from;
        }
        FILE *file = fopen("ticks", "w");
        fprintf(file, "%lu", least);
        return fclose(file);
    }
"""


def test_inner_calls_of_a_recursion_do_not_pass_the_clock(tmp_path, monkeypatch):
    """21,891 calls in one: the stub that each passed was half of what was measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fib.c").write_text(RECURSIVE)
    subprocess.run(["gcc", "-O2", tmp_path / "fib.c", "-o", tmp_path / "fib"], check=True)
    ratios = []
    for _ in range(3):  # of both the least counts, but the clock rate may change between them
        found = time_calls(tmp_path / "fib", "fib", seconds=20)
        assert (found.calls, len(found.ticks), found.ended) == (300, 300, "")
        timed = int(found.ticks.min())  # by the clock within the program, with the stub around its call
        inside = int((tmp_path / "ticks").read_text())
        subprocess.run([tmp_path / "fib"], check=True)
        ratios.append(timed / min(inside, int((tmp_path / "ticks").read_text())))
    assert min(ratios) < 1.2, ratios


CATCHES = """
    #include <stdexcept>
    extern "C" __attribute__((noipa)) long rec(long n, long k) {
        if (n == 0) { if (k % 3) throw std::runtime_error("3"); return k; }
        long sum = 0;
        for (long i = 0; i < 3; i++) {
            try { sum += rec(n - 1, k + i); } catch (std::runtime_error &) { sum += 100; }
        }
        return sum;
    }
"""


def test_exceptions_pass_inner_calls_of_a_recursion(tmp_path):
    """Nothing that is copied has a table that tells how to unwind it."""
    (tmp_path / "lib.cpp").write_text(CATCHES)
    (tmp_path / "main.c").write_text(
        "long rec(long, long);\n"
        "int main(void) { for (int k = 0; k < 5; k++) if (rec(4, 1) != 5535) return 4; return 0; }"
    )
    library = tmp_path / "librec.so"
    subprocess.run(
        ["g++", "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic", tmp_path / "lib.cpp", "-o", library], check=True
    )
    command = ["gcc", "-O2", tmp_path / "main.c", library, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    subprocess.run([tmp_path / "main"], check=True)
    found = time_calls(tmp_path / "main", "rec", library=str(library), seconds=20)
    assert (found.calls, len(found.ticks), found.ended) == (5, 5, "")


def test_an_exception_of_a_timed_call_reaches_its_caller(tmp_path):
    """It passes the stub before the function, which no table of the program's describes."""
    (tmp_path / "throws.cpp").write_text(
        """
        #include <stdexcept>
        __attribute__((noipa)) long work(long k) { if (k % 2) throw std::runtime_error("odd"); return k; }
        int main(void) {
            long caught = 0, sum = 0;
            for (long k = 0; k < 9; k++) {
                try { sum += work(k); } catch (std::runtime_error &) { caught++; }
            }
            return caught == 4 && sum == 20 ? 0 : 3;
        }
        """
    )
    subprocess.run(["g++", "-O2", tmp_path / "throws.cpp", "-o", tmp_path / "throws"], check=True)
    subprocess.run([tmp_path / "throws"], check=True)
    found = time_calls(tmp_path / "throws", "work", seconds=10)
    assert (found.calls, found.ended) == (9, "")


CONSTRUCTED = {
    # The type of what is thrown, and the type of the facets that the streams ask for, are copies in the program.
    "throws": """
        #include <stdexcept>
        long known;
        struct Begins {
            Begins() { try { throw std::out_of_range("x"); } catch (const std::out_of_range &) { known = 5; } }
        };
        static Begins begins;
    """,
    "streams": """
        #include <iostream>
        #include <regex>
        long known = std::regex_match("abcbcd", std::regex("a(b|c)*d")) ? 5 : 0;
    """,
    "in_order": """
        #include <stdexcept>
        long known = 2;
        void never(void) { throw std::out_of_range("x"); }
        __attribute__((constructor(300))) void then(int, char **words, char **all) {
            known += known == 3 && words && all ? 2 : 0;
        }
        __attribute__((constructor(200))) void first(void) { known += 1; }
    """,
}


@pytest.mark.parametrize("kind", CONSTRUCTED)
def test_constructors_find_the_types_that_the_program_copies(tmp_path, kind):
    """They ran while the program was loaded, before anything was copied: a call of nothing."""
    source = tmp_path / "begins.cpp"
    source.write_text(
        CONSTRUCTED[kind]
        + """
        __attribute__((noipa)) long work(long k) { return k + known; }
        int main() { long sum = 0; for (long k = 0; k < 9; k++) sum += work(k); return sum == 36 + 9 * 5 ? 0 : 3; }
        """
    )
    subprocess.run(["g++", "-O2", source, "-o", tmp_path / "begins"], check=True)
    subprocess.run([tmp_path / "begins"], check=True)
    assert ElfFile(tmp_path / "begins").copied
    found = time_calls(tmp_path / "begins", "work", seconds=10)
    assert (found.calls, found.ended) == (9, "")
    trace = Tracer().run(tmp_path / "begins", "work")
    assert trace.provenance.extra["exit_status"] == "0"


FLUSHES = DECAYS.replace("#include <stdlib.h>", "#include <stdlib.h>\n    #include <xmmintrin.h>").replace(
    "for (int k", "_MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON); for (int k"
)


def test_results_that_are_flushed_to_zero_are_no_subnormal_ones(tmp_path):
    (tmp_path / "flushes.c").write_text(FLUSHES)
    subprocess.run(["gcc", "-O1", tmp_path / "flushes.c", "-o", tmp_path / "flushes"], check=True)
    assert not time_calls(tmp_path / "flushes", "scale", ["1e-307"], seconds=10).subnormal


LENGTHS = """
    #include <stdlib.h>
    double x[4096];
    __attribute__((noipa)) void work(long n) { for (long i = 0; i < n; i++) x[i] += i; }
    int main(int argc, char **argv) {
        for (long k = 0; k < 20000000; k++) work(k % 50 ? atol(argv[1]) : atol(argv[2]));
        return 0;
    }
"""


@pytest.mark.parametrize(("most", "others", "brief"), [("8", "8", True), ("8", "4000", True), ("2000", "8", False)])
def test_a_run_ends_as_soon_as_half_of_many_calls_are_shorter_than_what_is_asked(tmp_path, most, others, brief):
    (tmp_path / "lengths.c").write_text(LENGTHS)
    subprocess.run(["gcc", "-O1", tmp_path / "lengths.c", "-o", tmp_path / "lengths"], check=True)
    found = time_calls(tmp_path / "lengths", "work", [most, others], seconds=1, least=200)
    assert found.brief == brief
    assert found.ended.startswith("stopped") == (not brief)  # twenty million calls take longer than a second
    assert not time_calls(tmp_path / "lengths", "work", [most, others], seconds=0.2).brief


COUNTS = """
    #include <stdio.h>
    int main(void) { int c; long n = 0; while ((c = getc(stdin)) != EOF) n += c == '\\n'; return !n; }
"""


def test_what_python_does_unbuffered_the_program_does_not(tmp_path, monkeypatch):
    """With PYTHONUNBUFFERED, as in many containers, each byte was a system call: 3 s did not do for 4 million."""
    (tmp_path / "counts.c").write_text(COUNTS)
    (tmp_path / "words.txt").write_text("a line of text\n" * 20_000)
    subprocess.run(["gcc", "-O1", tmp_path / "counts.c", "-o", tmp_path / "counts"], check=True)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    found = time_calls(tmp_path / "counts", "main", stdin=tmp_path / "words.txt", seconds=20)
    assert found.ended == ""
    assert found.cycles[0] < 200 * 300_000  # about 20 for a character; a system call takes more than 500
