"""Advice that follows from what was recorded: calls that repeat, memory that is taken and given back."""

import dataclasses
import functools
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.collectors import Tracer
from perfkit.collectors.profile.hot import HotFunction, Profile
from perfkit.collectors.tracer.timed import CallTimes
from perfkit.diagnosis.advice import allocating, asked_again, called_alike, copying, reads_alike
from perfkit.diagnosis.ahead import Ahead
from perfkit.diagnosis.why import Target, _Inquiry
from perfkit.errors import PerfkitWarning
from tests.diagnosis.programs import compiled, needed
from tests.results.examples import EXAMPLES

pytestmark = needed

STRINGS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char text[9000], other[9000], *lines[64];
__attribute__((noipa)) long again(char *s) {
    long count = 0;
    for (size_t i = 0; i < strlen(s); i++)
        if (s[i] >= 'a') s[i] -= 32; else count++;
    return count;
}
__attribute__((noipa)) long grows(char *s) {
    long count = 0;
    for (int i = 0; i < 900; i++) { s[i] = 'x'; count += strlen(s); }
    return count;
}
__attribute__((noipa)) long differ(void) {
    long count = 0;
    for (int i = 0; i < 900; i++) count += strlen(lines[i % 64]);
    return count;
}
__attribute__((noipa)) long few(char *s) {
    long count = 0;
    for (int i = 0; i < 3; i++) count += strlen(s);
    return count;
}
__attribute__((noipa)) long same(const char *a, const char *b) {
    long count = 0;
    for (int i = 0; i < 900; i++) { count += strcmp(a, b) == 0; __asm__ volatile("" ::: "memory"); }
    return count;
}
__attribute__((noipa)) long edited(char *a, const char *b) {
    long count = 0;
    for (int i = 0; i < 900; i++) { a[i % 100] ^= 1; count += strcmp(a, b) == 0; }
    return count;
}
int main(int n, char **words) {
    memset(text, 'a', 8000);
    memset(other, 'a', 8000);
    for (int i = 0; i < 64; i++) lines[i] = other + 100 * i;
    long sum = 0;
    for (int k = 0; k < 3; k++) {
        sum += few(other) + same(text, other) + edited(other, text) + differ() + again(text);
        memset(text, 0, sizeof text);
        sum += grows(text);
        memset(text, 'a', 8000);
    }
    return sum == 1;
}
"""
MEMORY = """
#include <stdlib.h>
struct node { struct node *next; long value; };
static struct node *all;
__attribute__((noipa)) long churn(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        char *p = malloc(24 + (i & 127));
        p[0] = i;
        __asm__ volatile("" : : "r"(p) : "memory");
        sum += p[0];
        free(p);
    }
    return sum;
}
__attribute__((noipa)) long keep(long n) {
    for (long i = 0; i < n; i++) {
        struct node *p = malloc(sizeof *p);
        p->next = all, p->value = i, all = p;
    }
    return all->value;
}
int main(void) { return churn(2000) + churn(2000) + keep(2000) == 1; }
"""


@functools.cache
def simulated(name, source, function):
    tracer = Tracer(limit=150_000, callees=True, early=True)
    with warnings.catch_warnings():  # a part of free is not recorded
        warnings.simplefilter("ignore", PerfkitWarning)
        return pk.Gus("zen5", warm="caches").run(tracer.run(compiled(name, source), function))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("again", r"^strlen is called again and again with the same string: \d+ times at strings\.c:8 .*length"),
        ("same", r"^strcmp is called again and again with the same strings, which nothing changes in between: "),
        ("grows", "^$"),  # reads the same 64 bytes again and again, and another length each time
        ("differ", "^$"),
        ("few", "^$"),
        ("edited", "^$"),
    ],
)
def test_a_call_that_repeats_is_told_where_its_strings_are_the_same_ones(function, said):
    found = asked_again(simulated("strings", STRINGS, function))
    assert re.match(said, found), found


def run_with(*rows):
    """Return a run's profile with functions of these names, libraries and shares."""
    table = pd.DataFrame(
        [
            {
                "function": name, "symbol": name, "file": path, "samples": round(1000 * share), "share": share,
                "threads": 1, "processes": 1, "by_thread": "",
            }
            for name, path, share in rows
        ]
    )  # fmt: skip
    return dataclasses.replace(EXAMPLES[Profile](), table=table)


LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


@pytest.mark.parametrize(
    ("function", "line", "what"),
    [("churn", 8, "take it once, before the loop, and use it again"), ("keep", 18, "take memory for many at once")],
)
def test_memory_that_is_taken_for_much_of_a_run_is_told_first_with_its_line(function, line, what):
    trace = simulated("memory", MEMORY, function).trace
    found = run_with(("_int_free", LIBC, 0.4), ("malloc", LIBC, 0.3), (function, "/srv/ada/memory", 0.3))
    said = allocating(found, trace)
    assert said.startswith("70% of the run is taking and giving back memory")
    assert f"memory.c:{line} takes memory " in said
    assert what in said


def test_memory_is_not_told_where_it_has_little_of_the_run_or_is_the_programs_own():
    trace = simulated("memory", MEMORY, "churn").trace
    assert not allocating(None, trace)
    assert not allocating(run_with(("malloc", LIBC, 0.1), ("churn", "/srv/ada/memory", 0.9)), trace)
    assert not allocating(run_with(("malloc", "/srv/ada/memory", 0.8), ("memcpy", LIBC, 0.2)), trace)


PURE = """
#include <stdlib.h>
static double v[300], w[300], out[300];
static long table[300], sum;
__attribute__((noipa)) double norm(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += x[i] * x[i];
    return __builtin_sqrt(s);
}
__attribute__((noipa)) double blurred(const double *x, long n, double by) {
    double s = by;
    for (long i = 0; i < n; i++) s = s * by + x[i];
    return s;
}
__attribute__((noipa)) long counts(const long *x, long n) {
    for (long i = 0; i < n; i++) sum += x[i];
    return sum;
}
__attribute__((noipa)) void same(void) { for (int i = 0; i < 300; i++) out[i] = v[i] / norm(v, 300); }
__attribute__((noipa)) void changes(void) { for (int i = 0; i < 300; i++) { v[i] += 1; out[i] = norm(v, 300); } }
__attribute__((noipa)) void others(void) { for (int i = 0; i < 300; i++) out[i] = norm(i & 1 ? v : w, 300); }
__attribute__((noipa)) void adds(void) { for (int i = 0; i < 300; i++) out[i] = counts(table, 300); }
__attribute__((noipa)) void few(void) { for (int i = 0; i < 5; i++) out[i] = v[i] / norm(v, 300); }
int main(int count, char **words) {
    for (int k = 0; k < (count > 1 ? 20000 : 2); k++) {
        if (count > 1 && words[1][0] == 's') { same(); v[k % 300] += 1; }
        else if (count > 1 && words[1][0] == 'c') changes();
        else if (count > 1) for (int i = 0; i < 300; i++) out[i] = blurred(v, 300, 1e-3 * i);
        else { same(); changes(); others(); adds(); few(); }
    }
    return sum == 1;
}
"""


@pytest.mark.parametrize(
    ("function", "called", "alike", "calls"),
    [
        ("same", "norm", 299, 300), ("changes", "norm", 0, 300), ("others", "norm", 0, 300), ("adds", "counts", 0, 300),
        ("few", "norm", 0, 5),
    ],
)  # fmt: skip
def test_calls_on_memory_that_nothing_changes_are_told_from_others(function, called, alike, calls):
    tracer = Tracer(limit=2_000_000, callees=True, early=True)
    trace = tracer.run(compiled("pure", PURE, "-fno-math-errno"), function)
    assert called_alike(trace, called)[:2] == (alike, calls)


def test_calls_that_do_the_same_to_the_same_memory_are_alike():
    program = compiled("pure", PURE, "-fno-math-errno")
    calls = [Tracer(repeat=30, early=True).run(program, name) for name in ("norm", "counts", "blurred")[:2]]
    begins = [np.flatnonzero(each.stream == each.stream[0]) for each in calls]
    assert [reads_alike(*each) for each in zip(calls, begins, strict=True)] == [True, False]  # one writes a variable


@pytest.mark.parametrize(("word", "told"), [("same", True), ("changes", False), ("blurred", False)])
def test_why_says_that_a_function_need_not_run_again(word, told):
    answer = pk.why(compiled("pure", PURE, "-fno-math-errno"), arguments=[word], core="zen5")
    assert answer.function in ("norm", "blurred")
    # The first of all, but for a doubt that is graver: this core is another one than was measured on.
    first = next(each for each in answer.lead if "do not rely on this" not in each)
    assert first.startswith("norm is called again and again on the same memory") == told
    if told:
        assert re.search(r"times\s+at\s+pure\.c:19", answer.report())


def test_memory_that_another_thread_may_write_is_not_called_unchanged(monkeypatch):
    """A recording of one thread does not hold what others write between its calls."""
    program = compiled("pure", PURE, "-fno-math-errno")
    trace = Tracer(repeat=30, early=True).run(program, "norm")
    timed = CallTimes(np.full(900, 1000), 900, 0, (1.0,), 0.0, False, "", 1.0)
    hot = HotFunction("norm", "norm", str(program), 9, 1.0, 1, 1)
    asked = _Inquiry(Target(program), "", "zen5", 1.0, 1000, lambda _: None, Ahead("zen5", print))
    above: list[object] = []
    monkeypatch.setattr(asked, "_known", lambda _: None)
    monkeypatch.setattr("perfkit.diagnosis.why._returned_to", lambda *_: above.append(1))
    assert asked._called_alike(None, hot, [timed], trace) == ""
    assert above, "the caller of a program of one thread is asked for"
    above.clear()
    monkeypatch.setattr("perfkit.diagnosis.why.starts_threads", lambda _: "pthread_create")
    assert asked._called_alike(None, hot, [timed], trace) == ""
    assert not above


def test_copies_that_take_much_of_a_run_are_told_with_their_line():
    trace = simulated("copies", COPIES, "grow").trace
    found = run_with(("__memcpy_avx512_unaligned_erms", LIBC, 0.7), ("grow", "/srv/ada/copies", 0.3))
    said = copying(found, trace)
    assert said.startswith("70% of the run is copying memory")
    assert "copies.c:7 copies " in said
    assert "append in place" in said
    assert not copying(None, trace)
    assert not copying(run_with(("__memcpy_evex", LIBC, 0.1), ("grow", "/srv/ada/copies", 0.9)), trace)
    assert not copying(run_with(("memcpy_of_mine", "/srv/ada/copies", 0.9), ("grow", LIBC, 0.1)), trace)


COPIES = """
#include <stdlib.h>
#include <string.h>
static char all[2][40000];
__attribute__((noipa)) long grow(long n) {
    for (long i = 1; i < n; i++) {
        memcpy(all[i & 1], all[~i & 1], 16 * i);
        all[i & 1][16 * i] = i;
    }
    return all[0][3];
}
int main(void) { return grow(2000) == 99; }
"""
