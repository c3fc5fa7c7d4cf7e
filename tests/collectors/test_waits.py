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
