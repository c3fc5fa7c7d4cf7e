"""What `why` says of threads that run different functions: a stranger's two counters in one struct were not told."""

import dataclasses
from collections import Counter

import pandas as pd
import pytest

from perfkit.collectors.profile.hot import HotFunction, Profile, _order
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.team import written_beside
from perfkit.diagnosis.why import Target, _Inquiry
from tests.diagnosis.programs import compiled, needed
from tests.results.test_contract import EXAMPLES

pytestmark = needed

QUEUE = """
#include <pthread.h>
#include <stdlib.h>
struct queue { volatile long made; char pad[PAD]; volatile long taken; };
__attribute__((noipa)) void *produce(void *p) {
    struct queue *q = p;
    for (long i = 0; i < 3000; i++) q->made += i;
    return p;
}
__attribute__((noipa)) void *consume(void *p) {
    struct queue *q = p;
    for (long i = 0; i < 3000; i++) q->TAKES += i;
    return p;
}
int main(void) {
    pthread_t thread;
    struct queue *q = aligned_alloc(64, 192);
    pthread_create(&thread, 0, produce, q);
    for (int k = 0; k < 3; k++) consume(q);
    return pthread_join(thread, 0);
}
"""


def functions(path, *rows):
    return [HotFunction(name, name, str(path), 9, share, 1, 1, "", thread) for name, share, thread in rows]


@pytest.mark.parametrize(
    ("pad", "takes", "said"),
    [
        (8, "taken", "one line of memory by turns (false sharing, if they run side by side"),
        (120, "taken", ""),
        (120, "made", "one variable by turns (true sharing, if they run side by side"),
    ],
)
def test_lines_that_different_functions_write_in_different_threads(pad, takes, said):
    program = compiled(f"queue{pad}{takes}", QUEUE, "-pthread", f"-DPAD={pad}", f"-DTAKES={takes}")
    hot, other = functions(program, ("consume", 0.6, 0), ("produce", 0.4, 1))
    found = written_beside(Tracer(callees=True, repeat=3), program, hot, [other], ())
    assert found.startswith(f"consume and produce, which run in different threads, write {said}" if said else "")
    assert bool(found) == bool(said)
    assert not said or "at queue" in found


def inquiry(path, *rows):
    """Return who asks about a program in which functions have these shares and threads, and its profile."""
    table = pd.DataFrame(
        [
            {
                "function": each.name, "symbol": each.symbol, "file": each.path, "samples": each.samples,
                "share": each.share, "threads": 1, "processes": 1, "by_thread": "", "thread": each.thread,
            }
            for each in functions(path, *rows)
        ]
    )  # fmt: skip
    asked = _Inquiry(Target(path), "", "zen4", 3.0, 10_000, lambda _: None, Ahead("zen4", print))
    asked.unseen, asked.spent = [], {}
    return asked, dataclasses.replace(EXAMPLES[Profile](), table=table)


def test_only_what_other_threads_do_for_a_tenth_of_the_run_is_recorded_beside_it():
    program = compiled("queue8taken", QUEUE, "-pthread", "-DPAD=8", "-DTAKES=taken")
    asked, found = inquiry(program, ("consume", 0.6, 0), ("produce", 0.4, 1))
    assert asked._beside(found, found.functions[0]).startswith("consume and produce, which run in different threads")
    assert not asked.unseen
    for share, thread in ((0.4, 0), (0.05, 1), (0.4, -1)):  # the same thread, hardly at all, and nobody knows
        asked, found = inquiry(program, ("consume", 0.6, 0), ("produce", share, thread))
        assert (asked._beside(found, found.functions[0]), asked.unseen) == ("", [])


def test_what_other_threads_run_and_was_not_compared_is_told():
    program = compiled("queue8taken", QUEUE, "-pthread", "-DPAD=8", "-DTAKES=taken")
    asked, found = inquiry(program, ("consume", 0.6, 0), ("elsewhere", 0.4, 1))
    assert not asked._beside(found, found.functions[0])
    (told,) = asked.unseen
    assert told.startswith("whether elsewhere, which other threads run, write the same lines of memory: ")


def test_functions_of_another_file_are_not_said_to_have_been_compared():
    program = compiled("queue120taken", QUEUE, "-pthread", "-DPAD=120", "-DTAKES=taken")
    asked, found = inquiry(program, ("consume", 0.5, 0), ("produce", 0.3, 1), ("far", 0.2, 1))
    found = dataclasses.replace(
        found, table=found.table.assign(file=lambda t: t["file"].where(t["function"] != "far", "/home/far.so"))
    )
    assert not asked._beside(found, found.functions[0])
    assert asked.unseen == [
        (
            "whether far, which other threads run, write the same lines of memory: another file's functions are not "
            "recorded with it"
        ),
        "produce, which other threads run, but for the lines of memory that all write: none at first",
    ]


def test_threads_are_numbered_in_each_process_in_the_order_in_which_they_were_started():
    seen = Counter({(7, 72): 5, (7, 71): 1, (9, 99): 1, (9, 90): 3})
    assert _order(seen) == {(7, 71): 0, (7, 72): 1, (9, 90): 0, (9, 99): 1}


def test_profiles_of_before_threads_were_numbered_are_read():
    old = EXAMPLES[Profile]()
    old = dataclasses.replace(old, table=old.table.drop(columns="thread", errors="ignore"))
    assert {each.thread for each in old.functions} == {-1}
