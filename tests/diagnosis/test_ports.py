"""What is said of ports: which operations take them, for kernels made to need one kind each."""

import pytest

import perfkit as pk
from perfkit.collectors import Tracer
from perfkit.diagnosis.ports import in_words
from perfkit.errors import PerfkitWarning
from tests.diagnosis.programs import compiled

# One loop for each: what it needs most is known from what it is made of.
KINDS = """
#include <immintrin.h>
#include <stdatomic.h>
static _Atomic long total;
static int table[4096];
__attribute__((noinline)) void atomics(long n) { for (long i = 0; i < n; i++) total += i; }
__attribute__((noinline, target("avx2"))) void gathers(long n) {
  __m256i s = _mm256_setzero_si256(), at = _mm256_setr_epi32(3, 70, 9, 500, 33, 801, 7, 44);
  for (long i = 0; i < n; i++)
    s = _mm256_add_epi32(s, _mm256_i32gather_epi32(table + (i & 63), at, 4));
  table[0] = _mm256_extract_epi32(s, 0);
}
__attribute__((noinline)) void loads(long n) {
  const volatile int *t = table;
  for (long i = 0; i < n; i++) { t[0]; t[1]; t[2]; t[3]; t[4]; t[5]; t[6]; t[7]; }
}
__attribute__((noinline)) void stores(long n) {
  volatile int *t = table;
  for (long i = 0; i < n; i++) { t[0] = 1; t[16] = 1; t[32] = 1; t[48] = 1; }
}
__attribute__((noinline, target("avx2"))) void shuffles(long n) {
  for (long i = 0; i < n; i++)
    asm volatile("vpermd %%ymm1,%%ymm0,%%ymm2\\n vpermq $3,%%ymm1,%%ymm3\\n vpermd %%ymm1,%%ymm0,%%ymm4"
                 ::: "xmm2", "xmm3", "xmm4");
}
int main(void) { atomics(500); gathers(500); loads(500); stores(500); shuffles(500); }
"""


@pytest.mark.parametrize(
    ("function", "group", "said"),
    [
        ("atomics", "p23A", "atomic operations: each keeps the ports p23A for 1"),
        ("gathers", "p23A", "gathers: each keeps the ports p23A for "),
        ("loads", "p23A", "loads: the ports p23A take 3 a cycle at most"),
        ("stores", "p49", "stores: the ports p49 take 2 a cycle at most"),
        ("shuffles", "p5", "the ports p5, which vpermd, vpermq share: 1 a cycle at most"),
    ],
)
def test_what_takes_the_ports_is_told(function, group, said):
    program = compiled("kinds", KINDS, "-O2")
    result = pk.Gus(pk.Microarchitecture.load("raptor_cove")).run(Tracer().run(program, function))
    assert in_words(result, group)[0].startswith(said)


def test_what_is_no_port_keeps_its_words():
    program = compiled("kinds", KINDS, "-O2")
    result = pk.Gus(pk.Microarchitecture.load("raptor_cove")).run(Tracer().run(program, "loads"))
    assert in_words(result, "L1_latency")[0] == "waiting for the L1 cache"


def test_a_multiplication_from_memory_is_no_store():
    source = (
        "__attribute__((noinline)) void f(const unsigned long *a, long n) { for (long i = 0; i < n; i++)\n"
        '  asm volatile("mulq %0" :: "m"(a[0]) : "rax", "rdx"); }\n'
        "unsigned long a[1] = {3}; int main(void) { f(a, 1000); }"
    )
    result = pk.Gus(pk.Microarchitecture.load("zen4")).run(Tracer().run(compiled("mul", source, "-O2"), "f"))
    groups = [g for g in result.program.groups if "stores" in in_words(result, g)[0]]
    assert groups == []


def test_atomic_operations_without_a_figure_have_none():
    program = compiled("kinds", KINDS, "-O2")
    with pytest.warns(PerfkitWarning, match="no table knows ADD_RM64_R64/m/lock"):
        result = pk.Gus(pk.Microarchitecture.load("ice_lake")).run(Tracer().run(program, "atomics"))
    said = [in_words(result, group)[0] for group in result.program.groups]
    assert not [each for each in said if " for 0 cycles" in each or " for 1 cycles" in each]


@pytest.mark.parametrize(
    ("address", "function", "resource", "said"),
    [
        (60, "loads", "Load", "loads: 100% of them lie across the end of a line of 64 bytes and are two accesses each"),
        (56, "loads", "Load", "loads: the ports Load take "),
        (4092, "stores", "page_split_store", "stores that cross the end of a page: 100% of them lie across the end of"),
        (60, "stores", "store_commit", "stores: they are written to the cache one after the other: 100% of them lie"),
        (56, "stores", "store_commit", "stores: they are written to the cache one after the other"),
    ],
)
def test_what_lies_across_the_end_of_a_line_is_told(address, function, resource, said):
    source = f"""
    static char room[3 * 4096] __attribute__((aligned(4096)));
    __attribute__((noinline)) void loads(const volatile char *p, long n) {{
      for (long i = 0; i < n; i++) asm volatile("mov (%0),%%rax\\nmov (%0),%%rcx\\nmov (%0),%%rdx\\nmov (%0),%%rsi"
                                                :: "r"(p) : "rax", "rcx", "rdx", "rsi");
    }}
    __attribute__((noinline)) void stores(volatile char *p, long n) {{
      for (long i = 0; i < n; i++) asm volatile("mov %1,(%0)\\nmov %1,(%0)" :: "r"(p), "r"(i) : "memory");
    }}
    int main(void) {{ loads(room + {address}, 500); stores(room + {address}, 500); }}
    """
    program = compiled(f"across-{address}", source, "-O2")
    result = pk.Gus(pk.Microarchitecture.load("zen5")).run(Tracer().run(program, function))
    told = in_words(result, resource)[0]
    assert told.startswith(said)
    assert ("across" in told) == (address != 56)


BRANCHES = """
#include <stdlib.h>
static int pick[4096];
__attribute__((noipa)) long one(long x) { return x + 1; }
__attribute__((noipa)) long two(long x) { return x ^ 3; }
__attribute__((noipa)) long three(long x) { return x * 5; }
static long (*const table[])(long) = {one, two, three};
__attribute__((noinline)) long targets(long n) {
  long s = 0;
  for (long i = 0; i < n; i++) s = table[pick[i]](s);
  return s;
}
__attribute__((noinline)) long tests(long n) {
  long s = 0;
  for (long i = 0; i < n; i++) if (pick[i] == 1) s += i / 3; else asm volatile("" : "+r"(s));
  return s;
}
__attribute__((noipa)) long nested(const int *which, long n) {
  if (!n) return 0;
  if (*which == 1) { long s = nested(which + 1, n - 1); asm volatile("" : "+r"(s)); return s + 1; }
  if (*which == 2) { long s = nested(which + 1, n - 1); asm volatile("" : "+r"(s)); return s ^ 1; }
  long s = nested(which + 1, n - 1); asm volatile("" : "+r"(s)); return s + 5;
}
__attribute__((noinline)) long returns(long n) {
  long s = 0;
  for (long i = 0; i < n; i++) s += nested(pick, 600);
  return s;
}
int main(void) {
  for (int i = 0; i < 4096; i++) pick[i] = rand() % 3;
  volatile long s = targets(4000) + tests(4000) + returns(20);
  return s == 7;
}
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("targets", "mispredicted targets of indirect jumps and calls"),
        ("tests", "mispredicted branches"),
        ("returns", "mispredicted returns: calls are nested deeper"),
    ],
)
def test_mispredicted_branches_are_told_by_their_kind(function, said):
    result = pk.Gus("zen5", warm="caches").run(
        Tracer(callees=True, early=True).run(compiled("kinds of branches", BRANCHES), function)
    )
    told, helps = in_words(result, "misprediction_penalty")
    assert told.startswith(said)
    assert ("recursion" in helps) == (function == "returns")
