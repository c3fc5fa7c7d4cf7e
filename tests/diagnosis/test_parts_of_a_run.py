"""What is explained is a part of the run: the first sentence says so, and what the rest of it does."""

from collections import Counter

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.profile.hot import HotFunction, _by_thread
from perfkit.collectors.profile.sampled import Target
from perfkit.collectors.tracer.timed import CallTimes
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.calls import Calls
from perfkit.diagnosis.team import Team
from perfkit.diagnosis.why import _Inquiry
from tests.diagnosis.programs import compiled, needed

pytestmark = needed

PHASES = """
#include <stdio.h>
__attribute__((noipa)) double first(double x, long n) { for (long i = 0; i < n; i++) x = x * 0.999 + 0.5; return x; }
__attribute__((noipa)) double later(double x, long n) { for (long i = 0; i < n; i++) x = 1 / (x + 1); return x; }
int main(void) {
    double s = 0;
    for (int k = 0; k < 40000; k++) s += first(k, 10000);
    for (int k = 0; k < 400000; k++) s += later(k, 10000);
    printf("%g\\n", s);
}
"""
WAITING = """
#include <stdio.h>
double x[4000];
__attribute__((noipa)) double solve(void) {
    double s = 0;
    #pragma omp parallel for num_threads(2) schedule(static) reduction(+:s)
    for (int i = 0; i < 4000; i++) for (int k = 0; k < (i < 2000 ? 20 : 400); k++) s = s * 0.5 + x[i];
    return s;
}
int main(void) {
    double s = 0;
    for (int k = 0; k < 300; k++) s += solve();
    printf("%g\\n", s);
}
"""
LITTLE = """
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static char from[1 << 20], to[1 << 20];
__attribute__((noipa)) long few(const char *x, long n) { long s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
int main(void) {
    long s = 0;
    for (int k = 0; k < 12000; k++) {
        __builtin_memcpy(to, from, sizeof to + (k & 1) - 1);
        s += few(to, 6000) + compare(&k, &k);
    }
    printf("%ld\\n", s);
}
"""


def test_that_a_run_was_stopped_stands_beside_the_answer():
    found = pk.why(compiled("phases", PHASES), seconds=0.3)
    assert found.function == "first"
    assert found.later.startswith("The run was stopped after 0.3 s, and what it does later was not seen (--timeout 3 ")
    assert found.headline().endswith(found.later)
    assert found.to_dict()["later"] == found.later
    assert found.to_dict()["doubt"] == found.doubt
    asked = pk.why(compiled("phases", PHASES), "first", seconds=0.3)
    assert asked.later == ""  # who names the function knows what is explained


def test_threads_that_wait_come_first_and_uneven_work_with_them(monkeypatch, tmp_path):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000000")  # some milliseconds
    found = pk.why(compiled("waiting", WAITING, "-fopenmp"), seconds=1)
    waiting, uneven = found.headline().split(". ")[:2]
    assert waiting.partition("% of the run's processor time")[2].startswith(
        " is spent in OpenMP's library, where threads"
    )
    assert "have uneven work: the slowest takes 1.9" in uneven or "have uneven work: the slowest takes 1.8" in uneven
    assert pk.Diagnosis.load(found.save(tmp_path / "answer")).first == found.first


def test_a_run_that_is_spent_in_a_library_is_explained_where_it_is_called():
    found = pk.why(compiled("little", LITTLE), seconds=1)
    assert (found.function, found.share) == ("main", None)  # of the run it has what memcpy has there, and its own
    assert "what is explained has only " not in found.doubt
    assert "little.c:10 (__builtin_memcpy" in found.headline()
    assert found.to_dict()["share"] is None


def test_samples_by_thread_are_told_apart_by_their_order_in_each_run():
    assert _by_thread(Counter({(1, 11): 5, (1, 12): 10, (2, 22): 11, (2, 21): 4})) == [9, 21]
    assert _by_thread(Counter({(1, 11): 5, (1, 12): 10, (2, 22): 11})) == []  # the runs differ
    assert _by_thread(Counter({(1, 11): 5})) == []


class Cut(tuple):
    """Traces of threads, none of them whole."""

    complete = False


@pytest.mark.parametrize(
    ("sampled", "much"),
    [
        ((6, 12, 19, 26, 6, 12, 18, 26), 52 * 4 / 125),  # started anew for a second round
        ((31, 30, 33, 31), 0.0),
        ((3, 1, 2, 3), 0.0),  # too few to tell
        ((10, 20, 30), 0.0),  # of other threads
        ((), 0.0),
    ],
)
def test_where_calls_are_cut_the_samples_say_how_even_threads_are(sampled, much):
    team = Team("work", Cut(range(4)), np.zeros(4), "work", explained=True, sampled=sampled)
    assert team.imbalance[0] == pytest.approx(much)


@pytest.mark.parametrize(
    ("ended", "told"),
    [("", "1,998 of 2,000 calls;"), ("stopped after 3 s", "all but 2 of at least 2,000 calls (their run was stopped")],
)
def test_calls_that_nobody_counted_to_the_end_are_a_lower_bound(ended, told):
    trace = pk.datasets.load("traces/correlation-v5-small").head(100)
    asked = _Inquiry(Target("/nowhere"), "", "zen4", 3.0, 1000, lambda _: None, Ahead("zen4", print))
    asked.unseen = []
    timed = CallTimes(np.full(2000, 500.0), 2000, 0, (1.0,), 0.0, False, ended, 3.0)
    asked._look(None, HotFunction("f", "f", "/f", 1, 1.0, 1, 1), [timed], Calls(3, 2), trace, None)
    assert any(each.startswith(told) for each in asked.unseen)
