"""Whole programs: what each window starts from, how programs end, and figures of ones that run once."""

import statistics
import subprocess
from pathlib import Path

import pytest

from perfkit.collectors.host import toolchain
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.compile import build_window
from perfkit.study.study import Study

QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}

TELLS = """
#include <stdio.h>
#include <unistd.h>
static int set = N;
__attribute__((constructor)) static void tell(void) {
    FILE *log = fopen(LOG, "a");
    fprintf(log, "%d %p %p %d\\n", (int)getpid(), (void *)&set, (void *)&log, set++);
    fclose(log);
}
int main(void) { for (volatile int i = 0; i < 20000; i++) {} return set - N - 1; }
"""


@pytest.mark.measures
def test_each_window_is_a_process_with_the_program_elsewhere_that_runs_its_constructors_once(tmp_path):
    """Forked behind the load, windows had the loader's pages to copy, and branches that the last one had taught."""
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("the system is set to load all programs at the same addresses (kernel.randomize_va_space = 0)")
    log = tmp_path / "log.txt"
    study = Study(TELLS, {"N": [7]}, flags=[f"-O1 -DLOG='\"{log}\"'"], policy=QUICK)
    assert Microbenchmark(jobs=1).collect(study).table["status"].tolist() == ["ok"]
    told = [line.split() for line in log.read_text().splitlines()]
    assert len(told) >= 9  # three runs of three windows
    assert len({one[0] for one in told}) == len(told)
    assert {one[3] for one in told} == {"7"}
    for at in (1, 2):  # data and stack
        assert len({int(one[at], 16) >> 12 for one in told}) > len(told) / 2


ENDS = """
#include "perfkit.h"
#include <stdlib.h>
#include <unistd.h>
int main(void) {
#if WHAT == 0
    pk_start();
#endif
    for (volatile int i = 0; i < 20000; i++) {}
#if WHAT == 0
    pk_stop();
    _exit(0);
#elif WHAT == 1
    _exit(0);
#elif WHAT == 2
    execl("/bin/sh", "sh", "-c", "exit 0", (char *)0);
#elif WHAT == 3
    *(volatile int *)8 = 1;
#elif WHAT == 4
    char *memory = malloc((size_t)1 << 31);
    memory[5] = 1;
    *(volatile char *)memory = 2;
#elif WHAT == 5
    exit(0);
#endif
    return 0;
}
"""


@pytest.mark.measures
@pytest.mark.words
def test_ways_to_end_are_told_apart():
    study = Study(ENDS, {"WHAT": list(range(6))}, flags=["-O1"], limits={"memory": "1 GiB"}, policy=QUICK)
    table = Microbenchmark(jobs=1).collect(study).table.set_index("WHAT")
    assert table["status"].to_dict() == {0: "ok", 1: "failed", 2: "failed", 3: "failed", 4: "failed", 5: "ok"}
    for what in (1, 2):
        assert table["message"][what] == "the program ended by _exit, or became another one, before its region did"
    crash = "the program crashed: SIGSEGV (an access outside of its memory, or more stack than it has"
    limit = "or memory that the study's `limits` did not give it: 1,073,741,824 bytes"
    for what in (3, 4):
        assert table["message"][what] == f"{crash}; {limit})"


SORTS = """
BEGINS
static unsigned values[2000];
static void sort(int from, int to) {
    while (from < to) {
        unsigned middle = values[(from + to) / 2];
        int i = from, j = to;
        while (i <= j) {
            while (values[i] < middle) i++;
            while (values[j] > middle) j--;
            if (i <= j) { unsigned one = values[i]; values[i++] = values[j]; values[j--] = one; }
        }
        sort(from, j);
        from = i;
    }
}
int main(void) {
    unsigned random = N;
    for (int i = 0; i < 2000; i++) values[i] = (random = random * 1664525u + 1013904223u) >> 3;
    pk_start();
    sort(0, 1999);
    pk_stop();
    return values[0] > values[1999];
}
"""
BY_ITSELF = """
#include <stdio.h>
#include <x86intrin.h>
static unsigned long long begun;
static void pk_start(void) { _mm_lfence(); begun = __rdtsc(); _mm_lfence(); }
static void pk_stop(void) { _mm_lfence(); printf("%llu\\n", __rdtsc() - begun); }
"""


@pytest.mark.measures
def test_branches_of_a_program_are_as_unknown_as_in_one_that_runs_once(tmp_path):
    """A sort of 2,000 numbers took a quarter of its time in windows that were forked behind the load."""
    source = tmp_path / "sorts.c"
    source.write_text(SORTS.replace("BEGINS", BY_ITSELF).replace("= N", "= 7"))
    toolchain.run_tool(["cc", "-O2", str(source), "-o", str(tmp_path / "sorts")])
    took = sorted(int(subprocess.run([tmp_path / "sorts"], capture_output=True, check=True).stdout) for _ in range(60))
    row = (
        Microbenchmark(jobs=1)
        .collect(Study(SORTS.replace("BEGINS", '#include "perfkit.h"'), {"N": [7]}, flags=["-O2"]))
        .table
    )
    here = row["tsc"].iloc[0]
    assert statistics.mean(took[3:10]) * 0.85 < here < statistics.mean(took[3:10]) * 1.15


OWN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "perfkit.h"
static int n;
__attribute__((constructor)) static void begin(int count, char **words) { n = count > 1 ? atoi(words[1]) : 0; }
static void work(long turns) { for (volatile long i = 0; i < turns; i++) {} }
static void later(void) { work(500000); }
#if WHAT == 1
static long taken;
void *malloc(size_t size) {
    static char room[1 << 20];
    static size_t at;
    taken++;
    at += (size + 15) & ~(size_t)15;
    return room + at - ((size + 15) & ~(size_t)15);
}
void free(void *at) { (void)at; }
#endif
int main(void) {
#if WHAT == 0
    return n != 100;
#elif WHAT == 1
    char *copy = strdup("a string that is copied");
    return taken == 0 || copy == NULL;
#elif WHAT == 2
    atexit(later);
    work(2000);
    exit(0);
#elif WHAT == 3
    pk_start();
    work(2000);
    if (fork() == 0) { pk_stop(); exit(0); }
    wait(NULL);
    pk_stop();
    return 0;
#elif WHAT == 4
    return getenv("PERFKIT_WINDOW") != NULL;
#endif
}
"""


@pytest.mark.measures
def test_a_program_is_an_executable_as_its_user_would_make_it():
    """As a library in a running process, constructors had other arguments, and its end counted."""
    study = Study(OWN, {"WHAT": list(range(5))}, arguments=["100"], flags=["-O1 -fno-builtin"], policy=QUICK)
    table = Microbenchmark(jobs=1).collect(study).table.set_index("WHAT")
    assert [told for told in table["message"] if "the program" in told and "gave the processor up" not in told] == []
    assert table["status"].to_dict() == dict.fromkeys(range(5), "ok")
    assert table["cycles"][2] < 100_000  # what it left for its end takes at least half a million


FAULTS = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
static long faults(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}
int main(void) {
    char text[100];
    long before = faults();
    snprintf(text, sizeof text, "%f", WHICH / 3.0);
    double back = strtod(text, NULL);
    return (int)(faults() - before) + (back < 0) + 100;
}
"""


@pytest.mark.measures
def test_pages_of_the_c_library_are_as_new_as_in_a_program_that_runs_by_itself(tmp_path):
    source = tmp_path / "faults.c"
    source.write_text(FAULTS)
    toolchain.run_tool(["cc", "-O1", "-DWHICH=10", str(source), "-o", str(tmp_path / "faults")])
    alone = {subprocess.run([tmp_path / "faults"]).returncode for _ in range(100)}
    row = Microbenchmark(jobs=1).collect(Study(FAULTS, {"WHICH": [10]}, flags=["-O1"], policy=QUICK)).table.iloc[0]
    assert min(alone) > 101
    assert int(row["message"].removeprefix("the program returned ")) in alone


THREAD_LOCAL = """
#include "perfkit.h"
static WHERE long sums[8];
int main(void) {
    pk_start();
    for (long i = 0; i < 20000; i++) {
        sums[i & 7] += i;
        __asm__ volatile("" : : : "memory");
    }
    pk_stop();
    return 0;
}
"""


@pytest.mark.measures
@pytest.mark.parametrize("flags", ["-O2", "-O2 -static", "-O2 -no-pie", "-O2 -flto", "-O2 -s"])
def test_programs_are_linked_as_their_flags_ask(flags):
    study = Study(THREAD_LOCAL, {"WHERE": ["", "_Thread_local"]}, flags=[flags], policy=QUICK)
    table = Microbenchmark(jobs=1).collect(study).table
    assert table["status"].tolist() == ["ok", "ok"]
    plain, local = table["cycles"]
    assert local < 1.5 * plain  # through a call per access, as in a library, 2.4 times


def test_what_runs_a_program_takes_no_name_from_it(tmp_path):
    """Functions of one name would be disassembled as one."""
    listed = toolchain.run_tool(["nm", "--defined-only", str(build_window(tmp_path))]).stdout
    names = {line.split()[2] for line in listed.splitlines() if not line.split()[2].startswith((".L", "pk_own_"))}
    assert names == {"pk_start", "pk_stop", "__wrap_main", "__wrap_exit"}
