/* The clock of the measuring process: core cycles without hardware counters, and whether a neighbour was busy.

   A chain of dependent 32-bit multiplications of two registers takes the same whole number of cycles per link on every
   core (3; 5 on Intel's small cores) and no core shortens it: a window between two such chains that agree within 2 %
   is timed in cycles. A busy neighbour on the core's other thread does not slow a chain, and takes up to half of the
   throughput. So a probe is timed as well: independent additions and vector multiplications, two to one, which use up
   the ports and the dispatch of every core. What a quiet core reaches is learnt from the probes themselves. */
#ifndef PERFKIT_CLOCK_H
#define PERFKIT_CLOCK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "clock_step.h"

/* What a process learns of the core while it serves a request, for those that come behind: measure.c passes it on. */
#ifndef LEARNT
#define LEARNT __attribute__((section("learnt")))
#define AT_FIRST(value) = value
extern char __start_learnt[], __stop_learnt[];
#endif

#define LINKS 1344
#define PROBES 2048 /* of four additions and two vector multiplications */
#define QUIET 1.06
/* No core since Zen and Skylake needs more than 1.5 cycles for a probe's step alone, beside a busy thread all need more. */
#define SLOWEST_QUIET 1.65

static uint64_t clock_overhead, time_overhead;
/* Ticks by which the counter advances, and a tick's nanoseconds. */
static double clock_step AT_FIRST(1), tick_ns AT_FIRST(1);
/* What a chain takes beside its links, and the counter's reading beside its least: some 40 of 4,032 cycles on a Zen 5. */
static double chain_excess;
static double link_cycles AT_FIRST(3);
static LEARNT double quiet_level AT_FIRST(1e9), known_level AT_FIRST(0); /* cycles of a probe's step */

static inline uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
static uint64_t since(uint64_t begin) {
    uint64_t took = ticks_after() - begin;
    return took > clock_overhead ? took - clock_overhead : 1;
}
static __attribute__((noinline)) uint64_t chain_of(uint64_t turns) {
    uint32_t value = 1, factor = 3;
    uint64_t begin = ticks_before();
    __asm__ volatile(".p2align 5\n1:\n\t.rept 64\n\timul %1, %0\n\t.endr\n\tdec %2\n\tjnz 1b" : "+r"(value), "+r"(factor), "+r"(turns) : : "cc");
    return since(begin);
}
static uint64_t chain(void) { return chain_of(LINKS / 64); }
static __attribute__((noinline)) uint64_t additions(void) {
    uint64_t value = 1, addend = 3, turns = LINKS / 64, begin = ticks_before();
    __asm__ volatile(".p2align 5\n1:\n\t.rept 64\n\tadd %1, %0\n\t.endr\n\tdec %2\n\tjnz 1b" : "+r"(value), "+r"(addend), "+r"(turns) : : "cc");
    return since(begin);
}
/* What code may leave behind: the direction of strings, and upper halves of vector registers, with which a Zen 4 takes longer for
   the probe's additions to vectors, as if beside a busy neighbour. */
static inline void tidy_up(void) {
    static int halves; /* 1: there are none; 2: there are */
    if (!halves) halves = 1 + (__builtin_cpu_supports("avx") != 0);
    __asm__ volatile("cld" : : : "cc");
    if (halves == 2) __asm__ volatile("vzeroupper");
}
/* Of zeros: what a kernel leaves in the registers may be denormal, and Intel cores take a hundred cycles for those. */
static __attribute__((noinline)) uint64_t probe(void) {
    uint64_t turns = PROBES / 8, begin = ticks_before();
    __asm__ volatile(
        "xorps %%xmm0, %%xmm0\n\txorps %%xmm1, %%xmm1\n\txorps %%xmm2, %%xmm2\n\txorps %%xmm3, %%xmm3\n\txorps %%xmm4, %%xmm4\n\t"
        "xorps %%xmm5, %%xmm5\n\txorps %%xmm6, %%xmm6\n\txorps %%xmm7, %%xmm7\n\txorps %%xmm8, %%xmm8\n\t"
        ".p2align 6\n1:\n\t.rept 2\n\t"
        "add %%rdi, %%rax\n\tadd %%rdi, %%rcx\n\tmulps %%xmm8, %%xmm0\n\t" "add %%rdi, %%rdx\n\tadd %%rdi, %%rsi\n\tmulps %%xmm8, %%xmm1\n\t"
        "add %%rdi, %%r8\n\tadd %%rdi, %%r9\n\tmulps %%xmm8, %%xmm2\n\t" "add %%rdi, %%r10\n\tadd %%rdi, %%r11\n\tmulps %%xmm8, %%xmm3\n\t"
        "add %%rdi, %%rax\n\tadd %%rdi, %%rcx\n\tmulps %%xmm8, %%xmm4\n\t" "add %%rdi, %%rdx\n\tadd %%rdi, %%rsi\n\tmulps %%xmm8, %%xmm5\n\t"
        "add %%rdi, %%r8\n\tadd %%rdi, %%r9\n\tmulps %%xmm8, %%xmm6\n\t" "add %%rdi, %%r10\n\tadd %%rdi, %%r11\n\tmulps %%xmm8, %%xmm7\n\t"
        ".endr\n\tdec %0\n\tjnz 1b"
        : "+r"(turns) : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "cc");
    return since(begin);
}
/* The sentinel: turns of the shortest loop. Every core known takes a branch per cycle, whatever its multipliers take. */
#define SENTINEL 8192
static __attribute__((noinline)) uint64_t sentinel_ticks(void) {
    uint64_t value = 1, addend = 3, turns = SENTINEL, begin = ticks_before();
    __asm__ volatile(".p2align 6\n1:\n\tadd %1, %0\n\tdec %2\n\tjnz 1b" : "+r"(value), "+r"(addend), "+r"(turns) : : "cc");
    return since(begin);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* The 10th percentile: the minimum is lucky, the median is busy. */
static double tenth(double *values, int n) {
    if (n == 0) return 0.0 / 0.0;
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 10];
}
/* What is one reading of a counter that advances in steps is a step off either way: the mean of what lies within a step
   (`grain`) of the 10th percentile. Without steps (0) the percentile itself. */
static double about_tenth(double *values, int n, double grain) {
    double around = tenth(values, n), sum = 0;
    int taken = 0;
    if (!(grain > 0)) return around;
    for (int i = 0; i < n; i++)
        if (values[i] >= around - grain && values[i] <= around + grain) sum += values[i], taken++;
    return sum / taken;
}
static int agree(uint64_t a, uint64_t b) { return (a > b ? (double)a / (double)b : (double)b / (double)a) <= 1.02; }

/* What stands before and after a window. */
typedef struct { uint64_t probe, chain; } mark;
static inline mark mark_before(void) {
    mark one;
    one.probe = probe();
    one.chain = chain();
    return one;
}
static inline mark mark_after(void) {
    mark one;
    one.chain = chain();
    one.probe = probe();
    return one;
}
static double cycles_a_tick(mark before, mark after) {
    return (link_cycles * LINKS + chain_excess) / (((double)before.chain + (double)after.chain) / 2);
}
static int is_steady(mark before, mark after) { return agree(before.chain, after.chain); }
/* What a quiet core reaches: the 2nd percentile of all probes, for the smallest are luck with the clock's grain. */
#define BINS 400
static LEARNT unsigned seen[BINS], seen_in_all;
static void learn(double level) {
    int bin = (int)(level * 100);
    if (bin < 0 || bin >= BINS) bin = BINS - 1;
    seen[bin]++;
    seen_in_all++;
    if (seen_in_all < 100) return;
    unsigned below = 0;
    for (int i = 0; i < BINS; i++) {
        below += seen[i];
        if (below * 50 > seen_in_all) {
            double found = (i + 1) / 100.0;
            if (found < quiet_level || !known_level) quiet_level = found;
            return;
        }
    }
}
/* Cycles of a probe's step, the slower of the two. */
static double probe_level(mark before, mark after) {
    double a = (double)before.probe / (double)before.chain, b = (double)after.probe / (double)after.chain;
    double level = (a > b ? a : b) * link_cycles * LINKS / PROBES;
    if (is_steady(before, after)) learn(level);
    return level;
}
static int is_quiet(double level) { return level <= quiet_level * QUIET && level <= SLOWEST_QUIET; }

/* Cycles of a chain beside its links: two chains against one of twice the length, the mean of the middle half. */
static double excess(void) {
    static double found[2000]; /* of a counter with steps one reading is off by a hundredth of a chain */
    double sum = 0;
    int n = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t turns = (uint64_t)i % 127 + 1; /* so that readings begin at every part of a step */
        __asm__ volatile("1:\n\tdec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
        uint64_t before = chain(), twice = chain_of(2 * LINKS / 64), after = chain();
        if (agree(before, after) && agree(before + after, twice))
            found[n++] = ((double)(before + after) - (double)twice) / ((double)twice - (double)(before + after) / 2);
    }
    if (n < 8) return 0;
    qsort(found, (size_t)n, sizeof *found, by_value);
    for (int i = n / 4; i < n - n / 4; i++) sum += found[i];
    return sum / (n - n / 4 - n / 4) * link_cycles * LINKS;
}

static void calibrate(double level) {
    uint64_t start_ns = nanoseconds(), start = ticks_before();
    clock_step = step_of_the_clock();
    uint64_t least = UINT64_MAX, least_ns = UINT64_MAX;
    for (int i = 0; i < 2000; i++) {
        uint64_t begin = ticks_before(), took = ticks_after() - begin;
        if (took < least) least = took;
        uint64_t a = nanoseconds(), b = ticks_before(), c = ticks_after(), d = nanoseconds();
        (void)b, (void)c;
        if (d - a < least_ns) least_ns = d - a;
    }
    clock_overhead = least;
    time_overhead = least_ns;
    /* A neighbour slows additions by up to a tenth and multiplications not at all: the ratio is seldom too large. */
    double ratios[301];
    int n = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t before = chain(), plain = additions(), after = chain();
        if (agree(before, after)) ratios[n++] = (double)before / (double)plain;
    }
    if (n) {
        qsort(ratios, (size_t)n, sizeof *ratios, by_value);
        double ratio = ratios[n * 9 / 10];
        link_cycles = ratio > 3.6 ? (double)(int)(ratio + 0.5) : 3;
    }
    chain_excess = excess();
    if (level > 0) quiet_level = known_level = level;
    for (int i = 0; i < 500; i++) {
        mark before = mark_before(), after = mark_after();
        probe_level(before, after);
    }
    tick_ns = (double)(nanoseconds() - start_ns) / (double)(ticks_before() - start);
}
/* The sentinel's cycles per turn, 1 wherever the clock is right: the median of three moments beside no busy
   neighbour; NaN if none was found. */
static double sentinel(void) {
    double found[3];
    int n = 0;
    for (int i = 0; i < 60 && n < 3; i++) {
        mark before = mark_before();
        uint64_t took = sentinel_ticks();
        mark after = mark_after();
        if (is_steady(before, after) && is_quiet(probe_level(before, after)))
            found[n++] = ((double)took * cycles_a_tick(before, after) - chain_excess) / SENTINEL;
    }
    if (!n) return 0.0 / 0.0;
    qsort(found, (size_t)n, sizeof *found, by_value);
    return found[n / 2];
}
#endif
