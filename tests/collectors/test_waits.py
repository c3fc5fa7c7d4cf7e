"""What a run waits for, and that it is said where nothing else of a program is seen."""

import os
import subprocess

import pytest

from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.profile.waits import WAITS, Waits, waits_of

WAITING = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *holds(void *unused) { pthread_mutex_lock(&lock); usleep(600000); pthread_mutex_unlock(&lock); return 0; }
int main(int n, char **words) {
    char text[1000];
    const char *what = words[1];
    if (!strcmp(what, "pipe")) { FILE *p = popen("sleep 0.6; echo 1", "r"); fgets(text, sizeof text, p); pclose(p); }
    if (!strcmp(what, "sleep")) usleep(600000);
    if (!strcmp(what, "process")) { if (!fork()) { usleep(600000); _exit(0); } wait(0); }
    if (!strcmp(what, "lock")) {
        pthread_t other;
        pthread_create(&other, 0, holds, 0);
        usleep(20000);
        pthread_mutex_lock(&lock);
    }
    if (!strcmp(what, "work")) for (volatile long k = 0; clock() < CLOCKS_PER_SEC / 3; k++);
    return 0;
}
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """A program that waits for what it is told."""
    folder = tmp_path_factory.mktemp("waits")
    (folder / "w.c").write_text(WAITING)
    subprocess.run(["gcc", "-O1", "w.c", "-o", "w", "-pthread"], cwd=folder, check=True)
    return folder / "w"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("pipe", "most of that waiting for input from a pipe"),
        ("sleep", "most of that sleeping"),
        ("process", "most of that waiting for another process"),
        ("lock", "most of that waiting for a lock that another thread holds"),
    ],
)
def test_what_a_program_waits_for(waiting, what, told):
    found = waits_of(Target(waiting, (what,)), 3.0)
    assert found.idle > 0.9
    assert told in found.told("w")
    assert "That is the answer" in found.told("w")


def test_a_program_that_works_does_not_wait(waiting):
    """Also where other programs have the processors: it is ready to run then."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        found = waits_of(Target(waiting, ("work",)), 3.0)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert found.idle < 0.3
    assert found.told("w") == ""


def test_what_is_not_known_is_listed():
    """Half a run of looks at nothing that is known; and a run that waits for less than nearly all of it."""
    found = Waits(2.0, 1.0)
    found.seen.update({"": 6, "sleeping": 4})
    assert found.told("w") == f"For 50% of its 2.0 s w does nothing: {WAITS}"
    assert "a lock that another thread holds" in WAITS
    assert Waits(2.0, 1.5).told("w") == ""
    assert Waits(0.09, 0.0).told("w") == ""


ASKS = """
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
int main(int n, char **words) {
    char text[64] = "0123456789012345678901234567890123456789012345678901234567890\\n", made[100];
    int file = open("/dev/null", O_WRONLY), zeros = open("/dev/zero", O_RDONLY);
    volatile long sum = 0;
    clock_t end = CLOCKS_PER_SEC;
    if (!strcmp(words[1], "kernel"))
        while (clock() < end)
            for (int k = 0; k < 100; k++) {
                char page[50000];
                sum += write(file, text, 62);
                sum += read(zeros, page, sizeof page);  /* READS */
            }
    else
        while (clock() < end)
            for (int k = 0; k < 1000; k++) {
                if (k % 10 == 0) sum += sprintf(made, "%d", k);  /* TENTH */
                sum += sprintf(made, "%g %g %g %g", k * .37, k * .11, k * 1.7, k * 7.1);  /* MOST */
            }
    return 0;
}
"""


def test_which_line_asks_a_library_or_the_kernel_for_the_run(tmp_path):
    (tmp_path / "asks.c").write_text(ASKS)
    subprocess.run(["gcc", "-g", "-O1", "asks.c", "-o", "asks"], cwd=tmp_path, check=True)
    rows = ASKS.splitlines()
    line = {mark: next(k for k, row in enumerate(rows, 1) if mark in row) for mark in ("READS", "MOST", "TENTH")}
    program = tmp_path / "asks"
    kernel = waits_of(Target(program, ("kernel",)), 5.0)
    said = kernel.asked_told(program)
    assert kernel.kernel > 0.6
    assert kernel.written[0] > 1000
    assert 62 * kernel.written[0] == pytest.approx(kernel.written[1], rel=0.01)
    assert "of asks's processor time is the kernel's work for it" in said
    assert "larger buffers mean fewer calls" in said  # 62 bytes a call
    assert said.partition("looks: ")[2].partition(" at ")[2].startswith(f"asks.c:{line['READS']} (sum += read(zeros")
    library = waits_of(Target(program, ("library",)), 5.0)
    said = library.asked_told(program)
    assert library.kernel < 0.2
    assert "kernel" not in said
    assert said.partition("looks: ")[2].partition(" at ")[2].startswith(f"asks.c:{line['MOST']} (sum += sprintf(made")
    assert library.idle < 0.3


def test_too_few_looks_tell_no_line(tmp_path):
    found = Waits(2.0, 2.0)
    found.asked.update({4096: 19})
    assert found.asked_told(tmp_path / "program") == ""
