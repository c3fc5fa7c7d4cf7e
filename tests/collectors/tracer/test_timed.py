"""Calls that are timed one by one in a program that runs as it is: whose calls, and what is left behind."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perfkit.collectors.tracer.timed import time_calls

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
