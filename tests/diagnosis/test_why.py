"""From a program to its answer."""

import json
import re
import shlex
import subprocess
import sys

import pytest

import perfkit as pk
from perfkit.errors import DataError
from tests.diagnosis.programs import CHAIN, compiled, needed

pytestmark = needed


@pytest.fixture(scope="module")
def chain():
    return compiled("chain", CHAIN)


@pytest.fixture(scope="module")
def answer(chain):
    return pk.why(chain, arguments=["20000"], seconds=2)


def test_finds_the_hot_function_its_bottleneck_and_its_line(answer):
    assert answer.function == "solve"
    assert answer.candidates[0].symbol == "solve"
    assert answer.chosen == "the hottest function"
    assert answer.bottleneck == "instruction_latency"  # a chain of additions by construction
    top = answer.lines.iloc[0]
    assert top["place"] == "chain.c:7"
    assert top["source_line"] == "s += a[i];"
    assert "chain.c:7 (s += a[i];)" in answer.headline()


def test_whole_calls_are_recorded_and_each_executes_the_same(answer):
    trace = answer.result.trace
    assert trace.provenance.complete
    # Four instructions a turn, 2,000 turns; a few before and after.
    calls = answer.measured.calls if answer.measured else round(trace.instruction_count / 8000)
    assert abs(trace.instruction_count / calls - 8000) < 20


def test_what_was_not_recorded_is_said(answer):
    assert any("of 20,000 calls" in each for each in answer.unseen)


def test_addresses_are_those_that_objdump_prints(answer, chain):
    listing = subprocess.run(["objdump", "-d", str(chain)], capture_output=True, text=True, check=True).stdout
    addresses = answer.result.trace.object_addresses()
    for address, code in zip(addresses.tolist(), answer.result.trace.code.encoding, strict=True):
        assert f"{address:x}:\t{code.hex(' ')}" in listing
    table = answer.listing()
    assert table["pc"].tolist() == addresses.tolist()
    jump = next(text for text in table["text"] if text.startswith("j"))
    assert int(jump.split()[-1], 16) in addresses, "where it jumps to is one of them"


def test_an_answer_is_saved_and_loaded(answer, tmp_path):
    again = pk.Diagnosis.load(answer.save(tmp_path / "answer"))
    assert again.summary() == answer.summary()
    assert pk.GusResult.load(tmp_path / "answer").cycles == answer.result.cycles


def test_a_function_that_is_not_the_hot_one_can_be_asked_for(chain):
    found = pk.why(chain, "other", ["3000"], seconds=1)
    assert found.function == "other"
    assert found.lines.iloc[0]["function"] == "other"


def test_a_misspelt_name_is_refused_with_the_nearest(chain):
    with pytest.raises(DataError, match=r"no function 'slove' in chain.*nearest: solve"):
        pk.why(chain, "slove", ["3000"], seconds=1)


def test_the_command_answers_first_and_prints_json(chain):
    words = [sys.executable, "-m", "perfkit", "why", str(chain), "--timeout", "1", "--json", "--", "2000"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["function"] == "solve"
    assert found["bottleneck"] == "instruction_latency"
    assert "perfkit: finding the hot function" in done.stderr


TEAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static double out[2];
__attribute__((noipa)) double solve(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += x[i];
    return s;
}
static void *work(void *number) {
    long k = (long)number;
    double *x = calloc(6000, 8);
    for (int r = 0; r < 20000; r++) out[k] += solve(x, 2000 + 2000 * k);
    return 0;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, work, (void *)1);
    work(0);
    pthread_join(other, 0);
    printf("%g\\n", out[0] + out[1]);
}
"""


def test_a_function_in_several_threads_is_explained_by_the_slowest_and_says_so():
    """Threads with 2,000 and 4,000 additions in a chain of equal latency: the slowest takes 4/3 of the mean."""
    found = pk.why(compiled("my team", TEAM, "-pthread", "-fno-tree-vectorize"), "solve", seconds=1)
    assert "solve runs in 2 threads, and this explains thread" in found.headline()
    assert found.result.instructions > 4 * 3500
    assert found.measured is None
    assert "several threads" in found.not_measured
    assert any("imbalance 1.3" in line for line in found.threads)
    assert "/my team' -f solve --threads -o all.threads, then" in found.threads[-1], "a command that can be pasted"
    assert "threads (simulated)" in found.report()
    assert found.to_dict()["threads"] == list(found.threads)


LOOPS = """
#include <stdio.h>
static double x[8000], y[8000];
__attribute__((noipa)) void solve(void) {
    #pragma omp parallel for num_threads(2)
    for (int i = 0; i < 8000; i++) for (int k = 0; k < 20; k++) y[i] = y[i] * 0.5 + x[i];
}
int main(void) {
    for (int k = 0; k < 3000; k++) solve();
    printf("%g\\n", y[1]);
}
"""


def test_loops_of_openmp_say_that_one_thread_was_looked_at_and_how_even_they_are(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    found = pk.why(compiled("loops", LOOPS, "-fopenmp"), seconds=1)
    assert "runs in 2 threads, and this explains a run with one thread" in found.headline()
    assert any("imbalance 1.0" in line for line in found.threads)


LONG = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) long run(double *a, unsigned *next, long n, long steps) {
    for (long k = 0; k < 400; k++)
        for (long i = 0; i < n; i++) a[i] = a[i] * 0.5 + k;
    unsigned at = 1;
    for (long k = 0; k < steps; k++) {
        at = next[at] ^ (k & 7);
    }
    return at;
}
int main(int argc, char **argv) {
    long n = 1 << 20;
    double *a = calloc(n, 8);
    unsigned *next = malloc(4 * n);
    for (long i = 0; i < n; i++) next[i] = (i * 16807ul + 12345) & (n - 1);
    printf("%ld\\n", run(a, next, n, atol(argv[1])));
}
"""


@pytest.fixture(scope="module")
def long():
    """One call: 3 G instructions that prepare, then a walk from place to place in 4 MiB, for most of the time."""
    return pk.why(compiled("long", LONG), arguments=["30000000"])


def test_a_long_call_is_explained_by_what_runs_in_the_middle_of_its_time(long):
    assert long.line["source_line"] == "at = next[at] ^ (k & 7);"
    assert any(
        each.startswith("the rest of the call") and "what is explained ran after" in each for each in long.unseen
    )
    # Whatever the core: half a million addresses of the last 27 million instructions lie in a cache of 4 MiB.
    assert "L3" in long.headline() or "L2" in long.headline()
    assert "memory" not in long.bottleneck.lower()


def test_what_nobody_counted_is_not_measured(long):
    """On a busy machine recording may end before 30 million instructions, and what is not known is not claimed."""
    ran_on = any("which is longer than 30,000,000 instructions" in each for each in long.unseen)
    what = "one call is longer than 30,000,000 instructions" if ran_on else "a part of one call is recorded"
    how = "how long nobody counted" if ran_on else "how long that is nobody counted"
    assert long.measured is None
    assert long.not_measured == f"{what}, and {how}"


WORK = """
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static double a[4000];
__attribute__((noipa)) double work(const double *x, long n) {
    double s = 1;
    for (long r = 0; r < 60000; r++)
        for (long i = 0; i < n; i++) s = s * 0.5 + x[i];
    return s;
}
"""
IN_A_CHILD = """
int main(void) {
    if (fork() == 0) { printf("%g\\n", work(a, 4000)); fflush(stdout); _exit(0); }
    return wait(0) < 0;
}
"""
ITSELF = 'int main(void) { printf("%g\\n", work(a, 4000)); return 0; }'
STARTS = """
#include <unistd.h>
int main(int n, char **words) { return execv(words[1], words + 1) + n; }
"""


@pytest.mark.parametrize("asked", ["", "work"])
def test_a_function_that_a_forked_process_calls_is_said_to_be_there(asked):
    program = compiled("forks", WORK + IN_A_CHILD)
    with pytest.raises(DataError, match=r"work has \d+% of the run, and the process of forks that was started never"):
        pk.why(program, asked, seconds=1)


@pytest.mark.parametrize("asked", ["", "work"])
def test_a_function_of_another_program_is_asked_about_there(asked):
    program, other = compiled("starts", STARTS), compiled("works", WORK + ITSELF)
    with pytest.raises(
        DataError, match=rf"a program that starts starts: .*perfkit why {re.escape(shlex.quote(str(other)))} -f work"
    ):
        pk.why(program, asked, [str(other)], seconds=1)


BESIDE = """
#include <stdio.h>
#define ONCE k = 1.0 / (k + 1.0);
__attribute__((noipa)) double divide(double k) { ONCE ONCE ONCE ONCE ONCE ONCE ONCE ONCE ONCE ONCE return k; }
int main(void) {
    double s = 0;
    for (long i = 0; i < 24000000; i++) s += divide(1.5);
    printf("%g\\n", s);
}
"""


def test_calls_that_run_beside_each_other_are_explained_in_the_loop_that_makes_them(monkeypatch):
    """Each is a chain, and several are on their way at once: the divider is what they wait for."""
    monkeypatch.setattr("perfkit.diagnosis.why._COUNTABLE", 0.0)  # a call that is too long to be counted
    found = pk.why(compiled("beside", BESIDE), seconds=2)
    assert found.function == "main"
    assert "divisions" in found.headline(), found.headline()
    assert found.chosen.startswith("it calls divide, the hottest function, whose calls are too short")
    if found.profiled.endswith("perf, software clock"):
        assert found.measured is not None, (found.not_measured, found.unseen)
        assert found.measured.samples >= 100
        # Beside a busy thread the run takes up to twice as long.
        assert -0.6 < found.apart < 0.5, found.summary()
        assert f"about: {found.measured.samples:,} samples of the run" in found.report()


JUMPS = r"""
#include <setjmp.h>
#include <stdio.h>
static jmp_buf env;
__attribute__((noipa)) void depth(int n, volatile long *s) {
    *s += n;
    if (n == 0) longjmp(env, 1);
    depth(n - 1, s);
    *s -= 1;
}
__attribute__((noipa)) long attempt(int n) {
    volatile long s = 0;
    if (setjmp(env) == 0) depth(n, &s);
    return s;
}
int main(void) {
    long s = 0;
    for (int i = 0; i < 20000; i++) s += attempt(50 + i % 3);
    printf("%ld\n", s);
}
"""
RETURNS = JUMPS.replace("if (n == 0) longjmp(env, 1);", "if (n == 0) return;")


def test_calls_that_longjmp_leaves_are_doubted_and_measured_and_simulated_calls_are_as_many():
    """2,905 calls were set against one: the first was recorded, and all others were taken for calls within it."""
    found = pk.why(compiled("jumps", JUMPS), "depth")
    assert "its calls do not return one by one (longjmp" in found.doubt
    assert found.measured is None or found.measured.calls == 1
    assert "do not return one by one" in found.headline()
    believed = next(each for each in found.opinions if each.method == "believe")
    assert "measured runs disagree" not in believed.says


def test_a_recursion_that_returns_is_not_doubted_so():
    found = pk.why(compiled("returns", RETURNS), "depth")
    assert "one by one (longjmp" not in found.doubt
    assert found.measured is None or found.measured.calls > 1


ADJACENT = """
.intel_syntax noprefix
.globl main, f, g
.type f, @function
.type g, @function
.type main, @function
g: lea rax, [rdi + 1]
   ret
.size g, .-g
f: mov eax, 400
1: imul rdi, rdi
   dec eax
   jnz 1b
   jmp g
.size f, .-f
main: push rbx
   mov ebx, 60000
2: mov edi, ebx
   call f
   dec ebx
   jnz 2b
   xor eax, eax
   pop rbx
   ret
.size main, .-main
.section .note.GNU-stack,"",@progbits
"""


def test_a_function_that_ends_where_another_begins_does_not_fall_into_it(tmp_path):
    """`f` goes on in `g`, whose last byte lies before f's first: 60,000 calls were taken for one and its inner ones."""
    (tmp_path / "adjacent.s").write_text(ADJACENT)
    program = tmp_path / "adjacent"
    subprocess.run(["gcc", "-o", program, tmp_path / "adjacent.s"], check=True)
    found = pk.why(program, "f")
    assert "one by one" not in found.doubt
    assert found.measured is None or found.measured.calls > 1
