"""Advice that follows from what was recorded: calls that repeat, memory that is taken and given back."""

import dataclasses
import functools
import re
import warnings

import pandas as pd
import pytest

import perfkit as pk
from perfkit.collectors import Tracer
from perfkit.collectors.profile.hot import Profile
from perfkit.diagnosis.advice import allocating, asked_again
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
